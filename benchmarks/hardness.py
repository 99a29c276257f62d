"""What makes simulated games hard to learn from, and how hard (`make accuracy`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import simile
from simile.camera.courts import BASKETBALL, SOCCER, Court
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate

LOOK = simile.Horizon((0, 1, 2, 4, 8, 12, 16, 24, 32), 0)


def one_step(policy: Any, demos: simile.Demonstrations) -> float:
    """Return the error one step ahead, with the expert's own past: what a clone is trained on, and what misleads."""
    states = policy.horizon.states(demos, [policy.units.standardize(a) for a in demos.actions])
    acted = policy.units.restore(policy.act(states, np.full(len(states), 0.5)))
    return float(np.sqrt(np.mean((acted - np.concatenate(demos.actions)) ** 2)))


def hardness(sport: Court, seeds: Sequence[int]) -> None:
    """Print what makes the simulated job hard: a jittery forest, and a clone of past actions that fails rolled out.

    Errors in standard deviations of the held-out pan, roughness as mean |second difference| over the operator's.
    """
    rows: dict[str, list[float]] = {}
    for seed in seeds:
        demos = demonstrations(simulate(12, sport=sport, seed=seed))
        train, test = demos[:9], demos[9:]
        spread = float(np.concatenate(test.actions).std())
        plain = simile.clone(train, smoothness=0.0, horizon=LOOK, regularizer=simile.PreviousAction())
        past = simile.clone(train, smoothness=0.0, model=simile.SmoothForest(n_trees=20, max_features=None))
        drawn = simile.clone(train, smoothness=0.0)
        smooth = simile.paper(
            train,
            smoothness=100.0,
            horizon=LOOK,
            regularizer=simile.CriticallyDamped(order=3),
            n_rounds=4,
            validation=0.2,
        )
        runs = {"forest": plain, "past": past, "drawn": drawn, "smooth": smooth}
        judged = {name: simile.evaluate(run.policy, test) for name, run in runs.items()}
        error = {name: found.verdict.rmse["pan"] / spread for name, found in judged.items()}
        rough = {name: found.verdict.roughness.value for name, found in judged.items()}
        measured = {
            "forest on contexts: RMSE": error["forest"],
            "forest on contexts: roughness": rough["forest"],
            "clone with past actions, all features tried: one step ahead": one_step(past.policy, test) / spread,
            "the same rolled out: RMSE": error["past"],
            "clone with past actions, their square root tried: RMSE": error["drawn"],
            "smooth SIMILE: RMSE": error["smooth"],
            "smooth SIMILE: roughness": rough["smooth"],
            "hold the last action: RMSE": error["smooth"] / judged["smooth"].verdict.over_hold.value,
        }
        for name, value in measured.items():
            rows.setdefault(name, []).append(value)
    print(f"\n{sport.name}, seeds {', '.join(map(str, seeds))}")
    for name, values in rows.items():
        print(f"  {name:60} {min(values):7.3g} to {max(values):.3g}")


if __name__ == "__main__":
    hardness(BASKETBALL, (100, 101, 102, 103))
    hardness(SOCCER, (100, 101))
