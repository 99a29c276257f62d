"""How wide bands must be, by roll-outs over what the models have not seen.

Errors of those roll-outs are what a policy will do to new sequences, so sigma is fitted to them, and calibrated on them
by conformal prediction with sequences as what is exchangeable (Dunn, Wasserman and Ramdas 2022; Lee, Barber and Willett
2023): every group of sequences has the same mass, spread evenly over its frames. sigma is fitted without a fold where
it is calibrated on it, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simile._common.typing import FloatArray, IntArray, PerAction, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.timing import delay
from simile.models.closed_loop import ClosedLoop
from simile.models.ridge import one_thread
from simile.policies.bands import LEVELS, SIGNS, Band, disagree

MOST_FRAMES = 50_000  # that are looked at, evenly spread
MOST_SIDES = 128  # signs of single contexts, above and below their means: with more, none is looked at
DIGITS = 6  # of what is written down
AT = LEVELS.index(0.9)  # the level at which a band should be narrow
TRUST = (0.1, 0.25, 0.5, 0.75, 1.0)  # share of what the signs say that is believed; the rest is constant
GAIN = 0.995  # of the width, from which on more of it is believed
LEAST = 0.05  # of the mean error that sigma is at least
ALARM = (0.92, 0.85)  # share of the frames in which a policy is not unsure, to get so and to be sure again

Voices = Sequence[tuple[PerAction, FloatArray]]  # weights, and what each part of a policy says where it has not seen


def fit_band(
    demos: Demonstrations,
    folds: tuple[IntArray, IntArray],
    voices: Voices,
    wanted: Trajectories,
    done: Trajectories,
    loop: ClosedLoop,
    lead: int = 0,
) -> Band | None:
    """Fit the band of a policy by roll-outs over demonstrations, before (`wanted`) and after a hysteresis (`done`).

    All is in standard units; `folds` tells fold and group of each sequence. None where nothing was left out, or no
    frame counts.
    """
    fold, kin = folds
    if fold.max() == 0:
        return None
    joined = np.concatenate(demos.contexts)
    there = np.isfinite(joined)
    count = np.maximum(there.sum(axis=0), 1.0)
    center = np.sum(joined, axis=0, where=there) / count
    squares = np.sum((joined - center) ** 2, axis=0, where=there)
    low, high = demos.extremes()
    # The mean of what is constant may miss it by a rounding error, which is no deviation.
    spread = np.where(low < high, np.sqrt(squares / count), 0.0)
    center, spread = _round(center), _round(np.where(spread > 0.0, spread, 1.0))
    k, every = demos.n_actions, -(-demos.n_frames // MOST_FRAMES)
    sides = 2 * len(center) if 2 * len(center) <= MOST_SIDES else 0
    none, ones = np.zeros((k, len(SIGNS) + sides)), np.ones(k)
    bare = Band(center, spread, 1.0, none, none, none, ones, ones, 1)  # which measures signs
    rows, far = _look(demos, wanted, done, voices, bare, loop, every, lead)
    sample = _Sample(rows, fold, kin)
    if not sample.counts:
        return None
    found = [sample.fit(j) for j in range(k)]
    means = [float(np.average(s, weights=sample.mass[:, j])) for j, (_, s, _, _) in enumerate(found)]
    usual = np.maximum(means, 1e-9)
    excess = np.max([s / u for (_, s, _, _), u in zip(found, usual, strict=True)], axis=0)
    alarm = [_quantile(excess, sample.mass.mean(axis=1), share) for share in ALARM]
    weights = _round(np.array([w for w, _, _, _ in found]))
    return Band(
        center=center,
        spread=spread,
        farthest=float(_round(np.array([max(far, 1e-6)]))[0]),
        weights=weights if weights[:, len(SIGNS) :].any() else weights[:, : len(SIGNS)],
        scores=_round(np.array([q for _, _, q, _ in found])),
        constant=_round(np.array([c for _, _, _, c in found])),
        usual=_round(usual),
        alarm=_round(np.array(alarm)),
        n=sample.groups,
    )


class _Sample:
    """Frames that were looked at: their signs behind the filter, their errors, and the mass that each has."""

    def __init__(self, rows: Sequence[FloatArray], fold: IntArray, kin: IntArray) -> None:
        lengths = [len(one) for one in rows]
        joined = np.concatenate(rows)  # (frames, k, signs, error and weight)
        self.signs, self.errors = joined[..., :-2], joined[..., -2]
        self.fold, group = np.repeat(fold, lengths), np.repeat(kin, lengths)
        mass = joined[..., -1].copy()
        totals = np.array([np.bincount(group, mass[:, j], int(kin.max()) + 1) for j in range(mass.shape[1])]).T
        each = totals[group]
        self.mass = np.divide(mass, each, out=np.zeros_like(mass), where=each > 0.0)
        self.groups = int(np.count_nonzero(totals.any(axis=1)))  # of which frames count

    @property
    def counts(self) -> bool:
        """Whether each action has frames that count."""
        return bool(len(self.mass) and (self.mass.sum(axis=0) > 0.0).all())

    def fit(self, action: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the weights of the signs, sigma in all frames, q and the constant half-width at each level."""
        signs, errors, mass = self.signs[:, action], self.errors[:, action], self.mass[:, action]
        mean = float(np.average(errors, weights=mass)) + 1e-9
        constant = np.zeros(signs.shape[1])
        constant[0] = mean
        said = np.empty_like(errors)  # sigma of each frame, by the other folds
        for number in range(int(self.fold.max()) + 1):
            own = self.fold == number
            said[own] = np.sum(_weigh(signs[~own], errors[~own], mass[~own], mean) * signs[own], axis=1)
        best: tuple[float, float, FloatArray] | None = None
        for trust in TRUST:
            sigma = (1.0 - trust) * mean * signs[:, 0] + trust * said
            width = _quantile(_divide(errors, sigma), mass, LEVELS[AT]) * float(np.average(sigma, weights=mass))
            if best is None or width < GAIN * best[0]:
                best = (width, trust, sigma)
        assert best is not None
        _, trust, sigma = best
        weights = (1.0 - trust) * constant + trust * _weigh(signs, errors, mass, mean)
        scores = np.array([_quantile(_divide(errors, sigma), mass, level) for level in LEVELS])
        return weights, sigma, scores, np.array([_quantile(errors, mass, level) for level in LEVELS])


def _weigh(signs: FloatArray, errors: FloatArray, mass: FloatArray, mean: float) -> FloatArray:
    """Return the weights, none below 0, with which signs (n, signs) add up to about the errors (n,).

    Sides of single contexts are many, and some fit by chance: the mean is taken of weights with and without them.
    """
    few, more = _fit_weights(signs[:, : len(SIGNS)], errors, mass, mean), _fit_weights(signs, errors, mass, mean)
    found: FloatArray = (np.pad(few, (0, len(more) - len(few))) + more) / 2.0
    return found


def _fit_weights(signs: FloatArray, errors: FloatArray, mass: FloatArray, mean: float) -> FloatArray:
    """Return weights, none below 0, by least squares."""
    from scipy.optimize import nnls

    root = np.sqrt(mass)[:, np.newaxis]
    size = np.sqrt(np.sum(mass[:, np.newaxis] * signs**2, axis=0))
    scale = np.where(size > 0.0, size, np.inf)  # a sign that never shows says nothing
    with one_thread():  # of a triangle that has the same products, which is quicker
        columns = np.column_stack([signs / scale * root, errors * root[:, 0]])
        triangle: FloatArray = np.asarray(np.linalg.qr(columns, mode="r"))
    weights, _ = nnls(triangle[:, :-1], triangle[:, -1])
    found: FloatArray = weights / scale
    found[0] = max(found[0], LEAST * mean)
    return found


def _divide(errors: FloatArray, sigma: FloatArray) -> FloatArray:
    return errors / np.maximum(sigma, 1e-12)


def _quantile(values: FloatArray, mass: FloatArray, level: float) -> float:
    """Return the least of the values (n,) that a share `level` of the mass does not exceed."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(mass[order])
    at = int(np.searchsorted(below, level * below[-1] * (1.0 - 1e-12)))
    return float(values[order[min(at, len(values) - 1)]])


def _round(values: FloatArray) -> FloatArray:
    """Return values as a card shows them."""
    return np.array([float(f"{value:.{DIGITS}g}") for value in values.ravel()]).reshape(values.shape)


def _look(
    demos: Demonstrations,
    wanted: Trajectories,
    done: Trajectories,
    voices: Voices,
    band: Band,
    loop: ClosedLoop,
    every: int,
    lead: int,
) -> tuple[list[FloatArray], float]:
    """Return some frames of each sequence, (n, k, signs + 2): signs behind the filter, error and weight.

    With them comes the largest distance of a context from the training's mean.
    """
    weights, said = [w for w, _ in voices], [says for _, says in voices]
    ends = np.cumsum(demos.lengths)[:-1]
    apart = np.split(disagree(weights, said) if len(said) > 1 else np.zeros_like(said[0]), ends)
    found, most, q = [], 0.0, loop.order
    for i, (demo, a, sent, away) in enumerate(zip(demos, wanted, done, apart, strict=True)):
        x, k = delay(demo.contexts, lead), demo.actions.shape[1]
        far, moved, sides = band.signs(x, np.concatenate([x[:1], x[:-1]]))
        most = max(most, float(far.max(initial=0.0)))
        some = slice(q + i % every, None, every)  # not the same frame of all
        speed, error = np.abs(np.diff(a, axis=0, prepend=a[:1])), np.abs(demo.actions - sent)
        mass = np.ones_like(away) if demo.weights is None else np.broadcast_to(demo.weights, away.shape)
        rows = []
        for j in range(k):
            inputs = np.column_stack([np.ones(len(x)), away[:, j], far, moved, sides])
            carried = np.maximum(loop.forced(inputs, j), 0.0)
            columns = (carried[:, :4], speed[:, j], carried[:, 4:], error[:, j], mass[:, j])
            rows.append(np.column_stack(columns)[some])
        found.append(np.stack(rows, axis=1))
    return found, most
