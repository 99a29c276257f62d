"""Policies at work: frames come one at a time, some of them late or never, and the action is needed now."""

from simile.online.gaps import Extrapolate, HoldAction, HoldContext
from simile.online.pool import PredictorPool
from simile.online.predictor import Predictor
from simile.online.stages import AccelerationLimit, Bounds, DeadBand, RateLimit

__all__ = [
    "AccelerationLimit",
    "Bounds",
    "DeadBand",
    "Extrapolate",
    "HoldAction",
    "HoldContext",
    "Predictor",
    "PredictorPool",
    "RateLimit",
]
