"""A policy for one camera at work on another: the same places of the court, whoever looks at them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from simile.camera.courts import BASKETBALL
from simile.camera.features import demonstrations
from simile.camera.geometry import Camera, Lens
from simile.camera.retarget import Retarget, refilm
from simile.camera.simulation import simulate
from simile.learning.recipes import parse
from simile.online import Predictor, RateLimit
from simile.policies.rollouts import ColdStart, rollout

HOME = Camera.beside(BASKETBALL)
CORNER = Camera((-18.0, -12.0, 5.0), (55.0, -3.0, 4.0), (45.0, 4.0 / 3.0))
FAR = Camera((4.0, 18.0, 9.0), (180.0, 0.0, 0.0))


@st.composite
def cameras(draw):
    """A camera beside the court, facing it, on any base."""
    x, away, z = draw(st.floats(-16, 16)), draw(st.floats(9, 40)), draw(st.floats(2, 20))
    side = draw(st.sampled_from([-1.0, 1.0]))
    heading = np.degrees(np.arctan2(-x, -side * away)) + draw(st.floats(-15, 15))
    base = (heading, draw(st.floats(-10, 10)), draw(st.floats(-15, 15)))
    return Camera((x, side * away, z), base, (draw(st.floats(20, 90)), 16 / 9))


@given(cameras(), cameras(), st.lists(st.tuples(st.floats(-14, 14), st.floats(-7, 7)), min_size=1, max_size=5))
def test_the_other_camera_looks_at_the_same_place(source: Camera, target: Camera, places):
    there = np.array(places)
    turn, zoom = Retarget(source, target), np.full(len(there), 50.0)
    looked = np.column_stack([*source.aim(there), zoom])
    turned = turn.apply(looked)
    np.testing.assert_allclose(turned[:, :2], np.column_stack(target.aim(there)), atol=1e-6)
    np.testing.assert_allclose(turn.undo(turned), looked, rtol=1e-6, atol=1e-6)
    on_axis = there * [1.0, 0.0]
    pans = source.aim(on_axis)[0][:, np.newaxis]
    np.testing.assert_allclose(turn.apply(pans)[:, 0], target.aim(on_axis)[0], atol=1e-6)
    np.testing.assert_allclose(turn.undo(turn.apply(pans)), pans, atol=1e-6)


def test_the_picture_keeps_its_width_at_the_aim():
    wide = replace(HOME, lens=Lens(30.0))
    turn = Retarget(HOME, replace(wide, position=(0.0, -33.0, 16.5)))
    # Twice as far with a lens half as wide: the tangents tell how much.
    ((pan, tilt, zoom),) = turn.apply(np.array([[0.0, float(HOME.aim([0.0, 0.0])[1]), 2.0]]))
    assert (pan, tilt) == pytest.approx((0.0, float(HOME.aim([0.0, 0.0])[1])))
    assert zoom == pytest.approx(2.0 * 2.0 * np.tan(np.radians(15.0)) / np.tan(np.radians(30.0)))
    assert turn.apply(np.array([[0.0, tilt, 0.5]]))[0, 2] == 1.0  # no lens shows more than it can


def test_what_never_meets_the_court_is_held_far_away_and_smooth_stays_smooth():
    turn = Retarget(HOME, CORNER)
    pans = np.linspace(-170.0, 170.0, 2001)[:, np.newaxis]
    turned = turn.apply(pans)
    assert np.isfinite(turned).all()
    assert np.abs(np.diff(turned[:, 0])).max() < 3.0  # no jump, where a step is 0.17 degrees
    up = np.column_stack([np.zeros(500), np.linspace(-40.0, 89.0, 500), np.full(500, 2.0)])
    looked = turn.apply(up)
    assert np.isfinite(looked).all()
    assert np.abs(np.diff(looked[:, :2], axis=0)).max() < 3.0


@pytest.mark.parametrize(
    ("source", "target", "k", "word"),
    [
        ("0,-20,8", "0,-20,0", 1, "above the ground"),
        ("0,-20,8", "0,20,8", 1, "heading of 180"),
        ("0,-20,8", "-25,0.2,8,90", 1, "long axis"),
        ("-25,0,8,90", "0,-20,8", 1, "long axis"),
        ("0,-20,8", "0,-25,8", 2, "got 2"),
        ("0,-20,8", "a,b", 1, "x,y,z"),
        ("0,-20,8", 7, 1, "target must be a camera"),
    ],
)
def test_what_cannot_be_is_refused(source: str, target: str, k: int, word: str):
    with pytest.raises(simile.ArgumentError, match=word):
        Retarget(source, target).apply(np.zeros((1, k)))


def test_it_is_a_recipe_and_reads_back_what_it_shows():
    turn = Retarget(HOME, CORNER)
    assert repr(turn) == "Retarget('0,-16.5,8.25', '-18,-12,5,55,-3,4,45,1.3333333333333333')"
    assert parse(repr(turn), "stage") == turn
    assert parse("Retarget('0,-16.5,8.25', '4,18,9,180')", "stage") == simile.Retarget(HOME, FAR)


@pytest.fixture(scope="module")
def filmed():
    """Games filmed from beside the court, a policy that has learned from them, and another game."""
    games = simulate(5, minutes=0.6, seed=3)
    demos = demonstrations(games)
    run = simile.clone(demos[:4], horizon=simile.Horizon((0, 2, 4, 8, 16), 0), model=simile.SmoothForest(n_trees=8))
    return run.policy, games[4], demos[4:]


@pytest.mark.parametrize("camera", [CORNER, FAR], ids=["corner", "far"])
def test_a_policy_films_from_elsewhere(filmed, camera: Camera):
    policy, game, _ = filmed
    (there,) = simulate(5, minutes=0.6, seed=3, camera=camera)[4:]  # the same game, its own operator
    demos, turn = demonstrations(there), Retarget(game.camera, camera)
    errors = {
        name: float(np.sqrt(np.mean((rollout(policy, demos, stages=stages)[0] - there.actions)[20:] ** 2)))
        for name, stages in (("as it is", ()), ("re-aimed", turn))
    }
    assert errors["re-aimed"] < 0.4 * errors["as it is"], errors


def test_an_operator_at_the_other_camera_is_understood_by_the_policy(filmed):
    policy, game, demos = filmed
    turn = Retarget(HOME, CORNER)
    moved = refilm(game, CORNER)
    there = demonstrations(moved, None)
    np.testing.assert_allclose(turn.undo(there.actions[0]), demos.actions[0], atol=1e-9)
    home = rollout(policy, demos)[0]
    np.testing.assert_allclose(rollout(policy, there, stages=turn)[0], turn.apply(home), atol=1e-9)
    # The same bits online, from where the operator leaves off; a limit behind it is in the other camera's degrees.
    predictor = Predictor(policy, stages=(turn, RateLimit(4.0)))
    for t in range(30):
        predictor.override(moved.actions[t], there.contexts[0][t])
    np.testing.assert_allclose(
        predictor._streams.history.last(np.arange(1)) * policy.units.scale + policy.units.center,
        demos.actions[0][29:30],
        atol=1e-9,
    )
    last = moved.actions[29]
    for x in there.contexts[0][30:60]:
        now = predictor.step(x)
        assert abs(now - last).max() <= 4.0 / 25.0 + 1e-9
        last = now
    cold = rollout(policy, list(there.contexts), start=ColdStart(), stages=turn)[0]
    np.testing.assert_allclose(cold, turn.apply(rollout(policy, list(demos.contexts), start=ColdStart())[0]), atol=1e-9)


def test_a_game_refilmed_and_back_is_the_game(filmed):
    _, game, _ = filmed
    back = refilm(refilm(game, FAR), HOME)
    np.testing.assert_allclose(back.actions, game.actions, atol=1e-9)
    assert back.still == pytest.approx(game.still)
    assert refilm(game, HOME) is game
