"""From frames to actions: detect, locate, act, send; the newest frame at a time."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from simile._common.text import count, size
from simile._common.typing import FloatArray
from simile.camera.calibration import Calibration
from simile.camera.courts import Court
from simile.camera.live.acting import Actor
from simile.camera.live.detectors import Detector, find_feet
from simile.camera.live.doubts import Doubts
from simile.camera.live.hands import Operator
from simile.camera.live.lines import Found, Lines
from simile.camera.live.sights import Through
from simile.camera.live.sources import Shot, Source
from simile.errors import ArgumentError

GLANCE = 0.2  # seconds after which keys are looked at, where no frame comes
MOST = 2_000_000_000  # bytes of pictures that are kept while a policy waits


class Output(Protocol):
    """Where actions go to."""

    def send(self, shot: Shot, action: FloatArray) -> FloatArray:
        """Do as the action (k,) says, and return what is really done; never waits."""


@dataclass(frozen=True)
class Moment:
    """What was made of one frame.

    Parameters
    ----------
    shot : Shot
        The frame.
    found : Found
        What was detected: boxes, or positions.
    positions : (n, 2) array
        Where that is, in metres.
    context : (m,) array
        What the policy saw of it.
    action, sent : (k,) array
        What it chose, or the operator did; and where a head is on its way there, within its limits.
    who : str
        "policy" or "operator".
    spent : dict
        Seconds of each stage; `total` is from the frame to what was sent. Where the policy may wait, `keep` is how long
        the frame was kept for it, and a part of `total`.
    doubts : tuple of str
        What seems wrong, if it was not said before.
    """

    shot: Shot
    found: Found
    positions: FloatArray
    context: FloatArray
    action: FloatArray
    sent: FloatArray
    who: str
    spent: dict[str, float]
    doubts: tuple[str, ...] = ()


@dataclass
class Pipeline:
    """All that stands between a source and its outputs.

    Parameters
    ----------
    detector : Detector or Lines
        Who finds people.
    calibration : Calibration or Through, optional
        Where on the court they are, before a camera that stands still or through that of a head; not needed where
        lines tell positions.
    actor : Actor
        The policy, at its own pace.
    court : Court
        Where people are expected.
    outputs : sequence of Output
        All do the same; what the first one has really done is what was sent.
    operator : Operator, optional
        A person who can take over.
    """

    detector: Detector | Lines
    actor: Actor
    court: Court
    calibration: Calibration | Through | None = None
    outputs: Sequence[Output] = ()
    operator: Operator | None = None
    _last: FloatArray | None = field(default=None, init=False)

    def film(
        self, source: Source, *, seconds: float = np.inf, clock: Callable[[], float] = time.perf_counter
    ) -> Iterator[Moment]:
        """Yield what is made of the newest frame, again and again, until the source ends or the operator leaves.

        `seconds` of the source's own time are filmed at most.
        """
        doubts, kept = Doubts(self.court), deque[Moment]()
        while not source.ended:
            shot = source.take(GLANCE)
            if shot is None:
                if self.operator is not None and self.operator.device.read().leave:
                    return
                continue
            if shot.time >= seconds:
                break
            seen, actions = self._take(shot, clock)
            kept.append(seen)
            _check_room(len(kept), self.actor, source)
            for action in actions:
                yield self._send(replace(kept.popleft(), action=action, who=seen.who), source, doubts, clock)
            if self.operator is not None and self.operator.leaves:
                return
        began = clock()
        for moment, action in zip(tuple(kept), self.actor.finish(), strict=True):
            if not source.fast:  # as they came: all at once would be too many for an encoder, and too fast for a head
                time.sleep(max(began + moment.shot.came - kept[0].shot.came - clock(), 0.0))
            yield self._send(replace(moment, action=action, who="policy"), source, doubts, clock)

    def _take(self, shot: Shot, clock: Callable[[], float]) -> tuple[Moment, list[FloatArray]]:
        """Look at a frame, and return what is known of it, and the actions that it brings."""
        times = [clock()]
        found = self._detect(shot)
        times.append(clock())
        positions = self._locate(found, shot)
        times.append(clock())
        operator = None
        if self.operator is not None and self._last is not None:
            operator = self.operator.act(self._last, shot.time)
        actions = self.actor.answer(positions, shot.time, operator)
        times.append(clock())
        detect, locate, act = np.diff(times).tolist()
        spent = {"decode": shot.decoding, "wait": times[0] - shot.came, "detect": detect, "locate": locate, "act": act}
        who, none = "policy" if operator is None else "operator", np.empty(0)
        return Moment(shot, found, positions, self.actor.context, none, none, who, spent), actions

    def _send(self, moment: Moment, source: Source, doubts: Doubts, clock: Callable[[], float]) -> Moment:
        """Send the action of a moment, which is the last that there is."""
        shot, spent, self._last = moment.shot, dict(moment.spent), moment.action
        began = clock()
        done = [output.send(shot, moment.action) for output in self.outputs]
        ended = clock()
        if self.actor.wait:
            spent["keep"] = began - shot.came - sum(spent[stage] for stage in ("wait", "detect", "locate", "act"))
        spent |= {"send": ended - began, "total": shot.decoding + ended - shot.came}
        said = doubts.note(shot.time, moment.positions, dropped=source.dropped, detecting=spent["detect"])
        return replace(moment, sent=done[0] if done else moment.action, spent=spent, doubts=said)

    def _detect(self, shot: Shot) -> Found:
        if isinstance(self.detector, Lines):
            return self.detector.find(shot)
        return Found(boxes=self.detector.detect(shot.image))

    def _locate(self, found: Found, shot: Shot) -> FloatArray:
        if found.positions is not None:
            return found.positions
        boxes = np.empty((0, 4)) if found.boxes is None else found.boxes
        if self.calibration is None:
            raise ArgumentError("calibration must be given where boxes are detected: it tells where people stand")
        feet = find_feet(boxes)
        if isinstance(self.calibration, Through):
            positions = self.calibration.to_court(feet, self.calibration.note(shot))
        else:
            positions = np.asarray(self.calibration.to_court(feet, frame=shot.number))
        return positions[np.isfinite(positions).all(axis=1)]


def tell_kept(actor: Actor, source: Source) -> str:
    """Say what is kept of a source while a policy waits.

    Raises
    ------
    ArgumentError
        When that is too much.
    """
    pictures = math.ceil(actor.delay * source.rate) + 1
    _check_room(pictures, actor, source)
    return f"while it waits, {_tell_pictures(pictures, source)} are kept"


def _check_room(pictures: int, actor: Actor, source: Source) -> None:
    if pictures * source.picture > MOST:
        raise ArgumentError(
            f"policy: it waits {actor.delay:.3g} s, for which {_tell_pictures(pictures, source)} would be kept, and "
            f"{size(MOST)} is the most: film a smaller picture, or learn with a lead (--lead) nearer to 0"
        )


def _tell_pictures(pictures: int, source: Source) -> str:
    long = count(pictures, "picture")
    return f"{long} of {source.size[0]} x {source.size[1]} pixels ({size(pictures * source.picture)})"
