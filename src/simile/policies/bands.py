"""Bands on rolled-out actions: how far the expert may be from what a policy does, as it says itself.

Half a band is q sigma_t. sigma_t is what signs of doubt make of the frame, carried through the filter of the policy
(a = G z + i is linear in f, so that doubts about f reach the action as f itself does: late, smoothed, and never more
the longer a roll-out is); q, at each level, is by how much errors exceed sigma in sequences that the models had not
seen when `learn` measured it. What is known, an operator's action or the expert's first frames, has no width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, PerAction, Trajectories
from simile.data.states import Tape
from simile.data.timing import delay
from simile.errors import ArgumentError
from simile.models.closed_loop import ClosedLoop
from simile.policies.cards import BAND
from simile.policies.policies import Policy, SmoothPolicy, closed_loop, parts

KEY = BAND  # of a card's training
LEVELS = (*(0.5 + 0.05 * i for i in range(9)), 0.95, 0.96, 0.97, 0.98, 0.99)
SIGNS = ("constant", "disagreement", "distance", "change", "speed")
FARTHEST = 1e6  # deviations from the training's mean beyond which all contexts are as far
ASIDE = 6.0  # deviations above or below its mean beyond which one context says no more
LARGEST = 1e9  # weight or width that a card may name
WIDE = 1e38  # context that it may: models see them as float32
BLOCK = 20_000  # states that a model is asked for at a time


@dataclass(frozen=True, eq=False)
class Banded:
    """A roll-out, or a frame, and what the expert may have done instead, (T, k) or (k,) each, in the user's units."""

    actions: FloatArray
    low: FloatArray
    high: FloatArray
    unsure: Any  # (T,) or () bool: whether the policy doubts more than in about nine of ten frames of its training

    @property
    def width(self) -> FloatArray:
        """From low to high."""
        return self.high - self.low

    def around(self, actions: FloatArray) -> Banded:
        """Return a band as wide around other actions."""
        return Banded(actions, actions + (self.low - self.actions), actions + (self.high - self.actions), self.unsure)


@dataclass(frozen=True, eq=False)
class Band:
    """What `learn` knows of the errors of a policy, in standard units; plain JSON on its card.

    Attributes
    ----------
    center, spread : (m,) arrays
        Mean and deviation of the contexts of the training.
    farthest : float
        The largest distance of a context of the training from that mean, as `signs` measures it.
    weights : (k, 5) or (k, 5 + 2 m) array
        How much each of `SIGNS` adds to sigma, and how much each context does, above its mean and below it.
    scores : (k, levels) array
        q at each of `LEVELS`.
    constant : (k, levels) array
        Half the width of a band that is always the same, at each level.
    usual : (k,) array
        sigma in the mean, against which it is held to tell whether a policy is unsure.
    alarm : (2,) array
        Times the usual sigma at which a policy gets unsure, and is sure again.
    n : int
        How many sequences, or groups of them, it was measured on.
    """

    center: FloatArray
    spread: FloatArray
    farthest: float
    weights: FloatArray
    scores: FloatArray
    constant: FloatArray
    usual: FloatArray
    alarm: FloatArray
    n: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        listed = ("center", "spread", "weights", "scores", "constant", "usual", "alarm")
        return {**{name: getattr(self, name).tolist() for name in listed}, "farthest": self.farthest, "n": self.n}

    @classmethod
    def read(cls, given: Any, m: int, k: int) -> Band | None:
        """Read what a card says; it may come from anybody: None where it makes no sense."""
        if not isinstance(given, Mapping):
            return None
        wanted = {"center": (m,), "spread": (m,), "scores": (k, len(LEVELS)), "constant": (k, len(LEVELS))}
        wanted |= {"usual": (k,), "alarm": (2,), "farthest": ()}
        try:
            found = {name: _read_numbers(given[name]) for name in (*wanted, "weights")}
            n = checks.whole_number(given["n"], "n", at_least=1, at_most=int(LARGEST))
        except (ArgumentError, KeyError, OverflowError, TypeError, ValueError):
            return None
        wanted["weights"] = (k, len(SIGNS) + (2 * m if found["weights"].size > k * len(SIGNS) else 0))
        if any(found[name].shape != shape or not np.isfinite(found[name]).all() for name, shape in wanted.items()):
            return None
        ranges = dict.fromkeys(("usual", "farthest"), (1.0 / LARGEST, LARGEST))
        ranges |= dict.fromkeys(("weights", "scores", "constant", "alarm"), (0.0, LARGEST))
        ranges |= {"center": (-WIDE, WIDE), "spread": (1.0 / WIDE, WIDE)}
        sound = all(((found[name] >= low) & (found[name] <= high)).all() for name, (low, high) in ranges.items())
        grows = all((np.diff(found[name], axis=1) >= 0.0).all() for name in ("scores", "constant"))
        if not (sound and grows and found["alarm"][0] >= found["alarm"][1]):
            return None
        return cls(farthest=float(found.pop("farthest")), n=n, **found)

    @classmethod
    def of(cls, policy: Policy) -> Band:
        """Read the band of a policy; refuse one that carries none."""
        m = policy.n_contexts or len(policy.card.context_names)
        found = cls.read(policy.card.training.get(KEY), m, policy.n_actions)
        if found is None or closed_loop(policy) is None or _memory(policy):
            raise ArgumentError(
                "band: this policy carries none: it is made of roll-outs over sequences that were left out, which "
                "simile.learn makes and the rounds of the paper do not: learn it with simile.learn (a command: "
                "--algorithm learn), from several sequences. Another hold, or memory of the start, that is put on "
                "later takes it away: learn with the hold that is wanted"
            )
        return found

    def quantile(self, level: Any) -> FloatArray:
        """Return q of each action, (..., k), at one level, or at levels (..., k)."""
        return _interpolate(level, self.scores)

    def half(self, level: Any) -> FloatArray:
        """Return half the width, (k,), of the band that is always the same."""
        return _interpolate(level, self.constant)

    def signs(self, x: FloatArray, before: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return how far contexts x (n, m) are from the training, and from those before, (n,) each, and their sides.

        The root of the mean square over contexts, in deviations; what is missing is left out, and where all is, a
        context counts as the farthest, and as one that lasts. Sides (n, 2 m) are how far each is above its mean and
        below it, where sigma depends on them, else (n, 0).
        """
        with np.errstate(over="ignore", invalid="ignore"):
            now, last = ((np.float64(np.float32(one)) - self.center) / self.spread for one in (x, before))
            far, moved = _root_mean_square(now), _root_mean_square(now - last)
        distance = np.where(np.isnan(far), self.farthest, np.minimum(far, FARTHEST))
        change = np.where(np.isnan(moved), 0.0, np.minimum(moved, FARTHEST))
        if self.weights.shape[1] == len(SIGNS):
            return distance, change, np.zeros((len(x), 0))
        side = np.nan_to_num(now)
        return distance, change, np.clip(np.concatenate([side, -side], axis=1), 0.0, ASIDE)

    def doubt(self, away: FloatArray, distance: FloatArray, change: FloatArray, sides: FloatArray) -> FloatArray:
        """Return what goes into the filter, (n, k), for disagreements `away` (n, k) and what `signs` returns."""
        w, d, c = self.weights, distance[:, np.newaxis], change[:, np.newaxis]
        doubt = w[:, 0] + w[:, 1] * away + w[:, 2] * d + w[:, 3] * c
        if sides.size:  # added up row by row, as one alone is
            doubt = doubt + np.stack([(sides * own).sum(axis=1) for own in w[:, len(SIGNS) :]], axis=1)
        # Beyond the training nobody knows how errors grow: at least as the distance does.
        found: FloatArray = doubt * np.maximum(d / self.farthest, 1.0)
        return found

    def sigma(self, carried: FloatArray, speed: FloatArray) -> FloatArray:
        """Return sigma (..., k) for doubts that passed the filter, and the speed of the actions, in standard units."""
        found: FloatArray = np.maximum(carried, 0.0) + self.weights[:, 4] * speed
        return found

    def excess(self, sigma: FloatArray) -> FloatArray:
        """Return by how much sigma (..., k) is above the usual, in the worst action."""
        found: FloatArray = np.max(sigma / self.usual, axis=-1)
        return found

    def watch(self, excess: FloatArray, on: Any = False) -> Any:
        """Tell where a policy is unsure, (T,), along excesses; it was `on` before, and goes off later than on."""
        found = np.empty(len(excess), np.bool_)
        for t, value in enumerate(excess.tolist()):
            found[t] = on = bool(value > self.alarm[1 if on else 0])
        return found

    def tell(self, level: float) -> str:
        """Say what can be relied on.

        The level is that of the mean over sequences. What theory promises for one more, were the models fixed, is a
        little less (Lee, Barber and Willett 2023, with the mass of the new sequence taken off).
        """
        if self.n == 1:
            return "measured on parts of one sequence that were left out, which tell nothing of another"
        sure = level * self.n / (self.n + 1)
        few = f", which are few for {level:.0%}" if self.n < level / (1.0 - level) else ""
        return f"measured on {self.n} sequences or groups that were left out{few}; in theory one more has {sure:.1%}"


def check_level(level: Any) -> float:
    """Return the level of a band; refuse what is none."""
    found = checks.number(level, "band")
    if not LEVELS[0] <= found <= LEVELS[-1]:
        raise ArgumentError(f"band must be a level from {LEVELS[0]:g} to {LEVELS[-1]:g}, such as 0.9; got {level}")
    return found


@dataclass(frozen=True, eq=False)
class Doubts:
    """The band of a policy with what it takes to measure sigma along its roll-outs."""

    band: Band
    loop: ClosedLoop
    voices: tuple[tuple[PerAction, SmoothPolicy], ...]

    @classmethod
    def of(cls, policy: Policy) -> Doubts:
        """Take a policy with a band."""
        band, loop = Band.of(policy), closed_loop(policy)
        assert loop is not None
        return cls(band, loop, parts(policy))

    def ask(self, tape: Tape, rows: Any) -> FloatArray:
        """Return how much the parts of the policy disagree in these rows of a tape, (n, k)."""
        blocks = np.split(rows, range(BLOCK, len(rows), BLOCK))
        return np.concatenate([self._ask(tape, block) for block in blocks])

    def _ask(self, tape: Tape, rows: Any) -> FloatArray:
        k = tape.actions.shape[1]
        if len(self.voices) < 2:
            return np.zeros((len(rows), k))
        states, each = tape.states(self.voices[0][1].horizon, rows), self.voices
        matrix = states.matrix()
        return disagree([w for w, _ in each], [part.f.predict(matrix) for _, part in each])

    def along(
        self, contexts: Trajectories, wanted: Trajectories, past: Trajectories, given: Sequence[int], *, cold: bool
    ) -> list[FloatArray]:
        """Return sigma (T, k) of roll-outs, in standard units; 0 where the actions were given."""
        tape = Tape.of(contexts, wanted)
        apart = np.split(self.ask(tape, np.arange(len(tape.floor))), np.cumsum([len(x) for x in contexts])[:-1])
        found = []
        for x, a, before, n, away in zip(contexts, wanted, past, given, apart, strict=True):
            met = delay(x, self.voices[0][1].horizon.lead)  # what was there when it chose
            signs = self.band.signs(met, np.concatenate([met[:1], met[:-1]]))
            doubt = self.band.doubt(away, *signs)[n:, np.newaxis]
            state = self.loop.rest(doubt[0] if cold and len(doubt) else np.zeros((1, a.shape[1])))
            speed = np.abs(np.diff(a, axis=0, prepend=before[-1:] if len(before) else a[:1]))
            sigma = np.zeros_like(a)
            sigma[n:] = self.band.sigma(self.loop.carry(doubt, state)[:, 0], speed[n:])
            found.append(sigma)
        return found


def disagree(weights: Sequence[PerAction], said: Sequence[FloatArray]) -> FloatArray:
    """Return the weighted mean distance of what models say, (n, k) each, from what they say together."""
    mean = sum(w * z for w, z in zip(weights, said, strict=True))
    found: FloatArray = np.asarray(sum(w * np.abs(z - mean) for w, z in zip(weights, said, strict=True)))
    return found


def draw_band(policy: Policy, band: Band, level: float, actions: FloatArray, sigma: FloatArray) -> Banded:
    """Put the band of a level around a roll-out (T, k) in the user's units, within the user's bounds."""
    half = band.quantile(level) * sigma * policy.units.scale
    low, high = policy.space.clip(actions - half), policy.space.clip(actions + half)
    # An action that was given, or that a stage sends elsewhere, may lie outside the bounds: it is within its band.
    return Banded(actions, np.minimum(low, actions), np.maximum(high, actions), band.watch(band.excess(sigma)))


def _read_numbers(given: Any) -> FloatArray:
    """Return numbers, or lists of them, as they are: text and truth values are none, whatever numpy makes of them."""
    found = np.array(given)
    if found.dtype.kind not in "iuf":
        raise TypeError(f"got {found.dtype}")
    return found.astype(np.float64)


def _interpolate(level: Any, table: FloatArray) -> FloatArray:
    each = np.asarray(level) + np.zeros(len(table))
    return np.stack([np.interp(each[..., j], LEVELS, row) for j, row in enumerate(table)], axis=-1)


def _root_mean_square(values: FloatArray) -> FloatArray:
    """Return that of each row, (n,), without what is missing; NaN where all is."""
    there = ~np.isnan(values)
    squares = np.ascontiguousarray(np.where(there, values, 0.0) ** 2)  # so that a row is added up as one alone is
    count = there.sum(axis=1)
    found: FloatArray = np.sqrt(np.where(count, squares.sum(axis=1), np.nan) / np.maximum(count, 1))
    return found


def _memory(policy: Policy) -> int:
    return max((part.horizon.memory for _, part in parts(policy)), default=1)
