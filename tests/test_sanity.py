"""What is wrong with the values of recorded data: found in odd files, and in none that is clean."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from commands import simile_
from odd_files import KINDS, Odd
from plants import PLANTS, Plant
from simile.data import tasks
from simile.data.sanity import check_problems, find_problems
from simile.errors import DataError
from unusual_files import UNUSUAL, make_clean

CERTAIN, LIKELY = True, False
# By kind of odd file: what is found, and whether it is refused. Read as they come; the plants where nothing is found.
FOUND = {
    "action_code_-999": ("code", CERTAIN, ()),
    "action_code_9999": ("code", CERTAIN, ()),
    "context_code_-999": ("code", CERTAIN, ()),
    "context_code_65535": ("code", CERTAIN, ()),
    "context_code_1e30": ("code", CERTAIN, ()),
    "pan_wraps_360": ("wrap", CERTAIN, ()),
    "pan_wraps_180_in_one": ("wrap", CERTAIN, ()),
    "every_row_twice": ("doubled", CERTAIN, ()),
    "totals_row": ("total", CERTAIN, ()),
    "means_row": ("total", CERTAIN, ()),
    "sequences_called_session": ("label", CERTAIN, ()),
    "sequences_called_rec": ("label", CERTAIN, ()),
    "recording_twice": ("repeated", LIKELY, ()),
    "factor_1000_in_one": ("unit", LIKELY, ()),
    "context_mm_in_two": ("unit", LIKELY, ()),
    "action_sign_flipped_in_two": ("differs", LIKELY, ()),
    "context_sign_flipped_in_two": ("differs", LIKELY, ()),
    "context_feet_in_two": ("differs", LIKELY, ()),
    "context_clock_late_in_two": ("differs", LIKELY, ("crane",)),
    "action_clock_late_in_two": ("differs", LIKELY, ("crane",)),
    "offset_differs_by_recording": ("offset", LIKELY, ("crane",)),
    "thousands_points": ("thousands", CERTAIN, ()),
    "context_wraps_65536": ("wrap", LIKELY, ()),
    "labels_rounded": ("joint", LIKELY, ()),
    "label_used_again": ("joint", LIKELY, ()),
    "sensor_frozen_half": ("frozen", LIKELY, ("crane",)),
    "clock_called_ts": ("clock", LIKELY, ()),
    "clock_called_epoch": ("clock", LIKELY, ()),
    "action_copy_exact": ("copy", LIKELY, ()),
    "action_copy_scaled": ("copy", LIKELY, ()),
    "action_copy_noisy": ("copy", LIKELY, ()),
    "action_copy_ahead": ("copy", LIKELY, ()),
    "action_copy_differentiated": ("copy", LIKELY, ()),
    "effect_feedback": ("effect", LIKELY, ("camera",)),
    "effect_position": ("effect", LIKELY, ("camera", "crane")),  # there it is as good as a copy, and told as one
}


def read_odd(odd: Odd) -> simile.Demonstrations:
    return odd.read(odd.source, **odd.options, quiet=True)


def in_turn(cases: list[list[Any]]) -> list[Any]:
    """Return one case of each list, another of the next, and the others as long tests."""
    return [
        case if j == i % len(some) else pytest.param(*case, marks=pytest.mark.long)
        for i, some in enumerate(cases)
        for j, case in enumerate(some)
    ]


FINDS = [[(n, p) for p in PLANTS if p in KINDS[n].plants and p.name not in FOUND[n][2]] for n in FOUND]


@pytest.mark.parametrize(("name", "plant"), in_turn(FINDS))
def test_what_is_wrong_is_found(name: str, plant: Plant, tmp_path: Path):
    kind, certain, _ = FOUND[name]
    rng = np.random.default_rng([1, zlib.crc32(name.encode())])
    problems = read_odd(KINDS[name].spoil(plant, plant.make(seed=1), rng, tmp_path)).problems
    assert (kind, certain) in [(problem.kind, problem.certain) for problem in problems], problems


@pytest.mark.parametrize(("name", "plant"), in_turn([[(n, p) for p in PLANTS] for n in UNUSUAL]))
def test_nothing_is_found_where_data_are_only_unusual(name: str, plant: Plant, tmp_path: Path):
    assert read_odd(make_clean(name, plant, 1, tmp_path)).problems == ()


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([0.0, 1e-6, 1.0, 1e6, 1e98]),
    st.integers(0, 9),
)
def test_any_data_can_be_looked_at(lengths: list[int], m: int, k: int, scale: float, seed: int):
    rng = np.random.default_rng(seed)
    contexts = [scale * rng.normal(size=(n, m)).round(1) for n in lengths]
    for x in contexts:
        x[rng.random(x.shape) < 0.3] = np.nan
    demos = simile.Demonstrations.from_arrays(contexts, [scale * rng.normal(size=(n, k)) for n in lengths])
    problems = find_problems(demos)
    assert all(problem.message and problem.columns is not None for problem in problems)


@given(
    st.integers(1, 6),
    st.integers(100, 400),
    st.integers(1, 4),
    st.sampled_from([1e-300, 1e-6, 1.0, 1e6, 1e95]),
    st.sampled_from(["noise", "walk", "same", "steps"]),
    st.integers(0, 9),
)
def test_long_data_of_any_scale_can_be_looked_at(n: int, length: int, m: int, scale: float, kind: str, seed: int):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(n, length, m + 1))
    made = {"noise": base, "walk": base.cumsum(axis=1), "same": 0.0 * base, "steps": np.sign(base.cumsum(axis=1))}[kind]
    demos = simile.Demonstrations.from_arrays(list(scale * made[..., :m]), list(made[..., m]), rate=30.0)
    assert all(problem.message for problem in find_problems(demos))


def test_what_jumps_for_a_moment_or_without_the_action_is_no_other_recording():
    rng = np.random.default_rng(0)
    walks = np.cumsum(rng.normal(size=(6, 300, 4)), axis=1)
    walks[2, 100] += 500.0  # a glitch, in the action too
    walks[3, 150:, :3] += 500.0  # contexts alone
    demos = simile.Demonstrations.from_arrays(list(walks[..., :3]), list(walks[..., 3]), rate=30.0)
    assert "joint" not in [problem.kind for problem in find_problems(demos)]
    walks[4, 200:] += 500.0
    demos = simile.Demonstrations.from_arrays(list(walks[..., :3]), list(walks[..., 3]), rate=30.0)
    (joint,) = (problem for problem in find_problems(demos) if problem.kind == "joint")
    assert "jump at 1 row, the first in sequence 4, row 201: another sequence begins there" in joint.message


def spoiled() -> simile.Demonstrations:
    demos = tasks.pursuit(n_sequences=4, length=120, n_players=3)
    contexts = [x.copy() for x in demos.contexts]
    contexts[2][40:45, 1] = -999.0
    return simile.Demonstrations.from_arrays(
        contexts, demos.actions, rate=demos.rate, context_names=demos.context_names, action_names=["pan"]
    )


@pytest.mark.parametrize("learn", [simile.learn, simile.paper, simile.path])
def test_what_is_certain_is_refused_before_anything_is_learned(learn):
    demos = spoiled()
    with pytest.raises(DataError, match=r"player1 is -999 in 1 % of the rows.*make them empty, or NaN.*--as-is"):
        learn(demos)
    assert check_problems(demos.as_is()) == ()


def test_a_policy_is_not_improved_with_what_is_certainly_wrong():
    policy = simile.learn(spoiled().as_is(), model=simile.Ridge(), smoothness=5.0).policy
    with pytest.raises(DataError, match="player1 is -999"):
        simile.improve(policy, spoiled(), None)


def test_data_are_learned_from_as_they_are_where_that_is_wanted():
    quick = {"model": simile.Ridge(), "smoothness": 5.0}
    assert simile.learn(spoiled().as_is(), **quick).notes == ()


def test_what_is_likely_is_told_in_the_verdict_and_leaves_trust_in_doubt():
    demos = tasks.pursuit(n_sequences=6, length=250, n_players=2)
    echo = [
        np.column_stack([x, np.r_[a[:2, 0], a[:-2, 0]]]) for x, a in zip(demos.contexts, demos.actions, strict=True)
    ]
    names = (*demos.context_names, "feedback")
    demos = simile.Demonstrations.from_arrays(echo, demos.actions, rate=30.0, context_names=names, action_names=["pan"])
    run = simile.learn(demos, model=simile.Ridge())
    assert [problem.columns for problem in demos.problems] == [("feedback",)]
    assert run.notes[0].startswith("feedback ")
    assert f"But {run.notes[0]}." in str(run.verdict)
    assert "n doubtful data: " in run.verdict.headline
    assert run.verdict.to_dict()["problems"] == list(run.judged.problems) == [run.notes[0]]


def test_commands_tell_and_refuse_in_a_sentence(tmp_path: Path):
    simile.write(spoiled(), tmp_path / "odd.csv")
    assert "problem    player1 is -999 in" in simile_("describe", "odd.csv", "--actions", "pan", cwd=tmp_path).stdout
    words = ("train", "odd.csv", "--actions", "pan", "--model", "Ridge()", "--out", "run", "--no-report")
    assert "player1 is -999" in simile_(*words, cwd=tmp_path, code=2).stderr
    assert "-999" not in simile_(*words, "--as-is", cwd=tmp_path).stderr


def walk_with(change) -> simile.Demonstrations:
    rng = np.random.default_rng(0)
    contexts = [np.cumsum(rng.normal(size=(400, 3)), axis=0) for _ in range(6)]
    actions = [x.mean(axis=1) for x in contexts]
    for x, a in zip(contexts, actions, strict=True):
        change(x, a, rng)
    return simile.Demonstrations.from_arrays(contexts, actions, rate=30.0)


def test_what_lies_beyond_all_others_is_told_whatever_its_digits():
    def put(x, a, rng):
        x[rng.random(len(x)) < 0.05, 0] = 512.5  # for a moment each
        x[100:200, 1] = 512.5  # for long: a state of the plant

    (code,) = (problem for problem in find_problems(walk_with(put)) if problem.kind == "code")
    assert (code.columns, code.certain) == (("x0",), False)
    assert "512.5 in" in code.message
    assert "that may stand for a missing value" in code.message

    def spike(x, a, rng):
        if not len(put_already):
            a[100] = 1e6
            put_already.append(1)

    put_already: list[int] = []
    assert [(p.kind, p.columns) for p in find_problems(walk_with(spike))] == [("code", ("a0",))]


def test_an_angle_in_eight_bits_wraps():
    def wrap(x, a, rng):
        a[:] = np.round(4.0 * a) % 256

    assert [(p.kind, p.certain) for p in find_problems(walk_with(wrap))] == [("wrap", True)]
