"""A server that only echoes frame numbers, in a process of its own: what loopback, wake-ups and picows take alone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect, ws_create_server

from load.servers import free_ports

PATIENCE = 20.0  # seconds until it listens


class Echo(WSListener):
    """Answers a frame by its number and no action."""

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Decode and answer, as the real server must at least."""
        kind = frame.msg_type
        if kind not in (WSMsgType.TEXT, WSMsgType.BINARY):
            return
        way = msgspec.msgpack if kind is WSMsgType.BINARY else msgspec.json
        said = way.decode(frame.get_payload_as_memoryview())
        named = {"stream": said["stream"]} if "stream" in said else {}
        transport.send(kind, way.encode({"n": said["n"], "a": [0.0], "by": "policy", **named}))


class Echoing(NamedTuple):
    """Where its streams are, and its process."""

    url: str
    pid: int


@contextmanager
def echoing(core: int | None) -> Iterator[Echoing]:
    """Run it on a core."""
    (port,) = free_ports(1)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.Popen([sys.executable, "-m", "load.echo", str(port)], env=environment)
    if core is not None:
        os.sched_setaffinity(process.pid, {core})
    try:
        url = f"ws://127.0.0.1:{port}/streams"
        uvloop.run(_reached(url))
        yield Echoing(url, process.pid)
    finally:
        process.kill()
        process.wait()


async def _reached(url: str) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            transport, _ = await ws_connect(WSListener, url)
        except OSError:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.05)
        else:
            transport.disconnect()
            return


async def _serve(port: int) -> None:
    server = await ws_create_server(lambda _: Echo(), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
