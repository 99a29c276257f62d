"""Folders with a layout of their own (Minari, LeRobot), and episodes in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from simile._common import checks
from simile._common.needs import need
from simile._common.typing import FloatArray
from simile._common.urls import File, Url, opened
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.reading.arrow import open_parquet
from simile.data.reading.columns import Patterns, select, shared_columns
from simile.data.reading.tables import (
    LONGEST,
    PER_VALUE,
    Batch,
    Column,
    Place,
    Roles,
    Table,
    Wanted,
    decoding,
    elements,
)
from simile.data.reading.values import as_groups, as_numbers, kind_of_array
from simile.errors import ArgumentError, DataError

_ENDOGENOUS = "what a robot observes of itself follows from its actions: choose what does not with contexts=..."


def open_dataset(folder: File) -> Table | None:
    """Open a folder that is a Minari or LeRobot dataset; None if it is neither."""
    if isinstance(folder, Url) and (folder.is_web or folder.has_magic() or folder.kind != "directory"):
        return None
    if (folder / "meta" / "info.json").is_file():
        return _open_lerobot(folder)
    if (folder / "data" / "main_data.hdf5").is_file():
        return _open_minari(folder)
    return None


def from_episodes(
    episodes: Iterable[Any],
    *,
    contexts: Patterns = None,
    rate: float | None = None,
    context_names: Sequence[str] = (),
    action_names: Sequence[str] = (),
) -> Demonstrations:
    """Build demonstrations from episodes as Gymnasium and Minari have them.

    Parameters
    ----------
    episodes
        Mappings or objects with `observations` (T or T + 1 rows) and `actions` (T rows). The observation after the
        last action is dropped. A dictionary of observations is flattened: `key.0, key.1, ...`; an array has the
        names `observation.0, ...`, or `observation` if it is one column.
    contexts : str or sequence of str, optional
        Which observations to take: names, globs or regexes. All numeric ones by default. Take those that do not
        depend on the actions.
    rate : float, optional
        Steps per second.
    context_names, action_names : sequence of str, optional
        Other names for the columns.

    Examples
    --------
    >>> episode = {"observations": [[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]], "actions": [0.1, 0.2]}
    >>> demos = from_episodes([episode], contexts="*.0", rate=20.0)
    >>> demos[0]
    Demonstration('episode 0', 2 frames, 1 context, 1 action, 20 Hz)
    """
    demos: list[Demonstration] = []
    for i, episode in enumerate(episodes):
        name = f"episode {i}"
        observed = _leaves(_part(episode, "observations", i), "observation")
        acted = _leaves(_part(episode, "actions", i), "action")
        columns = [c for leaf in observed for c in leaf.columns if c.is_numeric]
        chosen = [c.name for c in columns] if contexts is None else select(columns, "contexts", contexts)
        wanted_actions = [c.name for leaf in acted for c in leaf.columns]
        length = len(acted[0].values) if acted else 0
        demos.append(
            Demonstration(
                _table(observed, chosen, length, name),
                _table(acted, wanted_actions, length, name),
                rate,
                name,
                tuple(context_names) or tuple(chosen),
                tuple(action_names) or tuple(wanted_actions),
            )
        )
    return Demonstrations(tuple(demos))


class _Leaf:
    """One array of an episode, with a row per step, and the columns it is spread over."""

    def __init__(self, name: str, values: Any) -> None:
        self.values = values if hasattr(values, "shape") and hasattr(values, "dtype") else np.asarray(values)
        shape = tuple(self.values.shape)
        width = (*shape, 1)[1]
        if len(shape) in (1, 2) and width <= LONGEST:
            kind = kind_of_array(np.asarray(self.values[: 1 + 1000 // max(1, width)]).ravel()[:1000])
            self.columns = elements(name, width, kind)
        else:  # pictures
            self.columns = [Column(name, f"{'x'.join(map(str, shape[1:]))} arrays", name)]

    def table(self, length: int, where: str) -> Any:
        """Return the first `length` rows; one more may be there."""
        if len(self.values) not in (length, length + 1):
            raise DataError(
                f"{where}: {self.columns[0].parent!r} has {len(self.values)} rows for {length} actions: "
                f"there must be {length} or, with the one after the last action, {length + 1}"
            )
        return np.asarray(self.values[:length]).reshape(length, len(self.columns))


def _leaves(value: Any, name: str, root: bool = True) -> list[_Leaf]:
    """Return the arrays below a dictionary (or HDF5 group), named by the path to them."""
    if isinstance(value, tuple):
        value = {f"{name}_{i}": part for i, part in enumerate(value)}
    if isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):  # one dictionary per step
        value = {key: [v[key] for v in value] for key in value[0]}
    if not hasattr(value, "items"):
        return [_Leaf(name, value)]
    prefix = "" if root else f"{name}."
    return [leaf for key, part in value.items() for leaf in _leaves(part, f"{prefix}{key}", root=False)]


def _table(leaves: Sequence[_Leaf], names: Sequence[str], length: int, where: str) -> Any:
    """Return the named columns (length, n)."""
    parts: dict[str, FloatArray] = {}
    for leaf in leaves:
        if any(c.name in names for c in leaf.columns):
            table = leaf.table(length, where)
            parts |= {c.name: as_numbers(table[:, i], c.name, Place(where)) for i, c in enumerate(leaf.columns)}
    for name in names:
        if name not in parts:
            raise DataError(f"{where}: {name!r} is not there, but in the first episode it is")
    return np.column_stack([parts[name] for name in names]) if names else np.empty((length, 0))


def _part(episode: Any, key: str, i: int) -> Any:
    value = episode.get(key) if isinstance(episode, Mapping) else getattr(episode, key, None)
    if value is None:
        raise ArgumentError(f"episodes must have observations and actions; number {i} has no {key}")
    return value


def _open_minari(folder: File) -> Table:
    h5py = need("h5py", "reading Minari data")
    path = folder / "data" / "main_data.hdf5"
    with decoding(path, "HDF5"), opened(path) as source, h5py.File(source, "r") as file:
        names = sorted((n for n in file if re.fullmatch(r"episode_\d+", n)), key=lambda n: int(n[8:]))
        if not names:
            raise DataError(f"{path}: there is no episode")
        columns = {
            key: [c for leaf in _leaves(file[names[0]][f"{key}s"], key) for c in leaf.columns]
            for key in ("observation", "action")
        }
        n_rows = sum(_count_steps(file[name]["actions"]) for name in names)

    def scan(wanted: Wanted) -> Iterator[Batch]:
        with decoding(path, "HDF5"), opened(path) as source, h5py.File(source, "r") as file:
            for name in names:
                where = f"{path}: {name}"
                observed = _leaves(file[name]["observations"], "observation")
                acted = _leaves(file[name]["actions"], "action")
                length = len(acted[0].values)
                table = _table([*observed, *acted], wanted.numbers, length, where)
                yield Batch(
                    Place(where),
                    dict(zip(wanted.numbers, table.T, strict=True)),
                    None if wanted.labels is None else [name.replace("_", " ")] * length,
                    None,
                    groups=None
                    if wanted.group is None
                    else as_groups(_table([*observed, *acted], (wanted.group,), length, where)[:, 0]),
                )

    numeric = {key: tuple(c.name for c in group if c.is_numeric) for key, group in columns.items()}
    return Table(
        folder,
        (Column("episode", "text"), *columns["observation"], *columns["action"]),
        scan,
        Roles("episode", None, numeric["observation"], numeric["action"], _minari_rate(folder)),
        (f"Minari dataset: {_ENDOGENOUS}",),
        weigh=lambda wanted: n_rows * len(wanted.names) * PER_VALUE,
    )


def _count_steps(actions: Any) -> int:
    """Return how many rows the first array in there has, without reading it."""
    while hasattr(actions, "items"):
        actions = next(iter(actions.values()))
    return int(actions.shape[0])


def _minari_rate(folder: File) -> float | None:
    for path in (folder / "data" / "metadata.json", folder / "metadata.json"):
        if path.is_file():
            said = _json(path)
            for key in ("rate", "fps", "render_fps"):
                if isinstance(said.get(key), int | float):
                    return checks.number(said[key], f"{path}: {key}", above=0.0)
    return None


def _open_lerobot(folder: File) -> Table:
    info = _json(folder / "meta" / "info.json")
    features = info.get("features") if isinstance(info.get("features"), dict) else {}
    assert isinstance(features, dict)
    names = {key: _flat_names(feature) for key, feature in features.items()}
    files = sorted(file for file in (folder / "data").rglob("*.parquet") if file.is_file())
    if not files:
        raise DataError(f"{folder}: there is no .parquet file below data/")
    tables = [open_parquet(file, names) for file in files]
    columns = shared_columns(tables)
    there = {c.parent for c in columns}
    numeric = [c for c in columns if c.is_numeric]
    pictures = [f"{key} ({_dtype(feature)})" for key, feature in features.items() if key not in there]
    return Table(
        folder,
        columns,
        lambda wanted: chain.from_iterable(table.scan(wanted) for table in tables),
        Roles(
            "episode_index" if "episode_index" in there else None,
            next((n for n in ("timestamp", "frame_index") if n in there), None),
            tuple(c.name for c in numeric if c.parent.startswith("observation")),
            tuple(c.name for c in numeric if c.parent == "action"),
            checks.number(info["fps"], f"{folder}: fps", above=0.0) if info.get("fps") is not None else None,
        ),
        (f"LeRobot {info.get('codebase_version', 'dataset')}: {_ENDOGENOUS}",),
        tuple(pictures),
        lambda wanted: sum(table.weigh(wanted) for table in tables),
    )


def _flat_names(feature: Any) -> list[str]:
    """Return the names of the elements of a feature where they are one list of different names."""
    names = feature.get("names") if isinstance(feature, dict) else None
    if isinstance(names, dict) and len(names) == 1:  # {"motors": [...]} in version 2
        names = next(iter(names.values()))
    if isinstance(names, list) and len(names) == 1 and isinstance(names[0], list):  # [["kLeftElbow", ...]]
        (names,) = names
    flat = isinstance(names, list) and all(isinstance(n, str) for n in names) and len(set(names)) == len(names)
    return list(names) if flat and isinstance(names, list) else []


def _dtype(feature: Any) -> str:
    return str(feature.get("dtype", "unknown")) if isinstance(feature, dict) else "unknown"


def _json(path: File) -> dict[str, Any]:
    with decoding(path, "JSON"):
        said = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(said, dict):
            raise DataError(f"{path}: a JSON object is wanted")
        return said
