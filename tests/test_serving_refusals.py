"""What `simile serve` must bear: messages that cannot be used, slow readers and broken frames."""

from __future__ import annotations

import json
import random
import socket
import time
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

import servers as shared
from conftest import SEED
from servers import Json, Server, answer, ask

contexts, policies, server = shared.contexts, shared.policies, shared.server


# What cannot be used.

UNUSABLE = [
    ("{", "cannot be read"),
    ("", "cannot be read"),
    ("[1, 2]", "cannot be read"),
    ('{"x": [NaN]}', "cannot be read"),
    ('{"x": [1e999]}', "out of range"),
    ('{"x": [true]}', "bool"),
    ('{"x": 3}', "cannot be read"),
    ('{"y": [1]}', "unknown field"),
    ('{"x": [1], "n": 1.5}', "int"),
    ('{"x": [1], "n": -1}', "n must be"),
    ('{"x": [1], "n": 99999999999999999999}', "n must be"),
    ("{}", "none of them"),
    ('{"open": {}, "x": [1]}', "one of"),
    ('{"open": {}, "close": true}', "one of"),
    ('{"open": {"speed": 1}}', "unknown field"),
    ('{"open": {"deadline": -1}}', "deadline must be"),
    ('{"x": null, "stream": "another"}', "this connection is the stream"),
    (b"\xc1\xff\x00", "cannot be read"),
    (b"\x81\xa1x\xdd\xff\xff\xff\xff", "cannot be read"),
    ("[" * 4000, "cannot be read"),
]


@pytest.mark.parametrize(("message", "words"), UNUSABLE)
def test_what_cannot_be_read_is_answered_by_a_sentence(server: Server, contexts: Any, message: Any, words: str):
    with server.connect("/unread") as ws:
        before = ask(ws, {"x": contexts[0].tolist()})
        ws.send(message)
        found = answer(ws)
        assert words in found["error"]
        assert "a" not in found
        assert "/" not in found["error"] or "/streams" in found["error"]
        assert ask(ws, {"x": contexts[1].tolist()})["n"] == before["n"] + 1  # the stream did not notice


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"x": [1.0]}, "6 values"),
        ({"x": {"player0": 1.0}}, "player1"),
        ({"x": [float("inf")] * 6}, "finite"),
        ({"override": [1.0, 2.0]}, "override must be"),
        ({"override": [float("nan")]}, "override must be"),
        ({"override": [-1.7e308]}, "override must lie within"),
    ],
)
def test_a_frame_that_cannot_be_used_is_bridged_and_says_why(server: Server, contexts: Any, message: Json, words: str):
    with server.connect("/unused") as ws:
        ask(ws, {"x": contexts[0].tolist()})
        found = ask(ws, message, binary=True)
        assert (found["n"], found["by"]) == (1, "gap")
        assert np.isfinite(found["a"]).all()
        assert words in found["error"]
    with server.connect("/unused") as ws:  # nothing is known of it, for it begins anew
        assert "a" not in ask(ws, message, binary=True)


def test_a_shared_connection_must_name_its_streams(server: Server, contexts: np.ndarray):
    with server.connect() as ws:
        for name in (None, "", "a/b", "x" * 65, "ä"):
            assert "stream must name" in ask(ws, {"x": contexts[0].tolist(), "stream": name})["error"]


def test_too_large_a_message_closes_its_connection_alone(server: Server, contexts: np.ndarray):
    with server.connect("/steady") as steady:
        ask(steady, {"x": contexts[0].tolist()})
        for parts in ("x" * 5000, ["y" * 3000, "z" * 3000]):
            with server.connect("/large") as ws:
                with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012 - maybe before the last part is sent
                    ws.send(parts)
                    ws.recv(timeout=5)
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1009
        assert ask(steady, {"x": contexts[1].tolist()})["n"] == 1


def test_too_large_a_message_is_not_looked_at_though_it_comes_in_pieces(server: Server):
    before = server.metric("simile_malformed_total")
    with server.connect("/large") as ws, pytest.raises(ConnectionClosed):  # noqa: PT012 - maybe before all is sent
        ws.send(json.dumps({"stream": "s" * 70_000, "x": None}))
        ws.recv(timeout=5)
    assert server.metric("simile_malformed_total") == before


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.long)])
def test_mutilated_messages_leave_the_server_as_it_was(server: Server, contexts: np.ndarray, count: int):
    rng = random.Random(SEED)
    good = [
        {"x": contexts[0].tolist(), "n": 5},
        {"override": [1.0], "x": None},
        {"open": {"start": [0.0], "resume": True}},
        {"close": True},
        {"x": {"player0": 1.0}, "stream": "fuzzed"},
    ]
    before = server.metric("simile_malformed_total")
    sent, answers = 0, 0
    with server.connect("/fuzzed") as ws, server.connect("/watched") as watched:
        for i in range(count):
            binary = rng.random() < 0.5
            one = rng.choice(good)
            data = bytearray(msgspec.msgpack.encode(one) if binary else json.dumps(one).encode())
            for _ in range(rng.randrange(1, 4)):
                at = rng.randrange(len(data) + 1)
                data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
            ws.send(bytes(data) if binary else data.decode("latin-1"))
            sent += 1
            if i % 4 == 3:  # a few at a time, as many as may wait
                ws.send(json.dumps({"close": True, "n": i}))  # which is always refused, and so tells where we are
                while answer(ws).get("n") != i:
                    answers += 1
        assert ask(watched, {"x": contexts[0].tolist()})["by"] == "policy"
    assert answers == sent
    assert server.metric("simile_malformed_total") > before + count / 2


# Who reads nothing, who goes.


def test_a_slow_reader_delays_nobody_and_is_cut_off_in_the_end(server: Server, contexts: np.ndarray):
    frame = json.dumps({"x": contexts[0].tolist()})
    before = server.metric("simile_unsent_total")
    with server.connect("/quick") as quick, socket.socket() as raw:
        # Not too small: a peer without any room drops even what acknowledges its own frames, and both ends stall.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        raw.connect(("127.0.0.1", int(server.url.split(":")[2].split("/")[0])))
        with server.connect("/slow", sock=raw, max_queue=1, ping_interval=None) as slow:
            cut = False
            end = time.monotonic() + 20
            while not cut:
                assert time.monotonic() < end, "it was never cut off"
                try:
                    for _ in range(200):
                        slow.send(frame)
                except ConnectionClosed:
                    cut = True
                assert ask(quick, {"x": contexts[1].tolist()})["by"] == "policy"  # whatever the other does
    assert server.metric("simile_unsent_total") > before
    with server.connect("/slow") as again:
        assert ask(again, {"open": {"resume": True}})["opened"]["frames"] > 0
        assert ask(again, {"x": contexts[2].tolist()})["lost"] > 0


def test_a_peer_that_speaks_no_websocket_is_shown_out(server: Server):
    port = int(server.url.split(":")[2].split("/")[0])
    for data in (
        b"\0" * 100,
        b"GET /streams HTTP/1.1\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01" * 9,
    ):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
            raw.sendall(data + b"\r\n\r\n")
            said = b""
            with suppress(ConnectionResetError):
                while part := raw.recv(4096):
                    said += part
            assert b"Traceback" not in said
            assert b".py" not in said


BROKEN = {
    "an opcode that is not": b"\x83\x80\0\0\0\0",
    "a frame without a mask": b"\x81\x02{}",
    "a fragment of nothing": b"\x80\x80\0\0\0\0",
    "a message within a message": b"\x01\x81\0\0\0\0{\x81\x81\0\0\0\0}",
    "a length beyond all": b"\x82\xff\x7f" + b"\xff" * 11,
    "a ping in fragments": b"\x09\x80\0\0\0\0",
    "a close that is too short": b"\x88\x81\0\0\0\0x",
    "half a frame, and gone": b"\x82\xfe\x01",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_broken_frame_ends_its_own_connection_at_most(server: Server, contexts: np.ndarray, data: bytes):
    with server.connect("/whole") as whole:
        assert whole.ping(b"there?").wait(10)
        ask(whole, {"x": contexts[0].tolist()})
        with server.connect("/broken") as ws:
            ask(ws, {"x": contexts[0].tolist()})
            ws.socket.sendall(data)
        assert ask(whole, {"x": contexts[1].tolist()})["n"] == 1
