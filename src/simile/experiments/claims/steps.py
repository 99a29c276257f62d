"""Figure 3: the adaptive step of Eq. 8 against fixed ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from simile.experiments.lab import Lab
from simile.experiments.results import Claim
from simile.experiments.statistics import Effect, Row, by_seed, per_seed, ratios
from simile.learning.step_sizes import Constant, ErrorRatio, OneOverHorizon

ADAPTIVE, SMALL, HALF, LARGE, SEARN = "Eq. 8", "0.1", "0.5", "0.9", "1/T"
RULES = {
    ADAPTIVE: ErrorRatio(),
    SMALL: Constant(0.1),
    HALF: Constant(0.5),
    LARGE: Constant(0.9),
    SEARN: OneOverHorizon(),
}
A_FEW = 2  # rounds, of "after a few initial improvements"


def measure(lab: Lab) -> list[Row]:
    """Run with every rule and follow the error over the rounds."""
    return [
        {
            "seed": lab.seed,
            "step": name,
            "round": r.number,
            "beta": r.beta,
            "train_mse": r.error,
            "test_mse": lab.score(r.policy).error,
        }
        for name, rule in RULES.items()
        for r in lab.run(step_size=rule).rounds
    ]


def judge_speed(rows: Sequence[Row]) -> list[Effect]:
    """Compare training errors over all rounds after the first, and at the end; say how far beta moves."""
    last = max(row["round"] for row in rows)
    learned = [row for row in rows if row["round"] > 0]
    betas = by_seed(learned, "beta", step=ADAPTIVE).values()

    def over_rounds(step: str) -> tuple[float, ...]:
        return ratios(*(per_seed(learned, "train_mse", step=s) for s in (ADAPTIVE, step)))

    def at_the_end(column: str, step: str) -> tuple[float, ...]:
        return ratios(*(per_seed(rows, column, step=s, round=last) for s in (ADAPTIVE, step)))

    whole, others = f"training MSE, mean over rounds 1 to {last}", (SMALL, SEARN, HALF, LARGE)
    return [
        Effect(f"{whole}, Eq. 8 / beta = 0.1", over_rounds(SMALL), below=1.0),
        Effect(f"{whole}, Eq. 8 / beta = 1/T", over_rounds(SEARN), below=1.0),
        Effect(f"{whole}, Eq. 8 / beta = 0.5", over_rounds(HALF)),
        Effect(f"{whole}, Eq. 8 / beta = 0.9", over_rounds(LARGE)),
        Effect("smallest beta that Eq. 8 chose", tuple(min(b) for b in betas), "value"),
        Effect("largest beta that Eq. 8 chose", tuple(max(b) for b in betas), "value"),
        *(Effect(f"held-out MSE after round {last}, Eq. 8 / beta = {s}", at_the_end("test_mse", s)) for s in others),
    ]


def judge_overshoot(rows: Sequence[Row]) -> list[Effect]:
    """Compare a large step with Eq. 8 over the rounds, and count the rounds that make the policy worse."""
    last = max(row["round"] for row in rows)
    early = min(A_FEW, last)

    def against(number: int) -> tuple[float, ...]:
        return ratios(*(per_seed(rows, "train_mse", step=s, round=number) for s in (LARGE, ADAPTIVE)))

    def rising(step: str) -> tuple[float, ...]:
        errors = by_seed(rows, "train_mse", step=step).values()  # in the order of the rounds
        return tuple(float(sum(after > before for before, after in pairwise(e[early:]))) for e in errors)

    large, adaptive = rising(LARGE), rising(ADAPTIVE)
    more = tuple(a - b for a, b in zip(large, adaptive, strict=True))
    between = sorted({early, (early + last) // 2} - {last})
    return [
        Effect(f"training MSE after round {last}, beta = 0.9 / Eq. 8", against(last), above=1.0),
        Effect(f"rounds after the first {early} that raise the training MSE, beta = 0.9", large, "value", above=0.0),
        Effect("the same, beta = 0.9 less Eq. 8", more, "value"),
        Effect("the same, Eq. 8", adaptive, "value"),
        *(Effect(f"training MSE after round {n}, beta = 0.9 / Eq. 8", against(n)) for n in between),
        Effect(
            f"beta = 0.9: training MSE after round {last} / after round {early}",
            ratios(*(per_seed(rows, "train_mse", step=LARGE, round=n) for n in (last, early))),
        ),
    ]


SPEED = Claim(
    name="adaptive-step",
    title="Adaptive against fixed beta",
    statement="Figure 3 compares the convergence rate of SIMILE using adaptive beta versus conservative fixed values "
    "of beta commonly used in SEARN. We see that adaptively choosing beta enjoys substantially faster convergence.",
    section="Figure 3; Equation 8; Section 6",
    method="The same runs with other steps. A run that converges faster has a smaller error on the way, so the "
    "training error is averaged over all rounds (geometrically). The conservative values are 0.1 and 1/T, the largest "
    "that SEARN's guarantee allows; 0.5 and 0.9 stand beside them and decide nothing. How adaptive Eq. 8 is can be "
    "read from the range in which its beta stays.",
    measure=measure,
    judge=judge_speed,
)
OVERSHOOT = Claim(
    name="large-step",
    title="A large fixed beta may overshoot",
    statement="Note that very large fixed beta may overshoot and worsen the combined policy after a few initial "
    "improvements.",
    section="Figure 3; Section 6",
    method="The run with beta = 0.9 against that with Eq. 8: whether it ends with a larger training error, and "
    f"whether, after its first {A_FEW} rounds, there are rounds that make the policy worse. (Its own smallest "
    "error would be no fair measure: every sequence is at least as large at its end as at its minimum.)",
    measure=measure,
    judge=judge_overshoot,
)
