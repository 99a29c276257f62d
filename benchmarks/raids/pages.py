"""The studio: a page on this machine, attacked by other pages, by neighbours, and by what is uploaded."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

from raids import bombs, wire
from raids.raid import Raid, attack
from raids.targets import Broken, Studio, until

CSV = b"sequence,t,x_ball,a_pan\n" + b"".join(b"s,%d,%d,%d\n" % (i, i % 7, i % 5) for i in range(200))


def _begin_upload(studio: Studio, name: str, size: int) -> bytes:
    lines = (f"Host: 127.0.0.1:{studio.port}", f"Authorization: Bearer {studio.token}", f"Content-Length: {size}")
    return "\r\n".join((f"PUT /api/data/{name} HTTP/1.1", *lines, "", "")).encode()


@attack("aborted uploads", "9")
def abort(raid: Raid) -> str:
    """Break uploads off: a line of the log at most, and nothing is left on the disk."""
    n = raid.amount(500, 40)
    with Studio(raid.folder, "--no-open") as studio:
        before = studio.log_size
        for i in range(n):
            wire.break_off(studio.port, _begin_upload(studio, f"games-{i}.csv", 10_000) + CSV[:500])
        time.sleep(1.0)
        if studio.ask("/api/state").status != 200:
            raise Broken("the studio does not answer any more")
        studio.check()
        grown = studio.log_size - before
        left = [p.name for p in studio.folder.rglob("*") if p.is_file() and p.name.endswith((".tmp", ".csv"))]
        if grown > 20_000:
            raise Broken(f"{grown} bytes of log for {n} uploads")
        if left:
            raise Broken(f"left on the disk: {left[:3]}")
    return f"{n} uploads broken off, {grown} bytes of log"


@attack("unfinished uploads", "9")
def leave(raid: Raid) -> str:
    """Begin uploads and wait: the studio goes on, and does not keep them in memory."""
    n, size = raid.amount(60, 12), 8_000_000
    wire.raise_file_limit(n + 200)
    with Studio(raid.folder, "--no-open") as studio:
        studio.ask("/api/data/first.csv", method="PUT", body=CSV, timeout=60.0)  # which loads what uploads need
        before, opened = studio.memory, []
        try:
            for i in range(n):
                with contextlib.suppress(OSError):
                    opened.append(wire.connect(studio.port, timeout=2.0))
                    opened[-1].sendall(_begin_upload(studio, f"games-{i}.csv", size + 1) + b"1" * size)
            time.sleep(0.5)
            if studio.ask("/api/state").status != 200:
                raise Broken("the studio does not answer while they wait")
            grown = studio.memory - before
        finally:
            for one in opened:
                one.close()
        studio.check()
        if grown > 2.0 * n:  # a connection has buffers, but what has come is on the disk
            raise Broken(f"{n} unfinished uploads of 8 MB hold {grown:.0f} MB")
    return f"{n} uploads of 8 MB hold {max(grown, 0.0):.0f} MB"


@attack("other pages at the studio", "10")
def come_from_elsewhere(raid: Raid) -> str:
    """Ask as another page in the same browser, or under another name, or by half a token."""
    with Studio(raid.folder, "--no-open") as studio:
        host, right = f"Host: 127.0.0.1:{studio.port}", f"Authorization: Bearer {studio.token}"
        tricks = [
            *((host,), (host, "Authorization: Bearer "), (host, f"Authorization: Bearer {studio.token[:-1]}")),
            *((f"Host: evil.example:{studio.port}", right), (f"Host: 127.0.0.1:{studio.port}.evil.example", right)),
            *((f"Host: 127.0.0.1:{studio.port + 1}", right), ("Host: 127.0.0.1", right)),
            *((host, right, "Origin: null"), (host, right, "Origin: https://evil.example")),
            *((host, right, f"Origin: http://127.0.0.1:{studio.port + 1}"), (host, f"Cookie: token={studio.token}")),
        ]
        for trick in tricks:
            for path, method in (("/api/state", "GET"), ("/api/games", "POST"), ("/", "GET")):
                reply = wire.ask(studio.port, path, method=method, headers=trick)
                if reply.status in (200, 201, 303):
                    raise Broken(f"{method} {path} is answered {reply.status} to {trick}")
        for path in ("/api/data/..%2f..%2fetc%2fpasswd.csv", "/api/runs/..%2f..%2ftoken/policy", "/static/..%2ftoken"):
            reply = studio.ask(path, method="GET")
            if reply.status == 200 or studio.token.encode() in reply.body:
                raise Broken(f"{path} is answered")
        studio.check()
    return f"{len(tricks)} ways to come, none let in"


@attack("the studio's token and cookie", "10")
def steal(raid: Raid) -> str:
    """Look for the token in the list of processes, and for a cookie that other ports of this host would get."""
    seen = raid.folder / "opened"
    browser = raid.folder / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$*" > {seen}\n')
    browser.chmod(0o755)
    with Studio(raid.folder, "--open", environment={"BROWSER": f"{browser} %s"}) as studio:
        until(seen.exists, 5.0)
        until(lambda: seen.read_text(), 1.0)
        shown = seen.read_text()
        if not studio.token:
            raise Broken("the folder has no token")
        for line in (*_command_lines(), shown):
            if studio.token in line:
                raise Broken("the token is in the list of processes, as what the browser is started with")
        reply = wire.ask(studio.port, f"/?token={studio.token}")
        cookie = (reply.header("set-cookie") or "").lower()
        parts = [part.strip() for part in cookie.split(";")]
        if cookie and ("path=/" in parts or not any(part.startswith("path=") for part in parts)):
            raise Broken(f"the cookie goes to every port of this host: {'; '.join(parts[1:])}")
        if cookie and not ("httponly" in parts and "samesite=strict" in parts):
            raise Broken(f"the cookie is {'; '.join(parts[1:])}")
        studio.check()
    return "the token is in no command line, and its cookie no other port's"


def _command_lines() -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(process.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
    return found


@attack("uploads that others can read", "10")
def peek(raid: Raid) -> str:
    """Look into the studio's folder as a neighbour."""
    umask = os.umask(0o022)
    try:
        with Studio(raid.folder, "--no-open") as studio:
            reply = studio.ask("/api/data/games.csv", method="PUT", body=CSV, timeout=60.0)
            if reply.status != 201:
                raise Broken(f"the upload is answered {reply.status}: {reply.body[:200]!r}")
            found = [p for p in studio.folder.rglob("*") if not _is_hidden(p, studio.folder)]
    finally:
        os.umask(umask)
    if found:
        raise Broken(f"others can read {[str(p.relative_to(raid.folder)) for p in found[:4]]}")
    return "nothing in the folder is open to others"


def _is_hidden(path: Path, root: Path) -> bool:
    """Whether others cannot get at a path: by its own mode, or by that of a folder above it."""
    chain = [path, *path.parents][: len(path.relative_to(root).parts) + 1]
    return any(not stat.S_IMODE(p.stat().st_mode) & 0o077 for p in chain)


@attack("decompression bombs in the studio", "15")
def bomb(raid: Raid) -> str:
    """Upload small files that become large: they are refused, and the studio goes on."""
    size = raid.amount(2_000, 800)  # MB
    with Studio(raid.folder, "--no-open", "--max-upload", "20", "--max-memory", bombs.MAX_MEMORY) as studio:
        said = []
        for name, make in bombs.BOMBS.items():
            data = make(size)
            reply = studio.ask(f"/api/data/{name}", method="PUT", body=data, timeout=100.0)
            state = studio.ask("/api/state")
            if state.status != 200:
                raise Broken(f"{name}: the studio does not answer any more")
            if reply.status == 201 and b'"ready"' in reply.body:
                raise Broken(f"{name}: {len(data) / 1e6:.1f} MB were taken, which become {size} MB")
            said.append(f"{name} {reply.status}")
        studio.check()
        if studio.most_memory > 900.0:
            raise Broken(f"the studio took {studio.most_memory:.0f} MB")
    return ", ".join(said)


@attack("names that forge the studio's log", "9")
def forge(raid: Raid) -> str:
    """Upload files whose names, and whose columns, hold line ends and escapes."""
    forged = b"a\nsimile: the policy 0000 is at work\x1b[2J"
    with Studio(raid.folder, "--no-open") as studio:
        for name in ("%0asimile:%20the%20policy%200000%1b[2J.csv", "a%00b.csv", "%e2%80%ae.csv", "x" * 300 + ".csv"):
            studio.ask(f"/api/data/{name}", method="PUT", body=b'"' + forged + b'",a_pan\n1,2\n', timeout=30.0)
        studio.ask("/api/%0asimile:%20the%20policy%200000%1b[2J")
        studio.check()
        if "\x1b" in studio.log or "policy 0000" in studio.log:
            raise Broken("a stranger's line is in the log")
    return "no line is theirs"
