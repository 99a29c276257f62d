"""Detections that any process writes, as lines of JSON."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TextIO

import numpy as np

from simile._common import files
from simile._common.typing import FloatArray
from simile.camera.heads.links import Closing
from simile.camera.live.detectors import read_boxes
from simile.camera.live.sources import Shot
from simile.errors import DataError

LONGEST = 1 << 20  # characters of a line; what has no end must not fill the memory
KEPT = 1000  # lines that are ahead of the video
STALE = 1.0  # seconds after which what was detected no longer counts
EARLY = 1e-3  # seconds by which a line may be ahead of its frame


@dataclass(frozen=True)
class Found:
    """What was found in a frame: boxes in the picture, (n, 4) or (n, 5), or positions (n, 2) on the court."""

    boxes: FloatArray | None = None
    positions: FloatArray | None = None


@dataclass(frozen=True)
class Line:
    """What a line says: for which frame, or for which second, or for now."""

    found: Found
    frame: int | None = None
    time: float | None = None


def read_line(text: str, what: str) -> Line:
    """Read {"frame": 7, "boxes": [[left, top, width, height], ...]}, with "time" or "positions" instead, or a list.

    >>> read_line('{"time": 0.5, "positions": [[1.0, 2.0]]}', "line 1").found.positions
    array([[1., 2.]])
    """
    try:
        told = json.loads(text)
        told = {"positions": told} if isinstance(told, list) else told
        frame, time = told.get("frame"), told.get("time")
        if told.get("boxes") is not None:
            found = Found(boxes=read_boxes(told["boxes"], "boxes"))
        else:
            found = Found(positions=np.array(told["positions"], dtype=np.float64).reshape(-1, 2))
        return Line(found, None if frame is None else int(frame), None if time is None else float(time))
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise DataError(
            f'{what} must be {{"frame": number, or "time": seconds, "boxes": [[left, top, width, height], ...]}} in '
            f'pixels, or with "positions": [[x, y], ...] in metres; got {text.strip()[:80]!r}: '
            f"{error or type(error).__name__}"
        ) from None


class Lines(Closing):
    """Detections from a file, from stdin (-) or from a command (cmd:...), which are read as they come.

    A frame gets the latest line that is for it or for one before, up to a second; a line that says for which frame
    it is waits for that one.

    Parameters
    ----------
    given : str
        Path, "-", or "cmd:" and a command.
    stdin : text file, optional
        What "-" is.
    numbered : bool
        Whether lines that do not say so are for one frame after the other, as those of a file are; otherwise they are
        for the frame that comes next. Frames wait for their lines then.
    """

    def __init__(self, given: str, stdin: TextIO | None = None, *, numbered: bool = False) -> None:
        self.name = {"-": "stdin"}.get(given, given)
        self._process: subprocess.Popen[str] | None = None
        self._opened: Any = None
        if given == "-" and stdin is not None:
            lines: Iterable[str] = stdin
        elif given.startswith("cmd:"):
            lines = self._start(given.removeprefix("cmd:"))
        else:
            lines = self._opened = self._open(Path(given))
        self.numbered = numbered or self._opened is not None
        self._lines: deque[Line] = deque()
        self._newest: Line | None = None
        self._came = -np.inf  # when the newest line came, by the clock of the frames
        self._ready, self._ended, self._error = threading.Condition(), False, None  # type: Any, bool, Exception | None
        self._closed = False
        self._thread = threading.Thread(target=self._read, args=(lines,), name="simile lines", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def find(self, shot: Shot) -> Found:
        """Return what was found in a frame."""
        with self._ready:
            if self.numbered:  # there is no more to come for this frame when there is a line for another
                self._ready.wait_for(
                    lambda: self._ended or (len(self._lines) > 0 and not self._is_due(self._lines[-1], shot))
                )
            while self._lines and self._is_due(self._lines[0], shot):
                self._newest, self._came = self._lines.popleft(), shot.time
            self._ready.notify_all()
            if self._error is not None:
                raise self._error
        fresh = self._newest is not None and shot.time - self._came <= STALE
        return self._newest.found if fresh and self._newest is not None else Found(positions=np.empty((0, 2)))

    def close(self) -> None:
        """Read no more, and end the command."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(1.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
        if self._thread.is_alive() and (self._process is not None or self._opened is not None):
            self._thread.join(1.0)  # nothing can be done about a stdin that does not end
        if self._opened is not None:
            self._opened.close()

    @staticmethod
    def _is_due(line: Line, shot: Shot) -> bool:
        if line.frame is not None:
            return line.frame <= shot.number
        return line.time is None or line.time <= shot.time + EARLY

    def _open(self, path: Path) -> TextIO:
        try:
            return io.TextIOWrapper(files.open_regular(path, longest=files.LONGEST), "utf-8")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(
                f"--detections: {path} cannot be read: {reason}; what comes while it is written, as --detections -"
            ) from None

    def _start(self, command: str) -> Iterable[str]:
        try:
            self._process = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, text=True)
        except (OSError, ValueError, IndexError) as error:
            raise DataError(f"--detections: {command!r} cannot be run: {error}") from None
        return self._process.stdout or ()

    def _read(self, lines: Iterable[str]) -> None:
        number = 0
        try:
            for number, text in enumerate(_split(lines), start=1):
                line = read_line(text.strip() or "[]", f"{self.name}: line {number}")
                if self.numbered and line.frame is None and line.time is None:
                    line = replace(line, frame=number - 1)
                with self._ready:
                    self._ready.wait_for(lambda: len(self._lines) < KEPT or self._closed)
                    if self._closed:
                        return
                    self._lines.append(line)
                    self._ready.notify_all()
            if self._process is not None and (code := self._process.wait()) and not self._closed:
                raise DataError(f"--detections: {self.name} ended with exit code {code} after {number} lines")
        except UnicodeDecodeError as error:
            self._error = DataError(f"--detections: {self.name} is no text after line {number}: {error}")
        except Exception as error:  # it belongs to who asks for detections
            self._error = error
        finally:
            with self._ready:
                self._ended = True
                self._ready.notify_all()


def _split(lines: Iterable[str]) -> Iterable[str]:
    """Yield lines of a file, none of them longer than can be read."""
    return iter(partial(lines.readline, LONGEST), "") if isinstance(lines, io.TextIOBase) else lines
