"""Paths of smoothness: what their points say, and what is picked from them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

import simile
from conftest import demos_of
from simile import (
    ActionSpace,
    CriticallyDamped,
    Demonstrations,
    Frontier,
    Horizon,
    MatchExpert,
    PreviousAction,
    Ridge,
    SimileError,
    SmoothForest,
    SmoothTime,
    rollout,
)
from simile.data import tasks
from simile.data.recorded import Units
from simile.data.reference import Reference
from simile.learning import frontier as frontiers
from simile.learning.aims import FEW
from simile.learning.folds import Folds, states_of
from simile.learning.frontier import Point, time_scale
from simile.learning.mixture import N_LAGS, find_weights
from simile.learning.offsets import fit_offset
from simile.models.closed_loop import ClosedLoop
from simile.policies.policies import SmoothPolicy, given_frames, radius

PURSUIT = tasks.pursuit(n_sequences=4, length=150, n_players=3)
VALUES = (3.0, 30.0, 300.0)
WIDE = ActionSpace(-1e4, 1e4)  # bounds that cut nothing off


@pytest.fixture(scope="module")
def frontier() -> Frontier:
    return simile.path(PURSUIT, smoothness=VALUES)


def made(*rows: tuple[float, float], metric: str = "difference_2", rate: float | None = None) -> Frontier:
    """A frontier of given roughness and error."""
    points = tuple(Point(float(i), i + 0.5, error, rough, None) for i, (rough, error) in enumerate(rows))
    return Frontier(points, metric, rate)


def smoothness_of(policy) -> float:
    return (policy if isinstance(policy, SmoothPolicy) else policy.components[0]).smoothness


def test_every_point_has_a_policy_of_its_own_lambda_that_rolls_out(frontier):
    assert [p.smoothness for p in frontier.points] == list(VALUES)
    for point in frontier.points:
        assert smoothness_of(point.policy) == point.smoothness
        assert point.lag == pytest.approx(CriticallyDamped(order=3).lag(point.smoothness))
        assert radius(point.policy) < 1.0
        rolled = rollout(point.policy, PURSUIT)
        assert all(np.isfinite(a).all() for a in rolled)
        # What was seen in training is followed at least as well as what was not.
        assert (
            Reference(PURSUIT, point.policy.units.scale, given_frames(point.policy)).measure(rolled).error
            < 1.1 * point.error
        )
    assert point.policy.card.training["settings"]["smoothness"] == VALUES[-1]


def test_more_smoothness_is_smoother_and_roughness_is_the_experts_multiple():
    frontier = simile.path(PURSUIT, smoothness=VALUES, space=WIDE)
    rough = [p.roughness for p in frontier.points]
    assert rough[0] > rough[1] > rough[2] > 0.0
    rolled = [Reference(PURSUIT).measure(rollout(p.policy, PURSUIT)).roughness for p in frontier.points]
    np.testing.assert_allclose(rolled, rough, rtol=0.5)


def test_errors_are_those_of_sequences_that_were_left_out():
    # By hand: models of each three of four sequences, weighed by what they do over others, and rolled out over the
    # fourth.
    horizon = Horizon((0, 4), 0)
    found = simile.path(PURSUIT, smoothness=(30.0,), model=LinearRegression(), horizon=horizon, hold=0, space=WIDE)
    standard = PURSUIT.standardize(Units.of(PURSUIT))
    h = CriticallyDamped(order=3).fit(standard.actions, 30.0)
    loop = ClosedLoop.of(h, 30.0)

    def roll(number: int, others: list[int]) -> np.ndarray:
        """Return what every component does in a sequence, learned from others."""
        rest, one = standard.where(np.array(others)), standard[number : number + 1]
        said = [np.full(150, np.mean(np.concatenate(rest.actions)))]
        for ahead in FEW:
            later = [a[np.minimum(np.arange(150) + ahead, 149), 0] for a in rest.actions]
            fitted = LinearRegression().fit(states_of(rest, horizon).matrix(), np.concatenate(later))
            said.append(fitted.predict(states_of(one, horizon).matrix()))
        return np.concatenate([loop.roll(z[:, np.newaxis], one[0].actions) for z in said], axis=1)

    rolled = [roll(i, [j for j in range(4) if j != i]) for i in range(4)]
    errors = [(r - a)[3:] for r, a in zip(rolled, standard.actions, strict=True)]
    mixed = []
    for i in range(4):
        others = np.concatenate([errors[j] for j in range(4) if j != i])
        mixed.append(rolled[i] @ find_weights(others.T @ others)[:, np.newaxis])
    _, mixed = fit_offset(mixed, standard, loop, np.arange(4))
    gaps = np.concatenate([(a - b)[3:] for a, b in zip(mixed, standard.actions, strict=True)])
    assert found.points[0].error == pytest.approx(np.mean(gaps**2))
    assert found.points[0].roughness == pytest.approx(Reference(standard, begin=3).measure(mixed).roughness)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_metric_says_what_roughness_is(order: int):
    ridge, metric = Ridge(alphas=(1e-2,)), f"difference_{order}"
    found = simile.path(PURSUIT, smoothness=(30.0,), model=ridge, metric=metric, space=WIDE)
    rolled = rollout(found.points[0].policy, PURSUIT)
    assert found.metric == metric
    assert found.points[0].roughness == pytest.approx(
        Reference(PURSUIT, order=order).measure(rolled).roughness, rel=0.3
    )
    assert f"roughness ({metric})" in str(found)


def test_a_path_of_one_is_what_learn_learns():
    (point,) = simile.path(PURSUIT, smoothness=(60.0,)).points
    run = simile.learn(PURSUIT, smoothness=60.0)
    assert point.error == run.rounds[-1].validation_error
    assert point.roughness == run.rounds[-1].validation_roughness
    for a, b in zip(rollout(point.policy, PURSUIT), rollout(run.rounds[-1].policy, PURSUIT), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_policy_of_the_path_is_the_one_learned_alone(frontier):
    """What is fitted knows of no lambda."""
    for point in frontier.points:
        alone = simile.learn(PURSUIT, smoothness=point.smoothness).rounds[-1]
        assert (point.error, point.roughness) == (alone.validation_error, alone.validation_roughness)


@pytest.fixture(scope="module")
def learned() -> simile.Run:
    return simile.learn(PURSUIT)


def test_learn_has_the_path_of_its_mixture(learned):
    points = learned.frontier.points
    assert len(points) == N_LAGS
    lags = [p.lag for p in points]
    assert lags[0] == 0.0
    assert lags == sorted(lags)
    assert lags[-1] == pytest.approx(150.0 / 3.0)
    assert learned.frontier.metric == "difference_2"
    free = simile.learn(PURSUIT, space=WIDE)
    rough = [p.roughness for p in free.frontier.points]
    assert rough[0] > 10.0 > 1.0 > rough[-1]
    assert free.frontier.at(roughness=1.0).error <= 1.05 * free.chosen.error
    assert simile.learn(PURSUIT, smoothness=30.0).frontier is None
    other = simile.learn(PURSUIT, model=Ridge(), smoothness=MatchExpert(1.0, metric="difference_1"))
    assert other.frontier.metric == "difference_1"


def test_a_point_of_it_is_what_would_be_learned_at_that_lambda(learned):
    """But for the hold, which is the one that was chosen for the policy."""
    for point in learned.frontier.points[4::6]:
        held = 0 if learned.policy.hold is None else learned.policy.hold
        alone = simile.learn(PURSUIT, smoothness=point.smoothness, hold=held)
        assert (point.error, point.roughness) == (alone.chosen.error, alone.chosen.roughness)
        for a, b in zip(rollout(point.policy, PURSUIT), rollout(alone.policy, PURSUIT), strict=True):
            np.testing.assert_array_equal(a, b)
        assert point.policy.card.training["band"] == alone.policy.card.training["band"]


def test_policies_of_a_path_are_made_when_they_are_asked_for(monkeypatch):
    made = []
    true = frontiers.note_band

    def note(card, band):
        made.append(card)
        return true(card, band)

    monkeypatch.setattr(frontiers, "note_band", note)
    found = simile.path(PURSUIT, smoothness=VALUES, model=Ridge())
    assert not made
    policy = found.points[1].policy
    assert len(made) == 1
    assert found.points[1].policy is policy


def test_points_of_a_path_are_those_of_each_lambda_alone():
    models = (SmoothForest(n_trees=4), Ridge(), Ridge(knots=2))
    together = simile.path(PURSUIT, smoothness=VALUES, model=models)
    for point in together.points:
        (alone,) = simile.path(PURSUIT, smoothness=(point.smoothness,), model=models).points
        assert (alone.error, alone.roughness) == (point.error, point.roughness)


def test_any_model_can_walk_a_path(tree):
    found = simile.path(PURSUIT, smoothness=(3.0, 30.0), model=(tree, Ridge()), horizon=Horizon((0, 4), 0))
    assert all(np.isfinite(p.error) for p in found.points)
    assert found.points[0].roughness > found.points[1].roughness


def test_only_how_many_values_can_be_given():
    found = simile.path(PURSUIT, smoothness=3, model=Ridge())
    lags = [p.lag for p in found.points]
    assert lags[0] == pytest.approx(0.5)
    assert lags[1] / lags[0] == pytest.approx(lags[2] / lags[1])
    units = Units.of(PURSUIT)
    standard = PURSUIT.with_actions([units.standardize(a) for a in PURSUIT.actions])
    assert lags[2] == pytest.approx(max(2.0, time_scale(standard) / 3.0))
    assert len(simile.path(PURSUIT, smoothness=np.int64(2), model=Ridge()).points) == 2


def test_values_are_sorted_and_given_by_lambda_or_by_time():
    given = [SmoothTime(0.3), 3.0, SmoothTime(0.1), 3.0]
    found = simile.path(PURSUIT, smoothness=given, model=Ridge())
    assert [p.lag for p in found.points] == pytest.approx([CriticallyDamped(order=3).lag(3.0), 3.0, 9.0])
    assert [p.smoothness for p in found.points] == sorted(p.smoothness for p in found.points)


def test_another_regularizer_has_lags_of_its_own():
    found = simile.path(PURSUIT, smoothness=(2.0, 7.0), model=Ridge(), regularizer=PreviousAction())
    assert [p.lag for p in found.points] == pytest.approx([2.0, 7.0])


def test_the_same_seed_gives_the_same_path_and_another_seed_other_trees(frontier):
    assert simile.path(PURSUIT, smoothness=VALUES).rows() == frontier.rows()
    trees = SmoothForest(n_trees=4)
    one, other = (simile.path(PURSUIT, smoothness=VALUES, model=trees, seed=seed).rows() for seed in (0, 1))
    assert one != other


def test_policies_of_a_path_clip_to_the_space_and_use_the_users_units():
    low, high = (f(np.concatenate(PURSUIT.actions)) for f in (np.min, np.max))
    found = simile.path(PURSUIT, smoothness=(3.0,), model=Ridge(), space=ActionSpace(low, high))
    rolled = np.concatenate(rollout(found.points[0].policy, PURSUIT))
    assert low <= rolled.min() < rolled.max() <= high
    assert rolled.std() == pytest.approx(np.concatenate(PURSUIT.actions).std(), rel=0.3)


def test_policies_of_a_path_can_be_saved_and_loaded(frontier, tmp_path):
    policy = frontier.knee().policy
    policy.save(tmp_path / "knee.safetensors")
    again = simile.load(tmp_path / "knee.safetensors")
    for a, b in zip(rollout(policy, PURSUIT), rollout(again, PURSUIT), strict=True):
        np.testing.assert_array_equal(a, b)


def test_at_takes_the_most_accurate_that_is_smooth_enough():
    frontier = made((10.0, 0.05), (2.0, 0.02), (1.0, 0.03), (0.5, 0.2))
    assert frontier.at(roughness=100.0) is frontier.points[1]
    assert frontier.at(roughness=1.9) is frontier.points[2]
    assert frontier.at(roughness=1.0) is frontier.points[2]
    assert frontier.at(roughness=0.5) is frontier.points[3]


@given(st.lists(st.tuples(st.floats(0.01, 10.0), st.floats(0.0, 10.0)), min_size=1, max_size=6), st.floats(0.01, 10.0))
def test_what_at_returns_is_within_the_budget_and_nothing_within_it_is_better(rows, budget: float):
    frontier = made(*rows)
    within = [p for p in frontier.points if p.roughness <= budget]
    if within:
        assert frontier.at(roughness=budget) in within
        assert frontier.at(roughness=budget).error == min(p.error for p in within)
    else:
        with pytest.raises(SimileError, match="roughness must be at least"):
            frontier.at(roughness=budget)


@given(st.lists(st.tuples(st.floats(0.01, 10.0), st.floats(0.0, 10.0)), min_size=1, max_size=6))
def test_the_knee_is_always_one_of_the_points(rows):
    frontier = made(*rows)
    assert any(frontier.knee() is p for p in frontier.points)


def test_the_knee_lies_farthest_below_the_line_between_the_ends():
    assert made((100.0, 0.02), (10.0, 0.021), (1.0, 0.022), (0.1, 1.0)).knee().smoothness == 2.0
    assert made((5.0, 0.3), (1.0, 0.1)).knee().smoothness == 1.0  # of two, the better one
    assert made((1.0, 0.3)).knee().smoothness == 0.0
    never = made((math.nan, 0.3), (math.nan, 0.1), (math.nan, 0.2))  # an expert who never moves
    assert never.knee().smoothness == 1.0
    assert never.at(roughness=0.1).smoothness == 1.0


def test_rows_hold_what_is_printed(frontier):
    rows = frontier.rows()
    assert [r["smoothness"] for r in rows] == list(VALUES)
    for row, point in zip(rows, frontier.points, strict=True):
        assert row == {
            "smoothness": point.smoothness,
            "lag": point.lag,
            "rmse": math.sqrt(point.error),
            "roughness": point.roughness,
        }


def test_a_frontier_prints_a_row_for_each_point_and_marks_the_knee(frontier):
    lines = str(frontier).splitlines()
    assert lines[0].split() == ["smoothness", "lag", "(s)", "RMSE", "roughness"]
    assert len(lines) == 5
    assert [float(line.split()[0]) for line in lines[1:4]] == list(VALUES)
    assert [float(line.split()[2]) for line in lines[1:4]] == pytest.approx(
        [math.sqrt(p.error) for p in frontier.points], abs=1e-4
    )
    assert sum("<- knee" in line for line in lines) == 1
    assert "roll-outs of sequences that were left out" in lines[-1]
    assert "lag (frames)" in str(made((1.0, 0.1)))


def test_a_frontier_draws_itself(frontier):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for one in (frontier, made((1.0, 0.1)), made((math.nan, 0.0), (math.nan, 0.1))):
        figure = one.plot()
        figure.canvas.draw()
        line = figure.axes[0].lines[0]
        np.testing.assert_allclose(line.get_xdata(), [p.roughness for p in one.points])
        np.testing.assert_allclose(line.get_ydata(), [math.sqrt(p.error) for p in one.points])
        assert "knee" in [t.get_text() for t in figure.axes[0].get_legend().get_texts()]
        plt.close(figure)


def test_the_time_scale_is_how_long_the_expert_takes_for_a_standard_deviation():
    ramp = Demonstrations.from_arrays([np.zeros(101)], [np.arange(101.0)])
    assert time_scale(ramp) == pytest.approx(np.arange(101.0).std())
    assert time_scale(ramp.with_actions([7.0 * np.arange(101.0)])) == pytest.approx(np.arange(101.0).std())
    still = Demonstrations.from_arrays([np.zeros(5)], [np.full(5, 2.0)])
    assert time_scale(still) == 1.0
    assert time_scale(Demonstrations.from_arrays([np.zeros(1)], [np.zeros(1)])) == 1.0
    both = Demonstrations.from_arrays([np.zeros(101)], [np.column_stack([np.arange(101.0), np.full(101, 3.0)])])
    assert time_scale(both) == time_scale(ramp)  # what never moves has no say


@pytest.mark.parametrize("actions", [np.full(60, 0.1), np.repeat([0.0, 1.0, 0.5], 20)], ids=["constant", "steps"])
def test_a_path_over_an_expert_who_hardly_moves(actions):
    demos = Demonstrations.from_arrays([np.random.default_rng(i).normal(size=(60, 2)) for i in range(4)], [actions] * 4)
    found = simile.path(demos, smoothness=3)
    assert all(np.isfinite(p.error) for p in found.points)
    assert found.knee() in found.points
    assert str(found)


def test_one_short_sequence_has_a_path_too():
    found = simile.path(tasks.pursuit(n_sequences=1, length=30, n_players=2), smoothness=2)
    assert len(found.points) == 2
    assert len(Folds.of(tasks.pursuit(n_sequences=1, length=30, n_players=2))) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simile.path(PURSUIT, smoothness=0), "smoothness must be >= 1; got 0"),
        (lambda: simile.path(PURSUIT, smoothness=True), "smoothness must be a whole number; got True"),
        (lambda: simile.path(PURSUIT, smoothness=()), "smoothness must hold at least one value; got none"),
        (lambda: simile.path(PURSUIT, smoothness=(3.0, -1.0)), "smoothness must be >= 0; got -1.0"),
        (lambda: simile.path(PURSUIT, smoothness=("much",)), "smoothness must be a number; got 'much'"),
        (lambda: simile.path(PURSUIT, smoothness=30.0), "smoothness must be .*; got 30.0"),
        (lambda: simile.path(PURSUIT, smoothness=SmoothTime(0.3)), r"smoothness must be .*; got SmoothTime\("),
        (lambda: simile.path(PURSUIT, smoothness=[simile.MatchExpert()]), "smoothness must be a number; got MatchExp"),
        (lambda: simile.path(PURSUIT, metric="jerk"), "metric must be one of difference_1, .*; got 'jerk'"),
        (lambda: simile.path(PURSUIT, model=()), "model must name at least one model; got none"),
        (lambda: simile.path(PURSUIT, model=SmoothForest), "model must be an object, not a class"),
        (lambda: simile.path(PURSUIT, model="forest"), r"model must have a method fit\(\); got 'forest'"),
        (lambda: simile.path(PURSUIT, regularizer=PreviousAction), "regularizer must be an object, not a class"),
        (lambda: simile.path(PURSUIT, horizon=3), r"horizon must have a method states\(\); got 3"),
        (lambda: simile.path(PURSUIT, seed=-1), "seed must be >= 0; got -1"),
        (lambda: simile.path(PURSUIT, horizon=Horizon(2, 2)), "horizon without past actions: use simile.rounds for"),
        (lambda: simile.path(PURSUIT, space=ActionSpace(0.0, 1e-9)), "space: action 'pan' of .* outside the bounds"),
        (lambda: simile.path(3), "demos must be Demonstrations; got 3"),
        (lambda: made((1.0, 0.1)).at(roughness=0.0), "roughness must be > 0; got 0.0"),
        (
            lambda: made((1.0, 0.1), (0.25, 0.2)).at(roughness=0.1),
            r"roughness must be at least 0.25, .* got 0.1: give path a larger smoothness",
        ),
    ],
)
def test_mistakes_are_told(call, message: str):
    with pytest.raises(SimileError, match=message):
        call()


def test_sequences_of_several_lengths_and_dimensions():
    found = simile.path(demos_of(40, 80, 25, 60, k=3), smoothness=(1.0, 20.0))
    assert [p.policy.n_actions for p in found.points] == [3, 3]
    assert all(np.isfinite(p.error) for p in found.points)
