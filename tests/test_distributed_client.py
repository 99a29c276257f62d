"""What comes to the client of a cluster, and what stays on the workers: its memory must not grow with the data."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")

import simile
from conftest import demos_of
from simile import SmoothForest
from simile.data.recorded import Units
from simile.learning import mixture
from simile.learning.aims import FEW
from simile.learning.distributed import DistributedDemonstrations
from simile.learning.distributed.backend import LocalBackend
from simile.learning.distributed.dask import SMALL, _open, _pack_value
from simile.learning.folds import cut
from simile.models import Apart, Forest
from test_distributed_forest import assert_equal_bits

FOREST = SmoothForest(n_trees=3, min_leaf=4, max_depth=4)


@dataclass(frozen=True, eq=False)
class Handle:
    """Stands for a value that is elsewhere."""

    value: Any


def look_up(given: Any) -> Any:
    """Return what handles stand for, in lists and tuples too."""
    if isinstance(given, list | tuple) and not hasattr(given, "_fields"):
        return type(given)(map(look_up, given))
    return given.value if isinstance(given, Handle) else given


@dataclass(frozen=True)
class Watched(LocalBackend):
    """A backend whose values stay behind handles, and that keeps what comes here, and what was called."""

    came: list[Any] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def place(self, parts: Sequence[Any]) -> list[Any]:
        return [Handle(part) for part in parts]

    def map(self, function: Callable[..., Any], *handles: Sequence[Any], shared: tuple[Any, ...] = ()) -> list[Any]:
        self.called.append(getattr(function, "__name__", ""))
        return [Handle(function(*look_up(some), *look_up(shared))) for some in zip(*handles, strict=True)]

    def total(self, add: Callable[[Any, Any], Any], handles: Sequence[Any]) -> Any:
        return super().total(add, look_up(handles))

    def collect(self, handles: Sequence[Any]) -> list[Any]:
        found = look_up(list(handles))
        self.came.extend(found)
        self.sizes.append(sum(len(pickle.dumps(value)) for value in found))
        return found


def forests_in(f: Any) -> list[Forest]:
    """Return the forests that f consists of."""
    inside = getattr(f, "models", getattr(f, "forests", ()))
    return [f] if isinstance(f, Forest) else [forest for one in inside for forest in forests_in(one)]


@pytest.mark.parametrize("k", [1, 2])
def test_of_all_forests_of_a_run_the_one_of_all_sequences_comes_here_alone(k: int):
    backend = Watched(parts=2)
    run = simile.learn(demos_of(60, 45, 80, 30, k=k), model=FOREST, smoothness=20.0, backend=backend)
    (found,) = (value for value in backend.came if isinstance(value, Apart | Forest))
    forests = found.forests if isinstance(found, Apart) else (found,)
    assert len(forests) == k
    (ours,) = forests_in(run.rounds[0].trained.f)  # with the same splits, and leaves of its own
    assert sorted(ours.threshold) == sorted(at for forest in forests for at in forest.threshold)
    assert not any(isinstance(some, list) and some and hasattr(some[0], "feature") for some in backend.came)  # trees


def test_a_model_of_scikit_learn_without_a_fold_stays_where_it_was_fitted():
    sklearn = pytest.importorskip("sklearn.linear_model")
    backend = Watched(parts=2)
    simile.learn(demos_of(60, 45, 80, 30), model=sklearn.Ridge(), smoothness=20.0, backend=backend)
    assert sum(hasattr(value, "predict") for value in backend.came) == len(FEW)  # of all sequences, one for each aim


def test_large_arrays_travel_as_they_are_and_arrive_where_numbers_may_begin():
    value = {"large": np.arange(SMALL, dtype=np.float64), "small": np.arange(3.0)}
    head, large = _pack_value(value)
    assert np.shares_memory(large, value["large"])
    assert len(head) < 1000
    message = np.append(np.uint8(0), large)  # as it may lie in one
    message.setflags(write=False)
    found = _open([head, message[1:]])
    assert found["large"].tobytes() == value["large"].tobytes()
    assert found["small"].tobytes() == value["small"].tobytes()
    assert all(array.flags.aligned and array.flags.writeable for array in found.values())


def test_a_forest_that_came_from_a_worker_is_not_sent_back():
    distributed = pytest.importorskip("distributed")
    from simile.learning.distributed.dask import DaskBackend

    demos, rounds = demos_of(60, 45, 80, 30), {"model": FOREST, "n_rounds": 1}
    how = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**how) as cluster, distributed.Client(cluster) as client:
        backend = DaskBackend(client)
        forest = simile.paper(demos, **rounds, backend=backend).rounds[1].trained.f
        sent = backend.traffic.sent
        assert backend._forest(forest) is backend._forests[forest]
        assert backend.traffic.sent == sent
    assert_equal_bits(forest, simile.paper(demos, **rounds).rounds[1].trained.f)


def test_what_goes_through_views_is_called_by_its_own_name():
    backend = Watched(parts=2)
    spread = DistributedDemonstrations.of(demos_of(60, 45), backend).standardize(Units.identity())
    spread.actions()
    assert backend.called[-1] == "_actions"


def learn_from(n: int) -> tuple[list[int], DistributedDemonstrations]:
    """Learn from n short sequences; returns how many bytes came here, time after time, too."""
    backend = Watched(parts=4)
    spread = DistributedDemonstrations.of(demos_of(*[24] * n), backend)
    simile.learn(spread, model=FOREST, smoothness=20.0)
    return backend.sizes, spread


def test_a_sequence_more_costs_the_client_a_few_bytes(monkeypatch):
    monkeypatch.setattr(mixture, "MOST_FRAMES", 200)  # which come here to be judged: there are enough
    few, many = 60, 120
    (ours, known), (theirs, others) = learn_from(few), learn_from(many)
    held = [len(pickle.dumps(spread.facts)) for spread in (known, others)]
    assert held[1] - held[0] <= 13 * (many - few)  # a length and the number of a group
    assert max(b - a for a, b in zip(ours, theirs, strict=True)) <= 50 * (many - few)  # sums of actions


def test_what_stays_beside_the_frames_is_found_there_in_every_way_to_see_them():
    demos = demos_of(30, 25, 40, 20, 35, 28, k=2, rate=30.0)
    spread = DistributedDemonstrations.of(demos, LocalBackend(parts=3))
    units = Units.of(demos)
    for numbers in (np.array([0, 1, 3, 5]), np.array([4])):  # seen where they lie, and copied together
        here, there = demos.where(numbers), spread.standardize(units).where(numbers)
        assert there.names == here.names
        assert there.digests == here.digests
        assert there.digest() == here.digest()
        assert there.lengths.tolist() == here.lengths.tolist()
        assert there.groups == here.groups
        for name in ("moments", "places"):
            assert getattr(there, name).tobytes() == getattr(here, name).tobytes()
        for ours, theirs in zip(there.extremes(), here.extremes(), strict=True):
            assert ours.tobytes() == theirs.tobytes()
        assert there.logs == here.standardize(units).logs
        assert Units.of(there).equals(Units.of(here))
        again = np.array([0])
        assert there.where(again).names == here.where(again).names
    pieces = spread.convert(cut, shared=(2,))
    assert pieces.names == cut(demos, 2).names
    assert pieces.where(np.array([1, 2])).moments.tobytes() == cut(demos, 2).moments[[1, 2]].tobytes()


def test_groups_are_kept_as_numbers():
    demos = demos_of(30, 25, 40, 20).grouped(["a", "b", "a", "c"], by="person")
    spread = DistributedDemonstrations.of(demos, LocalBackend(parts=2))
    assert spread.groups == demos.groups
    assert spread.kin.tolist() == demos.kin.tolist()
    assert spread.where(np.array([1, 3])).groups == ("b", "c")
    assert spread.facts.group.dtype == np.int32
