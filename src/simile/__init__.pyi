# What `import simile` offers; test_package.py holds it to __init__.py.
from simile.algorithms import (
    Run as Run,
)
from simile.algorithms import (
    clone as clone,
)
from simile.algorithms import (
    coach as coach,
)
from simile.algorithms import (
    dagger as dagger,
)
from simile.algorithms import (
    learn as learn,
)
from simile.algorithms import (
    paper as paper,
)
from simile.algorithms import (
    searn as searn,
)
from simile.algorithms import (
    smile as smile,
)
from simile.cards import Card as Card
from simile.checkpoints import Checkpointed as Checkpointed
from simile.comparison import Comparison as Comparison
from simile.comparison import compare as compare
from simile.demonstrations import (
    ActionSpace as ActionSpace,
)
from simile.demonstrations import (
    Demonstration as Demonstration,
)
from simile.demonstrations import (
    Demonstrations as Demonstrations,
)
from simile.diagnostics import Diagnosis as Diagnosis
from simile.diagnostics import diagnose as diagnose
from simile.diagnostics import stochastic_gap as stochastic_gap
from simile.errors import (
    ArgumentError as ArgumentError,
)
from simile.errors import (
    DataError as DataError,
)
from simile.errors import (
    DivergedError as DivergedError,
)
from simile.errors import (
    SimileError as SimileError,
)
from simile.errors import (
    StorageError as StorageError,
)
from simile.evaluation import Evaluation as Evaluation
from simile.evaluation import evaluate as evaluate
from simile.feedback import (
    CompensatedFeedback as CompensatedFeedback,
)
from simile.feedback import (
    ExpertFeedback as ExpertFeedback,
)
from simile.feedback import (
    OracleFeedback as OracleFeedback,
)
from simile.feedback import (
    SmoothFeedback as SmoothFeedback,
)
from simile.feedback import (
    by_distance as by_distance,
)
from simile.feedback import (
    constant as constant,
)
from simile.feedback import (
    exponential as exponential,
)
from simile.feedback import (
    geometric as geometric,
)
from simile.models import Bagging as Bagging
from simile.models import Criterion as Criterion
from simile.models import SmoothForest as SmoothForest
from simile.online import (
    AccelerationLimit as AccelerationLimit,
)
from simile.online import (
    Bounds as Bounds,
)
from simile.online import (
    DeadBand as DeadBand,
)
from simile.online import (
    Extrapolate as Extrapolate,
)
from simile.online import (
    HoldAction as HoldAction,
)
from simile.online import (
    HoldContext as HoldContext,
)
from simile.online import (
    Predictor as Predictor,
)
from simile.online import (
    PredictorPool as PredictorPool,
)
from simile.online import (
    RateLimit as RateLimit,
)
from simile.policies import (
    Mixture as Mixture,
)
from simile.policies import (
    SmoothPolicy as SmoothPolicy,
)
from simile.policies import (
    StochasticMixture as StochasticMixture,
)
from simile.policies import (
    collapse as collapse,
)
from simile.policies import (
    interpolate as interpolate,
)
from simile.policies import (
    prune as prune,
)
from simile.reading import from_episodes as from_episodes
from simile.reading import read as read
from simile.reading import write as write
from simile.reduction import Round as Round
from simile.reduction import rounds as rounds
from simile.regularizers import (
    CriticallyDamped as CriticallyDamped,
)
from simile.regularizers import (
    LinearAutoregression as LinearAutoregression,
)
from simile.regularizers import (
    PreviousAction as PreviousAction,
)
from simile.regularizers import (
    VelocityAutoregression as VelocityAutoregression,
)
from simile.rollouts import (
    ColdStart as ColdStart,
)
from simile.rollouts import (
    ExpertStart as ExpertStart,
)
from simile.rollouts import (
    GivenStart as GivenStart,
)
from simile.rollouts import (
    rollout as rollout,
)
from simile.rollouts import (
    rollout_out_of_bag as rollout_out_of_bag,
)
from simile.states import Horizon as Horizon
from simile.step_sizes import (
    BoundMinimizer as BoundMinimizer,
)
from simile.step_sizes import (
    Constant as Constant,
)
from simile.step_sizes import (
    ErrorRatio as ErrorRatio,
)
from simile.step_sizes import (
    LineSearch as LineSearch,
)
from simile.step_sizes import (
    Monotonic as Monotonic,
)
from simile.step_sizes import (
    OneOverHorizon as OneOverHorizon,
)
from simile.storage import load as load
from simile.training import ImitationRule as ImitationRule
from simile.training import JointRule as JointRule

__version__: str
