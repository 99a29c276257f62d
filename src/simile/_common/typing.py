"""The types that many signatures speak of."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]
PerAction = float | FloatArray  # one number, or (k,), one for each action
Trajectories = Sequence[FloatArray]  # one (T, k) array per sequence, never joined
AnyPath = str | os.PathLike[str]
