"""`simile export`, and the C program of the docs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import simile
from commands import simile_
from conftest import demos_of
from test_export import COMPILERS, STRICT, compiles

MODEL = simile.SmoothForest(n_trees=4, n_jobs=1)
EXAMPLE = Path(__file__).parent.parent / "examples" / "export" / "main.c"


@pytest.fixture
def policy(tmp_path: Path) -> simile.SmoothPolicy:
    demos = demos_of(200, 200, m=3)
    found = simile.clone(demos, model=MODEL, horizon=simile.Horizon((0, 2), 0)).policy
    found.save(tmp_path / "policy.safetensors")
    return found


@compiles
@pytest.mark.parametrize("lead", [-4, 0, 4])
def test_export_writes_a_header_that_the_example_program_runs(policy: simile.SmoothPolicy, tmp_path: Path, lead: int):
    if lead:
        policy = simile.clone(demos_of(200, m=3), model=MODEL, horizon=simile.Horizon((0, 2), 0, lead)).policy
        policy.save(tmp_path / "policy.safetensors")
    said = simile_("export", "policy.safetensors", "pan.h", cwd=tmp_path, process=lead == 0).stdout
    assert said.startswith("compiled tables: ")
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[7, 1] = np.nan
    np.savetxt(tmp_path / "contexts.csv", X, fmt="%.17g", delimiter=",")
    compile_it = [COMPILERS[0], *STRICT, "-I.", "-o", "pan", str(EXAMPLE)]
    subprocess.run(compile_it, cwd=tmp_path, check=True)
    with (tmp_path / "contexts.csv").open() as lines:
        done = subprocess.run([tmp_path / "pan"], stdin=lines, capture_output=True, text=True, check=True)
    predictor = simile.Predictor(policy)
    expected = [action for x in X if (action := predictor.step(x)) is not None] + list(predictor.flush())
    assert np.allclose(np.array(done.stdout.split(), dtype=float)[:, np.newaxis], expected, rtol=0.0, atol=1e-12)


def test_export_writes_a_graph(policy: simile.SmoothPolicy, tmp_path: Path):
    onnx = pytest.importorskip("onnx")
    said = simile_("export", "policy.safetensors", "out/pan.onnx", cwd=tmp_path).stdout
    assert said.startswith("graph: ")
    assert [value.name for value in onnx.load(tmp_path / "out" / "pan.onnx").graph.input] == [
        "x",
        "contexts",
        "actions",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("policy.safetensors", "pan.c"), "OUT must end in .onnx or .h"),
        (("policy.safetensors", "pan.onnx", "--name", "pan"), "--name is for C headers"),
        (("policy.safetensors", "pan.h", "--name", "9"), "name must begin with a letter"),
        (("nothing.safetensors", "pan.h"), "there is no such file"),
    ],
)
def test_export_refuses_what_it_cannot_use(
    policy: simile.SmoothPolicy, tmp_path: Path, arguments: tuple[str, ...], message: str
):
    assert message in simile_("export", *arguments, cwd=tmp_path, code=2).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["policy.safetensors"]
