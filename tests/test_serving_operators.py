"""The operator's seat of `simile serve`: looks on at a stream, takes it over, hands it back, and is let go of."""

from __future__ import annotations

import itertools
import json
import signal
import time
from typing import Any

import numpy as np
import pytest
from simile.client import Client, Operator, ServiceError
from websockets.exceptions import InvalidStatus

import servers as shared
import simile
from served import NAMES, Played, check_conservation, listed
from servers import Server, ask, event, until
from simile.errors import ArgumentError
from simile.serving.operators import MOST_SEATS, MOST_SHOWN
from simile.serving.sessions import Refusal

contexts, policies, server = shared.contexts, shared.policies, shared.server


@pytest.fixture
def seats(server: Server) -> str:
    """Where operators sit."""
    return server.url.removesuffix("/streams") + "/operate"


def play(client: Any, contexts: np.ndarray, by: str, frames: int = 200) -> Any:
    """Step until somebody acts; returns the action."""
    for i in range(frames):
        action = client.step(contexts[i % len(contexts)])
        if client.by == by:
            return action
    raise AssertionError(f"nothing was done by {by}")


# ------------------------------------------------------------------------------------------------ the service itself


def test_a_hand_acts_until_it_is_taken_away(policies: Any, contexts: np.ndarray):
    policy = simile.load(policies["served"])
    predictor, played = simile.Predictor(policy), Played(policy)
    stream = played.open()
    assert played.step(stream, listed(contexts[0])).a == predictor.step(contexts[0]).tolist()
    played.service.take_over(stream, [3.0])
    for x in contexts[1:4]:
        found = played.step(stream, listed(x))
        assert (found.a, found.by) == (predictor.override([3.0], x).tolist(), "operator")
    played.service.take_over(stream, None)
    found = played.step(stream, listed(contexts[4]))
    assert (found.a, found.by) == (predictor.step(contexts[4]).tolist(), "policy")
    assert played.counts.overrides == 3
    check_conservation(played.service)


def test_what_the_client_itself_overrides_wins(policies: Any, contexts: np.ndarray):
    played = Played(simile.load(policies["served"]))
    stream = played.open()
    played.service.take_over(stream, [3.0])
    assert played.step(stream, listed(contexts[0]), override=[5.0]).a == [5.0]
    assert played.step(stream, listed(contexts[1])).a == [3.0]
    found = played.step(stream, listed(contexts[2]), override=[1.0, 2.0])
    assert (found.a, found.by) == ([3.0], "operator")
    assert "override must be 1 finite" in found.error


def test_a_hand_acts_without_contexts_and_at_deadlines_and_in_a_stream_that_is_resumed(policies: Any):
    played = Played(simile.load(policies["served"]), rate=10.0)
    stream = played.open(deadline=0.01, start=[0.0])
    played.service.take_over(stream, [3.0])
    assert played.step(stream, None).by == "operator"
    found = played.step(stream, [1.0])
    assert (found.a, found.by) == ([3.0], "operator")
    assert "x must hold" in found.error
    played.clock.now += 1.0
    played.service.tick(played.clock.now)
    assert (played.answers["one"][-1].a, played.answers["one"][-1].by) == ([3.0], "operator")
    heir = played.open(resume=True)
    assert played.step(heir, None).by == "operator"
    with pytest.raises(Refusal, match="opened by somebody else"):
        played.service.take_over(stream, [1.0])


@pytest.mark.parametrize("action", [[], [1.0, 2.0], [float("nan")], [1e12]])
def test_what_is_no_action_is_refused(policies: Any, action: list[float]):
    played = Played(simile.load(policies["served"]))
    stream = played.open()
    with pytest.raises(ArgumentError, match="take must"):
        played.service.take_over(stream, action)
    assert stream.hand is None


def test_who_watches_sees_every_answer_and_is_in_nobodys_way(policies: Any, contexts: np.ndarray, caplog: Any):
    played, seen = Played(simile.load(policies["served"])), []
    played.service.watchers["two"] = lambda *shown: seen.append(shown)
    played.service.watchers["three"] = lambda *_: 1 / 0
    streams = [played.open(name) for name in NAMES]
    for stream in streams:
        played.put(stream, listed(contexts[0]))
    played.service.run()
    assert not seen
    played.service.show()
    played.service.show()
    assert [(s.name, frame.x, answer.n) for s, frame, answer in seen] == [("two", listed(contexts[0]), 0)]
    assert set(played.answers) == set(NAMES)
    assert "could not be shown" in caplog.text


# ------------------------------------------------------------------------------------------------------ over the wire


def test_an_operator_sees_takes_over_and_hands_back(server: Server, seats: str, contexts: np.ndarray):
    with Client(f"{server.url}/seen") as client, Operator(f"{seats}/seen", contexts=True) as operator:
        sent = [client.step(x) for x in contexts[:5]]
        assert (operator.actions, len(operator.contexts)) == (("pan",), contexts.shape[1])
        seen: list[Any] = []
        until(lambda: seen.extend(operator.look(1.0)) or len(seen) >= 5)
        assert [s.n for s in seen] == list(range(5))
        assert {s.by for s in seen} == {"policy"}
        np.testing.assert_array_equal([s.action for s in seen], sent)
        np.testing.assert_array_equal([s.context for s in seen[-1:]], contexts[4:5])
        assert all(a.t <= b.t for a, b in itertools.pairwise(seen))
        operator.take([7.0])
        assert play(client, contexts, "operator") == pytest.approx([7.0])
        operator.hand_back()
        play(client, contexts, "policy")
        told = [e for e in client.events if e["kind"] == "operated"]
        assert [e["on"] for e in told] == [True, False]
        assert "handed back" in told[1]["reason"]
        until(lambda: operator.look(0.1) is None or sum(e["kind"] == "operated" for e in operator.events) == 2)


def test_a_silent_operator_has_let_go(server: Server, seats: str, contexts: np.ndarray):
    silent = server.metric("simile_fell_silent_total")
    with Client(f"{server.url}/let-go") as client, Operator(f"{seats}/let-go") as operator:
        client.step(contexts[0])
        operator.take([2.0])
        play(client, contexts, "operator")
        until(lambda: client.step(contexts[0]) is not None and client.by == "policy")
        assert "not heard for 0.5 s" in client.events[-1]["reason"]
        # What was said meanwhile comes late, and does not grip the stream again.
        operator.take([2.0])
        with pytest.raises(
            ServiceError, match=r"you were not heard for 0\.5 s and have let go: say hand_back, then take"
        ):
            until(lambda: operator.look(1.0) is None)
        client.step(contexts[0])
        assert client.by == "policy"
        operator.hand_back()
        operator.take([2.0])
        play(client, contexts, "operator")
    assert server.metric("simile_fell_silent_total") == silent + 1


def test_what_an_operator_said_while_the_service_was_held_up_grips_nothing(
    server: Server, seats: str, contexts: np.ndarray
):
    with Client(f"{server.url}/held-up") as client, Operator(f"{seats}/held-up") as operator:
        client.step(contexts[0])
        operator.take([2.0])
        play(client, contexts, "operator")
        server.process.send_signal(signal.SIGSTOP)
        for _ in range(3):
            operator.take([9.0])
        time.sleep(0.7)
        server.process.send_signal(signal.SIGCONT)
        with pytest.raises(ServiceError, match="have let go"):
            until(lambda: operator.look(1.0) is None)
        client.step(contexts[0])
        assert client.by == "policy"


def test_frames_that_came_before_a_refusal_are_not_lost(server: Server, seats: str, contexts: np.ndarray):
    with Client(f"{server.url}/kept") as client, Operator(f"{seats}/kept") as operator:
        client.step(contexts[0])
        time.sleep(0.2)  # it is shown
        operator.take([1.0, 2.0])
        time.sleep(0.2)  # it is refused
        with pytest.raises(ServiceError, match="take must be 1"):
            operator.look(0.5)
        assert [s.n for s in operator.look()] == [0]


def test_an_operator_who_leaves_hands_back(server: Server, seats: str, contexts: np.ndarray):
    with Client(f"{server.url}/left") as client:
        client.step(contexts[0])
        with Operator(f"{seats}/left") as operator:
            operator.take([2.0])
            play(client, contexts, "operator")
        play(client, contexts, "policy", frames=5000)
        assert client.events[-1] == {"kind": "operated", "on": False, "reason": "the operator has left"}


def test_one_has_a_stream_in_hand_and_others_look_on(server: Server, seats: str, contexts: np.ndarray):
    with Client(f"{server.url}/two") as client, Operator(f"{seats}/two") as one, Operator(f"{seats}/two") as two:
        client.step(contexts[0])
        one.take([2.0])
        play(client, contexts, "operator")
        two.take([4.0])
        with pytest.raises(ServiceError, match="another operator has this stream in hand"):
            until(lambda: two.look(1.0) is None)
        assert play(client, contexts, "operator") == pytest.approx([2.0])
        one.hand_back()
        play(client, contexts, "policy")
        two.take([4.0])
        assert play(client, contexts, "operator") == pytest.approx([4.0])


def test_a_stream_that_is_not_there_can_be_waited_for_and_not_taken(server: Server, seats: str, contexts: np.ndarray):
    with Operator(f"{seats}/later") as operator:
        operator.take([1.0])
        with pytest.raises(ServiceError, match="there is no stream of this name now"):
            operator.look(5.0)
        with Client(f"{server.url}/later") as client:
            client.step(contexts[0])
            assert [s.n for s in until(lambda: operator.look(1.0))] == [0]
            operator.take([1.0])
            play(client, contexts, "operator")
        operator.take([1.0])
        with pytest.raises(ServiceError, match="there is no stream"):
            until(lambda: operator.look(1.0) is None)
        assert operator.events[-1]["reason"] == "the stream has ended"


def test_frames_that_come_faster_than_they_are_shown_are_left_out_and_counted(
    server: Server, seats: str, contexts: np.ndarray
):
    with server.connect("/fast") as ws, Operator(f"{seats}/fast") as operator:
        many = 10 * MOST_SHOWN
        for n in range(many):
            ws.send(json.dumps({"n": n, "x": contexts[n % 200].tolist()}))
        seen: list[Any] = []
        until(lambda: seen.extend(operator.look(0.2)) or (seen and seen[-1].n == many - 1))
        assert len(seen) + operator.skipped == server.get("/streams").json()["streams"][-1]["frames"]
        assert [s.n for s in seen] == sorted({s.n for s in seen})


MALFORMED = {
    "{": "cannot be read",
    "[]": "cannot be read",
    '{"take": ["left"]}': "cannot be read",
    '{"grab": [1.0]}': "unknown field",
    "{}": "one of",
    '{"take": [1.0], "hand_back": true}': "got 2",
    '{"take": [1.0, 2.0]}': "take must be 1 finite numbers",
    '{"take": [1e12]}': "take must",
    '{"hand_back": false}': "cannot be read",
}


def test_what_cannot_be_used_is_answered_with_a_sentence(server: Server, seats: str, contexts: np.ndarray):
    with Client(f"{server.url}/odd") as client, shared.connect(f"{seats}/odd", proxy=None, close_timeout=1) as ws:
        assert event(ws)["seated"]["live"] is False
        client.step(contexts[0])
        for message, sentence in MALFORMED.items():
            ws.send(message)
            found = json.loads(ws.recv(timeout=10))
            found = found if "error" in found else json.loads(ws.recv(timeout=10))
            assert sentence in found["error"], message
        client.step(contexts[0])
        assert client.by == "policy"


def test_operators_speak_msgpack_too(server: Server, seats: str, contexts: np.ndarray):
    with Client(f"{server.url}/packed") as client, shared.connect(f"{seats}/packed", proxy=None, close_timeout=1) as ws:
        client.step(contexts[0])
        assert ask(ws, {"watch": {}}, binary=True)["seated"]["stream"] == "packed"
        client.step(contexts[1])
        assert event(ws)["frames"][0]["by"] == "policy"


def test_the_streams_are_told_where_no_stream_is_named(server: Server, seats: str, contexts: np.ndarray):
    with Client(f"{server.url}/listed") as client:
        client.step(contexts[0])
        with shared.connect(seats, proxy=None, close_timeout=1) as ws:
            told, code = shared.farewell(ws)
    assert next(s for s in told[0]["streams"] if s["name"] == "listed")["frames"] == 1
    assert (len(told), code) == (1, 1000)


def test_operators_need_what_everybody_needs(policies: Any, contexts: np.ndarray):
    with shared.served(policies["served"], "--token", "open sesame") as server:
        seats = server.url.removesuffix("/streams") + "/operate"
        with pytest.raises(ServiceError, match="refused with 401: this service needs its token"):
            Operator(f"{seats}/one")
        with pytest.raises(InvalidStatus, match="403"):
            shared.connect(f"{seats}/one?token=open%20sesame", origin="http://evil.example", proxy=None)
        with pytest.raises(InvalidStatus, match="404"):
            shared.connect(f"{seats}/no/such", additional_headers={"Authorization": "Bearer open sesame"}, proxy=None)
        operators = [Operator(f"{seats}/one", token="open sesame") for _ in range(MOST_SEATS)]
        with pytest.raises(ServiceError, match="8 operators sit at this stream already"):
            Operator(f"{seats}/one", token="open sesame")
        operators.pop().close()
        operators.append(until(lambda: _try(f"{seats}/one")))
        for operator in operators:
            operator.close()
        assert server.stop() == (0, "")


def _try(url: str) -> Operator | None:
    try:
        return Operator(url, token="open sesame")
    except ServiceError:
        return None


def test_a_place_that_is_none_for_operators_says_so(server: Server):
    with pytest.raises(ServiceError, match="no place for an operator"):
        Operator(f"{server.url}/stream", timeout=0.3)
    with pytest.raises(ArgumentError, match="operate/NAME"):
        Operator("http://127.0.0.1:1/operate/one")
