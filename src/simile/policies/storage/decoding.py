"""From the tree of a policy file to a policy: one method for every kind, and nothing is built before it is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from simile._common.checks import HIGHEST_RATE, LARGEST, LOWEST_RATE
from simile.data.preparation import Preparation
from simile.data.recorded import ActionSpace, Units
from simile.data.states import Horizon
from simile.data.timing import LONGEST
from simile.errors import ArgumentError, StorageError
from simile.models import Bagging, Forest, Model, PiecewiseLinear, WeightedModel, parts_of
from simile.models.adapters import FittedRegressor, TreeMean
from simile.models.coupling import LARGEST_SIDE, CoupledAutoregressor, LinearH
from simile.models.neural import GRU, MLP, TCN, Network, StateShape
from simile.models.neural.recipes import MOST_LAYERS, WIDEST, WIDEST_KERNEL, StoredRecipe
from simile.models.regularizers import Autoregressor, Regularizer
from simile.models.trees import Bag
from simile.policies.cards import Card
from simile.policies.hold import Hold
from simile.policies.offset import Offset
from simile.policies.policies import Mixture, Policy, SmoothPolicy, StochasticMixture, hold, parts
from simile.policies.storage import soundness
from simile.policies.storage.encoding import DEEPEST, MOST_PARTS
from simile.policies.storage.fields import Fields, wrong
from simile.policies.storage.files import Packed
from simile.policies.storage.limits import (
    LARGEST_ORDER,
    LONGEST_LAG,
    LONGEST_NAME,
    MOST_ACTIONS,
    MOST_CONTEXTS,
    MOST_FEATURES,
)

STATES = (0.0, 1.0, 10.0, 1000.0)  # how large the states of a rehearsal are

Revive = Callable[[bytes, str], Any]


@dataclass(frozen=True)
class Unread:
    """Stands for an object of another library that was not built."""

    name: str


class Decoder:
    """Builds what a file holds; `revive` builds the objects of other libraries, and without it they stay unread."""

    def __init__(self, packed: Packed, revive: Revive | None) -> None:
        self._header = packed.header
        self._tensors = dict(packed.tensors)
        self._revive = revive
        self._met: dict[str, Any] = {}  # by its place in the file: what may be referred to

    def decode(self) -> Policy:
        """Return the policy; every tensor must have found its place."""
        card = self._header["card"]
        self._met["card"] = self.read_card({"kind": "Card", **card} if isinstance(card, dict) else card, "card")
        policy = self.read_policy(self._header["policy"], "policy")
        if self._tensors:
            raise StorageError(f"it holds a tensor that nothing refers to: {min(self._tensors)[:100]!r}")
        return policy

    def read_policy(self, tree: Any, path: str) -> Policy:
        """Read a policy of any kind."""
        fields = self._open(tree, path, "SmoothPolicy", "Mixture", "StochasticMixture")
        return self._read_smooth_policy(fields) if fields.kind == "SmoothPolicy" else self._read_mixture(fields)

    def _read_mixture(self, fields: Fields) -> Policy:
        trees = fields.items("components", at_least=1, at_most=MOST_PARTS)
        components = tuple(self.read_policy(t, f"{fields.path}.components.{i}") for i, t in enumerate(trees))
        weights = fields.weights("weights", parts=len(components))
        fields.close()
        if len({c.n_actions for c in components}) > 1:
            raise StorageError(f"{fields.path}.components must have as many actions each")
        if len({p.n_inputs for c in components for _, p in parts(c)} - {None}) > 1:
            raise StorageError(f"{fields.path}.components must read as many contexts each")
        if not all(c.units.equals(components[0].units) for c in components):
            raise StorageError(f"{fields.path}.components must share their units")
        if len({repr(hold(c)) for c in components}) > 1:
            raise StorageError(f"{fields.path}.components must share their hold")
        try:
            return (Mixture if fields.kind == "Mixture" else StochasticMixture)(components, weights)
        except ArgumentError as error:  # of an offset: the others have none to share, or cannot be one with it
            raise StorageError(f"{fields.path}: {error}") from None

    def _read_smooth_policy(self, fields: Fields) -> SmoothPolicy:
        policy = {  # in the order of the names, in which they were written
            "card": self._read_shared(fields, "card", self.read_card),
            "f": self.read_model(fields.take("f"), f"{fields.path}.f"),
            "h": self.read_regularizer(fields.take("h"), f"{fields.path}.h"),
            "hold": self._read_shared(fields, "hold", self.read_hold) if fields.has("hold") else None,
            "horizon": self._read_shared(fields, "horizon", self.read_horizon),
            "n_contexts": fields.optional("n_contexts", lambda n: fields.whole_number(n, at_most=MOST_CONTEXTS)),
            "naive": fields.optional("naive", lambda n: self._read_shared(fields, n, self.read_model)),
            "offset": self._read_shared(fields, "offset", self.read_offset) if fields.has("offset") else None,
            "smoothness": fields.per_action("smoothness"),
            "space": self._read_shared(fields, "space", self.read_space),
            "units": self._read_shared(fields, "units", self.read_units),
        }
        fields.close()
        try:
            found = SmoothPolicy(**policy)
        except ArgumentError as error:
            raise StorageError(f"{fields.path}: {error}") from None
        _check_sizes(found, fields.path)
        return found

    def read_hold(self, tree: Any, path: str) -> Hold:
        """Read a hysteresis."""
        fields = self._open(tree, path, "Hold")
        stepping, width = fields.items("stepping"), fields.numbers("width")
        fields.close()
        if not all(isinstance(step, bool) for step in stepping) or not (width >= 0.0).all() or not (width > 0.0).any():
            raise wrong(path, "a width from 0 on, and whether it steps, for each action", tree)
        if len(stepping) != len(width):
            raise wrong(path, f"{len(width)} choices of stepping", stepping)
        try:
            return Hold(width, np.array(stepping))
        except ArgumentError as error:
            raise StorageError(f"{path}: {error}") from None

    def read_offset(self, tree: Any, path: str) -> Offset:
        """Read a memory of the start."""
        fields = self._open(tree, path, "Offset")
        fade, share = fields.numbers("fade"), fields.numbers("share")
        fields.close()
        if len(fade) != len(share) or not share.any():
            raise wrong(path, "a share, not all of them 0, and a fade for each action", tree)
        try:
            return Offset(share, fade)
        except ArgumentError as error:
            raise StorageError(f"{path}: {error}") from None

    def _read_shared(self, fields: Fields, name: str, read: Callable[[Any, str], Any]) -> Any:
        """Read a field, or take the object of that field that an earlier component has."""
        tree, path = fields.take(name), f"{fields.path}.{name}"
        if isinstance(tree, dict) and "same" in tree:
            place = tree["same"]
            known = len(tree) == 1 and isinstance(place, str) and place in self._met
            if not known or place.rpartition(".")[2] != name:
                raise wrong(path, f"the {name} of an earlier component", tree)
            return self._met[place]
        self._met[path] = found = read(tree, path)
        return found

    def read_model(self, tree: Any, path: str) -> Model:
        """Read a model of any kind."""
        readers: dict[str, Callable[[Fields], Any]] = {
            "Forest": self._read_forest,
            "PiecewiseLinear": self._read_piecewise_linear,
            "Network": self._read_network,
            "WeightedModel": self._read_weighted_model,
            "FittedRegressor": self._read_fitted_regressor,
            "TreeMean": self._read_tree_mean,
            "Foreign": self._read_foreign,
        }
        fields = self._open(tree, path, *readers)
        model: Model = readers[fields.kind](fields)
        fields.close()
        if not isinstance(model, Model | Unread):
            raise wrong(path, "an object that predicts", type(model))
        return model

    def _read_forest(self, fields: Fields) -> Forest:
        feature = fields.array("feature", np.int32, None)
        value = fields.array("value", np.float64, len(feature), None)
        roots = fields.array("roots", np.int32, None)
        columns = fields.array("columns", np.int64, None)
        forest = Forest(
            feature=feature,
            threshold=fields.array("threshold", np.float32, len(feature)),
            missing_right=fields.array("missing_right", np.bool_, len(feature)),
            child=fields.array("child", np.int32, len(feature)),
            value=value,
            gain=fields.array("gain", np.float64, len(feature)),
            roots=roots,
            depths=fields.array("depths", np.int32, len(roots)),
            columns=columns.astype(np.intp, copy=False),
            lags=fields.array("lags", np.int64, len(columns)).astype(np.intp, copy=False),
            width=fields.whole_number("width", at_least=1 + value.shape[1], at_most=MOST_CONTEXTS + value.shape[1]),
            bag=self._read_bag(self._open(fields.take("bag"), f"{fields.path}.bag", "Bag")),
            number=fields.array("number", np.int64, len(roots)).astype(np.intp, copy=False),
        )
        soundness.check_forest(forest, fields.path)
        return forest

    def _read_piecewise_linear(self, fields: Fields) -> PiecewiseLinear:
        feature = fields.array("feature", np.int64, None, may_be_empty=True)  # where there is an intercept alone
        intercept = fields.array("intercept", np.float64, None)
        columns = fields.array("columns", np.int64, None)
        k = len(intercept)
        model = PiecewiseLinear(
            feature=feature.astype(np.intp, copy=False),
            knot=fields.array("knot", np.float64, len(feature)),
            fill=fields.array("fill", np.float64, len(feature)),
            coefficient=fields.array("coefficient", np.float64, len(feature), k),
            intercept=intercept,
            columns=columns.astype(np.intp, copy=False),
            lags=fields.array("lags", np.int64, len(columns)).astype(np.intp, copy=False),
            width=fields.whole_number("width", at_least=1 + k, at_most=MOST_CONTEXTS + k),
        )
        soundness.check_lines(model, fields.path)
        return model

    def _read_network(self, fields: Fields) -> Network:
        path = fields.path
        recipe = _read_recipe(self._open(fields.take("recipe"), f"{path}.recipe", "GRU", "MLP", "TCN"))
        shape = _read_shape(self._open(fields.take("shape"), f"{path}.shape", "StateShape"))
        sizes = recipe.sizes(shape)
        listed = fields.items("parameters", at_least=len(sizes), at_most=len(sizes))
        numbered = {"kind": "parameters", **{str(i): reference for i, reference in enumerate(listed)}}
        weights = self._open(numbered, f"{path}.parameters", "parameters")
        m, k = shape.n_contexts, shape.n_actions
        network = Network(
            recipe=recipe,
            shape=shape,
            parameters=tuple(weights.array(str(i), np.float32, *size) for i, size in enumerate(sizes)),
            mean=fields.array("mean", np.float32, m + k),
            scale=fields.array("scale", np.float32, m + k),
            center=fields.array("center", np.float32, k),
            spread=fields.array("spread", np.float32, k),
        )
        soundness.check_network(network, path)
        return network

    def _read_bag(self, fields: Fields) -> Bag:
        bagging = fields.text("bagging")
        if bagging not in Bagging.__members__:
            raise wrong(f"{fields.path}.bagging", f"one of {', '.join(Bagging.__members__)}", bagging)
        seeds = tuple(fields.array("seeds", np.int64, None).tolist())
        bag = Bag(Bagging[bagging], seeds, fields.array("starts", np.int64, None).astype(np.intp, copy=False))
        fields.close()
        soundness.check_bag(bag, fields.path)
        return bag

    def _read_weighted_model(self, fields: Fields) -> WeightedModel:
        parts = fields.items("models", at_least=1, at_most=MOST_PARTS)
        models = tuple(self.read_model(tree, f"{fields.path}.models.{i}") for i, tree in enumerate(parts))
        weights = fields.weights("weights", parts=len(models))
        return WeightedModel(models, weights)

    def _read_fitted_regressor(self, fields: Fields) -> FittedRegressor:
        path = f"{fields.path}.estimator"
        estimator = self._read_foreign(self._open(fields.take("estimator"), path, "Foreign"))
        if not isinstance(estimator, Model | Unread):
            raise wrong(path, "an object that predicts", type(estimator))
        return FittedRegressor(estimator)

    def _read_tree_mean(self, fields: Fields) -> TreeMean:
        path = f"{fields.path}.trees"
        found = self._read_foreign(self._open(fields.take("trees"), path, "Foreign"))
        if isinstance(found, Unread):
            return TreeMean((found,))
        if not isinstance(found, list) or not found:
            raise wrong(path, "a list of trees", type(found))
        for i, tree in enumerate(found):
            soundness.check_sklearn_tree(tree, f"{path}.{i}")
        return TreeMean(tuple(found))

    def _read_foreign(self, fields: Fields) -> Any:
        name, data = fields.text("class")[:200], fields.array("skops", np.uint8, None)
        fields.close()
        return Unread(name) if self._revive is None else self._revive(data.tobytes(), name)

    def read_regularizer(self, tree: Any, path: str) -> Regularizer:
        """Read h."""
        fields = self._open(tree, path, "Autoregressor", "CoupledAutoregressor", "Foreign")
        if fields.kind == "Foreign":
            h: Regularizer = self._read_foreign(fields)
            order = getattr(h, "order", None)
            if not isinstance(h, Unread) and not (
                callable(h) and isinstance(order, int) and 0 < order <= LARGEST_ORDER
            ):
                raise wrong(path, "a regularizer with an order", type(h))
            return h
        coupled = fields.kind == "CoupledAutoregressor"
        coefficients = fields.array("coefficients", np.float64, *(None,) * (3 if coupled else 2))
        damping = fields.number("damping", at_least=0.0, at_most=1.0)
        fields.close()
        if coupled and (coefficients.shape[1] != coefficients.shape[2] or coefficients[:, 0].size > LARGEST_SIDE):
            raise StorageError(f"{path}.coefficients must be square, with {LARGEST_SIDE} columns together at most")
        if len(coefficients) > LARGEST_ORDER or not np.isfinite(coefficients).all():
            raise StorageError(f"{path}.coefficients must be finite, and {LARGEST_ORDER} at most")
        return CoupledAutoregressor(coefficients, damping) if coupled else Autoregressor(coefficients, damping)

    def read_horizon(self, tree: Any, path: str) -> Horizon:
        """Read a horizon; the lags must be in order."""
        fields = self._open(tree, path, "Horizon")
        lags = _read_lags(fields)
        known = fields.items("known") if fields.has("known") else ()
        lead = fields.whole_number("lead", at_least=-LONGEST, at_most=LONGEST) if fields.has("lead") else 0
        fields.close()
        try:
            return Horizon(**lags, lead=lead, known=[tuple(pair) for pair in known])
        except (ArgumentError, TypeError):
            raise wrong(f"{path}.known", "pairs of a column and how many frames ahead", known) from None

    def read_units(self, tree: Any, path: str) -> Units:
        """Read units."""
        fields = self._open(tree, path, "Units")
        center, scale = fields.numbers("center"), fields.numbers("scale")
        origin = fields.numbers("origin") if "origin" in tree else None
        fields.close()
        if len(center) == 0 or len(center) != len(scale):
            raise StorageError(f"{path} must have as many centers as scales, and one at least")
        if not ((scale >= 1.0 / LARGEST) & (scale <= LARGEST) & (np.abs(center) <= LARGEST)).all():
            raise StorageError(f"{path} must have scales above zero, and no number beyond {LARGEST:g}")
        if origin is not None and not (origin.any() and (np.abs(origin) <= LARGEST).all()):
            raise StorageError(f"{path} must have an origin that is not all 0, and no number beyond {LARGEST:g}")
        return Units(center, scale, origin)

    def read_space(self, tree: Any, path: str) -> ActionSpace:
        """Read bounds; null is an open side."""
        fields = self._open(tree, path, "ActionSpace")
        high, low = fields.numbers("high", otherwise=np.inf), fields.numbers("low", otherwise=-np.inf)
        firsts = {}
        if fields.has("first_low"):
            firsts = {"first_high": fields.numbers("first_high"), "first_low": fields.numbers("first_low")}
        learned = fields.take("learned") if fields.has("learned") else False
        fields.close()
        if not isinstance(learned, bool):
            raise wrong(f"{path}.learned", "true or false", learned)
        try:
            return ActionSpace(low, high, **firsts, learned=learned)
        except ArgumentError:
            raise StorageError(f"{path} must have bounds low < high, one for all actions or one for each") from None

    def read_card(self, tree: Any, path: str) -> Card:
        """Read a card; facts about the training may be any JSON values."""
        fields = self._open(tree, path, "Card")
        action_names, context_names = fields.texts("action_names"), fields.texts("context_names")
        rate = fields.optional("rate", lambda n: fields.number(n, at_least=LOWEST_RATE, at_most=HIGHEST_RATE))
        training = fields.take("training")
        prepared = fields.take("preparation") if fields.has("preparation") else {"missing": {}, "wraps": {}}
        fields.close()
        if not isinstance(training, dict) or _is_deeper(training, DEEPEST):
            raise wrong(f"{path}.training", f"an object, nested {DEEPEST} deep at most", training)
        names = (*action_names, *context_names)
        if len(set(names)) < len(names) or max(map(len, names), default=0) > LONGEST_NAME:
            raise wrong(path, f"with different names, of {LONGEST_NAME} letters at most", names)
        if len(names) > MOST_CONTEXTS:
            raise StorageError(f"{path} must have at most {MOST_CONTEXTS} names; got {len(names)}")
        try:
            preparation = Preparation.from_dict(prepared)
        except ArgumentError as error:
            raise StorageError(f"{path}: {error}") from None
        if preparation.among(names) != preparation:
            raise wrong(f"{path}.preparation", "of its columns", prepared)
        return Card(context_names, action_names, rate, training, preparation)

    def _open(self, tree: Any, path: str, *kinds: str) -> Fields:
        return Fields(tree, path, kinds, self._tensors)


def _read_recipe(fields: Fields) -> StoredRecipe:
    """Read a recipe; every number in it is bounded before anything is worked out from it."""
    recipe: StoredRecipe
    if fields.kind == "GRU":
        recipe = GRU(fields.whole_number("hidden", at_most=WIDEST))
    elif fields.kind == "TCN":
        channels = fields.whole_number("channels", at_most=WIDEST)
        recipe = TCN(channels, fields.whole_number("kernel", at_least=2, at_most=WIDEST_KERNEL))
    else:
        hidden = fields.whole_numbers("hidden", at_least=1, at_most=WIDEST)
        if not 1 <= len(hidden) <= MOST_LAYERS:
            raise wrong(f"{fields.path}.hidden", f"1 to {MOST_LAYERS} layers", hidden)
        recipe = MLP(hidden)
    fields.close()
    return recipe


def _read_shape(fields: Fields) -> StateShape:
    """Read which states a network takes."""
    lags = _read_lags(fields, earliest=-LONGEST)
    m, k = (fields.whole_number(name, at_most=MOST_FEATURES) for name in ("n_contexts", "n_actions"))
    fields.close()
    shape = StateShape(m, k, **lags)
    if shape.n_features > MOST_FEATURES:
        raise StorageError(f"{fields.path} must have at most {MOST_FEATURES} features; got {shape.n_features}")
    return shape


def _read_lags(fields: Fields, earliest: int = 0) -> dict[str, tuple[int, ...]]:
    """Read the lags of contexts and of actions, which must be in order."""
    found = {}
    for name, first in (("action_lags", 1), ("context_lags", earliest)):
        found[name] = given = fields.whole_numbers(name, at_least=first, at_most=LONGEST_LAG)
        if list(given) != sorted(set(given)) or (name == "context_lags" and not given):
            raise wrong(f"{fields.path}.{name}", "different lags in order", given)
    return found


def _is_deeper(value: Any, levels: int) -> bool:
    """Tell whether JSON values are nested deeper than this: whoever prints them walks down as far."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inside)


def _check_sizes(policy: SmoothPolicy, path: str) -> None:
    """Refuse a policy whose parts do not fit each other, or its card."""
    k, m = policy.n_actions, policy.n_inputs
    if k > MOST_ACTIONS:
        raise StorageError(f"{path} must have at most {MOST_ACTIONS} actions; got {k}")
    for name, array in (
        ("units", policy.units.center),
        ("space", policy.space.low),
        ("space", policy.space.high),
        ("space", policy.space.high if policy.space.first_low is None else policy.space.first_low),
    ):
        if len(array) not in (1, k):
            raise StorageError(f"{path}.{name} must be for one or for {k} actions; got {len(array)}")
    if policy.units.origin is not None and len(policy.units.origin) != policy.n_contexts:
        raise StorageError(f"{path}.units must have an origin for each of n_contexts; got {len(policy.units.origin)}")
    fields = [("f", policy.f, policy.horizon)]
    if policy.naive is not None:
        fields.append(("naive", policy.naive, policy.horizon.without_actions()))
    for name, whole, horizon in fields:
        for model, _ in parts_of(whole):
            _check_model(model, horizon, m, k, f"{path}.{name}")
    if not isinstance(policy.h, LinearH | Unread):
        _rehearse(policy.h, (policy.h.order, k), k, f"{path}.h")
    for what, names, n in (("actions", policy.card.action_names, k), ("contexts", policy.card.context_names, m)):
        if names and n not in (None, len(names)):
            raise StorageError(f"{path}.card must name all {n} {what}, or none; got {len(names)} names")


def _check_model(model: Any, horizon: Horizon, m: int | None, k: int, path: str) -> None:
    """Refuse a model of other states or actions than the policy's; without m, only a model of others can tell."""
    n_features = None if m is None else horizon.n_features(m, k)
    if n_features is not None and n_features > MOST_FEATURES:
        raise StorageError(f"{path} must read at most {MOST_FEATURES} features; the horizon has {n_features}")
    if isinstance(model, Forest | PiecewiseLinear | Network):
        if m is not None and not model.fits(horizon, m, k):
            raise StorageError(f"{path} must be {model.kind} for {m} contexts, {k} actions and the lags of the horizon")
    elif isinstance(model, TreeMean):
        wanted = [(t.n_features, t.n_outputs) for t in model.trees if not isinstance(t, Unread)]
        if any(found != (n_features or found[0], k) for found in wanted):
            raise StorageError(f"{path} must have trees for {n_features} features and {k} actions")
    elif not isinstance(model, Unread) and not isinstance(getattr(model, "estimator", None), Unread):
        expected = getattr(getattr(model, "estimator", model), "n_features_in_", n_features)
        if n_features not in (None, expected):
            raise StorageError(f"{path} must be a model for {n_features} features; got one for {expected}")
        if expected is not None:
            _rehearse(model.predict, (expected,), k, path)


def _rehearse(predict: Callable[[Any], Any], shape: tuple[int, ...], k: int, path: str) -> None:
    """Have what is of another library predict for a few states: what it is made of is its own affair."""
    draws = np.random.default_rng(0).normal(size=(len(STATES), *shape))
    try:
        found = np.shape(predict(draws * np.reshape(STATES, (-1, *(1 for _ in shape)))))
    except Exception as error:  # whatever that library raises
        raise StorageError(f"{path} does not predict: {type(error).__name__}: {error}") from error
    if found != (len(STATES), k):
        raise StorageError(f"{path} must predict {k} actions; got shape {found} for {len(STATES)} states")
