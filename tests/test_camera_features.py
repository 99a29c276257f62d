"""Features of detections: what they say, and that neither order, batch nor mirror changes a bit of it."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile.camera.courts import BASKETBALL, SOCCER
from simile.camera.features import Features, demonstrations
from simile.camera.games import Game
from simile.camera.geometry import Camera
from simile.errors import ArgumentError, DataError

NAN = float("nan")
SEEN_BY = Camera.beside(BASKETBALL)
KINDS = (
    Features(BASKETBALL),
    Features(BASKETBALL, grid=(3, 2), flow_frames=2, margin=0.0),
    Features(BASKETBALL, grid=(1, 5), softness=0.01),
    Features(BASKETBALL, rays=SEEN_BY),
    Features(BASKETBALL, grid=(5, 3), softness=40.0, rays=Camera((3.0, -20.0, 5.0))),
    Features(SOCCER),
)


def value(features, row, name):
    return row[features.names.index(name)]


def heat(features, rows):
    columns, lines = features.grid
    return rows[..., : columns * lines].reshape(*rows.shape[:-1], columns, lines)


@st.composite
def scenes(draw, fewest=0):
    """Detections (T, n, 2) with some beside the court, some missing, some odd, and empty frames."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (draw(st.integers(fewest, 12)), draw(st.integers(0, 6)))
    points = rng.normal(size=(*shape, 2)) * draw(st.sampled_from([(1.0, 1.0), (8.0, 5.0), (40.0, 40.0), (0.0, 1e-4)]))
    points[rng.random(shape) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = NAN
    points[rng.random((*shape, 2)) < 0.03] = NAN
    points[rng.random((*shape, 2)) < 0.03] = np.inf
    points[rng.random((*shape, 2)) < 0.05] = -0.0
    points[rng.random(shape[0]) < 0.2] = NAN
    return points


def test_a_frame_is_described_as_one_would_by_hand():
    features = Features(BASKETBALL, grid=(2, 1), softness=0.01)
    frame = [[-7.0, 1.0], [-3.0, -1.0], [4.0, 0.0], [0.0, 4.0], [500.0, 0.0], [NAN, NAN]]
    row = features.batch([frame])[0]
    assert len(features.names) == len(row) == 2 + 12 + 3
    assert [value(features, row, n) for n in ("heat_0_0", "heat_1_0", "count")] == [2.5, 1.5, 4.0]
    assert [value(features, row, n) for n in ("centroid_x", "centroid_y", "median_x", "median_y")] == [
        *(-1.5, 1.0),
        *(-1.5, 0.5),
    ]
    np.testing.assert_allclose(
        [value(features, row, n) for n in ("std_x", "std_y")], np.std(frame[:4], axis=0), atol=1e-3
    )
    assert [value(features, row, n) for n in ("extent_x", "extent_y", "left", "right")] == [11.0, 5.0, 0.625, 0.375]


def test_a_detection_is_spread_over_the_cells_around_it_and_counts_one():
    features = Features(BASKETBALL)
    row = features.batch([[[0.0, 0.0]]])[0]
    cells = heat(features, row)
    assert cells[3:5, 1:3].min() > 0.1
    assert cells.sum() == pytest.approx(1.0, abs=0.5)
    assert set(np.unique(row[:32] * 8.0)) <= set(range(9))
    many = heat(features, features.batch(np.zeros((1, 1000, 2)))[0])
    assert many.sum() == pytest.approx(1000.0, abs=2.0)


def test_frames_without_detections_have_no_centroid_but_a_count():
    features = Features(BASKETBALL)
    for nothing in (np.empty((3, 0, 2)), np.full((3, 2, 2), NAN), np.full((3, 1, 2), 99.0)):
        rows = features.batch(nothing)
        assert (rows[:, :32] == 0.0).all()
        assert (rows[:, features.names.index("count")] == 0.0).all()
        assert np.isnan(rows[:, 32:-3]).all()
        assert np.isnan(rows[:, -2:]).all()
    assert Features(BASKETBALL).stream().step([]).tobytes() == rows[0].tobytes()
    assert features.batch(np.empty((0, 4, 2))).shape == (0, len(features.names))


def test_what_is_far_outside_the_court_is_dropped_and_what_is_beside_it_is_not():
    features = Features(BASKETBALL, margin=1.0)
    counts = [features.batch([[[x, 0.0]]])[0, -3] for x in (13.9, 14.9, 15.1, -14.9, -15.1)]
    assert counts == [1.0, 1.0, 0.0, 1.0, 0.0]


def test_flow_is_the_speed_of_the_centroid_over_the_frames_before():
    features = Features(BASKETBALL, flow_frames=3)
    x = np.array([0.0, 1.0, 2.0, 4.0, 8.0])
    rows = features.batch(np.stack([x, np.zeros(5)], axis=1)[:, np.newaxis])
    for name in ("flow_x", "median_flow_x"):
        flow = [value(features, row, name) for row in rows]
        np.testing.assert_array_equal(flow, [NAN, 1.0, 1.0, 4.0 / 3.0, 7.0 / 3.0])


def test_flow_bridges_frames_without_detections():
    features = Features(BASKETBALL, flow_frames=3)
    x = np.array([0.0, NAN, NAN, 3.0, NAN, NAN, NAN, 4.0])
    rows = features.batch(np.stack([x, x], axis=1)[:, np.newaxis])
    flow = [value(features, row, "flow_y") for row in rows]
    np.testing.assert_array_equal(flow, [NAN, NAN, NAN, 1.0, NAN, NAN, NAN, NAN])


def test_over_rays_of_a_camera_elsewhere_the_turned_court_looks_the_same():
    x, y, z = 3.0, -20.0, 5.0
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (40, 9, 2)) * [14.0, 7.5]
    near = Features(BASKETBALL, rays=Camera((x, y, z))).batch(points)
    far = Features(BASKETBALL, rays=Camera((-x, -y, z), (180.0, 0.0, 0.0))).batch(-points)
    np.testing.assert_allclose(near[:, :-2], far[:, :-2], atol=2.0 / 1024)  # left and right are those of the court
    for camera in (Camera((-30.0, 2.0, 6.0), (90.0, 0.0, 0.0)), Camera((17.0, 12.0, 4.0), (-130.0, 5.0, 10.0))):
        features = Features(BASKETBALL, grid=(6, 3), rays=camera)
        seen = features.batch(points)
        np.testing.assert_allclose(seen[:, :18].sum(axis=1), 9.0, atol=0.6)  # all of them are on the map
        np.testing.assert_allclose(seen[:, 18], camera.aim(points)[0].mean(axis=1), atol=2.0 / 1024)
        assert ((seen[:, :18] > 0.0).mean(axis=0) > 0.05).sum() > 9  # and spread over it


def test_over_rays_positions_are_angles_of_the_camera():
    features = Features(BASKETBALL, grid=(4, 2), rays=SEEN_BY)
    row = features.batch([[[3.0, 2.0]]])[0]
    pan, tilt = SEEN_BY.aim([3.0, 2.0])
    assert value(features, row, "centroid_pan") == pytest.approx(pan, abs=1e-3)
    assert value(features, row, "median_tilt") == pytest.approx(tilt, abs=1e-3)
    spots = np.array([[-0.1, -7.5], [0.1, 7.5], [-14.0, -7.5], [14.0, 7.5]])
    cells = heat(features, features.batch(spots[:, np.newaxis])).reshape(4, -1)
    assert cells.argmax(axis=1).tolist() == [2, 3, 1, 7]  # low is near, high is far


@pytest.mark.parametrize("features", KINDS, ids=range(len(KINDS)))
@given(scene=scenes())
def test_streaming_and_batch_agree_bit_for_bit(features, scene):
    stream = features.stream()
    for _ in range(2):
        rows = [stream.step(frame) for frame in scene]
        assert features.batch(scene).tobytes() == b"".join(r.tobytes() for r in rows)
        stream.reset()


@pytest.mark.parametrize("features", KINDS, ids=range(len(KINDS)))
@given(scene=scenes(), seed=st.integers(0, 2**32))
def test_the_order_of_detections_and_places_left_free_change_no_bit(features, scene, seed):
    rng = np.random.default_rng(seed)
    padded = np.concatenate([scene, np.full((len(scene), 3, 2), NAN)], axis=1)
    shuffled = np.array([frame[rng.permutation(len(frame))] for frame in padded]).reshape(padded.shape)
    assert features.batch(scene).tobytes() == features.batch(shuffled).tobytes()


@pytest.mark.parametrize("features", KINDS, ids=range(len(KINDS)))
@given(scene=scenes())
def test_a_mirrored_game_has_mirrored_features_exactly(features, scene):
    def check(mirrored_features, sign, axis):
        rows, mirrored = features.batch(scene), mirrored_features.batch(scene * sign)
        np.testing.assert_array_equal(heat(features, rows), np.flip(heat(features, mirrored), axis=1 + axis))
        swap = {"left": "right", "right": "left"} if axis == 0 else {}
        letters = (("_x", "_pan"), ("_y", "_tilt"))[axis]
        for name in features.names[features.grid[0] * features.grid[1] :]:
            turns = name.endswith(letters) and not name.startswith(("std", "extent"))
            seen = mirrored[:, features.names.index(swap.get(name, name))]
            np.testing.assert_array_equal(rows[:, features.names.index(name)], -seen if turns else seen)

    camera = features.rays
    if camera is None:
        check(features, [1.0, -1.0], 1)
    else:
        x, y, z = camera.position
        camera = replace(camera, position=(-x, y, z))
    check(replace(features, rays=camera), [-1.0, 1.0], 0)


@given(scene=scenes(fewest=2), data=st.data())
def test_the_future_changes_nothing_before_it(scene, data):
    features = Features(BASKETBALL)
    now = data.draw(st.integers(1, len(scene) - 1))
    other = scene.copy()
    other[now:] = np.random.default_rng(0).normal(size=other[now:].shape)
    assert features.batch(scene)[:now].tobytes() == features.batch(other)[:now].tobytes()


def test_long_batches_are_cut_into_blocks_without_a_trace():
    rng = np.random.default_rng(0)
    scene = rng.normal(size=(3000, 10, 2)) * (6.0, 4.0)
    features, stream = Features(BASKETBALL), Features(BASKETBALL).stream()
    assert features.batch(scene).tobytes() == b"".join(stream.step(frame).tobytes() for frame in scene)


def test_what_a_step_returns_may_be_changed():
    stream, again = Features(BASKETBALL).stream(), Features(BASKETBALL).stream()
    stream.step([[1.0, 1.0]])[:] = 7.0
    again.step([[1.0, 1.0]])
    assert stream.step([[2.0, 1.0]]).tobytes() == again.step([[2.0, 1.0]]).tobytes()


def test_a_million_detections_take_seconds():
    scene = np.random.default_rng(0).normal(size=(100_000, 10, 2)) * (6.0, 4.0)
    began = time.process_time()
    Features(BASKETBALL).batch(scene)
    assert time.process_time() - began < 10.0  # half a second on a quiet machine


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"grid": (0, 4)}, "grid must be >= 1; got 0"),
        ({"grid": 8}, "grid must be two whole numbers"),
        ({"softness": 0.0}, "softness must be >= 0.001"),
        ({"flow_frames": 0}, "flow_frames must be >= 1"),
        ({"margin": -1.0}, "margin must be >= 0"),
        ({"rays": Camera((0.0, 0.0, 10.0))}, "rays: camera must stand .* outside the basketball court"),
        ({"rays": Camera((0.0, -20.0, 0.0))}, "above the ground"),
        ({"rays": Camera((0.0, -9.0, 8.0))}, "y = 9.5"),  # within the margin
        ({"rays": Camera((0.0, 20.0, 8.0))}, "heading of 180"),
    ],
)
def test_wrong_settings_are_named(wrong, said):
    with pytest.raises(ArgumentError, match=said):
        Features(BASKETBALL, **wrong)


def test_detections_of_another_shape_are_refused():
    features = Features(BASKETBALL)
    for wrong in (np.zeros((3, 2)), np.zeros((2, 3, 3)), "abc", None):
        with pytest.raises(ArgumentError, match=r"detections must be numbers of shape \(T, n, 2\)"):
            features.batch(wrong)
    with pytest.raises(ArgumentError, match=r"detections must be numbers of shape \(n, 2\); got shape \(3,\)"):
        features.stream().step([1.0, 2.0, 3.0])


def game(**changes):
    detections = np.random.default_rng(0).normal(size=(20, 5, 2))
    return replace(
        Game("final", 25.0, BASKETBALL, SEEN_BY, detections, actions=np.linspace(0.0, 1.0, 20)[:, np.newaxis]),
        **changes,
    )


def test_games_become_demonstrations():
    demos = demonstrations([game(), game(name="other")])
    assert demos.names == ("final", "other")
    assert demos.rate == 25.0
    assert demos.action_names == ("pan",)
    assert demos.context_names == Features(BASKETBALL).names
    np.testing.assert_array_equal(demos[0].contexts, Features(BASKETBALL).batch(game().detections))
    assert demonstrations(game(), Features(BASKETBALL, rays=SEEN_BY)).context_names[32] == "centroid_pan"
    assert demonstrations(game(actions=np.ones((20, 3)))).action_names == ("pan", "tilt", "zoom")


def test_games_without_an_operator_or_on_another_court_are_refused():
    with pytest.raises(DataError, match="game 'final' has no actions"):
        demonstrations([game(actions=None)])
    with pytest.raises(ArgumentError, match=r"features are of soccer,105,68, but .* \(--court\)"):
        demonstrations(game(), Features(SOCCER))
    with pytest.raises(DataError, match="at least one game"):
        demonstrations([])


def test_the_names_of_contexts_tell_their_features():
    camera = Camera.beside(BASKETBALL)
    for features in (Features(BASKETBALL, grid=(3, 5)), Features(BASKETBALL, grid=(6, 2), rays=camera)):
        assert Features.from_names(features.names, BASKETBALL, camera) == features
    with pytest.raises(ArgumentError, match="names must be those of the features"):
        Features.from_names(("x0", "x1"), BASKETBALL, camera)
