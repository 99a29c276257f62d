"""How fast a policy acts on this machine: medians of CPU time, for `simile bench`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from simile.data import tasks
from simile.errors import ArgumentError
from simile.learning.algorithms import clone
from simile.models import SmoothForest
from simile.online import Predictor, PredictorPool
from simile.policies.policies import Policy
from simile.policies.rollouts import ColdStart, rollout

FRAMES, STREAMS = 2_000, 1_000


def measure(policy: Policy | None = None, *, repeats: int = 7) -> dict[str, float]:
    """Measure steps of a policy, in microseconds of CPU time; without one, a 100-tree policy and how long it learns.

    Parameters
    ----------
    policy : Policy, optional
        What to measure.
    repeats : int
        Each figure is the median of so many runs.
    """
    found: dict[str, float] = {}
    if policy is None:
        demos = tasks.pursuit(n_sequences=10, length=1_000, n_players=20)
        forest = SmoothForest(n_trees=100)
        clone(demos.head(100), model=forest)  # the kernels compile, or come from their cache
        begin = time.process_time()
        policy = clone(demos, model=forest).policy
        found["clone 10,000 frames, 20 contexts, 100 trees (s)"] = time.process_time() - begin
    if policy.n_contexts is None:
        raise ArgumentError("policy must know its number of contexts to be measured; this one takes any")
    contexts = np.random.default_rng(0).normal(size=(FRAMES, policy.n_contexts))
    rows = list(contexts)
    predictor = Predictor(policy)
    pool = PredictorPool(policy, STREAMS)
    crowd = np.broadcast_to(contexts[:, np.newaxis], (FRAMES, STREAMS, policy.n_contexts))

    def steps() -> None:
        for x in rows:
            predictor.step(x)

    found["step, from Python (us)"] = _median(steps, repeats) / FRAMES
    found["step, in a roll-out (us)"] = (
        _median(lambda: rollout(policy, [contexts], start=ColdStart()), repeats) / FRAMES
    )
    found["step, each of 1,000 streams in a pool (us)"] = (
        _median(lambda: [pool.step(x) for x in crowd[:5]], repeats) / 5 / STREAMS
    )
    return found


def _median(work: Callable[[], object], repeats: int) -> float:
    """Return the median CPU time of some work, in microseconds; the first run, which compiles, is not counted."""
    work()
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return statistics.median(seconds) * 1e6
