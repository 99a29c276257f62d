"""The forests that `forest.py` compares ours with: one small class for each, all with the same settings.

Each is imported when it is asked for, so that any of them may be missing. All run on one thread.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

DEPTH, LEAF = 12, 32  # longest way to a leaf, fewest rows in it
FEATURES = 15  # features a node tries: the square root of 230
BAG = 1.0 - np.exp(-1.0)  # share of the rows in a bootstrap sample, for those that draw without replacement

Step = Callable[[int], object]  # answers for the i-th of the rows it was made for


class Contender(Protocol):
    """How to fit a forest and how to ask it."""

    name: str
    needs: tuple[str, ...]

    def fit(self, X: Any, y: Any, n_trees: int, seed: int) -> Any:
        """Fit to a lag matrix (n, features) in float32 and actions (n,)."""

    def predict(self, fitted: Any, X: Any) -> Any:
        """Predict for many rows, (n,)."""

    def steps(self, fitted: Any, rows: Any) -> dict[str, Step]:
        """Return the ways to predict for one of the rows (n, features), by name."""


class RandomForest:
    """scikit-learn's random forest; for single rows also through onnxruntime."""

    name = "scikit-learn random forest"
    needs = ("sklearn",)
    kind = "RandomForestRegressor"

    def fit(self, X: Any, y: Any, n_trees: int, seed: int) -> Any:
        """Fit with exact splits."""
        recipe = getattr(importlib.import_module("sklearn.ensemble"), self.kind)
        return recipe(
            n_trees, max_depth=DEPTH, min_samples_leaf=LEAF, max_features=FEATURES, n_jobs=1, random_state=seed
        ).fit(X, y)

    def predict(self, fitted: Any, X: Any) -> Any:
        """Predict for many rows."""
        return fitted.predict(X)

    def steps(self, fitted: Any, rows: Any) -> dict[str, Step]:
        """Ask the forest itself and, where it is installed, its copy in onnxruntime."""
        found: dict[str, Step] = {"scikit-learn predict": lambda i: fitted.predict(rows[i : i + 1])}
        if not missing(("onnxruntime", "skl2onnx")):
            session = _onnx_session(fitted, rows[:1])
            name = session.get_inputs()[0].name
            found["onnxruntime"] = lambda i: session.run(None, {name: rows[i : i + 1]})
        return found


class ExtraTrees(RandomForest):
    """scikit-learn's extremely randomised trees: one random threshold per feature, all rows for each tree."""

    name = "scikit-learn extra trees"
    kind = "ExtraTreesRegressor"

    def steps(self, fitted: Any, rows: Any) -> dict[str, Step]:  # noqa: ARG002
        """Return none: asked for a row it does what the random forest does."""
        return {}


class LightGBM:
    """LightGBM in its random forest mode; binning is part of the fit, as in ours."""

    name = "LightGBM rf"
    needs = ("lightgbm",)
    settings: ClassVar[Mapping[str, Any]] = {
        "boosting": "rf",
        "objective": "l2",
        "max_depth": DEPTH,
        "min_data_in_leaf": LEAF,
        "min_sum_hessian_in_leaf": 0.0,
        "bagging_freq": 1,
        "bagging_fraction": BAG,
        "max_bin": 255,
        "histogram_pool_size": 1024,  # MiB; without a limit its first fit spends seconds on getting 4 GiB
        "num_threads": 1,
        "verbosity": -1,
    }

    def fit(self, X: Any, y: Any, n_trees: int, seed: int, **limits: Any) -> Any:
        """Fit on histograms; its trees grow leaf by leaf, and have as many as depth and rows allow without limits."""
        import lightgbm

        settings = {
            **self.settings,
            "num_leaves": max(2, min(2**DEPTH, int(BAG * len(X)) // LEAF)),  # no more than can be: each takes memory
            "feature_fraction_bynode": FEATURES / X.shape[1],
            "seed": seed,
            **limits,
        }
        return lightgbm.train(settings, lightgbm.Dataset(X, y, params=settings), n_trees)

    def predict(self, fitted: Any, X: Any) -> Any:
        """Predict for many rows."""
        return fitted.predict(X, num_threads=1)

    def steps(self, fitted: Any, rows: Any) -> dict[str, Step]:
        """Ask through Python, and through the call of its C interface that is made for single rows."""
        return {
            "LightGBM predict": lambda i: fitted.predict(rows[i : i + 1], num_threads=1),
            "LightGBM single-row C call": _lightgbm_fast(fitted, rows),
        }


class XGBoost:
    """XGBoost growing all trees of one round in parallel; building its matrix is part of the fit."""

    name = "XGBoost parallel trees"
    needs = ("xgboost",)
    settings: ClassVar[Mapping[str, Any]] = {
        "learning_rate": 1.0,
        "subsample": BAG,
        "max_depth": DEPTH,
        "min_child_weight": LEAF,
        "reg_lambda": 0.0,
        "tree_method": "hist",
        "max_bin": 256,
        "nthread": 1,
    }

    def fit(self, X: Any, y: Any, n_trees: int, seed: int) -> Any:
        """Fit on histograms, one round."""
        import xgboost

        settings = {
            **self.settings,
            "num_parallel_tree": n_trees,
            "colsample_bynode": FEATURES / X.shape[1],
            "seed": seed,
        }
        data = xgboost.QuantileDMatrix(X, y, nthread=1, max_bin=settings["max_bin"])
        return xgboost.train(settings, data, num_boost_round=1)

    def predict(self, fitted: Any, X: Any) -> Any:
        """Predict for many rows."""
        return fitted.inplace_predict(X)

    def steps(self, fitted: Any, rows: Any) -> dict[str, Step]:
        """Ask without building a matrix of XGBoost's own."""
        return {"XGBoost inplace_predict": lambda i: fitted.inplace_predict(rows[i : i + 1])}


ALL: tuple[Contender, ...] = (RandomForest(), ExtraTrees(), LightGBM(), XGBoost())


def installed() -> list[Contender]:
    """Return the contenders that are installed, ready to run."""
    found = [c for c in ALL if not missing(c.needs)]
    tiny = np.random.default_rng(0).normal(size=(200, 2 * FEATURES)).astype(np.float32)
    for contender in found:  # the first call of a library loads it and starts what it needs
        contender.predict(contender.fit(tiny, tiny[:, 0].copy(), 2, 0), tiny)
    return found


def missing(modules: tuple[str, ...]) -> list[str]:
    """Return those modules that are not installed."""
    return [m for m in modules if importlib.util.find_spec(m) is None]


def _onnx_session(forest: Any, row: Any) -> Any:
    import onnxruntime
    import skl2onnx

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = skl2onnx.to_onnx(forest, row).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _lightgbm_fast(booster: Any, rows: Any) -> Step:
    """Prepare LGBM_BoosterPredictForMatSingleRowFast, which looks nothing up per call."""
    from lightgbm.basic import _LIB, _safe_call

    values = np.ascontiguousarray(rows, dtype=np.float64)
    config, length, out = ctypes.c_void_p(), ctypes.c_int64(), np.empty(1)
    _safe_call(
        _LIB.LGBM_BoosterPredictForMatSingleRowFastInit(
            booster._handle,
            ctypes.c_int(0),  # a plain prediction
            ctypes.c_int(0),  # from the first tree
            ctypes.c_int(-1),  # to the last
            ctypes.c_int(1),  # of float64
            ctypes.c_int32(values.shape[1]),
            ctypes.c_char_p(b"num_threads=1"),
            ctypes.byref(config),
        )
    )
    call, result = _LIB.LGBM_BoosterPredictForMatSingleRowFast, ctypes.c_void_p(out.ctypes.data)
    places = [ctypes.c_void_p(row.ctypes.data) for row in values]

    def step(i: int) -> float:
        call(config, places[i], ctypes.byref(length), result)
        return float(out[0])

    step.rows = values  # type: ignore[attr-defined]  # kept alive: the call reads their memory
    return step
