"""What time is worth: permitted delay, late actuators, and contexts that are known ahead.

The same games and recordings, the same test part and the same frames, learned with one `lead` after the other. Then two
tasks of which the truth is known: an actuator that is late, and a context that is known a second ahead.

    python benchmarks/timing.py --jobs 2
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from accuracy import COLUMNS, Case, find_data, mean
from scipy.signal import lfilter

import simile
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate
from simile.data.reference import Reference
from simile.data.timing import delay

LEADS = (0.5, 0.2, 0.0, -0.2, -0.5, -1.0, -2.0)  # seconds
DAYS = (2.0, 1.0, 0.0, -1.0, -2.0, -4.0, -8.0)  # of the reservoir, which has no rate
GAMES, N_TEST = 12, 8
SEEDS, SPLITS = (620, 621), (62, 63)  # looked at by nobody before
LATE, AHEAD, RATE = 6, 30, 30.0  # frames


def load(case: Case) -> tuple[simile.Demonstrations, simile.Demonstrations]:
    """Return the training and the test part of a case."""
    if case.folder is not None:
        return case.load()
    games = demonstrations(simulate(N_TEST + GAMES, minutes=(0.8, 1.2), seed=case.number))
    return games[N_TEST:], games[:N_TEST]


def measure(given: tuple[Case, float]) -> tuple[float, float]:
    """Return RMSE, in standard deviations of the training part, and roughness at one lead."""
    case, lead = given
    train, test = load(case)
    policy = simile.learn(train, lead=lead).policy
    begin = max(policy.memory, round(max(LEADS) * test.rate if test.rate else max(DAYS)))
    rolled = simile.rollout(policy, test, start=simile.ExpertStart(begin))
    scale = simile.data.recorded.Units.of(train).scale
    gaps = [(a - b)[begin:] / scale for a, b in zip(rolled, test.actions, strict=True) if len(a) > begin]
    error = float(np.sqrt(np.mean(np.concatenate(gaps) ** 2)))
    return error, Reference(test).measure(rolled).roughness


def move(seed: int, n: int, *, ahead: int = 0, late: int = 10) -> simile.Demonstrations:
    """Make sequences of an operator who follows a target: so many frames late, or as if he saw it so far ahead."""
    contexts, actions = [], []
    for rng in np.random.default_rng(seed).spawn(n):
        x = lfilter([0.06], [1.0, -1.88, 0.8836], rng.normal(size=900), axis=0)[200:]
        hand = lfilter([0.04], [1.0, -1.6, 0.64], np.roll(x, late - ahead))  # a lag of eight frames at rest
        seen = x + rng.normal(0.0, 0.05, len(x))
        rows = slice(100, 600)
        contexts.append(np.stack([seen, rng.normal(size=len(x))], axis=1)[rows])
        actions.append(hand[rows])
    return simile.Demonstrations.from_arrays(contexts, actions, rate=RATE, context_names=("target", "noise"))


def lag_of(policy: Any, test: simile.Demonstrations, late: int) -> float:
    """Return how many frames the effect is behind the expert, of an actuator that is so late."""
    lead, _ = simile.policies.policies.timing(policy)
    rolled = simile.rollout(policy, test)
    effect = [delay(a, late - lead) for a in rolled]
    found = [simile.metrics.lag(e[60:], a[60:]) for e, a in zip(effect, test.actions, strict=True)]
    return float(np.mean(found))


def error_of(policy: Any, test: simile.Demonstrations) -> float:
    """Return the RMSE of roll-outs, without the first and last two seconds."""
    rolled = simile.rollout(policy, test)
    gaps = [(a - b)[60:-60] for a, b in zip(rolled, test.actions, strict=True)]
    return float(np.sqrt(np.mean(np.concatenate(gaps) ** 2)))


def show(cells: Sequence[str]) -> None:
    """Print a row."""
    print(f"{cells[0]:18}" + "".join(f"{cell:>14}" for cell in cells[1:]), flush=True)


def show_delays(folder: Path | None, jobs: int) -> None:
    """Print error and roughness at every lead, as ratios to those without one."""
    names = ["camera", *(COLUMNS if folder is not None else ())]
    with ProcessPoolExecutor(jobs) as pool:
        for name in names:
            real = name != "camera"
            cases = [Case(name, n, folder if real else None) for n in (SPLITS if real else SEEDS)]
            leads, unit = (DAYS, "days") if name == "reservoir" else (LEADS, "s")
            asked = [(case, lead) for case in cases for lead in leads]
            found = dict(zip(asked, pool.map(measure, asked), strict=True))
            show([name, *(f"{lead:+g} {unit}" for lead in leads)])
            cells = []
            for lead in leads:
                ratios = [[found[case, lead][i] / found[case, 0.0][i] for case in cases] for i in (0, 1)]
                cells.append(f"{mean(ratios[0]):.3f} ({mean(ratios[1]):.2f})")
            show(["", *cells])
    print(
        "RMSE on the test part over that without a lead, and roughness (in brackets); geometric means of two splits.\n"
    )


def show_truths() -> None:
    """Print what a lead does for a late actuator, and what is known ahead for one who may not wait."""
    train, test = move(1, 16), move(2, 8)
    show([f"actuator {LATE} late", "lag, frames"])
    for lead in (0, LATE):
        policy = simile.learn(train, lead=lead / RATE).policy
        show([f"  lead {lead / RATE:g} s", f"{lag_of(policy, test, LATE):.2f}"])
    train, test = move(3, 16, ahead=AHEAD), move(4, 8, ahead=AHEAD)
    show([f"known {AHEAD / RATE:g} s ahead", "RMSE"])
    for said, asked in (
        ("nothing", {}),
        ("waits", {"lead": -AHEAD / RATE}),
        ("known", {"known": {"target": AHEAD / RATE}}),
    ):
        show([f"  {said}", f"{error_of(simile.learn(train, **asked).policy, test):.4f}"])


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    show_delays(find_data(given.data), given.jobs)
    show_truths()


if __name__ == "__main__":
    main()
