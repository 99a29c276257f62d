"""`simile camera ...`: the case study of the paper, from tracking data to a moving picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from simile.cli import options
from simile.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simile._common.typing import FloatArray
    from simile.camera.courts import Court
    from simile.camera.features import Features
    from simile.camera.games import Game
    from simile.camera.geometry import Camera
    from simile.policies.policies import Policy
    from simile.policies.stages import Stage

SPORTS = ("basketball", "soccer")


@click.group(short_help="Plan a camera: simulate, watch, cut a video, drive a head.")
def camera() -> None:
    """Automated camera planning, the case study of the paper: from tracking data to a smooth broadcast camera.

    GAMES are files that `simile camera simulate` writes (.npz), SportVU logs (.json) or tables of detections (.csv,
    .parquet).
    """


games_argument = click.argument("games", nargs=-1, required=True)
sport_option = click.option("--sport", type=click.Choice(SPORTS), default="basketball")


@camera.command(short_help="Make games with noisy detections and an operator.")
@options.folder_option("games", "Folder to write.")
@click.option("--n-games", type=click.IntRange(1), default=8)
@click.option("--minutes", type=(float, float), default=(1.0, 2.0), help="Shortest and longest.")
@sport_option
@click.option("--axes", type=click.Choice(["1", "3"]), default="1", help="Pan, or pan, tilt, zoom.")
@click.option("--rate", type=float, default=25.0, help="Frames per second.")
@click.option("--seed", type=click.IntRange(0), default=0)
def simulate(
    out: Path, n_games: int, minutes: tuple[float, float], sport: str, axes: str, rate: float, seed: int
) -> None:
    """Make games with noisy detections and a human-like operator, one file each."""
    from simile.camera.courts import COURTS
    from simile.camera.simulation import simulate as make
    from simile.camera.tracking.recordings import save_game

    games = make(n_games, minutes=minutes, sport=COURTS[sport], axes=int(axes), rate=rate, seed=seed)
    for i, game in enumerate(games):
        save_game(game, out / f"game-{i:03d}.npz")
    seconds = sum(len(game) / game.rate for game in games)
    click.echo(f"{out}: {n_games} games, {seconds / 60:.1f} minutes of {sport}")


@camera.command(short_help="Turn tracking data into a table for `simile train`.")
@games_argument
@sport_option
@click.option("--grid", type=(int, int), default=(8, 4), help="Cells along and across the court.")
@click.option("--out", type=click.Path(path_type=Path), default="games.parquet", help="Table to write.")
def features(games: tuple[str, ...], sport: str, grid: tuple[int, int], out: Path) -> None:
    """Turn the detections of GAMES into a table of contexts and the operator's actions, for `simile train`."""
    from simile.camera.features import Features, demonstrations
    from simile.data.reading import write

    found = _open(games, sport)
    demos = demonstrations(found, Features(found[0].court, grid=grid))
    write(demos, out)
    click.echo(
        f"{out}: {len(demos)} games, {demos.n_frames:,} frames, {demos.n_contexts} contexts, "
        f"{', '.join(demos.action_names)}\nTrain: simile train {out}"
    )


@camera.command(short_help="Judge a policy as a broadcaster would.")
@options.policy_argument
@games_argument
@sport_option
@options.stage_option
@options.policy_options
@options.json_option
def evaluate(
    policy: Path,
    games: tuple[str, ...],
    sport: str,
    stage: tuple[str, ...],
    trust: tuple[str, ...],
    max_memory: float | None,
    as_json: bool,
) -> None:
    """Judge POLICY on GAMES: players and ball in frame, lead room, changes of direction, beside the operator.

    Where there is an operator, the paper's metrics stand below: error, smoothness and lag.
    """
    from simile.camera.features import demonstrations
    from simile.camera.film.framing import compare_framing
    from simile.cli.output import to_json
    from simile.evaluation.evaluation import evaluate as measure

    loaded, found = options.load_policy(policy, trust, max_memory), _open(games, sport)
    stages = options.stages_of(stage)
    rolled = [_roll_out(loaded, game, stages) for game in found]
    operated = [game.actions for game in found if game.actions is not None]
    if len(operated) < len(found):
        judged = compare_framing(found, {"policy": rolled})
        click.echo(to_json(judged.to_dict()) if as_json else judged)
        return
    judged = compare_framing(found, {"operator": operated, "policy": rolled})
    demos = demonstrations(found, _features(loaded, found[0].court, found[0].camera))
    measured = measure(loaded, demos, stages=stages, rate=demos.rate)
    click.echo(to_json({**judged.to_dict(), "rows": measured.rows}) if as_json else f"{judged}\n\n{measured}")


@camera.command(short_help="Show a game and what the cameras see of it.")
@click.argument("game")
@sport_option
@click.option("--policy", type=click.Path(path_type=Path), help="Show what this policy does, too.")
@options.stage_option
@options.policy_options
@click.option("--out", type=click.Path(path_type=Path), default="watch.html", help=".html, .mp4, .gif")
def watch(
    game: str,
    sport: str,
    policy: Path | None,
    stage: tuple[str, ...],
    trust: tuple[str, ...],
    max_memory: float | None,
    out: Path,
) -> None:
    """Show GAME from above, with the fields of view of the operator and of a policy, and their pan curves."""
    from simile.camera.film.watch import watch_page, watch_video
    from simile.cli.progress import Frames

    stages = options.stages_of(stage)
    if stages and policy is None:
        raise click.ClickException("--stage limits what a policy does: say with --policy which")
    found = _open((game,), sport)[0]
    cameras = {} if found.actions is None else {"operator": found.actions}
    if policy is not None:
        cameras["simile"] = _roll_out(options.load_policy(policy, trust, max_memory), found, stages)
    if not cameras:
        raise click.ClickException(f"{game} has no operator: say with --policy who films it")
    if out.suffix.lower() in (".html", ".htm"):
        watch_page(found, cameras, out)
    else:
        with Frames("drawing") as progress:
            watch_video(found, cameras, out, watch=progress)
    click.echo(f"Look at {out}")


@camera.command(short_help="Cut a broadcast view out of a panoramic video.")
@click.argument("video", type=click.Path(path_type=Path))
@options.policy_argument
@click.argument("game")
@sport_option
@click.option("--fov", type=float, default=120.0, help="Degrees across the width of the panorama.")
@click.option("--size", type=(int, int), default=(1280, 720), help="Width and height of the result.")
@options.stage_option
@options.policy_options
@click.option("--out", type=click.Path(path_type=Path), default="broadcast.mp4", help="Video to write.")
def crop(
    video: Path,
    policy: Path,
    game: str,
    sport: str,
    trust: tuple[str, ...],
    max_memory: float | None,
    out: Path,
    **given: Any,
) -> None:
    """Cut a smooth broadcast view out of a wide VIDEO, as POLICY frames the detections of GAME. The sound is kept."""
    from simile.camera.film.crop import crop as film
    from simile.camera.film.panorama import Panorama
    from simile.cli.progress import Frames

    loaded, found = options.load_policy(policy, trust, max_memory), _open((game,), sport)[0]
    with Frames("filming") as progress:
        done = film(
            *(video, out, loaded, found),
            panorama=Panorama.of(found, given["fov"]),
            features=_features(loaded, found.court, found.camera),
            size=given["size"],
            stages=options.stages_of(given["stage"]),
            watch=progress,
        )
    click.echo(f"{done.path}: {done.frames} frames at {done.fps:.0f} a second, {done.audio} sound tracks")


@camera.command(short_help="Drive a pan-tilt-zoom head (VISCA over IP).")
@options.policy_argument
@click.option("--head", required=True, help="Host of the camera, or host:port (52381 by default).")
@sport_option
@click.option("--speed", type=float, show_default="30", help="Degrees per second at most.")
@click.option("--acceleration", type=float, show_default="60", help="Degrees per second squared at most.")
@options.stage_option
@click.option("--timeout", type=float, default=0.5, help="Seconds without input before the head stops.")
@options.policy_options
def drive(
    policy: Path,
    head: str,
    sport: str,
    speed: float | None,
    acceleration: float | None,
    stage: tuple[str, ...],
    timeout: float,
    trust: tuple[str, ...],
    max_memory: float | None,
) -> None:
    """Drive a head from detections on stdin: a JSON list of [x, y] in metres per line and frame.

    On lost input, on an error and at the end the head comes to a stop smoothly. The limits of --speed and
    --acceleration come behind the stages; an AccelerationLimit or a JerkLimit at the end of these takes their place.
    """
    from simile.camera.courts import COURTS
    from simile.camera.geometry import Camera
    from simile.camera.heads import Driver, ViscaHead
    from simile.online import Predictor

    limits = _limits(options.stages_of(stage), speed, acceleration)
    loaded = options.load_policy(policy, trust, max_memory)
    host, _, port = head.partition(":")
    if port and not port.isdigit():
        raise click.ClickException(f"--head must be HOST or HOST:PORT; got {head}")
    stream = _features(loaded, COURTS[sport], Camera.beside(COURTS[sport])).stream()
    predictor = Predictor(loaded)
    with (
        ViscaHead(host, *([int(port)] if port else [])) as moved,
        Driver(
            moved,
            rate=loaded.card.rate or 25.0,
            limits=limits,
            n_actions=loaded.n_actions,
            timeout=timeout,
            on_fault=lambda error: click.echo(f"simile: {error}", err=True),
        ) as driver,
    ):
        for detections in _lines(sys.stdin):
            x = None if detections is None else stream.step(detections)
            driver.send(predictor.step(x))


def _limits(stages: tuple[Stage, ...], speed: float | None, acceleration: float | None) -> tuple[Stage, ...]:
    """Return the limits of a head, which end in one that brakes."""
    import numpy as np

    from simile.camera.heads.driver import BRAKES
    from simile.online import AccelerationLimit

    if not stages or not isinstance(stages[-1], BRAKES):
        fastest, hardest = (np.array(usual if x is None else x) for x, usual in ((speed, 30.0), (acceleration, 60.0)))
        return *stages, AccelerationLimit(hardest, rate=fastest)
    if speed is not None or acceleration is not None:
        raise click.ClickException(
            f"--speed and --acceleration: {stages[-1]!r}, the last --stage, limits both: leave these out, or that"
        )
    return stages


def _lines(source: TextIO) -> Iterator[Any]:
    """Yield the detections (n, 2) of each line; None for an empty one."""
    import numpy as np

    for number, line in enumerate(source, start=1):
        if not line.strip():
            yield None
            continue
        try:
            yield np.array(json.loads(line), dtype=np.float64).reshape(-1, 2)
        except (ValueError, TypeError) as error:
            raise DataError(
                f"stdin: line {number} must be a JSON list of [x, y]; got {line.strip()[:80]!r}: {error}"
            ) from None


def _open(paths: Sequence[str], sport: str) -> tuple[Game, ...]:
    from simile.camera.courts import COURTS
    from simile.camera.tracking import open_games

    return tuple(game for path in paths for game in open_games(path, COURTS[sport]))


def _features(policy: Policy, court: Court, camera: Camera) -> Features:
    """Return the features that a policy was trained on, as the names of its contexts tell."""
    from simile.camera.features import Features

    return Features.from_names(policy.card.context_names, court, camera)


def _roll_out(policy: Policy, game: Game, stages: Sequence[Stage]) -> FloatArray:
    """Let a policy film a game: from where the operator begins, or from a guess where there is none."""
    from simile.policies.rollouts import ColdStart, rollout

    contexts = _features(policy, game.court, game.camera).batch(game.detections)
    start = ColdStart() if game.actions is None else game.actions[0]
    return rollout(policy, [contexts], start=start, stages=stages, rate=game.rate)[0]
