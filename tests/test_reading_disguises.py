"""The same table in other clothes: names, times, indices and numbers as strangers write them are read as meant, and it
is said what was understood."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simile.data.demonstrations import Demonstrations
from simile.data.reading import read, write
from simile.data.reading.clock import UNITS, infer_unit
from simile.errors import ArgumentError, DataError

FORMATS = (".csv", ".tsv", ".csv.gz", ".jsonl", ".parquet", ".feather", ".npz")
every_format = pytest.mark.parametrize("suffix", FORMATS)
examples = settings(max_examples=settings.default.max_examples * 3 // 5)  # there are seven formats


def save(columns, path):
    """Write columns (lists) as other tools do, without any of simile's own marks."""
    suffix = "".join(path.suffixes)
    if suffix == ".npz":
        np.savez(path, **{name: np.array(values) for name, values in columns.items()})
    elif suffix == ".jsonl":
        rows = (dict(zip(columns, map(_plain, row), strict=True)) for row in zip(*columns.values(), strict=True))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif suffix in (".parquet", ".feather"):
        table = pa.table({name: pa.array(list(values)) for name, values in columns.items()})
        (pa.parquet.write_table if suffix == ".parquet" else pa.feather.write_feather)(table, path)
    else:
        mark = "\t" if suffix == ".tsv" else ","
        lines = [mark.join(columns), *(mark.join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        data = ("\n".join(lines) + "\n").encode()
        path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    return path


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


def plain(n=12, rate=25.0, seed=0):
    """Two recordings of n frames."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(3, 2 * n)).round(3)
    return {
        "sequence": ["mon"] * n + ["tue"] * n,
        "t": [*(np.arange(n) / rate).tolist()] * 2,
        "x_ball": numbers[0].tolist(),
        "z_leak": numbers[1].tolist(),
        "a_pan": numbers[2].tolist(),
    }


def told(path, **options):
    """Return what is read, and what is said of it."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        demos = read(path, **options)
    return demos, said.getvalue()


def same(a, b):
    assert (a.names, a.context_names, a.action_names, a.rate) == (b.names, b.context_names, b.action_names, b.rate)
    assert a.digest() == b.digest()


# Names


blanks = st.text(" \u00a0", max_size=2)


@every_format
@examples
@given(data=st.data())
def test_blanks_around_names_are_no_part_of_them(tmp_path_factory, suffix, data):
    folder, columns = tmp_path_factory.mktemp("names"), plain()
    dressed = {f"{data.draw(blanks)}{name}{data.draw(blanks)}": values for name, values in columns.items()}
    expected = read(save(columns, folder / f"d{suffix}"), quiet=True)
    same(read(save(dressed, folder / f"d{suffix}"), quiet=True), expected)
    same(read(folder / f"d{suffix}", actions="a_pan", contexts=["x_ball"], sequence="sequence", quiet=True), expected)


@every_format
def test_a_header_with_spaces_is_read_and_said(tmp_path, suffix):
    columns = plain()
    order = ("a_pan", "x_ball", "z_leak", "sequence", "t")
    dressed = {name if i == 0 else f" {name}": columns[name] for i, name in enumerate(order)}
    demos, said = told(save(dressed, tmp_path / f"d{suffix}"))
    same(demos, read(save(columns, tmp_path / f"d{suffix}"), quiet=True))
    assert "2 sequences by column 'sequence'" in said
    assert "25 Hz inferred from column 't'" in said
    assert "left out  z_leak\n" in said
    assert "note      read without the blanks around their names: x_ball, z_leak, sequence, t" in said


def test_blanks_after_every_delimiter_are_no_part_of_labels_either(tmp_path):
    text = (save(plain(), tmp_path / "d.csv")).read_text()
    (tmp_path / "e.csv").write_text(text.replace(",", " , "))
    same(read(tmp_path / "e.csv", quiet=True), read(tmp_path / "d.csv", quiet=True))


def test_blanks_around_labels_never_make_two_sequences_one(tmp_path):
    columns = plain()
    columns[" sequence"] = [" run 1"] * 12 + [" run 1 "] * 12
    del columns["sequence"]
    demos, said = told(save(columns, tmp_path / "d.csv"))
    assert demos.names == (" run 1", " run 1 ")
    assert "the sequences ' run 1' and ' run 1 ' differ only in blanks" in said


@every_format
def test_upper_and_lower_case_do_not_hide_a_role_and_it_is_said(tmp_path, suffix):
    columns = plain()
    dressed = {name[0].upper() + name[1:]: values for name, values in columns.items()}
    demos, said = told(save(dressed, tmp_path / f"d{suffix}"))
    assert demos.context_names == ("X_ball",)
    assert demos.action_names == ("A_pan",)
    assert demos.names == ("mon", "tue")
    assert demos.rate == 25.0
    assert "left out  Z_leak\n" in said
    assert "upper and lower case aside, 'A_pan' is an action, 'X_ball' is a context" in said


@every_format
def test_names_that_are_given_are_found_blanks_and_case_aside(tmp_path, suffix):
    columns = plain()
    columns["Ball Speed "], columns["PAN"] = columns.pop("x_ball"), columns.pop("a_pan")
    path = save(columns, tmp_path / f"d{suffix}")
    demos, said = told(path, actions="pan", contexts=["ball speed"], sequence=" Sequence", time="T")
    assert (demos.context_names, demos.action_names) == (("ball speed",), ("pan",))
    assert "'pan' is the column 'PAN'" in said
    assert "'ball speed' is the column 'Ball Speed '" in said
    assert demos.rate == 25.0
    assert read(path, actions="p*", contexts="BALL*", quiet=True).action_names == ("PAN",)


def test_a_policy_finds_its_columns_under_its_own_names(tmp_path):
    columns = plain()
    path = save({name.upper(): values for name, values in columns.items()}, tmp_path / "d.csv")
    demos = read(path, actions=("a_pan",), contexts=("x_ball",), quiet=True)
    same(demos, read(save(columns, tmp_path / "d.csv"), quiet=True))


def test_names_of_two_or_more_words_are_known_too(tmp_path):
    columns = plain()
    columns = {"Episode Index": columns["sequence"], "Time Stamp": columns["t"], **columns}
    del columns["sequence"], columns["t"]
    demos = read(save(columns, tmp_path / "d.csv"), quiet=True)
    assert (demos.names, demos.rate) == (("mon", "tue"), 25.0)


def test_columns_that_differ_only_in_blanks_are_not_guessed_at(tmp_path):
    columns = {**plain(), " t": plain()["t"]}
    path = save(columns, tmp_path / "d.csv")
    with pytest.raises(DataError, match="columns 't' and ' t' differ only in blanks: rename one of the two, or name"):
        read(path, quiet=True)
    demos = read(path, time=" t", sequence="sequence", actions="a_pan", contexts=["x_ball", "t"], quiet=True)
    assert demos.context_names == ("x_ball", "t")
    with pytest.raises(ArgumentError, match="time: no column is 'T'"):
        read(path, time="T", quiet=True)


def test_thousands_of_names_are_told_in_a_line(tmp_path):
    columns = {f" x_{i}": [0.5] * 3 for i in range(300)} | {"a_pan": [0.5] * 3}
    demos, said = told(save(columns, tmp_path / "d.parquet"))
    assert demos.n_contexts == 300
    assert "blanks around their names: x_0, x_1, x_2, x_3, x_4 ... x_299 (300)" in said
    assert len(said) < 1000


def test_a_quoted_name_after_a_blank_loses_its_quotes(tmp_path):
    (tmp_path / "d.csv").write_text('x_ball, "a_pan"\n1, 2\n3, 4\n')
    assert read(tmp_path / "d.csv", quiet=True).action_names == ("a_pan",)


# Labels


@every_format
def test_labels_that_differ_only_in_blanks_are_told(tmp_path, suffix):
    columns = plain()
    columns["sequence"] = ["run 1"] * 12 + ["run 1 "] * 12
    demos, said = told(save(columns, tmp_path / f"d{suffix}"))
    assert demos.names == ("run 1", "run 1 ")
    assert "note      the sequences 'run 1' and 'run 1 ' differ only in blanks" in said


# Units of time


@every_format
@examples
@given(
    unit=st.sampled_from(("ms", "us", "ns")),
    rate=st.sampled_from((10.0, 12.5, 20.0, 25.0, 50.0, 100.0)),
    start=st.sampled_from((0, 123_456, 1_717_156_801)),
    whole=st.booleans(),
)
def test_times_in_finer_units_than_seconds_are_recognised(tmp_path_factory, suffix, unit, rate, start, whole):
    folder, columns = tmp_path_factory.mktemp("units"), plain(rate=rate)
    expected = read(save(columns, folder / f"d{suffix}"), quiet=True)
    per = int(UNITS[unit])
    exact = [start * per + round(i * per / rate) for i in range(12)] * 2
    columns["t"] = exact if whole or unit == "ns" else [float(t) for t in exact]
    path = save(columns, folder / f"d{suffix}")
    same(read(path, quiet=True), expected)
    same(read(path, time_unit=unit, quiet=True), expected)
    same(read(path, resample=rate, quiet=True), read(path, rate=rate, quiet=True))


@pytest.mark.parametrize("rate", [24000 / 1001, 30.0, 30000 / 1001, 60.0, 90.0, 120.0, 150.0, 240.0])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_rounded_times_in_finer_units_give_the_usual_rates(tmp_path, rate, unit):
    columns = plain(n=100)
    columns["t"] = [round(i * UNITS[unit] / rate) for i in range(100)] * 2
    assert read(save(columns, tmp_path / "d.csv"), quiet=True).rate == pytest.approx(rate, rel=1e-4)


def test_the_unit_is_said_with_the_way_out(tmp_path):
    columns = plain()
    columns["t"] = [40 * i for i in range(12)] * 2
    path = save(columns, tmp_path / "d.csv")
    _, said = told(path)
    assert "25 Hz inferred from column 't' in milliseconds" in said
    assert (
        "note      't' is taken for milliseconds, for as seconds it would be 0.025 Hz: time_unit='s' overrules" in said
    )
    demos, said = told(path, time_unit="s")
    assert demos.rate == 0.025
    assert "note" not in said
    assert read(path, gap=0.1, quiet=True).names == ("mon", "tue")
    columns["t"] = [40 * i + (i > 5) * 1000 for i in range(12)] * 2
    assert read(save(columns, path), gap=0.1, quiet=True).names == ("mon/0", "mon/1", "tue/0", "tue/1")


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("t_ms", "ms"),
        ("Time (ms)", "ms"),
        ("time [us]", "us"),
        ("timestamp_ns", "ns"),
        ("Time [s]", "s"),
        ("time_s", "s"),
    ],
)
def test_a_name_may_tell_the_unit(tmp_path, name, unit):
    columns = plain(rate=1000.0)
    columns[name] = [
        round(i * UNITS[unit] / 1000) if unit != "s" else t for i, t in enumerate(columns.pop("t")[:12])
    ] * 2
    demos = read(save(columns, tmp_path / "d.csv"), quiet=True)
    assert demos.rate == 1000.0
    assert demos.context_names == ("x_ball",)


@pytest.mark.parametrize(
    "step", [0.001, 0.02, 1.0, 2, 5, 7.5, 15, 30, 60, 300, 600, 900, 3600, 21_600, 86_400, 7 * 86_400, 30 * 86_400]
)
@pytest.mark.parametrize("start", [0, 1_717_156_801])
def test_slow_rates_that_people_log_at_stay_seconds(tmp_path, step, start):
    columns = plain(n=50)
    columns["t"] = [start + step * i for i in range(50)] * 2
    if start == 0 and step == 1.0:
        columns["t"] = list(map(float, columns["t"]))
    assert read(save(columns, tmp_path / "d.csv"), quiet=True).rate == pytest.approx(1 / step, rel=1e-6)


def test_a_rate_that_is_given_tells_the_unit(tmp_path):
    columns = plain()
    columns["t"] = [5 * i for i in range(12)] * 2
    path = save(columns, tmp_path / "d.csv")
    demos, said = told(path, rate=200.0)
    assert "but the steps of" not in said
    assert demos.rate == 200.0
    assert read(path, quiet=True).rate == 0.2  # not absurd, but doubtful
    assert "'t' is taken for seconds (0.2 Hz): time_unit='ms' if it is in milliseconds" in told(path)[1]


def test_whole_seconds_that_jitter_or_drift_stay_seconds():
    rng = np.random.default_rng(0)
    for period in (1.0, 2.0, 2.5, 5.0, 5.05, 9.0):
        assert infer_unit([np.round(period * np.arange(200))]) == "s"
    assert infer_unit([np.cumsum(rng.integers(4, 7, 200))]) == "s"
    assert infer_unit([8.33 * np.arange(200)]) == "s"  # not whole


def test_clocks_since_the_start_of_a_machine_are_no_dates():
    assert infer_unit([2e9 + 4e4 * np.arange(50)]) == "us"
    assert infer_unit([2e15 + 4e7 * np.arange(50)]) == "ns"
    assert infer_unit([2e12 + 4e4 * np.arange(50)]) == "us"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_unit": "minutes"}, "time_unit must be one of s, ms, us, ns, min, h, d; got 'minutes'"),
        ({"time_unit": "ms", "time": "when"}, "time_unit: column 'when' holds timestamps, which tell their unit"),
        ({"time_unit": "ms", "time": "frame"}, "time_unit: 'frame' counts frames"),
    ],
)
def test_a_unit_that_cannot_be_is_refused(tmp_path, options, message):
    columns = {**plain(), "when": [f"2024-05-31T12:00:{i:02d}" for i in range(24)], "frame": list(range(24))}
    with pytest.raises(ArgumentError, match=re.escape(message)):
        read(save(columns, tmp_path / "d.csv"), quiet=True, **options)


def test_a_unit_without_a_column_of_time_is_refused(tmp_path):
    columns = plain()
    del columns["t"]
    with pytest.raises(ArgumentError, match="time_unit needs a column of time"):
        read(save(columns, tmp_path / "d.csv"), time_unit="ms", quiet=True)


def test_whole_numbers_that_step_by_one_are_milliseconds_if_said(tmp_path):
    columns = plain()
    columns["t"] = [*range(12)] * 2
    path = save(columns, tmp_path / "d.csv")
    assert read(path, quiet=True).rate is None
    assert read(path, time_unit="ms", quiet=True).rate == 1000.0


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize("rate", [0.1, 0.025, 0.0001, 1e-6, 1 / 86400])
def test_slow_demonstrations_are_written_so_that_they_read_the_same(tmp_path, suffix, rate):
    demos = Demonstrations.from_arrays(
        [np.arange(40.0)], [np.arange(40.0)], rate=rate, names=["one"], context_names=["x_0"], action_names=["a_0"]
    )
    write(demos, tmp_path / f"d{suffix}")
    same(read(tmp_path / f"d{suffix}", quiet=True), demos)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".npz"])
def test_typed_durations_know_their_unit(tmp_path, suffix):
    columns = plain()
    columns["t"] = np.array([20_000 * i for i in range(12)] * 2, dtype="timedelta64[ms]")
    assert read(save(columns, tmp_path / f"d{suffix}"), quiet=True).rate == 0.05


# Times as text


@every_format
@pytest.mark.parametrize(
    "form",
    [
        "%H:%M:%S.%f",
        "%d.%m.%Y %H:%M:%S.%f",
        "%d.%m.%Y, %H:%M:%S.%f",
        "%Y/%m/%d %H:%M:%S.%f",
        "%Y-%m-%d %H:%M:%S.%f UTC",
        "%Y-%m-%d %H:%M:%S.%f +0200",
        "%Y-%m-%dT%H:%M:%S.%fZ",
        "%Y-%m-%dT%H:%M:%S.%f+02:00[Europe/Paris]",
    ],
)
def test_times_as_people_write_them_are_read(tmp_path, suffix, form):
    columns = plain()
    start = datetime(2024, 5, 31, 23, 59, 59, 900_000)  # midnight comes
    written = [(start + timedelta(seconds=i / 25)).strftime(form) for i in range(12)]
    if suffix in (".csv", ".csv.gz"):
        written = [f'"{text}"' for text in written]
    columns["t"] = written * 2
    same(
        read(save(columns, tmp_path / f"d{suffix}"), quiet=True),
        read(save(plain(), tmp_path / f"d{suffix}"), quiet=True),
    )


def test_durations_as_text_are_read(tmp_path):
    columns = plain()
    for write_span in (str, lambda span: str(pd.Timedelta(span))):
        spans = [timedelta(hours=23, minutes=59, seconds=59.9 + i / 25) for i in range(12)]
        columns["t"] = [f'"{write_span(span)}"' for span in spans] * 2
        assert read(save(columns, tmp_path / "d.csv"), quiet=True).rate == 25.0


def test_times_of_day_pass_midnight_more_than_once_and_in_many_batches(tmp_path):
    start = datetime(2024, 5, 31, 20)
    times = [(start + timedelta(seconds=10.5 * i)).strftime("%H:%M:%S.%f") for i in range(20_000)]
    columns = {"t": times, "x_ball": [0.5] * 20_000, "a_pan": [0.5] * 20_000}
    for suffix in (".csv", ".jsonl"):
        assert read(save(columns, tmp_path / f"d{suffix}"), quiet=True).rate == pytest.approx(1 / 10.5)


def test_zones_are_taken_into_account(tmp_path):
    columns = plain()
    zones = ["+02:00" if i % 2 else "+00:00" for i in range(12)]
    columns["t"] = [f"2024-05-31T{12 + 2 * (i % 2)}:00:{i:02d}{zone}" for i, zone in enumerate(zones)] * 2
    assert read(save(columns, tmp_path / "d.csv"), quiet=True).rate == 1.0


def test_a_text_that_is_almost_a_time_is_seen_to_be_none_at_once(tmp_path):
    columns = plain()
    columns["t"] = [f"2024-05-31{' ' * 50_000}x"] * 24
    assert read(save(columns, tmp_path / "d.csv"), quiet=True).rate is None


def test_a_text_called_like_the_time_that_is_none_is_told(tmp_path):
    columns = plain()
    columns["t"] = [f"5/31/2024 12:00:{i:02d}" for i in range(12)] * 2
    demos, said = told(save(columns, tmp_path / "d.csv"))
    assert demos.rate is None
    assert "'t' is called like a time but holds text: write ISO 8601" in said


# Indices and counters


@every_format
@pytest.mark.parametrize("name", ["Unnamed: 0", "__index_level_0__", "index", "id", "ID", "Unnamed: 0.1", "level_0"])
def test_an_index_is_no_context_and_is_named(tmp_path, suffix, name):
    columns = plain()
    columns["ball"] = columns.pop("x_ball")
    expected = read(save(columns, tmp_path / f"d{suffix}"), quiet=True)
    path = save({name: [(7 * i) % 24 for i in range(24)], **columns}, tmp_path / f"d{suffix}")
    demos, said = told(path)
    same(demos, expected)
    assert f"left out  {name} (an index), z_leak" in said
    assert read(path, contexts=[name, "ball"], quiet=True).context_names == (name, "ball")


@every_format
@examples
@given(start=st.integers(-5, 10**6), per_sequence=st.booleans(), interleaved=st.booleans())
def test_counters_are_left_out_and_named(tmp_path_factory, suffix, start, per_sequence, interleaved):
    folder, columns = tmp_path_factory.mktemp("counters"), plain()
    columns["ball"] = columns.pop("x_ball")
    if interleaved:
        columns = {name: [v for pair in zip(c[:12], c[12:], strict=True) for v in pair] for name, c in columns.items()}
    expected = read(save(columns, folder / f"d{suffix}"), quiet=True)
    seen = {"mon": start, "tue": start}
    counted = []
    for row, label in enumerate(columns["sequence"]):
        counted.append(seen[label] if per_sequence else start + row)
        seen[label] += 1
    path = save({"n": counted, **columns}, folder / f"d{suffix}")
    demos, said = told(path)
    same(demos, expected)
    assert "left out  n (counts rows), z_leak" in said
    assert read(path, contexts=["n", "ball"], quiet=True).context_names == ("n", "ball")


def test_the_time_in_another_unit_is_no_context(tmp_path):
    columns = plain()
    columns["ball"] = columns.pop("x_ball")
    columns |= {"time_ms": [40 * i for i in range(12)] * 2, "Frame": [2 * i for i in range(12)] * 2}
    demos, said = told(save(columns, tmp_path / "d.csv"))
    assert demos.context_names == ("ball",)
    assert "left out  time_ms (a time), Frame (a time), z_leak" in said


def test_a_temperature_is_not_taken_for_the_time(tmp_path):
    columns = {"T": [20.5] * 24, **plain()}
    columns["ball"] = columns.pop("x_ball")
    demos = read(save(columns, tmp_path / "d.csv"), quiet=True)
    assert (demos.context_names, demos.rate) == (("T", "ball"), 25.0)


def test_names_do_not_paint_the_terminal(tmp_path):
    columns = {"x_\x1b[31mball\x1b": [0.5], "z_\nleft\rout": [0.5], "a_pan": [0.5]}
    _, said = told(save(columns, tmp_path / "d.parquet"))
    assert not set("\x1b\r") & set(said)
    assert len(said.splitlines()) == 5


def test_what_is_called_x_counts_as_a_context_even_if_it_counts(tmp_path):
    columns = {"x_step": [*range(24)], **plain()}
    assert read(save(columns, tmp_path / "d.csv"), quiet=True).context_names == ("x_step", "x_ball")


def test_a_counter_in_many_files_and_batches_is_one(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(2):
        frame = pd.DataFrame({"row": np.arange(70_000), "ball": rng.normal(size=70_000), "a_pan": 1.0})
        frame.to_csv(tmp_path / f"{i}.csv", index=False)
        frame.to_parquet(tmp_path / f"{i}.parquet")
    for suffix in ("csv", "parquet"):
        demos, said = told(tmp_path / f"*.{suffix}")
        assert demos.context_names == ("ball",)
        assert "left out  row (counts rows)" in said


def test_when_only_counters_are_left_it_is_asked(tmp_path):
    columns = {"n": [*range(24)], "a_pan": [0.5] * 24}
    with pytest.raises(
        ArgumentError, match=r"contexts: no numeric column is left .* but n \(counts rows\): name it with"
    ):
        read(save(columns, tmp_path / "d.csv"), quiet=True)


# Numbers


@pytest.mark.parametrize("mark", [";", "\t"])
@examples
@given(
    numbers=st.lists(
        st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6).map(lambda v: round(v, 3)), min_size=24, max_size=24
    ),
    quoted=st.booleans(),
)
def test_european_decimals_are_read_beside_whole_numbers(tmp_path_factory, mark, numbers, quoted):
    folder, columns = tmp_path_factory.mktemp("decimals"), plain()
    columns["x_ball"] = numbers
    expected = read(save(columns, folder / "d.csv"), quiet=True)

    def write_number(value):
        text = str(value)
        text = text.replace(".", ",") if not isinstance(value, str) else text
        return f'"{text}"' if quoted else text

    rows = [mark.join(map(write_number, row)) for row in zip(*columns.values(), strict=True)]
    (folder / "e.csv").write_text("\n".join([mark.join(columns), *rows, ""]))
    same(read(folder / "e.csv", quiet=True), expected)


def test_decimal_commas_are_read_one_by_one_as_well(tmp_path):
    rows = [f"{i / 25};{i / 8 if i else ' N/A '};{i / 4}".replace(".", ",") for i in range(30)]
    (tmp_path / "d.csv").write_text("\n".join(["t;x_0;a_0", *rows, ""]))
    demos = read(tmp_path / "d.csv", quiet=True)
    assert demos.rate == 25.0
    assert demos[0].contexts[1:, 0].tolist() == [i / 8 for i in range(1, 30)]


def test_decimal_commas_are_said(tmp_path):
    (tmp_path / "d.csv").write_text("x_0;a_0\n1,5;2\n3;4\n4;4\n")
    demos, said = told(tmp_path / "d.csv")
    assert demos[0].contexts[:, 0].tolist() == [1.5, 3.0, 4.0]
    assert "note      numbers have a decimal comma" in said


def test_a_decimal_comma_far_down_is_read_too(tmp_path):
    rows = [f"{i};{i}" for i in range(200_000)]
    rows[150_000] = "7,25;1"
    (tmp_path / "d.csv").write_text("\n".join(["x_0;a_0", *rows, ""]))
    demos = read(tmp_path / "d.csv", quiet=True)
    assert demos[0].contexts[150_000, 0] == 7.25
    assert demos[0].contexts[150_001, 0] == 150_001


@pytest.mark.parametrize(
    "text", ["x_0;a_0\n1,5;2\n3.5;4\n", "x_0;a_0\n3.5;2\n4;4\n1,5;4\n", "x_0;a_0\n1.234,5;2\n1,5;2\n"]
)
def test_points_and_commas_in_one_file_are_refused(tmp_path, text):
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(DataError, match=r"row \d, column 'x_0': '[\d.,]+' is not a number \("):
        read(tmp_path / "d.csv", quiet=True)


HUGE = ("1e400", "-1e999", "9" * 400, "9" * 5000)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl"])
@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("column", ["x_ball", "a_pan", "t"])
def test_numbers_beyond_float_are_refused_by_row(tmp_path, suffix, value, column):
    path = save(plain(), tmp_path / f"d{suffix}")
    data = gzip.decompress(path.read_bytes()) if suffix.endswith(".gz") else path.read_bytes()
    lines = data.decode().splitlines()
    row = 20  # counted from 1
    if suffix == ".jsonl":
        held = json.loads(lines[row - 1])
        lines[row - 1] = json.dumps({**held, column: "HERE"}).replace('"HERE"', value)
    else:
        fields = lines[row].split(",")
        fields[list(plain()).index(column)] = value
        lines[row] = ",".join(fields)
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)
    with pytest.raises(DataError, match=rf"row {row}") as caught:
        read(path, quiet=True)
    assert len(str(caught.value)) < 400


def test_wide_numbers_beyond_float_are_refused_by_row_in_typed_formats(tmp_path):
    columns = plain()
    columns["x_ball"] = [np.longdouble("1e400") if i == 19 else np.longdouble(i) for i in range(24)]
    with pytest.raises(DataError, match="row 20, column 'x_ball'"):
        read(save(columns, tmp_path / "d.npz"), quiet=True)


# All at once


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@examples
@given(data=st.data())
def test_many_disguises_at_once_are_seen_through(tmp_path_factory, mark, data):
    folder, columns = tmp_path_factory.mktemp("all"), plain(seed=data.draw(st.integers(0, 99)))
    expected = read(save(columns, folder / "d.csv"), quiet=True)
    unit, start = data.draw(st.sampled_from(("ms", "us", "ns"))), data.draw(st.sampled_from((0, 1_717_156_801)))
    per = int(UNITS[unit])
    dressed = {
        **data.draw(
            st.sampled_from(({}, {"": range(24)}, {"Unnamed: 0": range(24)}, {"__index_level_0__": range(24)}))
        ),
        **columns,
        "t": [start * per + i * per // 25 for i in range(12)] * 2,
    }
    names = data.draw(st.permutations(list(dressed)))
    comma = data.draw(st.booleans()) and mark != ","
    blank = data.draw(st.sampled_from(("", " ", "  ")))

    def write_field(value):
        return str(value).replace(".", ",") if comma and isinstance(value, float) else str(value)

    rows = [names, *zip(*(map(write_field, dressed[name]) for name in names), strict=True)]
    (folder / "e.csv").write_text("".join(f"{blank}{mark}{blank}".join(row) + "\n" for row in rows))
    same(read(folder / "e.csv", quiet=True), expected)


# Headers and texts


@pytest.mark.parametrize(
    "text",
    [
        "0.0,1.5,2.5\n0.1,1.6,2.6\n0.2,1.7,2.7\n",
        "mon,0.0,1.5,1.5\nmon,0.1,1.6,2.6\nmon,0.2,1.7,2.7\n",
        "2024-05-31T12:00:00,1.5,2.5\n2024-05-31T12:00:01,1.6,2.6\n",
    ],
)
@pytest.mark.parametrize("options", [{}, {"actions": "a_pan"}, {"actions": "2*"}])
def test_a_file_without_a_header_is_told(tmp_path, text, options):
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(DataError, match=r"d\.csv: the first row holds values .*, not names: put a header above it"):
        read(tmp_path / "d.csv", quiet=True, **options)


def test_columns_that_are_numbered_are_a_header(tmp_path):
    (tmp_path / "d.csv").write_text("0,1,2\n0.1,1.6,2.6\n0.2,1.7,2.7\n")
    assert read(tmp_path / "d.csv", actions="2", quiet=True).context_names == ("0", "1")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
@pytest.mark.parametrize(("texts", "rows"), [(600, 1000), (600, 5000), (3000, 5000)])
def test_a_column_that_begins_with_text_and_goes_on_with_numbers_is_told(tmp_path, suffix, texts, rows):
    columns = {
        "x_ball": ["warming up"] * texts + [0.5 * i for i in range(rows - texts)],
        "x_wind": [0.1] * rows,
        "name": ["Ann"] * rows,
        "a_pan": [0.25] * rows,
    }
    demos, said = told(save(columns, tmp_path / f"d{suffix}"))
    assert demos.context_names == ("x_wind",)
    assert "note      'x_ball' begins with text but holds numbers further down, and is left out" in said
    assert "'name'" not in said
    with pytest.raises(DataError, match="row 1, column 'x_ball': 'warming up' is not a number"):
        read(tmp_path / f"d{suffix}", contexts="x_*", quiet=True)


# Data frames


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.mark.parametrize("build", FRAMES.values(), ids=FRAMES)
def test_frames_are_read_as_files_are(capsys, build):
    columns = plain()
    del columns["t"], columns["z_leak"]
    expected = Demonstrations.from_frame(build(columns), actions="a_pan", sequence="sequence", rate=25.0)
    assert capsys.readouterr().err == ""
    dressed = {"Unnamed: 0": [*range(24)], "n": [*range(24)], **{f" {name} ": c for name, c in columns.items()}}
    demos = Demonstrations.from_frame(build(dressed), actions="A_pan", sequence="sequence", rate=25.0)
    assert demos.context_names == ("x_ball",)
    assert [x.tolist() for x in demos.contexts] == [x.tolist() for x in expected.contexts]
    assert demos.names == expected.names
    said = capsys.readouterr().err
    assert "left out  Unnamed: 0, n\n" in said
    bare = {name.strip().removeprefix("x_"): column for name, column in dressed.items()}
    assert Demonstrations.from_frame(build(bare), actions="a_pan", rate=25.0).context_names == ("ball",)
    assert "left out  n (counts rows), Unnamed: 0 (an index)" in capsys.readouterr().err
    columns["sequence"] = ["run 1"] * 12 + ["run 1 "] * 12
    Demonstrations.from_frame(build(columns), actions="a_pan", sequence="sequence")
    assert "the sequences 'run 1' and 'run 1 ' differ only in blanks" in capsys.readouterr().err


@pytest.mark.parametrize("build", [*FRAMES.values(), dict], ids=[*FRAMES, "arrays"])
def test_a_frame_is_understood_as_the_file_of_it_is(tmp_path, build):
    columns = {**plain(), "note": ["fine"] * 24, "person": ["ann"] * 12 + ["ben"] * 12}
    columns["t"] = [40 * i for i in range(12)] * 2
    demos, said = told(save(columns, tmp_path / "frame.csv"))
    mine, what = told(build(columns))
    same(mine, demos)
    assert what == said.replace("frame.csv", "frame")
    again = Demonstrations.from_frame(build(columns), time="t", time_unit="ms", gap=1.0, quiet=True)
    same(again, read(tmp_path / "frame.csv", time="t", time_unit="ms", gap=1.0, quiet=True))
    columns["x_ball"] = ["abc" if i == 7 else str(value) for i, value in enumerate(columns["x_ball"])]
    with pytest.raises(DataError, match="frame: row 8, column 'x_ball': 'abc' is not a number"):
        read(build(columns), contexts="x_ball", quiet=True)


def test_an_index_of_times_is_the_time_of_a_pandas_frame(capsys):
    for zone in (None, "Europe/Paris"):
        when = pd.date_range("2024-05-31 12:00", periods=5, freq="40ms", tz=zone)
        frame = pd.DataFrame({"ball": range(0, 10, 2), "action": range(5)}, index=when)
        assert read(frame).rate == 25.0
        assert "25 Hz inferred from column 't'" in capsys.readouterr().err
        assert read(frame.rename_axis("taken"), time="taken", quiet=True).context_names == ("ball",)


def test_what_is_no_frame_is_refused_with_the_way_out():
    with pytest.raises(ArgumentError, match=r"got LazyFrame: collect\(\) it"):
        read(pl.LazyFrame({"x_0": [1.0], "a_0": [1.0]}))
    for odd in (np.zeros((3, 2)), pd.Series([1.0, 2.0]), pl.Series([1.0])):
        with pytest.raises(
            ArgumentError, match=r"path must be a path or a list of paths; got .*: or give a data frame"
        ):
            read(odd)
    with pytest.raises(DataError, match=r"frame: .*: give columns of one length"):
        read({"x_0": [1.0, 2.0], "a_0": [1.0]})
    with pytest.raises(DataError, match=r"frame: its rows take .* MB of memory or more, and may take 1 MB"):
        read({"x_0": np.zeros(100_000), "a_0": np.zeros(100_000)}, max_memory=1)


def bare():
    """Return a context and an action, without a clock."""
    return {"x_ball": np.sin(np.arange(24)), "a_pan": np.cos(np.arange(24))}


@pytest.mark.parametrize(
    ("name", "per_second"),
    [
        ("t [min]", 1 / 60),
        ("time_min", 1 / 60),
        ("Time (h)", 1 / 3600),
        ("time_hours", 1 / 3600),
        ("time [d]", 1 / 86400),
    ],
)
def test_coarse_units_are_told_by_the_name(tmp_path, name, per_second):
    columns = {name: (np.arange(24) / 10.0 * per_second).round(12), **bare()}
    assert read(save(columns, tmp_path / "d.csv"), quiet=True).rate == pytest.approx(10.0, rel=1e-4)


@pytest.mark.parametrize(("unit", "per_second"), [("min", 1 / 60), ("h", 1 / 3600), ("d", 1 / 86400)])
def test_coarse_units_are_told_or_asked_for(tmp_path, unit, per_second):
    columns = {"t": np.arange(24) / 30.0 * per_second, **bare()}
    path = save(columns, tmp_path / "d.csv")
    assert read(path, time_unit=unit, quiet=True).rate == pytest.approx(30.0)
    assert read(path, rate=30.0, quiet=True).rate == 30.0
    asked = "time_unit='min', 'h' or 'd' if it is in minutes, hours or days, and 's' if it is in seconds"
    if unit == "min":
        assert f"'t' is taken for seconds (1,800 Hz): {asked}" in told(path)[1]
        assert "note" not in told(path, time_unit="s")[1]
    else:
        with pytest.raises(DataError, match=r"'t' in seconds would be [\d,]+ Hz: time_unit='min', 'h' or 'd' if"):
            read(path, quiet=True)


def test_a_lowest_temperature_is_no_time(tmp_path):
    columns = {"t_min": np.sin(np.arange(24)), "ball": np.cos(np.arange(24)), "a_pan": np.arange(24.0)}
    assert read(save(columns, tmp_path / "d.csv"), quiet=True).context_names == ("t_min", "ball")


def test_an_empty_time_is_told(tmp_path):
    demos, said = told(save({"t": [None] * 24, **bare()}, tmp_path / "d.csv"))
    assert (demos.rate, demos.context_names) == (None, ("x_ball",))
    assert "'t' is called like a time but holds nothing" in said


def test_contexts_that_never_change_are_told(tmp_path):
    _, said = told(save({"x_site": [3.0] * 24, **bare()}, tmp_path / "d.csv"))
    assert "note      x_site: the same in every row, which says nothing" in said


def test_a_key_that_stands_twice_is_refused(tmp_path):
    rows = ['{"ball": 1.5, "a_pan": 2.0}', '{"ball": 1.0, "when": "12:00:01", "a_pan": 2.0, "ball": -1.0}']
    (tmp_path / "d.jsonl").write_text("\n".join(rows))
    with pytest.raises(DataError, match=r"d\.jsonl: row 2: the key 'ball' stands there twice: which of both is meant"):
        read(tmp_path / "d.jsonl", quiet=True)


def test_text_in_one_file_of_several_is_an_error_there_and_in_most_a_text(tmp_path):
    for i in range(3):
        save({"x_ball": [f"({v})" if i == 1 else v for v in range(24)], "a_pan": np.ones(24)}, tmp_path / f"{i}.csv")
    with pytest.raises(DataError, match=r"1\.csv: row 1, column 'x_ball': '\(0\)' is not a number: mend it"):
        read(tmp_path, quiet=True)
    save({"x_ball": ["a"] * 24, "a_pan": np.ones(24)}, tmp_path / "0.csv")
    with pytest.raises(ArgumentError, match="no numeric column is left"):
        read(tmp_path, quiet=True)


def test_frames_that_are_lost_behind_an_even_time_are_told(tmp_path):
    frame = [*range(10), *range(15, 29)]
    path = save({"frame": frame, "t": np.arange(24) / 10.0, **bare()}, tmp_path / "d.csv")
    said = told(path)[1]
    assert "'frame' jumps where 't' goes on evenly, in d: frames are lost there, and the time was written anew" in said
    assert "lost" not in told(save({"frame": frame, "t": np.array(frame) / 10.0, **bare()}, path))[1]
    assert len(read(path, time="frame", rate=10.0, gap=0.3, quiet=True)) == 2


@pytest.mark.parametrize(
    ("odd", "taken"),
    [
        (np.full(24, 1j), False),
        (np.arange(24.0, dtype=np.longdouble), True),
        (pd.Series([10**30] * 24, dtype=object), True),
        (pd.Series([2**63, -1] * 12, dtype=object), True),
        (pd.Series([np.zeros((2, 2))] * 24), False),
        (pd.Series(list(np.zeros(24, "V4")), dtype=object), False),
        (pd.Series(["\ud800"] * 24, dtype=object), False),
        (pd.Series([pd.NA, 1.0] * 12, dtype=object), True),
        (pd.Series([{1}] * 24, dtype=object), False),
    ],
    ids=["complex", "long double", "10**30", "2**63", "tables", "bytes", "half characters", "NA", "sets"],
)
def test_whatever_a_frame_holds_is_read_or_left_out(odd, taken):
    demos = read(pd.DataFrame(bare()).assign(odd=odd), contexts=None if taken else "x_ball", quiet=True)
    assert demos.context_names == ("x_ball",)
    frame = pd.DataFrame(bare()).rename(columns={"x_ball": "ball"}).assign(odd=odd)
    assert read(frame, quiet=True).context_names == (("ball", "odd") if taken else ("ball",))


def test_what_is_masked_is_missing():
    hidden = np.ma.masked_array(np.arange(24.0), mask=np.arange(24) % 2 == 0)
    found = read({"x_ball": hidden, "a_pan": np.arange(24.0)}, quiet=True)[0].contexts[:, 0]
    assert np.isnan(found[::2]).all()
    assert found[1] == 1.0


def test_half_characters_are_refused(tmp_path):
    for name, row in (("label", '{"run": "\\ud800", "ball": 1, "a_pan": 2}'), ("name", '{"b\\ud800": 1, "a_pan": 2}')):
        (tmp_path / "d.jsonl").write_text("\n".join([row] * 24))
        with pytest.raises(DataError, match="half a character"):
            read(tmp_path / "d.jsonl", quiet=True)
        assert name


@pytest.mark.parametrize("text", ['"500,{}.5"', "1'{}", '"1.{},5"', "12 {}"])
def test_numbers_with_marks_between_thousands_are_told(tmp_path, text):
    column = [text.format(100 + i) for i in range(24)]
    path = save({"wish": column, **bare()}, tmp_path / "d.csv")
    demos, said = told(path)
    assert demos.context_names == ("x_ball",)
    assert "left out  wish (numbers with marks between their digits)" in said
    assert "wish: numbers with marks between their digits, as 1,234.5, and left out: write them without" in said
    assert "marks" not in told(save({"wish": ["192.168.0.1"] * 24, **bare()}, path))[1]
