"""What columns that follow from the action do to a policy at work, and whether they are accused.

Every plant has an expert, contexts that nobody can change, and columns that follow from the action. A policy learns
with all of them, and without some, and then acts in the plant. Of real sets it is known which columns are causes.

    python benchmarks/plants.py --seeds 0 1 2 --data ../shared/data
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import simile
from simile.evaluation.plants import record

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "plants"))
from crane import Crane
from valve import FRAMES, Valve, wander

REAL: dict[str, dict[str, Any]] = {  # with the columns that follow from the action
    "car_following/car_following.csv": {"actions": "a_speed", "contexts": ["x_*", "z_gap"]},
    "reservoir/reservoir.csv": {"contexts": ["x_*", "z_storage"]},
    "head360/head360.csv": {},
    "grip_force/grip_force.csv": {},
    "soccer_operator/operator.csv": {"actions": "pan", "contexts": "ball_*", "sequence": "shot"},
    "teleoperation": {},
}
FOLLOWS = ("z_", "observation.")  # how those begin


class Head:
    """A camera that pans (degrees) after a game, by a command that its head follows in a few frames."""

    def reset(self, seed: int) -> dict[str, float]:
        """Draw the ball (degrees as seen from the camera), a player who runs after it, and the operator's hand."""
        rng = np.random.default_rng(seed)
        self.ball, self.hand, self.frame = wander(rng, 40, 15.0), wander(rng, 15, 1.0), 0
        self.player, self.command, self.azimuth = 0.7 * self.ball + wander(rng, 60, 5.0), self.ball[0], self.ball[0]
        return self.look()

    def look(self) -> dict[str, float]:
        """Return what is seen and what the head says of itself."""
        ball = self.ball[self.frame]
        seen = {"ball": ball, "player": self.player[self.frame], "azimuth": self.azimuth}
        return seen | {"off_centre": ball - self.azimuth}

    def expert(self) -> list[float]:
        """Follow the ball and the player with a hand that takes a while."""
        aim = 0.8 * self.ball[self.frame] + 0.2 * self.player[self.frame] + self.hand[self.frame]
        return [self.command + 0.15 * (aim - self.command)]

    def step(self, action: Any) -> tuple[dict[str, float] | None, float]:
        """Let the head follow; what costs is how far the ball is off the centre."""
        self.command = action[0]
        self.azimuth += 0.4 * (self.command - self.azimuth)
        cost = (self.ball[self.frame] - self.azimuth) ** 2
        self.frame += 1
        return (self.look() if self.frame < FRAMES else None), cost


class Car:
    """A car that follows another, by its acceleration (m/s2), 10 frames a second."""

    def reset(self, seed: int) -> dict[str, float]:
        """Draw how fast the leader goes (m/s), and the driver's foot."""
        rng = np.random.default_rng(seed)
        self.leader, self.foot, self.frame = 20.0 + wander(rng, 80, 3.0), wander(rng, 15, 0.1), 0
        self.speed, self.gap, self.command = self.leader[0], 1.2 * self.leader[0], 0.0
        return self.look()

    def look(self) -> dict[str, float]:
        """Return what a driver sees."""
        return {"leader_speed": self.leader[self.frame], "gap": self.gap, "own_speed": self.speed}

    def expert(self) -> list[float]:
        """Keep 1.2 s behind the leader."""
        wish = (
            0.3 * (self.gap - 1.2 * self.speed) + 0.8 * (self.leader[self.frame] - self.speed) + self.foot[self.frame]
        )
        return [self.command + 0.3 * (np.clip(wish, -5.0, 3.0) - self.command)]

    def step(self, action: Any) -> tuple[dict[str, float] | None, float]:
        """Drive on; what costs is how far the gap is off, and being shaken."""
        self.command = action[0]
        self.gap += 0.1 * (self.leader[self.frame] - self.speed)
        self.speed += 0.1 * self.command
        cost = (self.gap / max(self.speed, 1.0) - 1.2) ** 2 + 0.01 * self.command**2
        self.frame += 1
        return (self.look() if self.frame < FRAMES else None), cost


# By plant: its columns that follow from the action, in the order in which they are left out, one more each time.
PLANTS: dict[type, tuple[str, ...]] = {
    Valve: ("valve_position", "level"),
    Crane: ("drive_speed", "sway", "position"),
    Head: ("azimuth", "off_centre"),
    Car: ("own_speed", "gap"),
}


def accuse(demos: simile.Demonstrations) -> set[str]:
    """Return the contexts of which it is told that they follow from the action, or copy it."""
    return {name for problem in demos.problems if problem.kind in ("effect", "copy") for name in problem.columns}


def main() -> None:
    """Print a line for each plant, seed and choice of columns, then one for each real set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--data", type=Path, help="the folder of the real sets")
    given, counts = parser.parse_args(), np.zeros((2, 4), int)
    warnings.simplefilter("ignore")
    if importlib.util.find_spec("pcgym"):
        from reactor import Reactor

        PLANTS[Reactor] = ("temperature", "Ca")
    print(f"{'plant':9}{'without':28}{'cost at work over the expert':>30}{'off at work':>13}{'recorded':>10}  accused")
    for plant, effects in PLANTS.items():
        for seed in given.seeds:
            demos = record(plant(), episodes=12, seed=10_000 * seed)
            for n in range(len(effects) + 1):
                some = demos.without(effects[:n])
                verdict = simile.evaluate(simile.learn(some).policy, plant=plant(), seed=10_000 * seed + 5_000).verdict
                work, accused = verdict.at_work, accuse(some)
                truly, others = set(effects[n:]), set(some.context_names) - set(effects)
                counts[0] += [len(accused & truly), len(truly), len(accused & others), len(others)]
                ratio = f"{work.ratio.value:8.2f} ({work.ratio.low:.2f} to {work.ratio.high:.2f})"
                off = f"{work.rmse.get('a0', np.nan):13.3g}{verdict.rmse['a0']:10.3g}"
                print(
                    f"{plant.__name__:9}{', '.join(effects[:n]):28}{ratio:>30}{off}  {', '.join(sorted(accused))}",
                    flush=True,
                )
    for name, options in REAL.items() if given.data else ():
        demos = simile.read(given.data / name, **options, quiet=True)
        truly, accused = {one for one in demos.context_names if one.startswith(FOLLOWS)}, accuse(demos)
        others = set(demos.context_names) - truly
        counts[1] += [len(accused & truly), len(truly), len(accused & others), len(others)]
        print(f"{name}, {len(truly)} effects among {demos.n_contexts} contexts: accused {sorted(accused)}", flush=True)
    for where, (found, effects_, wrong, others_) in zip(("plants", "real sets"), counts, strict=True):
        print(f"{where}: accused {found} of {effects_} effects of the action, and {wrong} of {others_} other columns")


if __name__ == "__main__":
    main()
