"""What a round of learning leaves behind: its policies, what was measured of them, and the card they carry."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from itertools import islice
from typing import Any

import numpy as np

from simile._common.text import plain, spell
from simile._common.typing import FloatArray
from simile.data.groups import are_grouped
from simile.data.origins import choose_origin
from simile.data.recorded import ActionSpace, Recorded, Units, share_about
from simile.errors import ArgumentError
from simile.learning.problem import judge
from simile.models.regularizers import Regularizer
from simile.policies.bands import KEY, Band
from simile.policies.cards import DIGITS, LOGS, Card
from simile.policies.policies import Policy

MOST_MARKS = 10_000  # of sequences, on a card

# What a round measured, as numbers that can be written down.
MEASURED = (
    "number",
    "beta",
    "sigma",
    "error",
    "roughness",
    "radius",
    "validation_error",
    "validation_roughness",
    "diverged",
)


@dataclass(frozen=True, eq=False)
class Round:
    """One turn of Algorithm 1. Errors are in standard units (standard deviations of the expert's actions)."""

    number: int
    policy: Policy  # pi_n
    trained: Policy  # pi^_n
    h: Regularizer  # h_n
    targets: list[FloatArray]  # A^_n, what `trained` learned from; empty where they stay with a backend
    rolled: list[FloatArray]  # the roll-out of `policy`, that is A_{n+1}; empty where it stays with a backend
    beta: float
    sigma: float  # NaN where the feedback has none
    error: float  # mean squared error of the roll-out of `policy`
    roughness: float  # mean |second difference| of that roll-out over the expert's
    radius: float  # of the closed loop; NaN where h is not linear
    diverged: bool  # whether the step was refused because its roll-out diverged or its closed loop was unstable
    validation_error: float = math.nan
    validation_roughness: float = math.nan
    band: Band | None = None  # how far the expert is from what such models do

    def measured(self) -> dict[str, Any]:
        """Return what was measured, by name; errors are mean squared ones."""
        return {name: getattr(self, name) for name in MEASURED}

    def in_units(self, units: Units, space: ActionSpace, card: Card) -> Round:
        """Return the round with policies and trajectories in the user's units, and with the run's card."""
        return replace(
            self,
            policy=self.policy.in_units(units, space, card),
            trained=self.trained.in_units(units, space, card),
            targets=[units.restore(a) for a in self.targets],
            rolled=[units.restore(a) for a in self.rolled],
        )


def card_of(demos: Recorded, choices: Mapping[str, Any], seen: Collection[int] = ()) -> Card:
    """Write down what the policies of a run learn from, and how; `seen` are marks of what they go on from."""
    marks = list(dict.fromkeys([*seen, *demos.over("digests", _mark, MOST_MARKS)]))
    training = {
        "sequences": len(demos),
        "frames": demos.n_frames,
        "data": demos.digest(),
        **({"seen": marks} if len(marks) <= MOST_MARKS else {}),
        "ranges": _ranges(demos),
        LOGS: plain([asdict(log) for log in demos.logs]),
        **({"groups": {demos.group_name: int(demos.kin.max()) + 1}} if are_grouped(demos.kin) else {}),
        **({"about": demos.about} if demos.about else {}),
        "settings": {n: v if isinstance(v, float | int) else spell(v) for n, v in choices.items()},
    }
    return Card(demos.context_names, demos.action_names, demos.rate, training, demos.preparation)


def mark_of(digest: bytes) -> int:
    """Return what a card keeps of a sequence's digest, by which it is known again: a whole number that JSON keeps."""
    return int.from_bytes(digest[:6], "big")


def _mark(digests: Sequence[bytes], most: int) -> list[int]:
    """Return the marks of sequences, each once; of more than `most`, one more than that."""
    return list(islice(dict.fromkeys(map(mark_of, digests)), most + 1))


def _ranges(demos: Recorded) -> dict[str, list[float | None]]:
    """Return the lowest and the highest value of each context; None where all are missing.

    In six digits, and in all of them where a context lies so far from 0 that six would not tell its values apart.
    """
    sides = {}
    low, high = demos.extremes()
    origin = demos.over("places", choose_origin)
    digits = [17 if offset else DIGITS for offset in (np.zeros(len(low)) if origin is None else origin)]
    for name, extreme, rounding in (("low", low, ROUND_FLOOR), ("high", high, ROUND_CEILING)):
        # Outwards, so that no value of the training falls outside.
        outwards = [Context(prec=n, rounding=rounding) for n in digits]
        values = extreme.tolist()
        rounded = [float(c.create_decimal(repr(value))) for c, value in zip(outwards, values, strict=True)]
        sides[name] = [
            None if math.isnan(value) else short if math.isfinite(short) else value
            for value, short in zip(values, rounded, strict=True)
        ]
    return sides


def finish(found: Round, units: Units, space: ActionSpace, card: Card, held_out: Recorded | None) -> Round:
    """Bring a round to the user's units, judge it on the validation part, and note both on the policy's card."""
    turn = found.in_units(units, space, card)
    if held_out is not None:
        score = judge(held_out, turn.policy)
        turn = replace(turn, validation_error=score.error, validation_roughness=score.roughness)
    measured = {
        name: value if math.isfinite(value) else None
        for name in ("error", "validation_error", "roughness", "validation_roughness", "radius")
        if isinstance(value := getattr(turn, name), float)
    }
    noted = note_band(replace(card, training={**card.training, "round": turn.number, **measured}), turn.band)
    return replace(turn, policy=turn.policy.in_units(units, space, noted))


def note_band(card: Card, band: Band | None) -> Card:
    """Return a card with the band of its policy, where there is one."""
    return card if band is None else replace(card, training={**card.training, KEY: band.to_dict()})


def check_alike(demos: Recorded, held_out: Recorded | None) -> None:
    """Refuse a validation part with other columns, or about something else."""
    if held_out is None:
        return
    share_about([("demonstrations", demos.about), ("validation", held_out.about)])
    if (held_out.context_names, held_out.action_names) != (demos.context_names, demos.action_names):
        raise ArgumentError(
            f"validation must have the columns of the demonstrations; got {held_out.context_names} -> "
            f"{held_out.action_names} instead of {demos.context_names} -> {demos.action_names}"
        )
