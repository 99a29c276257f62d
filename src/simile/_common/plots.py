"""Figures of matplotlib, which is an extra: how a run went, what a policy did, how accurate at which smoothness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from simile._common.needs import need
from simile._common.typing import FloatArray

BLACK, ORANGE, BLUE, GREEN = "#000000", "#e69f00", "#0072b2", "#009e73"  # told apart by colour-blind eyes too


def axes_of(rows: int, columns: int, size: tuple[float, float], **layout: Any) -> tuple[Any, Any]:
    """Return a figure and its axes (rows, columns), in the one style of all our figures."""
    plt = need("matplotlib.pyplot", "a figure")
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **layout)
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def rounds(turns: Sequence[Any], chosen: int) -> Any:
    """Draw error, roughness, beta and sigma by round, with the chosen one marked."""
    figure, axes = axes_of(1, 3, (11.0, 3.2))
    number = [t.number for t in turns]
    panels = {
        "RMSE (std of the expert's actions)": {
            "training": (BLACK, [math.sqrt(t.error) for t in turns]),
            "left out": (BLUE, [math.sqrt(t.validation_error) for t in turns]),
        },
        "roughness (1: the expert's)": {
            "training": (BLACK, [t.roughness for t in turns]),
            "left out": (BLUE, [t.validation_roughness for t in turns]),
        },
        "step": {"beta": (ORANGE, [t.beta for t in turns]), "sigma": (GREEN, [t.sigma for t in turns])},
    }
    for one, (title, lines) in zip(axes.flat, panels.items(), strict=True):
        for name, (colour, values) in lines.items():
            if not np.isnan(values).all():
                one.plot(number, values, "o-", color=colour, markersize=4, label=name)
        one.axvline(chosen, color="0.6", linestyle=":")
        one.set(xlabel="round", title=title, ylim=(0.0, None))
        one.xaxis.get_major_locator().set_params(integer=True)
        one.legend(frameon=False)
    axes[0, 0].annotate("chosen", (chosen, 0.0), (3, 3), textcoords="offset points", color="0.4")
    return figure


def trajectories(
    expert: FloatArray, rolled: FloatArray, names: Sequence[str], rate: float | None, title: str, errors: FloatArray
) -> Any:
    """Draw what a policy did beside the expert, an action (column) below the other; and the RMSE of all sequences."""
    k = expert.shape[1]
    figure, axes = axes_of(k, 2, (12.0, 0.8 + 2.6 * k), width_ratios=[3, 1])
    time = np.arange(len(expert)) / (rate or 1.0)
    for j, (left, right) in enumerate(axes):
        left.plot(time, expert[:, j], color=BLACK, linewidth=1.5, label="expert")
        left.plot(time, rolled[:, j], color=BLUE, linewidth=1.5, label="policy, rolled out")
        left.set(ylabel=names[j], xlabel="seconds" if rate else "frames", title=title if j == 0 else None)
        left.legend(frameon=False, ncols=2)
        right.bar(np.arange(len(errors)), errors[:, j], color=BLUE)
        right.set(xlabel="sequence", title=f"RMSE of {names[j]}")
        right.xaxis.get_major_locator().set_params(integer=True)
    return figure


def frontier(paths: Sequence[tuple[str, Sequence[Any]]], chosen: Any = None, label: str = "knee") -> Any:
    """Draw error over roughness, a line for each path, the first in bold, and a place on it; far errors are cut off."""
    figure, ((axes,),) = axes_of(1, 1, (8.5, 6.0) if len(paths) > 4 else (6.0, 4.0))
    for i, (name, points) in enumerate(paths):
        look = {"color": BLUE if i == 0 else f"C{i}", "linewidth": 2.5 if i == 0 else 1.0, "label": name or None}
        errors = [math.sqrt(p.error) for p in points]
        axes.plot([p.roughness for p in points], errors, f"{'osD^v'[i % 5]}-", markersize=4, **look)
    if chosen is not None:
        axes.plot(chosen.roughness, math.sqrt(chosen.error), "o", color=ORANGE, markersize=9, label=label)
    axes.axvline(1.0, color="0.6", linestyle=":", label="the expert's own roughness")
    axes.set(xscale="log", xlabel="roughness (1: the expert's)", ylabel="RMSE (std of the expert's actions)")
    best = sorted(min(math.sqrt(p.error) for p in points) for _, points in paths if points)
    if len(best) > 1 and (top := max(1.6 * best[0], 1.3 * best[len(best) // 2])) < axes.get_ylim()[1]:
        axes.set_ylim(0.0, top)
    axes.legend(frameon=False, **({"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if len(paths) > 4 else {}))
    return figure
