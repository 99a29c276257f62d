"""A recorded or simulated game: who was where, what was detected of it, and how the operator moved the camera."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray
from simile.camera.courts import Court
from simile.camera.geometry import Camera
from simile.errors import ArgumentError

AXES = ("pan", "tilt", "zoom")
OWN = (float("nan"), float("nan"))  # as the camera stands


@dataclass(frozen=True, eq=False)
class Game:
    """One game, frame by frame; positions in metres, see `Court`.

    Parameters
    ----------
    detections : (T, n, 2) array
        What was detected, without identity: the order means nothing; NaN where there are fewer than n.
    actions : (T, k) array, optional
        How the operator moved the camera: pan, or pan, tilt and zoom; None where there was none.
    players : (T, p, 2) array, optional
        Where the players really were; NaN who is unknown. The detections by default.
    ball : (T, 2) array, optional
        Where the ball was; NaN where unknown.
    possession : (T,) array of int, optional
        Which team (0 or 1) has the ball; -1 for none.
    still : (tilt, zoom)
        Of a camera that only pans. By default the median of an operator who moves them, or else a look at the court's
        middle, see `Camera.still_view`.
    """

    name: str
    rate: float
    court: Court
    camera: Camera
    detections: FloatArray
    actions: FloatArray | None = None
    players: FloatArray | None = None
    ball: FloatArray | None = None
    possession: IntArray | None = None
    still: tuple[float, float] = OWN

    def __post_init__(self) -> None:
        checks.number(self.rate, "rate", above=0.0)
        length = len(self.detections)
        for name, shape in (("detections", (None, 2)), ("players", (None, 2)), ("ball", (2,)), ("actions", (None,))):
            array = getattr(self, name)
            if array is None:
                continue
            fits = array.ndim == 1 + len(shape) and all(
                s in (None, n) for s, n in zip(shape, array.shape[1:], strict=False)
            )
            if not fits or len(array) != length:
                raise ArgumentError(f"{name} of {self.name!r} must have {length} frames; got shape {array.shape}")
        if self.actions is not None and self.actions.shape[1] not in (1, 3):
            raise ArgumentError(f"actions must be pan, or pan, tilt and zoom; got {self.actions.shape[1]} columns")
        if np.isnan(self.still).any():
            object.__setattr__(self, "still", self._rest())

    def __len__(self) -> int:
        return len(self.detections)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the operator's axes."""
        return AXES[: 1 if self.actions is None else self.actions.shape[1]]

    def _rest(self) -> tuple[float, float]:
        """Return the tilt and zoom that the operator has half the time, or that suit the camera's place."""
        if self.actions is None or self.actions.shape[1] == 1 or not (known := np.isfinite(self.actions).all(1)).any():
            return self.camera.still_view(self.court)
        _, tilt, zoom = np.median(self.actions[known], axis=0).tolist()
        return tilt, zoom

    def view(self, actions: FloatArray) -> FloatArray:
        """Complete actions (T, k) to pan, tilt and zoom, (T, 3)."""
        if actions.shape[1] == 3:
            return actions
        return np.column_stack(
            [actions[:, 0], np.full(len(actions), self.still[0]), np.full(len(actions), self.still[1])]
        )
