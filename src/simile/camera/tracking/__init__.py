"""Games from tracking data: NBA SportVU, MOTChallenge, plain tables, and whatever kloppy reads."""

from simile.camera.tracking.formats import open_games
from simile.camera.tracking.mot import read_mot
from simile.camera.tracking.soccer import read_kloppy
from simile.camera.tracking.sportvu import read_sportvu
from simile.camera.tracking.table import read_detections

__all__ = ["open_games", "read_detections", "read_kloppy", "read_mot", "read_sportvu"]
