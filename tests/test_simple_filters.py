"""What a policy is compared with: a predictor and a filter behind it, as an engineer would tune them."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import simile
from conftest import demos_of
from simile import ActionSpace, ColdStart, Demonstrations, Horizon, MatchExpert, Ridge, SmoothForest, rollout
from simile.data import tasks
from simile.data.reference import Reference
from simile.learning import simple_filters
from simile.learning.mixture import Choices, Mixture, standardize
from simile.learning.simple_filters import FILTERS, STRENGTHS, SimpleFilter, find_simple_filter, fit_simple_filter
from simile.metrics import Score
from simile.models import PiecewiseLinear
from simile.models.closed_loop import ClosedLoop
from simile.online import Predictor
from simile.policies.policies import radius

RNG = np.random.default_rng
PURSUIT = tasks.pursuit(n_sequences=4, length=150, n_players=3)
WIDE = ActionSpace(-1e4, 1e4)  # bounds that cut nothing off
QUICK = (SmoothForest(n_trees=4, min_leaf=10), Ridge(), Ridge(knots=2))


@pytest.fixture(scope="module")
def default() -> simile.Run:
    return simile.learn(PURSUIT)


def fit(demos: Demonstrations, budget: float = 1.0, **given) -> SimpleFilter | None:
    settings = {"horizon": Horizon.auto(demos.rate), "budget": budget, "space": WIDE, "seed": 0, **given}
    return fit_simple_filter(demos, **settings)


def ignorant(n: int = 8, length: int = 40, seed: int = 0) -> Demonstrations:
    """Short sequences of a slow action that contexts tell nothing about."""
    rng = RNG(seed)
    contexts = [rng.normal(size=(length, 2)) for _ in range(n)]
    actions = [10.0 * rng.normal() + np.cumsum(0.02 * rng.normal(size=length)) for _ in range(n)]
    return Demonstrations.from_arrays(contexts, actions, rate=10.0)


def naive_scores(made: Mixture) -> list[tuple[str, float, Score]]:
    """Every filter behind every predictor, rolled out by itself."""
    k, found = made.demos.n_actions, []
    for one in made.components:
        if one.name not in simple_filters.NAMES:
            continue
        said = one.unseen.reshape(-1, len(one.aims), k)
        for i, (kind, filter_), strength in itertools.product(range(len(one.aims)), FILTERS.items(), STRENGTHS):
            if one.aims[i].lag:
                continue
            loop = ClosedLoop.of(filter_.fit([np.empty((0, k))], strength), strength)
            parts = np.split(said[:, i], made.starts[1:-1])
            rolled = [loop.roll(z, a) for z, a in zip(parts, made.judged.actions, strict=True)]
            score = Reference(made.judged, begin=2, order=made.order, logs=made.demos.logs).measure(rolled)
            found.append((f"{one.name} {one.aims[i].ahead} {kind}", strength, score))
    return found


@pytest.mark.parametrize(("k", "order", "budget"), [(1, 2, 1.0), (2, 2, 0.5), (1, 1, 1.5), (1, 2, 1e-6)])
def test_of_all_that_are_smooth_enough_the_most_accurate_is_found(k: int, order: int, budget: float):
    demos = demos_of(90, 80, 70, 100, k=k, seed=4)
    choices = Choices.of(demos, model=QUICK, space=WIDE, horizon=Horizon((0, 3), 0))
    units, standard, inside = standardize(demos, choices)
    made = Mixture.fit(standard, inside, order=order)
    found = find_simple_filter(made, demos, units, WIDE, budget=budget)
    every = [score for _, _, score in naive_scores(made)]
    smooth = [score for score in every if score.roughness <= budget]
    best = min(smooth, key=lambda s: s.error) if smooth else min(every, key=lambda s: s.roughness)
    assert found.smooth_enough == bool(smooth)
    assert (found.score.error, found.score.roughness) == pytest.approx((best.error, best.roughness), rel=1e-9)


def test_its_roll_outs_do_what_its_numbers_say():
    found = fit(PURSUIT)
    made = found.mixture
    score = made.reference(None, 2).measure(found.rolled)
    assert (score.error, score.roughness) == pytest.approx((found.score.error, found.score.roughness))


def test_it_is_within_the_budget_where_any_is():
    for budget in (0.3, 1.0, 10.0):
        found = fit(PURSUIT, budget)
        assert found.smooth_enough
        assert found.score.roughness <= budget
    assert not fit(PURSUIT, 1e-12).smooth_enough


def test_it_is_what_its_name_says():
    # Contexts that tell the action at once need no past and no filter.
    x = [np.cumsum(RNG(i).normal(size=(60, 1)), axis=0) for i in range(4)]
    line = fit(Demonstrations.from_arrays(x, [3.0 * a[:, 0] for a in x]), budget=2.0)
    assert line.name.startswith("a ridge behind")
    assert isinstance(line.policy.f, PiecewiseLinear)
    assert line.score.rmse < 0.05
    # An action that was done later is looked ahead for.
    late = Demonstrations.from_arrays([np.append(a[2:], a[-2:], axis=0) for a in x], [3.0 * a[:, 0] for a in x])
    assert fit(late, budget=2.0).score.rmse < 0.2
    names = {fit(demos_of(80, 90, 70, seed=i), budget=b).name for i in range(3) for b in (0.5, 2.0)}
    for name in names:
        assert name.startswith(("a forest", "a ridge"))
        assert name.endswith(("behind an exponential average", "behind a critically damped follower"))


def test_its_policy_is_one_like_any_other(default, tmp_path):
    policy = default.baseline
    assert policy is default.simple.policy is default.baseline
    assert policy.card.action_names == ("pan",)
    assert policy.card.training["settings"]["rival"] == f"'{default.simple.name}'"
    assert radius(policy) < 1.0
    policy.save(tmp_path / "simple.safetensors")
    again = simile.load(tmp_path / "simple.safetensors")
    rolled = rollout(policy, PURSUIT, start=ColdStart())
    for expected, a, x in zip(rolled, rollout(again, PURSUIT, start=ColdStart()), PURSUIT.contexts, strict=True):
        np.testing.assert_array_equal(a, expected)
        predictor = Predictor(again)
        np.testing.assert_array_equal(np.array([predictor.step(row) for row in x]), expected)
    found = simile.evaluate(policy, PURSUIT)
    assert math.isfinite(found.entries[0].tally.score.rmse)


def test_its_policy_does_what_it_was_chosen_by_where_all_recordings_are_alike():
    """Every part has then seen what it is judged by, and a ridge draws nothing by chance."""
    one = tasks.pursuit(n_sequences=1, length=200, n_players=3)[0]
    demos = Demonstrations(tuple(replace(one, name=f"{i}") for i in range(4)))
    run = simile.learn(demos, model=Ridge(alphas=(1e-3,)))
    for unseen, own in zip(run.judged.simple, rollout(run.baseline, demos), strict=True):
        np.testing.assert_allclose(unseen, own, atol=1e-6 * run.policy.units.scale[0])


def test_a_single_short_sequence_has_nobody_to_ask():
    assert fit(tasks.pursuit(n_sequences=1, length=30, n_players=2)) is None
    run = simile.learn(tasks.pursuit(n_sequences=1, length=30, n_players=2))
    assert run.simple is None
    assert run.baseline is None
    assert "simple filter" not in str(run.verdict)


def test_without_a_forest_or_a_ridge_there_is_no_simple_filter(tree):
    run = simile.learn(PURSUIT, model=tree)
    assert run.simple is None
    assert run.judged.simple is None
    assert "simple filter" not in str(run.verdict)


def test_the_verdict_compares_with_it_over_the_same_frames(default):
    judged = default.judged
    ours, theirs = (
        np.concatenate([(a - d.actions)[judged.begin :] for a, d in zip(some, judged.demos, strict=True)])
        for some in (judged.rolled, judged.simple)
    )
    ratio = math.sqrt(np.mean(ours**2) / np.mean(theirs**2))
    assert default.verdict.over_baseline.value == pytest.approx(ratio)
    assert default.verdict.baseline == "the best simple filter"


def test_both_are_bounded_alike():
    """What the others would have learned as bounds holds for the policy and for what it is compared with."""
    run = simile.learn(PURSUIT, smoothness=30.0)
    free = simile.learn(PURSUIT, smoothness=30.0, space=WIDE)
    lows, highs = (np.array([f(a) for a in PURSUIT.actions]) for f in (np.min, np.max))
    for some in (run.judged.rolled, run.judged.simple):
        for i, a in enumerate(some):
            others = np.arange(4) != i
            low, high = lows[others].min(), highs[others].max()
            room = 0.1 * (high - low) + 1e-9
            assert low - room <= a[3:].min() <= a[3:].max() <= high + room
    assert any(not np.allclose(a, b) for a, b in zip(run.judged.simple, free.judged.simple, strict=True))


def test_where_nothing_can_be_told_from_contexts_the_verdict_says_that_holding_still_is_better():
    run = simile.learn(ignorant())
    assert run.verdict.over_hold.value > 1.0
    assert "as far off as holding the last action" in str(run.verdict)
    assert run.policy is run.chosen.policy  # and nothing takes its place


def test_it_is_as_rough_as_the_policy_may_be_by_the_same_metric():
    demos = tasks.pursuit(n_sequences=4, length=60, n_players=2)
    run = simile.learn(demos, smoothness=MatchExpert(2.0, metric="difference_1"), model=Ridge())
    assert run.simple.score.roughness <= 2.0
    made = run.simple.mixture
    assert made.order == 1
    score = Reference(made.judged, begin=2, order=1, logs=made.demos.logs).measure(
        [loop_of(run.simple).roll(z, a) for z, a in zip(said_by(run.simple), made.judged.actions, strict=True)]
    )
    assert score.roughness == pytest.approx(run.simple.score.roughness)
    # Where lambda was given, it may be as rough as the policy is.
    fixed = simile.learn(demos, smoothness=30.0, model=Ridge())
    assert fixed.simple.score.roughness <= fixed.chosen.roughness or not fixed.simple.smooth_enough


def loop_of(found: SimpleFilter) -> ClosedLoop:
    return ClosedLoop.of(found.h, found.smoothness)


def said_by(found: SimpleFilter) -> list[np.ndarray]:
    unseen = found.component.unseen.reshape(-1, len(found.component.aims), found.demos.n_actions)
    return np.split(unseen[:, found.aim], found.mixture.starts[1:-1])


def test_light_predictors_need_no_mixture():
    found = fit_simple_filter(PURSUIT, Horizon.auto(30.0), budget=1.0, order=1, space=WIDE, seed=3)
    assert found.mixture.order == 1
    assert found.mixture.choices.seed == 3
    assert {one.name for one in found.mixture.components} == {"mean", "forest", "line"}
