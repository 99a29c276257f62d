"""What is known ahead of a stream: given once, as a plan, or with each frame, as the values that come next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simile._common.typing import FloatArray
from simile.data.timing import Known
from simile.errors import ArgumentError
from simile.online import inputs


class Foresight:
    """Makes frames as wide as a policy reads them that knows some columns ahead (`Horizon.known`).

    Parameters
    ----------
    known : Known
        Which columns, and how many frames ahead each is read.
    names : sequence of str
        Of all contexts of the policy, those known ahead last.
    plan : (T, m) array_like or mapping, optional
        Contexts of all frames to come from the first on, or of those columns alone by name; missing after its end.
    """

    def __init__(self, known: Known, names: tuple[str, ...], plan: Any = None) -> None:
        self.known, self.names = known, names
        if plan is not None and not known:
            raise ArgumentError("plan: this policy knows nothing ahead: learn with known={...}, or leave the plan out")
        self.plan = None if plan is None else self._read(plan, "plan")

    def widen(self, x: Any, frame: int, ahead: Any = None) -> Any:
        """Return the context of a frame with what is known then; as it is, where it brings that itself."""
        raw = len(self.names) - len(self.known)
        if ahead is None and self.plan is None:
            if not isinstance(x, Mapping) and np.shape(x) == (raw,):
                raise ArgumentError(
                    f"x must bring what is known ahead, {', '.join(self.names[raw:])}: give these values too, or the "
                    "coming ones by step(x, ahead=...), or all by plan=..."
                )
            return x
        row = inputs.put_in_order(x, self.names[:raw]) if isinstance(x, Mapping) else x
        row = inputs.read_numbers(row, "x", ndmin=1)
        if row.shape != (raw,):
            raise ArgumentError(f"x must hold the {raw} values of now beside what is known ahead; got {row.shape}")
        table, first = (self.plan, frame) if ahead is None else (self._read(ahead, "ahead"), -1)
        assert table is not None
        coming = [table[first + n, column] if first + n < len(table) else np.nan for column, n in self.known]
        return np.concatenate([row, coming])

    def _read(self, given: Any, name: str) -> FloatArray:
        """Return what is known as a table (frames, m); columns that nobody asks for stay missing."""
        raw = len(self.names) - len(self.known)
        if not isinstance(given, Mapping):
            table = inputs.read_numbers(given, name, ndmin=2)
            if table.shape[1:] != (raw,):
                raise ArgumentError(f"{name} must have the {raw} contexts as columns; got shape {table.shape}")
            return table
        wanted = {self.names[column]: column for column, _ in self.known}
        if missing := [one for one in wanted if one not in given]:
            raise ArgumentError(f"{name} must tell {', '.join(wanted)}; got no {missing[0]!r}")
        columns = {one: inputs.read_numbers(given[one], name, ndmin=1) for one in wanted}
        table = np.full((max(map(len, columns.values())), raw), np.nan)
        for one, values in columns.items():
            table[: len(values), wanted[one]] = values
        return table
