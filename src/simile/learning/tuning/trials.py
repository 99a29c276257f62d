"""Trials: how one is run, what it found, and what to do with all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from simile._common import checks
from simile._common.text import count, table
from simile.data.demonstrations import Demonstrations
from simile.errors import ArgumentError, DataError, DivergedError, SimileError
from simile.learning import algorithms
from simile.learning.algorithms import Run
from simile.learning.recipes import as_option
from simile.learning.rounds import Round
from simile.learning.runs import RECIPES, as_command
from simile.learning.tuning.spaces import label

if TYPE_CHECKING:
    import optuna

ROWS = 10  # trials that a table shows


@dataclass(frozen=True, eq=False)
class Split:
    """What trials learn from, and what validates them: whole sequences that no trial trains on."""

    train: Demonstrations
    validation: Demonstrations


@dataclass(frozen=True, eq=False)
class Tried:
    """One finished trial.

    Attributes
    ----------
    number : int
        Counted from 0.
    knobs : mapping
        What was chosen, by the names of the search space.
    settings : mapping
        The same as keyword arguments of `simile.learn`, or of the "algorithm" among them.
    rmse, roughness : float
        Of roll-outs over the validation sequences: in standard deviations of the expert's actions, and as a multiple
        of the expert's; NaN where the trial failed.
    pruned : bool
        Given up before its end, for it did worse than half of the others.
    trouble : str
        Why it failed; empty where it did not.
    seconds : float
        What it took.
    """

    number: int
    knobs: Mapping[str, Any]
    settings: Mapping[str, Any]
    rmse: float = math.nan
    roughness: float = math.nan
    pruned: bool = False
    trouble: str = ""
    seconds: float = math.nan

    @property
    def complete(self) -> bool:
        """Whether it was trained and validated to the end."""
        return not (self.pruned or self.trouble)

    def within(self, budget: float) -> bool:
        """Whether it is complete and smooth enough; an expert who never moves sets no budget."""
        return self.complete and not self.roughness > budget

    def words(self) -> str:
        """Describe what was chosen.

        >>> Tried(0, {"CrossFitting.trees": 64, "CrossFitting.lag": 3.14159}, {}).words()
        'CrossFitting: trees=64, lag=3.142'
        """
        knobs = [(*name.split(".", 1), value) for name, value in self.knobs.items() if "." in name]
        texts = [f"{knob}={value:.4g}" if isinstance(value, float) else f"{knob}={value}" for _, knob, value in knobs]
        return f"{knobs[0][0]}: {', '.join(texts)}" if knobs else ""

    def options(self) -> dict[str, Any] | None:
        """Return the settings as `simile train` takes them; None where they cannot be written in a command."""
        found = {n: as_option(value, n) if n in RECIPES else value for n, value in self.settings.items()}
        return None if None in found.values() else found


class _Pruned(Exception):  # noqa: N818 - not an error
    """Ends the training of a trial that does badly."""


def run_trial(
    split: Split, trial: Tried, budget: float | None = None, pruning: optuna.Trial | None = None
) -> tuple[Tried, dict[int, float]]:
    """Train with the settings of a trial and roll out over the validation part; a failure is returned, never raised.

    The result depends on the arguments alone, so that any process may compute it, and again.

    Parameters
    ----------
    split : Split
        What to train on, and what to roll out over.
    trial : Tried
        A trial without results, or one that has failed already.
    budget : float, optional
        Largest roughness allowed.
    pruning : optuna.Trial, optional
        Compares the rounds of Algorithm 1 with those of earlier trials, and may end them.

    Returns
    -------
    trial : Tried
        The trial with its results.
    objectives : dict
        The objective after each round of Algorithm 1, for later trials to compare with.
    """
    rounds: list[Round] = []
    objectives: dict[int, float] = {}
    last = int(trial.settings.get("n_rounds", 10))

    def watch(step: Any) -> None:
        if not isinstance(step, Round):  # of a mixture, whose round comes last
            return
        rounds.append(step)
        rmse = math.sqrt(step.validation_error)
        if budget is None or pruning is None or math.isnan(rmse):
            return
        # What is too rough must not raise the bar for those that are smooth enough.
        objectives[step.number] = rmse * max(1.0, nan_to_zero(step.validation_roughness) / budget)
        pruning.report(objectives[step.number], step.number)
        if step.number < last and pruning.should_prune():
            raise _Pruned

    if trial.trouble:
        return trial, objectives
    start = time.perf_counter()
    try:
        run = train(split.train, {**trial.settings, "validation": split.validation, "watch": watch})
        if run.interrupted:
            raise KeyboardInterrupt
        if not math.isfinite(rounds[-1].validation_error):
            raise DivergedError("the roll-out over the validation sequences diverged")
    except _Pruned:
        trial = replace(trial, pruned=True)
    except Exception as error:  # whatever a model may raise: other trials go on
        trouble = str(error) if isinstance(error, SimileError) else f"{type(error).__name__}: {error}"
        return replace(trial, trouble=trouble, seconds=time.perf_counter() - start), objectives
    rmse, roughness = math.sqrt(rounds[-1].validation_error), float(rounds[-1].validation_roughness)
    return replace(trial, rmse=rmse, roughness=roughness, seconds=time.perf_counter() - start), objectives


def train(demos: Demonstrations, settings: Mapping[str, Any]) -> Run:
    """Run the algorithm that the settings name, `learn` where they name none."""
    given = dict(settings)
    run: Run = getattr(algorithms, given.pop("algorithm", "learn"))(demos, **given)
    return run


def nan_to_zero(roughness: float) -> float:
    """Return a roughness to compute with: where the expert never moves there is none, and nothing is too rough."""
    return 0.0 if math.isnan(roughness) else roughness


@dataclass(frozen=True, eq=False)
class Tuned:
    """What `tune` found; prints as a table of the best trials.

    Attributes
    ----------
    trials : tuple of Tried
        All that are finished, in their order.
    budget : float, optional
        Largest roughness allowed; None where the whole frontier was asked for.
    split : Split
        The sequences that trials learned from, and those that validated them.
    demos : Demonstrations
        Both together, as they were given.
    interrupted : bool
        Stopped by Ctrl-C: the trials there were are kept.
    """

    trials: tuple[Tried, ...]
    budget: float | None
    split: Split
    demos: Demonstrations
    interrupted: bool = False

    @property
    def chosen(self) -> Tried:
        """The most accurate trial within the budget (as rough as the expert where none was given).

        Where no trial is, the smoothest of all.
        """
        smoothest = min(self._list_complete(), key=lambda t: t.roughness)
        return self._find_best(self.budget or 1.0) or smoothest

    @property
    def best(self) -> dict[str, Any]:
        """Keyword arguments of `simile.learn`, or of the "algorithm" among them, that train the policy again."""
        return dict(self.chosen.settings)

    @property
    def frontier(self) -> tuple[Tried, ...]:
        """The trials that no other beats in both accuracy and smoothness, from rough to smooth."""
        front: list[Tried] = []
        for trial in sorted(self._list_complete(), key=lambda t: (nan_to_zero(t.roughness), t.rmse)):
            if not front or trial.rmse < front[-1].rmse:
                front.append(trial)
        return tuple(front[::-1])

    def at(self, *, roughness: float) -> Tried:
        """Return the most accurate trial that is at most so many times as rough as the expert."""
        roughness = checks.number(roughness, "roughness", above=0.0)
        found = self._find_best(roughness)
        if found is None:
            least = min(t.roughness for t in self._list_complete())
            raise ArgumentError(
                f"roughness must be at least {least:.3g}, that of the smoothest trial; got {roughness:g}: try more "
                "trials, or larger lags"
            )
        return found

    def run(self, **changed: Any) -> Run:
        """Train with the best settings on all of the sequences, those that validated the trials included.

        Parameters
        ----------
        **changed
            Arguments to change, `watch` for example.
        """
        return train(self.demos, {**self.best, **changed})

    def command(self, data: str = "DATA") -> str | None:
        """Return the `simile train` command with the best settings; None where they cannot be written in one."""
        options = self.chosen.options()
        return None if options is None else as_command("train", {"data": data, **options})

    def rows(self) -> list[dict[str, Any]]:
        """Return the trials as plain data, in their order."""
        return [
            {**vars(t), "settings": {name: label(value) for name, value in t.settings.items()}} for t in self.trials
        ]

    def __repr__(self) -> str:
        return f"Tuned({len(self.trials)} trials, trial {self.chosen.number} chosen)"

    def __str__(self) -> str:
        chosen, complete = self.chosen, self._list_complete()
        rough = [] if self.budget is None else [t for t in complete if not t.within(self.budget)]
        failed = [t for t in self.trials if t.trouble]
        shown: Sequence[Tried] = self.frontier
        if self.budget is not None:
            shown = sorted(complete, key=lambda t: (t in rough, t.rmse))[:ROWS]
        columns = (("trial", 5, "d"), ("RMSE", 10, ".4f"), ("roughness", 9, ".3f"), ("seconds", 7, ".1f"))
        notes = ("  <- best" * (t is chosen) + "  too rough" * (t in rough) + f"  {t.words()}" for t in shown)
        cells = zip(shown, notes, strict=True)
        lines = table(columns, ((t.number, t.rmse, t.roughness, t.seconds, note) for t, note in cells))
        lines.append(
            f"{len(self.trials)} trials: {len(complete)} complete ({len(rough)} too rough), "
            f"{sum(t.pruned for t in self.trials)} given up early, {len(failed)} failed"
        )
        if failed:
            lines.append(f"trial {failed[0].number} failed: {failed[0].trouble}")
        if len(rough) == len(complete):
            lines.append(f"no trial is as smooth as asked for ({self.budget:g}): the smoothest is taken; try more")
        lines.append(
            "RMSE in standard deviations of the expert's actions, roughness as a multiple of the expert's; roll-outs "
            f"of {count(len(self.split.validation), 'sequence')} that no trial trained on, but that chose among them"
        )
        if self.interrupted:
            lines.append(f"interrupted after {len(self.trials)} trials")
        return "\n".join(lines)

    def _find_best(self, budget: float) -> Tried | None:
        """Return the most accurate trial within a budget; None where no trial is."""
        return min((t for t in self._list_complete() if t.within(budget)), key=lambda t: t.rmse, default=None)

    def _list_complete(self) -> list[Tried]:
        """Return the trials that can be chosen."""
        complete = [t for t in self.trials if t.complete]
        if not complete:
            reasons = list(dict.fromkeys(t.trouble for t in self.trials if t.trouble))
            raise DataError(f"none of {len(self.trials)} trials could be completed: {'; '.join(reasons[:3])}")
        return complete
