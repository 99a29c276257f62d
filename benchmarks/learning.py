"""How long `learn` takes (`make bench`): CPU seconds, all threads added, beside boosting at six delays."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import simile
from simile.data import tasks
from simile.data.recorded import Units
from simile.data.states import Tape
from simile.learning.aims import Aim, label

TURNS = 3
DELAYS = (0, 4, 8, 12, 16, 24)  # frames ahead, of boosting
# Recordings, frames of each, contexts, actions, rate (Hz).
SHAPES = {
    "7 joints": (40, 600, 14, 7, 30.0),
    "26 actions": (30, 360, 26, 26, 30.0),
    "a log at 1 kHz": (6, 20_000, 6, 1, 1000.0),
}


def median(work: Callable[[], object]) -> float:
    """Return the median CPU time of some work in seconds."""
    seconds = []
    for _ in range(TURNS):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return statistics.median(seconds)


def boost(demos: simile.Demonstrations) -> list[Any]:
    """Fit what an engineer might: scikit-learn's histogram boosting, 120 rounds, to the actions of six delays."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    standard = demos.standardize(Units.of(demos))
    S = Tape.of(standard.contexts, standard.actions).states(simile.Horizon.auto(demos.rate)).matrix()
    labels = label(standard.actions, [Aim(delay) for delay in DELAYS])
    return [HistGradientBoostingRegressor(max_iter=120, early_stopping=False).fit(S, y) for y in labels.T]


def draw(n: int, length: int, m: int, k: int, rate: float) -> simile.Demonstrations:
    """Draw smooth contexts, and actions that follow them late, with a little noise."""
    rng = np.random.default_rng(0)
    weights, pole, hand = rng.normal(size=(m, k)) / np.sqrt(m), np.exp(-1.0 / rate), np.exp(-1.0 / (0.15 * rate))
    contexts, actions = [], []
    for _ in range(n):
        x, a = np.zeros((length, m)), np.zeros((length, k))
        slow = np.zeros(k)
        for t in range(1, length):
            x[t] = pole * x[t - 1] + np.sqrt(1.0 - pole**2) * rng.normal(size=m)
            slow = hand * slow + (1.0 - hand) * np.tanh(x[t] @ weights)
            a[t] = hand * a[t - 1] + (1.0 - hand) * slow
        contexts.append(x + 0.1 * rng.normal(size=x.shape))
        actions.append(a + 0.003 * rng.normal(size=a.shape))
    return simile.Demonstrations.from_arrays(contexts, actions, rate=rate)


def main() -> None:
    """Measure on the built-in task, and on others with many actions or frames."""
    demos = tasks.pursuit(n_sequences=20, length=1_000, n_players=20)
    simile.learn(demos.head(60))  # the kernels compile, or come from their cache
    print(f"{demos.n_frames:,} frames x {demos.n_contexts} contexts; median CPU seconds of {TURNS} turns\n")
    ways: dict[str, Callable[[], object]] = {
        "learn(demos)": lambda: simile.learn(demos),
        "boosting, 120 rounds, 6 delays": lambda: boost(demos),
        "learn(demos, smoothness=30.0)": lambda: simile.learn(demos, smoothness=30.0),
        "path(demos), 8 values": lambda: simile.path(demos),
        "paper(demos), 10 rounds": lambda: simile.paper(demos),
        "authors(demos), 10 rounds": lambda: simile.authors(demos),
    }
    first = None
    for name, work in ways.items():
        seconds = median(work)
        first = first or seconds
        print(f"{name:32}{seconds:8.1f} s{seconds / first:8.2f} x learn")
    print()
    for name, shape in SHAPES.items():
        drawn = draw(*shape)
        n, length, m, k, _ = shape
        seconds = median(lambda drawn=drawn: simile.learn(drawn))  # type: ignore[misc]
        print(f"learn, {name:25}{seconds:8.1f} s   {n} x {length:,} frames, {m} contexts, {k} actions")


if __name__ == "__main__":
    main()
