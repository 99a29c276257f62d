"""Whether the verdict of a run is true: its error over recordings left out in turn, beside that on fresh ones.

Random tasks, fifty for each number of recordings, and real sets, of which so many recordings are drawn to learn from.
A few recordings err by chance; what as many fresh ones would have told stands beside: only what the verdict is farther
off than that is flattery.

    python benchmarks/verdicts.py
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from accuracy import REAL, Case, find_data, mean

import simile
from simile.data.reference import Reference

N_TASKS, N_FRESH, SIZES = 50, 40, (3, 6, 12, 40)
DRAWS = 2  # of each size from a real set


def draw(seed: int, n: int) -> tuple[simile.Demonstrations, simile.Demonstrations]:
    """Draw a task: an operator who follows some contexts, late and by a smooth hand, each time a little otherwise."""
    rng = np.random.default_rng([seed, n])
    m, length, late = int(rng.integers(1, 6)), int(rng.integers(150, 500)), int(rng.integers(0, 12))
    weights, shape, hand = rng.normal(size=m), int(rng.integers(3)), np.exp(-1.0 / rng.uniform(2.0, 12.0))
    noise, mood, blur = 10.0 ** rng.uniform(-2.0, 0.0), rng.uniform(0.0, 0.5), 10.0 ** rng.uniform(-2.0, 0.0)
    contexts, actions = [], []
    for own in rng.spawn(n + N_FRESH):
        steps = 0.2 * own.normal(size=(length + late, m))
        x = np.zeros_like(steps)
        for t in range(1, len(x)):
            x[t] = 0.97 * x[t - 1] + steps[t]
        goal = (np.array, np.tanh, np.abs)[shape](x @ weights) * (1.0 + mood * own.normal()) + mood * own.normal()
        goal = goal + 0.02 * noise * np.cumsum(own.normal(size=len(goal)))
        slow, a = 0.0, np.zeros(len(goal))
        for t in range(1, len(goal)):
            slow = hand * slow + (1.0 - hand) * goal[t]
            a[t] = hand * a[t - 1] + (1.0 - hand) * slow
        contexts.append((x + blur * own.normal(size=x.shape))[late:])
        actions.append(a[:length, np.newaxis])
    demos = simile.Demonstrations.from_arrays(contexts, actions, rate=30.0)
    return demos[:n], demos[n:]


def compare(train: simile.Demonstrations, fresh: simile.Demonstrations) -> tuple[float, float]:
    """Return the true error over that of the verdict, and what as many fresh recordings make of the latter."""
    run, n = simile.learn(train), len(train)
    policy = run.policy
    sums = Reference(fresh, policy.units.scale, 3, logs=train.logs).sums(simile.rollout(policy, fresh), 3)
    truth = sums.score.rmse
    told = [sums[np.arange(i, i + n)].score.rmse for i in range(0, len(fresh) - n + 1, n)]
    by_chance = mean([truth / one for one in told]) if len(told) > 1 else np.nan
    return truth / np.sqrt(run.chosen.error), by_chance


def real(folder: Path, n: int) -> Iterator[tuple[simile.Demonstrations, simile.Demonstrations]]:
    """Draw recordings of real sets, ungrouped: the others are fresh."""
    for name in REAL[:-1]:
        demos = Case(name, 0, folder).read()
        for seed in range(DRAWS):
            order = np.random.default_rng([seed, n]).permutation(len(demos))
            if len(demos) >= 2 * n:
                yield demos.where(np.sort(order[:n])), demos.where(np.sort(order[n:]))


def main() -> None:
    """Measure on random tasks, and on real sets where they are at hand."""
    warnings.simplefilter("ignore")
    folder = find_data()
    print(f"{'recordings':>10} {'true over told':>16} {'by chance':>10} {'flattery':>9}   cases")
    for name in ("random tasks", "real sets"):
        print(name)
        for n in SIZES:
            if name == "real sets":
                cases = real(folder, n) if folder else iter(())
            else:
                cases = (draw(seed, n) for seed in range(N_TASKS))
            found = np.array([compare(*case) for case in cases])
            if len(found):
                chance = mean(found[np.isfinite(found[:, 1]), 1]) if np.isfinite(found[:, 1]).any() else np.nan
                ratio = mean(found[:, 0])
                spread = np.std(np.log(found[:, 0])) / np.sqrt(len(found))
                beside = f"{chance:10.3f} {ratio / chance:9.3f}" if np.isfinite(chance) else f"{'-':>10} {'-':>9}"
                print(f"{n:10} {ratio:9.3f} ±{spread:5.3f} {beside}   {len(found)}", flush=True)


if __name__ == "__main__":
    main()
