"""What cannot be exported is refused, with a way out."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge

import simile
from conftest import demos_of
from simile import Horizon
from simile.online.export import export_c, export_onnx
from simile.policies.cards import Card
from simile.policies.policies import SmoothPolicy, StochasticMixture
from test_export import learned


class Bent:
    """An h that is not linear."""

    order = 1

    def __call__(self, history: np.ndarray) -> np.ndarray:
        return np.tanh(history[:, 0])


class Odd:
    """Neither a policy nor a model that anything is known of."""

    def act(self, states: Any, chance: Any) -> None: ...

    def predict(self, S: Any) -> None: ...


@pytest.mark.parametrize("export", [export_c, export_onnx])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: replace(p, h=Bent(), n_contexts=3), "h must be linear"),
        (lambda p: StochasticMixture((p, p), (0.5, 0.5)), "tosses a coin"),
        (lambda p: SmoothPolicy, "policy must be an object, not a class"),
        (lambda p: object(), r"policy must have a method act\(\)"),
        (lambda p: Odd(), "policy must be made of SmoothPolicy.*got a Odd"),
        (lambda p: replace(p, f=Odd(), n_contexts=None, card=Card()), "does not say how many contexts"),
    ],
)
def test_a_policy_that_cannot_be_exported_is_refused_with_a_way_out(
    tmp_path: Path, export: Any, change: Any, message: str
):
    pytest.importorskip("onnx")
    path = tmp_path / ("pan.h" if export is export_c else "pan.onnx")
    with pytest.raises(simile.ArgumentError, match=message):
        export(change(learned()), path)
    assert not path.exists()


@pytest.mark.parametrize(("model", "name"), [(Ridge(), "Ridge"), (RandomForestRegressor(3), "forest of scikit-learn")])
def test_models_of_other_libraries_are_refused_by_name(tmp_path: Path, model: Any, name: str):
    pytest.importorskip("onnx")
    policy = simile.clone(demos_of(80, m=3), model=model, horizon=Horizon(1, 0)).policy
    with pytest.raises(simile.ArgumentError, match=f"{name}.*skl2onnx"):
        export_onnx(policy, tmp_path / "pan.onnx")
    with pytest.raises(simile.ArgumentError, match=f"{name}.*SmoothForest"):
        export_c(policy, tmp_path / "pan.h")


@pytest.mark.parametrize("name", ["", "9x", "a-b", "é", "_x", "x" * 41, 7])
def test_a_name_that_c_does_not_allow_is_refused(tmp_path: Path, name: Any):
    with pytest.raises(simile.ArgumentError, match="name must begin with a letter"):
        export_c(learned(), tmp_path / "pan.h", name)


def test_another_ending_is_refused(tmp_path: Path):
    with pytest.raises(simile.ArgumentError, match=r"path must end in \.h; got .*pan\.onnx"):
        export_c(learned(), tmp_path / "pan.onnx")
    with pytest.raises(simile.ArgumentError, match=r"path must end in \.onnx; got .*pan\.h"):
        export_onnx(learned(), tmp_path / "pan.h")


def test_models_of_another_horizon_are_refused_in_c(tmp_path: Path):
    with pytest.raises(simile.ArgumentError, match="do not read the states of its horizon"):
        export_c(replace(learned(), horizon=Horizon((0, 1, 5), 0)), tmp_path / "pan.h")


def test_without_onnx_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(simile.ArgumentError, match=r"pip install 'smooth-imitation\[export\]'"):
        export_onnx(learned(), tmp_path / "pan.onnx")


def test_without_torch_the_error_of_a_network_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("onnx")

    class Network(Odd):
        def module(self) -> None: ...

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(simile.ArgumentError, match=r"pip install 'smooth-imitation\[torch,export\]'"):
        export_onnx(replace(learned(), f=Network()), tmp_path / "pan.onnx")
