"""NumPy archives (.npz): 1-D arrays are columns, 2-D arrays one column per element of a row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simile.data.reading.tables import Batch, Column, Place, Roles, Table, Wanted, decoding, elements, spread
from simile.data.reading.values import as_batch, kind_of_array
from simile.errors import DataError

ROLES_KEY = "simile"  # the array that says what the others are, as the bytes of JSON
_ROWS = 1 << 16

Array = npt.NDArray[Any]


def open_arrays(path: Path) -> Table:
    """Open a .npz archive; arrays of objects (pickles) are refused."""
    with decoding(path, "a NumPy archive"), path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataError(f"{path}: one bare array: save it by name, as np.savez(path, name=array)")
        with archive:
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
        if not arrays:
            raise DataError(f"{path}: the archive is empty")
        columns, values, roles = _own(arrays) if ROLES_KEY in arrays else _foreign(arrays, path)
        if len({len(array) for array in values.values()}) > 1:
            raise ValueError("its arrays do not fit together")
    if not values or not len(next(iter(values.values()))):
        raise DataError(f"{path}: there are columns but no row")
    return Table(path, tuple(columns), lambda wanted: _scan(path, values, wanted), roles)


def _scan(path: Path, values: Mapping[str, Array], wanted: Wanted) -> Iterator[Batch]:
    for start in range(0, len(next(iter(values.values()))), _ROWS):
        some = {n: values[n][start : start + _ROWS] for n in (*wanted.names, *wanted.texts)}
        yield as_batch(some, wanted, Place(path, start + 1))


def _foreign(arrays: Mapping[str, Array], path: Path) -> tuple[list[Column], dict[str, Array], Roles]:
    columns: list[Column] = []
    values: dict[str, Array] = {}
    first: str | None = None
    for name, array in arrays.items():
        if array.ndim not in (1, 2):
            columns.append(Column(name, f"{array.ndim}-D array", name))
            continue
        first = name if first is None else first
        if len(array) != len(arrays[first]):
            raise DataError(
                f"{path}: arrays must have as many rows; {first!r} has {len(arrays[first])} and {name!r} {len(array)}"
            )
        group = elements(name, 1 if array.ndim == 1 else array.shape[1], kind_of_array(array.ravel()[:1000]))
        columns += group
        values |= spread(array.reshape(len(array), len(group)), group)
    return columns, values, Roles()


def _own(arrays: Mapping[str, Array]) -> tuple[list[Column], dict[str, Array], Roles]:
    """Return what `write` has stored."""
    said = json.loads(arrays[ROLES_KEY].tobytes())
    roles = Roles.parse(said)
    names = np.array([*map(str, said["sequences"]), None], dtype=object)[:-1]  # None: one axis, whatever the names
    values: dict[str, Array] = {"sequence": names[arrays["sequence"]]}
    if roles.time is not None:
        values[roles.time] = arrays["t"]
    for group, table in ((roles.contexts or (), arrays["contexts"]), (roles.actions or (), arrays["actions"])):
        if table.shape != (len(arrays["sequence"]), len(group)):
            raise ValueError("names and arrays do not fit")
        values |= {name: table[:, i] for i, name in enumerate(group)}
    if sorted(roles.columns) != sorted(values):
        raise ValueError("a column has two roles")
    return [Column(name, kind_of_array(array[:1000]), name) for name, array in values.items()], values, roles
