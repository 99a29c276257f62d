"""`simile train`: from a log file to a policy file, with progress, checkpoints and a verdict."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simile._common.files import read_bytes
from simile.cli import INTERRUPTED, interrupted, options
from simile.cli.output import to_json
from simile.errors import ArgumentError, DataError
from simile.learning import ALGORITHMS

if TYPE_CHECKING:
    from simile.data.demonstrations import Demonstrations
    from simile.data.recorded import Recorded
    from simile.evaluation.evaluation import Evaluation
    from simile.learning.algorithms import Run
    from simile.learning.distributed import DistributedDemonstrations
    from simile.learning.distributed.dask import DaskBackend
    from simile.learning.problem import Fitted, Watch
    from simile.learning.rounds import Round

MOST_HELD_OUT = 2**26  # bytes of held-out frames that are brought here to be shown


def _resume(ctx: click.Context, _: click.Parameter, folder: Path | None) -> Path | None:
    """Take up the options that the interrupted run was started with."""
    if folder is not None:
        if not (folder / "config.toml").exists():
            raise click.ClickException(
                f"--resume: {folder} holds no config.toml of an earlier run: train with --out first"
            )
        # Whom to trust is for the user to say: a folder that somebody sent could say anything.
        options.use_config(ctx, folder / "config.toml", without=("trust",))
    return folder


@click.command(short_help="Learn a policy from recorded demonstrations.")
@options.data_argument
@options.config_option
@options.run_option
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    is_eager=True,
    callback=_resume,
    help="Folder of an interrupted run: take it up, with its options, where it stopped.",
)
@click.option("--overwrite", is_flag=True, help="Replace the results of an earlier run.")
@options.column_options
@options.reading_options
@click.option(
    "--algorithm",
    type=click.Choice(ALGORITHMS),
    default="learn",
    help="What learns: our best by default; paper is Algorithm 2 as printed, authors as their script has it.",
)
@options.learning_options
@options.dask_options
@options.report_option
@options.trust_option
@click.pass_context
def train(ctx: click.Context, /, **given: Any) -> None:
    """Learn a policy from DATA: a file, a folder, several files or a quoted glob, or URLs (s3://, https://).

    Judges the policy beside the expert, holding the last action, and the best simple filter: on all recordings, each by
    parts that have not seen it, or on those that --test keeps apart. Writes policy.safetensors, config.toml (all
    options, for --config), summary.json and report.html, a page to look at, to the folder of --out. Meanwhile
    rounds.jsonl there has a line for each fit or round and, of rounds, it holds the best policy so far.

    With --dask the workers of a cluster read the data and learn from them: the policy is that of one machine, byte for
    byte. It is judged there too; held-out sequences are brought here to be shown, 64 MiB of them at most.
    """
    folder = given["out"] = given["resume"] or given["out"]
    options.check_exact(given)
    _take_folder(ctx, folder, resume=given["resume"] is not None, overwrite=given["overwrite"])
    from simile.learning import runs

    if given["initial"] and Path(given["initial"]).resolve() == (folder / runs.POLICY).resolve():
        raise click.ClickException(
            f"--initial: {given['initial']} is what this run would write over: choose another folder (--out)"
        )
    options.settle_lead(given)
    settings = runs.settings(given)
    with options.cluster(given, settings) as backend:
        _train(ctx, folder, given, settings, backend)


def _train(
    ctx: click.Context, folder: Path, given: dict[str, Any], settings: dict[str, Any], backend: DaskBackend | None
) -> None:
    from simile.learning import runs
    from simile.learning.components import MODELS
    from simile.learning.distributed import DistributedDemonstrations
    from simile.models import SmoothForest
    from simile.policies.storage.foreign import write_trust
    from simile.policies.storage.loading import save_own

    demos, test = options.read_parts(given, backend)
    options.tell_timing(settings, demos)
    if isinstance(test, DistributedDemonstrations) and len(test.draw(MOST_HELD_OUT)) == len(test):
        test = test.gather()
    rounds = given["algorithm"] != "learn"
    settings.setdefault("model", SmoothForest() if rounds else MODELS)
    types = _check_model(settings["model"], demos)
    share = (0.2 if rounds else 0.0) if given["validation"] is None else given["validation"]
    fitted, validation = demos.hold_out(share, seed=given["seed"]) if share > 0.0 else (demos, None)
    names = [str(p.name) for p in ctx.command.params if p.name not in ("resume", "overwrite")]
    runs.RunFolder(folder).write_config(runs.as_read({name: given.get(name) for name in names}, demos))
    run = _learn(folder, given, settings, fitted, validation, backend, by_validation=rounds)
    shown, note = (None, ()) if test is None else _show(test, given["seed"])
    run = replace(run, notes=(*run.notes, *note))
    policy = folder / runs.POLICY
    save_own(run.policy, policy)
    click.echo(run)
    if run.interrupted:
        click.echo(f"\n{policy} holds the best policy so far; go on with: simile train --resume {folder}")
        ctx.exit(INTERRUPTED)
    if run.stacked is not None:
        save_own(run.stacked, folder / runs.PATH)
    if test is None and run.judged is not None:
        runs.RunFolder(folder).write_judged(run.judged)
    new = "" if test is None else runs.tell_new(given, demos, test)
    try:
        found = _evaluate(run, folder, settings, fitted, test, new)
    except DataError as error:
        raise DataError(
            f"{error}. The policy is kept in {policy}; to judge it, hold out others: --test FILE or SHARE, or --seed"
        ) from None
    _write_summary(folder / runs.SUMMARY, run, found, shown)
    shutil.rmtree(folder / runs.CHECKPOINT, ignore_errors=True)
    chosen = "" if run.new in ("", new) else f"; where choices were made: {run.new}"
    click.echo(f"\n{found}" if test is None else f"\n{found}\nWhat is new to it where it was judged: {new}{chosen}.")
    trust = f" {write_trust(types)}" if types else ""
    click.echo(f"\nPolicy: {policy}\n        {run.policy}\nRun it: simile run {policy}{trust} < contexts.csv")
    if given["report"]:
        from simile.evaluation.report import Report

        about = Report.of_folder(
            runs.RunFolder(folder), demos=shown, trusted=given["trust"], max_memory=given["max_memory"]
        )
        about.save(folder / runs.REPORT)
        click.echo(f"Look at it: {folder / runs.REPORT}")


def _show(test: Demonstrations | DistributedDemonstrations, seed: int) -> tuple[Demonstrations, tuple[str, ...]]:
    """Return the held-out sequences, or as many as come here, and a note that says so, to show what a policy does."""
    from simile.data.demonstrations import Demonstrations

    if isinstance(test, Demonstrations):
        return test, ()
    some = test.draw(MOST_HELD_OUT, seed=seed)
    note = f"judged on {len(test)} held-out sequences; shown, and told how they move, are {len(some)} drawn by chance"
    return some.gather(), (f"{note}: as many as come here, {MOST_HELD_OUT >> 20} MiB",)


def _take_folder(ctx: click.Context, folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Hold the folder to the end of the command, and refuse to write over the results of another run."""
    from simile.learning.runs import BASELINE, CHECKPOINT, JUDGED, PATH, POLICY, REPORT, ROUNDS, SUMMARY, RunFolder

    ctx.with_resource(RunFolder(folder).hold())
    if resume:
        return
    if any((folder / name).exists() for name in (POLICY, CHECKPOINT)) and not overwrite:
        raise click.ClickException(
            f"--out: {folder} holds an earlier run: go on with it (--resume {folder}), replace it (--overwrite) or "
            "choose another folder"
        )
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    for name in (
        SUMMARY,
        ROUNDS,
        REPORT,
        BASELINE,
        JUDGED,
        PATH,
    ):  # of the earlier run: they would be taken for this one's
        (folder / name).unlink(missing_ok=True)


def _check_model(model: Any, demos: Recorded) -> tuple[str, ...]:
    """Say before the training, not after, that its policy could not be saved; returns what it takes to load it."""
    from simile.models.ridge import FoldRegressor
    from simile.policies.storage.loading import check_savable

    several = model if isinstance(model, tuple) else (model,)
    asked = [m for m in several if not isinstance(m, FoldRegressor)]
    return tuple(sorted({name for one in asked for name in check_savable(one, n_actions=demos.n_actions)}))


def _learn(
    folder: Path,
    given: dict[str, Any],
    settings: dict[str, Any],
    demos: Recorded,
    validation: Recorded | None,
    backend: DaskBackend | None,
    *,
    by_validation: bool,
) -> Run:
    from simile.cli.progress import Training
    from simile.data.recorded import Units
    from simile.learning import algorithms
    from simile.learning.checkpoints import Checkpointed
    from simile.learning.runs import CHECKPOINT, POLICY, ROUNDS
    from simile.models.ridge import FoldRegressor

    said = {name: repr(value) for name, value in settings.items() if name != "initial"}
    if given["initial"]:
        said["initial"] = hashlib.sha256(read_bytes(given["initial"])).hexdigest()
    if (origin := Units.of(demos).origin) is not None:  # older fits took the contexts as they are
        said["origin"] = repr(origin.tolist())
    key = hashlib.sha256(json.dumps([given["algorithm"], demos.digest(), said]).encode()).hexdigest()

    def keep_fits(model: Any, place: Path) -> Any:
        """Let a model write down its fits, unless they take no time."""
        if isinstance(model, FoldRegressor):
            return model
        return Checkpointed(model, place, key, given["trust"])

    model, place = settings["model"], folder / CHECKPOINT
    if isinstance(model, tuple):
        steps, model = 1, tuple(keep_fits(m, place / str(i)) for i, m in enumerate(model))  # the fits say how many
    else:
        steps, model = settings.get("n_rounds", 10) + 1, keep_fits(model, place)
    with Training(steps) as progress:
        record = _Record(folder, progress, by_validation)
        try:
            run: Run = getattr(algorithms, given["algorithm"])(
                demos,
                **{**settings, "model": model},
                validation=validation,
                backend=backend,
                watch=record,
            )
        except (ArgumentError, DataError):
            # Resumed, it would fail again: what was fitted is of no use, and would be in the way of the next try.
            if given["resume"] is None:
                shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
                for name in (POLICY, ROUNDS):
                    (folder / name).unlink(missing_ok=True)
            raise
        except (Exception, KeyboardInterrupt):  # before there was a first round to keep, or disguised by a library
            if not interrupted.is_set():
                raise
            click.echo(f"simile: interrupted; go on with: simile train --resume {folder}", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
    return run


def _evaluate(
    run: Run,
    folder: Path,
    settings: dict[str, Any],
    demos: Recorded,
    test: Demonstrations | DistributedDemonstrations | None,
    new: str,
) -> Evaluation:
    """Judge the policy beside the best simple filter, which stays in the folder: who judges it later has it, too."""
    from simile.evaluation.evaluation import Evaluation, evaluate
    from simile.learning.runs import BASELINE
    from simile.learning.simple_filters import fit_simple_filter
    from simile.policies.policies import parts
    from simile.policies.storage.loading import save_own

    if run.simple is None:
        horizon = next(part.horizon for _, part in parts(run.policy)).without_actions()
        demos = demos.foretell(horizon.known)
        chosen, space = run.chosen, run.policy.space
        budget = chosen.roughness if math.isnan(chosen.validation_roughness) else chosen.validation_roughness
        simple = fit_simple_filter(demos, horizon, budget=budget, space=space, seed=settings["seed"])
        run = replace(run, simple=simple)
    baseline = run.baseline
    if baseline is not None:
        save_own(baseline, folder / BASELINE)
    if test is None:
        assert run.judged is not None
        return Evaluation.of(run.judged)
    return replace(evaluate(run.policy, test, baseline=baseline), new=new)


@dataclass
class _Record:
    """Keeps, in the folder of a run, every fit or round and, of rounds, the best policy: who looks in sees them."""

    folder: Path
    progress: Watch
    by_validation: bool
    turns: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        from simile._common.files import write_atomically
        from simile.learning.runs import ROUNDS

        write_atomically(self.folder / ROUNDS, b"")

    def __call__(self, turn: Round | Fitted) -> None:
        """Take a round, or a fit."""
        from simile._common.files import append
        from simile.learning.algorithms import Run
        from simile.learning.problem import Fitted
        from simile.learning.runs import POLICY, ROUNDS
        from simile.policies.storage.loading import save_own

        self.progress(turn)
        if isinstance(turn, Fitted):
            append(self.folder / ROUNDS, f"{to_json(asdict(turn), indent=None)}\n")
            return
        self.turns.append(turn)
        save_own(Run(tuple(self.turns), by_validation=self.by_validation).policy, self.folder / POLICY)
        append(self.folder / ROUNDS, f"{to_json(turn.measured(), indent=None)}\n")


def _write_summary(path: Path, run: Run, found: Evaluation, shown: Demonstrations | None) -> None:
    from simile._common.files import write_atomically

    path_of = [] if run.frontier is None else run.frontier.points
    own = [(math.sqrt(point.error), point.roughness) for point in path_of]  # of what the parts had not seen
    if shown is not None:
        own = [(s.rmse, s.roughness) for s in (found.roll(point.policy).tally.score for point in path_of)]
    summary = {
        **found.to_dict(),
        "notes": list(run.notes),
        "new": found.new,  # in the held-out data
        "new_to_choices": run.new,
        "chosen_round": run.chosen.number,
        "rounds": [turn.measured() for turn in run.rounds],
        "mixture": list(run.mixed),
        "digest": None if shown is None else shown.digest(),  # of the held-out data, or of those that are shown
        "path": [
            {"smoothness": point.smoothness, "lag": point.lag, "error": error, "roughness": roughness}
            for point, (error, roughness) in zip(path_of, own, strict=True)
            if not math.isnan(error)
        ],
    }
    write_atomically(path, f"{to_json(summary)}\n".encode())
