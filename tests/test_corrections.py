"""Recordings of a policy at work, read as corrections: stretches, weights, blame, and frames that count nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

import simile
from simile.data import tasks
from simile.data.corrections import read_corrections
from simile.data.reading.tables import METADATA_KEY, Roles
from simile.data.reference import Reference
from simile.errors import ArgumentError, DataError
from simile.experiments.operators import ScriptedOperator, record, share_operated
from simile.learning.components import fit_components
from simile.learning.folds import Folds
from simile.learning.holds import fit_hold
from simile.learning.mixture import Choices, Mixture
from simile.learning.offsets import fit_offset
from simile.models.closed_loop import ClosedLoop

RATE = 10.0


def table(sequence: str, who: str, *, first: int = 0, **roles) -> pa.Table:
    """Return a recording, a letter a frame: p for the policy, o for the operator, g for a gap."""
    n = len(who)
    known = {"p": "policy", "o": "operator", "g": "gap"}
    columns = {
        "sequence": [sequence] * n,
        "n": np.arange(first, first + n),
        "t": np.arange(n) / RATE,
        "x": np.arange(n, dtype=float),
        "pan": np.where([w == "o" for w in who], 5.0, 1.0) + 0.01 * np.arange(n),
        "who": [known[w] for w in who],
        "limited": [False] * n,
        "policy": ["0" * 64] * n,
        "event": pa.nulls(n, pa.string()),
    }
    said = asdict(replace(Roles("sequence", "t", ("x",), ("pan",), RATE), **roles))
    return pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(said).encode()})


def write(folder, *tables: pa.Table) -> None:
    for i, one in enumerate(tables):
        pq.write_table(one, folder / f"recording-{i:06d}.parquet")


def test_stretches_of_two_streams_are_found_with_what_lags_look_back_to(tmp_path):
    write(tmp_path, table("cam 1", "p" * 100 + "o" * 30 + "p" * 200 + "o" * 20), table("cam 2", "o" * 5 + "p" * 10))
    found = read_corrections(tmp_path, blame=2.0)
    assert [(s.sequence, s.first, s.last, s.seconds) for s in found.stretches] == [
        ("cam 1", 100, 129, 3.0),
        ("cam 1", 330, 349, 2.0),
        ("cam 2", 0, 4, 0.5),
    ]
    first, _, alone = found.demos
    assert len(first) == 64 + 30  # the lags of Horizon.auto at 10 Hz
    assert first.weights.sum() == 30.0
    assert first.counted == slice(64, 94)
    assert first.weights[:64].sum() == 0.0
    assert found.blamed[0].nonzero()[0].tolist() == list(range(44, 64))
    assert len(alone) == 5
    assert not found.blamed[2].any()
    assert found.demos.kin.tolist() == [0, 1, 2]
    assert found.seconds == 5.5
    assert found.recorded == 36.5
    assert found.stretches[0].correction[0] == pytest.approx(4.155, abs=1e-6)  # 5 + 0.01 t less 1.99
    assert "the operator acted for 5.5 of 36.5 seconds; 4.0 seconds before" in str(found)
    assert repr(found) == "Corrections(3 stretches, 5.5 of 36.5 s)"


def test_a_short_hand_back_is_one_stretch_and_a_long_one_shares_a_group(tmp_path):
    write(tmp_path, table("cam", "p" * 80 + "o" * 10 + "p" * 10 + "o" * 10 + "p" * 30 + "o" * 10))
    found = read_corrections(tmp_path)
    assert [(s.first, s.last, s.seconds) for s in found.stretches] == [(80, 109, 2.0), (140, 149, 1.0)]
    assert found.demos.groups[0] == found.demos.groups[1]  # their frames overlap: never on both sides of a split
    assert found.demos[0].weights.sum() == 20.0


def test_what_was_done_in_an_earlier_stretch_counts_there_alone(tmp_path):
    write(tmp_path, table("cam", "p" * 80 + "o" * 10 + "p" * 20 + "o" * 20))
    found = read_corrections(tmp_path)
    assert sum(weights.sum() for weights in found.demos.weights) == 30.0
    assert found.stretches[1].correction[0] == pytest.approx(4.105, abs=1e-6)  # 5 + 0.01 t less 2.09, of its own frames
    (lesson,) = found.without([found.stretches[0].name]).lessons()  # its frames lie in what lags look back to
    assert lesson.weights.sum() == 20.0
    assert (lesson.actions[: lesson.counted.start] == lesson.actions[lesson.counted.start]).all()


def test_every_take_over_is_blamed_on_the_seconds_before_it_also_after_a_short_hand_back(tmp_path):
    write(tmp_path, table("cam", "p" * 40 + "o" * 10 + "p" * 9 + "o" * 10 + "p" * 40))
    found = read_corrections(tmp_path, blame=0.5)
    assert (len(found), found.places) == (1, ((0, 0),))
    assert np.flatnonzero(found.blamed[0]).tolist() == [*range(35, 40), *range(54, 59)]
    (let,) = found.watched.weights
    assert np.flatnonzero(let[:, 0]).tolist() == [*range(35), *range(50, 54), *range(69, 109)]


def test_lessons_bridge_what_the_policy_did_and_keep_the_digest(tmp_path):
    write(tmp_path, table("cam", "p" * 80 + "o" * 10 + "p" * 5 + "o" * 10))
    found = read_corrections(tmp_path)
    (lesson,) = found.lessons(4.0)
    acted = lesson.weights[:, 0] > 0.0
    assert set(lesson.weights[acted, 0].tolist()) == {4.0}
    assert (lesson.actions[: lesson.counted.start] == lesson.actions[lesson.counted.start]).all()
    assert np.abs(np.diff(lesson.actions[:, 0])).max() < 0.02  # no jump from one to the other
    assert np.abs(np.diff(found.demos[0].actions[:, 0])).max() > 3.0  # as recorded
    assert lesson.digest == found.demos[0].digest


def test_a_stretch_is_known_again_when_it_went_on(tmp_path):
    write(tmp_path, table("cam", "p" * 80 + "o" * 10))
    (before,) = (found := read_corrections(tmp_path)).demos.digests
    name = found.stretches[0].name
    write(tmp_path, table("cam", "p" * 80 + "o" * 40))
    again = read_corrections(tmp_path)
    assert again.demos.digests == (before,)
    assert again.stretches[0].name == name
    assert again.digest != found.digest


def test_lost_frames_and_files_in_any_order_and_one_still_written(tmp_path):
    whole = table("cam", "p" * 70 + "o" * 20)
    late = table("cam", "o" * 10, first=95)  # 90 to 94 are lost
    write(tmp_path, late, whole.slice(50), whole.slice(0, 50))
    stream = table("cam 2", "p" * 10 + "o" * 10)
    path = tmp_path / "recording-000003.arrows"
    with ipc.new_stream(path, stream.schema) as writer:
        for batch in stream.to_batches(max_chunksize=5):
            writer.write_batch(batch)
    data = path.read_bytes()
    path.write_bytes(data[:-60])  # killed in the midst of a batch
    found = read_corrections(tmp_path)
    spans = [(s.sequence, s.first, s.last) for s in found.stretches]
    assert spans[:2] == [("cam", 70, 89), ("cam", 95, 104)]
    assert spans[2][:2] == ("cam 2", 10)


def test_stretches_are_left_out_by_name(tmp_path):
    write(tmp_path, table("cam", "p" * 20 + "o" * 20 + "p" * 20 + "o" * 20))
    first, second = (s.name for s in read_corrections(tmp_path).stretches)
    left = read_corrections(tmp_path, without=[first[:6]])
    assert [s.name for s in left.stretches] == [second]
    with pytest.raises(ArgumentError, match="without must name one stretch each; 'nobody' names none: there are"):
        left.without(["nobody"])
    with pytest.raises(ArgumentError, match="without names all stretches"):
        left.without([second])


def test_nothing_is_watched_in_frames_of_stretches_that_are_not_taken(tmp_path):
    write(tmp_path, table("cam 1", "p" * 100 + "o" * 10 + "p" * 140 + "o" * 10), table("cam 2", "p" * 50 + "o" * 10))
    found = read_corrections(tmp_path)
    first, second = found.where([0]), found.where([2])
    assert found.watched.names == ("cam 1", "cam 2")
    assert first.watched.names == ("cam 1",)
    assert second.watched.names == second.let_be().names == ("cam 1", "cam 2")
    assert np.flatnonzero(second.watched.weights[0]).tolist() == [*range(36), *range(110, 186)]
    (let,) = first.watched.weights  # in the other stream all frames are apart
    assert np.flatnonzero(let[:, 0]).tolist() == [*range(80), *range(110, 186)]  # 64 before the other are apart
    (let,) = found.where([0, 1]).where([1]).watched.weights
    assert np.flatnonzero(let[:, 0]).tolist() == [*range(36), *range(110, 230)]
    assert len({found.digest, first.digest, second.digest}) == 3


def test_what_was_left_out_as_a_mistake_blames_nobody(tmp_path):
    write(tmp_path, table("cam 1", "p" * 50 + "o" * 10 + "p" * 140 + "o" * 10), table("cam 2", "p" * 50 + "o" * 10))
    found = read_corrections(tmp_path)
    left = found.without([found.stretches[0].name])
    assert np.flatnonzero(left.watched[0].weights).tolist() == [*range(50), *range(60, 180)]
    assert np.flatnonzero(left.without([found.stretches[2].name]).watched[1].weights).tolist() == [*range(50)]


def test_what_is_known_ahead_is_told_of_all_that_was_watched(tmp_path):
    write(tmp_path, table("cam", "p" * 50 + "o" * 10))
    found = read_corrections(tmp_path)
    told = found.foretell(((0, 2),))
    assert told.demos.context_names == told.watched.context_names == told.where([0]).watched.context_names
    assert len(told.watched.context_names) == 2
    assert told.watched.digests == found.watched.digests  # of what was recorded


def test_mistakes_get_a_sentence(tmp_path):
    with pytest.raises(DataError, match="there is no data file in this folder"):
        read_corrections(tmp_path)
    write(tmp_path, table("cam", "p" * 20))
    with pytest.raises(DataError, match="no frame of the 20 recorded is an operator's"):
        read_corrections(tmp_path)
    with pytest.raises(ArgumentError, match="blame must be >= 0 and <= 5; got 60"):
        read_corrections(tmp_path, blame=60)
    write(tmp_path, table("cam", "o" * 20, rate=None))
    with pytest.raises(DataError, match="do not say how many frames there are a second: give rate="):
        read_corrections(tmp_path)
    assert read_corrections(tmp_path, rate=20.0).seconds == 1.0
    write(tmp_path, table("cam", "o" * 20), table("cam 2", "o" * 20, rate=20.0))
    with pytest.raises(DataError, match=r"000001\.parquet: it was recorded at 20 Hz, and others .* at 10 Hz"):
        read_corrections(tmp_path)
    assert read_corrections(tmp_path, rate=20.0).seconds == 2.0
    write(tmp_path, table("cam", "p" * 20 + "o" * 20), table("cam", "p" * 20 + "o" * 20))
    with pytest.raises(DataError, match="frame 0 of 'cam' is there twice: is a recording in the folder as a copy, too"):
        read_corrections(tmp_path)
    write(tmp_path, table("cam", "o" * 20), table("cam", "o" * 20).drop_columns(["who"]))
    with pytest.raises(DataError, match="is no recording: it does not say who acted"):
        read_corrections(tmp_path)
    for column, bad, message in (
        ("x", 1e300, r"row 4, column 'x': 1e\+300 is too large to reckon with: leave it empty if it is missing"),
        ("pan", 1e155, r"row 4, column 'pan': 1e\+155 is too large to reckon with"),
        ("x", np.inf, "row 4, column 'x': inf is not finite"),
        ("who", None, "row 4, column 'who': it does not say who acted: write operator or policy, or leave the row out"),
        (
            "t",
            -60.0,
            r"frame 3 of 'cam': its time is -60\.000 s, and that of the frame before 0\.200 s: are they of two",
        ),
    ):
        one = table("cam", "o" * 20)
        values = [*one[column].to_pylist()[:3], bad, *one[column].to_pylist()[4:]]
        write(tmp_path, one.set_column(one.column_names.index(column), column, pa.array(values)))
        (tmp_path / "recording-000001.parquet").unlink(missing_ok=True)
        with pytest.raises(DataError, match=message):
            read_corrections(tmp_path)
    write(tmp_path, table("cam", "o" * 20), table("cam", "o" * 20, actions=("x",), contexts=("pan",)))
    with pytest.raises(DataError, match=r"it records \('pan',\) and \('x',\), and others in the folder"):
        read_corrections(tmp_path)
    (tmp_path / "recording-000001.parquet").write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_corrections(tmp_path)


@pytest.fixture(scope="module")
def demos():
    return tasks.pursuit(n_sequences=6, length=300, seed=4)


def lead_in(demos, frames: int = 90):
    """Return demonstrations whose first frames count nothing, and say nothing either."""
    spoiled = []
    for demo in demos:
        weights, actions = np.ones_like(demo.actions), demo.actions.copy()
        weights[:frames], actions[:frames] = 0.0, actions[frames]
        spoiled.append(replace(demo, weights=weights, actions=actions))
    return simile.Demonstrations(tuple(spoiled))


def test_frames_that_do_not_count_tell_nothing_of_how_the_expert_moves(demos):
    some = lead_in(demos)
    cut = simile.Demonstrations(tuple(d.cut(90) for d in demos))
    assert some.logs == cut.logs
    rolled = [0.9 * a for a in some.actions]
    mine, theirs = Reference(some).measure(rolled), Reference(cut).measure([a[90:] for a in rolled])
    assert mine.roughness == pytest.approx(theirs.roughness)
    assert mine.error == pytest.approx(theirs.error)
    noisy = [a + 0.3 * np.random.default_rng(i).normal(size=a.shape) for i, a in enumerate(some.actions)]
    one = fit_hold(noisy, some, begin=3, logs=some.logs)
    other = fit_hold([a[90:] for a in noisy], cut, begin=3, logs=cut.logs)
    assert one.width.tolist() == other.width.tolist()


def test_a_sequence_that_begins_in_the_midst_of_things_has_no_start_to_remember(demos):
    h = simile.CriticallyDamped(order=3)
    loop = ClosedLoop.of(h.fit(demos.actions, 30.0), 30.0)
    off = [loop.roll(a + 2.0, a) for a in demos.actions]  # f is off by as much in all of a sequence
    fold = np.arange(len(demos))
    assert fit_offset(off, demos, loop, fold)[0] != (0.0, 0.0)
    assert fit_offset(off, lead_in(demos), loop, fold)[0] == (0.0, 0.0)


def test_what_counts_nothing_is_not_learned(demos):
    models = simile.SmoothForest(n_trees=3), simile.Ridge(rows=2000)
    found = []
    for value in (0.0, 50.0):
        some = lead_in(demos)
        actions = [a.copy() for a in some.actions]
        for a in actions:
            a[10:60] += value  # far from the frames that count, whose targets look through the filter
        taught = some.with_actions(actions)
        choices = Choices.of(taught, model=models)
        (blend,) = Mixture.fit(taught, choices).at(3.0)
        found.append(np.concatenate([a[90:] for a in np.split(blend.rolled, len(taught))]))
    assert np.abs(found[0] - found[1]).max() < 0.05 * np.ptp(found[0])


def test_what_the_policy_was_let_do_counts_as_much_as_what_was_corrected(tmp_path):
    write(
        tmp_path,
        table("cam 1", "p" * 100 + "o" * 30 + "p" * 200 + "ggg" + "o" * 20 + "p" * 9),
        table("cam 2", "p" * 500),  # nobody is known to have watched
        table("cam 3", "p" * 15 + "o" * 5),  # all of it is blamed
    )
    found = read_corrections(tmp_path, blame=2.0)
    assert found.watched.names == ("cam 1",)
    (let,) = found.watched.weights
    assert np.flatnonzero(let[:, 0]).tolist() == [*range(80), *range(130, 313), *range(353, 362)]
    assert found.let_be().weights[0].sum() == pytest.approx(55.0)
    assert found.where([0]).let_be().weights[0].sum() == pytest.approx(30.0)
    assert np.array_equal(found.let_be()[0].actions, found.watched[0].actions)
    assert found.digest != read_corrections(tmp_path, blame=1.0).digest
    alone = tmp_path / "alone"
    alone.mkdir()
    write(alone, table("cam 1", "o" * 30))
    assert read_corrections(alone).let_be() is None


@pytest.mark.parametrize("model", [simile.SmoothForest(n_trees=3), simile.Ridge(rows=2000)])
def test_what_is_learned_from_beside_demonstrations_is_not_what_is_judged_by(demos, model):
    plain = Choices.of(demos, model=model)

    def say(shift: float, weight: float) -> float:
        away = [replace(d, actions=d.actions + shift, weights=np.full_like(d.actions, weight)) for d in demos]
        beside, rng = simile.Demonstrations(tuple(away)), np.random.default_rng(0)
        _, part = fit_components(demos, Folds.of(demos), plain.models, plain.horizon, rng, beside=beside)
        assert len(part.unseen) == demos.n_frames
        return float(part.unseen[:, 0].mean())

    nothing, some, much = (say(3.0, weight) - say(0.0, weight) for weight in (0.0, 1.0, 9.0))
    assert nothing == 0.0
    assert 1.5 < some < 3.2
    assert much == pytest.approx(3.0, abs=0.3)  # nine of ten in the same contexts, which no fold leaves out


def test_a_scripted_operator_takes_over_and_hands_back(demos, tmp_path):
    policy = simile.learn(demos[:2], model=simile.SmoothForest(n_trees=3)).policy
    operator = ScriptedOperator(threshold=4.0, patience=0.5)
    watched = operator.watch(policy, demos[2:])
    share = share_operated(watched)
    assert 0.0 < share < 1.0
    for one in watched:
        assert np.array_equal(one.actions[one.operated], one.demo.actions[one.operated])
        off = np.abs(one.actions - one.demo.actions).max(axis=1) > 4.0
        for begin in np.flatnonzero(np.diff(one.operated.astype(int)) == 1):
            assert off[begin - 14 : begin + 1].all()  # of half a second at 30 Hz
    record(watched, policy, tmp_path / "recording-000000.parquet", opened=5.0)
    read = simile.read(tmp_path, as_is=True, quiet=True)
    assert read.names[0] == "play 2 5"
    assert np.array_equal(read.actions[0], watched[0].actions)
    found = read_corrections(tmp_path)
    assert found.seconds / found.recorded == pytest.approx(share)
    assert share_operated(ScriptedOperator(1e6).watch(policy, demos[2:3])) == 0.0
    with pytest.raises(ArgumentError, match="demos must have a rate: patience is in seconds"):
        operator.watch(policy, replace(demos[0], rate=None))
