"""`simile camera retarget`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from simile.cli import options
from simile.cli.camera.games import court_options, parse_camera, place_of


@click.command(short_help="Say how a policy films from another place.")
@options.policy_argument
@court_options
@click.option(
    "--from", "source", callback=parse_camera, help="Camera that it was trained for, whatever its card says of it."
)
@options.policy_options
@click.option("--out", type=click.Path(path_type=Path), help="Write the policy, with that camera on its card.")
def retarget(
    policy: Path,
    source: Any,
    trust: tuple[str, ...],
    max_memory: float | None,
    out: Path | None,
    **given: Any,
) -> None:
    """Say how POLICY films with a camera at another place: by which stage, and where it then looks.

    `simile camera evaluate`, `watch`, `crop`, `drive` and `live` do it by themselves where the game's camera is not
    that of the policy's card; `simile run`, `rollout`, `evaluate` and `serve` take the stage. A policy that was trained
    on a text file has no camera on its card: --from and --out write it there.
    """
    import numpy as np

    from simile.camera.geometry import Camera
    from simile.camera.retarget import Retarget, camera_of

    loaded, (court, camera) = options.load_policy(policy, trust, max_memory), place_of(given)
    own = source or camera_of(loaded.card) or Camera.beside(court)
    turn = Retarget(own.facing(court), camera.facing(court))
    for name, x in {"left goal": -court.goal, "middle": 0.0, "right goal": court.goal}.items():
        looked = np.array([*own.aim([x, 0.0]), own.still_view(court)[1]])[: loaded.n_actions]
        before, after = (", ".join(f"{value:.2f}" for value in a) for a in (looked, turn.apply(looked)))
        click.echo(f"{name:10} {before} -> {after}")
    click.echo(f'--stage "{turn!r}"')
    if out is not None:
        about = {**(loaded.card.training.get("about") or {}), "camera": own.to_dict()}
        card = replace(loaded.card, training={**loaded.card.training, "about": about})
        loaded.in_units(loaded.units, loaded.space, card).save(out)
        click.echo(f"{out}: trained for a camera at {own}")
