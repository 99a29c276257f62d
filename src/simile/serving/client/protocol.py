"""What both clients have in common: what is said to a server, and when.

It is written once, as coroutines, on four that each client has of its own: connect, send, receive and pause. Those of
the client that waits block, so that its coroutines never give way, and one step runs them to their end.
"""

from __future__ import annotations

import json
import math
import ssl
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import ArrayLike

from simile._common.text import escape
from simile._common.typing import FloatArray
from simile.errors import ArgumentError, SimileError

if TYPE_CHECKING:
    from simile.serving.messages import Heard

HOPELESS = frozenset({1003, 1007, 1008, 1009})  # close codes that the same message would meet again
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5  # seconds between attempts to reconnect
CATCH_UP = 0.001  # seconds to wait for more of what was said in the meantime
EVENTS = 100  # the latest ones are kept
WAITING = "waiting"  # who made no action: the policy waits for later frames
LONGEST = 1000  # characters of what is told of a server


class ServiceError(SimileError):
    """The server could not be reached, or could not use what it got; the message says why.

    Attributes
    ----------
    action : (k,) array or None
        Where a frame could not be used, the action with which the server bridged it: it is what the actuator should do.
    """

    def __init__(self, message: str, action: FloatArray | None = None) -> None:
        super().__init__(escape(message[:LONGEST]))  # the server's words, or those of what stands in its place
        self.action = action


@dataclass(frozen=True)
class Opened:
    """What the server says of a stream."""

    frames: int  # that it has seen: above 0 where it was resumed
    rate: float | None  # frames a second
    contexts: tuple[str, ...]  # names, in order
    actions: tuple[str, ...]
    lead: int = 0  # frames from the one that is sent to the one that its action is for; below 0 the policy waits


class Broken(Exception):  # noqa: N818 - it is caught here, users never see it
    """The connection is gone, or none came about."""

    def __init__(self, reason: str, *, hopeless: bool = False) -> None:
        super().__init__(reason)
        self.hopeless = hopeless


class ClientProtocol(ABC):
    """A client's side of the protocol of streams; the parameters are those of `Client`."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        msgpack: bool = True,
        timeout: float = 5.0,
        patience: float = 10.0,
        ssl: ssl.SSLContext | None = None,
    ) -> None:
        import msgspec

        from simile.serving.messages import Heard

        self._options = prepare_connection(url, "streams", token=token, timeout=timeout, ssl=ssl)
        _check_seconds(patience, "patience")
        self.lost = 0
        self.bridged = 0
        self.reconnections = 0
        self.by: str | None = None
        self.opened: Opened | None = None
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS)
        self._url, self._timeout, self._patience = url, timeout, patience
        kind = msgspec.msgpack if msgpack else msgspec.json
        self._as_text = not msgpack
        self._encode, self._decode = kind.Encoder().encode, kind.Decoder(Heard).decode
        self._n = -1
        self.frame: int | None = None
        self.band: FloatArray | None = None
        self._deadline = 0.0
        self._level: dict[str, float] = {}  # of the band that was asked for
        self._action: FloatArray | None = None
        self._connected = self._met = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    # -------------------------------------------------------------------------------------------- what each client has

    @abstractmethod
    async def _dial(self) -> None:
        """Hang up, and connect anew."""

    @abstractmethod
    async def _write(self, message: str | bytes) -> None:
        """Send a message."""

    @abstractmethod
    async def _read(self, seconds: float) -> str | bytes:
        """Return the next message; TimeoutError where none comes in time."""

    @abstractmethod
    async def _pause(self, seconds: float) -> None:
        """Wait."""

    # ----------------------------------------------------------------------------------------------------- what is said

    async def _begin(self, start: ArrayLike | None, deadline: float, resume: bool, band: float | None) -> Opened:
        self._level = {} if band is None else {"band": float(band)}
        begin: dict[str, Any] = {"deadline": float(deadline), "resume": bool(resume), **self._level}
        if start is not None:
            begin["start"] = read_numbers(start, "start")
        self._deadline = begin["deadline"]
        try:
            if not self._connected:
                await self._connect()
            return await self._open(begin)
        except Broken as error:
            self._connected = False
            raise ServiceError(f"the stream could not be opened: {error}") from None

    async def _ask(self, x: Any, override: Any = None) -> FloatArray | None:
        """Send a frame and wait for its answer; where the connection breaks, connect again, resume, and repeat it."""
        message: dict[str, Any] = {"x": _context(x)}
        if override is not None:
            message["override"] = read_numbers(override, "action")
        if self._deadline and self._connected:
            await self._catch_up()
        self._n += 1
        again = 0
        since = time.monotonic()
        while True:
            try:
                if not self._connected:
                    await self._connect(resume=True)
                await self._send({"n": self._n, **message})
                answer = await self._receive_until(lambda reply: reply.n == self._n)
            except Broken as error:
                self._connected = False
                if error.hopeless or not self._met or time.monotonic() - since > self._patience:
                    raise ServiceError(f"no action: {error}") from None
                await self._pause(min(FIRST_PAUSE * 2.0**again, LONGEST_PAUSE))
                again += 1
                continue
            if again and answer.a is None and answer.error is not None:
                self._n += 1  # the server had taken the frame, and its answer went down with the connection
                again = 0
                continue
            return self._take(answer)

    async def _lead(self, action: Any, x: Any) -> FloatArray:
        """Send a frame in which an operator acts, and wait for its answer."""
        sent = await self._ask(x, action)
        if sent is None:  # an operator never waits
            raise ServiceError("the server sent no action")
        return sent

    async def _flush(self) -> FloatArray:
        """End the stream, which sends the last answers, and open it anew."""
        due: list[list[float]] = []

        def is_end(reply: Heard) -> bool:
            if reply.a is not None:
                due.append(reply.a)
            return reply.closed is not None or _is_refusal(reply)

        if self._met:
            try:
                if not self._connected:
                    await self._connect(resume=True)
                await self._send({"close": True})
                await self._receive_until(is_end)
                self._n, self._action = -1, None
                await self._open({"deadline": self._deadline, "resume": False, **self._level})
            except Broken as error:
                self._connected = False
                raise ServiceError(f"the last actions did not come: {error}") from None
        width = len(due[0]) if due else 0 if self.opened is None else len(self.opened.actions)
        return np.array(due, dtype=np.float64).reshape(-1, width) if width else np.empty((0, 0))

    async def _end(self) -> None:
        try:
            await self._send({"close": True})
            await self._receive_until(lambda reply: reply.closed is not None or _is_refusal(reply))
        except (Broken, ServiceError):
            pass  # it is closed one way or the other: the server lets a stream without a client expire
        self._connected = False

    async def _catch_up(self) -> None:
        """Hear what the server did without us at deadlines: the next frame comes after those."""
        wait, end = 0.0, time.monotonic() + self._timeout
        try:
            while time.monotonic() < end:
                self._note(await self._receive(wait))
                wait = CATCH_UP
        except TimeoutError:
            pass
        except Broken:
            self._connected = False

    async def _connect(self, *, resume: bool = False) -> None:
        try:
            await self._dial()
        except list_losses() as error:
            broken = explain_loss(error)
            if broken.hopeless or not self._met:
                raise ServiceError(f"no connection to {self._url}: {broken}") from None
            raise broken from None
        again, self._connected, self._met = self._met, True, True
        self.reconnections += again
        if resume and again:
            # Where the server has forgotten the stream, it begins anew from where the actuator is.
            start = {} if self._action is None else {"start": self._action.tolist()}
            await self._open({"deadline": self._deadline, "resume": True, **self._level, **start})

    async def _open(self, begin: dict[str, Any]) -> Opened:
        await self._send({"open": begin})
        reply = await self._receive_until(lambda reply: reply.opened is not None or _is_refusal(reply))
        found = reply.opened
        if found is None:
            raise ServiceError(f"the stream could not be opened: {reply.error}")
        self.opened = Opened(found.frames, found.rate, tuple(found.contexts), tuple(found.actions), found.lead)
        # A stream that somebody else began is numbered from where it is.
        self._n = max(self._n, found.frames - 1 if found.n is None else found.n)
        return self.opened

    async def _send(self, message: dict[str, Any]) -> None:
        encoded: bytes = self._encode(message)
        try:
            await self._write(encoded.decode() if self._as_text else encoded)
        except list_losses() as error:
            raise explain_loss(error) from None

    async def _receive(self, seconds: float) -> Heard:
        """Return the next message; one that is none, or an action that no actuator could take, ends the connection."""
        from msgspec import MsgspecError

        try:
            said = await self._read(seconds)
        except TimeoutError:
            raise
        except list_losses() as error:
            raise explain_loss(error) from None
        try:
            heard: Heard = self._decode(said)
        except (MsgspecError, UnicodeError, RecursionError, TypeError) as error:
            raise Broken(f"what the server says is no answer: {str(error)[:200]}", hopeless=True) from None
        if heard.a is not None:
            if not all(map(math.isfinite, heard.a)):
                raise Broken("what the server says is no answer: an action that is not finite", hopeless=True)
            if self._action is not None and len(heard.a) != len(self._action):
                told = f"an action of {len(heard.a)} values after one of {len(self._action)}"
                raise Broken(f"what the server says is no answer: {told}", hopeless=True)
            if any(len(end) != len(heard.a) or not all(map(math.isfinite, end)) for end in heard.band or ()):
                raise Broken("what the server says is no answer: a band that does not fit its action", hopeless=True)
        return heard

    async def _receive_until(self, is_wanted: Callable[[Heard], bool]) -> Heard:
        """Listen until the wanted message comes; keep count of all the others."""
        end = time.monotonic() + self._timeout
        left = self._timeout
        with suppress(TimeoutError):
            while left >= 0.0:  # a server that talks without an end is late, too
                reply = await self._receive(left)
                if is_wanted(reply):
                    self.lost += reply.lost
                    return reply
                self._note(reply)
                left = end - time.monotonic()
        raise ServiceError(f"no answer within {self._timeout:g} s: go on with the next frame, or give timeout=... more")

    def _note(self, reply: Heard) -> None:
        """Keep what nobody waits for: an event, an action made at a deadline, an answer to a frame given up."""
        self.lost += reply.lost
        if reply.event is not None:
            self.events.append(reply.event)
        elif reply.a is not None or reply.by == WAITING:
            self._action = self._action if reply.a is None else np.array(reply.a, dtype=np.float64)
            if self._deadline and reply.by in ("gap", WAITING):
                self.bridged += reply.a is not None
                self._n = max(self._n, self._n if reply.n is None else reply.n)

    def _take(self, answer: Heard) -> FloatArray | None:
        if answer.by == WAITING and answer.error is None:
            self.by = answer.by
            return None
        action = None if answer.a is None else np.array(answer.a, dtype=np.float64)
        if action is not None:
            self._action, self.by = action, answer.by
            self.frame = answer.n if answer.meant is None else answer.meant
            self.band = None if answer.band is None else np.array(answer.band, dtype=np.float64)
        if answer.error is not None or action is None:
            raise ServiceError(answer.error or "the server sent no action", action)
        return action.copy()


def prepare_connection(
    url: str, place: str, *, token: str | None, timeout: float, ssl: ssl.SSLContext | None
) -> dict[str, Any]:
    """Return how to connect to an address, which is below `place`; ArgumentError where it is none."""
    if not _is_address(str(url)):
        raise ArgumentError(f"url must be like 'ws://127.0.0.1:8770/{place}/NAME'; got {url!r}")
    if token is not None and not (token.isascii() and token.isprintable()):
        raise ArgumentError("token must be printable ASCII, as a header of HTTP is")
    _check_seconds(timeout, "timeout")
    return {
        "additional_headers": {} if token is None else {"Authorization": f"Bearer {token}"},
        "compression": None,  # a frame is too short for it, and it takes time
        "open_timeout": timeout,
        "close_timeout": 1.0,
        "proxy": None,  # a controller is not steered through one
        **({} if ssl is None else {"ssl": ssl}),
    }


def _check_seconds(given: float, name: str) -> None:
    if not (math.isfinite(given) and given >= 0.0):
        raise ArgumentError(f"{name} must be a number of seconds, not below 0; got {given!r}")


def _is_refusal(reply: Heard) -> bool:
    """Tell whether the server refuses what is no frame."""
    return reply.error is not None and reply.n is None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("ws", "wss") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port beyond all, or half an address of IPv6
        return False


def list_losses() -> tuple[type[Exception], ...]:
    """Return what is raised where a connection breaks, or does not come about; TimeoutError is an OSError."""
    from websockets.exceptions import WebSocketException

    return WebSocketException, OSError, EOFError, ValueError


def explain_loss(error: Exception) -> Broken:
    """Say why a connection broke or never came about, and whether it is of use to try again."""
    from websockets.exceptions import ConnectionClosed, InvalidStatus

    if isinstance(error, TimeoutError):
        return Broken("no connection in time")
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        reason = _read_reason(error.response.body or b"")[:200]
        return Broken(f"the server refused with {status}{reason and ': '}{reason}", hopeless=400 <= status < 500)
    if isinstance(error, ConnectionClosed) and error.rcvd is not None:
        code, reason = error.rcvd.code, error.rcvd.reason
        return Broken(f"the server closed with {code}{reason and ': '}{reason}", hopeless=code in HOPELESS)
    return Broken(str(error) or type(error).__name__)


def _read_reason(body: bytes | bytearray) -> str:
    """Return the sentence of a refusal: what its JSON calls `error`, or all of it where it is something else's."""
    text = body.decode("utf-8", "replace").strip()
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        return str(json.loads(text)["error"])
    return text


def _context(x: Any) -> list[float | None] | dict[str, float | None] | None:
    if x is None:
        return None
    if isinstance(x, Mapping):
        return dict(zip(map(str, x), _values(list(x.values()), "x"), strict=True))
    return _values(x, "x")


def _values(given: Any, name: str) -> list[float | None]:
    """Return numbers as a list; None where they are missing."""
    try:
        values = np.array(given, dtype=np.float64, ndmin=1)  # None becomes NaN
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{name} must be numbers: {error}") from None
    if values.ndim != 1 or np.isinf(values).any():
        raise ArgumentError(f"{name} must be a list of finite numbers, NaN where one is missing; got {given!r}")
    found: list[float | None] = values.tolist()
    return [None if v != v else v for v in found] if np.isnan(values).any() else found


def read_numbers(given: Any, name: str) -> Sequence[float | None]:
    """Return finite numbers as a list."""
    values = _values(given, name)
    if None in values:
        raise ArgumentError(f"{name} must be finite; got {given!r}")
    return values
