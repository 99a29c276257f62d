"""News for the open pages. Whoever reads too slowly is dropped, not waited for: a page asks anew when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

MOST = 256  # messages that a page may be behind
LONGEST = 1024  # characters of what a page may say; it has nothing to say
TOO_BIG, TRY_LATER = 1009, 1013


class Events:
    """The open pages, each with the messages that it has not been sent yet."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[dict[str, Any] | None]] = set()

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message to every page; returns at once."""
        for queue in list(self._queues):
            try:
                queue.put_nowait(message)
            except asyncio.QueueFull:
                self._drop(queue)

    async def serve(self, socket: WebSocket, state: Callable[[], dict[str, Any]]) -> None:
        """Tell one page everything, first the state and then what changes, until it leaves."""
        await socket.accept()
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(MOST)
        self._queues.add(queue)  # before the state is taken: nothing falls between the two
        queue.put_nowait({"type": "state", **state()})
        tasks = [asyncio.create_task(_send(socket, queue)), asyncio.create_task(_listen(socket))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._queues.discard(queue)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _drop(self, queue: asyncio.Queue[dict[str, Any] | None]) -> None:
        self._queues.discard(queue)
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)


async def _send(socket: WebSocket, queue: asyncio.Queue[dict[str, Any] | None]) -> None:
    while (message := await queue.get()) is not None:
        await socket.send_json(message)
    await socket.close(TRY_LATER)


async def _listen(socket: WebSocket) -> None:
    try:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            if len(message.get("text") or message.get("bytes") or "") > LONGEST:
                await socket.close(TOO_BIG)
                return
    except WebSocketDisconnect:
        return
