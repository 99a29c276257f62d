"""`simile train`: from a log file to a policy file, with progress, checkpoints and a verdict."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simile.cli import INTERRUPTED, options
from simile.cli.output import to_json
from simile.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from simile.algorithms import Run
    from simile.comparison import Judgement
    from simile.demonstrations import Demonstrations

POLICY, CONFIG, CHECKPOINT, SUMMARY = "policy.safetensors", "config.toml", "checkpoint", "summary.json"
ALTERNATIVE = "alternative.safetensors"  # something simpler that does better, where there is such a thing


def _resume(ctx: click.Context, _: click.Parameter, folder: Path | None) -> Path | None:
    """Take up the options that the interrupted run was started with."""
    if folder is not None:
        if not (folder / CONFIG).exists():
            raise click.ClickException(
                f"--resume: {folder} holds no {CONFIG} of an earlier run: train with --out first"
            )
        options.use_config(ctx, folder / CONFIG)
    return folder


@click.command(short_help="Learn a policy from recorded demonstrations.")
@options.data_argument
@options.config_option
@click.option(
    "--out", type=click.Path(path_type=Path), default="run", show_default=True, help="Folder for the results."
)
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
@click.option("--algorithm", type=click.Choice(options.ALGORITHMS), default="learn", show_default=True)
@options.learning_options
@options.trust_option
@click.pass_context
def train(ctx: click.Context, /, **given: Any) -> None:
    """Learn a policy from DATA: a file, a folder, several files or a quoted glob.

    Writes policy.safetensors, config.toml (all options, for --config) and summary.json to the folder of --out, and
    judges the policy on held-out sequences beside the expert, holding the last action, and simple filters.
    """
    folder = given["out"] = given["resume"] or given["out"]
    _check_folder(folder, resume=given["resume"] is not None, overwrite=given["overwrite"])
    from simile.algorithms import hold_out
    from simile.crossfit import MODELS
    from simile.models import SmoothForest

    demos, test = options.read_and_hold_out(given["data"], given)
    settings = options.settings(given)
    rounds = given["algorithm"] != "learn" or options.needs_rounds(settings)
    settings.setdefault("model", SmoothForest() if rounds else MODELS)
    _check_model(settings["model"], demos, given["trust"])
    share = (0.2 if rounds else 0.0) if given["validation"] is None else given["validation"]
    fitted, validation = hold_out(demos, share, seed=given["seed"]) if share > 0.0 else (demos, None)
    _write_config(folder / CONFIG, {str(p.name): given.get(str(p.name)) for p in ctx.command.params})
    run = _learn(folder, given, settings, fitted, validation)
    run.policy.save(folder / POLICY)
    if run.alternative is not None:
        run.alternative.save(folder / ALTERNATIVE)
    click.echo(run)
    if run.interrupted:
        click.echo(f"\n{folder / POLICY} holds the best policy so far; go on with: simile train --resume {folder}")
        ctx.exit(INTERRUPTED)
    found = _judge(run, settings, fitted, validation, test)
    _write_summary(folder / SUMMARY, run, found)
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    click.echo(f"\n{found}\n\n{found.verdict()}")
    click.echo(f"\nPolicy: {folder / POLICY}\nRun it: simile run {folder / POLICY} < contexts.csv")


def _check_folder(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse to write over the results of another run."""
    if folder.exists() and not folder.is_dir():
        raise click.ClickException(f"--out: {folder} is not a folder")
    if resume:
        return
    if any((folder / name).exists() for name in (POLICY, CHECKPOINT)) and not overwrite:
        raise click.ClickException(
            f"--out: {folder} holds an earlier run: go on with it (--resume {folder}), replace it (--overwrite) or "
            "choose another folder"
        )
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)


def _check_model(model: Any, demos: Demonstrations, trust: tuple[str, ...]) -> None:
    """Say before the training, not after, that its policy could not be saved."""
    from simile.ridge import RolloutRegressor
    from simile.storage import check_savable

    for one in model if isinstance(model, tuple) else (model,):
        if not isinstance(one, RolloutRegressor):
            check_savable(one, n_actions=demos.n_actions, trusted=trust)


def _learn(
    folder: Path,
    given: dict[str, Any],
    settings: dict[str, Any],
    demos: Demonstrations,
    validation: Demonstrations | None,
) -> Run:
    from simile import algorithms
    from simile.checkpoints import Checkpointed
    from simile.cli.progress import Rounds
    from simile.ridge import RolloutRegressor

    said = {name: repr(value) for name, value in settings.items()}
    key = hashlib.sha256(json.dumps([given["algorithm"], demos.digest(), said]).encode()).hexdigest()

    def kept(model: Any, place: Path) -> Any:
        """Let a model write down its fits; those through the roll-out take no time."""
        return model if isinstance(model, RolloutRegressor) else Checkpointed(model, place, key, given["trust"])

    model, place = settings["model"], folder / CHECKPOINT
    if isinstance(model, tuple):
        steps, model = len(model), tuple(kept(m, place / str(i)) for i, m in enumerate(model))
    else:
        steps, model = settings.get("n_rounds", 10) + 1, kept(model, place)
    with Rounds(steps) as progress:
        try:
            run: Run = getattr(algorithms, given["algorithm"])(
                demos, **{**settings, "model": model}, validation=validation, watch=progress
            )
        except (ArgumentError, DataError):
            # Resumed, it would fail again: what was fitted is of no use, and would be in the way of the next try.
            if given["resume"] is None:
                shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
            raise
        except KeyboardInterrupt:  # before there was a first round to keep
            click.echo(f"simile: interrupted; go on with: simile train --resume {folder}", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
    return run


def _judge(
    run: Run,
    settings: dict[str, Any],
    demos: Demonstrations,
    validation: Demonstrations | None,
    test: Demonstrations,
) -> Judgement:
    from simile.algorithms import hold_out
    from simile.comparison import judge, simple_filters

    if validation is None:  # the filters have knobs to tune
        demos, validation = hold_out(demos, 0.2, seed=settings["seed"])
    rest = {name: settings[name] for name in ("horizon", "seed") if name in settings}
    rivals = {n: (p, s) for n, p, s in simple_filters(demos, validation, run.policy, **rest)}
    return judge({"policy": (run.policy, math.nan), **rivals}, test)


def _write_config(path: Path, given: dict[str, Any]) -> None:
    """Keep every option, given or default, so that --config repeats the run."""
    import tomli_w

    from simile._files import write_atomically

    kept = {
        name: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if value not in (None, ()) and name not in ("resume", "overwrite")
    }
    write_atomically(path, tomli_w.dumps(kept).encode())


def _write_summary(path: Path, run: Run, found: Judgement) -> None:
    from simile._files import write_atomically

    measured = (
        "number",
        "beta",
        "sigma",
        "error",
        "roughness",
        "radius",
        "validation_error",
        "validation_roughness",
        "diverged",
    )
    summary = {
        "verdict": found.verdict(),
        "notes": list(run.notes),
        "chosen_round": run.chosen.number,
        "rounds": [{name: getattr(r, name) for name in measured} for r in run.rounds],
        "held_out": found.rows(),
    }
    write_atomically(path, f"{to_json(summary)}\n".encode())
