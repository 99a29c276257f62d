"""Figures 4 and 5: sigma, how much of the learner's own trajectory stays in the targets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simile.experiments.lab import SMOOTH, Lab, RolloutScore, score_of
from simile.experiments.results import Claim
from simile.experiments.statistics import Effect, Row, by_seed, per_seed, ratios
from simile.experiments.traces import trace
from simile.learning.feedback import ExpertFeedback, SmoothFeedback, by_distance, constant
from simile.learning.rounds import Round
from simile.learning.step_sizes import Constant

SIGMAS = (0.0, 0.2, 0.5, 0.8, 0.95)
LOW, LITTLE_OF_IT, HIGH = 0.0, 0.2, 0.8  # what is compared
SHOWN = (0.0, 0.5, 0.95)
SCHEDULE, EXPERT, DISTANCE = "schedule", "expert (sigma = 0)", "by distance"
EARLY = 3  # rounds, of "early iterations"


def measure_one_round(lab: Lab) -> list[Row]:
    """Take one round from the cloned policy with each sigma, and look at the targets and at what learns from them."""
    rows = []
    for sigma in SIGMAS:
        before, turn = _one_round(lab, sigma)
        scale = turn.trained.units.scale
        # The paper calls a target smooth that is close to what the learner did one frame before.
        steps = [np.abs(t[1:] - a[:-1]) / scale for t, a in zip(turn.targets, before.rolled, strict=True)]
        rows.append(
            {
                "seed": lab.seed,
                "sigma": sigma,
                "target_step": float(np.mean(np.concatenate(steps))),
                **_named("target", score_of(turn.targets, lab.train, scale)),
                **_named("train", lab.score(turn.trained, train=True)),
                **_named("test", lab.score(turn.trained)),
            }
        )
    return rows


def _compare(rows: Sequence[Row], column: str, low: float = LOW) -> tuple[float, ...]:
    return ratios(*(per_seed(rows, column, sigma=s) for s in (HIGH, low)))


def judge_targets(rows: Sequence[Row]) -> list[Effect]:
    """Compare the targets of a high sigma with those of a low one."""
    text = f"sigma = {HIGH:g} / sigma = {LOW:g}"
    return [
        Effect(f"mean |target - action one frame before|, {text}", _compare(rows, "target_step"), below=1.0),
        Effect(f"mean |first difference| of the targets, {text}", _compare(rows, "target_difference_1"), below=1.0),
        Effect(f"mean |second difference| of the targets, {text}", _compare(rows, "target_difference_2")),
        Effect(
            f"MSE of the targets, sigma = {HIGH:g} / sigma = {LITTLE_OF_IT:g}: arithmetic",
            _compare(rows, "target_mse", LITTLE_OF_IT),
        ),
    ]


def judge_trade_off(rows: Sequence[Row]) -> list[Effect]:
    """Compare what learns from a high sigma with what learns from a low one."""
    text = f"sigma = {HIGH:g} / sigma = {LOW:g}"
    return [
        Effect(f"mean |first difference| of the policy, {text}", _compare(rows, "train_difference_1"), below=1.0),
        Effect(f"MSE of the policy, {text}", _compare(rows, "train_mse"), above=1.0),
        Effect(f"mean |second difference| of the policy, {text}", _compare(rows, "train_difference_2")),
        Effect(f"held-out mean |first difference| of the policy, {text}", _compare(rows, "test_difference_1")),
        Effect(f"held-out MSE of the policy, {text}", _compare(rows, "test_mse")),
    ]


def show_targets(lab: Lab) -> list[Row]:
    """Show the targets of the first training sequence."""
    before = _one_round(lab, LOW)[0]
    curves = {"initial policy": before.rolled[0]}
    curves |= {f"sigma = {sigma:g}": _one_round(lab, sigma)[1].targets[0] for sigma in SHOWN[1:]}
    return trace(lab, curves, train=True)


def show_one_round(lab: Lab) -> list[Row]:
    """Roll out the cloned policy, and what one round makes of it."""
    curves = {"initial policy": lab.score(lab.run("clone").policy).rolled[0]}
    curves |= {f"sigma = {sigma:g}": lab.score(_one_round(lab, sigma)[1].trained).rolled[0] for sigma in SHOWN}
    return trace(lab, curves)


def measure_feedback(lab: Lab) -> list[Row]:
    """Run with each feedback and follow both the policy and the newly trained one over the rounds."""
    feedbacks = {SCHEDULE: lab.preset["feedback"], EXPERT: ExpertFeedback(), DISTANCE: SmoothFeedback(by_distance())}
    return [
        {
            "seed": lab.seed,
            "feedback": name,
            "round": r.number,
            "sigma": 0.0 if name == EXPERT else r.sigma,
            "refused": int(r.diverged),
            "train_mse": r.error,
            **_named("test", lab.score(r.policy)),
            **_named("trained", lab.score(r.trained, train=True)),
        }
        for name, feedback in feedbacks.items()
        for r in lab.run(feedback=feedback).rounds
    ]


def judge_feedback(rows: Sequence[Row]) -> list[Effect]:
    """Compare the policies that are trained early on, all of them with the expert, and the last ones."""
    last = max(row["round"] for row in rows)
    learned = [row for row in rows if row["round"] >= 1]
    early = [row for row in learned if row["round"] <= EARLY]

    def at_first(column: str) -> tuple[float, ...]:
        return ratios(*(per_seed(early, column, feedback=f) for f in (SCHEDULE, EXPERT)))

    def at_last(column: str, other: str) -> tuple[float, ...]:
        return ratios(*(per_seed(rows, column, feedback=f, round=last) for f in (SCHEDULE, other)))

    def worst(feedback: str) -> dict[int, float]:
        return {s: max(v) for s, v in by_seed(learned, "trained_difference_1", feedback=feedback).items()}

    first = f"newly trained policies of rounds 1 to {EARLY}, schedule / expert's actions"
    roughest = "mean |first difference| of the roughest policy trained with the {} / the expert's"
    return [
        Effect(f"mean |first difference| of the {first}", at_first("trained_difference_1"), below=1.0),
        Effect(
            "mean |first difference| of the roughest policy trained, schedule / expert's actions",
            ratios(worst(SCHEDULE), worst(EXPERT)),
            below=1.0,
        ),
        Effect(roughest.format("schedule"), tuple(worst(SCHEDULE).values()), below=SMOOTH),
        Effect(roughest.format("expert's actions"), tuple(worst(EXPERT).values())),
        Effect(f"mean |second difference| of the {first}", at_first("trained_difference_2")),
        Effect(f"MSE of the {first}", at_first("trained_mse")),
        *(
            Effect(f"held-out RMSE after round {last}, schedule / {other}", at_last("test_rmse", other))
            for other in (EXPERT, DISTANCE)
        ),
        Effect(
            f"held-out mean |second difference| after round {last}, schedule / expert's actions",
            at_last("test_difference_2", EXPERT),
        ),
    ]


def _one_round(lab: Lab, sigma: float) -> tuple[Round, Round]:
    before, turn = lab.run(n_rounds=1, step_size=Constant(1.0), feedback=SmoothFeedback(constant(sigma))).rounds
    return before, turn


def _named(prefix: str, found: RolloutScore) -> Row:
    return {f"{prefix}_mse": found.error, **found.columns(f"{prefix}_")}


TARGETS = Claim(
    name="sigma-targets",
    title="Larger sigma, smoother targets",
    statement="Larger sigma corresponds to smoother (closer to the action one frame before) but less accurate target "
    "(further from the expert's), as seen in Figure 4.",
    section="Figure 4; Section 6",
    method=f"The targets of one round from the cloned policy, with sigma = {HIGH:g} and {LOW:g}: how far they are from "
    "what the learner did one frame before, and their own first difference. That they are less accurate is arithmetic.",
    measure=measure_one_round,
    judge=judge_targets,
    trace=show_targets,
)
TRADE_OFF = Claim(
    name="sigma-trade-off",
    title="The smoothness-imitation trade-off over sigma",
    statement="Figure 5 shows the trade-off between smoothness loss (measured by first order difference) and imitation "
    "loss (measured by mean squared distance) for varying sigma. [...] setting smooth targets (Figure 4b) allows "
    "learning a smooth policy in the subsequent round, in contrast to more accurate but less stable performance of "
    "difficult targets with low sigma (Figure 4c-d).",
    section="Figures 4 and 5; Section 6",
    method="One round from the cloned policy with each sigma; the policy trained in it is rolled out by itself over "
    f"the training sequences. Compared are sigma = {HIGH:g} and {LOW:g}.",
    measure=measure_one_round,
    judge=judge_trade_off,
    trace=show_one_round,
)
FEEDBACK = Claim(
    name="smooth-feedback",
    title="Smooth feedback against the expert's own actions",
    statement="Using smooth feedback ensures stable learning of smooth policies at each iteration. [...] This gradual "
    "increase produces more stable policies, especially during early iterations where the learning policy tends to "
    "perform poorly.",
    section="Section 6, summary of results",
    method="Whole runs with the schedule of sigma, with the expert's actions as feedback (sigma = 0), and with sigma "
    f"by distance. More stable means that the policies trained in rounds 1 to {EARLY}, rolled out by themselves over "
    "the training sequences, have a smaller first difference than those trained on the expert's actions; smooth at "
    "each iteration means that the roughest of all rounds is smoother than theirs, which sigma = 0 cannot be, "
    f"and has no more than {SMOOTH:g} times the expert's.",
    measure=measure_feedback,
    judge=judge_feedback,
)
