"""The operator's client: looks on at a stream of somebody else, takes it over and hands it back."""

from __future__ import annotations

import ssl
import time
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from simile._common.typing import FloatArray
from simile.serving.client.protocol import (
    EVENTS,
    ServiceError,
    explain_loss,
    list_losses,
    prepare_connection,
    read_numbers,
)

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from simile.serving.messages import Overheard, Shown


@dataclass(frozen=True, eq=False)
class Seen:
    """A frame of a stream that was looked on at."""

    n: int | None
    t: float  # when it came, in unix seconds
    action: FloatArray | None  # (k,): what was sent
    by: str | None  # "policy", "gap" or "operator"
    context: FloatArray | None  # (m,), where it was asked for
    frame: int | None  # the number of the frame that the action is for; None without an action


class Operator:
    """A person, or a program, beside a stream: sees what it does, takes it over and hands it back.

    Parameters
    ----------
    url : str
        `ws://HOST:PORT/operate/NAME`; `wss://` with TLS.
    token : str, optional
        The server's token, where it has one.
    contexts : bool
        Whether to see the contexts, too.
    timeout : float
        Seconds to wait for a connection.
    ssl : SSLContext, optional
        For `wss://`; the system's certificates by default.

    Attributes
    ----------
    actions, contexts : tuple of str
        Names.
    rate : float or None
        Frames a second.
    lead : int
        Frames from the one that has come to the one that an action is for, an operator's too; below 0 the policy waits.
    skipped : int
        Frames that were not shown, because they came faster than they were looked at.
    events : deque of dict
        The latest notices of the server.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        contexts: bool = False,
        timeout: float = 5.0,
        ssl: ssl.SSLContext | None = None,
    ) -> None:
        from websockets.sync.client import connect

        options = prepare_connection(url, "operate", token=token, timeout=timeout, ssl=ssl)
        self.skipped = 0
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS)
        self._seen: list[Seen] = []  # and not returned yet
        try:
            self._wire: ClientConnection = connect(url, **options).__enter__()
        except list_losses() as error:
            raise ServiceError(f"no connection to {url}: {explain_loss(error)}") from None
        try:
            seated = self._hear(timeout).seated
        except TimeoutError:
            seated = None
        if seated is None:
            self.close()
            raise ServiceError(f"{url} is no place for an operator: it does not say what there is to see")
        self.actions, self.contexts, self.rate = tuple(seated.actions), tuple(seated.contexts), seated.rate
        self.lead = seated.lead
        if contexts:
            self._say({"watch": {"contexts": True}})

    def look(self, seconds: float = 0.0) -> list[Seen]:
        """Return the frames that came since the last look, the newest last; waits for one for so many seconds.

        Raises
        ------
        ServiceError
            Where the connection has ended, or the server refuses what was asked: the message says why. Frames that came
            before that are for the next look.
        """
        end = time.monotonic() + seconds
        while True:
            try:
                said = self._hear(0.0 if self._seen else max(0.0, end - time.monotonic()))
            except TimeoutError:
                found, self._seen = self._seen, []
                return found
            if said.event is not None:
                self.events.append(said.event)
            if said.error is not None:
                raise ServiceError(said.error)
            self.skipped += said.skipped
            self._seen += map(_read, said.frames)

    def take(self, action: ArrayLike) -> None:
        """Act in all frames from now on, until another action; say it again within half a second, or it is let go.

        After that, and only then, the server refuses it until `hand_back` was said.
        """
        self._say({"take": read_numbers(action, "action")})

    def hand_back(self) -> None:
        """Let the policy act again; it goes on from there."""
        self._say({"hand_back": True})

    def close(self) -> None:
        """Leave, which hands back too."""
        self._wire.close()

    def __enter__(self) -> Operator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _say(self, message: dict[str, Any]) -> None:
        import msgspec

        try:
            self._wire.send(msgspec.json.encode(message).decode())
        except list_losses() as error:
            raise ServiceError(f"the server does not hear: {explain_loss(error)}") from None

    def _hear(self, seconds: float) -> Overheard:
        """Return the next message; TimeoutError where none comes in time."""
        import msgspec

        from simile.serving.messages import Overheard

        try:
            said = self._wire.recv(seconds)
        except TimeoutError:
            raise
        except list_losses() as error:
            raise ServiceError(f"the server does not answer: {explain_loss(error)}") from None
        try:
            return msgspec.json.decode(said, type=Overheard)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ServiceError(f"what the server says is no answer: {str(error)[:200]}") from None


def _read(shown: Shown) -> Seen:
    action, context = (None if v is None else np.array(v, dtype=np.float64) for v in (shown.a, shown.x))
    frame = None if action is None else shown.n if shown.meant is None else shown.meant
    return Seen(shown.n, shown.t, action, shown.by, context, frame)
