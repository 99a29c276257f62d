"""Whatever recordings look like, a result or a `SimileError`: never another exception, never a number that is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simile
from conftest import repeatable
from simile.errors import SimileError
from simile.online.export import export_c, export_onnx

RATES = (None, 1.0, 10.0, 30.0, 60.0, 200.0, 1000.0)
LONGEST = (12, 40, 100, 400, 1_000)
LIGHT: dict[str, Any] = {"model": simile.SmoothForest(n_trees=3), "n_rounds": 1}
PRESETS = ("paper", "authors", "searn", "smile", "dagger", "coach", "clone")


def steps(rng: np.random.Generator, base: Any) -> Any:
    """What changes now and then."""
    return np.floor(base / 2.0)


def ramps(rng: np.random.Generator, base: Any) -> Any:
    """What goes up and down evenly."""
    return np.abs(np.arange(len(base)) % 40 - 20) / 20.0


def jumps(rng: np.random.Generator, base: Any) -> Any:
    """What hardly moves, but for a few frames."""
    return 0.01 * base + 50.0 * (rng.random(len(base)) < 0.02)


def smooth(rng: np.random.Generator, base: Any) -> Any:
    """What a hand would do."""
    return np.convolve(base, np.ones(9) / 9.0, "same")[: len(base)]


def noise(rng: np.random.Generator, base: Any) -> Any:
    """What nobody can foresee."""
    return rng.normal(size=len(base))


def constant(rng: np.random.Generator, base: Any) -> Any:
    """What never moves."""
    return np.zeros(len(base))


KINDS = (steps, ramps, jumps, smooth, noise, constant)


def draw_task(rng: np.random.Generator, *, longest: int | None = None) -> simile.Demonstrations:
    """Draw recordings of any length, rate, scale and kind; contexts may be missing here and there, or all along."""
    n, k, m = int(rng.integers(1, 15)), int(rng.integers(1, 4)), int(rng.integers(1, 6))
    longest = int(rng.choice(LONGEST, p=(0.2, 0.3, 0.25, 0.2, 0.05))) if longest is None else longest
    kinds = [KINDS[i] for i in rng.integers(len(KINDS), size=k)]
    scale, spread = 10.0 ** rng.uniform(-6.0, 6.0, size=k), 10.0 ** rng.uniform(-6.0, 6.0, size=m)
    offset, origin = scale * rng.choice((0.0, 1.0, 1e5), size=k), spread * rng.choice((0.0, 1.0, 1e5), size=m)
    contexts, actions = [], []
    for _ in range(n):
        length = int(rng.integers(12, longest + 1))
        x = np.cumsum(rng.normal(size=(length, m)), axis=0) * spread + origin
        if rng.random() < 0.3:
            x[rng.random(x.shape) < 0.1] = np.nan
        if rng.random() < 0.1:
            x[:, 0] = np.nan
        base = np.cumsum(rng.normal(size=length))
        contexts.append(x)
        actions.append(np.column_stack([kind(rng, base) for kind in kinds]) * scale + offset)
    return simile.Demonstrations.from_arrays(contexts, actions, rate=RATES[int(rng.integers(len(RATES)))])


def check(i: int, folder: Path, *, longest: int | None = None) -> None:
    """Take a drawn task through all that a user may call."""
    with repeatable(i) as rng:
        demos = draw_task(rng, longest=longest)
        try:
            run = simile.learn(demos)
        except SimileError:
            return
        assert np.isfinite(run.chosen.error)
        assert str(run)
        assert str(run.verdict)
        assert str(simile.evaluate(run.policy, demos, baseline=run.baseline))
        assert all(np.isfinite(a).all() for a in simile.rollout(run.policy, demos))
        file = folder / "policy.safetensors"
        run.policy.save(file)
        loaded = simile.load(file)
        predictor = simile.Predictor(loaded, start=demos.actions[0][:3])
        assert all(np.isfinite(predictor.step(x)).all() for x in demos.contexts[0][3:9])
        for export, name in ((export_c, "policy.h"), (export_onnx, "policy.onnx")):
            _ask(lambda export=export, name=name: export(loaded, folder / name))
        _ask(lambda: simile.path(demos, smoothness=2).points[-1].policy)
        algorithm = getattr(simile, PRESETS[i % len(PRESETS)])
        given = {name: value for name, value in LIGHT.items() if algorithm is not simile.clone or name == "model"}
        rolled = _ask(lambda: simile.rollout(algorithm(demos, **given).policy, demos))
        assert rolled is None or all(np.isfinite(a).all() for a in rolled)


def _ask(call: Any) -> Any:
    """Return what a call returns; nothing where it refuses."""
    try:
        return call()
    except SimileError:
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(10))
def test_any_recordings_make_a_policy_or_are_refused_in_words(part: int, tmp_path: Path):
    for i in range(10 * part, 10 * part + 10):
        check(i, tmp_path)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(20))
def test_two_thousand_more_recordings_do(part: int, tmp_path: Path):
    for i in range(100 + 95 * part, 195 + 95 * part):
        check(i, tmp_path)
    check(2_000 + part, tmp_path, longest=20_000)
