"""simile: learn a smooth controller from recorded demonstrations.

SIMILE, "Smooth Imitation Learning for Online Sequence Prediction" (Le, Kang, Yue, Carr; ICML 2016).
"""

from simile.algorithms import Run, clone, coach, dagger, learn, paper, searn, smile
from simile.demonstrations import ActionSpace, Demonstration, Demonstrations
from simile.diagnostics import Diagnosis, diagnose, stochastic_gap
from simile.errors import ArgumentError, DataError, DivergedError, SimileError
from simile.evaluation import Evaluation, evaluate
from simile.feedback import (
    CompensatedFeedback,
    ExpertFeedback,
    OracleFeedback,
    SmoothFeedback,
    by_distance,
    constant,
    exponential,
    geometric,
)
from simile.models import Bagging, Criterion, SmoothForest
from simile.policies import Mixture, SmoothPolicy, StochasticMixture, collapse, interpolate, prune
from simile.reduction import Round, rounds
from simile.regularizers import (
    CriticallyDamped,
    LinearAutoregression,
    PreviousAction,
    VelocityAutoregression,
)
from simile.rollout import ColdStart, ExpertStart, GivenStart, rollout, rollout_out_of_bag
from simile.states import Horizon
from simile.step_sizes import BoundMinimizer, Constant, ErrorRatio, LineSearch, Monotonic, OneOverHorizon
from simile.training import ImitationRule, JointRule

__version__ = "0.1.0"

__all__ = [
    "ActionSpace",
    "ArgumentError",
    "Bagging",
    "BoundMinimizer",
    "ColdStart",
    "CompensatedFeedback",
    "Constant",
    "Criterion",
    "CriticallyDamped",
    "DataError",
    "Demonstration",
    "Demonstrations",
    "Diagnosis",
    "DivergedError",
    "ErrorRatio",
    "Evaluation",
    "ExpertFeedback",
    "ExpertStart",
    "GivenStart",
    "Horizon",
    "ImitationRule",
    "JointRule",
    "LineSearch",
    "LinearAutoregression",
    "Mixture",
    "Monotonic",
    "OneOverHorizon",
    "OracleFeedback",
    "PreviousAction",
    "Round",
    "Run",
    "SimileError",
    "SmoothFeedback",
    "SmoothForest",
    "SmoothPolicy",
    "StochasticMixture",
    "VelocityAutoregression",
    "by_distance",
    "clone",
    "coach",
    "collapse",
    "constant",
    "dagger",
    "diagnose",
    "evaluate",
    "exponential",
    "geometric",
    "interpolate",
    "learn",
    "paper",
    "prune",
    "rollout",
    "rollout_out_of_bag",
    "rounds",
    "searn",
    "smile",
    "stochastic_gap",
]
