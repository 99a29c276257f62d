"""The experiments of Section 6: statistics with known answers, verdicts by rule, and every claim from data to page."""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from conftest import demos_of
from simile.errors import ArgumentError, DataError
from simile.experiments import (
    CLAIMS,
    SEEDS,
    SMALL,
    CameraSource,
    Effect,
    Effort,
    FileSource,
    Lab,
    PursuitSource,
    Result,
    Verdict,
    claims_named,
    measure,
    reproduce,
    write,
)
from simile.experiments.claims.reductions import exponent
from simile.experiments.drawing import relative
from simile.experiments.lab import WARM_UP, score, score_of
from simile.experiments.results import TIME, format_number
from simile.experiments.statistics import conclude, headline, interval, per_seed, ratios

TINY = Effort(n_trees=3, n_rounds=3, n_rollouts=3)
SOURCE = PursuitSource(n_sequences=5, length=90)
POSITIVE = st.lists(st.floats(0.01, 100.0), min_size=2, max_size=9)


@pytest.fixture(scope="module")
def found():
    told: list[str] = []
    return measure(seeds=(0, 1), source=SOURCE, effort=TINY, watch=told.append), told


@pytest.fixture(scope="module")
def written(found, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    write(found[0], out)
    return out


# --- statistics


def test_the_interval_of_a_mean_is_students():
    mean, low, high = interval([1.0, 2.0, 3.0, 4.0, 5.0], "value")
    reach = 2.7764451052 * math.sqrt(2.5) / math.sqrt(5)  # t of 4 degrees of freedom, from a table
    assert (mean, low, high) == pytest.approx((3.0, 3.0 - reach, 3.0 + reach))


def test_ratios_are_averaged_on_the_log_scale():
    mean, low, high = interval([0.5, 2.0])
    assert mean == pytest.approx(1.0)
    assert low * high == pytest.approx(1.0)


@given(POSITIVE)
def test_turning_a_ratio_over_turns_its_interval_over(values):
    mean, low, high = interval(values)
    turned = interval([1.0 / v for v in values])
    assert turned == pytest.approx((1.0 / mean, 1.0 / high, 1.0 / low), rel=1e-6)
    assert low <= mean <= high
    assert min(values) * (1 - 1e-9) <= mean <= max(values) * (1 + 1e-9)


@given(POSITIVE, st.floats(0.1, 10.0))
def test_a_unit_does_not_change_what_is_relative(values, factor):
    assert interval([factor * v for v in values]) == pytest.approx(
        tuple(factor * v for v in interval(values)), rel=1e-6
    )


def test_about_95_of_100_intervals_hold_the_truth():
    rng = np.random.default_rng(0)
    ends = [interval(np.exp(rng.normal(0.3, 0.5, size=6))) for _ in range(1000)]
    assert 0.93 < np.mean([low < math.exp(0.3) < high for _, low, high in ends]) < 0.97


def test_one_seed_has_no_interval():
    assert interval([2.0]) == (2.0, 0.0, math.inf)
    assert Effect("", (2.0,), above=1.0).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_a_seed_without_a_number_is_not_left_out_but_undecides(bad):
    effect = Effect("", (2.0, 2.1, bad), above=1.0)
    assert math.isnan(effect.mean)
    assert effect.verdict is Verdict.UNDECIDED


def test_rows_are_paired_seed_by_seed():
    rows = [
        {"seed": s, "side": side, "v": v} for s, side, v in [(1, "a", 4.0), (2, "b", 5.0), (1, "b", 2.0), (2, "a", 5.0)]
    ]
    assert ratios(per_seed(rows, "v", side="a"), per_seed(rows, "v", side="b")) == (2.0, 1.0)


def test_several_rows_of_a_seed_are_averaged_geometrically():
    rows = [{"seed": 0, "round": n, "v": v} for n, v in enumerate((1.0, 4.0))]
    assert per_seed(rows, "v") == {0: pytest.approx(2.0)}
    assert per_seed(rows, "v", round=1) == {0: 4.0}
    with pytest.raises(ArgumentError, match="no row"):
        per_seed(rows, "v", round=9)


def test_a_picture_may_divide_by_a_seeds_own_reference():
    rows = [{"seed": s, "round": n, "v": v} for s, n, v in [(0, 0, 2.0), (0, 1, 1.0), (1, 0, 8.0), (1, 1, 2.0)]]
    assert [r["v"] for r in relative(rows, "v", lambda r: r["round"] == 0)] == pytest.approx([1.0, 0.5, 1.0, 0.25])


# --- verdicts

UP, DOWN, MIXED = (2.0, 2.1, 1.9), (0.5, 0.6, 0.4), (0.5, 1.0, 2.0)


@pytest.mark.parametrize(
    ("values", "bound", "verdict"),
    [
        (UP, {"above": 1.0}, Verdict.HOLDS),
        (UP, {"below": 1.0}, Verdict.FAILS),
        (DOWN, {"above": 1.0}, Verdict.FAILS),
        (DOWN, {"below": 1.0}, Verdict.HOLDS),
        (MIXED, {"above": 1.0}, Verdict.UNDECIDED),
        (MIXED, {"below": 1.0}, Verdict.UNDECIDED),
        (UP, {"above": 2.0}, Verdict.UNDECIDED),
        (UP, {"above": 3.0}, Verdict.FAILS),
        ((1.0, 1.0), {"above": 1.0}, Verdict.UNDECIDED),
        (UP, {}, None),
    ],
)
def test_a_verdict_follows_from_the_interval_and_the_bound(values, bound, verdict):
    assert Effect("", values, **bound).verdict is verdict


def test_a_claim_holds_where_all_effects_do_and_fails_where_one_does():
    holds, fails, open_ = (Effect("", v, above=1.0) for v in (UP, DOWN, MIXED))
    silent = Effect("", DOWN)
    assert conclude([holds, silent, holds]) is Verdict.HOLDS
    assert conclude([holds, open_]) is Verdict.UNDECIDED
    assert conclude([holds, open_, fails]) is Verdict.FAILS
    assert conclude([silent]) is Verdict.UNDECIDED
    assert headline([holds, open_, fails]) is fails
    assert headline([holds, open_]) is open_
    assert headline([silent]) is silent


def test_an_effect_needs_numbers_and_one_bound_at_most():
    with pytest.raises(ArgumentError, match="at least one"):
        Effect("nothing", ())
    with pytest.raises(ArgumentError, match="both"):
        Effect("both", (1.0,), above=1.0, below=2.0)


# --- scores, sources and rivals


def test_the_expert_scores_zero_error_and_its_own_smoothness():
    demos = demos_of(60, 50, k=2)
    perfect = score_of(demos.actions, demos, np.ones(2))
    assert (perfect.error, perfect.difference_1, perfect.roughness) == pytest.approx((0.0, 1.0, 1.0))


def test_frames_that_the_expert_gives_are_not_scored():
    demos = demos_of(60)
    wrong = [a.copy() for a in demos.actions]
    wrong[0][:WARM_UP] += 100.0
    assert score_of(wrong, demos, np.ones(1)).error == 0.0


def test_sequences_too_short_to_score_are_refused_in_words():
    demos = demos_of(10)
    with pytest.raises(DataError, match="give longer ones"):
        score_of(demos.actions, demos, np.ones(1))


def test_a_policy_that_diverges_has_an_infinite_error(pursuit):
    train, test = pursuit
    policy = simile.clone(train, model=simile.SmoothForest(3)).policy
    explosive = simile.models.regularizers.Autoregressor(np.array([[3.0]]))
    assert math.isinf(score(replace(policy, h=explosive), test).error)


def test_equal_runs_are_made_once():
    train, test = SOURCE(0)
    lab = Lab(0, train, test, TINY)
    assert lab.run() is lab.run(n_rounds=3)
    assert lab.run() is not lab.run(smoothness=0.0)
    training = lab.run()
    assert len(training.seconds) == len(training.fit_seconds) == len(training.rounds) == 4
    assert all(0.0 <= fit <= whole for fit, whole in zip(training.fit_seconds, training.seconds, strict=True))


def test_the_runs_of_a_lab_are_those_of_the_library():
    train, test = SOURCE(0)
    ours = Lab(7, train, test, TINY).run("dagger").policy
    theirs = simile.dagger(train, n_rounds=3, seed=7, model=simile.SmoothForest(3)).policy
    for a, b in zip(simile.rollout(ours, test), simile.rollout(theirs, test), strict=True):
        np.testing.assert_array_equal(a, b)
    assert ours.card == theirs.card  # the stop-watch leaves no trace


def test_a_seed_of_own_data_is_another_split():
    source = FileSource(demos_of(60, 60, 60, 60, 60, 60, k=2))
    splits = {source(seed)[1].names for seed in range(8)}
    assert len(splits) > 1
    assert all(len(source(seed)[0]) == 4 for seed in range(3))
    assert "6 sequences" in repr(source)


def test_the_camera_source_makes_games_from_a_seed():
    pytest.importorskip("simile.camera.simulation")
    train, test = CameraSource(n_games=3, minutes=0.05)(1)
    assert (len(train), len(test)) == (2, 1)
    again = CameraSource(n_games=3, minutes=0.05)(1)[0]
    assert train.digest() == again.digest()
    assert train.digest() != CameraSource(n_games=3, minutes=0.05)(2)[0].digest()


@given(st.floats(0.5, 3.0), st.floats(0.01, 10.0))
def test_the_exponent_of_a_power_is_found(power, scale):
    assert exponent([scale * n**power for n in range(1, 8)]) == pytest.approx(power)


def test_too_few_rounds_have_no_exponent():
    assert math.isnan(exponent([1.0]))


# --- every claim, from data to page


def test_claims_are_found_by_name_and_names_are_file_names():
    assert claims_named() == CLAIMS
    assert [c.name for c in claims_named(["deterministic", "smooth-class"])] == ["deterministic", "smooth-class"]
    assert all(re.fullmatch(r"[a-z-]+", c.name) for c in CLAIMS)
    for wrong in (["nonsense"], []):
        with pytest.raises(ArgumentError, match="claims must be among smooth-class"):
            claims_named(wrong)


def test_at_least_five_seeds_are_the_default():
    assert len(SEEDS) >= 5


@pytest.mark.parametrize("wrong", [(), (1, 1)])
def test_seeds_must_differ(wrong):
    with pytest.raises(ArgumentError, match="seeds"):
        measure(seeds=wrong, source=SOURCE)


@pytest.mark.parametrize("claim", [c.name for c in CLAIMS])
def test_a_claim_yields_finite_rows_with_all_columns_for_every_seed(found, claim):
    result = found[0][claim]
    assert {row["seed"] for row in result.rows} == {0, 1}
    assert {tuple(row) for row in result.rows} == {tuple(result.rows[0])}
    assert all(math.isfinite(v) for row in result.rows for k, v in row.items() if isinstance(v, float) and k != "sigma")
    assert result.n_seeds == 2
    assert all(len(e.values) == 2 for e in result.effects)
    assert any(e.decides for e in result.effects)
    assert result.verdict is conclude(result.effects)
    low, high = result.interval
    assert low <= result.effect <= high
    assert result.claim.section in result.statement


def test_progress_is_told(found):
    told = found[1]
    assert told[0] == "seed 0: smooth-class"
    assert told[-1] == "seed 1 is done, 2 of 2"


def test_trajectories_are_shown_of_the_first_seed_alone(found):
    traced = [r for r in found[0] if r.traces]
    assert {r.name for r in traced} == {"smooth-class", "sigma-trade-off", "progress"}
    for result in traced:
        assert {row["seed"] for row in result.traces} == {0}
        assert {row["action"] for row in result.traces} == {"pan (degrees)"}


def test_the_smooth_class_is_smoother_even_here(found):
    assert found[0]["smooth-class"].effects[0].mean > 2.0


def test_tables_and_pictures_are_written(found, written):
    for result in found[0]:
        with (written / f"{result.name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(result.rows)
        for row, kept in zip(rows, result.rows, strict=True):
            assert {k: str(v) for k, v in kept.items()} == row
        picture = (written / f"{result.name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(picture) > 5_000
    assert not [p for p in written.iterdir() if p.name.endswith(".tmp")]


@pytest.mark.parametrize("claim", ["reductions", "adaptive-step"])
def test_a_seed_that_diverged_undecides_a_claim_and_is_written_all_the_same(found, tmp_path, claim):
    kept = found[0][claim]
    lost = {"rmse": math.inf, "difference_1": math.nan, "difference_2": math.nan, "train_mse": math.inf}
    rows = [row | {k: v for k, v in lost.items() if k in row and row["seed"] == 1} for row in kept.rows]
    result = Result.of(kept.claim, rows)
    assert result.verdict is Verdict.UNDECIDED
    assert result.comment.startswith("No finite number in every seed for: ")
    write(replace(found[0], items=(result,)), tmp_path)
    assert json.loads((tmp_path / "results.json").read_text())["results"][0]["effect"] is None


def test_the_summary_holds_settings_seeds_version_and_digests(found, written):
    summary = json.loads((written / "results.json").read_text())
    assert summary["seeds"] == [0, 1]
    assert summary["version"] == simile.__version__
    assert summary["effort"]["n_trees"] == 3
    assert summary["source"] == "PursuitSource(n_sequences=5, length=90)"
    assert summary["digest"] == found[0].digest()
    assert len(summary["data"]["0"].split()) == 2
    assert [r["name"] for r in summary["results"]] == [c.name for c in CLAIMS]
    assert {r["verdict"] for r in summary["results"]} <= {str(v) for v in Verdict}
    assert [r["name"] for r in summary["results"] if r["depends_on_machine"]] == ["training-time"]


def test_the_page_has_verdicts_first_and_every_picture_it_names(found, written):
    page = (written / "results.md").read_text()
    first, *sections = page.split("\n## ")
    assert all(f"| [{r.claim.title}](#{r.name}) | **" in first for r in found[0])
    assert len(sections) == 1 + len(CLAIMS)
    links = re.findall(r"\]\(([^)#]+\.(?:png|csv))\)", page)
    assert len(links) >= 2 * len(CLAIMS)
    assert all((written / link).is_file() for link in links)


def test_the_page_may_lie_elsewhere(found, tmp_path):
    some = replace(found[0], items=found[0].items[:1])
    write(some, tmp_path / "docs" / "assets" / "results", page=tmp_path / "docs" / "results.md")
    page = (tmp_path / "docs" / "results.md").read_text()
    assert "](assets/results/smooth-class.png)" in page
    assert not (tmp_path / "docs" / "assets" / "results" / "results.md").exists()


def test_a_table_of_verdicts_is_printed(found):
    text = str(found[0])
    assert all(r.name in text and str(r.verdict) in text for r in found[0])


def test_equal_seeds_give_equal_numbers_apart_from_times(found):
    again = measure(seeds=(0, 1), source=SOURCE, effort=TINY, claims=["reductions", "training-time", "deterministic"])
    assert again.data == found[0].data
    for result in again:
        for row, other in zip(result.rows, found[0][result.name].rows, strict=True):
            steady = {k for k in row if not k.startswith(TIME)}
            assert {k: row[k] for k in steady} == {k: other[k] for k in steady}


def test_seeds_may_be_measured_in_several_processes(found):
    together = measure(seeds=(0, 1), source=SOURCE, effort=TINY, claims=["large-step"], n_jobs=2)
    assert together["large-step"].rows == found[0]["large-step"].rows


def test_data_of_ones_own_with_two_actions_and_no_rate_are_measured(tmp_path):
    source = FileSource(demos_of(70, 80, 90, 60, k=2, m=3))
    results = measure(seeds=(0, 1), source=source, effort=Effort(n_trees=2, n_rounds=2, n_rollouts=2))
    assert [r.name for r in results] == [c.name for c in CLAIMS]
    write(replace(results, items=tuple(r for r in results if r.traces)), tmp_path)
    assert len(list(tmp_path.glob("*.png"))) == 3
    assert results["progress"].traces[0]["unit"] == "frames"
    assert results["progress"].traces[0]["action"] == "a0"


def test_a_comment_says_what_is_missing():
    one = measure(seeds=(0,), source=SOURCE, effort=TINY, claims=["training-time"])["training-time"]
    assert "One seed has no interval." in one.comment
    assert "depend on the machine" in one.comment
    assert one.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("claims", [("smooth-class",), pytest.param(None, marks=pytest.mark.long)], ids=["one", "all"])
def test_the_small_camera_study_runs(tmp_path, claims):
    pytest.importorskip("simile.camera.simulation")
    results = reproduce(tmp_path, claims=claims, seeds=(0,), effort=SMALL)
    assert results.source.startswith("CameraSource(n_games=3")
    assert results["smooth-class"].effects[0].mean > 1.0


def test_numbers_are_written_briefly():
    assert [format_number(v) for v in (0.0, 0.0123, 0.123, 1.0, 1.004, 1.5, 12.34, 1234.5, math.nan, math.inf)] == [
        "0.00",
        "0.0123",
        "0.12",
        "1.00",
        "1.004",
        "1.50",
        "12.3",
        "1.23e+03",
        "-",
        "inf",
    ]
