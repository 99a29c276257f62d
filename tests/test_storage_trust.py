"""Models of other libraries in policy files: named or not built, rehearsed elsewhere; a run's own unasked."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import simile
from commands import simile_
from conftest import demos_of
from simile import StorageError
from simile.learning.runs import POLICY, RunFolder
from simile.models.adapters import FittedRegressor
from simile.policies.storage import ledger, rehearsal
from simile.policies.storage.loading import build, check_savable, load, load_own, read_header, save_own
from test_storage import learned

RIDGE, SCALER = "sklearn.linear_model._ridge.Ridge", "sklearn.preprocessing._data.StandardScaler"
SUPPORT = "sklearn.svm._classes.SVR"


@pytest.fixture(scope="module")
def demos() -> simile.Demonstrations:
    return demos_of(60, 50, rate=25.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.safetensors"


def crashing(demos: simile.Demonstrations) -> Any:
    """Make a policy whose SVR has no support vectors, and says that it has many: libsvm reads on and on."""
    policy = learned(demos, model=SVR(), n_rounds=0)
    estimator = policy.f.estimator
    estimator._n_support = np.array([10**8, 0], np.int32)
    estimator.support_vectors_ = estimator.support_vectors_[:0].copy()
    return policy


@pytest.mark.parametrize(
    ("model", "types"),
    [
        (Ridge(), [RIDGE]),
        (SVR(), [SUPPORT]),
        (make_pipeline(StandardScaler(), Ridge()), [RIDGE, "sklearn.pipeline.Pipeline", SCALER]),
    ],
    ids=["ridge", "svr", "pipeline"],
)
def test_nothing_of_another_library_is_built_without_trust(demos, path: Path, monkeypatch, model: Any, types: list):
    learned(demos, model=model, n_rounds=0).save(path)
    monkeypatch.setitem(sys.modules, "skops.io", None)  # not even asked
    monkeypatch.setattr(rehearsal, "rehearse", lambda *_: pytest.fail("it was rehearsed"))
    for trusted in ((), types[1:], ["sklearn"]):
        with pytest.raises(StorageError, match="types that are not trusted") as caught:
            load(path, trusted=trusted)
        said = str(caught.value)
        left = sorted(set(types) - {*trusted})
        assert f"trusted={left}" in said
        assert " ".join(f"--trust {name}" for name in left) in said
    assert read_header(path)["structure"]["models"]  # which builds nothing


def test_what_must_be_trusted_is_known_before_the_training(demos, path: Path, monkeypatch):
    model = HistGradientBoostingRegressor(max_iter=2, min_samples_leaf=8)
    types = check_savable(model)
    assert "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor" in types
    policy = learned(demos, model=model, n_rounds=0)
    policy.save(path)
    monkeypatch.setattr(rehearsal, "rehearse", lambda *_: None)
    rolled = simile.rollout(load(path, trusted=types), demos)
    np.testing.assert_array_equal(rolled[0], simile.rollout(policy, demos)[0])


def test_a_crash_in_a_model_of_another_library_is_a_refusal_here(demos, path: Path):
    crashing(demos).save(path)
    assert path.stat().st_size < 100_000
    with pytest.raises(
        StorageError, match=r"tried in a child process.*ended it by SIG(SEGV|BUS).*nothing of it was built here"
    ):
        load(path, trusted=[SUPPORT])


def test_what_is_trusted_and_sound_is_rehearsed_and_loaded(demos, path: Path):
    policy = learned(demos, model=Ridge(), n_rounds=0)
    policy.save(path)
    np.testing.assert_array_equal(
        simile.rollout(load(path, trusted=[RIDGE]), demos)[0], simile.rollout(policy, demos)[0]
    )


class Slow:
    """Never answers."""

    n_features_in_ = 7

    def predict(self, S: np.ndarray) -> np.ndarray:
        print("thinking")
        time.sleep(60)
        return S[:, 0]


class Greedy:
    """Takes three gigabytes to answer."""

    n_features_in_ = 7

    def predict(self, S: np.ndarray) -> np.ndarray:
        return np.ones((len(S), 10**8))[:, 0]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Slow(), r"took more than 0\.\d+ seconds: nothing of it was built"),
        pytest.param(
            Greedy(),
            "does not predict: .*MemoryError",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="no limits on memory here"),
        ),
    ],
    ids=["slow", "greedy"],
)
def test_a_rehearsal_has_limits_on_time_and_memory(demos, path: Path, monkeypatch, model: Any, message: str):
    from dataclasses import replace

    replace(learned(demos, n_rounds=0), f=FittedRegressor(model), naive=None).save(path)
    if isinstance(model, Slow):
        monkeypatch.setattr(rehearsal, "PATIENCE", 0.5)
    with pytest.raises(StorageError, match=message):
        load(path, trusted=[f"test_storage_trust.{type(model).__name__}"], max_memory=500)


def test_a_file_that_is_replaced_between_rehearsal_and_use_is_refused(demos, path: Path):
    learned(demos, model=Ridge(), n_rounds=0).save(path)
    digest = read_header(path)["digest"]
    build(path, digest, [RIDGE], 10**9)
    with pytest.raises(StorageError, match="replaced while it was read: try again"):
        build(path, f"{digest[:-1]}-", [RIDGE], 10**9)
    with pytest.raises(StorageError, match="not trusted"):
        build(path, digest, [], 10**9)


def test_policies_of_ours_take_no_child_process(demos, path: Path, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    learned(demos).save(path)
    load(path)
    save_own(learned(demos, model=Ridge()), path)
    load_own(path)


def test_where_no_process_can_be_started_that_is_said(demos, path: Path, monkeypatch):
    learned(demos, model=Ridge(), n_rounds=0).save(path)
    monkeypatch.setattr(sys, "executable", str(path.with_name("nowhere")))
    with pytest.raises(StorageError, match=r"a child process .* cannot be started: .*No such file"):
        load(path, trusted=[RIDGE])


def test_types_of_the_program_itself_are_built_here_alone(monkeypatch, path: Path):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    rehearsal.rehearse(path, "", ["__main__.Mine"], 1)


# A run's own files


def test_the_ledger_knows_what_was_written_here_by_digest(demos, path: Path, tmp_path: Path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    monkeypatch.setattr(ledger, "_here", set())
    save_own(learned(demos, n_rounds=0), path)
    assert not home.exists()  # nothing of another library is in it
    policy = learned(demos, model=Ridge(), n_rounds=0)
    save_own(policy, path)
    written = home / "simile" / "policies"
    if os.name == "posix":
        assert written.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(ledger, "_here", set())  # as in another process
    assert simile.rollout(load_own(path), demos)
    with pytest.raises(StorageError, match="not trusted"):
        load(path)  # of which nobody knows where it comes from
    learned(demos, model=Ridge(alpha=2.0), n_rounds=0).save(path)
    with pytest.raises(StorageError, match="not trusted"):
        load_own(path)
    # Without a home this process alone knows.
    monkeypatch.setenv("XDG_STATE_HOME", str(written))
    monkeypatch.setattr(ledger, "_here", set())
    save_own(policy, path)
    assert load_own(path)
    monkeypatch.setattr(ledger, "_here", set())
    with pytest.raises(StorageError, match="not trusted"):
        load_own(path)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "games.csv"
    simile.write(simile.tasks.pursuit(n_sequences=5, length=80), path)
    return path


def test_a_run_with_a_model_of_scikit_learn_is_not_asked_about_its_own(data: Path, tmp_path: Path, monkeypatch):
    model = ("--model", "sklearn.linear_model.Ridge()", "--algorithm", "paper", "--n-rounds", "1")
    done = simile_("train", data, "--actions", "pan", *model, cwd=tmp_path)
    assert f"simile run run/{POLICY} --trust {RIDGE} < contexts.csv" in done.stdout
    simile_("report", "run", cwd=tmp_path)
    names = read_header(tmp_path / "run" / POLICY)["card"]["context_names"]
    row = f"{','.join(names)}\n{','.join('0.5' for _ in names)}\n"
    refused = simile_("run", f"run/{POLICY}", cwd=tmp_path, stdin=row, code=2)
    assert f"--trust {RIDGE}" in refused.stderr
    # The same folder from somebody else: what it says of itself is no trust, not even in its config.toml.
    strange = tmp_path / "strange"
    shutil.copytree(tmp_path / "run", strange)
    config = strange / "config.toml"
    config.write_text(f'trust = ["{RIDGE}"]\n{config.read_text()}')
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(ledger, "_here", set())
    assert RIDGE in RunFolder(strange).config["trust"]
    assert "not trusted" in simile_("report", "strange", cwd=tmp_path, code=2).stderr
    simile_("report", "strange", "--trust", RIDGE, cwd=tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ("run", "FILE"),
        ("rollout", "FILE", "DATA"),
        ("evaluate", "FILE", "DATA"),
        ("diagnose", "FILE", "DATA"),
        ("export", "FILE", "pan.onnx"),
        ("bench", "FILE"),
        ("serve", "FILE"),
        ("camera", "evaluate", "FILE", "game.npz"),
        ("camera", "drive", "FILE", "--head", "192.0.2.10"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_every_door_asks_and_measures(demos, data: Path, path: Path, words: tuple[str, ...]):
    learned(demos, model=Ridge(), n_rounds=0).save(path)
    words = tuple({"FILE": str(path), "DATA": str(data)}.get(word, word) for word in words)
    assert f"--trust {RIDGE}" in simile_(*words, cwd=path.parent, code=2).stderr
    small = simile_(*words, "--max-memory", "0.001", cwd=path.parent, code=2)
    assert "it may take 1 kB" in small.stderr
    assert "--max-memory" in small.stderr


def test_the_fits_of_a_strangers_checkpoint_are_not_built_on_resume(data: Path, tmp_path: Path, monkeypatch):
    model = ("--model", "sklearn.linear_model.Ridge()", "--algorithm", "paper", "--n-rounds", "1")
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)  # the checkpoints of a run that has ended stay
    simile_("train", data, "--actions", "pan", *model, "--no-report", cwd=tmp_path)
    config = tmp_path / "run" / "config.toml"
    config.write_text(f'trust = ["{RIDGE}"]\n{config.read_text()}')
    simile_("train", "--resume", "run", cwd=tmp_path)  # this user's own
    config.write_text(f'trust = ["{RIDGE}"]\n{config.read_text()}')
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(ledger, "_here", set())
    refused = simile_("train", "--resume", "run", cwd=tmp_path, code=2)
    assert "fit-000.safetensors" in refused.stderr
    assert f"--trust {RIDGE}" in refused.stderr


@pytest.mark.long  # its short form is a crash in the rehearsal, and junk in the place of the file
def test_a_crashing_policy_does_not_end_the_service(demos, tmp_path: Path):
    from servers import ask, event, served, until

    live = tmp_path / "live"
    learned(demos, n_rounds=0).save(live)
    with served(live, "--trust", SUPPORT, "--max-memory", "500") as server, server.connect("/one") as ws:
        before = ask(ws, {"x": [0.1, 0.2]})
        crashing(demos).save(live)
        until(lambda: server.metric("simile_reload_failures_total") == 1, seconds=120)
        assert re.search("by SIG(SEGV|BUS)", event(ws, "reload_failed")["event"]["reason"])
        assert ask(ws, {"x": [0.1, 0.2]})["n"] == before["n"] + 1
        learned(demos, model=Ridge(), n_rounds=0).save(live)  # sound, but nobody trusts it here
        until(lambda: server.metric("simile_reload_failures_total") == 2, seconds=120)
        assert f"--trust {RIDGE}" in event(ws, "reload_failed")["event"]["reason"]
        code, _ = server.stop(signal.SIGTERM)
        assert code == 0
