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
from commands import simile_
from conftest import demos_of
from simile.errors import ArgumentError, DataError
from simile.experiments import (
    CLAIMS,
    SEEDS,
    SMALL,
    CameraSource,
    Case,
    Effect,
    Effort,
    FileSource,
    Lab,
    PursuitSource,
    Result,
    Verdict,
    claims_named,
    default_sources,
    drawing,
    measure,
    reproduce,
    write,
)
from simile.experiments.claims import choices, mixing, progress, reductions, steps, targets, theory
from simile.experiments.claims.virtual import AskOperator
from simile.experiments.drawing import relative
from simile.experiments.lab import PRESETS, SMOOTHNESS, WARM_UP, score, score_of
from simile.experiments.page import to_markdown
from simile.experiments.results import TIME, correct_all, format_number
from simile.experiments.sources import RECORDED
from simile.experiments.statistics import (
    conclude,
    correct,
    error_at,
    exponent,
    headline,
    interval,
    per_seed,
    ratios,
)

TINY = Effort(n_trees=3, n_rounds=3, n_rollouts=3)
SOURCE = PursuitSource(n_sequences=5, length=90)
POSITIVE = st.lists(st.floats(0.01, 100.0), min_size=2, max_size=9)
PRINTED, SCRIPT = (Case(reading, "pursuit") for reading in PRESETS)


@pytest.fixture(scope="module")
def found():
    told: list[str] = []
    return measure(seeds=(0, 1), source=SOURCE, effort=TINY, watch=told.append), told


@pytest.fixture(scope="module", autouse=True)
def look_for_room():
    """Draw large pictures without looking for room for every label, which takes most of the time; yield what looks."""
    from matplotlib.figure import Figure

    look = Figure.savefig

    def save(figure, *given, **named):
        if figure.bbox.height > 110:
            figure.set_layout_engine("none")
        look(figure, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", save)
        yield look


@pytest.fixture(scope="module")
def written(found, tmp_path_factory):
    """All that is written; the pictures show the first reading alone, and most are that of the first of each four."""
    out = tmp_path_factory.mktemp("out")
    pictures: list[bytes] = []

    def draw(results, draw=drawing.draw):
        pictures.append(pictures[-1] if len(pictures) % 4 else draw(results[:1]))
        return pictures[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "draw", draw)
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


MANY = st.lists(st.lists(st.floats(0.2, 5.0), min_size=4, max_size=4, unique=True), min_size=1, max_size=12)


@given(MANY, st.floats(0.5, 2.0))
def test_corrected_intervals_exclude_their_bound_where_holms_test_rejects(groups, bound):
    from scipy import stats

    effects = [Effect(str(i), tuple(values), above=bound) for i, values in enumerate(groups)]
    chances = [stats.ttest_1samp(np.log(values), np.log(bound)).pvalue for values in groups]
    assert [e.chance for e in effects] == pytest.approx(chances, rel=1e-6, abs=1e-12)
    order = np.argsort(chances, kind="stable")
    scaled = (len(groups) - np.arange(len(groups))) * np.array(chances)[order]
    adjusted = np.empty(len(groups))
    adjusted[order] = np.maximum.accumulate(scaled)  # Holm's adjusted p-values
    for effect, p in zip(correct(effects), adjusted, strict=True):
        if abs(p - 0.05) > 1e-6:
            assert (effect.verdict is not Verdict.UNDECIDED) == (p < 0.05)


def test_a_corrected_interval_is_bonferronis_for_the_strongest_effect_and_the_plain_one_for_a_single_effect():
    from scipy import stats

    values = (2.0, 2.1, 1.9, 2.05)
    weak = [Effect(f"weak {i}", (0.9, 1.2, 0.8, 1.3), above=1.0) for i in range(4)]
    silent = Effect("silent", values)
    strong, *others, last = correct([Effect("strong", values, above=1.0), *weak, silent])
    assert strong.level == pytest.approx(1.0 - 0.05 / 5)
    low, high = stats.t.interval(1.0 - 0.05 / 5, 3, np.log(values).mean(), stats.sem(np.log(values)))
    assert strong.interval == pytest.approx((math.exp(low), math.exp(high)))
    assert [e.level for e in others] == pytest.approx([1.0 - 0.05 / 4] * 4)
    assert last == silent
    assert correct([Effect("alone", values, above=1.0)])[0].level == 0.95


def test_each_column_of_the_page_is_corrected_by_itself():
    claim = replace(CLAIMS[0], judge=lambda rows: [Effect("a", tuple(r["v"] for r in rows), above=1.0)])
    rows = [{"seed": i, "v": v} for i, v in enumerate((2.0, 2.1, 1.9))]
    found = correct_all([Result.of(claim, case, rows) for case in (PRINTED, PRINTED, PRINTED, SCRIPT)])
    assert [r.effects[0].level for r in found] == pytest.approx([1 - 0.05 / 3, 1 - 0.05 / 2, 0.95, 0.95])


@given(st.floats(-2.0, 2.0), st.floats(0.1, 5.0), st.floats(0.1, 1.0))
def test_an_error_at_a_roughness_lies_on_the_line_between_logarithms(slope, scale, share):
    path = [(r, scale * r**slope) for r in (4.0, 1.0, 2.0)]
    rough = 4.0**share
    assert error_at(rough, path) == pytest.approx(scale * rough**slope, rel=1e-9)


def test_outside_the_path_the_roughest_point_counts_and_nothing_smoother_than_all():
    path = [(1.0, 0.5), (3.0, 0.2)]
    assert error_at(10.0, path) == pytest.approx(0.2)
    assert math.isnan(error_at(0.5, path))
    assert math.isnan(error_at(2.0, [*path, (math.nan, 0.1)]))
    assert math.isnan(error_at(math.inf, path))


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


def test_rivals_are_compared_with_simile_as_smooth_as_they_are():
    """Every rival lies on a path of its own: twice as rough as SIMILE, and 1.2 times its error at that roughness."""
    rows = []
    for seed, scale in enumerate((1.0, 2.0, 0.7)):
        path = {value: (4.0 / (1.0 + value), scale / math.sqrt(4.0 / (1.0 + value))) for value in reductions.PATH}
        rows += [
            {"seed": seed, "reduction": "SIMILE", "lambda": v, "rmse": e, "difference_2": r}
            for v, (r, e) in path.items()
        ]
        rough, error = path[SMOOTHNESS]
        for name in reductions.RUNS:
            matched = 1.2 * error / math.sqrt(2.0)  # the error of the path at twice the roughness is smaller
            row = {"rmse": matched, "difference_2": 2.0 * rough}
            rows.append({"seed": seed, "reduction": name, "lambda": SMOOTHNESS, **row})
        held = {"reduction": reductions.HELD, "lambda": SMOOTHNESS, "rmse": 9.0, "difference_2": 0.0}
        rows.append({"seed": seed, **held})
    effects = reductions.judge_error(rows)
    for effect in effects[: len(reductions.RUNS)]:
        assert effect.values == pytest.approx((1.2, 1.2, 1.2))
        assert effect.verdict is Verdict.HOLDS
    same = next(e for e in effects if e.text == "RMSE at the same lambda, DAgger / SIMILE")
    assert same.mean < 1.0  # by which DAgger would have been called better
    assert not same.decides


def test_smooth_feedback_that_is_none_does_not_pass_its_own_bound(found):
    rows = [r for r in found[0].of("smooth-feedback")[0].rows if r["feedback"] == targets.EXPERT]
    none = [{**r, "feedback": name} for name in (targets.SCHEDULE, targets.EXPERT, targets.DISTANCE) for r in rows]
    effects = targets.judge_feedback(none)
    assert conclude(effects) is not Verdict.HOLDS
    worst = next(e for e in effects if e.text.startswith("mean |first difference| of the roughest policy trained, "))
    assert worst.values == pytest.approx((1.0, 1.0))


def test_rounds_that_make_the_policy_worse_are_counted_seed_by_seed():
    errors = {"0.9": [9, 5, 4, 5, 3, 4, 6], "Eq. 8": [9, 10, 4, 3, 2, 2, 1]}
    rows = [
        {"seed": seed, "step": step, "round": n, "beta": 0.5, "train_mse": float(e), "test_mse": 1.0}
        for seed in (0, 1)
        for step in steps.RULES
        for n, e in enumerate(errors.get(step, errors["Eq. 8"]))
    ]
    effects = {e.text: e for e in steps.judge_overshoot(rows)}
    assert effects["rounds after the first 2 that raise the training MSE, beta = 0.9"].values == (3.0, 3.0)
    assert effects["the same, beta = 0.9 less Eq. 8"].values == (3.0, 3.0)  # the first two rounds may do anything
    assert effects["training MSE after round 6, beta = 0.9 / Eq. 8"].values == (6.0, 6.0)
    assert conclude(list(effects.values())) is Verdict.HOLDS


def path(*errors):
    return [{"seed": s, "round": n, "train_rmse": s * e, "test_rmse": e} for s in (1, 2) for n, e in enumerate(errors)]


@pytest.mark.parametrize(
    ("errors", "verdict", "texts"),
    [
        ((1.0, 0.8, 0.7, 0.71), Verdict.HOLDS, []),
        ((1.0, 0.5, 0.4, 0.8), Verdict.FAILS, ["training RMSE, round 3 / best round", "largest rise"]),
        ((1.0, 1.02, 1.04, 1.06), Verdict.FAILS, ["training RMSE, round 3 / round 0"]),
        ((1.0, 0.3, 0.6, 0.31), Verdict.FAILS, ["largest rise"]),
    ],
)
def test_a_run_converges_stably_where_it_ends_near_its_best_and_never_leaps(errors, verdict, texts):
    effects = progress.judge_convergence(path(*errors))
    assert conclude(effects) is verdict
    failing = [e.text for e in effects if e.verdict is Verdict.FAILS]
    assert len(failing) == len(texts)
    assert all(found.startswith(text) for found, text in zip(failing, texts, strict=True))


def test_roll_outs_that_are_needed_are_counted_and_their_growth_is_fitted():
    rows = [{"seed": s, "frames": t, "needed": 0.5 * s * t**1.5} for s in (1, 2) for t in (10, 20, 40)]
    power, needed = mixing.judge_rollouts(rows)
    assert power.values == pytest.approx((1.5, 1.5))
    assert needed.values == pytest.approx((0.5 * 40**1.5, 40**1.5))


def test_the_operator_who_is_asked_does_what_his_hand_would_do():
    demos = simile.tasks.pursuit(n_sequences=1, length=60, seed=3)
    expert = demos.actions[0]
    rolled = expert + np.random.default_rng(0).normal(0.0, 2.0, expert.shape)
    seen = replace_seen(demos, [rolled])
    step, first = 1.0 / demos.rate, expert[:, 0]
    turn = np.diff(first) / step  # the turn with which each frame was reached
    push = np.diff(turn) - step * (25.0 * -first[1:-1] - 10.0 * turn[:-1])  # by aim and tremor, whatever they were
    own = (rolled[1:-1, 0] - rolled[:-2, 0]) / step
    own = own + step * (25.0 * -rolled[1:-1, 0] - 10.0 * own) + push
    np.testing.assert_allclose(AskOperator(demos.rate)(seen)[0][2:, 0], rolled[1:-1, 0] + step * own, atol=1e-8)


def replace_seen(demos, rolled):
    from types import SimpleNamespace

    return SimpleNamespace(demos=demos, rolled=rolled)


def test_a_policy_that_diverges_has_an_infinite_error(pursuit):
    train, test = pursuit
    policy = simile.clone(train, model=simile.SmoothForest(3)).policy
    explosive = simile.models.regularizers.Autoregressor(np.array([[3.0]]))
    assert math.isinf(score(replace(policy, h=explosive, space=simile.ActionSpace()), test).error)


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
    for reading, preset in PRESETS.items():
        lab = Lab(7, train, test, TINY, reading)
        model = replace(preset["model"], n_trees=3)
        shared = {"n_rounds": 3, "seed": 7, "model": model, "regularizer": preset["regularizer"]}
        pairs = [(lab.run("dagger").policy, simile.dagger(train, **shared).policy)]
        pairs.append((lab.run().policy, getattr(simile, reading)(train, n_rounds=3, seed=7, model=model).policy))
        for ours, theirs in pairs:
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
    assert exponent(range(1, 8), [scale * n**power for n in range(1, 8)]) == pytest.approx(power)


def test_too_few_rounds_have_no_exponent():
    assert math.isnan(exponent([1], [1.0]))
    assert math.isnan(exponent([1, 2], [1.0, 0.0]))


# --- real data


def record(folder, name, n_sequences=8):
    demos = simile.tasks.pursuit(n_sequences=n_sequences, length=60, seed=0)
    actions, contexts, _ = RECORDED[name]
    columns = ["x_inflow", "x_doy"] if contexts == ["x_*"] else contexts
    lines = [",".join(["sequence", "t", *columns, *actions])]
    for i, demo in enumerate(demos):
        for t in range(len(demo)):
            values = [*demo.contexts[t, : len(columns)], demo.actions[t, 0]]
            lines.append(",".join([str(i), str(t), *(f"{v:.4f}" for v in values)]))
    (folder / name).mkdir(parents=True)
    (folder / name / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if name == "car_following":
        runs = "".join(f"{i},run{i % 4}\n" for i in range(n_sequences))
        (folder / name / "sequences.csv").write_text("sequence,run\n" + runs, encoding="utf-8")


def test_recordings_are_found_drawn_by_seed_and_torn_apart_by_run_alone(tmp_path, monkeypatch):
    for name in RECORDED:
        record(tmp_path, name)
    monkeypatch.setenv("SIMILE_DATA", str(tmp_path))
    games, reservoir, cars = default_sources()
    assert (games.name, reservoir.name, cars.name) == ("simulated games", "reservoir", "car following")
    assert len({replace(reservoir, frames=240)(seed)[0].digest() for seed in range(4)}) > 1
    train, test = replace(reservoir, frames=240, length=50)(0)
    assert (train.n_frames, test.n_frames) == (200, 100)  # whole recordings until a share of 240 is reached
    for seed in range(4):
        train, test = cars(seed)
        runs = [{int(name) % 4 for name in part.names} for part in (train, test)]
        assert not runs[0] & runs[1]
    assert [s.name for s in default_sources(folder=tmp_path / "nowhere")] == ["simulated games"]


def test_the_command_takes_a_folder_of_recordings(tmp_path):
    record(tmp_path, "reservoir", n_sequences=4)
    told = simile_(
        *("reproduce", "--quick", "--seeds", "1", "--claims", "smooth-class", "--data", tmp_path), cwd=tmp_path
    )
    heads = [line for line in told.stdout.splitlines() if "as printed" in line]
    assert "simulated games, as printed" in heads[0]
    assert "reservoir, as the script" in heads[0]
    assert "real data of car following, which are not at hand" in (tmp_path / "results" / "results.md").read_text()


def test_where_there_are_no_recordings_the_page_says_so_and_how_to_give_them(tmp_path, monkeypatch):
    monkeypatch.delenv("SIMILE_DATA", raising=False)
    few = Effort(n_games=2, minutes=0.05, n_trees=2, n_rounds=2, n_rollouts=2)
    alone = measure(claims=["smooth-class"], seeds=(0,), effort=few)
    assert "no columns for real data of reservoir and car following, which are not at hand" in alone.absent
    assert (
        "`--data FOLDER`, or the variable SIMILE_DATA, names a folder with reservoir/reservoir.csv and " in alone.absent
    )
    assert f"\n\n{alone.absent}\n\n| claim |" in to_markdown(alone)
    record(tmp_path, "reservoir")
    monkeypatch.setenv("SIMILE_DATA", str(tmp_path))
    both = measure(claims=["smooth-class", "virtual-expert"], seeds=(0,), effort=few)
    page = to_markdown(both)
    assert "no columns for real data of car following, which" in page
    assert "| reservoir, as printed | reservoir, as the script |" in page
    assert both.verdict("virtual-expert", both.cases[0]) is Verdict.UNDECIDED
    assert both.verdict("virtual-expert", Case("paper", "reservoir")) is None  # nobody can be asked


# --- every claim, from data to page


@pytest.mark.parametrize(
    ("gamma", "known", "verdict"),
    [
        (0.9, 1, Verdict.HOLDS),
        (0.9, 0, None),
        (1.3, 0, Verdict.FAILS),
        (1.3, 1, Verdict.FAILS),
    ],
)
def test_a_gamma_below_one_counts_where_it_is_known_and_one_above_it_always(gamma, known, verdict):
    rows = [
        {"seed": seed, "gamma": g, "gamma_known": known, "radius": 0.9}
        for seed in range(4)
        for g in (0.5, gamma + 0.01 * seed)
    ]
    effect = theory.judge_stability(rows)[0]
    assert effect.verdict is (verdict or Verdict.UNDECIDED)
    assert np.isnan(effect.mean) == (verdict is None)


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
    results = found[0].of(claim)
    assert [result.case for result in results] == [PRINTED, SCRIPT]
    assert [e.text for e in results[0].effects] == [e.text for e in results[1].effects]
    for result in results:
        assert {row["seed"] for row in result.rows} == {0, 1}
        assert {tuple(row) for row in result.rows} == {tuple(result.rows[0])}
        numbers = [v for row in result.rows for k, v in row.items() if isinstance(v, float) and k != "sigma"]
        assert all(map(math.isfinite, numbers))
        assert result.n_seeds == 2
        assert all(len(e.values) == 2 for e in result.effects)
        assert any(e.decides for e in result.effects)
        assert result.verdict is conclude(result.effects) is found[0].verdict(claim, result.case)
        low, high = result.interval
        assert low <= result.effect <= high
        assert result.claim.section in result.statement


def test_every_figure_and_numbered_statement_has_its_place():
    """Figure 1 is a drawing; Lemmas 5.1 and 5.4 are mathematics, which the page says."""
    said = " ".join(f"{c.section} {c.statement}" for c in CLAIMS)
    for figure in range(2, 8):
        assert re.search(rf"Figures? (\d and )?{figure}\b", said), figure
    for statement in ("Lemma 5.2", "Corollary 5.3", "5.5 and 5.6", "Corollary 5.7", "Proposition 5.8", "Equation 8"):
        assert statement in said


def test_a_choice_is_compared_as_printed_over_as_in_the_script_under_both_readings(found):
    printed, script = found[0].of("choices")
    other = {row["choice"]: row["rmse"] for row in printed.rows if row["seed"] == 0}
    assert "splits by the labels alone" in other
    assert choices.SPLITS in {row["choice"] for row in script.rows}
    assert printed.effects[0].text == f"RMSE, {choices.SPLITS} / splits by the labels alone"
    assert printed.effects[0].values[0] == pytest.approx(other[choices.OWN] / other["splits by the labels alone"])
    other = {row["choice"]: row["rmse"] for row in script.rows if row["seed"] == 0}
    assert script.effects[0].values[0] == pytest.approx(other[choices.SPLITS] / other[choices.OWN])


def test_the_two_readings_differ_and_share_their_data(found):
    printed, script = found[0].of("progress")
    assert printed.rows != script.rows
    assert len(found[0].data) == 2


def test_progress_is_told(found):
    told = found[1]
    assert told[0] == "seed 0, pursuit, as printed: smooth-class"
    assert told[-1] == "seed 1, pursuit, as the script is done, 4 of 4; about 0 minutes left"


def test_trajectories_are_shown_of_the_first_seed_alone(found):
    traced = [r for r in found[0] if r.traces]
    assert {r.name for r in traced} == {"smooth-class", "sigma-targets", "sigma-trade-off", "progress"}
    assert {r.case for r in traced} == {PRINTED, SCRIPT}
    for result in traced:
        assert {row["seed"] for row in result.traces} == {0}
        assert {row["action"] for row in result.traces} == {"pan (degrees)"}


def test_the_smooth_class_is_smoother_even_here(found):
    assert found[0]["smooth-class"].effects[0].mean > 2.0


def test_tables_and_pictures_are_written(found, written):
    for claim in CLAIMS:
        with (written / f"{claim.name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        kept = [{**r.case.columns, **row} for r in found[0].of(claim.name) for row in r.rows]
        assert rows == [{k: str(v) for k, v in row.items()} for row in kept]
        picture = (written / f"{claim.name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(picture) > 5_000
    assert not [p for p in written.iterdir() if p.name.endswith(".tmp")]


@pytest.mark.parametrize("claim", [CLAIMS[0].name, *(pytest.param(c.name, marks=pytest.mark.long) for c in CLAIMS[1:])])
def test_a_picture_shows_both_readings(found, claim, look_for_room, monkeypatch):
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", look_for_room)
    one, both = (drawing.draw(found[0].of(claim)[:n]) for n in (1, 2))
    heights = [int.from_bytes(picture[20:24], "big") for picture in (one, both)]
    assert heights[0] < heights[1]


LOST = [
    c.name if c.name in ("reductions", "adaptive-step") else pytest.param(c.name, marks=pytest.mark.long)
    for c in CLAIMS
]


@pytest.mark.parametrize("claim", LOST)
def test_a_seed_that_diverged_undecides_a_claim_and_is_written_all_the_same(found, tmp_path, claim):
    lost = {}
    for kept in found[0].of(claim):
        rows = [dict(row) for row in kept.rows]
        for row in (r for r in rows if r["seed"] == 1):
            lost = {k: math.inf if "rmse" in k or "mse" in k else math.nan for k, v in row.items() if type(v) is float}
            row.update({k: v for k, v in lost.items() if k not in ("sigma", "lambda", "beta")})
        result = Result.of(kept.claim, kept.case, rows)
        write(replace(found[0], items=(result,)), tmp_path)
        if claim != "improvement":  # which counts
            assert result.verdict is Verdict.UNDECIDED
            assert result.comment.startswith("No finite number in every seed for: ")
            assert json.loads((tmp_path / "results.json").read_text())["results"][0]["effect"] is None


def test_the_summary_holds_settings_seeds_version_and_digests(found, written):
    summary = json.loads((written / "results.json").read_text())
    assert summary["seeds"] == [0, 1]
    assert summary["version"] == simile.__version__
    assert summary["effort"]["n_trees"] == TINY.n_trees
    assert summary["sources"] == {"pursuit": "PursuitSource(n_sequences=5, length=90)"}
    assert summary["digest"] == found[0].digest()
    assert len(summary["data"]["pursuit, 0"].split()) == 2
    assert [(r["name"], r["preset"]) for r in summary["results"]] == [(c.name, p) for c in CLAIMS for p in PRESETS]
    assert {r["verdict"] for r in summary["results"]} <= {str(v) for v in Verdict}
    assert {r["name"] for r in summary["results"] if r["depends_on_machine"]} == {"training-time"}


def test_the_page_has_verdicts_first_and_every_picture_it_names(found, written):
    page = (written / "results.md").read_text()
    first, *sections = page.split("\n## ")
    assert "| claim | in the paper | pursuit, as printed | pursuit, as the script |" in first
    for claim in CLAIMS:
        verdicts = [str(r.verdict) for r in found[0].of(claim.name)]
        row = next(line for line in first.splitlines() if line.startswith(f"| [{claim.title}](#{claim.name}) | "))
        assert [cell.strip(" *") for cell in row.split("|")[-3:-1]] == verdicts
    for reading, name in (("As printed", "paper"), ("As the script", "authors")):
        failing = [r.claim.title for r in found[0] if r.case.reading == name and r.verdict is Verdict.FAILS]
        said = first.partition(f"**{reading}** (`simile.{name}`), what does not hold:\n\n- on pursuit: ")[2]
        assert said.startswith("; ".join(failing) or "nothing")
    assert sections[0].startswith("The two readings of Algorithm 2")
    assert "`LinearAutoregression(order=10, ridge=1e-05)` | `VelocityAutoregression(" in sections[0]
    assert "Holm" in sections[1]
    assert sections[2].startswith("The numbered statements")
    assert all(f"5.{n} " in sections[2] or f"5.{n}," in sections[2] for n in range(1, 9))
    assert "| Lemma 5.2 | holds for affine policies; fails for curved ones | [The mean of" in sections[2]
    assert len(sections) == 3 + len(CLAIMS)
    links = re.findall(r"\]\(([^)#]+\.(?:png|csv))\)", page)
    assert len(links) >= 2 * len(CLAIMS)
    assert all((written / link).is_file() for link in links)


def test_the_page_may_lie_elsewhere(found, tmp_path):
    some = replace(found[0], items=found[0].items[:2])
    write(some, tmp_path / "docs" / "assets" / "results", page=tmp_path / "docs" / "results.md")
    page = (tmp_path / "docs" / "results.md").read_text()
    assert "](assets/results/smooth-class.png)" in page
    assert not (tmp_path / "docs" / "assets" / "results" / "results.md").exists()


def test_a_table_of_verdicts_is_printed(found):
    text = str(found[0])
    assert all(r.name in text and str(r.verdict) in text for r in found[0])
    assert text.startswith(" " * max(len(c.name) for c in CLAIMS) + "  pursuit, as printed")


def test_equal_seeds_give_equal_numbers_apart_from_times(found):
    again = measure(seeds=(0, 1), source=SOURCE, effort=TINY, claims=["reductions", "training-time", "deterministic"])
    assert again.data == found[0].data
    for result in again:
        kept = next(r for r in found[0].of(result.name) if r.case == result.case)
        for row, other in zip(result.rows, kept.rows, strict=True):
            steady = {k for k in row if not k.startswith(TIME)}
            assert {k: row[k] for k in steady} == {k: other[k] for k in steady}


@pytest.mark.long
def test_seeds_may_be_measured_in_several_processes(found):
    together = measure(seeds=(0, 1), source=SOURCE, effort=TINY, claims=["large-step"], n_jobs=2)
    assert together["large-step"].rows == found[0]["large-step"].rows


@pytest.mark.parametrize(
    "claims", [("smooth-class", "virtual-expert", "progress"), pytest.param(None, marks=pytest.mark.long)]
)
def test_data_of_ones_own_with_two_actions_and_no_rate_are_measured(tmp_path, claims):
    source = FileSource(demos_of(70, 80, 90, 60, k=2, m=3))
    effort = Effort(n_trees=2, n_rounds=2, n_rollouts=2)
    results = measure(seeds=(0,), source=source, effort=effort, claims=claims)
    assert [c.name for c in results.claims] == [c.name for c in claims_named(claims) if c.name != "virtual-expert"]
    write(replace(results, items=tuple(r for r in results if r.traces and r.case == results.cases[0])), tmp_path)
    assert len(list(tmp_path.glob("*.png"))) == (2 if claims else 4)
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
    assert results.sources["simulated games"].startswith("CameraSource(n_games=3")
    assert all(r.effects[0].mean > 1.0 for r in results.of("smooth-class"))


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
