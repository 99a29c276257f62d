"""A server in a process of its own: started, asked how it is, killed, and started again at the same address."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PATIENCE = 60.0  # seconds until a server is ready: the kernels may have to be compiled


class Server:
    """`simile serve POLICY` on loopback.

    Parameters
    ----------
    policy : Path
        The file to serve.
    options : sequence of str
        More options of `simile serve`.
    core : int, optional
        Which core it may use; any by default.

    Attributes
    ----------
    said : deque of str
        The last lines of its output. They come through a pipe: a file would feel the limits of a full disk.
    """

    def __init__(self, policy: Path, options: Sequence[str] = (), *, core: int | None = None) -> None:
        self.port, self.http_port = free_ports(2)
        self.said: deque[str] = deque(maxlen=400)
        self._core = core
        self._command = [
            *(sys.executable, "-m", "simile", "serve", str(policy)),
            *("--port", str(self.port), "--http-port", str(self.http_port), *options),
        ]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """Where the streams are."""
        return f"ws://127.0.0.1:{self.port}/streams"

    @property
    def pid(self) -> int:
        """The process."""
        return self._running.pid

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self.process = self._spawned()
        threading.Thread(target=self._listen, args=[self.process], daemon=True).start()
        end = time.monotonic() + PATIENCE
        while not self.is_ready():
            if self._running.poll() is not None or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"the server did not start:\n{self.tail}")
            time.sleep(0.02)

    def is_ready(self) -> bool:
        """Whether it takes new streams."""
        return self._says("/ready")

    def is_alive(self) -> bool:
        """Whether it is there, however many streams it has."""
        return self._says("/health")

    def _says(self, path: str) -> bool:
        try:
            self.get(path)
        except OSError:
            return False
        return True

    def get(self, path: str) -> str:
        """Ask the HTTP door."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=5.0) as answer:
            text: str = answer.read().decode()
            return text

    def json(self, path: str) -> Any:
        """Ask the HTTP door for JSON."""
        return json.loads(self.get(path))

    def metrics(self) -> dict[str, float]:
        """Return the metrics by name; those with labels by name{labels}."""
        found = {}
        for line in self.get("/metrics").splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
        return found

    def kill(self) -> None:
        """End it as if the power had gone."""
        self._running.kill()
        self._running.wait()

    def stop(self, patience: float = 20.0) -> int:
        """Ask it to drain and end; returns its exit status."""
        if self._running.poll() is None:
            self._running.send_signal(signal.SIGTERM)
            try:
                self._running.wait(patience)
            except subprocess.TimeoutExpired:
                self.kill()
        return int(self._running.wait())

    @property
    def tail(self) -> str:
        """What it said last."""
        return "".join(self.said)[-3000:]

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        for line in process.stdout or ():
            self.said.append(line.decode("utf-8", "replace"))

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise RuntimeError("the server was never started")
        return self.process

    def _spawned(self) -> subprocess.Popen[bytes]:
        # One thread for BLAS: a server that shares two cores with its load must not start more.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        if self._core is not None:
            os.sched_setaffinity(process.pid, {self._core})  # before it has threads: they inherit it
        return process


def free_ports(n: int) -> list[int]:
    """Find ports that nobody listens at; they stay the same when a server is started again."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def cores() -> tuple[int | None, int | None]:
    """Return one core for the server and another for its load; None where there is only one, or no way to choose."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    own = sorted(os.sched_getaffinity(0))
    return (own[0], own[1]) if len(own) > 1 else (None, None)
