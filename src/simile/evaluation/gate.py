"""The gate: whether a new policy may take the place of an old one, by paired roll-outs of both.

Both are rolled out over the same held-out sequences, so that what is hard for both cancels. What decides is the verdict
on the new one beside the old one, by the end of its interval: where nothing has changed that ends below 1 in 2 to 6 of
100 cases, however unlike the groups are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simile._common import checks
from simile._common.text import count
from simile.data.demonstrations import Demonstrations
from simile.data.groups import number_labels
from simile.data.reference import Reference
from simile.evaluation.evaluation import roll_each
from simile.evaluation.rivals import Held
from simile.learning.frontier import time_scale
from simile.learning.verdict import Verdict, reach_verdict
from simile.metrics import FEWEST, Tally
from simile.policies.policies import Policy, given_frames

AT_WORK = "the policy at work"


@dataclass(frozen=True, eq=False)
class Decision:
    """What the gate decided; prints as what is said of the new policy, and the reason.

    Attributes
    ----------
    accepted : bool
        Whether the new policy may take the place of the old one.
    reason : str
        Why, in a sentence.
    demonstrations, corrections : Verdict
        On the new policy beside the old one, over held-out demonstrations, and over held-out corrections where the
        operator acted.
    roughness, reversals : (old, new)
        Of the roll-outs over the demonstrations: means over the actions.
    """

    accepted: bool
    reason: str
    demonstrations: Verdict
    corrections: Verdict
    roughness: tuple[float, float]
    reversals: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        verdicts = {name: getattr(self, name).to_dict() for name in ("demonstrations", "corrections")}
        return {**vars(self), **verdicts}

    def __str__(self) -> str:
        (rough, rougher), (turns, more) = self.roughness, self.reversals
        return (
            f"on held-out demonstrations: {self.demonstrations}\n"
            f"on held-out corrections: {self.corrections.accuracy}\n"
            f"roughness {rough:.3g} before, {rougher:.3g} now; reversals {turns:.3g} before, {more:.3g} now "
            f"{self.demonstrations.per}\n{self.reason}"
        )


@dataclass(frozen=True)
class Gate:
    """When a new policy may take the place of an old one.

    Parameters
    ----------
    margin : float
        Share by which its error on demonstrations may be larger, at the end of its interval.
    gain : float
        Share by which its error on corrections must be smaller, at the end of its interval. More than none: an operator
        takes over where the old policy is at its worst, so that any other looks better there.
    tolerance : float
        Share by which it may be rougher, and turn more often, in so many turns as are no chance.

    Examples
    --------
    >>> Gate(margin=0.02)
    Gate(margin=0.02, gain=0.0025, tolerance=0.15)
    """

    margin: float = 0.025
    gain: float = 0.0025
    tolerance: float = 0.15

    def __post_init__(self) -> None:
        for name in ("margin", "tolerance"):
            checks.number(getattr(self, name), name, at_least=0.0)
        checks.number(self.gain, "gain", at_least=0.0, at_most=1.0)

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
        begin, logs = max(given_frames(old), given_frames(new)), old.card.logs(demos.n_actions)
        references = [Reference(part, old.units.scale, begin, logs=logs) for part in (demos, corrections)]
        before, after = ([one.tally(roll_each(who, one.demos, begin)) for one in references] for who in (old, new))
        return self.decide(references, before, after)

    def decide(self, references: Sequence[Reference], old: Sequence[Tally], new: Sequence[Tally]) -> Decision:
        """Decide by what both policies did over demonstrations and corrections, in this order."""
        shown = _compare(references[0], old[0], new[0], ungroup=True)
        corrected = _compare(references[1], old[1], new[1])
        rough = old[0].score.roughness, new[0].score.roughness
        turns = float(old[0].turns.sum()), float(new[0].turns.sum())
        rates = [float(np.mean(some[0].turn_rates(shown.rate)[0])) for some in (old, new)]
        objection = self._object(shown, corrected, rough, turns)
        told = f"accepted: {_tell_gain(shown, corrected)}" if objection is None else f"not accepted: {objection}"
        return Decision(objection is None, f"{told}.", shown, corrected, rough, (rates[0], rates[1]))

    def _object(
        self, shown: Verdict, corrected: Verdict, rough: tuple[float, float], turns: tuple[float, float]
    ) -> str | None:
        """Say what speaks against the new policy; None where nothing does."""
        for found, what in ((shown, "demonstrations"), (corrected, "corrections")):
            if not found.recordings:
                return f"no frame of the held-out {what} counts, behind the first ones, which are given: record longer"
            if found.diverged:
                return f"on held-out {what} {found.accuracy.text}"
            if not found.is_enough:
                few = count(found.groups, "group")
                return f"held-out {what} are of {few}, and fewer than {FEWEST} tell nothing: record more"
            if not found.over_baseline.is_sure:
                return f"on held-out {what} {AT_WORK} makes no errors, or diverges: there is nothing to compare with"
        over = shown.over_baseline
        if over.high > 1.0 + self.margin:
            return (
                f"on held-out demonstrations its error may be {_percent(over.high - 1.0)} larger "
                f"({_percent(over.value - 1.0)} as measured), and {_percent(self.margin)} is allowed"
            )
        over = corrected.over_baseline
        if not over.high < 1.0 - self.gain:
            return (
                f"on held-out corrections its error is {over.value:.3f} times that of the old one, which is not surely "
                f"{_percent(self.gain)} less (at most {over.high:.3f})"
            )
        chance = math.sqrt(turns[0] + turns[1])  # a standard error of the difference of both counts
        for what, (old, new), more in (("is rougher", rough, 0.0), ("turns more often", turns, chance)):
            if new > (1.0 + self.tolerance) * old + more:
                return f"it {what} than the old one, {new / old if old else math.inf:.2f} times"
        return None


def _compare(reference: Reference, old: Tally, new: Tally, *, ungroup: bool = False) -> Verdict:
    """Reach the verdict on a new policy beside the old one; by sequence where groups are few, if that is wanted."""
    demos = reference.demos
    kin, alone = number_labels([demo.group for demo in demos]), ""
    if ungroup and kin.max() + 1 < min(FEWEST, len(demos)):
        kin, alone = np.arange(len(demos)), f"of {count(int(kin.max()) + 1, 'group')} alone"
    return reach_verdict(
        new,
        reference.tally(Held().rollout(demos, frames=reference.begin)),
        old,
        actions=demos.action_names,
        scale=reference.scale,
        kin=kin,
        rate=demos.rate,
        baseline=AT_WORK,
        new=alone,
        pace=time_scale(demos),
    )


def _tell_gain(shown: Verdict, corrected: Verdict) -> str:
    over = (one.over_baseline for one in (corrected, shown))
    better, same = (f"{one.value:.3f} times (at most {one.high:.3f})" for one in over)
    return f"on held-out corrections its error is {better} that of the old one, on held-out demonstrations {same}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g} %"
