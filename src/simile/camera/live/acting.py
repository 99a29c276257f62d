"""A policy at its own pace, behind a video that has another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simile._common.typing import FloatArray
from simile.camera.features import Features
from simile.online import Predictor, Recorder
from simile.policies.policies import Policy
from simile.policies.stages import Stage

ALIKE = 0.01  # rates that differ by less are the same: 29.97 is 30
PAUSE = 2.0  # seconds without a frame after which motion is measured anew
EARLY = 1e-3  # seconds, or of a step, that make no difference


class Actor:
    """A policy that acts on the positions of people, at the rate of its card, whenever a frame comes.

    Where the video's rate is another, steps of the policy are taken as they fall due, with what was seen last, and its
    actions are interpolated to the times of the frames; the latest step is then taken a little early. Where frames were
    dropped, their steps are made up for.

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
        self._stream = features.stream()
        self._seen: float | None = None  # when the last frame was
        self._tick = 0.0  # when the latest step was due
        self._actions: tuple[FloatArray, FloatArray] | None = None  # of the step before, and of that

    def act(self, positions: FloatArray, t: float, operator: FloatArray | None = None) -> FloatArray:
        """Return the action (k,) at the time t of a frame in which people are at positions (n, 2).

        Where an operator acts, his action is returned, and becomes the past of the policy.
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
        for _ in range(due):
            self.context = self._stream.step(positions)
            step = self.predictor.step(self.context) if operator is None else self._follow(operator)
            self._actions = (step if self._actions is None else self._actions[1], step)
        before, latest = self._actions or (np.empty(0),) * 2
        if operator is not None:
            return operator
        share = min(max((self._tick - t) * self.rate, 0.0), 1.0)
        return latest if share < EARLY else latest + share * (before - latest)

    def _follow(self, operator: FloatArray) -> FloatArray:
        return self.predictor.override(operator, self.context)
