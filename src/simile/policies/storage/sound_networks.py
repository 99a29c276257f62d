"""Whether a network from a file can be built and asked: what its sizes must be is worked out without torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from simile.errors import StorageError
from simile.models.neural import GRU, MLP, TCN, Network, StateShape
from simile.models.neural.recipes import MOST_LAYERS, WIDEST, WIDEST_KERNEL, StoredRecipe
from simile.policies.storage.fields import Fields, wrong
from simile.policies.storage.sound_trees import refuse

LARGEST = 1e30  # of weights: sums of larger ones overflow in single precision
LONGEST_LAG = 100_000  # frames
WIDEST_STATE = 10_000_000  # features


def check_network(network: Network, path: str) -> None:
    """Refuse weights and units that are no numbers, or weights so large that sums of them overflow."""
    for array in network.parameters:
        refuse(not (np.abs(array) <= LARGEST).all(), path, f"parameters must be finite, {LARGEST:g} at most")
    for name in ("center", "mean", "scale", "spread"):
        refuse(not np.isfinite(getattr(network, name)).all(), path, f"{name} must be finite")
    for name in ("scale", "spread"):
        refuse(not (getattr(network, name) > 0.0).all(), path, f"{name} must be above zero")


def read_recipe(fields: Fields) -> StoredRecipe:
    """Read a recipe; every number in it is bounded before anything is worked out from it."""
    recipe: StoredRecipe
    if fields.kind == "GRU":
        recipe = GRU(fields.whole_number("hidden", at_most=WIDEST))
    elif fields.kind == "TCN":
        channels = fields.whole_number("channels", at_most=WIDEST)
        recipe = TCN(channels, fields.whole_number("kernel", at_least=2, at_most=WIDEST_KERNEL))
    else:
        hidden = fields.whole_numbers("hidden", at_least=1, at_most=WIDEST)
        if not 1 <= len(hidden) <= MOST_LAYERS:
            raise wrong(f"{fields.path}.hidden", f"1 to {MOST_LAYERS} layers", hidden)
        recipe = MLP(hidden)
    fields.close()
    return recipe


def read_shape(fields: Fields) -> StateShape:
    """Read which states a network takes."""
    lags: dict[str, Any] = {
        name: fields.whole_numbers(name, at_least=first, at_most=LONGEST_LAG)
        for name, first in (("action_lags", 1), ("context_lags", 0))
    }
    widths: dict[str, Any] = {
        name: fields.whole_number(name, at_most=WIDEST_STATE) for name in ("n_actions", "n_contexts")
    }
    fields.close()
    for name, given in lags.items():
        if list(given) != sorted(set(given)) or (name == "context_lags" and not given):
            raise wrong(f"{fields.path}.{name}", "different lags in order", given)
    shape = StateShape(**widths, **lags)
    if shape.n_features > WIDEST_STATE:
        raise StorageError(f"{fields.path} must have at most {WIDEST_STATE} features; got {shape.n_features}")
    return shape
