"""What outliers in recorded actions cost: the squared loss beside Huber's, on clean and on spoiled training data.

Two percent of the training actions are moved by as much as 20 standard deviations (a normal draw). The test part is
as it was recorded, so that errors are those of the policy. Games and real data are those of `accuracy.py`.

    python benchmarks/outliers.py --jobs 2
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from accuracy import COLUMNS, Case, find_data, mean

import simile
from simile.data.recorded import Units
from simile.data.reference import Reference

SHARE, SIZE = 0.02, 20.0
SEEDS, SPLIT = (320, 321, 322), 23  # looked at by nobody before
LOSSES = {"Squared": simile.Squared(), "Huber": simile.Huber()}


def spoil(demos: simile.Demonstrations, seed: int) -> simile.Demonstrations:
    """Move a share of the actions by as many standard deviations as a normal draw says."""
    rng, spread = np.random.default_rng(seed), Units.of(demos).scale
    off = [np.where(rng.random(a.shape) < SHARE, rng.normal(0.0, SIZE, a.shape), 0.0) for a in demos.actions]
    return demos.with_actions([a + spread * o for a, o in zip(demos.actions, off, strict=True)])


def measure(case: Case) -> dict[str, tuple[float, float]]:
    """Return RMSE, in deviations of the clean actions, and roughness on test data by loss and training data."""
    train, test = case.load()
    reference, found = Reference(test, Units.of(train).scale, begin=3), {}
    for name, loss in LOSSES.items():
        for kind, demos in (("clean", train), ("spoiled", spoil(train, case.number))):
            score = reference.measure(simile.rollout(simile.learn(demos, loss=loss).policy, test))
            found[f"{name} {kind}"] = score.rmse, score.roughness
    return found


def main() -> None:
    """Measure all cases and print every number."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", help=f"one data set: camera, {', '.join(COLUMNS)}")
    given = parser.parse_args()
    cases = [Case("camera", seed) for seed in SEEDS]
    if (folder := find_data(given.data)) is not None:
        cases += [Case(name, SPLIT, folder) for name in COLUMNS]
    cases = [c for c in cases if given.only in (None, c.name)]
    print(f"{'':20}{'Squared':>10}{'Squared':>20}{'Huber':>20}{'Huber':>20}")
    print(f"{'data':16}{'seed':>4}{'clean':>10}" + f"{'spoiled':>20}{'clean':>20}{'spoiled':>20}")
    ratios: dict[str, list[float]] = {"Squared": [], "Huber": []}
    with ProcessPoolExecutor(given.jobs) as pool:
        for case, row in zip(cases, pool.map(measure, cases), strict=True):
            base, others = row["Squared clean"][0], list(row)[1:]
            cells = "".join(f"{row[o][0] / base:11.3f} ({row[o][1]:6.2f})" for o in others)
            print(f"{case.name:16}{case.number:4d}{base:10.4f}{cells}", flush=True)
            for name, values in ratios.items():
                values.append(row[f"{name} spoiled"][0] / row[f"{name} clean"][0])
    print("\nRMSE on clean test data with the squared loss and clean training data, then ratios to it; in brackets the")
    print("roughness, 1 being that of the expert. Geometric means of spoiled over clean training data: ", end="")
    print(", ".join(f"{name} {mean(values):.3f} (largest {max(values):.3f})" for name, values in ratios.items()))


if __name__ == "__main__":
    main()
