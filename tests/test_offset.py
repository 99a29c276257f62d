"""Policies that remember the start: the offset that fades, everywhere a policy acts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import simile
from commands import simile_
from conftest import demos_of
from simile.data.recorded import ActionSpace, Units
from simile.errors import ArgumentError, StorageError
from simile.models import WeightedModel
from simile.models.closed_loop import ClosedLoop
from simile.online.streams import Streams
from simile.policies.hold import Hold
from simile.policies.offset import Offset
from simile.policies.policies import OpenPolicy, keep_by, offset
from simile.policies.storage.decoding import Decoder
from simile.policies.storage.files import Packed, from_bytes, to_bytes
from simile.policies.storage.loading import read_header
from simile.serving.policy_file import load_policy

NUMBERS = st.floats(-10.0, 10.0)
SHARES = st.floats(0.0, 1.0)
EACH = Offset((0.8, 0.3), (0.97, 0.5))  # each action its own


def learned(k: int = 2, seed: int = 0, **settings: Any) -> Any:
    """A policy that is quickly learned."""
    demos = demos_of(160, 160, 160, k=k, seed=seed)
    choices = {"horizon": simile.Horizon(3, 0), **settings}
    return simile.clone(demos, model=simile.SmoothForest(n_trees=4), **choices).policy


class Plain:
    """A model that no kernel knows."""

    def __init__(self, f: Any) -> None:
        self.f = f

    def predict(self, S: np.ndarray) -> np.ndarray:
        return self.f.predict(S)


def keeping(*, general: bool = False, hold: Hold | None = None, kept: Offset | None = EACH) -> Any:
    policy = learned()
    policy = policy.in_units(policy.units, simile.ActionSpace(low=-6.0, high=6.0)).holding(hold).keeping(kept)
    return replace(policy, f=Plain(policy.f)) if general else policy


def roll_naively(policy: Any, X: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The definition, frame by frame and action by action; `known` (n, k) are the actions of the first frames."""
    said = simile.rollout(replace(policy, smoothness=0.0, offset=None, hold=None), [X], start=known[:1])[0]
    f, a = policy.units.standardize(said), [*policy.units.standardize(known)]
    share, fade, k = policy.offset.share, policy.offset.fade, policy.n_actions
    weights, d = np.broadcast_to(policy.smoothness, (k,)), np.zeros(k)
    for t in range(len(known), len(X)):
        d = share * (a[-1] - f[t]) if t == len(known) else fade * d
        past = [a[max(len(a) - 1 - lag, 0)] for lag in range(policy.h.order)]
        h = sum(c * row for c, row in zip(policy.h.coefficients, past, strict=True))
        a.append((f[t] + d + weights * h) / (1.0 + weights))
    return policy.units.restore(np.array(a))


# What it is.


@given(arrays(np.float64, (7, 2), elements=NUMBERS), arrays(np.float64, 2, elements=NUMBERS), SHARES, SHARES, SHARES)
def test_along_is_frame_after_frame_is_the_definition(
    said: np.ndarray, last: np.ndarray, share: float, other: float, fade: float
):
    one = Offset((share, other), fade)
    kept, found = np.full((1, 2), np.nan), []
    for t, f in enumerate(said):
        z, kept = one(f[np.newaxis], last[np.newaxis] if t == 0 else np.zeros((1, 2)), kept)
        found.append(z[0])
    assert np.array_equal(found, one.along(said, last))
    d = np.array([share, other]) * (last - said[0])
    assert np.allclose(found, said + fade ** np.arange(7)[:, np.newaxis] * d, rtol=1e-9, atol=1e-9)
    assert len(one.along(said[:0], last)) == 0


def test_nothing_kept_is_no_offset():
    policy = learned()
    assert policy.keeping(Offset(0.0, 0.9)).offset is None
    assert policy.keeping(None).offset is None
    assert np.array_equal(policy.keeping(Offset((0.0, 0.5), 0.9)).offset.share, [0.0, 0.5])
    assert to_bytes(policy.keeping(Offset(0.0, 0.9))) == to_bytes(policy)
    demos = demos_of(90, k=2)
    assert np.array_equal(simile.rollout(policy.keeping(Offset(0.0, 0.5)), demos), simile.rollout(policy, demos))


@pytest.mark.parametrize(
    ("kept", "written"),
    [(Offset(0.5, 0.9), "Offset(0.5, 0.9)"), (Offset((0.5, 0.0), 0.9), "Offset((0.5, 0.0), (0.9, 0.9))")],
)
def test_an_offset_is_written_as_code_has_it(kept: Offset, written: str):
    assert repr(kept) == written
    assert repr(eval(written)) == written


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Offset(-0.1, 0.5), "share must be a number from 0 to 1"),
        (lambda: Offset(0.5, 1.1), "fade must be a number from 0 to 1"),
        (lambda: Offset(np.nan, 0.5), "share must be"),
        (lambda: Offset("much", 0.5), "one share and one fade"),
        (lambda: Offset(np.ones(2), np.ones(3)), "for each action"),
        (lambda: Offset(np.ones((2, 2)), 0.5), "one per action"),
        (lambda: Offset((), ()), "one per action"),
        (lambda: learned().keeping(Offset(np.ones(3), 0.5)), "or 2; got 3"),
        (lambda: learned(horizon=simile.Horizon(3, 2)).keeping(EACH), r"reads past actions.*keeping\(None\)"),
        (lambda: simile.interpolate(learned(), learned().keeping(EACH), 0.5), "share their offset"),
        (lambda: simile.StochasticMixture((learned(), learned()), (0.5, 0.5)).keeping(EACH), "StochasticMixture"),
        (
            lambda: simile.Mixture((learned(), replace(learned(), smoothness=1.0)), (0.5, 0.5)).keeping(EACH),
            r"one linear h.*keeping\(None\)",
        ),
        (lambda: OpenPolicy().keeping(EACH), "no place"),
        (lambda: keep_by(object(), EACH), "simile's own"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_kept_is_refused(make: Any, words: str):
    with pytest.raises(ArgumentError, match=words):
        make()


def test_mixtures_keep_what_their_components_keep():
    one = learned()
    other = learned(seed=1).in_units(one.units, one.space, one.card)
    mixed = simile.interpolate(other, one, 0.25).keeping(EACH)
    assert repr(offset(mixed)) == repr(EACH)
    for kept in (simile.collapse(mixed), simile.prune(mixed).policy, mixed.in_units(one.units, one.space), mixed.whole):
        assert repr(offset(kept)) == repr(EACH)
    assert offset(mixed.keeping(None)) is None
    assert keep_by(plain := object(), None) is plain  # type: ignore[arg-type]


def test_a_policy_and_inspect_tell_what_is_kept(tmp_path: Path):
    policy = learned()
    policy = policy.in_units(policy.units, policy.space, replace(policy.card, rate=25.0)).keeping(EACH)
    line = "; a0 keeps 0.8 of its start, half as much every 0.91 s, a1 keeps 0.3 of it, half as much every 0.04 s"
    assert str(policy) == f"SmoothPolicy: smoothness 30{line}"
    policy.save(tmp_path / "policy.safetensors")
    assert line in simile_("inspect", "policy.safetensors", cwd=tmp_path).stdout
    found = json.loads(simile_("inspect", "policy.safetensors", "--json", cwd=tmp_path).stdout)["structure"]
    assert (found["offset"], found["fade"]) == ([0.8, 0.3], [0.97, 0.5])
    assert "for a frame" in Offset(0.5, 0.0).tell(["a"])


@pytest.mark.parametrize("kept", [None, EACH])
def test_a_service_tells_anybody_what_its_policy_keeps(tmp_path: Path, kept: Offset | None):
    learned().keeping(kept).save(tmp_path / "policy.safetensors")
    facts = load_policy(tmp_path / "policy.safetensors").facts
    assert (facts.offset, facts.fade) == ((None, None) if kept is None else ([0.8, 0.3], [0.97, 0.5]))


# Everywhere a policy acts.


@pytest.mark.parametrize("general", [False, True], ids=["fused", "general"])
def test_a_roll_out_is_the_definition(general: bool):
    policy = replace(keeping(general=general), space=simile.ActionSpace())
    demos = demos_of(120, 80, k=2, seed=5)
    bare = simile.rollout(policy.keeping(None), demos)
    for rolled, demo, without in zip(simile.rollout(policy, demos), demos, bare, strict=True):
        assert np.abs(rolled - roll_naively(policy, demo.contexts, demo.actions[: policy.memory])).max() < 1e-9
        assert np.abs(rolled - without).max() > 1e-3
        assert np.abs(rolled - without)[-1].max() < 0.3 * np.abs(rolled - without).max()  # it fades


@pytest.mark.parametrize("hold", [None, Hold((0.05, 0.3), (True, False))], ids=["", "held"])
@pytest.mark.parametrize("general", [False, True], ids=["fused", "general"])
def test_batch_and_online_have_the_same_bits(general: bool, hold: Hold | None):
    policy = keeping(general=general, hold=hold)
    X = demos_of(150, 150, k=2, seed=5).contexts
    for start in (None, [2.5, -1.5]):
        rolled = simile.rollout(policy, X, start=simile.ColdStart() if start is None else start)
        pool = simile.PredictorPool(policy, 2, start=start)
        together = np.array([pool.step(np.array(x)) for x in zip(*X, strict=True)])
        for i, x in enumerate(X):
            predictor = simile.Predictor(policy, start=start)
            assert np.array_equal([predictor.step(row) for row in x], rolled[i])
            assert np.array_equal(together[:, i], rolled[i])
    fused = keeping(hold=hold)
    assert np.array_equal(rolled, simile.rollout(fused, X, start=start))


@given(share=SHARES, fade=SHARES, lag=st.floats(0.5, 30.0), seed=st.integers(0, 99))
def test_what_is_kept_moves_the_actions_no_farther_than_is_said(share: float, fade: float, lag: float, seed: int):
    rng, order, n = np.random.default_rng(seed), 3, 120
    h = simile.CriticallyDamped(order=order).fit([rng.normal(size=(50, 1))], lag)
    loop = ClosedLoop.of(h, lag)
    f, start = rng.normal(size=(n, 1)), np.tile(rng.normal(size=(1, 1)) * 3.0, (n, 1))
    z = np.concatenate([f[:order], Offset(share, fade).along(f[order:], start[order - 1])])
    apart = loop.roll(z, start) - loop.roll(f, start)
    impulse = np.zeros((n, 1))
    impulse[order] = 1.0
    taps = loop.roll(impulse, np.zeros((n, 1)))
    bound = share * abs(start[0, 0] - f[order, 0]) * np.abs(taps).sum()
    assert np.abs(apart).max() <= bound * (1.0 + 1e-9) + 1e-12


def test_a_cold_start_has_nothing_to_keep():
    X = demos_of(100, k=2, seed=5).contexts
    cold = [simile.rollout(p, X, start=simile.ColdStart())[0] for p in (keeping(), keeping(kept=None))]
    assert np.abs(cold[0] - cold[1]).max() < 1e-12


def test_a_mixture_rolls_out_as_the_policy_that_it_is():
    one = learned()
    other = learned(seed=1).in_units(one.units, one.space, one.card)
    mixed, demos = simile.interpolate(other, one, 0.25).keeping(EACH), demos_of(100, k=2, seed=5)
    assert np.array_equal(simile.rollout(mixed, demos), simile.rollout(simile.collapse(mixed), demos))


# Online.


def twin(policy: Any, X: np.ndarray, moves: list[Any], start: np.ndarray) -> np.ndarray:
    """The definition online, in standard units: a move is None (a gap), an action (an operator's) or "step"."""
    bare = policy.keeping(None).holding(None)
    said = simile.rollout(replace(bare, smoothness=0.0, space=simile.ActionSpace()), [X], start=start)[0]
    f, low, high = (policy.units.standardize(v) for v in (said, policy.space.low, policy.space.high))
    a, d, share, fade = [policy.units.standardize(start)], None, policy.offset.share, policy.offset.fade
    for t, move in enumerate(moves):
        past = [a[max(len(a) - 1 - lag, 0)] for lag in range(policy.h.order)]
        h = sum(c * row for c, row in zip(policy.h.coefficients, past, strict=True))
        if move is None:
            a.append(np.clip(h, low, high))
        elif isinstance(move, str):
            d = share * (a[-1] - f[t]) if d is None else fade * d
            a.append(np.clip((f[t] + d + policy.smoothness * h) / (1.0 + policy.smoothness), low, high))
        else:
            a.append(policy.units.standardize(np.array(move)))
            d = None
    return policy.units.restore(np.array(a[1:]))


MOVES = st.lists(st.sampled_from(["step", "step", "step", None, (1.5, -2.0)]), min_size=1, max_size=40)


@pytest.mark.parametrize("general", [False, True], ids=["fused", "general"])
@given(moves=MOVES)
def test_gaps_leave_the_offset_and_operators_let_it_be_taken_anew(general: bool, moves: list[Any]):
    policy, start = keeping(general=general), np.array([2.0, -1.0])
    # A gap shows f the last context again; here f looks back by three frames, so that contexts must not change.
    X = np.repeat(demos_of(40, k=2, seed=5).contexts[0][:1], len(moves), axis=0)
    predictor, found = simile.Predictor(policy, start=start), []
    for x, move in zip(X, moves, strict=True):
        acts = move is None or isinstance(move, str)
        found.append(predictor.step(None if move is None else x) if acts else predictor.override(move, x))
    assert np.abs(np.array(found) - twin(policy, X, moves, start)).max() < 1e-9


@pytest.mark.parametrize("hold", [None, Hold(0.1)])
@pytest.mark.parametrize("general", [False, True], ids=["fused", "general"])
def test_a_predictor_resumes_with_what_it_kept(general: bool, hold: Hold | None):
    policy, X = keeping(general=general, hold=hold), demos_of(80, k=2, seed=5).contexts[0]
    one, other = (simile.Predictor(policy, start=[3.0, -3.0]) for _ in range(2))
    for x in X[:10]:
        one.step(x)
    state = one.state_dict()
    other.load_state_dict(state)
    rest = [one.step(x) for x in X[10:]]
    assert np.array_equal(rest, [other.step(x) for x in X[10:]])
    assert "offset" not in simile.Predictor(policy.keeping(None)).state_dict()  # as snapshots were before
    with pytest.raises(ArgumentError, match="offset"):
        simile.Predictor(policy.keeping(None)).load_state_dict(state)
    del state["offset"]  # of a policy that kept none: it is taken anew
    other.load_state_dict(state)
    again = [other.step(x) for x in X[10:]]
    assert not np.array_equal(rest, again)
    assert np.isfinite(again).all()


def streams_of(policy: Any) -> Streams:
    return Streams(policy, 2, start=[2.0, -2.0], gap=simile.HoldContext(), stages=(), rate=25.0, seed=0)


@pytest.mark.parametrize("general", [False, True], ids=["fused", "general"])
def test_a_frame_that_is_taken_back_or_missed_leaves_what_was_kept(general: bool):
    streams, X = streams_of(keeping(general=general)), demos_of(60, k=2, seed=5).contexts[0]
    one = np.arange(1)
    for x in X[:5]:
        streams.step(one, x[np.newaxis])
    mark, kept = streams.mark(one), streams.history.offset[one].copy()
    first = streams.choose(one, X[5][np.newaxis])
    assert (np.abs(streams.history.offset[one]) < np.abs(kept)).all()
    streams.withdraw(one, mark)
    assert np.array_equal(streams.choose(one, X[5][np.newaxis]), first)
    kept = streams.history.offset[one].copy()
    again = streams.choose_blind(one)  # as if the last context had come again: f and what is kept, but nothing fades
    assert np.array_equal(streams.history.offset[one], kept)
    assert np.abs(again - first).max() > 0.0
    streams.rewrite(one, first)  # what is sent in a hand-over is still on the policy's own way
    assert np.array_equal(streams.history.offset[one], kept)
    for let_go in (
        lambda: streams.amend(one, first),
        lambda: streams.restart(one, None),
        lambda: streams.override(one, first, None),
        lambda: streams.reset(one, [1.0, 1.0]),
    ):
        let_go()
        assert np.isnan(streams.history.offset[one]).all()
        streams.step(one, X[6][np.newaxis])
        assert np.isfinite(streams.history.offset[one]).all()


def test_a_mark_of_streams_of_which_some_are_new_knows_the_others():
    streams, X = streams_of(keeping(hold=Hold(0.1))), demos_of(20, k=2, seed=5).contexts[0]
    streams.reset(streams.everyone, None)
    for x in X[:5]:
        streams.step(np.arange(1), x[np.newaxis])
    stand = streams.history.stand[0].copy()
    mark = streams.mark(streams.everyone)
    streams.step(streams.everyone, X[5:7])
    streams.withdraw(streams.everyone, mark)
    assert np.array_equal(streams.history.stand[0], stand)


def test_a_frame_that_fails_leaves_what_was_kept():
    policy = replace(keeping(), space=simile.ActionSpace())
    wild = replace(policy, f=Wild(policy.f))
    for one in (wild, replace(wild, f=WeightedModel((policy.f,), (1e9,)))):
        streams = streams_of(one)
        with pytest.raises(simile.DivergedError):
            streams.step(streams.everyone, np.full((2, streams.n_contexts), 1e6))
        assert np.isnan(streams.history.offset[streams.everyone]).all()


class Wild(Plain):
    def predict(self, S: np.ndarray) -> np.ndarray:
        return 1e300 * (1.0 + np.abs(super().predict(S)))


def test_another_policy_takes_it_anew_from_where_the_old_one_is():
    X = demos_of(60, k=2, seed=5).contexts[0]
    old, new = streams_of(learned()), streams_of(learned(seed=9).keeping(Offset(1.0, 0.9)))
    one = np.arange(1)
    for x in X[:30]:
        last = old.step(one, x[np.newaxis])
    new.adopt(old)
    assert np.isnan(new.history.offset[one]).all()
    wanted = new.step(one, X[30][np.newaxis])
    h = new.policy.h(new.history.past_actions(one, 1 + new.policy.h.order)[:, 1:])
    z = new.policy.units.standardize(last)  # all of the start is kept: f says nothing in this frame
    assert np.allclose(
        wanted, new.policy.units.restore((z + new.policy.smoothness * h) / (1.0 + new.policy.smoothness)), atol=1e-9
    )


def test_another_policy_that_remembers_keeps_what_the_old_one_kept():
    X, policy = demos_of(60, k=2, seed=5).contexts[0], learned().keeping(EACH)
    units = Units(policy.units.center + 1.0, policy.units.scale * np.array([2.0, 4.0]))
    old, new = streams_of(policy), streams_of(learned(seed=9).in_units(units, policy.space).keeping(Offset(0.1, 0.9)))
    for x in X[:3]:
        old.step(np.arange(1), x[np.newaxis])
    new.adopt(old)
    assert np.allclose(new.history.offset[0], old.history.offset[0] / [2.0, 4.0], rtol=1e-12)
    assert np.isnan(new.history.offset[1]).all()  # which has not begun there either


# In files.


@pytest.mark.parametrize("kept", [None, EACH])
def test_files_keep_the_offset_and_those_without_are_as_they_were(tmp_path: Path, kept: Offset | None):
    policy = replace(learned(), space=ActionSpace()).keeping(kept)
    path = tmp_path / "policy.safetensors"
    policy.save(path)
    demos, found = demos_of(80, 80, k=2), simile.load(path)
    assert np.array_equal(simile.rollout(policy, demos), simile.rollout(found, demos))
    assert to_bytes(found) == path.read_bytes()
    header = read_header(path)
    assert header["version"] == (1 if kept is None else 4)
    assert ("offset" in header["structure"]) == (kept is not None)
    assert ("offset" in from_bytes(path.read_bytes()).header["policy"]) == (kept is not None)


def test_a_file_of_a_mixture_keeps_it_once():
    one = learned()
    other = learned(seed=1).in_units(one.units, one.space, one.card)
    mixed = simile.interpolate(other, one, 0.25).keeping(EACH)
    packed = from_bytes(to_bytes(mixed))
    assert packed.header["policy"]["components"][1]["offset"] == {"same": "policy.components.0.offset"}
    assert repr(offset(Decoder(packed, None).decode())) == repr(EACH)
    policy = json.loads(json.dumps(packed.header["policy"]))
    del policy["components"][1]["offset"]
    with pytest.raises(StorageError, match="share their offset"):
        Decoder(Packed({**packed.header, "policy": policy}, dict(packed.tensors)), None).decode()
    policy["components"][1]["offset"], policy["kind"] = {"same": "policy.components.0.offset"}, "StochasticMixture"
    with pytest.raises(StorageError, match="keeps no offset"):
        Decoder(Packed({**packed.header, "policy": policy}, dict(packed.tensors)), None).decode()


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        ({"kind": "Offset", "share": [-1.0, 0.1], "fade": [0.5, 0.5]}, "share must be a number from 0 to 1"),
        ({"kind": "Offset", "share": [0.1, 0.1], "fade": [0.5, 2.0]}, "fade must be"),
        ({"kind": "Offset", "share": [0.1, 0.1], "fade": [0.5]}, "a fade for each action"),
        ({"kind": "Offset", "share": [0.0, 0.0], "fade": [0.5, 0.5]}, "not all of them 0"),
        ({"kind": "Offset", "share": [0.1] * 5, "fade": [0.5] * 5}, "or 2; got 5"),
        ({"kind": "Offset", "share": [0.1, None], "fade": [0.5] * 2}, "finite numbers"),
        ({"kind": "Offset", "share": [0.1, 0.1], "fade": [0.5] * 2, "more": 1}, "no Offset has"),
        ({"kind": "Hold", "width": [0.1], "stepping": [False]}, "kind Offset"),
        ({"same": "policy.hold"}, "earlier component"),
    ],
)
def test_a_hostile_offset_is_refused(kept: dict[str, Any], words: str):
    packed = from_bytes(to_bytes(learned().keeping(EACH)))
    header = {**packed.header, "policy": {**packed.header["policy"], "offset": kept}}
    with pytest.raises(StorageError, match=words):
        Decoder(Packed(header, packed.tensors), None).decode()


def test_a_file_whose_f_reads_past_actions_has_no_offset():
    with_offset, with_lags = (
        from_bytes(to_bytes(p)) for p in (learned().keeping(EACH), learned(horizon=simile.Horizon(3, 2)))
    )
    policy = {**with_lags.header["policy"], "offset": with_offset.header["policy"]["offset"]}
    with pytest.raises(StorageError, match="reads past actions"):
        Decoder(Packed({**with_lags.header, "policy": policy}, with_lags.tensors), None).decode()
