"""`simile demo`: the case study of the paper in a minute: simulate games, learn to film them, compare, and look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from simile._common.files import replacing
from simile._common.plots import BLACK, BLUE, ORANGE, axes_of
from simile._common.typing import FloatArray
from simile.camera.features import demonstrations
from simile.camera.film.framing import compare_framing
from simile.camera.film.watch import watch_page, watch_video
from simile.camera.games import Game
from simile.camera.simulation import simulate
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.evaluation.evaluation import evaluate
from simile.evaluation.report import Report
from simile.learning.algorithms import Run, learn
from simile.learning.frontier import Frontier, path
from simile.metrics import find_holds
from simile.models import SmoothForest
from simile.policies.rollouts import rollout

N_GAMES, N_TEST = 12, 3
SCRIPT = f"""\
import simile
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate

games = simulate({N_GAMES}, minutes=(0.8, 1.2), seed=100)
demos = demonstrations(games)
run = simile.learn(demos[:-{N_TEST}])
print(simile.evaluate(run.policy, demos[-{N_TEST}:], baseline=run.baseline))
"""
SHOWN = 36.0  # seconds of the picture: in more of them jitter could not be seen
FILMED = (6.0, 18.0)  # seconds of the film: the operator rests, and then pans across the court


def main(out: Path, film: bool = False) -> None:
    """Learn with and without smoothness, print both, and write a picture, a page to watch, the policy, and a film."""
    import matplotlib.pyplot as plt  # noqa: F401 - a library that is missing is better told before the work

    print(f"Simulating {N_GAMES} games of basketball: noisy detections, and an operator who pans after the play ...\n")
    games = simulate(N_GAMES, minutes=(0.8, 1.2), seed=100)
    train, test = _split(games)
    print(
        f"{train.n_frames:,} frames to learn from, {test.n_frames:,} held out, {train.n_contexts} contexts: a heat map"
    )
    print("of the detections, their middle, spread and motion.\n\nLearning a smooth policy ...")
    smooth = learn(train)
    print(smooth)
    print("\nLearning without smoothness, simple filters, and a whole path of smoothness, for comparison ...")
    rough = learn(train, smoothness=0.0, hold=0.0, model=SmoothForest())
    frontier = path(train, smoothness=6)
    print(f"\n{frontier}")
    found = evaluate(smooth.policy, test, baseline=smooth.baseline).add("without smoothness", rough.policy)
    print(f"\nOn held-out games, rolled out (pan in degrees):\n\n{found}\n")
    rolled = {name: rollout(run.policy, test) for name, run in (("simile", smooth), ("without smoothness", rough))}
    print("As a broadcaster sees it:\n")
    print(compare_framing(games[-N_TEST:], {"operator": test.actions, **rolled}))
    smooth.policy.save(out / "pan.safetensors")
    page = Report.of(
        replace(smooth, frontier=frontier),
        test,
        evaluation=found,
        title="Learning to film basketball",
        subtitle=f"{N_GAMES} simulated games, {N_TEST} of them held out",
        repeat={"command": "simile demo", "python": SCRIPT, "config": ""},
    )
    page.save(out / "report.html")
    threshold = found.reference.threshold
    draw(
        out / "demo.png", test[-1], rolled["simile"][-1], rolled["without smoothness"][-1], frontier, smooth, threshold
    )
    shown = {"operator": test[-1].actions, **{name: moves[-1] for name, moves in rolled.items()}}
    watch_page(games[-1], shown, out / "demo.html", title="A game that simile has never seen")
    print(f"\nPolicy: {out / 'pan.safetensors'}\nPicture: {out / 'demo.png'}\nWatch the game: {out / 'demo.html'}")
    if film:
        _film(games[-1], shown, out / "viewfinder.webp")
        print(f"Film: {out / 'viewfinder.webp'}")
    print(f"Report: {(out / 'report.html').resolve()}")


def _film(game: Game, cameras: dict[str, FloatArray], path: Path) -> None:
    """Write some seconds of a game as its cameras see it."""
    part = slice(*(round(second * game.rate) for second in FILMED))
    kept = ("detections", "actions", "players", "ball", "possession")
    shown = replace(game, **{name: getattr(game, name)[part] for name in kept})
    watch_video(shown, {name: moves[part] for name, moves in cameras.items()}, path, size=(880, 274), view="viewfinder")


def _split(games: Sequence[Game]) -> tuple[Demonstrations, Demonstrations]:
    """Hold out the last games."""
    demos = demonstrations(games)
    return demos[:-N_TEST], demos[-N_TEST:]


def draw(
    picture: Path,
    demo: Demonstration,
    smooth: FloatArray,
    rough: FloatArray,
    frontier: Frontier,
    run: Run,
    threshold: Sequence[float],
) -> None:
    """Draw one held-out game, and how accurate policies are at which smoothness."""
    import matplotlib.pyplot as plt

    shown = slice(0, round(SHOWN * (demo.rate or 1.0)))
    seconds = np.arange(len(demo))[shown] / (demo.rate or 1.0)
    figure, ((left, right),) = axes_of(1, 2, (12.0, 3.8), width_ratios=[3, 1])
    left.plot(seconds, rough[shown], color=ORANGE, linewidth=1, label="learned without smoothness")
    left.plot(seconds, demo.actions[shown], color=BLACK, linewidth=2, label="human operator (simulated)")
    left.plot(seconds, smooth[shown], color=BLUE, linewidth=2, label="simile")
    left.set(xlabel="seconds", ylabel="camera pan (degrees)", title="a held-out game of basketball, rolled out")
    low, high = left.get_ylim()
    left.set_ylim(low - 0.2 * (high - low), high)  # room for the legend, and for bars where they rest
    left.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 0.06))
    for height, color, actions in ((0.05, BLACK, demo.actions), (0.01, BLUE, smooth)):
        (holds,) = find_holds(actions[shown], threshold, demo.rate)
        bars = [(first, last - first) for first, last in holds / (demo.rate or 1.0)]
        left.broken_barh(bars, (height, 0.03), transform=left.get_xaxis_transform(), color=color)
    left.annotate("at rest", (1.0, 0.045), xycoords="axes fraction", va="center", ha="left", fontsize=9)
    chosen = run.chosen
    roughness, error = ([getattr(p, name) for p in frontier.points] for name in ("roughness", "error"))
    right.plot(roughness, np.sqrt(error), "o-", color=BLUE, markersize=4)
    right.plot(chosen.validation_roughness, np.sqrt(chosen.validation_error), "o", color=BLUE, markersize=10)
    right.annotate(
        "simile",
        (chosen.validation_roughness, np.sqrt(chosen.validation_error)),
        (8, 6),
        textcoords="offset points",
        color=BLUE,
    )
    right.axvline(1.0, color="0.6", linestyle=":", label="the operator's own")
    right.set(xscale="log", xlabel="roughness", ylabel="RMSE (std of pan)", title="how smooth?")
    right.legend(frameon=False)
    with replacing(picture) as file:
        figure.savefig(file, dpi=110, format="png")
    plt.close(figure)
