"""Simulated games: players, detectors and a human operator."""

from simile.camera.simulation.detectors import Detector
from simile.camera.simulation.operators import Operator
from simile.camera.simulation.plays import Play
from simile.camera.simulation.simulator import simulate

__all__ = ["Detector", "Operator", "Play", "simulate"]
