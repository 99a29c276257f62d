"""The file itself: safetensors, whose one metadata entry "simile" is a JSON text with everything but the arrays."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from simile._common.files import write_atomically
from simile.errors import StorageError
from simile.policies.storage.encoding import DTYPES, Encoder

FORMAT, VERSION = "simile-policy", 2
FIRST = 1  # the version of a policy without an origin of its contexts, which the first readers take
LARGEST_HEADER = 16 * 2**20  # bytes; JSON takes many times its room in memory

_ENTRIES = {"card", "digest", "format", "library", "policy", "version"}
_DAMAGED = "the file is damaged: get it anew from where it came"
_NOT_OURS = "this is no policy of simile: give a file that policy.save wrote"


@dataclass(frozen=True, eq=False)
class Packed:
    """What a policy file holds: a header of JSON values, and arrays by name."""

    header: dict[str, Any]
    tensors: dict[str, Any]


def write(policy: Any, path: str | os.PathLike[str]) -> None:
    """Write a policy to one file, whole or not at all."""
    write_atomically(path, to_bytes(policy))


def to_bytes(policy: Any) -> bytes:
    """Return a policy as the bytes of its file; equal policies give equal bytes."""
    from importlib.metadata import version

    from safetensors.numpy import save

    encoder = Encoder()
    card = encoder.encode(policy.card, "card")
    header = {
        "format": FORMAT,
        "version": FIRST if policy.units.origin is None else VERSION,
        "library": version("smooth-imitation"),
        "card": {name: part for name, part in card.items() if name != "kind"},
        "policy": encoder.encode(policy, "policy"),
    }
    header["digest"] = digest(Packed(header, encoder.tensors))
    # One entry alone: safetensors writes several in random order.
    data: bytes = save(encoder.tensors, metadata={"simile": _text(header)})
    if _header_size(data) > LARGEST_HEADER:
        raise StorageError(
            f"the names and settings of the policy take {_header_size(data):,} bytes, and a file holds at most "
            f"{LARGEST_HEADER:,}: shorten the card, or drop components with simile.prune"
        )
    return data


def from_bytes(data: bytes) -> Packed:
    """Return what a policy file holds; whether it makes a policy is yet to be seen.

    The arrays can be written to. Nothing is allocated by a number in the file: all have the size of their bytes.
    """
    header = _read_header(data)
    packed = Packed(header, _read_tensors(data))
    if digest(packed) != header["digest"]:
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


def _read_header(data: bytes) -> dict[str, Any]:
    if not data:
        raise StorageError(f"it is empty: {_DAMAGED}")
    if len(data) < 8 or _header_size(data) > min(len(data) - 8, LARGEST_HEADER):
        raise StorageError(f"it is no safetensors file, or cut off: {_NOT_OURS}")
    beginning = data[8 : 8 + _header_size(data)].decode(errors="replace")
    outer = _parse(beginning, f"its beginning is no safetensors header: {_NOT_OURS}")
    metadata = outer.get("__metadata__")
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
    return header


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


def _read_tensors(data: bytes) -> dict[str, Any]:
    from safetensors import SafetensorError, deserialize

    try:
        parts = deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise StorageError(f"its tensors do not fill it as they say ({error}): {_DAMAGED}") from error
    tensors: dict[str, Any] = {}
    for name, part in parts:
        if part["dtype"] not in DTYPES:
            raise StorageError(f"tensor {name[:100]!r} has a type that no policy has, {part['dtype']}: {_DAMAGED}")
        flat: Any = np.frombuffer(part["data"], DTYPES[part["dtype"]])
        try:
            tensors[name] = flat.reshape(part["shape"])
        except (ValueError, OverflowError) as error:  # empty, and yet of an absurd shape
            raise StorageError(f"tensor {name[:100]!r} has an absurd shape: {_DAMAGED}") from error
        if flat.dtype == np.bool_ and (flat.view(np.uint8) > 1).any():
            raise StorageError(f"tensor {name[:100]!r} holds bytes that are neither true nor false: {_DAMAGED}")
    return tensors
