"""A run as a folder: what it keeps, and that the line and the script it gives do the same again."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import simile
from commands import simile_
from simile import ArgumentError, DataError
from simile.cli.app import app
from simile.data import tasks
from simile.learning.recipes import NAMES
from simile.learning.runs import DEFAULTS, POLICY, ROUNDS, RunFolder, as_command, as_script, read_and_hold_out

RIDGE = "sklearn.linear_model._ridge.Ridge"
SMALL = {"model": "SmoothForest(n_trees=3)", "n_rounds": 2}
TRUSTED = {"model": "sklearn.linear_model.Ridge", "seed": 3, "trust": [RIDGE]}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "my games.csv"
    simile.write(tasks.pursuit(n_sequences=5, length=80), path)
    return path


def simile_command(line: str, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    words = shlex.split(line)
    assert words[0] == "simile"
    return simile_(*words[1:], cwd=folder, code=code)


def python(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)


def trained(data: Path, folder: Path, **options) -> RunFolder:
    config = {"data": [str(data)], "actions": ["pan"], "out": "first", "seed": 0, **options}
    simile_command(as_command("train", config), folder)
    return RunFolder(folder / "first")


def test_the_defaults_that_a_line_leaves_out_are_those_of_the_commands():
    for verb in ("train", "compare"):
        held = {p.name: p.default for p in app.commands[verb].params}
        for name, value in DEFAULTS.items():
            assert held.get(name, value) == value, (verb, name)


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "learn", "model": "SmoothForest(n_trees=3)"},
        pytest.param({"algorithm": "paper", "smoothness": "20", **SMALL}, marks=pytest.mark.long),
        {"algorithm": "authors", "smoothness": "SmoothTime(0.2)", **SMALL},
        pytest.param({"algorithm": "learn", "smoothness": "20", **TRUSTED}, marks=pytest.mark.long),
    ],
    ids=["cross-fitted", "paper", "authors", "ridge"],
)
def test_the_line_and_the_script_of_a_run_make_the_same_policy_to_the_bit(data, tmp_path, options):
    run = trained(data, tmp_path, report=False, **options)
    first = (run.path / POLICY).read_bytes()
    (again := tmp_path / "again").mkdir()
    simile_command(run.command, again)
    assert (again / "first" / POLICY).read_bytes() == first
    (by_script := tmp_path / "script").mkdir()
    done = python(run.python, by_script)
    assert done.returncode == 0, done.stderr
    assert (by_script / POLICY).read_bytes() == first


def test_the_script_of_a_comparison_runs(data, tmp_path):
    config = {
        "data": [str(data)],
        "actions": ["pan"],
        "reductions": ["learn", "clone"],
        "rivals": False,
        "seed": 0,
        "test": "0.25",
        "validation": 0.2,
    }
    script = as_script("compare", {**config, **SMALL})
    done = python(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "learn" in done.stdout
    assert "clone" in done.stdout


def test_rounds_are_written_as_they_come_and_a_half_written_line_is_not_read(data, tmp_path):
    run = trained(data, tmp_path, report=False, algorithm="paper", **SMALL)
    assert [r["number"] for r in run.rounds()] == [0, 1, 2]
    assert run.summary()["rounds"] == run.rounds()
    with (run.path / ROUNDS).open("a") as file:
        file.write('{"number": 3')
    assert len(run.rounds()) == 3


def test_a_run_reads_and_splits_its_data_again_as_it_did(data, tmp_path):
    run = RunFolder(tmp_path)
    run.write_config(
        {"data": (str(data),), "actions": ("pan",), "test": "0.25", "seed": 2, "gap": None, "contexts": ()}
    )
    assert "gap" not in run.config
    train, test = run.demonstrations()
    expected = read_and_hold_out({"data": str(data), "actions": "pan", "test": 0.25, "seed": 2})
    assert (train.names, test.names) == (expected[0].names, expected[1].names)


def test_a_folder_that_is_none_of_a_run_is_named(tmp_path):
    with pytest.raises(DataError, match=r"is no folder of a run.*simile train --out"):
        _ = RunFolder(tmp_path).config
    (tmp_path / "config.toml").write_text("a = ")
    with pytest.raises(DataError, match="no TOML"):
        _ = RunFolder(tmp_path).config
    assert RunFolder(tmp_path).summary() is None
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(DataError, match="damaged"):
        RunFolder(tmp_path).summary()


def test_a_share_that_is_none_is_refused(data):
    with pytest.raises(ArgumentError, match="--test must be a share"):
        read_and_hold_out({"data": str(data), "actions": ["pan"], "test": "1.5", "seed": 0})


def test_a_line_quotes_what_a_shell_would_take_apart():
    config = {"data": ["a b.csv"], "actions": ["pan", "-x"], "space": "ActionSpace(low=-1, high=1)", "report": False}
    line = as_command("train", config)
    assert shlex.split(line)[:3] == ["simile", "train", "a b.csv"]
    assert "--actions=-x" in shlex.split(line)
    assert line.endswith("--no-report")


def test_a_line_and_a_script_say_the_unit_of_time():
    config = {"data": "d.csv", "time": "t", "time_unit": "ms", "test": "0.25", "seed": 0, "algorithm": "learn"}
    assert "--time t --time-unit ms" in as_command("train", config)
    assert "simile.read('d.csv', time='t', time_unit='ms')" in as_script("train", config)


def test_every_name_of_a_recipe_is_public():
    assert set(NAMES) <= set(simile.__all__)


def test_a_comparison_keeps_its_options_its_contenders_and_its_page(data, tmp_path):
    line = f"simile compare {shlex.quote(str(data))} --actions pan --reductions learn --no-rivals --out found"
    simile_command(line, tmp_path)
    found = RunFolder(tmp_path / "found")
    assert found.verb == "compare"
    assert found.rounds() == [{"total": 1}, {"contender": "learn"}]
    assert found.comparison()["held_out"][0]["name"] == "learn"
    assert (found.path / "report.html").exists()
    assert "--no-rivals" in found.command
    json.dumps(found.config)


def test_a_comparison_does_not_write_over_a_training(data, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / POLICY).write_bytes(b"mine")
    done = simile_command(f"simile compare {shlex.quote(str(data))} --actions pan --out run", tmp_path, code=2)
    assert "run holds a training" in done.stderr
    assert [p.name for p in (tmp_path / "run").iterdir()] == [POLICY]


def test_what_a_killed_run_left_goes_when_the_folder_is_taken_up(tmp_path: Path):
    (tmp_path / "checkpoint" / "0").mkdir(parents=True)
    left = [tmp_path / ".policy.safetensors.0123abcd.tmp", tmp_path / "checkpoint" / "0" / ".fit-000.0123abcd.tmp"]
    ours = [tmp_path / "notes.tmp", tmp_path / ".policy.tmp"]
    for path in (*left, *ours):
        path.write_bytes(b"")
    with RunFolder(tmp_path).hold():
        assert [p.exists() for p in (*left, *ours)] == [False, False, True, True]
