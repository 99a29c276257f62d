"""The studio's requests: anything may come, and a sentence goes back."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.websockets import WebSocketDisconnect

import studios as shared
from simile._common.web import RequestError
from simile.studio import events, requests
from simile.studio.workspace import clean_name
from studios import EVENTS, TestClient

workspace, client = shared.workspace, shared.client


@given(st.text())
def test_a_name_is_one_printable_line_without_a_path(text: str):
    name = clean_name(text)
    assert name.isprintable()
    assert 0 < len(name) <= 120
    assert not set(name) & {"/", "\\", "\0", "\n"}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(["train", "compare"]), st.data())
def test_whatever_a_page_asks_for_is_checked_or_refused_with_a_sentence(kind: str, data: st.DataObject):
    fields = requests.RUNS[kind].__struct_fields__
    asked = data.draw(st.dictionaries(st.sampled_from([*fields, "trust", "out", "resume"]), anything) | anything)
    found, said = {}, ""
    try:
        found = requests.read_request(asked, requests.RUNS[kind])
    except RequestError as refusal:
        said = refusal.sentence
    assert len(said) < 1500
    assert set(found) <= set(fields)
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("smoothness", "__import__('os').system('true')", "smoothness must be a recipe"),
        ("smoothness", "-3", "smoothness must be a number from 0"),
        ("smoothness", "SmoothForest()", "smoothness must be a number"),
        ("hold", "SmoothForest()", "hold must be a number"),
        ("hold", "-1", "hold must be >= 0"),
        ("hold", [0.1], "hold must be a number, or a recipe for one"),
        ("model", "open('/etc/passwd')", "model must be a recipe"),
        ("n_rounds", 10**400, "n_rounds must be a whole number"),
        ("n_rounds", True, "n_rounds must be a whole number"),
        ("test", "/etc/passwd", "test must be a number"),
        ("seed", -1, "seed must be a whole number"),
        ("lead", "soon", "lead must be a number from -10000 to 10000"),
        ("algorithm", "--help", "algorithm must be one of learn"),
        ("name", "half of a character: \ud800", "name must be a text"),
        ("trust", ["os.system"], "'trust' is not known here"),
        ("out", "/tmp/elsewhere", "'out' is not known here"),
    ],
)
def test_a_field_that_cannot_be_used_is_named(field: str, value: Any, words: str):
    with pytest.raises(RequestError, match=re.escape(words)):
        requests.read_request({field: value}, requests.RUNS["train"])


@pytest.mark.parametrize(
    ("given", "kept"),
    [(0, "0.0"), (0.1, "0.1"), ("(0.1, 0.2)", "(0.1, 0.2)"), ("Hold(0.1, stepping=True)", "Hold(0.1, stepping=True)")],
)
def test_a_hold_is_a_number_or_a_recipe(given: Any, kept: str):
    assert requests.read_request({"hold": given}, requests.RUNS["train"]) == {"hold": kept}


def test_a_comparison_takes_several_leads():
    assert requests.read_request({"lead": [0, -0.5]}, requests.RUNS["compare"]) == {"lead": [0.0, -0.5]}
    for wrong in ("soon", [], ["soon"], 0.5):
        with pytest.raises(RequestError, match="lead must be numbers of seconds"):
            requests.read_request({"lead": wrong}, requests.RUNS["compare"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/nothing"),
        ("POST", "/api/state"),
        ("GET", "/static/../runs.py"),
        ("GET", "/static/%2e%2e%2f%2e%2e%2fruns.py"),
        ("GET", "/static/built/studio.js"),
        ("GET", "/api/runs/..%2f..%2ftoken/policy"),
        ("GET", "/api/runs/../../token/config"),
        ("GET", "/api/runs/00000000/policy"),
        ("DELETE", "/api/data/..%2f..%2ftoken"),
        ("DELETE", "/api/runs/.."),
        ("POST", "/api/data/00000000"),
        ("POST", "/api/runs/00000000/stop"),
    ],
)
def test_addresses_that_are_not_there_are_answered_with_a_sentence(method: str, path: str, client: TestClient):
    answer = client.request(method, path)
    assert answer.status_code in (404, 405)
    assert answer.json()["error"]
    assert client.get("/api/state").status_code == 200


def test_bodies_that_are_no_requests_are_refused(client: TestClient):
    for body in (b"{", b"[1, 2", b"\xff\xfe", b'"text"', b"[" * 30_000, b'{"kind": ["train"]}', b'{"kind": "dance"}'):
        answer = client.post("/api/runs", content=body)
        assert answer.status_code == 400, body[:20]
        assert answer.json()["error"]
    assert client.post("/api/runs", content=b" " * 70_000).status_code == 413
    assert client.post("/api/games", json={"n_games": 41}).json()["error"].startswith("n_games must be")
    assert client.post("/api/runs", json={"data": "../../token"}).status_code == 404


def test_a_page_that_talks_too_much_is_hung_up_on(client: TestClient):
    with client.websocket_connect(EVENTS) as socket:
        assert socket.receive_json()["type"] == "state"
        socket.send_text("hello")
        socket.send_text("x" * 2000)
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
    assert closed.value.code == 1009


def test_a_page_that_reads_too_slowly_is_dropped_and_not_waited_for():
    import asyncio

    class Slow:
        closed: int | None = None

        async def accept(self) -> None: ...

        async def send_json(self, message: dict[str, Any]) -> None:
            await asyncio.sleep(0.05)

        async def receive(self) -> dict[str, Any]:
            await asyncio.sleep(60)
            return {}

        async def close(self, code: int) -> None:
            self.closed = code

    async def play() -> int | None:
        hub, slow = events.Events(), Slow()
        task = asyncio.create_task(hub.serve(slow, dict))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        for i in range(3 * events.MOST):
            hub.tell({"type": "run", "run": i})
        await asyncio.wait_for(task, 5)
        return slow.closed

    assert asyncio.run(play()) == 1013
