"""Time roll-outs against the plain ways to write them: `make bench`.

The contenders take turns in one process and the medians of CPU time are compared, because machines are shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
from sklearn.ensemble import RandomForestRegressor

import simile
from simile import Horizon, SmoothPolicy, tasks
from simile.models.adapters import FittedRegressor, TreeMean
from simile.regularizers import VelocityAutoregression


def main() -> None:
    """Print microseconds per frame and ratios."""
    demos = tasks.pursuit(n_sequences=16, length=300)
    horizon = Horizon(10, 10)
    states = horizon.states(demos, demos.actions)
    forest = RandomForestRegressor(n_estimators=10, min_samples_leaf=32, max_features=1 / 3, random_state=0)
    forest.fit(states.matrix(), np.concatenate(demos.actions)[:, 0])
    h = VelocityAutoregression().fit(demos.actions, 30.0)
    plain = SmoothPolicy(FittedRegressor(forest), h, 30.0, horizon)
    trees = SmoothPolicy(TreeMean(tuple(t.tree_ for t in forest.estimators_)), h, 30.0, horizon)
    contenders: dict[str, Callable[[], object]] = {
        "one sequence at a time, forest.predict": lambda: [simile.rollout(plain, d) for d in demos[:4]],
        "lock-step, forest.predict": lambda: simile.rollout(plain, demos),
        "lock-step, trees called directly (what simile does)": lambda: simile.rollout(trees, demos),
    }
    shares = dict.fromkeys(contenders, 1.0) | {"one sequence at a time, forest.predict": 0.25}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(5):
        for name, run in contenders.items():
            begin = time.process_time()
            run()
            seconds[name].append((time.process_time() - begin) / (demos.n_frames * shares[name]))
    best = median(seconds["lock-step, trees called directly (what simile does)"])
    print("roll-out of 16 sequences of 300 frames, 10 trees, tau = 10; median CPU time per frame of 5 turns\n")
    for name, values in seconds.items():
        print(f"{name:54} {median(values) * 1e6:8.1f} us   {median(values) / best:6.1f}x")


if __name__ == "__main__":
    main()
