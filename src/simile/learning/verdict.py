"""What is said of a policy, once: numbers with their intervals, and the sentences made of them.

Every door shows this object: `train`, `evaluate`, `compare`, the report, the studio, the gate of `improve` and the
camera. A finding is only called good where at least six recordings show it (`simile.metrics.estimate`).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from simile._common.text import count, plain
from simile._common.typing import IntArray
from simile.data.groups import PART, RECORDING
from simile.metrics import FEWEST, Estimate, Tally, estimate, mean_lag, mean_roughness, reversals_unit

SMOOTH = 1.1  # times the expert's roughness that is as smooth
SAME = 0.05  # of a ratio: what is no difference where no interval tells
TURNS, RESTS = (0.5, 1.2), (0.7, 1.5)  # times the expert's reversals and rest that look like the expert
RARE, NEAR = 0.1, 0.05  # share of time that hardly is rest, and how near a policy then must be
HALF = 0.5  # frames that nobody sees
LATE = 0.1  # of the time in which the expert moves by a standard deviation: what may be late without harm
EXPERT = "the expert"
DEARER = 1.1  # times the expert's cost in a plant that is no harm
FINDINGS = ("accuracy", "smoothness", "timing", "likeness")


@dataclass(frozen=True)
class Finding:
    """One thing that was found: "good" or "poor" where recordings show it, "fair" where they do not, or "unknown"."""

    mood: str
    text: str

    def __str__(self) -> str:
        return f"{self.text[:1].upper()}{self.text[1:]}."


@dataclass(frozen=True)
class Likeness:
    """How one action of policy and expert moves, each in this order."""

    action: str
    reversals: tuple[float, float]  # a minute, or per 1,000 frames
    rest: tuple[float, float]  # share of time
    turn_ratio: Estimate
    rest_ratio: Estimate  # NaN where the expert hardly rests: the difference then tells
    rest_difference: Estimate

    @property
    def is_known(self) -> bool:
        """Whether there is something to compare: an expert who moves, and a policy that did not diverge."""
        return bool(np.isfinite([*self.reversals, *self.rest]).all()) and self.rest[1] < 1.0

    @property
    def _found(self) -> tuple[tuple[Estimate, tuple[float, float]], ...]:
        rests = (self.rest_ratio, RESTS) if self.rest[1] >= RARE else (self.rest_difference, (-NEAR, NEAR))
        return (self.turn_ratio, TURNS), rests

    @property
    def turns_alike(self) -> bool:
        """Whether it turns about as often as the expert."""
        ours, theirs = self.reversals
        return TURNS[0] * theirs <= ours <= TURNS[1] * theirs

    @property
    def rests_alike(self) -> bool:
        """Whether it rests about as long as the expert."""
        found, (low, high) = self._found[1]
        return low <= found.value <= high

    @property
    def mood(self) -> str:
        """Good where recordings show that it moves like the expert, poor where they show that it does not."""
        if all(_inside(*one) for one in self._found):
            return "good"
        return "poor" if any(_outside(*one) for one in self._found) else "fair"

    def tell(self, per: str) -> str:
        """Say what differs from the expert; nothing where nothing does."""
        (turns, their_turns), (rest, their_rest) = self.reversals, self.rest
        said = []
        if not self.turns_alike:
            said.append(f"turns {_figure(turns)} times {per}, {EXPERT} {_figure(their_turns)}")
        if not self.rests_alike:
            said.append(f"rests {100.0 * rest:.0f} % of the time, {EXPERT} {100.0 * their_rest:.0f} %")
        return f"in {self.action} it {', and '.join(said)}" if said else ""


@dataclass(frozen=True)
class AtWork:
    """What a policy cost in a plant whose contexts follow from what it did, and what the expert cost there.

    Attributes
    ----------
    cost, expert : float
        Mean over the episodes; NaN of the expert where the plant has none, of both where the policy diverged.
    ratio, difference : Estimate
        The policy's cost over the expert's, where costs are above 0, and less the expert's.
    rmse : dict
        How far each action was off what the expert did in the same episode, which may be another way to the same end.
    episodes, diverged, shorter : int
        How many there were; in how many the policy or the plant left every reasonable range; and how many ended before
        the expert's did.
    """

    cost: float
    expert: float
    ratio: Estimate
    difference: Estimate
    rmse: dict[str, float]
    episodes: int
    diverged: int = 0
    shorter: int = 0

    @property
    def finding(self) -> Finding:
        """Whether it is as good as the expert there, in a clause."""
        where = f"at work in the plant ({count(self.episodes, 'episode')})"
        if self.diverged:
            return Finding("poor", f"{where} it left every reasonable range in {self.diverged}")
        if math.isnan(self.expert):
            return Finding("unknown", f"{where} it costs {self.cost:.3g} an episode; {EXPERT}'s cost is not known")
        found, harmless = (self.difference, 0.0) if math.isnan(self.ratio.value) else (self.ratio, DEARER)
        mood = "good" if found.high <= harmless else "poor" if found.low > harmless else "fair"
        text = f"{where} it costs {self.cost:.3g} an episode, {EXPERT} {self.expert:.3g}"
        if found is self.ratio:
            value, low, high = (f"{x:.2f}" if x < 10.0 else f"{x:.0f}" for x in (found.value, found.low, found.high))
            sure = f" ({low} to {high})" if found.is_sure else ""
            text = f"{where} it costs {value} times what {EXPERT} does{sure}"
        early = f"; {count(self.shorter, 'episode')} ended before {EXPERT}'s did" if self.shorter else ""
        return Finding(mood, text + early)

    def describe(self, recorded: dict[str, float]) -> str:
        """Describe what was found, and how far off it is beside how far on recordings."""
        off = [f"{value:.3g} off in {name}" for name, value in self.rmse.items() if math.isfinite(value)][:3]
        beside = [f"{recorded[name]:.3g}" for name in list(self.rmse)[: len(off)] if name in recorded]
        more = f" There it is {' and '.join(off)}; on recordings it looked like {' and '.join(beside)}." if off else ""
        return f"{self.finding}{more}"


@dataclass(frozen=True, eq=False)
class Verdict:
    """How good a policy is, with whom it was compared, and by how many recordings; prints as sentences.

    Attributes
    ----------
    rmse : dict
        Typical error (root mean square) of each action, in its unit.
    over_hold, over_baseline : Estimate
        That error over all actions, over the one of holding the last action and of the baseline; NaN where there is
        none.
    baseline : str
        The best of what it was compared with, such as "the best simple filter".
    roughness : Estimate
        Mean absolute second difference over the expert's.
    lag : Estimate
        Frames late.
    motion : tuple of Likeness
        Reversals and rest of each action, beside the expert's.
    recordings, groups : int
        How many recordings judged, and of how many groups (persons, runs), by which intervals are made.
    learned_from : int
        How many of these recordings the policy had been learned from.
    new : str
        What was new in them, such as "another person".
    in_turn : bool
        Whether the policy was learned from all of them, and judged in each by parts that had not seen it.
    rate : float, optional
        Frames per second.
    pace : float
        Frames in which the expert moves by one standard deviation.
    diverged : int
        In how many recordings its roll-out left every reasonable range.
    problems : tuple of str
        What was likely wrong with what it was learned from: effects of the action among the contexts, say.
    at_work : AtWork, optional
        What it cost in a plant, where it was tried in one.
    """

    rmse: dict[str, float]
    over_hold: Estimate
    over_baseline: Estimate
    baseline: str
    roughness: Estimate
    lag: Estimate
    motion: tuple[Likeness, ...]
    recordings: int
    groups: int
    learned_from: int = 0
    new: str = ""
    in_turn: bool = False
    rate: float | None = None
    pace: float = math.nan
    diverged: int = 0
    problems: tuple[str, ...] = ()
    at_work: AtWork | None = None

    def __str__(self) -> str:
        first = [] if self.at_work is None else [self.at_work.describe(self.rmse)]
        if self.diverged:
            return " ".join([*first, str(self.accuracy)])
        others = [one for one in (self.smoothness, self.likeness, self.timing) if one.mood != "unknown"]
        doubts = [f"But {problem}." for problem in self.problems]
        return " ".join([*first, str(self.accuracy), *doubts, *map(str, others), *self.cautions])

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers and the text as plain data, for JSON."""
        findings = {name: asdict(getattr(self, name)) for name in FINDINGS}
        findings |= {} if self.at_work is None else {"at_work": asdict(self.at_work.finding)}
        found: dict[str, Any] = plain(
            {"text": str(self), "headline": self.headline, "findings": findings, **asdict(self)}
        )
        return found

    @property
    def per(self) -> str:
        """What reversals are counted by."""
        return "a minute" if self.rate else "in 1,000 frames"

    @property
    def is_enough(self) -> bool:
        """Whether there are recordings enough for intervals."""
        return self.groups >= FEWEST

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        if self.at_work is not None:
            return str(self.at_work.finding)
        if self.diverged:
            return "Its roll-out diverged."
        clauses = [_tell_ratio(self.over_baseline if self.baseline else self.over_hold, self.baseline or _HOLDING)]
        clauses += [one.text for one in (self.smoothness, self.timing) if one.mood != "unknown"]
        text = ", ".join(clause for clause in clauses if clause) or "nothing could be measured"
        kind = "stretch" if self.in_turn and self.new == PART else RECORDING
        few = "" if self.is_enough else f"on {count(self.recordings, kind)}: "
        doubt = "on doubtful data: " if self.problems else ""
        return str(Finding("", f"{few}{doubt}{text}"))

    @cached_property
    def accuracy(self) -> Finding:
        """How far off it is, and how that compares."""
        if self.diverged:
            where = f"in {self.diverged} of {count(self.recordings, 'recording')}"
            way_out = "try a smaller smoothness or fewer action lags"
            return Finding("poor", f"its roll-out left every reasonable range {where}: {way_out}")
        if math.isnan(self.over_hold.value):
            return Finding("unknown", f"{EXPERT} never moves here, so there is nothing to imitate")
        off = " and ".join(f"{value:.3g} off in {name}" for name, value in list(self.rmse.items())[:3])
        ratios = [(self.over_baseline, self.baseline)] if self.baseline else []
        ratios.append((self.over_hold, _HOLDING))
        moods = [_mood_of_ratio(one) for one, _ in ratios]
        told = " and ".join(_tell_ratio(*one) for one in ratios)
        worst = next((mood for mood in ("poor", "fair") if mood in moods), "good")
        return Finding(worst, f"typically {off} on {self._tell_recordings()}: {told}")

    @cached_property
    def smoothness(self) -> Finding:
        """How rough it is beside the expert."""
        found = self.roughness
        if self.diverged or math.isnan(found.value):
            return Finding("unknown", f"{EXPERT} never turns here, so there is no smoothness to compare with")
        mood = "good" if found.high <= SMOOTH else "poor" if found.low > SMOOTH else "fair"
        if found.value == 0.0:
            text = "perfectly smooth"
        elif abs(found.value - 1.0) <= SAME:
            text = f"as smooth as {EXPERT}"
        else:
            smoother = found.value < 1.0
            much = f"{1.0 / found.value:.1f} times smoother" if smoother else f"{found.value:.1f} times as rough"
            text = f"{much} {'than' if smoother else 'as'} {EXPERT}"
            if found.holds(1.0):
                text = f"about as smooth as {EXPERT} ({much}, which may be chance)"
        return Finding(mood, text)

    @cached_property
    def likeness(self) -> Finding:
        """Whether it turns and rests like the expert."""
        known = [] if self.diverged else [one for one in self.motion if one.is_known]
        if not known:
            return Finding("unknown", f"how it moves was not measured, or {EXPERT} never moves here")
        mood = min((one.mood for one in known), key=("poor", "fair", "good").index)
        if differ := [said for one in known if (said := one.tell(self.per))]:
            more = f"; so do {len(differ) - 2} more" if len(differ) > 2 else ""
            return Finding(mood, "; ".join(differ[:2]) + more)
        return Finding(mood, f"it turns and rests like {EXPERT}")

    @cached_property
    def timing(self) -> Finding:
        """How late it is."""
        lag = self.lag
        if self.diverged or math.isnan(lag.value):
            return Finding("unknown", "where nothing moves, nothing can be late")
        limit = max(1.0, LATE * self.pace) if self.pace > 0.0 else 1.0
        limits = -limit, limit
        mood = "good" if _inside(lag, limits) else "poor" if _outside(lag, limits) else "fair"
        if abs(lag.value) < HALF or (lag.holds(0.0) and abs(lag.value) <= limit):
            return Finding(mood, "on time")
        way, time = "late" if lag.value > 0.0 else "early", format_time(abs(lag.value), self.rate)
        if mood == "good":
            return Finding(mood, f"hardly {way} ({time})")
        late = f"{time} {way}"
        return Finding(
            mood, f"whether it is on time is not clear ({late}, which may be chance)" if lag.holds(0.0) else late
        )

    @property
    def cautions(self) -> list[str]:
        """Sentences on what the recordings cannot tell."""
        said = []
        if self.learned_from:
            said.append(
                f"It has learned from {'all' if self.learned_from == self.recordings else self.learned_from} of these "
                "recordings, which flatters it."
            )
        if not self.is_enough:
            said.append(
                f"{count(self.groups, self._kind).capitalize()} can show nothing for sure: "
                f"{'learn from' if self.in_turn else 'test on'} six or more."
            )
        return said

    @property
    def _kind(self) -> str:
        return RECORDING if self.groups == self.recordings or self.new == PART else "group"

    def _tell_recordings(self) -> str:
        if self.in_turn and self.new == PART:
            return f"{count(self.recordings, 'stretch')} of {count(self.groups, RECORDING)}, each left out in turn"
        groups = "" if self.groups == self.recordings else f" of {count(self.groups, 'group')}"
        unseen = "" if self.learned_from else " it had not seen"
        if self.in_turn:
            return f"{count(self.recordings, RECORDING)}{groups}, each{groups and ' group'} left out in turn"
        return f"{count(self.recordings, 'recording')}{groups}{unseen}{f' ({self.new})' if self.new else ''}"


_HOLDING = "holding the last action"


def reach_verdict(
    ours: Tally,
    held: Tally,
    other: Tally | None,
    *,
    actions: tuple[str, ...],
    scale: Any,
    kin: IntArray,
    rate: float | None,
    baseline: str = "",
    **about: Any,
) -> Verdict:
    """Compute the verdict on a policy from what it, the held action and a baseline did in each recording.

    Parameters
    ----------
    ours, held, other : Tally
        Of the policy, of the held action, and of the baseline.
    actions : tuple of str
        Their names.
    scale : (k,) array
        The user's units of the errors.
    kin : (n,) array
        Number of the group of each recording.
    rate : float, optional
        Frames per second.
    baseline : str
        What the baseline is called in a sentence.
    about
        What else `Verdict` tells.
    """
    counted = held.weights.any(axis=1)
    recordings, groups, nothing = int(counted.sum()), len(set(kin[counted].tolist())), Estimate(math.nan)
    told: dict[str, Any] = {"recordings": recordings, "groups": groups, "rate": rate, **about}
    lost = int(np.isnan(ours.squares[counted]).any(axis=1).sum())
    if lost:
        rmse = dict.fromkeys(actions, math.nan)
        return Verdict(rmse, nothing, nothing, "", nothing, nothing, (), diverged=lost, **told)
    rows = ours.grouped(kin)
    return Verdict(
        rmse=dict(zip(actions, rows.rmse(scale).tolist(), strict=True)),
        over_hold=compare_errors(rows, held.grouped(kin)),
        over_baseline=nothing if other is None else compare_errors(rows, other.grouped(kin)),
        baseline="" if other is None else baseline,
        roughness=estimate(mean_roughness, rows.bends, rows.expert_bends, rows.sizes, positive=True),
        lag=estimate(mean_lag, rows.products),
        motion=_liken(rows, actions, rate),
        **told,
    )


def compare_errors(ours: Tally, theirs: Tally) -> Estimate:
    """Return the ratio of two root mean squared errors on the same recordings, with its interval; NaN over none."""

    def ratio(above: Any, below: Any) -> float:
        return math.sqrt(above.sum() / below.sum()) if below.sum() > 0.0 else math.nan

    return estimate(ratio, ours.squares, theirs.squares, positive=True)


def _liken(rows: Tally, actions: tuple[str, ...], rate: float | None) -> tuple[Likeness, ...]:
    found = []
    turns, rests = rows.turn_rates(rate), rows.rest_shares
    for j, action in enumerate(actions):

        def ratio(above: Any, below: Any) -> float:
            return float(above / below) if below > 0.0 else math.nan

        def difference(ours: Any, theirs: Any, steps: Any) -> float:
            return float((ours - theirs) / steps) if steps > 0.0 else math.nan

        both = rows.rests[:, j], rows.expert_rests[:, j]
        found.append(
            Likeness(
                action,
                (float(turns[0, j]), float(turns[1, j])),
                (float(rests[0, j]), float(rests[1, j])),
                estimate(ratio, rows.turns[:, j], rows.expert_turns[:, j], positive=True),
                estimate(ratio, *both, positive=True) if rests[1, j] >= RARE else Estimate(math.nan),
                estimate(difference, *both, rows.steps[:, j]),
            )
        )
    return tuple(found)


def _inside(found: Estimate, limits: tuple[float, float]) -> bool:
    """Tell whether a whole interval is within limits."""
    return limits[0] <= found.low and found.high <= limits[1]


def _outside(found: Estimate, limits: tuple[float, float]) -> bool:
    """Tell whether a whole interval is beyond limits."""
    return found.high < limits[0] or found.low > limits[1]


def _mood_of_ratio(found: Estimate) -> str:
    return "good" if found.high < 1.0 else "poor" if found.low > 1.0 else "fair"


def _tell_ratio(found: Estimate, whom: str) -> str:
    """Say how an error compares with somebody's.

    >>> _tell_ratio(Estimate(0.68, 0.6, 0.8), "the best simple filter")
    '32 % closer than the best simple filter'
    >>> _tell_ratio(Estimate(2.5, 2.1, 3.0), "the best simple filter")
    '2.5 times as far off as the best simple filter'
    >>> _tell_ratio(Estimate(0.97, 0.9, 1.05), "the best simple filter")
    'about as close as the best simple filter (3 % closer, which may be chance)'
    """
    if math.isnan(found.value):
        return f"{whom} has no error here"
    share = 100.0 * abs(1.0 - found.value)
    if found.value >= 2.0 and not found.holds(1.0):
        return f"{found.value:.1f} times as far off as {whom}"
    much = f"{share:.0f} % {'closer' if found.value < 1.0 else 'farther off'}"
    if share < 0.5:
        return f"as close as {whom}"
    if not found.is_sure and share < 100.0 * SAME:
        return f"about as close as {whom} ({much})"
    return f"about as close as {whom} ({much}, which may be chance)" if found.holds(1.0) else f"{much} than {whom}"


def _figure(number: float) -> str:
    return f"{number:.0f}" if number >= 10.0 else f"{number:.2g}"


def format_time(frames: float, rate: float | None) -> str:
    """Say how long something takes.

    >>> format_time(3.0, None), format_time(2.0, 25.0), format_time(60.0, 25.0)
    ('3.0 frames', '80 ms', '2.4 s')
    """
    if rate is None:
        return f"{frames:.1f} frames"
    seconds = frames / rate
    return f"{seconds * 1e3:.0f} ms" if seconds < 0.0995 else f"{seconds:.1f} s"


def tell_reversals(rate: float | None) -> str:
    """Say by what reversals are counted, in a table."""
    return "a minute" if rate else f"in {reversals_unit(rate):,.0f} frames"
