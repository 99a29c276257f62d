"""Measure the online predictor: `python benchmarks/online.py`, a minute or two on one core.

Prints the CPU time of one frame, in microseconds: the median over turns that all contenders take one after the other
in one process and on one thread, because machines are shared. scikit-learn and LightGBM predict single rows of the
lag matrix that somebody else has built; what is not installed is said and left out. `--quick` takes seconds: its
forests are too small to judge by.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from statistics import median

import contenders
import numpy as np
from forest import CONTEXTS, HORIZON, alternate, grow, labels, matrix, record, show
from threadpoolctl import threadpool_limits

from simile import SmoothPolicy, VelocityAutoregression
from simile.data.demonstrations import Demonstrations
from simile.online import AccelerationLimit, JerkLimit, Predictor, PredictorPool
from simile.policies.fused import FusedPolicy

POOLS = (1, 100, 1_000, 10_000)
PEERS = (contenders.RandomForest(), contenders.LightGBM())

Run = Callable[[int], object]


def main() -> None:
    """Let all take turns and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small forests, seconds")
    parser.add_argument("--turns", type=int, default=15, help="turns of every contender")
    options = parser.parse_args()
    rows, n_trees = (4_000, 20) if options.quick else (50_000, 100)
    frames = 500 if options.quick else 2_000
    absent = contenders.missing(("sklearn", "lightgbm", "onnxruntime", "skl2onnx"))
    print(f"not installed, left out: {', '.join(absent)}" if absent else "all peers are installed")
    with threadpool_limits(1):
        demos = record(rows, length=min(rows, 5_000))
        h = VelocityAutoregression().fit(demos.actions, 1.0)
        policy = SmoothPolicy(grow(demos, n_trees, seed=0), h, 1.0, HORIZON, n_contexts=CONTEXTS)
        x = record(10_000, seed=1).contexts[0]
        found = dict([*ours(policy, x, frames), *pools(policy, x), *peers(demos, n_trees)])
        seconds = alternate({name: run for name, (run, _) in found.items()}, options.turns, patience=20.0)
    lines = [
        (name, f"{1e6 * median(seconds[name]) / n:.2f}", f"{1e6 * min(seconds[name]) / n:.2f}", f"{n:,}")
        for name, (_, n) in found.items()
    ]
    title = f"{n_trees} trees, {CONTEXTS} contexts, horizon 10: microseconds of CPU per frame"
    show(title, ("", "median", "least", "frames a turn"), lines)


def ours(policy: SmoothPolicy, x: np.ndarray, n: int) -> Iterator[tuple[str, tuple[Run, int]]]:
    """Yield one predictor, called from Python, and the kernel with no Python between frames."""
    alone = Predictor(policy, start=0.0)
    limited = Predictor(policy, start=0.0, stages=[AccelerationLimit(5.0, rate=1.0)], rate=30.0)
    soft = Predictor(policy, start=0.0, stages=[JerkLimit(50.0, 5.0, rate=1.0)], rate=30.0)
    blind = Predictor(policy, start=0.0)
    blind.step(x[0])
    fused = FusedPolicy.of(policy)
    past, given, wide = [np.zeros((1, 1))], [np.empty((0, 1))], np.full(1, np.inf)
    control = fused.control(-wide, wide, 1e6)

    def kernel(turn: int) -> object:  # noqa: ARG001
        return fused._roll(control, [x[:n]], past, given)

    yield "Predictor.step(x)", (lambda _: [alone.step(row) for row in x[:n]], n)
    yield "Predictor.step(x), with AccelerationLimit", (lambda _: [limited.step(row) for row in x[:n]], n)
    yield "Predictor.step(x), with JerkLimit", (lambda _: [soft.step(row) for row in x[:n]], n)
    yield "Predictor.step(None)", (lambda _: [blind.step(None) for _ in range(n)], n)
    yield "the kernel alone, many frames in one call", (kernel, n)


def pools(policy: SmoothPolicy, x: np.ndarray) -> Iterator[tuple[str, tuple[Run, int]]]:
    """Yield pools of several sizes; a frame is one frame of one stream."""
    for n in POOLS:
        pool = PredictorPool(policy, n, start=0.0)
        repeats = max(2, 2_000 // n)
        X = x[np.random.default_rng(0).integers(len(x), size=(repeats, n))]
        yield (
            f"PredictorPool.step, {n:,} streams",
            (lambda _, pool=pool, X=X: [pool.step(rows) for rows in X], X.size // CONTEXTS),
        )


def peers(demos: Demonstrations, n_trees: int) -> Iterator[tuple[str, tuple[Run, int]]]:
    """Yield the peers' ways to predict one row of a lag matrix."""
    X, y = matrix(demos), labels(demos).ravel()
    for peer in PEERS:
        if contenders.missing(peer.needs):
            continue
        for name, step in peer.steps(peer.fit(X, y, n_trees, 0), X[:100]).items():
            yield f"{name}, one row", (lambda _, step=step: [step(i) for i in range(100)], 100)


if __name__ == "__main__":
    main()
