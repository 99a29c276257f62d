"""The studio's slider: what it shows is what a roll-out would do, at once and for any length."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simile
from conftest import demos_of
from simile._common.web import RequestError
from simile.data import tasks
from simile.learning.runs import RunFolder
from simile.models.regularizers import fit_each
from simile.policies.policies import SmoothPolicy, StochasticMixture
from simile.policies.storage.loading import load_own, save_own
from simile.studio import preview_service
from simile.studio.cache import Cache
from simile.studio.preview import PreviewedPolicy, compute_outputs, roll
from simile.studio.preview_service import PreviewService
from studios import unpacked


def previewed(subject: PreviewedPolicy, demo: simile.Demonstration, smoothness: float | None) -> np.ndarray:
    outputs = compute_outputs(subject.linear, demo) if subject.linear else None
    return roll(subject, demo, smoothness, outputs).actions


@pytest.fixture(scope="module")
def two_actions() -> tuple[simile.Demonstrations, simile.Demonstrations]:
    return demos_of(200, 150, 180, 120, m=3, k=2, rate=25.0).split(test=0.25)


@pytest.fixture(scope="module")
def policies(two_actions: Any) -> dict[str, simile.Policy]:
    train, _ = two_actions
    small = simile.SmoothForest(n_trees=4)
    rounds = {"model": small, "n_rounds": 2, "validation": 0.0}
    lags = simile.Horizon(context_lags=4, action_lags=3)
    inside = simile.ActionSpace(low=-1e3, high=1e3)
    return {
        "as by default": simile.learn(train).policy,
        "one forest": simile.learn(train, model=small, smoothness=20.0).policy,
        "a model of another library": _with_sklearn(train),
        "past actions": simile.paper(train, horizon=lags, smoothness=5.0, **rounds).policy,
        "chance": simile.searn(train, horizon=lags, smoothness=5.0, **rounds).policy,
        "an h that learns": simile.learn(
            train, regularizer=simile.VelocityAutoregression(order=4), model=small, smoothness=5.0
        ).policy,
        "bounds far off": simile.learn(train, model=small, smoothness=20.0, space=inside).policy,
        "gliding": simile.learn(train, model=small, smoothness=20.0, hold=0.2, space=inside).policy,
        "remembering the start": simile.learn(train, model=small, smoothness=20.0, hold=0.1).policy.keeping(
            simile.Offset((1.0, 0.5), (0.97, 1.0))
        ),
        "each its own": simile.learn(
            train, model=small, smoothness=(5.0, 45.0), hold=simile.Hold((0.3, 0.1), (False, True))
        ).policy,
    }


def _with_sklearn(train: simile.Demonstrations) -> simile.Policy:
    from sklearn.linear_model import Ridge

    return simile.learn(train, model=Ridge(), smoothness=20.0).policy


KINDS = (
    "as by default",
    "one forest",
    "a model of another library",
    "past actions",
    "chance",
    "an h that learns",
    "bounds far off",
    "gliding",
    "remembering the start",
    "each its own",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_preview_at_its_own_smoothness_is_the_policys_roll_out(kind: str, policies: Any, two_actions: Any):
    train, test = two_actions
    for smoothness in (None, PreviewedPolicy(policies[kind], train).smoothness):
        found = previewed(PreviewedPolicy(policies[kind], train), test[0], smoothness)
        assert np.abs(found - simile.rollout(policies[kind], test[0])[0]).max() < 1e-9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("smoothness", [0.0, 0.3, 7.0, 2000.0])
def test_a_preview_at_another_smoothness_is_the_roll_out_with_h_and_lambda_replaced(
    kind: str, smoothness: float, policies: Any, two_actions: Any
):
    train, test = two_actions
    subject = PreviewedPolicy(policies[kind], train)
    found = previewed(subject, test[0], smoothness)

    def changed(part: SmoothPolicy) -> SmoothPolicy:
        said = part.card.training["settings"]["regularizer"]
        standard = [part.units.standardize(a) for a in train.actions]
        scaled = part.smoothness * smoothness / np.mean(part.smoothness)  # all alike, so that the mean is the slider's
        return replace(part, smoothness=scaled, h=fit_each(simile.learning.recipes.parse(said, "h"), standard, scaled))

    whole = subject.whole
    if isinstance(whole, StochasticMixture):
        expected = replace(whole, components=tuple(changed(p) for p in whole.components))
    else:
        assert isinstance(whole, SmoothPolicy)
        expected = changed(whole)
    assert np.abs(found - simile.rollout(expected, test[0])[0]).max() < 1e-9
    if smoothness and kind != "chance":
        assert np.abs(found - simile.rollout(policies[kind], test[0])[0]).max() > 1e-3


@pytest.mark.parametrize("kind", ["gliding", "each its own"])
def test_a_preview_holds_still_as_the_policy_does_at_any_smoothness(kind: str, policies: Any, two_actions: Any):
    train, test = two_actions
    subject = PreviewedPolicy(policies[kind], train)
    for smoothness in (None, 7.0, 200.0):
        found = previewed(subject, test[0], smoothness)
        bare = simile.rollout(subject.at(smoothness or subject.smoothness).holding(None), test[0])[0]
        apart = np.abs(found - bare) / policies[kind].units.scale
        assert (apart <= policies[kind].hold.width + 1e-9).all()
        assert (apart[10:].max(axis=0) > 0.01).all()


@pytest.mark.parametrize("smoothness", [0.0, 25.0, 50.0])
def test_the_slider_moves_every_lambda_by_the_same_factor(smoothness: float, policies: Any, two_actions: Any):
    subject = PreviewedPolicy(policies["each its own"], two_actions[0])
    assert subject.smoothness == 25.0
    found = subject.at(smoothness)
    assert np.allclose(found.smoothness, [smoothness / 5.0, 9.0 * smoothness / 5.0], rtol=1e-12)
    assert np.array_equal(found.hold.width, [0.3, 0.1])
    if smoothness == 25.0:
        assert found is subject.whole


def test_a_preview_whose_bounds_cut_in_is_rolled_out_whole(two_actions: Any):
    train, test = two_actions
    low, high = (np.quantile(np.concatenate(train.actions), q, axis=0) for q in (0.0, 1.0))
    tight = simile.ActionSpace(low=low, high=high)
    policy = simile.learn(train, model=simile.SmoothForest(n_trees=4), smoothness=20.0).policy
    cut = replace(test[0], contexts=test[0].contexts * 4.0)
    policy = policy.in_units(policy.units, tight, policy.card)
    found = previewed(PreviewedPolicy(policy, train), cut, None)
    assert np.abs(found - simile.rollout(policy, cut)[0]).max() < 1e-9
    assert (found <= high).all()


def test_a_preview_takes_missing_contexts(policies: Any, two_actions: Any):
    train, test = two_actions
    holes = test[0].contexts.copy()
    holes[10:40, 1] = np.nan
    demo = replace(test[0], contexts=holes)
    policy = policies["one forest"]
    assert np.abs(previewed(PreviewedPolicy(policy, train), demo, None) - simile.rollout(policy, demo)[0]).max() < 1e-9


def test_a_smoothness_without_end_is_refused_in_words(policies: Any, two_actions: Any):
    subject = PreviewedPolicy(policies["as by default"], two_actions[0])
    with pytest.raises(simile.SimileError, match="slide back"):
        subject.at(1e60)


def test_the_slider_holds_the_policys_own_smoothness(policies: Any, two_actions: Any):
    for policy in policies.values():
        found = PreviewedPolicy(policy, two_actions[0]).describe_range()
        assert found["low"] < found["now"] < found["high"]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run as `simile train` leaves it, with two actions."""
    folder = tmp_path_factory.mktemp("run")
    demos = demos_of(200, 150, 10_000, 120, m=3, k=2, rate=25.0)
    simile.write(demos, folder / "data.parquet")
    run = RunFolder(folder)
    run.write_config({"data": [str(folder / "data.parquet")], "test": "0.5", "seed": 0, "algorithm": "learn"})
    simile.learn(demos.split(test=0.5)[0]).policy.save(folder / "policy.safetensors")
    return run


def test_curves_hold_the_expert_and_the_policy_for_each_action(run_folder: RunFolder):
    previews = PreviewService()
    about = previews.describe(run_folder)
    for i, sequence in enumerate(about["sequences"]):
        header, values = unpacked(previews.curves(run_folder, i, None))
        demo = previews._read_parts(run_folder)[1][i]
        assert (header["frames"], header["step"], header["preview"]) == (sequence["frames"], 1, False)
        assert np.allclose(values[0], demo.actions.T, rtol=1e-6)
        rolled = simile.rollout(run_folder.policy(), demo)[0]
        assert np.allclose(values[1], rolled.T, rtol=1e-5, atol=1e-5)
        judged = simile.evaluate(run_folder.policy(), demo)
        (row,) = (row for row in judged.rows() if row["name"] == "policy")
        assert {name: header[name] for name in ("rmse", "roughness", "lag")} == pytest.approx(
            {"rmse": row["error"], "roughness": row["roughness"], "lag": row["lag"]}
        )
        rows = judged.recordings()
        for name in ("reversals", "rest"):
            both = [np.mean([row[f"{who}{name}"] for row in rows]) for who in ("", "expert_")]
            assert header[name] == pytest.approx(both)
    with pytest.raises(RequestError, match="sequence must be from 0 to"):
        previews.curves(run_folder, 99, None)


def test_long_curves_are_thinned_to_their_extremes(run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch):
    previews = PreviewService()
    longest = max(range(2), key=lambda i: previews.describe(run_folder)["sequences"][i]["frames"])
    whole = unpacked(previews.curves(run_folder, longest, None))
    monkeypatch.setattr(preview_service, "MOST_SAMPLES", 300)
    header, values = unpacked(previews.curves(run_folder, longest, None))
    assert header["frames"] == whole[0]["frames"]
    assert values.shape[2] <= 302
    assert values.shape[2] * header["step"] >= header["frames"]
    assert np.array_equal(values.max(axis=2), whole[1].max(axis=2))
    assert np.array_equal(values.min(axis=2), whole[1].min(axis=2))
    assert header["rmse"] == whole[0]["rmse"]


def test_the_slider_is_timed_on_ten_thousand_frames(tmp_path: Path):
    demos = tasks.pursuit(n_sequences=3, length=10_000)
    simile.write(demos, tmp_path / "data.parquet")
    run = RunFolder(tmp_path)
    run.write_config({"data": [str(tmp_path / "data.parquet")], "test": "0.4", "seed": 0, "algorithm": "learn"})
    simile.learn(tasks.pursuit(n_sequences=4, length=300)).policy.save(tmp_path / "policy.safetensors")
    previews = PreviewService()
    previews.describe(run)
    times = []
    for smoothness in (None, *np.geomspace(0.1, 1e5, 12)):
        begin = time.perf_counter()
        header, _ = unpacked(previews.curves(run, 0, smoothness))
        times.append(1e3 * (time.perf_counter() - begin))
        assert header["frames"] == 10_000
    print(f"first roll-out {times[0]:.1f} ms, slider {np.median(times[1:]):.2f} ms, at most {max(times[1:]):.2f} ms")


def test_a_cache_makes_a_value_once_for_all_who_ask_and_keeps_no_error():
    cache: Cache[int] = Cache(2)
    made: list[int] = []

    def make() -> int:
        time.sleep(0.05)
        made.append(1)
        return 7

    threads = [threading.Thread(target=cache.get, args=("a", make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (cache.get("a", make), len(made)) == (7, 1)
    with pytest.raises(ZeroDivisionError):
        cache.get("b", lambda: 1 // 0)
    assert cache.get("b", lambda: 8) == 8
    cache.get("c", lambda: 9)
    cache.get("a", make)
    assert len(made) == 2  # the oldest was let go


@pytest.mark.parametrize("k", [1, 2])
def test_the_slider_reads_the_mixtures_of_the_path(k: int, tmp_path):
    run = simile.learn(demos_of(*[120] * 6, k=k, rate=30.0))
    assert run.stacked is not None
    save_own(run.stacked, tmp_path / "path.safetensors")
    demo = demos_of(90, k=k, seed=5, rate=30.0)[0]
    subject = PreviewedPolicy(run.policy, run.judged.demos, load_own(tmp_path / "path.safetensors"))
    outputs = compute_outputs(subject.path, demo)
    for point in run.frontier.points[3:15:3]:
        lanes = np.reshape(subject.path.smoothness, (-1, k))
        assert np.isclose(lanes, point.smoothness).all(axis=1).any()
        own = np.broadcast_to(run.policy.smoothness, k)
        if k > 1 and not np.allclose(own, own[0]):
            continue  # the slider moves all by one factor, the path has one lambda
        said = subject.read_path(outputs, point.smoothness)
        wanted = compute_outputs(point.policy.keeping(None).holding(None), demo)
        np.testing.assert_allclose(said, wanted, atol=1e-9)
    low, high = (subject.read_path(outputs, value) for value in (0.0, 1e12))
    np.testing.assert_array_equal(low, outputs[:, :k])
    np.testing.assert_array_equal(high, outputs[:, -k:])
