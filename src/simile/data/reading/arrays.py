"""NumPy archives (.npz): 1-D arrays are columns, 2-D arrays one column per element of a row."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from simile._common.urls import File, open_file
from simile.data.reading.tables import (
    LONGEST,
    PER_VALUE,
    Batch,
    Column,
    Place,
    Roles,
    Table,
    Wanted,
    decoding,
    elements,
    quote,
)
from simile.data.reading.values import as_batch, kind_of_array
from simile.errors import DataError

ROLES_KEY = "simile"  # the array that says what the others are, as the bytes of JSON
_ROWS, _SAMPLE = 1 << 16, 1000
_START = 1 << 20  # bytes of an array that hold its header and some values
_FORMAT = "a NumPy archive"

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class _Head:
    """What an array is, and its first values (flat); the others stay in the archive until they are wanted."""

    shape: tuple[int, ...]
    first: Array

    @property
    def size(self) -> int:
        """Bytes of the whole."""
        return math.prod(self.shape) * self.first.itemsize


@dataclass(frozen=True, eq=False)
class _Arrays:
    """The columns of an archive: where each is, as an array and the index in its rows, and what numbers stand for."""

    path: File
    heads: Mapping[str, _Head]
    columns: dict[Column, tuple[str, int | None]]
    names: Mapping[str, Array] = field(default_factory=dict)  # of columns that number the sequences

    @property
    def n_rows(self) -> int:
        return next((self.heads[array].shape[0] for array, _ in self._places().values()), 0)

    def scan(self, wanted: Wanted) -> Iterator[Batch]:
        """Yield the wanted columns; arrays without any are not read."""
        places = self._places()
        names = [*wanted.names, *wanted.texts]
        if strange := set(names) - places.keys():
            odd = next(c for c in self.columns if c.name in strange)
            raise DataError(f"{self.path}: column {quote(odd.name)} is a {odd.kind}: choose columns of numbers")
        with decoding(self.path, _FORMAT):
            with _open(self.path) as archive:
                arrays = {array: _read(archive, array) for array in dict.fromkeys(places[n][0] for n in names)}
            for start in range(0, self.n_rows, _ROWS):
                rows = slice(start, start + _ROWS)
                values = {
                    n: arrays[a][rows] if i is None else arrays[a][rows, i] for n in names for a, i in [places[n]]
                }
                values |= {n: names[values[n]] for n, names in self.names.items() if n in values}
                yield as_batch(values, wanted, Place(self.path, start + 1))

    def weigh(self, wanted: Wanted) -> int:
        """Return the bytes of the arrays, and of the rows that are made of them."""
        places = self._places()
        arrays = {places[name][0] for name in (*wanted.names, *wanted.texts) if name in places}
        return sum(self.heads[a].size for a in arrays) + self.n_rows * len(wanted.names) * PER_VALUE

    def _places(self) -> dict[str, tuple[str, int | None]]:
        return {c.name: place for c, place in self.columns.items() if place[0]}


def open_arrays(path: File) -> Table:
    """Open a .npz archive; arrays of objects (pickles) are refused."""
    with decoding(path, _FORMAT), _open(path) as archive:
        heads = {name.removesuffix(".npy"): _read_head(archive, name) for name in archive.namelist()}
        if not heads:
            raise DataError(f"{path}: the archive is empty")
        if ROLES_KEY in heads:
            arrays, roles = _own(path, archive, heads)
        else:
            arrays, roles = _foreign(path, heads), Roles()
    if not arrays.n_rows:
        raise DataError(f"{path}: there are columns but no row")
    return Table(path, tuple(arrays.columns), arrays.scan, roles, weigh=arrays.weigh)


@contextmanager
def _open(path: File) -> Iterator[zipfile.ZipFile]:
    with open_file(path, seekable=True) as file:
        if file.read(6) == b"\x93NUMPY":
            raise DataError(f"{path}: one bare array: save it by name, as np.savez(path, name=array)")
        with zipfile.ZipFile(file) as archive:
            yield archive


def _read_head(archive: zipfile.ZipFile, name: str) -> _Head:
    if not name.endswith(".npy"):
        return _Head((), np.empty(0, np.uint8))
    with archive.open(name) as member:
        start = io.BytesIO(member.read(_START))
    version = np.lib.format.read_magic(start)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(start)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects, which could do anything when they are loaded")
    if math.prod(shape) * dtype.itemsize > archive.getinfo(name).file_size:
        raise ValueError(f"{name} has less values than its shape {shape} says")
    rest = start.read(_SAMPLE * dtype.itemsize)
    count = min(math.prod(shape), len(rest) // max(1, dtype.itemsize))
    return _Head(shape, np.frombuffer(rest, dtype, count) if count else np.empty(0, dtype))


def _read(archive: zipfile.ZipFile, array: str) -> Array:
    with archive.open(f"{array}.npy") as member:
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))


def _foreign(path: File, heads: Mapping[str, _Head]) -> _Arrays:
    columns: dict[Column, tuple[str, int | None]] = {}
    first: str | None = None
    for name, head in heads.items():
        width = (*head.shape, 1)[1]
        if len(head.shape) not in (1, 2) or width > LONGEST:
            columns[Column(name, f"{'x'.join(map(str, head.shape))} array", name)] = ("", None)
            continue
        first = name if first is None else first
        rows, expected = head.shape[0], heads[first].shape[0]
        if rows != expected:
            raise DataError(f"{path}: arrays must have as many rows; {first!r} has {expected} and {name!r} {rows}")
        group = elements(name, width, kind_of_array(head.first))
        columns |= {c: (name, i if len(head.shape) == 2 else None) for i, c in enumerate(group)}
    return _Arrays(path, heads, columns)


def _own(path: File, archive: zipfile.ZipFile, heads: Mapping[str, _Head]) -> tuple[_Arrays, Roles]:
    """Return what `write` has stored."""
    if heads[ROLES_KEY].size > _START:
        raise ValueError("what it says of its columns is too long")
    said = json.loads(_read(archive, ROLES_KEY).tobytes())
    roles = Roles.parse(said)
    kept = {"sequence": "sequences"} | ({} if roles.group is None else {roles.group: "groups"})
    # None at the end: one axis, whatever the names.
    names = {n: np.array([*map(str, said[key]), None], dtype=object)[:-1] for n, key in kept.items()}
    places: dict[str, tuple[str, int | None]] = dict.fromkeys(names, ("sequence", None))
    if roles.time is not None:
        places[roles.time] = ("t", None)
    n_rows = heads["sequence"].shape[0]
    for group, array in ((roles.contexts or (), "contexts"), (roles.actions or (), "actions")):
        if heads[array].shape != (n_rows, len(group)):
            raise ValueError("names and arrays do not fit")
        places |= {name: (array, i) for i, name in enumerate(group)}
    if sorted(roles.columns) != sorted(places):
        raise ValueError("a column has two roles")
    if heads["sequence"].first.dtype.kind not in "iu" or any(
        heads[a].shape[:1] != (n_rows,) for a, _ in places.values()
    ):
        raise ValueError("its arrays do not fit together")
    columns = {
        Column(name, kind_of_array(names[name][:_SAMPLE] if name in names else heads[place[0]].first), name): place
        for name, place in places.items()
    }
    return _Arrays(path, heads, columns, names), roles
