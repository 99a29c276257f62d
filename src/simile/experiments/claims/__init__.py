"""All claims: the figures of Section 6, then the theory, the appendix, the abstract, and what is not in the paper."""

from __future__ import annotations

from collections.abc import Sequence

from simile.errors import ArgumentError
from simile.experiments.claims import (
    choices,
    filters,
    mixing,
    progress,
    reductions,
    smoothness,
    steps,
    targets,
    theory,
    virtual,
)
from simile.experiments.results import Claim

CLAIMS: tuple[Claim, ...] = (
    smoothness.CLAIM,
    steps.SPEED,
    steps.OVERSHOOT,
    targets.TARGETS,
    targets.TRADE_OFF,
    targets.FEEDBACK,
    progress.PROGRESS,
    mixing.CLAIM,
    mixing.MEAN,
    mixing.ROLLOUTS,
    theory.STABILITY,
    theory.IMPROVEMENT,
    theory.FEASIBILITY,
    progress.CONVERGENCE,
    progress.CONVERGING_H,
    progress.ROUNDS,
    virtual.CLAIM,
    reductions.ERROR,
    reductions.TIME,
    choices.CLAIM,
    filters.CLAIM,
)


def claims_named(names: Sequence[str] | None = None) -> tuple[Claim, ...]:
    """Find claims by name, in the order given; all of them by default."""
    known = {claim.name: claim for claim in CLAIMS}
    if names is None:
        return CLAIMS
    if not names or (unknown := [name for name in names if name not in known]):
        raise ArgumentError(f"claims must be among {', '.join(known)}; got {unknown if names else 'none'}")
    return tuple(known[name] for name in dict.fromkeys(names))
