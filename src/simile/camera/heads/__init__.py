"""Pan-tilt-zoom heads: from the actions of a policy to a camera that moves, and comes to rest when they fail to come.

`Driver` limits speed and acceleration and has a dead-man stop; `open_head` makes a head of a URL, which speaks VISCA
(`ViscaHead`) or ONVIF (`OnvifHead`); `FreeDSender` tells graphics engines where the camera looks.
"""

from simile.camera.heads.driver import Driver, Phase
from simile.camera.heads.freed import FreeD, FreeDSender
from simile.camera.heads.head import Head, HeadError, Pose
from simile.camera.heads.models import MODELS, visca_units
from simile.camera.heads.onvif_head import OnvifHead
from simile.camera.heads.onvif_spaces import OnvifUnits
from simile.camera.heads.units import ViscaUnits
from simile.camera.heads.urls import HeadAddress, open_head
from simile.camera.heads.visca_head import ViscaHead

__all__ = [
    "MODELS",
    "Driver",
    "FreeD",
    "FreeDSender",
    "Head",
    "HeadAddress",
    "HeadError",
    "OnvifHead",
    "OnvifUnits",
    "Phase",
    "Pose",
    "ViscaHead",
    "ViscaUnits",
    "open_head",
    "visca_units",
]
