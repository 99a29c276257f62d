"""An existing policy to go on from: round 0 of Algorithm 1, or one component of a mixture.

Training goes on in the units of that policy, so that both can be mixed; its lambda, h and horizon remain its own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from simile._common import checks
from simile._common.parts import Parts
from simile._common.typing import FloatArray, IntArray, PerAction, Trajectories
from simile.data.delays import suggest_lead
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import ActionSpace, Recorded, Units
from simile.data.states import Horizon, see
from simile.data.timing import Ahead, count_frames
from simile.errors import ArgumentError
from simile.learning.folds import predict
from simile.learning.rounds import mark_of
from simile.models import Model, WeightedModel, parts_of
from simile.models.closed_loop import ClosedLoop
from simile.models.regularizers import Autoregressor
from simile.policies.hold import Hold
from simile.policies.policies import (
    Policy,
    StochasticMixture,
    hold,
    hold_by,
    keep_by,
    offset,
    parts,
    prune,
    sample_geometric,
    whole,
)
from simile.policies.rollouts import SAME_RATE

Data = TypeVar("Data", bound=Recorded)
FARTHEST = 10.0  # times the spread of what a policy learned from, from where on its units may be others


def check_initial(initial: Policy, demos: Recorded, combine: Any = None) -> None:
    """Refuse a policy that was not made for such demonstrations, or that this way of mixing cannot begin with."""
    if isinstance(initial, str | os.PathLike):
        raise ArgumentError(f"initial must be a policy; got a path: write initial=simile.load({str(initial)!r})")
    checks.instance(initial, "initial", needs="in_units")
    card = initial.card
    for what, ours, theirs, count in (
        ("contexts", card.context_names, demos.context_names, initial.n_contexts),
        ("actions", card.action_names, demos.action_names, initial.n_actions),
    ):
        if (ours and ours != theirs) or count not in (None, len(theirs)):
            raise ArgumentError(
                f"initial must have the {what} of the demonstrations, in their order; got {ours or count} instead of "
                f"{theirs}: read these with {what}={list(ours or ())}"
            )
    kept, found = card.preparation, demos.preparation
    if not kept.agrees(found) or any(not set(c) <= set(found.missing.get(n, ())) for n, c in kept.missing.items()):
        raise ArgumentError(
            f"initial was learned with {kept}, and the demonstrations were read with {found}: read them with the same "
            "missing=... and wraps=..., or give demos.prepare(initial.card.preparation)"
        )
    if card.rate and demos.rate and not math.isclose(card.rate, demos.rate, rel_tol=SAME_RATE):
        raise ArgumentError(
            f"initial was learned at {card.rate:g} frames per second, and the demonstrations have {demos.rate:g}: "
            f"resample them, simile.read(..., resample={card.rate:g})"
        )
    if combine is sample_geometric and isinstance(initial, StochasticMixture):
        raise ArgumentError("initial must be one policy for SMILe, which gives of its share; got a mixture: use searn")


def see_by(
    demos: Data,
    horizon: Horizon | None,
    lead: float | None = None,
    known: Ahead | None = None,
    initial: Policy | None = None,
) -> tuple[Data, Horizon]:
    """Return demonstrations as policies of a run see them, and their horizon.

    A policy to go on from decides; where nothing does, the horizon is over contexts alone, as `learn` has it.
    """
    kept = next((part.horizon for _, part in (() if initial is None else parts(initial))), None)
    if kept is not None:
        horizon = replace(kept if horizon is None else horizon, lead=kept.lead, known=kept.known)
    if horizon is None:
        horizon = Horizon.auto(demos.rate, 0 if lead is None else count_frames(lead, demos.rate, "lead"))
    return see(demos, horizon, lead, known, fixed=kept is not None)


def settle_lead(
    demos: Recorded, lead: float | str | None, effect: Any = None
) -> tuple[float | None, tuple[str, ...], tuple[str, ...]]:
    """Return how far ahead to aim, which contexts tell what an action brought about, and what the user should know.

    Where `lead` is "auto" it is measured: how late the effect is behind the action (`simile.data.delays`). A context
    that follows from the action is none, and is not to be learned from.
    """
    if isinstance(lead, str) and lead != "auto":
        raise ArgumentError(f"lead must be seconds, or 'auto' to measure it by effect=...; got {lead!r}")
    if effect is None and isinstance(lead, str):
        raise ArgumentError(
            "lead: 'auto' measures how late the actuator is: name the context that tells what an action brought about, "
            "effect='angle' (--effect angle), or give seconds"
        )
    if not isinstance(lead, str):
        if effect is not None:
            raise ArgumentError(f"effect is what lead='auto' is measured by; got lead={lead}: leave one out")
        return lead, (), ()
    if not isinstance(demos, Demonstrations):
        raise ArgumentError("lead: 'auto' is measured on demonstrations at hand: simile.estimate_delay, then seconds")
    found = suggest_lead(demos, effect)
    given = (effect,) if isinstance(effect, str) else tuple(effect)
    names = tuple(name for name in given if isinstance(name, str))
    left = f"; {', '.join(names)} is no context any more" if names else ""
    return found.frames / (demos.rate or 1.0), names, (f"lead: {found}{left}",)


def standardized(initial: Policy, space: ActionSpace) -> Policy:
    """Return the policy as the algorithms have theirs: in standard units, without a hold or a memory of the start."""
    return keep_by(hold_by(initial, None), None).in_units(Units.identity(initial.n_actions), space)


@dataclass(frozen=True, eq=False)
class Kept:
    """The f and the filter of a policy to go on from, in the place of a model and of H: nothing is fitted."""

    f: Model
    h: Autoregressor
    smoothness: PerAction
    horizon: Horizon
    hold: Hold | None
    units: Units
    said: str
    seen: tuple[int, ...]  # marks of the sequences that it was learned from

    @classmethod
    def of(cls, initial: Policy) -> Self:
        """Take the policy as one f on contexts alone behind a linear filter, which is what can be mixed."""
        one = whole(prune(initial).policy)
        if one is None or one.horizon.memory or not isinstance(one.h, Autoregressor):
            raise ArgumentError(
                "initial must be one policy on contexts alone with one linear h for a mixture, as simile.learn "
                f"makes them; got {initial}: use simile.paper(demos, initial=...), which goes on from any (a command: "
                "--algorithm paper)"
            )
        models, weights = zip(*parts_of(one.f), strict=True)
        f = models[0] if len(models) == 1 else WeightedModel(models, weights)
        return cls(
            f,
            one.h,
            one.smoothness,
            one.horizon,
            one.hold,
            one.units,
            describe(initial),
            marks_of(initial.card.training),
        )

    def fit_folds(self, lessons: Parts) -> tuple[Model, Any]:
        """Return f as it is, and what it says: it has seen none of the sequences."""
        return self.f, lessons.map(_say, shared=(self.f,))

    def fit(self, trajectories: Trajectories, smoothness: float) -> Autoregressor:  # noqa: ARG002
        """Return h as it is."""
        return self.h

    def check_filter(
        self, demos: Recorded, way_out: str = "give smoothness=simile.MatchExpert() for another one"
    ) -> None:
        """Refuse a filter that hardly moves in the longest sequence, such as that of holding the last action."""
        lag, longest = float(ClosedLoop.of(self.h, self.smoothness).lags.max()), int(demos.lengths.max())
        if lag > longest:
            raise ArgumentError(
                f"initial has a filter that lags by {lag:.3g} frames, and the longest sequence has {longest}: {way_out}"
            )

    def __repr__(self) -> str:
        return f"the initial policy, {self.said}"


def _say(lesson: Any, f: Model) -> FloatArray:
    lengths = np.diff([0, *np.flatnonzero(np.diff(lesson.states.tape.floor)) + 1, len(lesson.states)])
    judged = np.repeat(np.ones(len(lengths), bool) if lesson.judged is None else lesson.judged, lengths)
    return predict(f, lesson.states.where(np.flatnonzero(judged)))


def marks_of(training: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the marks of the sequences that a card says were learned from; a card may come from anybody."""
    seen = training.get("seen")
    return tuple(mark for mark in seen if isinstance(mark, int)) if isinstance(seen, list | tuple) else ()


def find_new(training: Mapping[str, Any], demos: Recorded) -> IntArray:
    """Return the numbers of the sequences that a policy with this on its card was not learned from."""
    found: IntArray = demos.over("digests", _find_new, set(marks_of(training)))
    return found


def _find_new(digests: Sequence[bytes], marks: Collection[int]) -> IntArray:
    """Return the numbers of the sequences that have none of the marks."""
    return np.array([i for i, digest in enumerate(digests) if mark_of(digest) not in marks], dtype=np.intp)


def leave_seen(training: Mapping[str, Any], demos: Data) -> tuple[Data, str]:
    """Leave out what a policy with this on its card was learned from: by that nobody can tell what is better than it.

    Returns the other sequences, and a sentence where some were left out.
    """
    new = find_new(training, demos)
    if not len(new) or training.get("data") == demos.digest():
        raise ArgumentError(
            "initial was learned from all of these demonstrations, which cannot tell what is better than it: give "
            "recordings that it has not seen, or learn without initial"
        )
    if len(new) == len(demos):
        return demos, ""
    return demos.where(new), (
        f"initial was learned from {len(demos) - len(new)} of the {len(demos)} sequences, which cannot tell what is "
        "better than it and are left out: to learn from all of them together, learn without initial"
    )


def note_initial(initial: Policy, demos: Recorded, *, rounds: bool, validated: bool = True) -> tuple[str, ...]:
    """Say what the user should know about going on from a policy.

    Rounds look at errors in training, of what joins too; where they are not validated, nobody is flattered.
    """
    units, notes = Units.of(demos), []
    if rounds and validated:
        notes.append(
            "round 0 is the initial policy; where it has seen the validation part, its error is flattering, and it may "
            "be chosen for that: validate on recordings that it has not seen"
        )
    if not rounds and not marks_of(initial.card.training):
        notes.append(
            "the card of initial does not say which sequences it was learned from: where these are among them, its "
            "error is flattering, and what is learned now counts for too little: give recordings that it has not seen"
        )
    with np.errstate(all="ignore"):
        spread, away = units.scale / initial.units.scale, np.abs(units.center - initial.units.center)
    odd = (spread > FARTHEST) | (spread < 1.0 / FARTHEST) | (away > FARTHEST * initial.units.scale)
    if odd.any():
        names = ", ".join(name for name, far in zip(demos.action_names, odd, strict=True) if far)
        notes.append(
            f"{names}: the demonstrations lie {FARTHEST:g} times farther apart, closer or elsewhere than what initial "
            "was learned from: are they in the same unit?"
        )
    if rounds and (held := hold(initial)) is not None:
        notes.append(
            f"initial holds still, which the rounds of Algorithm 1 do not know of: put it back with "
            f"run.policy.holding({held!r})"
        )
    if rounds and (kept := offset(initial)) is not None:
        notes.append(
            f"initial remembers its start, which the rounds of Algorithm 1 do not know of: put it back, where f reads "
            f"contexts alone, with run.policy.keeping({kept!r})"
        )
    return tuple(notes)


def describe(initial: Policy) -> str:
    """Say, for a card, which policy it was."""
    training = initial.card.training
    data, n = training.get("data"), training.get("sequences")
    return f"{type(initial).__name__} of {n} sequences, {str(data)[:12]}" if n and data else type(initial).__name__
