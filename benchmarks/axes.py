"""Pan, tilt and zoom learned together: beside a constant, and the pan beside one learned alone (`make accuracy`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import simile
from simile.camera.courts import BASKETBALL, SOCCER, Court
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate

GAMES, HELD_OUT, SEEDS = 12, 3, (200, 201)


def error(rolled: list[np.ndarray], demos: simile.Demonstrations) -> np.ndarray:
    """Return the root mean square error of each axis."""
    return np.asarray(np.sqrt(np.mean((np.concatenate(rolled) - np.concatenate(demos.actions)) ** 2, axis=0)))


def pan_of(demos: simile.Demonstrations) -> simile.Demonstrations:
    """Return demonstrations of the pan alone."""
    return simile.Demonstrations(
        tuple(replace(d, actions=d.actions[:, :1], action_names=d.action_names[:1]) for d in demos)
    )


def measure(sport: Court, seed: int) -> list[float]:
    """Return the errors of pan, tilt and zoom over those of two constants, and the pan's over that learned alone."""
    demos = demonstrations(simulate(GAMES, sport=sport, axes=3, seed=seed))
    train, test = demos[:-HELD_OUT], demos[-HELD_OUT:]
    rolled = error(simile.rollout(simile.learn(train).policy, test), test)
    acted = np.concatenate(test.actions)
    mean = np.sqrt(np.mean((acted - np.concatenate(train.actions).mean(axis=0)) ** 2, axis=0))
    alone = error(simile.rollout(simile.learn(pan_of(train)).policy, pan_of(test)), pan_of(test))
    return [*(rolled / mean), *(rolled / acted.std(axis=0)), float(rolled[0] / alone[0])]


if __name__ == "__main__":
    constants = ("the mean of training", "the best constant")
    columns = [f"{axis} over {what}" for what in constants for axis in ("pan", "tilt", "zoom")]
    for sport in (BASKETBALL, SOCCER):
        found = np.array([measure(sport, seed) for seed in SEEDS])
        print(f"\n{sport.name}, seeds {', '.join(map(str, SEEDS))}")
        for name, values in zip((*columns, "pan over a pan learned alone"), found.T, strict=True):
            print(f"  {name:40} {values.min():6.3f} to {values.max():.3f}", flush=True)
