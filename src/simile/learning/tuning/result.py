"""What a search found: its trials, the best of them, and what to do with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from itertools import takewhile
from typing import Any

from simile._common import checks
from simile._common.text import table
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import ActionSpace
from simile.errors import ArgumentError, DataError
from simile.learning.algorithms import Run
from simile.learning.recipes import parse
from simile.learning.runs import RECIPES, as_command
from simile.learning.tuning.spaces import label
from simile.learning.tuning.trial import Split, train
from simile.policies.hold import Hold

ROWS = 10  # trials that a table shows


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
        """Whether it was trained and judged to the end."""
        return not (self.pruned or self.trouble)

    def within(self, budget: float) -> bool:
        """Whether it is complete and smooth enough; an expert who never moves sets no budget."""
        return self.complete and not self.roughness > budget

    def words(self) -> str:
        """Tell what was chosen.

        >>> Tried(0, {"CrossFitting.trees": 64, "CrossFitting.lag": 3.14159}, {}).words()
        'CrossFitting: trees=64, lag=3.142'
        """
        ways: dict[str, list[str]] = {}
        for name, value in self.knobs.items():
            way, _, knob = name.partition(".")
            if knob:
                ways.setdefault(way, []).append(
                    f"{knob}={value:.4g}" if isinstance(value, float) else f"{knob}={value}"
                )
        return "; ".join(f"{way}: {', '.join(knobs)}" for way, knobs in ways.items())

    def options(self) -> dict[str, Any] | None:
        """Return the settings as `simile train` takes them; None where they cannot be written in a command."""
        found = {n: as_option(value, n) if n in RECIPES else value for n, value in self.settings.items()}
        return None if None in found.values() else found


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
        The sequences that trials learned from, and those that judged them.
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
        complete = self._complete()
        within = [t for t in complete if t.within(1.0 if self.budget is None else self.budget)]
        return min(within, key=lambda t: t.rmse) if within else min(complete, key=lambda t: t.roughness)

    @property
    def best(self) -> dict[str, Any]:
        """Keyword arguments of `simile.learn`, or of the "algorithm" among them, that train the policy again."""
        return dict(self.chosen.settings)

    @property
    def frontier(self) -> tuple[Tried, ...]:
        """The trials that no other beats in both accuracy and smoothness, from rough to smooth."""
        kept: list[Tried] = []
        for trial in sorted(self._complete(), key=lambda t: (_rank(t.roughness), t.rmse)):
            if not kept or trial.rmse < kept[-1].rmse:
                kept.append(trial)
        return tuple(kept[::-1])

    def at(self, *, roughness: float) -> Tried:
        """Return the most accurate trial that is at most so many times as rough as the expert."""
        roughness = checks.number(roughness, "roughness", above=0.0)
        within = [t for t in self._complete() if t.within(roughness)]
        if not within:
            least = min(t.roughness for t in self._complete())
            raise ArgumentError(
                f"roughness must be at least {least:.3g}, that of the smoothest trial; got {roughness:g}: try more "
                "trials, or larger lags"
            )
        return min(within, key=lambda t: t.rmse)

    def run(self, **changed: Any) -> Run:
        """Train with the best settings on all of the sequences, those that judged the trials included.

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
            {
                "number": t.number,
                "knobs": dict(t.knobs),
                "settings": {name: label(value) for name, value in t.settings.items()},
                "rmse": t.rmse,
                "roughness": t.roughness,
                "pruned": t.pruned,
                "trouble": t.trouble,
                "seconds": t.seconds,
            }
            for t in self.trials
        ]

    def __repr__(self) -> str:
        return f"Tuned({len(self.trials)} trials, trial {self.chosen.number} chosen)"

    def __str__(self) -> str:
        chosen, complete = self.chosen, self._complete()
        within = [t for t in complete if self.budget is None or t.within(self.budget)]
        shown: Sequence[Tried] = self.frontier
        if self.budget is not None:
            shown = sorted(complete, key=lambda t: (t not in within, t.rmse))[:ROWS]
        columns = (("trial", 5, "d"), ("RMSE", 10, ".4f"), ("roughness", 9, ".3f"), ("seconds", 7, ".1f"))
        marks = ("  <- best" * (t is chosen) + "  too rough" * (t not in within) for t in shown)
        cells = zip(shown, marks, strict=True)
        lines = table(columns, ((t.number, t.rmse, t.roughness, t.seconds, f"{m}  {t.words()}") for t, m in cells))
        pruned, failed = sum(t.pruned for t in self.trials), [t for t in self.trials if t.trouble]
        rough = len(complete) - len(within)
        lines.append(
            f"{len(self.trials)} trials: {len(complete)} complete ({rough} too rough), {pruned} given up early, "
            f"{len(failed)} failed"
        )
        if failed:
            lines.append(f"trial {failed[0].number} failed: {failed[0].trouble}")
        if not within:
            lines.append(f"no trial is as smooth as asked for ({self.budget:g}): the smoothest is taken; try more")
        judges = len(self.split.validation)
        lines.append(
            "RMSE in standard deviations of the expert's actions, roughness as a multiple of the expert's; roll-outs "
            f"of {judges} sequence{'s' * (judges > 1)} that no trial trained on, but that chose among them"
        )
        if self.interrupted:
            lines.append(f"interrupted after {len(self.trials)} trials")
        return "\n".join(lines)

    def _complete(self) -> list[Tried]:
        """Return the trials that can be chosen."""
        complete = [t for t in self.trials if t.complete]
        if not complete:
            reasons = list(dict.fromkeys(t.trouble for t in self.trials if t.trouble))
            raise DataError(f"none of {len(self.trials)} trials could be completed: {'; '.join(reasons[:3])}")
        return complete


def _rank(roughness: float) -> float:
    return 0.0 if math.isnan(roughness) else roughness


def as_option(value: Any, name: str) -> str | None:
    """Write a recipe as the option `name` of the command line takes it; None where that cannot be done.

    >>> from simile import SmoothForest
    >>> as_option((SmoothForest(n_trees=20, max_depth=None),), "model")
    '(SmoothForest(n_trees=20, max_depth=None),)'
    """
    for text in (_write(value), label(value)):
        with suppress(ArgumentError):
            if label(parse(text, name)) == label(value):
                return text
    return None


def _write(value: Any) -> str:
    """Write a recipe without what goes without saying."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_write, value))}{',' * (len(value) == 1)})"
    if isinstance(value, Hold):  # which writes itself
        return repr(value)
    if isinstance(value, ActionSpace):  # whose bounds are arrays
        sides = {"low": value.low.tolist(), "high": value.high.tolist()}
        kept = {n: s[0] if len(s) == 1 else s for n, s in sides.items() if all(map(math.isfinite, s))}
        return f"ActionSpace({', '.join(f'{n}={s!r}' for n, s in kept.items())})"
    if type(value).__module__.startswith("sklearn."):
        public = takewhile(lambda part: not part.startswith("_"), type(value).__module__.split("."))
        return f"{'.'.join(public)}.{value!r}"
    if is_dataclass(value):
        said = [f"{f.name}={_write(v)}" for f in fields(value) if (v := getattr(value, f.name)) != f.default]
        return f"{type(value).__name__}({', '.join(said)})"
    return repr(value)
