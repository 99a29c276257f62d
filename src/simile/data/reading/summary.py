"""What was read, in a few lines, so that a wrong guess is seen at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simile._common.text import count
from simile.data.demonstrations import Demonstrations
from simile.data.names import list_some
from simile.data.reading.clock import UNIT_NAMES, UNITS, Irregularity
from simile.data.reading.tables import quote


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
        if self.left_out:
            lines.append(f"  left out  {list_some(self.left_out)}")
        notes = (*self.notes, *map(str, demos.problems))
        return "\n".join([*lines, *(f"  note      {note}" for note in notes)])


def irregular_note(found: Irregularity, column: str, *, frames: bool) -> str:
    """Say how irregular the time is, and the way out."""
    unit = "frame numbers" if frames else "s"
    off = f"{found.count:,} of {found.total:,} steps of {quote(column)} ({_percent(found.count / found.total)})"
    longest = f"the longest: {found.longest:.4g} {unit} in {quote(found.where)}"
    if frames:
        return f"{off} are not 1 ({longest}): frames are missing; rate=... with resample=... or gap=... evens it out"
    even = f"resample={1.0 / found.period:.6g} or gap={3.0 * found.period:.2g} evens it out"
    return f"{off} are more than 10 % off {found.period:.4g} s ({longest}): {even}"


def tell_unit(column: str, unit: str, rate: float | None, *, whole: bool) -> list[str]:
    """Say which unit of time was taken where nobody has told it, if another is thinkable."""
    if rate is None:
        return []
    if unit != "s":
        slow = rate / UNITS[unit]
        return [
            f"{quote(column)} is taken for {UNIT_NAMES[unit]}, for as seconds it would be {slow:.4g} Hz: "
            "time_unit='s' overrules"
        ]
    doubtful = whole and 0.1 < rate < 1.0
    return [f"{quote(column)} is taken for seconds ({rate:g} Hz): time_unit='ms' if it is in milliseconds"] * doubtful


def lost_note(names: tuple[str, ...]) -> list[str]:
    """Say in which sequences the numbers of the frames jump."""
    return [f"frames are lost in {list_some(names, most=4)}: what comes after is a sequence of its own"] * bool(names)


def turned_note(column: str) -> str:
    """Say that a column was left out as text although it holds numbers, and the way out."""
    return (
        f"{quote(column)} begins with text but holds numbers further down, and is left out: leave those fields empty, "
        "or drop their rows"
    )


def _missing(demos: Demonstrations) -> str:
    counts = np.sum([np.isnan(x).sum(axis=0) for x in demos.contexts], axis=0) / demos.n_frames
    if not counts.any():
        return "nothing"
    most = int(counts.argmax())
    return f"{_percent(counts.mean())} of contexts, most in {demos.context_names[most]} ({_percent(counts[most])})"


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %" if share < 0.1 else f"{100.0 * share:.0f} %"
