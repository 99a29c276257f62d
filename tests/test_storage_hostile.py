"""Files from anybody: whatever is wrong with one is a StorageError, and nothing in it is run."""

from __future__ import annotations

import json
import os
import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save as save_tensors

from conftest import demos_of
from simile import Bagging, Horizon, Mixture, PreviousAction, SmoothForest, SmoothPolicy, rollout_out_of_bag
from simile.errors import StorageError
from simile.models.regularizers import Autoregressor
from simile.policies.storage import encoding, files, loading
from simile.policies.storage.files import Packed, from_bytes, to_bytes
from simile.policies.storage.loading import load, read_header
from test_storage import FOREST, flipped, learned, nested, sealed, with_lines, zipped


@pytest.fixture(scope="module")
def policy() -> Mixture:
    return learned(demos_of(60, 50, 40, rate=25.0))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.safetensors"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: b"", "it is empty"),
        (lambda d: b"abc", "no safetensors file"),
        (lambda d: d[: len(d) * 9 // 10], "do not fill it"),
        (lambda d: d[:-1], "do not fill it"),
        (lambda d: d[:300], "no safetensors file, or cut off"),
        (lambda d: d + b"\0", "do not fill it"),
        (lambda d: flipped(d, -1), "does not match its digest: the file is damaged: get it anew"),
        (lambda d: pickle.dumps({"policy": 1}), "no safetensors file"),
        (lambda d: zipped({"a": b"b"}), "no safetensors file"),
        (lambda d: b"frame,pan\n0,1.5\n" * 100, "no safetensors file"),
        (lambda d: (20).to_bytes(8, "little") + b"[" * 20, "no safetensors header"),
        (lambda d: (9**6).to_bytes(8, "little") + b"[" * 9**6, "no safetensors header"),
        (lambda d: (2).to_bytes(8, "little") + b"{}", "safetensors file of something else"),
        (lambda d: save_tensors({"w": np.zeros(3)}), "safetensors file of something else: this is no policy of simile"),
        (lambda d: save_tensors({"w": np.zeros(3)}, metadata={"format": "pt"}), "of something else"),
        (lambda d: save_tensors({}, metadata={"simile": "{"}), "no JSON object"),
        (lambda d: save_tensors({}, metadata={"simile": "[]"}), "no JSON object"),
        (lambda d: save_tensors({}, metadata={"simile": '{"format": 1, "format": 2}'}), "no JSON object"),
        (lambda d: save_tensors({}, metadata={"simile": '{"version": ' + "9" * 5000 + "}"}), "no JSON object"),
        (lambda d: save_tensors({}, metadata={"simile": '{"format": "simile-policy"}'}), "of something else"),
    ],
)
def test_files_that_are_no_policies_are_told_apart(policy, path: Path, make, message: str):
    path.write_bytes(make(to_bytes(policy)))
    for read in (load, read_header):
        with pytest.raises(StorageError, match=message) as caught:
            read(path)
        assert str(path) in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_missing_files_folders_and_pipes_are_told(policy, tmp_path: Path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    for place, message in (
        (tmp_path / "none", "there is no such file"),
        (tmp_path, "it is a folder"),
        (tmp_path / "pipe", "no regular file"),
        (tmp_path / "a\0b", "cannot be read"),
        (tmp_path / "pipe" / "x", "cannot be read"),
        ("/dev/zero", "no regular file"),
        (3.5, "cannot be read as a policy"),
    ):
        with pytest.raises(StorageError, match=message):
            load(place)
    policy.save(tmp_path / "p")
    monkeypatch.setattr(loading, "LARGEST_FILE", 1000)
    with pytest.raises(StorageError, match=r"bytes, and at most 1,000 are read"):
        load(tmp_path / "p")


def changed(tree: Any, place: str, value: Any) -> Any:
    """Return a copy of a tree with another value at a dotted place; ... deletes it."""
    tree = json.loads(json.dumps(tree))
    *way, last = [int(p) if p.isdigit() else p for p in place.split(".")]
    inside = tree
    for step in way:
        inside = inside[step]
    if value is ...:
        del inside[last]
    else:
        inside[last] = value
    return tree


FIRST = "policy.components.0"


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("version", 7, r"written by a newer simile: version 7 of the format, and this one reads 6: upgrade"),
        ("version", 10**300, "written by a newer simile"),
        ("version", True, "something else"),
        ("version", -1, "something else"),
        ("version", "1", "something else"),
        ("format", "other", "something else"),
        ("library", 3, "must have the entries"),
        ("extra", 1, "must have the entries"),
        ("card", ..., "must have the entries"),
        ("card", [], "card must be an object of kind Card"),
        ("card.rate", 0, r"card\.rate must be a finite number"),
        ("card.rate", "fast", r"card\.rate must be a finite number"),
        ("card.rate", 10**400, r"card\.rate must be a finite number"),
        ("card.rate", 1e18, r"card\.rate must be a finite number from 1e-09 to 1e\+06; got 1e\+18"),
        ("card.rate", 1.7e308, r"card\.rate must be a finite number from 1e-09 to 1e\+06"),
        ("card.rate", 1e-300, r"card\.rate must be a finite number from 1e-09 to 1e\+06"),
        ("card.action_names", [f"a{i}" for i in range(50)], "card must name all 1 actions, or none; got 50 names"),
        ("card.context_names", ["x0"], "card must name all 2 contexts, or none; got 1 names"),
        ("card.context_names", ["x0", "x0"], "card must be with different names"),
        ("card.context_names", ["x0", "a0"], "card must be with different names"),
        ("card.context_names", ["x0", "x" * 1001], "names, of 1000 letters at most"),
        ("card.context_names", "x0", r"card\.context_names must be a list"),
        ("card.context_names", [1], r"card\.context_names must be a text"),
        ("card.training", [], r"card\.training must be an object"),
        ("card.extra", 1, "card has a field that no Card has"),
        ("policy", None, "policy must be an object of kind SmoothPolicy or Mixture or StochasticMixture"),
        ("policy.kind", "Forest", "policy must be an object of kind"),
        ("policy.kind", ["Mixture"], "policy must be an object of kind"),
        ("policy.components", [], r"policy\.components must be a list of 1 to 1000"),
        ("policy.components", [[]] * 1001, r"policy\.components must be a list of 1 to 1000"),
        ("policy.components", {}, r"policy\.components must be a list"),
        ("policy.weights", [0.5, 0.5], r"policy\.weights must be a list of 3 numbers"),
        ("policy.weights", [0.5, 0.5, 0.5], r"policy\.weights must be numbers that sum to one"),
        ("policy.weights", [2.0, -0.5, -0.5], r"policy\.weights must be a list of 3 numbers from 0 to 1"),
        ("policy.weights", [True, False, False], r"policy\.weights must be a list of 3 numbers"),
        ("policy.weights", ..., "policy must have a field weights"),
        ("policy.extra", 1, "policy has a field that no Mixture has: 'extra'"),
        (f"{FIRST}.extra", "x" * 10**6, r"components\.0 has a field that no SmoothPolicy has"),
        (f"{FIRST}.smoothness", -1.0, "smoothness must be a finite number from 0"),
        (f"{FIRST}.smoothness", "x" * 10**6, "smoothness must be a finite number from 0"),
        (f"{FIRST}.smoothness", 2**2000, "smoothness must be a finite number from 0"),
        (f"{FIRST}.n_contexts", 0, "n_contexts must be a whole number from 1"),
        (f"{FIRST}.n_contexts", 1.0, "n_contexts must be a whole number"),
        (f"{FIRST}.n_contexts", 3, "must be a forest for 3 contexts"),
        (f"{FIRST}.n_contexts", 10**15, "n_contexts must be a whole number"),
        (f"{FIRST}.f", None, r"f must be an object of kind Forest or"),
        (f"{FIRST}.f.kind", "os.system", r"f must be an object of kind Forest or"),
        (f"{FIRST}.f.width", 2**40, "width must be a whole number"),
        (f"{FIRST}.f.width", 4, "must be a forest for 2 contexts"),
        (f"{FIRST}.f.value", None, "value must be a reference to a tensor"),
        (f"{FIRST}.f.value", {"tensor": f"{FIRST}.f.gain"}, "value must be a reference to a tensor"),
        (f"{FIRST}.f.value.tensor", [], "value must be a reference to a tensor"),
        (f"{FIRST}.f.bag.bagging", "__class__", "bagging must be one of NONE, ROWS, SEQUENCES"),
        (f"{FIRST}.f.bag", {"same": FIRST}, "bag must be an object of kind Bag"),
        (f"{FIRST}.h.damping", 1.5, "damping must be a finite number from 0 to 1"),
        (f"{FIRST}.h", {"same": f"{FIRST}.h"}, "h must be an object of kind"),
        (f"{FIRST}.horizon.context_lags", [0, 10**9, 1], "context_lags must be a whole number from 0 to 100000"),
        (f"{FIRST}.horizon.context_lags", [0, 2, 1], "context_lags must be different lags in order"),
        (f"{FIRST}.horizon.context_lags", [0, 0], "context_lags must be different lags in order"),
        (f"{FIRST}.horizon.context_lags", [], "context_lags must be different lags in order"),
        (f"{FIRST}.horizon.context_lags", [0, 1, 3], "must be a forest for 2 contexts"),
        (f"{FIRST}.horizon.action_lags", [0], "action_lags must be a whole number from 1"),
        (f"{FIRST}.horizon.action_lags", [True], "action_lags must be a whole number from 1"),
        (f"{FIRST}.horizon.action_lags", [2], "must be a forest for 2 contexts"),
        (f"{FIRST}.naive", None, "naive must be the naive of an earlier component"),
        (f"{FIRST}.naive", {"same": f"{FIRST}.naive"}, "naive must be the naive of an earlier component"),
        (f"{FIRST}.naive", {"same": "policy.components.1.naive"}, "naive must be the naive of an earlier component"),
        (f"{FIRST}.units", {"same": "card"}, "units must be the units of an earlier component"),
        ("policy.components.1.units", {"same": []}, "units must be the units of an earlier component"),
        ("policy.components.1.units.more", 1, "units must be the units of an earlier component"),
        ("policy.components.1.space", {"same": f"{FIRST}.units"}, "space must be the space of an earlier component"),
        (f"{FIRST}.units.scale", [0.0], "scales above zero"),
        (f"{FIRST}.units.scale", [1e-320], "scales above zero"),
        (f"{FIRST}.units.center", [-1e101], r"no number beyond 1e\+100"),
        (f"{FIRST}.units.scale", [1.0, 1.0], "as many centers as scales"),
        (f"{FIRST}.units.center", [None], "center must be a list of finite numbers"),
        (f"{FIRST}.units", {"kind": "Units", "center": [0, 0], "scale": [1, 1]}, "must be for one or for 1 actions"),
        ("policy.components.1.units", {"kind": "Units", "center": [0], "scale": [1]}, "must share their units"),
        (f"{FIRST}.space.low", [-99.0, -99.0], "must be for one or for 1 actions"),
        (f"{FIRST}.space.low", [], "must have bounds low < high"),
        (f"{FIRST}.space", {"kind": "ActionSpace", "low": [2], "high": [1]}, "must have bounds low < high"),
    ],
)
def test_wrong_descriptions_are_refused_though_the_digest_is_right(policy, path: Path, place, value, message: str):
    packed = from_bytes(to_bytes(policy))
    path.write_bytes(sealed(Packed(changed(packed.header, place, value), packed.tensors)))
    with pytest.raises(StorageError, match=message):
        load(path)


def test_deep_nesting_is_refused(policy, path: Path):
    packed = from_bytes(to_bytes(policy.components[0]))
    inside = packed.header["policy"]
    for depth in (100, 400):
        deep = inside
        for _ in range(depth):
            deep = {"kind": "Mixture", "components": [deep], "weights": [1.0]}
        path.write_bytes(sealed(Packed({**packed.header, "policy": deep}, packed.tensors)))
        with pytest.raises(StorageError, match="nested too deeply"):
            load(path)
    path.write_bytes(sealed(Packed(changed(packed.header, "card.training", nested(100)), packed.tensors)))
    with pytest.raises(StorageError, match="nested 64 deep at most"):
        load(path)
    text = sealed(packed)
    header = json.dumps({"__metadata__": {"simile": '{"policy": ' + "[" * 10**5}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + text[-8:])
    with pytest.raises(StorageError, match="no JSON object"):
        load(path)


def edited(packed: Packed, name: str, edit: Any) -> Packed:
    tensors = {key: array.copy() for key, array in packed.tensors.items()}
    found = edit(tensors[name])
    tensors[name] = tensors[name] if found is None else found
    return Packed(packed.header, tensors)


def put(place: Any, value: Any) -> Any:
    return lambda array: array.__setitem__(place, value)


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("f.child", put(0, 0), "child must lie further on"),
        ("f.child", put(0, -1), "child must lie further on"),
        ("f.child", put(0, 2**31 - 1), "child must lie further on, and inside"),
        ("f.child", lambda a: put(0, len(a) - 1)(a), "child must lie further on, and inside"),
        ("f.child", put(-1, 0), "child of a leaf must be the leaf itself"),
        ("f.child", put(0, 3), "child must belong to one node alone"),
        ("f.missing_right", put(-1, True), "child of a leaf must be the leaf itself, for any value"),
        ("f.threshold", put(-1, 0.0), "child of a leaf must be the leaf itself, for any value"),
        ("f.threshold", put(0, np.nan), "threshold must not be NaN"),
        ("f.feature", put(0, 7), "feature must be a feature or -1"),
        ("f.feature", put(0, -2), "feature must be a feature or -1"),
        ("f.feature", put(0, -1), "child of a leaf must be the leaf itself"),
        ("f.feature", put(-1, 0), "child must lie further on"),
        ("f.depths", put(0, 2**31 - 1), "depths must be how deep the trees are"),
        ("f.depths", put(0, 0), "depths must be how deep the trees are"),
        ("f.depths", put(0, -1), "depths must be how deep the trees are"),
        ("f.roots", put(0, -1), "roots must be nodes, in order"),
        ("f.roots", put(-1, 2**30), "roots must be nodes, in order"),
        ("f.roots", put(1, 0), "roots must be nodes, in order"),
        ("f.roots", put(0, 1), "roots must be no node's child"),
        ("f.value", put((0, 0), np.nan), "value must be finite"),
        ("f.gain", put(0, np.inf), "gain must be finite"),
        ("f.columns", put(0, 3), "columns must lie in the frame"),
        ("f.columns", put(0, -1), "columns must lie in the frame"),
        ("f.columns", put(0, 1), "must be a forest for 2 contexts"),
        ("f.lags", put(0, 10**9), "lags must be within reach"),
        ("f.lags", put(0, -(10**9)), "lags must be within reach"),
        ("f.lags", put(0, -1), "must be a forest for 2 contexts"),
        ("f.lags", put(0, 1), "must be a forest for 2 contexts"),
        ("f.number", put(0, 3), "number must tell a seed"),
        ("f.number", put(slice(None), 1), "number must tell a different seed"),
        ("f.bag.seeds", put(0, -1), "seeds must not be negative"),
        ("f.bag.starts", put(-1, 2**40), "starts must rise from 0"),
        ("f.bag.starts", put(0, 1), "starts must rise from 0"),
        ("f.bag.starts", lambda a: a[:1], "starts must rise from 0"),
        ("f.value", lambda a: a.astype(np.float32), r"value must be a tensor of float64 of shape \(\d+, any\)"),
        ("f.value", lambda a: a[:-1], "value must be a tensor of float64"),
        ("f.value", lambda a: a[:, 0], "value must be a tensor of float64"),
        ("f.value", lambda a: np.repeat(a, 2, axis=1), "must be a forest for|width must be a whole number"),
        ("f.feature", lambda a: a[:0], "feature must be a tensor of int32"),
        ("f.roots", lambda a: a.astype(np.int64), "roots must be a tensor of int32"),
        ("f.missing_right", lambda a: a.astype(np.uint8), "missing_right must be a tensor of bool"),
        ("h.coefficients", put((0, 0), np.inf), "coefficients must be finite"),
        ("h.coefficients", lambda a: np.zeros((100_001, 1)), "coefficients must be finite, and 1000 at most"),
        ("h.coefficients", lambda a: np.repeat(a, 2, axis=1), "must be a forest for"),
        ("h.coefficients", lambda a: a[:, :0], "coefficients must be a tensor of float64"),
        ("h.coefficients", lambda a: a.astype(np.float16), "a type that no policy has, F16"),
    ],
)
def test_hostile_arrays_are_refused_though_the_digest_is_right(policy, path: Path, name: str, edit, message: str):
    packed = edited(from_bytes(to_bytes(policy)), f"{FIRST}.{name}", edit)
    path.write_bytes(sealed(packed))
    with pytest.raises(StorageError, match=message):
        load(path)


@pytest.fixture(scope="module")
def lines() -> SmoothPolicy:
    return with_lines(learned(demos_of(60, 50, 40, rate=25.0), n_rounds=0))


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("feature", put(0, 7), "feature must be a feature"),
        ("feature", put(0, -1), "feature must be a feature"),
        ("feature", put(0, -(2**63)), "feature must be a feature"),
        ("feature", put(0, 2**63 - 1), "feature must be a feature"),
        ("feature", lambda a: a.astype(np.int32), "feature must be a tensor of int64"),
        ("feature", lambda a: a[:-1], r"must be a tensor of float64 of shape \(3"),
        ("feature", lambda a: a[:0], r"must be a tensor of float64 of shape \(0"),
        ("feature", lambda a: a[:, np.newaxis], r"feature must be a tensor of int64 of shape \(any\)"),
        ("knot", put(0, np.nan), "knot must be finite, or -inf"),
        ("knot", put(0, np.inf), "knot must be finite, or -inf"),
        ("knot", lambda a: a[:-1], r"knot must be a tensor of float64 of shape \(4\)"),
        ("knot", lambda a: a.astype(np.float32), "knot must be a tensor of float64"),
        ("fill", put(0, np.nan), "fill must be finite"),
        ("fill", put(0, -np.inf), "fill must be finite"),
        ("fill", lambda a: a[:-1], r"fill must be a tensor of float64 of shape \(4\)"),
        ("coefficient", put((0, 0), np.nan), "coefficient must be finite"),
        ("coefficient", put((0, 0), np.inf), "coefficient must be finite"),
        ("coefficient", lambda a: a[:, 0], r"coefficient must be a tensor of float64 of shape \(4, 1\)"),
        ("coefficient", lambda a: np.repeat(a, 2, axis=1), r"coefficient must be a tensor of float64"),
        ("coefficient", lambda a: a[:0], r"coefficient must be a tensor of float64"),
        ("intercept", put(0, np.nan), "intercept must be finite"),
        ("intercept", lambda a: a[:0], "intercept must be a tensor of float64"),
        ("intercept", lambda a: np.repeat(a, 2), r"coefficient must be a tensor of float64 of shape \(4, 2\)"),
        ("columns", put(0, 3), "columns must lie in the frame"),
        ("columns", put(0, -1), "columns must lie in the frame"),
        ("columns", put(0, 1), "must be piecewise linear for 2 contexts, 1 actions and the lags of the horizon"),
        ("columns", lambda a: a[:-1], "lags must be a tensor of int64"),
        ("columns", lambda a: a[:0], "columns must be a tensor of int64"),
        ("lags", put(0, 10**9), "lags must be within reach"),
        ("lags", put(0, -1), "and the lags of the horizon"),
        ("lags", put(0, 1), "must be piecewise linear for 2 contexts"),
    ],
)
def test_hostile_lines_are_refused_though_the_digest_is_right(lines, path: Path, name: str, edit, message: str):
    path.write_bytes(sealed(edited(from_bytes(to_bytes(lines)), f"policy.f.models.1.{name}", edit)))
    with pytest.raises(StorageError, match=message):
        load(path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("width", 2**40, "width must be a whole number"),
        ("width", 1, "width must be a whole number from 2"),
        ("width", 4, "must be piecewise linear for 2 contexts"),
        ("extra", 1, "has a field that no PiecewiseLinear has: 'extra'"),
        ("knot", None, "knot must be a reference to a tensor"),
        ("knot", {"tensor": "policy.f.models.1.fill"}, "knot must be a reference to a tensor"),
        ("fill", ..., "must have a field fill"),
        ("kind", "Lines", "must be an object of kind Forest or PiecewiseLinear or"),
    ],
)
def test_wrong_descriptions_of_lines_are_refused(lines, path: Path, place: str, value, message: str):
    packed = from_bytes(to_bytes(lines))
    path.write_bytes(sealed(Packed(changed(packed.header, f"policy.f.models.1.{place}", value), packed.tensors)))
    with pytest.raises(StorageError, match=message):
        load(path)


def test_lines_for_another_horizon_or_other_actions_are_refused(lines, path: Path):
    one = lines.f.models[1]
    wide = replace(one, coefficient=np.ones((4, 2)), intercept=np.ones(2), width=one.width + 1)
    for policy, message in (
        (replace(lines, f=one, n_contexts=3), "must be piecewise linear for 3 contexts"),
        (replace(lines, f=one, horizon=Horizon(1, 1), naive=None), "must be piecewise linear for 2 contexts"),
        (replace(lines, f=wide, n_contexts=None, naive=None), "must be piecewise linear for 2 contexts, 1 actions"),
        (replace(lines, naive=one), "naive must be piecewise linear for 2 contexts"),
    ):
        policy.save(path)
        with pytest.raises(StorageError, match=message):
            load(path)


def test_trees_must_lie_deepest_first(path: Path):
    policy = learned(demos_of(200), n_rounds=0, model=SmoothForest(n_trees=20, min_leaf=8, max_depth=9))
    f = policy.f
    assert f.depths[0] > f.depths[-1]
    backwards = replace(f, roots=f.roots[[-1]], depths=f.depths[[-1]], number=f.number[[-1]])
    replace(policy, f=backwards).save(path)
    load(path)  # one tree alone is in order
    turned = replace(f, roots=np.sort(f.roots), depths=f.depths[::-1].copy())
    replace(policy, f=turned).save(path)
    with pytest.raises(StorageError, match="depths must"):
        load(path)


def test_an_endless_branch_is_checked_in_no_time(policy, path: Path):
    """One branch of 200,000 nodes: its depth must not be found step by step."""
    part = policy.components[0]
    n = 200_001
    feature = np.where(np.arange(n) % 2 == 0, 0, -1).astype(np.int32)
    feature[-1] = -1
    child = np.where(feature == 0, np.arange(n) + 1, np.arange(n)).astype(np.int32)
    f = replace(
        part.f,
        feature=feature,
        child=child,
        threshold=np.where(feature == 0, 0.0, np.inf).astype(np.float32),
        missing_right=np.zeros(n, np.bool_),
        value=np.zeros((n, 1)),
        gain=np.zeros(n),
        roots=np.zeros(1, np.int32),
        depths=np.full(1, n // 2, np.int32),
        number=np.zeros(1, np.intp),
    )
    replace(part, f=f).save(path)
    load(path)
    replace(part, f=replace(f, depths=f.depths + 1)).save(path)
    with pytest.raises(StorageError, match="depths must be how deep the trees are"):
        load(path)


def test_tensors_that_nobody_refers_to_or_that_are_missing_are_refused(policy, path: Path):
    packed = from_bytes(to_bytes(policy))
    path.write_bytes(sealed(Packed(packed.header, {**packed.tensors, "stray": np.zeros(2)})))
    with pytest.raises(StorageError, match="a tensor that nothing refers to: 'stray'"):
        load(path)
    fewer = {name: array for name, array in packed.tensors.items() if not name.endswith("0.f.gain")}
    path.write_bytes(sealed(Packed(packed.header, fewer)))
    with pytest.raises(StorageError, match="gain must be a reference to a tensor"):
        load(path)


def test_bytes_that_are_neither_true_nor_false_are_refused(policy, path: Path):
    data = bytearray(to_bytes(policy))
    size = files._header_size(bytes(data))
    outer = json.loads(data[8 : 8 + size])
    begin = outer[f"{FIRST}.f.missing_right"]["data_offsets"][0]
    data[8 + size + begin] = 7
    path.write_bytes(bytes(data))
    with pytest.raises(StorageError, match="neither true nor false"):
        load(path)


def test_components_must_fit_each_other(path: Path):
    one, two = (learned(demos_of(60, m=m), n_rounds=0) for m in (2, 3))
    two = replace(two, units=one.units)
    for mixed in (Mixture((one, two), (0.5, 0.5)), Mixture((one, replace(two, n_contexts=None)), (0.5, 0.5))):
        mixed.save(path)
        with pytest.raises(StorageError, match="components must read as many contexts each"):
            load(path)
    wide = replace(learned(demos_of(60, k=2), n_rounds=0), units=one.units)
    Mixture((one, wide), (0.5, 0.5)).save(path)
    with pytest.raises(StorageError, match="components must have as many actions each"):
        load(path)


def test_what_nobody_thought_of_is_a_storage_error_too(policy, path: Path, monkeypatch):
    policy.save(path)
    monkeypatch.setattr(files, "read", lambda *_: 1 / 0)
    with pytest.raises(StorageError, match=r"cannot be read as a policy \(ZeroDivisionError"):
        load(path)


def test_every_kind_that_is_written_is_read():
    from inspect import getsource

    from simile.policies.storage import decoding

    for kind in encoding.KINDS:
        assert f'"{kind}"' in getsource(decoding), kind


# What a file would take


def never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_read_tensor", lambda *_: pytest.fail("more than the header was read"))


def test_what_a_policy_takes_is_known_by_its_header(path: Path, monkeypatch):
    """A file of some 20 kB that looks 100,000 frames back takes megabytes for every stream."""
    learned(demos_of(60), n_rounds=0, horizon=Horizon((0, 100_000), ())).save(path)
    assert path.stat().st_size < 30_000
    assert load(path).reach == 100_000
    never_read(monkeypatch)
    for read in (load, read_header, loading.load_own):
        with pytest.raises(
            StorageError, match=r"takes 3\.2 MB of memory: .* 100,000 frames back at 2 contexts; it may take 2 MB"
        ):
            read(path, max_memory=2)


def test_names_count_where_nothing_else_tells_how_many_contexts_there_are(policy, path: Path, monkeypatch):
    packed = from_bytes(to_bytes(policy.components[0]))
    names = [f"x{i}" for i in range(100_000)]
    path.write_bytes(sealed(Packed(changed(packed.header, "card.context_names", names), packed.tensors)))
    with pytest.raises(StorageError, match="must name all 2 contexts"):
        load(path)
    never_read(monkeypatch)
    with pytest.raises(StorageError, match=r"MB of memory: .* at 100,000 contexts; it may take 10 MB"):
        load(path, max_memory=10)


def test_the_tables_of_a_policy_count(policy, path: Path, monkeypatch):
    policy.save(path)
    load(path, max_memory=1)
    never_read(monkeypatch)
    with pytest.raises(StorageError, match=r"kB for its tables, and .* it may take 10 kB: .*--max-memory"):
        load(path, max_memory=0.01)


@pytest.mark.parametrize("of_what", ["a tensor", "nothing", "zeros"])
def test_a_sparse_file_of_gigabytes_is_not_read_before_its_header(policy, path: Path, monkeypatch, of_what: str):
    data, room = to_bytes(policy), 3 * 2**30
    header = json.loads(data[8 : 8 + files._header_size(data)])
    if of_what == "a tensor":
        end = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
        header["stray"] = {"dtype": "U8", "shape": [room], "data_offsets": [end, end + room]}
    begin = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(b"" if of_what == "zeros" else len(begin).to_bytes(8, "little") + begin)
        file.truncate(8 + len(begin) + end + room if of_what == "a tensor" else room)
    never_read(monkeypatch)
    tracemalloc.start()
    for read in (load, read_header):
        with pytest.raises(
            StorageError, match=r"nothing refers to: 'stray'|do not fill it|something else|no safetensors"
        ):
            read(path, max_memory=1e6)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


def test_tensors_must_lie_one_after_the_other(policy, path: Path):
    data = to_bytes(policy)
    size = files._header_size(data)
    for place, value, message in (
        ("data_offsets", [0, 8], "not as many bytes as it says|do not fill it"),
        ("data_offsets", [8], "absurd shape or place"),
        ("data_offsets", [-8, 0], "absurd shape or place"),
        ("data_offsets", [0, True], "absurd shape or place"),
        ("shape", [0, 2**62, 2**62], "absurd shape"),
        ("shape", [1] * 9, "absurd shape"),
        ("shape", "12", "absurd shape"),
        ("dtype", "BF16", "a type that no policy has"),
        ("dtype", ["F64"], "a type that no policy has"),
        ("extra", 1, "not described as in safetensors"),
    ):
        header = json.loads(data[8 : 8 + size])
        header[f"{FIRST}.f.roots"][place] = value
        begin = json.dumps(header).encode()
        path.write_bytes(len(begin).to_bytes(8, "little") + begin + data[8 + size :])
        with pytest.raises(StorageError, match=message):
            load(path)


def test_a_hostile_bag_takes_no_room(path: Path):
    bagged = replace(FOREST, bagging=Bagging.SEQUENCES, n_trees=8)
    policy = learned(demos_of(60, 50), n_rounds=0, model=bagged, horizon=Horizon(2, 0), regularizer=PreviousAction())
    demos = demos_of(60, 50)
    expected = rollout_out_of_bag(policy, demos)
    bag = replace(policy.f.bag, starts=np.array([0, 1, 2**31 - 1]))
    replace(policy, f=replace(policy.f, bag=bag)).save(path)
    hostile = load(path)
    tracemalloc.start()
    found = rollout_out_of_bag(hostile, demos)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
    assert all(map(np.array_equal, found, expected))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: {"horizon": Horizon((0, 100_001), ())}, "at most 100,000 frames of looking back; got 100,001"),
        (lambda p: {"h": Autoregressor(np.zeros((1001, 1)), 1.0)}, "at most 1,000 as the order of h; got 1,001"),
        (lambda p: {"card": replace(p.card, rate=1e7)}, "at most 1,000,000.0 frames a second"),
        (lambda p: {"card": replace(p.card, rate=1e-10)}, "seconds between frames"),
        (lambda p: {"card": replace(p.card, context_names=("x" * 1001, "y"))}, "at most 1,000 letters in a name"),
    ],
)
def test_what_would_not_be_read_is_not_written(policy, path: Path, change, message: str):
    one = policy.components[0]
    with pytest.raises(StorageError, match=message):
        replace(one, **change(one)).save(path)
    assert not path.exists()
