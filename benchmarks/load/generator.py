"""Traffic at a steady rate: frames of many streams, their phases spread evenly, and how long each answer took.

A frame is due at a fixed time whatever the server does. Latency is counted twice: from when the frame was written, and
from when it was due. The second also holds what a slow server or a slow generator keeps waiting, which the first would
leave out.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field

import msgspec
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from load.policies import contexts

TICK = 0.001  # seconds that the generator sleeps at least: frames are up to so late, which counts as from due
PATIENCE = 5.0  # seconds to wait for the last answers


class Heard(msgspec.Struct):
    """As much of an answer as is needed here."""

    n: int | None = None
    stream: str | None = None
    lost: int = 0
    error: str | None = None
    a: list[float] | None = None


@dataclass
class Traffic:
    """What came of it: seconds from writing and from due, when that was, and counts."""

    from_write: list[float] = field(default_factory=list)
    from_due: list[float] = field(default_factory=list)
    due: list[float] = field(default_factory=list)
    sent: int = 0
    answered: int = 0
    lost: int = 0
    errors: int = 0
    unanswered: int = 0


class Line(WSListener):
    """One connection: remembers when the frames of each of its streams were due and written."""

    def __init__(self, kind: str, traffic: Traffic, warm_until: float) -> None:
        self.traffic, self.warm_until = traffic, warm_until
        self.waiting: dict[tuple[str | None, int], tuple[float, float]] = {}
        self.transport: WSTransport | None = None
        self.closed = False
        self._decode = (msgspec.msgpack if kind == "msgpack" else msgspec.json).Decoder(Heard).decode

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Keep the way to send."""
        self.transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:  # noqa: ARG002
        """Count an answer."""
        now = time.perf_counter()
        kind = frame.msg_type
        if kind is not WSMsgType.BINARY and kind is not WSMsgType.TEXT:
            return
        heard = self._decode(frame.get_payload_as_memoryview())
        traffic = self.traffic
        traffic.lost += heard.lost
        if heard.n is None:
            return
        due, written = self.waiting.pop((heard.stream, heard.n), (0.0, 0.0))
        if not written:
            return
        traffic.answered += 1
        traffic.errors += heard.error is not None
        if due >= self.warm_until:
            traffic.from_write.append(now - written)
            traffic.from_due.append(now - due)
            traffic.due.append(due)

    def on_ws_disconnected(self, transport: WSTransport) -> None:  # noqa: ARG002
        """Note the end."""
        self.closed = True


async def drive(
    url: str, n_streams: int, seconds: float, *, rate: float, lines: int = 0, kind: str = "msgpack", warm: float = 1.0
) -> Traffic:
    """Send frames of n streams at a rate for some seconds, after a second that does not count.

    Parameters
    ----------
    url : str
        Where the streams are: `ws://HOST:PORT/streams`.
    n_streams, seconds, rate
        How much.
    lines : int
        Over how many connections; 0 gives each stream one of its own.
    kind : str
        "msgpack" or "json".
    warm : float
        Seconds at the beginning that are not counted.
    """
    traffic = Traffic()
    names = [f"s{i}" for i in range(n_streams)]
    connected: list[Line] = []
    for address in [url] * lines if lines else [f"{url}/{name}" for name in names]:
        _, line = await ws_connect(lambda: Line(kind, traffic, 0.0), address)
        connected.append(line)
    owner = [connected[i % len(connected)] for i in range(n_streams)]
    packed = [_packed(kind, name if lines else None, offset=37 * i) for i, name in enumerate(names)]
    begin = time.perf_counter() + 0.05
    for line in connected:
        line.warm_until = begin + warm
    await _send_all(owner, names if lines else None, packed, kind, traffic, begin, seconds + warm, rate)
    end = time.monotonic() + PATIENCE
    while any(line.waiting and not line.closed for line in connected) and time.monotonic() < end:
        await asyncio.sleep(0.01)
    traffic.unanswered = sum(len(line.waiting) for line in connected)
    for line in connected:
        if line.transport is not None:
            line.transport.disconnect()
    return traffic


async def _send_all(
    owner: list[Line],
    names: list[str] | None,
    packed: list[list[bytes]],
    kind: str,
    traffic: Traffic,
    begin: float,
    seconds: float,
    rate: float,
) -> None:
    n_streams, step = len(owner), 1.0 / (rate * len(owner))
    what = WSMsgType.BINARY if kind == "msgpack" else WSMsgType.TEXT
    head = b"\x83\xa1n\xce" if names else b"\x82\xa1n\xce"  # a map of so many fields, "n", and a number in four bytes
    for k in range(int(seconds / step)):
        due = begin + k * step
        while (left := due - time.perf_counter()) > 0.0:
            await asyncio.sleep(max(left, TICK))  # never awake for nothing: the server may share the core's units
        n, i = divmod(k, n_streams)
        line = owner[i]
        if line.closed or line.transport is None:
            continue
        frames = packed[i]
        number = head + n.to_bytes(4, "big") if kind == "msgpack" else b'{"n":%d,' % n
        message = number + frames[n % len(frames)]
        written = time.perf_counter()
        line.waiting[names[i] if names else None, n] = due, written
        line.transport.send(what, message)
        traffic.sent += 1
        if k % 16 == 15:
            await asyncio.sleep(0)  # answers are read even when the generator is behind


def _packed(kind: str, stream: str | None, *, offset: int, n_frames: int = 60) -> list[bytes]:
    """Encode the frames of a stream but for their number, which comes first and has a place of fixed length."""
    rows = deque(contexts())
    rows.rotate(-offset)
    named = {} if stream is None else {"stream": stream}
    encode = msgspec.msgpack.encode if kind == "msgpack" else msgspec.json.encode
    whole = [encode({"x": row, **named}) for row in list(rows)[:n_frames]]
    return [message[1:] for message in whole]
