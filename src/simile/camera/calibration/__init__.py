"""Calibration: where in a picture the court is, and what of the court a pixel shows."""

from simile.camera.calibration.files import load_calibration, save_calibration
from simile.camera.calibration.fitting import Fit, calibrate
from simile.camera.calibration.landmarks import landmarks
from simile.camera.calibration.pairs import Pairs, read_pairs
from simile.camera.calibration.views import Calibration, Homography, Keyframes, View

__all__ = [
    "Calibration",
    "Fit",
    "Homography",
    "Keyframes",
    "Pairs",
    "View",
    "calibrate",
    "landmarks",
    "load_calibration",
    "read_pairs",
    "save_calibration",
]
