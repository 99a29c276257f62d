"""Line 6 of Algorithm 1: the targets a^ that the next policy is trained to reach, and the schedules of sigma."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.text import spell
from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import Units
from simile.data.states import States
from simile.errors import ArgumentError
from simile.policies.policies import Policy


@dataclass(frozen=True, eq=False)
class Seen:
    """The round so far, as a feedback sees it; contexts and actions are in standard units, see `Units`."""

    round: int
    n_rounds: int
    demos: Demonstrations
    rolled: Trajectories
    states: States
    policy: Policy
    units: Units


@runtime_checkable
class Feedback(Protocol):
    """Gives the targets of a round."""

    def __call__(self, seen: Seen) -> Trajectories:
        """Return one (T, k) array of targets per sequence."""


@dataclass(frozen=True)
class Schedule:
    """A rule for sigma, the share of the rolled-out trajectory in the targets."""

    text: str
    rule: Callable[[Seen], float]

    def __call__(self, seen: Seen) -> float:
        """Return the sigma of this round."""
        return checks.number(self.rule(seen), f"sigma of {self.text}", at_least=0.0, at_most=1.0)

    def __repr__(self) -> str:
        return self.text


def constant(sigma: float) -> Schedule:
    """Keep sigma as it is.

    >>> SmoothFeedback(constant(0.5))
    SmoothFeedback(schedule=constant(0.5))
    """
    sigma = checks.number(sigma, "sigma", at_least=0.0, at_most=1.0)
    return Schedule(f"constant({sigma:g})", partial(_geometric, start=sigma, decay=1.0))


def geometric(start: float, decay: float) -> Schedule:
    """Let sigma fall by a factor each round: start, start * decay, start * decay^2, ..."""
    start = checks.number(start, "start", at_least=0.0, at_most=1.0)
    decay = checks.number(decay, "decay", at_least=0.0, at_most=1.0)
    return Schedule(f"geometric({start:g}, {decay:g})", partial(_geometric, start=start, decay=decay))


def linear(start: float = 1.0) -> Schedule:
    """Let sigma fall evenly to 0, where it is in the last round: start * (1 - n / N) in round n of N."""
    start = checks.number(start, "start", at_least=0.0, at_most=1.0)
    return Schedule(f"linear({start:g})", partial(_linear, start=start))


def exponential(first: float = 0.2, last: float = 1.6) -> Schedule:
    """Let sigma fall as the authors' released script does: exp(-u), u evenly spaced from first to last.

    It ends at exp(-last), 0.2 by default, and not at 0: `linear` does.
    """
    first = checks.number(first, "first", at_least=0.0)
    last = checks.number(last, "last", at_least=first)
    return Schedule(f"exponential({first:g}, {last:g})", partial(_exponential, first=first, last=last))


def by_distance(half: float = 1.0) -> Schedule:
    """Let sigma follow the distance d between A and A*, as Appendix B says: sigma = d / (d + half).

    d is the root mean squared distance in standard units, so sigma is 1/2 where the roll-out is `half`
    standard deviations off, and falls to 0 as it improves.
    """
    half = checks.number(half, "half", above=0.0)
    return Schedule(f"by_distance({half:g})", partial(_by_distance, half=half))


def _as_schedule(given: Schedule | float | Callable[[Seen], float]) -> Schedule:
    if isinstance(given, Schedule):
        return given
    if isinstance(given, float | int):
        return constant(given)
    named: tuple[object, ...] = (constant, geometric, linear, exponential, by_distance)
    if any(given is one for one in named):
        raise ArgumentError(f"schedule: write {spell(given)}(), with parentheses and what it needs in them")
    if callable(given):
        checks.instance(given, "schedule", needs="__call__")
        return Schedule(spell(given), given)
    raise ArgumentError(
        f"schedule must be a Schedule, a number or a function of Seen, for example 0.5, linear() or "
        f"geometric(0.7, 0.5); got {given!r}"
    )


# The rules stand at the top level so that schedules can be sent to other processes.


def _geometric(seen: Seen, *, start: float, decay: float) -> float:
    return start * decay ** (seen.round - 1)


def _linear(seen: Seen, *, start: float) -> float:
    return start * (1.0 - seen.round / seen.n_rounds)


def _exponential(seen: Seen, *, first: float, last: float) -> float:
    progress = (seen.round - 1) / max(seen.n_rounds - 1, 1)
    return float(np.exp(-(first + (last - first) * progress)))


def _by_distance(seen: Seen, *, half: float) -> float:
    gaps = [a - b for a, b in zip(seen.rolled, seen.demos.actions, strict=True)]
    distance = float(np.sqrt(np.mean(np.concatenate(gaps) ** 2)))
    return distance / (distance + half)


@dataclass(frozen=True)
class ExpertFeedback:
    """Ask for what the expert did: a^ = a* (sigma = 0)."""

    def __call__(self, seen: Seen) -> Trajectories:
        """Return the expert's actions."""
        return seen.demos.actions


@dataclass(frozen=True)
class SmoothFeedback:
    """Ask for a smooth correction: a^ = sigma a + (1 - sigma) a* (Section 4; Proposition 5.8).

    Parameters
    ----------
    schedule : Schedule, float or callable
        sigma by round: `linear()`, for example; a number for the same in all; or a function of `Seen`.
    """

    schedule: Schedule | float | Callable[[Seen], float] = field(default_factory=exponential)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule", _as_schedule(self.schedule))

    def sigma(self, seen: Seen) -> float:
        """Return the sigma of this round."""
        return _as_schedule(self.schedule)(seen)

    def __call__(self, seen: Seen) -> Trajectories:
        """Return the targets between roll-out and expert."""
        sigma = self.sigma(seen)
        return [sigma * a + (1.0 - sigma) * b for a, b in zip(seen.rolled, seen.demos.actions, strict=True)]


@dataclass(frozen=True)
class OracleFeedback:
    """Ask an expert who can be queried in any state, the dynamic oracle of SEARN and DAgger.

    Parameters
    ----------
    oracle : callable
        Maps `States` to the expert's actions (n, k) or (n,), in the user's units. `states.contexts` are the
        present contexts and `states.history(order)` the past actions, the latest first.
    """

    oracle: Callable[[States], FloatArray]

    def __post_init__(self) -> None:
        checks.instance(self.oracle, "oracle", needs="__call__")

    def __call__(self, seen: Seen) -> Trajectories:
        """Query the oracle in all states of the round at once."""
        tape = seen.states.tape
        shown = tape.with_actions(seen.units.restore(tape.actions))
        if seen.units.origin is not None:
            shown = replace(shown, parts=[seen.units.shift_back(x) for x in tape.parts], memo={})
        states = replace(seen.states, tape=shown)
        answer = np.asarray(self.oracle(states), dtype=np.float64)
        if answer.size != tape.actions.size:
            raise ArgumentError(f"oracle must return actions of shape {tape.actions.shape}; got shape {answer.shape}")
        if not np.isfinite(answer).all():
            raise ArgumentError("oracle must return finite actions; got NaN or infinity")
        targets = seen.units.standardize(answer.reshape(tape.actions.shape))
        return np.split(targets, np.cumsum([len(d) for d in seen.demos])[:-1])
