"""Ridges through the roll-out: against dense least squares on filtered lag matrices, built a number at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

import simile
from conftest import demos_of
from simile import CriticallyDamped, Demonstrations, Horizon, RolloutRidge, SimileError, rollout
from simile.data.reference import Reference
from simile.learning.folds import states_of
from simile.models import PiecewiseLinear, ridge
from simile.models.closed_loop import ClosedLoop
from simile.models.kernels.filtering import filter_frames
from simile.models.regularizers import Autoregressor
from simile.models.ridge import RolloutRegressor
from simile.policies.policies import SmoothPolicy

RNG = np.random.default_rng
HORIZON = Horizon((0, 1, 4), 0)
LENGTHS = (40, 25, 3, 30)
FOLDS = np.array([0, 1, 1, 2])


def loop_of(k: int = 1, smoothness: float = 8.0, *, different: bool = False) -> ClosedLoop:
    """A critically damped loop, or a filter of another kind in every dimension."""
    if not different:
        return ClosedLoop.of(CriticallyDamped(3).fit([np.zeros((1, k))], smoothness), smoothness)
    hs = [CriticallyDamped(3).fit([np.zeros((1, 1))], s).coefficients for s in np.geomspace(smoothness, 5.0, k)]
    return ClosedLoop.of(Autoregressor(np.hstack(hs)), smoothness)


def fitted(model: RolloutRidge, demos: Demonstrations, loop: ClosedLoop, folds=FOLDS, horizon: Horizon = HORIZON):
    return model.fit_rollout(states_of(demos, horizon), demos.actions, loop, folds)


@given(st.integers(0, 3), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_the_filter_has_the_bits_of_scipys_in_one_piece_or_two(order: int, columns: int, seed: int):
    rng = RNG(seed)
    Z, lead, taps = rng.normal(size=(30, columns)), rng.uniform(1.0, 9.0), rng.normal(size=order) / 3.0
    twin = lfilter([1.0], [lead, *taps], Z, axis=0)
    out, bends, past = np.empty_like(Z), np.empty_like(Z), np.zeros((order + 1, columns))
    cut = int(rng.integers(31))
    for part in (slice(0, cut), slice(cut, 30)):
        filter_frames(1.0 / lead, taps / lead, Z[part], past, out[part], bends[part])
        bent = np.diff(twin[part], n=2, axis=0)
        np.testing.assert_array_equal(bends[part][: len(bent)], bent)
    np.testing.assert_array_equal(out, twin)


@pytest.mark.parametrize("at_once", [1, 7])
def test_regressors_are_formed_some_frames_at_a_time_with_the_same_bits(monkeypatch, at_once: int):
    demos, model = demos_of(*LENGTHS), RolloutRidge(knots=2)
    whole, said = fitted(model, demos, loop_of())
    monkeypatch.setattr(ridge, "AT_ONCE", at_once)
    again, said_again = fitted(model, demos, loop_of())
    np.testing.assert_array_equal(again.coefficient, whole.coefficient)
    np.testing.assert_array_equal(said_again, said)


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


def naive_filtered(S: np.ndarray, taps: np.ndarray) -> np.ndarray:
    """Send regressors (T, any) through one dimension of the loop from rest, a frame at a time; begins after `order`."""
    order = len(taps) - 1
    Z = np.zeros_like(S)
    for t in range(order, len(S)):
        Z[t] = (S[t] - sum(taps[i] * Z[t - i] for i in range(1, order + 1))) / taps[0]
    return Z[order:]


def naive_weights(parts, loop: ClosedLoop, alpha: float, bend: float, rows=lambda n: np.arange(n)) -> np.ndarray:
    """Least squares by a dense solver: the roll-out's error, its bends and the size of the weights in one system."""
    k = loop.taps.shape[1]
    weights = []
    for j in range(k):
        left, right, n = [], [], 0
        for S, expert in parts:
            Z = naive_filtered(S, loop.taps[:, j])
            if len(Z) == 0:
                continue
            aims = (expert - loop.free(expert))[loop.order :, j]
            some = rows(len(Z))
            n += len(some)
            left.append(Z[some])
            right.append(aims[some])
            if len(Z) > 2:
                left.append(np.sqrt(bend * loop.lags[j] ** 4) * np.diff(Z, n=2, axis=0)[rows(len(Z) - 2)])
                right.append(np.zeros(len(left[-1])))
        size = np.full(left[0].shape[1], alpha)
        size[-1] = 0.0
        left.append(np.diag(np.sqrt((size + 1e-9) * n)))
        right.append(np.zeros(len(size)))
        weights.append(np.linalg.lstsq(np.concatenate(left), np.concatenate(right), rcond=None)[0])
    return np.column_stack(weights)


def assert_twins(model: RolloutRidge, demos, loop, folds=FOLDS, hinges=(), **how):
    """f on all data, and what fits without a fold say in it, are those of the dense solver."""
    f, said = fitted(model, demos, loop, folds)
    S = naive_regressors(demos, HORIZON, list(hinges))
    (alpha,) = model.alphas
    parts = list(zip(S, demos.actions, strict=True))
    expected = np.concatenate(S) @ naive_weights(parts, loop, alpha, model.bend, **how)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(f.predict(states_of(demos, HORIZON).matrix()), expected, rtol=0, atol=2e-5 * scale)
    ends = np.cumsum([len(d) for d in demos])
    for i, end in enumerate(ends):
        others = [part for part, fold in zip(parts, folds, strict=True) if fold != folds[i]]
        unseen = S[i] @ naive_weights(others, loop, alpha, model.bend, **how)
        np.testing.assert_allclose(said[end - len(S[i]) : end], unseen, rtol=0, atol=2e-5 * np.abs(unseen).max())


@pytest.mark.parametrize("bend", [0.0, 0.1, 3.0])
@pytest.mark.parametrize("k", [1, 2])
def test_the_ridge_is_dense_least_squares_on_filtered_lag_matrices(k: int, bend: float):
    assert_twins(RolloutRidge(alphas=(1e-2,), bend=bend), demos_of(*LENGTHS, k=k), loop_of(k))


@pytest.mark.parametrize("bend", [0.0, 0.1])
def test_every_dimension_is_fitted_through_its_own_filter(bend: float):
    loop = loop_of(3, different=True)
    assert len(ridge._alike(loop.taps)) == 3
    assert_twins(RolloutRidge(alphas=(1e-2,), bend=bend), demos_of(*LENGTHS, k=3), loop)


def test_dimensions_with_one_filter_share_their_normal_equations():
    taps = np.array([[3.0, 2.0, 3.0], [-1.0, -1.0, -1.0]])
    assert [g.tolist() for g in ridge._alike(taps)] == [[1], [0, 2]]
    alike = ClosedLoop(np.column_stack([loop_of(1).taps, loop_of(1, 3.0).taps, loop_of(1).taps]))
    assert_twins(RolloutRidge(alphas=(1e-2,)), demos_of(*LENGTHS, k=3), alike)


def test_in_small_blocks_the_ridge_is_the_same(monkeypatch):
    demos, loop, model = demos_of(*LENGTHS, k=2), loop_of(2, different=True), RolloutRidge(alphas=(1e-2,), bend=0.0)
    f, said = fitted(model, demos, loop)
    monkeypatch.setattr(ridge, "BLOCK", 7)
    assert_twins(model, demos, loop)
    g, told = fitted(model, demos, loop)
    np.testing.assert_allclose(g.coefficient, f.coefficient, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(told, said, rtol=1e-6, atol=1e-9)


def test_blocks_lose_no_more_of_the_bends_than_lie_across_their_borders(monkeypatch):
    demos, loop, model = demos_of(200, 200), loop_of(), RolloutRidge(alphas=(1e-2,))
    _, said = fitted(model, demos, loop, np.array([0, 1]))
    monkeypatch.setattr(ridge, "BLOCK", 50)
    _, told = fitted(model, demos, loop, np.array([0, 1]))
    assert 0.0 < np.abs(told - said).max() < 0.02 * said.std()


@pytest.mark.parametrize("bend", [0.0, 0.1])
def test_of_much_data_every_so_many_th_frame_is_taken(bend: float):
    demos = demos_of(*LENGTHS, k=2)
    model = RolloutRidge(alphas=(1e-2,), bend=bend, rows=demos.n_frames // 3 + 1)  # every third
    assert_twins(model, demos, loop_of(2), rows=lambda n: np.arange(0, n, 3))


@pytest.mark.parametrize("kept", [0, 10**9])
def test_several_loops_are_fitted_together_as_one_by_one(monkeypatch, kept: int):
    monkeypatch.setattr(ridge, "MOST_KEPT", kept)
    demos, model = demos_of(*LENGTHS, k=2), RolloutRidge(knots=2)
    loops = [loop_of(2, 3.0), loop_of(2, 80.0, different=True), loop_of(2, 0.0)]
    together = model.fit_rollouts(states_of(demos, HORIZON), demos.actions, loops, FOLDS)
    for (f, said), loop in zip(together, loops, strict=True):
        g, told = fitted(model, demos, loop)
        np.testing.assert_array_equal(f.coefficient, g.coefficient)
        np.testing.assert_array_equal(said, told)


def test_what_is_said_of_unseen_frames_is_what_a_model_would_predict():
    demos, model = demos_of(50, 40), RolloutRidge(knots=2)
    f, said = fitted(model, demos, loop_of(), np.array([0, 0]))
    np.testing.assert_allclose(said, f.predict(states_of(demos, HORIZON).matrix()), rtol=1e-9, atol=1e-9)


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
    assert_twins(RolloutRidge(knots=3, alphas=(1e-2,)), demos, loop_of(), hinges=hinges)


def test_missing_contexts_count_as_their_mean():
    demos = demos_of(*LENGTHS)
    holes = [np.where(RNG(i).random(x.shape) < 0.2, np.nan, x) for i, x in enumerate(demos.contexts)]
    assert_twins(RolloutRidge(alphas=(1e-2,)), Demonstrations.from_arrays(holes, demos.actions), loop_of())


def test_more_lags_and_contexts_than_there_is_room_for_are_thinned_out(monkeypatch):
    demos = demos_of(60, 60)
    monkeypatch.setattr(ridge, "MOST_LINES", 6)
    monkeypatch.setattr(ridge, "MOST_HINGES", 8)
    f, _ = fitted(RolloutRidge(knots=2), demos, loop_of(), np.array([0, 1]), Horizon(9, 0))
    lines = np.isneginf(f.knot)
    assert sorted(set(f.lags[f.feature[lines]])) == [0, 4, 9]
    assert (lines.sum(), (~lines).sum()) == (6, 8)
    monkeypatch.setattr(ridge, "MOST_LINES", 1)  # fewer than there are contexts: the present of each is always there
    monkeypatch.setattr(ridge, "MOST_HINGES", 1)
    f, _ = fitted(RolloutRidge(knots=2), demos, loop_of(), np.array([0, 1]), Horizon(9, 0))
    assert f.lags[f.feature].tolist() == [0, 0]


def test_the_penalty_is_the_one_with_the_smallest_error_in_roll_outs_of_what_was_left_out():
    demos, loop = demos_of(60, 60, 60, 60, seed=4), loop_of(smoothness=20.0)
    folds = np.arange(4)
    alphas = (1e-6, 1e-2, 1.0, 100.0)

    def error(said):
        parts = np.split(said, 4)
        return sum(np.sum((loop.roll(z, a) - a) ** 2) for z, a in zip(parts, demos.actions, strict=True))

    errors = [error(fitted(RolloutRidge(alphas=(alpha,)), demos, loop, folds)[1]) for alpha in alphas]
    chosen = fitted(RolloutRidge(alphas=alphas), demos, loop, folds)
    best = fitted(RolloutRidge(alphas=(alphas[int(np.argmin(errors))],)), demos, loop, folds)
    assert error(chosen[1]) == min(errors)
    np.testing.assert_array_equal(chosen[0].coefficient, best[0].coefficient)


def test_cross_validation_costs_no_other_answer_than_leaving_sequences_out():
    demos, loop, model = demos_of(50, 40, 60), loop_of(), RolloutRidge(alphas=(1e-3,))
    _, said = fitted(model, demos, loop, np.array([0, 1, 2]))
    # Standard units come from all sequences: they are no secret of the fold, and cost nothing to know.
    rest = Demonstrations((demos[1], demos[2]))
    f, _ = fitted(model, rest, loop, np.array([0, 1]))
    alone = f.predict(states_of(demos[:1], HORIZON).matrix())
    assert np.abs(alone - said[:50]).max() < 0.05 * np.abs(alone).max()


def test_with_a_single_fold_the_ridge_is_fitted_all_the_same():
    demos = demos_of(80)
    f, said = fitted(RolloutRidge(), demos, loop_of(), np.array([0]))
    np.testing.assert_allclose(said, f.predict(states_of(demos, HORIZON).matrix()), rtol=1e-9, atol=1e-9)
    rolled = loop_of().roll(said, demos[0].actions)
    assert np.mean((rolled - demos[0].actions) ** 2) < 0.1 * demos[0].actions.var()


def test_with_a_single_fold_a_single_penalty_is_that_penalty():
    demos, loop = demos_of(80), loop_of()
    (S,) = naive_regressors(demos, HORIZON, [])
    expected = S @ naive_weights([(S, demos[0].actions)], loop, 5.0, 0.1)
    f, _ = fitted(RolloutRidge(alphas=(5.0,)), demos, loop, np.array([0]))
    np.testing.assert_allclose(f.predict(states_of(demos, HORIZON).matrix()), expected, rtol=0, atol=1e-4)


@given(st.integers(0, 1000), st.floats(0.5, 200.0))
@settings(max_examples=15)
def test_a_roll_out_that_lines_can_make_is_found(seed: int, smoothness: float):
    # The expert is a linear f behind this very filter: through the roll-out it is seen as it is.
    rng, loop = RNG(seed), loop_of(1, smoothness)
    h = CriticallyDamped(3).fit([np.zeros((1, 1))], smoothness)
    contexts = [rng.normal(size=(120, 2)) for _ in range(4)]
    weights = rng.normal(size=(2, 1))
    blank = Demonstrations.from_arrays(contexts, [np.zeros(120)] * 4)

    class F:
        def predict(self, S):
            return S @ weights + 0.5

    actions = rollout(SmoothPolicy(F(), h, smoothness, Horizon(0, 0)), blank)
    demos = blank.with_actions(actions)
    _, said = fitted(RolloutRidge(alphas=(1e-9,), bend=0.0), demos, loop, np.arange(4), Horizon(2, 0))
    for i, a in enumerate(actions):
        rolled = loop.roll(said[120 * i : 120 * (i + 1)], a)
        np.testing.assert_allclose(rolled, a, atol=2e-3 * np.concatenate(actions).std())


def test_the_bend_penalty_makes_smoother_roll_outs():
    train = simile.tasks.pursuit(n_sequences=4, length=150, n_players=3)
    units = simile.data.recorded.Units.of(train)
    train = train.with_actions([units.standardize(a) for a in train.actions])
    loop, folds = loop_of(smoothness=20.0), np.arange(4)
    rough = []
    for bend in (0.0, 0.1, 10.0):
        _, said = fitted(RolloutRidge(bend=bend), train, loop, folds, Horizon.auto(30.0))
        rolled = [loop.roll(z, a) for z, a in zip(np.split(said, 4), train.actions, strict=True)]
        rough.append(Reference(train).measure(rolled).roughness)
    assert rough[0] > rough[1] > rough[2]


def test_constant_missing_and_absent_contexts_say_nothing():
    demos = demos_of(40, 40)
    x = [np.column_stack([a, np.full(40, 3e5), np.full(40, np.nan)]) for a in demos.contexts]
    f, said = fitted(RolloutRidge(knots=2), Demonstrations.from_arrays(x, demos.actions), loop_of(), np.arange(2))
    assert np.isfinite(f.coefficient).all()
    assert np.isfinite(said).all()
    S = states_of(Demonstrations.from_arrays(x, demos.actions), HORIZON).matrix()
    other = S.copy()
    other[:, 3::4] = 7.0  # a value where it was always missing
    np.testing.assert_allclose(f.predict(other), f.predict(S), atol=1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1e-20, 1e-6, 1e6, 1e30])
def test_the_units_of_the_contexts_do_not_matter(scale: float):
    demos, loop = demos_of(60, 60), loop_of()
    scaled = Demonstrations.from_arrays([x * scale for x in demos.contexts], demos.actions)
    _, said = fitted(RolloutRidge(knots=2), demos, loop, np.arange(2))
    _, told = fitted(RolloutRidge(knots=2), scaled, loop, np.arange(2))
    if scale == 1e-200:  # nothing is left of them in single precision
        assert np.isfinite(told).all()
    else:
        np.testing.assert_allclose(told, said, atol=1e-3 * said.std())


@pytest.mark.parametrize("scale", [1e38, 1e300])
def test_contexts_beyond_single_precision_are_missing(scale: float):
    demos = demos_of(60, 60)
    x = [np.column_stack([a[:, 0], a[:, 1] * scale]) for a in demos.contexts]
    f, said = fitted(RolloutRidge(knots=2), Demonstrations.from_arrays(x, demos.actions), loop_of(), np.arange(2))
    assert np.isfinite(f.coefficient).all()
    assert np.isfinite(said).all()


def test_sequences_that_the_loop_cannot_leave_teach_nothing():
    demos = demos_of(2, 3, 50, 1)
    f, said = fitted(RolloutRidge(), demos, loop_of(), np.array([0, 0, 1, 1]))
    alone, _ = fitted(RolloutRidge(), demos, loop_of(), np.array([0, 1, 1, 1]))
    assert np.isfinite(said).all()
    assert isinstance(f, PiecewiseLinear)
    assert np.isfinite(alone.coefficient).all()
    f, said = fitted(RolloutRidge(), demos_of(2, 3), loop_of(), np.arange(2))
    np.testing.assert_array_equal(said, 0.0)


def test_many_more_terms_than_frames_are_no_trouble():
    rng = RNG(0)
    demos = Demonstrations.from_arrays([rng.normal(size=(12, 60)) for _ in range(3)], [rng.normal(size=12)] * 3)
    f, said = fitted(RolloutRidge(knots=5), demos, loop_of(), np.arange(3), Horizon.auto())
    assert np.isfinite(f.coefficient).all()
    assert np.abs(said).max() < 1e3


def test_the_ridge_is_a_recipe_for_roll_outs():
    assert isinstance(RolloutRidge(), RolloutRegressor)
    assert RolloutRidge(alphas=[1, 2]) == RolloutRidge(alphas=(1.0, 2.0))
    assert hash(RolloutRidge()) == hash(RolloutRidge())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RolloutRidge(knots=-1), "knots must be >= 0; got -1"),
        (lambda: RolloutRidge(knots=1.5), "knots must be a whole number; got 1.5"),
        (lambda: RolloutRidge(alphas=()), "alphas must hold at least one penalty; got none"),
        (lambda: RolloutRidge(alphas=(0.1, 0.0)), "alphas must be > 0; got 0.0"),
        (lambda: RolloutRidge(alphas=(np.nan,)), "alphas must be > 0; got nan"),
        (lambda: RolloutRidge(bend=-0.1), "bend must be >= 0; got -0.1"),
        (lambda: RolloutRidge(rows=0), "rows must be >= 1; got 0"),
        (
            lambda: fitted(RolloutRidge(), demos_of(30), loop_of(), np.array([0]), Horizon(2, 1)),
            "model: RolloutRidge needs a horizon without past actions",
        ),
        (
            lambda: list(simile.rounds(demos_of(30), model=RolloutRidge(), n_rounds=1)),
            "model: RolloutRidge needs a horizon without past actions",
        ),
        (
            lambda: simile.paper(demos_of(30, 30), model=RolloutRidge(), horizon=Horizon(3, 2)),
            "model: RolloutRidge needs a horizon without past actions",
        ),
    ],
)
def test_mistakes_are_told(call, message: str):
    with pytest.raises(SimileError, match=message):
        call()


def test_the_rounds_of_algorithm_1_can_fit_ridges_too():
    demos = demos_of(60, 60, 60)
    turns = list(simile.rounds(demos, model=RolloutRidge(), horizon=Horizon(4, 0), n_rounds=1, smoothness=5.0))
    assert isinstance(turns[0].trained.f, PiecewiseLinear)
    assert turns[-1].error < 0.2


PROGRAM = """
import hashlib
import numpy as np
from simile import CriticallyDamped, Horizon, RolloutRidge
from simile.data import tasks
from simile.models.closed_loop import ClosedLoop
from simile.learning.folds import states_of
demos = tasks.pursuit(n_sequences=4, length=150, n_players=12)
loop = ClosedLoop.of(CriticallyDamped(3).fit(demos.actions, 60.0), 60.0)
f, said = RolloutRidge(knots=2).fit_rollout(states_of(demos, Horizon.auto(30.0)), demos.actions, loop, np.arange(4))
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
