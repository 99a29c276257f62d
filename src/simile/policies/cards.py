"""What a policy carries with it about its data and its training; a policy file shows it to whoever opens it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Card:
    """What a policy is for, and where it comes from.

    Parameters
    ----------
    context_names, action_names : tuple of str
        Names of the columns it was trained on; empty where unknown.
    rate : float, optional
        Frames per second of the demonstrations, and so of the steps it expects.
    training : mapping
        Facts about the run that made it, as plain JSON values: settings, errors, a digest of the data.
    """

    context_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    rate: float | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
