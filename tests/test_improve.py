"""From a policy at work and an operator's corrections to the next version, and the gate before it."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

import simile
from commands import simile_
from simile.data import tasks
from simile.data.corrections import read_corrections
from simile.data.reference import Reference
from simile.errors import ArgumentError, StorageError
from simile.evaluation.gate import Gate
from simile.evaluation.improvement import WEIGHTS, Trial, _choose, improve, keep
from simile.experiments.operators import ScriptedOperator, record
from simile.learning.initial import marks_of
from simile.learning.rounds import mark_of
from simile.metrics import estimate
from simile.models.adapters import parts_of
from simile.policies.ledger import LEDGER, Ledger
from simile.policies.policies import timing, whole
from simile.policies.storage.files import digest_of, to_bytes

TREES = simile.SmoothForest(n_trees=16, min_leaf=20)  # of the policy at work: much is left to learn
LIGHT = (simile.SmoothForest(n_trees=4, min_leaf=20), simile.Ridge(rows=2000))
DEMOS = tasks.pursuit(n_sequences=39, length=200, seed=10)
TRAIN, REST, WORK = DEMOS[:3], DEMOS[:15], DEMOS[15:]


@pytest.fixture(scope="module")
def policy():
    return simile.learn(TRAIN, model=TREES).policy


@pytest.fixture(scope="module")
def folder(policy, tmp_path_factory):
    place = tmp_path_factory.mktemp("recordings")
    record(ScriptedOperator(1.5).watch(policy, WORK), policy, place / "recording-000000.parquet")
    return place


@pytest.fixture(scope="module")
def corrections(folder):
    return read_corrections(folder)


@pytest.fixture(scope="module")
def mixed(policy, corrections):
    return improve(policy, REST, corrections, model=LIGHT, test=0.5)


def test_the_next_version_is_better_where_the_operator_took_over(policy, mixed, corrections):
    decision = mixed.decision
    assert decision.accepted
    assert decision.corrections.over_baseline.value < decision.corrections.over_baseline.high < 1.0
    held, judging = mixed.judges
    known = set(marks_of(mixed.policy.card.training))
    assert known >= set(marks_of(policy.card.training))
    # Nobody has learned from what judges.
    assert not known & {mark_of(d) for d in (*held.digests, *judging.demos.digests)}
    assert len(held) == decision.demonstrations.groups == 8
    assert set(judging.demos.groups).isdisjoint(set(corrections.demos.groups) - set(judging.demos.groups))
    error = Reference(held, policy.units.scale, policy.memory).measure(simile.rollout(mixed.policy, held)).rmse
    assert error * policy.units.scale[0] == pytest.approx(decision.demonstrations.rmse["pan"])
    assert mixed.weight in WEIGHTS
    assert mixed.policy.card.training["improved"]["from"] == digest_of(policy)
    assert "<- chosen" in str(mixed)
    taken, judged = len(corrections.stretches) - len(mixed.judges[1].stretches), len(held)
    learned = (
        f"\nlearned from {taken} of {len(corrections.stretches)} stretches and {15 - judged} of 15 demonstrations; "
    )
    assert f"{learned}the others judge\n" in str(mixed)
    assert "accepted: on held-out corrections its error is" in str(mixed)
    assert repr(mixed).startswith("Improvement('accepted")


@pytest.mark.parametrize("test", [0.5, DEMOS[9:15]])
def test_the_next_version_of_a_policy_that_waits_or_knows_what_comes_does_so_too(corrections, test):
    old = simile.learn(TRAIN, model=LIGHT, smoothness=5.0, lead=-0.1, known={"player0": [0.2]}).policy
    found = improve(
        old,
        REST[:9] if isinstance(test, simile.Demonstrations) else REST,
        corrections,
        weight=1.0,
        model=LIGHT,
        test=test,
    )
    assert timing(found.policy) == timing(old) == (-3, ((0, 6),))
    assert math.isfinite(found.decision.corrections.over_baseline.value)
    # Nobody knows ahead in the last six frames of a demonstration: they judge, and are not learned from.
    shown, judging = found.judges
    taken = corrections.demos.n_frames - judging.demos.n_frames
    assert {len(d) for d in shown} == {200}
    assert found.policy.card.training["frames"] == taken + 194 * found.facts["learned"]["demonstrations"]


def test_the_same_seed_has_the_same_bits_and_an_interrupted_call_goes_on(policy, corrections, mixed, tmp_path):
    class StopError(Exception):
        pass

    seen, ledger, tmp_path = [], Ledger(tmp_path / "policy.safetensors"), tmp_path / "checkpoint"

    def stop(trial):
        seen.append(trial.weight)
        if len(seen) == 2:
            raise StopError

    with pytest.raises(StopError):
        improve(policy, REST, corrections, model=LIGHT, test=0.5, folder=tmp_path, watch=stop)
    kept = sorted(p.name for p in tmp_path.rglob("*.safetensors"))
    assert kept == ["weight-1.0.safetensors", "weight-2.0.safetensors"]
    again = improve(
        policy, REST, corrections, model=LIGHT, test=0.5, folder=tmp_path, watch=lambda t: seen.append(t.weight)
    )
    assert seen == [1.0, 2.0, *WEIGHTS, *WEIGHTS]
    assert to_bytes(again.policy) == to_bytes(mixed.policy)
    assert again.decision.to_dict() == mixed.decision.to_dict()
    other = improve(policy, REST, corrections, model=LIGHT, test=0.5, folder=tmp_path, weight=1.0, seed=1)
    assert len(list(tmp_path.iterdir())) == 2  # of another seed nothing is read
    ours, theirs = ([len(set(some.kin)) for some in (one.judges[0], one.judges[1].demos)] for one in (other, mixed))
    assert ours == theirs  # as many groups
    assert other.judges[0].names != mixed.judges[0].names

    def stop_at(trial):
        raise StopError(trial.policy.card.training["improved"]["weight"])

    like_other = {"model": LIGHT, "test": 0.5, "folder": tmp_path, "seed": 1}
    with pytest.raises(StopError, match=r"1\.0000004"):  # nor of another weight, however close
        improve(policy, REST, corrections, weight=1.0000004, watch=stop_at, **like_other)
    # What is kept clears what was learned on the way, and nothing of others that were interrupted.
    policy.save(ledger.path)
    assert keep(ledger, again, ledger.at_work).event == "accepted"
    assert [p.name for p in tmp_path.iterdir()] == [other.place.name]
    (other.place / "weight-1.0.safetensors").write_bytes(b"cut")
    with pytest.raises(StorageError, match="earlier call has kept, cannot be read: remove it, and it is"):
        improve(policy, REST, corrections, weight=1.0, **like_other)


def test_both_ways_keep_hold_and_units_and_the_filter_unless_the_gate_would_find_it_too_rough(
    policy, corrections, mixed
):
    anew = improve(policy, REST, corrections, by="aggregate", weight=4.0, model=LIGHT)
    for found in (mixed, anew):
        assert found.policy.units.equals(policy.units)
        assert np.array_equal(found.policy.memory, policy.memory)
    first, last = simile.policies.policies.whole(policy), simile.policies.policies.whole(anew.policy)
    assert all(trial.roughness <= 1.0 + simile.Gate().tolerance for trial in (*anew.trials, *mixed.trials))
    assert last.smoothness >= first.smoothness
    kept = improve(policy, REST, corrections, by="aggregate", weight=4.0, model=LIGHT, gate=simile.Gate(tolerance=9.0))
    assert whole(kept.policy).smoothness == first.smoothness
    assert repr(last.hold) == repr(first.hold)
    assert anew.decision.corrections.over_baseline.value < 1.0
    assert [trial.let for trial in anew.trials] == [False, True]


@pytest.mark.parametrize("model", [LIGHT, LIGHT[1]])
def test_of_the_old_policy_a_quarter_remains_at_most_and_nothing_in_what_is_learned_anew(policy, corrections, model):
    how = {"weight": 1.0, "model": model}
    anew, both = (improve(policy, REST, corrections, by=by, **how) for by in ("aggregate", "mix"))
    states = np.random.default_rng(0).normal(size=(20, whole(policy).n_contexts * len(policy.horizon.context_lags)))
    remains = [f.predict(states) for f, _ in parts_of(whole(policy).f)]

    def share(new):
        """Return what the parts of the old policy weigh in the new one."""
        shares = [(f.predict(states), np.mean(weight)) for f, weight in parts_of(whole(new).f)]
        assert sum(weight for _, weight in shares) == pytest.approx(1.0)
        return sum(weight for said, weight in shares if any(np.array_equal(said, one) for one in remains))

    for trials, most in ((both.trials, 0.25), (anew.trials, 0.0)):
        assert all(0.0 <= share(trial.policy) <= most + 1e-9 for trial in trials)
    assert both.policy.card.training["improved"]["let"] == both.chosen.let


def test_a_second_round_judges_by_stretches_that_the_first_has_not_learned(mixed, corrections, policy):
    second = improve(mixed.policy, REST, corrections, weight=1.0, model=LIGHT, test=0.5)
    held = {s.name for s in second.judges[1].stretches}
    assert held <= {s.name for s in mixed.judges[1].stretches}
    assert set(second.judges[0].names) <= set(REST.names[3:])
    first = second.facts["learned"]
    assert first["corrections"] + second.facts["held_out"]["corrections"] == len(corrections)
    none = corrections.where([i for i, s in enumerate(corrections.stretches) if s.name not in held])
    taught = set(marks_of(mixed.policy.card.training))
    seen = [i for i, d in enumerate(none.demos.digests) if mark_of(d) in taught]
    with pytest.raises(ArgumentError, match="corrections: some that the policy has not learned from must judge"):
        improve(mixed.policy, REST, none.where(seen), model=LIGHT)
    chain = corrections.grouped(["chain"] * len(corrections))  # all share frames with one that it has learned from
    with pytest.raises(ArgumentError, match="learned from all of them, or from what shares frames with them: let an"):
        improve(mixed.policy, REST, chain, model=LIGHT)
    assert policy is not mixed.policy


def test_demonstrations_of_ones_own_judge(policy, corrections):
    found = improve(policy, TRAIN, corrections, weight=1.0, model=LIGHT, test=REST[3:])
    assert found.judges[0] is not None
    assert found.judges[0].names == REST[3:].names
    assert found.facts["learned"]["demonstrations"] == 3
    assert found.facts["held_out"]["demonstrations"] == 12
    with pytest.raises(ArgumentError, match="test must be demonstrations that neither the policy nor the new one"):
        improve(policy, TRAIN, corrections, model=LIGHT, test=REST)
    renamed = simile.Demonstrations(tuple(replace(d, name=f"held {d.name}", group="anna") for d in REST[3:6]))
    with pytest.raises(ArgumentError, match="test must be demonstrations that neither the policy nor the new one"):
        improve(policy, REST[3:9], corrections, model=LIGHT, test=renamed)


def test_one_person_alone_is_no_group_beside_corrections(policy, corrections, mixed):
    """Each demonstration is left out on its own, as if nobody had said whose they are."""
    runs = tuple(replace(run, weights=np.zeros_like(run.actions)) for run in corrections.runs)
    some = replace(corrections, runs=runs)  # in which nobody watched
    grouped = REST[3:9].grouped(["anna"] * 6, by="person")
    alone, one = (
        improve(policy, demos, some, weight=1.0, model=LIGHT, test=REST[9:]) for demos in (REST[3:9], grouped)
    )
    assert one.chosen.demonstrations == alone.chosen.demonstrations
    assert one.decision.to_dict() == alone.decision.to_dict()
    assert one.facts["data"] == grouped.digest()
    assert set(marks_of(one.policy.card.training)) > {mark_of(d) for d in grouped.digests}
    # The policy knows none of these: they may be others, or its own, read otherwise.
    (note,) = one.notes
    assert note.startswith("the policy has learned from none of these demonstrations as far as its card tells: if they")
    assert mixed.notes == ()


def test_stretches_that_share_frames_never_judge_one_another(policy, corrections, mixed):
    chain = corrections.grouped(["chain"] * len(corrections))
    with pytest.raises(
        ArgumentError, match=r"corrections: .* must judge, and there is one alone: let an operator work"
    ):
        improve(policy, REST, chain, model=LIGHT)
    held, judging = mixed.judges
    two = judging.grouped([f"chain {i % 2}" for i in range(len(judging))]).demos
    refused = Gate().judge(policy, mixed.policy, held, two)
    assert refused.corrections.groups == 2
    assert "held-out corrections are of 2 groups, and fewer than 6 tell nothing" in refused.reason
    # Demonstrations of few groups judge one by one, and that is said.
    few = Gate().judge(policy, mixed.policy, held.grouped(["anna"] * 4 + ["ben"] * 4), judging.demos)
    assert (few.accepted, few.demonstrations.groups) == (True, 8)
    assert "on 8 recordings it had not seen (of 2 groups alone): " in str(few)


def with_context(corrections, number, change):
    """Return corrections with another context in the place of one."""
    demos = []
    for demo in corrections.demos:
        contexts = demo.contexts.copy()
        contexts[:, number] = change(contexts[:, number])
        demos.append(replace(demo, contexts=contexts))
    return replace(corrections, demos=simile.Demonstrations(tuple(demos)))


def test_recordings_that_hide_a_context_or_are_another_policys_are_refused(policy, corrections):
    def refused(sentence, demos, some, old=policy):
        with pytest.raises(ArgumentError, match=sentence):
            improve(old, demos, some, weight=1.0, model=LIGHT, test=0.5)

    gone = with_context(corrections, 1, lambda x: np.full_like(x, np.nan))
    refused("corrections: player1 is missing in all of them, and the demonstrations have it", REST, gone)
    hashed = with_context(corrections, 2, lambda x: 1e12 + 1e6 * x)
    refused(
        r"corrections: player2 is from 1e\+12 to 1e\+12 in them, .* hashed values \(--record-hashed\)", REST, hashed
    )
    tilted = tuple(replace(d, action_names=("tilt",)) for d in corrections.demos)
    others = replace(corrections, demos=simile.Demonstrations(tilted))
    refused(r"corrections must have the columns .* got \('tilt',\): these were recorded with another", REST, others)
    faster = simile.Demonstrations(tuple(replace(d, rate=30.0001) for d in REST))
    refused(r"corrections were recorded at 30\.0 .* have 30\.0001: read these with rate=30\.0", faster, corrections)
    slow = replace(policy, smoothness=1e9)
    refused(r"lags by .*: learn a policy anew with another filter, simile\.learn\(demos", REST, corrections, slow)


def test_mistakes_get_a_sentence(policy, corrections):
    with pytest.raises(ArgumentError, match="by must be 'aggregate' or 'mix'; got 'dagger'"):
        improve(policy, REST, corrections, by="dagger")
    with pytest.raises(ArgumentError, match="corrections must be Corrections; got str: read them with"):
        improve(policy, REST, "recordings")
    with pytest.raises(ArgumentError, match="weight must be > 0; got 0"):
        improve(policy, REST, corrections, weight=0)
    with pytest.raises(ArgumentError, match="it has learned from all of them: add recordings that it has not seen"):
        improve(policy, TRAIN, corrections)
    with pytest.raises(ArgumentError, match="initial must have the contexts of the demonstrations"):
        improve(policy, tasks.pursuit(n_sequences=4, length=50, n_players=3), corrections)
    paper = simile.clone(TRAIN, model=simile.SmoothForest(n_trees=2)).policy
    with pytest.raises(ArgumentError, match="policy must be one on contexts alone behind a linear filter"):
        improve(paper, REST, corrections)
    with pytest.raises(ArgumentError, match=r"gain must be >= 0 and <= 1; got 2"):
        Gate(gain=2)
    with pytest.raises(ArgumentError, match="margin must be >= 0; got -1"):
        Gate(margin=-1)


def judged(policy, mixed, new, **choices):
    return Gate(**choices).judge(policy, new, mixed.judges[0], mixed.judges[1].demos)


def test_what_was_made_worse_on_purpose_is_refused_with_the_reason(policy, mixed):
    late = TRAIN.with_actions([np.concatenate([a[:1].repeat(30, 0), a])[: len(a)] for a in TRAIN.actions])
    worse = simile.learn(late, model=LIGHT).policy
    said = judged(policy, mixed, worse).reason
    assert said.startswith("not accepted: on held-out demonstrations its error may be ")
    assert said.endswith("% as measured), and 2.5 % is allowed.")
    itself = judged(policy, mixed, policy)
    assert itself.reason == (
        "not accepted: on held-out corrections its error is 1.000 times that of the old one, which is not "
        "surely 0.25 % less (at most 1.000)."
    )
    assert itself.roughness[0] == itself.roughness[1]
    few = Gate().judge(policy, mixed.policy, mixed.judges[0], mixed.judges[1].demos[:2])
    assert (
        few.reason == "not accepted: held-out corrections are of 2 groups, and fewer than 6 tell nothing: record more."
    )
    assert not few.corrections.over_baseline.is_sure


def decided(references, old, new):
    """What the gate says of roll-outs over demonstrations and corrections."""
    old, new = ([one.tally(some) for one, some in zip(references, both, strict=True)] for both in (old, new))
    return Gate().decide(references, old, new)


def test_what_is_rougher_or_turns_more_often_is_refused(mixed):
    references = Reference(mixed.judges[0], 1.0, 3), Reference(mixed.judges[1].demos, 1.0, 3)
    old = [[0.8 * a for a in part.demos.actions] for part in references]
    better = [[a.copy() for a in part.demos.actions] for part in references]
    found = decided(references, old, [[0.9 * a for a in some] for some in better])
    assert found.accepted
    shown = found.demonstrations
    assert (shown.recordings, shown.baseline) == (8, "the policy at work")
    assert shown.over_baseline.value == pytest.approx(0.5)  # 0.1 of the actions is missing, not 0.2
    assert str(found).startswith(f"on held-out demonstrations: {shown}\n")
    assert found.to_dict()["demonstrations"] == shown.to_dict()
    shaken = [[a + 0.02 * (-1.0) ** np.arange(len(a))[:, np.newaxis] for a in some] for some in better]
    assert "it is rougher than the old one" in decided(references, old, shaken).reason
    trembling = [[a + 0.05 * (-1.0) ** np.arange(len(a))[:, np.newaxis] for a in some] for some in old]
    turning = [[a + 0.5 * np.sin(np.arange(len(a)) / 3.0)[:, np.newaxis] for a in some] for some in better]
    assert "it turns more often than the old one" in decided(references, trembling, turning).reason


def test_where_nothing_can_be_told_the_reason_says_so(mixed):
    references = held, corrected = Reference(mixed.judges[0], 1.0, 3), Reference(mixed.judges[1].demos, 1.0, 3)
    old = [[0.8 * a for a in part.demos.actions] for part in references]
    better = [[0.9 * a for a in part.demos.actions] for part in references]
    right = list(held.demos.actions)
    for new in (right, better[0]):
        found = decided(references, [right, old[1]], [new, better[1]])
        assert found.reason.startswith("not accepted: on held-out demonstrations the policy at work makes no errors")
    short = Reference(mixed.judges[0].head(2), 1.0, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        none = decided((short, corrected), *[[list(short.demos.actions), old[1]]] * 2)
    assert "no frame of the held-out demonstrations counts, behind the first ones" in none.reason


def test_what_diverges_is_refused(policy, mixed, monkeypatch):
    def roll_out(one, demos, frames):
        if one is not policy:
            raise simile.DivergedError("frame 3 is out of every reasonable range.")
        return simile.rollout(one, demos, start=simile.ExpertStart(frames))

    monkeypatch.setattr("simile.evaluation.evaluation.roll_out", roll_out)
    found = judged(policy, mixed, mixed.policy)
    assert not found.accepted
    assert found.reason.startswith(
        "not accepted: on held-out demonstrations its roll-out left every reasonable range in 8"
    )
    assert found.to_dict()["corrections"]["diverged"] == found.corrections.recordings


def test_what_judges_is_not_let_be(policy, corrections, mixed, monkeypatch):
    seen = []

    def learn(lesson, *_):
        seen.append({run.name: run.weights for run in lesson.corrections.watched})
        return mixed.trials[0]

    monkeypatch.setattr("simile.evaluation.improvement._learn_or_read", learn)
    improve(policy, REST, corrections, model=LIGHT, test=0.5)
    assert len(seen) == 4
    watched = {run.name: run.weights for run in corrections.watched}
    judging = [s for s in mixed.judges[1].stretches if s.sequence in watched]
    assert judging
    for stretch in judging:
        frames = slice(max(0, stretch.first - 64), stretch.last + 1)
        assert stretch.sequence not in seen[0] or not seen[0][stretch.sequence][frames].any()


def test_the_limit_keeps_its_level_for_groups_of_unlike_size():
    """Of skewed errors whose truth is no change, no more than about one in twenty comparisons says that it is less."""
    rng, wrong, trials = np.random.default_rng(0), {6: 0, 12: 0, 30: 0}, 2000
    for n in wrong:
        for _ in range(trials):
            size = rng.lognormal(0.0, 1.0, n)
            old, new = size * rng.lognormal(0.0, 0.2, n), size * rng.lognormal(0.0, 0.2, n)
            wrong[n] += estimate(lambda a, b: float(a / b), new, old, positive=True).high < 1.0
    assert all(0.02 < found / trials < 0.065 for found in wrong.values()), wrong


def test_the_command_puts_a_better_version_to_work_and_keeps_a_candidate(policy, folder, tmp_path):
    simile.write(REST, tmp_path / "demos.csv")
    # What was read from a file is what the policy has learned from.
    train = simile.read(tmp_path / "demos.csv", actions="pan", quiet=True)[:3]
    simile.learn(train, model=TREES).policy.save(tmp_path / "policy.safetensors")
    small = "(SmoothForest(n_trees=4, min_leaf=20), Ridge(rows=2000))"
    words = [
        "improve",
        "policy.safetensors",
        "--demos",
        "demos.csv",
        "--corrections",
        folder,
        "--model",
        small,
        "--test",
        "0.5",
    ]
    before = Ledger(tmp_path / "policy.safetensors").at_work
    dry = simile_(*words, "--weight", "4", "--dry-run", cwd=tmp_path)
    assert "Nothing was kept" in dry.stdout
    assert not Ledger(tmp_path / "policy.safetensors").folder.exists()
    done = simile_(*words, cwd=tmp_path, process=True)
    assert "improving: weight 2" in done.stderr
    ledger = Ledger(tmp_path / "policy.safetensors")
    assert f"policy.safetensors is version {ledger.at_work[:12]} now. Back: simile roll-back" in done.stdout
    line = ledger.lines()[-1]
    assert (line.event, line.who, line.parents, line.replaced) == ("accepted", "the gate", (before,), before)
    assert line.facts["decision"]["accepted"]
    assert [p.name for p in ledger.folder.iterdir() if p.is_dir()] == []
    left = read_corrections(folder).stretches[0].name
    strict = simile_(*words, "--gain", "0.9", "--weight", "1", "--json", "--without", left, cwd=tmp_path)
    told = json.loads(strict.stdout)
    assert not told["decision"]["accepted"]
    assert ledger.at_work == line.digest
    assert {v.digest: v.state for v in ledger.versions()}[told["digest"]] == "candidate"
    simile.write(REST[3:], tmp_path / "held out.csv")
    own = simile_(*words, "--test", "held out.csv", cwd=tmp_path, code=2)
    assert "test must be demonstrations that neither" in own.stderr
    for lacking in ("--demos", "--corrections"):
        short = [w for i, w in enumerate(words) if lacking not in (w, words[i - 1])]
        assert f"{lacking} is missing" in simile_(*short, cwd=tmp_path, code=2).stderr
    assert "blame must be" in simile_(*words, "--blame", "90", cwd=tmp_path, code=2).stderr


def test_the_command_puts_nothing_to_work_that_was_compared_with_another(policy, folder, mixed, tmp_path, monkeypatch):
    simile.write(REST[:3], tmp_path / "demos.csv")
    ledger, third = Ledger(tmp_path / "policy.safetensors"), mixed.trials[1 - mixed.trials.index(mixed.chosen)].policy
    words = "improve", ledger.path, "--demos", "demos.csv", "--corrections", folder
    learned = []

    def learn(*_, **__):
        learned.append(mixed)
        third.save(ledger.path)  # somebody else is faster
        return mixed

    monkeypatch.setattr("simile.evaluation.improvement.improve", learn)
    policy.save(ledger.path)
    told = simile_(*words, cwd=tmp_path).stdout
    assert f"\nBut kept as a candidate, for version {digest_of(third)[:12]} took the place of" in told
    assert ledger.at_work == digest_of(third)
    assert ledger.lines()[-1].parents == (digest_of(policy),)
    again = json.loads(simile_(*words, "--json", cwd=tmp_path).stdout)
    assert (again["digest"], again["event"]) == (digest_of(mixed.policy), "accepted")
    (ledger.folder / LEDGER).write_text("{}")
    assert "is no line of a ledger" in simile_(*words, cwd=tmp_path, code=2).stderr
    assert len(learned) == 2  # damage is told before the work


def test_groups_of_ones_own_are_held_out_together(corrections):
    streams = [s.sequence for s in corrections.stretches]
    grouped = corrections.grouped(streams)
    assert grouped.demos.digests == corrections.demos.digests
    assert grouped.demos.groups == tuple(streams)
    assert replace(grouped, demos=corrections.demos).digest == corrections.digest


def test_a_version_that_the_gate_would_call_rougher_is_not_chosen(policy):
    better, smoother, worse = (
        Trial(1.0, False, policy, error, error, roughness) for error, roughness in ((0.5, 1.3), (0.8, 1.1), (0.9, 1.0))
    )
    assert _choose([better, smoother, worse], tolerance=0.15) is smoother
    assert _choose([better, smoother, worse], tolerance=0.5) is better
    assert _choose([better, replace(smoother, roughness=1.2)], tolerance=0.15).roughness == 1.2  # the smoothest of all
