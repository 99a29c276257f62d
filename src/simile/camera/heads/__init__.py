"""Pan-tilt-zoom heads: from the actions of a policy to a camera that moves, and comes to rest when they fail to come.

`Driver` limits speed and acceleration and has a dead-man stop; `ViscaHead` speaks VISCA over IP; `FreeDSender` tells
graphics engines where the camera looks.
"""

from simile.camera.heads.driver import Driver, Phase
from simile.camera.heads.freed import FreeD, FreeDSender
from simile.camera.heads.head import Head, HeadError, Pose
from simile.camera.heads.units import ViscaUnits
from simile.camera.heads.urls import HeadAddress, open_head
from simile.camera.heads.visca_head import ViscaHead

__all__ = [
    "Driver",
    "FreeD",
    "FreeDSender",
    "Head",
    "HeadAddress",
    "HeadError",
    "Phase",
    "Pose",
    "ViscaHead",
    "ViscaUnits",
    "open_head",
]
