"""The clients of `simile serve`: against a real server, and against one that misbehaves by a script."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

import simile
from conftest import demos_of
from simile.errors import ArgumentError
from simile.online import Predictor
from simile.serving.client import AsyncClient, Client, ServiceError
from test_serving import Server

X = np.random.default_rng(0).normal(size=(200, 2)).cumsum(axis=0)
RATE = 50.0
NODE = shutil.which("node")
EXAMPLE = Path(__file__).parents[1] / "examples" / "serve.mjs"


@pytest.fixture(scope="module")
def policy() -> Any:
    return simile.clone(demos_of(200, 200, rate=RATE), model=simile.SmoothForest(n_trees=4), smoothness=2.0).policy


@pytest.fixture(scope="module")
def file(policy: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("client") / "policy.safetensors"
    policy.save(path)
    return path


@pytest.fixture(scope="module")
def server(file: Path) -> Iterator[Server]:
    served = Server(file)
    yield served
    served.stop()


# A real server.


@pytest.mark.parametrize("msgpack", [True, False])
def test_a_client_gets_the_bits_of_a_predictor(server: Server, policy: Any, msgpack: bool) -> None:
    predictor = Predictor(policy)
    with Client(f"{server.url}/bits-{msgpack}", msgpack=msgpack) as client:
        for x in X[:30]:
            np.testing.assert_array_equal(client.step(x), predictor.step(x))
        assert client.by == "policy"
        np.testing.assert_array_equal(client.step(None), predictor.step(None))
        assert client.by == "gap"
        np.testing.assert_array_equal(client.override([1.5], X[30]), predictor.override([1.5], X[30]))
        assert client.by == "operator"
        holes = [np.nan, 0.5]
        np.testing.assert_array_equal(client.step(holes), predictor.step(holes))
        names = policy.card.context_names
        np.testing.assert_array_equal(client.step(dict(zip(names, X[31], strict=True))), predictor.step(X[31]))
        assert client.lost == client.bridged == client.reconnections == 0


def test_an_async_client_gets_the_bits_of_a_predictor(server: Server, policy: Any) -> None:
    async def talk() -> None:
        predictor = Predictor(policy, start=[2.0])
        async with AsyncClient(f"{server.url}/async") as client:
            opened = await client.open(start=[2.0])
            assert opened.frames == 0
            for x in X[:30]:
                np.testing.assert_array_equal(await client.step(x), predictor.step(x))
            np.testing.assert_array_equal(await client.override([1.5]), predictor.override([1.5]))

    asyncio.run(talk())


def test_an_opened_stream_begins_where_the_actuator_is_and_tells_its_columns(server: Server, policy: Any) -> None:
    with Client(f"{server.url}/start") as client:
        opened = client.open(start=[3.0])
        assert (opened.frames, opened.rate) == (0, RATE)
        assert (opened.contexts, opened.actions) == (policy.card.context_names, policy.card.action_names)
        np.testing.assert_array_equal(client.step(X[0]), Predictor(policy, start=[3.0]).step(X[0]))


def test_a_frame_that_cannot_be_used_raises_with_the_bridge(server: Server, policy: Any) -> None:
    predictor = Predictor(policy)
    with Client(f"{server.url}/bridge") as client:
        with pytest.raises(ServiceError, match="x must hold 2 values") as first:
            client.step([1.0, 2.0, 3.0])
        assert first.value.action is None  # nothing is known yet
        predictor.step(X[0])
        client.step(X[0])
        with pytest.raises(ServiceError, match="x must hold 2 values") as second:
            client.step([1.0, 2.0, 3.0])
        np.testing.assert_array_equal(second.value.action, predictor.step(None))
        np.testing.assert_array_equal(client.step(X[1]), predictor.step(X[1]))


def test_a_stream_that_was_refused_says_why(server: Server) -> None:
    with Client(f"{server.url}/refused") as client, pytest.raises(ServiceError, match="could not be opened: start"):
        client.open(start=[1.0, 2.0])


def test_a_broken_connection_is_made_again_and_the_stream_goes_on(server: Server, policy: Any) -> None:
    predictor = Predictor(policy)
    with Client(f"{server.url}/broken") as client:
        for t, x in enumerate(X[:40]):
            if t in (10, 20):
                client._wire.socket.shutdown(2)
            np.testing.assert_array_equal(client.step(x), predictor.step(x))
        assert client.reconnections == 2
        assert client.opened is not None
        assert client.opened.frames == 20


def test_an_async_client_connects_again_too(server: Server, policy: Any) -> None:
    async def talk() -> None:
        predictor = Predictor(policy)
        async with AsyncClient(f"{server.url}/broken-async") as client:
            for t, x in enumerate(X[:20]):
                if t == 10:
                    client._wire.transport.abort()
                np.testing.assert_array_equal(await client.step(x), predictor.step(x))
            assert client.reconnections == 1

    asyncio.run(talk())


def test_another_client_resumes_a_stream_where_the_first_left_it(server: Server, policy: Any) -> None:
    predictor = Predictor(policy)
    url = f"{server.url}/left"
    first = Client(url)
    for x in X[:10]:
        predictor.step(x)
        first.step(x)
    first._wire.socket.shutdown(2)
    with Client(url) as second:
        assert second.open(resume=True).frames == 10
        for x in X[10:20]:
            np.testing.assert_array_equal(second.step(x), predictor.step(x))


def test_a_client_outlives_a_server_that_is_killed(file: Path, policy: Any, tmp_path: Path) -> None:
    kept = ("--snapshots", str(tmp_path / "streams"), "--snapshot-every", "0.05")
    served = Server(file, *kept)
    port = served.url.split(":")[2].split("/")[0]
    with Client(f"{served.url}/camera", patience=60.0, timeout=60.0) as client:
        before = [client.step(x) for x in X[:20]]
        threading.Event().wait(0.5)  # a snapshot is written
        served.stop(signal.SIGKILL)
        served = Server(file, *kept, "--port", port)
        predictor = Predictor(policy)
        np.testing.assert_array_equal(before, [predictor.step(x) for x in X[:20]])
        np.testing.assert_array_equal(client.step(X[20]), predictor.step(X[20]))
        assert client.reconnections >= 1
    served.stop()


def test_a_late_client_goes_on_after_what_the_server_did_without_it(server: Server) -> None:
    with Client(f"{server.url}/late") as client:
        client.open(deadline=0.05)
        client.step(X[0])
        threading.Event().wait(0.5)
        for x in X[1:]:
            client.step(x)  # on a busy machine, one more may be late
            if client.by == "policy":
                break
        assert client.by == "policy"
        assert client.bridged > 1


def test_a_wrong_token_is_refused_at_once_and_the_right_one_is_not(file: Path) -> None:
    served = Server(file, "--token", "a-secret-of-some-length")
    with (
        Client(f"{served.url}/token", token="another") as client,
        pytest.raises(ServiceError, match="refused with 401"),
    ):
        client.step(X[0])
    with Client(f"{served.url}/token", token="a-secret-of-some-length") as client:
        assert client.step(X[0]).shape == (1,)
    served.stop()


def test_no_server_is_said_at_once() -> None:
    with Client("ws://127.0.0.1:9/streams/x") as client, pytest.raises(ServiceError, match="no connection to ws://127"):
        client.step(X[0])

    async def talk() -> None:
        async with AsyncClient("ws://127.0.0.1:9/streams/x") as client:
            with pytest.raises(ServiceError, match="no connection"):
                await client.step(X[0])

    asyncio.run(talk())


# A server by a script.


@contextmanager
def talking(talk: Callable[[ServerConnection], None]) -> Iterator[str]:
    """Serve connections by a function."""
    with serve(talk, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/streams/x"
        server.shutdown()
        thread.join()


@contextmanager
def scripted(answer: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> Iterator[str]:
    """Serve whatever `answer` says to each message; raising ConnectionError hangs up."""

    def talk(connection: ServerConnection) -> None:
        try:
            for message in connection:
                for said in answer(msgspec.msgpack.decode(message)):
                    connection.send(msgspec.msgpack.encode(said))
        except ConnectionError:
            connection.close(1009, "the message is too large")
        except ConnectionClosed:
            pass

    with talking(talk) as url:
        yield url


def test_what_was_lost_and_what_happened_is_kept() -> None:
    def answer(said: dict[str, Any]) -> list[dict[str, Any]]:
        if "close" in said:
            return [{"closed": {"frames": 1, "dropped": 0}}]
        event = {"event": {"kind": "drift", "on": True}}
        return [
            event,
            {"n": said["n"] - 1, "a": [9.0], "lost": 2},
            {"n": said["n"], "a": [1.0], "by": "policy", "lost": 1},
        ]

    with scripted(answer) as url, Client(url) as client:
        assert client.step([0.0]) == 1.0
        assert client.step([0.0]) == 1.0
        assert client.lost == 6
        assert [event["kind"] for event in client.events] == ["drift", "drift"]


def test_an_answer_that_does_not_come_is_not_waited_for_for_ever() -> None:
    with scripted(lambda said: [{"n": said["n"], "a": [1.0]}] if said.get("n", 0) % 2 else []) as url:
        client = Client(url, timeout=0.2)
        with pytest.raises(ServiceError, match=r"no answer within 0\.2 s"):
            client.step([0.0])
        assert client.step([0.0]) == 1.0
        client.close()


def test_a_message_that_the_server_hangs_up_on_is_not_sent_again() -> None:
    tried = []

    def answer(said: dict[str, Any]) -> list[dict[str, Any]]:
        tried.append(said)
        raise ConnectionError

    with scripted(answer) as url, Client(url) as client:
        with pytest.raises(ServiceError, match=r"closed with 1009: the message is too large"):
            client.step([0.0])
        assert len(tried) == 1


def test_a_stream_cannot_be_opened_where_the_server_hangs_up() -> None:
    def answer(said: dict[str, Any]) -> list[dict[str, Any]]:
        raise ConnectionError

    with scripted(answer) as url:
        client = Client(url)
        with pytest.raises(ServiceError, match="could not be opened: the server closed with 1009"):
            client.open()
    with pytest.raises(ServiceError, match="could not be opened"):
        client.open()  # nobody is there any more


def test_patience_ends_where_the_server_does_not_come_back() -> None:
    with scripted(lambda said: [{"n": said.get("n"), "a": [1.0]}]) as url:
        client = Client(url, patience=0.3)
        assert client.step([0.0]) == 1.0
        client._wire.close()
    with pytest.raises(ServiceError, match="no action: "):
        client.step([0.0])


def test_a_frame_whose_answer_was_lost_is_sent_anew_under_the_next_number() -> None:
    numbers = []

    def answer(said: dict[str, Any]) -> list[dict[str, Any]]:
        if "open" in said:
            return [{"opened": {"frames": 2, "rate": 50.0, "contexts": ["x"], "actions": ["a"]}}]
        numbers.append(said["n"])
        if numbers.count(1) == 1 and said["n"] == 1:
            client._wire.socket.shutdown(2)  # taken, but the answer is lost
            return []
        if said["n"] == 1:
            return [{"n": 1, "error": "frame 1 has come before", "lost": 1}]
        return [{"n": said["n"], "a": [float(said["n"])], "by": "policy"}]

    with scripted(answer) as url:
        client = Client(url)
        assert client.step([0.0]) == 0.0
        assert client.step([0.0]) == 2.0
        assert numbers == [0, 1, 1, 2]
        assert client.lost == 1
        client._hang_up()


# A server that is broken, or means ill.

OPENED = {"frames": 0, "rate": 50.0, "contexts": ["x"], "actions": ["a"]}
NO_ANSWERS: list[Any] = [
    *(b"", b"\xc1", b"\x81\xa1a", b"\xff" * 100, b"\x91" * 5000, "text", "{}", "[" * 5000),
    *([], 7, None, "text", {"a": 1.0}, {"a": ["x"]}, {"a": [[1.0]]}, {"a": [None]}, {"a": [[1.0] * 2] * 2}),
    *({"a": []}, {"a": [math.nan]}, {"a": [math.inf]}, {"n": "0"}, {"n": -1, "a": [1.0]}, {"n": 2**60}, {"lost": -1}),
    *({"lost": "many"}, {"error": 5}, {"error": ["x"]}, {"event": 3}, {"by": 1, "a": [1.0]}, {"opened": 5}),
    *({"opened": {}}, {"opened": {**OPENED, "frames": "x"}}, {"opened": {**OPENED, "frames": -5}}),
    *({"opened": {**OPENED, "contexts": "x"}}, {"opened": {**OPENED, "n": 2**70}}, {"opened": {**OPENED, "n": "x"}}),
]


@contextmanager
def saying(said: Any) -> Iterator[str]:
    """Serve one and the same answer to everything."""

    def talk(connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            for message in connection:
                n = msgspec.msgpack.decode(message).get("n")
                full = {"n": n, **said} if isinstance(said, dict) and n is not None else said
                connection.send(full if isinstance(said, bytes | str) else msgspec.msgpack.encode(full))

    with talking(talk) as url:
        yield url


def try_everything(url: str, **options: Any) -> None:
    """Use both clients; whatever the server does, it ends in a ServiceError and soon."""
    given = {"timeout": 0.3, "patience": 0.1, **options}
    uses: list[Callable[[Any], Any]] = [lambda c: c.step([0.0]), lambda c: c.open(resume=True)]
    for use in uses:
        with Client(url, **given) as client, pytest.raises(ServiceError):
            use(client)

        async def talk(use: Callable[[Any], Any] = use) -> None:
            async with AsyncClient(url, **given) as client:
                with pytest.raises(ServiceError):
                    await use(client)

        asyncio.run(talk())


@pytest.mark.parametrize("said", NO_ANSWERS, ids=[f"{i}-{str(s)[:24]!a}" for i, s in enumerate(NO_ANSWERS)])
def test_what_is_no_answer_ends_in_the_clients_own_error(said: Any) -> None:
    with saying(said) as url:
        try_everything(url)


def test_what_a_server_says_cannot_steer_a_terminal_nor_fill_it() -> None:
    said = "bad\n\x1b[31msimile: all is well\r" + "x" * 100_000
    with scripted(lambda asked: [{"n": asked.get("n"), "error": said}]) as url:
        for use in (lambda c: c.step([0.0]), lambda c: c.open()):
            with Client(url, timeout=0.3) as client, pytest.raises(ServiceError) as refused:
                use(client)
            assert "bad\\n\\x1b[31msimile" in str(refused.value)
            assert str(refused.value).isprintable()
            assert len(str(refused.value)) < 1100


def test_an_action_of_another_width_is_not_taken() -> None:
    actions = iter([[1.0], [1.0, 2.0]])
    with scripted(lambda said: [{"n": said["n"], "a": next(actions)}] if "n" in said else []) as url:
        client = Client(url, timeout=0.3)
        assert client.step([0.0]) == 1.0
        with pytest.raises(ServiceError, match="no answer: an action of 2 values after one of 1"):
            client.step([0.0])
        client.close()


HANDSHAKES = {
    "closes at once": [],
    "says nothing": None,
    "garbage": [b"\xff\x00" * 500],
    "half a status": [b"HTTP/1.1 10"],
    "no HTTP": [b"SSH-2.0-OpenSSH\r\n"],
    "an answer of another kind": [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"],
    "a status that is none": [b"HTTP/1.1 9999 X\r\n\r\n"],
    "a length that is none": [b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n"],
    "headers without an end": [b"HTTP/1.1 101 X\r\n", *[b"a: b\r\n" * 100] * 100],
    "a header without an end": [b"HTTP/1.1 101 X\r\na: ", *[b"b" * 1000] * 100],
    "a body without an end": [b"HTTP/1.1 404 X\r\n\r\n", *[b"b" * 100_000] * 30],
    "a key that is wrong": [
        b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"
    ],
    "somewhere else": [b"HTTP/1.1 302 X\r\nlocation: ws://[::bad\r\ncontent-length: 0\r\n\r\n"],
}


@contextmanager
def raw_server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve connections, one after the other, as TCP has them."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = listening.accept()
                    with peer, suppress(OSError):
                        talk(peer)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"ws://127.0.0.1:{listening.getsockname()[1]}/streams/x"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize("parts", HANDSHAKES.values(), ids=HANDSHAKES)
def test_a_handshake_that_is_none_ends_in_the_clients_own_error(parts: list[bytes] | None) -> None:
    def talk(peer: socket.socket) -> None:
        peer.settimeout(1.0)
        peer.recv(65536)
        for part in parts or ():
            peer.sendall(part)
        if parts is None:
            peer.recv(1)  # until the client has gone

    with raw_server(talk) as url:
        try_everything(url)


def test_news_without_an_end_do_not_keep_a_client_for_ever() -> None:
    def talk(connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            while True:
                connection.send(msgspec.msgpack.encode({"event": {"kind": "drift"}, "n": None}))

    with talking(talk) as url:
        with Client(url, timeout=0.1) as client:
            with pytest.raises(ServiceError, match=r"no answer within 0\.1 s"):
                client.step([0.0])
            client._deadline = 0.01  # as if it had been opened with one: it catches up first
            with pytest.raises(ServiceError, match=r"no answer within 0\.1 s"):
                client.step([0.0])
            assert len(client.events) == 100

        async def ask() -> None:
            async with AsyncClient(url, timeout=0.1) as client:
                with pytest.raises(ServiceError, match=r"no answer within 0\.1 s"):
                    await client.step([0.0])

        asyncio.run(ask())


# What is refused before it is sent.


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Client("http://127.0.0.1"), "url must be like 'ws://"),
        (lambda: Client("ws://127.0.0.1/streams/x", timeout=-1.0), "timeout must be a number of seconds"),
        (lambda: Client("ws://127.0.0.1/streams/x", patience=np.nan), "patience must be a number of seconds"),
        (lambda: Client("ws://127.0.0.1:99999/streams/x"), "url must be like 'ws://"),
        (lambda: Client("ws://[::bad/streams/x"), "url must be like 'ws://"),
        (lambda: Client("ws:///streams/x"), "url must be like 'ws://"),
        (lambda: Client("ws://127.0.0.1/streams/x", token="a\r\nHost: b"), "token must be printable"),
        (lambda: Client("ws://127.0.0.1/streams/x").step([np.inf]), "x must be a list of finite numbers"),
        (lambda: Client("ws://127.0.0.1/streams/x").step([[1.0]]), "x must be a list of finite numbers"),
        (lambda: Client("ws://127.0.0.1/streams/x").step("many"), "x must be numbers"),
        (lambda: Client("ws://127.0.0.1/streams/x").step({"x": "many"}), "x must be numbers"),
        (lambda: Client("ws://127.0.0.1/streams/x").override([np.nan]), "action must be finite"),
        (lambda: Client("ws://127.0.0.1/streams/x").open(start=[np.nan]), "start must be finite"),
    ],
)
def test_arguments_that_cannot_be_sent_are_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        make()


# JavaScript.


def run_node(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert NODE is not None
    flags = ["--experimental-websocket"] if node_version() < 22 else []
    return subprocess.run([NODE, *flags, *arguments], capture_output=True, text=True, timeout=60, check=False)


def node_version() -> int:
    return 0 if NODE is None else int(subprocess.check_output([NODE, "--version"], text=True)[1:].split(".")[0])


@pytest.mark.skipif(node_version() < 20 or not EXAMPLE.exists(), reason="needs Node 20 and a checkout")
def test_the_example_in_javascript_gets_the_bits_of_a_predictor(server: Server, policy: Any) -> None:
    found = run_node(str(EXAMPLE), f"{server.url}/node", "10")
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert lines[0] == f"2 contexts to {policy.card.action_names[0]} at {RATE:g} Hz"
    assert lines[-1] == "done, 0 lost"
    predictor, x = Predictor(policy), [0.0, 0.0]
    for t, line in enumerate(lines[1:-1]):
        x = [value + math.sin(0.1 * t + i) * 0.1 for i, value in enumerate(x)]
        np.testing.assert_allclose(float(line.split()[1]), predictor.step(x), rtol=1e-12)


@pytest.mark.skipif(node_version() < 20 or not EXAMPLE.exists(), reason="needs Node 20 and a checkout")
def test_the_example_in_javascript_says_what_is_wrong_and_goes_on_after_a_break(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "use.mjs"
    script.write_text(f"""
        import {{ Stream }} from {json.dumps(EXAMPLE.as_uri())};
        const stream = new Stream({json.dumps(f"{server.url}/node-2")});
        await stream.open().then(() => stream.step([1, 2]));
        await stream.step([1]).catch((error) => console.log(error.message, error.action.length));
        stream.socket.close();
        await stream.step([1, 2]).catch(() => stream.step([1, 2])).then((a) => console.log(a.length));
        await stream.open({{ start: [1, 2, 3] }}).catch((error) => console.log(error.message));
        process.exit(0);
    """)
    found = run_node(str(script))
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert lines[0].startswith("x must hold 2 values")
    assert lines[0].endswith(" 1")
    assert lines[1] == "1"
    assert lines[2].startswith("start must be 1 finite number")
