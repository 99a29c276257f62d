"""What the simulator's recipes check of their fields."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from simile._common import checks


def check_numbers(recipe: Any, *, shares: Collection[str] = (), above_zero: Collection[str] = ()) -> None:
    """Refuse a recipe with a number below zero, a share above one, or a zero among `above_zero`."""
    for field in fields(recipe):
        value, most = getattr(recipe, field.name), 1.0 if field.name in shares else float("inf")
        if isinstance(value, tuple):
            continue
        if field.name in above_zero:
            checks.number(value, field.name, above=0.0, at_most=most)
        else:
            checks.number(value, field.name, at_least=0.0, at_most=most)
