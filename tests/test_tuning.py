"""The search: what it tries, what it keeps, what it refuses, and that what it finds can be had again."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("optuna")

import simile
from conftest import demos_of
from simile.data import tasks
from simile.data.reference import Reference
from simile.learning import measures
from simile.learning.components import MODELS
from simile.learning.distributed.backend import LocalBackend
from simile.learning.recipes import as_python, parse
from simile.learning.runs import DEFAULTS, RECIPES, RunFolder, as_command, as_script
from simile.learning.runs import settings as settings_of
from simile.learning.tuning import Ask, Between, Conditions, CrossFitting, Rounds, Tried, Tuned, search, tune
from simile.learning.tuning.spaces import label, suggest
from simile.learning.tuning.trials import Split, run_trial, train
from simile.policies.storage.files import to_bytes

DEMOS = tasks.pursuit(n_sequences=6, length=120, seed=5)
CONDITIONS = Conditions(DEMOS, 1.0, 0)
LINES = CrossFitting(mixture=("hinges", "hinges+ridge", "ridge"), stretch=(0.5, 1.0), lag=Between(1.0, 12.0, log=True))
FOREST = simile.SmoothForest(n_trees=2, min_leaf=8)


@dataclass
class Chooses:
    """A trial of Optuna that chooses by a function of the name and either a list of labels or a range."""

    choose: Callable[[str, Any], Any]

    def suggest_categorical(self, name: str, labels: list[str]) -> str:
        return self.choose(name, labels)

    def suggest_float(self, name: str, low: float, high: float, *, log: bool) -> float:
        return self.choose(name, Between(low, high, log))

    suggest_int = suggest_float


def draw(space: Any, choose: Callable[[str, Any], Any]) -> dict[str, Any]:
    return space.draw(partial(suggest, Chooses(choose), type(space).__name__), CONDITIONS)


def found(tuned: Tuned) -> list[tuple[Any, ...]]:
    return [(t.number, dict(t.knobs), t.rmse, t.roughness, t.pruned, t.trouble) for t in tuned.trials]


# What there is to choose from


@given(st.data(), st.sampled_from([CrossFitting(lag=Between(0.5, 50.0, log=True)), Rounds()]))
def test_whatever_is_drawn_can_be_written_in_a_command_and_read_back(data: st.DataObject, space: Any):
    def choose(name: str, options: Between | list[str]) -> Any:
        if isinstance(options, list):
            return data.draw(st.sampled_from(options))
        kind = st.integers if options.whole else st.floats
        return data.draw(kind(options.low, options.high))

    settings = draw(space, choose)
    written = Tried(0, {}, settings).options()
    assert written is not None
    for name, value in written.items():
        assert label(parse(value, name) if name in RECIPES else value) == label(settings[name])


def test_the_first_trial_of_the_rounds_is_the_paper_as_printed_and_the_authors_script_is_among_them():
    first: dict[str, Any] = {}
    Rounds().draw(partial(suggest, first, "Rounds"), CONDITIONS)

    def draw_labels(wanted: Any) -> dict[str, Any]:
        def choose(name: str, options: Between | list[str]) -> Any:
            if isinstance(options, Between):
                return first[name]
            return next((o for o in options if o in map(label, wanted)), first[name])

        return {name: label(value) for name, value in draw(Rounds(), choose).items()}

    for preset, wanted in ((simile.PRINTED, ()), (simile.AUTHORS, (simile.Criterion.LABELS, *simile.AUTHORS.values()))):
        drawn = draw_labels(wanted)
        assert drawn["algorithm"] == "paper"
        assert {name: drawn[name] for name in preset if name in drawn} == {
            name: label(preset[name]) for name in preset if name in drawn
        }


def test_bounds_and_estimators_of_scikit_learn_can_be_written_too():
    from sklearn.linear_model import Ridge

    space = simile.ActionSpace(low=-90, high=[90, 45])
    written = Tried(0, {}, {"space": space, "model": (Ridge(alpha=2.0), FOREST), "seed": 3}).options()
    assert written is not None
    assert written["space"] == "ActionSpace(low=-90.0, high=[90.0, 45.0])"
    assert written["model"].startswith("(sklearn.linear_model.Ridge(alpha=2.0), SmoothForest(")
    assert Tried(0, {}, {"model": object()}).options() is None


def test_the_first_trial_is_the_default_of_learn_within_the_budget():
    tuned = tune(DEMOS, trials=1, space=CrossFitting())
    (first,) = tuned.trials
    assert label(first.settings["model"]) == label(MODELS)
    assert first.settings["horizon"] == simile.Horizon.auto(DEMOS.rate)
    assert first.settings["smoothness"] == simile.MatchExpert(1.0)
    default, again = simile.learn(tuned.split.train), train(tuned.split.train, first.settings)
    assert to_bytes(default.policy) == to_bytes(again.policy)


def test_hold_may_be_a_knob_and_comes_through_config_command_and_script(tmp_path: Path):
    ways = (0.1, simile.Hold(0.05, stepping=True))
    tuned = tune(DEMOS, trials=8, space=CrossFitting(mixture=("ridge",), stretch=(0.5,), lag=(4.0,), hold=ways))
    each = {t.knobs["CrossFitting.hold"]: t for t in tuned.trials}
    assert set(each) == set(map(label, ways))
    for hold, trial in each.items():
        again = train(tuned.split.train, trial.settings).policy
        assert np.array_equal(again.hold.stepping, [hold != "0.1"])
        written = trial.options()
        assert written is not None
        assert f"--hold {shlex.quote(hold)}" in as_command("train", {"data": "d.csv", **written})
        script = as_script("train", {**DEFAULTS, "data": "d.csv", **written})
        assert f"hold={as_python(hold)[0]}" in script
        folder = RunFolder(tmp_path / str(trial.number))
        folder.path.mkdir()
        folder.write_config({**DEFAULTS, "data": "d.csv", **written})
        read = settings_of(RunFolder(folder.path).config)
        assert to_bytes(train(tuned.split.train, read).policy) == to_bytes(again)


def test_left_alone_a_trial_holds_as_learn_does():
    (first,) = tune(DEMOS, trials=1, space=CrossFitting(mixture=("ridge",), stretch=(0.5,), lag=(4.0,))).trials
    assert "hold" not in first.settings


def test_each_action_begins_with_the_smoothness_that_learn_would_give_it():
    demos = demos_of(*[150] * 5, k=2, seed=4)
    noise = [0.3 * np.random.default_rng(i).normal(size=(len(a), 1)) for i, a in enumerate(demos.actions)]
    noisy = demos.with_actions([np.hstack([a[:, :1], a[:, 1:] + n]) for a, n in zip(demos.actions, noise, strict=True)])
    conditions = Conditions(noisy, 1.0, 0)
    smoothness = simile.learn(noisy).policy.smoothness
    assert len(set(smoothness)) == 2
    first = CrossFitting(mixture=("ridge",)).draw(lambda name, options, first=None: first, conditions)
    assert np.array_equal(train(noisy, first).policy.smoothness, smoothness)
    written = Tried(0, {}, first).options()
    assert written is not None
    assert parse(written["smoothness"], "smoothness") == first["smoothness"]


def test_left_alone_a_trial_chooses_lambda_as_learn_does_for_a_roughness_around_the_budget():
    space = CrossFitting(mixture=("ridge",), stretch=(0.5,))
    for budget, low, high in ((0.8, 0.4, 1.0), (None, 0.1, 2.0)):
        tuned = tune(DEMOS, trials=6, space=space, budget=budget)
        ratios = [t.settings["smoothness"].ratio for t in tuned.trials]
        assert ratios[0] == (budget or 1.0)
        assert len(set(ratios)) == 6
        assert all(low <= ratio <= high for ratio in ratios)
        assert "--smoothness 'MatchExpert(" in (tuned.command() or "")
    named = tune(DEMOS, trials=1, space=CrossFitting(mixture=("ridge",), roughness=(0.7,)))
    assert named.best["smoothness"] == simile.MatchExpert(0.7)


def test_each_space_begins_with_its_own_default():
    tuned = tune(DEMOS, trials=2, space=[LINES, Rounds(n_rounds=(1,), trees=(2,))])
    assert [t.knobs["way"] for t in tuned.trials] == ["CrossFitting", "Rounds"]
    assert tuned.trials[1].settings["step_size"] == simile.ErrorRatio()
    assert tuned.trials[1].settings["n_rounds"] == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Between(2, 1), "high must be >= 2"),
        (lambda: Between(0, 1, log=True), "low must be > 0"),
        (lambda: CrossFitting(mixture=("trees",)), "mixture must be of forest, hinges, ridge"),
        (lambda: tune(DEMOS, space=()), "space must hold at least one"),
        (lambda: tune(DEMOS, space=CrossFitting), "write CrossFitting"),
        (lambda: tune(DEMOS, space=(LINES, LINES)), "one space of each kind"),
        (lambda: tune(DEMOS, trials=0), "trials must be >= 1"),
        (lambda: tune(DEMOS, budget=-1.0), "budget must be > 0"),
        (lambda: tune(DEMOS, jobs=0), "jobs must be >= 1"),
        (lambda: tune(DEMOS, validation=tasks.pursuit(1, 50, n_players=2)), "validation must have the columns"),
        (lambda: tune(DEMOS, trials=1, space=CrossFitting(knots=(3, 3), lag=(2.0,))), "knots must have one option"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(wrong: Any, said: str):
    with pytest.raises(simile.ArgumentError, match=said):
        wrong()


def test_without_optuna_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(simile.ArgumentError, match=r"pip install 'smooth-imitation\[tune\]'"):
        tune(DEMOS, trials=1)


# What it finds


@pytest.fixture(scope="module")
def tuned() -> Tuned:
    return tune(DEMOS, trials=14, space=LINES, budget=1.2)


def test_the_best_settings_train_the_policy_that_was_judged_to_the_bit(tuned: Tuned):
    again = train(tuned.split.train, tuned.best)
    outcome = measures.outcome(again.policy, tuned.split.validation)
    assert math.sqrt(outcome.error) == tuned.chosen.rmse
    assert Reference(tuned.split.validation).measure(outcome.rolled).roughness == tuned.chosen.roughness


def test_rounds_are_reproduced_too_and_the_last_one_counts():
    space = Rounds(n_rounds=(2, 3), trees=(2, 4), past=(3,), features=("sqrt",), leaves=(6, 9))
    tuned = tune(DEMOS, trials=3, space=space, budget=50.0)
    again = train(tuned.split.train, tuned.best)
    assert again.chosen.number == tuned.best["n_rounds"]
    assert math.sqrt(measures.outcome(again.policy, tuned.split.validation).error) == tuned.chosen.rmse
    assert tuned.best["model"].max_leaves in (6, 9)


def test_run_trains_on_all_sequences_and_may_be_changed(tuned: Tuned):
    seen: list[Any] = []
    run = tuned.run(watch=seen.append)
    assert run.policy.card.training["sequences"] == len(DEMOS)
    assert seen[-1] is run.chosen


def test_no_trial_trains_on_what_judges_it(tuned: Tuned):
    train, judges = (set(part.names) for part in (tuned.split.train, tuned.split.validation))
    assert not train & judges
    assert train | judges == set(DEMOS.names)
    own = tune(DEMOS[:4], trials=1, space=LINES, validation=DEMOS[4:])
    assert own.split.validation.names == DEMOS.names[4:]
    assert len(own.demos) == 6


def test_the_budget_is_kept_and_what_is_too_rough_is_marked(tuned: Tuned):
    assert tuned.chosen.roughness <= 1.2
    rough = [t for t in tuned.trials if t.complete and t.roughness > 1.2]
    assert rough
    assert min(t.rmse for t in rough) < tuned.chosen.rmse  # accuracy alone would have chosen otherwise
    table = str(tuned)
    assert table.count("<- best") == 1
    assert "too rough  CrossFitting: mixture=" in table
    assert f"14 trials: 14 complete ({len(rough)} too rough)" in table
    assert "chose among them" in table


def test_where_nothing_is_smooth_enough_the_smoothest_is_taken_and_it_is_said():
    tuned = tune(DEMOS, trials=3, space=CrossFitting(mixture=("ridge",), lag=(1.0, 2.0)), budget=0.01)
    assert tuned.chosen.roughness == min(t.roughness for t in tuned.trials)
    assert "no trial is as smooth as asked for (0.01)" in str(tuned)


def test_without_a_budget_the_frontier_is_what_nobody_beats():
    tuned = tune(DEMOS, trials=12, space=LINES, budget=None)
    front = tuned.frontier
    assert len(front) > 1
    assert [t.roughness for t in front] == sorted((t.roughness for t in front), reverse=True)
    assert [t.rmse for t in front] == sorted(t.rmse for t in front)
    assert tuned.at(roughness=front[-1].roughness) is front[-1]
    with pytest.raises(simile.ArgumentError, match="roughness must be at least"):
        tuned.at(roughness=front[-1].roughness / 2.0)
    assert str(tuned).count("CrossFitting:") == len(front)


@given(st.lists(st.tuples(st.floats(0.1, 2.0), st.floats(0.1, 2.0)), min_size=1, max_size=12))
def test_a_trial_is_on_the_frontier_or_beaten_by_one_that_is(points: list[tuple[float, float]]):
    trials = tuple(Tried(i, {}, {}, rmse, rough) for i, (rmse, rough) in enumerate(points))
    front = Tuned(trials, None, Split(DEMOS, DEMOS), DEMOS).frontier
    for t in trials:
        assert t in front or any(f.rmse <= t.rmse and f.roughness <= t.roughness for f in front)
    for a in front:
        assert not any(b.rmse <= a.rmse and b.roughness <= a.roughness for b in front if b is not a)


def test_a_command_says_only_what_differs_from_the_defaults(tuned: Tuned):
    command = tuned.command("games.csv")
    assert command is not None
    assert command.startswith("simile train games.csv --model '(Ridge(")
    assert "alphas" not in command
    own = Tuned((Tried(0, {}, {"model": object()}, 0.1, 0.1),), 1.0, Split(DEMOS, DEMOS), DEMOS)
    assert own.command() is None


def test_a_search_is_quiet_and_leaves_the_voice_of_optuna_as_it_was(capfd: pytest.CaptureFixture[str]):
    import optuna

    before = optuna.logging.get_verbosity()
    watched: list[Tried] = []
    tune(DEMOS, trials=2, space=LINES, watch=watched.append)
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == before
    assert [t.number for t in watched] == [0, 1]


# Bad trials


class Raises:
    def fit(self, S: Any, Y: Any) -> Any:
        raise RuntimeError("no luck")

    def __repr__(self) -> str:
        return "Raises()"


class Dies:
    def fit(self, S: Any, Y: Any) -> Any:
        os._exit(1)

    def __repr__(self) -> str:
        return "Dies()"


@dataclass(frozen=True)
class Mine:
    """A space of one's own: any model, at one smoothness."""

    models: tuple[Any, ...]

    def draw(self, ask: Ask, conditions: Conditions) -> dict[str, Any]:
        model = ask("model", self.models)
        if model == "refused":
            raise simile.ArgumentError("these do not go together")
        return {"algorithm": "authors", "model": model, "smoothness": 20.0, "n_rounds": 3, "validation": 0.0}


def test_a_bad_trial_is_told_with_its_reason_and_ends_nothing():
    tuned = tune(DEMOS, trials=8, space=Mine((FOREST, Raises(), "refused")), budget=50.0)
    told = {t.trouble for t in tuned.trials}
    assert told == {"", "RuntimeError: no luck", "these do not go together"}
    assert len(tuned.trials) == 8
    assert "failed: " in str(tuned)


def test_where_every_trial_fails_the_reason_is_said():
    tuned = tune(DEMOS, trials=2, space=Mine((Raises(),)))
    with pytest.raises(simile.DataError, match="none of 2 trials could be completed: RuntimeError: no luck"):
        _ = tuned.best


def test_sequences_that_are_too_short_are_a_reason_too():
    short = simile.Demonstrations((*tasks.pursuit(3, 100)[:], *tasks.pursuit(1, 8)))
    settings = {"algorithm": "paper", "model": FOREST, "n_rounds": 1, "smoothness": 20.0}
    tried, _ = run_trial(Split(short[:3], short[3:]), Tried(0, {}, settings))
    assert "no sequence is longer" in tried.trouble
    assert math.isnan(tried.rmse)


def test_trials_that_do_badly_round_after_round_are_given_up():
    stump = simile.SmoothForest(n_trees=2, max_depth=0)
    leaves = tuple(simile.SmoothForest(n_trees=2, min_leaf=n) for n in (4, 6, 8))
    tuned = tune(DEMOS, trials=16, space=Mine((*leaves, stump)), budget=50.0)
    given_up = [t for t in tuned.trials if t.pruned]
    assert given_up
    assert tuned.chosen not in given_up
    assert f"{len(given_up)} given up early" in str(tuned)


def test_processes_and_a_backend_prune_too_and_find_the_same():
    models = (
        *(simile.SmoothForest(n_trees=2, min_leaf=n) for n in (4, 6)),
        simile.SmoothForest(n_trees=2, max_depth=0),
    )
    how = {"trials": 18, "space": Mine(models), "budget": 50.0, "jobs": 2}
    here, there = (tune(DEMOS, **how, backend=backend) for backend in (None, LocalBackend()))
    assert found(here) == found(there)
    assert any(t.pruned for t in here.trials)


def test_a_mixture_is_judged_when_it_is_done_and_never_given_up(monkeypatch: pytest.MonkeyPatch):
    def unpruned(split: Split, tried: Tried, budget: float, pruning: Any) -> Any:
        assert (pruning is None) == (tried.settings.get("algorithm", "learn") == "learn")
        return run_trial(split, tried, budget, pruning)

    with monkeypatch.context() as patch:
        patch.setattr(search, "run_trial", unpruned)
        assert len(tune(DEMOS, trials=2, space=[LINES, Rounds(n_rounds=(1,), trees=(2,))]).trials) == 2
    settings, split = (
        {"model": (simile.Ridge(knots=2), simile.Ridge()), "smoothness": 20.0},
        Split(DEMOS[:4], DEMOS[4:]),
    )
    tried, objectives = run_trial(split, Tried(0, {}, settings), 1.0)
    assert not objectives
    assert not tried.pruned
    assert not tried.trouble
    turn = simile.learn(split.train, **settings, validation=split.validation).chosen
    assert (tried.rmse, tried.roughness) == (math.sqrt(turn.validation_error), turn.validation_roughness)
    outcome = measures.outcome(simile.learn(split.train, **settings).policy, split.validation)
    assert tried.rmse == math.sqrt(outcome.error)


@pytest.mark.long
def test_a_network_may_join_the_mixture():
    pytest.importorskip("torch")
    from simile.models.neural import MLP, TorchRegressor

    network = TorchRegressor(MLP((4,)), epochs=2)
    space = CrossFitting(mixture=("ridge",), extra=(network,), lag=(4.0,))
    settings = draw(space, lambda name, options: options[-1])
    assert settings["model"] == (simile.Ridge(), network)
    tried, _ = run_trial(Split(DEMOS[:4], DEMOS[4:]), Tried(0, {}, settings))
    assert not tried.trouble
    assert math.isfinite(tried.rmse)


# Again, and elsewhere


@pytest.fixture(scope="module")
def searched() -> Tuned:
    """So many trials that the last ones learn from those before them."""
    return tune(DEMOS, trials=12, space=LINES)


def test_the_same_seed_gives_the_same_search_and_another_one_another(searched: Tuned):
    assert found(tune(DEMOS, trials=12, space=LINES)) == found(searched)
    assert found(tune(DEMOS, trials=4, space=LINES, seed=1)) != found(searched)[:4]


def test_a_search_that_is_taken_up_goes_on_as_if_it_had_never_stopped(searched: Tuned, tmp_path: Path):
    storage = tmp_path / "deep" / "tune.db"
    part = tune(DEMOS, trials=5, space=LINES, storage=storage)
    whole = tune(DEMOS, trials=12, space=LINES, storage=storage)
    assert found(whole)[:5] == found(part)
    assert found(whole) == found(searched)
    watched: list[Tried] = []
    again = tune(DEMOS, trials=12, space=LINES, storage=str(storage), watch=watched.append)
    assert not watched
    assert found(again) == found(whole)
    assert label(again.best) == label(whole.best)


def test_ctrl_c_keeps_what_there_is_and_the_trial_under_way_is_tried_again(
    searched: Tuned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):

    calls: list[Any] = []

    def interrupted(split: Split, tried: Tried, *rest: Any) -> Any:
        calls.append(tried.settings)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run_trial(split, tried, *rest)

    storage = tmp_path / "tune.db"
    with monkeypatch.context() as patch:
        patch.setattr(search, "run_trial", interrupted)
        part = tune(DEMOS, trials=5, space=LINES, storage=storage)
    assert part.interrupted
    assert len(part.trials) == 2
    assert "interrupted after 2 trials" in str(part)
    whole = tune(DEMOS, trials=5, space=LINES, storage=storage)
    assert not whole.interrupted
    assert len(whole.trials) == 5
    assert label(whole.trials[2].settings) == label(calls[2])
    assert not any(t.trouble for t in whole.trials)
    longer = tune(DEMOS, trials=12, space=LINES, storage=storage)
    assert [one[1:] for one in found(longer)] == [one[1:] for one in found(searched)]  # but for the numbers


def test_ctrl_c_before_the_first_trial_is_an_interruption(monkeypatch: pytest.MonkeyPatch):

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "run_trial", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(DEMOS, trials=2, space=LINES)


def test_a_study_of_other_data_or_other_choices_is_refused_with_the_way_out(tmp_path: Path):
    storage = tmp_path / "tune.db"
    tune(DEMOS, trials=1, space=LINES, storage=storage)
    other = tasks.pursuit(n_sequences=6, length=120, seed=6)
    with pytest.raises(simile.ArgumentError, match=r"with other data\. Go on with those, or begin another: study="):
        tune(other, trials=1, space=LINES, storage=storage)
    with pytest.raises(simile.ArgumentError, match=r"with other budget: 1\.0 there, 2\.0 here"):
        tune(DEMOS, trials=1, space=LINES, storage=storage, budget=2.0)
    with pytest.raises(simile.ArgumentError, match="with other space"):
        tune(DEMOS, trials=1, space=CrossFitting(), storage=storage)
    with pytest.raises(simile.ArgumentError, match="with other"):
        tune(DEMOS, trials=1, space=LINES, storage=storage, budget=None)
    assert len(tune(other, trials=1, space=LINES, storage=storage, study="another").trials) == 1


@dataclass(frozen=True, repr=False)
class Ridges:
    """A space of one's own that does not tell its options."""

    names: tuple[str, ...]

    def __repr__(self) -> str:
        return "Ridges()"

    def draw(self, ask: Ask, conditions: Conditions) -> dict[str, Any]:
        for name in self.names:
            ask(name, Between(0.5, 2.0))
        return {"model": simile.Ridge(), "smoothness": 20.0}


def test_a_space_of_ones_own_that_has_changed_since_is_refused(tmp_path: Path):
    storage = tmp_path / "tune.db"
    tune(DEMOS, trials=1, space=Ridges(("alpha",)), storage=storage)
    with pytest.raises(
        simile.ArgumentError, match=r"space cannot be that of trial 0 .*beta.* or begin another: study="
    ):
        tune(DEMOS, trials=2, space=Ridges(("alpha", "beta")), storage=storage)


@pytest.mark.parametrize("address", ["{}", "sqlite:///{}"])
def test_one_process_at_a_time_searches_in_a_study_and_others_in_others(tmp_path: Path, address: str):
    storage = address.format(tmp_path / "tune.db")
    refused: list[str] = []

    def come_meanwhile(_: Tried) -> None:
        with pytest.raises(simile.ArgumentError) as trouble:
            tune(DEMOS, trials=3, space=LINES, storage=tmp_path / "tune.db")
        refused.append(str(trouble.value))
        assert len(tune(DEMOS, trials=1, space=LINES, storage=storage, study="a/b: c").trials) == 1

    whole = tune(DEMOS, trials=2, space=LINES, storage=storage, watch=come_meanwhile)
    assert found(whole) == found(tune(DEMOS, trials=2, space=LINES))  # nothing of the other's came in between
    assert refused == [
        f"storage: {tmp_path / 'tune.db'} holds a study 'simile' that process {os.getpid()} is at work on: wait for "
        "it, or begin another: study='another name', or another storage"
    ] * len(refused)
    assert len(refused) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["tune.db"]  # no lock is left


def test_a_file_that_is_no_storage_is_refused(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("nothing of the kind\n" * 100)
    with pytest.raises(simile.StorageError, match="cannot be used"):
        tune(DEMOS, trials=1, space=LINES, storage=tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text().startswith("nothing")


def test_a_backend_does_the_same_trials_in_batches(searched: Tuned):
    assert found(tune(DEMOS, trials=4, space=LINES, backend=LocalBackend())) == found(searched)[:4]
    batches = [tune(DEMOS, trials=5, space=LINES, backend=LocalBackend(), jobs=3) for _ in range(2)]
    assert found(batches[0]) == found(batches[1])
    assert len(batches[0].trials) == 5


def test_processes_share_the_trials_and_one_that_dies_takes_only_its_own_with_it(tmp_path: Path):
    tuned = tune(
        DEMOS, trials=4, space=Mine((FOREST, Dies())), budget=50.0, jobs=2, storage=tmp_path / "tune.db", seed=1
    )
    assert sorted(t.number for t in tuned.trials) == list(range(4))
    told = [t.trouble for t in tuned.trials]
    assert any("its process died" in trouble for trouble in told)
    assert "" in told
    again, _ = run_trial(tuned.split, Tried(0, {}, tuned.best))
    assert again.rmse == tuned.chosen.rmse


def test_an_expert_who_never_moves_sets_no_budget():
    still = simile.Demonstrations.from_arrays(
        [np.random.default_rng(i).normal(size=(60, 2)) for i in range(4)], [np.arange(60.0) * 0.0 + 1.0] * 4
    )
    tuned = tune(still, trials=2, space=LINES)
    assert math.isnan(tuned.chosen.roughness)
    assert len(tuned.frontier) == 1
