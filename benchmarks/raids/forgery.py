"""Policy files of a hostile author: parts of good ones put together anew, with a digest that is right."""

from __future__ import annotations

import copy
import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

WIDTHS = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BOOL": 1, "U8": 1}
CODES = {"F64": "<f8", "I64": "<i8", "F32": "<f4", "I32": "<i4", "BOOL": "|b1", "U8": "|u1"}

Tensors = dict[str, tuple[str, list[int], bytes]]  # type, shape and bytes by name
Change = Callable[[dict[str, Any], Tensors], None]


def forge(source: Path, target: Path, change: Change) -> Path:
    """Change a policy file as its author could, and write it anew."""
    header, tensors = unpack(source.read_bytes())
    header, tensors = copy.deepcopy(header), dict(tensors)
    change(header, tensors)
    target.write_bytes(pack(header, tensors))
    return target


def unpack(data: bytes) -> tuple[dict[str, Any], Tensors]:
    """Take a policy file apart."""
    size = int.from_bytes(data[:8], "little")
    outer, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    header = json.loads(outer.pop("__metadata__")["simile"])
    tensors = {
        name: (about["dtype"], about["shape"], body[slice(*about["data_offsets"])]) for name, about in outer.items()
    }
    return header, tensors


def pack(header: dict[str, Any], tensors: Tensors) -> bytes:
    """Put a policy file together, with its digest."""
    header = {**header, "digest": _digest(header, tensors)}
    outer: dict[str, Any] = {"__metadata__": {"simile": _text(header)}}
    body = b""
    for name, (kind, shape, data) in sorted(tensors.items(), key=lambda item: (-WIDTHS[item[1][0]], item[0])):
        outer[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(outer).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def _digest(header: dict[str, Any], tensors: Tensors) -> str:
    names = sorted(tensors)
    kinds = [[name, CODES[tensors[name][0]], tensors[name][1]] for name in names]
    found = hashlib.sha256(_text([{k: v for k, v in header.items() if k != "digest"}, kinds]).encode())
    for name in names:
        found.update(tensors[name][2])
    return found.hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
