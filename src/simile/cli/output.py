"""How results leave a command as JSON."""

from __future__ import annotations

import json
import math
from typing import Any


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """Write plain data as JSON; a number that is not finite becomes null, as JSON has none such."""
    return json.dumps(_plain(value), indent=indent)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
