"""Reports: every number against a slow twin, every key against the page's own types, and one harmless file."""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

import simile
from conftest import demos_of
from simile import losses, pages, tasks
from simile._text import plain
from simile.comparison import judge, judged_path, simple_filters
from simile.comparison.result import HELD
from simile.comparison.scores import Ruler
from simile.demonstrations import Demonstrations, Units
from simile.models import PiecewiseLinear
from simile.models.forest import layout
from simile.policies import Mixture, SmoothPolicy
from simile.regularizers import Autoregressor
from simile.report import Report, answers, curves, moments
from simile.report.attention import attention
from simile.report.contenders import Path as Steps
from simile.report.contenders import Step
from simile.report.late import lag_curve
from simile.report.spectrum import log_bins, spectrum
from simile.report.trust import MEANINGS, diagnosis
from simile.rivals import ROSTER
from simile.runs import ALTERNATIVE, COMPARISON, POLICY, ROUNDS, SUMMARY, RunFolder

PAYLOAD = Path(__file__).parent.parent / "frontend" / "src" / "payload.ts"
HOSTILE = "</script><img src=x onerror=alert(1)> & 'ünï' \u2028 {{report}}"


def drawn(demos: Demonstrations, rolled: list, frames: int = 2) -> curves.Curves:
    return curves.Curves.of(Ruler(demos, frames), {"policy": rolled})


def unpacked(packed: dict) -> np.ndarray:
    """Read a series as unpack.ts does."""
    changes = np.frombuffer(zlib.decompress(base64.b64decode(packed["values"])), "<i2")
    whole = np.cumsum(changes.reshape(packed["columns"], -1), axis=1, dtype=np.int16).T
    values = whole * np.array(packed["unit"]) + packed["offset"]
    return np.where(whole == pages.MISSING, np.nan, values)


def linear(m: int, k: int = 1, *, slope: float = 0.2, growth: float = 0.5, smoothness: float = 0.0) -> SmoothPolicy:
    """A policy that follows the first context; with growth above one it runs away."""
    columns, lags = layout(simile.Horizon(0, 0), m, k)
    f = PiecewiseLinear(
        np.array([0]), np.array([-np.inf]), np.zeros(1), np.full((1, k), slope), np.zeros(k), columns, lags, m + k
    )
    h = Autoregressor(np.full((1, k), growth))
    return SmoothPolicy(f, h, smoothness, simile.Horizon(0, 0), None, m, Units.identity(k))


def run_of(policy: SmoothPolicy, **changed) -> simile.Run:
    turn = simile.Round(0, policy, policy, policy.h, [], [], 1.0, math.nan, 0.04, 1.0, 0.5, False, 0.04, 1.0)
    return replace(simile.Run((turn,)), **changed)


@pytest.fixture(scope="module")
def learned(pursuit):
    train, test = pursuit
    return simile.learn(train, model=[simile.SmoothForest(n_trees=4), simile.RolloutRidge()]), test


# --- The contract with the page --------------------------------------------------------------------------------------


def fits(value: object, kind: str, types: dict[str, dict[str, str]]) -> bool:
    """Tell whether plain data have a type of TypeScript, as far as payload.ts uses them."""
    kind = kind.strip()
    if len(options := split(kind, "|")) > 1:
        return any(fits(value, option, types) for option in options)
    if kind.endswith("[]"):
        return isinstance(value, list) and all(fits(item, kind[:-2], types) for item in value)
    if kind.startswith("("):
        return fits(value, kind[1:-1], types)
    if kind.startswith("{"):
        fields = dict(map(str.strip, one.split(":", 1)) for one in split(kind[1:-1], ";") if one.strip())
        return (
            isinstance(value, dict)
            and set(value) == set(fields)
            and all(fits(value[n], fields[n], types) for n in fields)
        )
    if kind in types:
        return fits(value, "{" + ";".join(f"{n}: {t}" for n, t in types[kind].items()) + "}", types)
    if kind.startswith('"'):
        return value == kind[1:-1]
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return {"string": isinstance(value, str), "boolean": isinstance(value, bool), "null": value is None}.get(
        kind, number
    )


def split(text: str, mark: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "({[") - (letter in ")}]")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def assert_page_can_read(report: Report) -> None:
    text = re.sub(r"//.*", "", PAYLOAD.read_text())
    blocks = re.findall(r"export interface (\w+) \{\n(.*?)\n\}", text, re.DOTALL)
    types = {name: dict(re.findall(r"^  (\w+): (.*);", body, re.MULTILINE)) for name, body in blocks}
    assert set(report.content) == set(types["Report"])
    for name, kind in types["Report"].items():
        assert fits(report.content[name], kind, types), (name, kind, str(report.content[name])[:300])
    assert all(fits(packed, "Packed", types) for packed in report.series)
    assert [s["series"] for s in report.content["sequences"]] == [f"series-{i}" for i in range(len(report.series))]
    for said, packed in zip(report.content["sequences"], report.series, strict=True):
        assert packed["columns"] == len(report.content["curves"]) * len(report.content["actions"])
        assert 0 <= packed["frames"] * said["step"] - said["frames"] < 2 * said["step"]


def test_the_reader_of_types_refuses_what_does_not_fit():
    types = {"Share": {"name": "string", "share": "number | null"}}
    assert fits([{"name": "a", "share": None}], "Share[]", types)
    for wrong in ([{"name": "a"}], [{"name": 1, "share": 1}], {"name": "a", "share": 1}, [{"name": "", "share": True}]):
        assert not fits(wrong, "Share[]", types)
    assert fits([None, 1.0], "(number | null)[]", types)
    assert not fits("red", '"good" | "poor"', types)


def test_a_report_of_a_run_has_every_part_that_the_page_shows(learned):
    run, test = learned
    report = Report.of(run, test, repeat={"command": "simile train x.csv", "python": "", "config": ""})
    assert_page_can_read(report)
    content = report.content
    assert content["curves"] == ["expert", "policy"]
    assert [row[0] for row in content["table"]["rows"]] == ["policy", HELD]
    assert [c["kind"] for c in content["frontier"]] == ["ours", "path"]
    assert len(content["frontier"][-1]["points"]) == len(run.frontier.points)
    assert content["chosen"] == run.chosen.number
    assert content["rounds"][-1]["error"] == pytest.approx(math.sqrt(run.rounds[-1].error))
    assert content["importances"] is not None
    assert f"{len(test)} held-out sequences" in content["subtitle"]
    assert "3 held-out sequences" in content["frontier_note"]


def test_the_points_of_the_path_are_those_of_the_held_out_sequences(learned):
    run, test = learned
    points = Report.of(run, test).content["frontier"][-1]["points"]
    for point, row in zip(points, judged_path(run.frontier, test), strict=True):
        assert (point["error"], point["roughness"]) == pytest.approx((row["error"], row["roughness"]), rel=1e-2)


def test_a_judgement_brings_its_rows_and_the_best_filter_and_no_roll_out_is_made_twice(learned, pursuit, monkeypatch):
    run, test = replace(learned[0], frontier=None), learned[1]
    train, _ = pursuit
    rivals = {n: (p, s) for n, p, s in simple_filters(*train.split(0.3), run.policy)}
    found = judge({"policy": (run.policy, math.nan), **rivals}, test)
    monkeypatch.setattr(curves, "_rolled", lambda *_: pytest.fail("rolled out again"))
    report = Report.of(run, test, judgement=found)
    assert_page_can_read(report)
    assert report.content["verdict"] == found.verdict()
    assert [row[0] for row in report.content["table"]["rows"]] == [row["name"] for row in found.rows()]
    assert report.content["curves"][2] in rivals
    assert "best simple filter" in report.content["answers"][0]["answer"]


def test_a_comparison_shows_the_first_contender_the_best_reduction_and_the_best_rival(tmp_path):
    train, test = tasks.pursuit(n_sequences=6, length=100).split(test=0.4)
    found = simile.compare(train, test, reductions=("learn", "clone"), rivals=ROSTER[:2], model=DecisionTreeRegressor())
    report = Report.of_comparison(found, title="A title", subtitle="and more")
    assert_page_can_read(report)
    best = next(r["name"] for r in found.rows() if r["kind"] == "rival" and r["name"] != HELD)
    assert report.content["curves"] == ["expert", "learn", "clone", best]
    assert [c["kind"] for c in report.content["frontier"]] == ["ours", "reduction", "rival"]
    (tmp_path / COMPARISON).write_text(json.dumps(plain(found.to_dict())))
    folder = RunFolder(tmp_path)
    folder.write_config({"data": ["x.csv"], "seed": 0, "test": "0.25"})
    kept = Report.of_folder(folder)
    assert_page_can_read(kept)
    assert kept.series == ()
    assert kept.content["verdict"] == report.content["verdict"]
    assert kept.content["frontier"] == report.content["frontier"]
    assert kept.content["repeat"]["command"].startswith("simile compare x.csv")


def test_a_folder_tells_what_the_run_found_and_rolls_its_policy_out_again(learned, tmp_path):
    run, test = learned
    demos = tasks.pursuit(n_sequences=4, length=150)
    simile.write(demos, tmp_path / "data.csv")
    folder = RunFolder(tmp_path / "my run")
    folder.write_config(
        {"data": [str(tmp_path / "data.csv")], "actions": ["pan"], "seed": 0, "test": "0.5", "algorithm": "learn"}
    )
    run.policy.save(folder.path / POLICY)
    turns = [{name: getattr(r, name) for name in ("number", "beta", "error", "diverged")} for r in run.rounds]
    (folder.path / ROUNDS).write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    early = Report.of_folder(folder)
    assert_page_can_read(early)
    assert early.content["title"] == "A policy learned from data.csv"
    assert early.content["notes"] == ["the run has not ended"]
    assert early.content["chosen"] == run.chosen.number
    assert [s["frames"] for s in early.content["sequences"]] == [150, 150]
    path = [{"smoothness": s, "lag": 3.0, "error": e, "roughness": 1.0 / s} for s, e in ((0.5, 0.2), (2.0, 0.3))]
    held_out = judge({"policy": (run.policy, math.nan)}, folder.demonstrations()[1])
    summary = {
        "verdict": "good enough",
        "notes": ["a note"],
        "chosen_round": 0,
        "rounds": plain(turns),
        "held_out": plain(held_out.rows()),
        "path": path,
        "digest": folder.demonstrations()[1].digest(),
    }
    (folder.path / SUMMARY).write_text(json.dumps(summary))
    linear(test.n_contexts).save(folder.path / ALTERNATIVE)
    told = Report.of_folder(folder)
    assert_page_can_read(told)
    assert told.content["verdict"] == "good enough"
    assert told.content["notes"] == ["a note"]
    assert told.content["frontier"][-1]["points"][0]["label"] == "smoothness 0.5, lag 100 ms"
    assert "something simpler" in [row[0] for row in told.content["table"]["rows"]]
    assert Report.of_folder(folder, demos=folder.demonstrations()[1]).content == told.content
    elsewhere = Report.of_folder(folder, demos=test)
    assert elsewhere.content["verdict"].startswith("policy: ")
    assert {c["kind"] for c in elsewhere.content["frontier"]} == {"ours", "rival"}


# --- Edges ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [None, 25.0])
@pytest.mark.parametrize("k", [1, 3])
def test_any_number_of_actions_with_or_without_a_rate_can_be_shown(k, rate):
    demos = demos_of(90, 60, 1, m=2, k=k, rate=rate)
    report = Report.of(run_of(linear(2, k)), demos)
    assert_page_can_read(report)
    assert report.content["spectrum"]["unit"] == ("cycles per frame" if rate is None else "Hz")
    assert report.content["notes"] == ["1 sequence of at most 1 frame could not be judged"]
    assert report.content["sequences"][2]["error"] is None


def test_one_short_sequence_with_missing_contexts_and_a_resting_expert_can_be_shown():
    contexts = np.full((7, 2), np.nan)
    demos = simile.Demonstrations.from_arrays([contexts], [np.full((7, 1), 3.0)])
    report = Report.of(run_of(linear(2)), demos)
    assert_page_can_read(report)
    assert [a["mood"] for a in report.content["answers"][:3]] == ["unknown"] * 3
    assert report.content["spectrum"] is None
    assert report.content["lag"] is None
    assert report.content["frontier"] == []


@pytest.mark.parametrize("lengths", [(80,), (80, 6, 70)])
def test_a_policy_that_runs_away_is_told_and_its_curve_breaks_off(lengths):
    demos = demos_of(*lengths)
    report = Report.of(run_of(linear(2, growth=3.0, smoothness=100.0)), demos)
    assert_page_can_read(report)
    lost = sum(n > 6 for n in lengths)
    assert f"in {lost} of {len(lengths)} held-out sequence" in report.content["answers"][0]["answer"]
    assert "diverged" in report.content["verdict"]
    found = unpacked(report.series[0])
    assert not np.isnan(found[:, 0]).any()
    assert np.isnan(found[1:, 1]).all()
    assert not np.isnan(found[0, 1])
    assert all(len(lengths) > 1 and m["sequence"] == 1 for m in report.content["moments"])


def test_a_foreign_model_has_no_shares_to_show(pursuit):
    train, test = pursuit
    run = simile.clone(train, model=DecisionTreeRegressor(min_samples_leaf=20))
    report = Report.of(run, test)
    assert_page_can_read(report)
    assert report.content["importances"] is None
    assert "forecast" in report.content["answers"][3]["answer"]


def test_something_simpler_that_did_better_is_measured_and_told():
    demos = demos_of(200, 200, 200)
    run = run_of(linear(2), alternative=linear(2, slope=0.5, smoothness=4.0, growth=1.0), notes=("it does better",))
    report = Report.of(run, demos)
    assert_page_can_read(report)
    assert "something simpler" in [row[0] for row in report.content["table"]["rows"]]
    assert report.content["notes"] == ["it does better"]
    assert "simpler" in report.content["answers"][3]["answer"]


def test_sequences_shorter_than_the_memory_are_refused_with_a_way_out():
    with pytest.raises(simile.DataError, match="give longer sequences"):
        Report.of(run_of(linear(2)), demos_of(1))


# --- Values against slow twins ----------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(-6, 6))
def test_the_peak_of_the_lag_curve_is_the_lag_that_losses_measure(seed, shift):
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.normal(size=(260, 2)), axis=0)
    demos = simile.Demonstrations.from_arrays([np.zeros((200, 1))], [walk[20:220]])
    rolled = walk[20 - shift : 220 - shift]
    found = lag_curve(drawn(demos, [rolled], frames=0))
    assert found.best == pytest.approx(losses.lag(rolled, demos.actions[0]), abs=1e-6)
    j, s = seed % 2, 7
    a, e = (x[:, j] - x[:, j].mean() for x in (rolled, demos.actions[0]))
    slow = sum(a[t + s] * e[t] for t in range(200 - s)) / math.sqrt((a[s:] ** 2).sum() * (e[:-s] ** 2).sum())
    assert found.correlation[j][found.frames == s] == pytest.approx(slow, abs=1e-9, nan_ok=True)


def test_a_lag_is_pooled_over_sequences_of_any_length():
    demos = demos_of(400, 30, 5, 300)
    late = [np.concatenate([a[:1], a[:1], a[:1], a])[: len(a)] for a in demos.actions]
    assert lag_curve(drawn(demos, late)).best == pytest.approx([3.0], abs=0.5)


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
    scale, width, taken, slow = shown.ruler.scale, 50, [], []
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
    found = moments.worst_moments(shown, most=3)
    assert [(m["sequence"], m["begin"], m["end"]) for m in found] == taken
    for moment in found:
        part = slice(moment["begin"], moment["end"])
        gap = (rolled[moment["sequence"]] - demos.actions[moment["sequence"]])[part]
        rmse = np.sqrt((gap**2).mean(axis=0))
        assert moment["action"] == np.argmax(rmse / scale)
        assert moment["error"] == pytest.approx(rmse[moment["action"]])


@given(st.integers(0, 10_000), st.floats(-300.0, 300.0), st.floats(-250.0, 250.0))
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
    thin = curves.thinned(values, step)
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
    rows = simile.evaluate(policy, demos).rows
    said = Report.of(run_of(policy), demos).content["sequences"]
    for i, one in enumerate(said):
        rmse = [r["policy"] for r in rows if r["sequence"] == i and r["metric"] == "rmse"]
        lags = [r["policy"] for r in rows if r["sequence"] == i and r["metric"] == "lag"]
        rough = [r["policy"] / r["expert"] for r in rows if r["sequence"] == i and r["metric"] == "difference_2"]
        assert one["rmse"] == pytest.approx(rmse)
        assert one["lag"] == pytest.approx(np.mean(lags))
        assert one["roughness"] == pytest.approx(np.mean(rough))


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
    found = attention(policy, demos)
    spread = [3.0 * np.nan_to_num(contexts[:, 0]).std(), 1.0, 2.0]
    assert found.contexts == pytest.approx(
        {"x0": spread[0] / sum(spread), "x1": 3.0 / sum(spread), "x2": 0.0}, rel=0.1, abs=1e-9
    )
    assert found.lags == pytest.approx({0: (spread[0] + 1.0) / sum(spread), 1: 2.0 / sum(spread)}, rel=0.1)
    none = attention(replace(policy, f=replace(f, coefficient=np.zeros((5, 1)))), demos)
    assert none is None
    half = Mixture((policy, replace(linear(3), n_contexts=3)), (0.5, 0.5))
    assert attention(half, demos).contexts["x0"] == pytest.approx(0.5 + 0.5 * found.contexts["x0"])


def test_the_past_of_the_policy_itself_is_named_as_its_own(pursuit):
    run = simile.paper(pursuit[0], n_rounds=0, model=simile.SmoothForest(n_trees=2))
    found = attention(run.policy, pursuit[1])
    assert "own pan" in found.contexts
    assert sum(found.contexts.values()) == pytest.approx(1.0)
    assert sum(found.lags.values()) == pytest.approx(1.0)
    assert list(found.lags) == sorted(found.lags)


# --- Words ------------------------------------------------------------------------------------------------------------

FACTS = answers.Facts(
    error=0.2, rmse={"pan": 1.5}, held=1.0, simple=("filter", 0.4), roughness=1.0, lag=0.2, pace=50.0, rate=25.0,
    sequences=5, diverged=0, radius=0.9, surprise=1.0,
)  # fmt: skip
BENT = Steps(tuple(Step(2.0**i, float(i), 0.1 + 0.01 * 2.0**i, 4.0 / 2.0**i) for i in range(6)))


@pytest.mark.parametrize(
    ("question", "changed", "mood", "said"),
    [
        (0, {}, "good", "20% of the error of holding the last action and 50% of that of the best simple filter"),
        (0, {"error": 0.7, "simple": None}, "fair", "off by 1.5 in pan"),
        (0, {"simple": ("filter", 0.18)}, "fair", "The simple filter does better"),
        (0, {"simple": ("filter", 0.1)}, "poor", "2.0 times that of the best simple filter"),
        (0, {"error": 1.2, "simple": None}, "poor", "120% of the error"),
        (0, {"held": 0.0}, "unknown", "never moves"),
        (0, {"error": math.nan}, "unknown", "nothing to measure"),
        (0, {"diverged": 2}, "poor", "in 2 of 5 held-out sequences"),
        (1, {}, "good", "about as smooth as the expert"),
        (1, {"roughness": 0.25}, "good", "4.0 times smoother"),
        (1, {"roughness": 1.3}, "fair", "1.3 times as rough"),
        (1, {"roughness": 3.0}, "poor", "3.0 times as rough"),
        (1, {"roughness": math.nan}, "unknown", "never turns"),
        (2, {}, "good", "on time"),
        (2, {"lag": 4.0}, "good", "Hardly: 4.0 frames (160 ms) late"),
        (2, {"lag": 10.0, "rate": None}, "fair", "A little: 10.0 frames late; the expert takes 50.0 frames"),
        (2, {"lag": 20.0}, "poor", "Yes: 20.0 frames"),
        (2, {"lag": -20.0}, "poor", "No: 20.0 frames (800 ms) early"),
        (2, {"lag": math.nan}, "unknown", "cannot be told"),
        (3, {}, "good", "never ran away in 5 held-out sequences"),
        (3, {"sequences": 1}, "fair", "but 1 held-out sequence tells little"),
        (3, {"surprise": 2.0}, "fair", "2 times what the training expected"),
        (3, {"radius": 1.01}, "poor", "does not settle"),
        (4, {}, "unknown", "no other smoothness was tried"),
        (4, {"path": BENT}, "fair", "half as rough has 129% of the error; twice as rough saves 14% of the error"),
        (4, {"path": BENT, "roughness": 2.0}, "good", "the curve bends at roughness"),
        (4, {"path": BENT, "roughness": 0.25}, "fair", "ask for less smoothness"),
        (4, {"path": Steps(BENT.steps[:1]), "roughness": 9.0}, "unknown", "do not reach"),
    ],
)  # fmt: skip
def test_answers_are_short_and_honest(question, changed, mood, said):
    found = answers.answers(replace(FACTS, **changed))[question]
    assert said in found["answer"]
    assert found["mood"] == mood
    assert len(found["answer"]) < 260
    assert found["answer"].endswith(".")


def test_more_smoothness_that_costs_nothing_is_recommended():
    flat = Steps(tuple(Step(s, s, 0.1, 1.0 / s) for s in (0.25, 0.5, 1.0, 2.0, 4.0)))
    found = answers.answers(replace(FACTS, path=flat))[4]
    assert found["mood"] == "fair"
    assert "next to nothing" in found["answer"]


def test_every_value_of_the_diagnosis_has_a_meaning_and_a_long_recording_takes_no_longer(learned):
    run, test = learned
    long = simile.Demonstrations(test.items * 40)
    assert set(MEANINGS) == set(simile.Diagnosis.__dataclass_fields__)
    assert diagnosis(run.policy, long)["findings"][1] == diagnosis(run.policy, test)["findings"][1]
    assert Report.of(run, test).content["diagnosis"]["findings"][0].startswith("Its smoother settles")


# --- One file ---------------------------------------------------------------------------------------------------------


class Elements(HTMLParser):
    """What a browser would see of a page: the elements, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict]] = []
        self.texts: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img", "br", "hr", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        name = self.seen[-1][1].get("id") or self.open[-1] if self.open else ""
        self.texts[name] = self.texts.get(name, "") + data


def test_a_page_is_one_file_that_asks_nobody_and_hostile_names_stay_text(tmp_path):
    contexts = [np.random.default_rng(i).normal(size=(60, 1)).cumsum(axis=0) for i in range(2)]
    demos = simile.Demonstrations.from_arrays(
        contexts,
        [0.2 * c for c in contexts],
        names=[HOSTILE, "b"],
        context_names=[HOSTILE],
        action_names=[f"a{HOSTILE}"],
    )
    report = Report.of(run_of(linear(1)), demos, title=HOSTILE, repeat={"command": HOSTILE})
    assert_page_can_read(report)
    report.save(tmp_path / "new" / "report.html")
    text = (tmp_path / "new" / "report.html").read_text("utf-8")
    assert text == report.to_html()
    page = Elements(text)
    assert page.open == []
    scripts = [attributes for tag, attributes in page.seen if tag == "script"]
    assert [s.get("id") for s in scripts] == ["report", None, "series-0", "series-1"]
    assert not any(tag == "img" for tag, _ in page.seen)
    assert json.loads(page.texts["report"]) == report.content
    assert json.loads(page.texts["series-1"]) == report.series[1]
    assert report.content["title"] == HOSTILE
    said = re.sub(r"<!--.*?-->|/\*.*?\*/", "", text, flags=re.DOTALL)
    assert not re.search(r"https?:", said)
    for _, attributes in page.seen:
        assert not any(str(attributes.get(n, "data:")).startswith(("http", "//")) for n in ("src", "href"))


def test_a_name_that_utf_8_cannot_write_does_no_harm(tmp_path):
    report = Report.of(run_of(linear(2)), demos_of(30), title="half \ud800 a pair")
    report.save(tmp_path / "report.html")
    assert "half ? a pair" in (tmp_path / "report.html").read_text("utf-8")


def test_a_report_shows_itself_in_a_line():
    report = Report.of(run_of(linear(2)), demos_of(30), title="pan")
    assert repr(report) == "Report('pan', 1 sequence)"


@pytest.mark.slow
def test_a_report_of_a_million_frames_stays_below_fifteen_megabytes():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=(1_000_000, 1)), axis=0)
    demos = simile.Demonstrations.from_arrays([walk], [walk + rng.normal(size=walk.shape)], rate=25.0)
    report = Report.of(run_of(linear(1, slope=1.0)), demos)
    assert report.series[0]["frames"] == 1_000_000
    assert len(report.to_html()) < 15e6
