"""simile: learn a smooth controller from recorded demonstrations.

SIMILE, "Smooth Imitation Learning for Online Sequence Prediction" (Le, Kang, Yue, Carr; ICML 2016).

Names are looked up when they are first used, so that importing simile, and `simile --help`, take no time; the stub
`__init__.pyi` tells them to type checkers and editors.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Every public name, by the module it lives in.
HOMES = {
    "algorithms": "Run clone coach dagger learn paper searn smile",
    "cards": "Card",
    "checkpoints": "Checkpointed",
    "comparison": "Comparison compare",
    "demonstrations": "ActionSpace Demonstration Demonstrations",
    "diagnostics": "Diagnosis diagnose stochastic_gap",
    "distributed": "DaskBackend",
    "errors": "ArgumentError DataError DivergedError SimileError StorageError",
    "evaluation": "Evaluation evaluate",
    "export": "Exported export_c export_onnx",
    "feedback": (
        "CompensatedFeedback ExpertFeedback OracleFeedback SmoothFeedback by_distance constant exponential geometric"
    ),
    "frontier": "Frontier path",
    "models": "Bagging Criterion SmoothForest",
    "neural": "GRU MLP TCN TorchRegressor",
    "online": "AccelerationLimit Bounds DeadBand Extrapolate HoldAction HoldContext Predictor PredictorPool RateLimit",
    "policies": "Mixture SmoothPolicy StochasticMixture collapse interpolate prune",
    "reading": "from_episodes read write",
    "reduction": "Round rounds",
    "regularizers": "CriticallyDamped LinearAutoregression PreviousAction VelocityAutoregression",
    "report": "Report",
    "ridge": "RolloutRidge",
    "rollouts": "ColdStart ExpertStart GivenStart rollout rollout_out_of_bag",
    "sites": "SpreadDemonstrations",
    "smoothness": "MatchExpert SmoothTime",
    "spreading": "LocalBackend",
    "states": "Horizon",
    "step_sizes": "BoundMinimizer Constant ErrorRatio LineSearch Monotonic OneOverHorizon",
    "storage": "load",
    "training": "ImitationRule JointRule",
    "tuning": "Tuned tune",
}
_HOME = {name: module for module, names in HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        found = getattr(import_module(f"simile.{_HOME[name]}"), name)
    else:
        try:
            found = import_module(f"simile.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"simile.{name}":
                raise
            raise AttributeError(f"module 'simile' has no attribute {name!r}") from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
