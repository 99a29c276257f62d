"""Policies to serve: forests that follow twenty contexts at 60 frames a second, and contexts for them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import simile
from simile.data.tasks import pursuit

RATE = 60.0  # frames a second
CONTEXTS = 20


def learned(n_trees: int = 100, *, seed: int = 0) -> Any:
    """Learn a policy from a small synthetic set; another seed gives another policy for the same columns."""
    demos = pursuit(n_sequences=4, length=900, n_players=CONTEXTS, rate=RATE, seed=seed)
    model = simile.SmoothForest(n_trees=n_trees, n_jobs=1)
    return simile.clone(demos, model=model, horizon=simile.Horizon.auto(RATE), seed=seed).policy


def saved(path: Path, n_trees: int = 100, *, seed: int = 0) -> Any:
    """Learn a policy, write it to a file, and return it."""
    policy = learned(n_trees, seed=seed)
    policy.save(path)
    return policy


@cache
def contexts(seed: int = 7, length: int = 1_200) -> list[list[float]]:
    """Return the contexts of one sequence; they are short decimals, so that JSON does not round them."""
    demos = pursuit(n_sequences=1, length=length, n_players=CONTEXTS, rate=RATE, seed=seed)
    rounded: list[list[float]] = np.round(demos[0].contexts, 3).tolist()
    return rounded
