"""How late one signal is behind another, on signals whose delay is known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import simile
from commands import simile_
from simile import Demonstrations, estimate_delay
from simile.data import delays
from simile.data.delays import Delay, suggest_lead, summarize_delays, tell_delays
from simile.errors import ArgumentError, DataError
from simile.evaluation.report.content import tell_behind

SHARED = Path(__file__).parents[2] / "shared" / "data"
SEEDS, DELAYS = st.integers(0, 10_000), st.floats(-8.0, 20.0)
BANDS = st.sampled_from(
    [0.2, 0.05, 0.02]
)  # cycles per frame: up to Nyquist almost, and as slow as two seconds at 25 Hz


def wander(rng, frames, delay, band):
    """Random motion of a limited band, and the same a while later."""
    n, frequency = frames + 400, np.fft.rfftfreq(frames + 400)
    spectrum = np.fft.rfft(rng.normal(size=n)) / np.sqrt(1.0 + (frequency / band) ** 6)
    later = spectrum * np.exp(-2j * np.pi * frequency * delay)
    return tuple(np.fft.irfft(s, n)[200 : 200 + frames] for s in (spectrum, later))


def step(rng, frames, delay, every=40):
    """Levels that are held for a while, and the same later."""
    jumps = rng.normal(size=frames + 400) * (rng.random(frames + 400) < 1.0 / every)
    level = np.cumsum(jumps)
    return level[200 : 200 + frames], level[200 - delay : 200 - delay + frames]


def recorded(make, rng, *args, sequences=6, frames=400, noise=0.1):
    """Sequences of a cause and of its effect, both with noise: 0.1 is 20 dB."""
    pairs = [make(rng, frames, *args) for _ in range(sequences)]
    return tuple(
        [x + noise * x.std() * rng.normal(size=frames) for x in signals] for signals in zip(*pairs, strict=True)
    )


# --- known delays


@given(SEEDS, DELAYS, BANDS, st.sampled_from([0.0, 0.1]))
def test_a_delay_of_random_motion_is_found_within_a_frame_at_20_db(seed, delay, band, noise):
    found = estimate_delay(*recorded(wander, np.random.default_rng(seed), delay, band, noise=noise), rate=25.0)
    assert abs(found.frames - delay) < 1.0
    assert found.correlation > 0.7
    assert found.seconds == found.frames / 25.0


@given(SEEDS, DELAYS)
def test_a_fraction_of_a_frame_is_found_where_there_is_no_noise(seed, delay):
    found = estimate_delay(*recorded(wander, np.random.default_rng(seed), delay, 0.05, noise=0.0))
    assert abs(found.frames - delay) < 0.1
    assert found.low < delay < found.high
    assert found.high - found.low < 0.6


@given(SEEDS, st.integers(-8, 20), st.sampled_from([0.0, 0.1]))
def test_a_delay_of_steps_is_found(seed, delay, noise):
    found = estimate_delay(*recorded(step, np.random.default_rng(seed), delay, noise=noise))
    assert abs(found.frames - delay) < 1.0


@given(SEEDS, st.floats(-8.0, 20.0), st.sampled_from([20.0, 37.0, 60.0]))
def test_of_a_repeating_motion_the_nearest_shift_counts(seed, delay, period):
    rng, time = np.random.default_rng(seed), np.arange(400)
    cause, effect = recorded(
        lambda *_: (np.sin(2 * np.pi * time / period), np.sin(2 * np.pi * (time - delay) / period)), rng
    )
    found, nearest = estimate_delay(cause, effect), (delay + period / 2) % period - period / 2
    off = abs(found.frames - nearest)
    assert min(off, abs(off - period)) < 1.0  # half a period is late as much as it is early
    assert abs(found.frames) <= period / 2 + 1.0


@given(SEEDS, st.floats(0.0, 12.0), st.floats(1.0, 8.0))
def test_behind_a_filter_it_is_between_the_delay_and_the_delay_with_the_filters_lag(seed, delay, lag):
    cause, late = recorded(wander, np.random.default_rng(seed), delay, 0.02, noise=0.0)
    effect = [np.empty_like(x) for x in late]
    for y, x in zip(effect, late, strict=True):
        y[0] = x[0]
        for t in range(1, len(x)):
            y[t] = y[t - 1] + (x[t] - y[t - 1]) / (1.0 + lag)
    found = estimate_delay([x[50:] for x in cause], [y[50:] for y in effect])
    assert delay - 0.3 < found.frames < delay + lag + 0.3


@given(SEEDS, st.floats(-8.0, 20.0))
def test_level_scale_drift_and_missing_values_do_not_matter(seed, delay):
    rng = np.random.default_rng(seed)
    cause, effect = recorded(wander, rng, delay, 0.05, noise=0.0)
    gone = [np.where(rng.random(len(x)) < 0.1, np.nan, 1e3 * x + 7.0 + 0.5 * np.arange(len(x))) for x in cause]
    lost = [np.where(rng.random(len(x)) < 0.1, np.nan, -1e-9 * x) for x in effect]
    found = estimate_delay(gone, lost, either_sign=True)
    assert abs(found.frames - delay) < 0.5
    assert found.correlation < -0.5
    assert not estimate_delay(gone, lost).clear or estimate_delay(gone, lost).correlation > 0.0


def test_a_shift_of_both_ways_gives_both_signs_and_many_sequences_are_as_good_as_one_long_one():
    rng = np.random.default_rng(0)
    cause, effect = recorded(wander, rng, 6.0, 0.05, sequences=1, frames=3000)
    there, back = estimate_delay(cause[0], effect[0]), estimate_delay(effect[0], cause[0])
    assert there.frames == pytest.approx(6.0, abs=0.2)
    assert back.frames == pytest.approx(-there.frames, abs=0.1)
    cut = [x.reshape(30, 100) for x in (cause[0], effect[0])]
    assert estimate_delay(*map(list, cut)).frames == pytest.approx(6.0, abs=0.4)
    assert estimate_delay(cause[0], effect[0], longest=3).clear is False
    assert estimate_delay(cause[0].tolist(), pd.Series(effect[0], index=range(7, 3007))) == there


@pytest.mark.parametrize("size", [1e-290, 1e290])
def test_signals_may_be_tiny_or_huge(size):
    cause, effect = recorded(wander, np.random.default_rng(0), 6.0, 0.05)
    found = estimate_delay([size * x for x in cause], [x / size for x in effect])
    assert found.frames == pytest.approx(estimate_delay(cause, effect).frames)


# --- the interval, and what is not clear


@pytest.mark.parametrize("n", [pytest.param(300, marks=pytest.mark.long), 20])
@pytest.mark.parametrize(("sequences", "frames", "band"), [(1, 1500, 0.01), (6, 400, 0.01), (30, 300, 0.005)])
def test_the_interval_holds_the_delay_as_often_as_it_says(n, sequences, frames, band):
    held = clear = 0
    for seed in range(3000, 3000 + n):
        rng = np.random.default_rng(seed)
        delay = rng.uniform(-8.0, 20.0)
        found = estimate_delay(*recorded(wander, rng, delay, band, sequences=sequences, frames=frames, noise=0.1))
        clear += found.clear
        held += found.low <= delay <= found.high
    assert clear >= 0.9 * n
    assert held >= 0.85 * clear, held


@pytest.mark.parametrize("n", [pytest.param(200, marks=pytest.mark.long), 30])
@pytest.mark.parametrize("make", [wander, step])
def test_signals_that_have_nothing_to_do_with_each_other_have_no_delay(n, make):
    clear = 0
    for seed in range(5000, 5000 + n):
        rng = np.random.default_rng(seed)
        args = (0.0, rng.choice([0.2, 0.05, 0.02])) if make is wander else (0,)
        cause, effect = (recorded(make, rng, *args)[0] for _ in range(2))
        clear += estimate_delay(cause, effect, either_sign=True).clear
    assert clear <= max(1, 0.02 * n)


def test_what_does_not_move_or_is_all_missing_or_short_has_no_delay():
    moving, still = np.random.default_rng(0).normal(size=(2, 300)).cumsum(axis=1)[0], np.zeros(300)
    for cause, effect in (
        (moving, still),
        (still, moving),
        (still, still),
        (moving, still * np.nan),
        ([1.0, 2.0], [1.0, 3.0]),
    ):
        found = estimate_delay(cause, effect, either_sign=True)
        assert not found.clear
        assert math.isnan(found.low)
        assert math.isnan(found.high)
    assert str(estimate_delay(moving, still)) == "how late the effect is behind the cause is not clear"
    one = Delay(math.nan, math.nan, math.nan, 0.12, 10.0, "wind", "sail")
    assert str(one) == "how late sail is behind wind is not clear (correlation 0.12)"


def test_an_answer_to_the_derivative_has_no_delay_for_its_sign_is_not_clear():
    cause, _ = recorded(wander, np.random.default_rng(0), 0.0, 0.02, noise=0.0)
    assert not estimate_delay(cause, [np.gradient(x) for x in cause], either_sign=True).clear


@pytest.mark.filterwarnings("error")
@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 4), st.integers(1, 60), st.just(2)),
        elements=st.sampled_from([math.nan, 0.0, 1.0, -1.0, 1e300, 1e-300, 0.1]),
    ),
    st.booleans(),
)
def test_whatever_was_recorded_is_told_or_not_clear(values, either_sign):
    found = estimate_delay(list(values[..., 0]), list(values[..., 1]), either_sign=either_sign)
    assert found.clear == (found.low <= found.frames <= found.high)
    assert math.isnan(found.correlation) or abs(found.correlation) <= 1.0 + 1e-9


def test_sums_over_a_part_are_those_of_two_loops():
    rng = np.random.default_rng(0)
    for n, begin, end, reach in ((50, 0, 50, 10), (50, 10, 20, 30), (30, 5, 9, 60), (7, 0, 7, 20)):
        cause, effect, shifts = rng.normal(size=n), rng.normal(size=n), np.arange(-reach, reach + 1)
        slow = np.zeros((3, len(shifts)))
        for i, shift in enumerate(shifts):
            for t in range(begin, end):
                if 0 <= t + shift < n:
                    slow[:, i] += cause[t] * effect[t + shift], effect[t + shift] ** 2, cause[t] ** 2
        np.testing.assert_allclose(delays._sum_part(cause, effect, begin, end, shifts), slow, atol=1e-12)


# --- what is refused


@pytest.mark.parametrize(
    ("cause", "effect", "how", "said"),
    [
        (np.zeros(9), np.zeros(8), {}, "as many frames in each"),
        ([np.zeros(9)] * 2, [np.zeros(9)], {}, "as many sequences"),
        (np.zeros((9, 2)), np.zeros(9), {}, r"cause must be one column of each sequence; got shape \(9, 2\)"),
        (np.zeros(9), np.full(9, math.inf), {}, "effect must be finite or NaN"),
        ([], [], {}, "cause must have at least one row"),
        (np.zeros(9), np.zeros(9), {"longest": 0}, "longest must be >= 1"),
        (np.zeros(9), np.zeros(9), {"rate": -1.0}, "rate must be > 0"),
    ],
)
def test_what_cannot_be_compared_is_refused(cause, effect, how, said):
    with pytest.raises(simile.SimileError, match=said):
        estimate_delay(cause, effect, **how)


# --- demonstrations


def operated(delay=7.0, back=-5.0, rate=25.0, sequences=8, noise=0.05):
    """An operator who answers to `ball` a while later, and a mean that comes late; `wind` has nothing to do with it."""
    rng = np.random.default_rng(4)
    parts = []
    for _ in range(sequences):
        ball, pan = wander(rng, 300, delay, 0.03)
        state = rng.bit_generator.state
        wind = wander(rng, 300, 0.0, 0.03)[0]
        rng.bit_generator.state = state
        late = np.convolve(np.append(np.full(10, pan[0]), pan), np.full(11, 1 / 11), "valid")  # 5 frames after pan
        x = np.column_stack([wind, -ball, late])
        parts.append((x + noise * x.std(axis=0) * rng.normal(size=x.shape), pan))
    names = {"context_names": ("wind", "ball", "late"), "action_names": ("pan",)}
    return Demonstrations.from_arrays([x for x, _ in parts], [a for _, a in parts], rate=rate, **names)


def test_the_expert_is_behind_its_contexts_the_clearest_first():
    found = summarize_delays(operated())
    assert {d.cause: d.clear for d in found} == {"ball": True, "late": True, "wind": False}
    assert [d.clear for d in found] == [True, True, False]
    by = {d.cause: d for d in found}
    assert by["ball"].frames == pytest.approx(7.0, abs=0.5)
    assert by["ball"].correlation < 0.0
    assert by["late"].frames == pytest.approx(-5.0, abs=0.5)
    told = tell_delays(found)
    assert len(told) == 2
    assert any(line.startswith("pan is 7.") and line.endswith("], which it turns against") for line in told)
    assert any(" ahead of late [" in line and "comes late as a mean does" in line for line in told)
    assert set(told) <= set(str(operated().describe()).splitlines())
    assert tell_delays([by["wind"]]) == ("how late the expert is behind its contexts is not clear",)


def test_of_many_frames_some_are_looked_at(monkeypatch):
    seen = []
    monkeypatch.setattr(delays, "estimate_delay", lambda cause, *_, **__: seen.append(cause) or Delay(*[math.nan] * 4))
    monkeypatch.setattr(delays, "MOST_FRAMES", 1000)
    summarize_delays(operated(sequences=60))
    summarize_delays(operated(sequences=1))
    monkeypatch.setattr(delays, "MOST_PAIRS", 2)
    assert len(summarize_delays(operated(sequences=1))) == 2
    assert {len(cause) for cause in seen} == {20, 1}
    assert all(sum(map(len, cause)) <= 96 * len(cause) for cause in seen if len(cause) > 1)


def test_the_report_says_how_late_the_expert_is():
    told = tell_behind(operated())
    assert told.startswith(("pan is 7", "pan is 6.9", "pan is 5", "pan is 4.9"))
    assert told.endswith(("a policy that is on time with the expert is as late", "a policy has to foresee it"))
    assert tell_behind(operated().head(8)) == ""


# --- leads


def test_the_lead_is_how_late_the_named_effect_is():
    demos = operated()
    found = suggest_lead(demos, "late")
    assert (found.frames, found.seconds) == (5, 0.2)
    assert str(found).startswith("a lead of 5 frames (0.2 s): late is ")
    assert suggest_lead(demos, ["late"]) == found
    arrays = suggest_lead(demos, [x[:, 2] for x in demos.contexts])
    assert arrays.frames == 5
    assert "the effect of pan is" in str(arrays)


def test_of_several_effects_the_middle_is_taken_and_told_where_one_does_not_fit_all():
    one = operated()
    two = Demonstrations.from_arrays(
        one.contexts, [np.hstack([a, a]) for a in one.actions], context_names=one.context_names, action_names=("a", "b")
    )
    late = [np.column_stack([x[:, 2], np.append(np.full(12, x[0, 2]), x[:-12, 2])]) for x in one.contexts]
    found = suggest_lead(two, late)
    assert found.frames == 11
    assert math.isnan(found.seconds)
    assert "one lead does not fit both" in str(found)
    assert suggest_lead(two, "late").frames == 5  # of the first action


@pytest.mark.parametrize(
    ("effect", "error", "said"),
    [
        (
            "wind",
            DataError,
            "how late wind is behind pan is not clear .*: give lead= in seconds or frames, or name another",
        ),
        ("sail", ArgumentError, "effect: 'sail' is no context; there are wind, ball, late"),
        (["late", "ball"], ArgumentError, "effect must be one for each of the first actions, at most 1"),
        ([], ArgumentError, "effect must be one for each"),
    ],
)
def test_no_lead_comes_out_of_noise(effect, error, said):
    with pytest.raises(error, match=said):
        suggest_lead(operated(), effect)


def test_an_effect_does_not_come_before_its_command():
    demos = operated()
    with pytest.raises(DataError, match=r"ahead of pan .*an effect cannot come before its command"):
        suggest_lead(demos, [-x[:, 1] for x in demos.contexts])


# --- the command


def test_the_command_describes_data_and_tells_the_delay_of_columns_that_are_neither(tmp_path: Path):
    simile.write(operated(), tmp_path / "log.csv")
    how = ("log.csv", "--actions", "pan", "--contexts", "ball", "--rate", "25")
    said = simile_("describe", *how, "--effect", "pan=late", cwd=tmp_path, process=True).stdout
    assert "context    ball" in said
    assert "context    late" not in said
    assert "pan is 7." in said
    assert said.splitlines()[-1].startswith("late is 5.")
    found = json.loads(simile_("describe", *how, "--effect", "pan=late", "--json", cwd=tmp_path).stdout)
    assert list(found) == ["columns", "delays", "effects", "notes"]
    assert [d["cause"] for d in found["delays"]] == ["ball"]
    (effect,) = found["effects"]
    assert effect["clear"] is True
    assert effect["seconds"] == pytest.approx(0.2, abs=0.02)
    assert effect["low"] < effect["frames"] < effect["high"]


@pytest.mark.parametrize(
    ("pair", "said"), [("pan", "must be COMMAND=EFFECT"), ("pan=sail", "sail"), ("pan=[lw]*", "one column each")]
)
def test_the_command_refuses_what_names_no_two_columns(tmp_path: Path, pair: str, said: str):
    simile.write(operated(sequences=1), tmp_path / "log.csv")
    done = simile_("describe", "log.csv", "--actions", "pan", "--effect", pair, cwd=tmp_path, code=2)
    assert said in done.stderr


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not here")
def test_a_real_robot_follows_its_commands():
    demos = simile.read(SHARED / "teleoperation", quiet=True)
    arm, hand = (demos.action_names.index(f"action.kRight{part}") for part in ("Elbow", "HandRing"))
    for j, low, high in ((arm, 0.1, 0.16), (hand, 0.3, 0.45)):
        found = estimate_delay([a[:, j] for a in demos.actions], [x[:, j] for x in demos.contexts], rate=demos.rate)
        assert low < found.seconds < high
