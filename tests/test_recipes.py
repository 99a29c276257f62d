"""Recipes as text: what a config file may say, and what it may not."""

from __future__ import annotations

import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline

import simile
from simile.learning.recipes import NAMES, parse

RECIPES = [
    simile.SmoothForest(n_trees=7, criterion=simile.Criterion.SMOOTH, bagging=simile.Bagging.SEQUENCES),
    simile.SmoothForest(max_features=0.3, max_depth=None),
    simile.CriticallyDamped(order=2),
    simile.VelocityAutoregression(order=4, ridge=0.1),
    simile.Horizon((0, 1, 5), ()),
    simile.LineSearch((0.1, 0.9)),
    simile.ImitationRule(),
]


@pytest.mark.parametrize("recipe", RECIPES, ids=repr)
def test_what_repr_shows_of_a_recipe_can_be_read_back(recipe):
    assert parse(repr(recipe), "recipe") == recipe


def test_a_schedule_is_read_back_as_it_is_shown():
    feedback = simile.SmoothFeedback(simile.geometric(0.7, 0.5))
    assert repr(parse("SmoothFeedback(geometric(0.7, 0.5))", "feedback")) == repr(feedback)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("SmoothFeedback(0.5)", "SmoothFeedback(schedule=constant(0.5))"),
        ("SmoothFeedback(linear)", "SmoothFeedback(schedule=linear(1))"),
        ("SmoothFeedback(linear(0.5))", "SmoothFeedback(schedule=linear(0.5))"),
    ],
)
def test_sigma_may_be_a_number_or_fall_to_0(text, read):
    assert repr(parse(text, "feedback")) == read


def test_a_list_of_sigmas_is_refused_with_what_is_taken():
    with pytest.raises(simile.ArgumentError, match=r"schedule must be a Schedule, a number or .*; got \(0.9, 0.1\)"):
        parse("SmoothFeedback([0.9, 0.1])", "feedback")


def test_numbers_negative_numbers_and_bare_names_are_understood():
    assert parse("0.5", "step_size") == 0.5
    assert parse("ErrorRatio", "step_size") == simile.ErrorRatio()
    assert parse("ActionSpace(low=-90, high=[90, 1])", "space").low[0] == -90.0
    assert parse(3.0, "smoothness") == 3.0


def test_estimators_of_scikit_learn_can_be_written_and_nested():
    assert parse("sklearn.linear_model.Ridge(alpha=2.0)", "model").alpha == 2.0
    steps = "[('s', sklearn.preprocessing.StandardScaler()), ('r', sklearn.linear_model.Ridge())]"
    pipeline = parse(f"sklearn.pipeline.Pipeline({steps})", "model")
    assert isinstance(pipeline, Pipeline)
    assert isinstance(pipeline.steps[1][1], Ridge)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "os.system('true')",
        "sklearn.utils.os.system('true')",
        "sklearn.externals._packaging.version",
        "open('x')",
        "SmoothForest(**{})",
        "SmoothForest().__class__",
        "[x for x in (1,)]",
        "lambda: 1",
        "SmoothForest(n_trees=",
        "SmoothForest(trees=3)",
        "SmoothForest(n_trees=-1)",
        "Criterion.NOTHING",
        "sklearn.nothing.Ridge()",
        "sklearn.linear_model.Nothing()",
        "sklearn.datasets.load_iris()",
        "(" * 2000 + ")" * 2000,
        "",
    ],
)
def test_anything_else_is_refused_with_the_option_and_the_way_out(text):
    with pytest.raises(simile.ArgumentError, match="model"):
        parse(text, "model")


def test_every_name_that_a_recipe_may_use_exists_and_is_public():
    assert set(simile.__all__) > NAMES
