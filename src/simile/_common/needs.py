"""Optional libraries, imported when a format needs them."""

from __future__ import annotations

import importlib
from typing import Any

from simile.errors import ArgumentError


def need(module: str, what: str, extra: str = "cli") -> Any:
    """Return an optional module, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ArgumentError(f"{what} needs {package}: pip install 'smooth-imitation[{extra}]'") from None
