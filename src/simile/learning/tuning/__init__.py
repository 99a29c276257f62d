"""Search for the best settings at a budget of smoothness, by roll-outs of sequences that no trial has trained on.

Optuna chooses what to try (extra `tune`). A search can be kept in a file and taken up, done by several processes or by
the workers of a cluster, and given up early where a trial does badly round after round.
"""

from __future__ import annotations

from simile.learning.tuning.search import tune
from simile.learning.tuning.spaces import Ask, Between, Conditions, CrossFitting, Rounds, Space
from simile.learning.tuning.trials import Tried, Tuned

__all__ = ["Ask", "Between", "Conditions", "CrossFitting", "Rounds", "Space", "Tried", "Tuned", "tune"]
