"""Demonstrations from every kind of input, their parts, units and bounds."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import simile
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.reading import read, write
from simile.data.recorded import ActionSpace, Units
from simile.errors import ArgumentError, DataError
from simile.learning.distributed import DistributedDemonstrations
from simile.learning.distributed.backend import LocalBackend
from simile.learning.rounds import card_of

NAN, INF = float("nan"), float("inf")
CAR_FOLLOWING = Path(__file__).parents[2] / "shared" / "data" / "car_following"
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}

every_frame = pytest.mark.parametrize("build", FRAMES.values(), ids=FRAMES)


def sequences(*lengths, rate=None):
    """Sequences named '0', '1', ..., whose values tell where they come from."""
    return Demonstrations.from_arrays(
        [[[100.0 * i + t, 0.5] for t in range(n)] for i, n in enumerate(lengths)],
        [[10.0 * i + t for t in range(n)] for i, n in enumerate(lengths)],
        rate=rate,
        names=[str(i) for i in range(len(lengths))],
    )


def acting(actions):
    """One demonstration with these actions and contexts of no interest."""
    return Demonstrations.of(Demonstration(np.zeros(len(actions)), actions))


# One demonstration


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, pl.Series, pa.array], ids=lambda k: k.__name__)
def test_flat_values_become_one_column(kind):
    one = Demonstration(contexts=kind([0.0, 1.0, 2.0]), actions=kind([3.0, 4.0, 5.0]))
    assert one.contexts.tolist() == [[0.0], [1.0], [2.0]]
    assert one.actions.tolist() == [[3.0], [4.0], [5.0]]
    assert len(one) == 3


@pytest.mark.parametrize("kind", [list, np.array, pd.DataFrame], ids=lambda k: k.__name__)
def test_tables_keep_their_shape(kind):
    one = Demonstration(contexts=kind([[0, 1, 2], [3, 4, 5]]), actions=kind([[6, 7], [8, 9]]))
    assert one.contexts.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert one.actions.tolist() == [[6.0, 7.0], [8.0, 9.0]]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "int64", "float16", "float32", "float64", "object"])
def test_every_kind_of_number_becomes_float64_rows_in_memory(dtype):
    values = np.asfortranarray(np.array([[0, 1], [1, 0], [1, 1]], dtype=dtype))
    one = Demonstration(contexts=values, actions=values)
    for array in (one.contexts, one.actions):
        assert array.dtype == np.float64
        assert array.flags.c_contiguous
        np.testing.assert_array_equal(array, [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


def test_nan_in_contexts_is_kept_as_missing():
    one = Demonstration(contexts=[[NAN, 1.0], [None, NAN]], actions=[0, 1])
    np.testing.assert_array_equal(one.contexts, [[NAN, 1.0], [NAN, NAN]])


def test_masked_contexts_are_missing():
    one = Demonstration(contexts=np.ma.array([1, 2], mask=[False, True]), actions=[0, 1])
    np.testing.assert_array_equal(one.contexts, [[1.0], [NAN]])


def test_default_names_rate_and_column_names():
    one = Demonstration(contexts=[[0.0, 1.0]], actions=[[0.0, 1.0]])
    assert (one.name, one.rate) == ("demonstration", None)
    assert one.context_names == ("x0", "x1")
    assert one.action_names == ("a0", "a1")


def test_given_names_and_rate_are_kept():
    one = Demonstration([[0.0, 1.0]], [0.0], rate=30, name="game 1", context_names=["u", "v"], action_names=["pan"])
    assert (one.name, one.rate, one.context_names, one.action_names) == ("game 1", 30.0, ("u", "v"), ("pan",))
    assert type(one.rate) is float


def test_one_name_may_be_given_as_a_string():
    one = Demonstration([0.0], [0.0], context_names="speed", action_names="pan")
    assert (one.context_names, one.action_names) == (("speed",), ("pan",))


def test_repr_tells_the_size_and_the_rate():
    one = Demonstration([[0.0, 1.0]] * 3, [[0.0, 1.0]] * 3, rate=12.5, name="b")
    assert repr(one) == "Demonstration('b', 3 frames, 2 contexts, 2 actions, 12.5 Hz)"


def test_repr_of_one_frame_is_singular():
    assert repr(Demonstration([0.0], [0.0])) == "Demonstration('demonstration', 1 frame, 1 context, 1 action)"


def test_inputs_are_copied_not_aliased():
    contexts, actions = np.zeros((3, 1)), np.zeros((3, 1))
    one = Demonstration(contexts, actions)
    contexts[:], actions[:] = 9.0, 9.0
    assert not one.contexts.any()
    assert not one.actions.any()
    assert contexts.flags.writeable
    assert actions.flags.writeable


@pytest.mark.parametrize("part", ["contexts", "actions"])
def test_arrays_are_read_only(part):
    with pytest.raises(ValueError, match="read-only"):
        getattr(Demonstration([0.0], [0.0]), part)[0] = 1.0


@pytest.mark.parametrize("field", ["contexts", "actions", "rate", "name", "context_names", "action_names"])
def test_fields_cannot_be_replaced(field):
    with pytest.raises(FrozenInstanceError):
        setattr(Demonstration([0.0], [0.0]), field, None)


def test_cut_is_a_demonstration_of_its_own():
    (one,) = sequences(6, rate=10.0)
    part = one.cut(2, 4)
    assert part.actions.ravel().tolist() == [2.0, 3.0]
    assert part.contexts[:, 0].tolist() == [2.0, 3.0]
    assert (part.name, part.rate, part.context_names) == (one.name, one.rate, one.context_names)
    assert one.cut(4).actions.ravel().tolist() == [4.0, 5.0]
    assert one.cut(-2).actions.ravel().tolist() == [4.0, 5.0]
    assert not part.actions.flags.writeable


# Several demonstrations


def test_of_takes_one_many_a_generator_or_demonstrations_as_they_are():
    demos = sequences(3, 2)
    assert Demonstrations.of(demos) is demos
    assert list(Demonstrations.of(demos[1])) == [demos[1]]
    assert list(Demonstrations.of([demos[1], demos[0]])) == [demos[1], demos[0]]
    assert list(Demonstrations.of(d for d in demos)) == list(demos)
    assert list(Demonstrations(demos[0])) == [demos[0]]


def test_sizes_and_parts():
    demos = sequences(3, 1, rate=25.0)
    assert (len(demos), demos.n_frames, demos.n_contexts, demos.n_actions, demos.rate) == (2, 4, 2, 1, 25.0)
    assert demos.names == ("0", "1")
    assert [x.shape for x in demos.contexts] == [(3, 2), (1, 2)]
    assert [a.ravel().tolist() for a in demos.actions] == [[0.0, 1.0, 2.0], [10.0]]
    assert repr(demos) == "Demonstrations(2 sequences, 4 frames)"
    assert repr(demos[1:]) == "Demonstrations(1 sequence, 1 frame)"


def test_it_is_a_sequence():
    demos = sequences(3, 2, 1)
    assert demos[-1] is demos[2]
    assert demos[np.int64(1)] is demos[1]
    assert demos[1] in demos
    assert list(reversed(demos)) == [demos[2], demos[1], demos[0]]
    with pytest.raises(IndexError):
        demos[3]


def test_slices_are_demonstrations_and_share_the_items():
    demos = sequences(3, 2, 1)
    assert isinstance(demos[:2], Demonstrations)
    assert list(demos[::-2]) == [demos[2], demos[0]]


def test_items_cannot_be_replaced():
    with pytest.raises(FrozenInstanceError):
        sequences(2).items = ()


def test_head_takes_the_first_frames_of_every_sequence():
    demos = sequences(5, 2, 1, rate=10.0).head(2)
    assert [a.ravel().tolist() for a in demos.actions] == [[0.0, 1.0], [10.0, 11.0], [20.0]]
    assert (demos.names, demos.rate) == (("0", "1", "2"), 10.0)


def test_with_actions_keeps_everything_else():
    demos = sequences(3, 1, rate=10.0)
    other = demos.with_actions([-a for a in demos.actions])
    assert [a.ravel().tolist() for a in other.actions] == [[0.0, -1.0, -2.0], [-10.0]]
    assert (other.names, other.rate, other.action_names) == (demos.names, demos.rate, demos.action_names)
    for mine, theirs in zip(other.contexts, demos.contexts, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_from_arrays_names_sequences_by_position():
    demos = Demonstrations.from_arrays([[0.0], [0.0, 1.0]], [[0.0], [0.0, 1.0]])
    assert demos.names == ("sequence 0", "sequence 1")


def test_from_arrays_takes_stacked_arrays_and_names():
    demos = Demonstrations.from_arrays(
        np.zeros((4, 5, 2)), np.zeros((4, 5)), rate=2, names=range(4), context_names=("u", "v"), action_names=("pan",)
    )
    assert (len(demos), demos.n_frames, demos.rate) == (4, 20, 2.0)
    assert demos.names == ("0", "1", "2", "3")
    assert (demos.context_names, demos.action_names) == (("u", "v"), ("pan",))


# From frames


@every_frame
def test_interleaved_sequences_come_apart_in_order_of_appearance_and_of_rows(build):
    frame = build({"game": ["b", "a", "b", "a", "b"], "x": [5, 4, 3, 2, 1], "pan": [0.0, 0.1, 0.2, 0.3, 0.4]})
    demos = Demonstrations.from_frame(frame, sequence="game", actions="pan", rate=30)
    assert demos.names == ("b", "a")
    assert [x.ravel().tolist() for x in demos.contexts] == [[5.0, 3.0, 1.0], [4.0, 2.0]]
    assert [a.ravel().tolist() for a in demos.actions] == [[0.0, 0.2, 0.4], [0.1, 0.3]]
    assert demos.rate == 30.0
    assert (demos.context_names, demos.action_names) == (("x",), ("pan",))


@every_frame
def test_contexts_are_the_remaining_columns_by_default(build):
    frame = build({"w": [1], "pan": [2], "game": [3], "u": [4], "tilt": [5]})
    demos = Demonstrations.from_frame(frame, sequence="game", actions=["tilt", "pan"])
    assert (demos.context_names, demos.action_names) == (("w", "u"), ("tilt", "pan"))
    assert demos[0].contexts.tolist() == [[1.0, 4.0]]
    assert demos[0].actions.tolist() == [[5.0, 2.0]]
    assert demos.names == ("3",)


@every_frame
def test_chosen_columns_come_in_the_given_order(build):
    frame = build({"u": [1.0], "v": [2.0], "text": ["never read"], "pan": [3.0]})
    demos = Demonstrations.from_frame(frame, contexts=("v", "u"), actions=("pan",))
    assert demos.context_names == ("v", "u")
    assert demos[0].contexts.tolist() == [[2.0, 1.0]]
    assert Demonstrations.from_frame(frame, contexts="v", actions="pan")[0].contexts.tolist() == [[2.0]]


@every_frame
def test_without_a_sequence_column_the_frame_is_one_sequence(build):
    demos = Demonstrations.from_frame(build({"x": [1, 2, 3], "pan": [4, 5, 6]}), actions="pan")
    assert [len(d) for d in demos] == [3]
    assert demos[0].contexts.tolist() == [[1.0], [2.0], [3.0]]


@every_frame
def test_integers_booleans_and_floats_become_float64(build):
    frame = build({"i": [1, 2], "b": [True, False], "f": [0.5, 1.5], "pan": [True, False]})
    demos = Demonstrations.from_frame(frame, actions="pan")
    assert demos[0].contexts.dtype == demos[0].actions.dtype == np.float64
    assert demos[0].contexts.tolist() == [[1.0, 1.0, 0.5], [2.0, 0.0, 1.5]]
    assert demos[0].actions.tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize("build", [pl.DataFrame, pa.table], ids=["polars", "pyarrow"])
def test_null_and_nan_are_both_missing(build):
    frame = build({"i": [1, None, 3], "b": [True, None, False], "f": [NAN, None, 0.5], "pan": [1, 2, 3]})
    demos = Demonstrations.from_frame(frame, actions="pan")
    np.testing.assert_array_equal(demos[0].contexts, [[1.0, 1.0, NAN], [NAN, NAN, NAN], [3.0, 0.0, 0.5]])


@pytest.mark.parametrize(
    ("integers", "booleans"),
    [("Int64", "boolean"), pytest.param("int64[pyarrow]", "bool[pyarrow]")],
    ids=["nullable", "arrow"],
)
def test_null_and_nan_are_both_missing_in_pandas(integers, booleans):
    frame = pd.DataFrame(
        {
            "i": pd.array([1, None, 3], dtype=integers),
            "b": pd.array([True, None, False], dtype=booleans),
            "f": [NAN, None, 0.5],
            "pan": [1, 2, 3],
        }
    )
    demos = Demonstrations.from_frame(frame, actions="pan")
    np.testing.assert_array_equal(demos[0].contexts, [[1.0, 1.0, NAN], [NAN, NAN, NAN], [3.0, 0.0, 0.5]])


def test_the_index_of_a_pandas_frame_plays_no_part():
    frame = pd.DataFrame({"g": [1, 2, 1], "x": [1.0, 2.0, 3.0], "pan": [4.0, 5.0, 6.0]}, index=[7, 7, 0])
    demos = Demonstrations.from_frame(frame, sequence="g", actions="pan")
    assert [a.ravel().tolist() for a in demos.actions] == [[4.0, 6.0], [5.0]]


def test_frames_are_copied_not_aliased():
    frame = pd.DataFrame({"x": [1.0, 2.0], "pan": [3.0, 4.0]})
    demos = Demonstrations.from_frame(frame, actions="pan")
    frame.loc[:, :] = 9.0
    assert demos[0].contexts.ravel().tolist() == [1.0, 2.0]
    assert demos[0].actions.ravel().tolist() == [3.0, 4.0]
    assert not demos[0].actions.flags.writeable


def test_all_backends_give_the_same_bits():
    rng = np.random.default_rng(0)
    columns = {
        "g": [*"abca" * 5],
        "x": rng.normal(size=20).tolist(),
        "n": [*range(20)],
        "a": rng.normal(size=20).tolist(),
    }
    first, *others = (Demonstrations.from_frame(f(columns), sequence="g", actions="a") for f in FRAMES.values())
    for other in others:
        assert other.names == first.names
        for mine, theirs in zip((*other.contexts, *other.actions), (*first.contexts, *first.actions), strict=True):
            np.testing.assert_array_equal(mine, theirs)


# Split


@settings(deadline=None)
@given(st.integers(2, 12), st.floats(0.01, 1.0), st.integers(0, 2**32))
def test_split_is_a_partition_in_order_with_both_sides_non_empty(n, test, seed):
    demos = sequences(*[1] * n)
    train, held_out = demos.split(test, seed=seed)
    assert len(train) >= 1
    assert len(held_out) >= 1
    assert len(held_out) == min(max(1, round(test * n)), n - 1)
    assert [d for d in demos if d in train.items] == list(train)
    assert [d for d in demos if d in held_out.items] == list(held_out)
    assert sorted((*train.names, *held_out.names), key=int) == list(demos.names)


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=12), st.floats(0.01, 1.0), st.integers(0, 100))
def test_split_by_groups_keeps_groups_together(groups, test, seed):
    assume(len(set(groups)) > 1)
    train, held_out = sequences(*[1] * len(groups)).split(test, seed=seed, groups=groups)
    there, here = ({groups[int(name)] for name in part.names} for part in (train, held_out))
    assert there
    assert here
    assert not there & here
    assert len(train) + len(held_out) == len(groups)


def test_split_holds_out_a_quarter_by_default():
    train, held_out = sequences(*[1] * 8).split()
    assert (len(train), len(held_out)) == (6, 2)


def test_split_depends_on_the_seed_alone():
    demos = sequences(*[1] * 20)
    assert demos.split(seed=3)[1].names == demos.split(seed=3)[1].names
    assert len({demos.split(seed=s)[1].names for s in range(10)}) > 1
    np.random.seed(0)  # noqa: NPY002  the global state must play no part
    first = demos.split(seed=3)[1].names
    np.random.seed(1)  # noqa: NPY002
    assert demos.split(seed=3)[1].names == first


@pytest.mark.parametrize("groups", [["a", "a", "b"], np.array([0, 0, 1]), pd.Series(["p", "p", "q"])], ids=type)
def test_groups_may_be_any_labels(groups):
    parts = {part.names for part in sequences(1, 1, 1).split(groups=groups)}
    assert parts == {("0", "1"), ("2",)}


# Describe


def test_description_gives_the_statistics_of_every_column():
    demos = Demonstrations.from_arrays(
        [[[1.0, NAN], [2.0, NAN]], [[NAN, NAN], [6.0, NAN]]], [[0.0, 4.0], [4.0, 0.0]], context_names=["u", "v"]
    )
    stats = demos.describe().to_dict()
    assert list(stats) == ["u", "v", "a0"]
    assert stats["u"] == {
        "min": 1.0,
        "mean": 3.0,
        "max": 6.0,
        "std": pytest.approx(np.std([1.0, 2.0, 6.0])),
        "missing": 0.25,
    }
    assert stats["a0"] == {"min": 0.0, "mean": 2.0, "max": 4.0, "std": 2.0, "missing": 0.0}
    assert stats["v"]["missing"] == 1.0
    assert all(np.isnan(stats["v"][key]) for key in ("min", "mean", "max", "std"))


def test_description_prints_a_table():
    lines = str(sequences(3, 1, rate=10.0).describe()).splitlines()
    assert lines[0] == "2 sequences, 4 frames (1 to 3 each), 10 Hz, 0.4 s"
    assert lines[1].split() == ["column", "min", "mean", "max", "std", "missing"]
    assert lines[2].split() == ["context", "x0", "0", "25.75", "100", "42.87", "0.0%"]
    assert [line.split()[:2] for line in lines[2:]] == [["context", "x0"], ["context", "x1"], ["action", "a0"]]
    assert len({len(line) for line in lines[1:]}) == 1


def test_description_says_when_the_rate_is_unknown():
    assert str(sequences(1).describe()).splitlines()[0] == "1 sequence, 1 frame (1 to 1 each), unknown rate"


# Action space


def test_open_space_lets_everything_through():
    actions = np.array([[-1e300, 1e300]])
    np.testing.assert_array_equal(ActionSpace().clip(actions), actions)
    ActionSpace().check(sequences(2, 3))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, [[0.0, 0.5], [1.0, 0.0]]),
        (None, [0.2, 0.3], [[-1.0, 0.3], [0.2, -3.0]]),
        ([0.0, -1.0], None, [[0.0, 0.5], [2.0, -1.0]]),
        (0, [1, 0.25], [[0.0, 0.25], [1.0, 0.0]]),
        ([-INF, 0.0], [1.0, INF], [[-1.0, 0.5], [1.0, 0.0]]),
    ],
    ids=str,
)
def test_clip_moves_actions_into_the_bounds(low, high, expected):
    actions = np.array([[-1.0, 0.5], [2.0, -3.0]])
    space = ActionSpace(low, high)
    assert space.clip(actions).tolist() == expected
    assert space.clip(actions[0]).tolist() == expected[0]
    assert space.clip(actions[np.newaxis]).tolist() == [expected]
    assert actions.tolist() == [[-1.0, 0.5], [2.0, -3.0]]


def test_bounds_themselves_belong_to_the_space():
    ActionSpace(0.0, 12.0).check(sequences(3, 3))
    ActionSpace([0.0], [12.0]).check(sequences(3, 3))


def test_bounds_are_copied_and_read_only():
    low = np.zeros(1)
    space = ActionSpace(low, 1.0)
    low[0] = -9.0
    assert space.low.tolist() == [0.0]
    with pytest.raises(ValueError, match="read-only"):
        space.high[0] = 9.0


# Units


def test_standard_units_have_mean_zero_and_deviation_one():
    rng = np.random.default_rng(0)
    demos = acting(rng.normal(size=(200, 3)) * [1.0, 1e-3, 1e6] + [0.0, 5.0, -1e6])
    standard = Units.of(demos).standardize(demos[0].actions)
    np.testing.assert_allclose(standard.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(standard.std(axis=0), 1.0)


def test_units_weigh_frames_not_sequences():
    demos = sequences(3, 1)
    assert Units.of(demos).center.tolist() == [(0.0 + 1.0 + 2.0 + 10.0) / 4]


values = st.floats(-1e6, 1e6).map(lambda v: round(v, 6))


@settings(deadline=None)
@given(arrays(float, st.tuples(st.integers(1, 20), st.integers(1, 3)), elements=values))
def test_units_go_there_and_back(actions):
    units = Units.of(acting(actions))
    back = units.restore(units.standardize(actions))
    np.testing.assert_allclose(back, actions, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(actions).max()))
    assert units.standardize(actions[0]).shape == actions[0].shape
    assert (units.scale > 0.0).all()


@settings(deadline=None)
@given(
    arrays(float, st.tuples(st.integers(2, 20), st.integers(1, 3)), elements=values),
    st.sampled_from([2.0**-30, 0.5, 1024.0, 2.0**40]),
)
def test_a_power_of_two_changes_no_bit_of_standard_actions(actions, factor):
    assume((np.ptp(actions, axis=0) > 0.0).all())
    standard = Units.of(acting(actions)).standardize(actions)
    scaled = Units.of(acting(factor * actions)).standardize(factor * actions)
    assert standard.tobytes() == scaled.tobytes()


@pytest.mark.parametrize("value", [0.0, 0.1, -3e8, 1e-300])
@pytest.mark.parametrize("frames", [1, 3, 1000])
def test_a_constant_action_is_zero_in_standard_units_and_comes_back_to_the_bit(value, frames):
    actions = np.full((frames, 1), value)
    units = Units.of(acting(actions))
    assert units.scale.tolist() == [1.0]
    assert not units.standardize(actions).any()
    assert units.restore(units.standardize(actions)).tolist() == actions.tolist()


def test_a_constant_action_beside_a_moving_one_stays_out_of_its_way():
    units = Units.of(acting([[7.0, 0.0], [7.0, 2.0]]))
    assert units.center.tolist() == [7.0, 1.0]
    assert units.scale.tolist() == [1.0, 1.0]


def test_identity_units_change_nothing():
    actions = np.random.default_rng(0).normal(size=(5, 3))
    assert Units.identity().standardize(actions).tolist() == actions.tolist()
    assert Units.identity().restore(actions).tolist() == actions.tolist()


# Real recordings


@pytest.mark.skipif(not CAR_FOLLOWING.exists(), reason="the shared data is not here")
def test_car_following_loads_and_splits_by_run():
    frame = pd.read_csv(CAR_FOLLOWING / "car_following.csv")
    demos = Demonstrations.from_frame(
        frame,
        sequence="sequence",
        actions="a_speed",
        contexts=[c for c in frame.columns if c.startswith("x_")],
        rate=10,
    )
    assert (len(demos), demos.n_frames, demos.rate, demos.n_contexts) == (39, 62445, 10.0, 4)
    about = pd.read_csv(CAR_FOLLOWING / "sequences.csv").set_index("sequence")
    assert [len(d) for d in demos] == about.rows[[int(n) for n in demos.names]].tolist()
    runs = about.run[[int(n) for n in demos.names]].tolist()
    train, held_out = demos.split(groups=runs)
    there, here = ({about.run[int(n)] for n in part.names} for part in (train, held_out))
    assert there
    assert here
    assert not there & here
    assert len(train) + len(held_out) == 39


def test_the_digest_tells_apart_what_differs_in_any_value_name_or_rate():
    demos = Demonstrations.from_arrays([[[0.0], [1.0]]], [[0.0, 0.5]], rate=30.0)
    others = [
        Demonstrations.from_arrays([[[0.0], [2.0]]], [[0.0, 0.5]], rate=30.0),
        Demonstrations.from_arrays([[[0.0], [1.0]]], [[0.0, 0.6]], rate=30.0),
        Demonstrations.from_arrays([[[0.0], [1.0]]], [[0.0, 0.5]], rate=31.0),
        Demonstrations.from_arrays([[[0.0], [1.0]]], [[0.0, 0.5]], rate=30.0, names=["other"]),
        Demonstrations.from_arrays([[[0.0]], [[1.0]]], [[0.0], [0.5]], rate=30.0),
    ]
    assert demos.digest() == Demonstrations(demos.items).digest()
    assert len({d.digest() for d in (demos, *others)}) == 6


ABOUT = {"camera": {"position": (0.0, -20.0, 8.0)}}


def about(*said) -> Demonstrations:
    """Sequences with these facts, one each."""
    return Demonstrations(
        tuple(Demonstration([[0.0], [1.0]], [0.0, 1.0], 10.0, f"s{i}", about=facts) for i, facts in enumerate(said))
    )


def test_what_sequences_are_about_is_kept_by_all_that_is_made_of_them():
    demos = about(ABOUT, None, ABOUT)
    kept = {"camera": {"position": [0.0, -20.0, 8.0]}}  # as JSON
    made = [
        *demos.split(0.4),
        *demos[:1].hold_out(0.5),
        demos[0:2],
        demos.head(1),
        demos.standardize(Units.of(demos)),
        demos.with_actions(demos.actions),
        demos.only_action(0),
        demos.grouped(["a", "b", "a"]),
    ]
    assert [found.about for found in made if found.names != ("s1",)] == [kept] * len(made)
    assert about(None, None).about is None
    assert demos.digest() == about(None, None, None).digest()  # the values are the same


def test_sequences_about_different_things_are_no_set():
    with pytest.raises(DataError, match=r"'s0' is about .*-20.0.* and 's2' about .*30.*: make them alike"):
        about(ABOUT, None, {"camera": {"position": [0.0, 30.0, 8.0]}})
    for wrong in ({"a": {1, 2}}, {"a": float("nan")}, 7):
        with pytest.raises(ArgumentError, match="about of 's0' must be plain JSON"):
            about(wrong)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "npz", "csv"])
def test_files_that_know_their_columns_keep_what_they_are_about(tmp_path: Path, suffix: str):
    for name, facts in (("one", ABOUT), ("other", {"camera": "another"}), ("none", None)):
        write(about(facts), tmp_path / f"{name}.{suffix}")
    actions = {"actions": "a0"} if suffix == "csv" else {}
    one, other, none = (tmp_path / f"{name}.{suffix}" for name in ("one", "other", "none"))
    assert read(none, quiet=True, **actions).about is None
    if suffix == "csv":
        assert read(one, quiet=True, **actions).about is None
        return
    assert read(one, quiet=True).about == read([one, none], quiet=True).about == about(ABOUT).about
    with pytest.raises(DataError, match=r"one\..*other\..*make them alike"):
        read([one, other], quiet=True)


def test_what_parts_elsewhere_are_about_is_on_the_card():
    demos = about(ABOUT, ABOUT)
    spread = DistributedDemonstrations.of(demos, LocalBackend(parts=2))
    assert spread.about == card_of(spread, {}).training["about"] == demos.about
    assert "about" not in card_of(about(None), {}).training


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["contexts", "actions"]))
@example(1e100, "actions")
@example(np.nextafter(1e100, 0.0), "contexts")
def test_values_that_are_too_large_are_refused_by_every_door(value: float, where: str):
    columns = {"contexts": [1.0, 2.0, value], "actions": [0.0, value, 1.0]}
    columns = {name: column if name == where else [1.0, 2.0, 3.0] for name, column in columns.items()}
    for build in (
        lambda: Demonstration(**columns),
        lambda: Demonstrations.from_arrays([columns["contexts"]], [columns["actions"]]),
        lambda: Demonstrations.from_frame(columns, actions="actions", quiet=True),
        lambda: simile.read(columns, actions="actions", quiet=True),
    ):
        if abs(value) >= 1e100:
            with pytest.raises(DataError, match=r"below 1e\+100|too large to reckon with"):
                build()
        else:
            assert len(build()) > 0
