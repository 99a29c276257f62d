"""`simile serve` for tests: a real server in a process of its own, and what a client says to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

import simile
from conftest import demos_of
from simile.data import tasks

PATIENCE = 1.0
GENEROUS = ("--max-rate", "1000000")  # a test sends as fast as it can

Json = dict[str, Any]


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Server:
    """`simile serve` in a process of its own."""

    def __init__(self, policy: Path, *arguments: str, http: bool = True, host: str = "127.0.0.1") -> None:
        for _ in range(5):  # between choosing a port and listening on it, another test may take it
            self.errors = policy.with_name(f"stderr-{time.monotonic_ns()}")
            said = self._start(policy, *arguments, "--http-port", str(free_port() if http else 0), "--host", host)
            if said[-1:] and said[-1].startswith("policy"):
                break
            self.stop()
            assert "already in use" in self.errors.read_text(), f"{''.join(said)}{self.errors.read_text()}"
        else:
            raise AssertionError(f"the server found no port: {self.errors.read_text()}")
        self.said = "".join(said)
        self.url = said[0].split()[1].removesuffix("/NAME").replace("0.0.0.0", "127.0.0.1")
        self.http = said[1].split()[1].replace("0.0.0.0", "127.0.0.1") if http else ""

    def _start(self, policy: Path, *arguments: str) -> list[str]:
        """Start the process and return what it says until it is ready, or all that it says."""
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "simile", "serve", str(policy), "--port", "0", *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONWARNINGS": "error"},
            )
        assert self.process.stdout is not None
        said: list[str] = []
        for line in self.process.stdout:
            said.append(line)
            if line.startswith("policy"):
                break
        return said

    def connect(self, path: str = "", **options: Any) -> ClientConnection:
        return connect(
            f"{self.url}{path}",
            **{"compression": None, "open_timeout": 10, "close_timeout": 1, "proxy": None, **options},
        )

    def get(self, path: str, **options: Any) -> Any:
        # Where there is no TLS, the certificates of the system need not be read for every request.
        return httpx.get(f"{self.http}{path}", **{"timeout": 10, "trust_env": False, "verify": False, **options})

    def metric(self, name: str, **labels: str) -> float:
        for family in text_string_to_metric_families(self.get("/metrics").text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        raise AssertionError(f"no metric {name}")

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code, self.errors.read_text()


@contextmanager
def served(policy: Path, *arguments: str, **options: Any) -> Iterator[Server]:
    server = Server(policy, *arguments, **options)
    try:
        yield server
    finally:
        server.stop(signal.SIGKILL)


def until(true: Callable[[], Any], seconds: float = 10.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)
    return found


def ask(ws: ClientConnection, message: Json, *, binary: bool = False) -> Json:
    """Send a message and return its answer; events on the way are left out."""
    ws.send(msgspec.msgpack.encode(message) if binary else json.dumps(message))
    return answer(ws)


def answer(ws: ClientConnection) -> Json:
    while True:
        found = event(ws)
        if "event" not in found:
            return found


def event(ws: ClientConnection, kind: str | None = None) -> Json:
    """Return the next message or, with a kind, the next event of that kind."""
    while True:
        data = ws.recv(timeout=10)
        found: Json = json.loads(data) if isinstance(data, str) else msgspec.msgpack.decode(data)
        if kind is None or found.get("event", {}).get("kind") == kind:
            return found


def farewell(ws: ClientConnection) -> tuple[list[Json], int | None]:
    """Return all that is still said, and the code by which the connection is closed."""
    told = []
    try:
        while True:
            told.append(json.loads(ws.recv(timeout=5)))
    except ConnectionClosed as closed:
        return told, closed.rcvd and closed.rcvd.code


@pytest.fixture(scope="module")
def contexts() -> np.ndarray:
    return tasks.pursuit(n_sequences=1, length=200, seed=9).contexts[0]


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Policy files: one to serve, one that may take over from it, and one that may not."""
    folder = tmp_path_factory.mktemp("policies")
    demos = tasks.pursuit(n_sequences=4, length=200, seed=0)
    space = simile.ActionSpace(low=-40.0, high=40.0)
    made = {
        name: simile.clone(
            data,
            model=simile.SmoothForest(n_trees=4),
            horizon=simile.Horizon(4, 2),
            smoothness=smoothness,
            **({"space": space} if bounded else {}),
        ).policy
        for name, data, smoothness, bounded in (
            ("served", demos, 20.0, True),
            ("next", demos, 3.0, True),
            ("other", demos_of(80, 80, m=2), 3.0, False),
        )
    }
    for name, policy in made.items():
        policy.save(folder / name)
    return {name: folder / name for name in made}


@pytest.fixture(scope="module")
def server(policies: dict[str, Path]) -> Iterator[Server]:
    """One server for all that it must bear; it lives to the end of the module."""
    limits = ("--max-message", "4096", "--patience", str(PATIENCE), *GENEROUS)
    with served(policies["served"], *limits) as running:
        yield running
        assert running.process.poll() is None
        assert running.stop() == (0, "")
