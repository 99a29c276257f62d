"""Reading what a frame brings: contexts in order or by name, operators' actions, and policies for the same columns."""

from __future__ import annotations

import math
import reprlib
from typing import Any

import numpy as np

from simile.errors import ArgumentError
from simile.online import inputs
from simile.online.streams import Streams
from simile.policies.policies import Policy

Read = tuple[list[float | None] | None, list[float] | None, str | None]  # x, override, and what is wrong with them


class Reader:
    """Reads frames for a policy; one that cannot be used becomes a dropped frame with a sentence that says why."""

    def __init__(self, streams: Streams) -> None:
        self.n_contexts, self.n_actions, self.names = streams.n_contexts, streams.n_actions, streams.names
        self._check_action = streams.engine.bounds.check_given

    def __call__(self, x: Any, override: Any) -> Read:
        """Return x and the override, in order, and what is wrong with them or None."""
        try:
            return self._context(x), None if override is None else self.read_action(override, "override"), None
        except ArgumentError as error:
            return None, None, str(error)

    def _context(self, x: Any) -> list[float | None] | None:
        if isinstance(x, dict):
            x = inputs.put_in_order(x, self.names)
        if not isinstance(x, list):
            return None
        if len(x) != self.n_contexts:
            raise ArgumentError(f"x must hold {self.n_contexts} values, null where one is missing; got {len(x)}")
        if any(value is not None and math.isinf(value) for value in x):
            raise ArgumentError(f"x must be finite, or null where a value is missing; got {x}")
        return x

    def read_action(self, given: list[float], name: str) -> list[float]:
        """Return an operator's action, which is called `name`; ArgumentError where it is none."""
        if len(given) != self.n_actions or not all(map(math.isfinite, given)):
            raise ArgumentError(f"{name} must be {self.n_actions} finite numbers; got {reprlib.repr(given)}")
        action: list[float] = self._check_action(np.array(given, dtype=np.float64), name).tolist()
        return action


def check_columns(ours: Policy, other: Policy) -> None:
    """Refuse a policy that is for other contexts or actions than ours."""
    mine, theirs = ours.card, other.card
    contexts = [p.n_contexts or len(p.card.context_names) for p in (ours, other)]
    for what, here, there, (n, m) in (
        ("contexts", mine.context_names, theirs.context_names, contexts),
        ("actions", mine.action_names, theirs.action_names, (ours.n_actions, other.n_actions)),
    ):
        way_out = "serve it by a service of its own"
        if here and there and here != there:
            raise ArgumentError(
                f"policy: it is for the {what} {', '.join(there)}, and these streams have {', '.join(here)}: {way_out}"
            )
        if n != m:
            raise ArgumentError(f"policy: it is for {m} {what}, and these streams have {n}: {way_out}")
