"""Networks that find people: ONNX files by onnxruntime, with the box formats that are common."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simile._common import checks
from simile._common.needs import need
from simile._common.typing import FloatArray
from simile.camera.live.sources import Image
from simile.errors import ArgumentError, DataError

LAYOUTS = ("yolov5", "yolov8", "end2end", "end2end7", "torchvision")
SIDE = 640  # pixels, where a network takes any size
OVERLAP = 0.5  # of which two boxes are one person
GREY = 114  # around a picture that has another shape than the network's, as YOLO is trained
PEOPLE = ("person", "player", "people", "pedestrian", "goalkeeper")
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}


class Network:
    """An ONNX model that finds people.

    The layout of what comes out is recognised by its shape:

    - `yolov8`: (1, 4 + classes, N), middle, size and a score for each class;
    - `yolov5`: (1, N, 5 + classes), with a score of the box before these;
    - `end2end`: (1, N, 6), left, top, right, bottom, score and class;
    - `end2end7`: (N, 7), number in the batch, left, top, right, bottom, class and score;
    - `torchvision`: boxes (N, 4), labels (N,) and scores (N,), in any order.

    Pictures are made to fit what goes in, with grey beside them: (1, 3, H, W), (1, H, W, 3) or (3, H, W), of float
    from 0 to 1, or of uint8.

    Parameters
    ----------
    path : path
        The model.
    score : float
        How sure it must be.
    classes : sequence of int or str, optional
        Which ones to keep, by number or by a name that the file tells. By default those that the file calls person,
        player or the like, and where it tells no names the first (for `torchvision`, which begins at 1, also).
    layout : str, optional
        One of the above, where it is not recognised.
    """

    def __init__(
        self, path: str | Path, *, score: float = 0.3, classes: Sequence[str | int] = (), layout: str | None = None
    ) -> None:
        runtime = need("onnxruntime", "a detector from an ONNX file", extra="live")
        self._cv2 = need("cv2", "a detector from an ONNX file", extra="live")
        self.path, self.score = Path(path), checks.number(score, "score", at_least=0.0, at_most=1.0)
        if layout is not None and layout not in LAYOUTS:
            raise ArgumentError(f"layout must be one of {', '.join(LAYOUTS)}; got {layout!r}")
        if not self.path.is_file():
            raise DataError(f"{self.path} is not there: give an ONNX file, 'motion', or python:module:function")
        try:
            self._session = runtime.InferenceSession(str(self.path), providers=runtime.get_available_providers())
        except Exception as error:  # onnxruntime has its own, and they share no base
            raise DataError(f"{self.path} is no ONNX model that can be run here: {error}") from None
        self._input = self._read_input()
        self.layout = layout
        self.names = self._read_names()
        self.classes = self._choose_classes(classes)

    def detect(self, image: Image) -> FloatArray:
        """Return the boxes (n, 5) of people, with scores."""
        name, shape, kind, channels_last = self._input
        fed, scale, (left, top) = self._fit(image, shape)
        picture = fed if kind is np.uint8 else fed.astype(kind) / kind(255.0)
        picture = picture if channels_last else np.ascontiguousarray(picture.transpose(2, 0, 1))
        batch = picture if len(self._session.get_inputs()[0].shape) == 3 else picture[np.newaxis]
        outputs = self._session.run(None, {name: batch})
        corners, scores, classes = self._decode([np.asarray(o) for o in outputs], shape)
        kept = (scores >= self.score) & np.isin(classes, self.classes) & np.isfinite(corners).all(axis=1)
        corners, scores = corners[kept].astype(np.float64), scores[kept].astype(np.float64)
        if corners.size and np.abs(corners).max() <= 2.0:  # shares of the sides instead of pixels
            corners = corners * [shape[1], shape[0], shape[1], shape[0]]
        corners = (corners - [left, top, left, top]) / scale
        boxes = np.column_stack([corners[:, :2], corners[:, 2:] - corners[:, :2]])
        best = self._cv2.dnn.NMSBoxes(boxes.tolist(), scores.tolist(), self.score, OVERLAP) if len(boxes) else []
        best = np.asarray(best, dtype=np.intp).reshape(-1)
        return np.column_stack([boxes[best], scores[best]])

    def _read_input(self) -> tuple[str, tuple[int, int], Any, bool]:
        inputs = self._session.get_inputs()
        shape = [side if isinstance(side, int) else None for side in inputs[0].shape]
        sides = shape[1:] if len(shape) == 4 else shape
        last = sides[-1] == 3 and sides[0] != 3
        if len(inputs) != 1 or inputs[0].type not in TYPES or len(sides) != 3 or (sides[2 if last else 0] or 3) != 3:
            told = ", ".join(f"{i.name} {i.type} {i.shape}" for i in inputs)
            raise DataError(
                f"{self.path} must take one picture, (1, 3, height, width) of float or uint8; it takes {told}: "
                "call it in a function of your own, --detector python:module:function"
            )
        height, width = (side or SIDE for side in (sides[:2] if last else sides[1:]))
        return inputs[0].name, (height, width), TYPES[inputs[0].type], last

    def _read_names(self) -> dict[int, str]:
        """Return the names of the classes, where the file tells them, as those of Ultralytics do."""
        told = self._session.get_modelmeta().custom_metadata_map.get("names", "{}")
        try:
            names = ast.literal_eval(told)
            return {int(number): str(name) for number, name in dict(names).items()}
        except (ValueError, SyntaxError, TypeError):
            return {}

    def _choose_classes(self, given: Sequence[str | int]) -> list[int]:
        numbers = {name: number for number, name in self.names.items()}
        unknown = [c for c in given if not str(c).isdigit() and c not in numbers]
        if unknown:
            told = ", ".join(self.names.values()) or "no names, so give numbers"
            raise ArgumentError(f"class must be one that {self.path} knows; got {unknown[0]!r}; it tells {told}")
        if given:
            return [int(c) if str(c).isdigit() else numbers[str(c)] for c in given]
        people = [number for number, name in self.names.items() if name.lower() in PEOPLE]
        return people or ([1] if len(self._session.get_outputs()) == 3 else [0])

    def _fit(self, image: Image, shape: tuple[int, int]) -> tuple[Image, float, tuple[int, int]]:
        """Return a picture of this shape, by how much it was scaled, and where its left and upper edges are."""
        height, width = shape
        scale = min(height / image.shape[0], width / image.shape[1])
        inner = round(image.shape[1] * scale), round(image.shape[0] * scale)
        left, top = (width - inner[0]) // 2, (height - inner[1]) // 2
        out = np.full((height, width, 3), GREY, np.uint8)
        out[top : top + inner[1], left : left + inner[0]] = self._cv2.resize(image, inner)
        return out, scale, (left, top)

    def _decode(self, outputs: list[Any], shape: tuple[int, int]) -> tuple[FloatArray, FloatArray, Any]:
        """Return corners (n, 4), scores (n,) and classes (n,)."""
        layout = self.layout or self._recognise(outputs, shape)
        if layout == "torchvision":
            flat = [o.reshape(-1, 4) if o.shape[-1:] == (4,) else o.reshape(-1) for o in outputs]
            boxes = next(o for o in flat if o.ndim == 2)
            labels = next(o for o in flat if o.ndim == 1 and o.dtype.kind in "iu")
            return boxes, next(o for o in flat if o.ndim == 1 and o.dtype.kind == "f"), labels
        rows = outputs[0].reshape(outputs[0].shape[-2:])
        if layout == "end2end":
            return rows[:, :4], rows[:, 4], rows[:, 5].astype(int)
        if layout == "end2end7":
            return rows[:, 1:5], rows[:, 6], rows[:, 5].astype(int)
        rows = rows.T if layout == "yolov8" and rows.shape[0] < rows.shape[1] else rows
        sure = rows[:, 5:] * rows[:, 4:5] if layout == "yolov5" else rows[:, 4:]
        middle, half = rows[:, :2], rows[:, 2:4] / 2.0
        return np.column_stack([middle - half, middle + half]), sure.max(axis=1), sure.argmax(axis=1)

    def _recognise(self, outputs: list[Any], shape: tuple[int, int]) -> str:
        shapes = [o.shape for o in outputs]
        kinds = sorted((o.dtype.kind if o.ndim < 2 or o.shape[-1] != 4 else "b").replace("u", "i") for o in outputs)
        if kinds == ["b", "f", "i"]:
            return "torchvision"
        if len(outputs) == 1 and outputs[0].ndim in (2, 3) and shapes[0][:-2] in ((), (1,)):
            rows, columns = shapes[0][-2:]
            cells = [
                sum((shape[0] // s) * (shape[1] // s) for s in strides) for strides in ((8, 16, 32), (8, 16, 32, 64))
            ]
            if columns in cells and rows >= 5:
                return "yolov8"
            if rows in cells and len(self.names) == columns - 4:
                return "yolov8"  # with the rows and columns the other way round
            if (rows in cells or rows in [3 * n for n in cells]) and columns >= 6:
                return "yolov5"
            if columns in (6, 7):
                return "end2end" if columns == 6 else "end2end7"
            if 5 <= rows < columns:
                return "yolov8"
            if columns > 7:
                return "yolov5" if len(self.names) != columns - 4 else "yolov8"
        raise DataError(
            f"{self.path} returns {', '.join(map(str, shapes)) or 'nothing'}, in which no boxes were recognised: say "
            f"with --layout which of {', '.join(LAYOUTS)} it is, or call it in a function of your own, --detector "
            "python:module:function"
        )
