"""From a policy at work and an operator's corrections to the next version, and the gate before it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import simile
from commands import simile_
from simile.data import tasks
from simile.data.corrections import read_corrections
from simile.errors import ArgumentError
from simile.evaluation.gate import Gate, Paired
from simile.evaluation.improvement import WEIGHTS, Trial, _choose, improve
from simile.experiments.operators import ScriptedOperator, record
from simile.learning.initial import marks_of
from simile.learning.measures import Ruler
from simile.learning.rounds import mark_of
from simile.policies.ledger import Ledger
from simile.policies.policies import timing
from simile.policies.storage.files import digest_of, to_bytes

LIGHT = (simile.SmoothForest(n_trees=4, min_leaf=20), simile.RolloutRidge(rows=2000))
DEMOS = tasks.pursuit(n_sequences=39, length=200, seed=10)
TRAIN, REST, WORK = DEMOS[:3], DEMOS[:15], DEMOS[15:]


@pytest.fixture(scope="module")
def policy():
    return simile.learn(TRAIN, model=LIGHT).policy


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
    verdict = mixed.verdict
    assert verdict.accepted
    assert verdict.corrections.ratio < verdict.corrections.upper < 1.0
    held, judging = mixed.judges
    known = set(marks_of(mixed.policy.card.training))
    assert known >= set(marks_of(policy.card.training))
    # Nobody has learned from what judges.
    assert not known & {mark_of(d) for d in (*held.digests, *judging.demos.digests)}
    assert len(held) == verdict.demonstrations.groups == 8
    assert set(judging.demos.groups).isdisjoint(set(corrections.demos.groups) - set(judging.demos.groups))
    error = Ruler(held, policy.units.scale, policy.memory).measure(simile.rollout(mixed.policy, held)).rmse
    assert error == pytest.approx(verdict.demonstrations.new)
    assert mixed.weight in WEIGHTS
    assert mixed.policy.card.training["improved"]["from"] == digest_of(policy)
    assert "<- chosen" in str(mixed)
    assert "accepted: on held-out corrections its squared error is" in str(mixed)
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
    assert math.isfinite(found.verdict.corrections.ratio)
    # Nobody knows ahead in the last six frames of a demonstration: they judge, and are not learned from.
    shown, judging = found.judges
    taken = corrections.demos.n_frames - judging.demos.n_frames
    assert {len(d) for d in shown} == {200}
    assert found.policy.card.training["frames"] == taken + 194 * found.facts["learned"]["demonstrations"]


def test_the_same_seed_has_the_same_bits_and_an_interrupted_call_goes_on(policy, corrections, mixed, tmp_path):
    class StopError(Exception):
        pass

    seen = []

    def stop(trial):
        seen.append(trial.weight)
        if len(seen) == 2:
            raise StopError

    with pytest.raises(StopError):
        improve(policy, REST, corrections, model=LIGHT, test=0.5, folder=tmp_path, watch=stop)
    kept = sorted(p.name for p in tmp_path.rglob("*.safetensors"))
    assert kept == ["weight-1.safetensors", "weight-2.safetensors"]
    again = improve(
        policy, REST, corrections, model=LIGHT, test=0.5, folder=tmp_path, watch=lambda t: seen.append(t.weight)
    )
    assert seen == [1.0, 2.0, *WEIGHTS, *WEIGHTS]
    assert to_bytes(again.policy) == to_bytes(mixed.policy)
    assert again.verdict == mixed.verdict
    other = improve(policy, REST, corrections, model=LIGHT, test=0.5, folder=tmp_path, weight=1.0, seed=1)
    assert len(list(tmp_path.iterdir())) == 2  # of another seed nothing is read
    assert other.facts["held_out"] == mixed.facts["held_out"]
    assert other.judges[0].names != mixed.judges[0].names


def test_both_ways_keep_filter_hold_and_units(policy, corrections, mixed):
    anew = improve(policy, REST, corrections, by="aggregate", weight=4.0, model=LIGHT)
    for found in (mixed, anew):
        assert found.policy.units.equals(policy.units)
        assert np.array_equal(found.policy.memory, policy.memory)
    first, last = simile.policies.policies.whole(policy), simile.policies.policies.whole(anew.policy)
    assert last.smoothness == first.smoothness
    assert repr(last.hold) == repr(first.hold)
    assert anew.verdict.corrections.ratio < 1.0
    assert [trial.let for trial in anew.trials] == [False, True]


def test_of_the_old_policy_a_quarter_remains_at_most(policy, corrections):
    anew, both = (improve(policy, REST, corrections, by=by, weight=1.0, model=LIGHT) for by in ("aggregate", "mix"))
    rolled = [simile.rollout(p, WORK[:1])[0] for p in (policy, anew.trials[1].policy, both.trials[1].policy)]
    old, new, mixed = (a[60:] for a in rolled)  # behind the memory of the start
    share = float(np.sum((mixed - new) * (old - new)) / np.sum((old - new) ** 2))
    assert -0.01 <= share <= 0.26
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
    assert policy is not mixed.policy


def test_demonstrations_of_ones_own_judge(policy, corrections):
    found = improve(policy, TRAIN, corrections, weight=1.0, model=LIGHT, test=REST[3:])
    assert found.judges[0] is not None
    assert found.judges[0].names == REST[3:].names
    assert found.facts["learned"]["demonstrations"] == 3
    assert found.facts["held_out"]["demonstrations"] == 12
    with pytest.raises(ArgumentError, match="test must be demonstrations that neither the policy nor the new one"):
        improve(policy, TRAIN, corrections, model=LIGHT, test=REST)


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
    with pytest.raises(ArgumentError, match=r"confidence must be >= 0\.5 and <= 0\.9999; got 2"):
        Gate(confidence=2)
    with pytest.raises(ArgumentError, match="margin must be >= 0; got -1"):
        Gate(margin=-1)


def judged(policy, mixed, new, **choices):
    return Gate(**choices).judge(policy, new, mixed.judges[0], mixed.judges[1].demos)


def test_what_was_made_worse_on_purpose_is_refused_with_the_reason(policy, mixed):
    late = TRAIN.with_actions([np.concatenate([a[:1].repeat(30, 0), a])[: len(a)] for a in TRAIN.actions])
    worse = simile.learn(late, model=LIGHT).policy
    said = judged(policy, mixed, worse).reason
    assert said.startswith("not accepted: on held-out demonstrations its squared error may be ")
    assert said.endswith("% as measured), and 5 % is allowed.")
    itself = judged(policy, mixed, policy)
    assert itself.reason == (
        "not accepted: on held-out corrections its squared error is 1.000 times that of the old one, which is not "
        "surely 0.5 % less (at most 1.000)."
    )
    assert itself.roughness[0] == itself.roughness[1]
    few = Gate().judge(policy, mixed.policy, mixed.judges[0], mixed.judges[1].demos[:2])
    assert (
        few.reason == "not accepted: held-out corrections are of 2 groups, and fewer than 4 tell nothing: record more."
    )
    assert math.isnan(few.corrections.upper)


def test_what_is_rougher_or_turns_more_often_is_refused(policy, mixed):
    held, corrected = Ruler(mixed.judges[0], 1.0, 3), Ruler(mixed.judges[1].demos, 1.0, 3)
    old = [[0.8 * a for a in part.demos.actions] for part in (held, corrected)]
    better = [[a.copy() for a in part.demos.actions] for part in (held, corrected)]
    assert Gate().decide(held, corrected, old, [[0.9 * a for a in some] for some in better]).accepted
    shaken = [[a + 0.02 * (-1.0) ** np.arange(len(a))[:, np.newaxis] for a in some] for some in better]
    assert "it is rougher than the old one" in Gate().decide(held, corrected, old, shaken).reason
    trembling = [[a + 0.05 * (-1.0) ** np.arange(len(a))[:, np.newaxis] for a in some] for some in old]
    turning = [[a + 0.5 * np.sin(np.arange(len(a)) / 3.0)[:, np.newaxis] for a in some] for some in better]
    assert "it turns more often than the old one" in Gate().decide(held, corrected, trembling, turning).reason


def test_what_diverges_is_refused(policy, mixed, monkeypatch):
    def roll_out(one, demos, **given):
        if one is not policy:
            raise simile.DivergedError("frame 3 is out of every reasonable range.")
        return simile.rollout(one, demos, **given)

    monkeypatch.setattr("simile.evaluation.gate.rollout", roll_out)
    found = judged(policy, mixed, mixed.policy)
    assert not found.accepted
    assert found.reason == "not accepted: frame 3 is out of every reasonable range."
    assert math.isinf(found.corrections.ratio)
    assert found.to_dict()["reversals"][0] == found.reversals[1]


def test_what_judges_is_not_let_be(policy, corrections, mixed, monkeypatch):
    learned = {s.sequence for s in corrections.stretches if s not in mixed.judges[1].stretches}
    assert not learned.issuperset(corrections.watched.names)
    tried = []

    def learn(lesson, _, let, __):
        taken = {stretch.sequence for stretch in lesson.corrections.stretches}
        assert lesson.corrections.watched is None or taken.issuperset(lesson.corrections.watched.names)
        tried.append(let)
        return mixed.trials[0]

    monkeypatch.setattr("simile.evaluation.improvement._learn_or_read", learn)
    improve(policy, REST, corrections, model=LIGHT, test=0.5)
    # Where somebody watched in what judges alone, there is nothing to be let.
    silent = tuple(replace(r, weights=r.weights * (r.name not in learned)) for r in corrections.runs)
    improve(policy, REST, replace(corrections, runs=silent), model=LIGHT, test=0.5)
    assert tried == [False, False, True, True, False, False]


def test_the_limit_keeps_its_level_for_groups_of_unlike_size():
    """Of skewed errors whose truth is no change, no more than about one in twenty comparisons says that it is less."""
    rng, wrong, trials = np.random.default_rng(0), {6: 0, 12: 0, 30: 0}, 2000
    for n in wrong:
        for _ in range(trials):
            size = rng.lognormal(0.0, 1.0, n)
            old, new = size * rng.lognormal(0.0, 0.2, n), size * rng.lognormal(0.0, 0.2, n)
            wrong[n] += Paired.of(old, new, 0.95).upper < 1.0
    assert all(0.02 < found / trials < 0.065 for found in wrong.values()), wrong
    assert math.isnan(Paired.of(np.ones(3), np.ones(3), 0.95).upper)
    assert Paired.of(np.zeros(5), np.zeros(5), 0.95).ratio == 1.0


def test_the_command_puts_a_better_version_to_work_and_keeps_a_candidate(policy, folder, tmp_path):
    simile.write(REST, tmp_path / "demos.csv")
    # What was read from a file is what the policy has learned from.
    train = simile.read(tmp_path / "demos.csv", actions="pan", quiet=True)[:3]
    simile.learn(train, model=LIGHT).policy.save(tmp_path / "policy.safetensors")
    small = "(SmoothForest(n_trees=4, min_leaf=20), RolloutRidge(rows=2000))"
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
    assert line.facts["verdict"]["accepted"]
    assert [p.name for p in ledger.folder.iterdir() if p.is_dir()] == []
    left = read_corrections(folder).stretches[0].name
    strict = simile_(*words, "--gain", "0.9", "--weight", "1", "--json", "--without", left, cwd=tmp_path)
    told = json.loads(strict.stdout)
    assert not told["verdict"]["accepted"]
    assert ledger.at_work == line.digest
    assert {v.digest: v.state for v in ledger.versions()}[told["digest"]] == "candidate"
    simile.write(REST[3:], tmp_path / "held out.csv")
    own = simile_(*words, "--test", "held out.csv", cwd=tmp_path, code=2)
    assert "test must be demonstrations that neither" in own.stderr
    for lacking in ("--demos", "--corrections"):
        short = [w for i, w in enumerate(words) if lacking not in (w, words[i - 1])]
        assert f"{lacking} is missing" in simile_(*short, cwd=tmp_path, code=2).stderr
    assert "blame must be" in simile_(*words, "--blame", "90", cwd=tmp_path, code=2).stderr


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
