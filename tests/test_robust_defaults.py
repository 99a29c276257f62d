"""`learn` with no arguments on data of every kind: sensible results or a clear message."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from conftest import demos_of, some
from simile import ColdStart, Demonstrations, SimileError, rollout
from simile.data import tasks
from simile.policies.policies import radius

RNG = np.random.default_rng
PURSUIT = tasks.pursuit(n_sequences=4, length=150, n_players=3)


@pytest.fixture(scope="module")
def default() -> simile.Run:
    return simile.learn(PURSUIT)


def with_contexts(change, demos: Demonstrations = PURSUIT) -> Demonstrations:
    return Demonstrations.from_arrays([change(x.copy()) for x in demos.contexts], demos.actions, rate=demos.rate)


def with_actions(change, demos: Demonstrations = PURSUIT) -> Demonstrations:
    return Demonstrations.from_arrays(demos.contexts, [change(a.copy()) for a in demos.actions], rate=demos.rate)


def small(n: int, length: int) -> Demonstrations:
    return tasks.pursuit(n_sequences=n, length=length, n_players=2, seed=5)


def at_rate(rate: float | None) -> Demonstrations:
    return Demonstrations(tuple(replace(d, rate=rate) for d in PURSUIT))


def column(value: float):
    def change(x):
        x[:, 0] = value
        return x

    return change


def holes(x):
    x[RNG(0).random(x.shape) < 0.25] = np.nan
    return x


def six(x, a):
    return np.concatenate([(j + 1) * a + 0.3 * j * x[:, [j % 3]] for j in range(6)], axis=1)


def chance(k: int) -> Demonstrations:
    rng = RNG(0)
    return Demonstrations.from_arrays(
        [rng.normal(size=(80, 2)) for _ in range(4)], [rng.normal(size=(80, k)) for _ in range(4)]
    )


KINDS = {
    "two sequences of 200 frames": lambda: small(2, 200),
    "one sequence": lambda: small(1, 200),
    "one of 30 frames": lambda: small(1, 30),
    "five of 5 frames": lambda: small(5, 5),
    "one of 5 frames": lambda: small(1, 5),
    "very different lengths": lambda: demos_of(1, 2, 3, 4, 90, 7),
    "one long among short ones": lambda: demos_of(400, 6, 6, 6, 6),
    "1 Hz": lambda: at_rate(1.0),
    "10 Hz": lambda: at_rate(10.0),
    "120 Hz": lambda: at_rate(120.0),
    "1 kHz": lambda: at_rate(1000.0),
    "rate unknown": lambda: at_rate(None),
    "constant actions": lambda: with_actions(lambda a: np.full_like(a, 0.1)),
    "constant far from zero": lambda: with_actions(lambda a: np.full_like(a, 1e9 / 3.0)),
    "piecewise constant actions": lambda: with_actions(lambda a: 10.0 * np.round(a / 10.0)),
    "a straight line": lambda: with_actions(lambda a: np.arange(float(len(a)))),
    "noisy expert": lambda: with_actions(lambda a: a + a.std() * RNG(1).normal(size=a.shape)),
    "pure noise": lambda: chance(1),
    "k = 6": lambda: Demonstrations.from_arrays(
        PURSUIT.contexts, [six(x, a) for x, a in zip(PURSUIT.contexts, PURSUIT.actions, strict=True)], rate=30.0
    ),
    "six dimensions of noise": lambda: chance(6),
    "one constant dimension": lambda: with_actions(lambda a: np.column_stack([a, np.full(len(a), 3.3)])),
    "missing contexts": lambda: with_contexts(holes),
    "a context that is always missing": lambda: with_contexts(column(np.nan)),
    "nothing but missing contexts": lambda: with_contexts(lambda x: np.full_like(x, np.nan)),
    "constant contexts": lambda: with_contexts(lambda x: np.full_like(x, 1e6 / 3.0)),
    "one constant context": lambda: with_contexts(column(0.1)),
    "huge contexts": lambda: with_contexts(lambda x: 1e30 * x),
    "contexts beyond single precision": lambda: with_contexts(lambda x: 1e60 * x),
    "tiny contexts": lambda: with_contexts(lambda x: 1e-30 * x),
    "huge actions": lambda: with_actions(lambda a: 1e98 * a),
    "tiny actions": lambda: with_actions(lambda a: 1e-100 * a),
    "actions far from zero": lambda: with_actions(lambda a: a + 1e9),
    "outliers": lambda: with_contexts(lambda x: np.where(RNG(0).random(x.shape) < 0.01, 1e6, x)),
}


# Others are much like these.
SELDOM = {"10 Hz", "120 Hz", "k = 6", "constant far from zero", "two sequences of 200 frames", "huge contexts"}
TRIED = [pytest.param(kind, marks=pytest.mark.long) if kind in SELDOM else kind for kind in KINDS]


@functools.cache
def learned(kind: str) -> tuple[Demonstrations, simile.Run]:
    demos = KINDS[kind]()
    return demos, simile.learn(demos)


@pytest.mark.parametrize("kind", TRIED)
def test_the_default_is_sane_whatever_the_data(kind: str):
    demos, run = learned(kind)
    assert str(run)
    units = run.policy.units
    widest = max(float(np.abs(units.standardize(a)).max()) for a in demos.actions)
    for policy in (run.policy, run.baseline) if run.baseline is not None else (run.policy,):
        assert radius(policy) < 1.0
        for start in (None, ColdStart()):
            rolled = rollout(policy, demos, start=start)
            assert [a.shape for a in rolled] == [a.shape for a in demos.actions]
            assert all(np.isfinite(a).all() for a in rolled)
            # Not far outside what the expert ever did.
            assert max(float(np.abs(units.standardize(a)).max()) for a in rolled) <= 3.0 * widest + 1e-9
    assert not any(r.diverged for r in run.rounds)


@pytest.mark.parametrize("kind", ["constant actions", "one constant dimension"])
def test_what_the_expert_never_moves_is_not_moved(kind: str):
    demos, run = learned(kind)
    for start in (None, ColdStart()):
        rolled = np.concatenate(rollout(run.policy, demos, start=start))
        np.testing.assert_allclose(rolled[:, -1], demos[0].actions[0, -1], rtol=1e-6)


def test_other_contexts_than_in_training_do_not_make_a_policy_diverge(default):
    for change in (holes, column(np.nan), lambda x: 10.0 * x, lambda x: np.full_like(x, np.nan)):
        strange = with_contexts(change)
        for start in (None, ColdStart()):
            rolled = np.concatenate(rollout(default.policy, strange.contexts if start else strange, start=start))
            assert np.isfinite(rolled).all()
            assert np.abs(default.policy.units.standardize(rolled)).max() < 100.0


@given(st.integers(0, 2**16), st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(1, 3))
@some(0.2)
def test_tiny_data_gives_a_policy_or_a_clear_message(seed: int, lengths, k: int):
    rng = RNG(seed)
    demos = Demonstrations.from_arrays(
        [rng.normal(size=(n, 2)) for n in lengths], [np.cumsum(rng.normal(size=(n, k)), axis=0) for n in lengths]
    )
    if max(lengths) <= 3:
        with pytest.raises(SimileError, match="no sequence is longer"):
            simile.learn(demos)
        return
    run = simile.learn(demos)
    assert radius(run.policy) < 1.0
    assert all(np.isfinite(a).all() for a in rollout(run.policy, demos))


@pytest.mark.parametrize("kind", TRIED)
def test_the_default_is_never_much_worse_than_holding_the_last_action_without_saying_so(kind: str):
    _, run = learned(kind)
    reference, judged = run.judged.reference, run.judged
    ours, holding = (reference.measure(rolled).rmse for rolled in (judged.rolled, judged.held))
    if math.isnan(holding) or ours <= 1.01 * holding:
        return
    said = run.verdict.accuracy.text.rpartition(" and ")[2]
    assert "holding the last action" in said
    assert "far" in said  # "2 % farther off", "3.4 times as far off"
    assert run.verdict.accuracy.mood != "good"
