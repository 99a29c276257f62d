"""A live broadcast, from frame to action: a rendered game is streamed over loopback, detected, and filmed.

Prints how long every stage took, how many frames were filmed and dropped, and how what was filmed compares with the
truth: `python benchmarks/live.py` at 1280 x 720 and 25 frames a second; `--help` for more. A second process sends the
stream, paced like a camera, and is the head; encoding was done before. The policy knows nothing but the pictures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

import simile
from simile.camera.calibration import View
from simile.camera.features import Features, demonstrations
from simile.camera.film.framing import compare_framing
from simile.camera.film.panorama import Calibrated
from simile.camera.film.rendering import TALL, Rendering, overview
from simile.camera.games import Game
from simile.camera.heads import Driver, open_head
from simile.camera.heads.emulators import Body, ViscaEmulator
from simile.camera.live import Actor, Cut, Latencies, Moment, Motion, Pipeline, Source, Turned
from simile.camera.simulation import simulate
from simile.online import AccelerationLimit

RATE, NEAR = 25, 1.0  # frames a second; metres within which a player is found
WARM = 2.0  # seconds of the stream that are not judged: the decoder waits for a whole picture, kernels are compiled


def render(game: Game, view: View, path: Path) -> None:
    """Write a game as a transport stream with a key frame every second."""
    drawn = Rendering(game.court, view)
    with av.open(str(path), "w", format="mpegts") as sink:
        options = {"preset": "veryfast", "tune": "zerolatency", "g": str(RATE), "b": "6000000"}
        stream = sink.add_stream("libx264", rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt = *view.size, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 90_000)
        for i, players in enumerate(game.players if game.players is not None else ()):
            frame = av.VideoFrame.from_ndarray(drawn.picture(players, i), format="rgb24")
            frame.pts, frame.time_base = i * 90_000 // RATE, Fraction(1, 90_000)
            sink.mux(stream.encode(frame))
        sink.mux(stream.encode())


def be_the_camera(path: Path, port: int) -> None:
    """Send a transport stream at its own pace, and be a head; both are told and asked by lines."""
    with ViscaEmulator(Body()) as head:
        print(head.port, flush=True)
        sys.stdin.readline()
        url = f"udp://127.0.0.1:{port}?pkt_size=1316"
        with av.open(str(path)) as source, av.open(url, "w", format="mpegts") as sink:
            film = source.streams.video[0]
            out, began, i = sink.add_stream_from_template(film), time.monotonic(), 0
            print(began, flush=True)
            for packet in source.demux(film):
                if packet.dts is None:
                    continue
                time.sleep(max(began + i / RATE - time.monotonic(), 0.0))
                packet.stream, i = out, i + 1
                sink.mux(packet)
        sys.stdin.readline()
        print(head.body.pose.pan, flush=True)


def film(
    game: Game, policy: simile.SmoothPolicy, view: View, folder: Path, port: int
) -> tuple[list[Moment], list[float]]:
    """Film the stream; return what was made of each frame, and when that was after the frame was sent."""
    words = [sys.executable, __file__, "--camera", str(folder / "game.ts"), "--port", str(port)]
    moments: list[Moment] = []
    late: list[float] = []
    with ExitStack() as stack:
        peer = stack.enter_context(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert peer.stdin is not None
        assert peer.stdout is not None
        head = stack.enter_context(open_head(f"127.0.0.1:{int(peer.stdout.readline())}"))
        limits = [AccelerationLimit(60.0, rate=30.0)]
        driver = stack.enter_context(Driver(head, rate=2.0 * RATE, limits=limits))
        windows = Calibrated(view, game.camera, game.camera.still_view(game.court))
        cut = stack.enter_context(Cut(folder / "cut.mp4", windows, size=(1280, 720), rate=RATE))
        empty = Rendering(game.court, view).picture(np.empty((0, 2)))
        pipeline = Pipeline(
            Motion(view, background=empty),
            Actor(policy, Features(game.court), rate=RATE),
            game.court,
            view,
            [Turned(driver), cut],
        )
        peer.stdin.write("go\n")
        peer.stdin.flush()
        began = float(peer.stdout.readline())
        source = stack.enter_context(Source(f"udp://127.0.0.1:{port}", retry=0.0, tell=print))
        for moment in pipeline.film(source):
            late.append(time.monotonic() - began - moment.shot.frame.time)
            moments.append(moment)
        driver.send(moments[-1].action)
        time.sleep(0.4)
        peer.stdin.write("where\n")
        peer.stdin.flush()
        pan = float(peer.stdout.readline())
        print(f"\nframes sent {len(game)}, filmed {len(moments)}, dropped {source.dropped}; cut {cut.frames} to a file")
        print(f"the head is at {pan:.2f} degrees; the policy says {moments[-1].action[0]:.2f}")
    return moments, late


def judge(game: Game, policy: simile.SmoothPolicy, view: View, moments: list[Moment]) -> None:
    """Print how what was detected and filmed compares with the truth."""
    assert game.players is not None
    errors, found, false = [], [], []
    actions = np.full((len(game), 1), np.nan)
    for moment in moments:
        i = round(moment.shot.frame.time * RATE)
        actions[i] = moment.action
        apart = np.linalg.norm(moment.positions[:, np.newaxis] - game.players[i], axis=-1)
        near = apart.min(axis=0, initial=np.inf)
        found.append((near < NEAR).mean())
        errors.extend(near[near < NEAR])
        false.append((apart.min(axis=1, initial=np.inf) >= NEAR).sum())
    print(
        f"\nplayers found within {NEAR:g} m {np.mean(found):.3f}, median error {np.median(errors):.2f} m, "
        f"nobody there {np.mean(false):.2f} a frame"
    )
    seen = np.flatnonzero(np.isfinite(actions[:, 0]))
    actions[seen[0] :, 0] = np.interp(np.arange(seen[0], len(game)), seen, actions[seen, 0])
    told = {"players as they are": game.players, "a simulated detector": game.detections}
    acted = {"live, from pictures": actions}
    for name, detections in told.items():
        actor = Actor(policy, Features(game.court), rate=RATE)
        acted[name] = np.array([actor.act(frame, t / RATE) for t, frame in enumerate(detections)])
    assert game.actions is not None
    acted["the operator"] = game.actions
    first = int(seen[0] + WARM * RATE)
    part = replace(
        game,
        **{n: getattr(game, n)[first:] for n in ("detections", "actions", "players", "ball", "possession")},
    )
    print(compare_framing(part, {name: moves[first:] for name, moves in acted.items()}))
    windows = Calibrated(view, game.camera, game.camera.still_view(game.court))
    feet = view.to_pixels(game.players[first:])
    heads = view.to_pixels(np.dstack([game.players[first:], np.full(game.players[first:].shape[:2], TALL)]))
    print("\nplayers from head to foot in the cut picture")
    for name, moves in acted.items():
        low, high = np.split(windows.windows(moves[first:], view.size, (1280, 720))[:, np.newaxis], 2, axis=2)
        whole = ((feet > low) & (feet < high) & (heads > low) & (heads < high)).all(axis=2)
        print(f"{name:<24}{whole.mean():8.3f}")


def main() -> None:
    """Render, film, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--size", type=int, nargs=2, default=(1280, 720))
    parser.add_argument("--port", type=int, default=52_400)
    parser.add_argument("--camera", type=Path, help="be the camera, and send this: for the second process")
    given = parser.parse_args()
    if given.camera is not None:
        be_the_camera(given.camera, given.port)
        return
    *games, game = simulate(9, minutes=given.seconds / 60.0, seed=21)
    policy = simile.learn(demonstrations(games)).policy
    view = overview(game.court, tuple(given.size))  # another camera than that of the policy: it sees the whole court
    with tempfile.TemporaryDirectory() as folder:
        render(game, view, Path(folder) / "game.ts")
        moments, late = film(game, policy, view, Path(folder), given.port)
        judge(game, policy, view, moments)
    latencies = Latencies()
    # Where a frame of a transport stream ends is known when the next one begins: the last two come when it is lost.
    warm = [i for i, moment in enumerate(moments[:-2]) if moment.shot.time >= WARM]
    for i in warm:
        latencies.note(moments[i].spent)
    seconds = moments[warm[-1]].shot.came - moments[warm[0]].shot.came
    print(
        f"\n{view.size[0]} x {view.size[1]}, {(len(warm) - 1) / seconds:.1f} frames a second, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    print(latencies.table())
    at = 1e3 * np.percentile([late[i] for i in warm], (50, 95, 99, 100))
    print(f"{'sent':<8}" + "".join(f"{value:9.2f}" for value in at) + "   from when the frame was sent to its action")


if __name__ == "__main__":
    main()
