"""Objects of other libraries as bytes and back, by skops: no pickle, and no type that the caller does not trust."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Collection
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from simile._common.needs import need
from simile.errors import StorageError

_MEMBER = re.compile(r"schema\.json|[0-9]+\.(npy|bin)")
_IMMUTABLE = ("JsonNode", "TypeNode", "FunctionNode")


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


def revive(data: bytes, name: str, trusted: Collection[str]) -> Any:
    """Return the object that `dump` stored; nothing is built before all its types are known to be trusted."""
    skops = _skops(name)
    try:
        _check(data)
        unknown = sorted(set(skops.get_untrusted_types(data=data)) - set(trusted))
    except Exception as error:
        raise StorageError(f"the stored {name} is damaged: {_reason(error)}") from error
    if unknown:
        raise StorageError(
            f"the stored {name} needs types that are not trusted: {', '.join(unknown)}: where you know who made the "
            f"file, allow them by name: trusted={[*unknown]}"
        )
    try:
        return skops.loads(data, trusted=list(trusted))
    except Exception as error:
        raise StorageError(f"the stored {name} cannot be built: {_reason(error)}") from error


def _skops(name: str) -> Any:
    return need("skops.io", f"storing a {name}", error=StorageError)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no reason given'}"


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
