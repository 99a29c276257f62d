"""Checkpoints: a model that writes down every fit, so that a run can be taken up where it stopped.

Fitting is what takes the time, and all else in Algorithm 1 follows from the fits. So a run is resumed by running it
again: fits that are on disk are read instead of made, to the bit, and the algorithm itself knows nothing of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from simile import models
from simile._common.typing import FloatArray
from simile.data.recorded import Recorded
from simile.data.states import Horizon, States
from simile.errors import StorageError
from simile.models import Model, SmoothRegressor
from simile.models.regularizers import PreviousAction
from simile.policies.cards import Card
from simile.policies.policies import SmoothPolicy
from simile.policies.storage import loading


@dataclass
class Checkpointed:
    """Any model, with a folder in which every fit is kept; give it as `model=` to resume an interrupted run.

    Use one folder for one run, with the same data, settings and seed: a fit of another run is refused.

    Parameters
    ----------
    model : Regressor or SmoothRegressor
        What fits.
    folder : Path
        Where the fits are kept, one policy file each.
    key : str
        What the run is, for example a digest of its data and settings; fits with another key are refused.
    trusted : sequence of str
        Types of other libraries that may be built when fits are read that somebody else wrote, or on another machine.

    Examples
    --------
    >>> import tempfile
    >>> import simile
    >>> from simile import tasks
    >>> demos = tasks.pursuit(n_sequences=3, length=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for r in simile.rounds(demos, model=Checkpointed(simile.SmoothForest(4), folder), n_rounds=3):
    ...         if r.number == 1:
    ...             break  # something went wrong
    ...     again = simile.rounds(demos, model=Checkpointed(simile.SmoothForest(4), folder), n_rounds=3)
    ...     whole = list(again)  # rounds 0 and 1 are read, not fitted
    >>> len(whole), whole[1].error == r.error
    (4, True)
    """

    model: Any
    folder: Path
    key: str = ""
    trusted: Sequence[str] = ()
    fits: int = field(default=0, init=False)  # so far in this run

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)

    @property
    def recipe(self) -> Any:
        """The model itself, for fits that are not worth keeping."""
        return self.model

    @property
    def _path(self) -> Path:
        """Where the next fit is kept."""
        return self.folder / f"fit-{self.fits:03d}.safetensors"

    def __repr__(self) -> str:
        return repr(self.model)  # a policy's card tells the model, not where its checkpoints were

    def fit_smooth(
        self,
        states: Sequence[States],
        labels: FloatArray,
        targets: FloatArray,
        anchors: FloatArray,
        smoothness: float,
        rng: np.random.Generator,
        *,
        weights: FloatArray | None = None,
    ) -> Model:
        """Fit, or read what an earlier run fitted here; the random numbers go on as if it had been fitted now."""

        def fit() -> Model:
            if isinstance(self.model, SmoothRegressor):
                counts = {} if weights is None else {"weights": weights}
                return self.model.fit_smooth(states, labels, targets, anchors, smoothness, rng, **counts)
            return models.fit(self.model, np.concatenate([s.matrix() for s in states]), labels, rng, weights=weights)

        return self._keep_here(fit, states[0], rng)

    def fit_apart(
        self,
        states: States,
        labels: FloatArray,
        n_actions: int,
        rng: np.random.Generator,
        *,
        weights: FloatArray | None = None,
    ) -> Model:
        """Fit for each action by itself, as a `SmoothForest` can, or read what an earlier run fitted here."""

        def fit() -> Model:
            found: Model = self.model.fit_apart(states, labels, n_actions, rng, weights=weights)
            return found

        return self._keep_here(fit, states, rng)

    def _keep_here(self, fit: Callable[[], Model], states: States, rng: np.random.Generator) -> Model:
        tape, known = states.tape, self._path.exists()
        f = self.keep(fit, states.horizon, tape.n_contexts, tape.actions.shape[1], rng)
        if hasattr(self.model, "remember") and known:  # what the next fit begins with
            self.model.remember(states, f)
        return f

    def keep(
        self, fit: Callable[[], Model], horizon: Horizon, n_contexts: int, n_actions: int, rng: np.random.Generator
    ) -> Model:
        """Fit, wherever that is done, or read what an earlier run fitted here."""
        path = self._path
        self.fits += 1
        if path.exists():
            return self._read(path, rng)
        f = fit()
        card = Card(training={"key": self.key, "chance": json.dumps(rng.bit_generator.state)})
        h = PreviousAction().fit([np.empty((0, n_actions))], 0.0)
        loading.save_own(SmoothPolicy(f, h, 0.0, horizon, None, n_contexts, card=card), path)
        return f

    def _read(self, path: Path, rng: np.random.Generator) -> Model:
        policy = loading.load_own(path, trusted=self.trusted)
        kept = policy.card.training
        if not isinstance(policy, SmoothPolicy) or kept.get("key") != self.key or "chance" not in kept:
            raise StorageError(
                f"{path} belongs to a run with other data or settings: resume with those, or begin in an empty folder"
            )
        rng.bit_generator.state = json.loads(kept["chance"])
        return policy.f


def recipe_of(model: Any) -> Any:
    """Return the model itself, without its checkpoints."""
    return getattr(model, "recipe", model)


def keep_fit(
    model: Any, fit: Callable[[], Model], demos: Recorded, horizon: Horizon, rng: np.random.Generator
) -> Model:
    """Fit, or read what was fitted, where the model has checkpoints."""
    if isinstance(model, Checkpointed):
        return model.keep(fit, horizon, demos.n_contexts, demos.n_actions, rng)
    return fit()
