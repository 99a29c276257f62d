"""The way to a device: datagrams that may get lost."""

from __future__ import annotations

import select
import socket
from typing import Protocol, Self

from simile.errors import ArgumentError


class Closing:
    """Something that a `with` block closes at its end."""

    def close(self) -> None:
        """Free what was taken."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Link(Protocol):
    """Where datagrams go to and come from; neither `send` nor `receive` waits."""

    def send(self, datagram: bytes) -> object:
        """Send a datagram, or lose it."""

    def receive(self) -> bytes | None:
        """Return a datagram that has come, or None."""

    def wait(self, seconds: float) -> None:
        """Wait until a datagram comes, at most so long."""

    def close(self) -> None:
        """Free what was taken."""


class UdpLink:
    """A UDP socket to one address; datagrams from anywhere else are not seen."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.connect((host, port))
        except (OSError, OverflowError) as error:
            self._socket.close()
            raise ArgumentError(f"host, port: cannot send to {host!r}, {port!r}: {error}") from None

    def send(self, datagram: bytes) -> bool:
        """Send a datagram and tell whether it went; what cannot go at once is lost, as it might be on the way."""
        try:
            self._socket.send(datagram)
        except OSError:
            return False
        return True

    def receive(self) -> bytes | None:
        """Return a datagram that has come, or None."""
        try:
            return self._socket.recv(2048)
        except OSError:  # nothing there, or the message that nobody listens
            return None

    def wait(self, seconds: float) -> None:
        """Wait until a datagram comes, at most so long."""
        select.select([self._socket], [], [], seconds)

    def close(self) -> None:
        """Free the socket."""
        self._socket.close()
