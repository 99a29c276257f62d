"""A human camera operator: what he looks at, how late, how he leads the play, and how his hand moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simile._common.typing import FloatArray, IntArray
from simile.camera.courts import Court
from simile.camera.geometry import Camera
from simile.camera.simulation.fields import check_numbers
from simile.errors import ArgumentError

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Operator:
    """A professional with his hand on the bar of a fluid head; degrees, metres and seconds.

    Parameters
    ----------
    watches : float
        Weight of the ball in what he watches; the rest is the middle of the players.
    reaction : float
        Delay between seeing and moving.
    lead : float
        How far ahead he aims, in seconds of the play's motion, which he judges over `judges` seconds.
    judges : float
        Time constant of his sense of speed.
    room, break_room : float
        How far he aims before the play, towards the goal under attack; and how much more in a fast break.
    late, late_seconds : float
        Share of the changes of possession that surprise him, and the mean of how much later he then is.
    overshoots, overshoot_damping : float
        Share of the changes of possession that he swings past, and the damping of his hand then; it is 1 otherwise.
    stiffness, fastest, strongest : float
        Of the hand on pan and tilt: natural frequency (radians per second), and limits of speed (degrees per second)
        and acceleration.
    zone, rest : float
        The hand does not move until the aim has left the last one by so many degrees; it comes to rest when the aim is
        slower than `rest` degrees per second.
    drift, drift_seconds : float
        Slow change of how he likes to frame: standard deviation in degrees, and how long he stays with it.
    tremor, tremor_hertz : float
        Of the hand, through the head's damping: standard deviation in degrees, and its frequency.
    depth, tilt_zone, tilt_seconds : float
        Of the tilt, which follows the depth of play slowly: how much of it, as a share; the dead zone, in degrees; and
        the time constant.
    tighten, near, zoom_seconds : float
        Of the zoom, which has two framings about the one that shows most of a half: by how much they differ, as a
        share; from where on play is settled before a goal, as a share of the way there, and framed more closely; and
        how long play is judged, and a change takes.
    """

    watches: float = 0.35
    reaction: float = 0.22
    lead: float = 0.8
    judges: float = 0.3
    room: float = 0.8
    break_room: float = 2.5
    late: float = 0.3
    late_seconds: float = 0.3
    overshoots: float = 0.25
    overshoot_damping: float = 0.6
    stiffness: float = 4.0
    fastest: float = 60.0
    strongest: float = 150.0
    zone: float = 2.5
    rest: float = 3.0
    drift: float = 0.6
    drift_seconds: float = 20.0
    tremor: float = 0.002
    tremor_hertz: float = 9.0
    depth: float = 0.6
    tilt_zone: float = 0.8
    tilt_seconds: float = 1.0
    tighten: float = 0.25
    near: float = 0.5
    zoom_seconds: float = 1.0

    def __post_init__(self) -> None:
        positive = ("judges", "overshoot_damping", "stiffness", "fastest", "strongest", "drift_seconds", "zoom_seconds")
        check_numbers(self, shares=("watches", "late", "overshoots", "depth", "tighten", "near"), above_zero=positive)

    @classmethod
    def of(cls, court: Court) -> Operator:
        """Return the operator of a sport, see `OPERATORS`, or one for the size of a court: metres grow with its length.

        >>> from simile.camera.courts import BASKETBALL
        >>> Operator.of(BASKETBALL) == Operator()
        True
        """
        scale = court.length / 28.0
        return OPERATORS.get(court.name) or cls(room=cls.room * scale, break_room=cls.break_room * scale)


# Of soccer: brought to what one broadcast operator does, see docs/simulator.md.
OPERATORS = {
    "soccer": Operator(
        watches=0.45,
        lead=0.5,
        judges=0.25,
        room=2.6,
        break_room=10.0,
        overshoots=0.6,
        overshoot_damping=0.43,
        stiffness=7.5,
        fastest=40.0,
        zone=2.7,
        rest=6.0,
        drift=0.2,
        depth=0.2,
        tilt_zone=0.6,
        tilt_seconds=2.0,
        tighten=0.018,
    )
}


def move_camera(
    operator: Operator,
    watched: FloatArray,
    flow: FloatArray,
    *,
    court: Court,
    camera: Camera,
    axes: int,
    rate: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Return how the operator moves the camera, (T, axes): pan, or pan, tilt and zoom.

    He sees the play, watched (T, 2) in metres, and where the attack goes: flow (T, 2), its direction and whether it is
    a fast break. The game knows nothing of him.
    """
    from simile.camera.simulation.kernels import follow

    velocity = lag_signal(np.gradient(watched, 1.0 / rate, axis=0), operator.judges, rate)
    aimed = watched + operator.lead * velocity
    room = flow[:, 0] * (operator.room + operator.break_room * flow[:, 1])
    aimed[:, 0] = np.clip(aimed[:, 0] + room, -court.goal, court.goal)
    pan, _ = camera.aim(aimed)
    _, tilt = camera.aim(lag_signal(aimed * [1.0, operator.depth], operator.tilt_seconds, rate))
    aims = np.column_stack([pan, tilt, _zooms(operator, aimed[:, 0], court, camera, rate)])[:, :axes]
    surprised, damping = _surprises(operator, flow[:, 0], rate, rng)
    aims = aims[surprised] + _habits(operator, len(aims), rate, rng)[:, :axes]
    actions = np.empty_like(aims)
    # A zoom rocker is slower than a hand; its unit is the zoom factor.
    hand = np.array([operator.stiffness, 0.5 * operator.stiffness, 2.0 / operator.zoom_seconds])[:axes]
    scale = np.array([1.0, 0.6, 0.06])[:axes]
    follow(
        aims,
        damping,
        hand,
        np.array([operator.zone, operator.tilt_zone, 0.0])[:axes],
        operator.rest * scale,
        operator.fastest * scale,
        operator.strongest * scale,
        1.0 / rate,
        actions,
    )
    actions += _tremor(operator, len(aims), rate, rng)[:, :axes]
    if axes == 3:
        actions[:, 2] = np.maximum(actions[:, 2], 1.0)
    return actions


def check_axes(axes: int) -> int:
    """Return how many axes an operator moves, or say how many there are."""
    if axes not in (1, 3):
        raise ArgumentError(f"axes must be 1 (pan) or 3 (pan, tilt and zoom); got {axes!r}")
    return axes


def lag_signal(signal: FloatArray, seconds: float, rate: float) -> FloatArray:
    """Return a signal (T, ...) through a first-order lag, at rest at the start."""
    from scipy.signal import lfilter

    keep = float(np.exp(-1.0 / (seconds * rate))) if seconds > 0.0 else 0.0
    out: FloatArray = lfilter([1.0 - keep], [1.0, -keep], signal, axis=0, zi=keep * signal[:1])[0]
    return out


def _zooms(operator: Operator, aimed: FloatArray, court: Court, camera: Camera, rate: float) -> FloatArray:
    """Return the zoom (T,) for where along the court he aims: one framing before a goal, another on the way there."""
    near = lag_signal(np.abs(aimed) / court.goal, operator.zoom_seconds, rate)
    settled = latch(near > operator.near, near < 0.7 * operator.near, bool(near[0] > operator.near))
    return np.asarray(_usual_zoom(court, camera) * (1.0 + operator.tighten * (settled - 0.5)))


def _usual_zoom(court: Court, camera: Camera) -> float:
    """Return the zoom that shows most of either half from where the camera is; not closer than `still_view`."""
    least = camera.still_view(court)[1]
    for goal in (-court.goal, court.goal):
        half = np.array([[x * goal, y * court.width] for x in (0.2, 1.0) for y in (-0.3, 0.3)])
        seen = camera.project(half, *camera.aim([0.6 * goal, 0.0]), 1.0)
        least = min(least, float(1.0 / np.abs(seen[:, 0]).max()))
    return max(1.0, least)


def latch(on: Mask, off: Mask, start: bool) -> Mask:
    """Return what is on since it was put on, and off since it was put off (T,)."""
    frames = np.arange(1, len(on) + 1)
    last_on, last_off = (np.maximum.accumulate(np.where(put, frames, 0)) for put in (on, off))
    return np.asarray((last_on > last_off) | (start & (last_on == last_off)))


def _surprises(
    operator: Operator, way: FloatArray, rate: float, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Return the frame that he acts upon at each frame (T,), and the damping of his hand (T,)."""
    length = len(way)
    frames = np.arange(length)
    # Drawn for every frame though few are used: what a later change draws does not hang on an earlier one.
    startled, late, swings = rng.random(length), rng.exponential(operator.late_seconds, length), rng.random(length)
    changes = np.flatnonzero(np.diff(way, prepend=way[0]) != 0.0)
    delay = np.full(length, operator.reaction)
    damping = np.ones(length)
    for begin, end in zip(changes, np.append(changes, length)[1:], strict=True):
        if startled[begin] < operator.late:
            more = min(late[begin], 1.0)
            delay[begin : begin + round((operator.reaction + more) * rate)] += more
        if swings[begin] < operator.overshoots:
            damping[begin:end] = operator.overshoot_damping
    # He never sees what he has seen already again.
    seen = np.maximum.accumulate(frames - np.round(delay * rate).astype(np.intp))
    return np.maximum(seen, 0), damping


def _habits(operator: Operator, length: int, rate: float, rng: np.random.Generator) -> FloatArray:
    """Return slow changes of framing (T, 3): an Ornstein-Uhlenbeck process per angle; the zoom has none."""
    from scipy.signal import lfilter

    keep = float(np.exp(-1.0 / (operator.drift_seconds * rate)))
    noise = rng.standard_normal((length, 3)) * np.sqrt(1.0 - keep**2)
    noise[0] = rng.standard_normal(3)
    wandering: FloatArray = lfilter([operator.drift], [1.0, -keep], noise, axis=0) * np.array([1.0, 0.5, 0.0])
    return wandering


def _tremor(operator: Operator, length: int, rate: float, rng: np.random.Generator) -> FloatArray:
    """Return the tremor (T, 3): noise through a resonance, of the given deviation; the zoom has none."""
    from scipy.signal import lfilter

    radius, turn = 0.9, 2.0 * np.pi * operator.tremor_hertz / rate
    shape = [1.0, -2.0 * radius * np.cos(turn), radius**2]
    noise = rng.standard_normal((length, 3)) * np.array([1.0, 1.0, 0.0])
    # The deviation of the resonance's output, in closed form.
    gain = (1.0 + radius**2) / (1.0 - radius**2) / (1.0 - 2.0 * radius**2 * np.cos(2.0 * turn) + radius**4)
    shaking: FloatArray = lfilter([operator.tremor / np.sqrt(gain)], shape, noise, axis=0)
    return shaking
