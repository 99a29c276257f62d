"""Operators: each sits down at a stream of somebody else, takes it over for seconds, and hands it back in some way.

They come and go during all trials, so that servers are killed and policies replaced while a stream is in somebody's
hand. Streams with deadlines are left alone, and so are slow readers: of a frame that is bridged in an operator's hand
nobody but the server knows whether its contexts came in time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from picows import WSError, WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

if TYPE_CHECKING:
    from load.callers import Caller
    from load.worlds import World

SAY_EVERY = 0.1  # seconds; who says nothing for half a second has let go
SAID = (5, 30)  # how often an action is said in a take-over
ENDS = ("handed back", "connection dropped", "fell silent")
LET_GO = 10.0  # seconds in which a stream must be in nobody's hand again
NO_STREAM = "there is no stream of this name now"  # between its end and its next beginning
NOT_HEARD = "you were not heard for"  # where either side was held up


class Operator:
    """Takes over one stream after the other.

    Parameters
    ----------
    world : World
        For the books.
    url : str
        `ws://HOST:PORT/operate`.
    callers : sequence of Caller
        Whose streams may be taken over, by no other operator.
    seed : int
        Of what is done.
    """

    def __init__(self, world: World, url: str, callers: Sequence[Caller], seed: int) -> None:
        self.world, self.url, self.callers = world, url, callers
        self.rng = random.Random(seed)

    async def run(self) -> None:
        """Take over, now and then, until all is calm."""
        while not self.world.calm:
            caller = self.rng.choice(self.callers)
            if caller.ready:
                caller.hand.watched = True
                await self._take_over(caller)
                caller.hand.watched = False
            await asyncio.sleep(self.rng.uniform(0.2, 1.0))

    async def _take_over(self, caller: Caller) -> None:
        try:
            _, seat = await ws_connect(lambda: Seat(self.world), f"{self.url}/{caller.name}")
        except (OSError, WSError, TimeoutError):
            return  # the server is down
        if seat is None:  # it was killed in that moment
            return
        ledger, before = self.world.ledger, caller.hand.acted
        ledger.injected["take-overs by an operator"] += 1
        for _ in range(self.rng.randint(*SAID)):
            if caller.last is not None and not self.world.calm:
                nudge = self.rng.uniform(-0.5, 0.5) * self.world.step
                seat.take(caller.hand.say([value + nudge for value in caller.last[1]]))
            await asyncio.sleep(SAY_EVERY)
        if seat.transport is None:
            ledger.injected["take-overs that ended with the server"] += 1
            return
        end = self.rng.choice(ENDS)
        ledger.injected[f"take-overs: {end}"] += 1
        if end == "handed back":
            seat.send({"hand_back": True})
        elif end == "connection dropped":
            seat.transport.underlying_transport.abort()
        for _ in range(int(LET_GO / SAY_EVERY)):
            await asyncio.sleep(SAY_EVERY)
            if not caller.hand.on:
                ledger.held["streams that were in an operator's hand, and are the policy's again"] += (
                    caller.hand.acted > before
                )
                break
        else:
            ledger.mistake(f"{caller.name} was not given back within {LET_GO:g} s: {end}")
        seat.leave()


class Seat(WSListener):
    """The connection of an operator."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.transport: WSTransport | None = None

    def take(self, action: list[float]) -> None:
        """Act from now on."""
        self.send({"take": action})

    def send(self, message: dict[str, object]) -> None:
        """Say something, if anybody hears."""
        if self.transport is not None:
            self.transport.send(WSMsgType.TEXT, msgspec.json.encode(message))

    def leave(self) -> None:
        """Get up."""
        if self.transport is not None:
            self.transport.disconnect()

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Keep the way to send."""
        self.transport = transport

    def on_ws_disconnected(self, transport: WSTransport) -> None:  # noqa: ARG002
        """Note the end."""
        self.transport = None

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Count what is shown, and note what is refused."""
        if frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()
        elif frame.msg_type == WSMsgType.TEXT:
            said = msgspec.json.decode(frame.get_payload_as_bytes())
            self.world.ledger.held["frames shown to operators"] += len(said.get("frames", ()))
            if NOT_HEARD in said.get("error", ""):
                self.world.ledger.held["takes of operators who had let go, refused until they handed back"] += 1
                self.send({"hand_back": True})
            elif NO_STREAM not in said.get("error", NO_STREAM):
                self.world.ledger.mistake(f"an operator was refused: {said['error']}")
