"""`simile camera evaluate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from simile.cli import options
from simile.cli.camera.games import aim_stages, features_of, game_options, games_argument, open_all, roll_out


@click.command(short_help="Judge a policy as a broadcaster would.")
@options.policy_argument
@games_argument
@game_options
@options.stage_option
@options.policy_options
@options.json_option
def evaluate(
    policy: Path,
    games: tuple[str, ...],
    stage: tuple[str, ...],
    trust: tuple[str, ...],
    max_memory: float | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Judge POLICY on GAMES: players and ball in frame, lead room and speeds, beside the operator.

    Where there is an operator of its axes, the verdict of `simile evaluate` stands below: error, smoothness, lag, and
    whether it turns and rests like the operator.
    """
    from simile.camera.features import demonstrations
    from simile.camera.film.framing import compare_framing
    from simile.camera.pace import resample
    from simile.cli.output import to_json
    from simile.evaluation.evaluation import evaluate as measure

    loaded = options.load_policy(policy, trust, max_memory)
    found = open_all(games, given, loaded)
    given_stages = options.stages_of(stage)
    stages = {game.camera: aim_stages(loaded, game.court, game.camera, given_stages) for game in found}
    rolled = [roll_out(loaded, game, stages[game.camera]) for game in found]
    operated = [game.actions for game in found if game.actions is not None]
    cameras = {"operator": operated, "policy": rolled} if len(operated) == len(found) else {"policy": rolled}
    judged, k = compare_framing(found, cameras), loaded.n_actions
    if len(cameras) == 1 or any(actions.shape[1] < k for actions in operated):
        click.echo(to_json(judged.to_dict()) if as_json else judged)
        return
    # Of an operator who also tilts and zooms, a policy that pans is measured by the pan.
    alike = [
        resample(replace(game, actions=actions[:, :k]), loaded.card.rate or game.rate)
        for game, actions in zip(found, operated, strict=True)
    ]
    demos = demonstrations(alike, features_of(loaded, found[0].court))
    measured = replace(measure(loaded, demos, stages=stages[found[0].camera], rate=demos.rate), doubts=())  # said
    click.echo(
        to_json({**judged.to_dict(), "evaluation": measured.to_dict()}) if as_json else f"{judged}\n\n{measured}"
    )
