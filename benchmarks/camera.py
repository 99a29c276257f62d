"""How fast the case study runs: simulating, features, filming a panorama; medians of several turns (`make bench`)."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np

import simile
from simile.camera.courts import BASKETBALL, SOCCER, Court
from simile.camera.features import Features, demonstrations
from simile.camera.film.crop import crop
from simile.camera.film.panorama import Panorama
from simile.camera.simulation import simulate

TURNS = 5
LOOK = simile.Horizon((0, 1, 2, 4, 8, 12, 16, 24, 32), 0)
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


def one_step(policy: Any, demos: simile.Demonstrations) -> float:
    """Return the error one step ahead, with the expert's own past: what a clone is trained on, and what misleads."""
    states = policy.horizon.states(demos, [policy.units.standardize(a) for a in demos.actions])
    acted = policy.units.restore(policy.act(states, np.full(len(states), 0.5)))
    return float(np.sqrt(np.mean((acted - np.concatenate(demos.actions)) ** 2)))


def hardness(sport: Court, seeds: Sequence[int]) -> None:
    """Print what makes the simulated job hard: a jittery forest, and a clone of past actions that fails rolled out.

    Errors in standard deviations of the held-out pan, roughness as mean |second difference| over the operator's.
    """
    rows: dict[str, list[float]] = {}
    for seed in seeds:
        demos = demonstrations(simulate(12, sport=sport, seed=seed))
        train, test = demos[:9], demos[9:]
        spread = float(np.concatenate(test.actions).std())
        plain = simile.clone(train, smoothness=0.0, horizon=LOOK, regularizer=simile.PreviousAction())
        past = simile.clone(train, smoothness=0.0, model=simile.SmoothForest(n_trees=20, max_features=None))
        drawn = simile.clone(train, smoothness=0.0)
        smooth = simile.paper(
            train,
            smoothness=100.0,
            horizon=LOOK,
            regularizer=simile.CriticallyDamped(order=3),
            feedback=simile.CompensatedFeedback(),
            n_rounds=4,
            validation=0.2,
        )
        runs = {"forest": plain, "past": past, "drawn": drawn, "smooth": smooth}
        judged = {name: simile.evaluate(run.policy, test) for name, run in runs.items()}
        rough = {n: e.mean("difference_2") / e.mean("difference_2", of="expert") for n, e in judged.items()}
        measured = {
            "forest on contexts: RMSE": judged["forest"].mean("rmse") / spread,
            "forest on contexts: roughness": rough["forest"],
            "clone with past actions, all features tried: one step ahead": one_step(past.policy, test) / spread,
            "the same rolled out: RMSE": judged["past"].mean("rmse") / spread,
            "clone with past actions, their square root tried: RMSE": judged["drawn"].mean("rmse") / spread,
            "smooth SIMILE: RMSE": judged["smooth"].mean("rmse") / spread,
            "smooth SIMILE: roughness": rough["smooth"],
            "hold the last action: RMSE": judged["smooth"].mean("rmse", of="hold_last") / spread,
        }
        for name, value in measured.items():
            rows.setdefault(name, []).append(value)
    print(f"\n{sport.name}, seeds {', '.join(map(str, seeds))}")
    for name, values in rows.items():
        print(f"  {name:60} {min(values):7.3g} to {max(values):.3g}")


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
    hardness(BASKETBALL, (100, 101, 102, 103))
    hardness(SOCCER, (100, 101))


if __name__ == "__main__":
    main()
