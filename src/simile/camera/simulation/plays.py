"""How a sport is played: the numbers behind the simulated games. Where each is from: docs/simulator.md."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray
from simile.camera.courts import Court
from simile.camera.simulation.fields import check_numbers
from simile.errors import ArgumentError

Formation = tuple[tuple[float, float], ...]  # five places: metres in front of the goal, metres across

# Half-court offences: four around one in the post, five out, and two in the low posts.
AROUND: Formation = ((8.0, 0.0), (6.0, 5.5), (6.0, -5.5), (1.5, 6.5), (2.0, -2.5))
OPEN: Formation = ((8.5, 1.0), (6.5, 5.5), (6.5, -5.0), (1.0, 6.7), (1.0, -6.7))
POSTS: Formation = ((8.5, 0.0), (5.5, 6.0), (5.5, -6.0), (1.5, 2.5), (1.5, -2.5))
# Five outfield players before the goal: a striker, two wings, and two who come behind.
WINGS: Formation = ((9.0, 3.0), (18.0, 24.0), (18.0, -24.0), (26.0, 4.0), (40.0, -6.0))
NARROW: Formation = ((8.0, -6.0), (16.0, 15.0), (18.0, -14.0), (28.0, 6.0), (42.0, 0.0))


def mirror(formation: Formation) -> Formation:
    """Return the formation with left and right exchanged."""
    return tuple((front, -across) for front, across in formation)


@dataclass(frozen=True)
class Play:
    """The parameters of play, for basketball by default; metres, seconds, and events per second.

    Parameters
    ----------
    sets : tuple of formations
        Set plays: five places each, (metres in front of the goal, metres across), one per player of the team. One is
        chosen at random at every change of possession.
    walk, jog, sprint : float
        Speeds: in pauses, in ordinary play, and at most.
    acceleration : float
        At most.
    wander, spacing : float
        How far players stray from their targets (a standard deviation), and how near they come to one another.
    walk_up, set_depth : float
        Speed of the one who brings the ball up, and how far from the goal the set play begins.
    ahead, behind : float
        How far team mates go before and behind the ball.
    line, sag, close : float
        How far from its goal the defence picks its men up; how far it sags off them, as a share of the way to the
        goal; and how near it comes to the one with the ball.
    passes, passes_up, intercepted : float
        Passes per second in set plays and on the way up, and the share that a defender gets.
    cuts, drives, drive_seconds, drive_shots : float
        Exchanges of places and drives per second, how long a drive lasts, and the share that ends in a shot.
    shots, shot_clock, range : float
        Shots per second in set plays, the longest possession, and how near to the goal a fast break shoots.
    made, rebounds, bounce : float
        Share of the shots that score, share of the others that stay in play, and how far they bounce.
    breaks, losses, losses_up : float
        Share of the changes of possession that become fast breaks, and balls lost per second in set plays and on the
        way up.
    stops, kept, pause : float, float, (float, float)
        Fouls and balls out of play per second, the share after which the team keeps the ball, and how long they
        stop the game: from the least to the most, short ones more often.
    restart, restart_at : float
        Seconds until the game goes on after a score or a ball behind the line, and where after a score: 0 in the
        middle, 1 at the goal line.
    pass_speed, shot_speed : float
        Of the ball.
    lateness : float
        Mean seconds until a player notices a change of possession.
    """

    sets: tuple[Formation, ...] = (AROUND, OPEN, POSTS, mirror(AROUND), mirror(OPEN))
    walk: float = 1.4
    jog: float = 4.0
    sprint: float = 7.5
    acceleration: float = 4.0
    wander: float = 0.6
    spacing: float = 1.0
    walk_up: float = 3.4
    set_depth: float = 9.5
    ahead: float = 12.0
    behind: float = 8.0
    line: float = 10.0
    sag: float = 0.3
    close: float = 1.2
    passes: float = 0.35
    passes_up: float = 0.12
    intercepted: float = 0.05
    cuts: float = 0.5
    drives: float = 0.09
    drive_seconds: float = 1.3
    drive_shots: float = 0.6
    shots: float = 0.07
    shot_clock: float = 24.0
    range: float = 2.5
    made: float = 0.46
    rebounds: float = 0.85
    bounce: float = 3.0
    breaks: float = 0.35
    losses: float = 0.015
    losses_up: float = 0.015
    stops: float = 0.025
    kept: float = 0.6
    pause: tuple[float, float] = (4.0, 20.0)
    restart: float = 3.0
    restart_at: float = 1.0
    pass_speed: float = 11.0
    shot_speed: float = 9.0
    lateness: float = 0.4

    def __post_init__(self) -> None:
        shares = ("sag", "intercepted", "drive_shots", "made", "rebounds", "breaks", "kept", "restart_at")
        check_numbers(self, shares=shares, above_zero=("jog", "sprint", "acceleration", "pass_speed", "shot_speed"))
        shape = np.shape(self.sets)
        if len(shape) != 3 or shape[0] < 1 or shape[1:] != (5, 2):
            raise ArgumentError(f"sets must be formations of five (metres in front, metres across); got {self.sets!r}")
        if len(self.pause) != 2:
            raise ArgumentError(f"pause must be (least, most) seconds; got {self.pause!r}")
        checks.number(self.pause[1], "pause", at_least=checks.number(self.pause[0], "pause", at_least=0.0))

    @classmethod
    def of(cls, court: Court) -> Play:
        """Return how the sport of a court is played; for one of your own, write `Play(...)`."""
        if court.name not in PLAYS:
            raise ArgumentError(f"play must be given for {court.name!r}: Play(...); known are {', '.join(PLAYS)}")
        return PLAYS[court.name]

    def numbers(self) -> dict[str, float]:
        """Return everything but the set plays, by name."""
        kept = {f.name: float(getattr(self, f.name)) for f in fields(self) if f.name not in ("sets", "pause")}
        return {**kept, "pause_least": float(self.pause[0]), "pause_most": float(self.pause[1])}

    def formations(self) -> FloatArray:
        """Return the set plays, (n, 5, 2)."""
        return np.asarray(self.sets, dtype=np.float64)


PLAYS = {
    "basketball": Play(),
    "soccer": Play(
        sets=(WINGS, NARROW),
        sprint=8.5,
        wander=2.0,
        spacing=1.5,
        walk_up=3.8,
        set_depth=34.0,
        ahead=22.0,
        behind=20.0,
        line=45.0,
        sag=0.2,
        close=2.5,
        passes=0.4,
        passes_up=0.35,
        intercepted=0.12,
        cuts=0.15,
        drives=0.06,
        drive_seconds=2.5,
        drive_shots=0.4,
        shots=0.04,
        shot_clock=90.0,
        range=14.0,
        made=0.1,
        rebounds=0.45,
        bounce=12.0,
        breaks=0.3,
        losses=0.04,
        losses_up=0.02,
        stops=0.03,
        kept=0.5,
        pause=(4.0, 20.0),
        restart=14.0,
        restart_at=0.0,
        pass_speed=15.0,
        shot_speed=22.0,
        lateness=0.5,
    ),
}
