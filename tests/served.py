"""A service to play with in tests: time that stands still, and answers that are kept."""

from __future__ import annotations

import math

import numpy as np

from simile import Horizon, SmoothPolicy
from simile.models.regularizers import Autoregressor
from simile.policies.cards import Card
from simile.serving.messages import Frame
from simile.serving.service import Service
from test_policies import Linear

NAMES = ("one", "two", "three")


class Clock:
    """Time that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Played:
    """A service, with all that it has answered by stream."""

    def __init__(self, policy, **options) -> None:
        self.clock = Clock()
        self.service = Service(policy, clock=self.clock, **{"max_streams": 8, **options})
        self.answers: dict[str, list] = {}

    def sink(self, stream, answer) -> None:
        self.answers.setdefault(stream.name, []).append(answer)

    def open(self, name: str = "one", **options):
        return self.service.open(name, **options)

    def put(self, stream, x=None, n=None, override=None) -> None:
        self.service.put(stream, Frame(x=x, n=n, override=override), self.sink)

    def step(self, stream, x=None, n=None, override=None):
        self.put(stream, x, n, override)
        self.service.run()
        return self.answers[stream.name][-1]

    def play(self, stream, X) -> np.ndarray:
        return np.array([self.step(stream, listed(x)).a for x in X])

    @property
    def counts(self):
        return self.service.counts


def listed(x) -> list[float | None]:
    return [None if math.isnan(value) else float(value) for value in x]


def check_conservation(service: Service) -> None:
    counts = service.counts
    waiting = sum(len(stream.queue) for stream in service.streams.values())
    assert counts.frames == counts.answers + counts.dropped + counts.limited + waiting


def unstable() -> SmoothPolicy:
    """A policy that trebles its last action, and soon diverges."""
    h = Autoregressor(np.array([[3.0]]))
    card = Card(context_names=("x",), rate=10.0)
    return SmoothPolicy(Linear(np.zeros((1, 1))), h, 10.0, Horizon(0, 0), n_contexts=1, card=card)
