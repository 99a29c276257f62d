"""Networks as F: recipes, training on targets, and what it leaves as it was."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simile
from conftest import demos_of
from simile import Horizon, SimileError, SmoothForest
from simile.data.recorded import Units
from simile.learning.aims import Aim, label
from simile.learning.components import fit_components
from simile.learning.folds import Folds, states_of
from simile.models import SmoothRegressor
from simile.models.adapters import parts_of
from simile.models.neural import GRU, MLP, TCN, Network, StateShape, TorchRegressor
from simile.policies.policies import collapse
from simile.policies.storage.files import to_bytes

torch = pytest.importorskip("torch")

RNG = np.random.default_rng
HORIZON = Horizon((0, 1, 4), 0)
QUICK = TorchRegressor(MLP((8,)), epochs=3)
RECIPES = (MLP((5, 3)), TCN(4, 2), GRU(4))
TINY, SHAPE = MLP((4,)), StateShape(2, 1, (0, 1))

shapes = st.builds(
    lambda m, k, lags, past: StateShape(m, k, tuple(range(lags)), tuple(range(1, past + 1))),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 12),
    st.integers(0, 3),
)


def network(recipe=TINY, shape: StateShape = SHAPE, *, seed: int = 0) -> Network:
    """A network with random weights and units."""
    rng, width = RNG(seed), shape.n_contexts + shape.n_actions
    weights = tuple(0.1 * rng.normal(size=size).astype(np.float32) for size in recipe.sizes(shape))
    mean, center = rng.normal(size=width), rng.normal(size=shape.n_actions)
    units = (mean, rng.uniform(0.5, 2.0, width), center, rng.uniform(0.5, 2.0, shape.n_actions))
    return Network(recipe, shape, weights, *(u.astype(np.float32) for u in units))


def arrays(f: Network) -> list:
    return [*f.parameters, f.mean, f.scale, f.center, f.spread]


def same(one: Network, other: Network) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(arrays(one), arrays(other), strict=True))


# --------------------------------------------------------------------------------------------------- recipes


@given(shape=shapes, recipe=st.sampled_from(RECIPES))
def test_a_recipe_knows_the_sizes_of_its_weights_without_torch(shape, recipe):
    made = [tuple(w.shape) for w in recipe(shape).state_dict().values()]
    assert made == recipe.sizes(shape)


@given(shape=shapes, recipe=st.sampled_from(RECIPES), seed=st.integers(0, 9))
@settings(max_examples=20)
def test_a_network_predicts_what_its_module_does_row_by_row(shape, recipe, seed):
    f, S = network(recipe, shape, seed=seed), RNG(seed).normal(size=(7, shape.n_features))
    module = f.module()
    assert not module.training
    assert {w.dtype for w in module.state_dict().values()} == {torch.float32}
    with torch.no_grad():
        said = module(torch.tensor(S, dtype=torch.float32)).double().numpy()
    np.testing.assert_allclose(f.predict(S), said, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(f.predict(S), f.predict(S.copy()))
    alone = np.concatenate([f.predict(row[np.newaxis]) for row in S])
    np.testing.assert_allclose(f.predict(S), alone, rtol=1e-5, atol=1e-6)


def test_a_missing_value_counts_as_the_mean_and_a_wild_one_is_held_back():
    shape = StateShape(2, 1, (0, 3), (1,))
    for recipe in RECIPES:
        f = network(recipe, shape)
        mean, scale = (shape.spread(v.astype(float)) for v in (f.mean, f.scale))
        blank, middle = np.full((1, 5), np.nan), mean[np.newaxis]
        np.testing.assert_allclose(f.predict(blank), f.predict(middle), atol=1e-6)
        np.testing.assert_array_equal(f.predict(middle + 1e30 * scale), f.predict(middle + 20.0 * scale))
        assert np.isfinite(f.predict(np.full((1, 5), 1e300))).all()


@pytest.mark.parametrize("recipe", [TCN(6), GRU(6)])
def test_lags_are_read_from_the_oldest_to_the_newest(recipe):
    shape = StateShape(1, 1, (0, 1, 2, 3))
    sequence = recipe(shape).sequence(torch.tensor([[0.0, 1.0, 2.0, 3.0]]))
    assert sequence.flatten().tolist() == [3.0, 2.0, 1.0, 0.0]


def test_every_lag_and_every_past_action_matters():
    shape = StateShape(2, 2, tuple(range(11)), (1, 2))
    for recipe in (MLP(), TCN(), GRU()):
        S = torch.zeros(1, shape.n_features, requires_grad=True)
        module = recipe(shape)
        with torch.no_grad():
            module.line.weight.zero_()
        module(S).sum().backward()
        assert bool((S.grad != 0.0).all())


def test_a_network_of_states_refuses_others():
    with pytest.raises(SimileError, match="S must have the 4 features"):
        network().predict(np.zeros((1, 5)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MLP(()), "hidden must name 1 to 64 layers"),
        (lambda: MLP((0,)), "hidden must be >= 1"),
        (lambda: GRU(0), "hidden must be >= 1"),
        (lambda: TCN(kernel=1), "kernel must be >= 2"),
        (lambda: TorchRegressor(MLP), r"write MLP\(\.\.\.\)"),
        (lambda: TorchRegressor(3), "module must be MLP"),
        (lambda: TorchRegressor(precision="float16"), "precision must be one of"),
        (lambda: TorchRegressor(device="tpu"), "device must be 'cpu', 'cuda' or None"),
        (lambda: TorchRegressor(epochs=0), "epochs must be >= 1"),
        (lambda: TorchRegressor(rate=0.0), "rate must be > 0"),
    ],
)
def test_wrong_choices_are_told_by_name(make, message):
    with pytest.raises(SimileError, match=message):
        make()


def test_a_recipe_says_what_was_chosen_and_equal_ones_are_equal():
    assert repr(TorchRegressor(GRU(8), rate=1e-3)) == "TorchRegressor(module=GRU(hidden=8), rate=0.001)"
    one = TorchRegressor(MLP((4,)))
    assert TorchRegressor(MLP([4])) == one
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one)), replace(one)):
        assert other == one
    assert isinstance(one, SmoothRegressor)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("fit", [simile.clone, simile.learn])
def test_a_device_that_is_not_there_is_told(fit):
    with pytest.raises(SimileError, match="torch sees no such GPU"):
        fit(demos_of(40, 40), model=replace(QUICK, device="cuda"), smoothness=3.0, horizon=HORIZON)


# ------------------------------------------------------------------------------------------------- on targets


@pytest.mark.parametrize("recipe", [MLP((16,)), pytest.param(TCN(8), marks=pytest.mark.long), GRU(8)])
def test_training_brings_roll_outs_close_to_the_expert(recipe):
    demos = demos_of(150, 150, 150, 150, m=2)
    model = TorchRegressor(recipe, epochs=20, rate=1e-2, batch=256)
    run = simile.clone(demos, model=model, smoothness=5.0, horizon=HORIZON, validation=0.25)
    assert run.rounds[0].validation_error < 0.1  # of the variance


def clone(demos, model):
    """A network that is trained on the expert's actions."""
    return simile.clone(demos, model=model, smoothness=3.0, horizon=HORIZON).policy


def learn(demos, model):
    """A mixture of networks."""
    return simile.learn(demos, model=model, smoothness=3.0, horizon=HORIZON).policy


@pytest.mark.parametrize("fit", [clone, learn])
def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads_and_leaves_torch_as_it_was(fit):
    demos = demos_of(60, 50, 40)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    found = []
    for number in (1, 2):
        torch.set_num_threads(number)
        torch.manual_seed(number)
        drawn = torch.random.get_rng_state()
        found.append(fit(demos, QUICK))
        assert torch.equal(torch.random.get_rng_state(), drawn)
        assert torch.get_num_threads() == number
    torch.set_num_threads(threads)
    torch.random.set_rng_state(before)
    assert to_bytes(found[0]) == to_bytes(found[1])
    assert to_bytes(fit(demos, replace(QUICK, seed=1))) != to_bytes(found[0])


def test_training_stops_when_unseen_states_get_no_better():
    rng = RNG(0)  # nothing can be learned here
    demos = simile.Demonstrations.from_arrays([*rng.normal(size=(4, 80, 2))], [*rng.normal(size=(4, 80, 1))])
    model = TorchRegressor(MLP((64,)), epochs=1000, patience=2, rate=1e-2)
    run = simile.clone(demos, model=model, smoothness=1.0, horizon=HORIZON, validation=0.25)
    assert run.rounds[0].validation_error < 1.6  # a network that learned noise by heart does far worse


@pytest.mark.parametrize("fit", [simile.clone, simile.learn])
def test_one_short_sequence_can_be_learned_from(fit):
    run = fit(demos_of(15), model=QUICK, smoothness=2.0, horizon=HORIZON)
    assert np.isfinite(run.rounds[0].error)


def test_missing_contexts_are_learned_from():
    demos = demos_of(80, 80, 80)
    holed = [np.where(RNG(i).random(x.shape) < 0.2, np.nan, x) for i, x in enumerate(demos.contexts)]
    demos = simile.Demonstrations.from_arrays(holed, list(demos.actions))
    for fit in (clone, learn):
        assert all(np.isfinite(a).all() for a in simile.rollout(fit(demos, QUICK), demos))


@pytest.mark.parametrize("fit", [clone, learn])
def test_bfloat16_is_for_gpus(fit):
    model, demos = replace(QUICK, precision="bfloat16"), demos_of(60, 60)
    with pytest.raises(SimileError, match="precision must be 'float32' on the CPU"):
        fit(demos, model)
    if torch.cuda.is_available():
        policy = fit(demos, replace(model, device="cuda"))
        assert all(np.isfinite(a).all() for a in simile.rollout(policy, demos))


@pytest.mark.parametrize("fit", [clone, learn])
def test_a_training_that_runs_away_is_told(fit):
    with pytest.raises(SimileError, match="rate must be smaller"):
        fit(demos_of(60), replace(QUICK, rate=1e30))


def test_rounds_of_algorithm_1_train_networks_each_from_the_one_before():
    demos = demos_of(80, 80, 80, 80, 80)
    model = TorchRegressor(MLP((16,)), epochs=15, rate=1e-2, batch=128)
    rounds = list(simile.rounds(demos, model=model, n_rounds=2, horizon=Horizon(2, 2), smoothness=5.0))
    first, *later = (r.trained.f for r in rounds)
    assert rounds[0].error < 1.0
    for f in later:
        np.testing.assert_array_equal(f.mean, first.mean)  # the units of the first round are kept
    again = list(simile.rounds(demos, model=model, n_rounds=2, horizon=Horizon(2, 2), smoothness=5.0))
    assert all(same(a.trained.f, b.trained.f) for a, b in zip(rounds, again, strict=True))
    cold = list(simile.rounds(demos, model=model, n_rounds=0, horizon=Horizon(2, 2), smoothness=5.0))
    assert same(cold[0].trained.f, first)


def test_a_network_from_the_round_before_is_kept_where_training_brings_nothing():
    demos = demos_of(60, 60, 60)
    states, labels = states_of(demos, HORIZON), np.concatenate(demos.actions)
    model = TorchRegressor(MLP((8,)), epochs=10)
    first = model.fit_smooth([states], labels, labels, labels, 0.0, RNG(0))
    useless = replace(model, rate=1e-12, weight_decay=0.0)
    useless.remember(states, first)
    again = useless.fit_smooth([states], labels, labels, labels, 0.0, RNG(1))
    np.testing.assert_allclose(again.predict(states.matrix()), first.predict(states.matrix()), atol=1e-6)


def test_dagger_trains_networks_on_the_data_of_all_rounds():
    model = TorchRegressor(MLP((8,)), epochs=3)
    run = simile.dagger(demos_of(40, 40, 40), model=model, n_rounds=2, horizon=Horizon(1, 1))
    assert len(run.rounds) == 3


# -------------------------------------------------------------------------------------------------- in a mixture


def networks_of(policy) -> list[Network]:
    return [f for f, _ in parts_of(collapse(policy).f) if isinstance(f, Network)]


def test_learn_fits_networks_on_targets_for_three_delays_each(monkeypatch):
    seen, told = [], []
    fit_smooth = TorchRegressor.fit_smooth

    def counted(self, states, labels, *rest, **more):
        seen.append(labels)
        return fit_smooth(self, states, labels, *rest, **more)

    monkeypatch.setattr(TorchRegressor, "fit_smooth", counted)
    demos = demos_of(60, 50, 40)
    simile.learn(demos, model=QUICK, smoothness=3.0, horizon=HORIZON, watch=told.append)
    standard = demos.standardize(Units.of(demos))
    assert len(seen) == 12
    for i, ahead in enumerate((0, 8, 24)):  # on all recordings, then without each
        whole, *folds = seen[4 * i : 4 * i + 4]
        np.testing.assert_array_equal(whole, label(standard.actions, [Aim(ahead)]))
        assert sorted(map(len, folds)) == [90, 100, 110]
    assert [(x.what, x.done, x.steps) for x in told[:-1]] == [("TorchRegressor", i + 1, 12) for i in range(12)]


def test_what_a_mixture_is_told_of_a_fold_comes_from_networks_that_have_not_seen_it():
    demos = demos_of(60, 50, 40)
    folds = Folds.of(demos)
    own = np.repeat(folds.fold == folds.fold[0], demos.lengths)
    turned = demos.with_actions(
        [a if fold != folds.fold[0] else -a for a, fold in zip(demos.actions, folds.fold, strict=True)]
    )
    (_, *found), (_, *other) = (
        fit_components(some, Folds.of(some), [QUICK], HORIZON, RNG(0)) for some in (demos, turned)
    )
    assert [one.aims for one in found] == [(Aim(0),), (Aim(8),), (Aim(24),)]
    for one, two in zip(found, other, strict=True):
        np.testing.assert_array_equal(two.unseen[own], one.unseen[own])
        assert (two.unseen[~own] != one.unseen[~own]).all()
    assert not same(found[0].model, found[1].model)


def test_a_mixture_of_networks_comes_close_to_the_expert():
    demos = demos_of(150, 150, 150, 150)
    model = TorchRegressor(MLP((16,)), epochs=60, rate=1e-2, batch=64)
    free = simile.ActionSpace()  # walks leave what the others have reached
    run = simile.learn(demos, model=model, smoothness=5.0, horizon=HORIZON, space=free)
    assert run.rounds[0].validation_error < 0.1  # of the variance
    assert {row["component"] for row in run.mixed} <= {"TorchRegressor", "mean"}
    assert networks_of(run.policy)


def test_networks_and_forests_are_mixed():
    demos = demos_of(120, 120, 120, 120)
    models = [SmoothForest(n_trees=4), TorchRegressor(MLP((16,)), epochs=30, rate=1e-2, batch=512)]
    run = simile.learn(demos, model=models, smoothness=5.0, horizon=HORIZON)
    assert len(run.rounds) == 1
    mixed = [row for row in run.mixed if row["component"] == "TorchRegressor"]
    assert mixed
    assert len(networks_of(run.policy)) == len(mixed)
    assert sum(row["weights"][0] for row in run.mixed) == pytest.approx(1.0)


# ------------------------------------------------------------------------------------------- modules of one's own


class Wide(torch.nn.Module):
    """Somebody's module, with a running mean in it."""

    def __init__(self, features: int, k: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.BatchNorm1d(features), torch.nn.Linear(features, 8), torch.nn.Dropout(0.1), torch.nn.ReLU()
        )
        self.out = torch.nn.Linear(8, k)

    def forward(self, states):
        return self.out(self.layers(states))


def test_a_module_of_one_s_own_is_trained_from_its_weights_and_stays_as_it_was():
    demos = demos_of(60, 60, 60)
    own = Wide(6, 1)
    before = copy.deepcopy(own.state_dict())
    for module in (own, lambda shape: Wide(shape.n_features, shape.n_actions)):
        model = TorchRegressor(module, epochs=2)
        found = [simile.clone(demos, model=model, smoothness=3.0, horizon=HORIZON).policy for _ in range(2)]
        assert same(found[0].f, found[1].f)
        assert np.isfinite(np.concatenate(simile.rollout(found[0], demos))).all()
    assert all(torch.equal(before[name], value) for name, value in own.state_dict().items())
    assert "Own(Wide)" in repr(TorchRegressor(own))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda shape: torch.nn.Linear(3, 1), "module must take states of 6 features"),
        (lambda shape: torch.nn.Linear(6, 2), r"module must return \(n, 1\)"),
        (lambda shape: 3, "module must make a torch.nn.Module"),
        (lambda shape: torch.nn.Flatten(), r"module must return \(n, 1\)"),
    ],
)
def test_modules_that_do_not_fit_are_told(module, message):
    for fit in (clone, learn):
        with pytest.raises(SimileError, match=message):
            fit(demos_of(40, 40), TorchRegressor(module))


# ------------------------------------------------------------------------------------------------- without torch


def test_simile_neural_is_imported_without_torch_and_says_how_to_get_it():
    code = (
        "import sys\n"
        "import simile.neural, simile.policies.rollouts, simile.policies.storage.loading\n"
        "assert 'torch' not in sys.modules\n"
        "sys.modules['torch'] = None\n"
        "from simile.neural import MLP, StateShape\n"
        "assert MLP().sizes(StateShape(2, 1, (0, 1)))\n"
        "try:\n"
        "    MLP()(StateShape(2, 1, (0, 1)))\n"
        "except simile.SimileError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'smooth-imitation[torch]'" in done.stdout
