"""Recordings: what was answered is what is read, whoever is killed, whatever the disk does, and within the limits."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import shutil
import signal
import stat
import sys
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from commands import simile_
from conftest import demos_of, some
from served import Played, listed
from servers import GENEROUS, ask, served, until
from simile import ArgumentError, DataError, DivergedError, Horizon, Recorder, StorageError
from simile.data.reading import arrow
from simile.data.reading.arrow import read_journal
from simile.models.regularizers import Autoregressor
from simile.online import RateLimit, journals, recording
from simile.policies.cards import Card
from simile.policies.policies import SmoothPolicy
from simile.policies.storage.files import digest_of
from simile.policies.storage.loading import read_header
from test_policies import Linear

RATE = 30.0


@pytest.fixture(scope="module")
def policy():
    """A policy of two contexts and two actions."""
    demos = demos_of(200, 200, k=2, rate=RATE)
    return simile.clone(demos, model=simile.SmoothForest(n_trees=2), horizon=simile.Horizon(2, 0)).policy


@pytest.fixture(scope="module")
def contexts():
    """Contexts that the policy may see."""
    return demos_of(400, seed=5).contexts[0]


def rows_of(folder: Path) -> list[dict]:
    """Return all rows that are in a folder, in order."""
    found = []
    for _, path in journals.list_files(folder):
        batches = [pq.read_table(path)] if path.suffix == ".parquet" else list(read_journal(path))
        found += [row for batch in batches for row in batch.to_pylist()]
    return found


def read(folder: Path):
    return simile.read(folder, as_is=True, quiet=True)  # whoever acted


# ----------------------------------------------------------------------------------------------------------- round trip


def test_what_a_predictor_did_is_read_as_demonstrations(policy, contexts, tmp_path):
    names = policy.card.context_names, policy.card.action_names
    with Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder, name="camera", stages=[RateLimit(0.5)])
        actions = [predictor.step(x) for x in contexts[:50]]
        actions.append(predictor.override([9.0, -9.0], contexts[50]))
        actions += [predictor.step(None), predictor.step(dict.fromkeys(names[0], 0.5))]
        predictor.reset()
        again = predictor.step(contexts[0])
    assert (recorder.rows, recorder.lost, recorder.failures) == (54, 0, 0)
    first, second = read(tmp_path)
    assert (first.context_names, first.action_names, first.rate) == (*names, RATE)
    assert np.array_equal(first.actions, actions)
    assert np.array_equal(first.contexts[:51], contexts[:51])
    assert np.isnan(first.contexts[51]).all()
    assert np.array_equal(second.actions, [again])
    assert first.name.startswith("camera 20")
    assert first.name < second.name
    rows = rows_of(tmp_path)
    assert [row["who"] for row in rows] == [*["policy"] * 50, "operator", "gap", "policy", "policy"]
    assert [row["n"] for row in rows] == [*range(53), 0]
    assert {row["policy"] for row in rows} == {digest_of(policy)}
    free = simile.Predictor(policy)
    wanted = [free.step(x) for x in contexts[:50]]
    assert [row["limited"] for row in rows[:50]] == [
        not np.array_equal(a, w) for a, w in zip(actions, wanted, strict=False)
    ]
    assert any(row["limited"] for row in rows)
    assert abs(rows[-1]["t"] - time.time()) < 60.0


def test_a_pool_records_each_of_its_streams(policy, contexts, tmp_path):
    with Recorder(tmp_path) as recorder:
        pool = simile.PredictorPool(policy, 3, recorder=recorder, name="valve")
        X = contexts[:60].reshape(20, 3, 2).copy()
        taken = [pool.step(x) for x in X]
        taken.append(pool.step(X[0], present=[True, False, True]))
        taken.append(pool.override(np.ones((3, 2)), X[1]))
        X[:] = np.nan  # what was noted was noted
    demos = {d.name.partition(" ")[0]: d for d in read(tmp_path)}
    for i in range(3):
        assert np.array_equal(demos[f"valve-{i}"].actions, [a[i] for a in taken])
    assert not np.isnan(demos["valve-0"].contexts).any()
    assert np.isnan(demos["valve-1"].contexts).any(axis=1).tolist() == [*[False] * 20, True, False]


def test_stamped_frames_have_the_time_of_their_ticks(policy, contexts, tmp_path):
    with Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        for i, x in enumerate(contexts[:20]):
            predictor.step(x, t=1000.0 + 2.0 * i / RATE)  # at half the rate: two ticks in each
    rows = rows_of(tmp_path)
    assert len(rows) == 39
    assert np.allclose(np.diff([row["t"] for row in rows]), 1.0 / RATE)


def spans(folder: Path) -> dict[str, np.ndarray]:
    """Return the times of each sequence, in order."""
    found: dict[str, list[float]] = {}
    for row in rows_of(folder):
        found.setdefault(row["sequence"], []).append(row["t"])
    return {name: np.array(times) for name, times in found.items()}


def test_stamps_that_outrun_the_time_keep_their_steps_from_beginning_to_beginning(policy, contexts, tmp_path):
    began = time.time()
    with Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        for t in (0.0, 500.0, 7.0):  # where each sequence begins, on a clock of its own
            for i, x in enumerate(contexts[:60]):
                predictor.step(x, t=t + i / RATE)
            state = predictor.state_dict()
            predictor.reset()
        predictor.load_state_dict(state)
        for i, x in enumerate(contexts[60:90], start=60):
            predictor.step(x, t=7.0 + i / RATE)
    times = list(spans(tmp_path).values())
    assert [len(t) for t in times] == [60, 60, 60, 30]
    assert np.allclose(np.concatenate([np.diff(t) for t in times]), 1.0 / RATE)
    assert all(1.5 / RATE < later[0] - t[-1] < 60.0 for t, later in pairwise(times))
    assert began <= times[0][0] <= time.time()
    assert [d.group for d in read(tmp_path)] == [None] * 4  # no pieces of one recording: the clock did not go on


def test_a_pause_between_stamps_is_as_long_in_the_recording_and_begins_a_sequence(policy, contexts, tmp_path):
    with Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        for i, x in enumerate(contexts[:60]):
            predictor.step(x, t=i / RATE + (60.0 if i >= 40 else 0.0))
    before, after = spans(tmp_path).values()
    assert (len(before), len(after)) == (40, 20)
    assert after[0] - before[-1] == pytest.approx(60.0 + 1.0 / RATE)
    assert np.allclose(np.diff(after), 1.0 / RATE)
    assert [row["n"] for row in rows_of(tmp_path)] == list(range(60))
    assert [len(d) for d in read(tmp_path)] == [40, 20]


def test_the_last_answers_of_stamped_frames_have_the_times_of_their_frames(contexts, tmp_path):
    demos = demos_of(200, 200, k=2, rate=RATE)
    policy = simile.clone(demos, model=simile.SmoothForest(n_trees=2), horizon=Horizon(2, 0, lead=-3)).policy
    with Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        for i, x in enumerate(contexts[:20]):
            predictor.step(x, t=i / RATE)
        predictor.flush()
    (times,) = spans(tmp_path).values()
    assert len(times) == 23
    assert np.allclose(np.diff(times), 1.0 / RATE)


def run_away(act, X) -> DivergedError:
    """Act again and again until that diverges."""
    try:
        while True:
            act(X)
    except DivergedError as error:
        return error


def test_streams_that_diverge_begin_another_sequence(tmp_path):
    h = Autoregressor(np.array([[3.0]]))  # it runs away from anything but 0
    card = Card(context_names=("x",), action_names=("a",), rate=RATE)
    unstable = SmoothPolicy(Linear(np.zeros((1, 1))), h, 10.0, Horizon(0, 0), n_contexts=1, card=card)
    with Recorder(tmp_path / "one") as recorder:
        predictor = simile.Predictor(unstable, start=1.0, recorder=recorder)
        for _ in range(3):  # of which two take no frame
            run_away(predictor.step, [0.0])
        predictor.override([0.0], [0.0])
        predictor.step([0.0])
    first, second = read(tmp_path / "one")
    assert len(first) > 5
    assert second.actions.tolist() == [[0.0], [0.0]]
    with Recorder(tmp_path / "pool") as recorder:
        pool = simile.PredictorPool(unstable, 3, start=[np.zeros(1), np.ones(1), np.zeros(1)], recorder=recorder)
        assert run_away(pool.step, np.zeros((3, 1))).stream == 1
        pool.override([[0.0]], np.zeros((1, 1)), streams=[1])
        pool.step(np.zeros((3, 1)))
    found = [len([d for d in read(tmp_path / "pool") if d.name.startswith(f"stream-{i}")]) for i in range(3)]
    assert found == [1, 2, 1]


def test_the_digest_is_that_of_the_file(policy, tmp_path):
    policy.save(tmp_path / "policy.safetensors")
    assert read_header(tmp_path / "policy.safetensors")["digest"] == digest_of(policy)


@some(0.5)
@given(
    frames=st.lists(
        st.tuples(
            st.sampled_from(["one", "two", "three"]),
            st.sampled_from(["x", "drop", "override", "blind", "wrong", "infinite"]),
            st.integers(1, 3),
        ),
        max_size=40,
    ),
    limit=st.sampled_from([None, 0.3]),
)
def test_what_is_recorded_is_what_was_answered(policy, contexts, tmp_path_factory, frames, limit):
    folder = tmp_path_factory.mktemp("recorded")
    stages = () if limit is None else (RateLimit(limit),)
    with Recorder(folder) as recorder:
        played = Played(policy, recorder=recorder, stages=stages)
        opened = {name: played.open(name) for name in ("one", "two", "three")}
        for i, (name, kind, step) in enumerate(frames):
            stream, x = opened[name], listed(contexts[i])
            n = None if stream.n is None else stream.n + step
            x = {"drop": None, "blind": None, "wrong": [1.0], "infinite": [float("inf"), 1.0]}.get(kind, x)
            override = [1.0, float(i)] if kind in ("override", "blind") else None
            played.put(stream, x, n, override)
            if i % 3 == 2:
                played.service.run()
        played.service.run()
    rows = rows_of(folder)
    assert (len(rows), recorder.lost) == (played.service.recording.noted, 0)
    for name in opened:
        own = {row["n"]: row for row in rows if row["sequence"].startswith(f"{name} ")}
        answers = [answer for answer in played.answers.get(name, []) if answer.a is not None]
        for answer in answers:
            row = own.pop(answer.n)
            assert [row[a] for a in policy.card.action_names] == answer.a
            assert row["who"] == answer.by
        assert all(row["who"] == "gap" for row in own.values())  # frames that never came
        times = [row["t"] for row in rows if row["sequence"].startswith(f"{name} ")]
        assert (np.diff(times) > 0).all()
    if rows:
        assert sum(map(len, read(folder))) == len(rows)


def test_streams_have_sequences_of_their_own_and_events_are_in_the_next_frame(policy, contexts, tmp_path):
    with Recorder(tmp_path) as recorder:
        played = Played(policy, recorder=recorder)
        one, two = played.open("one"), played.open("two")
        played.play(one, contexts[:5])
        played.play(two, contexts[:5])
        played.service.note_event({"kind": "stuck", "on": True}, "one")
        played.service.note_event({"kind": "reloaded", "on": True}, None)
        played.service.note_event({"kind": "expired", "on": True}, "nobody")
        played.play(two, contexts[:2])
        played.play(one, contexts[:2])
        played.service.close(one)
        played.play(played.open("one"), contexts[:3])
    by_name: dict[str, list] = {}
    for row in rows_of(tmp_path):
        by_name.setdefault(row["sequence"].partition(" ")[0], []).append(row)
    told = [[json.loads(line)["kind"] for line in (row["event"] or "").splitlines()] for row in by_name["one"]]
    assert told == [[]] * 5 + [["stuck", "reloaded"]] + [[]] * 4
    assert [bool(row["event"]) for row in by_name["two"]] == [False] * 5 + [True, False]
    assert len({row["sequence"] for row in by_name["one"]}) == 2
    assert sorted(map(len, read(tmp_path))) == [3, 7, 7]


def test_a_reload_is_in_the_recording(policy, contexts, tmp_path):
    other = simile.clone(demos_of(200, 200, k=2, rate=RATE, seed=1), model=simile.SmoothForest(n_trees=2)).policy
    with Recorder(tmp_path) as recorder:
        played = Played(policy, recorder=recorder, handover=0.1)
        stream = played.open("one")
        sent = [*played.play(stream, contexts[:5])]
        played.service.reload(other)
        sent += [*played.play(stream, contexts[5:15])]
    rows = rows_of(tmp_path)
    assert [row["policy"] for row in rows] == [digest_of(policy)] * 5 + [digest_of(other)] * 10
    assert np.array_equal(read(tmp_path)[0].actions, sent)


def test_a_policy_of_another_rate_does_not_take_over_what_is_recorded(policy, contexts, tmp_path):
    faster = replace(policy, card=replace(policy.card, rate=2.0 * RATE), smoothness=3.0)
    told = "recorder: it records a policy with a rate of 30 Hz, and this one has a rate of 60 Hz: use a recorder"
    with Recorder(tmp_path) as recorder:
        played = Played(policy, recorder=recorder)
        played.play(stream := played.open(), contexts[:5])
        with pytest.raises(ArgumentError, match=told):
            played.service.reload(faster)
        with pytest.raises(ArgumentError, match=told):
            simile.Predictor(faster, recorder=recorder)
        with pytest.raises(ArgumentError, match="this one has no rate"):
            played.service.reload(replace(policy, card=replace(policy.card, rate=None)))
        played.play(stream, contexts[5:10])
        assert (played.service.policy, played.counts.reloads) == (policy, 0)
        simile.Predictor(faster, recorder=recorder, rate=RATE)  # who says that it is the same is believed
    assert [(len(d), d.rate) for d in read(tmp_path)] == [(10, RATE)]
    played = Played(policy)  # of which nothing is recorded
    played.service.reload(faster)
    assert played.service.rate == 2.0 * RATE


def test_no_two_sequences_have_one_name(tmp_path, monkeypatch):
    recorder = Recorder(tmp_path)
    monkeypatch.setattr(recorder, "now", lambda: time.sleep(0.05) or 0.0)  # others are at it meanwhile
    names: list[str] = []
    threads = [threading.Thread(target=lambda: names.append(recorder.name_sequence("one"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 4


# ---------------------------------------------------------------------------------------------------------------- files


def test_files_are_of_bounded_size_and_a_stream_goes_on_from_one_to_the_next(policy, contexts, tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "MOST_ROWS", 25)
    with Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        actions = []
        for x in contexts[:100]:
            actions.append(predictor.step(x))
            if len(actions) % 10 == 0:
                recorder.flush()
        assert len([p for _, p in journals.list_files(tmp_path) if p.suffix == ".parquet"]) == 3
        assert np.array_equal(read(tmp_path)[0].actions, actions)  # while it is being written
    assert [p.name for _, p in journals.list_files(tmp_path)] == [f"recording-00000{i}.parquet" for i in (1, 2, 3, 4)]
    (whole,) = read(tmp_path)
    assert np.array_equal(whole.actions, actions)
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for _, p in journals.list_files(tmp_path))
    with Recorder(tmp_path) as recorder:  # the next one goes on behind them
        simile.Predictor(policy, recorder=recorder).step(contexts[0])
    assert sorted(map(len, read(tmp_path))) == [1, 100]


def test_the_oldest_files_go_first_and_that_is_told(policy, contexts, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(recording, "LEAST_LIMIT", 0.0)
    monkeypatch.setattr(journals, "MOST_ROWS", 20)
    with caplog.at_level(logging.WARNING, logger="simile.recording"), Recorder(tmp_path, limit=0.04) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        for i, x in enumerate(np.tile(contexts, (2, 1))):
            predictor.step(x)
            if i % 20 == 19:
                recorder.flush()
    assert recorder.removed >= 2
    assert recorder.lost == 0
    left = journals.list_files(tmp_path)
    assert sum(p.stat().st_size for _, p in left) <= 40_000
    assert [number for number, _ in left] == list(range(recorder.removed + 1, 41))
    assert "recording-000001.parquet was removed: the recordings may take 0.04 MB" in caplog.text
    assert [row["n"] for row in rows_of(tmp_path)][-1] == 799


def test_the_files_take_no_more_than_the_limit_and_the_newest_stays(policy, contexts, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "LEAST_LIMIT", 0.0)
    limit, sizes = 40_000, []

    def measure(file) -> None:
        sizes.append([path.stat().st_size for path in tmp_path.iterdir() if path.name != journals.LOCK])

    monkeypatch.setattr(os, "fsync", measure)  # whenever a journal has grown, or is Parquet too
    with Recorder(tmp_path, limit=limit / 1e6) as recorder:
        pool = simile.PredictorPool(policy, 200, recorder=recorder)
        for x in contexts[:20]:  # more at once than may be kept at all
            pool.step(np.tile(x, (200, 1)) + np.arange(200)[:, np.newaxis] / 7.0)
    most = limit // journals.SHARES
    assert max(size for found in sizes for size in found) <= most
    assert max(map(sum, sizes)) <= limit + most // journals.PIECES * 2
    assert (recorder.rows, recorder.lost) == (4000, 0)
    assert recorder.removed > 4
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) > limit // 2
    assert rows_of(tmp_path)[-1]["n"] == 19
    with Recorder(tmp_path, limit=0.001) as recorder:  # less than the file that is being written
        simile.Predictor(policy, recorder=recorder).step(contexts[0])
    assert [row["n"] for row in rows_of(tmp_path)] == [0]


@pytest.mark.parametrize("cut", [1, 7, 300, 5000])
def test_a_journal_that_was_cut_off_reads_to_its_last_whole_batch(policy, contexts, tmp_path, cut):
    with Recorder(tmp_path / "whole") as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        sizes, there = [], tmp_path / "whole" / "recording-000001.arrows"
        for x in contexts[:40]:
            predictor.step(x)
            if predictor._streams.history.frame[0] % 10 == 0:
                recorder.flush()
                sizes.append(there.stat().st_size)
        shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    journal = tmp_path / "killed" / "recording-000001.arrows"
    os.truncate(journal, max(sizes[0], sizes[-1] - cut))
    kept = 10 * sum(size <= max(sizes[0], sizes[-1] - cut) for size in sizes)
    assert len(read(tmp_path / "killed")[0]) == kept
    assert journal.exists()  # reading changes nothing
    before = read(tmp_path / "killed")[0].actions
    with Recorder(tmp_path / "killed") as recorder:
        simile.Predictor(policy, recorder=recorder).step(contexts[0])
    assert {path.suffix for path in (tmp_path / "killed").iterdir()} == {".parquet"}
    assert np.array_equal(read(tmp_path / "killed")[0].actions, before)


def end_in_the_middle(policy, contexts, folder: Path) -> tuple[Path, list[int]]:
    """Record as if killed; returns the journal, and where its schema and each of its four batches end."""
    with Recorder(folder.with_name("whole")) as recorder:
        predictor, there = simile.Predictor(policy, recorder=recorder), recorder.folder / "recording-000001.arrows"
        ends = []
        for x in contexts[:40]:
            predictor.step(x)
            if predictor._streams.history.frame[0] % 10 == 0:
                recorder.flush()
                ends.append(there.stat().st_size)
        shutil.copytree(recorder.folder, folder)
        return folder / there.name, [len(recorder._store.schema.serialize()), *ends]


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(
    ("kept", "at", "junk"),
    [
        pytest.param(0, -100, b"\xff" * 60, id="schema"),
        pytest.param(0, 4, bytes(8), id="as if it ended here"),
        pytest.param(10, 500, b"\xff" * 100, id="body"),
        pytest.param(20, 0, bytes(4), id="mark"),
        pytest.param(20, 4, b"\xff\xff\xff\x6f", id="as if it were cut off here"),
        pytest.param(30, 8, b"\xff" * 40, id="last"),
    ],
)
def test_of_a_damaged_journal_nothing_is_lost_that_was_not_read(
    policy, contexts, tmp_path, caplog, kept, at, junk, settled
):
    journal, ends = end_in_the_middle(policy, contexts, tmp_path / "killed")
    data, begin = bytearray(journal.read_bytes()), ends[kept // 10] + at
    data[begin : begin + len(junk)] = junk
    journal.write_bytes(data)
    if settled and kept:  # killed between writing Parquet and removing the journal
        pq.write_table(pa.Table.from_batches(read_journal(journal)), journal.with_suffix(".parquet"))
    with Recorder(journal.parent) as recorder:
        simile.Predictor(policy, recorder=recorder)
    (aside,) = journal.parent.glob(".*.damaged")
    assert aside.read_bytes() == data
    unread = len(data) - (ends[kept // 10] if at >= 0 else 0)  # without its schema nothing is read
    assert f"{journal} is damaged: {unread} bytes of it could not be read, and are kept in {aside.name}" in caplog.text
    assert not journal.exists()
    assert [row["n"] for row in rows_of(journal.parent)] == list(range(kept))
    with Recorder(journal.parent) as recorder:
        simile.Predictor(policy, recorder=recorder).step(contexts[0])
    assert aside.read_bytes() == data
    assert sorted(map(len, read(journal.parent))) == ([1, kept] if kept else [1])


def test_a_disk_that_fails_is_no_end_of_a_journal(policy, contexts, tmp_path, monkeypatch, caplog):
    journal, _ = end_in_the_middle(policy, contexts, tmp_path / "killed")

    def fail(_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(arrow, "read_bytes", fail)
        with pytest.raises((DataError, StorageError), match="Input/output error"):
            read(journal.parent)
        with Recorder(journal.parent) as recorder:
            simile.Predictor(policy, recorder=recorder).step(contexts[0])
    assert f"{journal} cannot be read: Input/output error: look after the disk" in caplog.text
    assert journal.exists()
    with Recorder(journal.parent) as recorder:
        simile.Predictor(policy, recorder=recorder)
    assert [len(d) for d in read(journal.parent)] == [40, 1]


def test_a_journal_without_a_batch_is_left_out_or_told(policy, contexts, tmp_path):
    (tmp_path / "recording-000001.arrows").write_bytes(b"\xff\xff\xff\xff\x10")
    with pytest.raises(DataError, match="there is no whole batch in this journal"):
        read(tmp_path)
    with Recorder(tmp_path / "other") as recorder:
        simile.Predictor(policy, recorder=recorder).step(contexts[0])
    shutil.copy(tmp_path / "recording-000001.arrows", tmp_path / "other" / "recording-000002.arrows")
    assert len(read(tmp_path / "other")) == 1
    Recorder(tmp_path).close()  # which has not looked into the folder: nobody had anything to record
    with Recorder(tmp_path) as recorder:
        simile.Predictor(policy, recorder=recorder).step(contexts[0])
    assert [p.suffix for _, p in journals.list_files(tmp_path)] == [".parquet"]


def test_a_journal_that_became_parquet_is_read_once(policy, contexts, tmp_path):
    with Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        predictor.step(contexts[0])
        recorder.flush()
        shutil.copy(tmp_path / "recording-000001.arrows", tmp_path / "kept")
    shutil.move(
        tmp_path / "kept", tmp_path / "recording-000001.arrows"
    )  # killed between writing one and removing the other
    assert [len(d) for d in read(tmp_path)] == [1]
    with Recorder(tmp_path) as recorder:
        simile.Predictor(policy, recorder=recorder).step(contexts[0])
    assert [len(d) for d in read(tmp_path)] == [1, 1]


def test_reading_beside_a_recorder_always_finds_whole_frames(policy, contexts, tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "MOST_ROWS", 30)
    monkeypatch.setattr(recording, "WRITE_EVERY", 0.001)
    done = threading.Event()

    def record() -> None:
        with Recorder(tmp_path) as recorder:
            predictor = simile.Predictor(policy, recorder=recorder)
            for i, x in enumerate(np.tile(contexts, (3, 1))):
                predictor.step(x)
                if i % 10 == 0:
                    recorder.flush()
        done.set()

    thread = threading.Thread(target=record)
    thread.start()
    lengths = [0]
    until(lambda: any(path.suffix == ".parquet" for _, path in journals.list_files(tmp_path)))
    while not done.is_set():
        (demo,) = read(tmp_path)
        lengths.append(len(demo))
    thread.join()
    assert lengths == sorted(lengths)
    assert len(read(tmp_path)[0]) == 1200


def test_a_folder_takes_one_recorder_and_one_set_of_columns(policy, contexts, tmp_path):
    with Recorder(tmp_path) as recorder:
        simile.Predictor(policy, recorder=recorder).step(contexts[0])
        with pytest.raises(ArgumentError, match=f"is being recorded into by process {os.getpid()}"):
            simile.Predictor(policy, recorder=Recorder(tmp_path))
    other = simile.clone(demos_of(200, m=3), model=simile.SmoothForest(n_trees=2)).policy
    with pytest.raises(ArgumentError, match="holds recordings of other columns"):
        simile.Predictor(other, recorder=Recorder(tmp_path))
    with Recorder(tmp_path) as recorder:  # the lock was left
        simile.Predictor(policy, recorder=recorder)
        with pytest.raises(ArgumentError, match="use a recorder, and a folder, of its own"):
            simile.Predictor(other, recorder=recorder)
    with pytest.raises(ArgumentError, match="recorder: it is closed"):
        simile.Predictor(policy, recorder=recorder)


def test_a_folder_takes_one_lead_one_rate_and_one_role_for_each_column(policy, contexts, tmp_path):
    with Recorder(tmp_path) as recorder:
        simile.Predictor(policy, recorder=recorder).step(contexts[0])
    later = replace(policy, horizon=replace(policy.horizon, lead=6))
    for other, rate, told in (
        (later, RATE, "a policy with a lead of 0 frames, and this one has 6: name another folder"),
        (policy, 60.0, "a policy with a rate of 30 Hz, and this one has a rate of 60 Hz: name another folder"),
    ):
        with pytest.raises(ArgumentError, match=f"{tmp_path.name} holds recordings of {told}"):
            simile.Predictor(other, recorder=Recorder(tmp_path), rate=rate)
    folder, names = tmp_path / "roles", ("x", "y", "z")
    for m, told in ((2, None), (1, r"holds recordings of other columns \(y\)")):
        demos = demos_of(60, m=m, k=3 - m, rate=RATE)
        card = Card(context_names=names[:m], action_names=names[m:], rate=RATE)
        other = replace(simile.clone(demos, model=simile.SmoothForest(n_trees=2)).policy, card=card)
        with Recorder(folder) as recorder:
            if told is None:
                simile.Predictor(other, recorder=recorder).step(np.zeros(m))
                continue
            with pytest.raises(ArgumentError, match=told):
                simile.Predictor(other, recorder=recorder)
    assert read(folder).context_names == names[:2]
    # A newest file that is damaged does not hide what the others are.
    (folder / "recording-000002.parquet").write_bytes(b"damaged")
    with pytest.raises(ArgumentError, match="holds recordings of other columns"):
        simile.Predictor(other, recorder=Recorder(folder))


def test_names_that_a_recording_has_itself_are_refused(policy, tmp_path):
    for names, told in (
        (("t", "ball"), "'t' would be one of the recording itself"),
        (("a", "b"), "'a' would be one of a"),
    ):
        card = Card(context_names=names, action_names=("a", "c"), rate=RATE)
        with pytest.raises(ArgumentError, match=told):
            simile.Predictor(replace(policy, card=card), recorder=Recorder(tmp_path))
    nameless = replace(policy, card=Card(rate=RATE))
    with Recorder(tmp_path) as recorder:
        simile.Predictor(nameless, recorder=recorder).step([0.0, 0.0])
    assert read(tmp_path)[0].context_names == ("x0", "x1")


def test_demonstrations_are_not_written_as_a_journal(tmp_path):
    with pytest.raises(ArgumentError, match="what a Recorder writes"):
        simile.write(demos_of(5), tmp_path / "d.arrows")


# ----------------------------------------------------------------------------------------------- what is not to be kept


def test_contexts_can_be_left_out_or_hashed(policy, contexts, tmp_path):
    first, second = policy.card.context_names
    X = np.round(contexts[:40])
    X[3, 1] = np.nan
    with Recorder(tmp_path, leave_out=[first], hashed=[second]) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        actions = [predictor.step(x) for x in X]
    (demo,) = read(tmp_path)
    assert np.array_equal(demo.actions, actions)
    assert np.isnan(demo.contexts[:, 0]).all()
    kept, given_ = demo.contexts[:, 1], X[:, 1]
    assert np.isnan(kept).tolist() == np.isnan(given_).tolist()
    known = ~np.isnan(given_)
    assert not np.isin(kept[known], given_[known]).any()
    assert len(np.unique(kept[known])) == len(np.unique(given_[known]))
    assert len(set(zip(kept[known], given_[known], strict=True))) == len(np.unique(given_[known]))
    with Recorder(tmp_path, hashed=[second]) as recorder:  # with another key
        simile.Predictor(policy, recorder=recorder).step(X[0])
    assert read(tmp_path)[1].contexts[0, 1] != kept[0]


def test_what_cannot_be_left_out_is_said(policy, tmp_path):
    action = policy.card.action_names[0]
    for how, told in (
        ({"leave_out": [action]}, "it is an action, which a demonstration needs"),
        ({"hashed": ["nobody"]}, "hashed: 'nobody' is no context: the contexts are"),
        ({"leave_out": ["x"], "hashed": ["x"]}, "hashed: 'x' is left out already"),
        ({"limit": 0.5}, "limit must be >= 1"),
    ):
        with pytest.raises(ArgumentError, match=told):
            simile.Predictor(policy, recorder=Recorder(tmp_path, **how))


# ------------------------------------------------------------------------------------------------------ what goes wrong


def test_a_full_disk_is_counted_and_told_once_and_what_comes_after_it_is_kept(
    policy, contexts, tmp_path, monkeypatch, caplog
):
    full, write = [False], journals._write_all

    def write_some(file, data):
        if full[0]:
            write(file, data[:100])  # a torn batch
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, data)

    monkeypatch.setattr(journals, "_write_all", write_some)
    with caplog.at_level(logging.WARNING, logger="simile.recording"), Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        for part, on in ((slice(0, 10), False), (slice(10, 30), True), (slice(30, 40), False)):
            full[0] = on
            for x in contexts[part]:
                predictor.step(x)
                recorder.flush()
            assert recorder.failing is on
    assert (recorder.rows, recorder.lost, recorder.failures) == (20, 20, 20)
    assert [row["n"] for row in rows_of(tmp_path)] == [*range(10), *range(30, 40)]
    assert caplog.text.count("the recording cannot be written: [Errno 28] No space left on device") == 1


def test_a_journal_that_cannot_become_parquet_stays_and_reads(policy, contexts, tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "MOST_ROWS", 10)
    settle = journals.settle
    monkeypatch.setattr(journals, "settle", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        for i, x in enumerate(contexts[:35]):
            predictor.step(x)
            if i % 10 == 9:
                recorder.flush()
        assert recorder.failures == 3
        monkeypatch.setattr(journals, "settle", settle)
    assert (recorder.rows, recorder.lost) == (35, 0)
    assert {p.suffix for _, p in journals.list_files(tmp_path)} == {".parquet"}
    assert len(read(tmp_path)[0]) == 35


def test_a_start_beside_a_journal_that_cannot_become_parquet_is_a_start(
    policy, contexts, tmp_path, monkeypatch, caplog
):
    with Recorder(tmp_path / "first") as recorder:
        simile.Predictor(policy, recorder=recorder).step(contexts[0])
        recorder.flush()
        shutil.copytree(tmp_path / "first", tmp_path / "killed")
    with monkeypatch.context() as full, Recorder(tmp_path / "killed") as recorder:
        full.setattr(journals, "settle", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        simile.Predictor(policy, recorder=recorder).step(contexts[0])
        recorder.flush()
        assert "could not be made whole: [Errno 28] full" in caplog.text
        assert [len(d) for d in read(tmp_path / "killed")] == [1, 1]
        full.undo()
    assert {p.suffix for p in (tmp_path / "killed").iterdir()} == {".parquet"}


def test_whatever_fails_in_the_thread_costs_its_frames_and_is_counted(policy, contexts, tmp_path, monkeypatch):
    with Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        with monkeypatch.context() as broken:
            broken.setattr(predictor.recording, "lay_out", lambda _: 1 / 0)
            predictor.step(contexts[0])
            recorder.flush()
        predictor.step(contexts[1])
    assert (recorder.rows, recorder.lost, recorder.failing) == (1, 1, False)


def test_a_batch_that_cannot_be_taken_back_ends_its_journal(policy, contexts, tmp_path, monkeypatch):
    class Torn(io.FileIO):
        def truncate(self, size=None):
            raise OSError(errno.EIO, "broken")

    write = journals._write_all

    def fail(file, data):
        write(file, data[:200])
        raise OSError(errno.EIO, "broken")

    with Recorder(tmp_path) as recorder, monkeypatch.context() as broken:
        predictor = simile.Predictor(policy, recorder=recorder)
        broken.setattr(journals.io, "FileIO", Torn)
        predictor.step(contexts[0])
        recorder.flush()
        broken.setattr(journals, "_write_all", fail)
        predictor.step(contexts[1])
        recorder.flush()
        broken.undo()
        predictor.step(contexts[2])
    assert (recorder.rows, recorder.lost) == (2, 1)
    assert [row["n"] for row in rows_of(tmp_path)] == [0, 2]
    assert len(journals.list_files(tmp_path)) == 2


def test_beyond_the_memory_that_may_wait_whole_batches_are_dropped_and_counted(policy, contexts, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "MOST_WAITING", 20_000)
    monkeypatch.setattr(recording, "WRITE_EVERY", 60.0)
    with Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        time.sleep(0.1)  # the thread waits now
        for x in np.tile(contexts, (10, 1)):
            predictor.step(x)
        assert recorder.lost > 1000
    assert recorder.rows + recorder.lost == predictor.recording.noted == 4000
    assert [row["n"] for row in rows_of(tmp_path)] == list(range(recorder.rows))


def test_a_folder_that_is_removed_is_made_anew_and_what_was_being_written_is_told(policy, contexts, tmp_path, caplog):
    folder = tmp_path / "kept"
    recorder = Recorder(folder)
    predictor = simile.Predictor(policy, recorder=recorder)
    for x in contexts[:10]:
        predictor.step(x)
    recorder.flush()
    shutil.rmtree(folder)
    predictor.step(contexts[10])
    recorder.flush()
    assert (recorder.rows, recorder.lost, recorder.failing) == (11, 10, False)
    told = "recording-000001.arrows was removed by somebody, and 10 frames with it: they are lost"
    assert caplog.text.count(told) == 1
    with pytest.raises(ArgumentError, match=f"is being recorded into by process {os.getpid()}"):
        simile.Predictor(policy, recorder=Recorder(folder))
    shutil.rmtree(folder)
    with Recorder(folder) as other:  # now it is somebody else's
        simile.Predictor(policy, recorder=other).step(contexts[0])
        other.flush()
        predictor.step(contexts[11])
        recorder.flush()
        assert (recorder.rows, recorder.lost, recorder.failing) == (11, 12, True)
        recorder.close()
        assert {path.name for path in folder.iterdir()} == {journals.LOCK, "recording-000001.arrows"}
    assert [row["n"] for row in rows_of(folder)] == [0]


def test_a_process_that_goes_to_another_folder_records_where_it_did(policy, contexts, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with Recorder("kept") as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        for k, x in enumerate(contexts[:20]):
            predictor.step(x)
            if k == 9:
                recorder.flush()
                monkeypatch.chdir(tmp_path / "elsewhere")
    assert (recorder.rows, recorder.lost) == (20, 0)
    assert len(rows_of(tmp_path / "kept")) == 20


def test_a_folder_that_comes_back_is_held_again(policy, contexts, tmp_path):
    folder = tmp_path / "kept"
    with Recorder(folder) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        predictor.step(contexts[0])
        recorder.flush()
        folder.rename(tmp_path / "away")
        folder.touch()  # where there can be no folder
        predictor.step(contexts[1])
        recorder.flush()
        assert recorder.failing
        folder.unlink()
        (tmp_path / "away").rename(folder)
        predictor.step(contexts[2])
        recorder.flush()
        assert not recorder.failing
        with pytest.raises(ArgumentError, match=f"is being recorded into by process {os.getpid()}"):
            simile.Predictor(policy, recorder=Recorder(folder))


def test_a_folder_that_is_removed_before_the_end_is_told_then(policy, contexts, tmp_path):
    with Recorder(tmp_path / "kept") as recorder:
        simile.Predictor(policy, recorder=recorder).step(contexts[0])
        recorder.flush()
        shutil.rmtree(tmp_path / "kept")
    assert (recorder.rows, recorder.lost, recorder.failing) == (1, 1, False)


def test_frames_that_come_after_the_end_are_lost_and_told_once(policy, contexts, tmp_path, caplog):
    with Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        predictor.step(contexts[0])
    assert "are counted as lost" not in caplog.text
    for x in contexts[:50]:
        predictor.step(x)
    assert (recorder.rows, recorder.lost, predictor.recording.noted) == (1, 50, 51)
    assert caplog.text.count("frames that are noted from now on are counted as lost") == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_frames_of_a_child_process_are_lost_and_leave_the_parents_alone(policy, contexts, tmp_path):
    said, say = os.pipe()
    with Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        predictor.step(contexts[0])
        with recorder._counting, predictor.recording._lock:  # which nobody in the child would ever give back
            child = os.fork()
        if not child:
            try:
                for x in contexts[:20]:
                    predictor.step(x)
                recorder.flush()
                recorder.close()
                os.write(say, f"{recorder.lost} lost".encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(say)
        assert os.read(said, 100) == b"20 lost"
        os.close(said)
        assert (tmp_path / journals.LOCK).exists()
        predictor.step(contexts[1])
    assert (recorder.rows, recorder.lost) == (2, 0)
    assert [row["n"] for row in rows_of(tmp_path)] == [0, 1]


# ---------------------------------------------------------------------------------------------------------------- doors


def test_after_kill_9_all_but_the_last_second_reads(policy, contexts, tmp_path):
    file, folder = tmp_path / "policy.safetensors", tmp_path / "kept"
    policy.save(file)
    with served(file, "--record", str(folder), *GENEROUS) as server, server.connect("/camera-1") as ws:
        answers = [ask(ws, {"n": i, "x": x.tolist()}) for i, x in enumerate(contexts[:100])]
        answers.append(ask(ws, {"n": 100, "override": [1.0, 2.0]}))
        until(lambda: server.metric("simile_recorded_total") == 101)
        assert server.metric("simile_record_lost_total") == 0
        assert len(read(folder)[0]) == 101  # while it is written
        answers += [ask(ws, {"n": i, "x": None}) for i in range(101, 110)]  # perhaps too late
        server.stop(signal.SIGKILL)
    (demo,) = read(folder)
    assert 101 <= len(demo) <= 110
    assert np.array_equal(demo.actions, [answer["a"] for answer in answers[: len(demo)]])
    assert {row["policy"] for row in rows_of(folder)} == {read_header(file)["digest"]}
    with served(file, "--record", str(folder), *GENEROUS) as server:
        with server.connect("/camera-1") as ws:
            ask(ws, {"x": contexts[0].tolist()})
        server.stop()
    assert {p.suffix for p in folder.iterdir()} == {".parquet"}  # in good order
    assert [len(d) for d in read(folder)] == [len(demo), 1]


@pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")
def test_a_full_disk_is_told_to_streams_which_are_served_on(policy, contexts, tmp_path):
    import resource

    file, folder = tmp_path / "policy.safetensors", tmp_path / "kept"
    policy.save(file)
    with served(file, "--record", str(folder), *GENEROUS) as server, server.connect("/one") as ws:
        ask(ws, {"x": contexts[0].tolist()})
        until(lambda: server.metric("simile_recorded_total") == 1)
        limits = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        events = []

        def told(on: bool) -> bool:
            ws.send(json.dumps({"x": contexts[1].tolist()}))
            while "a" not in (said := json.loads(ws.recv(timeout=10))):
                events.append(said["event"])
            return {"kind": "record_failed", "on": on} in events

        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (100, limits[1]))
        until(lambda: told(True))
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limits)
        until(lambda: told(False))
        assert server.metric("simile_record_lost_total") > 0
        assert [event["on"] for event in events if event["kind"] == "record_failed"] == [True, False]
    assert any("record_failed" in (row["event"] or "") for row in rows_of(folder))


def test_run_records_and_what_the_policy_did_is_trained_on_only_as_it_is(policy, contexts, tmp_path):
    policy.save(tmp_path / "policy.safetensors")
    names = policy.card.context_names
    lines = "\n".join(json.dumps(dict(zip(names, x.tolist(), strict=True))) for x in contexts[:200])
    how = ["--record", "kept", "--record-limit", "10"]
    done = simile_("run", "policy.safetensors", *how, stdin=lines, cwd=tmp_path)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert np.array_equal(read(tmp_path / "kept")[0].actions, [list(a.values()) for a in answers])
    simile_("run", "policy.safetensors", "--record", "kept", stdin=lines, cwd=tmp_path)
    words = ("train", "kept", "--out", "again", "--model", "SmoothForest(n_trees=2)")
    refused = simile_(*words, cwd=tmp_path, code=2).stderr
    assert "400 of 400 rows are no person's ('who' is policy 400)" in refused
    assert "simile improve" in refused
    simile_(*words, "--as-is", cwd=tmp_path)
    assert simile.load(tmp_path / "again" / "policy.safetensors").card.context_names == names


def test_how_to_record_needs_where(policy, tmp_path):
    policy.save(tmp_path / "policy.safetensors")
    done = simile_("run", "policy.safetensors", "--record-limit", "5", cwd=tmp_path, code=2)
    assert "--record-limit needs --record" in done.stderr
