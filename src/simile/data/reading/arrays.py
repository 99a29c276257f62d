"""NumPy archives (.npz): 1-D arrays are columns, 2-D arrays one column per element of a row."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simile._common.urls import File, open_file
from simile.data.reading.tables import LONGEST, PER_VALUE, Chunk, Column, Roles, Table, Types, decoding, elements
from simile.data.reading.values import SAMPLE, Place, kind_of_array, quote
from simile.errors import DataError

ROLES_KEY = "simile"  # the array that says what the others are, as the bytes of JSON
_ROWS = 1 << 16
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


Places = dict[Column, tuple[str, int | None]]  # where each column is: in which array, and at which index of its rows


def open_arrays(path: File) -> Table:
    """Open a .npz archive; arrays of objects (pickles) are refused."""
    with decoding(path, _FORMAT), _open(path) as archive:
        heads = {name.removesuffix(".npy"): _read_head(archive, name) for name in archive.namelist()}
        if not heads:
            raise DataError(f"{path}: the archive is empty")
        names, roles = dict[str, Array](), Roles()
        if ROLES_KEY in heads:
            columns, names, roles = _find_own(archive, heads)
        else:
            _check_axes(path, heads)
            columns = _find_columns(path, heads)
    places = {c.name: place for c, place in columns.items() if place[0]}
    n_rows = next((heads[array].shape[0] for array, _ in places.values()), 0)
    if not n_rows:
        raise DataError(f"{path}: there are columns but no row")

    def scan(types: Types, _: Sequence[str] = ()) -> Iterator[Chunk]:
        if strange := set(types) - places.keys():
            odd = next(c for c in columns if c.name in strange)
            raise DataError(f"{path}: column {quote(odd.name)} is a {odd.kind}: choose columns of numbers")
        with decoding(path, _FORMAT):
            with _open(path) as archive:
                arrays = {array: _read(archive, array) for array in dict.fromkeys(places[n][0] for n in types)}
            for start in range(0, n_rows, _ROWS):
                values = {}
                for name, (array, i) in ((name, places[name]) for name in types):
                    values[name] = arrays[array][start : start + _ROWS]
                    values[name] = values[name] if i is None else values[name][:, i]
                    values[name] = names[name][values[name]] if name in names else values[name]
                yield Chunk(Place(path, start + 1), values, min(_ROWS, n_rows - start))

    def weigh(types: Types) -> int:
        arrays = {places[name][0] for name in types if name in places}
        return sum(heads[a].size for a in arrays) + n_rows * len(types) * PER_VALUE

    return Table(path, tuple(columns), scan, roles, weigh=weigh)


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
    rest = start.read(SAMPLE * dtype.itemsize)
    count = min(math.prod(shape), len(rest) // max(1, dtype.itemsize))
    return _Head(shape, np.frombuffer(rest, dtype, count) if count else np.empty(0, dtype))


def _read(archive: zipfile.ZipFile, array: str) -> Array:
    with archive.open(f"{array}.npy") as member:
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))


def _check_axes(path: File, heads: Mapping[str, _Head]) -> None:
    """Refuse arrays that are all of one shape (recordings, frames): wider than long, which no recording is."""
    tables = [name for name, head in heads.items() if len(head.shape) > 1]
    shapes = {heads[name].shape[:2] for name in tables}
    if len(tables) > 1 and len(shapes) == 1 and (shape := shapes.pop())[0] < shape[1]:
        n, length = shape
        raise DataError(
            f"{path}: all arrays have the shape ({n}, {length}), as {n} recordings of {length} frames: rows must be "
            f"frames: save them as sequence=np.repeat(np.arange({n}), {length}), {tables[0]}={tables[0]}.ravel(), ...; "
            "where rows are frames, use Demonstrations.from_arrays"
        )


def _find_columns(path: File, heads: Mapping[str, _Head]) -> Places:
    columns: Places = {}
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
    return columns


def _find_own(archive: zipfile.ZipFile, heads: Mapping[str, _Head]) -> tuple[Places, dict[str, Array], Roles]:
    """Return the columns that `write` has stored, what the numbers of sequences stand for in some, and the roles."""
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
    for array, group in (("contexts", roles.contexts or ()), ("actions", roles.actions or ())):
        if heads[array].shape != (n_rows, len(group)):
            raise ValueError("names and arrays do not fit")
        places |= {name: (array, i) for i, name in enumerate(group)}
    if sorted(roles.columns) != sorted(places):
        raise ValueError("a column has two roles")
    whole = heads["sequence"].first.dtype.kind in "iu"
    if not whole or any(heads[a].shape[:1] != (n_rows,) for a, _ in places.values()):
        raise ValueError("its arrays do not fit together")
    kinds = {n: kind_of_array(names[n][:SAMPLE] if n in names else heads[a].first) for n, (a, _) in places.items()}
    return {Column(name, kinds[name], name): place for name, place in places.items()}, names, roles
