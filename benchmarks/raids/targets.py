"""What is attacked: `simile serve` and `simile studio` in processes of their own, with our bounds around them."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raids import wire

START = 60.0  # seconds: kernels may have to be compiled
ADDRESS_SPACE = 8 << 30  # bytes; libraries alone reserve some, and what is beyond is an attack that worked


class Broken(Exception):  # noqa: N818 - what an attack is after
    """The attack worked."""


class Process:
    """A child that writes all it says into a file.

    Parameters
    ----------
    command : list of str
        After `simile`.
    folder : Path
        Where it works, and where its log is.
    environment : dict, optional
        More of it.
    files : int, optional
        Most files that it may have open.
    """

    def __init__(
        self, command: list[str], folder: Path, *, environment: dict[str, str] | None = None, files: int | None = None
    ) -> None:
        self.log_file = folder / f"log-{time.monotonic_ns()}"
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "simile", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**_environment(), **(environment or {})},
                preexec_fn=lambda: _bound(files),
            )

    def wait_for(self, pattern: str, seconds: float = START) -> re.Match[str]:
        """Wait until the log has this; Broken where the process ends before."""
        found = None

        def look() -> bool:
            nonlocal found
            found = re.search(pattern, self.log, re.MULTILINE)
            return found is not None or self.process.poll() is not None

        until(look, seconds)
        if found is None:
            raise Broken(f"it ended or waited instead of saying {pattern!r}: {self.log[-500:]}")
        return found

    @property
    def log(self) -> str:
        """What it has said."""
        return self.log_file.read_text("utf-8", "replace")

    @property
    def log_size(self) -> int:
        """Bytes of it."""
        return self.log_file.stat().st_size

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None

    @property
    def memory(self) -> float:
        """MB that it has in memory now."""
        return read_status(self.process.pid, "VmRSS")

    @property
    def most_memory(self) -> float:
        """MB that it has had at most."""
        return read_status(self.process.pid, "VmHWM")

    def kill(self) -> None:
        """End it as a power cut would."""
        if self.alive:
            self.process.kill()
        self.process.wait()

    def stop(self, seconds: float = 15.0) -> int:
        """Ask it to end; returns its exit code."""
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
                raise Broken(f"it did not end within {seconds:g} s of SIGTERM") from None
        return int(self.process.wait())

    def check(self, *, traceback: bool = False) -> None:
        """See that it lives, and has said no traceback."""
        if not self.alive:
            raise Broken(f"the process ended with {self.process.returncode}: {self.log[-300:]}")
        if not traceback and "Traceback" in self.log:
            raise Broken(f"a traceback in the log: {self.log[self.log.index('Traceback') :][:300]}")

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Service(Process):
    """`simile serve POLICY`, on ports of its own."""

    def __init__(self, policy: Path, *options: str, token: str = "", tries: int = 3, **bounds: Any) -> None:
        self.http = free_port()
        self.token = token
        secret = {"environment": {"SIMILE_TOKEN": token}} if token else {}
        command = ["serve", str(policy), "--port", "0", "--http-port", str(self.http), *options]
        super().__init__(command, policy.parent, **{**secret, **bounds})
        try:
            self.port = int(self.wait_for(r"^streams wss?://[^ ]*:(\d+)/streams")[1])
            self.wait_for(r"^policy ")
        except Broken:
            self.kill()
            if tries > 1 and "already in use" in self.log:  # somebody else was quicker
                self.__init__(policy, *options, token=token, tries=tries - 1, **bounds)  # type: ignore[misc]
                return
            raise

    @property
    def authorization(self) -> tuple[str, ...]:
        """The header that shows the token."""
        return (f"Authorization: Bearer {self.token}",) if self.token else ()

    def open(self, name: str = "", **options: Any) -> wire.WebSocket:
        """Open a WebSocket as a rightful client would."""
        path = f"/streams/{name}" if name else "/streams"
        return wire.WebSocket(self.port, path, headers=self.authorization, **options)

    def get(self, path: str, **options: Any) -> wire.Reply:
        """Ask as a rightful client would."""
        headers = (f"Host: {wire.HERE}:{self.http}", *self.authorization)
        return wire.ask(self.http, path, headers=headers, **options)

    def count(self, name: str) -> float:
        """Return what the server has counted."""
        reply = self.get("/metrics")
        found = re.search(rf"^simile_{name}_total (\S+)$", reply.body.decode(), re.MULTILINE)
        if found is None:
            raise Broken(
                f"/metrics answers {reply.status} and no {name}; the server's exit code is {self.process.poll()}"
            )
        return float(found[1])

    def check_health(self, seconds: float = 1.0) -> float:
        """See that /health answers in time; returns the seconds it took."""
        begin = time.monotonic()
        try:
            status = wire.ask(self.http, "/health", timeout=seconds).status
        except OSError as error:
            raise Broken(f"/health does not answer: {error}") from None
        if status != 200:
            raise Broken(f"/health says {status} after {time.monotonic() - begin:.1f} s")
        return time.monotonic() - begin


class Studio(Process):
    """`simile studio` on a folder."""

    def __init__(self, folder: Path, *options: str, **bounds: Any) -> None:
        self.folder = folder / "studio"
        command = ["studio", "--folder", str(self.folder), "--port", "0", *options]
        super().__init__(command, folder, **bounds)
        try:
            found = self.wait_for(r"http://127\.0\.0\.1:(\d+)/\S*")
        except Broken:
            self.kill()
            raise
        self.port, self.address = int(found[1]), found[0]
        until(lambda: self._answers(), START)
        token_file = next((f for f in sorted(self.folder.iterdir()) if "token" in f.name), None)
        self.token = token_file.read_text().strip() if token_file else ""

    def ask(self, path: str, **options: Any) -> wire.Reply:
        """Ask with the token."""
        headers = (f"Host: 127.0.0.1:{self.port}", f"Authorization: Bearer {self.token}")
        return wire.ask(self.port, path, headers=headers, **options)

    def _answers(self) -> bool:
        try:
            return wire.ask(self.port).status > 0
        except OSError:
            return False


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code (below 0 by a signal), what it said, seconds, and MB at most."""

    code: int
    out: str
    said: str
    seconds: float
    memory: float

    def check(self, *, seconds: float, memory: float) -> None:
        """See that it ended by itself, in its bounds, and without a traceback."""
        if self.code < 0:
            raise Broken(f"killed by {signal.Signals(-self.code).name}: {self.said[-300:]}")
        if "Traceback" in self.said:
            raise Broken(f"a traceback: {self.said[self.said.index('Traceback') :][-400:]}")
        if self.seconds > seconds or self.memory > memory:
            raise Broken(
                f"{self.seconds:.0f} s and {self.memory:.0f} MB, where {seconds:g} s and {memory:g} MB are due"
            )


def run(
    command: list[str], folder: Path, *, stdin: bytes = b"", seconds: float = 60.0, python: bool = False
) -> Outcome:
    """Run `simile ...` (or a program of ours) to its end; it is killed when its time is up."""
    out, said, given = folder / "out", folder / "said", folder / "in"
    given.write_bytes(stdin)
    begin = time.monotonic()
    with out.open("wb") as o, said.open("wb") as e, given.open("rb") as i:
        arguments = [sys.executable, *(("-c",) if python else ("-m", "simile")), *command]
        child = subprocess.Popen(
            arguments, stdin=i, stdout=o, stderr=e, cwd=folder, env=_environment(), preexec_fn=_bound
        )
    peak, end = 0.0, begin + seconds
    while (code := child.poll()) is None:
        peak = max(peak, read_status(child.pid, "VmHWM"))
        if time.monotonic() > end:
            child.kill()
            child.wait()
            raise Broken(f"it was not done in {seconds:g} s")
        time.sleep(0.02)
    return Outcome(
        code, out.read_text("utf-8", "replace"), said.read_text("utf-8", "replace"), time.monotonic() - begin, peak
    )


def evaluate(program: str, folder: Path, **options: Any) -> list[Any]:
    """Run a program that prints a JSON value on each line; returns them."""
    found = run([program], folder, python=True, **options)
    if found.code:
        raise Broken(f"exit code {found.code}: {found.said[-400:]}")
    return [json.loads(line) for line in found.out.splitlines()]


def until(true: Callable[[], Any], seconds: float) -> bool:
    """Wait for something; returns whether it came."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def read_status(pid: int, name: str) -> float:
    """Return a size of a process in MB; 0 where it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) / 1e3 if found else 0.0


def free_port() -> int:
    """Find a port that nobody listens at."""
    with socket.create_server((wire.HERE, 0)) as held:
        return int(held.getsockname()[1])


def _environment() -> dict[str, str]:
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**os.environ, **single, "PYTHONUNBUFFERED": "1"}


def _bound(files: int | None = None) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
