"""A policy at work in a plant: what it sees follows from what it did, and costs something, beside the expert there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray
from simile.data.demonstrations import Demonstrations
from simile.errors import ArgumentError, DivergedError
from simile.learning.verdict import AtWork
from simile.metrics import Estimate, estimate
from simile.online import Predictor
from simile.online.inputs import put_in_order, read_numbers
from simile.policies.policies import Policy, given_frames, recorded_names, timing
from simile.policies.rollouts import ColdStart, ExpertStart, GivenStart, Start

MOST_FRAMES = 100_000  # of an episode: of one that is longer nobody knows whether it ends


class Plant(Protocol):
    """What a policy acts on: a simulation, or the real thing behind a driver.

    Where it has a method `expert()` too, which returns what the expert would do now, (k,) numbers, policies are
    compared with that, and `record` makes demonstrations of it. A Gymnasium environment becomes a plant like this::

        class FromGymnasium:
            def __init__(self, env):
                self.env = env

            def reset(self, seed):
                return self.env.reset(seed=seed)[0]

            def step(self, action):
                observed, reward, terminated, truncated, _ = self.env.step(action)
                return (None if terminated or truncated else observed), -reward
    """

    def reset(self, seed: int) -> Any:
        """Begin an episode, the same for the same seed; return its first context, (m,) numbers or a mapping by name."""

    def step(self, action: FloatArray) -> tuple[Any, float]:
        """Apply an action (k,) for a frame; return the next context, None after the last, and what the frame cost."""


@dataclass(frozen=True, eq=False)
class Episode:
    """What was done in a plant: contexts (T, m), actions (T, k), costs (T,); the last is inf where it diverged."""

    contexts: FloatArray
    actions: FloatArray
    costs: FloatArray

    def cost(self, begin: int) -> float:
        """Return the sum of the costs from a frame on; infinite where it diverged before."""
        return float(self.costs[begin:].sum()) if np.isfinite(self.costs[-1]) else math.inf


@dataclass(frozen=True, eq=False)
class Episodes:
    """A policy in a plant, and the expert in the same episodes; none of the expert where the plant has none.

    The first `begin` frames are the expert's in both, and do not count.
    """

    policy: tuple[Episode, ...]
    expert: tuple[Episode, ...]
    begin: int
    action_names: tuple[str, ...]

    @cached_property
    def summary(self) -> AtWork:
        """What is said of it in a verdict."""
        ours, theirs = (np.array([one.cost(self.begin) for one in some]) for some in (self.policy, self.expert))
        n, diverged, nothing = len(ours), int(np.isinf(ours).sum()), Estimate(math.nan)
        if diverged or not self.expert:
            cost = math.nan if diverged else float(ours.mean())
            return AtWork(cost, math.nan, nothing, nothing, {}, n, diverged)
        pairs = list(zip(self.policy, self.expert, strict=True))
        shorter = sum(len(p.costs) < len(e.costs) for p, e in pairs)
        off = [
            a[: len(b)] - b[: len(a)] for a, b in ((p.actions[self.begin :], e.actions[self.begin :]) for p, e in pairs)
        ]
        rmse = np.sqrt(np.square(np.concatenate(off)).mean(axis=0)).tolist()
        ratio = nothing
        if min(*ours, *theirs) > 0.0:
            ratio = estimate(lambda a, b: float(a / b), ours, theirs, positive=True)
        difference = estimate(lambda a, b, count: float((a - b) / count), ours, theirs, np.ones(n))
        off_by_name = dict(zip(self.action_names, rmse, strict=True))
        return AtWork(float(ours.mean()), float(theirs.mean()), ratio, difference, off_by_name, n, shorter=shorter)

    def record(self, policy: Policy) -> Demonstrations | None:
        """Return what the expert did, as recordings of what the policy was trained on; None without an expert."""
        if not self.expert:
            return None
        known, names = len(timing(policy)[1]), recorded_names(policy)
        contexts = [one.contexts[:, : one.contexts.shape[1] - known] for one in self.expert]
        about = {"rate": policy.card.rate, "context_names": names, "action_names": policy.card.action_names}
        return _as_demonstrations(contexts, self.expert, **about)


def run_plant(
    policy: Policy, plant: Plant, n: int, *, start: Start | Any = None, seed: int = 0, **predictor: Any
) -> Episodes:
    """Let a policy act in a plant, frame by frame as it does at work, and the expert in the same episodes.

    Parameters
    ----------
    policy, plant
        As for `simile.evaluate`.
    n : int
        Number of episodes; their seeds are `seed`, `seed` + 1, ...
    start : Start or array_like, optional
        The expert acts first, for as many frames as the policy remembers or aims ahead, or `ExpertStart.frames`;
        without an expert, or with `ColdStart()`, the policy acts from the first frame on. Or the last known actions.
    predictor
        As for `Predictor`: stages and rate.
    """
    _check(plant)
    n, seed = checks.whole_number(n, "episodes", at_least=1), checks.whole_number(seed, "seed")
    names, k, has_expert = policy.card.context_names, policy.n_actions, hasattr(plant, "expert")
    theirs = _run_expert(plant, n, seed, names, k) if has_expert else []
    by_expert = has_expert and (start is None or isinstance(start, ExpertStart))
    begin = max(given_frames(policy), getattr(start, "frames", 0)) if by_expert else 0
    if theirs and (shortest := min(len(one.costs) for one in theirs)) <= begin:
        raise ArgumentError(
            f"plant: an episode of {shortest} frames is no longer than the {begin} in which the expert acts first: "
            "make it longer, or give start=ColdStart()"
        )
    cold = start is None or isinstance(start, ColdStart | ExpertStart)
    known: Any = None if cold else start.history if isinstance(start, GivenStart) else start
    if timing(policy)[0] < 0:
        raise ArgumentError(
            "policy: it waits for frames to come, but a plant needs an action in each: lead must be >= 0"
        )
    ours = []
    for i in range(n):
        acting = Predictor(policy, start=known, seed=seed + i, **predictor)

        def act(x: FloatArray, t: int, acting: Predictor = acting) -> Any:
            return acting.override(_ask_expert(plant, k), x) if t < begin else acting.step(x)

        ours.append(_run_episode(plant, seed + i, act, names))
    return Episodes(tuple(ours), tuple(theirs), begin, policy.card.action_names or tuple(f"a{j}" for j in range(k)))


def record(plant: Plant, episodes: int = 8, *, seed: int = 0, **about: Any) -> Demonstrations:
    """Record the expert of a plant: demonstrations to learn from, an episode each.

    Parameters
    ----------
    plant : Plant
        With a method `expert()`.
    episodes, seed : int
        How many, and the seed of the first; that of the next is one more.
    about
        As for `Demonstrations.from_arrays`: rate, action_names, and context_names where contexts are no mappings.
    """
    _check(plant)
    episodes, seed = checks.whole_number(episodes, "episodes", at_least=1), checks.whole_number(seed, "seed")
    with _locate(seed, 0):
        first = plant.reset(seed)
    names = tuple(map(str, first)) if isinstance(first, Mapping) else ()
    found = _run_expert(plant, episodes, seed, names, 0)
    return _as_demonstrations([one.contexts for one in found], found, **({"context_names": names} | about))


def _check(plant: Any) -> None:
    for needed in ("reset", "step"):
        checks.instance(plant, "plant", needs=needed)


def _as_demonstrations(contexts: list[FloatArray], episodes: Sequence[Episode], **about: Any) -> Demonstrations:
    names = [f"episode {i}" for i in range(len(episodes))]
    return Demonstrations.from_arrays(contexts, [one.actions for one in episodes], names=names, **about)


def _run_expert(plant: Any, n: int, seed: int, names: Sequence[str], k: int) -> list[Episode]:
    """Return what the expert does; k is 0 where its first action says how many there are."""
    checks.instance(plant, "plant", needs="expert")
    found = [_run_episode(plant, seed + i, lambda *_: _ask_expert(plant, k), names) for i in range(n)]
    for i, one in enumerate(found):
        if not np.isfinite(one.costs[-1]):
            raise ArgumentError(
                f"plant: with its own expert, the cost or a context is not finite in frame {len(one.costs) - 1} of the "
                f"episode with seed {seed + i}: mend the plant"
            )
    return found


def _ask_expert(plant: Any, k: int) -> FloatArray:
    """Return what the expert would do now, (k,)."""
    given = plant.expert()
    action = read_numbers(given, "expert()", ndmin=1)
    if action.shape != (k or action.size,) or not np.isfinite(action).all():
        raise ValueError(f"expert() must return {k or 'some'} finite numbers; got {str(given)[:100]}")
    return action


def _run_episode(plant: Any, seed: int, act: Callable[[FloatArray, int], Any], names: Sequence[str]) -> Episode:
    """Run an episode to its end, or until the policy or the plant leaves every reasonable range."""
    contexts: list[FloatArray] = []
    actions: list[FloatArray] = []
    costs: list[float] = []
    with _locate(seed, 0):
        x = plant.reset(seed)
    while x is not None:
        if (frame := len(costs)) == MOST_FRAMES:
            raise ArgumentError(
                f"plant: the episode with seed {seed} has not ended after {MOST_FRAMES:,} frames: return None as the "
                "next context where it ends"
            )
        with _locate(seed, frame):
            row = _read_context(x, names, contexts)
            if np.isinf(row).any():
                break
            try:
                action = act(row, frame)
            except DivergedError:
                break
            contexts.append(row)
            actions.append(action)
            answer = plant.step(action.copy())
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise TypeError(f"step() must return the next context and the cost; got {str(answer)[:100]}")
            x, cost = answer[0], float(answer[1])
            costs.append(cost)
            if not math.isfinite(cost):
                break
    else:
        if costs:
            return Episode(np.array(contexts), np.array(actions), np.array(costs))
        raise ArgumentError(f"plant: the episode with seed {seed} ends before it begins: reset() must return a context")
    costs[len(actions) - 1 :] = [math.inf]
    return Episode(np.array(contexts), np.array(actions), np.array(costs))


def _read_context(x: Any, names: Sequence[str], before: list[FloatArray]) -> FloatArray:
    """Return a context (m,): of a mapping those that are named."""
    if isinstance(x, Mapping):
        x = put_in_order({name: x[name] for name in names if name in x}, names)
    row = read_numbers(x, "context", ndmin=1)
    wanted = len(names) or (len(before[0]) if before else row.size)
    if row.shape != (wanted,) or not wanted:
        raise ValueError(f"a context must hold {wanted} numbers; got shape {row.shape}")
    return row


@contextmanager
def _locate(seed: int, frame: int) -> Iterator[None]:
    """Say in which frame of which episode something went wrong."""
    try:
        yield
    except Exception as error:
        said = str(error) if isinstance(error, ArgumentError) else f"{type(error).__name__}: {error}"
        raise ArgumentError(f"in the plant, episode with seed {seed}, frame {frame}: {said}") from error
