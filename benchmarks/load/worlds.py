"""What all callers of a soak share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from load.ledgers import Ledger
from load.malformed import malformed
from load.tapes import Tape


@dataclass
class World:
    """The policy at work, the books, and what is going on.

    Parameters
    ----------
    policy
        What the server must be serving.
    stages : sequence
        The server's.
    step : float
        How far the actuator can go in one frame.
    handover : float
        Seconds that a hand-over takes.
    """

    policy: Any
    stages: Sequence[Any]
    step: float
    handover: float = 1.0
    ledger: Ledger = field(default_factory=Ledger)
    tape: Tape = field(default_factory=Tape)
    generation: int = 0  # policies that have taken over
    successor: Any = None  # the policy whose file was put in the place of the other
    calm: bool = False  # no faults now
    ending: bool = False  # no stream begins anew

    def __post_init__(self) -> None:
        self._malformed = malformed(seed=5)

    @property
    def reloading(self) -> bool:
        """Whether another policy is about to take over."""
        return self.successor is not None

    def reloaded(self) -> None:
        """Note that it did; every connection hears of it, and the first that does tells all."""
        if self.successor is not None:
            self.policy, self.successor = self.successor, None
            self.generation += 1

    def junk(self, binary: bool) -> bytes:
        """Return a message that cannot be decoded."""
        decode = msgspec.msgpack.decode if binary else msgspec.json.decode
        while True:
            message, is_binary = next(self._malformed)
            if is_binary != binary:
                continue
            try:
                decode(message)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                return message
