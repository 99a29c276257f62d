"""Who finds people: what moves, networks of every common layout, functions, and lines of other processes."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile import ArgumentError, DataError
from simile.camera.calibration import Homography, View
from simile.camera.courts import BASKETBALL
from simile.camera.film.rendering import Rendering
from simile.camera.geometry import Camera, Lens
from simile.camera.live.detectors import TALL, Detector, Function, Motion, find_feet, measure_people, read_boxes
from simile.camera.live.lines import Lines, read_line
from simile.camera.live.networks import LAYOUTS, Network
from simile.camera.live.sources import Shot

pytest.importorskip("cv2", reason="needs the extra live")
onnx = pytest.importorskip("onnx", reason="needs the extra export")
pytest.importorskip("onnxruntime", reason="needs the extra live")

SIZE = (640, 360)
CAMERA = Camera((0.0, -28.0, 12.0), lens=Lens(62.0))
VIEW = View(CAMERA, SIZE, (0.0, float(CAMERA.aim([0.0, -1.0])[1]), 1.0))
BOXES = np.array([[100.0, 60.0, 40.0, 80.0], [400.0, 200.0, 30.0, 90.0]])  # left, top, width, height
SCORES = np.array([0.9, 0.6])
EMPTY = np.zeros((SIZE[1], SIZE[0], 3), np.uint8)


def homography_of(view: View) -> Homography:
    from simile.camera.calibration.views import exact_homography

    corners = BASKETBALL.corners * [0.5, 1.0]
    return Homography(exact_homography(view.to_pixels(corners), corners), view.size)


# ------------------------------------------------------------------------------------------------------- how high


@pytest.mark.parametrize("calibration", [VIEW, homography_of(VIEW)], ids=["camera", "homography"])
def test_the_height_of_a_person_follows_from_the_ground_alone(calibration):
    places = np.array([[0.0, 0.0], [-9.0, 5.0], [8.0, -6.0]])
    feet = VIEW.to_pixels(places)
    crown = VIEW.to_pixels(np.column_stack([places, np.full(3, TALL)]))
    assert measure_people(calibration, feet) == pytest.approx(feet[:, 1] - crown[:, 1], rel=0.15)


def test_where_there_is_no_ground_there_is_no_height():
    assert np.isnan(measure_people(VIEW, [[320.0, -4000.0]])).all()


# --------------------------------------------------------------------------------------------------------- motion


@pytest.fixture(scope="module")
def filmed():
    """Six people on a court who walk for three seconds, and the pictures of it."""
    rng = np.random.default_rng(4)
    start = np.array([[-9.0, -4.0], [-5.0, 3.0], [-1.0, -3.0], [3.0, 4.0], [7.0, -2.0], [10.0, 3.0]])
    headings = rng.uniform(0.0, 2.0 * np.pi, 6)
    ways = np.column_stack([np.cos(headings), np.sin(headings)])
    places = start + 2.0 * ways * (np.arange(75) / 25.0)[:, np.newaxis, np.newaxis]
    drawn = Rendering(BASKETBALL, VIEW)
    return places, [drawn.picture(people, i) for i, people in enumerate(places)]


def test_motion_finds_who_walks_within_half_a_metre(filmed):
    places, pictures = filmed
    motion, found = Motion(VIEW), 0
    assert isinstance(motion, Detector)
    for i, picture in enumerate(pictures):
        boxes = motion.detect(picture)
        if i >= 50:
            near = np.linalg.norm(VIEW.to_court(find_feet(boxes))[:, np.newaxis] - places[i], axis=-1)
            found += int((near.min(axis=0) < 0.5).sum())
            assert len(boxes) <= 8
    assert found > 0.9 * 6 * 25


def test_motion_finds_nobody_where_nothing_moves_and_where_everything_does():
    motion, rng = Motion(VIEW), np.random.default_rng(0)
    still = rng.integers(0, 255, EMPTY.shape, np.uint8)
    assert all(len(motion.detect(still)) == 0 for _ in range(5))
    assert len(motion.detect(255 - still)) == 0


def test_motion_leaves_out_what_is_too_small_for_a_person(filmed):
    motion = Motion(VIEW)
    ground = Rendering(BASKETBALL, VIEW, grain=0.0).picture(np.empty((0, 2)))
    for _ in range(30):
        motion.detect(ground)
    ball, person = ground.copy(), ground.copy()
    x, y = VIEW.to_pixels([0.0, 0.0]).astype(int)
    ball[y - 4 : y, x - 3 : x + 3] = 255
    assert len(motion.detect(ball)) == 0
    person[y - 32 : y, x - 5 : x + 5] = 255
    assert motion.detect(person) == pytest.approx(np.array([[x - 5, y - 32, 10, 32]]), abs=3)


def test_two_who_touch_are_two_and_one_behind_another_is_two():
    motion = Motion(VIEW)
    ground = Rendering(BASKETBALL, VIEW, grain=0.0).picture(np.empty((0, 2)))
    for _ in range(30):
        motion.detect(ground)
    x, y = VIEW.to_pixels([0.0, 0.0]).astype(int)
    high = round(float(measure_people(VIEW, [[x, y]])[0]))
    beside, behind = ground.copy(), ground.copy()
    beside[y - high : y, x - 12 : x + 12] = 255
    behind[y - 2 * high : y, x - 5 : x + 5] = 255
    assert len(motion.detect(beside)) == 2
    two = motion.detect(behind)
    assert len(two) == 2
    assert sorted(two[:, 1] + two[:, 3])[1] == pytest.approx(y, abs=2)


# ------------------------------------------------------------------------------------------------------- networks


def graph(path: Path, outputs: dict[str, np.ndarray], shape=(1, 3, 320, 320), kind=None, names=None) -> Path:
    """Write a network that returns the same whatever it is shown, as soon as it is shown the right shape."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    kind = onnx.TensorProto.FLOAT if kind is None else kind
    nodes = [helper.make_node("Identity", [f"{name}_held"], [name]) for name in outputs]
    nodes.append(helper.make_node("Identity", ["images"], ["seen"]))
    held = [numpy_helper.from_array(value, f"{name}_held") for name, value in outputs.items()]
    types = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in outputs.items()
    ]
    images = helper.make_tensor_value_info("images", kind, shape)
    model = helper.make_model(
        helper.make_graph(nodes, "boxes", [images], types, held), opset_imports=[helper.make_opsetid("", 13)]
    )
    model.ir_version = 8
    for key, value in (names or {}).items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, path)
    return path


def fitted() -> np.ndarray:
    """The corners of the boxes as a network of 320 x 320 sees them: half as large, 70 lower."""
    corners = np.column_stack([BOXES[:, :2], BOXES[:, :2] + BOXES[:, 2:]])
    return corners / 2.0 + [0.0, 70.0, 0.0, 70.0]


def in_layout(layout: str, n: int = 2100) -> dict[str, np.ndarray]:
    corners = fitted().astype(np.float32)
    middles = np.column_stack([(corners[:, :2] + corners[:, 2:]) / 2.0, corners[:, 2:] - corners[:, :2]])
    scores = SCORES.astype(np.float32)
    if layout == "torchvision":
        labels = np.array([1, 1, 3], np.int64)
        more = np.vstack([corners, [[0, 0, 50, 50]]]).astype(np.float32)
        return {"boxes": more, "labels": labels, "scores": np.append(scores, np.float32(0.99))}
    if layout == "end2end":
        rows = np.zeros((1, 300, 6), np.float32)
        rows[0, :2] = np.column_stack([corners, scores, np.zeros(2)])
        rows[0, 2] = [0, 0, 50, 50, 0.99, 2]
        return {"output0": rows}
    if layout == "end2end7":
        rows = np.column_stack([np.zeros(2), corners, np.zeros(2), scores]).astype(np.float32)
        return {"output": np.vstack([rows, [[0, 0, 0, 50, 50, 2, 0.99]]]).astype(np.float32)}
    sure = np.zeros((5, 80), np.float32)
    sure[:2, 0], sure[2, 2], sure[3, 0], sure[4, 0] = scores, 0.99, 0.05, 0.5
    boxes = np.vstack([middles, [[25, 25, 50, 50]], middles[:1] + 3.0, middles[:1] + 1.0])  # the last: a twin
    if layout == "yolov8":
        rows = np.zeros((1, 84, n), np.float32)
        rows[0, :, :5] = np.column_stack([boxes, sure]).T
        return {"output0": rows}
    rows = np.zeros((1, 3 * n, 85), np.float32)
    rows[0, :5] = np.column_stack([boxes, np.ones(5), sure])
    return {"output0": rows}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_boxes_come_out_of_every_layout(layout, tmp_path):
    network = Network(graph(tmp_path / "model.onnx", in_layout(layout)))
    assert isinstance(network, Detector)
    found = network.detect(EMPTY)
    assert found.shape == (2, 5)
    assert found[:, :4] == pytest.approx(BOXES, abs=1e-3)
    assert found[:, 4] == pytest.approx(SCORES, abs=1e-6)
    assert Network(tmp_path / "model.onnx", layout=layout).detect(EMPTY) == pytest.approx(found)
    assert len(Network(tmp_path / "model.onnx", score=0.7).detect(EMPTY)) == 1
    assert len(Network(tmp_path / "model.onnx", score=0.95).detect(EMPTY)) == 0
    other = Network(tmp_path / "model.onnx", classes=["3" if layout == "torchvision" else 2]).detect(EMPTY)
    assert other[:, 4] == pytest.approx([0.99])


def test_a_yolo_with_rows_and_columns_exchanged_is_told_by_the_names_of_its_classes(tmp_path):
    rows = in_layout("yolov8")["output0"].transpose(0, 2, 1)
    names = str({0: "person", **{i: f"thing {i}" for i in range(1, 80)}})
    path = graph(tmp_path / "model.onnx", {"output0": np.ascontiguousarray(rows)}, names={"names": names})
    assert Network(path).detect(EMPTY)[:, :4] == pytest.approx(BOXES, abs=1e-3)
    assert Network(path, classes=["thing 2"]).detect(EMPTY).shape == (1, 5)
    with pytest.raises(ArgumentError, match=r"class must be one that .* knows; got 'horse'"):
        Network(path, classes=["horse"])


def test_classes_that_the_file_calls_people_are_kept(tmp_path):
    path = graph(tmp_path / "m.onnx", in_layout("end2end"), names={"names": "{0: 'ball', 2: 'Player'}"})
    assert Network(path).classes == [2]


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((1, 320, 320, 3), "UINT8"), ((3, 320, 320), "FLOAT"), ((1, 3, 320, 320), "FLOAT16")],
)
def test_pictures_are_made_as_the_network_takes_them(tmp_path, shape, kind):
    path = graph(tmp_path / "m.onnx", in_layout("end2end"), shape, getattr(onnx.TensorProto, kind))
    assert Network(path).detect(EMPTY)[:, :4] == pytest.approx(BOXES, abs=1e-3)


def test_a_network_of_any_size_is_shown_640_and_shares_of_the_sides_are_pixels(tmp_path):
    corners = np.column_stack([BOXES[:, :2], BOXES[:, :2] + BOXES[:, 2:]]) + np.array([0.0, 140.0, 0.0, 140.0])
    rows = np.column_stack([corners / 640.0, SCORES, np.zeros(2)])[np.newaxis].astype(np.float32)
    path = graph(tmp_path / "m.onnx", {"output0": rows}, ("batch", 3, "height", "width"))
    assert Network(path).detect(EMPTY)[:, :4] == pytest.approx(BOXES, abs=1e-2)


def test_what_is_no_detector_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(DataError, match="is not there"):
        Network(tmp_path / "nowhere.onnx")
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(DataError, match="is no ONNX model"):
        Network(tmp_path / "text.onnx")
    with pytest.raises(DataError, match=r"must take one picture.*it takes images tensor\(float\) \[1, 7\]"):
        Network(graph(tmp_path / "flat.onnx", in_layout("end2end"), (1, 7)))
    strange = Network(graph(tmp_path / "strange.onnx", {"logits": np.zeros((1, 5), np.float32)}))
    with pytest.raises(DataError, match="no boxes were recognised: say with --layout"):
        strange.detect(EMPTY)
    with pytest.raises(ArgumentError, match="layout must be one of yolov5"):
        Network(tmp_path / "text.onnx", layout="yolo")
    with pytest.raises(ArgumentError, match="score must be"):
        Network(tmp_path / "text.onnx", score=2.0)


# ------------------------------------------------------------------------------------------------------ functions


def test_a_function_is_a_detector(tmp_path, monkeypatch):
    (tmp_path / "mine_to_find.py").write_text(
        "def find(image):\n    return [[1, 2, 3, image.shape[0]]]\ndef nobody(image):\n    return []\n"
        "def wrong(image):\n    return [[1, 2]]\ndef two(image, more):\n    return []\n"
        "def fails(image):\n    return image.nothing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert Function("mine_to_find:find").detect(EMPTY).tolist() == [[1.0, 2.0, 3.0, 360.0]]
    assert Function("mine_to_find:nobody").detect(EMPTY).shape == (0, 4)
    with pytest.raises(DataError, match="what mine_to_find:wrong returns must be rows of left, top"):
        Function("mine_to_find:wrong").detect(EMPTY)
    with pytest.raises(DataError, match="mine_to_find:fails failed: AttributeError"):
        Function("mine_to_find:fails").detect(EMPTY)
    for path in ("mine_to_find:two", "mine_to_find:none", "nowhere_at_all:find", "mine_to_find", ""):
        with pytest.raises(ArgumentError, match="python:module:function"):
            Function(path)


@given(st.recursive(st.none() | st.text(max_size=3) | st.floats(), lambda inner: st.lists(inner, max_size=4)))
def test_boxes_are_numbers_or_refused(found):
    try:
        boxes = read_boxes(found, "boxes")
    except DataError:
        return
    assert boxes.ndim == 2
    assert boxes.shape[1] in (4, 5)


# ---------------------------------------------------------------------------------------------------------- lines


def shot(number: int, rate: float = 25.0) -> Shot:
    return Shot(number, number / rate, 0.0, 0.0, None)


def lines_in(path: Path, *rows: object) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_frame_gets_the_latest_line_for_it_or_for_one_before(tmp_path):
    given_ = lines_in(
        tmp_path / "found.jsonl",
        {"frame": 0, "boxes": [[1, 2, 3, 4]]},
        {"frame": 3, "boxes": [[5, 6, 7, 8, 0.5]]},
        {"frame": 4, "boxes": []},
        {"frame": 90, "positions": [[1, 2]]},
    )
    with Lines(given_) as lines:
        assert lines.find(shot(0)).boxes.tolist() == [[1, 2, 3, 4]]
        assert lines.find(shot(2)).boxes.tolist() == [[1, 2, 3, 4]]
        assert lines.find(shot(3)).boxes.tolist() == [[5, 6, 7, 8, 0.5]]
        assert lines.find(shot(5)).boxes.shape == (0, 4)
        assert len(lines.find(shot(89)).positions) == 0  # too long ago
        assert lines.find(shot(91)).positions.tolist() == [[1, 2]]


def test_lines_go_by_seconds_or_one_for_each_frame(tmp_path):
    by_time = lines_in(tmp_path / "a.jsonl", *({"time": t / 10, "positions": [[t, 0]]} for t in range(10)))
    with Lines(by_time) as lines:
        assert [lines.find(shot(n)).positions[0, 0] for n in (0, 2, 3, 5)] == [0, 0, 1, 2]
    each = lines_in(tmp_path / "b.jsonl", *([[t, 0]] for t in range(5)))
    with Lines(each) as lines:
        assert [lines.find(shot(n)).positions[0, 0] for n in range(5)] == [0, 1, 2, 3, 4]


def test_lines_come_from_a_command(tmp_path):
    script = "import json\nfor i in range(3): print(json.dumps({'frame': i, 'positions': [[i, i]]}), flush=True)"
    with Lines(f"cmd:{sys.executable} -c {shlex.quote(script)}", numbered=True) as lines:
        assert [lines.find(shot(n)).positions[0, 0] for n in range(3)] == [0, 1, 2]
    failing = f"cmd:{sys.executable} -c 'raise SystemExit(3)'"
    with Lines(failing, numbered=True) as lines, pytest.raises(DataError, match="ended with exit code 3 after 0 lines"):
        lines.find(shot(0))
    with pytest.raises(DataError, match="--detections: 'nothing_like_this' cannot be run"):
        Lines("cmd:nothing_like_this")
    with pytest.raises(DataError, match=r"--detections: .*nowhere\.jsonl cannot be read"):
        Lines(str(tmp_path / "nowhere.jsonl"))


def test_a_stream_of_lines_is_never_waited_for():
    def trickle():
        yield '{"positions": [[7, 7]]}\n'
        time.sleep(30.0)

    with Lines("-", trickle()) as lines:
        deadline = time.monotonic() + 10.0
        while not len(found := lines.find(shot(0)).positions) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert found.tolist() == [[7.0, 7.0]]
        assert lines.find(shot(10)).positions.tolist() == [[7.0, 7.0]]
        assert len(lines.find(shot(60)).positions) == 0


@pytest.mark.parametrize("text", ["{", "3", "{}", '{"boxes": [[1, 2]]}', '{"frame": "x", "boxes": []}', "[[1]]", '"a"'])
def test_a_line_that_cannot_be_read_is_named(tmp_path, text):
    with pytest.raises(DataError, match="line 1 must be") as told:
        read_line(text, "line 1")
    assert repr(text)[1:-1] in str(told.value)
    path = tmp_path / "found.jsonl"
    path.write_text(f"[]\n{text}\n")
    with Lines(str(path)) as lines, pytest.raises(DataError, match="line 2"):
        lines.find(shot(3))
