"""Waiting and aiming ahead where policies are learned, judged and compared: the same for all, and no given frame."""

from __future__ import annotations

import json
import math
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import simile
from commands import simile_
from simile.data import tasks
from simile.data.timing import read_known
from simile.evaluation.gate import Gate
from simile.evaluation.report.importances import measure_importances
from simile.evaluation.rivals import Behind, Bench, ContextForest, ContextRidge, Demonstrator, Filtered, NoisyHistory
from simile.evaluation.rivals.filters import EMA, Follower
from simile.evaluation.rivals.predictors import lead_source
from simile.learning.frontier import Frontier, Point, tell_waiting
from simile.learning.recipes import parse
from simile.learning.runs import RunFolder, as_command, as_script
from simile.learning.simple_filters import fit_simple_filter
from simile.learning.tuning import CrossFitting, Rounds, tune
from simile.policies.policies import given_frames, parts, timing
from simile.studio.preview import PreviewedPolicy, compute_outputs, roll

SMALL = simile.SmoothForest(n_trees=4)
DEMOS = tasks.pursuit(n_sequences=8, length=150, seed=5)  # 30 Hz
TRAIN, TEST = DEMOS[:6], DEMOS[6:]
LEADS = (-0.2, 0.4)  # seconds: 6 frames of waiting, 12 of aiming ahead


@pytest.fixture(scope="module")
def policies() -> dict[float, simile.Policy]:
    return {lead: simile.learn(TRAIN, model=SMALL, smoothness=5.0, lead=lead).policy for lead in LEADS}


@pytest.fixture(scope="module")
def knowing() -> simile.Policy:
    return simile.learn(TRAIN, model=SMALL, smoothness=5.0, lead=-0.1, known={DEMOS.context_names[0]: [0.2]}).policy


# What is scored.


@pytest.mark.parametrize("lead", LEADS)
def test_given_frames_are_never_scored(lead: float, policies):
    policy = policies[lead]
    given = max(policy.memory, round(30 * lead))
    assert given_frames(policy) == given
    found = simile.evaluate(policy, TEST)
    assert {row["frames"] for row in found.recordings()} == {150 - given}
    assert found.begin == found.reference.begin == given


def test_the_gate_scores_no_frame_that_one_of_both_was_given(policies):
    late, early = policies[0.4], policies[-0.2]
    decision = Gate().judge(early, late, TEST, TEST)
    rolled = simile.rollout(late, TEST, start=simile.ExpertStart(12))
    errors = [np.mean((a - b)[12:, 0] ** 2) for a, b in zip(rolled, TEST.actions, strict=True)]
    (rmse,) = decision.demonstrations.rmse.values()
    assert rmse == pytest.approx(math.sqrt(np.mean(errors)))


def test_no_sequence_that_is_shorter_than_what_it_aims_ahead():
    with pytest.raises(
        simile.DataError, match=r"aims 300 frames ahead and no sequence is longer .* use a smaller lead"
    ):
        simile.paper(TRAIN, model=SMALL, n_rounds=0, lead=10.0)


@pytest.mark.parametrize("lead", LEADS)
def test_the_simple_filter_waits_and_aims_as_the_policy_does(lead: float):
    run = simile.learn(TRAIN, lead=lead)
    assert timing(run.baseline)[0] == round(30 * lead)
    found = simile.evaluate(run.policy, TEST, baseline=run.baseline)
    assert all(math.isfinite(row["error"]) for row in found.rows())


def test_of_a_simple_filter_that_aims_ahead_the_first_frames_do_not_count():
    how = {"budget": math.inf, "space": simile.ActionSpace(), "seed": 0}
    late = fit_simple_filter(TRAIN, simile.Horizon(4, 0).led(20), **how)
    judged = late.mixture.judged
    off = [(a - b)[20:] ** 2 for a, b in zip(late.rolled, judged.actions, strict=True)]
    assert late.score.rmse == pytest.approx(math.sqrt(np.mean(np.concatenate(off))))
    assert timing(late.policy)[0] == 20


# Rivals of `compare`.


@pytest.mark.parametrize("lead", [-6, 12])
@pytest.mark.parametrize(
    "source", [ContextForest(SMALL), ContextRidge(), NoisyHistory((0.1,), model=SMALL), Demonstrator(1, model=SMALL)]
)
def test_every_rival_has_the_lead_of_the_bench_and_sees_the_frame_that_it_acts_for(lead: int, source):
    known = ((0, 9),)
    rival = Behind("one", source, lambda s: (Follower(s),), (0.0, 4.0))
    for point in rival.fit(Bench(TRAIN, TEST, lead=lead, known=known)).points:
        controller = point.controller
        policy = controller.predictor if isinstance(controller, Filtered) else controller
        assert timing(policy) == (lead, known)
        assert max(0, lead) in policy.horizon.offsets  # the newest context that there is for that frame, or its own
        assert min(policy.horizon.offsets) == lead
        assert given_frames(controller) >= lead
        assert math.isfinite(point.validation)


def test_rivals_without_a_lead_are_what_they_were():
    source = ContextForest(SMALL)
    assert lead_source(source, 0, ()) is source


@pytest.mark.parametrize("lead", [-6, 12])
def test_online_a_rival_that_waits_does_what_its_roll_out_does(lead: int):
    _, predictor = next(lead_source(ContextForest(SMALL), lead, ()).candidates(TRAIN, 0))
    found, demo = Filtered(predictor, EMA(4.0)), TEST[0]
    begin = found.memory
    assert begin == max(1, lead)
    rolled = found.rollout(simile.Demonstrations.of(demo))[0]
    # What would be said of the first frames is not sent: the expert acts.
    step = found.online(demo.actions[:begin])
    said = [step(x) for x in demo.contexts]
    waited = [a is None for a in said]
    assert waited == [t < -lead for t in range(len(demo))]
    assert np.isfinite(rolled).all()
    np.testing.assert_array_equal(rolled[:begin], demo.actions[:begin])
    policy = found.policy
    np.testing.assert_allclose(rolled, simile.rollout(policy, demo)[0], rtol=1e-7, atol=1e-7)


def test_all_contenders_of_a_comparison_wait_and_know_the_same():
    rivals = (Behind("forest", ContextForest(SMALL), lambda s: (EMA(s), Follower(s)), (1.0, 10.0)),)
    known = {DEMOS.context_names[0]: [0.3]}
    how = {"reductions": ("learn", "clone"), "rivals": rivals, "model": SMALL}
    found = simile.compare(TRAIN, TEST, lead=-0.2, known=known, smoothness=5.0, **how)
    assert len(found.contenders) == 3
    for contender in found.contenders:
        assert contender.standing is not None, contender.trouble
        assert contender.microseconds > 0.0
        for trial in contender.trials:
            controller = trial.controller
            policy = controller.predictor if isinstance(controller, Filtered) else controller
            assert timing(policy) == (-6, ((0, 9),))


def test_a_comparison_of_several_leads_says_what_waiting_would_buy():
    how = {"reductions": ("learn", "clone"), "rivals": (), "model": SMALL, "smoothness": 5.0}
    found = simile.compare(TRAIN, TEST, lead=(0, -0.2, 0.1), **how)
    names = [c.name for c in found.contenders]
    assert names == ["learn", "clone", "learn, 0.2 s of waiting", "learn, 0.1 s of aiming ahead"]
    assert [{timing(t.controller)[0] for t in c.trials} for c in found.contenders] == [{0}, {0}, {-6}, {3}]
    assert found.reference.begin == max(given_frames(t.controller) for c in found.contenders for t in c.trials)
    much = r"\d+\.\d % (closer|farther off)(, which may be chance)?\."
    waits, aims = (rf"At equal smoothness {time}: {much}" for time in ("0.2 s of waiting", "0.1 s of aiming ahead"))
    assert re.search(rf" {waits} {aims}$", found.tell())
    assert "best other reduction, clone" in found.tell()  # a policy with more time is no rival
    assert found.verdict.baseline == ""
    page = simile.Report.of_comparison(found)
    assert page is not None
    with pytest.raises(simile.ArgumentError, match="lead must be one number where `learn` is not among"):
        simile.compare(TRAIN, TEST, lead=(0, -0.2), reductions=("clone",), rivals=())


def test_cloning_that_waits_looks_at_the_frame_it_acts_for_and_back_from_there():
    horizon = parts(simile.clone(TRAIN, model=SMALL, lead=-0.5).policy)[0][1].horizon
    assert horizon.offsets == (-15, *range(-10, 11))
    own = simile.Horizon(context_lags=3, action_lags=2)
    kept = parts(simile.clone(TRAIN, model=SMALL, lead=-0.5, horizon=own).policy)[0][1].horizon
    assert kept == replace(own, lead=-15)  # what was said counts back from the choice


# Paths.


@pytest.fixture(scope="module")
def surface() -> Frontier:
    return simile.path(TRAIN, model=SMALL, smoothness=(3.0, 30.0), lead=(0, -0.2, 0.1))


def test_a_path_of_several_leads_has_a_path_for_each(surface: Frontier):
    assert surface.leads == (0, -6, 3)
    assert [p.lead for p in surface.points] == [0, 0, -6, -6, 3, 3]
    assert all(timing(p.policy)[0] == p.lead for p in surface.points)
    assert [row["lead"] for row in surface.rows()] == [0, 0, -6, -6, 3, 3]
    assert surface.knee().lead == 0
    assert "lead" not in simile.path(TRAIN, model=SMALL, smoothness=(3.0,), lead=-0.2).rows()[0]


def test_all_leads_of_a_path_are_scored_over_the_same_frames(surface: Frontier):
    late = simile.path(TRAIN, model=SMALL, smoothness=(3.0, 30.0), lead=(0, 0.1))
    later = simile.path(TRAIN, model=SMALL, smoothness=(3.0, 30.0), lead=(0, 0.5))
    assert [p.error for p in surface.only(0).points] == [p.error for p in late.only(0).points]
    assert [p.error for p in later.only(0).points] != [p.error for p in late.only(0).points]
    alone = simile.path(TRAIN, model=SMALL, smoothness=(3.0, 30.0), lead=0.1)
    assert [p.error for p in alone.points] == [p.error for p in surface.only(3).points]


def test_a_path_says_what_each_lead_is_worth(surface: Frontier):
    rows = surface.waiting()
    assert [row["lead"] for row in rows] == [0, -6, 3]
    assert rows[0]["ratio"] == 1.0
    told = str(surface)
    assert "lead (s)" in told
    assert "0.2 s of waiting: " in told
    assert "0.1 s of aiming ahead: " in told
    assert tell_waiting(rows, 30.0) == told.splitlines()[-2:]


def test_leads_are_compared_where_they_are_as_rough():
    points = [(2.0, 1.0, 0), (0.5, 4.0, 0), (4.0, 0.25, -3), (0.5, 1.0, -3), (3.0, 9.0, -5), (1.5, 16.0, -5)]
    made = tuple(Point(1.0, 1.0, error, rough, None, lead) for rough, error, lead in points)
    rows = Frontier(made[:4], "difference_2", None).waiting()
    assert [row["rmse"] for row in rows] == pytest.approx([2.0**0.5, 0.25 ** (1 / 6)])  # half, a third of the way
    smoothest = Frontier(made, "difference_2", None).waiting()
    assert {row["roughness"] for row in smoothest} == {1.5}
    assert smoothest[-1]["rmse"] == 4.0


def test_a_drawing_has_a_line_for_each_lead(surface: Frontier):
    labels = surface.plot().axes[0].get_legend_handles_labels()[1]
    assert labels[:3] == ["no waiting", "0.2 s of waiting", "0.1 s of aiming ahead"]


def test_a_path_needs_a_lead_and_has_only_its_own(surface: Frontier):
    with pytest.raises(simile.ArgumentError, match="lead must hold at least one number"):
        simile.path(TRAIN, lead=())
    with pytest.raises(simile.ArgumentError, match=r"lead must be one of this path, 0, -6, 3 frames; got 7"):
        surface.only(7)


# Other doors.


def test_trials_wait_as_was_asked_for_and_look_around_the_frame(tmp_path: Path):
    space = (CrossFitting(mixture=("ridge",), lag=(2.0,)), Rounds(n_rounds=(0,), trees=(3,)))
    how = {"trials": 2, "space": space, "storage": tmp_path / "kept.db"}
    tuned = tune(TRAIN, lead=-0.2, known={DEMOS.context_names[0]: [0.1]}, **how)
    assert not any(t.trouble for t in tuned.trials)
    for tried in tuned.trials:
        horizon = tried.settings["horizon"]
        assert (horizon.lead, horizon.known) == (-6, ((0, 3),))
        assert 0 in horizon.offsets
        assert parse(tried.options()["horizon"], "horizon") == horizon
    assert timing(tuned.run().policy) == (-6, ((0, 3),))
    for other in ({}, {"lead": -0.1, "known": {DEMOS.context_names[0]: [0.1]}}):
        with pytest.raises(simile.ArgumentError, match="with other lead"):
            tune(TRAIN, **how, **other)


def test_an_estimator_waits_so_many_rows():
    from simile.sklearn import SimileRegressor

    X, y = np.concatenate(TRAIN.contexts), np.concatenate(TRAIN.actions)[:, 0]
    play = np.repeat(TRAIN.names, 150)
    found = SimileRegressor(model=SMALL, smoothness=5.0, lead=-4, known={"x0": [2]}).fit(X, y, groups=play)
    assert timing(found.policy_) == (-4, ((0, 2),))
    assert found.predict(X, groups=play).shape == y.shape


def test_what_goes_on_from_a_policy_keeps_its_time(knowing: simile.Policy):
    new = tasks.pursuit(n_sequences=4, length=120, seed=9)
    run = simile.learn(new, model=SMALL, smoothness=5.0, initial=knowing)
    assert timing(run.policy) == timing(knowing) == (-3, ((0, 6),))
    with pytest.raises(simile.ArgumentError, match="lead must be that of initial, -3"):
        simile.learn(new, initial=knowing, lead=-0.5)


def test_a_recipe_of_a_horizon_says_the_lead():
    text = "Horizon(context_lags=(0, 4), action_lags=(), lead=-15, known=((0, 30),))"
    assert repr(parse(text, "horizon")) == text


def test_what_only_is_known_ahead_is_made_of_the_data(knowing: simile.Policy):
    assert math.isfinite(simile.evaluate(knowing, TEST).verdict.over_hold.value)
    assert simile.diagnose(knowing, TEST).roughness_budget > 0.0
    found = measure_importances(knowing, TEST.foretell(timing(knowing)[1]))
    assert found is not None
    assert f"{DEMOS.context_names[0]}[t+6]" in found.contexts
    assert min(found.lags) == -3


@pytest.mark.parametrize("lead", [*LEADS, None])
def test_a_preview_of_the_studio_is_the_roll_out(lead: float | None, policies, knowing):
    policy = knowing if lead is None else policies[lead]
    subject = PreviewedPolicy(policy, TRAIN)
    assert subject.linear is not None
    shown = roll(subject, TEST[0], None, compute_outputs(subject.linear, TEST[0]))
    assert shown.begins == given_frames(policy)
    np.testing.assert_allclose(shown.actions, simile.rollout(policy, TEST[0])[0], rtol=1e-9, atol=1e-9)


# The command line.

QUICK = ("--actions", "pan", "--model", "SmoothForest(n_trees=4)")


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "games.csv"
    simile.write(DEMOS, path)
    return path


@pytest.fixture(scope="module")
def trained(games: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    time = ("--lead", "-0.2", "--known", f"{DEMOS.context_names[0]}=0.1,0.3")
    done = simile_("train", games, *QUICK, "--smoothness", "5", *time, cwd=folder)
    assert done.stderr.count("waits 6 frames (0.2 s): the answer to a frame comes with the 6th after it") == 1
    assert f"{DEMOS.context_names[0]}[t+3], {DEMOS.context_names[0]}[t+9]" in done.stderr
    return folder / "run"


def test_train_keeps_lead_and_what_is_known(trained: Path):
    config = tomllib.loads((trained / "config.toml").read_text())
    assert (config["lead"], config["known"]) == (-0.2, [f"{DEMOS.context_names[0]}=0.1,0.3"])
    assert timing(simile.load(trained / "policy.safetensors")) == (-6, ((0, 3), (0, 9)))
    assert "--lead=-0.2 --known" in as_command("train", config)
    assert f"lead=-0.2, known={{'{DEMOS.context_names[0]}': (0.1, 0.3)}}" in as_script("train", config)
    page = (trained / "report.html").read_text()
    assert "waits 6 frames" in page


def test_a_policy_file_says_how_long_it_waits(trained: Path, tmp_path: Path):
    told = simile_("inspect", trained / "policy.safetensors", cwd=tmp_path).stdout
    assert "waits 6 frames (0.2 s)" in told
    header = json.loads(simile_("inspect", trained / "policy.safetensors", "--json", cwd=tmp_path).stdout)
    assert header["structure"]["lead"] == -6


def test_other_commands_read_the_columns_that_were_recorded(trained: Path, games: Path, tmp_path: Path):
    policy = trained / "policy.safetensors"
    assert "policy" in simile_("evaluate", policy, games, cwd=tmp_path).stdout
    simile_("rollout", policy, games, cwd=tmp_path)
    assert simile.read(tmp_path / "rolled.csv", actions="pan", quiet=True).context_names == DEMOS.context_names
    simile_("report", trained, games, "--out", "page.html", cwd=tmp_path)


def test_the_rivals_of_a_training_by_rounds_wait_too(games: Path, tmp_path: Path):
    how = ("--algorithm", "paper", "--n-rounds", "1", "--no-report")
    done = simile_("train", games, *QUICK, *how, "--lead", "-0.2", "--known", "player*=0.1", cwd=tmp_path)
    assert "best simple filter" in done.stdout


def test_a_comparison_of_several_leads_is_written_down(tmp_path: Path):
    simile.write(tasks.pursuit(n_sequences=4, length=80, seed=5), tmp_path / "few.csv")
    how = ("--reductions", "learn", "--no-rivals", "--smoothness", "5", "--lead", "0", "--lead", "-0.1")
    done = simile_("compare", "few.csv", "--actions", "pan", *how, cwd=tmp_path)
    assert "0.1 s of waiting: " in done.stdout
    folder = RunFolder(tmp_path / "comparison")
    assert folder.config["lead"] == [0.0, -0.1]
    assert "--lead 0.0 --lead=-0.1" in folder.command
    assert "lead=[0.0, -0.1]" in folder.python
    assert "0.1 s of waiting: " in (tmp_path / "comparison" / "report.html").read_text()
    simile_("compare", "--config", folder.path / "config.toml", "--out", "again", cwd=tmp_path)
    again = (tmp_path / "again" / "comparison.json").read_text()
    assert json.loads(again)["verdict"] == folder.comparison()["verdict"]
    simile_("report", folder.path, cwd=tmp_path)


MISTAKES = {
    "no seconds": (["--known", "curve"], "known must be PATTERN=SECONDS, such as 'curv_*=1.0' or 'score=0.5,1'"),
    "no number": (["--known", "curve=soon"], "got 'curve=soon'"),
    "no column": (["--known", "curve=1"], "known must name contexts; got 'curve'"),
    "behind": (["--known", "player0=-1"], "known must be ahead"),
    "endless": (["--lead", "1e9"], "lead must be at most"),
    "two leads": (["--lead", "-1", "--horizon", "Horizon(1, 0, lead=-3)"], "lead must be that of the horizon, -3"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_about_time_gets_one_clear_sentence(case: str, games: Path, tmp_path: Path):
    arguments, word = MISTAKES[case]
    done = simile_("train", games, "--actions", "pan", *arguments, cwd=tmp_path, code=2)
    assert word in done.stderr


def test_several_ways_to_say_what_is_known():
    assert read_known(["a=1", "d=2,0.5", "b=c=1"]) == {"a": 1.0, "d": (2.0, 0.5), "b=c": 1.0}
    with pytest.raises(simile.ArgumentError, match="each once; got 'a=2'"):
        read_known(["a=1", "a=2"])
