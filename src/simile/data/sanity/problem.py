"""What is told of data, and what looking at columns needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simile._common.text import count, escape
from simile._common.typing import FloatArray
from simile.data.names import list_some

if TYPE_CHECKING:
    from simile.data.demonstrations import Demonstrations


@dataclass(frozen=True)
class Problem:
    """Something in recorded data that nobody meant.

    Attributes
    ----------
    kind : str
        What it is, such as "code" or "wrap".
    columns : tuple of str
        Where.
    message : str
        A sentence with column, values, and the way out.
    certain : bool
        Whether to refuse to learn from it; what is likely is told.
    """

    kind: str
    columns: tuple[str, ...]
    message: str
    certain: bool = False

    def __str__(self) -> str:
        return self.message


def list_columns(demos: Demonstrations) -> Iterator[tuple[str, bool, list[FloatArray]]]:
    """Yield every column: its name, whether it is an action, and its values in each recording."""
    for j, name in enumerate(demos.action_names):
        yield name, True, [a[:, j] for a in demos.actions]
    for j, name in enumerate(demos.context_names):
        yield name, False, [x[:, j] for x in demos.contexts]


def name_recordings(demos: Demonstrations, numbers: Sequence[int]) -> str:
    """Name recordings by their number, such as "in 2 of 8 recordings (g1, g4)".

    A single recording is not named.
    """
    if len(demos) == 1:
        return ""
    if len(numbers) == len(demos):
        return "in all recordings"
    names = list_some([escape(demos[i].name) for i in numbers])
    return f"in {len(numbers)} of {count(len(demos), 'recording')} ({names})"


def solve_ridge(inputs: FloatArray, targets: FloatArray, share: float) -> FloatArray:
    """Return the weights of a ridge, whose penalty is a share of the mean square of the inputs; 0 where there are none.

    Parameters
    ----------
    inputs : (n, m) array
        Less their means.
    targets : (n,) or (n, k) array
        Less their means.
    share : float
        Of the mean diagonal of the normal equations.
    """
    gram = inputs.T @ inputs
    gram += np.eye(len(gram)) * (share * np.trace(gram) / max(len(gram), 1) + 1e-12)
    try:
        return np.asarray(np.linalg.solve(gram, inputs.T @ targets), dtype=np.float64)
    except np.linalg.LinAlgError:  # of numbers too large to be squared
        return np.zeros((inputs.shape[1], *targets.shape[1:]))
