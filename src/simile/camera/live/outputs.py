"""Where a live picture goes: to a head, to a file, to a stream; and the log of it."""

from __future__ import annotations

import csv
import io
import json
import queue
import threading
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from simile._common.files import append, make_folder, write_atomically
from simile._common.needs import need
from simile._common.typing import FloatArray
from simile._common.urls import is_url
from simile.camera.film.crop import cut_window
from simile.camera.film.encoding import even_size, h264
from simile.camera.games import AXES
from simile.camera.heads.driver import Driver
from simile.camera.heads.links import Closing
from simile.camera.live.latencies import STAGES
from simile.camera.live.pipeline import Moment
from simile.camera.live.sources import Shot
from simile.errors import ArgumentError, StorageError, redact

AHEAD = 8  # frames that may wait to be encoded; more are dropped
PATIENCE = 0.1  # seconds between two looks whether the encoder has failed
CLOCK = 90_000  # of the times in a file or stream, per second
FILES = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska", ".ts": "mpegts"}
STREAMS = {"udp": "mpegts", "srt": "mpegts", "tcp": "mpegts", "rtmp": "flv", "rtmps": "flv", "rtsp": "rtsp"}
# A part of the file is finished with every key frame: what was filmed can be seen even if the power fails.
IN_PARTS = {"flush_packets": "1", "movflags": "frag_keyframe+empty_moov+default_base_moof"}


class Turned:
    """A head, which is told where to look; what is really done is where its driver is on the way there.

    Parameters
    ----------
    driver : Driver
        With its limits; whoever opened it closes it.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def send(self, shot: Shot, action: FloatArray) -> FloatArray:  # noqa: ARG002
        """Send the action on its way."""
        self.driver.send(action)
        return np.array(self.driver.pose[: len(action)])


class Windows(Protocol):
    """Where in the picture a camera would look, as `Panorama` tells."""

    def windows(self, actions: ArrayLike, picture: tuple[int, int], size: tuple[int, int]) -> FloatArray:
        """Return left, top, right and bottom (T, 4) for actions (T, k)."""


class Cut(Closing):
    """What the policy shows of the picture, encoded in a thread, to a file or a stream.

    Parameters
    ----------
    out : path or str
        A file (.mp4, .mov, .mkv, .ts), or a URL (udp://, rtmp://, srt://, rtsp://) that a player reads.
    windows : Windows
        Where to cut.
    size : (width, height)
        Of what goes out.
    rate : float
        Frames per second, about; every frame keeps its own time.
    fast : bool
        Wait for the encoder rather than drop a frame, as a `Source` that is read as fast as it goes.
    """

    def __init__(
        self, out: str | Path, windows: Windows, *, size: tuple[int, int], rate: float, fast: bool = False
    ) -> None:
        self.name, self.size, self.rate = redact(str(out)), even_size(size), rate
        self._windows, self._fast = windows, fast
        self._av, self._image = need("av", "a live picture", extra="live"), need("PIL.Image", "a live picture")
        self.frames, self.dropped = 0, 0
        self.error: Exception | None = None
        self._sink, self._stream = self._open(str(out))
        self._waiting: queue.Queue[tuple[Shot, FloatArray] | None] = queue.Queue(AHEAD)
        self._thread = threading.Thread(target=self._run, name="simile cut", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def send(self, shot: Shot, action: FloatArray) -> FloatArray:
        """Let the frame be cut and encoded; where too many wait already, it is dropped, or waits, too."""
        while self.error is None:
            try:
                self._waiting.put((shot, action), block=self._fast, timeout=PATIENCE)
            except queue.Full:
                if self._fast:
                    continue
                self.dropped += 1
            return action
        raise StorageError(f"{self.name} cannot be written any more: {self.error}: is there room, and a receiver?")

    def close(self) -> None:
        """Encode what waits, and finish."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()
        if self._sink is not None:
            try:
                if self.error is None:
                    self._sink.mux(self._stream.encode())
                self._sink.close()
            except (self._av.FFmpegError, OSError) as error:
                self.error = error
            self._sink = None

    def _open(self, out: str) -> tuple[Any, Any]:
        scheme = out.partition("://")[0].lower() if is_url(out) else None
        kind = FILES.get(Path(out).suffix.lower()) if scheme is None else STREAMS.get(scheme)
        if kind is None:
            raise ArgumentError(
                f"out (--out) must be a file that ends in {', '.join(FILES)}, or a URL that begins with "
                f"{', '.join(f'{name}://' for name in STREAMS)}; got {self.name!r}"
            )
        codec, options = h264(self._av)
        options = {**options, "g": str(max(round(self.rate), 1))}
        if codec == "libx264":
            options |= {"preset": "ultrafast"} | ({} if scheme is None else {"tune": "zerolatency"})
        if scheme is None:
            make_folder(Path(out).resolve().parent)
        try:
            sink = self._av.open(out, "w", format=kind, container_options=IN_PARTS)
            stream = sink.add_stream(codec, rate=Fraction(self.rate).limit_denominator(1001), options=options)
            stream.width, stream.height = self.size
            stream.pix_fmt = "yuv420p"
            stream.codec_context.time_base = Fraction(1, CLOCK)
            sink.start_encoding()
        except (self._av.FFmpegError, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StorageError(f"{self.name} cannot be written: {reason}: choose another --out") from None
        return sink, stream

    def _run(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            if self.error is not None:
                continue  # what waits is of no use any more
            shot, action = waiting
            try:
                picture = (int(shot.frame.width), int(shot.frame.height))
                window = self._windows.windows(action[np.newaxis], picture, self.size)[0]
                cut = cut_window(self._av, self._image, shot.frame, window, self.size)
                cut.pts, cut.time_base = round(shot.time * CLOCK), Fraction(1, CLOCK)
                self._sink.mux(self._stream.encode(cut))
                self.frames += 1
            except Exception as error:  # it belongs to who sends
                self.error = error


class Log:
    """A line for every frame, written at once: who acted and how, what was seen, and how long it took.

    A table (.csv) holds what the policy saw under the names of its contexts, so that `simile evaluate` and `simile
    train` read it; lines of JSON (.jsonl) hold the detections themselves, and are read by `--detections`.

    Parameters
    ----------
    path : Path
        What to write.
    context_names : sequence of str
        What the policy sees.
    n_actions : int
        How many of pan, tilt and zoom it moves.
    waits : bool
        Whether it waits, so that frames are kept.
    """

    def __init__(self, path: Path, context_names: Sequence[str], n_actions: int, *, waits: bool = False) -> None:
        self.path, self.axes = path, AXES[:n_actions]
        self.stages = tuple(stage for stage in STAGES if waits or stage != "keep")
        if path.suffix.lower() not in (".csv", ".jsonl"):
            raise ArgumentError(f"log (--log) must end in .csv or .jsonl; got {str(path)!r}")
        self._as_json = path.suffix.lower() == ".jsonl"
        sent, spent = (f"sent_{axis}" for axis in self.axes), (f"{stage}_ms" for stage in self.stages)
        header = ("time", "frame", "who", "detections", *context_names, *self.axes, *sent, *spent)
        write_atomically(path, b"" if self._as_json else _row(header).encode())

    def note(self, moment: Moment) -> None:
        """Write the line of a moment."""
        append(self.path, (self._tell if self._as_json else self._tabulate)(moment))

    def _tabulate(self, moment: Moment) -> str:
        values = [*moment.context, *moment.action, *moment.sent]
        first = (f"{moment.shot.time:.6f}", moment.shot.number, moment.who, len(moment.positions))
        spent = (f"{1e3 * moment.spent[stage]:.3f}" for stage in self.stages)
        return _row((*first, *("" if np.isnan(value) else repr(float(value)) for value in values), *spent))

    def _tell(self, moment: Moment) -> str:
        told = {
            "time": round(moment.shot.time, 6),
            "frame": moment.shot.number,
            "who": moment.who,
            **({} if moment.found.boxes is None else {"boxes": moment.found.boxes.round(2).tolist()}),
            "positions": moment.positions.round(4).tolist(),
            "action": moment.action.tolist(),
            "sent": moment.sent.tolist(),
            "ms": {stage: round(1e3 * spent, 3) for stage, spent in moment.spent.items()},
        }
        return json.dumps(told) + "\n"


def _row(values: Sequence[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()
