"""What a policy takes: the bytes of its tables, and of the recent past of every stream that it acts for."""

from __future__ import annotations

from dataclasses import dataclass

from simile._common import text
from simile.errors import ArgumentError

# Rows of a stream's past beyond those that the policy reads. Every so many frames the last rows move to the front;
# with fewer they would move often, and with more thousands of streams would not fit the cache.
SPARE = 32


@dataclass(frozen=True)
class Footprint:
    """How much memory a policy takes.

    Parameters
    ----------
    tables : int
        Bytes of its arrays.
    reach : int
        How many frames back it looks.
    n_contexts, n_actions, n_features : int
        How wide a frame is, and a state.
    """

    tables: int
    reach: int
    n_contexts: int
    n_actions: int
    n_features: int = 0

    @property
    def stream(self) -> int:
        """Bytes of one stream: its past, and a state."""
        return 8 * ((max(1, self.reach) + SPARE) * (self.n_contexts + 2 * self.n_actions) + self.n_features)

    def check(self, limit: int, n_streams: int = 1) -> None:
        """Refuse what takes more than `limit` bytes for so many streams, with the numbers and the way out."""
        # Twice: as they were stored, and as the kernels read them.
        if (total := 2 * self.tables + n_streams * self.stream) <= limit:
            return
        streams, fewer = ("a stream", "") if n_streams == 1 else (f"each of {n_streams:,} streams", "fewer streams or ")
        raise ArgumentError(
            f"the policy takes {text.size(total)} of memory: {text.size(2 * self.tables)} for its tables, and "
            f"{text.size(self.stream)} for the past of {streams}, as it looks {self.reach:,} frames back at "
            f"{self.n_contexts:,} contexts; it may take {text.size(limit)}: where you know who made it, allow "
            f"{fewer}more, in MB, by max_memory (--max-memory)"
        )
