"""A person in the loop, scripted: take-over time after three rounds of `improve`, and how often the gate is wrong.

The operator is the expert of sequences that the policy has not seen (`simile.experiments.operators`): takes over when
the error has exceeded a threshold for a second, and hands back when the policy, had it acted, has been within half of
it for a second. Each round the operator works on all of his sequences; the recordings of all rounds so far are the
corrections. Those of one sequence are held out in every round or in none. "again" is the take-over time on those
sequences, "nobody" that on sequences that neither policy nor operator has seen, "held out" the error on the
demonstrations that the gate judges by. What there was to choose was chosen on the runs 22 and 35, 26 and 40, and on
games of the seeds 77, 601 and 602; docs/loop.md says what else was looked at before. Of the four runs of car following,
every half is a policy's in its turn.

    python benchmarks/loop.py --data ../shared/data            # both parts, all cases
    python benchmarks/loop.py --only gate --candidates 20
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from accuracy import find_data

import simile
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate
from simile.data.corrections import Corrections, read_corrections
from simile.data.reference import Reference
from simile.evaluation.gate import Gate
from simile.evaluation.improvement import improve
from simile.experiments.operators import ScriptedOperator, record, share_operated
from simile.metrics import Tally
from simile.policies.policies import prune, whole
from simile.policies.rollouts import ExpertStart

N_ROUNDS, N_HANDS = 3, 4
HELD_OUT = 0.4  # of the demonstrations of car following: few sequences need many judges
PAIRS = ((0, 3), (1, 2), (0, 1), (2, 3), (0, 2), (1, 3))  # of the runs of car following, to learn from: all halves
SEEDS, GATE_SEEDS = (550, 560), (531, 532)  # of games: those of the gate were looked at before, the others never
SPLITS = (60, 61)  # of all sequences of car following, for the gate
SHARES = (0.125, 0.125, 0.25, 0.5)  # of a data set for the gate: policy, truth, judges, operator
BETTER = 0.95  # of the squared error: what is in truth better
COLUMNS = ["a_speed"], ["x_lead_speed", "x_lead_accel", "x_lead_curvature"]


@dataclass(frozen=True, eq=False)
class World:
    """Demonstrations of a policy, sequences that an operator knows, and those that nobody has seen."""

    name: str
    train: simile.Demonstrations
    held: simile.Demonstrations
    known: simile.Demonstrations
    nobody: simile.Demonstrations
    operator: ScriptedOperator

    def record(self, policy: simile.SmoothPolicy, folder: Path, day: int) -> Corrections:
        """Let the operator work for a day, and read all corrections so far, those of one sequence in one group."""
        watched = self.operator.watch(policy, self.known)
        record(watched, policy, folder / f"recording-{day:06d}.parquet", opened=86400.0 * (day + 1))
        found = read_corrections(folder)
        return found.grouped([stretch.sequence.rpartition(" ")[0] for stretch in found.stretches])


def read_cars(folder: Path) -> simile.Demonstrations:
    """Read car following, in groups by run."""
    return simile.read(
        folder / "car_following/car_following.csv",
        sequence="sequence",
        time="t",
        actions=COLUMNS[0],
        contexts=COLUMNS[1],
        group=f"{folder / 'car_following/sequences.csv'}:run",
        quiet=True,
    )


def cars(folder: Path, pair: tuple[int, int]) -> World:
    """Half of the runs for the policy, of the others three quarters for the operator."""
    demos = read_cars(folder)
    runs = sorted(set(demos.groups or ()), key=str)
    mine = {str(runs[i]) for i in pair}
    half, rest = (
        simile.Demonstrations(tuple(d for d in demos if (d.group in mine) == own)).grouped(None)
        for own in (True, False)
    )
    name = " and ".join(sorted(run.rpartition("part")[2] for run in mine))
    return World(
        f"car following, runs {name}", *half.split(HELD_OUT, seed=1), *deal(rest), ScriptedOperator(1.5)
    )  # m/s


def games(seed: int) -> World:
    """Games of half a minute: 8 for the policy, 30 to judge, 48 for the operator, 16 for nobody."""
    played = demonstrations(simulate(102, minutes=(0.4, 0.6), seed=seed))
    return World(
        f"games of seed {seed}", played[:8], played[8:38], *deal(played[38:]), ScriptedOperator(8.0)
    )  # degrees


def gate_sources(
    folder: Path | None, seeds: tuple[int, ...], splits: tuple[int, ...]
) -> Iterator[tuple[str, simile.Demonstrations, ScriptedOperator]]:
    """Yield more sequences than the rounds have, for a gate is judged by many."""
    for split in splits if folder is not None else ():
        demos = read_cars(folder)
        order = np.random.default_rng(split).permutation(len(demos))
        yield f"car following, split {split}", demos.where(order[:36]), ScriptedOperator(1.5)
    for seed in seeds:
        played = demonstrations(simulate(96, minutes=(0.4, 0.6), seed=seed))
        yield f"games of seed {seed}", played, ScriptedOperator(8.0)


def deal(rest: simile.Demonstrations) -> tuple[simile.Demonstrations, simile.Demonstrations]:
    """Deal sequences to the operator and to nobody."""
    order = np.random.default_rng(5).permutation(len(rest))
    return rest.where(order[len(rest) // N_HANDS :]), rest.where(order[: len(rest) // N_HANDS])


def run_rounds(world: World) -> dict[str, list[float]]:
    """Print what three rounds of take-overs and `improve` do, both ways; return what is left of that at first."""
    first, gate, ratios = simile.learn(world.train).policy, Gate(), {}

    def measure(one: simile.SmoothPolicy) -> list[float]:
        shares = [share_operated(world.operator.watch(one, d)) for d in (world.known, world.nobody)]
        return [*shares, *(error(one, d, first) for d in (world.nobody, world.held))]

    def tell(what: str, numbers: list[float], words: str = "") -> None:
        again, nobody, unseen, kept = numbers
        print(f"  {what:20}{again:>7.1%}{nobody:>8.1%}{unseen:>13.3f}{kept:>10.3f}  {words}", flush=True)

    sizes = [len(part) for part in (world.train, world.held, world.known, world.nobody)]
    print(f"\n{world.name}: {sizes[0]} + {sizes[1]} demonstrations, operator {sizes[2]}, nobody {sizes[3]}")
    print(f"  {'':20}{'again':>7}{'nobody':>8}{'RMSE nobody':>13}{'held out':>10}")
    begin = measure(first)
    tell("at first", begin)
    for by in ("mix", "aggregate"):
        policy, now = first, begin
        with tempfile.TemporaryDirectory() as folder:
            for day in range(N_ROUNDS):
                corrections = world.record(policy, Path(folder), day)
                found = improve(policy, world.train, corrections, by=by, test=world.held, gate=gate)
                if found.decision.accepted:
                    policy, now = found.policy, measure(found.policy)
                tell(
                    f"{by}, round {day + 1}",
                    now,
                    f"weight {found.weight:g}{', let' * found.chosen.let}; {found.decision.reason}",
                )
        ratios[by] = [now[0] / begin[0], now[1] / begin[1], now[3] / begin[3]]
    everything = simile.Demonstrations((*world.train, *world.known)).grouped(None)
    tell("from scratch", measure(simile.learn(everything).policy))
    n = round(first.card.rate or 1.0)
    late = [np.concatenate([a[:1].repeat(n, 0), a])[: len(a)] for a in world.train.actions]
    worse = simile.learn(world.train.with_actions(late)).policy
    judged = gate.judge(policy, worse, found.judges[0], found.judges[1].demos)
    print(f"  one that learned actions a second late: {judged.reason}", flush=True)
    return ratios


def error(policy: simile.SmoothPolicy, demos: simile.Demonstrations, first: simile.SmoothPolicy) -> float:
    """Return the RMSE in standard deviations of the first policy's actions."""
    return Reference(demos, first.units.scale, 3).measure(simile.rollout(policy, demos)).rmse


@dataclass(frozen=True, eq=False)
class Bench:
    """A policy at work, and what the gate and the truth have to judge another by."""

    name: str
    old: simile.SmoothPolicy
    alike: dict[str, Any]
    references: tuple[Reference, ...]  # held-out demonstrations and corrections, and all that nobody learned from

    @classmethod
    def of(cls, name: str, demos: simile.Demonstrations, operator: ScriptedOperator) -> tuple[Bench, Any, Corrections]:
        """Deal an eighth to the policy and one to the truth, a quarter to judge and half to the operator.

        Returns the bench, what the policy learned from, and corrections to learn from: half of the operator's.
        """
        order = np.random.default_rng(0).permutation(len(demos))
        shares = np.array([0, *SHARES]) * len(demos)
        parts = np.split(order, np.cumsum(shares).astype(int)[1:-1])
        train, more, held, known = (demos.where(part).grouped(None) for part in parts)
        one = whole(prune(simile.learn(train).policy).policy)
        assert one is not None
        alike = {"smoothness": one.smoothness, "hold": 0.0 if one.hold is None else one.hold}  # as `improve` keeps them
        old = simile.learn(train, **alike).policy
        with tempfile.TemporaryDirectory() as folder:
            record(operator.watch(old, known), old, Path(folder) / "recording-000000.parquet")
            found = read_corrections(folder)
        judging = found.demos.kin % 2 == 0
        truth = simile.Demonstrations((*held, *known, *more)).grouped(None)
        judges = held, found.where(np.flatnonzero(judging)).demos, truth
        logs = old.card.logs(demos.n_actions)
        references = tuple(Reference(part, old.units.scale, old.memory, logs=logs) for part in judges)
        return cls(name, old, alike, references), train, found.where(np.flatnonzero(~judging))

    def roll_out(self, policy: simile.SmoothPolicy) -> list[list[np.ndarray]]:
        """Roll a policy out over all that judges."""
        start = ExpertStart(max(self.old.memory, policy.memory))
        return [simile.rollout(policy, one.demos, start=start) for one in self.references]

    def tally(self, rolled: list[list[np.ndarray]]) -> list[Tally]:
        """Measure roll-outs over held-out demonstrations and corrections."""
        return [one.tally(some) for one, some in zip(self.references[:2], rolled, strict=False)]

    def truth(self, rolled: list[list[np.ndarray]], old: list[list[np.ndarray]]) -> float:
        """Return the squared error on all sequences, over that of the policy at work."""
        after, before = (self.references[2].sums(some[2]).squares.sum() for some in (rolled, old))
        return float(after / before)

    def improve_truly(self, rolled: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
        """Draw roll-outs towards the expert until every squared error is 5 % less."""
        share = 1.0 - BETTER**0.5
        return [
            [a + share * (b - a) for a, b in zip(some, one.demos.actions, strict=True)]
            for some, one in zip(rolled, self.references, strict=True)
        ]


def shuffle(corrections: Corrections, rng: np.random.Generator) -> Corrections:
    """Give every stretch what the operator did in another one."""
    order, demos = rng.permutation(len(corrections)), []
    done = [d.actions[d.counted] for d in corrections.demos]
    for demo, other in zip(corrections.demos, order, strict=True):
        actions, part = demo.actions.copy(), demo.counted
        actions[part] = np.resize(done[int(other)], actions[part].shape)
        demos.append(replace(demo, actions=actions))
    return replace(corrections, demos=simile.Demonstrations(tuple(demos)))


def run_gate(sources: list[tuple[str, simile.Demonstrations, ScriptedOperator]], n: int) -> None:
    """Print how often the gate takes what is no better, and what is 5 % better."""
    gate, per = Gate(), -(-n // (2 * len(sources)))
    found: dict[str, list[tuple[float, ...]]] = {"other seeds": [], "corrections shuffled": [], "5 % better": []}
    for source in sources:
        bench, train, corrections = Bench.of(*source)
        old, reasons = bench.roll_out(bench.old), []
        for seed in range(1, per + 1):
            others = bench.roll_out(simile.learn(train, seed=seed, **bench.alike).policy)
            wrong = shuffle(corrections, np.random.default_rng(seed))
            lessons = simile.Demonstrations((*train, *wrong.lessons()))
            shuffled = bench.roll_out(simile.learn(lessons, seed=seed, **bench.alike).policy)
            better = bench.improve_truly(others)
            for name, new in zip(found, (others, shuffled, better), strict=True):
                judged = gate.decide(bench.references[:2], *(bench.tally(some) for some in (old, new)))
                ratios = [one.over_baseline.value for one in (judged.demonstrations, judged.corrections)]
                found[name].append((judged.accepted, bench.truth(new, old), *ratios))
                if name == "5 % better" and not judged.accepted:
                    reasons.append(judged.reason)
        groups = [int(one.demos.kin.max()) + 1 for one in bench.references[:2]]
        taken = [int(sum(row[0] for row in rows[-per:])) for rows in found.values()]
        print(f"  {bench.name:28}{groups[0]:>8}{groups[1]:>8}   {taken} of {per} each", *reasons[:1], flush=True)
    print(f"  {'':22}{'candidates':>10}{'accepted':>10}{'in truth':>10}{'shown':>8}{'corrected':>11}")
    for name, rows in found.items():
        taken, *ratios = np.array(rows, dtype=float).T
        means = [float(np.exp(np.mean(np.log(r)))) for r in ratios]
        print(f"  {name:22}{len(rows):>10}{taken.mean():>10.0%}{means[0]:>10.3f}{means[1]:>8.3f}{means[2]:>11.3f}")
    nulls = [row for name in ("other seeds", "corrections shuffled") for row in found[name]]
    worse = [row[0] for row in nulls if row[1] >= 1.0]
    print(f"  {'all that are no better':22}{len(nulls):>10}{np.mean([row[0] for row in nulls]):>10.0%}")
    print(f"  {'of them worse in truth':22}{len(worse):>10}{np.mean(worse) if worse else np.nan:>10.0%}", flush=True)


def main() -> None:
    """Measure all cases and print every number."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", choices=["rounds", "gate"])
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--tune", action="store_true", help="on the splits by which choices were made")
    given = parser.parse_args()
    folder = find_data(given.data)
    pairs, seeds, splits = (((0, 2), (1, 3)), (77,), (1, 2)) if given.tune else (PAIRS, SEEDS, SPLITS)
    if given.only != "gate":
        worlds = [cars(folder, pair) for pair in pairs] if folder is not None else []
        worlds += [games(seed) for seed in seeds]
        found = [run_rounds(world) for world in worlds]
        print("\nafter three rounds over at first, geometric means: again, nobody, held out")
        for what in ("car following", "games"):
            own = [ratios for world, ratios in zip(worlds, found, strict=True) if world.name.startswith(what)]
            for by in ("mix", "aggregate") if own else ():
                means = np.exp(np.log(np.maximum([ratios[by] for ratios in own], 1e-3)).mean(axis=0))
                print(f"  {what:14} {by:10} {' '.join(f'{value:.2f}' for value in means)}")
    if given.only != "rounds":
        print("\nThe gate: accepted of other seeds, of corrections shuffled, and of those that are 5 % better in truth")
        print(f"  {'':28}{'demos':>8}{'groups':>8}", flush=True)
        run_gate(list(gate_sources(folder, seeds if given.tune else GATE_SEEDS, splits)), given.candidates)


if __name__ == "__main__":
    main()
