"""Numbers in tables and in JSON, and texts of others on one line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

# Control characters, line separators, and marks that turn the direction of writing.
STEERING = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")


def cell(value: float, width: int = 12, form: str = ".4g") -> str:
    """Write a number right-aligned; a dash where there is none.

    >>> cell(0.123456, 8), cell(float("nan"), 3)
    ('  0.1235', '  -')
    """
    return f"{'-':>{width}}" if math.isnan(value) else f"{value:{width}{form}}"


def count(n: int, noun: str, form: str = "") -> str:
    """Write how many there are.

    >>> count(1, "frame"), count(2000, "frame", ","), count(4, "stretch")
    ('1 frame', '2,000 frames', '4 stretches')
    """
    return f"{n:{form}} {noun}{'' if n == 1 else 'es' if noun.endswith('ch') else 's'}"


def size(n_bytes: float) -> str:
    """Write a number of bytes.

    >>> size(84_000), size(7.6e9)
    ('84 kB', '7.6 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n_bytes >= 0.9995 * unit:
            return f"{n_bytes / unit:.3g} {name}"
    return f"{n_bytes:.0f} bytes"


def table(columns: Sequence[tuple[str, int, str]], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Write the lines of a table: a column is its heading, least width and form of numbers, or "<" for texts.

    What a row holds beyond the columns is added to its end.

    >>> table([("who", 4, "<"), ("error", 6, ".2f")], [("a", 1.0), ("b", float("nan"), "  <- lost")])
    ['who    error', 'a       1.00', 'b          -  <- lost']
    """
    found = [list(row) for row in rows]
    widths = [max(width, len(head)) for head, width, _ in columns]
    for i, (_, _, form) in enumerate(columns):
        if form == "<":
            widths[i] = max([widths[i], *(len(row[i]) for row in found)])

    def write(values: Sequence[Any], forms: Sequence[str]) -> str:
        cells = zip(values, widths, forms, strict=False)
        return "  ".join(cell(v, w, f) if f not in "<>" else f"{v:{f}{w}}" for v, w, f in cells)

    heads, forms = [head for head, _, _ in columns], [form for _, _, form in columns]
    lines = [write(heads, ["<" if form == "<" else ">" for form in forms])]
    return lines + [write(row, forms) + "".join(row[len(columns) :]) for row in found]


def plain(value: Any) -> Any:
    """Return lists, dicts, texts and numbers; a number that is not finite becomes None, as JSON has none such.

    >>> plain({"a": np.float64("nan"), "b": (np.arange(2), True)})
    {'a': None, 'b': [[0, 1], True]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number(value: Any) -> float:
    """Return what `plain` left of a number: NaN where it left nothing.

    >>> number(None), number(2)
    (nan, 2.0)
    """
    return math.nan if value is None else float(value)


def spell(value: Any) -> str:
    """Write an object as code has it; an address in memory would make two equal runs differ.

    >>> spell(1.5), spell(spell)
    ('1.5', 'spell')
    """
    return getattr(value, "__name__", None) or re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def escape(text: str) -> str:
    r"""Write a text on one line, so that it cannot pass for another line, nor steer a terminal.

    >>> escape("pan\n\x1b[31mall is well")
    'pan\\n\\x1b[31mall is well'
    """
    return STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
