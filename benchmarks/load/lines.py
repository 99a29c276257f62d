"""Lines: the connections of callers. They break, and are made again."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import msgspec
from picows import WSError, WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

if TYPE_CHECKING:
    from load.callers import Caller
    from load.worlds import World

SMALL_BUFFER = 4096  # bytes that the system keeps for a slow reader
PAUSE = 0.25  # seconds before a line is made again, in which the server notices the end of the old one
TOO_BIG = 1009


class Line(WSListener):
    """One connection, of one caller or of many.

    Parameters
    ----------
    world : World
        For the books.
    url : str
        Where the streams are.
    many : bool
        Whether it carries several streams.
    binary : bool
        Whether messages are msgpack; else JSON.
    slow : bool
        Whether the system keeps little for it.
    """

    def __init__(self, world: World, url: str, *, many: bool = False, binary: bool = False, slow: bool = False) -> None:
        self.world, self.url, self.many, self.binary, self.slow = world, url, many, binary, slow
        self.callers: dict[str, Caller] = {}
        self.transport: WSTransport | None = None
        self.unanswered = 0  # malformed messages
        self.closed_with: int | None = None
        kind = msgspec.msgpack if binary else msgspec.json
        self._encode, self._decode = kind.Encoder().encode, kind.Decoder().decode
        self._kind = WSMsgType.BINARY if binary else WSMsgType.TEXT

    async def keep(self) -> None:
        """Connect, and connect again whenever the line breaks, until cancelled."""
        while True:
            if self.transport is None and not self.world.ending:
                try:
                    await ws_connect(lambda: self, self.url, socket_factory=self._small if self.slow else None)
                except (OSError, WSError, TimeoutError):
                    pass  # the server is down; it will be back
                else:
                    for caller in self.callers.values():
                        caller.connected()
            await asyncio.sleep(PAUSE)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        self.send_raw(self._encode(message), malformed=False)

    def send_raw(self, data: bytes, *, malformed: bool = True) -> None:
        """Send bytes as they are."""
        if self.transport is not None:
            self.unanswered += malformed
            self.transport.send(self._kind, data)

    def abort(self) -> None:
        """End the connection without a word."""
        if self.transport is not None:
            self.transport.underlying_transport.abort()

    def read(self, *, on: bool) -> None:
        """Stop or go on reading."""
        if self.transport is not None:
            under = self.transport.underlying_transport
            (under.resume_reading if on else under.pause_reading)()

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Keep the way to send."""
        self.transport = transport

    def on_ws_disconnected(self, transport: WSTransport) -> None:  # noqa: ARG002
        """Tell the callers."""
        self.transport = None
        self.world.ledger.lost["malformed, in flight when a connection broke"] += self.unanswered
        self.unanswered = 0
        for caller in self.callers.values():
            caller.broken()

    def pause_writing(self) -> None:
        """Write on: what a server does not read yet waits here, and is little."""

    def resume_writing(self) -> None:
        """Write on."""

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Hand a message to whom it is for."""
        if frame.msg_type == WSMsgType.CLOSE:
            code = int(frame.get_close_code())
            self.world.ledger.held["oversized, closed with 1009"] += code == TOO_BIG
            transport.send_close(frame.get_close_code())
            transport.disconnect()
            return
        if frame.msg_type not in (WSMsgType.TEXT, WSMsgType.BINARY):
            return
        try:
            self._hear(self._decode(frame.get_payload_as_memoryview()))
        except Exception as error:  # a mistake of the soak must not look like one of the server
            self.world.ledger.mistake(f"the soak itself: {type(error).__name__}: {error}")
            raise

    def _hear(self, said: dict[str, Any]) -> None:
        if "event" in said:
            if said["event"]["kind"] == "reloaded":
                self.world.reloaded()
                for caller in self.callers.values():
                    caller.handed_over()
            elif said["event"]["kind"] == "operated":
                caller = self.callers[said["stream"]] if self.many else next(iter(self.callers.values()))
                caller.hand.tell(said["event"]["on"])
        elif "stream" in said or (not self.many and ("n" not in said or said["n"] is not None)):
            caller = self.callers.get(said.get("stream", "")) if self.many else next(iter(self.callers.values()))
            if caller is None:
                self.world.ledger.mistake(f"an answer for nobody: {said}")
            else:
                caller.hear(said)
        elif self.unanswered > 0:
            self.unanswered -= 1
            self.world.ledger.held["malformed, answered with a sentence"] += 1
        else:
            self.world.ledger.mistake(f"an answer that nobody asked for: {said}")

    @staticmethod
    def _small(_: Any) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        made.setblocking(False)
        return made
