"""The door of a server: who is let in, who has to go, and what is logged of it."""

from __future__ import annotations

import asyncio
import errno
import io
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from starlette.requests import Request

from served import Clock
from simile._common.door import PAUSE, TELL_EVERY, Door, Guest
from simile._common.logs import CalmHandler
from simile._common.web import Bodies, RequestError


class Visitors:
    """Connections to a door, from any address."""

    def __init__(self, most: int) -> None:
        self.clock = Clock()
        self.door = Door(most, patience=5.0, clock=self.clock)
        self.peers: list[socket.socket] = []
        self.ours: list[socket.socket] = []

    def come(self, address: str = "192.0.2.1") -> Guest | None:
        ours, theirs = socket.socketpair()
        theirs.settimeout(5.0)
        self.peers.append(theirs)
        self.ours.append(ours)
        return self.door.receive(ours, (address, 4711))

    def gone(self) -> list[int]:
        """Return who was hung up on."""
        found = []
        for i, peer in enumerate(self.peers):
            peer.settimeout(0.0)
            with suppress(BlockingIOError):
                if peer.recv(1) == b"":
                    found.append(i)
        return found


@contextmanager
def visitors(most: int) -> Iterator[Visitors]:
    found = Visitors(most)
    yield found
    for one in found.ours + found.peers:
        one.close()


def test_a_full_door_shows_out_the_first_of_the_most_crowded_address():
    with visitors(4) as here:
        for address in ("192.0.2.1", "198.51.100.2", "198.51.100.2", "192.0.2.3", "203.0.113.4"):
            assert here.come(address) is not None
        assert here.gone() == [1]
        assert here.come("198.51.100.2") is not None
        assert here.gone() == [0, 1]  # where no address is more crowded than others, the first of all
        assert len(here.door.guests) == 4


def test_who_is_at_work_stays_and_where_all_are_nobody_comes_in():
    with visitors(2) as here:
        first, second = here.come(), here.come()
        assert first is not None
        assert second is not None
        first.is_waited_for = lambda: False
        assert here.come() is not None
        assert here.gone() == [1]
        for guest in here.door.guests:
            guest.is_waited_for = lambda: False
        assert here.come() is None
        assert here.gone() == [1, 3]
        first.leave()
        assert here.come() is not None


def test_who_is_waited_for_too_long_is_shown_out():
    with visitors(9) as here:
        silent, busy, speaking = here.come(), here.come(), here.come()
        assert silent is not None
        assert busy is not None
        assert speaking is not None
        busy.is_waited_for = lambda: False
        here.clock.now += 4.0
        speaking.touch()
        here.clock.now += 2.0
        here.door.sweep()
        assert here.gone() == [0]
        busy.is_waited_for = lambda: True
        here.door.sweep()
        assert here.gone() == [0, 1]


def test_who_sends_more_than_all_may_together_waits():
    clock = Clock()
    door = Door(4, 5.0, pace=100.0, clock=clock)
    assert [door.delay(50.0) for _ in range(4)] == [0.0, 0.0, 0.5, 1.0]
    clock.now += 1.0
    assert door.delay(0.0) == 0.0
    clock.now += 60.0
    assert door.delay(150.0) == 0.5
    assert Door(4, 5.0, clock=clock).delay(1e12) == 0.0


def line_up(door: Door, *requests: tuple[str, str, bool]) -> list[tuple[str, float]]:
    """Let guests come with a request each (address, word, whether it is urgent); returns who was heard, and when."""
    heard: list[tuple[str, float]] = []

    async def live() -> None:
        monotonic, begin = asyncio.get_running_loop().time, door.clock()
        here = monotonic()
        for address, word, urgent in requests:
            guest = Guest(door, socket.socket(), address)
            door.guests[guest] = None
            guest.sock.close()
            door.line_up(guest, lambda word=word: heard.append((word, door.clock() - begin)), first=urgent)
            if word == "gone":
                guest.leave()
        expected = sum(word != "gone" for _, word, _ in requests)
        while len(heard) < expected and monotonic() < here + 10.0:
            await asyncio.sleep(0.001)

    asyncio.run(live())
    return heard


def test_addresses_take_turns_however_much_one_of_them_asks():
    crowd, other = "192.0.2.1", "198.51.100.2"
    heard = line_up(
        Door(9, 5.0),
        (crowd, "1", False),
        (crowd, "2", False),
        (crowd, "gone", False),
        (other, "gone", False),
        (crowd, "3", False),
        (other, "a", False),
        (other, "b", False),
        (crowd, "health", True),
    )
    assert [word for word, _ in heard] == ["health", "a", "1", "b", "2", "3"]


def test_what_was_spent_is_paid_for_before_the_next_is_heard():
    door = Door(9, 5.0, pace=100.0)
    assert door.delay(110.0) > 0.0  # a tenth of a second more than may come at once
    heard = line_up(door, ("192.0.2.1", "1", False), ("192.0.2.1", "2", False))
    assert [word for word, _ in heard] == ["1", "2"]
    assert heard[0][1] > 0.08
    assert door.delay(1e9) == 1.0  # nobody waits for long, however much it was


def test_when_the_system_has_no_files_left_the_door_rests_and_tells_it_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    naps, clock = [], Clock()

    async def accept(_: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    async def sleep(seconds: float) -> None:
        naps.extend([seconds] * bool(seconds))
        clock.now += seconds
        if len(naps) == 4 * TELL_EVERY:
            raise asyncio.CancelledError

    async def live() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "sock_accept", accept)
        monkeypatch.setattr(asyncio, "sleep", sleep)
        with socket.socket() as listening, suppress(asyncio.CancelledError):
            await Door(4, 5.0, clock=clock).accept(listening, accept)

    asyncio.run(live())
    assert naps == [PAUSE] * len(naps)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2  # in two minutes
    assert "Too many open files" in caplog.text


def test_a_connection_that_comes_to_nothing_is_forgotten():
    async def live() -> None:
        door, made = Door(4, 5.0), []

        async def connect(guest: Guest) -> Any:
            made.append(guest)
            guest.sock.close()
            raise ConnectionResetError

        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            task = asyncio.create_task(door.accept(listening, connect))
            peer = socket.create_connection(listening.getsockname())
            while not made or door.guests:
                await asyncio.sleep(0.01)
            peer.close()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(live(), 10.0))


# --------------------------------------------------------------------------------------------------------------- bodies


def request(parts: asyncio.Queue[Any], **headers: str) -> Request:
    listed = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "headers": listed}, parts.get)


def part(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_bodies_are_few_short_and_not_slow():
    async def live() -> None:
        bodies = Bodies(together=100, patience=0.05)
        waiting = [asyncio.Queue[Any]() for _ in range(2)]
        reading = [asyncio.create_task(bodies.read(request(queue), 60, "too long")) for queue in waiting]
        for queue in waiting:
            queue.put_nowait(part(b"x" * 45))
        await asyncio.sleep(0.01)
        assert bodies.held == 90
        for body, headers, status in (
            (b"y" * 20, {}, 503),  # no room beside the others
            (b"y" * 61, {}, 413),
            (b"", {"content_length": "61"}, 413),  # before anything is read
        ):
            queue = asyncio.Queue[Any]()
            queue.put_nowait(part(body, more=False))
            with pytest.raises(RequestError) as refusal:
                await bodies.read(request(queue, **headers), 60, "too long")
            assert refusal.value.status == status
        ends = await asyncio.gather(*reading, return_exceptions=True)
        assert [end.status for end in ends if isinstance(end, RequestError)] == [408, 408]
        assert bodies.held == 0
        queue = asyncio.Queue[Any]()
        for message in (part(b"a"), part(b"b", more=False)):
            queue.put_nowait(message)
        assert await bodies.read(request(queue), 60, "too long") == b"ab"

    asyncio.run(live())


def test_a_body_that_is_broken_off_is_a_refusal_and_no_mistake_of_ours():
    async def live() -> None:
        queue, bodies = asyncio.Queue[Any](), Bodies()
        for message in (part(b"a"), {"type": "http.disconnect"}):
            queue.put_nowait(message)
        with pytest.raises(RequestError, match="broken off"):
            await bodies.read(request(queue), 60, "too long")
        assert bodies.held == 0

    asyncio.run(live())


# ----------------------------------------------------------------------------------------------------------------- logs


@pytest.fixture
def logged() -> Iterator[tuple[logging.Logger, io.StringIO, Clock]]:
    stream, clock = io.StringIO(), Clock()
    log = logging.Logger("apart")
    log.addHandler(CalmHandler(stream, most=3, every=60.0, clock=clock))
    return log, stream, clock


def test_a_record_is_one_line_whatever_a_stranger_calls_himself(logged: Any):
    log, stream, _ = logged
    log.warning("stream %s came", "a\nroot: all is well\r\x1b[2J\u2028\x85b")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception("it failed")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0] == r"stream a\nroot: all is well\r\x1b[2J\u2028\x85b came"
    assert "Traceback" in lines[1]
    assert r"ValueError: two\nlines" in lines[1]


def test_of_many_records_of_a_kind_the_first_are_written_and_the_rest_is_counted(logged: Any):
    log, stream, clock = logged
    for i in range(1001):
        clock.now += 61.0 * (i == 1000)
        log.warning(f"peer {i} went")  # a text of its own each
        if i == 999:
            log.warning("something else")
    lines = stream.getvalue().splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        "peer 0 went", "peer 1 went", "peer 2 went", "something else", "peer 1000 went",
    ]  # fmt: skip
    assert lines[-1].endswith("(and 997 more like it before)")
