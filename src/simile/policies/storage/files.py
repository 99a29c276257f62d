"""The file itself: safetensors, whose one metadata entry "simile" is a JSON text with everything but the arrays."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from simile._common.files import write_atomically
from simile.errors import StorageError
from simile.policies.storage.encoding import DTYPES, Encoder
from simile.policies.storage.limits import check_writable

FORMAT, VERSION = "simile-policy", 6
LARGEST_HEADER = 16 * 2**20  # bytes; JSON takes many times its room in memory

MOST_AXES = 8  # of an array

Layout = dict[str, tuple[Any, tuple[int, ...]]]  # by name: the type and shape of an array

Check = Callable[[dict[str, Any], Layout], None]

_ENTRIES = {"card", "digest", "format", "library", "policy", "version"}
_DAMAGED = "the file is damaged: get it anew from where it came"
_NOT_OURS = "this is no policy of simile: give a file that policy.save wrote"


@dataclass(frozen=True, eq=False)
class Packed:
    """What a policy file holds: a header of JSON values, and arrays by name."""

    header: dict[str, Any]
    tensors: dict[str, Any]
    size: int = 0  # of the file, in bytes


def write(policy: Any, path: str | os.PathLike[str]) -> None:
    """Write a policy to one file, whole or not at all."""
    write_atomically(path, to_bytes(policy))


def _choose_version(policy: Any) -> int:
    """Return the version whose readers know all that a policy has.

    The first knew no origin of contexts, the second no hold, and one lambda and one weight for all actions, the third
    no offset, the fourth not that bounds are learned, nor where a cold start begins, the fifth nothing that is mended.
    """
    parts, space = getattr(policy, "parts", ()), policy.space
    if policy.card.preparation:
        return VERSION
    if space.learned or space.first_low is not None:
        return 5
    if any(part.offset is not None for _, part in parts):
        return 4
    new = any(np.ndim(weight) or np.ndim(part.smoothness) or part.hold is not None for weight, part in parts)
    return 3 if new else 1 if policy.units.origin is None else 2


def digest_of(policy: Any) -> str | None:
    """Return the digest that the file of a policy has, or would have; None for one that cannot be written down."""
    try:
        return str(_pack(policy).header["digest"])
    except StorageError:
        return None


def to_bytes(policy: Any) -> bytes:
    """Return a policy as the bytes of its file; equal policies give equal bytes."""
    from safetensors.numpy import save

    packed = _pack(policy)
    # One entry alone: safetensors writes several in random order.
    data: bytes = save(packed.tensors, metadata={"simile": _text(packed.header)})
    if _header_size(data) > LARGEST_HEADER:
        raise StorageError(
            f"the names and settings of the policy take {_header_size(data):,} bytes, and a file holds at most "
            f"{LARGEST_HEADER:,}: shorten the card, or drop components with simile.prune"
        )
    return data


def _pack(policy: Any) -> Packed:
    from importlib.metadata import version

    encoder = Encoder()
    card = encoder.encode(policy.card, "card")
    header = {
        "format": FORMAT,
        "version": _choose_version(policy),
        "library": version("smooth-imitation"),
        "card": {name: part for name, part in card.items() if name != "kind"},
        "policy": encoder.encode(policy, "policy"),
    }
    check_writable(header, {name: (array.dtype, array.shape) for name, array in encoder.tensors.items()})
    header["digest"] = digest(Packed(header, encoder.tensors))
    return Packed(header, encoder.tensors)


def from_bytes(data: bytes) -> Packed:
    """Return what the bytes of a policy file hold; see `read`."""
    return read(io.BytesIO(data), len(data))


def read(file: BinaryIO, size: int, check: Check = lambda *_: None) -> Packed:
    """Return what a policy file of `size` bytes holds; whether it makes a policy is yet to be seen.

    The header comes first: no more is read where it is wrong, or where `check` refuses it and the layout of the
    arrays. These can be written to. Nothing is allocated by a number in the file: all have the size of their bytes.
    """
    packed = _unpack(file, size, check)
    if digest(packed) != packed.header["digest"]:
        raise StorageError(f"the content does not match its digest: {_DAMAGED}")
    return packed


def digest(packed: Packed) -> str:
    """Return the SHA-256 of all that a file holds, but for the digest itself."""
    names = sorted(packed.tensors)
    kinds = [[name, packed.tensors[name].dtype.str, list(packed.tensors[name].shape)] for name in names]
    header = {name: part for name, part in packed.header.items() if name != "digest"}
    found = hashlib.sha256(_text([header, kinds]).encode())
    for name in names:
        found.update(packed.tensors[name].reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def _text(value: Any) -> str:
    """Write JSON in the one way in which equal values give equal texts."""
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
        text.encode()
    except ValueError as error:  # not a number, or half a character in a name
        raise StorageError(f"the header cannot be written as JSON: {error}") from error
    return text


def _header_size(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def _unpack(file: BinaryIO, size: int, check: Check) -> Packed:
    header, layout = read_header(file, size)
    check(header, layout)
    return Packed(header, {name: _read_tensor(file, name, *layout[name]) for name in layout}, size)


def read_header(file: BinaryIO, size: int) -> tuple[dict[str, Any], Layout]:
    """Return the header and where the arrays lie, in their order; the file is then at the first of them."""
    if not size:
        raise StorageError(f"it is empty: {_DAMAGED}")
    length = _header_size(file.read(8)) if size >= 8 else size
    if length > min(size - 8, LARGEST_HEADER):
        raise StorageError(f"it is no safetensors file, or cut off: {_NOT_OURS}")
    beginning = file.read(length).decode(errors="replace")
    outer = _parse(beginning, f"its beginning is no safetensors header: {_NOT_OURS}")
    metadata = outer.pop("__metadata__", None)
    if not isinstance(metadata, dict) or set(metadata) != {"simile"} or not isinstance(metadata["simile"], str):
        raise StorageError(f"it is a safetensors file of something else: {_NOT_OURS}")
    header = _parse(metadata["simile"], f"its description is no JSON object: {_DAMAGED}")
    version = header.get("version")
    if header.get("format") != FORMAT or not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise StorageError(f"it is a safetensors file of something else: {_NOT_OURS}")
    if version > VERSION:
        raise StorageError(
            f"it was written by a newer simile: version {str(version)[:20]} of the format, and this one "
            f"reads {VERSION}: upgrade with pip install --upgrade smooth-imitation"
        )
    if set(header) != _ENTRIES or not all(isinstance(header[name], str) for name in ("digest", "library")):
        raise StorageError(f"its description must have the entries {', '.join(sorted(_ENTRIES))}: {_DAMAGED}")
    return header, _read_layout(outer, size - 8 - length)


def _parse(text: str, otherwise: str) -> dict[str, Any]:
    """Read a JSON object without repeated names."""
    try:
        found = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise StorageError(otherwise) from error
    if not isinstance(found, dict):
        raise StorageError(otherwise)
    return found


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is repeated")
    return found


def _read_layout(entries: dict[str, Any], room: int) -> Layout:
    """Return the type and shape of every array, in the order in which they fill the room after the header."""
    found: list[tuple[int, int, str, Any, tuple[int, ...]]] = []
    for name, entry in entries.items():
        named = name[:100]
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise StorageError(f"tensor {named!r} is not described as in safetensors: {_DAMAGED}")
        if entry["dtype"] not in [*DTYPES]:
            raise StorageError(
                f"tensor {named!r} has a type that no policy has, {str(entry['dtype'])[:20]}: {_DAMAGED}"
            )
        shape, offsets = entry["shape"], entry["data_offsets"]
        if not (_are_counts(shape) and _are_counts(offsets) and len(shape) <= MOST_AXES and len(offsets) == 2):
            raise StorageError(f"tensor {named!r} has an absurd shape or place: {_DAMAGED}")
        dtype = np.dtype(DTYPES[entry["dtype"]])
        absurd = math.prod(max(1, n) for n in shape) > max(1, room)  # though it may be empty
        if absurd or offsets[1] - offsets[0] != math.prod(shape) * dtype.itemsize:
            raise StorageError(f"tensor {named!r} has an absurd shape, or not as many bytes as it says: {_DAMAGED}")
        found.append((*offsets, name, dtype, tuple(shape)))
    end = 0
    for begin, until, *_ in (found := sorted(found)):
        end = until if begin == end else -1
    if end != room:
        raise StorageError(f"its tensors do not fill it as they say: {_DAMAGED}")
    return {name: (dtype, shape) for _, _, name, dtype, shape in found}


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**63 for v in values)


def _read_tensor(file: BinaryIO, name: str, dtype: Any, shape: tuple[int, ...]) -> Any:
    array = np.empty(shape, dtype)
    room = array.reshape(-1).view(np.uint8)
    if file.readinto(room.data) != len(room):  # type: ignore[attr-defined]
        raise StorageError(f"its tensors do not fill it as they say: {_DAMAGED}")
    if dtype == np.bool_ and (room > 1).any():
        raise StorageError(f"tensor {name[:100]!r} holds bytes that are neither true nor false: {_DAMAGED}")
    return array
