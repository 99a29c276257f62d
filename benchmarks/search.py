"""What else could make `learn` better: each variant against the recipe at equal roughness (`variants.py` has them).

Errors of out-of-fold roll-outs decide, those of test sequences check the decision. Along the path of lags the
logarithm of the error is interpolated over that of the roughness (mean |second difference| over the expert's); at a
level of roughness counts the best policy that is no rougher.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded: seconds of CPU are compared
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import importlib.util
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from parts import AUTO, FOREST, SCORED_AFTER, Case, Pair, Variant, boosted, foreign, forest, greedy, joint
from variants import (  # fmt: skip
    added,
    alone,
    averaged,
    dead_zone,
    fourier,
    lightgbm_boosting,
    look,
    other,
    own_forest,
    preview,
    roll_in,
    sklearn_boosting,
    stack,
    targets,
    trusted,
    weighed,
    zero_phase,
)

import simile
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate
from simile.data.recorded import Units
from simile.data.reference import Reference

FOLDS = 4
TEST = 0.25  # of the groups of a real data set
RECIPE = "the recipe"
# Frames of lag at rest, and roughness to compare at.
PATHS = {
    "camera": ((5.0, 9.0, 15.0, 25.0), (0.6, 1.0, 1.8)),
    "car": ((3.0, 7.0, 14.0, 26.0), (0.4, 0.7, 1.2)),
    "reservoir": ((0.7, 1.5, 3.5, 8.0), (0.07, 0.12, 0.2)),
    "head": ((2.0, 6.0, 12.0, 20.0), (0.07, 0.12, 0.2)),
}
REAL = {
    "car": ("car_following/car_following.csv", ["a_speed"], ["x_lead_speed", "x_lead_accel", "x_lead_curvature"]),
    "reservoir": ("reservoir/reservoir.csv", ["a_release"], ["x_*"]),
    "head": ("head360/head360.csv", ["a_yaw", "a_pitch"], ["x_*"]),
}
PLAIN = simile.SmoothForest(n_trees=50, min_leaf=5, max_depth=None, n_jobs=1)
SHORT = tuple(range(11))
BESSEL = (0.4306, 0.2847 + 0.2716j, 0.2847 - 0.2716j)

# What the recipe is made of: each row leaves something out, or puts the plain thing in its place.
PARTS: dict[str, tuple[Variant, ...]] = {
    "the recipe": (weighed(greedy),),
    "the recipe, forest with another seed": (stack(lambda c, q: own_forest(c, q, seed=1)),),
    "without the ridges (forest alone)": (alone("forest"),),
    "without the forest": (alone("lags", "hinges"),),
    "the ridge alone": (alone("lags"),),
    "the ridge with hinges alone": (alone("hinges"),),
    "without hinges": (alone("forest", "lags"),),
    "without the plain ridge": (alone("forest", "hinges"),),
    "without gamma": (stack(gamma=0.0),),
    "without compensation (targets a*)": (stack(lambda c, _: c.once("plain", lambda: forest(c, c.actions.train))),),
    "short lags 0..10": (stack(lambda c, q: own_forest(c, q, lags=SHORT), lags=SHORT),),
    "leaf 10": (stack(other(min_leaf=10)),),
    "leaf 100": (stack(other(min_leaf=100)),),
}
# What was tried beside it. Where there are several, the best out of fold at equal roughness is taken.
TRIED: dict[str, tuple[Variant, ...]] = {
    "weights jointly (non-negative least squares)": (weighed(joint),),
    "line search prices roughness, 0.1": (weighed(greedy, bend=0.1),),
    "line search prices roughness, 1": (weighed(greedy, bend=1.0),),
    "joint weights price roughness, 0.1": (weighed(joint, bend=0.1),),
    "joint weights price roughness, 1": (weighed(joint, bend=1.0),),
    "line search prices 1, hinges first": (weighed(greedy, bend=1.0, turned=True),),
    "gamma 1 in the ridges": (weighed(greedy, ridge_gamma=1.0),),
    "gamma 1 in ridges, line search prices 1": (weighed(greedy, bend=1.0, ridge_gamma=1.0),),
    "gamma 1 in ridges, joint weights price 1": (weighed(joint, bend=1.0, ridge_gamma=1.0),),
    "gamma 1, line search prices 1, hinges first": (weighed(greedy, bend=1.0, ridge_gamma=1.0, turned=True),),
    "gamma 10 in the ridges": (weighed(greedy, ridge_gamma=10.0),),
    "gamma 10 in ridges, line search prices 1": (weighed(greedy, bend=1.0, ridge_gamma=10.0),),
    "gamma 10 in ridges, joint weights price 1": (weighed(joint, bend=1.0, ridge_gamma=10.0),),
    "a second greedy pass": (weighed(greedy, passes=2),),
    "weights for each action dimension": (weighed(greedy, each=True),),
    "look": (look(2, PLAIN, SHORT),),
    "look+": (look(3, replace(FOREST, min_leaf=100), AUTO),),
    "look + ridges": (look(3, FOREST, AUTO, with_ridges=True),),
    "ensemble over lag sets": (
        added(lambda c, q, _: [own_forest(c, q, lags=(0, 1, 2, 4)), own_forest(c, q, lags=(0,))]),
    ),
    "random Fourier ridge added": (added(fourier),),
    "preview of several horizons": (preview,),
    "order 2": (stack(shares=(1 / 2,) * 2),),
    "order 4": (stack(shares=(1 / 4,) * 4),),
    "order 1": (stack(shares=(1.0,)),),
    "poles by cross-validation": (stack(), stack(shares=(0.6, 0.2, 0.2)), stack(shares=BESSEL)),
    "zero-phase filtered expert as target": (zero_phase(0.25), zero_phase(0.5)),
    "weights by local noise": (trusted,),
    "moving averages for lags": (averaged,),
    "dead zone behind the filter": tuple(dead_zone(t, True) for t in (0.02, 0.05, 0.1)),
    "dead zone in front of the filter": tuple(dead_zone(t, False) for t in (0.02, 0.05, 0.1)),
    "boosting on targets, leaf 200": (stack(lambda c, q: boosted(c, q, 200)),),
    "boosting through the filter, leaf 300": (stack(lambda c, q: boosted(c, q, 300, through=True)),),
    "HistGradientBoosting as f": (stack(lambda c, q: foreign(c, targets(c, q), sklearn_boosting)),),
    "LightGBM as f": (stack(lambda c, q: foreign(c, targets(c, q), lightgbm_boosting)),),
    "f sees past actions, with roll-in (no ridges)": (roll_in,),
    "200 trees": (stack(other(n_trees=200)),),
}
if importlib.util.find_spec("lightgbm") is None:
    del TRIED["LightGBM as f"]

Path4 = list[tuple[float, float, float, float]]  # roughness and error out of fold, then on the test part


def camera(seed: int) -> Case:
    """Simulate nine games to train on and twelve to test."""
    demos = demonstrations(simulate(21, minutes=(0.8, 1.2), seed=seed))
    return case("camera", seed, demos[:9], demos[9:], list(demos.names[:9]))


def real(kind: str, folder: Path, seed: int) -> Case:
    """Read a data set and leave a quarter of its groups to the test part."""
    file, actions, contexts = REAL[kind]
    with warnings.catch_warnings(action="ignore"):
        demos = simile.read(folder / file, sequence="sequence", time="t", actions=actions, contexts=contexts)
    groups = list(demos.names)
    if kind == "car":  # each follower is the next pair's leader: sequences of a run belong together
        with (folder / "car_following/sequences.csv").open() as lines:
            run = {row["sequence"]: row["run"] for row in csv.DictReader(lines)}
        groups = [run[name] for name in demos.names]
    names = sorted(set(groups))
    order = np.random.default_rng(seed).permutation(len(names))
    apart = {names[i] for i in order[: max(1, round(TEST * len(names)))]}
    train = simile.Demonstrations(tuple(d for d, g in zip(demos, groups, strict=True) if g not in apart))
    test = simile.Demonstrations(tuple(d for d, g in zip(demos, groups, strict=True) if g in apart))
    return case(kind, seed, train, test, [g for g in groups if g not in apart])


def case(kind: str, seed: int, train: Any, test: Any, groups: list[str]) -> Case:
    """Standardise the actions and draw folds by group."""
    units, names = Units.of(train), sorted(set(groups))
    turn = np.random.default_rng(0).permutation(len(names)) % min(FOLDS, len(names))
    fold = np.array([turn[names.index(g)] for g in groups])
    actions = Pair(*([units.standardize(a) for a in side.actions] for side in (train, test)))
    contexts = Pair(*([np.asarray(x) for x in side.contexts] for side in (train, test)))
    return Case(f"{kind} {seed}", actions, contexts, fold, *PATHS[kind])


def path(case: Case, variant: Variant) -> tuple[Path4, float]:
    """Measure a variant along the lags of a case, and the seconds of CPU it took."""
    sides = (case.contexts.train, case.actions.train), (case.contexts.test, case.actions.test)
    on_train, on_test = (Reference(simile.Demonstrations.from_arrays(*side), begin=SCORED_AFTER) for side in sides)
    points, begin = [], case.clock()
    for lag in case.lags:
        acted = variant(case, lag)
        seen, unseen = on_train.measure(acted.train), on_test.measure(acted.test)
        points.append((seen.roughness, seen.error, unseen.roughness, unseen.error))
    return points, case.clock() - begin


def at_levels(points: Any, levels: Sequence[float]) -> Any:
    """Return the error of the best policy that is no rougher than each level; NaN where none is as smooth."""
    rough, wrong = np.log(np.array(sorted(points))).T
    found = []
    for level in np.log(levels):
        fine = np.linspace(rough[0], min(level, rough[-1]), 50)
        found.append(np.interp(fine, rough, wrong).min() if level >= rough[0] else np.nan)
    return np.exp(found)


def ratios(points: Path4, other: Path4, levels: Sequence[float]) -> Any:
    """Return RMSE over the other's at each level: (levels, 2), out of fold and on the test part."""
    return np.stack(
        [
            np.sqrt(
                at_levels([p[s : s + 2] for p in points], levels) / at_levels([p[s : s + 2] for p in other], levels)
            )
            for s in (0, 2)
        ],
        axis=1,
    )


def mean(values: Any) -> float:
    """Return the geometric mean of what there is."""
    kept = np.asarray(values)[np.isfinite(values)]
    return float(np.exp(np.log(kept).mean())) if kept.size else float("nan")


def measured(case: Case, variants: dict[str, tuple[Variant, ...]], keep: Path) -> dict[str, Any]:
    """Measure all variants on one case; what `keep` holds is not measured again."""
    file = keep / f"{case.name.replace(' ', '-')}.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    for name, ways in variants.items():
        if name not in found:
            found[name] = [path(case, way) for way in ways]
            file.write_text(json.dumps(found))
            tell(case, name, found)
    return found


def tell(case: Case, name: str, found: dict[str, Any]) -> None:
    """Print one line on the way."""
    rows = [ratios(points, found[RECIPE][0][0], case.levels) for points, _ in found[name]]
    seconds = sum(s for _, s in found[name])
    best = min(rows, key=lambda r: np.nan_to_num(mean(r[:, 0]), nan=9.0))
    print(f"# {case.name:14} {name:48} {mean(best[:, 0]):.3f} / {mean(best[:, 1]):.3f} {seconds:7.1f} s", flush=True)


def table(results: dict[str, dict[str, Any]], title: str, names: Sequence[str], judge: Callable[..., str]) -> None:
    """Print one row per variant: ratios by data set, their mean, cost and verdict."""
    kinds = [k for k in PATHS if any(c.startswith(k) for c in results)]
    print(f"\n{title:48}" + "".join(f"{k:>16}" for k in kinds) + f"{'mean':>14}{'CPU':>7}  verdict")
    for name in names:
        cells, both, cost = [], [], []
        for kind in kinds:
            logs, missing = [], False
            for own, found in results.items():
                if not own.startswith(kind) or name not in found:
                    continue
                basis, levels = found[RECIPE][0], PATHS[kind][1]
                rows = [ratios(points, basis[0], levels) for points, _ in found[name]]
                best = min(rows, key=lambda r: np.nan_to_num(mean(r[:, 0]), nan=9.0))
                missing |= bool(np.isnan(best).any())
                logs.append([mean(best[:, 0]), mean(best[:, 1])])
                cost.append(sum(s for _, s in found[name]) / basis[1])
            pair = [mean([row[s] for row in logs]) if logs else float("nan") for s in (0, 1)]
            mark = "'" if len(logs) < sum(own.startswith(kind) for own in results) else " "
            mark += "*" if missing else " "
            cells.append(f"{pair[0]:.3f} / {pair[1]:.3f}{mark}" if logs else "not run  ")
            both.append(pair)
        oof, test = (mean([pair[s] for pair in both]) for s in (0, 1))
        enough = all(np.isfinite(pair[0]) for pair in both[:2])  # camera, and one real data set with many frames
        verdict = judge(oof, test, both) if enough else "too few runs to say"
        if enough and any("'" in c or "not run" in c for c in cells):
            verdict += ", where run"
        print(
            f"{name:48}" + "".join(f"{c:>16}" for c in cells)
            + f" {oof:.3f} / {test:.3f}{mean(cost):6.1f}x  {verdict}"
        )  # fmt: skip


def without(oof: float, test: float, pairs: Any) -> str:  # noqa: ARG001
    """Say whether a part earns its place, out of fold; and where the test part disagrees."""
    said = "no difference" if abs(np.log(oof)) < 0.004 else "worse" if oof > 1 else "better"
    return said + (", worse on test" if said != "worse" and test > 1.01 else "")


def beside(oof: float, test: float, pairs: Any) -> str:
    """Say whether a variant is worth having: 1.5 % on both sides, and no data set the worse for it."""
    if oof <= 0.985 and test <= 0.985:
        return "wins" if max(p[0] for p in pairs if p[0] == p[0]) <= 1.005 else "wins on some data only"
    if oof <= 0.985:
        return "gain smaller on test"
    return "no gain" if oof < 1.01 else "worse"


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[210, 211, 212], help="of simulated camera games")
    parser.add_argument("--splits", nargs="*", type=int, default=[100], help="of each real data set")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SIMILE_DATA", "../shared/data")))
    parser.add_argument("--sets", nargs="+", choices=PATHS, default=list(PATHS), help="data sets to measure on")
    parser.add_argument("--only", nargs="+", help="variants whose names hold one of these words")
    parser.add_argument("--print", action="store_true", help="measure nothing more, print what is kept")
    parser.add_argument("--keep", type=Path, default=Path("out/search"), help="what was measured, to go on from")
    return parser.parse_args()


def main() -> None:
    """Measure what is missing, then print the tables."""
    given, begin = arguments(), time.process_time()
    given.keep.mkdir(parents=True, exist_ok=True)
    wanted = {n: v for n, v in {**PARTS, **TRIED}.items() if not given.only or any(w in n for w in given.only)}
    wanted = {RECIPE: PARTS[RECIPE], **wanted}
    makers: list[Callable[[], Case]] = [lambda s=s: camera(s) for s in given.seeds if "camera" in given.sets]
    if given.data.is_dir():
        makers += [lambda k=k, s=s: real(k, given.data, s) for s in given.splits for k in REAL if k in given.sets]
    else:
        print(f"no real data: {given.data} is no folder; --data or SIMILE_DATA names one")
    results = {}
    for make in makers:
        own = make()
        results[own.name] = measured(own, {} if given.print else wanted, given.keep)
    print("RMSE over the recipe's at equal roughness: out of fold / on test sequences")
    print("* not as smooth as every level   ' not on every case of the data set")
    print("cases:", ", ".join(results))
    for name, found in results.items():
        points, seconds = found[RECIPE][0]
        levels = PATHS[name.split()[0]][1]
        oof, test = (np.sqrt(at_levels([p[s : s + 2] for p in points], levels)) for s in (0, 2))
        print(
            f"  {name:14} recipe {seconds:6.1f} s of CPU; at roughness",
            *levels,
            "RMSE",
            oof.round(4),
            "/",
            test.round(4),
        )
    table(results, "the recipe and its parts", [n for n in PARTS if n in wanted], without)
    table(results, "tried", [n for n in TRIED if n in wanted], beside)
    print(f"\n{time.process_time() - begin:.0f} s of CPU")


if __name__ == "__main__":
    main()
