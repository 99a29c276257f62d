"""`learn` with a backend is `learn`: the same policy file, byte for byte, for any number of parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import ExtraTreeRegressor

import simile
from conftest import demos_of
from same import differences
from simile import ArgumentError, Demonstrations, Horizon, LocalBackend, MatchExpert, Ridge, SmoothForest
from simile.data import tasks
from simile.data.recorded import Units
from simile.learning import bounds, measures, mixture
from simile.learning.checkpoints import Checkpointed
from simile.learning.distributed import DistributedDemonstrations, bring_here
from simile.learning.tuning import CrossFitting
from simile.models import ridge, trees

PURSUIT = tasks.pursuit(n_sequences=5, length=120, n_players=2)
FOREST = SmoothForest(n_trees=4, min_leaf=5)
QUICK = {"model": (FOREST, Ridge(knots=2), Ridge()), "smoothness": 20.0}


def written(policy: simile.Policy, folder: Path) -> bytes:
    policy.save(folder / "policy.safetensors")
    return (folder / "policy.safetensors").read_bytes()


def check_same(demos: Demonstrations, folder: Path, *parts: int, **settings: Any) -> simile.Run:
    """Learn in one place and in parts: policy, file, notes, simple filter and what it did unseen are the same."""
    local = simile.learn(demos, **settings)
    for n in parts:
        spread = simile.learn(demos, **settings, backend=LocalBackend(parts=n))
        assert written(local.policy, folder) == written(spread.policy, folder)
        assert (local.notes, local.new, local.interrupted) == (spread.notes, spread.new, spread.interrupted)
        for a, b in zip(local.rounds, spread.rounds, strict=True):
            assert differences(a.measured(), b.measured()) == []
            assert differences(a.policy, b.policy) == []
            assert differences(a.rolled, b.rolled) == []
            assert a.targets == b.targets == []
        assert (local.mixed, str(local)) == (spread.mixed, str(spread))
        assert differences(list(local.judged.demos), list(spread.judged.demos)) == []
        assert differences(local.verdict, spread.verdict) == []
        told = [None if r is None else (r.name, r.score, r.policy) for r in (local.simple, spread.simple)]
        assert differences(*told) == []
        if local.frontier is not None:
            assert spread.frontier is not None
            assert local.frontier.rows() == spread.frontier.rows()
    return local


def grouped(demos: Demonstrations, groups: str) -> Demonstrations:
    return Demonstrations(demos.items, groups=tuple(groups))


def noisy(k: int = 2) -> Demonstrations:
    """Sequences of all lengths with values missing, and one context that is never there."""
    demos, rng = demos_of(60, 7, 45, 80, 1, 30, k=k, m=3, rate=30.0), np.random.default_rng(0)
    items = []
    for d in demos:
        x = np.where(rng.random(d.contexts.shape) < 0.1, np.nan, d.contexts)
        x[:, 2] = np.nan
        items.append(replace(d, contexts=x))
    return Demonstrations(tuple(items))


def test_the_default_is_that_of_one_machine(tmp_path):
    check_same(PURSUIT, tmp_path, 2, 5)


def test_all_actions_missing_values_and_odd_lengths(tmp_path):
    check_same(noisy(), tmp_path, 1, 3, 6, **QUICK)
    check_same(noisy(), tmp_path, 3, **{**QUICK, "smoothness": (3.0, 20.0)})


@pytest.mark.parametrize("lengths", [(150,), (90, 130), (300, 20, 40)])
def test_few_sequences_are_cut_into_pieces_where_they_lie(lengths, tmp_path):
    check_same(demos_of(*lengths), tmp_path, 2, **QUICK)


def test_of_many_frames_some_do(tmp_path, monkeypatch):
    demos = tasks.pursuit(n_sequences=40, length=60, n_players=2)
    all_of_them = simile.learn(demos, **{**QUICK, "smoothness": MatchExpert()})
    monkeypatch.setattr(mixture, "MOST_FRAMES", 1000)
    monkeypatch.setattr(trees, "STRETCH", 25)
    monkeypatch.setattr(ridge, "MOST_SUMMED", 1000)
    monkeypatch.setattr(ridge, "FEWEST_SUMMED", 3)
    models = (replace(FOREST, max_frames=200), *QUICK["model"][1:])
    some = check_same(demos, tmp_path, 3, 7, model=models)
    assert len(some.judged.demos) == len(some.chosen.rolled) == 16
    ours, theirs = some.chosen, all_of_them.chosen  # a little worse, and of another filter
    assert ours.radius != theirs.radius
    others = tasks.pursuit(n_sequences=40, length=60, n_players=2, seed=1)
    errors = [measures.outcome(turn.policy, others).error for turn in (ours, theirs)]
    assert 0.5 < errors[0] / errors[1] < 3.0


@given(st.lists(st.integers(1, 9), min_size=2, max_size=8), st.integers(2, 4), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=25)
def test_the_bounds_without_a_fold_are_those_of_the_others_wherever_they_lie(lengths, n_folds, parts, seed):
    demos = demos_of(*lengths, k=2, seed=seed)
    fold = np.arange(len(demos)) % n_folds
    units = Units.of(demos)
    spread = DistributedDemonstrations.of(demos, LocalBackend(parts=parts)).standardize(units)
    demos = demos.standardize(units)
    wanted = [bounds.learn_space(demos.where(np.flatnonzero(fold != i))) for i in range(fold.max() + 1)]
    assert differences(wanted, bounds.learn_without(demos, fold)) == []
    assert differences(wanted, bounds.learn_without(spread, fold)) == []


def test_groups_stay_together_and_validation_judges(tmp_path):
    demos = grouped(demos_of(60, 45, 80, 30, 50, 40, 35), "abbcacd")
    check_same(demos, tmp_path, 3, **QUICK)
    check_same(demos, tmp_path, 3, **QUICK, validation=0.3)
    check_same(demos, tmp_path, 2, **QUICK, validation=demos_of(50, 30, seed=3))


def test_lambda_is_searched_for_every_action_and_holds_are_fitted(tmp_path):
    t = np.arange(150)[:, np.newaxis]
    actions = [np.concatenate([np.round(np.sin(t / 9 + i)), np.cos(t / 15 + i)], axis=1) for i in range(4)]
    contexts = [np.concatenate([np.sin(t / 9 + i), np.cos(t / 15 + i)], axis=1) for i in range(4)]
    demos = Demonstrations.from_arrays(contexts, actions, rate=20.0)
    model = (FOREST, Ridge())
    run = check_same(demos, tmp_path, 3, model=model, smoothness=MatchExpert((1.0, 0.8)))
    assert run.policy.hold is not None
    check_same(demos, tmp_path, 2, model=model, smoothness=simile.SmoothTime(0.2), hold=0.1)


def test_a_policy_to_go_on_from_is_the_first_of_the_mixture(tmp_path):
    initial = simile.learn(PURSUIT[:2], **QUICK).policy
    run = check_same(PURSUIT, tmp_path, 3, model=FOREST, initial=initial)
    assert "left out" in " ".join(run.notes)


def test_a_regularizer_of_sums_is_solved_and_another_is_refused(tmp_path):
    choices = {"model": (FOREST, Ridge()), "horizon": Horizon((0, 2), 0)}
    regularizer = simile.VelocityAutoregression(order=3)
    check_same(PURSUIT, tmp_path, 2, **choices, regularizer=regularizer, smoothness=3.0)
    check_same(noisy(), tmp_path, 2, **choices, regularizer=regularizer, smoothness=(3.0, 1.0))

    class Nobody:
        def fit(self, trajectories, smoothness):
            return simile.PreviousAction().fit(trajectories, smoothness)

    with pytest.raises(ArgumentError, match=r"regularizer: .* must have methods sums\(\) and solve\(\)"):
        simile.learn(PURSUIT, **choices, regularizer=Nobody(), smoothness=3.0, backend=LocalBackend(2))


def test_demonstrations_that_are_in_parts_already_need_no_backend(tmp_path):
    spread = DistributedDemonstrations.of(PURSUIT, LocalBackend(parts=3))
    ours, theirs = (simile.learn(demos, **QUICK).policy for demos in (PURSUIT, spread))
    assert written(ours, tmp_path) == written(theirs, tmp_path)


def test_frames_do_not_come_here_but_for_those_that_are_judged(monkeypatch):
    came: list[Any] = []

    class Counting(LocalBackend):
        def collect(self, handles):
            for value in handles:
                parts = value if isinstance(value, list | tuple) else [value]
                came.extend(parts)
            return list(handles)

    monkeypatch.setattr(mixture, "MOST_FRAMES", 300)
    demos = demos_of(60, 45, 70, 30, 50, 40, 35, 55, 45, 60, 30, 50, m=2)
    spread = DistributedDemonstrations.of(demos, Counting(parts=3))
    judged = simile.learn(spread, **QUICK).judged.demos
    assert judged.n_frames <= 300
    assert set(judged.names) < set(demos.names)
    assert {d.name for value in came if isinstance(value, Demonstrations) for d in value} == set(judged.names)
    said = [a for a in came if isinstance(a, np.ndarray) and a.ndim == 2 and a.shape[1] in (7, 12)]  # a column per aim
    assert sum(map(len, said)) == 3 * judged.n_frames  # by the forest, and by two ridges


def test_a_whole_path_is_learned_where_the_parts_are():
    local, spread = (
        simile.path(PURSUIT, model=QUICK["model"], smoothness=3, backend=b) for b in (None, LocalBackend(parts=3))
    )
    assert local.rows() == spread.rows()
    assert differences([p.policy for p in local.points], [p.policy for p in spread.points]) == []


def test_policies_are_evaluated_where_the_parts_are():
    demos = demos_of(60, 3, 45, 80, 30, k=2, rate=30.0)
    policy = simile.searn(demos, model=FOREST, horizon=Horizon(1, 1), n_rounds=1).policy  # which tosses coins
    local, spread = (simile.evaluate(policy, demos, seed=3, backend=b) for b in (None, LocalBackend(parts=3)))
    assert differences([e.tally for e in local.entries], [e.tally for e in spread.entries]) == []
    assert differences(local.to_dict(), spread.to_dict()) == []
    assert str(local) == str(spread)
    assert len(local.rolled) == 5
    assert spread.rolled == []
    with pytest.raises(ArgumentError, match="roll-outs stay with the backend"):
        spread.plot()
    with pytest.raises(simile.SimileError, match="no sequence is longer than the 10 frames"):
        simile.evaluate(policy, demos_of(3, 10, 1, k=2), start=simile.ExpertStart(10), backend=LocalBackend(parts=2))


def test_any_regressor_is_fitted_by_one_worker_to_as_many_sequences_as_it_holds(tmp_path):
    tree, choices = ExtraTreeRegressor(max_depth=4), {"smoothness": 20.0}
    both = [simile.learn(noisy(), model=(tree, Ridge()), **choices, backend=b) for b in (None, LocalBackend(3))]
    assert written(both[0].policy, tmp_path) == written(both[1].policy, tmp_path)
    assert both[0].notes == both[1].notes
    run = simile.learn(PURSUIT, model=tree, smoothness=20.0, backend=LocalBackend(parts=3, room=300_000))
    assert "ExtraTreeRegressor is fitted to 3 of the 5 sequences, drawn by chance: as many as fit one" in run.notes[0]

    class Here:
        def fit_smooth(self, states, labels, targets, anchors, smoothness, rng):
            raise AssertionError

    with pytest.raises(ArgumentError, match=r"model: .*Here.* cannot be trained on data in parts: use SmoothForest"):
        simile.learn(PURSUIT, model=Here(), backend=LocalBackend(parts=3))


def test_an_interrupted_run_goes_on_from_its_checkpoints_wherever_it_ran(tmp_path):
    demos = demos_of(60, 45, 80, 30, k=2)
    folder, settings = tmp_path / "fits", {"smoothness": 20.0, "seed": 3}

    def learn(backend: Any, forest: Any) -> simile.Run:
        model = (Checkpointed(forest, folder, "this run"), Ridge())
        return simile.learn(demos, **settings, model=model, backend=backend)

    here = learn(None, FOREST)
    assert len(list(folder.rglob("fit-???.safetensors"))) == 4
    for last in sorted((folder / "folds").glob("fit-???.safetensors"))[1:]:
        last.unlink()
    there = learn(LocalBackend(parts=3), FOREST)
    assert written(here.policy, tmp_path) == written(there.policy, tmp_path)
    rounds = {"horizon": Horizon(1, 1), "n_rounds": 2}
    for backend in (LocalBackend(parts=2), None):
        model = Checkpointed(FOREST, tmp_path / "rounds")
        run = simile.paper(demos, model=model, **rounds, backend=backend)
        assert run.rounds[-1].error == simile.paper(demos, model=FOREST, **rounds).rounds[-1].error


def test_what_wants_all_data_here_gets_some_and_is_refused_many():
    spread = DistributedDemonstrations.of(PURSUIT, LocalBackend(parts=3))
    few = spread.draw(2 * 120 * 8 * (PURSUIT.n_contexts + 1), seed=1)
    assert len(few) == 2
    assert len(spread.draw(1)) == 1
    assert spread.draw(10**9).names == PURSUIT.names
    space = CrossFitting(mixture=("hinges",), lag=(2.0, 4.0))
    tried = [simile.tune(demos, trials=1, space=space).trials[0].rmse for demos in (PURSUIT, spread)]
    assert tried[0] == tried[1]
    compared = [simile.compare(demos, PURSUIT[:1], reductions=("clone",), rivals=()) for demos in (PURSUIT, spread)]
    assert differences(*([c.standing for c in found.contenders] for found in compared)) == []
    with pytest.raises(ArgumentError, match=r"demos: tune wants them in one place, .* got 0 MiB: .*draw\(9\)"):
        bring_here(spread, "tune", most=9)


def test_policies_are_judged_beside_simple_filters_where_the_parts_are():
    demos = grouped(demos_of(60, 3, 45, 80, 30, k=2, rate=30.0), "aabbc")
    run = simile.learn(demos, **QUICK)
    far = DistributedDemonstrations.of(demos, LocalBackend(parts=5))
    here, there = (simile.evaluate(run.policy, d, baseline=run.baseline) for d in (demos, far))
    assert differences(here.to_dict(), there.to_dict()) == []
    assert str(here) == str(there)
    frontier = simile.path(demos, model=Ridge(), smoothness=(3.0, 20.0))
    for point in frontier.points:
        assert here.roll(point.policy).tally.score == there.roll(point.policy).tally.score
    with pytest.raises(simile.SimileError, match="no sequence is longer than"):
        simile.evaluate(run.policy, DistributedDemonstrations.of(demos_of(2, 2, k=2), LocalBackend(parts=2)))


@pytest.mark.parametrize("backend", ["dask", LocalBackend, 3])
def test_what_is_no_backend_is_refused_by_its_name(backend):
    with pytest.raises(ArgumentError, match="backend must"):
        simile.learn(tasks.pursuit(n_sequences=2, length=60), backend=backend)
