"""Policies that wait, or aim ahead, at work: every answer is for the frame it names, and none is lost at the end."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import httpx
import numpy as np
import pytest
from simile.client import AsyncClient, Client, Operator, ServiceError

import simile
from commands import simile_
from served import Played, listed
from servers import GENEROUS, Server, answer, ask, served, until
from simile import ArgumentError, ColdStart, DataError, Horizon, Predictor, PredictorPool, RateLimit, Recorder, rollout
from simile.data import tasks
from simile.data.corrections import read_corrections
from simile.policies.footprint import Footprint
from simile.serving.snapshots import from_bytes, to_bytes

LEADS = (-20, -10, 0, 5)
RATE = 30.0


@pytest.fixture(scope="module")
def policies():
    """Policies that differ in their lead."""
    demos = tasks.pursuit(n_sequences=4, length=150, seed=0)
    how = {"model": simile.SmoothForest(n_trees=3), "smoothness": 5.0}
    return {lead: simile.clone(demos, horizon=Horizon(4, 2, lead=lead), **how).policy for lead in LEADS}


@pytest.fixture(scope="module")
def contexts() -> np.ndarray:
    return tasks.pursuit(n_sequences=1, length=60, seed=9).contexts[0]


def post(server: Server, path: str, **body) -> httpx.Response:
    return httpx.post(f"{server.http}{path}", timeout=10, trust_env=False, **body)


def roll(policy, X: np.ndarray) -> np.ndarray:
    return rollout(policy, [X], start=ColdStart())[0]


def check_rolled(policy, lead: int, X: np.ndarray, answered: dict[int, np.ndarray]) -> None:
    """See that each frame that can have an answer has one, and that it is that of a roll-out."""
    rolled = roll(policy, X)
    assert set(range(max(0, lead), len(X))) <= set(answered)
    for frame in range(max(0, lead), len(X)):
        np.testing.assert_array_equal(answered[frame], rolled[frame])


# ---------------------------------------------------------------------------------------------------------------- pools


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("stages", [(), (RateLimit(20.0),)])
def test_a_pool_is_the_roll_out_wherever_its_streams_are(policies, contexts, lead, stages):
    """Streams begin at different times, and the pool moves twice: while some wait, and later."""
    policy, begin, out = policies[lead], (0, 7, 50), ([], [], [])
    pool = PredictorPool(policy, 4, stages=stages, rate=RATE)
    for t in range(len(contexts)):
        ids = [i for i in range(3) if t >= begin[i]]
        for i, a in zip(ids, pool.step([contexts[t - begin[i]] for i in ids], streams=ids), strict=True):
            out[i].append(a)
        if t in (3, 12, 55):
            state, pool = pool.state_dict(), PredictorPool(policy, 4, stages=stages, rate=RATE)
            pool.load_state_dict(state)
    last = pool.flush()
    assert [len(one) for one in last] == [*(min(max(0, -lead), len(some)) for some in out), 0]
    for i in range(3):
        X = contexts[: len(contexts) - begin[i]]
        rolled = rollout(policy, [X], start=ColdStart(), stages=stages, rate=RATE)[0]
        assert np.isnan(out[i][: max(0, -lead)]).all()
        together = np.concatenate([out[i][max(0, -lead) :] or np.empty((0, 1)), last[i]])
        np.testing.assert_array_equal(together[: len(X) - max(0, lead)], rolled[max(0, lead) :])
    if not stages:
        again = [a for x in contexts if not np.isnan(a := pool.step(x[np.newaxis], streams=[0])[0]).any()]
        again = np.array([*again, *pool.flush([0])[0]])
        np.testing.assert_array_equal(again[: len(contexts) - max(0, lead)], roll(policy, contexts)[max(0, lead) :])


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("seed", range(3))
def test_streams_of_a_pool_are_predictors_whatever_happens_while_they_wait(policies, contexts, lead, seed):
    """Frames are dropped, operators act with contexts and without, and both move elsewhere in between."""
    rng, policy = np.random.default_rng(seed), policies[lead]
    pool, alone = PredictorPool(policy, 2), [Predictor(policy) for _ in range(2)]
    for t in range(45):
        ids = [0] if t < 5 else [0, 1]
        X, A = contexts[[(t + 3 * i) % len(contexts) for i in ids]], rng.normal(size=(len(ids), 1))
        event = (
            "step"
            if t in (0, 5)
            else rng.choice(["step", "some", "override", "blind", "move"], p=[0.5, 0.2, 0.1, 0.1, 0.1])
        )
        if event == "some":
            present = rng.random(len(ids)) < 0.5
            ours = pool.step(X, streams=ids, present=present)
            theirs = [alone[i].step(x if p else None) for i, x, p in zip(ids, X, present, strict=True)]
        elif event in ("override", "blind"):
            ours = pool.override(A, X if event == "override" else None, streams=ids)
            seen = X if event == "override" else [None] * len(ids)
            theirs = [alone[i].override(a, x) for i, a, x in zip(ids, A, seen, strict=True)]
        else:
            if event == "move":
                state, states = pool.state_dict(), [one.state_dict() for one in alone]
                pool, alone = PredictorPool(policy, 2), [Predictor(policy) for _ in range(2)]
                pool.load_state_dict(state)
                for one, own in zip(alone, states, strict=True):
                    one.load_state_dict(own)
            ours, theirs = pool.step(X, streams=ids), [alone[i].step(x) for i, x in zip(ids, X, strict=True)]
        for one, other in zip(ours, theirs, strict=True):
            assert np.isnan(one).all() if other is None else np.array_equal(one, other)
        if t in (9, 44):
            for one, other in zip(pool.flush(ids), (alone[i].flush() for i in ids), strict=True):
                np.testing.assert_array_equal(one, other)
            if t == 9:
                pool.step(contexts[:2])
                for one, x in zip(alone, contexts, strict=False):
                    one.step(x)


def test_a_past_of_another_lead_is_refused(policies):
    for one, other in ((0, -10), (5, 0), (-20, -10)):
        with pytest.raises(ArgumentError, match="state"):
            Predictor(policies[one]).load_state_dict(Predictor(policies[other]).state_dict())
        with pytest.raises(ArgumentError, match=f"must have the lead of these streams, {other} frames; got {one}"):
            PredictorPool(policies[one], 1).adopt(PredictorPool(policies[other], 1))


def test_a_state_that_waits_longer_than_its_policy_acts_all_the_same(policies, contexts):
    predictor = Predictor(policies[-10])
    predictor.step(contexts[0])
    state = predictor.state_dict()
    for odd in (10**6, -5):
        predictor.load_state_dict({**state, "waited": np.array([odd])})
        assert sum(predictor.step(x) is not None for x in contexts[:30]) >= 20


def test_the_last_answers_have_bands(contexts):
    demos = tasks.pursuit(n_sequences=4, length=120, seed=1)
    policy = simile.learn(demos, model=simile.SmoothForest(n_trees=2), lead=-5 / RATE).policy
    rolled = rollout(policy, [contexts], start=ColdStart(), band=0.9)[0]
    predictor = Predictor(policy)
    found = [predictor.step(x, band=0.9) for x in contexts]
    last = predictor.flush(band=0.9)
    for name in ("actions", "low", "high", "unsure"):
        ours = np.concatenate([[getattr(one, name) for one in found[5:]], getattr(last, name)])
        np.testing.assert_array_equal(ours, getattr(rolled, name))
    assert predictor.flush(band=0.9).actions.shape == (0, 1)


# -------------------------------------------------------------------------------------------------------------- service


@pytest.mark.parametrize("lead", LEADS)
def test_answers_name_their_frame_and_closing_sends_the_last(policies, contexts, lead):
    played = Played(policies[lead])
    stream = played.open()
    for n, x in enumerate(contexts):
        found = played.step(stream, listed(x), n=100 + n)
        assert found.n == 100 + n
        waits = n < -lead
        assert (found.by, found.a is None) == (("waiting", True) if waits else ("policy", False))
        assert found.meant == (None if waits or not lead else 100 + n + lead)
    assert stream.frames == len(contexts)
    played.service.close(stream)
    sent = {a.n + lead - 100: a.a for a in played.answers["one"] if a.a is not None}
    check_rolled(policies[lead], lead, contexts, sent)
    assert len(played.answers["one"]) == len(contexts) + max(0, -lead)


def test_a_stream_of_few_frames_and_one_of_none_end_with_what_is_due(policies, contexts):
    played = Played(policies[-10])
    few, none = played.open("one"), played.open("two")
    for x in contexts[:3]:
        played.step(few, listed(x))
    played.open("one")  # anew, which ends the old one
    played.service.close(none)
    assert [a.meant for a in played.answers["one"][3:]] == [0, 1, 2]
    check_rolled(policies[-10], -10, contexts[:3], {a.meant: a.a for a in played.answers["one"][3:]})
    assert "two" not in played.answers


def test_a_stream_that_moves_on_keeps_what_waits(policies, contexts):
    """Resumed by another connection, and by another process through a snapshot, while it waits."""
    played = Played(policies[-10])
    stream = played.open()
    for x in contexts[:4]:
        played.step(stream, listed(x))
    stream = played.open(resume=True)
    for x in contexts[4:7]:
        played.step(stream, listed(x))
    other = Played(policies[-10])
    assert other.service.restore(from_bytes(to_bytes(played.service.snapshot()))) == []
    stream = other.open(resume=True)
    for x in contexts[7:]:
        other.step(stream, listed(x))
    other.service.close(stream)
    check_rolled(policies[-10], -10, contexts, {a.meant: a.a for a in other.answers["one"] if a.a is not None})


def test_frames_that_never_came_move_no_answer(policies, contexts):
    """After a jump the answers are for frames near the new ones, however far it went."""
    played = Played(policies[-20])
    stream = played.open()
    for n in (0, 1, 2, 5, *range(6, 30), 5000, 5001):
        found = played.step(stream, listed(contexts[n % len(contexts)]), n=n)
        assert found.meant == (n - 20 if n >= 20 else None)
    assert played.counts.bridged_missing == 2 + 20
    assert math.isfinite(found.a[0])


def test_deadlines_operators_and_bad_frames_while_a_policy_waits(policies, contexts):
    played = Played(policies[-10], rate=RATE)
    stream = played.open(deadline=0.01)
    played.step(stream, listed(contexts[0]))
    played.clock.now += 0.2
    played.service.tick(played.clock.now)
    assert [(a.n, a.by, a.a) for a in played.answers["one"]] == [(0, "waiting", None), (1, "waiting", None)]
    found = played.step(stream, [1.0], n=2)
    assert (found.by, found.a, "x must hold" in found.error) == ("waiting", None, True)
    found = played.step(stream, listed(contexts[3]), n=3, override=[2.0])
    assert (found.by, found.a, found.meant) == ("operator", [2.0], -7)  # for what was before the first
    for n in range(4, 14):
        found = played.step(stream, listed(contexts[n]), n=n)
    assert (found.by, found.meant) == ("policy", 3)
    found = played.step(stream, None, n=14, override=[2.0])
    assert (found.by, found.a, found.meant) == ("operator", [2.0], 4)


def test_another_lead_cannot_take_over_or_follow(policies):
    played = Played(policies[-10])
    for other in (0, 5, -20):
        with pytest.raises(ArgumentError, match=f"lead of these streams, -10 frames; got {other}.*waits 10 frames"):
            played.service.reload(policies[other])
        with pytest.raises(ArgumentError, match=r"shadows: new cannot act beside the policy: .* lead"):
            Played(policies[-10], shadows={"new": policies[other]})


@pytest.mark.parametrize("lead", [-10, 5])
def test_a_hand_over_and_shadows_while_a_policy_waits(policies, contexts, lead):
    """From a policy to itself nothing changes: neither what is sent nor what a shadow of it would do."""
    policy = policies[lead]
    stages = (RateLimit(20.0),)
    played = Played(policy, rate=RATE, handover=0.5, stages=stages, shadows={"same": policy})
    stream = played.open()
    for n, x in enumerate(contexts):
        if n in (4, 30):
            played.service.reload(policy)
        played.step(stream, listed(x))
        while played.service.follow():
            pass
    played.service.close(stream)
    answers = {a.meant: a.a for a in played.answers["one"] if a.a is not None}
    rolled = rollout(policy, [contexts], start=ColdStart(), stages=stages, rate=RATE)[0]
    assert (rolled != roll(policy, contexts)).any()
    for frame in range(max(0, lead), len(contexts)):
        np.testing.assert_allclose(answers[frame], rolled[frame], rtol=0, atol=1e-9)
    facts = played.service.shadows.all[0].describe()
    assert facts.policy.frames == len(contexts) - max(0, -lead)
    np.testing.assert_allclose(facts.policy.squared_error, 0.0, atol=1e-12)


def test_memory_is_asked_for_the_frames_that_wait(policies):
    m, k = 6, 1
    for lead in (0, -20):
        needs = 1000 * Footprint(0, policies[lead].reach - min(0, lead), m, k).stream
        Played(policies[lead], max_streams=1000, max_memory=1.001 * needs / 1e6)
        with pytest.raises(ArgumentError, match="the policy takes"):
            Played(policies[lead], max_streams=1000, max_memory=0.999 * needs / 1e6)


# ------------------------------------------------------------------------------------------------------- a real server


@pytest.fixture(scope="module", params=[-10, 5])
def at_work(request, policies, tmp_path_factory):
    """A server of a policy with a lead, and where it records."""
    folder = tmp_path_factory.mktemp("lead")
    policies[request.param].save(folder / "policy")
    policies[0].save(folder / "other")
    with served(folder / "policy", *GENEROUS, "--no-watch", "--record", str(folder / "recorded")) as running:
        yield request.param, running, folder


@pytest.mark.parametrize("msgpack", [True, False])
def test_clients_wait_and_flush(at_work: tuple[int, Server, Path], policies, contexts, msgpack: bool):
    lead, server, _ = at_work
    with Client(f"{server.url}/{'packed' if msgpack else 'text'}", msgpack=msgpack) as client:
        assert client.flush().shape == (0, 0)
        for again in range(2):
            answered = {}
            for t, x in enumerate(contexts):
                action = client.step(x)
                assert (action is None) == (t < -lead)
                if action is None:
                    assert client.by == "waiting"
                else:
                    answered[client.frame] = action
            last = client.flush()
            assert last.shape == (max(0, -lead), 1)
            answered |= {len(contexts) - len(last) + i: a for i, a in enumerate(last)}
            check_rolled(policies[lead], lead, contexts, answered)
            assert client.opened.lead == lead, again
        assert client.flush().shape == (0, 1)
        assert client.override([2.0], contexts[0]).tolist() == [2.0]


def test_the_client_of_asyncio_flushes(at_work: tuple[int, Server, Path], policies, contexts):
    lead, server, _ = at_work

    async def talk() -> dict[int, np.ndarray]:
        answered = {}
        async with AsyncClient(f"{server.url}/async") as client:
            for x in contexts:
                if (action := await client.step(x)) is not None:
                    answered[client.frame] = action
            last = await client.flush()
        return answered | {len(contexts) - len(last) + i: a for i, a in enumerate(last)}

    check_rolled(policies[lead], lead, contexts, asyncio.run(talk()))


def test_what_goes_over_the_wire(at_work: tuple[int, Server, Path], policies, contexts):
    """A frame that waits has an answer without an action, which clients of old take for an error of one frame."""
    lead, server, _ = at_work
    rolled = roll(policies[lead], contexts[:12])
    with server.connect("/wire") as ws:
        assert ask(ws, {"open": {}})["opened"]["lead"] == lead
        said = [ask(ws, {"n": n, "x": x.tolist()}) for n, x in enumerate(contexts[:12])]
        ws.send(json.dumps({"close": True}))
        last = [answer(ws) for _ in range(max(0, -lead))]
        assert answer(ws) == {"closed": {"frames": 12, "dropped": 0}}
    if lead < 0:
        assert said[:10] == [{"n": n, "by": "waiting"} for n in range(10)]
        done = [*said[10:], *last]
        assert done == [{"n": n, "a": rolled[n - 10].tolist(), "by": "policy", "for": n - 10} for n in range(10, 22)]
    else:
        assert [one["for"] for one in said] == list(range(5, 17))
        assert [one["a"] for one in said[:7]] == rolled[5:].tolist()


def test_http_tells_the_lead_rolls_out_and_closes_with_the_last_answers(at_work, policies, contexts):
    lead, server, folder = at_work
    assert server.get("/policy").json()["lead"] == lead
    assert ("waits 10 frames (0.333 s)" if lead < 0 else "aims 5 frames") in server.said
    rolled = post(server, "/rollouts", json={"contexts": contexts[:20].tolist()}).json()["actions"]
    np.testing.assert_array_equal(rolled, roll(policies[lead], contexts[:20]))
    with server.connect("/closed-by-http") as ws:
        ask(ws, {"x": contexts[0].tolist()})
        assert httpx.delete(f"{server.http}/streams/closed-by-http", trust_env=False).status_code == 200
        found = answer(ws) if lead < 0 else None
        assert found is None or (found["for"], found["n"]) == (0, 10)
    (folder / "policy").rename(folder / "kept")
    try:
        (folder / "other").rename(folder / "policy")
        refused = post(server, "/reload")
        assert refused.status_code == 409
        assert f"lead of these streams, {lead} frames; got 0" in refused.json()["error"]
    finally:
        (folder / "policy").rename(folder / "other")
        (folder / "kept").rename(folder / "policy")


def test_an_operator_sees_and_acts_for_the_frame_that_is_answered(at_work, contexts):
    lead, server, _ = at_work
    with (
        Client(f"{server.url}/operated") as client,
        Operator(f"{server.url.removesuffix('/streams')}/operate/operated") as operator,
    ):
        for x in contexts[:15]:
            client.step(x)
        operator.take([3.0])
        until(lambda: client.step(contexts[15]) is not None and client.by == "operator")
        seen: list = []
        until(lambda: seen.extend(operator.look(0.2)) or any(one.by == "operator" for one in seen))
        shown = {one.n: one for one in seen}
        assert operator.lead == lead
        assert all(one.frame == (None if one.action is None else one.n + lead) for one in shown.values())
        assert client.frame in {one.frame for one in seen if one.by == "operator"}


# ---------------------------------------------------------------------------------------------------------- recordings


@pytest.mark.parametrize("lead", [-10, 5])
def test_a_recording_is_read_as_what_was_done_for_each_frame(policies, contexts, tmp_path, lead):
    with Recorder(tmp_path) as recorder:
        played = Played(policies[lead], recorder=recorder)
        predictor = Predictor(policies[lead], recorder=recorder)
        pool = PredictorPool(policies[lead], 2, recorder=recorder)
        stream = played.open()
        for x in contexts:
            played.step(stream, listed(x))
            predictor.step(x)
            pool.step([x, x])
        played.service.close(stream)
        predictor.flush()
        pool.flush()
    first, rolled = max(0, lead), roll(policies[lead], contexts)
    found = simile.read(tmp_path, as_is=True, quiet=True)
    assert len(found) == 4
    for demo in found:
        np.testing.assert_array_equal(demo.contexts, contexts[first:])
        np.testing.assert_array_equal(demo.actions, rolled[first:])


def test_a_served_recording_is_read_as_the_roll_out(policies, contexts, tmp_path):
    for lead in (-10, 5):
        policies[lead].save(tmp_path / "policy")
        folder = tmp_path / f"recorded{lead}"
        with served(tmp_path / "policy", *GENEROUS, "--record", str(folder)) as server:
            with Client(f"{server.url}/whole") as client:
                for x in contexts:
                    client.step(x)
            with server.connect("/broken") as ws:  # which leaves without a word: nobody flushes
                for x in contexts[:30]:
                    ask(ws, {"x": x.tolist()})
            assert server.stop()[0] == 0
        demos = {demo.name.partition(" ")[0]: demo for demo in simile.read(folder, as_is=True, quiet=True)}
        for name, T, last in (("whole", len(contexts), len(contexts)), ("broken", 30, 30 + min(0, lead))):
            np.testing.assert_array_equal(demos[name].contexts, contexts[max(0, lead) : last])
            rolled = roll(policies[lead], contexts[:T])
            np.testing.assert_array_equal(demos[name].actions, rolled[max(0, lead) : last])


@pytest.mark.parametrize("lead", [-10, 5])
def test_frames_that_were_lost_move_no_action(policies, contexts, tmp_path, lead):
    with Recorder(tmp_path) as recorder:
        predictor = Predictor(policies[lead], recorder=recorder)
        note = predictor.recording.note
        predictor.recording.note = lambda slots, n, *row: note(slots, n, *row) if not 20 <= n[0] < 26 else None
        for x in contexts:
            predictor.step(x)
        predictor.flush()
    first, rolled = max(0, lead), roll(policies[lead], contexts)
    kept = [t for t in range(first, len(contexts)) if not ({t, t - lead} & set(range(20, 26)))]
    kept = [t for t in kept if (t < 20) == (t - lead < 20)]
    before, after = simile.read(tmp_path, as_is=True, quiet=True)  # no lag looks over the hole
    assert len(before) == sum(t < 20 for t in kept)
    assert after.name == f"{before.name}/26"
    np.testing.assert_array_equal(np.concatenate([before.contexts, after.contexts]), contexts[kept])
    np.testing.assert_array_equal(np.concatenate([before.actions, after.actions]), rolled[kept])


def test_rows_tell_what_happened_at_a_moment(policies, contexts, tmp_path):
    from test_recording import rows_of

    with Recorder(tmp_path) as recorder:
        predictor = Predictor(policies[-10], recorder=recorder)
        sent = [predictor.step(x) for x in contexts[:12]]
        last = predictor.flush()
    rows = rows_of(tmp_path)
    assert [row["n"] for row in rows] == list(range(22))
    assert [row["who"] for row in rows] == ["waiting"] * 10 + ["policy"] * 12
    assert [row["pan"] for row in rows] == [None] * 10 + [float(a[0]) for a in (*sent[10:], *last)]
    assert [row["player0"] for row in rows] == [*contexts[:12, 0].tolist(), *[None] * 10]


@pytest.mark.parametrize("lead", [-10, 0, 5])
def test_corrections_are_those_of_the_frames_that_were_meant(policies, contexts, tmp_path, lead):
    with Recorder(tmp_path) as recorder:
        predictor = Predictor(policies[lead], recorder=recorder)
        for t, x in enumerate(contexts):
            if 30 <= t < 40:
                predictor.override([float(t)], x)
            else:
                predictor.step(x)
        predictor.flush()
    found = read_corrections(tmp_path)
    assert [(s.first, s.last) for s in found.stretches] == [(30 + lead, 39 + lead)]
    demo, begin = found.demos[0], max(0, lead)
    acted = demo.weights[:, 0] == 1.0
    np.testing.assert_array_equal(demo.actions[acted, 0], np.arange(30.0, 40.0))
    np.testing.assert_array_equal(demo.contexts, contexts[begin : 40 + lead])


def test_recordings_that_cannot_be_are_said(policies, contexts, tmp_path):
    with Recorder(tmp_path) as recorder:
        predictor = Predictor(policies[-10], recorder=recorder)
        predictor.step(contexts[0])
        with pytest.raises(ArgumentError, match=r"recorder: it records a policy with a lead of -10 frames, .* has 0"):
            Predictor(policies[0], recorder=recorder)
    with pytest.raises(DataError, match=r"no frame has an action: .* lead of -10 frames"):
        simile.read(tmp_path, as_is=True, quiet=True)
    with pytest.raises(ArgumentError, match="holds recordings of a policy with a lead of -10 frames, and this one has"):
        Predictor(policies[0], recorder=Recorder(tmp_path))
    with Recorder(tmp_path / "other") as recorder:
        predictor = Predictor(policies[0], recorder=recorder)
        for x in contexts:
            predictor.step(x)
    (tmp_path / "other" / "recording-000001.parquet").rename(tmp_path / "recording-000002.parquet")
    (demo,) = simile.read(tmp_path, as_is=True, quiet=True)  # each file is read by its own lead
    np.testing.assert_array_equal(demo.contexts, contexts)
    with pytest.raises(DataError, match="its policy had a lead of 0 frames, and others in the folder -10"):
        read_corrections(tmp_path)


# ------------------------------------------------------------------------------------------------------------ run


@pytest.mark.parametrize("kind", ["csv", "json"])
@pytest.mark.parametrize("lead", [-10, 5])
def test_run_names_the_row_and_flushes(policies, contexts, tmp_path, kind: str, lead: int):
    policy, names = policies[lead], policies[lead].card.context_names
    policy.save(tmp_path / "policy")
    rows = [[repr(float(v)) for v in x] for x in contexts]
    if kind == "csv":
        stdin = "\n".join([",".join(names), *map(",".join, rows)]) + "\n"
    else:
        stdin = "".join(json.dumps(dict(zip(names, map(float, x), strict=True))) + "\n" for x in contexts)
    out = simile_("run", "policy", cwd=tmp_path, stdin=stdin).stdout.splitlines()
    if kind == "csv":
        assert out.pop(0) == "pan,for"
        found = [dict(zip(("pan", "for"), line.split(","), strict=True)) for line in out]
    else:
        found = list(map(json.loads, out))
    wait = max(0, -lead)
    assert len(found) == len(contexts) + wait
    assert all(not one["for"] and one["pan"] in ("", None) for one in found[:wait])
    answered = {int(one["for"]) - 1: [float(one["pan"])] for one in found[wait:]}
    assert [*answered] == list(range(max(0, lead), len(contexts) + max(0, lead)))
    check_rolled(policy, lead, contexts, answered)


def test_run_names_the_time_and_flushes_with_bands(contexts, tmp_path):
    demos = tasks.pursuit(n_sequences=4, length=120, seed=1)
    policy = simile.learn(demos, model=simile.SmoothForest(n_trees=2), lead=-3 / RATE).policy
    policy.save(tmp_path / "policy")
    names = policy.card.context_names
    stdin = "".join(
        json.dumps({"ms": 1000.0 * t / RATE, **dict(zip(names, map(float, x), strict=True))}) + "\n"
        for t, x in enumerate(contexts[:9])
    )
    how = ("--time", "ms", "--time-unit", "ms", "--band", "0.9")
    found = list(map(json.loads, simile_("run", "policy", *how, cwd=tmp_path, stdin=stdin).stdout.splitlines()))
    assert set(found[0]) == {"pan", "pan_low", "pan_high", "unsure", "for"}
    rolled = rollout(policy, [contexts[:9]], start=ColdStart(), band=0.9)[0]
    for name, wanted in (("pan", rolled.actions), ("pan_low", rolled.low), ("pan_high", rolled.high)):
        assert [one[name] for one in found] == [*[None] * 3, *wanted[:, 0].tolist()]
    np.testing.assert_allclose([one["for"] for one in found[3:]], 1000.0 * np.arange(9) / RATE, atol=1e-6)


def test_a_client_whose_server_is_gone_says_so_when_it_flushes(policies, contexts, tmp_path):
    policies[-10].save(tmp_path / "policy")
    with served(tmp_path / "policy", *GENEROUS) as server, Client(f"{server.url}/one", timeout=1.0) as client:
        client.step(contexts[0])
        server.stop()
        with pytest.raises(ServiceError):
            client.flush()
