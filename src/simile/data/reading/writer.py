"""Demonstrations to files, whole or not at all."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from simile._common.files import replacing
from simile._common.needs import need
from simile.data.demonstrations import Demonstrations
from simile.data.reading.arrays import ROLES_KEY
from simile.data.reading.clock import FAST, infer_unit
from simile.data.reading.formats import suffix_of
from simile.data.reading.tables import METADATA_KEY, Roles
from simile.errors import ArgumentError

_ROWS = 1 << 16  # that are written at once, at least
_IF_SAID = ("group", "about", "continues", "lead")
FORGETFUL = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")  # keep no roles, and not what the sequences are about


def write(demos: Demonstrations, path: str | Path) -> None:
    """Write demonstrations to a file that `read` takes back unchanged; an old file is replaced at the end.

    The columns are `sequence`, that of the groups where there are some, `t` (seconds, if the rate is known), the
    contexts and the actions. Parquet, Arrow and .npz files also keep which is which, the rate and what the sequences
    are about; of text files `read` has to be told what it cannot guess. There the time is `t_s` if it is so slow
    that it would be taken for milliseconds, or so fast that it might be minutes.

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
    _check(demos)
    with replacing(path) as file:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=4, mtime=0) as packed:
                _WRITERS[suffix](demos, packed)  # type: ignore[arg-type]
        else:
            _WRITERS[suffix](demos, file)


def _check(demos: Demonstrations) -> None:
    """Refuse what could not be read back."""
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
    if demos.rate is None or 0.1 < demos.rate <= FAST:
        return "t"
    if demos.rate > FAST:
        return "t_s"
    return "t" if infer_unit([np.arange(len(d)) / demos.rate for d in demos]) == "s" else "t_s"


def _header(demos: Demonstrations, time: str) -> list[str]:
    timed = [] if demos.rate is None else [time]
    grouped = [] if demos.groups is None else [demos.group_name]
    return ["sequence", *grouped, *timed, *demos.context_names, *demos.action_names]


def _roles(demos: Demonstrations) -> dict[str, Any]:
    time = None if demos.rate is None else "t"
    group = None if demos.groups is None else demos.group_name
    said = asdict(Roles("sequence", time, demos.context_names, demos.action_names, demos.rate, group, demos.about))
    return {"version": 1, **{n: value for n, value in said.items() if n not in _IF_SAID or value is not None}}


def _frames(demos: Demonstrations, time: str = "t") -> Iterator[Any]:
    """Yield polars frames of at least so many rows each, made of whole sequences; missing is null."""
    import polars as pl

    names, waiting = _header(demos, time), list[Any]()
    for i, demo in enumerate(demos):
        texts = [demo.name] if demos.groups is None else [demo.name, demo.group]
        times = [] if demos.rate is None else [np.arange(len(demo)) / demos.rate]
        columns = [pl.repeat(text, len(demo), dtype=pl.String, eager=True) for text in texts]
        columns += [pl.Series(v).fill_nan(None) for v in (*times, *demo.contexts.T, *demo.actions.T)]
        waiting.append(pl.DataFrame(dict(zip(names, columns, strict=True))))
        if sum(map(len, waiting)) >= _ROWS or i == len(demos) - 1:
            yield pl.concat(waiting, rechunk=True)
            waiting.clear()


def _write_text(delimiter: str, demos: Demonstrations, file: IO[bytes]) -> None:
    names = _header(demos, _clear_time(demos))
    # Quoted where a part of the name could be taken for a delimiter, whichever it is.
    odd = [not n or n != n.strip() or any(c in n for c in ',;\t"\n\r') for n in names]
    quoted = ['"{}"'.format(n.replace('"', '""')) if is_odd else n for n, is_odd in zip(names, odd, strict=True)]
    file.write(f"{delimiter.join(quoted)}\n".encode())
    for frame in _frames(demos):
        file.write(frame.write_csv(separator=delimiter, include_header=False).encode())


def _write_records(demos: Demonstrations, file: IO[bytes]) -> None:
    for frame in _frames(demos, _clear_time(demos)):
        file.write(frame.write_ndjson().encode())


def _write_arrow(module: str, writer: str, demos: Demonstrations, file: IO[bytes]) -> None:
    pa = need("pyarrow", "writing Parquet and Arrow files")
    kinds = {name: pa.float64() for name in _header(demos, "t")}
    kinds |= dict.fromkeys(["sequence"] if demos.groups is None else ["sequence", demos.group_name], pa.string())
    schema = pa.schema(kinds.items(), metadata={METADATA_KEY: json.dumps(_roles(demos)).encode()})
    with getattr(need(f"pyarrow.{module}", "writing this format"), writer)(file, schema) as sink:
        for frame in _frames(demos):
            columns = [column.alias("").to_arrow().cast(kind) for column, kind in zip(frame, schema.types, strict=True)]
            sink.write_table(pa.table(columns, schema=schema))


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
    ".csv": partial(_write_text, ","),
    **dict.fromkeys((".tsv", ".txt"), partial(_write_text, "\t")),
    **dict.fromkeys((".parquet", ".pq"), partial(_write_arrow, "parquet", "ParquetWriter")),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), partial(_write_arrow, "ipc", "new_file")),
    **dict.fromkeys((".jsonl", ".ndjson"), _write_records),
    ".npz": _write_arrays,
}
