"""Emulated heads: a camera to try `simile camera drive` with, which speaks VISCA or ONVIF and moves as motors do."""

from simile.camera.heads.emulators.body import Body
from simile.camera.heads.emulators.onvif import OnvifEmulator
from simile.camera.heads.emulators.visca import ViscaEmulator

__all__ = ["Body", "OnvifEmulator", "ViscaEmulator"]
