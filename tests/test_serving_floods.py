"""What one connection, or many silent ones, may take from the others."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode

import servers as shared
from served import Clock
from servers import Server, ask, served, until
from simile._common import web
from simile.serving import http, turns
from simile.serving.guard import build_guard
from simile.serving.policy_file import load_policy
from simile.serving.server import _accept
from simile.serving.service import Service
from simile.serving.state import Options, ServerState
from simile.serving.turns import BURST, NUISANCE, OFFENCE, Allowance, measure_frame
from simile.serving.websocket import ConnectionRegistry
from test_serving import certificate

contexts, policies = shared.contexts, shared.policies


def silent(stack: ExitStack, address: str, count: int) -> list[socket.socket]:
    """Open connections that say nothing."""
    host, port = urlsplit(address).hostname, urlsplit(address).port
    return [stack.enter_context(socket.create_connection((host, port), timeout=10)) for _ in range(count)]


def elsewhere(server: Server) -> socket.socket:
    """Return a connection from another address of this machine."""
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port), 10, ("127.0.0.2", 0))


def write_request(what: str, server: Server, length: int) -> str:
    return f"{what} HTTP/1.1\r\nHost: {urlsplit(server.http).netloc}\r\nContent-Length: {length}\r\n\r\n"


def is_closed(peer: socket.socket) -> bool:
    """Tell whether the server hangs up; it must."""
    try:
        while peer.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


# --------------------------------------------------------------------------------------------------- silent connections


@pytest.mark.parametrize("tls", [False, pytest.param(True, marks=pytest.mark.long)])
def test_who_speaks_is_heard_however_many_are_silent(policies: Any, contexts: Any, tmp_path: Path, tls: bool):
    arguments, options, verify = ["--max-connections", "4", "--patience", "20"], {}, False
    if tls:
        cert, key = certificate(tmp_path)
        arguments += ["--certfile", str(cert), "--keyfile", str(key)]
        options["ssl"] = verify = ssl.create_default_context(cafile=str(cert))
    with served(policies["served"], *arguments) as server, ExitStack() as stack:
        with server.connect("/before", **options) as before:
            ask(before, {"x": contexts[0].tolist()})
            strangers = silent(stack, server.url, 300) + silent(stack, server.http, 300)
            for peer in strangers[::3]:
                peer.send(b"GET /hea")
            for path in ("/health", "/ready", "/metrics"):
                assert server.get(path, verify=verify).status_code == 200
            assert "a" in ask(before, {"x": contexts[1].tolist()})
            with server.connect("/after", **options) as after:
                assert "a" in ask(after, {"x": contexts[0].tolist()})
        assert tls or all(map(is_closed, strangers[:20] + strangers[300:320]))  # they made room
        silent(stack, server.http, 1)[0].send(f"{write_request('POST /rollouts', server, 9000)}[".encode())
        assert server.stop() == (0, "")


@pytest.fixture(scope="module")
def strict(policies: Any) -> Iterator[Server]:
    with served(policies["served"], "--patience", "0.4", "--max-connections", "4") as running:
        yield running
        assert running.stop() == (0, "")


def test_who_keeps_the_server_waiting_is_hung_up_on(strict: Server):
    with ExitStack() as stack:
        waiting = silent(stack, strict.url, 1) + silent(stack, strict.http, 4)
        for peer, words in zip(
            waiting[2:],
            (
                "GET /health HTTP/1.1\r\nX-Slow",
                write_request("GET /health", strict, 9),
                write_request("POST /rollouts", strict, 9000) + "{",
            ),
            strict=True,
        ):
            peer.send(words.encode())
        assert all(map(is_closed, waiting))


def test_without_files_the_server_goes_on_and_says_so_once(policies: Any, contexts: Any):
    with served(policies["served"]) as server, ExitStack() as stack:
        with server.connect("/before") as before:
            ask(before, {"x": contexts[0].tolist()})
            pid = server.process.pid
            usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            used = max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 4, usual[1]))
            silent(stack, server.url, 30)
            until(lambda: server.errors.read_text())
            for x in contexts[1:60]:
                assert "a" in ask(before, {"x": x.tolist()})
            resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
            with server.connect("/after") as after:
                assert "a" in ask(after, {"x": contexts[0].tolist()})
        code, errors = server.stop()
        assert (code, errors.count("\n")) == (0, 1)
        assert "Too many open files" in errors


def test_a_limit_of_files_that_is_too_low_is_said(policies: Any, monkeypatch: Any, caplog: Any):
    from simile.serving import server

    monkeypatch.setattr(resource, "getrlimit", lambda _: (700, 700))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    apart = server.STRANGERS + server.web.CONNECTIONS + server.SPARE_FILES
    assert server._allow_files(700 - apart) == 700 - apart
    assert not caplog.text
    assert server._allow_files(1024) == 700 - apart
    assert "--max-connections 1024" in caplog.text
    assert "LimitNOFILE" in caplog.text


def test_one_address_has_its_share_of_the_connections(strict: Server):
    with ExitStack() as stack:
        for name in "abc":
            stack.enter_context(strict.connect(f"/{name}"))
        with pytest.raises(InvalidStatus) as refusal, strict.connect("/d"):
            pass
        assert refusal.value.response.status_code == 503
        assert "--max-per-address" in refusal.value.response.body.decode()


def test_one_address_has_its_share_of_the_streams(policies: Any, contexts: Any):
    frame = {"x": contexts[0].tolist()}
    with served(policies["served"], "--max-streams", "4") as server:
        for _ in range(2):  # those of a connection that has gone are counted, too
            with server.connect("") as greedy:
                for name in "abc":
                    assert "a" in ask(greedy, {**frame, "stream": name})
                assert "3 of 4 streams" in ask(greedy, {**frame, "stream": "d"})["error"]
        with server.connect("/d", sock=elsewhere(server)) as other:
            assert "a" in ask(other, frame)


# ----------------------------------------------------------------------------------------------------------- fair turns


def test_an_allowance_is_a_seconds_worth_at_once_and_then_a_rate():
    clock = Clock()
    allowance = Allowance(clock, frame=100)

    def send(messages: int, size: int = 0) -> float:
        for _ in range(messages):
            allowance.take(size)
        return allowance.end_turn(messages * size, 10.0)

    assert send(10) == 0.0
    assert send(1) == pytest.approx(0.1)
    clock.now += 0.1
    assert send(0) == 0.0
    assert send(2, size=400) == pytest.approx(1.0)  # each as long as four frames
    clock.now += 100.0
    assert send(10) == 0.0  # and no more than a second's worth is saved up
    assert send(1) > 0.0
    clock.now += BURST + 0.1
    allowance.take(0)
    allowance.charge()
    assert allowance.end_turn(0, 10.0) == pytest.approx((1 + NUISANCE) / 10.0 - BURST)
    clock.now += 10.0
    allowance.take(300)
    allowance.charge()
    assert allowance.spent == 1 + 4 * NUISANCE


def test_who_goes_on_for_too_long_has_abused_it_and_who_rests_has_not():
    clock = Clock()
    allowance = Allowance(clock, frame=100)

    def flood(seconds: float) -> None:
        end = clock.now + seconds
        while clock.now < end:
            allowance.spent += 50
            clock.now += allowance.end_turn(0, 10.0)

    flood(OFFENCE - 5.0)
    assert not allowance.is_abused
    clock.now += BURST
    allowance.end_turn(0, 10.0)
    flood(OFFENCE - 5.0)
    assert not allowance.is_abused
    flood(11.0)
    assert allowance.is_abused


def test_an_ordinary_frame_is_one_or_two_units_in_any_form():
    names = [f"feature_{i}" for i in range(200)]
    values = np.random.default_rng(0).normal(size=200).tolist()
    for x in (values, dict(zip(names, values, strict=True))):
        assert len(json.dumps({"n": 10**9, "stream": "s" * 64, "x": x})) // measure_frame([*names, "pan"]) <= 1


def build_flood(kind: str, context: list[float]) -> tuple[bytes, int]:
    """Return two megabytes of one kind of message, and how many there are."""
    one = {
        "malformed": b'{"y": 1}',
        "brace": b"{",
        "open": b'{"open": {}}',
        "ping": b"p",
        "list": b'{"x": [' + b"0," * 1800 + b"0]}",
        "names": json.dumps({"x": {f"no_{i}": 0.5 for i in range(200)}}).encode(),
        "frame": json.dumps({"x": context}).encode(),
    }[kind]
    message = Frame(Opcode.PING if kind == "ping" else Opcode.TEXT, one).serialize(mask=True)
    return message * ((2 << 20) // len(message)), (2 << 20) // len(message)


@pytest.fixture(scope="module")
def beside(policies: Any) -> Iterator[Server]:
    with served(policies["served"], "--max-message", "4096") as running:
        yield running
        assert running.stop() == (0, "")


@pytest.mark.parametrize("kind", ["malformed", "brace", "open", "ping", "list", "names", "frame"])
def test_beside_a_flood_everybody_has_a_turn(beside: Server, contexts: Any, kind: str):
    """A flood is taken by a turn's worth at a time, and is not through when others have had many turns."""
    flood, messages = build_flood(kind, contexts[0].tolist())

    def count() -> float:
        """Return how much of it was dealt with, what was left of the floods before included."""
        return sum(beside.metric(f"simile_{name}_total") for name in ("opened", "resumed", "frames"))

    with beside.connect("/victim") as victim, beside.connect(f"/{kind}") as flooding:
        ask(victim, {"x": contexts[0].tolist()})
        before, throttled = count(), beside.metric("simile_throttled_total")
        flooding.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        flooding.socket.send(flood, socket.MSG_DONTWAIT)
        for x in contexts[:20]:
            assert "a" in ask(victim, {"x": x.tolist()})
        until(lambda: beside.metric("simile_throttled_total") > throttled)
        assert count() - before < messages
        flooding.socket.close()  # by a reset, so that nothing of it is left


def test_a_flood_that_does_not_end_is_hung_up_on_with_a_reason(policies: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "OFFENCE", 0.1)

    async def live() -> bytes:
        options, loaded = Options(policies["served"]), load_policy(policies["served"], ())
        state = ServerState(options, loaded, Service(loaded.policy, max_streams=4))
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        port = listening.getsockname()[1]
        registry = ConnectionRegistry(state, build_guard("127.0.0.1", port, None, ()))
        accepting = asyncio.create_task(_accept(listening, registry, None))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"GET /streams/a HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(Frame(Opcode.TEXT, b"{").serialize(mask=True) * 5000)
        said = await asyncio.wait_for(reader.read(), 20.0)
        writer.close()
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)
        assert not registry.connections
        assert not registry.addresses
        return said

    assert b"\x03\xf0this connection goes on sending" in asyncio.run(live())  # 1008


# --------------------------------------------------------------------------------------------------------------- bodies


def test_uploads_that_are_broken_off_leave_no_trace(strict: Server):
    with ExitStack() as stack:
        for peer in silent(stack, strict.http, 20):
            peer.send((write_request("POST /rollouts", strict, 9000) + "{").encode())
            peer.close()
        assert strict.get("/health").status_code == 200  # and what it has logged is looked at in the end


def test_what_can_be_asked_is_worked_out_once(monkeypatch: pytest.MonkeyPatch):
    built: list[Any] = []
    monkeypatch.setattr(http, "build_document", lambda *sizes, **options: built.append(sizes) or {})
    state: Any = SimpleNamespace(
        policy=SimpleNamespace(n_actions=1), n_contexts=6, options=SimpleNamespace(patience=1.0)
    )
    api = http.HttpApi(state, token=False)
    request: Any = None
    for _ in range(3):
        asyncio.run(api.openapi(request))
    assert built == [(6, 1)]


@pytest.mark.parametrize("pipelined", [False, True])
def test_requests_take_their_share_of_the_time_and_no_more(beside: Server, pipelined: bool):
    """On new connections, or many on one: what a second's worth is cannot be exceeded, for it is held back unread."""
    address = urlsplit(beside.http)
    request, answered = f"GET /health HTTP/1.1\r\nHost: {address.netloc}\r\n".encode(), 0
    begin = time.monotonic()
    end = begin + 1.0
    while time.monotonic() < end:
        with socket.create_connection((address.hostname, address.port), 10, ("127.0.0.2", 0)) as stranger:
            stranger.sendall((request + b"\r\n") * 1000 if pipelined else request + b"Connection: close\r\n\r\n")
            while time.monotonic() < end and (got := stranger.recv(1 << 16)):
                answered += got.count(b"HTTP/1.1 200")
    assert 0 < answered <= (time.monotonic() - begin + 1.0) * web.PACE / web.REQUEST
    assert beside.get("/health").status_code == 200  # of another address, whose turn it is at once
