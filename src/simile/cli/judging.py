"""`simile evaluate`, `rollout`, `diagnose` and `compare`: how good is it, and beside what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simile.cli import options
from simile.cli.output import to_json


@click.command(short_help="Measure error, smoothness and lag of a policy.")
@options.policy_argument
@options.data_argument
@options.config_option
@options.reading_options
@options.start_option
@options.trust_option
@options.json_option
def evaluate(policy: Path, data: Any, start: str, trust: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Roll POLICY out over DATA and measure error, smoothness and lag, beside the expert and holding the last action.

    The columns are those that the policy was trained on.
    """
    from simile.evaluation import evaluate as measure
    from simile.storage import load

    found = load(policy, trusted=trust)
    judged = measure(found, options.read_for(found, data, given), start=options.start_of(start))
    if as_json:
        click.echo(to_json(judged.rows))
    else:
        click.echo(judged)


@click.command(short_help="Let a policy act on recorded contexts.")
@options.policy_argument
@options.data_argument
@options.config_option
@options.reading_options
@options.start_option
@options.trust_option
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For stochastic policies.")
@click.option(
    "--out", type=click.Path(path_type=Path), default="rolled.csv", show_default=True, help="Data file to write."
)
def rollout(policy: Path, data: Any, start: str, trust: tuple[str, ...], seed: int, out: Path, **given: Any) -> None:
    """Roll POLICY out over DATA and write DATA again with the policy's actions in place of the expert's.

    For contexts without an expert's actions, use `simile run`.
    """
    from simile.reading import write
    from simile.rollouts import rollout as roll
    from simile.storage import load

    found = load(policy, trusted=trust)
    demos = options.read_for(found, data, given)
    write(demos.with_actions(roll(found, demos, start=options.start_of(start), seed=seed)), out)
    click.echo(f"{out}: {demos.n_frames} frames of {len(demos)} sequences")


@click.command(short_help="Measure the paper's theory on a policy.")
@options.policy_argument
@options.data_argument
@options.config_option
@options.reading_options
@options.trust_option
@options.json_option
def diagnose(policy: Path, data: Any, trust: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Measure the quantities of the paper's theory (Section 5) along roll-outs of POLICY, and say what they mean."""
    from dataclasses import asdict

    from simile.diagnostics import diagnose as measure
    from simile.storage import load

    found = load(policy, trusted=trust)
    diagnosis = measure(found, options.read_for(found, data, given))
    if as_json:
        click.echo(to_json({**asdict(diagnosis), "findings": diagnosis.findings()}))
    else:
        click.echo(diagnosis)


@click.command(short_help="Run all algorithms and baselines on one data set.")
@options.data_argument
@options.config_option
@options.column_options
@options.reading_options
@options.learning_options
@click.option(
    "--reductions",
    multiple=True,
    type=click.Choice(options.ALGORITHMS),
    help="Only these algorithms; all by default. May be repeated.",
)
@options.json_option
def compare(data: Any, reductions: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Run every algorithm and simple filters on DATA, and judge all of them on the same held-out sequences.

    The filters are tuned on the validation part to be at least as smooth as the first algorithm.
    """
    from simile.cli.progress import Contenders
    from simile.comparison import REDUCTIONS
    from simile.comparison import compare as contest

    train, test = options.read_and_hold_out(data, given)
    chosen = reductions or REDUCTIONS
    settings = {**options.recipes(given), "n_rounds": given["n_rounds"], "seed": given["seed"]}
    settings["validation"] = given["validation"] or None  # 0 holds nothing back
    with Contenders(len(chosen) + 1) as progress:
        found = contest(train, test, reductions=tuple(chosen), watch=progress, **settings)
    if as_json:
        click.echo(to_json({"verdict": found.verdict(), "held_out": found.rows()}))
    else:
        click.echo(f"{found}\n\n{found.verdict()}")
