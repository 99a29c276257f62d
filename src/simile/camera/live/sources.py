"""Video as it comes, from a file, a stream or a webcam: only the newest frame counts."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl

import numpy as np
import numpy.typing as npt

from simile._common import checks
from simile._common.needs import need
from simile._common.urls import is_url
from simile.camera.heads.links import Closing
from simile.errors import ArgumentError, DataError, redact

Image = npt.NDArray[np.uint8]

OPENING, READING = 10.0, 3.0  # seconds of patience, for a stream to begin and for its next packet
SOONEST, LATEST = 0.5, 8.0  # seconds before a lost stream is tried again, at first and at last
JUMP = 1.0  # seconds by which the clock of a stream may differ from ours before it is set anew
WEBCAMS = {"darwin": ("avfoundation", "{}"), "win32": ("dshow", "video={}")}  # anything else has /dev/video0
# What FFmpeg would gather before it shows the first frame, and keep while it shows the others.
AT_ONCE = {"fflags": "nobuffer", "flags": "low_delay", "analyzeduration": "1000000", "rtsp_transport": "tcp"}


@dataclass(frozen=True)
class Shot:
    """A frame as it came.

    Parameters
    ----------
    number : int
        Of the frame, from 0; those that were dropped are counted.
    time : float
        Seconds since the first frame, by the clock of the source where it has one; never goes back.
    came : float
        When the frame could be looked at, by `time.perf_counter`.
    decoding : float
        Seconds that it took to make a picture of what had come.
    frame : av.VideoFrame
        The picture.
    """

    number: int
    time: float
    came: float
    decoding: float
    frame: Any

    @property
    def image(self) -> Image:
        """The picture (H, W, 3), red, green and blue."""
        return np.asarray(self.frame.to_ndarray(format="rgb24"))


class Source(Closing):
    """A video of which the newest frame can be taken, at any time; what nobody took until the next one is dropped.

    Parameters
    ----------
    address : path or str
        A file; a URL that FFmpeg reads (rtsp://, udp://, rtmp://, srt://, http://); or webcam:0, with the options of
        FFmpeg where they are needed: webcam:0?video_size=1280x720&framerate=30.
    fast : bool
        Read a file as fast as its frames are taken, and drop none; otherwise it comes at its own pace.
    retry : float
        Seconds for which a stream that was lost is tried again.
    tell : callable, optional
        Told a sentence when a stream is lost, and when it is back; in the thread that reads.

    Raises
    ------
    DataError
        When there is no video.
    """

    def __init__(
        self, address: str | Path, *, fast: bool = False, retry: float = 60.0, tell: Callable[[str], object] = str
    ) -> None:
        self.name = redact(str(address))
        self.retry = checks.number(retry, "retry", at_least=0.0)
        self._av, self._tell = need("av", "a live video", extra="live"), tell
        self._place, self._format, self._options = _understand(str(address))
        self.live = self._options is not None
        self.fast = fast
        if fast and self.live:
            raise ArgumentError(f"fast is for files: {self.name} comes at its own pace: leave out --fast")
        self.dropped, self.damaged = 0, 0
        self._container = self._open()
        film = self._container.streams.video[0]
        self.size = (int(film.width), int(film.height))
        form = self._av.VideoFormat(film.codec_context.pix_fmt or "yuv420p")
        self.picture = self.size[0] * self.size[1] * int(form.padded_bits_per_pixel) // 8  # bytes
        self.rate = float(film.guessed_rate or film.average_rate or 25)
        self._slot: Shot | None = None
        self._ready, self._stop = threading.Condition(), threading.Event()
        self._ended, self._error = False, None  # type: bool, Exception | None
        self._count, self._began, self._offset, self._now = 0, 0.0, None, 0.0  # type: int, float, float | None, float
        self._thread = threading.Thread(target=self._run, name="simile source", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __iter__(self) -> Iterator[Shot]:
        """Yield the newest frame, again and again, until the source ends."""
        while not self.ended:
            if (shot := self.take(1.0)) is not None:
                yield shot

    @property
    def ended(self) -> bool:
        """Whether no frame will come any more."""
        return self._ended and self._slot is None

    def take(self, seconds: float) -> Shot | None:
        """Return the newest frame that was not taken yet; None where none comes in so many seconds."""
        with self._ready:
            self._ready.wait_for(lambda: self._slot is not None or self._ended, seconds)
            shot, self._slot = self._slot, None
            self._ready.notify_all()
        if shot is None and self._error is not None:
            raise self._error
        return shot

    def close(self) -> None:
        """Read no more."""
        self._stop.set()
        with self._ready:
            self._ready.notify_all()
        if self._thread.is_alive():
            self._thread.join(2.0 * READING)
        elif not self._ended:
            self._container.close()

    # ---------------------------------------------------------------------------------------- in the thread that reads

    def _open(self, seconds: float = OPENING) -> Any:
        try:
            found = self._av.open(self._place, format=self._format, options=self._options, timeout=(seconds, READING))
        except (self._av.FFmpegError, OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(
                f"{self.name} cannot be read as a video: {reason}: give a file, a URL that FFmpeg reads, "
                "such as rtsp://... or udp://..., or webcam:0"
            ) from None
        if not found.streams.video:
            found.close()
            raise DataError(f"{self.name} holds no video, only {len(found.streams)} other streams")
        found.streams.video[0].thread_type = "SLICE"  # threads that take a frame each would hold frames back
        return found

    def _run(self) -> None:
        self._began = time.perf_counter()
        try:
            while not self._stop.is_set():
                lost = self._read()
                if not self.live or self._stop.is_set() or not self._find_again(lost):
                    break
        except Exception as error:  # it belongs to who takes the frames
            self._error = error
        finally:
            with suppress(self._av.FFmpegError):
                self._container.close()
            with self._ready:
                self._ended = True
                self._ready.notify_all()

    def _read(self) -> str:
        """Read to the end, and return why it is one."""
        film = self._container.streams.video[0]
        try:
            for packet in self._container.demux(film):
                if self._stop.is_set():
                    break
                self._decode(packet)
        except self._av.FFmpegError as error:
            if not self.live:
                raise DataError(f"{self.name} cannot be read to its end: {error}: is it whole?") from None
            return f"nothing came for {READING:g} s" if isinstance(error, self._av.ExitError) else redact(str(error))
        return "it ended"

    def _decode(self, packet: Any) -> None:
        begin = time.perf_counter()
        try:
            frames = packet.decode()
        except self._av.InvalidDataError:
            if not self.live:
                raise
            self.damaged += 1  # whoever joins a stream in its midst, or loses a packet, cannot see all of it
            return
        for frame in frames:
            self._put(frame, (time.perf_counter() - begin) / len(frames))

    def _put(self, frame: Any, decoding: float) -> None:
        stamp = frame.time
        if (frame.width, frame.height) != self.size:  # a stream that adapts, or came back with another size
            frame = frame.reformat(*self.size)
        if not self.live and not self.fast and stamp is not None:
            self._offset = -stamp if self._offset is None else self._offset
            self._stop.wait(max(self._began + stamp + self._offset - time.perf_counter(), 0.0))
        came = time.perf_counter()
        shot = Shot(self._count, self._tell_time(stamp, came - self._began), came, decoding, frame)
        self._count += 1
        with self._ready:
            if self.fast:
                self._ready.wait_for(lambda: self._slot is None or self._stop.is_set())
            self.dropped += self._slot is not None
            self._slot = shot
            self._ready.notify_all()

    def _tell_time(self, stamp: float | None, passed: float) -> float:
        """Return the time of a frame: by its stamp, brought to our clock where that begins, or jumps."""
        if stamp is None:
            stamp = self._count / self.rate if self.fast else passed
        if self._offset is None or (self.live and abs(stamp + self._offset - passed) > JUMP):
            self._offset = (passed if self._count and self.live else 0.0) - stamp
            self._began += passed if not self._count else 0.0
        self._now = max(self._now, stamp + self._offset)
        return self._now

    def _find_again(self, lost: str) -> bool:
        """Open a lost stream again, with longer and longer pauses, and tell whether that was possible."""
        since, pause = time.perf_counter(), SOONEST
        self._container.close()
        while time.perf_counter() - since < self.retry:
            self._tell(f"{self.name} was lost ({lost}): it is tried again in {pause:g} s")
            if self._stop.wait(pause):
                return False
            pause = min(2.0 * pause, LATEST)
            try:
                self._container = self._open(min(OPENING, max(self.retry - (time.perf_counter() - since), 1.0)))
            except DataError as error:
                lost = str(error).partition(": ")[2].partition(":")[0]
                continue
            self._tell(f"{self.name} is back after {time.perf_counter() - since:.1f} s")
            return True
        self._tell(f"{self.name} was lost ({lost}) and is not tried again: --retry is {self.retry:g} s")
        return False


def _understand(address: str) -> tuple[str, str | None, dict[str, str] | None]:
    """Return what FFmpeg opens, as which format, and with which options; no options for a file."""
    if address.startswith(("webcam:", "/dev/video")):
        name, _, query = address.removeprefix("webcam:").partition("?")
        form, place = WEBCAMS.get(sys.platform, ("v4l2", "/dev/video{}"))
        return (name if name.startswith("/dev/") else place.format(name)), form, dict(parse_qsl(query))
    if is_url(address):
        return address, None, dict(AT_ONCE)
    if not Path(address).is_file():
        raise DataError(f"{address} is not there: give a file, a URL such as rtsp://... or udp://..., or webcam:0")
    return address, None, None
