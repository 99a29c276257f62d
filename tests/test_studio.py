"""The studio: who gets in, what it makes of files and requests, that nothing is lost, and what its slider shows."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.websockets import WebSocketDisconnect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import simile
from conftest import demos_of
from simile import tasks
from simile.policies import SmoothPolicy, StochasticMixture
from simile.runs import RunFolder
from simile.studio import events, locks, looking, requests, screening
from simile.studio.caching import Cache
from simile.studio.preview import Subject, outputs, roll
from simile.studio.refusals import Refusal
from simile.studio.screening import Screen
from simile.studio.security import hosts_of
from simile.studio.server import build_app, listen
from simile.studio.workspace import Workspace, clean_name

with warnings.catch_warnings():  # it would rather have the successor of httpx
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

TOKEN = "a secret of at least thirty-two letters"
HERE = "127.0.0.1:8765"
EVENTS = f"ws://{HERE}/api/events"
QUICK = {"kind": "train", "model": "SmoothForest(n_trees=4)"}


# Previews: the slider shows what a roll-out would do.


def previewed(subject: Subject, demo: simile.Demonstration, smoothness: float | None) -> np.ndarray:
    said = outputs(subject.whole, demo) if subject.is_linear else None
    return roll(subject, demo, smoothness, said).actions


@pytest.fixture(scope="module")
def two_actions() -> tuple[simile.Demonstrations, simile.Demonstrations]:
    return demos_of(200, 150, 180, 120, m=3, k=2, rate=25.0).split(test=0.25)


@pytest.fixture(scope="module")
def policies(two_actions: Any) -> dict[str, simile.Policy]:
    train, _ = two_actions
    small = simile.SmoothForest(n_trees=4)
    rounds = {"model": small, "n_rounds": 2, "validation": 0.0}
    lags = simile.Horizon(context_lags=4, action_lags=3)
    inside = simile.ActionSpace(low=-1e3, high=1e3)
    return {
        "as by default": simile.learn(train).policy,
        "one forest": simile.learn(train, model=small, smoothness=20.0).policy,
        "a model of another library": _with_sklearn(train),
        "past actions": simile.paper(train, horizon=lags, smoothness=5.0, **rounds).policy,
        "chance": simile.searn(train, horizon=lags, smoothness=5.0, **rounds).policy,
        "an h that learns": simile.learn(
            train, regularizer=simile.VelocityAutoregression(order=4), model=small, smoothness=5.0
        ).policy,
        "bounds far off": simile.learn(train, model=small, smoothness=20.0, space=inside).policy,
    }


def _with_sklearn(train: simile.Demonstrations) -> simile.Policy:
    from sklearn.linear_model import Ridge

    return simile.learn(train, model=Ridge(), smoothness=20.0).policy


KINDS = (
    "as by default",
    "one forest",
    "a model of another library",
    "past actions",
    "chance",
    "an h that learns",
    "bounds far off",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_preview_at_its_own_smoothness_is_the_policys_roll_out(kind: str, policies: Any, two_actions: Any):
    train, test = two_actions
    for smoothness in (None, Subject(policies[kind], train).smoothness):
        found = previewed(Subject(policies[kind], train), test[0], smoothness)
        assert np.abs(found - simile.rollout(policies[kind], test[0])[0]).max() < 1e-9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("smoothness", [0.0, 0.3, 7.0, 2000.0])
def test_a_preview_at_another_smoothness_is_the_roll_out_with_h_and_lambda_replaced(
    kind: str, smoothness: float, policies: Any, two_actions: Any
):
    train, test = two_actions
    subject = Subject(policies[kind], train)
    found = previewed(subject, test[0], smoothness)

    def changed(part: SmoothPolicy) -> SmoothPolicy:
        said = part.card.training["settings"]["regularizer"]
        standard = [part.units.standardize(a) for a in train.actions]
        return replace(part, smoothness=smoothness, h=simile.recipes.parse(said, "h").fit(standard, smoothness))

    whole = subject.whole
    if isinstance(whole, StochasticMixture):
        expected = replace(whole, components=tuple(changed(p) for p in whole.components))
    else:
        assert isinstance(whole, SmoothPolicy)
        expected = changed(whole)
    assert np.abs(found - simile.rollout(expected, test[0])[0]).max() < 1e-9
    if smoothness and kind != "chance":
        assert np.abs(found - simile.rollout(policies[kind], test[0])[0]).max() > 1e-3


def test_a_preview_whose_bounds_cut_in_is_rolled_out_whole(two_actions: Any):
    train, test = two_actions
    low, high = (np.quantile(np.concatenate(train.actions), q, axis=0) for q in (0.0, 1.0))
    tight = simile.ActionSpace(low=low, high=high)
    policy = simile.learn(train, model=simile.SmoothForest(n_trees=4), smoothness=20.0).policy
    cut = replace(test[0], contexts=test[0].contexts * 4.0)
    policy = policy.in_units(policy.units, tight, policy.card)
    found = previewed(Subject(policy, train), cut, None)
    assert np.abs(found - simile.rollout(policy, cut)[0]).max() < 1e-9
    assert (found <= high).all()


def test_a_preview_takes_missing_contexts(policies: Any, two_actions: Any):
    train, test = two_actions
    holes = test[0].contexts.copy()
    holes[10:40, 1] = np.nan
    demo = replace(test[0], contexts=holes)
    policy = policies["one forest"]
    assert np.abs(previewed(Subject(policy, train), demo, None) - simile.rollout(policy, demo)[0]).max() < 1e-9


def test_a_smoothness_without_end_is_refused_in_words(policies: Any, two_actions: Any):
    subject = Subject(policies["as by default"], two_actions[0])
    with pytest.raises(simile.SimileError, match="slide back"):
        subject.at(1e60)


def test_the_slider_holds_the_policys_own_smoothness(policies: Any, two_actions: Any):
    for policy in policies.values():
        found = Subject(policy, two_actions[0]).range()
        assert found["low"] < found["now"] < found["high"]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run as `simile train` leaves it, with two actions."""
    folder = tmp_path_factory.mktemp("run")
    demos = demos_of(200, 150, 10_000, 120, m=3, k=2, rate=25.0)
    simile.write(demos, folder / "data.parquet")
    run = RunFolder(folder)
    run.write_config({"data": [str(folder / "data.parquet")], "test": "0.5", "seed": 0, "algorithm": "learn"})
    simile.learn(demos.split(test=0.5)[0]).policy.save(folder / "policy.safetensors")
    return run


def unpacked(content: bytes) -> tuple[dict[str, Any], np.ndarray]:
    (length,) = struct.unpack("<I", content[:4])
    begin = -(-(4 + length) // 4) * 4
    header = json.loads(content[4 : 4 + length])
    values = np.frombuffer(content[begin:], "<f4")
    return header, values.reshape(len(header["curves"]), len(header["actions"]), -1)


def test_curves_hold_the_expert_and_the_policy_for_each_action(run_folder: RunFolder):
    screen = Screen()
    about = screen.about(run_folder)
    for i, sequence in enumerate(about["sequences"]):
        header, values = unpacked(screen.curves(run_folder, i, None))
        demo = screen._held_out(run_folder)[i]
        assert (header["frames"], header["step"], header["preview"]) == (sequence["frames"], 1, False)
        assert np.allclose(values[0], demo.actions.T, rtol=1e-6)
        rolled = simile.rollout(run_folder.policy(), demo)[0]
        assert np.allclose(values[1], rolled.T, rtol=1e-5, atol=1e-5)
        judged = simile.evaluate(run_folder.policy(), demo)
        assert header["lag"] == pytest.approx(judged.mean("lag"))
    with pytest.raises(Refusal, match="sequence must be from 0 to"):
        screen.curves(run_folder, 99, None)


def test_long_curves_are_thinned_to_their_extremes(run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch):
    screen = Screen()
    longest = max(range(2), key=lambda i: screen.about(run_folder)["sequences"][i]["frames"])
    whole = unpacked(screen.curves(run_folder, longest, None))
    monkeypatch.setattr(screening, "MOST_SAMPLES", 300)
    header, values = unpacked(screen.curves(run_folder, longest, None))
    assert header["frames"] == whole[0]["frames"]
    assert values.shape[2] <= 302
    assert values.shape[2] * header["step"] >= header["frames"]
    assert np.array_equal(values.max(axis=2), whole[1].max(axis=2))
    assert np.array_equal(values.min(axis=2), whole[1].min(axis=2))
    assert header["rmse"] == whole[0]["rmse"]


def test_the_slider_is_timed_on_ten_thousand_frames(tmp_path: Path):
    demos = tasks.pursuit(n_sequences=3, length=10_000)
    simile.write(demos, tmp_path / "data.parquet")
    run = RunFolder(tmp_path)
    run.write_config({"data": [str(tmp_path / "data.parquet")], "test": "0.4", "seed": 0, "algorithm": "learn"})
    simile.learn(tasks.pursuit(n_sequences=4, length=300)).policy.save(tmp_path / "policy.safetensors")
    screen = Screen()
    screen.about(run)
    times = []
    for smoothness in (None, *np.geomspace(0.1, 1e5, 12)):
        begin = time.perf_counter()
        header, _ = unpacked(screen.curves(run, 0, smoothness))
        times.append(1e3 * (time.perf_counter() - begin))
        assert header["frames"] == 10_000
    print(f"first roll-out {times[0]:.1f} ms, slider {np.median(times[1:]):.2f} ms, at most {max(times[1:]):.2f} ms")


def test_a_cache_makes_a_value_once_for_all_who_ask_and_keeps_no_error():
    cache: Cache[int] = Cache(2)
    made: list[int] = []

    def make() -> int:
        time.sleep(0.05)
        made.append(1)
        return 7

    threads = [threading.Thread(target=cache.get, args=("a", make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (cache.get("a", make), len(made)) == (7, 1)
    with pytest.raises(ZeroDivisionError):
        cache.get("b", lambda: 1 // 0)
    assert cache.get("b", lambda: 8) == 8
    cache.get("c", lambda: 9)
    cache.get("a", make)
    assert len(made) == 2  # the oldest was let go


def test_a_lock_lives_as_long_as_the_child_that_inherits_it(tmp_path: Path):
    lock = locks.take(tmp_path / "lock")
    assert lock is not None
    child = subprocess.Popen(["sleep", "60"], pass_fds=(lock,))
    os.close(lock)
    assert locks.is_held(tmp_path / "lock")
    child.kill()
    child.wait()
    assert not locks.is_held(tmp_path / "lock")
    assert not locks.is_held(tmp_path / "none")


# Requests: anything may come, and a sentence goes back.


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
    fields = requests.RUNS[kind]
    asked = data.draw(st.dictionaries(st.sampled_from([*fields, "trust", "out", "resume"]), anything) | anything)
    found, said = {}, ""
    try:
        found = requests.checked(asked, fields)
    except Refusal as refusal:
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
        ("model", "open('/etc/passwd')", "model must be a recipe"),
        ("n_rounds", 10**400, "n_rounds must be a whole number"),
        ("n_rounds", True, "n_rounds must be a whole number"),
        ("test", "/etc/passwd", "test must be a number"),
        ("seed", -1, "seed must be a whole number"),
        ("algorithm", "--help", "algorithm must be one of learn"),
        ("name", "half of a character: \ud800", "name must be a text"),
        ("trust", ["os.system"], "'trust' is not known here"),
        ("out", "/tmp/elsewhere", "'out' is not known here"),
    ],
)
def test_a_field_that_cannot_be_used_is_named(field: str, value: Any, words: str):
    with pytest.raises(Refusal, match=re.escape(words)):
        requests.checked({field: value}, requests.RUNS["train"])


# The app without a socket: who gets in, and what becomes of bad files.


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.at(tmp_path / "studio")


@pytest.fixture
def client(workspace: Workspace) -> Iterator[TestClient]:
    app = build_app(workspace, TOKEN, hosts_of(8765), cookie="simile-studio-8765", upload=100_000)
    with TestClient(app, base_url=f"http://{HERE}", headers={"authorization": f"Bearer {TOKEN}"}) as opened:
        yield opened


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
    assert {"localhost", "localhost:80"} <= hosts_of(80)
    assert "[fe80::1]:8000" in hosts_of(8000, "fe80::1")


def test_a_server_says_where_it_cannot_listen():
    with pytest.raises(simile.SimileError, match=r"--host must be the name or address .*'0\.0\.0\.0'"):
        listen("0.0.0.0", 0)
    with listen("127.0.0.1", 0) as taken, pytest.raises(simile.SimileError, match=r"cannot be opened: .* in use"):
        listen("127.0.0.1", taken.getsockname()[1])


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


BAD_FILES = [
    ("junk.csv", secrets.token_bytes(5000), "broken"),
    ("junk.parquet", secrets.token_bytes(5000), "broken"),
    ("junk.npz", b"PK\x03\x04" + secrets.token_bytes(500), "broken"),
    ("empty.csv", b"", "broken"),
    ("header.csv", b"a_pan,x\n", "broken"),
    ("pickle.npz", b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix", "broken"),
    ("words.csv", b"when,what\nnow,this\nthen,that\n", "choose"),
    ("unclear.csv", b"pan,x\n1,2\n2,3\n", "choose"),
    ("half.csv", b"a_pan,x\n1,2\nhello,3\n4,5\n6,7\n", "choose"),
]


@pytest.mark.parametrize(("name", "content", "status"), BAD_FILES, ids=[name for name, _, _ in BAD_FILES])
def test_a_bad_file_is_listed_with_the_reason_and_without_our_paths(
    name: str, content: bytes, status: str, client: TestClient, workspace: Workspace
):
    answer = client.put(f"/api/data/{name}", content=content)
    assert answer.status_code == 201
    found = answer.json()
    assert (found["status"], found["name"], found["understood"]) == (status, name, None)
    assert name in found["error"]
    assert str(workspace.folder) not in answer.text
    assert client.post("/api/runs", json={**QUICK, "data": found["id"]}).status_code == 409
    assert client.get("/api/state").json()["data"] == [found]
    assert client.delete(f"/api/data/{found['id']}").status_code == 204
    assert list((workspace.folder / "data").iterdir()) == []


def test_a_file_that_takes_its_reader_down_does_not_take_the_studio_down(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(looking.sys, "executable", "/bin/false")
    found = client.put("/api/data/bomb.csv", content=b"a_pan,x\n1,2\n").json()
    assert found["status"] == "broken"
    assert "small enough for memory" in found["error"]
    assert client.get("/api/state").json()["data"] == [found]


def test_data_keep_their_order_over_a_restart(client: TestClient, workspace: Workspace):
    keys = [client.put(f"/api/data/{i}.csv", content=b"a_pan,x\n1,2\n2,3\n").json()["id"] for i in range(3)]
    client.post(f"/api/data/{keys[0]}", json={"rate": 5})
    assert [data.id for data in workspace.data()] == keys
    (workspace.folder / "data" / keys[1] / "about.json").write_text("{")  # not ours any more, and in nobody's way
    (workspace.folder / "data" / "notes").mkdir()
    assert [data.id for data in workspace.data()] == [keys[0], keys[2]]


def test_columns_can_be_chosen_when_they_are_not_clear(client: TestClient):
    content = "when,play,pan,x\n" + "".join(f"{i / 10},{i // 10},{i},{2 * i}\n" for i in range(40))
    data = client.put("/api/data/odd.csv", content=content).json()
    assert data["status"] == "choose"
    assert [c["name"] for c in data["columns"]] == ["when", "play", "pan", "x"]
    wrong = client.post(f"/api/data/{data['id']}", json={"actions": ["pam"]}).json()
    assert "did you mean 'pan'" in wrong["error"]
    right = {"actions": ["pan"], "sequence": "play", "time": "when"}
    found = client.post(f"/api/data/{data['id']}", json=right).json()
    assert (found["status"], found["frames"], found["options"]) == ("ready", 40, right)
    assert found["understood"]["summary"].startswith("odd.csv: 4 sequences by column 'play'")
    assert found["understood"]["rate"] == pytest.approx(10.0)
    assert (found["understood"]["sequence"], found["understood"]["time"]) == ("play", "when")
    assert client.post(f"/api/data/{data['id']}", json={"rate": -1}).status_code == 400


@pytest.mark.parametrize("name", ["model.pkl", "script.py", "page.html", "nothing", "data.csv.exe", ".csv/", "x.json"])
def test_an_ending_that_is_not_known_is_refused_with_those_that_are(
    name: str, client: TestClient, workspace: Workspace
):
    answer = client.put(f"/api/data/{name}", content=b"x" * 1000)
    assert answer.status_code == 415
    assert ".parquet" in answer.json()["error"]
    assert list((workspace.folder / "data").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["..%2f..%2f..%2ftmp%2fevil.csv", "..%2f..%2fevil.csv", "a%00b.csv", "%2e%2e/evil.csv", "C:\\evil.csv"]
)
def test_a_name_that_is_a_path_is_text_and_nothing_else(name: str, client: TestClient, workspace: Workspace):
    answer = client.put(f"/api/data/x/{name}", content=b"a_pan,x\n1,2\n2,3\n")
    assert answer.status_code == 201
    assert "evil.csv" in answer.json()["name"] or "a b.csv" in answer.json()["name"]
    files = [p for p in workspace.folder.rglob("*") if p.is_file()]
    assert {p.name for p in files} <= {"data.csv", "about.json"}


def test_a_file_that_is_too_large_is_refused_by_its_length_and_by_its_stream(client: TestClient, workspace: Workspace):
    for content in (b"x" * 200_000, iter([b"x" * 60_000] * 3)):
        answer = client.put("/api/data/large.csv", content=content)
        assert answer.status_code == 413
        assert "larger than 0.1 MB" in answer.json()["error"]
    assert list((workspace.folder / "data").iterdir()) == []
    assert client.get("/api/state").json()["data"] == []


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


# A real server, as a child process: trainings, crashes and restarts.


@dataclass
class Server:
    process: subprocess.Popen[str]
    address: str
    token: str

    @property
    def http(self) -> httpx.Client:
        return httpx.Client(base_url=self.address, headers={"authorization": f"Bearer {self.token}"}, timeout=60)

    def events(self, **headers: str) -> Any:
        address = self.address.replace("http:", "ws:") + "/api/events"
        return connect(address, additional_headers={"authorization": f"Bearer {self.token}", **headers})

    def runs(self) -> dict[str, Any]:
        with self.http as http:
            return {run["id"]: run for run in http.get("/api/state").json()["runs"]}

    def wait(self, key: str, *wanted: str, rounds: int = 0, patience: float = 60.0) -> dict[str, Any]:
        end = time.monotonic() + patience
        while time.monotonic() < end:
            run = self.runs()[key]
            if run["status"] in wanted and len(run["rounds"]) >= rounds:
                return run
            time.sleep(0.1)
        raise AssertionError(f"{wanted} did not come: {run}")


@contextlib.contextmanager
def served(folder: Path, *arguments: str | Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "simile", "studio", "--port", "0", "--no-open", "--folder", str(folder)]
    process = subprocess.Popen(
        [*command, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder.parent
    )
    try:
        assert process.stdout is not None
        printed = process.stdout.readline().strip()
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/\?token=([\w-]{32,})", printed)
        assert found, printed
        yield Server(process, found[1], found[2])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
        assert "Traceback" not in errors, errors


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "games.csv"
    simile.write(tasks.pursuit(n_sequences=4, length=150), path)
    return path


@pytest.fixture(scope="module")
def server(games: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("served") / "studio", games, "--actions", "pan", "--max-upload", "1") as found:
        yield found


def ready(server: Server) -> str:
    """Return the id of the data that were named on the command line."""
    with server.http as http:
        for _ in range(100):
            data = http.get("/api/state").json()["data"]
            if data and data[0]["status"] == "ready":
                return str(data[0]["id"])
            time.sleep(0.1)
    raise AssertionError(data)


def test_the_printed_address_opens_the_page(server: Server):
    with httpx.Client(follow_redirects=True) as browser:
        page = browser.get(f"{server.address}/?token={server.token}")
        assert (page.status_code, page.url.path, page.url.query) == (200, "/", b"")
        assert browser.get(f"{server.address}/static/studio.js").headers["content-type"].startswith("text/javascript")
        assert browser.get(f"{server.address}/favicon.ico").status_code == 204
    assert httpx.get(server.address).status_code == 403


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


def test_a_training_is_told_round_by_round_and_its_files_can_be_had(server: Server, games: Path, tmp_path: Path):
    data = ready(server)
    with server.http as http, server.events() as socket:
        assert json.loads(socket.recv(timeout=10))["type"] == "state"
        asked = {**QUICK, "data": data, "algorithm": "paper", "n_rounds": 5, "name": "first <b>"}
        started = http.post("/api/runs", json=asked)
        assert started.status_code == 201
        key, seen = started.json()["id"], []
        while not seen or seen[-1]["status"] not in ("done", "failed"):
            message = json.loads(socket.recv(timeout=60))
            if message["type"] == "run" and message["run"]["id"] == key:
                seen.append(message["run"])
        run = seen[-1]
        assert (run["status"], run["error"], run["name"]) == ("done", None, "first <b>")
        assert {r["status"] for r in seen} == {"waiting", "running", "done"}
        assert sorted({len(r["rounds"]) for r in seen})[-1] == 6
        assert run["has"] == {"policy": True, "report": True, "court": False}
        assert run["verdict"]
        assert run["chosen"] in range(6)
        assert run["table"]["columns"][0] == "name"
        assert run["frontier"][0]["kind"] == "ours"
        assert run["smoothness"] == 30.0
        held = simile.load(_saved(http, f"/api/runs/{key}/policy", tmp_path / "p.safetensors"))
        report = http.get(f"/api/runs/{key}/report", params={"inline": 1})
        assert "sandbox allow-scripts" in report.headers["content-security-policy"]
        assert "content-disposition" not in report.headers
        assert http.get(f"/api/runs/{key}/report").headers["content-disposition"].endswith('"first-b.html"')
        assert str(games) in http.get(f"/api/runs/{key}/command").text
        assert "simile.paper(" in http.get(f"/api/runs/{key}/python").text
        assert "n_rounds = 5" in http.get(f"/api/runs/{key}/config").text
        about = http.get(f"/api/runs/{key}/sequences").json()
        header, values = unpacked(http.post(f"/api/runs/{key}/roll", json={"sequence": 0, "smoothness": None}).content)
        assert header["frames"] == about["sequences"][0]["frames"] == values.shape[2]
        test = simile.algorithms.hold_out(simile.read(games, actions="pan", quiet=True), 0.25)[1]
        assert np.allclose(values[1, 0], simile.rollout(held, test[0])[0][:, 0], rtol=1e-5, atol=1e-4)
        assert http.post(f"/api/runs/{key}/roll", json={"sequence": 9}).status_code == 404
        assert http.get(f"/api/runs/{key}/court").status_code == 404
        assert http.delete(f"/api/data/{data}").status_code == 409


def _saved(http: httpx.Client, address: str, path: Path) -> Path:
    path.write_bytes(http.get(address).content)
    return path


def test_a_run_that_fails_says_why_in_a_sentence(server: Server):
    with server.http as http:
        asked = {**QUICK, "data": ready(server), "regularizer": "LinearAutoregression(order=5000)"}
        key = http.post("/api/runs", json=asked).json()["id"]
        run = server.wait(key, "failed", "done")
        assert run["status"] == "failed"
        assert "order must be shorter than the longest sequence" in run["error"]
        assert http.delete(f"/api/runs/{key}").status_code == 204
        assert key not in server.runs()


def test_a_run_can_be_stopped_and_taken_up_again(server: Server, tmp_path: Path):
    with server.http as http:
        asked = {**QUICK, "data": ready(server), "algorithm": "paper", "n_rounds": 1000}
        key = http.post("/api/runs", json=asked).json()["id"]
        waiting = http.post("/api/runs", json={**asked, "n_rounds": 999}).json()
        assert waiting["status"] == "waiting"
        server.wait(key, "running", rounds=2)
        stopped = http.post(f"/api/runs/{waiting['id']}/stop").json()
        assert stopped["status"] == "stopped"
        stopped = http.post(f"/api/runs/{key}/stop").json()
        assert stopped["status"] == "stopped"
        before = len(stopped["rounds"])
        assert before >= 2
        assert simile.load(_saved(http, f"/api/runs/{key}/policy", tmp_path / "p.safetensors"))
        resumed = http.post(f"/api/runs/{key}/resume").json()
        assert resumed["status"] in ("waiting", "running")
        server.wait(key, "running", rounds=before + 1)
        for one in (key, waiting["id"]):
            assert http.delete(f"/api/runs/{one}").status_code == 204


def test_a_retraining_of_the_slider_replaces_the_one_before_it(server: Server):
    with server.http as http:
        asked = {**QUICK, "data": ready(server), "smoothness": 40}
        parent = http.post("/api/runs", json=asked).json()["id"]
        first = http.post("/api/runs", json={"parent": parent, "smoothness": 10.0}).json()
        second = http.post("/api/runs", json={"parent": parent, "smoothness": 3.0}).json()
        assert second["options"]["model"] == QUICK["model"]
        assert second["name"] == "smoothness 3"
        run = server.wait(second["id"], "done", "failed")
        assert (run["status"], run["smoothness"], run["parent"]) == ("done", 3.0, parent)
        assert first["id"] not in server.runs()
        for key in (second["id"], parent):
            http.delete(f"/api/runs/{key}")


def test_simulated_games_can_be_watched_on_their_court(server: Server):
    with server.http as http:
        data = http.post("/api/games", json={"n_games": 2, "minutes": 0.5, "axes": 3, "seed": 3}).json()
        assert (data["status"], data["kind"], data["understood"]["actions"]) == (
            "ready",
            "games",
            ["pan", "tilt", "zoom"],
        )
        key = http.post("/api/runs", json={**QUICK, "data": data["id"], "smoothness": 30}).json()["id"]
        run = server.wait(key, "done", "failed")
        assert run["has"]["court"]
        assert run["command"].startswith("simile camera simulate --n-games 2")
        for smoothness in ({}, {"smoothness": 300.0}):
            page = http.get(f"/api/runs/{key}/court", params={"sequence": 0, **smoothness})
            assert page.status_code == 200
            assert page.headers["content-security-policy"].startswith("sandbox allow-scripts;")
            assert "operator" in page.text
        assert http.get(f"/api/runs/{key}/court", params={"sequence": 5}).status_code == 404
        assert http.get(f"/api/runs/{key}/court", params={"sequence": "x"}).status_code == 400


def test_a_comparison_names_its_contenders_as_they_finish(server: Server):
    with server.http as http:
        asked = {"kind": "compare", "data": ready(server), "reductions": ["learn", "clone"], "rivals": False}
        key = http.post("/api/runs", json={**asked, "model": "SmoothForest(n_trees=4)", "n_rounds": 1}).json()["id"]
        run = server.wait(key, "done", "failed")
        assert (run["status"], run["contenders_total"]) == ("done", len(run["contenders_done"]))
        assert {"learn", "clone"} <= set(run["contenders_done"])
        assert {c["kind"] for c in run["frontier"]} >= {"ours", "reduction"}
        assert run["has"] == {"policy": False, "report": True, "court": False}
        assert run["command"].startswith("simile compare ")
        assert http.get(f"/api/runs/{key}/sequences").status_code == 409


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


def test_ctrl_c_interrupts_a_training_and_the_next_start_takes_it_up(games: Path, tmp_path: Path):
    folder = tmp_path / "studio"
    with served(folder, games, "--actions", "pan") as first:
        with first.http as http:
            asked = {**QUICK, "data": ready(first), "algorithm": "paper", "n_rounds": 12}
            key = http.post("/api/runs", json=asked).json()["id"]
        first.wait(key, "running", rounds=1)
    assert first.process.returncode == 0
    assert not locks.is_held(folder / "runs" / key / "lock")
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
