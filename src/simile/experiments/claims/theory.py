"""Section 5: whether its conditions hold, and its guarantees say something, for the policies of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simile.evaluation.diagnostics import diagnose
from simile.experiments.lab import Lab
from simile.experiments.results import Claim
from simile.experiments.statistics import Effect, Row, by_seed
from simile.learning import theory

MOST = 0.5  # of the rounds


def measure(lab: Lab) -> list[Row]:
    """Measure the quantities of Section 5 after an early, a middle and the last round."""
    rounds = lab.run().rounds
    last = len(rounds) - 1
    rows = []
    for turn in (rounds[n] for n in sorted({1, (last + 1) // 2, last})):
        found = diagnose(turn.policy, lab.train)
        feasible = theory.feasible_gap(found.fit_error, found.roughness_budget, lab.preset["smoothness"])
        rows.append(
            {
                "seed": lab.seed,
                "round": turn.number,
                "gamma": found.gamma,
                "gamma_known": int(found.gamma_known),
                "radius": found.radius,
                "better": int(found.advantage > 0.0),
                "guaranteed": int(found.drift < found.advantage),
                "gap": found.expert_gap / feasible,
            }
        )
    return rows


def judge_stability(rows: Sequence[Row]) -> list[Effect]:
    """Compare the largest Lipschitz constant with 1; a lower bound below 1 says nothing."""
    both = zip(_largest(rows, "gamma"), by_seed(rows, "gamma_known").values(), strict=True)
    gammas = tuple(gamma if gamma > 1.0 or all(known) else math.nan for gamma, known in both)
    return [
        Effect("largest gamma found (Condition 1 asks for 1, Condition 2 for less)", gammas, below=1.0),
        Effect("largest spectral radius of the closed loop of h", _largest(rows, "radius")),
    ]


def judge_improvement(rows: Sequence[Row]) -> list[Effect]:
    """Count the rounds with a better policy, and those in which a step is guaranteed to improve."""
    shares = {c: tuple(sum(v) / len(v) for v in by_seed(rows, c).values()) for c in ("better", "guaranteed")}
    return [
        Effect("share of rounds whose trained policy is better in the states of the one before", shares["better"],
               "value", above=MOST),
        Effect("share of rounds in which Corollary 5.7 guarantees a step", shares["guaranteed"], "value", above=MOST),
    ]  # fmt: skip


def judge_feasibility(rows: Sequence[Row]) -> list[Effect]:
    """Compare the gap to the expert with the one from which on Proposition 5.8 speaks."""
    return [Effect("largest average gap to the expert / that of Proposition 5.8", _largest(rows, "gap"), above=1.0)]


def _largest(rows: Sequence[Row], column: str) -> tuple[float, ...]:
    return tuple(max(values) for values in by_seed(rows, column).values())


STABILITY = Claim(
    name="stability",
    title="The stability conditions",
    statement="The actions of a policy in states [x, a] and [x, a'] satisfy ||pi(s) - pi(s')|| <= ||a - a'|| "
    "(Condition 1), and it is gamma-Lipschitz in a with gamma < 1 (Condition 2).",
    section="Conditions 1 and 2; assumed by Lemma 5.2 to Corollary 5.7",
    method="The largest change of the action over the largest change of one of the past actions, the norm in which the "
    "proofs go from step to step, in states of the training roll-outs after an early, a middle and the last round "
    "(`simile.diagnose`). Where f reads past actions it is a lower bound of gamma: a number above 1 is a violation, "
    "and one below 1 would decide nothing. Where a condition is violated, the results of Section 5 that assume it "
    "promise nothing for these policies.",
    measure=measure,
    judge=judge_stability,
)
IMPROVEMENT = Claim(
    name="improvement",
    title="Guaranteed policy improvement",
    statement="Monotonic policy improvement can be guaranteed for appropriate choice of beta, as seen from Corollary "
    "5.7. [...] if the policy trained on d_pi significantly improves on [the loss of pi]. We observe empirically that "
    "this often happens, especially in early iterations of training.",
    section="Theorems 5.5 and 5.6, Corollary 5.7",
    method="The same rounds: in most of them the trained policy must be better in the states of the one before (Delta "
    "> 0), and the guarantee must say something (delta < Delta, which needs a gamma that is known to be below 1). That "
    "the bounds themselves hold, where their conditions do, is asserted by tests.",
    measure=measure,
    judge=judge_improvement,
)
FEASIBILITY = Claim(
    name="necessary-feedback",
    title="Smooth feedback is sometimes necessary",
    statement="If the average gap between pi and the expert is at least 3 omega + eta (1 + lambda), then using the "
    "expert's actions as feedback will cause the trained policy to be non-smooth. [...] Smooth feedback is sometimes "
    "necessary.",
    section="Proposition 5.8",
    method="The average gap after an early, a middle and the last round, over the one from which on the proposition "
    "speaks, eta being the expert's own mean first difference. Above 1 in some round, it would be necessary there.",
    measure=measure,
    judge=judge_feasibility,
)
