"""Codes for missing values and angles that wrap: mended by the reader, kept by the policy, mended alike online."""

from __future__ import annotations

import json
import logging
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from commands import simile_
from odd_files import KINDS, Odd
from plants import CAMERA, CRANE, PLANTS, Plant
from served import Played, listed
from simile.data.corrections import read_corrections
from simile.data.preparation import Preparation, Wrap, read_pairs
from simile.errors import ArgumentError, DataError, SimileError, StorageError
from simile.learning.distributed.dask import DaskBackend
from simile.online.export import export_c, export_onnx
from simile.policies.storage.files import from_bytes, to_bytes
from simile.policies.storage.loading import load, read_header
from test_export import Compiled, compiles
from test_storage import sealed

QUICK = {"model": simile.Ridge(), "smoothness": 5.0, "horizon": simile.Horizon(10, 0)}
RATE = 25.0


def turned(values: Any, turn: float) -> np.ndarray:
    """Return values in the half turn on either side of 0."""
    return (np.asarray(values) + 0.5 * turn) % turn - 0.5 * turn


def make_frame(n: int = 4, length: int = 150, seed: int = 0, codes: float = 0.05) -> pd.DataFrame:
    """Make a log whose pan and heading wrap at 360, with -999 for wind where it is missing."""
    rng, parts = np.random.default_rng(seed), []
    for i in range(n):
        wind, heading = 10.0 * np.sin(np.cumsum(rng.normal(0.0, 0.1, (2, length)), axis=1) + rng.normal(size=(2, 1)))
        pan = 350.0 + np.convolve(wind + 4.0 * heading, np.full(9, 1 / 9), "same")
        table = {"sequence": i, "t": np.arange(length) / RATE, "wind": wind, "heading": (2.0 * heading) % 360.0}
        parts.append(pd.DataFrame({**table, "pan": pan % 360.0}))
    frame = pd.concat(parts, ignore_index=True).round(4)
    return frame.assign(wind=frame["wind"].mask(rng.random(len(frame)) < codes, -999.0))


def read(frame: Any, **how: Any) -> simile.Demonstrations:
    how = {"missing": {"wind": -999}, "wraps": {"heading": 360, "pan": 360}, **how}
    return simile.read(frame, actions="pan", quiet=True, **how)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return make_frame()


@pytest.fixture(scope="module")
def demos(frame: pd.DataFrame) -> simile.Demonstrations:
    return read(frame)


@pytest.fixture(scope="module")
def policy(demos: simile.Demonstrations, tmp_path_factory) -> Any:
    """A policy as its file has it."""
    path = tmp_path_factory.mktemp("policy") / "policy.safetensors"
    simile.learn(demos, **QUICK).policy.save(path)
    return simile.load(path)


@pytest.fixture(scope="module")
def raw(frame: pd.DataFrame) -> list[np.ndarray]:
    """The contexts of each recording as they were logged."""
    return [rows[["wind", "heading"]].to_numpy() for _, rows in frame.groupby("sequence")]


# ------------------------------------------------------------------------------------------------------------- reading


def test_codes_are_missing_and_what_wraps_goes_on(frame: pd.DataFrame, demos: simile.Demonstrations):
    rows = np.concatenate(demos.contexts)
    np.testing.assert_array_equal(np.isnan(rows[:, 0]), frame["wind"] == -999.0)
    for j, (name, values) in enumerate([("heading", rows[:, 1]), ("pan", np.concatenate(demos.actions)[:, 0])]):
        np.testing.assert_allclose(turned(values - frame[name], 360.0), 0.0, atol=1e-9)
        parts = [x[:, 1] for x in demos.contexts] if j == 0 else [a[:, 0] for a in demos.actions]
        assert max(np.abs(np.diff(part)).max() for part in parts) < 60.0
        assert np.ptp([np.median(part) for part in parts]) < 180.0
    assert demos.preparation.missing == {"wind": (-999.0,)}
    assert {name: (wrap.period, wrap.low) for name, wrap in demos.preparation.wraps.items()} == dict.fromkeys(
        ("heading", "pan"), (360.0, 0.0)
    )
    assert demos.problems == ()


def test_demonstrations_keep_what_was_mended_in_their_columns(demos: simile.Demonstrations):
    for some in (demos[1:], demos.head(20), demos.split(0.5)[0], demos.as_is(), demos.with_actions(demos.actions)):
        assert some.preparation == demos.preparation
    assert demos.without(["wind"]).preparation == demos.preparation.among(["heading", "pan"])
    other = replace(demos[0], name="other", preparation=Preparation())
    with pytest.raises(DataError, match=r"share their preparation.*missing.*-999"):
        simile.Demonstrations((*demos, other))


def test_an_action_that_is_a_code_is_missing_and_refused_with_its_row(frame: pd.DataFrame):
    spoiled = frame.copy()
    spoiled.loc[7, "pan"] = 9999.0
    with pytest.raises(DataError, match=r"row 8, column 'pan': the action is missing"):
        read(spoiled, missing={"pan": 9999, "wind": -999})
    assert np.isfinite(np.concatenate(read(spoiled, missing=9999).actions)).all()  # for all contexts alone


def test_the_ends_of_the_log_are_found_and_medians_brought_together():
    rng = np.random.default_rng(0)
    paths = [170.0 + np.cumsum(rng.normal(0.0, 2.0, 200)) for _ in range(3)]
    parts = [turned(paths[0], 360.0), turned(paths[1], 360.0) + 720.0, turned(paths[2], 360.0)]
    names = {"rate": RATE, "sequence": "sequence", "actions": "a", "quiet": True, "wraps": {"pan": 360}}

    def read_parts(parts: list[np.ndarray]) -> simile.Demonstrations:
        tables = [pd.DataFrame({"sequence": i, "pan": pan, "a": pan * 0.1}) for i, pan in enumerate(parts)]
        return simile.read(pd.concat(tables), **names)

    found = read_parts(parts)
    assert found.preparation.wraps["pan"].low is None  # 720 and -180 are of no one turn
    assert np.ptp([np.median(x) for x in found.contexts]) < 180.0
    assert read_parts([turned(path, 360.0) for path in paths]).preparation.wraps["pan"].low == -180.0
    apart = np.concatenate(found.contexts)[:, 0] - np.concatenate(paths)
    assert np.ptp(apart) < 1e-9
    assert apart[0] % 360.0 == pytest.approx(0.0, abs=1e-9) or apart[0] % 360.0 == pytest.approx(360.0)


def test_what_wraps_is_unwrapped_before_it_is_resampled(frame: pd.DataFrame):
    found = read(frame, resample=40.0)
    assert max(np.abs(np.diff(a[:, 0])).max() for a in found.actions) < 60.0


def test_options_are_numbers_texts_or_by_column():
    assert read_pairs(-999, "missing") == read_pairs("-999", "missing") == (("*", -999.0),)
    assert read_pairs({"wind": (-999, 9999)}, "missing") == read_pairs(["wind=-999", "wind=9999"], "missing")
    assert read_pairs(["a=b=2pi"], "wraps") == (("a=b", 2.0 * np.pi),)
    assert read_pairs(None, "wraps") == ()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"missing": {"wnd": -999}}, r"missing: no column is 'wnd' \(did you mean 'wind'\?\)"),
        ({"missing": "wind=low"}, "missing must be finite numbers by column, such as 'wind=-999'.*got 'wind=low'"),
        ({"missing": float("nan")}, "missing must be finite numbers"),
        ({"missing": {"wind": True}}, "missing must be finite numbers"),
        ({"missing": {"wind": range(3)}}, "missing must be finite numbers"),
        ({"missing": {"wind": list(range(101))}}, "'wind' has 101 codes, and 100 are the most"),
        ({"wraps": {"sequence": 360}}, "wraps: no column is 'sequence'"),
        ({"wraps": {"pan": 0}}, r"wraps: the period must be >= 1e-06"),
        ({"wraps": "pan"}, "wraps must be finite numbers by column, such as 'pan=360'"),
        ({"wraps": {"p*": 360, "pan": 180}}, "wraps: 'pan' wraps at 360 and at 180: give it once"),
    ],
)
def test_options_that_cannot_be_are_refused(frame: pd.DataFrame, how: dict[str, Any], message: str):
    with pytest.raises(ArgumentError, match=message):
        read(frame, **how)


def test_angles_beyond_use_are_refused(frame: pd.DataFrame):
    with pytest.raises(SimileError, match=r"wraps: a value must be >= -1e\+15 and <= 1e\+15"):
        read(frame.assign(heading=1e20))


# -------------------------------------------------------------------------------------------------------------- corpus

CODES = {kind: kind.rpartition("_")[2] for kind in KINDS if kind.startswith("context_code_")}
WRAPS = {"pan_wraps_360": "pan=360", "pan_wraps_2pi": "pan=2pi", "pan_wraps_180_in_one": "pan=360"}


def spoil(name: str, plant: Plant, folder: Path, seed: int = 1) -> tuple[Odd, pd.DataFrame]:
    clean = plant.make(4, seed)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    folder.mkdir(exist_ok=True)
    return KINDS[name].spoil(plant, clean, rng, folder), clean


def check_online(policy: Any, demos: simile.Demonstrations, frame: pd.DataFrame, turn: float | None) -> None:
    """See that each recording as it was logged brings the actions of the roll-out over what was read of it."""
    rolled = simile.rollout(policy, demos, start=simile.ColdStart())
    for (_, rows), one in zip(frame.groupby("sequence", sort=False), rolled, strict=True):
        predictor = simile.Predictor(policy)
        found = np.array([predictor.step(dict(row)) for _, row in rows[[*demos.context_names]].iterrows()])
        apart = found - one if turn is None else turned(found - one, turn)
        np.testing.assert_allclose(apart, 0.0, atol=1e-4 * np.ptp(np.concatenate(rolled)))


@pytest.mark.parametrize(
    ("name", "plant"), [(name, PLANTS[i % len(PLANTS)]) for i, name in enumerate(CODES)], ids=list(CODES)
)
def test_a_context_with_codes_is_read_rightly_and_acted_on_alike(name: str, plant: Plant, tmp_path: Path):
    odd, _ = spoil(name, plant, tmp_path)
    demos = simile.read(odd.source, **odd.options, missing={plant.main: CODES[name]}, quiet=True)
    wanted = odd.truth[[*demos.context_names, plant.action]].to_numpy()
    np.testing.assert_allclose(np.hstack([np.concatenate(x) for x in (demos.contexts, demos.actions)]), wanted)
    policy = simile.learn(demos, **QUICK).policy
    check_online(policy, demos, pd.read_csv(odd.source), None)


@pytest.mark.parametrize("name", WRAPS)
def test_an_action_that_wraps_is_read_rightly_and_wraps_again_online(name: str, tmp_path: Path):
    odd, clean = spoil(name, CAMERA, tmp_path)
    demos = simile.read(odd.source, **odd.options, wraps=WRAPS[name], quiet=True)
    turn, unit = demos.preparation.wraps["pan"].period, 360.0 / demos.preparation.wraps["pan"].period
    apart = unit * np.concatenate(demos.actions)[:, 0] - clean["pan"]
    np.testing.assert_allclose(apart, np.median(apart), atol=2e-3)  # by the same turns in all recordings
    policy = simile.learn(demos, **QUICK).policy
    check_online(policy, demos, pd.read_csv(odd.source), turn)


@pytest.mark.parametrize("plant", [CAMERA, CRANE], ids=lambda plant: plant.name)
def test_a_counter_that_runs_over_is_read_rightly(plant: Plant, tmp_path: Path):
    odd, clean = spoil("context_wraps_65536", plant, tmp_path)
    demos = simile.read(odd.source, **odd.options, wraps={plant.main: 65536}, quiet=True)
    j = demos.context_names.index(plant.main)
    counts = np.round(40_000.0 / clean[plant.main].abs().max() * clean[plant.main])
    apart = np.concatenate(demos.contexts)[:, j] - counts
    assert np.ptp(apart) == 0.0
    assert apart[0] % 65536.0 == 0.0


def test_the_command_learns_and_runs_on_the_log_as_it_is(tmp_path: Path):
    odd, _ = spoil("pan_wraps_360", CAMERA, tmp_path / "log")
    frame = pd.read_csv(odd.source)
    frame.loc[::17, CAMERA.main] = -999.0
    frame.to_csv(tmp_path / "log.csv", index=False)
    how = ["--actions", "pan", "--missing", "-999", "--wraps", "pan=360"]
    quick = ["--model", "Ridge()", "--smoothness", "5", "--horizon", "Horizon(10, 0)", "--no-report"]
    simile_("train", "log.csv", *how, *quick, cwd=tmp_path)
    assert 'missing = [\n    "-999",\n]' in (tmp_path / "run" / "config.toml").read_text()
    policy = simile.load(tmp_path / "run" / "policy.safetensors")
    demos = simile.read(tmp_path / "log.csv", actions="pan", missing=-999, wraps={"pan": 360}, quiet=True)
    rolled = simile.rollout(policy, demos, start=simile.ColdStart())
    one = frame[frame["sequence"] == 1].drop(columns=["sequence", "t", "pan"])
    said = simile_("run", "run/policy.safetensors", cwd=tmp_path, stdin=one.to_csv(index=False)).stdout
    found = np.array(said.split()[1:], float)
    np.testing.assert_allclose(turned(found - rolled[0][:, 0], 360.0), 0.0, atol=1e-9)
    assert 0.0 <= found.min() <= found.max() <= 360.0
    told = simile_("evaluate", "run/policy.safetensors", "log.csv", "--json", cwd=tmp_path).stdout
    again = simile_("evaluate", "run/policy.safetensors", "log.csv", "--json", *how[2:], cwd=tmp_path).stdout
    assert json.loads(told)["held_out"] == json.loads(again)["held_out"]


def test_the_sanity_pass_names_the_way_out(tmp_path: Path):
    odd, _ = spoil("context_code_65535", CRANE, tmp_path / "a")
    with pytest.raises(DataError, match=rf"{CRANE.main} is 65535 .* --missing {CRANE.main}=65535;"):
        simile.learn(simile.read(odd.source, **odd.options, quiet=True), **QUICK)
    odd, _ = spoil("pan_wraps_360", CAMERA, tmp_path / "b")
    with pytest.raises(DataError, match=r"pan jumps by 360.*--wraps pan=360 makes it go on;"):
        simile.learn(simile.read(odd.source, **odd.options, quiet=True), **QUICK)


# ---------------------------------------------------------------------------------------------------------- the policy


def test_the_file_keeps_it_and_says_so(policy: Any, demos: simile.Demonstrations, tmp_path: Path):
    assert policy.card.preparation == demos.preparation
    policy.save(tmp_path / "policy.safetensors")
    header = read_header(tmp_path / "policy.safetensors")
    assert header["version"] == 6
    assert header["card"]["preparation"]["missing"] == {"wind": [-999.0]}


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.update(missing={"wind": [1e400]}),
        lambda p: p.update(missing={"wind": "-999"}),
        lambda p: p.update(missing={"wind": [True]}),
        lambda p: p.update(missing={"wind": [0.0] * 101}),
        lambda p: p.update(missing={"storm": [-999.0]}),
        lambda p: p.update(missing=["wind"]),
        lambda p: p.update(other=1),
        lambda p: p.pop("wraps"),
        lambda p: p["wraps"]["pan"].update(period=0.0),
        lambda p: p["wraps"]["pan"].update(period=None),
        lambda p: p["wraps"]["pan"].update(middle=1e300),
        lambda p: p["wraps"]["pan"].update(low="0"),
        lambda p: p["wraps"]["pan"].update(high=1.0),
        lambda p: p["wraps"].update(pan=[360.0, 0.0, 0.0]),
    ],
)
def test_a_file_with_what_is_no_preparation_is_refused(policy: Any, change: Any, tmp_path: Path):
    packed = from_bytes(to_bytes(policy))
    change(packed.header["card"]["preparation"])
    text = sealed(packed) if "Infinity" not in json.dumps(packed.header) else None
    if text is None:
        with pytest.raises(StorageError):
            sealed(packed)
        return
    (tmp_path / "policy.safetensors").write_bytes(text)
    with pytest.raises(StorageError, match=r"preparation must|card: (wraps|missing)"):
        load(tmp_path / "policy.safetensors")


def test_a_policy_is_judged_alike_on_the_log_and_on_what_was_read(policy: Any, demos, frame: pd.DataFrame):
    log = simile.read(frame, actions="pan", as_is=True, quiet=True)
    assert simile.evaluate(policy, log).rows() == simile.evaluate(policy, demos).rows()
    with pytest.raises(ArgumentError, match=r"demos: heading, pan must go on past a period.*demos\.prepare"):
        simile.rollout(policy, log)
    rolled = simile.rollout(policy, log.prepare(policy.card.preparation))
    for one, other in zip(rolled, simile.rollout(policy, demos), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_contexts_alone_are_rolled_out_as_the_training_had_them(policy: Any, demos, raw: list[np.ndarray]):
    rolled = simile.rollout(policy, raw, start=simile.ColdStart())
    for one, other in zip(rolled, simile.rollout(policy, demos, start=simile.ColdStart()), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_to_go_on_from_a_policy_the_same_is_to_be_mended(policy: Any, demos, frame: pd.DataFrame):
    new = make_frame(seed=3)
    assert simile.learn(read(new), initial=policy).policy.card.preparation.missing == {"wind": (-999.0,)}
    for how in ({"missing": None}, {"wraps": {"pan": 360}}):
        with pytest.raises(ArgumentError, match=r"initial was learned with Preparation.*read them with the same"):
            simile.learn(read(new, **how).as_is(), initial=policy)


def test_on_a_cluster_nothing_is_unwrapped(tmp_path: Path):
    backend = object.__new__(DaskBackend)
    with pytest.raises(ArgumentError, match="wraps: on a cluster no worker sees all recordings"):
        backend.read(tmp_path / "log.csv", wraps={"pan": 360})


# -------------------------------------------------------------------------------------------------------------- online


def test_one_predictor_many_and_a_service_act_alike(policy: Any, demos, raw: list[np.ndarray]):
    rolled = simile.rollout(policy, demos, start=simile.ColdStart())
    played = Played(policy)
    for i, X in enumerate(raw):
        predictor = simile.Predictor(policy)
        one = np.array([predictor.step(x) for x in X])
        np.testing.assert_allclose(turned(one - rolled[i], 360.0), 0.0, atol=1e-9)
        np.testing.assert_array_equal(played.play(played.open(f"s{i}"), X), one)
        assert 0.0 <= one.min() <= one.max() <= 360.0
    pool = simile.PredictorPool(policy, len(raw))
    many = np.array([pool.step(np.array(X)) for X in zip(*raw, strict=True)])
    for i, one in enumerate(rolled):
        np.testing.assert_allclose(turned(many[:, i] - one, 360.0), 0.0, atol=1e-9)
    present = np.array([True, False, True, True])
    pool.step(np.where(present[:, np.newaxis], [3.0, 359.0], [1e9, 77.0]), present=present)
    assert abs(turned(pool.override(np.full((4, 1), 1.0)) - 1.0, 360.0)).max() < 1e-9


def test_a_predictor_goes_on_elsewhere_past_the_turn(policy: Any, raw: list[np.ndarray]):
    predictor, other = simile.Predictor(policy), simile.Predictor(policy)
    for x in raw[0][:70]:
        predictor.step(x)
    other.load_state_dict(predictor.state_dict())
    for x in [[np.nan, np.nan], *raw[0][70:]]:
        np.testing.assert_array_equal(other.step(x), predictor.step(x))
    predictor.reset()
    np.testing.assert_array_equal(predictor.step(raw[1][0]), simile.Predictor(policy).step(raw[1][0]))


def test_a_stream_winds_on_past_as_many_turns_as_it_likes(policy: Any):
    once, wound = simile.Predictor(policy), simile.Predictor(policy)
    for i in range(100):
        heading = 12.0 * i
        one, other = once.step([1.0, heading]), wound.step([1.0, heading % 360.0])
        np.testing.assert_allclose(other, one, atol=1e-9)


def test_a_service_that_is_killed_goes_on_past_the_turn(policy: Any, raw: list[np.ndarray]):
    first, second, unbroken = Played(policy), Played(policy), Played(policy)
    begun = unbroken.open()
    first.play(first.open(), raw[0][:70])
    unbroken.play(begun, raw[0][:70])
    second.service.restore(first.service.snapshot())
    resumed = second.open(resume=True)
    np.testing.assert_array_equal(second.play(resumed, raw[0][70:]), unbroken.play(begun, raw[0][70:]))


def test_frames_with_times_are_not_interpolated_across_the_turn(policy: Any):
    predictor = simile.Predictor(policy)
    for t, heading in enumerate([350.0, 358.0, 6.0, 14.0]):
        predictor.step([1.0, heading], t=t / 10.0)
    seen = predictor._streams.history.last_contexts(np.arange(1)) + (
        policy.units.origin if policy.units.origin is not None else 0.0
    )
    assert -15.0 < turned(seen[0, 1], 360.0) < 15.0


def test_operators_and_starts_are_in_the_range_of_the_log(policy: Any, raw: list[np.ndarray]):
    predictor, played = simile.Predictor(policy), Played(policy)
    stream = played.open()
    for x in raw[0][:20]:
        predictor.step(x)
        played.step(stream, listed(x))
    for action in (2.0, 358.0, 4.0):  # across the turn, and back
        np.testing.assert_allclose(predictor.override([action], raw[0][20]), [action])
        assert played.step(stream, listed(raw[0][20]), override=[action]).a == [action]
        after, answer = predictor.step(raw[0][20]), played.step(stream, listed(raw[0][20])).a
        assert abs(turned(after - action, 360.0)[0]) < 20.0
        np.testing.assert_array_equal(answer, after)
    starts = [simile.Predictor(policy, start=[[357.0], start]).step(raw[0][0]) for start in ([1.0], [361.0])]
    np.testing.assert_allclose(starts[0], starts[1], atol=1e-9)


def test_a_band_is_around_what_is_sent(policy: Any, raw: list[np.ndarray]):
    predictor, plain = simile.Predictor(policy), simile.Predictor(policy)
    for x in raw[0]:
        found = predictor.step(x, band=0.9)
        np.testing.assert_array_equal(found.actions, plain.step(x))
        assert (found.low <= found.actions).all()
        assert (found.actions <= found.high).all()
        assert (found.width < 180.0).all()


def test_a_recording_is_as_the_log_is(policy: Any, raw: list[np.ndarray], tmp_path: Path):
    with simile.Recorder(tmp_path) as recorder:
        predictor = simile.Predictor(policy, recorder=recorder)
        sent = [predictor.step(x) for x in raw[0][:100]]
        sent += [predictor.override([a % 360.0], x) for a, x in zip(range(350, 370), raw[0][100:], strict=False)]
    kept = simile.read(tmp_path, quiet=True, as_is=True)
    np.testing.assert_allclose(np.concatenate(kept.actions), sent, atol=1e-9)
    wind, heading = np.concatenate(kept.contexts).T
    np.testing.assert_allclose(heading, raw[0][:120, 1], atol=1e-9)
    np.testing.assert_array_equal(wind, np.where(raw[0][:120, 0] == -999.0, np.nan, raw[0][:120, 0]))
    corrections = read_corrections(tmp_path).prepare(policy.card.preparation)
    assert np.abs(np.diff(corrections.demos[0].actions[:, 0])).max() < 60.0
    assert corrections.demos.digests == read_corrections(tmp_path).demos.digests


def test_another_policy_takes_over_where_angles_are_of_the_same_turn(policy: Any, demos, raw: list[np.ndarray]):
    wraps = policy.card.preparation.wraps
    elsewhere = {**wraps, "pan": replace(wraps["pan"], middle=wraps["pan"].middle + 360.0)}
    cards = [replace(policy.card, preparation=Preparation({}, some)) for some in (wraps, elsewhere, {})]
    alike, apart, bare = (policy.in_units(policy.units, policy.space, card) for card in cards)
    played = Played(policy)
    stream = played.open()
    before = played.play(stream, raw[0][:40])
    played.service.reload(played.service.prepare(alike))
    after = played.play(stream, np.where(raw[0] == -999.0, np.nan, raw[0])[40:80])
    assert abs(turned(after[0] - before[-1], 360.0)[0]) < 20.0
    for other in (apart, bare):
        with pytest.raises(ArgumentError, match=r"must bring heading, pan to the turn that the one at work does"):
            played.service.prepare(other)
        with pytest.raises(ArgumentError, match=r"must bring heading, pan to the turn"):
            simile.PredictorPool(policy, 1).adopt(simile.PredictorPool(other, 1))


class Doubled:
    """A stage behind which actions mean something else."""

    def __call__(self, wanted: Any, last: Any, before: Any, seconds: float) -> Any:
        return 2.0 * wanted

    def undo(self, actions: Any) -> Any:
        return 0.5 * actions


def test_what_converts_actions_has_no_place_behind_one_that_wraps(policy: Any):
    with pytest.raises(ArgumentError, match="stages: what turns actions into others has no place"):
        simile.Predictor(policy, stages=[Doubled()])


def test_what_is_known_ahead_is_mended_alike(frame: pd.DataFrame, raw: list[np.ndarray]):
    demos = read(frame)
    policy = simile.learn(demos, **{**QUICK, "horizon": None}, known={"heading": 0.2, "wind": 0.2}).policy
    rolled = simile.rollout(policy, demos, start=simile.ColdStart())[0]
    predictor = simile.Predictor(policy, plan=raw[0])
    found = np.array([predictor.step(x) for x in raw[0]])
    np.testing.assert_allclose(turned(found - rolled, 360.0), 0.0, atol=1e-9)


def test_a_policy_that_never_saw_a_code_says_so_once(caplog, frame: pd.DataFrame):
    clean = make_frame(codes=0.0)
    policy = simile.learn(read(clean, missing=None), **QUICK).policy
    for act in (
        lambda: [simile.Predictor(policy).step([1.0, 5.0])],
        lambda: [p.step(x) for p in [simile.Predictor(policy)] for x in ([1.0, 5.0], [-999.0, 5.0], [-999.0, 5.0])],
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            act()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert "context 'wind' is -999, far from the" in told[0]
    assert "--missing" in told[0]


# ------------------------------------------------------------------------------------------------------------- exports


def without_wraps(policy: Any) -> Any:
    card = replace(policy.card, preparation=Preparation(policy.card.preparation.missing))
    return policy.in_units(policy.units, policy.space, card)


@compiles
def test_codes_are_missing_in_c_too(policy: Any, raw: list[np.ndarray], tmp_path: Path):
    bare = without_wraps(policy)
    program, predictor = Compiled(bare, tmp_path), simile.Predictor(bare)
    program.begin(raw[0][0])
    for x in [*raw[0], [np.float32(-999.0), 3.0], [-998.0, 3.0]]:
        np.testing.assert_array_equal(program.step(x), predictor.step(x))


def test_what_exports_cannot_do_is_refused(policy: Any, tmp_path: Path):
    for write, name in ((export_c, "pan.h"), (export_onnx, "pan.onnx")):
        with pytest.raises(ArgumentError, match="policy: to let heading, pan wrap takes a memory"):
            write(policy, tmp_path / name)
    with pytest.raises(ArgumentError, match="codes for missing values are not written to ONNX: give NaN for them"):
        export_onnx(without_wraps(policy), tmp_path / "pan.onnx")


# ----------------------------------------------------------------------------------------------------------- properties


@given(
    st.lists(st.integers(2, 40), min_size=1, max_size=4),
    st.sampled_from([360.0, 2.0 * np.pi, 1.0, 65536.0]),
    st.sampled_from([0.0, 0.01, 0.3, 3.0]),
    st.sampled_from([-999.0, 9999.0, 0.0, 1e30]),
    st.floats(0.0, 0.5),
    st.sampled_from([0.0, -0.5, 7.25]),
    st.integers(0, 99),
)
def test_any_log_is_read_and_acted_on_or_refused(lengths, period, pace, code, share, low, seed):
    """Paths wander by `pace` of a period in a frame, from `low` periods on; so large a share of a context is a code."""
    rng = np.random.default_rng(seed)
    paths = [period * np.cumsum(rng.normal(0.0, pace, (n, 2)), axis=0) for n in lengths]
    logged = [(path - low * period) % period + low * period for path in paths]
    table = np.concatenate(logged)
    table[rng.random(len(table)) < share, 0] = code
    rows = {"sequence": np.repeat(np.arange(len(lengths)), lengths), "x": table[:, 0], "a": table[:, 1]}
    try:
        demos = simile.read(rows, rate=10.0, quiet=True, missing={"x": code}, wraps={"x": period, "a": period})
    except SimileError:
        return
    for one, other in zip(demos, np.split(table, np.cumsum(lengths)[:-1]), strict=True):
        near = np.isfinite(one.contexts[:, 0])
        np.testing.assert_allclose(turned(one.contexts[near, 0] - other[near, 0], period), 0.0, atol=1e-6 * period)
        np.testing.assert_allclose(turned(one.actions[:, 0] - other[:, 1], period), 0.0, atol=1e-6 * period)
        assert (np.abs(np.diff(one.actions[:, 0])) <= 0.5001 * period).all()
    assert demos.prepare(demos.preparation).digest() == demos.digest()
    assert Preparation.from_dict(json.loads(json.dumps(asdict(demos.preparation)))) == demos.preparation
    try:
        policy = simile.learn(demos, model=simile.Ridge(), smoothness=1.0, horizon=simile.Horizon(1, 0)).policy
        predictor = simile.Predictor(policy)
        sent = np.array([predictor.step([x]) for x in table[:, 0]])
    except SimileError:
        return
    wrap = demos.preparation.wraps["a"]
    assert np.isfinite(sent).all()
    assert wrap.low is None or ((sent >= wrap.low) & (sent <= wrap.low + period)).all()


@given(st.lists(st.floats(-1e9, 1e9) | st.just(float("nan")), min_size=1, max_size=30), st.floats(1e-3, 1e6))
def test_unwrapping_moves_by_whole_periods_and_leaves_no_jump(values: list[float], period: float):
    given_, wrap = np.array(values), Wrap(period)
    found = wrap.unwrap(given_)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(given_))
    known = ~np.isnan(found)
    slack = 1e-6 * (period + np.abs(given_[known]).max(initial=0.0))
    assert (np.abs(np.diff(found[known])) <= 0.5 * period + slack).all()
    assert (np.abs(turned(found - given_, period)[known]) <= slack).all()
    np.testing.assert_allclose(found[known], np.unwrap(given_[known], period=period), atol=period * 1.001 + slack * 100)
