"""A fuzzer: malformed messages at a steady rate, each of which must get an answer, or a close."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from picows import WSError, WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from load.malformed import malformed

if TYPE_CHECKING:
    from load.worlds import World

PATIENCE = 2.0  # seconds for the last answers


class Fuzzer(WSListener):
    """Sends what `malformed` makes, on one connection after the other.

    Parameters
    ----------
    world : World
        For the books.
    url : str
        Where the stream is.
    seed : int
        Of the messages.
    """

    def __init__(self, world: World, url: str, seed: int) -> None:
        self.world, self.url = world, url
        self.messages = malformed(seed)
        self.transport: WSTransport | None = None
        self.sent = self.waiting = 0

    async def run(self, rate: float) -> None:
        """Send so many messages a second, for ever."""
        loop = asyncio.get_running_loop()
        begin, number = loop.time(), 0
        while True:
            if self.transport is None:
                try:
                    await ws_connect(lambda: self, self.url)
                except (OSError, WSError, TimeoutError):
                    await asyncio.sleep(0.2)  # the server is down; what was due is sent when it is back
                    continue
            await asyncio.sleep(max(begin + number / rate - loop.time(), 0.0))
            number += 1
            if not self.world.ending:
                self.send()

    def send(self) -> None:
        """Send the next one."""
        data, binary = next(self.messages)
        while brings_bridges(data, binary):
            data, binary = next(self.messages)
        if self.transport is not None:
            self.sent += 1
            self.waiting += 1
            self.transport.send(WSMsgType.BINARY if binary else WSMsgType.TEXT, data)

    def check(self) -> None:
        """See that nothing is left unanswered."""
        if self.waiting:
            self.world.ledger.mistake(f"{self.waiting} malformed messages were not answered")

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Keep the way to send."""
        self.transport = transport

    def on_ws_disconnected(self, transport: WSTransport) -> None:  # noqa: ARG002
        """Begin again with the next message."""
        self.transport, self.waiting = None, 0

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Count an answer; the text must not tell about the inside of the server."""
        if frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()
        elif frame.msg_type in (WSMsgType.TEXT, WSMsgType.BINARY):
            data = frame.get_payload_as_bytes()
            if b"event" not in data[:10]:
                self.waiting -= 1
            if b"Traceback" in data or b"site-packages" in data or b".py" in data:
                self.world.ledger.mistake(f"an answer tells about the inside: {data[:200]!r}")


def brings_bridges(data: bytes, binary: bool) -> bool:
    """Whether a message that happens to be right sets a deadline: then answers come that nobody asked for."""
    try:
        message = (msgspec.msgpack if binary else msgspec.json).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    begin = message.get("open") if isinstance(message, dict) else None
    return isinstance(begin, dict) and bool(begin.get("deadline"))
