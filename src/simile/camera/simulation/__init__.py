"""Simulated games: players, detectors and a human operator."""

from simile.camera.simulation.detectors import Detector
from simile.camera.simulation.operators import Operator
from simile.camera.simulation.plays import FIVE_A_SIDE, Play
from simile.camera.simulation.recorded import operate
from simile.camera.simulation.simulator import simulate

__all__ = ["FIVE_A_SIDE", "Detector", "Operator", "Play", "operate", "simulate"]
