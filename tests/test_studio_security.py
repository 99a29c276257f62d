"""Who gets into the studio: tokens, cookies, hosts and origins, on the app without a socket."""

from __future__ import annotations

import re

import httpx
import pytest
from starlette.websockets import WebSocketDisconnect

import simile
import studios as shared
from simile._common.web import list_hosts
from simile.studio.server import build_app, listen
from simile.studio.workspace import Workspace
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
    with pytest.raises(WebSocketDisconnect) as refused, other.websocket_connect(EVENTS):
        pass
    assert isinstance(refused.value, httpx.Response)  # as the test client tells it
    assert refused.value.status_code == 403
    assert "token" in refused.value.json()["error"]


def test_the_printed_address_hands_out_a_cookie_and_hides_the_token(client: TestClient):
    other = stranger(client)
    welcome = other.get("/", params={"token": TOKEN})
    place = welcome_place(welcome)
    assert (welcome.status_code, TOKEN in welcome.text) == (200, False)
    cookie = welcome.headers["set-cookie"]
    for word in ("simile-studio-8765=", "HttpOnly", "SameSite=strict", f"Path={place}"):
        assert word in cookie
    typed = other.get("/", params={"token": TOKEN}, headers={"sec-fetch-site": "none"})
    assert (typed.status_code, typed.headers["location"], typed.headers["set-cookie"]) == (303, place, cookie)
    assert other.get(f"{place}api/state").status_code == 200
    assert other.get("/", headers={"cookie": f"simile-studio-8765={TOKEN}"}).status_code == 200
    page = other.get(place)
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


def welcome_place(welcome: httpx.Response) -> str:
    found = re.search(r'content="0;url=(/[0-9a-f]{32}/)"', welcome.text)
    assert found
    return found[1]


def test_the_cookie_is_good_for_a_place_that_no_other_port_is_asked_for(client: TestClient, workspace: Workspace):
    other = stranger(client)
    place = welcome_place(other.get("/", params={"token": TOKEN}))
    with pytest.raises(WebSocketDisconnect), other.websocket_connect(EVENTS):  # without the cookie
        pass
    shown = {"authorization": "", "cookie": f"simile-studio-8765={TOKEN}"}
    with client.websocket_connect(EVENTS.replace("/api", f"{place}api"), headers=shown) as events:
        assert events.receive_json()["type"] == "state"
        events.send_text("x" * 2000)  # so that it is the studio that hangs up
        with pytest.raises(WebSocketDisconnect):
            events.receive_json()
    for path in ("/", "/api/state", "/static/studio.js", f"{place[:-2]}/api/state", f"/x{place}api/state"):
        assert other.get(path).status_code == 403  # a browser does not send it there: nor would it to another port
    assert place not in stranger(client).get("/").text  # nobody is told where it is
    again = build_app(workspace, TOKEN, list_hosts(8765), cookie="simile-studio-8765")
    assert welcome_place(TestClient(again, base_url=f"http://{HERE}").get("/", params={"token": TOKEN})) == place


def test_a_cookie_that_another_port_has_set_shuts_nobody_out(client: TestClient):
    for cookies in (
        f"simile-studio-8765=x; simile-studio-8765={TOKEN}; a",
        f"a=b;simile-studio-8765={TOKEN}; simile-studio-8765=x",
    ):
        assert stranger(client).get("/api/state", headers={"cookie": cookies}).status_code == 200
    assert stranger(client).get("/api/state", headers={"cookie": f"x-simile-studio-8765={TOKEN}"}).status_code == 403


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
