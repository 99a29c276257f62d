"""How a sport is played: the numbers behind the simulated games. Where each is from: docs/simulator.md."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray
from simile.camera.courts import Court
from simile.camera.simulation.fields import check_numbers
from simile.errors import ArgumentError

Formation = tuple[tuple[float, float], ...]  # a place for each player: metres in front of the goal, metres across

# Half-court offences: four around one in the post, five out, and two in the low posts.
AROUND: Formation = ((8.0, 0.0), (6.0, 5.5), (6.0, -5.5), (1.5, 6.5), (2.0, -2.5))
OPEN: Formation = ((8.5, 1.0), (6.5, 5.5), (6.5, -5.0), (1.0, 6.7), (1.0, -6.7))
POSTS: Formation = ((8.5, 0.0), (5.5, 6.0), (5.5, -6.0), (1.5, 2.5), (1.5, -2.5))
# Eleven of them, the goalkeeper first: 4-4-2, 4-3-3 and 4-2-3-1, as they stand with the ball at the other goal line.
FOUR_FOUR_TWO: Formation = (
    *((97.0, 0.0), (48.0, 26.0), (58.0, 9.0), (58.0, -9.0), (48.0, -26.0)),
    *((24.0, 27.0), (36.0, 8.0), (34.0, -9.0), (24.0, -27.0), (10.0, 7.0), (13.0, -7.0)),
)
FOUR_THREE_THREE: Formation = (
    *((97.0, 0.0), (45.0, 25.0), (58.0, 9.0), (58.0, -9.0), (45.0, -25.0)),
    *((40.0, 0.0), (28.0, 13.0), (28.0, -13.0), (14.0, 26.0), (9.0, 0.0), (14.0, -26.0)),
)
FOUR_TWO_THREE_ONE: Formation = (
    *((97.0, 0.0), (46.0, 26.0), (57.0, 8.0), (57.0, -8.0), (46.0, -26.0)),
    *((41.0, 8.0), (41.0, -8.0), (20.0, 25.0), (22.0, 0.0), (20.0, -25.0), (9.0, 2.0)),
)
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
        Set plays: a place per player of a team, (metres in front of the goal, metres across); their number says how
        many a side there are. One is chosen at random at every change of possession.
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
    block : (float, float)
        How far up a team stands while the ball is at its own goal line, with the ball and without it, as a share of
        where it stands with the ball at the other: a team moves as a block, and the first place of a formation is the
        goalkeeper's. (0, 0): attackers go to the places of the set play, and are marked man to man.
    shift : float
        How far a block shifts to the side of the ball, as a share.
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
    block: tuple[float, float] = (0.0, 0.0)
    shift: float = 0.0

    def __post_init__(self) -> None:
        shares = ("sag", "intercepted", "drive_shots", "made", "rebounds", "breaks", "kept", "restart_at", "shift")
        check_numbers(self, shares=shares, above_zero=("jog", "sprint", "acceleration", "pass_speed", "shot_speed"))
        shape = np.shape(self.sets) if len({len(places) for places in self.sets}) == 1 else ()
        if len(shape) != 3 or shape[0] < 1 or shape[1] < 2 or shape[2] != 2:
            raise ArgumentError(
                "sets must be formations of as many players each, two at least: (metres in front, metres across); "
                f"got {self.sets!r}"
            )
        if len(self.pause) != 2:
            raise ArgumentError(f"pause must be (least, most) seconds; got {self.pause!r}")
        for share in self.block if len(self.block) == 2 else (np.nan,):
            checks.number(share, "block (with the ball, without it)", at_least=0.0, at_most=1.0)
        checks.number(self.pause[1], "pause", at_least=checks.number(self.pause[0], "pause", at_least=0.0))

    @classmethod
    def of(cls, court: Court) -> Play:
        """Return how the sport of a court is played; for one of your own, write `Play(...)`."""
        if court.name not in PLAYS:
            raise ArgumentError(f"play must be given for {court.name!r}: Play(...); known are {', '.join(PLAYS)}")
        return PLAYS[court.name]

    @property
    def side(self) -> int:
        """How many players a team has."""
        return len(self.sets[0])

    def numbers(self) -> dict[str, float]:
        """Return everything but the set plays, by name."""
        pairs = {"pause": ("pause_least", "pause_most"), "block": ("block_attack", "block_defence")}
        kept = {f.name: float(getattr(self, f.name)) for f in fields(self) if f.name not in ("sets", *pairs)}
        return kept | {n: float(v) for pair in pairs for n, v in zip(pairs[pair], getattr(self, pair), strict=True)}

    def formations(self) -> FloatArray:
        """Return the set plays, (k, n, 2)."""
        return np.asarray(self.sets, dtype=np.float64)


_SOCCER = Play(
    sets=(FOUR_FOUR_TWO, FOUR_THREE_THREE, FOUR_TWO_THREE_ONE),
    sprint=8.5,
    wander=2.0,
    spacing=1.5,
    walk_up=4.5,
    set_depth=34.0,
    ahead=22.0,
    behind=20.0,
    line=45.0,
    sag=0.2,
    close=2.5,
    passes=0.2,
    passes_up=0.3,
    intercepted=0.12,
    cuts=0.15,
    drives=0.15,
    drive_seconds=2.5,
    drive_shots=0.4,
    shots=0.06,
    shot_clock=90.0,
    range=14.0,
    made=0.1,
    rebounds=0.45,
    bounce=12.0,
    breaks=0.3,
    losses=0.04,
    losses_up=0.01,
    stops=0.025,
    kept=0.5,
    pause=(4.0, 20.0),
    restart=14.0,
    restart_at=0.0,
    pass_speed=15.0,
    shot_speed=22.0,
    lateness=0.5,
    block=(0.35, 0.12),
    shift=0.25,
)
# Five a side on the full pitch, without goalkeepers, marked man to man.
FIVE_A_SIDE = replace(
    _SOCCER,
    sets=(WINGS, NARROW),
    block=(0.0, 0.0),
    shift=0.0,
    walk_up=3.8,
    passes=0.4,
    passes_up=0.35,
    drives=0.06,
    losses_up=0.02,
    shots=0.04,
    stops=0.03,
)
PLAYS = {
    "basketball": Play(),
    "soccer": _SOCCER,
    "nba": Play(),
    "futsal": replace(
        FIVE_A_SIDE,
        sets=tuple(tuple((0.38 * front, 0.3 * across) for front, across in places) for places in FIVE_A_SIDE.sets),
        sprint=7.5,
        wander=0.8,
        spacing=1.0,
        set_depth=13.0,
        ahead=9.0,
        behind=8.0,
        line=17.0,
        close=1.5,
        drive_seconds=1.3,
        range=6.0,
        bounce=4.0,
        restart=6.0,
    ),
}
