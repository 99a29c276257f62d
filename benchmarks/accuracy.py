"""How accurate the default of `learn` is at equal smoothness: against "look", "look+" and the paper's mode.

Simulated games of basketball, one set of twelve for each seed, and the real data sets where they are at hand
(`--data`, or the variable SIMILE_DATA), five splits each, by recording. All knobs are tuned inside the training part;
the test part is used once. Each contender is judged at the roughness of `learn`'s own policy on the test part.

    python benchmarks/accuracy.py --jobs 2
"""

from __future__ import annotations

import argparse
import csv
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import simile
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate
from simile.evaluation.comparison import compare
from simile.evaluation.rivals import ROSTER

SEEDS = tuple(range(300, 308))
SPLITS = tuple(range(5))
N_GAMES, N_TEST = 12, 3
AGAINST = ("look", "look+", "paper")
COLUMNS = {
    "car_following": (["a_speed"], ["x_lead_speed", "x_lead_accel", "x_lead_curvature"]),
    "reservoir": (["a_release"], ["x_*"]),
    "head360": (["a_yaw", "a_pitch"], ["x_*"]),
    "grip_force": (["a_force"], ["x_*"]),
}


@dataclass(frozen=True)
class Case:
    """One data set and the number of its seed or split."""

    name: str
    number: int
    folder: Path | None = None

    def load(self) -> tuple[simile.Demonstrations, simile.Demonstrations]:
        """Return the training and the test part."""
        if self.folder is None:
            games = demonstrations(simulate(N_GAMES, minutes=(0.8, 1.2), seed=self.number))
            return games[:-N_TEST], games[-N_TEST:]
        actions, contexts = COLUMNS[self.name]
        path = self.folder / self.name / f"{self.name}.csv"
        demos = simile.read(path, sequence="sequence", time="t", actions=actions, contexts=contexts, quiet=True)
        if self.name != "car_following":
            return demos.split(0.25, seed=self.number)
        # A follower is the next pair's leader, so whole runs are held out: each of the four, then the last two.
        with (path.parent / "sequences.csv").open() as lines:
            run_of = {row["sequence"]: row["run"] for row in csv.DictReader(lines)}
        runs = sorted(set(run_of.values()))
        unseen = runs[self.number : self.number + 1] or runs[-2:]
        parts = [[d for d in demos if (run_of[d.name] in unseen) is test] for test in (False, True)]
        return simile.Demonstrations(tuple(parts[0])), simile.Demonstrations(tuple(parts[1]))


def measure(case: Case) -> dict[str, float]:
    """Compare on one case; returns RMSE and roughness of `learn`, and ratios of RMSE to the others."""
    train, test = case.load()
    rivals = [r for r in ROSTER if r.name in AGAINST]
    found = compare(
        train,
        test,
        reductions=("learn", "paper"),
        rivals=rivals,
        model=simile.SmoothForest(n_trees=20),
        n_rounds=10,
    )
    rows = {row["name"]: row for row in found.rows()}
    ours = rows["learn"]
    ratios = {name: 1.0 / rows[name]["ratio"] for name in AGAINST}
    return {"error": ours["error"], "roughness": found.level, **ratios}


def find_data(given: Path | None = None) -> Path | None:
    """Return the folder of the real data sets; None where it is not at hand."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = given or Path(os.environ.get("SIMILE_DATA", beside))
    if folder.is_dir():
        return folder
    print(f"{folder} is not there: simulated games alone\n")
    return None


def mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def main() -> None:
    """Measure all cases and print every number."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", help="one data set: camera, car_following, reservoir, head360 or grip_force")
    given = parser.parse_args()
    cases = [Case("camera", seed) for seed in SEEDS]
    if (folder := find_data(given.data)) is not None:
        cases += [Case(name, number, folder) for name in COLUMNS for number in SPLITS]
    cases = [c for c in cases if given.only in (None, c.name)]
    print(f"{'data':16}{'seed':>5}{'RMSE':>9}{'roughness':>11}" + "".join(f"{'/ ' + name:>10}" for name in AGAINST))
    with ProcessPoolExecutor(given.jobs) as pool:
        found = []
        for case, row in zip(cases, pool.map(measure, cases), strict=True):
            found.append((case, row))
            cells = "".join(f"{row[name]:10.3f}" for name in AGAINST)
            print(f"{case.name:16}{case.number:5d}{row['error']:9.4f}{row['roughness']:11.3f}{cells}", flush=True)
    print("\ngeometric means of the ratios of RMSE at equal smoothness")
    for name in dict.fromkeys(case.name for case, _ in found):
        rows = [row for case, row in found if case.name == name]
        cells = "".join(f"{mean([row[other] for row in rows]):10.3f}" for other in AGAINST)
        print(f"{name:16}{'':25}{cells}")
    overall = {other: mean([row[other] for _, row in found]) for other in AGAINST}
    print(f"{'all cases':16}{'':25}" + "".join(f"{overall[other]:10.3f}" for other in AGAINST))
    print(f"squared error against the paper's mode: {overall['paper'] ** 2:.3f}")


if __name__ == "__main__":
    main()
