"""Smooth policies pi = (f, h) of Definition 2.1 and Eq. 2, and the two ways to mix them (Section 5.2).

Policies compute in standard units; `hold`, `units` and `space` say how `rollout` lets their actions rest, and brings
them to the user's units and into the user's bounds.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.text import escape
from simile._common.typing import FloatArray, PerAction
from simile.data.recorded import ActionSpace, Units
from simile.data.states import Horizon, States
from simile.data.timing import Known, tell_lead
from simile.errors import ArgumentError
from simile.models import Forest, Model, WeightedModel, parts_of
from simile.models.closed_loop import ClosedLoop
from simile.models.coupling import LinearH, align, average
from simile.models.regularizers import Autoregressor, Regularizer, WeightedRegularizer
from simile.policies.cards import Card
from simile.policies.hold import Hold
from simile.policies.offset import Offset
from simile.policies.storage import files


@runtime_checkable
class Policy(Protocol):
    """Maps states to actions, in standard units."""

    @property
    def memory(self) -> int:
        """How many past actions the policy reads."""

    @property
    def reach(self) -> int:
        """How many frames back the policy looks, at contexts or actions."""

    @property
    def n_actions(self) -> int:
        """Dimension k of an action."""

    @property
    def n_contexts(self) -> int | None:
        """Dimension m of a context; None where any will do."""

    @property
    def units(self) -> Units:
        """What standard units mean to the user."""

    @property
    def space(self) -> ActionSpace:
        """The user's bounds."""

    @property
    def card(self) -> Card:
        """What the policy is for, and where it comes from."""

    def act(self, states: States, chance: FloatArray) -> FloatArray:
        """Act in each state, (n, k); `chance` (n,) holds uniform numbers for policies that toss coins."""

    def first_guess(self, states: States) -> FloatArray:
        """Guess the actions (n, k) from the contexts alone, for a start without a past."""

    def in_units(self, units: Units, space: ActionSpace, card: Card = ...) -> Self:
        """Return the same policy for a user with these units and bounds, and with this card."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to one file."""


Combine = Callable[[Policy, Policy, float], Policy]


class OpenPolicy:
    """A policy that tells what it is made of; of any other the functions `parts`, `acting`, ... below suppose this."""

    @property
    def parts(self) -> tuple[tuple[PerAction, SmoothPolicy], ...]:
        """The smooth policies that it is made of, with their weights."""
        return ()

    @property
    def is_stochastic(self) -> bool:
        """Whether it may toss coins."""
        return True

    @property
    def trend(self) -> Regularizer | None:
        """h, or the weighted mean of the h of all its parts; None where there is none."""
        return None

    @property
    def whole(self) -> SmoothPolicy | None:
        """The policy as one (f, h); None where that cannot be."""
        return None

    def holding(self, hold: Hold | None) -> Self:
        """Return the same policy with this hysteresis behind it, or with none."""
        raise ArgumentError(f"policy: a {type(self).__name__} cannot hold, so {hold!r} has no place in it")

    def keeping(self, offset: Offset | None) -> Self:
        """Return the same policy with this memory of the start, or with none."""
        raise ArgumentError(f"policy: a {type(self).__name__} has no place for {offset!r}")

    def __str__(self) -> str:
        """Say in a line how smooth each action is, and how it holds, in the user's units."""
        return tell(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to one file, a safetensors file that `simile.load` reads; equal policies give equal bytes.

        Models of other libraries are stored by skops (`pip install 'smooth-imitation[skops]'`), never by pickle.
        A mixture is kept as it is, not collapsed, so that `simile.diagnose` still sees the last step of the training.
        """
        files.write(self, path)


@dataclass(frozen=True, eq=False)
class SmoothPolicy(OpenPolicy):
    """pi = (f, h): close to f(x, a) and, the more so the larger lambda, to h(a) (Eq. 2).

    Parameters
    ----------
    f : Model
        Predicts an action from a state.
    h : Regularizer
        Predicts an action from the past actions alone.
    smoothness : float or (k,) array
        lambda, or one for each action.
    horizon : Horizon
        What of the past a state holds for f.
    naive : Model, optional
        f_0, the "naive" learner on contexts alone (proof of Proposition 5.8); starts a roll-out without a past.
    n_contexts : int, optional
        Dimension m of the contexts that f was trained on; roll-outs over others are refused.
    units, space
        What standard units mean to the user, and the user's bounds.
    card : Card
        What the policy is for, and where it comes from.
    hold : Hold, optional
        The hysteresis that the actions pass, in roll-outs and online.
    offset : Offset, optional
        What roll-outs and predictors keep of the start, where f reads contexts alone; `act` knows of no start.
    """

    f: Model
    h: Regularizer
    smoothness: PerAction
    horizon: Horizon
    naive: Model | None = None
    n_contexts: int | None = None
    units: Units = field(default_factory=Units.identity)
    space: ActionSpace = field(default_factory=ActionSpace)
    card: Card = field(default_factory=Card)
    hold: Hold | None = None
    offset: Offset | None = None

    def __post_init__(self) -> None:
        for value in self.smoothness if isinstance(self.smoothness, np.ndarray) else (self.smoothness,):
            checks.number(value, "smoothness", at_least=0.0)
        if np.shape(self.smoothness) not in ((), (self.n_actions,)):
            raise ArgumentError(
                f"smoothness must be a number, or one for each of {self.n_actions} actions; got {self.smoothness}"
            )
        if self.hold is not None:
            object.__setattr__(self, "hold", self.hold.of(self.n_actions) if self.hold.width.any() else None)
        if self.offset is not None:
            object.__setattr__(self, "offset", self.offset.of(self.n_actions) if self.offset.share.any() else None)
        if self.offset is not None and self.horizon.memory:
            raise ArgumentError(
                "offset: an f that reads past actions sees where it was put, and keeps no offset: use "
                "policy.keeping(None), or learn with horizon=Horizon(n, 0)"
            )

    @property
    def memory(self) -> int:
        """How many past actions the policy reads."""
        return max(self.horizon.memory, self.h.order)

    @property
    def reach(self) -> int:
        """How many frames back the policy looks, at contexts or actions."""
        return max(self.memory, self.horizon.reach)

    @property
    def n_actions(self) -> int:
        """Dimension k of an action."""
        return self.h.coefficients.shape[1] if isinstance(self.h, LinearH) else len(self.units.center)

    @property
    def n_inputs(self) -> int | None:
        """Dimension m of a context, told by the policy or else by its models; None where neither does."""
        if self.n_contexts is not None:
            return self.n_contexts
        models = (f for model in (self.f, self.naive) if model is not None for f, _ in parts_of(model))
        return next((m for f in models if (m := getattr(f, "n_contexts", None)) is not None), None)

    @property
    def parts(self) -> tuple[tuple[PerAction, SmoothPolicy], ...]:
        """Itself."""
        return ((1.0, self),)

    @property
    def is_stochastic(self) -> bool:
        """No."""
        return False

    @property
    def trend(self) -> Regularizer:
        """Its h."""
        return self.h

    @property
    def whole(self) -> SmoothPolicy:
        """Itself."""
        return self

    @property
    def closed_loop(self) -> ClosedLoop | None:
        """Eq. 2 along a roll-out, as a filter over f; None where h is not linear in each action by itself."""
        return ClosedLoop.of(self.h, self.smoothness) if isinstance(self.h, Autoregressor) else None

    def act(self, states: States, chance: FloatArray) -> FloatArray:  # noqa: ARG002
        """Act by Eq. 2, the minimiser of ||f - a||^2 + lambda ||h - a||^2."""
        return self.smooth(self.f.predict(states.view_through(self.horizon).matrix()), states)

    def go_on(self, states: States, kept: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Act with what is kept of the start (`Offset.__call__`); returns the actions, and what is kept from there."""
        assert self.offset is not None
        said = self.f.predict(states.view_through(self.horizon).matrix())
        z, kept = self.offset(said, states.history(1)[:, 0], kept)
        return self.smooth(z, states), kept

    def smooth(self, said: FloatArray, states: States) -> FloatArray:
        """Act by Eq. 2 where f says `said` (n, k)."""
        h = self.h(states.history(self.h.order))
        return (said + self.smoothness * h) / (1.0 + self.smoothness)

    def first_guess(self, states: States) -> FloatArray:
        """Guess the actions (n, k) from the contexts alone."""
        if self.horizon.memory == 0:
            return self.f.predict(states.view_through(self.horizon).matrix())
        if self.naive is None:
            raise ArgumentError(
                "start: this policy reads past actions and has no model of contexts alone (naive) to begin with: "
                "give the first actions as start=..., or start from the expert"
            )
        return self.naive.predict(states.view_through(self.horizon.without_actions()).matrix())

    def radius(self) -> float | None:
        """Return the spectral radius of the closed loop of h; None where h is not linear."""
        return self.h.radius(self.smoothness) if isinstance(self.h, LinearH) else None

    def in_units(self, units: Units, space: ActionSpace, card: Card = Card()) -> Self:  # noqa: B008 - frozen
        """Return the same policy for a user with these units and bounds, and with this card."""
        return replace(self, units=units, space=space, card=card)

    def holding(self, hold: Hold | None) -> Self:
        """Return the same policy with this hysteresis behind it, or with none; a band of another hold is dropped."""
        return self._become(replace(self, hold=hold))

    def keeping(self, offset: Offset | None) -> Self:
        """Return the same policy with this memory of the start, or with none; a band of another is dropped."""
        return self._become(replace(self, offset=offset))

    def _become(self, other: Self) -> Self:
        """Return another policy, without the band, which was measured on this one, if it acts otherwise."""
        same = repr((self.hold, self.offset)) == repr((other.hold, other.offset))
        return other if same else replace(other, card=other.card.without_band())


@dataclass(frozen=True, eq=False)
class MixedPolicy(OpenPolicy):
    """Policies and their weights: what both kinds of mixture have in common."""

    components: tuple[Policy, ...]
    weights: tuple[PerAction, ...]  # (k,) arrays where each action has its own

    def __post_init__(self) -> None:
        weights = tuple(_check_share(w, "weights") for w in self.weights)
        if len(weights) != len(self.components) or not (np.abs(np.sum(np.array(weights), axis=0) - 1.0) <= 1e-9).all():
            raise ArgumentError(f"weights must be one per component and sum to one; got {self.weights}")
        for component in self.components[1:]:
            if not component.units.equals(self.components[0].units):
                raise ArgumentError("components must share their units: learn them from the same demonstrations")
            if repr(hold(component)) != repr(hold(self.components[0])):
                raise ArgumentError("components must share their hold: give them one, policy.holding(...)")
            if timing(component) != timing(self.components[0]):
                raise ArgumentError("components must share their lead and what is known: learn them with the same")
            if repr(offset(component)) != repr(offset(self.components[0])):
                raise ArgumentError("components must share their offset: give them one, policy.keeping(...)")
        object.__setattr__(self, "weights", weights)
        if self.offset is not None and self.whole is None:
            raise ArgumentError(
                f"components: a {type(self).__name__} that is not one f and one linear h of a smoothness and a horizon "
                "keeps no offset: take it out of the components, policy.keeping(None)"
            )

    @property
    def memory(self) -> int:
        """How many past actions the mixture reads."""
        return max(c.memory for c in self.components)

    @property
    def reach(self) -> int:
        """How many frames back the mixture looks, at contexts or actions."""
        return max(c.reach for c in self.components)

    @property
    def n_actions(self) -> int:
        """Dimension k of an action."""
        return self.components[0].n_actions

    @property
    def n_contexts(self) -> int | None:
        """Dimension m of a context; None where any will do."""
        return self.components[0].n_contexts

    @property
    def units(self) -> Units:
        """What standard units mean to the user."""
        return self.components[0].units

    @property
    def space(self) -> ActionSpace:
        """The user's bounds."""
        return self.components[0].space

    @property
    def card(self) -> Card:
        """What the mixture is for, and where it comes from."""
        return self.components[0].card

    @property
    def hold(self) -> Hold | None:
        """The hysteresis that the mixture's actions pass, that of the components."""
        return hold(self.components[0])

    @property
    def offset(self) -> Offset | None:
        """The mixture's memory of the start, that of the components."""
        return offset(self.components[0])

    @property
    def parts(self) -> tuple[tuple[PerAction, SmoothPolicy], ...]:
        """The parts of its components."""
        pairs = zip(self.weights, self.components, strict=True)
        return tuple((weight * w, part) for weight, component in pairs for w, part in parts(component))

    @property
    def trend(self) -> Regularizer | None:
        """The weighted mean of those of the components; None where one has none."""
        trends = [h for c in self.components if (h := trend(c)) is not None]
        return WeightedRegularizer(tuple(trends), self.weights) if len(trends) == len(self.components) else None

    def first_guess(self, states: States) -> FloatArray:
        """Guess the actions (n, k) from the contexts alone, the mean over the components."""
        return np.asarray(sum(w * c.first_guess(states) for w, c in zip(self.weights, self.components, strict=True)))

    def in_units(self, units: Units, space: ActionSpace, card: Card = Card()) -> Self:  # noqa: B008 - frozen
        """Return the same mixture for a user with these units and bounds, and with this card."""
        return replace(self, components=tuple(c.in_units(units, space, card) for c in self.components))

    def holding(self, hold: Hold | None) -> Self:
        """Return the same mixture with this hysteresis behind it, or with none."""
        return replace(self, components=tuple(hold_by(c, hold) for c in self.components))

    def keeping(self, offset: Offset | None) -> Self:
        """Return the same mixture with this memory of the start, or with none."""
        return replace(self, components=tuple(keep_by(c, offset) for c in self.components))


@dataclass(frozen=True, eq=False)
class Mixture(MixedPolicy):
    """Deterministic interpolation: pi_det(s) = sum_i w_i pi_i(s)."""

    def act(self, states: States, chance: FloatArray) -> FloatArray:
        """Act by the weighted mean of what the components would do."""
        total = self.weights[0] * self.components[0].act(states, chance)
        for weight, component in zip(self.weights[1:], self.components[1:], strict=True):
            total = total + weight * component.act(states, chance)
        return total

    @property
    def is_stochastic(self) -> bool:
        """Whether a component tosses coins."""
        return any(map(is_stochastic, self.components))

    @cached_property
    def whole(self) -> SmoothPolicy | None:
        """The mixture as one policy; None where lambda or horizon differ, or an h is not linear (`collapse`)."""
        parts = [c for c in self.components if isinstance(c, SmoothPolicy)]
        hs = [p.h for p in parts if isinstance(p.h, LinearH)]
        if len(hs) < len(self.components) or not all(_alike(p, parts[0]) for p in parts):
            return None
        naive = [p.naive for p in parts if p.naive is not None]
        if len(naive) == len(parts) and any(n is not naive[0] for n in naive):
            naive = [WeightedModel(tuple(naive), self.weights)]
        return replace(
            parts[0],
            f=WeightedModel(tuple(p.f for p in parts), self.weights),
            h=average(hs, self.weights),
            naive=naive[0] if naive else None,
        )

    @cached_property
    def acting(self) -> Policy:
        """What acts in the mixture's place: without its lightest components (`prune`), and collapsed."""
        return collapse(prune(self).policy)

    def radius(self) -> float | None:
        """Return the closed-loop radius of the collapsed mixture; None where it does not collapse."""
        return None if self.whole is None else self.whole.radius()


@dataclass(frozen=True, eq=False)
class StochasticMixture(MixedPolicy):
    """Stochastic interpolation: pi_sto(s) = pi_i(s) with probability w_i, drawn anew in every state."""

    def act(self, states: States, chance: FloatArray) -> FloatArray:
        """Act, in each state, by the component that `chance` picks."""
        shares = np.array([float(np.mean(w)) for w in self.weights])  # a coin is tossed for all actions at once
        chosen = np.searchsorted(np.cumsum(shares)[:-1], chance, side="right")
        actions: dict[int, FloatArray] = {
            int(i): self.components[i].act(states.where(chosen == i), chance[chosen == i]) for i in np.unique(chosen)
        }
        result = np.empty((len(states), next(iter(actions.values())).shape[1]))
        for i, some in actions.items():
            result[chosen == i] = some
        return result

    def radius(self) -> float | None:
        """Return the largest closed-loop radius of the components; None where one has none."""
        radii = [radius(c) for c in self.components]
        return None if None in radii else max(r for r in radii if r is not None)


def parts(policy: Policy) -> tuple[tuple[PerAction, SmoothPolicy], ...]:
    """Return the smooth policies that a policy is made of, with their weights."""
    return policy.parts if isinstance(policy, OpenPolicy) else ()


def timing(policy: Policy) -> tuple[int, Known]:
    """Return how many frames ahead a policy acts, and which columns it knows ahead (`Horizon`)."""
    return next(((part.horizon.lead, part.horizon.known) for _, part in parts(policy)), (0, ()))


def given_frames(policy: Policy) -> int:
    """Return how many first frames of a roll-out are not the policy's: what it remembers, or before it can aim."""
    return max(policy.memory, timing(policy)[0])


def describe_timing(policy: Policy) -> dict[str, Any]:
    """Return how many frames ahead a policy acts, and what it knows ahead, as JSON has it; nothing where none."""
    lead, known = timing(policy)
    return ({"lead": lead} if lead else {}) | ({"known": [list(pair) for pair in known]} if known else {})


def recorded_names(policy: Policy) -> tuple[str, ...]:
    """Return the contexts that data have to hold: those of the card but for what is only known ahead."""
    names = policy.card.context_names
    return names[: len(names) - len(timing(policy)[1])]


def name_recorded(policy: Policy) -> tuple[str, ...]:
    """Return the recorded column that each context is of, those that are known ahead too."""
    names = recorded_names(policy)
    return (*names, *(names[column] for column, _ in timing(policy)[1]))


def tell_timing(policy: Policy) -> str:
    """Say which time a policy has: how long it waits or how far it aims ahead, and what it knows ahead."""
    ahead = [escape(name) for name in policy.card.context_names[len(recorded_names(policy)) :]]
    said = (tell_lead(timing(policy)[0], policy.card.rate), f"knows {', '.join(ahead)}" if ahead else "")
    return "; ".join(filter(None, said))


def hold(policy: Policy) -> Hold | None:
    """Return the hysteresis that a policy's actions pass; None where there is none."""
    return getattr(policy, "hold", None)


def describe_hold(policy: Policy) -> dict[str, Any]:
    """Return how far each action holds, in the user's units, and which step, as JSON has it; nothing where none."""
    found = hold(policy)
    if found is None:
        return {}
    return {"hold": (found.width * policy.units.scale).tolist(), "stepping": found.stepping.tolist()}


def hold_by(policy: Policy, by: Hold | None) -> Policy:
    """Return a policy with this hysteresis behind it, or with none."""
    if isinstance(policy, OpenPolicy):
        return policy.holding(by)
    if by is None:
        return policy
    raise ArgumentError(f"policy must be one of simile's own to hold; got {policy!r}")


def offset(policy: Policy) -> Offset | None:
    """Return what a policy keeps of the start; None where that is nothing."""
    return getattr(policy, "offset", None)


def describe_offset(policy: Policy) -> dict[str, Any]:
    """Return what each action keeps of the start, and what a frame leaves of it, as JSON has it."""
    found = offset(policy)
    return {} if found is None else {"offset": found.share.tolist(), "fade": found.fade.tolist()}


def keep_by(policy: Policy, by: Offset | None) -> Policy:
    """Return a policy with this memory of the start, or with none."""
    if isinstance(policy, OpenPolicy):
        return policy.keeping(by)
    if by is None:
        return policy
    raise ArgumentError(f"policy must be one of simile's own to keep an offset; got {policy!r}")


def tell(policy: Any) -> str:
    """Say in a line what a policy is: lambda of each action, how it holds in the user's units, what it keeps."""
    names = [escape(name) for name in policy.card.action_names] or [f"action {i}" for i in range(policy.n_actions)]
    smooth = dict.fromkeys(_tell_smoothness(part.smoothness, names) for _, part in parts(policy))  # each once
    said = "" if (held := hold(policy)) is None else f"; {held.tell(names, policy.units.scale)}"
    said += "" if (kept := offset(policy)) is None else f"; {kept.tell(names, policy.card.rate)}"
    said += f"; {told}" if (told := tell_timing(policy)) else ""
    return f"{type(policy).__name__}: smoothness {' or '.join(smooth)}{said}"


def _tell_smoothness(smoothness: PerAction, names: Sequence[str]) -> str:
    if not isinstance(smoothness, np.ndarray):
        return f"{smoothness:.4g}"
    return ", ".join(f"{name} {value:.4g}" for name, value in zip(names, smoothness, strict=True))


def is_stochastic(policy: Policy) -> bool:
    """Tell whether a policy may toss coins."""
    return not isinstance(policy, OpenPolicy) or policy.is_stochastic


def trend(policy: Policy) -> Regularizer | None:
    """Return what a policy goes on by where only the past actions count, h; None where there is none."""
    return policy.trend if isinstance(policy, OpenPolicy) else None


def whole(policy: Policy) -> SmoothPolicy | None:
    """Return a policy as one (f, h); None where that cannot be."""
    return policy.whole if isinstance(policy, OpenPolicy) else None


def closed_loop(policy: Policy) -> ClosedLoop | None:
    """Return a policy's roll-outs as a filter over f; None where it is not one policy with a linear h."""
    one = whole(policy)
    return None if one is None else one.closed_loop


def acting(policy: Policy) -> Policy:
    """Return what acts in a policy's place, in roll-outs and online: pruned and collapsed, once for each policy."""
    return policy.acting if isinstance(policy, Mixture) else policy


def radius(policy: Policy) -> float | None:
    """Return the closed-loop radius of a policy; None where its h is not linear."""
    measure = getattr(policy, "radius", None)
    return measure() if measure is not None else None


def interpolate(trained: Policy, policy: Policy, beta: PerAction) -> Policy:
    """Mix deterministically: beta * trained + (1 - beta) * policy (Algorithm 1, line 10)."""
    return _mix(Mixture, trained, policy, beta)


def sample(trained: Policy, policy: Policy, beta: float) -> Policy:
    """Mix stochastically, as SEARN and CPI do: trained with probability beta, else policy."""
    return _mix(StochasticMixture, trained, policy, beta)


def sample_geometric(trained: Policy, policy: Policy, beta: float) -> Policy:
    """Mix stochastically, as SMILe does: trained takes over a share beta of what the *first* policy still has."""
    components, weights = _flatten(policy, StochasticMixture)
    return StochasticMixture((*components, trained), ((1.0 - beta) * weights[0], *weights[1:], beta * weights[0]))


def replace_policy(trained: Policy, policy: Policy, beta: float) -> Policy:  # noqa: ARG001
    """Forget the old policy, as DAgger does."""
    return trained


def collapse(policy: Policy) -> Policy:
    """Write a mixture with one lambda and linear h as one policy; return any other policy as it is.

    sum_i w_i (f_i + lambda h_i) / (1 + lambda) = (sum_i w_i f_i + lambda sum_i w_i h_i) / (1 + lambda), and a
    sum of linear h_i is linear.
    """
    one = whole(policy)
    return policy if one is None else one


@dataclass(frozen=True, eq=False)
class Pruned:
    """A mixture without its lightest components, and how much that can matter."""

    policy: Policy
    dropped: int  # how many components
    weight: float  # theirs together
    bound: float  # largest change of one action from the same past, in standard units; NaN where f is no forest

    def __str__(self) -> str:
        return (
            f"dropped {self.dropped} components of weight {self.weight:.2g} together; one action changes by at most "
            f"{self.bound:.2g} standard deviations"
        )


def prune(policy: Policy, tolerance: float = 1e-6) -> Pruned:
    """Drop the components of a deterministic mixture whose weight is below `tolerance`; the others make up for it.

    If the dropped weight is w, f moves by at most w times the range of all leaf values, and h by at most w times
    the largest distance between autoregressors times the largest past action, taken to be the largest leaf value.
    """
    tolerance = checks.number(tolerance, "tolerance", at_least=0.0, at_most=0.1)
    if not isinstance(policy, Mixture) or all(np.max(w) >= tolerance for w in policy.weights):
        return Pruned(policy, 0, 0.0, 0.0)
    kept = [bool(np.max(w) >= tolerance) for w in policy.weights]
    lost = sum(w for w, keep in zip(policy.weights, kept, strict=True) if not keep)
    smaller = Mixture(
        tuple(c for c, keep in zip(policy.components, kept, strict=True) if keep),
        tuple(w / (1.0 - lost) for w, keep in zip(policy.weights, kept, strict=True) if keep),
    )
    weight = float(np.max(lost))
    one = whole(policy)
    parts = [c for c in policy.components if isinstance(c, SmoothPolicy)]
    values = [c.f.value for c in parts if isinstance(c.f, Forest)]
    if one is None or len(values) < len(policy.components):
        return Pruned(smaller, kept.count(False), weight, math.nan)
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    rows = align([c.h for c in parts if isinstance(c.h, LinearH)])
    rows = rows.reshape(len(rows), rows.shape[1], rows.shape[2], -1)
    apart = max(float(np.abs(a - b).sum(axis=(0, 2)).max()) for a in rows for b in rows)
    change = (high - low) + one.smoothness * apart * max(abs(low), abs(high))
    return Pruned(smaller, kept.count(False), weight, float(np.max(weight * change / (1.0 + one.smoothness))))


def _check_share(given: PerAction, name: str) -> PerAction:
    if isinstance(given, np.ndarray):
        return np.array([checks.number(w, name, at_least=0.0, at_most=1.0) for w in given])
    return checks.number(given, name, at_least=0.0, at_most=1.0)


def _alike(one: SmoothPolicy, other: SmoothPolicy) -> bool:
    return one.horizon == other.horizon and np.array_equal(one.smoothness, other.smoothness)


def _mix(kind: type[Mixture | StochasticMixture], trained: Policy, policy: Policy, beta: PerAction) -> Policy:
    beta = _check_share(beta, "beta")
    if np.all(beta == 1.0) or np.all(beta == 0.0):
        return trained if np.all(beta == 1.0) else policy
    components, weights = _flatten(policy, kind)
    return kind((*components, trained), (*((1.0 - beta) * w for w in weights), beta))


def _flatten(policy: Policy, kind: type[MixedPolicy]) -> tuple[tuple[Policy, ...], tuple[PerAction, ...]]:
    """Take a mixture of the same kind apart, so that mixtures stay flat."""
    return (policy.components, policy.weights) if isinstance(policy, kind) else ((policy,), (1.0,))
