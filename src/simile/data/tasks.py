"""Small built-in tasks, made from a seed: something to try everything on."""

from __future__ import annotations

import numpy as np

from simile._common import checks
from simile.data.demonstrations import Demonstrations

STIFFNESS, DAMPING = 25.0, 10.0  # of the operator's hand in `pursuit`, per second squared and per second


def pursuit(
    n_sequences: int = 12, length: int = 600, *, n_players: int = 6, rate: float = 30.0, seed: int = 0
) -> Demonstrations:
    """Make the paper's job in small: a camera operator pans after a game, seen through noisy detections.

    A play moves along the pitch, drifting and at times switching sides. Players follow it, each with a place
    of their own, and are detected with noise. The operator pans to where the play is, with a reaction delay and
    a smooth (critically damped) hand.

    Parameters
    ----------
    n_sequences, length : int
        How many sequences, and frames in each.
    n_players : int
        Detections per frame; the contexts are their positions, `player0, player1, ...`, in metres.
    rate : float
        Frames per second.

    Returns
    -------
    Demonstrations
        One action, `pan`, in degrees.
    """
    n_sequences = checks.whole_number(n_sequences, "n_sequences", at_least=1)
    length = checks.whole_number(length, "length", at_least=1)
    step = 1.0 / rate
    delay = round(0.2 * rate)
    contexts, actions = [], []
    for rng in np.random.default_rng(seed).spawn(n_sequences):
        frames = length + delay
        goal, play, speed = 0.0, 0.0, 0.0
        ground = np.empty(frames)
        for t in range(frames):
            if rng.random() < step / 3.0:  # a turnover every three seconds or so
                goal = rng.uniform(-15.0, 15.0)
            speed += step * (4.0 * (goal - play) - 4.0 * speed) + np.sqrt(step) * rng.normal(0.0, 2.0)
            play += step * speed
            ground[t] = play
        places = rng.normal(0.0, 4.0, n_players)
        places -= places.mean()
        wander = np.cumsum(rng.normal(0.0, 2.0 * np.sqrt(step), (frames, n_players)), axis=0)
        wander -= wander.mean(axis=1, keepdims=True)
        noise = rng.normal(0.0, 1.0, (frames, n_players))
        detections = ground[:, np.newaxis] + places + wander * 0.5 + noise
        false = rng.random(detections.shape) < 0.03
        detections[false] = rng.uniform(-25.0, 25.0, int(false.sum()))
        contexts.append(detections[delay:])
        pan, turn = np.degrees(np.arctan2(ground[0], 20.0)), 0.0
        panned = np.empty(length)
        for t in range(length):
            aim = np.degrees(np.arctan2(ground[t], 20.0))  # what was seen `delay` frames ago
            turn += step * (STIFFNESS * (aim - pan) - DAMPING * turn) + np.sqrt(step) * rng.normal(0.0, 2.0)
            pan += step * turn
            panned[t] = pan
        actions.append(panned)
    return Demonstrations.from_arrays(
        contexts,
        actions,
        rate=rate,
        names=[f"play {i}" for i in range(n_sequences)],
        context_names=[f"player{i}" for i in range(n_players)],
        action_names=["pan"],
    )
