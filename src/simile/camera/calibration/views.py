"""From pixels to the ground and back: by a homography, by a camera with its lens, or by one of these for every frame.

Pixels (u, v) count from the upper left corner of the picture, to the right and down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.typing import FloatArray
from simile.camera.geometry import Camera
from simile.data.reading.values import quote
from simile.errors import ArgumentError, DataError

Size = tuple[int, int]


@runtime_checkable
class Calibration(Protocol):
    """What tells pixels from metres. `frame` counts from 0, as an array that broadcasts with the leading axes, too.

    Only a calibration that moves needs the frame; the others leave it alone.
    """

    @property
    def size(self) -> Size | None:
        """Width and height of the picture, in pixels, where they are known."""

    def to_court(self, pixels: ArrayLike, frame: ArrayLike | None = None) -> FloatArray:
        """Return the points of the ground (..., 2) that pixels (..., 2) show; NaN above the horizon."""

    def to_pixels(self, points: ArrayLike, frame: ArrayLike | None = None) -> FloatArray:
        """Return the pixels (..., 2) of points (..., 2) of the ground, or (..., 3); NaN behind the camera."""

    def resized(self, size: Size) -> Calibration:
        """Return the calibration of the same picture at another size."""


@dataclass(frozen=True, eq=False)
class Homography:
    """What a camera shows of a plane: nine numbers, which know neither where it stands nor its lens.

    Parameters
    ----------
    matrix : (3, 3) array_like
        From pixels (u, v, 1) to metres on the court, at any scale.
    size : (width, height), optional
        Of the picture, in pixels.
    seen : (x, y)
        A point of the ground before the camera, which tells on which side of the horizon the ground is.

    Examples
    --------
    >>> plan = Homography([[0.02, 0.0, -19.2], [0.0, -0.02, 10.8], [0.0, 0.0, 1.0]])
    >>> plan.to_court([960.0, 540.0]).round(6) + 0.0
    array([0., 0.])
    """

    MODEL: ClassVar[str] = "homography"

    matrix: FloatArray
    size: Size | None = None
    seen: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        try:
            matrix = np.array(self.matrix, dtype=np.float64)
        except (TypeError, ValueError):
            matrix = np.empty(0)
        if matrix.shape != (3, 3) or not np.isfinite(matrix).all() or np.linalg.matrix_rank(matrix) < 3:
            raise ArgumentError(
                f"homography must be an invertible (3, 3) matrix of finite numbers; got {quote(self.matrix)}"
            )
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "size", None if self.size is None else check_size(self.size))
        object.__setattr__(self, "seen", tuple(checks.number(value, "seen") for value in self.seen))

    def to_court(self, pixels: ArrayLike, frame: ArrayLike | None = None) -> FloatArray:  # noqa: ARG002
        """Return the points of the ground (..., 2) that pixels (..., 2) show; NaN above the horizon."""
        # Where the ground is, the third coordinate has the sign that it has at the point that is seen.
        return _apply(self.matrix, pixels, float(np.sign(self._inverse[2] @ [*self.seen, 1.0])))

    def to_pixels(self, points: ArrayLike, frame: ArrayLike | None = None) -> FloatArray:  # noqa: ARG002
        """Return the pixels (..., 2) of points (..., 2) of the ground; NaN behind the camera."""
        given = np.asarray(points, dtype=np.float64)
        if given.shape[-1] == 3 and np.nan_to_num(given[..., 2]).any():
            raise ArgumentError(
                "points must lie on the ground for a homography, which knows of nothing above it: calibrate with "
                "--model camera (model='camera')"
            )
        return _apply(self._inverse, given[..., :2], float(np.sign(self._inverse[2] @ [*self.seen, 1.0])))

    def resized(self, size: Size) -> Homography:
        """Return the homography of the same picture at another size."""
        if (scale := _scale(self.size, size)) == 1.0:
            return self
        return replace(self, matrix=self.matrix @ np.diag([1.0 / scale, 1.0 / scale, 1.0]), size=size)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file."""
        return {"matrix": self.matrix.tolist(), "seen": list(self.seen), "size": self.size and list(self.size)}

    @classmethod
    def from_dict(cls, about: Any) -> Homography:
        """Return what `to_dict` told."""
        return cls(about["matrix"], about.get("size"), tuple(about.get("seen", (0.0, 0.0))))

    @cached_property
    def _inverse(self) -> FloatArray:
        return np.asarray(np.linalg.inv(self.matrix))


@dataclass(frozen=True, eq=False)
class View:
    """What a camera shows in a picture of so many pixels, where it looks now; with the distortion of its lens.

    Parameters
    ----------
    camera : Camera
        Where it stands, how it is mounted, and its widest view.
    size : (width, height)
        Of the picture, in pixels; it takes the place of the aspect of the camera's lens.
    pose : (pan, tilt, zoom)
        Where it looks.
    distortion : (k1, k2)
        A ray at a tangent r from the middle is seen at r (1 + k1 r² + k2 r⁴); barrels are negative.

    Examples
    --------
    >>> view = View(Camera((0.0, -20.0, 10.0)), (1280, 720), (0.0, -26.565051, 1.0))
    >>> view.to_pixels([0.0, 0.0]).round(2)
    array([640., 360.])
    """

    MODEL: ClassVar[str] = "camera"

    camera: Camera
    size: Size
    pose: tuple[float, float, float] = (0.0, 0.0, 1.0)
    distortion: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_size(self.size))
        for name, n in (("pose", 3), ("distortion", 2)):
            if np.shape(given := getattr(self, name)) != (n,):
                raise ArgumentError(f"{name} must be {n} numbers; got {given!r}")
            object.__setattr__(self, name, tuple(checks.number(value, name) for value in given))
        checks.number(self.pose[2], "pose (its zoom)", above=0.0)
        lens = self.camera.lens._replace(aspect=self.size[0] / self.size[1])
        object.__setattr__(self, "camera", replace(self.camera, lens=lens))

    def to_court(
        self,
        pixels: ArrayLike,
        frame: ArrayLike | None = None,  # noqa: ARG002
        *,
        pose: Sequence[ArrayLike] | None = None,
    ) -> FloatArray:
        """Return the points of the ground (..., 2) that pixels (..., 2) show, at another pose perhaps."""
        looking = self.pose if pose is None else pose
        return self.camera.unproject(self._image(pixels, looking[2]), *looking)

    def to_angles(self, pixels: ArrayLike, *, pose: Sequence[ArrayLike] | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the pan and tilt (...) that would put what pixels (..., 2) show into the middle, ground or not."""
        looking = self.pose if pose is None else pose
        return self.camera.look(self._image(pixels, looking[2]), *looking)

    def to_pixels(
        self,
        points: ArrayLike,
        frame: ArrayLike | None = None,  # noqa: ARG002
        *,
        pose: Sequence[ArrayLike] | None = None,
    ) -> FloatArray:
        """Return the pixels (..., 2) of points (..., 2) of the ground, or (..., 3), at another pose perhaps."""
        pan, tilt, zoom = self.pose if pose is None else pose
        image = self.camera.project(points, pan, tilt, zoom)
        if any(self.distortion):
            tangent = np.asarray(self.camera.half_width(zoom))[..., np.newaxis]
            image = self._bend(image * tangent) / tangent
        half = self.size[0] / 2.0
        return np.asarray(image * [half, -half] + [half, self.size[1] / 2.0])

    def _image(self, pixels: ArrayLike, zoom: ArrayLike) -> FloatArray:
        """Return where pixels are in the picture of `Camera`, without distortion."""
        half = self.size[0] / 2.0
        image = np.asarray((np.asarray(pixels, dtype=np.float64) - [half, self.size[1] / 2.0]) / [half, -half])
        if not any(self.distortion):
            return image
        tangent = np.asarray(self.camera.half_width(zoom))[..., np.newaxis]
        return np.asarray(self._straighten(image * tangent) / tangent)

    def resized(self, size: Size) -> View:
        """Return the view in the same picture at another size."""
        return self if _scale(self.size, size) == 1.0 else replace(self, size=size)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file; one that `Camera.parse` takes, too."""
        about = {"size": list(self.size), "pose": list(self.pose), "distortion": list(self.distortion)}
        return {**self.camera.to_dict(), **about}

    @classmethod
    def from_dict(cls, about: Any) -> View:
        """Return what `to_dict` told."""
        return cls(
            Camera.from_dict(about),
            about["size"],
            tuple(about.get("pose", (0.0, 0.0, 1.0))),
            tuple(about.get("distortion", (0.0, 0.0))),
        )

    @cached_property
    def _reach(self) -> float:
        """The largest tangent up to which the lens shows what is farther out farther out."""
        k1, k2 = self.distortion
        part = 9.0 * k1**2 - 20.0 * k2  # of where 1 + 3 k1 r² + 5 k2 r⁴, the slope, is 0
        least = -3.0 * k1 + math.sqrt(part) if part >= 0.0 else 0.0
        return math.sqrt(2.0 / least) if least > 1e-12 else math.inf

    def _bend(self, rays: FloatArray) -> FloatArray:
        k1, k2 = self.distortion
        square = np.sum(rays**2, axis=-1, keepdims=True)
        # Beyond its reach the formula would fold what is outside of the picture back into it.
        return np.where(square <= self._reach**2, rays * (1.0 + k1 * square + k2 * square**2), np.nan)

    def _straighten(self, bent: FloatArray) -> FloatArray:
        """Undo `_bend`, by Newton's method along the ray."""
        k1, k2 = self.distortion
        far = np.sqrt(np.sum(bent**2, axis=-1, keepdims=True))
        r = np.minimum(far, 0.999 * self._reach)
        for _ in range(25):
            slope = np.maximum(1.0 + 3.0 * k1 * r**2 + 5.0 * k2 * r**4, 1e-6)
            r = np.clip(r - (r * (1.0 + k1 * r**2 + k2 * r**4) - far) / slope, 0.0, self._reach)
        found = np.abs(r * (1.0 + k1 * r**2 + k2 * r**4) - far) <= 1e-9 * (1.0 + far)
        with np.errstate(invalid="ignore"):
            return np.where(found, bent * np.where(far > 0.0, r / np.where(far > 0.0, far, 1.0), 1.0), np.nan)


@dataclass(frozen=True, eq=False)
class Keyframes:
    """A calibration that moves: known at some frames, and between them in between.

    Views of one camera are interpolated in its pan, its tilt and the logarithm of its zoom, as a head moves. Others
    are interpolated by where fixed points of the ground are in the picture.

    Parameters
    ----------
    frames : sequence of int
        In order, from 0.
    calibrations : sequence of Homography or View
        One for each.
    """

    MODEL: ClassVar[str] = "keyframes"

    frames: tuple[int, ...]
    calibrations: tuple[Homography | View, ...]

    def __post_init__(self) -> None:
        frames = tuple(checks.whole_number(frame, "frames") for frame in self.frames)
        if not frames or len(frames) != len(self.calibrations) or any(np.diff(frames) <= 0):
            raise ArgumentError(
                f"frames must be in order, each once, with a calibration for each; got {quote(list(frames))} and "
                f"{len(self.calibrations)} calibrations"
            )
        object.__setattr__(self, "frames", frames)
        object.__setattr__(self, "calibrations", tuple(self.calibrations))
        if len(sizes := {c.size for c in self.calibrations}) > 1:
            raise ArgumentError(f"calibrations must be of pictures of one size; got {sorted(map(str, sizes))}")

    @property
    def size(self) -> Size | None:
        """Width and height of the picture, in pixels, where they are known."""
        return self.calibrations[0].size

    @cached_property
    def view(self) -> View | None:
        """The view of the one camera that all keyframes are of; None where they are of several, or unknown."""
        first = self.calibrations[0]
        alike = all(
            isinstance(c, View) and (c.camera, c.distortion) == (first.camera, first.distortion)
            for c in self.calibrations
            if isinstance(first, View)
        )
        return first if alike and isinstance(first, View) else None

    def to_court(self, pixels: ArrayLike, frame: ArrayLike | None = None) -> FloatArray:
        """Return the points of the ground (..., 2) that pixels (..., 2) show in a frame, or one for each."""
        return self._at(pixels, frame, to_court=True)

    def to_pixels(self, points: ArrayLike, frame: ArrayLike | None = None) -> FloatArray:
        """Return the pixels (..., 2) of points (..., 2) of the ground, or (..., 3), in a frame, or one for each."""
        return self._at(points, frame, to_court=False)

    def poses(self, frame: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """Return the pan, tilt and zoom of the one camera in frames; None where it is not one."""
        if self.view is None:
            return None
        return interpolate_poses(
            np.array(self.frames, dtype=np.float64), np.array([c.pose for c in self._views]), self._check(frame)
        )

    def resized(self, size: Size) -> Keyframes:
        """Return the calibration of the same picture at another size."""
        return replace(self, calibrations=tuple(c.resized(size) for c in self.calibrations))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file; one that `Camera.parse` takes, where there is one camera."""
        each = [{"model": c.MODEL, **c.to_dict()} for c in self.calibrations]
        camera = {} if self.view is None else self.view.camera.to_dict()
        return {**camera, "frames": list(self.frames), "calibrations": each}

    @classmethod
    def from_dict(cls, about: Any) -> Keyframes:
        """Return what `to_dict` told."""
        kinds: dict[str, Any] = {kind.MODEL: kind for kind in (Homography, View)}
        return cls(tuple(about["frames"]), tuple(kinds[c["model"]].from_dict(c) for c in about["calibrations"]))

    @property
    def _views(self) -> list[View]:
        return [c for c in self.calibrations if isinstance(c, View)]

    def _check(self, frame: ArrayLike | None) -> FloatArray:
        if frame is None:
            raise ArgumentError(
                f"frame must be given: this calibration moves, and is known for frames {self.frames[0]} to "
                f"{self.frames[-1]}"
            )
        asked = np.asarray(frame, dtype=np.float64)
        wrong = ~((asked >= self.frames[0]) & (asked <= self.frames[-1]))
        if wrong.any():
            raise DataError(
                f"frame {asked[wrong].flat[0]:g} is outside of what was calibrated, {self.frames[0]} to "
                f"{self.frames[-1]}, counted from 0: add point pairs of frames that far, or cut there"
            )
        return asked

    def _at(self, values: ArrayLike, frame: ArrayLike | None, *, to_court: bool) -> FloatArray:
        asked, given = self._check(frame), np.asarray(values, dtype=np.float64)
        if self.view is not None:
            pose = self.poses(asked)
            return self.view.to_court(given, pose=pose) if to_court else self.view.to_pixels(given, pose=pose)
        shape = np.broadcast_shapes(asked.shape, given.shape[:-1])
        asked, given = np.broadcast_to(asked, shape), np.broadcast_to(given, (*shape, given.shape[-1]))
        out = np.full((*shape, 2), np.nan)
        for number in np.unique(asked):
            here = asked == number
            calibration = self._between(float(number))
            out[here] = (calibration.to_court if to_court else calibration.to_pixels)(given[here])
        return out

    def _between(self, number: float) -> Homography | View:
        after = int(np.searchsorted(self.frames, number))
        if self.frames[after] == number:
            return self.calibrations[after]
        ends = self.calibrations[after - 1 : after + 1]
        share = (number - self.frames[after - 1]) / (self.frames[after] - self.frames[after - 1])
        middle = np.mean([_look_at(c) for c in ends], axis=0)
        for reach in 8.0 * 0.5 ** np.arange(8):
            square = middle + reach * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
            first, last = (c.to_pixels(square) for c in ends)
            if np.isfinite([first, last]).all():
                return Homography(
                    exact_homography((1.0 - share) * first + share * last, square), self.size, tuple(middle.tolist())
                )
        raise DataError(
            f"frames {self.frames[after - 1]} and {self.frames[after]} show nothing of the ground that is before the "
            "camera in both: add point pairs of a frame between them"
        )


def interpolate_poses(
    times: FloatArray, poses: FloatArray, asked: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return pan, tilt and zoom (...) at other times (...) than poses (n, 3) are known for, within them.

    Pan goes the shorter way round; what changes evenly of a zoom is its logarithm.
    """
    pan = np.interp(asked, times, np.unwrap(poses[:, 0], period=360.0))
    tilt = np.interp(asked, times, poses[:, 1])
    return pan, tilt, np.exp(np.interp(asked, times, np.log(poses[:, 2])))


def exact_homography(source: FloatArray, target: FloatArray) -> FloatArray:
    """Return the homography (3, 3) that takes four points (4, 2) to four others."""
    rows = [[x, y, 1, 0, 0, 0, -u * x, -u * y] for (x, y), (u, _) in zip(source, target, strict=True)]
    rows += [[0, 0, 0, x, y, 1, -v * x, -v * y] for (x, y), (_, v) in zip(source, target, strict=True)]
    return np.append(np.linalg.solve(np.array(rows), [*target[:, 0], *target[:, 1]]), 1.0).reshape(3, 3)


def check_size(given: Any) -> Size:
    """Return the width and height of a picture."""
    if np.shape(given) != (2,):
        raise ArgumentError(f"size must be the width and height of the picture, in pixels; got {given!r}")
    width, height = (checks.whole_number(side, "size", at_least=1) for side in given)
    return width, height


def _scale(known: Size | None, size: Size) -> float:
    """Return how much larger a picture is; one of another shape is another picture."""
    if known is None:
        return 1.0
    scale = size[0] / known[0]
    if abs(size[1] / known[1] / scale - 1.0) > 0.01:
        raise DataError(
            f"the calibration is of a picture of {known[0]} x {known[1]} pixels, and this one has {size[0]} x "
            f"{size[1]}, which is another shape: calibrate with a frame of this video"
        )
    return scale


def _look_at(calibration: Homography | View) -> tuple[float, float]:
    """Return a point of the ground in the picture."""
    if isinstance(calibration, Homography):
        return calibration.seen
    low = [calibration.size[0] / 2.0, 0.75 * calibration.size[1]]
    found = calibration.to_court(low)
    return (0.0, 0.0) if np.isnan(found).any() else (float(found[0]), float(found[1]))


def _apply(matrix: FloatArray, values: ArrayLike, sign: float) -> FloatArray:
    """Return where a homography takes points (..., 2); NaN where the third coordinate has not this sign."""
    given = np.asarray(values, dtype=np.float64)
    x, y, w = np.moveaxis(given @ matrix[:, :2].T + matrix[:, 2], -1, 0)
    with np.errstate(all="ignore"):
        return np.where((np.sign(w) == sign)[..., np.newaxis], np.stack([x / w, y / w], axis=-1), np.nan)
