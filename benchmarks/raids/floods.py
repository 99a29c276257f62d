"""Floods: one connection sends as much as it can, of every kind there is, while a victim sends frames at 60 Hz."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from itertools import count

from raids import wire
from raids.raid import CONTEXT, Raid, attack
from raids.targets import Broken, Service

RATE = 60.0  # frames a second of the victim
MOST = 0.050  # seconds that the victim may wait at most, or twice as long as without a flood on a busy machine
SLACK = 0.005  # seconds of the 99th percentile that no flood is blamed for: two cores are shared by three processes
CHUNK = 1 << 18  # bytes that are written at once
CROWD = 200  # connections of one stranger


def _malformed() -> Iterator[bytes]:
    for i in count():
        yield wire.frame(b'{"x": [1, 2, nonsense %d' % i)


def _frames() -> Iterator[bytes]:
    for n in count():
        yield wire.frame(json.dumps({"n": n, "x": CONTEXT}).encode())


def _opens() -> Iterator[bytes]:
    while True:
        yield wire.frame(b'{"open": {}}')


def _pings() -> Iterator[bytes]:
    while True:
        yield wire.frame(b"p" * 100, wire.PING)


def _lists() -> Iterator[bytes]:
    large = wire.frame(b'{"x": [' + b"1," * 32_500 + b"1]}")
    while True:
        yield large


def _names() -> Iterator[bytes]:
    for i in count():
        yield wire.frame(json.dumps({"stream": f"flood-{i}", "x": CONTEXT}).encode())


def _brackets() -> Iterator[bytes]:
    while True:
        yield wire.frame(b"{")


def _fragments() -> Iterator[bytes]:
    while True:
        yield wire.frame(b"{", fin=False) + wire.frame(b"", 0x0, fin=False) * 100 + wire.frame(b"}", 0x0)


def _closes() -> Iterator[bytes]:
    while True:
        yield wire.frame(b'{"close": true}')


KINDS: dict[str, tuple[str, Callable[[], Iterator[bytes]], float]] = {  # where, what, seconds between chunks
    "malformed messages": ("/streams/flood", _malformed, 0.0),
    "frames beyond --max-rate": ("/streams/flood", _frames, 0.0),
    "open": ("/streams/flood", _opens, 0.0),
    "pings": ("/streams/flood", _pings, 0.0),
    "lists of 64 kB": ("/streams/flood", _lists, 0.0),
    "many names": ("/streams", _names, 0.0),
    "bursts of 256 kB of {": ("/streams/flood", _brackets, 1.0),
    "fragments": ("/streams/flood", _fragments, 0.0),
    "close": ("/streams/flood", _closes, 0.0),
}


REQUESTS = {
    "GET /openapi.json": b"",
    "GET /metrics": b"",
    "POST /rollouts": b'{"contexts": [' + b"[1,1,1,1,1,1]," * 2000 + b"[1,1,1,1,1,1]]}",
}
IN_A_CROWD = f"GET /metrics on {CROWD} connections"


def ask_on(kind: str, port: int, seconds: float) -> None:
    """Ask for the same again and again for a while, by HTTP."""
    os.nice(10)
    method, path = kind.split()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            wire.ask(port, path, method=method, body=REQUESTS[kind], source=wire.ELSEWHERE)


def ask_in_a_crowd(kind: str, port: int, seconds: float) -> None:
    """Ask for the same on many connections, each time for twenty before one is answered."""
    os.nice(10)
    method, path = kind.split()[:2]
    request = f"{method} {path} HTTP/1.1\r\nHost: {wire.HERE}:{port}\r\n\r\n".encode() * 20
    end, held = time.monotonic() + seconds, dict[socket.socket, None]()
    while time.monotonic() < end:
        while len(held) < CROWD:
            one = wire.connect(port, source=wire.ELSEWHERE)
            one.sendall(request)
            one.setblocking(False)
            held[one] = None
        for one in select.select(list(held), [], [], 0.1)[0]:
            try:
                if one.recv(1 << 16):
                    one.send(request)
                    continue
            except BlockingIOError:  # it has not been read for long
                continue
            except ConnectionError:
                pass
            one.close()
            del held[one]


def flood(kind: str, port: int, seconds: float) -> None:
    """Send one kind of message for a while, reading what is answered; whoever is cut off comes again."""
    os.nice(10)  # a stranger's machine is not ours: it must not take the victim's time by its own work
    path, make, pause = KINDS[kind]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, wire.Refused):
            one = wire.WebSocket(port, path, source=wire.ELSEWHERE).socket
            with one:
                one.setblocking(False)
                messages, waiting = make(), b""
                while time.monotonic() < end:
                    while len(waiting) < CHUNK:
                        waiting += next(messages)
                    readable, writable, _ = select.select([one], [one], [], 0.2)
                    if readable and not one.recv(1 << 20):
                        break
                    if writable:
                        waiting = waiting[one.send(waiting) :]
                        if pause and len(waiting) < CHUNK // 2:
                            time.sleep(pause)
        time.sleep(0.01)


def _beat(ws: wire.WebSocket, seconds: float, first: int) -> list[float]:
    """Send frames at the victim's rate; returns how long each answer took, in order of size."""
    taken, due = [], time.perf_counter()
    for n in range(first, first + int(seconds * RATE)):
        due = max(due + 1.0 / RATE, time.perf_counter() - 0.5 / RATE)
        time.sleep(max(due - time.perf_counter(), 0.0))
        begin = time.perf_counter()
        while ws.ask({"x": CONTEXT, "n": n}).get("n") != n:
            pass
        taken.append(time.perf_counter() - begin)
    return sorted(taken)


def _describe(taken: list[float]) -> list[str]:
    return [f"{1e3 * taken[min(int(share * len(taken)), len(taken) - 1)]:.2f}" for share in (0.5, 0.99, 1.0)]


def _drown(raid: Raid, kind: str) -> str:
    """Flood, and see that the victim does not notice; of several tries the best counts, for others use this machine."""
    tries = []
    with Service(raid.policy) as service, service.open("victim", timeout=20.0) as ws:
        for i in range(raid.amount(3, 1)):
            tries.append(_flood_once(ws, service, kind, raid.amount(5, 1), 100_000 * i))
            service.check()
            service.check_health()
            if _is_held(*tries[-1]):
                break
    quiet, flooded = min(tries, key=lambda pair: (not _is_held(*pair), pair[1][-1]))
    raid.floods.append([kind, *_describe(quiet), *_describe(flooded)])
    before, after = (taken[int(0.99 * len(taken))] for taken in (quiet, flooded))
    said = f"p99 {1e3 * before:.1f} -> {1e3 * after:.1f} ms, max {1e3 * flooded[-1]:.0f} ms"
    if not _is_held(quiet, flooded):
        raise Broken(said)
    return said


def _flood_once(
    ws: wire.WebSocket, service: Service, kind: str, seconds: float, first: int
) -> tuple[list[float], list[float]]:
    """Return what the victim's answers took, quiet and flooded."""
    quiet = _beat(ws, seconds, first)
    by_http = ask_in_a_crowd if kind == IN_A_CROWD else ask_on
    target, port = (flood, service.port) if kind in KINDS else (by_http, service.http)
    stranger = multiprocessing.get_context("fork").Process(target=target, args=(kind, port, seconds + 1.0))
    stranger.start()
    try:
        time.sleep(0.3)
        return quiet, _beat(ws, seconds, first + 50_000)
    except OSError as error:
        raise Broken(f"the victim was not served: {error}") from None
    finally:
        stranger.kill()
        stranger.join()


def _is_held(quiet: list[float], flooded: list[float]) -> bool:
    before, after = (taken[int(0.99 * len(taken))] for taken in (quiet, flooded))
    return after <= max(2.0 * before, SLACK) and flooded[-1] <= max(2.0 * quiet[-1], MOST)


for _kind in (*KINDS, *REQUESTS, IN_A_CROWD):
    attack(f"flood of {_kind}", "4", timed=True)(lambda raid, kind=_kind: _drown(raid, kind))
