"""Every message of the data layer: the argument, the value, the way out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from simile._common import checks
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.recorded import ActionSpace
from simile.errors import ArgumentError, DataError, SimileError
from test_demonstrations import FRAMES, INF, NAN, sequences


def from_frame(columns, build=pd.DataFrame, **arguments):
    return Demonstrations.from_frame(build(columns), **{"actions": "a", **arguments})


TABLE = {"g": ["p", "q", "p"], "x": [1.0, 2.0, 3.0], "a": [4.0, 5.0, 6.0]}
NUMBERS = {"x": [1.0, 2.0, 3.0], "a": [4.0, 5.0, 6.0]}
ONE = Demonstration([0.0, 1.0], [0.0, 1.0], name="one")

MESSAGES = {
    "NaN action": (
        lambda: Demonstration([0, 1, 2], [0, NAN, NAN], name="game 1"),
        DataError,
        ["actions of 'game 1'", "must be finite", "nan at row 1, column 0", "2 such values", "drop or repair", "cut"],
    ),
    "missing action": (
        lambda: Demonstration([0, 1], [None, 1], name="game 1"),
        DataError,
        ["actions of 'game 1'", "must be finite", "nan at row 0, column 0", "drop or repair", "cut"],
    ),
    "infinite action": (
        lambda: Demonstration([0, 1], [[0, 0], [0, -INF]], name="game 1"),
        DataError,
        ["actions of 'game 1'", "must be finite", "-inf at row 1, column 1", "1 such", "drop or repair", "cut"],
    ),
    "infinite context": (
        lambda: Demonstration([[NAN, 0], [0, INF]], [0, 1], name="game 1"),
        DataError,
        ["contexts of 'game 1'", "finite or NaN (missing)", "inf at row 1, column 1", "drop or repair", "cut"],
    ),
    "huge action": (
        lambda: Demonstration([0, 1], [0, -1e155], name="game 1"),
        DataError,
        ["actions of 'game 1'", "must be finite and below 1e+100", "-1e+155 at row 1, column 0", "drop or repair"],
    ),
    "huge context of a frame": (
        lambda: Demonstrations.from_frame({"x": [1.0, 1e300, 3.0], "a": [4.0, 5.0, 6.0]}, actions="a"),
        DataError,
        ["row 2, column 'x'", "1e+300 is too large to reckon with", "leave it empty if it is missing"],
    ),
    "other lengths": (
        lambda: Demonstration([0, 1, 2], [0, 1], name="game 1"),
        DataError,
        ["contexts and actions of 'game 1'", "as many rows", "3 and 2", "cut both to the frames they share"],
    ),
    "three dimensions": (
        lambda: Demonstration(np.zeros((2, 3, 4)), [0, 1], name="game 1"),
        DataError,
        ["contexts of 'game 1'", "(2, 3, 4)", "must have shape (T,) or (T, columns)"],
    ),
    "no dimension": (
        lambda: Demonstration([0.0], 1.0, name="game 1"),
        DataError,
        ["actions of 'game 1'", "got ()", "must have shape (T,) or (T, columns)"],
    ),
    "no rows": (
        lambda: Demonstration([], [], name="game 1"),
        DataError,
        ["contexts of 'game 1'", "(0, 1)", "at least one row"],
    ),
    "no columns": (
        lambda: Demonstration([0, 1], np.zeros((2, 0)), name="game 1"),
        DataError,
        ["actions of 'game 1'", "at least one", "column"],
    ),
    "ragged rows": (
        lambda: Demonstration([[0.0], [1.0, 2.0]], [0, 1], name="game 1"),
        DataError,
        ["contexts of 'game 1'", "inhomogeneous", "numbers of shape (T,) or (T, columns)"],
    ),
    "text": (
        lambda: Demonstration([0, 1], ["left", "right"], name="game 1"),
        DataError,
        ["actions of 'game 1'", "numbers of shape (T,) or (T, columns)"],
    ),
    "zero rate": (lambda: Demonstration([0], [0], rate=0), ArgumentError, ["rate", "> 0", "got 0"]),
    "negative rate": (lambda: Demonstration([0], [0], rate=-10.0), ArgumentError, ["rate", "> 0", "-10.0"]),
    "NaN rate": (lambda: Demonstration([0], [0], rate=NAN), ArgumentError, ["rate", "> 0", "nan"]),
    "text rate": (lambda: Demonstration([0], [0], rate="10"), ArgumentError, ["rate", "a number", "'10'"]),
    "boolean rate": (lambda: Demonstration([0], [0], rate=True), ArgumentError, ["rate", "a number", "True"]),
    "too few context names": (
        lambda: Demonstration([[0, 1]], [0], context_names=["u"]),
        ArgumentError,
        ["context_names", "2 different names", "('u',)"],
    ),
    "too many action names": (
        lambda: Demonstration([0], [0], action_names=["pan", "tilt"]),
        ArgumentError,
        ["action_names", "1 different names", "('pan', 'tilt')"],
    ),
    "duplicate context names": (
        lambda: Demonstration([[0, 1]], [0], context_names=["u", "u"]),
        ArgumentError,
        ["context_names", "2 different names", "('u', 'u')"],
    ),
    "duplicate action names": (
        lambda: Demonstration([0], [[0, 1]], action_names=["u", "u"]),
        ArgumentError,
        ["action_names", "2 different names", "('u', 'u')"],
    ),
    "empty cut": (lambda: ONE.cut(5, 7), DataError, ["'one'"]),
    "no demonstrations": (
        lambda: Demonstrations.of([]),
        DataError,
        ["demonstrations", "at least one sequence", "got none"],
    ),
    "empty slice": (lambda: sequences(2, 2)[2:], DataError, ["demonstrations", "at least one sequence", "got none"]),
    "arrays in place of demonstrations": (
        lambda: Demonstrations([ONE, np.zeros(3)]),
        ArgumentError,
        ["demonstrations", "ndarray at position 1", "Demonstration(contexts=..., actions=...)", "from_frame"],
    ),
    "frame in place of demonstrations": (
        lambda: Demonstrations.of(pd.DataFrame(NUMBERS)),
        ArgumentError,
        ["demonstrations", "got str at position 0", "Demonstrations.from_frame(...)"],
    ),
    "class among demonstrations": (
        lambda: Demonstrations.of([Demonstration]),
        ArgumentError,
        ["demonstrations", "got type at position 0", "Demonstration(contexts=..., actions=...)"],
    ),
    "class in place of demonstrations": (
        lambda: Demonstrations.of(Demonstration),
        ArgumentError,
        ["demos", "Demonstration'>", "must be Demonstration"],
    ),
    "number in place of demonstrations": (lambda: Demonstrations.of(3), ArgumentError, ["demos", "got 3", "must be"]),
    "other context names": (
        lambda: Demonstrations([ONE, Demonstration([0], [0], name="two", context_names=["u"])]),
        DataError,
        ["share their context_names", "'one' has ('x0',)", "'two' has ('u',)"],
    ),
    "other action names": (
        lambda: Demonstrations([ONE, Demonstration([0], [0], name="two", action_names=["u"])]),
        DataError,
        ["share their action_names", "'one' has ('a0',)", "'two' has ('u',)"],
    ),
    "other number of actions": (
        lambda: Demonstrations([ONE, Demonstration([0], [[0, 1]], name="two")]),
        DataError,
        ["share their action_names", "'one' has ('a0',)", "'two' has ('a0', 'a1')"],
    ),
    "other rates": (
        lambda: Demonstrations([ONE, Demonstration([0], [0], name="two", rate=10.0)]),
        DataError,
        ["share their rate", "'one' has None", "'two' has 10.0"],
    ),
    "lists of other lengths": (
        lambda: Demonstrations.from_arrays([[0.0], [1.0]], [[0.0]]),
        DataError,
        ["contexts and actions", "as many sequences", "2 and 1"],
    ),
    "too many names": (
        lambda: Demonstrations.from_arrays([[0.0]], [[0.0]], names=["p", "q"]),
        ArgumentError,
        ["names", "name 1 sequences", "got 2"],
    ),
    "a sequence that fails is named": (
        lambda: Demonstrations.from_arrays([[0.0], [1.0]], [[0.0], [NAN]], names=["p", "q"]),
        DataError,
        ["actions of 'q'", "nan at row 0"],
    ),
    "lists in place of a frame": (
        lambda: Demonstrations.from_frame([[1.0, 2.0]], actions="a"),
        ArgumentError,
        ["frame", "got list", "pandas, polars or Arrow", "arrays by name", "from_arrays"],
    ),
    "arrays by name of several lengths": (
        lambda: Demonstrations.from_frame({"x": [1.0, 2.0], "a": [1.0]}, actions="a"),
        DataError,
        ["frame", "length", "columns of one length"],
    ),
    "path in place of a frame": (
        lambda: Demonstrations.from_frame("games.csv", actions="a"),
        ArgumentError,
        ["frame", "got str", "pandas, polars or Arrow"],
    ),
    "lazy frame": (
        lambda: from_frame(NUMBERS, pl.LazyFrame),
        ArgumentError,
        ["frame", "got LazyFrame", "pandas, polars or Arrow"],
    ),
    "unknown action": (
        lambda: from_frame(TABLE, actions="pan", sequence="g"),
        ArgumentError,
        ["frame: actions: no column is 'pan'; the columns are g, x, a"],
    ),
    "unknown context": (
        lambda: from_frame(TABLE, contexts=["x", "wind"], sequence="g"),
        ArgumentError,
        ["frame: contexts: no column is 'wind'; the columns are g, x, a"],
    ),
    "unknown sequence": (
        lambda: from_frame(NUMBERS, sequence="game"),
        ArgumentError,
        ["frame: sequence: no column is 'game'; the columns are x, a"],
    ),
    **{
        f"text in contexts of {name}": (
            lambda build=build: from_frame(TABLE, build, contexts=["x", "g"]),
            DataError,
            ["frame: row 1, column 'g': 'p' is not a number", "leave the column out"],
        )
        for name, build in FRAMES.items()
    },
    "text in actions": (
        lambda: from_frame(TABLE, actions="g"),
        DataError,
        ["frame: row 1, column 'g': 'p' is not a number", "leave the column out"],
    ),
    "times in contexts": (
        lambda: from_frame({**NUMBERS, "when": pd.date_range("2020", periods=3)}, contexts=["x", "when"]),
        DataError,
        ["frame: row 1, column 'when'", "2020-01-01", "is not a number", "leave the column out"],
    ),
    "objects in contexts": (
        lambda: from_frame({**NUMBERS, "seen": [{"a": 1}, None, "x"]}, contexts=["x", "seen"]),
        DataError,
        ["frame: row 1, column 'seen'", "is not a number", "leave the column out"],
    ),
    **{
        f"empty frame of {name}": (
            lambda build=build: from_frame({"x": np.array([], float), "a": np.array([], float)}, build),
            DataError,
            ["frame", "at least one row", "got none"],
        )
        for name, build in FRAMES.items()
    },
    "null action in a frame": (
        lambda: from_frame({"g": ["p", "q"], "x": [0, 1], "a": [0, None]}, pl.DataFrame, sequence="g"),
        DataError,
        ["frame: row 2, column 'a': the action is missing", "fill it in or drop the rows"],
    ),
    "no contexts": (lambda: from_frame({"a": [0.0, 1.0]}), SimileError, ["contexts", "no numeric column is left"]),
    "no actions": (lambda: from_frame(NUMBERS, actions=[]), SimileError, ["actions", "at least one column"]),
    "head of nothing": (lambda: sequences(2).head(0), ArgumentError, ["frames", ">= 1", "got 0"]),
    "head of half a frame": (lambda: sequences(2).head(0.5), ArgumentError, ["frames", "whole number", "0.5"]),
    "other actions of another length": (
        lambda: sequences(2, 2).with_actions([[0.0, 1.0], [0.0]]),
        DataError,
        ["contexts and actions of '1'", "as many rows", "2 and 1"],
    ),
    "split of one sequence": (
        lambda: sequences(5).split(),
        DataError,
        ["split", "at least two sequences or groups", "got 1", "Demonstration.cut(start, stop)"],
    ),
    "split of one group": (
        lambda: sequences(1, 1).split(groups=["p", "p"]),
        DataError,
        ["split", "at least two sequences or groups", "got 1"],
    ),
    "too few groups": (
        lambda: sequences(1, 1, 1).split(groups=["p", "q"]),
        ArgumentError,
        ["groups", "each of 3 sequences", "got 2"],
    ),
    "empty test share": (lambda: sequences(1, 1).split(0.0), ArgumentError, ["test", "> 0 and <= 1", "got 0.0"]),
    "test share above one": (lambda: sequences(1, 1).split(25), ArgumentError, ["test", "> 0 and <= 1", "got 25"]),
    "text test share": (lambda: sequences(1, 1).split("half"), ArgumentError, ["test", "a number", "'half'"]),
    "negative seed": (lambda: sequences(1, 1).split(seed=-1), ArgumentError, ["seed", ">= 0", "-1"]),
    "text seed": (lambda: sequences(1, 1).split(seed="a"), ArgumentError, ["seed", "whole number", "'a'"]),
    "class in place of an object": (
        lambda: checks.instance(ActionSpace, "space", needs="clip"),
        ArgumentError,
        ["space", "the class ActionSpace", "write ActionSpace(...) with parentheses"],
    ),
    "object without the method": (
        lambda: checks.instance("forest", "model", needs="fit"),
        ArgumentError,
        ["model", "'forest'", "must have a method fit()"],
    ),
    "object that cannot be called": (
        lambda: checks.instance(3, "oracle", needs="__call__"),
        ArgumentError,
        ["oracle", "got 3", "must be callable"],
    ),
    "NaN bound": (lambda: ActionSpace(low=NAN), ArgumentError, ["low", "got nan", "a number or one per action"]),
    "None among bounds": (
        lambda: ActionSpace(high=[1.0, None]),
        ArgumentError,
        ["high", "[1.0, None]", "a number or one per action"],
    ),
    "bounds of two dimensions": (
        lambda: ActionSpace(low=[[0.0, 1.0]]),
        ArgumentError,
        ["low", "[[0.0, 1.0]]", "a number or one per action"],
    ),
    "bounds that do not fit": (
        lambda: ActionSpace([0, 0], [1, 1, 1]),
        ArgumentError,
        ["low and high", "[0, 0]", "[1, 1, 1]"],
    ),
    "bounds the wrong way round": (
        lambda: ActionSpace(low=[0, 2], high=1),
        ArgumentError,
        ["low must be below high", "low=[0, 2]", "high=1"],
    ),
    "bounds that meet": (lambda: ActionSpace(1, 1), ArgumentError, ["low must be below high", "low=1", "high=1"]),
    "bounds of other actions": (
        lambda: ActionSpace([0, 0, 0]).check(sequences(2)),
        ArgumentError,
        ["space", "bounds for 1 actions", "low=[0. 0. 0.]"],
    ),
    "action below the bounds": (
        lambda: ActionSpace(0.5, 100.0).check(sequences(2)),
        DataError,
        ["space", "'a0' of '0' is 0 at row 0", "[0.5] to [100.]", "widen them or clip the data"],
    ),
    "action above the bounds": (
        lambda: ActionSpace(high=11).check(sequences(3, 3)),
        DataError,
        ["space", "'a0' of '1' is 12 at row 2", "[-inf] to [11.]", "widen them or clip the data"],
    ),
}

MORE_MESSAGES = {
    "infinite rate says finite": (
        lambda: Demonstration([0], [0], rate=INF),
        ArgumentError,
        ["rate", "finite", "> 0", "inf"],
    ),
    "complex actions": (
        lambda: Demonstration([0], np.array([1j])),
        DataError,
        ["actions of 'demonstration'", "complex128", "must be numbers"],
    ),
    "digits as text": (
        lambda: Demonstration(["1", "2"], [0, 1]),
        DataError,
        ["contexts of 'demonstration'", "<U1", "must be numbers"],
    ),
    "times": (
        lambda: Demonstration(np.array(["2020-01-01"], dtype="datetime64[D]"), [0]),
        DataError,
        ["contexts of 'demonstration'", "datetime64", "must be numbers"],
    ),
    "huge integers": (
        lambda: Demonstration([0], [10**400]),
        DataError,
        ["actions of 'demonstration'", "too large", "must be numbers"],
    ),
    "masked actions": (
        lambda: Demonstration([0, 1], np.ma.array([0.0, 1.0], mask=[False, True])),
        DataError,
        ["actions of 'demonstration'", "nan at row 1", "drop or repair"],
    ),
    "the side without columns is named": (
        lambda: Demonstration([0, 1], np.zeros((2, 0)), name="game 1"),
        DataError,
        ["actions of 'game 1'", "(2, 0)", "at least one row and one column"],
    ),
    "a name shared by a context and an action": (
        lambda: Demonstration([0], [0], context_names=["speed"], action_names=["speed"]),
        ArgumentError,
        ["context_names and action_names", "['speed']", "rename or drop"],
    ),
    "empty cut names the frames": (lambda: ONE.cut(5, 7), DataError, ["cut(5, 7)", "'one'", "it has 2 frames"]),
    "class given to the constructor": (
        lambda: Demonstrations(Demonstration),
        ArgumentError,
        ["demos", "Demonstration'>", "Demonstration(contexts=..., actions=...)", "from_frame"],
    ),
    "None given to the constructor": (
        lambda: Demonstrations(None),
        ArgumentError,
        ["demos", "got None", "Demonstration(contexts=..., actions=...)"],
    ),
    "class in place of demonstrations has a way out": (
        lambda: Demonstrations.of(Demonstration),
        ArgumentError,
        ["demos", "Demonstration'>", "Demonstration(contexts=..., actions=...)", "from_frame"],
    ),
    "lazy frame has a way out": (
        lambda: from_frame(NUMBERS, pl.LazyFrame),
        ArgumentError,
        ["frame", "LazyFrame", "collect()"],
    ),
    "unknown sequence beside text": (
        lambda: from_frame(TABLE, sequence="game"),
        ArgumentError,
        ["frame: sequence: no column is 'game'; the columns are g, x, a"],
    ),
    "no contexts left": (
        lambda: from_frame({"a": [0.0, 1.0]}),
        ArgumentError,
        ["frame: contexts: no numeric column is left beside the actions", "contexts=...", "the columns are a"],
    ),
    "neither contexts nor actions": (
        lambda: from_frame(NUMBERS, actions=[], contexts=[]),
        ArgumentError,
        ["frame: actions must name at least one column", "the columns are x, a"],
    ),
    "action twice": (
        lambda: from_frame(NUMBERS, actions=["a", "a"]),
        ArgumentError,
        ["actions", "'a' must be named once", "actions=['a', 'a']"],
    ),
    "context twice": (
        lambda: from_frame(NUMBERS, contexts=["x", "x"]),
        ArgumentError,
        ["contexts", "'x' must be named once", "contexts=['x', 'x']"],
    ),
    "action as context": (
        lambda: from_frame(NUMBERS, contexts=["x", "a"]),
        ArgumentError,
        ["contexts: column 'a' is named as actions already", "one role"],
    ),
    "sequence as context": (
        lambda: from_frame(NUMBERS, contexts=["x"], sequence="x"),
        ArgumentError,
        ["contexts: column 'x' is named as sequence already", "one role"],
    ),
    "numbers as column names": (
        lambda: from_frame(np.zeros((3, 2)), actions=[1]),
        ArgumentError,
        ["frame", "[0, 1]", "strings as column names", "rename"],
    ),
    "two columns of one name": (
        lambda: from_frame(np.zeros((3, 3)), lambda v: pd.DataFrame(v, columns=["a", "x", "x"])),
        ArgumentError,
        ["frame", "'x' 2 times", "different column names"],
    ),
    **{
        f"sequence without a label in {name}": (
            lambda build=build: from_frame({**TABLE, "g": ["p", None, None]}, build, sequence="g"),
            DataError,
            ["frame: row 2, column 'g'", "the row has no label", "fill it in or drop the row"],
        )
        for name, build in FRAMES.items()
    },
    "sequence labelled NaN": (
        lambda: from_frame({**TABLE, "g": [0.0, NAN, NAN]}, pl.DataFrame, sequence="g"),
        DataError,
        ["frame: row 2, column 'g'", "the row has no label", "fill it in or drop the row"],
    ),
    "other actions of fewer sequences": (
        lambda: sequences(2, 2).with_actions([[0.0, 1.0]]),
        DataError,
        ["actions", "2 sequences", "got 1"],
    ),
    "text bound": (lambda: ActionSpace("low"), ArgumentError, ["low", "'low'", "a number or one per action"]),
    "ragged bound": (lambda: ActionSpace(high=[1, [2, 3]]), ArgumentError, ["high", "[1, [2, 3]]", "one per action"]),
    "no bounds": (lambda: ActionSpace([], 1.0), ArgumentError, ["low", "[]", "a number or one per action"]),
    "bounds that do not fit have a way out": (
        lambda: ActionSpace([0, 0], [1, 1, 1]),
        ArgumentError,
        ["low and high", "as many", "[0, 0]", "[1, 1, 1]"],
    ),
}


@pytest.mark.parametrize(
    ("call", "error", "parts"),
    [
        *(pytest.param(*case, id=name) for name, case in MESSAGES.items()),
        *(pytest.param(*case, id=name) for name, case in MORE_MESSAGES.items()),
    ],
)
def test_message_names_the_argument_the_value_and_the_way_out(call, error, parts):
    with pytest.raises(SimileError) as caught:
        call()
    assert isinstance(caught.value, error)
    assert isinstance(caught.value, ValueError)
    for part in parts:
        assert part in str(caught.value)
