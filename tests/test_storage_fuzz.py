"""Mutated policy files: `load` answers with a policy that rolls out, or with a StorageError."""

from __future__ import annotations

import contextlib
import copy
import faulthandler
import io
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save as save_tensors
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import simile
from conftest import SEED, demos_of, repeatable
from simile import Horizon, SimileError, SmoothForest, rollout
from simile.errors import StorageError
from simile.policies.storage import files, rehearsal
from simile.policies.storage.files import Packed, from_bytes, to_bytes
from simile.policies.storage.loading import load, read_header
from test_storage import RIDGE, TREE, sealed, with_lines

SLOWEST = 300  # seconds for one test: a file that hangs the kernels would take forever

NUMBERS = (-1, 0, 1, 2, 3, 7, 255, 2**15, 2**31 - 1, -(2**31), 2**31, 2**40, 2**53, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1e-320, 1e-9, 0.5, 1.0, -1.0, 1e9, 1e308, -1e308, float("inf"), float("-inf"), float("nan"))
VALUES: tuple[Any, ...] = (
    *NUMBERS,
    *(x for x in FLOATS if abs(x) < 1e309),
    None,
    True,
    "",
    "x" * 1000,
    "SmoothPolicy",
    "\ud800",
    [],
    {},
    [[[[[]]]]],
    [0] * 100,
    10**400,
    {"kind": "Units", "center": [0.0], "scale": [1.0]},
)


@pytest.fixture(autouse=True)
def _no_rehearsal(monkeypatch) -> None:
    """Start no process for each file: what a rehearsal finds is found here, and what crashes would be seen."""
    monkeypatch.setattr(rehearsal, "rehearse", lambda *_: None)


@pytest.fixture(autouse=True)
def _hangs_fail() -> Iterator[None]:
    """End the process, with the stack, where a kernel never comes back."""
    faulthandler.dump_traceback_later(SLOWEST, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def policies() -> dict[str, Any]:
    demos = demos_of(30, 25, m=1)
    small = {"horizon": Horizon(1, 1), "step_size": 0.5, "regularizer": simile.VelocityAutoregression(2)}
    forest = SmoothForest(n_trees=2, min_leaf=6, max_depth=3)
    mixture = simile.paper(demos, model=forest, n_rounds=1, **small).policy
    return {
        "mixture": mixture,
        "collapsed": simile.collapse(mixture),
        "lines": with_lines(mixture.components[0]),
        "stochastic": simile.searn(demos, model=forest, n_rounds=1, **{**small, "step_size": None}).policy,
        "ridge": simile.paper(demos, model=Ridge(), n_rounds=0, **small).policy,
        "trees": simile.paper(demos, model=DecisionTreeRegressor(max_depth=2), n_rounds=0, **small).policy,
    }


POLICIES = policies()
NAMES = list(POLICIES)


# Ways to mutate the bytes


def flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 1, 2, 8))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def flip_header(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 2, 4))):
        data[chance.randrange(min(len(data), 8 + files._header_size(bytes(data))))] = chance.randrange(256)


def truncate(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def insert(data: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(data))
    data[place:place] = chance.randbytes(chance.choice((1, 8, 100)))


def swap(data: bytearray, chance: random.Random) -> None:
    size = chance.choice((1, 8, 64))
    one, other = (chance.randrange(len(data) - size) for _ in range(2))
    data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]


def resize_header(data: bytearray, chance: random.Random) -> None:
    data[:8] = (chance.choice(NUMBERS) % 2**64).to_bytes(8, "little")


def relabel_tensor(data: bytearray, chance: random.Random) -> None:
    """Change type, shape or place of a tensor, and set the digest right where there is still one to be had."""
    size = files._header_size(bytes(data))
    outer = json.loads(data[8 : 8 + size])
    tensor = outer[chance.choice([name for name in outer if name != "__metadata__"])]
    what = chance.choice(("dtype", "shape", "data_offsets"))
    if what == "dtype":
        tensor[what] = chance.choice(("F64", "F32", "I64", "I32", "U8", "BOOL", "F16", "BF16", "U64", "C64", "X", 3))
    else:
        tensor[what] = [abs(chance.choice(NUMBERS)) if chance.random() < 0.5 else n for n in tensor[what]]
        chance.shuffle(tensor[what])
    begin = json.dumps(outer).encode()
    data[:] = len(begin).to_bytes(8, "little") + begin + data[8 + size :]
    with contextlib.suppress(StorageError):
        data[:] = sealed(files._unpack(io.BytesIO(data), len(data), lambda *_: None))


BYTES = (flip, flip_header, truncate, insert, swap, resize_header, relabel_tensor)


# Ways to mutate what the bytes say, with a digest that is right


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a tree, as a container and a key in it."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield tree, key
        yield from places(value)


def edit_tree(packed: Packed, chance: random.Random) -> None:
    everywhere = list(places(packed.header))
    container, key = chance.choice(everywhere)
    how = chance.randrange(7)
    if how == 0:
        del container[key]
    elif how == 1:
        other, elsewhere = chance.choice(everywhere)
        container[key] = copy.deepcopy(other[elsewhere])
    elif how == 2 and isinstance(container, dict):
        container[chance.choice(("extra", "kind", "same", "tensor", "f", "naive"))] = chance.choice(VALUES)
    elif how == 3 and isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key]))
    elif how == 4:
        container[key] = {"same": chance.choice(("card", "policy", "policy.f", "policy.components.0.naive", "x"))}
    elif how == 5 and isinstance(container[key], int | float):
        container[key] = container[key] * chance.choice((-1, 0.5, 2, 1e6)) + chance.choice((0, 1, -1))
    else:
        container[key] = chance.choice(VALUES)


def edit_values(packed: Packed, chance: random.Random) -> None:
    """Put other numbers into one array: into child, feature, roots, depths, columns, lags, ... as it falls out."""
    array = packed.tensors[chance.choice(sorted(packed.tensors))].reshape(-1)
    for _ in range(chance.choice((1, 1, 2, 5)) if len(array) else 0):
        place = chance.randrange(len(array))
        if array.dtype.kind == "f":
            with np.errstate(over="ignore"):
                array[place] = chance.choice(FLOATS) if chance.random() < 0.7 else chance.gauss(0.0, 3.0)
        elif array.dtype.kind == "i":
            bounds = np.iinfo(array.dtype)
            near = int(array[place]) + chance.choice((-1, 1, 2))
            number = chance.choice((chance.choice(NUMBERS), near, chance.randrange(len(array))))
            array[place] = min(max(number, bounds.min), bounds.max)
        else:
            array[place] = chance.randrange(256 if array.dtype == np.uint8 else 2)


def edit_shape(packed: Packed, chance: random.Random) -> None:
    name = chance.choice(sorted(packed.tensors))
    array = packed.tensors[name]
    packed.tensors[name] = chance.choice(
        (
            lambda: array[:-1],
            lambda: np.concatenate([array, array[-1:]]),
            lambda: array[:0],
            lambda: array.reshape(-1),
            lambda: array[np.newaxis],
            lambda: array.astype(chance.choice((np.float64, np.float32, np.int64, np.int32, np.uint8, np.float16))),
            lambda: array[::-1],
            lambda: np.repeat(array, 2, axis=-1),
        )
    )()
    packed.tensors[name] = np.ascontiguousarray(packed.tensors[name])


def edit_names(packed: Packed, chance: random.Random) -> None:
    one, other = (chance.choice(sorted(packed.tensors)) for _ in range(2))
    how = chance.randrange(3)
    if how == 0:
        del packed.tensors[one]
    elif how == 1:
        packed.tensors[one], packed.tensors[other] = packed.tensors[other], packed.tensors[one]
    else:
        packed.tensors[chance.choice(("stray", f"{one}.x", ""))] = packed.tensors[one]


MEANINGS = (edit_tree, edit_tree, edit_values, edit_values, edit_values, edit_shape, edit_names)


def mutated_bytes(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    chance.choice(BYTES)(changed, chance)
    return bytes(changed)


def mutated_meaning(data: bytes, chance: random.Random) -> bytes:
    packed = from_bytes(data)
    for _ in range(chance.choice((1, 1, 1, 2))):
        if packed.tensors:
            chance.choice(MEANINGS)(packed, chance)
    try:
        with np.errstate(all="ignore"):
            return sealed(packed)
    except (StorageError, OverflowError, UnicodeEncodeError):  # not even JSON: without a digest, then
        return save_tensors(packed.tensors, metadata={"simile": json.dumps(packed.header)})


def read_and_rolled(path: Path, contexts: np.ndarray) -> str:
    """Load a file and roll its policy out; returns how that ended. Anything but a SimileError is let out."""
    refused = None
    try:
        policy = load(path, trusted=[TREE, RIDGE])
    except StorageError as error:
        refused = error
    if refused is not None:
        # The net for what nobody thought of must stay empty: everything is refused for a reason.
        assert isinstance(refused.__cause__, StorageError), repr(refused.__cause__)
        assert str(path) in str(refused)
        return "refused"
    read_header(path)
    with np.errstate(all="ignore"):
        try:
            rollout(policy, [contexts], start=simile.ColdStart())
            rollout(policy, [contexts], start=np.zeros((3, policy.n_actions)))
        except SimileError:
            return "loaded, not rolled out"
    return "loaded and rolled out"


@pytest.mark.filterwarnings("ignore")  # numbers that overflow warn, which is all they should do
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mutated", [mutated_bytes, mutated_meaning], ids=["bytes", "meaning"])
@pytest.mark.parametrize("count", [50, pytest.param(700, marks=pytest.mark.long)])
def test_a_mutated_file_is_a_policy_or_a_storage_error(
    name: str, mutated: Callable[[bytes, random.Random], bytes], count: int, tmp_path: Path
):
    data = to_bytes(POLICIES[name])
    contexts = np.random.default_rng(0).normal(size=(12, 1))
    path = tmp_path / "policy.safetensors"
    path.write_bytes(data)
    assert read_and_rolled(path, contexts) == "loaded and rolled out"
    ended: Counter[str] = Counter()
    for i in range(count * (3 if name in ("mixture", "collapsed", "lines") else 1)):
        chance = random.Random(f"{SEED} {name} {mutated.__name__} {i}")
        with repeatable(i):
            path.write_bytes(mutated(data, chance))
            ended[read_and_rolled(path, contexts)] += 1
    print(name, mutated.__name__, dict(ended))
    assert ended["refused"] > count / 2
    if mutated is mutated_meaning:  # else the roll-outs would not have been tried
        assert ended["loaded and rolled out"] > count / 50
