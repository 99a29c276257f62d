"""What does not fit between games, or between them and a policy: each a sentence with numbers and the way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from simile._common.typing import FloatArray
from simile.camera.courts import COURTS, Court
from simile.camera.features import Features
from simile.camera.games import Game
from simile.camera.pace import same_pace
from simile.camera.retarget import court_of
from simile.camera.tracking.units import METRES
from simile.errors import DataError
from simile.policies.cards import Card
from simile.policies.fit import Fit

MARGIN = 2.0  # metres beside a court that still belong to it, as in `Features`
FEW, MOST = 0.1, 0.5  # shares: of positions off the court, or frames without any, that are told
FITS = 0.95  # of the positions must lie on a court that is proposed
SLOWEST = 5.0  # frames a second that a camera can be moved by
SMALL = 0.1  # of a court: who all stay within that are not in metres
ENOUGH = 100  # frames, to judge motion by
BACKWARDS, BESIDE = -0.3, 20.0  # correlation of the operator with the players, and degrees between them


def doubt_games(name: str, games: Sequence[Game]) -> list[str]:
    """Return what seems wrong with the games of a file, each on the same court.

    Raises
    ------
    DataError
        When there is nobody on the court at all.
    """
    court = games[0].court
    seen = np.concatenate([game.detections.reshape(-1, 2) for game in games])
    seen = seen[np.isfinite(seen).all(axis=1)]
    if not len(seen):
        raise DataError(f"{name}: nobody was detected in any of its {sum(map(len, games)):,} frames")
    doubts = [*_doubt_places(seen, court), *_doubt_frames(games)]
    if not court.inside(seen, MARGIN).any():
        raise DataError(f"{name}: {doubts[0]}")
    return [f"{name}: {doubt}" for doubt in doubts]


def doubt_fit(card: Card, games: Sequence[Game], features: Features) -> list[str]:
    """Return in what games differ from those that the policy with this card was trained on."""
    return [*_doubt_court(card, games), *_doubt_pace(card, games), *_doubt_contexts(card, games, features)]


def _doubt_places(seen: FloatArray, court: Court) -> Iterator[str]:
    """Say where positions (N, 2) are off the court, or all in one spot of it, and what they might be in."""
    size = f"the court ({court.length:g} x {court.width:g} m)"
    off = 1.0 - court.inside(seen, MARGIN).mean()
    if off > FEW:
        reach = " and ".join(f"{axis} from {a:.4g} to {b:.4g}" for axis, a, b in zip("xy", *_reach(seen), strict=True))
        ways = (
            "; ".join(_find_ways(seen, court)) or "is the court right (--court), and what positions are in (--units)?"
        )
        yield f"{off:.0%} of the positions lie off {size}, with {reach}: {ways}"
    elif len(seen) >= ENOUGH and (np.ptp(_reach(seen), axis=0) < SMALL * np.array([court.length, court.width])).all():
        along, across = np.ptp(_reach(seen), axis=0)
        yield f"all positions lie within {along:.2g} x {across:.2g} m of {size}: what are they in (--units)?"


def _reach(seen: FloatArray) -> FloatArray:
    """Return between what (2, 2) positions lie, but for a few."""
    return np.asarray(np.percentile(seen, [1.0, 99.0], axis=0))


def _find_ways(seen: FloatArray, court: Court) -> Iterator[str]:
    """Yield what would bring positions onto the court, or which court they would be on."""
    half = np.array([court.length, court.width]) / 2.0
    for units, metres in METRES.items():
        told = "" if units == "metres" else f" --units {units}"
        for middle, where in (
            (0.0 * half, ""),
            (half / metres, f" --middle {half[0] / metres:.4g},{half[1] / metres:.4g}"),
        ):
            there = (seen - middle) * metres
            wide = np.ptp(_reach(there), axis=0) > [court.length / 3.0, court.width / 3.0]
            if told + where and wide.all() and court.inside(there, MARGIN).mean() > FITS:
                from_corner = " from a corner" if where else ""
                yield f"are they in {units}{from_corner}?{told}{where}"
    for other in COURTS.values():
        far = np.abs(_reach(seen)).max(axis=0) / [other.length / 2.0, other.width / 2.0]
        if other != court and other.inside(seen, MARGIN).mean() > FITS and (far > 0.7).all():
            yield f"is it {other.name}? --court {other.name}"


def _doubt_frames(games: Sequence[Game]) -> Iterator[str]:
    """Say where frames are few or empty, or the operator does not look where the players are."""
    if games[0].rate < SLOWEST:
        yield (
            f"{games[0].rate:.3g} frames a second are too few to move a camera by: are the times right, or were frames "
            "left out? --rate tells what a file does not say"
        )
    counts = np.concatenate([np.isfinite(game.detections).all(axis=2).sum(axis=1) for game in games])
    if (empty := (counts == 0).mean()) > FEW:
        yield f"nobody is detected in {empty:.0%} of the {len(counts):,} frames: a policy is blind there, and waits"
    pairs = [_aims(game) for game in games if game.actions is not None]
    pan, middle = np.concatenate(pairs).T if pairs else np.empty((2, 0))
    if len(pan) < ENOUGH or min(np.std(pan), np.std(middle)) < 1e-3:
        return
    alike, beside = float(np.corrcoef(pan, middle)[0, 1]), float(np.median(pan - middle))
    if alike < BACKWARDS:
        yield (
            f"the operator pans the other way than the players run (correlation {alike:.2f}): does his pan count to "
            f"the left, or does he stand on the far side? --camera 0,{-games[0].camera.position[1]:g},"
            f"{games[0].camera.position[2]:g},180"
        )
    elif alike > MOST and np.std(pan) < np.std(middle) / 25.0:
        yield (
            f"the operator's pan varies by {np.std(pan):.2g} and the players by {np.std(middle):.2g} degrees: is it in "
            "radians? Write degrees"
        )
    elif abs(beside) > BESIDE:
        yield (
            f"the operator looks {beside:.0f} degrees beside the players, as seen from {games[0].camera}: where does "
            "the camera stand? --camera x,y,z,heading"
        )


def _aims(game: Game) -> FloatArray:
    """Return the operator's pan and that of the players' middle, (T, 2), where both are known."""
    points = np.where(game.court.inside(game.detections, MARGIN)[..., np.newaxis], game.detections, np.nan)
    known = np.isfinite(points[..., 0]).any(axis=1)
    middle = np.nanmedian(points[known], axis=1)
    assert game.actions is not None
    both = np.column_stack([game.actions[known, 0], game.camera.aim(middle)[0]])
    return both[np.isfinite(both).all(axis=1)]


def _doubt_court(card: Card, games: Sequence[Game]) -> Iterator[str]:
    own, court = court_of(card), games[0].court
    if own is not None and not np.allclose([own.length, own.width], [court.length, court.width]):
        yield f"the policy was trained on the court {own}, and this is {court}: name the right one by --court"


def _doubt_pace(card: Card, games: Sequence[Game]) -> Iterator[str]:
    if card.rate is not None and not same_pace(card.rate, games[0].rate):
        yield (
            f"the policy was trained at {card.rate:g} frames a second, and there are {games[0].rate:g}: it acts "
            f"{card.rate:g} times a second on what was seen last; for one of this pace, simile train --resample "
            f"{games[0].rate:g}"
        )


def _doubt_contexts(card: Card, games: Sequence[Game], features: Features) -> Iterator[str]:
    """Say where contexts lie outside the training's range in most frames; the number of players first."""
    contexts = [features.batch(game.detections) for game in games]
    fit, m = Fit.of(card, contexts), len(features.names)
    if (ranges := card.ranges(m)) is None:
        return
    count = features.names.index("count")
    if fit.outside[count] > MOST * fit.known[count]:
        usual = float(np.median(np.concatenate([x[:, count] for x in contexts])))
        yield (
            f"{usual:.0f} players are seen at once, and the policy was trained on {ranges[0][count]:.0f} to "
            f"{ranges[1][count]:.0f}: train it on games of this sport, or leave out who does not play"
        )
    others = np.arange(m) != count
    yield from replace(fit, outside=np.where(others, fit.outside, 0)).doubts(card)
