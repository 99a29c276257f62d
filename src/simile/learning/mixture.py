"""One mixture: which components to weigh how much, and how smooth to be, by roll-outs of what nobody has seen.

Where f reads contexts alone, a roll-out is linear in f (`closed_loop`), and so is a mixture of models. So which convex
combination of policies to take (Algorithm 1, line 10) is a small problem of least squares: what each component says of
recordings that it has not seen goes through the filter of each lambda, and the weights that come closest to the expert,
none below 0 and 1 in sum, follow from the products of the errors alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray, PerAction
from simile.data.demonstrations import Demonstrations
from simile.data.losses import Loss, Squared
from simile.data.recorded import ActionSpace, Recorded, Units
from simile.data.reference import Reference
from simile.data.states import Horizon, stretch
from simile.errors import ArgumentError
from simile.learning.aims import DELAYS, LAGS
from simile.learning.bands import fit_band
from simile.learning.bounds import bound_training, choose_space, learn_without
from simile.learning.components import MODELS, Component, fit_components
from simile.learning.folds import Folds
from simile.learning.holds import fit_hold, hold_all
from simile.learning.initial import Kept, check_initial
from simile.learning.offsets import fit_offset
from simile.learning.problem import Watch, match_lag, regularize
from simile.metrics import Score, Sums
from simile.models import Forest, Model, WeightedModel
from simile.models.closed_loop import ClosedLoop
from simile.models.coupling import check_apart
from simile.models.regularizers import Autoregressor, CriticallyDamped, RegularizerClass
from simile.models.ridge import one_thread
from simile.policies.bands import Band
from simile.policies.hold import Hold
from simile.policies.offset import Offset
from simile.policies.policies import Policy, SmoothPolicy, hold_by, keep_by

N_LAGS, LEAST_LAG, MOST_LAG = 18, 0.5, 128.0  # of the filters that are tried, in frames at up to 30 per second
LONGEST = 3.0  # times the lag, at least, that the longest recording lasts
LENIENT = 1.05  # times the roughness asked for that a filter between two may have
FLAT = 0.005  # share of the error that the smoothest of those about as accurate may cost
EVERY, MOST_STACKED = 3, 8_000_000  # policies of the path that are kept for a slider, and numbers in their leaves
MOST_FRAMES, MOST_NUMBERS = 1_000_000, 16_000_000  # that are judged, and that are at hand for it


@dataclass(frozen=True)
class Choices:
    """The open choices of a mixture, but for lambda."""

    models: tuple[Any, ...]
    regularizer: RegularizerClass
    horizon: Horizon
    seed: int
    space: ActionSpace
    hold: Hold | None = None  # None: as roll-outs advise
    kept: Kept | None = None  # what to go on from, one of the models
    share: float | None = None  # of it in the mixture, at most; None: as roll-outs advise
    loss: Loss | None = None  # by which the demonstrations were weighed; None for the squared one
    beside: Demonstrations | None = None  # what models learn from as well, and nothing is measured or judged by
    bounded: bool = False  # whether the policy gets the bounds of what it learns from, when it is finished

    @classmethod
    def of(
        cls,
        demos: Recorded,
        *,
        model: Any = None,
        regularizer: RegularizerClass | None = None,
        horizon: Horizon | None = None,
        seed: int = 0,
        space: ActionSpace | None = None,
        hold: Hold | float | tuple[float, ...] | None = None,
        initial: Policy | None = None,
        loss: Loss | None = None,
    ) -> Self:
        """Check what was given, and choose the rest."""
        kept = None
        if initial is not None:
            check_initial(initial, demos)
            kept = Kept.of(initial)
            if horizon not in (None, kept.horizon):
                raise ArgumentError(f"horizon must be that of initial, {kept.horizon}; got {horizon}: leave it out")
            horizon = kept.horizon
        models = MODELS if model is None else tuple(model) if isinstance(model, list | tuple) else (model,)
        if not models:
            raise ArgumentError("model must name at least one model; got none")
        for one in models:
            needs = next((n for n in ("fit_folds", "fit_smooth") if hasattr(one, n)), "fit")
            checks.instance(one, "model", needs=needs)
        regularizer = CriticallyDamped(order=3) if regularizer is None else regularizer
        horizon = Horizon.auto(demos.rate) if horizon is None else horizon
        checks.instance(regularizer, "regularizer", needs="fit")
        checks.instance(horizon, "horizon", needs="states")
        if horizon.memory:
            raise ArgumentError("a mixture takes a horizon without past actions: use simile.rounds for others")
        space = choose_space(demos, space, initial)
        held = None if hold is None else Hold.given(hold).of(demos.n_actions)
        models = models if kept is None else (*models, kept)
        seed, loss = checks.whole_number(seed, "seed"), None if isinstance(loss, Squared) else loss
        return cls(models, regularizer, horizon, seed, space, held, kept, loss=loss)

    def units(self, demos: Recorded) -> Units:
        """Return what standard units mean: as measured, or those of the policy to go on from."""
        return Units.of(demos) if self.kept is None else self.kept.units

    @property
    def seen(self) -> tuple[int, ...]:
        """Marks of the sequences that the policy to go on from was learned from."""
        return () if self.kept is None else self.kept.seen

    def filter_at(self, demos: Recorded, smoothness: PerAction) -> FilterSetting:
        """Choose h (line 7) for demonstrations in standard units, and close the loop around it."""
        smoothness = _check_smoothness(smoothness, demos.n_actions)
        kept = self.kept if self.regularizer is self.kept else None
        h = regularize(demos, self.regularizer, smoothness) if kept is None else kept.h
        check_apart(h, "regularizer", "a mixture")
        if not isinstance(h, Autoregressor):
            raise ArgumentError(
                f"regularizer must be linear for a mixture; got {self.regularizer!r}: use simile.rounds for others"
            )
        if h.radius(smoothness) >= 1.0:  # so slow that rounding decides where the poles lie
            raise ArgumentError(
                f"smoothness must be smaller for a stable loop behind {self.regularizer!r}; got {smoothness}, which "
                "is more than sequences of a million frames need"
            )
        return FilterSetting(smoothness, h, ClosedLoop.of(h, smoothness))


@dataclass(frozen=True, eq=False)
class FilterSetting:
    """One lambda, or one for each action, with its h and closed loop."""

    smoothness: PerAction
    h: Autoregressor
    loop: ClosedLoop


@dataclass(frozen=True, eq=False)
class Blend:
    """What is best for one action behind one filter.

    Attributes
    ----------
    filter : FilterSetting
        The filter.
    weights : (components,) array
        Of what the components say, one after the other and aim by aim; 1 in sum.
    rolled : (frames,) array
        Roll-outs over what is judged, by weights that the sequence had no say in.
    offset : (float, float)
        Share and fade of the memory of the start.
    sums : Sums
        Of what the roll-outs are measured by.
    """

    filter: FilterSetting
    action: int
    weights: FloatArray
    rolled: FloatArray
    offset: tuple[float, float]
    sums: Sums

    @property
    def lag(self) -> float:
        """Frames by which the filter lags a resting input."""
        return float(self.filter.loop.lags[self.action])

    @property
    def smoothness(self) -> float:
        """Its lambda."""
        return float(np.broadcast_to(self.filter.smoothness, self.filter.loop.taps.shape[1])[self.action])


@dataclass(frozen=True, eq=False)
class Mixture:
    """Fitted components, and what they say of the recordings that they have not seen; all in standard units.

    Parameters
    ----------
    demos : Recorded
        What was learned from.
    choices : Choices
        How.
    folds : Folds
        What was left out in turn.
    components : tuple of Component
        The mean first.
    order : int
        Of the differences that roughness is measured by.
    """

    demos: Recorded
    choices: Choices
    folds: Folds
    components: tuple[Component, ...]
    order: int = 2

    @classmethod
    def fit(cls, standard: Recorded, choices: Choices, *, order: int = 2, watch: Watch | None = None) -> Self:
        """Fit all components to demonstrations in standard units."""
        gap, k = max(choices.horizon.reach, choices.horizon.wait), standard.n_actions
        # Of a frame: what components say of all actions, three times what they say of one, and the contexts twice.
        width = len(choices.models) * len((*DELAYS, *LAGS)) * (k + 3) + 2 * standard.n_contexts
        most = min(MOST_FRAMES, MOST_NUMBERS // width)
        folds = Folds.of(standard, gap=gap, most=most, seed=choices.seed)
        models, rng, kept = choices.models, np.random.default_rng(choices.seed), choices.kept
        if len(folds) == 1:  # nothing is left out: there is too little to choose by
            models = (models[0],) if kept in (None, models[0]) else (models[0], kept)
        around = choices.horizon, rng
        found = fit_components(standard, folds, models, *around, beside=choices.beside, watch=watch)
        return cls(standard, choices, folds, tuple(found), order)

    @cached_property
    def judged(self) -> Demonstrations:
        """What is judged, here."""
        return self.folds.shown

    @cached_property
    def fold(self) -> IntArray:
        """The fold of each sequence that is judged."""
        return self.folds.fold[self.folds.judged]

    @cached_property
    def starts(self) -> IntArray:
        """Where each of them begins among their frames, and the end of the last, (sequences + 1,)."""
        return np.append(0, np.cumsum(self.judged.lengths))

    @cached_property
    def expert(self) -> FloatArray:
        """What the expert did there, (frames, k)."""
        return np.concatenate(self.judged.actions)

    def predictions(self, action: int) -> FloatArray:
        """Return what the components say of one action there, (frames, components)."""
        k = self.demos.n_actions
        return np.concatenate([one.unseen[:, action::k] for one in self.components], axis=1)

    @cached_property
    def alone(self) -> list[Demonstrations]:
        """What is judged, with one action alone."""
        return [self.judged.only_action(j) for j in range(self.demos.n_actions)]

    def reference(self, action: int | None, begin: int) -> Reference:
        """Return what roll-outs of an action, or of all, are measured against, from a frame on."""
        key = action, begin
        if key not in self._references:
            logs = self.demos.logs
            logs, demos = (logs, self.judged) if action is None else ((logs[action],), self.alone[action])
            self._references[key] = Reference(demos, begin=begin, order=self.order, logs=logs)
        return self._references[key]

    @cached_property
    def _references(self) -> dict[tuple[int | None, int], Reference]:
        return {}

    @cached_property
    def filters(self) -> list[FilterSetting]:
        """The filters of the path, from none to the slowest that the recordings are long enough for."""
        frames = stretch(self.demos.rate)
        slowest = max(2.0 * LEAST_LAG, min(MOST_LAG * frames, float(self.demos.lengths.max()) / LONGEST))
        lags = np.geomspace(min(LEAST_LAG * frames, slowest / 2.0), slowest, N_LAGS - 1)
        return [self.choices.filter_at(self.demos, 0.0), *map(self.filter_of, lags.tolist())]

    @cached_property
    def table(self) -> list[list[Blend]]:
        """What is best for each action behind each filter of the path."""
        return [[self.blend(j, filter_) for filter_ in self.filters] for j in range(self.demos.n_actions)]

    def filter_of(self, lag: float) -> FilterSetting:
        """Return the filter that lags by so many frames."""
        return self.choices.filter_at(self.demos, match_lag(self.demos, self.choices.regularizer, lag))

    def begin(self, filter_: FilterSetting) -> int:
        """Return the first frame that counts: before it the expert acts, or the policy cannot aim yet."""
        return max(filter_.loop.order, self.choices.horizon.lead)

    def blend(self, action: int, filter_: FilterSetting) -> Blend:
        """Weigh the components for an action behind a filter."""
        expert, starts, begin = self.expert[:, action], self.starts, self.begin(filter_)
        lengths, said = np.diff(starts), self.predictions(action)
        frame = np.arange(len(expert)) - np.repeat(starts[:-1], lengths)
        root = (frame >= begin).astype(np.float64)
        if self.judged.weights is not None:
            root *= np.sqrt(np.concatenate(self.judged.weights)[:, action])
        rows = [np.flatnonzero(np.repeat(self.fold == number, lengths)) for number in range(len(self.folds))]
        ends = [np.append(0, np.cumsum(lengths[self.fold == number])) for number in range(len(self.folds))]

        def roll(number: int, predicted: FloatArray) -> FloatArray:
            """Roll predictions (frames, any) out over the sequences of a fold."""
            with np.errstate(over="ignore", invalid="ignore"):
                return filter_.loop.roll_columns(predicted, ends[number], expert[rows[number]], action)

        unseen, grams = np.empty(len(expert)), []
        with one_thread():
            for number, some in enumerate(rows):
                errors = (roll(number, said[some]) - expert[some, np.newaxis]) * root[some, np.newaxis]
                grams.append(errors.T @ errors)
            weights = self._weigh(grams)
            for number, some in enumerate(rows):
                own = weights if len(rows) == 1 else self._weigh([*grams[:number], *grams[number + 1 :]])
                used = np.flatnonzero(own)  # what is not, may not be finite
                mixed = said[np.ix_(some, used)] @ own[used]  # a roll-out is linear in what is said
                unseen[some] = roll(number, mixed[:, np.newaxis])[:, 0]
        loop = ClosedLoop(filter_.loop.taps[:, action : action + 1])
        parts = [part[:, np.newaxis] for part in np.split(unseen, starts[1:-1])]
        memory, remembering = fit_offset(parts, self.alone[action], loop, self.fold)
        sums = self.reference(action, begin).sums(remembering)
        return Blend(filter_, action, weights, np.concatenate(remembering)[:, 0], memory, sums)

    def _weigh(self, grams: Sequence[FloatArray]) -> FloatArray:
        """Return the weights of all components by the products of their errors in some folds."""
        gram, share, kept = np.sum(grams, axis=0), self.choices.share, self.choices.kept
        if len(self.folds) == 1 and kept is not None and share is None:
            return _alone(-1, len(gram))  # nothing tells what is better than the policy to go on from
        weights = find_weights(gram)
        if kept is None or share is None or weights[-1] <= share:
            return weights
        # The policy to go on from, which comes last, has its share, and a mixture of the others the rest.
        rest = np.concatenate([(1.0 - share) * np.eye(len(gram) - 1), np.full((1, len(gram) - 1), share)])
        return np.asarray(rest @ find_weights(rest.T @ gram @ rest))

    def choose(self, action: int, ratio: float) -> Blend:
        """Return the most accurate for an action that is at most `ratio` times as rough as the expert.

        Its roll-outs are, in each recording, behind the filter that the others would have chosen.
        """
        line, sums = self.table[action], [blend.sums for blend in self.table[action]]
        chosen, share = _pick([one.score for one in sums], ratio)
        blend = line[chosen]
        if share < 1.0:
            lags = [max(line[i].lag, LEAST_LAG / 10.0) for i in (chosen - 1, chosen)]
            between = self.blend(action, self.filter_of(lags[0] ** (1.0 - share) * lags[1] ** share))
            blend = line[chosen] if between.sums.score.roughness > LENIENT * ratio else between
        rolled, fold = blend.rolled.copy(), np.repeat(self.fold, np.diff(self.starts))
        for number in range(len(self.folds) if len(self.folds) > 1 else 0):
            own, _ = _pick([one[self.fold != number].score for one in sums], ratio)
            if own != chosen:
                rolled[fold == number] = line[own].rolled[fold == number]
        return replace(blend, rolled=rolled)

    def at(self, smoothness: PerAction) -> list[Blend]:
        """Return what is best for each action at a lambda, or at one for each."""
        filter_ = self.choices.filter_at(self.demos, smoothness)
        return [self.blend(j, filter_) for j in range(self.demos.n_actions)]

    def finish(self, blends: Sequence[Blend], budget: PerAction | None = None, hold: Hold | None = None) -> Finished:
        """Make one policy of what was chosen for each action, and fit what stands behind it."""
        chosen = [b.smoothness for b in blends]
        filter_ = self.choices.filter_at(self.demos, chosen[0] if len(set(chosen)) == 1 else np.array(chosen))
        wanted = self.clip(np.split(np.stack([b.rolled for b in blends], axis=1), self.starts[1:-1]))
        begin, hold = self.begin(filter_), self.choices.hold if hold is None else hold
        if hold is None:
            hold = fit_hold(wanted, self.judged, begin=begin, logs=self.demos.logs, budget=budget)
        done = hold_all(hold, wanted, begin)
        score = self.reference(None, begin).measure(done)
        return Finished(self, tuple(blends), filter_, hold, wanted, done, score)

    def clip(self, rolled: list[FloatArray]) -> list[FloatArray]:
        """Keep roll-outs within the bounds, or, where they were learned, within what the other folds would learn."""
        space = self.choices.space
        if not (self.choices.bounded and len(self.folds) > 1):
            return [space.clip(a) for a in rolled]
        spaces = learn_without(self.folds.demos, self.folds.fold)
        return [spaces[fold].clip(a) for fold, a in zip(self.fold, rolled, strict=True)]

    def tell(self, blends: Sequence[Blend]) -> list[dict[str, Any]]:
        """Return what the policy consists of, heaviest first: the component, its aim, and its weight in each action."""
        weights = np.stack([b.weights for b in blends], axis=1)
        names = [(one.name, aim) for one in self.components for aim in one.aims]
        rows: list[dict[str, Any]] = [
            {"component": name, "aim": aim.tell(self.demos.rate), "weights": own.tolist()}
            for (name, aim), own in zip(names, weights, strict=True)
            if own.any()
        ]
        return sorted(rows, key=lambda row: -float(np.sum(row["weights"])))

    def describe(self, blends: Sequence[Blend]) -> dict[str, str]:
        """Say what the policy consists of in each action, such as "72 % forest 0.4 s ahead, 28 % mean"."""
        rows = self.tell(blends)

        def say(j: int) -> str:
            own = sorted((row for row in rows if row["weights"][j]), key=lambda row: -row["weights"][j])
            each = (f"{100.0 * row['weights'][j]:.0f} % {row['component']} {row['aim']}" for row in own)
            return ", ".join(each).replace(" now", "")

        return {name: say(j) for j, name in enumerate(self.demos.action_names)}


@dataclass(frozen=True, eq=False)
class Finished:
    """One policy of a mixture, in standard units, and what it did over recordings that its parts had not seen."""

    mixture: Mixture
    blends: tuple[Blend, ...]
    filter: FilterSetting
    hold: Hold | None
    wanted: list[FloatArray]  # roll-outs before the hysteresis
    rolled: list[FloatArray]
    score: Score

    @cached_property
    def shares(self) -> list[tuple[Component, FloatArray]]:
        """The weights (aims, k) of each component."""
        components = self.mixture.components
        weights = np.stack([b.weights for b in self.blends], axis=1)
        ends = np.cumsum([len(one.aims) for one in components])[:-1]
        return list(zip(components, np.split(weights, ends), strict=True))

    @cached_property
    def policy(self) -> Policy:
        """The policy."""
        parts = [part for one, weights in self.shares if (part := one.blend(weights)) is not None]
        shares: list[PerAction] = [float(s[0]) if len(s) == 1 else s for _, s in parts]
        f: Model = parts[0][0] if len(parts) == 1 else WeightedModel(tuple(m for m, _ in parts), tuple(shares))
        choices, demos = self.mixture.choices, self.mixture.demos
        filter_ = self.filter
        made: Policy = SmoothPolicy(f, filter_.h, filter_.smoothness, choices.horizon, None, demos.n_contexts)
        share, fade = np.array([b.offset for b in self.blends]).T
        return hold_by(keep_by(made, Offset(share, fade) if share.any() else None), self.hold)

    def band(self) -> Band | None:
        """Return how far the expert is from those roll-outs."""
        mixture, voices = self.mixture, []
        for one, weights in self.shares:
            if weights.any():
                share = weights.sum(axis=0)
                said = np.einsum("nak,ak->nk", one.unseen.reshape(-1, *weights.shape), weights)
                voices.append((share, said / np.where(share > 0.0, share, 1.0)))
        folds = mixture.fold, mixture.folds.kin[mixture.folds.judged]
        lead = mixture.choices.horizon.lead
        return fit_band(mixture.judged, folds, voices, self.wanted, self.rolled, self.filter.loop, lead)


def _pick(scores: Sequence[Score], ratio: float) -> tuple[int, float]:
    """Return which of policies from rough to smooth is the most accurate that is no rougher than `ratio`.

    Of those about as accurate, the smoothest. Where roughness binds, the second number is less than 1: how far to go
    from the one before, which is too rough.
    """
    rough, error = (np.array([getattr(score, name) for score in scores]) for name in ("roughness", "rmse"))
    within = np.flatnonzero(~(rough > ratio))
    if not len(within):  # too much was asked for
        return int(np.argmin(rough)), 1.0
    best = float(np.min(error[within]))
    chosen = int(within[np.flatnonzero(error[within] <= (1.0 + FLAT) * best)].max(initial=within[0]))
    before = chosen - 1
    binds = before >= 0 and chosen == within[0] and error[before] < error[chosen] and rough[chosen] > 0.0
    if not (binds and math.isfinite(rough[before])):
        return chosen, 1.0
    return chosen, math.log(rough[before] / ratio) / math.log(rough[before] / rough[chosen])


def stack_path(finished: Sequence[Finished], units: Units) -> SmoothPolicy | None:
    """Return one policy that does what several of a mixture do, all their actions side by side, without what is behind.

    Trees and terms are shared, with a value for each of them; every third policy will do. None where a model cannot
    share, or where that would be too much to keep.
    """
    finished = [*finished[:-1:EVERY], finished[-1]]
    mixture, several = finished[0].mixture, len(finished)
    parts = []
    for i, (component, _) in enumerate(finished[0].shares):
        weights = [one.shares[i][1] for one in finished]
        if any(some.any() for some in weights):
            parts.append(component.stack(weights))
    stacked = [part for part in parts if part is not None]
    size = sum(model.value.size for model, _ in stacked if isinstance(model, Forest))
    if len(stacked) < len(parts) or size > MOST_STACKED:
        return None
    shares = tuple(float(share[0]) if len(share) == 1 else share for _, share in stacked)
    f = WeightedModel(tuple(model for model, _ in stacked), shares)
    k = mixture.demos.n_actions
    h = Autoregressor(np.concatenate([one.filter.h.coefficients for one in finished], axis=1))
    smoothness = np.concatenate([np.broadcast_to(one.filter.smoothness, k) for one in finished])
    policy = SmoothPolicy(f, h, smoothness, mixture.choices.horizon, None, mixture.demos.n_contexts)
    wide = Units(np.tile(units.center, several), np.tile(units.scale, several), units.origin)
    return replace(policy, units=wide)


def find_weights(gram: FloatArray) -> FloatArray:
    """Return the weights w, none below 0 and 1 in sum, with the least w' gram w: the least error of a mixture.

    Of errors E with E'E = gram, min |E u|^2 + (sum u - 1)^2 over u >= 0 has the direction of w: only the length
    of u trades one term for the other.

    >>> find_weights(np.array([[1.0, 0.0], [0.0, 3.0]])).round(3)
    array([0.75, 0.25])
    """
    from scipy.optimize import nnls

    sizes = np.sqrt(np.diag(gram))  # each error in its own unit: one that is far off would round the others away
    if not (np.isfinite(gram).all() and sizes.min() > 0.0):
        return _alone(int(np.argmin(np.where(np.isfinite(sizes), sizes, np.inf))), len(gram))
    values, vectors = np.linalg.eigh(gram / np.outer(sizes, sizes))
    root, units = np.sqrt(np.maximum(values, 0.0))[:, np.newaxis] * vectors.T, sizes.min() / sizes
    try:
        found, _ = nnls(np.concatenate([root, units[np.newaxis]]), np.append(np.zeros(len(gram)), 1.0))
    except RuntimeError:  # too many steps, where components are the same
        return _alone(int(np.argmin(sizes)), len(gram))
    weights = found * units
    shares: FloatArray = weights / weights.sum()
    return shares


def _alone(number: int, n: int) -> FloatArray:
    """Return all weight on one of n components."""
    weights = np.zeros(n)
    weights[number] = 1.0
    return weights


def standardize(demos: Recorded, choices: Choices) -> tuple[Units, Recorded, Choices]:
    """Return units, and demonstrations and choices in them."""
    units = choices.units(demos)
    beside = None if choices.beside is None else choices.beside.standardize(units)
    inside = bound_training(choices.space, units)
    choices = replace(choices, space=inside, beside=beside, bounded=choices.space.learned)
    return units, demos.standardize(units), choices


def _check_smoothness(given: PerAction, n_actions: int) -> PerAction:
    """Return one lambda, or one for each of several actions."""
    if np.ndim(given) == 0:
        return checks.number(given, "smoothness", at_least=0.0)
    values = np.array([checks.number(float(value), "smoothness", at_least=0.0) for value in np.ravel(given)])
    if len(values) != n_actions:
        raise ArgumentError(f"smoothness must be one number, or one for each of {n_actions} actions; got {given}")
    return float(values[0]) if n_actions == 1 else values
