"""Reading: which columns, which sequences, which time, and what is said about it."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.reading import read, values, write
from simile.data.reading.clock import infer_rate
from simile.data.reading.columns import ReadOptions
from simile.data.reading.reader import find_parts, read_all
from simile.data.reading.sequences import file_names
from simile.data.reading.tables import decoding
from simile.errors import ArgumentError, DataError

NAN = float("nan")
SHARED = Path(__file__).parents[2] / "shared" / "data"


def saved(tmp_path, file="d.csv", /, **columns):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(columns)
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


def columns_read(path, **options):
    demos = read(path, quiet=True, **options)
    return demos.context_names, demos.action_names


# Columns


def test_the_convention_of_letters_is_recognised(tmp_path):
    path = saved(tmp_path, x_0=[1], year=[3], x_1=[1], a_0=[1], a_1=[1], z_own=[1])
    assert columns_read(path) == (("x_0", "x_1"), ("a_0", "a_1"))
    assert columns_read(path, actions="a_1") == (("x_0", "x_1"), ("a_1",))


def test_without_x_all_other_numbers_are_contexts_but_not_those_of_the_actor(tmp_path):
    path = saved(tmp_path, ball=[1], name=["Ann"], a_0=[1], a_1=[1], z_own=[1], wind=[2.5])
    assert columns_read(path, actions="a_0") == (("ball", "wind"), ("a_0",))
    assert columns_read(path, actions="wind") == (("ball", "a_0", "a_1", "z_own"), ("wind",))


@pytest.mark.parametrize("names", [["action"], ["action.0", "action.1"], ["actions.0"], ["action_x", "action_y"]])
def test_columns_called_action_are_the_actions(tmp_path, names):
    path = saved(tmp_path, ball=[1], **{name: [1] for name in names})
    assert columns_read(path) == (("ball",), tuple(names))


def test_names_globs_and_regexes_choose_columns(tmp_path):
    path = saved(tmp_path, p0=[1], p1=[1], p10=[1], q=[1], pan=[1], tilt=[1])
    assert columns_read(path, actions=["tilt", "pan"], contexts="p*") == (("p0", "p1", "p10"), ("tilt", "pan"))
    assert columns_read(path, actions="pan", contexts=r"/^p\d$/") == (("p0", "p1"), ("pan",))
    assert columns_read(path, actions="/pan|tilt/", contexts=["q", "p?"])[0] == ("q", "p0", "p1")
    assert columns_read(path, actions="pan", contexts="*")[0] == ("p0", "p1", "p10", "q", "tilt")


def test_a_column_of_exactly_that_name_wins_over_a_pattern(tmp_path):
    path = saved(tmp_path, **{"p*": [1], "pan": [2], "/x/": [3], "x": [4]})
    assert columns_read(path, actions="p*", contexts="/x/") == (("/x/",), ("p*",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"actions: which columns are the actions\?.*actions=.*the columns are ball, pan"),
        ({"actions": "pann"}, r"actions: no column is 'pann' \(did you mean 'pan'\?\); the columns are ball, pan"),
        ({"actions": "a_*"}, r"actions: no column is 'a_\*'"),
        ({"actions": "/[/"}, "actions: '/./' is not a regular expression"),
        ({"actions": []}, "actions must name at least one column"),
        ({"actions": [1]}, "actions must be names of columns; got 1"),
        ({"actions": "pan", "contexts": "pan"}, "contexts: column 'pan' is named as actions already"),
        ({"actions": "*"}, "contexts: no numeric column is left"),
        ({"actions": "pan", "sequence": "*"}, r"sequence must be one column; '\*' matches ball, pan"),
        ({"actions": "pan", "rate": -1.0}, "rate must be > 0; got -1"),
        ({"actions": "pan", "gap": 0.0}, "gap must be > 0; got 0"),
        ({"actions": "pan", "gap": 1.0}, "gap needs a column of time"),
        ({"actions": "pan", "resample": 1.0}, "resample needs a column of time, .* or the rate"),
    ],
)
def test_arguments_that_do_not_fit_are_named_with_the_way_out(tmp_path, options, message):
    path = saved(tmp_path, ball=[1, 2], pan=[1, 2])
    with pytest.raises(ArgumentError, match=message):
        read(path, quiet=True, **options)


def test_a_nameless_index_is_no_context(tmp_path):
    pd.DataFrame({"ball": [1, 2], "action": [1, 2]}).to_csv(tmp_path / "d.csv")
    assert columns_read(tmp_path / "d.csv") == (("ball",), ("action",))


def test_one_slip_does_not_make_a_column_text(tmp_path):
    path = saved(tmp_path, ball=["1", "2", "3x", "4"], name=["a", "b", "c", "7"], a_0=[1, 2, 3, 4])
    with pytest.raises(DataError, match="row 3, column 'ball': '3x' is not a number"):
        read(path, quiet=True)


# Sequences and files


@pytest.mark.parametrize("name", ["sequence", "Episode", "episode_index", "RUN", "game", "trial"])
def test_the_sequence_column_is_recognised(tmp_path, name):
    path = saved(tmp_path, **{name: ["u", "u", "v"]}, x_0=[1, 2, 3], a_0=[1, 2, 3])
    assert [len(d) for d in read(path, quiet=True)] == [2, 1]


def test_interleaved_sequences_are_told_apart(tmp_path):
    path = saved(
        tmp_path, bird=["u", "v", "u", "v", "w"], t=[0.0, 0.0, 0.1, 0.1, 7.0], x_0=[1, 2, 3, 4, 5], a_0=[0] * 5
    )
    demos = read(path, sequence="bird", quiet=True)
    assert demos.names == ("u", "v", "w")
    assert [d.contexts[:, 0].tolist() for d in demos] == [[1, 3], [2, 4], [5]]
    assert demos.rate == 10.0


def test_several_files_are_a_sequence_each(tmp_path):
    for i in (10, 2, 1):
        saved(tmp_path, f"runs/run{i}.csv", x_0=[i, i], a_0=[1, 2])
    for path in (tmp_path / "runs", tmp_path / "runs" / "*.csv", str(tmp_path / "**" / "run*.csv")):
        demos = read(path, quiet=True)
        assert demos.names == ("run1", "run2", "run10")
        assert [int(d.contexts[0, 0]) for d in demos] == [1, 2, 10]
    files = [tmp_path / "runs" / "run2.csv", str(tmp_path / "runs" / "run1.csv")]
    assert read(files, quiet=True).names == ("run2", "run1")
    with pytest.raises(ArgumentError, match=r"run2\.csv is given twice"):
        read([files[0], files[0]], quiet=True)


def test_equal_stems_are_told_apart_by_their_folders(tmp_path):
    for name in ("mon/cam.csv", "tue/cam.csv", "tue/other.csv"):
        saved(tmp_path, name, x_0=[1], a_0=[1])
    assert read(tmp_path, quiet=True).names == ("mon/cam", "tue/cam", "other")


def test_files_of_one_stem_in_one_folder_keep_their_suffix(tmp_path):
    files = [saved(tmp_path, name, t=[0.0, 0.1, 5.0], x_0=[1] * 3, a_0=[1] * 3) for name in ("d.csv", "d.tsv", "e.csv")]
    assert read(files, quiet=True).names == ("d.csv", "d.tsv", "e")
    assert read(files, gap=1.0, quiet=True).names[:3] == ("d.csv/0", "d.csv/1", "d.tsv/0")


def test_several_files_may_hold_several_sequences(tmp_path):
    saved(tmp_path, "a.csv", game=["u", "v"], x_0=[1, 2], a_0=[1, 2])
    saved(tmp_path, "b.csv", game=["w", "w"], a_0=[3, 4], x_0=[3, 4])
    assert read(tmp_path, quiet=True).names == ("u", "v", "w")
    saved(tmp_path, "c.csv", game=["u", "v"], x_0=[5, 6], a_0=[1, 2])
    demos = read(tmp_path, quiet=True)
    assert demos.names == ("a/u", "a/v", "b/w", "c/u", "c/v")
    assert demos[3].contexts.tolist() == [[5.0]]


def test_files_that_differ_in_columns_are_named(tmp_path):
    saved(tmp_path, "a.csv", x_0=[1], a_0=[1])
    saved(tmp_path, "b.csv", x_0=[1], a_0=[1], wind=[1])
    with pytest.raises(DataError, match=r"b\.csv has the column 'wind', .*a\.csv has not"):
        read(tmp_path, quiet=True)


def test_a_column_that_is_empty_in_one_file_is_missing_there(tmp_path):
    saved(tmp_path, "a.csv", ball=[1.0], action=[1.0])
    saved(tmp_path, "b.csv", ball=[None], action=[2.0])
    demos = read(tmp_path, quiet=True)
    assert np.isnan(demos[1].contexts).all()


def test_paths_that_lead_nowhere_are_said(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.csv: there is no such file"):
        read(tmp_path / "nothing.csv")
    with pytest.raises(DataError, match=r"\*\.csv: no file matches the pattern"):
        read(tmp_path / "*.csv")
    with pytest.raises(DataError, match="there is no data file in this folder"):
        read(tmp_path)
    with pytest.raises(ArgumentError, match="path must be a path or a list of paths; got 7"):
        read(7)
    for odd in ([], [7]):
        with pytest.raises(ArgumentError, match="path must be a path"):
            read(odd)
    with pytest.raises(DataError, match="too long"):
        read("x" * 5000 + ".csv")
    with pytest.raises(ArgumentError, match="null"):
        read("a\0b.csv")
    (tmp_path / "d.xlsx").touch()
    with pytest.raises(ArgumentError, match=r"the suffix of 'd\.xlsx' is not known: use one of \.csv"):
        read(tmp_path / "d.xlsx")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder\.csv: there is no data file"):
        read(tmp_path / "folder.csv")


def test_a_folder_of_several_formats_is_refused(tmp_path):
    for name in ("d.csv", "d.parquet"):
        saved(tmp_path, name, x_0=[1.0], a_0=[1.0])
    with pytest.raises(ArgumentError, match=r"holds files of several formats \(\.csv, \.parquet\)"):
        read(tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everything is readable here")
def test_a_file_that_may_not_be_read_is_said(tmp_path):
    path = saved(tmp_path, x_0=[1], a_0=[1])
    path.chmod(0)
    with pytest.raises(DataError, match=r"d\.csv: permission denied"):
        read(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".jsonl", ".npz"])
def test_permission_denied_is_a_data_error(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"d{suffix}"
    write(Demonstrations.of(Demonstration([1.0], [1.0])), path)

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", denied)
    monkeypatch.setattr(pq, "read_metadata", denied)
    with pytest.raises(DataError, match=r"permission denied"):
        read(path)


# Time


def timed(tmp_path, times, *, name="t", parquet=False, **options):
    n = len(times)
    path = saved(tmp_path, f"d.{'parquet' if parquet else 'csv'}", **{name: times}, x_0=range(n), a_0=range(n))
    return read(path, quiet=True, **options)


@pytest.mark.parametrize(
    ("times", "rate"),
    [
        (np.arange(100) / 30.0, 30.0),
        (np.arange(100) / 29.97, 29.97),
        (np.arange(100) * 0.1, 10.0),
        (np.arange(100) * 86400.0 + 0.5, 1 / 86400),
        (np.arange(100) * 0.007, 142.8571429),
        (np.round(np.arange(100) / 30.0, 3), 30.0),
        (np.round(np.arange(20) / 30.0, 3), 30.0),
        (np.round(np.arange(3000) / 30.0, 3), 30.0),
        (np.round(np.arange(100) / 60.0, 3), 60.0),
        (np.round(np.arange(3000) / 60.0, 3), 60.0),
        (np.round(np.arange(3000) / 120.0, 3), 120.0),
        (np.round(np.arange(3000) * 1001 / 30000, 3), 29.97),
        (np.round(np.arange(3000) * 1001 / 60000, 3), 59.94),
        (np.round(np.arange(3000) * 1001 / 24000, 3), 23.976),
        (np.arange(3000, dtype=np.float32) / np.float32(30.0), 30.0),
        (1.7e9 + np.arange(1000) / 30.0, 30.0),
        (np.delete(np.arange(300) / 25.0, slice(100, 150)), 25.0),
    ],
)
def test_the_rate_is_inferred_from_seconds(tmp_path, times, rate):
    assert timed(tmp_path, np.asarray(times, dtype=np.float64)).rate == pytest.approx(rate, rel=1e-12)


@given(
    rate=st.builds(lambda d, p: float(f"{d}e{p}"), st.integers(1, 999_999), st.integers(-9, 3)), n=st.integers(2, 5000)
)
def test_an_exact_clock_gives_the_exact_rate(rate, n):
    assert infer_rate([("one", np.diff(np.arange(n) / rate))]) == rate


@pytest.mark.parametrize("rate", [10, 24, 25, 30, 50, 60, 90, 100, 120, 200])
@pytest.mark.parametrize("n", [15, 50, 1000])
@pytest.mark.parametrize("start", [0.0, 0.0123, 1234.5678])
def test_milliseconds_do_not_blur_a_usual_rate(rate, n, start):
    steps = np.diff(np.round(start + np.arange(n) / rate, 3))
    assert infer_rate([("one", steps)]) == pytest.approx(rate, rel=0.0 if n >= 50 else 1e-2)


def test_a_clock_that_is_off_keeps_its_rate(tmp_path):
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.normal(1 / 28.7, 0.001, size=3000))
    assert timed(tmp_path, times).rate == pytest.approx(28.7, rel=1e-3)


@pytest.mark.parametrize("name", ["frame", "frame_index", "Frame", "t"])
def test_frame_numbers_do_not_say_the_rate(tmp_path, name):
    assert timed(tmp_path, range(5), name=name).rate is None
    assert timed(tmp_path, range(5), name=name, rate=25.0).rate == 25.0
    assert timed(tmp_path, range(5), name=name, parquet=True).rate is None


def test_whole_seconds_are_seconds_if_written_so(tmp_path):
    assert timed(tmp_path, [0.0, 1.0, 2.0], parquet=True).rate == 1.0
    assert timed(tmp_path, [0, 5, 10]).rate == 0.2


def test_the_rate_that_is_said_wins(tmp_path, capsys):
    path = saved(tmp_path, t=np.arange(50) / 30.0, x_0=range(50), a_0=range(50))
    assert read(path, rate=25.0).rate == 25.0
    assert "25 Hz as said, but the steps of 't' say 30 Hz" in capsys.readouterr().err


def stamps(n, step=0.04, form="%Y-%m-%dT%H:%M:%S.%f"):
    return [(datetime(2024, 5, 31, 23, 59, 58) + timedelta(seconds=step * i)).strftime(form) for i in range(n)]


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%S.%f+02:00"])
def test_time_stamps_are_seconds(tmp_path, form):
    assert timed(tmp_path, stamps(100, form=form), name="timestamp").rate == 25.0
    assert timed(tmp_path, stamps(100, form=form), name="when", time="when", parquet=True).rate == 25.0


def test_days_are_seconds_too(tmp_path):
    assert timed(tmp_path, stamps(20, step=86400, form="%Y-%m-%d"), name="time").rate == 1 / 86400


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_typed_time_stamps_are_seconds(tmp_path, unit):
    times = pd.date_range("2024-05-31", periods=50, freq="20ms").as_unit(unit)
    assert timed(tmp_path, times, parquet=True).rate == 50.0
    assert timed(tmp_path, times.tz_localize("Europe/Paris"), parquet=True).rate == 50.0
    assert timed(tmp_path, times - times[0], parquet=True).rate == 50.0


def test_a_text_called_time_is_not_taken_for_one(tmp_path):
    assert timed(tmp_path, ["early", "late", "later"], name="time").rate is None


def test_an_empty_time_column_is_not_taken_for_one(tmp_path):
    assert timed(tmp_path, [None] * 3).rate is None


def test_a_time_stamp_that_is_none_is_named(tmp_path):
    with pytest.raises(DataError, match="row 3, column 't': '2024-13-01' is not a time: write ISO 8601"):
        timed(tmp_path, ["2024-01-01", "2024-01-02", "2024-13-01"])


@pytest.mark.parametrize("times", [[0.0, 0.1, 0.1, 0.2], [0.0, 0.1, 0.05, 0.2]])
def test_time_must_increase_inside_a_sequence(tmp_path, times):
    with pytest.raises(
        DataError, match=r"d\.csv: row 3, column 't': the time goes from 0\.1 to 0\.\d+, but must .*sort"
    ):
        timed(tmp_path, times)


def test_time_may_begin_anew_in_every_sequence(tmp_path):
    path = saved(tmp_path, t=[0.0, 0.5, 0.0, 0.5, 0.4], run=[1, 1, 2, 2, 2], x_0=[1] * 5, a_0=[1] * 5)
    with pytest.raises(DataError, match=r"row 5, column 't': the time goes from 0\.5 to 0\.4"):
        read(path, quiet=True)


def test_sequences_of_different_rates_are_refused_with_the_way_out(tmp_path):
    t = np.concatenate([np.arange(40) / 30.0, np.arange(40) / 25.0])
    path = saved(tmp_path, t=t, run=["u"] * 40 + ["v"] * 40, x_0=range(80), a_0=range(80))
    with pytest.raises(DataError, match=r"rates differ: (25|30) Hz in '.' and (25|30) Hz in '.': .* resample=(25|30)"):
        read(path, quiet=True)
    demos = read(path, resample=30.0, quiet=True)
    assert [len(d) for d in demos] == [40, 47]
    assert demos.rate == 30.0


def test_short_sequences_of_rounded_stamps_are_not_taken_for_other_rates(tmp_path):
    t = np.concatenate(
        [np.round(np.arange(2) / 30.0, 3), np.round(2 / 30.0 + np.arange(2) / 30.0, 3), np.arange(50) / 30.0]
    )
    path = saved(tmp_path, t=t, run=[0, 0, 1, 1] + [2] * 50, x_0=range(54), a_0=range(54))
    assert read(path, quiet=True).rate == pytest.approx(30.0, rel=1e-2)


# Gaps and resampling


def test_a_gap_begins_a_new_sequence(tmp_path):
    demos = timed(tmp_path, [0.0, 0.1, 0.2, 5.0, 5.1, 9.0], gap=1.0)
    assert demos.names == ("d/0", "d/1", "d/2")
    assert [d.actions[:, 0].tolist() for d in demos] == [[0, 1, 2], [3, 4], [5]]
    assert demos.rate == 10.0
    assert timed(tmp_path, [0.0, 0.1, 0.2], gap=1.0).names == ("d",)


def test_gaps_of_frame_numbers_need_the_rate(tmp_path):
    frames = [0, 1, 2, 50, 51]
    assert [len(d) for d in timed(tmp_path, frames, name="frame", gap=1.0, rate=10.0)] == [3, 2]
    with pytest.raises(ArgumentError, match=r"gap is in seconds, but 'frame' counts frames: .* rate="):
        timed(tmp_path, frames, name="frame", gap=1.0)


def test_resampling_is_linear_and_keeps_what_is_missing(tmp_path):
    path = saved(tmp_path, t=[0.0, 1.0, 2.0, 4.5], x_0=[0.0, 10.0, NAN, 40.0], x_1=[7.0] * 4, a_0=[0.0, 1.0, 2.0, 7.0])
    demos = read(path, resample=2.0, quiet=True)
    assert demos.rate == 2.0
    assert demos[0].actions[:, 0] == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], rel=1e-12)
    # At 1.5 the nearer of a tie is the earlier; from 3.5 on the nearer one is there again.
    expected = [0.0, 5.0, 10.0, 10.0, NAN, NAN, NAN, 40.0, 40.0, 40.0]
    assert np.array_equal(demos[0].contexts[:, 0], expected, equal_nan=True)
    assert (demos[0].contexts[:, 1] == 7.0).all()


@given(data=st.data())
def test_resampling_at_its_own_rate_changes_nothing(tmp_path_factory, data):
    n, rate = data.draw(st.integers(1, 50)), data.draw(st.sampled_from([0.1, 3.0, 29.97, 30.0, 1000.0]))
    rng = np.random.default_rng(n)
    demos = Demonstrations.of(Demonstration(rng.normal(size=(n, 2)), rng.normal(size=n), rate))
    path = tmp_path_factory.getbasetemp() / "own.parquet"
    write(demos, path)
    again = read(path, resample=rate, quiet=True)
    assert np.array_equal(again[0].contexts, demos[0].contexts)
    assert np.array_equal(again[0].actions, demos[0].actions)


def test_resampling_without_time_goes_by_the_rate(tmp_path):
    path = saved(tmp_path, x_0=[0.0, 1.0, 2.0], a_0=[0.0, 1.0, 2.0])
    demos = read(path, rate=10.0, resample=20.0, quiet=True)
    assert demos[0].actions[:, 0].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    frames = timed(tmp_path, [0, 1, 3], name="frame", rate=10.0, resample=10.0)
    assert frames[0].actions[:, 0].tolist() == [0.0, 1.0, 1.5, 2.0]


def test_a_jump_of_time_is_not_filled_with_millions_of_frames(tmp_path):
    with pytest.raises(DataError, match=r"resample=30 would make 5\.1e\+10 frames of the 3 of 'd'.*gap="):
        timed(tmp_path, [0.0, 0.1, 1.7e9], resample=30.0, gap=2e9)
    assert len(timed(tmp_path, [0.0, 0.1, 1.7e9], resample=30.0, gap=1.0)) == 2


def test_a_pause_is_not_filled_with_what_nobody_did(tmp_path):
    times = [*range(20), *range(60, 80)]
    words = (
        "the time of 'd' jumps by 41 s, and resample=2 would fill that with a straight line of 82 frames: gap=3 cuts"
    )
    with pytest.raises(DataError, match=words):
        timed(tmp_path, times, time_unit="s", resample=2.0)
    assert len(timed(tmp_path, times, time_unit="s", resample=2.0, gap=3.0)) == 2
    assert len(timed(tmp_path, times, time_unit="s", resample=2.0, gap=41.41)[0]) == 159


# The summary


def summary(capsys, *args, **options):
    capsys.readouterr()
    read(*args, **options)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_the_summary_says_what_was_guessed(tmp_path, capsys):
    n = 600
    path = saved(
        tmp_path,
        "games.csv",
        game=np.repeat(["u", "v"], n // 2),
        t=np.tile(np.arange(n // 2) / 30.0, 2),
        **{f"player{i}": np.arange(n) ** 2 % (97 + i) for i in range(5)},
        ball=np.where(np.arange(n) < 12, NAN, np.arange(n) ** 2 % 89),
        referee=["Ann"] * n,
        z_speed=[1.0] * n,
        a_pan=np.arange(n),
    )
    assert summary(capsys, path).splitlines() == [
        "games.csv: 2 sequences by column 'game', 600 frames (300 each), 30 Hz inferred from column 't'",
        "  actions   a_pan",
        "  contexts  player0 ... ball (6)",
        "  missing   0.33 % of contexts, most in ball (2 %)",
        "  left out  referee (text), z_speed",
    ]
    assert summary(capsys, path, quiet=True) == ""


def test_the_summary_tells_of_irregular_time(tmp_path, capsys):
    times = np.arange(100) / 30.0
    times[60:] += 0.4
    path = saved(tmp_path, t=times, x_0=np.arange(100) ** 2 % 97, a_0=range(100))
    note = summary(capsys, path).splitlines()[-1]
    assert note == (
        "  note      1 of 99 steps of 't' (1 %) are more than 10 % off 0.03333 s (the longest: 0.4333 s in 'd'): "
        "resample=30 or gap=0.1 evens it out"
    )
    assert "note" not in summary(capsys, path, gap=0.1)
    assert "30 Hz resampled from 30 Hz by column 't'" in summary(capsys, path, resample=30.0)


def test_the_summary_tells_of_jumps_of_frame_numbers(tmp_path, capsys):
    path = saved(tmp_path, frame=[0, 1, 2, 9, 10], x_0=range(5), a_0=range(5))
    said = summary(capsys, path)
    assert "rate unknown ('frame' counts frames: rate=... says how many a second)" in said
    assert "1 of 4 steps of 'frame' (25 %) are not 1 (the longest: 7 frame numbers in 'd')" in said


def test_the_summary_of_several_files_counts_them(tmp_path, capsys):
    for i in range(3):
        saved(tmp_path, f"{i}.csv", x_0=[1], a_0=[1])
    assert summary(capsys, tmp_path).startswith(
        "3 files: 3 sequences of one file each, 3 frames (1 each), rate unknown\n"
    )


# Real data


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data are not here")
@pytest.mark.parametrize(
    ("name", "sequences", "frames", "rate"),
    [("car_following", 39, 62_445, 10.0), ("reservoir", 29, 10_559, None), ("head360", 136, 47_599, 10.0)],
)
def test_real_data_need_no_options(name, sequences, frames, rate):
    demos = read(SHARED / name / f"{name}.csv", quiet=True)
    assert (len(demos), demos.n_frames, demos.rate) == (sequences, frames, rate)
    assert all(n.startswith("x_") for n in demos.context_names)
    assert all(n.startswith("a_") for n in demos.action_names)


# Episodes, Minari, LeRobot


def test_files_named_by_relative_and_by_absolute_paths_are_told_apart():
    paths = [Path("a/x.csv"), Path("/b/x.csv"), Path("c/y.csv.gz")]
    assert file_names(paths) == ["a/x", "/b/x", "y"]


# Where the fast reader gives up, and what is neither a label nor a time


def test_a_row_without_a_label_is_named_where_numbers_are_read_one_by_one_too(tmp_path):
    rows = ["sequence,a_pan,x_ball", *["one,1.5,2"] * 3, ",1.5,2", *["one,NA,2"] * 3]  # NA is no number to pyarrow
    path = tmp_path / "d.csv"
    path.write_text("\n".join(rows) + "\n")
    with pytest.raises(DataError, match=r"d\.csv.*row 4.*'sequence'"):
        read(path, quiet=True)


@pytest.mark.parametrize("label", [None, NAN])
def test_what_is_missing_is_no_label(label):
    with pytest.raises(DataError, match=r"d\.csv.*row 3.*'play'"):
        values.as_labels(["a", 7, label], "play", values.Place(Path("d.csv"), 1))


def test_a_number_is_no_moment():
    with pytest.raises(DataError, match=r"d\.csv.*row 2.*'t'.*3"):
        values.as_times(["2024-05-31", 3], "t", values.Place(Path("d.csv"), 1), stamps=True)


# Parts of a file


@given(data=st.data())
def test_the_parts_of_a_file_are_together_what_is_read_of_the_whole(tmp_path_factory, data):
    """However sequences follow each other, go on side by side or come back, and wherever row groups end."""
    runs = data.draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), min_size=1, max_size=12))
    labels = np.repeat([label for label, _ in runs], [n for _, n in runs])
    rng = np.random.default_rng(len(labels))
    frames = pd.Series(labels).groupby(labels).cumcount().to_numpy()  # of each sequence, one rate for all
    columns = {"run": labels, "t": frames / 10.0, "x_0": rng.normal(size=len(labels))}
    path = tmp_path_factory.getbasetemp() / "parts.parquet"
    frame = pd.DataFrame({**columns, "a_0": rng.normal(size=len(labels))})
    frame.to_parquet(path, row_group_size=data.draw(st.integers(1, 20)))
    wished = data.draw(st.lists(st.integers(0, len(labels)), max_size=5))
    whole = read(path, group="sequence", quiet=True)
    parts = find_parts(path, wished, group="sequence")
    assert [part.rows for part in parts] == list(pairwise([0, *(p.rows[1] for p in parts)]))
    assert parts[-1].rows[1] == len(labels)
    found = [demo for part in parts for demo in read_all(path, ReadOptions(group="sequence"), part)[0]]
    assert Demonstrations(tuple(found)).digest() == whole.digest()


@pytest.mark.parametrize("trouble", [MemoryError(), OSError("Unknown error: Failed to launch worker thread: again")])
def test_a_decoder_without_memory_says_so(trouble: Exception):
    """Arrow has another word for it where a limit leaves no room for the stack of a thread."""
    with pytest.raises(DataError, match=r"d.feather: it takes more memory .*--max-memory"), decoding("d.feather", "it"):
        raise trouble
