"""Can I trust it? The measured theory of `simile.diagnose`, on a sample, with a meaning for every number."""

from __future__ import annotations

from typing import Any

from simile.data.demonstrations import Demonstrations
from simile.errors import DivergedError
from simile.evaluation.diagnostics import diagnose
from simile.policies.policies import Policy, whole

MOST_FRAMES, FEWEST_FRAMES = 20_000, 500
MOST_ENTRIES = 20_000_000  # of the states that are looked at, all features together

MEANINGS = {
    "gamma": "How far the next action moves if no past action moves by more than one; below 1, changes die out.",
    "radius": "How fast the smoother alone forgets; below 1 it settles, and the closer to 1 the slower.",
    "epsilon": "The farthest that the last trained policy is from the policy before it.",
    "lipschitz": "The steepest slope of the squared error over the actions that can be met.",
    "advantage": "How much better the last trained policy is, in the states of the policy before it.",
    "drift": "How much of that a step may lose again, because the policy comes into other states.",
    "fit_error": "How far a guess from the contexts alone, without a past, is from the expert.",
    "expert_gap": "How far the expert's action is from the policy's last one.",
    "roughness_budget": "How far the expert moves in a frame.",
    "smoothness": "Lambda: how much the policy holds to a smooth course, against what it predicts.",
    "beta": "The weight of the last trained policy in the mixture.",
    "hold": "How far what it wants may move before it does, in deviations; all else is of what it wants.",
    "offset": "How much of its start the policy keeps for a while, from 0 to 1; all else is without that.",
    "length": "Frames of the longest sequence that was looked at.",
}


def diagnosis(policy: Policy, demos: Demonstrations) -> dict[str, Any] | None:
    """Diagnose a policy on the first frames (`diagnosis` of payload.ts); None where its roll-out diverges."""
    try:
        found = diagnose(policy, sample(demos, _affordable(policy, demos)))
    except DivergedError:
        return None
    values = [{"name": name, "value": getattr(found, name), "meaning": said} for name, said in MEANINGS.items()]
    return {"findings": found.findings(), "values": values}


def sample(demos: Demonstrations, frames: int) -> Demonstrations:
    """Return the first sequences up to so many frames; the last of them is cut.

    >>> from simile import tasks
    >>> [len(d) for d in sample(tasks.pursuit(n_sequences=3, length=100), 150)]
    [100, 50]
    """
    kept = []
    for demo in demos:
        kept.append(demo.cut(0, frames))
        frames -= len(kept[-1])
        if frames <= 0:
            break
    return Demonstrations(tuple(kept))


def _affordable(policy: Policy, demos: Demonstrations) -> int:
    """Return how many frames can be looked at within seconds: fewer where the states are wide."""
    one = whole(policy)
    wide = 1000 if one is None else one.horizon.n_features(demos.n_contexts, demos.n_actions)
    return min(MOST_FRAMES, max(FEWEST_FRAMES, MOST_ENTRIES // wide))
