"""What the tests share: a hypothesis profile, the seed of the day, small tasks and quick models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from sklearn.tree import DecisionTreeRegressor

import simile
from simile.data import tasks

# Shared machines are slow at times: a deadline would test the machine, not the code.
settings.register_profile("simile", deadline=None, max_examples=16, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("simile"), max_examples=500)
settings.load_profile("simile")

# Damaged files and messages are others every day. Set before workers start, which inherit it: all have the same seed.
SEED = int(os.environ.setdefault("SIMILE_SEED", date.today().strftime("%Y%m%d")))
NO_BROWSER = "needs a browser"


def some(share: float) -> settings:
    """Try a share of the examples that a property would otherwise have, where each of them takes long."""
    return settings(max_examples=max(1, round(share * settings().max_examples)))


@contextmanager
def repeatable(i: int) -> Iterator[np.random.Generator]:
    """Give the i-th of many tries its draws; where it fails, the failure tells which one it was."""
    try:
        yield np.random.default_rng([SEED, i])
    except BaseException as error:
        error.add_note(f"try {i}; SIMILE_SEED={SEED} repeats it")
        raise


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say by which seed the fuzzing is repeated, and what was skipped that a browser would have tested."""
    terminalreporter.write_line(f"seed of the fuzzing: {SEED}, the day's; SIMILE_SEED={SEED} repeats it")
    skipped = sum(NO_BROWSER in str(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
    if skipped:
        terminalreporter.write_line(
            f"{skipped} page tests were skipped, since there is no browser: install Chromium or Google Chrome "
            "(on Debian and Ubuntu `apt-get install chromium`) to run them",
            yellow=True,
        )


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


@pytest.fixture(scope="session", autouse=True)
def _ledger_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what tests write out of the ledger of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def pursuit() -> tuple[simile.Demonstrations, simile.Demonstrations]:
    """The built-in task, training and test part."""
    return tasks.pursuit(n_sequences=12, length=300, seed=3).split(test=0.25)


@pytest.fixture
def tree() -> DecisionTreeRegressor:
    """A model that fits in no time."""
    return DecisionTreeRegressor(min_samples_leaf=8)
