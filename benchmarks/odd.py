"""What becomes of odd files: read rightly, told, refused, or learned from in silence, and how much worse.

Every kind of `tests/odd_files.py` is made of clean recordings of every plant, and read. What was read is learned from
with a light model, which then acts along fresh clean recordings; columns that follow from the action follow from its
own there. How many times worse it is, is its RMSE over that of a policy that learned from the clean file. Files that
are clean and only unusual, and real ones, must be read without a false note.

    python benchmarks/odd.py --seeds 0 --data ../shared/data
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import time
import zlib
from collections import Counter
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

import simile

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from odd_files import KINDS, REFUSED, RIGHT, SILENT, TOLD, Kind, Odd, Seen, is_right, list_notes, look
from plants import PLANTS, Plant, Rows
from unusual_files import UNUSUAL, make_clean

LIGHT = {"model": (simile.Ridge(), simile.SmoothForest(n_trees=8))}
WORSE = 1.2  # times: more is more than noise
BEGIN = 60  # frames in which a policy may find to where the expert is
MENDS = "repair" in signature(simile.read).parameters
REAL: dict[str, dict[str, Any]] = {  # what somebody would say who has read about the data
    "car_following/car_following.csv": {"actions": "a_speed"},
    "reservoir/reservoir.csv": {},
    "head360/head360.csv": {},
    "grip_force/grip_force.csv": {},
    "soccer_operator/operator.csv": {"actions": "pan", "contexts": "ball_*", "sequence": "shot"},
    "teleoperation": {},
}


class Trial:
    """A plant and a seed: clean recordings, fresh ones, and the error of a policy that learned from the clean ones."""

    def __init__(self, plant: Plant, seed: int) -> None:
        self.plant, self.seed = plant, seed
        self.frame, self.fresh = plant.make(seed=seed), plant.take(plant.make_fresh(seed))
        plain = Kind("plain", "", lambda clean: clean.save(clean.frame), ())
        with tempfile.TemporaryDirectory() as folder:
            odd = plain.spoil(plant, self.frame, np.random.default_rng(0), Path(folder))
            demos = simile.read(odd.source, **odd.options, quiet=True)
        self.clean = self.measure(plain, odd, simile.learn(demos, **LIGHT).policy, demos.context_names)

    def try_kind(self, kind: Kind) -> tuple[Seen, float | None, bool | None]:
        """Return what is seen, how many times worse the policy is if there is one, and whether it was mended."""
        rng = np.random.default_rng([self.seed, zlib.crc32(kind.name.encode())])
        with tempfile.TemporaryDirectory() as folder:
            odd = kind.spoil(self.plant, self.frame, rng, Path(folder))
            seen, worse, mended = look(kind, self.plant, odd), None, None
            if seen.demos is not None and seen.outcome != RIGHT:
                try:
                    policy, said = learn(seen.demos, verdict=kind.effect)
                except Exception as error:
                    policy, said = None, [f"{type(error).__name__}: {error}"]
                if seen.outcome == SILENT:
                    seen = look(kind, self.plant, odd, said)
                if policy is not None:
                    error = self.measure(kind, odd, policy, seen.demos.context_names)
                    worse = None if error is None else error / self.clean
            if kind.mild and MENDS:
                again = look(kind, self.plant, odd, repair=True)
                mended = again.outcome == RIGHT or (again.demos is not None and odd.truth is None)
        return seen, 1.0 if seen.outcome == RIGHT else worse, mended

    def measure(self, kind: Kind, odd: Odd, policy: Any, names: tuple[str, ...]) -> float | None:
        """Return the RMSE on fresh clean recordings; None where they lack a context."""
        if policy.n_actions != 1 or not set(names) <= {*odd.columns, *self.plant.contexts}:
            return None
        act = act_in_loop if kind.effect and set(names) & set(odd.columns) else act_along
        try:
            off = [odd.answer(act(policy, names, odd, self.plant, r)) - r[self.plant.action] for r in self.fresh]
        except simile.DivergedError:
            return np.inf
        error = float(np.sqrt(np.mean(np.square(np.concatenate([some[BEGIN:] for some in off])))))
        return error if np.isfinite(error) else np.inf


def learn(demos: simile.Demonstrations, *, verdict: bool) -> tuple[Any, list[str]]:
    """Return a policy, and the sentences that were said, with those of the verdict or without."""
    stderr = io.StringIO()
    with contextlib.redirect_stderr(stderr):
        run = simile.learn(demos, **LIGHT)
    told = [*list_notes(stderr.getvalue()), *run.notes]
    return run.policy, [*told, *str(run.verdict).split(". ")] if verdict else told


def act_along(policy: Any, names: tuple[str, ...], odd: Odd, _: Plant, rows: Rows) -> np.ndarray:
    """Let a policy act along contexts that do not depend on it."""
    rows = {**rows, **{name: f(rows) for name, f in odd.columns.items()}}
    x = np.column_stack([rows[name] for name in names])
    return simile.rollout(policy, [x], start=simile.ColdStart())[0][:, 0]


def act_in_loop(policy: Any, names: tuple[str, ...], odd: Odd, plant: Plant, rows: Rows) -> np.ndarray:
    """Let a policy act where contexts follow from what it did."""
    predictor, sent = simile.Predictor(policy), np.full(len(rows["t"]) + 1, rows[plant.action][0])
    for i in range(len(rows["t"])):
        so_far = {name: values[: i + 1] for name, values in rows.items()}
        so_far[plant.action] = np.append(sent[1 : i + 1], sent[i])  # of this frame: what was sent last
        x = [(odd.columns[name](so_far) if name in odd.columns else so_far[name])[-1] for name in names]
        sent[i + 1] = predictor.step(x)[0]
    return sent[1:]


def read_clean(trial: Trial, name: str) -> list[str]:
    """Return the notes on a file that is only unusual, and whatever else goes wrong with it."""
    with tempfile.TemporaryDirectory() as folder:
        odd = make_clean(name, trial.plant, trial.seed, Path(folder))
        seen = look(Kind(name, "", lambda _: odd, ("(?!)",)), trial.plant, odd)
    wrong = seen.demos is None or (odd.truth is not None and not is_right(trial.plant, odd, seen.demos))
    return [*seen.told, *(["it is not read rightly"] if wrong and seen.demos is not None else [])]


def main() -> None:
    """Print a line for each kind, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--data", type=Path, help="the folder of the real sets")
    parser.add_argument("--only", default="", help="kinds with this in their names")
    parser.add_argument("--messages", action="store_true", help="print what was told, too")
    given, begun = parser.parse_args(), time.monotonic()
    np.seterr(all="ignore")
    trials = [Trial(plant, seed) for seed in given.seeds for plant in PLANTS]
    counts = Counter[str]()
    head = " ".join(f"{plant.name:>7}" for plant in PLANTS)
    print(f"{'kind':37}{'expected':28}{'seen':34}{head}   times worse")
    for kind in (kind for kind in KINDS.values() if given.only in kind.name):
        found = [(t.plant, *t.try_kind(kind)) for t in trials if t.plant in kind.plants]
        outcomes = Counter(seen.outcome for _, seen, _, _ in found)
        as_expected = outcomes.keys() <= kind.expected
        counts["tried"] += len(found)
        counts["not as expected"] += sum(n for outcome, n in outcomes.items() if outcome not in kind.expected)
        counts.update(f"  {outcome}" for outcome in outcomes.elements())
        counts["mended"] += sum(bool(mended) for *_, mended in found)
        cells = []
        for plant in PLANTS:
            ratios = [ratio for there, _, ratio, _ in found if there == plant and ratio is not None]
            cells.append(f"{np.median(ratios):7.2f}" if ratios else f"{'-':>7}")
            if kind.expected & {SILENT}:
                continue
            lost = sum(s.outcome == SILENT and r is not None and r > WORSE for p, s, r, _ in found if p == plant)
            counts[f"silent and more than {100 * (WORSE - 1):.0f} % worse"] += lost
        expected = ", ".join(outcome for outcome in (RIGHT, TOLD, REFUSED, SILENT) if outcome in kind.expected)
        seen_ = ", ".join(f"{outcome} {n}" for outcome, n in outcomes.most_common())
        print(f"{kind.name:37}{expected:28}{seen_:34}{' '.join(cells)}{'' if as_expected else '   <-'}", flush=True)
        if given.messages:
            for text in sorted({text for _, seen, _, _ in found for text in seen.told}):
                print(f"    {text[:300]}")
    print("\nclean files that are only unusual: what was told of them")
    for name in (name for name in UNUSUAL if given.only in name):
        notes = [(trial.plant.name, note) for trial in trials for note in read_clean(trial, name)]
        counts["unusual files"] += len(trials)
        counts["false notes on them"] += len(notes)
        print(*(f"  {name}, {plant}: {note}" for plant, note in notes), sep="\n", end="\n" * bool(notes))
    print("\nreal data: what was told of them")
    for name, options in REAL.items() if given.data else ():
        stderr = io.StringIO()
        with contextlib.redirect_stderr(stderr):
            simile.read(given.data / name, **options)
        notes = list_notes(stderr.getvalue())
        counts["notes on real data"] += len(notes)
        print(f"  {name}: {len(notes)}", *(f"    {note}" for note in notes), sep="\n")
    print("\n", *(f"{name}: {n}" for name, n in counts.items()), sep="\n")
    print(f"kinds: {len(KINDS)}; seconds: {time.monotonic() - begun:.0f}")


if __name__ == "__main__":
    main()
