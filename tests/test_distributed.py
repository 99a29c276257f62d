"""Algorithm 1 on a Dask cluster of two worker processes: the same bits, with a worker killed, from files."""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed")

import distributed
import joblib
from pyarrow import parquet
from sklearn.ensemble import RandomForestRegressor

import clusters
import simile
from clusters import FOREST, QUICK, cluster, frames_of
from conftest import demos_of
from same import check_same_rounds, differences
from simile import Demonstrations, Horizon, SimileError, SmoothForest, rounds
from simile.learning.distributed import DistributedDemonstrations
from simile.learning.distributed.backend import LocalBackend
from simile.learning.distributed.dask import PATIENCE, DaskBackend, Traffic, _align, connect
from simile.learning.distributed.forest import Part, _Laid, grow_distributed
from simile.models.closed_loop import ClosedLoop
from test_distributed_forest import assert_equal_bits

client, files = clusters.client, clusters.files

HORIZON = Horizon((0, 1, 2), ())


@pytest.fixture
def no_digest(monkeypatch):
    for kind in (Demonstrations, DistributedDemonstrations):
        monkeypatch.setattr(kind, "digest", lambda _: "")


def test_two_workers_learn_the_policy_of_one_machine_to_the_bit(client, no_digest):
    demos = demos_of(60, 3, 45, 80, 30, k=2, rate=30.0)
    backend = DaskBackend(client, parts=3)
    local, spread = (simile.paper(demos, **QUICK, validation=0.4, backend=b) for b in (None, backend))
    check_same_rounds(local.rounds, spread.rounds)
    assert backend.traffic.sent > 0 < backend.traffic.received


def test_what_came_in_a_message_is_brought_to_where_numbers_may_begin():
    buffer = np.arange(201, dtype=np.uint8)
    odd = np.frombuffer(buffer[1:], dtype=np.float64)
    even = np.frombuffer(buffer[:200], dtype=np.float64)
    forest = SmoothForest()
    found = _align([{"a": odd}, (even, [odd]), ClosedLoop(odd), forest, Traffic(1, 2)])
    assert not odd.flags.aligned
    assert found[0]["a"].flags.aligned
    assert found[1][0] is even
    assert found[1][1][0].tobytes() == odd.tobytes()
    assert found[2].taps.flags.aligned
    assert found[3] is forest
    same = [(even,), {"a": even}]
    assert _align(same) is same


@pytest.mark.long
def test_two_workers_cross_fit_the_policy_file_of_one_machine(client, tmp_path):
    demos = demos_of(60, 3, 45, 80, k=2, rate=30.0)
    for backend in (None, DaskBackend(client, parts=3)):
        run = simile.learn(demos, model=(FOREST, simile.Ridge()), smoothness=20.0, backend=backend)
        run.policy.save(tmp_path / ("local" if backend is None else "spread"))
    assert (tmp_path / "local").read_bytes() == (tmp_path / "spread").read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_any_number_of_workers_one_of_them_killed_in_a_forest_cross_fits_the_policy_file_of_one_machine(
    n_workers, tmp_path
):
    demos = demos_of(60, 3, 45, 80, 30, 50, k=2, rate=30.0)
    simile.learn(demos).policy.save(tmp_path / "local")
    with cluster(n_workers) as client:
        for backend in (DaskBackend(client), Killing(client, "grow_together", first=3)):
            simile.learn(demos, backend=backend).policy.save(tmp_path / "spread")
            assert (tmp_path / "local").read_bytes() == (tmp_path / "spread").read_bytes()
        assert backend.names == []
        client.wait_for_workers(n_workers, timeout=60)


@pytest.mark.long
def test_a_worker_killed_while_it_cross_fits_changes_nothing(client, tmp_path):
    demos, choices = demos_of(60, 45, 80, 30, 50), {"model": (FOREST, simile.Ridge()), "smoothness": 20.0}
    simile.learn(demos, **choices).policy.save(tmp_path / "local")
    backend = Killing(client, "grow_together", parts=4, first=2)
    simile.learn(demos, **choices, backend=backend).policy.save(tmp_path / "spread")
    assert backend.names == []
    assert (tmp_path / "local").read_bytes() == (tmp_path / "spread").read_bytes()
    client.wait_for_workers(2, timeout=60)
    assert backend.killed not in client.run(os.getpid).values()


@pytest.fixture
def too_much(monkeypatch):
    """The rows of all parts do not fit one worker, and those of a large node do not either."""
    monkeypatch.setattr(_Laid, "_bytes_together", lambda *_: np.inf)
    monkeypatch.setattr(DaskBackend, "room", 100_000)


def grow(demos, backend, model):
    """Grow a forest on demonstrations in parts."""
    spread = DistributedDemonstrations.of(demos, backend)
    parts = spread.map(as_part, shared=(HORIZON,))
    return grow_distributed(
        backend, model, parts, np.append(0, np.cumsum(demos.lengths)), 0.0, np.random.default_rng(0)
    )


def as_part(demos, horizon):
    labels = np.concatenate(demos.actions)
    return Part(horizon.states(demos, demos.actions), labels, labels, labels)


def grow_here(demos, model):
    part = as_part(demos, HORIZON)
    return model.fit_smooth([part.states], *(part.labels,) * 3, 0.0, np.random.default_rng(0))


@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.parametrize("levels", [False, True])
def test_one_or_three_workers_grow_the_forest_of_one_machine(n_workers: int, levels: bool, request):
    if levels:
        request.getfixturevalue("too_much")
    demos, model = demos_of(300, 450, 280, 330), replace(FOREST, n_trees=4, max_depth=None)
    with cluster(n_workers, threads_per_worker=2, processes=False) as client:
        for parts in (1, 4):
            assert_equal_bits(grow(demos, DaskBackend(client, parts=parts), model), grow_here(demos, model))


@pytest.mark.parametrize("levels", [False, pytest.param(True, marks=pytest.mark.long)])
def test_what_comes_here_is_the_trees_however_many_frames_there_are(client, levels: bool, request):
    if levels:
        request.getfixturevalue("too_much")
    came = []
    for n in (300, 1200):
        backend = DaskBackend(client, parts=4)
        before = backend.traffic_between()
        grow(demos_of(n, n, n, n), backend, replace(FOREST, n_trees=4, max_depth=3))
        came.append(backend.traffic.received)
        assert backend.traffic_between() - before > 3 * n  # bins, or histograms, of what lies with another worker
    assert came[0] < 30_000
    assert came[1] < (3.0 if levels else 1.2) * came[0]  # in more trips, for lack of room


class Slow:
    """The expert's feedback, late, so that there is a middle of the round to kill a worker in."""

    def __call__(self, seen):
        time.sleep(0.5)
        return seen.demos.actions


@pytest.mark.long
def test_a_worker_killed_in_the_middle_of_a_round_changes_nothing(client, no_digest):
    demos = demos_of(60, 45, 80, 30)
    choices = {**QUICK, "feedback": Slow()}
    local = list(rounds(demos, **choices))
    turns = rounds(demos, **choices, backend=DaskBackend(client, exact=True, parts=4))
    first = next(turns)
    victim = next(iter(client.run(os.getpid).values()))

    def kill_soon() -> None:
        time.sleep(0.3)
        os.kill(victim, signal.SIGKILL)

    with joblib.parallel_backend("threading"):
        _, rest = joblib.Parallel(n_jobs=2)([joblib.delayed(kill_soon)(), joblib.delayed(list)(turns)])
    check_same_rounds(local, [first, *rest])
    client.wait_for_workers(2, timeout=60)
    assert victim not in client.run(os.getpid).values()


class Slowly:
    """A function that takes its time, so that a worker can be killed while it is at work on it."""

    def __init__(self, function):
        self.function, self.__name__ = function, function.__name__

    def __call__(self, *given):
        time.sleep(0.5)
        return self.function(*given)


class Killing(DaskBackend):
    """A backend that kills a worker at work on something, once for each name of that, after the first few times."""

    def __init__(self, client, *names, first=0, **how):
        super().__init__(client, **how)
        client.wait_for_workers(
            len(client.cluster.worker_spec), timeout=300
        )  # a busy machine starts one anew in minutes
        self.names, self.first, self.killed = list(names), first, 0

    def map(self, function, *handles, shared=()):
        name = getattr(function, "__name__", "")
        if name not in self.names:
            return super().map(function, *handles, shared=shared)
        if self.first > 0:
            self.first -= 1
            return super().map(function, *handles, shared=shared)
        self.names.remove(name)
        found, worker = super().map(Slowly(function), *handles, shared=shared), None
        while worker is None:
            at_work = self.client.processing()
            worker = next((who for who, keys in at_work.items() if any(key.startswith(name) for key in keys)), None)
        time.sleep(0.2)  # it has been sent, and has begun
        self.lose(worker)
        return found

    def lose(self, worker):
        (self.killed,) = self.client.run(os.getpid, workers=[worker]).values()
        os.kill(self.killed, signal.SIGKILL)


class Losing(Killing):
    """The same for workers in this process: all that one holds, and is at work on, is gone."""

    def lose(self, worker):
        self.client.sync(self.client.cluster.scheduler.remove_worker, worker, stimulus_id="lost")


def test_a_worker_killed_in_the_middle_of_a_forest_changes_no_bit(client):
    demos, model = demos_of(300, 450, 280, 330), replace(FOREST, n_trees=4, max_depth=None)
    backend = Killing(client, "grow_together", parts=4)
    assert_equal_bits(grow(demos, backend, model), grow_here(demos, model))
    assert backend.names == []


@pytest.mark.parametrize("name", ["find_splits", "finish_nodes"])
def test_a_worker_lost_between_two_levels_of_a_forest_changes_no_bit(too_much, name: str):
    demos, model = demos_of(300, 450, 280, 330), replace(FOREST, n_trees=2, max_depth=None)
    with cluster(2, processes=False) as client:
        backend = Losing(client, name, parts=4)
        assert_equal_bits(grow(demos, backend, model), grow_here(demos, model))
        assert backend.names == []
        assert len(client.nthreads()) == 1


@pytest.mark.long
@pytest.mark.parametrize("name", ["find_splits", "finish_nodes"])
def test_a_worker_killed_between_two_levels_of_a_forest_changes_no_bit(client, too_much, name: str):
    demos, model = demos_of(300, 450, 280, 330), replace(FOREST, n_trees=4, max_depth=None)
    backend = Killing(client, name, parts=4)
    assert_equal_bits(grow(demos, backend, model), grow_here(demos, model))
    assert backend.names == []


def test_trees_that_grow_where_their_data_are_are_those_of_parts_in_one_process(client, no_digest):
    demos = demos_of(60, 45, 80, 30)
    backends = LocalBackend(parts=3, exact=False), DaskBackend(client, exact=False, parts=3)
    check_same_rounds(*(list(rounds(demos, backend=b, **QUICK)) for b in backends))


def test_a_forest_is_sent_once_however_many_mixtures_hold_it(client):
    demos = demos_of(60, 45)
    *_, last = rounds(demos, **{**QUICK, "n_rounds": 2, "step_size": 0.5})
    backend = DaskBackend(client)
    spread = DistributedDemonstrations.of(demos, backend)
    placed = backend.traffic
    spread.outcome(last.policy)
    first = backend.traffic
    again = spread.outcome(last.policy.in_units(last.policy.units, last.policy.space))
    assert 0 < (backend.traffic - first).sent < (first - placed).sent / 3
    assert again.error == pytest.approx(last.error, rel=1e-6)
    assert Traffic(5, 3) - Traffic(1, 1) == Traffic(4, 2)


# Reading


def test_workers_read_what_one_machine_reads(client, files, no_digest):
    local = simile.read(str(files / "*.parquet"), quiet=True)
    backend = DaskBackend(client, exact=True, parts=3)
    spread = backend.read(str(files / "*.parquet"))
    assert len(spread.handles) == 3
    assert (spread.names, spread.rate, spread.n_frames) == (local.names, local.rate, local.n_frames)
    assert (spread.context_names, spread.action_names) == (local.context_names, local.action_names)
    assert differences(list(spread.gather()), list(local)) == []
    check_same_rounds(simile.paper(local, **QUICK).rounds, simile.paper(spread, **QUICK, backend=backend).rounds)


def test_what_workers_have_guessed_is_said_here(client, tmp_path, capsys):
    for i in range(2):
        rows = "".join(f"{40 * j}, {j % 3}, {j % 5}\n" for j in range(20))
        (tmp_path / f"{i}.csv").write_text(f"t, x_ball, a_pan\n{rows}")
    spread = DaskBackend(client).read(tmp_path)
    assert (spread.rate, spread.context_names) == (25.0, ("x_ball",))
    said = capsys.readouterr().err
    assert (
        "The first of 2 files, as all are read:\n0.csv: 1 sequence, 20 frames, 25 Hz inferred from column 't'" in said
    )
    assert "'t' is taken for milliseconds" in said
    assert DaskBackend(client).read(tmp_path, time_unit="s", quiet=True).rate == 0.025
    assert capsys.readouterr().err == ""


KINDS_OF_FRAMES = {
    "numbers in order": frames_of(40, label=int),
    "names in no order": frames_of(40, label=lambda i: f"game {7 * i % 40}"),
    "names of one row group": frames_of(40, label=lambda i: f"{i // 2:03d}-{i % 2}"),
    # What a part of the rows would guess otherwise: the unit and the rate of the time, and what counts rows.
    "stamps in milliseconds": frames_of(40, label=int, clock=lambda i, t: int(t * 1000 / 120)),
    "a rate that is not round": frames_of(40, label=int, clock=lambda i, t: t / 12.3457 + 0.01 * np.sin(3.0 * t + i)),
    "numbers of frames": frames_of(40, label=int, clock=lambda i, t: t if i < 30 else 2 * t),
    "rows that are counted": frames_of(40, label=int, number=lambda which, when: np.arange(len(which))),
    "counted but for the end": frames_of(40, label=int, number=lambda which, when: np.where(which < 39, when, 3)),
}


SELDOM = {"numbers in order", "rows that are counted"}  # others are these, and something more


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.long) if k in SELDOM else k for k in KINDS_OF_FRAMES]
)
def test_the_row_groups_of_a_file_are_read_by_several_workers_to_the_same_bits(client, tmp_path, kind, no_digest):
    table, prefixed = KINDS_OF_FRAMES[kind], "counted" not in kind
    if not prefixed:
        table = table.rename_columns({"x_0": "wind"})
    parquet.write_table(table, tmp_path / "games.parquet", row_group_size=300)
    backend = DaskBackend(client, parts=4)
    whole = simile.read(tmp_path / "games.parquet", group="sequence", quiet=True)
    spread = backend.read(tmp_path / "games.parquet", quiet=True)
    assert len(spread.handles) == 4
    assert max(map(len, backend.collect(spread.handles))) < 20
    assert differences(whole, spread.gather()) == []
    assert (spread.rate, spread.names, spread.context_names) == (whole.rate, whole.names, whole.context_names)
    cut = {"gap": 1.5, "rate": 30.0} if kind == "numbers of frames" else {"gap": 0.5, "resample": 10.0}
    if kind != "rows that are counted":
        whole = simile.read(tmp_path / "games.parquet", **cut, group="sequence", quiet=True)
        assert differences(whole, backend.read(tmp_path / "games.parquet", **cut, quiet=True).gather()) == []


def test_frames_of_any_number_are_written_and_are_the_same_each_time(tmp_path):
    write_frames = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "write_frames.py"))["main"]
    for name, frames in (("a", "3_000"), ("b", "3_000")):
        write_frames(
            ["--frames", frames, "--contexts", "3", "--length", "100", "--files", "2", "--out", str(tmp_path / name)]
        )
    read = simile.read(tmp_path / "a", quiet=True)
    assert (read.n_frames, len(read), read.rate) == (3_000, 30, 30.0)
    assert (read.context_names, read.action_names) == (("x_0", "x_1", "x_2"), ("a_pan",))
    assert read.digest() == simile.read(tmp_path / "b", quiet=True).digest()


def test_sequences_side_by_side_are_read_by_one_worker_and_it_is_said(client, tmp_path, capsys):
    table = frames_of(40, label=lambda i: int(i) % 2, clock=lambda i, t: 200 * i + t)
    parquet.write_table(table, tmp_path / "games.parquet", row_group_size=300)
    spread = DaskBackend(client, parts=4).read(tmp_path / "games.parquet")
    assert len(spread.handles) == 1
    assert differences(simile.read(tmp_path / "games.parquet", quiet=True), spread.gather()) == []
    assert (
        "games.parquet: its sequences go on side by side, or have no column, so that one worker"
        in capsys.readouterr().err
    )


def test_a_large_file_among_small_ones_is_cut_and_an_error_in_it_has_its_row(client, tmp_path, capsys):
    table = frames_of(40, label=int)
    parquet.write_table(table, tmp_path / "b.parquet", row_group_size=300)
    small = frames_of(3, label=lambda i: int(i) + 100)
    for name in "ac":
        parquet.write_table(small, tmp_path / f"{name}.parquet")
    backend = DaskBackend(client, parts=4)
    spread = backend.read(f"{tmp_path}/*.parquet")
    whole = simile.read(f"{tmp_path}/*.parquet", group="sequence", quiet=True)
    assert (spread.names, len(spread.handles)) == (whole.names, 3)
    assert differences(whole, spread.gather()) == []
    values = table["a_0"].to_pylist()
    values[2000] = None
    parquet.write_table(table.set_column(3, "a_0", [values]), tmp_path / "b.parquet", row_group_size=300)
    with pytest.raises(SimileError, match=r"b\.parquet: row 2001, column 'a_0': the action is missing"):
        backend.read(f"{tmp_path}/*.parquet")


def test_files_whose_rates_differ_a_little_have_the_rate_of_all_together(client, tmp_path, capsys):
    for i, period in enumerate((0.081, 0.0812, 0.0811)):
        table = frames_of(3, label=lambda game, i=i: 10 * i + int(game), clock=lambda game, t, p=period: t * p)
        parquet.write_table(table, tmp_path / f"{i}.parquet")
    spread = DaskBackend(client, parts=3).read(f"{tmp_path}/*.parquet")
    assert "note" not in capsys.readouterr().err  # the column of the sequences is no group
    whole = simile.read(f"{tmp_path}/*.parquet", quiet=True)
    assert len({simile.read(file, quiet=True).rate for file in tmp_path.iterdir()}) == 3
    assert differences(whole, spread.gather()) == []
    parquet.write_table(frames_of(3, label=int, clock=lambda _, t: t / 50.0), tmp_path / "4.parquet")
    with pytest.raises(SimileError, match=r"the rates differ: 50 Hz in '\S+' and 12\.\d+ Hz .* bring all to one with"):
        DaskBackend(client, parts=3).read(f"{tmp_path}/*.parquet")


def test_files_that_each_count_from_zero_keep_their_sequences_apart(client, tmp_path):
    for i in range(2):
        simile.write(demos_of(20, 30, seed=i), tmp_path / f"day-{i}.csv")
    local = simile.read(tmp_path, actions="a0", quiet=True)
    assert DaskBackend(client).read(tmp_path, actions="a0").names == local.names
    assert len(set(local.names)) == 4


def test_workers_read_the_groups_that_are_named_or_stored_and_guess_none(client, tmp_path, capsys):
    demos = demos_of(20, 30, 25, 20, 30, 25).grouped([*"ppqqrr"], by="person")
    for i in range(3):
        simile.write(demos[2 * i : 2 * i + 2], tmp_path / f"day-{i}.csv")
        simile.write(demos[2 * i : 2 * i + 2], tmp_path / f"day-{i}.parquet")
    backend = DaskBackend(client, parts=2)
    assert backend.read(str(tmp_path / "*.csv"), actions="a0").groups is None
    assert "'person' may be what sequences have in common: group='person' holds" in capsys.readouterr().err
    named = backend.read(str(tmp_path / "*.csv"), actions="a0", group="person")
    stored = backend.read(str(tmp_path / "*.parquet"))
    for spread in (named, stored):
        assert (spread.groups, spread.group_name) == (demos.groups, "person")
        train, test = spread.hold_out(0.3)
        assert [p.groups for p in (train, test)] == [p.groups for p in demos.hold_out(0.3)]
    with pytest.raises(SimileError, match=r"repair: a cluster reads files as they are: .*repair=True\).*simile.write"):
        backend.read(tmp_path, repair=True)
    with pytest.raises(SimileError, match="group: on a cluster it must be a column"):
        backend.read(str(tmp_path / "*.csv"), actions="a0", group="folder")


def test_a_file_that_cannot_be_read_is_named(client, files):
    (files / "part-1.parquet").write_bytes(b"no parquet")
    with pytest.raises(SimileError, match=r"part-1\.parquet"):
        DaskBackend(client).read(files)
    with pytest.raises(SimileError, match="no file matches the pattern"):
        DaskBackend(client).read(str(files / "*.csv"))


# What goes wrong


def test_something_else_than_a_client_is_refused():
    with pytest.raises(SimileError, match=r"client must be a distributed\.Client .* got 'tcp://here'"):
        DaskBackend("tcp://here")


def test_parts_must_be_a_number(client):
    with pytest.raises(SimileError, match="parts must be >= 1; got 0"):
        DaskBackend(client, parts=0)
    assert repr(DaskBackend(client)).endswith("exact=True, parts=4)")


def test_an_error_of_a_worker_is_the_error_of_the_run(client):
    with pytest.raises(SimileError, match="order must be shorter than the longest sequence; got order=10"):
        list(rounds(demos_of(5, 6), model=FOREST, horizon=Horizon(1, 0), backend=DaskBackend(client)))


def test_nobody_listening_at_an_address_is_said_within_seconds(monkeypatch):
    assert PATIENCE <= 10.0
    monkeypatch.setattr("simile.learning.distributed.dask.PATIENCE", 1.0)
    begin = time.monotonic()
    with (
        pytest.raises(SimileError, match=r"dask: no scheduler answers at 'tcp://127.0.0.1:9'.*dask scheduler"),
        connect("tcp://127.0.0.1:9"),
    ):
        pass
    assert time.monotonic() - begin < 30.0


def test_a_worker_of_another_version_or_without_us_is_named(client, monkeypatch):
    module = importlib.import_module("simile.learning.distributed.dask")
    with pytest.raises(SimileError, match=r"the worker at tcp://a has none \(No module named 'simile'\) of smooth"):
        module._check_versions({"tcp://a": ModuleNotFoundError("No module named 'simile'")})
    monkeypatch.setattr(module, "__version__", "9.9")
    with pytest.raises(SimileError, match=r"the worker at tcp\S+ has version 0\S+ of .* `pip install '\S+==9\.9'`"):
        DaskBackend(client)


def test_workers_of_this_machine_leave_ctrl_c_to_the_process_that_started_them(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    with connect("local") as client:
        assert list(client.run(signal.getsignal, signal.SIGINT).values()) == [signal.SIG_IGN]


def test_a_scheduler_without_workers_is_waited_for_and_it_is_said(capsys):
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as started:
        soon = threading.Timer(0.3, started.scale, (1,))
        soon.start()
        with connect(started.scheduler_address) as client:
            assert len(client.nthreads()) == 1
        soon.join()
    assert f"waiting for workers: start some with `dask worker {started.scheduler_address}`" in capsys.readouterr().err


# joblib, for models of other libraries


def test_a_scikit_learn_forest_is_fitted_by_the_workers_through_joblib(client):
    demos = demos_of(60, 45)
    choices = {**QUICK, "model": RandomForestRegressor(n_estimators=4, random_state=0, n_jobs=2)}
    (*_, here) = rounds(demos, **choices)
    with joblib.parallel_backend("dask", client=client):
        (*_, there) = rounds(demos, **choices)
    for a, b in zip(here.rolled, there.rolled, strict=True):
        np.testing.assert_array_equal(a, b)
