"""Writing C: numbers that read back to the same bits, arrays, and comments that nothing can break out of."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from simile._common.typing import FloatArray
from simile.errors import ArgumentError

WIDTH = 118
TYPES = {"int16": "int16_t", "int32": "int32_t", "float32": "float", "float64": "double"}


def identifier(name: str | None, stem: str) -> str:
    """Return what the names in a header begin with; made of the file's name where none is given."""
    found = re.sub(r"\W", "_", stem, flags=re.ASCII) if name is None else name
    if not isinstance(found, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,39}", found):
        raise ArgumentError(
            f"name must begin with a letter and hold letters, digits and _ alone, at most 40; got {found!r}: "
            "choose one, such as name='pan'"
        )
    return found


def number(value: float) -> str:
    """Write a double.

    >>> number(2.0), number(-np.inf)
    ('2.0', '-1.7976931348623157e+308')
    """
    # The largest stand for the infinite: C has no constant for these without its mathematical library.
    return repr(min(max(float(value), -sys.float_info.max), sys.float_info.max))


def single(value: Any) -> str:
    """Write a float.

    >>> single(np.float32(0.1)), single(np.float32(3.0)), single(np.float32(np.inf))
    ('0.1f', '3.0f', '3.4028235e+38f')
    """
    finite = np.clip(value, np.finfo(np.float32).min, np.finfo(np.float32).max)
    text = np.format_float_scientific(finite) if abs(finite) >= 1e16 else str(np.float32(finite))
    return f"{text}f"


def array(name: str, values: Any) -> str:
    """Write a constant table of one or two dimensions."""
    write = {"f": single if values.dtype == np.float32 else number, "i": str}[values.dtype.kind]
    rows = [write(v) for v in values.reshape(-1).tolist()] if values.dtype != np.float32 else [*map(write, values.flat)]
    if values.ndim == 2:
        step = values.shape[1]
        rows = ["{" + ", ".join(rows[i : i + step]) + "}" for i in range(0, len(rows), step)]
    size = "".join(f"[{n}]" for n in values.shape)
    return f"static const {TYPES[values.dtype.name]} {name}{size} = {{\n{_filled(rows)}\n}};\n"


def row(values: FloatArray) -> str:
    """Write a few numbers for a reader.

    >>> row(np.array([1.0, -np.inf]))
    '1, -inf'
    """
    return ", ".join(f"{v:.6g}" for v in values)


def comment(lines: Sequence[str]) -> str:
    """Write a comment; what is not plain is replaced, so that no name can end it."""
    plain = [re.sub(r"[^ -~]|\\|\?", "_", line).replace("*/", "*_").replace("/*", "_*") for line in lines]
    return "\n".join([f"/* {plain[0]}", *(f" * {line}".rstrip() for line in plain[1:]), " */"])


def _filled(items: Sequence[str]) -> str:
    """Put items side by side, as many as a line takes."""
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > WIDTH and line.strip():
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join([*lines, line])
