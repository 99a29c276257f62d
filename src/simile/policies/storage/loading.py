"""Reading policy files, from anybody: what is not right is refused, and nothing in a file is ever run.

`policy.save(path)` writes them; see `simile.policies.storage` for what is in them.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from simile import models
from simile._common import memory
from simile._common.files import open_regular, write_atomically
from simile._common.urls import refuse_url
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import ActionSpace
from simile.data.states import Horizon
from simile.errors import ArgumentError, StorageError
from simile.models import Forest, PiecewiseLinear, SmoothForest, SmoothRegressor, parts_of
from simile.models.adapters import FittedRegressor, TreeMean
from simile.policies.policies import Policy, describe_hold, describe_offset, describe_timing, parts, tell
from simile.policies.storage import files, foreign, ledger, rehearsal
from simile.policies.storage.decoding import Decoder, Unread
from simile.policies.storage.encoding import Encoder
from simile.policies.storage.files import Packed
from simile.policies.storage.limits import check_header

__all__ = ["check_savable", "load", "read_header"]

LARGEST_FILE = 4 * 2**30  # bytes

Found = TypeVar("Found")


def load(path: str | os.PathLike[str], *, trusted: Collection[str] = (), max_memory: float | None = None) -> Policy:
    """Read a policy that `policy.save` wrote: it rolls out to the same bits, and has the same card.

    A file from anybody can be read: everything in it is checked, and nothing in it is run. Models of other libraries,
    scikit-learn's too, are the exception: they are built by skops, and only where every type in them is trusted by
    name. They are built and asked in a child process first, so that what crashes there is a StorageError here.

    Parameters
    ----------
    path : str or path
        The file.
    trusted : collection of str
        Full names of the types of other libraries that may be built; the error lists those it lacks.
    max_memory : float, optional
        MB that the policy, acting for one stream, may take; a half of what there is by default. The header tells,
        before anything is allocated.

    Returns
    -------
    Policy

    Raises
    ------
    StorageError
        When the file cannot be read, is damaged, is no policy, needs types that are not trusted, or takes too much.

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
    names, limit = _names(trusted), memory.read_limit(max_memory)
    return _read(path, limit, lambda packed: _decode(packed, path, names, limit))


def load_own(path: str | os.PathLike[str], *, trusted: Collection[str] = (), max_memory: float | None = None) -> Policy:
    """Read a policy as `load` does; what `save_own` wrote, for this user and here, needs no trust and no rehearsal."""
    names, limit = _names(trusted), memory.read_limit(max_memory)

    def decode(packed: Packed) -> Policy:
        own = ledger.holds(packed.header["digest"])
        return Decoder(packed, foreign.revive).decode() if own else _decode(packed, path, names, limit)

    return _read(path, limit, decode)


def save_own(policy: Policy, path: str | os.PathLike[str]) -> None:
    """Write a policy of a run's own, for `load_own`: where it holds models of other libraries, the ledger notes it."""
    data = files.to_bytes(policy)
    header, layout = files.read_header(io.BytesIO(data), len(data))
    if any(name.endswith(".skops") for name in layout):
        ledger.note(header["digest"])
    write_atomically(path, data)


def build(path: str | os.PathLike[str], digest: str, types: Collection[str], limit: int) -> Policy:
    """Build the policy with this digest, of these types alone, here and now: what a rehearsal does."""

    def decode(packed: Packed) -> Policy:
        if packed.header["digest"] != digest:
            raise StorageError("it was replaced while it was read: try again")
        return Decoder(packed, partial(foreign.revive, trusted=types)).decode()

    return _read(path, limit, decode)


def read_header(path: str | os.PathLike[str], *, max_memory: float | None = None) -> dict[str, Any]:
    """Tell what a policy file holds, as JSON values; it is checked as by `load`, and models of others stay unbuilt.

    Returns
    -------
    dict
        format, version, library, digest, file_size (bytes), card, and structure: the kind of policy, its models,
        trees, nodes, terms, lags, smoothness, hold, offset, order of h, units and bounds; `summary` says it in a line.
    """
    limit = memory.read_limit(max_memory)
    packed, policy = _read(path, limit, lambda packed: (packed, Decoder(packed, None).decode()))
    kept = {name: packed.header[name] for name in ("format", "version", "library", "digest")}
    return {**kept, "file_size": packed.size, "card": packed.header["card"], "structure": _summarize(policy)}


def check_savable(model: Any, *, n_actions: int = 1) -> tuple[str, ...]:
    """Find out before the training whether its policy can be saved, and loaded, and by which trust.

    A copy of the model is fitted to a few random rows, stored and read back, all in memory.

    Parameters
    ----------
    model : Regressor or SmoothRegressor
        The recipe for f.
    n_actions : int
        Dimension k of an action.

    Returns
    -------
    tuple of str
        What `load` will have to be given as `trusted`: nothing for our own models.

    Raises
    ------
    StorageError
        When it cannot; the message says what is in the way and the way out.
    """
    if isinstance(model, SmoothForest):
        return ()
    encoder, types = Encoder(), set()

    def revive(data: bytes, name: str) -> Any:
        types.update(foreign.find_types(data, name))
        return foreign.revive(data, name)

    try:
        tree = encoder.encode(_fit_tiny(model, n_actions), "f")
        Decoder(Packed({}, encoder.tensors), revive).read_model(tree, "f")
    except StorageError as error:
        raise StorageError(
            f"model {type(model).__name__} could be trained but not saved and loaded: {error}"
        ) from error
    return tuple(sorted(types))


def _summarize(policy: Policy) -> dict[str, Any]:
    """Return kind, sizes, lags, smoothness, units and bounds as JSON values; a list where components differ."""
    smooth = [part for _, part in parts(policy)]
    # Every model once, however many components start from it.
    models = [model for p in smooth for model in (p.f, p.naive) if model is not None]
    kept = {id(f): f for model in models for f, _ in parts_of(model)}.values()
    forests = [f for f in kept if isinstance(f, Forest)]
    return {
        "kind": type(policy).__name__,
        "summary": tell(policy),
        "components": len(smooth),
        "models": sorted({_name_class(f) for f in kept}),
        "trees": sum(len(f.roots) for f in forests),
        "nodes": sum(len(f.feature) for f in forests),
        "terms": sum(len(f.feature) for f in kept if isinstance(f, PiecewiseLinear)),
        "contexts": _unite(p.n_inputs for p in smooth),
        "actions": policy.n_actions,
        "context_lags": _unite(list(p.horizon.context_lags) for p in smooth),
        "action_lags": _unite(list(p.horizon.action_lags) for p in smooth),
        **describe_timing(policy),
        "smoothness": _unite(np.asarray(p.smoothness).tolist() for p in smooth),
        **describe_hold(policy),
        **describe_offset(policy),
        "order": _unite(getattr(p.h, "order", None) for p in smooth),
        "center": policy.units.center.tolist(),
        "scale": policy.units.scale.tolist(),
        **({} if policy.units.origin is None else {"origin": policy.units.origin.tolist()}),
        "low": [x if math.isfinite(x) else None for x in policy.space.low.tolist()],
        "high": [x if math.isfinite(x) else None for x in policy.space.high.tolist()],
        **_describe_space(policy.space),
    }


def _describe_space(space: ActionSpace) -> dict[str, Any]:
    """Return where bounds come from, and where the first action of a cold start lies, as JSON values."""
    known = np.isfinite([*space.low, *space.high]).any()
    told: dict[str, Any] = {"bounds": ("learned" if space.learned else "given") if known else "none"}
    if space.first_low is not None and space.first_high is not None:
        told |= {"first_low": space.first_low.tolist(), "first_high": space.first_high.tolist()}
    return told


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


def _decode(packed: Packed, path: str | os.PathLike[str], trusted: Collection[str], limit: int) -> Policy:
    """Build a policy; where models of other libraries are in it, not before all of it is trusted and rehearsed."""
    policy, types = _find_types(packed)
    if types is None:
        return policy
    foreign.check_trust(types, trusted)
    rehearsal.rehearse(path, packed.header["digest"], sorted(types), limit)
    return Decoder(packed, partial(foreign.revive, trusted=types)).decode()


def _find_types(packed: Packed) -> tuple[Policy, set[str] | None]:
    """Return a policy with all that is not ours unread, and the types of that; None where all is ours."""
    stored: list[tuple[bytes, str]] = []

    def leave(data: bytes, name: str) -> Unread:
        stored.append((data, name))
        return Unread(name)

    policy = Decoder(packed, leave).decode()
    found: set[str] = set()
    return policy, found.union(*(foreign.find_types(*one) for one in stored)) if stored else None


def _read(path: str | os.PathLike[str], limit: int, decode: Callable[[Packed], Found]) -> Found:
    """Read a file; whatever goes wrong becomes a StorageError that names it."""
    refuse_url(path, "policy", "policies are read from this machine: fetch the file first", StorageError)
    try:
        return decode(_read_packed(Path(path), limit))
    except StorageError as error:
        raise StorageError(f"{path}: {error}") from error
    except Exception as error:  # nothing is known to come here, but a file from anybody may hold what nobody thought of
        raise StorageError(
            f"{path}: it cannot be read as a policy ({type(error).__name__}: {error}): "
            "the file is damaged: get it anew from where it came"
        ) from error


def _read_packed(path: Path, limit: int) -> Packed:
    try:
        with open_regular(path, longest=LARGEST_FILE) as file:
            size = os.fstat(file.fileno()).st_size
            return files.read(file, size, lambda header, layout: check_header(header, layout, limit))
    except StorageError:  # a ValueError too
        raise
    except FileNotFoundError as error:
        raise StorageError("there is no such file: check the name, or save a policy there first") from error
    except (OSError, ValueError) as error:
        raise StorageError(f"it cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _names(trusted: Collection[str]) -> tuple[str, ...]:
    names = (trusted,) if isinstance(trusted, str) else trusted
    if not isinstance(names, Collection) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"trusted must be full names of types, such as 'package.module.Class'; got {trusted!r}")
    return tuple(names)
