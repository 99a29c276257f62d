"""Reading policy files, from anybody: what is not right is refused, and nothing in a file is ever run.

`policy.save(path)` writes them; see `simile.policies.storage` for what is in them.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from simile import models
from simile.data.demonstrations import Demonstrations
from simile.data.states import Horizon
from simile.errors import ArgumentError, StorageError
from simile.models import Forest, PiecewiseLinear, SmoothForest, SmoothRegressor, parts_of
from simile.models.adapters import FittedRegressor, TreeMean
from simile.policies.policies import Policy, parts
from simile.policies.storage import foreign
from simile.policies.storage.decoding import Decoder, Revive, Unread
from simile.policies.storage.encoding import Encoder
from simile.policies.storage.files import Packed, from_bytes

__all__ = ["check_savable", "load", "read_header"]

LARGEST_FILE = 4 * 2**30  # bytes


def load(path: str | os.PathLike[str], *, trusted: Collection[str] = ()) -> Policy:
    """Read a policy that `policy.save` wrote: it rolls out to the same bits, and has the same card.

    A file from anybody can be read: everything in it is checked, and nothing in it is run. Models of other libraries
    are the exception. They are built by skops, which knows most of scikit-learn; other types must be trusted by name.

    Parameters
    ----------
    path : str or path
        The file.
    trusted : collection of str
        Full names of types that skops may build besides those it knows to be safe; the error lists those it lacks.

    Returns
    -------
    Policy

    Raises
    ------
    StorageError
        When the file cannot be read, is damaged, is no policy, or needs types that are not trusted.

    Examples
    --------
    >>> import tempfile
    >>> from simile import SmoothForest, clone, tasks
    >>> demos = tasks.pursuit(n_sequences=3, length=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clone(demos, model=SmoothForest(n_trees=4)).policy.save(f"{folder}/policy.safetensors")
    ...     policy = load(f"{folder}/policy.safetensors")
    >>> policy.card.training["sequences"]
    3
    """
    names = _names(trusted)
    return _decode(path, lambda data, name: foreign.revive(data, name, names))[1]


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Tell what a policy file holds, as JSON values; it is checked as by `load`, and models of others stay unbuilt.

    Returns
    -------
    dict
        format, version, library, digest, file_size (bytes), card, and structure: the kind of policy, its models,
        trees, nodes, terms, lags, smoothness, order of h, units and bounds.
    """
    packed, policy, size = _decode(path, None)
    kept = {name: packed.header[name] for name in ("format", "version", "library", "digest")}
    return {**kept, "file_size": size, "card": packed.header["card"], "structure": _summarize(policy)}


def check_savable(model: Any, *, n_actions: int = 1, trusted: Collection[str] = ()) -> None:
    """Find out before the training whether its policy can be saved, and loaded with this trust.

    A copy of the model is fitted to a few random rows, stored and read back, all in memory.

    Parameters
    ----------
    model : Regressor or SmoothRegressor
        The recipe for f.
    n_actions : int
        Dimension k of an action.
    trusted : collection of str
        What will be given to `load`.

    Raises
    ------
    StorageError
        When it cannot; the message says what is in the way and the way out.
    """
    if isinstance(model, SmoothForest):
        return
    names = _names(trusted)
    encoder = Encoder()
    try:
        tree = encoder.encode(_fit_tiny(model, n_actions), "f")
        Decoder(Packed({}, encoder.tensors), lambda data, name: foreign.revive(data, name, names)).read_model(tree, "f")
    except StorageError as error:
        raise StorageError(
            f"model {type(model).__name__} could be trained but not saved and loaded: {error}"
        ) from error


def _summarize(policy: Policy) -> dict[str, Any]:
    """Return kind, sizes, lags, smoothness, units and bounds as JSON values; a list where components differ."""
    smooth = [part for _, part in parts(policy)]
    # Every model once, however many components start from it.
    models = [model for p in smooth for model in (p.f, p.naive) if model is not None]
    kept = {id(f): f for model in models for f, _ in parts_of(model)}.values()
    forests = [f for f in kept if isinstance(f, Forest)]
    return {
        "kind": type(policy).__name__,
        "components": len(smooth),
        "models": sorted({_name_class(f) for f in kept}),
        "trees": sum(len(f.roots) for f in forests),
        "nodes": sum(len(f.feature) for f in forests),
        "terms": sum(len(f.feature) for f in kept if isinstance(f, PiecewiseLinear)),
        "contexts": _unite(p.n_inputs for p in smooth),
        "actions": policy.n_actions,
        "context_lags": _unite(list(p.horizon.context_lags) for p in smooth),
        "action_lags": _unite(list(p.horizon.action_lags) for p in smooth),
        "smoothness": _unite(p.smoothness for p in smooth),
        "order": _unite(getattr(p.h, "order", None) for p in smooth),
        "center": policy.units.center.tolist(),
        "scale": policy.units.scale.tolist(),
        **({} if policy.units.origin is None else {"origin": policy.units.origin.tolist()}),
        "low": [x if math.isfinite(x) else None for x in policy.space.low.tolist()],
        "high": [x if math.isfinite(x) else None for x in policy.space.high.tolist()],
    }


def _name_class(model: Any) -> str:
    """Return the class of a model, looking into what stands for another library's."""
    inside = model.trees[0] if isinstance(model, TreeMean) else model
    inside = inside.estimator if isinstance(inside, FittedRegressor) else inside
    return inside.name if isinstance(inside, Unread) else type(inside).__name__


def _unite(values: Iterable[Any]) -> Any:
    """Return what all have in common, or else the list of all."""
    found = list(values)
    return found[0] if all(value == found[0] for value in found) else found


def _fit_tiny(model: Any, n_actions: int) -> Any:
    """Fit a copy of a recipe to a few random rows; where so few do not fit, return the recipe as if it were fitted."""
    rng = np.random.default_rng(0)
    demos = Demonstrations.from_arrays([*rng.normal(size=(2, 40, 3))], [*rng.normal(size=(2, 40, n_actions))])
    states, labels = Horizon(1, 1).states(demos, demos.actions), np.concatenate(demos.actions)
    try:
        if isinstance(model, SmoothRegressor):
            return model.fit_smooth([states], labels, labels, labels, 0.0, rng)
        return models.fit(model, states.matrix(), labels, rng)
    except Exception:  # what it wants is not known here; the training will tell
        return FittedRegressor(model)


def _decode(path: str | os.PathLike[str], revive: Revive | None) -> tuple[Packed, Policy, int]:
    """Read a file; whatever goes wrong becomes a StorageError that names it."""
    try:
        data = _read(Path(path))
        packed, size = from_bytes(data), len(data)
        del data  # its room is wanted for the policy
        return packed, Decoder(packed, revive).decode(), size
    except StorageError as error:
        raise StorageError(f"{path}: {error}") from error
    except Exception as error:  # nothing is known to come here, but a file from anybody may hold what nobody thought of
        raise StorageError(
            f"{path}: it cannot be read as a policy ({type(error).__name__}: {error}): "
            "the file is damaged: get it anew from where it came"
        ) from error


def _read(path: Path) -> bytes:
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise StorageError("it is a folder: give the policy file in it")
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for, and a device never ends
            raise StorageError("it is no regular file: copy it to one first")
        if found.st_size > LARGEST_FILE:
            raise StorageError(f"it has {found.st_size:,} bytes, and a policy at most {LARGEST_FILE:,}")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise StorageError("there is no such file: check the name, or save a policy there first") from error
    except (OSError, ValueError) as error:
        raise StorageError(f"it cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _names(trusted: Collection[str]) -> tuple[str, ...]:
    names = (trusted,) if isinstance(trusted, str) else trusted
    if not isinstance(names, Collection) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"trusted must be full names of types, such as 'package.module.Class'; got {trusted!r}")
    return tuple(names)
