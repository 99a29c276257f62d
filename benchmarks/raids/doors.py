"""Strangers at the door: connections that say nothing, or little, or nonsense, and requests with forged headers."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from raids import wire
from raids.raid import CONTEXT, Raid, attack
from raids.targets import Broken, Service, until

SECRET = "a-long-secret-of-the-service"
LOG_MOST = 100_000  # bytes that strangers may make a server say
PROBE = 3.0  # seconds for a probe while thousands knock at once
PROMISED = ("content-security-policy", "x-content-type-options", "referrer-policy", "cache-control")


@contextmanager
def held(ports: list[int], n: int, say: bytes = b"", *, source: str = wire.ELSEWHERE) -> Iterator[list[socket.socket]]:
    """Hold connections of a stranger that say this and no more, or as many as are let in."""
    room = wire.raise_file_limit(n + 200) - 100
    opened: list[socket.socket] = []
    try:
        for i in range(min(n, room)):
            with contextlib.suppress(OSError):
                opened.append(wire.connect(ports[i % len(ports)], source=source, timeout=1.0))
                opened[-1].sendall(say)
        yield opened
    finally:
        for one in opened:
            one.close()


def _stand_by(raid: Raid, say: bytes, n: int, *, streams: bool = True) -> str:
    """Hold connections and see that nobody else notices."""
    snapshots = raid.folder / "streams.safetensors"
    options = ("--token-file", str(raid.folder / "token"), "--snapshots", str(snapshots), "--snapshot-every", "0.5")
    (raid.folder / "token").write_text(SECRET)
    (raid.folder / "token").chmod(0o600)
    files = {"files": 1024} if raid.quick else {}
    with Service(raid.policy, *options, **files) as service:
        service.token = SECRET
        with service.open("before") as before:
            before.ask({"x": CONTEXT, "n": 0})
            written = service.count("snapshots")
            ports = [service.port, service.http] if streams else [service.http]
            with held(ports, n, say) as connections:
                slowest = 0.0
                for _ in range(raid.amount(20, 4)):
                    slowest = max(slowest, service.check_health(PROBE))
                    time.sleep(0.25)
                try:
                    with service.open("after") as after:
                        after.ask({"x": CONTEXT, "n": 0})
                except (OSError, wire.Refused) as error:
                    raise Broken(f"no new stream while {len(connections)} connections are held: {error}") from None
                before.ask({"x": CONTEXT, "n": 1})
                if not until(lambda: service.count("snapshots") > written + 1, 5.0):
                    raise Broken("no snapshot was written meanwhile")
        service.check()
        if service.log_size > LOG_MOST:
            raise Broken(f"{service.log_size / 1e6:.1f} MB of log")
        return (
            f"{len(connections)} of {n} held; /health in {1e3 * slowest:.0f} ms at most; log {service.log_size} bytes"
        )


@attack("silent connections", "2")
def stay_silent(raid: Raid) -> str:
    """Open many connections and say nothing."""
    return _stand_by(raid, b"", raid.amount(2200, 1200))


@attack("unfinished headers", "2")
def begin_headers(raid: Raid) -> str:
    """Open many connections and never finish the first header."""
    return _stand_by(raid, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", raid.amount(1500, 1200))


@attack("silent connections are ended", "2")
def wait_for_the_end(raid: Raid) -> str:
    """Wait until who says nothing, or no whole header, is hung up on."""
    with Service(raid.policy) as service:
        begin, most = time.monotonic(), raid.amount(60, 45)
        kinds = {
            "no byte to the streams": (service.port, b""),
            "no byte to HTTP": (service.http, b""),
            "half a header to the streams": (service.port, b"GET /streams/x HT"),
            "half a header to HTTP": (service.http, b"GET /health HT"),
            "half a body to HTTP": (
                service.http,
                b"POST /rollouts HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999\r\n\r\n{",
            ),
        }
        waiting = {}
        for name, (port, say) in kinds.items():
            waiting[name] = wire.connect(port, source=wire.ELSEWHERE)
            waiting[name].sendall(say)
            waiting[name].setblocking(False)
        while waiting and time.monotonic() < begin + most:
            for name, one in list(waiting.items()):
                with contextlib.suppress(BlockingIOError):
                    try:
                        gone = not one.recv(4096)
                    except ConnectionError:
                        gone = True
                    if gone:
                        waiting.pop(name).close()
            time.sleep(0.1)
        for one in waiting.values():
            one.close()
        if waiting:
            raise Broken(f"still open after {most} s: {', '.join(waiting)}")
        return f"all ended within {time.monotonic() - begin:.0f} s"


@attack("garbage connections", "2")
def send_garbage(raid: Raid) -> str:
    """Open connections that send noise and leave."""
    n = raid.amount(4000, 200)
    with Service(raid.policy) as service:
        before = service.memory
        for i in range(n):
            noise = raid.rng.randbytes(raid.rng.randrange(1, 400))
            if i % 3 == 0:
                noise = b"GET /streams/x HTTP/1.1\r\n" + noise
            with contextlib.suppress(OSError), wire.connect((service.port, service.http)[i % 2]) as one:
                one.sendall(noise)
        service.check_health()
        with service.open("after") as after:
            after.ask({"x": CONTEXT, "n": 0})
        service.check()
        if service.log_size > LOG_MOST or service.memory > before + 100.0:
            raise Broken(f"log of {service.log_size} bytes, {service.memory - before:+.0f} MB")
        return f"{n} connections; {service.memory - before:+.1f} MB; log {service.log_size} bytes"


@attack("unfinished bodies", "9")
def leave_bodies(raid: Raid) -> str:
    """Send most of a large body, many times, and wait: what was sent must not pile up."""
    n, size = raid.amount(400, 60), 2_000_000
    with Service(raid.policy) as service:
        before = service.memory
        head = f"POST /rollouts HTTP/1.1\r\nHost: 127.0.0.1:{service.http}\r\nContent-Length: {size + 1}\r\n\r\n"
        with held([service.http], n) as connections:
            for one in connections:
                one.settimeout(0.2)
                with contextlib.suppress(OSError):
                    one.sendall(head.encode() + b" " * size)
            time.sleep(1.0)
            grown = service.memory - before
            service.check_health()
        service.check()
        if grown > 150.0:
            raise Broken(f"{n} unfinished bodies hold {grown:.0f} MB")
        return f"{n} bodies of 2 MB hold {max(grown, 0.0):.0f} MB"


@attack("aborted bodies", "9")
def abort_bodies(raid: Raid) -> str:
    """Break requests off in the middle of a body: no traceback, and no line for each."""
    n = raid.amount(2000, 100)
    with Service(raid.policy) as service:
        head = f"POST /rollouts HTTP/1.1\r\nHost: 127.0.0.1:{service.http}\r\nContent-Length: 9999\r\n\r\n"
        before = service.log_size
        for _ in range(n):
            wire.break_off(service.http, head.encode() + b"[" * 200)
        service.check_health()
        service.check()
        grown = service.log_size - before
        if grown > 20 * n and grown > LOG_MOST // 10:
            raise Broken(f"{grown} bytes of log")
        return f"{n} requests broken off, {grown} bytes of log"


def _hosts(port: int) -> list[str]:
    return [
        *("evil.example", "127.0.0.1.evil.example", f"evil.example:{port}", "localhost.evil.example", ""),
        *("[::1].evil.example", "[::1]evil.example", f"127.0.0.1:{port}.evil.example", "127.0.0.1:evil.example"),
        *("127.0.0.1@evil.example", "evil.example#127.0.0.1", "localhost:1:2", "[127.0.0.1", "0x7f.1.evil.example"),
    ]


@attack("Host and Origin tricks", "10")
def forge_hosts(raid: Raid) -> str:
    """Name other hosts, as a page does whose name was pointed here, and other origins."""
    tried, allowed = 0, "https://control.example"
    with Service(raid.policy, "--allow-origin", allowed) as service:
        tricks = [(f"Host: {host}",) for host in _hosts(service.http)]
        tricks += [("Host: evil.example", f"Host: 127.0.0.1:{service.http}"), ("X-Forwarded-Host: 127.0.0.1",)]
        right = f"Host: 127.0.0.1:{service.http}"
        tricks += [
            (right, f"Origin: {origin}")
            for origin in ("null", "https://evil.example", f"{allowed}.evil.example", "http://127.0.0.1", "", "file://")
        ]
        for trick in tricks:
            tried += 1
            status = wire.ask(service.http, "/policy", headers=trick).status
            if status not in (0, 400, 403, 421):
                raise Broken(f"HTTP answers {status} to {trick}")
            if not any(line.startswith("Host") for line in trick):
                continue  # the handshake below names the right one where nothing is said
            try:
                wire.WebSocket(service.port, "/streams/x", headers=trick).socket.close()
            except (wire.Refused, OSError):
                continue
            raise Broken(f"the stream port lets in {trick}")
        absolute = wire.ask(service.http, "http://evil.example/policy", headers=("Host: evil.example",)).status
        if absolute == 200:
            raise Broken("an absolute address of another host is answered")
        service.check()
    return f"{tried} forged headers, on both ports"


@attack("rebinding with --insecure", "10")
def rebind(raid: Raid) -> str:
    """Point a name at a service that listens to all: without a token, only a list of hosts keeps that out."""
    with Service(raid.policy, "--host", "0.0.0.0", "--insecure") as service:
        if wire.ask(service.http, "/policy").status != 200:
            raise Broken("the service does not answer to its own address")
        for host in ("evil.example", f"evil.example:{service.http}", "127.0.0.1.evil.example"):
            status = wire.ask(service.http, "/policy", headers=(f"Host: {host}",)).status
            if status == 200:
                raise Broken(f"it answers to the host {host}")
    return "foreign names are refused"


@attack("token tricks", "tokens")
def guess_tokens(raid: Raid) -> str:
    """Come without the token, or with something like it."""
    token = SECRET
    tricks = [
        *((), ("Authorization:",), ("Authorization: Bearer",), ("Authorization: Bearer ",)),
        *((f"Authorization: Bearer {token[:-1]}",), (f"Authorization: Bearer {token}x",)),
        *((f"Authorization: Bearer {token.upper()}",), (f"Authorization: Basic {token}",)),
        *((f"Cookie: token={token}",), (f"Cookie: simile-studio={token}",), (f"X-Token: {token}",)),
        *((f"Authorization: Bearer {token[:-1]}\xff",), ("Authorization: Bearer " + "x" * 30_000,)),
    ]
    with Service(raid.policy, token=token) as service:
        for trick in tricks:
            for path in ("/policy", "/streams", "/metrics", "/policy?token=", f"/policy?token={token[:-1]}"):
                status = wire.ask(service.http, path, headers=(f"Host: 127.0.0.1:{service.http}", *trick)).status
                if status == 200:
                    raise Broken(f"{path} is answered with {trick}")
            try:
                wire.WebSocket(service.port, "/streams/x", headers=trick).socket.close()
            except (wire.Refused, OSError):
                continue
            raise Broken(f"the stream port lets in {trick}")
        if service.get("/policy").status != 200:
            raise Broken("the right token is refused")
        service.check()
        if token in service.log:
            raise Broken("the token is in the log")
    return f"{len(tricks)} forged tokens, on both ports"


@attack("headers of all answers", "10")
def read_headers(raid: Raid) -> str:
    """Make the server answer in every way that it has; each answer must carry the guard's headers."""
    with Service(raid.policy, token=SECRET) as service:
        host, right = f"Host: 127.0.0.1:{service.http}", f"Authorization: Bearer {SECRET}"
        asked = {
            "200": wire.ask(service.http, "/health"),
            "401": wire.ask(service.http, "/policy"),
            "403": wire.ask(service.http, "/policy", headers=(host, right, "Origin: https://evil.example")),
            "404": wire.ask(service.http, "/%0d%0aSet-Cookie:%20a=b", headers=(host, right)),
            "405": wire.ask(service.http, "/policy", method="PATCH", headers=(host, right)),
            "421": wire.ask(service.http, "/policy", headers=("Host: evil.example",)),
            "422 or 400": wire.ask(service.http, "/rollouts", method="POST", headers=(host, right), body=b"{"),
            "what is no HTTP": wire.send_raw(service.http, b"\x00\x01nonsense\r\n\r\n"),
            "an endless header": wire.ask(service.http, "/", headers=(host, "X: " + "x" * 200_000)),
            "streams, 401": wire.ask(service.port, "/streams/x", headers=(host, *_upgrade())),
            "streams, 404": wire.ask(service.port, "/nothing", headers=(host, right, *_upgrade())),
        }
        for name, reply in asked.items():
            if reply.header("set-cookie"):
                raise Broken(f"a header was smuggled into the answer {name}")
            lacking = [one for one in PROMISED if reply.status and reply.header(one) is None]
            if lacking:
                raise Broken(f"the answer {name} ({reply.status}) lacks {', '.join(lacking)}")
        service.check()
    return f"{len(asked)} kinds of answers"


def _upgrade() -> tuple[str, ...]:
    return ("Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {wire.KEY}", "Sec-WebSocket-Version: 13")


@attack("malformed, huge and nested messages", "messages")
def send_nonsense(raid: Raid) -> str:
    """Send what cannot be read: each is answered by a sentence, or the connection is closed with a code."""
    n, answered, closed = raid.amount(5_000, 400), 0, 0
    with Service(raid.policy) as service:
        before = service.memory
        lines = [
            service.open(f"nonsense-{i}") for i in range(8)
        ]  # one alone would be read no further, for it is a flood
        for i in range(n):
            ws = lines[i % len(lines)]
            message, kind = _nonsense(raid)
            try:
                ws.send(message, kind)
                ws.send(b"", wire.PING)
                while (said := ws.receive())[0] not in (wire.PONG, wire.CLOSE):
                    answered += 1
                    if any(word in said[1] for word in (b"Traceback", b"site-packages", b".py")):
                        raise Broken(f"an answer tells about the inside: {said[1][:200]!r}")
                if said[0] == wire.CLOSE:
                    raise ConnectionAbortedError
            except OSError:
                closed += 1
                ws.socket.close()
                lines[i % len(lines)] = service.open(f"nonsense-{i % len(lines)}")
        for ws in lines:
            ws.socket.close()
        service.check_health()
        service.check()
        if service.memory > before + 60.0:
            raise Broken(f"{n} messages leave {service.memory - before:.0f} MB behind")
        return f"{n} messages: {answered} answers, {closed} closed; {service.memory - before:+.1f} MB"


def _nonsense(raid: Raid) -> tuple[bytes, int]:
    rng = raid.rng
    right = json.dumps({"n": rng.randrange(100), "x": CONTEXT}).encode()
    match rng.randrange(9):
        case 0:
            return rng.randbytes(rng.randrange(300)), rng.choice((wire.TEXT, wire.BINARY))
        case 1:
            return right[: rng.randrange(len(right))], wire.TEXT
        case 2:
            damaged = bytearray(right)
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            return bytes(damaged), wire.TEXT
        case 3:
            depth = rng.choice((10, 1_000, 20_000))
            return b'{"x":' + b"[" * depth + b"]" * depth + b"}", wire.TEXT
        case 4:
            return b'{"x":[' + b"1e400," * rng.randrange(9_000) + b"1]}", wire.TEXT
        case 5:
            value = rng.choice((2**53, -1, 10**400, 1e308, "x", None, True, [], {}))
            return json.dumps({rng.choice(("n", "x", "override", "open", "close", "stream")): value}).encode(), 1
        case 6:
            return b"\x91" * rng.choice((10, 1_000, 20_000)) + b"\xc0", wire.BINARY
        case 7:
            return rng.choice((b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff")), wire.BINARY
        case _:
            return b'{"' + b"k" * rng.choice((10, 60_000, 70_000)) + b'": 1}', wire.TEXT
