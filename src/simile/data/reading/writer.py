"""Demonstrations to files, whole or not at all."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from simile._common.files import replacing
from simile._common.needs import need
from simile.data.demonstrations import Demonstrations
from simile.data.reading.arrays import ROLES_KEY
from simile.data.reading.arrow import METADATA_KEY
from simile.data.reading.clock import infer_unit
from simile.data.reading.formats import suffix_of
from simile.data.reading.tables import Roles
from simile.errors import ArgumentError

_ROWS = 1 << 16
_IF_SAID = ("group", "about", "continues", "lead")
FORGETFUL = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")  # keep no roles, and not what the sequences are about


def write(demos: Demonstrations, path: str | Path) -> None:
    """Write demonstrations to a file that `read` takes back unchanged; an old file is replaced at the end.

    The columns are `sequence`, that of the groups where there are some, `t` (seconds, if the rate is known), the
    contexts and the actions. Parquet, Arrow and .npz files also keep which is which, the rate and what the sequences
    are about; of text files `read` has to be told what it cannot guess. There the time is `t_s` if it is so slow that
    it would be taken for milliseconds.

    Parameters
    ----------
    demos : Demonstrations
        Sequences of different names.
    path : path
        The suffix tells the format: .csv, .tsv, .txt (also .gz), .parquet, .feather, .arrow, .jsonl or .npz.
    """
    demos, path = Demonstrations.of(demos), Path(path)
    if (suffix := suffix_of(path).removesuffix(".gz")) not in _WRITERS:
        raise ArgumentError(f"path: {suffix} files are what a Recorder writes while it records: use .arrow")
    writer = _WRITERS[suffix]
    _check(demos)
    with replacing(path) as file:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=4, mtime=0) as packed:
                writer(demos, packed)  # type: ignore[arg-type]
        else:
            writer(demos, file)


def _check(demos: Demonstrations) -> None:
    if twice := next((n for n in demos.names if demos.names.count(n) > 1), None):
        raise ArgumentError(f"demos: two sequences are called {twice!r}: give them different names")
    if demos.groups is not None and None in demos.groups:
        lonely = demos.names[demos.groups.index(None)]
        raise ArgumentError(f"demos: {lonely!r} is in no group, and others are: give all one by demos.grouped(...)")
    header = _header(demos, _clear_time(demos))
    if twice := next((n for n in header if header.count(n) > 1), None):
        grouped = demos.groups is not None and twice == demos.group_name
        meaning = "groups" if grouped else "names of the sequences" if twice == "sequence" else "time"
        raise ArgumentError(f"demos: the column {twice!r} is that of the {meaning} in the file: rename it")
    for name in (*demos.names, *header, *(demos.groups or ())):
        try:
            str(name).encode()
        except UnicodeEncodeError:
            raise ArgumentError(f"demos: the name {name!r} cannot be written as UTF-8: rename it") from None


def _clear_time(demos: Demonstrations) -> str:
    """Return the name of the time in files that do not keep the rate: one that tells the unit where it must."""
    if demos.rate is None or demos.rate > 0.1:
        return "t"
    return "t" if infer_unit([np.arange(len(d)) / demos.rate for d in demos]) == "s" else "t_s"


def _header(demos: Demonstrations, time: str = "t") -> list[str]:
    timed = [] if demos.rate is None else [time]
    grouped = [] if demos.groups is None else [demos.group_name]
    return ["sequence", *grouped, *timed, *demos.context_names, *demos.action_names]


def _roles(demos: Demonstrations) -> dict[str, Any]:
    time = None if demos.rate is None else "t"
    group = None if demos.groups is None else demos.group_name
    said = asdict(Roles("sequence", time, demos.context_names, demos.action_names, demos.rate, group, demos.about))
    return {"version": 1, **{n: value for n, value in said.items() if n not in _IF_SAID or value is not None}}


def _tables(demos: Demonstrations, time: str = "t") -> Iterator[Any]:
    """Yield Arrow tables of at least so many rows each, made of whole sequences; missing is null."""
    pa = need("pyarrow", "writing this format")
    names = _header(demos, time)
    n_texts = 1 if demos.groups is None else 2
    kinds = [pa.string()] * n_texts + [pa.float64()] * (len(names) - n_texts)
    schema = pa.schema(
        [pa.field(*field) for field in zip(names, kinds, strict=True)],
        metadata={METADATA_KEY: json.dumps(_roles(demos)).encode()},
    )
    batches, rows = [], 0
    for i, demo in enumerate(demos):
        columns = [pa.repeat(pa.scalar(text, pa.string()), len(demo)) for text in (demo.name, demo.group)[:n_texts]]
        if demos.rate is not None:
            columns.append(pa.array(np.arange(len(demo)) / demos.rate))
        columns += [pa.array(values, from_pandas=True) for values in (*demo.contexts.T, *demo.actions.T)]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        rows += len(demo)
        if rows >= _ROWS or i == len(demos) - 1:
            yield pa.Table.from_batches(batches, schema)
            batches, rows = [], 0


def _write_parquet(demos: Demonstrations, file: IO[bytes]) -> None:
    _write_tables(demos, file, need("pyarrow.parquet", "writing Parquet").ParquetWriter)


def _write_ipc(demos: Demonstrations, file: IO[bytes]) -> None:
    _write_tables(demos, file, need("pyarrow.ipc", "writing Arrow files").new_file)


def _write_tables(demos: Demonstrations, file: IO[bytes], open_writer: Callable[..., Any]) -> None:
    tables = _tables(demos)
    first = next(tables)
    with open_writer(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def _text_writer(delimiter: str) -> Callable[[Demonstrations, IO[bytes]], None]:
    def write_text(demos: Demonstrations, file: IO[bytes]) -> None:
        pa, pc = need("pyarrow", "writing CSV"), need("pyarrow.compute", "writing CSV")
        file.write(
            delimiter.join(_quote_field(name, delimiter) for name in _header(demos, _clear_time(demos))).encode()
            + b"\n"
        )
        for demo in demos:
            named = [demo.name] if demo.group is None else [demo.name, demo.group]
            label = pa.scalar(delimiter.join(_quote_field(text, delimiter) for text in named))
            for start in range(0, len(demo), _ROWS):
                rows = slice(start, start + _ROWS)
                numbers = [pa.array(v[rows], from_pandas=True) for v in (*demo.contexts.T, *demo.actions.T)]
                texts = [pc.fill_null(values.cast(pa.string()), "") for values in numbers]
                if demos.rate is not None:
                    # With a point, always: whole numbers would be read as frame numbers.
                    times = np.arange(len(demo))[rows] / demos.rate
                    texts.insert(0, pa.array([repr(t) for t in times.tolist()]))
                lines = pc.binary_join_element_wise(label, *texts, delimiter).to_pylist()
                file.write("\n".join([*lines, ""]).encode())

    return write_text


def _quote_field(text: str, delimiter: str) -> str:
    plain = text and text == text.strip() and not any(c in text for c in (delimiter, '"', "\n", "\r", ",", ";", "\t"))
    return text if plain else '"' + text.replace('"', '""') + '"'


def _write_records(demos: Demonstrations, file: IO[bytes]) -> None:
    for table in _tables(demos, _clear_time(demos)):
        for row in table.to_pylist():
            file.write(json.dumps(row, allow_nan=False).encode() + b"\n")


def _write_arrays(demos: Demonstrations, file: IO[bytes]) -> None:
    groups = {} if demos.groups is None else {"groups": demos.groups}
    roles = json.dumps({**_roles(demos), "sequences": demos.names, **groups}).encode()
    arrays = {
        ROLES_KEY: np.frombuffer(roles, dtype=np.uint8),
        "sequence": np.repeat(np.arange(len(demos)), [len(d) for d in demos]),
        "contexts": np.concatenate(demos.contexts),
        "actions": np.concatenate(demos.actions),
    }
    if demos.rate is not None:
        arrays["t"] = np.concatenate([np.arange(len(d)) / demos.rate for d in demos])
    np.savez(file, **arrays)  # type: ignore[arg-type]


_WRITERS: dict[str, Callable[[Demonstrations, IO[bytes]], None]] = {
    ".csv": _text_writer(","),
    ".tsv": _text_writer("\t"),
    ".txt": _text_writer("\t"),
    **dict.fromkeys((".parquet", ".pq"), _write_parquet),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), _write_ipc),
    **dict.fromkeys((".jsonl", ".ndjson"), _write_records),
    ".npz": _write_arrays,
}
