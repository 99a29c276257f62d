"""The two simplest rivals of one policy, tuned to be at least as smooth as it is: for `simile train`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from simile.data.demonstrations import Demonstrations
from simile.data.states import Horizon
from simile.errors import ArgumentError
from simile.learning import measures
from simile.learning.algorithms import clone
from simile.models.regularizers import CriticallyDamped, PreviousAction, RegularizerClass
from simile.policies.policies import SmoothPolicy

# From no filter at all to one that remembers a thousand frames.
STRENGTHS = (0.0, *np.geomspace(0.5, 1000.0, 18).tolist())
# Frames of the validation part that a filter is tuned on: enough to tell one strength from the next.
TUNED_ON = 20_000

EXPONENTIAL_AVERAGE = PreviousAction()  # h(a) = a makes Eq. 2 an exponential moving average of f
FOLLOWER = CriticallyDamped(order=2)  # a critically damped spring


def predictor(demos: Demonstrations, *, model: Any = None, horizon: Horizon | None = None, seed: int = 0) -> Any:
    """Clone the expert from the contexts alone, with no smoothness: what the filters below are put behind."""
    seen = Horizon() if horizon is None else horizon
    return clone(
        demos, model=model, horizon=seen.without_actions(), smoothness=0.0, regularizer=PreviousAction(), seed=seed
    ).policy


def filtered(policy: Any, regularizer: RegularizerClass, validation: Demonstrations, *, roughness: float) -> Any:
    """Put the most accurate filter behind a predictor, among those at least as smooth as `roughness`.

    Parameters
    ----------
    policy : SmoothPolicy
        The predictor.
    regularizer : RegularizerClass
        The kind of filter; its strength is chosen.
    validation : Demonstrations
        What to choose it on, by roll-outs.
    roughness : float
        Largest mean |second difference| allowed, as a multiple of the expert's; if no filter is as smooth, the
        smoothest is taken.
    """
    if not isinstance(policy, SmoothPolicy):
        raise ArgumentError(f"policy must be a SmoothPolicy; got {type(policy).__name__}")
    some = _at_most(validation, TUNED_ON)
    tried = []
    for strength in STRENGTHS:
        candidate = replace(policy, h=regularizer.fit(some.actions, strength), smoothness=strength)
        outcome = measures.outcome(candidate, some)
        tried.append((outcome.error, measures.roughness(outcome.rolled, some), candidate))
    smooth = [t for t in tried if t[1] <= roughness]
    chosen = min(smooth, key=lambda t: t[0]) if smooth else min(tried, key=lambda t: t[1])
    return chosen[2]


def _at_most(demos: Demonstrations, frames: int) -> Demonstrations:
    """Take the first sequences, up to about so many frames."""
    before = np.cumsum([0, *(len(d) for d in demos)])[:-1]
    return Demonstrations(tuple(d for d, n in zip(demos, before, strict=True) if n < frames))
