"""Trials: what happens to the server as a whole during a soak. Each injects one trouble and sees that it was met."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raids import wire
from raids.floods import KINDS
from raids.forgery import forge
from raids.policies import REFUSED, make_sparse

from load.callers import Caller
from load.lines import Line
from load.servers import Server
from load.worlds import World

NOTICE = 10.0  # seconds for the server to notice something
TINY_DISK = 2048  # bytes a file may have while the disk is "full"
SLOW, EXTRA = 4.0, 500  # seconds in which slow readers read nothing, and frames a second that they send meanwhile
FLOOD, SILENT, HELD = 3.0, 300, 3.0  # seconds of a flood; connections that say nothing, and seconds that they stay
NOISE = (
    b"",
    b"\x00" * 64,
    b"GET /streams/x HTTP/1.1\r\n\r\n",
    b"GET /streams/" + b"x" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /streams HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
)
HELLO = (
    b"GET /streams/noise HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@dataclass
class Trials:
    """The server, its policy file, and everybody who calls.

    Parameters
    ----------
    server, world
        What is tried.
    served : Path
        The file that the server watches.
    policies : sequence of (Path, policy)
        Good ones, taken in turn.
    lines, callers, slow : sequences
        All lines and callers, and those that are slow at times.
    """

    server: Server
    world: World
    served: Path
    policies: Sequence[tuple[Path, Any]]
    lines: Sequence[Line]
    callers: Sequence[Caller]
    slow: Sequence[Caller]
    rng: random.Random = field(default_factory=lambda: random.Random(11))
    turn: int = 0
    flooded: int = 0

    async def replace_by_junk(self) -> None:
        """Put a file in the policy's place that is none: the old policy must go on."""
        good = self.served.read_bytes()
        for name, junk in (("junk", self.rng.randbytes(3000)), ("half a policy", good[: len(good) // 2])):
            before = await self._count("reload_failures")
            self.world.ledger.injected[f"policy file replaced by {name}"] += 1
            self._put(junk)
            await self._grown("reload_failures", before, f"policy file of {name} refused")
        self._put(good)

    async def replace_by_hostile(self) -> None:
        """Put files of a hostile author in the policy's place, which ask for gigabytes or say what cannot be."""
        good = self.served.read_bytes()
        source = self.policies[self.turn % len(self.policies)][0]
        beside = self.served.with_suffix(".hostile")
        for name, change in {**REFUSED, "a sparse file of 3 GB": None}.items():
            before = await self._count("reload_failures")
            self.world.ledger.injected["policy file replaced by a hostile one"] += 1
            if change is None:
                make_sparse(source, beside)
            else:
                forge(source, beside, change)
            os.replace(beside, self.served)
            await self._grown("reload_failures", before, "hostile policy files refused", f"after {name}")
        self._put(good)

    async def flood(self) -> None:
        """Let a stranger send as much as it can, of one kind after the other: everybody else must be served."""
        # Many names would take all places that streams have, as who may come in may do.
        kinds = [kind for kind in KINDS if kind != "many names"]
        kind = kinds[self.flooded % len(kinds)]
        self.flooded += 1
        self.world.ledger.injected["floods"] += 1
        program = f"from raids.floods import flood; flood({kind!r}, {self.server.port}, {FLOOD})"
        stranger = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[1])
        await asyncio.to_thread(stranger.wait)
        if stranger.returncode == 0 and await asyncio.to_thread(self.server.is_alive):
            self.world.ledger.held["floods"] += 1
        else:
            self.world.ledger.mistake(f"the server did not answer after a flood of {kind} ({stranger.returncode})")

    async def stay_silent(self) -> None:
        """Hold connections that say nothing, at both ports: probes must be answered meanwhile."""
        self.world.ledger.injected["silent connections"] += SILENT
        opened, loop = [], asyncio.get_running_loop()
        try:
            for i in range(SILENT):
                one = socket.socket()
                opened.append(one)
                one.setblocking(False)
                one.bind((wire.ELSEWHERE, 0))
                port = (self.server.port, self.server.http_port)[i % 2]
                try:
                    await asyncio.wait_for(loop.sock_connect(one, (wire.HERE, port)), 0.2)
                except (OSError, TimeoutError):
                    continue  # it may let nobody more in
            end = loop.time() + HELD
            while loop.time() < end:
                if not await asyncio.to_thread(self.server.is_alive):
                    self.world.ledger.mistake(f"/health does not answer while {SILENT} connections say nothing")
                    return
                await asyncio.sleep(0.2)
            self.world.ledger.held["silent connections"] += SILENT
        finally:
            for one in opened:
                one.close()

    async def replace_by_another(self) -> None:
        """Put another policy in the place of the one at work: it must take over without a jump."""
        self.turn += 1
        path, policy = self.policies[self.turn % len(self.policies)]
        self.world.ledger.injected["policy replaced by another"] += 1
        self.world.successor = policy
        self._put(path.read_bytes())
        before = self.world.generation
        if await self._until(lambda: self.world.generation > before):
            self.world.ledger.held["policies taken over"] += 1
        else:
            self.world.successor = None
            self.world.ledger.mistake(f"the server did not take over a new policy within {NOTICE:g} s")
        await asyncio.sleep(self.world.handover + 3.0)  # all are handed over and have begun anew

    async def fill_disk(self) -> None:
        """Let no file grow beyond 2 KiB, by RLIMIT_FSIZE of the running server: snapshots and recording fail."""
        self.world.ledger.injected["disk full while snapshotting"] += 1
        pid = self.server.pid
        limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        before, unrecorded = await self._count("snapshot_failures"), await self._count("record_lost")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (TINY_DISK, limits[1]))
        try:
            await self._grown("snapshot_failures", before, "full disk counted, serving went on")
            await self._grown("record_lost", unrecorded, "frames not recorded on a full disk, and counted")
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
        await self._grown("snapshots", await self._count("snapshots"), "snapshots again when the disk had room")
        await self._grown("recorded", await self._count("recorded"), "frames recorded again when the disk had room")

    async def kill(self) -> None:
        """Kill the server and start it again: streams must go on from the last snapshot."""
        await self._grown("snapshots", await self._count("snapshots"), None)
        self.world.ledger.injected["kill -9 and restart"] += 1
        self.world.tape.kill(await self._count("record_lost"))
        await asyncio.to_thread(self.server.kill)
        await asyncio.sleep(0.1)
        for caller in self.callers:
            caller.restarted()
        await asyncio.to_thread(self.server.start)
        if await self._until(lambda: all(c.ready for c in self.callers)):
            self.world.ledger.held["restarts that all streams survived"] += 1
        else:
            missing = sum(not c.ready for c in self.callers)
            self.world.ledger.mistake(f"{missing} streams did not come back within {NOTICE:g} s of a restart")

    async def read_slowly(self) -> None:
        """Let some read nothing while many answers come: the others must not notice, and all must be told."""
        self.world.ledger.injected["slow readers"] += len(self.slow)
        for caller in self.slow:
            caller.doubt(SLOW + 1.5)
            caller.line.read(on=False)
        for _ in range(int(SLOW * EXTRA / 4)):
            for caller in self.slow:
                for _ in range(4):
                    caller.babble()
            await asyncio.sleep(4 / EXTRA)
        for caller in self.slow:
            caller.line.read(on=True)
        await asyncio.sleep(3.0)
        self.world.ledger.held["slow readers came back"] += sum(c.ready or c.closing for c in self.slow)

    async def make_noise(self) -> None:
        """Open connections that speak no HTTP, or no WebSocket, or leave in the middle of a word."""
        noises = [*NOISE, *(HELLO + self.rng.randbytes(self.rng.randrange(1, 100)) for _ in range(10))]
        self.world.ledger.injected["connections with noise"] += len(noises)
        for noise in noises:
            with socket.socket() as raw:
                raw.setblocking(False)
                loop = asyncio.get_running_loop()
                try:
                    await loop.sock_connect(raw, ("127.0.0.1", self.server.port))
                    await loop.sock_sendall(raw, noise)
                    await asyncio.wait_for(loop.sock_recv(raw, 1000), 0.05)
                except (OSError, TimeoutError):
                    continue  # it may hang up, or wait for more
        if await asyncio.to_thread(self.server.is_alive):
            self.world.ledger.held["noise"] += len(noises)
        else:
            self.world.ledger.mistake("the server was gone after noise")

    async def rest(self) -> None:
        """Let nothing happen, so that callers settle."""
        await asyncio.sleep(0.5)

    # ---------------------------------------------------------------------------------------------------------- helpers

    def _put(self, data: bytes) -> None:
        beside = self.served.with_suffix(".new")
        beside.write_bytes(data)
        os.replace(beside, self.served)

    async def _count(self, name: str) -> float:
        """Ask the server how often something has happened."""
        return (await asyncio.to_thread(self.server.metrics)).get(f"simile_{name}_total", 0.0)

    async def _grown(self, name: str, before: float, held: str | None, when: str = "") -> None:
        """Wait until the server has counted more of these than before."""

        async def more() -> bool:
            return await self._count(name) > before

        if not await self._until(more):
            self.world.ledger.mistake(f"simile_{name}_total did not grow within {NOTICE:g} s {when}")
        elif held is not None:
            self.world.ledger.held[held] += 1

    async def _until(self, true: Callable[[], bool | Awaitable[bool]]) -> bool:
        for _ in range(int(NOTICE / 0.1)):
            found = true()
            if found if isinstance(found, bool) else await found:
                return True
            await asyncio.sleep(0.1)
        return False


def copied(source: Path, target: Path) -> Path:
    """Copy a policy to where the server watches."""
    shutil.copy(source, target)
    return target
