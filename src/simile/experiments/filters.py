"""What an engineer would build by hand, a predictor and a filter behind it, tuned to be as smooth as SIMILE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simile.data.demonstrations import Demonstrations
from simile.data.states import Horizon
from simile.evaluation import rivals
from simile.evaluation.rivals.filters import Kalman
from simile.experiments.lab import WARM_UP, Lab, Score, score, score_of
from simile.experiments.results import Claim
from simile.experiments.statistics import Effect, Row, per_seed, ratios
from simile.learning import measures
from simile.models.regularizers import RegularizerClass
from simile.policies.policies import SmoothPolicy

SIMILE, OURS, BARE = "SIMILE", "SIMILE, contexts alone", "no filter"
AVERAGE, SPRING, KALMAN = "exponential average", "critically damped spring", "Kalman filter"
FILTERS = (AVERAGE, SPRING, KALMAN)
RATIOS: list[float] = np.geomspace(1e-6, 1.0, 25).tolist()  # process over measurement noise that are tried


def measure(lab: Lab) -> list[Row]:
    """Fit a predictor on contexts alone, tune each filter on part of the training sequences, and score all."""
    simile = lab.run()
    # Tuned without the held-out sequences: how smooth SIMILE is on unseen sequences, and which filter is as smooth,
    # is found within the training part; then the filter is put behind a predictor that has seen all of that.
    fitted, validation = lab.train.hold_out(0.25, seed=lab.seed)
    inner = Lab(lab.seed, fitted, validation, lab.effort)
    wanted = measures.roughness(inner.score(inner.run().policy).rolled, validation)
    tuning, final = (_predictor(lab, demos) for demos in (fitted, lab.train))
    scores: dict[str, tuple[Score, float]] = {
        SIMILE: (lab.score(simile.policy), math.nan),
        OURS: (lab.score(lab.contexts_alone().policy), math.nan),
        BARE: (lab.score(final), math.nan),
    }
    for name, kind in ((AVERAGE, rivals.EXPONENTIAL_AVERAGE), (SPRING, rivals.FOLLOWER)):
        tuned = rivals.filtered(tuning, kind, validation, roughness=wanted)
        scores[name] = lab.score(_behind(final, tuned, kind, lab.train)), tuned.smoothness
    ratio = _tuned_kalman(tuning, validation, wanted)
    scores[KALMAN] = _kalman_score(scores[BARE][0], lab.test, final, ratio), ratio
    return [
        {"seed": lab.seed, "policy": name, "strength": _or_zero(strength), **found.columns()}
        for name, (found, strength) in scores.items()
    ]


def judge(rows: Sequence[Row]) -> list[Effect]:
    """Compare SIMILE with every filter."""

    def against(column: str, ours: str, other: str) -> tuple[float, ...]:
        return ratios(*(per_seed(rows, column, policy=name) for name in (ours, other)))

    return [
        *(Effect(f"RMSE, SIMILE / {name}", against("rmse", SIMILE, name), below=1.0) for name in FILTERS),
        Effect("RMSE, SIMILE / no filter", against("rmse", SIMILE, BARE)),
        *(
            Effect(f"mean |second difference|, SIMILE / {name}", against("difference_2", SIMILE, name))
            for name in (*FILTERS, BARE)
        ),
        *(Effect(f"RMSE, contexts alone / {name}", against("rmse", OURS, name)) for name in FILTERS),
        *(
            Effect(f"mean |second difference|, contexts alone / {name}", against("difference_2", OURS, name))
            for name in FILTERS
        ),
    ]


def _predictor(lab: Lab, demos: Demonstrations) -> SmoothPolicy:
    found = rivals.predictor(demos, model=lab.forest(), horizon=Horizon(), seed=lab.seed)
    assert isinstance(found, SmoothPolicy)
    return found


def _behind(
    predictor: SmoothPolicy, tuned: SmoothPolicy, kind: RegularizerClass, train: Demonstrations
) -> SmoothPolicy:
    """Put a filter of the tuned strength behind another predictor."""
    standard = [predictor.units.standardize(a) for a in train.actions]
    return replace(predictor, h=kind.fit(standard, tuned.smoothness), smoothness=tuned.smoothness)


def _tuned_kalman(predictor: SmoothPolicy, demos: Demonstrations, roughness: float) -> float:
    """Choose the most accurate filter that is at least as smooth as wanted, or else the smoothest."""
    predicted = score(predictor, demos)
    tried = []
    for ratio in RATIOS:
        found = _kalman_score(predicted, demos, predictor, ratio)
        tried.append((found.mse, measures.roughness(found.rolled, demos), ratio))
    smooth = [t for t in tried if t[1] <= roughness]
    return min(smooth)[2] if smooth else min(tried, key=lambda t: t[1])[2]


def _kalman_score(predicted: Score, demos: Demonstrations, predictor: SmoothPolicy, ratio: float) -> Score:
    kalman = Kalman(ratio**-0.5)
    filtered = [
        np.concatenate([a[:WARM_UP], kalman.run(z[WARM_UP:], a[:WARM_UP])])
        for z, a in zip(predicted.rolled, demos.actions, strict=True)
    ]
    return score_of(filtered, demos, predictor.units.scale)


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


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
