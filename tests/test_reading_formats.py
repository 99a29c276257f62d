"""Every format: what comes back is what was written, and what is damaged is named."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys
import tempfile
import textwrap

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simile.camera.courts import BASKETBALL
from simile.camera.tracking import read_detections
from simile.cli.run import read_field
from simile.data.demonstrations import Demonstrations
from simile.data.reading import read, write
from simile.errors import ArgumentError, DataError, StorageError

NAN, INF = float("nan"), float("inf")
TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".jsonl", ".ndjson")
TYPED = (".parquet", ".pq", ".feather", ".arrow", ".ipc", ".npz")

every_format = pytest.mark.parametrize("suffix", [*TEXT, *TYPED])


def small(rate=30.0):
    return Demonstrations.from_arrays(
        [[[0.0, NAN], [1.5, 2.0], [3.0, -0.0]], [[4.0, 5e-324], [5.0, 1e99]]],
        [[0.25, 0.5, 0.75], [1.0, 2.0]],
        rate=rate,
        names=["one", "two"],
        context_names=("x_ball", "x_wind"),
        action_names=("a_pan",),
    )


def assert_same(got, expected):
    assert got.names == expected.names
    assert got.context_names == expected.context_names
    assert got.action_names == expected.action_names
    assert got.rate == expected.rate
    for g, e in zip([*got.contexts, *got.actions], [*expected.contexts, *expected.actions], strict=True):
        missing = np.isnan(e)
        assert np.array_equal(missing, np.isnan(g))
        assert np.array_equal(np.where(missing, 0.0, g).view(np.int64), np.where(missing, 0.0, e).view(np.int64))


# Numbers as text: every reader takes the same for a number, and the same for missing


def by_csv(text, path):
    file = path / "d.csv"
    file.write_text(f'x_0;a_0\n1;2\n"{text}";3\n4;5\n', encoding="utf-8")
    return read(file, quiet=True).contexts[0][1, 0]


def by_json_lines(text, path):
    rows = [{"x_0": "1", "a_0": 2}, {"x_0": text, "a_0": 3}, {"x_0": "4", "a_0": 5}]
    file = path / "d.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return read(file, quiet=True).contexts[0][1, 0]


def by_stdin(text, path):
    return read_field({"x_0": text}, "x_0", 1)


def by_tracking_table(text, path):
    file = path / "t.csv"
    file.write_text(f'frame;x;y;pan\n0;1;2;3\n0;2;2;3\n1;"{text}";2;3\n', encoding="utf-8")
    return read_detections(file, court=BASKETBALL, rate=25.0)[0].detections[1, 0, 0]


NUMBERS = {"1.5": 1.5, "+2": 2.0, " -.5 ": -0.5, "1E+3": 1000.0, "00012": 12.0, "7.": 7.0, "1e-400": 0.0}
GAPS = ("", "  ", "nan", "NaN", "-nan", "NA", "na", " N/A ", "n/a", "null", "Null", "NULL", "None", "none")
REFUSED = ("abc", "1_000", "1 000", "0x10", "1d5", "1e", "--1", "-", "#N/A", "٣", "1.2.3", "true")


@pytest.mark.parametrize("door", [by_csv, by_json_lines, by_stdin, by_tracking_table])
def test_all_readers_of_text_agree_on_numbers_missing_values_and_mistakes(door, tmp_path):
    assert {text: door(text, tmp_path) for text in NUMBERS} == NUMBERS
    assert [text for text in GAPS if not np.isnan(door(text, tmp_path))] == []
    for text in REFUSED:
        with pytest.raises(DataError, match="is not a number"):
            door(text, tmp_path)
    with pytest.raises(DataError, match=r"'1_000' is not a number \(a number has nothing between its digits\)"):
        door("1_000", tmp_path)
    if door in (by_csv, by_tracking_table):  # between semicolons, a comma is one of decimals
        assert door("1,5", tmp_path) == 1.5
    else:
        with pytest.raises(DataError, match=r"'1,5' is not a number \(a number needs a point"):
            door("1,5", tmp_path)


def test_what_pyarrow_does_not_take_is_read_one_by_one_from_there_on(tmp_path):
    rows = [f"g{i // 50_000},{i},{i / 2}" for i in range(200_000)]
    rows[150_000] = "g3, N/A ,75000.0"
    (tmp_path / "d.csv").write_text("\n".join(["game,x_0,a_0", *rows, ""]))
    demos = read(tmp_path / "d.csv", quiet=True)
    assert [len(d) for d in demos] == [50_000] * 4
    together = np.concatenate(demos.contexts)[:, 0]
    assert np.flatnonzero(np.isnan(together)).tolist() == [150_000]
    np.testing.assert_array_equal(np.concatenate(demos.actions)[:, 0], np.arange(200_000) / 2)


# Round trips


@every_format
@pytest.mark.parametrize("rate", [30.0, 29.97, 1.0, 0.1, 0.0001, 1e4, 1234.56, None])
def test_what_is_written_is_read_back(tmp_path, suffix, rate):
    path = tmp_path / f"demos{suffix}"
    write(small(rate), path)
    assert_same(read(path, quiet=True), small(rate))


odd_names = st.sampled_from(
    [
        *(
            "",
            " ",
            "  x",
            "NA",
            "nan",
            "null",
            "0",
            "1.0",
            "a,b",
            'q"q',
            '""',
            "\n",
            "a\r\nb",
            "\ttab",
            ";",
            "*",
            "a_*",
        ),
        *("[ab]", "/x/", "/[/", "time", "run", "action", "action.0", "x_0", "z_", "µ°", "\x00", "\ufeff", "#"),
    ]
)
names = odd_names | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
values = st.floats(-1e99, 1e99)
decimals = st.builds(lambda digits, power: float(f"{digits}e{power}"), st.integers(1, 999_999), st.integers(-8, 0))


@st.composite
def demonstrations(draw):
    m, k = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    columns = draw(
        st.lists(names.filter(lambda n: n not in ("sequence", "t")), min_size=m + k, max_size=m + k, unique=True)
    )
    lengths = [2, *draw(st.lists(st.integers(1, 4), max_size=2))]
    return Demonstrations.from_arrays(
        [draw(arrays(np.float64, (n, m), elements=values | st.just(NAN))) for n in lengths],
        [draw(arrays(np.float64, (n, k), elements=values)) for n in lengths],
        rate=draw(st.none() | decimals),
        names=draw(st.lists(names, min_size=len(lengths), max_size=len(lengths), unique=True)),
        context_names=columns[:m],
        action_names=columns[m:],
    )


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".jsonl"])
@given(demos=demonstrations())
def test_text_keeps_every_bit_and_every_name(tmp_path_factory, suffix, demos):
    path = tmp_path_factory.getbasetemp() / f"round{suffix}"
    write(demos, path)
    got = read(
        path,
        actions=demos.action_names,
        contexts=demos.context_names,
        sequence="sequence",
        time=None if demos.rate is None else "t" if demos.rate <= 1000.0 else "t_s",
        quiet=True,
    )
    assert_same(got, demos)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".npz"])
@given(demos=demonstrations())
def test_typed_formats_need_no_telling(tmp_path_factory, suffix, demos):
    path = tmp_path_factory.getbasetemp() / f"round{suffix}"
    write(demos, path)
    assert_same(read(path, quiet=True), demos)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".npz"])
def test_names_that_look_like_values_are_names_in_a_file_that_knows_its_columns(tmp_path, suffix):
    demos = Demonstrations.from_arrays(
        [np.zeros((3, 1))], [np.zeros((3, 1))], context_names=("0",), action_names=("1.0",)
    )
    write(demos, tmp_path / f"round{suffix}")
    assert_same(read(tmp_path / f"round{suffix}", quiet=True), demos)


@settings(max_examples=10)
@given(demos=demonstrations())
def test_the_formats_agree_with_each_other(tmp_path_factory, demos):
    folder = tmp_path_factory.getbasetemp()
    write(demos, folder / "a.parquet")
    write(read(folder / "a.parquet", quiet=True), folder / "b.npz")
    write(read(folder / "b.npz", quiet=True), folder / "c.arrow")
    assert_same(read(folder / "c.arrow", quiet=True), demos)


def test_arguments_win_over_what_a_file_says_of_itself(tmp_path):
    write(small(), tmp_path / "d.parquet")
    got = read(tmp_path / "d.parquet", contexts="x_ball", rate=5.0, quiet=True)
    assert got.context_names == ("x_ball",)
    assert got.action_names == ("a_pan",)
    assert got.rate == 5.0


# Writing


def test_other_tools_can_read_what_is_written(tmp_path):
    for suffix, reader in ((".csv", pd.read_csv), (".parquet", pd.read_parquet), (".feather", pd.read_feather)):
        write(small(), tmp_path / f"d{suffix}")
        frame = reader(tmp_path / f"d{suffix}")
        assert list(frame.columns) == ["sequence", "t", "x_ball", "x_wind", "a_pan"]
        assert frame["sequence"].tolist() == ["one"] * 3 + ["two"] * 2
        assert frame["x_wind"].isna().tolist() == [True, False, False, False, False]
    write(small(), tmp_path / "d.jsonl")
    assert json.loads((tmp_path / "d.jsonl").read_text().splitlines()[0])["x_wind"] is None


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    write(small(), tmp_path / "d.csv")
    before = (tmp_path / "d.csv").read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"d\.csv cannot be written: No space left on device"):
        write(small(rate=5.0), tmp_path / "d.csv")
    assert (tmp_path / "d.csv").read_bytes() == before
    assert os.listdir(tmp_path) == ["d.csv"]


def test_a_written_file_is_its_owners_alone_until_it_is_opened_to_others(tmp_path):
    path = tmp_path / "d.csv"
    for mode in (0o600, 0o644):
        write(small(), path)
        assert stat.S_IMODE(path.stat().st_mode) == mode
        path.chmod(0o644)


def test_a_folder_that_is_not_there_is_made_and_one_that_cannot_be_is_said(tmp_path):
    write(small(), tmp_path / "new" / "d.csv")
    assert (tmp_path / "new" / "d.csv").exists()
    with pytest.raises(StorageError, match=r"d\.csv cannot be written"):
        write(small(), tmp_path / "new" / "d.csv" / "d.csv")


def test_writing_refuses_what_could_not_be_read_back(tmp_path):
    def named(contexts="x", actions="a", names=("one", "two"), rate=1.0):
        return Demonstrations.from_arrays(
            [[1.0, 2.0]] * 2, [[1.0, 2.0]] * 2, rate=rate, names=names, context_names=contexts, action_names=actions
        )

    path = tmp_path / "d.csv"
    with pytest.raises(ArgumentError, match="two sequences are called 'one'"):
        write(named(names=("one", "one")), path)
    with pytest.raises(ArgumentError, match="'sequence' is that of the names"):
        write(named(contexts="sequence"), path)
    with pytest.raises(ArgumentError, match="'t' is that of the time"):
        write(named(actions="t"), path)
    with pytest.raises(ArgumentError, match="cannot be written as UTF-8"):
        write(named(contexts="\ud800"), path)
    with pytest.raises(ArgumentError, match=r"suffix of 'd\.xlsx' is not known"):
        write(named(), tmp_path / "d.xlsx")
    write(named(contexts="t", rate=None), path)  # no time is written, so 't' is free
    assert os.listdir(tmp_path) == ["d.csv"]


# Text


def reads(tmp_path, text, name="d.csv", **options):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path, quiet=True, **options)


@pytest.mark.parametrize(
    "text",
    [
        "x_0,a_0\n1,2\n3,4\n",
        "x_0;a_0\n1;2\n3;4\n",
        "x_0\ta_0\n1\t2\n3\t4\n",
        "\ufeffx_0,a_0\r\n1,2\r\n3,4\r\n",
        '"x_0","a_0"\n"1","2"\n"3","4"',
        "x_0,a_0\n\n1,2\n\n3,4\n\n",
        "x_0,a_0\n1.0e0, 2\n+3,4 \n",
    ],
    ids=["comma", "semicolon", "tab", "bom and crlf", "quoted", "empty lines", "spaces"],
)
@pytest.mark.parametrize("name", ["d.csv", "d.tsv", "d.TXT"])
def test_every_dialect_reads_the_same(tmp_path, text, name):
    demos = reads(tmp_path, text, name)
    assert demos[0].contexts.tolist() == [[1.0], [3.0]]
    assert demos[0].actions.tolist() == [[2.0], [4.0]]


def test_quoted_fields_may_hold_delimiters_quotes_and_newlines(tmp_path):
    demos = reads(tmp_path, 'game,x_0,"a_0"\n"mon, ""late""\nshow",1,2\n"mon, ""late""\nshow",3,4\n')
    assert demos.names == ('mon, "late"\nshow',)


def test_compressed_text_reads_the_same(tmp_path):
    assert reads(tmp_path, gzip.compress(b"x_0,a_0\n1,2\n3,4\n"), "d.csv.gz").n_frames == 2


def test_a_long_file_is_read_over_many_blocks(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60_000, 3))
    frame = pd.DataFrame({"run": np.repeat(["b", "a", "c"], 20_000), "x_0": values[:, 0], "x_1": values[:, 1]})
    frame["a_0"] = values[:, 2]
    frame.to_csv(tmp_path / "d.csv", index=False)
    assert (tmp_path / "d.csv").stat().st_size > 3 << 20
    demos = read(tmp_path / "d.csv", quiet=True)
    assert demos.names == ("b", "a", "c")
    assert np.array_equal(np.concatenate(demos.contexts), values[:, :2])
    assert np.array_equal(np.concatenate(demos.actions), values[:, 2:])
    mixed = frame.iloc[np.arange(60_000).reshape(3, -1).T.ravel()]
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    assert_same(read(tmp_path / "mixed.csv", quiet=True), demos)


@pytest.mark.parametrize("missing", ["", "nan", "NaN", "NA", "null", '""', '"NA"'])
def test_missing_contexts_are_nan(tmp_path, missing):
    demos = reads(tmp_path, f"x_0,a_0\n1,2\n{missing},4\n")
    assert np.isnan(demos[0].contexts[:, 0]).tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"d\.csv: the file is empty"),
        ("\n\n", r"d\.csv: the file is empty"),
        ("x_0,a_0\n", r"d\.csv: there is a header but no row"),
        ("x_0,a_0\n1,2\n3,\n", r"d\.csv: row 2, column 'a_0': the action is missing"),
        ("x_0,a_0\n1,2\n3,4\nabc,6\n", r"d\.csv: row 3, column 'x_0': 'abc' is not a number"),
        ("x_0;a_0\n1,5;2\n.5;4\n4;4\n", r"d\.csv: row 1, column 'x_0': '1,5' is not a number \(a number needs a point"),
        ("x_0,a_0\n1,2\ninf,2\n", r"d\.csv: row 2, column 'x_0': inf is not finite"),
        ("x_0,a_0\n1,2\n1e155,3\n", r"d\.csv: row 2, column 'x_0': 1e\+155 is too large to reckon with"),
        ("x_0,a_0\n1,2\n1,-1e999\n", r"d\.csv: row 2, column 'a_0': -inf is not finite"),
        ("x_0,a_0\n1,2\n\n3,4,5\n", r"d\.csv: row 2: 3 fields, but the header has 2"),
        ("x_0,a_0\n1,2\n3\n", r"d\.csv: row 2: 1 fields, but the header has 2"),
        ("x_0,a_0,a_0\n1,2,3\n", r"d\.csv: column 'a_0' is there twice"),
        ("run,x_0,a_0\nmon,1,2\n,1,2\n", r"d\.csv: row 2, column 'run': the row has no label"),
        ("t,x_0,a_0\n1,1,2\n,1,2\n", r"d\.csv: row 2, column 't': the time is nan"),
        (b"run,x_0,a_0\nmon,1,2\n\xff,1,2\n", r"d\.csv: row 2, column 'run': not UTF-8"),
        (b"x_\xff,a_0\n1,2\n", r"d\.csv: not UTF-8 text"),
        ("x_0,a_0\n1,2\n".encode("utf-16"), r"d\.csv: UTF-16 text"),
        ("x_0,a_0\n1,2\n1,2\n" + "9" * 200_000 + "x,1\n", r"d\.csv: "),
    ],
)
def test_what_is_wrong_with_a_text_file_is_named_with_its_place(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as caught:
        reads(tmp_path, text)
    assert len(str(caught.value)) < 500
    assert type(caught.value.__cause__) is type(None)


def test_a_quote_that_is_never_closed_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"d\.csv: row 1: .*is a quote opened there, and never closed\?"):
        reads(tmp_path, 'x_0,a_0\n1,"2\n' + "3,4\n" * 1000)
    with pytest.raises(DataError, match=r"d\.csv: "):
        reads(tmp_path, 'x_0,a_0\n1,2\n2,"2\n' + "3,4\n" * 400_000)


def test_a_mistake_far_down_is_found(tmp_path):
    rows = ["1.5,2.5"] * 300_000
    rows[234_567] = "1.5,2.5O"
    with pytest.raises(DataError, match=r"row 234568, column 'a_0': '2\.5O' is not a number"):
        reads(tmp_path, "x_0,a_0\n" + "\n".join(rows))


@pytest.mark.parametrize("odd", ["1", "1,,", '1,"2'])
def test_an_odd_row_is_found_where_others_miss_their_last_value(tmp_path, odd):
    rows = [f"{i}," for i in range(300_000)]
    demos = reads(tmp_path, "a_0,x_0\n" + "\n\n".join(rows))  # empty lines are no rows
    assert (demos.n_frames, np.isnan(demos[0].contexts).all()) == (300_000, True)
    rows[234_567] = odd
    with pytest.raises(DataError, match=r"d\.csv: row 234568: "):
        reads(tmp_path, "a_0,x_0\n" + "\n".join(rows))


def test_text_that_nobody_asks_for_may_be_in_any_encoding(tmp_path):
    demos = reads(tmp_path, "x_0,name,a_0\n1,Müller,2\n".encode("latin-1"))
    assert demos.context_names == ("x_0",)


# Typed formats


def test_lists_are_spread_over_columns(tmp_path):
    table = pa.table(
        {
            "action": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32())),
            "state": pa.array([[5, 6, 7], None], pa.list_(pa.int64(), 3)),
            "one": pa.array([[8.0], [9.0]], pa.large_list(pa.float64())),
        }
    )
    pq.write_table(table, tmp_path / "d.parquet")
    demos = read(tmp_path / "d.parquet", quiet=True)
    assert demos.action_names == ("action.0", "action.1")
    assert demos.context_names == ("state.0", "state.1", "state.2", "one")
    assert demos[0].actions.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert demos[0].contexts[0].tolist() == [5.0, 6.0, 7.0, 8.0]
    assert np.isnan(demos[0].contexts[1, :3]).all()
    rows = [{"action": [1.0, 2.0], "state": [5, 6, 7], "one": [8.0]}, {"action": [3.0, 4.0], "one": [9.0]}]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert_same(read(tmp_path / "d.jsonl", quiet=True), Demonstrations.of(demos))


def test_a_list_is_named_whole_or_by_element(tmp_path):
    pq.write_table(pa.table({"u": [[1.0, 2.0]], "v": [[3.0, 4.0, 5.0]]}), tmp_path / "d.parquet")
    demos = read(tmp_path / "d.parquet", actions="u", contexts=["v.2", "v.0"], quiet=True)
    assert demos.action_names == ("u.0", "u.1")
    assert demos[0].contexts.tolist() == [[5.0, 3.0]]


def test_lists_of_different_lengths_are_refused(tmp_path):
    pq.write_table(pa.table({"action": [[1.0, 2.0], [3.0]], "x": [1.0, 2.0]}), tmp_path / "d.parquet")
    with pytest.raises(DataError, match=r"row 2, column 'action': a list of 1 elements among lists of 2"):
        read(tmp_path / "d.parquet", quiet=True)
    (tmp_path / "d.jsonl").write_text('{"action": [1, 2], "x": 1}\n{"action": 3, "x": 1}\n')
    with pytest.raises(DataError, match=r"row 2, column 'action': 3 among lists of 2"):
        read(tmp_path / "d.jsonl", quiet=True)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.bool_(), pa.decimal128(5, 2)])
def test_every_kind_of_number_is_one(tmp_path, kind):
    column = pa.array([1.0, None, 0.0]).cast(kind)
    pq.write_table(pa.table({"x": column, "a_0": [1.0, 2.0, 3.0]}), tmp_path / "d.parquet")
    demos = read(tmp_path / "d.parquet", quiet=True)
    assert demos[0].contexts[[0, 2], 0].tolist() == [1.0, 0.0]
    assert np.isnan(demos[0].contexts[1, 0])


def test_arrow_streams_and_dictionaries_are_read(tmp_path):
    table = pa.table({"run": pa.array(["b", "a", "b"]).dictionary_encode(), "x": [1, 2, 3], "a_0": [1.0, 2.0, 3.0]})
    with pa.OSFile(str(tmp_path / "d.arrow"), "wb") as file, ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    demos = read(tmp_path / "d.arrow", quiet=True)
    assert demos.names == ("b", "a")
    assert demos[0].contexts.tolist() == [[1.0], [3.0]]


@pytest.mark.parametrize("write_frame", [pd.DataFrame.to_parquet, lambda f, p: pl.from_pandas(f).write_parquet(p)])
def test_files_of_pandas_and_polars_are_read(tmp_path, write_frame):
    frame = pd.DataFrame({"trial": [1, 1, 2], "x": [1.0, None, 3.0], "note": ["u", "v", "w"], "action": [1, 2, 3]})
    write_frame(frame, tmp_path / "d.parquet")
    demos = read(tmp_path / "d.parquet", quiet=True)
    assert demos.names == ("1", "2")
    assert demos.context_names == ("x",)
    assert demos[1].actions.tolist() == [[3.0]]


def test_archives_of_arrays_are_read(tmp_path):
    np.savez(tmp_path / "d.npz", action=np.arange(6).reshape(3, 2), wind=[1.0, 2.0, NAN], t=np.arange(3) / 4.0)
    demos = read(tmp_path / "d.npz", quiet=True)
    assert demos.action_names == ("action.0", "action.1")
    assert demos.context_names == ("wind",)
    assert demos.rate == 4.0


@pytest.mark.parametrize(
    ("arrays_", "message"),
    [
        ({"action": np.zeros(3), "x": np.zeros(2)}, "'action' has 3 and 'x' 2"),
        ({"action": np.zeros(0), "x": np.zeros(0)}, "no row"),
        ({"action": np.array([{}], dtype=object), "x": np.zeros(1)}, "cannot be read as a NumPy archive"),
        ({}, "the archive is empty"),
    ],
)
def test_archives_that_do_not_fit_are_refused(tmp_path, arrays_, message):
    np.savez(tmp_path / "d.npz", **arrays_)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "d.npz", quiet=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ('{"x": 1, "a_0": 1}\n{"x": 1, "a_0"\n', "row 2: not JSON"),
        ('{"x": 1, "a_0": 1}\n[1, 2]\n', r"row 2: \[1, 2\] is not an object"),
        ('{"x": 1, "a_0": 1}\n\n{"x": "abc", "a_0": 1}\n', "row 2, column 'x': 'abc' is not a number"),
        ('{"x": 1, "a_0": 1}\n{"x": 1}\n', "row 2, column 'a_0': the action is missing"),
        ('{"x": 1, "a_0": 1}\n{"x": Infinity, "a_0": 1}\n', "row 2, column 'x': inf is not finite"),
        ('{"x": 1, "a_0": 1}\n{"x": 1' + "0" * 400 + ', "a_0": 1}\n', "row 2, column 'x': inf is not finite"),
    ],
)
def test_what_is_wrong_with_json_lines_is_named_with_its_place(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        reads(tmp_path, text, "d.jsonl")


def test_text_named_as_a_number_is_refused_in_every_format(tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2.0], "word": ["1", "left"], "a_0": [1.0, 2.0]})
    frame.to_csv(tmp_path / "d.csv", index=False)
    frame.to_parquet(tmp_path / "d.parquet")
    frame.to_feather(tmp_path / "d.feather")
    frame.to_json(tmp_path / "d.jsonl", orient="records", lines=True)
    np.savez(tmp_path / "d.npz", **{c: frame[c].to_numpy().astype(str if c == "word" else float) for c in frame})
    for suffix in (".csv", ".parquet", ".feather", ".jsonl", ".npz"):
        with pytest.raises(DataError, match=rf"d{suffix}: row 2, column 'word': 'left' is not a number"):
            read(tmp_path / f"d{suffix}", contexts=["x", "word"], quiet=True)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".npz", ".csv.gz"])
def test_a_damaged_file_is_a_data_error_that_names_it(tmp_path, suffix):
    path = tmp_path / f"d{suffix}"
    write(small(), path)
    whole = path.read_bytes()
    for damaged in (b"", whole[:10], whole[: len(whole) // 2], b"garbage" * 100):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=rf"d{suffix}: "):
            read(path, quiet=True)


@pytest.mark.parametrize("table", [pa.table({"x": pa.array([], pa.float64())}), pa.table({})])
def test_tables_without_rows_or_columns_are_refused(tmp_path, table):
    pq.write_table(table, tmp_path / "d.parquet")
    with pytest.raises(DataError, match=r"there is no column|there are columns but no row"):
        read(tmp_path / "d.parquet", quiet=True)


# The surroundings


def test_a_missing_library_is_named_with_the_way_to_install_it(tmp_path, monkeypatch):
    (tmp_path / "d.csv").write_text("x_0,a_0\n1,2\n")
    (tmp_path / "d.feather").write_bytes(b"any")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ArgumentError, match=r"reading Arrow files needs pyarrow: pip install 'smooth-imitation\[cli"):
        read(tmp_path / "d.feather", quiet=True)
    assert len(read(tmp_path / "d.csv", quiet=True)) == 1  # polars reads text, and comes with us


def test_the_package_does_not_import_optional_libraries():
    code = "import sys, simile.data.reading; print(sorted({'polars', 'pyarrow', 'h5py', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_long_csv_is_read_within_two_and_a_half_times_its_arrays(tmp_path):
    code = """
    import sys
    import numpy as np, pyarrow as pa, pyarrow.csv
    n, path = 400_000, sys.argv[1]
    values = np.random.default_rng(0).normal(size=n)
    columns = {"t": np.arange(n) / 30, "a_0": values, **{f"x_{i}": values for i in range(11)}}
    pyarrow.csv.write_csv(pa.table(columns), path)
    """
    measure = """
    import resource, sys
    from simile.data.reading import read
    read(sys.argv[2], quiet=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    demos = read(sys.argv[1], quiet=True)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    print(grown / sum(d.contexts.nbytes + d.actions.nbytes for d in demos))
    """
    path, warm = str(tmp_path / "d.csv"), str(tmp_path / "warm.csv")
    (tmp_path / "warm.csv").write_text("x_0,a_0\n1,2\n")
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), path], check=True)
    command = [sys.executable, "-c", textwrap.dedent(measure), path, warm]
    assert float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) < 2.5


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 4), st.booleans())
def test_arrays_of_recordings_by_frames_are_refused_and_of_frames_by_columns_read(n, length, k, labelled):
    arrays = {f"x{i}": np.arange(n * length).reshape(n, length) + 0.5 * i for i in range(k)} | {
        "a": np.zeros((n, length))
    }
    arrays |= {"who": np.arange(n)} if labelled else {}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/d.npz", **arrays)
        if n < length:
            shape = rf"shape \({n}, {length}\), as {n} recordings of {length} frames: rows must be frames: save them as"
            with pytest.raises(DataError, match=shape):
                read(f"{folder}/d.npz", actions=["a.*", "a"], quiet=True)
            flat = {name: array.ravel() for name, array in arrays.items() if name != "who"}
            np.savez(f"{folder}/d.npz", sequence=np.repeat(np.arange(n), length), **flat)
            assert [len(demo) for demo in read(f"{folder}/d.npz", actions="a", quiet=True)] == [length] * n
        else:
            demos = read(f"{folder}/d.npz", actions="a*", contexts="x*", quiet=True)
            assert (len(demos), demos.n_frames, demos.n_actions) == (1, n, length)
