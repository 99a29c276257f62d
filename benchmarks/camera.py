"""How fast the case study runs: simulating, features, filming a panorama; medians of several turns (`make bench`)."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np

from simile.camera.features import Features
from simile.camera.film.crop import crop
from simile.camera.film.panorama import Panorama
from simile.camera.simulation import simulate

TURNS = 5
FRAMES, WIDE, CUT = 250, (3840, 1080), (1280, 720)


def median(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Return the median time of some work in seconds; the first turn, which compiles, is not counted."""
    work()
    seconds = []
    for _ in range(TURNS):
        begin = clock()
        work()
        seconds.append(clock() - begin)
    return statistics.median(seconds)


def panorama(path: Path) -> None:
    """Write ten seconds of a wide picture with texture and something that moves."""
    rng = np.random.default_rng(0)
    still = np.repeat(np.repeat(rng.integers(60, 200, (WIDE[1] // 8, WIDE[0] // 8, 3), np.uint8), 8, 0), 8, 1)
    with av.open(str(path), "w") as film:
        stream = film.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = *WIDE, "yuv420p"
        for t in range(FRAMES):
            picture = still.copy()
            x = int(WIDE[0] * (0.1 + 0.8 * t / FRAMES))
            picture[500:580, x : x + 80] = 255
            film.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        film.mux(stream.encode())


def main() -> None:
    """Print the tables."""
    games = simulate(1, minutes=10.0)
    features = Features(games[0].court)
    stream = features.stream()
    print(f"simulate ten minutes (s of CPU)                {median(lambda: simulate(1, minutes=10.0)):10.2f}")
    print(f"features of ten minutes, batch (s of CPU)      {median(lambda: features.batch(games[0].detections)):10.2f}")
    some = list(games[0].detections[:1000])
    print(
        f"features of one frame, stream (us of CPU)      {1e3 * median(lambda: [stream.step(d) for d in some]):10.0f}"
    )
    pan = 25.0 * np.sin(np.arange(FRAMES) / 40.0)[:, np.newaxis]
    with tempfile.TemporaryDirectory() as folder:
        wide, cut = Path(folder) / "wide.mp4", Path(folder) / "cut.mp4"
        panorama(wide)
        view = Panorama(fov=120.0)
        seconds = median(lambda: crop(wide, cut, pan, panorama=view, size=CUT), time.monotonic)
        print(f"crop {WIDE[0]}x{WIDE[1]} to {CUT[0]}x{CUT[1]} (frames a second)  {FRAMES / seconds:10.1f}")


if __name__ == "__main__":
    main()
