"""Recipes for networks: frozen, and able to tell the sizes of their weights without torch.

A recipe is any callable `(shape: StateShape) -> torch.nn.Module`; the module maps states in standard units,
(n, features), to (n, k). Those here can be stored; each adds what it computes to a line in the same states, because
much of what an expert does is linear, and a network learns that part slowly.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol, runtime_checkable

from simile._common import checks
from simile.errors import ArgumentError
from simile.models.neural import _torch
from simile.models.neural.shapes import StateShape

WIDEST = 65_536  # units of a layer
MOST_LAYERS = 64
WIDEST_KERNEL = 1_000  # lags

Sizes = list[tuple[int, ...]]


@runtime_checkable
class Recipe(Protocol):
    """Makes an untrained network for states of a given shape."""

    def __call__(self, shape: StateShape, /) -> Any:
        """Return a torch.nn.Module that maps states in standard units (n, features) to (n, k)."""


@runtime_checkable
class StoredRecipe(Recipe, Protocol):
    """A recipe of ours, whose weights can be checked before torch sees them."""

    def sizes(self, shape: StateShape, /) -> Sizes:
        """Return the shapes of the weights, in the order of the module's `state_dict`."""


@dataclass(frozen=True)
class MLP:
    """Fully connected layers on the whole state, beside a line.

    Parameters
    ----------
    hidden : sequence of int
        Units of each hidden layer.

    Examples
    --------
    >>> MLP((4,)).sizes(StateShape(2, 1, (0, 1)))
    [(1, 4), (1,), (1, 4), (4, 4), (4,)]
    """

    hidden: tuple[int, ...] = (64, 64)

    def __post_init__(self) -> None:
        given = (self.hidden,) if isinstance(self.hidden, int) else tuple(self.hidden)
        if not 1 <= len(given) <= MOST_LAYERS:
            raise ArgumentError(f"hidden must name 1 to {MOST_LAYERS} layers; got {self.hidden!r}")
        hidden = tuple(checks.whole_number(n, "hidden", at_least=1, at_most=WIDEST) for n in given)
        object.__setattr__(self, "hidden", hidden)

    def __call__(self, shape: StateShape) -> Any:
        """Make the module."""
        _torch.require()
        from simile.models.neural import modules

        return modules.MLP(shape, self.hidden)

    def sizes(self, shape: StateShape) -> Sizes:
        """Return the shapes of the weights, in the order of the module's `state_dict`."""
        found = _ends(shape, self.hidden[-1])
        for before, after in pairwise((shape.n_features, *self.hidden)):
            found += [(after, before), (after,)]
        return found


@dataclass(frozen=True)
class TCN:
    """Causal convolutions over the lags, from the oldest to the newest, that widen by factors of two; beside a line.

    Past actions, where the states have them, join at the end.

    Parameters
    ----------
    channels : int
        Units at each lag.
    kernel : int
        Lags that one convolution reads; there are as many convolutions as it takes to see all lags.
    """

    channels: int = 32
    kernel: int = 3

    def __post_init__(self) -> None:
        checks.whole_number(self.channels, "channels", at_least=1, at_most=WIDEST)
        checks.whole_number(self.kernel, "kernel", at_least=2, at_most=WIDEST_KERNEL)

    def dilations(self, shape: StateShape) -> list[int]:
        """Return the widths of the convolutions: until the newest lag sees the oldest."""
        found = [1]
        while 1 + (self.kernel - 1) * sum(found) < len(shape.context_lags):
            found.append(2 * found[-1])
        return found

    def __call__(self, shape: StateShape) -> Any:
        """Make the module."""
        _torch.require()
        from simile.models.neural import modules

        return modules.TCN(shape, self.channels, self.kernel, self.dilations(shape))

    def sizes(self, shape: StateShape) -> Sizes:
        """Return the shapes of the weights, in the order of the module's `state_dict`."""
        found = _ends(shape, self.channels + shape.n_features - shape.n_context_features)
        before = shape.n_contexts
        for _ in self.dilations(shape):
            found += [(self.channels, before, self.kernel), (self.channels,)]
            before = self.channels
        return found


@dataclass(frozen=True)
class GRU:
    """A gated recurrent unit that reads the contexts lag by lag, from the oldest to the newest; beside a line.

    Past actions, where the states have them, join at the end.

    Parameters
    ----------
    hidden : int
        Units.
    """

    hidden: int = 64

    def __post_init__(self) -> None:
        checks.whole_number(self.hidden, "hidden", at_least=1, at_most=WIDEST)

    def __call__(self, shape: StateShape) -> Any:
        """Make the module."""
        _torch.require()
        from simile.models.neural import modules

        return modules.GRU(shape, self.hidden)

    def sizes(self, shape: StateShape) -> Sizes:
        """Return the shapes of the weights, in the order of the module's `state_dict`."""
        gates = 3 * self.hidden
        found = _ends(shape, self.hidden + shape.n_features - shape.n_context_features)
        return [*found, (gates, shape.n_contexts), (gates, self.hidden), (gates,), (gates,)]


@dataclass(frozen=True)
class Own:
    """A module that somebody made, or their recipe for one; it cannot be stored."""

    unstorable: ClassVar[str] = (
        "a module or a recipe of your own is code, which a policy file cannot hold: use simile.neural.MLP, TCN or GRU, "
        "or keep policy.f.module().state_dict() by torch.save and build the policy from your code"
    )

    given: Any

    def __call__(self, shape: StateShape) -> Any:
        """Copy the module, weights and all, for training starts from them; or have it made."""
        return copy.deepcopy(self.given) if _is_module(self.given) else self.given(shape)

    def __repr__(self) -> str:
        return f"Own({getattr(self.given, '__name__', None) or type(self.given).__name__})"


def recipe_of(given: Any) -> Recipe:
    """Return what was given as a recipe: one of ours, a callable that makes modules, or a module itself."""
    if isinstance(given, type):
        raise ArgumentError(
            f"module must be an object, not a class; got the class {given.__name__}: write {given.__name__}(...)"
        )
    if isinstance(given, MLP | TCN | GRU | Own):
        return given
    if not callable(given):
        raise ArgumentError(f"module must be MLP(), TCN(), GRU(), a torch.nn.Module or a recipe for one; got {given!r}")
    return Own(given)


def _is_module(given: Any) -> bool:
    return callable(getattr(given, "state_dict", None)) and callable(getattr(given, "forward", None))


def _ends(shape: StateShape, width: int) -> Sizes:
    """Return the sizes of the last layer and of the line, which every network begins its list with."""
    return [(shape.n_actions, width), (shape.n_actions,), (shape.n_actions, shape.n_features)]
