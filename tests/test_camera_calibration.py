"""Calibration: pixels to metres and back, by homographies, cameras and keyframes, and their files."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile import ArgumentError, DataError
from simile.camera.calibration import Calibration, Homography, Keyframes, View, load_calibration, save_calibration
from simile.camera.calibration.views import exact_homography
from simile.camera.courts import BASKETBALL
from simile.camera.geometry import Base, Camera, Lens
from simile.camera.tracking import read_mot

SIZE = (1280, 720)
CAMERA = Camera((3.0, -20.0, 9.0), Base(4.0, 0.0, 1.0), Lens(62.0, 16 / 9))
VIEW = View(CAMERA, SIZE, (2.0, -22.0, 1.0), (-0.15, 0.02))
GROUND = np.random.default_rng(5).uniform([-12.0, -6.0], [12.0, 7.0], (40, 2))
ANGLES = st.floats(-25.0, 25.0)


def pinned(view: View) -> Homography:
    """The homography of a view without distortion, from four of its points."""
    square = np.array([[-3.0, -3.0], [3.0, -3.0], [3.0, 3.0], [-3.0, 3.0]])
    return Homography(exact_homography(view.to_pixels(square), square), view.size)


STRAIGHT = replace(VIEW, distortion=(0.0, 0.0))


# ---------------------------------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("calibration", [VIEW, STRAIGHT, pinned(STRAIGHT), Keyframes((0, 9), (VIEW, VIEW))])
def test_to_pixels_and_back_is_where_we_were(calibration):
    assert isinstance(calibration, Calibration)
    pixels = calibration.to_pixels(GROUND.reshape(4, 10, 2), 3)
    np.testing.assert_allclose(calibration.to_court(pixels, 3), GROUND.reshape(4, 10, 2), atol=1e-6)


@given(ANGLES, st.floats(-35.0, -10.0), st.floats(1.0, 3.0), st.floats(-0.3, 0.3), st.floats(-0.1, 0.1))
def test_a_lens_that_distorts_is_straightened_or_said_to_be_nowhere(pan, tilt, zoom, k1, k2):
    view = View(CAMERA, SIZE, (pan, tilt, zoom), (k1, k2))
    pixels = view.to_pixels(GROUND)
    seen = np.isfinite(pixels).all(axis=1)
    np.testing.assert_allclose(view.to_court(pixels[seen]), GROUND[seen], atol=1e-4)


def test_what_a_barrel_would_fold_back_into_the_picture_is_nowhere():
    view = View(Camera((0.0, -20.0, 9.0)), SIZE, (0.0, -20.0, 1.0), (-0.3, 0.0))
    assert np.isnan(view.to_pixels([60.0, -10.0])).all()
    assert np.isfinite(view.to_pixels([6.0, 0.0])).all()
    assert np.isnan(view.to_court([-4000.0, 360.0])).all()


def test_a_homography_agrees_with_the_camera_that_it_was_made_of():
    plan = pinned(STRAIGHT)
    np.testing.assert_allclose(plan.to_pixels(GROUND), STRAIGHT.to_pixels(GROUND), atol=1e-6)
    sky = [[640.0, -600.0], [10.0, -800.0]]
    assert np.isnan(plan.to_court(sky)).all()
    assert np.isnan(STRAIGHT.to_court(sky)).all()
    assert np.isnan(plan.to_pixels([3.0, -60.0])).all()  # behind the camera
    flipped = Homography(-7.0 * plan.matrix)
    np.testing.assert_allclose(flipped.to_court([640.0, 360.0]), plan.to_court([640.0, 360.0]))


def test_ground_that_the_middle_of_the_court_is_not_part_of_is_found_all_the_same():
    view = View(Camera((40.0, 0.0, 9.0), Base(90.0)), SIZE, (0.0, -22.0, 1.0))  # looks away from the court
    far = np.array([[60.0, -3.0], [60.0, 3.0], [70.0, 3.0], [70.0, -3.0]])
    plan = Homography(exact_homography(view.to_pixels(far), far), seen=(65.0, 0.0))
    np.testing.assert_allclose(plan.to_court(view.to_pixels([63.0, 1.0])), [63.0, 1.0], atol=1e-6)
    assert np.isnan(plan.to_pixels([0.0, 0.0])).all()


def test_a_homography_knows_of_nothing_above_the_ground():
    np.testing.assert_array_equal(pinned(STRAIGHT).to_pixels([1.0, 1.0, 0.0]), pinned(STRAIGHT).to_pixels([1.0, 1.0]))
    with pytest.raises(ArgumentError, match="--model camera"):
        pinned(STRAIGHT).to_pixels([1.0, 1.0, 2.44])
    assert VIEW.to_pixels([1.0, 1.0, 2.44])[1] < VIEW.to_pixels([1.0, 1.0])[1]


@pytest.mark.parametrize("calibration", [VIEW, pinned(STRAIGHT), Keyframes((0, 5), (VIEW, VIEW))])
def test_the_same_picture_at_another_size_and_one_of_another_shape(calibration):
    half = calibration.resized((640, 360))
    assert half.size == (640, 360)
    np.testing.assert_allclose(half.to_pixels(GROUND, 1), calibration.to_pixels(GROUND, 1) / 2.0)
    with pytest.raises(DataError, match="1280 x 720 pixels, and this one has 1280 x 960, which is another shape"):
        calibration.resized((1280, 960))


# ---------------------------------------------------------------------------------------------------------- keyframes


def test_between_keyframes_a_head_turns_evenly_and_zooms_by_a_factor():
    poses = (-10.0, -20.0, 1.0), (10.0, -24.0, 4.0)
    moving = Keyframes((100, 200), tuple(replace(VIEW, pose=pose) for pose in poses))
    np.testing.assert_allclose(np.array(moving.poses([100, 150, 200])).T, [poses[0], (0.0, -22.0, 2.0), poses[1]])
    there = replace(VIEW, pose=(0.0, -22.0, 2.0))
    np.testing.assert_allclose(moving.to_pixels(GROUND, 150), there.to_pixels(GROUND))
    many = moving.to_pixels(GROUND[:3], [100, 150, 200])
    np.testing.assert_allclose(many[1], there.to_pixels(GROUND[1]))


def test_between_homographies_fixed_points_move_evenly():
    views = [replace(STRAIGHT, pose=(pan, -22.0, 1.0)) for pan in (0.0, 2.0, 4.0)]
    moving = Keyframes((0, 20), (pinned(views[0]), pinned(views[2])))
    assert moving.poses(3) is None
    for frame, view in zip((0, 10, 20), views, strict=True):
        seen = GROUND[np.hypot(*GROUND.T) < 8.0]
        # A turn of four degrees: in the middle of it, a straight line between its ends is nearly right.
        np.testing.assert_allclose(moving.to_pixels(seen, frame), view.to_pixels(seen), atol=2.0)
        np.testing.assert_allclose(moving.to_court(moving.to_pixels(seen, frame), frame), seen, atol=1e-6)
    mixed = moving.to_court(np.full((3, 2), 400.0), [0, 10, 20])
    np.testing.assert_allclose(mixed[2], pinned(views[2]).to_court([400.0, 400.0]))


def test_frames_that_were_not_calibrated_are_refused():
    moving = Keyframes((10, 20), (VIEW, VIEW))
    for frame, words in ((None, "frame must be given: .* frames 10 to 20"), ([12, 25], "frame 25 is outside")):
        with pytest.raises((ArgumentError, DataError), match=words):
            moving.to_court([[1.0, 1.0], [2.0, 2.0]], frame)
    with pytest.raises(ArgumentError, match="in order"):
        Keyframes((3, 3), (VIEW, VIEW))
    with pytest.raises(ArgumentError, match="one size"):
        Keyframes((3, 4), (VIEW, replace(VIEW, size=(640, 360))))


# --------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    "calibration",
    [
        VIEW,
        Homography(pinned(STRAIGHT).matrix, seen=(1.0, 2.0)),
        Keyframes((3, 7), (VIEW, replace(VIEW, pose=(5.0, -20.0, 2.0)))),
        Keyframes((3, 7), (pinned(STRAIGHT), pinned(STRAIGHT))),
    ],
)
def test_a_calibration_comes_back_from_its_file_as_it_was(tmp_path, calibration):
    path = tmp_path / "new" / "calibration.json"
    save_calibration(calibration, path, about={"pairs": 4})
    back = load_calibration(path)
    assert type(back) is type(calibration)
    np.testing.assert_array_equal(back.to_pixels(GROUND, 5), calibration.to_pixels(GROUND, 5))
    assert back.to_dict() == calibration.to_dict()
    if "position" in calibration.to_dict():
        assert Camera.parse(str(path)) == VIEW.camera  # the same file tells --camera


@pytest.mark.parametrize("name", ["h.json", "h.csv", "h.txt", "h.npy"])
def test_a_plain_matrix_is_a_homography(tmp_path, name):
    matrix, path = pinned(STRAIGHT).matrix, tmp_path / name
    if name == "h.npy":
        np.save(path, matrix)
    elif name == "h.json":
        path.write_text(json.dumps(matrix.tolist()))
    else:
        np.savetxt(path, matrix, delimiter="," if name == "h.csv" else " ", fmt="%.17g")
    np.testing.assert_allclose(load_calibration(path).matrix, matrix, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.json", "{", "cannot be read as a calibration"),
        ("a.json", "{}", "must say .*simile-calibration"),
        ("a.json", '{"format": "simile-calibration", "model": "homography"}', "has no 'matrix'"),
        ("a.json", '{"format": "simile-calibration", "model": "camera", "position": 3, "size": [1, 2]}', "no camera"),
        ("a.json", "[[1, 2], [3, 4]]", "invertible"),
        ("a.txt", "1 2 3\n4 5 6\n7 8 x", "could not convert"),
        ("a.csv", "1,2,3\n4,5,6\n7,8,9", "invertible"),
        ("a.npy", "pickled", "cannot be read as an array"),
    ],
)
def test_a_file_that_is_no_calibration_is_named(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=words) as caught:
        load_calibration(tmp_path / name)
    assert name in str(caught.value)
    with pytest.raises(DataError, match="there is no such file"):
        load_calibration(tmp_path / "none.json")


def test_no_pickle_is_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([object()], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="allow_pickle"):
        load_calibration(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"size": (1280,)}, "size must be"),
        ({"size": (1280, 0)}, "size must be >= 1"),
        ({"pose": (0.0, 0.0)}, "pose must be 3 numbers"),
        ({"pose": (0.0, 0.0, 0.0)}, "zoom"),
        ({"distortion": 3.0}, "distortion must be 2"),
    ],
)
def test_a_view_that_cannot_be_is_refused(wrong, words):
    with pytest.raises(ArgumentError, match=words):
        replace(VIEW, **wrong)


# --------------------------------------------------------------------------------------------------------------- boxes


def test_boxes_are_put_on_the_ground_by_any_calibration(tmp_path):
    moving = Keyframes((0, 1), (VIEW, replace(VIEW, pose=(12.0, -20.0, 1.5))))
    feet = np.stack([moving.to_pixels([1.0, 2.0], frame) for frame in (0, 1)])
    rows = [f"{i + 1},-1,{u - 10},{v - 60},20,60,1,-1,-1,-1" for i, (u, v) in enumerate(feet)]
    (tmp_path / "det.txt").write_text("\n".join(rows))
    save_calibration(moving, tmp_path / "c.json")
    for given_as in (moving, load_calibration(tmp_path / "c.json")):
        (game,) = read_mot(tmp_path / "det.txt", given_as, court=BASKETBALL, rate=25.0)
        np.testing.assert_allclose(game.detections[:, 0], [[1.0, 2.0]] * 2, atol=1e-6)
