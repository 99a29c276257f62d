"""What "new" means is said once: sequences of one group are left out together, wherever sequences are left out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import simile
from commands import simile_
from simile import Demonstration, Demonstrations, tasks
from simile.data.recorded import Units
from simile.data.reference import Reference
from simile.errors import ArgumentError, DataError
from simile.learning.distributed import DistributedDemonstrations
from simile.learning.distributed.backend import LocalBackend
from simile.learning.folds import N_FOLDS, Folds
from simile.learning.runs import RunFolder, read_and_hold_out
from simile.learning.tuning import CrossFitting
from simile.learning.verdict import compare_errors

LABELS = st.lists(st.sampled_from("abcdefg"), min_size=2, max_size=14)
PAN = ("--actions", "pan")
PEOPLE = ("anna", "anna", "ben", "cleo", "ben", "dora", "dora", "cleo")


def grouped(labels, lengths=None, by: str = "person") -> Demonstrations:
    """Sequences with these labels; contexts number all frames."""
    lengths = [30] * len(labels) if lengths is None else lengths
    frames = np.split(np.arange(float(sum(lengths))), np.cumsum(lengths)[:-1])
    names = [f"{i}" for i in range(len(labels))]
    return Demonstrations.from_arrays(frames, frames, names=names).grouped(labels, by=by)


def people(**how) -> Demonstrations:
    """Sequences of four persons."""
    return tasks.pursuit(n_sequences=8, length=120, **how).grouped(PEOPLE, by="person")


def labels_of(demos: Demonstrations) -> set[str | None]:
    return set(demos.groups or ())


# What demonstrations know


def test_groups_are_labels_of_sequences_given_as_a_list_or_by_name():
    plain = tasks.pursuit(n_sequences=3, length=20)
    assert plain.groups is None
    assert Demonstrations(plain.items, groups=(1, 1, 2)).groups == ("1", "1", "2")
    by_name = dict(zip(plain.names, "xxy", strict=True))
    assert plain.grouped(by_name).groups == plain.grouped("xxy").groups == ("x", "x", "y")
    assert plain.grouped(pd.Series(["p", "p", "q"]), by="person").group_name == "person"
    assert plain.grouped("xxy").grouped(None).groups is None
    assert Demonstrations.from_arrays([[[0.0]]] * 2, [[0.0]] * 2, groups=["u", "v"]).groups == ("u", "v")
    assert Demonstration([[0.0]], [0.0], group=3).group == "3"


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        (["a"], "groups must have a label for each of 3 sequences; got 1"),
        (["a", None, "b"], "groups must name the group of every sequence; got None for 'sequence 1'"),
        (["a", float("nan"), "b"], "groups must name the group of every sequence; got nan for 'sequence 1'"),
        ({"sequence 0": "a", "sequence 1": "a"}, "groups must name the group of every sequence; 'sequence 2' is not"),
        (3, "groups must be a label for each sequence, or a mapping from their names; got 3"),
        ("person", "groups must have a label for each of 3 sequences; got 6"),
    ],
)
def test_labels_that_do_not_fit_are_refused(groups, told: str):
    frames = [np.zeros((4, 1))] * 3
    with pytest.raises(ArgumentError, match="groups") as error:
        Demonstrations.from_arrays(frames, frames).grouped(groups)
    assert told in str(error.value)


def test_groups_stay_with_their_sequences_whatever_is_done_to_them():
    demos = people()
    for other in (
        demos[:],
        Demonstrations(demos.items),
        demos.head(10),
        demos.standardize(Units.of(demos)),
        demos.only_action(0),
        demos.with_actions(demos.actions),
        Folds.of(demos).demos,
    ):
        assert other.groups == PEOPLE
        assert other.group_name == "person"
    assert demos[2:4].groups == ("ben", "cleo")
    assert demos[2].cut(5, 9).group == "ben"


def test_groups_are_part_of_the_digest_where_there_are_any():
    plain = tasks.pursuit(n_sequences=8, length=20)
    one, other = plain.grouped(PEOPLE), plain.grouped(PEOPLE[::-1])
    assert len({plain.digest(), one.digest(), other.digest()}) == 3
    assert one.grouped(None).digest() == plain.digest()


def test_the_description_names_the_groups():
    assert "8 sequences of 4 groups (person)" in str(people().describe())
    assert "groups" not in str(tasks.pursuit(n_sequences=2, length=20).describe())


def test_a_frame_may_have_a_column_of_groups():
    rows = pd.DataFrame({"s": [*"aabbcc"], "person": [1, 1, 2, 2, 1, 1], "x": np.arange(6.0), "a": np.arange(6.0)})
    demos = Demonstrations.from_frame(rows, sequence="s", group="Person", actions="a")
    assert (demos.groups, demos.group_name, demos.context_names) == (("1", "2", "1"), "Person", ("x",))
    rows.loc[1, "person"] = 2
    with pytest.raises(
        DataError, match="row 2, column 'person': must be the same in every row of a sequence; in 'a' it is"
    ):
        Demonstrations.from_frame(rows, sequence="s", group="person", actions="a")
    with pytest.raises(ArgumentError, match="group: no column is 'driver'"):
        Demonstrations.from_frame(rows, sequence="s", group="driver", actions="a")


# Splits and folds


@given(LABELS, st.floats(0.01, 1.0), st.integers(0, 2**32))
def test_no_group_is_on_both_sides_of_a_split(labels, share, seed):
    assume(len(set(labels)) > 1)
    demos = grouped(labels)
    for part in (demos.split, demos.hold_out):
        train, test = part(share, seed=seed)
        assert not labels_of(train) & labels_of(test)
        assert labels_of(train) | labels_of(test) == set(labels)
        assert sorted((*train.names, *test.names), key=int) == list(demos.names)
        again = part(share, seed=seed)
        assert [p.names for p in again] == [train.names, test.names]
    n = len(set(labels))
    assert len(labels_of(test)) == min(max(1, round(share * n)), n - 1)


@given(LABELS, st.floats(0.01, 1.0), st.integers(0, 100), st.integers(1, 4))
def test_demonstrations_in_parts_are_split_as_those_at_hand(labels, share, seed, parts):
    demos = grouped(labels)
    spread = DistributedDemonstrations.of(demos, LocalBackend(parts=parts))
    assert spread.groups == demos.groups
    for ours, theirs in zip(spread.split(share, seed=seed), demos.split(share, seed=seed), strict=True):
        assert ours.names == theirs.names
        assert ours.groups == theirs.groups
        assert ours.digest() == theirs.digest()


@given(LABELS, st.data())
def test_no_group_is_in_two_folds_and_folds_are_as_even_as_groups_allow(labels, data):
    assume(1 < len(set(labels)) < len(labels))
    lengths = data.draw(st.lists(st.integers(1, 300), min_size=len(labels), max_size=len(labels)))
    demos = grouped(labels, lengths)
    folds = Folds.of(demos)
    assert folds.demos.names == demos.names
    assert len(folds) == min(N_FOLDS, len(set(labels)))
    of_group = [set(folds.fold[[i for i, g in enumerate(labels) if g == label]]) for label in set(labels)]
    assert all(len(found) == 1 for found in of_group)
    assert np.unique(folds.fold).tolist() == list(range(len(folds)))
    frames = np.bincount(folds.fold, weights=lengths)
    sizes = [sum(n for n, g in zip(lengths, labels, strict=True) if g == label) for label in set(labels)]
    assert frames.max() - frames.min() <= max(sizes)
    np.testing.assert_array_equal(folds.fold, Folds.of(demos).fold)


@pytest.mark.parametrize("labels", ["abcdefgh", "aaaaaaaa", "aa", "a"])
def test_as_many_groups_as_sequences_or_one_alone_are_as_good_as_none(labels: str):
    demos = grouped(labels)
    plain = demos.grouped(None)
    np.testing.assert_array_equal(Folds.of(demos).fold, Folds.of(plain).fold)
    for ours, theirs in zip(demos.hold_out(0.3, seed=5), plain.hold_out(0.3, seed=5), strict=True):
        assert [len(d) for d in ours] == [len(d) for d in theirs]
        assert ours.names == theirs.names


def test_a_sequence_without_a_group_is_one_of_its_own():
    demos = Demonstrations((*grouped("aabb"), *grouped("cd").grouped(None)))
    assert demos.groups == ("a", "a", "b", "b", None, None)
    assert len(set(demos.kin)) == 4
    np.testing.assert_array_equal(demos.kin, [0, 0, 1, 1, 2, 3])


def test_labels_given_to_a_split_go_before_those_of_the_sequences():
    train, test = grouped("aabb").split(0.5, groups="xyyx")
    assert {train.names, test.names} == {("0", "3"), ("1", "2")}


# What "new" means is told


@pytest.mark.parametrize(
    ("labels", "new", "left_out"),
    [
        ("aabbccdd", "another person", "another person"),
        ("aaaaaaaa", "another recording of the same person", "another recording of the same person"),
        ("abcdefgh", "another person", "another person"),
        ("aa", "another recording of the same person", "another part of the same recording"),
        ("a", "later in the same recording", "another part of the same recording"),
    ],
)
def test_what_is_new_is_told(labels: str, new: str, left_out: str):
    demos = grouped(labels, [100] * len(labels))
    assert demos.new == new
    assert Folds.of(demos).new == left_out
    assert demos.grouped(None).new == ("another recording" if len(labels) > 1 else new)


def test_what_is_new_in_other_demonstrations_is_told():
    demos = grouped("aabbcc")
    assert demos[:4].tell_new(demos[4:]) == "another person"
    assert demos[:3].tell_new(demos[3:]) == "another person, or another recording of the same person"
    assert demos[:5].tell_new(demos[5:]) == "another recording of the same person"
    assert demos.grouped(None)[:4].tell_new(demos[4:]) == "another recording"
    assert demos[:1].tell_new(demos[:1].head(3)) == "later in the same recording"


def test_learn_leaves_whole_groups_out_and_says_so(monkeypatch: pytest.MonkeyPatch):
    seen = []
    whole = Folds.of
    monkeypatch.setattr(Folds, "of", classmethod(lambda _, demos, **how: seen.append(whole(demos, **how)) or seen[-1]))
    run = simile.learn(people(seed=1))
    assert seen
    for folds in seen:
        assert len(folds) == 4
        assert all(len({folds.fold[i] for i, g in enumerate(PEOPLE) if g == name}) == 1 for name in PEOPLE)
    assert run.new == "another person"
    assert "left out was another person" in str(run)
    assert (run.verdict.recordings, run.verdict.groups, run.verdict.new) == (8, 4, "another person")
    assert "8 recordings of 4 groups" in str(run.verdict)
    assert run.policy.card.training["groups"] == {"person": 4}
    assert "groups" not in simile.learn(people().grouped(None)[:2]).policy.card.training


def test_validation_shares_of_all_algorithms_hold_out_whole_groups():
    demos = people(seed=2)
    run = simile.paper(demos, validation=0.25, n_rounds=0, model=simile.SmoothForest(n_trees=1))
    assert run.policy.card.training["groups"] == {"person": 3}
    assert run.new == "another person"
    tuned = simile.tune(demos, trials=1, space=CrossFitting(mixture=("ridge",), lag=(2.0, 4.0)))
    assert not labels_of(tuned.split.train) & labels_of(tuned.split.validation)


def test_an_evaluation_counts_the_groups():
    demos = people(seed=4)
    policy = simile.clone(demos[:2], model=simile.SmoothForest(n_trees=1)).policy
    found = simile.evaluate(policy, demos[2:])
    assert "roll-outs over 6 recordings of 3 groups (person)" in str(found)
    assert (found.verdict.recordings, found.verdict.groups) == (6, 3)
    assert found.verdict.cautions == ["3 groups can show nothing for sure: test on six or more."]
    assert simile.evaluate(policy, demos[2:].grouped(None)).verdict.cautions == []


def test_intervals_are_over_whole_groups():
    rng = np.random.default_rng(0)
    demos = simile.Demonstrations(people(seed=3).items * 2).grouped([*"abcdefgh"] * 2)
    noisy = [d.actions + 0.1 * (1 + ord(d.group[0]) - ord("a")) * rng.normal(size=d.actions.shape) for d in demos]
    worse = [a + 0.3 * rng.normal(size=a.shape) for a in demos.actions]
    found = {}
    for name, some in (
        ("groups", demos),
        ("sequences", demos.grouped(None)),
        ("few", demos.grouped([*"abcde"] * 3 + ["a"])),
    ):
        reference = Reference(some, np.ones(1), 2)
        noise, more = (reference.tally(rolled).grouped(some.kin) for rolled in (noisy, worse))
        found[name] = compare_errors(noise, more)
    assert found["groups"].value == pytest.approx(found["sequences"].value) == pytest.approx(found["few"].value)
    wide, narrow = (found[name].high - found[name].low for name in ("groups", "sequences"))
    assert wide > narrow
    assert not found["few"].is_sure


# Commands


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a column `run`, of which there are five of two sequences each."""
    demos = tasks.pursuit(n_sequences=10, length=80)
    path = tmp_path_factory.mktemp("runs") / "runs.csv"
    simile.write(demos.grouped(np.repeat([*"pqrst"], 2), by="run"), path)
    return path


def held_out(folder: Path) -> tuple[set[str | None], set[str | None]]:
    train, test = RunFolder(folder).demonstrations()
    return labels_of(train), labels_of(test)


@pytest.mark.parametrize(("group", "new"), [(["--group", "run"], "another run"), ([], "another run")])
def test_train_holds_out_whole_groups_and_says_so(runs: Path, tmp_path: Path, group, new):
    quick = ("--algorithm", "clone", "--model", "SmoothForest(n_trees=2)", *(["--no-report"] if group else []))
    done = simile_("train", runs, *PAN, *group, "--out", "run", *quick, cwd=tmp_path)
    assert "groups    5 by column 'run', each held out as a whole" in done.stderr
    assert ("'run' is taken for what sequences have in common" in done.stderr) is not bool(group)
    assert f"What is new to it where it was judged: {new}." in done.stdout
    there, here = held_out(tmp_path / "run")
    assert there | here == set("pqrst")
    assert not there & here
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["new"], summary["new_to_choices"]) == (new, new)
    if not group:
        assert "held-out sequences (another run)" in (tmp_path / "run" / "report.html").read_text()
    found = RunFolder(tmp_path / "run")
    assert ("--group run" in found.command) is bool(group)
    assert ("group='run'" in found.python) is bool(group)


def test_single_sequences_are_held_out_where_that_is_asked_for(runs: Path, tmp_path: Path):
    quick = ("--algorithm", "clone", "--model", "SmoothForest(n_trees=2)", "--no-report")
    done = simile_("train", runs, *PAN, "--group", "sequence", "--out", "run", *quick, cwd=tmp_path)
    assert "What is new to it where it was judged: another recording." in done.stdout
    assert held_out(tmp_path / "run") == (set(), set())
    done = simile_("train", runs, *PAN, "--test", runs, "--group", "sequence", "--out", "other", *quick, cwd=tmp_path)
    assert "where it was judged: another file; where choices were made: another recording." in done.stdout


def test_groups_that_take_most_of_the_frames_away_are_told(tmp_path: Path, capsys):
    demos = Demonstrations(
        (*tasks.pursuit(n_sequences=6, length=20), *tasks.pursuit(n_sequences=6, length=200, seed=1))
    )
    named = [replace(d, name=str(i)) for i, d in enumerate(demos)]
    simile.write(Demonstrations(named, groups=np.repeat([*"pqrs"], 3)), tmp_path / "d.parquet")
    told = []
    for seed in range(6):
        train, test = read_and_hold_out({"data": str(tmp_path / "d.parquet"), "test": "0.5", "seed": seed})
        said = "note      the groups that are held out have" in capsys.readouterr().err
        assert said is (test.n_frames > train.n_frames)
        told.append(said)
    assert any(told)
    assert not all(told)


def test_compare_holds_out_whole_groups(runs: Path, tmp_path: Path):
    few = ("--reductions", "clone", "--no-rivals", "--model", "SmoothForest(n_trees=2)", "--no-report")
    done = simile_("compare", runs, *PAN, "--group", "run", *few, cwd=tmp_path)
    assert "2 held-out recordings (another run)" in done.stdout
    found = json.loads((tmp_path / "comparison" / "comparison.json").read_text())
    assert found["new"] == "another run"
    there, here = held_out(tmp_path / "comparison")
    assert not there & here


@pytest.mark.long  # `simile.tune` is tried above
def test_tune_holds_out_whole_groups(runs: Path, tmp_path: Path):
    done = simile_("tune", runs, *PAN, "--group", "run", "--trials", "1", "--no-rounds", "--no-report", cwd=tmp_path)
    assert "What is new to it where it was judged: another run." in done.stdout
    assert "--group run" in done.stdout


def test_a_table_beside_the_data_and_a_wrong_name_on_the_command_line(runs: Path, tmp_path: Path):
    demos = simile.read(runs, actions="pan", quiet=True, group="sequence")
    rows = pd.DataFrame({"sequence": demos.names, "who": [*"aabbbcccdd"]})
    rows.to_csv(tmp_path / "about.csv", index=False)
    quick = ("--algorithm", "clone", "--model", "SmoothForest(n_trees=2)", "--no-report")
    simile_("train", runs, *PAN, "--group", "about.csv:who", *quick, cwd=tmp_path)
    for group, told in (
        ("driver", "group: no column is 'driver'"),
        ("about.csv:driver", "about.csv: group: no column is 'driver'; the columns are sequence, who"),
        ("nowhere.csv:who", "group: no column is called 'nowhere.csv:who', and of the file 'nowhere.csv': there is no"),
    ):
        assert told in simile_("train", runs, *PAN, "--group", group, "--out", "x", cwd=tmp_path, code=2).stderr
    rows[1:].to_csv(tmp_path / "about.csv", index=False)
    done = simile_("train", runs, *PAN, "--group", "about.csv:who", "--out", "x", cwd=tmp_path, code=2)
    assert "about.csv: no row is about the sequence 'play 0', which is in the data: add one" in done.stderr
    pd.concat([rows, rows.assign(who="z")]).to_csv(tmp_path / "about.csv", index=False)
    done = simile_("train", runs, *PAN, "--group", "about.csv:who", "--out", "x", cwd=tmp_path, code=2)
    assert "row 11, column 'who': must be the same in every row of a sequence; in 'play 0' it is a and z" in done.stderr
