"""The gate: whether a new policy may take the place of an old one, by paired roll-outs of both.

Both are rolled out over the same held-out sequences, so that what is hard for both cancels; the limits are over groups
of sequences, for frames and neighbours are no independent witnesses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from simile._common import checks
from simile._common.text import cell
from simile._common.typing import FloatArray
from simile.data.demonstrations import Demonstrations
from simile.data.groups import number_labels
from simile.data.reference import Reference
from simile.errors import DivergedError
from simile.evaluation.rivals import Held
from simile.evaluation.verdict import Verdict, reach_verdict
from simile.learning.frontier import time_scale
from simile.metrics import FEWEST, Tally
from simile.policies.policies import Policy, given_frames
from simile.policies.rollouts import ExpertStart, rollout


@dataclass(frozen=True)
class Paired:
    """The squared errors of a new policy over those of an old one, on the same sequences.

    Attributes
    ----------
    old, new : float
        Root mean squared errors, in standard deviations of what the old policy was trained on; each group counts alike.
    ratio : float
        Of the mean squared errors, new over old.
    upper : float
        What that ratio is below, for as many of 100 such comparisons as the gate's confidence; NaN of few groups,
        infinite where they tell nothing.
    groups : int
        Of sequences, that it is over, or sequences, where `within` is not 0.
    within : int
        Of how many groups the sequences are, where those are too few to count by and each sequence counts instead: the
        limit is then one for more sequences of these groups, and tells nothing about others. 0 where groups count.
    """

    old: float
    new: float
    ratio: float
    upper: float
    groups: int
    within: int = 0

    @classmethod
    def of(cls, old: FloatArray, new: FloatArray, confidence: float, within: int = 0) -> Self:
        """Compare the mean squared errors of each group."""
        groups = len(old)
        before, after = (float(some.mean()) if groups else math.nan for some in (old, new))
        ratio = after / before if before != 0.0 else math.inf if after > 0.0 else 1.0
        upper = _limit(old, new, ratio, confidence) if groups >= FEWEST else math.nan
        return cls(math.sqrt(before), math.sqrt(after), ratio, upper, groups, within)


def _limit(old: FloatArray, new: FloatArray, ratio: float, confidence: float) -> float:
    """Return the upper limit of a ratio of means: above it, r * old is surely more than new, by its t.

    This is Fieller's limit (1954), infinite where not even old is surely more than nothing: of six groups whose
    sizes spread by a factor of e in one case of six. There it is too low in 3 of 100 cases where 5 are meant; one that
    takes the ratio for linear, or a bootstrap, in 10 and more.
    """
    if not math.isfinite(ratio) or not old.any():
        return ratio
    from scipy.stats import t

    n = len(old)
    ((oo, on), (_, nn)), squared = np.cov(old, new) / n, float(t.ppf(confidence, n - 1)) ** 2
    a, b, c = old.mean() ** 2 - squared * oo, old.mean() * new.mean() - squared * on, new.mean() ** 2 - squared * nn
    return max(float((b + math.sqrt(max(b * b - a * c, 0.0))) / a), ratio) if a > 0.0 else math.inf


@dataclass(frozen=True, eq=False)
class Decision:
    """What the gate decided; prints as a table of both policies, the reason, and what is said of the new one.

    Attributes
    ----------
    accepted : bool
        Whether the new policy may take the place of the old one.
    reason : str
        Why, in a sentence.
    demonstrations, corrections : Paired
        Errors on held-out demonstrations, and on held-out corrections where the operator acted.
    roughness, reversals : (old, new)
        Of the roll-outs over the demonstrations: mean absolute second difference over the expert's, and turns a minute
        (or per 1,000 frames), means over the actions.
    verdict : Verdict, optional
        What is said of the new policy on the held-out demonstrations, beside the old one; None where it diverged.
    """

    accepted: bool
    reason: str
    demonstrations: Paired
    corrections: Paired
    roughness: tuple[float, float]
    reversals: tuple[float, float]
    verdict: Verdict | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        told = None if self.verdict is None else self.verdict.to_dict()
        return {**asdict(replace(self, verdict=None)), "verdict": told}

    def __str__(self) -> str:
        lines = [f"{'':34} {'old':>10} {'new':>10} {'ratio':>8} {'at most':>8}"]
        for name, paired in (("demonstrations", self.demonstrations), ("corrections", self.corrections)):
            said = f"error, {name} ({paired.groups}{f' of {paired.within}' if paired.within else ''})"
            figures = cell(paired.old, 10), cell(paired.new, 10), cell(paired.ratio, 8), cell(paired.upper, 8)
            lines.append(f"{said:34} {' '.join(figures)}")
        for name, (old, new) in (("roughness", self.roughness), ("reversals", self.reversals)):
            lines.append(f"{name:34} {cell(old, 10)} {cell(new, 10)} {cell(new / old if old else math.nan, 8)}")
        over = "sequences of so many groups, or groups" if self.demonstrations.within else "groups"
        lines.append(f"errors: RMSE of roll-outs in standard deviations; ratio: of mean squared errors; ({over})")
        return "\n".join([*lines, self.reason, *([] if self.verdict is None else [f"The new one: {self.verdict}"])])


@dataclass(frozen=True)
class Gate:
    """When a new policy may take the place of an old one.

    Parameters
    ----------
    margin : float
        Share by which its mean squared error on demonstrations may be larger, at most, with that confidence.
    gain : float
        Share by which its mean squared error on corrections must be smaller, at least, with that confidence. More than
        none: an operator takes over where the old policy is at its worst, so that any other looks better there.
    confidence : float
        Of both limits, each one-sided.
    tolerance : float
        Share by which it may be rougher, and turn more often, in so many turns as are no chance.

    Examples
    --------
    >>> Gate(margin=0.02)
    Gate(margin=0.02, gain=0.005, confidence=0.95, tolerance=0.15)
    """

    margin: float = 0.05
    gain: float = 0.005
    confidence: float = 0.95
    tolerance: float = 0.15

    def __post_init__(self) -> None:
        for name in ("margin", "tolerance"):
            checks.number(getattr(self, name), name, at_least=0.0)
        checks.number(self.gain, "gain", at_least=0.0, at_most=1.0)
        checks.number(self.confidence, "confidence", at_least=0.5, at_most=0.9999)

    def judge(self, old: Policy, new: Policy, demos: Demonstrations, corrections: Demonstrations) -> Decision:
        """Roll both out over sequences that neither has learned from, and decide.

        Parameters
        ----------
        old, new : Policy
            The policy at work, and the one that may take its place.
        demos : Demonstrations
            Held-out demonstrations. Where they are of fewer than six groups, each sequence counts as one.
        corrections : Demonstrations
            Held-out corrections, as recorded: the roll-outs begin before each take-over, and frames under the operator
            count. Groups count whatever they are, for those of one share frames.
        """
        start, logs = ExpertStart(max(given_frames(old), given_frames(new))), old.card.logs(demos.n_actions)
        references = [Reference(part, old.units.scale, start.frames, logs=logs) for part in (demos, corrections)]
        before = [one.tally(rollout(old, one.demos, start=start)) for one in references]
        try:
            after = [one.tally(rollout(new, one.demos, start=start)) for one in references]
        except DivergedError as error:
            same, gone = self.decide(references, before, before), math.inf
            shown, corrected = (
                replace(one, new=gone, ratio=gone, upper=gone) for one in (same.demonstrations, same.corrections)
            )
            return Decision(False, f"not accepted: {error}", shown, corrected, same.roughness, same.reversals)
        return self.decide(references, before, after)

    def decide(self, references: Sequence[Reference], old: Sequence[Tally], new: Sequence[Tally]) -> Decision:
        """Decide by what both policies did over demonstrations and corrections, in this order."""
        demos = references[0].demos
        shown = self._pair(demos, old[0], new[0], ungroup=True)
        corrected = self._pair(references[1].demos, old[1], new[1])
        rough = old[0].score.roughness, new[0].score.roughness
        turns = float(old[0].turns.sum()), float(new[0].turns.sum())
        objection = self._object(shown, corrected, rough, turns)
        told = f"accepted: {_tell_gain(shown, corrected)}" if objection is None else f"not accepted: {objection}"
        rates = [float(np.mean(some[0].turn_rates(demos.rate)[0])) for some in (old, new)]
        verdict = reach_verdict(
            new[0],
            references[0].tally(Held().rollout(demos, frames=references[0].begin)),
            old[0],
            actions=demos.action_names,
            scale=references[0].scale,
            kin=demos.kin,
            rate=demos.rate,
            baseline="the policy at work",
            pace=time_scale(demos),
        )
        return Decision(objection is None, f"{told}.", shown, corrected, rough, (rates[0], rates[1]), verdict)

    def _pair(self, demos: Demonstrations, old: Tally, new: Tally, *, ungroup: bool = False) -> Paired:
        """Compare two roll-outs of demonstrations, by sequence where there are few groups, and that is wanted."""
        kin, within = number_labels([demo.group for demo in demos]), 0
        if ungroup and kin.max() + 1 < min(FEWEST, len(demos)):
            kin, within = np.arange(len(demos)), int(kin.max()) + 1
        both = (some.grouped(kin) for some in (old, new))
        before, after = (some.squares.sum(axis=1) / some.weights.sum(axis=1) for some in both)
        return Paired.of(before, after, self.confidence, within)

    def _object(
        self, shown: Paired, corrected: Paired, rough: tuple[float, float], turns: tuple[float, float]
    ) -> str | None:
        """Say what speaks against the new policy; None where nothing does."""
        for paired, what in ((shown, "demonstrations"), (corrected, "corrections")):
            if not paired.groups:
                return f"no frame of the held-out {what} counts, behind the first ones, which are given: record longer"
            if paired.groups < FEWEST:
                over = _tell_groups(paired) if paired.within else f"of {_tell_groups(paired)}"
                return f"held-out {what} are {over}, and fewer than {FEWEST} tell nothing: record more"
            if math.isinf(paired.ratio):
                return f"on held-out {what} it makes errors, and the old one none"
            if math.isinf(paired.upper):
                return (
                    f"on held-out {what} its squared error is {_tell_change(paired.ratio)} that of the old one, and "
                    f"nothing is sure: {_tell_groups(paired)} whose errors are so unlike are too few: record more"
                )
        if not shown.upper <= 1.0 + self.margin:
            return (
                f"on held-out demonstrations its squared error may be {_percent(shown.upper - 1.0)} larger "
                f"({_percent(shown.ratio - 1.0)} as measured), and {_percent(self.margin)} is allowed"
            )
        if not corrected.upper < 1.0 - self.gain:
            return (
                f"on held-out corrections its squared error is {_tell_change(corrected.ratio)} that of the old one, "
                f"which is not surely {_percent(self.gain)} less (at most {corrected.upper:.3f})"
            )
        chance = math.sqrt(turns[0] + turns[1])  # a standard error of the difference of both counts
        for what, (old, new), more in (("is rougher", rough, 0.0), ("turns more often", turns, chance)):
            if new > (1.0 + self.tolerance) * old + more:
                return f"it {what} than the old one, {new / old if old else math.inf:.2f} times"
        return None


def _tell_gain(shown: Paired, corrected: Paired) -> str:
    within = f", over {_tell_groups(shown)}, which tell nothing about other groups" if shown.within else ""
    return (
        f"on held-out corrections its squared error is {_tell_change(corrected.ratio)} that of the old one (at most "
        f"{corrected.upper:.3f}), on held-out demonstrations {_tell_change(shown.ratio)} (at most "
        f"{shown.upper:.3f}){within}"
    )


def _tell_groups(paired: Paired) -> str:
    n = paired.within or paired.groups
    return f"{f'{paired.groups} sequences of ' * (paired.within > 0)}{n} group{'s' * (n > 1)}"


def _tell_change(ratio: float) -> str:
    return f"{ratio:.3f} times"


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g} %"
