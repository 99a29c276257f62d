"""Videos that are there: their times and their size, before anything is decoded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simile._common.files import open_regular
from simile._common.needs import need
from simile._common.typing import AnyPath, FloatArray
from simile.errors import DataError


@dataclass(frozen=True, eq=False)
class Footage:
    """What there is to know of a video without decoding it.

    Parameters
    ----------
    times : (T,) array
        When each frame is shown, in seconds, in this order.
    size : (width, height)
        In pixels.
    """

    video: Path
    times: FloatArray
    size: tuple[int, int]

    @classmethod
    def of(cls, video: AnyPath) -> Footage:
        """Look through a file."""
        av = need("av", "crop")
        path = Path(video)
        with open_video(av, path) as source:
            film = source.streams.video[0]
            # Frames marked to be discarded come before the beginning of a file that was trimmed.
            packets = [p for p in read_through(av, path, source.demux(film)) if p.size and not p.is_discard]
            stamps = [p.dts if p.pts is None else p.pts for p in packets]
            if any(s is None for s in stamps):
                times = np.arange(len(stamps)) / float(film.guessed_rate or film.average_rate or 25)
            else:
                times = np.sort(np.array(stamps, dtype=np.float64)) * float(film.time_base)
            if not len(times):
                raise DataError(f"{path} has no frames: is it whole?")
            return cls(path, times, (film.width, film.height))

    @property
    def rate(self) -> float:
        """Frames per second, on average."""
        length = float(self.times[-1] - self.times[0])
        return (len(self.times) - 1) / length if length > 0.0 else 25.0

    def check_length(self, n: int, what: str) -> None:
        """Refuse something that is there for another number of frames."""
        if n != len(self.times):
            raise DataError(
                f"{self.video} has {len(self.times)} frames and there are {what} for {n}: they must belong to the "
                "same frames: cut the longer one, or detect again with this video"
            )


def open_video(av: Any, path: Path) -> Any:
    """Open a file that holds a video."""
    try:
        open_regular(path).close()
        source = av.open(os.fspath(path))
    except (av.FFmpegError, OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read as a video: {reason}: give a file that FFmpeg reads") from error
    if not source.streams.video:
        source.close()
        raise DataError(f"{path} holds no video, only {len(source.streams)} other streams")
    return source


def read_through(av: Any, path: Path, items: Iterable[Any]) -> Iterator[Any]:
    """Go through what is read from a file; where that fails, name it."""
    try:
        yield from items
    except av.FFmpegError as error:
        raise DataError(f"{path} cannot be read to its end: {error}: is it whole?") from error
