"""Checkpoints: a model that writes down every fit, so that a run can be taken up where it stopped.

Fitting is what takes the time, and all else in Algorithm 1 follows from the fits. So a run is resumed by running it
again: fits that are on disk are read instead of made, to the bit, and the algorithm itself knows nothing of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from simile import models
from simile._common.typing import FloatArray
from simile.data.recorded import Recorded
from simile.data.states import Horizon, States
from simile.errors import StorageError
from simile.models import Apart, Forest, Model, SmoothRegressor
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
    _for_folds: Checkpointed | None = field(default=None, init=False)

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

        return self._keep_here(fit, states[0], rng, labels.shape[1])

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

        return self._keep_here(fit, states, rng, labels.shape[1])

    def _keep_here(self, fit: Callable[[], Model], states: States, rng: np.random.Generator, n_outputs: int) -> Model:
        tape, known = states.tape, self._path.exists()
        f = self.keep(fit, states.horizon, tape.n_contexts, n_outputs, rng)
        if hasattr(self.model, "remember") and known:  # what the next fit begins with
            self.model.remember(states, f)
        return f

    def for_folds(self, halve: Callable[[Any], Any]) -> Checkpointed:
        """Return the same for fits without a fold, of a smaller model and beside these."""
        if self._for_folds is None:  # one for all aims of a model, whose fits are numbered on
            self._for_folds = Checkpointed(halve(self.model), self.folder / "folds", self.key, self.trusted)
        return self._for_folds

    def keep(
        self, fit: Callable[[], Model], horizon: Horizon, n_contexts: int, n_outputs: int, rng: np.random.Generator
    ) -> Model:
        """Fit, wherever that is done, or read what an earlier run fitted here."""
        path = self._path
        self.fits += 1
        if path.exists():  # which is written last
            return self._read(path, rng)
        f = fit()
        parts = f.forests if isinstance(f, Apart) else (f,)
        for i, part in reversed(list(enumerate(parts))):
            self._write(part, _path_of(path, i), horizon, n_contexts, n_outputs // len(parts), len(parts), rng)
        return f

    def _write(
        self, f: Model, path: Path, horizon: Horizon, n_contexts: int, k: int, parts: int, rng: np.random.Generator
    ) -> None:
        width = f.width if isinstance(f, Forest) else 0
        training = {"key": self.key, "parts": parts, "width": width, "chance": json.dumps(rng.bit_generator.state)}
        # A forest of several aims says more than there are actions: on disk it is one of as many.
        kept = replace(f, width=n_contexts + k) if isinstance(f, Forest) and not horizon.memory else f
        h = PreviousAction().fit([np.empty((0, k))], 0.0)
        loading.save_own(SmoothPolicy(kept, h, 0.0, horizon, None, n_contexts, card=Card(training=training)), path)

    def _read(self, path: Path, rng: np.random.Generator) -> Model:
        found, kept = self._open(path)
        rng.bit_generator.state = json.loads(kept["chance"])
        parts = [found, *(self._open(_path_of(path, i))[0] for i in range(1, int(kept["parts"])))]
        return found if len(parts) == 1 else Apart(tuple(f for f in parts if isinstance(f, Forest)))

    def _open(self, path: Path) -> tuple[Model, Mapping[str, Any]]:
        policy = loading.load_own(path, trusted=self.trusted)
        kept = policy.card.training
        known = {"chance", "width", "parts"} <= set(kept)
        if not isinstance(policy, SmoothPolicy) or kept.get("key") != self.key or not known:
            raise StorageError(
                f"{path} belongs to a run with other data or settings: resume with those, or begin in an empty folder"
            )
        f = policy.f
        return replace(f, width=int(kept["width"])) if isinstance(f, Forest) else f, kept


def _path_of(path: Path, part: int) -> Path:
    """Return where a part of a fit is kept, the first in the file of the fit itself."""
    return path if part == 0 else path.with_suffix(f".{part}{path.suffix}")


def recipe_of(model: Any) -> Any:
    """Return the model itself, without its checkpoints."""
    return getattr(model, "recipe", model)


def keep_fit(
    model: Any, fit: Callable[[], Model], demos: Recorded, horizon: Horizon, n_outputs: int, rng: np.random.Generator
) -> Model:
    """Fit, or read what was fitted, where the model has checkpoints."""
    if isinstance(model, Checkpointed):
        return model.keep(fit, horizon, demos.n_contexts, n_outputs, rng)
    return fit()
