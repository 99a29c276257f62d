"""Operators: people who look on at a stream of somebody else, and may take it over and hand it back.

Of several at one stream, one at a time has it in hand; the others look on. An operator who is not heard for half a
second has let go: the stream is handed back, and everybody is told. What such an operator said meanwhile may come late,
all at once, and must not grip the stream again: it is refused until they hand back, which says that they know.
"""

from __future__ import annotations

import time
from asyncio import TimerHandle
from collections import deque
from typing import TYPE_CHECKING, Any

from msgspec import MsgspecError
from picows import WSCloseCode

from simile.errors import SimileError
from simile.serving.messages import (
    Answer,
    Complaint,
    Seated,
    Showing,
    Shown,
    ToOperator,
    Watch,
    Welcome,
    explain,
    operator_from_json,
    operator_from_msgpack,
)
from simile.serving.sessions import QueuedFrame, Stream

if TYPE_CHECKING:
    from simile.serving.state import ServerState
    from simile.serving.websocket import Connection

SHOW_EVERY = 0.05  # seconds between two messages of frames, at least
MOST_SHOWN = 64  # frames in one message: of more, the newest
MOST_SEATS = 8  # operators at one stream
SILENCE = 0.5  # seconds without a word after which an operator has let go

UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError, ValueError)
NO_STREAM = "take: there is no stream of this name now: wait until its client sends a frame"
IN_HAND = "take: another operator has this stream in hand: wait until it is handed back"
LET_GO = f"take: you were not heard for {SILENCE:g} s and have let go: say hand_back, then take"
ONE_OF = 'the message must have one of "take", "hand_back" and "watch"'


class Seats:
    """Who sits where, and who has which stream in hand.

    Parameters
    ----------
    state : ServerState
        What both ports share.
    """

    def __init__(self, state: ServerState) -> None:
        self.state = state
        self.by_name: dict[str, list[Seat]] = {}
        self.acting: dict[str, Seat] = {}

    def is_full(self, name: str) -> bool:
        """Tell whether nobody else may sit down at a stream."""
        return len(self.by_name.get(name, ())) >= MOST_SEATS

    def add(self, seat: Seat) -> None:
        """Let somebody sit down; from now on the stream's frames are shown."""
        self.by_name.setdefault(seat.name, []).append(seat)
        self.state.service.watchers[seat.name] = self._show

    def remove(self, seat: Seat) -> None:
        """Let somebody get up."""
        seats = self.by_name.get(seat.name, [])
        if seat in seats:
            seats.remove(seat)
        if not seats:
            self.by_name.pop(seat.name, None)
            self.state.service.watchers.pop(seat.name, None)

    def tell(self, event: dict[str, Any], name: str) -> None:
        """Tell an event of a stream to those who sit there."""
        for seat in list(self.by_name.get(name, ())):
            seat.connection.tell(event)

    def _show(self, stream: Stream, frame: QueuedFrame, answer: Answer) -> None:
        t = round(time.time() - (self.state.clock() - frame.arrived), 4)
        for seat in self.by_name.get(stream.name, ()):
            x = frame.x if seat.watch.contexts else None
            by = None if answer.a is None else answer.by  # clients of old know three who act, and none who waits
            seat.note(Shown(answer.n, t, answer.a, by, x, answer.error, answer.band, meant=answer.meant))


class Lobby:
    """Where an operator learns which streams there are, and is sent away.

    Parameters
    ----------
    connection : Connection
        Who is there.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def sit_down(self) -> None:
        """Tell the streams."""
        self.connection.send(self.connection.state.describe_streams(), binary=False)
        self.connection.end(WSCloseCode.OK, "sit down at /operate/NAME")

    def take(self, data: bytes | memoryview) -> None:
        """Take no message."""

    def show(self) -> None:
        """Show nothing more."""

    def leave(self) -> None:
        """Leave nothing behind."""


class Seat:
    """One operator at one stream.

    Parameters
    ----------
    connection : Connection
        Who is there.
    name : str
        Of the stream, which need not be there yet.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection, self.name, self.state = connection, name, connection.state
        self.watch = Watch()
        self._operated: Stream | None = None  # what this operator has in hand
        self._heard = 0.0
        self._let_go = False  # by silence, and has not said hand_back since
        self._timer: TimerHandle | None = None  # looks whether the operator is still heard
        self._shown: deque[Shown] = deque(maxlen=MOST_SHOWN)
        self._skipped = 0
        self._showing: TimerHandle | None = None

    @property
    def _seats(self) -> Seats:
        return self.connection.registry.seats

    def sit_down(self) -> None:
        """Say what there is to see."""
        self._seats.add(self)
        facts = self.state.facts
        live, acting = self.name in self.state.service.streams, self.name in self._seats.acting
        columns, bounds = (facts.contexts, facts.actions), (facts.low, facts.high)
        self._send(Welcome(Seated(self.name, live, acting, facts.rate, *columns, *bounds, facts.lead)))

    def leave(self) -> None:
        """Hand back, for the connection has gone."""
        self._seats.remove(self)
        self._hand_back("the operator has left")
        if self._showing is not None:
            self._showing.cancel()

    def take(self, data: bytes | memoryview) -> None:
        """Take a message."""
        try:
            message = operator_from_msgpack(data) if self.connection.binary else operator_from_json(data)
        except UNREADABLE as error:
            self._refuse(explain(error))
            return
        if self._operated is not None and self.state.clock() - self._heard >= SILENCE:
            self._fall_silent()  # the service itself was held up, and reads this before its timer is due
        self._heard = self.state.clock()
        wishes = [wish for wish in (message.take, message.hand_back, message.watch) if wish is not None]
        if len(wishes) != 1:
            self._refuse(f"{ONE_OF}; got {len(wishes)} of them")
        elif message.take is not None:
            self._act(message.take)
        elif message.watch is not None:
            self.watch = message.watch
        else:
            self._let_go = False
            self._hand_back("the operator has handed back")

    def note(self, shown: Shown) -> None:
        """Show a frame soon, with others."""
        self._skipped += len(self._shown) == MOST_SHOWN
        self._shown.append(shown)
        if self._showing is None:
            self._showing = self.state.loop.call_later(SHOW_EVERY, self.show)

    def show(self) -> None:
        """Show what has come; who does not read gets the newest when they do."""
        self._showing = None
        if self._shown and self.connection.reads:
            frames, skipped = list(self._shown), self._skipped
            frames[-1].shadows = self._look()
            self._shown.clear()
            self._skipped = 0
            self._send(Showing(frames, skipped))

    def _look(self) -> dict[str, list[float]] | None:
        """Return what candidates would have done in the last frame; by now they have had their turn."""
        shadows, stream = self.state.service.shadows, self.state.service.streams.get(self.name)
        if shadows is None or stream is None:
            return None
        return {name: action for name, action in shadows.look(stream.slot).items() if action is not None} or None

    def _act(self, action: list[float]) -> None:
        if self._let_go:
            self._refuse(LET_GO)
            return
        service, acting = self.state.service, self._seats.acting
        stream = service.streams.get(self.name)
        if stream is None:
            self._hand_back("the stream has ended")
            self._refuse(NO_STREAM)
            return
        if acting.get(self.name, self) is not self:
            self._refuse(IN_HAND)
            return
        try:
            service.take_over(stream, action)
        except SimileError as error:
            self._refuse(str(error))
            return
        if self._operated is not stream:  # not before, or it was opened anew since
            before, self._operated = self._operated, stream
            acting[self.name] = self
            if before is None:
                service.counts.take_overs += 1
                self._timer = self.state.loop.call_later(SILENCE, self._check_silence)
            self.connection.registry.tell({"kind": "operated", "on": True}, self.name)

    def _hand_back(self, reason: str) -> None:
        if self._operated is None:
            return
        self._operated.hand = None
        present = self.state.service.streams.get(self.name)
        if present is not None:  # the same, or what it was resumed as
            present.hand = None
        self._operated = None
        self._seats.acting.pop(self.name, None)
        if self._timer is not None:
            self._timer.cancel()
        self.connection.registry.tell({"kind": "operated", "on": False, "reason": reason}, self.name)

    def _check_silence(self) -> None:
        left = self._heard + SILENCE - self.state.clock()
        if left > 0.0:
            self._timer = self.state.loop.call_later(left, self._check_silence)
            return
        self._fall_silent()

    def _fall_silent(self) -> None:
        self._let_go = True
        self.state.service.counts.fell_silent += 1
        self._hand_back(f"the operator was not heard for {SILENCE:g} s")

    def _refuse(self, sentence: str) -> None:
        self.connection.allowance.charge()
        self.state.service.counts.malformed += 1
        self._send(Complaint(sentence))

    def _send(self, message: ToOperator) -> None:
        if self.connection.reads:  # who does not read learns it from what comes next
            self.connection.send(message, self.connection.binary)
