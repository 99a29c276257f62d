"""What the readers share: points with frame numbers become arrays, and long gaps cut a game into pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simile._common.typing import AnyPath, FloatArray, IntArray
from simile._common.urls import refuse_url
from simile.data.reading.values import quote
from simile.errors import ArgumentError, DataError

_ALWAYS = 1 << 20  # so many places for detections are no matter
_GROWTH = 100  # more places than this per detection are a mistake
MOST = 2.0**53  # whole numbers above are not exact


@dataclass(frozen=True)
class Piece:
    """Frames `first` to `stop` (exclusive) of a recording, to be a game of their own."""

    name: str
    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first

    def place(self, frames: IntArray, values: npt.NDArray[Any], missing: float = np.nan) -> npt.NDArray[Any]:
        """Return values (N, ...) at the frames (N,) that lie in this piece, `missing` at the others, (T, ...)."""
        inside = (frames >= self.first) & (frames < self.stop)
        out = np.full((len(self), *values.shape[1:]), missing, dtype=values.dtype)
        out[frames[inside] - self.first] = values[inside]
        return out


def check_file(path: AnyPath) -> Path:
    """Return the path of a file that is there."""
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(f"path must be the path of a file; got {quote(path)}")
    found = Path(path)
    if "\0" in str(found):
        raise ArgumentError(f"path must not hold a null character; got {quote(str(found))}")
    refuse_url(found, "path", "recordings are read from this machine: fetch the file first")
    if not found.is_file():
        raise DataError(f"{found}: there is no such file")
    return found


def pieces(present: IntArray, name: str, longest: float | None, *, numbered: bool = False) -> Iterator[Piece]:
    """Yield the pieces between jumps of more than `longest` frames; None never cuts.

    Parameters
    ----------
    present : (F,) array of int
        The frames that are there, in order, each once.
    numbered : bool
        Number a single piece, too.
    """
    jumps = np.diff(present) > (np.inf if longest is None else max(1.0, longest))
    starts = [0, *(np.flatnonzero(jumps) + 1).tolist()]
    for i, (start, stop) in enumerate(zip(starts, [*starts[1:], len(present)], strict=True)):
        label = f"{name} piece {i}" if numbered or len(starts) > 1 else name
        yield Piece(label, int(present[start]), int(present[stop - 1]) + 1)


def spread(frames: IntArray, points: FloatArray, piece: Piece, path: Any) -> FloatArray:
    """Return the detections (T, n, 2) of a piece from points (N, 2) and the frame (N,) of each, in any order."""
    inside = (frames >= piece.first) & (frames < piece.stop) & np.isfinite(points).all(axis=1)
    frames, points = frames[inside] - piece.first, points[inside]
    order = np.argsort(frames, kind="stable")
    frames, points = frames[order], points[order]
    place = np.arange(len(frames)) - np.searchsorted(frames, frames)
    most = max(1, int(place.max(initial=0)) + 1)
    if len(piece) * most > max(_ALWAYS, _GROWTH * len(frames)):
        raise DataError(
            f"{path}: {len(piece):,} frames with up to {most:,} detections each are far too many for the "
            f"{len(frames):,} that there are in all: mend the numbers of the frames, or cut where they jump with gap "
            "(--gap, seconds)"
        )
    out = np.full((len(piece), most, 2), np.nan)
    out[frames, place] = points
    return out


def line_up(frames: IntArray, points: FloatArray, teams: IntArray, piece: Piece, path: Any) -> FloatArray | None:
    """Return the players (T, p, 2) of a piece: the first half is team 0, the second team 1; None where it is not said.

    `teams` (N,) are those of the points (N, 2).
    """
    if not len(teams) or not np.isin(teams, (0, 1)).all():
        return None
    halves = [spread(frames[teams == team], points[teams == team], piece, path) for team in (0, 1)]
    places = max(half.shape[1] for half in halves)
    room = [((0, 0), (0, places - half.shape[1]), (0, 0)) for half in halves]
    return np.concatenate([np.pad(h, r, constant_values=np.nan) for h, r in zip(halves, room, strict=True)], axis=1)
