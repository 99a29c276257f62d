"""Pictures of results: a figure per claim, for the width of a README; matplotlib is imported when first used."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from simile._common.needs import need
from simile._common.plots import BLACK, BLUE, GREEN, ORANGE
from simile.experiments.claims import choices, filters, mixing, progress, reductions, smoothness, steps, targets
from simile.experiments.results import Result
from simile.experiments.statistics import Row, interval
from simile.experiments.traces import EXPERT

RED, GREY = "#d55e00", "#7f7f7f"  # line styles and markers tell apart without any colour
STYLES = (
    (BLUE, "-", "o"),
    (ORANGE, "--", "s"),
    (GREEN, "-.", "^"),
    (RED, ":", "D"),
    (BLACK, (0, (5, 1, 1, 1, 1, 1)), "v"),
    (GREY, (0, (1, 1)), "x"),
)
RMSE, FIRST, SECOND = (
    "RMSE (std of expert)",
    "mean |first difference|\n(expert = 1)",
    "mean |second difference|\n(expert = 1)",
)
MSE = "MSE (variance of expert)"
WIDTH = 9.0  # inches
FOLLOWED = (targets.SCHEDULE, targets.EXPERT, "sigma = 0.5", "sigma = 0.8")  # more lines than these hide each other


def draw(result: Result) -> bytes:
    """Draw a result as PNG."""
    figure = need("matplotlib.figure", "a picture").Figure(figsize=(WIDTH, 3.5), dpi=110, layout="constrained")
    DRAWINGS.get(result.name, _effects)(figure, result)
    for axes in figure.axes:
        twin = str(axes.yaxis.get_label_position()) == "right"
        axes.spines[["top"] if twin else ["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=9)
    buffer = io.BytesIO()
    # Without the version of matplotlib in it, equal pictures are equal files.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _smooth_class(figure: Any, result: Result) -> None:
    figure.set_size_inches(WIDTH, 5.6)
    grid = figure.add_gridspec(2, 3, width_ratios=[3, 1, 1])
    for i, setting in enumerate((smoothness.PAPER, smoothness.OURS)):
        curves = {f"{setting}, {kind}": kind for kind in ("not smooth", "smooth")}
        left = figure.add_subplot(grid[i, 0])
        looks = ((ORANGE, "-", 0.9), (BLUE, "--", 1.6))
        _trajectories(left, result.traces, dict(zip(curves, looks, strict=True)), labels=curves)
        name = "the paper's setting" if setting == smoothness.PAPER else "f on contexts alone"
        left.set_title(f"{name}: a held-out sequence, rolled out", fontsize=10)
        rows = [
            {**r, "kind": "not\nsmooth" if r["lambda"] == 0.0 else "smooth"}
            for r in result.rows
            if r["setting"] == setting
        ]
        if i == 0:
            left.legend(frameon=False, fontsize=9, ncols=3, loc="upper left")
        for j, (column, label) in enumerate((("rmse", RMSE), ("difference_2", SECOND))):
            axes = figure.add_subplot(grid[i, j + 1])
            _columns(axes, rows, column, by="kind", colours={"not\nsmooth": ORANGE, "smooth": BLUE})
            axes.set_ylabel(label, fontsize=9)
            if column == "rmse":
                axes.set_ylim(0.0, None)
            else:
                axes.set_yscale("log")
                _plain_ticks(axes.yaxis)
                axes.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")


def _steps(figure: Any, result: Result) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    rows: Sequence[Row] = result.rows
    for column in ("train_mse", "test_mse"):
        rows = relative(rows, column, lambda r: r["round"] == 0)
    labels = {name: name if name == steps.ADAPTIVE else f"beta = {name}" for name in steps.RULES}
    for axes, column, title in ((left, "train_mse", "training sequences"), (right, "test_mse", "held-out sequences")):
        _lines(axes, rows, "round", column, by="step", labels=labels)
        _log_error(axes, "MSE of roll-outs / that of round 0" if axes is left else "", "round", title)
    left.legend(frameon=False, fontsize=9)


def _overshoot(figure: Any, result: Result) -> None:
    shown = (steps.ADAPTIVE, steps.HALF, steps.LARGE)
    panels = figure.subplots(1, 3, sharey=True)
    early = min(steps.A_FEW, max(r["round"] for r in result.rows))
    for axes, name, (colour, _, marker) in zip(panels, shown, STYLES, strict=False):
        rows = [r for r in result.rows if r["step"] == name]
        rows = relative(rows, "train_mse", lambda r: r["round"] == early)
        for seed in dict.fromkeys(r["seed"] for r in rows):
            own = [r for r in rows if r["seed"] == seed]
            axes.plot([r["round"] for r in own], [r["train_mse"] for r in own], color=colour, linewidth=0.9, alpha=0.6)
        _line(axes, rows, "round", "train_mse", style=(BLACK, "-", marker), label="mean over seeds")
        title = name if name == steps.ADAPTIVE else f"beta = {name}"
        _log_error(
            axes,
            f"training MSE / that after round {early}" if name == shown[0] else "",
            "round",
            f"{title}: each line a seed",
        )
        axes.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    panels[0].legend(frameon=False, fontsize=9)


def _trade_off(figure: Any, result: Result) -> None:
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.6])
    other = left.twinx()
    _line(left, result.rows, "sigma", "train_mse", style=(RED, "--", "s"), label="imitation loss (MSE)")
    _line(other, result.rows, "sigma", "train_difference_1", style=(BLUE, "-", "o"), label="smoothness loss")
    left.set_xlabel("sigma of the one round")
    left.set_ylabel("MSE of the trained policy", color=RED, fontsize=9)
    other.set_ylabel("its mean |first difference| (expert = 1)", color=BLUE, fontsize=9)
    left.set_title("training sequences", fontsize=10)
    for axes in (left, other):
        axes.margins(y=0.3)  # room for the legends
    left.legend(frameon=False, fontsize=9, loc="upper right")
    other.legend(frameon=False, fontsize=9, loc="lower left")
    looks: dict[str, tuple[Any, Any, float]] = {"initial policy": (GREEN, "-.", 1.4)}
    colours = ((RED, (0, (1, 1)), 1.4), (ORANGE, "--", 1.4), (BLUE, "-", 1.4))
    looks |= {f"sigma = {s:g}": look for s, look in zip(targets.SHOWN, colours, strict=True)}
    _trajectories(right, result.traces, looks)
    right.set_title("after the round: a held-out sequence", fontsize=10)
    right.legend(frameon=False, fontsize=8, ncols=2)


def _feedback(figure: Any, result: Result) -> None:
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.25, 1.25, 1])
    learned = [r for r in result.rows if r["round"] > 0]
    for axes, column, label in (
        (left, "trained_difference_1", FIRST),
        (middle, "trained_mse", "MSE (variance of expert)"),
    ):
        _lines(axes, learned, "round", column, by="feedback", labels={f: f for f in FOLLOWED})
        _log_error(axes, label, "round", "newly trained policy, training")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9, ncols=len(FOLLOWED), loc="outside lower center")
    last = max(r["round"] for r in result.rows)
    final = relative(
        [r for r in result.rows if r["round"] == last], "test_rmse", lambda r: r["feedback"] == targets.SCHEDULE
    )
    _dots(right, final, "test_rmse", by="feedback")
    right.set_xlabel("RMSE / the schedule's", fontsize=9)
    right.set_title(f"after round {last}, held out", fontsize=10)


def _progress(figure: Any, result: Result) -> None:
    figure.set_size_inches(WIDTH, 5.4)
    grid = figure.add_gridspec(2, 3, height_ratios=[1.15, 1])
    top = figure.add_subplot(grid[0, :])
    curves = [c for c in dict.fromkeys(r["curve"] for r in result.traces) if c != EXPERT]
    looks = ((RED, ":", 1.3), (ORANGE, "--", 1.3), (GREEN, "-.", 1.3), (BLUE, "-", 1.6))
    _trajectories(top, result.traces, dict(zip(curves, looks, strict=False)))
    top.set_title("intermediate policies on a held-out sequence", fontsize=10)
    top.legend(frameon=False, fontsize=9, ncols=5, loc="upper left")
    for j, (column, label) in enumerate((("rmse", RMSE), ("difference_1", FIRST), ("difference_2", SECOND))):
        axes = figure.add_subplot(grid[1, j])
        _line(axes, result.rows, "round", f"train_{column}", style=STYLES[0], label="training", shift=-0.08)
        _line(axes, result.rows, "round", f"test_{column}", style=STYLES[1], label="held out", shift=0.08)
        axes.set_xlabel("round")
        axes.set_ylabel(label, fontsize=9)
        axes.set_ylim(0.0, None)
        if j == 1:
            axes.axhline(progress.SMOOTH, color=GREY, linewidth=0.8, linestyle=":")
    figure.axes[1].legend(frameon=False, fontsize=9)


def _rounds(figure: Any, result: Result) -> None:
    left, right = figure.subplots(1, 2)
    for axes, column, label in ((left, "rmse", RMSE), (right, "difference_2", SECOND)):
        _line(axes, result.rows, "n_rounds", f"train_{column}", style=STYLES[0], label="training", shift=-0.1)
        _line(axes, result.rows, "n_rounds", f"test_{column}", style=STYLES[1], label="held out", shift=0.1)
        axes.set_xlabel("rounds of the run")
        axes.set_xticks(sorted({r["n_rounds"] for r in result.rows}))
        axes.set_ylabel(label.replace("\n", " "), fontsize=9)
        axes.set_ylim(0.0, None)
    left.legend(frameon=False, fontsize=9)


def _mixing(figure: Any, result: Result) -> None:
    left, right = figure.subplots(1, 2)
    names = {mixing.DETERMINISTIC: "deterministic", mixing.STOCHASTIC: "stochastic, mean over roll-outs"}
    _lines(left, result.rows, "round", "mse", by="mixing", labels=names)
    _log_error(left, MSE, "round", "held-out sequences, beta = 0.5")
    _legend_below(left)
    compared = {"mse": "MSE", "difference_1": "mean |first difference|", "difference_2": "mean |second difference|"}
    for i, (column, label) in enumerate(compared.items()):
        rows = [
            {**r, column: r[column] / c[column]}
            for r, c in zip(
                *([r for r in result.rows if r["mixing"] == m] for m in (mixing.STOCHASTIC, mixing.DETERMINISTIC)),
                strict=True,
            )
        ]
        _line(right, rows, "round", column, style=STYLES[i + 1], label=label, shift=0.1 * (i - 1))
    _log_error(right, "stochastic / deterministic, seed by seed", "round", "above 1: deterministic is better")
    right.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    _legend_below(right)


def _time(figure: Any, result: Result) -> None:
    left, right = figure.subplots(1, 2)
    rows = [{**r, "fits": r["round"] + 1} for r in result.rows if r["reduction"] != "cloning"]
    names = {name: name for name in reductions.RUNS if name != "cloning"}
    for axes, column, label, apart in (
        (left, "cpu_fit_seconds", "CPU seconds of the round's regression", 0.07),
        (right, "cpu_fit_seconds_so_far", "CPU seconds of all regressions so far", 0.0),
    ):
        _lines(axes, rows, "fits", column, by="reduction", labels=names, apart=apart)
        axes.set_xlabel("regressions")
        axes.set_ylabel(label, fontsize=9)
    left.set_ylim(0.0, None)
    right.set_xscale("log")
    right.set_yscale("log")
    _plain_ticks(right.xaxis)
    _plain_ticks(right.yaxis)
    left.legend(frameon=False, fontsize=9)
    left.set_title("depends on the machine", fontsize=10)
    right.set_title("both axes logarithmic: the slope is the exponent", fontsize=10)


def _effects(figure: Any, result: Result) -> None:
    """Draw the effects themselves, for claims without a picture of their own."""
    axes = figure.subplots()
    rows = [{"effect": e.text, "seed": i, "value": v} for e in result.effects for i, v in enumerate(e.values)]
    _dots(axes, rows, "value", by="effect")


def _trajectories(
    axes: Any, rows: Sequence[Row], looks: Mapping[str, tuple[Any, Any, float]], labels: Mapping[str, str] | None = None
) -> None:
    """Draw the expert and other curves over time."""
    for curve, (colour, style, width) in {EXPERT: (BLACK, "-", 1.8), **looks}.items():
        own = [r for r in rows if r["curve"] == curve]
        label = curve if labels is None else labels.get(curve, curve)
        axes.plot(
            [r["time"] for r in own],
            [r["value"] for r in own],
            color=colour,
            linestyle=style,
            linewidth=width,
            label=label,
            zorder=1 if curve == EXPERT or width < 1.0 else 2,
        )
    axes.set_xlabel(rows[0]["unit"])
    axes.set_ylabel(rows[0]["action"], fontsize=9)
    axes.margins(x=0.01, y=0.18)


def _lines(
    axes: Any, rows: Sequence[Row], x: str, y: str, *, by: str, labels: Mapping[str, str], apart: float = 0.07
) -> None:
    """Draw a line per group, a little apart so that the error bars can be seen."""
    for i, (group, label) in enumerate(labels.items()):
        own = [r for r in rows if r[by] == group]
        _line(axes, own, x, y, style=STYLES[i], label=label, shift=apart * (i - (len(labels) - 1) / 2))


def _line(
    axes: Any, rows: Sequence[Row], x: str, y: str, *, style: tuple[Any, Any, str], label: str, shift: float = 0.0
) -> None:
    """Draw the mean over seeds with its interval."""
    colour, dashes, marker = style
    places = sorted({r[x] for r in rows})
    if all(isinstance(place, int) for place in places):
        axes.locator_params(axis="x", integer=True)
    found = [_bar([r[y] for r in rows if r[x] == place]) for place in places]
    axes.errorbar(
        [place + shift for place in places],
        [mean for mean, _, _ in found],
        yerr=[[below for _, below, _ in found], [above for _, _, above in found]],
        color=colour,
        linestyle=dashes,
        marker=marker,
        markersize=4,
        linewidth=1.5,
        elinewidth=0.8,
        capsize=2,
        label=label,
    )


def _columns(axes: Any, rows: Sequence[Row], column: str, *, by: str, colours: Mapping[str, str]) -> None:
    """Draw a group per tick: mean and interval, and each seed as a dot beside them."""
    for i, (group, colour) in enumerate(colours.items()):
        values = [r[column] for r in rows if r[by] == group]
        mean, below, above = _bar(values)
        axes.plot([i + 0.18] * len(values), values, ".", color=colour, markersize=4, alpha=0.6)
        axes.errorbar([i], [mean], yerr=[[below], [above]], color=colour, marker="os"[i % 2], markersize=6, capsize=3)
    axes.set_xticks(range(len(colours)), list(colours))
    axes.set_xlim(-0.5, len(colours) - 0.4)


def _dots(axes: Any, rows: Sequence[Row], column: str, *, by: str, first: Iterable[str] = ()) -> None:
    """Draw a group per line, from the top: mean and interval, and each seed as a small dot."""
    groups = list(dict.fromkeys(r[by] for r in rows))
    for i, group in enumerate(groups):
        values = [r[column] for r in rows if r[by] == group]
        mean, below, above = _bar(values)
        ours = group in first or (not first and i == 0)
        colour, marker = (BLUE, "o") if ours else (BLACK, "s")
        axes.plot(values, [i + 0.22] * len(values), ".", color=colour, markersize=3.5, alpha=0.5)
        axes.errorbar([mean], [i], xerr=[[below], [above]], color=colour, marker=marker, markersize=5.5, capsize=3)
    axes.set_yticks(range(len(groups)), groups, fontsize=9)
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.grid(axis="x", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)


def _two_dots(figure: Any, result: Result, *, by: str, first: Sequence[str]) -> None:
    """Draw error, relative to the first group's, and roughness of all groups."""
    left, right = figure.subplots(1, 2, sharey=True)
    # Holding the last action is so far off that the others could not be told apart on one axis with it.
    rows = relative([r for r in result.rows if r[by] != reductions.HELD], "rmse", lambda r: r[by] == first[0])
    labels = f"RMSE / that of {first[0]}, seed by seed", SECOND.replace("\n", " ")
    for axes, column, label in zip((left, right), ("rmse", "difference_2"), labels, strict=True):
        _dots(axes, rows, column, by=by, first=first)
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis)
        axes.set_xlabel(label, fontsize=9)
        axes.axvline(1.0, color=GREY, linewidth=1.0, linestyle=":")


def relative(rows: Sequence[Row], column: str, reference: Callable[[Row], bool]) -> list[Row]:
    """Divide a column, seed by seed, by the mean of the seed's reference rows: what is compared is paired."""
    base = {
        seed: interval([r[column] for r in rows if r["seed"] == seed and reference(r)])[0]
        for seed in dict.fromkeys(r["seed"] for r in rows)
    }
    return [{**r, column: r[column] / base[r["seed"]]} for r in rows]


def _bar(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and how far the interval reaches below and above; nothing where there is no interval."""
    mean, low, high = interval(values)
    return (mean, mean - low, high - mean) if math.isfinite(high) and len(values) > 1 else (mean, 0.0, 0.0)


def _log_error(axes: Any, ylabel: str, xlabel: str, title: str) -> None:
    axes.set_yscale("log")
    _plain_ticks(axes.yaxis)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel, fontsize=9)
    axes.set_title(title, fontsize=10)


def _legend_below(axes: Any) -> None:
    """Put the legend where no data are."""
    axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, columnspacing=1.0)


def _plain_ticks(axis: Any) -> None:
    """Write 0.02 and 5 rather than powers of ten."""
    from matplotlib.ticker import LogLocator

    low, high = axis.get_view_interval()
    steps_of = (
        (30.0, (1.0, 2.0, 5.0)),
        (5.0, (1.0, 2.0, 3.0, 5.0, 7.0)),
        (0.0, (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)),
    )
    axis.set_major_locator(LogLocator(base=10, subs=next(subs for span, subs in steps_of if high > span * low)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(lambda *_: "")


DRAWINGS: dict[str, Callable[[Any, Result], None]] = {
    "smooth-class": _smooth_class,
    "adaptive-step": _steps,
    "large-step": _overshoot,
    "sigma-trade-off": _trade_off,
    "smooth-feedback": _feedback,
    "progress": _progress,
    "few-rounds": _rounds,
    "deterministic": _mixing,
    "reductions": partial(_two_dots, by="reduction", first=(reductions.SIMILE, reductions.OURS)),
    "training-time": _time,
    "filters": partial(_two_dots, by="policy", first=(filters.SIMILE, filters.OURS)),
    "choices": partial(_two_dots, by="choice", first=(choices.DEFAULT,)),
}
