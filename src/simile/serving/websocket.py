"""The port of the streams: WebSocket connections, each with one stream or with many."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import struct
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from msgspec import MsgspecError
from picows import (
    WSAutoPingStrategy,
    WSCloseCode,
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeRequest,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
)
from picows.picows import WSProtocol, _parse_http_request, _validate_upgrade_request  # type: ignore[attr-defined]

from simile._common.door import Guest
from simile._common.web import HEADERS, UNAUTHORIZED, Guard
from simile.serving.client_streams import ClientStream
from simile.serving.messages import (
    NAME,
    Answer,
    Frame,
    Notice,
    Reply,
    ToOperator,
    complete,
    explain,
    from_json,
    from_msgpack,
    to_json,
    to_msgpack,
)
from simile.serving.operators import MOST_SEATS, Lobby, Seat, Seats
from simile.serving.turns import LEAST, PING, READ, SHARE, TURN, TURN_OF_ONE, USUAL_RATE, Allowance, measure_frame

if TYPE_CHECKING:
    from simile.serving.state import ServerState

PATH = re.compile(rf"/(?:streams(?:/({NAME.pattern})?)?|operate(?:/(?P<operate>{NAME.pattern})|(?P<lobby>)))")
TEXT, BINARY, CONTINUATION = WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION
UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError, ValueError)
SMALL_BUFFER = 16 << 10  # bytes of answers that wait in this process for a slow reader: older ones are of no use
LAST_WORDS = 1.0  # seconds for a peer to hear why it is cut off
SHARE_OF_ONE = 0.75  # of all connections and streams, for one address
GREETING = 5.0  # seconds for a peer to say what it wants
PING_EVERY = 20.0  # seconds of silence after which a peer is asked whether it is there
NOWHERE = (
    404,
    "streams are at /streams/NAME, NAME being 1 to 64 of A-Z a-z 0-9 . _ -, and at /streams; operators sit at "
    "/operate/NAME",
)
NO_WEBSOCKET = "this port is for WebSockets, version 13: HTTP has a port of its own"
TOO_MUCH = "this connection goes on sending far more than --max-rate allows: send less"


def _send_nothing(data: bytes) -> None:
    """Send nothing to nobody."""


Sender = Callable[[bytes], None]
NOBODY: tuple[Sender, Sender] = (_send_nothing, _send_nothing)

log = logging.getLogger(__name__)
# What picows has to say of every peer that misbehaves would fill a disk; the counts tell it.
quiet = logging.getLogger("simile.serving.picows")
quiet.setLevel(logging.CRITICAL + 1)


class ConnectionRegistry:
    """All connections, and who holds which stream.

    Parameters
    ----------
    state : ServerState
        What both ports share.
    guard : Guard
        Who may come in.
    """

    def __init__(self, state: ServerState, guard: Guard) -> None:
        self.state = state
        self.guard = guard
        self.connections: set[Connection] = set()
        self.addresses: Counter[str] = Counter()  # how many connections each has
        self.holders: dict[str, ClientStream] = {}
        self.seats = Seats(state)  # of operators
        self.origins: dict[str, str] = {}  # the address that opened a stream
        each, most = state.options.max_per_address, state.options.max_connections
        self.share = SHARE_OF_ONE if each is None else min(1.0, each / most)  # of all, for an address

    def claim(self, name: str, address: str) -> str | None:
        """Note whose a stream is; returns a sentence where its address has enough of them."""
        streams, most = self.state.service.streams, self.state.options.max_streams
        each = math.ceil(most * self.share)
        if name not in streams and len(streams) >= each:
            if sum(self.origins.get(one) == address for one in streams) >= each:
                self.state.service.counts.refused += 1
                return f"this address has {each} of {most} streams already: close one, or raise --max-per-address"
            self.origins = {one: self.origins[one] for one in streams if one in self.origins}
        self.origins[name] = address
        return None

    def admit(self, guest: Guest, request: WSUpgradeRequest) -> WSListener | WSUpgradeResponseWithListener:
        """Let a connection in, or say why not."""
        path, _, query = request.path.decode("latin-1").partition("?")
        found = PATH.fullmatch(unquote(path))
        refused = (
            self.guard.check(request.headers, query)
            or self._find_refusal(found, guest.address)
            or _find_handshake_trouble(request)
        )
        if refused is None and found is not None:
            return Connection(self, guest, found[1], operates=found["operate"] or found["lobby"])
        return WSUpgradeResponseWithListener(self.refuse(*(refused or NOWHERE)), None)

    def refuse(self, status: int, sentence: str) -> WSUpgradeResponse:
        """Count a refusal, and return it as all clients expect it."""
        headers = {"Content-Type": "application/json", **HEADERS}
        if status == UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        self.state.service.counts.refused += 1
        body = to_json({"error": sentence})
        answer: WSUpgradeResponse = WSUpgradeResponse.create_error_response(status, body, headers)
        return answer

    def _find_refusal(self, found: re.Match[str] | None, address: str) -> tuple[int, str] | None:
        """Return the status and the sentence where there is no such place, or no place left."""
        state, most = self.state, self.state.options.max_connections
        each = math.ceil(most * self.share)
        if found is None:
            return NOWHERE
        if state.draining:
            return 503, "the service is ending: try another, or wait for its next start"
        if len(self.connections) >= most:
            return 503, f"the service has {most} connections already: close one, or raise --max-connections"
        if self.addresses[address] >= each:
            return 503, f"this address has {each} connections already: close one, or raise --max-per-address"
        if found[1] and found[1] not in state.service.streams and state.is_full:
            return 503, f"all {state.options.max_streams} streams are taken: close one, wait, or raise --max-streams"
        if found["operate"] and self.seats.is_full(found["operate"]):
            return 503, f"{MOST_SEATS} operators sit at this stream already: one of them must leave"
        return None

    def tell(self, event: dict[str, Any], name: str | None = None) -> None:
        """Tell an event to whoever holds a stream, to its operators, and to the recording.

        Without a name it is told to every connection.
        """
        self.state.service.note_event(event, name)
        if name is None:
            for connection in list(self.connections):
                connection.tell(event)
            return
        if (stream := self.holders.get(name)) is not None:
            stream.tell(event)
        self.seats.tell(event, name)

    async def cut_slow_readers(self) -> None:
        """Cut off who has read nothing for too long, for ever."""
        patience = self.state.options.patience
        while True:
            await asyncio.sleep(min(1.0, patience / 4.0))
            now = self.state.clock()
            for connection in [c for c in self.connections if now - c.paused_at > patience]:
                connection.cut()

    def close_all(self) -> None:
        """Close every connection: the service ends."""
        for connection in list(self.connections):
            connection.end(WSCloseCode.GOING_AWAY, "the service is ending")


def _find_handshake_trouble(request: WSUpgradeRequest) -> tuple[int, str] | None:
    """Return the status and the sentence for what asks for no WebSocket, in words and with headers of our own."""
    wanted = request.headers.get("connection", "").lower().split(",")
    if "upgrade" in map(str.strip, wanted):
        request.headers["connection"] = "upgrade"  # which picows wants alone; Firefox says more
    try:
        _validate_upgrade_request(request)
    except RuntimeError:
        return 400, NO_WEBSOCKET
    return None


class StreamProtocol(WSProtocol):  # type: ignore[misc]
    """The protocol of a connection, which reads little at a time, so that others have their turns.

    Parameters
    ----------
    registry : ConnectionRegistry
        Who decides whether it may come in.
    guest : Guest
        The connection.
    """

    def __init__(self, registry: ConnectionRegistry, guest: Guest) -> None:
        options = registry.state.options
        super().__init__(
            None,  # where to, and by which path: of clients
            None,
            False,
            partial(registry.admit, guest),
            quiet,
            True,  # hang up after an exception
            min(GREETING, options.patience),
            True,  # ask who is silent
            PING_EVERY,
            PING_EVERY,
            WSAutoPingStrategy.PING_WHEN_IDLE,
            False,  # pongs are ours, see `Connection`
            options.max_message,
            None,  # headers: of clients
            READ,
        )
        self.registry, self.guest = registry, guest
        self._head = b""  # of the request, until it is whole
        self._room = memoryview(b"")

    def get_buffer(self, size_hint: int) -> memoryview:
        """Return where to read to."""
        room: memoryview = super().get_buffer(size_hint)
        self._room = room[:READ]
        return self._room

    def buffer_updated(self, size: int) -> None:
        """Take what was read."""
        if self.listener is None and self._refuse_no_request(bytes(self._room[:size])):
            return
        super().buffer_updated(size)
        if self.listener is not None:
            self.listener.end_turn(size)

    def _refuse_no_request(self, data: bytes) -> bool:
        """Refuse what is no request for a WebSocket, in our words and with our headers; returns whether that was so."""
        self._head += data
        head, end, _ = self._head.partition(b"\r\n\r\n")
        if not end:
            return False
        try:
            _parse_http_request(head)
        except RuntimeError:
            answer = self.registry.refuse(400, NO_WEBSOCKET)
            answer.headers["Connection"] = "close"
            self.transport.underlying_transport.write(answer.to_bytes())
            self.transport.disconnect()
            return True
        self._head = b""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has gone."""
        self.guest.leave()
        super().connection_lost(exc)


class Connection(WSListener):
    """One peer, with a stream, many or, as an operator, none: decodes what comes and encodes what goes."""

    def __init__(
        self, registry: ConnectionRegistry, guest: Guest, name: str | None, *, operates: str | None = None
    ) -> None:
        self.registry = registry
        self.guest = guest
        self.state = registry.state
        contexts, actions = self.state.names
        self.allowance = Allowance(self.state.clock, measure_frame(contexts + actions))
        self._later: deque[tuple[WSMsgType, bool, bytes]] = deque()  # what was read in this turn, and is for the next
        self.transport: WSTransport | None = None
        self.streams: dict[str, ClientStream] = {}
        self.only = None if name is None else ClientStream(self, name, many=False)
        self.seat = None if operates is None else Seat(self, operates) if operates else Lobby(self)
        self.reads = False  # whether what is sent goes out: the peer is there, and takes it
        self.ended = False
        self.paused_at = math.inf  # since when it does not take it
        self.senders = NOBODY  # of text, and of binary messages
        self.spoken = False  # whether it has said anything: until then, nobody knows how to tell it an event
        self.binary = False  # of the latest message: events are told in the same way
        self.gathered: list[bytes] = []  # answers that go out together, each after its header
        self._parts: list[bytes] = []  # of a message in fragments
        self._size = 0
        self._clear_next = -math.inf
        self._turn = TURN_OF_ONE
        if self.only is not None:
            self.streams[self.only.name] = self.only

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Note that the peer is there."""
        self.transport, self.reads = transport, True
        self.senders = (partial(transport.send, TEXT), partial(transport.send, BINARY))
        transport.underlying_transport.set_write_buffer_limits(high=SMALL_BUFFER)
        self.guest.leave()  # it has shown who it is: it is counted here from now on
        self.registry.connections.add(self)
        self.registry.addresses[self.guest.address] += 1
        if self.seat is not None:
            self.seat.sit_down()

    def on_ws_disconnected(self, transport: WSTransport) -> None:  # noqa: ARG002
        """Leave the streams to whoever resumes them, until they expire."""
        self.transport, self.reads = None, False
        self.senders = NOBODY  # which lets go of the transport
        self._later.clear()
        self.registry.connections.discard(self)
        self.registry.addresses -= Counter((self.guest.address,))  # and no address is kept without a connection
        for stream in list(self.streams.values()):
            stream.leave()
        if self.seat is not None:
            self.seat.leave()

    def pause_writing(self) -> None:
        """Keep only the newest answer of each stream from now on."""
        self.reads, self.paused_at = False, self.state.clock()

    def resume_writing(self) -> None:
        """Send what was kept."""
        self.reads, self.paused_at = self.transport is not None and not self.ended, math.inf
        for stream in list(self.streams.values()):
            stream.send_held()
        if self.seat is not None:
            self.seat.show()

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:  # noqa: ARG002
        """Take a message now or, where this turn has had enough, in the next one."""
        if self._later or self.allowance.spent >= self._turn:
            self._later.append((frame.msg_type, frame.fin, frame.get_payload_as_bytes()))
        else:
            self._deal_with(frame.msg_type, frame.fin, frame.get_payload_as_memoryview())

    def end_turn(self, size: int) -> None:
        """Go on when it is this connection's turn again, which has just read so many bytes."""
        state = self.state
        self._turn = min(TURN, TURN_OF_ONE * max(1, len(self.streams)))
        rate = SHARE * max(LEAST, state.max_rate, len(self.streams) * (state.rate or USUAL_RATE))
        wait = self.allowance.end_turn(size, rate)
        if self.transport is None:
            return
        if wait:
            state.service.counts.throttled += 1
            if self.allowance.is_abused:
                self._later.clear()
                self.end(WSCloseCode.POLICY_VIOLATION, TOO_MUCH)
        if wait or self._later or size >= READ:
            self.transport.underlying_transport.pause_reading()
            state.loop.call_later(wait, self._take_turn)
        else:
            self.transport.underlying_transport.resume_reading()

    def _take_turn(self) -> None:
        """Deal with what was left over from the last turn, and read on when nothing is."""
        while self._later and self.allowance.spent < self._turn:
            self._deal_with(*self._later.popleft())
        self.end_turn(0)

    def _deal_with(self, kind: WSMsgType, fin: bool, data: bytes | memoryview) -> None:
        try:
            if self.ended and kind is not WSMsgType.CLOSE:
                return
            if len(data) > self.state.options.max_message:
                return  # picows has said so, and is about to hang up, but goes on reading until then
            self.allowance.take(len(data))
            if (kind is BINARY or kind is TEXT) and fin and not self._parts:
                self.spoken, self.binary = True, kind is BINARY
                self._take(data)
            else:
                self._take_unusual(kind, fin, bytes(data))
        except Exception:  # a mistake of ours: this peer is cut off, the others must not notice
            log.exception("a message was not dealt with")
            self.end(WSCloseCode.INTERNAL_ERROR, "the service has made a mistake")

    def _take(self, data: bytes | memoryview) -> None:
        if self.seat is not None:
            self.seat.take(data)
            return
        try:
            message = from_msgpack(data) if self.binary else from_json(data)
        except UNREADABLE as error:
            self.refuse(explain(error), None)
            return
        trouble = complete(message)
        if trouble is not None:
            self.refuse(trouble, message)
            return
        stream = self.only
        if stream is None or message.stream is not None:
            stream = self.streams.get(message.stream or "") or self._add_stream(message)
        if stream is not None:
            stream.take(message, self.binary)

    def _add_stream(self, message: Frame) -> ClientStream | None:
        """Make room for a stream of this connection that was not heard of before."""
        name, most = message.stream, self.state.options.max_streams
        if len(self.streams) >= most:
            self._clear_expired()
        if self.only is not None:
            self.refuse(
                f"this connection is the stream {self.only.name!r}: leave stream out, or connect to /streams", None
            )
        elif name is None or not NAME.fullmatch(name):
            self.refuse("stream must name the stream, by 1 to 64 of A-Z a-z 0-9 . _ -", None)
        elif len(self.streams) >= most:
            self.refuse(f"this connection has {len(self.streams)} streams already: close one", message)
        else:
            stream = self.streams[name] = ClientStream(self, name, many=True)
            return stream
        return None

    def _clear_expired(self) -> None:
        """Forget streams that have expired; looking through them takes long, and is done once a second."""
        now = self.state.clock()
        if now < self._clear_next:
            return
        self._clear_next = now + 1.0
        for stream in [s for s in self.streams.values() if s.many and (s.stream is None or s.stream.closed)]:
            stream.leave()

    def _take_unusual(self, kind: WSMsgType, fin: bool, data: bytes) -> None:
        """Take a fragment, or a word about the connection itself."""
        if self.transport is None:
            return
        if kind is WSMsgType.CLOSE:
            self.transport.send_close(WSCloseCode.OK)
            self.transport.disconnect()
        elif kind is WSMsgType.PING:
            self.allowance.charge(PING)
            if self.reads:  # else pongs would pile up
                self.transport.send_pong(data)
        elif kind in (TEXT, BINARY, CONTINUATION):
            if (kind is CONTINUATION) != bool(self._parts):
                self.end(WSCloseCode.PROTOCOL_ERROR, "a message in fragments is out of order")
                return
            if kind is not CONTINUATION:
                self.spoken, self.binary, self._size = True, kind is BINARY, 0
            # A fragment may be empty, which `_parts` must not be while there is one.
            self._parts.append(data)
            self._size += len(data)
            if self._size > self.state.options.max_message or len(self._parts) > self.state.options.max_message:
                self._parts = []
                self.end(WSCloseCode.MESSAGE_TOO_BIG, "the message is too large")
            elif fin:
                whole, self._parts = b"".join(self._parts), []
                self._take(whole)

    def refuse(self, sentence: str, message: Frame | None) -> None:
        """Answer a message that cannot be used, and count it; no stream is touched by it."""
        self.allowance.charge()
        if self.state.service.has_waiting:
            self.state.run()  # so that it does not overtake the answers to what came before
        counts = self.state.service.counts
        counts.frames += 1
        counts.malformed += 1
        counts.answers += 1
        name = None if message is None or self.only is not None else message.stream
        answer = Answer(None if message is None else message.n, error=sentence, stream=name)
        if self.reads:
            self.gather(to_msgpack(answer) if self.binary else to_json(answer), self.binary)
        else:
            counts.unsent += 1

    def gather(self, data: bytes, binary: bool) -> None:
        """Let an answer go out with others of the same batch: many in one write take little longer than one."""
        if not self.gathered:
            self.state.gathering.append(self)
            self.state.wake()
        self.gathered += (_header(len(data), binary), data)

    def send_gathered(self) -> None:
        """Send them."""
        gathered, self.gathered = self.gathered, []
        if self.transport is None or self.ended:
            self.state.service.counts.unsent += len(gathered) // 2
        elif gathered:
            self.transport.underlying_transport.write(b"".join(gathered))

    def tell(self, event: dict[str, Any]) -> None:
        """Tell an event that is not about a stream alone."""
        # Who does not read cannot be told; the metrics have it.
        if self.reads and (self.spoken or self.seat is not None):
            self.send(Notice(event), self.binary)

    def send(self, reply: Reply | ToOperator, binary: bool) -> None:
        """Send a reply, or count it where the peer does not read, or has gone."""
        if not self.reads:
            self.state.service.counts.unsent += 1
        else:
            if self.gathered:
                self.send_gathered()  # which came before
            self.senders[binary](to_msgpack(reply) if binary else to_json(reply))

    def end(self, code: WSCloseCode, reason: str) -> None:
        """Say why, and hang up."""
        if self.transport is not None and not self.ended:
            self.ended, self.reads = True, False
            self.transport.send_close(code, reason.encode())
            self.state.loop.call_later(LAST_WORDS, self.cut)

    def cut(self) -> None:
        """Hang up at once."""
        if self.transport is not None:
            self.transport.disconnect(graceful=False)


def _header(size: int, binary: bool) -> bytes:
    """Return what stands before a message of a server, by RFC 6455: it is whole, and not masked."""
    kind = 0x82 if binary else 0x81
    if size < 126:
        return bytes((kind, size))
    return struct.pack(">BBH", kind, 126, size) if size < 1 << 16 else struct.pack(">BBQ", kind, 127, size)
