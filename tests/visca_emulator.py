"""A camera that speaks VISCA over IP: in simulated time for tests without a network, or on a loopback socket.

It reads and writes bytes by itself, without the code under test, from the published command lists.
"""

from __future__ import annotations

import heapq
import math
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SCALE = 51.2  # units per degree
PAN_SPEEDS = [
    2.0,
    2.4,
    3,
    3.7,
    4.7,
    6.1,
    7.4,
    9.1,
    11,
    14,
    18,
    22,
    27,
    34,
    42,
    52,
    65,
    81,
    100,
    125,
    155,
    190,
    240,
    300,
]
ZOOM_SPEEDS = [250, 500, 900, 1400, 2000, 2700, 3400, 4100]
SIGN = {0x01: -1, 0x02: 1, 0x03: 0}
STEP = 0.002  # seconds of the simulation
ENDS = [(-170.0, 170.0), (-20.0, 90.0), (0.0, 16384.0)]


@dataclass
class Axis:
    """One motor: where it is, how fast, and what it was told."""

    at: float
    low: float
    high: float
    acceleration: float
    speed: float = 0.0
    wanted: float = 0.0  # speed, or the most of it on the way to a target
    target: float | None = None

    def advance(self, seconds: float) -> None:
        goal = self.wanted
        if self.target is not None:
            way = self.target - self.at
            goal = math.copysign(min(self.wanted, math.sqrt(2.0 * self.acceleration * abs(way))), way)
            if abs(way) < 0.01 or (abs(way) <= abs(self.speed) * seconds and self.speed * way > 0.0):
                self.at, self.speed, self.wanted, self.target = self.target, 0.0, 0.0, None
                return
        most = self.acceleration * seconds
        self.speed += min(max(goal - self.speed, -most), most)
        self.at = min(max(self.at + self.speed * seconds, self.low), self.high)


class Camera:
    """What happens in the camera; `handle` returns replies as (when, datagram).

    `drop`, `duplicate`: chances for each datagram, both ways; `delay`: the most that a reply is late, in seconds.
    `refusals`: error codes with which the next commands are answered.
    """

    def __init__(self, *, seed: int = 0, drop=0.0, duplicate=0.0, delay=0.0, now: float = 0.0, deaf: bool = False):
        self.random = random.Random(seed)
        self.drop, self.duplicate, self.delay, self.deaf = drop, duplicate, delay, deaf
        self.refusals: list[int] = []
        self.axes = [Axis(at, *ends, a) for at, ends, a in zip((0, 0, 0), ENDS, (500, 500, 20000), strict=True)]
        self.now = now
        self.last_number = 0xFFFF  # from whoever spoke to it before
        self.commands: list[tuple[float, int, bytes]] = []  # accepted
        self.resets = 0
        self.history: list[tuple[float, float, float]] = []  # time, pan, its speed
        self.arriving: list[int] = []  # numbers of absolute moves under way

    @property
    def pan(self) -> float:
        return self.axes[0].at

    @property
    def moving(self) -> bool:
        return any(axis.speed for axis in self.axes)

    def advance(self, now: float) -> list[tuple[float, bytes]]:
        """Let time pass; returns the completions of moves that arrived."""
        while self.now + STEP <= now:
            for axis in self.axes:
                axis.advance(STEP)
            self.now += STEP
            self.history.append((self.now, self.pan, self.axes[0].speed))
        replies = []
        if self.arriving and all(axis.target is None for axis in self.axes[:2]):
            replies = [reply for number in self.arriving for reply in self.reply(number, "90 51 FF", now)]
            self.arriving = []
        return replies

    def handle(self, datagram: bytes, now: float) -> list[tuple[float, bytes]]:
        replies = self.advance(now)
        if self.deaf or self.random.random() < self.drop:
            return replies
        kind, length, number = struct.unpack(">HHI", datagram[:8])
        payload = datagram[8:]
        assert length == len(payload), "the header is wrong"
        if kind == 0x0200 and payload == b"\x01":
            self.last_number, self.resets = 0, self.resets + 1
            return replies + self.reply(number, "01", now, kind=0x0201)
        if number <= self.last_number:
            return replies + self.reply(number, "0F 01", now, kind=0x0200)
        self.last_number = number
        assert payload[0] == 0x81
        assert payload[-1] == 0xFF
        if kind == 0x0110:
            return replies + self.reply(number, self.inquired(payload), now)
        if self.refusals:
            return replies + self.reply(number, f"90 60 {self.refusals.pop(0):02X} FF", now)
        if not self.obey(payload, number):
            return replies + self.reply(number, "90 60 02 FF", now)
        self.commands.append((now, number, payload))
        replies += self.reply(number, "90 41 FF", now)
        if number not in self.arriving:
            replies += self.reply(number, "90 51 FF", now)
        return replies

    def obey(self, payload: bytes, number: int) -> bool:
        pan, tilt, zoom = self.axes
        if payload[1:4] == b"\x01\x06\x01" and len(payload) == 9:
            v, w, left_right, up_down = payload[4:8]
            if not (1 <= v <= 24 and 1 <= w <= 24):
                return False
            pan.target = tilt.target = None
            pan.wanted = SIGN[left_right] * PAN_SPEEDS[v - 1]
            tilt.wanted = -SIGN[up_down] * PAN_SPEEDS[w - 1]
        elif payload[1:4] == b"\x01\x06\x02" and len(payload) == 15:
            v, w = payload[4:6]
            if not (1 <= v <= 24 and 1 <= w <= 24):
                return False
            pan.target, tilt.target = signed(payload[6:10]) / SCALE, signed(payload[10:14]) / SCALE
            pan.wanted, tilt.wanted = PAN_SPEEDS[v - 1], PAN_SPEEDS[w - 1]
            self.arriving.append(number)
        elif payload[1:4] == b"\x01\x04\x47" and len(payload) == 9:
            zoom.target, zoom.wanted = float(nibbles(payload[4:8])), ZOOM_SPEEDS[-1]
        elif payload[1:4] == b"\x01\x04\x07" and len(payload) == 6:
            zoom.target = None
            way = {0: 0, 2: 1, 3: -1}[payload[4] >> 4]
            zoom.wanted = way * ZOOM_SPEEDS[payload[4] & 0x7]
        else:
            return False
        return True

    def inquired(self, payload: bytes) -> str:
        pan, tilt, zoom = (round(axis.at * scale) for axis, scale in zip(self.axes, (SCALE, SCALE, 1), strict=True))
        if payload == bytes.fromhex("81 09 06 12 FF"):
            return f"90 50 {spread(pan)} {spread(tilt)} FF"
        if payload == bytes.fromhex("81 09 04 47 FF"):
            return f"90 50 {spread(zoom)} FF"
        return "90 60 02 FF"

    def reply(self, number: int, payload: str, now: float, kind: int = 0x0111) -> list[tuple[float, bytes]]:
        """Return a datagram none, one or two times, with its delay."""
        if self.random.random() < self.drop:
            return []
        data = bytes.fromhex(payload)
        datagram = struct.pack(">HHI", kind, len(data), number) + data
        times = 2 if self.random.random() < self.duplicate else 1
        return [(now + self.delay * self.random.random(), datagram) for _ in range(times)]


def nibbles(data: bytes) -> int:
    assert all(byte < 16 for byte in data)
    return int("".join(f"{byte:x}" for byte in data), 16)


def signed(data: bytes) -> int:
    return (nibbles(data) ^ 0x8000) - 0x8000


def spread(value: int) -> str:
    return " ".join(f"0{digit}" for digit in f"{value & 0xFFFF:04X}")


class Time:
    """A clock that only moves when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 1e-4)


class SimulatedLink:
    """A `Link` to a camera in simulated time."""

    def __init__(self, camera: Camera, clock: Time) -> None:
        self.camera, self.clock = camera, clock
        self.queue: list[tuple[float, bytes]] = []
        self.sent: list[bytes] = []

    def _keep(self, replies: list[tuple[float, bytes]]) -> None:
        for reply in replies:
            heapq.heappush(self.queue, reply)

    def send(self, datagram: bytes) -> None:
        self.sent.append(datagram)
        self._keep(self.camera.handle(datagram, self.clock()))

    def receive(self) -> bytes | None:
        self._keep(self.camera.advance(self.clock()))
        return heapq.heappop(self.queue)[1] if self.queue and self.queue[0][0] <= self.clock() else None

    def wait(self, seconds: float) -> None:
        self.clock.sleep(min(seconds, 0.005))

    def close(self) -> None:
        pass


@contextmanager
def deaf_port() -> Iterator[int]:
    """Hold a UDP port of 127.0.0.1 at which nobody is heard: what comes to it is refused."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.bind(("127.0.0.1", 0))
        held.connect(held.getsockname())  # it hears itself alone, and nobody else gets the port
        yield held.getsockname()[1]


class Server:
    """A camera on a UDP socket of 127.0.0.1, in real time, until the end of a `with` block."""

    def __init__(self, **settings) -> None:
        self.camera = Camera(now=time.monotonic(), **settings)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.004)
        self.port = self.socket.getsockname()[1]
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def serve(self) -> None:
        queue: list[tuple[float, bytes, tuple[str, int]]] = []
        client = ("127.0.0.1", 9)
        while not self.over.is_set():
            try:
                datagram, client = self.socket.recvfrom(2048)
                replies = self.camera.handle(datagram, time.monotonic())
            except OSError:  # nothing came, or the client has gone
                replies = self.camera.advance(time.monotonic())
            for when, reply in replies:
                heapq.heappush(queue, (when, reply, client))
            while queue and queue[0][0] <= time.monotonic():
                _, reply, to = heapq.heappop(queue)
                self.socket.sendto(reply, to)

    def __enter__(self) -> Server:
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.over.set()
        self.thread.join(5.0)
        self.socket.close()


class Raw:
    """A camera without Sony's header: what comes is cut at FF, and replies have no numbers."""

    def __init__(self, camera: Camera) -> None:
        self.camera, self.number, self.rest = camera, 0, b""
        self.heard: list[bytes] = []
        camera.last_number = 0

    def handle(self, data: bytes, now: float) -> list[tuple[float, bytes]]:
        *packets, self.rest = (self.rest + data).split(b"\xff")
        replies = []
        for packet in packets:
            self.heard.append(packet + b"\xff")
            self.number += 1
            kind = 0x0110 if packet[1] == 0x09 else 0x0100
            replies += self.camera.handle(struct.pack(">HHI", kind, len(packet) + 1, self.number) + self.heard[-1], now)
        return [(when, reply[8:]) for when, reply in replies]

    def advance(self, now: float) -> list[tuple[float, bytes]]:
        return [(when, reply[8:]) for when, reply in self.camera.advance(now)]


class RawUdpServer(Server):
    """A camera without Sony's header, on a UDP socket."""

    def __init__(self, **settings) -> None:
        super().__init__(**settings)
        self.pan_tilt, self.camera = self.camera, Raw(self.camera)


class RawTcpServer:
    """A camera without Sony's header, which takes one TCP connection at a time; `cut` breaks it off.

    `chop`: replies go out in pieces of so many bytes.
    """

    def __init__(self, *, chop: int = 64, **settings) -> None:
        self.pan_tilt = Camera(now=time.monotonic(), **settings)
        self.camera = Raw(self.pan_tilt)
        self.chop, self.connections, self.over = chop, 0, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(0.01)
        self.port = self.listener.getsockname()[1]
        self.peer: socket.socket | None = None
        self.leave = b""  # said before the connection is cut
        self.cutting = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def cut(self, leave: bytes = b"") -> None:
        self.leave = leave
        self.cutting.set()

    def serve(self) -> None:
        queue: list[tuple[float, bytes]] = []
        while not self.over.is_set():
            if self.peer is None:
                try:
                    self.peer, _ = self.listener.accept()
                except TimeoutError:
                    continue
                self.peer.settimeout(0.004)
                self.peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections, self.camera.rest, queue = self.connections + 1, b"", []
            try:
                if self.cutting.is_set():
                    self.peer.sendall(self.leave)
                    raise ConnectionError
                try:
                    if not (data := self.peer.recv(2048)):
                        raise ConnectionError
                    replies = self.camera.handle(data, time.monotonic())
                except TimeoutError:
                    replies = self.camera.advance(time.monotonic())
                for reply in replies:
                    heapq.heappush(queue, reply)
                ready = b""
                while queue and queue[0][0] <= time.monotonic():
                    ready += heapq.heappop(queue)[1]
                for i in range(0, len(ready), self.chop):
                    self.peer.sendall(ready[i : i + self.chop])
            except OSError:
                self.peer.close()
                self.peer = None
                self.cutting.clear()

    def __enter__(self) -> RawTcpServer:
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.over.set()
        self.thread.join(5.0)
        for held in (self.peer, self.listener):
            if held is not None:
                held.close()
