"""Policies at work: frames come one at a time, some of them late or never, and the action is needed now."""

from simile.online.gaps import Extrapolate, HoldAction, HoldContext
from simile.online.pool import PredictorPool
from simile.online.predictor import Predictor
from simile.online.recording import Recorder
from simile.policies.stages import AccelerationLimit, Bounds, DeadBand, JerkLimit, Play, RateLimit

__all__ = [
    "AccelerationLimit",
    "Bounds",
    "DeadBand",
    "Extrapolate",
    "HoldAction",
    "HoldContext",
    "JerkLimit",
    "Play",
    "Predictor",
    "PredictorPool",
    "RateLimit",
    "Recorder",
]
