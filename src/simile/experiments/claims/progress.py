"""Figure 6, the abstract and Appendix B: what the rounds bring, whether they settle, and how many are needed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from simile._common.typing import FloatArray
from simile.data.recorded import Units
from simile.data.states import Horizon
from simile.experiments.lab import LITTLE, SMOOTH, Lab
from simile.experiments.results import Claim
from simile.experiments.statistics import Effect, Row, by_seed, divide, per_seed, ratios
from simile.experiments.traces import trace


def measure_progress(lab: Lab) -> list[Row]:
    """Follow error and roughness over the rounds, on the training sequences and on held-out ones."""
    return [
        {
            "seed": lab.seed,
            "round": r.number,
            "beta": r.beta,
            "sigma": r.sigma,
            **lab.score(r.policy, train=True).columns("train_"),
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
        return tuple(max(values) for values in by_seed(rows, column).values())

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


def judge_convergence(rows: Sequence[Row]) -> list[Effect]:
    """Compare the last round with the best and the first one, and every round with the one before."""
    last = max(row["round"] for row in rows)
    paths = list(by_seed(rows, "train_rmse").values())
    held_out = list(by_seed(rows, "test_rmse").values())
    rises = [[divide(after, before) for before, after in pairwise(path)] for path in paths]
    return [
        Effect(f"training RMSE, round {last} / round 0", tuple(divide(p[-1], p[0]) for p in paths), below=1.0),
        Effect(f"training RMSE, round {last} / best round", tuple(divide(p[-1], min(p)) for p in paths), below=LITTLE),
        Effect("largest rise of the training RMSE in one round", tuple(max(r) for r in rises), below=LITTLE),
        Effect("rounds that raise the training RMSE", tuple(float(sum(v > 1.0 for v in r)) for r in rises), "value"),
        Effect(f"held-out RMSE, round {last} / best round", tuple(divide(p[-1], min(p)) for p in held_out)),
    ]


def show_progress(lab: Lab) -> list[Row]:
    """Roll out intermediate policies over one held-out sequence."""
    rounds = lab.run().rounds
    chosen = dict.fromkeys((0, 1, len(rounds) // 2, len(rounds) - 1))
    return trace(lab, {f"round {n}": lab.score(rounds[n].policy).rolled[0] for n in chosen})


def measure_h(lab: Lab) -> list[Row]:
    """Follow what h predicts, on the expert's own past, from round to round."""
    expert = lab.train.standardize(Units.of(lab.train))
    rounds = lab.run().rounds
    history = Horizon(0, 0).states(expert, expert.actions).history(max(r.h.order for r in rounds))
    step = _root_mean_square(np.concatenate([np.diff(a, axis=0) for a in expert.actions]))
    said = [r.h(history[:, : r.h.order]) for r in rounds]
    return [
        {
            "seed": lab.seed,
            "round": n,
            "change": _root_mean_square(said[n] - said[n - 1]) / step,
            "to_last": _root_mean_square(said[n - 1] - said[-1]) / step,
        }
        for n in range(1, len(rounds))
    ]


def judge_h(rows: Sequence[Row]) -> list[Effect]:
    """Compare the last changes with the first ones, and the last with how far the expert moves in a frame."""
    last = max(row["round"] for row in rows)
    late, early = (per_seed([r for r in rows if r["round"] in n], "change") for n in ((last - 1, last), (1, 2)))
    final = tuple(per_seed(rows, "change", round=last).values())
    return [
        Effect("change of h, in the last two rounds / in the first two", ratios(late, early), below=1.0),
        Effect("change of h in the last round / what the expert moves in a frame", final, below=LITTLE - 1.0),
        Effect("change of h in the first round / the same", tuple(per_seed(rows, "change", round=1).values())),
    ]


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
                **lab.score(training.policy, train=True).columns("train_"),
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
    held = ratios(per_seed(rows, "test_rmse", length="half"), per_seed(rows, "hold_last_rmse", length="half"))
    return [
        Effect(held_out.format(n["usual"], n["double"]), left("test_rmse", "usual", "double"), below=LITTLE),
        Effect(f"held-out RMSE, {n['half']} rounds / holding the last action", held, below=1.0),
        Effect(held_out.format(n["half"], n["usual"]), left("test_rmse", "half", "usual")),
        Effect(training.format(n["usual"], n["double"]), left("train_rmse", "usual", "double")),
        Effect(training.format(n["half"], n["usual"]), left("train_rmse", "half", "usual")),
    ]


def _lengths(n_rounds: int) -> dict[str, int]:
    return {"half": max(n_rounds // 2, 1), "usual": n_rounds, "double": 2 * n_rounds}


def _root_mean_square(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))


PROGRESS = Claim(
    name="progress",
    title="Learning progress over the rounds",
    statement="Figure 6 visualizes the behavior of the intermediate policies learned by SIMILE, where we can see that "
    "each intermediate policy is a smooth policy. [...] the recurrent decision tree framework learns increasingly "
    "accurate imitation policy.",
    section="Figure 6; Section 6; Appendix B",
    method="The policy of every round, rolled out over training and held-out sequences. Smooth means a mean |first "
    f"difference| (the measure of Proposition 5.8) of at most {SMOOTH:g} times the expert's, in the roughest round; "
    "increasingly accurate means that the last round beats round 0, plain supervised learning, on held-out sequences.",
    measure=measure_progress,
    judge=judge_progress,
    trace=show_progress,
)
CONVERGENCE = Claim(
    name="stable-convergence",
    title="Stable convergence",
    statement="We present a learning meta-algorithm that achieves fast and stable convergence to a good policy. [...] "
    "the ability to ensure stable convergence.",
    section="Abstract; Section 1",
    method="The training error of every round. A good policy: the last round, which Algorithm 1 returns, beats round "
    f"0. Stable: it is at most a tenth ({LITTLE:g}) worse than the best round, and no round is that much worse than "
    "the one before. Where the last round is the worse one, `validation=` chooses another.",
    measure=measure_progress,
    judge=judge_convergence,
)
CONVERGING_H = Claim(
    name="converging-h",
    title="The regularizer converges",
    statement="By interpolating distributions and having the targets eventually converge to the original human "
    "trajectory, we will have a stable and converging state distribution, leading to a stable and converging h.",
    section="Appendix B; Algorithm 1, line 7",
    method="How far h moves from round to round, in what it predicts on the expert's own past: root mean square, over "
    "that of the expert's own steps. Converging: it moves less in the last two rounds than in the first two, and in "
    f"the last one by less than {LITTLE - 1.0:.1g} of what the expert moves in a frame.",
    measure=measure_h,
    judge=judge_h,
)
ROUNDS = Claim(
    name="few-rounds",
    title="How many rounds are enough",
    statement="We generally achieve a satisfactory policy after 5-10 iterations in our sport broadcasting data sets.",
    section="Appendix B",
    method="Runs of half as many rounds, as many and twice as many; at full size 5, 10 and 20. Satisfactory means "
    "better than holding the last action, and that twice the rounds would take away less than a tenth of the error "
    f"({LITTLE:g}).",
    measure=measure_rounds,
    judge=judge_rounds,
)
