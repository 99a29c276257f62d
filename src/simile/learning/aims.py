"""What the models of a mixture are fitted to: the expert's action of now, a little later, or sharpened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simile._common.typing import FloatArray, Trajectories
from simile.data.states import stretch
from simile.models.closed_loop import ClosedLoop
from simile.models.regularizers import CriticallyDamped

DELAYS = (0, 1, 2, 4, 8, 16, 24)  # frames ahead at up to 30 per second, and as long at more
FEW = (0, 8, 24)  # for models that are fitted to each anew
LAGS = (1, 2, 4, 8, 16)  # frames, as long
MU = 1e-3  # how much a sharpened action is held to the action itself
FILTER = CriticallyDamped(order=3)


@dataclass(frozen=True)
class Aim:
    """The expert's action some frames ahead; or sharpened, so that a filter that lags by so many makes the action."""

    ahead: int = 0
    lag: float = 0.0

    def of(self, actions: FloatArray) -> FloatArray:
        """Return what to say in each frame of a sequence (T, k); the last action lasts."""
        if self.lag:
            smoothness = FILTER.smoothness_for(self.lag)
            return ClosedLoop.of(FILTER.fit([actions], smoothness), smoothness).targets(actions, MU)
        return actions[np.minimum(np.arange(len(actions)) + self.ahead, len(actions) - 1)]

    def tell(self, rate: float | None) -> str:
        """Say what it is, in seconds where there is a rate.

        >>> Aim(12).tell(30.0), Aim(lag=4.0).tell(None), Aim().tell(30.0)
        ('0.4 s ahead', 'sharpened by 4 frames', 'now')
        """
        frames = self.lag or self.ahead
        long = f"{frames:g} frame{'s' * (frames != 1)}" if rate is None else f"{frames / rate:.3g} s"
        return f"sharpened by {long}" if self.lag else f"{long} ahead" if self.ahead else "now"


def choose_aims(rate: float | None, delays: Sequence[int] = DELAYS, lags: Sequence[float] = ()) -> tuple[Aim, ...]:
    """Return aims for demonstrations at a rate (Hz).

    >>> choose_aims(60.0, (0, 8), (4,))
    (Aim(ahead=0, lag=0.0), Aim(ahead=16, lag=0.0), Aim(ahead=0, lag=8.0))
    """
    longer = stretch(rate)
    ahead = dict.fromkeys(round(delay * longer) for delay in delays)
    return (*map(Aim, ahead), *(Aim(lag=lag * longer) for lag in lags))


def label(actions: Trajectories, aims: Sequence[Aim]) -> FloatArray:
    """Return what to say in each frame of some sequences, aim by aim, (frames, aims * k)."""
    return np.concatenate([np.concatenate([aim.of(a) for aim in aims], axis=1) for a in actions])


def weigh_ahead(weights: Trajectories, aims: Sequence[Aim]) -> FloatArray:
    """Return how much each frame counts, (frames, k): no more than any of the actions that it aims at."""
    return np.concatenate([np.min([Aim(aim.ahead).of(w) for aim in aims], axis=0) for w in weights])
