"""Tables with types: data frames in memory, Parquet and Arrow files, journals of recordings.

Parquet and Arrow go through pyarrow, which fetches the row groups and columns that are asked for and no more; what it
reads goes on as polars frames. Lists are spread over one column per element.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from simile._common.files import read_bytes
from simile._common.needs import need
from simile._common.urls import File, Url, open_file, opened
from simile.data.reading.tables import (
    METADATA_KEY,
    NUMERIC,
    PER_VALUE,
    Chunk,
    Column,
    GoneError,
    Roles,
    Table,
    Types,
    decoding,
    elements,
)
from simile.data.reading.values import EMPTY, NUMBER, SPAN, STAMP, TEXT, WHOLE, Place, kind_of
from simile.errors import ArgumentError, DataError, StorageError

_ROWS, _VALUES = 1 << 16, 1 << 24  # of a chunk, at most
_FIRST = 100  # rows at once that tell what texts are, and how long lists
_BUFFERS = 1 << 26  # bytes of all columns together
_FETCHED = 1 << 27  # bytes of a row group that are fetched at once

# The wanted columns, how many rows at once, and from which row to before which where not all are -> polars frames
Frames = Callable[..., Iterator[Any]]


def open_frame(given: Any, path: Path = Path("frame")) -> Table:
    """Take a data frame of pandas, polars, Arrow or whoever speaks Arrow, or arrays by name."""
    import polars as pl

    wanted = "frame must be a pandas, polars or Arrow data frame, or arrays by name"
    if isinstance(given, pl.LazyFrame):
        raise ArgumentError(f"{wanted}; got LazyFrame: collect() it")
    names = list(given if isinstance(given, Mapping) else getattr(given, "column_names", getattr(given, "columns", ())))
    if not (isinstance(given, Mapping) or hasattr(given, "__arrow_c_stream__") or hasattr(given, "__dataframe__")):
        raise ArgumentError(f"{wanted}; got {type(given).__name__}: give lists of arrays to from_arrays(...)")
    if odd := [name for name in names if not isinstance(name, str)]:
        raise ArgumentError(f"frame must have strings as column names; got {odd}: rename those columns")
    if twice := next((name for name, n in Counter(names).items() if n > 1), None):
        raise ArgumentError(f"frame must have different column names; got {twice!r} {names.count(twice)} times")
    if isinstance(given, Mapping):
        given = {name: _to_series(name, _to_array(values)) for name, values in given.items()}
    elif hasattr(given, "index") and hasattr(given, "iloc"):
        given = _columns_of_pandas(given)
    try:
        frame = pl.DataFrame(given)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise DataError(f"{path}: {str(error).splitlines()[0]}: give columns of one length, and of one kind") from None
    if frame.is_empty():
        raise DataError(f"{path} must have at least one row; got none")

    def frames(names: list[str], rows: int, *_: int) -> Iterator[Any]:
        return iter(frame.select(names).iter_slices(rows))

    return _table(path, "a table", frame.head(0), frames)


def _columns_of_pandas(frame: Any) -> dict[str, Any]:
    """Return the columns of a pandas frame, and its index first where that is of times."""
    columns = {str(name): frame[name] for name in frame.columns}
    if frame.index.dtype.kind == "M" or "datetime64" in str(frame.index.dtype):
        name = frame.index.name if isinstance(frame.index.name, str) else "t"
        columns = {name if name not in columns else f"{name} (index)": frame.index.to_series(), **columns}
    return {name: _to_series(name, column) for name, column in columns.items()}


def _to_array(values: Any) -> Any:
    """Return values as an array; what is masked is missing."""
    masked = isinstance(values, np.ma.MaskedArray) and values.dtype.kind in "biuf"
    return values.astype(np.float64).filled(np.nan) if masked else np.asarray(values)


def _to_series(name: str, values: Any) -> Any:
    """Return a column as a polars series; what polars has no type for is of Python's objects, and tells its kind."""
    import polars as pl

    if getattr(values.dtype, "kind", "") == "f" and values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    if values.dtype != object:
        with suppress(Exception):  # polars and pyarrow raise a dozen classes between them
            return pl.Series(name, values)
    items = [None if v is None or _is_nan(v) else v for v in values.tolist()]
    for how in ({"strict": True}, {"strict": False}, {"dtype": pl.Object}):
        with suppress(Exception):
            found = pl.Series(name, items, **how)
            if found.null_count() == items.count(None):
                return found
    return pl.Series(name, list(map(repr, items)))


def _is_nan(value: Any) -> bool:
    return (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")


def open_parquet(path: File, element_names: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Table:
    """Open a Parquet file."""
    pq = need("pyarrow.parquet", "reading Parquet")

    def frames(names: list[str], rows: int, first: int = 0, last: int | None = None) -> Iterator[Any]:
        # A text that many rows share is kept once: a few bytes can stand for gigabytes of it.
        texts = [name for name in names if str(schema.field(name).type) in ("string", "large_string")]
        buffer = max(1 << 12, min(1 << 20, _BUFFERS // len(names)))
        stop = about.num_rows if last is None else last
        chosen = [i for i in range(len(groups)) if starts[i] < stop and first < starts[i + 1]]
        # From elsewhere a row group is fetched at once, unless it is large or only its beginning is asked for.
        far = isinstance(path, Url) and last is not None
        for some in [[i] for i in chosen] if far else [chosen] * bool(chosen):
            row, ahead = starts[some[0]], far and _measure_chunks(about.row_group(some[0]), names) <= _FETCHED
            with (
                _still_there(path),
                opened(path, ahead=False) as source,
                pq.ParquetFile(
                    source, metadata=about, buffer_size=buffer, pre_buffer=ahead, read_dictionary=texts
                ) as file,
            ):
                for batch in file.iter_batches(batch_size=rows, row_groups=some, columns=names, use_threads=False):
                    begin, end = max(first - row, 0), min(stop - row, batch.num_rows)
                    row += batch.num_rows
                    if begin < end:
                        yield _to_polars(batch.slice(begin, end - begin))

    with decoding(path, "Parquet"):
        with _still_there(path), opened(path, ahead=False) as source:
            about = pq.read_metadata(source)
        schema = about.schema.to_arrow_schema()
        groups = tuple(about.row_group(i).num_rows for i in range(about.num_row_groups))
        starts = np.cumsum([0, *groups]).tolist()
        return _open_schema(path, "Parquet", schema, frames, element_names, groups)


@contextmanager
def _still_there(path: File) -> Iterator[None]:
    """Say of a file that was there when it was looked for, and is not now, that it was removed."""
    try:
        yield
    except FileNotFoundError:
        raise GoneError(
            f"{path}: it was removed while it was read, as a recorder that keeps to a limit does with its oldest "
            "files: read again what is left"
        ) from None


def _measure_chunks(group: Any, names: Sequence[str]) -> int:
    """Return the bytes that some columns take in a row group of a file."""
    chunks = (group.column(i) for i in range(group.num_columns))
    starts = tuple(f"{name}." for name in names)
    return sum(c.total_compressed_size for c in chunks if f"{c.path_in_schema}.".startswith(starts))


def open_ipc(path: File) -> Table:
    """Open an Arrow IPC (Feather) file, or a stream stored in one."""
    pa, ipc = need("pyarrow", "reading Arrow files"), need("pyarrow.ipc", "reading Arrow files")

    @contextmanager
    def open_reader(fields: Sequence[int] = ()) -> Iterator[Any]:
        with open_file(path) as file:
            is_file = file.read(6) == b"ARROW1"
        options = ipc.IpcReadOptions(included_fields=list(fields), use_threads=False)
        with path.open(seekable=True) if isinstance(path, Url) else pa.OSFile(str(path)) as source:
            yield (ipc.open_file if is_file else ipc.open_stream)(source, options=options)

    def frames(names: list[str], rows: int, *_: int) -> Iterator[Any]:
        with open_reader([schema.get_field_index(name) for name in names]) as reader:
            count = getattr(reader, "num_record_batches", None)
            for batch in reader if count is None else map(reader.get_batch, range(count)):
                batch.validate(full=True)  # a damaged file must not lead to reads outside of its buffers
                yield from _to_polars(batch).iter_slices(rows)

    with decoding(path, "Arrow"):
        with open_reader() as reader:
            schema = reader.schema
        return _open_schema(path, "Arrow", schema, frames)


def open_journal(path: File) -> Table:
    """Open the journal of a recording: an Arrow IPC stream that may still be written, or was cut off.

    Its bytes are kept, for whoever records may make it whole, and remove it, before it is scanned.
    """
    if isinstance(path, Url):
        raise DataError(f"{path}: a journal of a recording is read where it was written: fetch the file first")
    with decoding(path, "Arrow"):
        try:
            data = read_bytes(path)
        except FileNotFoundError:
            return open_parquet(path.with_suffix(".parquet"))
        first = next((batch for batch, _ in _read_whole(data) if batch is not None), None)
        if first is None:
            raise DataError(f"{path}: there is no whole batch in this journal: who recorded was ended before the first")

        def frames(names: list[str], rows: int, *_: int) -> Iterator[Any]:
            for batch, _end in _read_whole(data, names):
                if batch is not None:
                    yield from _to_polars(batch).iter_slices(rows)

        return _open_schema(path, "Arrow", first.schema, frames)


def _to_polars(batch: Any) -> Any:
    import polars as pl

    return pl.DataFrame({name: pl.Series(batch.column(i)) for i, name in enumerate(batch.schema.names)})


def _open_schema(
    path: File,
    what: str,
    schema: Any,
    frames: Frames,
    element_names: Mapping[str, Sequence[str]] = MappingProxyType({}),
    groups: tuple[int, ...] = (),
) -> Table:
    """Return the table of an Arrow schema, with the roles that `write` left in its metadata if they still fit."""
    if twice := next((name for name, n in Counter(schema.names).items() if n > 1), None):
        raise DataError(f"{path}: column {twice!r} is there twice: rename one of the two")
    if not schema.names:
        raise DataError(f"{path}: there is no column")
    empty = _to_polars(schema.empty_table())
    table = _table(path, what, empty, frames, element_names, sum(groups))
    try:
        roles = Roles.parse(json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}")))
    except (KeyError, TypeError, ValueError):
        roles = Roles()
    fits = {c.name for c in table.columns}.issuperset(roles.columns)
    return replace(table, roles=roles if fits else Roles(), groups=groups, part=table.part if groups else None)


def _table(
    path: File,
    what: str,
    empty: Any,
    frames: Frames,
    element_names: Mapping[str, Sequence[str]] = MappingProxyType({}),
    n_rows: int = 0,
) -> Table:
    """Return the table of polars frames, given one without rows, and how many rows there are where a file tells."""
    columns = _find_columns(path, empty, frames, element_names)
    fields = {c.name: name for name, group in columns.items() for c in group}
    flat = tuple(c for group in columns.values() for c in group)

    def part(first: int, last: int) -> Table:
        def scan(types: Types, _: Sequence[str] = ()) -> Iterator[Chunk]:
            needed = list(dict.fromkeys(fields[name] for name in types))
            rows = max(1, min(_ROWS, _VALUES // sum(len(columns[name]) for name in needed)))
            row = first + 1
            with decoding(path, what):
                for frame in frames(needed, rows, first, last) if n_rows else frames(needed, rows):
                    place, found = Place(path, row), dict[str, Any]()
                    for name in needed:
                        found |= _spread(frame[name], columns[name], place)
                    yield Chunk(place, found, frame.height)
                    row += frame.height

        return Table(path, flat, scan, weigh=lambda types: (last - first) * len(types) * PER_VALUE, part=part)

    return part(0, n_rows)


def _find_columns(
    path: File, empty: Any, frames: Frames, element_names: Mapping[str, Sequence[str]]
) -> dict[str, list[Column]]:
    """Return the columns of every field; what the types do not tell is looked up in the first rows that do."""
    import polars as pl

    columns: dict[str, list[Column]] = {}
    unknown: list[str] = []
    for name, dtype in empty.schema.items():
        inner = getattr(dtype, "inner", None)
        kind = _kind_of_type(inner if inner is not None else dtype)
        columns[name] = [Column(name, kind if inner is None else f"lists of {inner}", name)]  # until a list is seen
        if (inner is not None and kind in NUMERIC) or kind == TEXT or dtype == pl.Object:
            unknown.append(name)
    seen = False
    for frame in filter(len, frames(unknown or list(empty.columns)[:1], _FIRST if unknown else 1)):
        seen = True
        for name in list(unknown):
            values = frame[name].drop_nulls()
            if not hasattr(values.dtype, "inner"):
                unknown.remove(name)
                kind = kind_of(values.to_list())
                # Who stores numbers as text in a typed format means text.
                if kind == STAMP or values.dtype == pl.Object:
                    columns[name] = [Column(name, kind, name)]
            elif len(values):
                unknown.remove(name)
                kind, width, labels = _kind_of_type(values.dtype.inner), len(values[0]), element_names.get(name, ())
                columns[name] = [Column(name, "empty lists", name)]
                if width:
                    columns[name] = elements(name, width, kind, labels if len(labels) == width else ())
        if not unknown:
            break
    if not seen:
        raise DataError(f"{path}: there are columns but no row")
    return columns


def _kind_of_type(dtype: Any) -> str:
    import polars as pl

    if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
        return EMPTY if dtype == pl.Null else WHOLE if dtype.is_integer() else NUMBER
    if dtype in (pl.Time, pl.Duration):
        return SPAN
    return STAMP if dtype.is_temporal() else TEXT if dtype in (pl.String, pl.Categorical, pl.Enum) else str(dtype)


def _spread(values: Any, columns: Sequence[Column], place: Place) -> dict[str, Any]:
    """Return the values of a field by column."""
    if len(columns) == 1 and not hasattr(values.dtype, "inner"):
        return {columns[0].name: values}
    values = values.arr.to_list() if hasattr(values.dtype, "size") else values
    lengths = values.list.len()
    if (odd := (lengths != len(columns)).fill_null(False)).any():
        i = odd.arg_true()[0]
        problem = f"a list of {lengths[i]} elements among lists of {len(columns)}: make them equal"
        raise place.error(i, columns[0].parent, problem)
    return {c.name: values.list.get(i, null_on_oob=True) for i, c in enumerate(columns)}


def read_journal(path: Path) -> Iterator[Any]:
    """Yield the whole batches of an Arrow IPC stream, up to where it was cut off, or is damaged.

    Raises
    ------
    StorageError
        When the disk fails.
    """
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"{path} cannot be read: {reason}: look after the disk") from error
    yield from (batch for batch, _ in _read_whole(data) if batch is not None)


def measure_unread(path: Path, batches: int) -> int:
    """Return how many bytes of a journal lie behind so many whole batches, but for a message that was cut off.

    Where a process was killed, its last message says that it is longer than what is left, and no whole one follows.
    """
    data = read_bytes(path)
    ends = [end for _, end in islice(_read_whole(data), 1 + batches)]
    rest = data[ends[-1] if ends else 0 :]
    heads = np.frombuffer(rest[: len(rest) // 8 * 8], "<i4").reshape(-1, 2)  # messages begin at such steps
    begins = (8 * np.flatnonzero((heads[:, 0] == -1) & (heads[:, 1] > 0))).tolist()
    cut_off = len(rest) < 8 or (begins[:1] == [0] and not any(_is_whole(rest[i:]) for i in begins))
    return 0 if cut_off and (not rest or _is_whole(rest) is None) else len(rest)


def _read_whole(data: bytes, names: Sequence[str] = ()) -> Iterator[tuple[Any, int]]:
    """Yield the whole batches of a stream, each with where it ends; None and the end of the schema come first."""
    pa, ipc = need("pyarrow", "reading Arrow files"), need("pyarrow.ipc", "reading Arrow files")
    source = pa.BufferReader(data)  # which reads no further than there are bytes, whatever a damaged length says
    with suppress(pa.ArrowInvalid, OSError, StopIteration):
        schema = ipc.read_schema(source)
        end, _ = source.tell(), source.seek(0)
        chosen = [schema.get_field_index(name) for name in names]
        reader = ipc.open_stream(source, options=ipc.IpcReadOptions(included_fields=chosen, use_threads=False))
        yield None, end
        while True:
            batch = reader.read_next_batch()
            batch.validate(full=True)  # a damaged file must not lead to reads outside of its buffers
            yield batch, source.tell()


def _is_whole(message: bytes) -> bool | None:
    """Return whether a message is whole; None where it is longer than its bytes."""
    pa, ipc = need("pyarrow", "reading Arrow files"), need("pyarrow.ipc", "reading Arrow files")
    try:
        ipc.read_message(pa.BufferReader(message))
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        return None if str(error).startswith(("Expected to", "Corrupted")) else False
    return True
