"""VISCA over IP as bytes: commands, inquiries, replies and the header they travel in. Nothing here touches a network.

The header has 8 bytes: the type of the payload (2), its length (2) and a sequence number (4), the greatest byte first;
the payload is a VISCA packet, 81 ... FF to the camera and 90 ... FF from it, or a control message without either.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum

from simile.errors import ArgumentError, DataError

PORT = 52381  # of VISCA with a header
RAW_TCP_PORT, RAW_UDP_PORT = 5678, 1259  # without it, as PTZOptics and many others have it
LARGEST_NUMBER = 0xFFFFFFFF

COMMAND, INQUIRY, REPLY = b"\x01\x00", b"\x01\x10", b"\x01\x11"
CONTROL, CONTROL_REPLY = b"\x02\x00", b"\x02\x01"

RESET = b"\x01"  # as a control message: begin to count at 0 again; and the reply to it
OUT_OF_STEP = b"\x0f\x01"  # from the camera: abnormality in the sequence number

PAN_TILT_INQUIRY = bytes.fromhex("81 09 06 12 FF")
ZOOM_INQUIRY = bytes.fromhex("81 09 04 47 FF")
VERSION_INQUIRY = bytes.fromhex("81 09 00 02 FF")
PAN_TILT_STOP = bytes.fromhex("81 01 06 01 01 01 03 03 FF")
ZOOM_STOP = bytes.fromhex("81 01 04 07 00 FF")

ERRORS = {
    0x01: "message length error",
    0x02: "syntax error: the camera does not know this command or its values",
    0x03: "command buffer full",
    0x04: "command cancelled",
    0x05: "no socket to cancel",
    0x41: "not executable now: is the camera on, and its menu closed?",
}
BUFFER_FULL, CANCELLED = 0x03, 0x04

_HEADER = struct.Struct(">2sHI")
_SIGNS = {-1: 0x01, 1: 0x02, 0: 0x03}  # left or up, right or down, neither


@dataclass(frozen=True)
class Message:
    """One datagram: the type of the payload, the sequence number and the payload."""

    kind: bytes
    number: int
    payload: bytes

    def encode(self) -> bytes:
        """Return the bytes to send.

        Examples
        --------
        >>> Message(COMMAND, 7, ZOOM_STOP).encode().hex(" ")
        '01 00 00 06 00 00 00 07 81 01 04 07 00 ff'
        """
        return _HEADER.pack(self.kind, len(self.payload), self.number) + self.payload

    @classmethod
    def decode(cls, datagram: bytes) -> Message:
        """Read a datagram; the length in the header must be that of the payload."""
        if len(datagram) <= _HEADER.size:
            raise DataError(f"a VISCA datagram has more than {_HEADER.size} bytes; got {datagram.hex(' ')!r}")
        kind, length, number = _HEADER.unpack_from(datagram)
        payload = datagram[_HEADER.size :]
        if length != len(payload):
            raise DataError(f"the header says {length} bytes of payload, {len(payload)} came: {datagram.hex(' ')!r}")
        return cls(kind, number, payload)


class Answer(Enum):
    """What a reply says."""

    ACK = 0x40
    COMPLETION = 0x50
    ERROR = 0x60


@dataclass(frozen=True)
class Reply:
    """A reply of the camera: what it says, of which socket, and the data of an inquiry or the code of an error."""

    answer: Answer
    socket: int
    data: bytes = b""

    @classmethod
    def decode(cls, payload: bytes) -> Reply:
        r"""Read the payload of a reply.

        Examples
        --------
        >>> Reply.decode(bytes.fromhex("90 60 02 FF"))
        Reply(answer=<Answer.ERROR: 96>, socket=0, data=b'\x02')
        """
        known = len(payload) >= 3 and payload[0] == 0x90 and payload[-1] == 0xFF and payload[1] & 0xF0 in (64, 80, 96)
        if not known or (payload[1] & 0xF0 == Answer.ERROR.value and len(payload) != 4):
            raise DataError(f"not a VISCA reply (90 4y, 5y or 6y ... FF): {payload.hex(' ')!r}")
        return cls(Answer(payload[1] & 0xF0), payload[1] & 0x0F, payload[2:-1])

    @property
    def error(self) -> str:
        """The error in words."""
        return ERRORS.get(self.data[0], f"unknown error {self.data.hex()}h")


def pan_tilt_absolute(pan: int, tilt: int, pan_step: int, tilt_step: int) -> bytes:
    """Return the command to go to a position, at speed steps of 1 to 24.

    Examples
    --------
    >>> pan_tilt_absolute(-8704, 4608, 24, 20).hex(" ")
    '81 01 06 02 18 14 0d 0e 00 00 01 02 00 00 ff'
    """
    speeds = bytes([_step(pan_step, "pan_step", 1, 24), _step(tilt_step, "tilt_step", 1, 24)])
    return b"\x81\x01\x06\x02" + speeds + to_nibbles(pan) + to_nibbles(tilt) + b"\xff"


def pan_tilt_drive(pan_step: int, tilt_step: int) -> bytes:
    """Return the command to move on at signed speed steps, positive to the right and up; 0 stands still.

    Examples
    --------
    >>> pan_tilt_drive(-5, 3).hex(" ")  # left and up
    '81 01 06 01 05 03 01 01 ff'
    """
    pan, tilt = _step(pan_step, "pan_step", -24, 24), _step(tilt_step, "tilt_step", -24, 24)
    # A speed of 0 is a syntax error, also where the direction says to stand still.
    moves = bytes([max(abs(pan), 1), max(abs(tilt), 1), _SIGNS[_sign(pan)], _SIGNS[-_sign(tilt)]])
    return b"\x81\x01\x06\x01" + moves + b"\xff"


def zoom_direct(position: int) -> bytes:
    """Return the command to zoom to a position.

    Examples
    --------
    >>> zoom_direct(0x4000).hex(" ")
    '81 01 04 47 04 00 00 00 ff'
    """
    return b"\x81\x01\x04\x47" + to_nibbles(_step(position, "position", 0, 0xFFFF)) + b"\xff"


def zoom_drive(step: int) -> bytes:
    """Return the command to zoom at a signed step of 1 to 8, positive to the narrow view; 0 stands still.

    VISCA counts these speeds from 0 to 7.

    Examples
    --------
    >>> zoom_drive(8).hex(" "), zoom_drive(-1).hex(" "), zoom_drive(0).hex(" ")
    ('81 01 04 07 27 ff', '81 01 04 07 30 ff', '81 01 04 07 00 ff')
    """
    if _step(step, "step", -8, 8) == 0:
        return ZOOM_STOP
    return b"\x81\x01\x04\x07" + bytes([(0x20 if step > 0 else 0x30) + abs(step) - 1]) + b"\xff"


def pan_tilt_position(data: bytes) -> tuple[int, int]:
    """Read the answer to `PAN_TILT_INQUIRY`."""
    if len(data) != 8:
        raise DataError(
            f"a pan-tilt position has 8 bytes; got {data.hex(' ')!r} (9 bytes: a camera that counts pan in 20 bits, "
            "which is not supported)"
        )
    return from_nibbles(data[:4], signed=True), from_nibbles(data[4:], signed=True)


def zoom_position(data: bytes) -> int:
    """Read the answer to `ZOOM_INQUIRY`."""
    if len(data) != 4:
        raise DataError(f"a zoom position has 4 bytes; got {data.hex(' ')!r}")
    return from_nibbles(data)


def version(data: bytes) -> tuple[int, int]:
    """Read vendor and model in the answer to `VERSION_INQUIRY`."""
    if len(data) != 7:
        raise DataError(f"a version has 7 bytes; got {data.hex(' ')!r}")
    return int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")


def to_nibbles(value: int) -> bytes:
    """Return 16 bits as four bytes 0p 0q 0r 0s; a negative value as its two's complement."""
    bits = _step(value, "value", -0x8000, 0xFFFF) & 0xFFFF
    return bytes((bits >> shift) & 0xF for shift in (12, 8, 4, 0))


def from_nibbles(data: bytes, *, signed: bool = False) -> int:
    """Return the number in four bytes 0p 0q 0r 0s."""
    if any(byte > 0xF for byte in data):
        raise DataError(f"a number in VISCA has a half byte in each byte; got {data.hex(' ')!r}")
    value = 0
    for byte in data:
        value = value << 4 | byte
    return value - 0x10000 if signed and value >= 0x8000 else value


def _step(value: int, name: str, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ArgumentError(f"{name} must be a whole number from {low} to {high}; got {value!r}")
    return value


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)
