"""What this code's numbers are, in a few letters: pages that quote numbers carry it, and a test finds what is stale."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

import simile
from simile._common.files import read_text, write_atomically
from simile._common.typing import Trajectories
from simile.camera.courts import BASKETBALL, SOCCER, Court
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate
from simile.data import tasks
from simile.data.delays import summarize_delays
from simile.data.demonstrations import Demonstrations
from simile.data.losses import Absolute, Huber
from simile.errors import ArgumentError
from simile.evaluation.rivals import ROSTER, Bench, roll_out
from simile.learning import ALGORITHMS, algorithms, holds, mixture
from simile.metrics import estimate
from simile.models import Criterion, SmoothForest
from simile.policies.rollouts import rollout

LONGEST_PAGE = 1 << 24  # bytes
STAMP = re.compile(
    r"fingerprint((?: [a-z]+=[0-9a-f]{8})+) of simile (\S+); renewed by: (.+?)(?=$| -->|\")", re.MULTILINE
)


def stamp(*parts: str, renew: str) -> str:
    """Return the line that says which numbers of the code a page shows, and which command renews it.

    Parameters
    ----------
    parts : str
        What the page depends on, see `PARTS`.
    renew : str
        The command that writes the page.
    """
    values = " ".join(f"{part}={fingerprint(part)}" for part in parts)
    return f"fingerprint {values} of simile {simile.__version__}; renewed by: {renew}"


def find_stamp(text: str) -> str:
    """Return the stamp of something that was printed, to go with what is quoted of it."""
    if found := STAMP.search(text):
        return found[0]
    raise ArgumentError("text has no fingerprint: print `stamp(...)` above the numbers, and quote those")


def find_stale(text: str) -> Iterator[str]:
    """Yield a sentence for each stamp in a page that is not that of this code."""
    for values, version, renew in STAMP.findall(text):
        for part, value in re.findall(r"(\w+)=(\w+)", values):
            if (now := fingerprint(part)) != value:
                yield f"the numbers of {part!r} are those of fingerprint {value} (simile {version}), not {now}: {renew}"


def write_block(page: str | os.PathLike[str], name: str, text: str, stamped: str) -> None:
    """Write what a command has measured into a page, between `<!-- name:begin -->` and `<!-- name:end -->`.

    Parameters
    ----------
    page : path
        Markdown; replaced whole or not at all.
    name : str
        Of the block, which must be there once.
    text : str
        Markdown that takes the place of what is there.
    stamped : str
        From `stamp`, or from `find_stamp` where a file is quoted that was printed before.
    """
    stamped = find_stamp(stamped)
    before = read_text(Path(page), longest=LONGEST_PAGE)
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    parts = re.split(f"({re.escape(begin)}|{re.escape(end)})", before)
    if parts[1::2] != [begin, end]:
        raise ArgumentError(f"{page} must have {begin} and, below it, {end} once; mark the place, and write again")
    block = f"\n<!-- {stamped} -->\n\n{text.strip()}\n\n"
    write_atomically(page, "".join((*parts[:2], block, *parts[3:])).encode())


@cache
def fingerprint(part: str) -> str:
    """Return eight letters for the numbers of a part; see `compute`."""
    return compute(part)


def compute(part: str) -> str:
    """Train and roll out, and return the hash of a few numbers, each rounded to four digits.

    Processors differ in the last places, by which a digit of these hardly ever changes; what was changed in the code,
    if it changes numbers at all, changes many of them.
    """
    if part not in PARTS:
        raise ArgumentError(f"part must be among {', '.join(PARTS)}; got {part!r}")
    numbers = " ".join(f"{float(value) + 0.0:.3e}" for value in PARTS[part]())
    return hashlib.sha256(numbers.encode()).hexdigest()[:8]


def _rounds() -> Iterator[float]:
    """Run Algorithm 1 and what the paper compares it with, with forests of both criteria."""
    train, test = _small(1)
    for name in ALGORITHMS[1:]:
        run = getattr(algorithms, name)(train, n_rounds=2, smoothness=10.0)
        yield from _measure(rollout(run.policy, test, seed=0), test)
        yield from (turn.beta for turn in run.rounds)
    for criterion in Criterion:
        run = algorithms.paper(train, n_rounds=1, model=SmoothForest(n_trees=5, criterion=criterion))
        yield from _measure(rollout(run.policy, test), test)


def _learn() -> Iterator[float]:
    """Run the default for two actions with a hold; its weights, the simple filter beside it, and its thresholds."""
    train, test = _small(2)
    run = algorithms.learn(train)
    yield from _measure(rollout(run.policy, test), test)
    yield from (weight for row in run.mixed for weight in row["weights"])
    yield from () if run.simple is None else (run.simple.score.error, run.simple.score.roughness)
    for model in mixture.Choices.of(train).models:  # of which some may have no weight there
        yield from _measure(rollout(algorithms.learn(train, model=model, smoothness=30.0).policy, test), test)
    yield from (mixture.FLAT, holds.COST)


def _outliers() -> Iterator[float]:
    """Run the default by the losses for records with outliers."""
    train, test = _small(1)
    wrong = train.with_actions([np.where(np.arange(len(a)) % 50 == 7, 1e3, a.T).T for a in train.actions])
    for loss in (Huber(), Absolute()):
        yield from _measure(rollout(algorithms.learn(wrong, loss=loss, smoothness=30.0).policy, test), test)


def _rivals() -> Iterator[float]:
    """Fit a filter of each kind behind a predictor, and both that look ahead."""
    train, test = _small(1)
    for rival in ROSTER:
        if rival.name.startswith(("ridge", "look")):
            points = rival.fit(Bench(train, test, 0)).points
            for point in points[:: len(points) - 1]:
                yield from _measure(roll_out(point.controller, test, 10), test)


def _delays() -> Iterator[float]:
    """Tell how late a simulated expert is."""
    for told in summarize_delays(tasks.pursuit(n_sequences=8, length=400, seed=0)):
        yield from (told.frames, told.low, told.correlation)


def _games() -> Iterator[float]:
    """Make simulated games and what a policy is told of them: the default, of basketball and a pan."""
    yield from _tell(BASKETBALL, axes=1)


def _soccer() -> Iterator[float]:
    """Make the same of soccer."""
    yield from _tell(SOCCER, axes=1)


def _axes() -> Iterator[float]:
    """Make the same with tilt and zoom, of both."""
    for sport in (BASKETBALL, SOCCER):
        yield from _tell(sport, axes=3)


def _tell(sport: Court, axes: int) -> Iterator[float]:
    game = demonstrations(simulate(1, minutes=0.2, sport=sport, axes=axes, seed=0))[0]
    for values in (game.actions, game.contexts):
        yield from np.abs(values).mean(axis=0)


def _intervals() -> Iterator[float]:
    """Estimate a ratio over recordings, with its interval."""
    rows = np.random.default_rng(3).lognormal(size=(2, 8, 1))
    found = estimate(lambda above, below: float(above[0] / below[0]), *rows, positive=True)
    yield from (found.value, found.low, found.high)


PARTS: dict[str, Callable[[], Iterable[float]]] = {
    "rounds": _rounds,
    "learn": _learn,
    "outliers": _outliers,
    "rivals": _rivals,
    "delays": _delays,
    "games": _games,
    "soccer": _soccer,
    "axes": _axes,
    "intervals": _intervals,
}


def _small(n_actions: int) -> tuple[Demonstrations, Demonstrations]:
    items = tasks.pursuit(n_sequences=5, length=160, seed=0).items
    if n_actions == 2:  # the second rests for about half of the time
        both = [np.column_stack((d.actions, np.maximum(d.actions, d.actions.mean()))) for d in items]
        items = tuple(replace(d, actions=a, action_names=("pan", "tilt")) for d, a in zip(items, both, strict=True))
    return Demonstrations(items[:4]), Demonstrations(items[4:])


def _measure(rolled: Trajectories, expert: Demonstrations) -> Iterator[float]:
    for made, actions in zip(rolled, expert.actions, strict=True):
        yield from np.abs(made - actions).mean(axis=0)
        yield from np.abs(np.diff(made, n=2, axis=0)).mean(axis=0)
