"""The games that camera commands are given: their options, and what a policy sees of them and does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
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


def parse_camera(_: click.Context, __: click.Parameter, text: str | None) -> Camera | None:
    """Return the camera of an option."""
    from simile.camera.geometry import Camera

    return None if text is None else Camera.parse(text)


sport_option = click.option("--sport", type=click.Choice(SPORTS), default="basketball")
# Where a game is played, and from where it is filmed; then how the files of games are read.
court_options = options.stack(
    sport_option,
    click.option(
        "--camera",
        callback=parse_camera,
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
    found = [(path, game) for path in paths for game in open_games(path, court, camera=given["camera"])]
    times = Counter(game.name for _, game in found)  # games of several folders may be called alike
    return tuple(replace(g, name=f"{path}: {g.name}") if times[g.name] > 1 else g for path, g in found)


def features_of(policy: Policy, court: Court) -> Features:
    """Return the features that a policy was trained on, as the names of its contexts and its camera tell."""
    from simile.camera.features import Features
    from simile.camera.geometry import Camera
    from simile.camera.retarget import camera_of

    return Features.from_names(policy.card.context_names, court, camera_of(policy.card) or Camera.beside(court))


def aim_stages(policy: Policy, court: Court, camera: Camera, stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages behind a policy that films with a camera: a `Retarget` first where it is for another one."""
    from simile.camera.geometry import Camera
    from simile.camera.retarget import Retarget, camera_of

    said = camera_of(policy.card)
    own = said or Camera.beside(court)
    if own == camera or any(isinstance(stage, Retarget) for stage in stages):
        return tuple(stages)
    turn = Retarget(own, camera.facing(court))
    whose = "was trained for a camera at" if said else "does not say for which camera it was trained, so for one at"
    click.echo(f"simile: the policy {whose} {own}, and the game is filmed from {camera}: it is re-aimed", err=True)
    return turn, *stages


def roll_out(policy: Policy, game: Game, stages: Sequence[Stage]) -> FloatArray:
    """Let a policy film a game: from where the operator begins, or from a guess where there is none."""
    from simile.policies.rollouts import ColdStart, rollout

    contexts = features_of(policy, game.court).batch(game.detections)
    start = ColdStart() if game.actions is None else game.actions[0]
    return rollout(policy, [contexts], start=start, stages=stages, rate=game.rate)[0]
