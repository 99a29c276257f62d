"""Figures from Python: that they show what was measured."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

import simile
from conftest import demos_of
from simile import ArgumentError
from simile.data import tasks

mpl.use("agg")

DEMOS = tasks.pursuit(n_sequences=5, length=120)


@pytest.fixture(autouse=True)
def close_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.fixture(scope="module")
def run() -> simile.Run:
    return simile.paper(DEMOS, model=simile.SmoothForest(n_trees=3), n_rounds=3, validation=0.2)


def lines_of(axes) -> dict[str, np.ndarray]:
    return {line.get_label(): line.get_ydata() for line in axes.lines if not line.get_label().startswith("_")}


def test_the_figure_of_a_run_shows_every_round_and_marks_the_chosen_one(run):
    error, rough, step = run.plot().axes
    np.testing.assert_allclose(lines_of(error)["training"] ** 2, [r.error for r in run.rounds])
    np.testing.assert_allclose(lines_of(error)["left out"] ** 2, [r.validation_error for r in run.rounds])
    np.testing.assert_allclose(lines_of(rough)["training"], [r.roughness for r in run.rounds])
    np.testing.assert_allclose(lines_of(step)["beta"], [r.beta for r in run.rounds])
    assert [line.get_xdata()[0] for line in error.lines if line.get_linestyle() == ":"] == [run.chosen.number]


def test_what_a_run_does_not_have_is_not_drawn():
    plain = simile.learn(DEMOS, model=simile.Ridge(), smoothness=9.0)
    assert "sigma" not in lines_of(plain.plot().axes[2])
    assert len(plain.plot().axes) == 3


def test_the_figure_of_an_evaluation_shows_policy_and_expert_and_every_sequence(run):
    judged = simile.evaluate(run.policy, DEMOS)
    left, right = judged.plot(2).axes
    np.testing.assert_array_equal(lines_of(left)["expert"], DEMOS[2].actions[:, 0])
    np.testing.assert_array_equal(lines_of(left)["policy, rolled out"], judged.rolled[2][:, 0])
    expected = [row["rmse"] for row in judged.recordings()]
    np.testing.assert_allclose([bar.get_height() for bar in right.patches], expected)


def test_an_evaluation_shows_the_sequence_of_median_error_and_every_action():
    demos = demos_of(80, 1, 70, 90, k=3, seed=4)
    judged = simile.evaluate(simile.learn(demos, model=simile.Ridge(), smoothness=3.0).policy, demos)
    rmse = np.reshape([row["rmse"] for row in judged.recordings()], (4, 3))
    total = {i: rmse[i].sum() for i in (0, 2, 3)}
    middle = sorted(total, key=total.__getitem__)[1]
    figure = judged.plot()
    assert len(figure.axes) == 6
    assert figure.axes[0].get_title() == demos[middle].name
    assert [axes.get_ylabel() for axes in figure.axes[::2]] == list(demos.action_names)


@pytest.mark.parametrize("sequence", [5, -1, 1.5])
def test_a_sequence_that_is_not_there_is_refused(run, sequence):
    with pytest.raises(ArgumentError, match="sequence must be"):
        simile.evaluate(run.policy, DEMOS).plot(sequence)


def test_the_figure_of_a_frontier_marks_the_knee():
    frontier = simile.path(DEMOS, smoothness=(2.0, 20.0, 200.0), model=simile.Ridge())
    (axes,) = frontier.plot().axes
    assert lines_of(axes)["knee"] ** 2 == pytest.approx(frontier.knee().error)
    assert axes.get_xscale() == "log"


def test_a_default_run_keeps_what_was_tried_to_find_its_smoothness():
    run = simile.learn(DEMOS)
    assert len(run.frontier.points) >= 6
    assert simile.learn(DEMOS, smoothness=20.0, model=simile.Ridge()).frontier is None
