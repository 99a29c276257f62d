"""From an object to a tree of JSON values, with its arrays beside it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from simile.data.recorded import ActionSpace, Units
from simile.data.states import Horizon
from simile.errors import StorageError
from simile.models.adapters import settle
from simile.policies.cards import Card
from simile.policies.storage import foreign

# The classes that a file may hold; all else is foreign.
KINDS = (
    "ActionSpace",
    "Autoregressor",
    "Bag",
    "Card",
    "CoupledAutoregressor",
    "FittedRegressor",
    "Forest",
    "GRU",
    "Hold",
    "Horizon",
    "MLP",
    "Mixture",
    "Network",
    "Offset",
    "PiecewiseLinear",
    "SmoothPolicy",
    "StateShape",
    "StochasticMixture",
    "TCN",
    "TreeMean",
    "Units",
    "WeightedModel",
)
# Fields whose object may be one and the same in several components, and is then stored once. No others, so that the
# size of a file bounds the work of whoever rolls it out.
SHARED = frozenset({"card", "hold", "horizon", "naive", "offset", "space", "units"})
FOREIGN = frozenset({"estimator", "f", "h", "models", "naive"})  # fields that may hold objects of other libraries
BUNDLES = frozenset({"trees"})  # fields with many of them, stored together
ARRAYS = frozenset({"seeds"})  # fields with a whole number for every tree: too many to read, so a tensor
# Fields with a value for each action, to be read.
LISTS = frozenset({"fade", "share", "smoothness", "stepping", "weights", "width"})
PARTS = frozenset({"components", "models"})
MOST_PARTS = 1_000
DEEPEST = 64  # of nested names such as policy.components.3.f.bag

DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64, "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_}


class Encoder:
    """Walks objects; `tensors` receives their arrays, under names that tell the place of each.

    A frozen dataclass becomes {"kind": its class, field: value, ...}, an array {"tensor": name}, an object met before
    {"same": name}, an object of another library {"kind": "Foreign", "class": its class, "skops": {"tensor": name}}.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self._places: dict[int, str] = {}

    def encode(self, value: Any, path: str) -> Any:
        """Return the JSON form of a value; the last part of `path` is the field it comes from."""
        field = next(part for part in reversed(path.split(".")) if not part.isdigit())
        if path.count(".") > DEEPEST:
            raise StorageError(f"{path[:100]}... is nested too deeply to be stored")
        if value is None or isinstance(value, str | numbers.Number | Enum):
            return _scalar(value, path)
        value = settle(value)
        if field in SHARED:
            if id(value) in self._places:
                return {"same": self._places[id(value)]}
            self._places[id(value)] = path
        if isinstance(value, np.ndarray) and field in LISTS:
            return value.tolist()
        if isinstance(value, np.ndarray):
            return self._tensor(value, path)
        if field in ARRAYS:
            return self._tensor(np.array(value, np.int64), path)
        if field in BUNDLES:
            return self._foreign(list(value), foreign.class_name(value[0]), path)
        if isinstance(value, tuple):
            return self._tuple(value, path, field)
        if is_dataclass(value) and type(value).__module__.startswith("simile.") and type(value).__name__ in KINDS:
            return self._object(value, path)
        if isinstance(why := getattr(value, "unstorable", None), str):
            raise StorageError(f"{path} cannot be stored: {why}")
        if field in FOREIGN:
            return self._foreign(value, foreign.class_name(value), path)
        raise StorageError(f"{path} is a {foreign.class_name(value)}, which a policy file cannot hold")

    def _object(self, value: Any, path: str) -> dict[str, Any]:
        parts = {f.name: getattr(value, f.name) for f in fields(value)}
        for name in ("hold", "offset"):
            if parts.get(name, value) is None:  # as the first readers know it
                del parts[name]
        if isinstance(value, Card):
            prepared = {"preparation": _json(asdict(given), path)} if (given := parts.pop("preparation")) else {}
        if isinstance(value, Horizon):
            parts = {name: part for name, part in parts.items() if part or name not in ("lead", "known")}
        if isinstance(value, Units | ActionSpace):  # to be read by people, so no tensors
            learned = {"learned": True} if parts.pop("learned", False) else {}  # as the first readers know it
            known = {name: array for name, array in parts.items() if array is not None}
            sides = {name: tuple(None if math.isinf(x) else x for x in array) for name, array in known.items()}
            parts = {**sides, **learned}
        # In the order in which they will be read: what is stored once is stored where it is met first.
        tree = {name: self.encode(part, f"{path}.{name}") for name, part in sorted(parts.items()) if name != "training"}
        if isinstance(value, Card):
            tree |= {"training": _json(value.training, f"{path}.training")} | prepared
        return {"kind": type(value).__name__, **tree}

    def _tuple(self, value: tuple[Any, ...], path: str, field: str) -> list[Any]:
        if field in PARTS and len(value) > MOST_PARTS:
            raise StorageError(
                f"{path} has {len(value)} parts, and a policy file holds at most {MOST_PARTS}: "
                "drop the lightest ones with simile.prune(policy, tolerance)"
            )
        return [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]

    def _tensor(self, array: Any, path: str) -> dict[str, str]:
        if array.dtype not in DTYPES.values():
            raise StorageError(f"{path} is an array of {array.dtype}, which a policy file cannot hold")
        self.tensors[path] = np.ascontiguousarray(array)
        return {"tensor": path}

    def _foreign(self, value: Any, name: str, path: str) -> dict[str, Any]:
        return {"kind": "Foreign", "class": name, "skops": self._tensor(foreign.dump(value, name), f"{path}.skops")}


def _scalar(value: Any, path: str) -> Any:
    """Return a number, a text, an enum's name or None as JSON has it."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    raise StorageError(f"{path} must be a finite number to be stored; got {value!r}")


def _json(value: Any, path: str) -> Any:
    """Return facts about a training as JSON has them."""
    if path.count(".") >= DEEPEST:
        raise StorageError(f"{path[:100]}... is nested too deeply to be stored")
    if isinstance(value, Mapping):
        return {str(name): _json(item, f"{path}.{name}") for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item, f"{path}.{i}") for i, item in enumerate(value)]
    if value is None or isinstance(value, str | numbers.Number | Enum):
        return _scalar(value, path)
    raise StorageError(
        f"{path} is a {foreign.class_name(value)}; a card holds plain JSON values alone: write it as text or numbers"
    )
