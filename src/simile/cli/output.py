"""How results leave a command as JSON."""

from __future__ import annotations

import json
from typing import Any


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """Write plain data as JSON; a number that is not finite becomes null, as JSON has none such."""
    from simile._common.text import plain

    return json.dumps(plain(value), indent=indent)
