"""SIMILE beside the reductions it is compared with, at equal effort: their error, their smoothness, their time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from simile.experiments.lab import Lab, Training
from simile.experiments.results import Claim
from simile.experiments.statistics import Effect, Row, per_seed, ratios
from simile.policies.policies import is_stochastic

SIMILE, DAGGER, HELD, OURS = "SIMILE", "DAgger", "holding the last action", "SIMILE, contexts alone"
RUNS = {
    SIMILE: "authors",
    "SEARN": "searn",
    "SMILe": "smile",
    DAGGER: "dagger",
    "coaching": "coach",
    "cloning": "clone",
}
RIVALS = tuple(name for name in RUNS if name != SIMILE)


def measure_error(lab: Lab) -> list[Row]:
    """Run every reduction with the same trees, rounds and lambda, and score its result on held-out sequences."""
    trained = {name: _run(lab, name) for name in RUNS} | {OURS: lab.contexts_alone()}
    scores = {name: lab.score(t.policy, times=_times(lab, t)) for name, t in trained.items()} | {HELD: lab.hold_last()}
    return [
        {
            "seed": lab.seed,
            "reduction": name,
            **found.columns(),
            "cpu_seconds": sum(trained[name].seconds) if name in trained else 0.0,
        }
        for name, found in scores.items()
    ]


def judge_error(rows: Sequence[Row]) -> list[Effect]:
    """Compare every rival with SIMILE."""

    def against(column: str, other: str) -> tuple[float, ...]:
        return ratios(*(per_seed(rows, column, reduction=name) for name in (other, SIMILE)))

    return [
        *(Effect(f"RMSE, {name} / SIMILE", against("rmse", name), above=1.0) for name in RIVALS),
        *(Effect(f"RMSE, {name} / SIMILE", against("rmse", name)) for name in (HELD, OURS)),
        *(
            Effect(f"mean |second difference|, {name} / SIMILE", against("difference_2", name))
            for name in (*RIVALS, OURS)
        ),
    ]


def measure_time(lab: Lab) -> list[Row]:
    """Note the CPU time of every round."""
    rows = []
    for name in RUNS:
        training = _run(lab, name)
        for n, (fit, whole) in enumerate(zip(training.fit_seconds, training.seconds, strict=True)):
            rows.append(
                {
                    "seed": lab.seed,
                    "reduction": name,
                    "round": n,
                    "cpu_fit_seconds": fit,
                    "cpu_round_seconds": whole,
                    "cpu_fit_seconds_so_far": sum(training.fit_seconds[: n + 1]),
                    "cpu_seconds_so_far": sum(training.seconds[: n + 1]),
                }
            )
    return rows


def judge_time(rows: Sequence[Row]) -> list[Effect]:
    """Fit the exponent p in time ~ rounds^p."""

    def exponents(name: str, column: str = "cpu_fit_seconds_so_far") -> tuple[float, ...]:
        seeds = dict.fromkeys(row["seed"] for row in rows)
        return tuple(
            exponent([row[column] for row in rows if row["seed"] == s and row["reduction"] == name]) for s in seeds
        )

    def total(name: str, column: str) -> dict[int, float]:
        last = max(row["round"] for row in rows if row["reduction"] == name)
        return per_seed(rows, column, reduction=name, round=last)

    dagger, simile = exponents(DAGGER), exponents(SIMILE)
    return [
        Effect("exponent of DAgger's fitting time in the rounds", dagger, "value", above=1.0),
        Effect(
            "exponent of DAgger's fitting time, less SIMILE's",
            tuple(a - b for a, b in zip(dagger, simile, strict=True)),
            "value",
            above=0.0,
        ),
        Effect("exponent of SIMILE's fitting time in the rounds", simile, "value"),
        Effect("exponent of SIMILE's time with roll-outs", exponents(SIMILE, "cpu_seconds_so_far"), "value"),
        Effect("exponent of DAgger's time with roll-outs", exponents(DAGGER, "cpu_seconds_so_far"), "value"),
        Effect(
            "fitting time of the whole run, DAgger / SIMILE",
            ratios(*(total(name, "cpu_fit_seconds_so_far") for name in (DAGGER, SIMILE))),
        ),
        Effect(
            "time of the whole run, DAgger / SIMILE",
            ratios(*(total(name, "cpu_seconds_so_far") for name in (DAGGER, SIMILE))),
        ),
    ]


def exponent(so_far: Sequence[float]) -> float:
    """Fit p in t_n = c n^p, the time of the first n rounds, by least squares on the log scale.

    >>> round(exponent([1.0, 4.0, 9.0, 16.0]), 6)
    2.0
    """
    if len(so_far) < 2 or min(so_far) <= 0.0:
        return math.nan
    return float(np.polyfit(np.log(np.arange(1, len(so_far) + 1)), np.log(so_far), 1)[0])


def _run(lab: Lab, name: str) -> Training:
    return lab.run(RUNS[name])


def _times(lab: Lab, training: Training) -> int:
    return lab.effort.n_rollouts if is_stochastic(training.policy) else 1


ERROR = Claim(
    name="reductions",
    title="SIMILE against SEARN, SMILe, DAgger, coaching and cloning",
    statement="Our empirical results demonstrate significant performance gains over previous approaches.",
    section="Abstract; Section 1",
    method="Equal effort: the same trees in each round, the same rounds, lambda, h and lags. SEARN and SMILe with beta "
    "= 0.1; recorded actions stand in for the expert that SEARN, SMILe and DAgger would ask. Errors are of roll-outs "
    "over held-out sequences, of stochastic policies the mean over many. Every rival has a say: the claim fails where "
    "one of them is more accurate. The paper's own Section 6 shows no figure for this.",
    measure=measure_error,
    judge=judge_error,
)
TIME = Claim(
    name="training-time",
    title="The cost of data aggregation",
    statement="[DAgger's] aggregation, however, significantly increases the computational complexity [...] since the "
    "training time grows super-linearly w.r.t. the number of iterations.",
    section="Section 3; Section 1",
    method="CPU seconds of the regressions of a run (round 0 is the first), and the exponent p of time ~ rounds^p by "
    "least squares on the log scale. Roll-outs are counted apart: they depend on how mixtures are stored more than on "
    "the algorithm.",
    measure=measure_time,
    judge=judge_time,
    timed=True,
)
