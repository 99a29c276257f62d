"""How much memory and time a million rows take, from a CSV file to a policy file. `make bench` runs it.

Every step is a process of its own, so that its peak is its own. The peak counts all of the process: Python, the
libraries and the compiled kernels, too. A process that only imports them is the first line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS, SEQUENCES, CONTEXTS = 1_000_000, 100, 20
SCRIPT = Path(sys.executable).with_name("simile")


def make(path: Path) -> None:
    """Write the file: players that wander, and a camera that follows the first of them."""
    rng = np.random.default_rng(0)
    length = ROWS // SEQUENCES
    with path.open("w") as file:
        file.write(",".join(["game", "t", *(f"x{i}" for i in range(CONTEXTS)), "pan"]) + "\n")
        for game in range(SEQUENCES):
            x = 0.1 * np.cumsum(rng.normal(size=(length, CONTEXTS)), axis=0)
            pan = np.convolve(x[:, 0], 0.1 * 0.9 ** np.arange(100))[:length]
            for t, row in enumerate(np.column_stack([x, pan])):
                file.write(f"{game},{t / 30:.4f}," + ",".join(f"{value:.6f}" for value in row) + "\n")


def peak(command: list[str]) -> tuple[float, float, float]:
    """Run a command; return its peak memory in MB, its wall time and its CPU time in seconds."""
    code = "import os, resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL,"
    code += " stderr=subprocess.DEVNULL); u = resource.getrusage(resource.RUSAGE_CHILDREN);"
    code += " print(u.ru_maxrss / 1e3, u.ru_utime + u.ru_stime)"
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    memory, cpu = map(float, done.stdout.split())
    return memory, time.monotonic() - begin, cpu


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "million.csv"
        make(data)
        size = data.stat().st_size / 1e6
        read = f"import simile; simile.read({str(data)!r}, actions='pan')"
        steps = {
            "import everything": [sys.executable, "-c", "import simile.models.kernels.growing, sklearn, polars"],
            "read": [sys.executable, "-c", read],
            "train: 20 trees, 2 rounds": [
                *(str(SCRIPT), "train", str(data), "--actions", "pan", "--out", os.path.join(folder, "run")),
                *("--model", "SmoothForest(n_trees=20)", "--n-rounds", "2"),
            ],
        }
        print(f"{ROWS:,} rows x {CONTEXTS + 1} columns as CSV: {size:.0f} MB; as float64: {ROWS * 21 * 8 / 1e6:.0f} MB")
        print(f"{'':28} {'peak (MB)':>10} {'of the CSV':>11} {'wall (s)':>9} {'CPU (s)':>8}")
        for name, command in steps.items():
            memory, wall, cpu = peak(command)
            print(f"{name:28} {memory:10.0f} {memory / size:10.2f}x {wall:9.1f} {cpu:8.1f}")


if __name__ == "__main__":
    main()
