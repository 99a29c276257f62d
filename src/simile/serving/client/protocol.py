"""What both clients have in common: plans that say what to send and when, and leave the doing to the client."""

from __future__ import annotations

import math
import ssl
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from simile._common.typing import FloatArray
from simile.errors import ArgumentError, SimileError

T = TypeVar("T")
Order = tuple[Literal["connect", "send", "receive", "pause"], Any]  # what a conversation wants done, and with what
Plan = Generator[Order, Any, T]

HOPELESS = frozenset({1003, 1007, 1008, 1009})  # close codes that the same message would meet again
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5  # seconds between attempts to reconnect
CATCH_UP = 0.001  # seconds to wait for more of what was said in the meantime
EVENTS = 100  # the latest ones are kept


class ServiceError(SimileError):
    """The server could not be reached, or could not use what it got; the message says why.

    Attributes
    ----------
    action : (k,) array or None
        Where a frame could not be used, the action with which the server bridged it: it is what the actuator should do.
    """

    def __init__(self, message: str, action: FloatArray | None = None) -> None:
        super().__init__(message)
        self.action = action


@dataclass(frozen=True)
class Opened:
    """What the server says of a stream."""

    frames: int  # that it has seen: above 0 where it was resumed
    rate: float | None  # frames a second
    contexts: tuple[str, ...]  # names, in order
    actions: tuple[str, ...]


class Broken(Exception):  # noqa: N818 - a plan catches it, users never see it
    """The connection is gone, or none came about."""

    def __init__(self, reason: str, *, hopeless: bool = False) -> None:
        super().__init__(reason)
        self.hopeless = hopeless


class Conversation:
    """A stream's side of the talk with a server; the parameters are those of `Client`."""

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

        if not str(url).startswith(("ws://", "wss://")):
            raise ArgumentError(f"url must be like 'ws://127.0.0.1:8770/streams/NAME'; got {url!r}")
        for name, given in (("timeout", timeout), ("patience", patience)):
            if not (math.isfinite(given) and given >= 0.0):
                raise ArgumentError(f"{name} must be a number of seconds, not below 0; got {given!r}")
        self.lost = 0
        self.bridged = 0
        self.reconnections = 0
        self.by: str | None = None
        self.opened: Opened | None = None
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS)
        self._url, self._timeout, self._patience = url, timeout, patience
        self._options: dict[str, Any] = {
            "additional_headers": {} if token is None else {"Authorization": f"Bearer {token}"},
            "compression": None,  # a frame is too short for it, and it takes time
            "open_timeout": timeout,
            "close_timeout": 1.0,
            "proxy": None,  # a controller is not steered through one
            **({} if ssl is None else {"ssl": ssl}),
        }
        kind = msgspec.msgpack if msgpack else msgspec.json
        self._as_text = not msgpack
        self._encode, self._decode = kind.Encoder().encode, kind.Decoder().decode
        self._n = -1
        self._deadline = 0.0
        self._action: FloatArray | None = None
        self._connected = self._met = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    # ------------------------------------------------------------------------------------------------------------ plans

    def _opening(self, start: ArrayLike | None, deadline: float, resume: bool) -> Plan[Opened]:
        begin: dict[str, Any] = {"deadline": float(deadline), "resume": bool(resume)}
        if start is not None:
            begin["start"] = _numbers(start, "start")
        self._deadline = begin["deadline"]
        try:
            if not self._connected:
                yield from self._connect()
            opened = yield from self._open(begin)
        except Broken as error:
            self._connected = False
            raise ServiceError(f"the stream could not be opened: {error}") from None
        return opened

    def _frame(self, x: Any, override: Any = None) -> Plan[FloatArray]:
        """Send a frame and wait for its action; where the connection breaks, connect again, resume, and repeat it."""
        message: dict[str, Any] = {"x": _context(x)}
        if override is not None:
            message["override"] = _numbers(override, "action")
        if self._deadline and self._connected:
            yield from self._catch_up()
        self._n += 1
        again = 0
        since = time.monotonic()
        while True:
            try:
                if not self._connected:
                    yield from self._connect(resume=True)
                yield "send", self._packed({"n": self._n, **message})
                answer = yield from self._until(lambda said: said.get("n") == self._n and "n" in said)
            except Broken as error:
                self._connected = False
                if error.hopeless or not self._met or time.monotonic() - since > self._patience:
                    raise ServiceError(f"no action: {error}") from None
                yield "pause", min(FIRST_PAUSE * 2.0**again, LONGEST_PAUSE)
                again += 1
                continue
            if again and "a" not in answer and "error" in answer:
                self._n += 1  # the server had taken the frame, and its answer went down with the connection
                again = 0
                continue
            return self._taken(answer)

    def _closing(self) -> Plan[None]:
        try:
            yield "send", self._packed({"close": True})
            yield from self._until(lambda said: "closed" in said)
        except (Broken, ServiceError):
            pass  # it is closed one way or the other: the server lets a stream without a client expire
        self._connected = False

    def _catch_up(self) -> Plan[None]:
        """Hear what the server did without us at deadlines: the next frame comes after those."""
        wait = 0.0
        try:
            while True:
                self._note(self._decode((yield "receive", wait)))
                wait = CATCH_UP
        except TimeoutError:
            pass
        except Broken:
            self._connected = False

    def _connect(self, *, resume: bool = False) -> Plan[None]:
        try:
            yield "connect", None
        except Broken as error:
            if error.hopeless or not self._met:
                raise ServiceError(f"no connection to {self._url}: {error}") from None
            raise
        again, self._connected, self._met = self._met, True, True
        self.reconnections += again
        if resume and again:
            # Where the server has forgotten the stream, it begins anew from where the actuator is.
            start = {} if self._action is None else {"start": self._action.tolist()}
            yield from self._open({"deadline": self._deadline, "resume": True, **start})

    def _open(self, begin: dict[str, Any]) -> Plan[Opened]:
        yield "send", self._packed({"open": begin})
        said = yield from self._until(lambda said: "opened" in said or ("error" in said and said.get("n") is None))
        if "opened" not in said:
            raise ServiceError(f"the stream could not be opened: {said['error']}")
        found = said["opened"]
        self.opened = Opened(found["frames"], found["rate"], tuple(found["contexts"]), tuple(found["actions"]))
        # A stream that somebody else began is numbered from where it is.
        last = found.get("n")
        self._n = max(self._n, found["frames"] - 1 if last is None else last)
        return self.opened

    def _until(self, wanted: Any) -> Plan[dict[str, Any]]:
        """Listen until the wanted message comes; keep count of all the others."""
        end = time.monotonic() + self._timeout
        while True:
            try:
                said = self._decode((yield "receive", max(end - time.monotonic(), 0.0)))
            except TimeoutError:
                raise ServiceError(
                    f"no answer within {self._timeout:g} s: go on with the next frame, or give timeout=... more"
                ) from None
            if wanted(said):
                self.lost += said.get("lost", 0)
                return said  # type: ignore[no-any-return]
            self._note(said)

    def _note(self, said: dict[str, Any]) -> None:
        """Keep what nobody waits for: an event, an action made at a deadline, an answer to a frame given up."""
        self.lost += said.get("lost", 0)
        if "event" in said:
            self.events.append(said["event"])
        elif said.get("a") is not None:
            self._action = np.array(said["a"], dtype=np.float64)
            if self._deadline and said.get("by") == "gap":
                self.bridged += 1
                self._n = max(self._n, said["n"])

    def _taken(self, answer: dict[str, Any]) -> FloatArray:
        action = np.array(answer["a"], dtype=np.float64) if answer.get("a") is not None else None
        if action is not None:
            self._action, self.by = action, answer.get("by")
        if "error" in answer or action is None:
            raise ServiceError(answer.get("error", "the server sent no action"), action)
        return action.copy()

    def _packed(self, message: dict[str, Any]) -> str | bytes:
        packed: bytes = self._encode(message)
        return packed.decode() if self._as_text else packed


def failed(plan: Plan[T], order: str, error: Exception) -> Order:
    """Tell a plan that what it wanted could not be done; returns what it wants next."""
    if isinstance(error, TimeoutError):
        return plan.throw(error if order == "receive" else Broken("no connection in time"))
    return plan.throw(broken(error))


def broken(error: Exception) -> Broken:
    """Say why a connection broke or never came about, and whether it is of use to try again."""
    from websockets.exceptions import ConnectionClosed, InvalidStatus

    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        said = (error.response.body or b"").decode("utf-8", "replace").strip()[:200]
        return Broken(f"the server refused with {status}{said and ': '}{said}", hopeless=400 <= status < 500)
    if isinstance(error, ConnectionClosed) and error.rcvd is not None:
        code, reason = error.rcvd.code, error.rcvd.reason
        return Broken(f"the server closed with {code}{reason and ': '}{reason}", hopeless=code in HOPELESS)
    return Broken(str(error) or type(error).__name__)


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


def _numbers(given: Any, name: str) -> Sequence[float | None]:
    """Return finite numbers as a list."""
    values = _values(given, name)
    if None in values:
        raise ArgumentError(f"{name} must be finite; got {given!r}")
    return values
