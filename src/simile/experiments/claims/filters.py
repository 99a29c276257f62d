"""What an engineer would build by hand, a predictor and a filter behind it, tuned to be as smooth as SIMILE."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simile.data.reference import Reference
from simile.evaluation.rivals import Behind, Bench, ContextForest
from simile.evaluation.rivals.roster import average, kalman, spring
from simile.evaluation.rivals.tuning import Filters
from simile.experiments.lab import Lab
from simile.experiments.results import Claim
from simile.experiments.statistics import Effect, Row, per_seed, ratios
from simile.models import SmoothForest

SIMILE, BARE = "SIMILE", "no filter"
AVERAGE, SPRING, KALMAN = "exponential average", "critically damped spring", "Kalman filter"
FILTERS: dict[str, Filters] = {AVERAGE: average, SPRING: spring, KALMAN: kalman}
STRENGTHS = (0.0, *np.geomspace(0.5, 1000.0, 24).tolist())  # frames that a filter remembers


def measure(lab: Lab) -> list[Row]:
    """Fit a predictor on contexts alone, tune each filter on part of the training sequences, and score all."""
    # Tuned without the held-out sequences: how smooth SIMILE is on unseen sequences, and which filter is as smooth,
    # is found within the training part; then the filter is put behind a predictor that has seen all of that.
    bench = Bench(*lab.train.hold_out(0.25, seed=lab.seed), lab.seed)
    inner = Lab(lab.seed, bench.train, bench.tuned_on, lab.effort, lab.reading)
    wanted = Reference(inner.test).measure(inner.score(inner.run().policy).rolled).roughness
    source = ContextForest(SmoothForest(n_trees=lab.effort.n_trees))
    tuned = {name: Behind(name, source, kind, STRENGTHS).fit(bench).at(wanted) for name, kind in FILTERS.items()}
    contenders = {SIMILE: lab.run().policy, BARE: tuned[SPRING].controller.predictor}
    strengths = {name: point.strength for name, point in tuned.items()}
    return [
        {"seed": lab.seed, "policy": name, "strength": strengths.get(name, 0.0), **lab.score(controller).columns()}
        for name, controller in {**contenders, **{n: p.controller for n, p in tuned.items()}}.items()
    ]


def judge(rows: Sequence[Row]) -> list[Effect]:
    """Compare SIMILE with every filter."""

    def against(column: str, other: str) -> tuple[float, ...]:
        return ratios(*(per_seed(rows, column, policy=name) for name in (SIMILE, other)))

    return [
        *(Effect(f"RMSE, SIMILE / {name}", against("rmse", name), below=1.0) for name in FILTERS),
        Effect("RMSE, SIMILE / no filter", against("rmse", BARE)),
        *(
            Effect(f"mean |second difference|, SIMILE / {name}", against("difference_2", name))
            for name in (*FILTERS, BARE)
        ),
    ]


CLAIM = Claim(
    name="filters",
    title="SIMILE against a filter behind a non-smooth predictor (not in the paper)",
    statement="The paper does not compare with it, but it is what an engineer would try first: predict from the "
    "contexts, then filter. We ask whether SIMILE is more accurate than the filters that are as smooth.",
    section="not in the paper",
    method="A forest on contexts alone, without h, and behind it an exponential average, a critically damped spring or "
    "a steady Kalman filter of constant velocity. The strength of each is the most accurate of those that "
    "are at least as smooth as SIMILE, both judged on a part of the training sequences that neither had seen.",
    measure=measure,
    judge=judge,
)
