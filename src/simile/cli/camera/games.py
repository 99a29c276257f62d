"""The games that camera commands are given: their options, and what a policy sees of them and does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simile.cli import options

if TYPE_CHECKING:
    from simile._common.typing import FloatArray
    from simile.camera.calibration import Calibration
    from simile.camera.courts import Court
    from simile.camera.features import Features
    from simile.camera.games import Game
    from simile.camera.geometry import Camera
    from simile.policies.policies import Policy
    from simile.policies.stages import Stage

SPORTS = ("basketball", "nba", "soccer", "hockey", "nhl", "field-hockey", "handball", "volleyball", "futsal")

PROVIDERS = (
    *("hawkeye", "metrica_csv", "metrica_epts", "pff", "secondspectrum", "signality", "skillcorner", "sportec"),
    *("statsperform", "tracab"),
)
UNITS = ("metres", "feet", "yards", "cm", "pixels")

games_argument = click.argument("games", nargs=-1, required=True)


def parse_camera(_: click.Context, __: click.Parameter, text: str | None) -> Camera | None:
    """Return the camera of an option."""
    from simile.camera.geometry import Camera

    return None if text is None else Camera.parse(text)


def _parse_court(_: click.Context, __: click.Parameter, text: str | None) -> Court | None:
    from simile.camera.courts import Court

    return None if text is None else Court.parse(text)


def _parse_columns(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, str] | None:
    pairs = [part.partition("=") for text in texts for part in text.split(",")]
    if wrong := next((role for role, equals, name in pairs if not (role and equals and name)), None):
        raise click.ClickException(f"--columns must be role=column, such as x=field_x,time=utc; got {wrong!r}")
    return {role.strip(): name.strip() for role, _, name in pairs} or None


def _parse_middle(_: click.Context, __: click.Parameter, text: str | None) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise click.ClickException(f"--middle must be x,y; got {text!r}") from None


sport_option = options.stack(
    click.option("--sport", type=click.Choice(SPORTS), show_default="basketball", help="Where it is played."),
    click.option(
        "--court",
        callback=_parse_court,
        help="A court of its own: length,width in metres, or with a name before them: soccer,100,64.",
    ),
)
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
place_options = options.stack(
    click.option(
        "--units",
        type=click.Choice(UNITS),
        show_default="metres",
        help="What positions are in; pixels need --homography or --calibration.",
    ),
    click.option(
        "--middle",
        callback=_parse_middle,
        help="Where the court's middle is in these units, 47,25 say, if it is not 0,0.",
    ),
    click.option(
        "--homography", type=click.Path(path_type=Path), help="3 x 3 matrix in a file, from pixels to metres."
    ),
    click.option(
        "--calibration", type=click.Path(path_type=Path), help="Of the picture, as `simile camera calibrate` writes it."
    ),
)
game_option = click.option(
    "--game", "chosen", help="Which game of a file that has several: its name, or number from 0."
)
file_options = options.stack(
    court_options,
    click.option("--rate", type=float, help="Frames per second, where a file does not say it."),
    click.option(
        "--columns",
        multiple=True,
        callback=_parse_columns,
        help="Names in a table: x=field_x,time=utc. May be repeated.",
    ),
    click.option(
        "--operator", type=click.Path(path_type=Path), help="A second table: pan, or pan, tilt, zoom, of each frame."
    ),
    place_options,
    click.option("--poses", type=click.Path(path_type=Path), help="Where the head looked that filmed the pixels."),
    click.option("--latency", help="Seconds by which its picture is late, or 'auto' to estimate it."),
    click.option(
        "--provider",
        type=click.Choice(PROVIDERS),
        help="Whose soccer data it is. A game then is its files, joined by commas, in the order of kloppy's loader or "
        "as name=file; those of a list by +: meta.json,half1.json+half2.json,venue.json.",
    ),
    click.option("--confidence", type=float, help="Leave out boxes of MOTChallenge with less."),
    click.option("--gap", type=float, help="Begin another game where nothing is for more seconds than this."),
)
game_options = options.stack(
    file_options,
    click.option(
        "--axes", type=click.Choice(["1", "3"]), help="1 takes the pan of an operator who also tilts and zooms."
    ),
)
axes_option = click.option("--axes", type=click.Choice(["1", "3"]), default="1", help="Pan, or pan, tilt, zoom.")


def place_of(given: Mapping[str, Any], policy: Policy | None = None) -> tuple[Court, Camera]:
    """Return the court and the camera that the options tell; by default the court of a policy."""
    from simile.camera.courts import BASKETBALL
    from simile.camera.geometry import Camera
    from simile.camera.retarget import court_of

    court = _court_of(given) or (policy and court_of(policy.card)) or BASKETBALL
    return court, given.get("camera") or Camera.beside(court)


def _court_of(given: Mapping[str, Any]) -> Court | None:
    from simile.camera.courts import COURTS

    court: Court | None = given["court"]
    if given["sport"] is None or court is None:
        return COURTS.get(given["sport"], court)
    raise click.ClickException("--sport and --court tell the same: leave one out, or write --court soccer,100,64")


def calibration_of(given: Mapping[str, Any]) -> Calibration | None:
    """Return how pixels become metres, as the `game_options` tell."""
    from simile.camera.sight import choose_calibration

    sight = {name: given[name] for name in ("homography", "calibration", "poses", "camera", "rate")}
    return choose_calibration(**sight, latency=given["latency"] or 0.0)


def open_all(paths: Sequence[str], given: Mapping[str, Any], *policies: Policy) -> tuple[Game, ...]:
    """Read the games of all files, as the `game_options` tell, and say what seems wrong with them, or for policies."""
    from simile.camera.doubts import doubt_fit, doubt_games
    from simile.camera.retarget import court_of
    from simile.camera.tracking import open_games

    same = ("camera", "rate", "columns", "operator", "provider", "units", "middle", "confidence", "gap")
    told = {name: given[name] for name in same} | {"axes": given["axes"] and int(given["axes"])}
    court, calibration = _court_of(given), calibration_of(given)
    if court is None and policies and given["provider"] is None:
        court = court_of(policies[0].card)
    found = []
    for path in paths:
        games = open_games(path, court, calibration=calibration, **told)
        options.say(doubt_games(path, games))
        found += [(path, game) for game in games]
    for policy in policies:
        options.say(doubt_fit(policy.card, [game for _, game in found], features_of(policy, found[0][1].court)))
    times = Counter(game.name for _, game in found)  # games of several folders may be called alike
    return tuple(replace(g, name=f"{path}: {g.name}") if times[g.name] > 1 else g for path, g in found)


def write_games(games: Sequence[Game], out: Path) -> None:
    """Write a file for each game, and say so."""
    from simile.camera.tracking.recordings import save_game

    for i, game in enumerate(games):
        save_game(game, out / f"game-{i:03d}.npz")
    minutes = sum(len(game) / game.rate for game in games) / 60.0
    click.echo(f"{out}: {len(games)} games, {minutes:.1f} minutes of {games[0].court.name}")


def open_one(path: str, given: Mapping[str, Any], *policies: Policy) -> Game:
    """Read the game of a file that --game tells: by name, or by number."""
    games, chosen = open_all((path,), given, *policies), given["chosen"]
    if chosen is None and len(games) > 1:
        options.say([f"{path} has {len(games)} games: the first, {games[0].name!r}, is taken; --game takes another"])
    found = {game.name: game for game in games} | {str(i): game for i, game in enumerate(games)}
    if chosen not in (None, *found):
        raise click.ClickException(
            f"--game: {path} has no game {chosen!r}: there are 0 to {len(games) - 1}, from {games[0].name!r} to "
            f"{games[-1].name!r}"
        )
    return games[0] if chosen is None else found[chosen]


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
    """Let a policy film a game: from where the operator of its axes begins, or from a guess where there is none.

    It acts at its own pace; where the game has another, on what was seen last, and the frames have what lies between.
    """
    import numpy as np

    from simile.camera.pace import interpolate, resample
    from simile.policies.rollouts import ColdStart, rollout

    paced = resample(game, policy.card.rate or game.rate)
    contexts = features_of(policy, game.court).batch(paced.detections)
    k = policy.n_actions
    start = ColdStart() if game.actions is None or game.actions.shape[1] < k else game.actions[0, :k]
    acted = rollout(policy, [contexts], start=start, stages=stages, rate=paced.rate)[0]
    if paced is game:
        return acted
    return interpolate(np.arange(len(game)) / game.rate, np.arange(len(paced)) / paced.rate, acted)
