"""Policy files written before still load, and act with the same bits: tests/policies holds some of version 0.1.0.

They were learned from four sequences of `simile.tasks.pursuit`; rollouts.npz has two others (x0, a0, x1, a1) and what
each policy did on them, from the expert's first frames and from a cold start.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import simile

FOLDER = Path(__file__).parent / "policies"
# Torch may round otherwise on another processor; the kernels may not. The first guess of a mixture is now theirs, too.
CLOSE = {"network": 1e-5, "network.cold": 1e-5, "learned.cold": 1e-13}


@pytest.mark.parametrize("name", ["learned", "network", "paper", "searn"])
@pytest.mark.parametrize("start", [simile.ExpertStart(), simile.ColdStart()])
def test_a_policy_file_written_before_acts_with_the_same_bits(name: str, start: object):
    if name == "network":
        pytest.importorskip("torch")
    kept = np.load(FOLDER / "rollouts.npz")
    demos = simile.Demonstrations.from_arrays([kept["x0"], kept["x1"]], [kept["a0"], kept["a1"]])
    policy = simile.load(FOLDER / f"{name}.safetensors")
    which = f"{name}.cold" if isinstance(start, simile.ColdStart) else name
    for i, rolled in enumerate(simile.rollout(policy, demos, start=start)):
        np.testing.assert_allclose(rolled, kept[f"{which}.{i}"], rtol=0.0, atol=CLOSE.get(which, 0.0))


def test_a_policy_file_written_before_is_written_again_byte_for_byte(tmp_path: Path):
    for path in FOLDER.glob("*.safetensors"):
        simile.load(path).save(tmp_path / path.name)
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
