"""The geometry of the camera: what is projected can be found again, and angles mean what they say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import simile
from simile._common import memory
from simile.camera.courts import BASKETBALL, COURTS, SOCCER
from simile.camera.games import Game
from simile.camera.geometry import Base, Camera, Lens
from simile.camera.tracking.recordings import load_game, save_game
from simile.errors import ArgumentError, DataError

courts = st.sampled_from(list(COURTS.values()))
shares = st.floats(-1.0, 1.0)
pans = st.floats(-40.0, 40.0)
tilts = st.floats(-45.0, -5.0)
zooms = st.floats(1.0, 8.0)


bases = st.just(Base()) | st.builds(Base, st.floats(-180.0, 180.0), st.floats(-30.0, 30.0), st.floats(-180.0, 180.0))


@given(courts, bases, shares, shares, pans, tilts, zooms)
def test_a_point_that_is_projected_is_found_again(court, base, along, across, pan, tilt, zoom):
    camera = replace(Camera.beside(court), base=base)
    ground = np.array([along * court.length / 2, across * court.width / 2])
    image = camera.project(ground, pan, tilt, zoom)
    if np.isfinite(image).all() and np.abs(image).max() < 5.0:
        np.testing.assert_allclose(camera.unproject(image, pan, tilt, zoom), ground, atol=1e-6 * court.length)


@given(courts, bases, shares, shares, zooms)
def test_who_aims_at_a_point_has_it_in_the_middle(court, base, along, across, zoom):
    camera = replace(Camera.beside(court), base=base)
    ground = np.array([along * court.length / 2, across * court.width / 2])
    pan, tilt = camera.aim(ground)
    np.testing.assert_allclose(camera.project(ground, pan, tilt, zoom), 0.0, atol=1e-9)


@given(courts, pans, tilts, zooms)
def test_the_corners_of_the_footprint_are_the_corners_of_the_picture(court, pan, tilt, zoom):
    camera = Camera.beside(court)
    ground = camera.footprint(pan, tilt, zoom)
    seen = ~np.isnan(ground).any(axis=1)
    high = 1.0 / camera.lens.aspect
    corners = np.array([[-1.0, -high], [1.0, -high], [1.0, high], [-1.0, high]])
    np.testing.assert_allclose(camera.project(ground[seen], pan, tilt, zoom), corners[seen], atol=1e-6)


@given(bases, pans, tilts, zooms, st.lists(shares, min_size=3, max_size=3))
def test_a_base_turns_the_camera_as_rotations_of_scipy_do(base, pan, tilt, zoom, way):
    camera = Camera((3.0, -20.0, 8.0), base)
    point = np.array([3.0, -20.0, 8.0]) + 10.0 * np.array(way)
    # The body of the camera has x to its right, y ahead and z up; turns are about its own axes, one after the other.
    mount = Rotation.from_euler("ZXY", [-base.heading, base.tilt, base.roll], degrees=True)
    look = Rotation.from_euler("ZX", [-pan, tilt], degrees=True)
    right, ahead, up = (mount * look).inv().apply(point - camera.position)
    seen = camera.project(point, pan, tilt, zoom)
    if ahead > 1e-6:
        expected = np.array([right, up]) / ahead / camera.half_width(zoom)
        np.testing.assert_allclose(seen, expected, rtol=1e-6, atol=1e-6 / ahead)
    elif ahead < -1e-6:
        assert np.isnan(seen).all()


def test_a_camera_that_hangs_sees_the_same_with_all_angles_turned():
    stands, hangs = (Camera((0.0, -20.0, 8.0), Base(roll=roll)) for roll in (0.0, 180.0))
    pan, tilt = stands.aim([4.0, 2.0])
    np.testing.assert_allclose(hangs.aim([4.0, 2.0]), [-pan, -tilt])
    np.testing.assert_allclose(stands.project([5.0, 2.5], 1.0, -20.0, 2.0), -hangs.project([5.0, 2.5], -1.0, 20.0, 2.0))


def test_a_camera_is_told_in_text_and_kept_in_a_file(tmp_path):
    camera = Camera((1.0, -30.0, 9.0), Base(5.0, 1.0, -2.0), Lens(70.0, 1.5))
    assert Camera.from_dict(camera.to_dict()) == camera
    (tmp_path / "it.json").write_text(json.dumps(camera.to_dict()))
    assert Camera.parse(str(tmp_path / "it.json")) == camera
    assert Camera.parse("1,-30,9") == Camera((1.0, -30.0, 9.0))
    assert Camera.parse("1,-30,9,5").base == Base(heading=5.0)
    assert Camera.from_dict({"position": [0, -1, 2], "widest": 50.0, "aspect": 2.0}).lens == Lens(50.0, 2.0)  # of old


@pytest.mark.parametrize("text", ["", "1,2", "1,2,x", "1,2,3,4,5,6,7,8,9", "nan,0,1"])
def test_what_is_no_camera_is_refused(text):
    with pytest.raises(ArgumentError, match=r"x,y,z|finite|position"):
        Camera.parse(text)


@pytest.mark.parametrize("held", ["{", "[]", '{"position": [1, 2]}', '{"position": [1, 2, 3], "lens": {"wide": 3}}'])
def test_a_file_that_holds_no_camera_is_named(held, tmp_path):
    file = tmp_path / "camera.json"
    file.write_text(held)
    with pytest.raises(DataError, match=r"camera\.json"):
        Camera.parse(str(file))
    with pytest.raises(DataError, match="absent"):
        Camera.parse("absent.json")


def test_panning_right_moves_the_world_left_and_looking_up_moves_it_down():
    camera = Camera.beside(BASKETBALL)
    middle = camera.project([0.0, 0.0], 0.0, -25.0, 2.0)
    assert camera.project([0.0, 0.0], 5.0, -25.0, 2.0)[0] < middle[0] == 0.0
    assert camera.project([0.0, 0.0], 0.0, -20.0, 2.0)[1] < middle[1]
    assert camera.aim([5.0, 0.0])[0] > 0.0 > camera.aim([5.0, 0.0])[1]


def test_twice_the_zoom_is_twice_the_size_and_a_third_of_the_view_is_seen():
    camera = Camera.beside(SOCCER)
    one, two = (camera.project([10.0, 5.0], 2.0, -20.0, zoom) for zoom in (1.5, 3.0))
    np.testing.assert_allclose(two, 2.0 * one)
    assert np.degrees(2 * np.arctan(camera.half_width(1.0))) == pytest.approx(camera.lens.widest)


def test_what_is_behind_the_camera_or_above_the_horizon_is_nowhere():
    camera = Camera.beside(BASKETBALL)
    assert np.isnan(camera.project([0.0, -40.0], 0.0, -10.0, 1.0)).all()
    assert np.isnan(camera.unproject([0.0, 0.5], 0.0, 0.0, 1.0)).all()


def test_frames_and_points_broadcast():
    camera = Camera.beside(BASKETBALL)
    points = np.random.default_rng(0).normal(size=(7, 10, 2))
    pan = np.linspace(-10.0, 10.0, 7)[:, np.newaxis]
    together = camera.project(points, pan, -25.0, 2.0)
    np.testing.assert_array_equal(together[3], camera.project(points[3], pan[3], -25.0, 2.0))


def test_the_court_knows_what_lies_on_it():
    assert BASKETBALL.inside(np.array([[0.0, 0.0], [14.5, 0.0], [0.0, -8.0]])).tolist() == [True, False, False]
    assert BASKETBALL.inside(np.array([14.5, 0.0]), margin=1.0)
    assert np.ptp(SOCCER.corners, axis=0).tolist() == [105.0, 68.0]


def game(**changes):
    given = {
        "name": "g",
        "rate": 25.0,
        "court": BASKETBALL,
        "camera": Camera.beside(BASKETBALL),
        "detections": np.zeros((4, 3, 2)),
        "actions": np.zeros((4, 1)),
    }
    return Game(**{**given, **changes})


def test_a_game_completes_a_panning_camera_by_its_tilt_and_zoom():
    assert game().action_names == ("pan",)
    assert game(actions=np.ones((4, 3))).action_names == ("pan", "tilt", "zoom")
    np.testing.assert_array_equal(game(still=(-30.0, 3.0)).view(np.ones((4, 1)))[0], [1.0, -30.0, 3.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": np.zeros((5, 1))}, "actions of 'g' must have 4 frames"),
        ({"actions": np.zeros((4, 2))}, "pan, or pan, tilt and zoom"),
        ({"ball": np.zeros((4, 3))}, "ball of 'g'"),
        ({"detections": np.zeros((4, 2))}, "detections of 'g'"),
        ({"rate": 0.0}, "rate must be > 0"),
    ],
)
def test_a_game_of_the_wrong_shape_is_refused(changes, message):
    with pytest.raises(simile.ArgumentError, match=message):
        game(**changes)


def test_a_game_comes_back_from_its_file(tmp_path):
    rng = np.random.default_rng(0)
    whole = game(
        detections=rng.normal(size=(4, 3, 2)).astype(np.float32).astype(float),
        actions=rng.normal(size=(4, 3)),
        players=np.full((4, 10, 2), np.nan),
        ball=np.zeros((4, 2)),
        possession=np.array([0, 1, -1, 0]),
    )
    save_game(whole, tmp_path / "game.npz")
    back = load_game(tmp_path / "game.npz")
    assert (back.name, back.rate, back.court, back.camera, back.still) == (
        "g",
        25.0,
        BASKETBALL,
        whole.camera,
        whole.still,
    )
    for name in ("detections", "actions", "players", "ball", "possession"):
        np.testing.assert_array_equal(getattr(back, name), getattr(whole, name))


def test_files_that_are_no_games_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "game.npz"
    with pytest.raises(simile.DataError, match="cannot be read"):
        load_game(path)
    np.savez(path, about=np.array("{}"), detections=np.zeros((4, 3, 2)))
    with pytest.raises(simile.DataError, match="no game that simile wrote"):
        load_game(path)
    save_game(game(), path)
    with monkeypatch.context() as patch:
        patch.setattr(memory, "measure_memory", lambda: 1000)
        with pytest.raises(simile.DataError, match=r"it takes .* of memory, and may take 500 bytes"):
            load_game(path)
    data = path.read_bytes()
    for cut in range(0, len(data), 37):
        path.write_bytes(data[:cut])
        with pytest.raises(simile.DataError):
            load_game(path)
