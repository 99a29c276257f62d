"""Simulated games: players and a ball, what a detector makes of them, and an operator who follows the play."""

from __future__ import annotations

import math

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray
from simile.camera.courts import BASKETBALL, Court
from simile.camera.games import Game
from simile.camera.geometry import Camera
from simile.camera.simulation.detectors import Detector, detect
from simile.camera.simulation.operators import Operator, check_axes, move_camera
from simile.camera.simulation.plays import Play
from simile.errors import ArgumentError

SLOWEST = 25.0  # steps per second that the motion of players and hands needs
LEAD_IN = 12.0  # seconds before the first frame: the game is under way when the recording begins


def simulate(
    n_games: int = 8,
    *,
    minutes: float | tuple[float, float] = (1.0, 2.0),
    sport: Court = BASKETBALL,
    camera: Camera | None = None,
    axes: int = 1,
    rate: float = 25.0,
    seed: int = 0,
    play: Play | None = None,
    detector: Detector | None = None,
    operator: Operator | None = None,
) -> tuple[Game, ...]:
    """Make games with the truth about them; a game hangs on the seed and its number, and on no other game.

    Play, detections and operator draw from streams of their own: another detector leaves the game and the operator
    as they were, and another operator the game and the detections.

    Parameters
    ----------
    minutes : float or (float, float)
        Length of a game, or the range it is drawn from.
    sport : Court
        `BASKETBALL` or `SOCCER`; a court of your own needs a `play`.
    camera : Camera, optional
        Of operator and detector: anywhere outside the court, its pan 0 towards it; `Camera.beside` it by default.
    axes : {1, 3}
        How many the operator moves: pan, or pan, tilt and zoom.
    rate : float
        Frames per second.
    play, detector, operator
        How the sport is played, and who watches; by default what fits the sport.

    Returns
    -------
    tuple of Game

    Examples
    --------
    >>> game, = simulate(1, minutes=0.2)
    >>> game.name, len(game), game.players.shape, game.detections.shape, game.actions.shape
    ('game 0', 300, (300, 10, 2), (300, 14, 2), (300, 1))
    """
    n_games = checks.whole_number(n_games, "n_games", at_least=1)
    shortest, longest = _minutes(minutes)
    rate = checks.number(rate, "rate", above=0.0)
    seed = checks.whole_number(seed, "seed")
    axes = check_axes(axes)
    camera = (Camera.beside(sport) if camera is None else camera).facing(sport)
    play = Play.of(sport) if play is None else play
    detector = Detector.of(sport) if detector is None else detector
    operator = Operator.of(sport) if operator is None else operator
    games = []
    for number, own in enumerate(np.random.default_rng(seed).spawn(n_games)):
        for_length, for_play, for_operator, for_detector = own.spawn(4)
        length = max(1, round(60.0 * rate * for_length.uniform(shortest, longest)))
        substeps = math.ceil(SLOWEST / rate)
        fine = substeps * rate
        before = math.ceil(LEAD_IN * rate) * substeps
        players, ball, possession, flow = _play(play, sport, before + length * substeps, fine, for_play)
        watched = operator.watches * ball + (1.0 - operator.watches) * players.mean(axis=1)
        actions = move_camera(
            operator, watched, flow, court=sport, camera=camera, axes=axes, rate=fine, rng=for_operator
        )
        kept = slice(before, None, substeps)
        players, ball = players[kept], ball[kept]
        games.append(
            Game(
                name=f"game {number}",
                rate=rate,
                court=sport,
                camera=camera,
                detections=detect(detector, players, ball, court=sport, camera=camera, rate=rate, rng=for_detector),
                actions=actions[kept],
                players=players,
                ball=ball,
                possession=possession[kept],
                still=camera.still_view(sport),
            )
        )
    return tuple(games)


def _minutes(minutes: float | tuple[float, float]) -> tuple[float, float]:
    if not isinstance(minutes, tuple):
        only = checks.number(minutes, "minutes", above=0.0)
        return only, only
    if len(minutes) != 2:
        raise ArgumentError(f"minutes must be a number, or (shortest, longest); got {minutes!r}")
    shortest = checks.number(minutes[0], "minutes", above=0.0)
    return shortest, checks.number(minutes[1], "minutes", at_least=shortest)


def _play(
    play: Play, court: Court, steps: int, rate: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
    """Play a game; returns players (T, 2n, 2), ball (T, 2), possession (T,) and flow (T, 2), see `kernels.playing`."""
    from simile.camera.simulation import kernels

    both = 2 * play.side
    rules = kernels.Rules(play.side, court.length, court.width, court.goal, **play.numbers())
    start = rng.uniform(-0.25, 0.25, (both, 2)) * [court.length, court.width]
    players, ball = np.empty((steps, both, 2)), np.empty((steps, 2))
    possession, flow = np.empty(steps, np.intp), np.empty((steps, 2))
    kernels.play(
        rules,
        play.formations(),
        1.0 if rng.random() < 0.5 else -1.0,
        start,
        rng.uniform(0.9, 1.0, both),
        rng.standard_normal((steps, both, 2)),
        rng.random((steps, kernels.LUCK + both)),
        1.0 / rate,
        players,
        ball,
        possession,
        flow,
    )
    return players, ball, possession, flow
