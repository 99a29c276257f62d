"""What `simile train` prints in the tutorial, on the data that it is about (found as by benchmarks/accuracy.py).

python benchmarks/tutorial.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from accuracy import Case, find_data

import simile

HELD_OUT = 20  # the split that leaves handling_part22 out
ASKED = {"as smooth as the expert": [], "smoother": ["--smoothness", "MatchExpert(0.25)"]}


def main() -> None:
    """Train twice, and print what the command prints."""
    if (folder := find_data()) is None:
        sys.exit("the tutorial is about real data")
    with tempfile.TemporaryDirectory() as place:
        for name, part in zip(("train.csv", "test.csv"), Case("car_following", HELD_OUT, folder).load(), strict=True):
            simile.write(part, Path(place) / name)
        for title, asked in ASKED.items():
            words = ["train", "train.csv", "--test", "test.csv", "--no-report", "--out", title.split()[0], *asked]
            print(f"\n{title}:", flush=True)
            subprocess.run([sys.executable, "-m", "simile", *words], cwd=place, check=True)


if __name__ == "__main__":
    main()
