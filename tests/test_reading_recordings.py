"""Recordings are read as the sequences that they are, with holes, and while files come and go."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from simile.data.corrections import read_corrections
from simile.data.reading import formats
from simile.data.reading.tables import METADATA_KEY, Roles
from simile.errors import DataError

ROLES = Roles("sequence", "t", ("x",), ("pan",), 10.0, continues=True)


def keep(
    file, streams: dict[str, list[int]], *, roles: Roles = ROLES, without: tuple[str, ...] = (), who=None, **more
) -> None:
    """Write the frames of these numbers, stream after stream, as a recorder does."""
    n = np.concatenate(list(streams.values()))
    columns = {
        "sequence": [name for name, numbers in streams.items() for _ in numbers],
        "n": n,
        "t": n / 10.0,
        "x": n.astype(float),
        "pan": np.sin(n),
        "who": ["operator"] * len(n) if who is None else who,
        **more,
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
    columns["t"] = columns["n"] / 10.0
    columns["actions"] = np.zeros((len(columns["n"]), 1))
    tracemalloc.start()
    runs = list(corrections._cut_runs(columns, roles))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [len(rows) for rows, _ in runs] == [60] * 4000
    assert most < 100 * len(columns["n"])  # bytes; the labels as text of a fixed width alone take 144 a row
    assert columns["sequence"][runs[-1][0]].tolist() == ["camera-03999 2026-11-18T20:14:13.510213Z"] * 60


# ------------------------------------------------------------------------------------------------------- who acted

ACTED = [*["policy"] * 4, *["operator"] * 3, "gap", *["operator"] * 2, *["waiting"] * 2, *["operator"] * 4]
REST = {"limited": [False] * 16, "policy": ["abc"] * 16, "event": [None] * 16}


def save_as(kind: str, folder):
    """Save a recording in which a policy and an operator acted in some way; return the source and how to read it."""
    sent = [np.nan if who == "waiting" else np.sin(i) for i, who in enumerate(ACTED)]
    keep(folder / "recording-000001.parquet", {"a": [*range(16)]}, who=ACTED, pan=sent, **REST)
    if kind == "parquet":
        return folder, {}
    table, how = pq.read_table(folder / "recording-000001.parquet"), {"actions": "pan", "rate": 10.0}
    (folder / "recording-000001.parquet").unlink()
    if kind == "journal":
        with pa.ipc.new_stream(folder / "recording-000001.arrows", table.schema) as file:
            file.write_table(table)
        return folder, {}
    frame = table.to_pandas()
    if kind == "csv":
        frame.to_csv(folder / "saved.csv", index=False)
    elif kind == "spaced":
        (folder / "saved.csv").write_text(frame.to_csv(index=False, na_rep="NaN").replace(",", " , "))
    elif kind == "jsonl":
        frame.to_json(folder / "saved.jsonl", orient="records", lines=True, double_precision=15)
    elif kind in ("npz", "mapping"):
        frame = {
            c: frame[c].to_numpy(str if c in ("sequence", "who", "policy") else None) for c in frame if c != "event"
        }
        if kind == "npz":
            np.savez(folder / "saved.npz", **frame, event=np.full(16, np.nan))
    elif kind == "categories":
        frame = frame.astype({"who": "category"})
    found = list(folder.glob("saved.*"))
    return (found[0] if found else frame), how


@pytest.mark.parametrize(
    "kind", ["parquet", "journal", "csv", "spaced", "jsonl", "npz", "pandas", "categories", "mapping"]
)
def test_what_no_person_did_is_left_out_by_whichever_way_it_comes(kind, tmp_path, capsys):
    source, how = save_as(kind, tmp_path)
    demos = simile.read(source, **how)
    assert demos.context_names == ("x",)
    assert frames(demos) == {"a": [4, 5, 6], "a/8": [8, 9], "a/12": [12, 13, 14, 15]}
    assert np.allclose(np.concatenate(demos.actions), np.sin(np.concatenate(demos.contexts)))
    assert demos.rate == 10.0
    said = capsys.readouterr().err
    assert "7 of 16 rows are no person's ('who' is gap 1, policy 4, waiting 2): these rows are left out" in said
    if kind in ("pandas", "categories", "mapping"):
        assert simile.Demonstrations.from_frame(source, **how).digest() == demos.digest()


def test_a_recording_in_which_no_person_acted_is_refused_or_read_as_it_is(tmp_path):
    keep(tmp_path / "recording-000001.parquet", {"a": [*range(20)]}, who=["policy"] * 19 + ["gap"])
    words = r"20 of 20 rows are no person's \('who' is gap 1, policy 19\).*`simile improve`; as_is=True"
    with pytest.raises(DataError, match=words):
        simile.read(tmp_path, quiet=True)
    assert frames(simile.read(tmp_path, as_is=True, quiet=True)) == {"a": [*range(20)]}


def test_nobody_knows_who_acted_where_that_is_missing(tmp_path, capsys):
    some = [None if i < 7 else "operator" for i in range(16)]
    keep(tmp_path / "recording-000001.parquet", {"a": [*range(16)]}, who=some)
    assert frames(simile.read(tmp_path)) == {"a": [*range(7, 16)]}
    assert "7 of 16 rows are no person's ('who' is missing 7)" in capsys.readouterr().err
    keep(tmp_path / "recording-000001.parquet", {"a": [*range(16)]}, who=[None] * 16, **REST)
    with pytest.raises(DataError, match="16 of 16 rows are no person's"):
        simile.read(pq.read_table(tmp_path / "recording-000001.parquet"), actions="pan", quiet=True)


def test_a_column_of_names_is_no_column_of_a_recording(tmp_path, capsys):
    keep(tmp_path / "a.parquet", {"a": [*range(5)], "b": [*range(5)]}, who=["Anna"] * 5 + [None] * 5)
    assert len(simile.read(tmp_path / "a.parquet")) == 2
    assert "person" not in capsys.readouterr().err
    keep(tmp_path / "a.parquet", {"a": [*range(5)], "b": [*range(5)]}, who=["Anna"] * 5 + ["Ben"] * 5)
    assert simile.read(tmp_path / "a.parquet", group="who", quiet=True).groups == ("Anna", "Ben")
    keep(tmp_path / "a.parquet", {"a": [*range(10)]}, who=["Anna"] * 5 + ["policy"] * 5)  # but a policy is a policy
    assert frames(simile.read(tmp_path / "a.parquet", quiet=True)) == {"a": [*range(5)]}


def test_an_empty_column_called_who_is_no_context():
    table = {"who": [None] * 9, "wind": np.arange(9) ** 2.0, "pan": np.zeros(9)}
    assert simile.read(table, actions="pan", quiet=True).context_names == ("wind",)


@given(
    st.lists(st.sampled_from(["policy", "operator", "gap", "waiting", "Anna", "", None]), min_size=1, max_size=40),
    st.integers(-3, 3),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.3]),
    st.booleans(),
    st.integers(0, 9),
)
def test_no_row_that_is_no_persons_is_read(who, lead, every, missing, as_table, seed):
    rng, n = np.random.default_rng(seed), len(who)
    numbers = np.cumsum(rng.integers(1, every + 1, n)) - 1
    columns = {"x": np.arange(n), "pan": np.where(rng.random(n) < missing, np.nan, np.arange(n))}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "recording-000001.parquet"
        roles = Roles("sequence", "t", ("x",), ("pan",), 10.0, continues=True, lead=lead or None)
        keep(file, {"a": numbers}, roles=roles, who=pa.array(who, pa.string()), **columns)
        try:
            source, how = (file, {}) if not as_table else (pd.read_parquet(file), {"actions": "pan", "rate": 10.0})
            demos = simile.read(source, **how, quiet=True)
        except simile.SimileError:
            return
    nobody = {"policy", "gap", "waiting"}
    ours = bool(nobody & {*who}) or {*who} - {"", None} == {"operator"}
    for demo in demos:
        assert not np.isnan(demo.actions).any()
        acted = demo.actions[:, 0].astype(int)
        assert (np.diff(acted) == 1).all() or as_table or every > 1 or not ours
        assert not any(ours and (who[i] in nobody or not who[i]) for i in acted)
