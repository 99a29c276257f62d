"""Streams of `simile serve`: to the bit what a predictor does, named, numbered, timed and resumed."""

from __future__ import annotations

import json
import socket
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

import servers as shared
import simile
from servers import Server, answer, ask, event
from simile.serving import messages

contexts, policies, server = shared.contexts, shared.policies, shared.server


@pytest.mark.parametrize("binary", [False, True], ids=["json", "msgpack"])
def test_a_stream_acts_as_a_predictor_to_the_bit(server: Server, policies: Any, contexts: np.ndarray, binary: bool):
    predictor = simile.Predictor(simile.load(policies["served"]))
    with server.connect(f"/bits-{binary}") as ws:
        for n, x in enumerate(contexts[:60]):
            found = ask(ws, {"x": x.tolist(), "n": n}, binary=binary)
            assert found == {"n": n, "a": predictor.step(x).tolist(), "by": "policy"}


def test_many_streams_share_a_connection_and_keep_apart(server: Server, policies: Any, contexts: np.ndarray):
    policy = simile.load(policies["served"])
    predictors = {f"shared.{i}": simile.Predictor(policy) for i in range(5)}
    with server.connect() as ws:
        for n in range(30):
            for i, name in enumerate(predictors):
                ws.send(json.dumps({"x": contexts[n + i].tolist(), "n": n, "stream": name}))
            found = {a["stream"]: a["a"] for a in (answer(ws) for _ in predictors)}
            for i, (name, predictor) in enumerate(predictors.items()):
                assert found[name] == predictor.step(contexts[n + i]).tolist()


def test_contexts_come_by_name_with_holes_or_not_at_all(server: Server, policies: Any, contexts: np.ndarray):
    predictor = simile.Predictor(simile.load(policies["served"]))
    names = predictor._streams.names
    holes = np.where(np.arange(contexts.shape[1]) == 1, np.nan, contexts[1])
    with server.connect("/named") as ws:
        named = dict(zip(names, contexts[0].tolist(), strict=True))
        assert ask(ws, {"x": named})["a"] == predictor.step(contexts[0]).tolist()
        missing = [None if np.isnan(v) else v for v in holes.tolist()]
        assert ask(ws, {"x": missing})["a"] == predictor.step(holes).tolist()
        assert ask(ws, {"x": holes.tolist()}, binary=True)["a"] == predictor.step(contexts[2] * 0 + holes).tolist()
        found = ask(ws, {"x": None})
        assert (found["a"], found["by"]) == (predictor.step(None).tolist(), "gap")


def test_an_operator_acts_and_the_policy_goes_on_from_there(server: Server, policies: Any, contexts: np.ndarray):
    predictor = simile.Predictor(simile.load(policies["served"]))
    with server.connect("/operated") as ws:
        ask(ws, {"x": contexts[0].tolist()})
        predictor.step(contexts[0])
        assert ask(ws, {"override": [7.5], "x": contexts[1].tolist()}) == {"n": 1, "a": [7.5], "by": "operator"}
        predictor.override([7.5], contexts[1])
        assert ask(ws, {"override": [8.0]})["a"] == [8.0]
        predictor.override([8.0])
        assert ask(ws, {"x": contexts[2].tolist()})["a"] == predictor.step(contexts[2]).tolist()


def test_numbers_tell_what_was_left_out_doubled_or_out_of_order(server: Server, policies: Any, contexts: np.ndarray):
    predictor = simile.Predictor(simile.load(policies["served"]))
    rows = contexts.tolist()
    with server.connect("/numbered") as ws:
        assert ask(ws, {"x": rows[0], "n": 10})["a"] == predictor.step(rows[0]).tolist()
        for _ in range(2):
            predictor.step(None)
        assert ask(ws, {"x": rows[1], "n": 13})["a"] == predictor.step(rows[1]).tolist()
        for n in (13, 12):
            found = ask(ws, {"x": rows[2], "n": n})
            assert (found["n"], found["lost"]) == (n, 1)
            assert "a" not in found
            assert "frame" in found["error"]
        assert ask(ws, {"n": 14})["a"] == predictor.step(None).tolist()
        assert ask(ws, {"x": rows[3]}) == {"n": 15, "a": predictor.step(rows[3]).tolist(), "by": "policy"}


def test_a_stream_begins_where_the_actuator_stands_and_says_when_it_ends(server: Server, policies: Any, contexts: Any):
    predictor = simile.Predictor(simile.load(policies["served"]), start=[5.0])
    with server.connect("/begun") as ws:
        opened = ask(ws, {"open": {"start": [5.0]}})["opened"]
        assert (opened["frames"], opened["rate"], opened["actions"]) == (0, 30.0, ["pan"])
        assert ask(ws, {"x": contexts[0].tolist()})["a"] == predictor.step(contexts[0]).tolist()
        assert ask(ws, {"close": True}) == {"closed": {"frames": 1, "dropped": 0}}
        assert "not open" in ask(ws, {"close": True})["error"]
        assert "start" in ask(ws, {"open": {"start": [1.0, 2.0]}})["error"]
        assert ask(ws, {"x": contexts[1].tolist()})["n"] == 0


def test_a_late_frame_is_bridged_at_its_deadline(server: Server, contexts: np.ndarray):
    with server.connect("/timed") as ws:
        ask(ws, {"open": {"deadline": 0.05}})
        ask(ws, {"x": contexts[0].tolist(), "n": 0})
        found = answer(ws)
        assert (found["n"], found["by"]) == (1, "gap")


def test_a_stream_is_told_of_trouble_with_its_contexts(server: Server, contexts: np.ndarray):
    with server.connect() as ws:
        for n in range(61):  # two seconds of the same; `ask` would pass over an event that comes before the last answer
            ask(ws, {"x": contexts[0].tolist(), "n": n, "stream": "still"})
        told = event(ws, "stuck")
        assert (told["stream"], told["event"]["on"]) == ("still", True)
        assert server.metric("simile_streams_in_trouble", kind="stuck") >= 1
        ask(ws, {"x": contexts[61].tolist(), "n": 61, "stream": "still"})
        assert event(ws, "stuck")["event"]["on"] is False


def test_a_broken_connection_is_resumed_where_it_was(server: Server, policies: Any, contexts: np.ndarray):
    predictor = simile.Predictor(simile.load(policies["served"]))
    with server.connect("/resumed") as ws:
        for n in range(5):
            ask(ws, {"x": contexts[n].tolist(), "n": n})
            predictor.step(contexts[n])
        ws.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        ws.socket.close()  # at once, without a word
    with server.connect("/resumed") as ws:
        assert ask(ws, {"open": {"resume": True}})["opened"]["frames"] == 5
        assert ask(ws, {"x": contexts[5].tolist(), "n": 5})["a"] == predictor.step(contexts[5]).tolist()


def test_who_opens_a_stream_takes_it_from_whoever_had_it(server: Server, contexts: np.ndarray):
    with server.connect("/taken") as first, server.connect("/taken") as second:
        ask(first, {"x": contexts[0].tolist()})
        assert ask(second, {"open": {"resume": True}})["opened"]["frames"] == 1
        assert event(first, "taken")["event"]["on"]
        with pytest.raises(ConnectionClosed) as closed:
            first.recv(timeout=5)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        assert ask(second, {"x": contexts[1].tolist()})["n"] == 1


def test_a_message_may_come_in_fragments(server: Server, contexts: np.ndarray):
    whole = json.dumps({"x": contexts[0].tolist(), "n": 4})
    with server.connect("/fragments") as ws:
        ws.send([whole[:10], "", whole[10:30], whole[30:]])
        assert answer(ws)["n"] == 4


def test_an_answer_leaves_out_what_there_is_not_to_say():
    assert messages.to_json(messages.Answer(None, error="why")) == b'{"n":null,"error":"why"}'
    assert messages.to_json(messages.Answer(3, [1.0], "policy")) == b'{"n":3,"a":[1.0],"by":"policy"}'
    assert messages.to_json(messages.Answer(3, [1.0], "gap", lost=2)) == b'{"n":3,"a":[1.0],"by":"gap","lost":2}'
