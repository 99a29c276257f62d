"""The attacker's own wires: TCP, HTTP/1.1 and WebSockets by hand, so that nothing can be too polite to be sent."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"  # who is served, and the stranger: two addresses of this machine
TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def connect(port: int, *, source: str = HERE, timeout: float = 5.0) -> socket.socket:
    """Open a connection to a port of this machine, from one of its addresses."""
    opened = socket.create_connection((HERE, port), timeout=timeout, source_address=(source, 0))
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


@dataclass(frozen=True)
class Reply:
    """What a server answered: 0 and nothing where it hung up."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the first header of this name, in small letters."""
        return next((value for key, value in self.headers if key == name), None)


def ask(
    port: int,
    path: str = "/",
    *,
    method: str = "GET",
    headers: tuple[str, ...] | None = None,
    body: bytes = b"",
    source: str = HERE,
    timeout: float = 5.0,
) -> Reply:
    """Ask by HTTP; `headers` are lines, and `Host` is among them only where nothing else is said."""
    lines = (f"Host: {HERE}:{port}",) if headers is None else headers
    if body:
        lines = (*lines, f"Content-Length: {len(body)}")
    head = "\r\n".join((f"{method} {path} HTTP/1.1", *lines, "Connection: close", "", "")).encode("latin-1")
    return send_raw(port, head + body, source=source, timeout=timeout)


def send_raw(port: int, data: bytes, *, source: str = HERE, timeout: float = 5.0) -> Reply:
    """Send bytes and read what is answered until the end."""
    found, end = b"", time.monotonic() + timeout
    with connect(port, source=source, timeout=timeout) as opened:
        with contextlib.suppress(OSError):  # who is refused early may be cut off in the middle of a word
            opened.sendall(data)
        with contextlib.suppress(OSError):
            while time.monotonic() < end and (part := opened.recv(1 << 16)):
                found += part
    head, _, body = found.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split()
    pairs = (line.partition(":") for line in lines)
    return Reply(
        int(words[1]) if len(words) > 1 and words[1].isdigit() else 0,
        tuple((name.strip().lower(), value.strip()) for name, _, value in pairs),
        body,
    )


def break_off(port: int, data: bytes, *, source: str = HERE) -> None:
    """Send bytes and hang up at once, without a goodbye."""
    with contextlib.suppress(OSError), connect(port, source=source) as opened:
        opened.sendall(data)
        time.sleep(0.005)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def frame(payload: bytes, kind: int = TEXT, *, fin: bool = True) -> bytes:
    """Return a frame of a client by RFC 6455, masked by zeros, which leave the payload as it is."""
    first, size = (0x80 if fin else 0) | kind, len(payload)
    if size < 126:
        head = struct.pack(">BB", first, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", first, 0x80 | 127, size)
    return head + b"\0\0\0\0" + payload


class Refused(Exception):  # noqa: N818 - often it is what is wanted
    """The handshake was answered by something else."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"status {reply.status}: {reply.body[:200]!r}")
        self.reply = reply


class WebSocket:
    """A WebSocket of a client that may say what it likes.

    Parameters
    ----------
    port : int
        Of streams.
    path : str
        Such as `/streams/NAME`.
    headers : tuple of str
        More lines.
    source : str
        Where it comes from.
    """

    def __init__(
        self, port: int, path: str, *, headers: tuple[str, ...] = (), source: str = HERE, timeout: float = 5.0
    ) -> None:
        hello = (
            f"GET {path} HTTP/1.1",
            *(() if any(line.lower().startswith("host:") for line in headers) else (f"Host: {HERE}:{port}",)),
            *("Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {KEY}", "Sec-WebSocket-Version: 13"),
            *(*headers, "", ""),
        )
        self.socket = connect(port, source=source, timeout=timeout)
        self._rest = b""
        try:
            self.socket.sendall("\r\n".join(hello).encode("latin-1"))
            while b"\r\n\r\n" not in self._rest:
                self._rest += self._receive()
        except OSError:
            self.socket.close()
            raise
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        status = int(([*head.split(), b"", b"0"])[1])
        if status != 101:
            with contextlib.suppress(OSError):
                while True:
                    self._rest += self._receive()
            self.socket.close()
            raise Refused(Reply(status, (), self._rest))

    def __enter__(self) -> WebSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, message: Any, kind: int = TEXT) -> None:
        """Send a message: bytes as they are, anything else as JSON."""
        self.socket.sendall(frame(message if isinstance(message, bytes) else json.dumps(message).encode(), kind))

    def receive(self) -> tuple[int, bytes]:
        """Return the kind and the payload of the next frame; raises OSError when there is none."""
        while True:
            if len(self._rest) >= 2:
                size, start = self._rest[1] & 0x7F, 2
                if size == 126:
                    size, start = int.from_bytes(self._rest[2:4], "big"), 4
                elif size == 127:
                    size, start = int.from_bytes(self._rest[2:10], "big"), 10
                if len(self._rest) >= start + size:
                    kind, payload = self._rest[0] & 0x0F, self._rest[start : start + size]
                    self._rest = self._rest[start + size :]
                    return kind, payload
            self._rest += self._receive()

    def hear(self) -> dict[str, Any]:
        """Return the next answer; events are left out, and a close is an OSError with its reason."""
        while True:
            kind, payload = self.receive()
            if kind == CLOSE:
                raise ConnectionAbortedError(
                    f"closed: {int.from_bytes(payload[:2], 'big')} {payload[2:].decode(errors='replace')}"
                )
            if kind == PING:
                self.socket.sendall(frame(payload, PONG))
            if kind == TEXT:
                said: dict[str, Any] = json.loads(payload)
                if "event" not in said:
                    return said

    def ask(self, message: Any) -> dict[str, Any]:
        """Send a message and return its answer."""
        self.send(message)
        return self.hear()

    def _receive(self) -> bytes:
        part = self.socket.recv(1 << 16)
        if not part:
            raise ConnectionResetError("the server hung up")
        return part


def raise_file_limit(wanted: int) -> int:
    """Let this process have so many files, or as many as it may; returns how many."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(soft, most) - len(os.listdir("/proc/self/fd"))
