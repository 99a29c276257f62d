"""The ports of `simile serve`: who may come in, and what is answered over HTTP."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import jsonschema_rs
import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from starlette.applications import Starlette
from starlette.routing import Route
from websockets.exceptions import InvalidMessage, InvalidStatus
from websockets.sync.client import connect

import servers as shared
import simile
from conftest import some
from servers import Server, ask, event, served
from simile._common.web import HEADERS, Guard, RequestError, build_handlers
from simile.cli import main
from simile.errors import ArgumentError
from simile.serving import guard, http
from simile.serving.http import build_app
from simile.serving.openapi import MOST_ROWS, Rollout, build_document

with warnings.catch_warnings():  # of what they are built on
    warnings.simplefilter("ignore")
    import schemathesis

contexts, policies, server = shared.contexts, shared.policies, shared.server

TOKEN = "a-secret-of-some-length"


# Who may come in.


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/a/b", {}, 404),
        ("/%2e%2e%2f", {}, 404),
        ("/" + "x" * 65, {}, 404),
        ("/page", {"Origin": "https://elsewhere.example"}, 403),
        ("/page", {"Host": "elsewhere.example"}, 421),
    ],
)
def test_a_connection_that_may_not_be_is_refused_in_words(server: Server, path: str, headers: Any, status: int):
    if "Host" in headers:
        found = server.get("/streams", headers=headers)
        assert (found.status_code, "127.0.0.1" in found.json()["error"]) == (status, True)
        return
    with pytest.raises(InvalidStatus) as refused, server.connect(path, additional_headers=headers):
        pass
    response = refused.value.response
    assert response.status_code == status
    assert response.body is not None
    assert json.loads(response.body)["error"]


def certificate(folder: Path) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return cert, key


def test_token_tls_origins_and_limits_hold_on_both_ports(policies: Any, contexts: np.ndarray, tmp_path: Path):
    cert, key = certificate(tmp_path)
    page = "https://control.example"
    secret = tmp_path / "token"
    secret.write_text(f"{TOKEN}\n")
    secret.chmod(0o600)
    arguments = ("--token-file", str(secret), "--certfile", str(cert), "--keyfile", str(key), "--allow-origin", page)
    limits = ("--max-streams", "2", "--max-connections", "3", "--max-rate", "20", "--idle", "3")
    trust = ssl.create_default_context(cafile=str(cert))
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    with served(policies["served"], *arguments, *limits, host="0.0.0.0") as server:
        assert server.url.startswith("wss://")
        for headers, path in (({}, "/a"), ({"Authorization": "Bearer wrong"}, "/a"), ({}, "/a?token=wrong")):
            with pytest.raises(InvalidStatus) as refused, server.connect(path, ssl=trust, additional_headers=headers):
                pass
            assert refused.value.response.status_code == 401
        foreign = {**bearer, "Origin": "https://elsewhere.example"}
        with pytest.raises(InvalidStatus) as refused, server.connect("/a", ssl=trust, additional_headers=foreign):
            pass
        assert refused.value.response.status_code == 403
        with pytest.raises(InvalidMessage), connect(server.url.replace("wss", "ws") + "/a"):
            pass

        assert server.get("/health", verify=trust).status_code == 200
        assert server.get("/streams", verify=trust).status_code == 401
        assert server.get("/streams", verify=trust, headers={**bearer, "Origin": page}).status_code == 200
        assert server.get(f"/streams?token={TOKEN}", verify=trust).json() == {"streams": []}
        assert server.get("/openapi.json", verify=trust, headers=bearer).json()["security"]

        frame = {"x": contexts[0].tolist()}
        with (
            server.connect(f"/a?token={TOKEN}", ssl=trust) as first,
            server.connect("", ssl=trust, additional_headers={**bearer, "Origin": page}) as second,
        ):
            ask(first, frame)
            ask(second, {**frame, "stream": "b"})
            assert "2 streams" in ask(second, {**frame, "stream": "c"})["error"]
            full = server.get("/ready", verify=trust)
            assert (full.status_code, full.json()["status"]) == (503, "full")
            with pytest.raises(InvalidStatus) as refused, server.connect("/d", ssl=trust, additional_headers=bearer):
                pass
            assert refused.value.response.status_code == 503
            with server.connect("", ssl=trust, additional_headers=bearer):
                with pytest.raises(InvalidStatus) as refused, server.connect("", ssl=trust, additional_headers=bearer):
                    pass
                assert refused.value.response.status_code == 503

            for _ in range(60):  # 20 at once, and 20 a second, are taken
                first.send(json.dumps(frame))
            time.sleep(0.3)
            first.send(json.dumps(frame))
            lost = 0
            with suppress(TimeoutError):
                while True:
                    lost += json.loads(first.recv(timeout=0.5)).get("lost", 0)
            assert 20 <= lost <= 61

            assert event(first, "expired")["event"]["on"]
            assert event(second, "expired")["stream"] == "b"
            assert ask(second, {**frame, "stream": "c"})["n"] == 0
        code, errors = server.stop()
        assert (code, errors) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0"), "--token"),
        (("--host", "192.0.2.7"), "--insecure"),
        (("--token", "short"), "at least 8"),
        (("--keyfile", "policy"), "--certfile"),
        (("--certfile", "policy"), "PEM"),
        (("--token-file", "nothing"), "cannot be read"),
        (("--stage", "Nonsense()"), "stage must be"),
    ],
)
def test_what_is_not_safe_or_not_there_is_refused_before_anything_listens(
    policies: Any, arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["serve", str(policies["served"]), "--port", "0", "--http-port", "0", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--port", "--http-port"])
def test_a_port_that_is_taken_is_said_in_words(policies: Any, option: str, capsys: pytest.CaptureFixture[str]):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        ports = {"--port": "0", "--http-port": "0", option: str(busy.getsockname()[1])}
        assert main(["serve", str(policies["served"]), *(word for pair in ports.items() for word in pair)]) == 2
    assert f"{option}: 127.0.0.1" in capsys.readouterr().err


def test_a_file_that_is_no_policy_is_not_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "junk").write_bytes(b"junk" * 100)
    assert main(["serve", str(tmp_path / "junk")]) == 2
    assert "junk" in capsys.readouterr().err


def test_loopback_is_this_machine_alone(tmp_path: Path):
    assert all(map(guard.is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST")))
    assert not any(map(guard.is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.example", "", "127.0.0.1.example")))
    guard.check_exposure("0.0.0.0", None, insecure=True)
    (tmp_path / "token").touch()
    with pytest.raises(ArgumentError, match="empty"):
        guard.read_token(tmp_path / "token")
    with pytest.raises(ArgumentError, match="it is no regular file"):
        guard.read_token(Path(os.devnull))


LOCAL = ("127.0.0.1:8770", "localhost:8770", "LocalHost:8770", "[::1]:8770")
FOREIGN = (
    *("evil.example", "evil.example:8770", "127.0.0.1.evil.example:8770", "localhost.evil.example:8770", "localhost."),
    *("127.0.0.1:8770.evil.example", "127.0.0.1:evil", "127.0.0.1:8770:1", "[::1]evil.example:8770", "[::1", "::1"),
    *("127.0.0.1", "localhost", "127.0.0.1:", "127.0.0.1:877", "127.0.0.1:87700", "127.0.0.1:08770", "", ":8770", "*"),
)


def refuses(rules: Guard, host: str, **headers: str) -> bool:
    refusal = rules.check({"host": host, **headers}, "")
    assert refusal is None or (refusal is rules.wrong_host and "--allow-host" in refusal[1])
    return refusal is not None


def test_a_host_is_compared_exactly():
    here = guard.build_guard("127.0.0.1", 8770, None, ())
    assert not any(refuses(here, name) for name in LOCAL)
    assert all(refuses(here, name) for name in (*FOREIGN, "127.0.0.2:8770", "10.0.0.7:8770", "controller:8770"))
    assert not refuses(guard.build_guard("127.0.0.2", 8770, None, ()), "127.0.0.2:8770")
    allowed = guard.build_guard(
        "127.0.0.1", 8770, None, (), ("Pan.example", "tunnel:9000", "fe80::1", "[fe80::2]:9000")
    )
    for name in (*LOCAL, "pan.example", "pan.example:8770", "tunnel:9000", "[fe80::1]:8770", "[fe80::2]:9000"):
        assert not refuses(allowed, name)
    for name in (*FOREIGN, "pan.example:9000", "tunnel:8770", "tunnel", "a.pan.example", "pan.example.evil.example"):
        assert refuses(allowed, name)


def test_on_the_ports_of_the_web_a_browser_leaves_the_port_out():
    assert not refuses(guard.build_guard("127.0.0.1", 80, None, ()), "127.0.0.1")
    assert refuses(guard.build_guard("127.0.0.1", 80, None, (), tls=True), "127.0.0.1")
    assert not refuses(guard.build_guard("127.0.0.1", 443, None, (), tls=True), "localhost")


def test_without_a_token_a_network_has_a_list_of_hosts_too():
    # A name of a stranger's that is pointed here is how a web page gets around `Origin`; an address cannot be.
    for host in ("0.0.0.0", "::", "10.0.0.7"):
        rules = guard.build_guard(host, 8770, None, (), ("pan.example",))
        for name in (*LOCAL, "10.0.0.7:8770", "[fe80::7]:8770", f"{socket.gethostname()}:8770", "pan.example"):
            assert not refuses(rules, name)
        assert all(refuses(rules, name) for name in (*FOREIGN, "10.0.0.7:9000", "10.0.0.7", "10.0.0.7.example:8770"))
    for name in (*LOCAL, "evil.example"):  # who knows the token is no stranger
        assert not refuses(guard.build_guard("0.0.0.0", 8770, TOKEN, ()), name, authorization=f"Bearer {TOKEN}")
    listed = guard.build_guard("0.0.0.0", 8770, TOKEN, (), ("pan.example",))
    assert not refuses(listed, "pan.example", authorization=f"Bearer {TOKEN}")
    assert refuses(listed, "evil.example", authorization=f"Bearer {TOKEN}")


@pytest.mark.parametrize(
    "name", ["", "http://pan.example", "pan.example/x", "a b", "pan:x", "pan:0", "pan:99999", "[::1"]
)
def test_a_host_that_is_none_cannot_be_allowed(name: str):
    with pytest.raises(ArgumentError, match="--allow-host must be a name or an address"):
        guard.build_guard("127.0.0.1", 8770, None, (), (name,))


def upgrade(server: Server, headers: str, path: str = "/streams/a") -> str:
    """Ask for a WebSocket, with these headers alone, and return the answer."""
    key = f"Upgrade: websocket\r\nSec-WebSocket-Key: {'A' * 22}==\r\n"
    for usual in ("Connection: Upgrade\r\n", "Sec-WebSocket-Version: 13\r\n"):
        key += "" if usual.partition(":")[0] in headers else usual
    with socket.create_connection(("127.0.0.1", int(server.url.split(":")[2].split("/")[0])), timeout=10) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\n{headers}{key}\r\n".encode())
        return raw.recv(65536).decode()


def test_hosts_are_compared_on_both_ports_of_a_service_that_lets_everybody_in(policies: Any):
    with served(policies["served"], "--insecure", "--allow-host", "pan.example", host="0.0.0.0") as server:
        port = server.http.rpartition(":")[2]
        for host, status in ((f"127.0.0.1:{port}", 200), ("pan.example", 200), ("evil.example", 421)):
            assert server.get("/streams", headers={"Host": host}).status_code == status
        with pytest.raises(InvalidStatus) as refused, server.connect("/a", additional_headers={"Host": "evil.example"}):
            pass  # which is a second one
        assert refused.value.response.status_code == 421
        port = server.url.split(":")[2].split("/")[0]
        for host, status in ((f"127.0.0.1:{port}", 101), ("pan.example", 101), ("evil.example", 421)):
            assert upgrade(server, f"Host: {host}\r\n").startswith(f"HTTP/1.1 {status} ")


@pytest.mark.skipif(os.name == "nt", reason="of files as POSIX has them")
def test_secrets_that_everybody_can_read_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    cert, key = certificate(tmp_path)
    secret = tmp_path / "token"
    secret.write_text(TOKEN)
    for bits, told in ((0o600, ()), (0o644, ("--token-file: every user", "--keyfile: every user"))):
        key.chmod(bits)
        secret.chmod(bits)
        guard.load_tls(cert, key)
        assert guard.read_token(secret) == TOKEN
        assert len(caplog.messages) == len(told)
        assert all(any(m.startswith(words) for m in caplog.messages) for words in told)


# Headers.


def lacks(headers: Any) -> dict[str, str | None]:
    """Return the promised headers that an answer has otherwise, or not at all."""
    return {name: headers.get(name) for name, value in HEADERS.items() if headers.get(name) != value}


def test_every_answer_of_the_service_carries_the_promised_headers(policies: Any):
    page = {"Origin": "https://control.example"}
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    asked: list[tuple[int, str, str, dict[str, str], bytes]] = [
        (200, "GET", "/health", {}, b""),
        (200, "HEAD", "/metrics", bearer, b""),
        (200, "GET", "/openapi.json", bearer, b""),
        (200, "OPTIONS", "/streams", {**page, "Access-Control-Request-Method": "GET"}, b""),
        (400, "OPTIONS", "/streams", {"Origin": "https://e.example", "Access-Control-Request-Method": "GET"}, b""),
        (400, "POST", "/rollouts", bearer, b"{"),
        (401, "GET", "/streams", {}, b""),
        (403, "GET", "/streams", {**bearer, "Origin": "https://elsewhere.example"}, b""),
        (404, "GET", "/nothing", bearer, b""),
        (405, "PUT", "/health", bearer, b""),
        (413, "POST", "/rollouts", bearer, b"[" * (3 << 20)),
        (421, "GET", "/health", {"Host": "elsewhere.example"}, b""),
    ]
    with served(policies["served"], "--token", TOKEN, "--allow-origin", page["Origin"]) as server:
        for status, method, path, headers, body in asked:
            options = {"headers": headers, "content": body, "trust_env": False, "timeout": 10, "verify": False}
            found = httpx.request(method, f"{server.http}{path}", **options)
            assert (found.status_code, lacks(found.headers)) == (status, {}), (method, path)
        for request, status in ((b"\0\0\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400)):
            with socket.create_connection(("127.0.0.1", int(server.http.rpartition(":")[2])), timeout=10) as raw:
                raw.sendall(request)
                first, *rest = raw.recv(65536).decode().partition("\r\n\r\n")[0].split("\r\n")
            assert (first.split()[1], lacks(dict(line.split(": ") for line in rest))) == (str(status), {})
        host = server.url.split("/")[2]
        usual = f"Host: {host}\r\nAuthorization: Bearer {TOKEN}\r\n"
        for headers_, path, status in (
            (f"Host: {host}\r\n", "/streams/a", 401),
            ("Host: elsewhere.example\r\n", "/streams/a", 421),
            (f"{usual}Origin: https://elsewhere.example\r\n", "/streams/a", 403),
            (usual, "/nothing", 404),
            (f"{usual}Sec-WebSocket-Version: 99\r\n", "/streams/a", 400),
        ):
            first, *rest = upgrade(server, headers_, path).partition("\r\n\r\n")[0].split("\r\n")
            assert (first.split()[1], lacks(dict(line.split(": ") for line in rest))) == (str(status), {})
        for request in (
            "\0\0\r\n\r\n",
            f"POST / HTTP/1.1\r\n{usual}\r\n",
            f"GET / HTTP/1.0\r\n{usual}\r\n",
            f"GET /streams HTTP/1.1\r\n{usual}no header\r\n\r\n",
            f"GET /streams HTTP/1.1\r\n{usual}Content-Length: 5\r\n\r\nhello",
        ):
            with socket.create_connection(("127.0.0.1", int(host.split(":")[1])), timeout=10) as raw:
                raw.sendall(request[:3].encode())
                time.sleep(0.01)
                raw.sendall(request[3:].encode())
                said = b"".join(iter(partial(raw.recv, 65536), b"")).decode()
            first, *rest = said.partition("\r\n\r\n")[0].split("\r\n")
            assert (first.split()[1], lacks(dict(line.split(": ") for line in rest))) == ("400", {})
            assert "WebSockets" in json.loads(said.partition("\r\n\r\n")[2])["error"]
        assert upgrade(server, usual).startswith("HTTP/1.1 101 ")
        # As Firefox says it.
        assert upgrade(server, f"{usual}Connection: keep-alive, Upgrade\r\n").startswith("HTTP/1.1 101 ")


def test_a_mistake_of_ours_carries_them_too():
    async def fail(_: Any) -> None:
        raise ZeroDivisionError

    app = Starlette(routes=[Route("/", fail)], exception_handlers=build_handlers("service"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from starlette.testclient import TestClient
    found = TestClient(app, raise_server_exceptions=False).get("/")
    assert (found.status_code, lacks(found.headers)) == (500, {})
    assert found.json() == {"error": "the service has made a mistake: its terminal shows which"}


# HTTP.


def test_health_policy_streams_and_metrics_can_be_asked_for(server: Server, policies: Any, contexts: np.ndarray):
    assert server.get("/health").json()["status"] == server.get("/ready").json()["status"] == "ok"
    policy = server.get("/policy").json()
    assert policy["actions"] == ["pan"]
    assert (policy["low"], policy["high"], policy["drift"]) == ([-40.0], [40.0], "known")
    assert str(policies["served"].parent) not in json.dumps(policy)
    with server.connect("/listed") as ws:
        ask(ws, {"x": contexts[0].tolist()})
        listed = {s["name"]: s for s in server.get("/streams").json()["streams"]}["listed"]
        assert listed == {"name": "listed", "frames": 1, "dropped": 0, "late": 0, "by": "policy"}
        assert server.metric("simile_frames_total") > 0
        assert server.metric("simile_streams") >= 1
        ended = httpx.delete(f"{server.http}/streams/listed", trust_env=False)
        assert ended.json() == {"closed": {"frames": 1, "dropped": 0}}
        assert event(ws, "closed")["event"]["on"]
        assert ask(ws, {"x": contexts[0].tolist()})["n"] == 0
    assert httpx.delete(f"{server.http}/streams/nobody", trust_env=False).status_code == 404


def test_a_roll_out_is_that_of_the_library_to_the_bit(server: Server, policies: Any, contexts: np.ndarray):
    policy = simile.load(policies["served"])
    post = lambda body: httpx.post(f"{server.http}/rollouts", json=body, trust_env=False, timeout=10)  # noqa: E731
    rows = [[None if v == contexts[3, 0] else v for v in row] for row in contexts.tolist()]
    X = np.array(rows, dtype=float)
    found = post({"contexts": rows})
    assert found.json()["actions"] == simile.rollout(policy, [X], start=simile.ColdStart())[0].tolist()
    found = post({"contexts": rows, "start": [3.0]})
    assert found.json()["actions"] == simile.rollout(policy, [X], start=[3.0])[0].tolist()


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "cannot be read"),
        (b'{"contexts": []}', 400, "rows"),
        (b'{"contexts": [[1]]}', 400, "6 values"),
        (b'{"contexts": [[1,2,3,4,5,6]], "start": []}', 400, "start"),
        (b'{"contexts": [[1,2,3,4,5,1e40]]}', 400, "within"),
        (b'{"contexts": [[1,2,3,4,5,6]], "x": 1}', 400, "unknown field"),
        (b"[" * (5 << 20), 413, "larger"),
    ],
)
def test_a_roll_out_that_cannot_be_is_refused_in_words(server: Server, body: bytes, status: int, words: str):
    found = httpx.post(f"{server.http}/rollouts", content=body, trust_env=False, timeout=10)
    assert (found.status_code, words in found.json()["error"]) == (status, True)


def test_addresses_that_are_not_are_refused_in_words(server: Server):
    assert server.get("/../../etc/passwd").status_code == 404
    assert server.get("/nothing").json() == {"error": "there is nothing at this address"}
    refused = httpx.put(f"{server.http}/health", trust_env=False)
    assert refused.status_code == 405
    assert "GET" in refused.headers["allow"]
    assert server.get("/streams", headers={"Origin": "https://elsewhere.example"}).status_code == 403


def test_the_openapi_document_lists_every_route_and_every_way_in():
    state: Any = SimpleNamespace(options=SimpleNamespace(patience=1.0))
    app = build_app(state, guard.build_guard("127.0.0.1", 8771, TOKEN, ()))
    routes = {(r.path, m.lower()) for r in app.routes if isinstance(r, Route) for m in r.methods or ()}
    for token in (True, False):
        found = build_document(6, 1, version="1", token=token)
        listed = {(path, method): said for path, item in found["paths"].items() for method, said in item.items()}
        assert set(listed) == routes
        assert len({said["operationId"] for said in listed.values()}) == len(listed)
        for (path, method), said in listed.items():
            needs = token and path not in guard.OPEN_PATHS
            assert {"403", "421"} <= set(said["responses"])
            assert ("401" in said["responses"]) == needs
            assert said.get("security", found.get("security")) == (
                [{"token": []}, {"query": []}] if needs else [] if token else None
            )
            assert all(("content" in answer) == (method != "head") for answer in said["responses"].values())
    schemes = build_document(6, 1, version="1", token=True)["components"]["securitySchemes"]
    assert schemes == {
        "token": {"type": "http", "scheme": "bearer"},
        "query": {"type": "apiKey", "in": "query", "name": "token"},
    }


ROW = [1.0, 2, 3, 4, 5, 6]
BODIES: list[Any] = [
    *(None, [], 5, "x", {}, {"contexts": None}, {"contexts": []}, {"contexts": [[]]}, {"contexts": [None]}),
    *({"contexts": [ROW]}, {"contexts": [ROW, ROW]}, {"contexts": [ROW, ROW[:5]]}, {"contexts": [[*ROW, 7]]}),
    *({"contexts": [[None] * 6]}, {"contexts": [[True, *ROW[1:]]]}, {"contexts": [["1", *ROW[1:]]]}, {"contexts": ROW}),
    *({"contexts": [[1e30, *ROW[1:]]]}, {"contexts": [[-1e30, *ROW[1:]]]}, {"contexts": [[1.1e30, *ROW[1:]]]}),
    *({"contexts": [[10**400, *ROW[1:]]]}, {"contexts": [[1 << 80, *ROW[1:]]]}, {"contexts": [ROW], "speed": 1}),
    *({"contexts": [ROW], "start": None}, {"contexts": [ROW], "start": [3]}, {"contexts": [ROW], "start": []}),
    *({"contexts": [ROW], "start": [None]}, {"contexts": [ROW], "start": [1, 2]}, {"contexts": [ROW], "start": 3}),
    *({"contexts": [ROW], "start": [1e30]}, {"contexts": [ROW], "start": [-1.1e30]}, {"contexts": [ROW], "start": "3"}),
    *({"contexts": [ROW] * MOST_ROWS}, {"contexts": [ROW] * (MOST_ROWS + 1)}),
]


@pytest.mark.filterwarnings("ignore")
def test_the_openapi_document_says_exactly_which_roll_outs_are_taken(policies: Any):
    policy = simile.load(policies["served"])
    body = build_document(6, 1, version="1", token=False)["paths"]["/rollouts"]["post"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    assert {f.name: f.required for f in msgspec.structs.fields(Rollout)} == {
        name: name in schema["required"] for name in schema["properties"]
    }
    check = jsonschema_rs.Draft202012Validator(schema)
    verdicts = []
    for one in BODIES:
        try:
            http._roll_out(policy, json.dumps(one).encode(), 6)
            taken = True
        except RequestError as error:
            taken = error.status == 409  # it was taken, and came to nothing
        verdicts.append(taken)
        assert check.is_valid(one) == taken, str(one)[:100]
    assert 5 < sum(verdicts) < len(BODIES) - 10
    assert f"{http.LARGEST_REQUEST:,} bytes" in body["description"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::hypothesis.errors.NonInteractiveExampleWarning")
def test_the_http_part_does_what_its_openapi_document_says(server: Server):
    found = server.get("/openapi.json").json()
    assert found == build_document(6, 1, version=simile.__version__, token=False)
    refusals = {"expected-statuses": ["400", "404", "405", "413", "415"]}  # 413 is for what is too large to look at
    config = schemathesis.Config.from_dict({"checks": {"negative_data_rejection": refusals}})
    schema = schemathesis.openapi.from_dict(found, config=config)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert {operation.path for operation in operations} == set(found["paths"])
    good, bad = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
    for operation in operations:
        takes = operation.path in ("/rollouts", "/streams/{name}")  # something that can be wrong
        for mode in (good, bad) if takes else (good,):

            @settings(some(0.4), deadline=None, suppress_health_check=list(HealthCheck), database=None)
            @given(case=operation.as_strategy(generation_mode=mode))
            def check(case: Any) -> None:
                case.call_and_validate(base_url=server.http)

            check()
