"""Finding calibrations from point pairs: what is found, how well it fits, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commands import simile_
from simile import ArgumentError, DataError
from simile.camera.calibration import Homography, Keyframes, View, calibrate, landmarks, load_calibration, read_pairs
from simile.camera.calibration.overlay import LINE, draw_overlay, read_picture, trace
from simile.camera.courts import BASKETBALL, COURTS, SOCCER, Court
from simile.camera.film.scene import markings
from simile.camera.geometry import Base, Camera, Lens
from simile.camera.sight import choose_calibration

cv2 = pytest.importorskip("cv2", reason="needs the extra vision")

SIZE = (1920, 1080)
CAMERA = Camera((3.0, -55.0, 18.0), Base(8.0, 0.0, 1.5), Lens(70.0))
VIEW = View(CAMERA, SIZE, (0.0, -17.0, 1.0), (-0.12, 0.02))
STRAIGHT = replace(VIEW, distortion=(0.0, 0.0))
NAMES = [name for name, point in landmarks(SOCCER).items() if point[2] == 0.0]
PLACES = np.array([landmarks(SOCCER)[name] for name in NAMES])


def seen(view: View, *, noise: float = 0.0, points=PLACES, seed: int = 1) -> np.ndarray:
    """Rows u, v, x, y, z of what of the landmarks is in the picture."""
    pixels = view.to_pixels(points)
    inside = ((pixels > 0.0) & (pixels < view.size)).all(axis=1)
    wrong = noise * np.random.default_rng(seed).normal(size=pixels.shape)
    return np.column_stack([pixels + wrong, points])[inside]


def table(path, rows, header="u,v,x,y,z"):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]))
    return path


# ----------------------------------------------------------------------------------------------------------- landmarks


@pytest.mark.parametrize("court", COURTS.values(), ids=lambda court: court.name)
def test_landmarks_on_the_ground_lie_on_the_lines_that_are_drawn(court):
    ends = [np.stack([line[:-1], line[1:]], axis=1) for line in markings(court)]
    a, b = np.concatenate(ends).transpose(1, 0, 2)
    for name, (x, y, z) in landmarks(court).items():
        if z == 0.0 and "spot" not in name and name != "centre":
            share = np.clip(((np.array([x, y]) - a) * (b - a)).sum(1) / ((b - a) ** 2).sum(1), 0.0, 1.0)
            away = np.linalg.norm(a + share[:, np.newaxis] * (b - a) - [x, y], axis=1).min()
            assert away < 0.1, name


def test_a_court_of_any_sport_has_corners_and_a_middle():
    found = landmarks(Court("quidditch", 60.0, 33.0, goal=27.0))
    assert found["right far corner"] == (30.0, 16.5, 0.0)
    assert len(found) == 7


# ------------------------------------------------------------------------------------------------------------ what fits


def test_a_homography_is_found_and_its_misses_are_told():
    fit = calibrate(seen(STRAIGHT, noise=1.0), size=SIZE)
    assert isinstance(fit.calibration, Homography)
    inside = np.array([[0.0, 0.0], [-30.0, 10.0], [40.0, 20.0], [10.0, -20.0]])
    assert np.linalg.norm(fit.calibration.to_pixels(inside) - STRAIGHT.to_pixels(inside), axis=1).max() < 2.5
    assert 0.5 < np.median(fit.pixels) < 2.0
    assert np.median(fit.metres) < 0.3
    assert fit.calibration.size == SIZE
    about = fit.to_dict()
    assert about["worst_pixels"] == pytest.approx(fit.pixels.max())
    assert about["worst"] in str(fit)
    assert "in the median" in str(fit)


def test_points_by_name_are_those_of_the_court_whatever_the_order_of_the_words(tmp_path):
    view = View(Camera.beside(BASKETBALL), SIZE, (0.0, -25.0, 1.0))
    names = ["Left near corner", "corner_right_near", "far left corner", "right far corner", "Center", "left key far"]
    points = [(-14.0, -7.5), (14.0, -7.5), (-14.0, 7.5), (14.0, 7.5), (0.0, 0.0), (-8.2, 2.45)]
    rows = [[*view.to_pixels(point), name] for point, name in zip(points, names, strict=True)]
    fit = calibrate(table(tmp_path / "pairs.csv", rows, "u,v,name"), court=BASKETBALL)
    np.testing.assert_allclose(fit.calibration.to_court(view.to_pixels([5.0, 3.0])), [5.0, 3.0], atol=1e-6)
    assert fit.pairs.names == tuple(names)
    mixed = [[*view.to_pixels(p), *p, ""] for p in points[:3]] + [[*view.to_pixels(points[4]), "", "", "centre"]]
    pairs = read_pairs(table(tmp_path / "mixed.csv", mixed, " U;v;X;y;Name".replace(";", ",")), BASKETBALL)
    np.testing.assert_allclose(pairs.points[:, :2], [*points[:3], points[4]])
    with pytest.raises(DataError, match=r"row 1, column 'name': .*of which court\? Say it with --sport"):
        calibrate(tmp_path / "pairs.csv")


@pytest.mark.parametrize(("noise", "metres", "degrees"), [(0.0, 0.02, 0.01), (1.0, 0.6, 0.15)])
def test_a_camera_is_found_where_it_stands_with_its_lens(noise, metres, degrees):
    """The truth is `Camera.project`; the way to it begins with OpenCV's solvePnP."""
    fit = calibrate(seen(VIEW, noise=noise), model="camera", size=SIZE)
    found = fit.calibration
    assert isinstance(found, View)
    assert np.linalg.norm(np.subtract(found.camera.position, CAMERA.position)) < metres
    np.testing.assert_allclose(found.camera.base, CAMERA.base, atol=degrees)
    np.testing.assert_allclose(found.pose, VIEW.pose, atol=degrees)
    assert abs(found.camera.lens.widest - 70.0) < 5.0 * degrees
    assert abs(found.distortion[0] + 0.12) < 0.05
    assert fit.doubt["position"] < 2.0 * metres
    assert "camera at 3." in str(fit) or "camera at 2." in str(fit)


def test_what_opencv_projects_is_what_a_camera_is_found_from():
    """Another path to the same picture: a camera looking along an axis of its own, by OpenCV alone."""
    focal, place = 1500.0, np.array([-10.0, -60.0, 20.0])
    tilt = np.radians(-18.0)
    turned = np.array([[1.0, 0.0, 0.0], [0.0, np.sin(tilt), -np.cos(tilt)], [0.0, np.cos(tilt), np.sin(tilt)]])
    lens = np.array([[focal, 0.0, 960.0], [0.0, focal, 540.0], [0.0, 0.0, 1.0]])
    bends = np.array([-0.1, 0.01, 0.0, 0.0])
    pixels, _ = cv2.projectPoints(PLACES, cv2.Rodrigues(turned)[0], -turned @ place, lens, bends)
    fit = calibrate(np.column_stack([pixels[:, 0], PLACES]), model="camera", size=SIZE)
    np.testing.assert_allclose(fit.calibration.camera.position, place, atol=0.05)
    np.testing.assert_allclose(fit.calibration.camera.base, [0.0, 0.0, 0.0], atol=0.02)
    np.testing.assert_allclose(fit.calibration.pose, [0.0, -18.0, 1.0], atol=0.02)
    assert 960.0 / np.tan(np.radians(fit.calibration.camera.lens.widest / 2.0)) == pytest.approx(focal, rel=1e-3)
    assert fit.pixels.max() < 0.1


def test_six_points_are_enough_for_a_camera_and_points_may_have_a_height():
    few = seen(STRAIGHT)[[0, 3, 7, 9, 12, 14]]
    fit = calibrate(few, model="camera", size=SIZE)
    assert np.linalg.norm(np.subtract(fit.calibration.camera.position, CAMERA.position)) < 0.1
    high = np.array([p for p in landmarks(SOCCER).values() if p[2] > 0.0])
    both = np.concatenate([few, seen(STRAIGHT, points=high)])
    fit = calibrate(both, model="camera", size=SIZE)
    assert np.linalg.norm(np.subtract(fit.calibration.camera.position, CAMERA.position)) < 0.05
    assert np.isnan(fit.metres[6:]).all()
    assert np.isfinite(fit.metres[:6]).all()


def test_wrong_points_among_many_are_left_out_and_named():
    rows = seen(STRAIGHT, noise=0.5)
    rows[3, :2] += [80.0, -30.0]
    rows[8, :2] += [-40.0, 60.0]
    for model in ("homography", "camera"):
        fit = calibrate(rows, model=model, size=SIZE)
        assert fit.left_out == ("point 4", "point 9")
        assert "left out: point 4, which is 8" in str(fit)
        centre = fit.calibration.to_pixels([0.0, 0.0])
        assert np.linalg.norm(centre - STRAIGHT.to_pixels([0.0, 0.0])) < 2.0


def test_a_lens_that_bends_the_whole_picture_makes_no_point_a_wrong_one():
    rows = seen(VIEW, noise=0.5)
    fit = calibrate(rows)
    assert fit.left_out == ()
    assert np.median(fit.metres) < 0.6
    rows[5, 0] += 90.0  # but one that is wrong is still found, alone
    assert calibrate(rows).left_out == ("point 6",)


def test_a_third_of_the_points_may_be_wrong():
    rows = seen(STRAIGHT, noise=0.5)
    wrong = np.arange(0, len(rows), 3)
    rows[wrong, :2] = np.random.default_rng(4).uniform(100.0, 900.0, (len(wrong), 2))
    fit = calibrate(rows)
    assert set(np.flatnonzero(~fit.kept)) == set(wrong)
    assert fit.pixels[fit.kept].max() < 3.0


# ------------------------------------------------------------------------------------------------------ moving cameras


def moving_pairs(poses, *, noise=0.3):
    """Rows of what a camera on a head sees in frames 0, 50, 100, ..."""
    camera = Camera((0.0, -60.0, 20.0), Base(0.0, 0.7, -0.6), Lens(40.0))
    rows = []
    for i, pose in enumerate(poses):
        found = seen(View(camera, SIZE, pose), noise=noise, seed=i)
        rows += [[*row, 50 * i] for row in found]
    return camera, np.array(rows)


POSES = [(-18.0, -17.0, 1.0), (0.0, -18.0, 1.3), (20.0, -16.0, 1.1)]


def test_a_head_that_turns_and_zooms_is_found_from_a_few_frames(tmp_path):
    camera, rows = moving_pairs(POSES)
    fit = calibrate(table(tmp_path / "p.csv", rows, "u,v,x,y,z,frame"), model="camera", size=SIZE)
    moving = fit.calibration
    assert isinstance(moving, Keyframes)
    assert moving.view is not None
    assert np.linalg.norm(np.subtract(moving.view.camera.position, camera.position)) < 0.5
    np.testing.assert_allclose(moving.view.camera.base, camera.base, atol=0.15)
    between = np.array(moving.poses([25, 75])).T
    np.testing.assert_allclose(between[:, 0], [-9.0, 10.0], atol=0.2)
    np.testing.assert_allclose(between[1, 2] / between[0, 2], np.sqrt(1.3 * 1.1) / np.sqrt(1.3), rtol=0.01)
    truth = View(camera, SIZE, (10.0, -17.0, float(np.sqrt(1.3 * 1.1))))
    points = seen(truth)[:, 2:]
    assert np.linalg.norm(moving.to_pixels(points, 75) - truth.to_pixels(points), axis=1).max() < 6.0
    with pytest.raises(DataError, match="frame 120 is outside of what was calibrated, 0 to 100"):
        moving.to_court([[960.0, 540.0]], 120)
    assert "camera from" in str(fit) or "keyframes from" in str(fit)


@pytest.mark.parametrize("n", [1, 3])
def test_with_what_the_head_told_the_camera_counts_as_the_head_does(n, tmp_path: Path):
    """A head whose zero looks 25 degrees to the right of straight across, on a base that is not quite level."""
    camera = Camera((0.0, -60.0, 20.0), Base(25.0, -1.5, 0.8), Lens(55.0))
    poses = np.array([(-35.0, -16.0, 1.2), (-20.0, -16.0, 1.6), (-5.0, -17.0, 1.4)])[:n]
    rows = [
        [*row, 50 * i]
        for i, pose in enumerate(poses)
        for row in seen(View(camera, SIZE, tuple(pose)), noise=0.3, seed=i)
    ]
    table(tmp_path / "p.csv", rows, "u,v,x,y,z,frame")
    table(tmp_path / "poses.csv", [[2.0 * i, *pose] for i, pose in enumerate(poses)], "t,pan,tilt,zoom")
    simile_(
        *("camera", "calibrate", "p.csv", "--model", "camera", "--size", "1920", "1080", "--poses", "poses.csv"),
        cwd=tmp_path,
    )
    made = choose_calibration(calibration=tmp_path / "calibration.json", poses=tmp_path / "poses.csv")
    found = made.view.camera
    assert np.linalg.norm(np.subtract(found.position, camera.position)) < (0.5 if n > 1 else 1.5)
    np.testing.assert_allclose(found.base, camera.base, atol=0.15 if n > 1 else 0.4)
    assert found.lens.widest == pytest.approx(55.0, abs=0.5 if n > 1 else 1.5)
    # Another pose than those that were clicked in.
    there = ((-12.0, -15.0, 1.3), (3.0, 4.0))
    off = made.view.to_pixels(there[1], pose=there[0]) - View(camera, SIZE, there[0]).to_pixels(there[1])
    assert np.linalg.norm(off) < 6.0
    # A calibration without the head must not be taken for one with it.
    simile_("camera", "calibrate", "p.csv", "--model", "camera", "--size", "1920", "1080", cwd=tmp_path)
    with pytest.raises(ArgumentError, match="was found without the head"):
        choose_calibration(calibration=tmp_path / "calibration.json", poses=tmp_path / "poses.csv")
    told = simile_("camera", "calibrate", "p.csv", "--poses", "poses.csv", cwd=tmp_path, code=2).stderr
    assert "--model camera" in told
    table(tmp_path / "short.csv", [[9.0, 0.0, -20.0]], "t,pan,tilt")
    told = simile_("camera", "calibrate", "p.csv", "--poses", "short.csv", cwd=tmp_path, code=2).stderr
    assert "short.csv does not tell where the head looked at 0.00 s" in told
    with pytest.raises(ArgumentError, match="poses must be pan, tilt and zoom > 0 in each of the 1 frames"):
        calibrate(seen(VIEW), model="camera", size=SIZE, poses=np.zeros((2, 3)))


def test_a_frame_with_two_points_will_do_where_others_tell_the_place(tmp_path):
    _, rows = moving_pairs([(-18.0, -17.0, 1.0), (-9.0, -17.0, 1.0), (0.0, -17.0, 1.0)], noise=0.0)
    few = np.concatenate([rows[rows[:, 5] != 50], rows[rows[:, 5] == 50][[0, 4]]])
    fit = calibrate(table(tmp_path / "p.csv", few, "u,v,x,y,z,frame"), model="camera", size=SIZE)
    np.testing.assert_allclose(fit.calibration.poses(50), [-9.0, -17.0, 1.0], atol=0.05)


def test_homographies_of_frames_are_interpolated(tmp_path):
    camera, rows = moving_pairs([(0.0, -18.0, 1.0), (2.0, -18.0, 1.0)], noise=0.0)
    straight = rows[:, [0, 1, 2, 3, 5]]
    fit = calibrate(table(tmp_path / "p.csv", straight, "u,v,x,y,frame"), size=SIZE)
    assert isinstance(fit.calibration, Keyframes)
    truth = View(camera, SIZE, (1.0, -18.0, 1.0))
    assert np.linalg.norm(fit.calibration.to_pixels([3.0, 2.0], 25) - truth.to_pixels([3.0, 2.0])) < 1.0
    few = straight[(straight[:, 4] == 0) | (np.arange(len(straight)) > len(straight) - 4)]
    with pytest.raises(DataError, match="3 points on the ground in frame 50 are too few"):
        calibrate(table(tmp_path / "q.csv", few, "u,v,x,y,frame"), size=SIZE)


# --------------------------------------------------------------------------------------------------------- what is not


CORNERS = [[-40.0, -20.0], [40.0, -20.0], [40.0, 30.0], [-40.0, 30.0], [0.0, 0.0], [20.0, 10.0], [-20.0, 25.0]]


def rows_of(points, view=STRAIGHT):
    return np.column_stack([view.to_pixels(points), points])


def spoilt(n, index, by=(90.0, 70.0)):
    rows = rows_of(CORNERS[:n])
    rows[index, :2] += by
    return rows


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (rows_of(CORNERS[:3]), "3 points on the ground are too few: a picture needs 4 or more"),
        (rows_of([[x, 5.0] for x in range(-20, 21, 10)]), "the 5 points lie on a line in the court"),
        (rows_of([[-20.0, 5.0], [0.0, 5.0], [20.0, 5.0], [0.0, 20.0]]), "all but one of the points lie on a line"),
        (rows_of(CORNERS[:4])[[0, 1, 2, 3]] * [1, 1, -1, 1], "mirrored: no camera above the ground"),
        (spoilt(5, 4, (250.0, 150.0)), "the 5 points do not fit together: .* add a sixth"),
        (spoilt(7, 5), r"point 6 spoils the others: without it they fit to 0\.0 pixels, and it is 11\d pixels off"),
        (np.column_stack([np.random.default_rng(3).uniform(0, 1000, (12, 2)), PLACES[:12, :2]]), "do not fit together"),
        (
            np.column_stack([rows_of(CORNERS[:4])[[0, 2, 1, 3], :2], CORNERS[:4]]),
            "point 1, point 4 would lie behind the camera: two points",
        ),
        (np.zeros((4, 3)), "rows u, v, x, y, and perhaps z; got 3 columns"),
    ],
)
def test_points_that_tell_no_picture_are_refused_with_the_reason(rows, words):
    with pytest.raises((DataError, ArgumentError), match=words):
        calibrate(rows)


def test_a_camera_needs_more(tmp_path):
    with pytest.raises(DataError, match="5 points are too few for a camera: give 6 or more"):
        calibrate(rows_of(CORNERS[:5]), model="camera", size=SIZE)
    with pytest.raises(ArgumentError, match=r"size must be given for a camera: .*--size"):
        calibrate(rows_of(CORNERS), model="camera")
    with pytest.raises(ArgumentError, match="model must be homography or camera; got 'fisheye'"):
        calibrate(rows_of(CORNERS), model="fisheye")
    above = View(Camera((0.0, 0.0, 60.0), Base(0.0)), SIZE, (0.0, -89.9, 1.0))
    shaken = rows_of(np.array(CORNERS) / 4.0, above)
    shaken[:2, :2] += [[3.0, -2.0], [-2.0, 3.0]]
    with pytest.raises(DataError, match="do not tell where the camera stands"):
        calibrate(shaken, model="camera", size=SIZE)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the header must name u, v and x, y"),
        ("u,v\n1,2", "the header must name"),
        ("u,v,x,y\n", "no row under the header"),
        ("u,v,x,y\n1,2,3,x", "row 1, column 'y': 'x' is not a number"),
        ("u,v,x,y\n1,2,3,4\n1,,3,4", "row 2, column 'v': it is missing"),
        ("u,v,x,y,frame\n1,2,3,4,-1", "row 1, column 'frame': -1 is no number of a frame"),
        (
            "u,v,name\n1,2,corner flag",
            "row 1, column 'name': 'corner flag' is no landmark of a court of soccer: .*post",
        ),
    ],
)
def test_a_table_of_pairs_that_cannot_be_read_is_refused_with_its_place(tmp_path, text, words):
    (tmp_path / "pairs.csv").write_text(text)
    with pytest.raises(DataError, match=words) as caught:
        read_pairs(tmp_path / "pairs.csv", SOCCER)
    assert "pairs.csv" in str(caught.value)


def test_without_the_extra_the_way_to_install_it_is_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cv2", None)
    with pytest.raises(ArgumentError, match=r"calibrate needs cv2: pip install 'smooth-imitation\[vision\]'"):
        calibrate(rows_of(CORNERS))


# ----------------------------------------------------------------------------------------------- the command, and lines


def rendered(view: View, court: Court) -> np.ndarray:
    """A picture of a court: white lines on green, drawn by the truth."""
    picture = np.full((view.size[1], view.size[0], 3), (60, 120, 50), np.uint8)
    for line in trace(view, court, view.size):
        cv2.polylines(picture, [np.round(line * 8).astype(np.int32)], False, (255, 255, 255), 3, cv2.LINE_AA, 3)
    return picture


def test_the_lines_that_are_drawn_cover_those_of_the_picture():
    picture = rendered(VIEW, SOCCER)
    fit = calibrate(seen(VIEW, noise=0.3), model="camera", size=SIZE)
    drawn = draw_overlay(picture, fit.calibration, SOCCER, fit.pairs)
    assert (picture == 255).all(axis=2).sum() > 5000
    assert (drawn == LINE).all(axis=2).sum() > 5000
    assert ((drawn == 255).all(axis=2).sum()) < 0.35 * (picture == 255).all(axis=2).sum()  # the edges of the lines


def test_the_command_finds_a_calibration_and_shows_the_lines(tmp_path: Path):
    cv2.imwrite(str(tmp_path / "frame.png"), rendered(VIEW, SOCCER))
    table(tmp_path / "pairs.csv", seen(VIEW, noise=0.3))
    told = simile_(
        *("camera", "calibrate", "pairs.csv", "--sport", "soccer", "--model", "camera", "--picture", "frame.png"),
        *("--overlay", "overlay.png"),
        cwd=tmp_path,
        process=True,
    ).stdout
    assert "camera at 3.0" in told
    assert "calibration.json: written\nLook at overlay.png" in told
    found = load_calibration(tmp_path / "calibration.json")
    assert found.size == SIZE
    assert Camera.parse(str(tmp_path / "calibration.json")).position == found.camera.position
    assert read_picture(tmp_path / "overlay.png").shape == (1080, 1920, 3)
    asked = simile_("camera", "calibrate", "pairs.csv", "--json", "--out", "plan.json", cwd=tmp_path).stdout
    assert json.loads(asked)["median_pixels"] < 20.0
    assert isinstance(load_calibration(tmp_path / "plan.json"), Homography)


def test_mistakes_at_the_command_are_told_in_one_sentence(tmp_path: Path):
    cv2.imwrite(str(tmp_path / "frame.png"), np.zeros((90, 160, 3), np.uint8))
    (tmp_path / "broken.png").write_bytes(b"no picture")
    table(tmp_path / "pairs.csv", rows_of(CORNERS), "u,v,x,y")
    for arguments, words in (
        (("nowhere.csv",), "nowhere.csv: there is no such file"),
        (("pairs.csv", "--overlay", "a.png"), "name it with --picture"),
        (("pairs.csv", "--picture", "nowhere.png"), "nowhere.png: there is no such file"),
        (("pairs.csv", "--picture", "broken.png"), "broken.png cannot be read as a picture"),
        (("pairs.csv", "--picture", "frame.png", "--size", "90", "160"), "--size 90 160 is not that of frame.png"),
        (("pairs.csv", "--picture", "frame.png", "--overlay", "a.txt"), "a picture must end in"),
        (("pairs.csv", "--model", "camera"), "--size 1920 1080"),
    ):
        assert words in simile_("camera", "calibrate", *arguments, cwd=tmp_path, code=2).stderr
