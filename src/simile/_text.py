"""Numbers in tables."""

from __future__ import annotations

import math


def cell(value: float, width: int = 12, form: str = ".4g") -> str:
    """Write a number right-aligned; a dash where there is none.

    >>> cell(0.123456, 8), cell(float("nan"), 3)
    ('  0.1235', '  -')
    """
    return f"{'-':>{width}}" if math.isnan(value) else f"{value:{width}{form}}"
