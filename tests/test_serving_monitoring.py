"""Watching for trouble: each kind is seen, told once, and over when it is over; ordinary streams are left alone."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import simile
from conftest import demos_of
from simile.cli.inspect import inspect
from simile.learning.rounds import card_of
from simile.online import Bounds
from simile.policies.cards import Card
from simile.serving.monitoring import KINDS, UNKNOWN_RATE, UNSURE, Event, Monitor, Thresholds

SHARED = Path(__file__).parents[2] / "shared" / "data"
RATE = 30.0
SECOND = int(RATE)
WAY = 4.0  # the policy's actions lie between -WAY and WAY


@pytest.fixture(scope="module")
def policy():
    """A policy of two contexts, with ranges, and of one action, with bounds."""
    return policy_of()


def policy_of(**changes):
    demos = demos_of(200, 200, rate=RATE)
    demos = demos.with_actions([np.clip(a, 1.0 - WAY, WAY - 1.0) for a in demos.actions])
    space = simile.ActionSpace(-WAY, WAY)
    found = simile.clone(demos, model=simile.SmoothForest(n_trees=2), horizon=simile.Horizon(2, 0), space=space).policy
    return replace(found, **changes)


def low_and_high(policy) -> tuple[np.ndarray, np.ndarray]:
    ranges = policy.card.training["ranges"]
    return np.array(ranges["low"]), np.array(ranges["high"])


def contexts(policy, frames: int, seed: int = 0) -> np.ndarray:
    """Return contexts (frames, m) that wander inside the training's range, and never stand still."""
    low, high = low_and_high(policy)
    phase = 0.01 * np.arange(frames)[:, np.newaxis] + np.random.default_rng(seed).uniform(0.0, 6.0, 2)
    return (low + high) / 2.0 + 0.45 * (high - low) * np.sin(phase)


def actions(frames: int) -> np.ndarray:
    """Return actions (frames, 1) of a slow hand, inside the bounds."""
    return np.sin(0.02 * np.arange(frames))[:, np.newaxis]


def told(monitor: Monitor, X: np.ndarray, A: np.ndarray, slot: int = 0, every: int = 7) -> list[tuple[int, Event]]:
    """Show a stream to a monitor; returns what it told, and at which frame."""
    found = []
    for t, (x, a) in enumerate(zip(X, A, strict=True)):
        monitor.observe(np.array([slot]), x[np.newaxis], a[np.newaxis])
        if t % every == every - 1 or t == len(X) - 1:
            found += [(t, event) for event in monitor.events()]
    return found


def troubled(kind: str, policy, frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a stream with one kind of trouble from beginning to end."""
    X, A = contexts(policy, frames, seed=1), actions(frames)
    if kind == "drift":
        X[:, 1] = low_and_high(policy)[1][1] + 1.0 + 0.1 * np.sin(np.arange(frames))
    elif kind == "stuck":
        X[:] = X[0]
    elif kind == "saturated":
        A = np.full_like(A, WAY)
    else:
        A = A + 0.5 * np.sin(2.0 * np.pi * 4.0 * np.arange(frames) / RATE)[:, np.newaxis]  # four times a second
    return X, A


# Each kind


def test_an_ordinary_stream_is_left_alone(policy):
    monitor = Monitor(policy, RATE, 1)
    assert told(monitor, contexts(policy, 100 * SECOND), actions(100 * SECOND)) == []
    assert monitor.troubles(np.array([0])) == dict.fromkeys((*KINDS, UNSURE), 0)
    assert monitor.drift(np.array([0])) == {"x0": 0.0, "x1": 0.0}


@pytest.mark.parametrize(
    ("kind", "what", "begins"),
    [
        ("drift", {"feature": "x1"}, 10.0 * math.log(2.0)),
        ("stuck", {}, 2.0),
        ("saturated", {"action": "y0"}, 5.0 * math.log(2.0)),
        ("oscillating", {"action": "y0"}, 5.0 * math.log(8.0 / 5.0)),
    ],
)
def test_each_trouble_is_told_once_when_it_begins_and_once_when_it_is_over(policy, kind, what, begins):
    monitor = Monitor(policy, RATE, 3)
    usual, bad = 10 * SECOND, troubled(kind, policy, 40 * SECOND)
    X = np.concatenate([contexts(policy, usual), bad[0], contexts(policy, 60 * SECOND)])
    A = np.concatenate([actions(usual), bad[1], actions(60 * SECOND)])
    found = told(monitor, X, A, slot=1)
    assert [(event.slot, event.kind, event.on) for _, event in found] == [(1, kind, True), (1, kind, False)]
    (start, on), (stop, off) = found
    assert start - usual == pytest.approx(begins * RATE, abs=0.5 * RATE)
    assert usual + len(bad[0]) < stop < usual + len(bad[0]) + 15 * SECOND
    names = {"action": policy.card.action_names[0]} if "action" in what else what
    for event in (on, off):
        assert {name: event.detail[name] for name in names} == names
        assert len(event.detail) == len(names) + 1  # and how bad it is
    assert monitor.begun == {**dict.fromkeys((*KINDS, UNSURE), 0), kind: 1}


@pytest.mark.parametrize("kind", KINDS)
def test_while_a_trouble_lasts_its_streams_are_counted(policy, kind):
    monitor = Monitor(policy, RATE, 4)
    told(monitor, *troubled(kind, policy, 20 * SECOND), slot=2)
    assert monitor.troubles(np.arange(4)) == {**dict.fromkeys((*KINDS, UNSURE), 0), kind: 1}
    assert monitor.troubles(np.array([0, 1, 3])) == dict.fromkeys((*KINDS, UNSURE), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_threshold_of_zero_turns_a_kind_off(policy, kind):
    monitor = Monitor(policy, RATE, 1, thresholds=Thresholds(**{kind: 0.0}))
    assert told(monitor, *troubled(kind, policy, 30 * SECOND)) == []


def test_what_hovers_about_a_threshold_is_told_once(policy):
    monitor = Monitor(policy, RATE, 1)
    frames = 200 * SECOND
    X = contexts(policy, frames)
    X[::2, 0] = low_and_high(policy)[0][0] - 1.0  # half of them, on the average
    X[(np.arange(frames) // (3 * SECOND)) % 2 == 1, 0] -= 100.0  # and now and then all
    found = told(monitor, X, actions(frames))
    assert [event.on for _, event in found] == [True]


def test_a_value_that_stays_missing_is_stuck_and_a_context_that_never_came_is_not(policy):
    X = np.tile([[1.0, np.nan]], (4 * SECOND, 1))
    (_, event), *_ = told(Monitor(policy, RATE, 1), X, actions(len(X)))
    assert event.kind == "stuck"
    assert told(Monitor(policy, RATE, 1), np.full_like(X, np.nan), actions(len(X))) == []


def test_dropped_frames_do_not_hide_that_a_sensor_is_stuck(policy):
    X = np.tile(contexts(policy, 1), (4 * SECOND, 1))
    X[1::2] = np.nan
    found = told(Monitor(policy, RATE, 1, thresholds=Thresholds(stuck=1.0)), X, actions(len(X)))
    assert [event.kind for _, event in found] == ["stuck"]


def test_a_stage_that_bounds_actions_saturates_too_and_no_bounds_never_do(policy):
    X, A = contexts(policy, 20 * SECOND), np.full((20 * SECOND, 1), 0.5)
    assert told(Monitor(policy, RATE, 1), X, A) == []
    bounded = Monitor(policy, RATE, 1, stages=[simile.RateLimit(9.0), Bounds(high=0.5)])
    assert [event.kind for _, event in told(bounded, X, A)] == ["saturated"]
    turned = [Bounds(high=0.5), simile.Retarget("0,-20,8", "0,20,8,180")]  # behind it, other angles are sent
    assert told(Monitor(policy, RATE, 1, stages=turned), X, A) == []
    free = policy_of(space=simile.ActionSpace())
    assert told(Monitor(free, RATE, 1), X, 1e6 * A) == []


def test_what_counts_as_at_the_bound_is_a_share_of_the_way_between_the_bounds(policy):
    X = contexts(policy, 20 * SECOND)
    near, not_quite = WAY - 0.0009 * 2.0 * WAY, WAY - 0.0011 * 2.0 * WAY
    assert told(Monitor(policy, RATE, 1), X, np.full((len(X), 1), near))
    assert told(Monitor(policy, RATE, 1), X, np.full((len(X), 1), not_quite)) == []


def test_trembling_below_a_hundredth_of_the_deviation_and_slow_turns_are_no_oscillation(policy):
    frames = 30 * SECOND
    X, t = contexts(policy, frames), np.arange(frames)[:, np.newaxis] / RATE
    size = 0.0049 * policy.units.scale[0]  # a way back is twice that
    for A in (size * np.sin(40.0 * t) + 0.001 * t, np.sin(2.0 * np.pi * 1.4 * t)):
        assert told(Monitor(policy, RATE, 1), X, A) == []
    assert told(Monitor(policy, RATE, 1), X, 3.0 * size * np.sin(40.0 * t))


def test_each_action_oscillates_for_itself():
    demos = demos_of(200, 200, k=3, rate=RATE)
    found = simile.clone(demos, model=simile.SmoothForest(n_trees=2), horizon=simile.Horizon(2, 0)).policy
    A = np.repeat(actions(20 * SECOND), 3, axis=1)
    A[:, 2] += 10.0 * np.sin(40.0 * np.arange(len(A)) / RATE)
    ((_, event),) = told(Monitor(found, RATE, 1), contexts(found, len(A)), A)
    assert (event.kind, event.detail["action"]) == ("oscillating", found.card.action_names[2])


# Slots, policies, and what is not known


def test_a_slot_that_is_used_again_starts_fresh(policy):
    monitor = Monitor(policy, RATE, 2)
    X, A = troubled("stuck", policy, 50)
    told(monitor, X, A)
    told(monitor, *troubled("drift", policy, 20 * SECOND))
    monitor.observe(np.array([0]), X[:1], A[:1])
    monitor.reset(np.array([0]))
    assert monitor.events() == []
    assert monitor.troubles(np.arange(2)) == dict.fromkeys((*KINDS, UNSURE), 0)
    assert monitor.drift(np.arange(2)) == {}
    new, again = Monitor(policy, RATE, 2), troubled("saturated", policy, 20 * SECOND)
    assert told(monitor, *again) == told(new, *again)


def test_what_was_to_be_told_of_a_stream_that_has_gone_is_not_told_of_its_successor(policy):
    monitor = Monitor(policy, RATE, 2)
    X, A = troubled("stuck", policy, 3 * SECOND)
    for x, a in zip(X, A, strict=True):
        monitor.observe(np.arange(2), np.array([x, x]), np.array([a, a]))
    monitor.reset(np.array([0]))
    assert [event.slot for event in monitor.events()] == [1]


@pytest.mark.parametrize(
    "ranges",
    [
        None,
        [],
        {"low": [0.0, 0.0]},
        {"low": [0.0], "high": [1.0]},
        {"low": [0.0, 1.0], "high": [1.0]},
        {"low": [None, None], "high": [None, None]},
        {"low": ["a", "b"], "high": ["c", "d"]},
        {"low": [[0.0, 0.0]], "high": [[1.0, 1.0]]},
        {"low": [1.0, 1.0], "high": [0.0, 0.0]},
        {"low": [10**400, 0], "high": [10**400, 1]},
        {"low": 3, "high": 4},
    ],
)
def test_a_policy_that_tells_no_ranges_or_senseless_ones_has_unknown_drift(policy, ranges):
    other = replace(policy, card=replace(policy.card, training={} if ranges is None else {"ranges": ranges}))
    monitor = Monitor(other, RATE, 1)
    assert not monitor.baseline.drift_known
    assert told(monitor, *troubled("drift", policy, 20 * SECOND)) == []
    assert monitor.drift(np.array([0])) == {}


def test_a_feature_without_a_range_never_drifts_and_the_others_do(policy):
    low, high = (side.tolist() for side in low_and_high(policy))
    X, A = troubled("drift", policy, 20 * SECOND)
    for column, drifts in ((0, True), (1, False)):
        ranges = {"low": [*low], "high": [*high]}
        ranges["low"][column] = ranges["high"][column] = None
        other = replace(policy, card=replace(policy.card, training={"ranges": ranges}))
        assert bool(told(Monitor(other, RATE, 1), X, A)) is drifts


def test_columns_without_names_of_their_own_are_numbered(policy):
    for names in ((), ("same", "same")):
        other = replace(policy, card=replace(policy.card, context_names=names))
        assert Monitor(other, RATE, 1).baseline.features == ("x0", "x1")


def test_without_a_rate_nothing_oscillates_and_the_rest_counts_thirty_frames_as_a_second(policy):
    for kind in KINDS:
        found = told(Monitor(policy, None, 1), *troubled(kind, policy, 20 * SECOND))
        assert [event.kind for _, event in found] == ([] if kind == "oscillating" else [kind])


def test_after_a_reload_the_new_policys_ranges_and_bounds_count(policy):
    monitor = Monitor(policy, RATE, 1)
    X, A = troubled("drift", policy, 20 * SECOND)
    told(monitor, X, A)
    low, high = low_and_high(policy)
    wide = {"ranges": {"low": (low - 100.0).tolist(), "high": (high + 100.0).tolist()}}
    monitor.adopt(replace(policy, card=replace(policy.card, training=wide)))
    assert [(e.kind, e.on) for _, e in told(monitor, X, A)] == [("drift", False)]
    monitor.adopt(policy, [Bounds(high=0.5)])
    found = told(monitor, contexts(policy, len(A)), np.full_like(A, 0.5))
    assert [(e.kind, e.on) for _, e in found] == [("saturated", True)]


def test_a_policy_that_does_not_know_its_contexts_cannot_be_watched(policy):
    with pytest.raises(simile.SimileError, match="how many contexts"):
        Monitor(replace(policy, n_contexts=None, card=Card()), RATE, 1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"drift": 1.5}, "drift must be >= 0 and <= 1; got 1.5"),
        ({"stuck": -1.0}, "stuck must be >= 0; got -1.0"),
        ({"drift_seconds": 0.0}, "drift_seconds must be >= 0 and > 0; got 0.0"),
        ({"release": 0.0}, "release must be"),
        ({"swing": math.nan}, "swing must be"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(simile.SimileError, match=message):
        Thresholds(**wrong)


def test_the_docs_tell_the_thresholds():
    usual, text = Thresholds(), (Path(__file__).parents[1] / "docs" / "serving.md").read_text("utf-8")
    assert usual.drift == usual.saturated == usual.release == 0.5  # "half"
    for said in (
        f"half of the recent contexts ({usual.drift_seconds:g} s)",
        f"for {usual.stuck:g} s",
        f"half of the recent actions ({usual.action_seconds:g} s)",
        f"within {100 * usual.margin:g} % of the way",
        f"{usual.oscillating:g} times a second, lately ({usual.action_seconds:g} s)",
        f"below {100 * usual.swing:g} % of the expert's deviation",
        f"{UNKNOWN_RATE:g} frames count as one",
    ):
        assert said in text


# Many streams at once


class NaiveMonitor:
    """The slow twin: one stream, one frame at a time, by the rules as the docs tell them."""

    def __init__(self, policy, thresholds: Thresholds) -> None:
        self.low, self.high = low_and_high(policy)
        self.limits, self.swing = thresholds, thresholds.swing * policy.units.scale[0]
        self.outside, self.bound, self.turns, self.same = [0.0, 0.0], 0.0, 0.0, 0
        self.x, self.peak, self.way = None, None, 0
        self.on = dict.fromkeys(KINDS, False)

    def see(self, x, a) -> list[tuple[str, bool]]:
        if not all(math.isnan(v) for v in x):
            keep = math.exp(-1.0 / (self.limits.drift_seconds * RATE))
            for i, v in enumerate(x):
                self.outside[i] = keep * self.outside[i] + (1.0 - keep) * (v < self.low[i] or v > self.high[i])
            alike = self.x is not None and all(
                p == q or (math.isnan(p) and math.isnan(q)) for p, q in zip(x, self.x, strict=True)
            )
            self.same, self.x = self.same + 1 if alike else 0, x
        keep = math.exp(-1.0 / (self.limits.action_seconds * RATE))
        margin = self.limits.margin * 2.0 * WAY
        self.bound = keep * self.bound + (1.0 - keep) * (a <= margin - WAY or a >= WAY - margin)
        self.turns = keep * self.turns + (1.0 - keep) * self.turned(a)
        levels = (max(self.outside), self.same / RATE, self.bound, self.turns * RATE)
        changes = []
        for kind, level in zip(KINDS, levels, strict=True):
            limit = getattr(self.limits, kind) * (self.limits.release if self.on[kind] else 1.0)
            if bool(level >= limit) is not self.on[kind]:
                self.on[kind] = not self.on[kind]
                changes.append((kind, self.on[kind]))
        return changes

    def turned(self, a) -> bool:
        if self.peak is None:
            self.peak = a
        away = a - self.peak
        if self.way * away > 0.0:
            self.peak = a
        elif abs(away) > self.swing:
            back, self.peak, self.way = self.way != 0, a, math.copysign(1.0, away)
            return back
        return False


@pytest.mark.parametrize("seed", range(4))
def test_streams_in_any_order_are_judged_as_a_slow_twin_judges_each_of_them(policy, seed):
    rng, n = np.random.default_rng(seed), 6
    thresholds = Thresholds(drift_seconds=1.0, action_seconds=1.0, stuck=0.5)
    monitor = Monitor(policy, RATE, n, thresholds=thresholds)
    twins = [NaiveMonitor(policy, thresholds) for _ in range(n)]
    low, high = low_and_high(policy)
    x, a, wild = np.tile((low + high) / 2.0, (n, 1)), np.zeros(n), np.zeros(n)
    found, expected = [], []
    for _ in range(3000):
        slots = rng.permutation(n)[: rng.integers(1, n + 1)]
        wild = np.where(rng.random(n) < 0.01, rng.integers(0, 5, n), wild)
        for i in slots:
            if wild[i] != 1:
                x[i] = rng.uniform(low, high) + (high - low) * (wild[i] == 2) * rng.uniform(0.0, 1.5, 2)
            a[i] = (WAY if wild[i] == 3 else a[i] * 0.9) + rng.normal(0.0, 1.0 if wild[i] == 4 else 0.001)
        X, A = x[slots].copy(), np.clip(a[slots], -WAY, WAY)
        X[rng.random(len(slots)) < 0.05] = np.nan
        X[rng.random(X.shape) < 0.02] = np.nan
        monitor.observe(slots, X, A[:, np.newaxis])
        found += [(event.slot, event.kind, event.on) for event in monitor.events()]
        for i in range(len(slots)):
            expected += [(int(slots[i]), *change) for change in twins[slots[i]].see(X[i].tolist(), float(A[i]))]
    assert found == expected
    assert {kind for _, kind, _ in found} == set(KINDS)


# Ordinary streams


def watched(policy, demos: simile.Demonstrations) -> tuple[Monitor, dict[str, float]]:
    """Roll out, all sequences beside each other, and watch; returns the largest drift by feature, too."""
    rolled, most = simile.rollout(policy, demos), dict.fromkeys(demos.context_names, 0.0)
    monitor = Monitor(policy, demos.rate, len(demos))
    for t in range(max(map(len, demos))):
        slots = np.array([i for i, demo in enumerate(demos) if t < len(demo)])
        X = np.array([demos[i].contexts[t] for i in slots])
        monitor.observe(slots, X, np.array([rolled[i][t] for i in slots]))
        if t % 10 == 0:
            monitor.events()
            most = {name: max(most[name], now) for name, now in monitor.drift(np.arange(len(demos))).items()}
    monitor.events()
    return monitor, most


@pytest.mark.long
def test_filming_ordinary_games_is_no_trouble(capsys):
    from simile.camera.features import demonstrations
    from simile.camera.simulation import simulate

    games = demonstrations(simulate(6, minutes=1.0, seed=5))
    policy = simile.learn(games[:-1]).policy
    with capsys.disabled():
        for name, part in (("own games", games[:-1]), ("another game", games[-1:])):
            monitor, most = watched(policy, part)
            print(f"\n  {name}: largest drift share {max(most.values()):.3f}", end="")
            assert monitor.begun == dict.fromkeys((*KINDS, UNSURE), 0)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data are not here")
@pytest.mark.parametrize(
    ("name", "actions", "sequences"),
    [
        ("car_following", "a_speed", 3),
        pytest.param("car_following", "a_speed", 8, marks=pytest.mark.long),
        pytest.param("reservoir", "a_release", 29, marks=pytest.mark.long),
        pytest.param("head360", ["a_yaw", "a_pitch"], 40, marks=pytest.mark.long),
    ],
)
def test_a_policy_on_the_real_data_that_it_has_learned_from_is_no_trouble(name, actions, sequences, capsys):
    path = SHARED / name / f"{name}.csv"
    demos = simile.read(path, sequence="sequence", time="t", actions=actions, contexts=["x_*"], quiet=True)[:sequences]
    monitor, most = watched(simile.learn(demos).policy, demos)
    with capsys.disabled():
        print(f"\n  {name}: largest drift share {max(most.values()):.3f}", end="")
    assert monitor.begun == dict.fromkeys((*KINDS, UNSURE), 0)
    assert set(most.values()) == {0.0}


# The ranges on a policy's card


def ranges_of(*columns: list[float]) -> dict[str, list[float | None]]:
    demos = simile.Demonstrations.from_arrays([np.array(columns).T], [np.arange(len(columns[0]), dtype=float)])
    return card_of(demos, {}).training["ranges"]


def test_ranges_have_six_digits_and_hold_every_value_of_the_training():
    values = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100)
    found = ranges_of(*([v, v] for v in values))
    assert all(low <= v <= high for low, v, high in zip(found["low"], values, found["high"], strict=True))
    assert all(float(f"{v:.5e}") == v for v in found["low"] + found["high"])
    assert found["low"] == pytest.approx(values, rel=1e-5)


def test_ranges_ignore_what_is_missing():
    found = ranges_of([1.0, math.nan, 0.1], [math.nan] * 3, [-0.0, 0.0, 0.0], [-2.0, 3.0, 1.0])
    assert found == {"low": [0.1, None, 0.0, -2.0], "high": [1.0, None, 0.0, 3.0]}


def test_ranges_of_the_largest_numbers_are_finite():
    most = 9.9e99  # larger ones are refused
    assert ranges_of([most, -most]) == {"low": [-most], "high": [most]}


def test_ranges_cover_all_sequences_and_survive_in_the_file(policy, tmp_path: Path):
    demos = demos_of(200, 200, rate=RATE)
    low, high = low_and_high(policy)
    every = np.concatenate(demos.contexts)
    assert ((every >= low) & (every <= high)).all()
    assert low == pytest.approx(every.min(axis=0), rel=1e-5)
    policy.save(tmp_path / "policy.safetensors")
    again = simile.load(tmp_path / "policy.safetensors")
    assert again.card == policy.card
    assert Monitor(again, RATE, 1).baseline.ranges[0].tolist() == low.tolist()


def test_inspect_shows_a_few_of_many_ranges_and_json_shows_all(tmp_path: Path):
    path = tmp_path / "policy.safetensors"
    demos = demos_of(60, m=40)
    simile.clone(demos, model=simile.SmoothForest(n_trees=2), horizon=simile.Horizon(0, 0)).policy.save(path)
    shown = CliRunner().invoke(inspect, [str(path)], catch_exceptions=False).output
    line = next(line for line in shown.splitlines() if line.strip().startswith("low "))
    assert line.endswith("... (40 in all)")
    assert len(line) < 200
    assert "x39" in shown  # names are shown in full
    whole = json.loads(CliRunner().invoke(inspect, [str(path), "--json"], catch_exceptions=False).output)
    assert len(whole["card"]["training"]["ranges"]["low"]) == 40
