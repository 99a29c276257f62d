"""C as text: numbers that read back to the same bits, arrays, comments that nothing can break out of, functions.

Here are the parts of a header that depend on the policy, made of pieces.h.in; the others are in step.h.in.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from simile._common.typing import FloatArray
from simile.errors import ArgumentError
from simile.online.export.c99_tables import Tables

WIDTH = 118
TYPES = {"int16": "int16_t", "int32": "int32_t", "float32": "float", "float64": "double"}


def check_name(name: str | None, stem: str) -> str:
    """Return what the names in a header begin with; made of the file's name where none is given."""
    found = re.sub(r"\W", "_", stem, flags=re.ASCII) if name is None else name
    if not isinstance(found, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,39}", found):
        raise ArgumentError(
            f"name must begin with a letter and hold letters, digits and _ alone, at most 40; got {found!r}: "
            "choose one, such as name='pan'"
        )
    return found


def write_number(value: float) -> str:
    """Write a double.

    >>> write_number(2.0), write_number(-np.inf)
    ('2.0', '-1.7976931348623157e+308')
    """
    # The largest stand for the infinite: C has no constant for these without its mathematical library.
    return repr(min(max(float(value), -sys.float_info.max), sys.float_info.max))


def write_single(value: Any) -> str:
    """Write a float.

    >>> write_single(np.float32(0.1)), write_single(np.float32(3.0)), write_single(np.float32(np.inf))
    ('0.1f', '3.0f', '3.4028235e+38f')
    """
    finite = np.clip(value, np.finfo(np.float32).min, np.finfo(np.float32).max)
    text = np.format_float_scientific(finite) if abs(finite) >= 1e16 else str(np.float32(finite))
    return f"{text}f"


def write_array(name: str, values: Any) -> str:
    """Write a constant table of one or two dimensions."""
    write = {"f": write_single if values.dtype == np.float32 else write_number, "i": str}[values.dtype.kind]
    rows = [write(v) for v in values.reshape(-1).tolist()] if values.dtype != np.float32 else [*map(write, values.flat)]
    if values.ndim == 2:
        step = values.shape[1]
        rows = ["{" + ", ".join(rows[i : i + step]) + "}" for i in range(0, len(rows), step)]
    size = "".join(f"[{n}]" for n in values.shape)
    return f"static const {TYPES[values.dtype.name]} {name}{size} = {{\n{_fill(rows)}\n}};\n"


def write_row(values: FloatArray) -> str:
    """Write a few numbers for a reader.

    >>> write_row(np.array([1.0, -np.inf]))
    '1, -inf'
    """
    return ", ".join(f"{v:.6g}" for v in values)


def write_comment(lines: Sequence[str]) -> str:
    """Write a comment; what is not plain is replaced, so that no name can end it."""
    plain = [re.sub(r"[^ -~]|\\|\?", "_", line).replace("*/", "*_").replace("/*", "_*") for line in lines]
    return "\n".join([f"/* {plain[0]}", *(f" * {line}".rstrip() for line in plain[1:]), " */"])


def fill(piece: str, **values: Any) -> str:
    """Return a piece of C, which pieces.h.in holds under this name, with these values in it."""
    text = files("simile.online.export").joinpath("pieces.h.in").read_text("ascii")
    _, *found = re.split(r"^/\* == (\w+) \*/\n", text, flags=re.MULTILINE)
    return Template(found[found.index(piece) + 1]).substitute(values)


def write_model(name: str, tables: Tables, k: int) -> str:
    """Return the function that predicts an action in standard units from a state."""
    terms = fill("terms", name=name, terms=len(tables.entry)) if len(tables.entry) else ""
    descent = fill("descent", name=name) if len(tables.feature) else ""
    counters = "i, j" if tables.n_trees or terms else "j"
    body = f"    int {counters};\n"
    body += "" if descent or terms else "    (void)seen;\n"
    body += f"    for (j = 0; j < {k}; j++) f[j] = 0.0;\n"
    body += fill("trees", name=name, trees=tables.n_trees, descent=descent, k=k) if tables.n_trees else ""
    body += fill("lines", name=name, terms=terms, k=k) if tables.lines else ""
    return f"static inline void {name}(const float *seen, double *f)\n{{\n{body}}}\n"


def _fill(items: Sequence[str]) -> str:
    """Put items side by side, as many as a line takes."""
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > WIDTH and line.strip():
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join([*lines, line])
