"""Roll-outs (Section 2; Algorithm 1, line 4): the policy acts, and its own actions become its past."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from simile import _checks
from simile._typing import FloatArray, Trajectories
from simile.demonstrations import Demonstration, Demonstrations
from simile.errors import ArgumentError, DivergedError
from simile.policies import Policy, collapse
from simile.states import Horizon, Tape

# Actions this many standard units out are no actions any more.
DIVERGED = 1e6


@dataclass(frozen=True, eq=False)
class Opening:
    """How a roll-out begins, in the user's units, for each sequence."""

    past: list[FloatArray]  # (any, k) actions before frame 0; the earliest is taken to have lasted forever
    given: list[FloatArray]  # (any, k) actions of the first frames, which the policy does not choose


class Start(Protocol):
    """Where a roll-out takes its first past from."""

    def __call__(self, policy: Policy, contexts: Trajectories, demos: Demonstrations | None) -> Opening:
        """Open a roll-out; `demos` is None where there is no expert."""


@dataclass(frozen=True)
class ExpertStart:
    """Let the expert act until the policy has the past it needs, as the authors do; those frames are not scored."""

    def __call__(self, policy: Policy, contexts: Trajectories, demos: Demonstrations | None) -> Opening:
        """Give the expert's first frames, as many as the policy remembers."""
        if demos is None:
            raise ArgumentError(
                "start: contexts alone have no expert to start from: use start=ColdStart() or give the last actions"
            )
        nothing = np.empty((0, demos.n_actions))
        return Opening([nothing] * len(contexts), [a[: policy.memory] for a in demos.actions])


@dataclass(frozen=True)
class ColdStart:
    """Start without a past: as if the action guessed from the first context had always been held."""

    def __call__(self, policy: Policy, contexts: Trajectories, demos: Demonstrations | None) -> Opening:  # noqa: ARG002
        """Guess from the first contexts."""
        first = np.concatenate([x[:1] for x in contexts])
        n = len(first)
        tape = Tape(first, np.empty((n, 0)), np.arange(n))
        guess = policy.units.restore(policy.first_guess(tape.states(Horizon(0, 0))))
        return Opening([row[np.newaxis] for row in guess], [np.empty((0, guess.shape[1]))] * n)


@dataclass(frozen=True, eq=False)
class GivenStart:
    """Start from known actions, oldest first: a (k,) or (any, k) array for all sequences, or a list with one each."""

    history: Any

    def __call__(self, policy: Policy, contexts: Trajectories, demos: Demonstrations | None) -> Opening:  # noqa: ARG002
        """Use the given past."""
        listed = isinstance(self.history, list) and any(np.ndim(h) > 0 for h in self.history)
        histories = self.history if listed else [self.history] * len(contexts)
        if len(histories) != len(contexts):
            raise ArgumentError(
                f"start must hold one history for each of {len(contexts)} sequences; got {len(histories)}"
            )
        past = [_checks.table(np.atleast_2d(h), "start") for h in histories]
        return Opening(past, [p[:0] for p in past])


def rollout(
    policy: Policy,
    demos: Demonstrations | Demonstration | Sequence[Any],
    *,
    start: Start | Any = None,
    seed: int = 0,
) -> list[FloatArray]:
    """Roll a policy out over every sequence, all of them in step: one prediction per frame for all.

    Parameters
    ----------
    policy : Policy
        What acts.
    demos : Demonstrations, or a list of (T, m) context arrays
        The contexts; the expert's actions serve as the start alone.
    start : Start or array_like, optional
        `ExpertStart()` (the default), `ColdStart()`, or the last known actions.
    seed : int
        For stochastic policies; what a sequence draws does not depend on the sequences beside it.

    Returns
    -------
    list of (T, k) arrays
        The actions, in the user's units.

    Raises
    ------
    DivergedError
        When an action leaves every reasonable range.
    """
    expert, contexts = _contexts(demos)
    opening = open_rollout(policy, demos, start)
    return _roll(collapse(policy), contexts, opening, _limit(policy, expert), seed)


def open_rollout(policy: Policy, demos: Any, start: Start | Any = None) -> Opening:
    """Apply a start rule: what is known before the first frame, and which first frames are given."""
    _checks.instance(policy, "policy", needs="act")
    expert, contexts = _contexts(demos)
    _check_dimensions(policy, contexts)
    opener = ExpertStart() if start is None else start if callable(start) else GivenStart(start)
    opening = opener(policy, contexts, expert)
    if any(p.shape[1] != policy.n_actions for p in opening.past):
        raise ArgumentError(f"start must have the policy's {policy.n_actions} actions; got {opening.past[0].shape[1]}")
    return opening


def _roll(policy: Policy, contexts: Trajectories, opening: Opening, limit: float, seed: int) -> list[FloatArray]:
    """Fill a tape with actions, frame by frame, for all sequences that are still running."""
    run_in = np.array([len(p) for p in opening.past])
    given = np.array([len(g) for g in opening.given])
    lengths = np.array([len(x) for x in contexts])
    # Before frame 0 the first context is repeated, as lags before a sequence's start always are.
    padded = [np.concatenate([np.repeat(x[:1], r, axis=0), x]) for x, r in zip(contexts, run_in, strict=True)]
    actions = [np.zeros((len(x), policy.n_actions)) for x in padded]
    for a, past, known in zip(actions, opening.past, opening.given, strict=True):
        a[: len(past)] = policy.units.standardize(past)
        a[len(past) : len(past) + len(known)] = policy.units.standardize(known)
    tape = Tape.of(padded, actions)
    first = np.flatnonzero(np.diff(tape.floor, prepend=-1)) + run_in
    chance = np.zeros((len(lengths), int(lengths.max())))
    for i, length in enumerate(lengths):  # a generator per sequence: its numbers do not depend on its company
        chance[i, :length] = np.random.default_rng((seed, i)).random(length)
    low, high = (policy.units.standardize(bound) for bound in (policy.space.low, policy.space.high))
    for t in range(int(lengths.max())):
        active = np.flatnonzero((given <= t) & (t < lengths))
        if len(active) == 0:
            continue
        rows = first[active] + t
        acted = np.clip(policy.act(tape.states(Horizon(0, 0), rows), chance[active, t]), low, high)
        lost = ~(np.abs(acted) <= limit).all(axis=1)  # catches NaN too
        if lost.any():
            worst = int(np.argmax(lost))
            raise DivergedError(
                f"the roll-out of sequence {active[worst]} diverged at frame {t}, where the action is "
                f"{policy.units.restore(acted[worst])}: try other smoothness, fewer action lags or an ActionSpace"
            )
        tape.actions[rows] = acted
    rolled = policy.space.clip(policy.units.restore(tape.actions))
    result = [rolled[f : f + t] for f, t in zip(first, lengths, strict=True)]
    for trajectory, known in zip(result, opening.given, strict=True):
        trajectory[: len(known)] = known  # to the bit, not to a rounding error of the units
    return result


def _contexts(demos: Any) -> tuple[Demonstrations | None, Trajectories]:
    """Tell demonstrations from bare contexts."""
    if isinstance(demos, Demonstration | Demonstrations) or (
        isinstance(demos, Iterable)
        and not isinstance(demos, np.ndarray)
        and all(isinstance(d, Demonstration) for d in demos)
    ):
        expert = Demonstrations.of(demos)
        return expert, expert.contexts
    many = demos if isinstance(demos, list | tuple) else [demos]
    return None, [_checks.table(x, "contexts", allow_nan=True) for x in many]


def _check_dimensions(policy: Policy, contexts: Trajectories) -> None:
    for x in contexts:
        if policy.n_contexts not in (None, x.shape[1]):
            raise ArgumentError(
                f"contexts must have the {policy.n_contexts} columns that the policy was trained on; got {x.shape[1]}"
            )


def _limit(policy: Policy, expert: Demonstrations | None) -> float:
    """Return the size of action that counts as diverged, in standard units."""
    if expert is None:
        return DIVERGED
    return DIVERGED * max(1.0, *(float(np.abs(policy.units.standardize(a)).max()) for a in expert.actions))
