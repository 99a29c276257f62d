"""The stages, by the name they had before roll-outs used them too: they live in `simile.policies.stages`."""

from simile.policies.stages import AccelerationLimit, Bounds, Chain, DeadBand, JerkLimit, Play, RateLimit, Stage

__all__ = ["AccelerationLimit", "Bounds", "Chain", "DeadBand", "JerkLimit", "Play", "RateLimit", "Stage"]
