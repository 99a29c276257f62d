"""The books of a soak: what was injected, what held, what was lost, and what must not have happened."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from load.percentiles import table

MOST_SHOWN = 12


@dataclass
class Ledger:
    """Counts of one soak; `mistakes` must stay empty."""

    injected: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    mistakes: list[str] = field(default_factory=list)
    largest_jump: float = 0.0  # as a share of what the actuator may do in the frames between two answers
    latencies: list[float] = field(default_factory=list)

    def mistake(self, what: str) -> None:
        """Note what must not happen."""
        self.mistakes.append(what)

    def jump(self, share: float, who: str) -> None:
        """Note how far an action went, as a share of what the actuator can do."""
        self.largest_jump = max(self.largest_jump, share)
        if share > 1.0 + 1e-9:
            self.mistake(f"{who}: the action jumped by {share:.4g} of the rate limit")

    def summary(self) -> str:
        """Return tables of all of it."""
        parts = [
            table(title, ("", "count"), [(name, f"{n:,}") for name, n in sorted(counts.items())])
            for title, counts in (("Injected", self.injected), ("Held", self.held), ("Lost, and counted", self.lost))
            if counts
        ]
        if self.mistakes:
            parts += ["", f"WRONG, {len(self.mistakes):,} times:", *(f"  {m}" for m in self.mistakes[:MOST_SHOWN])]
        return "\n".join(parts)
