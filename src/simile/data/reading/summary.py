"""What was read, in a few lines, so that a wrong guess is seen at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simile._common.text import count
from simile.data.demonstrations import Demonstrations
from simile.data.names import list_some
from simile.data.reading.clock import percent

ENOUGH = 20  # frames, in which what never changes is no chance


@dataclass(frozen=True)
class Summary:
    """Where the data came from, what they are and what was left out; prints as text."""

    source: str
    demos: Demonstrations
    sequences: str  # how sequences were told apart
    rate: str  # where the rate comes from
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    groups: str = ""  # which sequences belong together

    def __str__(self) -> str:
        demos = self.demos
        lengths = [len(d) for d in demos]
        each = f"{lengths[0]:,} each" if min(lengths) == max(lengths) else f"{min(lengths):,} to {max(lengths):,} each"
        rate = "rate unknown" if demos.rate is None else f"{demos.rate:g} Hz"
        lines = [
            f"{self.source}: {count(len(demos), 'sequence', ',')}{self.sequences}, "
            f"{count(demos.n_frames, 'frame', ',')}{f' ({each})' if len(demos) > 1 else ''}, {rate}{self.rate}",
            f"  actions   {list_some(demos.action_names, most=4)}",
            f"  contexts  {list_some(demos.context_names, most=4)}",
            f"  missing   {_missing(demos)}",
        ]
        if self.groups:
            lines.append(f"  groups    {self.groups}")
        return "\n".join([*lines, *self.doubts])

    @property
    def doubts(self) -> list[str]:
        """The lines on what was left out, was understood otherwise than it is written, or is likely wrong."""
        left_out = [f"  left out  {list_some(self.left_out)}"] if self.left_out else []
        low, high = self.demos.extremes()
        still = [name for name, a, b in zip(self.demos.context_names, low, high, strict=True) if a == b]
        still = still if self.demos.n_frames >= ENOUGH else []
        same = [f"{list_some(still, most=4)}: the same in every row, which says nothing"] if still else []
        notes = (*self.notes, *same, *map(str, self.demos.problems))
        return [*left_out, *(f"  note      {note}" for note in notes)]


def _missing(demos: Demonstrations) -> str:
    counts = np.sum([np.isnan(x).sum(axis=0) for x in demos.contexts], axis=0) / demos.n_frames
    if not counts.any():
        return "nothing"
    most = int(counts.argmax())
    return f"{percent(counts.mean())} of contexts, most in {demos.context_names[most]} ({percent(counts[most])})"
