"""Equality to the bit, for whatever a run is made of."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from simile.models.adapters import settle


def differences(a: Any, b: Any, path: str = "") -> list[str]:
    """Return the paths at which two objects differ in a bit, a type or a length."""
    a, b = settle(a), settle(b)
    if type(a) is not type(b):
        return [f"{path}: {type(a).__name__} and {type(b).__name__}"]
    if isinstance(a, np.ndarray):
        alike = a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        return [] if alike else [path]
    if dataclasses.is_dataclass(a):
        names = [f.name for f in dataclasses.fields(a)]
        return [d for n in names for d in differences(getattr(a, n), getattr(b, n), f"{path}.{n}")]
    if isinstance(a, dict):
        if a.keys() != b.keys():
            return [f"{path}: {sorted(a)} and {sorted(b)}"]
        return [d for key in a for d in differences(a[key], b[key], f"{path}[{key}]")]
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            return [f"{path}: {len(a)} and {len(b)}"]
        return [d for i, pair in enumerate(zip(a, b, strict=True)) for d in differences(*pair, f"{path}[{i}]")]
    return [] if a == b or (a != a and b != b) else [f"{path}: {a!r} and {b!r}"]


def check_same_rounds(local: Any, spread: Any) -> None:
    """Compare rounds: all that was measured, and every array of the policies."""
    assert len(local) == len(spread)
    for a, b in zip(local, spread, strict=True):
        assert differences(a.measured(), b.measured()) == []
        assert differences([a.policy, a.trained, a.h], [b.policy, b.trained, b.h]) == []
        assert b.rolled == b.targets == []
