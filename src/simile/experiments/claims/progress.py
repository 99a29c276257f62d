"""Figure 5 and Appendix B: what the rounds bring, and how many are needed."""

from __future__ import annotations

from collections.abc import Sequence

from simile.experiments.lab import Lab, score
from simile.experiments.results import Claim
from simile.experiments.statistics import Effect, Row, per_seed, ratios
from simile.experiments.traces import trace

SMOOTH = 2.0  # a policy is smooth whose mean |first difference| is at most so many times the expert's
LITTLE = 1.1  # what is left to gain after enough rounds: at most a tenth of the error


def measure_progress(lab: Lab) -> list[Row]:
    """Follow error and roughness over the rounds, on the training sequences and on held-out ones."""
    return [
        {
            "seed": lab.seed,
            "round": r.number,
            "beta": r.beta,
            "sigma": r.sigma,
            **score(r.policy, lab.train).columns("train_"),
            **lab.score(r.policy).columns("test_"),
        }
        for r in lab.run().rounds
    ]


def judge_progress(rows: Sequence[Row]) -> list[Effect]:
    """Compare the last round with round 0, and the roughest round with the expert."""
    last = max(row["round"] for row in rows)

    def gained(column: str) -> tuple[float, ...]:
        return ratios(*(per_seed(rows, column, round=n) for n in (last, 0)))

    def worst(column: str) -> tuple[float, ...]:
        return tuple(
            max(row[column] for row in rows if row["seed"] == s) for s in dict.fromkeys(row["seed"] for row in rows)
        )

    return [
        Effect(
            "held-out mean |first difference| of the roughest round / the expert's",
            worst("test_difference_1"),
            below=SMOOTH,
        ),
        Effect(f"held-out RMSE, round {last} / round 0", gained("test_rmse"), below=1.0),
        Effect(f"training RMSE, round {last} / round 0", gained("train_rmse")),
        Effect("held-out mean |second difference| of the roughest round / the expert's", worst("test_difference_2")),
        Effect(f"held-out mean |second difference|, round {last} / round 0", gained("test_difference_2")),
    ]


def show_progress(lab: Lab) -> list[Row]:
    """Roll out intermediate policies over one held-out sequence."""
    rounds = lab.run().rounds
    chosen = dict.fromkeys((0, 1, len(rounds) // 2, len(rounds) - 1))
    return trace(lab, {f"round {n}": lab.score(rounds[n].policy).rolled[0] for n in chosen})


def measure_rounds(lab: Lab) -> list[Row]:
    """Make runs of half, all and twice the rounds; each has its own schedule of sigma, so none is part of another."""
    rows = []
    for label, n_rounds in _lengths(lab.effort.n_rounds).items():
        training = lab.run(n_rounds=n_rounds)
        rows.append(
            {
                "seed": lab.seed,
                "length": label,
                "n_rounds": n_rounds,
                **score(training.policy, lab.train).columns("train_"),
                **lab.score(training.policy).columns("test_"),
                "hold_last_rmse": lab.hold_last().rmse,
            }
        )
    return rows


def judge_rounds(rows: Sequence[Row]) -> list[Effect]:
    """Measure what is left to gain."""
    n = {row["length"]: row["n_rounds"] for row in rows}

    def left(column: str, less: str, more: str) -> tuple[float, ...]:
        return ratios(*(per_seed(rows, column, length=length) for length in (less, more)))

    held_out, training = "held-out RMSE, {} rounds / {} rounds", "training RMSE, {} rounds / {} rounds"
    return [
        Effect(held_out.format(n["usual"], n["double"]), left("test_rmse", "usual", "double"), below=LITTLE),
        Effect(held_out.format(n["half"], n["usual"]), left("test_rmse", "half", "usual")),
        Effect(training.format(n["usual"], n["double"]), left("train_rmse", "usual", "double")),
        Effect(training.format(n["half"], n["usual"]), left("train_rmse", "half", "usual")),
        Effect(
            f"held-out RMSE, {n['half']} rounds / holding the last action",
            ratios(per_seed(rows, "test_rmse", length="half"), per_seed(rows, "hold_last_rmse", length="half")),
        ),
    ]


def _lengths(n_rounds: int) -> dict[str, int]:
    return {"half": max(n_rounds // 2, 1), "usual": n_rounds, "double": 2 * n_rounds}


PROGRESS = Claim(
    name="progress",
    title="Learning progress over the rounds",
    statement="Figure 5 visualizes the behavior of the intermediate policies learned by SIMILE, where we can see that "
    "each intermediate policy is a smooth policy. [...] the recurrent decision tree framework learns increasingly "
    "accurate imitation policy.",
    section="Section 6, smooth feedback generation; Appendix B",
    method="The policy of every round, rolled out over training and held-out sequences. Smooth means a mean |first "
    f"difference| (the measure of Proposition 5.8) of at most {SMOOTH:g} times the expert's, in the roughest round; "
    "increasingly accurate means that the last round beats round 0, plain supervised learning, on held-out sequences.",
    measure=measure_progress,
    judge=judge_progress,
    trace=show_progress,
)
ROUNDS = Claim(
    name="few-rounds",
    title="How many rounds are enough",
    statement="We generally achieve a satisfactory policy after 5-10 iterations in our sport broadcasting data sets.",
    section="Appendix B",
    method="Runs of half as many rounds, as many and twice as many; at full size 5, 10 and 20. Satisfactory means that "
    f"twice the rounds would take away less than a tenth of the error ({LITTLE:g}).",
    measure=measure_rounds,
    judge=judge_rounds,
)
