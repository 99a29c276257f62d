"""The past of streams outlives the process of `simile serve`, and the policy."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np

import servers as shared
import simile
from commands import simile_
from servers import GENEROUS, ask, event, farewell, served, until
from simile.serving.messages import LARGEST_N

contexts, policies = shared.contexts, shared.policies


def test_streams_go_on_after_a_kill_and_end_in_good_order(policies: Any, contexts: np.ndarray, tmp_path: Path):
    predictor = simile.Predictor(simile.load(policies["served"]))
    file = tmp_path / "streams"
    arguments = ("--snapshots", str(file), "--snapshot-every", "0.2", *GENEROUS)
    with served(policies["served"], *arguments) as server:
        with server.connect("/hostile") as ws:  # who would count to what no snapshot can hold
            ask(ws, {"x": contexts[0].tolist(), "n": LARGEST_N})
            assert "numbers of this stream end" in ask(ws, {"x": contexts[0].tolist()})["error"]
        with server.connect("/survivor") as ws:
            for n in range(20):
                ask(ws, {"x": contexts[n].tolist(), "n": n})
                predictor.step(contexts[n])
            seen = server.metric("simile_snapshots_total")
            until(lambda: server.metric("simile_snapshots_total") > seen + 1)
        server.stop(signal.SIGKILL)
    assert file.stat().st_mode & 0o077 == 0  # its owner's alone
    left, other = tmp_path / ".streams.0123abcd.tmp", tmp_path / ".others.0123abcd.tmp"
    left.write_bytes(b"half a snapshot")
    other.write_bytes(b"of another service")
    with served(policies["served"], *arguments) as server:
        assert (left.exists(), other.exists()) == (False, True)
        assert [s["name"] for s in server.get("/streams").json()["streams"]] == ["hostile", "survivor"]
        with server.connect("/survivor") as ws:
            assert ask(ws, {"open": {"resume": True}})["opened"]["frames"] == 20
            for n in range(20, 30):
                assert ask(ws, {"x": contexts[n].tolist(), "n": n})["a"] == predictor.step(contexts[n]).tolist()
            ws.send(json.dumps({"x": contexts[30].tolist(), "n": 30}))
            server.process.send_signal(signal.SIGTERM)
            told, code = farewell(ws)
            assert code == 1001
            assert {"event": {"kind": "draining", "on": True}} in told
            assert [t["n"] for t in told if "n" in t] == [30]
        assert server.stop() == (0, "")
    with served(policies["next"], *arguments) as server:  # another policy: the past would mean something else to it
        assert server.get("/streams").json() == {"streams": []}
        assert file.with_name("streams.old").exists()
        assert "another policy" in server.errors.read_text()
        code, _ = server.stop(signal.SIGINT)
        assert code == 0


def test_two_services_do_not_share_a_file_of_snapshots(policies: Any, tmp_path: Path):
    file = tmp_path / "kept" / "streams"
    with served(policies["served"], "--snapshots", str(file), http=False) as server:
        words = ("serve", policies["next"], "--port", "0", "--snapshots", file)
        second = simile_(*words, cwd=tmp_path, code=2)
        assert f"--snapshots: {file} is in use by process {server.process.pid}, another service" in second.stderr
        own = simile_("serve", policies["next"], "--snapshots", policies["next"], cwd=tmp_path, code=2)
        assert "is the policy file, which it would replace: name another" in own.stderr
        assert policies["next"].exists()
        assert server.stop() == (0, "")
        assert [found.name for found in file.parent.iterdir()] == ["streams"]  # and no lock


def test_a_new_policy_file_takes_over_without_a_jump_and_junk_does_not(policies: Any, contexts: Any, tmp_path: Path):
    live, limit = tmp_path / "live", 12.0  # units a second
    shutil.copy(policies["served"], live)

    def replace(data: bytes) -> None:
        (tmp_path / "new").write_bytes(data)
        os.replace(tmp_path / "new", live)

    # Snapshots cannot be written where a file is in the way, as if the disk were full; serving goes on.
    kept = ("--snapshots", str(policies["served"] / "streams"), "--snapshot-every", "1")
    with served(live, "--stage", f"RateLimit({limit})", "--handover", "0.5", *kept, *GENEROUS) as server:
        digest = server.get("/policy").json()["digest"]
        with server.connect("/steered") as ws, server.connect("/silent") as silent:
            last = ask(ws, {"x": contexts[0].tolist()})["a"][0]
            n = 0

            def drive(frames: int) -> None:
                nonlocal n, last
                for _ in range(frames):
                    n += 1
                    now = ask(ws, {"x": contexts[n % 200].tolist(), "n": n})["a"][0]
                    assert abs(now - last) <= limit / 30.0 + 1e-9
                    last = now

            drive(5)  # done before the first snapshot is due, or `ask` would pass over what is told of it
            assert event(ws, "snapshot_failed")["event"]["on"]
            until(lambda: server.metric("simile_snapshot_failures_total") > 1)
            replace(policies["next"].read_bytes())
            assert event(ws, "reloaded")["event"]["digest"] != digest
            drive(60)
            assert server.get("/policy").json()["digest"] != digest
            assert server.metric("simile_reloads_total") == 1

            for data, words in ((b"junk" * 500, "safetensors"), (policies["other"].read_bytes(), "contexts")):
                replace(data)
                reason = event(ws, "reload_failed")["event"]["reason"]
                assert words in reason
                assert str(tmp_path) not in reason
                drive(5)
                answered = httpx.post(f"{server.http}/reload", trust_env=False)
                assert answered.status_code == 409
                assert str(tmp_path) not in answered.text
                assert event(ws, "reload_failed")
            assert server.metric("simile_reload_failures_total") == 4

            shutil.copy(policies["served"], tmp_path / "new")
            os.replace(tmp_path / "new", live)
            server.process.send_signal(signal.SIGHUP)
            assert event(ws, "reloaded")["event"]["digest"] == digest
            drive(40)
            # Of all this a peer was told nothing before its first message: JSON would mean nothing to some.
            silent.send(msgspec.msgpack.encode({"x": contexts[0].tolist()}))
            assert msgspec.msgpack.decode(silent.recv(timeout=5))["n"] == 0
        code, _ = server.stop()
        assert code == 0
