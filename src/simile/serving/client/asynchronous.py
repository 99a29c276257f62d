"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import ArrayLike

from simile._common.typing import FloatArray
from simile.serving.client.protocol import Conversation, Opened, Plan, failed

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

T = TypeVar("T")
LEAST_WAIT = 1e-4  # seconds; with none, what has already come would not be looked at


class AsyncClient(Conversation):
    """One stream of a server, for asyncio; parameters and attributes are those of `Client`."""

    _wire: ClientConnection | None = None

    async def open(self, *, start: ArrayLike | None = None, deadline: float = 0.0, resume: bool = False) -> Opened:
        """Begin the stream, as `Client.open`."""
        return await self._run(self._opening(start, deadline, resume))

    async def step(self, x: ArrayLike | Mapping[str, float | None] | None) -> FloatArray:
        """Send one context and get the action, as `Client.step`."""
        return await self._run(self._frame(x))

    async def override(self, action: ArrayLike, x: ArrayLike | Mapping[str, float | None] | None = None) -> FloatArray:
        """Let an operator act in this frame, as `Client.override`."""
        return await self._run(self._frame(x, action))

    async def close(self) -> None:
        """End the stream and the connection."""
        if self._wire is not None and self._connected:
            await self._run(self._closing())
        await self._hang_up()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, plan: Plan[T]) -> T:
        from websockets.exceptions import WebSocketException

        done: Any = None
        try:
            order, given = next(plan)
            while True:
                try:
                    done = await self._do(order, given)
                except (WebSocketException, OSError) as error:  # TimeoutError is an OSError
                    order, given = failed(plan, order, error)
                else:
                    order, given = plan.send(done)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _do(self, order: str, given: Any) -> Any:
        if order == "connect":
            from websockets.asyncio.client import connect

            await self._hang_up()
            self._wire = await connect(self._url, **self._options)
        elif order == "pause":
            await asyncio.sleep(given)
        elif self._wire is not None:
            if order == "send":
                return await self._wire.send(given)
            return await asyncio.wait_for(self._wire.recv(), max(given, LEAST_WAIT))
        return None

    async def _hang_up(self) -> None:
        if self._wire is not None:
            await self._wire.close()
        self._wire = None
