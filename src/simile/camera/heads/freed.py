"""Free-D: where a camera is and looks, for graphics engines; the D1 packet of 29 bytes, over UDP.

After the manual of Vinten Radamec's free-d, Appendix A.3.2 and B.
"""

from __future__ import annotations

from dataclasses import dataclass

from simile._common import checks
from simile.camera.heads.links import Closing, UdpLink
from simile.errors import ArgumentError, DataError

SIZE = 29
TYPE = 0xD1
ANGLE = 32768.0  # per degree
LENGTH = 64.0  # per millimetre


@dataclass(frozen=True)
class FreeD:
    """The content of a D1 packet.

    Parameters
    ----------
    pan, tilt, roll : float
        Degrees from -256 to 256 (the standard says -180 to 180), in steps of 1/32768. Positive to the right, up, and
        clockwise seen from behind the camera: the signs of `Pose`.
    x, y, z : float
        Millimetres within 131072, in steps of 1/64; z is up.
    zoom, focus : int
        24 bits, without a unit: what the receiver was calibrated with.
    user : int
        16 bits.
    camera : int
        The number of the camera, 0 to 255.

    Examples
    --------
    >>> FreeD(pan=180.0, tilt=-90.0, camera=1).encode().hex()
    'd1015a0000d30000000000000000000000000000000000000000000041'
    >>> FreeD.decode(FreeD(pan=12.5, zoom=1000).encode())
    FreeD(pan=12.5, tilt=0.0, roll=0.0, x=0.0, y=0.0, z=0.0, zoom=1000, focus=0, user=0, camera=0)
    """

    pan: float = 0.0
    tilt: float = 0.0
    roll: float = 0.0
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    zoom: int = 0
    focus: int = 0
    user: int = 0
    camera: int = 0

    def encode(self) -> bytes:
        """Return the packet."""
        body = (
            bytes([TYPE])
            + _whole(self.camera, "camera", 1)
            + b"".join(_encode_fixed(getattr(self, name), name, ANGLE) for name in ("pan", "tilt", "roll"))
            + b"".join(_encode_fixed(getattr(self, name), name, LENGTH) for name in ("x", "y", "z"))
            + b"".join(_whole(getattr(self, name), name, 3) for name in ("zoom", "focus"))
            + _whole(self.user, "user", 2)
        )
        return body + bytes([checksum(body)])

    @classmethod
    def decode(cls, packet: bytes) -> FreeD:
        """Read a packet; its size, type and checksum must be right."""
        if len(packet) != SIZE:
            raise DataError(f"a Free-D packet has {SIZE} bytes; got {len(packet)}: one datagram holds one packet")
        if packet[0] != TYPE:
            raise DataError(f"type of the packet: only D1 (position) can be read; got {packet[0]:02X}")
        if packet[-1] != (wanted := checksum(packet[:-1])):
            raise DataError(f"checksum must be {wanted:02X}; got {packet[-1]:02X}: the packet was damaged, drop it")
        signed = [int.from_bytes(packet[i : i + 3], "big", signed=True) for i in range(2, 20, 3)]
        pan, tilt, roll = (value / ANGLE for value in signed[:3])
        x, y, z = (value / LENGTH for value in signed[3:])
        zoom, focus, user = (int.from_bytes(packet[i:j], "big") for i, j in ((20, 23), (23, 26), (26, 28)))
        return cls(pan, tilt, roll, x, y, z, zoom, focus, user, camera=packet[1])


def checksum(body: bytes) -> int:
    """Return 40h less the sum of all bytes before it, modulo 256."""
    return (0x40 - sum(body)) % 256


class FreeDSender(Closing):
    """Sends packets to one address; never waits, and knows nothing of packets that get lost.

    Parameters
    ----------
    host, port
        Of the receiver; the port is agreed upon with it, Free-D has none of its own.
    """

    def __init__(self, host: str, port: int) -> None:
        self.lost = 0  # packets that could not even be sent
        self._link = UdpLink(host, port)

    def send(self, packet: FreeD) -> None:
        """Send a packet, and drop it where that cannot be done at once: the next one follows soon."""
        if not self._link.send(packet.encode()):
            self.lost += 1

    def close(self) -> None:
        """Free the socket."""
        self._link.close()


def _encode_fixed(value: float, name: str, scale: float) -> bytes:
    """Return a number as 24 bits with a sign."""
    units = round(checks.number(value, name) * scale)
    if not -(1 << 23) <= units < 1 << 23:
        raise ArgumentError(
            f"{name} must be from {-(1 << 23) / scale:g} to just below {(1 << 23) / scale:g}; got {value}"
        )
    return units.to_bytes(3, "big", signed=True)


def _whole(value: int, name: str, size: int) -> bytes:
    if checks.whole_number(value, name) >= 1 << 8 * size:
        raise ArgumentError(f"{name} must be at most {(1 << 8 * size) - 1}; got {value!r}")
    return int(value).to_bytes(size, "big")
