"""How well the bands of `learn` hold on sequences that it has not seen, how wide they are, and whether doubts help.

Simulated games, the built-in task, and the real data sets where they are at hand (`--data`, or the variable
SIMILE_DATA), several splits each, by recording or by group, that no choice was made by. For each: the share of the
expert's frames within the 90 % band, in the mean over held-out sequences, and its mean width over that of a band of the
same level that is always as wide; and how many of the worst 5 % of seconds `unsure` catches, at how many alarms.

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
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate
from simile.policies.bands import Band

SPLITS = (70, 71, 72, 73)
LEVEL, WORST = 0.9, 0.05
REAL = ("car_following", "reservoir", "head360", "grip_force", "grip_people")


@dataclass(frozen=True)
class Found:
    """What was measured on one split."""

    groups: int  # that the band was measured on
    coverage: float
    constant: float  # coverage of the constant band
    width: float  # over that of the constant one
    caught: float
    alarms: float


def load(name: str, number: int, folder: Path | None) -> tuple[simile.Demonstrations, simile.Demonstrations]:
    """Return the training and the test part."""
    if name == "camera":
        games = demonstrations(simulate(24, minutes=0.6, seed=number))
        return games[:12], games[12:]
    if name == "pursuit":
        some = simile.tasks.pursuit(48, 400, seed=number)
        return some[:24], some[24:]
    return Case(name, number, folder).load()


def measure(train: simile.Demonstrations, test: simile.Demonstrations) -> Found:
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
    worst = np.array(errors) >= np.quantile(errors, 1.0 - WORST)
    ratio = np.mean([row["width"] / row["constant_width"] for row in check.rows])
    means = (check.mean("coverage"), check.mean("constant_coverage"), float(ratio))
    return Found(Band.of(policy).n, *means, float(np.mean(np.array(alarms)[worst])), float(np.mean(alarms)))


def rows(names: list[str], folder: Path | None) -> Iterator[tuple[str, list[Found]]]:
    """Measure all splits of each data set."""
    for name in names:
        yield name, [measure(*load(name, number, folder)) for number in SPLITS]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with the real data sets")
    parser.add_argument("--only", nargs="*", help="data sets, of camera, pursuit and the real ones")
    given = parser.parse_args()
    folder = find_data(given.data)
    names = [name for name in ("camera", "pursuit", *REAL) if folder is not None or name not in REAL]
    names = [name for name in names if not given.only or name in given.only]
    print(f"band {LEVEL:g}, {len(SPLITS)} splits each; means, and from lowest to highest")
    print(f"{'':14} {'groups':>6} {'coverage':>20} {'constant':>9} {'width':>18} {'caught':>18} {'alarms':>18}")
    every = []
    for name, found in rows(names, folder):
        every.append(found)
        cells = [_spell([getattr(one, what) for one in found]) for what in ("coverage", "width", "caught", "alarms")]
        constant = np.mean([one.constant for one in found])
        groups = "/".join(sorted({str(one.groups) for one in found}))
        print(f"{name:14} {groups:>6} {cells[0]:>20} {constant:>9.3f} {cells[1]:>18} {cells[2]:>18} {cells[3]:>18}")
    means = [np.mean([[getattr(o, w) for o in some] for some in every]) for w in ("coverage", "constant")]
    others = [np.mean([[getattr(o, w) for o in some] for some in every]) for w in ("width", "caught", "alarms")]
    print(f"{'mean':14} {'':6} {means[0]:>20.3f} {means[1]:>9.3f} " + " ".join(f"{one:>18.2f}" for one in others))


def _spell(values: list[float]) -> str:
    return f"{np.mean(values):.3f} ({min(values):.2f}-{max(values):.2f})"


if __name__ == "__main__":
    main()
