"""Policies without Python: the C header and the ONNX graph against `Predictor`, frame by frame."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import simile
from conftest import demos_of
from simile import ActionSpace, Horizon, SmoothForest
from simile.models import PiecewiseLinear, WeightedModel
from simile.models.columns import layout
from simile.online.export import export_c, export_onnx
from simile.policies.cards import Card
from simile.policies.hold import Hold
from simile.policies.offset import Offset
from simile.policies.policies import Mixture, SmoothPolicy
from simile.policies.storage.loading import read_header

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]
WRAPPER = """\
#include "{name}.h"
int size(void) {{ return (int)sizeof({name}_state); }}
void begin({name}_state *s, const double *x) {{ {begin} }}
void begin_at({name}_state *s, const double *x, const double *a) {{ {name}_begin_at(s, x, a); }}
int step({name}_state *s, const double *x, double *a) {{ return {name}_step(s, x, a); }}
int miss({name}_state *s, double *a) {{ return {name}_miss(s, a); }}
void override({name}_state *s, const double *x, const double *a) {{ {name}_override(s, x, a); }}
#ifdef {NAME}_WAIT
int flush({name}_state *s, double *a) {{ return {name}_flush(s, a); }}
#endif
"""
KEPT = Offset((0.9, 0.3), (0.99, 0.5))
HOLD = Hold(np.array([0.05, 0.2]), np.array([False, True]))
LAGGED = Horizon((0, 1, 4), 0)
compiles = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")


class Compiled:
    """A policy in C, compiled with every warning an error; one stream."""

    def __init__(
        self, policy: Any, folder: Path, name: str = "pan", *, begins: bool = True, compiler: str = ""
    ) -> None:
        exported = export_c(policy, folder / f"{name}.h")
        begin = f"{name}_begin(s, x);" if begins else "(void)s; (void)x;"
        (folder / "wrapper.c").write_text(WRAPPER.format(name=name, NAME=name.upper(), begin=begin))
        library = folder / f"{name}-{len(list(folder.iterdir()))}.so"  # a name of its own: a loaded one stays loaded
        command = [compiler or COMPILERS[0], *STRICT, "-O1", "-shared", "-fPIC", "-o", library, folder / "wrapper.c"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self.library = ctypes.CDLL(str(library))
        assert self.library.size() == exported.state
        self.state = ctypes.create_string_buffer(self.library.size())
        self.out = np.zeros(policy.n_actions)

    def begin(self, x: Any, action: Any = None) -> None:
        if action is None:
            self.library.begin(self.state, _double(x))
        else:
            self.library.begin_at(self.state, _double(x), _double(action))

    def step(self, x: Any) -> np.ndarray:
        self.wild = self.library.step(self.state, _double(x), _double(self.out))
        return self.out.copy()

    def miss(self) -> np.ndarray:
        self.wild = self.library.miss(self.state, _double(self.out))
        return self.out.copy()

    def flush(self) -> np.ndarray:
        self.wild = self.library.flush(self.state, _double(self.out))
        return self.out.copy()

    def override(self, x: Any, action: Any) -> None:
        self.library.override(self.state, _double(x), _double(action))


class Graphed:
    """A policy in onnxruntime; any number of streams."""

    def __init__(self, policy: Any, folder: Path, n: int = 1, m: int = 3) -> None:
        self.ort = pytest.importorskip("onnxruntime")
        export_onnx(policy, folder / "step.onnx")
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = self.ort.InferenceSession(folder / "step.onnx", options, providers=["CPUExecutionProvider"])
        begun = {value.name: np.full((n, *value.shape[1:]), np.nan) for value in self.session.get_inputs()}
        assert begun.pop("x").shape == (n, m)
        self.contexts, self.actions, self.more = begun.pop("contexts"), begun.pop("actions"), begun

    def step(self, X: Any) -> np.ndarray:
        given = {"x": np.atleast_2d(X), "contexts": self.contexts, "actions": self.actions, **self.more}
        action, self.contexts, self.actions, *after = self.session.run(None, given)
        self.more = dict(zip(self.more, after, strict=True))
        return action


def _double(values: Any) -> Any:
    array = np.ascontiguousarray(values, dtype=np.float64)
    pointer = array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    pointer.owner = array  # alive as long as the pointer
    return pointer


def contexts(n: int, m: int = 3, seed: int = 0, missing: float = 0.05) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = 3.0 * np.sin(np.cumsum(rng.normal(scale=0.2, size=(n, m)), axis=0)) + 0.3 * rng.normal(size=(n, m))
    x[rng.random(x.shape) < missing] = np.nan
    return x


def line(horizon: Horizon, m: int, k: int, seed: int = 0, terms: int = 12) -> PiecewiseLinear:
    rng = np.random.default_rng(seed)
    columns, lags = layout(horizon, m, k)
    return PiecewiseLinear(
        feature=rng.integers(0, len(columns), terms),
        knot=np.where(rng.random(terms) < 0.5, -np.inf, rng.normal(size=terms)),
        fill=rng.normal(size=terms),
        coefficient=rng.normal(scale=0.3 / (terms + 1), size=(terms, k)),
        intercept=rng.normal(size=k),
        columns=columns,
        lags=lags,
        width=m + k,
    )


def learned(
    *, k: int = 1, m: int = 3, horizon: Horizon = LAGGED, seed: int = 0, n_trees: int = 5, **more: Any
) -> SmoothPolicy:
    demos = demos_of(150, 120, m=m, k=k, seed=seed, rate=25.0)
    demos = simile.Demonstrations.from_arrays(
        [np.where(np.random.default_rng(seed).random(x.shape) < 0.05, np.nan, x) for x in demos.contexts],
        demos.actions,
        rate=25.0,
    )
    model = SmoothForest(n_trees=n_trees, min_leaf=4, n_jobs=1)
    options = {"smoothness": 4.0, "regularizer": simile.CriticallyDamped(order=3), **more}
    return simile.clone(demos, model=model, horizon=horizon, seed=seed, **options).policy


def with_line(policy: SmoothPolicy, m: int = 3) -> SmoothPolicy:
    k = policy.n_actions
    parts = WeightedModel((policy.f, line(policy.horizon, m, k)), (0.7, 0.3))
    if policy.naive is None:
        return replace(policy, f=parts)
    naive = line(policy.horizon.without_actions(), m, k, seed=1)
    return replace(policy, f=parts, naive=WeightedModel((policy.naive, naive), (0.5, 0.5)))


@compiles
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("horizon", [Horizon((0, 1, 4, 16), 0), Horizon(3, (1, 2, 5))], ids=["contexts", "actions"])
def test_c_acts_as_the_predictor_does_bit_for_bit_over_ten_thousand_frames(
    tmp_path: Path, horizon: Horizon, compiler: str
):
    policy = with_line(learned(k=2, horizon=horizon, n_trees=20))
    policy = replace(policy, smoothness=policy.smoothness * np.array([1.0, 3.0]), hold=HOLD)
    policy = policy.keeping(None if horizon.memory else KEPT)
    start = np.array([1.5, -2.0])
    program, predictor = Compiled(policy, tmp_path, compiler=compiler), simile.Predictor(policy, start=start)
    X = contexts(10_000)
    program.begin(X[0], start)
    acted, expected = [], []
    for t, x in enumerate(X):
        if t % 500 >= 460 and t > 0:  # long enough for h to be followed no more
            acted.append(program.miss())
            expected.append(predictor.step(None))
        elif t % 500 == 400:
            program.override(x, 2.0 * start)
            acted.append(2.0 * start)
            expected.append(predictor.override(2.0 * start, x))
        else:
            acted.append(program.step(x))
            expected.append(predictor.step(x))
    assert np.array_equal(acted, expected)
    assert np.ptp(expected) > 1.0  # it did something


@compiles
@pytest.mark.parametrize("horizon", [Horizon((0, 1, 4, 16), 0), Horizon(3, (1, 2, 5))], ids=["contexts", "actions"])
def test_a_cold_start_in_c_has_the_bits_of_the_predictors(tmp_path: Path, horizon: Horizon):
    policy = with_line(learned(horizon=horizon))
    program, predictor = Compiled(policy, tmp_path), simile.Predictor(policy)
    X = contexts(200, seed=3)
    program.begin(X[0])
    assert np.array_equal([program.step(x) for x in X], [predictor.step(x) for x in X])


@pytest.mark.parametrize("horizon", [Horizon((0, 1, 4, 16), 0), Horizon(3, (1, 2, 5))], ids=["contexts", "actions"])
def test_the_graph_acts_as_the_predictor_does_over_ten_thousand_frames(tmp_path: Path, horizon: Horizon):
    pytest.importorskip("onnx")
    policy = with_line(learned(k=2, horizon=horizon, n_trees=20))
    policy = replace(policy, smoothness=policy.smoothness * np.array([1.0, 3.0]), hold=HOLD)
    graph, predictor = Graphed(policy, tmp_path), simile.Predictor(policy)
    X = contexts(10_000, seed=4)
    acted, expected = [graph.step(x)[0] for x in X], [predictor.step(x) for x in X]
    assert np.abs(np.subtract(acted, expected)).max() < 1e-9


def test_contexts_far_from_0_lose_nothing_in_c_and_in_the_graph(tmp_path: Path):
    policy = with_line(learned(horizon=Horizon(3, (1, 2)), n_trees=10))
    far = replace(policy, units=replace(policy.units, origin=np.array([1e9, 0.0, -5.4e6])))
    X = np.round(256.0 * contexts(300, seed=6)) / 256.0
    start = np.array([0.5])
    near, predictor, cold = (simile.Predictor(p, start=s) for p, s in ((policy, start), (far, start), (far, None)))
    moved = X + far.units.origin
    expected = [near.step(x) for x in X]
    assert np.array_equal([predictor.step(x) for x in moved], expected)
    if COMPILERS:
        program = Compiled(far, tmp_path)
        program.begin(moved[0], start)
        assert np.array_equal([program.step(x) for x in moved], expected)
        program.override(moved[7], start)
        predictor.override(start, moved[7])
        assert np.array_equal(program.step(moved[8]), predictor.step(moved[8]))
        program.begin(moved[0])
        guessed = [cold.step(x) for x in moved]
        assert np.array_equal([program.step(x) for x in moved], guessed)
        assert "origin    1000000000.0, 0.0, -5400000.0" in (tmp_path / "pan.h").read_text()
    pytest.importorskip("onnx")
    graph, cold = Graphed(far, tmp_path), simile.Predictor(far)
    assert np.allclose([graph.step(x)[0] for x in moved], [cold.step(x) for x in moved], rtol=0.0, atol=1e-9)
    assert np.array_equal(graph.contexts[0, -1], moved[-1], equal_nan=True)  # in the user's units


def test_a_batch_of_streams_in_the_graph_is_a_pool_and_a_past_of_nan_begins_a_stream_anew(tmp_path: Path):
    pytest.importorskip("onnx")
    policy = learned(horizon=Horizon(2, 2))
    graph, pool = Graphed(policy, tmp_path, n=5), simile.PredictorPool(policy, 5)
    X = contexts(5 * 100).reshape(100, 5, 3)
    for t, rows in enumerate(X):
        if t == 50:
            pool.reset([1, 3])
            graph.actions[[1, 3]] = np.nan  # what the contexts hold does not matter then
        assert np.allclose(graph.step(rows), pool.step(rows), rtol=0.0, atol=1e-9)


def test_the_graphs_past_is_in_the_users_units_so_that_a_known_past_can_be_put_there(tmp_path: Path):
    pytest.importorskip("onnx")
    policy = learned(horizon=Horizon(2, 3))
    X = contexts(30, missing=0.0)
    past = np.linspace(1.0, 3.0, policy.reach)[:, np.newaxis]
    graph, predictor = Graphed(policy, tmp_path), simile.Predictor(policy, start=past)
    graph.actions[0], graph.contexts[0] = past, X[0]
    for x in X:
        assert np.allclose(graph.step(x)[0], predictor.step(x), rtol=0.0, atol=1e-9)
    assert np.array_equal(graph.contexts[0, -1], X[-1])  # latest last


def test_the_graph_remembers_the_start_and_takes_it_anew_where_it_is_nan(tmp_path: Path):
    pytest.importorskip("onnx")
    policy = learned(k=2).keeping(KEPT).holding(HOLD)
    X, start = contexts(60, missing=0.0), np.array([3.0, -3.0])
    graph, predictor = Graphed(policy, tmp_path), simile.Predictor(policy, start=start)
    graph.actions[0], graph.contexts[0] = start, X[0]
    for t, x in enumerate(X):
        if t == 30:  # an operator: the step is run all the same, and written over
            graph.step(x)
            graph.actions[0, -1] = graph.more["held"][0] = predictor.override(-start, x)
            graph.more["offset"][:] = np.nan
        else:
            assert np.allclose(graph.step(x)[0], predictor.step(x), rtol=0.0, atol=1e-9)
    assert (
        export_onnx(policy, tmp_path / "a.onnx").state
        == export_onnx(policy.keeping(None), tmp_path / "b.onnx").state + 16
    )


def test_a_header_without_an_offset_says_nothing_of_it(tmp_path: Path):
    plain, keeping = (
        export_c(p, tmp_path / "pan.h").path.read_text() for p in (learned(), learned().keeping(Offset(0.5, 0.9)))
    )
    assert "offset" not in plain
    assert "pan_share[1]" in keeping


@compiles
def test_a_frame_that_was_not_taken_in_c_leaves_what_was_kept(tmp_path: Path):
    policy = replace(learned().keeping(Offset(0.5, 0.9)), space=ActionSpace())
    program = Compiled(replace(policy, f=WeightedModel((policy.f,), (1e9,))), tmp_path)
    program.begin(np.ones(3), [1.0])
    before = program.state.raw
    program.step(np.ones(3))
    assert program.wild
    assert program.state.raw == before


def test_a_mixture_whose_components_differ_is_a_graph_and_no_header(tmp_path: Path):
    pytest.importorskip("onnx")
    one, other = learned(horizon=Horizon((0, 2), 0)), learned(horizon=Horizon(1, 1), seed=1, smoothness=9.0)
    policy = Mixture((one, other.in_units(one.units, one.space, one.card)), (0.6, 0.4))
    graph, predictor = Graphed(policy, tmp_path), simile.Predictor(policy)
    X = contexts(300, seed=5)
    assert np.allclose([graph.step(x)[0] for x in X], [predictor.step(x) for x in X], rtol=0.0, atol=1e-9)
    with pytest.raises(simile.ArgumentError, match=r"differ in smoothness or horizon.*export_onnx"):
        export_c(policy, tmp_path / "pan.h")


@compiles
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_small_policies_of_any_shape_act_alike_in_python_c_and_onnx(tmp_path: Path, data: st.DataObject):
    pytest.importorskip("onnx")
    k, m = data.draw(st.integers(1, 2), "k"), data.draw(st.integers(1, 3), "m")
    lags = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True), "context lags")
    lead = data.draw(st.integers(-4, 4), "lead")
    horizon = Horizon(lags, data.draw(st.lists(st.integers(1, 4), max_size=2, unique=True), "action lags"), lead)
    order, seed = data.draw(st.integers(1, 4), "order"), data.draw(st.integers(0, 99), "seed")
    options = {"regularizer": simile.CriticallyDamped(order=order), "smoothness": data.draw(st.floats(0.0, 20.0))}
    policy = learned(k=k, m=m, horizon=horizon, seed=seed, n_trees=data.draw(st.integers(1, 3), "trees"), **options)
    if data.draw(st.booleans(), "bounded"):
        policy = policy.in_units(policy.units, ActionSpace(low=-0.7, high=[1.1] * k), policy.card)
    if data.draw(st.booleans(), "lines"):
        policy = with_line(policy, m)
    if data.draw(st.booleans(), "lines alone"):
        policy = replace(policy, f=line(policy.horizon, m, k, seed=seed, terms=data.draw(st.integers(0, 3))))
    if data.draw(st.booleans(), "mixed"):
        other = learned(k=k, m=m, horizon=horizon, seed=seed + 1, **options)
        other = other.in_units(policy.units, policy.space, policy.card)
        policy = simile.interpolate(
            other, policy, np.array(data.draw(st.lists(st.floats(0.1, 0.9), min_size=k, max_size=k)))
        )
    if not horizon.memory and data.draw(st.booleans(), "keeps"):
        policy = policy.keeping(Offset(data.draw(st.floats(0.1, 1.0)), data.draw(st.floats(0.0, 1.0))))
    if data.draw(st.booleans(), "holds"):  # wide, so that rounding does not decide whether to step
        policy = policy.holding(Hold(data.draw(st.floats(0.1, 0.5)), data.draw(st.booleans(), "stepping")))
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    program, graph, predictor = Compiled(policy, folder), Graphed(policy, folder, m=m), simile.Predictor(policy)
    X = contexts(80, m, seed=seed, missing=data.draw(st.sampled_from([0.0, 0.3, 1.0]), "missing"))
    program.begin(X[0])
    expected = [answer for x in X if (answer := predictor.step(x)) is not None] + list(predictor.flush())
    lasting = [*X, *[X[-1]] * max(0, -lead)]  # where it may wait: the last context lasts
    assert np.allclose([program.step(x) for x in lasting][-len(X) :], expected, rtol=0.0, atol=1e-9)
    assert np.allclose([graph.step(x)[0] for x in lasting][-len(X) :], expected, rtol=0.0, atol=1e-9)


def test_a_network_beside_a_forest_is_exported_to_onnx_and_not_to_c(tmp_path: Path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")

    class Network:
        """What `simile.neural.Network` promises."""

        def __init__(self) -> None:
            with torch.random.fork_rng():
                torch.manual_seed(0)
                layers = (torch.nn.Linear(9, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
            self._module = torch.nn.Sequential(*layers).eval()

        def module(self) -> Any:
            return self._module

        def predict(self, S: np.ndarray) -> np.ndarray:
            with torch.inference_mode():
                return self._module(torch.from_numpy(S.astype(np.float32))).double().numpy()

    forest = learned(horizon=Horizon((0, 1, 4), 0))
    policy = replace(forest, f=WeightedModel((forest.f, Network()), (0.5, 0.5)))
    graph, pool = Graphed(policy, tmp_path, n=3), simile.PredictorPool(policy, 3)
    X = contexts(3 * 100, missing=0.0).reshape(100, 3, 3)
    for rows in X:
        assert np.allclose(graph.step(rows), pool.step(rows), rtol=0.0, atol=1e-6)
    written = (tmp_path / "step.onnx").read_bytes()
    assert b".py" not in written  # torch notes the places in its own files, and in the user's
    with pytest.raises(simile.ArgumentError, match=r"network \(Network\) is not written in C.*export_onnx"):
        export_c(policy, tmp_path / "pan.h")


def test_factors_that_are_one_in_single_precision_alone_count(tmp_path: Path):
    pytest.importorskip("onnx")  # and onnxruntime drops them where it sees them
    policy = learned(smoothness=1e-8, regularizer=simile.PreviousAction())
    policy = replace(policy, units=replace(policy.units, scale=np.array([1.0 - 1e-8])))
    graph, predictor = Graphed(policy, tmp_path), simile.Predictor(policy)
    X = contexts(50)
    assert np.allclose([graph.step(x)[0] for x in X], [predictor.step(x) for x in X], rtol=0.0, atol=1e-12)


@compiles
def test_a_wild_action_is_not_taken_in_c_and_the_last_one_is_held(tmp_path: Path):
    policy = learned(horizon=Horizon(0, 0))
    steep = replace(line(policy.horizon, 3, 1), coefficient=np.full((12, 1), 1e9))
    program = Compiled(replace(policy, f=steep, space=ActionSpace()), tmp_path)
    program.begin(np.zeros(3), [2.5])
    before = program.state.raw
    assert np.allclose(program.step(np.full(3, 100.0)), [2.5])
    assert program.wild == 1
    assert program.state.raw == before


@compiles
def test_a_policy_that_needs_a_past_has_no_cold_start(tmp_path: Path):
    policy = replace(learned(horizon=Horizon(1, 2)), naive=None)
    program, predictor = Compiled(policy, tmp_path, begins=False), simile.Predictor(policy, start=[0.5])
    assert "pan_begin(" not in (tmp_path / "pan.h").read_text()
    X = contexts(50)
    program.begin(X[0], [0.5])
    assert np.array_equal([program.step(x) for x in X], [predictor.step(x) for x in X])
    pytest.importorskip("onnx")
    assert np.isnan(Graphed(policy, tmp_path).step(X[0])).all()


@compiles
def test_contexts_beyond_single_precision_go_where_the_kernels_send_them(tmp_path: Path):
    policy = learned()
    program, predictor = Compiled(policy, tmp_path), simile.Predictor(policy, start=[0.0])
    X = np.array([[1e300, -1e300, 0.0], [3.5e38, 0.0, 1e-300]] * 5)
    program.begin(X[0], [0.0])
    assert np.array_equal([program.step(x) for x in X], [predictor.step(x) for x in X])


@compiles
def test_names_that_would_break_out_of_a_comment_do_not(tmp_path: Path):
    card = Card(context_names=("*/ #error", "a\nb\\", "??/ é /*"), action_names=("pan",), rate=25.0)
    policy = learned()
    program = Compiled(replace(policy, card=card), tmp_path, name="p9_X")
    program.begin(np.zeros(3))
    assert np.isfinite(program.step(np.zeros(3))).all()


def test_the_files_say_what_they_are(tmp_path: Path):
    onnx = pytest.importorskip("onnx")
    policy = learned()
    policy.save(tmp_path / "policy.safetensors")
    digest = read_header(tmp_path / "policy.safetensors")["digest"]
    said = str(export_c(policy, tmp_path / "head-1.h"))
    assert said.startswith("compiled tables: ")
    assert "; state: " in said
    text = (tmp_path / "head-1.h").read_text()
    assert "void head_1_begin(head_1_state *s, const double *x)" in text
    for word in (digest, "25 frames a second", "0 x0", *policy.card.action_names):
        assert word in text
    export_onnx(policy, tmp_path / "pan.onnx")
    facts = {p.key: p.value for p in onnx.load(tmp_path / "pan.onnx").metadata_props}
    assert facts["digest"] == digest
    assert facts["rate"] == "25.0"
    again = tmp_path / "again.onnx"
    export_onnx(policy, again)
    assert again.read_bytes() == (tmp_path / "pan.onnx").read_bytes()
