"""Calibration: where in a picture the court is, and what of the court a pixel shows."""

from simile.camera.calibration.files import load_calibration, save_calibration
from simile.camera.calibration.views import Calibration, Homography, Keyframes, View

__all__ = ["Calibration", "Homography", "Keyframes", "View", "load_calibration", "save_calibration"]
