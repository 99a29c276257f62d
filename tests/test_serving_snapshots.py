"""A service that was stopped goes on with every stream, and with nothing that is not its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from served import NAMES, Played, listed
from simile.errors import ArgumentError, StorageError
from simile.online import DeadBand, HoldAction, Predictor
from simile.serving import snapshots
from simile.serving.service import Service
from test_predictor import STAGES, contexts_of, make

# The generator of the bags wraps around on purpose; NumPy says so where numba is switched off.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")


@given(st.sampled_from(["forest", "tree", "stochastic"]), st.integers(0, 60), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_a_service_that_is_restored_goes_on_with_equal_bits(kind: str, moment: int, staged: bool, seed: int):
    policy, stages = make(kind), STAGES if staged else ()
    frames = {name: contexts_of(policy, 80, seed + i) for i, name in enumerate(NAMES)}

    def play(served: Played, begin: int, end: int) -> None:
        for t in range(begin, end):
            for name, stream in served.service.streams.items():
                served.put(stream, None if t % 7 == 3 else listed(frames[name][t]), n=t + t // 9)
            served.service.run()

    whole, first = Played(policy, stages=stages), Played(policy, stages=stages)
    for served in (whole, first):
        served.service.close(served.open("gone"))
        for name in NAMES:
            served.open(name, start=[0.1] if name == "two" else None)
    play(whole, 0, 80)
    play(first, 0, moment)
    again = Played(policy, stages=stages, max_streams=5)
    again.service.restore(first.service.snapshot())
    for name in NAMES:
        assert again.open(name, resume=True).frames == moment
    play(again, moment, 80)
    for name in NAMES:
        heard = first.answers.get(name, []) + again.answers.get(name, [])
        assert [(a.n, a.a, a.by) for a in heard] == [(a.n, a.a, a.by) for a in whole.answers[name]]


def kept() -> tuple[Played, snapshots.Snapshot]:
    served = Played(make("forest"))
    for name in NAMES:
        served.step(served.open(name), [0.0, 1.0])
    return served, served.service.snapshot()


def test_a_snapshot_goes_through_a_file(tmp_path):
    served, snapshot = kept()
    path = tmp_path / "streams.safetensors"
    snapshots.write(snapshot, path)
    again = Played(make("forest"))
    again.service.restore(snapshots.read(path))
    stream = again.open("two", resume=True)
    assert (stream.n, stream.frames, stream.by) == (0, 1, "policy")
    assert again.step(stream, [1.0, 1.0]).a == served.step(served.service.streams["two"], [1.0, 1.0]).a
    assert again.counts.resumed == 1
    aside = snapshots.set_aside(path)
    assert aside.name == "streams.safetensors.old"
    assert aside.exists()
    assert not path.exists()


def test_an_empty_service_has_a_snapshot_too():
    again = Played(make("forest"))
    again.service.restore(Played(make("forest")).service.snapshot())
    assert not again.service.streams


def test_a_snapshot_of_something_else_is_refused():
    _, snapshot = kept()
    for service, message in (
        (Service(make("tree")), "it is of another policy"),
        (Service(replace(make("forest"), smoothness=1.0)), "it is of another policy"),
        (Service(make("forest"), stages=[DeadBand(0.1)]), "start it with the same stages and rate"),
        (Service(make("forest"), rate=50.0), "start it with the same stages and rate"),
        (Service(make("forest"), max_streams=2), "there is room for 2: raise --max-streams"),
        (kept()[0].service, "a new service is needed; this one has 3 streams"),
    ):
        with pytest.raises(ArgumentError, match=message):
            service.restore(snapshot)


def test_a_policy_that_cannot_be_written_has_no_snapshots():
    class Local:
        def predict(self, S):
            return S[:, :1]

    unwritable = Service(replace(make("forest"), f=Local()), gap=HoldAction())
    with pytest.raises(StorageError, match="the policy cannot be written to a file"):
        unwritable.snapshot()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: s.pop("actions"),
        lambda s: s.update(about={}),
        lambda s: s.update(about="no dict"),
        lambda s: s["about"].update(version=2),
        lambda s: s["about"].update(streams=[]),
        lambda s: s["about"]["streams"].update(name=["one", "one", "three"]),
        lambda s: s["about"]["streams"].update(name=["one", "../two", "three"]),
        lambda s: s["about"]["streams"].update(name=["one", 2, "three"]),
        lambda s: s["about"]["streams"].update(name=["one", "two"]),
        lambda s: s["about"]["streams"].update(slot=[0, 0, 1]),
        lambda s: s["about"]["streams"].update(slot=[0, -1, 1]),
        lambda s: s["about"]["streams"].update(slot=[0, 1.5, 2]),
        lambda s: s["about"]["streams"].update(slot=[0, 10**30, 2]),
        lambda s: s["about"]["streams"].update(by=["policy", "nobody", None]),
        lambda s: s["about"]["streams"].update(taken=[None, "1", 2]),
        lambda s: s["about"]["streams"].update(frames=5),
        lambda s: s["about"]["streams"].pop("late"),
        lambda s: s.update(actions=s["actions"][:2]),
        lambda s: s.update(frame=s["frame"].astype(np.float64)),
    ],
)
def test_a_damaged_snapshot_is_refused_and_leaves_the_service_as_it_was(spoil):
    _, snapshot = kept()
    spoil(snapshot)
    served = Played(make("forest"))
    with pytest.raises(ArgumentError, match="snapshot: "):
        served.service.restore(snapshot)
    assert not served.service.streams
    assert served.step(served.open(), [0.0, 1.0]).a == Predictor(make("forest")).step([0.0, 1.0]).tolist()


@pytest.mark.parametrize("content", [None, b"", b"junk" * 99, b"\x10" + b"\0" * 7 + b"{}" + b" " * 14])
def test_a_file_that_is_no_snapshot_is_refused(tmp_path, content):
    path = tmp_path / "streams.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StorageError, match="streams"):
        snapshots.read(path)


def test_a_snapshot_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    served, snapshot = kept()
    path = tmp_path / "streams.safetensors"
    snapshots.write(snapshot, path)
    before = path.read_bytes()
    served.step(served.service.streams["one"], [2.0, 2.0])

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        snapshots.write(served.service.snapshot(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
