"""The pace of a policy, and a game that has another."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.camera.games import Game
from simile.policies.rollouts import SAME_RATE


def same_pace(one: float, other: float) -> bool:
    """Tell whether two rates are the same: 29.97 is 30."""
    return math.isclose(one, other, rel_tol=SAME_RATE)


def find_ticks(times: FloatArray, rate: float) -> tuple[FloatArray, IntArray]:
    """Return when (n,) a policy acts while frames come at times (T,), from 0 on, and the latest frame (n,) then."""
    ticks = np.arange(np.ceil(times[-1] * rate - 1e-6) + 1.0) / rate
    return ticks, np.searchsorted(times, ticks + 1e-6, side="right") - 1


def resample(game: Game, rate: float) -> Game:
    """Return a game at another rate: in every frame what was seen last, and the operator between his frames."""
    if same_pace(rate, game.rate) or not len(game):
        return game
    times = np.arange(len(game)) / game.rate
    ticks, latest = find_ticks(times, rate)
    held = {name: getattr(game, name) for name in ("detections", "players", "ball", "possession")}
    taken = {name: array[latest] for name, array in held.items() if array is not None}
    actions = None if game.actions is None else interpolate(ticks, times, game.actions)
    return replace(game, rate=rate, actions=actions, **taken)


def interpolate(when: FloatArray, times: FloatArray, actions: FloatArray) -> FloatArray:
    """Return actions (T, k) at times (T,) as they are `when` (n,)."""
    return np.column_stack([np.interp(when, times, column) for column in actions.T])
