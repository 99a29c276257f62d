"""Fair turns: how much of what a connection sends is dealt with before the others have theirs.

Everything that comes is counted before it is decoded. A turn of the event loop takes so much of each connection; who
sends more than its share of a second is read no further until it has been paid for, and who never stops is hung up on.
"""

from __future__ import annotations

import math
from collections.abc import Callable

READ = 16 << 10  # bytes of a connection that are read in a turn
TURN, TURN_OF_ONE = 64, 16  # units of a connection that are dealt with in a turn: at most, and for each of its streams
# Units more for what takes longer than a frame: refusals, openings, pongs, frames that are bridged.
NUISANCE, OPENING, PING, BRIDGE = 10, 20, 4, 3
SHARE = 2.0  # units a second, as a multiple of --max-rate or, if that is more, of the frames of all its streams
LEAST, USUAL_RATE = 1000.0, 30.0  # a second; where neither policy nor user says
BURST = 1.0  # seconds' worth of units that may come at once
OFFENCE = 10.0  # seconds for which a connection may send more than its share


class Allowance:
    """What a connection may still send.

    A message, or a part of one, is a unit, and so is the size of a frame.

    Parameters
    ----------
    clock : callable
        Seconds, from any beginning.
    frame : int
        Bytes of an ordinary frame.
    """

    __slots__ = ("beyond_since", "clock", "due", "frame", "spent", "weight")

    def __init__(self, clock: Callable[[], float], frame: int) -> None:
        self.clock, self.frame = clock, frame
        self.spent = 0  # units of this turn
        self.weight = 0  # frames' worth of the message at hand
        self.due = -math.inf  # when all would be paid for, had it come at the highest rate
        self.beyond_since = math.inf  # since when it sends more than its share

    def take(self, size: int) -> None:
        """Count a message of so many bytes, before anybody looks at it."""
        self.spent += 1
        self.weight = size // self.frame

    def charge(self, units: int = NUISANCE) -> None:
        """Count that the message at hand was a nuisance, the more so the larger it is."""
        self.spent += units * (1 + self.weight)

    def end_turn(self, size: int, rate: float) -> float:
        """Pay for a turn in which so many bytes were read, by units a second; returns the seconds to wait."""
        now = self.clock()
        if self.due < now - BURST / 2.0:
            self.beyond_since = math.inf
        self.due = max(self.due, now - BURST) + (self.spent + size // self.frame) / rate
        self.spent = 0
        if self.due <= now:
            return 0.0
        self.beyond_since = min(self.beyond_since, now)
        return self.due - now

    @property
    def is_abused(self) -> bool:
        """Whether more than its share has come for too long."""
        return self.clock() - self.beyond_since > OFFENCE


def measure_frame(names: list[str]) -> int:
    """Return the bytes of an ordinary frame with these contexts and actions, generously."""
    return 256 + sum(len(name) + 32 for name in names)
