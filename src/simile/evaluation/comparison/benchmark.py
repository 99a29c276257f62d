"""`simile.compare`: fit every contender on the same data, and judge all on the same held-out frames."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.losses import Loss
from simile.data.recorded import Units
from simile.data.reference import Reference
from simile.data.timing import Ahead
from simile.errors import ArgumentError, DataError, DivergedError, SimileError
from simile.evaluation.comparison.result import Comparison, Contender, Standing, Trial, stand
from simile.evaluation.rivals import ROSTER, Bench, Family, Filtered, Held, Point, Rival, roll_out
from simile.learning import ALGORITHMS, algorithms
from simile.learning.distributed import DistributedDemonstrations, bring_here
from simile.learning.distributed.backend import Backend
from simile.learning.frontier import list_leads, name_delay, path
from simile.learning.initial import see_by
from simile.learning.outliers import weigh
from simile.models import SmoothForest
from simile.online import Predictor
from simile.policies.policies import Policy, given_frames, timing, whole

SMOOTHNESS = (8.0, 25.0, 80.0, 250.0, 800.0)  # lambda of the reductions that have no way of their own to choose it
# Enough to rank them, and a comparison ends in minutes. Stochastic mixtures are slow to roll out, in as many steps as
# the longest sequence has, so they learn from pieces, in fewer rounds, with larger steps to go as far.
FEW: dict[str, Any] = {"model": SmoothForest(n_trees=20), "n_rounds": 5}
STOCHASTIC: dict[str, dict[str, Any]] = {name: {"n_rounds": 3, "step_size": 0.3} for name in ("searn", "smile")}
PIECE = 500  # frames
STEPS, BLOCKS = 25, 13  # timed online: the median of so many blocks of so many steps


def compare(
    train: Demonstrations | Demonstration | DistributedDemonstrations,
    test: Demonstrations | Demonstration | DistributedDemonstrations,
    *,
    reductions: Sequence[str] = ALGORITHMS,
    rivals: Sequence[Rival] = ROSTER,
    smoothness: Any = None,
    lead: float | Sequence[float] | None = None,
    known: Ahead | None = None,
    loss: Loss | None = None,
    validation: Demonstrations | Demonstration | float | None = 0.2,
    seed: int = 0,
    backend: Backend | None = None,
    watch: Callable[[str], object] | None = None,
    **settings: Any,
) -> Comparison:
    """Fit every reduction and every rival on one data set, and judge them on another, at equal smoothness.

    Each contender has a path of controllers from rough to smooth. Where a part of the training data is needed to
    choose knobs or rounds, `validation` is it; what was chosen is then fitted on all training data.

    Parameters
    ----------
    train, test : Demonstrations
        What to learn from, and the held-out sequences that judge. Those that lie with a backend are brought here, 256
        MiB at most.
    reductions : sequence of str
        Which algorithms; all of them by default. All contenders are compared at the smoothness of the first (`learn`,
        wherever it is named).
    rivals : sequence of Rival
        What an engineer would build by hand; `simile.evaluation.rivals.ROSTER` by default, () for none.
    smoothness : float, SmoothTime or MatchExpert, optional
        How smooth `learn` is to be, as for `simile.learn`.
    lead, known
        As for `simile.learn`, for all contenders alike: rivals wait as long, aim as far ahead, and know as much. Of
        several leads, such as `(0, -0.5, -1)`, the first is that of all, and with each other one `learn` stands beside
        them: what waiting would buy.
    loss : Loss, optional
        By what all are fitted and judged, as for `simile.learn`; rivals are fitted to the record without outliers.
    validation : float, Demonstrations, optional
        A share of the training sequences (the end of a single one), or other sequences. None chooses on the training
        data themselves, which flatters.
    seed : int
        Same seed, same comparison.
    backend : Backend, optional
        Where contenders are fitted, several at a time, each in one place.
    watch : callable, optional
        Called with the name of each contender before its turn.
    settings
        For the reductions other than `learn`, as for `simile.paper`; few trees and rounds by default.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from simile import tasks
    >>> train, test = tasks.pursuit(n_sequences=6, length=150).split(test=0.3)
    >>> found = compare(train, test, reductions=("learn", "clone"), rivals=ROSTER[:1])
    >>> [c.name for c in found.contenders]
    ['learn', 'clone', 'hold the last action']
    """
    if unknown := [r for r in reductions if r not in ALGORITHMS]:
        raise ArgumentError(f"reductions must be among {', '.join(ALGORITHMS)}; got {unknown}")
    if not reductions and not rivals:
        raise ArgumentError("reductions and rivals must not both be empty: there is nothing to compare")
    train, test = (weigh(bring_here(part, "compare"), loss, seed=seed) for part in (train, test))
    if isinstance(validation, Demonstrations | Demonstration):
        validation = weigh(Demonstrations.of(validation), loss, seed=seed)
    if (train.context_names, train.action_names) != (test.context_names, test.action_names):
        raise ArgumentError(
            f"test must have the columns of train; got {test.context_names} -> {test.action_names} instead of "
            f"{train.context_names} -> {train.action_names}"
        )
    first, *others = list_leads(lead)
    if others and "learn" not in reductions:
        raise ArgumentError(f"lead must be one number where `learn` is not among the reductions; got {lead}")
    timed, *waits = (see_by(train, None, one, known)[1] for one in (first, *others))
    settings |= {name: value for name, value in (("lead", first), ("known", known)) if value is not None}
    bench = replace(_bench(train, validation, seed), lead=timed.lead, known=timed.known)
    contenders: list[str | Rival | Waiting] = [*sorted(reductions, key=lambda r: r != "learn")]
    contenders += [Waiting(s, name_delay(h.lead, train.rate)) for s, h in zip(others, waits, strict=True)]
    contenders += rivals
    fits = _fit_each(contenders, bench, smoothness, settings, backend)
    families: list[tuple[Family, str]] = []
    for contender in contenders:
        if watch is not None:
            watch(contender if isinstance(contender, str) else contender.name)
        families.append((next(fits), _kind(contender)))
    memories = [given_frames(p.controller) for family, _ in families for p in family.points]
    begin = max(memories, default=1)
    if not (test.lengths > begin).any():
        raise DataError(
            f"test: no sequence is longer than the {begin} frames that start the roll-outs (the longest has "
            f"{int(test.lengths.max())}): give longer sequences"
        )
    everything = bench.everything
    reference = Reference(test, Units.of(everything).scale, begin, logs=everything.logs)
    placed = _place([_try_family(family, kind, reference) for family, kind in families], test)
    held = reference.tally(Held().rollout(test, frames=begin))
    return Comparison(placed, reference, held, train.tell_new(test))


@dataclass(frozen=True)
class Waiting:
    """`learn` with a lead of its own."""

    lead: float | None  # as it was given
    time: str  # that it is given

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return f"learn, {self.time}"


def _kind(contender: str | Rival | Waiting) -> str:
    return "reduction" if isinstance(contender, str) else "waiting" if isinstance(contender, Waiting) else "rival"


def _bench(train: Demonstrations, validation: Demonstrations | Demonstration | float | None, seed: int) -> Bench:
    if validation is None:
        return Bench(train, None, seed)
    if isinstance(validation, float | int):
        fitted, held_out = train.hold_out(validation, seed=seed)
        return Bench(fitted, held_out, seed)
    return Bench(train, Demonstrations.of(validation), seed)


def _fit_each(
    contenders: Sequence[str | Rival | Waiting],
    bench: Bench,
    smoothness: Any,
    settings: dict[str, Any],
    backend: Backend | None,
) -> Iterator[Family]:
    """Fit one contender after the other here, or several at a time where a backend is; in their order."""
    if backend is None:
        for contender in contenders:
            yield _fit(contender, bench, smoothness, settings)
        return
    benches = backend.place([bench]) * len(contenders)
    for found in backend.map(_fit, backend.place(contenders), benches, shared=(smoothness, settings)):
        yield backend.collect([found])[0]


def _fit(contender: str | Rival | Waiting, bench: Bench, smoothness: Any, settings: dict[str, Any]) -> Family:
    if isinstance(contender, str):
        return _run_reduction(contender, bench, smoothness, settings)
    if isinstance(contender, Waiting):
        learned = _run_reduction("learn", bench, smoothness, {**settings, "lead": contender.lead})
        return replace(learned, name=contender.name)
    return _fit_rival(contender, bench)


def _run_reduction(name: str, bench: Bench, smoothness: Any, settings: dict[str, Any]) -> Family:
    """Run one reduction for a path of smoothness values; what fails but for a wrong argument becomes `trouble`."""
    begin = time.process_time()
    try:
        if name == "learn":
            return _run_learn(bench, smoothness, {n: settings[n] for n in ("lead", "known") if n in settings})
        points = _run_path(name, bench, {**FEW, **STOCHASTIC.get(name, {}), **settings})
    except ArgumentError:
        raise
    except SimileError as error:
        return Family(name, (), time.process_time() - begin, _describe_failure(error))
    return Family(name, points, time.process_time() - begin, "" if points else "diverged at every smoothness")


def _run_learn(bench: Bench, smoothness: Any, timed: dict[str, Any]) -> Family:
    """Fit `learn` and its path on everything: it leaves all out in turn, and needs no validation part."""
    begin = time.process_time()
    chosen = algorithms.learn(bench.everything, smoothness=smoothness, seed=bench.seed, **timed).chosen
    error = chosen.error if math.isnan(chosen.validation_error) else chosen.validation_error
    one = whole(chosen.policy)
    own = Point(math.nan if one is None else float(np.mean(one.smoothness)), chosen.policy, error)
    traced = path(bench.everything, seed=bench.seed, **timed)
    others = [Point(p.smoothness, p.policy, p.error) for p in traced.points]
    points = tuple(sorted((own, *others), key=lambda p: p.strength))
    return Family("learn", points, time.process_time() - begin, chosen=own)


def _run_path(name: str, bench: Bench, choices: dict[str, Any]) -> tuple[Point, ...]:
    """Run a reduction for several lambda; the round is chosen on the validation part, then all data are used."""
    algorithm, points = getattr(algorithms, name), []
    if name in STOCHASTIC:
        held_out = None if bench.validation is None else _cut(bench.validation)
        bench = replace(bench, train=_cut(bench.train), validation=held_out)
    for smoothness in SMOOTHNESS:
        settings = {**choices, "smoothness": smoothness, "seed": bench.seed}
        run = algorithm(bench.train, validation=bench.validation, **settings)
        number, policy, error = run.chosen.number, run.policy, run.chosen.validation_error
        if bench.validation is None:
            error = run.chosen.error
        elif math.isfinite(error):
            policy = algorithm(bench.everything, **settings).rounds[number].policy
        if math.isfinite(error):
            points.append(Point(smoothness, policy, error, {"round": number}))
    return tuple(points)


def _cut(demos: Demonstrations) -> Demonstrations:
    """Cut long sequences into equal pieces."""
    pieces = []
    for demo in demos:
        n = max(1, round(len(demo) / PIECE))
        pieces += [demo.cut(i * len(demo) // n, (i + 1) * len(demo) // n) for i in range(n)]
    return Demonstrations(tuple(pieces))


def _fit_rival(rival: Rival, bench: Bench) -> Family:
    """Fit a rival; whatever goes wrong with it must not end the comparison."""
    begin = time.process_time()
    try:
        return rival.fit(bench)
    except Exception as error:
        return Family(rival.name, (), time.process_time() - begin, _describe_failure(error))


def _describe_failure(error: Exception) -> str:
    return f"failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}"


def _try_family(family: Family, kind: str, reference: Reference) -> Contender:
    """Roll out all controllers of a family over the held-out sequences."""
    trials, chosen = [], None
    for point in family.points:
        try:
            rolled = roll_out(point.controller, reference.demos, reference.begin)
        except DivergedError:
            continue
        tally = reference.tally(rolled)
        trials.append(Trial(point.strength, point.controller, point.validation, point.knobs, tally))
        chosen = trials[-1] if point is family.chosen else chosen
    trouble = "" if trials else family.trouble or "diverged on the held-out sequences"
    return Contender(family.name, kind, tuple(trials), family.seconds, trouble, chosen)


def _place(contenders: list[Contender], demos: Demonstrations) -> tuple[Contender, ...]:
    """Let every contender stand at the roughness of the first that has not failed, and time a step of each."""
    first = next((c for c in contenders if c.trials), contenders[0])
    if not first.trials:
        return tuple(contenders)
    chosen = first.chosen or min(first.trials, key=lambda t: t.validation)
    placed = []
    for contender in contenders:
        if contender is first:
            standing: Standing | None = Standing(chosen.tally, chosen)
        else:
            standing = stand(contender.trials, chosen.score.roughness)
        step = math.nan if standing is None else _time_step(standing.nearest.controller, demos)
        placed.append(replace(contender, standing=standing, microseconds=step))
    head = contenders.index(first)
    return (placed[head], *placed[:head], *placed[head + 1 :])


def _time_step(controller: Any, demos: Demonstrations) -> float:
    """Measure one step online: the median CPU time of a few hundred."""
    policy: Policy | None = controller
    if isinstance(controller, Filtered | Held):
        policy = controller.policy if isinstance(controller, Filtered) else None
    seen = controller.predictor if isinstance(controller, Filtered) else policy
    longest = max(demos, key=len).foretell(() if seen is None else timing(seen)[1])
    start = longest.actions[: max(1, controller.memory)]
    try:
        act = controller.online(start) if policy is None else Predictor(policy, start=start).step
        contexts = [longest.contexts[i % len(longest)] for i in range(STEPS)]
        taken = []
        for _ in range(BLOCKS + 1):
            begin = time.process_time()
            for x in contexts:
                act(x)
            taken.append(time.process_time() - begin)
    except DivergedError:  # contexts that jump back to the start may be too much for a fragile policy
        return math.nan
    return statistics.median(taken[1:]) / STEPS * 1e6  # the first block may compile
