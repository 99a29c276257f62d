"""Commands with `--dask`: what they find on a cluster is what they find here, and what they refuse."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("distributed")

from pyarrow import parquet

import clusters
import simile
from clusters import FOREST, QUICK, frames_of
from commands import command, simile_
from conftest import demos_of
from same import differences
from simile import Demonstrations, SimileError
from simile.learning.distributed import DistributedDemonstrations
from simile.learning.distributed.backend import LocalBackend
from simile.learning.runs import RunFolder
from simile.learning.tuning import CrossFitting

client, files = clusters.threads, clusters.files

CARS = Path(__file__).parents[2] / "shared" / "data" / "car_following"


def test_the_command_trains_on_a_cluster(client, files, tmp_path):
    out = tmp_path / "run"
    options = ["--dask", client.scheduler.address, "--n-rounds", "1", "--model", repr(FOREST), "--out", out]
    options += ["--algorithm", "paper", "--horizon", "Horizon(2, 2)", "--test", "0.34"]
    data = str(files / "*.parquet")
    done = simile_("train", data, *options, cwd=tmp_path, process=True)
    assert "DistributedDemonstrations(6 sequences, 225 frames, 4 parts)" in done.stdout
    policy = simile.load(out / "policy.safetensors")
    train, _ = simile.read(data, quiet=True).hold_out(0.34)
    local = simile.paper(train, **QUICK, validation=0.2).policy
    assert differences(simile.rollout(local, train), simile.rollout(policy, train)) == []
    assert (out / "report.html").exists()


@pytest.mark.parametrize("test", [[], ["--test", "0.34"]])
def test_the_command_learns_on_a_cluster_what_it_learns_here_and_goes_on_where_it_stopped(
    client, files, tmp_path, test
):
    data, model = str(files / "*.parquet"), f"({FOREST!r}, Ridge())"
    options = ["--model", model, "--smoothness", "20", *test, "--no-report"]
    where = ["--dask", client.scheduler.address]
    here = simile_("train", data, *options, "--out", "here", cwd=tmp_path)
    there = simile_("train", data, *options, *where, "--out", "there", cwd=tmp_path)
    policies = [(tmp_path / name / "policy.safetensors") for name in ("here", "there")]
    assert policies[0].read_bytes() == policies[1].read_bytes()
    told = [out.stdout[out.stdout.index("component ") : out.stdout.index("\nPolicy:")] for out in (here, there)]
    told = [re.sub(r" +\S+$", "", text, flags=re.MULTILINE) for text in told]  # seconds
    assert told[0] == told[1]
    judged = [RunFolder(tmp_path / name).judged() for name in ("here", "there")]
    assert [found is None for found in judged] == [bool(test)] * 2
    assert differences(*judged) == []
    policies[1].unlink()
    (tmp_path / "there" / "summary.json").unlink()
    simile_("train", data, "--resume", "there", cwd=tmp_path)
    assert policies[0].read_bytes() == policies[1].read_bytes()


@pytest.mark.long
def test_many_held_out_sequences_are_judged_where_they_lie_and_some_are_shown(client, files, tmp_path, monkeypatch):
    data, model = str(files / "*.parquet"), "(SmoothForest(n_trees=3, min_leaf=4), Ridge())"
    options = ["--model", model, "--smoothness", "20", "--test", "0.5"]
    here = simile_("train", data, *options, "--out", "here", cwd=tmp_path).stdout
    monkeypatch.setattr(importlib.import_module("simile.cli.train"), "MOST_HELD_OUT", 1)
    where = ["--dask", client.scheduler.address]
    there = simile_("train", data, *options, *where, "--out", "there", cwd=tmp_path).stdout
    assert "note: judged on 3 held-out sequences; shown, and told how they move, are 1 drawn by chance" in there
    assert here[here.index("the expert ") : here.index("\nPolicy:")] in there
    assert (tmp_path / "there" / "report.html").exists()
    told = [json.loads((tmp_path / name / "summary.json").read_text("utf-8")) for name in ("here", "there")]
    assert told[0]["verdict"] == told[1]["verdict"]
    assert [row["error"] for row in told[0]["held_out"]] == [row["error"] for row in told[1]["held_out"]]
    assert told[0]["verdict"]["motion"]  # which is that of both


@pytest.mark.long
@pytest.mark.skipif(not CARS.exists(), reason="needs the recordings of cars")
def test_car_following_gets_the_same_verdict_on_a_cluster(client, tmp_path):
    frames = pd.read_csv(CARS / "car_following.csv").merge(pd.read_csv(CARS / "sequences.csv")[["sequence", "run"]])
    frames.to_csv(tmp_path / "cars.csv", index=False)
    contexts = [part for name in frames if name.startswith("x_") for part in ("--contexts", name)]
    options = ["--actions", "a_speed", *contexts, "--group", "run", "--no-report"]
    here = simile_("train", "cars.csv", *options, "--out", "here", cwd=tmp_path).stdout
    where = ["--dask", client.scheduler.address]
    there = simile_("train", "cars.csv", *options, *where, "--out", "there", cwd=tmp_path).stdout
    assert here[here.index("the expert ") : here.index("\nPolicy:")] in there
    policies = [(tmp_path / name / "policy.safetensors").read_bytes() for name in ("here", "there")]
    assert policies[0] == policies[1]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """A policy of files in a folder."""
    folder = tmp_path_factory.mktemp("policy")
    demos = demos_of(60, 45, 80, 70, 65, 50, rate=10.0)
    for i in range(3):
        simile.write(demos[2 * i : 2 * i + 2], folder / "data" / f"{i}.parquet")
    run = simile.learn(demos, model=(FOREST, simile.Ridge()), smoothness=20.0)
    run.policy.save(folder / "policy.safetensors")
    return folder


def compared(told: str):
    """Return what a comparison found but for the times."""
    found = json.loads(told)
    for contender in found["held_out"]:
        for name in ("seconds", "microseconds"):
            contender.pop(name)
    return found


CONTEST = ["compare", "data", "--no-report", "--json", "--validation", "0.4", "--n-rounds", "0", "--reductions"]


@pytest.mark.parametrize(
    ("words", "find"),
    [
        (["evaluate", "policy.safetensors", "data", "--json"], json.loads),
        (["diagnose", "policy.safetensors", "data", "--json"], json.loads),
        pytest.param([*CONTEST, "learn", "--reductions", "clone"], compared, marks=pytest.mark.long),
    ],
)
def test_commands_find_on_a_cluster_what_they_find_here(client, policy, words, find):
    out = ["--out", "here"] if words[0] == "compare" else []
    here = simile_(*words, *out, cwd=policy)
    where = ["--dask", client.scheduler.address, *("there" if word == "here" else word for word in out)]
    there = simile_(*words, *where, cwd=policy)
    assert differences(find(here.stdout), find(there.stdout)) == []
    assert "The first of 3 files, as all are read" in there.stderr


@pytest.mark.long
def test_a_search_on_a_cluster_is_that_of_one_machine_and_trains_there(client, policy, monkeypatch):
    quick = partial(CrossFitting, mixture=("hinges+ridge",))
    monkeypatch.setattr("simile.learning.tuning.CrossFitting", quick)
    words = ["tune", "data", "--trials", "1", "--no-rounds", "--no-report"]
    simile_(*words, "--out", "tuned", cwd=policy)
    where = ["--dask", client.scheduler.address, "--out", "tuned-there"]
    simile_(*words, *where, cwd=policy)
    found = [json.loads((policy / name / "tuning.json").read_text("utf-8")) for name in ("tuned", "tuned-there")]
    for trial in (trial for trials in found for trial in trials):
        trial.pop("seconds")
    assert differences(*found) == []
    files = [(policy / name / "policy.safetensors").read_bytes() for name in ("tuned", "tuned-there")]
    assert files[0] == files[1]


def test_a_search_on_a_cluster_tries_nothing_that_cannot_be_trained_there():
    spaces = importlib.import_module("simile.cli.tune")._spaces
    given = {"extra": (), "space": None, "rounds": True}
    here, there = (spaces({**given, "dask": dask}, None, ())[1].feedback for dask in (None, "local"))
    assert len(here) == len(there) + 1
    assert "by_distance" not in repr(there)


def test_what_a_cluster_does_not_bring_here_is_told(client, policy, monkeypatch):
    monkeypatch.setattr("simile.learning.distributed.MOST", 2_000)
    words = ["diagnose", "policy.safetensors", "data", "--dask", client.scheduler.address]
    said = simile_(*words, cwd=policy).stderr
    assert "note      measured on 1 of 6 sequences, drawn by chance: as many as come here, 0 MiB" in said


def test_what_is_brought_here_to_be_diagnosed_has_a_limit(monkeypatch, policy):
    found, demos = simile.load(policy / "policy.safetensors"), simile.read(policy / "data", quiet=True)
    spread = DistributedDemonstrations.of(demos, LocalBackend(parts=3))
    assert differences(simile.diagnose(found, spread), simile.diagnose(found, demos)) == []
    monkeypatch.setattr("simile.learning.distributed.bring_here.__defaults__", (1_000,))
    with pytest.raises(SimileError, match=r"diagnose wants them in one place, .* give some of them, demos\.draw"):
        simile.diagnose(found, spread)


def test_contenders_that_are_fitted_elsewhere_are_those_of_this_machine():
    train, test = demos_of(60, 45, 80, 70), demos_of(50, 40, seed=1)
    how = {"reductions": ("clone",), "n_rounds": 0, "rivals": simile.evaluation.rivals.ROSTER[:2]}
    turns: list[str] = []
    here = simile.compare(train, test, **how)
    there = simile.compare(train, test, **how, backend=LocalBackend(parts=2), watch=turns.append)
    assert turns == ["clone", *(rival.name for rival in how["rivals"])]
    assert differences(*(compared(json.dumps(found.to_dict())) for found in (here, there))) == []


def test_a_run_of_a_cluster_holds_out_here_what_it_held_out_there(client, tmp_path):
    demos = demos_of(30, 40, 35, 50, 45, 30, rate=10.0)
    for i, demo in enumerate(demos):
        rows = pd.DataFrame({"x0": demo.contexts[:, 0], "a0": demo.actions[:, 0], "driver": f"p{i // 2}"})
        rows.to_csv(tmp_path / f"run{i}.csv", index=False)
    options = ["--actions", "a0", "--contexts", "x0", "--rate", "10", "--model", "(Ridge(),)", "--no-report"]
    where = ["--test", "0.25", "--smoothness", "20", "--dask", client.scheduler.address, "--out", "run"]
    simile_("train", str(tmp_path / "*.csv"), *options, *where, cwd=tmp_path)
    assert simile.read(str(tmp_path / "*.csv"), actions="a0", contexts="x0", rate=10, quiet=True).groups is not None
    told = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
    assert RunFolder(tmp_path / "run").demonstrations()[1].digest() == told["digest"]


def test_going_on_from_a_policy_is_judged_by_what_it_has_not_seen_on_a_cluster_too(client, policy, tmp_path):
    simile.write(demos_of(60, 45, 80, 70, 65, 50, rate=10.0)[:3], tmp_path / "data" / "old.parquet")
    new = [replace(demo, name=f"new {demo.name}") for demo in demos_of(60, 40, 55, seed=3, rate=10.0)]
    simile.write(Demonstrations(tuple(new)), tmp_path / "data" / "new.parquet")
    options = [
        "--initial",
        policy / "policy.safetensors",
        "--model",
        "(Ridge(),)",
        "--no-report",
        "--test",
        "0.4",
    ]
    for name, where in (("here", []), ("there", ["--dask", client.scheduler.address])):
        said = simile_("train", "data", *options, *where, "--out", name, cwd=tmp_path).stderr
        assert "initial was learned from 3 of the 6 sequences" in said
    told = [json.loads((tmp_path / name / "summary.json").read_text("utf-8")) for name in ("here", "there")]
    assert told[0]["digest"] == told[1]["digest"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rollout", "no.safetensors", "data"], "--dask: what rollout writes is one file here: roll out over some"),
        (["evaluate", "policy.safetensors", "data", "--loss", "Huber()"], "loss must be Squared() with a backend"),
        (["train", "data", "--model", "(TorchRegressor(),)"], "or train the network on one machine, best with a GPU"),
        (["train", "data", "--algorithm", "paper", "--model", "TorchRegressor()"], "best with a GPU"),
        (["train", "data", "--loss", "Huber()"], "loss must be Squared() with a backend"),
        (["train", "data", "--algorithm", "paper", "--step-size", "Monotonic()"], "step_size: Monotonic() needs more"),
        (["tune", "data", "--extra", "TorchRegressor()"], "or train the network on one machine, best with a GPU"),
        (["tune", "data", "--loss", "Huber()"], "loss must be Squared() with a backend"),
    ],
)
def test_commands_refuse_what_a_cluster_cannot_do_before_they_look_for_one(policy, words, message):
    said = simile_(*words, "--dask", "tcp://127.0.0.1:9", cwd=policy, code=2).stderr
    assert message in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--algorithm", "paper", "--dask", "tcp://127.0.0.1:9"], "dask: no scheduler answers at 'tcp://127.0.0.1:9'"),
        (["--exact"], "--exact: one machine is always exact"),
        (["--no-exact"], "--no-exact: one machine is always exact"),
        (["--dask", "local", "--resume", "."], "--resume: "),
    ],
)
def test_the_command_says_what_is_wrong(files, tmp_path, options, message, monkeypatch):
    monkeypatch.setattr("simile.learning.distributed.dask.PATIENCE", 1.0)
    assert message in simile_("train", files, "--out", "run", *options, cwd=tmp_path, code=2).stderr


def test_a_mistake_in_the_data_is_one_sentence_with_a_cluster_too(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # workers
    table = frames_of(10, label=int)
    values = table["a_0"].to_pylist()
    values[555] = None
    parquet.write_table(table.set_column(3, "a_0", [values]), tmp_path / "games.parquet", row_group_size=300)
    said = simile_("train", "games.parquet", "--dask", "local", cwd=tmp_path, code=2).stderr
    (line,) = said.splitlines()
    assert capfd.readouterr().err == ""  # where workers would complain
    assert "games.parquet: row 556, column 'a_0': the action is missing" in line


@pytest.mark.long
def test_a_command_that_is_interrupted_after_a_fit_goes_on_from_there(tmp_path):
    simile.write(simile.tasks.pursuit(n_sequences=6, length=600, n_players=4), tmp_path / "games.parquet")
    words = command("train", "games.parquet", "--dask", "local", "--out", "run")
    with subprocess.Popen(words, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        said = next(line for line in process.stderr if line.startswith("training: forest, fit 2 of"))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in err) == (130, False), said + out + err
    assert "interrupted; go on with: simile train --resume run" in err
    simile_("train", "--resume", "run", "--dask", "local", cwd=tmp_path, process=True)
    simile_("train", "games.parquet", "--out", "here", cwd=tmp_path)
    kept, whole = ((tmp_path / name / "policy.safetensors").read_bytes() for name in ("run", "here"))
    assert kept == whole
