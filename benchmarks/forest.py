"""Measure the forest against its peers: `python benchmarks/forest.py`, a quarter of an hour on two cores.

Prints a table per section, then what was to be reached, and writes every number to out/bench.json. Contenders take
turns in one process on one thread, and the medians of CPU time are compared, because machines are shared. Whatever
of scikit-learn, LightGBM, XGBoost and onnxruntime is not installed is said and left out. `--quick` takes a minute:
its sizes are too small to judge by.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import importlib.metadata
import json
import math
import os
import pkgutil
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

import contenders
import numpy as np
from contenders import DEPTH, FEATURES, LEAF
from scipy.signal import lfilter
from threadpoolctl import threadpool_limits

import simile
import simile.models.kernels
from simile import Demonstrations, Horizon, SmoothForest, SmoothPolicy, VelocityAutoregression
from simile.models.adapters import FittedRegressor

CONTEXTS = 20
HORIZON = Horizon(context_lags=10, action_lags=10)  # 230 features
LENGTH = 5_000  # frames of a sequence
OURS = "simile SmoothForest"
SKLEARN, LIGHTGBM, XGBOOST = (c.name for c in (contenders.RandomForest, contenders.LightGBM, contenders.XGBoost))
SLACK = 1.02  # what counts as equal: the forests of one contender differ by as much from seed to seed
PACKAGES = ("smooth-imitation", "numpy", "scipy", "numba", "scikit-learn", "lightgbm", "xgboost")
PACKAGES += ("onnxruntime", "skl2onnx")

Found = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """How much to measure."""

    small: tuple[int, int] = (50_000, 10)  # rows and trees of a fit
    many_trees: tuple[int, int] = (50_000, 100)
    many_rows: tuple[int, int] = (500_000, 10)
    turns: int = 5
    patience: float = 12.0  # seconds of CPU after which a contender has had turns enough
    steps: int = 10_000
    trees: int = 100
    forests: int = 10
    calls: int = 200  # single rows asked for
    leaves: tuple[int, ...] = (64, 256, 1024)
    memory_rows: int = 500_000
    frames: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    rounds: tuple[int, ...] = (5, 10, 20)
    sequences: tuple[int, ...] = (1, 10, 100)
    sequence_frames: int = 100_000
    learn_frames: int = 20_000
    learn_rounds: int = 10
    learn_trees: int = 50


QUICK = Scale(
    small=(5_000, 5),
    many_trees=(5_000, 20),
    many_rows=(20_000, 5),
    turns=3,
    patience=1.0,
    steps=2_000,
    trees=20,
    forests=3,
    calls=20,
    leaves=(16, 64),
    memory_rows=50_000,
    frames=(1_000, 10_000),
    rounds=(2, 4),
    sequences=(1, 10),
    sequence_frames=10_000,
    learn_frames=4_000,
    learn_rounds=3,
    learn_trees=10,
)


def main() -> None:
    """Run the sections asked for, print their tables and write all numbers down."""
    options = arguments()
    if options.child:
        print(json.dumps(CHILDREN[options.child](options.rows)))
        return
    scale = QUICK if options.quick else Scale()
    found: Found = {"quick": options.quick, "scale": asdict(scale), **machine()}
    print(
        f"{found['processor']}, {found['cores']} cores, load {found['load'][0]:.1f}, "
        f"Python {found['versions']['python']}"
    )
    absent = contenders.missing(("sklearn", "lightgbm", "xgboost", "onnxruntime", "skl2onnx"))
    print(f"not installed, left out: {', '.join(absent)}" if absent else "all contenders are installed")
    with threadpool_limits(1):
        for name in options.only:
            begin = time.perf_counter()
            found[name] = SECTIONS[name](scale)
            print(f"({name}: {time.perf_counter() - begin:.0f} s)")
    found["must_reach"] = must_reach(found)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1))
    print(f"\nall numbers: {options.out}")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, a minute")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="sections to run")
    parser.add_argument("--out", type=Path, default=Path("out/bench.json"), help="where the numbers go")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


# ---------------------------------------------------------------------------------------------------------- sections


def fit(scale: Scale) -> Found:
    """Section 1: grow forests of the same settings on the same rows."""
    return {
        "small": compare_fits(*scale.small, scale),
        "many_trees": compare_fits(*scale.many_trees, scale),
        "many_rows": compare_fits(*scale.many_rows, scale),
    }


def compare_fits(rows: int, n_trees: int, scale: Scale) -> Found:
    """Let all contenders fit one size, in turns."""
    demos, unseen = record(rows), record(4 * LENGTH, seed=1)
    begin = time.process_time()
    X = matrix(demos)
    building = time.process_time() - begin
    y, X_unseen, y_unseen = labels(demos).ravel(), matrix(unseen), labels(unseen).ravel()
    X, shuffled = shuffle(X), shuffle(X_unseen)
    error: dict[str, list[float]] = {}

    def ours(turn: int) -> None:
        forest = grow(demos, n_trees, seed=turn)
        later.append((OURS, lambda: forest.predict(X_unseen)))

    def theirs(contender: contenders.Contender) -> Callable[[int], None]:
        def run(turn: int) -> None:
            fitted = contender.fit(X, y, n_trees, turn)
            later.append((contender.name, lambda: contender.predict(fitted, shuffled)))

        return run

    def judge() -> None:  # outside the time that is taken
        name, predict = later.pop()
        error.setdefault(name, []).append(float(np.sqrt(np.mean((np.ravel(predict()) - y_unseen) ** 2))))

    later: list[tuple[str, Callable[[], Any]]] = []
    warm_up()
    runs = {OURS: ours} | {c.name: theirs(c) for c in contenders.installed()}
    seconds = alternate(runs, scale.turns, scale.patience, after=judge)
    cpu = {name: median(s) for name, s in seconds.items()}
    rmse = {name: mean(e) for name, e in error.items()}
    show(
        f"fit {rows:,} rows, {n_trees} trees (the lag matrix, which ours does without: {building:.2f} s more)",
        ("", "CPU s", "ours is faster", "held-out RMSE", "ours / theirs", "turns"),
        [
            (n, f"{s:.2f}", times(s / cpu[OURS]), f"{rmse[n]:.4f}", f"{rmse[OURS] / rmse[n]:.3f}", str(len(seconds[n])))
            for n, s in cpu.items()
        ],
    )
    return {"rows": rows, "trees": n_trees, "matrix_seconds": building, "seconds": seconds, "rmse": error}


def leaves(scale: Scale) -> Found:
    """Section 2: the held-out error of trees with equally many leaves, best first and depth first."""
    rows, n_trees = scale.many_trees
    demos, unseen = record(rows), record(4 * LENGTH, seed=1)
    y, in_order, y_unseen = labels(demos).ravel(), (matrix(demos), matrix(unseen)), labels(unseen).ravel()
    layouts = {LIGHTGBM: [shuffle(X) for X in in_order], f"{LIGHTGBM}, past actions last": in_order}
    if contenders.missing(contenders.LightGBM.needs):
        layouts = {}
    found: Found = {}
    for most in scale.leaves:
        ways = {f"{OURS}, best first": (None, most), f"{OURS}, depth first": (int(math.log2(most)), None)}
        said = {
            name: grow(demos, n_trees, seed=0, max_depth=depth, max_leaves=limit, min_leaf=5).predict(in_order[1])
            for name, (depth, limit) in ways.items()
        }
        for name, (X, X_unseen) in layouts.items():
            peer = contenders.LightGBM()
            fitted = peer.fit(X, y, n_trees, 0, num_leaves=most, max_depth=-1, min_data_in_leaf=5)
            said[name] = peer.predict(fitted, X_unseen)
        found[str(most)] = {name: float(np.sqrt(np.mean((np.ravel(p) - y_unseen) ** 2))) for name, p in said.items()}
    show(
        f"held-out RMSE of {n_trees} trees on {rows:,} rows, by their leaves",
        ("", *(f"{most} leaves" for most in found)),
        [(name, *(f"{by[name]:.4f}" for by in found.values())) for name in said],
    )
    return found


def threads(scale: Scale) -> Found:
    """Section 3: two threads against one, in wall time."""
    rows, n_trees = scale.many_rows
    demos = record(rows)
    warm_up()
    runs = {
        name: (lambda turn, n=n: grow(demos, n_trees, seed=turn, n_jobs=n))
        for name, n in (("one thread", 1), ("two threads", 2))
    }
    seconds = alternate(runs, scale.turns, math.inf, clock=time.perf_counter)
    best = {name: min(s) for name, s in seconds.items()}
    one = best["one thread"]
    show(
        f"threads: fit {rows:,} rows, {n_trees} trees; best of {scale.turns}",
        ("", "wall s", "faster"),
        [(name, f"{s:.2f}", times(one / s)) for name, s in best.items()],
    )
    return {"seconds": seconds, "speedup": one / best["two threads"]}


def step(scale: Scale) -> Found:
    """Section 4: a step of a roll-out against one prediction for one row."""
    rows, reach = scale.many_trees[0], HORIZON.memory
    demos, unseen = record(rows), record(scale.steps + reach, seed=1, length=scale.steps + reach)
    forests = [grow(demos, scale.trees, seed=i, n_jobs=None) for i in range(scale.forests)]
    h = VelocityAutoregression().fit(demos.actions, 30.0)
    X, y = matrix(demos), labels(demos).ravel()
    asked: dict[str, contenders.Step] = {}
    rows_met = matrix(unseen)[reach : reach + scale.calls].copy()
    for contender in contenders.installed():
        if not isinstance(contender, contenders.ExtraTrees):
            asked |= contender.steps(contender.fit(X, y, scale.trees, 0), rows_met)
    del X
    found = {"one": compare_steps(forests[:1], h, unseen, asked, scale)}
    found["mixture"] = compare_steps(forests, h, unseen, asked, scale)
    return found


def compare_steps(
    forests: Sequence[Any], h: Any, unseen: Demonstrations, asked: dict[str, contenders.Step], scale: Scale
) -> Found:
    """Time one step of a mixture of forests; peers answer once for each of them, without the rest of a step."""
    n = len(forests)
    asks = scale.calls // n
    few = unseen.head(scale.calls + HORIZON.memory)
    fused = mixture([SmoothPolicy(f, h, 30.0, HORIZON) for f in forests])
    plain = mixture([SmoothPolicy(FittedRegressor(f), h, 30.0, HORIZON) for f in forests])
    gap = np.abs(simile.rollout(fused, few)[0] - simile.rollout(plain, few)[0]).max()

    def theirs(answer: contenders.Step) -> Callable[[int], None]:
        def run(_: int) -> None:
            for i in range(n * asks):
                answer(i)

        return run

    loop = "simile, a Python loop"
    runs: dict[str, Callable[[int], object]] = {"simile, fused": lambda _: simile.rollout(fused, unseen)}
    runs |= {loop: lambda _: simile.rollout(plain, few)} | {name: theirs(a) for name, a in asked.items()}
    counts = {"simile, fused": scale.steps, loop: scale.calls} | dict.fromkeys(asked, asks)
    seconds = alternate(runs, 3 * scale.turns, scale.patience)  # ours takes milliseconds: give it turns
    micros = {name: [1e6 * s / counts[name] for s in all_of] for name, all_of in seconds.items()}
    ours = median(micros["simile, fused"])
    note = "" if n == 1 else f"; peers answer {n} times with one forest, which stays in the cache"
    show(
        f"a step of a roll-out: {n} x {scale.trees} trees (fused and loop differ by {gap:.0e}{note})",
        ("", "us a step", "ours is faster"),
        [(name, f"{median(m):.1f}", times(median(m) / ours)) for name, m in micros.items()],
    )
    return {"forests": n, "trees": scale.trees, "microseconds": micros, "fused_minus_loop": float(gap)}


def memory(scale: Scale) -> Found:
    """Section 5: the most memory a whole run of rounds holds, above the raw data; `learn` has none, and holds more."""
    found = child("memory", rows=scale.memory_rows)
    show(
        f"memory of authors: {scale.memory_rows:,} rows, 10 trees, 2 rounds",
        ("", "MiB", "times raw"),
        [(name, f"{found[name] / 2**20:.0f}", times(found[name] / found["raw"])) for name in ("raw", "peak above raw")],
    )
    return found


def start(scale: Scale) -> Found:
    """Section 6: what a first learn has to compile, and what a second process finds done."""
    del scale
    with tempfile.TemporaryDirectory() as cache:
        found = {name: child("start", NUMBA_CACHE_DIR=cache) for name in ("cold", "warm")}
    show(
        "first learn of a process (1,000 frames, 2 rounds, 5 trees)",
        ("", "import CPU s", "first learn CPU s", "second learn CPU s"),
        [(n, f"{f['import']:.2f}", f"{f['first']:.2f}", f"{f['second']:.2f}") for n, f in found.items()],
    )
    return found


def growth(scale: Scale) -> Found:
    """Section 7: how the time of a whole run of rounds grows, and the headline."""
    warm_up()
    few, total = record(scale.learn_frames), scale.sequence_frames
    frames = {str(n): learning(record(n), n_rounds=3) for n in scale.frames}
    show_growth("3 rounds, 10 trees, by frames", {"authors": frames})
    rounds = {
        f.__name__: {str(n): learning(few, n_rounds=n, algorithm=f) for n in scale.rounds}
        for f in (simile.authors, simile.dagger)
    }
    show_growth(f"{scale.learn_frames:,} frames, 10 trees, by rounds", rounds)
    sequences = {str(n): learning(record(total, length=total // n), n_rounds=3) for n in scale.sequences}
    show_growth(f"3 rounds, 10 trees, {total:,} frames, by sequences", {"authors": sequences})
    model = SmoothForest(scale.learn_trees)
    headline = cpu_of(lambda: simile.authors(few, model=model, n_rounds=scale.learn_rounds, validation=0.2))
    about = f"{scale.learn_rounds} rounds, {scale.learn_trees} trees, {scale.learn_frames:,} frames"
    show(f"one whole run: {about}, all else by default", ("", "CPU s"), [("authors", f"{headline:.1f}")])
    return {"frames": frames, "rounds": rounds, "sequences": sequences, "headline": headline}


def learning(demos: Demonstrations, *, n_rounds: int, algorithm: Callable[..., Any] = simile.authors) -> float:
    """Return the seconds of CPU of a whole run on all the demonstrations, with ten trees a round."""
    model = SmoothForest(10, DEPTH, LEAF, FEATURES)
    return cpu_of(lambda: algorithm(demos, model=model, n_rounds=n_rounds, validation=None))


def must_reach(found: Found) -> list[Found]:
    """Hold what was measured to what the design asks for; what was not measured is left out."""
    goals: list[tuple[str, float | None, str, float]] = []

    def median_ratio(section: Found | None, numbers: str, theirs: str, ours: str) -> float | None:
        values = (section or {}).get(numbers, {})
        return median(values[theirs]) / median(values[ours]) if theirs in values else None

    fits, steps = found.get("fit", {}), found.get("step", {})
    for size, name, bound in (
        ("many_rows", SKLEARN, 30.0),
        ("many_trees", SKLEARN, 16.0),
        ("many_rows", LIGHTGBM, 8.0),
        ("many_rows", XGBOOST, 5.0),
    ):
        section = fits.get(size)
        about = f"{section['rows']:,} x {section['trees']}" if section else size
        goals.append((f"fit {about}: {name} / ours", median_ratio(section, "seconds", name, OURS), ">=", bound))
    for size in ("many_rows", "many_trees"):
        rmse = fits.get(size, {}).get("rmse", {})
        ratio = mean(rmse[OURS]) / mean(rmse[SKLEARN]) if SKLEARN in rmse else None
        goals.append((f"held-out RMSE there ({size}), ours / {SKLEARN}", ratio, "<=", SLACK))
    for most, rmse in found.get("leaves", {}).items():
        ratio = rmse[f"{OURS}, best first"] / rmse[LIGHTGBM] if LIGHTGBM in rmse else None
        goals.append((f"held-out RMSE of {most} leaves, best first / {LIGHTGBM}", ratio, "<=", 1.0))
    for size, name, bound in (
        ("one", "scikit-learn predict", 2_000.0),
        ("one", "onnxruntime", 6.0),
        ("mixture", "scikit-learn predict", 1_800.0),
    ):
        section = steps.get(size)
        about = f"{section['forests']} x {section['trees']} trees" if section else size
        ratio = median_ratio(section, "microseconds", name, "simile, fused")
        goals.append((f"step, {about}: {name} / ours", ratio, ">=", bound))
    memory_, start_ = found.get("memory"), found.get("start")
    goals += [
        ("authors: peak memory / raw data", memory_ and memory_["peak above raw"] / memory_["raw"], "<=", 1.3),
        ("cold compile, CPU s", start_ and start_["cold"]["first"], "<=", 20.0),
        ("warm start, CPU s", start_ and start_["warm"]["first"], "<=", 1.0),
        ("fit: two threads / one", found.get("threads", {}).get("speedup"), ">=", 1.85),
        ("one whole run of authors, CPU s", found.get("growth", {}).get("headline"), "<=", 15.0),
    ]
    reached = [
        {
            "work": work,
            "reached": value,
            "bound": f"{sign} {bound:g}",
            "ok": value >= bound if sign == ">=" else value <= bound,
        }
        for work, value, sign, bound in goals
        if value is not None
    ]
    show(
        "must reach" + (" (--quick: too small to judge by)" if found["quick"] else ""),
        ("", "reached", "asked", "ok"),
        [(g["work"], f"{g['reached']:,.3g}", g["bound"], "yes" if g["ok"] else "NO") for g in reached],
    )
    return reached


# -------------------------------------------------------------------------------------------- in processes of their own


def child(name: str, *, rows: int = 0, **environment: str) -> Found:
    """Run a part of this file in a process of its own and read what it found."""
    command = [sys.executable, __file__, "--child", name, "--rows", str(rows)]
    answer = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def memory_child(rows: int) -> Found:
    """Learn, and see how far the memory of the process rises above what imports, compiled code and data take."""
    model = SmoothForest(10, DEPTH, LEAF, FEATURES, n_jobs=1)
    demos = record(rows)
    warm_up()
    hand_back()
    before = resident()
    simile.authors(demos, model=model, n_rounds=2)
    raw = sum(a.nbytes for d in demos for a in (d.contexts, d.actions))
    return {"raw": raw, "before": before, "peak": peak(), "peak above raw": peak() - before}


def start_child(rows: int) -> Found:
    """Time the first learn of a process; all imports, numba's too, come before it."""
    del rows
    for module in pkgutil.iter_modules(simile.models.kernels.__path__):
        importlib.import_module(f"simile.models.kernels.{module.name}")
    imported = time.process_time()  # since the process began
    demos = record(1_000, length=500)
    seconds = [
        cpu_of(lambda: simile.authors(demos, model=SmoothForest(5, n_jobs=1), n_rounds=2, validation=0.2))
        for _ in range(2)
    ]
    return {"import": imported, "first": seconds[0], "second": seconds[1]}


def hand_back() -> None:
    """Give freed memory back to the system: what learn could take from there would not be seen."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)  # glibc's alone
        trim(0)


def resident() -> int:
    """Return the bytes of memory the process holds now, or held at most where the system does not tell."""
    return _status("VmRSS") or peak()


def peak() -> int:
    """Return the bytes of memory the process held at most.

    Linux is asked by /proc: its `ru_maxrss` would begin with what the parent process held.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(field: str) -> int | None:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), None)


CHILDREN: dict[str, Callable[[int], Found]] = {"memory": memory_child, "start": start_child}
SECTIONS: dict[str, Callable[[Scale], Found]] = {
    "fit": fit,
    "leaves": leaves,
    "threads": threads,
    "step": step,
    "memory": memory,
    "start": start,
    "growth": growth,
}

# -------------------------------------------------------------------------------------------------------------- data


def record(rows: int, *, seed: int = 0, length: int = LENGTH) -> Demonstrations:
    """Make demonstrations: actions follow five of the contexts, late, bent and with inertia.

    The contexts wander within a second or so and are seen with noise. The hand moves towards what the operator
    makes of them, a tenth of the way in each frame, and shakes a little.
    """
    lead = 200  # frames for the processes to forget that they began at zero
    contexts, actions = [], []
    for rng in np.random.default_rng(seed).spawn(max(1, rows // length)):
        n = min(length, rows) + lead
        x = lfilter([0.06], [1.0, -1.88, 0.8836], rng.normal(size=(n, CONTEXTS)), axis=0)
        x += rng.normal(0.0, 0.2, x.shape)
        aim = np.tanh(np.roll(x[:, 0], 2) + 0.5 * np.roll(x[:, 1], 5)) + 0.3 * np.abs(np.roll(x[:, 4], 8))
        aim += 0.5 * np.sin(2.0 * np.roll(x[:, 2], 1)) * (x[:, 3] > 0.0)
        contexts.append(x[lead:].copy())
        actions.append(lfilter([0.1], [1.0, -0.9], aim + rng.normal(0.0, 0.3, n))[lead:].copy())
    return Demonstrations.from_arrays(contexts, actions, rate=30.0)


def labels(demos: Demonstrations) -> Any:
    """Return the expert's actions, (rows, 1)."""
    return np.concatenate(demos.actions)


def matrix(demos: Demonstrations) -> Any:
    """Build the lag matrix in float32, sequence by sequence: in one go it would need three times the memory."""
    parts = [HORIZON.states(d, [d.actions]).matrix().astype(np.float32) for d in demos]
    return np.concatenate(parts)


def shuffle(X: Any) -> Any:
    """Put the columns in another order for the peers: LightGBM draws the last ones of a matrix more often."""
    return np.take(X, np.random.default_rng(0).permutation(X.shape[1]), axis=1)


def grow(demos: Demonstrations, n_trees: int, *, seed: int, n_jobs: int | None = 1, **limits: Any) -> Any:
    """Fit our forest to lazy states; the tape is new, so that binning is part of it."""
    y = labels(demos)
    states = HORIZON.states(demos, demos.actions)
    recipe = SmoothForest(**{"max_depth": DEPTH, "min_leaf": LEAF, **limits}, n_trees=n_trees, max_features=FEATURES)
    recipe = replace(recipe, n_jobs=n_jobs)
    return recipe.fit_smooth([states], y, y, y, 0.0, np.random.default_rng(seed))


def mixture(policies: list[SmoothPolicy]) -> Any:
    """Mix policies in equal parts."""
    return simile.Mixture(tuple(policies), (1.0 / len(policies),) * len(policies)) if len(policies) > 1 else policies[0]


def warm_up() -> None:
    """Compile all that a learn needs."""
    simile.authors(record(1_000, length=500), model=SmoothForest(2, n_jobs=1), n_rounds=1)


# ------------------------------------------------------------------------------------------------- time and tables


def alternate(
    runs: dict[str, Callable[[int], object]],
    turns: int,
    patience: float,
    *,
    clock: Callable[[], float] = time.process_time,
    after: Callable[[], None] = lambda: None,
) -> dict[str, list[float]]:
    """Let contenders take turns and return the seconds of each; who has used up our patience sits the rest out."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(turns):
        for name, run in runs.items():
            if sum(seconds[name]) > patience:
                continue
            begin = clock()
            run(turn)
            seconds[name].append(clock() - begin)
            after()
    return seconds


def cpu_of(run: Callable[[], object]) -> float:
    """Return the seconds of CPU that something takes, all threads together."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: names to the left, numbers to the right."""
    widths = [max(len(r[i]) for r in (columns, *rows)) for i in range(len(columns))]
    print(f"\n{title}")
    for row in (columns, *rows):
        print(
            "  " + row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)), sep="   "
        )
    sys.stdout.flush()


def show_growth(title: str, seconds: dict[str, dict[str, float]]) -> None:
    """Print seconds by size, each with the power of the size by which they grew since the one before."""
    rows = []
    for name, by_size in seconds.items():
        sizes = list(by_size)
        for i, size in enumerate(sizes):
            power = "-"
            if i:
                before = sizes[i - 1]
                power = f"{math.log(by_size[size] / by_size[before]) / math.log(int(size) / int(before)):.2f}"
            rows.append((name, f"{int(size):,}", f"{by_size[size]:.2f}", power))
    show(title, ("", "size", "CPU s", "power"), rows)


def times(ratio: float) -> str:
    """Write a ratio."""
    return f"{ratio:,.1f}x" if ratio < 100.0 else f"{ratio:,.0f}x"


def machine() -> Found:
    """Tell where and with what this was measured."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "platform": platform.platform(),
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "versions": versions,
    }


if __name__ == "__main__":
    main()
