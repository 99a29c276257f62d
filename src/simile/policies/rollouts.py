"""Roll-outs (Section 2; Algorithm 1, line 4): the policy acts, and its own actions become its past."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, overload

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.names import list_some
from simile.data.states import Horizon, States, Tape
from simile.data.timing import look_ahead
from simile.errors import ArgumentError, DivergedError
from simile.models import Forest, WeightedModel, parts_of
from simile.models.neural import Network
from simile.policies.bands import Banded, Doubts, check_level, draw_band
from simile.policies.cards import Card
from simile.policies.fused import FusedPolicy
from simile.policies.hold import Hold
from simile.policies.policies import Policy, SmoothPolicy, acting, given_frames, hold, timing, whole
from simile.policies.precision import find_limits, warn_unresolved
from simile.policies.stages import Chain, Stage

# Actions this many standard units out are no actions any more.
DIVERGED = 1e6
SAME_RATE = 0.01  # 29.97 frames per second are 30
BLOCK = 20_000  # states that a model is asked for at a time


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
    """Let the expert act until the policy has the past it needs, as the authors do; those frames are not scored.

    Parameters
    ----------
    frames : int
        Fewest frames that the expert acts: policies with different memories are compared on the same frames.
    """

    frames: int = 0

    def __post_init__(self) -> None:
        checks.whole_number(self.frames, "frames")

    def __call__(self, policy: Policy, contexts: Trajectories, demos: Demonstrations | None) -> Opening:
        """Give the expert's first frames, at least as many as the policy remembers."""
        if demos is None:
            raise ArgumentError(
                "start: contexts alone have no expert to start from: use start=ColdStart() or give the last actions"
            )
        nothing = np.empty((0, demos.n_actions))
        acting = max(given_frames(policy), self.frames)  # the first action is for that frame
        return Opening([nothing] * len(contexts), [a[:acting] for a in demos.actions])


@dataclass(frozen=True)
class ColdStart:
    """Start without a past: as if the action guessed from the first context had always been held.

    That guess, and the first action that the policy chooses, lie within what experts did in the first frames of
    recordings, where the policy knows that (`ActionSpace`).
    """

    def __call__(self, policy: Policy, contexts: Trajectories, demos: Demonstrations | None) -> Opening:  # noqa: ARG002
        """Guess from the first contexts."""
        first = policy.units.shift(np.concatenate([x[:1] for x in contexts]))
        guess = policy.space.begin(policy.units.restore(_guess(acting(policy), first)))
        return _open(policy, [row[np.newaxis] for row in guess])


def _guess(policy: Policy, contexts: FloatArray) -> FloatArray:
    """Guess actions (n, k) from first contexts alone, by the kernel of the steps where there is one, with its bits."""
    n = len(contexts)
    if isinstance(policy, SmoothPolicy):
        model, horizon = policy.f, policy.horizon
        if horizon.memory and policy.naive is not None:
            model, horizon = policy.naive, horizon.without_actions()
        bare = replace(policy, f=model, horizon=horizon, smoothness=0.0, hold=None, offset=None)
        if not horizon.memory and (fused := FusedPolicy.of(bare)) is not None:
            none, free = [np.zeros((1, policy.n_actions))] * n, np.full(policy.n_actions, np.inf)
            rows = [row[np.newaxis] for row in contexts]
            said, lost = fused.roll(rows, none, [none[0][:0]] * n, low=-free, high=free, limit=np.inf)
            if lost is None:
                return np.concatenate(said)
    tape = Tape([contexts], np.empty((n, 0)), np.arange(n))
    return policy.first_guess(tape.states(Horizon(0, 0)))


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
        return _open(policy, [checks.table(np.atleast_2d(h), "start") for h in histories])


def _open(policy: Policy, past: list[FloatArray]) -> Opening:
    """Begin where the actions of the past were the last: of a policy that aims ahead they are for its first frames."""
    lead = max(timing(policy)[0], 0)
    longer = [np.concatenate([p[:1].repeat(lead, axis=0), p]) for p in past]
    return Opening([p[: len(p) - lead] for p in longer], [p[len(p) - lead :] for p in longer])


@overload
def rollout(
    policy: Policy,
    demos: Demonstrations | Demonstration | Sequence[Any],
    *,
    start: Start | Any = ...,
    seed: int = ...,
    stages: Stage | Sequence[Stage] = ...,
    rate: float | None = ...,
    first: int = ...,
    band: None = ...,
) -> list[FloatArray]: ...
@overload
def rollout(
    policy: Policy,
    demos: Demonstrations | Demonstration | Sequence[Any],
    *,
    start: Start | Any = ...,
    seed: int = ...,
    stages: Stage | Sequence[Stage] = ...,
    rate: float | None = ...,
    first: int = ...,
    band: float,
) -> list[Banded]: ...
def rollout(
    policy: Policy,
    demos: Demonstrations | Demonstration | Sequence[Any],
    *,
    start: Start | Any = None,
    seed: int = 0,
    stages: Stage | Sequence[Stage] = (),
    rate: float | None = None,
    first: int = 0,
    band: float | None = None,
) -> list[FloatArray] | list[Banded]:
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
    stages : sequence of Stage
        What the actuator can follow, as in `Predictor`, with its bits: they change what is sent, and the policy's past
        remains its own actions.
    rate : float, optional
        Frames per second, for stages; that of the policy's card, or else of the demonstrations, by default.
    first : int
        Number of the first sequence, by which it draws, where these are some out of many.
    band : float, optional
        Level of the band to put around the actions, such as 0.9, for a policy that carries one (`simile.learn`).

    Returns
    -------
    list of (T, k) arrays
        The actions, in the user's units; with `band`, a list of `Banded` that hold them.

    Raises
    ------
    DivergedError
        When an action leaves every reasonable range.
    """
    expert, contexts = _contexts(demos, policy)
    doubts, level = (None, 0.0) if band is None else (Doubts.of(policy), check_level(band))
    opening = open_rollout(policy, demos, start)
    chain = _chain(policy, len(contexts), stages, rate, expert) if stages else None
    policy = acting(policy)
    contexts = [policy.units.shift(x) for x in contexts]
    if (limits := find_limits(policy, contexts[0].shape[1])) is not None:
        any(warn_unresolved(policy, x, limits) for x in contexts)
    # What an actuator did is turned into what the policy would have wanted; its own guess is that already.
    cold = isinstance(start, ColdStart)
    undo = chain.undo if chain is not None and not cold else lambda actions: actions
    past = [policy.units.standardize(undo(a)) for a in opening.past]
    given = [policy.units.standardize(undo(a)) for a in opening.given]
    low, high = (policy.units.standardize(bound) for bound in (policy.space.low, policy.space.high))
    bounds = find_first(policy) if cold else None
    fused, limit = FusedPolicy.of(policy), _limit(policy, expert)
    if fused is not None:
        actions, lost = fused.roll(contexts, past, given, low=low, high=high, limit=limit, first=bounds)
    else:
        chance = [np.random.default_rng((seed, i)).random(len(x)) for i, x in enumerate(contexts, first)]
        actions, lost = _roll(policy, contexts, past, given, chance, (low, high), bounds, limit)
    if lost is not None:
        sequence, frame = lost
        raise DivergedError(
            f"the roll-out of sequence {sequence} diverged at frame {frame}, at the action "
            f"{policy.units.restore(actions[sequence][frame])}: try other smoothness, fewer action lags, an ActionSpace"
        )
    held, wanted = hold(policy), actions
    if held is not None:
        stand = [np.clip(p[-1:], low, high) for p in past]
        actions = [let_hold(held, *parts) for parts in zip(actions, stand, given, strict=True)]
    rolled = [policy.space.clip(policy.units.restore(a)) for a in actions]
    for trajectory, known in zip(rolled, opening.given, strict=True):
        trajectory[: len(known)] = known  # to the bit, not to a rounding error of the units
        if cold:
            trajectory[len(known) : len(known) + 1] = policy.space.begin(trajectory[len(known) : len(known) + 1])
    if chain is not None:
        _send(chain, rolled, opening, cold=cold)
    if doubts is None:
        return rolled
    led = [len(known) for known in given]
    sigmas = doubts.along(contexts, wanted, past, led, cold=cold)
    return [draw_band(policy, doubts.band, level, a, sigma) for a, sigma in zip(rolled, sigmas, strict=True)]


def let_hold(held: Hold, actions: FloatArray, stand: FloatArray, given: FloatArray) -> FloatArray:
    """Let the actions of a roll-out pass the hysteresis, from the given actions on, or else from where it stands."""
    known = given if len(given) else stand
    rows = np.concatenate([known, actions[len(given) :]])
    return held.along(rows, np.arange(len(rows)) < len(known))[len(rows) - len(actions) :]


def rollout_out_of_bag(policy: Policy, demos: Demonstrations | Demonstration) -> list[FloatArray]:
    """Roll a policy out over its training sequences, each by the trees that saw nothing of it.

    Needs forests grown with `Bagging.SEQUENCES` on these very demonstrations; the errors are then those of unseen
    sequences, without holding any out.
    """
    demos, one = Demonstrations.of(demos), whole(policy)
    models = () if one is None else parts_of(one.f)
    forests = [(f, weight) for f, weight in models if isinstance(f, Forest)]
    if one is None or len(forests) < len(models):
        raise ArgumentError("policy must be made of forests with one smoothness and a linear h to be rolled out of bag")
    rolled = []
    for i in range(len(demos)):
        unseen = tuple(f.out_of_bag(i, len(demos)) for f, _ in forests)
        rolled += rollout(replace(one, f=WeightedModel(unseen, tuple(weight for _, weight in forests))), demos[i])
    return rolled


def open_rollout(policy: Policy, demos: Any, start: Start | Any = None) -> Opening:
    """Apply a start rule: what is known before the first frame, and which first frames are given."""
    checks.instance(policy, "policy", needs="act")
    expert, contexts = _contexts(demos, policy)
    _check_dimensions(policy, contexts)
    opener = ExpertStart() if start is None else start if callable(start) else GivenStart(start)
    opening = opener(policy, contexts, expert)
    if any(p.shape[1] != policy.n_actions for p in opening.past):
        raise ArgumentError(
            f"demos or start must have the policy's {policy.n_actions} actions; got {opening.past[0].shape[1]}"
        )
    # A sequence may be shorter than what a policy that aims ahead is given.
    return replace(opening, given=[known[: len(x)] for known, x in zip(opening.given, contexts, strict=True)])


def _roll(
    policy: Policy,
    contexts: Trajectories,
    past: Trajectories,
    given: Trajectories,
    chance: Trajectories,
    sides: tuple[FloatArray, FloatArray],
    bounds: FloatArray | None,
    limit: float,
) -> tuple[list[FloatArray], tuple[int, int] | None]:
    """Fill a tape with actions in standard units, frame by frame, for all sequences that are still running.

    `bounds` (2, k) are those of the first action that is not given. Returns the actions and, where one diverged, which
    sequence and when.
    """
    run_in = np.array([len(p) for p in past])
    begin = np.array([len(g) for g in given])
    lengths = np.array([len(x) for x in contexts])
    # Before frame 0 the first context is repeated, as lags before a sequence's start always are.
    padded = [np.concatenate([np.repeat(x[:1], r, axis=0), x]) for x, r in zip(contexts, run_in, strict=True)]
    actions = [np.zeros((len(x), policy.n_actions)) for x in padded]
    for a, before, known in zip(actions, past, given, strict=True):
        a[: len(before)] = before
        a[len(before) : len(before) + len(known)] = known
    tape = Tape.of(padded, actions)
    first = np.flatnonzero(np.diff(tape.floor, prepend=-1)) + run_in
    acted_on = [f + np.arange(b, n) for f, b, n in zip(first, begin, lengths, strict=True)]
    act, lost = _ask_ahead(policy, tape, np.concatenate(acted_on)), None
    for t in range(int(lengths.max())):
        active = np.flatnonzero((begin <= t) & (t < lengths))
        if len(active) == 0:
            continue
        rows = first[active] + t
        acted = act(tape.states(Horizon(0, 0), rows), np.array([chance[int(i)][t] for i in active]))
        acted = np.clip(acted, *sides)
        if bounds is not None and (new := begin[active] == t).any():
            acted[new] = np.clip(acted[new], *bounds)
        tape.actions[rows] = acted
        wild = ~(np.abs(acted) <= limit).all(axis=1)  # catches NaN too
        if wild.any():
            lost = (int(active[np.argmax(wild)]), t)
            break
    return [tape.actions[f : f + t] for f, t in zip(first, lengths, strict=True)], lost


def _chain(
    policy: Policy, n: int, stages: Stage | Sequence[Stage], rate: float | None, expert: Demonstrations | None
) -> Chain:
    """Return the stages behind n roll-outs, each of which takes as long as a frame of the data does."""
    ours, theirs = policy.card.rate, None if expert is None else expert.rate
    if rate is None and ours and theirs and not math.isclose(ours, theirs, rel_tol=SAME_RATE):
        raise ArgumentError(
            f"rate: the policy was trained at {ours:g} frames per second, and the demonstrations have {theirs:g}: "
            f"resample them, simile.read(..., resample={ours:g}) (--resample {ours:g}), or say that a step is a frame "
            "by rate=... (--rate)"
        )
    pace = ours or theirs if rate is None else checks.rate(rate)
    return Chain(stages, n, policy.n_actions, pace, reasonable(policy))


def _send(chain: Chain, wanted: Trajectories, opening: Opening, *, cold: bool) -> None:
    """Put what the stages let through in the place of what a policy wants, frame by frame as online.

    They go on from known actions; where there are none, they are at rest at the first one that is wanted.
    """
    for i, known in enumerate([] if cold else opening.past):
        for action in known[-chain.depth :]:
            chain.follow(np.array([i]), action[np.newaxis])
    for t in range(max(map(len, wanted))):
        here = [i for i, trajectory in enumerate(wanted) if t < len(trajectory)]
        streams, now = np.array(here), np.array([wanted[i][t] for i in here])
        led = np.array([t < len(opening.given[i]) for i in here])
        if not cold:
            chain.follow(streams[led], now[led])
        if not led.all():
            now[~led] = chain(streams[~led], now[~led])
        for i, sent in zip(here, now, strict=True):
            wanted[i][t] = sent
    chain.warn_of_restarts("sequence")


def _ask_ahead(policy: Policy, tape: Tape, rows: IntArray) -> Callable[[States, FloatArray], FloatArray]:
    """Return how to act on these rows of a tape, in order: as the policy does, an f on contexts alone asked in advance.

    Most models take hardly longer for thousands of states than for one; h is then all that is left to do in a frame.
    """
    if not isinstance(policy, SmoothPolicy) or policy.horizon.memory or len(rows) == 0:
        return policy.act
    if any(isinstance(f, Network) for f, _ in parts_of(policy.f)):  # its bits depend on the rows beside a row
        rows = np.arange(len(tape.floor))
    states = tape.states(policy.horizon, rows)
    blocks = np.split(np.arange(len(rows)), range(BLOCK, len(rows), BLOCK))
    said = np.empty((len(tape.floor), policy.n_actions))
    said[rows] = np.concatenate([policy.f.predict(states.where(block).matrix()) for block in blocks])

    # What a row takes over from the one before it; NaN where the policy did not choose that.
    kept = np.full((0 if policy.offset is None else len(said) + 1, policy.n_actions), np.nan)

    def act(states: States, chance: FloatArray) -> FloatArray:  # noqa: ARG001
        z = said[states.rows]
        if policy.offset is not None:
            z, kept[states.rows + 1] = policy.offset(z, states.history(1)[:, 0], kept[states.rows])
        return policy.smooth(z, states)

    return act


def _contexts(demos: Any, policy: Policy) -> tuple[Demonstrations | None, Trajectories]:
    """Tell demonstrations from bare contexts; both as the policy sees them."""
    _, known = timing(policy)
    card = getattr(policy, "card", None) or Card()
    preparation = card.preparation
    if isinstance(demos, Demonstration | Demonstrations) or (
        isinstance(demos, Iterable)
        and not isinstance(demos, np.ndarray)
        and all(isinstance(d, Demonstration) for d in demos)
    ):
        expert = Demonstrations.of(demos)
        if not preparation.among(expert.action_names).agrees(expert.preparation):
            raise ArgumentError(
                f"demos: {list_some(preparation.wraps)} must go on past a period, as at training: give "
                "demos.prepare(policy.card.preparation), or read them with the same wraps=..."
            )
        expert = expert.prepare(preparation).foretell(known)
        return expert, expert.contexts
    many = demos if isinstance(demos, list | tuple) else [demos]
    given = (checks.table(x, "contexts", allow_nan=True) for x in many)
    tables = [preparation.mend(x, card.context_names[: x.shape[1]]) for x in given]
    # Wide ones bring what is known ahead themselves.
    return None, [x if x.shape[1] == policy.n_contexts else look_ahead(x, known) for x in tables]


def _check_dimensions(policy: Policy, contexts: Trajectories) -> None:
    for x in contexts:
        if policy.n_contexts not in (None, x.shape[1]):
            raise ArgumentError(
                f"contexts must have the {policy.n_contexts} columns that the policy was trained on; got {x.shape[1]}"
            )


def find_first(policy: Policy) -> FloatArray | None:
    """Return the bounds of the first action of a cold start in standard units, (2, k); None where there are none."""
    space = policy.space
    if space.first_low is None or space.first_high is None:
        return None
    sides = [policy.units.standardize(space.clip(side)) for side in (space.first_low, space.first_high)]
    return np.array([np.broadcast_to(side, (policy.n_actions,)) for side in sides])


def reasonable(policy: Policy) -> tuple[FloatArray, FloatArray]:
    """Return the range, (k,) each and in the user's units, beyond which there are no actions, whoever made them."""
    least, most = (policy.units.restore(np.full(policy.n_actions, limit)) for limit in (-DIVERGED, DIVERGED))
    return least, most


def _limit(policy: Policy, expert: Demonstrations | None) -> float:
    """Return the size of action that counts as diverged, in standard units."""
    if expert is None:
        return DIVERGED
    return DIVERGED * max(1.0, *(float(np.abs(policy.units.standardize(a)).max()) for a in expert.actions))
