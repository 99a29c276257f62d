"""Messages that nobody would send on purpose: the decoder, the service and a real server must outlive them all."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

import simile
from conftest import SEED, demos_of
from served import check_conservation
from simile.online import Predictor, RateLimit
from simile.serving.messages import (
    Answer,
    Frame,
    OperatorMessage,
    complete,
    explain,
    from_json,
    from_msgpack,
    operator_from_json,
    operator_from_msgpack,
    to_json,
    to_msgpack,
)
from simile.serving.service import Service
from simile.serving.sessions import Refusal, Stream
from simile.serving.websocket import UNREADABLE
from test_serving import ask, served

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
LONGEST_SENTENCE = 300

numbers = st.one_of(st.none(), st.floats(), st.integers(-(2**70), 2**70), st.booleans(), st.text(max_size=3))
plain = st.recursive(
    numbers, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
)
fields = st.sampled_from(["x", "n", "override", "open", "close", "stream", "start", "deadline", "resume", "y"])
wishes = st.sampled_from(["take", "hand_back", "watch", "contexts"])
almost = st.dictionaries(fields, plain | st.dictionaries(fields, plain, max_size=3), max_size=5)


@pytest.fixture(scope="module")
def policy() -> Any:
    return simile.clone(demos_of(150, 150, rate=60.0), model=simile.SmoothForest(n_trees=3), smoothness=1.0).policy


def packed(message: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(message)
    except OverflowError:  # msgpack ends at 64 bits
        return msgspec.msgpack.encode(str(message))


# The decoder.


def check_decoded(data: bytes, decode: Any) -> None:
    """See that bytes become a frame that makes sense, or a sentence."""
    try:
        frame = decode(data)
    except UNREADABLE as error:
        sentence = explain(error)
    else:
        assert isinstance(frame, Frame)
        sentence = complete(frame)
        if sentence is None:
            assert frame.n is None or 0 <= frame.n < 2**53
            assert frame.x is None or isinstance(frame.x, list | dict) or frame.open or frame.close
            return
    assert len(sentence) < LONGEST_SENTENCE
    assert "\n" not in sentence


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_a_sentence(data: bytes) -> None:
    check_decoded(data, from_json)
    check_decoded(data, from_msgpack)


@given(st.binary(max_size=200) | st.dictionaries(wishes, plain).map(packed))
def test_any_bytes_are_an_operators_message_or_a_sentence(data: bytes) -> None:
    for decode in (operator_from_json, operator_from_msgpack):
        sentence = ""
        try:
            assert isinstance(decode(data), OperatorMessage)
        except UNREADABLE as error:
            sentence = explain(error)
        assert len(sentence) < LONGEST_SENTENCE


@given(almost)
def test_any_message_that_is_almost_right_is_a_frame_or_a_sentence(message: dict[str, Any]) -> None:
    check_decoded(json.dumps(message).encode(), from_json)
    check_decoded(packed(message), from_msgpack)


@given(st.integers(0, 1_000_000), st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=4), st.booleans())
def test_answers_come_through_either_encoding_to_the_bit(n: int, action: list[float], told: bool) -> None:
    answer = Answer(n, action, "policy", lost=int(told))
    for data, kind in ((to_json(answer), msgspec.json), (to_msgpack(answer), msgspec.msgpack)):
        found = kind.decode(data)
        assert found["a"] == action
        assert found["n"] == n
        assert ("lost" in found) == told


# The service.

values = st.none() | st.floats(-1e3, 1e3) | st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -0.0, 5e-324])
contexts = (
    st.none()
    | st.lists(values, min_size=2, max_size=2)
    | st.lists(values, max_size=4)
    | st.dictionaries(st.sampled_from(["x0", "x1", "z"]), values, max_size=3)
)
frames = st.builds(
    Frame,
    x=contexts,
    n=st.none() | st.integers(0, 60),
    override=st.none() | st.none() | st.lists(st.floats(), max_size=2),
)
deeds = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 2), frames),
    st.tuples(st.just("put"), st.integers(0, 2), frames),
    st.tuples(st.just("open"), st.integers(0, 3), st.booleans()),
    st.tuples(st.sampled_from(["close", "detach", "run", "tick"]), st.integers(0, 2), st.none()),
)


@given(st.lists(deeds, max_size=40))
def test_a_service_answers_or_counts_every_frame_whatever_comes(policy: Any, given_deeds: list[Any]) -> None:
    now = [0.0]
    service = Service(policy, stages=(RateLimit(50.0),), max_streams=3, queue=2, clock=lambda: now[0])
    answers: list[Answer] = []
    streams: dict[int, Stream] = {}
    put = 0
    for deed, who, what in given_deeds:
        now[0] += 0.01
        stream = streams.get(who)
        if deed == "open":
            with suppress(Refusal):  # the fourth
                streams[who] = service.open(f"s{who}", deadline=0.05 if what else 0.0, resume=bool(what))
        elif deed == "run":
            service.run()
        elif deed == "tick":
            service.tick(now[0])
        elif stream is None or stream.closed:
            continue
        elif deed == "put":
            service.put(stream, what, lambda _, answer: answers.append(answer))
            put += 1
        elif deed == "close":
            service.close(stream)
        else:
            service.detach(stream)
        assert service.counts.frames == put
        check_conservation(service)
    service.run()
    assert put == service.counts.answers + service.counts.dropped
    assert len(answers) + service.counts.unsent >= service.counts.answers
    for answer in answers:
        assert answer.a is not None or answer.error is not None
        assert answer.a is None or np.isfinite(answer.a).all()
        assert answer.error is None or (len(answer.error) < LONGEST_SENTENCE and "\n" not in answer.error)


# A real server.


@pytest.mark.skipif(not BENCHMARKS.exists(), reason="needs a checkout")
@pytest.mark.parametrize("many", [500, pytest.param(5_000, marks=pytest.mark.long)])
def test_a_server_outlives_many_malformed_messages(
    policy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from load.fuzzing import brings_bridges
    from load.malformed import malformed

    policy.save(tmp_path / "policy.safetensors")
    predictor, rows = Predictor(policy), np.random.default_rng(0).normal(size=(many // 50, 2))
    messages = (m for m in malformed(seed=SEED) if not brings_bridges(*m))
    hung_up = 0
    with (
        served(tmp_path / "policy.safetensors", "--max-rate", "1000000") as server,
        server.connect("/good") as good,
    ):
        fuzzed = server.connect("/fuzzed").__enter__()
        for t, x in enumerate(rows.tolist()):
            for data, binary in (next(messages) for _ in range(50)):
                try:
                    fuzzed.send(data if binary else data.decode("utf-8", "replace"))
                    text = answered(fuzzed)
                except ConnectionClosed:
                    hung_up += 1
                    fuzzed = server.connect("/fuzzed").__enter__()
                    continue
                assert "Traceback" not in text
                assert str(tmp_path) not in text
            assert ask(good, {"x": x, "n": t})["a"] == predictor.step(x).tolist()
        fuzzed.close()
        assert server.metric("simile_malformed_total") > many / 2
        assert hung_up < many / 10
        good.close()
        status, errors = server.stop()
        assert status == 0
        assert "Traceback" not in errors


def answered(connection: ClientConnection) -> str:
    """Return the next message that is no event."""
    while True:
        said = connection.recv(timeout=10)
        text = said if isinstance(said, str) else said.decode("latin-1")
        if "event" not in text[:10]:
            return text
