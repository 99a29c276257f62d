"""Time ahead and time behind: policies that may wait, must aim ahead, or know what comes.

A policy with a `lead` acts at time t for frame t + lead: below 0 it may wait, above 0 its actuator is late. All that
differs is which contexts a state holds beside an action (`Horizon.offsets`). What is known ahead is one more context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from simile._common import checks
from simile._common.text import count
from simile._common.typing import FloatArray
from simile.errors import ArgumentError

LONGEST = 100_000  # frames
SHARES = (0.26, 0.5, 1.0)  # of how far ahead a context is known, where it is looked at

Known = tuple[tuple[int, int], ...]  # columns, and how many frames ahead each is known
Ahead = Mapping[str, float | Sequence[float]]  # by names or patterns, in seconds; in frames where there is no rate


def delay(contexts: FloatArray, frames: int) -> FloatArray:
    """Return contexts (T, m) so many frames late, or as they are for none or fewer: the first has lasted.

    >>> delay(np.arange(4.0), 2)
    array([0., 0., 0., 1.])
    """
    return contexts if frames <= 0 else contexts[np.maximum(np.arange(len(contexts)) - frames, 0)]


def look_ahead(contexts: FloatArray, known: Known) -> FloatArray:
    """Append columns that are known ahead, each so many frames early; NaN, missing, from the end on.

    >>> look_ahead(np.array([[1.0], [2.0], [3.0]]), ((0, 2),))
    array([[ 1.,  3.],
           [ 2., nan],
           [ 3., nan]])
    """
    if not known:
        return contexts
    ahead = np.full((len(contexts), len(known)), np.nan)
    for j, (column, frames) in enumerate(known):
        ahead[: max(len(contexts) - frames, 0), j] = contexts[frames:, column]
    return np.concatenate([contexts, ahead], axis=1)


def name_ahead(names: Sequence[str], known: Known) -> tuple[str, ...]:
    """Name the columns that `look_ahead` appends.

    >>> name_ahead(["curve"], ((0, 30),))
    ('curve[t+30]',)
    """
    return tuple(f"{names[column]}[t+{frames}]" for column, frames in known)


def count_frames(seconds: float, rate: float | None, name: str) -> int:
    """Return a time as frames: seconds, or frames where nobody knows how long one takes.

    >>> count_frames(-0.5, 30.0, "lead"), count_frames(3, None, "lead")
    (-15, 3)
    """
    seconds = checks.number(seconds, name)
    if rate is None and seconds != round(seconds):
        raise ArgumentError(
            f"{name} must be a whole number of frames where the demonstrations have no rate; got {seconds:g}: give "
            "them one, rate=... (--rate)"
        )
    frames = round(seconds * (rate or 1.0))
    if abs(frames) > LONGEST:
        raise ArgumentError(f"{name} must be at most {count(LONGEST, 'frame')} either way; got {frames:,}")
    return frames


def find_known(ahead: Ahead, names: Sequence[str], rate: float | None) -> Known:
    """Return the columns whose names match, and how many frames ahead each is looked at, the nearest first.

    Where one number says how far ahead a column is known, it is looked at there, half-way and a quarter of the way:
    lags, which are dense behind each of these, fill the gaps.

    >>> find_known({"curv_*": (1.0, 0.5)}, ["speed", "curv_1", "curv_2"], 30.0)
    ((1, 15), (2, 15), (1, 30), (2, 30))
    >>> find_known({"speed": 1.0}, ["speed", "curv_1"], 30.0)
    ((0, 8), (0, 15), (0, 30))
    """
    if not isinstance(ahead, Mapping):
        raise ArgumentError(f"known must say how far ahead contexts are known, {{'curv_*': 1.0}}; got {ahead!r}")
    found = set()
    for pattern, far in ahead.items():
        columns = [i for i, name in enumerate(names) if fnmatchcase(name, pattern)]
        if not columns:
            listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
            raise ArgumentError(f"known must name contexts; got {pattern!r}, and they are {listed}")
        given: Sequence[float] = far if isinstance(far, Sequence) else [far]
        frames = [count_frames(one, rate, "known") for one in given]
        if min(frames, default=0) < 1:
            raise ArgumentError(f"known must be ahead, by a frame or more; got {far} for {pattern!r}")
        if not isinstance(far, Sequence):
            frames = [max(1, round(share * frames[0])) for share in SHARES]
        found |= {(n, column) for n in frames for column in columns}
    return tuple((column, n) for n, column in sorted(found))


def read_known(texts: Sequence[str]) -> dict[str, float | tuple[float, ...]]:
    """Return what is known ahead from texts, as commands have it.

    >>> read_known(["curv_*=1.0", "score=0.5,1"])
    {'curv_*': 1.0, 'score': (0.5, 1.0)}
    """
    found: dict[str, float | tuple[float, ...]] = {}
    for text in texts:
        pattern, sign, far = text.rpartition("=")
        try:
            seconds = tuple(float(one) for one in far.split(","))
        except ValueError:
            sign = ""
        if not sign or not pattern or pattern in found:
            raise ArgumentError(
                f"known must be PATTERN=SECONDS, such as 'curv_*=1.0' or 'score=0.5,1', each once; got {text!r}"
            )
        found[pattern] = seconds[0] if len(seconds) == 1 else seconds
    return found


def tell_lead(frames: int, rate: float | None) -> str:
    """Say what a lead means; nothing of none.

    >>> tell_lead(-15, 30.0)
    'waits 15 frames (0.5 s): the answer to a frame comes with the 15th after it'
    >>> tell_lead(3, None)
    'aims 3 frames ahead: what it says at a frame is for the 3rd after it'
    """
    n = abs(frames)
    if n == 0:
        return ""
    long = count(n, "frame") + ("" if rate is None else f" ({n / rate:.3g} s)")
    which = f"{n}{'th' if n % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')} after it"
    if frames < 0:
        return f"waits {long}: the answer to a frame comes with the {which}"
    return f"aims {long} ahead: what it says at a frame is for the {which}"
