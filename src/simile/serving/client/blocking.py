"""The client for programs that wait for each action."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import ArrayLike

from simile._common.typing import FloatArray
from simile.serving.client.protocol import ClientProtocol, Opened

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

T = TypeVar("T")


class Client(ClientProtocol):
    """One stream of a server, for programs that wait for each action.

    Parameters
    ----------
    url : str
        `ws://HOST:PORT/streams/NAME`; `wss://` with TLS.
    token : str, optional
        The server's token, where it has one.
    msgpack : bool
        Whether to speak msgpack; else JSON.
    timeout : float
        Seconds to wait for a connection, and for each answer.
    patience : float
        Seconds to go on trying to reconnect in one frame, once there was a connection.
    ssl : SSLContext, optional
        For `wss://`; the system's certificates by default.

    Attributes
    ----------
    lost : int
        Frames that the server dropped or refused to take twice, and answers that it could not send.
    bridged : int
        Actions that the server made without a frame, because it was late.
    reconnections : int
        How often the connection broke and was made again.
    by : str or None
        Who made the last action: "policy", "gap" or "operator"; "waiting" where the last frame has none yet.
    frame : int or None
        The number of the frame that the last action is for; frames count from 0.
    opened : Opened or None
        What the server says of the stream, once it was opened or resumed.
    band : (2, k) array or None
        The lowest and the highest action that the expert may have taken in the last frame, where a band was asked for.
    events : deque of dict
        The latest notices of the server: drift, a reloaded policy, draining and so on.
    """

    _wire: ClientConnection | None = None

    def open(
        self,
        *,
        start: ArrayLike | None = None,
        deadline: float = 0.0,
        resume: bool = False,
        band: float | None = None,
    ) -> Opened:
        """Begin the stream; without this the first frame does, from a cold start.

        Parameters
        ----------
        start : (k,) array_like, optional
            Where the actuator is.
        deadline : float
            Seconds by which a frame may be late before the server acts without it; 0 for never.
        resume : bool
            Go on with the stream of this name if the server still knows it.
        band : float, optional
            Level of the band that every answer shall bring, such as 0.9: `band` then holds that of the last action,
            and `events` tell when the policy gets unsure.
        """
        return _run(self._begin(start, deadline, resume, band))

    def step(self, x: ArrayLike | Mapping[str, float | None] | None) -> FloatArray | None:
        """Send one context, in order or by name, NaN for what is missing, None for a dropped frame; get the action.

        Of a policy with a lead (`opened.lead`), the action is for another frame, `frame`. One that waits gives None
        until it has waited, and its last actions by `flush`.

        Raises
        ------
        ServiceError
            Where the frame could not be used; its `action`, where there is one, is the server's bridge.
        """
        return _run(self._ask(x))

    def override(self, action: ArrayLike, x: ArrayLike | Mapping[str, float | None] | None = None) -> FloatArray:
        """Let an operator act in this frame; the policy goes on from there."""
        return _run(self._lead(action, x))

    def flush(self) -> FloatArray:
        """End the stream, and return the actions that are still due, (n, k), as if the last context had lasted.

        There are some where the policy waits, one for each frame without an answer. The stream begins anew, at frame 0,
        with what it was opened with, but for `start`.
        """
        return _run(self._flush())

    def close(self) -> None:
        """End the stream and the connection; actions that `flush` would return are lost."""
        if self._wire is not None and self._connected:
            _run(self._end())
        self._hang_up()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def _dial(self) -> None:
        from websockets.sync.client import connect

        self._hang_up()
        self._wire = connect(self._url, **self._options).__enter__()

    async def _write(self, message: str | bytes) -> None:
        assert self._wire is not None
        self._wire.send(message)

    async def _read(self, seconds: float) -> str | bytes:
        assert self._wire is not None
        return self._wire.recv(seconds)

    async def _pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def _hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._wire = None


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never gives way."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("the client that waits gave way")
