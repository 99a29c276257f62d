"""Figures 3 and 4: sigma, how much of the learner's own trajectory stays in the targets."""

from __future__ import annotations

from collections.abc import Sequence

from simile.experiments.lab import Lab, RolloutScore, score, score_of
from simile.experiments.results import Claim
from simile.experiments.statistics import Effect, Row, per_seed, ratios
from simile.experiments.traces import trace
from simile.learning.feedback import ExpertFeedback, Feedback, SmoothFeedback, by_distance, constant, exponential
from simile.learning.rounds import Round
from simile.learning.step_sizes import Constant

SIGMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.95)
LOW, HIGH = 0.0, 0.8  # what is compared
SHOWN = (0.0, 0.6, 0.95)
SCHEDULE, EXPERT = "schedule", "expert (sigma = 0)"
FEEDBACKS: dict[str, Feedback] = {
    SCHEDULE: SmoothFeedback(exponential()),
    EXPERT: ExpertFeedback(),
    "sigma = 0.2": SmoothFeedback(constant(0.2)),
    "sigma = 0.5": SmoothFeedback(constant(0.5)),
    "sigma = 0.8": SmoothFeedback(constant(0.8)),
    "by distance": SmoothFeedback(by_distance()),
}
EARLY = 3  # rounds, of "early iterations"
SMOOTH = 2.0  # a policy is smooth whose mean |first difference| is at most so many times the expert's


def measure_one_round(lab: Lab) -> list[Row]:
    """Take one round from the cloned policy with each sigma, and look at the targets and at what learns from them."""
    rows = []
    for sigma in SIGMAS:
        turn = _one_round(lab, sigma)
        targets = score_of(turn.targets, lab.train, turn.trained.units.scale)
        rows.append(
            {
                "seed": lab.seed,
                "sigma": sigma,
                **_named("target", targets),
                **_named("train", score(turn.trained, lab.train)),
                **_named("test", lab.score(turn.trained)),
            }
        )
    return rows


def judge_trade_off(rows: Sequence[Row]) -> list[Effect]:
    """Compare a high sigma with a low one."""

    def high_over_low(column: str) -> tuple[float, ...]:
        return ratios(*(per_seed(rows, column, sigma=s) for s in (HIGH, LOW)))

    text = f"sigma = {HIGH:g} / sigma = {LOW:g}"
    return [
        Effect(f"mean |first difference| of the policy, {text}", high_over_low("train_difference_1"), below=1.0),
        Effect(f"MSE of the policy, {text}", high_over_low("train_mse"), above=1.0),
        Effect(f"mean |second difference| of the policy, {text}", high_over_low("train_difference_2")),
        Effect(f"held-out mean |first difference| of the policy, {text}", high_over_low("test_difference_1")),
        Effect(f"held-out MSE of the policy, {text}", high_over_low("test_mse")),
        Effect(f"mean |first difference| of the targets, {text}", high_over_low("target_difference_1")),
    ]


def show_one_round(lab: Lab) -> list[Row]:
    """Roll out the cloned policy, and what one round makes of it."""
    curves = {"initial policy": lab.score(lab.run("clone").policy).rolled[0]}
    for sigma in SHOWN:
        curves[f"sigma = {sigma:g}"] = lab.score(_one_round(lab, sigma).trained).rolled[0]
    return trace(lab, curves)


def measure_feedback(lab: Lab) -> list[Row]:
    """Run with each feedback and follow both the policy and the newly trained one over the rounds."""
    rows = []
    for name, feedback in FEEDBACKS.items():
        for r in lab.run(feedback=feedback).rounds:
            trained = score(r.trained, lab.train)
            rows.append(
                {
                    "seed": lab.seed,
                    "feedback": name,
                    "round": r.number,
                    "sigma": 0.0 if feedback == FEEDBACKS[EXPERT] else r.sigma,
                    "refused": int(r.diverged),
                    "train_mse": r.error,
                    **_named("test", lab.score(r.policy)),
                    **_named("trained", trained),
                }
            )
    return rows


def judge_feedback(rows: Sequence[Row]) -> list[Effect]:
    """Compare the policies that are trained early on, and the last ones."""
    last = max(row["round"] for row in rows)
    early = [row for row in rows if 1 <= row["round"] <= EARLY]
    worst = {
        seed: max(row["trained_difference_1"] for row in rows if row["seed"] == seed and row["feedback"] == SCHEDULE)
        for seed in dict.fromkeys(row["seed"] for row in rows)
    }

    def at_first(column: str) -> tuple[float, ...]:
        return ratios(*(per_seed(early, column, feedback=f) for f in (SCHEDULE, EXPERT)))

    def at_last(column: str, other: str) -> tuple[float, ...]:
        return ratios(*(per_seed(rows, column, feedback=f, round=last) for f in (SCHEDULE, other)))

    first = f"newly trained policies of rounds 1 to {EARLY}, schedule / expert's actions"
    return [
        Effect(f"mean |first difference| of the {first}", at_first("trained_difference_1"), below=1.0),
        Effect(
            "mean |first difference| of the roughest policy trained with the schedule / the expert's",
            tuple(worst.values()),
            below=SMOOTH,
        ),
        Effect(f"mean |second difference| of the {first}", at_first("trained_difference_2")),
        Effect(f"MSE of the {first}", at_first("trained_mse")),
        *(
            Effect(f"held-out RMSE after round {last}, schedule / {other}", at_last("test_rmse", other))
            for other in FEEDBACKS
            if other != SCHEDULE
        ),
        Effect(
            f"held-out mean |second difference| after round {last}, schedule / expert's actions",
            at_last("test_difference_2", EXPERT),
        ),
    ]


def _one_round(lab: Lab, sigma: float) -> Round:
    return lab.run(n_rounds=1, step_size=Constant(1.0), feedback=SmoothFeedback(constant(sigma))).rounds[1]


def _named(prefix: str, found: RolloutScore) -> Row:
    return {f"{prefix}_mse": found.error, **found.columns(f"{prefix}_")}


TRADE_OFF = Claim(
    name="sigma-trade-off",
    title="The smoothness-imitation trade-off over sigma",
    statement="Larger sigma corresponds to smoother but less accurate target, as seen in Figure 3. Figure 4 shows the "
    "trade-off between smoothness loss (measured by first order difference) and imitation loss (measured by mean "
    "squared distance) for varying sigma.",
    section="Section 6, smooth feedback generation",
    method="One round from the cloned policy with each sigma; the policy trained in it is rolled out by itself over "
    f"the training sequences. Compared are sigma = {HIGH:g} and {LOW:g}. That the targets are less accurate is "
    "arithmetic; the question is whether the policy is.",
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
    section="Section 6, summary of results and smooth feedback generation",
    method="Whole runs with the authors' schedule of sigma, with the expert's actions as feedback, and with sigma "
    f"held. More stable means that the policies trained in rounds 1 to {EARLY}, rolled out by themselves over the "
    "training sequences, have a smaller first difference than those trained on the expert's actions; smooth at each "
    f"iteration means that none has more than {SMOOTH:g} times the expert's.",
    measure=measure_feedback,
    judge=judge_feedback,
)
