"""Studios for tests: the app without a socket, and the real server in a process of its own."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.sync.client import connect

import simile
from simile._common.web import list_hosts
from simile.data import tasks
from simile.studio.server import build_app
from simile.studio.workspace import Workspace

with warnings.catch_warnings():  # it would rather have the successor of httpx
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

TOKEN = "a secret of at least thirty-two letters"
HERE = "127.0.0.1:8765"
EVENTS = f"ws://{HERE}/api/events"
QUICK = {"kind": "train", "model": "SmoothForest(n_trees=4)"}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.at(tmp_path / "studio")


@pytest.fixture
def client(workspace: Workspace) -> Iterator[TestClient]:
    app = build_app(workspace, TOKEN, list_hosts(8765), cookie="simile-studio-8765", upload=100_000)
    with TestClient(app, base_url=f"http://{HERE}", headers={"authorization": f"Bearer {TOKEN}"}) as opened:
        yield opened


@dataclass
class Server:
    process: subprocess.Popen[str]
    address: str
    token: str

    @property
    def http(self) -> httpx.Client:
        # There is no TLS here: without `verify`, each client would read all certificates of the system first.
        options = {"headers": {"authorization": f"Bearer {self.token}"}, "timeout": 60, "verify": False}
        return httpx.Client(base_url=self.address, **options)

    def events(self, **headers: str) -> Any:
        address = self.address.replace("http:", "ws:") + "/api/events"
        return connect(address, additional_headers={"authorization": f"Bearer {self.token}", **headers})

    def runs(self) -> dict[str, Any]:
        with self.http as http:
            return {run["id"]: run for run in http.get("/api/state").json()["runs"]}

    def wait(self, key: str, *wanted: str, rounds: int = 0, patience: float = 60.0) -> dict[str, Any]:
        end = time.monotonic() + patience
        while time.monotonic() < end:
            run = self.runs()[key]
            if run["status"] in wanted and len(run["rounds"]) >= rounds:
                return run
            time.sleep(0.1)
        raise AssertionError(f"{wanted} did not come: {run}")


@contextlib.contextmanager
def served(folder: Path, *arguments: str | Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "simile", "studio", "--port", "0", "--no-open", "--folder", str(folder)]
    process = subprocess.Popen(
        [*command, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder.parent
    )
    try:
        assert process.stdout is not None
        printed = process.stdout.readline().strip()
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/\?token=([\w-]{32,})", printed)
        assert found, printed
        yield Server(process, found[1], found[2])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
        assert "Traceback" not in errors, errors


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "games.csv"
    simile.write(tasks.pursuit(n_sequences=4, length=150), path)
    return path


@pytest.fixture(scope="module")
def server(games: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("served") / "studio", games, "--actions", "pan", "--max-upload", "1") as found:
        yield found


def ready(server: Server) -> str:
    """Return the id of the data that were named on the command line."""
    with server.http as http:
        for _ in range(100):
            data = http.get("/api/state").json()["data"]
            if data and data[0]["status"] == "ready":
                return str(data[0]["id"])
            time.sleep(0.1)
    raise AssertionError(data)


def unpacked(content: bytes) -> tuple[dict[str, Any], np.ndarray]:
    (length,) = struct.unpack("<I", content[:4])
    begin = -(-(4 + length) // 4) * 4
    header = json.loads(content[4 : 4 + length])
    values = np.frombuffer(content[begin:], "<f4")
    return header, values.reshape(len(header["curves"]), len(header["actions"]), -1)
