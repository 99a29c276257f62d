"""`simile evaluate`, `rollout`, `diagnose` and `compare`: how good is it, and beside what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simile.cli import options
from simile.cli.output import to_json
from simile.learning import ALGORITHMS

if TYPE_CHECKING:
    from simile.data.demonstrations import Demonstrations
    from simile.policies.bands import Banded


@click.command(short_help="Measure error, smoothness and lag of a policy.")
@options.policy_on_data
@options.start_option
@options.stage_option
@options.loss_option
@options.band_option
@options.dask_option
@options.trust_option
@options.json_option
def evaluate(policy: Path, data: Any, start: str, trust: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Roll POLICY out over DATA, and say how accurate, smooth and late it is, and whether it moves like the expert.

    It is compared with holding the last action and, where POLICY lies in the folder of a training, with the best simple
    filter on the same data. With --band it says, too, how much of each sequence the policy's own band holds, and how
    wide it is.

    The columns are those that the policy was trained on. With --dask the workers of a cluster read the data, roll the
    policy out over them and measure: the numbers are those of one machine.
    """
    from simile.evaluation.evaluation import evaluate as measure
    from simile.learning import runs
    from simile.learning.recipes import parse

    loss = None if given["loss"] is None else parse(given["loss"], "loss")
    found, baseline = options.load_policy(policy, trust, given["max_memory"]), None
    if policy.name == runs.POLICY and (beside := policy.with_name(runs.BASELINE)).exists():
        baseline = options.load_policy(beside, trust, given["max_memory"])
    stages = options.stages_of(given["stage"])
    with options.recorded_for(found, data, given, {"loss": loss}) as demos:
        pace = options.pace_of(demos, given)
        how = {"start": options.start_of(start), "stages": stages, "rate": pace, "loss": loss, "band": given["band"]}
        judged = measure(found, demos, baseline=baseline, **how)
        click.echo(to_json(judged.to_dict()) if as_json else judged)


@click.command(short_help="Let a policy act on recorded contexts.")
@options.policy_on_data
@options.start_option
@options.stage_option
@options.trust_option
@options.no_dask(
    "what rollout writes is one file here: roll out over some files at a time without it, or judge the roll-outs where "
    "the data are: simile evaluate --dask"
)
@click.option("--seed", type=click.IntRange(0), default=0, help="For stochastic policies.")
@options.band_option
@click.option("--out", type=click.Path(path_type=Path), default="rolled.csv", help="Data file to write.")
def rollout(policy: Path, data: Any, start: str, trust: tuple[str, ...], seed: int, out: Path, **given: Any) -> None:
    """Roll POLICY out over DATA and write DATA again with the policy's actions in place of the expert's.

    With --band columns ACTION_low and ACTION_high stand beside the actions.

    For contexts without an expert's actions, use `simile run`.
    """
    from simile.data.reading import write
    from simile.policies.rollouts import rollout as roll

    found = options.load_policy(policy, trust, given["max_memory"])
    if given["band"] is not None:
        options.check_band(found, beside=found.card.context_names)
    stages, demos = options.stages_of(given["stage"]), options.read_for(found, data, given)
    pace = options.pace_of(demos, given)
    how: Any = {"start": options.start_of(start), "seed": seed, "stages": stages, "rate": pace, "band": given["band"]}
    rolled = roll(found, demos, **how)
    write(demos.with_actions(rolled) if given["band"] is None else _put_beside(demos, rolled), out)
    click.echo(f"{out}: {demos.n_frames} frames of {len(demos)} sequences")


def _put_beside(demos: Demonstrations, rolled: Sequence[Banded]) -> Demonstrations:
    """Return demonstrations with roll-outs for actions, and the ends of their bands beside them."""
    import numpy as np

    names = (*demos.action_names, *options.name_ends(demos.action_names))
    return type(demos)(
        tuple(
            replace(demo, actions=np.concatenate([one.actions, one.low, one.high], axis=1), action_names=names)
            for demo, one in zip(demos, rolled, strict=True)
        )
    )


@click.command(short_help="Measure the paper's theory on a policy.")
@options.policy_on_data
@options.dask_option
@options.trust_option
@options.json_option
def diagnose(policy: Path, data: Any, trust: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Measure the quantities of the paper's theory (Section 5) along roll-outs of POLICY, and say what they mean.

    With --dask the workers of a cluster read the data, and bring 256 MiB of sequences here at most, drawn by chance.
    """
    from dataclasses import asdict

    from simile.evaluation.diagnostics import diagnose as measure

    found = options.load_policy(policy, trust, given["max_memory"])
    with options.recorded_for(found, data, given) as demos:
        diagnosis = measure(found, options.bring(demos, "measured on"))
    click.echo(to_json({**asdict(diagnosis), "findings": diagnosis.findings()}) if as_json else diagnosis)


@click.command(short_help="Run all algorithms and rivals on one data set.")
@options.data_argument
@options.config_option
@options.column_options
@options.reading_options
@click.option(
    "--reductions",
    multiple=True,
    type=click.Choice(ALGORITHMS),
    help="Only these algorithms; all by default. May be repeated.",
)
@click.option("--rivals/--no-rivals", default=True, help="Also what an engineer would build by hand.")
@click.option("--smoothness", help="How smooth `learn` is to be, and where all are compared.")
@options.leads_option
@options.known_option
@options.loss_option
@click.option("--model", help="F of the algorithms other than `learn`; a forest of few trees by default.")
@click.option("--n-rounds", type=click.IntRange(0), help="Rounds of the algorithms other than `learn`; few by default.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Same seed, same bits.")
@click.option("--test", default="0.25", help="Held-out share of the sequences (or groups), or a data file or URL.")
@click.option("--validation", default=0.2, help="Share of the rest that knobs are tuned on.")
@options.folder_option(
    "comparison",
    "Folder for report.html, comparison.json and frontier.png; those of an earlier comparison are replaced.",
)
@options.dask_option
@options.report_option
@options.json_option
@click.pass_context
def compare(ctx: click.Context, /, out: Path, report: bool, as_json: bool, **given: Any) -> None:
    """Run every algorithm on DATA, and every rival that an engineer would build by hand: filters behind predictors.

    All of them, from rough to smooth, are judged on the same held-out sequences, and compared where they are as
    smooth as `learn`. Knobs are tuned on a part of the training sequences.

    With --dask the workers of a cluster read the data and fit the contenders, several at a time, each on one worker:
    to 256 MiB of sequences at most, drawn by chance.
    """
    import matplotlib.pyplot  # noqa: F401 - a library that is missing is better told before the work

    from simile._common.files import write_atomically
    from simile.cli.progress import Contenders
    from simile.evaluation.comparison import compare as contest
    from simile.evaluation.rivals import ROSTER
    from simile.learning import runs

    ctx.with_resource(runs.RunFolder(out).hold())
    if (out / runs.POLICY).exists():
        raise click.ClickException(f"--out: {out} holds a training: choose another folder")
    chosen, hired = tuple(given["reductions"] or ALGORITHMS), ROSTER if given["rivals"] else ()
    settings = runs.settings(given)
    settings["validation"] = given["validation"] or None  # 0 holds nothing back
    folder = runs.RunFolder(out)
    config = {str(p.name): ctx.params.get(str(p.name)) for p in ctx.command.params if p.name != "as_json"}
    with options.cluster(given) as backend:
        train, test = (
            options.bring(part, what, seed=given["seed"])
            for part, what in zip(options.read_parts(given, backend), ("fitted to", "judged on"), strict=True)
            if part is not None  # of a comparison, neither is
        )
        first, *others = settings.get("lead", (None,))
        options.tell_timing({**settings, "lead": first}, train)
        folder.write_config(runs.as_read(config, train))
        with Contenders(len(chosen) + len(others) + len(hired), out / runs.ROUNDS) as progress:
            found = contest(train, test, reductions=chosen, rivals=hired, watch=progress, backend=backend, **settings)
    told = to_json(found.to_dict())
    click.echo(told if as_json else found)
    write_atomically(out / runs.COMPARISON, f"{told}\n".encode())
    found.draw(out / "frontier.png")
    written = [runs.COMPARISON, "frontier.png"]
    if report:
        from simile.evaluation.report import Report

        repeat = {"command": folder.command, "python": folder.python, "config": folder.config_text}
        Report.of_comparison(found, title=folder.title, repeat=repeat).save(out / runs.REPORT)
        written.append(runs.REPORT)
    click.echo("\n" + "\n".join(str(out / name) for name in written), err=as_json)
