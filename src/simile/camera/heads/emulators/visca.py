"""An emulated camera that speaks VISCA: with Sony's header over UDP, or without over TCP and UDP."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

from simile._common import checks
from simile.camera.heads import visca
from simile.camera.heads.emulators.body import Body
from simile.camera.heads.framing import END
from simile.camera.heads.links import Closing
from simile.camera.heads.units import ViscaUnits, speed_of
from simile.errors import ArgumentError, DataError

SIGNS = {1: -1, 2: 1, 3: 0}  # left or up, right or down, neither
SYNTAX_ERROR = bytes.fromhex("90 60 02 FF")
CLEAR, HOME = bytes.fromhex("81 01 00 01 FF"), bytes.fromhex("81 01 06 04 FF")
ZOOM_FASTEST = 10.0  # factors per second, to a position
LOOK = 0.02  # seconds between two looks at whether a move has arrived
Send = Callable[[bytes], None]


class ViscaEmulator(Closing):
    """A camera at a port of this computer, until it is closed.

    Parameters
    ----------
    body : Body
        What moves.
    units : ViscaUnits
        How it counts.
    protocol : {"visca", "visca+tcp", "visca+udp"}
        With Sony's header over UDP, or without it.
    host, port
        Where it listens; port 0 takes a free one, see `port`.
    version : (vendor, model)
        What it says that it is.
    latency : float
        Seconds that a message takes to get there.
    loss : float
        Chance that a datagram, or the reply to it, is lost.
    seed : int
        Of the losses.
    """

    def __init__(
        self,
        body: Body,
        *,
        units: ViscaUnits = ViscaUnits(),  # noqa: B008 - frozen
        protocol: str = "visca",
        host: str = "127.0.0.1",
        port: int = 0,
        version: tuple[int, int] = (0, 0),
        latency: float = 0.0,
        loss: float = 0.0,
        seed: int = 0,
    ) -> None:
        if protocol not in ("visca", "visca+tcp", "visca+udp"):
            raise ArgumentError(f"protocol must be 'visca', 'visca+tcp' or 'visca+udp'; got {protocol!r}")
        self.body, self.units, self.protocol, self.version = body, units, protocol, version
        self.latency = checks.number(latency, "latency", at_least=0.0)
        self.loss = checks.number(loss, "loss", at_least=0.0, at_most=0.95) if protocol != "visca+tcp" else 0.0
        self._random = random.Random(seed)
        self._number = -1  # the latest that was seen
        self._socket = 0  # in which the latest command is done
        self._arriving: list[tuple[int, Send]] = []
        self._server: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="simile emulator", daemon=True)
        self._thread.start()
        try:
            self.port = asyncio.run_coroutine_threadsafe(self._open(host, port), self._loop).result()
        except (OSError, OverflowError) as error:
            self.close()
            raise ArgumentError(
                f"cannot listen at {host}:{port}: {error}: give another port (--port), 0 for one that is free"
            ) from None

    def close(self) -> None:
        """Stop listening."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5.0)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        """Free what was taken."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0)  # sockets are closed by callbacks

    async def _open(self, host: str, port: int) -> int:
        if self.protocol == "visca+tcp":
            self._server = await asyncio.start_server(self._serve, host, port)
            name = self._server.sockets[0].getsockname()
        else:
            made = await self._loop.create_datagram_endpoint(lambda: _Datagrams(self), local_addr=(host, port))
            self._server = made[0]
            name = self._server.get_extra_info("sockname")
        self._watch = self._loop.create_task(self._complete())
        return int(name[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak with one peer over TCP."""
        try:
            while True:
                self.hear(await reader.readuntil(END), writer.write)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, asyncio.CancelledError):
            pass  # the peer, or this emulator, has ended it
        finally:
            writer.close()

    async def _complete(self) -> None:
        """Say so when moves to a position have arrived."""
        while True:
            await asyncio.sleep(LOOK)
            if self._arriving and not self.body.moving:
                arrived, self._arriving = self._arriving, []
                for socket, send in arrived:
                    send(bytes([0x90, 0x50 | socket, 0xFF]))

    def hear(self, data: bytes, send: Send) -> None:
        """Deal with what has come, when it has come."""
        if self._random.random() >= self.loss:
            self._loop.call_later(self.latency, self._hear, data, self._lossy(send))

    def _lossy(self, send: Send) -> Send:
        return lambda data: send(data) if self._random.random() >= self.loss else None

    def _hear(self, data: bytes, send: Send) -> None:
        if self.protocol != "visca":
            for packet in data.split(END)[:-1]:
                self._obey(packet + END, send)
            return
        try:
            message = visca.Message.decode(data)
        except DataError:
            return
        kind, number = message.kind, message.number
        if kind == visca.CONTROL and message.payload == visca.RESET:
            self._number = 0
            send(visca.Message(visca.CONTROL_REPLY, number, visca.RESET).encode())
        elif number <= self._number:
            send(visca.Message(visca.CONTROL, number, visca.OUT_OF_STEP).encode())
        else:
            self._number = number
            self._obey(message.payload, lambda reply: send(visca.Message(visca.REPLY, number, reply).encode()))

    def _obey(self, packet: bytes, send: Send) -> None:
        """Do what a packet says, and reply."""
        if (answer := self._answer(packet)) is not None:
            send(b"\x90\x50" + answer + END)
            return
        try:
            arriving = self._move(packet)
        except (DataError, KeyError, IndexError):
            send(SYNTAX_ERROR)
            return
        self._socket = self._socket % 2 + 1
        send(bytes([0x90, 0x40 | self._socket, 0xFF]))
        if arriving:
            self._arriving.append((self._socket, send))
        else:
            send(bytes([0x90, 0x50 | self._socket, 0xFF]))

    def _answer(self, packet: bytes) -> bytes | None:
        """Return what an inquiry is answered; None for what is none."""
        pan, tilt, zoom = self.units.position(*self.body.pose)
        answers = {
            visca.PAN_TILT_INQUIRY: visca.to_nibbles(pan) + visca.to_nibbles(tilt),
            visca.ZOOM_INQUIRY: visca.to_nibbles(zoom),
            visca.VERSION_INQUIRY: b"".join(n.to_bytes(2, "big") for n in (*self.version, 0x0100)) + b"\x02",
        }
        return answers.get(packet)

    def _move(self, packet: bytes) -> bool:
        """Begin a move, and tell whether it has an end; raises an error for what is no command."""
        what, rest = packet[1:4], packet[4:-1]
        if what == b"\x01\x06\x01" and len(rest) == 4:
            pan, tilt = SIGNS[rest[2]] * rest[0], -SIGNS[rest[3]] * rest[1]
            self.body.drive(speed_of(pan, self.units.pan_speeds), self._tilt_speed(tilt))
        elif what == b"\x01\x06\x02" and len(rest) == 10:
            pan_speed, tilt_speed = speed_of(rest[0], self.units.pan_speeds), self._tilt_speed(rest[1])
            self.body.go(*self.units.degrees(*visca.pan_tilt_position(rest[2:])), pan_speed, tilt_speed)
        elif what == b"\x01\x04\x47" and len(rest) == 4:
            self.body.zoom_to(self.units.factor(visca.zoom_position(rest)), ZOOM_FASTEST)
        elif what == b"\x01\x04\x07" and len(rest) == 1:
            way = {0: 0, 2: 1, 3: -1}[rest[0] >> 4]
            self.body.zoom(self.units.speeds(0, 0, way * ((rest[0] & 7) + 1), self.body.pose.zoom)[2])
        elif packet == HOME:
            self.body.go(0.0, 0.0, *(speeds[-1] for speeds in (self.units.pan_speeds, self.units.tilt_speeds)))
        elif packet != CLEAR:
            raise DataError(f"no command: {packet.hex(' ')}")
        return what == b"\x01\x06\x02" or packet == HOME

    def _tilt_speed(self, step: int) -> float:
        """Return the speed of a step of tilt; where the table ends it becomes no faster."""
        most = len(self.units.tilt_speeds)
        return speed_of(min(max(step, -most), most), self.units.tilt_speeds)


class _Datagrams(asyncio.DatagramProtocol):
    """The UDP socket of an emulator."""

    def __init__(self, emulator: ViscaEmulator) -> None:
        self._emulator = emulator
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._emulator.hear(data, lambda reply: self._transport.sendto(reply, addr))
