"""The picture of a comparison: how accurate at which smoothness, a line for every contender."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from simile._common.plots import BLACK, BLUE, ORANGE
from simile._common.typing import FloatArray
from simile.evaluation.rivals import HELD

if TYPE_CHECKING:
    from simile.evaluation.comparison.result import Comparison, Contender

DARK, GREY = "#555555", "#b0b0b0"
LOOKS: dict[str, dict[str, Any]] = {
    "learn": {"color": BLUE, "linewidth": 3.0, "zorder": 5},
    "paper": {"color": ORANGE, "linewidth": 2.2, "zorder": 4},
    "authors": {"color": ORANGE, "linewidth": 2.2, "linestyle": (0, (4, 1.5)), "zorder": 4},
    "look": {"color": BLACK, "linewidth": 1.6, "zorder": 3},
    "look+": {"color": BLACK, "linewidth": 1.6, "linestyle": (0, (4, 1.5)), "zorder": 3},
}
PLAIN: dict[str, Any] = {"color": GREY, "linewidth": 1.0, "zorder": 2}


def draw(found: Comparison) -> Any:
    """Draw RMSE over roughness on held-out sequences; returns a matplotlib figure."""
    import matplotlib.pyplot as plt

    shown = [c for c in found.contenders if c.trials and c.name != HELD]
    paths = {c.name: _path(c) for c in shown}
    figure, axes = plt.subplots(figsize=(9.0, 5.6), layout="constrained", dpi=130)
    axes.set(
        xscale="log",
        xlabel="roughness of the roll-outs: mean |second difference| over the expert's",
        ylabel="RMSE (standard deviations of the expert's actions)",
        title=f"{found.recordings} held-out recordings: lower is more accurate, further left is smoother",
    )
    if not any(len(x) for x, _ in paths.values()):
        axes.text(0.5, 0.5, "no contender moved, or the expert never did", ha="center", transform=axes.transAxes)
        return figure
    _frame(axes, found, paths)
    for contender in shown:
        x, y = paths[contender.name]
        look = LOOKS.get(contender.name, PLAIN)
        axes.plot(x, y, marker="o" if len(x) == 1 else None, markersize=4, **look)
    own = found.contenders[0].standing
    if own is not None and found.level > 0.0:
        axes.plot(found.level, own.tally.score.rmse, "D", color=BLUE, markersize=8, zorder=6)
    _labels(axes, paths)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _path(contender: Contender) -> tuple[FloatArray, FloatArray]:
    kept = [t for t in contender.trials if t.score.roughness > 0.0]
    return np.array([t.score.roughness for t in kept]), np.array([t.score.rmse for t in kept])


def _frame(axes: Any, found: Comparison, paths: dict[str, tuple[FloatArray, FloatArray]]) -> None:
    """Choose the part that matters, around the best errors and the expert's roughness, and mark the references."""
    level = 1.0 if math.isnan(found.level) or found.level == 0.0 else found.level
    rough = np.concatenate([x for x, _ in paths.values()])
    left, right = max(rough.min(), level / 5.0), min(rough.max() * 1.1, max(1.0, level) * 30.0)
    near = [y[(x >= left) & (x <= right)] for x, y in paths.values()]
    best = min(y.min() for y in near if len(y))
    rows = {row["name"]: row for row in found.rows()}
    middle = float(np.nanmedian([row["error"] for row in rows.values()]))
    top = max(1.6 * best, 1.15 * middle)
    held = rows.get(HELD, {}).get("error", math.nan)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlim(min(left, 0.7), max(right, 1.4))
    axes.set_ylim(best - 0.12 * (top - best), top)
    axes.axvline(1.0, color=DARK, linestyle=":", linewidth=1.2, zorder=1)
    note: dict[str, Any] = {"textcoords": "offset points", "color": DARK, "fontsize": 8}
    axes.annotate("the expert", (1.0, 0.0), xycoords=("data", "axes fraction"), xytext=(4, 5), **note)
    if held <= top:
        axes.axhline(held, color=DARK, linestyle="--", linewidth=1.0, zorder=1)
        axes.annotate(HELD, (0.0, held), xycoords=("axes fraction", "data"), xytext=(4, 3), **note)
    elif not math.isnan(held):
        said = f"{HELD}: {held:.2f}, above the picture"
        axes.annotate(said, (0.0, 0.0), xycoords="axes fraction", xytext=(5, 5), **note)


def _labels(axes: Any, paths: dict[str, tuple[FloatArray, FloatArray]]) -> None:
    """Name the lines in the right margin, apart from each other, with a thin line to where each leaves the picture."""
    low, high = axes.get_ylim()
    ends = {name: end for name, (x, y) in paths.items() if (end := _end(x, y, axes.get_xlim(), high)) is not None}
    order = sorted(ends, key=lambda name: ends[name][1])
    gap = (high - low) * 0.036
    heights: list[float] = []
    for name in order:
        heights.append(max(ends[name][1], heights[-1] + gap if heights else low))
    over = max(0.0, (heights[-1] if heights else low) - high)
    for i in range(len(heights) - 1, -1, -1):  # what was pushed out at the top is pushed back
        most = high - gap * (len(heights) - 1 - i) if over else math.inf
        heights[i] = min(heights[i], most)
    for name, height in zip(order, heights, strict=True):
        look = LOOKS.get(name, PLAIN)
        axes.annotate(
            name,
            xy=ends[name],
            xycoords="data",
            xytext=(1.06, height),
            textcoords=("axes fraction", "data"),
            color=look["color"] if name in LOOKS else DARK,
            fontsize=8.5 if name in LOOKS else 7.5,
            fontweight="bold" if name in LOOKS else "normal",
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": look["color"],
                "linewidth": 0.5,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


def _end(x: FloatArray, y: FloatArray, shown: tuple[float, float], top: float) -> tuple[float, float] | None:
    """Return the roughest place of a line that the picture shows."""
    inside = (x >= shown[0]) & (x <= shown[1]) & (y <= top)
    if not inside.any():
        return None
    rightmost = int(np.argmax(np.where(inside, x, -np.inf)))
    return float(x[rightmost]), float(y[rightmost])
