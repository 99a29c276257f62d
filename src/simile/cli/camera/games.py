"""The games that camera commands are given: their options, and what a policy sees of them and does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from simile._common.typing import FloatArray
    from simile.camera.courts import Court
    from simile.camera.features import Features
    from simile.camera.games import Game
    from simile.camera.geometry import Camera
    from simile.policies.policies import Policy
    from simile.policies.stages import Stage

SPORTS = ("basketball", "soccer")

games_argument = click.argument("games", nargs=-1, required=True)
sport_option = click.option("--sport", type=click.Choice(SPORTS), default="basketball")


def open_all(paths: Sequence[str], sport: str) -> tuple[Game, ...]:
    """Read the games of all files."""
    from simile.camera.courts import COURTS
    from simile.camera.tracking import open_games

    return tuple(game for path in paths for game in open_games(path, COURTS[sport]))


def features_of(policy: Policy, court: Court, camera: Camera) -> Features:
    """Return the features that a policy was trained on, as the names of its contexts tell."""
    from simile.camera.features import Features

    return Features.from_names(policy.card.context_names, court, camera)


def roll_out(policy: Policy, game: Game, stages: Sequence[Stage]) -> FloatArray:
    """Let a policy film a game: from where the operator begins, or from a guess where there is none."""
    from simile.policies.rollouts import ColdStart, rollout

    contexts = features_of(policy, game.court, game.camera).batch(game.detections)
    start = ColdStart() if game.actions is None else game.actions[0]
    return rollout(policy, [contexts], start=start, stages=stages, rate=game.rate)[0]
