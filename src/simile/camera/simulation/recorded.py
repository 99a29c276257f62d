"""A simulated operator who films recorded games, so that tracking archives become demonstrations."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray
from simile.camera.games import OWN, Game
from simile.camera.simulation.operators import Operator, check_axes, lag_signal, latch, move_camera
from simile.camera.simulation.simulator import SLOWEST
from simile.errors import DataError

BESIDE = 2.0  # metres beside the court up to which a player counts, as for a policy's features
MISSED = 1.0  # seconds for which a player who is lost is taken to stand where he was last seen
FADE = 0.8  # seconds in which the eye leaves a ball that is lost, and comes back to it
STEADY = 0.3  # seconds over which what is watched is averaged, where people come and go
WAY, SETTLED, BREAK = 1.0, 0.5, 4.0  # metres per second, along the court: of an attack, a set play, a fast break


def operate(
    games: Game | Iterable[Game], *, operator: Operator | None = None, axes: int = 1, seed: int = 0
) -> tuple[Game, ...]:
    """Let a simulated operator film games that were recorded; his actions take the place of those that are there.

    He watches the known players (the detections where there are none) and the ball, from where the game's camera
    stands, and nothing of what comes later than the frame at hand. Who is missing, for a moment or for good, is no
    matter; where the ball is unknown he watches the players alone; while nobody is known he stays with the last that
    he saw. Which way the attack goes is judged by how play moves, and by the goal before which it settles.

    Parameters
    ----------
    operator : Operator, optional
        By default that of the sport.
    axes : {1, 3}
        How many he moves: pan, or pan, tilt and zoom.
    seed : int
        What he does hangs on the seed and the game's number, and on no other game.

    Examples
    --------
    >>> from simile.camera.simulation import simulate
    >>> game, = simulate(1, minutes=0.2)
    >>> filmed, = operate(replace(game, actions=None, ball=None), axes=3)
    >>> filmed.actions.shape, filmed.action_names
    ((300, 3), ('pan', 'tilt', 'zoom'))
    """
    games = (games,) if isinstance(games, Game) else tuple(games)
    axes, seed = check_axes(axes), checks.whole_number(seed, "seed")
    streams = np.random.default_rng(seed).spawn(len(games))
    return tuple(_film(game, operator, axes, rng) for game, rng in zip(games, streams, strict=True))


def _film(game: Game, operator: Operator | None, axes: int, rng: np.random.Generator) -> Game:
    operator = Operator.of(game.court) if operator is None else operator
    watched, steady = _watch(game, operator)
    substeps = math.ceil(SLOWEST / game.rate)
    rate = substeps * game.rate
    # Between frames play goes straight on to the next one, which he must not have seen before it was there; nor the
    # one by which a speed is measured. Before the first there was one like it.
    times = np.arange(-substeps, substeps * (len(game) - 1) + 1) / substeps
    *fine, middle = (np.interp(times, np.arange(len(game)), x) for x in watched.T)
    ahead = (substeps if substeps > 1 else 0) + 1
    operator = replace(operator, lead=operator.lead + steady, reaction=max(operator.reaction, ahead / rate))
    flow = _judge(middle, game.court.goal, rate)
    actions = move_camera(
        *(operator, np.column_stack(fine), flow),
        court=game.court,
        camera=game.camera.facing(game.court),
        axes=axes,
        rate=rate,
        rng=rng,
    )
    return replace(game, actions=actions[substeps::substeps], still=OWN)


def _watch(game: Game, operator: Operator) -> tuple[FloatArray, float]:
    """Return what he watches and where the players are along the court (T, 2 + 1), and how many seconds late it is."""
    people = game.detections if game.players is None else _hold(game.players, MISSED * game.rate)
    known = game.court.inside(people, BESIDE)
    if not known.any():
        raise DataError(
            f"game {game.name!r}: nobody is known on the {game.court.name} court of {game.court.length:g} by "
            f"{game.court.width:g} metres in any frame, so there is nothing to film: tell its court and units"
        )
    count = known.sum(axis=1)[:, np.newaxis]
    middle = np.where(known[..., np.newaxis], people, 0.0).sum(axis=1) / np.where(count > 0, count, np.nan)
    middle = np.nan_to_num(_hold(middle, np.inf))  # before anybody is seen, the middle of the court
    ball = np.full((len(game), 2), np.nan) if game.ball is None else game.ball
    seen = game.court.inside(ball, 2.0 * BESIDE)
    weight = operator.watches * lag_signal(seen.astype(np.float64), FADE, game.rate)[:, np.newaxis]
    ball = _hold(np.where(seen[:, np.newaxis], ball, np.nan), np.inf)
    watched = weight * np.where(np.isnan(ball), middle, ball) + (1.0 - weight) * middle
    watched = np.column_stack([watched, middle[:, 0]])
    steady = 0.0 if known.all() and (seen.all() or not seen.any()) else STEADY
    return lag_signal(watched, steady, game.rate), steady


def _hold(points: FloatArray, frames: float) -> FloatArray:
    """Return points (T, ..., 2) with those that are missing where they were last, for so many frames."""
    now = np.arange(len(points)).reshape(-1, *[1] * (points.ndim - 2))
    last = np.maximum.accumulate(np.where(np.isfinite(points).all(axis=-1), now, -1), axis=0)
    held = np.take_along_axis(points, np.maximum(last, 0)[..., np.newaxis], axis=0)
    return np.where(((last >= 0) & (now - last <= frames))[..., np.newaxis], held, np.nan)


def _judge(along: FloatArray, goal: float, rate: float) -> FloatArray:
    """Return which way the attack goes and whether it is a fast break (T, 2), from how the players move along x."""
    speed = np.diff(along, prepend=along[0]) * rate
    slow, quick = lag_signal(speed, 1.5, rate), np.abs(lag_signal(speed, 0.5, rate))
    settled = np.where((np.abs(along) > 0.5 * goal) & (np.abs(slow) < SETTLED), np.sign(along), 0.0)
    right = latch((slow > WAY) | (settled > 0.0), (slow < -WAY) | (settled < 0.0), bool(along[0] >= 0.0))
    fast = latch(quick > BREAK, quick < 0.5 * BREAK, start=False)
    return np.column_stack([np.where(right, 1.0, -1.0), fast])
