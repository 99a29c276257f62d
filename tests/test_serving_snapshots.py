"""A service that was stopped goes on with every stream, and with nothing that is not its own."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from conftest import SEED
from served import NAMES, Played, check_conservation, listed
from simile import Hold, Offset
from simile.errors import ArgumentError, SimileError, StorageError
from simile.online import DeadBand, HoldAction, JerkLimit, Predictor
from simile.serving import snapshots
from simile.serving.messages import FURTHEST, LARGEST_N
from simile.serving.service import Service
from test_predictor import STAGES, contexts_of, make

# The generator of the bags wraps around on purpose; NumPy says so where numba is switched off.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")


HOLDS = (None, Hold(0.3), Hold(0.2, stepping=True))


@given(
    st.sampled_from(["forest", "tree", "stochastic"]),
    st.sampled_from(HOLDS),
    st.integers(0, 60),
    st.booleans(),
    st.integers(0, 2**32),
    st.booleans(),
)
@settings(max_examples=20, deadline=None)
def test_a_service_that_is_restored_goes_on_with_equal_bits(
    kind: str, hold: Hold | None, moment: int, staged: bool, seed: int, keeps: bool
):
    policy, stages = make(kind).holding(hold), STAGES if staged else ()
    if keeps and kind != "stochastic":
        policy = make(kind, action_lags=0).holding(hold).keeping(Offset(0.8, 0.97))
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


def test_a_snapshot_of_a_policy_that_holds_goes_through_a_file_and_is_checked(tmp_path):
    policy = make("forest").holding(Hold(0.3))
    served = Played(policy)
    for name in NAMES:
        stream = served.open(name)
        for x in contexts_of(policy, 20, 3):
            served.step(stream, listed(x))
    snapshots.write(served.service.snapshot(), tmp_path / "s")
    found, again = snapshots.read(tmp_path / "s"), Played(policy)
    again.service.restore(found)
    stream = again.open("two", resume=True)
    for x in contexts_of(policy, 20, 4):
        assert again.step(stream, listed(x)).a == served.step(served.service.streams["two"], listed(x)).a
    lost = {name: value for name, value in found.items() if name != "position"}
    with pytest.raises(ArgumentError, match="position must be there just where the policy holds still"):
        Played(policy).service.restore(lost)
    wild = {**found, "position": np.where(np.arange(len(NAMES))[:, np.newaxis] == 1, np.nan, found["position"])}
    others = Played(policy)
    others.service.restore(wild)
    assert len(others.service.streams) == len(NAMES) - 1


def test_a_snapshot_of_a_policy_that_remembers_the_start_goes_through_a_file_and_is_checked(tmp_path):
    policy = make("forest", action_lags=0).keeping(Offset(1.0, 0.98))
    served = Played(policy)
    for name in NAMES:
        stream = served.open(name, start=[5.0])
        for x in contexts_of(policy, 3, 3):
            served.step(stream, listed(x))
    snapshots.write(served.service.snapshot(), tmp_path / "s")
    found, again = snapshots.read(tmp_path / "s"), Played(policy)
    again.service.restore(found)
    stream = again.open("two", resume=True)
    for x in contexts_of(policy, 5, 4):
        assert again.step(stream, listed(x)).a == served.step(served.service.streams["two"], listed(x)).a
    with pytest.raises(ArgumentError, match="offset where it keeps one"):
        Played(policy).service.restore({name: value for name, value in found.items() if name != "offset"})
    for value, left in ((np.inf, len(NAMES) - 1), (np.nan, len(NAMES))):  # NaN is to be taken anew
        others = Played(policy)
        wild = np.where(np.arange(len(NAMES))[:, np.newaxis] == 1, value, found["offset"])
        others.service.restore({**found, "offset": wild})
        assert len(others.service.streams) == left


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
        (Service(make("forest"), stages=[JerkLimit(1.0)]), "start it with the same stages and rate"),
        (Service(make("forest"), rate=50.0), "start it with the same stages and rate"),
        (Service(make("forest"), max_streams=2), "there is room for 2: raise --max-streams"),
        (kept()[0].service, "a new service is needed; this one has 3 streams"),
    ):
        with pytest.raises(ArgumentError, match=message):
            service.restore(snapshot)
    limited = Played(make("forest"), stages=[DeadBand(0.1)])
    limited.step(limited.open("one"), [0.0, 1.0])
    with pytest.raises(ArgumentError, match="it is of other stages, which keep 2 actions, and not 3: start"):
        Service(make("forest"), stages=[JerkLimit(1.0)]).restore(limited.service.snapshot())


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
        lambda s: s["about"].update(version=99),
        lambda s: s["about"].update(streams=[]),
        lambda s: s["about"]["streams"].update(name=["one", "two"]),
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


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda s: s["about"]["streams"].update(name=["one", "one", "three"]), "another stream"),
        (lambda s: s["about"]["streams"].update(name=["one", "../two", "three"]), "matching"),
        (lambda s: s["about"]["streams"].update(name=["one", 2, "three"]), "name"),
        (lambda s: s["about"]["streams"].update(slot=[0, 0, 2]), "another stream"),
        (lambda s: s["about"]["streams"].update(slot=[0, -1, 2]), "slot"),
        (lambda s: s["about"]["streams"].update(slot=[0, 1.5, 2]), "slot"),
        (lambda s: s["about"]["streams"].update(slot=[0, 10**30, 2]), "slot"),
        (lambda s: s["about"]["streams"].update(by=["policy", "nobody", None]), "by"),
        (lambda s: s["about"]["streams"].update(taken=[None, "1", 2]), "taken"),
        (lambda s: s["about"]["streams"].update(taken=[0, 2**53, 0]), "taken"),
        (lambda s: s["about"]["streams"].update(lost=[0, -1, 0]), "lost"),
        (lambda s: s["actions"].__setitem__((1, 0, 0), np.nan), "actions"),
        (lambda s: s["actions"].__setitem__((1, 0, 0), -np.inf), "actions"),
        (lambda s: s["frame"].__setitem__(1, -1), "frame"),
    ],
)
def test_one_bad_stream_of_a_snapshot_costs_that_stream_alone_and_is_told(spoil, reason: str):
    whole, snapshot = kept()
    spoil(snapshot)
    served = Played(make("forest"))
    (told,) = served.service.restore(snapshot)
    assert reason in told
    assert "\n" not in told
    assert set(served.service.streams) == {"one", "three"}
    assert served.counts.unrestored == 1
    for name in ("one", "three"):
        there = served.step(served.open(name, resume=True), [1.0, 1.0])
        assert there.a == whole.step(whole.service.streams[name], [1.0, 1.0]).a
    alone = Predictor(make("forest"))
    assert served.step(served.open("two"), [0.0, 1.0]).a == alone.step([0.0, 1.0]).tolist()


NUMBERS = st.none() | st.sampled_from([0, 1, LARGEST_N - 1, LARGEST_N, FURTHEST]) | st.integers(0, LARGEST_N)


@given(st.lists(NUMBERS, max_size=12), st.floats(0.0, 1.0))
def test_whatever_numbers_come_the_streams_can_be_restored(numbers: list[int | None], deadline: float):
    served = Played(make("forest"), rate=10.0, idle=1e9)
    stream = served.open("hostile", deadline=deadline)
    served.step(served.open("good"), [0.0, 1.0])
    for n in numbers:
        served.step(stream, [0.0, 1.0], n=n)
        served.clock.now += 3.0
        served.service.tick(served.clock.now)  # which counts on where there is a deadline
    check_conservation(served.service)
    assert served.counts.missing <= FURTHEST * len(numbers)
    again = Played(make("forest"), rate=10.0, idle=1e9)
    assert again.service.restore(snapshots.from_bytes(snapshots.to_bytes(served.service.snapshot()))) == []
    assert set(again.service.streams) == {"hostile", "good"}
    assert again.service.streams["hostile"].n == stream.taken


def test_a_number_far_ahead_is_refused_and_none_goes_beyond_the_last():
    served = Played(make("forest"))
    stream = served.open()
    served.step(stream, [0.0, 1.0], n=7)
    far = served.step(stream, [0.0, 1.0], n=8 + FURTHEST)
    assert (far.a, far.lost) == (None, 1)
    assert far.error == (
        f"n must be at most 10,000,000 above the last one, 7; got {8 + FURTHEST}: number frames one by one, or open "
        "the stream anew"
    )
    assert served.counts.far_ahead == 1
    assert served.counts.missing == 0
    assert served.step(stream, [0.0, 1.0], n=7 + FURTHEST).a is not None
    assert served.step(stream, [0.0, 1.0]).n == 8 + FURTHEST
    late = served.open("late")
    assert served.step(late, [0.0, 1.0], n=LARGEST_N).a is not None
    over = served.step(late, [0.0, 1.0])
    assert (over.n, over.a) == (LARGEST_N, None)
    assert over.error == f"the numbers of this stream end with {LARGEST_N}: open it anew"
    check_conservation(served.service)


@pytest.fixture(scope="module")
def written() -> bytes:
    return snapshots.to_bytes(kept()[1])


def check_flip(written: bytes, bit: int) -> None:
    """See that a snapshot with one bit turned over is refused, or says the same."""
    data = bytearray(written)
    data[bit // 8] ^= 1 << bit % 8
    try:
        found = snapshots.from_bytes(bytes(data))
    except SimileError:
        return
    assert snapshots.to_bytes(found) == written


@pytest.mark.parametrize("part", [97, pytest.param(1, marks=pytest.mark.long)])
def test_a_snapshot_with_any_one_bit_turned_over_is_refused_or_harmless(written: bytes, part: int):
    for bit in range(SEED % part, 8 * len(written), part):
        check_flip(written, bit)


def test_a_snapshot_whose_content_is_not_that_of_its_digest_is_refused(written: bytes, tmp_path):
    path = tmp_path / "streams.safetensors"
    path.write_bytes(written[:-1] + bytes([written[-1] ^ 1]))  # an action, or a counter
    with pytest.raises(StorageError, match="the content does not match its digest"):
        snapshots.read(path)


def test_a_snapshot_of_before_there_were_digests_is_refused(tmp_path):
    _, snapshot = kept()
    snapshot["about"]["version"] = 1
    text = np.frombuffer(json.dumps(snapshot["about"]).encode(), np.uint8)
    path = tmp_path / "streams.safetensors"
    path.write_bytes(save({**snapshot, "about": text}))
    with pytest.raises(StorageError, match="version 1 of the format, which had no digest"):
        snapshots.read(path)


@pytest.mark.parametrize("content", [None, b"", b"junk" * 99, b"\x10" + b"\0" * 7 + b"{}" + b" " * 14])
def test_a_file_that_is_no_snapshot_is_refused(tmp_path, content):
    path = tmp_path / "streams.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StorageError, match="streams"):
        snapshots.read(path)


def test_a_snapshot_that_could_not_be_read_again_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "LARGEST_FILE", 99)
    with pytest.raises(StorageError, match=r"would take .* bytes, and 99 are read: serve fewer streams"):
        snapshots.write(kept()[1], tmp_path / "streams")
    assert not list(tmp_path.iterdir())


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
