"""`simile tune`: search for the best settings, and train with them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simile.cli import INTERRUPTED, interrupted, options
from simile.cli.output import to_json
from simile.cli.train import train
from simile.errors import redact

if TYPE_CHECKING:
    from simile.data.demonstrations import Demonstrations
    from simile.learning.tuning import Space, Tried, Tuned

TRIALS, STORAGE = "tuning.json", "tuning.db"


@click.command(short_help="Search for the best settings, and train with them.")
@options.data_argument
@options.config_option
@options.run_option
@click.option("--overwrite", is_flag=True, help="Replace the policy of an earlier run.")
@click.option("--trials", type=click.IntRange(1), default=50, help="How many in all.")
@click.option(
    "--budget",
    type=click.FloatRange(0.0, min_open=True),
    default=1.0,
    help="Largest roughness allowed, 1 being as rough as the expert.",
)
@click.option("--frontier", is_flag=True, help="Search all of accuracy against smoothness, not the budget alone.")
@click.option("--storage", help=f"File that keeps the search, to go on with it; {STORAGE} in --out by default.")
@click.option("--study", help="Name of the study in the storage, where it holds several.")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    show_default="1, or all workers of --dask",
    help="Trials at a time, each in a process or on a worker.",
)
@click.option("--rounds/--no-rounds", default=True, help="Try the rounds of Algorithm 1, as in the paper, too.")
@click.option("--extra", multiple=True, help="Model that may join the mixture, e.g. 'sklearn.linear_model.Ridge()'.")
@options.column_options
@options.reading_options
@options.timing_options
@options.loss_option
@click.option(
    "--space",
    show_default="as recorded, and a margin",
    help="Bounds of the actions, e.g. 'ActionSpace(low=-90, high=90)'; none for no bounds.",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Same seed, same search.")
@click.option("--test", default="0.25", help="Held-out share of the sequences (or groups), or a data file or URL.")
@click.option(
    "--validation",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=0.25,
    help="Share of the rest that judges the trials.",
)
@options.dask_options
@options.report_option
@options.trust_option
@click.pass_context
def tune(ctx: click.Context, /, **given: Any) -> None:
    """Search for the settings that imitate best within a budget of roughness, and train a policy with them.

    Trials are judged by roll-outs over sequences of DATA that they have not trained on; the held-out sequences of
    --test are not looked at before the end. Run it again to go on where it stopped, or with more --trials to go
    further. Writes what `simile train` writes, and tuning.json with all trials, to the folder of --out.

    With --dask the workers of a cluster read the data and do the trials, each on 256 MiB of sequences at most, drawn by
    chance. What was chosen is trained on all of the data, as `simile train --dask` does.
    """
    from simile._common.files import write_atomically
    from simile.learning import runs
    from simile.learning.recipes import parse
    from simile.learning.tuning import tune as search

    options.check_exact(given)
    options.settle_lead(given)
    folder: Path = given["out"]
    storage = given["storage"] or str(folder / STORAGE)
    loss = None if given["loss"] is None else parse(given["loss"], "loss")
    extra = tuple(parse(text, "model") for text in given["extra"])
    with ExitStack() as stack:
        stack.enter_context(runs.RunFolder(folder).hold())  # the training holds it anew
        _check_folder(folder, overwrite=given["overwrite"])
        backend = stack.enter_context(options.cluster(given, {"loss": loss, "model": extra}))
        demos = options.bring(options.read_parts(given, backend)[0], "searched with", seed=given["seed"])
        spaces = _spaces(given, demos, extra)
        with _Trials(given["trials"], None if given["frontier"] else given["budget"]) as watch:
            tuned = search(
                demos,
                trials=given["trials"],
                budget=watch.budget,
                space=spaces,
                **runs.timing_arguments(given),
                loss=loss,
                validation=given["validation"],
                seed=given["seed"],
                storage=storage,
                study=given["study"],
                backend=backend,
                jobs=given["jobs"] or (1 if backend is None else backend.workers),
                watch=watch,
            )
        click.echo(tuned)
        write_atomically(folder / TRIALS, f"{to_json(tuned.rows())}\n".encode())
    if tuned.interrupted:
        click.echo(f"\n{redact(storage)} keeps the search; the same command goes on with it")
        ctx.exit(INTERRUPTED)
    chosen = tuned.at(roughness=given["budget"]) if given["frontier"] else tuned.chosen
    _train(ctx, given, chosen, tuned)
    click.echo(f"Again, without the search: {runs.RunFolder(folder).command}")


def _check_folder(folder: Path, *, overwrite: bool) -> None:
    """Say before the search, not after, that there is a policy in the way."""
    from simile.learning.runs import POLICY

    if (folder / POLICY).exists() and not overwrite:
        raise click.ClickException(
            f"--out: {folder} holds an earlier run: replace its policy (--overwrite; a search in it goes on) or choose "
            "another folder"
        )


def _spaces(given: dict[str, Any], demos: Demonstrations, extra: tuple[Any, ...]) -> tuple[Space, ...]:
    """Make the search space, of models that can be saved and written in a command."""
    from simile.learning.recipes import as_option, parse
    from simile.learning.tuning import CrossFitting, Rounds
    from simile.models.ridge import FoldRegressor
    from simile.policies.storage.loading import check_savable

    for one, text in zip(extra, given["extra"], strict=True):
        if as_option(one, "model") is None:
            raise click.ClickException(f"--extra: {text} cannot be written in a command: use simile.tune in Python")
        if not isinstance(one, FoldRegressor):
            check_savable(one, n_actions=demos.n_actions)
    bounds = None if given["space"] is None else parse(given["space"], "space")
    crossfitting, rounds = CrossFitting(extra=extra, bounds=bounds), Rounds(bounds=bounds)
    if given["dask"]:  # where trajectories are never seen together, and the choice is to be trained
        rounds = replace(rounds, feedback=tuple(f for f in rounds.feedback if "by_distance" not in repr(f)))
    return (crossfitting, rounds) if given["rounds"] else (crossfitting,)


def _train(ctx: click.Context, given: dict[str, Any], chosen: Tried, tuned: Tuned) -> None:
    """Do what `simile train` does with the settings that were chosen, on all that is not held out."""
    settings = chosen.options()
    if settings is None:  # a space of one's own, in Python, may do this; those above do not
        raise click.ClickException(f"trial {chosen.number} of {len(tuned.trials)} cannot be written in a command")
    click.echo(f"\nTraining with the settings of trial {chosen.number} on all that is not held out\n")
    shared = {str(p.name) for p in train.params} & set(given)
    ctx.invoke(train, **{**{name: given[name] for name in shared - {"validation"}}, **settings})


class _Trials:
    """A bar over the trials, with the best so far."""

    def __init__(self, trials: int, budget: float | None) -> None:
        from simile.cli.progress import Bar

        self.bar, self.budget, self.best = Bar("tuning", trials), budget, float("inf")

    def __enter__(self) -> _Trials:
        self.bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.__exit__(*error)

    def __call__(self, tried: Tried) -> None:
        """Show a trial as it comes."""
        if interrupted.is_set():  # and a library made an error of it, which looked like a bad trial
            raise KeyboardInterrupt
        if tried.within(float("inf") if self.budget is None else self.budget):
            self.best = min(self.best, tried.rmse)
        how = f"error {tried.rmse:.3f}, roughness {tried.roughness:.2f}" if not tried.trouble else tried.trouble
        self.bar.step(f"trial {tried.number}, {how}{', given up' if tried.pruned else ''}; best {self.best:.3f}")
