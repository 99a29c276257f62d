"""The door of a server: connections are let in as they come, and who keeps it waiting is the first to go.

A stranger can open connections and say nothing. So a door that is full shows out whoever it has waited for longest, of
the address that has most such connections: who speaks at once gets in, however many hold their connections open.

Or ask for more than there is time for. So requests are lined up before anybody looks at them: one is dealt with in a
turn of the loop, addresses take turns, and what was spent is paid for before the next one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

BURST = 1.0  # seconds' worth that may be spent at once, and seconds that anybody waits at most for what others spent
PAUSE = 0.5  # seconds after which it is tried again, when the system has no connection to give
TELL_EVERY = 60.0  # seconds

log = logging.getLogger(__name__)


def _always() -> bool:
    return True


class Guest:
    """A connection that was let in.

    Parameters
    ----------
    door : Door
        By which it came.
    sock : socket
        Of the connection; whoever connects it closes it.
    address : str
        Where it comes from.

    Attributes
    ----------
    is_waited_for : callable
        Tells whether the server waits for the peer, and not the peer for the server.
    since : float
        When that began, by the door's clock.
    """

    __slots__ = ("address", "door", "is_waited_for", "since", "sock", "transport")

    def __init__(self, door: Door, sock: socket.socket, address: str) -> None:
        self.door, self.sock, self.address = door, sock, address
        self.transport: Any = None  # once there is one
        self.is_waited_for: Callable[[], bool] = _always
        self.since = door.clock()

    def leave(self) -> None:
        """Be counted no longer."""
        self.door.guests.pop(self, None)
        if (line := self.door.lines.get(self.address)) is not None:
            line.pop(self, None)

    def touch(self) -> None:
        """Note that the waiting begins now."""
        self.since = self.door.clock()

    def show_out(self) -> None:
        """Hang up, at once."""
        self.leave()
        if self.transport is not None:
            self.transport.abort()
        else:
            with suppress(OSError):  # in the middle of a TLS handshake, which then ends by itself
                self.sock.shutdown(socket.SHUT_RDWR)


class Door:
    """Who is there, and how many may be.

    Parameters
    ----------
    most : int
        Connections at a time.
    patience : float
        Seconds that a server waits for a peer.
    pace : float
        What all connections together may spend in a second: of the processor's time, where they line up.
    clock : callable
        Seconds, from any beginning.
    """

    def __init__(
        self, most: int, patience: float, *, pace: float = math.inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.most, self.patience, self.pace, self.clock = most, patience, pace, clock
        self.guests: dict[Guest, None] = {}  # in the order of their coming
        self.lines: OrderedDict[str, OrderedDict[Guest, Callable[[], object]]] = OrderedDict()  # by address
        self.shown_out = 0
        self._calling = False  # whether somebody is to be called
        self._tasks: set[asyncio.Task[None]] = set()
        self._tell_next = self._due = -math.inf

    async def accept(self, listening: socket.socket, connect: Callable[[Guest], Awaitable[tuple[Any, Any]]]) -> None:
        """Let connections in, for ever; `connect` makes a transport and a protocol of each."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listening)
                if (guest := self.receive(sock, address)) is not None:
                    task = loop.create_task(self._connect(guest, connect))
                    self._tasks.add(task)  # the loop alone would forget it
                    task.add_done_callback(self._tasks.discard)
            except Exception as error:  # whatever it is, the door stays open
                await self._bear(error)
            await asyncio.sleep(0)  # others have their turn, too

    def receive(self, sock: socket.socket, address: Any) -> Guest | None:
        """Let a connection in, if need be in the place of another; None, and it is closed, where all are at work."""
        if len(self.guests) >= self.most and not self.make_room():
            sock.close()
            return None
        guest = Guest(self, sock, find_origin(address))
        self.guests[guest] = None
        return guest

    def make_room(self) -> bool:
        """Show out the one that has been waited for longest, of the address that has most of them."""
        self._forget_closed()
        waiting = [guest for guest in self.guests if guest.is_waited_for()]
        if waiting:
            crowd = Counter(guest.address for guest in waiting)
            busiest = max(crowd.values())
            next(guest for guest in waiting if crowd[guest.address] == busiest).show_out()
            self.shown_out += 1
        return len(self.guests) < self.most

    def sweep(self) -> None:
        """Show out all who have been waited for too long."""
        self._forget_closed()
        latest = self.clock() - self.patience
        for guest in [guest for guest in self.guests if guest.since < latest and guest.is_waited_for()]:
            guest.show_out()

    def line_up(self, guest: Guest, act: Callable[[], object], *, first: bool = False) -> None:
        """Let a guest act when it is its turn, or `first` of all of its address."""
        line = self.lines.setdefault(guest.address, OrderedDict())
        line[guest] = act
        line.move_to_end(guest, last=not first)
        if not self._calling:
            self._calling = True
            asyncio.get_running_loop().call_later(self.delay(0.0), self._call_next)

    def _call_next(self) -> None:
        address, line = next(iter(self.lines.items()))
        act = line.popitem(last=False)[1] if line else _always  # those in it may have gone
        if line:
            self.lines.move_to_end(address)
        else:
            del self.lines[address]
        begin = time.thread_time()
        try:
            act()
        finally:
            wait = self.delay(time.thread_time() - begin)
            self._calling = bool(self.lines)
            if self._calling:
                asyncio.get_running_loop().call_later(wait, self._call_next)

    def delay(self, cost: float) -> float:
        """Count what was spent; returns the seconds until it is paid for."""
        now = self.clock()
        self._due = min(max(self._due, now - BURST) + cost / self.pace, now + BURST)
        return max(0.0, self._due - now)

    def _forget_closed(self) -> None:
        for guest in [guest for guest in self.guests if guest.transport is not None and guest.transport.is_closing()]:
            guest.leave()

    async def _connect(self, guest: Guest, connect: Callable[[Guest], Awaitable[tuple[Any, Any]]]) -> None:
        try:
            guest.transport, _ = await connect(guest)
        except Exception:  # what strangers do in a TLS handshake is theirs; the transport closes by itself
            guest.leave()

    async def _bear(self, error: Exception) -> None:
        """Wait until the system may have files again."""
        if isinstance(error, ConnectionError):  # of a peer that has gone already
            return
        now = self.clock()
        if now >= self._tell_next:
            self._tell_next = now + TELL_EVERY
            log.warning("new connections wait, for none can be let in: %s", getattr(error, "strerror", None) or error)
        self.make_room()
        await asyncio.sleep(PAUSE)


def find_origin(address: Any) -> str:
    """Return where a peer is from; with IPv6 one machine has a whole network of 64 bits.

    >>> find_origin(("192.0.2.7", 4711)), find_origin(("2001:db8::1:2", 4711, 0, 0)), find_origin(None)
    ('192.0.2.7', '2001:db8::/64', '')
    """
    host = address[0] if isinstance(address, tuple) else ""
    if ":" not in host:
        return host
    host = host.partition("%")[0]
    mapped = ipaddress.IPv6Address(host).ipv4_mapped
    return str(mapped or ipaddress.IPv6Network((host, 64), strict=False))
