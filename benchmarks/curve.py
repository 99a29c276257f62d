"""Where the floor of `learn` seems to be: its error against how much it learns from.

The same test part throughout, and ever more of the training part: whole games, whole recordings or whole groups. What
still falls can be had by more data; what does not is noise of the expert, or needs other contexts.

    python benchmarks/curve.py --jobs 2
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from accuracy import COLUMNS, Case, find_data, mean

import simile
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate
from simile.data.reference import Reference

SHARES = (0.25, 0.5, 1.0)
GAMES, N_TEST = (3, 6, 12, 24, 48), 12
SEEDS, SPLITS = (350, 351), (35, 36)  # looked at by nobody before


def measure(case: Case) -> list[tuple[float, float]]:
    """Return RMSE and roughness on the test part for each amount of data."""
    if case.folder is None:
        games = demonstrations(simulate(N_TEST + max(GAMES), minutes=(0.8, 1.2), seed=case.number))
        parts, test = [games[N_TEST : N_TEST + n] for n in GAMES], games[:N_TEST]
    else:
        train, test = case.load()
        order = np.random.default_rng(case.number).permutation(int(train.kin.max()) + 1)
        parts = [
            train.where(np.flatnonzero(np.isin(train.kin, order[: max(2, round(s * len(order)))]))) for s in SHARES
        ]
    scale = simile.data.recorded.Units.of(parts[-1]).scale  # one unit for all amounts
    found = []
    for part in parts:
        rolled = simile.rollout(policy := simile.learn(part).policy, test)
        gaps = [(a - b)[policy.memory :] / scale for a, b in zip(rolled, test.actions, strict=True)]
        error = float(np.sqrt(np.mean(np.concatenate(gaps) ** 2)))
        found.append((error, Reference(test).measure(rolled).roughness))
    return found


def main() -> None:
    """Measure, and print the error for each amount of data."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    cases = [Case("camera", seed) for seed in SEEDS]
    if (folder := find_data(given.data)) is not None:
        cases += [Case(name, number, folder) for name in COLUMNS for number in SPLITS]
    found: dict[str, list[list[tuple[float, float]]]] = {}
    with ProcessPoolExecutor(given.jobs) as pool:
        for case, curve in zip(cases, pool.map(measure, cases), strict=True):
            found.setdefault(case.name, []).append(curve)
    for name, curves in found.items():
        amounts = [f"{n} games" for n in GAMES] if name == "camera" else [f"{s:.0%}" for s in SHARES]
        print(f"{name:16}" + "".join(f"{amount:>16}" for amount in amounts))
        rows = zip(*curves, strict=True)
        print(" " * 16 + "".join(f"{mean([e for e, _ in row]):9.4f} ({mean([r for _, r in row]):.2f})" for row in rows))
    print("\nRMSE on the test part in standard deviations of the whole training part, geometric means over two", end="")
    print(" splits, and\nin brackets the roughness, 1 being that of the expert.")


if __name__ == "__main__":
    main()
