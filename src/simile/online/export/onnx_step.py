"""One step of any policy as an ONNX graph: a context and the recent past in, an action and the next past out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from simile._common.files import write_atomically
from simile._common.typing import FloatArray, PerAction
from simile.data.states import Horizon
from simile.errors import ArgumentError
from simile.models import Forest, Model, PiecewiseLinear, parts_of
from simile.models.coupling import check_apart
from simile.models.regularizers import Autoregressor
from simile.online.export.onnx_graph import Graph
from simile.online.export.onnx_models import Networked, add_forests, add_line, add_network
from simile.online.export.subject import Exported, Subject, check_path, name_model
from simile.policies.policies import Mixture, Policy, SmoothPolicy, describe_timing, hold, offset
from simile.policies.rollouts import find_first

COLD = 0.5  # is added to how long a stream has waited that began cold
DOC = (
    "One step of a policy learned by simile. x: contexts. contexts, actions: the recent past of each stream, latest "
    "last, in your units; a stream whose latest action is NaN is new. Feed contexts_next and actions_next back, and "
    "held_next and offset_next where they are there."
)
DOC_WAIT = (
    " action is that for the frame {wait} frames ago: NaN in the first {wait} frames of a stream. After its last frame "
    "put the last context in so many times more. Feed waited_next back, too; a half in it says that the stream began "
    "cold."
)


def export_onnx(policy: Any, path: str | os.PathLike[str]) -> Exported:
    """Write one step of a policy as an ONNX graph, for a batch of streams.

    Inputs are x (n, m), contexts (n, reach, m) and actions (n, reach, k), outputs action (n, k), contexts_next and
    actions_next, all double and in the user's units. A past full of NaN begins a stream cold. A policy that holds has
    an input held (n, k) besides, the action done last (NaN begins), and an output held_next; one that remembers the
    start has offset (n, k), in standard units (NaN: to be taken anew), and offset_next. One that may wait (lead) has
    more rows of contexts, and waited (n, 1) and waited_next, how many frames have come. See docs/export.md.

    Parameters
    ----------
    policy : Policy
        Forests, lines and networks as f, a linear h, and mixtures of such.
    path : str or path
        The file, ending in .onnx.

    Returns
    -------
    Exported
        How much room the file and a state take.

    Raises
    ------
    ArgumentError
        When a part of the policy cannot be written as a graph, or onnx is not installed.
    """
    out = check_path(path, ".onnx", "export_onnx writes ONNX, and export_c writes C")
    subject = Subject.of(policy)
    if subject.codes:
        raise ArgumentError(
            "policy: codes for missing values are not written to ONNX: give NaN for them, and export it without: "
            "policy.in_units(policy.units, policy.space, replace(policy.card, preparation=Preparation()))"
        )
    data = _Step(subject).model().SerializeToString(deterministic=True)
    write_atomically(out, data)
    kept = subject.reach + sum(part(subject.policy) is not None for part in (hold, offset))
    state = subject.rows * subject.n_contexts + kept * subject.n_actions + (subject.wait > 0)
    return Exported(out, len(data), 8 * state)


class _Step:
    """The graph of a step; each method adds a part and returns the name of its value."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.graph = graph = Graph()
        n, reach, m, k = "n", subject.reach, subject.n_contexts, subject.n_actions
        self.x = graph.input("x", (n, m))
        self.contexts = graph.input("contexts", (n, subject.rows, m))
        self.actions = graph.input("actions", (n, reach, k))
        self.held = None if hold(subject.policy) is None else graph.input("held", (n, k))
        self.offset = None if offset(subject.policy) is None else graph.input("offset", (n, k))
        self.waited = graph.input("waited", (n, 1)) if subject.wait else None
        self.first = find_first(subject.policy) if subject.begins else None
        self.predicted: dict[tuple[int, Horizon], str] = {}  # by model, for mixtures often share theirs

    def model(self) -> Any:
        """Build it all."""
        graph, subject = self.graph, self.subject
        policy, reach, rows, k = subject.policy, subject.reach, subject.rows, subject.n_actions
        units, space = policy.units, policy.space
        self.new = graph.add("IsNaN", graph.add("ReduceSum", self._rows(self.actions, [reach - 1]), self._ints([1, 2])))
        now = graph.add("Unsqueeze", self.x, self._ints([1]))
        # Lags before the first frame repeat it, as everywhere.
        self.window = graph.add("Concat", graph.add("Where", self.new, now, self.contexts), now, axis=1)
        self.past = self._standardize(self.actions)
        if subject.begins:
            guessed = self._mix(policy, self._guess)
            guessed = guessed if self.first is None else self._clip(guessed, *self.first)
            guess = graph.add("Unsqueeze", guessed, self._ints([1]))
            self.past = graph.add("Where", self.new, guess, self.past)
        acted = self._clip(self._mix(policy, self._act), units.standardize(space.low), units.standardize(space.high))
        acted = self._begin(acted, units.standardize)
        wanted = self._begin(self._clip(self._restore(acted), space.low, space.high))
        action = wanted
        if self.held is not None:
            action = self._begin(self._clip(self._restore(self._hold(acted)), space.low, space.high))
        latest = graph.add("Unsqueeze", wanted, self._ints([1]))
        later = list(range(1, reach))
        before = graph.add("Where", self.new, self._restore(self.past), self.actions)
        kept = [self._rows(before, later)] if later else []
        graph.output("action", self._unless_waiting(action), ("n", k))
        graph.output("contexts_next", self._rows(self.window, [*range(1, rows + 1)]), ("n", rows, subject.n_contexts))
        shifted = graph.add("Concat", *kept, latest, axis=1)
        graph.output("actions_next", self._unless_waiting(shifted, before, per_row=True), ("n", reach, k))
        if self.held is not None:
            graph.output("held_next", self._unless_waiting(action, self.held), ("n", k))
        if self.offset is not None:
            graph.output("offset_next", self._unless_waiting(self.offset, "offset"), ("n", k))
        if self.waited is not None:
            graph.output("waited_next", self._count_on(), ("n", 1))
        card, bands = policy.card, subject.bands
        facts = {
            "context_names": json.dumps(card.context_names),
            "action_names": json.dumps(card.action_names),
            "rate": json.dumps(card.rate),
            "digest": subject.digest,
            "simile": version("smooth-imitation"),
            **{name: json.dumps(value) for name, value in describe_timing(policy).items()},
            **({"band": json.dumps({f"{p:g}": half.tolist() for p, half in bands.items()})} if bands else {}),
        }
        return graph.model(facts, DOC + DOC_WAIT.format(wait=subject.wait) * (subject.wait > 0))

    def _count(self) -> str:
        """Return how many frames streams have waited; none of those that are new, (n, 1)."""
        graph = self.graph
        assert self.waited is not None
        new = graph.add("Or", graph.add("IsNaN", self.waited), self._is_new())
        return graph.add("Where", new, graph.constant(0.0), self.waited)

    def _count_on(self) -> str:
        """Return how many frames streams have waited after this one, and half a frame more where they began cold."""
        graph = self.graph
        one = graph.constant(1.0)
        if self.first is not None:
            one = graph.add("Where", self._is_new(), graph.constant(1.0 + COLD), one)
        waits = graph.add("Less", self._count(), graph.constant(float(self.subject.wait)))
        return graph.add("Where", waits, graph.add("Add", self._count(), one), graph.constant(float(self.subject.wait)))

    def _begin(self, actions: str, units: Callable[[FloatArray], FloatArray] = np.asarray) -> str:
        """Clip the first actions (n, k) of cold starts to where experts began, in these units."""
        space = self.subject.policy.space
        if self.first is None or space.first_low is None or space.first_high is None:
            return actions
        wait = self.graph.constant(float(self.subject.wait))
        cold = self._is_new() if self.waited is None else self.graph.add("Greater", self._count(), wait)
        sides = (units(space.clip(side)) for side in (space.first_low, space.first_high))
        return self.graph.add("Where", cold, self._clip(actions, *sides), actions)

    def _is_new(self) -> str:
        """Return which streams have no past, (n, 1)."""
        return self.graph.add("Squeeze", self.new, self._ints([2]))

    def _unless_waiting(self, value: str, instead: str | None = None, *, per_row: bool = False) -> str:
        """Return a value, and for streams that wait another one, or NaN; the value where a policy never waits."""
        if self.waited is None:
            return value
        waits = self.graph.add("Less", self._count(), self.graph.constant(float(self.subject.wait)))
        each = self.graph.add("Unsqueeze", waits, self._ints([2])) if per_row else waits
        return self.graph.add("Where", each, instead or self.graph.constant(np.nan), value)

    def _hold(self, acted: str) -> str:
        """Let actions pass the hysteresis, which stands where it was, or where the past ended; (n, k)."""
        graph, passed = self.graph, hold(self.subject.policy)
        assert passed is not None
        assert self.held is not None
        units, space = self.subject.policy.units, self.subject.policy.space
        latest = self._clip(self._last(), units.standardize(space.low), units.standardize(space.high))
        begun = graph.add("IsNaN", self.held)
        position = graph.add("Where", begun, latest, self._standardize(self.held))
        width = self._each(passed.width)
        ends = (graph.add(kind, acted, width) for kind in ("Sub", "Add"))
        glide = graph.add("Min", graph.add("Max", position, next(ends)), next(ends))
        far = graph.add("Greater", graph.add("Abs", graph.add("Sub", acted, position)), width)
        step = graph.add("Where", far, acted, position)
        return graph.add("Where", graph.constant(passed.stepping, np.bool_), step, glide)

    # --------------------------------------------------------------------------------------------------------- policies

    def _mix(self, policy: Policy, write: Callable[[SmoothPolicy], str]) -> str:
        """Add what `write` adds for a smooth policy, or the weighted mean of that over the components, (n, k)."""
        if isinstance(policy, SmoothPolicy):
            return write(policy)
        if not isinstance(policy, Mixture):
            raise ArgumentError(f"policy: a {type(policy).__name__} cannot be written as a graph")
        added = [self._mix(component, write) for component in policy.components]
        weighted = [self.graph.times(value, w) for value, w in zip(added, policy.weights, strict=True)]
        return self.graph.add("Sum", *weighted)

    def _act(self, policy: SmoothPolicy) -> str:
        """Act in standard units by Eq. 2, (n, k)."""
        check_apart(policy.h, "policy", "an export")
        if not isinstance(policy.h, Autoregressor):
            raise ArgumentError(
                f"policy: h must be linear to be exported; got a {type(policy.h).__name__}: learn with "
                "regularizer=CriticallyDamped() or another of simile's own"
            )
        reach, order = self.subject.reach, policy.h.order
        history = self._rows(self.past, [reach - 1 - i for i in range(order)])
        terms = self.graph.times(history, policy.h.coefficients)
        h = self.graph.add("ReduceSum", terms, self._ints([1]), keepdims=0)
        pull = self.graph.times(h, policy.smoothness)
        total = self.graph.add("Add", self._keep(policy, self._predict(policy.f, policy.horizon)), pull)
        return self.graph.over(total, 1.0 + policy.smoothness)

    def _keep(self, policy: SmoothPolicy, said: str) -> str:
        """Add what is kept of the start to what f says, and let it fade for the next frame; (n, k)."""
        if policy.offset is None or self.offset is None:
            return said
        graph = self.graph
        anew = graph.times(graph.add("Sub", self._last(), said), policy.offset.share)
        kept = graph.add("Where", graph.add("IsNaN", self.offset), anew, self.offset)
        self.offset = graph.times(kept, policy.offset.fade)
        return graph.add("Add", said, kept)

    def _guess(self, policy: SmoothPolicy) -> str:
        """Guess the first action from contexts alone, in standard units, (n, k)."""
        if policy.horizon.memory == 0 or policy.naive is None:
            return self._predict(policy.f, policy.horizon)  # the node is the one of the step: it costs nothing
        return self._predict(policy.naive, policy.horizon.without_actions())

    # ----------------------------------------------------------------------------------------------------------- models

    def _predict(self, model: Model, horizon: Horizon) -> str:
        """Predict in standard units from the states that a horizon shows, (n, k)."""
        if (id(model), horizon) not in self.predicted:
            parts = parts_of(model)
            forests = [(f, weight) for f, weight in parts if isinstance(f, Forest)]
            found = [add_forests(self.graph, self._look(horizon), forests)] if forests else []
            found += [self._other(f, weight, horizon) for f, weight in parts if not isinstance(f, Forest)]
            self.predicted[id(model), horizon] = self.graph.add("Sum", *found)
        return self.predicted[id(model), horizon]

    def _other(self, model: Model, weight: PerAction, horizon: Horizon) -> str:
        """Add a weighted model that is no forest."""
        seen = self._look(horizon)
        if isinstance(model, PiecewiseLinear):
            return add_line(self.graph, seen, model, weight)
        if isinstance(model, Networked):
            n_features = horizon.n_features(self.subject.n_contexts, self.subject.n_actions)
            out = add_network(self.graph, seen, model, n_features)
            return self.graph.times(out, weight)
        raise ArgumentError(
            f"policy: {name_model(model)} is a model of another library, which export_onnx does not know: convert the "
            "model itself by skl2onnx, or learn with SmoothForest(), Ridge() or a network"
        )

    def _look(self, horizon: Horizon) -> str:
        """Lay out states (n, features) as `States.matrix` does: lag by lag, contexts first; rounded to floats."""
        reach, origin = self.subject.reach, self.subject.policy.units.origin
        frames = self._rows(self.window, [self.subject.rows - lag for lag in horizon.context_lags])
        shifted = frames if origin is None else self.graph.add("Sub", frames, self.graph.constant(origin))
        parts = [self.graph.add("Flatten", shifted)]
        if horizon.action_lags:
            parts.append(self.graph.add("Flatten", self._rows(self.past, [reach - lag for lag in horizon.action_lags])))
        seen = self.graph.add("Concat", *parts, axis=1)
        return self.graph.cast(self.graph.cast(seen, np.float32), np.float64)

    # ------------------------------------------------------------------------------------------------------------ units

    def _standardize(self, actions: str) -> str:
        moved = self.graph.add("Sub", actions, self._each(self.subject.policy.units.center))
        return self.graph.over(moved, self.subject.per_action(self.subject.policy.units.scale))

    def _restore(self, actions: str) -> str:
        scaled = self.graph.times(actions, self.subject.per_action(self.subject.policy.units.scale))
        return self.graph.add("Add", scaled, self._each(self.subject.policy.units.center))

    def _clip(self, actions: str, low: FloatArray, high: FloatArray) -> str:
        return self.graph.add("Min", self.graph.add("Max", actions, self._each(low)), self._each(high))

    def _each(self, values: FloatArray) -> str:
        return self.graph.constant(self.subject.per_action(values))

    def _last(self) -> str:
        """Return the last action in standard units, (n, k)."""
        return self.graph.add("Squeeze", self._rows(self.past, [self.subject.reach - 1]), self._ints([1]))

    def _rows(self, value: str, rows: list[int]) -> str:
        """Return some rows of the past (n, rows, width)."""
        return self.graph.add("Gather", value, self._ints(rows), axis=1)

    def _ints(self, values: list[int]) -> str:
        return self.graph.constant(values, np.int64)
