"""From one camera to another: the angles by which a camera elsewhere looks at the same place of the court."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from simile._common.typing import FloatArray
from simile.camera.courts import Court
from simile.camera.games import OWN, Game
from simile.camera.geometry import Camera
from simile.errors import ArgumentError
from simile.policies.cards import Card

FARTHEST = 1000.0  # metres: who looks higher, or along the court, is taken to look that far
BESIDE = 1.0  # metres from the court's long axis: nearer, a pan tells no place on it
SEAM = 150.0  # degrees of pan to the court's middle: beyond, the pan would jump by a whole turn there


@dataclass(frozen=True, repr=False)
class Retarget:
    """A stage that turns the angles of one camera into those of another which looks at the same place of the ground.

    With pan, tilt and zoom, that place is where the optical axis meets the ground, and the picture keeps its width in
    metres there, as far as the other lens goes. With pan alone, it is where the pan crosses the long axis of the court.
    A look that would meet the ground beyond a kilometre, or never, is held there. What an operator does with the
    target is turned back for the policy, which knows its own camera alone.

    Parameters
    ----------
    source, target : Camera or str
        Whose angles come in, and whose go out; a text is read by `Camera.parse`.

    Raises
    ------
    ArgumentError
        When a camera has no height or the court behind it, or stands on the long axis where there is pan alone.

    Examples
    --------
    >>> turn = Retarget("0,-20,8", "0,-40,8")
    >>> turn.apply(np.array([[45.0]])).round(3)
    array([[26.565]])
    """

    source: Camera
    target: Camera

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            given = getattr(self, name)
            camera = Camera.parse(given) if isinstance(given, str) else given
            if not isinstance(camera, Camera) or not camera.position[2] > 0.0:
                raise ArgumentError(f"{name} must be a camera above the ground, such as '0,-20,8'; got {given!s}")
            if abs(camera.aim([0.0, 0.0])[0]) > SEAM:
                raise camera.backwards()
            object.__setattr__(self, name, camera)

    def __repr__(self) -> str:
        return f"Retarget({str(self.source)!r}, {str(self.target)!r})"

    def __call__(self, wanted: FloatArray, last: FloatArray, before: FloatArray, seconds: float) -> FloatArray:  # noqa: ARG002
        """Return what to send to the target where `wanted`, (n, k), is meant for the source."""
        return self.apply(wanted)

    def apply(self, actions: FloatArray) -> FloatArray:
        """Return actions (..., k) of the target that aim where those of the source do."""
        return _turn(self.source, self.target, actions)

    def undo(self, actions: FloatArray) -> FloatArray:
        """Return actions (..., k) of the source that aim where those of the target do."""
        return _turn(self.target, self.source, actions)


def camera_of(card: Card) -> Camera | None:
    """Return the camera that the policy with this card was trained for; None where the card does not say.

    Raises
    ------
    DataError
        When it says something else: a card may come from anybody.
    """
    about = card.training.get("about")
    said = about.get("camera") if isinstance(about, Mapping) else None
    return None if said is None else Camera.from_dict(said, "what the policy's card says of its camera")


def court_of(card: Card) -> Court | None:
    """Return the court that the policy with this card was trained on; None where the card does not say."""
    about = card.training.get("about")
    said = about.get("court") if isinstance(about, Mapping) else None
    return None if said is None else Court.parse(str(said))


def refilm(game: Game, camera: Camera) -> Game:
    """Return a game as it looks from another camera, whose operator, if there is one, aims at the same places."""
    if camera == game.camera:
        return game
    actions = None if game.actions is None else Retarget(game.camera, camera.facing(game.court)).apply(game.actions)
    return replace(game, camera=camera, actions=actions, still=OWN)


def _turn(source: Camera, target: Camera, actions: FloatArray) -> FloatArray:
    if actions.shape[-1] == 1:
        return np.asarray(target.aim(_cross(source, target, actions[..., 0]))[0])[..., np.newaxis]
    if actions.shape[-1] != 3:
        raise ArgumentError(f"retarget: actions must be pan, or pan, tilt and zoom; got {actions.shape[-1]} of them")
    points = _meet(source, actions[..., 0], actions[..., 1])
    here, there = (
        float(camera.half_width(1.0)) * np.hypot(np.hypot(*np.moveaxis(points - camera.position[:2], -1, 0)), z)
        for camera in (source, target)
        for z in camera.position[2:]
    )
    zoom = np.maximum(actions[..., 2] * (there / here), 1.0)
    return np.stack([*target.aim(points), zoom], axis=-1)


def _cross(source: Camera, target: Camera, pan: FloatArray) -> FloatArray:
    """Return the points (..., 2) of the long axis, y = 0, that lie ahead by a pan (...)."""
    for camera in (source, target):
        if abs(camera.position[1]) < BESIDE:
            raise ArgumentError(
                f"retarget: the camera {camera} stands on the long axis of the court, on which a pan alone then tells "
                "no place: film with pan, tilt and zoom, or from beside the court"
            )
    ahead, right = source.gaze(pan, 0.0), source.gaze(pan + 90.0, 0.0)
    # The points of the axis in the plane of all tilts: how far they are to the right is 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        x = (right @ np.array(source.position)) / right[..., 0]
    depth = ahead[..., 0] * x - ahead @ np.array(source.position)
    met = (depth > 0.0) & (np.abs(x) <= FARTHEST)  # not NaN
    x = np.where(met, x, np.copysign(FARTHEST, ahead[..., 0]))
    return np.stack([x, np.zeros_like(x)], axis=-1)


def _meet(camera: Camera, pan: FloatArray, tilt: FloatArray) -> FloatArray:
    """Return the points (..., 2) of the ground that a camera looks at."""
    x, y, z = camera.position
    along, across, up = np.moveaxis(camera.gaze(pan, tilt), -1, 0)
    reach = np.minimum(z / np.maximum(-up, 1e-9), FARTHEST / np.maximum(np.hypot(along, across), 1e-9))
    return np.stack([x + along * reach, y + across * reach], axis=-1)
