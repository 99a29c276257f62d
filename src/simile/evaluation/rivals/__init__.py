"""What an engineer would build by hand: predict from the contexts, then filter. A policy is worth what it beats.

They filter and have no hold, which a policy of `learn` may have: they are compared by error at equal roughness.
A rival is a frozen recipe; `fit` tunes it on a `Bench` and returns a `Family` of controllers, from rough to smooth.
"""

from simile.evaluation.rivals.controllers import HELD, Filtered, Held, forecast, roll_out
from simile.evaluation.rivals.predictors import ContextForest, ContextRidge, Demonstrator, NoisyHistory, Source
from simile.evaluation.rivals.roster import ROSTER
from simile.evaluation.rivals.tuning import Behind, Bench, Family, HoldLast, Point, Rival

__all__ = [
    "HELD",
    "ROSTER",
    "Behind",
    "Bench",
    "ContextForest",
    "ContextRidge",
    "Demonstrator",
    "Family",
    "Filtered",
    "Held",
    "HoldLast",
    "NoisyHistory",
    "Point",
    "Rival",
    "Source",
    "forecast",
    "roll_out",
]
