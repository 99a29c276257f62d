"""Games from tracking data: NBA SportVU, MOTChallenge, plain tables, and whatever kloppy reads."""

from simile.camera.loading.mot import read_mot
from simile.camera.loading.opening import open_games
from simile.camera.loading.soccer import read_kloppy
from simile.camera.loading.sportvu import read_sportvu
from simile.camera.loading.table import read_detections

__all__ = ["open_games", "read_detections", "read_kloppy", "read_mot", "read_sportvu"]
