"""Parquet and Arrow IPC files; lists are spread over one column per element."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simile._common.needs import need
from simile._common.urls import File, Url, open_file, opened
from simile.data.reading.tables import (
    EMPTY,
    LONGEST,
    NUMBER,
    PER_VALUE,
    SPAN,
    STAMP,
    TEXT,
    WHOLE,
    Batch,
    Column,
    GoneError,
    Place,
    Roles,
    Table,
    Wanted,
    decoding,
    elements,
)
from simile.data.reading.values import as_batch, as_numbers, kind_of
from simile.errors import DataError, StorageError

METADATA_KEY = b"simile"  # in the metadata of the schema: the roles of the columns, as JSON
_ROWS, _VALUES = 1 << 16, 1 << 24  # of a batch, at most
_BUFFERS = 1 << 26  # bytes of all columns together
_SAMPLE = 1000  # rows that tell time stamps from text

_FETCHED = 1 << 27  # bytes of a row group that are fetched at once

_MARK, _HEAD = b"\xff\xff\xff\xff", struct.Struct("<4si")  # of an IPC message: a mark, and the length of its metadata
_BODY = 3  # which field of the metadata tells the length of what follows it

Batches = Callable[..., Iterator[Any]]  # the wanted fields, and the rows where not all are -> record batches


def open_parquet(path: File, element_names: Mapping[str, Sequence[str]] | None = None) -> Table:
    """Open a Parquet file."""
    pq = need("pyarrow.parquet", "reading Parquet")

    def batches(fields: list[str], first: int = 0, last: int | None = None) -> Iterator[Any]:
        # A text that many rows share is kept once: a few bytes can stand for gigabytes of it.
        texts = [name for name in fields if _kind_of_type(schema.field(name).type) == TEXT]
        buffer = max(1 << 12, min(1 << 20, _BUFFERS // len(fields)))
        rows = max(1, min(_ROWS, _VALUES // sum(widths.get(name, 1) for name in fields)))
        stop = about.num_rows if last is None else last
        chosen = [i for i in range(len(groups)) if starts[i] < stop and first < starts[i + 1]]
        # From elsewhere a row group is fetched at once, unless it is large or only its beginning is asked for.
        far = isinstance(path, Url) and last is not None
        for some in [[i] for i in chosen] if far else [chosen] * bool(chosen):
            row, ahead = starts[some[0]], far and _measure_chunks(about.row_group(some[0]), fields) <= _FETCHED
            with (
                _still_there(path),
                opened(path, ahead=False) as source,
                pq.ParquetFile(
                    source, metadata=about, buffer_size=buffer, pre_buffer=ahead, read_dictionary=texts
                ) as file,
            ):
                for batch in file.iter_batches(batch_size=rows, row_groups=some, columns=fields, use_threads=False):
                    begin, end = max(first - row, 0), min(stop - row, batch.num_rows)
                    row += batch.num_rows
                    if begin < end:
                        yield batch.slice(begin, end - begin)

    with decoding(path, "Parquet"):
        with _still_there(path), opened(path, ahead=False) as source:
            about = pq.read_metadata(source)
        schema = about.schema.to_arrow_schema()
        widths = _measure_lists(about, schema)
        groups = tuple(about.row_group(i).num_rows for i in range(about.num_row_groups))
        starts = np.cumsum([0, *groups]).tolist()
    return _table(path, "Parquet", schema, batches, element_names or {}, widths, groups)


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


def _measure_chunks(group: Any, fields: Sequence[str]) -> int:
    """Return the bytes that some fields take in a row group of a file."""
    chunks = (group.column(i) for i in range(group.num_columns))
    starts = tuple(f"{name}." for name in fields)
    return sum(c.total_compressed_size for c in chunks if f"{c.path_in_schema}.".startswith(starts))


def _measure_lists(about: Any, schema: Any) -> dict[str, int]:
    """Return how long the lists of every field of lists are on average, rounded up."""
    leaf, widths = 0, {}
    for field in schema:
        if _is_list(field.type):
            groups = (about.row_group(i) for i in range(about.num_row_groups))
            widths[field.name] = -(-sum(g.column(leaf).num_values for g in groups) // max(1, about.num_rows)) or 1
        leaf += _count_leaves(field.type)
    return widths


def _count_leaves(kind: Any) -> int:
    return sum(_count_leaves(kind.field(i).type) for i in range(kind.num_fields)) or 1


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

    def batches(fields: list[str], *_: int) -> Iterator[Any]:
        with open_reader([schema.get_field_index(name) for name in fields]) as reader:
            count = getattr(reader, "num_record_batches", None)
            for batch in reader if count is None else map(reader.get_batch, range(count)):
                batch.validate(full=True)  # a damaged file must not lead to reads outside of its buffers
                rows = max(1, min(_ROWS, _VALUES // len(fields)))
                yield from (batch.slice(i, rows) for i in range(0, batch.num_rows, rows))

    with decoding(path, "Arrow"), open_reader() as reader:
        schema = reader.schema
    return _table(path, "Arrow", schema, batches, {}, {})


def open_journal(path: File) -> Table:
    """Open the journal of a recording: an Arrow IPC stream that may still be written, or was cut off.

    It is kept open, for whoever records may make it whole, and remove it, before it is scanned.
    """
    if isinstance(path, Url):
        raise DataError(f"{path}: a journal of a recording is read where it was written: fetch the file first")
    try:
        source = need("pyarrow", "reading Arrow files").OSFile(str(path))
    except FileNotFoundError:
        return open_parquet(path.with_suffix(".parquet"))

    def batches(fields: list[str], *_: int) -> Iterator[Any]:
        for batch in _read_whole(source, fields):
            yield from (batch.slice(i, _ROWS) for i in range(0, batch.num_rows, _ROWS))

    with decoding(path, "Arrow"):
        first = next(_read_whole(source), None)
    if first is None:
        raise DataError(f"{path}: there is no whole batch in this journal: who recorded was ended before the first")
    return _table(path, "Arrow", first.schema, batches, {}, {})


def read_journal(path: Path) -> Iterator[Any]:
    """Yield the whole batches of an Arrow IPC stream, up to where it was cut off, or is damaged.

    Raises
    ------
    StorageError
        When the disk fails.
    """
    with need("pyarrow", "reading Arrow files").OSFile(str(path)) as source:
        try:
            yield from _read_whole(source)
        except MemoryError:  # a damaged length asks for more than anybody has
            return
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror or error}: look after the disk") from error


def measure_unread(path: Path, batches: int) -> int:
    """Return how many bytes of a journal lie behind so many whole batches, but for a message that was cut off.

    Where a process was killed, its last message says that it is longer than what is left, and no whole one follows.
    """
    with need("pyarrow", "reading Arrow files").OSFile(str(path)) as source:
        size, begin = source.size(), 0
        for _ in range(1 + batches):  # the schema comes first
            if not _is_whole(source, begin):
                break
            begin = _find_end(source, begin) or size
        end = _find_end(source, begin)
        if end is not None and end > size and not _has_message(source, begin + _HEAD.size):
            return 0
        return int(size - begin)


def _read_whole(source: Any, fields: Sequence[str] = ()) -> Iterator[Any]:
    ipc = need("pyarrow.ipc", "reading Arrow files")
    if not _is_whole(source, 0):
        return
    try:
        schema = ipc.read_schema(source)
        source.seek(0)
        chosen = [schema.get_field_index(name) for name in fields]
        reader = ipc.open_stream(source, options=ipc.IpcReadOptions(included_fields=chosen, use_threads=False))
    except (OSError, ValueError) as error:
        _raise_if_disk(error)
        return
    while _is_whole(source, source.tell()):
        try:
            batch = reader.read_next_batch()
            batch.validate(full=True)  # a damaged file must not lead to reads outside of its buffers
        except (OSError, ValueError, StopIteration) as error:
            _raise_if_disk(error)
            return
        yield batch


def _raise_if_disk(error: Exception) -> None:
    """Raise what the disk says, which has a number; what a decoder says of bytes has none."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def _is_whole(source: Any, begin: int) -> bool:
    """Return whether all of the message is there that begins here, where the source is then."""
    end = _find_end(source, begin)
    source.seek(begin)
    return end is not None and end <= source.size()


def _has_message(source: Any, begin: int) -> bool:
    """Return whether a whole message begins anywhere from here on."""
    source.seek(min(begin, source.size()))
    words = np.frombuffer(source.read(), np.uint8)
    heads = words[: len(words) // _HEAD.size * _HEAD.size].view("<i4").reshape(-1, 2)  # messages begin at such steps
    likely = np.flatnonzero((heads[:, 0] == -1) & (heads[:, 1] > 0))
    return any(_is_whole(source, begin + _HEAD.size * row) for row in likely.tolist())


def _find_end(source: Any, begin: int) -> int | None:
    """Return where the message that begins here ends by its own word, there or not; None where it is none."""
    source.seek(begin)
    head = source.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return begin + _HEAD.size
    mark, length = _HEAD.unpack(head)
    if mark != _MARK or length <= 0:
        return None
    begin += _HEAD.size + length
    if begin > source.size():
        return begin
    try:
        body = _read_whole_number(source.read(length), _BODY)
    except struct.error:
        return None
    return None if body < 0 else begin + body


def _read_whole_number(table: bytes, field: int) -> int:
    """Return a field of 64 bits of the table that a Flatbuffer is; 0, its default, where it is not there."""
    (root,) = struct.unpack_from("<I", table)
    about = root - struct.unpack_from("<i", table, root)[0]
    where = 4 + 2 * field
    if struct.unpack_from("<H", table, about)[0] <= where:
        return 0
    (place,) = struct.unpack_from("<H", table, about + where)
    return int(struct.unpack_from("<q", table, root + place)[0]) if place else 0


def _table(
    path: File,
    what: str,
    schema: Any,
    batches: Batches,
    element_names: Mapping[str, Sequence[str]],
    widths: Mapping[str, int],
    groups: tuple[int, ...] = (),
) -> Table:
    """Return the table of a schema, given how long lists are and the rows of each row group where the file tells."""
    with decoding(path, what):
        if duplicates := sorted(name for name, n in Counter(schema.names).items() if n > 1):
            raise DataError(f"{path}: column {duplicates[0]!r} is there twice: rename one of the two")
        if not schema.names:
            raise DataError(f"{path}: there is no column")
        if not any(len(b) for b in batches(schema.names[:1])):
            raise DataError(f"{path}: there are columns but no row")
        columns = _columns(schema, batches, element_names, widths)

    flat = tuple(c for group in columns.values() for c in group)
    roles = _roles(schema, {c.name for c in flat})

    def part(first: int, last: int) -> Table:
        def scan(wanted: Wanted) -> Iterator[Batch]:
            fields = {c.name: name for name, group in columns.items() for c in group}
            needed = list(dict.fromkeys(fields[n] for n in wanted.names))
            row = first + 1
            with decoding(path, what):
                for batch in batches(needed, first, last):
                    place = Place(path, row)
                    values = {
                        name: column
                        for field in needed
                        for name, column in _values(batch.column(field), field, columns[field], place).items()
                    }
                    yield as_batch(values, wanted, place)
                    row += batch.num_rows

        return Table(path, flat, scan, roles, weigh=lambda wanted: (last - first) * len(wanted.names) * PER_VALUE)

    return replace(part(0, sum(groups)), groups=groups, part=part if groups else None)


def _columns(
    schema: Any, batches: Batches, element_names: Mapping[str, Sequence[str]], widths: Mapping[str, int]
) -> dict[str, list[Column]]:
    """Return the columns of every field; what the schema does not tell is looked up for all of them at once."""
    columns: dict[str, list[Column]] = {}
    texts, lists = [], []
    for field in schema:
        kind = _kind_of_type(field.type)
        columns[field.name] = [Column(field.name, kind, field.name)]
        if kind == TEXT:
            texts.append(field.name)
        elif _is_list(field.type):
            kind = _kind_of_type(field.type.value_type)
            width = max(widths.get(field.name, 0), getattr(field.type, "list_size", 0))
            if kind not in (WHOLE, NUMBER, EMPTY):
                columns[field.name] = [Column(field.name, f"lists of {field.type.value_type}", field.name)]
            elif width > LONGEST:
                columns[field.name] = elements(field.name, width, kind)
            else:
                lists.append(field.name)
    for name, kind in _kinds_of_texts(texts, batches).items():
        columns[name] = [Column(name, kind, name)]
    for name, width in _first_lengths(lists, batches).items():
        kind, labels = _kind_of_type(schema.field(name).type.value_type), element_names.get(name, ())
        columns[name] = [Column(name, "empty lists", name)]
        if width:
            columns[name] = elements(name, width, kind, labels if len(labels) == width else ())
    return columns


def _kinds_of_texts(names: list[str], batches: Batches) -> dict[str, str]:
    first = next((b for b in batches(names) if len(b)), None) if names else None
    if first is None:
        return dict.fromkeys(names, TEXT)
    kinds = {name: kind_of(_plain(first.column(name).slice(0, _SAMPLE))) for name in names}
    # Who stores numbers as text in a typed format means text.
    return {name: STAMP if kind == STAMP else TEXT for name, kind in kinds.items()}


def _first_lengths(names: list[str], batches: Batches) -> dict[str, int]:
    """Return how long the first list of every field is that is there; 0 where there is none."""
    lengths: dict[str, int] = {}
    for batch in batches(names) if names else ():
        for name in [n for n in names if n not in lengths]:
            column = batch.column(name)
            there = column.is_valid().to_numpy(zero_copy_only=False)
            if there.any():
                lengths[name] = len(column[int(there.argmax())])
        if len(lengths) == len(names):
            break
    return {name: lengths.get(name, 0) for name in names}


def _kind_of_type(kind: Any) -> str:
    types = need("pyarrow", "reading Arrow files").types
    if types.is_dictionary(kind):
        return _kind_of_type(kind.value_type)
    for test, name in (
        (types.is_null, EMPTY),
        (types.is_integer, WHOLE),
        (types.is_boolean, NUMBER),
        (types.is_floating, NUMBER),
        (types.is_decimal, NUMBER),
        (types.is_time, SPAN),
        (types.is_duration, SPAN),
        (types.is_temporal, STAMP),
    ):
        if test(kind):
            return name
    return TEXT if str(kind) in ("string", "large_string", "string_view") else str(kind)


def _is_list(kind: Any) -> bool:
    types = need("pyarrow", "reading Arrow files").types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _values(array: Any, field: str, columns: Sequence[Column], place: Place) -> dict[str, Any]:
    """Return the values of a field by column: numpy arrays where the type allows, lists otherwise."""
    if not _is_list(array.type):
        return {columns[0].name: _plain(array)}
    lengths = np.diff(array.offsets.to_numpy()) if hasattr(array, "offsets") else np.full(len(array), len(columns))
    there = ~array.is_null().to_numpy(zero_copy_only=False)
    if (odd := there & (lengths != len(columns))).any():
        i = int(odd.argmax())
        raise place.error(i, field, f"a list of {lengths[i]} elements among lists of {len(columns)}: make them equal")
    table = np.full((len(array), len(columns)), np.nan)
    table[there] = as_numbers(_plain(array.flatten()), field, place).reshape(-1, len(columns))
    return {c.name: table[:, i] for i, c in enumerate(columns)}


def _plain(array: Any) -> Any:
    pa = need("pyarrow", "reading Arrow files")
    if pa.types.is_dictionary(array.type) and _kind_of_type(array.type) == TEXT:
        codes, texts = array.indices.to_pylist(), array.dictionary
        known = {i: None if i is None else texts[i].as_py() for i in set(codes)}  # each once, for all rows that have it
        return [known[i] for i in codes]
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        # Whole numbers stay what they are if they can: a label must not read '1.0'.
        if array.null_count or pa.types.is_boolean(kind):
            array = array.cast(pa.float64(), safe=False)
        return array.to_numpy(zero_copy_only=False)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind):
        return array.to_numpy(zero_copy_only=False)
    if pa.types.is_time(kind):
        unit = 1.0 / {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        return array.cast(whole).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) * unit
    return array.to_pylist()


def _roles(schema: Any, names: set[str]) -> Roles:
    """Return the roles that `write` left in the metadata, if they still fit the columns."""
    try:
        roles = Roles.parse(json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}")))
    except (KeyError, TypeError, ValueError):
        return Roles()
    return roles if names.issuperset(roles.columns) else Roles()
