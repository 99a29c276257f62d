"""The short form of `make attack`, and that its own tools do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import simile
from conftest import SEED, demos_of
from simile.policies.storage.loading import read_header

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

pytestmark = pytest.mark.skipif(
    not BENCHMARKS.exists() or sys.platform != "linux", reason="needs a checkout, and Linux for 127.0.0.2 and /proc"
)


def attacked(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "attack.py"), "--quick", "--seed", str(SEED), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.parametrize(
    "only",
    [
        ("--only", "malformed, huge"),
        pytest.param(("--untimed",), marks=pytest.mark.long),  # all of them
    ],
)
def test_quick_attacks_are_held(only: tuple[str, ...]) -> None:
    found = attacked(*only)
    assert found.returncode == 0, found.stdout + found.stderr
    assert ", 0 broken" in found.stdout


def test_a_broken_attack_is_told_by_the_exit_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import attack
    from raids import raid, targets

    def broken(_: Any) -> str:
        raise targets.Broken("the door\n\x1b[2J is open")

    def wrong(_: Any) -> str:
        raise ZeroDivisionError

    for function, verdict, said in (
        (broken, "BROKEN", "the door [2J is open"),
        (wrong, "BROKEN", "the attack ended by ZeroDivisionError"),
        (lambda _: "fine", "held", "fine"),
    ):
        found = attack._try(raid.Entry("a", "0", function, timed=False), raid.Raid(tmp_path, quick=True, seed=0))
        assert found[0] == verdict
        assert said in found[1]
    assert attacked("--only", "no such attack").returncode == 2


def test_a_forged_policy_has_a_digest_that_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from raids.forgery import forge

    policy = simile.clone(demos_of(60, 50), model=simile.SmoothForest(n_trees=2), smoothness=1.0).policy
    policy.save(tmp_path / "good")

    def rename(header: dict[str, Any], tensors: Any) -> None:
        header["card"]["training"] = {"by": "a stranger"}

    forge(tmp_path / "good", tmp_path / "same", lambda header, tensors: None)
    forge(tmp_path / "good", tmp_path / "forged", rename)
    assert read_header(tmp_path / "same")["digest"] == read_header(tmp_path / "good")["digest"]
    assert simile.load(tmp_path / "forged").card.training == {"by": "a stranger"}
