"""From frames to actions: detect, locate, act, send; the newest frame at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

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
        What the policy saw last.
    action, sent : (k,) array
        What it chose, or the operator did; and where a head is on its way there, within its limits.
    who : str
        "policy" or "operator".
    spent : dict
        Seconds of each stage; `total` is from the frame to what was sent.
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
        doubts = Doubts(self.court)
        while not source.ended:
            shot = source.take(GLANCE)
            at = shot.time if shot is not None else 0.0
            if at >= seconds:
                return
            if shot is None:
                if self.operator is not None and self.operator.device.read().leave:
                    return
                continue
            yield self._take(shot, source, doubts, clock)
            if self.operator is not None and self.operator.leaves:
                return

    def _take(self, shot: Shot, source: Source, doubts: Doubts, clock: Callable[[], float]) -> Moment:
        times = [clock()]
        found = self._detect(shot)
        times.append(clock())
        positions = self._locate(found, shot)
        times.append(clock())
        operator = None
        if self.operator is not None and self._last is not None:
            operator = self.operator.act(self._last, shot.time)
        self._last = action = self.actor.act(positions, shot.time, operator)
        times.append(clock())
        done = [output.send(shot, action) for output in self.outputs]
        times.append(clock())
        detect, locate, act, send = np.diff(times).tolist()
        spent = {"decode": shot.decoding, "wait": times[0] - shot.came, "detect": detect, "locate": locate}
        spent |= {"act": act, "send": send, "total": shot.decoding + times[-1] - shot.came}
        said = doubts.note(shot.time, positions, dropped=source.dropped, detecting=detect)
        who = "policy" if operator is None else "operator"
        sent = done[0] if done else action
        return Moment(shot, found, positions, self.actor.context, action, sent, who, spent, said)

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
