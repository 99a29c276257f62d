"""How a policy looks: whether it turns and rests as the expert does, what that costs, and what noise changes.

Fresh seeds and splits, of at most 15,000 frames to learn from, of simulated games and of the real data sets where they
are at hand (as benchmarks/accuracy.py), in the mean over them. Beside `learn` stands `learn(hold=0)`, the same without
the hysteresis.

    python benchmarks/eye.py --jobs 2
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from accuracy import COLUMNS, Case, find_data

import simile
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate
from simile.data.reference import Reference

SEEDS, SPLITS = (400, 401, 402, 403), (5, 6, 7, 8)
LEVELS = (0.0, 0.0013, 0.0044, 0.01)  # of white noise, in standard deviations of the action
MOST_FRAMES = 15_000  # that are learned from
GAMES = {"simulated games": 1, "pan, tilt and zoom": 3}


@dataclass(frozen=True)
class Look:
    """What one action of a policy does on the test part."""

    rmse: float
    roughness: float
    reversals: float
    rest: float

    @classmethod
    def of(cls, rolled: Any, expert: simile.Demonstrations, logs: Any, begin: int) -> list[Look]:
        """Measure each action."""
        tally = Reference(expert, begin=begin, logs=logs).tally(rolled)
        found = tally.rmse(1.0), tally.roughness, tally.turn_rates(expert.rate)[0], tally.rest_shares[0]
        return [cls(*one) for one in np.array(found).T.tolist()]


def load(name: str, number: int, folder: Any) -> tuple[simile.Demonstrations, simile.Demonstrations]:
    """Return the training and the test part."""
    if name in GAMES:
        games = demonstrations(simulate(12, minutes=(0.8, 1.2), seed=number, axes=GAMES[name]))
        return games[:-3], games[-3:]
    train, test = Case(name, number, folder).load()
    enough = int(np.searchsorted(np.cumsum(train.lengths), MOST_FRAMES)) + 1
    return train[:enough], test


def look(train: simile.Demonstrations, test: simile.Demonstrations, **settings: Any) -> list[Look]:
    """Learn, roll out over the test part, and measure."""
    policy = simile.learn(train, **settings).policy
    return Look.of(simile.rollout(policy, test), test, test.logs, policy.memory)


def compare_habits(job: tuple[str, int, Any]) -> list[tuple[Look, Look, Look]]:
    """Return for each action the expert, the policy, and the policy without a hysteresis."""
    train, test = load(*job)
    return list(
        zip(Look.of(test.actions, test, test.logs, 0), look(train, test), look(train, test, hold=0), strict=True)
    )


def compare_noise(job: tuple[str, int, Any]) -> list[list[Look]]:
    """Return for each level of noise what the policy does with each action."""
    train, test = load(*job)
    spread, found = np.concatenate(train.actions).std(axis=0), []
    for level in LEVELS:
        rng = np.random.default_rng(job[1])
        noisy = [a + level * spread * rng.normal(size=a.shape) for a in train.actions]
        found.append(look(train.with_actions(noisy) if level else train, test))
    return found


def compare_joint(job: tuple[str, int, Any]) -> list[tuple[Look, Look]]:
    """Return for each action what the policy of all of them does, and that of this one alone."""
    train, test = load(*job)
    joint = look(train, test)
    return [(joint[j], *look(train.only_action(j), test.only_action(j))) for j in range(train.n_actions)]


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return float(np.mean(list(values)))


def run(pool: ProcessPoolExecutor, compare: Callable[..., Any], jobs: list[Any]) -> list[tuple[str, list[Any]]]:
    """Run all jobs; returns the results of each data set."""
    found = list(zip([job[0] for job in jobs], pool.map(compare, jobs), strict=True))
    return [(name, [result for _, result in rows]) for name, rows in groupby(found, key=lambda row: row[0])]


def main() -> None:
    """Measure it all and print every number."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    folder = find_data()
    real = [] if folder is None else [*COLUMNS]
    sets = [("simulated games", SEEDS), *((name, SPLITS) for name in real)]
    with ProcessPoolExecutor(given.jobs) as pool:
        print("Turns and rest: a minute (reservoir: in 1,000 days), and share of time; means over 4 splits")
        print(f"{'data':22}{'action':>7}{'RMSE':>8}{'/ hold=0':>10}{'rough':>8}{'/ hold=0':>10}", end="")
        print(f"{'turns':>8}{'hold=0':>8}{'expert':>8}{'rest':>7}{'hold=0':>8}{'expert':>8}")
        jobs = [(name, number, folder) for name, numbers in sets for number in numbers]
        for name, results in run(pool, compare_habits, jobs):
            for j in range(len(results[0])):
                expert, ours, bare = zip(*(result[j] for result in results), strict=True)
                cells = f"{mean(a.rmse for a in ours):8.3f}"
                cells += f"{mean(a.rmse / b.rmse for a, b in zip(ours, bare, strict=True)):10.3f}"
                cells += f"{mean(a.roughness for a in ours):8.3f}"
                cells += f"{mean(a.roughness / b.roughness for a, b in zip(ours, bare, strict=True)):10.3f}"
                cells += "".join(f"{mean(a.reversals for a in part):8.1f}" for part in (ours, bare, expert))
                cells += "".join(f"{mean(a.rest for a in part):8.2f}" for part in (ours, bare, expert))
                print(f"{name:22}{j:7d}{cells}", flush=True)
        print("\nWhite noise on the recorded actions: roughness and turns of the policy, over those without noise")
        print(f"{'data':22}{'action':>7}" + "".join(f"{f'{100 * level:g} %':>16}" for level in LEVELS[1:]))
        noisy = [("simulated games", SEEDS[:3]), *((name, SPLITS[:3]) for name in real if name != "grip_force")]
        for name, results in run(pool, compare_noise, [(n, i, folder) for n, numbers in noisy for i in numbers]):
            for j in range(len(results[0][0])):
                cells = ""
                for level in range(1, len(LEVELS)):
                    rough = mean(r[level][j].roughness / r[0][j].roughness for r in results)
                    turns = mean(r[level][j].reversals for r in results) / mean(r[0][j].reversals for r in results)
                    cells += f"{rough:10.2f}{turns:6.2f}"
                print(f"{name:22}{j:7d}{cells}", flush=True)
        print("\nAll actions together over each alone: RMSE, and roughness of both over the expert's")
        both = [("pan, tilt and zoom", SEEDS), *(("head360", SPLITS) for _ in real[:1])]
        for name, results in run(pool, compare_joint, [(n, i, folder) for n, numbers in both for i in numbers]):
            for j in range(len(results[0])):
                joint, alone = zip(*(result[j] for result in results), strict=True)
                ratio = mean(a.rmse / b.rmse for a, b in zip(joint, alone, strict=True))
                cells = "".join(f"{mean(a.roughness for a in part):8.3f}" for part in (joint, alone))
                print(f"{name:22}{j:7d}{ratio:8.3f}{cells}", flush=True)


if __name__ == "__main__":
    main()
