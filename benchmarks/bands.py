"""How well the bands of `learn` hold on sequences that it has not seen, how wide they are, and whether doubts help.

Simulated games and the built-in task, of several seeds, and the real data sets where they are at hand (`--data`, or the
variable SIMILE_DATA), dealt by recording or by group to four parts that are held out one after the other: every
sequence is held out once, and nothing is left to the luck of a split. For each: the share of the expert's frames within
the 90 % band, in the mean over held-out sequences, with its standard error over groups; its mean width over that of a
band of the same level that is always as wide; and how many of the worst 5 % of all seconds `unsure` catches, at how
many alarms.

    python benchmarks/bands.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from accuracy import Case, find_data

import simile
from simile import tasks
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate
from simile.data.groups import deal_groups
from simile.policies.bands import Band

SEEDS, PARTS = (70, 71, 72, 73), 4
LEVEL, WORST = 0.9, 0.05
REAL = ("car_following", "reservoir", "head360", "grip_force", "grip_people")


@dataclass(frozen=True, eq=False)
class Found:
    """What was measured on sequences that were held out together."""

    calibrated: int  # groups that the band was measured on
    kin: np.ndarray  # group of each sequence
    rows: np.ndarray  # of each sequence: coverage, that of the constant band, width over that one's
    errors: np.ndarray  # of each second
    alarms: np.ndarray


def deal(name: str, folder: Path | None) -> Iterator[tuple[simile.Demonstrations, simile.Demonstrations, np.ndarray]]:
    """Yield a training and a test part, and which group each sequence of this is of, one after the other."""
    if name in REAL:
        demos = Case(name, 0, folder).read()
        hands = deal_groups(demos.kin, demos.lengths, PARTS)
        for hand in range(PARTS):
            yield (
                demos.where(np.flatnonzero(hands != hand)),
                demos.where(np.flatnonzero(hands == hand)),
                demos.kin[hands == hand],
            )
        return
    for seed in SEEDS:
        games = name == "camera"
        some = demonstrations(simulate(24, minutes=0.6, seed=seed)) if games else tasks.pursuit(48, 400, seed=seed)
        half = len(some) // 2
        yield some[:half], some[half:], half * seed + np.arange(half)


def measure(train: simile.Demonstrations, test: simile.Demonstrations, kin: np.ndarray) -> Found:
    """Learn, and hold the band against the test part."""
    policy = simile.learn(train).policy
    check = simile.evaluate(policy, test, band=LEVEL).band
    assert check is not None
    errors, alarms = [], []
    for demo, banded in zip(test, simile.rollout(policy, test, band=LEVEL), strict=True):
        second = max(1, round(demo.rate or 1.0))
        gap = ((demo.actions - banded.actions) / policy.units.scale)[policy.memory :]
        n = len(gap) // second * second
        errors += np.sqrt(np.mean(gap[:n].reshape(-1, second * gap.shape[1]) ** 2, axis=1)).tolist()
        alarms += (banded.unsure[policy.memory :][:n].reshape(-1, second).mean(axis=1) >= 0.5).tolist()
    of = [(row["coverage"], row["constant_coverage"], row["width"] / row["constant_width"]) for row in check.rows]
    rows = np.array(of).reshape(len(test), -1, 3).mean(axis=1)
    return Found(Band.of(policy).n, kin, rows, np.array(errors), np.array(alarms))


def tell(name: str, found: list[Found]) -> tuple[float, ...]:
    """Print a row of the table; return coverage, that of the constant band, width, caught and alarms."""
    rows, kin = np.concatenate([one.rows for one in found]), np.concatenate([one.kin for one in found])
    errors, alarms = np.concatenate([one.errors for one in found]), np.concatenate([one.alarms for one in found])
    coverage, constant, width = rows.mean(axis=0)
    kin = np.unique(kin, return_inverse=True)[1]
    groups = int(kin.max()) + 1
    # Of a ratio of sums over groups, for a mean over sequences in which each counts the same.
    spread = np.sqrt(np.sum(np.bincount(kin, rows[:, 0] - coverage) ** 2) * groups / (groups - 1)) / len(rows)
    caught = alarms[errors >= np.quantile(errors, 1.0 - WORST)].mean()
    calibrated = "/".join(sorted({str(one.calibrated) for one in found}, key=int))
    print(
        f"{name:13} {len(rows):>4} {groups:>6} {calibrated:>6}  {coverage:.3f} ± {spread:.3f} {constant:>8.3f} "
        f"{width:>6.3f} {caught:>6.2f} {alarms.mean():>6.3f}",
        flush=True,
    )
    return coverage, constant, width, caught, alarms.mean()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with the real data sets")
    parser.add_argument("--only", nargs="*", help="data sets, of camera, pursuit and the real ones")
    given = parser.parse_args()
    folder = find_data(given.data)
    names = [name for name in ("camera", "pursuit", *REAL) if folder is not None or name not in REAL]
    names = [name for name in names if not given.only or name in given.only]
    print(f"band {LEVEL:g}; every sequence held out once, ± a standard error over groups")
    print(
        f"{'':13} {'of':>4} {'groups':>6} {'known':>6}  {'coverage':13} {'constant':>8} {'width':>6} {'caught':>6} "
        f"{'alarms':>6}"
    )
    every = np.array([tell(name, [measure(*parts) for parts in deal(name, folder)]) for name in names]).mean(axis=0)
    means = f"{every[0]:.3f} {'':7} {every[1]:>8.3f} {every[2]:>6.3f} {every[3]:>6.2f} {every[4]:>6.3f}"
    print(f"{'mean':13} {'':18}  {means}")


if __name__ == "__main__":
    main()
