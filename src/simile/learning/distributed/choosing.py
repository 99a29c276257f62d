"""One way to ask demonstrations at hand and demonstrations in parts the same questions."""

from __future__ import annotations

from typing import Any

import numpy as np

from simile._common.typing import FloatArray
from simile.data.demonstrations import ActionSpace, Demonstration, Demonstrations, Units
from simile.learning import measures
from simile.learning.distributed.access import Site
from simile.learning.distributed.backend import Backend
from simile.learning.distributed.demonstrations import SpreadDemonstrations
from simile.learning.distributed.local import LocalSite
from simile.learning.distributed.remote import SolvedRegularizer, SpreadSite
from simile.learning.measures import Outcome
from simile.learning.smoothness import SmoothTime
from simile.models.regularizers import RegularizerClass
from simile.policies.policies import Policy

AnyDemonstrations = Demonstrations | SpreadDemonstrations


def placed(demos: AnyDemonstrations | Demonstration, backend: Backend | None) -> AnyDemonstrations:
    """Take demonstrations as they come, and cut them into parts where there is a backend."""
    if isinstance(demos, SpreadDemonstrations):
        return demos
    return Demonstrations.of(demos) if backend is None else SpreadDemonstrations.of(demos, backend)


def site_of(demos: AnyDemonstrations, **asked: Any) -> Site:
    """Return the site of demonstrations in standard units."""
    if isinstance(demos, SpreadDemonstrations):
        return SpreadSite(demos=demos, **asked)
    return LocalSite(demos=demos, **asked)


def check_space(space: ActionSpace, demos: AnyDemonstrations) -> None:
    """Refuse demonstrations with actions outside the bounds."""
    if isinstance(demos, SpreadDemonstrations):
        demos.check(space)
    else:
        space.check(demos)


def standardized(demos: AnyDemonstrations, units: Units) -> AnyDemonstrations:
    """Bring the actions to standard units."""
    if isinstance(demos, SpreadDemonstrations):
        return demos.standardized(units)
    return demos.with_actions([units.standardize(a) for a in demos.actions])


def resolved(smoothness: SmoothTime, regularizer: RegularizerClass, standard: AnyDemonstrations) -> float:
    """Return the lambda that lags by so much, for demonstrations in standard units."""
    if isinstance(standard, SpreadDemonstrations):
        return smoothness.resolve(SolvedRegularizer.of(regularizer, standard), [], standard.rate)
    return smoothness.resolve(regularizer, standard.actions, standard.rate)


def outcome(policy: Policy, demos: AnyDemonstrations, *, order: int = 2) -> Outcome:
    """Roll a policy out and measure it."""
    if isinstance(demos, SpreadDemonstrations):
        return demos.outcome(policy, order=order)
    return measures.outcome(policy, demos, order=order)


def extremes(demos: AnyDemonstrations) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and the highest value of each context, (m,); NaN where all are missing."""
    if isinstance(demos, SpreadDemonstrations):
        return np.fmin.reduce(demos.all.low), np.fmax.reduce(demos.all.high)
    low, high = ([extreme.reduce(x, axis=0) for x in demos.contexts] for extreme in (np.fmin, np.fmax))
    return np.fmin.reduce(low), np.fmax.reduce(high)
