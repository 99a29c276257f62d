"""Shadows: candidates act on the same frames, nobody is sent what they do, and they are the first to go under load."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import simile
from conftest import demos_of
from served import Played, listed, unstable
from servers import GENEROUS, ask, served, until
from simile import ArgumentError
from simile.online import Predictor, RateLimit
from simile.policies.cards import Card
from simile.serving import shadows as rules
from simile.serving.metrics import build_registry
from test_policies import Linear

RATE = 30.0


@pytest.fixture(scope="module")
def policies():
    """Two policies of two contexts and one action."""
    return [
        simile.clone(
            demos_of(200, 200, seed=seed, rate=RATE), model=simile.SmoothForest(n_trees=2), horizon=simile.Horizon(2, 0)
        ).policy
        for seed in (0, 1)
    ]


@pytest.fixture(scope="module")
def contexts():
    """Contexts that they may see."""
    return demos_of(300, seed=5).contexts[0]


class Shadowed(Played):
    """A service whose shadows have their turn after every round."""

    def step(self, stream, x=None, n=None, override=None):
        answer = super().step(stream, x, n, override)
        self.follow()
        return answer

    def follow(self) -> None:
        while self.service.follow():
            pass

    @property
    def shadow(self) -> rules.Shadow:
        return self.service.shadows.all[0]


def test_a_shadow_does_what_a_predictor_of_its_own_would_and_the_answers_are_the_same(policies, contexts):
    work, new = policies
    stages = (RateLimit(1.0),)
    played, alone = Shadowed(work, stages=stages, shadows={"new": new}), Played(work, stages=stages)
    twin = Predictor(new, stages=stages)
    stream, other = played.open("one"), alone.open("one")
    own, done = [], []
    for i, x in enumerate(contexts[:100]):
        x = None if i % 17 == 16 else listed(x)
        done.append(played.step(stream, x).a)
        assert done[-1] == alone.step(other, x).a
        own.append(twin.step(x))
        assert played.service.shadows.look(stream.slot) == {"new": own[-1].tolist()}
    facts = played.shadow.describe()
    own, done, by_policy = np.array(own), np.array(done), np.arange(100) % 17 != 16
    assert (facts.frames, facts.skipped, facts.failed) == (100, 0, 0)
    assert (facts.policy.frames, facts.operator.frames, facts.operator.squared_error) == (by_policy.sum(), 0, None)
    assert np.allclose(facts.policy.squared_error, np.mean((own - done)[by_policy] ** 2, axis=0))
    assert np.allclose(facts.roughness, np.mean(np.diff(own, 2, axis=0) ** 2, axis=0))
    assert np.allclose(facts.roughness_done, np.mean(np.diff(done, 2, axis=0) ** 2, axis=0))
    assert facts.seconds > 0.0


def test_an_operator_is_what_it_is_compared_with_and_then_it_goes_on_from_there(policies, contexts):
    work, new = policies
    played, twin, own, done = Shadowed(work, shadows={"new": new}), Predictor(new), [], []
    stream = played.open("one")
    for x in contexts[:20]:
        played.step(stream, listed(x))
        twin.step(x)
    for i, x in enumerate(contexts[20:40]):  # it goes its own way meanwhile
        done.append([5.0 + 0.1 * i])
        assert played.step(stream, listed(x), override=done[-1]).a == done[-1]
        own.append(twin.step(x))
    facts = played.shadow.describe()
    assert facts.operator.frames == 20
    assert np.allclose(facts.operator.squared_error, np.mean((np.array(own) - done) ** 2, axis=0))
    back = played.step(stream, listed(contexts[40])).a  # the policy's first action after the operator's last
    assert played.shadow.look(stream.slot) is None
    assert played.shadow.describe().skipped == 1
    played.step(stream, listed(contexts[41]))
    (now,) = played.shadow.look(stream.slot)
    assert abs(now - back[0]) < abs(now - twin.step(contexts[40])[0])


def test_a_shadow_of_the_same_policy_is_where_the_policy_is_after_every_kind_of_frame(policies, contexts):
    work = policies[0]
    played = Shadowed(work, stages=(RateLimit(1.0),), shadows={"same": work})
    streams = [played.open("one"), played.open("two", start=[0.5])]
    rng = np.random.default_rng(3)
    for i, x in enumerate(contexts[:200]):
        stream = streams[i % 2]
        kind = rng.integers(6)
        n = None if stream.n is None else stream.n + (3 if kind == 5 else 1)  # some are missing
        override = [float(rng.normal())] if kind == 4 else None
        answer = played.step(stream, listed(x) if kind != 3 else None, n, override)
        if kind == 0 and rng.integers(3) == 0:
            played.service.close(stream)
            streams[i % 2] = played.open(stream.name)
            continue
        if i % 29 == 28:  # under load
            played.put(stream, listed(x))
            played.service.run()
            played.service.shadows.drop()
        elif answer.a is not None and answer.by != "operator" and played.shadow.look(stream.slot) is not None:
            assert played.shadow.look(stream.slot) == answer.a
    facts = played.shadow.describe()
    assert facts.policy.squared_error == [0.0]
    assert facts.frames > 100
    assert facts.failed == 0


def test_under_load_they_are_left_out_and_counted(policies, contexts):
    work, new = policies
    played = Shadowed(work, shadows={"new": new})
    stream = played.open("one")
    for x in contexts[:5]:
        played.step(stream, listed(x))
    assert played.shadow.frames == 5
    played.put(stream, listed(contexts[5]))
    played.service.run()
    played.put(stream, listed(contexts[6]))
    assert not played.service.follow()  # somebody waits
    assert played.shadow.frames == 5
    played.clock.now += 2.0 * rules.PATIENCE
    assert not played.service.follow()  # it has waited for too long
    assert (played.shadow.frames, played.shadow.skipped) == (5, 1)
    played.service.run()  # and that answer was slow
    played.follow()
    assert (played.shadow.frames, played.shadow.skipped) == (5, 2)
    played.step(stream, listed(contexts[7]))
    assert (played.shadow.frames, played.shadow.skipped) == (5, 3)  # where the one at work is, is known from here on
    played.step(stream, listed(contexts[8]))
    assert (played.shadow.frames, played.shadow.skipped) == (6, 3)


def test_what_is_dropped_while_an_operator_acts_is_followed_from_there(policies, contexts):
    played = Shadowed(policies[0], shadows={"new": policies[1]})
    stream = played.open("one")
    played.step(stream, override=[2.0])  # it knows nothing yet
    assert (played.shadow.frames, played.shadow.skipped) == (0, 1)
    played.step(stream, listed(contexts[1]), override=[2.1])
    assert (played.shadow.frames, played.shadow.skipped, played.shadow.operator.frames) == (1, 1, 1)
    played.put(stream, listed(contexts[2]), override=[2.2])
    played.service.run()
    played.service.shadows.drop()
    played.step(stream, listed(contexts[3]), override=[2.3])
    played.step(stream, listed(contexts[4]), override=[2.4])
    assert (played.shadow.frames, played.shadow.skipped, played.shadow.operator.frames) == (2, 3, 2)


def test_a_start_that_is_no_action_to_a_shadow_costs_the_shadow_alone(policies, contexts):
    far = simile.clone(_tiny(), model=simile.SmoothForest(n_trees=2)).policy
    played = Shadowed(policies[0], shadows={"far": far})
    stream = played.open("one", start=[0.5])
    twin = Predictor(policies[0], start=[0.5])
    assert np.array_equal(played.play(stream, contexts[:5]), [twin.step(x) for x in contexts[:5]])
    assert played.shadow.frames + played.shadow.skipped + played.shadow.failed == 5


def _tiny() -> simile.Demonstrations:
    """Demonstrations to which 0.5 is no action at all."""
    demos = demos_of(200, 200, rate=RATE)
    tiny = [1e-9 * d.actions for d in demos]
    names = {"context_names": demos.context_names, "action_names": demos.action_names}
    return simile.Demonstrations.from_arrays([d.contexts for d in demos], tiny, rate=RATE, **names)


def test_a_shadow_that_fails_costs_itself_alone(policies, contexts, caplog):
    work = policies[0]
    card = work.card
    broken = replace(
        unstable(),
        f=Linear(np.full((2, 1), np.nan)),
        n_contexts=2,
        card=Card(card.context_names, card.action_names, RATE),
    )
    played = Shadowed(work, shadows={"broken": broken, "new": policies[1]})
    stream = played.open("one")
    answers = played.play(stream, contexts[:20])
    twin = Predictor(work)
    assert np.array_equal(answers, [twin.step(x) for x in contexts[:20]])
    assert played.shadow.failed > 0
    assert played.shadow.frames + played.shadow.skipped + played.shadow.failed == 20
    assert played.service.shadows.all[1].frames == 20
    assert "the shadow broken failed" in caplog.text


def test_streams_of_a_snapshot_and_reloads(policies, contexts):
    work, new = policies
    before = Played(work)
    before.play(before.open("one"), contexts[:20])
    played = Shadowed(work, shadows={"same": work, "new": new})
    assert played.service.restore(before.service.snapshot()) == []
    stream = played.open("one", resume=True)
    played.step(stream, listed(contexts[20]))
    assert (played.shadow.frames, played.shadow.skipped) == (0, 1)
    answer = played.step(stream, listed(contexts[21]))
    assert played.shadow.look(stream.slot) == answer.a
    played.service.reload(new)
    played.play(stream, contexts[22:100])
    assert played.shadow.frames == 79
    assert played.service.shadows.all[1].policy.frames == 79


def test_other_columns_are_refused(policies):
    other = simile.clone(demos_of(200, m=3), model=simile.SmoothForest(n_trees=2)).policy
    with pytest.raises(ArgumentError, match="shadows: new cannot act beside the policy: policy: it is for"):
        Played(policies[0], shadows={"new": other})


def test_metrics_tell_of_each(policies, contexts):
    played = Shadowed(policies[0], shadows={"new": policies[1]})
    stream = played.open("one")
    played.play(stream, contexts[:10])
    played.step(stream, override=[1.0])
    registry, labels = build_registry(played.service), {"shadow": "new", "digest": played.shadow.digest}

    def value(name: str, **more: str) -> float | None:
        return registry.get_sample_value(f"simile_shadow_{name}_total", {**labels, **more})

    assert (value("frames"), value("skipped"), value("failed")) == (11, 0, 0)
    assert (value("policy_frames"), value("operator_frames")) == (10, 1)
    action = policies[0].card.action_names[0]
    assert value("policy_squared_difference", action=action) == played.shadow.policy.squares[0] > 0.0
    assert value("operator_squared_error", action=action) == played.shadow.operator.squares[0] > 0.0
    assert value("seconds") == played.shadow.seconds


def test_a_server_has_shadows_and_tells_of_them(policies, contexts, tmp_path):
    for name, policy in zip(("work", "new", "other"), (*policies, policies[1]), strict=True):
        policy.save(tmp_path / f"{name}.safetensors")
    how = ("--shadow", str(tmp_path / "new.safetensors"), "--shadow", str(tmp_path / "other.safetensors"))
    with served(tmp_path / "work.safetensors", *how, *GENEROUS) as server, server.connect("/one") as ws:
        for i, x in enumerate(contexts[:50]):
            ask(ws, {"n": i, "x": x.tolist(), **({"override": [1.0]} if i >= 40 else {})})

        def taken() -> dict:
            found = server.get("/shadows").json()
            return found if sum(found["shadows"][0][n] for n in ("frames", "skipped")) == 50 else {}

        found = until(taken)
        assert found["actions"] == list(policies[0].card.action_names)
        assert [shadow["name"] for shadow in found["shadows"]] == ["new.safetensors", "other.safetensors"]
        assert found["shadows"][0]["digest"] == found["shadows"][1]["digest"] == played_digest(policies[1])
        assert "simile_shadow_frames_total" in server.get("/metrics").text
        json.dumps(found, allow_nan=False)


def played_digest(policy) -> str:
    from simile.policies.storage.files import digest_of

    return str(digest_of(policy))
