"""The default of `learn`: folds, cross-fitted mixtures, a second opinion, and data of every kind."""

from __future__ import annotations

import inspect
import itertools
import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from conftest import demos_of
from simile import (
    ActionSpace,
    ColdStart,
    CompensatedFeedback,
    CriticallyDamped,
    Demonstrations,
    ExpertFeedback,
    Horizon,
    PreviousAction,
    RolloutRidge,
    SimileError,
    SmoothForest,
    SmoothPolicy,
    rollout,
)
from simile.data import tasks
from simile.data.recorded import Units
from simile.data.reference import Reference
from simile.learning import measures
from simile.learning.crossfit import GATE, MODELS, PRICE, Choices, crossfit, line_search, mix
from simile.learning.folds import N_FOLDS, SHORTEST, Folds, predict, states_of
from simile.learning.offsets import remember_all
from simile.learning.shares import DOUBT, choose_share
from simile.models.closed_loop import ClosedLoop
from simile.online import Predictor
from simile.policies.offset import Offset
from simile.policies.policies import Mixture, closed_loop, given_frames, radius

RNG = np.random.default_rng
PURSUIT = tasks.pursuit(n_sequences=4, length=150, n_players=3)
LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def default() -> simile.Run:
    return simile.learn(PURSUIT)


def empty(*lengths: int) -> Demonstrations:
    """Sequences whose contexts number all frames."""
    frames = np.split(np.arange(float(sum(lengths))), np.cumsum(lengths)[:-1])
    return Demonstrations.from_arrays(frames, frames, names=[f"{i}" for i in range(len(lengths))])


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
    if len(lengths) >= N_FOLDS:
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
    if n >= N_FOLDS or n * (length // SHORTEST) >= N_FOLDS:
        assert len(folds) == N_FOLDS


@pytest.mark.parametrize(
    ("lengths", "pieces"),
    [((200, 200), 4), ((200,), 4), ((90,), 4), ((60,), 3), ((30,), 1), ((5, 5, 5, 5, 5), 5), ((100, 100, 100), 6)],
)
def test_fewer_than_four_sequences_are_cut_into_pieces(lengths, pieces: int):
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

    np.testing.assert_array_equal(folds.predict_unseen(Remembers, Horizon(0, 0)), 0.0)
    np.testing.assert_array_equal(Folds.of(empty(30)).predict_unseen(Remembers, Horizon(0, 0)), 1.0)


def test_predictions_in_blocks_are_predictions(monkeypatch):
    states = states_of(PURSUIT, Horizon((0, 3), 0))

    class Sums:
        def predict(self, S):
            return S.sum(axis=1, keepdims=True)

    whole = predict(Sums(), states)
    monkeypatch.setattr(simile.learning.folds, "BLOCK", 70)
    np.testing.assert_array_equal(predict(Sums(), states), whole)
    np.testing.assert_array_equal(whole, states.matrix().sum(axis=1, keepdims=True))


# The step of line 9


def rolls(seed: int, k: int = 1, lengths: tuple[int, ...] = (50,)):
    """Two sets of roll-outs and an expert."""
    rng = RNG(seed)
    demos = demos_of(*lengths, k=k, seed=seed % 100)
    new, old = ([a + s * rng.normal(size=a.shape) for a in demos.actions] for s in rng.uniform(0.0, 2.0, 2))
    return new, old, demos


def loop_of(smoothness: float, k: int = 1, order: int = 3) -> ClosedLoop:
    return ClosedLoop.of(CriticallyDamped(order).fit([np.zeros((1, k))], smoothness), smoothness)


def cost(rolled, demos: Demonstrations, loop: ClosedLoop) -> float:
    """What the step is searched by, a sequence at a time: squared errors, and squared bends at their price."""
    total = 0.0
    for a, expert in zip(rolled, demos.actions, strict=True):
        total += np.sum((a - expert)[loop.order :] ** 2)
        total += PRICE * loop.lag**4 * np.sum(np.diff(a[loop.order :], n=2, axis=0) ** 2)
    return total


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 4), st.sampled_from([0.0, 0.3, 3.0]))
def test_the_line_search_is_optimal_between_0_and_1_and_gated(seed: int, k: int, order: int, smoothness: float):
    new, old, demos = rolls(seed, k)
    loop = loop_of(smoothness, k, order)
    for j, beta in enumerate(np.ravel(line_search(new, old, demos, loop))):  # each action its own
        ours, theirs = ([a[:, [j]] for a in part] for part in (new, old))
        alone, filters = demos.only_action(j), ClosedLoop(loop.taps[:, [j]])
        found, before = (cost(mix(ours, theirs, b), alone, filters) for b in (float(beta), 0.0))
        least = min(cost(mix(ours, theirs, b), alone, filters) for b in np.linspace(0.0, 1.0, 101))
        assert 0.0 <= beta <= 1.0
        if beta > 0.0:
            assert found <= least * (1.0 + 1e-12)
            assert found < (1.0 - GATE) * before * (1.0 + 1e-12)
        else:
            assert least >= (1.0 - GATE) * before * (1.0 - 1e-9)


@given(st.integers(0, 2**32), st.integers(1, 3))
def test_the_step_is_shrunk_by_as_much_as_groups_disagree(seed: int, k: int):
    new, old, demos = rolls(seed, k, (20, 20))
    loop = loop_of(0.0, k)
    alone = line_search(new[:1], old[:1], demos[:1], loop)
    agreed = Demonstrations((demos[0], demos[0]))
    np.testing.assert_allclose(line_search(2 * new[:1], 2 * old[:1], agreed, loop), alone, rtol=1e-12)
    pull = np.array([[np.sum((a - b) * (e - b)) for a, b, e in zip(new, old, demos.actions, strict=True)]]).T
    power = np.array([[np.sum((a - b) ** 2) for a, b in zip(new, old, strict=True)]]).T
    best, found = pull.sum() / power.sum(), choose_share(pull, power, np.arange(2))[0].item()
    variance = 2.0 * np.sum((pull - best * power) ** 2) / power.sum() ** 2  # of the mean of two
    assert found == pytest.approx(np.clip(best / (1.0 + variance / DOUBT**2), 0.0, 1.0))


def test_the_line_search_at_its_limits():
    new, old, demos = rolls(0)
    loop = loop_of(0.0)  # no lag, no price
    assert line_search(demos.actions, old, demos, loop) == 1.0
    assert line_search(old, demos.actions, demos, loop) == 0.0
    assert line_search(old, old, demos, loop) == 0.0
    assert line_search(new, old, demos, loop_of(0.0, order=1000)) == 0.0  # no frame is left
    close = [0.999 * b + 0.001 * a for a, b in zip(demos.actions, old, strict=True)]
    assert line_search(close, old, demos, loop) == 0.0  # too small a gain to believe in


def test_of_the_mean_remains_what_the_first_model_does_not_know_better():
    """Contexts say a little of what the expert does: f learns more than there is, and is drawn to the mean."""
    rng = RNG(0)
    contexts = [rng.normal(size=(200, 1)) for _ in range(8)]
    actions = [0.1 * x + rng.normal(size=(200, 1)) + 5.0 for x in contexts]
    noisy = Demonstrations.from_arrays(contexts, actions)
    run = simile.learn(noisy, model=SmoothForest(n_trees=8, min_leaf=5), smoothness=1.0, hold=0)
    (turn,) = run.rounds
    assert 0.0 < turn.beta < 0.7
    mean, _ = turn.policy.components
    assert mean.f.intercept == pytest.approx(0.0, abs=1e-12)
    assert turn.validation_error < 1.05  # 1 is that of the mean, known beforehand
    exact = simile.learn(PURSUIT, model=RolloutRidge(), smoothness=40.0, hold=0).rounds[0]
    assert exact.beta == 1.0
    assert exact.policy.f is exact.trained.f


def test_a_gain_that_is_bought_with_roughness_is_refused():
    demos = Demonstrations.from_arrays([np.zeros(200)], [np.sin(np.arange(200.0) / 20.0)])
    smooth = [0.8 * a for a in demos.actions]
    shaking = [a + 0.1 * (-1.0) ** np.arange(200)[:, np.newaxis] for a in demos.actions]
    assert Reference(demos, begin=3).measure(shaking).error < Reference(demos, begin=3).measure(smooth).error
    assert line_search(shaking, smooth, demos, loop_of(0.0)) > 0.3
    assert line_search(shaking, smooth, demos, loop_of(60.0)) == 0.0


def test_the_error_is_over_the_frames_that_the_policy_chose():
    demos = demos_of(10, 2)
    rolled = [a + 2.0 for a in demos.actions]
    assert Reference(demos, begin=3).measure(rolled).error == pytest.approx(4.0)
    assert math.isnan(Reference(demos, begin=10).measure(rolled).error)


# Cross-fitting


def test_the_default_cross_fits_a_forest_and_two_ridges(default):
    assert [type(r.trained.f).__name__ for r in default.rounds] == ["Forest", "PiecewiseLinear", "PiecewiseLinear"]
    assert [r.number for r in default.rounds] == [0, 1, 2]
    assert default.rounds[0].beta == 1.0
    assert all(0.0 <= r.beta <= 1.0 for r in default.rounds)
    assert isinstance(default.rounds[0].h, simile.models.regularizers.Autoregressor)
    assert default.rounds[0].h.order == 3
    assert default.rounds[0].trained.horizon == Horizon.auto(30.0)
    assert all(r.radius < 1.0 and not r.diverged for r in default.rounds)
    assert all(math.isnan(r.sigma) for r in default.rounds)


def test_a_step_that_is_refused_changes_nothing(default):
    for before, after in itertools.pairwise(default.rounds):
        same = (after.validation_error, after.validation_roughness) == (
            before.validation_error,
            before.validation_roughness,
        )
        assert same == (after.beta == 0.0)


def test_the_chosen_policy_is_the_last_mixture(default):
    # Each round weighed error and roughness already; lambda was chosen for the last one too.
    assert default.chosen.validation_error == default.rounds[-1].validation_error
    for a, b in zip(rollout(default.policy, PURSUIT), rollout(default.rounds[-1].policy, PURSUIT), strict=True):
        np.testing.assert_array_equal(a, b)


def test_each_round_says_what_its_policy_does(default):
    for turn in default.rounds:
        rolled = rollout(turn.policy, PURSUIT)
        for a, b in zip(rolled, turn.rolled, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)
        score = Reference(PURSUIT, turn.policy.units.scale, given_frames(turn.policy)).measure(rolled)
        assert (score.error, score.roughness) == pytest.approx((turn.error, turn.roughness))
        assert radius(turn.policy) == pytest.approx(turn.radius, abs=1e-4)  # of a triple pole
        assert [len(t) for t in turn.targets] == [150] * 4


def test_targets_are_compensated_for_the_lag(default):
    units, turn = default.policy.units, default.rounds[0]
    loop = ClosedLoop.of(turn.h, turn.trained.smoothness)
    for target, a in zip(turn.targets, PURSUIT.actions, strict=True):
        expected = units.restore(loop.targets(units.standardize(a), CompensatedFeedback().mu))
        np.testing.assert_allclose(target, expected, atol=1e-9)


def test_the_error_out_of_fold_is_that_of_training_without_the_fold():
    # By hand, for a model that draws nothing by chance.
    ridge = RolloutRidge(alphas=(1e-2,))
    run = simile.learn(PURSUIT, model=ridge, smoothness=40.0, hold=0)
    units = Units.of(PURSUIT)
    standard = PURSUIT.with_actions([units.standardize(a) for a in PURSUIT.actions])
    loop = ClosedLoop.of(CriticallyDamped(3).fit(standard.actions, 40.0), 40.0)
    states = states_of(standard, Horizon.auto(30.0))
    _, said = ridge.fit_rollout(states, standard.actions, loop, np.arange(4))
    rolled = [loop.roll(z, a) for z, a in zip(np.split(said, 4), standard.actions, strict=True)]
    assert run.chosen.validation_error == pytest.approx(Reference(standard, begin=3).measure(rolled).error)


def test_the_mixture_is_no_worse_than_the_first_model_alone(default):
    alone = simile.learn(PURSUIT, model=MODELS[0], smoothness=default.rounds[0].trained.smoothness)
    assert alone.chosen.validation_error == default.rounds[0].validation_error
    units = Units.of(PURSUIT)
    assert units.scale == default.policy.units.scale
    assert default.rounds[-1].validation_error < 1.05 * alone.chosen.validation_error


def test_the_default_beats_the_papers_mode_on_unseen_sequences(pursuit):
    train, test = pursuit
    ours = measures.outcome(simile.learn(train).policy, test)
    theirs = measures.outcome(simile.paper(train, n_rounds=5).policy, test)
    assert ours.error < 0.8 * theirs.error
    assert Reference(test).measure(ours.rolled).roughness < 1.3


def test_models_horizon_regularizer_and_mu_can_be_chosen(tree):
    run = simile.learn(
        PURSUIT,
        model=[tree, RolloutRidge()],
        horizon=Horizon((0, 2), 0),
        regularizer=PreviousAction(),
        feedback=CompensatedFeedback(0.5),
        smoothness=5.0,
        seed=3,
    )
    assert len(run.rounds) == 2
    said = run.rounds[0].policy.card.training["settings"]
    assert said["regularizer"] == "PreviousAction()"
    assert said["feedback"] == "CompensatedFeedback(mu=0.5)"
    assert said["smoothness"] == 5.0
    assert said["seed"] == 3
    assert simile.learn(PURSUIT, model=RolloutRidge(), smoothness=5.0).rounds[0].number == 0


def test_watch_sees_every_round_and_ctrl_c_keeps_them():
    seen = []

    def watch(turn):
        seen.append(turn)
        if len(seen) == 2:
            raise KeyboardInterrupt

    run = simile.learn(PURSUIT, smoothness=30.0, watch=watch)
    assert run.interrupted
    assert len(run.rounds) == 2
    assert run.alternative is None


def test_the_card_tells_data_settings_and_errors(default):
    card = default.policy.card
    assert card.context_names == PURSUIT.context_names
    assert card.action_names == ("pan",)
    assert card.rate == 30.0
    assert card.training["data"] == PURSUIT.digest()
    assert card.training["validation_error"] == default.chosen.validation_error
    assert card.training["settings"]["regularizer"] == "CriticallyDamped(order=3)"
    assert "RolloutRidge" in card.training["settings"]["models"]
    assert " at 0x" not in str(card)


def test_validation_of_your_own_judges_the_rounds():
    train, test = tasks.pursuit(n_sequences=8, length=100, n_players=3).split(0.5)
    run = simile.learn(train, validation=test, smoothness=50.0)
    for turn in run.rounds:
        assert turn.validation_error == pytest.approx(measures.outcome(turn.policy, test).error)
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


def test_the_loop_fits_one_screen():
    lines = inspect.getsource(crossfit).splitlines()
    assert len(lines) <= 40
    for number in (3, 4, 5, 8, 9, 10):
        assert re.search(rf"lines? ([0-9]+ to )?{number}\b", "\n".join(lines)), f"line {number} is not marked"


def test_the_mixture_of_unseen_roll_outs_is_that_of_the_mixed_policy(default):
    # All components have one h and lambda, so that the mixture collapses and nothing of the argument is lost.
    if isinstance(default.policy, Mixture):
        assert len({c.smoothness for c in default.policy.components}) == 1
        assert isinstance(simile.collapse(default.policy), SmoothPolicy)
        parts = [rollout(c, PURSUIT) for c in default.policy.components]
        for i, whole in enumerate(rollout(default.policy, PURSUIT)):
            mean = sum(w * p[i] for w, p in zip(default.policy.weights, parts, strict=True))
            np.testing.assert_allclose(whole, mean, atol=1e-8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simile.learn(PURSUIT, model=[]), "model must name at least one model; got none"),
        (
            lambda: simile.learn(PURSUIT, model=[SmoothForest(), "ridge"]),
            r"model must have a method fit\(\); got 'ridge'",
        ),
        (lambda: simile.learn(PURSUIT, model=[RolloutRidge]), "model must be an object, not a class"),
        (lambda: simile.learn(PURSUIT, regularizer=CriticallyDamped), "regularizer must be an object, not a class"),
        (lambda: simile.learn(PURSUIT, horizon="far"), r"horizon must have a method states\(\); got 'far'"),
        (lambda: simile.learn(PURSUIT, seed=-1), "seed must be >= 0; got -1"),
        (lambda: simile.learn(PURSUIT, smoothness="smooth"), "smoothness must be a number; got 'smooth'"),
        (
            lambda: Choices.of(PURSUIT, horizon=Horizon(2, 1)),
            "cross-fitting takes a horizon without past actions and CompensatedFeedback: use simile.rounds for others",
        ),
        (
            lambda: Choices.of(PURSUIT, feedback=ExpertFeedback()),
            "cross-fitting takes a horizon without past actions and CompensatedFeedback: use simile.rounds for others",
        ),
        (
            lambda: simile.learn(PURSUIT, regularizer=Bent(), smoothness=3.0),
            r"regularizer must be linear for cross-fitting; got Bent\(\): use simile.rounds for others",
        ),
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
    policy = simile.learn(demos, model=RolloutRidge(), smoothness=40.0, hold=0).policy.keeping(None)
    units = policy.units
    standard = demos.standardize(units)
    loop, plain = closed_loop(policy), [units.standardize(a) for a in rollout(policy, demos)]
    for offset in (Offset(0.7, 0.9), Offset(1.0, 1.0)):
        expected = [units.standardize(a) for a in rollout(policy.keeping(offset), demos)]
        for a, b in zip(remember_all(offset.of(1), plain, standard, loop), expected, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize(("kept", "fade", "ratio"), [(1.0, 0.96, 0.5), (0.6, 0.98, 0.6), (0.8, 1.0, 0.95)])
def test_what_an_expert_keeps_of_the_start_is_found(kept: float, fade: float, ratio: float):
    # Each sequence has an offset of its own that fades: what contexts cannot tell, and the start can.
    rng = RNG(3)
    contexts = [np.cumsum(rng.normal(size=(300, 1)), axis=0) / 10.0 for _ in range(12)]
    along = [fade ** np.arange(300.0)[:, np.newaxis] for _ in contexts]
    actions = [x + kept * 2.0 * rng.normal() * f for x, f in zip(contexts, along, strict=True)]
    demos = Demonstrations.from_arrays(contexts, actions)
    run = simile.learn(demos, model=RolloutRidge(), smoothness=5.0, hold=0)
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
    assert simile.learn(demos, model=RolloutRidge(), smoothness=5.0, hold=0).policy.offset is None
