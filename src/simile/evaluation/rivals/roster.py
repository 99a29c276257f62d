"""All rivals of `simile compare`."""

from __future__ import annotations

from simile.data.states import Horizon
from simile.evaluation.rivals.filters import EMA, Filter, Follower, Kalman, OneEuro
from simile.evaluation.rivals.predictors import ContextForest, ContextRidge, Demonstrator, NoisyHistory
from simile.evaluation.rivals.tuning import Behind, HoldLast, Rival
from simile.models import SmoothForest

AHEAD = (0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 28, 40, 57, 80)
WIDE = Horizon(context_lags=(0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64), action_lags=0)
BETAS = (0.0, 0.1, 0.3, 1.0, 3.0)  # of One-Euro: cycles per frame for a speed of one standard deviation per frame


def average(strength: float) -> tuple[Filter, ...]:
    """Return the exponential moving average."""
    return (EMA(strength),)


def one_euro(strength: float) -> tuple[Filter, ...]:
    """Return One-Euro filters with several betas."""
    return tuple(OneEuro(strength, beta) for beta in BETAS)


def kalman(strength: float) -> tuple[Filter, ...]:
    """Return the Kalman filter."""
    return (Kalman(strength),)


def spring(strength: float) -> tuple[Filter, ...]:
    """Return the critically damped follower of order 2."""
    return (Follower(strength, order=2),)


def third_order(strength: float) -> tuple[Filter, ...]:
    """Return the critically damped follower of order 3."""
    return (Follower(strength, order=3),)


FILTERS = {"EMA": average, "One-Euro": one_euro, "Kalman": kalman, "follower": spring}
LOOK = ContextForest(SmoothForest(n_trees=50, min_leaf=5), ahead=AHEAD)
LOOK_PLUS = ContextForest(SmoothForest(n_trees=48, min_leaf=100, max_depth=None), WIDE, ahead=AHEAD)

ROSTER: tuple[Rival, ...] = (
    HoldLast(),
    *(Behind(f"forest + {name}", ContextForest(), kind) for name, kind in FILTERS.items()),
    *(Behind(f"ridge + {name}", ContextRidge(), kind) for name, kind in FILTERS.items()),
    Behind("look", LOOK, spring),
    Behind("look+", LOOK_PLUS, third_order),
    Behind("clone with history", NoisyHistory(), spring),
    Behind("clone with noisy history", NoisyHistory(sigmas=(0.03, 0.1, 0.3, 1.0)), spring),
    Behind("data as demonstrator", Demonstrator(), spring),
)
