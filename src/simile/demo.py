"""`simile demo`: learn the built-in pursuit task, print how well it went, draw a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from simile import tasks
from simile._typing import FloatArray
from simile.algorithms import Run, learn
from simile.demonstrations import Demonstration
from simile.evaluation import evaluate
from simile.feedback import CompensatedFeedback
from simile.regularizers import CriticallyDamped
from simile.states import Horizon

LOOK = Horizon(context_lags=(0, 1, 2, 4, 8, 12, 16, 24, 32), action_lags=0)
BLACK, ORANGE, BLUE = "#000000", "#e69f00", "#0072b2"  # told apart by colour-blind eyes too


def main(picture: Path) -> None:
    """Learn with and without smoothness, print both, and save a picture of them."""
    import matplotlib.pyplot as plt  # noqa: F401 - a library that is missing is better told before the work

    train, test = tasks.pursuit(n_sequences=16, length=600, seed=100).split(test=0.25)
    print("The task: pan a camera after a game, from noisy positions of six players.\n")
    print(train.describe())
    print("\nLearning a smooth policy ...")
    smooth = learn(
        train,
        smoothness=100.0,
        horizon=LOOK,
        regularizer=CriticallyDamped(order=3),
        feedback=CompensatedFeedback(),
        n_rounds=4,
    )
    print(smooth)
    print("\nLearning without smoothness, for comparison ...")
    rough = learn(train, smoothness=0.0, horizon=LOOK, n_rounds=4)
    judged = {name: evaluate(run.policy, test) for name, run in (("smooth", smooth), ("rough", rough))}
    print("\nOn held-out sequences, rolled out:\n")
    print(judged["smooth"])
    error, jitter = (judged["smooth"].mean(m) / judged["rough"].mean(m) for m in ("rmse", "difference_2"))
    print(f"\nAgainst the policy without smoothness: {error:.2f} times the error, {1 / jitter:.0f} times smoother.")
    draw(picture, test[0], judged["smooth"].rolled[0], judged["rough"].rolled[0], smooth)
    print(f"Look at {picture}")


def draw(picture: Path, demo: Demonstration, smooth: FloatArray, rough: FloatArray, run: Run) -> None:
    """Draw one held-out sequence, and the errors round by round."""
    import matplotlib.pyplot as plt

    seconds = np.arange(len(demo)) / (demo.rate or 1.0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 3.8), width_ratios=[3, 1], layout="constrained", dpi=110)
    left.plot(seconds, rough, color=ORANGE, linewidth=1, label="learned without smoothness")
    left.plot(seconds, demo.actions, color=BLACK, linewidth=2, label="human operator")
    left.plot(seconds, smooth, color=BLUE, linewidth=2, label="simile")
    left.set(xlabel="seconds", ylabel="camera pan (degrees)", title="a held-out sequence, rolled out")
    left.legend(frameon=False)
    numbers = [r.number for r in run.rounds]
    right.plot(numbers, [r.error**0.5 for r in run.rounds], color=BLUE, label="training")
    right.plot(numbers, [r.validation_error**0.5 for r in run.rounds], color=BLACK, label="validation")
    right.axvline(run.chosen.number, color="0.6", linestyle=":", label="chosen round")
    right.set(xlabel="round", ylabel="roll-out RMSE (std of pan)", title="learning", ylim=(0, None))
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture)
    plt.close(figure)
