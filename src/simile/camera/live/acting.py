"""A policy at its own pace, behind a video that has another."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from simile._common.typing import FloatArray
from simile.camera.features import Features
from simile.online import Predictor, Recorder
from simile.policies.policies import Policy, timing
from simile.policies.stages import Stage

ALIKE = 0.01  # rates that differ by less are the same: 29.97 is 30
PAUSE = 2.0  # seconds without a frame after which motion is measured anew
EARLY = 1e-3  # seconds, or of a step, that make no difference
ROUNDING = 1e-6  # seconds, by which times of steps that are added up may be off


class Actor:
    """A policy that acts on the positions of people, at the rate of its card, whenever a frame comes.

    Where the video's rate is another, steps of the policy are taken as they fall due, with what was seen last, and its
    actions are interpolated to the times of the frames; the latest step is then taken a little early. Where frames were
    dropped, their steps are made up for.

    A policy that may wait (`lead` below 0) answers for frames that came `wait` of its steps ago; one that aims ahead
    (above 0) is for an actuator that is late, and its commands are for now.

    Parameters
    ----------
    policy : Policy
        What acts.
    features : Features
        What it sees.
    stages : sequence of Stage
        Limits of speed and the like, see `Predictor`.
    rate : float
        Frames per second of the video.
    recorder : Recorder, optional
        What keeps every step of the policy, in its own units.
    """

    def __init__(
        self,
        policy: Policy,
        features: Features,
        *,
        rate: float,
        stages: Sequence[Stage] = (),
        recorder: Recorder | None = None,
    ) -> None:
        self.rate = policy.card.rate or rate
        self.alike = abs(rate / self.rate - 1.0) < ALIKE
        self.predictor = Predictor(policy, stages=stages, rate=self.rate, recorder=recorder, name="camera")
        self.context = np.full(len(features.names), np.nan)
        self.wait = max(0, -timing(policy)[0])
        self._stream = features.stream()
        self._seen: float | None = None  # when the last frame was
        self._tick = 0.0  # when the latest step was due
        self._frames: deque[float] = deque()  # when those frames were that have no action yet
        self._ticks: deque[float] = deque()  # when those steps were due that have none
        self._answered = -np.inf  # when the latest step was due that has one
        self._actions: tuple[FloatArray, FloatArray] | None = None  # of the step before, and of that

    @property
    def delay(self) -> float:
        """Seconds that the policy may wait."""
        return self.wait / self.rate

    def act(self, positions: FloatArray, t: float, operator: FloatArray | None = None) -> FloatArray:
        """Return the action (k,) at the time t of a frame, as `answer` does, of a policy that does not wait."""
        (action,) = self.answer(positions, t, operator)
        return action

    def answer(self, positions: FloatArray, t: float, operator: FloatArray | None = None) -> list[FloatArray]:
        """Take a frame at time t in which people are at positions (n, 2), and return the actions (k,) that are due.

        There is one for each frame that has an answer now, in their order: for this frame, or where the policy waits
        for earlier ones, and none at first. Where an operator acts, who sees those frames now, it is his action, which
        becomes the past of the policy.
        """
        if self._seen is None or t - self._seen > PAUSE:
            self._stream.reset()
            self._tick, due = t, 1
        elif self.alike:
            due = max(1, round((t - self._seen) * self.rate))
            self._tick = t
        else:
            due = max(0, int(np.ceil((t - self._tick - EARLY) * self.rate)))
            self._tick += due / self.rate
        self._seen = t
        self._frames.append(t)
        found = [] if due else self._settle(operator)
        for left in reversed(range(due)):
            self.context = self._stream.step(positions)
            step = self.predictor.step(self.context) if operator is None else self._follow(operator)
            self._ticks.append(self._tick - left / self.rate)
            if step is not None and len(self._ticks) > self.wait:
                found += self._take(step, operator)
        return found

    def finish(self) -> list[FloatArray]:
        """Return the actions (k,) of the frames that still wait for one, as if what was seen last had lasted."""
        if not self._frames:
            return []
        self._seen = None
        return [action for step in self.predictor.flush() for action in self._take(step)]

    def _take(self, step: FloatArray, operator: FloatArray | None = None) -> list[FloatArray]:
        """Take the answer for the earliest step that has none."""
        self._actions = (step if self._actions is None else self._actions[1], step)
        self._answered = self._ticks.popleft()
        return self._settle(operator)

    def _settle(self, operator: FloatArray | None) -> list[FloatArray]:
        """Return the actions of the frames up to the latest answer, which lie between it and the one before."""
        found = []
        while self._frames and self._frames[0] <= self._answered + EARLY + ROUNDING:
            share = min(max((self._answered - self._frames.popleft()) * self.rate, 0.0), 1.0)
            before, latest = self._actions or (np.empty(0),) * 2
            between = latest if share < EARLY else latest + share * (before - latest)
            found.append(between if operator is None else operator)
        return found

    def _follow(self, operator: FloatArray) -> FloatArray:
        return self.predictor.override(operator, self.context)
