"""Policy files: what is saved comes back to the bit, and what is wrong is refused, by name and with a way out."""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
import tracemalloc
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save as save_tensors
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

import simile
from conftest import demos_of
from simile import Bagging, Horizon, Mixture, SmoothForest, SmoothPolicy, StochasticMixture, rollout
from simile.data.recorded import ActionSpace, Units
from simile.errors import StorageError
from simile.models import PiecewiseLinear, WeightedModel
from simile.models.adapters import FittedRegressor
from simile.models.regularizers import Autoregressor
from simile.policies.cards import Card
from simile.policies.storage import rehearsal
from simile.policies.storage.files import Packed, digest, from_bytes, to_bytes
from simile.policies.storage.loading import check_savable, load, read_header

TREE = "sklearn.tree._tree.Tree"
RIDGE, SUPPORT = "sklearn.linear_model._ridge.Ridge", "sklearn.svm._classes.SVR"
FOREST = SmoothForest(n_trees=3, min_leaf=8, max_depth=4)
SMALL = {"horizon": Horizon(2, 1), "n_rounds": 2, "step_size": 0.5}


def learned(demos: simile.Demonstrations, algorithm: Any = simile.paper, **choices: Any) -> Any:
    return algorithm(demos, **{"model": FOREST, **SMALL, **choices}).policy


def with_lines(policy: SmoothPolicy) -> SmoothPolicy:
    """The policy with two sets of lines beside its forest."""
    rng, f = np.random.default_rng(0), policy.f

    def lines(n: int) -> PiecewiseLinear:
        return PiecewiseLinear(
            feature=rng.integers(len(f.columns), size=n),
            knot=np.where(np.arange(n) % 2, -np.inf, rng.normal(size=n)),
            fill=rng.normal(size=n),
            coefficient=0.1 * rng.normal(size=(n, f.n_actions)),
            intercept=rng.normal(size=f.n_actions),
            columns=f.columns,
            lags=f.lags,
            width=f.width,
        )

    return replace(policy, f=WeightedModel((f, lines(4), lines(3)), (0.5, 0.25, 0.25)))


def sealed(packed: Packed) -> bytes:
    """Write a file with a correct digest, whatever it holds: an attacker can do so too."""
    header = {**packed.header, "digest": digest(packed)}
    return save_tensors(packed.tensors, metadata={"simile": json.dumps(header)})


def flipped(data: bytes, place: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1
    return bytes(changed)


def assert_same_rollouts(one: Any, other: Any, demos: simile.Demonstrations) -> None:
    for start in (None, simile.ColdStart()):
        for a, b in zip(rollout(one, demos, start=start), rollout(other, demos, start=start), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.fixture(autouse=True)
def _no_rehearsal(monkeypatch) -> None:
    """Start no process for each file: test_storage_trust.py does."""
    monkeypatch.setattr(rehearsal, "rehearse", lambda *_: None)


@pytest.fixture(scope="module")
def demos() -> simile.Demonstrations:
    return demos_of(60, 50, 40, rate=25.0)


@pytest.fixture(scope="module")
def policy(demos: simile.Demonstrations) -> Mixture:
    return learned(demos)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.safetensors"


# Round trips


@pytest.mark.parametrize(
    ("choices", "trusted"),
    [
        ({}, ()),
        ({"algorithm": simile.searn}, ()),
        ({"algorithm": simile.smile}, ()),
        ({"algorithm": simile.dagger}, ()),
        ({"n_rounds": 0}, ()),
        ({"horizon": Horizon((0, 3, 7), ())}, ()),
        ({"regularizer": simile.CriticallyDamped()}, ()),
        ({"regularizer": simile.PreviousAction()}, ()),
        ({"space": ActionSpace(low=-50.0)}, ()),
        ({"model": replace(FOREST, bagging=Bagging.NONE, max_depth=None)}, ()),
        ({"model": replace(FOREST, criterion=simile.Criterion.SMOOTH, max_depth=0)}, ()),
        ({"model": replace(FOREST, max_depth=None, max_leaves=5)}, ()),
        ({"model": Ridge()}, None),
        ({"model": make_pipeline(StandardScaler(), Ridge())}, None),
        ({"model": SVR()}, None),
        ({"model": RandomForestRegressor(3, min_samples_leaf=8)}, (TREE,)),
        ({"model": DecisionTreeRegressor(min_samples_leaf=8)}, (TREE,)),
        ({"model": HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=8)}, None),
    ],
    ids=lambda value: (
        "-".join(getattr(v, "__name__", str(v))[:40] for v in value.values()) if isinstance(value, dict) else ""
    ),
)
def test_a_policy_comes_back_to_the_bit(demos, path: Path, choices: dict[str, Any], trusted: tuple[str, ...] | None):
    policy = learned(demos, **choices)
    policy.save(path)
    again = load(path, trusted=check_savable(choices["model"]) if trusted is None else trusted)
    assert type(again) is type(policy)
    assert again.card == policy.card
    assert again.card.rate == 25.0
    assert_same_rollouts(policy, again, demos)
    # Equal policies give equal bytes: saved twice, or loaded and saved.
    assert to_bytes(policy) == path.read_bytes() == to_bytes(again)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("model", [FOREST, RandomForestRegressor(2), SVR()], ids=["forest", "trees", "one each"])
def test_policies_with_several_actions_come_back(k: int, model: Any, path: Path):
    demos = demos_of(50, 40, k=k)
    space = ActionSpace(low=[-100.0 * (i + 1) for i in range(k)], high=[math.inf, *[99.0] * (k - 1)])
    policy = learned(demos, model=model, space=space)
    policy.save(path)
    again = load(path, trusted=[TREE, SUPPORT, "sklearn.multioutput.MultiOutputRegressor"])
    assert again.n_actions == k
    np.testing.assert_array_equal(again.space.high, space.high)
    assert_same_rollouts(policy, again, demos)


def test_missing_contexts_go_the_same_way_after_loading(path: Path):
    demos = demos_of(80, 70)
    holes = [np.where(np.random.default_rng(1).random(x.shape) < 0.2, np.nan, x) for x in demos.contexts]
    demos = simile.Demonstrations.from_arrays(holes, demos.actions)
    policy = learned(demos)
    policy.save(path)
    assert_same_rollouts(policy, load(path), demos)


def test_out_of_bag_rollouts_work_after_loading(path: Path):
    demos = demos_of(60, 60, 60)
    policy = learned(demos, model=SmoothForest(n_trees=12, min_leaf=8, bagging=Bagging.SEQUENCES))
    policy.save(path)
    again = load(path)
    for a, b in zip(simile.rollout_out_of_bag(policy, demos), simile.rollout_out_of_bag(again, demos), strict=True):
        np.testing.assert_array_equal(a, b)


def test_mixtures_stay_mixtures_and_share_what_they_shared(policy, demos, path: Path):
    policy.save(path)
    again = load(path)
    assert again.weights == policy.weights
    first = again.components[0]
    for part in again.components[1:]:
        for name in ("naive", "units", "space", "card", "horizon"):
            assert getattr(part, name) is getattr(first, name), name
        assert part.f is not first.f
    assert str(simile.diagnose(again, demos)) == str(simile.diagnose(policy, demos))


def test_collapsed_pruned_and_nested_policies_come_back(policy, demos, path: Path):
    nested = StochasticMixture((policy, policy.components[0]), (0.25, 0.75))
    for one in (simile.collapse(policy), simile.prune(policy, 0.1).policy, nested, policy.components[1]):
        one.save(path)
        again = load(path)
        assert_same_rollouts(one, again, demos)
        assert to_bytes(again) == path.read_bytes()


def test_a_forest_of_some_of_its_trees_comes_back(policy, demos, path: Path):
    part = policy.components[0]
    fewer = replace(part, f=part.f.only(np.array([0, 2])))
    fewer.save(path)
    assert_same_rollouts(fewer, load(path), demos)


@pytest.mark.parametrize("k", [1, 2])
def test_policies_with_lines_come_back_and_their_header_counts_the_terms(k: int, path: Path):
    demos = demos_of(60, 50, k=k)
    policy = with_lines(learned(demos, n_rounds=0))
    mixed = simile.interpolate(policy, replace(policy, f=policy.f.models[1]), 0.5)
    empty = replace(policy.f.models[2], feature=np.empty(0, np.intp), knot=np.empty(0), fill=np.empty(0))
    alone = replace(policy, f=replace(empty, coefficient=np.empty((0, k))), n_contexts=None)
    for one, terms in ((policy, 7), (mixed, 11), (simile.collapse(mixed), 11), (alone, 0)):
        one.save(path)
        again = load(path)
        assert to_bytes(again) == path.read_bytes()
        assert_same_rollouts(one, again, demos)
        found = read_header(path)["structure"]
        assert found["terms"] == terms
        assert found["contexts"] == 2
        assert "PiecewiseLinear" in found["models"]
        assert simile.Predictor(again).step([0.1, 0.2]) == pytest.approx(simile.Predictor(one).step([0.1, 0.2]), abs=0)


def test_policies_by_hand_come_back(path: Path):
    h = Autoregressor(np.array([[1.5, 1.0], [-0.5, 0.0]]))
    f = learned(demos_of(50, k=2)).components[0].f
    one = SmoothPolicy(f, h, 2, Horizon(2, 1))  # no contexts, units for one action, a whole number for lambda
    one.save(path)
    again = load(path)
    assert again.n_contexts is None
    assert again.smoothness == 2
    assert to_bytes(again) == path.read_bytes()
    demos = demos_of(30, k=2)
    for a, b in zip(rollout(one, demos), rollout(again, demos), strict=True):
        np.testing.assert_array_equal(a, b)


@dataclass(frozen=True)
class Straight:
    """f(s) = s w; a model of somebody else's."""

    weights: np.ndarray

    def predict(self, S: np.ndarray) -> np.ndarray:
        return S @ self.weights


@dataclass(frozen=True)
class Halfway:
    """h that is not linear."""

    order: int = 1

    def __call__(self, history: np.ndarray) -> np.ndarray:
        return np.tanh(history[:, 0])


def test_models_and_regularizers_of_others_need_trust(path: Path):
    policy = SmoothPolicy(Straight(np.full((4, 1), 0.1)), Halfway(), 2.0, Horizon((0,), 2), None, 2)
    policy.save(path)
    with pytest.raises(
        StorageError,
        match=r"needs types that are not trusted: test_storage\.Halfway, test_storage\.Straight.*trusted=\[",
    ):
        load(path)
    again = load(path, trusted=["test_storage.Straight", "test_storage.Halfway"])
    demos = demos_of(30)
    for a, b in zip(rollout(policy, demos), rollout(again, demos), strict=True):
        np.testing.assert_array_equal(a, b)


# The file


def test_the_file_is_plain_safetensors_that_people_can_read(policy, path: Path):
    policy.save(path)
    with safe_open(path, framework="np") as file:
        assert list(file.metadata()) == ["simile"]
        header = json.loads(file.metadata()["simile"])
        assert "policy.components.0.f.value" in file.keys()  # noqa: SIM118 - not a dict
    assert header["format"] == "simile-policy"
    assert header["version"] == 5
    assert header["library"] == simile.__version__
    assert header["card"]["rate"] == 25.0
    assert header["card"]["context_names"] == ["x0", "x1"]
    assert header["card"]["training"]["settings"]["n_rounds"] == 2
    part = header["policy"]["components"][0]
    assert part["smoothness"] == 30.0
    assert part["horizon"] == {"kind": "Horizon", "action_lags": [1], "context_lags": [0, 1, 2]}
    assert part["units"]["scale"] == policy.units.scale.tolist()
    assert sorted(part["space"]) == ["first_high", "first_low", "high", "kind", "learned", "low"]
    assert part["space"]["high"] == policy.space.high.tolist()


def test_the_header_tells_what_is_in_the_file(policy, path: Path):
    policy.save(path)
    header = read_header(path)
    json.dumps(header, allow_nan=False)
    assert header["file_size"] == path.stat().st_size
    assert len(header["digest"]) == 64
    found = header["structure"]
    assert (found["kind"], found["components"], found["models"]) == ("Mixture", 3, ["Forest"])
    assert found["trees"] == 4 * 3  # three components and the naive model that they share
    naive = policy.components[0].naive.model
    assert found["nodes"] == sum(len(f.feature) for f in (*(c.f for c in policy.components), naive))
    assert (found["smoothness"], found["order"], found["contexts"], found["actions"]) == (30.0, 10, 2, 1)
    assert (found["context_lags"], found["action_lags"]) == ([0, 1, 2], [1])
    assert (found["low"], found["high"]) == (policy.space.low.tolist(), policy.space.high.tolist())
    assert found["bounds"] == "learned"


def test_the_header_needs_no_trust_and_builds_nothing(demos, path: Path, monkeypatch):
    learned(demos, model=RandomForestRegressor(2)).save(path)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    assert read_header(path)["structure"]["models"] == [TREE]
    path.write_bytes(flipped(path.read_bytes(), -3))
    with pytest.raises(StorageError, match="digest"):
        read_header(path)


@pytest.mark.long
def test_bytes_do_not_depend_on_threads_or_on_the_process(demos, monkeypatch):
    def made() -> list[str]:
        import hashlib

        return [hashlib.sha256(to_bytes(learned(demos, model=m, n_rounds=1))).hexdigest() for m in models]

    models = (FOREST, RandomForestRegressor(2, min_samples_leaf=8), Ridge())
    here = made()
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert made() == here
    code = (
        "import hashlib; from test_storage import *\n"
        "demos = demos_of(60, 50, 40, rate=25.0)\n"
        "for m in (FOREST, RandomForestRegressor(2, min_samples_leaf=8), Ridge()):\n"
        "    print(hashlib.sha256(to_bytes(learned(demos, model=m, n_rounds=1))).hexdigest())\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert done.stdout.split() == [*here, "False"]  # and skops has not loaded all that scikit-learn can deal with


def test_reading_takes_about_twice_the_room_of_the_file(path: Path):
    demos = demos_of(20_000, m=1)
    learned(demos, model=SmoothForest(n_trees=40, min_leaf=1, max_depth=None), n_rounds=0).save(path)
    load(path)
    tracemalloc.start()
    load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 10e6
    assert peak < 2.3 * path.stat().st_size


def test_importing_simile_imports_neither_safetensors_nor_skops():
    code = "import sys, simile.policies.storage.loading; print({'safetensors', 'skops', 'sklearn'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "sklearn" not in done.stdout
    assert "safetensors" not in done.stdout
    assert "skops" not in done.stdout


# Writing


def test_a_failed_write_leaves_the_old_file_and_nothing_else(policy, path: Path, monkeypatch):
    policy.save(path)
    before = path.read_bytes()
    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            with pytest.raises(StorageError, match=r"policy\.safetensors cannot be written: No space left on device"):
                policy.components[0].save(path)
        assert path.read_bytes() == before
        assert os.listdir(path.parent) == [path.name]


def test_folders_are_made_and_folders_in_the_way_are_told(policy, tmp_path: Path):
    policy.save(tmp_path / "new" / "folder" / "p.safetensors")
    with pytest.raises(StorageError, match="folder cannot be written"):
        policy.save(tmp_path / "new" / "folder")
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file" / "p", tmp_path / "a\0b", tmp_path / ("n" * 300), "/", ""):
        with pytest.raises(StorageError, match="cannot be written"):
            policy.save(bad)
    assert sorted(os.listdir(tmp_path)) == ["file", "new"]


def nested(depth: int) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for _ in range(depth):
        facts = {"a": [facts]}
    return facts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"card": Card(training={"error": math.nan})}, r"card\.training\.error must be a finite number to be stored"),
        ({"card": Card(training={"x": [object()]})}, r"card\.training\.x\.0 is a builtins\.object; a card holds plain"),
        ({"card": Card(context_names=("\ud800",))}, "cannot be written as JSON"),
        ({"card": Card(training=nested(40))}, "nested too deeply"),
        ({"card": Card(training={"x": "y" * 2**24})}, "take .* bytes, and a file holds at most"),
        ({"units": Units(np.zeros(1), np.array([np.nan]))}, r"units\.scale\.0 must be a finite number"),
        ({"h": Autoregressor(np.zeros((1, 1), complex))}, r"h\.coefficients is an array of complex128"),
        ({"horizon": 3.5j}, "horizon must be a finite number"),
        ({"horizon": {}}, "horizon is a builtins.dict, which a policy file cannot hold"),
    ],
)
def test_what_cannot_be_stored_is_told_before_anything_is_written(policy, path: Path, change, message: str):
    with pytest.raises(StorageError, match=message):
        replace(policy.components[0], **change).save(path)
    assert not path.exists()


def test_mixtures_too_large_or_too_deep_are_refused_when_written(policy, path: Path):
    part = policy.components[0]
    with pytest.raises(StorageError, match=r"has 1001 parts, and a policy file holds at most 1000: drop.*prune"):
        Mixture((part,) * 1001, (1.0, *[0.0] * 1000)).save(path)
    deep = part
    for _ in range(50):
        deep = Mixture((deep,), (1.0,))
    with pytest.raises(StorageError, match="nested too deeply"):
        deep.save(path)


def test_card_values_of_numpy_are_plain_numbers_in_the_file(policy, path: Path):
    card = Card(rate=np.float64(50), training={"n": np.int64(3), "e": np.float32(0.5), "list": (1, [True, None])})
    replace(policy.components[0], card=card).save(path)
    again = load(path).card
    assert again.training == {"n": 3, "e": 0.5, "list": [1, [True, None]]}
    assert again.rate == 50.0


# Models of other libraries


def test_without_skops_the_way_out_is_told(demos, path: Path, monkeypatch):
    policy = learned(demos, model=Ridge())
    policy.save(path)
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for attempt in (lambda: policy.save(path), lambda: load(path, trusted=[RIDGE]), lambda: check_savable(Ridge())):
        with pytest.raises(StorageError, match=r"pip install 'smooth-imitation\[skops\]'"):
            attempt()


def test_a_class_that_nobody_can_import_is_refused_by_name(path: Path):
    class Local(Straight):
        pass

    for f in (Local(np.ones((4, 1))), Straight(lambda x: x)):
        policy = SmoothPolicy(f, Halfway(), 2.0, Horizon((0,), 2), None, 2)
        with pytest.raises(StorageError, match=r"a test_storage\..*(Local|Straight) cannot be stored: "):
            policy.save(path)
    assert not path.exists()


def test_check_savable_tells_before_the_training(monkeypatch):
    assert check_savable(SmoothForest()) == ()
    assert check_savable(Ridge(), n_actions=2) == (RIDGE,)
    assert check_savable(SVR(), n_actions=2) == ("sklearn.multioutput.MultiOutputRegressor", SUPPORT)
    assert check_savable(RandomForestRegressor(2)) == (TREE,)

    class Odd:
        def fit(self, S, Y):
            return self

        def predict(self, S):
            return S[:, 0]

    with pytest.raises(StorageError, match=r"model Odd could be trained but not saved and loaded: .*Odd cannot be"):
        check_savable(Odd())


def test_check_savable_stores_the_recipe_where_so_few_rows_do_not_fit():
    assert RIDGE in check_savable(make_pipeline(StandardScaler(), Ridge(alpha=-1.0)))  # refuses to be fitted
    assert check_savable(Greedy()) == ("test_storage.Greedy",)


class Greedy:
    """A recipe that wants more rows than a rehearsal has."""

    def fit(self, S, Y):
        raise ValueError("at least a million rows")

    def predict(self, S):
        return S


def test_check_savable_rehearses_smooth_recipes_of_others():
    class Wrapped:
        def fit_smooth(self, *arguments):
            return FOREST.fit_smooth(*arguments)

    check_savable(Wrapped(), n_actions=2)


@pytest.mark.parametrize("trusted", [True, 3, [3], None])
def test_trust_must_be_given_by_name(trusted, path: Path):
    with pytest.raises(simile.ArgumentError, match="trusted must be full names of types"):
        load(path, trusted=trusted)


TRACES: list[str] = []


class Bomb:
    """Leaves a trace when it is built."""

    def __init__(self) -> None:
        self.fuse = 1

    def __setstate__(self, state: dict[str, Any]) -> None:
        TRACES.append("built")

    def predict(self, S: np.ndarray) -> np.ndarray:
        return S[:, :1]


class Payload:
    """Leaves a trace when it is unpickled."""

    def __reduce__(self):
        return (TRACES.append, ("unpickled",))


def test_nothing_in_a_file_is_run(policy, demos, path: Path, monkeypatch):
    bomb = replace(policy.components[0], f=FittedRegressor(Bomb()))
    packed = from_bytes(to_bytes(bomb))
    name = "policy.f.estimator.skops"
    hidden = pickle.dumps(Payload())
    TRACES.clear()

    def never(*_: Any, **__: Any) -> None:
        TRACES.append("pickle")
        raise AssertionError("pickle was called")

    for function in ("load", "loads", "Unpickler", "_Unpickler"):
        monkeypatch.setattr(pickle, function, never)
    path.write_bytes(sealed(packed))
    with pytest.raises(StorageError, match=r"test_storage\.Bomb"):
        load(path)
    read_header(path)
    for blob in (hidden, b"", b"PK", zipped({"schema.json": b"{}"}), zipped({"1.npy": hidden, "schema.json": b"[]"})):
        tensors = {**packed.tensors, name: np.frombuffer(blob or b"\0", np.uint8)}
        path.write_bytes(sealed(Packed(packed.header, tensors)))
        with pytest.raises(StorageError, match="damaged"):
            load(path, trusted=["test_storage.Bomb"])
    path.write_bytes(hidden)
    with pytest.raises(StorageError, match="no safetensors file"):
        load(path)
    assert TRACES == []
    learned(demos, model=RandomForestRegressor(2)).save(path)
    load(path, trusted=[TREE])
    assert "pickle" not in TRACES


def zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    import io

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, part in members.items():
            archive.writestr(name, part)
    return file.getvalue()


def test_archives_that_unpack_to_more_than_they_are_are_refused(policy, path: Path):
    header = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    packed = from_bytes(to_bytes(replace(policy.components[0], f=FittedRegressor(Ridge()), n_contexts=None)))
    for blob, message in (
        (zipped({"schema.json": b"0" * 10**6}, zipfile.ZIP_DEFLATED), "compressed or overlapping parts"),
        (zipped({"1.npy": header.ljust(127) + b"\n" + b"0" * 80, "schema.json": b"{}"}), "not as large as it says"),
        (zipped({"../../evil": b"", "schema.json": b"{}"}), "it holds a part"),
        (zipped({"1.npz": b"", "schema.json": b"{}"}), "such as a sparse matrix"),
    ):
        tensors = {**packed.tensors, "policy.f.estimator.skops": np.frombuffer(blob, np.uint8)}
        path.write_bytes(sealed(Packed(packed.header, tensors)))
        with pytest.raises(StorageError, match=message):
            load(path)


def test_a_model_for_other_states_or_actions_is_refused(demos, path: Path):
    policy = learned(demos, model=Ridge(), n_rounds=0)
    two = learned(demos_of(50, k=2), model=Ridge(), n_rounds=0)
    trees = learned(demos, model=DecisionTreeRegressor(), n_rounds=0)
    for wrong, message in (
        (replace(policy, horizon=Horizon(5, 1)), "must be a model for 13 features; got one for 7"),
        (replace(policy, f=two.f, horizon=Horizon(2, 2)), "must predict 1 actions; got shape"),
        (replace(policy, f=FittedRegressor(Ridge())), "does not predict: NotFittedError"),
        (replace(policy, f=FittedRegressor(StandardScaler())), "must be an object that predicts"),
        (replace(trees, horizon=Horizon(5, 1)), "must have trees for 13 features and 1 actions"),
        (replace(policy, h=StandardScaler()), "must be a regularizer with an order"),
    ):
        wrong.save(path)
        with pytest.raises(StorageError, match=message):
            load(path, trusted=[TREE, RIDGE, "sklearn.preprocessing._data.StandardScaler"])


@pytest.mark.parametrize(("field", "value"), [("left_child", 10**6), ("right_child", 0), ("feature", 99)])
def test_trees_of_scikit_learn_that_lead_astray_are_refused_though_trusted(demos, path: Path, field: str, value: int):
    policy = learned(demos, model=DecisionTreeRegressor(min_samples_leaf=8), n_rounds=0)
    tree = policy.f.trees[0]
    state = tree.__getstate__()
    state["nodes"] = state["nodes"].copy()
    state["nodes"][field][0] = value
    tree.__setstate__(state)
    policy.save(path)
    with pytest.raises(StorageError, match=r"f\.trees\.0: "):
        load(path, trusted=[TREE])


# Files that are wrong
