"""Write frames of a game and its operator as Parquet: as many as wanted, in files of many row groups, in little memory.

`python benchmarks/write_frames.py --frames 20_000_000 --out FOLDER` takes a minute or two and 1.8 GB of disk. The same
arguments give the same values. Sequences go on from row group to row group, as they do in files of others.
`simile train 'FOLDER/*.parquet' --dask local` reads them without further words.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from simile._common.files import replacing
from simile.data.tasks import DAMPING, STIFFNESS

RATE = 30.0
BLOCK = 128  # sequences that are made at a time
ROWS = 50_000  # of a row group


def play(rng: np.random.Generator, n: int, length: int, n_contexts: int) -> tuple[np.ndarray, np.ndarray]:
    """Play n sequences at once, as `tasks.pursuit` does one: contexts (n, length, m) and actions (n, length)."""
    step, delay = 1.0 / RATE, round(0.2 * RATE)
    goal, ball, speed = np.zeros((3, n))
    ground = np.empty((n, length + delay))
    for t in range(length + delay):
        goal = np.where(rng.random(n) < step / 3.0, rng.uniform(-15.0, 15.0, n), goal)
        speed += step * (4.0 * (goal - ball) - 4.0 * speed) + np.sqrt(step) * rng.normal(0.0, 2.0, n)
        ball += step * speed
        ground[:, t] = ball
    places = rng.normal(0.0, 4.0, (n, 1, n_contexts))
    contexts = ground[:, delay:, np.newaxis] + places + rng.standard_normal((n, length, n_contexts), dtype=np.float32)
    pan, turn = np.degrees(np.arctan2(ground[:, 0], 20.0)), np.zeros(n)
    actions = np.empty((n, length))
    for t in range(length):
        aim = np.degrees(np.arctan2(ground[:, t], 20.0))  # what was seen `delay` frames ago
        turn += step * (STIFFNESS * (aim - pan) - DAMPING * turn) + np.sqrt(step) * rng.normal(0.0, 2.0, n)
        pan = pan + step * turn
        actions[:, t] = pan
    return contexts, actions


def make_tables(first: int, n_sequences: int, length: int, n_contexts: int, seed: int) -> Iterator[pa.Table]:
    """Yield the rows of some sequences, from number `first` on, block by block."""
    for begin in range(first, first + n_sequences, BLOCK):
        n = min(BLOCK, first + n_sequences - begin)
        contexts, actions = play(np.random.default_rng([seed, begin]), n, length, n_contexts)
        yield pa.table(
            {
                "sequence": np.repeat(np.arange(begin, begin + n), length),
                "t": np.tile(np.arange(length) / RATE, n),
                **{f"x_{i}": contexts[:, :, i].ravel().astype(np.float32) for i in range(n_contexts)},
                "a_pan": actions.ravel(),
            }
        )


def write(folder: Path, *, frames: int, files: int, length: int, contexts: int, seed: int) -> int:
    """Write the files; returns how many frames there are, whole sequences as they are."""
    n_sequences = max(files, frames // length)
    for i in range(files):
        first, last = n_sequences * i // files, n_sequences * (i + 1) // files
        tables = make_tables(first, last - first, length, contexts, seed)
        start = next(tables)
        with (
            replacing(folder / f"frames-{i:04d}.parquet") as file,
            parquet.ParquetWriter(file, start.schema, use_dictionary=["sequence", "t"]) as writer,
        ):
            for table in chain([start], tables):
                writer.write_table(table, row_group_size=ROWS)
    return n_sequences * length


def main(arguments: list[str] | None = None) -> None:
    """Write, and say what was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--contexts", type=int, default=20)
    parser.add_argument("--files", type=int, help="a million frames each by default")
    parser.add_argument("--length", type=int, default=1_000, help="frames of a sequence")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    files = given.files or -(-given.frames // 1_000_000)
    begin = time.monotonic()
    frames = write(
        given.out, frames=given.frames, files=files, length=given.length, contexts=given.contexts, seed=given.seed
    )
    size = sum(path.stat().st_size for path in given.out.glob("frames-*.parquet"))
    in_memory = frames * (given.contexts + 1) * 8
    print(
        f"{frames:,} frames of {given.contexts} contexts in {files} files of {given.out}: {size / 1e6:,.0f} MB, "
        f"{in_memory / 1e6:,.0f} MB in memory; {time.monotonic() - begin:.0f} s"
    )


if __name__ == "__main__":
    main()
