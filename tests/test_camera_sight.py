"""A camera that sees through its own lens: poses at the time of the frame, latency, and what it does to contexts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from commands import simile_
from simile import ArgumentError, DataError
from simile.camera.calibration import Calibration, Homography, Keyframes, View, save_calibration
from simile.camera.courts import BASKETBALL
from simile.camera.features import Features
from simile.camera.geometry import Base, Camera
from simile.camera.heads.freed import FreeD
from simile.camera.heads.head import Pose
from simile.camera.sight import PoseLog, Sight, choose_calibration, estimate_latency, read_poses
from simile.camera.simulation import simulate
from simile.camera.tracking import read_mot

SIZE = (1920, 1080)
LATE = 0.08  # seconds
RATE = 25.0


@pytest.fixture(scope="module")
def game():
    return simulate(1, minutes=(0.75, 0.75), sport=BASKETBALL, axes=3, rate=RATE, seed=1)[0]


@pytest.fixture(scope="module")
def filmed(game):
    """Feet of boxes in the picture of a head that films a game, which comes 80 ms late; the log; and the truth."""
    times = np.arange(len(game)) / RATE
    log = PoseLog(times, game.actions)
    view = View(game.camera, SIZE)
    shown = times - LATE
    players = np.stack(
        [[np.interp(shown, times, game.players[:, i, j]) for j in (0, 1)] for i in range(game.players.shape[1])]
    ).transpose(2, 0, 1)
    pixels = view.to_pixels(players, pose=[axis[:, np.newaxis] for axis in log.at(shown)])
    pixels += 1.5 * np.random.default_rng(0).normal(size=pixels.shape)
    pixels[((pixels < 0.0) | (pixels > SIZE)).any(axis=2)] = np.nan
    rng = np.random.default_rng(1)
    order = np.argsort(rng.uniform(size=pixels.shape[:2]), axis=1)  # a detection has no identity
    pixels, players = (np.take_along_axis(a, order[..., np.newaxis], axis=1) for a in (pixels, players))
    return pixels, times, log, view, players


def sideways(sight: Sight, filmed) -> tuple[np.ndarray, np.ndarray]:
    """By how many metres to the right the middle of all that is seen is off, and the pan speed, in each frame."""
    pixels, times, log, _, players = filmed
    off = sight.to_court(pixels, np.arange(len(times))[:, np.newaxis]) - players
    speed = np.gradient(log.poses[:, 0], times)
    inner = slice(10, -10)
    return np.nanmedian(off[..., 0], axis=1)[inner], speed[inner]


# ---------------------------------------------------------------------------------------------- what latency does


def test_with_the_right_latency_what_is_seen_does_not_move_with_the_head(filmed):
    _, _, log, view, _ = filmed
    right, speed = sideways(Sight(view, log, LATE, RATE), filmed)
    wrong, _ = sideways(Sight(view, log, 0.0, RATE), filmed)
    assert np.sqrt(np.mean(right**2)) < 0.1
    assert abs(np.corrcoef(right, speed)[0, 1]) < 0.25
    assert np.sqrt(np.mean(wrong**2)) > 3.0 * np.sqrt(np.mean(right**2))
    assert abs(np.corrcoef(wrong, speed)[0, 1]) > 0.9


def test_contexts_of_a_policy_do_not_depend_on_what_the_head_does(filmed):
    pixels, times, log, view, players = filmed
    seen = np.where(np.isnan(pixels[..., :1]), np.nan, players)
    frames = np.arange(len(times))[:, np.newaxis]
    features = Features(BASKETBALL)
    column = features.names.index("centroid_x")
    truth = features.batch(seen)[:, column]
    for latency, low, high in ((LATE, 0.0, 0.3), (0.0, 0.8, 1.0)):
        contexts = features.batch(Sight(view, log, latency, RATE).to_court(pixels, frames))[:, column]
        speed = np.gradient(log.poses[:, 0], times)
        tied = abs(np.corrcoef((contexts - truth)[10:-10], speed[10:-10])[0, 1])
        assert low <= tied <= high


def test_the_latency_is_estimated_from_what_is_seen(filmed):
    pixels, times, log, view, _ = filmed
    found = estimate_latency(pixels, times, log, view)
    assert abs(found.seconds - LATE) < 0.01
    assert found.low < LATE < found.high
    assert found.high - found.low < 0.08
    assert str(found).endswith(")")
    early = estimate_latency(pixels, times - 0.12, log, view)  # on another clock: now the poses come late
    assert early.seconds == pytest.approx(found.seconds - 0.12, abs=0.01)


def test_a_head_that_hardly_moves_tells_no_latency(filmed):
    pixels, times, log, view, _ = filmed
    still = PoseLog(times, np.tile(log.poses[:1], (len(times), 1)))
    with pytest.raises(DataError, match=r"hardly moves .*0\.0 degrees of pan in all.*: swing the head"):
        estimate_latency(pixels, times, still, view)
    with pytest.raises(DataError, match=r"20 frames are too few .*--latency"):
        estimate_latency(pixels[:20], times[:20], log, view)
    noise = np.random.default_rng(0).uniform(0, 1000, (300, 4, 2))
    with pytest.raises(DataError, match="cannot be told from this recording"):
        estimate_latency(noise, times[:300], log, view)
    with pytest.raises(ArgumentError, match=r"got shapes \(3, 2\)"):
        estimate_latency(np.zeros((3, 2)), times[:3], log, view)


# ------------------------------------------------------------------------------------------------------------ the log


def test_poses_are_interpolated_and_never_made_up():
    log = PoseLog([10.0, 10.1, 11.0], [[170.0, -20.0, 1.0], [-170.0, -22.0, 4.0], [-170.0, -22.0, 4.0]], limit=0.2)
    np.testing.assert_allclose(log.at(10.05), [180.0, -21.0, 2.0])  # the shorter way round
    np.testing.assert_allclose(log.at(9.9), [170.0, -20.0, 1.0])  # held, not continued
    assert np.isnan(log.at([9.7, 10.5, 11.3])).all()
    assert np.isfinite(log.at([9.8, 10.25, 11.2])).all()


def test_a_log_grows_and_forgets():
    log = PoseLog.of([(0.0, Pose(1.0, -20.0, 1.0))])
    for i in range(1, 40):
        log = log.plus(i * 0.5, Pose(1.0 + i, -20.0, 1.0), keep=5.0)
    assert len(log.times) == 10
    assert log.at(19.5)[0] == 40.0
    with pytest.raises(DataError, match=r"times must rise; 3 s follows 19\.5 s"):
        log.plus(3.0, Pose(0.0, 0.0, 1.0), keep=100.0)


def test_free_d_packets_are_a_log():
    packets = [(i / 50, FreeD(pan=i / 4, tilt=-10.0, zoom=1000 * i)) for i in range(5)]
    log = PoseLog.of_freed([(t, FreeD.decode(p.encode())) for t, p in packets], zoom=lambda raw: 1.0 + raw / 4000)
    np.testing.assert_allclose(log.at(0.04), [0.5, -10.0, 1.5])


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (([0.0, 1.0], [[0.0, 0.0, 1.0]]), ArgumentError, r"at each of the 2 times; got shape \(1, 3\)"),
        (([0.0, 0.0], [[0.0, 0.0, 1.0]] * 2), DataError, "times must rise"),
        (([0.0], [[0.0, 0.0, 0.0]]), DataError, "zoom must be > 0; got 0 in row 0"),
    ],
)
def test_a_log_that_cannot_be_is_refused(wrong, error, words):
    with pytest.raises(error, match=words):
        PoseLog(*wrong)


def test_logs_are_read_from_tables(tmp_path):
    (tmp_path / "a.csv").write_text("t,pan,tilt,zoom\n0.0,1,-20,1\n0.1,2,-20,2\n0.2,,,\n")
    log = read_poses(tmp_path / "a.csv")
    np.testing.assert_allclose(log.at(0.1), [2.0, -20.0, 2.0])
    assert len(log.times) == 2
    (tmp_path / "b.csv").write_text("frame,pan,tilt\n0,1,-20\n50,2,-20\n")
    np.testing.assert_allclose(read_poses(tmp_path / "b.csv", rate=50.0, limit=1.0).at(0.5), [1.5, -20.0, 1.0])
    for name, text, words in (
        ("b.csv", None, "has frames and no time: .*--rate"),
        ("c.csv", "t,pan\n0,1\n", "tilt"),
        ("d.csv", "t,pan,tilt\n1,1,1\n0,1,1\n", "d.csv: times must rise"),
        ("e.csv", "t,pan,tilt\n1,,1\n", "no row has pan and tilt"),
    ):
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises((ArgumentError, DataError), match=words):
            read_poses(tmp_path / name)


# --------------------------------------------------------------------------------------------------------- the sight


def test_directions_are_those_that_would_aim_there():
    camera = Camera((3.0, -20.0, 9.0), Base(10.0, 2.0, 3.0))
    sight = Sight(View(camera, SIZE, distortion=(-0.1, 0.0)), PoseLog([0.0, 1.0], [[5.0, -20.0, 1.0]] * 2, limit=1.0))
    assert isinstance(sight, Calibration)
    points = np.array([[1.0, 2.0, 0.0], [-4.0, 3.0, 1.8]])
    np.testing.assert_allclose(sight.to_angles(sight.to_pixels(points, 3), 3), camera.aim(points), atol=1e-6)
    np.testing.assert_allclose(sight.to_court(sight.to_pixels(points[:1], 3), 3), points[:1, :2], atol=1e-6)
    assert sight.resized((960, 540)).size == (960, 540)
    with pytest.raises(ArgumentError, match="frame must be given"):
        sight.to_court([1.0, 1.0])
    with pytest.raises(ArgumentError, match=r"latency must be known: .*--latency"):
        replace(sight, latency=None).to_court([1.0, 1.0], 3)


def test_boxes_of_a_moving_picture_become_a_game(filmed, tmp_path, capsys):
    pixels, _, log, view, players = filmed
    rows = [
        f"{t + 1},-1,{u - 15:.3f},{v - 80:.3f},30,80,1,-1,-1,-1"
        for t, frame in enumerate(pixels)
        for u, v in frame[np.isfinite(frame[:, 0])]
    ]
    (tmp_path / "det.txt").write_text("\n".join(rows))
    table = "\n".join(f"{t:.4f},{a:.6f},{b:.6f},{c:.6f}" for t, (a, b, c) in zip(log.times, log.poses, strict=True))
    (tmp_path / "poses.csv").write_text("t,pan,tilt,zoom\n" + table)
    save_calibration(view, tmp_path / "camera.json")
    chosen = {"calibration": tmp_path / "camera.json", "poses": tmp_path / "poses.csv", "rate": RATE}
    (known,) = read_mot(tmp_path / "det.txt", choose_calibration(**chosen, latency=LATE), court=BASKETBALL, rate=RATE)
    assert capsys.readouterr().err == ""
    (guessed,) = read_mot(
        tmp_path / "det.txt", choose_calibration(**chosen, latency="auto"), court=BASKETBALL, rate=RATE
    )
    assert "latency of the picture: 8" in (told := capsys.readouterr().err) or "picture: 7" in told
    # What the head told is what its operator did: together they can be learned from.
    told = np.column_stack(log.at(np.arange(50, len(known)) / RATE - LATE))
    np.testing.assert_allclose(known.actions[50:], told, atol=1e-5)
    assert known.camera == view.camera
    told = simile_(
        *("camera", "features", "det.txt", "--rate", "25", "--calibration", "camera.json", "--poses", "poses.csv"),
        *("--latency", "0.08", "--out", "games.csv"),
        cwd=tmp_path,
    ).stdout
    assert "contexts, pan, tilt, zoom" in told
    (tmp_path / "poses.csv").write_text("t,pan,tilt,zoom\n" + "\n".join(table.splitlines()[:500]))
    (cut,) = read_mot(tmp_path / "det.txt", choose_calibration(**chosen), court=BASKETBALL, rate=RATE)
    assert cut.actions is None
    assert np.isnan(cut.detections[550:]).all()
    assert "is unknown in 61" in capsys.readouterr().err
    (tmp_path / "poses.csv").write_text("t,pan,tilt\n900,0,-20\n901,0,-20\n")
    with pytest.raises(DataError, match=r"900\.00 to 901\.00 s, tells of no frame"):
        read_mot(tmp_path / "det.txt", choose_calibration(**chosen), court=BASKETBALL, rate=RATE)
    truth = np.nanmedian(np.where(np.isnan(pixels[..., :1]), np.nan, players)[..., 0], axis=1)
    for game in (known, guessed):
        assert np.nanmedian(np.abs(np.nanmedian(game.detections[..., 0], axis=1) - truth[: len(game)])) < 0.05


def test_options_tell_how_pixels_become_metres(tmp_path):
    view = View(Camera((0.0, -20.0, 9.0)), SIZE)
    save_calibration(view, tmp_path / "camera.json")
    save_calibration(Homography(np.diag([0.1, -0.1, 1.0])), tmp_path / "plan.json")
    save_calibration(Keyframes((0, 9), (view, view)), tmp_path / "moving.json")
    (tmp_path / "poses.csv").write_text("t,pan,tilt\n0,0,-20\n1,5,-20\n")
    assert choose_calibration() is None
    assert isinstance(choose_calibration(homography=tmp_path / "plan.json"), Homography)
    poses = {"poses": tmp_path / "poses.csv"}
    for told in (
        {"calibration": tmp_path / "camera.json"},
        {"calibration": tmp_path / "moving.json"},
        {"camera": view.camera, "size": SIZE},
    ):
        made = choose_calibration(**told, **poses, latency=0.1, rate=30.0)
        assert isinstance(made, Sight)
        assert (made.latency, made.rate, made.view.camera) == (0.1, 30.0, view.camera)
    for told, words in (
        ({"homography": "a", "calibration": "b"}, "leave one out"),
        ({"latency": 0.1}, "name it by --poses"),
        (poses, "--calibration of"),
        ({**poses, "calibration": tmp_path / "plan.json"}, "need the camera and its lens"),
        ({**poses, "calibration": tmp_path / "camera.json", "latency": "soon"}, "seconds, or \"auto\"; got 'soon'"),
    ):
        with pytest.raises(ArgumentError, match=words):
            choose_calibration(**told)
