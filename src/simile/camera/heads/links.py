"""The way to a device: messages that may get lost, over UDP or over a TCP connection that may break."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from typing import NoReturn, Protocol, Self

from simile._common import checks
from simile.errors import ArgumentError

LARGEST_CHUNK = 2048
IMPATIENCE = 2.0  # seconds after which a connection that is not made is tried again
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # before the next attempt to connect


class Closing:
    """Something that a `with` block closes at its end."""

    def close(self) -> None:
        """Free what was taken."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Link(Protocol):
    """Where messages go to and come from; neither `send` nor `receive` waits."""

    def send(self, datagram: bytes) -> object:
        """Send a message, or lose it."""

    def receive(self) -> bytes | None:
        """Return a message that has come, or None; an OSError tells of a connection that was lost, once each time."""

    def wait(self, seconds: float) -> None:
        """Wait until a message comes, at most so long."""

    def close(self) -> None:
        """Free what was taken."""


class UdpLink:
    """A UDP socket to one address; datagrams from anywhere else are not seen.

    Parameters
    ----------
    host, port
        Where datagrams go to and come from.
    local_port : int, optional
        The port of this computer to which the other side answers; the system chooses one by default.
    """

    def __init__(self, host: str, port: int, *, local_port: int | None = None) -> None:
        if local_port is not None:
            checks.whole_number(local_port, "local_port", at_least=1, at_most=0xFFFF)
        family, address = resolve(host, port, socket.SOCK_DGRAM)
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            if local_port is not None:
                self._bind(local_port)
            self._socket.connect(address)
        except OSError as error:
            self._socket.close()
            raise ArgumentError(f"host, port: cannot send to {host!r}, {port!r}: {error}") from None

    def _bind(self, port: int) -> None:
        """Take a port of this computer; several cameras may answer to the same one."""
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(("", port))
        except OSError as error:
            self._socket.close()
            raise ArgumentError(
                f"local port {port} cannot be used: {error.strerror}: close the program that holds it, or leave it out"
            ) from None

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
            return self._socket.recv(LARGEST_CHUNK)
        except OSError:  # nothing there, or the message that nobody listens
            return None

    def wait(self, seconds: float) -> None:
        """Wait until a datagram comes, at most so long."""
        select.select([self._socket], [], [], seconds)

    def close(self) -> None:
        """Free the socket."""
        self._socket.close()


class TcpLink:
    """A TCP connection to one address; a lost one is made again, after pauses that grow, and nobody waits for it.

    Parameters
    ----------
    host, port
        Where to connect.
    end : byte
        That ends each message: what comes is cut there, however it was cut on the way.
    clock : callable
        Seconds; for tests.
    """

    def __init__(self, host: str, port: int, *, end: bytes, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._end, self._clock = f"{host}:{port}", end, clock
        self._family, self._address = resolve(host, port, socket.SOCK_STREAM)
        self._socket: socket.socket | None = None
        self._connected = False
        self._since, self._pause = clock(), 0.0  # of the latest attempt, or of the pause before the next
        self._inbox, self._outbox = b"", b""
        self._connect()

    def send(self, datagram: bytes) -> bool:
        """Send a message and tell whether it went; without a connection it is lost."""
        if not self._connected or len(self._outbox) + len(datagram) > LARGEST_CHUNK:
            return False
        self._outbox += datagram
        self._flush()
        return True

    def receive(self) -> bytes | None:
        """Return a message that has come, or None.

        Raises
        ------
        ConnectionError
            When the connection was lost or cannot be made: once for each attempt.
        """
        self._advance()
        if self._connected:
            self._flush()
            self._read()
        message, found, rest = self._inbox.partition(self._end)
        if found:
            self._inbox = rest
            return message + found
        if len(message) > LARGEST_CHUNK:
            self._lose(f"{len(message)} bytes came without an end of a message ({self._end.hex()}h)")
        return None

    def wait(self, seconds: float) -> None:
        """Wait until something comes or the connection is made, at most so long."""
        if self._socket is None:
            time.sleep(min(seconds, max(self._since + self._pause - self._clock(), 0.0)))
        else:
            writes = [self._socket] if self._outbox or not self._connected else []
            select.select([self._socket], writes, [], seconds)

    def close(self) -> None:
        """Close the connection; what was sent goes out first."""
        self._drop()

    def _connect(self) -> None:
        self._socket = socket.socket(self._family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._since = self._clock()
        self._socket.connect_ex(self._address)  # how it went is seen later

    def _advance(self) -> None:
        """See how the connection that is being made fares, or begin with the next one."""
        if self._socket is None:
            if self._clock() - self._since >= self._pause:
                self._connect()
        elif not self._connected and select.select([], [self._socket], [], 0.0)[1]:
            if error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._lose(os.strerror(error))
            self._connected = True
        elif not self._connected and self._clock() - self._since >= IMPATIENCE:
            self._lose(f"no answer within {IMPATIENCE:g} s")

    def _read(self) -> None:
        """Take in what has come."""
        try:
            chunk = b"" if self._socket is None else self._socket.recv(LARGEST_CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error.strerror or str(error))
        if not chunk:
            self._lose("the other side closed the connection")
        self._inbox, self._pause = self._inbox + chunk, 0.0  # it speaks: the next attempt may come soon

    def _flush(self) -> None:
        try:
            if self._outbox and self._socket is not None:
                self._outbox = self._outbox[self._socket.send(self._outbox) :]
        except OSError:  # full, or broken: that is seen when reading
            pass

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._connected, self._inbox, self._outbox = None, False, b"", b""

    def _lose(self, reason: str) -> NoReturn:
        self._drop()
        self._since, self._pause = self._clock(), min(max(2.0 * self._pause, SHORTEST_PAUSE), LONGEST_PAUSE)
        raise ConnectionError(f"{self._name}: {reason}; trying again in {self._pause:g} s")


def resolve(host: str, port: int, kind: socket.SocketKind) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return the family and the address of a host and a port; that of IPv4 where it has both, as cameras do."""
    try:
        if not 0 < port < 1 << 16:
            raise OverflowError("a port is a number from 1 to 65535")
        found = socket.getaddrinfo(host, port, type=kind)
    except (OSError, OverflowError, UnicodeError) as error:
        raise ArgumentError(f"host, port: cannot send to {host!r}, {port!r}: {error}") from None
    family, *_, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, address[:2]  # type: ignore[return-value]
