"""The default of `learn`: folds, one mixture of components and a filter for each action, and data of every kind."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

import simile
from conftest import demos_of
from simile import (
    ActionSpace,
    ColdStart,
    CriticallyDamped,
    Demonstrations,
    ExpertFeedback,
    Horizon,
    Huber,
    MatchExpert,
    PreviousAction,
    Ridge,
    SimileError,
    SmoothForest,
    rollout,
)
from simile.data import tasks
from simile.data.reference import Reference
from simile.learning import measures, mixture, offsets
from simile.learning.aims import DELAYS, FEW, LAGS, Aim
from simile.learning.algorithms import learn_mixture
from simile.learning.components import MODELS, Component, fit_components, halve
from simile.learning.folds import FEWEST, MARGIN, N_FOLDS, SHORTEST, Folds, predict, states_of
from simile.learning.mixture import (
    FLAT,
    LENIENT,
    LONGEST,
    MOST_LAG,
    N_LAGS,
    Choices,
    Mixture,
    find_weights,
    standardize,
)
from simile.learning.problem import Fitted
from simile.metrics import Score
from simile.models import PiecewiseLinear
from simile.models.closed_loop import ClosedLoop
from simile.online import Predictor
from simile.policies.offset import Offset
from simile.policies.policies import closed_loop, radius, whole

RNG = np.random.default_rng
PURSUIT = tasks.pursuit(n_sequences=4, length=150, n_players=3)
LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=12)
WIDE = ActionSpace(-1e4, 1e4)  # bounds that cut nothing off
QUICK = (SmoothForest(n_trees=4, min_leaf=10), Ridge(), Ridge(knots=2))


@pytest.fixture(scope="module")
def default() -> simile.Run:
    return simile.learn(PURSUIT)


def empty(*lengths: int) -> Demonstrations:
    """Sequences whose contexts number all frames."""
    frames = np.split(np.arange(float(sum(lengths))), np.cumsum(lengths)[:-1])
    return Demonstrations.from_arrays(frames, frames, names=[f"{i}" for i in range(len(lengths))])


def with_another(demos: Demonstrations, other: list[np.ndarray]) -> Demonstrations:
    """Put another action beside the one."""
    both = [np.column_stack([a, b]) for a, b in zip(demos.actions, other, strict=True)]
    return Demonstrations.from_arrays(demos.contexts, both, rate=demos.rate, action_names=["pan", "tilt"])


def mix(demos: Demonstrations, **given) -> Mixture:
    """Fit a mixture, in standard units."""
    choices = Choices.of(demos, **{"model": QUICK, "space": WIDE, **given})
    _, standard, inside = standardize(demos, choices)
    return Mixture.fit(standard, inside)


# Folds


@given(LENGTHS)
def test_folds_cover_every_frame_once_in_order_and_pieces_of_a_recording_stay_together(lengths):
    demos = empty(*lengths)
    folds = Folds.of(demos)
    covered = np.concatenate(folds.demos.contexts).ravel()
    np.testing.assert_array_equal(covered, np.arange(sum(lengths)))
    assert len(folds.fold) == len(folds.demos)
    if len(folds.demos) > len(demos):
        assert (np.diff(folds.fold) >= 0).all()
    assert np.unique(folds.fold).tolist() == list(range(len(folds)))
    assert 1 <= len(folds) <= N_FOLDS


def test_sequences_are_dealt_by_chance_into_folds_of_like_many_frames():
    folds = Folds.of(empty(*[50] * 40))
    assert np.bincount(folds.fold).tolist() == [10] * 4
    neighbours = np.diff(folds.fold) == 0
    assert 0.1 < neighbours.mean() < 0.4  # a quarter, by chance; nearly all of them in runs of neighbours
    np.testing.assert_array_equal(folds.fold, Folds.of(empty(*[50] * 40)).fold)


@given(LENGTHS)
def test_only_few_sequences_are_cut_and_no_piece_is_too_short_or_crosses_a_border(lengths):
    demos = empty(*lengths)
    pieces = Folds.of(demos).demos
    if len(lengths) >= FEWEST:
        assert [len(d) for d in pieces] == lengths
    for piece in pieces:
        whole = demos[int(piece.name)]
        assert len(piece) >= SHORTEST or len(piece) == len(whole)
        assert piece.actions.min() >= whole.actions.min()
        assert piece.actions.max() <= whole.actions.max()


@given(st.integers(1, 40), st.integers(1, 300))
def test_folds_of_like_sequences_are_balanced(n: int, length: int):
    folds = Folds.of(empty(*[length] * n))
    frames = [sum(len(folds.demos[int(i)]) for i in own) for _, own in folds.apart()]
    assert max(frames) - min(frames) <= max(len(d) for d in folds.demos)
    if n >= N_FOLDS or (n < FEWEST and n * (length // SHORTEST) >= N_FOLDS):
        assert len(folds) == N_FOLDS
    assert len(folds) == 3 or n != FEWEST


@pytest.mark.parametrize(
    ("lengths", "pieces"),
    [((200, 200), 4), ((200,), 4), ((90,), 4), ((60,), 3), ((30,), 1), ((5, 5, 5, 5, 5), 5), ((100, 100, 100), 3)],
)
def test_fewer_than_three_sequences_are_cut_into_pieces(lengths, pieces: int):
    assert len(Folds.of(empty(*lengths)).demos) == pieces


def test_each_fold_is_told_apart_from_the_others_and_a_single_one_is_itself():
    folds = Folds.of(empty(50, 50, 50, 50, 50))
    for others, own in folds.apart():
        assert set(others) | set(own) == set(range(5))
        assert not set(others) & set(own)
    ((others, own),) = Folds.of(empty(30)).apart()
    assert others.tolist() == own.tolist() == [0]


def test_unseen_is_said_by_models_that_were_fitted_without_the_fold():
    demos = empty(30, 40, 50, 60)
    folds = Folds.of(demos)

    class Remembers:
        def __init__(self, some):
            self.frames = set(np.concatenate(some.contexts).ravel())

        def predict(self, S):
            return np.array([[float(row[0] in self.frames)] for row in S])

    said = folds.predict_unseen(Remembers, Horizon(0, 0))
    np.testing.assert_array_equal(said, np.zeros((180, 1)))
    np.testing.assert_array_equal(Folds.of(empty(30)).predict_unseen(Remembers, Horizon(0, 0)), np.ones((30, 1)))


@given(LENGTHS, st.integers(0, 60), st.one_of(st.none(), st.integers(1, 600)))
def test_pieces_of_a_recording_are_judged_away_from_their_neighbours_and_nothing_else_is_cut(lengths, gap, most):
    demos = empty(*lengths)
    folds = Folds.of(demos, gap=gap, most=most)
    assert len(folds.shown) == folds.judged.sum() > 0
    assert set(folds.fold[folds.judged]) == set(folds.fold)  # weights of a fold come from what is judged in others
    assert folds.judged.all() or sum(lengths) > most
    shown = iter(folds.shown)
    for i, piece in enumerate(folds.demos):
        n, inner = len(piece), min(gap, len(piece) // MARGIN) if len(folds.demos) > len(demos) else 0
        first, last = (j in (-1, len(folds.demos)) or folds.kin[j] != folds.kin[i] for j in (i - 1, i + 1))
        assert (folds.begin[i], folds.end[i]) == (0 if first else inner, n if last else n - inner)
        if folds.judged[i]:
            judged = next(shown)
            np.testing.assert_array_equal(judged.actions, piece.actions[folds.begin[i] : folds.end[i]])


def test_what_is_judged_is_what_models_speak_of():
    """Cut, and of too many only some."""

    class Says:
        def __init__(self, _):
            pass

        def predict(self, S):
            return S[:, :1].astype(float)

    for demos, most in ((empty(200), None), (empty(*[30] * 20), 100), (empty(90, 110), 60)):
        folds = Folds.of(demos, gap=5, most=most, seed=3)
        said = folds.predict_unseen(Says, Horizon(0, 0))
        np.testing.assert_array_equal(said, np.concatenate(folds.shown.contexts))
        if most is not None:
            assert folds.shown.n_frames < demos.n_frames


def test_predictions_in_blocks_are_predictions(monkeypatch):
    states = states_of(PURSUIT, Horizon((0, 3), 0))

    class Sums:
        def predict(self, S):
            return S.sum(axis=1, keepdims=True)

    whole = predict(Sums(), states)
    monkeypatch.setattr(simile.learning.folds, "BLOCK", 70)
    np.testing.assert_array_equal(predict(Sums(), states), whole)
    np.testing.assert_array_equal(whole, states.matrix().sum(axis=1, keepdims=True))


# Components


def loop_of(smoothness: float, k: int = 1, order: int = 3) -> ClosedLoop:
    return ClosedLoop.of(CriticallyDamped(order).fit([np.zeros((1, k))], smoothness), smoothness)


def test_forests_and_ridges_serve_all_aims_and_other_models_one_each(tree):
    demos = mix(PURSUIT).demos
    folds = Folds.of(demos)
    found = fit_components(demos, folds, (*QUICK, tree), Horizon((0, 4), 0), RNG(0))
    assert [one.name for one in found] == ["mean", "forest", "line", "hinges", *["DecisionTreeRegressor"] * 3]
    assert [len(one.aims) for one in found[1:4]] == [len(DELAYS), len(DELAYS) + len(LAGS), len(DELAYS) + len(LAGS)]
    assert [one.aims for one in found[4:]] == [(Aim(delay),) for delay in FEW]
    for one in found:
        assert one.unseen.shape == (600, len(one.aims))
        assert one.model.predict(states_of(demos, Horizon((0, 4), 0)).matrix()).shape == one.unseen.shape


def test_forests_that_tell_what_they_are_worth_are_half_as_large():
    assert [model.n_trees for model in map(halve, (SmoothForest(n_trees=48), SmoothForest(n_trees=1)))] == [24, 1]
    assert halve(Ridge()) == Ridge()
    found = mix(PURSUIT, model=SmoothForest(n_trees=6)).components[1]
    assert len(found.model.roots) == 6


@pytest.mark.parametrize("lengths", [(80, 90, 60, 70), (50, 70, 60), (320,)], ids=["four", "three", "cut"])
def test_unseen_is_what_a_model_says_that_was_fitted_by_hand_without_the_fold(lengths):
    made = mix(demos_of(*lengths, k=2), model=LinearRegression(), horizon=Horizon((0, 3), 0))
    folds, horizon = made.folds, made.choices.horizon
    parts = iter(range(1, 1 + len(FEW)))
    for number, ahead in zip(parts, FEW, strict=True):
        said = []
        for i, piece in enumerate(folds.demos):
            others = folds.demos.where(np.flatnonzero(folds.fold != folds.fold[i]))
            labels = [a[np.minimum(np.arange(len(a)) + ahead, len(a) - 1)] for a in others.actions]
            by_hand = LinearRegression().fit(states_of(others, horizon).matrix(), np.concatenate(labels))
            states = states_of(folds.demos[i : i + 1], horizon).matrix()
            assert len(states) == len(piece)
            said.append(by_hand.predict(states)[folds.begin[i] : folds.end[i]])
        np.testing.assert_allclose(made.components[number].unseen, np.concatenate(said), atol=1e-9)
    mean = [
        np.mean(np.concatenate(folds.demos.where(np.flatnonzero(folds.fold != fold)).actions), axis=0)
        for fold in folds.fold
    ]
    lengths = folds.end - folds.begin
    np.testing.assert_allclose(made.components[0].unseen, np.repeat(mean, lengths, axis=0), atol=1e-12)


@pytest.mark.parametrize("lengths", [(80, 90, 60, 70, 50), (320,)], ids=["five", "cut"])
@pytest.mark.parametrize("fold", range(4))
def test_what_the_expert_did_in_a_fold_does_not_matter_to_what_is_said_there(lengths, fold: int):
    demos = mix(demos_of(*lengths, k=2)).folds.demos  # pieces, each of which now is a recording
    folds = Folds.of(demos)
    own = np.flatnonzero(folds.fold == fold)
    changed = [np.flipud(a) + 1.0 if i in own else a for i, a in enumerate(demos.actions)]
    horizon = Horizon((0, 3), 0)
    one, other = (
        fit_components(some, Folds.of(some), QUICK, horizon, RNG(0)) for some in (demos, demos.with_actions(changed))
    )
    here = np.repeat(folds.fold == fold, folds.shown.lengths)
    for a, b in zip(one, other, strict=True):
        if a.name == "line" or a.name == "hinges":  # of a fit, every output has the penalty that its errors ask for
            continue
        np.testing.assert_array_equal(a.unseen[here], b.unseen[here])
        assert not np.array_equal(a.unseen[~here], b.unseen[~here])
    lines = [
        fit_components(some, Folds.of(some), (Ridge(alphas=(1e-3,)), Ridge(2, (1e-3,))), horizon, RNG(0))
        for some in (demos, demos.with_actions(changed))
    ]
    for a, b in zip(*lines, strict=True):
        np.testing.assert_allclose(a.unseen[here], b.unseen[here], atol=1e-9)


# Weights


def find_by_hand(errors: np.ndarray) -> float:
    """The least error of a convex combination, by trying which components have a part."""
    gram, least = errors.T @ errors, math.inf
    n = len(gram)
    for some_ in itertools.chain.from_iterable(itertools.combinations(range(n), r) for r in range(1, n + 1)):
        part = gram[np.ix_(some_, some_)]
        system = np.block([[part, np.ones((len(some_), 1))], [np.ones((1, len(some_))), np.zeros((1, 1))]])
        weights = np.linalg.lstsq(system, np.append(np.zeros(len(some_)), 1.0), rcond=None)[0][:-1]
        if (weights >= -1e-12).all() and weights.sum() == pytest.approx(1.0):
            least = min(least, float(np.sum((errors[:, list(some_)] @ weights) ** 2)))
    return least


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 30), st.sampled_from([0.0, 0.3, 3.0]))
def test_weights_are_those_of_the_least_error(seed: int, n: int, frames: int, scale: float):
    rng = RNG(seed)
    errors = rng.normal(size=(frames, n)) * 10.0 ** rng.normal(scale=scale, size=n) + rng.normal(size=(frames, 1))
    gram = errors.T @ errors
    weights, scaled = find_weights(gram), find_weights(2.0**20 * gram)
    slack = 1e-6 * float(np.diag(gram).min())
    for found in (weights, scaled):  # units do not matter
        assert found.sum() == pytest.approx(1.0)
        assert (found >= 0.0).all()
        assert np.sum((errors @ found) ** 2) <= find_by_hand(errors) + slack


def test_weights_at_their_limits():
    assert find_weights(np.array([[2.0]])).tolist() == [1.0]
    for far in (1e3, 1e12, 1e24):  # one that diverges does not round the others away
        np.testing.assert_allclose(find_weights(np.diag([far, 1.0, 4.0])), [0.0, 0.8, 0.2], atol=1e-3)
    errors = np.append(RNG(0).normal(size=(200, 3)), 1e9 * RNG(1).normal(size=(200, 1)), axis=1)
    gram = errors.T @ errors
    np.testing.assert_allclose(find_weights(gram)[:3], find_weights(gram[:3, :3]), atol=1e-6)
    assert find_weights(np.diag([3.0, 0.0, 1.0])).tolist() == [0.0, 1.0, 0.0]  # one makes no error at all
    assert find_weights(np.diag([3.0, math.inf, 1.0])).tolist() == [0.0, 0.0, 1.0]
    assert find_weights(np.full((2, 2), math.nan)).tolist() == [1.0, 0.0]
    same = find_weights(np.ones((40, 40)))
    assert same.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("lengths", [(80, 90, 60, 70, 85), (400,)], ids=["five", "cut"])
def test_the_weights_of_a_fold_come_from_the_others(lengths, weighed: bool):
    demos = demos_of(*lengths, k=2, seed=3)
    if weighed:
        counts = [RNG(i).uniform(0.0, 1.0, size=d.actions.shape) for i, d in enumerate(demos)]
        demos = Demonstrations(tuple(replace(d, weights=w) for d, w in zip(demos, counts, strict=True)))
    made = mix(demos, horizon=Horizon((0, 3), 0))
    filter_ = made.choices.filter_at(made.demos, 20.0)
    judged = made.judged
    for j in range(2):
        found = made.blend(j, filter_)
        loop, alone = ClosedLoop(filter_.loop.taps[:, [j]]), judged.only_action(j)
        rolled = [
            np.stack([loop.roll(z[:, [i]], a)[:, 0] for i in range(z.shape[1])], axis=1)
            for z, a in zip(np.split(made.predictions(j), made.starts[1:-1]), alone.actions, strict=True)
        ]
        roots = [1.0 if d.weights is None else np.sqrt(d.weights[3:]) for d in alone]
        errors = [(r - a)[3:] * root for r, a, root in zip(rolled, alone.actions, roots, strict=True)]
        mixed = []
        for i, own in enumerate(rolled):
            others = np.concatenate([e for e, fold in zip(errors, made.fold, strict=True) if fold != made.fold[i]])
            mixed.append(own @ find_weights(others.T @ others)[:, np.newaxis])
        memory, expected = offsets.fit_offset(mixed, alone, loop, made.fold)
        np.testing.assert_allclose(found.offset, memory, atol=1e-6)
        np.testing.assert_allclose(found.rolled, np.concatenate(expected)[:, 0], atol=1e-6)
        everything = np.concatenate(errors)
        np.testing.assert_allclose(found.weights, find_weights(everything.T @ everything), atol=1e-4)
        total = made.reference(j, 3).sums([part[:, np.newaxis] for part in np.split(found.rolled, made.starts[1:-1])])
        np.testing.assert_array_equal(total.squares, found.sums.squares)


@pytest.mark.parametrize("k", [1, 2])
def test_the_policy_says_the_weighted_sum_of_what_its_components_say(k: int, tree):
    made = mix(demos_of(80, 90, 60, 70, k=k), model=(*QUICK, tree), horizon=Horizon((0, 3), 0))
    finished = made.finish(made.at(20.0))
    states = states_of(made.demos, made.choices.horizon).matrix()
    expected = np.zeros((len(states), k))
    for one, weights in finished.shares:
        said = one.model.predict(states).reshape(len(states), *weights.shape)
        expected += (said * weights).sum(axis=1)
    f = whole(finished.policy).f
    np.testing.assert_allclose(f.predict(states), expected, atol=1e-5)  # forests have single precision
    np.testing.assert_allclose(sum(w.sum(axis=0) for _, w in finished.shares), np.ones(k))


def test_every_component_can_stand_alone():
    made = mix(PURSUIT)
    states = states_of(made.demos, made.choices.horizon).matrix()
    for one in made.components:
        said = one.model.predict(states)
        assert one.blend(np.zeros((len(one.aims), 1))) is None
        for i in range(len(one.aims)):
            weights = np.zeros((len(one.aims), 1))
            weights[i] = 0.25
            model, share = one.blend(weights)
            assert share.tolist() == [0.25]
            np.testing.assert_allclose(model.predict(states)[:, 0], said[:, i], atol=1e-6)


def test_a_mixture_is_no_worse_than_any_of_its_components():
    made = mix(PURSUIT)
    for filter_ in made.filters[::5]:
        rolled = filter_.loop.roll_columns(made.predictions(0), made.starts, made.expert[:, 0], 0)
        weights = made.blend(0, filter_).weights
        frame = np.concatenate([np.arange(n) for n in made.judged.lengths])
        errors = (rolled - made.expert)[frame >= 3]
        assert np.sum((errors @ weights) ** 2) <= np.min(np.sum(errors**2, axis=0)) * (1.0 + 1e-9)


def test_the_policy_to_go_on_from_may_have_a_fixed_share():
    old, new = PURSUIT[:2], tasks.pursuit(n_sequences=4, length=120, n_players=3, seed=5)
    initial = simile.learn(old, model=Ridge(), smoothness=30.0).policy
    choices = Choices.of(new, model=QUICK, initial=initial)
    for share in (0.1, 0.5, None):
        run = learn_mixture(new, replace(choices, share=share), MatchExpert())
        before = [row for row in run.mixed if row["component"] == "policy before"]
        assert sum(row["weights"][0] for row in run.mixed) == pytest.approx(1.0)
        if share is not None:
            assert before[0]["weights"] == [pytest.approx(share)]
    assert run.mixed[0]["component"] != "policy before" or run.mixed[0]["weights"][0] not in (0.1, 0.5)


def test_a_fixed_share_leaves_the_best_for_the_rest():
    old, new = PURSUIT[:2], tasks.pursuit(n_sequences=4, length=120, n_players=3, seed=5)
    initial = simile.learn(old, model=Ridge(), smoothness=30.0).policy
    _, standard, inside = standardize(new, Choices.of(new, model=QUICK, initial=initial))
    free = Mixture.fit(standard, inside)
    filter_ = free.choices.filter_at(standard, 30.0)
    share = float(free.blend(0, filter_).weights[-1])
    fixed = replace(free, choices=replace(inside, share=share))
    rolled = filter_.loop.roll_columns(free.predictions(0), free.starts, free.expert[:, 0], 0) - free.expert
    ours, theirs = (np.sum((rolled @ one.blend(0, filter_).weights) ** 2) for one in (fixed, free))
    assert ours == pytest.approx(theirs, rel=1e-6)  # by what is best anyway nothing is lost


# How smooth


ROUGH = st.lists(
    st.tuples(st.floats(1e-3, 100.0), st.one_of(st.floats(1e-3, 10.0), st.just(math.nan))), min_size=1, max_size=8
)


@given(ROUGH, st.floats(0.01, 10.0))
def test_the_smoothest_within_half_a_per_cent_of_what_the_budget_allows(rows, ratio: float):
    scores = [Score(error, roughness) for error, roughness in rows]
    chosen, share = mixture._pick(scores, ratio)
    within = [i for i, one in enumerate(scores) if not one.roughness > ratio]
    if not within:
        assert scores[chosen].roughness == min(one.roughness for one in scores)
        return
    least = min(scores[i].rmse for i in within)
    assert chosen in within
    assert scores[chosen].rmse <= (1.0 + FLAT) * least
    assert all(scores[i].rmse > (1.0 + FLAT) * least for i in within if i > chosen)
    assert 0.0 <= share <= 1.0
    if share < 1.0:  # between what is too rough and more accurate, and this
        assert chosen - 1 not in within
        assert scores[chosen - 1].rmse < scores[chosen].rmse


@pytest.mark.parametrize(
    ("errors", "between"),
    [
        ((0.30, 0.31, 0.40), True),  # smoothness costs: the budget is used
        ((0.30, 0.29, 0.40), False),  # it does not: the more accurate one is smoother than asked for
        ((0.30, 0.299, 0.2991), False),  # a difference that may be chance: the smoothest of all
    ],
)
def test_the_budget_is_not_used_where_a_smoother_policy_is_more_accurate(errors, between: bool):
    scores = [Score(e, r) for e, r in zip(errors, (1.5, 0.8, 0.4), strict=True)]
    chosen, share = mixture._pick(scores, 1.0)
    assert (share < 1.0) is between
    assert chosen == (2 if errors[2] < 0.3 else 1)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
def test_the_budget_is_kept_by_every_action(seed: int, ratio: float):
    made = mix(tasks.pursuit(n_sequences=5, length=150, n_players=3, seed=seed))
    smoothest = min(one.sums.score.roughness for one in made.table[0])
    found = made.choose(0, ratio)
    assert found.sums.score.roughness <= max(LENIENT * ratio, smoothest)


@pytest.mark.parametrize(("lengths", "rate"), [((9, 12, 8), None), ((150,) * 4, 30.0), ((90, 400), 120.0)])
def test_filters_lag_by_no_more_than_the_recordings_are_long_enough_for(lengths, rate):
    made = mix(demos_of(*lengths, rate=rate), model=Ridge(), horizon=Horizon((0, 2), 0))
    lags = [filter_.loop.lag for filter_ in made.filters]
    assert len(lags) == N_LAGS
    assert lags[0] == 0.0
    assert (np.diff(lags) > 0.0).all()
    frames = 1.0 if rate is None else rate / 30.0
    assert lags[-1] == pytest.approx(min(MOST_LAG * frames, max(lengths) / LONGEST))


def test_the_filter_of_a_fold_is_what_the_others_choose():
    made = mix(tasks.pursuit(n_sequences=8, length=150, n_players=3, seed=2))
    found, line = made.choose(0, 1.0), made.table[0]
    for number in range(len(made.folds)):
        rest = [one.sums[made.fold != number].score for one in line]
        own, _ = mixture._pick(rest, 1.0)
        here = np.repeat(made.fold == number, made.judged.lengths)
        candidates = [line[own].rolled, made.blend(0, found.filter).rolled]
        assert any(np.array_equal(found.rolled[here], one[here]) for one in candidates)


# What `learn` makes of it


def test_the_default_is_one_mixture_in_one_round(default):
    (turn,) = default.rounds
    assert turn.number == 0
    assert turn is default.chosen
    assert default.policy is turn.policy
    assert isinstance(turn.h, simile.models.regularizers.Autoregressor)
    assert turn.h.order == 3
    assert whole(turn.policy).horizon == Horizon.auto(30.0)
    assert turn.radius < 1.0
    assert not turn.diverged
    assert radius(turn.policy) == pytest.approx(turn.radius, abs=1e-4)  # of a triple pole
    assert math.isnan(turn.sigma)
    assert turn.targets == []
    assert [type(model).__name__ for model in MODELS] == ["SmoothForest", "Ridge", "Ridge"]


def test_what_was_mixed_is_told_and_sums_to_one_for_each_action():
    demos = tasks.pursuit(n_sequences=4, length=120, n_players=3)
    both = with_another(demos, [x[:, :1] for x in demos.contexts])
    for some_, k in ((demos, 1), (both, 2)):
        run = simile.learn(some_, model=QUICK)
        weights = np.array([row["weights"] for row in run.mixed])
        assert weights.shape == (len(run.mixed), k)
        assert (weights >= 0.0).all()
        assert weights.any(axis=1).all()
        np.testing.assert_allclose(weights.sum(axis=0), 1.0)
        assert (np.diff(weights.sum(axis=1)) <= 1e-12).all()  # heaviest first
        lines = str(run).splitlines()
        for row, line in zip(run.mixed, lines[1:], strict=False):
            assert line.startswith(row["component"])
            assert row["aim"] in line
        told = run.policy.card.training["mixture"]
        assert list(told) == ["pan", "tilt"][:k]
        for j, said in enumerate(told.values()):
            heaviest = max(run.mixed, key=lambda row: row["weights"][j])
            assert said.startswith(f"{100.0 * heaviest['weights'][j]:.0f} % {heaviest['component']}")
            assert said.count("%") == np.count_nonzero(weights[:, j])
        assert repr(run).startswith(f"Run(a mixture of {len(run.mixed)} components")


def test_what_is_told_is_what_the_unseen_roll_outs_did(default):
    turn, judged = default.chosen, default.judged
    score = Reference(judged.demos, judged.scale, judged.begin).measure(judged.rolled)
    assert (score.error, score.roughness) == pytest.approx((turn.error, turn.roughness))
    assert (turn.validation_error, turn.validation_roughness) == (turn.error, turn.roughness)
    for a, b in zip(judged.rolled, turn.rolled, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    for demo, expert in zip(judged.demos, PURSUIT, strict=True):
        np.testing.assert_allclose(demo.actions, expert.actions, atol=1e-9)
        np.testing.assert_allclose(demo.contexts, expert.contexts, rtol=1e-6, atol=1e-6)
    assert judged.error([True] * 4) == pytest.approx(math.sqrt(turn.error))
    assert math.isnan(judged.error([False] * 4))


def test_unseen_roll_outs_are_those_of_the_policy_where_all_recordings_are_alike():
    """Every part has then seen what it is judged by, and a ridge draws nothing by chance."""
    one = tasks.pursuit(n_sequences=1, length=200, n_players=3)[0]
    demos = Demonstrations(tuple(replace(one, name=f"{i}") for i in range(4)))
    run = simile.learn(demos, model=Ridge(alphas=(1e-3,)), hold=0)
    for unseen, own in zip(run.judged.rolled, rollout(run.policy, demos), strict=True):
        np.testing.assert_allclose(unseen, own, atol=1e-6 * run.policy.units.scale[0])


def test_the_verdict_covers_every_recording(default):
    for n in (3, 4, 9):
        run = simile.learn(tasks.pursuit(n_sequences=n, length=60, n_players=3), model=Ridge())
        assert (run.verdict.recordings, run.verdict.groups) == (n, n)
        assert len(run.judged.demos) == len(run.judged.rolled) == len(run.judged.simple or run.judged.rolled) == n
        assert run.verdict.new == run.new == "another recording"
        assert ("can show nothing for sure" in str(run.verdict)) == (n < 6)
    assert default.verdict.learned_from == 0
    people = tasks.pursuit(n_sequences=6, length=60, n_players=3).grouped("aabbcc", by="person")
    found = simile.learn(people, model=Ridge())
    assert (found.verdict.recordings, found.verdict.groups, found.new) == (6, 3, "another person")


def test_one_recording_is_judged_by_stretches_of_it_with_gaps_between_and_the_verdict_says_so():
    run = simile.learn(tasks.pursuit(n_sequences=1, length=400, n_players=3), model=QUICK)
    assert (run.verdict.recordings, run.verdict.groups) == (4, 1)
    assert "4 stretches of 1 recording" in str(run.verdict)
    assert run.new == run.verdict.new == "another part of the same recording"
    gap = 100 // MARGIN
    assert [len(d) for d in run.judged.demos] == [100 - gap, 100 - 2 * gap, 100 - 2 * gap, 100 - gap]
    with pytest.raises(SimileError, match="the rounds of Algorithm 1 leave nothing out"):
        _ = simile.clone(PURSUIT, model=SmoothForest(n_trees=1)).verdict


def test_one_short_recording_gives_a_policy_too():
    demos = tasks.pursuit(n_sequences=1, length=30, n_players=2)
    run = simile.learn(demos)
    assert run.simple is None
    assert run.baseline is None
    assert len(run.judged.demos) == 1
    assert radius(run.policy) < 1.0
    assert all(np.isfinite(a).all() for a in rollout(run.policy, demos))


def test_learned_bounds_are_those_of_the_other_folds():
    """A policy that was learned without the highest recording could not follow it."""
    demos = Demonstrations.from_arrays(
        [np.full(60, 10.0 * i) + np.sin(np.arange(60.0)) for i in range(4)],
        [np.full(60, 10.0 * i) + np.sin(np.arange(60.0)) for i in range(4)],
    )
    run = simile.learn(demos, model=Ridge(), smoothness=0.5, hold=0)
    most = max(a.max() for a in demos.actions[:3])
    assert run.judged.rolled[3][3:].max() <= most + 0.11 * (most + 1.0)
    assert run.judged.rolled[1].max() > 10.5
    assert run.policy.space.high[0] > 31.0
    if run.judged.simple is not None:  # what it is compared with is bounded as well
        assert run.judged.simple[3][3:].max() <= most + 0.11 * (most + 1.0)
    free = simile.learn(demos, model=Ridge(), smoothness=0.5, hold=0, space=WIDE)
    assert free.judged.rolled[3].max() > 30.0


def test_the_default_beats_the_papers_mode_on_unseen_sequences(pursuit):
    train, test = pursuit
    ours = measures.outcome(simile.learn(train).policy, test)
    theirs = measures.outcome(simile.paper(train, n_rounds=5).policy, test)
    assert ours.error < 0.8 * theirs.error
    assert Reference(test).measure(ours.rolled).roughness < 1.3


def test_models_horizon_and_regularizer_can_be_chosen(tree):
    run = simile.learn(
        PURSUIT,
        model=[tree, Ridge()],
        horizon=Horizon((0, 2), 0),
        regularizer=PreviousAction(),
        smoothness=5.0,
        seed=3,
    )
    assert {row["component"] for row in run.mixed} <= {"mean", "DecisionTreeRegressor", "line"}
    said = run.policy.card.training["settings"]
    assert said["regularizer"] == "PreviousAction()"
    assert said["smoothness"] == 5.0
    assert said["seed"] == 3
    assert whole(run.policy).horizon == Horizon((0, 2), 0)
    assert run.frontier is None  # there was nothing to choose from


def test_models_of_scikit_learn_alone(tree):
    run = simile.learn(PURSUIT, model=tree, smoothness=30.0, seed=1)
    again = simile.learn(PURSUIT, model=tree, smoothness=30.0, seed=1)
    assert {row["component"] for row in run.mixed} <= {"mean", "DecisionTreeRegressor"}
    assert {row["aim"] for row in run.mixed} <= {"now", "0.267 s ahead", "0.8 s ahead"}
    for a, b in zip(rollout(run.policy, PURSUIT), rollout(again.policy, PURSUIT), strict=True):
        np.testing.assert_array_equal(a, b)


def test_several_actions_have_filters_and_weights_of_their_own():
    demos = tasks.pursuit(n_sequences=5, length=150, n_players=3)
    both = with_another(demos, [5.0 * np.sin(x[:, :1]) for x in demos.contexts])
    run, alone = simile.learn(both, model=Ridge(), space=WIDE), simile.learn(demos, model=Ridge(), space=WIDE)
    made = whole(run.policy)
    assert np.shape(made.smoothness) == (2,)
    assert made.smoothness[0] == pytest.approx(whole(alone.policy).smoothness, rel=1e-6)
    ours, theirs = run.mixed, alone.mixed
    first = [row for row in ours if row["weights"][0] > 1e-6]
    assert {(r["component"], r["aim"]) for r in first} == {(r["component"], r["aim"]) for r in theirs}


def test_contexts_may_be_missing():
    gone = RNG(0)
    contexts = [np.where(gone.uniform(size=x.shape) < 0.1, np.nan, x) for x in PURSUIT.contexts]
    demos = Demonstrations.from_arrays(contexts, PURSUIT.actions, rate=30.0)
    run = simile.learn(demos)
    assert math.isfinite(run.chosen.error)
    assert all(np.isfinite(a).all() for a in run.judged.rolled)
    assert all(np.isfinite(a).all() for a in rollout(run.policy, demos))


def test_frames_may_count_differently():
    actions = [a.copy() for a in PURSUIT.actions]
    for i, a in enumerate(actions):
        a[RNG(i).uniform(size=len(a)) < 0.03] += 500.0
    demos = PURSUIT.with_actions(actions)
    robust, plain = (simile.learn(demos, loss=loss, space=WIDE) for loss in (Huber(), None))
    ours, theirs = (measures.outcome(run.policy, PURSUIT).rmse for run in (robust, plain))
    assert ours < theirs
    assert all(d.weights is not None for d in robust.judged.demos)


def test_watch_sees_every_fit_and_then_the_policy():
    seen = []
    run = simile.learn(PURSUIT, smoothness=30.0, watch=seen.append)
    *fits, turn = seen
    assert turn is run.chosen
    assert all(isinstance(one, Fitted) for one in fits)
    assert [one.done for one in fits] == list(range(1, len(fits) + 1))
    assert {one.steps for one in fits} == {len(fits)}
    assert [one.what for one in fits] == ["forest"] * (1 + N_FOLDS) + ["line", "hinges"]


def test_ctrl_c_ends_the_training():
    """There is one mixture: before it is there, nothing could be kept."""
    seen = []

    def watch(one):
        seen.append(one)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simile.learn(PURSUIT, smoothness=30.0, watch=watch)
    assert len(seen) == 2


def test_the_card_tells_data_settings_and_errors(default):
    card = default.policy.card
    assert card.context_names == PURSUIT.context_names
    assert card.action_names == ("pan",)
    assert card.rate == 30.0
    assert card.training["data"] == PURSUIT.digest()
    assert card.training["validation_error"] == default.chosen.validation_error
    assert card.training["settings"]["regularizer"] == "CriticallyDamped(order=3)"
    assert "Ridge" in card.training["settings"]["models"]
    assert " at 0x" not in str(card)


def test_validation_of_your_own_judges_the_policy():
    train, test = tasks.pursuit(n_sequences=8, length=100, n_players=3).split(0.5)
    run = simile.learn(train, validation=test, smoothness=50.0)
    assert run.chosen.validation_error == pytest.approx(measures.outcome(run.policy, test).error)
    assert run.chosen.error == simile.learn(train, smoothness=50.0).chosen.error
    held = simile.learn(PURSUIT, validation=0.25, smoothness=50.0)
    assert held.policy.card.training["sequences"] == 3
    none = simile.learn(PURSUIT, validation=0, smoothness=50.0)
    assert none.policy.card.training["sequences"] == 4


def test_actions_stay_within_the_space():
    low, high = (f(np.concatenate(PURSUIT.actions)) for f in (np.min, np.max))
    run = simile.learn(PURSUIT, space=ActionSpace(low, high), smoothness=5.0)
    for start in (None, ColdStart()):
        rolled = np.concatenate(rollout(run.policy, PURSUIT, start=start))
        assert low <= rolled.min() <= rolled.max() <= high


def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_forest(default, tmp_path):
    for name, seed in (("again", 0), ("other", 1)):
        simile.learn(PURSUIT, seed=seed).policy.save(tmp_path / name)
    default.policy.save(tmp_path / "default")
    first, again = ((tmp_path / name).read_bytes() for name in ("default", "again"))
    assert first == again
    same, other = (simile.learn(PURSUIT, seed=s, smoothness=9.0, model=MODELS[0]).rounds[0].error for s in (0, 1))
    assert same != other


PROGRAM = """
import hashlib, pathlib, sys, tempfile
import simile
from simile.data import tasks
run = simile.learn(tasks.pursuit(n_sequences=4, length=80, n_players=6))
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "policy"
    run.policy.save(path)
    print(hashlib.sha256(path.read_bytes()).hexdigest())
"""


def test_any_number_of_threads_gives_the_same_bytes():
    def printed(threads: int) -> str:
        names = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, str(threads))}
        command = [sys.executable, "-W", "error", "-c", PROGRAM]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert printed(1) == printed(2) != ""


def test_the_units_of_the_actions_do_not_matter(default):
    # A power of two changes no digit; others, and an offset, change the last ones.
    for scale, offset, slack in ((1024.0, 0.0, 0.0), (1000.0, 5e4, 1e-4), (-0.01, 3.0, 1e-4)):
        demos = PURSUIT.with_actions([scale * a + offset for a in PURSUIT.actions])
        run = simile.learn(demos)
        for a, b in zip(rollout(default.policy, PURSUIT), rollout(run.policy, demos), strict=True):
            atol = slack * default.policy.units.scale[0]
            np.testing.assert_allclose((b - offset) / scale, a, rtol=0, atol=atol)


def test_a_default_policy_is_saved_loaded_and_run_online_to_the_bit(default, tmp_path):
    default.policy.save(tmp_path / "policy.safetensors")
    again = simile.load(tmp_path / "policy.safetensors")
    rolled = rollout(default.policy, PURSUIT, start=ColdStart())
    for policy in (default.policy, again):
        for expected, x in zip(rolled, PURSUIT.contexts, strict=True):
            predictor = Predictor(policy)
            np.testing.assert_array_equal(np.array([predictor.step(row) for row in x]), expected)
    for a, b in zip(rollout(again, PURSUIT), rollout(default.policy, PURSUIT), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_mixture_is_one_f_behind_one_filter(default):
    made = whole(default.policy)
    assert made is not None
    assert made.horizon.memory == 0
    assert np.shape(made.smoothness) == ()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simile.learn(PURSUIT, model=[]), "model must name at least one model; got none"),
        (
            lambda: simile.learn(PURSUIT, model=[SmoothForest(), "ridge"]),
            r"model must have a method fit\(\); got 'ridge'",
        ),
        (lambda: simile.learn(PURSUIT, model=[Ridge]), "model must be an object, not a class"),
        (lambda: simile.learn(PURSUIT, regularizer=CriticallyDamped), "regularizer must be an object, not a class"),
        (lambda: simile.learn(PURSUIT, horizon="far"), r"horizon must have a method states\(\); got 'far'"),
        (lambda: simile.learn(PURSUIT, seed=-1), "seed must be >= 0; got -1"),
        (lambda: simile.learn(PURSUIT, smoothness="smooth"), "smoothness must be a number; got 'smooth'"),
        (
            lambda: Choices.of(PURSUIT, horizon=Horizon(2, 1)),
            "a mixture takes a horizon without past actions: use simile.rounds for others",
        ),
        (
            lambda: simile.learn(PURSUIT, feedback=ExpertFeedback()),
            r"feedback: learn has no rounds, it solves for one mixture: use simile.paper\(demos, feedback=Expert",
        ),
        (
            lambda: simile.learn(PURSUIT, regularizer=Bent(), smoothness=3.0),
            r"regularizer must be linear for a mixture; got Bent\(\): use simile.rounds for others",
        ),
        (lambda: simile.learn(PURSUIT, smoothness=(1.0, 2.0)), "smoothness must be one number, or one for each of 1"),
        (lambda: simile.learn(demos_of(3, 3, 3, 3)), "no sequence is longer"),
    ],
)
def test_mistakes_are_told(call, message: str):
    with pytest.raises(SimileError, match=message):
        call()


class Bent:
    """A class of h that is not linear."""

    order = 1

    def fit(self, trajectories, smoothness):
        return self

    def __call__(self, history):
        return np.tanh(history[:, 0])

    def __repr__(self):
        return "Bent()"


# The memory of the start


def test_a_roll_out_with_a_memory_of_the_start_is_what_was_computed_without_rolling_it_out():
    demos = tasks.pursuit(n_sequences=4, length=90, n_players=2)
    policy = simile.learn(demos, model=Ridge(), smoothness=40.0, hold=0).policy.keeping(None)
    units = policy.units
    standard = demos.standardize(units)
    loop, plain = closed_loop(policy), [units.standardize(a) for a in rollout(policy, demos)]
    for offset in (Offset(0.7, 0.9), Offset(1.0, 1.0)):
        expected = [units.standardize(a) for a in rollout(policy.keeping(offset), demos)]
        answer = offset.of(1).share[0] * offsets._respond(float(offset.of(1).fade[0]), 90, loop)
        for a, gap, b in zip(plain, offsets._find_gaps(plain, standard, loop), expected, strict=True):
            np.testing.assert_allclose(a[loop.order :, 0] + gap * answer, b[loop.order :, 0], atol=1e-9)


@pytest.mark.parametrize("kept", [0.0, 0.9])
def test_each_fold_remembers_what_the_others_advise_and_what_helps_by_chance_is_left(kept: float):
    rng, loop, fold = RNG(5), loop_of(20.0), np.array([0, 1, 2, 2, 3])
    actions = [0.3 * rng.normal(size=(60, 1)) + 2.0 * kept * rng.normal() for _ in fold]
    demos = Demonstrations.from_arrays([np.zeros((60, 1))] * 5, actions)
    rolled = [loop.roll(np.zeros((60, 1)), a) for a in actions]
    (share, fade), remembering = offsets.fit_offset(rolled, demos, loop, fold)
    if not kept:
        assert (share, fade) == (0.0, 0.0)
        assert all(a is b for a, b in zip(remembering, rolled, strict=True))
        return
    assert share > 0.5
    gaps = offsets._find_gaps(rolled, demos, loop)
    fades = [0.5 ** (1.0 / (half_life * loop.lag)) for half_life in offsets.HALF_LIVES]
    for i, (before, after, gap) in enumerate(zip(rolled, remembering, gaps, strict=True)):
        errors = []
        for one in fades:  # the best share of the others, by trying
            answer = offsets._respond(one, 60, loop)
            for some in np.linspace(0.0, 1.0, 201):
                missed = [
                    (demos[j].actions - rolled[j])[loop.order :, 0] - some * gaps[j] * answer
                    for j in np.flatnonzero(fold != fold[i])
                ]
                errors.append((np.sum(np.square(missed)), some, one))
        _, best, one = min(errors)
        expected = best * gap * offsets._respond(one, 60, loop)
        np.testing.assert_allclose((after - before)[loop.order :, 0], expected, atol=0.006 * abs(gap))


@pytest.mark.parametrize(("kept", "fade", "ratio"), [(1.0, 0.96, 0.5), (0.6, 0.98, 0.6), (0.8, 1.0, 0.95)])
def test_what_an_expert_keeps_of_the_start_is_found(kept: float, fade: float, ratio: float):
    # Each sequence has an offset of its own that fades: what contexts cannot tell, and the start can.
    rng = RNG(3)
    contexts = [np.cumsum(rng.normal(size=(300, 1)), axis=0) / 10.0 for _ in range(12)]
    along = [fade ** np.arange(300.0)[:, np.newaxis] for _ in contexts]
    actions = [x + kept * 2.0 * rng.normal() * f for x, f in zip(contexts, along, strict=True)]
    demos = Demonstrations.from_arrays(contexts, actions)
    run = simile.learn(demos, model=Ridge(), smoothness=5.0, hold=0)
    found = run.policy.offset
    assert found is not None
    assert found.share[0] > 0.7
    assert found.fade[0] < 1.0  # a bad start has to heal, even if none was bad here
    without = run.policy.keeping(None)
    ours, theirs = (measures.outcome(p, demos).rmse for p in (run.policy, without))
    assert ours < ratio * theirs


def test_where_the_start_tells_nothing_nothing_is_kept_of_it():
    rng = RNG(4)
    contexts = [np.cumsum(rng.normal(size=(300, 1)), axis=0) / 10.0 for _ in range(8)]
    demos = Demonstrations.from_arrays(contexts, [x + 0.3 * rng.normal(size=x.shape) for x in contexts])
    assert simile.learn(demos, model=Ridge(), smoothness=5.0, hold=0).policy.offset is None


def test_shares_that_rounding_brings_above_one_are_one():
    model = PiecewiseLinear.constant(np.array([1.0, 2.0]), simile.Horizon(0, 0), 1)
    wide = replace(model, intercept=np.arange(6.0), coefficient=np.empty((0, 6)))
    weights = np.array([[1.0, 0.5], [2.2e-16, 0.25], [0.0, 0.0]])
    found = Component("line", wide, (Aim(), Aim(1), Aim(2)), np.empty((0, 6))).blend(weights)
    assert found is not None
    assert found[1].tolist() == [1.0, 0.75]
