"""Small facts about each sequence, from which follow the units, the digest and the ranges of all."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.demonstrations import Demonstrations
from simile.errors import DataError

ARRAYS = ("lengths", "moments", "marks", "places", "low", "high")  # of `Facts`, with a row for each sequence


@dataclass(frozen=True, eq=False)
class Facts:
    """What is worth knowing of sequences whose frames are elsewhere: a few hundred bytes for each."""

    names: tuple[str, ...]
    context_names: tuple[str, ...]
    action_names: tuple[str, ...]
    rate: float | None
    lengths: IntArray  # (sequences,)
    moments: FloatArray  # (sequences, 4, k), see `Demonstrations.moments`
    marks: FloatArray  # (sequences, 62, k), see `simile.data.logs.find_marks`
    places: FloatArray  # (sequences, 2, m), see `Demonstrations.places`
    low: FloatArray  # (sequences, m) smallest contexts; NaN where all are missing
    high: FloatArray
    digests: tuple[bytes, ...]
    groups: tuple[str | None, ...]  # of each sequence; None for one that has none
    group_name: str

    @classmethod
    def of(cls, demos: Demonstrations, *, whole: bool = True) -> Facts:
        """Look at every frame once; or, for what was derived from known data, at names and lengths alone."""
        if not whole:
            nothing = np.empty((len(demos), 0))
            no_digests = (b"",) * len(demos)
            names, groups = (demos.names, demos.context_names, demos.action_names), tuple(d.group for d in demos)
            return cls(*names, demos.rate, demos.lengths, *(nothing,) * 5, no_digests, groups, demos.group_name)
        return cls(
            demos.names,
            demos.context_names,
            demos.action_names,
            demos.rate,
            demos.lengths,
            demos.moments,
            np.array([d.marks for d in demos]),
            demos.places,
            np.array([np.fmin.reduce(x, axis=0) for x in demos.contexts]),
            np.array([np.fmax.reduce(x, axis=0) for x in demos.contexts]),
            tuple(d.digest for d in demos),
            tuple(d.group for d in demos),
            demos.group_name,
        )

    @classmethod
    def join(cls, parts: Sequence[Facts]) -> Facts:
        """Join the facts of parts, in their order; they must have the same columns and rate."""
        first = parts[0]
        for part in parts:
            for what in ("context_names", "action_names", "rate"):
                if getattr(part, what) != getattr(first, what):
                    raise DataError(
                        f"all demonstrations must share their {what}; {first.names[0]!r} has "
                        f"{getattr(first, what)!r} and {part.names[0]!r} has {getattr(part, what)!r}"
                    )
        together: dict[str, Any] = {what: np.concatenate([getattr(p, what) for p in parts]) for what in ARRAYS}
        return replace(
            first,
            names=tuple(name for part in parts for name in part.names),
            digests=tuple(digest for part in parts for digest in part.digests),
            groups=tuple(group for part in parts for group in part.groups),
            **together,
        )

    def without_marks(self) -> Facts:
        """Return the facts of the same sequences in other units, in which they have other marks."""
        return replace(self, marks=np.empty((len(self.names), 0)))

    def where(self, numbers: IntArray) -> Facts:
        """Return the facts of some of the sequences, by number."""
        return replace(
            self,
            names=tuple(self.names[i] for i in numbers),
            digests=tuple(self.digests[i] for i in numbers),
            groups=tuple(self.groups[i] for i in numbers),
            **{what: getattr(self, what)[numbers] for what in ARRAYS},
        )

    def digest(self) -> str:
        """Return the digest of the demonstrations, as `Demonstrations.digest`."""
        found = hashlib.sha256(repr((self.context_names, self.action_names, self.rate)).encode())
        for digest in self.digests:
            found.update(digest)
        return found.hexdigest()
