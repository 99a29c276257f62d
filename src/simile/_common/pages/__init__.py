"""Pages: templates and scripts that come with the package, and how data get into them.

The scripts are built from `frontend/` and committed, so that nobody needs more than Python to use them.
"""

from __future__ import annotations

import base64
import re
import zlib
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simile._common.typing import FloatArray

MISSING = -(2**15)  # NaN, among whole numbers of 16 bits
MOST = 2**15 - 1


def asset(name: str) -> str:
    """Return the text of a template, or of a script or style in `built/`."""
    return resources.files("simile._common.pages").joinpath(name).read_text(encoding="utf-8")


def fill(template: str, **texts: str) -> str:
    """Put texts in the places of a template: {{title}} and so on."""
    # In one pass: a text that looks like a place to fill stays what it is.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: texts[place[1]], template)


def harmless(text: str) -> str:
    """Return JSON in which nothing can end the script that holds it."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def pack(values: FloatArray, unit: ArrayLike, offset: ArrayLike = 0.0) -> dict[str, Any]:
    """Return values (T, ...) as text: whole multiples of `unit` above `offset` in 16 bits, as differences, compressed.

    `unit` and `offset` are numbers, or one for each column.
    """
    flat = values.reshape(len(values), -1)
    units, offsets = (np.broadcast_to(np.asarray(v, dtype=np.float64), flat.shape[1]) for v in (unit, offset))
    whole = np.clip(np.nan_to_num(np.round((flat - offsets) / units), posinf=np.inf, neginf=-np.inf), MISSING + 1, MOST)
    numbers = np.where(np.isnan(flat), MISSING, whole).astype("<i2")
    # What moves smoothly changes by little. Differences that leave the 16 bits wrap around, and so do their sums.
    changes = np.diff(numbers, axis=0, prepend=np.zeros((1, numbers.shape[1]), "<i2"))
    text = base64.b64encode(zlib.compress(changes.T.tobytes(), 9)).decode()
    sizes = {"columns": flat.shape[1], "frames": len(flat)}
    return {"unit": units.tolist(), "offset": offsets.tolist(), **sizes, "values": text}
