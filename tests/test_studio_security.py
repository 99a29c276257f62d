"""Who gets into the studio: tokens, cookies, hosts and origins, on the app without a socket."""

from __future__ import annotations

import pytest
from starlette.websockets import WebSocketDisconnect

import simile
import studios as shared
from simile._common.web import list_hosts
from simile.studio.server import listen
from studios import EVENTS, HERE, TOKEN, TestClient

workspace, client = shared.workspace, shared.client


def stranger(client: TestClient) -> TestClient:
    return TestClient(client.app, base_url=f"http://{HERE}", follow_redirects=False)


def test_nobody_gets_in_without_the_token(client: TestClient):
    other = stranger(client)
    for path in ("/api/state", "/static/studio.js", "/api/runs/00000000/policy", "/nothing"):
        answer = other.get(path)
        assert answer.status_code == 403
        assert "token" in answer.json()["error"]
    page = other.get("/")
    assert page.status_code == 403
    assert page.headers["content-type"].startswith("text/html")
    for wrong in ("", "x", TOKEN[:-1], TOKEN + "x", "ü"):
        assert other.get("/api/state", params={"token": wrong}).status_code == 403
        assert other.get("/api/state", headers={"cookie": "simile-studio-8765=x"}).status_code == 403
    assert other.get("/api/state", params={"token": TOKEN}).status_code == 200
    with pytest.raises(WebSocketDisconnect) as closed, other.websocket_connect(EVENTS):
        pass
    assert closed.value.code == 4403


def test_the_printed_address_hands_out_a_cookie_and_hides_the_token(client: TestClient):
    other = stranger(client)
    welcome = other.get("/", params={"token": TOKEN})
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
    cookie = welcome.headers["set-cookie"]
    for word in ("simile-studio-8765=", "HttpOnly", "SameSite=strict", "Path=/"):
        assert word in cookie
    assert other.get("/api/state").status_code == 200
    page = other.get("/")
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "evil.example:8765", "localhost.:8765"])
def test_a_foreign_host_is_refused(host: str, client: TestClient):
    answer = client.get("/api/state", headers={"host": host})
    assert answer.status_code == 421
    assert "answers to" in answer.json()["error"]
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(EVENTS, headers={"host": host}):
        pass


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:8765", "http://127.0.0.1:1"])
def test_a_foreign_page_is_refused(origin: str, client: TestClient):
    answer = client.post("/api/games", json={}, headers={"origin": origin})
    assert answer.status_code == 403
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(EVENTS, headers={"origin": origin}):
        pass


@pytest.mark.parametrize("name", ["127.0.0.1:8765", "localhost:8765", "[::1]:8765", "LOCALHOST:8765"])
def test_this_machines_own_names_are_let_in(name: str, client: TestClient):
    answer = client.get("/api/state", headers={"host": name, "origin": f"http://{name}".lower()})
    assert answer.status_code == 200
    for header in ("x-content-type-options", "referrer-policy", "cache-control", "content-security-policy"):
        assert header in answer.headers


def test_on_the_port_of_the_web_a_browser_leaves_the_port_out():
    assert {"localhost", "localhost:80"} <= list_hosts(80)
    assert "[fe80::1]:8000" in list_hosts(8000, "fe80::1")


def test_a_server_says_where_it_cannot_listen():
    with pytest.raises(simile.SimileError, match=r"--host must be the name or address .*'0\.0\.0\.0'"):
        listen("0.0.0.0", 0)
    with listen("127.0.0.1", 0) as taken, pytest.raises(simile.SimileError, match=r"cannot be opened: .* in use"):
        listen("127.0.0.1", taken.getsockname()[1])
