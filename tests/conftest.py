"""What the tests share: a hypothesis profile, small tasks and quick models."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from sklearn.tree import DecisionTreeRegressor

import simile
from simile.data import tasks

# Shared machines are slow at times: a deadline would test the machine, not the code.
settings.register_profile("simile", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("simile")


def demos_of(*lengths: int, m: int = 2, k: int = 1, seed: int = 0, rate: float | None = None) -> simile.Demonstrations:
    """Make random but related contexts and actions: the actions follow the contexts with some inertia."""
    rng = np.random.default_rng(seed)
    contexts, actions = [], []
    for length in lengths:
        x = np.cumsum(rng.normal(size=(length, m)), axis=0)
        a = np.zeros((length, k))
        for t in range(length):
            a[t] = 0.8 * a[max(t - 1, 0)] + 0.2 * x[t, 0] * np.arange(1, k + 1) + 0.01 * rng.normal(size=k)
        contexts.append(x)
        actions.append(a)
    return simile.Demonstrations.from_arrays(contexts, actions, rate=rate)


@pytest.fixture(scope="session")
def pursuit() -> tuple[simile.Demonstrations, simile.Demonstrations]:
    """The built-in task, training and test part."""
    return tasks.pursuit(n_sequences=12, length=300, seed=3).split(test=0.25)


@pytest.fixture
def tree() -> DecisionTreeRegressor:
    """A model that fits in no time."""
    return DecisionTreeRegressor(min_samples_leaf=8)
