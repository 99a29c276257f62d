"""Checkpoints: a run taken up where it stopped is the run that never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import simile
from conftest import demos_of
from simile.learning import ALGORITHMS
from simile.learning.checkpoints import Checkpointed

FOREST = simile.SmoothForest(n_trees=3)


class StoppedError(Exception):
    """Something went wrong in the middle of a run."""


def stop_after(n_rounds: int):
    def watch(turn: simile.Round) -> None:
        if turn.number == n_rounds:
            raise StoppedError

    return watch


def stop_after_fits(n_fits: int):
    def watch(step: Any) -> None:
        if step.done == n_fits:
            raise StoppedError

    return watch


def times_of(folder: Path) -> dict[Path, int]:
    return {
        path: path.stat().st_mtime_ns for path in folder.rglob("fit-???.safetensors")
    }  # of several files, the first


def same(a: simile.Run, b: simile.Run) -> bool:
    return all(
        r.error == s.error and r.beta == s.beta and all(map(np.array_equal, r.rolled, s.rolled))
        for r, s in zip(a.rounds, b.rounds, strict=True)
    )


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in ("learn", "clone")])
def test_a_resumed_run_equals_one_that_never_stopped(name: str, pursuit, tmp_path: Path):
    train, _ = pursuit
    algorithm = getattr(simile, name)
    whole = algorithm(train, model=FOREST, n_rounds=3, validation=0.2)
    with pytest.raises(StoppedError):
        algorithm(train, model=Checkpointed(FOREST, tmp_path), n_rounds=3, validation=0.2, watch=stop_after(1))
    written = {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    assert len(written) == 3  # the naive model and two rounds
    resumed = algorithm(train, model=Checkpointed(FOREST, tmp_path), n_rounds=3, validation=0.2)
    assert same(whole, resumed)
    assert all(p.stat().st_mtime_ns == time for p, time in written.items())  # read, not fitted again
    whole.policy.save(tmp_path / "whole")
    resumed.policy.save(tmp_path / "resumed")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()


@pytest.mark.parametrize("n_fits", [1, 3, 5, 6])
def test_a_mixture_is_resumed_to_the_byte_wherever_it_stopped(n_fits: int, pursuit, tmp_path: Path):
    train, _ = pursuit

    def models(folder: Path) -> tuple:
        return Checkpointed(FOREST, folder), simile.Ridge()

    whole = simile.learn(train, model=(FOREST, simile.Ridge()))
    with pytest.raises(StoppedError):
        simile.learn(train, model=models(tmp_path / "fits"), watch=stop_after_fits(n_fits))
    written = times_of(tmp_path / "fits")
    assert len(written) == min(n_fits, 5)  # on all sequences, and without each of four folds
    resumed = simile.learn(train, model=models(tmp_path / "fits"))
    again = times_of(tmp_path / "fits")
    assert len(again) == 5
    assert {path: again[path] for path in written} == written  # read, not fitted again
    whole.policy.save(tmp_path / "whole")
    resumed.policy.save(tmp_path / "resumed")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()


def test_what_tells_what_a_forest_is_worth_is_kept_beside_it(pursuit, tmp_path: Path):
    forest = simile.SmoothForest(n_trees=6)
    simile.learn(pursuit[0], model=Checkpointed(forest, tmp_path), smoothness=20.0)
    kept = {str(path.relative_to(tmp_path)): simile.load(path).f for path in times_of(tmp_path)}
    assert {name: len(f.roots) for name, f in kept.items()} == {
        "fit-000.safetensors": 6,
        **{f"folds/fit-{i:03d}.safetensors": 3 for i in range(4)},
    }


@pytest.mark.parametrize("hold", [None, 0.1, simile.Hold((0.2, 0.1), stepping=(False, True))])
def test_a_run_of_several_actions_that_holds_is_resumed_to_the_byte(hold, tmp_path: Path):
    train = demos_of(120, 120, 120, 120, k=2)
    settings = {"smoothness": (5.0, 20.0), "hold": hold}
    models = (
        FOREST,
        simile.SmoothForest(n_trees=3, criterion=simile.Criterion.SMOOTH),
    )  # one for each action, and for both
    folders = [tmp_path / "fits" / str(i) for i in range(len(models))]
    whole = simile.learn(train, model=(*models, simile.Ridge()), **settings)
    for stop in (stop_after_fits(7), None):
        kept = (Checkpointed(model, folder) for model, folder in zip(models, folders, strict=True))
        try:
            resumed = simile.learn(train, model=(*kept, simile.Ridge()), watch=stop, **settings)
        except StoppedError:
            written = times_of(tmp_path / "fits")
    again = times_of(tmp_path / "fits")
    assert (len(written), len(again)) == (7, 10)
    assert {path: again[path] for path in written} == written
    whole.policy.save(tmp_path / "whole")
    resumed.policy.save(tmp_path / "resumed")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()


def test_models_of_scikit_learn_are_kept_too(pursuit, tmp_path: Path):
    train, _ = pursuit
    whole = simile.paper(train, model=Ridge(), n_rounds=2)
    with pytest.raises(StoppedError):
        simile.paper(train, model=Checkpointed(Ridge(), tmp_path), n_rounds=2, watch=stop_after(0))
    assert same(whole, simile.paper(train, model=Checkpointed(Ridge(), tmp_path), n_rounds=2))


@pytest.mark.parametrize("n_fits", [7, 15])
def test_every_delay_of_a_model_of_scikit_learn_has_fits_of_its_own(n_fits: int, pursuit, tmp_path: Path):
    train, _ = pursuit
    whole = simile.learn(train, model=Ridge(), smoothness=20.0)
    with pytest.raises(StoppedError):
        simile.learn(train, model=Checkpointed(Ridge(), tmp_path), smoothness=20.0, watch=stop_after_fits(n_fits))
    resumed = simile.learn(train, model=Checkpointed(Ridge(), tmp_path), smoothness=20.0)
    assert len(times_of(tmp_path)) == 15  # three delays, each on all sequences and without each of four folds
    assert resumed.mixed == whole.mixed
    for run, name in ((whole, "whole"), (resumed, "resumed")):
        run.policy.save(tmp_path / name)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()


def test_the_fits_of_another_run_are_refused(pursuit, tmp_path: Path):
    train, _ = pursuit
    simile.clone(train, model=Checkpointed(FOREST, tmp_path, key="one"))
    with pytest.raises(simile.StorageError, match="other data or settings"):
        simile.clone(train, model=Checkpointed(FOREST, tmp_path, key="two"))


def test_a_damaged_fit_is_refused_and_named(pursuit, tmp_path: Path):
    train, _ = pursuit
    simile.clone(train, model=Checkpointed(FOREST, tmp_path))
    path = tmp_path / "fit-000.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(simile.StorageError, match=r"fit-000\.safetensors"):
        simile.clone(train, model=Checkpointed(FOREST, tmp_path))


def test_the_card_tells_the_model_and_not_the_folder(pursuit, tmp_path: Path):
    train, _ = pursuit
    plain, kept = (simile.clone(train, model=m).policy for m in (FOREST, Checkpointed(FOREST, tmp_path)))
    assert plain.card == kept.card
