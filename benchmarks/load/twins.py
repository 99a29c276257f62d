"""The slow twin of a served stream: one `Predictor`, fed by the rules that the docs of the server state.

A twin follows the answers: they say which frames the server took, and by what. Frames that were never answered leave
a doubt, for the server may have taken them or not; then each possibility is tried, and the bits decide.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simile.online import Predictor

LONGEST_BRIDGE = 30  # missing frames; a longer gap is bridged by one
CHECKPOINT = 120  # frames between the states that are kept to go back to
TRUSTED = 300  # frames after a doubt from which on it is settled
SEARCH = 40_000  # frames gone through again at most to settle one
QUEUE = 8  # frames of a stream that wait at the server
MOST_DOUBTS = 6  # unanswered frames of which every subset is tried


@dataclass(frozen=True)
class Sent:
    """A frame that was sent."""

    n: int
    x: Sequence[float | None] | None
    override: Sequence[float] | None = None
    usable: bool = True  # False where the server must refuse the contents, and bridge
    watched: bool = False  # whether an operator may have acted in it
    since: int = 0  # what was known of that


@dataclass(frozen=True)
class Doing:
    """What the server does in one frame."""

    frame: Sent
    action: list[float]
    by: str


Options = list[tuple[Sent, ...]]


class Twin:
    """Says what the server must answer.

    Parameters
    ----------
    policy
        What is served.
    stages : sequence
        As the server has them.
    start : list of float, optional
        Where the stream begins.
    """

    def __init__(self, policy: Any, stages: Sequence[Any], start: Sequence[float] | None) -> None:
        self.predictor = Predictor(policy, start=start, stages=stages)
        self.n: int | None = None  # the last frame taken
        self.frames = 0  # taken, as the server counts them
        self.begun = start is not None
        self._checkpoints: deque[tuple[Any, ...]] = deque(maxlen=6)
        self._log: deque[tuple[int, Sent]] = deque(maxlen=6 * CHECKPOINT)  # frames, each with its place
        # Frames since a doubt, with what may have been taken before each.
        self._since: list[tuple[Options, Sent, list[float]]] = []
        self._resumed: Options = []  # what may have been taken before the stream was resumed
        self._fork: tuple[Any, ...] = ()  # the state before it
        self._trust = self._steps = 0
        self._checkpoint()

    def take(self, frame: Sent) -> Doing:
        """Take a frame, after those that are missing before it."""
        missing = 0 if self.n is None else frame.n - self.n - 1
        if self.begun:
            for _ in range(missing if missing <= LONGEST_BRIDGE else 1):
                self.predictor.step(None)
        self.n, self.frames = frame.n, self.frames + 1
        self._log.append((self.frames, frame))
        x = numbers(frame.x) if frame.usable else None
        if frame.override is not None:
            doing = Doing(frame, self.predictor.override(frame.override, x).tolist(), "operator")
        else:
            doing = Doing(frame, self.predictor.step(x).tolist(), "gap" if x is None else "policy")
        self.begun = True
        if self.frames % CHECKPOINT == 0:
            self._checkpoint()
        return doing

    def follow(self, doubtful: Sequence[Sent], frame: Sent, action: list[float]) -> Doing:
        """Take a frame whose action is known; earlier ones that were not answered may have been taken or not.

        Where actions alone cannot tell, because a limit makes them equal, later ones will: then the frames since the
        first doubt are gone through again, until all of them fit.
        """
        options = _possibilities(doubtful)
        if self._resumed:
            options, self._resumed = [(*taken, *more) for taken in self._resumed for more in options], []
        doubt = len(options) > 1
        if doubt and not self._since:
            self._fork = self._state()
        if doubt or self._since:
            self._since.append((options, frame, action))
            self._trust = 0 if doubt else self._trust + 1
        for earlier in options[0]:
            self.take(earlier)
        doing = self.take(frame)
        if doing.action != action and self._since:
            return self._search(0, self._fork) or doing
        if self._trust > TRUSTED:
            self._since.clear()
        return doing

    def _search(self, i: int, state: tuple[Any, ...]) -> Doing | None:
        """Find possibilities that fit all frames from the i-th doubt on; leaves the twin there."""
        self._steps = SEARCH if i == 0 else self._steps
        for taken in self._since[i][0]:
            self._restore(state)
            for earlier in taken:
                self.take(earlier)
            doing, k = None, i
            while self._steps > 0:
                _, frame, action = self._since[k]
                self._steps -= 1
                doing = self.take(frame)
                k += 1
                if doing.action != action or k == len(self._since) or len(self._since[k][0]) > 1:
                    break
            if doing is None or doing.action != self._since[k - 1][2]:
                continue
            if k == len(self._since):
                return doing
            further = self._search(k, self._state())
            if further is not None:
                return further
        return None

    def go_to(self, frames: int, last: int | None, doubtful: Sequence[Sent]) -> bool:
        """Go to where the server is after it took so many frames, the last of which had this number.

        Backwards, the frames are known. Forwards, it took some of the doubtful ones: it reads what has come and, of
        more than its queue holds, takes the latest; then it reads again. False where nobody can know which.
        """
        self._since.clear()
        more = frames - self.frames
        if more >= 0:
            came = [frame for frame in doubtful if last is not None and frame.n <= last]
            self._resumed = _taken_in_two_readings(came, more)
            return bool(self._resumed)
        known = [c for c in self._checkpoints if c[2] <= frames]
        if not known:
            return False
        again = [frame for place, frame in self._log if known[-1][2] < place <= frames]
        self._restore(known[-1])
        for frame in again:
            self.take(frame)
        return self.frames == frames and self.n == last

    def _checkpoint(self) -> None:
        self._checkpoints.append(self._state())

    def _state(self) -> tuple[Any, ...]:
        return self.predictor.state_dict(), self.n, self.frames, self.begun

    def _restore(self, state: tuple[Any, ...]) -> None:
        saved, self.n, self.frames, self.begun = state
        self.predictor.load_state_dict(saved)
        while self._checkpoints and self._checkpoints[-1][2] > self.frames:
            self._checkpoints.pop()
        while self._log and self._log[-1][0] > self.frames:
            self._log.pop()


def numbers(x: Sequence[float | None] | None) -> list[float] | None:
    """Return contexts with NaN for what is missing."""
    return None if x is None else [math.nan if v is None else v for v in x]


def _taken_in_two_readings(came: list[Sent], taken: int) -> Options:
    """Return which frames may have been taken, the last that came among them; none where it was read more often."""
    if taken == 0:
        return [()]
    if taken > min(len(came), 2 * QUEUE):
        return []
    options = [tuple(came[-taken:])]
    for first in range(1, taken):
        before, latest = came[: first - taken], came[first - taken :]
        options += [(*before[end - first : end], *latest) for end in range(first, len(before))]
    return options


def _possibilities(doubtful: Sequence[Sent]) -> Options:
    """Return which of the doubtful frames may have been taken, the likeliest first: none, for the queue was full."""
    every = tuple(doubtful)
    if len(every) <= MOST_DOUBTS:
        return [subset for size in range(len(every) + 1) for subset in itertools.combinations(every, size)]
    cuts = range(len(every) + 1)
    return [(), every, *(every[:i] for i in cuts), *(every[i:] for i in cuts)]
