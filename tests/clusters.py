"""A Dask cluster for tests, and files for its workers to read.

`client`, `threads` and `files` are fixtures; a test module takes them by name: `client, files = clusters.client,
clusters.files`.
"""

from __future__ import annotations

from contextlib import contextmanager

import dask
import distributed
import numpy as np
import pyarrow
import pytest

import simile
from conftest import demos_of
from simile import Horizon, SmoothForest

FOREST = SmoothForest(n_trees=3, min_leaf=4, max_depth=4)
QUICK = {"model": FOREST, "horizon": Horizon(2, 2), "n_rounds": 1}


dask.config.set(
    {"distributed.worker.profile.enabled": False}
)  # nobody looks at what workers do, a hundred times a second


@contextmanager
def cluster(n_workers: int, **options):
    """Start workers, and give the connection to them."""
    how = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0", **options}
    with distributed.LocalCluster(**how) as started, distributed.Client(started) as client:
        yield client


@pytest.fixture(scope="module")
def client():
    """Two worker processes."""
    with cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def threads():
    """Two workers in this process, which are there at once, to whom another process may connect."""
    with cluster(2, processes=False, protocol="tcp") as client:
        yield client


@pytest.fixture
def files(tmp_path):
    """Four files: two with two sequences each, two with one."""
    demos = demos_of(30, 40, 25, 50, 35, 45, rate=10.0)
    for i, part in enumerate((demos[:2], demos[2:3], demos[3:5], demos[5:])):
        simile.write(part, tmp_path / f"part-{i}.parquet")
    return tmp_path


def frames_of(n: int, *, label, clock=lambda i, t: t / 30.0, **more):
    """Make a table of n sequences of 37 to 113 frames, with a label and a time for each row."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(37, 113, size=n)
    which, when = np.repeat(np.arange(n), lengths), np.concatenate([np.arange(length) for length in lengths])
    columns = {
        "game": [label(i) for i in which],
        "t": [clock(i, t) for i, t in zip(which.tolist(), when.tolist(), strict=True)],
        "x_0": rng.normal(size=len(which)),
        "a_0": rng.normal(size=len(which)),
    }
    return pyarrow.table(columns | {name: value(which, when) for name, value in more.items()})
