"""Hands: what a stream's client knows of the operator who may have it in hand."""

from __future__ import annotations

from collections import deque


class Hand:
    """What an operator says, and what the server tells the client of it.

    Attributes
    ----------
    watched : bool
        Whether an operator sits there: a frame that is never answered may have been theirs.
    on : bool or None
        Whether the stream is in hand, as the server told last; None after a connection broke.
    since : int
        How often that has changed: between a frame and its answer it must not have, to judge who acted.
    acted : int
        Frames in which the operator did.
    """

    def __init__(self) -> None:
        self.watched = False
        self.on: bool | None = False
        self.since = self.acted = 0
        self._said: deque[list[float]] = deque(maxlen=100)

    def say(self, action: list[float]) -> list[float]:
        """Note what the operator says."""
        self._said.append(action)
        return action

    def tell(self, on: bool | None) -> None:
        """Note that the stream is in hand, or not, or that nobody can know."""
        self.on, self.since = on, self.since + 1

    def must_act(self, since: int) -> bool:
        """Whether a frame that was sent then must be the operator's."""
        return self.on is True and since == self.since

    def act(self, action: list[float], since: int) -> bool:
        """Note what the operator did in a frame that was sent then; False where they cannot have done that.

        What they say is done in turn, and nothing after it was told that the stream was handed back.
        """
        if action not in self._said or (self.on is False and since == self.since):
            return False
        while self._said[0] != action:
            self._said.popleft()
        self.acted += 1
        return True
