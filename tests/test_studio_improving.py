"""The studio improves the policy that it was told of, and nothing else; what goes wrong is a sentence."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import simile
import studios as shared
from servers import until
from simile._common.web import list_hosts
from simile.data.corrections import Stretch
from simile.errors import ArgumentError, DataError
from simile.policies.ledger import Ledger
from simile.studio.child_tasks import find_left_out
from simile.studio.improving import Improving
from simile.studio.server import build_app
from simile.studio.workspace import Workspace
from studios import HERE, TOKEN, TestClient

workspace, client = shared.workspace, shared.client


@pytest.fixture
def improving(workspace: Workspace, tmp_path: Path) -> Iterator[TestClient]:
    """A studio that was told of a policy, and of a folder in which nothing was recorded yet."""
    demos = simile.tasks.pursuit(n_sequences=2, length=80)
    simile.clone(demos, model=simile.SmoothForest(n_trees=2)).policy.save(tmp_path / "pan.safetensors")
    (tmp_path / "recording").mkdir()
    paths = (tmp_path / "pan.safetensors", tmp_path / "recording")
    app = build_app(workspace, TOKEN, list_hosts(8765), improve=paths)
    with TestClient(app, base_url=f"http://{HERE}", headers={"authorization": f"Bearer {TOKEN}"}) as opened:
        simile.write(demos, tmp_path / "games.csv")
        opened.put("/api/data/games.csv", content=(tmp_path / "games.csv").read_bytes())
        opened.data = opened.get("/api/state").json()["data"][0]["id"]
        opened.post(f"/api/data/{opened.data}", json={"actions": ["pan"]})
        yield opened


def test_without_a_policy_there_is_nothing_to_improve(client: TestClient):
    assert client.get("/api/improvement").json() == {"policy": None, "status": "none", "error": None}
    client.put("/api/data/games.csv", content=b"t,a\n0,1\n1,2\n")
    data = client.get("/api/state").json()["data"][0]["id"]
    answer = client.post("/api/improvement", json={"data": data})
    assert answer.status_code == 404
    assert "--improve POLICY FOLDER" in answer.json()["error"]
    assert client.post("/api/improvement/accept").status_code == 409


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({}, "there are no data"),
        ({"data": "../../etc"}, "there are no data"),
        ({"data": "x", "policy": "/etc/passwd"}, "'policy' is not known"),
        ({"left_out": [{"stream": "a/b", "t": 1.0, "until": 2.0, "first": 0, "last": 1}]}, "left_out must be"),
        ({"left_out": [{"stream": "a", "first": 0, "last": 1}]}, "left_out must be"),
        ({"left_out": [{"stream": "a"}]}, "left_out must be"),
        ({"left_out": "all"}, "left_out must be"),
    ],
)
def test_what_makes_no_sense_is_refused(improving: TestClient, wish: dict[str, Any], sentence: str):
    answer = improving.post("/api/improvement", json=wish)
    assert answer.status_code in (400, 404)
    assert sentence in answer.json()["error"]


def test_what_cannot_be_learned_from_is_told_without_a_path(improving: TestClient, tmp_path: Path):
    assert improving.get("/api/improvement").json()["policy"] == "pan.safetensors"
    begun = improving.post("/api/improvement", json={"data": improving.data})
    assert (begun.status_code, begun.json()["status"]) == (202, "running")
    assert "already" in improving.post("/api/improvement", json={"data": improving.data}).json()["error"]
    end = time.monotonic() + 60.0
    while (found := improving.get("/api/improvement").json())["status"] == "running":
        assert time.monotonic() < end
        time.sleep(0.05)
    assert found["status"] == "failed"
    assert "recording: there is no data file in this folder" in found["error"]
    assert str(tmp_path) not in found["error"]
    assert improving.post("/api/improvement/accept").status_code == 409


def stretch(name: str, stream: str, day: int, first: int, last: int) -> Stretch:
    times = at(day, first / 10), at(day, last / 10)
    return Stretch(name, f"{stream} 2026-11-{day:02d}T12:00:00.000000Z", first, last, times, 1.0, (0.5,))


def at(day: int, seconds: float) -> float:
    return datetime(2026, 11, day, 12, tzinfo=UTC).timestamp() + seconds


STRETCHES = (
    stretch("monday", "one", 16, 10, 20),
    stretch("tuesday", "one", 17, 10, 20),
    stretch("resumed", "one", 17, 22, 40),  # the service had begun anew
    stretch("later", "one", 17, 90, 99),
    stretch("other", "two", 17, 10, 20),
    stretch("wednesday", "one", 18, 12, 20),
)


@pytest.mark.parametrize(
    ("day", "seconds", "first", "last", "names"),
    [
        (17, (1.0, 2.0), 10, 20, ["tuesday"]),
        (16, (1.5, 1.5), 15, 15, ["monday"]),
        (18, (1.0, 1.2), 10, 12, ["wednesday"]),
        (17, (1.0, 4.0), 10, 40, ["resumed", "tuesday"]),
        (17, (1.0, 9.5), 10, 95, ["later", "resumed", "tuesday"]),
    ],
)
def test_what_is_left_out_is_that_of_its_day(
    day: int, seconds: tuple[float, float], first: int, last: int, names: list[str]
):
    since, until = (at(day, value) for value in seconds)
    wanted = {"stream": "one", "t": since, "until": until, "first": first, "last": last}
    assert find_left_out(STRETCHES, [wanted, wanted]) == names


def test_what_is_left_out_and_was_never_recorded_is_told():
    for stream, day, first in (("one", 15, 10), ("one", 17, 50), ("three", 17, 10)):
        wanted = {"stream": stream, "t": at(day, first / 10), "until": at(day, 6.0), "first": first, "last": 60}
        with pytest.raises(
            DataError, match=rf"frames {first} to 60 of {stream} are left out, and the recording has no"
        ):
            find_left_out(STRETCHES[:5], [wanted])


def test_a_version_that_was_judged_against_another_is_not_put_to_work(
    improving: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    policy = tmp_path / "pan.safetensors"
    ledger, demos = Ledger(policy), simile.tasks.pursuit(n_sequences=2, length=80)
    against = ledger.at_work
    new, other = (
        ledger.offer(simile.clone(demos, model=simile.SmoothForest(n_trees=n)).policy, accepted=False, reason="")
        for n in (3, 4)
    )
    found = {"status": "done", "error": None, "digest": new, "against": against, "decision": {"reason": "better"}}

    async def learn(*_: Any, **__: Any) -> dict[str, Any]:
        return found

    def status() -> str:
        return str(improving.get("/api/improvement").json()["status"])

    monkeypatch.setattr("simile.studio.improving.run_in_child", learn)
    improving.post("/api/improvement", json={"data": improving.data})
    until(lambda: status() == "done")
    ledger.accept(other)
    assert status() == "outdated"
    answer = improving.post("/api/improvement/accept")
    assert answer.status_code == 409
    assert answer.json()["error"] == "another version of pan.safetensors is at work by now: improve again"
    ledger.roll_back()
    assert improving.post("/api/improvement/accept").json()["status"] == status() == "at work"
    assert improving.post("/api/improvement/accept").status_code == 409
    ledger.roll_back()
    assert (status(), ledger.at_work) == ("done", against)
    policy.write_bytes(b"nothing")
    assert status() == "failed"


@pytest.mark.parametrize(
    ("policy", "folder", "sentence"),
    [
        ("games.csv", "recording", "--improve: .*games.csv"),
        ("pan.safetensors", "nowhere", "--improve: .*nowhere"),
        (
            "pan.safetensors",
            ".",
            "--improve: .* is no recording: name the folder that `simile serve --record` writes to",
        ),
    ],
)
def test_what_cannot_be_improved_is_told_at_the_start(tmp_path: Path, policy: str, folder: str, sentence: str):
    demos = simile.tasks.pursuit(n_sequences=2, length=80)
    simile.clone(demos, model=simile.SmoothForest(n_trees=2)).policy.save(tmp_path / "pan.safetensors")
    simile.write(demos, tmp_path / "games.csv")
    (tmp_path / "recording").mkdir()
    with pytest.raises(ArgumentError, match=sentence):
        Improving((tmp_path / policy, tmp_path / folder))
