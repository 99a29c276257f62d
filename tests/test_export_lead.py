"""Policies without Python that may wait or aim ahead: the header and the graph against `Predictor` and `rollout`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simile
from conftest import demos_of
from simile import Horizon
from simile.online.export import export_c, export_onnx
from simile.policies.policies import Mixture, Policy, SmoothPolicy, timing
from test_export import HOLD, KEPT, Compiled, Graphed, compiles, contexts, learned, line, with_line

LEADS = (-60, -15, -1, 0, 1, 15)
NO_ANSWER = 2
START = np.array([1.5, -2.0])
HORIZONS = pytest.mark.parametrize("memory", [0, (1, 2, 5)], ids=["contexts", "actions"])


def leading(lead: int, memory: Any = 0, lags: Any = (0, 1, 4, 16)) -> SmoothPolicy:
    """A policy with two actions, a forest, a line and all else that goes along."""
    policy = with_line(learned(k=2, horizon=Horizon(lags, memory, lead)))
    policy = replace(policy, smoothness=policy.smoothness * np.array([1.0, 3.0]), hold=HOLD)
    return policy.keeping(None if memory else KEPT)


class Streamed:
    """A policy in C, which answers as a `Predictor` does: None where there is no answer."""

    def __init__(self, policy: Policy, folder: Path) -> None:
        self.program, self.wait = Compiled(policy, folder), max(0, -timing(policy)[0])

    def _told(self, said: np.ndarray, before: np.ndarray) -> np.ndarray | None:
        if self.program.wild == NO_ANSWER:
            assert np.array_equal(said, before)  # nothing was written
            return None
        assert self.program.wild == 0
        return said

    def step(self, x: Any) -> np.ndarray | None:
        before = self.program.out.copy()
        return self._told(self.program.miss() if x is None else self.program.step(x), before)

    def flush(self) -> list[np.ndarray]:
        answers = []
        while self.wait and (answer := self._told(self.program.flush(), self.program.out.copy())) is not None:
            answers.append(answer)
        return answers

    def run(self, X: np.ndarray, start: Any = None) -> list[Any]:
        """Answers of a whole sequence."""
        self.program.begin(X[0], start)
        said = [self.step(x) for x in X]
        assert [answer is None for answer in said] == [t < self.wait for t in range(len(X))]
        return [answer for answer in said if answer is not None] + self.flush()


def predict(policy: Policy, X: np.ndarray, start: Any = None) -> list[Any]:
    predictor = simile.Predictor(policy, start=start)
    return [answer for x in X if (answer := predictor.step(x)) is not None] + list(predictor.flush())


@compiles
@HORIZONS
@pytest.mark.parametrize("lead", LEADS)
def test_c_answers_as_roll_outs_and_predictors_do_bit_for_bit(tmp_path: Path, lead: int, memory: Any):
    policy = leading(lead, memory)
    program = Streamed(policy, tmp_path)
    for n, seed in ((300, 0), (61, 1), (60, 2), (20, 3), (1, 4)):  # some are shorter than the wait
        X = contexts(n, seed=seed)
        rolled = simile.rollout(policy, [X], start=START)[0]
        answers = np.array(program.run(X, START))
        assert len(answers) == n
        assert np.array_equal(answers, predict(policy, X, START))
        assert np.ptp(answers) > 1.0 or n == 1  # it did something
        ahead = max(lead, 0)  # rolled[t] is the action for frame t
        assert np.array_equal(answers[: max(n - ahead, 0)], rolled[ahead:])
        cold = simile.rollout(policy, [X], start=simile.ColdStart())[0]
        guessed = np.array(program.run(X))
        assert np.allclose(guessed, predict(policy, X), rtol=0.0, atol=1e-12)
        assert np.allclose(guessed[: max(n - ahead, 0)], cold[ahead:], rtol=0.0, atol=1e-12)


@compiles
@HORIZONS
@pytest.mark.parametrize("lead", [-15, -1, 15])
@pytest.mark.parametrize("first", ["step", "miss", "override"])
def test_gaps_and_operators_before_and_after_the_first_answer_are_the_predictors_in_c(
    tmp_path: Path, lead: int, memory: Any, first: str
):
    policy = leading(lead, memory)
    program, predictor = Streamed(policy, tmp_path), simile.Predictor(policy, start=START)
    X = contexts(200, seed=7)
    program.program.begin(X[0], START)
    acted, expected = [], []
    doing = dict.fromkeys([*range(40, 80), 195, 199], "miss") | {3: first, 7: "override", 8: first, 150: "override"}
    doing |= {-lead - 1: "override"} if first == "override" else {}  # in the last frame that waits
    for t, x in enumerate(X):
        if doing.get(t) == "override":
            program.program.override(x, 2.0 * START)
            predictor.override(2.0 * START, x)
            continue
        seen = None if doing.get(t) == "miss" else x
        acted.append(program.step(seen))
        expected.append(predictor.step(seen))
    assert [a is None for a in acted] == [a is None for a in expected]
    acted, expected = acted + program.flush(), expected + list(predictor.flush())
    assert np.array_equal(*([a for a in some if a is not None] for some in (acted, expected)))


@compiles
def test_a_stream_in_c_begins_anew_after_its_end_and_in_the_middle_of_waiting(tmp_path: Path):
    policy = leading(-15)
    program = Streamed(policy, tmp_path)
    X = contexts(40, seed=1)
    for n in (40, 7, 40):
        program.program.begin(X[0], START)
        program.step(X[0])  # and then it begins again
        assert np.array_equal(program.run(X[:n], START), predict(policy, X[:n], START))
        assert program.flush() == []


@compiles
def test_a_wild_answer_ends_a_flush_in_c_too(tmp_path: Path):
    policy = learned(horizon=Horizon(0, 0, lead=-3))
    steep = replace(line(policy.horizon, 3, 1), coefficient=np.full((12, 1), 1e9))
    program = Compiled(replace(policy, f=steep, space=simile.ActionSpace()), tmp_path)
    program.begin(np.zeros(3), [2.5])
    program.step(np.full(3, 100.0))
    assert program.wild == NO_ANSWER
    assert np.allclose(program.flush(), [2.5])
    assert program.wild == 1
    program.flush()
    assert program.wild == NO_ANSWER


@compiles
def test_a_header_without_a_lead_says_nothing_of_it(tmp_path: Path):
    text = {
        lead: export_c(learned(horizon=Horizon((0, 2), 0, lead)), tmp_path / "pan.h").path.read_text()
        for lead in (-15, 0, 15)
    }
    assert not any(word in text[0] for word in ("LEAD", "WAIT", "ANSWER", "flush", "lead", "waited", "!x"))
    assert "#define PAN_LEAD (15)" in text[15]
    assert "aims 15 frames (0.6 s) ahead: what it says at a frame is for the 15th after it" in text[15]
    assert not any(word in text[15] for word in ("PAN_WAIT", "PAN_NO_ANSWER", "flush", "waited"))
    for words in ("PAN_LEAD (-15)", "PAN_WAIT 15", "PAN_NO_ANSWER 2", "pan_flush(&s, action);", "waits 15 frames"):
        assert words in text[-15]


@HORIZONS
@pytest.mark.parametrize("lead", LEADS)
def test_the_graph_answers_as_the_predictor_does(tmp_path: Path, lead: int, memory: Any):
    onnx = pytest.importorskip("onnx")
    policy = leading(lead, memory)
    graph, wait = Graphed(policy, tmp_path), max(-lead, 0)
    began = {"contexts": graph.contexts, "actions": graph.actions, "more": graph.more}
    for X in (contexts(150, seed=4), contexts(20, seed=5)):
        for start in (None, START):
            vars(graph).update({name: value.copy() for name, value in began.items()})
            if start is not None:
                graph.actions, graph.contexts = np.tile(start, (*graph.actions.shape[:2], 1)), graph.contexts.copy()
                graph.contexts[:] = X[0]
            said = [graph.step(x)[0] for x in X]
            said += [graph.step(graph.contexts[:, -1])[0] for _ in range(wait)]
            assert np.isnan(said[:wait]).all()
            assert np.abs(np.subtract(said[wait:], predict(policy, X, start))).max() < 1e-9
    written = onnx.load(tmp_path / "step.onnx")
    facts = {p.key: json.loads(p.value) for p in written.metadata_props if p.key in ("lead", "known")}
    assert facts == ({"lead": lead} if lead else {})
    assert (f"the frame {wait} frames ago" in written.doc_string) == (wait > 0)
    state = sum(value.nbytes for value in (graph.contexts, graph.actions, *graph.more.values()))
    assert export_onnx(policy, tmp_path / "again.onnx").state == state


def test_a_mixture_and_a_batch_wait_in_the_graph_and_each_stream_begins_anew_when_it_does(tmp_path: Path):
    pytest.importorskip("onnx")
    one = learned(horizon=Horizon((0, 2, 9), 0, lead=-6))
    other = learned(horizon=Horizon(1, 1, lead=-6), seed=1, smoothness=9.0)
    policy = Mixture((one, other.in_units(one.units, one.space, one.card)), (0.6, 0.4))
    graph, pool = Graphed(policy, tmp_path, n=3), simile.PredictorPool(policy, 3)
    for t, rows in enumerate(contexts(3 * 60).reshape(60, 3, 3)):
        if t in (3, 40):
            pool.reset([1])
            graph.actions[1] = np.nan
        assert np.allclose(graph.step(rows), pool.step(rows), rtol=0.0, atol=1e-9, equal_nan=True)


def test_an_operator_acts_while_the_graph_waits(tmp_path: Path):
    pytest.importorskip("onnx")
    policy = leading(-6)
    graph, predictor = Graphed(policy, tmp_path), simile.Predictor(policy)
    for t, x in enumerate(contexts(60, missing=0.0)):
        said = graph.step(x)[0]
        if t in (2, 30):  # written over: all rows as long as it waits, and else the last
            done = predictor.override(START, x)
            graph.actions[0, slice(None) if t < 6 else -1] = graph.more["held"][0] = done
            graph.more["offset"][:] = np.nan
            graph.more["waited"] = np.floor(graph.more["waited"])  # it is no cold start any more
        elif (expected := predictor.step(x)) is None:
            assert np.isnan(said).all()
        else:
            assert np.allclose(said, expected, rtol=0.0, atol=1e-9)


@compiles
@pytest.mark.parametrize("lead", [-5, 0, 5])
def test_what_is_known_ahead_is_one_more_context_of_the_step(tmp_path: Path, lead: int):
    onnx = pytest.importorskip("onnx")
    demos = demos_of(150, 120, m=2, rate=25.0)
    horizon = Horizon((0, 1, 4), 0, lead, known=((1, 3), (0, 10)))
    policy = simile.clone(demos, model=simile.SmoothForest(n_trees=5, n_jobs=1), horizon=horizon).policy
    program, graph = Streamed(policy, tmp_path), Graphed(policy, tmp_path, m=4)
    text = (tmp_path / "pan.h").read_text()
    assert "0 x0, 1 x1, 2 x1[t+3], 3 x0[t+10]" in text
    assert "name[t+n] is what name will be n frames later" in text
    facts = {p.key: json.loads(p.value) for p in onnx.load(tmp_path / "step.onnx").metadata_props if p.key == "known"}
    assert facts == {"known": [[1, 3], [0, 10]]}
    X = demos[0].foretell(horizon.known).contexts
    rolled = simile.rollout(policy, demos[0].contexts, start=[0.5])[0]
    ahead = max(lead, 0)
    assert np.array_equal(program.run(X, [0.5])[: len(X) - ahead], rolled[ahead:])
    said = [graph.step(x)[0] for x in [*X, *[X[-1]] * max(-lead, 0)]]
    cold = simile.rollout(policy, demos[0].contexts, start=simile.ColdStart())[0]
    assert np.allclose(said[max(-lead, 0) :][: len(X) - ahead], cold[ahead:], rtol=0.0, atol=1e-9)
