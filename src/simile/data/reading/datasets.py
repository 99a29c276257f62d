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
from simile._common.urls import File, Url, open_file, opened
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.reading.arrow import open_parquet
from simile.data.reading.columns import Patterns, select, shared_columns
from simile.data.reading.tables import LONGEST, PER_VALUE, Chunk, Column, Roles, Table, Types, decoding, elements
from simile.data.reading.values import SAMPLE, TEXT, Place, as_numbers, kind_of_array
from simile.errors import ArgumentError, DataError

_LONGEST_JSON = 1 << 24  # bytes
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
    for i, given in enumerate(episodes):
        name = f"episode {i}"
        episode = _Episode(name, _part(given, "observations", i), _part(given, "actions", i))
        seen = [c for c in episode.observed if c.is_numeric]
        chosen = [c.name for c in seen] if contexts is None else select(seen, "contexts", contexts)
        acted = [c.name for c in episode.acted]
        x, a = episode.stack(chosen), episode.stack(acted)
        named = tuple(context_names) or tuple(chosen), tuple(action_names) or tuple(acted)
        demos.append(Demonstration(x, a, rate, name, *named))
    return Demonstrations(tuple(demos))


class _Episode:
    """The arrays of an episode, and the columns that they are spread over."""

    def __init__(self, where: str, observations: Any, actions: Any) -> None:
        self.where = where
        acted, observed = _leaves(actions, "action"), _leaves(observations, "observation")
        self.arrays, self.length = observed | acted, len(next(iter(acted.values()), ()))
        self.columns = {name: _find_columns(name, values) for name, values in self.arrays.items()}
        self.observed = [c for name in observed for c in self.columns[name]]
        self.acted = [c for name in acted for c in self.columns[name]]

    def read(self, names: Iterable[str]) -> dict[str, FloatArray]:
        """Return columns, a row for each action; one more may be there."""
        left, found = set(names), dict[str, FloatArray]()
        for name, group in self.columns.items():
            if not left.isdisjoint(c.name for c in group):
                if (n := len(self.arrays[name])) not in (self.length, self.length + 1):
                    raise DataError(
                        f"{self.where}: {name!r} has {n} rows for {self.length} actions: there must be {self.length} "
                        f"or, with the one after the last action, {self.length + 1}"
                    )
                table = np.asarray(self.arrays[name][: self.length]).reshape(self.length, len(group))
                found |= {c.name: as_numbers(table[:, i], c.name, Place(self.where)) for i, c in enumerate(group)}
        if lacking := left - found.keys():
            raise DataError(f"{self.where}: {min(lacking)!r} is not there, but in the first episode it is")
        return found

    def stack(self, names: Sequence[str]) -> FloatArray:
        """Return columns as one table."""
        found = self.read(names)
        return np.column_stack([found[name] for name in names]) if names else np.empty((self.length, 0))


def _find_columns(name: str, values: Any) -> list[Column]:
    shape = tuple(values.shape)
    width = (*shape, 1)[1]
    if len(shape) not in (1, 2) or width > LONGEST:  # pictures
        return [Column(name, f"{'x'.join(map(str, shape[1:]))} arrays", name)]
    first = np.asarray(values[: 1 + SAMPLE // max(1, width)]).ravel()[:SAMPLE]
    return elements(name, width, kind_of_array(first))


def _leaves(value: Any, name: str, root: bool = True) -> dict[str, Any]:
    """Return the arrays below a dictionary (or HDF5 group), named by the path to them."""
    if isinstance(value, tuple):
        value = {f"{name}_{i}": part for i, part in enumerate(value)}
    if isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):  # one dictionary per step
        value = {key: [v[key] for v in value] for key in value[0]}
    if not hasattr(value, "items"):
        return {name: value if hasattr(value, "shape") and hasattr(value, "dtype") else np.asarray(value)}
    prefix = "" if root else f"{name}."
    return {n: leaf for key, part in value.items() for n, leaf in _leaves(part, f"{prefix}{key}", root=False).items()}


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
        first = _Episode(f"{path}: {names[0]}", file[names[0]]["observations"], file[names[0]]["actions"])
        n_rows = sum(_count_steps(file[name]["actions"]) for name in names)

    def scan(types: Types, _: Sequence[str] = ()) -> Iterator[Chunk]:
        with decoding(path, "HDF5"), opened(path) as source, h5py.File(source, "r") as file:
            for name in names:
                episode = _Episode(f"{path}: {name}", file[name]["observations"], file[name]["actions"])
                values: dict[str, Any] = {"episode": [name.replace("_", " ")] * episode.length}
                values |= episode.read(n for n in types if n != "episode")
                yield Chunk(Place(episode.where), values, episode.length)

    contexts, actions = (tuple(c.name for c in some if c.is_numeric) for some in (first.observed, first.acted))
    return Table(
        folder,
        (Column("episode", TEXT), *first.observed, *first.acted),
        scan,
        Roles("episode", None, contexts, actions, _minari_rate(folder)),
        (f"Minari dataset: {_ENDOGENOUS}",),
        weigh=lambda types: n_rows * len(types) * PER_VALUE,
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
        lambda types, watched=(): chain.from_iterable(table.scan(types, watched) for table in tables),
        Roles(
            "episode_index" if "episode_index" in there else None,
            next((n for n in ("timestamp", "frame_index") if n in there), None),
            tuple(c.name for c in numeric if c.parent.startswith("observation")),
            tuple(c.name for c in numeric if c.parent == "action"),
            checks.number(info["fps"], f"{folder}: fps", above=0.0) if info.get("fps") is not None else None,
        ),
        (f"LeRobot {info.get('codebase_version', 'dataset')}: {_ENDOGENOUS}",),
        tuple(pictures),
        lambda types: sum(table.weigh(types) for table in tables),
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
    with decoding(path, "JSON"), open_file(path) as file:
        said = json.loads(file.read(_LONGEST_JSON))
        if not isinstance(said, dict):
            raise DataError(f"{path}: a JSON object is wanted")
        return said
