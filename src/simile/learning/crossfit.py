"""Algorithm 1 for policies on contexts alone, with the step of line 9 searched on sequences that nobody has seen.

Where f reads contexts alone, a roll-out is linear in f (`closed_loop`): there is nothing to roll in, and what
the rounds of Algorithm 1 are left to do is to find the best mixture of policies. Each round trains another model;
beside it, models are trained without one fold of the sequences after the other, and the roll-outs of these over what
they have not seen tell how much of the new policy to take on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from simile._common import checks
from simile._common.sums import ExactSum
from simile._common.typing import FloatArray, IntArray, PerAction, Trajectories
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.losses import Loss, Squared
from simile.data.recorded import ActionSpace, Recorded, Units
from simile.data.reference import sum_errors
from simile.data.states import Horizon
from simile.errors import ArgumentError
from simile.learning.bands import Voices, fit_band
from simile.learning.bounds import bound_training, choose_space
from simile.learning.feedback import CompensatedFeedback, Feedback
from simile.learning.folds import Folds, states_of
from simile.learning.holds import aim, fit_hold, hold_part
from simile.learning.initial import Kept, check_initial
from simile.learning.offsets import fit_offset, remember_all
from simile.learning.problem import Course, judge, regularize, teach, teach_rollouts
from simile.learning.rounds import Round, card_of, check_alike, finish
from simile.learning.shares import choose_share
from simile.learning.training import Lesson, anchors_of
from simile.metrics import Score
from simile.models import Forest, Model, PiecewiseLinear, SmoothForest
from simile.models.closed_loop import ClosedLoop
from simile.models.coupling import check_apart
from simile.models.regularizers import Autoregressor, CriticallyDamped, Regularizer, RegularizerClass
from simile.models.ridge import RolloutRegressor, RolloutRidge
from simile.policies.bands import Band
from simile.policies.hold import Hold
from simile.policies.policies import Policy, SmoothPolicy, hold_by, interpolate, keep_by, timing

# A policy joins the mixture only if the error of unseen roll-outs falls by this share: less may be chance.
GATE = 0.005
PRICE = 1.0  # of squared second differences in that error, times the fourth power of the filter's lag

# Trees for what is not linear, lines for what trees cannot resolve, and hinges for what lies between.
MODELS = (
    SmoothForest(n_trees=64, max_depth=None, min_leaf=30, max_frames=250_000),
    RolloutRidge(knots=5),
    RolloutRidge(),
)


def crossfit(demos: Recorded, choices: Choices, lanes: Sequence[Lane]) -> Iterator[list[Mixed]]:
    """Train one model after the other, at every lambda at once, and mix their policies as unseen roll-outs advise.

    Demonstrations and bounds are in standard units; beside the lines stand their numbers in Algorithm 1.
    """
    folds, rng = Folds.of(demos), np.random.default_rng(choices.seed)
    taught, lessons = aim(demos, choices.aim), replace(folds, demos=aim(folds.demos, choices.aim))
    mixtures = begin(lessons, choices, lanes)  # line 1
    for n, model in enumerate(choices.models if len(folds) > 1 else choices.models[:1]):  # line 3
        fits = fit_lanes(model, taught, lessons, lanes, choices, rng)  # lines 5 to 8
        before, mixtures = mixtures, []
        for lane, old, (f, predictions) in zip(lanes, before, fits, strict=True):
            trained = lane.policy(f, choices, demos.n_contexts)
            unseen = roll_out(lane.loop, predictions, lessons.demos)  # line 4, by models without the sequence
            beta: PerAction = 1.0  # round 0 may be the policy to go on from
            if n > 0:
                beta = line_search(unseen, old.unseen, lessons.demos, lane.loop, choices.scarce)  # line 9
                beta = np.minimum(beta, choices.remains) if model is choices.kept else beta
            elif model is not choices.kept:  # of the mean remains what the first model does not know better
                beta = 1.0 - line_search(old.unseen, unseen, lessons.demos, lane.loop, 0.0)  # it is no way to be smooth
            policy = interpolate(trained, old.policy, beta)  # line 10
            mixed = folds.demos.map(_mix, unseen, old.unseen, shared=(beta,))
            voices = mix_voices(predictions, old.voices, beta)
            mixtures.append(Mixed(lane, policy, trained, beta, mixed, folds, voices))
        yield mixtures


def begin(folds: Folds, choices: Choices, lanes: Sequence[Lane]) -> list[Mixed]:
    """Return the policies before any model: what the expert does on average, behind the filter of each lambda."""
    demos = folds.demos
    sums = np.concatenate(demos.collect(_sum_actions))
    means = [total / count for total, count in (sums[others].sum(axis=0) for others, _ in folds.apart())]
    said = demos.map(_say, demos.deal(folds.fold), shared=(np.array(means),))
    total, count = sums.sum(axis=0)
    found = []
    for lane in lanes:
        f = PiecewiseLinear.constant(total / count, choices.horizon, demos.n_contexts)
        policy = lane.policy(f, choices, demos.n_contexts)
        voices = ((1.0, said),)
        found.append(Mixed(lane, policy, policy, 1.0, roll_out(lane.loop, said, demos), folds, voices))
    return found


@dataclass(frozen=True, eq=False)
class Mixed:
    """The policy at one lambda after a model has joined it."""

    lane: Lane
    policy: Policy
    trained: Policy  # of the model that joined last
    beta: PerAction  # its share
    unseen: Any  # roll-outs of the policy over the folds, each by models that have not seen it, where those lie
    folds: Folds
    voices: Voices  # what the parts of the policy say there, with their weights
    wanted: Any = None  # those roll-outs before a hysteresis, where the policy is complete

    @cached_property
    def looked(self) -> list[FloatArray]:
        """The roll-outs of the sequences by which habits are known, here."""
        return self.folds.demos.show(self.unseen, len(self.folds.looked))

    @property
    def begin(self) -> int:
        """The first frame that counts: before it the expert acts, or the policy cannot aim yet."""
        return max(self.lane.loop.order, timing(self.policy)[0])

    def score(self, *, order: int = 2, begin: int = 0) -> Score:
        """Measure the roll-outs over what the models have not seen, from a frame on that it may say."""
        return sum_errors(self.folds.demos, self.unseen, begin=max(begin, self.begin), order=order).score

    def completed(self, choices: Choices, budget: PerAction | None = None) -> Mixed:
        """Return the policy with the memory of its start and the hysteresis that those roll-outs advise, and these."""
        demos, loop, hold = self.folds.demos, self.lane.loop, choices.hold
        offset = fit_offset(self.unseen, demos, loop)
        unseen = remember_all(offset, self.unseen, demos, loop)
        if hold is None:
            looked = replace(self, unseen=unseen).looked
            hold = fit_hold(looked, self.folds.looked, begin=loop.order, budget=budget, stepping=choices.stepping)
        policy = hold_by(keep_by(self.policy, offset), hold)
        held = demos.map(hold_part, unseen, shared=(hold, loop.order))
        return replace(self, policy=policy, unseen=held, wanted=unseen)

    def band(self) -> Band | None:
        """Return how far the expert is from those roll-outs, of a policy that is complete."""
        lead, _ = timing(self.policy)
        return fit_band(self.folds, self.voices, self.wanted, self.unseen, self.lane.loop, lead)


def crossfit_rounds(
    demos: Recorded,
    choices: Choices,
    smoothness: PerAction,
    *,
    budget: PerAction | None = None,
    validation: Recorded | None = None,
) -> Iterator[Round]:
    """Cross-fit at one lambda, or one for each action; yields a round for each model, in the user's units.

    One that holds still by steps may be `budget` times as rough as the expert; about as rough as without by default.
    """
    check_alike(demos, validation)
    units = choices.units(demos)
    standard, inside = demos.standardize(units), choices.standardize(units)
    lane = choices.lane(standard, smoothness)
    names = ("models", "regularizer", "smoothness", "horizon", "feedback", "seed", "hold", "loss")
    said = {n: getattr(choices, n, None) for n in names} | {"smoothness": np.asarray(lane.smoothness).tolist()}
    card = card_of(demos, {n: value for n, value in said.items() if value is not None}, choices.seen)

    def record(number: int, mixed: Mixed) -> Round:
        found = mixed.completed(choices, budget)
        outcome, left_out = judge(standard, found.policy), found.score()
        here = aim(standard, choices.aim).actions if isinstance(standard, Demonstrations) else []
        return Round(
            number=number,
            policy=found.policy,
            trained=found.trained,
            h=lane.h,
            targets=[lane.loop.targets(a, choices.feedback.mu) for a in here],
            rolled=standard.show(outcome.rolled),
            beta=float(np.mean(found.beta)),
            sigma=math.nan,
            error=outcome.error,
            roughness=outcome.roughness,
            radius=lane.h.radius(lane.smoothness),
            diverged=outcome.diverged,
            validation_error=left_out.error,
            validation_roughness=left_out.roughness,
            unseen=sum_errors(found.folds.demos, found.unseen, begin=found.begin).squares.sum(axis=1),
            band=found.band(),
        )

    turns = (record(n, mixed) for n, (mixed,) in enumerate(crossfit(standard, inside, [lane])))
    return (finish(turn, units, choices.space, card, validation) for turn in turns)


@dataclass(frozen=True)
class Choices:
    """The open choices of cross-fitting, but for lambda."""

    models: tuple[Any, ...]
    regularizer: RegularizerClass
    horizon: Horizon
    feedback: CompensatedFeedback
    seed: int
    space: ActionSpace
    hold: Hold | None = None  # None: as roll-outs advise
    stepping: tuple[bool, ...] | None = None  # which actions step, where that is known
    aim: tuple[float, ...] = ()  # how far ahead of the expert's moves f aims, for a play behind it
    scarce: PerAction = 1.0  # share of `PRICE` that counts: less where the policy is smoother than it need be
    kept: Kept | None = None  # what to go on from, the first of the models, or the last
    remains: float = 1.0  # share of it at most, where it is the last
    loss: Loss | None = None  # by which the demonstrations were weighed; None for the squared one
    beside: Demonstrations | None = None  # what models learn from as well, and nothing is measured or judged by

    @classmethod
    def of(
        cls,
        demos: Recorded,
        *,
        model: Any = None,
        regularizer: RegularizerClass | None = None,
        horizon: Horizon | None = None,
        feedback: Feedback | None = None,
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
            needs = next((n for n in ("fit_rollouts", "fit_smooth") if hasattr(one, n)), "fit")
            checks.instance(one, "model", needs=needs)
        regularizer = CriticallyDamped(order=3) if regularizer is None else regularizer
        horizon = Horizon.auto(demos.rate) if horizon is None else horizon
        feedback = CompensatedFeedback() if feedback is None else feedback
        checks.instance(regularizer, "regularizer", needs="fit")
        checks.instance(horizon, "horizon", needs="states")
        checks.instance(feedback, "feedback", needs="__call__")
        if horizon.memory or not isinstance(feedback, CompensatedFeedback):
            raise ArgumentError(
                "cross-fitting takes a horizon without past actions and CompensatedFeedback: "
                "use simile.rounds for others"
            )
        space = choose_space(demos, space, initial)
        held = None if hold is None else Hold.given(hold).of(demos.n_actions)
        models = models if kept is None else (kept, *models)
        seed, loss = checks.whole_number(seed, "seed"), None if isinstance(loss, Squared) else loss
        return cls(models, regularizer, horizon, feedback, seed, space, held, kept=kept, loss=loss)

    def units(self, demos: Recorded) -> Units:
        """Return what standard units mean: as measured, or those of the policy to go on from."""
        return Units.of(demos) if self.kept is None else self.kept.units

    @property
    def ours(self) -> bool:
        """Whether the models are those that nobody chose."""
        return tuple(getattr(model, "recipe", model) for model in self.models) == MODELS

    @property
    def seen(self) -> tuple[int, ...]:
        """Marks of the sequences that the policy to go on from was learned from."""
        return () if self.kept is None else self.kept.seen

    def standardize(self, units: Units) -> Self:
        """Bring the bounds, and what is learned from beside the demonstrations, to standard units."""
        beside = None if self.beside is None else self.beside.standardize(units)
        return replace(self, space=bound_training(self.space, units), beside=beside)

    def lane(self, demos: Recorded, smoothness: PerAction) -> Lane:
        """Choose h (line 7) for demonstrations in standard units, and close the loop around it."""
        smoothness = _check_smoothness(smoothness, demos.n_actions)
        kept = self.kept if self.regularizer is self.kept else None
        h = regularize(demos, self.regularizer, smoothness) if kept is None else kept.h
        check_apart(h, "regularizer", "cross-fitting")
        if not isinstance(h, Autoregressor):
            raise ArgumentError(
                f"regularizer must be linear for cross-fitting; got {self.regularizer!r}: use simile.rounds for others"
            )
        if h.radius(smoothness) >= 1.0:  # so slow that rounding decides where the poles lie
            raise ArgumentError(
                f"smoothness must be smaller for a stable loop behind {self.regularizer!r}; got {smoothness}, which "
                "is more than sequences of a million frames need"
            )
        return Lane(smoothness, h, ClosedLoop.of(h, smoothness))


@dataclass(frozen=True, eq=False)
class Lane:
    """One lambda, or one for each action, with its h and closed loop."""

    smoothness: PerAction
    h: Autoregressor
    loop: ClosedLoop

    def policy(self, f: Model, choices: Choices, n_contexts: int) -> SmoothPolicy:
        """Put f before the filter."""
        return SmoothPolicy(f, self.h, self.smoothness, choices.horizon, None, n_contexts, space=choices.space)


def fit_lanes(
    model: Any, demos: Recorded, folds: Folds, lanes: Sequence[Lane], choices: Choices, rng: np.random.Generator
) -> list[tuple[Model, Any]]:
    """Fit a model at every lambda (lines 5 to 8); with each f come predictions without a fold over it."""
    horizon, mu, k = choices.horizon, choices.feedback.mu, demos.n_actions
    loops = [lane.loop for lane in lanes]
    beside = () if choices.beside is None else tuple(aim(choices.beside, choices.aim))
    if isinstance(model, RolloutRegressor):
        fold = np.append(folds.fold, np.full(len(beside), len(folds), np.intp))  # one of its own
        taught = teach_rollouts(_join(folds.demos, beside), model, horizon, loops, fold)
        return [(f, said[: folds.demos.n_frames] if beside else said) for f, said in taught]
    if len(lanes) > 1 and not (isinstance(model, SmoothForest) and model.by_labels):
        return [fit_lanes(model, demos, folds, [lane], choices, rng)[0] for lane in lanes]
    recipe = getattr(model, "recipe", model)  # of a model with checkpoints
    by_labels = isinstance(recipe, SmoothForest) and recipe.by_labels
    spread = _spread(demos, loops, mu) if len(lanes) > 1 else np.ones(1)
    scale = np.repeat(spread, k)  # all lambda have the same say in where a tree splits
    h, smoothness = (None if by_labels else lanes[0].h), float(np.mean(lanes[0].smoothness))  # where they count
    course = Course(_prepare, horizon, (loops, mu, scale, h), smoothness, apart=k > 1 and by_labels)

    def fit(some: Recorded, *, here: bool = False) -> Any:
        return teach(_join(some, beside), model, course, rng, here=here)

    whole, said = fit(demos, here=True), folds.predict_unseen(fit, horizon)
    if len(lanes) == 1:
        return [(whole, said)]
    parts = [slice(i * k, (i + 1) * k) for i in range(len(lanes))]
    # One forest for the whole path: its leaves hold a value for every lambda.
    assert isinstance(whole, Forest)
    return [
        (
            replace(whole, value=(whole.value * scale)[:, part].copy()),
            folds.demos.map(_take, said, shared=(scale, part)),
        )
        for part in parts
    ]


def _join(demos: Recorded, beside: Sequence[Demonstration]) -> Recorded:
    """Put sequences beside demonstrations, which are here where there are such."""
    return Demonstrations((*demos, *beside)) if beside and isinstance(demos, Demonstrations) else demos


def line_search(new: Any, old: Any, demos: Recorded, loop: ClosedLoop, scarce: PerAction = 1.0) -> PerAction:
    """Return the beta with which beta * new + (1 - beta) * old does best, for each action; 0 unless it gains by `GATE`.

    What counts is the distance to the expert and, at a price, the squared second differences: error that falls
    because the policy gets rougher could have been had for less by a smaller lambda. Where smoothness is not `scarce`
    there is less to be had.
    """
    price, order = scarce * PRICE * loop.lags**4, loop.order
    found = np.concatenate(demos.collect(_multiply, new, old, shared=(order,)))
    squares, products, before, turns, turning, turned = np.moveaxis(found, 1, 0)
    beta, gain = choose_share(products - price * turning, squares + price * turns, demos.kin)
    beta[~(gain > GATE * np.sum(before + price * turned, axis=0))] = 0.0
    return float(beta[0]) if len(beta) == 1 else beta


def mix(new: Trajectories, old: Trajectories, beta: PerAction) -> Trajectories:
    """Interpolate roll-outs: with one h and f on contexts alone, they are those of the interpolated policy."""
    return [beta * a + (1.0 - beta) * b for a, b in zip(new, old, strict=True)] if len(old) else new


def mix_voices(new: Any, old: Voices, beta: PerAction) -> Voices:
    """Return what the parts of an interpolated policy say, as `interpolate` weighs them."""
    if np.all(beta == 1.0) or np.all(beta == 0.0):
        return ((1.0, new),) if np.all(beta == 1.0) else old
    return (*(((1.0 - beta) * w, said) for w, said in old), (beta, new))


def roll_out(loop: ClosedLoop, predictions: Any, demos: Recorded) -> Any:
    """Roll f's outputs (frames, k) out from the expert's first frames."""
    return demos.map(_roll, predictions, shared=(loop,))


def _check_smoothness(given: PerAction, n_actions: int) -> PerAction:
    """Return one lambda, or one for each of several actions."""
    if np.ndim(given) == 0:
        return checks.number(given, "smoothness", at_least=0.0)
    values = np.array([checks.number(float(value), "smoothness", at_least=0.0) for value in np.ravel(given)])
    if len(values) != n_actions:
        raise ArgumentError(f"smoothness must be one number, or one for each of {n_actions} actions; got {given}")
    return float(values[0]) if n_actions == 1 else values


def _spread(demos: Recorded, loops: Sequence[ClosedLoop], mu: float) -> FloatArray:
    """Return the standard deviation of the targets at every lambda; 1 where they are constant."""
    total, count = demos.total(_sum_targets, shared=(loops, mu)).value
    squares, _ = demos.total(_sum_targets, shared=(loops, mu, total / count)).value
    spread: FloatArray = np.sqrt(squares / count) + (squares == 0.0)
    return spread


# What runs where a part is.


def _prepare(
    demos: Demonstrations,
    horizon: Horizon,
    loops: Sequence[ClosedLoop],
    mu: float,
    scale: FloatArray,
    h: Regularizer | None,
) -> Lesson:
    """Form states and, line 6, targets that make the roll-out, not f, follow the expert."""
    states = states_of(demos, horizon)
    labels = np.concatenate([np.concatenate([loop.targets(a, mu) for loop in loops], axis=1) for a in demos.actions])
    labels /= scale
    weights = None if demos.weights is None else np.concatenate(demos.weights)
    return Lesson(states, labels, labels if h is None else anchors_of(h, states), weights)


def _sum_targets(
    demos: Demonstrations, loops: Sequence[ClosedLoop], mu: float, center: FloatArray | float | None = None
) -> ExactSum:
    """Sum the targets at every lambda, or their squares about a center; with each sum comes how many they are."""
    found = []
    for a in demos.actions:
        targets = np.stack([loop.targets(a, mu) for loop in loops])
        summed = targets if center is None else (targets.T - center).T ** 2
        found.append([summed.sum(axis=(1, 2)), np.full(len(loops), float(a.size))])
    return ExactSum.of(np.array(found))


def _take(_: Demonstrations, said: FloatArray, scale: FloatArray, part: slice) -> FloatArray:
    return said[:, part] * scale[part]


def _roll(demos: Demonstrations, predictions: FloatArray, loop: ClosedLoop) -> list[FloatArray]:
    parts = np.split(predictions, np.cumsum(demos.lengths)[:-1])
    return [loop.roll(z, a) for z, a in zip(parts, demos.actions, strict=True)]


def _mix(_: Demonstrations, new: Trajectories, old: Trajectories, beta: PerAction) -> Trajectories:
    return mix(new, old, beta)


def _multiply(demos: Demonstrations, new: Trajectories, old: Trajectories, begin: int) -> FloatArray:
    """Sum, (n, 6, k), squares of new - old, products with expert - old, and squares of those; of bends the same."""
    found, weights = [], demos.weights
    for i, part in enumerate(zip(new, old, demos.actions, strict=True)):
        fresh, held, expert = (a[begin:] for a in part)
        turn, turned = (np.diff(a, n=2, axis=0) for a in (fresh, held))
        apart, missing, turn = fresh - held, expert - held, turn - turned
        root = 1.0 if weights is None else np.sqrt(weights[i][begin:])
        pairs = [(apart * root, missing * root), (turn, turned)]
        found.append([np.sum(x * y, axis=0) for a, b in pairs for x, y in ((a, a), (a, b), (b, b))])
    return np.array(found)


def _sum_actions(demos: Demonstrations) -> FloatArray:
    """Sum, (n, 2, k), the actions of each sequence and how many there are, each times its weight."""
    weights = [np.ones_like(a) for a in demos.actions] if demos.weights is None else demos.weights
    return np.array([(np.sum(w * a, axis=0), np.sum(w, axis=0)) for w, a in zip(weights, demos.actions, strict=True)])


def _say(demos: Demonstrations, folds: IntArray, means: FloatArray) -> FloatArray:
    """Say the mean of the other folds, (frames, k)."""
    return np.repeat(means[folds], demos.lengths, axis=0)
