"""States against a naive twin, and the promise that no lag crosses from one sequence to the next."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive import naive_state, naive_states
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.states import Horizon, Laid, States, Tape
from simile.errors import ArgumentError, SimileError

LONGEST = 6

lags_of_contexts = st.integers(0, LONGEST) | st.lists(st.integers(0, LONGEST), min_size=1, unique=True)
lags_of_actions = st.integers(0, LONGEST) | st.lists(st.integers(1, LONGEST), unique=True)
horizons = st.builds(Horizon, lags_of_contexts, lags_of_actions)


def make(lengths, m, k, seed=0, missing=0.2):
    """Demonstrations with random values, and other actions along them, as a roll-out would have."""
    rng = np.random.default_rng(seed)
    contexts = [rng.normal(size=(n, m)) for n in lengths]
    for x in contexts:
        x[rng.random(x.shape) < missing] = np.nan
    demos = Demonstrations.from_arrays(contexts, [rng.normal(size=(n, k)) for n in lengths])
    return demos, [rng.normal(size=(n, k)) for n in lengths]


# length 1 and lengths shorter than the lags are the hard ones
cases = st.builds(
    make,
    st.lists(st.integers(1, LONGEST + 3), min_size=1, max_size=4),
    m=st.integers(1, 3),
    k=st.integers(1, 3),
    seed=st.integers(0, 1000),
)


def begins(demos):
    return np.cumsum([0, *(len(d) for d in demos)])


def naive_history(actions, order):
    return np.array([[[*a[max(t - lag, 0)]] for lag in range(1, order + 1)] for a in actions for t in range(len(a))])


# Horizon


@pytest.mark.parametrize(
    ("context_lags", "action_lags", "expected"),
    [
        (0, 0, ((0,), ())),
        (2, 3, ((0, 1, 2), (1, 2, 3))),
        ([0], [], ((0,), ())),
        ((0, 1, 2, 4, 8), (1, 5), ((0, 1, 2, 4, 8), (1, 5))),
        ([3], [2], ((3,), (2,))),
        ([4, 0, 2], [3, 1], ((0, 2, 4), (1, 3))),
        (range(3), {2, 1}, ((0, 1, 2), (1, 2))),
        (np.arange(2), np.int64(1), ((0, 1), (1,))),
    ],
)
def test_counts_and_lists_name_lags_in_order(context_lags, action_lags, expected):
    horizon = Horizon(context_lags, action_lags)
    assert (horizon.context_lags, horizon.action_lags) == expected
    assert all(type(lag) is int for lag in (*horizon.context_lags, *horizon.action_lags))


def test_default_horizon_looks_ten_frames_back():
    assert Horizon() == Horizon(context_lags=10, action_lags=10)


def test_equal_lags_make_equal_horizons_with_equal_hashes():
    assert Horizon(2, 1) == Horizon([2, 1, 0], (1,))
    assert hash(Horizon(2, 1)) == hash(Horizon([2, 1, 0], (1,)))
    assert Horizon(2, 1) != Horizon(2, 2)


def test_horizon_is_immutable():
    with pytest.raises(FrozenInstanceError):
        Horizon(2, 1).context_lags = (0,)


@pytest.mark.parametrize(
    ("action_lags", "memory"), [(0, 0), ((), 0), (1, 1), (7, 7), ((1, 9), 9), ((9, 1), 9), ((4,), 4)]
)
def test_memory_is_the_longest_action_lag(action_lags, memory):
    assert Horizon(20, action_lags).memory == memory


@given(horizons)
def test_without_actions_keeps_the_context_lags_alone(horizon):
    alone = horizon.without_actions()
    assert alone.context_lags == horizon.context_lags
    assert alone.action_lags == ()
    assert alone.memory == 0


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"context_lags": -1}, ["context_lags", "-1", ">= 0"]),
        ({"context_lags": [0, -3]}, ["context_lags", "-3", ">= 0"]),
        ({"action_lags": -2}, ["action_lags", "-2", ">= 0"]),
        ({"action_lags": [0, 1]}, ["action_lags", "got 0", ">= 1"]),
        ({"context_lags": []}, ["context_lags", "at least one", "(0,) means the present alone"]),
        ({"context_lags": 1.5}, ["context_lags", "1.5", "whole number"]),
        ({"action_lags": [1.0, 2.0]}, ["action_lags", "1.0", "whole number"]),
        ({"context_lags": True}, ["context_lags", "True", "whole number"]),
        ({"action_lags": [True]}, ["action_lags", "True", "whole number"]),
        ({"context_lags": "3"}, ["context_lags", "'3'", "whole number"]),
        ({"context_lags": None}, ["context_lags", "None", "whole number"]),
        ({"action_lags": [[1]]}, ["action_lags", "[1]", "whole number"]),
        ({"context_lags": [1, 1]}, ["context_lags", "[1, 1]", "different"]),
        ({"action_lags": (2, 1, 2)}, ["action_lags", "(2, 1, 2)", "different"]),
        pytest.param({"context_lags": np.array(3)}, ["context_lags", "array(3)", "whole number"]),
        pytest.param({"context_lags": b"ab"}, ["context_lags", "b'ab'", "whole number"]),
    ],
    ids=str,
)
def test_bad_lags_are_refused_by_name_value_and_way_out(arguments, parts):
    with pytest.raises(ArgumentError) as caught:
        Horizon(**arguments)
    assert isinstance(caught.value, SimileError)
    for part in parts:
        assert part in str(caught.value)


# The layout


@given(cases, horizons)
def test_matrix_equals_the_naive_twin(case, horizon):
    demos, actions = case
    states = horizon.states(demos, actions)
    matrix = states.matrix()
    assert matrix.shape == (demos.n_frames, horizon.n_features(demos.n_contexts, demos.n_actions))
    assert len(states) == demos.n_frames
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix, naive_states(demos, actions, horizon))


def test_one_state_written_out_by_hand():
    demos = Demonstrations.from_arrays([[[0.0, 10.0], [1.0, 11.0], [2.0, 12.0]]], [[5.0, 6.0, 7.0]])
    states = Horizon(context_lags=(0, 2), action_lags=2).states(demos, demos.actions)
    expected = [
        [0.0, 10.0, 0.0, 10.0, 5.0, 5.0],
        [1.0, 11.0, 0.0, 10.0, 5.0, 5.0],
        [2.0, 12.0, 0.0, 10.0, 6.0, 5.0],
    ]
    assert states.matrix().tolist() == expected
    assert naive_state(demos, demos.actions, states.horizon, 0, 2).tolist() == expected[2]


def test_states_read_the_given_actions_not_the_expert():
    demos, rolled = make([5, 3], m=1, k=1)
    matrix = Horizon(0, 1).states(demos, rolled).matrix()
    np.testing.assert_array_equal(matrix[1:5, 1], rolled[0][:4, 0])


def test_missing_contexts_stay_missing_at_every_lag():
    demos = Demonstrations.from_arrays([[np.nan, 1.0, 2.0]], [[0.0, 0.0, 0.0]])
    matrix = Horizon(2, 0).states(demos, demos.actions).matrix()
    np.testing.assert_array_equal(matrix, [[np.nan] * 3, [1.0, np.nan, np.nan], [2.0, 1.0, np.nan]])


@given(st.integers(1, 3), st.integers(1, 3), horizons)
def test_feature_names_say_column_and_lag_of_every_entry(m, k, horizon):
    frames = LONGEST + 4
    time, t = np.arange(frames)[:, np.newaxis], frames - 1
    demos = Demonstrations.from_arrays([100.0 * time + np.arange(m)], [-100.0 * time - np.arange(k) - 1.0])
    names = horizon.feature_names(demos.context_names, demos.action_names)
    state = horizon.states(demos, demos.actions).matrix()[t]
    assert len(names) == len(set(names)) == len(state) == horizon.n_features(m, k)
    for name, value in zip(names, state, strict=True):
        kind, column, lag = re.fullmatch(r"([xa])(\d+)\[t(?:-(\d+))?\]", name).groups()
        then = 100.0 * (t - int(lag or 0)) + int(column)
        assert value == (then if kind == "x" else -then - 1.0)


def test_feature_names_go_lag_by_lag_contexts_first():
    assert Horizon(1, 2).feature_names(["ball", "wind"], ["pan"]) == [
        "ball[t]",
        "wind[t]",
        "ball[t-1]",
        "wind[t-1]",
        "pan[t-1]",
        "pan[t-2]",
    ]


# No lag crosses a boundary


@given(cases, horizons, st.integers(0, 8))
def test_states_are_those_of_each_sequence_alone(case, horizon, order):
    demos, actions = case
    together = horizon.states(demos, actions)
    alone = [horizon.states(demos[i : i + 1], actions[i : i + 1]) for i in range(len(demos))]
    np.testing.assert_array_equal(together.matrix(), np.concatenate([s.matrix() for s in alone]))
    np.testing.assert_array_equal(together.history(order), np.concatenate([s.history(order) for s in alone]))


@given(cases, horizons, st.data())
def test_changing_one_sequence_changes_no_other(case, horizon, data):
    demos, actions = case
    i = data.draw(st.integers(0, len(demos) - 1))
    begin, end = begins(demos)[i : i + 2]
    items = list(demos)
    items[i] = Demonstration(np.full_like(demos[i].contexts, 77.0), demos[i].actions)
    other = [a if j != i else np.full_like(a, -77.0) for j, a in enumerate(actions)]
    before = horizon.states(demos, actions).matrix()
    after = horizon.states(Demonstrations.of(items), other).matrix()
    assert not np.isin(np.delete(after, np.s_[begin:end], axis=0), [77.0, -77.0]).any()
    np.testing.assert_array_equal(
        np.delete(after, np.s_[begin:end], axis=0), np.delete(before, np.s_[begin:end], axis=0)
    )
    assert np.isin(after[begin:end], [77.0, -77.0]).all()


@given(cases, horizons)
def test_no_state_sees_the_future_or_its_own_action(case, horizon):
    demos, actions = case
    t = max(len(d) for d in demos) // 2
    later = [np.where(np.arange(len(a))[:, np.newaxis] < max(t, 1), a, 99.0) for a in actions]
    changed = [np.where(np.arange(len(d))[:, np.newaxis] <= t, d.contexts, 99.0) for d in demos]
    after = horizon.states(Demonstrations.from_arrays(changed, demos.actions), later).matrix()
    before = horizon.states(demos, actions).matrix()
    early = np.concatenate([np.arange(len(d)) <= t for d in demos])
    np.testing.assert_array_equal(after[early], before[early])


# The view


@given(cases, horizons, st.integers(0, 8))
def test_history_is_the_latest_actions_first(case, horizon, order):
    demos, actions = case
    history = horizon.states(demos, actions).history(order)
    assert history.shape == (demos.n_frames, order, demos.n_actions)
    if order:
        np.testing.assert_array_equal(history, naive_history(actions, order))


@given(cases, horizons)
def test_contexts_are_the_present_ones(case, horizon):
    demos, actions = case
    np.testing.assert_array_equal(horizon.states(demos, actions).contexts, np.concatenate(demos.contexts))


@given(cases, horizons, st.data())
def test_where_keeps_the_chosen_states_by_mask_and_by_index(case, horizon, data):
    states = horizon.states(*case)
    n = len(states)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any)))
    index = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1)))
    for chosen in (mask, index):
        some = states.where(chosen)
        assert len(some) == len(states.rows[chosen])
        np.testing.assert_array_equal(some.matrix(), states.matrix()[chosen])
        np.testing.assert_array_equal(some.history(3), states.history(3)[chosen])
        np.testing.assert_array_equal(some.contexts, states.contexts[chosen])
    np.testing.assert_array_equal(states.where(index).where([0]).matrix(), states.matrix()[index[:1]])


@pytest.mark.parametrize("horizon", [Horizon(2, 2), Horizon(0, 0)], ids=str)
def test_no_states_make_an_empty_matrix_of_the_right_width(horizon):
    none = horizon.states(*make([4, 2], m=2, k=1)).where(np.zeros(6, dtype=bool))
    assert len(none) == 0
    assert none.matrix().shape == (0, horizon.n_features(2, 1))
    assert none.history(2).shape == (0, 2, 1)


@given(cases, horizons, horizons)
def test_seen_through_another_horizon_is_that_horizon_s_states(case, horizon, other):
    states = horizon.states(*case).view_through(other)
    assert states.horizon == other
    np.testing.assert_array_equal(states.matrix(), other.states(*case).matrix())


def test_seen_through_its_own_horizon_is_the_same_view():
    states = Horizon(2, 1).states(*make([4], m=1, k=1))
    assert states.view_through(Horizon(2, 1)) is states


def test_view_is_lazy_it_reads_the_tape_when_asked():
    demos, actions = make([4], m=1, k=1)
    tape = Tape.of(demos.contexts, actions)
    states = tape.states(Horizon(0, 1))
    tape.actions[2] = 42.0  # as a roll-out does
    assert states.matrix()[3, 1] == 42.0


def test_laying_sequences_on_a_tape_copies_them():
    demos, actions = make([4, 3], m=1, k=1)
    tape = Tape.of(demos.contexts, actions)
    tape.actions[:] = 42.0
    assert not (np.concatenate(actions) == 42.0).any()


def test_tape_with_other_actions_shares_its_contexts():
    demos, actions = make([4, 3], m=2, k=1)
    tape = Tape.of(demos.contexts, actions)
    other = tape.with_actions(np.zeros((7, 1)))
    assert other.contexts is tape.contexts
    assert other.floor is tape.floor
    np.testing.assert_array_equal(tape.actions, np.concatenate(actions))


def test_trajectories_that_lie_in_one_array_are_joined_without_a_copy():
    demos, along = make([3, 1, 4], 2, 1)
    laid = Laid.of(along)
    assert Laid.of(laid) is laid
    assert [a.tolist() for a in laid] == [a.tolist() for a in along]
    tape = Tape.of(demos.contexts, demos.actions).along(laid)
    assert tape.actions is laid.joined
    assert all(np.shares_memory(a, tape.actions) for a in laid)
    with pytest.raises(ValueError, match="read-only"):
        laid[0][:] = 0.0
    np.testing.assert_array_equal(tape.actions, np.concatenate(along))


def test_all_states_of_a_tape_share_their_rows():
    demos, along = make([3, 4], 2, 1)
    tape = Tape.of(demos.contexts, demos.actions)
    assert tape.along(along).states(Horizon(1, 1)).rows is tape.states(Horizon(0, 0)).rows


def test_tape_states_at_rows_are_those_rows():
    demos, actions = make([4, 3], m=2, k=1)
    tape, rows = Tape.of(demos.contexts, actions), np.array([5, 1])
    np.testing.assert_array_equal(tape.states(Horizon(2, 2), rows).matrix(), tape.states(Horizon(2, 2)).matrix()[rows])


# Isolated states


@given(cases, horizons, st.integers(0, 4), st.data())
def test_isolated_states_are_the_same_states(case, horizon, further, data):
    states = horizon.states(*case)
    states = states.where(np.array(data.draw(st.lists(st.integers(0, len(states) - 1), min_size=1))))
    memory = horizon.memory + further
    isolated = states.isolate(memory)
    assert isolated.horizon == horizon
    np.testing.assert_array_equal(isolated.matrix(), states.matrix())
    np.testing.assert_array_equal(isolated.history(memory), states.history(memory))
    np.testing.assert_array_equal(isolated.contexts, states.contexts)


def test_isolated_states_keep_all_that_their_horizon_reads():
    states = Horizon(0, 3).states(*make([6, 4], m=1, k=1))
    np.testing.assert_array_equal(states.isolate(1).matrix(), states.matrix())


@given(cases, horizons, st.integers(1, 4), st.data())
def test_changing_one_isolated_past_leaves_the_others_alone(case, horizon, further, data):
    states = horizon.states(*case)
    memory = horizon.memory + further
    isolated = states.isolate(memory)
    i = data.draw(st.integers(0, len(states) - 1))
    actions = isolated.tape.actions.copy()
    actions[isolated.rows[i] + np.arange(-memory, 0)] = 55.0
    changed = States(isolated.tape.with_actions(actions), isolated.rows, isolated.horizon)
    assert (changed.history(memory)[i] == 55.0).all()
    np.testing.assert_array_equal(np.delete(changed.history(memory), i, 0), np.delete(states.history(memory), i, 0))
    np.testing.assert_array_equal(np.delete(changed.matrix(), i, 0), np.delete(states.matrix(), i, 0))
    np.testing.assert_array_equal(np.concatenate(case[1]), states.tape.actions)


# Actions that do not belong to the demonstrations


@pytest.mark.parametrize("lengths", [[3, 1], [1, 3], [2], [2, 2, 2], [2, 3]], ids=str)
def test_actions_of_other_lengths_are_refused(lengths):
    demos, _ = make([2, 2], m=1, k=1)
    with pytest.raises(ArgumentError) as caught:
        Horizon(1, 1).states(demos, [np.zeros((n, 1)) for n in lengths])
    for part in ("actions", str(lengths), "[2, 2]", "as many frames"):
        assert part in str(caught.value)


def test_one_demonstration_is_taken_as_one_sequence():
    demos, actions = make([5], m=1, k=1)
    np.testing.assert_array_equal(
        Horizon(2, 2).states(demos[0], actions).matrix(), Horizon(2, 2).states(demos, actions).matrix()
    )


def test_a_class_in_place_of_demonstrations_is_refused():
    with pytest.raises(ArgumentError, match=r"demos must be .*Demonstration"):
        Horizon(1, 1).states(Demonstrations, [np.zeros((2, 1))])
