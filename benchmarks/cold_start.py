"""Measure the first `simile train` on a new machine: `python benchmarks/cold_start.py`, half a minute.

Trains on a small file in processes of their own, first with an empty cache of compiled kernels, then with what that
left behind, and prints the CPU time (user and system) of each: importing, compiling, and the work itself. `--python`
measures another installation of simile, by its interpreter.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

CHILD = """
import json, sys, threading, time
import numba.core.event as event
from simile.cli import main

class Compiling(event.Listener):
    def __init__(self):
        self.seconds, self.count, self.begun = 0.0, 0, {}
    def on_start(self, _):
        self.begun.setdefault(threading.get_ident(), []).append(time.thread_time())
    def on_end(self, _):
        begun = self.begun[threading.get_ident()]
        begin = begun.pop()
        self.count += 1
        if not begun:  # not a function that another one calls
            self.seconds += time.thread_time() - begin

imported, compiling = time.process_time(), Compiling()
event.register("numba:compile", compiling)
try:
    main(["train", sys.argv[1], "--out", sys.argv[2]])
except SystemExit as stop:
    assert not stop.code, stop.code
found = {"import": imported, "compile": compiling.seconds, "total": time.process_time(), "functions": compiling.count}
print("\\n" + json.dumps(found))
"""


def write_table(path: Path) -> None:
    """Write eight recordings of 400 frames, with four contexts and an action that follows two of them."""
    rng = np.random.default_rng(0)
    lines = ["sequence,time,x0,x1,x2,x3,action"]
    for sequence in range(8):
        x = 0.1 * np.cumsum(rng.normal(size=(400, 4)), axis=0)
        y = np.convolve(x[:, 0], np.ones(9) / 9, "same") + 0.3 * x[:, 1]
        rows = np.column_stack([np.full(400, sequence), np.arange(400) / 25, x, y])
        lines += [",".join(f"{value:g}" for value in row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def train(python: str, table: Path, out: Path, cache: Path) -> dict[str, float]:
    """Train in a process of its own; returns its CPU seconds by part."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([python, "-c", CHILD, table, out], env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a table: one line with an empty cache, one with a full one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter of the installation to measure")
    parser.add_argument("--turns", type=int, default=3, help="how often; medians are printed")
    args = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {"empty cache": [], "full cache": []}
    for _ in range(args.turns):
        with tempfile.TemporaryDirectory() as folder:
            write_table(Path(folder, "data.csv"))
            for n, turns in enumerate(found.values()):
                turns.append(train(args.python, Path(folder, "data.csv"), Path(folder, f"run{n}"), Path(folder, "c")))
    print(f"{'CPU seconds':<12}{'import':>9}{'compile':>9}{'work':>9}{'total':>9}{'functions compiled':>20}")
    for name, turns in found.items():
        part = {key: median(turn[key] for turn in turns) for key in turns[0]}
        work = part["total"] - part["import"] - part["compile"]
        seconds = "".join(f"{s:9.2f}" for s in (part["import"], part["compile"], work, part["total"]))
        print(f"{name:<12}{seconds}{part['functions']:>20.0f}")


if __name__ == "__main__":
    main()
