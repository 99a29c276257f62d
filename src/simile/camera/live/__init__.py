"""From a video that is being filmed to a camera that moves: sources, detectors, the pipeline, and where it goes.

`Source` is a video as it comes; `Motion`, `Network`, `Function` and `Lines` find people; `Actor` is a policy at its own
pace; `Pipeline.film` puts them together, and `Turned` and `Cut` are where it goes to.
"""

from simile.camera.live.acting import Actor
from simile.camera.live.detectors import Detector, Function, Motion
from simile.camera.live.hands import Faders, Joystick, Keys, Operator
from simile.camera.live.latencies import Latencies
from simile.camera.live.lines import Found, Lines
from simile.camera.live.networks import Network
from simile.camera.live.outputs import Cut, Log, Turned
from simile.camera.live.pipeline import Moment, Pipeline
from simile.camera.live.sights import Through
from simile.camera.live.sources import Shot, Source

__all__ = [
    "Actor",
    "Cut",
    "Detector",
    "Faders",
    "Found",
    "Function",
    "Joystick",
    "Keys",
    "Latencies",
    "Lines",
    "Log",
    "Moment",
    "Motion",
    "Network",
    "Operator",
    "Pipeline",
    "Shot",
    "Source",
    "Through",
    "Turned",
]
