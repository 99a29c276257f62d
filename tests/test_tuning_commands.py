"""`simile tune`: it searches, trains, says how to do it again, and goes on where it stopped."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("optuna")

import simile
from commands import command, simile_
from simile.data import tasks
from simile.learning.runs import RunFolder

QUICK = ("--no-rounds", "--no-report", "--trials", "3")


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "games.csv"
    simile.write(tasks.pursuit(n_sequences=6, length=80, seed=11), path)
    return path


@pytest.fixture(scope="module")
def searched(games: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("searched")
    return folder / "tuned", simile_("tune", games, "--actions", "pan", *QUICK, "--out", "tuned", cwd=folder).stdout


@pytest.mark.skipif(os.name == "nt", reason="of files as POSIX has them")
def test_a_run_is_its_owners_alone(searched: tuple[Path, str], games: Path, tmp_path: Path):
    folder, _ = searched
    assert {p.name: p.stat().st_mode & 0o077 for p in (folder, *folder.iterdir()) if p.stat().st_mode & 0o077} == {}
    compared = tmp_path / "compared"
    compared.mkdir(0o755)  # by somebody who thought of nothing: what is in it is no less private
    few = ("--reductions", "clone", "--no-rivals", "--model", "SmoothForest(n_trees=2)", "--n-rounds", "1")
    simile_("compare", games, "--actions", "pan", *few, "--out", compared, cwd=tmp_path)
    assert {"frontier.png", "rounds.jsonl", "report.html"} <= {p.name for p in compared.iterdir()}
    assert {p.name: p.stat().st_mode & 0o077 for p in compared.iterdir() if p.stat().st_mode & 0o077} == {}


def test_tune_leaves_a_run_with_its_policy_and_all_trials(searched: tuple[Path, str]):
    folder, said = searched
    assert "<- best" in said
    assert "hold the last action" in said  # judged as `simile train` judges
    written = [
        "baseline.safetensors",
        "config.toml",
        "path.safetensors",
        "policy.safetensors",
        "rounds.jsonl",
        "summary.json",
        "tuning.db",
        "tuning.json",
    ]
    assert sorted(p.name for p in folder.iterdir()) == written
    trials = json.loads((folder / "tuning.json").read_text())
    assert [t["number"] for t in trials] == [0, 1, 2]
    assert simile.load(folder / "policy.safetensors").card.training["sequences"] == 4  # all but the test part


def test_the_command_it_ends_with_trains_the_same_policy_to_the_byte(searched: tuple[Path, str], tmp_path: Path):
    folder, said = searched
    line = said.strip().splitlines()[-1].partition("Again, without the search: ")[2]
    assert line == RunFolder(folder).command
    words = shlex.split(line)
    assert words[:2] == ["simile", "train"]
    simile_(*words[1:-2], "--out", tmp_path / "again", cwd=tmp_path)
    assert (tmp_path / "again" / "policy.safetensors").read_bytes() == (folder / "policy.safetensors").read_bytes()


def test_run_again_it_goes_on_and_an_earlier_policy_is_not_replaced_unasked(
    games: Path, searched: tuple[Path, str], tmp_path: Path
):
    folder, _ = searched
    held = (games, "--actions", "pan", *QUICK)
    refused = simile_("tune", *held, "--out", folder, cwd=tmp_path, code=2)
    assert "--overwrite" in refused.stderr
    more = ("--storage", folder / "tuning.db", "--trials", "4", "--out", "more")
    done = simile_("tune", *held, *more, cwd=tmp_path)
    assert "trial 3" in done.stderr
    assert "trial 2," not in done.stderr


def test_a_folder_that_another_run_is_at_work_in_is_refused_before_the_search(games: Path, tmp_path: Path):
    with RunFolder(tmp_path / "run").hold():
        other = ("--storage", tmp_path / "elsewhere.db", "--out", "run")
        refused = simile_("tune", games, "--actions", "pan", *QUICK, *other, cwd=tmp_path, code=2)
        assert f"run is in use by process {os.getpid()}, a run that is at work" in refused.stderr
    assert list(tmp_path.iterdir()) == []  # nor was anything searched


def test_the_frontier_with_bounds_and_a_model_of_ones_own(games: Path, tmp_path: Path):
    options = ("--frontier", "--budget", "30", "--space", "ActionSpace(low=-90, high=90)")
    extra = ("--extra", "sklearn.linear_model.Ridge(alpha=5.0)")
    done = simile_("tune", games, "--actions", "pan", *QUICK, *options, *extra, cwd=tmp_path)
    assert "3 trials: 3 complete" in done.stdout
    config = RunFolder(tmp_path / "run").config
    assert config["space"] == "ActionSpace(low=-90.0, high=90.0)"


def test_a_model_that_could_not_be_saved_is_refused_before_the_search(games: Path, tmp_path: Path):
    extra = "sklearn.compose.TransformedTargetRegressor(sklearn.linear_model.TheilSenRegressor(), func=len)"
    done = simile_("tune", games, "--actions", "pan", "--extra", extra, cwd=tmp_path, code=2)
    assert "Transformed" in done.stderr
    assert not (tmp_path / "run").exists()


def test_ctrl_c_shows_the_trials_so_far_and_how_to_go_on(games: Path, tmp_path: Path):
    arguments = ("tune", games, "--actions", "pan", "--no-rounds", "--no-report", "--trials", "5000")
    process = subprocess.Popen(
        command(*arguments), cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "trial 1," in line:
            break
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted after" in said
    assert "the same command goes on with it" in said
    assert not (tmp_path / "run" / "policy.safetensors").exists()
    assert len(json.loads((tmp_path / "run" / "tuning.json").read_text())) >= 2
