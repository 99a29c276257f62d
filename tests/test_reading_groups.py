"""Reading: which sequences belong together, as named, as a file says, or as names and clocks tell beyond doubt."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile import tasks
from simile.data.demonstrations import Demonstrations
from simile.data.reading import read, write
from simile.errors import ArgumentError, DataError

SHARED = Path(__file__).parents[2] / "shared" / "data"
ROWS = 6  # frames of a sequence below


def table(people, **columns) -> pd.DataFrame:
    """A table with a sequence for each label, in its column `person` unless another is named."""
    n, rng = len(people), np.random.default_rng(0)
    frame = pd.DataFrame({"sequence": np.repeat(np.arange(n), ROWS), "person": np.repeat(people, ROWS)})
    return frame.assign(
        x_ball=rng.normal(size=n * ROWS),
        a_pan=rng.normal(size=n * ROWS),
        **{k: np.asarray(v) for k, v in columns.items()},
    )


def save(frame: pd.DataFrame, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif path.suffix == ".npz":
        np.savez(path, **{name: np.array(frame[name].tolist()) for name in frame})
    else:
        frame.to_csv(path, index=False)
    return path


def told(capsys, path, **how) -> tuple[Demonstrations, str]:
    """Read, and return what is said of it too."""
    capsys.readouterr()
    demos = read(path, **how)
    return demos, capsys.readouterr().err


# Named


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".parquet", ".jsonl", ".npz"])
@pytest.mark.parametrize("labels", [["anna", "ben", "anna"], [7, 9, 7]], ids=["text", "numbers"])
def test_a_column_names_the_groups(tmp_path, capsys, suffix, labels):
    frame = table(labels)
    path = tmp_path / f"d{suffix}"
    frame.to_csv(path, sep="\t", index=False) if suffix == ".tsv.gz" else save(frame, path)
    demos, said = told(capsys, path, group="Person")
    assert demos.groups == tuple(map(str, labels))
    assert demos.group_name == "Person"
    assert demos.context_names == ("x_ball",)
    assert "groups    2 by column 'Person', each held out as a whole" in said


def test_a_group_is_one_of_whole_sequences_and_the_row_is_named_where_it_is_not(tmp_path):
    frame = table(["anna", "ben", "anna"])
    frame.loc[4, "person"] = "ben"
    path = save(frame, tmp_path / "d.csv")
    with pytest.raises(DataError, match=r"d\.csv: row 5, column 'person': must be the same in every row of a sequence"):
        read(path, group="person", quiet=True)
    frame.loc[4, "person"] = None
    for file in ("d.csv", "d.parquet", "d.jsonl"):
        with pytest.raises(DataError, match="row 5, column 'person': the row has no label, so its sequence is in no"):
            read(save(frame, tmp_path / file), group="person", quiet=True)


@pytest.mark.parametrize(
    ("group", "told"),
    [
        ("driver", "group: no column is 'driver'; the columns are sequence, person, x_ball, a_pan"),
        ("a_pan", "actions: which columns are the actions"),
        ("*a*", "group must be one column; '*a*' matches"),
        (123, "group must be the name of a column, 'folder', FILE:COLUMN or 'sequence'; got 123"),
        (["person"], "group must be the name of a column, 'folder', FILE:COLUMN or 'sequence'; got ['person']"),
        (":person", "group: no column is called ':person', and of the file '': there is no such file"),
    ],
)
def test_a_column_that_cannot_be_the_group_is_refused(tmp_path, group, told):
    with pytest.raises(ArgumentError, match=re.escape(told)):
        read(save(table(["u", "v", "u"]), tmp_path / "d.csv"), group=group, quiet=True)
    with pytest.raises(ArgumentError, match="column 'person' is named as group already"):
        read(tmp_path / "d.csv", group="person", contexts=["x_ball", "person"], quiet=True)


def test_one_group_alone_and_as_many_as_sequences_are_told(tmp_path, capsys):
    _, said = told(capsys, save(table(["u"] * 4), tmp_path / "d.csv"), group="person")
    assert "note      all sequences have the same 'person': single sequences are held out" in said
    _, said = told(capsys, save(table([*"uvw"]), tmp_path / "d.csv"), group="person")
    assert "note      every sequence has a 'person' of its own: single sequences are held out" in said


def test_blanks_around_labels_do_not_tell_them_apart(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("sequence, person, x_b, a_p\n0, u,1,2\n0,u ,1,2\n1, v,1,2\n2,u,1,2\n")
    assert read(path, group="person", quiet=True).groups == ("u", "v", "u")


# Inferred


@pytest.mark.parametrize(
    "name", ["person", "Subject", "driver_id", "participant", "operator name", "run", "session", "Day"]
)
@pytest.mark.parametrize("numbers", [False, True])
def test_a_column_whose_name_and_values_say_so_is_the_group(tmp_path, capsys, name, numbers):
    labels = [3, 3, 5, 9, 5, 9] if numbers else [*"uuvwvw"]
    frame = table(labels).rename(columns={"person": name, "x_ball": "ball"})
    demos, said = told(capsys, save(frame, tmp_path / "d.csv"))
    assert demos.groups == tuple(map(str, labels))
    assert demos.group_name == name
    assert demos.context_names == ("ball",)
    assert f"note      {name!r} is taken for what sequences have in common: those of one are held out together" in said
    assert "group='sequence' (--group sequence) overrules" in said
    alone = read(tmp_path / "d.csv", group="sequence", quiet=True)
    assert alone.groups is None
    assert alone.context_names == ((name, "ball") if numbers else ("ball",))
    if numbers:
        both = read(tmp_path / "d.csv", contexts=[name, "ball"], quiet=True)
        assert (both.groups, both.context_names) == (None, (name, "ball"))


@pytest.mark.parametrize(
    "labels",
    [
        [1, 2, 1, 2],  # two may be two kinds of conditions
        [1, 2, 3, 4],  # as many as there are sequences
        [1, 1, 1, 1],
    ],
)
def test_what_is_doubtful_is_not_taken_for_groups(tmp_path, labels):
    path = save(table(labels).rename(columns={"x_ball": "ball"}), tmp_path / "d.csv")
    demos = read(path, quiet=True)
    assert demos.groups is None
    assert demos.context_names == ("person", "ball")
    assert demos.contexts[1][0, 0] == labels[1]


def test_what_changes_inside_a_sequence_or_is_called_otherwise_is_no_group(tmp_path):
    frame = table([1, 2, 3, 1, 2, 3]).rename(columns={"x_ball": "ball"})
    assert read(save(frame.rename(columns={"person": "wind"}), tmp_path / "w.csv"), quiet=True).groups is None
    frame["person"] = np.arange(len(frame)) % 5
    demos = read(save(frame, tmp_path / "d.csv"), quiet=True)
    assert (demos.groups, demos.context_names) == (None, ("person", "ball"))
    frame["person"] = [None if i == 8 else "uvwuvw"[i // ROWS] for i in range(len(frame))]
    assert read(save(frame, tmp_path / "e.csv"), quiet=True).groups is None
    one = frame.drop(columns="sequence").assign(person=1)
    assert read(save(one, tmp_path / "f.csv"), quiet=True).context_names == ("person", "ball")


def test_two_groups_are_pointed_out(tmp_path, capsys):
    demos, said = told(capsys, save(table([*"uvuv"]), tmp_path / "d.csv"))
    assert demos.groups is None
    assert "note      'person' has 2 values: group='person' (--group person) holds out the sequences of one" in said


def test_folders_whose_names_say_so_are_groups_and_others_are_pointed_out(tmp_path, capsys):
    for person in (1, 2, 10):
        for i in range(2):
            save(table(["-"]).drop(columns=["sequence", "person"]), tmp_path / f"s/subject_{person}/take {i}.csv")
            save(table(["-"]).drop(columns=["sequence", "person"]), tmp_path / f"t/{'xyz'[person % 3]}/take {i}.csv")
    demos, said = told(capsys, tmp_path / "s")
    assert demos.groups == ("subject_1", "subject_1", "subject_2", "subject_2", "subject_10", "subject_10")
    assert (
        "note      files of one folder (subject_1, subject_2, subject_10) are held out together; group='sequence'"
        in said
    )
    demos, said = told(capsys, tmp_path / "t")
    assert demos.groups is None
    assert "note      the files lie in 2 folders: group='folder' (--group folder) holds out those of one" in said
    demos, _ = told(capsys, tmp_path / "t", group="folder")
    assert demos.groups == ("y", "y", "z", "z")
    assert demos.group_name == "folder"


@pytest.mark.parametrize("clock", ["t", "time"])
def test_pieces_whose_clock_goes_on_are_one_recording(tmp_path, capsys, clock):
    starts = np.array([0, 1, 2, 100, 101, 500]) * ROWS  # three, two and one in a row
    count = np.concatenate([s + np.arange(ROWS) for s in starts])
    times = count / 10.0 if clock == "t" else pd.Timestamp("2024-05-31 12:00") + pd.to_timedelta(count * 40, unit="ms")
    frame = table(["-"] * 6).drop(columns="person").assign(**{clock: times})
    demos, said = told(capsys, save(frame, tmp_path / "d.csv"))
    assert demos.groups == ("0", "0", "0", "3", "3", "5")
    assert demos.group_name == "recording"
    assert (
        "note      the clock goes on from sequence to sequence: 6 pieces of 3 recordings, and those of one are" in said
    )
    assert read(tmp_path / "d.csv", group="sequence", quiet=True).groups is None
    demos, said = told(capsys, save(frame[: 3 * ROWS], tmp_path / "d.csv"))
    assert demos.groups == ("0", "0", "0")
    assert demos.new == "another part of the same recording"
    assert "note      the clock goes on from sequence to sequence: all 3 are pieces of one recording" in said
    frame[clock] = np.tile(times[:ROWS], 6)
    demos, said = told(capsys, save(frame, tmp_path / "d.csv"))
    assert demos.groups is None
    assert "pieces" not in said
    demos, said = told(capsys, save(frame.drop(columns=clock).assign(frame=count), tmp_path / "d.csv"))
    assert demos.groups is None  # a number may count on from one recording to the next
    assert "pieces" not in said


def test_pieces_that_a_gap_makes_are_of_one_recording(tmp_path, capsys):
    times = np.tile(np.where(np.arange(ROWS) < 3, 0.0, 5.0) + np.arange(ROWS) / 10.0, 2)
    path = save(table(["-"] * 2).drop(columns="person").assign(t=times), tmp_path / "d.csv")
    demos, said = told(capsys, path, gap=1.0)
    assert demos.names == ("0/0", "0/1", "1/0", "1/1")
    assert demos.groups == ("0", "0", "1", "1")
    assert "4 pieces of 2 recordings" in said


# Written


@given(st.lists(st.sampled_from(["anna", "7", " b", 'q"u', "é, ü"]), min_size=2, max_size=5), st.booleans())
@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".jsonl", ".parquet", ".arrow", ".npz"])
def test_groups_are_written_and_read_back(tmp_path_factory, suffix, labels, timed):
    demos = tasks.pursuit(n_sequences=len(labels), length=4).grouped(labels, by="who acted")
    if not timed:
        demos = Demonstrations.from_arrays(demos.contexts, demos.actions).grouped(labels, by="who acted")
    path = tmp_path_factory.mktemp("g") / f"d{suffix}"
    write(demos, path)
    names = {"actions": demos.action_names, "contexts": demos.context_names}
    how = {} if suffix in (".parquet", ".arrow", ".npz") else {**names, "group": "who acted"}
    again = read(path, **how, quiet=True)
    assert again.groups == tuple(labels)
    assert again.group_name == "who acted"
    assert again.digest() == demos.digest()


def test_groups_that_could_not_be_read_back_are_refused(tmp_path):
    demos = tasks.pursuit(n_sequences=3, length=4)
    with pytest.raises(ArgumentError, match="demos: the column 't' is that of the groups in the file"):
        write(demos.grouped("aab", by="t"), tmp_path / "d.csv")
    some = Demonstrations.from_arrays([[[0.0]]] * 2, [[0.0]] * 2, context_names=["ball"])
    with pytest.raises(ArgumentError, match="demos: the column 'ball' is that of the groups in the file"):
        write(some.grouped("ab", by="ball"), tmp_path / "d.csv")
    with pytest.raises(ArgumentError, match="demos: 'play 2' is in no group, and others are: give all one"):
        write(Demonstrations((*demos[:2].grouped("ab"), demos[2])), tmp_path / "d.csv")


def test_files_without_groups_are_written_as_before(tmp_path):
    import pyarrow.parquet as pq

    write(tasks.pursuit(n_sequences=2, length=4), tmp_path / "d.parquet")
    assert b"group" not in pq.read_schema(tmp_path / "d.parquet").metadata[b"simile"]


# Real recordings


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not here")
@pytest.mark.parametrize(("name", "column", "n"), [("car_following", "run", 4), ("grip_force", "group_of_three", 10)])
def test_real_recordings_are_held_out_by_run_and_by_person(name, column, n):
    about = pd.read_csv(SHARED / name / "sequences.csv", dtype=str).set_index("sequence")[column].to_dict()
    demos = read(SHARED / name / f"{name}.csv", quiet=True).grouped(about, by=column)
    train, test = demos.hold_out(0.25, seed=0)
    assert len(set(demos.groups)) == n
    assert not set(train.groups) & set(test.groups)
    assert demos.new == f"another {column.replace('_', ' ')}"
    by_file = read(SHARED / name / f"{name}.csv", group=f"{SHARED / name / 'sequences.csv'}:{column}", quiet=True)
    assert (by_file.groups, by_file.group_name) == (demos.groups, column)
