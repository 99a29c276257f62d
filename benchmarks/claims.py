"""Measure the paper's empirical claims, and ours, on the built-in task: `make claims`, some minutes on two cores.

Every row is the geometric mean over seeds, with the single seeds behind it. All errors are of roll-outs.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import numpy as np

import simile
from simile import CompensatedFeedback, Criterion, CriticallyDamped, Horizon, SmoothForest, tasks

SEEDS = range(100, 106)  # tasks that nobody looked at while the task and the defaults were chosen
CONTEXTS = Horizon(context_lags=(0, 1, 2, 4, 8, 12, 16, 24, 32), action_lags=0)


def main() -> None:
    """Print one line per claim."""
    with ProcessPoolExecutor(max_workers=2) as pool:
        measured = list(pool.map(measure, SEEDS))
    print(f"pursuit task, 16 sequences of 400 frames, a quarter held out, seeds {list(SEEDS)}; ratios, 1 is equal\n")
    for text in measured[0]:
        values = [m[text] for m in measured]
        print(f"{text:58} {np.exp(np.mean(np.log(values))):7.2f}   ({', '.join(f'{v:.2f}' for v in values)})")


def measure(seed: int) -> dict[str, float]:
    """Learn every contender on one task and compare them."""
    train, test = tasks.pursuit(n_sequences=16, length=400, seed=seed).split()

    def judge(run: simile.Run) -> simile.Evaluation:
        return simile.evaluate(run.policy, test)

    paper = simile.paper(train)
    plain, rough = judge(paper), judge(simile.paper(train, smoothness=0.0))
    ours = judge(
        simile.learn(
            train, horizon=CONTEXTS, regularizer=CriticallyDamped(3), feedback=CompensatedFeedback(), n_rounds=4
        )
    )
    jittery = judge(simile.learn(train, horizon=CONTEXTS, smoothness=0.0, n_rounds=4))
    fixed = {beta: simile.paper(train, n_rounds=5, step_size=beta) for beta in (0.1, 0.5, 0.9)}
    adaptive = simile.paper(train, n_rounds=5).rounds[-1].error
    halves = fixed[0.5].policy
    sampled = simile.StochasticMixture(halves.components, halves.weights)
    gap = simile.stochastic_gap(halves, test, n_rollouts=50)
    return {
        "smooth / not smooth: RMSE": plain.mean("rmse") / rough.mean("rmse"),
        "not smooth / smooth: mean |second difference|": rough.mean("difference_2") / plain.mean("difference_2"),
        "  the same, contexts alone, compensated: RMSE": ours.mean("rmse") / jittery.mean("rmse"),
        "  ... and mean |second difference|": jittery.mean("difference_2") / ours.mean("difference_2"),
        "contexts alone, compensated / paper: RMSE": ours.mean("rmse") / plain.mean("rmse"),
        "  ... and mean |second difference|, paper / ours": plain.mean("difference_2") / ours.mean("difference_2"),
        "Eq. 8 / beta 0.1: training MSE after 5 rounds": adaptive / fixed[0.1].rounds[-1].error,
        "Eq. 8 / beta 0.5: training MSE after 5 rounds": adaptive / fixed[0.5].rounds[-1].error,
        "Eq. 8 / beta 0.9: training MSE after 5 rounds": adaptive / fixed[0.9].rounds[-1].error,
        "sigma schedule / sigma 0: RMSE": plain.mean("rmse")
        / judge(simile.paper(train, feedback=simile.ExpertFeedback())).mean("rmse"),
        "deterministic / stochastic, beta 0.5: MSE": gap.deterministic_error / gap.stochastic_error,
        "stochastic / deterministic: mean |second difference|": simile.evaluate(sampled, test).mean("difference_2")
        / simile.evaluate(halves, test).mean("difference_2"),
        "h on velocities / on positions: RMSE": plain.mean("rmse")
        / judge(simile.paper(train, regularizer=simile.LinearAutoregression())).mean("rmse"),
        "cloning / hold last action: RMSE": judge(simile.clone(train)).mean("rmse")
        / plain.mean("rmse", of="hold_last"),
        "SIMILE (paper) / hold last action: RMSE": plain.mean("rmse") / plain.mean("rmse", of="hold_last"),
        "impurity with h, children added / labels alone: RMSE": judge(
            simile.paper(train, model=SmoothForest(criterion=Criterion.SMOOTH))
        ).mean("rmse")
        / plain.mean("rmse"),
        "impurity with h, as printed / labels alone: RMSE": judge(
            simile.paper(train, model=SmoothForest(criterion=Criterion.PRINTED))
        ).mean("rmse")
        / plain.mean("rmse"),
        "a third of the features / their square root: RMSE": judge(
            simile.paper(train, model=SmoothForest(max_features=1 / 3))
        ).mean("rmse")
        / plain.mean("rmse"),
        "DAgger / SIMILE (paper): RMSE": judge(simile.dagger(train)).mean("rmse") / plain.mean("rmse"),
    }


if __name__ == "__main__":
    main()
