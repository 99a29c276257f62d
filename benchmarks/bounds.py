"""What bounds by the range of the recorded actions cost: RMSE with a margin around it, over that without bounds.

Policies of `learn` and of the paper's algorithm (20 trees, 5 rounds) are learned once without bounds, and rolled out
over the test part with those of each margin. Games and real data are those of `accuracy.py`, with a quarter and with
three quarters of the recordings left out: of few recordings the range is narrower.

    python benchmarks/bounds.py --jobs 2
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from accuracy import REAL, Case, find_data, mean

import simile
from simile.data.reference import Reference
from simile.learning.bounds import learn_space

SEEDS, SPLITS = (350, 351), (60, 61)  # looked at by nobody before
SHARES = (0.25, 0.75)  # of the recordings, left out
MARGINS = (0.0, 0.05, 0.1, 0.15, 0.25)
FEW = {"model": simile.SmoothForest(n_trees=20), "n_rounds": 5}
ALGORITHMS = {"learn": simile.learn, "paper": partial(simile.paper, **FEW)}


def measure(case: Case, share: float, algorithm: str) -> tuple[float, float, list[float]]:
    """Return the share of the expert's test frames beyond the range, RMSE without bounds, and over that by margin."""
    demos = case.read() if case.folder else simile.Demonstrations(tuple(d for part in case.load() for d in part))
    train, test = demos.split(share, seed=case.number)
    policy = ALGORITHMS[algorithm](train, space=simile.ActionSpace()).policy
    reference = Reference(test, policy.units.scale, begin=10)  # as many frames as the paper's h remembers

    def roll(space: simile.ActionSpace) -> float:
        return reference.measure(simile.rollout(policy.in_units(policy.units, space, policy.card), test)).rmse

    free, spaces = roll(simile.ActionSpace()), [learn_space(train, margin) for margin in MARGINS]
    actions = np.concatenate(test.actions)
    beyond = float(np.mean((actions < spaces[0].low) | (actions > spaces[0].high)))
    return beyond, free, [roll(replace(space, learned=True)) / free for space in spaces]


def main() -> None:
    """Measure all cases and print every number."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", help=f"one data set: camera, {', '.join(REAL)}")
    given = parser.parse_args()
    cases = [Case("camera", seed) for seed in SEEDS]
    if (folder := find_data(given.data)) is not None:
        cases += [Case(name, number, folder) for name in REAL for number in SPLITS]
    some = [case for case in cases if given.only in (None, case.name)]
    asked = [(case, share, name) for case in some for share in SHARES for name in ALGORITHMS]
    print("RMSE on test data over that without bounds, by margin: a share of the range, on either side; beyond: share")
    print("of the expert's test frames outside the range itself\n")
    print(
        f"{'data':14}{'seed':>4}{'left out':>10}{'':>7}{'beyond':>9}{'RMSE':>9}" + "".join(f"{m:9g}" for m in MARGINS)
    )
    found = []
    with ProcessPoolExecutor(given.jobs) as pool:
        measured = pool.map(measure, *zip(*asked, strict=True))
        for (case, share, name), (beyond, free, ratios) in zip(asked, measured, strict=True):
            found.append(ratios)
            cells = "".join(f"{ratio:9.4f}" for ratio in ratios)
            print(f"{case.name:14}{case.number:4d}{share:10.0%}{name:>7}{beyond:9.2%}{free:9.4f}{cells}", flush=True)
    for name, summary in (("geometric mean", mean), ("largest", max)):
        print(f"{name:53}" + "".join(f"{summary(column):9.4f}" for column in zip(*found, strict=True)))


if __name__ == "__main__":
    main()
