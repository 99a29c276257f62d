"""Algorithm 1 on data in parts, in this process: the bits of one machine, whatever the parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simile
from conftest import demos_of
from same import check_same_rounds, differences
from simile import Demonstrations, Horizon, SimileError, SmoothForest, rounds
from simile.data import tasks
from simile.data.recorded import Units
from simile.learning import measures
from simile.learning.distributed import DistributedDemonstrations
from simile.learning.distributed.backend import LocalBackend
from simile.learning.training import everything, latest
from simile.models import Bagging, Criterion

FOREST = SmoothForest(n_trees=3, min_leaf=4, max_depth=5)
QUICK = {"model": FOREST, "horizon": Horizon(2, 2), "n_rounds": 2}


@pytest.fixture(autouse=True)
def one_digest(monkeypatch):
    """Leave the digest of the data out: `test_the_digest_of_parts_is_the_digest_of_all` has it."""
    for kind in (Demonstrations, DistributedDemonstrations):
        monkeypatch.setattr(kind, "digest", lambda _: "")


@pytest.mark.parametrize("memory", [latest, everything])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_rounds_on_parts_are_the_rounds_of_one_machine_to_the_bit(memory, parts):
    demos = demos_of(60, 3, 45, 80, 30, k=2, rate=30.0)
    runs = [list(rounds(demos, memory=memory, backend=b, **QUICK)) for b in (None, LocalBackend(parts=parts))]
    check_same_rounds(*runs)


@pytest.mark.parametrize(
    "choices",
    [
        {"regularizer": simile.CriticallyDamped(), "feedback": simile.SmoothFeedback(0.5)},
        {"regularizer": simile.LinearAutoregression(order=3), "feedback": simile.ExpertFeedback()},
        {"regularizer": simile.PreviousAction(), "rule": simile.ImitationRule(), "step_size": 0.5},
        {"step_size": simile.LineSearch((0.5, 1.0)), "smoothness": simile.SmoothTime(0.2)},
        {"step_size": simile.OneOverHorizon(), "space": simile.ActionSpace(low=-1e3, high=1e3)},
        {"model": SmoothForest(3, criterion=Criterion.PRINTED, bagging=Bagging.SEQUENCES), "horizon": Horizon(3, 0)},
    ],
    ids=repr,
)
def test_every_choice_that_can_be_spread_gives_the_same_bits(choices):
    demos = demos_of(60, 45, 80, 30, rate=30.0)
    runs = [list(rounds(demos, backend=b, **{**QUICK, **choices})) for b in (None, LocalBackend(parts=3))]
    check_same_rounds(*runs)


@pytest.mark.parametrize("algorithm", ["paper", "authors", "dagger", "coach", "clone"])
def test_the_algorithms_take_a_backend_and_hold_out_the_same_sequences(algorithm):
    demos = demos_of(60, 45, 80, 30, 50)
    settings_ = {**QUICK, "validation": 0.4}
    if algorithm == "clone":
        settings_.pop("n_rounds")
    local, spread = (getattr(simile, algorithm)(demos, **settings_, backend=b) for b in (None, LocalBackend(parts=3)))
    check_same_rounds(local.rounds, spread.rounds)
    assert str(local) == str(spread)
    assert not np.isnan(spread.chosen.validation_error)


def test_demonstrations_in_parts_bring_their_backend():
    demos = demos_of(60, 45, 80, 30, 50)
    run = simile.paper(demos, model=FOREST, backend=LocalBackend(parts=2))
    assert len(run.rounds) == 11
    spread = DistributedDemonstrations.of(demos, LocalBackend(parts=2))
    again = simile.paper(spread, model=FOREST)
    assert [r.error for r in run.rounds] == [r.error for r in again.rounds]


def test_a_budget_of_roughness_is_searched_for_on_parts_too():
    demos = tasks.pursuit(n_sequences=5, length=60)
    choices = {**QUICK, "n_rounds": 1, "smoothness": simile.MatchExpert(1.0), "validation": 0.4}
    check_same_rounds(*(simile.paper(demos, backend=b, **choices).rounds for b in (None, LocalBackend(parts=2))))


def test_trees_that_see_one_part_each_cost_a_little_and_make_better_forests_than_a_part_alone():
    choices = {
        "model": SmoothForest(n_trees=20),
        "horizon": Horizon((0, 1, 2, 4, 8, 12, 16, 24, 32), 0),
        "regularizer": simile.CriticallyDamped(),
        "n_rounds": 0,
    }
    ratios = []
    for seed in range(3):
        train, test = tasks.pursuit(n_sequences=40, length=300, seed=seed).split()
        backend = LocalBackend(parts=2, exact=False)
        whole, spread, *halves = (
            measures.outcome(simile.authors(demos, backend=b, **choices).policy, test).error
            for demos, b in ((train, None), (train, backend), *((h, None) for h in split_in(train, backend)))
        )
        assert spread < np.mean(halves)
        ratios.append(spread / whole)
    assert np.exp(np.mean(np.log(ratios))) < 1.3


def split_in(demos, backend):
    return DistributedDemonstrations.of(demos, backend).handles


def test_missing_contexts_and_a_policy_that_diverges_give_the_same_bits():
    demos = demos_of(60, 45, 80, 30)
    holes = [np.where(np.random.default_rng(i).random(x.shape) < 0.1, np.nan, x) for i, x in enumerate(demos.contexts)]
    missing = Demonstrations.from_arrays(holes, demos.actions)
    wild = {**QUICK, "smoothness": 1e9, "regularizer": simile.LinearAutoregression(order=2, ridge=0.0)}
    for choices in (QUICK, wild):
        check_same_rounds(*(list(rounds(missing, backend=b, **choices)) for b in (None, LocalBackend(parts=3))))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 8))
@settings(max_examples=25)
def test_parts_are_contiguous_none_is_empty_and_all_facts_are_kept(lengths, parts):
    demos = demos_of(*lengths, k=2)
    spread = DistributedDemonstrations.of(demos, LocalBackend(parts=parts))
    assert len(spread.handles) <= parts
    assert [d.name for part in spread.handles for d in part] == list(demos.names) == list(spread.names)
    assert spread.lengths.tolist() == lengths
    assert (spread.n_frames, spread.rate, spread.n_contexts, spread.n_actions) == (sum(lengths), None, 2, 2)
    assert differences(Units.of(spread), Units.of(demos)) == []


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(0, 100), st.sampled_from([1e-3, 1.0, 1e5]))
@settings(max_examples=25)
def test_units_of_sequences_are_those_of_all_frames(lengths, seed, scale):
    demos = demos_of(*lengths, k=2, seed=seed)
    demos = demos.with_actions([scale * (a + 3.0) for a in demos.actions])
    units, frames = Units.of(demos), np.concatenate(demos.actions)
    constant = np.ptp(frames, axis=0) == 0.0
    np.testing.assert_allclose(units.center, np.where(constant, frames[0], frames.mean(axis=0)), rtol=1e-12)
    np.testing.assert_allclose(units.scale, np.where(constant, 1.0, frames.std(axis=0)), rtol=1e-9)
    assert differences(Units.of(demos[::-1]), units) == []  # the order does not matter, to the bit


def test_a_constant_action_keeps_its_scale():
    demos = Demonstrations.from_arrays([np.zeros((3, 1)), np.ones((2, 1))], [np.full(3, 0.1), np.full(2, 0.1)])
    units = Units.of(demos)
    assert (units.center.tolist(), units.scale.tolist()) == ([0.1], [1.0])


def test_a_split_in_parts_is_that_of_the_whole():
    demos = demos_of(*range(5, 25))
    spread = DistributedDemonstrations.of(demos, LocalBackend(parts=4))
    for local, parted in zip(demos.split(0.3, seed=7), spread.split(0.3, seed=7), strict=True):
        assert parted.names == local.names
        assert differences(list(parted.gather()), list(local)) == []
    with pytest.raises(SimileError, match="split needs at least two sequences; got 1"):
        DistributedDemonstrations.of(demos[:1], LocalBackend()).split()


class Median:
    order = 3

    def fit(self, trajectories, smoothness):
        return self

    def __call__(self, history):
        return np.median(history, axis=1)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            {"model": simile.Ridge()},
            r"model: Ridge\(.*cannot be trained on data in parts: use SmoothForest",
        ),
        ({"step_size": simile.Monotonic()}, r"step_size: Monotonic\(\) needs more than errors of roll-outs"),
        ({"regularizer": Median()}, r"regularizer: .*Median.* must have methods sums\(\) and solve\(\)"),
        ({"feedback": simile.SmoothFeedback(simile.by_distance())}, "feedback: .*by_distance.* looks at trajectories"),
        ({"step_size": lambda e: len(e.states)}, "step_size: this rule looks at trajectories.*use ErrorRatio"),
        ({"step_size": lambda e: e.drift}, "step_size: this rule looks at trajectories"),
        ({"space": simile.ActionSpace(high=-1e9)}, "space: action 'a0' of 'sequence 0' is"),
        ({"feedback": lambda seen: [a * np.nan for a in seen.rolled]}, "feedback must return finite targets"),
        ({"horizon": Horizon(0, 200)}, "the policy remembers 200 actions and no sequence is longer"),
        ({"validation": demos_of(9, m=3)}, "validation must have the columns of the demonstrations"),
    ],
)
def test_choices_that_cannot_be_spread_are_refused(choices, message):
    demos = demos_of(60, 45, 80)
    with pytest.raises(SimileError, match=message):
        list(rounds(demos, backend=LocalBackend(parts=2), **{**QUICK, **choices}))


@pytest.mark.parametrize("algorithm", ["searn", "smile"])
def test_coins_are_tossed_by_the_number_of_a_sequence_wherever_it_lies(algorithm):
    demos, choices = demos_of(60, 45, 80, 30), {**QUICK, "n_rounds": 2, "validation": 0.3}
    local, spread = (getattr(simile, algorithm)(demos, **choices, backend=b) for b in (None, LocalBackend(parts=3)))
    check_same_rounds(local.rounds, spread.rounds)


def test_parts_with_other_columns_or_rates_are_refused():
    parts = [demos_of(9, rate=30.0), demos_of(9, rate=25.0)]
    with pytest.raises(SimileError, match=r"must share their rate; 'sequence 0' has 30\.0 and 'sequence 0' has 25\.0"):
        len(DistributedDemonstrations.take(parts, LocalBackend()))
