"""The six questions that everybody asks of a policy, answered in a sentence or two, with what speaks for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simile.evaluation.comparison.phrases import phrase_lag, phrase_roughness
from simile.evaluation.report.contenders import Path

Answer = dict[str, str]

# Accurate: the share of the held action's error, and how a simple filter may compare. Half the error of doing nothing
# is worth having; five per cent is what another seed changes.
MUCH_LESS, ABOUT_EQUAL, FAR_WORSE = 0.5, 1.05, 1.25
# Smooth: roughness over the expert's. `learn` itself calls 1.1 as smooth as asked for.
SMOOTH, ROUGH = 1.1, 1.5
# Late: share of the time in which the expert moves by one standard deviation of the actions, and frames that are
# never too many.
ON_TIME, LATE, FEW_FRAMES = 0.1, 0.3, 1.0
# Trusted: held-out error over the error that the training expected, and sequences from which to judge.
SURPRISE, FEW_SEQUENCES = 1.25, 3
# How smooth: what half the roughness may cost to be cheap, and what twice the roughness must save to be worth it.
CHEAP, WORTH = 0.03, 0.10
# Like a person: reversals and rest over the expert's, where an expert rests that is worth asking for, and moves over
# the expert's. A reversal more, in all that was held out, is chance.
STEADY, RESTLESS = 1.2, 2.0
RESTED, CREEPING, RESTS = 0.8, 0.5, 0.1
FROZEN = 0.25
MOST_NAMED = 2  # actions in a sentence

LEADS = {"good": "Yes", "fair": "Partly", "poor": "No"}


@dataclass(frozen=True)
class Moves:
    """How one action of policy and expert moves, each in this order."""

    action: str
    reversals: tuple[float, float]  # a minute, or per 1,000 frames
    still: tuple[float, float]  # share of time
    hold: float = math.nan  # width of the policy's hysteresis
    one: float = 0.0  # what a single reversal adds to the rate

    @classmethod
    def of(
        cls,
        actions: Sequence[str],
        reversals: Iterable[Iterable[float]],
        still: Iterable[Iterable[float]],
        *,
        frames: int,
        rate: float | None,
        hold: Sequence[float] | None = None,
    ) -> tuple[Moves, ...]:
        """Pair what was measured of each action, of the policy and of the expert."""
        one = (60.0 * rate if rate else 1000.0) / frames
        widths = [math.nan] * len(actions) if hold is None else hold
        turns, rests = (zip(*both, strict=True) for both in (reversals, still))
        return tuple(cls(*each, one) for each in zip(actions, turns, rests, widths, strict=True))

    @property
    def mood(self) -> str:
        """Whether it looks like the expert; unknown where the expert never moves."""
        (turns, theirs), (rest, expected) = self.reversals, self.still
        if math.isnan(turns + theirs + rest + expected) or (theirs == 0.0 and expected > 0.999):
            return "unknown"
        rested = math.inf if expected < RESTS else rest / expected
        if (turns >= RESTLESS * theirs and turns > theirs + 2.5 * self.one) or rested < CREEPING:
            return "poor"
        steady = turns <= STEADY * theirs or (turns <= theirs + 1.5 * self.one and turns < RESTLESS * theirs)
        return "good" if steady and rested >= RESTED and not self.frozen else "fair"

    @property
    def frozen(self) -> bool:
        """Whether it hardly ever moves."""
        return 1.0 - self.still[0] < FROZEN * (1.0 - self.still[1])


@dataclass(frozen=True, eq=False)
class Facts:
    """What the answers are made of; NaN where something is not known."""

    error: float  # RMSE in standard deviations of the expert's actions, held-out
    rmse: dict[str, float]  # of each action, in its unit
    held: float  # error of holding the last action
    simple: tuple[str, float] | None  # the best simple filter or rival, and its error
    roughness: float
    lag: float  # frames
    pace: float  # frames in which the expert moves by one standard deviation
    rate: float | None
    sequences: int
    diverged: int  # sequences in which the roll-out diverged
    radius: float  # of the closed loop
    surprise: float  # held-out error over the error that the training expected
    path: Path | None = None  # other smoothness, on the same sequences
    simpler: bool = False  # whether something simpler did better in training
    others: str = "simple filter"  # what `simple` is the best of
    moves: tuple[Moves, ...] = ()  # of each action
    behind: str = ""  # how late the expert itself is, in a sentence


def answers(facts: Facts) -> list[Answer]:
    """Answer all six."""
    return [
        _judge_accuracy(facts),
        _judge_smoothness(facts),
        _judge_lag(facts),
        _judge_trust(facts),
        _judge_choice(facts),
        _judge_motion(facts),
    ]


WORDS: tuple[dict[str, str], ...] = (
    {"good": "accurate", "fair": "fairly accurate", "poor": "not accurate"},
    {"good": "smooth", "fair": "somewhat rough", "poor": "rough"},
    {"good": "on time", "fair": "a little off in time", "poor": "off in time"},
    {},
    {},
    {"fair": "not quite like a person", "poor": "unlike a person"},
)


def headline(said: list[Answer]) -> str:
    """Say in a few words what the answers come to: the first three, and the last where it is not good.

    >>> headline([{"mood": "good"}, {"mood": "fair"}, {"mood": "unknown"}])
    'Accurate and somewhat rough.'
    """
    words = [kinds[one["mood"]] for kinds, one in zip(WORDS, said, strict=False) if one["mood"] in kinds]
    text = _join(words) if words else "nothing could be measured"
    return f"{text[0].upper()}{text[1:]}."


def _answer(question: str, mood: str, said: str, lead: str | None = None) -> Answer:
    before = LEADS.get(mood, "") if lead is None else lead
    text = f"{before}: {said}" if before else f"{said[0].upper()}{said[1:]}"
    return {"question": question, "answer": text, "mood": mood}


def _tell_divergence(facts: Facts) -> str:
    return f"its roll-out left every reasonable range in {facts.diverged} of {_count(facts.sequences)}."


def _judge_accuracy(facts: Facts) -> Answer:
    question = "Is it accurate?"
    if facts.diverged:
        return _answer(question, "poor", _tell_divergence(facts))
    if math.isnan(facts.error) or math.isnan(facts.held):
        return _answer(question, "unknown", "there was nothing to measure it on.")
    if facts.held == 0.0:
        return _answer(question, "unknown", "the expert never moves here, so there is nothing to imitate.")
    share = facts.error / facts.held
    over = facts.error / facts.simple[1] if facts.simple is not None and facts.simple[1] > 0.0 else 0.0
    mood = "good" if share < MUCH_LESS and over <= ABOUT_EQUAL else "fair"
    if share >= 1.0 or over > FAR_WORSE:
        mood = "poor"
    off = [f"{value:.3g} in {name}" for name, value in facts.rmse.items() if not math.isnan(value)]
    said = f"typically off by {_join(off)}, " if 0 < len(off) <= 3 else ""
    said += f"{_format_share(share)} the error of holding the last action"
    if facts.simple is not None and over > 0.0:
        said += f" and {_format_share(over)} that of the best {facts.others} ({facts.simple[0]})"
    if over > ABOUT_EQUAL:
        said += f". The {facts.others} does better"
    return _answer(question, mood, f"{said}.")


def _judge_smoothness(facts: Facts) -> Answer:
    question = "Is it smooth?"
    if facts.diverged:
        return _answer(question, "poor", _tell_divergence(facts))
    if math.isnan(facts.roughness):
        return _answer(question, "unknown", "the expert never turns here, so there is nothing to compare with.")
    mood = "good" if facts.roughness <= SMOOTH else "fair" if facts.roughness <= ROUGH else "poor"
    said = phrase_roughness(facts.roughness)
    if 1.0 / SMOOTH <= facts.roughness <= SMOOTH:
        said = f"about as smooth as the expert ({facts.roughness:.2f} times as rough)"
    return _answer(question, mood, f"{said}.")


def _judge_lag(facts: Facts) -> Answer:
    question = "Is it late?"
    if math.isnan(facts.lag):
        why = "its roll-out diverged" if facts.diverged else "where nothing moves, nothing can be late"
        return _answer(question, "unknown", f"it cannot be told: {why}.")
    late = abs(facts.lag)
    if late < 0.5:
        return _answer(question, "good", f"on time, within half a frame.{_tell_behind(facts)}", "No")
    pace = 0.0 if math.isnan(facts.pace) else facts.pace
    good, fair = max(FEW_FRAMES, ON_TIME * pace), max(2.0 * FEW_FRAMES, LATE * pace)
    mood = "good" if late <= good else "fair" if late <= fair else "poor"
    if facts.lag < 0.0:
        lead, word = "No", "early"
    else:
        lead, word = {"good": "Hardly", "fair": "A little", "poor": "Yes"}[mood], "late"
    said = (
        phrase_lag(facts.lag) if facts.rate is None else f"{late:.1f} frames ({late / facts.rate * 1e3:.0f} ms) {word}"
    )
    if pace > 0.0:
        said += f"; the expert takes {format_time(pace, facts.rate)} to move by one standard deviation"
    return _answer(question, mood, f"{said}.{_tell_behind(facts)}", lead)


def _tell_behind(facts: Facts) -> str:
    return f" In the recordings {facts.behind}." if facts.behind else ""


def _judge_trust(facts: Facts) -> Answer:
    question = "Can I trust it?"
    if facts.diverged:
        return _answer(question, "poor", _tell_divergence(facts))
    reasons, doubts = list_grounds(facts)
    mood = "poor" if facts.radius >= 1.0 else "fair" if doubts else "good"
    lead = {"good": "So far, yes", "fair": "With care", "poor": "No"}[mood]
    return _answer(question, mood, f"{'; but '.join(_join(p) for p in (reasons, doubts) if p)}.", lead)


def list_grounds(facts: Facts) -> tuple[list[str], list[str]]:
    """Return what speaks for trust in a policy, and what against it."""
    if facts.diverged:
        return [], [_tell_divergence(facts).removesuffix(".")]
    reasons, doubts = [], []
    if facts.radius >= 1.0:
        doubts.append(f"its smoother does not settle by itself (radius {facts.radius:.4f})")
    elif not math.isnan(facts.radius):
        reasons.append("its smoother settles by itself")
    if math.isnan(facts.surprise):
        doubts.append("the training made no forecast of its error to compare with")
    elif facts.surprise <= SURPRISE:
        less = facts.surprise < 1.0 / SURPRISE
        reasons.append(f"the held-out error is {'less than' if less else 'what'} the training expected")
    else:
        doubts.append(f"the held-out error is {facts.surprise:.2g} times what the training expected")
    if facts.sequences < FEW_SEQUENCES:
        doubts.append(f"{_count(facts.sequences)} tell{'s' if facts.sequences == 1 else ''} little")
    else:
        reasons.append(f"it never ran away in {_count(facts.sequences)}")
    if facts.simpler:
        doubts.append("something simpler did better in training (see the notes)")
    return reasons, doubts


def _judge_choice(facts: Facts) -> Answer:
    question = "How smooth should I choose?"
    if facts.path is None or math.isnan(facts.roughness):
        return _answer(question, "unknown", "not measured: no other smoothness was tried on these sequences.")
    here, smoother, rougher = (facts.path.error_at(facts.roughness * factor) for factor in (1.0, 0.5, 2.0))
    here = facts.error if math.isnan(here) else here
    said, mood = [], "good"
    if not math.isnan(smoother / here):
        cheap = smoother / here - 1.0 < CHEAP
        said.append(
            "half as rough costs next to nothing: ask for more smoothness"
            if cheap
            else f"half as rough has {_format_share(smoother / here)} the error"
        )
        mood = "fair" if cheap else mood
    if not math.isnan(rougher / here):
        gain = 1.0 - rougher / here
        if gain > WORTH:
            said.append(f"twice as rough saves {gain:.0%} of the error: ask for less smoothness if you can bear it")
            mood = "fair"
        else:
            said.append(f"twice as rough saves {gain:.0%} of the error" if gain > 0.005 else "rougher is no better")
    if not said:
        said, mood = ["the policies that were tried do not reach half or twice this roughness"], "unknown"
    knee = facts.path.knee()
    if knee is not None:
        where = f"smoothness {knee.smoothness:.3g}, {format_time(knee.lag, facts.rate)} of lag"
        said.append(f"the curve bends at roughness {knee.roughness:.2g} ({where})")
    lead = {"good": "As it is", "fair": "Think again", "unknown": ""}[mood]
    return _answer(question, mood, f"{'; '.join(said)}.", lead)


def _judge_motion(facts: Facts) -> Answer:
    question = "Does it look like a person?"
    if facts.diverged:
        return _answer(question, "poor", _tell_divergence(facts))
    order = ("unknown", "good", "fair", "poor")
    known = [m for m in facts.moves if m.mood != "unknown"]
    if not known:
        return _answer(question, "unknown", "it was not measured, or the expert never moves here.")
    # Those at fault first.
    known.sort(key=lambda m: (-order.index(m.mood), -m.reversals[0] / (m.reversals[1] or 1.0)))
    worst, named = known[0], known[:MOST_NAMED]
    per = "in 1,000 frames" if facts.rate is None else "a minute"
    said = "; ".join(_tell_moves(m, per if i == 0 else "") for i, m in enumerate(named))
    if rest := known[MOST_NAMED:]:
        fault = "some no better" if rest[0].mood != "good" else "as the expert"
        said += f"; {len(rest)} more, {fault}"
    if worst.mood != "good" and worst.frozen:
        said += f". {worst.action} hardly moves: ask for a narrower hold (--hold) or less smoothness"
    elif worst.mood != "good":
        wider = f"a hold wider than {worst.hold:.2g}" if worst.hold > 0.0 else "a hold of 0.1"
        said += f". For a calmer {worst.action} ask for {wider} (--hold)"
    return _answer(question, worst.mood, f"{said}.")


def _tell_moves(moves: Moves, per: str) -> str:
    """Say how an action moves: in full where it is said how often, `per`, else short."""
    (turns, theirs), (rest, expected) = (
        (f"{n:.0f}" if n >= 10.0 else f"{n:.2g}" for n in moves.reversals),
        (f"{share:.0%}" for share in moves.still),
    )
    if not per:
        return f"{moves.action} {turns} ({theirs}) and {rest} ({expected})"
    return (
        f"{moves.action} reverses {turns} times {per} (the expert {theirs}) and rests {rest} of the time "
        f"(the expert {expected})"
    )


def format_time(frames: float, rate: float | None) -> str:
    """Say how long something takes.

    >>> format_time(3.0, None), format_time(3.0, 25.0), format_time(60.0, 25.0)
    ('3.0 frames', '120 ms', '2.4 s')
    """
    if rate is None:
        return f"{frames:.1f} frames"
    seconds = frames / rate
    return f"{seconds * 1e3:.0f} ms" if seconds < 1.0 else f"{seconds:.1f} s"


def _format_share(ratio: float) -> str:
    """Write a ratio so that it is read at a glance."""
    return f"{ratio:.0%} of" if ratio < 1.995 else f"{ratio:.1f} times"


def _count(n: int) -> str:
    return f"{n} held-out sequence{'' if n == 1 else 's'}"


def _join(parts: list[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)
