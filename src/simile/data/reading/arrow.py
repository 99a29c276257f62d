"""Parquet and Arrow IPC files; lists are spread over one column per element."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simile._common.needs import need
from simile.data.reading.tables import (
    EMPTY,
    NUMBER,
    SPAN,
    STAMP,
    TEXT,
    WHOLE,
    Batch,
    Column,
    Place,
    Roles,
    Table,
    Wanted,
    decoding,
    elements,
)
from simile.data.reading.values import as_batch, as_numbers, kind_of
from simile.errors import DataError

METADATA_KEY = b"simile"  # in the metadata of the schema: the roles of the columns, as JSON
_ROWS = 1 << 16

Batches = Callable[[list[str]], Iterator[Any]]  # the wanted fields -> record batches


def open_parquet(path: Path, element_names: Mapping[str, Sequence[str]] | None = None) -> Table:
    """Open a Parquet file."""
    pq = need("pyarrow.parquet", "reading Parquet")

    def batches(fields: list[str]) -> Iterator[Any]:
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            yield from file.iter_batches(batch_size=_ROWS, columns=fields, use_threads=False)

    with decoding(path, "Parquet"):
        schema = pq.read_schema(path)
    return _table(path, "Parquet", schema, batches, element_names or {})


def open_ipc(path: Path) -> Table:
    """Open an Arrow IPC (Feather) file, or a stream stored in one."""
    pa, ipc = need("pyarrow", "reading Arrow files"), need("pyarrow.ipc", "reading Arrow files")

    def open_reader(fields: Sequence[int] = ()) -> Any:
        with path.open("rb") as file:
            is_file = file.read(6) == b"ARROW1"
        options = ipc.IpcReadOptions(included_fields=list(fields), use_threads=False)
        return (ipc.open_file if is_file else ipc.open_stream)(pa.OSFile(str(path)), options=options)

    def batches(fields: list[str]) -> Iterator[Any]:
        reader = open_reader([schema.get_field_index(name) for name in fields])
        count = getattr(reader, "num_record_batches", None)
        for batch in reader if count is None else map(reader.get_batch, range(count)):
            batch.validate(full=True)  # a damaged file must not lead to reads outside of its buffers
            yield from (batch.slice(i, _ROWS) for i in range(0, batch.num_rows, _ROWS))

    with decoding(path, "Arrow"):
        schema = open_reader().schema
    return _table(path, "Arrow", schema, batches, {})


def _table(path: Path, what: str, schema: Any, batches: Batches, element_names: Mapping[str, Sequence[str]]) -> Table:
    with decoding(path, what):
        if duplicates := sorted({n for n in schema.names if schema.names.count(n) > 1}):
            raise DataError(f"{path}: column {duplicates[0]!r} is there twice: rename one of the two")
        if not schema.names:
            raise DataError(f"{path}: there is no column")
        columns: dict[str, list[Column]] = {}
        for field in schema:
            columns[field.name] = _columns_of(field, batches, element_names.get(field.name, ()))
        if not any(len(b) for b in batches(schema.names[:1])):
            raise DataError(f"{path}: there are columns but no row")

    def scan(wanted: Wanted) -> Iterator[Batch]:
        fields = {c.name: name for name, group in columns.items() for c in group}
        needed = list(dict.fromkeys(fields[n] for n in wanted.names))
        row = 1
        with decoding(path, what):
            for batch in batches(needed):
                place = Place(path, row)
                values = {
                    name: column
                    for field in needed
                    for name, column in _values(batch.column(field), field, columns[field], place).items()
                }
                yield as_batch(values, wanted, place)
                row += batch.num_rows

    flat = tuple(c for group in columns.values() for c in group)
    return Table(path, flat, scan, _roles(schema, {c.name for c in flat}))


def _columns_of(field: Any, batches: Batches, names: Sequence[str]) -> list[Column]:
    if not _is_list(field.type):
        return [Column(field.name, _kind(field, batches), field.name)]
    if _kind_of_type(field.type.value_type) not in (WHOLE, NUMBER, EMPTY):
        return [Column(field.name, f"lists of {field.type.value_type}", field.name)]
    width = getattr(field.type, "list_size", None) or _first_length(field.name, batches)
    if width == 0:
        return [Column(field.name, "empty lists", field.name)]
    return elements(field.name, width, _kind_of_type(field.type.value_type), names if len(names) == width else ())


def _first_length(name: str, batches: Batches) -> int:
    for batch in batches([name]):
        present = batch.column(name).drop_null()
        if len(present):
            return len(present[0])
    return 0


def _kind(field: Any, batches: Batches) -> str:
    kind = _kind_of_type(field.type)
    if kind != TEXT:
        return kind
    first = next((b for b in batches([field.name]) if len(b)), None)
    kind = EMPTY if first is None else kind_of(first.column(field.name).slice(0, 1000).to_pylist())
    return STAMP if kind == STAMP else TEXT  # who stores numbers as text in a typed format means text


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
