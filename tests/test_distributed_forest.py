"""Forests grown from parts of the data: the bits of the forest grown in one place, and what travels for them."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import demos_of
from simile import Bagging, Criterion, Demonstrations, Horizon, SimileError, SmoothForest
from simile.data.states import Tape
from simile.learning.distributed.backend import LocalBackend
from simile.learning.distributed.forest import Part, _Laid, choose_context_edges, grow_apart, grow_distributed
from simile.learning.distributed.growing import Histograms
from simile.learning.distributed.levels import Group
from simile.models import trees
from simile.models.columns import BinnedColumns, layout
from simile.models.kernels import binning
from simile.models.trees import Growth
from test_forest import ARRAYS, RNG, SMALL, assert_same_forest, pytestmark, with_holes

__all__ = ["pytestmark"]  # the same warning is expected here

HORIZON = Horizon((0, 2), (1, 3))


@dataclass(frozen=True)
class Data:
    """States and what goes with them, in one place and in parts."""

    demos: Demonstrations
    horizon: Horizon = HORIZON
    seed: int = 0
    smoothness: float = 0.5

    @property
    def arrays(self):
        """Labels, targets and anchors (n, k), all different."""
        shape = (3, self.demos.n_frames, self.demos.n_actions)
        return RNG(self.seed).normal(size=shape) + np.concatenate(self.demos.actions)

    @property
    def starts(self):
        return np.cumsum([0, *(len(demo) for demo in self.demos)])

    def parts(self, cuts):
        """The parts that begin at some of the sequences; each has tapes and arrays of its own."""
        bounds = [0, *cuts, len(self.demos)]
        parts = []
        for first, last in itertools.pairwise(bounds):
            some = self.demos[first:last]
            rows = slice(self.starts[first], self.starts[last])
            states = self.horizon.states(some, some.actions)
            parts.append(Part(states, *(array[rows].copy() for array in self.arrays)))
        return parts

    def here(self, model, **how):
        states = self.horizon.states(self.demos, self.demos.actions)
        return model.fit_smooth([states], *self.arrays, self.smoothness, RNG(self.seed), **how)

    def spread(self, model, cuts, *, exact=True, backend=None, **how):
        backend = backend or LocalBackend()
        how = {"exact": exact, **how}
        return grow_distributed(backend, model, self.parts(cuts), self.starts, self.smoothness, RNG(self.seed), **how)


def assert_equal_bits(first, second):
    assert_same_forest(first, second, (*ARRAYS, "columns", "lags"))
    for name in ARRAYS:
        assert getattr(first, name).dtype == getattr(second, name).dtype, name
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes(), name
    assert (first.width, first.bag.bagging, first.bag.seeds) == (second.width, second.bag.bagging, second.bag.seeds)
    np.testing.assert_array_equal(first.bag.starts, second.bag.starts)


def uneven(k=1, seed=0):
    """Seven sequences, one of a single frame, with missing contexts, a constant one and one with few values."""
    demos = with_holes(demos_of(40, 25, 1, 33, 18, 50, 12, m=4, k=k, seed=seed), seed=seed)
    contexts = [x.copy() for x in demos.contexts]
    for x in contexts:
        x[:, 1] = 7.0
        x[:, 2] = np.round(x[:, 2])
    return Demonstrations.from_arrays(contexts, demos.actions)


# Bit for bit


@pytest.mark.parametrize("criterion", Criterion)
@pytest.mark.parametrize("bagging", Bagging)
@pytest.mark.parametrize(("k", "max_leaves"), [(1, None), (2, None), (1, 12)])
def test_any_cut_of_the_data_gives_the_forest_of_one_place(criterion, bagging, k: int, max_leaves: int | None):
    data = Data(uneven(k))
    model = SmoothForest(4, 6, 3, "sqrt", criterion, bagging, max_leaves=max_leaves)
    alone = data.here(model)
    assert len(alone.feature) > 40
    for cuts in ([], [3], [2, 3], [1, 2, 3, 4, 5, 6]):  # the third sequence alone is a part of one frame
        assert_equal_bits(data.spread(model, cuts), alone)


@st.composite
def cases(draw):
    """Random data, recipes and cuts."""
    lengths = draw(st.lists(st.integers(1, 30), min_size=1, max_size=6))
    seed = draw(st.integers(0, 2**32))
    demos = demos_of(*lengths, m=draw(st.integers(1, 3)), k=draw(st.integers(1, 2)), seed=seed)
    if draw(st.booleans()):
        demos = with_holes(demos, draw(st.sampled_from([0.1, 0.9])), seed)
    if draw(st.booleans()):  # ties, and nodes in which many features are constant
        demos = Demonstrations.from_arrays([np.round(x / 4.0) for x in demos.contexts], demos.actions)
    horizon = Horizon(draw(st.sampled_from([0, 2, (1, 5)])), draw(st.sampled_from([0, 1, (2, 3)])))
    model = SmoothForest(
        draw(st.integers(1, 4)),
        draw(st.sampled_from([None, 0, 1, 5])),
        draw(st.sampled_from([1, 2, 9])),
        draw(st.sampled_from(["sqrt", None, 1, 0.5])),
        draw(st.sampled_from(Criterion)),
        draw(st.sampled_from(Bagging)),
        max_leaves=draw(st.sampled_from([None, 2, 7, 1000])),
        max_frames=draw(st.sampled_from([None, 1, 25, 60])),
    )
    cuts = sorted(draw(st.sets(st.integers(1, len(lengths) - 1)))) if len(lengths) > 1 else []
    return Data(demos, horizon, seed, draw(st.sampled_from([0.0, 0.5, 10.0]))), model, cuts


@settings(max_examples=60)
@given(cases(), st.sampled_from([1, 2_000, 20_000, 2**28]), st.booleans(), st.integers(1, 3))
def test_random_data_recipes_cuts_and_rooms_give_the_forest_of_one_place(case, room, together, workers):
    data, model, cuts = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "STRETCH", 12)
        if not together:  # histograms alone, or rows that travel from some depth on
            patch.setattr(_Laid, "_bytes_together", lambda *_: np.inf)
        backend = LocalBackend(workers=workers)
        assert_equal_bits(data.spread(model, cuts, backend=backend, room=room), data.here(model))


def test_long_columns_are_sampled_where_they_lie_to_the_same_edges(monkeypatch):
    monkeypatch.setattr(binning, "MOST_SAMPLED", 300)
    data = Data(demos_of(400, 10, 350))
    assert len(binning.sampled_rows(760)) == 300
    for cuts in ([1], [1, 2]):
        assert_equal_bits(data.spread(SMALL, cuts), data.here(SMALL))


def test_contexts_beyond_single_precision_are_spread_like_others():
    demos = demos_of(30, 20)
    contexts = [x.copy() for x in demos.contexts]
    contexts[1][3] = 1e99, -1e99
    data = Data(Demonstrations.from_arrays(contexts, demos.actions))
    with np.errstate(over="ignore"):  # without numba, in bin_column
        assert_equal_bits(data.spread(SMALL, [1]), data.here(SMALL))


def test_several_sets_of_states_are_spread_set_after_set_with_the_edges_of_the_first():
    demos = uneven()
    first, second = Data(demos), Data(demos.with_actions([2.0 * a - 1.0 for a in demos.actions]), seed=1)
    sets = [data.horizon.states(data.demos, data.demos.actions) for data in (first, second)]
    arrays = np.concatenate([first.arrays, second.arrays], axis=1)
    alone = SMALL.fit_smooth(sets, *arrays, 0.5, RNG(0))
    parts = [*first.parts([2, 5]), *second.parts([2, 5])]
    starts = np.append(first.starts, first.starts[-1] + second.starts[1:])
    edges = choose_context_edges(LocalBackend(), parts[:3])
    both = grow_distributed(LocalBackend(), SMALL, parts, starts, 0.5, RNG(0), exact=True, context_edges=edges)
    assert_equal_bits(both, alone)


def test_states_that_are_some_of_the_rows_of_a_tape_are_spread_too():
    data = Data(demos_of(30, 20, 25))
    keep = [np.arange(n) % 3 > 0 for n in (30, 20, 25)]
    labels = data.arrays[0]
    kept = np.concatenate(keep)
    states = data.horizon.states(data.demos, data.demos.actions).where(kept)
    alone = SMALL.fit_smooth([states], *(labels[kept],) * 3, 0.5, RNG(0))
    parts = []
    for rows, part in zip((keep[:1], keep[1:]), data.parts([1]), strict=True):
        mask = np.concatenate(rows)
        parts.append(Part(part.states.where(mask), *(part.labels[mask],) * 3))
    starts = np.cumsum([0, *(rows.sum() for rows in keep)])
    assert_equal_bits(grow_distributed(LocalBackend(), SMALL, parts, starts, 0.5, RNG(0), exact=True), alone)


@pytest.mark.parametrize("criterion", Criterion)
def test_the_order_of_the_rows_changes_no_bit_of_a_tree(criterion):
    demos = with_holes(demos_of(1, *[1] * 119, m=3))
    order = RNG(5).permutation(120)
    model = SmoothForest(3, 6, 2, 0.5, criterion, Bagging.NONE)
    arrays = RNG(1).normal(size=(3, 120, 1))
    permuted = Demonstrations.from_arrays([demos.contexts[i] for i in order], [demos.actions[i] for i in order])
    one, other = (
        model.fit_smooth([Horizon(0, 0).states(some, some.actions)], *some_arrays, 0.5, RNG(0))
        for some, some_arrays in ((demos, arrays), (permuted, arrays[:, order]))
    )
    assert_same_forest(one, other)


def test_weights_of_one_change_no_bit():
    data = Data(uneven())
    assert_equal_bits(data.here(SMALL, weights=np.ones(data.demos.n_frames)), data.here(SMALL))


@pytest.mark.parametrize("room", [2_000, 2**28])
@pytest.mark.parametrize("criterion", Criterion)
def test_rows_that_count_more_or_less_count_so_in_parts(criterion, room: int):
    data, cuts = Data(uneven(2)), [2, 5]
    model, rng = replace(SMALL, criterion=criterion), RNG(7)
    weights = rng.integers(0, 4, size=(data.demos.n_frames, 2)) * rng.random((data.demos.n_frames, 2))
    shares = np.split(weights, data.starts[cuts])
    parts = [replace(part, weights=share) for part, share in zip(data.parts(cuts), shares, strict=True)]
    backend = LocalBackend(room=room)
    together = grow_distributed(backend, model, parts, data.starts, data.smoothness, RNG(data.seed))
    assert_equal_bits(together, data.here(model, weights=weights))
    assert not np.array_equal(together.value[0], data.here(model).value[0])


@pytest.mark.parametrize("room", [2_000, 2**28])
@pytest.mark.parametrize("weighed", [False, True])
def test_each_action_has_trees_of_its_own_in_parts_too(room: int, weighed: bool):
    data, cuts = Data(uneven(2)), [2, 5]
    states = data.horizon.states(data.demos, data.demos.actions)
    labels = np.concatenate([data.arrays[0], data.arrays[1]], axis=1)  # two lambdas, action by action
    weights = RNG(7).random((len(labels), 2)) if weighed else None
    shares, counts = np.split(labels, data.starts[cuts]), [None] * 3
    if weighed:
        counts = np.split(weights, data.starts[cuts])
    parts = [replace(p, labels=y, weights=w) for p, y, w in zip(data.parts(cuts), shares, counts, strict=True)]
    apart = grow_apart(LocalBackend(room=room), SMALL, parts, data.starts, 2, RNG(3))
    here = SMALL.fit_apart(states, labels, 2, RNG(3), weights=weights)
    assert len(apart.forests) == 2
    for ours, theirs in zip(apart.forests, here.forests, strict=True):
        assert_equal_bits(ours, theirs)


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
def test_any_number_of_workers_gives_the_forest_of_one(workers: int):
    data, model = Data(uneven()), replace(SMALL, n_trees=5)
    backend = Distant(workers=workers, threads=2)
    far = grow_distributed(backend, model, backend.place(data.parts([1, 4])), data.starts, 0.5, RNG(0))
    assert_equal_bits(far, data.here(model))


# What travels


@dataclass(frozen=True)
class Distant(LocalBackend):
    """A backend that pickles all that it is given, as a cluster would, and adds up in another order."""

    trips: list = field(default_factory=list)

    def place(self, parts):
        return [pickle.dumps(part) for part in parts]

    def map(self, function, *handles, shared=()):
        def call(*some):
            return pickle.loads(function)(*map(pickle.loads, some), *pickle.loads(sent))

        function, sent = pickle.dumps(function), pickle.dumps(shared)
        return [pickle.dumps(call(*some)) for some in zip(*handles, strict=True)]

    def total(self, add, handles):
        self.trips.append(len(handles))
        values = [pickle.loads(handle) for handle in handles]
        while len(values) > 1:
            values = [*values[2:], add(values[1], values[0])]
        return values[0]

    def collect(self, handles):
        self.trips.append(len(handles))
        return [pickle.loads(handle) for handle in handles]


@pytest.mark.parametrize("exact", [False, True])
def test_parts_may_be_far_away_and_be_added_up_in_any_order(exact: bool):
    data, backend = Data(uneven()), Distant()
    parts = backend.place(data.parts([1, 4, 5]))
    far = grow_distributed(backend, SMALL, parts, data.starts, 0.5, RNG(0), exact=exact)
    assert_equal_bits(far, data.spread(SMALL, [1, 4, 5], exact=exact))
    if exact:
        assert_equal_bits(far, data.here(SMALL))


@pytest.fixture
def too_much(monkeypatch):
    """The rows of all parts do not fit into one place."""
    monkeypatch.setattr(_Laid, "_bytes_together", lambda *_: np.inf)


def test_growing_takes_one_trip_a_level_however_many_trees_and_nodes(too_much, monkeypatch):
    monkeypatch.setattr(Group, "_may_travel", lambda _, total, __: np.zeros(len(total), bool))
    data, backend = Data(demos_of(200, 300)), Distant()
    model = SmoothForest(6, 4, 3, 2)
    parts = backend.place(data.parts([1]))
    forest = grow_distributed(backend, model, parts, data.starts, 0.5, RNG(0), exact=True)
    assert forest.depths.max() == 4
    assert len(backend.trips) == 3 + 2 + 4  # sizes and edges, two for the roots, and the levels


def test_where_rows_are_less_than_their_histograms_they_travel(too_much):
    data, backend = Data(demos_of(200, 300)), Distant(workers=2)
    model = SmoothForest(6, 4, 3, 2)
    parts = backend.place(data.parts([1]))
    forest = grow_distributed(backend, model, parts, data.starts, 0.5, RNG(0), room=150_000)
    assert_equal_bits(forest, data.here(model))
    assert 3 + 2 < len(backend.trips) < 20
    few = Group(
        backend, parts, Growth.of(model, 1, *layout(HORIZON, 2, 1), 0.5), data.starts, data.starts[[0, 1, 2]], 2**21
    )
    total = np.array([[100.0, 0.0], [1e4, 0.0], [1e6, 0.0]])
    assert few._may_travel(total, 0).tolist() == [True, True, False]  # the last has no room
    assert few._may_travel(total, 4).tolist() == [False] * 3  # nothing grows below the deepest
    assert replace(few, room=2**40)._may_travel(total, 0).tolist() == [True, True, False]  # dense histograms are less


def test_constant_features_cost_a_few_more_trips(too_much):
    contexts = np.zeros((60, 100))
    contexts[:, 17] = np.arange(60) % 2
    data = Data(Demonstrations.from_arrays([contexts[:30], contexts[30:]], [np.ones(30), np.zeros(30)]), Horizon(0, 0))
    backend = Distant()
    parts = backend.place(data.parts([1]))
    model = SmoothForest(1, 1, 1, 1)
    forest = grow_distributed(backend, model, parts, data.starts, 0.5, RNG(0), exact=True)
    assert forest.feature[0] == 17
    assert len(backend.trips) <= 3 + 2 + 8  # 1, 2, 4, ..., 128 of 100 features
    assert_equal_bits(forest, data.here(model))


def test_histograms_add_up_whatever_bins_they_have():
    one = Histograms(np.array([0, 2, 2]), np.array([3, 255], np.uint8), np.array([[1.0, 2.0], [3.0, 4.0]]))
    two = Histograms(np.array([0, 2, 3]), np.array([0, 3, 9], np.uint8), np.array([[1.0, 1.0], [5.0, 5.0], [7.0, 7.0]]))
    both = one + two
    assert both.where.tolist() == [0, 3, 4]
    assert both.bins.tolist() == [0, 3, 255, 9]
    assert both.sums.tolist() == [[1.0, 1.0], [6.0, 7.0], [3.0, 4.0], [7.0, 7.0]]


# Whole trees on one part each


def test_one_part_grows_the_trees_of_one_place():
    data = Data(uneven())
    assert_same_forest(data.spread(SMALL, [], exact=False), data.here(SMALL))


def test_each_tree_is_the_tree_of_its_seed_on_one_part_with_the_edges_of_all():
    data, cuts = Data(demos_of(60, 40, 100)), [1, 2]
    model = replace(SMALL, n_trees=10, max_features=None)
    forest = data.spread(model, cuts, exact=False)
    assert forest.bag.bagging is Bagging.NONE  # what a tree saw is not known here
    labels = [part.labels.mean() for part in data.parts(cuts)]
    roots = dict(zip(forest.number.tolist(), forest.value[forest.roots, 0], strict=True))
    nearest = [int(np.argmin([abs(roots[i] - mean) for mean in labels])) for i in range(10)]
    assert nearest == sorted(nearest)  # trees stand in the order of the parts
    assert [nearest.count(part) for part in range(3)] in ([3, 2, 5], [2, 2, 6], [3, 2, 5], [3, 3, 4])
    edges = np.concatenate(choose_context_edges(LocalBackend(), data.parts(cuts)))
    used = forest.threshold[(forest.feature >= 0) & (forest.columns[forest.feature] < 2)]
    assert np.isin(used, edges).all()


def test_parts_have_trees_by_their_rows_and_fewer_trees_than_parts_fall_on_all_of_them_in_time():
    data = Data(demos_of(20, 20, 20, 20))
    parts = data.parts([1, 2, 3])
    means = [part.labels.mean() for part in parts]
    model = replace(SMALL, n_trees=1, max_depth=0, bagging=Bagging.NONE)
    met = set()
    for seed in range(30):
        forest = grow_distributed(LocalBackend(), model, parts, data.starts, 0.5, RNG(seed), exact=False)
        met.add(int(np.argmin(np.abs(np.array(means) - forest.value[0, 0]))))
    assert met == {0, 1, 2, 3}


def test_a_forest_of_whole_trees_predicts_about_as_well():
    rng = RNG(0)
    contexts = [rng.normal(size=(400, 3)) for _ in range(4)]
    data = Data(Demonstrations.from_arrays(contexts, [np.sin(x[:, 0]) + x[:, 1] for x in contexts]), Horizon(0, 0))
    S, y = np.concatenate(contexts), np.concatenate(data.demos.actions)
    parts = [replace(p, labels=p.states.tape.actions) for p in data.parts([1, 2, 3])]
    model = SmoothForest(20, 8, 4, None)
    errors = [
        np.mean((grow_distributed(LocalBackend(), model, parts, data.starts, 0.0, RNG(0), exact=e).predict(S) - y) ** 2)
        for e in (True, False)
    ]
    assert errors[0] < errors[1] < 0.05 * y.var()  # fewer rows to each tree


# What a run spends, and bad calls


def test_the_bins_of_contexts_are_kept_on_the_tape_from_round_to_round(monkeypatch):
    data, binned, bin_column = Data(demos_of(40, 30)), [], binning.bin_column
    monkeypatch.setattr(binning, "bin_column", lambda *args: binned.append(len(args[0])) or bin_column(*args))
    parts = data.parts([1])
    edges = choose_context_edges(LocalBackend(), parts)
    for _ in range(3):
        how = {"exact": True, "context_edges": edges}
        grow_distributed(LocalBackend(), SMALL, parts, data.starts, 0.5, RNG(0), **how)
    assert sorted(binned) == [30] * (2 + 3) + [40] * (2 + 3)  # two contexts once, one action three times


def test_bins_by_the_edges_of_others_leave_those_of_a_tape_alone():
    data = Data(demos_of(40, 30))
    parts = data.parts([1])
    fresh = SMALL.fit_smooth([parts[0].states], *(parts[0].labels,) * 3, 0.5, RNG(0))
    again = data.parts([1])
    grow_distributed(LocalBackend(), SMALL, again, data.starts, 0.5, RNG(0), exact=True)
    assert_equal_bits(SMALL.fit_smooth([again[0].states], *(again[0].labels,) * 3, 0.5, RNG(0)), fresh)


def test_forests_that_grow_at_the_same_time_on_one_tape_do_not_disturb_each_other():
    demos = demos_of(40, 30)
    tape = Tape.of(demos.contexts, demos.actions)
    first = BinnedColumns.of([tape.states(HORIZON)])
    kept = first.bins.copy()
    other = tape.along([-a for a in demos.actions])
    second = BinnedColumns.of([other.states(HORIZON)])  # the first has the bins of the tape
    np.testing.assert_array_equal(first.bins, kept)
    assert not np.array_equal(second.bins, kept)
    del first, second
    third = BinnedColumns.of([tape.states(HORIZON)])  # who gets bins that were given back
    np.testing.assert_array_equal(third.bins, kept)


def test_bad_calls_are_refused():
    data = Data(demos_of(20, 10))
    parts = data.parts([1])
    with pytest.raises(SimileError, match="starts must end with the number of rows of all parts, 30; got 20"):
        grow_distributed(LocalBackend(), SMALL, parts, data.starts[:-1], 0.5, RNG(0), exact=True)
    other = replace(parts[1], states=parts[1].states.view_through(Horizon(1, 1)))
    with pytest.raises(SimileError, match="parts must have the same contexts, actions and horizon"):
        grow_distributed(LocalBackend(), SMALL, [parts[0], other], data.starts, 0.5, RNG(0), exact=True)
