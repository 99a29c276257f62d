"""Recipes as text: `"SmoothForest(n_trees=20)"` in a command or a config file is what it would be in Python.

Only the names below and scikit-learn's estimators can be called, and only with literals: the text is parsed, never
executed. What `repr` shows of a recipe can be read back.
"""

from __future__ import annotations

import ast
import importlib
import math
from contextlib import suppress
from dataclasses import fields, is_dataclass
from itertools import takewhile
from typing import Any

from simile._common.text import spell
from simile.data.recorded import ActionSpace
from simile.errors import ArgumentError
from simile.policies.hold import Hold

# Names of simile that may be written in a recipe.
NAMES = frozenset(
    [
        "Absolute",
        "AccelerationLimit",
        "ActionSpace",
        "Bagging",
        "BoundMinimizer",
        "Bounds",
        "Constant",
        "Criterion",
        "CoupledAutoregression",
        "CriticallyDamped",
        "DeadBand",
        "ErrorRatio",
        "ExpertFeedback",
        "Extrapolate",
        "GRU",
        "Hold",
        "HoldAction",
        "HoldContext",
        "Horizon",
        "Huber",
        "ImitationRule",
        "JerkLimit",
        "JointRule",
        "LineSearch",
        "LinearAutoregression",
        "MLP",
        "MatchExpert",
        "Monotonic",
        "OneOverHorizon",
        "Play",
        "PreviousAction",
        "RateLimit",
        "Retarget",
        "Ridge",
        "SmoothFeedback",
        "SmoothForest",
        "SmoothTime",
        "Squared",
        "TCN",
        "TorchRegressor",
        "VelocityAutoregression",
        "by_distance",
        "constant",
        "exponential",
        "geometric",
        "linear",
    ]
)


def parse(text: Any, name: str) -> Any:
    """Make what `text` describes; `name` is the option it was given for. What is no text is returned as it is.

    >>> parse("Horizon(context_lags=(0, 1, 2, 4), action_lags=0)", "horizon")
    Horizon(context_lags=(0, 1, 2, 4), action_lags=())
    >>> parse("0.5", "step_size")
    0.5
    """
    if not isinstance(text, str):
        return text
    if name == "space" and text.strip().lower() == "none":
        text = "ActionSpace()"
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return _make(tree)
    except (SyntaxError, ValueError, TypeError, ImportError, AttributeError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise ArgumentError(f"{name} must be a recipe such as {_example(name)}; got {text!r}: {reason}") from None


def _make(node: ast.expr) -> Any:
    if isinstance(node, ast.Call):
        if any(keyword.arg is None for keyword in node.keywords):
            raise ValueError("** cannot be used here")
        recipe = _look_up(node.func)
        return recipe(*(_make(a) for a in node.args), **{str(k.arg): _make(k.value) for k in node.keywords})
    if isinstance(node, ast.Name | ast.Attribute):
        made = _look_up(node)
        # A bare name is the recipe with its defaults.
        return made() if callable(made) else made
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_make(item) for item in node.elts)
    return ast.literal_eval(node)


def _look_up(node: ast.expr) -> Any:
    """Find what a dotted name stands for: a recipe, a member of one of our enums, a scikit-learn estimator."""
    *path, last = ast.unparse(node).split(".")
    if not path and last in NAMES:
        return getattr(importlib.import_module("simile"), last)
    if path in (["Criterion"], ["Bagging"]):
        return getattr(_look_up(ast.Name(path[0])), last)
    if path and path[0] == "sklearn" and not any(part.startswith("_") for part in (*path, last)):
        found = getattr(importlib.import_module(".".join(path)), last)
        from sklearn.base import BaseEstimator

        if isinstance(found, type) and issubclass(found, BaseEstimator):
            return found
    raise ValueError(
        f"{ast.unparse(node)} is not known: there are {', '.join(sorted(NAMES))}, and sklearn.module.Estimator(...)"
    )


def _example(name: str) -> str:
    examples = {
        "model": "SmoothForest(n_trees=50) or sklearn.linear_model.Ridge(alpha=1.0)",
        "regularizer": "CriticallyDamped(order=3)",
        "horizon": "Horizon(context_lags=10, action_lags=10)",
        "feedback": "SmoothFeedback(geometric(0.7, 0.5))",
        "step_size": "ErrorRatio() or 0.5",
        "rule": "JointRule()",
        "space": "ActionSpace(low=-90, high=90) or none",
        "smoothness": "30, SmoothTime(0.3) or MatchExpert(1.0)",
        "hold": "0, 0.05 or Hold(0.1, stepping=True)",
        "loss": "Huber(), Huber(delta=1.345), Absolute() or Squared()",
        "stage": "RateLimit(30.0)",
        "gap": "Extrapolate(frames=30)",
    }
    return examples.get(name, "CriticallyDamped(order=3)")


def as_python(text: str) -> tuple[str, set[str]]:
    """Return a recipe as Python writes it after `import simile`, and the other modules to import for it.

    >>> as_python("SmoothForest(n_trees=20)")
    ('simile.SmoothForest(n_trees=20)', set())
    """
    tree, modules = ast.parse(text.strip(), mode="eval").body, set()
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.Name) and node.id in NAMES:
            node.id = f"simile.{node.id}"
        elif isinstance(node, ast.Attribute) and (dotted := ast.unparse(node)).startswith("sklearn."):
            modules.add(dotted.rpartition(".")[0])
    bare = isinstance(tree, ast.Name | ast.Attribute)  # the recipe with its defaults
    return ast.unparse(tree) + ("()" if bare else ""), {m for m in modules if m != "sklearn"}


def as_option(value: Any, name: str) -> str | None:
    """Format a recipe as the option `name` of the command line takes it; None where that cannot be done.

    >>> from simile import SmoothForest
    >>> as_option((SmoothForest(n_trees=20, max_depth=None),), "model")
    '(SmoothForest(n_trees=20, max_depth=None),)'
    """
    for text in (_format(value), spell(value)):
        with suppress(ArgumentError):
            if spell(parse(text, name)) == spell(value):
                return text
    return None


def _format(value: Any) -> str:
    """Format a recipe without the arguments that are defaults."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_format, value))}{',' * (len(value) == 1)})"
    if isinstance(value, ActionSpace):  # whose bounds are arrays
        sides = {"low": value.low.tolist(), "high": value.high.tolist()}
        given = {n: s[0] if len(s) == 1 else s for n, s in sides.items() if all(map(math.isfinite, s))}
        return f"ActionSpace({', '.join(f'{n}={s!r}' for n, s in given.items())})"
    if type(value).__module__.startswith("sklearn."):
        public = takewhile(lambda part: not part.startswith("_"), type(value).__module__.split("."))
        return f"{'.'.join(public)}.{value!r}"
    if is_dataclass(value) and not isinstance(value, Hold):  # which formats itself
        given = {f.name: v for f in fields(value) if (v := getattr(value, f.name)) != f.default}
        return f"{type(value).__name__}({', '.join(f'{n}={_format(v)}' for n, v in given.items())})"
    return repr(value)
