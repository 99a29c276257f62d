"""Runs on the studio's real server: told round by round, stopped, taken up again, retrained, compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import simile
import studios as shared
from studios import QUICK, Server, ready, unpacked

games, server = shared.games, shared.server


def test_a_training_is_told_round_by_round_and_its_files_can_be_had(server: Server, games: Path, tmp_path: Path):
    data = ready(server)
    with server.http as http, server.events() as socket:
        assert json.loads(socket.recv(timeout=10))["type"] == "state"
        asked = {**QUICK, "data": data, "algorithm": "paper", "n_rounds": 5, "name": "first <b>"}
        started = http.post("/api/runs", json=asked)
        assert started.status_code == 201
        key, seen = started.json()["id"], []
        while not seen or seen[-1]["status"] not in ("done", "failed"):
            message = json.loads(socket.recv(timeout=60))
            if message["type"] == "run" and message["run"]["id"] == key:
                seen.append(message["run"])
        run = seen[-1]
        assert (run["status"], run["error"], run["name"]) == ("done", None, "first <b>")
        assert {r["status"] for r in seen} == {"waiting", "running", "done"}
        assert sorted({len(r["rounds"]) for r in seen})[-1] == 6
        assert run["has"] == {"policy": True, "report": True, "court": False}
        assert run["verdict"]
        assert run["chosen"] in range(6)
        assert run["table"]["columns"][0] == "name"
        assert run["frontier"][0]["kind"] == "ours"
        assert run["smoothness"] == 30.0
        held = simile.load(_saved(http, f"/api/runs/{key}/policy", tmp_path / "p.safetensors"))
        report = http.get(f"/api/runs/{key}/report", params={"inline": 1})
        assert "sandbox allow-scripts" in report.headers["content-security-policy"]
        assert "content-disposition" not in report.headers
        assert http.get(f"/api/runs/{key}/report").headers["content-disposition"].endswith('"first-b.html"')
        assert str(games) in http.get(f"/api/runs/{key}/command").text
        assert "simile.paper(" in http.get(f"/api/runs/{key}/python").text
        assert "n_rounds = 5" in http.get(f"/api/runs/{key}/config").text
        about = http.get(f"/api/runs/{key}/sequences").json()
        header, values = unpacked(http.post(f"/api/runs/{key}/roll", json={"sequence": 0, "smoothness": None}).content)
        assert header["frames"] == about["sequences"][0]["frames"] == values.shape[2]
        test = simile.read(games, actions="pan", quiet=True).hold_out(0.25)[1]
        assert np.allclose(values[1, 0], simile.rollout(held, test[0])[0][:, 0], rtol=1e-5, atol=1e-4)
        assert http.post(f"/api/runs/{key}/roll", json={"sequence": 9}).status_code == 404
        assert http.get(f"/api/runs/{key}/court").status_code == 404
        assert http.delete(f"/api/data/{data}").status_code == 409


def _saved(http: httpx.Client, address: str, path: Path) -> Path:
    path.write_bytes(http.get(address).content)
    return path


def test_a_run_that_fails_says_why_in_a_sentence(server: Server):
    with server.http as http:
        asked = {**QUICK, "data": ready(server), "regularizer": "LinearAutoregression(order=5000)"}
        key = http.post("/api/runs", json=asked).json()["id"]
        run = server.wait(key, "failed", "done")
        assert run["status"] == "failed"
        assert "order must be shorter than the longest sequence" in run["error"]
        assert http.delete(f"/api/runs/{key}").status_code == 204
        assert key not in server.runs()


def test_a_run_can_be_stopped_and_taken_up_again(server: Server, tmp_path: Path):
    with server.http as http:
        asked = {**QUICK, "data": ready(server), "algorithm": "paper", "n_rounds": 1000}
        key = http.post("/api/runs", json=asked).json()["id"]
        waiting = http.post("/api/runs", json={**asked, "algorithm": "paper", "n_rounds": 999}).json()
        assert waiting["status"] == "waiting"
        server.wait(key, "running", rounds=2)
        stopped = http.post(f"/api/runs/{waiting['id']}/stop").json()
        assert stopped["status"] == "stopped"
        stopped = http.post(f"/api/runs/{key}/stop").json()
        assert stopped["status"] == "stopped"
        before = len(stopped["rounds"])
        assert before >= 2
        assert simile.load(_saved(http, f"/api/runs/{key}/policy", tmp_path / "p.safetensors"))
        resumed = http.post(f"/api/runs/{key}/resume").json()
        assert resumed["status"] in ("waiting", "running")
        server.wait(key, "running", rounds=before + 1)
        for one in (key, waiting["id"]):
            assert http.delete(f"/api/runs/{one}").status_code == 204


def test_a_retraining_of_the_slider_replaces_the_one_before_it(server: Server):
    with server.http as http:
        asked = {**QUICK, "data": ready(server), "smoothness": 40}
        parent = http.post("/api/runs", json=asked).json()["id"]
        first = http.post("/api/runs", json={"parent": parent, "smoothness": 10.0}).json()
        second = http.post("/api/runs", json={"parent": parent, "smoothness": 3.0}).json()
        assert second["options"]["model"] == QUICK["model"]
        assert second["name"] == "smoothness 3"
        run = server.wait(second["id"], "done", "failed")
        assert (run["status"], run["smoothness"], run["parent"]) == ("done", 3.0, parent)
        assert first["id"] not in server.runs()
        for key in (second["id"], parent):
            http.delete(f"/api/runs/{key}")


HOLD = "Hold((0.1, 0, 0.2))"


@pytest.fixture(scope="module")
def filmed(server: Server) -> dict[str, Any]:
    """A run that has learned from two short games, to turn three axes each at its own lambda, and to hold two."""
    with server.http as http:
        data = http.post("/api/games", json={"n_games": 2, "minutes": 0.5, "axes": 3, "seed": 3}).json()
        assert (data["status"], data["kind"], data["understood"]["actions"]) == (
            "ready",
            "games",
            ["pan", "tilt", "zoom"],
        )
        asked = {**QUICK, "data": data["id"], "smoothness": "(10, 20, 60)", "hold": HOLD}
        return server.wait(http.post("/api/runs", json=asked).json()["id"], "done", "failed")


def test_a_run_that_holds_tells_so_and_its_slider_keeps_the_ratio_of_its_lambdas(
    server: Server, filmed: dict[str, Any], tmp_path: Path
):
    run, parent = filmed, filmed["id"]
    with server.http as http:
        assert (run["status"], run["smoothness"]) == ("done", 30.0)
        assert run["options"]["hold"] == HOLD
        policy = simile.load(_saved(http, f"/api/runs/{parent}/policy", tmp_path / "p.safetensors"))
        assert run["summary"] == str(policy)
        width = (policy.hold.width * policy.units.scale).tolist()
        header, _ = unpacked(http.post(f"/api/runs/{parent}/roll", json={"sequence": 0}).content)
        for told in (header, http.get(f"/api/runs/{parent}/sequences").json()):
            assert (told["hold"], told["stepping"]) == (width, [False] * 3)
        child = http.post("/api/runs", json={"parent": parent, "smoothness": 60.0}).json()
        assert child["name"] == "smoothness 60"
        assert child["options"]["smoothness"] == "(20.0, 40.0, 120.0)"
        run = server.wait(child["id"], "done", "failed")
        assert (run["status"], run["smoothness"], run["options"]["hold"]) == ("done", 60.0, HOLD)
        http.delete(f"/api/runs/{child['id']}")


def test_simulated_games_can_be_watched_on_their_court(server: Server, filmed: dict[str, Any]):
    run, key = filmed, filmed["id"]
    with server.http as http:
        assert run["has"]["court"]
        assert run["command"].startswith("simile camera simulate --n-games 2")
        for smoothness in ({}, {"smoothness": 300.0}):
            page = http.get(f"/api/runs/{key}/court", params={"sequence": 0, **smoothness})
            assert page.status_code == 200
            assert page.headers["content-security-policy"].startswith("sandbox allow-scripts;")
            assert "operator" in page.text
        assert http.get(f"/api/runs/{key}/court", params={"sequence": 5}).status_code == 404
        assert http.get(f"/api/runs/{key}/court", params={"sequence": "x"}).status_code == 400


@pytest.mark.long
def test_a_comparison_names_its_contenders_as_they_finish(server: Server):
    with server.http as http:
        asked = {"kind": "compare", "data": ready(server), "reductions": ["learn", "clone"], "rivals": False}
        key = http.post("/api/runs", json={**asked, "model": "SmoothForest(n_trees=4)", "n_rounds": 1}).json()["id"]
        run = server.wait(key, "done", "failed")
        assert (run["status"], run["contenders_total"]) == ("done", len(run["contenders_done"]))
        assert {"learn", "clone"} <= set(run["contenders_done"])
        assert {c["kind"] for c in run["frontier"]} >= {"ours", "reduction"}
        assert run["has"] == {"policy": False, "report": True, "court": False}
        assert run["command"].startswith("simile compare ")
        assert http.get(f"/api/runs/{key}/sequences").status_code == 409
