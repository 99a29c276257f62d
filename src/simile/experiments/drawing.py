"""Pictures of results: one per claim, both readings of the paper below each other, and all cases at the foot.

For the width of a README; matplotlib is imported when first used.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from simile._common.needs import need
from simile._common.plots import BLACK, BLUE, GREEN, ORANGE
from simile.experiments.claims import choices, filters, mixing, reductions, steps, targets
from simile.experiments.lab import SMOOTH
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
WIDTH, ABREAST = 9.0, 3  # inches; effects side by side


def draw(results: Sequence[Result]) -> bytes:
    """Draw a claim as PNG: its own picture for each reading on the first data, then what decides in all cases."""
    shown = [r for r in results if r.case.source == results[0].case.source]
    paint, height = DRAWINGS.get(results[0].name, (None, 0.0))
    deciding = [e for e in results[0].effects if e.decides]
    rows = -(-len(deciding) // ABREAST)
    heights = [height] * len(shown) * (paint is not None) + [rows * (0.75 + 0.2 * len(results))]
    figure = need("matplotlib.figure", "a picture").Figure(figsize=(WIDTH, sum(heights)), dpi=110, layout="constrained")
    *parts, foot = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, result in zip(parts, shown, strict=paint is not None):
        part.suptitle(str(result.case), fontsize=11, fontweight="bold", x=0.01, ha="left")
        if paint is not None:
            paint(part, result)
    _verdicts(foot, results, rows)
    for axes in figure.axes:
        twin = str(axes.yaxis.get_label_position()) == "right"
        axes.spines[["top"] if twin else ["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=9)
        for scale, least in ((axes.set_xscale, axes.dataLim.minposx), (axes.set_yscale, axes.dataLim.minposy)):
            # Nothing to be seen: each point is of a policy that diverged in some seed. What is hidden shares its scale.
            if axes.get_visible() and not math.isfinite(least):
                scale("linear")
    buffer = io.BytesIO()
    # Without the version of matplotlib in it, equal pictures are equal files.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _verdicts(figure: Any, results: Sequence[Result], rows: int) -> None:
    """Draw every effect that decides, a line for each case; where the paper is right, the ground is shaded."""
    panels = figure.subplots(rows, ABREAST, squeeze=False, sharey=True)
    for axes in panels.flat:
        axes.set_visible(False)
    texts = [e.text for e in results[0].effects if e.decides]
    for axes, text in zip(panels.flat, texts, strict=False):
        axes.set_visible(True)
        own = [(i, r, e) for i, r in enumerate(results) for e in r.effects if e.text == text]
        bound = own[0][2]
        for i, result, effect in own:
            (low, high), mean = effect.interval, effect.mean
            colour, marker = (BLUE, "o") if result.case.reading == "paper" else (ORANGE, "s")
            reach = [[mean - low], [high - mean]] if math.isfinite(high) and math.isfinite(low) else None
            axes.errorbar([mean], [i], xerr=reach, color=colour, marker=marker, markersize=5, capsize=2.5)
        if bound.scale == "ratio":
            axes.set_xscale("log")
        axes.axvline(bound.bound, color=GREY, linewidth=1.0, linestyle=":")
        low, high = axes.get_xlim()
        if bound.scale == "ratio":  # an interval of few seeds may be wider than anything to be seen
            places = [v for _, _, e in own for v in (e.mean, e.bound) if math.isfinite(v)]
            low, high = max(low, min(places) / 9.0), min(high, max(places) * 9.0)
        side = (bound.bound, high) if bound.above is not None else (low, bound.bound)
        axes.axvspan(*side, color=GREEN, alpha=0.12, linewidth=0.0)
        axes.set_xlim(low, high)
        if bound.scale == "ratio":
            _plain_ticks(axes.xaxis)
        axes.set_title("\n".join(textwrap.wrap(text, 40)), fontsize=8)
    panels[0, 0].set_yticks(range(len(results)), [str(r.case) for r in results], fontsize=8)
    panels[0, 0].set_ylim(len(results) - 0.5, -0.5)


def _smooth_class(figure: Any, result: Result) -> None:
    left, *others = figure.subplots(1, 3, width_ratios=[3, 1, 1])
    if result.traces:
        looks = {"not smooth": (ORANGE, "-", 0.9), "smooth": (BLUE, "--", 1.6)}
        _trajectories(left, result.traces, looks)
        left.set_title("a held-out sequence, rolled out", fontsize=10)
        left.legend(frameon=False, fontsize=9, ncols=3, loc="upper left")
    rows = [{**r, "kind": "not\nsmooth" if r["lambda"] == 0.0 else "smooth"} for r in result.rows]
    for axes, column, label in zip(others, ("rmse", "difference_2"), (RMSE, SECOND), strict=True):
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
    _sigmas(right, result, "after the round: a held-out sequence")


def _targets(figure: Any, result: Result) -> None:
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.6])
    _line(left, result.rows, "sigma", "target_difference_1", style=STYLES[0], label="first difference (expert = 1)")
    _line(left, result.rows, "sigma", "target_step", style=STYLES[1], label="from the action before (std)")
    left.set_xlabel("sigma")
    left.set_ylabel("mean |difference| of the targets", fontsize=9)
    left.legend(frameon=False, fontsize=8)
    _sigmas(right, result, "targets on a training sequence")


def _sigmas(axes: Any, result: Result, title: str) -> None:
    if not result.traces:
        return
    looks: dict[str, tuple[Any, Any, float]] = {"initial policy": (GREEN, "-.", 1.4)}
    colours = ((RED, (0, (1, 1)), 1.4), (ORANGE, "--", 1.4), (BLUE, "-", 1.4))
    looks |= {f"sigma = {s:g}": look for s, look in zip(targets.SHOWN, colours, strict=True)}
    drawn = {row["curve"] for row in result.traces}
    _trajectories(axes, result.traces, {name: look for name, look in looks.items() if name in drawn})
    axes.set_title(title, fontsize=10)
    axes.legend(frameon=False, fontsize=8, ncols=2)


def _feedback(figure: Any, result: Result) -> None:
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.25, 1.25, 1])
    learned = [r for r in result.rows if r["round"] > 0]
    for axes, column, label in (
        (left, "trained_difference_1", FIRST),
        (middle, "trained_mse", "MSE (variance of expert)"),
    ):
        _lines(
            axes,
            learned,
            "round",
            column,
            by="feedback",
            labels={f: f for f in (targets.SCHEDULE, targets.EXPERT, targets.DISTANCE)},
        )
        _log_error(axes, label, "round", "newly trained policy, training")
    left.legend(frameon=False, fontsize=8)
    last = max(r["round"] for r in result.rows)
    final = relative(
        [r for r in result.rows if r["round"] == last], "test_rmse", lambda r: r["feedback"] == targets.SCHEDULE
    )
    _dots(right, final, "test_rmse", by="feedback")
    right.set_xlabel("RMSE / the schedule's", fontsize=9)
    right.set_title(f"after round {last}, held out", fontsize=10)


def _progress(figure: Any, result: Result) -> None:
    grid = figure.add_gridspec(2, 3, height_ratios=[1.15, 1])
    top = figure.add_subplot(grid[0, :])
    curves = [c for c in dict.fromkeys(r["curve"] for r in result.traces) if c != EXPERT]
    looks = ((RED, ":", 1.3), (ORANGE, "--", 1.3), (GREEN, "-.", 1.3), (BLUE, "-", 1.6))
    if result.traces:
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
            axes.axhline(SMOOTH, color=GREY, linewidth=0.8, linestyle=":")
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


def _reductions(figure: Any, result: Result) -> None:
    """Draw error over roughness: SIMILE as a path along lambda, each rival as a point."""
    axes = figure.subplots()
    at: dict[tuple[str, float], list[Row]] = {}
    for row in result.rows:
        if row["reduction"] != reductions.HELD:
            at.setdefault((row["reduction"], row["lambda"]), []).append(row)
    middle = {key: [interval([r[c] for r in rows])[0] for c in ("difference_2", "rmse")] for key, rows in at.items()}
    for (colour, _, marker), name in zip(STYLES, (reductions.SIMILE, *reductions.RUNS), strict=True):
        places = sorted(place for (other, _), place in middle.items() if other == name and math.isfinite(sum(place)))
        label = f"{name}, over lambda" if name == reductions.SIMILE else name
        axes.plot(
            [rough for rough, _ in places],
            [error for _, error in places],
            color=colour,
            marker=marker,
            markersize=5,
            label=label,
        )
    axes.set_xscale("log")
    _plain_ticks(axes.xaxis)
    _log_error(axes, RMSE, SECOND.replace("\n", " "), "held-out sequences: below the path is better than SIMILE")
    axes.legend(frameon=False, fontsize=9)


def _settling(figure: Any, result: Result, *, y: str, x: str, ylabel: str, xlabel: str) -> None:
    axes = figure.subplots()
    _line(axes, result.rows, x, y, style=STYLES[0], label="")
    _log_error(axes, ylabel, xlabel, "")


def _time(figure: Any, result: Result) -> None:
    left, right = figure.subplots(1, 2)
    rows = [{**r, "fits": r["round"] + 1} for r in result.rows]
    names = dict.fromkeys(r["reduction"] for r in rows)
    for axes, column, label, apart in (
        (left, "cpu_fit_seconds", "CPU seconds of the round's regression", 0.07),
        (right, "cpu_fit_seconds_so_far", "CPU seconds of all regressions so far", 0.0),
    ):
        _lines(axes, rows, "fits", column, by="reduction", labels={name: name for name in names}, apart=apart)
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
    rows = relative(result.rows, "rmse", lambda r: r[by] == first[0])
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
    axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, columnspacing=1.0)


def _plain_ticks(axis: Any) -> None:
    """Write 0.02 and 5 rather than powers of ten."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    low, high = axis.get_view_interval()
    steps_of = (
        (300.0, (1.0,)),
        (30.0, (1.0, 2.0, 5.0)),
        (5.0, (1.0, 2.0, 3.0, 5.0, 7.0)),
        (0.0, (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)),
    )
    narrow = high < 1.6 * low
    axis.set_major_locator(
        MaxNLocator(4) if narrow else LogLocator(subs=next(subs for span, subs in steps_of if high > span * low))
    )
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(lambda *_: "")


# What draws a claim for one reading, and how high that is; what is not here has the effects at the foot alone.
DRAWINGS: dict[str, tuple[Callable[[Any, Result], None], float]] = {
    "smooth-class": (_smooth_class, 2.8),
    "adaptive-step": (_steps, 3.0),
    "large-step": (_overshoot, 2.8),
    "sigma-targets": (_targets, 2.8),
    "sigma-trade-off": (_trade_off, 2.8),
    "smooth-feedback": (_feedback, 2.8),
    "progress": (_progress, 4.8),
    "few-rounds": (_rounds, 2.6),
    "deterministic": (_mixing, 3.2),
    "many-rollouts": (
        partial(_settling, y="needed", x="frames", ylabel="roll-outs needed", xlabel="frames of the sequence"),
        2.2,
    ),
    "converging-h": (
        partial(_settling, y="change", x="round", ylabel="change of h\n(a step of the expert = 1)", xlabel="round"),
        2.2,
    ),
    "reductions": (_reductions, 3.4),
    "training-time": (_time, 3.0),
    "filters": (partial(_two_dots, by="policy", first=(filters.SIMILE,)), 2.4),
    "choices": (partial(_two_dots, by="choice", first=(choices.OWN,)), 2.4),
}
