"""Numbers of a report against slow twins: lags, spectra, moments, packed curves and shares."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import welch

import simile
from conftest import demos_of
from reports import assert_page_can_read, drawn, linear, run_of, unpacked
from simile import metrics
from simile.evaluation.report import Report, content, curves, worst_moments
from simile.evaluation.report.importances import measure_importances
from simile.evaluation.report.spectrum import _power, log_bins, spectrum
from simile.models import PiecewiseLinear
from simile.models.columns import layout
from simile.policies.policies import Mixture


@given(st.integers(0, 10_000), st.integers(-6, 6))
def test_the_peak_of_the_lag_curve_is_the_lag_that_losses_measure(seed, shift):
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.normal(size=(260, 2)), axis=0)
    demos = simile.Demonstrations.from_arrays([np.zeros((200, 1))], [walk[20:220]])
    rolled = walk[20 - shift : 220 - shift]
    found = content._lag_curve(drawn(demos, [rolled], frames=0))
    assert found["best"] == pytest.approx(metrics.lag(rolled, demos.actions[0]), abs=1e-6)
    j, s = seed % 2, 7
    a, e = (x[:, j] - x[:, j].mean() for x in (rolled, demos.actions[0]))
    slow = sum(a[t + s] * e[t] for t in range(200 - s)) / math.sqrt((a[s:] ** 2).sum() * (e[:-s] ** 2).sum())
    assert found["correlation"][j][found["frames"] == s] == pytest.approx(slow, abs=1e-9, nan_ok=True)


def test_a_lag_is_pooled_over_sequences_of_any_length():
    demos = demos_of(400, 30, 5, 300)
    late = [np.concatenate([a[:1], a[:1], a[:1], a])[: len(a)] for a in demos.actions]
    assert content._lag_curve(drawn(demos, late))["best"] == pytest.approx([3.0], abs=0.5)


@pytest.mark.parametrize("rate", [None, 50.0])
def test_the_spectrum_of_a_tone_peaks_at_it_and_smoothing_lowers_the_rest(rate):
    time = np.arange(5_000)
    tone = np.sin(2.0 * np.pi * 0.1 * time)[:, np.newaxis]
    noise = np.random.default_rng(0).normal(0.0, 0.1, tone.shape)
    demos = simile.Demonstrations.from_arrays([tone, tone[:100]], [tone + noise, tone[:100]], rate=rate)
    found = spectrum(drawn(demos, [tone, tone[:100]]))
    assert found.frequency[np.argmax(found.expert[0])] == pytest.approx(0.1 * (rate or 1.0), rel=0.02)
    assert found.policy[0][-1] < 1e-3 * found.expert[0][-1]
    assert len(found.frequency) <= 400
    width = np.gradient(found.frequency)
    assert float((found.expert[0] * width).sum()) == pytest.approx(0.5 + 0.01, rel=0.1)


@given(st.integers(0, 10_000), st.integers(8, 90), st.integers(8, 64), st.integers(0, 9), st.floats(0.1, 60.0))
def test_power_is_that_of_scipys_welch(seed, frames, inside, more, rate):
    part, inside = np.cumsum(np.random.default_rng(seed).normal(size=(frames, 2)), axis=0), min(inside, frames)
    _, twin = welch(part, rate, nperseg=inside, nfft=inside + more, axis=0)
    np.testing.assert_allclose(_power(part, inside, inside + more, rate), twin[1:].T, rtol=1e-9, atol=1e-12)


@given(st.integers(1, 3_000), st.integers(2, 400))
def test_log_bins_cover_all_frequencies_in_order(n, most):
    begins = log_bins(n, most)
    assert begins[0] == 0
    assert (np.diff(begins) > 0).all()
    assert begins[-1] < n
    assert len(begins) <= most
    assert (np.diff(begins, append=n)[:-1] <= np.diff(begins, append=n).max()).all()


@given(st.integers(0, 10_000), st.lists(st.integers(3, 150), min_size=1, max_size=4))
def test_the_worst_moments_are_those_that_a_search_of_all_finds(seed, lengths):
    rng = np.random.default_rng(seed)
    demos = demos_of(*lengths, k=2, seed=seed)
    rolled = [a + rng.normal(size=a.shape) * rng.exponential(size=a.shape) for a in demos.actions]
    shown = drawn(demos, rolled)
    scale, width, taken, slow = shown.reference.scale, 50, [], []
    for _ in range(3):
        best = None
        for i, (a, e) in enumerate(zip(rolled, demos.actions, strict=True)):
            w = min(width, len(e) - 2)
            for t in range(2, len(e) - w + 1):
                value = float((((a - e)[t : t + w] / scale) ** 2).mean())
                clear = all(i != j or t + w <= begin or end <= t for j, begin, end in taken)
                if clear and (best is None or value > best[0] + 1e-12):
                    best = (value, i, t, t + w)
        if best is not None:
            taken.append(best[1:])
            slow.append(best)
    found = worst_moments.worst_moments(shown, most=3)
    assert [(m["sequence"], m["begin"], m["end"]) for m in found] == taken
    for moment in found:
        part = slice(moment["begin"], moment["end"])
        gap = (rolled[moment["sequence"]] - demos.actions[moment["sequence"]])[part]
        rmse = np.sqrt((gap**2).mean(axis=0))
        assert moment["action"] == np.argmax(rmse / scale)
        assert moment["error"] == pytest.approx(rmse[moment["action"]])


@given(st.integers(0, 10_000), st.floats(-300.0, 300.0), st.floats(-250.0, 190.0))
def test_packed_curves_come_back_within_half_a_unit(seed, center, size):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** (size / 2.0)
    values = [center + scale * np.cumsum(rng.normal(size=(40, 1)), axis=0) for _ in range(2)]
    demos = simile.Demonstrations.from_arrays([np.zeros((40, 1))], [values[0]])
    (packed,) = drawn(demos, [values[1]]).packed()
    both = np.hstack(values)
    room = 1e-12 * np.abs(both).max()
    assert (np.abs(unpacked(packed) - both) <= 0.5 * np.array(packed["unit"]) + room).all()
    assert np.array(packed["unit"]) == pytest.approx(
        np.where(np.ptp(both, axis=0) > 0.0, np.ptp(both, axis=0) / curves.LEVELS, 1.0)
    )


@given(st.integers(1, 400), st.integers(2, 9), st.integers(0, 10_000))
def test_thinning_keeps_the_extremes_in_their_order(n, step, seed):
    values = np.random.default_rng(seed).normal(size=(n, 2))
    values[seed % n, 1] = np.nan
    thin = curves.thin(values, step)
    assert len(thin) == 2 * math.ceil(n / (2 * step))
    for j in range(2):
        for i, begin in enumerate(range(0, n, 2 * step)):
            bucket = values[begin : begin + 2 * step, j]
            there = bucket[~np.isnan(bucket)]
            first, second = thin[2 * i, j], thin[2 * i + 1, j]
            if len(there) == 0:
                assert np.isnan([first, second]).all()
                continue
            assert {first, second} == {there.min(), there.max()}
            assert list(bucket).index(first) <= list(bucket).index(second)


def test_long_recordings_are_thinned_and_the_report_says_so(monkeypatch):
    monkeypatch.setattr(curves, "MOST_VALUES", 400)
    demos = demos_of(500, 333)
    report = Report.of(run_of(linear(2)), demos)
    assert_page_can_read(report)
    assert report.content["sequences"][0]["step"] == 5
    assert any("thinned" in note for note in report.content["notes"])
    found = unpacked(report.series[1])
    assert found[:, 0].max() == pytest.approx(demos[1].actions.max(), abs=report.series[1]["unit"][0])


def test_the_numbers_of_each_sequence_are_those_of_evaluate():
    demos = demos_of(120, 80, k=2)
    policy = linear(2, 2)
    found = simile.evaluate(policy, demos)
    rows = found.recordings()
    said = Report.of(run_of(policy), demos).content["sequences"]
    for i, one in enumerate(said):
        own = rows[2 * i : 2 * i + 2]
        assert one["rmse"] == [row["rmse"] for row in own]
        assert one["lag"] == np.mean([row["lag"] for row in own])
        assert one["roughness"] == np.mean([row["roughness"] for row in own])
        for name in ("reversals", "rest"):
            assert one[name] == [[row[name], row[f"expert_{name}"]] for row in own]
        assert one["error"] == found.entries[0].tally[[i]].score.rmse


def test_lines_are_shared_out_by_how_far_they_move_the_prediction():
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(2_000, 3)) * [1.0, 10.0, 5.0]
    contexts[::7, 0] = np.nan
    demos = simile.Demonstrations.from_arrays([contexts], [contexts[:, 1:2]])
    columns, lags = layout(simile.Horizon(1, 0), 3, 1)
    # The two terms of the third context cancel: together they move nothing, whatever their coefficients.
    f = PiecewiseLinear(
        feature=np.array([0, 1, 4, 2, 2]),
        knot=np.array([-np.inf, -np.inf, -np.inf, -np.inf, -1e6]),
        fill=np.zeros(5),
        coefficient=np.array([[3.0], [0.1], [0.2], [7.0], [-7.0]]),
        intercept=np.zeros(1),
        columns=columns,
        lags=lags,
        width=4,
    )
    policy = replace(linear(3), f=f, horizon=simile.Horizon(1, 0))
    found = measure_importances(policy, demos)
    spread = [3.0 * np.nan_to_num(contexts[:, 0]).std(), 1.0, 2.0]
    assert found.contexts == pytest.approx(
        {"x0": spread[0] / sum(spread), "x1": 3.0 / sum(spread), "x2": 0.0}, rel=0.1, abs=1e-9
    )
    assert found.lags == pytest.approx({0: (spread[0] + 1.0) / sum(spread), 1: 2.0 / sum(spread)}, rel=0.1)
    none = measure_importances(replace(policy, f=replace(f, coefficient=np.zeros((5, 1)))), demos)
    assert none is None
    half = Mixture((policy, replace(linear(3), n_contexts=3)), (0.5, 0.5))
    assert measure_importances(half, demos).contexts["x0"] == pytest.approx(0.5 + 0.5 * found.contexts["x0"])


def test_the_past_of_the_policy_itself_is_named_as_its_own(pursuit):
    run = simile.paper(pursuit[0], n_rounds=0, model=simile.SmoothForest(n_trees=2))
    found = measure_importances(run.policy, pursuit[1])
    assert "own pan" in found.contexts
    assert sum(found.contexts.values()) == pytest.approx(1.0)
    assert sum(found.lags.values()) == pytest.approx(1.0)
    assert list(found.lags) == sorted(found.lags)
