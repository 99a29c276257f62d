"""A policy at work in a plant: beside the expert, beside recordings, and what is refused."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from conftest import some
from reports import linear
from simile import ArgumentError, ColdStart, ExpertStart, Horizon, RateLimit, SimileError, evaluate
from simile._common.text import plain
from simile.evaluation import plants
from simile.evaluation.plants import record, run_plant
from simile.learning.verdict import AtWork
from simile.metrics import Estimate
from test_policies import affine
from test_verdict import about, verdict

EXAMPLES = Path(__file__).parents[1] / "examples" / "plants"
NAN = Estimate(math.nan)


class Tank:
    """Its level follows from the valve; `ends` may be a function of the level."""

    def __init__(self, length: int = 60, names: bool = True, effect: float = 0.1, ends=lambda level: False):
        self.length, self.names, self.effect, self.ends = length, names, effect, ends

    def reset(self, seed):
        self.inflow = 5.0 + np.random.default_rng(seed).normal(size=self.length).cumsum() / 5.0
        self.level, self.valve, self.frame = 3.0, 5.0, 0
        return self.look()

    def look(self):
        row = {"inflow": self.inflow[self.frame], "level": self.level}
        return row if self.names else list(row.values())

    def expert(self):
        return self.valve + 0.3 * (self.inflow[self.frame] + self.level - 3.0 - self.valve)

    def step(self, action):
        self.valve = action[0]
        self.level += self.effect * (self.inflow[self.frame] - self.valve)
        self.frame += 1
        over = self.frame == self.length or self.ends(self.level)
        return (None if over else self.look()), (self.level - 3.0) ** 2 + 0.01


class Watched(Tank):
    """What it shows does not follow from the action."""

    def look(self):
        return [self.inflow[self.frame], self.frame % 7]

    def expert(self):
        return [0.2 * self.inflow[self.frame], 0.1 * self.inflow[self.frame]]


@pytest.fixture(scope="module")
def policy():
    return simile.learn(record(Tank(), episodes=6), model=simile.Ridge()).policy


# What is measured


def test_a_policy_is_judged_at_work_beside_the_expert_and_on_recordings_of_it(policy):
    found = evaluate(policy, plant=Tank(), seed=100)
    work = found.verdict.at_work
    assert (work.episodes, work.diverged, work.shorter) == (8, 0, 0)
    assert work.ratio.value == pytest.approx(work.cost / work.expert)
    assert work.ratio.low <= work.ratio.value <= work.ratio.high
    assert str(found.verdict).startswith(f"At work in the plant (8 episodes) it costs {work.ratio.value:.2f} times")
    assert f"on recordings it looked like {found.verdict.rmse['a0']:.3g}. Typically" in str(found)
    assert repr(found) == f"Evaluation({found.verdict.headline!r})"
    assert found.verdict.headline == str(work.finding)
    assert found.demos.context_names == ("inflow", "level")
    assert found.demos.digest() == record(Tank(), seed=100).digest()
    told = json.loads(json.dumps(plain(found.to_dict()), allow_nan=False))["verdict"]
    assert told["at_work"]["ratio"]["value"] == pytest.approx(work.ratio.value)
    assert told["findings"]["at_work"]["mood"] == work.finding.mood


def test_costs_and_errors_are_those_of_a_plain_loop_after_the_expert_s_first_frames(policy):
    found = evaluate(policy, plant=Tank(), seed=3, episodes=2)
    begin, costs, errors, plant = found.at_work.begin, [], [], Tank()
    assert begin == policy.memory > 0
    for seed in (3, 4):
        x, predictor, spent, ours, theirs = plant.reset(seed), simile.Predictor(policy), [], [], []
        while x is not None:
            action = predictor.override([plant.expert()], x) if len(spent) < begin else predictor.step(x)
            ours.append(action[0])
            x, cost = plant.step(action)
            spent.append(cost)
        costs.append(sum(spent[begin:]))
        x = plant.reset(seed)
        while x is not None:
            theirs.append(plant.expert())
            x, _ = plant.step([theirs[-1]])
        errors += [a - b for a, b in zip(ours[begin:], theirs[begin:], strict=True)]
    assert found.verdict.at_work.cost == pytest.approx(np.mean(costs))
    assert found.verdict.at_work.rmse["a0"] == pytest.approx(np.sqrt(np.mean(np.square(errors))))


def test_it_is_the_same_by_the_same_seed_and_another_by_another(policy):
    first, again, other = (evaluate(policy, plant=Tank(), episodes=2, seed=seed).verdict for seed in (1, 1, 2))
    assert str(first) == str(again) != str(other)


@given(st.integers(0, 99), st.integers(5, 40), st.integers(0, 3), st.sampled_from([None, ColdStart(), ExpertStart(3)]))
def test_where_contexts_do_not_follow_from_the_action_the_loop_is_the_roll_out_to_the_bit(seed, length, order, start):
    cold = isinstance(start, ColdStart)  # without a past, which some policies need
    acting = linear(2, 2, smoothness=float(order)) if cold else affine(seed, k=2, order=1 + order)
    found = evaluate(acting, plant=Watched(length), seed=seed, episodes=3, start=start)
    for closed, rolled in zip(found.at_work.policy, found.rolled, strict=True):
        np.testing.assert_array_equal(closed.actions, rolled)
    work = found.verdict.at_work
    assert [*work.rmse.values()] == pytest.approx([*found.verdict.rmse.values()])


def test_known_actions_stages_and_a_lead_are_those_of_a_predictor(policy):
    acting, stages = affine(0), RateLimit(0.1)
    for start in ([0.5], simile.policies.rollouts.GivenStart([0.5])):
        found = evaluate(acting, plant=Tank(names=False), start=start, stages=stages, rate=2.0, episodes=1)
        predictor = simile.Predictor(acting, start=[0.5], stages=[stages], rate=2.0)
        one = found.at_work.policy[0]
        assert found.at_work.begin == 0
        np.testing.assert_array_equal(one.actions, [predictor.step(x) for x in one.contexts])
    demos = record(Tank(), episodes=4)
    aims = simile.clone(demos, model=simile.SmoothForest(n_trees=2), lead=2, horizon=Horizon(3, 0)).policy
    assert evaluate(aims, plant=Tank(), episodes=2).at_work.begin >= 2
    late = simile.clone(demos, model=simile.SmoothForest(n_trees=2), lead=-2, horizon=Horizon(3, 0)).policy
    with pytest.raises(ArgumentError, match=r"policy: it waits for frames to come.*lead must be >= 0"):
        evaluate(late, plant=Tank(), episodes=2)


def test_a_plant_may_tell_what_is_known_ahead():
    class Told(Tank):
        def look(self):
            ahead = np.append(self.inflow, [math.nan, math.nan])[self.frame + 1 :]
            return {**super().look(), "inflow[t+1]": ahead[0], "inflow[t+2]": ahead[1]}

    demos = record(Tank(), episodes=4)
    knowing = simile.clone(demos, model=simile.SmoothForest(n_trees=2), known={"inflow": 2}).policy
    names = knowing.card.context_names
    assert names[-1] == "inflow[t+2]"
    found = evaluate(knowing, plant=Told(), episodes=2)
    assert found.demos.context_names == names
    with pytest.raises(ArgumentError, match=r"inflow\[t\+"):
        evaluate(knowing, plant=Tank(), episodes=2)


def test_a_policy_takes_what_it_knows_of_a_mapping():
    demos = record(Tank(), episodes=4)
    blind = simile.clone(demos.without(["level"]), model=simile.SmoothForest(n_trees=2)).policy
    found = evaluate(blind, plant=Tank(), episodes=2)
    assert found.demos.context_names == ("inflow",)
    seeing = simile.clone(demos, model=simile.SmoothForest(n_trees=2)).policy

    class Other(Tank):
        def look(self):
            return {"inflow": 1.0}

    with pytest.raises(ArgumentError, match="seed 0, frame 0: x: 'level' is missing"):
        evaluate(seeing, plant=Other())


def test_recordings_of_one_s_own_may_stand_beside_and_a_plant_may_have_no_expert(policy):
    class Alone:
        def __init__(self):
            self.tank = Tank()
            self.reset, self.step = self.tank.reset, self.tank.step

    demos = record(Tank(), episodes=3, seed=50, rate=2.0, action_names=["valve"])
    assert (demos.rate, demos.action_names) == (2.0, ("valve",))
    found = evaluate(policy, demos, plant=Alone(), episodes=2)
    assert found.demos is demos
    assert found.at_work.begin == 0
    assert "an episode; the expert's cost is not known. Typically" in str(found.verdict)
    with pytest.raises(ArgumentError, match=r"demos: give recordings, or a plant with a method expert\(\)"):
        evaluate(policy, plant=Alone())
    with pytest.raises(ArgumentError, match="demos: give recordings"):
        evaluate(policy)
    with pytest.raises(ArgumentError, match=r"plant must have a method expert\(\)"):
        record(Alone())


def test_an_environment_of_gymnasium_is_a_plant_by_the_lines_of_the_documentation(policy):
    class Environment:  # as Gymnasium has it
        def reset(self, *, seed=None, options=None):
            self.tank = Tank(names=False)
            return np.array(self.tank.reset(seed)), {}

        def step(self, action):
            x, cost = self.tank.step(action)
            return np.array(self.tank.look() if x else [0.0, 0.0]), -cost, False, x is None, {}

    lines = plants.Plant.__doc__.partition("::\n")[2]
    scope: dict[str, type] = {}
    exec("if True:\n" + lines, scope)
    found = run_plant(policy, scope["FromGymnasium"](Environment()), 2, start=ColdStart())
    same = run_plant(policy, Tank(), 2, start=ColdStart())
    for one, other in zip(found.policy, same.policy, strict=True):
        np.testing.assert_array_equal(one.costs, other.costs)


# What goes wrong at work is part of the verdict


def test_a_policy_or_a_plant_that_runs_away_is_told_in_the_verdict():
    runaway = linear(2, growth=3.0, smoothness=100.0)
    found = evaluate(runaway, plant=Tank(300, names=False), episodes=2)
    assert str(found.verdict).startswith("At work in the plant (2 episodes) it left every reasonable range in 2. ")
    assert found.verdict.headline == "At work in the plant (2 episodes) it left every reasonable range in 2."
    assert found.at_work.policy[0].costs[-1] == math.inf
    json.dumps(plain(found.to_dict()), allow_nan=False)


@pytest.mark.parametrize("odd", [{"level": math.inf}, {"cost": math.nan}, {"cost": -math.inf}])
def test_what_is_not_finite_where_the_policy_acts_is_a_plant_that_ran_away(odd):
    class Fragile(Tank):
        def expert(self):
            self.asked = self.frame
            return super().expert()

        def step(self, action):
            by_expert = self.asked == self.frame
            x, cost = super().step(action)
            if by_expert or self.frame < 30:
                return x, cost
            return [5.0, odd.get("level", 3.0)], odd.get("cost", cost)

    found = run_plant(affine(0), Fragile(names=False), 2)
    assert found.summary.diverged == 2
    assert [len(one.costs) for one in found.policy] == [30, 30]
    assert [len(one.costs) for one in found.expert] == [60, 60]

    found = run_plant(linear(2), type("Nothing", (), {"reset": lambda _, seed: [math.inf, 0.0], "step": fail})(), 1)
    assert found.policy[0].costs.tolist() == [math.inf]
    assert found.summary.diverged == 1


def test_a_plant_that_breaks_while_the_expert_begins_is_told_too():
    class Worn(Tank):
        runs = 0

        def reset(self, seed):
            self.runs += 1
            return super().reset(seed)

        def step(self, action):
            x, cost = super().step(action)
            return x, math.nan if self.runs > 2 else cost

    found = run_plant(affine(0), Worn(names=False), 2)
    assert found.begin > len(found.policy[0].costs) == 1
    assert found.summary.diverged == 2


def test_an_episode_that_ends_before_the_expert_s_is_told():
    found = evaluate(affine(1), plant=Tank(names=False, ends=lambda level: level < 0.0 or level > 6.0), episodes=6)
    assert found.verdict.at_work.shorter == 6
    assert "; 6 episodes ended before the expert's did." in str(found.verdict)


@pytest.mark.parametrize(
    ("changed", "mood", "said"),
    [
        ({}, "good", "it costs 1.00 times what the expert does (0.95 to 1.05)"),
        ({"ratio": about(1.47)}, "poor", "it costs 1.47 times what the expert does (1.40 to 1.54)"),
        ({"ratio": about(1.1)}, "fair", "it costs 1.10 times what the expert does (1.0"),
        ({"ratio": about(72.0, 0.5)}, "poor", "it costs 72 times what the expert does (36 to 108)"),
        ({"ratio": about(1.47, math.nan)}, "fair", "it costs 1.47 times what the expert does"),
        ({"ratio": NAN}, "fair", "it costs 2.1 an episode, the expert 2"),
        ({"ratio": NAN, "difference": Estimate(0.1, 0.05, 0.2)}, "poor", "it costs 2.1 an episode, the expert 2"),
        ({"ratio": NAN, "difference": Estimate(-0.1, -0.2, -0.05)}, "good", "it costs 2.1 an episode, the expert 2"),
        ({"expert": math.nan}, "unknown", "it costs 2.1 an episode; the expert's cost is not known"),
        ({"diverged": 3}, "poor", "it left every reasonable range in 3"),
        ({"shorter": 1}, "good", "; 1 episode ended before the expert's did"),
    ],
)
def test_the_finding_is_good_only_where_an_interval_shows_it(changed, mood, said):
    known = {"cost": 2.1, "expert": 2.0, "ratio": about(1.0), "difference": Estimate(0.1, -0.1, 0.3)}
    found = AtWork(**known | changed, rmse={"pan": 0.5}, episodes=8)
    assert found.finding.mood == mood
    assert found.finding.text.startswith("at work in the plant (8 episodes) it")
    assert said in found.finding.text
    told = str(verdict(at_work=found))
    assert told.startswith(str(found.finding) + " There it is 0.5 off in pan; on recordings it looked like 0.163.")


# What is refused


class Broken(Tank):
    """A tank that answers something else, from a frame on."""

    def __init__(self, answer, frame=5, method="step", **known):
        super().__init__(**{"names": False} | known)
        self.answer, self.when, self.method = answer, frame, method

    def reset(self, seed):
        x = super().reset(seed)
        return self.answer() if self.method == "reset" else x

    def expert(self):
        return self.answer() if self.method == "expert" and self.frame == self.when else super().expert()

    def step(self, action):
        x, cost = super().step(action)
        return self.answer() if self.method == "step" and self.frame == self.when + 1 else (x, cost)


def fail():
    raise ZeroDivisionError("no water")


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (Broken(fail), "in the plant, episode with seed 0, frame 5: ZeroDivisionError: no water"),
        (Broken(fail, method="reset"), "in the plant, episode with seed 0, frame 0: ZeroDivisionError: no water"),
        (Broken(fail, method="expert"), "in the plant, episode with seed 0, frame 5: ZeroDivisionError: no water"),
        (Broken(lambda: None), r"frame 5: TypeError: step\(\) must return the next context and the cost; got None"),
        (Broken(lambda: (1, 2, 3, 4, 5)), r"step\(\) must return the next context and the cost; got \(1, 2"),
        (Broken(lambda: ([1.0], 1.0)), r"frame 6: ValueError: a context must hold 2 numbers; got shape \(1,\)"),
        (Broken(lambda: ([[1.0, 2.0]], 1.0)), "a context must hold 2 numbers"),
        (Broken(lambda: ("high", 1.0)), "frame 6: context must be numbers"),
        (Broken(lambda: ([1.0, 2.0], "dear")), "frame 5: ValueError: could not convert"),
        (Broken(lambda: ([1.0, 2.0], None)), "frame 5: TypeError"),
        (Broken(lambda: ([1.0, 2.0], math.nan)), "with its own expert, the cost or a context is not finite in frame 5"),
        (Broken(lambda: ([1.0, math.inf], 1.0)), "is not finite in frame 5 of the episode with seed 0: mend the plant"),
        (Broken(lambda: None, method="reset"), "seed 0 ends before it begins: reset.. must return a context"),
        (Broken(list, method="reset"), "a context must hold"),
        (Broken(lambda: [1.0, 2.0], method="expert"), r"expert\(\) must return 1 finite numbers; got \[1.0, 2.0\]"),
        (Broken(lambda: math.nan, method="expert"), r"expert\(\) must return 1 finite numbers; got nan"),
        (Broken(lambda: "open", method="expert"), r"expert\(\) must be numbers"),
        (Tank(length=1, names=False), "an episode of 1 frames is no longer than the 2 in which the expert acts first"),
        (Tank, "plant must be an object, not a class"),
        (object(), r"plant must have a method reset\(\)"),
    ],
)
def test_a_plant_that_cannot_be_used_is_refused_with_the_place(plant, said):
    with pytest.raises(ArgumentError, match=said):
        evaluate(affine(0), plant=plant, episodes=2)


def test_numbers_that_cannot_be_are_refused(policy, monkeypatch):
    with pytest.raises(ArgumentError, match="episodes must be >= 1; got 0"):
        evaluate(policy, plant=Tank(), episodes=0)
    with pytest.raises(ArgumentError, match="seed must be a whole number; got 'one'"):
        evaluate(policy, plant=Tank(), seed="one")
    with pytest.raises(ArgumentError, match="episodes must be a whole number"):
        record(Tank(), episodes=1.5)
    with pytest.raises(ArgumentError, match="in the plant, episode with seed 0, frame 0: ZeroDivisionError"):
        record(Broken(fail, method="reset"))
    monkeypatch.setattr(plants, "MOST_FRAMES", 50)
    with pytest.raises(ArgumentError, match="seed 0 has not ended after 50 frames: return None as the next context"):
        record(Tank())


def answers():
    numbers = st.sampled_from([0.0, -1.0, 1e9, 1e200, 1e308, -1e308, 1e-300, math.nan, math.inf, "x", None, [1.0]])
    contexts = (
        st.none() | st.lists(numbers, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), numbers) | numbers
    )
    return contexts | st.tuples(contexts, numbers)


@some(2.0)
@given(
    answers(),
    st.integers(0, 12),
    st.sampled_from(["reset", "step", "expert"]),
    st.sampled_from([0.0, 0.1, 1e3, 1e200]),
    st.integers(1, 7),
    st.booleans(),
    st.sampled_from([affine(0), affine(3, smoothness=0.1), linear(2, growth=1.5, smoothness=10.0)]),
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_plant_has_a_verdict_or_an_error_that_says_why(answer, frame, method, effect, episodes, names, acting):
    plant = Broken(lambda: answer, frame, method, length=10, effect=effect, names=names)
    try:
        found = evaluate(acting, plant=plant, episodes=episodes)
    except SimileError:
        return
    assert str(found.verdict).startswith(f"At work in the plant ({episodes} episode")
    json.dumps(plain(found.to_dict()), allow_nan=False)


# Examples


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    yield
    for name in ("valve", "crane", "reactor"):
        sys.modules.pop(name, None)


def test_a_policy_that_looks_better_on_recordings_is_worth_nothing_at_work(examples):
    from valve import Valve

    demos = record(Valve(), episodes=8)
    seeing, blind = (
        evaluate(simile.learn(demos.without(out), model=simile.Ridge()).policy, plant=Valve(), seed=1000).verdict
        for out in (["valve_position"], ["valve_position", "level"])
    )
    assert seeing.rmse["a0"] < blind.rmse["a0"]
    assert seeing.at_work.ratio.value > 5.0
    assert blind.at_work.finding.mood in ("good", "fair")
    assert blind.at_work.rmse["a0"] == pytest.approx(blind.rmse["a0"])


def test_a_crane_works_by_columns_that_follow_from_the_action(examples):
    from crane import Crane

    demos = record(Crane(), episodes=6)
    found = evaluate(simile.learn(demos, model=simile.Ridge()).policy, plant=Crane(), seed=1000, episodes=6).verdict
    assert found.at_work.ratio.value < 2.0
    assert found.at_work.rmse["a0"] > found.rmse["a0"]


@pytest.mark.filterwarnings("ignore")
def test_a_policy_works_in_somebody_else_s_plant(examples):
    pytest.importorskip("pcgym")
    pytest.importorskip("do_mpc")
    from reactor import Reactor

    demos = record(Reactor(), episodes=3, action_names=["coolant"])
    found = evaluate(
        simile.clone(demos, model=simile.SmoothForest(n_trees=4)).policy, plant=Reactor(), seed=9, episodes=2
    )
    assert found.demos.context_names == ("setpoint", "Ca", "temperature")
    assert 0.5 < found.verdict.at_work.ratio.value < 5.0
