"""What a policy carries with it about its data and its training; a policy file shows it to whoever opens it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from simile._common.typing import FloatArray
from simile.data.logs import Log
from simile.data.preparation import Preparation

DIGITS = 6  # of the ranges of contexts; all of them where one lies far from 0
LOGS = "logs"  # among the facts of a training: noise and resolution of each action, estimated once
BAND = "band"  # among the facts of a training: what `simile.policies.bands.Band` reads


@dataclass(frozen=True)
class Card:
    """What a policy is for, and where it comes from.

    Parameters
    ----------
    context_names, action_names : tuple of str
        Names of the columns it was trained on; empty where unknown.
    rate : float, optional
        Frames per second of the demonstrations, and so of the steps it expects.
    training : mapping
        Facts about the run that made it, as plain JSON values: settings, errors, a digest of the data.
    preparation : Preparation
        What was mended in the data, and is to be mended in what comes: codes for missing values, angles that wrap.
    """

    context_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    rate: float | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    preparation: Preparation = field(default=Preparation())

    def without_band(self) -> Self:
        """Return the same card of a policy that does something else than what its band was measured on."""
        return replace(self, training={name: fact for name, fact in self.training.items() if name != BAND})

    def logs(self, k: int) -> tuple[Log, ...] | None:
        """Return what the logs of the k actions were like that it was trained on: by these it is judged, wherever.

        A card may come from anybody: None where they are not there or make no sense.
        """
        given = self.training.get(LOGS)
        try:
            found = tuple(map(Log.read, given)) if isinstance(given, Sequence) else ()
        except ValueError:
            return None
        return found if len(found) == k else None

    def ranges(self, m: int) -> tuple[FloatArray, FloatArray] | None:
        """Return the lowest and the highest contexts of the training, (m,), infinite where unknown.

        A card may come from anybody: None where they are not there or make no sense.
        """
        given: Any = self.training.get("ranges")
        try:
            sides: Any = [[np.nan if v is None else v for v in given[side]] for side in ("low", "high")]
            low, high = np.array(sides, np.float64)
        except (KeyError, OverflowError, TypeError, ValueError):
            return None
        known = low <= high
        if low.shape != (m,) or not known.any():
            return None
        return np.where(known, low, -np.inf), np.where(known, high, np.inf)
