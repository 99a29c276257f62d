"""The studio between its live page and a running service: which addresses are contacted, and what is passed on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from simile.client import Client
from starlette.websockets import WebSocketDisconnect

import servers
import studios as shared
from servers import Server, served
from simile._common.web import list_hosts
from simile.errors import ArgumentError
from simile.studio.live import MOST, Services, read_address
from simile.studio.server import build_app
from simile.studio.workspace import Workspace
from studios import HERE, TOKEN, TestClient

workspace, client = shared.workspace, shared.client
contexts, policies = servers.contexts, servers.policies

OPERATE = f"ws://{HERE}/api/operate"


@pytest.fixture(scope="module")
def service(policies: dict[str, Path]) -> Iterator[Server]:
    with served(policies["served"], "--token", "open sesame") as running:
        yield running


def wish(service: Server, **more: str) -> dict[str, str]:
    return {"service": service.url.removesuffix("/streams"), "token": "open sesame", **more}


def ended(client: TestClient, first: Any) -> str:
    """Return what a page is told whose first message cannot be dealt with."""
    with client.websocket_connect(OPERATE) as page:
        page.send_text(first if isinstance(first, str) else json.dumps(first))
        return str(page.receive_json()["ended"])


def test_streams_are_listed_and_one_is_taken_over_through_the_studio(
    client: TestClient, service: Server, contexts: np.ndarray
):
    assert client.get("/api/services").json() == {"services": []}
    with Client(f"{service.url}/one", token="open sesame") as stream:
        stream.step(contexts[0])
        listed = client.post("/api/streams", json=wish(service)).json()["streams"]
        assert [(one["name"], one["frames"], one["by"]) for one in listed] == [("one", 1, "policy")]
        with client.websocket_connect(OPERATE) as page:
            page.send_json(wish(service, stream="one"))
            assert page.receive_json()["seated"]["actions"] == ["pan"]
            page.send_json({"take": [4.0]})
            assert page.receive_json() == {"event": {"kind": "operated", "on": True}}
            assert stream.step(contexts[1]) == pytest.approx([4.0])
            assert page.receive_json()["frames"][0]["by"] == "operator"
            page.send_json({"take": ["up"]})
            assert "cannot be read" in page.receive_json()["error"]
        servers.until(lambda: stream.step(contexts[2]) is not None and stream.by == "policy")
        assert stream.events[-1]["reason"] == "the operator has left"


def test_what_a_service_refuses_is_told(client: TestClient, service: Server):
    wrong = {**wish(service), "token": "sesame"}
    answer = client.post("/api/streams", json=wrong)
    assert answer.status_code == 502
    assert answer.json()["error"].endswith(
        "refused with 401: this service needs its token: send `Authorization: Bearer TOKEN`, or ?token=TOKEN"
    )
    assert "open sesame" not in answer.text
    assert "401" in ended(client, {**wrong, "stream": "one"})
    assert "404" in ended(client, wish(service))


@pytest.mark.parametrize(
    ("first", "sentence"),
    [
        ("{", "the first message must say"),
        ("[]", "must be a JSON object"),
        ({"service": "ws://127.0.0.1:1", "path": "/etc"}, "'path' is not known"),
        ({"service": "ws://127.0.0.1:1", "stream": "a/../b"}, "stream must be the name of a stream"),
        ({"service": "ws://127.0.0.1:1", "token": "a\nb"}, "token must be a token of printable ASCII"),
        ({"stream": "one"}, "service must be the address of a service"),
    ],
)
def test_a_page_that_asks_for_nonsense_is_told(client: TestClient, first: Any, sentence: str):
    assert sentence in ended(client, first)


@pytest.mark.parametrize(
    "address",
    [
        "ws://pan.example:8770",
        "ws://10.0.0.1:8770",
        "ws://127.0.0.1.pan.example",
        "ws://0.0.0.0:8770",
        "wss://[2001::1]",
    ],
)
def test_nothing_but_this_machine_and_named_services_is_contacted(client: TestClient, address: str, monkeypatch: Any):
    monkeypatch.setattr("simile.studio.live._Connect.__init__", lambda *_, **__: pytest.fail("it was contacted"))
    answer = client.post("/api/streams", json={"service": address})
    assert answer.status_code == 403
    assert f"--service {address}" in answer.json()["error"]
    assert "--service" in ended(client, {"service": address, "stream": "one"})


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1:8770", "http://127.0.0.1", "ws://", "ws://[::1", "ws://me:secret@127.0.0.1", "ws://a:0"]
)
def test_what_is_no_address_is_refused(address: str):
    with pytest.raises(ArgumentError, match="--service must be the address of a service, like"):
        read_address(address, "--service")


def test_a_service_elsewhere_is_contacted_where_the_studio_was_started_with_it(workspace: Workspace, service: Server):
    address = service.url.removesuffix("/streams").replace("127.0.0.1", "0.0.0.0")
    app = build_app(workspace, TOKEN, list_hosts(8765), services=[f"{address}/streams/NAME"])
    with TestClient(app, base_url=f"http://{HERE}", headers={"authorization": f"Bearer {TOKEN}"}) as client:
        assert client.get("/api/services").json() == {"services": [address]}
        answer = client.post("/api/streams", json={**wish(service), "service": address})
        assert "421" in answer.json()["error"]  # it was asked, and does not go by that name
        other = address.rpartition(":")[0] + ":1"
        assert client.post("/api/streams", json={"service": other}).status_code == 403


@contextmanager
def answering(status: int, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """Answer every request so; yields the address, and what was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_a_service_cannot_send_the_studio_elsewhere(client: TestClient):
    with answering(200) as (other, asked), answering(302, Location=f"ws://{other}/operate") as (here, first):
        answer = client.post("/api/streams", json={"service": f"ws://{here}"})
        assert answer.status_code == 502
        assert (first, asked) == (["/operate"], [])


def test_strangers_and_other_pages_reach_no_service(client: TestClient):
    other = TestClient(client.app, base_url=f"http://{HERE}")
    assert other.post("/api/streams", json={"service": "ws://127.0.0.1:1"}).status_code == 403
    assert other.get("/live").status_code == 403
    for headers in ({}, {"authorization": f"Bearer {TOKEN}", "origin": "http://evil.example"}):
        with pytest.raises(WebSocketDisconnect) as refused, other.websocket_connect(OPERATE, headers=headers):
            pass
        assert isinstance(refused.value, httpx.Response)
        assert refused.value.status_code == 403
    assert client.get("/live").status_code == 200
    assert client.get("/static/live.js").status_code == 200


def test_pages_that_look_on_are_limited(client: TestClient, service: Server, monkeypatch: Any):
    monkeypatch.setattr(Services, "_connect", lambda *_: pytest.fail("it was contacted"))
    monkeypatch.setattr("simile.studio.live.MOST", 0)
    assert MOST > 8
    assert "pages look on already" in ended(client, wish(service, stream="one"))
