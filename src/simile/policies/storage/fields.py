"""Strict reading of the objects in a policy file: every field once, of the right type and range, and none left."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from simile._common.typing import PerAction
from simile.errors import StorageError
from simile.policies.storage.encoding import DEEPEST


class Fields:
    """The fields of one object, {"kind": ..., field: value, ...}; its arrays are taken from `tensors`."""

    def __init__(self, tree: Any, path: str, kinds: Collection[str], tensors: dict[str, Any]) -> None:
        if path.count(".") > DEEPEST:
            raise StorageError(f"{path[:100]}... is nested too deeply")
        if not isinstance(tree, dict) or tree.get("kind") not in [*kinds]:
            raise wrong(path, f"an object of kind {' or '.join(kinds)}", tree)
        self.kind: str = tree["kind"]
        self.path = path
        self._tensors = tensors
        self._left = {name: value for name, value in tree.items() if name != "kind"}

    def take(self, name: str) -> Any:
        """Return a field as it is."""
        if name not in self._left:
            raise StorageError(f"{self.path} must have a field {name}")
        return self._left.pop(name)

    def has(self, name: str) -> bool:
        """Tell whether a field is there, to be taken."""
        return name in self._left

    def close(self) -> None:
        """Refuse fields that nobody took."""
        if self._left:
            raise StorageError(f"{self.path} has a field that no {self.kind} has: {reprlib.repr(min(self._left))}")

    def number(self, name: str, *, at_least: float = -math.inf, at_most: float = math.inf) -> float:
        """Take a finite number; a whole one stays whole."""
        value = self.take(name)
        if not _is_number(value) or not at_least <= value <= at_most:
            raise wrong(f"{self.path}.{name}", f"a finite number from {at_least:g} to {at_most:g}", value)
        return value  # type: ignore[no-any-return]

    def whole_number(self, name: str, *, at_most: int, at_least: int = 1) -> int:
        """Take a whole number."""
        return _whole(self.take(name), f"{self.path}.{name}", at_least, at_most)

    def whole_numbers(self, name: str, *, at_most: int, at_least: int) -> tuple[int, ...]:
        """Take a list of whole numbers."""
        return tuple(_whole(v, f"{self.path}.{name}", at_least, at_most) for v in self.items(name))

    def numbers(self, name: str, *, otherwise: float | None = None) -> Any:
        """Take a list of finite numbers as a (length,) array; null stands for `otherwise`, where that is given."""
        values = self.items(name)
        for value in values:
            if not _is_number(value) and (value is not None or otherwise is None):
                raise wrong(f"{self.path}.{name}", "a list of finite numbers", value)
        return np.array([otherwise if value is None else value for value in values], np.float64)

    def weights(self, name: str, *, parts: int) -> tuple[PerAction, ...]:
        """Take one weight, or one for each action, for each part, none negative, together one."""
        values = self.items(name)
        each = [value if isinstance(value, list) else [value] for value in values]
        if len(values) != parts or not all(_is_number(v) and 0.0 <= v <= 1.0 for part in each for v in part):
            raise wrong(f"{self.path}.{name}", f"a list of {parts} numbers from 0 to 1", values)
        if len({len(part) for part in each}) > 1 or not (np.abs(np.sum(each, axis=0) - 1.0) <= 1e-9).all():
            raise wrong(f"{self.path}.{name}", "numbers that sum to one", values)
        return tuple(np.array(value) if isinstance(value, list) else value for value in values)

    def per_action(self, name: str) -> PerAction:
        """Take a number, or a list of one for each action, none negative."""
        if not isinstance(self._left.get(name), list):
            return self.number(name, at_least=0.0)
        values = self.numbers(name)
        if not (values >= 0.0).all():
            raise wrong(f"{self.path}.{name}", "numbers from 0 on", values)
        return values  # type: ignore[no-any-return]

    def text(self, name: str) -> str:
        """Take a text."""
        return _text(self.take(name), f"{self.path}.{name}")

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a list of texts."""
        return tuple(_text(v, f"{self.path}.{name}") for v in self.items(name))

    def items(self, name: str, *, at_most: int | None = None, at_least: int = 0) -> list[Any]:
        """Take a list."""
        value = self.take(name)
        if not isinstance(value, list) or len(value) < at_least or (at_most is not None and len(value) > at_most):
            limits = "" if at_most is None else f" of {at_least} to {at_most}"
            raise wrong(f"{self.path}.{name}", f"a list{limits}", value)
        return value

    def array(self, name: str, dtype: Any, *shape: int | None, may_be_empty: bool = False) -> Any:
        """Take an array of this type and shape; None leaves a length open, but for zero where it may not be empty."""
        reference, path = self.take(name), f"{self.path}.{name}"
        # Each tensor has one name and one place, so none is used twice.
        if reference != {"tensor": path} or path not in self._tensors:
            raise wrong(path, f"a reference to a tensor {path!r} in the file", reference)
        array = self._tensors.pop(path)
        fits = len(array.shape) == len(shape) and all(
            n == wanted or (wanted is None and (n > 0 or may_be_empty))
            for n, wanted in zip(array.shape, shape, strict=True)
        )
        if array.dtype != dtype or not fits:
            wanted = f"{np.dtype(dtype)} of shape ({', '.join('any' if n is None else str(n) for n in shape)})"
            raise wrong(path, f"a tensor of {wanted}", f"{array.dtype} of shape {array.shape}", quote=False)
        return array

    def optional(self, name: str, read: Callable[[str], Any]) -> Any:
        """Take a field that may be null; `read` takes it otherwise."""
        return self.take(name) if name in self._left and self._left[name] is None else read(name)


def wrong(path: str, wanted: str, got: Any, *, quote: bool = True) -> StorageError:
    """Return the error for a value that is not what it must be."""
    return StorageError(f"{path} must be {wanted}; got {reprlib.repr(got) if quote else got}")


def _is_number(value: Any) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 2**63
    return isinstance(value, float) and math.isfinite(value)


def _whole(value: Any, path: str, at_least: int, at_most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not at_least <= value <= at_most:
        raise wrong(path, f"a whole number from {at_least} to {at_most}", value)
    return value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise wrong(path, "a text", value)
    return value
