"""Figure 7, Lemma 5.2 and what follows it: deterministic against stochastic interpolation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simile.experiments.lab import LITTLE, WARM_UP, Lab, RolloutScore
from simile.experiments.results import Claim
from simile.experiments.statistics import Effect, Row, by_seed, exponent, per_seed, ratios
from simile.learning.rounds import Round
from simile.learning.step_sizes import Constant
from simile.policies.policies import Mixture, StochasticMixture

DETERMINISTIC, STOCHASTIC = "deterministic", "stochastic"
BY_CHANCE = 2.0  # times what chance explains, from which on a distance is more than chance
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # of a sequence


def measure(lab: Lab) -> list[Row]:
    """Mix the same policies with the same weights in both ways, after several rounds."""
    rows = []
    for turn, certain, sampled in _mixed(lab):
        gap, noise = _gap(certain, sampled, lab)
        rows += [
            {"seed": lab.seed, "round": turn.number, "mixing": name, "mse": s.error, **s.columns(), **extra}
            for name, s, extra in (
                (DETERMINISTIC, certain, {"gap": 0.0, "noise": 0.0}),
                (STOCHASTIC, sampled, {"gap": gap, "noise": noise}),
            )
        ]
    return rows


def judge(rows: Sequence[Row]) -> list[Effect]:
    """Compare error and smoothness over the rounds."""

    def compared(column: str) -> tuple[float, ...]:
        return ratios(*(per_seed(rows, column, mixing=m) for m in (STOCHASTIC, DETERMINISTIC)))

    return [
        Effect("MSE, stochastic / deterministic, mean over rounds", compared("mse"), above=1.0),
        Effect("mean |first difference|, stochastic / deterministic", compared("difference_1")),
        Effect("mean |second difference|, stochastic / deterministic", compared("difference_2")),
    ]


def judge_mean(rows: Sequence[Row]) -> list[Effect]:
    """Compare the distance of the means with what chance explains."""
    apart = ratios(*(per_seed(rows, column, mixing=STOCHASTIC) for column in ("gap", "noise")))
    return [
        Effect(
            "mean stochastic roll-out from the deterministic one, distance / what chance explains",
            apart,
            below=BY_CHANCE,
        )
    ]


def measure_rollouts(lab: Lab) -> list[Row]:
    """Count the roll-outs whose mean is within a tenth of the error of its expectation, for longer and longer T."""
    _, certain, sampled = _mixed(lab)[-1]
    n, deviation = len(lab.test), np.concatenate(lab.train.actions).std(axis=0)
    drawn = [np.stack(sampled.rolled[i::n]) for i in range(n)]  # (roll-outs, T, k) of each sequence
    spread = [(d.var(axis=0, ddof=1) / deviation**2).mean(axis=1)[WARM_UP:] for d in drawn]
    longest = min(len(s) for s in spread)
    rows = []
    for share in SHARES:
        frames = max(round(share * longest), 1)
        variance = float(np.mean([s[:frames].mean() for s in spread]))
        needed = variance / ((LITTLE - 1.0) * certain.rmse) ** 2
        rows.append({"seed": lab.seed, "frames": frames, "needed": needed})
    return rows


def judge_rollouts(rows: Sequence[Row]) -> list[Effect]:
    """Fit the exponent of the needed roll-outs in T."""
    sizes, needed = by_seed(rows, "frames").values(), by_seed(rows, "needed").values()
    powers = tuple(exponent(t, n) for t, n in zip(sizes, needed, strict=True))
    return [
        Effect("exponent of the roll-outs needed in T", powers, "value", above=0.0),
        Effect("roll-outs needed over a whole sequence", tuple(n[-1] for n in needed), above=1.0),
    ]


def _mixed(lab: Lab) -> list[tuple[Round, RolloutScore, RolloutScore]]:
    """Roll out the deterministic and the stochastic mixture of some rounds, and of the last."""

    def mix(turn: Round) -> tuple[Round, RolloutScore, RolloutScore]:
        mixed = turn.policy  # a single policy where every step so far was refused
        parts = (mixed.components, mixed.weights) if isinstance(mixed, Mixture) else ((mixed,), (1.0,))
        return turn, lab.score(mixed), lab.score(StochasticMixture(*parts), times=lab.effort.n_rollouts)

    rounds = lab.run(step_size=Constant(0.5)).rounds
    last = len(rounds) - 1
    chosen = sorted({1, min(2, last), max(last // 2, 1), last})
    return lab.once("mixed", lambda: [mix(rounds[n]) for n in chosen])


def _gap(certain: RolloutScore, sampled: RolloutScore, lab: Lab) -> tuple[float, float]:
    """Measure how far the mean stochastic roll-out is from the deterministic one, and how far chance would bring it."""
    times, n = lab.effort.n_rollouts, len(lab.test)
    drawn = np.stack([np.concatenate(sampled.rolled[i * n : (i + 1) * n]) for i in range(times)])
    scale = np.concatenate(lab.train.actions).std(axis=0)
    apart = (drawn.mean(axis=0) - np.concatenate(certain.rolled)) / scale
    spread = drawn.var(axis=0, ddof=1) / scale**2 / times
    return float(np.sqrt(np.mean(apart**2))), float(np.sqrt(np.mean(spread)))


CLAIM = Claim(
    name="deterministic",
    title="Deterministic against stochastic interpolation",
    statement="Deterministic policy interpolation performs better than stochastic interpolation used in SEARN. [...] "
    "This average stochastic policy error tends to be higher compared to the empirical error of the deterministic "
    "trajectory.",
    section="Figure 7; Corollary 5.3; Section 6",
    method="beta = 0.5 and the data of each round the same for both, as in the paper: after rounds 1, 2, half of them "
    "and all, the same policies are mixed with the same weights in both ways, and rolled out over held-out sequences, "
    "the stochastic policy many times (50 at full size).",
    measure=measure,
    judge=judge,
)
MEAN = Claim(
    name="same-mean",
    title="The mean of stochastic roll-outs is the deterministic one",
    statement="Assuming the policies are stable as per Condition 1, we have E[a~_t] = a_t for all t, where the "
    "expectation is taken over all random roll-outs of the stochastic policy.",
    section="Lemma 5.2",
    method="The same roll-outs: the root mean squared distance of the mean stochastic roll-out from the deterministic "
    f"one, over what chance explains with so many of them. At most {BY_CHANCE:g} is no more than chance. The lemma "
    "needs affine policies, for which a test asserts it; trees are none.",
    measure=measure,
    judge=judge_mean,
)
ROLLOUTS = Claim(
    name="many-rollouts",
    title="Stochastic roll-outs that are needed as T grows",
    statement="The number of stochastic roll-outs to average to the deterministic trajectory is polynomial in the time "
    "horizon T, leading to much higher computational complexity.",
    section="Section 5.2, after Lemma 5.2",
    method="How many roll-outs of the last stochastic mixture have a mean that is, root mean squared over the first T "
    "frames, within a tenth of the deterministic policy's RMSE of its expectation: their variance tells. The claim "
    "holds where more than one is needed over a whole sequence and their number grows with T, as T^p with p above 0.",
    measure=measure_rollouts,
    judge=judge_rollouts,
)
