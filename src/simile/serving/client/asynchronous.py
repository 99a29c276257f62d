"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from simile._common.typing import FloatArray
from simile.serving.client.protocol import ClientProtocol, Opened

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

LEAST_WAIT = 1e-4  # seconds; with none, what has already come would not be looked at


class AsyncClient(ClientProtocol):
    """One stream of a server, for asyncio; parameters and attributes are those of `Client`."""

    _wire: ClientConnection | None = None

    async def open(
        self,
        *,
        start: ArrayLike | None = None,
        deadline: float = 0.0,
        resume: bool = False,
        band: float | None = None,
    ) -> Opened:
        """Begin the stream, as `Client.open`."""
        return await self._begin(start, deadline, resume, band)

    async def step(self, x: ArrayLike | Mapping[str, float | None] | None) -> FloatArray | None:
        """Send one context and get the action, as `Client.step`."""
        return await self._ask(x)

    async def override(self, action: ArrayLike, x: ArrayLike | Mapping[str, float | None] | None = None) -> FloatArray:
        """Let an operator act in this frame, as `Client.override`."""
        return await self._lead(action, x)

    async def flush(self) -> FloatArray:
        """End the stream, and return the actions that are still due, as `Client.flush`."""
        return await self._flush()

    async def close(self) -> None:
        """End the stream and the connection."""
        if self._wire is not None and self._connected:
            await self._end()
        await self._hang_up()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def _dial(self) -> None:
        from websockets.asyncio.client import connect

        await self._hang_up()
        self._wire = await connect(self._url, **self._options)

    async def _write(self, message: str | bytes) -> None:
        assert self._wire is not None
        await self._wire.send(message)

    async def _read(self, seconds: float) -> str | bytes:
        assert self._wire is not None
        return await asyncio.wait_for(self._wire.recv(), max(seconds, LEAST_WAIT))

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _hang_up(self) -> None:
        if self._wire is not None:
            await self._wire.close()
        self._wire = None
