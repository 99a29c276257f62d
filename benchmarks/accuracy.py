"""How accurate the default of `learn` is at equal smoothness, against what an engineer would build and the paper.

Simulated games of basketball, one set of twelve for each seed, and the real data sets where they are at hand
(`--data`, or the variable SIMILE_DATA), several splits each, by recording or by group. All knobs are tuned inside the
training part; the test part is used once. `learn` is asked for 0.5, 1 and 2 times the expert's roughness, and each
contender is judged at the roughness that its policy then has on the test part, from the first frame that both choose
themselves: the paper's h asks for ten recorded actions before it, all others for three.

    python benchmarks/accuracy.py --jobs 2
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import simile
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate
from simile.evaluation.comparison import compare
from simile.evaluation.comparison.result import stand
from simile.evaluation.rivals import ROSTER, Behind, roll_out
from simile.evaluation.rivals.predictors import ContextForest
from simile.evaluation.rivals.roster import AHEAD, WIDE, third_order
from simile.learning.aims import Aim, label

SEEDS, SPLITS = (340, 341, 342), (30, 34)  # looked at by nobody before
N_GAMES, N_TEST = 12, 3
LEVELS = (0.5, 1.0, 2.0)  # times the expert's roughness
COLUMNS = {
    "car_following": (["a_speed"], ["x_lead_speed", "x_lead_accel", "x_lead_curvature"]),
    "reservoir": (["a_release"], ["x_*"]),
    "head360": (["a_yaw", "a_pitch"], ["x_*"]),
    "grip_force": (["a_force"], ["x_*"]),
}
# A follower is the next pair's leader, so runs are held out whole; of the grips, recordings and people.
GROUPS = {"car_following": "run", "grip_people": "group_of_three"}
REAL = (*COLUMNS, "grip_people")
PRESETS = ("paper", "authors")
LOOKS = ("look", "look+", "LightGBM")
HELD = "hold the last action"
AGAINST = ("simple", *LOOKS, *PRESETS, HELD)


@dataclass(frozen=True)
class Case:
    """One data set and the number of its seed or split."""

    name: str
    number: int
    folder: Path | None = None

    def load(self) -> tuple[simile.Demonstrations, simile.Demonstrations]:
        """Return the training and the test part."""
        if self.folder is None:
            games = demonstrations(simulate(N_GAMES, minutes=(0.8, 1.2), seed=self.number))
            return games[:-N_TEST], games[-N_TEST:]
        return self.read().split(0.25, seed=self.number)

    def read(self) -> simile.Demonstrations:
        """Read all of a real data set."""
        assert self.folder is not None
        source = self.name.replace("grip_people", "grip_force")
        actions, contexts = COLUMNS[source]
        about = f"{self.folder / source / 'sequences.csv'}:{GROUPS[self.name]}" if self.name in GROUPS else "sequence"
        return simile.read(
            self.folder / source / f"{source}.csv",
            sequence="sequence",
            time="t",
            actions=actions,
            contexts=contexts,
            group=about,
            quiet=True,
        )


@dataclass(frozen=True)
class Boosted(ContextForest):
    """LightGBM in the place of the forest that looks ahead."""

    def _fit(self, demos: Any, units: Any, tape: Any, ahead: int, seed: int) -> Any:
        bare = super()._fit(demos, units, tape, ahead, seed)
        actions = np.split(tape.actions, np.cumsum(demos.lengths)[:-1])
        X, Y = tape.states(self.horizon).matrix(), label(actions, [Aim(ahead)])
        return simile.SmoothPolicy(
            Boosters.of(X, Y, seed),
            *(getattr(bare, name) for name in ("h", "smoothness", "horizon", "naive", "n_contexts", "units", "space")),
            card=bare.card,
        )


@dataclass(frozen=True, eq=False)
class Boosters:
    """A booster for each action."""

    each: tuple[Any, ...]

    @classmethod
    def of(cls, X: Any, Y: Any, seed: int) -> Boosters:
        """Fit a hundred trees for each action."""
        import lightgbm

        settings = {"num_leaves": 31, "min_data_in_leaf": 100, "learning_rate": 0.08, "feature_fraction": 0.3}
        settings |= {"num_threads": 1, "verbosity": -1, "seed": seed, "deterministic": True}
        return cls(tuple(lightgbm.train(settings, lightgbm.Dataset(X, y), 100) for y in Y.T))

    def predict(self, S: Any) -> Any:
        """Predict (n, k)."""
        return np.column_stack([booster.predict(S, num_threads=1) for booster in self.each])


def rivals() -> Iterator[Any]:
    """Yield what an engineer would build: simple filters, and what looks ahead."""
    yield from (r for r in ROSTER if r.name in LOOKS or r.name.startswith((HELD, "forest", "ridge")))
    if importlib.util.find_spec("lightgbm") is not None:
        few = simile.SmoothForest(n_trees=1, min_leaf=1000, n_jobs=1)  # in whose place the boosters stand
        yield Behind("LightGBM", Boosted(few, WIDE, AHEAD[::2]), third_order)


def measure(case: Case) -> list[dict[str, float]]:
    """Compare on one case; for each level RMSE and roughness of `learn`, and its RMSE over that of the others."""
    train, test = case.load()
    few = {"model": simile.SmoothForest(n_trees=20), "n_rounds": 5}
    simple = compare(train, test, reductions=(), rivals=tuple(rivals()))
    printed = compare(train, test, reductions=PRESETS, rivals=(), **few)
    rows = []
    for level in LEVELS:
        policy, row = simile.learn(train, smoothness=simile.MatchExpert(level)).policy, {}
        for found in (printed, simple):
            own = found.reference.measure(roll_out(policy, test, found.reference.begin))
            others = {c.name: stand(c.trials, own.roughness) for c in found.contenders}
            row |= {name: own.rmse / other.tally.score.rmse for name, other in others.items() if other is not None}
            row |= {"error": own.rmse, "roughness": own.roughness}
        rows.append(row)
    return rows


def find_data(given: Path | None = None) -> Path | None:
    """Return the folder of the real data sets; None where it is not at hand."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = given or Path(os.environ.get("SIMILE_DATA", beside))
    if folder.is_dir():
        return folder
    print(f"{folder} is not there: simulated games alone\n")
    return None


def mean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def mean_of(rows: Sequence[dict[str, float]], name: str) -> float:
    """Return the mean of a ratio; NaN where it was not measured."""
    return mean([row.get(name, np.nan) for row in rows])


def best_simple(rows: Sequence[dict[str, float]]) -> float:
    """Return the mean ratio to the simple filter that does best on all of these."""
    return max(mean_of(rows, name) for name in rows[0] if name.startswith((HELD, "forest", "ridge")))


def summarize(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean ratios of some cases, by column."""
    return {"simple": best_simple(rows)} | {name: mean_of(rows, name) for name in AGAINST[1:]}


def interval(values: Sequence[float]) -> str:
    """Return the geometric mean of a ratio over data sets, with its 95 % interval (of t, on log scales)."""
    from scipy.stats import t

    logs = np.log(values)
    if len(logs) < 2:
        return f"{np.exp(logs.mean()):.3f}"
    half = t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    low, middle, high = np.exp(logs.mean() + half * np.array([-1.0, 0.0, 1.0]))
    return f"{middle:.3f} [{low:.2f}, {high:.2f}]"


def show(cells: Sequence[str]) -> str:
    """Align the cells of the columns of ratios."""
    return "".join(f" {cell:>9}" for cell in cells)


def main() -> None:
    """Measure all cases and print every number."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", help=f"one data set: camera, {', '.join(REAL)}")
    given = parser.parse_args()
    cases = [Case("camera", seed) for seed in SEEDS]
    if (folder := find_data(given.data)) is not None:
        cases += [Case(name, number, folder) for name in REAL for number in SPLITS]
    cases = [c for c in cases if given.only in (None, c.name)]
    found: dict[str, list[list[dict[str, float]]]] = {}
    print(f"{'data':16}{'seed':>5}{'asked':>7}{'RMSE':>9}{'rough':>7}" + show([f"/ {name}" for name in AGAINST]))
    with ProcessPoolExecutor(given.jobs) as pool:
        for case, rows in zip(cases, pool.map(measure, cases), strict=True):
            found.setdefault(case.name, []).append(rows)
            for level, row in zip(LEVELS, rows, strict=True):
                line = f"{case.name:16}{case.number:5d}{level:7g}{row['error']:9.4f}{row['roughness']:7.3f}"
                print(line + show([f"{ratio:.3f}" for ratio in summarize([row]).values()]), flush=True)
    for i, level in enumerate(LEVELS):
        print(f"\n{level:g} times the expert's roughness: geometric means of the ratios of RMSE, at equal smoothness")
        print(f"{'':16}" + show([f"/ {name}" for name in AGAINST]))
        means = {name: summarize([rows[i] for rows in some]) for name, some in found.items()}
        for name, ratios in means.items():
            print(f"{name:16}" + show([f"{ratio:.3f}" for ratio in ratios.values()]))
        real = [ratios for name, ratios in means.items() if name in REAL]
        for name in AGAINST if real else ():
            print(f"real data, over {name}: {interval([ratios[name] for ratios in real])}")


if __name__ == "__main__":
    main()
