"""Recordings are read as the sequences that they are, with holes, and while files come and go."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import simile
from simile.data.corrections import read_corrections
from simile.data.reading import formats
from simile.data.reading.tables import METADATA_KEY, Roles
from simile.errors import DataError

ROLES = Roles("sequence", "t", ("x",), ("pan",), 10.0, continues=True)


def keep(file, streams: dict[str, list[int]], *, roles: Roles = ROLES, without: tuple[str, ...] = ()) -> None:
    """Write the frames of these numbers, stream after stream, as a recorder does."""
    n = np.concatenate(list(streams.values()))
    columns = {
        "sequence": [name for name, numbers in streams.items() for _ in numbers],
        "n": n,
        "t": n / 10.0,
        "x": n.astype(float),
        "pan": np.sin(n),
        "who": ["operator"] * len(n),
    }
    recorded = pa.table({name: column for name, column in columns.items() if name not in without})
    pq.write_table(recorded.replace_schema_metadata({METADATA_KEY: json.dumps(asdict(roles)).encode()}), file)


def frames(demos: simile.Demonstrations) -> dict[str, list[float]]:
    """Return the numbers of the frames of every sequence."""
    return {demo.name: demo.contexts[:, 0].tolist() for demo in demos}


def test_sequences_are_cut_where_frames_are_lost_and_go_on_from_file_to_file(tmp_path, capsys):
    keep(tmp_path / "recording-000001.parquet", {"a": [*range(10)], "b": [*range(3, 9)]})
    keep(tmp_path / "recording-000002.parquet", {"b": [9, 10, 20, 21], "a": [*range(10, 14)], "c": [0]})
    keep(tmp_path / "recording-000003.parquet", {"b": [22, 30]})
    demos = simile.read(tmp_path)
    assert frames(demos) == {
        "a": [*range(14)],
        "b": [*range(3, 11)],
        "b/20": [20, 21, 22],  # by its first frame, and so called the same when more is lost
        "b/30": [30],
        "c": [0],
    }
    assert np.array_equal(np.concatenate(demos.actions), np.sin(np.concatenate(demos.contexts)))
    said = capsys.readouterr().err
    assert "note      frames are lost in b: what comes after is a sequence of its own" in said
    assert "steps of" not in said  # there is no jump left in the time
    assert len(read_corrections(tmp_path)) == 5


def test_numbers_cut_nothing_where_they_are_not_those_of_the_sequences(tmp_path):
    file = tmp_path / "recording-000001.parquet"
    keep(file, {"a": [0, 1, 5, 6]}, without=("n",))
    assert len(simile.read(file, quiet=True)) == 1
    keep(file, {"a": [0, 1, 5], "b": [6, 7]})
    assert len(simile.read(file, sequence="who", quiet=True)) == 1
    keep(file, {"a": [0, 1, 5, 6]}, roles=Roles("sequence", "t", ("x",), ("pan",), 10.0))  # `n` may be any column
    assert len(simile.read(file, quiet=True)) == 1


@pytest.mark.parametrize("gone", ["listed", "opened"])
def test_files_that_a_limit_takes_while_they_are_read_are_no_more(tmp_path, monkeypatch, gone):
    for number in (1, 2, 3):
        keep(tmp_path / f"recording-00000{number}.parquet", {"a": [*range(10 * number, 10 * number + 10)]})
    removed = [tmp_path / "recording-000001.parquet"]
    opening = formats._open

    def open_late(file):
        if gone == "listed":
            _remove(removed)
        table = opening(file)
        if file.name == "recording-000003.parquet":
            _remove(removed)
        return table

    monkeypatch.setattr(formats, "_open", open_late)
    assert frames(simile.read(tmp_path, quiet=True)) == {"a": [*range(20, 40)]}
    for number in (1, 2, 3):
        keep(tmp_path / f"recording-00000{number}.parquet", {"a": [*range(10 * number, 10 * number + 10)]})
    removed.append(tmp_path / "recording-000001.parquet")
    assert read_corrections(tmp_path).recorded == 2.0
    removed += sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match=r"000003\.parquet: it was removed while it was read, as a recorder that keeps"):
        simile.read(tmp_path, quiet=True)


def _remove(files: list) -> None:
    while files:
        files.pop().unlink()


def test_a_journal_that_is_gone_with_the_file_that_it_became_is_said(tmp_path):
    with pytest.raises(DataError, match=r"recording-000001\.parquet: it was removed while it was read"):
        formats._open(tmp_path / "recording-000001.arrows")


def test_many_short_streams_take_memory_by_their_rows(tmp_path):
    streams = {f"camera-{i:05d} 2026-11-18T20:14:13.510213Z": [*range(3)] for i in range(4000)}
    keep(tmp_path / "recording-000001.parquet", streams)
    from simile.data import corrections

    roles, columns = corrections._read(tmp_path, None)
    columns["sequence"] = np.tile(columns["sequence"], 20)
    columns["n"] = np.concatenate([columns["n"] + 3 * i for i in range(20)])
    columns["actions"] = np.zeros((len(columns["n"]), 1))
    tracemalloc.start()
    runs = list(corrections._cut_runs(columns, roles))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [len(rows) for rows, _ in runs] == [60] * 4000
    assert most < 100 * len(columns["n"])  # bytes; the labels as text of a fixed width alone take 144 a row
    assert columns["sequence"][runs[-1][0]].tolist() == ["camera-03999 2026-11-18T20:14:13.510213Z"] * 60
