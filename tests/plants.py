"""Three simulated plants with an operator: clean recordings, by seed, and what follows from the action."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.signal import lfilter

N_RECORDINGS, N_FRESH = 8, 4

Rows = Mapping[str, np.ndarray]  # the columns of one recording, or of its beginning


@dataclass(frozen=True, eq=False)
class Plant:
    """Something that an operator acts on: contexts, which nobody can change, and the action that follows from them.

    Attributes
    ----------
    main, signed : str
        The context that counts most, and one that is above 0 and below.
    draw, operate : callable
        Draw the contexts of a recording; return what the operator does.
    effects : mapping
        What a logger would keep of feedback, position and error: the name of the column, and how it follows.
    """

    name: str
    action: str
    contexts: tuple[str, ...]
    main: str
    signed: str
    rate: float
    lengths: tuple[int, int]
    draw: Callable[[np.random.Generator, int], dict[str, np.ndarray]]
    operate: Callable[[Rows, np.random.Generator], np.ndarray]
    effects: Mapping[str, tuple[str, Callable[[Rows], np.ndarray]]] = field(default_factory=dict)

    def make(self, n: int = N_RECORDINGS, seed: int = 0, edit: Callable[..., Any] | None = None) -> pd.DataFrame:
        """Simulate recordings: sequence, t (s), contexts, action.

        `edit(plant, rows, rng, i)` may change the contexts of the i-th before the operator acts, or return the action.
        """
        frames = []
        for i in range(n):
            rng = np.random.default_rng([seed, i, len(self.name)])
            rows = self.draw(rng, int(rng.integers(*self.lengths)))
            acted = None if edit is None else edit(self, rows, rng, i)
            rows[self.action] = self.operate(rows, rng) if acted is None else acted
            t = (np.arange(len(rows[self.main])) / self.rate).round(4)
            frames.append(pd.DataFrame({"sequence": i + 1, "t": t} | {c: v.round(3) for c, v in rows.items()}))
        return pd.concat(frames, ignore_index=True)

    def make_fresh(self, seed: int = 0) -> pd.DataFrame:
        """Simulate other recordings, to test on."""
        return self.make(N_FRESH, seed + 10_000)

    def take(
        self, frame: pd.DataFrame, columns: Mapping[str, Callable[[Rows], np.ndarray]] | None = None
    ) -> list[Rows]:
        """Return the columns of every recording, and more that are functions of these."""
        names = ["t", *self.contexts, self.action]
        found = [{n: rows[n].to_numpy(float) for n in names} for _, rows in frame.groupby("sequence", sort=False)]
        return [{**rows, **{name: f(rows) for name, f in (columns or {}).items()}} for rows in found]


# ----------------------------------------------------------------------------------------------------------- movements


def wander(rng: np.random.Generator, n: int, frames: float, spread: float) -> np.ndarray:
    """Draw what wanders smoothly around 0, and forgets within so many frames."""
    path = follow(follow(rng.normal(size=n + int(10 * frames)), 0.5 * frames), 0.5 * frames)
    return 1.4 * np.sqrt(frames) * spread * path[-n:]


def hold_levels(rng: np.random.Generator, n: int, frames: float, low: float, high: float) -> np.ndarray:
    """Draw a staircase: levels that are held for about so many frames."""
    level = np.cumsum(rng.random(n) < 1.0 / frames)
    return np.round(rng.uniform(low, high, level[-1] + 1), 1)[level]


def follow(x: np.ndarray, frames: float) -> np.ndarray:
    """Follow a path, as late as so many frames."""
    keep = np.exp(-1.0 / frames)
    return lfilter([1.0 - keep], [1.0, -keep], x, zi=[keep * x[0]])[0]


def delay(x: np.ndarray, frames: int) -> np.ndarray:
    """Shift a path to later frames."""
    return x[np.maximum(np.arange(len(x)) - frames, 0)]


def jitter(x: np.ndarray, size: float) -> np.ndarray:
    """Add noise, the same to the same beginning."""
    return x + size * np.random.default_rng(5).normal(size=len(x))


# ---------------------------------------------------------------------------------------------- camera, valve and crane


def draw_game(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Draw a ball and four players (m) who run after it."""
    ball = np.clip(wander(rng, n, 60.0, 22.0), -52.0, 52.0)
    rows = {"ball_x": ball, "ball_y": np.clip(wander(rng, n, 60.0, 14.0), -34.0, 34.0)}
    for i in range(4):
        rows[f"player{i}_x"] = follow(ball, 60.0) * (0.1 + 0.2 * i) + wander(rng, n, 90.0, 12.0)
    return rows


def operate_camera(rows: Rows, rng: np.random.Generator) -> np.ndarray:
    """Point a camera at the ball and at those around it (degrees), with a hand that takes a while."""
    players = np.mean([rows[f"player{i}_x"] for i in range(4)], axis=0)
    aim = 165.0 + np.degrees(np.arctan2(0.9 * rows["ball_x"] + 0.3 * players, 60.0 + 0.3 * rows["ball_y"]))
    return follow(follow(aim, 6.0), 6.0) + wander(rng, len(aim), 20.0, 0.3)


def draw_weather(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Draw inflow (m3/s), the level that is wished for (m) and the temperature (degrees Celsius)."""
    inflow = 5.0 + wander(rng, n, 30.0, 1.0) + follow(hold_levels(rng, n, 120.0, -1.5, 1.5), 3.0)
    temperature = 2.0 + wander(rng, n, 200.0, 4.0)
    return {"inflow": inflow, "level_setpoint": hold_levels(rng, n, 150.0, 2.0, 4.0), "temperature": temperature}


def operate_valve(rows: Rows, rng: np.random.Generator) -> np.ndarray:
    """Open a valve (%) as the inflow asks for, less where the level is to be higher."""
    wish = 48.0 + 9.0 * (follow(rows["inflow"], 5.0) - 5.0) - 8.0 * (rows["level_setpoint"] - 3.0)
    return np.clip(follow(wish - 0.5 * rows["temperature"], 4.0) + wander(rng, len(wish), 8.0, 0.6), 0.0, 100.0)


def fill(rows: Rows) -> np.ndarray:
    """Return the level (m) behind a valve."""
    net = 0.02 * (rows["inflow"] - 5.0 - 0.09 * (delay(rows["valve_cmd"], 2) - 48.0))
    return lfilter([1.0], [1.0, -0.99], net) + 3.0


def draw_loads(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Draw where a load is to go (m), wind (m/s) and the length of the rope (m)."""
    target = follow(hold_levels(rng, n, 120.0, -18.0, 18.0), 4.0)
    return {"target": target, "wind": wander(rng, n, 80.0, 4.0), "rope": 10.0 + follow(wander(rng, n, 150.0, 2.5), 3.0)}


def operate_crane(rows: Rows, rng: np.random.Generator) -> np.ndarray:
    """Drive a trolley (m/s) to where the load is to go, slower with a long rope and against the wind."""
    position, speed, acted = rows["target"][0], 0.0, wander(rng, len(rows["target"]), 15.0, 0.02)
    for i, (target, wind, rope) in enumerate(zip(*(rows[c] for c in ("target", "wind", "rope")), strict=True)):
        wish = np.clip(1.2 * (target - position) * 10.0 / (5.0 + 0.5 * rope) - 0.1 * wind, -5.0, 5.0)
        speed += 0.4 * (wish - speed)
        acted[i] += speed
        position += 0.1 * acted[i]
    return acted


def drive(rows: Rows) -> np.ndarray:
    """Return where the trolley of a crane is (m): a command takes effect in the frame after it."""
    return rows["target"][0] + 0.1 * (np.cumsum(rows["speed_cmd"]) - rows["speed_cmd"])


CAMERA = Plant(
    "camera",
    "pan",
    ("ball_x", "ball_y", "player0_x", "player1_x", "player2_x", "player3_x"),
    *("ball_x", "ball_x", 30.0, (600, 1200), draw_game, operate_camera),
    {
        "feedback": ("head_azimuth", lambda rows: jitter(delay(rows["pan"], 3), 0.05)),
        "position": ("picture_left", lambda rows: follow(rows["pan"], 4.0) - 30.0),
        "error": ("ball_off_centre", lambda rows: np.degrees(np.arctan2(rows["ball_x"], 60.0)) + 165.0 - rows["pan"]),
    },
)
VALVE = Plant(
    *("valve", "valve_cmd", ("inflow", "level_setpoint", "temperature"), "inflow", "temperature", 2.0, (600, 800)),
    *(draw_weather, operate_valve),
    {
        "feedback": ("valve_position", lambda rows: jitter(follow(delay(rows["valve_cmd"], 1), 1.5), 0.2)),
        "position": ("tank_level", fill),
        "error": ("level_error", lambda rows: rows["level_setpoint"] - fill(rows)),
    },
)
CRANE = Plant(
    *("crane", "speed_cmd", ("target", "wind", "rope"), "target", "wind", 10.0, (600, 800), draw_loads, operate_crane),
    {
        "feedback": ("drive_speed", lambda rows: jitter(follow(delay(rows["speed_cmd"], 1), 2.0), 0.01)),
        "position": ("trolley_position", drive),
        "error": ("to_go", lambda rows: rows["target"] - drive(rows)),
    },
)
PLANTS = (CAMERA, VALVE, CRANE)
