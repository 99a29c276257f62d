"""The games that camera commands are given: their options, and what a policy sees of them and does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from simile.cli import options

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


def _parse_camera(_: click.Context, __: click.Parameter, text: str | None) -> Camera | None:
    from simile.camera.geometry import Camera

    return None if text is None else Camera.parse(text)


sport_option = click.option("--sport", type=click.Choice(SPORTS), default="basketball")
# Where a game is played, and from where it is filmed; then how the files of games are read.
court_options = options.stack(
    sport_option,
    click.option(
        "--camera",
        callback=_parse_camera,
        help="Where the camera stands: x,y,z in metres from the court's middle, or x,y,z,heading, or a .json file. By "
        "default what a file says, or else behind the middle of the near side line.",
    ),
)
game_options = options.stack(court_options)


def place_of(given: Mapping[str, Any]) -> tuple[Court, Camera]:
    """Return the court and the camera that the options tell."""
    from simile.camera.courts import COURTS
    from simile.camera.geometry import Camera

    court = COURTS[given["sport"]]
    return court, given.get("camera") or Camera.beside(court)


def open_all(paths: Sequence[str], given: Mapping[str, Any]) -> tuple[Game, ...]:
    """Read the games of all files, as the `game_options` tell."""
    from simile.camera.tracking import open_games

    court, _ = place_of(given)
    return tuple(game for path in paths for game in open_games(path, court, camera=given["camera"]))


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
