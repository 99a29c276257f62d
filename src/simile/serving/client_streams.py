"""Streams of clients, each on a connection. Between them the answers are kept in order, and what is lost is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from picows import WSCloseCode

from simile.errors import SimileError
from simile.serving.batching import LONGEST_BRIDGE
from simile.serving.messages import (
    Answer,
    CloseAnswer,
    Closed,
    Frame,
    Notice,
    Open,
    OpenAnswer,
    Opened,
    Reply,
    to_json,
    to_msgpack,
)
from simile.serving.sessions import Sink, Stream
from simile.serving.turns import BRIDGE, OPENING

if TYPE_CHECKING:
    from simile.serving.websocket import Connection

BURST = 1.0  # seconds' worth of frames that may come at once
TAKEN = "another connection has taken the stream over"


class ClientStream:
    """One stream on one connection.

    Parameters
    ----------
    connection : Connection
        Who is there.
    name : str
        Of the stream.
    many : bool
        Whether the connection has other streams too, so that every answer must say whose it is.
    """

    __slots__ = ("connection", "due", "held", "many", "name", "pace", "put", "sinks", "state", "stream")

    def __init__(self, connection: Connection, name: str, *, many: bool) -> None:
        self.connection = connection
        self.state = connection.state
        self.name = name
        self.many = many
        self.stream: Stream | None = None
        self.held: tuple[Reply, bool] | None = None  # the newest reply, while the peer does not read
        self.due, self.pace = 0.0, 1.0 / self.state.max_rate
        self.put = self.state.service.put
        self.sinks = (self._build_sink(to_json, binary=False), self._build_sink(to_msgpack, binary=True))

    def take(self, message: Frame, binary: bool) -> None:
        """Take a message for this stream."""
        if message.open is not None:
            self._open(message.open, binary)
            return
        if message.close is not None:
            self._close(binary)
            return
        stream = self.stream
        if stream is None or stream.slot < 0:
            stream = self._begin(Open(), binary, message.n)
            if stream is None:
                self.state.service.counts.frames += 1
                self.state.service.counts.answers += 1
                return
        # The rate is limited by when the next frame would be due, had all come at the highest rate.
        now = self.state.clock()
        due = self.due if self.due > now else now
        if due - now > BURST:
            self.state.service.drop(stream)
            return
        due += self.pace
        n, last = message.n, stream.n
        if n is not None and last is not None and n > last + 1:
            # Frames that were left out are bridged, which takes as long as a frame: they count.
            missing = min(n - last - 1, max(LONGEST_BRIDGE, -self.state.loaded.facts.lead))
            due += self.pace * missing
            self.connection.allowance.charge(BRIDGE * missing)
        self.due = due
        counts = self.state.service.counts
        malformed, dropped = counts.malformed, counts.dropped
        self.put(stream, message, self.sinks[binary], now)
        if counts.malformed != malformed:
            self.connection.allowance.charge()
        if counts.dropped != dropped:
            self.connection.allowance.charge(BRIDGE)
        self.state.wake()

    def _build_sink(self, encode: Callable[[Answer], bytes], *, binary: bool) -> Sink:
        """Return what sends an answer as JSON, or as msgpack."""

        def send(stream: Stream, answer: Answer) -> None:  # noqa: ARG001
            connection = self.connection
            if self.many:
                answer.stream = self.name
            if not connection.reads:
                self._reply(answer, binary)
            elif self.many:
                connection.gather(encode(answer), binary)
            else:
                if connection.gathered:
                    connection.send_gathered()  # which came before
                connection.senders[binary](encode(answer))

        return send

    def tell(self, event: dict[str, Any]) -> None:
        """Tell an event of this stream, unless the peer does not read."""
        if self.connection.reads:
            self._reply(Notice(event), self.connection.binary)

    def send_held(self) -> None:
        """Send what was kept while the peer did not read, with the number of those that were not."""
        if self.held is None:
            return
        reply, binary = self.held
        self.held = None
        if isinstance(reply, Answer) and self.stream is not None:
            reply.lost += self.stream.lost
            self.stream.lost = 0
        self._reply(reply, binary)

    def leave(self) -> None:
        """Give the stream up, for the connection has gone; it is kept until it expires."""
        self._forget_held()
        if self.stream is not None:
            self.state.service.detach(self.stream)
        self._release()

    def evict(self) -> None:
        """Give the stream up to another connection."""
        self.tell({"kind": "taken", "on": True, "reason": TAKEN})
        self._forget_held()
        self._release()
        if not self.many:
            self.connection.end(WSCloseCode.POLICY_VIOLATION, TAKEN)

    def _open(self, wanted: Open, binary: bool) -> None:
        stream = self._begin(wanted, binary, None)
        if stream is not None:
            contexts, actions = self.state.names
            facts = stream.frames, self.state.rate, contexts, actions, stream.n, self.state.loaded.facts.lead
            self._reply(OpenAnswer(Opened(*facts)), binary)

    def _begin(self, wanted: Open, binary: bool, n: int | None) -> Stream | None:
        """Open the stream, and take it from whoever had it; None, and an answer, where that cannot be."""
        self.connection.allowance.charge(OPENING)
        present = self.state.service.streams.get(self.name)
        if present is not None and present.queue:
            self.state.run()  # what came before is answered before
        if trouble := self.connection.registry.claim(self.name, self.connection.guest.address):
            self._refuse(trouble, binary, n)
            return None
        try:
            stream = self.state.service.open(
                self.name, start=wanted.start, deadline=wanted.deadline, resume=wanted.resume, band=wanted.band
            )
        except SimileError as refusal:
            self._refuse(str(refusal), binary, n)
            return None
        holders = self.connection.registry.holders
        holder = holders.get(self.name)
        if holder is not None and holder is not self:
            holder.evict()
        holders[self.name] = self
        self.stream = stream
        return stream

    def _refuse(self, sentence: str, binary: bool, n: int | None) -> None:
        self._reply(Answer(n, error=sentence), binary)
        if self.stream is None:
            self._release()  # so that refused names cannot pile up

    def _close(self, binary: bool) -> None:
        self.state.run()
        stream = self.stream
        if stream is None or stream.slot < 0:
            self._refuse("close: the stream is not open: send a frame, or open it, first", binary, None)
            return
        self.state.service.close(stream)
        self._release()
        self._reply(CloseAnswer(Closed(stream.frames, stream.dropped)), binary)

    def _release(self) -> None:
        self.stream = None
        holders = self.connection.registry.holders
        if holders.get(self.name) is self:
            del holders[self.name]
        if self.many:
            self.connection.streams.pop(self.name, None)

    def _reply(self, reply: Reply, binary: bool) -> None:
        """Send a reply, or keep it while the peer does not read."""
        if self.many:
            reply.stream = self.name
        if self.connection.reads or self.connection.transport is None:
            self.connection.send(reply, binary)
        else:
            self._forget_held()
            self.held = (reply, binary)

    def _forget_held(self) -> None:
        """Count a reply that will not be sent; the next one tells, with what this one would have told."""
        if self.held is not None:
            reply, _ = self.held
            self.held = None
            self.state.service.counts.unsent += 1
            if self.stream is not None:
                self.stream.unsend()
                self.stream.lost += reply.lost if isinstance(reply, Answer) else 0
