"""Section 5 of the paper and its appendix A, one pure scalar function per numbered statement.

    H  `curvature`         a policy is H-state-smooth in the previous action (Definition 2.2)
    R  `action_bound`      upper bound of the action space A
    γ  `gamma`             Lipschitz constant of a policy in the previous action; of several previous actions, in
                           the largest ‖a - a'‖ of one of them
    L  `lipschitz`         Lipschitz constant of the loss ℓ
    β  `beta`              step size of π' = β π̂ + (1-β) π
    ε  `epsilon`           max over s ~ d_π of ‖π̂(s) - π(s)‖
    T  `length`            horizon
    Δ  `advantage`         ℓ_π(π) - ℓ_π(π̂), both on the states of π
    δ  `drift`             γ ε L / (1-γ)
    ω  `fit_error`         average supervised error of F
    Ω  `expert_gap`        average ‖a*_t - a_{t-1}‖
    η  `roughness_budget`  the most average ‖a_t - a_{t-1}‖ allowed
    λ  `smoothness`        weight of h in Example 2.1

Losses are averages over the T steps. Lemma 5.2 and Corollary 5.3 (deterministic against stochastic
mixing) state no number and so have no function; `tests/test_theory.py` checks every statement, these
two included, against simulated truth, and measures those that fail as printed. Functions called
"extra" are ours, not the paper's.
"""

from __future__ import annotations

import math
from typing import Any

from simile._common import checks
from simile.errors import ArgumentError

# Stability: Section 5.1 and Lemma A.1


def self_bounding_slope(curvature: float, value: float) -> float:
    """Lemma A.1: a non-negative H-smooth φ on all of ℝ has |φ'(a)| ≤ √(4 H φ(a)).

    Examples
    --------
    >>> self_bounding_slope(curvature=0.5, value=8.0)
    4.0
    """
    return math.sqrt(4.0 * _size(curvature, "curvature") * _size(value, "value"))


def smooth_gap_bound(curvature: float, value: float, other_value: float, distance: float) -> float:
    """Lemma 5.1 (and A.2): (φ(a) - φ(a'))² ≤ 6 H (φ(a) + φ(a')) ‖a - a'‖².

    φ must be non-negative on all of ℝᵏ: on a bounded A alone, φ(a) = a has H = 0 and breaks it.

    Examples
    --------
    >>> smooth_gap_bound(curvature=0.5, value=1.0, other_value=2.0, distance=2.0)
    36.0
    """
    total = _size(value, "value") + _size(other_value, "other_value")
    return 6.0 * _size(curvature, "curvature") * total * _size(distance, "distance") ** 2


def lipschitz_from_curvature(curvature: float, action_bound: float) -> float:
    """Section 5.1: by Lemma 5.1, ‖π([x,a]) - π([x,a'])‖ ≤ √(12 H R) ‖a - a'‖.

    This bounds each component of π; in the Euclidean norm of ℝᵏ a factor √k is missing.

    Examples
    --------
    >>> lipschitz_from_curvature(curvature=0.03, action_bound=1.0)
    0.6
    """
    return math.sqrt(12.0 * _size(curvature, "curvature") * _size(action_bound, "action_bound"))


def largest_curvature(action_bound: float, gamma: float = 1.0) -> float:
    """Section 5.1: the H at which √(12 H R) = γ; "sufficiently small H" means at most this.

    Examples
    --------
    >>> largest_curvature(action_bound=3.0, gamma=0.6)
    0.01
    """
    return _size(gamma, "gamma") ** 2 / (12.0 * checks.number(action_bound, "action_bound", above=0.0))


def satisfies_stability_1(gamma: float) -> bool:
    """Stability Condition 1: ‖π([x,a]) - π([x,a'])‖ ≤ ‖a - a'‖, that is γ ≤ 1.

    Examples
    --------
    >>> satisfies_stability_1(1.0)
    True
    """
    return _size(gamma, "gamma") <= 1.0


def satisfies_stability_2(gamma: float) -> bool:
    """Stability Condition 2: π is γ-Lipschitz in the previous action with γ < 1.

    Examples
    --------
    >>> satisfies_stability_2(1.0)
    False
    """
    return _size(gamma, "gamma") < 1.0


def policy_gamma(smoothness: float) -> float:
    """γ of Example 2.1 with f ignoring a: π([x,a]) = (f(x) + λ a) / (1+λ) has γ = λ / (1+λ).

    Examples
    --------
    >>> policy_gamma(smoothness=3.0)
    0.75
    """
    weight = _size(smoothness, "smoothness")
    return weight / (1.0 + weight)


# Policy improvement: Section 5.3. Every bound is one on ℓ_π'(π') - ℓ_π(π); negative is better.


def searn_bound(beta: float, length: int, trained_loss: float, max_loss: float) -> float:
    """Lemma 5.4 (SEARN's Lemma 1): β T E_{s~d_π}[ℓ(π̂(s))] + ½ β² T² ℓ_max, for β in (0, 1/T).

    It holds when `trained_loss` is SEARN's own: what following π after π̂'s action costs (averaged
    over the T steps) beyond the best action, not the loss ℓ of that one step, as the paper prints.

    Examples
    --------
    >>> searn_bound(beta=0.125, length=4, trained_loss=0.5, max_loss=2.0)
    0.5
    """
    steps = checks.whole_number(length, "length", at_least=1)
    share = steps * _below(checks.number(beta, "beta", above=0.0), "beta", 1.0 / steps, "1/T")
    trained = _size(trained_loss, "trained_loss")
    return share * trained + 0.5 * share**2 * _size(max_loss, "max_loss")


def horizon_bound(beta: float, epsilon: float, lipschitz: float, length: int, advantage: float) -> float:
    """Theorem 5.5 (Eq. 3): β ε L T - β Δ, under Stability Condition 1; below ε L - β Δ for β < 1/T (Eq. 4).

    A loss that is L-Lipschitz has Δ ≤ ε L, so this is never negative: it limits harm, no more.

    Examples
    --------
    >>> horizon_bound(beta=0.25, epsilon=1.0, lipschitz=1.0, length=4, advantage=0.5)
    0.875
    """
    steps = checks.whole_number(length, "length", at_least=1)
    return _linear_bound(beta, steps * _slip(epsilon, lipschitz), advantage)


def tighter_horizon_bound(beta: float, epsilon: float, lipschitz: float, length: int, advantage: float) -> float:
    """Extra, from the proof of Theorem 5.5: β ε L (T+1)/2 - β Δ, since ‖s'_t - s_t‖ ≤ β ε t averages so.

    Examples
    --------
    >>> tighter_horizon_bound(beta=0.25, epsilon=1.0, lipschitz=1.0, length=4, advantage=0.5)
    0.5
    """
    steps = checks.whole_number(length, "length", at_least=1)
    return _linear_bound(beta, 0.5 * (steps + 1) * _slip(epsilon, lipschitz), advantage)


def improvement_bound(beta: float, gamma: float, epsilon: float, lipschitz: float, advantage: float) -> float:
    """Theorem 5.6 (Eq. 5): β γ ε L / ((1-β)(1-γ)) - β Δ, under Stability Condition 2; no T in it.

    Examples
    --------
    >>> improvement_bound(beta=0.5, gamma=0.5, epsilon=1.0, lipschitz=1.0, advantage=4.0)
    -1.0
    """
    step = _below(_size(beta, "beta"), "beta", 1.0)
    return _linear_bound(step, drift(gamma, epsilon, lipschitz) / (1.0 - step), advantage)


def tighter_improvement_bound(beta: float, gamma: float, epsilon: float, lipschitz: float, advantage: float) -> float:
    """Extra: Theorem 5.6 without its 1/(1-β), so β δ - β Δ, and for β = 1 too.

    The proof's claim holds as ‖s'_t - s_t‖ ≤ β ε / (1-γ): it is true at the common start, and
    ‖s'_t - s_t‖ ≤ γ ‖s'_{t-1} - s_{t-1}‖ + β ε ≤ γ β ε / (1-γ) + β ε = β ε / (1-γ).

    Examples
    --------
    >>> tighter_improvement_bound(beta=0.5, gamma=0.5, epsilon=1.0, lipschitz=1.0, advantage=4.0)
    -1.5
    """
    return _linear_bound(beta, drift(gamma, epsilon, lipschitz), advantage)


def farthest(gamma: float, epsilon: float) -> float:
    """Extra: ε / (1-γ), the most that a step of any size moves an action (see `tighter_improvement_bound`).

    The squared loss is Lipschitz on bounded actions alone: L is of those met, and of all that are this far from them.

    Examples
    --------
    >>> farthest(gamma=0.75, epsilon=2.0)
    8.0
    """
    return _size(epsilon, "epsilon") / (1.0 - _below(_size(gamma, "gamma"), "gamma", 1.0))


def drift(gamma: float, epsilon: float, lipschitz: float) -> float:
    """Corollary 5.7: δ = γ ε L / (1-γ), the most that the changed states can cost per unit of β.

    Examples
    --------
    >>> drift(gamma=0.75, epsilon=2.0, lipschitz=1.0)
    6.0
    """
    rate = _below(_size(gamma, "gamma"), "gamma", 1.0)
    return rate * _slip(epsilon, lipschitz) / (1.0 - rate)


def monotonic_step(advantage: float, drift: float) -> float:
    """Corollary 5.7: the step β = (Δ-δ) / (2Δ); 0 where Δ ≤ δ, a case the paper leaves out.

    An L-Lipschitz loss has Δ ≤ ε L, so Δ > δ needs γ < 1/2 (λ < 1 in Example 2.1).

    Examples
    --------
    >>> monotonic_step(advantage=4.0, drift=1.0)
    0.375
    """
    gain, cost = _gain_and_cost(advantage, drift)
    return (gain - cost) / (2.0 * gain) if gain > cost else 0.0


def monotonic_improvement(advantage: float, drift: float) -> float:
    """Corollary 5.7 (Eq. 6): -(Δ-δ)² / (2(Δ+δ)), Theorem 5.6 at `monotonic_step`; 0 where Δ ≤ δ.

    Examples
    --------
    >>> monotonic_improvement(advantage=4.0, drift=1.0)
    -0.9
    """
    gain, cost = _gain_and_cost(advantage, drift)
    return -((gain - cost) ** 2) / (2.0 * (gain + cost)) if gain > cost else 0.0


def best_step(advantage: float, drift: float) -> float:
    """Extra: β = 1 - √(δ/Δ), the exact minimiser of Theorem 5.6's β δ/(1-β) - β Δ; 0 where Δ ≤ δ.

    Examples
    --------
    >>> best_step(advantage=4.0, drift=1.0)
    0.5
    """
    gain, cost = _gain_and_cost(advantage, drift)
    return 1.0 - math.sqrt(cost / gain) if gain > cost else 0.0


def best_improvement(advantage: float, drift: float) -> float:
    """Extra: -(√Δ - √δ)², Theorem 5.6 at `best_step`; 0 where Δ ≤ δ.

    Examples
    --------
    >>> best_improvement(advantage=4.0, drift=1.0)
    -1.0
    """
    gain, cost = _gain_and_cost(advantage, drift)
    return -((math.sqrt(gain) - math.sqrt(cost)) ** 2) if gain > cost else 0.0


# Smooth feedback: Section 5.4


def feasible_gap(fit_error: float, roughness_budget: float, smoothness: float) -> float:
    """Proposition 5.8: the gap 3ω + η(1+λ) from which a* as feedback asks for a non-smooth policy.

    Examples
    --------
    >>> feasible_gap(fit_error=0.5, roughness_budget=0.25, smoothness=3.0)
    2.5
    """
    budget = _size(roughness_budget, "roughness_budget")
    return 3.0 * _size(fit_error, "fit_error") + budget * (1.0 + _size(smoothness, "smoothness"))


def roughness_floor(expert_gap: float, fit_error: float, smoothness: float) -> float:
    """Proposition 5.8, its proof: average ‖â_t - â_{t-1}‖ ≥ (Ω - 3ω) / (1+λ); says nothing when negative.

    It needs errors of at most ω of f and of f̂, each on its own roll-out, and roll-outs of one start.

    Examples
    --------
    >>> roughness_floor(expert_gap=2.5, fit_error=0.5, smoothness=3.0)
    0.25
    """
    gap = _size(expert_gap, "expert_gap") - 3.0 * _size(fit_error, "fit_error")
    return gap / (1.0 + _size(smoothness, "smoothness"))


def needs_smooth_feedback(expert_gap: float, fit_error: float, roughness_budget: float, smoothness: float) -> bool:
    """Proposition 5.8 (Eq. 7): whether Ω ≥ 3ω + η(1+λ), so that targets a* break the budget η.

    As sure as `roughness_floor`, and under its conditions.

    Examples
    --------
    >>> needs_smooth_feedback(expert_gap=2.5, fit_error=0.5, roughness_budget=0.25, smoothness=3.0)
    True
    """
    return _size(expert_gap, "expert_gap") >= feasible_gap(fit_error, roughness_budget, smoothness)


def _linear_bound(beta: float, cost: float, advantage: float) -> float:
    """β (cost - Δ): what every bound of Section 5.3 but SEARN's comes down to."""
    return checks.number(beta, "beta", at_least=0.0, at_most=1.0) * (cost - checks.number(advantage, "advantage"))


def _slip(epsilon: float, lipschitz: float) -> float:
    """ε L: the most one step of π̂ instead of π changes the loss."""
    return _size(epsilon, "epsilon") * _size(lipschitz, "lipschitz")


def _gain_and_cost(advantage: float, drift: float) -> tuple[float, float]:
    return checks.number(advantage, "advantage"), _size(drift, "drift")


def _size(value: Any, name: str) -> float:
    return checks.number(value, name, at_least=0.0)


def _below(value: float, name: str, limit: float, label: str = "") -> float:
    if value >= limit:
        raise ArgumentError(f"{name} must be < {label and label + ' = '}{limit:g}; got {value!r}")
    return value
