"""Who finds people in a picture: what moves before a still background, or any function."""

from __future__ import annotations

import importlib
import inspect
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.needs import need
from simile._common.typing import FloatArray
from simile.camera.calibration import Calibration
from simile.camera.live.sources import Image
from simile.errors import ArgumentError, DataError

TALL = 1.8  # metres, of a person
WIDE = 0.34  # of the height, with arms and a stride
SHORTEST, TALLEST = 0.4, 1.45  # of the height: less is no person, and more is one behind another
MEMORY = 5000  # frames of the background; who stands still for a tenth of it is taken for a part of it
LEARNING = 30  # frames for which a picture of the empty court is shown
CLOSEST = 60.0  # how far a colour may differ from the background's, in variances


@runtime_checkable
class Detector(Protocol):
    """Finds people in a picture."""

    def detect(self, image: Image) -> FloatArray:
        """Return left, top, width and height of people, and perhaps how sure it is, (n, 4) or (n, 5), in pixels.

        `image` (H, W, 3) has red, green and blue.
        """


def read_boxes(found: Any, what: str) -> FloatArray:
    """Check what a detector has found: (n, 4) or (n, 5) numbers; (0, 4) where it found nobody."""
    try:
        boxes = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        boxes = np.empty(1)
    if boxes.size == 0:
        return np.empty((0, 4))
    if boxes.ndim != 2 or boxes.shape[1] not in (4, 5):
        raise DataError(
            f"{what} must be rows of left, top, width, height, and perhaps a score, in pixels; got "
            f"{'shape ' + str(boxes.shape) if boxes.ndim != 1 else repr(found)[:80]}"
        )
    return boxes


def find_feet(boxes: FloatArray) -> FloatArray:
    """Return where the people in boxes (n, 4) stand, in pixels (n, 2): in the middle of the lower edges."""
    return np.column_stack([boxes[:, 0] + boxes[:, 2] / 2.0, boxes[:, 1] + boxes[:, 3]])


def measure_people(calibration: Calibration, feet: ArrayLike) -> FloatArray:
    """Return how high people are in the picture, in pixels (n,), who stand at pixels (n, 2).

    A metre of the ground is as many pixels wide as an upright one seen from the side is high; how much of it is lost
    where the camera looks down tells the metre along the view. So no more is needed than where the ground is.
    """
    ground = np.asarray(calibration.to_court(feet))
    steps = np.array([[-0.5, 0.0], [0.5, 0.0], [0.0, -0.5], [0.0, 0.5]])
    left, right, near, far = np.moveaxis(calibration.to_pixels(ground[..., np.newaxis, :] + steps), -2, 0)
    x, y = right - left, far - near
    both = (x**2).sum(axis=-1) + (y**2).sum(axis=-1)
    area = x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    widest = np.sqrt(np.maximum(both**2 - 4.0 * area**2, 0.0))  # the difference of the squared lengths of both metres
    return np.asarray(TALL * np.sqrt(widest) + 0.25 * np.sqrt(np.maximum(both - widest, 0.0)))


class Motion:
    """Finds what moves before a still background and is about as high as a person there; needs no weights.

    The background is a mixture of colours per pixel (MOG2 of OpenCV), learned as it goes; shadows are left out. The
    camera must stand still. People who touch each other are told apart by their size alone.

    Parameters
    ----------
    calibration : Calibration
        How high a person is, and where.
    background : (H, W, 3) array of uint8, optional
        A picture of the empty court, by the same camera. Without it, who stands still at first is not found until he
        has moved away.
    width : int
        To which pictures are made smaller, in pixels.
    """

    def __init__(self, calibration: Calibration, *, background: Image | None = None, width: int = 640) -> None:
        self.calibration = calibration
        self.width = checks.whole_number(width, "width", at_least=64)
        self._cv2 = need("cv2", "detecting motion", extra="live")
        self._model = self._cv2.createBackgroundSubtractorMOG2(history=MEMORY, varThreshold=CLOSEST, detectShadows=True)
        self._pace = -1.0  # as quickly as is good for a picture of which nothing is known
        for _ in range(0 if background is None else LEARNING):
            self.detect(np.asarray(background))
        self._pace = -1.0 if background is None else 1.0 / MEMORY

    def detect(self, image: Image) -> FloatArray:
        """Return the boxes (n, 4) of what moves."""
        cv2, scale = self._cv2, max(image.shape[1] / self.width, 1.0)
        small = image
        if scale > 1.0:
            small = cv2.resize(image, (self.width, round(image.shape[0] / scale)), interpolation=cv2.INTER_AREA)
        moving = cv2.threshold(self._model.apply(small, learningRate=self._pace), 200, 255, cv2.THRESH_BINARY)[1]
        if cv2.countNonZero(moving) > 0.5 * moving.size:  # the first frame, or the light went on
            return np.empty((0, 4))
        moving = cv2.morphologyEx(moving, cv2.MORPH_CLOSE, np.ones((5, 3), np.uint8))
        moving = cv2.morphologyEx(moving, cv2.MORPH_OPEN, np.ones((3, 2), np.uint8))
        _, labels, stats, _ = cv2.connectedComponentsWithStats(moving, connectivity=8)
        blobs = stats[1:, :4].astype(np.float64)
        heights = measure_people(self.calibration, scale * find_feet(blobs)) / scale
        found = []
        for number, (blob, height) in enumerate(zip(blobs, heights, strict=True), start=1):
            if blob[3] >= SHORTEST * height:  # never so where the ground cannot be
                found.extend(self._part(labels, number, blob.astype(int), height, scale))
        return np.asarray(np.reshape(found, (-1, 4)) * scale)

    def _part(self, labels: Any, number: int, blob: Any, height: float, scale: float) -> list[list[float]]:
        """Return one box for each person that a blob has room for."""
        left, top, width, high = blob
        mask = labels[top : top + high, left : left + width] == number
        parts = max(1, round(width / (WIDE * height)))
        boxes: list[list[float]] = []
        edges = np.linspace(0, width, parts + 1).astype(int)
        for begin, end in pairwise(edges):
            rows = np.flatnonzero(mask[:, begin:end].any(axis=1))
            if not len(rows):
                continue
            first, last = top + rows[0], top + rows[-1] + 1
            middle = left + (begin + end) / 2.0
            if last - first > TALLEST * height:  # somebody behind: his head is the highest, and his feet are hidden
                behind = float(self._height_at(middle, first + height, scale))
                boxes.append([left + begin, first, end - begin, behind])
                boxes.append([left + begin, last - height, end - begin, height])
            elif last - first >= SHORTEST * height:
                boxes.append([left + begin, first, end - begin, last - first])
        return boxes

    def _height_at(self, x: float, y: float, scale: float) -> Any:
        return measure_people(self.calibration, scale * np.array([[x, y]]))[0] / scale


class Function:
    """Any function as a detector: it is given a picture (H, W, 3) and returns boxes.

    Parameters
    ----------
    path : str
        module:function, where Python finds it. Its code runs here, so it must be yours or one that you trust.
    """

    def __init__(self, path: str) -> None:
        module, _, name = path.partition(":")
        self.path = path
        try:
            self.function = getattr(importlib.import_module(module), name)
            inspect.signature(self.function).bind(None)
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise ArgumentError(
                f"detector must be python:module:function, a function of one picture; got python:{path}: {error}"
            ) from None

    def detect(self, image: Image) -> FloatArray:
        """Return what the function has found."""
        try:
            found = self.function(image)
        except Exception as error:  # it may be anything
            raise DataError(f"{self.path} failed: {type(error).__name__}: {error}") from error
        return read_boxes(found, f"what {self.path} returns")
