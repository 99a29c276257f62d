"""Line 9: the rules for beta."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from conftest import demos_of
from simile import (
    BoundMinimizer,
    Constant,
    ErrorRatio,
    Horizon,
    LineSearch,
    Monotonic,
    OneOverHorizon,
    SimileError,
    SmoothPolicy,
    interpolate,
)
from simile.learning import measures, theory
from simile.learning.step_sizes import Evidence
from simile.models.regularizers import Autoregressor
from test_policies import Linear, affine


def evidence(policy, trained, demos=None) -> Evidence:
    demos = demos_of(40, 20) if demos is None else demos
    outcome = measures.outcome(policy, demos)
    return Evidence(demos, policy, trained, outcome, Horizon(0, 0).states(demos, outcome.rolled), interpolate)


def towards(gain: float, smoothness: float = 0.2) -> SmoothPolicy:
    """A contraction whose f is `gain` times what the expert of `demos_of` heads for."""
    return SmoothPolicy(Linear(np.array([[gain], [0.0]])), Autoregressor(np.ones((1, 1))), smoothness, Horizon(0, 0))


def unstable() -> SmoothPolicy:
    return SmoothPolicy(Linear(np.zeros((2, 1))), Autoregressor(np.array([[5.0]])), 100.0, Horizon(0, 0))


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_every_rule_gives_a_beta_between_zero_and_one(seed: int, other: int):
    facts = evidence(affine(seed), affine(other))
    for rule in (ErrorRatio(), Constant(0.3), OneOverHorizon(), Monotonic(), BoundMinimizer(), LineSearch((0.5, 1.0))):
        assert 0.0 <= rule(facts) <= 1.0


def test_equation_8():
    facts = evidence(towards(0.5), towards(1.0))
    assert ErrorRatio()(facts) == pytest.approx(facts.error / (facts.trained_error + facts.error))
    assert ErrorRatio()(facts) > 0.5  # the better policy gets more than half


def test_equation_8_disregards_diverged_policies():
    assert ErrorRatio()(evidence(towards(1.0), unstable())) == 0.0
    assert ErrorRatio()(evidence(unstable(), towards(1.0))) == 1.0
    assert ErrorRatio()(evidence(unstable(), unstable())) == 0.0


def test_equation_8_of_two_perfect_policies_is_even():
    demos = simile.Demonstrations.from_arrays([np.zeros((10, 2))], [np.zeros(10)])
    assert ErrorRatio()(evidence(towards(1.0), towards(1.0), demos)) == 0.5


def test_one_over_horizon_takes_the_longest_sequence():
    assert OneOverHorizon()(evidence(towards(0.5), towards(1.0))) == 1.0 / 40.0


def test_monotonic_and_bound_minimizer_use_the_measured_advantage_and_drift():
    # gamma = 1/6 here: the corollary can only promise something for gamma below one half.
    facts = evidence(towards(0.1), towards(0.9))
    small = replace(facts, trained=towards(0.2))
    for e in (facts, small):
        assert Monotonic()(e) == theory.monotonic_step(e.advantage, e.drift)
        assert BoundMinimizer()(e) == theory.best_step(e.advantage, e.drift)
    assert facts.advantage > 0.0


def test_where_the_corollary_applies_the_step_improves():
    for step in (Monotonic(), BoundMinimizer()):
        demos = simile.Demonstrations.from_arrays([np.ones((30, 2))], [np.concatenate([[0.0], np.ones(29)])])
        facts = evidence(towards(0.0, 0.05), towards(1.0, 0.05), demos)
        beta = step(facts)
        assert beta > 0.0
        assert measures.outcome(interpolate(facts.trained, facts.policy, beta), demos).error < facts.error


def test_no_contraction_no_step():
    wild = affine(0, smoothness=0.0)
    wild = replace(wild, f=Linear(np.full((5, 1), 2.0)))
    facts = evidence(wild, towards(1.0), demos_of(6))
    assert math.isinf(facts.drift)
    assert Monotonic()(facts) == BoundMinimizer()(facts) == 0.0


def test_line_search_finds_the_best_candidate_and_never_worsens():
    facts = evidence(towards(0.6), towards(1.4))
    beta = LineSearch((0.25, 0.5, 0.75))(facts)
    errors = {
        b: measures.outcome(interpolate(facts.trained, facts.policy, b), facts.demos).error for b in (0.25, 0.5, 0.75)
    }
    assert errors[beta] == min(errors.values())
    assert LineSearch()(evidence(towards(1.0), unstable())) == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(1.5), "beta must be >= 0 and <= 1; got 1.5"),
        (lambda: LineSearch(()), "candidates must hold at least one beta"),
        (lambda: LineSearch((-0.5,)), "candidates must be >= 0 and <= 1; got -0.5"),
    ],
)
def test_bad_rules_are_refused(make, message: str):
    with pytest.raises(SimileError, match=message):
        make()


def test_measured_gamma_is_the_gamma_of_example_2_1():
    facts = evidence(towards(1.0, smoothness=3.0), towards(1.0))
    assert measures.gamma(facts.policy, facts.states) == pytest.approx(theory.policy_gamma(3.0))


@given(st.integers(0, 50))
def test_measured_gamma_never_exceeds_the_true_one_of_a_linear_loop(seed: int):
    c = np.random.default_rng(seed).normal(size=(3, 1))
    policy = SmoothPolicy(Linear(np.zeros((2, 1))), Autoregressor(c), 2.0, Horizon(0, 0))
    demos = demos_of(12)
    measured = measures.gamma(policy, Horizon(0, 0).states(demos, demos.actions))
    true = np.linalg.norm(c) * 2.0 / 3.0
    assert 0.5 * true <= measured <= true * (1.0 + 1e-9)
