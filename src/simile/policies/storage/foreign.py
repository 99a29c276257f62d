"""Objects of other libraries as bytes and back, by skops: no pickle, and no type that the caller does not trust.

That skops itself takes scikit-learn's estimators for safe does not count: some of them trust the arrays they are given.
"""

from __future__ import annotations

import io
import json
import math
import re
import shlex
import sys
from collections.abc import Collection, Iterable
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from simile._common.needs import need
from simile.errors import StorageError

_MEMBER = re.compile(r"schema\.json|[0-9]+\.(npy|bin)")
_TORCH = "sklearn.externals.array_api_compat.torch"
_IMMUTABLE = ("JsonNode", "TypeNode", "FunctionNode")
# Plain values, which need no trust; all else that a file names does.
_PLAIN = re.compile(
    r"builtins\.(bool|bytes|dict|float|int|list|set|slice|str|tuple)"
    r"|numpy\.(ndarray|dtype|bool_?|u?int\d*|float\d+|longdouble|dtypes\.\w+)"
)


def class_name(value: Any) -> str:
    """Return the full name of an object's class."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def dump(value: Any, name: str) -> Any:
    """Return an object as bytes, a (size,) uint8 array: equal objects give equal bytes.

    The bytes are read back at once, for skops also writes what it cannot read, such as a class inside a function.
    """
    skops = _skops(name)
    try:
        data = _canonical(skops.dumps(value))
        _check(data)
        skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    except Exception as error:  # skops raises whatever the object's own methods do
        raise StorageError(
            f"a {name} cannot be stored: {_reason(error)}: use a model whose class lies in a module that can be "
            "imported and holds arrays, numbers and texts alone, or a SmoothForest"
        ) from error
    return np.frombuffer(data, np.uint8)


def find_types(data: bytes, name: str) -> set[str]:
    """Return the full names of all types that building the object takes, but for those of plain values and arrays."""
    try:
        _check(data)
        with ZipFile(io.BytesIO(data)) as archive:
            named = _find_names(json.loads(archive.read("schema.json")))
    except Exception as error:
        raise StorageError(f"the stored {name} is damaged: {_reason(error)}") from error
    return {name for name in named if not _PLAIN.fullmatch(name)}


def check_trust(types: Iterable[str], trusted: Collection[str]) -> None:
    """Refuse types that are not trusted, with the way out."""
    if unknown := sorted(set(types) - set(trusted)):
        raise StorageError(
            f"it holds models of other libraries, and needs types that are not trusted: {', '.join(unknown)}: where "
            f"you know who made the file, allow them by name: {write_trust(unknown)}, in Python trusted={unknown}"
        )


def write_trust(types: Iterable[str]) -> str:
    """Write trust as options of a command; nothing where none is needed."""
    return " ".join(f"--trust {shlex.quote(name)}" for name in types)


def revive(data: bytes, name: str, trusted: Collection[str] | None = None) -> Any:
    """Return the object that `dump` stored, of trusted types alone; without any, the caller has seen who made it."""
    skops = _skops(name)
    try:
        unknown = skops.get_untrusted_types(data=data)
    except Exception as error:
        raise StorageError(f"the stored {name} is damaged: {_reason(error)}") from error
    if trusted is not None:
        check_trust([*unknown, *find_types(data, name)], trusted)
    try:
        return skops.loads(data, trusted=unknown)
    except Exception as error:
        raise StorageError(f"the stored {name} cannot be built: {_reason(error)}") from error


def _skops(name: str) -> Any:
    # It imports all of scikit-learn, and by this module torch, seconds that no estimator needs.
    hidden = _TORCH not in sys.modules
    if hidden:
        sys.modules[_TORCH] = None  # type: ignore[assignment]
    try:
        return need("skops.io", f"storing a {name}", error=StorageError)
    finally:
        if hidden:
            del sys.modules[_TORCH]


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no reason given'}"


def _find_names(schema: Any) -> set[str]:
    """Return what skops' description of an object names: every class, and every function."""
    found, left = set(), [schema]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            if "__class__" in node:
                found.add(f"{node.get('__module__')}.{node['__class__']}")
            left += node.values()
        elif isinstance(node, list):
            left += node
    return found


def _canonical(data: bytes) -> bytes:
    """Rewrite what skops wrote without the addresses in memory, the times and the gaps in records it is full of."""
    with ZipFile(io.BytesIO(data)) as archive:
        schema = json.loads(archive.read("schema.json"))
        names: dict[str, str] = {}
        _renumber(schema, {}, names)
        members = {new: archive.read(old) for old, new in names.items()}
    members = {name: _without_gaps(part) if name.endswith(".npy") else part for name, part in members.items()}
    result = io.BytesIO()
    with ZipFile(result, "w") as archive:
        for name, part in {**members, "schema.json": json.dumps(schema).encode()}.items():
            info = ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.create_system = 3  # whatever the system
            archive.writestr(info, part)
    return result.getvalue()


def _renumber(node: Any, ids: dict[int, int], names: dict[str, str]) -> None:
    """Give objects and files numbers in the order in which they are met; skops takes their addresses."""
    if isinstance(node, list):
        for item in node:
            _renumber(item, ids, names)
    if not isinstance(node, dict):
        return
    if node.get("__loader__") == "SetNode":
        node["content"].sort(key=lambda item: json.dumps({**item, "__id__": 0}))
    if isinstance(node.get("__id__"), int):
        address = node.pop("__id__")
        if node.get("__loader__") not in _IMMUTABLE:  # whether two equal numbers are one object means nothing
            node["__id__"] = ids.setdefault(address, len(ids) + 1)
    if isinstance(file := node.get("file"), str):
        node["file"] = names.setdefault(file, f"{len(names)}.{file.rpartition('.')[2]}")
    for item in node.values():
        _renumber(item, ids, names)


def _without_gaps(part: bytes) -> bytes:
    """Fill the gaps between the fields of records, which hold whatever lay there in memory, with zeros."""
    array = np.load(io.BytesIO(part), allow_pickle=False)
    if array.dtype.names is None:
        return part
    clean = np.zeros(array.shape, array.dtype)
    for field in array.dtype.names:
        clean[field] = array[field]
    result = io.BytesIO()
    np.save(result, clean, allow_pickle=False)
    return result.getvalue()


def _check(data: bytes) -> None:
    """Refuse what would unpack to more than it is: compressed or overlapping parts, arrays larger than their file."""
    with ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        if sum(info.file_size for info in infos) > len(data) or any(i.compress_type != ZIP_STORED for i in infos):
            raise ValueError("it holds compressed or overlapping parts")
        for info in infos:
            if not _MEMBER.fullmatch(info.filename):
                raise ValueError(f"it holds a part {info.filename!r}, such as a sparse matrix")
            if info.filename.endswith(".npy"):
                _check_array(io.BytesIO(archive.read(info)), info.file_size)


def _check_array(file: io.BytesIO, size: int) -> None:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject or file.tell() + math.prod(shape) * dtype.itemsize != size:
        raise ValueError("it holds an array that is not as large as it says")
