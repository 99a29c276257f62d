"""The fused roll-out: forests and a linear h, rolled out by one kernel with no Python in between."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from simile._typing import FloatArray, IntArray, Trajectories
from simile.errors import ArgumentError
from simile.models import WeightedModel
from simile.models.forest import Forest, layout
from simile.policies import Policy, SmoothPolicy
from simile.regularizers import Autoregressor

# Frames rolled out together: fewer are not worth a thread, and more need room.
FEWEST_FRAMES, MOST_FRAMES = 2_000, 50_000


@dataclass(frozen=True, eq=False)
class FusedPolicy:
    """All trees of a collapsed policy in one array, their values weighted, and its autoregressor."""

    nodes: Any
    roots: Any
    depths: Any
    values: FloatArray  # (nodes, k)
    coefficients: FloatArray  # (order, k)
    smoothness: float
    width: int
    reach: int

    @classmethod
    def of(cls, policy: Policy) -> FusedPolicy | None:
        """Fuse a policy whose f is made of forests and whose h is linear; None for any other."""
        if not (isinstance(policy, SmoothPolicy) and isinstance(policy.h, Autoregressor)):
            return None
        models = policy.f.models if isinstance(policy.f, WeightedModel) else (policy.f,)
        weights = policy.f.weights if isinstance(policy.f, WeightedModel) else (1.0,)
        forests = [f for f in models if isinstance(f, Forest)]
        k = policy.h.coefficients.shape[1]
        if len(forests) < len(models) or len({f.width for f in forests}) > 1:
            return None
        if not all(np.array_equal((f.columns, f.lags), layout(policy.horizon, f.width - k, k)) for f in forests):
            return None
        nodes, roots, before = [], [], 0
        for forest in forests:
            nodes.append(_moved(forest.on_tape, before))
            roots.append(forest.roots + np.int32(before))
            before += len(forest.on_tape)
        depths = np.concatenate([f.depths for f in forests])
        deepest_first = np.argsort(-depths, kind="stable")
        return cls(
            nodes=nodes[0] if len(nodes) == 1 else np.concatenate(nodes),
            roots=np.concatenate(roots)[deepest_first],
            depths=depths[deepest_first],
            values=np.concatenate([w / len(f.roots) * f.value for w, f in zip(weights, forests, strict=True)]),
            coefficients=policy.h.coefficients,
            smoothness=policy.smoothness,
            width=forests[0].width,
            reach=policy.reach,
        )

    def roll(
        self,
        contexts: Trajectories,
        past: Trajectories,
        given: Trajectories,
        *,
        low: FloatArray,
        high: FloatArray,
        limit: float,
    ) -> tuple[list[FloatArray], tuple[int, int] | None]:
        """Roll sequences out in standard units; returns the actions and, where one diverged, which and when."""
        n = len(contexts)
        m = self.width - self.values.shape[1]
        if wrong := next((x.shape[1] for x in contexts if x.shape[1] != m), 0):
            raise ArgumentError(f"contexts must have the {m} columns that the forest was grown on; got {wrong}")
        lengths = np.array([len(x) for x in contexts])
        workers = max(1, min(os.cpu_count() or 1, n, int(lengths.sum()) // FEWEST_FRAMES))
        n_shares = min(n, workers * math.ceil(lengths.sum() / (workers * MOST_FRAMES)))
        shares = [np.arange(n)[i::n_shares] for i in range(n_shares)]
        k = self.values.shape[1]
        bounds = np.broadcast_to(low, (k,)).copy(), np.broadcast_to(high, (k,)).copy()

        def rolled(share: IntArray) -> tuple[list[FloatArray], tuple[int, int] | None]:
            x, before, known = ([part[i] for i in share] for part in (contexts, past, given))
            actions, lost = self._roll(x, before, known, bounds, limit)
            return actions, None if lost is None else (int(share[lost[0]]), lost[1])

        with ThreadPoolExecutor(workers) as pool:
            results = list(pool.map(rolled, shares))
        trajectories: list[Any] = [None] * n
        for share, (actions, _) in zip(shares, results, strict=True):
            for i, a in zip(share, actions, strict=True):
                trajectories[i] = a
        return trajectories, min((lost for _, lost in results if lost), key=lambda lost: lost[::-1], default=None)

    def _roll(
        self,
        contexts: Trajectories,
        past: Trajectories,
        given: Trajectories,
        bounds: tuple[FloatArray, FloatArray],
        limit: float,
    ) -> tuple[list[FloatArray], tuple[int, int] | None]:
        from simile.kernels import rolling

        k = self.values.shape[1]
        lengths = np.array([len(x) for x in contexts])
        first = np.cumsum(lengths + self.reach) - lengths
        actions = np.zeros((int(first[-1] + lengths[-1]), k))
        Z = np.zeros((len(actions), self.width), np.float32)
        for x, before, known, row in zip(contexts, past, given, first, strict=True):
            with np.errstate(over="ignore"):
                Z[row - self.reach : row, : self.width - k] = x[0]
                Z[row : row + len(x), : self.width - k] = x
            begun = np.concatenate([before, known])
            actions[row - self.reach : row] = begun[0]
            # The past ends at frame 0; what lies before it has lasted forever.
            recent = before[-self.reach :]
            actions[row - len(recent) : row] = recent
            actions[row : row + len(known)] = known
            Z[row - self.reach : row + len(known), self.width - k :] = actions[row - self.reach : row + len(known)]
        begin = np.array([len(g) for g in given])
        lost, frame = rolling.roll(
            self.nodes,
            self.roots,
            self.depths,
            self.values,
            self.coefficients,
            self.smoothness,
            *bounds,
            limit,
            Z.ravel(),
            actions,
            first,
            begin,
            lengths,
        )
        rolled = [actions[f : f + n] for f, n in zip(first, lengths, strict=True)]
        return rolled, None if lost < 0 else (int(lost), int(frame))


def _moved(nodes: Any, by: int) -> Any:
    """Return nodes whose children lie `by` places further on."""
    if by == 0:
        return nodes
    moved = nodes.copy()
    moved["child"] += np.where(moved["child"] >= 0, by, -by).astype(np.int32)  # ~child counts backwards
    return moved
