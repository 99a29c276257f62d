"""`repair=True`: what is mended, how it is told, and what is refused with it and without."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from commands import simile_
from odd_files import KINDS, RIGHT, look
from plants import PLANTS
from simile.data.reading import read
from simile.data.reading.columns import ReadOptions
from simile.data.reading.reader import read_all
from simile.errors import DataError, SimileError

MILD = [kind for kind in KINDS.values() if kind.mild]


@pytest.mark.parametrize(("kind", "plant"), [(k, PLANTS[i % 3]) for i, k in enumerate(MILD)], ids=lambda x: x.name)
def test_mild_damage_is_refused_with_the_way_out_and_mended_with_a_note(kind, plant, tmp_path: Path):
    odd = kind.spoil(plant, plant.make(2, seed=3), np.random.default_rng(3), tmp_path)
    with pytest.raises(SimileError, match=r"repair=True \(--repair\)"):
        odd.read(odd.source, **odd.options)
    seen = look(kind, plant, odd, repair=True)
    assert any(note.startswith("repaired: ") for note in seen.told)
    assert seen.outcome == RIGHT or (odd.truth is None and seen.demos is not None)


def read_csv(folder: Path, text: str | bytes, **options: Any) -> tuple[simile.Demonstrations, list[str]]:
    """Read text as CSV with repair; return the notes on repairs, too."""
    (folder / "g.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    return read_notes(folder / "g.csv", **options)


def read_notes(source: Any, **options: Any) -> tuple[simile.Demonstrations, list[str]]:
    demos, summary = read_all(source, ReadOptions(repair=True, **options))
    return demos, [note.removeprefix("repaired: ") for note in summary.notes if note.startswith("repaired: ")]


def rows(n: int = 40, **columns: Any) -> pd.DataFrame:
    t = np.arange(n) / 10.0
    return pd.DataFrame({"t": t, "x_0": np.sin(t), "a_0": np.cos(t), **columns})


WORDS = "words for missing values read as missing"
ODD = "rows with too few or too many fields dropped"
NO_ACTION = "rows without an action dropped, and recordings cut there"
TABLE = "t,x_0,a_0\n0.0,1,2\n0.1,3,4\n0.2,5,6\n"


@pytest.mark.parametrize(
    ("text", "note", "x"),
    [
        (
            TABLE.replace("0.2", "0.1,3,4\n0.2"),
            "duplicate rows dropped: 1 (first: g.csv, row 3, column 't')",
            [1, 3, 5],
        ),
        (
            TABLE.replace("0.2", "0.1,3,9\n0.2"),
            "rows with the time of another row dropped: 1 (first: g.csv, row 3",
            [1, 3, 5],
        ),
        (TABLE + "0.05,7,8\n", "late rows put in order: 1 (first: g.csv, row 4, column 't')", [1, 7, 3, 5]),
        (TABLE.replace("3", "ERR"), f"{WORDS}: 1 (first: g.csv, row 2, column 'x_0')", [1, np.nan, 5]),
        (TABLE.replace("4", "N.A."), "missing actions bridged by lines: 1 (first: g.csv, row 2)", [1, 3, 5]),
        (TABLE.replace("6", ""), f"{NO_ACTION}: 1 (first: g.csv, row 3)", [1, 3]),
        ("Logger;3\n\nserial 7\n" + TABLE, "lines above the header left out: 2 (first: g.csv)", [1, 3, 5]),
        ("serial,7,x\n" + TABLE, "lines above the header left out: 1 (first: g.csv)", [1, 3, 5]),
        (TABLE.replace("a_0\n", "a_0\n[s],m/s,\n"), "rows of units left out: 1 (first: g.csv, row 1)", [1, 3, 5]),
        (TABLE + "0.3,7\n0.4,7,8,9\n", f"{ODD}: 2 (first: g.csv, row 4)", [1, 3, 5]),
        (TABLE.replace("x_0", "x_é").encode("cp1252"), "texts that are not UTF-8 decoded: 1 (first: g.csv)", [1, 3, 5]),
        (TABLE.encode("utf-16"), "texts that are not UTF-8 decoded: 1 (first: g.csv)", [1, 3, 5]),
    ],
)
def test_each_kind_of_damage_is_mended_and_counted(tmp_path: Path, text, note, x):
    demos, notes = read_csv(tmp_path, text)
    assert demos[0].contexts[:, 0] == pytest.approx(x, nan_ok=True)
    assert any(told.startswith(note) for told in notes)


def test_clean_files_are_read_as_without_repair_and_nothing_is_told(tmp_path: Path):
    for text in (TABLE, TABLE.replace(",", ";"), "t;x_0;a_0\n" + "".join(f"{i};{i},5;{i},25\n" for i in range(30))):
        demos, notes = read_csv(tmp_path, text)
        assert notes == []
        assert demos.digest() == read(tmp_path / "g.csv", quiet=True).digest()


def test_short_gaps_of_actions_are_bridged_and_long_ones_cut(tmp_path: Path):
    frame = rows(100)
    frame.loc[20:24, "a_0"] = np.nan
    frame.loc[60:69, "a_0"] = np.nan
    demos, notes = read_notes(frame)
    assert [len(d) for d in demos] == [60, 30]
    assert notes == [
        "missing actions bridged by lines: 5 (first: frame, row 21)",
        "rows without an action dropped, and recordings cut there: 10 (first: frame, row 61)",
    ]
    line = np.interp(np.arange(20, 25), [19, 25], frame["a_0"][[19, 25]])
    assert demos[0].actions[20:25, 0] == pytest.approx(line)


def test_half_a_second_of_actions_is_bridged_where_frames_are_short():
    frame = rows(400, t=np.arange(400) / 100.0)
    frame.loc[100:139, "a_0"] = np.nan
    demos, _ = read_notes(frame)
    assert len(demos) == 1


def test_outages_and_a_clock_that_begins_anew_cut_recordings():
    frame = rows(90)
    frame.loc[30:, "t"] += 60.0
    frame.loc[60:, "t"] = np.arange(30) / 10.0  # and its rows stand nowhere twice
    demos, notes = read_notes(frame)
    assert [len(d) for d in demos] == [30, 30, 30]
    assert notes == [
        "recordings cut where the clock begins anew: 1 (first: frame, row 61, column 't')",
        "recordings cut at outages of the clock: 1 (first: frame, row 31)",
    ]
    demos, notes = read_notes(frame[:60], gap=100.0)  # what is said wins
    assert len(demos) == 1
    assert notes == []


def test_what_is_logged_at_odd_times_is_not_cut_to_pieces():
    t = np.cumsum(np.random.default_rng(0).choice([0.1, 5.0], 100))
    assert len(read_notes(rows(100, t=t))[0]) == 1


@pytest.mark.parametrize(
    "t",
    [np.arange(40)[::-1] / 10.0, np.floor(np.arange(40) / 4.0), np.random.default_rng(0).permutation(40) / 10.0],
    ids=["reversed", "coarse", "shuffled"],
)
def test_another_order_and_a_coarse_clock_are_not_mended(t):
    with pytest.raises(
        DataError, match=r"frame: row \d+, column 't': the time goes from .* sort the rows by it"
    ) as told:
        read(rows(t=t), repair=True)
    assert "--repair" not in str(told.value)


def test_what_no_repair_can_mend_is_refused_in_a_sentence(tmp_path: Path):
    for text, message in {
        "": "the file is empty",
        "t,x_0,a_0\n": "there is a header but no row",
        "1.5,2,3\n1.6,2.5,3\n": "the first row holds values",
        TABLE.replace("3", "abc"): r"g.csv: row 2, column 'x_0': 'abc' is not a number",
        TABLE + 'x,"1': r"row 4: cannot be read as CSV",
        "t,x_0,a_0\n0,1,\n1,2,\n": r"g.csv: no row has all actions",
    }.items():
        with pytest.raises(DataError, match=message):
            read_csv(tmp_path, text)
    for codec in ("utf-8", "utf-16"):
        with pytest.raises(DataError, match=r"its rows take \d+ MB of memory or more, and may take 10 MB"):
            read_csv(tmp_path, (TABLE + "0.3,7,8\n" * 250_000).encode(codec), max_memory=10)


def test_words_among_numbers_are_missing_whichever_way_they_come_in(tmp_path: Path):
    mixed = [0.5, "n.a.", None, "#DIV/0!", *np.linspace(0.0, 1.0, 36)]
    texts = [None if v is None else str(v) for v in mixed]
    rows(x_0=texts).to_parquet(tmp_path / "g.parquet")
    (tmp_path / "g.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows(x_0=mixed).to_dict("records")))
    np.savez(tmp_path / "g.npz", **{**rows(), "x_0": np.array([str(v) for v in mixed])})
    sources = (
        rows(x_0=mixed),
        pl.DataFrame(rows(x_0=texts)),
        *(tmp_path / f"g.{s}" for s in ("parquet", "jsonl", "npz")),
    )
    for source in sources:
        demos, notes = read_notes(source)
        assert np.flatnonzero(np.isnan(demos[0].contexts[:, 0])).tolist() == [1, 2, 3]
        assert [note.split(" (")[0] for note in notes] == ["words for missing values read as missing: 2"]
        assert "row 2, column 'x_0'" in notes[0]


def test_labels_are_no_words(tmp_path: Path):
    frame = rows(who=["?", "-"] * 20, sequence=["missing"] * 20 + ["bad"] * 20)
    demos, notes = read_notes(frame)
    assert demos.names == ("missing", "bad")
    assert notes == []


def test_files_of_a_folder_that_are_no_data_are_left_out(tmp_path: Path):
    for name in "ab":
        rows().to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "notes.txt").write_text("rain\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "scores.csv").write_text("game,score\n1,2\n2,3\n")
    demos, notes = read_notes(tmp_path)
    assert demos.names == ("a", "b")
    assert notes == ["files that hold no data left out: 3 (first: notes.txt)"]
    (tmp_path / "a.csv").unlink()
    (tmp_path / "b.csv").unlink()
    with pytest.raises(SimileError):
        read(tmp_path, repair=True)


def test_as_many_files_of_two_formats_are_not_chosen_between(tmp_path: Path):
    rows().to_csv(tmp_path / "a.csv", index=False)
    rows().to_parquet(tmp_path / "a.parquet")
    for repair in (False, True):
        with pytest.raises(SimileError, match="several formats") as told:
            read(tmp_path, repair=repair)
        assert "--repair" not in str(told.value)


def test_from_frame_repairs_too_and_says_so(capsys):
    frame = pd.concat([rows(), rows()[:1]])
    with pytest.raises(DataError, match="repair=True"):
        simile.Demonstrations.from_frame(frame)
    assert len(simile.Demonstrations.from_frame(frame, repair=True)[0]) == 40
    assert "duplicate rows dropped: 1 (first: frame, row 41" in capsys.readouterr().err


def test_recordings_keep_frames_and_numbers_beside_each_other(tmp_path: Path):
    with simile.Recorder(tmp_path / "r") as recorder:
        demos = simile.tasks.pursuit(n_sequences=2, length=60, n_players=2)
        predictor = simile.Predictor(simile.learn(demos, model=simile.Ridge()).policy, recorder=recorder)
        for i, x in enumerate(demos[0].contexts):
            predictor.override(demos[0].actions[i], x, i / 30.0)
    plain = read(tmp_path / "r", quiet=True)
    again, notes = read_notes(tmp_path / "r")
    assert (again.digest(), notes) == (plain.digest(), [])


# ------------------------------------------------------------------------------------------------- several at once


@dataclass
class Spoiled:
    """Rows of a clean table that are spoiled: what is left of which is expected, and how often each kind is."""

    table: list[dict[str, Any]]
    rng: np.random.Generator
    free: list[int]  # rows far from each other and from the ends, by number
    counts: dict[str, int] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)  # rows, by number, that are not read any more
    bridged: set[int] = field(default_factory=set)

    def place(self) -> int:
        """Draw a row that nothing has befallen, and return where it stands now."""
        number = self.free.pop()
        return next(i for i, row in enumerate(self.table) if row["x_number"] == NUMBERS[number])

    def add(self, kind: str, n: int = 1) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + n


NUMBERS = np.random.default_rng(0).permutation(1000) + 0.25  # what a row is known by: no clock, and none counts
PER_SEQUENCE = 96


def twice(s: Spoiled) -> None:
    i = s.place()
    s.table.insert(i + 1, dict(s.table[i]))
    s.add("duplicate rows dropped")


def other(s: Spoiled) -> None:
    i = s.place()
    s.table.insert(i + 1, {**s.table[i], "x_0": 99.5})
    s.add("rows with the time of another row dropped")


def late(s: Spoiled) -> None:
    i = s.place()
    s.table.insert(i + 3, s.table.pop(i))
    s.add("late rows put in order")


def word(s: Spoiled) -> None:
    s.table[s.place()]["x_0"] = str(s.rng.choice(["ERR", "missing", "-", "--", "#N/A", "N.A.", "1.#QNAN", "nil", "?"]))
    s.add(WORDS)


def short_gap(s: Spoiled) -> None:
    i = s.place()
    for row in s.table[i : i + 3]:
        row["a_0"] = None
        s.bridged.add(number_of(row))
    s.add("missing actions bridged by lines", 3)


def long_gap(s: Spoiled) -> None:
    i = s.place()
    for row in s.table[i : i + 7]:
        row["a_0"] = None
        s.gone.add(number_of(row))
    s.add(NO_ACTION, 7)


def outage(s: Spoiled) -> None:
    i = s.place()
    s.gone |= {number_of(row) for row in s.table[i : i + 11]}
    del s.table[i : i + 11]
    s.add("recordings cut at outages of the clock")


def number_of(row: dict[str, Any]) -> int:
    return int(np.flatnonzero(row["x_number"] == NUMBERS)[0])


def odd_row(s: Spoiled) -> None:
    s.table[s.place()]["odd"] = True


def save_text(s: Spoiled, folder: Path, damages: set[str]) -> Path:
    """Write a table as CSV with what befalls text alone."""
    names = list(s.table[0])
    lines = [
        "" if row.get("odd") else ",".join("" if row[n] is None else str(row[n]) for n in names) for row in s.table
    ]
    for i, row in enumerate(s.table):
        if row.get("odd"):
            lines[i] = "1,2" if s.rng.random() < 0.5 else ",".join("9" * (len(names) + 2))
            s.gone.add(number_of(row))
            s.add(ODD)
    head = [",".join(names)]
    if "units" in damages:
        head.append(",s" + ",m" * (len(names) - 2))
        s.add("rows of units left out")
    if "preamble" in damages:
        head = ["Logger 3.1;serial 0042", "Exported 31.05.2024", *head]
        s.add("lines above the header left out", 2)
    codec = next(iter(damages & {"cp1252", "utf-16"}), "utf-8")
    if codec != "utf-8":
        head[-1 - ("units" in damages)] += "é"
        s.add("texts that are not UTF-8 decoded")
    (folder / "g.csv").write_bytes("\n".join([*head, *lines, ""]).encode(codec))
    return folder / "g.csv"


def save(s: Spoiled, folder: Path, door: str, damages: set[str]) -> Any:
    """Hand a table out in a format."""
    if door == "csv":
        return save_text(s, folder, damages)
    if door == "jsonl":
        (folder / "g.jsonl").write_text("".join(json.dumps(row) + "\n" for row in s.table))
        return folder / "g.jsonl"
    frame = pd.DataFrame(s.table)
    if door == "pandas":
        return frame
    if frame["x_0"].dtype == object:
        frame["x_0"] = frame["x_0"].astype(str)
    if door == "polars":
        return pl.DataFrame(frame)
    frame.to_parquet(folder / "g.parquet")
    return folder / "g.parquet"


BEFALL = {f.__name__: f for f in (twice, other, late, word, short_gap, long_gap, outage, odd_row)}
TEXTS = {"units", "preamble", "cp1252", "utf-16"}


@given(
    st.lists(st.sampled_from(sorted(BEFALL)), max_size=6),
    st.sets(st.sampled_from(sorted(TEXTS)), max_size=3),
    st.sampled_from(["csv", "jsonl", "parquet", "pandas", "polars"]),
    st.sampled_from([0.001, 1.0, 1e6]),
    st.integers(1, 3),
    st.integers(0, 9),
)
def test_several_damages_at_once_leave_the_clean_values_and_are_counted(
    tmp_path_factory, befall, texts, door, scale, n, seed
):
    rng = np.random.default_rng(seed)
    x, a = scale * rng.normal(size=(n * PER_SEQUENCE, 1)), scale * rng.normal(size=n * PER_SEQUENCE)
    clock = {"sequence": [f"g{i // PER_SEQUENCE}" for i in range(len(x))], "t": np.arange(len(x)) % PER_SEQUENCE / 10.0}
    table = pd.DataFrame({**clock, "x_number": NUMBERS[: len(x)], "x_0": x[:, 0], "a_0": a}).to_dict("records")
    spaced = [k * PER_SEQUENCE + i for k in range(n) for i in range(8, PER_SEQUENCE - 16, 14)]
    s = Spoiled(table, rng, rng.permutation(spaced).tolist())
    for name in befall:
        if name != "odd_row" or door == "csv":
            BEFALL[name](s)
    demos, notes = read_notes(save(s, tmp_path_factory.mktemp("g"), door, texts))
    found = {kind: int(n) for kind, n in (note.split(" (first: ")[0].split(": ") for note in notes)}
    assert found == s.counts
    numbers = [int(np.flatnonzero(v == NUMBERS)[0]) for d in demos for v in d.contexts[:, 0]]
    assert numbers == [i for i in range(len(x)) if i not in s.gone]  # each once, in order
    read_x, read_a = np.vstack(demos.contexts)[:, 1], np.vstack(demos.actions)[:, 0]
    there = ~np.isnan(read_x)
    assert (~there).sum() == s.counts.get(WORDS, 0)
    assert np.array_equal(read_x[there], x[numbers, 0][there])
    acted = [i not in s.bridged for i in numbers]
    assert np.array_equal(read_a[acted], a[numbers][acted])
    assert np.isfinite(read_a).all()


# --------------------------------------------------------------------------------------------------------- commands


def test_commands_repair_and_the_run_remembers_it(tmp_path: Path):
    simile.write(simile.tasks.pursuit(n_sequences=4, length=60, n_players=2), tmp_path / "g.csv")
    lines = (tmp_path / "g.csv").read_text().splitlines(keepends=True)
    (tmp_path / "g.csv").write_text("".join([*lines[:30], lines[29], *lines[30:]]))
    words = ("train", "g.csv", "--actions", "pan", "--model", "Ridge()", "--out", "run", "--no-report")
    assert "or let repair=True (--repair) mend it" in simile_(*words, cwd=tmp_path, code=2).stderr
    assert "duplicate rows dropped: 1 (first: g.csv, row 30" in simile_(*words, "--repair", cwd=tmp_path).stderr
    assert "repair = true" in (tmp_path / "run" / "config.toml").read_text()
    assert "duplicate rows" in simile_("evaluate", "run/policy.safetensors", "g.csv", "--repair", cwd=tmp_path).stderr


def test_describe_tells_what_it_found_and_mended(tmp_path: Path):
    (tmp_path / "g.csv").write_text("Logger 3\n" + TABLE)
    said = simile_("describe", "g.csv", cwd=tmp_path).stdout
    assert "note       as it is, it is refused: g.csv: row 1" in said
    assert "note       repaired: lines above the header left out: 1 (first: g.csv)" in said
    notes = json.loads(simile_("describe", "g.csv", "--json", cwd=tmp_path).stdout)["notes"]
    assert notes[-1] == "repaired: lines above the header left out: 1 (first: g.csv)"
    (tmp_path / "g.csv").write_bytes(b"\x00\x01\xff nothing")
    assert "there is a header but no row" in simile_("describe", "g.csv", cwd=tmp_path, code=2).stderr


def test_pieces_that_repair_has_cut_are_held_out_together(tmp_path: Path):
    t = np.concatenate([np.arange(40), np.arange(30)]) / 10.0  # a clock that was set back
    for name in ("a", "b", "c", "d"):
        columns = {"t": t, "x_ball": np.sin(np.arange(70.0)), "a_pan": np.cos(np.arange(70.0))}
        pd.DataFrame(columns).to_csv(tmp_path / f"{name}.csv", index=False)
    demos = simile.read(tmp_path, repair=True, quiet=True)
    assert demos.names[:3] == ("a/0", "a/1", "b/0")
    assert demos.groups == tuple("aabbccdd")
