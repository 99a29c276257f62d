"""What is exported: the policy that acts, as a `Predictor` runs it, and what is known about it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simile._common import checks, text
from simile._common.typing import FloatArray
from simile.data.names import list_some
from simile.errors import ArgumentError, StorageError
from simile.models.adapters import FittedRegressor, TreeMean
from simile.policies.bands import KEY, Band
from simile.policies.policies import (
    Policy,
    SmoothPolicy,
    StochasticMixture,
    acting,
    name_recorded,
    parts,
    timing,
    whole,
)
from simile.policies.storage.files import from_bytes, to_bytes

BANDS = (0.5, 0.8, 0.9, 0.95, 0.99)  # levels whose constant half-widths go along


@dataclass(frozen=True)
class Exported:
    """A file that was written, and how much room a policy takes there.

    Parameters
    ----------
    path : Path
        The file.
    tables : int
        Bytes of the policy itself: of the compiled tables of a C header, of the whole of an ONNX file.
    state : int
        Bytes of the recent past of one stream.
    """

    path: Path
    tables: int
    state: int

    def __str__(self) -> str:
        what = "compiled tables" if self.path.suffix == ".h" else "graph"
        return f"{what}: {text.size(self.tables)}; state: {text.size(self.state)}"


@dataclass(frozen=True, eq=False)
class Subject:
    """A policy to export."""

    policy: Policy  # pruned and collapsed, as it acts
    n_contexts: int
    begins: bool  # whether it can guess a first action from contexts alone
    digest: str  # of its file, as `simile inspect` shows it; empty where its models cannot be stored

    @classmethod
    def of(cls, policy: Policy) -> Subject:
        """Prepare a policy; refuse those that no graph and no table can stand for."""
        checks.instance(policy, "policy", needs="act")
        smooth = [part for _, part in parts(policy)]
        if not smooth:
            raise ArgumentError(
                f"policy must be made of SmoothPolicy, whose parts can be written down; got a {type(policy).__name__}"
            )
        if any(isinstance(part, StochasticMixture) for part in _nested(policy)):
            raise ArgumentError(
                "policy: a StochasticMixture tosses a coin in every frame, which is not exported: mix its components "
                "by Mixture(components, weights), or export one of them"
            )
        named = len(policy.card.context_names)
        m = next((p.n_inputs for p in smooth if p.n_inputs), named)
        if m == 0:
            raise ArgumentError("policy does not say how many contexts it reads: build it with n_contexts=...")
        if wraps := policy.card.preparation.wraps:
            raise ArgumentError(
                f"policy: to let {list_some(wraps)} wrap takes a memory that exports do not have: use Predictor or "
                "`simile serve`, or learn from data that go on (numpy.unwrap), and see to that where it runs, too"
            )
        begins = all(p.horizon.memory == 0 or p.naive is not None for p in smooth)
        return cls(acting(policy), m, begins, _digest(policy))

    @property
    def n_actions(self) -> int:
        """Dimension k of an action."""
        return self.policy.n_actions

    @property
    def codes(self) -> list[tuple[int, tuple[float, ...]]]:
        """The contexts that have codes for missing values, by number, what is known ahead too, and the codes."""
        missing = self.policy.card.preparation.missing
        return [(j, missing[name]) for j, name in enumerate(name_recorded(self.policy)) if name in missing]

    @property
    def reach(self) -> int:
        """How many frames back the policy looks; one at least, as a predictor does."""
        return max(1, self.policy.reach)

    @property
    def rows(self) -> int:
        """How many contexts before the one that just came the policy may read; one at least.

        They are ahead of the actions where it may wait, and behind where it aims ahead.
        """
        return max(1, self.reach - timing(self.policy)[0])

    @property
    def wait(self) -> int:
        """How many frames come before the first answer."""
        return max(0, -timing(self.policy)[0])

    @property
    def bands(self) -> dict[float, FloatArray]:
        """Half the width, (k,) in the user's units, of bands that are always the same, by level; none without a band.

        Those that follow the doubts of a frame stay with Python.
        """
        found = Band.read(self.policy.card.training.get(KEY), self.n_contexts, self.n_actions)
        return {} if found is None else {level: found.half(level) * self.policy.units.scale for level in BANDS}

    def per_action(self, values: FloatArray) -> FloatArray:
        """Return values that may be one for all as one for each action, (k,)."""
        return np.broadcast_to(values, (self.n_actions,)).astype(np.float64)


def check_path(path: str | os.PathLike[str], suffix: str, other: str) -> Path:
    """Return where to write; refuse a name with another ending."""
    found = Path(path)
    if found.suffix != suffix:
        raise ArgumentError(f"path must end in {suffix}; got {str(path)!r}: {other}")
    return found


def require_one(policy: Policy) -> SmoothPolicy:
    """Return a collapsed policy that is one (f, h)."""
    if (one := whole(policy)) is not None:
        return one
    raise ArgumentError(
        "policy: its components differ in smoothness or horizon and cannot be written as one, which C needs: "
        "export it to ONNX by export_onnx"
    )


def name_model(model: Any) -> str:
    """Name a model of another library."""
    if isinstance(model, TreeMean):
        return "a forest of scikit-learn"
    return type(model.estimator if isinstance(model, FittedRegressor) else model).__name__


def _nested(policy: Policy) -> list[Policy]:
    return [policy, *(part for c in getattr(policy, "components", ()) for part in _nested(c))]


def _digest(policy: Policy) -> str:
    try:
        return str(from_bytes(to_bytes(policy)).header["digest"])
    except StorageError:
        return ""
