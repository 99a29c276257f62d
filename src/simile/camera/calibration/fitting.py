"""Finding a calibration from point pairs, by OpenCV, and telling how well it fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.needs import need
from simile._common.typing import FloatArray
from simile.camera.calibration.files import Kept
from simile.camera.calibration.pairs import Pairs
from simile.camera.calibration.views import Homography, Keyframes, Size, View, check_size
from simile.camera.courts import Court
from simile.camera.geometry import Base, Camera, Lens
from simile.data.reading.values import quote
from simile.errors import ArgumentError, DataError

Mask = npt.NDArray[np.bool_]

MODELS = ("homography", "camera")
ROUGH = 0.02  # of the extent of the points in the picture: pairs that miss by more do not belong together
FINE = 0.004  # and pairs that miss by less are never left out
MANY = 8  # points, from which on the wrong ones are found by the others
SUSPECTS = 12  # points that are looked at more closely at a time
BEHIND = 1e6  # pixels that a point behind the camera counts for
FOCAL = np.geomspace(0.3, 12.0, 40)  # of the width of the picture: from a fish-eye to a long lens
PRIOR = np.array([2.0, 2.0, 0.3, 0.1])  # base: degrees; k1, k2: what one pixel of misfit weighs as much as


@dataclass(frozen=True, eq=False)
class Fit:
    """A calibration and how well it fits the pairs that it was found from.

    Parameters
    ----------
    calibration : Homography, View or Keyframes
    pairs : Pairs
        All that were given.
    pixels, metres : (n,) arrays
        By how much each misses, in the picture and on the ground; NaN in metres for points above the ground.
    kept : (n,) array of bool
        Which of them were used; the others do not fit to those.
    doubt : dict
        One standard deviation of what was found of a camera; empty for a homography.
    by_head : bool
        Whether pan, tilt and zoom count as those of the head that was filmed with.
    """

    calibration: Kept
    pairs: Pairs
    pixels: FloatArray
    metres: FloatArray
    kept: Mask
    doubt: dict[str, float]
    by_head: bool = False

    @property
    def left_out(self) -> tuple[str, ...]:
        """The names of the pairs that were not used."""
        return tuple(name for name, kept in zip(self.pairs.names, self.kept, strict=True) if not kept)

    def to_dict(self) -> dict[str, Any]:
        """Return the residuals as plain values."""
        pairs = self.pairs
        return {
            "median_pixels": float(np.median(self.pixels[self.kept])),
            "worst_pixels": float(self.pixels[self.kept].max()),
            "median_metres": float(np.nanmedian(self.metres[self.kept])),
            "worst_metres": float(np.nanmax(self.metres[self.kept])),
            "worst": pairs.names[int(np.argmax(np.where(self.kept, self.pixels, -1.0)))],
            "left_out": list(self.left_out),
            "doubt": self.doubt,
            "by_head": self.by_head,
            "pairs": [
                {"name": n, "frame": int(f), "pixel": p, "point": q, "pixels": float(e), "metres": float(m), "used": k}
                for n, f, p, q, e, m, k in zip(
                    pairs.names,
                    pairs.frames,
                    pairs.pixels.tolist(),
                    pairs.points.tolist(),
                    self.pixels,
                    np.nan_to_num(self.metres),
                    self.kept.tolist(),
                    strict=True,
                )
            ],
        }

    def __str__(self) -> str:
        about, n = self.to_dict(), int(self.kept.sum())
        lines = [
            f"{self.calibration.MODEL} from {n} of {len(self.pairs)} points: misses by {about['median_pixels']:.2f} "
            f"pixels and {about['median_metres']:.2f} m in the median, {about['worst_pixels']:.2f} pixels and "
            f"{about['worst_metres']:.2f} m at worst ({about['worst']})"
        ]
        if n == 4:
            lines.append("Four points fit whatever they are: add a fifth and more, to see whether they are right")
        lines += [
            f"left out: {name}, which is {error:.0f} pixels off by the others"
            for name, error, kept in zip(self.pairs.names, self.pixels, self.kept, strict=True)
            if not kept
        ]
        views = [c for c in getattr(self.calibration, "calibrations", (self.calibration,)) if isinstance(c, View)]
        if views:
            camera, view = views[0].camera, views[0]
            x, y, z = camera.position
            lines.append(
                f"camera at {x:.2f}, {y:.2f}, {z:.2f} m (give or take {self.doubt['position']:.2f}), heading "
                f"{camera.base.heading + view.pose[0]:.2f}, tilt {camera.base.tilt + view.pose[1]:.2f}, roll "
                f"{camera.base.roll:.2f} degrees, {camera.lens.widest:.1f} degrees wide, "
                f"k1 {view.distortion[0]:.3f}, k2 {view.distortion[1]:.3f}"
            )
        return "\n".join(lines)


def calibrate(
    pairs: Any,
    *,
    court: Court | None = None,
    model: str = "homography",
    size: Size | None = None,
    poses: ArrayLike | None = None,
) -> Fit:
    """Find where in a picture the court is from point pairs.

    Pairs of several frames give a calibration that moves: of one camera that turns and zooms (`model="camera"`), or a
    homography for each of these frames. Of eight points and more in a frame, those that the others contradict are
    left out and named; of fewer, all must fit.

    Parameters
    ----------
    pairs : path, (n, 4) or (n, 5) array_like, or Pairs
        A table with columns u, v, x, y or u, v, name, see `read_pairs`; or rows u, v, x, y and perhaps z.
    court : Court, optional
        Whose landmarks the names in a table are.
    model : {"homography", "camera"}
        What the ground looks like, from four points on; or the camera itself, from six on: where it stands and looks,
        its focal length and the distortion of its lens.
    size : (width, height), optional
        Of the picture, in pixels; a camera needs it.
    poses : (frames, 3) array_like, optional
        What the head told of its pan, tilt and zoom in each frame of the pairs, in their order. The camera that is
        found then counts as the head does: its base says where the head's zero looks, its lens what zoom 1 shows.

    Raises
    ------
    DataError
        When the points are too few, lie on a line, are mirrored, or do not fit together; the message names which.
    """
    if model not in MODELS:
        raise ArgumentError(f"model must be {' or '.join(MODELS)}; got {model!r}")
    need("cv2", "calibrate")
    given, picture = Pairs.of(pairs, court), None if size is None else check_size(size)
    if model == "camera" and picture is None:
        raise ArgumentError("size must be given for a camera: the width and height of the picture (--size 1920 1080)")
    frames = np.unique(given.frames) if len(given) else np.zeros(1, dtype=np.intp)
    told = None if poses is None else _check_poses(poses, model, len(frames))
    if model == "camera" and picture is not None:
        fit, kept, doubt = _fit_camera(given, picture, frames, told)
    else:
        fit, kept, doubt = [], np.ones(len(given), dtype=bool), {}
        for frame in frames:
            here = given.frames == frame
            found, kept[here] = _fit_homography(given[here], picture, _in(frame, frames))
            fit.append(found)
    calibration: Kept = Keyframes(tuple(frames.tolist()), tuple(fit)) if len(frames) > 1 else fit[0]
    pixels, metres = _misses(calibration, given)
    return Fit(calibration, given, pixels, metres, kept, doubt, told is not None)


def _check_poses(poses: ArrayLike, model: str, n: int) -> FloatArray:
    if model != "camera":
        raise ArgumentError("poses (--poses) are of a camera: find it by --model camera (model='camera')")
    told = checks.table(poses, "poses")
    if told.shape != (n, 3) or (told[:, 2] <= 0.0).any():
        raise ArgumentError(
            f"poses must be pan, tilt and zoom > 0 in each of the {n} frames; got {quote(told.tolist())}"
        )
    return told


# ---------------------------------------------------------------------------------------------------------- the ground


def _fit_homography(pairs: Pairs, size: Size | None, where: str) -> tuple[Homography, Mask]:
    """Return the homography of the points on the ground in one frame, and which pairs it is from."""
    cv2 = need("cv2", "calibrate")
    ground = pairs.ground
    flat = pairs[ground]
    _check_spread(flat, where)

    def fit(chosen: Pairs) -> Homography:
        # Fitted in the picture, where the clicks were made, and turned round.
        matrix, _ = cv2.findHomography(chosen.points[:, :2], chosen.pixels, 0)
        if matrix is None or np.linalg.matrix_rank(matrix) < 3:
            raise DataError(f"the points{where} lie nearly on a line, or on one with a single other: {SPREAD}")
        return Homography(np.linalg.inv(matrix), size, tuple(chosen.points[:, :2].mean(axis=0).tolist()))

    def guess() -> Mask:
        """Tell which pairs agree: all but those that the others contradict, or else those that most agree with."""
        kept = _drop_strangers(fit, flat)
        if np.nanmedian(_misses(fit(flat[kept]), flat)[0]) <= 0.5 * ROUGH * _extent(flat):
            return kept
        _, mask = cv2.findHomography(flat.points[:, :2], flat.pixels, cv2.LMEDS)
        good = np.zeros(len(flat)) if mask is None else mask.ravel()
        return good.astype(bool) if good.sum() >= 4 else kept

    found, kept = _sift(fit, flat, guess, where)
    everywhere = np.zeros(len(pairs), dtype=bool)
    everywhere[np.flatnonzero(ground)[kept]] = True
    _check_mirror(found, where)
    return found, everywhere


SPREAD = "choose points that are spread over the picture, four or more with no three on a line"


def _check_spread(flat: Pairs, where: str) -> None:
    if len(flat) < 4:
        raise DataError(f"{len(flat)} points on the ground{where} are too few: a picture needs 4 or more: {SPREAD}")
    for name, values in (("court", flat.points[:, :2]), ("picture", flat.pixels)):
        middle = values - values.mean(axis=0)
        size = np.linalg.svd(middle, compute_uv=False)
        if size[1] < 0.01 * size[0]:
            raise DataError(f"the {len(flat)} points{where} lie on a line in the {name}: {SPREAD}")
    # Of the equations of a homography, eight must be independent.
    u, v = ((flat.pixels - flat.pixels.mean(axis=0)) / flat.pixels.std()).T
    x, y = ((flat.points[:, :2] - flat.points[:, :2].mean(axis=0)) / flat.points[:, :2].std()).T
    one, none = np.ones(len(flat)), np.zeros((3, len(flat)))
    rows = np.hstack([[x, y, one, *none, -u * x, -u * y, -u], [*none, x, y, one, -v * x, -v * y, -v]]).T
    values = np.linalg.svd(rows, compute_uv=False)
    if values[7] < 1e-3 * values[0]:
        raise DataError(f"all but one of the points{where} lie on a line: {SPREAD}")


def _check_mirror(found: Homography, where: str) -> None:
    """Refuse pairs that no camera above the ground can see so."""
    step = 0.01 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    a, b, c = found.to_pixels(np.array(found.seen) + step)
    if np.linalg.det([b - a, c - a]) > 0.0:  # v goes down where y goes away
        raise DataError(
            f"the points{where} are mirrored: no camera above the ground sees them so. Left and right are exchanged, "
            "or near and far, or x and y: y goes away from the camera where x goes to its right"
        )


def _drop_strangers(fit: Callable[[Pairs], Any], pairs: Pairs) -> Mask:
    """Leave out, one after the other, the point that is farthest from where the others say, as long as it is far.

    A lens that bends the whole picture makes no point a stranger; a median would take the half that it bends least.
    """
    kept = np.ones(len(pairs), dtype=bool)
    while kept.sum() > max(6, 0.6 * len(pairs)):
        among = np.where(kept, np.minimum(_misses(fit(pairs[kept]), pairs)[0], BEHIND), 0.0)
        strange, left = 0.0, kept
        suspects = np.argsort(among)[-SUSPECTS:]
        for i in suspects[among[suspects] > 0.5 * ROUGH * _extent(pairs)]:
            others = kept & (np.arange(len(pairs)) != i)
            without = np.minimum(_misses(fit(pairs[others]), pairs)[0], BEHIND)
            usual = max(float(np.sqrt(np.mean(without[others] ** 2))), FINE * _extent(pairs) / 6.0)
            # The studentised residual: a point that stands alone is far from what the others say even if it is right.
            if (far := float(np.sqrt(among[i] * without[i])) / usual) > strange:
                strange, left = far, others
        if strange < 6.0:
            break
        kept = left
    return kept


def _extent(pairs: Pairs) -> float:
    """Return the diagonal of what the pairs cover of the picture, in pixels."""
    return float(np.linalg.norm(np.ptp(pairs.pixels, axis=0)))


def _sift(fit: Callable[[Pairs], Any], pairs: Pairs, guess: Callable[[], Mask], where: str) -> tuple[Any, Mask]:
    """Fit those pairs that fit together, all of them if possible; refuse them where it cannot be told which do."""
    extent, kept = _extent(pairs), np.ones(len(pairs), dtype=bool)
    for attempt in range(10):
        found = fit(pairs[kept])
        misses = _misses(found, pairs)[0]
        within = misses <= max(FINE * extent, 6.0 * float(np.nanmedian(misses)))
        close = attempt > 0 or np.nanmedian(misses) <= 0.5 * ROUGH * extent  # else all may be spoilt by some
        if len(pairs) < MANY or ((within == kept).all() and close) or within.sum() < 4:
            break
        kept = within if attempt else guess()
    median, worst = float(np.nanmedian(misses)), int(np.nanargmax(np.where(kept, misses, -1.0)))
    if np.isinf(misses[kept]).any() and len(pairs) < MANY:
        raise DataError(
            f"{_list(pairs, kept & np.isinf(misses))}{where} would lie behind the camera: two points are exchanged "
            "there, or one is wrong"
        )
    if misses[worst] > ROUGH * extent and len(pairs) < MANY:
        raise DataError(_blame(fit, pairs, misses, worst, extent, where))
    if median > ROUGH * extent or 2 * kept.sum() < len(pairs):
        raise DataError(
            f"the points{where} do not fit together: {median:.0f} pixels off in the median, most at "
            f"{pairs.names[worst]}: see whether they are of this picture and of this court"
        )
    return found, kept


def _blame(fit: Callable[[Pairs], Any], pairs: Pairs, misses: FloatArray, worst: int, extent: float, where: str) -> str:
    """Say which of few points spoils the others."""
    said = f"the {len(pairs)} points{where} do not fit together: {pairs.names[worst]} is {misses[worst]:.0f} pixels off"
    if len(pairs) < 6:
        return f"{said}, but any of them may be the wrong one: look at them again, or add a sixth, to tell which"
    without = []
    for i in range(len(pairs)):
        others = np.arange(len(pairs)) != i
        try:
            without.append(float(np.nanmax(_misses(fit(pairs[others]), pairs[others])[0])))
        except DataError:
            without.append(np.inf)
    guilty = int(np.argmin(without))
    if without[guilty] > ROUGH * extent:
        return f"{said}: more than one is wrong"
    others = np.arange(len(pairs)) != guilty
    error = _misses(fit(pairs[others]), pairs)[0][guilty]
    return (
        f"{pairs.names[guilty]}{where} spoils the others: without it they fit to {without[guilty]:.1f} pixels, and it "
        f"is {error:.0f} pixels off: mend it, or remove it"
    )


def _misses(calibration: Any, pairs: Pairs) -> tuple[FloatArray, FloatArray]:
    """Return by how much pairs miss, in pixels and in metres on the ground."""
    ground = pairs.ground
    flat = isinstance(calibration, Homography) or isinstance(getattr(calibration, "calibrations", [0])[0], Homography)
    pixels, metres = np.full((2, len(pairs)), np.nan)
    known = ground if flat else np.ones(len(pairs), dtype=bool)
    seen = calibration.to_pixels(pairs.points[known][:, : 2 if flat else 3], pairs.frames[known])
    pixels[known] = np.linalg.norm(seen - pairs.pixels[known], axis=1)
    back = calibration.to_court(pairs.pixels[ground], pairs.frames[ground])
    metres[ground] = np.linalg.norm(back - pairs.points[ground, :2], axis=1)
    return np.where(np.isnan(pixels) & known, np.inf, pixels), metres


def _in(frame: int, frames: npt.NDArray[Any]) -> str:
    return f" in frame {frame}" if len(frames) > 1 else ""


def _list(pairs: Pairs, mask: Mask) -> str:
    return ", ".join(name for name, chosen in zip(pairs.names, mask, strict=True) if chosen)


# ---------------------------------------------------------------------------------------------------------- the camera


def _fit_camera(
    pairs: Pairs, size: Size, frames: npt.NDArray[Any], told: FloatArray | None
) -> tuple[list[Any], Mask, dict[str, float]]:
    """Return the views of one camera in all frames, which pairs they are from, and what is doubtful of them."""
    if len(pairs) < 6:
        raise DataError(
            f"{len(pairs)} points are too few for a camera: give 6 or more, or be content with --model homography, "
            "which takes 4"
        )
    kept, starts = np.ones(len(pairs), dtype=bool), {}
    for frame in frames:
        here = pairs.frames == frame
        if (here & pairs.ground).sum() >= 4:
            _, good = _fit_homography(pairs[here], size, _in(frame, frames))
            kept[here] = good | ~pairs.ground[here]
            starts[frame] = _place(pairs[here & kept], size)
        elif len(frames) == 1 or here.sum() < 2:
            raise DataError(f"{here.sum()} points{_in(frame, frames)} are too few: give 4 or more on the ground")
    if not starts:
        raise DataError("no frame has 4 points on the ground: give more of them")
    solved: list[_Solution] = []

    def fit(chosen: Pairs) -> Any:
        solved.append(_Solution.of(chosen, size, frames, starts, told))
        return solved[-1].calibration

    _, kept = _sift(fit, pairs, lambda: kept, "")
    best = solved[-1]
    distance = float(np.linalg.norm(pairs.points.mean(axis=0) - best.views[0].camera.position))
    if best.doubt["position"] > 0.25 * distance:
        raise DataError(
            f"the points do not tell where the camera stands (give or take {best.doubt['position']:.0f} m): choose "
            "points over more of the picture, some above the ground (z), or be content with --model homography"
        )
    return best.views, kept, best.doubt


@dataclass(frozen=True, eq=False)
class _Solution:
    """The views of a camera in all frames, and one standard deviation of its place and its angles."""

    views: list[View]
    doubt: dict[str, float]
    frames: tuple[int, ...]

    @property
    def calibration(self) -> Kept:
        return Keyframes(self.frames, tuple(self.views)) if len(self.views) > 1 else self.views[0]

    @classmethod
    def of(
        cls,
        pairs: Pairs,
        size: Size,
        frames: npt.NDArray[Any],
        starts: dict[int, tuple[FloatArray, float]],
        told: FloatArray | None,
    ) -> _Solution:
        """Fit position, base and distortion of one camera to all pairs, and what is not told of its poses."""
        from scipy.optimize import least_squares

        many, index = len(frames) > 1, np.searchsorted(frames, pairs.frames)
        position = np.median([place for place, _ in starts.values()], axis=0)
        usual = np.median([focal for _, focal in starts.values()])
        guess = np.empty((len(frames), 3))  # pan, tilt and the logarithm of the focal length
        for i, frame in enumerate(frames):
            pan, tilt = Camera(tuple(position)).aim(pairs.points[index == i])
            focal = starts.get(frame, (0, usual))[1]
            turn, lift = _aim_at(pairs.pixels[index == i].mean(axis=0), size, focal)
            guess[i] = np.median(pan) - turn, np.median(tilt) - lift, np.log(focal)
        known = None if told is None else np.column_stack([told[:, :2], np.log(told[:, 2])])
        first = guess.ravel() if known is None else np.median(guess - known, axis=0)[[0, 2]]

        def unpack(values: FloatArray) -> tuple[View, FloatArray]:
            (x, y, z, lift, roll, k1, k2), rest = values[:7], values[7:]
            if known is not None:  # left are where its zero looks, and the focal length of zoom 1
                base, poses = Base(rest[0], lift, roll), np.add(known, [0.0, 0.0, rest[1]])
            elif many:
                base, poses = Base(0.0, lift, roll), rest.reshape(-1, 3)
            else:  # the pan is the heading of the base, whose tilt cannot be told from that of the head
                base, poses = Base(rest[0], 0.0, roll), rest.reshape(1, 3) * [0.0, 1.0, 1.0]
            return View(Camera((x, y, z), base, WIDE), size, distortion=(k1, k2)), poses

        def miss(values: FloatArray) -> FloatArray:
            view, poses = unpack(values)
            pan, tilt, zoom = poses[index].T
            off = view.to_pixels(pairs.points, pose=(pan, tilt, np.exp(zoom))) - pairs.pixels
            return np.append(np.nan_to_num(off, nan=1e3).ravel(), values[3:7] / PRIOR)

        solved = least_squares(miss, [*position, 0.0, 0.0, 0.0, 0.0, *first], x_scale="jac", max_nfev=100)
        view, poses = unpack(solved.x)
        spare = max(2 * len(pairs) - len(solved.x), 1)
        covariance = np.linalg.pinv(solved.jac.T @ solved.jac) * max(2.0 * solved.cost / spare, 1e-12)
        sd = np.sqrt(np.diag(covariance))
        lifts = sd[8::3] if known is None else sd[3:4]
        doubt = {"position": float(np.linalg.norm(sd[:3])), "pan": float(sd[7::3].max()), "tilt": float(lifts.max())}
        zooms = np.exp(poses[:, 2])
        one = float(zooms.min() if known is None else np.exp(solved.x[8]))
        lens = Lens(2.0 * float(np.degrees(np.arctan(1.0 / one))), size[0] / size[1])
        camera = replace(view.camera, lens=lens)
        made = [
            View(camera, size, (float(pan), float(tilt), float(zoom / one)), view.distortion)
            for (pan, tilt, _), zoom in zip(poses, zooms, strict=True)
        ]
        return cls(made, doubt, tuple(frames.tolist()))


WIDE = Lens(90.0, 1.0)  # where zoom is the focal length in halves of the width


def _place(pairs: Pairs, size: Size) -> tuple[FloatArray, float]:
    """Return the position that explains one picture best, and the focal length in halves of its width.

    In a plane, position and focal length are told apart by the perspective alone: so the latter is searched through.
    """
    cv2 = need("cv2", "calibrate")
    best: tuple[float, FloatArray, float] = (np.inf, np.zeros(3), 1.0)
    for focal in FOCAL * size[0]:
        lens = np.array([[focal, 0.0, size[0] / 2.0], [0.0, focal, size[1] / 2.0], [0.0, 0.0, 1.0]])
        done, turn, shift = cv2.solvePnP(pairs.points, pairs.pixels, lens, None, flags=cv2.SOLVEPNP_SQPNP)
        if not done:
            continue
        seen, _ = cv2.projectPoints(pairs.points, turn, shift, lens, None)
        error = float(np.sqrt(np.mean((seen[:, 0] - pairs.pixels) ** 2)))
        position = -cv2.Rodrigues(turn)[0].T @ shift[:, 0]
        if error < best[0] and position[2] > 0.0:
            best = error, position, 2.0 * focal / size[0]
    if not np.isfinite(best[0]):
        raise DataError("no camera above the ground sees the points so: see whether they are mirrored or exchanged")
    return best[1], best[2]


def _aim_at(pixel: FloatArray, size: Size, focal: float) -> tuple[float, float]:
    """Return about by how many degrees a pixel is to the right and above the middle of a picture."""
    right, down = (pixel - np.array(size) / 2.0) / (size[0] / 2.0) / focal
    return float(np.degrees(np.arctan(right))), -float(np.degrees(np.arctan(down)))
