"""simile: learn a smooth controller from recorded demonstrations.

SIMILE, "Smooth Imitation Learning for Online Sequence Prediction" (Le, Kang, Yue, Carr; ICML 2016).

Names are looked up when they are first used, so that importing simile, and `simile --help`, take no time; the stub
`__init__.pyi` tells them to type checkers and editors.
"""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

# Every public name, by the module it lives in.
HOMES = {
    "learning.algorithms": "AUTHORS PRINTED Run authors clone coach dagger learn paper searn smile",
    "camera.retarget": "Retarget",
    "policies.cards": "Card",
    "learning.checkpoints": "Checkpointed",
    "evaluation.comparison": "Comparison compare",
    "data.delays": "estimate_delay",
    "data.demonstrations": "Demonstration Demonstrations",
    "evaluation.diagnostics": "Diagnosis diagnose stochastic_gap",
    "learning.distributed.dask": "DaskBackend",
    "errors": "ArgumentError DataError DivergedError SimileError StorageError",
    "evaluation.evaluation": "Evaluation evaluate",
    "evaluation.gate": "Gate",
    "evaluation.improvement": "improve",
    "data.losses": "Absolute Huber Squared",
    "online.export": "Exported export_c export_onnx",
    "learning.feedback": (
        "ExpertFeedback OracleFeedback Schedule SmoothFeedback by_distance constant exponential geometric linear"
    ),
    "learning.frontier": "Frontier path",
    "models": "Bagging Criterion SmoothForest",
    "models.neural": "GRU MLP TCN TorchRegressor",
    "online": "Extrapolate HoldAction HoldContext Predictor PredictorPool Recorder",
    "policies.hold": "Hold",
    "policies.offset": "Offset",
    "policies.policies": "Mixture SmoothPolicy StochasticMixture collapse interpolate prune",
    "data.reading": "from_episodes read write",
    "data.recorded": "ActionSpace",
    "learning.reduction": "rounds",
    "models.coupling": "CoupledAutoregression",
    "models.regularizers": "CriticallyDamped LinearAutoregression PreviousAction VelocityAutoregression",
    "evaluation.report": "Report",
    "models.ridge": "Ridge",
    "policies.rollouts": "ColdStart ExpertStart GivenStart rollout rollout_out_of_bag",
    "learning.distributed": "DistributedDemonstrations SpreadDemonstrations",
    "learning.rounds": "Round",
    "learning.smoothness": "MatchExpert SmoothTime",
    "learning.distributed.backend": "LocalBackend",
    "data.states": "Horizon",
    "learning.step_sizes": "BoundMinimizer Constant ErrorRatio LineSearch Monotonic OneOverHorizon",
    "policies.stages": "AccelerationLimit Bounds DeadBand JerkLimit Play RateLimit",
    "policies.storage.loading": "load",
    "learning.training": "ImitationRule JointRule",
    "learning.tuning": "Tuned tune",
}
_HOME = {name: module for module, names in HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)

# Modules that are also known by a short name: `simile.tasks`, `from simile.client import Client`.
ALIASES = {
    "client": "serving.client",
    "losses": "data.losses",
    "neural": "models.neural",
    "tasks": "data.tasks",
    "theory": "learning.theory",
}


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
    return [*__all__, *ALIASES, "__version__"]


class _Aliased(MetaPathFinder, Loader):
    """Imports a module by its short name: the module itself, not a second copy of it."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        package, _, rest = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == "simile" and rest.split(".")[0] in ALIASES else None

    def exec_module(self, module: ModuleType) -> None:
        _, short, *rest = module.__name__.split(".")
        sys.modules[module.__name__] = import_module(".".join(["simile", ALIASES[short], *rest]))


sys.meta_path.insert(0, _Aliased())
