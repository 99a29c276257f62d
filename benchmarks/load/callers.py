"""Callers: streams that send frames, good ones and bad ones, and check every answer by a twin.

What a caller sends is in its books until it is answered or told to be lost. Its actions must have the bits of the twin
and, where nobody can know them (while one policy hands over to another), stay within the actuator's rate limit. Who has
acted, the policy or an operator, is what the answer says, where the client cannot know it; what an operator did must be
what one has said.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from load.faults import drawn, inject
from load.hands import Hand
from load.policies import contexts
from load.twins import QUEUE, Sent, Twin

if TYPE_CHECKING:
    from load.lines import Line
    from load.worlds import World

UNKNOWN = "streams of which nobody can know what they saw, begun anew"
UNTOLD = 8  # frames that a snapshot may know to be lost and not told
SETTLED = 1.2  # seconds after a hand-over's end until the stream begins anew, to be checked to the bit again


class Caller:
    """One stream.

    Parameters
    ----------
    world : World
        What all share: the policy at work, the books, the limit.
    line : Line
        The connection.
    name : str
        Of the stream.
    seed : int
        For its faults and its contexts.
    deadline : float
        Seconds by which frames may be late; 0 for none.
    """

    def __init__(self, world: World, line: Line, name: str, seed: int, *, deadline: float = 0.0) -> None:
        self.world, self.line, self.name, self.deadline = world, line, name, deadline
        self.rng = random.Random(seed)
        self.rows = contexts(seed=100 + seed % 5)
        self.offset = 97 * seed
        self.n = -1
        self.ready = False  # is the stream open?
        self.exact = True
        self.certain = True  # is it known which frames the server has taken?
        self.reopen_at = math.inf
        self.closing = False
        self.twin: Twin | None = None
        self.pending: dict[int, Sent] = {}
        self.written: dict[int, float] = {}
        self.refusals: list[tuple[int, int]] = []  # numbers that must be turned away, and the highest sent before each
        self.bridged = -1  # the highest number that was bridged at its deadline
        self.overdue: set[int] = set()  # numbers that were sent, and bridged before they came: they must be turned away
        self.held: Sent | None = None  # sent after its successor
        self.skip, self.latest = 0, -1  # frames to leave out, and the highest number that was sent
        self.last: tuple[int, list[float]] | None = None  # the last action, and its number
        self.generation = world.generation
        self.hand = Hand()
        self.history = "never resumed"
        self._new_books()

    # ------------------------------------------------------------------------------------------------- the connection

    def connected(self) -> None:
        """Open the stream, or go on with it."""
        start = {} if self.last is None else {"start": self.last[1]}
        begin = {"deadline": self.deadline, "resume": self.twin is not None, **start}
        self.send({"open": begin})

    def broken(self) -> None:
        """Note that what was under way may have been taken or not."""
        self.ready = self.closing = False
        self.held = None
        self.hand.tell(None)
        self.slack += self.waiting
        self.world.ledger.lost["in flight when a connection broke"] += self.waiting
        self.refusals.clear()
        self.overdue.clear()
        self.written.clear()

    @property
    def waiting(self) -> int:
        """How many messages are not yet answered."""
        return len(self.pending) + len(self.refusals) + len(self.overdue)

    def restarted(self) -> None:
        """Begin new books: a server that was killed goes on from a snapshot, and tells what that had not told yet."""
        slack = self.slack
        self._new_books()
        self.slack = slack + UNTOLD

    def close(self) -> None:
        """Ask for the end of the stream."""
        if self.ready and not self.closing:
            self.closing = True
            self.send({"close": True})

    # --------------------------------------------------------------------------------------------------------- sending

    def turn(self) -> None:
        """Send the frame that is due, or what is wrong instead."""
        self.n += 1
        if not self.ready or self.closing:
            return
        if time.monotonic() > self.reopen_at:
            if not self.waiting:
                self.close()
            return
        if self.skip:
            self.skip -= 1
            return
        frame = Sent(self.n, self.rows[(self.n + self.offset) % len(self.rows)])
        fault = None if self.world.calm else drawn(self.rng, alone=self.exact and not self.world.reloading)
        if fault is None:
            self.send_frame(frame)
        else:
            self.world.ledger.injected[fault] += 1
            inject(fault, self, frame)
        if self.held is not None and self.held.n < self.latest:  # a later one is on its way: now the one before
            self.refusals.append((self.held.n, self.latest))
            self.send({"x": self.held.x, "n": self.held.n})
            self.held = None

    def babble(self) -> None:
        """Send a frame that cannot be used; its answer is long."""
        self.n += 1
        if self.ready and not self.closing:
            self.send_frame(Sent(self.n, [], usable=False))

    def send_frame(self, frame: Sent) -> None:
        """Send a frame that must be answered."""
        message: dict[str, Any] = {"n": frame.n, "x": frame.x}
        if frame.override is not None:
            message["override"] = frame.override
        self.latest = frame.n
        if frame.n <= self.bridged:  # this process was stopped for a while: the server has done without it
            self.overdue.add(frame.n)
        else:
            self.pending[frame.n] = replace(frame, watched=self.hand.watched, since=self.hand.since)
            self.written[frame.n] = time.perf_counter()
        self.send(message)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        self.line.send({"stream": self.name, **message} if self.line.many else message)

    # --------------------------------------------------------------------------------------------------------- hearing

    def hear(self, said: dict[str, Any]) -> None:
        """Check what the server says."""
        self.told += said.get("lost", 0)
        if "opened" in said:
            self._opened(said["opened"])
        elif "closed" in said:
            self._closed(said["closed"])
        elif said.get("a") is not None:
            self._acted(said["n"], said["a"], said.get("by"), said.get("error"))
        else:
            self._turned_away(said.get("n"), said.get("error", "nothing"))

    def handed_over(self) -> None:
        """Note that another policy has taken over: for a while only the limit can be checked."""
        self.generation = self.world.generation
        self.doubt(self.world.handover + SETTLED)

    def doubt(self, seconds: float) -> None:
        """Check no bits for a while, then begin anew."""
        self.exact = False
        self.reopen_at = time.monotonic() + seconds

    def _acted(self, n: int, action: list[float], by: str | None, error: str | None) -> None:
        ledger = self.world.ledger
        self.world.tape.hear(self.name, n, action, by)
        if (written := self.written.pop(n, 0.0)) and not self.line.slow:
            ledger.latencies.append(time.perf_counter() - written)
        bridge = self._is_bridge(n, by, error)
        frame = Sent(n, None) if bridge else self.pending.pop(n, None)
        doubtful = [] if bridge else self._swept(n, by)
        if frame is None:
            ledger.mistake(f"{self.name}: an answer to frame {n}, which was not asked")
            return
        if (error is None) != frame.usable:
            ledger.mistake(f"{self.name}: frame {n} was answered with {error!r}")
        if by == "operator" and frame.override is None:
            frame = self._led(frame, action)
        elif by != "operator" and self.hand.must_act(frame.since):
            ledger.mistake(f"{self.name}: frame {n} was by {by}, and the stream is in an operator's hand")
        unknown = any(earlier.watched for earlier in doubtful)  # was it taken, and by whom?
        led = unknown or any(earlier.override is not None for earlier in doubtful)  # and the answer was not sent
        if by != "operator" and not led:  # who may do as they like
            self._check_jump(n, action)
        if self.exact and unknown:
            ledger.lost[UNKNOWN] += 1
            self.doubt(0.0)
        if self.exact and self.twin is not None:
            doing = self.twin.follow(doubtful, frame, action)
            if doing.action != action or doing.by != by:
                if self.certain:
                    ledger.mistake(
                        f"{self.name}: frame {n} by {by}: {action} where {doing.action} by {doing.by} was due "
                        f"({len(doubtful)} unanswered before; {self.history})"
                    )
                else:
                    ledger.lost[UNKNOWN] += 1
                self.doubt(0.0)  # one mistake is counted once
            else:
                ledger.held["answers equal to the bit"] += 1
        else:
            ledger.held["answers checked by the rate limit"] += 1
        self.last = n, action

    def _led(self, frame: Sent, action: list[float]) -> Sent:
        """Return a frame in which an operator acted, as the twin must take it."""
        if self.hand.act(action, frame.since):
            self.world.ledger.held["frames in which an operator acted by a seat"] += 1
        else:
            self.world.ledger.mistake(f"{self.name}: frame {frame.n}: no operator has said {action} now")
        return replace(frame, override=action)

    def _is_bridge(self, n: int, by: str | None, error: str | None) -> bool:
        """Whether an answer is to no frame, but was made at a deadline."""
        frame = self.pending.get(n)
        if not self.deadline or by != "gap" or error is not None or _is_silent(frame):
            return False
        self.world.ledger.held["bridged at a deadline"] += 1
        self.bridged = n
        if self.pending.pop(n, None) is not None:
            self.overdue.add(n)  # it is under way, and will be turned away
        return True

    def _swept(self, n: int, by: str | None) -> list[Sent]:
        """Give up what was sent before frame n and is not answered; returns the frames, which must be told."""
        doubtful = [self.pending.pop(k) for k in sorted(self.pending) if k < n]
        early = self.deadline and by == "gap"  # perhaps at a deadline, while what must be refused is still under way
        kept = [(k, after) for k, after in self.refusals if after >= n or early]
        refused = len(self.refusals) - len(kept)
        self.refusals = kept
        gone = len(doubtful) + refused
        self.unanswered += gone
        self.slack += refused  # a doubled frame is told, and so is its answer where that was not sent
        self.world.ledger.lost["dropped by the server, or not sent to slow readers, and told"] += gone
        return doubtful

    def _turned_away(self, n: int | None, error: str) -> None:
        ledger = self.world.ledger
        found = next((refusal for refusal in self.refusals if refusal[0] == n), None)
        if found is not None:
            self.refusals.remove(found)
            self.refused += 1
            ledger.lost["duplicated or out of order, and told"] += 1
        elif n is not None and self.deadline and (n in self.pending or n in self.overdue or "deadline" in error):
            self.pending.pop(n, None)
            self.overdue.discard(n)
            self.refused += 1
            ledger.lost["later than their deadline, and told"] += 1
        elif n in self.pending and self.twin is not None and not self.twin.begun:
            del self.pending[n]  # nothing was known yet
        else:
            ledger.mistake(f"{self.name}: frame {n} was refused: {error}")

    def _opened(self, opened: dict[str, Any]) -> None:
        world, frames = self.world, int(opened["frames"])
        if self.generation != world.generation and self.twin is not None:
            self.handed_over()
        doubtful = [self.pending[k] for k in sorted(self.pending)]
        self.history = (
            f"resumed at {self.n} with {frames} frames; the twin had {self.twin.frames if self.twin else None}, "
            f"{len(doubtful)} were under way"
        )
        if self.twin is not None and frames > self.twin.frames and (self.deadline or len(doubtful) > QUEUE):
            # It took frames whose answers never came, and may have bridged some at their deadlines, or dropped others
            # of a full queue: on a busy machine only the server knows which.
            self.certain = False
        self.pending.clear()
        self.overdue.clear()
        self.bridged = -1
        if self.twin is None or frames == 0:
            if self.twin is not None and self.twin.frames > 0:
                world.ledger.lost["streams that began anew"] += 1
            self._begin_anew()
        elif self.exact and (
            (frames > self.twin.frames and any(frame.watched for frame in doubtful))
            or not self.twin.go_to(frames, opened["n"], doubtful)
        ):
            world.ledger.lost[UNKNOWN] += 1
            self.doubt(0.0)
        elif self.twin.frames:
            world.ledger.held["resumed"] += 1
        self.ready = True

    def _closed(self, closed: dict[str, Any]) -> None:
        if self.exact and self.certain and self.twin is not None and closed["frames"] != self.twin.frames:
            self.world.ledger.mistake(f"{self.name}: closed after {closed['frames']} frames, not {self.twin.frames}")
        self.check_books()
        self.twin, self.ready, self.closing = None, False, False
        if not self.world.ending:
            self.connected()

    def _begin_anew(self) -> None:
        start: Sequence[float] | None = None if self.last is None else self.last[1]
        self.twin = Twin(self.world.policy, self.world.stages, start)
        self.exact = self.certain = True
        self.hand.tell(False)
        self.reopen_at, self.generation = math.inf, self.world.generation
        self._new_books()

    # ----------------------------------------------------------------------------------------------------------- books

    def _new_books(self) -> None:
        self.told = self.refused = self.unanswered = self.slack = 0

    def check_books(self) -> None:
        """Compare what the server told to be lost with what was: only frames under way at a break may be untold."""
        owed = self.refused + self.unanswered
        if self.waiting:
            self.world.ledger.mistake(f"{self.name}: {self.waiting} frames were neither answered nor told to be lost")
        if not owed <= self.told <= owed + self.slack:
            self.world.ledger.mistake(
                f"{self.name}: {owed} frames were lost ({self.refused} refused), and {self.told} were told; "
                f"{self.slack} were under way when connections broke"
            )
        else:
            self.world.ledger.held["books that balance"] += 1

    def _check_jump(self, n: int, action: list[float]) -> None:
        if self.last is not None and n > self.last[0]:
            far = max(abs(a - b) for a, b in zip(action, self.last[1], strict=True))
            self.world.ledger.jump(far / (self.world.step * (n - self.last[0])), f"{self.name} at frame {n}")


def _is_silent(frame: Sent | None) -> bool:
    """Whether a frame is one that is bridged anyway."""
    return frame is not None and frame.x is None and frame.override is None
