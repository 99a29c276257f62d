"""Smooth policies (Eq. 2), the two mixtures of Section 5.2, and collapsing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from conftest import demos_of
from simile import Horizon, Mixture, SimileError, SmoothPolicy, StochasticMixture, collapse, interpolate, rollout
from simile.data.recorded import Units
from simile.models.regularizers import Autoregressor
from simile.policies.policies import acting, is_stochastic, parts, sample, sample_geometric, trend, whole

WEIGHTS = st.floats(0.0, 1.0)


@dataclass(frozen=True)
class Linear:
    """f(s) = s W."""

    weights: np.ndarray

    def predict(self, S: np.ndarray) -> np.ndarray:
        # Term by term, so that a row's bits do not depend on the rows beside it.
        return sum(S[:, [j]] * self.weights[j] for j in range(len(self.weights)))


def affine(seed: int, *, smoothness: float = 2.0, k: int = 1, m: int = 2, order: int = 2) -> SmoothPolicy:
    """A random stable policy that is affine in everything."""
    rng = np.random.default_rng(seed)
    horizon = Horizon(1, 1)
    h = Autoregressor(np.repeat(rng.dirichlet(np.ones(order))[:, np.newaxis], k, axis=1))
    return SmoothPolicy(Linear(rng.normal(size=(horizon.n_features(m, k), k)) * 0.2), h, smoothness, horizon)


def acted(policy, demos, seed: int = 0) -> np.ndarray:
    states = Horizon(0, 0).states(demos, demos.actions)
    return policy.act(states, np.random.default_rng(seed).random(len(states)))


def test_equation_2_is_the_minimiser_it_claims_to_be():
    demos = demos_of(20)
    policy = affine(0, smoothness=3.0)
    states = policy.horizon.states(demos, demos.actions)
    f, h, a = policy.f.predict(states.matrix()), policy.h(states.history(2)), acted(policy, demos)

    def cost(x):
        return (f - x) ** 2 + 3.0 * (h - x) ** 2

    assert (cost(a) <= cost(a + 1e-4)).all()
    assert (cost(a) <= cost(a - 1e-4)).all()


def test_without_smoothness_the_policy_is_f_and_with_much_it_follows_h():
    demos = demos_of(30)
    states = Horizon(1, 1).states(demos, demos.actions)
    f_alone, h_alone = affine(1, smoothness=0.0), affine(1, smoothness=1e12)
    np.testing.assert_array_equal(acted(f_alone, demos), f_alone.f.predict(states.matrix()))
    np.testing.assert_allclose(acted(h_alone, demos), h_alone.h(states.history(2)), atol=1e-9)


@given(st.lists(WEIGHTS, min_size=1, max_size=6))
def test_mixture_weights_sum_to_one_whatever_the_steps(betas: list[float]):
    for combine in (interpolate, sample, sample_geometric):
        policy = affine(0)
        for n, beta in enumerate(betas):
            policy = combine(affine(n + 1), policy, beta)
        weights = getattr(policy, "weights", (1.0,))
        assert sum(weights) == pytest.approx(1.0)
        assert all(0.0 <= w <= 1.0 for w in weights)


def test_interpolation_is_flat_and_deterministic():
    demos = demos_of(20)
    a, b, c = affine(0), affine(1), affine(2)
    mixed = interpolate(c, interpolate(b, a, 0.5), 0.2)
    assert isinstance(mixed, Mixture)
    assert mixed.weights == (0.4, 0.4, 0.2)
    np.testing.assert_allclose(
        acted(mixed, demos), 0.4 * acted(a, demos) + 0.4 * acted(b, demos) + 0.2 * acted(c, demos)
    )
    assert interpolate(b, a, 0.0) is a
    assert interpolate(b, a, 1.0) is b


@pytest.mark.parametrize(("weight", "acts"), [(0.9e-6, False), (1.1e-6, True)])
def test_components_below_a_millionth_do_not_act(weight: float, acts: bool):
    demos = demos_of(20)
    mixture = Mixture((affine(0), affine(1)), (weight, 1.0 - weight))
    assert len(mixture.components) == 2
    alone, both = np.concatenate(rollout(affine(1), demos)), np.concatenate(rollout(mixture, demos))
    assert np.array_equal(alone, both) != acts


def test_smile_takes_from_the_first_policy_alone():
    policy = sample_geometric(affine(2), sample_geometric(affine(1), affine(0), 0.1), 0.1)
    assert policy.weights == pytest.approx((0.81, 0.1, 0.09))


def test_stochastic_mixture_acts_by_one_component_in_each_state_and_in_proportion():
    demos = demos_of(4000)
    a, b = affine(0), affine(1)
    mixed = acted(StochasticMixture((a, b), (0.3, 0.7)), demos)
    from_a, from_b = (np.isclose(mixed, acted(p, demos)) for p in (a, b))
    assert (from_a | from_b).all()
    assert from_b.mean() == pytest.approx(0.7, abs=0.03)


@given(WEIGHTS, st.integers(1, 3), st.sampled_from([0.0, 1.0, 50.0]), st.integers(1, 4))
def test_a_mixture_with_one_lambda_and_linear_h_collapses_exactly(beta: float, k: int, smoothness: float, order: int):
    demos = demos_of(15, 3, k=k)
    parts = (affine(0, k=k, smoothness=smoothness), affine(1, k=k, smoothness=smoothness, order=order))
    mixed = Mixture(parts, (1.0 - beta, beta))
    single = collapse(mixed)
    assert isinstance(single, SmoothPolicy)
    np.testing.assert_allclose(acted(single, demos), acted(mixed, demos), rtol=1e-12, atol=1e-12)


def test_what_cannot_collapse_stays_as_it_is():
    different_lambda = Mixture((affine(0, smoothness=1.0), affine(1, smoothness=2.0)), (0.5, 0.5))
    different_horizon = Mixture(
        (affine(0), SmoothPolicy(Linear(np.ones((2, 1))), affine(1).h, 2.0, Horizon(0, 0))), (0.5, 0.5)
    )
    stochastic = StochasticMixture((affine(0), affine(1)), (0.5, 0.5))
    for policy in (different_lambda, different_horizon, stochastic, affine(0)):
        assert collapse(policy) is policy
    # ... and still rolls out, each component through its own horizon.
    assert np.isfinite(rollout(different_horizon, demos_of(20))[0]).all()


def test_mixtures_report_the_radius_of_their_closed_loop():
    a, b = affine(0), affine(1, order=3)
    mixed = Mixture((a, b), (0.5, 0.5))
    assert mixed.radius() == pytest.approx(collapse(mixed).radius())
    assert StochasticMixture((a, b), (0.5, 0.5)).radius() == max(a.radius(), b.radius())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: affine(0, smoothness=-3), r"smoothness must be >= 0; got -3"),
        (lambda: affine(0, smoothness=float("nan")), "smoothness must be >= 0; got nan"),
        (lambda: Mixture((affine(0), affine(1)), (0.5, 0.6)), r"weights must be one per component and sum to one"),
        (lambda: Mixture((affine(0),), (0.5, 0.5)), "weights must be one per component"),
        (lambda: interpolate(affine(0), affine(1), 1.5), "beta must be >= 0 and <= 1; got 1.5"),
        (
            lambda: Mixture(
                (affine(0), affine(1).in_units(Units(np.ones(1), np.ones(1)), simile.ActionSpace())), (0.5, 0.5)
            ),
            "components must share their units",
        ),
    ],
)
def test_bad_policies_are_refused(make, message: str):
    with pytest.raises(SimileError, match=message):
        make()


def test_pruning_drops_light_components_and_bounds_what_that_changes():
    demos = demos_of(60, 60, k=2)
    run = simile.paper(demos, model=simile.SmoothForest(n_trees=3), horizon=Horizon(2, 0), n_rounds=3, step_size=0.5)
    mixture = run.policy
    light = Mixture(mixture.components, (0.5, 0.4999, 0.00005, 0.00005))
    pruned = simile.prune(light, tolerance=1e-3)
    assert pruned.dropped == 2
    assert pruned.weight == pytest.approx(1e-4)
    assert len(pruned.policy.components) == 2
    # The bound holds for pasts within the leaf values, which the expert's standardised actions are close to.
    standard = demos.with_actions([np.clip(light.units.standardize(a), -1.0, 1.0) for a in demos.actions])
    changed = np.abs(acted(pruned.policy, standard) - acted(light, standard)).max()
    assert 0.0 < changed <= pruned.bound < 0.01
    assert "dropped 2 components" in str(pruned)


def test_pruning_leaves_other_policies_alone():
    mixture = Mixture((affine(0), affine(1)), (0.5, 0.5))
    assert simile.prune(mixture).policy is mixture
    assert simile.prune(affine(0)).dropped == 0
    assert np.isnan(simile.prune(Mixture((affine(0), affine(1)), (1e-4, 1.0 - 1e-4)), 1e-3).bound)
    with pytest.raises(SimileError, match=r"tolerance must be >= 0 and <= 0\.1; got 0\.5"):
        simile.prune(mixture, 0.5)


@pytest.mark.parametrize("kind", [Mixture, StochasticMixture])
def test_policies_tell_what_they_are_made_of(kind):
    a, b, c = affine(0), affine(1), affine(2)
    nested = kind((Mixture((a, b), (0.25, 0.75)), c), (0.5, 0.5))
    assert parts(nested) == ((0.125, a), (0.375, b), (0.5, c))
    assert is_stochastic(nested) == (kind is StochasticMixture)
    assert trend(a) is a.h
    history = np.random.default_rng(0).normal(size=(3, 2, 1))
    expected = sum(w * p.h(history) for w, p in parts(nested))
    np.testing.assert_allclose(trend(nested)(history), expected, rtol=1e-12)


def test_of_a_policy_of_the_user_s_own_nothing_is_supposed():
    class Own:
        """Nothing is known of it, whatever it is called."""

        parts, trend, whole, is_stochastic = 1, 2, 3, False

    own = Own()
    assert (parts(own), trend(own), whole(own), is_stochastic(own)) == ((), None, None, True)
    assert acting(own) is collapse(own) is own


def test_a_mixture_is_pruned_and_collapsed_once():
    policy = Mixture((affine(0), affine(1), affine(2)), (0.5, 0.5 - 1e-9, 1e-9))
    assert acting(policy) is acting(policy)
    assert len(acting(policy).f.models) == 2
    assert collapse(policy) is collapse(policy) is whole(policy)
    assert len(whole(policy).f.models) == 3
