"""The studio improves the policy that it was told of, and nothing else; what goes wrong is a sentence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import simile
import studios as shared
from simile._common.web import RequestError, list_hosts
from simile.policies.ledger import Ledger
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
        ({"left_out": [{"stream": "a/b", "first": 0, "last": 1}]}, "left_out must be"),
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


def test_what_was_compared_with_another_than_the_one_at_work_is_not_put_to_work(tmp_path: Path):
    demos = simile.tasks.pursuit(n_sequences=2, length=80)
    first, second, third = (simile.clone(demos, model=simile.SmoothForest(n_trees=n)).policy for n in (1, 2, 3))
    first.save(tmp_path / "pan.safetensors")
    ledger, improving = Ledger(tmp_path / "pan.safetensors"), Improving((tmp_path / "pan.safetensors", tmp_path))
    parent = ledger.at_work
    digest = ledger.offer(second, accepted=False, reason="better")
    found = {"status": "done", "error": None, "digest": digest, "parent": parent, "verdict": {"reason": "better"}}
    improving._found = found
    ledger.offer(third, accepted=True, reason="faster")
    with pytest.raises(RequestError, match=r"took the place of .* meanwhile: improve again, or put it to work with"):
        asyncio.run(improving.put_to_work())
    ledger.roll_back()
    asyncio.run(improving.put_to_work())
    assert ledger.at_work == digest
