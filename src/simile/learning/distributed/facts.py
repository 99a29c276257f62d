"""What is known of sequences that lie elsewhere: a few bytes of each here, and more beside the frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.demonstrations import Demonstrations
from simile.data.preparation import Preparation
from simile.data.recorded import share_about
from simile.errors import DataError


@dataclass(frozen=True, eq=False)
class Facts:
    """What is at hand of sequences whose frames are elsewhere: a dozen bytes for each."""

    first: str  # the name of the first of them
    context_names: tuple[str, ...]
    action_names: tuple[str, ...]
    rate: float | None
    group_name: str
    counts: IntArray  # (parts,) sequences of each part
    lengths: IntArray  # (sequences,)
    labels: tuple[str | None, ...]  # of groups; None for what has none
    group: Any  # (sequences,) int32: which label each has
    about: Mapping[str, Any] | None
    preparation: Preparation

    @classmethod
    def of(cls, demos: Demonstrations) -> Facts:
        """Look at names and lengths."""
        numbers = {label: i for i, label in enumerate(dict.fromkeys(d.group for d in demos))}
        group = np.array([numbers[d.group] for d in demos], np.int32)
        columns = (demos.context_names, demos.action_names, demos.rate, demos.group_name)
        groups = tuple(numbers), group
        return cls(
            demos[0].name, *columns, np.array([len(demos)]), demos.lengths, *groups, demos.about, demos.preparation
        )

    @classmethod
    def join(cls, parts: Sequence[Facts]) -> Facts:
        """Join the facts of parts, in their order; they must have the same columns and rate."""
        first = parts[0]
        for part in parts:
            for what in ("context_names", "action_names", "rate", "preparation"):
                if getattr(part, what) != getattr(first, what):
                    raise DataError(
                        f"all demonstrations must share their {what}; {first.first!r} has "
                        f"{getattr(first, what)!r} and {part.first!r} has {getattr(part, what)!r}"
                    )
        numbers = {label: i for i, label in enumerate(dict.fromkeys(label for part in parts for label in part.labels))}
        group = [np.array([numbers[label] for label in part.labels], np.int32)[part.group] for part in parts]
        counts, lengths = (np.concatenate([getattr(part, what) for part in parts]) for what in ("counts", "lengths"))
        about = share_about((part.first, part.about) for part in parts)
        joined = replace(first, counts=counts, lengths=lengths, labels=tuple(numbers), group=np.concatenate(group))
        return replace(joined, about=about)

    @property
    def begins(self) -> IntArray:
        """The number of the first sequence of each part, and how many there are."""
        return np.append(0, np.cumsum(self.counts))

    @property
    def frames(self) -> IntArray:
        """The frames of each part."""
        return np.add.reduceat(self.lengths, self.begins[:-1])

    @property
    def groups(self) -> tuple[str | None, ...] | None:
        """The label of each sequence; None if none has one."""
        if not any(label is not None and (self.group == i).any() for i, label in enumerate(self.labels)):
            return None
        return tuple(self.labels[i] for i in self.group)

    def where(self, numbers: IntArray) -> Facts:
        """Return the facts of some of the sequences, by ascending number, and of the parts that have any of them."""
        counts = np.histogram(numbers, self.begins)[0]
        return replace(self, counts=counts[counts > 0], lengths=self.lengths[numbers], group=self.group[numbers])


@dataclass(frozen=True, eq=False)
class Details:
    """What stays with the frames of a part: hundreds of bytes for each sequence, asked for together."""

    names: tuple[str, ...]
    digests: tuple[bytes, ...]
    moments: FloatArray  # (sequences, 5, k), see `Demonstrations.moments`
    places: FloatArray  # (sequences, 2, m), see `Demonstrations.places`
    low: FloatArray  # (sequences, m) smallest contexts; NaN where all are missing
    high: FloatArray

    @classmethod
    def of(cls, demos: Demonstrations) -> Details:
        """Look at every frame once."""
        low, high = (np.array([side.reduce(x, axis=0) for x in demos.contexts]) for side in (np.fmin, np.fmax))
        return cls(demos.names, demos.digests, demos.moments, demos.places, low, high)

    @classmethod
    def join(cls, *parts: Details) -> Details:
        """Join those of several parts."""
        return cls(*(join_rows([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def where(self, numbers: IntArray) -> Details:
        """Return those of some of the sequences, by number."""

        def take(rows: Any) -> Any:
            return rows[numbers] if isinstance(rows, np.ndarray) else tuple(rows[i] for i in numbers)

        return Details(*(take(getattr(self, field.name)) for field in fields(self)))


def join_rows(parts: Sequence[Any]) -> Any:
    """Join arrays, or tuples."""
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else tuple(chain.from_iterable(parts))
