"""Slow, obvious twins of what the library does fast."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from simile import Criterion, Mixture
from simile.models import PiecewiseLinear, WeightedModel
from simile.models.adapters import settle

MISSING = 255  # the bin of a missing value
TWO = np.float32(2.0)


def naive_state(demos, actions, horizon, sequence, t):
    """s_t = [x_t, ..., x_{t-p}, a_{t-1}, ..., a_{t-q}]; a lag before the first frame repeats that frame's value."""
    state = []
    for lag in horizon.context_lags:
        for j in range(demos.n_contexts):
            state += [demos[sequence].contexts[max(t - lag, 0), j]]
    for lag in horizon.action_lags:
        for j in range(demos.n_actions):
            state += [actions[sequence][max(t - lag, 0), j]]
    return np.array(state)


def naive_states(demos, actions, horizon):
    """All states, (n, features), frame by frame and sequence after sequence."""
    return np.array(
        [naive_state(demos, actions, horizon, i, t) for i in range(len(demos)) for t in range(len(demos[i]))]
    )


def naive_rollout(policy, demos):
    """Roll a policy in standard units out, one sequence and one frame at a time, from the expert's start."""
    trajectories = []
    for number, demo in enumerate(demos):
        actions = demo.actions.copy()
        for t in range(policy.memory, len(demo)):
            rolled = [actions if i == number else d.actions for i, d in enumerate(demos)]
            f = policy.f.predict(naive_state(demos, rolled, policy.horizon, number, t)[np.newaxis])[0]
            h = sum(policy.h.coefficients[i] * actions[max(t - 1 - i, 0)] for i in range(policy.h.order))
            actions[t] = (f + policy.smoothness * h) / (1.0 + policy.smoothness)
        trajectories.append(actions)
    return trajectories


def naive_place(column):
    """Middle and width of the narrowest quarter of the values of a short column, among eighths of those in order."""
    known = sorted(value for value in column if value == value)
    if not known:
        return float("nan"), 0.0
    eighths = [known[i * (len(known) - 1) // 8] for i in range(9)]
    best = (eighths[1], 0.0)
    for low, middle, high in zip(eighths, eighths[1:], eighths[2:], strict=False):
        width = high - low
        if width > 2.0**-48 * abs(middle) and (best[1] == 0.0 or width < best[1]):
            best = (middle, width)
    return best


def naive_edges(column):
    """At most 254 edges of a column, half-way to the next value: after each of few values, after quantiles of many."""
    values = sorted(np.float32(v) for v in column if not np.isnan(v))
    distinct = sorted(set(values))
    quantiles = {values[i * len(values) // MISSING] for i in range(1, MISSING)} if len(distinct) > MISSING else distinct
    middles = [(b, b / TWO + a / TWO, a) for b, a in itertools.pairwise(distinct) if b in quantiles]
    return [middle if middle < above else below for below, middle, above in middles]


def naive_bin(value, edges):
    """The number of edges below a value."""
    return MISSING if np.isnan(value) else sum(edge < np.float32(value) for edge in edges)


def naive_histogram(bins, payload):
    """The sums of the payload of each bin, (256, channels)."""
    return np.array(
        [sum((p for b, p in zip(bins, payload, strict=True) if b == i), 0 * payload[0]) for i in range(256)]
    )


def naive_random(seed):
    """Sebastiano Vigna's splitmix64, in whole numbers that do not wrap by themselves."""
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) % 2**64
        z = seed
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        yield z ^ (z >> 31)


def naive_branch(stream):
    """The streams of the left and the right child of a node: random bits of its own, turned in two ways."""
    return [next(naive_random(stream ^ turn)) for turn in (0xD1B54A32D192ED03, 0x8CB92BA72F3D8DD7)]


def naive_features(stream, n_features):
    """All features in the order in which a node draws them: each moves to the front and is changed for one there."""
    order = list(range(n_features))
    for drawn, bits in zip(range(n_features), naive_random(stream), strict=False):
        place = drawn + bits % (n_features - drawn)
        order[drawn], order[place] = order[place], order[drawn]
    return order


def naive_draw(lengths, by_sequence, seed):
    """How often each row is in a bag of as many sequences (or rows) as there are."""
    sequence_of_row = [i for i, length in enumerate(lengths) for _ in range(length)]
    n = len(lengths) if by_sequence else len(sequence_of_row)
    picks = [bits % n for bits in itertools.islice(naive_random(seed), n)]
    return [picks.count(sequence if by_sequence else row) for row, sequence in enumerate(sequence_of_row)]


@dataclass(frozen=True)
class NaiveNode:
    """Appendix B from the rows themselves: features (n, F), labels, targets a^ and anchors h(s) (n, k), weights."""

    features: np.ndarray
    labels: np.ndarray
    targets: np.ndarray
    anchors: np.ndarray
    weights: np.ndarray
    smoothness: float
    criterion: Criterion

    def at(self, rows):
        """The node of some of the rows."""
        parts = ("features", "labels", "targets", "anchors", "weights")
        return replace(self, **{part: getattr(self, part)[rows] for part in parts})

    @property
    def size(self):
        return self.weights.sum()

    @property
    def value(self):
        """The mean label: Eq. 23 or Eq. 25, depending on the labels."""
        return np.sum(self.weights[:, np.newaxis] * self.labels, axis=0) / self.size

    @property
    def impurity(self):
        """I = sum (v - a^)^2 + lambda (v - h)^2; for `Criterion.LABELS` the squared error of the labels."""
        losses = (self.value - self.targets) ** 2 + self.smoothness * (self.value - self.anchors) ** 2
        if self.criterion is Criterion.LABELS:
            losses = (self.value - self.labels) ** 2
        return np.sum(self.weights * losses.sum(axis=1))

    def reduction(self, left):
        """By how much a split lowers the impurity; `left` (n,) tells which rows go left."""
        a, b = self.at(left), self.at(~left)
        if self.criterion is Criterion.PRINTED:
            return self.impurity - a.size / self.size * a.impurity - b.size / self.size * b.impurity
        return self.impurity - a.impurity - b.impurity

    def goes_left(self, feature, highest, missing_right):
        """Which rows go left, (n,)."""
        column = self.features[:, feature]
        return (column <= highest) | (np.isnan(column) & (not missing_right))

    def splits(self, min_leaf):
        """All splits of this node: feature, highest value on the left, whether missing values go right."""
        found = []
        for feature, column in enumerate(self.features.T):
            for highest in np.unique(column[~np.isnan(column)]):
                for missing_right in (True, False):
                    left = self.goes_left(feature, highest, missing_right)
                    if self.weights[left].sum() >= min_leaf and self.weights[~left].sum() >= min_leaf:
                        found.append((feature, highest, missing_right))
        return found

    def best_reduction(self, min_leaf):
        """The largest reduction of any split; minus infinity where there is none."""
        return max((self.reduction(self.goes_left(*split)) for split in self.splits(min_leaf)), default=-np.inf)


def naive_split(node, rows, min_leaf, max_depth):
    """The best split of some rows of a node: its reduction, and the rows on either side; None where there is none."""
    here = node.at(rows)
    splits = here.splits(min_leaf) if max_depth > 0 else []
    reductions = [here.reduction(here.goes_left(*split)) for split in splits]
    # The impurity of Appendix B may rise at every split, and the paper splits all the same; CART's cannot.
    cart = node.criterion is Criterion.LABELS or (node.criterion is Criterion.SMOOTH and node.smoothness == 0.0)
    if not splits or (cart and max(reductions) <= 1e-9):
        return None
    left = here.goes_left(*splits[int(np.argmax(reductions))])
    return max(reductions), rows[left], rows[~left]


def naive_grow(node, min_leaf, max_depth, rows=None):
    """Grow a whole tree; returns its leaves as {rows: leaf value}."""
    rows = np.arange(len(node.weights)) if rows is None else rows
    split = naive_split(node, rows, min_leaf, max_depth)
    if split is None:
        return {tuple(rows): node.at(rows).value}
    return naive_grow(node, min_leaf, max_depth - 1, split[1]) | naive_grow(node, min_leaf, max_depth - 1, split[2])


def naive_grow_best_first(node, min_leaf, max_depth, max_leaves):
    """Split the leaf whose split lowers the impurity most, again and again; returns the leaves as {rows: value}."""
    leaves = [(np.arange(len(node.weights)), max_depth)]
    while len(leaves) < max_leaves:
        splits = [naive_split(node, rows, min_leaf, depth) for rows, depth in leaves]
        worth = [-np.inf if split is None else split[0] for split in splits]
        best = int(np.argmax(worth))
        if splits[best] is None:
            break
        _, depth = leaves.pop(best)
        leaves += [(side, depth - 1) for side in splits[best][1:]]
    return {tuple(rows): node.at(rows).value for rows, _ in leaves}


def naive_leaf(forest, root, state):
    """Walk one state down one tree, node by node."""
    node = root
    while forest.feature[node] >= 0:
        value = np.float32(state[forest.feature[node]])
        right = forest.missing_right[node] if np.isnan(value) else value > forest.threshold[node]
        node = forest.child[node] + int(right)
    return node


def naive_lines(model, S):
    """The intercept and one term after the other, for each state (n, features)."""
    actions = np.empty((len(S), model.n_actions))
    for row, state in enumerate(S):
        for j, total in enumerate(model.intercept):
            for i, feature in enumerate(model.feature):
                value = float(np.float32(state[feature]))
                value = float(model.fill[i]) if np.isnan(value) else value
                total += model.coefficient[i, j] * max(value, float(model.knot[i]))
            actions[row, j] = total
    return actions


def naive_predict(model, S):
    """The mean over the trees of the leaf each state (n, features) ends in; lines; or several models, weighted."""
    model = settle(model)
    if isinstance(model, WeightedModel):
        return sum(w * naive_predict(f, S) for w, f in zip(model.weights, model.models, strict=True))
    if isinstance(model, PiecewiseLinear):
        return naive_lines(model, S)
    return np.array([np.mean([model.value[naive_leaf(model, r, s)] for r in model.roots], axis=0) for s in S])


def naive_roll(policy, contexts, past, given):
    """Roll policies made of forests and lines out one frame, policy, tree and node at a time, from any opening."""
    parts = zip(policy.components, policy.weights, strict=True) if isinstance(policy, Mixture) else [(policy, 1.0)]
    parts, trajectories = list(parts), []
    low, high = (policy.units.standardize(bound) for bound in (policy.space.low, policy.space.high))
    for x, before, known in zip(contexts, past, given, strict=True):
        history = list(policy.units.standardize(np.concatenate([before, known])))
        for t in range(len(known), len(x)):

            def action(lag, history=history):
                return history[max(len(history) - lag, 0)]

            acted = 0.0
            for one, weight in parts:
                state = [x[max(t - lag, 0)] for lag in one.horizon.context_lags]
                state += [action(lag) for lag in one.horizon.action_lags]
                f = naive_predict(one.f, np.concatenate(state)[np.newaxis])[0]
                matrices = [np.diag(c) if c.ndim == 1 else c for c in one.h.coefficients]
                h = sum(c @ action(i + 1) for i, c in enumerate(matrices))
                acted += weight * (f + one.smoothness * h) / (1.0 + one.smoothness)
            history.append(np.clip(acted, low, high))
        chosen = np.reshape(history[len(before) + len(known) :], (-1, policy.n_actions))
        trajectories.append(np.concatenate([known, policy.space.clip(policy.units.restore(chosen))]))
    return trajectories


class NaiveStream:
    """One stream of an online predictor made of forests and lines: all its frames, in lists that grow forever."""

    def __init__(self, policy, start=()):
        self.policy = policy
        self.contexts, self.actions = [], [policy.units.standardize(np.asarray(a)) for a in start]
        self.offset = None  # what was added to f last; None where somebody else acted since

    def context(self, lag):
        return self.contexts[max(len(self.contexts) - 1 - lag, 0)]

    def action(self, lag):
        return self.actions[max(len(self.actions) - lag, 0)]

    def trend(self):
        """h of the past actions."""
        return sum(c * self.action(i + 1) for i, c in enumerate(self.policy.h.coefficients))

    def step(self, x):
        """Act in a frame with this context, by one policy, tree and node at a time."""
        self.contexts.append(np.asarray(x))
        horizon = self.policy.horizon
        if not self.actions:
            model = self.policy.naive if horizon.memory else self.policy.f
            self.actions.append(naive_predict(model, np.tile(self.contexts[0], (1, len(horizon.context_lags))))[0])
        state = [self.context(lag) for lag in horizon.context_lags] + [self.action(lag) for lag in horizon.action_lags]
        f = naive_predict(self.policy.f, np.concatenate(state)[np.newaxis])[0]
        if (kept := self.policy.offset) is not None:
            anew = self.offset is None
            self.offset = kept.share * (self.action(1) - f) if anew else kept.fade * self.offset
            f = f + self.offset
        return self.take((f + self.policy.smoothness * self.trend()) / (1.0 + self.policy.smoothness))

    def miss(self):
        """Extrapolate in a frame without a context."""
        self.contexts.append(self.contexts[-1])
        return self.take(self.trend())

    def override(self, action, x):
        """Let somebody else act."""
        self.contexts.append(np.asarray(x))
        self.actions.append(self.policy.units.standardize(np.asarray(action)))
        self.offset = None

    def take(self, action):
        """Make a clipped action the past, and return it in the user's units."""
        units, space = self.policy.units, self.policy.space
        self.actions.append(np.clip(action, units.standardize(space.low), units.standardize(space.high)))
        return space.clip(units.restore(self.actions[-1]))


def naive_play(actions, width, start=None):
    """y_t = min(max(y_{t-1}, a_t - w), a_t + w), frame by frame."""
    y, followed = actions[0] if start is None else start, []
    for action in actions:
        y = np.minimum(np.maximum(y, action - width), action + width)
        followed.append(y)
    return np.array(followed)


def naive_reversals(actions, threshold):
    """How often a sequence of numbers comes back from its last extreme by more than the threshold."""
    way, extreme, turns = 0, None, 0
    for action in actions:
        if way == 0:
            if abs(action - actions[0]) > threshold / 2.0:
                way, extreme = np.sign(action - actions[0]), action
        elif way * (action - extreme) > 0.0:
            extreme = action
        elif way * (extreme - action) > threshold:
            way, extreme, turns = -way, action, turns + 1
    return turns


def naive_bends(actions, order):
    """The sum of the absolute differences of an order of a sequence of numbers."""
    for _ in range(order):
        actions = [after - before for before, after in itertools.pairwise(actions)]
    return sum(map(abs, actions))


def naive_rests(actions, threshold, rate=None):
    """How many frames of a sequence of numbers are in a rest: its play moves by a tenth of the threshold at most."""
    shortest = max(3, -(-(rate or 0.0) // 4))  # a quarter of a second
    steps = np.abs(np.diff(naive_play(actions, threshold / 2.0))) if len(actions) else np.empty(0)
    windows = [range(i, i + int(shortest)) for i in range(len(steps) - int(shortest) + 1)]
    return len({t for window in windows if sum(steps[t] for t in window) <= 0.1 * threshold for t in window})
