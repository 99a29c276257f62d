"""Going on from an existing policy: round 0 of Algorithm 1, or one more component of a mixture."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import simile
from commands import simile_
from simile import Constant, CriticallyDamped, Demonstrations, ExpertFeedback, Horizon, VelocityAutoregression, rollout
from simile.data import tasks
from simile.data.recorded import Units
from simile.errors import ArgumentError
from simile.learning.distributed.backend import LocalBackend
from simile.learning.folds import states_of
from simile.learning.mixture import Choices, Mixture, standardize
from simile.learning.rounds import mark_of
from simile.learning.runs import RunFolder
from simile.policies.offset import Offset
from simile.policies.policies import parts, whole

DEMOS = tasks.pursuit(n_sequences=8, length=120, seed=3)
OLD, NEW, TEST = DEMOS[:3], DEMOS[3:7], DEMOS[7:]
SMALL = {"model": simile.SmoothForest(n_trees=5, min_leaf=8), "horizon": Horizon(3, 2), "n_rounds": 2}
LIGHT = (simile.SmoothForest(n_trees=5, min_leaf=8), simile.Ridge())


@pytest.fixture(scope="module")
def mixture():
    return simile.paper(OLD, **SMALL).policy


@pytest.fixture(scope="module")
def learned():
    return simile.learn(OLD, model=LIGHT).policy


def same(one, other) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def error(policy, demos=TEST) -> float:
    return simile.evaluate(policy, demos).entries[0].tally.score.rmse


# --- the rounds of Algorithm 1


@pytest.mark.parametrize("algorithm", ["paper", "authors", "searn", "smile", "dagger", "coach"])
def test_round_zero_is_the_policy_that_was_given(mixture, algorithm):
    initial = mixture
    run = getattr(simile, algorithm)(NEW, initial=initial, **{**SMALL, "n_rounds": 1})
    first = run.rounds[0]
    assert same(rollout(first.policy, TEST), rollout(initial, TEST))
    assert (first.number, first.beta, first.sigma) == (0, 1.0, 0.0)
    assert first.policy.units.equals(run.rounds[1].policy.units)
    assert len(run.rounds) == 2
    assert "Mixture of 3 sequences, " in run.policy.card.training["settings"]["initial"]
    assert run.policy.card.training["sequences"] == len(NEW)


def test_two_runs_of_one_round_are_one_of_two():
    choices = {
        "model": Ridge(alpha=1.0),
        "horizon": Horizon(3, 2),
        "regularizer": VelocityAutoregression(order=3),
        "feedback": ExpertFeedback(),
        "step_size": Constant(0.3),
    }
    whole_run = simile.paper(NEW, n_rounds=2, **choices)
    half = simile.paper(NEW, n_rounds=1, **choices)
    rest = simile.paper(NEW, n_rounds=1, initial=half.policy, **choices)
    for one, other in zip(rollout(whole_run.policy, TEST), rollout(rest.policy, TEST), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert rest.rounds[1].error == pytest.approx(whole_run.rounds[2].error)


def test_filters_and_horizons_may_differ(tmp_path, learned):
    """Such a mixture is no single (f, h), and is rolled out, stepped online, stored and diagnosed all the same."""
    run = simile.paper(NEW, initial=learned, smoothness=5.0, **SMALL)
    policy = run.policy
    assert whole(policy) is None
    assert len({part.horizon for _, part in parts(policy)}) == 2
    rolled = rollout(policy, TEST, start=simile.ColdStart())
    predictor = simile.Predictor(policy)
    assert np.array_equal(rolled[0], [predictor.step(x) for x in TEST[0].contexts])
    policy.save(tmp_path / "policy.safetensors")
    assert same(rollout(simile.load(tmp_path / "policy.safetensors"), TEST), rollout(policy, TEST))
    assert str(simile.diagnose(policy, TEST))
    assert any("initial holds still" in note for note in run.notes) == (learned.hold is not None)


def test_a_hold_is_not_lost_in_silence(learned):
    run = simile.paper(NEW, initial=learned.holding(simile.Hold(0.25)), **SMALL)
    (note,) = [note for note in run.notes if "holds still" in note]
    assert note.endswith("put it back with run.policy.holding(Hold(0.25))")
    assert run.policy.hold is None


def test_a_memory_of_the_start_is_not_lost_in_silence(learned):
    run = simile.paper(NEW, initial=learned.keeping(Offset(0.5, 0.9)), **SMALL)
    assert any("initial remembers its start" in note and "run.policy.keeping(Offset(" in note for note in run.notes)
    assert run.policy.offset is None


def test_units_and_bounds_are_those_of_the_policy_that_was_given(mixture):
    space = simile.ActionSpace(-400.0, 400.0)
    initial = mixture.in_units(mixture.units, space, mixture.card)
    run = simile.paper(NEW, initial=initial, **SMALL)
    assert run.policy.units.equals(initial.units)
    assert not run.policy.units.equals(Units.of(NEW))
    assert (run.policy.space.low, run.policy.space.high) == (space.low, space.high)


def test_other_units_are_told(mixture):
    turned = NEW.with_actions([a * np.pi / 180.0 / 100.0 for a in NEW.actions])
    run = simile.paper(turned, initial=mixture, **SMALL)
    assert any(note.startswith("pan: the demonstrations lie 10 times farther apart") for note in run.notes)
    assert not any("same unit" in note for note in simile.paper(NEW, initial=mixture, **SMALL).notes)


def test_in_parts_the_rounds_are_those_of_one_place(mixture):
    here = simile.paper(NEW, initial=mixture, **SMALL)
    there = simile.paper(NEW, initial=mixture, backend=LocalBackend(parts=2, exact=True), **SMALL)
    assert same(rollout(here.policy, TEST), rollout(there.policy, TEST))


# --- the mixture


def before(run) -> float:
    """The weight of the policy that was given."""
    return sum(row["weights"][0] for row in run.mixed if row["component"] == "policy before")


def test_the_policy_that_was_given_is_one_of_the_mixture(learned):
    run = simile.learn(NEW, initial=learned, model=LIGHT)
    assert len(run.rounds) == 1
    assert 0.0 <= before(run) <= 1.0
    old, new = whole(learned), whole(run.policy)
    assert np.array_equal(new.h.coefficients, old.h.coefficients)
    assert np.array_equal(new.smoothness, old.smoothness)
    assert new.units.equals(learned.units)
    alone = mixture_of(learned).components[-1]
    assert alone.name == "policy before"
    standard = NEW.standardize(learned.units)
    np.testing.assert_allclose(alone.unseen, whole(learned).f.predict(states_of(standard, old.horizon).matrix()))


def mixture_of(learned) -> Mixture:
    _, standard, inside = standardize(NEW, Choices.of(NEW, model=LIGHT, initial=learned))
    return Mixture.fit(standard, inside)


def test_where_it_alone_is_mixed_the_policy_is_the_one_that_was_given(learned):
    """How it holds and what it remembers of the start is chosen anew."""
    made = mixture_of(learned)
    blends = made.at(whole(learned).smoothness)
    weights = np.zeros_like(blends[0].weights)
    weights[-1] = 1.0
    made = replace(made, choices=replace(made.choices, regularizer=made.choices.kept))
    filter_ = made.choices.filter_at(made.demos, whole(learned).smoothness)
    (only,) = (replace(blend, weights=weights, filter=filter_, offset=(0.0, 0.0)) for blend in blends)
    policy = made.finish([only]).policy.holding(None).in_units(learned.units, learned.space, learned.card)
    for one, other in zip(rollout(policy, TEST), rollout(learned.holding(None).keeping(None), TEST), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_it_gets_better_with_recordings_that_it_has_not_seen(learned):
    """The expert has moved: the policy that was given is far off, and what is learned takes over."""
    moved = [replace(d, actions=1.5 * d.actions + 3.0) for d in DEMOS.items]
    new, test = Demonstrations(tuple(moved[3:7])), Demonstrations(tuple(moved[7:]))
    run = simile.learn(new, initial=learned, model=LIGHT)
    assert error(run.policy, test) < 0.7 * error(learned, test)


def test_where_there_is_nothing_to_learn_the_policy_hardly_changes(learned):
    """The expert is that policy."""
    bare = learned.holding(None).keeping(None).in_units(learned.units, simile.ActionSpace(-1e4, 1e4), learned.card)
    perfect = [replace(d, actions=a) for d, a in zip(NEW.items, rollout(bare, NEW), strict=True)]
    run = simile.learn(Demonstrations(tuple(perfect)), initial=bare, model=LIGHT, hold=0)
    assert before(run) > 0.99
    scale = learned.units.scale[0]
    for one, other in zip(rollout(run.policy, TEST), rollout(bare, TEST), strict=True):
        assert np.abs(one - other).max() < 0.05 * scale


def test_too_few_frames_leave_the_policy_as_it_is(learned):
    """Nothing is left out there, by which something could be found to be better than what there is."""
    short = Demonstrations((NEW[0].cut(0, 30),))
    run = simile.learn(short, initial=learned, model=LIGHT)
    assert before(run) == 1.0
    ours, theirs = (p.holding(None).keeping(None) for p in (run.policy, learned))
    for one, other in zip(rollout(ours, TEST), rollout(theirs, TEST), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_another_smoothness_puts_the_policy_behind_another_filter(learned):
    run = simile.learn(NEW, initial=learned, model=LIGHT, smoothness=3.0)
    assert whole(run.policy).smoothness == 3.0
    found = simile.path(NEW, initial=learned, model=LIGHT, smoothness=(3.0, 30.0))
    assert [p.smoothness for p in found.points] == [3.0, 30.0]
    assert all(p.policy.units.equals(learned.units) for p in found.points)


def test_of_several_actions_each_keeps_its_filter():
    both = [
        replace(d, actions=np.column_stack((d.actions, d.contexts[:, :1])), action_names=("pan", "tilt"))
        for d in DEMOS.items
    ]
    old, new = Demonstrations(tuple(both[:3])), Demonstrations(tuple(both[3:]))
    initial = simile.learn(old, model=LIGHT, smoothness=(5.0, 50.0)).policy
    run = simile.learn(new, initial=initial, model=LIGHT)
    assert whole(run.policy).smoothness.tolist() == [5.0, 50.0]


def test_a_policy_that_was_learned_and_went_on_is_stored(tmp_path, learned):
    run = simile.learn(NEW[2:], initial=simile.learn(NEW[:2], initial=learned, model=LIGHT).policy, model=LIGHT)
    run.policy.save(tmp_path / "policy.safetensors")
    assert same(rollout(simile.load(tmp_path / "policy.safetensors"), TEST), rollout(run.policy, TEST))


# --- what is said, and what is refused


def test_error_on_what_it_has_seen_is_said_to_be_flattering(learned, mixture):
    assert not any("flattering" in note for note in simile.paper(OLD, initial=mixture, **SMALL).notes)
    notes = simile.paper(NEW, initial=mixture, validation=0.25, **SMALL).notes
    assert any(n.endswith("it may be chosen for that: validate on recordings that it has not seen") for n in notes)


def test_what_it_has_seen_is_left_out(learned):
    """By that nobody could tell what is better: it would stay as it is."""
    run = simile.learn(DEMOS[:7], initial=learned, model=LIGHT)
    (note,) = [note for note in run.notes if note.startswith("initial was learned from 3 of the 7 sequences")]
    assert note.endswith("to learn from all of them together, learn without initial")
    alone = simile.learn(NEW, initial=learned, model=LIGHT)
    assert same(rollout(run.policy, TEST), rollout(alone.policy, TEST))
    assert not any("learned from" in note for note in alone.notes)
    assert len(run.policy.card.training["seen"]) == 7  # of both, so that the next run knows
    with pytest.warns(UserWarning, match="initial was learned from 3 of the 7 sequences"):
        found = simile.path(DEMOS[:7], initial=learned, model=LIGHT, smoothness=(30.0,))
    assert len(found.points[0].policy.card.training["seen"]) == 7
    with pytest.raises(ArgumentError, match=r"initial was learned from all of these .* learn without initial"):
        simile.learn(OLD, initial=learned, model=LIGHT)
    with pytest.raises(ArgumentError, match="initial was learned from all"):
        simile.learn(DEMOS[:7], initial=run.policy, model=LIGHT)


@pytest.mark.parametrize("seen", [None, "abc", [], ["x"], 3])
def test_a_card_that_does_not_say_what_was_seen_is_told(learned, seen):
    training = {**learned.card.training, "seen": seen}
    initial = learned.in_units(learned.units, learned.space, replace(learned.card, training=training))
    notes = simile.learn(NEW, initial=initial, model=LIGHT).notes
    assert any(note.startswith("the card of initial does not say which sequences") for note in notes)


def test_sequences_in_parts_leave_the_same_marks():
    here, there = (simile.paper(OLD, backend=backend, **SMALL).policy for backend in (None, LocalBackend(parts=2)))
    assert here.card.training["seen"] == there.card.training["seen"] != []


def renamed(demos, **names):
    return Demonstrations(tuple(replace(d, **names) for d in demos.items))


@pytest.mark.parametrize(
    ("demos", "message"),
    [
        (renamed(NEW, action_names=("tilt",)), r"initial must have the actions .*\('pan',\) instead of \('tilt',\)"),
        (
            renamed(NEW, context_names=tuple(reversed(NEW.context_names))),
            r"initial must have the contexts of the demonstrations, in their order; .*: read these with contexts=\['pl",
        ),
    ],
)
def test_other_columns_are_refused(mixture, learned, demos, message):
    with pytest.raises(ArgumentError, match=message):
        simile.paper(demos, initial=mixture, **SMALL)
    with pytest.raises(ArgumentError, match=message):
        simile.learn(demos, initial=learned)


def test_another_rate_is_refused(mixture):
    slower = Demonstrations(tuple(replace(d, rate=DEMOS.rate / 2.0) for d in NEW.items))
    with pytest.raises(ArgumentError, match=r"initial was learned at .* resample them, simile.read\(..., resample="):
        simile.paper(slower, initial=mixture, **SMALL)


def test_what_is_no_policy_is_refused():
    with pytest.raises(
        ArgumentError, match=r"initial must be a policy; .* write initial=simile.load\('old.safetensors'\)"
    ):
        simile.paper(NEW, initial="old.safetensors")
    with pytest.raises(ArgumentError, match=r"initial must have a method in_units\(\); got 3"):
        simile.learn(NEW, initial=3)


def test_what_reads_its_past_cannot_be_mixed_so(mixture):
    with pytest.raises(ArgumentError, match=r"initial must be one policy on contexts alone .* use simile.paper\(demos"):
        simile.learn(NEW, initial=mixture)


def test_another_horizon_than_that_of_the_policy_is_refused(learned):
    with pytest.raises(ArgumentError, match=r"horizon must be that of initial, .*: leave it out"):
        simile.learn(NEW, initial=learned, horizon=Horizon(2, 0))


def test_a_filter_that_never_moves_is_refused(learned):
    still = replace(whole(learned), smoothness=1e9)
    with pytest.raises(ArgumentError, match=r"initial has a filter that lags by .* give smoothness=simile.MatchExpert"):
        simile.learn(NEW, initial=still, model=LIGHT)
    assert simile.learn(NEW, initial=still, model=LIGHT, smoothness=5.0).rounds[0].error > 0.0


def test_cloning_has_nothing_to_go_on_with(mixture):
    with pytest.raises(ArgumentError, match="initial: cloning has no rounds to go on with"):
        simile.clone(NEW, initial=mixture)


def test_smile_begins_with_one_policy():
    mixed = simile.searn(OLD, **SMALL).policy
    assert simile.searn(NEW, initial=mixed, **{**SMALL, "n_rounds": 1}).rounds[0].error > 0.0
    with pytest.raises(ArgumentError, match="initial must be one policy for SMILe"):
        simile.smile(NEW, initial=mixed, **SMALL)


def test_the_filter_of_a_policy_can_be_chosen_anew(learned):
    run = simile.learn(NEW, initial=learned, model=LIGHT, regularizer=CriticallyDamped(order=2), smoothness=10.0)
    assert whole(run.policy).h.order == 2


# --- the command


@pytest.fixture(scope="module")
def folder(tmp_path_factory, learned, mixture):
    place = tmp_path_factory.mktemp("data")
    simile.write(NEW, place / "new.csv")
    simile.write(OLD, place / "old.csv")
    simile.write(DEMOS[:7], place / "grown.csv")
    learned.save(place / "learned.safetensors")
    mixture.save(place / "mixture.safetensors")
    return place


FILE = ("train", "new.csv", "--actions", "pan", "--no-report", "--test", "0.25")


@pytest.mark.parametrize(
    ("share", "learned_from", "sizes"), [((), 3, [4, None]), (("--test", "0.2"), 2, [4, 1])], ids=["all", "held out"]
)
def test_the_command_goes_on_from_a_file_with_what_is_new_in_the_data(folder, tmp_path, share, learned_from, sizes):
    """The same file a week later: what was learned from is left out, and neither trains nor tests."""
    words = ("--actions", "pan", "--no-report", "--model", "SmoothForest(n_trees=5)", *share, "--out")
    simile_("train", folder / "old.csv", *words, "first", cwd=tmp_path)
    told = simile_("train", folder / "grown.csv", "--initial", "first/policy.safetensors", *words, "run", cwd=tmp_path)
    assert f"initial was learned from {learned_from} of the 7 sequences" in told.stderr
    run = RunFolder(tmp_path / "run")
    assert [turn["number"] for turn in run.rounds()] == [0]
    assert "policy before" in told.stderr
    assert sum(row["weights"][0] for row in run.summary()["mixture"]) == pytest.approx(1.0)
    assert "--initial first/policy.safetensors" in run.command
    assert "initial=simile.load('first/policy.safetensors')" in run.python
    first, policy = (simile.load(tmp_path / name / "policy.safetensors") for name in ("first", "run"))
    assert policy.units.equals(first.units)
    with contextlib.chdir(tmp_path):
        parts = run.demonstrations()
    assert [None if part is None else len(part) for part in parts] == sizes
    assert not {mark_of(d) for part in parts if part for d in part.digests} & set(first.card.training["seen"])


def test_the_command_goes_on_with_the_rounds(folder):
    words = ("--algorithm", "paper", "--n-rounds", "1", "--model", "SmoothForest(n_trees=5)", "--out", "rounds")
    simile_(*FILE, "--initial", "mixture.safetensors", *words, cwd=folder)
    assert [turn["number"] for turn in RunFolder(folder / "rounds").rounds()] == [0, 1]


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        ("mixture.safetensors", "initial must be one policy on contexts alone"),
        ("nothing.safetensors", "nothing.safetensors"),
        ("new.csv", "new.csv"),
        ("over/policy.safetensors", "--initial: over/policy.safetensors is what this run would write over"),
    ],
)
def test_the_command_refuses_in_a_sentence(folder, initial, message):
    told = simile_(*FILE, "--initial", initial, "--out", "over", cwd=folder, code=2)
    assert message in told.stderr
    assert "Traceback" not in told.stderr
