"""Least squares on states: against a dense solver on lag matrices that are built a number at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simile
from conftest import demos_of
from simile import Demonstrations, Horizon, Ridge, SimileError
from simile._common.parts import Whole
from simile.learning.aims import Aim, choose_aims, label
from simile.learning.folds import states_of
from simile.models import PiecewiseLinear, SmoothRegressor, ridge
from simile.models.ridge import FoldRegressor, Lesson

RNG = np.random.default_rng
HORIZON = Horizon((0, 1, 4), 0)
LENGTHS = (40, 25, 3, 30)
FOLDS = np.array([0, 1, 1, 2])
NOW = (Aim(),)
AIMS = (Aim(), Aim(3), Aim(lag=2.0))


def fitted(
    model: Ridge, demos: Demonstrations, folds=FOLDS, horizon: Horizon = HORIZON, *, aims=NOW, weights=None, judged=None
):
    """f, and what fits without a frame's fold say in it."""
    labels = label(demos.actions, aims)
    return model.fit_folds(Whole(Lesson(states_of(demos, horizon), labels, np.array(folds), weights, judged)))


def predicted(f: PiecewiseLinear, demos: Demonstrations, horizon: Horizon = HORIZON) -> np.ndarray:
    return f.predict(states_of(demos, horizon).matrix())


def naive_regressors(demos: Demonstrations, horizon: Horizon, hinges: list[tuple[int, int, float]]):
    """The regressors of every sequence, (T, terms + 1) each, in standard units of the present contexts."""
    present = np.concatenate(demos.contexts).astype(np.float32).astype(float)
    mean = np.nanmean(present, axis=0)
    present = np.where(np.isnan(present), mean, present)
    terms = [(place, j, -np.inf) for place in range(len(horizon.context_lags)) for j in range(present.shape[1])]
    out = []
    for x in demos.contexts:
        x = x.astype(np.float32).astype(float)
        S = np.ones((len(x), len(terms) + len(hinges) + 1))
        for t in range(len(x)):
            for i, (place, j, knot) in enumerate(terms + hinges):
                value = x[max(t - horizon.context_lags[place], 0), j]
                value = max(mean[j] if np.isnan(value) else value, knot)
                bent = np.maximum(present[:, j], knot)
                S[t, i] = (value - bent.mean()) / (bent.std() or 1.0)
        out.append(S)
    return out


def naive_weights(parts, alpha: float, every: int = 1) -> np.ndarray:
    """Least squares by a dense solver: errors, each times the root of its weight, and the size of the weights."""
    columns = []
    for j in range(parts[0][1].shape[1]):
        left, right = [], []
        for S, labels, counts in parts:
            root = np.sqrt(counts[::every, j])
            left.append(root[:, np.newaxis] * S[::every])
            right.append(root * labels[::every, j])
        size = np.full(left[0].shape[1], alpha)
        size[-1] = 0.0
        left.append(np.diag(np.sqrt((size + 1e-9) * sum(map(len, right)))))
        right.append(np.zeros(len(size)))
        columns.append(np.linalg.lstsq(np.concatenate(left), np.concatenate(right), rcond=None)[0])
    return np.column_stack(columns)


def assert_twins(model: Ridge, demos, folds=FOLDS, *, hinges=(), aims=NOW, weights=None, every: int = 1):
    """f on all data, and what fits without a fold say in it, are those of the dense solver."""
    f, said = fitted(model, demos, folds, aims=aims, weights=weights)
    S = naive_regressors(demos, HORIZON, list(hinges))
    (alpha,) = model.alphas
    ends = np.cumsum(demos.lengths)
    labels = np.split(label(demos.actions, aims), ends[:-1])
    weights = np.ones((ends[-1], demos.n_actions)) if weights is None else weights
    counts = np.split(np.tile(weights, len(aims)), ends[:-1])
    parts = list(zip(S, labels, counts, strict=True))
    expected = np.concatenate(S) @ naive_weights(parts, alpha, every)
    np.testing.assert_allclose(predicted(f, demos), expected, rtol=0, atol=2e-5 * np.abs(expected).max())
    for i, end in enumerate(ends):
        others = [part for part, fold in zip(parts, folds, strict=True) if fold != folds[i]]
        unseen = S[i] @ naive_weights(others, alpha, every)
        np.testing.assert_allclose(said[end - len(S[i]) : end], unseen, rtol=0, atol=2e-5 * np.abs(unseen).max())


# ------------------------------------------------------------------------------------- against the dense solver


@pytest.mark.parametrize("aims", [NOW, AIMS], ids=["now", "several aims"])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 10.0])
def test_the_ridge_is_dense_least_squares_on_lag_matrices(k: int, aims, alpha: float):
    assert_twins(Ridge(alphas=(alpha,)), demos_of(*LENGTHS, k=k), aims=aims)


@given(st.lists(st.integers(1, 30), min_size=2, max_size=5), st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_sequences_of_any_lengths_in_any_folds_give_what_the_dense_solver_gives(lengths, seed: int):
    folds = RNG(seed).permutation(np.arange(len(lengths)) % 2)
    assert_twins(Ridge(alphas=(1e-2,)), demos_of(*lengths, k=2, seed=seed % 1000), folds, aims=AIMS)


@pytest.mark.parametrize("aims", [NOW, AIMS], ids=["now", "several aims"])
def test_a_frame_counts_by_its_weight_in_each_action(aims):
    demos = demos_of(*LENGTHS, k=2)
    weights = RNG(0).uniform(0.0, 5.0, size=(demos.n_frames, 2))
    assert_twins(Ridge(alphas=(1e-2,)), demos, aims=aims, weights=weights)


def test_frames_of_no_weight_are_not_learned_from():
    demos = demos_of(60, 50, 40, k=2)
    weights = np.ones((150, 2))
    weights[20:40, 1] = 0.0
    changed = [a.copy() for a in demos.actions]
    changed[0][20:40, 1] += 100.0
    found = [
        fitted(Ridge(alphas=(1e-3,)), d, np.arange(3), weights=weights)[0] for d in (demos, demos.with_actions(changed))
    ]
    np.testing.assert_allclose(found[1].coefficient, found[0].coefficient, rtol=1e-9, atol=1e-12)


def test_equal_weights_are_as_good_as_none():
    demos, model = demos_of(*LENGTHS, k=2), Ridge(alphas=(1e-2,))
    (f, said), (g, told) = (fitted(model, demos, aims=AIMS, weights=w) for w in (None, np.ones((98, 2))))
    np.testing.assert_allclose(g.coefficient, f.coefficient, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(told, said, rtol=1e-7, atol=1e-9)


def test_hinges_bend_at_quantiles_of_each_context(monkeypatch):
    monkeypatch.setattr(ridge, "MOST_HINGE_LAGS", 2)  # the first and the last lag
    demos = demos_of(*LENGTHS)
    present = np.concatenate(demos.contexts).astype(np.float32).astype(float)
    hinges = [
        (place, j, float(np.quantile(present[:, j], (i + 0.75) / 3.5)))
        for i in range(3)
        for place in (0, 2)
        for j in range(2)
    ]
    assert_twins(Ridge(knots=3, alphas=(1e-2,)), demos, hinges=hinges, aims=AIMS)


def test_missing_contexts_count_as_their_mean():
    demos = demos_of(*LENGTHS)
    holes = [np.where(RNG(i).random(x.shape) < 0.2, np.nan, x) for i, x in enumerate(demos.contexts)]
    assert_twins(Ridge(alphas=(1e-2,)), Demonstrations.from_arrays(holes, demos.actions))


@pytest.mark.parametrize("every", [2, 3, 5])
def test_of_much_data_every_so_many_th_row_of_a_sequence_is_taken(every: int):
    demos = demos_of(*LENGTHS, k=2)
    assert_twins(Ridge(alphas=(1e-2,), rows=-(-demos.n_frames // every)), demos, every=every)


def test_of_very_many_frames_every_so_many_th_sequence_is_taken(monkeypatch):
    monkeypatch.setattr(ridge, "MOST_SUMMED", 100)
    monkeypatch.setattr(ridge, "FEWEST_SUMMED", 4)
    demos, folds, model = demos_of(*[25] * 12), np.arange(12) // 3 % 2, Ridge(alphas=(1e-2,))
    f, said = fitted(model, demos, folds)  # 300 frames: every third sequence
    changed = [a + 9.0 * (i % 3 != 0) for i, a in enumerate(demos.actions)]
    g, told = fitted(model, demos.with_actions(changed), folds)
    np.testing.assert_array_equal(g.coefficient, f.coefficient)
    np.testing.assert_array_equal(told, said)
    assert said.shape == (300, 1)
    changed[3] = changed[3] + 9.0
    h, _ = fitted(model, demos.with_actions(changed), folds)
    assert (h.intercept != f.intercept).all()


# -------------------------------------------------------------------------------------------------------- folds


def test_folds_cost_no_other_answer_than_leaving_sequences_out():
    demos, model = demos_of(50, 40, 60), Ridge(alphas=(1e-3,))
    _, said = fitted(model, demos, np.arange(3), aims=AIMS)
    # Standard units come from all sequences: they are no secret of the fold, and cost nothing to know.
    f, _ = fitted(model, Demonstrations((demos[1], demos[2])), np.arange(2), aims=AIMS)
    alone = predicted(f, demos[:1])
    assert np.abs(alone - said[:50]).max() < 0.05 * np.abs(alone).max()


@pytest.mark.parametrize("kept", [0, 10**9])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_said_of_a_fold_does_not_depend_on_what_the_expert_did_there(monkeypatch, kept: int, weighted: bool):
    monkeypatch.setattr(ridge, "MOST_KEPT", kept)
    demos, model = demos_of(50, 40, 60, k=2), Ridge(knots=2, alphas=(1e-2,))
    weights = RNG(1).uniform(0.5, 2.0, size=(150, 2)) if weighted else None
    turned = demos.with_actions([-demos.actions[0], *demos.actions[1:]])
    said, told = (fitted(model, d, np.arange(3), weights=weights)[1] for d in (demos, turned))
    np.testing.assert_array_equal(told[:50], said[:50])
    assert (told[50:] != said[50:]).any(axis=0).all()


def test_only_sequences_that_are_judged_are_spoken_of():
    demos, model = demos_of(*LENGTHS, k=2), Ridge(knots=2)
    f, said = fitted(model, demos, aims=AIMS)
    judged = np.array([False, True, True, False])
    g, told = fitted(model, demos, aims=AIMS, judged=judged)
    np.testing.assert_array_equal(g.coefficient, f.coefficient)  # all are learned from
    np.testing.assert_array_equal(told, said[40:68])
    _, none = fitted(model, demos, aims=AIMS, judged=np.zeros(4, bool))
    assert none.shape == (0, 6)


def test_a_fold_that_is_left_out_last_is_that_of_fits_on_all_others():
    # What is learned from as well, and nothing is judged by, has a fold of its own.
    demos, model = demos_of(50, 40, 60), Ridge(alphas=(1e-3,))
    _, with_third = fitted(model, demos, np.arange(3), judged=np.array([True, True, False]))
    f, _ = fitted(model, demos[1:], np.arange(2))
    np.testing.assert_allclose(with_third[:50], predicted(f, demos[:1]), atol=0.05 * np.abs(with_third).max())


def test_with_a_single_fold_the_ridge_is_fitted_all_the_same():
    demos = demos_of(80)
    f, said = fitted(Ridge(), demos, [0])
    np.testing.assert_allclose(said, predicted(f, demos), rtol=1e-9, atol=1e-9)
    assert np.mean((said - demos[0].actions) ** 2) < 0.1 * demos[0].actions.var()


def test_with_a_single_fold_the_penalty_is_the_middle_one_in_any_order():
    demos = demos_of(80)
    (S,) = naive_regressors(demos, HORIZON, [])
    expected = S @ naive_weights([(S, demos[0].actions, np.ones((80, 1)))], 5.0)
    for alphas in ((5.0,), (1e-3, 5.0, 20.0), (20.0, 5.0, 1e-3)):
        f, _ = fitted(Ridge(alphas=alphas), demos, [0])
        np.testing.assert_allclose(predicted(f, demos), expected, rtol=0, atol=1e-4)


def test_what_is_said_of_unseen_frames_is_what_a_model_would_predict():
    demos = demos_of(50, 40)
    f, said = fitted(Ridge(knots=2), demos, [0, 0])
    np.testing.assert_allclose(said, predicted(f, demos), rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------------------------------------------ penalty


def test_each_output_has_the_penalty_with_the_smallest_error_in_what_was_left_out():
    demos, alphas = demos_of(40, 40, 40, 40, seed=4), (1e-6, 1e-2, 1.0, 100.0)
    noise = np.split(RNG(0).normal(size=(160, 1)), 4)  # of which nothing can be learned
    actions = [np.hstack([a, n]) for a, n in zip(demos.actions, noise, strict=True)]
    demos = Demonstrations.from_arrays(demos.contexts, actions)
    folds, expert = np.arange(4), np.concatenate(demos.actions)

    def errors(said):
        return np.sum((said - expert) ** 2, axis=0)

    alone = [fitted(Ridge(alphas=(alpha,)), demos, folds) for alpha in alphas]
    best = np.argmin([errors(said) for _, said in alone], axis=0)
    assert best[0] < best[1]
    f, said = fitted(Ridge(alphas=alphas), demos, folds)
    for j, i in enumerate(best):
        g, told = alone[i]
        np.testing.assert_array_equal(f.coefficient[:, j], g.coefficient[:, j])
        np.testing.assert_array_equal(f.intercept[j], g.intercept[j])
        np.testing.assert_array_equal(said[:, j], told[:, j])


def test_by_weights_the_penalty_is_the_one_with_the_smallest_weighed_error():
    demos, alphas, folds = demos_of(40, 40, 40, 40, seed=4), (1e-6, 1e-2, 1.0, 100.0), np.arange(4)
    weights = RNG(2).uniform(size=(160, 1)) ** 4
    alone = [fitted(Ridge(alphas=(alpha,)), demos, folds, weights=weights) for alpha in alphas]
    expert = np.concatenate(demos.actions)
    best = int(np.argmin([np.sum(weights * (said - expert) ** 2) for _, said in alone]))
    f, said = fitted(Ridge(alphas=alphas), demos, folds, weights=weights)
    np.testing.assert_array_equal(f.coefficient, alone[best][0].coefficient)
    np.testing.assert_array_equal(said, alone[best][1])


def test_outputs_do_not_depend_on_what_is_fitted_beside_them():
    demos = demos_of(60, 60, 60, k=2)
    together, said = fitted(Ridge(knots=2), demos, np.arange(3), aims=AIMS)
    for i, aim in enumerate(AIMS):
        f, told = fitted(Ridge(knots=2), demos, np.arange(3), aims=(aim,))
        some = slice(2 * i, 2 * i + 2)
        np.testing.assert_allclose(f.coefficient, together.coefficient[:, some], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(told, said[:, some], rtol=1e-6, atol=1e-9)


@given(st.integers(0, 1000), st.integers(1, 3))
@settings(max_examples=15)
def test_an_expert_that_is_linear_is_found(seed: int, k: int):
    rng, horizon = RNG(seed), Horizon((0, 2, 5), 0)
    contexts, weights = [rng.normal(size=(80, 2)) for _ in range(4)], rng.normal(size=(6, k))
    blank = Demonstrations.from_arrays(contexts, [np.zeros((80, k))] * 4)
    demos = blank.with_actions(np.split(states_of(blank, horizon).matrix() @ weights + 0.5, 4))
    f, said = fitted(Ridge(alphas=(1e-9, 1.0)), demos, np.arange(4), horizon)
    np.testing.assert_allclose(f.coefficient, weights, atol=1e-5)
    np.testing.assert_allclose(f.intercept, 0.5, atol=1e-5)
    np.testing.assert_allclose(said, np.concatenate(demos.actions), atol=1e-4)


# --------------------------------------------------------------------------------------------- contexts of all kinds


def test_more_lags_and_contexts_than_there_is_room_for_are_thinned_out(monkeypatch):
    demos, folds = demos_of(60, 60), [0, 1]
    monkeypatch.setattr(ridge, "MOST_LINES", 6)
    monkeypatch.setattr(ridge, "MOST_HINGES", 8)
    f, _ = fitted(Ridge(knots=2), demos, folds, Horizon(9, 0))
    lines = np.isneginf(f.knot)
    assert sorted(set(f.lags[f.feature[lines]])) == [0, 4, 9]
    assert (lines.sum(), (~lines).sum()) == (6, 8)
    monkeypatch.setattr(ridge, "MOST_LINES", 1)  # fewer than there are contexts: the present of each is always there
    monkeypatch.setattr(ridge, "MOST_HINGES", 1)
    f, _ = fitted(Ridge(knots=2), demos, folds, Horizon(9, 0))
    assert f.lags[f.feature].tolist() == [0, 0]


def test_constant_missing_and_absent_contexts_say_nothing():
    demos = demos_of(40, 40)
    x = [np.column_stack([a, np.full(40, 3e5), np.full(40, np.nan)]) for a in demos.contexts]
    f, said = fitted(Ridge(knots=2), Demonstrations.from_arrays(x, demos.actions), [0, 1])
    assert np.isfinite(f.coefficient).all()
    assert np.isfinite(said).all()
    S = states_of(Demonstrations.from_arrays(x, demos.actions), HORIZON).matrix()
    other = S.copy()
    other[:, 3::4] = 7.0  # a value where it was always missing
    np.testing.assert_allclose(f.predict(other), f.predict(S), atol=1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1e-20, 1e-6, 1e6, 1e30])
def test_the_units_of_the_contexts_do_not_matter(scale: float):
    demos = demos_of(60, 60)
    scaled = Demonstrations.from_arrays([x * scale for x in demos.contexts], demos.actions)
    _, said = fitted(Ridge(knots=2), demos, [0, 1])
    _, told = fitted(Ridge(knots=2), scaled, [0, 1])
    if scale == 1e-200:  # nothing is left of them in single precision
        assert np.isfinite(told).all()
    else:
        np.testing.assert_allclose(told, said, atol=1e-3 * said.std())


@pytest.mark.parametrize("scale", [1e38, 1e98])
def test_contexts_beyond_single_precision_are_missing(scale: float):
    demos = demos_of(60, 60)
    x = [np.column_stack([a[:, 0], a[:, 1] * scale]) for a in demos.contexts]
    f, said = fitted(Ridge(knots=2), Demonstrations.from_arrays(x, demos.actions), [0, 1])
    assert np.isfinite(f.coefficient).all()
    assert np.isfinite(said).all()


def test_a_glitch_in_a_long_recording_leaves_enough_digits():
    # One frame that is so far off sets the units of its context: a grid by the largest would be too coarse for others.
    n, rng = 50_000, RNG(0)
    x = np.cumsum(rng.normal(size=(4, n, 3)), axis=1) / 50.0
    x[1, 777, 1:] = 1e6
    actions = x[:, :, :1] + 0.1 * rng.normal(size=(4, n, 1))
    demos, horizon = Demonstrations.from_arrays(list(x), list(actions)), Horizon((0, 1, 2, 4), 0)
    lesson = Lesson(states_of(demos, horizon), label(demos.actions, AIMS), np.arange(4))
    size = ridge.Size.of(lesson)
    bounds = ridge.Bounds.of(ridge.Terms.of(Whole(lesson), [size], 0), size, ridge.Largest.of(lesson).values)
    assert (2.0**-51 * bounds.many * bounds.regressors**2 < 1e-12 * 4 * n).all()  # far below any penalty
    f, said = Ridge(alphas=(1e-6,)).fit_folds(Whole(lesson))
    assert np.isfinite(f.coefficient).all()
    errors = np.delete((said[:, :1] - np.concatenate(actions)) ** 2, n + 777 + np.arange(5))  # where it is not seen
    assert np.sqrt(np.mean(errors)) < 0.11


@pytest.mark.parametrize("offset", [-6, 0, 6])
def test_no_sum_is_beyond_its_bound(offset: int):
    # Where a lag reaches beyond a sequence its first or last frame is repeated, also one that is far from all others.
    demos, rng = demos_of(*[7] * 30), RNG(0)
    x = [a.copy() for a in demos.contexts]
    for a in x:
        a[[0, -1], 1] = rng.choice([0.0, 1e4])
    weights = rng.uniform(0.0, 9.0, size=(210, 1))
    horizon = Horizon((0, 5, 40), 0, lead=offset)
    lesson = Lesson(
        states_of(Demonstrations.from_arrays(x, demos.actions), horizon),
        np.concatenate(demos.actions),
        np.arange(30) % 3,
        weights,
    )
    whole, size = Whole(lesson), ridge.Size.of(lesson)
    terms = ridge.Terms.of(whole, [size], 2)
    bounds = ridge.Bounds.of(terms, size, ridge.Largest.of(lesson).values)
    root = np.sqrt(weights)
    Z = ridge.Regressors(terms, None).at(lesson.states, np.arange(210)) * root
    labels = np.abs(lesson.labels * root)
    most = bounds.many * bounds.regressors
    assert (np.abs(Z).T @ np.abs(Z) <= np.multiply.outer(most, bounds.regressors)).all()
    assert (np.abs(Z).T @ labels <= np.multiply.outer(most, bounds.labels)).all()
    assert (np.sum(labels**2, axis=0) <= bounds.many * bounds.labels**2).all()


def test_many_more_terms_than_frames_are_no_trouble():
    rng = RNG(0)
    demos = Demonstrations.from_arrays([rng.normal(size=(12, 60)) for _ in range(3)], [rng.normal(size=12)] * 3)
    f, said = fitted(Ridge(knots=5), demos, np.arange(3), Horizon.auto(), aims=choose_aims(None))
    assert np.isfinite(f.coefficient).all()
    assert np.abs(said).max() < 1e3


def test_a_single_frame_can_be_learned_from():
    f, said = fitted(Ridge(knots=2), demos_of(1), [0], aims=AIMS)
    np.testing.assert_allclose(said, np.tile(demos_of(1)[0].actions, 3), rtol=1e-6)
    assert np.isfinite(f.coefficient).all()


# ------------------------------------------------------------------------------------------------ bits and room


@pytest.mark.parametrize("at_once", [1, 7])
def test_regressors_are_formed_some_frames_at_a_time_with_the_same_bits(monkeypatch, at_once: int):
    demos, model = demos_of(*LENGTHS), Ridge(knots=2)
    whole, said = fitted(model, demos)
    monkeypatch.setattr(ridge, "AT_ONCE", at_once)
    again, said_again = fitted(model, demos)
    np.testing.assert_array_equal(again.coefficient, whole.coefficient)
    np.testing.assert_array_equal(said_again, said)


def test_regressors_that_are_kept_have_the_bits_of_those_that_are_not(monkeypatch):
    demos, model = demos_of(*LENGTHS, k=2), Ridge(knots=2)
    whole, said = fitted(model, demos, aims=AIMS)
    monkeypatch.setattr(ridge, "MOST_KEPT", 0)
    again, said_again = fitted(model, demos, aims=AIMS)
    np.testing.assert_array_equal(again.coefficient, whole.coefficient)
    np.testing.assert_array_equal(said_again, said)


def test_in_small_blocks_the_ridge_is_the_same(monkeypatch):
    demos, model = demos_of(*LENGTHS, k=2), Ridge(alphas=(1e-2,))
    f, said = fitted(model, demos, aims=AIMS)
    monkeypatch.setattr(ridge, "BLOCK", 7)
    assert_twins(model, demos, aims=AIMS)
    g, told = fitted(model, demos, aims=AIMS)
    np.testing.assert_allclose(g.coefficient, f.coefficient, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(told, said, rtol=1e-6, atol=1e-9)


def test_the_order_of_the_sequences_changes_no_bit():
    demos, order = demos_of(*LENGTHS, k=2), [2, 0, 3, 1]
    f, _ = fitted(Ridge(), demos)
    turned = Demonstrations(tuple(demos[i] for i in order))
    g, _ = fitted(Ridge(), turned, FOLDS[order])
    np.testing.assert_array_equal(g.coefficient, f.coefficient)
    np.testing.assert_array_equal(g.intercept, f.intercept)


def test_sums_that_are_rounded_do_not_depend_on_their_order():
    rng, one = RNG(0), np.ones(4)
    values = rng.normal(size=(200, 4, 4)) * 10.0 ** rng.integers(-12, 2, size=(200, 4, 4))
    found = []
    for some in (values, values[::-1], rng.permutation(values)):
        total = np.zeros((4, 4))
        for value in some:
            ridge.add_rounded(total, value.copy(), 65536.0 * one, one)
        found.append(total)
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
    np.testing.assert_allclose(found[0], values.sum(axis=0), atol=200 * 65536.0 * 2.0**-51)


def test_regressors_take_little_more_room_than_they_are():
    states, terms = states_of(demos_of(4_000), Horizon(20, 0)), np.arange(42) % 21
    zero, one = np.zeros(42), np.ones(42)
    terms = ridge.Terms(feature=terms, knot=zero - np.inf, fill=zero, mean=zero, scale=one, reach=one)
    regressors = ridge.Regressors(terms, None)
    regressors.at(states, np.arange(10))
    tracemalloc.start()
    found = regressors.at(states, np.arange(4_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * found.nbytes


# --------------------------------------------------------------------------------------------------- as a recipe


def test_the_ridge_is_a_recipe_for_folds_and_for_rounds():
    assert isinstance(Ridge(), FoldRegressor)
    assert isinstance(Ridge(), SmoothRegressor)
    assert Ridge(alphas=[1, 2]) == Ridge(alphas=(1.0, 2.0))
    assert hash(Ridge()) == hash(Ridge())


@pytest.mark.parametrize("weighted", [False, True])
def test_fitted_alone_it_chooses_its_penalty_by_sequences_dealt_out_by_chance(weighted: bool):
    demos = demos_of(*[40] * 6, k=2)
    states, labels = states_of(demos, HORIZON), np.concatenate(demos.actions)
    weights = RNG(0).uniform(size=labels.shape) if weighted else None
    f = Ridge(knots=2).fit_smooth([states], labels, labels, labels, 3.0, RNG(0), weights=weights)
    g, _ = fitted(Ridge(knots=2), demos, RNG(0).permutation(6) % 4, weights=weights)
    np.testing.assert_array_equal(f.coefficient, g.coefficient)
    np.testing.assert_array_equal(f.intercept, g.intercept)


def test_fitted_alone_to_very_many_sequences_it_leaves_some_of_those_out_that_it_takes(monkeypatch):
    monkeypatch.setattr(ridge, "MOST_SUMMED", 160)
    monkeypatch.setattr(ridge, "FEWEST_SUMMED", 4)  # every fourth of 32
    demos, seen = demos_of(*[20] * 32), []
    solve = Ridge._solve
    monkeypatch.setattr(
        Ridge,
        "_solve",
        lambda self, n, found: seen.append([s.rows for s in found.folds.values()]) or solve(self, n, found),
    )
    labels = np.concatenate(demos.actions)
    Ridge().fit_smooth([states_of(demos, HORIZON)], labels, labels, labels, 0.0, RNG(0))
    assert sum(seen[0]) == 160
    assert sum(rows > 0 for rows in seen[0]) > 1


def test_the_rounds_of_algorithm_1_can_fit_ridges_too():
    demos = demos_of(60, 60, 60)
    turns = list(simile.rounds(demos, model=Ridge(), horizon=Horizon(4, 0), n_rounds=1, smoothness=5.0))
    assert isinstance(turns[0].trained.f, PiecewiseLinear)
    assert turns[-1].error < 0.2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Ridge(knots=-1), "knots must be >= 0; got -1"),
        (lambda: Ridge(knots=1.5), "knots must be a whole number; got 1.5"),
        (lambda: Ridge(alphas=()), "alphas must hold at least one penalty; got none"),
        (lambda: Ridge(alphas=(0.1, 0.0)), "alphas must be > 0; got 0.0"),
        (lambda: Ridge(alphas=(np.nan,)), "alphas must be > 0; got nan"),
        (lambda: Ridge(rows=0), "rows must be >= 1; got 0"),
        (
            lambda: fitted(Ridge(), demos_of(30), [0], Horizon(2, 1)),
            r"model: Ridge needs a horizon without past actions: Horizon\(context_lags, action_lags=0\)",
        ),
        (
            lambda: list(simile.rounds(demos_of(30), model=Ridge(), n_rounds=1)),
            "model: Ridge needs a horizon without past actions",
        ),
        (
            lambda: simile.paper(demos_of(30, 30), model=Ridge(), horizon=Horizon(3, 2)),
            "model: Ridge needs a horizon without past actions",
        ),
        (
            lambda: simile.dagger(demos_of(30, 30), model=Ridge(), horizon=Horizon(3, 0), n_rounds=1),
            "model: Ridge learns from one round at a time: use a memory of the latest alone",
        ),
    ],
)
def test_mistakes_are_told(call, message: str):
    with pytest.raises(SimileError, match=message):
        call()


PROGRAM = """
import hashlib
import numpy as np
from simile import Horizon, Ridge
from simile._common.parts import Whole
from simile.data import tasks
from simile.learning.aims import choose_aims, label
from simile.learning.folds import states_of
from simile.models.ridge import Lesson
demos = tasks.pursuit(n_sequences=4, length=150, n_players=12)
labels = label(demos.actions, choose_aims(30.0))
f, said = Ridge(knots=2).fit_folds(Whole(Lesson(states_of(demos, Horizon.auto(30.0)), labels, np.arange(4))))
print(hashlib.sha256(f.coefficient.tobytes() + said.tobytes()).hexdigest())
"""


def printed(program: str, threads: int) -> str:
    """What a program prints in a fresh process with so many threads."""
    names = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.long
def test_any_number_of_threads_gives_the_same_bits():
    assert printed(PROGRAM, 1) == printed(PROGRAM, 2)
