"""Columns that are no contexts: labels of recordings, clocks, copies of the action, and effects of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from simile._common.text import count, escape
from simile._common.typing import FloatArray, IntArray
from simile.data.names import list_some
from simile.data.sanity.problem import Problem, list_columns, solve_ridge

if TYPE_CHECKING:
    from simile.data.demonstrations import Demonstrations

MOST_ROWS, MOST_NUMBERS = 10_000, 250_000  # that regressions look at, in recordings or stretches of them
LABEL_RUN, JUMP = 30, 8.0  # frames that a label lasts at least, and times the usual step that others move where it ends
LEAST_JUMPING, MOST_JUMP, FEW = 3, 0.8, 4  # columns that move; share that jumps where recordings join; frames
LEAST_STEPS = 200  # of which a ramp is no chance
EVEN = 0.2  # of the mean step, at most, that the steps of a clock differ
SAME, NEARLY = 0.99998, 0.985  # correlations of an exact copy of the action, and of a noisy one
REACH = 2.0  # seconds, or frames times 30, that a copy may be shifted
PAST = (1, 2, 3, 5, 8, 13, 21)  # frames back that an effect may follow from
LEAST_ROWS = 1_000  # of which effects can be told
FOLLOWS = 0.3  # of what is new in a column that the action's past has to tell, for an effect
MATTERS = 0.2  # of the squared error that has to go by effects, for them to be told
MOST_OTHERS = 30  # contexts, up to which all are asked what they tell of one of them


def find_labels(demos: Demonstrations) -> Iterator[Problem]:
    """Find whole numbers that last, and where the others jump as they change: recordings that were joined."""
    columns = [(name, parts) for name, _, parts in list_columns(demos)]
    for j, (name, parts) in enumerate(columns[demos.n_actions :], start=demos.n_actions):
        values = np.concatenate(parts)
        if not np.isfinite(values).all() or (values != np.floor(values)).any():
            continue
        changes = np.concatenate([np.append(np.diff(part) != 0.0, False) for part in parts])
        n = int(changes.sum())
        if n == 0 or len(values) < LABEL_RUN * (n + 1):
            continue
        others = [_scale_steps(other) for i, (_, other) in enumerate(columns) if i != j]
        jumping = [np.median(steps[changes]) > JUMP for steps in others if steps is not None]
        if len(jumping) >= 2 and np.mean(jumping) > 0.6:
            yield Problem(
                "label",
                (name,),
                f"{escape(name)} is a whole number that lasts, and where it changes all others jump: it tells "
                f"recordings apart, which were joined here; name it with sequence={name!r} (--sequence)",
                certain=True,
            )
            return


def find_joined_sequences(demos: Demonstrations) -> Iterator[Problem]:
    """Find rows at which nearly all columns jump, and stay there: other recordings begin, which nothing tells apart.

    Contexts may jump for a reason, but an action follows them; it does not jump with them.
    """
    counts, by_action, n, n_actions = np.zeros(demos.n_frames, np.intp), np.ones(demos.n_frames, np.bool_), 0, 0
    for _, is_action, parts in list_columns(demos):  # one by one: together they take more memory than the data
        if (steps := _scale_steps(parts, lasting=True)) is not None:
            counts += steps > JUMP
            n += 1
            if is_action:
                by_action &= steps > JUMP
                n_actions += 1
    if not n_actions or n < LEAST_JUMPING:
        return
    starts = np.cumsum([0, *map(len, demos.actions)])
    jumping = by_action & (counts > MOST_JUMP * n)
    for start in starts:  # what begins a recording, or ends it, is a glitch
        jumping[max(0, start - LABEL_RUN) : start + LABEL_RUN] = False
    rows = np.flatnonzero(jumping)
    if 0 < len(rows) <= len(jumping) / (2 * LABEL_RUN):
        i = int(np.searchsorted(starts, rows[0], side="right")) - 1
        where = f"{escape(demos[i].name)}, row {rows[0] - starts[i] + 2}"
        yield Problem(
            "joint",
            demos.action_names,
            f"nearly all columns jump at {count(len(rows), 'row')}, the first in {where}: another sequence begins "
            "there (is a label used again, or rounded in a spreadsheet?), or frames are lost; give each its own label",
        )


def _scale_steps(parts: Sequence[FloatArray], *, lasting: bool = False) -> FloatArray | None:
    """Return the sizes of a column's steps over their median, one for each frame; None where it hardly moves.

    Where they are to be lasting, what is undone within a few frames, as an outlier is, counts as less.
    """
    steps = [np.append(np.abs(np.diff(part)), 0.0) for part in parts]
    joined = np.nan_to_num(np.concatenate(steps))
    usual = float(np.median(joined[joined > 0.0])) if (joined > 0.0).mean() > 0.5 else 0.0
    if lasting:
        for before, after in ((0, FEW), (FEW - 1, 1)):  # frames from which, and to which, it has moved as far
            rows = [np.arange(len(part)) for part in parts]
            ends = [(np.maximum(r - before, 0), np.minimum(r + after, len(r) - 1)) for r in rows]
            moved = [np.abs(part[last] - part[first]) for part, (first, last) in zip(parts, ends, strict=True)]
            joined = np.minimum(joined, np.nan_to_num(np.concatenate(moved)))
    return joined / usual if usual > 0.0 else None


def find_clocks(demos: Demonstrations) -> Iterator[Problem]:
    """Find contexts that only rise, by even steps, in every recording."""
    for name, is_action, parts in list_columns(demos):
        steps = [np.diff(part) for part in parts if len(part) > 1]
        if is_action or sum(map(len, steps)) < LEAST_STEPS:
            continue
        joined = np.concatenate(steps)
        if not np.isfinite(joined).all() or joined.min() <= 0.0:
            continue
        usual = float(np.median(joined))
        if np.mean(np.abs(joined - usual) <= EVEN * usual) > 0.9:
            yield Problem(
                "clock",
                (name,),
                f"{escape(name)} only rises, by even steps of {usual:.3g}: it is a clock or a counter, and no context; "
                f"name it with time={name!r} (--time), or leave it out",
            )


def find_action_copies(demos: Demonstrations) -> Iterator[Problem]:
    """Find contexts that are the action in another unit, later or earlier, with noise, its speed or its integral."""
    contexts, actions = _take_some(demos)
    if not contexts:
        return
    reach = max(3, round(REACH * (demos.rate or 15.0)))
    speeds = [[np.diff(x, axis=0, prepend=x[:1]) for x in some] for some in (contexts, actions)]
    kinds = (
        ("a copy of", contexts, actions, reach),
        ("the speed of", contexts, speeds[1], 2),
        ("the integral of", speeds[0], actions, 2),
    )
    told: set[str] = set()
    for what, ours, theirs, most in kinds:
        best, shifts = _correlate(ours, theirs, most)
        for j, name in enumerate(demos.context_names):
            k = int(np.argmax(np.abs(best[j])))
            found, shift = abs(float(best[j, k])), int(shifts[j, k])
            if name in told or found < (SAME if shift else NEARLY):
                continue
            told.add(name)
            how = "exactly" if found > SAME else f"but for noise (correlation {found:.3f})"
            when = f", {abs(shift)} frames {'later' if shift > 0 else 'earlier'}" if shift else ""
            yield Problem(
                "copy",
                (name,),
                f"{escape(name)} is {what} {escape(demos.action_names[k])}{when}, {how}: at work there is no action to "
                "copy before it is chosen; leave the column out",
            )


def _take_some(demos: Demonstrations) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return contexts and actions of some recordings, evenly spread, long ones in part; missing values are the mean."""
    known = np.sum([np.isfinite(x).sum(axis=0) for x in demos.contexts], axis=0)
    mean = np.sum([np.nansum(x, axis=0) for x in demos.contexts], axis=0) / np.maximum(known, 1)
    most = min(MOST_ROWS, max(LEAST_ROWS, MOST_NUMBERS // (3 * demos.n_contexts + 2 * len(PAST))))
    order = np.random.default_rng(0).permutation(len(demos))
    long = [i for i in order if len(demos[i]) > max(PAST)]
    contexts, actions, left = [], [], most
    for i in long:
        rows = min(len(demos[i]), max(most // 4, most // len(long)))
        if rows > left:
            break
        left -= rows
        contexts.append(np.where(np.isfinite(demos[i].contexts[:rows]), demos[i].contexts[:rows], mean))
        actions.append(demos[i].actions[:rows])
    return contexts, actions


def _correlate(
    contexts: Sequence[FloatArray], actions: Sequence[FloatArray], reach: int
) -> tuple[FloatArray, IntArray]:
    """Return the highest correlations (m, k) over shifts, and by how many frames contexts are then behind actions.

    Of those about as high the shift of none counts.
    """
    best, shifts = np.zeros((2, contexts[0].shape[1], actions[0].shape[1]))
    for shift in sorted(range(-reach, reach + 1), key=abs):
        after, before = max(shift, 0), max(-shift, 0)
        long = [(x, y) for x, y in zip(contexts, actions, strict=True) if len(x) > 2 * abs(shift) + 10]
        if not long:
            break
        xs = np.concatenate([x[after : len(x) - before] for x, _ in long])
        ys = np.concatenate([y[before : len(y) - after] for _, y in long])
        xs, ys = xs - xs.mean(axis=0), ys - ys.mean(axis=0)
        sizes = np.outer(np.sqrt(np.sum(xs**2, axis=0)), np.sqrt(np.sum(ys**2, axis=0)))
        found = np.divide(xs.T @ ys, sizes, out=np.zeros(sizes.shape), where=sizes > 0.0)
        better = np.abs(found) > np.abs(best) + 1e-5
        best[better], shifts[better] = found[better], shift
    return best, shifts.astype(np.intp)


def find_effects(demos: Demonstrations) -> Iterator[Problem]:
    """Find contexts that the action brings about, and how much of the accuracy is the action's own past coming back.

    A column follows from the action where the action's past tells what is new in it, beyond its own past and that of
    all other contexts (Granger 1969, "Investigating causal relations by econometric models and cross-spectral methods",
    Econometrica 37:424), in recordings that the regression has not seen.
    """
    tables, actions = _take_some(demos)
    if sum(map(len, tables)) < LEAST_ROWS or not all(np.ptp(np.concatenate(actions), axis=0)):
        return
    scale = np.concatenate(tables).std(axis=0)
    tables = [np.divide(x, scale, out=np.zeros_like(x), where=scale > 0.0) for x in tables]
    moving = np.flatnonzero(scale > 0.0).tolist()
    others = moving if len(moving) <= MOST_OTHERS else []
    found = [j for j in moving if _gain_from_actions(tables, actions, j, others) > FOLLOWS]
    if not found:
        return
    rest = [j for j in moving if j not in found]
    with_them, without = (_miss_actions([x[:, some] for x in tables], actions) for some in (moving, rest))
    share = 1.0 - with_them / without if without > 0.0 else 0.0
    if share < MATTERS:
        return
    # An error tells of its set-point as much as the other way round: found beside each other only, neither is accused.
    alone = [j for j in found if len(found) == 1 or _gain_from_actions(tables, actions, j, rest) > FOLLOWS]
    names, acted = tuple(demos.context_names[j] for j in alone or found), list_some(map(escape, demos.action_names))
    follow, them = ("follow", "them") if len(alone) > 1 else ("follows", "it" if alone else "that one")
    yield Problem(
        "effect",
        names,
        f"{'' if alone else 'one of '}{list_some(map(escape, names))} {follow} from {acted}: {share:.0%} of the "
        "squared error that the other contexts leave goes by the action's own past coming back. At work the policy "
        f"would listen to itself, and errors add up; leave {them} out, or try it at work: evaluate(policy, plant=...)",
    )


def _lag(values: FloatArray, lags: Sequence[int]) -> FloatArray:
    """Return values (T, n) some frames back, side by side, (T, lags * n); the first value lasts."""
    rows = np.arange(len(values))
    return np.hstack([values[np.maximum(rows - lag, 0)] for lag in lags])


def _halves(lengths: Sequence[int]) -> Iterator[tuple[list[tuple[int, slice]], list[tuple[int, slice]]]]:
    """Yield what to fit to and what to judge by, both ways: recordings in turn, or the halves of a single one."""
    if len(lengths) > 1:
        first, second = ([(i, slice(None)) for i in range(half, len(lengths), 2)] for half in (0, 1))
    else:
        middle = lengths[0] // 2
        first, second = [(0, slice(0, middle))], [(0, slice(middle, None))]
    yield first, second
    yield second, first


def _miss(inputs: Sequence[FloatArray], targets: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return squared errors of a ridge on each half by the other, (2,), and the squares of the targets there."""
    missed, totals = np.zeros((2, 2))
    for half, (fit, judge) in enumerate(_halves([len(x) for x in inputs])):
        X, Y = (np.concatenate([one[i][rows] for i, rows in fit]) for one in (inputs, targets))
        center, middle = X.mean(axis=0), Y.mean(axis=0)
        weights = solve_ridge(X - center, Y - middle, 1e-6)
        for i, rows in judge:
            errors = targets[i][rows] - middle - (inputs[i][rows] - center) @ weights
            missed[half] += float(np.sum(errors**2))
            totals[half] += float(np.sum((targets[i][rows] - middle) ** 2))
    return missed, totals


def _gain_from_actions(
    tables: Sequence[FloatArray], actions: Sequence[FloatArray], column: int, others: Sequence[int]
) -> float:
    """Return the share of what is new in a column, beyond its past and other contexts, that the action's past tells.

    The larger of two: with the others up to the frame before, and up to the same frame. An error is a set-point less a
    position, and new by what both do; but where position and error are both there, one tells the other.
    """
    steps = [np.diff(x[:, [column]], axis=0, prepend=x[:1, [column]]) for x in tables]
    rest, gains = [j for j in others if j != column], [0.0]
    for lags in ((1, 2), (0, 1, 2)) if rest else ((),):
        base = [np.hstack([_lag(x[:, [column]], PAST), *([_lag(x[:, rest], lags)] if rest else [])]) for x in tables]
        more = [np.hstack([b, _lag(a, PAST)]) for b, a in zip(base, actions, strict=True)]
        (alone, total), (both, _) = _miss(base, steps), _miss(more, steps)
        if (alone > 1e-9 * total).all():
            gains.append(float(np.min(1.0 - both / alone)))  # of both halves: one may be chance
    return max(gains)


def _miss_actions(tables: Sequence[FloatArray], actions: Sequence[FloatArray]) -> float:
    """Return the share of the action's variance that contexts and their past leave open."""
    if not tables[0].shape[1]:
        return 1.0
    scaled = [a / np.maximum(np.concatenate(actions).std(axis=0), 1e-300) for a in actions]
    missed, total = _miss([_lag(x, (0, *PAST)) for x in tables], scaled)
    return min(1.0, float(missed.sum() / total.sum())) if total.any() else 1.0
