"""The studio's real server as a process: its doors, and that nothing is lost when it is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import studios as shared
from servers import until
from simile._common import locks
from simile._common.web import HEADERS
from studios import QUICK, Server, ready, served

games, server = shared.games, shared.server


def test_the_printed_address_opens_the_page(server: Server):
    with httpx.Client(follow_redirects=True, headers={"sec-fetch-site": "none"}) as browser:
        page = browser.get(f"{server.address}/?token={server.token}")
        assert (page.status_code, page.url.query, "static/studio.js" in page.text) == (200, b"", True)
        place = str(page.url)
        assert browser.get(f"{place}static/studio.js").headers["content-type"].startswith("text/javascript")
        assert browser.get(f"{place}favicon.ico").status_code == 204
    assert httpx.get(server.address).status_code == 403


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_no_command_of_any_process_holds_the_token(games: Path, tmp_path: Path):
    told, script = tmp_path / "told", tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$@" > {told}.new\nmv {told}.new {told}\n')
    script.chmod(0o755)
    words = [sys.executable, "-m", "simile", "studio", str(games), "--actions", "pan", "--port", "0"]
    with subprocess.Popen(
        [*words, "--folder", str(tmp_path / "studio")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "BROWSER": f"{script} %s &"},
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        address, _, token = address.partition("/?token=")
        server = Server(process, address, token)
        try:
            until(told.exists)
            with server.http as http:
                run = http.post("/api/runs", json={**QUICK, "data": ready(server)}).json()["id"]
            server.wait(run, "running")
            commands = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if os.access(file, os.R_OK)]
        finally:
            process.terminate()
    assert any(run.encode() in command for command in commands)
    assert not any(token.encode() in command for command in commands)
    page = tmp_path / "studio" / "open.html"
    assert told.read_text() == f"{page.as_uri()}\n"
    assert page.stat().st_mode & 0o077 == 0
    assert f'content="0;url={address}/?token={token}"' in page.read_text()


def test_a_foreign_page_reaches_neither_http_nor_websocket(server: Server):
    with server.http as http:
        assert http.get("/api/state", headers={"origin": "http://evil.example"}).status_code == 403
        assert http.get("/api/state", headers={"host": "evil.example"}).status_code == 421
    with pytest.raises(InvalidStatus) as refused, server.events(origin="http://evil.example"):
        pass
    assert refused.value.response.status_code == 403
    with pytest.raises(InvalidStatus), connect(server.address.replace("http:", "ws:") + "/api/events"):
        pass
    with server.events(origin=server.address) as socket:
        assert json.loads(socket.recv(timeout=10))["type"] == "state"
        socket.send("x" * 100_000)
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=10)


def test_every_answer_of_the_studio_carries_the_promised_headers(server: Server):
    def lacks(headers: Any) -> set[str]:
        return {name for name in HEADERS if name not in headers}

    bearer = {"authorization": f"Bearer {server.token}"}
    asked: list[tuple[int, str, str, dict[str, str], bytes]] = [
        (200, "GET", "/", bearer, b""),
        (200, "GET", f"/?token={server.token}", {}, b""),
        (303, "GET", f"/?token={server.token}", {"sec-fetch-site": "none"}, b""),
        (200, "GET", "/static/studio.js", bearer, b""),
        (200, "HEAD", "/static/studio.css", bearer, b""),
        (200, "GET", "/api/state", bearer, b""),
        (204, "GET", "/favicon.ico", bearer, b""),
        (400, "POST", "/api/runs", bearer, b"{"),
        (403, "GET", "/", {}, b""),
        (403, "GET", "/static/studio.js", {}, b""),
        (404, "GET", "/static/x", bearer, b""),
        (405, "PUT", "/api/state", bearer, b""),
        (413, "PUT", "/api/data/a.csv", bearer, b"1" * 1_100_000),
        (415, "PUT", "/api/data/a.exe", bearer, b"1"),
        (421, "GET", "/", {**bearer, "host": "evil.example"}, b""),
    ]
    for status, method, path, headers, body in asked:
        options = {"headers": headers, "content": body, "timeout": 30, "verify": False}
        found = httpx.request(method, f"{server.address}{path}", **options)
        assert (found.status_code, lacks(found.headers)) == (status, set()), (method, path)
        if method == "GET" and path == "/" and status == 200:
            assert "script-src 'self'" in found.headers["content-security-policy"]  # the page has one of its own
        elif "html" not in found.headers.get("content-type", ""):
            assert {n: found.headers[n] for n in HEADERS} == HEADERS
    events = f"ws{server.address[4:]}/api/events"
    for shown in ({}, {"origin": "http://evil.example"}):
        with pytest.raises(InvalidStatus) as refused, connect(events, additional_headers=shown):
            pass
        answer = refused.value.response
        assert (answer.status_code, lacks(answer.headers)) == (403, set())
        assert answer.body is not None
        assert "studio" in json.loads(answer.body)["error"]
    upgrade = f"GET /api/events HTTP/1.1\r\nHost: {server.address[7:]}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    for request in ("\0\0\r\n\r\n", f"{upgrade}Sec-WebSocket-Version: 99\r\nSec-WebSocket-Key: x\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])), timeout=10) as raw:
            raw.sendall(request.encode())
            first, *rest = raw.recv(65536).decode().partition("\r\n\r\n")[0].split("\r\n")
        assert (first.split()[1][0], lacks({line.partition(":")[0].lower() for line in rest})) == ("4", set())


def test_an_upload_that_is_too_large_is_answered_before_it_ends(server: Server):
    def endless() -> Iterator[bytes]:
        for _ in range(300):
            yield b"x" * 10_000

    with server.http as http:
        for content, headers in ((endless(), {}), (b"x" * 3_000_000, {}), (b"x" * 30_000_000, {})):
            answer = http.put("/api/data/large.csv", content=content, headers=headers)
            assert answer.status_code == 413
            assert "larger than 1 MB" in answer.json()["error"]
        assert http.put("/api/data/large.exe", content=b"x" * 30_000_000).status_code == 415
        assert http.get("/api/state").status_code == 200


@pytest.mark.long
def test_a_server_that_is_killed_loses_nothing(games: Path, tmp_path: Path):
    folder = tmp_path / "studio"
    asked = {**QUICK, "algorithm": "paper", "n_rounds": 12}
    with served(folder, games, "--actions", "pan") as first:
        data = ready(first)
        with first.http as http:
            running, waiting = (http.post("/api/runs", json={**asked, "data": data}).json()["id"] for _ in range(2))
        first.wait(running, "running", rounds=1)
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
    with served(folder) as second:
        assert second.token == first.token  # open pages find back
        with second.http as http:
            assert [d["id"] for d in http.get("/api/state").json()["data"]] == [data]
        for key in (running, waiting):
            run = second.wait(key, "done", "failed", "stopped")
            assert (run["status"], len(run["rounds"])) == ("done", 13)


@pytest.mark.parametrize("again", [False, pytest.param(True, marks=pytest.mark.long)])
def test_ctrl_c_interrupts_a_training_and_the_next_start_takes_it_up(games: Path, tmp_path: Path, again: bool):
    folder = tmp_path / "studio"
    with served(folder, games, "--actions", "pan") as first:
        with first.http as http:
            asked = {**QUICK, "data": ready(first), "algorithm": "paper", "n_rounds": 12}
            key = http.post("/api/runs", json=asked).json()["id"]
        first.wait(key, "running", rounds=1)
    assert first.process.returncode == 0
    assert not locks.is_held(folder / "runs" / key / "lock")
    if again:
        with served(folder) as second:
            assert second.wait(key, "done", "failed", "stopped")["status"] == "done"


def test_two_studios_stand_side_by_side_but_not_in_one_folder(server: Server, tmp_path: Path):
    with served(tmp_path / "studio") as other:
        assert other.address != server.address
        assert other.token != server.token
        with other.http as http:
            assert http.get("/api/state").json()["runs"] == []
        with httpx.Client(headers={"authorization": f"Bearer {server.token}"}) as wrong:
            assert wrong.get(f"{other.address}/api/state").status_code == 403
        command = [sys.executable, "-m", "simile", "studio", "--no-open", "--folder", str(tmp_path / "studio")]
        third = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert third.returncode == 2
        assert "another studio is at work" in third.stderr


def test_a_lock_lives_as_long_as_the_child_that_inherits_it(tmp_path: Path):
    lock = locks.acquire(tmp_path / "lock")
    assert lock is not None
    child = subprocess.Popen(["sleep", "60"], pass_fds=(lock,))
    os.close(lock)
    assert locks.is_held(tmp_path / "lock")
    child.kill()
    child.wait()
    assert not locks.is_held(tmp_path / "lock")
    assert not locks.is_held(tmp_path / "none")
