"""The fused roll-out: forests, lines and a linear h, rolled out by one kernel with no Python in between."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from simile._common.threads import spread
from simile._common.typing import FloatArray, IntArray, PerAction, Trajectories
from simile.data.states import Horizon
from simile.errors import ArgumentError
from simile.models import Forest, Model, PiecewiseLinear, parts_of
from simile.models.regularizers import Autoregressor
from simile.policies.offset import Offset
from simile.policies.policies import Policy, SmoothPolicy

if TYPE_CHECKING:
    from simile.models.kernels.predicting import Lines, Trees
    from simile.models.kernels.rolling import Control

# Frames rolled out together: fewer are not worth a thread, and more need room.
FEWEST_FRAMES, MOST_FRAMES = 2_000, 50_000

# The arrays of the models fused last: a policy rolls out many times, and f stays when a filter behind it is tuned.
# No more of them, because those of a long mixture are as large as all its forests.
MOST_KEPT = 8
_kept: WeakKeyDictionary[Model, tuple[Horizon, tuple[Trees, Lines, int]]] = WeakKeyDictionary()
_lock = Lock()


@dataclass(frozen=True, eq=False)
class FusedPolicy:
    """All trees and terms of a collapsed policy in one array each, weighted, and its autoregressor."""

    trees: Trees
    lines: Lines
    width: int
    coefficients: FloatArray  # (order, k)
    smoothness: PerAction
    reach: int
    wait: int
    offset: Offset | None

    @classmethod
    def of(cls, policy: Policy) -> FusedPolicy | None:
        """Fuse a policy whose f is made of forests and lines and whose h is linear; None for others."""
        if not (isinstance(policy, SmoothPolicy) and isinstance(policy.h, Autoregressor)):
            return None
        found = _fuse(policy.f, policy.horizon, policy.h.coefficients.shape[1])
        if found is None:
            return None
        return cls(*found, policy.h.coefficients, policy.smoothness, policy.reach, policy.horizon.wait, policy.offset)

    def control(self, low: FloatArray, high: FloatArray, limit: float) -> Control:
        """Hand the policy to the kernels, with bounds (k,) in standard units."""
        from simile.models.kernels.rolling import Control

        coefficients = np.array(self.coefficients, order="C")  # from a file they may come in another order
        smoothness = np.array(np.broadcast_to(self.smoothness, coefficients.shape[1:]), dtype=np.float64)
        none = np.zeros_like(smoothness)
        share, fade = (none, none) if self.offset is None else (self.offset.share.copy(), self.offset.fade.copy())
        return Control(self.trees, self.lines, coefficients, smoothness, low, high, float(limit), share, fade)

    def roll(
        self,
        contexts: Trajectories,
        past: Trajectories,
        given: Trajectories,
        *,
        low: FloatArray,
        high: FloatArray,
        limit: float,
        first: FloatArray | None = None,
    ) -> tuple[list[FloatArray], tuple[int, int] | None]:
        """Roll sequences out in standard units; returns the actions and, where one diverged, which and when.

        `first` (2, k) are bounds of the first action that is not given.
        """
        n, k = len(contexts), self.coefficients.shape[1]
        m = self.width - k
        if wrong := next((x.shape[1] for x in contexts if x.shape[1] != m), 0):
            raise ArgumentError(f"contexts must have the {m} columns that f was fitted on; got {wrong}")
        lengths = np.array([len(x) for x in contexts])
        workers = max(1, min(os.cpu_count() or 1, n, int(lengths.sum()) // FEWEST_FRAMES))
        n_shares = min(n, workers * math.ceil(lengths.sum() / (workers * MOST_FRAMES)))
        shares = [np.arange(n)[i::n_shares] for i in range(n_shares)]
        control = self.control(np.broadcast_to(low, (k,)).copy(), np.broadcast_to(high, (k,)).copy(), limit)

        # Made here: what a thread makes is taken from a heap of its own, which keeps it when it is freed.
        sizes = [int((lengths[share] + self.reach + self.wait).sum()) for share in shares]
        made, rooms = [np.zeros((size, k)) for size in sizes], SimpleQueue[Any]()
        for _ in range(workers):
            rooms.put(np.empty((max(sizes), self.width), np.float32))

        def roll_share(given_out: tuple[IntArray, FloatArray]) -> tuple[list[FloatArray], tuple[int, int] | None]:
            (share, actions), room = given_out, rooms.get()
            x, before, known = ([part[i] for i in share] for part in (contexts, past, given))
            try:
                rolled, lost = self._roll(control, x, before, known, actions, room[: len(actions)], first)
            finally:
                rooms.put(room)
            return rolled, None if lost is None else (int(share[lost[0]]), lost[1])

        results = spread(roll_share, zip(shares, made, strict=True), workers)
        trajectories: list[Any] = [None] * n
        for share, (actions, _) in zip(shares, results, strict=True):
            for i, a in zip(share, actions, strict=True):
                trajectories[i] = a
        return trajectories, min((lost for _, lost in results if lost), key=lambda lost: lost[::-1], default=None)

    def _roll(
        self,
        control: Control,
        contexts: Trajectories,
        past: Trajectories,
        given: Trajectories,
        actions: FloatArray,
        Z: Any,
        bounds: FloatArray | None,
    ) -> tuple[list[FloatArray], tuple[int, int] | None]:
        """Roll some out on `actions` (rows, k) and Z (rows, W), of which no row is read before it is written."""
        from simile.models.kernels.rolling import make_desk, roll

        k = self.coefficients.shape[1]
        lengths = np.array([len(x) for x in contexts])
        first = np.cumsum(lengths + self.reach + self.wait) - lengths - self.wait
        for x, before, known, row in zip(contexts, past, given, first, strict=True):
            with np.errstate(over="ignore"):
                Z[row - self.reach : row, : self.width - k] = x[0]
                Z[row : row + len(x), : self.width - k] = x
                Z[row + len(x) : row + len(x) + self.wait, : self.width - k] = x[-1]
            begun = np.concatenate([before, known])
            actions[row - self.reach : row] = begun[0]
            # The past ends at frame 0; what lies before it has lasted forever.
            recent = before[-self.reach :]
            actions[row - len(recent) : row] = recent
            actions[row : row + len(known)] = known
            with np.errstate(over="ignore"):
                Z[row - self.reach : row + len(known), self.width - k :] = actions[row - self.reach : row + len(known)]
        begin = np.array([len(g) for g in given])
        lost, frame = roll(control, Z.ravel(), actions, first, begin, lengths, make_desk(len(first), k, bounds))
        rolled = [actions[f : f + n] for f, n in zip(first, lengths, strict=True)]
        return rolled, None if lost < 0 else (int(lost), int(frame))


def _fuse(model: Model, horizon: Horizon, k: int) -> tuple[Trees, Lines, int] | None:
    """Return trees, lines and width of a model made of forests and lines on states of this horizon; None for others."""
    parts = parts_of(model)
    forests = [(f, weight) for f, weight in parts if isinstance(f, Forest)]
    lines = [(f, weight) for f, weight in parts if isinstance(f, PiecewiseLinear)]
    known = [f for f, _ in (*forests, *lines)]
    if len(known) < len(parts):
        return None
    with _lock:
        kept = _kept.get(model)
    if kept is not None and (kept[0], known[0].n_actions) == (horizon, k):
        return kept[1]
    width = known[0].width
    if not all(f.fits(horizon, width - k, k) for f in known):
        return None
    from simile.models.kernels.predicting import NODE, Lines, Trees

    nodes, roots, before = [f.on_tape for f, _ in forests], [np.empty(0, np.int32)], 0
    for forest, _ in forests:
        roots.append(forest.roots + np.int32(before))
        before += len(forest.on_tape)
    layout = max((part.dtype for part in nodes), key=lambda dtype: dtype.itemsize, default=NODE)
    depths = np.concatenate([np.empty(0, np.int32), *(f.depths for f, _ in forests)])
    deepest_first = np.argsort(-depths, kind="stable")
    trees = Trees(
        nodes=nodes[0] if len(nodes) == 1 else np.concatenate([np.empty(0, layout), *nodes], dtype=layout),
        roots=np.concatenate(roots)[deepest_first],
        depths=depths[deepest_first],
        values=np.concatenate([np.empty((0, k)), *(w / len(f.roots) * f.value for f, w in forests)]),
        missing_right=any(bool(f.missing_right.any()) for f, _ in forests),
    )
    found = trees, Lines(*_merge(lines, k)), width
    with _lock:
        if len(_kept) >= MOST_KEPT:
            _kept.pop(next(iter(_kept), model), None)  # the oldest
        _kept[model] = horizon, found
    return found


def _merge(lines: list[tuple[PiecewiseLinear, PerAction]], k: int) -> tuple[Any, FloatArray]:
    """Return the terms of all models, each once and those that read the same entry side by side, and their slopes."""
    from simile.models.kernels.predicting import TERM

    terms = np.concatenate([np.empty(0, TERM), *(f.on_tape for f, _ in lines)])
    slopes = np.concatenate([np.empty((0, k)), *(weight * f.coefficient for f, weight in lines)])
    order = np.lexsort((terms["fill"], terms["knot"], terms["offset"]))
    terms, slopes = terms[order], slopes[order]
    # By field: a comparison of whole records swallows a Ctrl-C that comes meanwhile, and raises TypeError instead.
    new = np.any([terms[name][1:] != terms[name][:-1] for name in ("fill", "knot", "offset")], axis=0)
    first = np.flatnonzero(np.append(True, new)[: len(terms)])  # of those that are the same
    intercept: FloatArray = sum((weight * f.intercept for f, weight in lines), start=np.zeros(k))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows here diverges in the first frame
        merged = np.add.reduceat(slopes, first) if len(terms) else slopes
    return terms[first], np.ascontiguousarray(np.concatenate([intercept[np.newaxis], merged]))
