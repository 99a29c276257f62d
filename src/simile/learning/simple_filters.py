"""What an engineer would try first, and what a policy is compared with: a predictor, and a filter behind it.

The components of a mixture are such predictors, each alone. They are judged as the policy is, by roll-outs of sequences
that they have not seen, at no more roughness than the policy was allowed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simile._common.text import count
from simile._common.typing import FloatArray
from simile.data.recorded import ActionSpace, Recorded, Units
from simile.data.states import Horizon
from simile.learning.aims import Aim
from simile.learning.bands import fit_band
from simile.learning.components import Component
from simile.learning.mixture import Choices, Mixture, standardize
from simile.learning.rounds import card_of, note_band
from simile.metrics import Score, mean_roughness
from simile.models import SmoothForest
from simile.models.closed_loop import ClosedLoop
from simile.models.regularizers import Autoregressor, CriticallyDamped, PreviousAction
from simile.models.ridge import Ridge
from simile.policies.policies import Policy, SmoothPolicy

AVERAGE, FOLLOWER = "an exponential average", "a critically damped follower"
FILTERS: dict[str, PreviousAction | CriticallyDamped] = {AVERAGE: PreviousAction(), FOLLOWER: CriticallyDamped(order=2)}
STRENGTHS = (0.0, *np.geomspace(0.5, 5000.0, 11).tolist())
NAMES = {"forest": "a forest", "line": "a ridge"}  # of components that are simple predictors
LIGHT = (SmoothForest(n_trees=16, max_depth=None, min_leaf=10, max_frames=250_000), Ridge())


@dataclass(frozen=True, eq=False)
class SimpleFilter:
    """A simple policy, and how it does.

    Attributes
    ----------
    name : str
        What it consists of.
    score : Score
        Of roll-outs over sequences that were left out.
    smooth_enough : bool
        Whether it is within the budget of roughness.
    """

    name: str
    score: Score
    smooth_enough: bool
    mixture: Mixture
    component: Component
    aim: int  # which of its aims
    h: Autoregressor
    smoothness: float
    demos: Recorded  # in the user's units
    units: Units
    space: ActionSpace

    @cached_property
    def rolled(self) -> list[FloatArray]:
        """Roll-outs over what is judged, in standard units."""
        said = self.component.unseen.reshape(-1, len(self.component.aims), self.demos.n_actions)[:, self.aim]
        parts, loop = np.split(said, self.mixture.starts[1:-1]), ClosedLoop.of(self.h, self.smoothness)
        return self.mixture.clip([loop.roll(z, a) for z, a in zip(parts, self.mixture.judged.actions, strict=True)])

    @cached_property
    def policy(self) -> Policy:
        """The policy itself."""
        choices, k = self.mixture.choices, self.demos.n_actions
        weights = np.zeros((len(self.component.aims), k))
        weights[self.aim] = 1.0
        made = self.component.blend(weights)
        assert made is not None
        policy = SmoothPolicy(made[0], self.h, self.smoothness, choices.horizon, None, self.demos.n_contexts)
        loop, judged = ClosedLoop.of(self.h, self.smoothness), self.mixture.judged
        said = self.component.unseen.reshape(-1, len(weights), k)[:, self.aim]
        folds = self.mixture.fold, self.mixture.folds.kin[self.mixture.folds.judged]
        band = fit_band(judged, folds, ((1.0, said),), self.rolled, self.rolled, loop, choices.horizon.lead)
        facts = {"rival": self.name, "smoothness": self.smoothness, "horizon": choices.horizon, "seed": choices.seed}
        return policy.in_units(self.units, self.space, note_band(card_of(self.demos, facts), band))


def fit_simple_filter(
    demos: Recorded, horizon: Horizon, *, budget: float, order: int = 2, space: ActionSpace, seed: int
) -> SimpleFilter | None:
    """Fit a forest and a ridge, and find the best simple filter; None for too few frames.

    Parameters
    ----------
    demos : Recorded
        In the user's units.
    horizon : Horizon
        What the predictors see.
    budget, order, space, seed
        As for `find_simple_filter` and `Choices`.
    """
    choices = Choices.of(demos, model=LIGHT, horizon=horizon, space=space, seed=seed)
    units, standard, inside = standardize(demos, choices)
    return find_simple_filter(Mixture.fit(standard, inside, order=order), demos, units, space, budget=budget)


def find_simple_filter(
    mixture: Mixture, demos: Recorded, units: Units, space: ActionSpace, *, budget: float
) -> SimpleFilter | None:
    """Tune what an engineer would try first, with the components of a mixture; None where nothing was left out.

    Parameters
    ----------
    mixture : Mixture
        Of the demonstrations.
    demos, units, space
        The demonstrations in the user's units, these, and bounds.
    budget : float
        Largest roughness allowed; where none is as smooth, the smoothest stands for it.
    """
    simple = [one for one in mixture.components if one.name in NAMES]
    if len(mixture.folds) == 1 or not simple:
        return None
    found: list[tuple[bool, float, float, SimpleFilter]] = []
    nothing = [np.empty((0, demos.n_actions))]  # these h look at no trajectories
    for one, (kind, filter_) in itertools.product(simple, FILTERS.items()):
        aims = [i for i, aim in enumerate(one.aims) if not aim.lag]
        said = one.unseen.reshape(-1, len(one.aims), demos.n_actions)[:, aims]
        for strength in STRENGTHS:
            h = filter_.fit(nothing, strength)
            errors, rough = _measure(mixture, said, ClosedLoop.of(h, strength))
            for i, error, roughness in zip(aims, errors, rough, strict=True):
                smooth, name = not roughness > budget, f"{_name(one, one.aims[i])} behind {kind}"
                rival = SimpleFilter(
                    name, Score(error, roughness), smooth, mixture, one, i, h, strength, demos, units, space
                )
                found.append((not smooth, error if smooth else roughness, error, rival))
    return min(found, key=lambda one: one[:3])[3]


def _measure(mixture: Mixture, said: FloatArray, loop: ClosedLoop) -> tuple[list[float], list[float]]:
    """Return error and roughness of what predictors (frames, predictors, k) make behind a filter."""
    begin = max(mixture.choices.horizon.lead, *(f.fit([np.empty((0, 1))], 1.0).order for f in FILTERS.values()))
    total, weight, bends, known = 0.0, 0.0, [], []
    for j, expert in enumerate(mixture.expert.T):
        rolled = loop.roll_columns(said[:, :, j], mixture.starts, expert, min(j, loop.taps.shape[1] - 1))
        sums = mixture.reference(j, begin).sums(np.split(rolled, mixture.starts[1:-1]))
        total = total + sums.squares.sum(axis=0)
        weight += float(sums.weights.sum())
        bends.append(sums.bends.sum(axis=0))
        known.append((sums.expert_bends.sum(), sums.sizes.sum()))
    theirs, sizes = np.array(known).T
    rough = [mean_roughness(own, theirs, sizes) for own in np.array(bends).T]
    errors = np.asarray(total) / weight if weight else np.full(said.shape[1], math.nan)
    return errors.tolist(), rough


def _name(component: Component, aim: Aim) -> str:
    """Name a predictor."""
    return NAMES[component.name] + (f" that looks {count(aim.ahead, 'frame')} ahead" if aim.ahead else "")
