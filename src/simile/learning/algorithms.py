"""`learn`, our best, and every reduction of the paper: Algorithm 1 with other choices, of which each names its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

import numpy as np

from simile._common import plots
from simile._common.text import spell, table
from simile._common.typing import FloatArray, PerAction
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.logs import tell_noise
from simile.data.losses import Loss, Squared
from simile.data.origins import choose_origin, tell_origin
from simile.data.recorded import ActionSpace, Recorded, Units
from simile.data.sanity import check_problems
from simile.data.states import Horizon
from simile.data.timing import Ahead, count_frames
from simile.errors import ArgumentError
from simile.learning.distributed import DistributedDemonstrations, place
from simile.learning.distributed.backend import Backend
from simile.learning.feedback import ExpertFeedback, Feedback, SmoothFeedback, exponential, linear
from simile.learning.frontier import Frontier, make_frontier
from simile.learning.initial import check_initial, leave_seen, note_initial, see_by, settle_lead
from simile.learning.judged import Judged, cut_places
from simile.learning.measures import refuse_short
from simile.learning.mixture import Choices, Finished, Mixture, stack_path, standardize
from simile.learning.outliers import tell_outliers, weigh
from simile.learning.problem import Watch, check_models, judge, resolve
from simile.learning.reduction import rounds
from simile.learning.rounds import Round, card_of, check_alike, finish
from simile.learning.simple_filters import SimpleFilter, find_simple_filter
from simile.learning.smoothness import MatchExpert, Smoothness, SmoothTime
from simile.learning.step_sizes import Constant, ErrorRatio, StepSize
from simile.learning.training import JointRule, Memory, Rule, everything, latest, split_by
from simile.learning.verdict import Verdict
from simile.models import Criterion, SmoothForest
from simile.models.regularizers import LinearAutoregression, RegularizerClass, VelocityAutoregression
from simile.policies.hold import Hold
from simile.policies.policies import Combine, Policy, interpolate, replace_policy, sample, sample_geometric

Placed = Demonstrations | DistributedDemonstrations
Data = Demonstration | Placed
Validation = Data | float | None

COLUMNS = (  # of the table of a run
    *(("round", 5, "d"), ("beta", 5, ".3f"), ("sigma", 5, ".3f"), ("error", 6, ".4f")),
    *(("roughness", 9, ".3f"), ("radius", 6, ".4f"), ("validation", 10, ".4f")),
)
WORSE = 1.1  # times the training error of another round from which on the last one is clearly worse

LAMBDAS, N_TRIALS = (0.1, 1e5), 8  # range, and number of runs, in which the rounds look for a smoothness


class Settings(TypedDict, total=False):
    """What every reduction takes; `simile.rounds` describes each. What is not given, the reduction chooses.

    `watch` is called with every `Round` as it comes: for progress bars and logs.
    """

    model: Any
    regularizer: RegularizerClass
    smoothness: Smoothness
    horizon: Horizon
    lead: float | str
    effect: Any
    known: Ahead
    feedback: Feedback
    rule: Rule
    memory: Memory
    step_size: StepSize | float
    combine: Combine
    n_rounds: int
    seed: int
    space: ActionSpace
    loss: Loss
    validation: Validation
    initial: Policy
    backend: Backend
    watch: Watch


class Preset(Mapping[str, Any]):
    """The choices of an algorithm, by the names of its settings: a mapping that cannot be changed, a line for each.

    >>> print(Preset(n_rounds=10, combine=interpolate))
    n_rounds     10
    combine      interpolate
    """

    def __init__(self, **choices: Unpack[Settings]) -> None:
        self._choices: dict[str, Any] = dict(choices)

    def __getitem__(self, name: str) -> Any:
        return self._choices[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)

    def __repr__(self) -> str:
        return f"Preset({', '.join(f'{name}={spell(choice)}' for name, choice in self.items())})"

    def __str__(self) -> str:
        return "\n".join(f"{name:12} {spell(choice)}" for name, choice in self.items())


# Algorithm 2 twice; docs/paper-map.md says where each choice is from. What neither paper nor script says, lambda for
# example, is ours and the same in both. `simile.rounds(demos, **PRINTED)` is `simile.paper(demos)`.
PRINTED = Preset(
    model=SmoothForest(criterion=Criterion.PRINTED),
    regularizer=LinearAutoregression(order=10, ridge=1e-5),
    smoothness=30.0,
    horizon=Horizon(context_lags=10, action_lags=10),
    feedback=SmoothFeedback(linear()),
    loss=Squared(),
    rule=JointRule(),
    memory=latest,
    step_size=ErrorRatio(),
    combine=interpolate,
    n_rounds=10,
)
AUTHORS = Preset(
    model=SmoothForest(criterion=Criterion.LABELS),
    regularizer=VelocityAutoregression(order=10),
    smoothness=30.0,
    horizon=Horizon(context_lags=10, action_lags=10),
    feedback=SmoothFeedback(exponential()),
    loss=Squared(),
    rule=JointRule(),
    memory=latest,
    step_size=ErrorRatio(),
    combine=interpolate,
    n_rounds=10,
)

# What only the rounds of Algorithm 1 have a meaning for.
OF_ROUNDS = ("feedback", "rule", "memory", "step_size", "combine", "n_rounds")


def learn(
    demos: Data,
    *,
    model: Any = None,
    regularizer: RegularizerClass | None = None,
    smoothness: Smoothness | None = None,
    horizon: Horizon | None = None,
    lead: float | str | None = None,
    effect: Any = None,
    known: Ahead | None = None,
    hold: Hold | float | tuple[float, ...] | None = None,
    loss: Loss | None = None,
    seed: int = 0,
    space: ActionSpace | None = None,
    validation: Validation = None,
    initial: Policy | None = None,
    backend: Backend | None = None,
    watch: Watch | None = None,
    **of_rounds: Any,
) -> Run:
    """Learn a smooth policy: the best that we know to get from the data, as smooth as the expert.

    The policy is one mixture (`simile.learning.mixture`) of a forest and two ridges on contexts alone, each of which
    aims at the action of now and of a little later. How much each counts, and how smooth the policy is, follows from
    roll-outs of recordings that the models have not seen: by all of these it is judged, too (`run.verdict`), and from
    all of them it is learned. Where the expert holds still, so does it (`Hold`). Each action has its own filter,
    weights and hold. The rounds of Algorithm 1, with arguments of their own, are `simile.paper`.

    Parameters
    ----------
    demos : Demonstrations
        What to learn from.
    model : Regressor, or several, optional
        What to mix, such as regressors of scikit-learn or networks; a forest and two ridges by default.
    regularizer : RegularizerClass, optional
        H, linear; `CriticallyDamped(order=3)` by default.
    smoothness : float, tuple of float, SmoothTime or MatchExpert, optional
        lambda, one for each action where it is a tuple, or how to choose it; `MatchExpert(1.0)` by default.
    horizon : Horizon, optional
        tau, without past actions; `Horizon.auto(rate)` by default.
    lead : float, optional
        Seconds (frames, where the demonstrations have no rate) from when an action is chosen to the moment it is for:
        below 0 the policy may wait that long and sees what comes; above 0 it aims ahead for a late actuator. 0 by
        default (`docs/timing.md`). "auto" measures how late the actuator is.
    effect : str, sequence of str or of arrays, optional
        For lead="auto": what each of the first actions brought about, contexts by name, which are then left out of what
        is learned from, or arrays, one per sequence.
    known : mapping, optional
        Contexts that are known ahead, by name or pattern, and how many seconds (frames) each, such as
        `{"curv_*": 1.0}`, or several, `{"curv_*": (0.5, 1.0)}`.
    hold : Hold, float or tuple of float, optional
        The hysteresis behind the policy, or its width in standard deviations of the action, of each its own where it is
        a tuple; 0 for none. By default that with which the policy turns and rests most like the expert, as far as
        accuracy allows.
    loss : Loss, optional
        l of Section 2: `Squared()` by default, `Huber()` or `Absolute()` for records with outliers. By it every model
        is fitted, mixed and judged (`simile.learning.outliers`); errors are then weighted ones.
    seed, space
        As for `simile.rounds`.
    validation : float or Demonstrations, optional
        What judges the policy beside the sequences that its models left out in turn: a share of the sequences (the
        end of a single one), which are then not learned from, or demonstrations of your own; none by default.
    initial : Policy, optional
        What to go on from, a policy on contexts alone: one more component of the mixture. Sequences that it was learned
        from are left out. Its units, its bounds (wider, where learned) and its horizon are those of the run and, where
        neither smoothness nor regularizer is given, its filter.
    backend : Backend, optional
        Where the data are, `DaskBackend(client)` for a cluster: the policy is that of one machine, to the bit.
    watch : callable, optional
        Called with every `Fitted` as it comes, and with the `Round` of the policy.

    Examples
    --------
    >>> from simile import tasks
    >>> run = learn(tasks.pursuit(n_sequences=6, length=120))
    >>> len(run.rounds), run.verdict.recordings
    (1, 6)
    """
    if unknown := set(of_rounds) - set(OF_ROUNDS):
        raise TypeError(f"learn() got an unexpected keyword argument {min(unknown)!r}")
    refuse_rounds({"horizon": horizon, **of_rounds})
    placed = place(demos, backend)
    aim, effects, measured = settle_lead(placed, lead, effect)
    placed = _leave_out(placed, effects)
    problems = check_problems(placed)
    placed, horizon = see_by(placed, horizon, aim, known, initial)
    recorded, told = _leave_seen(placed, initial)
    weighed = weigh(recorded, loss, seed=seed)
    fitted = {"model": model, "regularizer": regularizer, "horizon": horizon, "hold": hold}
    choices = Choices.of(weighed, **fitted, seed=seed, space=space, loss=loss, initial=initial)
    notes = (*measured, *check_models(weighed, choices.models, choices.horizon))
    notes += tell_outliers(recorded, weighed, [m for m in choices.models if m is not choices.kept])
    if smoothness is None and regularizer is None:
        smoothness, choices = _keep_filter(weighed, choices)
    train, judges = _set_apart(weighed, _leave_out(validation, effects), backend, loss, seed, horizon)
    check_alike(train, judges)
    if initial is not None:
        notes += (*told, *filter(None, note_initial(initial, train, rounds=False)))
    goal = MatchExpert() if smoothness is None else smoothness
    run = learn_mixture(train, choices, goal, judges, watch, problems=problems)
    return _note_log(replace(run, notes=(*problems, *notes)), train)


def learn_mixture(
    demos: Recorded,
    choices: Choices,
    goal: Smoothness | PerAction,
    judges: Recorded | None = None,
    watch: Watch | None = None,
    *,
    problems: tuple[str, ...] = (),
) -> Run:
    """Learn one mixture from demonstrations in the user's units, and finish it; the verdict tells their problems."""
    units, standard, inside = standardize(demos, choices)
    order = goal.order if isinstance(goal, MatchExpert) else 2
    mixture = Mixture.fit(standard, inside, order=order, watch=watch)
    budget: FloatArray | None = None
    if isinstance(goal, MatchExpert):
        budget = goal.ratios(demos.n_actions)
        blends = [mixture.choose(j, float(ratio)) for j, ratio in enumerate(budget)]
    elif isinstance(goal, SmoothTime):
        blends = mixture.at(resolve(standard, goal, inside.regularizer))  # in standard units, in which h is fitted
    else:
        blends = mixture.at(np.array(goal) if isinstance(goal, list | tuple) else goal)
    found = mixture.finish(blends, budget)
    refuse_short(found.policy, int(demos.lengths.max()))
    path, stacked = None, None
    if isinstance(goal, MatchExpert):
        same = Hold(np.zeros(demos.n_actions)) if found.hold is None else found.hold  # behind all of the path
        several = [mixture.finish(list(some), hold=same) for some in zip(*mixture.table, strict=True)]
        path, stacked = make_frontier(several, demos, units, choices, goal.metric), stack_path(several, units)
    names = ("models", "regularizer", "horizon", "seed", "hold", "loss")
    said = {n: value for n in names if (value := getattr(choices, n)) is not None}
    said["smoothness"] = np.asarray(found.filter.smoothness).tolist()
    card = card_of(demos, said, choices.seen)
    card = replace(card, training={**card.training, "mixture": mixture.describe(blends)})
    turn = Round(
        number=0,
        policy=found.policy,
        trained=found.policy,
        h=found.filter.h,
        targets=[],
        rolled=found.rolled,
        beta=1.0,
        sigma=math.nan,
        error=found.score.error,
        roughness=found.score.roughness,
        radius=found.filter.h.radius(found.filter.smoothness),
        diverged=False,
        validation_error=found.score.error,
        validation_roughness=found.score.roughness,
        band=found.band(),
    )
    allowed = found.score.roughness if budget is None else float(np.mean(budget))
    simple = find_simple_filter(mixture, demos, units, choices.space, budget=allowed)
    ended = finish(turn, units, choices.space, card, judges)
    if watch is not None:
        watch(ended)
    judged = replace(_judge(found, simple, demos, units), problems=problems)
    new = judged.new if judges is None else demos.tell_new(judges)
    return Run(
        (ended,),
        by_validation=False,
        frontier=path,
        stacked=stacked,
        simple=simple,
        judged=judged,
        mixed=tuple(mixture.tell(blends)),
        new=new,
    )


def _judge(found: Finished, simple: SimpleFilter | None, demos: Recorded, units: Units) -> Judged:
    """Return, in the user's units, what the policy did over what its parts had not seen."""
    mixture = found.mixture
    places = mixture.folds.places
    numbers, own = np.unique(places[:, 0], return_inverse=True)
    here = demos.where(numbers).gather()  # as they are, to the bit, wherever they lie
    return Judged(
        demos=cut_places(here, np.column_stack([own, places[:, 1:]])),
        rolled=[units.restore(a) for a in found.rolled],
        simple=None if simple is None else [units.restore(a) for a in simple.rolled],
        begin=mixture.begin(found.filter),
        scale=units.scale,
        logs=demos.logs,
        kin=mixture.folds.kin[mixture.folds.judged],
        new=mixture.folds.new if len(mixture.folds) > 1 else "",
        places=places,
    )


def _leave_out(demos: Any, names: Sequence[str]) -> Any:
    """Leave out contexts that follow from the actions."""
    return Demonstrations.of(demos).without(names) if names and not isinstance(demos, float | int | None) else demos


def _leave_seen(demos: Placed, initial: Policy | None) -> tuple[Placed, tuple[str, ...]]:
    """Leave out what the policy to go on from has learned from, and say so."""
    if initial is None:
        return demos, ()
    check_initial(initial, demos)
    left, told = leave_seen(initial.card.training, demos)
    return left, (told,) if told else ()


def _keep_filter(demos: Recorded, choices: Choices) -> tuple[Smoothness | None, Choices]:
    """Take over the filter of the policy to go on from, where there is one."""
    kept = choices.kept
    if kept is None:
        return None, choices
    kept.check_filter(demos)
    smoothness: Any = kept.smoothness
    return smoothness, replace(choices, regularizer=kept)


def _set_apart(
    demos: Placed, validation: Validation, backend: Backend | None, loss: Loss | None, seed: int, horizon: Horizon
) -> tuple[Placed, Placed | None]:
    """Return what to learn from and what judges it: a share of it, or demonstrations of one's own."""
    if isinstance(validation, float | int):
        return demos.hold_out(validation, seed=seed) if validation else (demos, None)
    if validation is None:
        return demos, None
    return demos, weigh(place(validation, backend).foretell(horizon.known), loss, seed=seed)


def refuse_rounds(settings: Mapping[str, Any]) -> None:
    """Refuse, for `learn`, what only the rounds of Algorithm 1 have a meaning for; the sentence shows the call.

    >>> refuse_rounds({"n_rounds": 5})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    simile.errors.ArgumentError: n_rounds: learn has no rounds, it solves for one mixture: use simile.paper(demos, ...
    """
    horizon = settings.get("horizon")
    given = {name: settings[name] for name in OF_ROUNDS if settings.get(name) is not None}
    if isinstance(horizon, Horizon) and horizon.memory > 0:
        given["horizon"] = horizon
    if given:
        call = ", ".join(["demos", *(f"{name}={spell(value)}" for name, value in given.items())])
        raise ArgumentError(
            f"{', '.join(given)}: learn has no rounds, it solves for one mixture: use simile.paper({call}) for the "
            "rounds of Algorithm 1 (a command: --algorithm paper)"
        )


def _note_log(run: Run, demos: Recorded) -> Run:
    """Say which contexts lie so far from 0 that they are measured from elsewhere, and which actions are noisy."""
    noise = tell_noise(demos.action_names, demos.logs)
    return replace(run, notes=(*demos.over("places", _tell_origin, demos.context_names), *noise, *run.notes))


def _tell_origin(places: FloatArray, names: Sequence[str]) -> list[str]:
    return tell_origin(names, places, choose_origin(places))


def _note_last(run: Run) -> Run:
    """Say so where the last round is taken, as printed, and an earlier one is clearly closer to the expert."""
    best = min(run.rounds, key=lambda r: r.error)
    times = math.sqrt(run.chosen.error / best.error) if best.error > 0.0 else 1.0
    if run.chosen is not run.rounds[-1] or not math.isnan(run.chosen.validation_error) or not times > WORSE:
        return run
    note = f"the last round is taken, and its training error is {times:.2f} times that of round {best.number}"
    way_out = "validation=0.2 chooses the round by sequences that are held out"
    return replace(run, notes=(*run.notes, f"{note}: {way_out} (a command: --validation 0.2)"))


def paper(demos: Data, **settings: Unpack[Settings]) -> Run:
    """SIMILE as printed: Algorithm 2 with the choices of `PRINTED`, and the last policy as the result.

    h is an autoregression of positions, and trees split by the impurity with lambda and h (Appendix B); a
    `SmoothForest` that names no criterion of its own does so, too. With `validation`, a share of the sequences or
    demonstrations of your own, the round that does best on it is chosen.

    >>> PRINTED["regularizer"]
    LinearAutoregression(order=10, ridge=1e-05)
    """
    return _run(demos, PRINTED, settings)


def authors(demos: Data, **settings: Unpack[Settings]) -> Run:
    """SIMILE as the authors' released script has it: Algorithm 2 with the choices of `AUTHORS`.

    It differs from `paper` in three of them: h is fitted to velocities, trees split by the labels alone, and sigma
    falls from 0.82 to 0.20. The rest, stable h and policies that are mixed rather than trajectories, is as in `paper`.

    >>> [name for name in PRINTED if repr(PRINTED[name]) != repr(AUTHORS[name])]
    ['model', 'regularizer', 'feedback']
    """
    return _run(demos, AUTHORS, settings)


def searn(demos: Data, **settings: Unpack[Settings]) -> Run:
    """SEARN (Daume et al. 2009; CPI, Kakade and Langford 2002): expert feedback, stochastic mixing, small fixed steps.

    Its guarantee asks for `OneOverHorizon()`, which hardly moves on long sequences. It starts from the cloned
    policy, as the paper's comparison does, and keeps it in the mixture to the end; SEARN itself starts from the expert,
    and takes the expert's share out at the end. What is not given, h and the splits for example, is as in `AUTHORS`,
    here and in all reductions below.
    """
    choices = Settings(feedback=ExpertFeedback(), step_size=Constant(0.1), memory=latest, combine=sample)
    return _run(demos, choices, settings)


def smile(demos: Data, **settings: Unpack[Settings]) -> Run:
    """SMILe (Ross and Bagnell 2010): expert feedback, stochastic mixing with geometrically falling weights.

    Each new policy takes over a share of what the first still has. The first is the cloned policy, since the
    expert of the original cannot be asked to act in a recording. It stays in the mixture with what it has left,
    (1 - beta)^N; SMILe itself leaves the expert out at the end, and shares that among the others.
    """
    choices = Settings(feedback=ExpertFeedback(), step_size=Constant(0.1), memory=latest, combine=sample_geometric)
    return _run(demos, choices, settings)


def dagger(demos: Data, **settings: Unpack[Settings]) -> Run:
    """DAgger (Ross et al. 2011): expert feedback, the data of all rounds, the newest policy alone.

    The newest policy rolls out by itself: there is no beta_i, the share of frames in which DAgger may let the expert
    act. The first data are the expert's, as with beta_i = I(i = 1), the version that its authors call parameter-free.
    Without an expert to query, the recorded action of the frame stands in for the answer; give
    `feedback=OracleFeedback(...)` where there is one.
    """
    choices = Settings(feedback=ExpertFeedback(), step_size=Constant(1.0), memory=everything, combine=replace_policy)
    return _run(demos, choices, settings)


def coach(demos: Data, **settings: Unpack[Settings]) -> Run:
    """Coaching (He et al. 2012): DAgger with smooth feedback, targets within the learner's reach."""
    feedback = SmoothFeedback(exponential())
    choices = Settings(feedback=feedback, step_size=Constant(1.0), memory=everything, combine=replace_policy)
    return _run(demos, choices, settings)


def clone(demos: Data, **settings: Unpack[Settings]) -> Run:
    """Behavioural cloning: plain supervised learning on the expert's own states, round 0 of all the others."""
    if settings.get("initial") is not None:
        raise ArgumentError("initial: cloning has no rounds to go on with: use simile.paper(demos, initial=...)")
    return _run(demos, Settings(memory=latest, combine=replace_policy), {**settings, "n_rounds": 0})


@dataclass(frozen=True, eq=False)
class Run:
    """The rounds of a run, or its one mixture, and the policy that came of it; prints as a table."""

    rounds: tuple[Round, ...]
    interrupted: bool = False  # stopped by Ctrl-C: the rounds there were are kept
    by_validation: bool = True  # whether the validation error chooses the round, or the last one is taken
    notes: tuple[str, ...] = ()  # what the user should know
    frontier: Frontier | None = None  # the same mixture from rough to smooth, among which lambda was chosen
    stacked: Policy | None = None  # policies of that path in one, their actions side by side (`stack_path`)
    simple: SimpleFilter | None = None  # what an engineer would try first, tuned to be as smooth
    judged: Judged | None = None  # what the policy did over recordings that its parts had not seen
    mixed: tuple[Mapping[str, Any], ...] = ()  # what the policy consists of, see `Mixture.tell`
    new: str = ""  # what it was validated on: another person, another recording, another part of the same one

    @classmethod
    def of(cls, turns: Iterable[Round], watch: Watch | None = None) -> Run:
        """Collect rounds and show each to `watch`; Ctrl-C ends the collecting and keeps what there is."""
        kept: list[Round] = []
        interrupted = False
        try:
            for turn in turns:
                kept.append(turn)  # one by one, so that an interruption keeps them
                if watch is not None:
                    watch(turn)
        except KeyboardInterrupt:
            if not kept:
                raise
            interrupted = True
        return cls(tuple(kept), interrupted)

    @property
    def chosen(self) -> Round:
        """The round with the smallest validation error; the last where there is none, or where each builds on it."""
        if not self.by_validation or all(math.isnan(r.validation_error) for r in self.rounds):
            return self.rounds[-1]
        return min(self.rounds, key=lambda r: r.validation_error)

    @property
    def policy(self) -> Policy:
        """The policy of the chosen round."""
        return self.chosen.policy

    @property
    def baseline(self) -> Policy | None:
        """The best simple filter on the same data, for `simile.evaluate`; None where none was tried."""
        return None if self.simple is None else self.simple.policy

    @property
    def verdict(self) -> Verdict:
        """What is said of the policy, by recordings that its parts had not seen."""
        if self.judged is None:
            raise ArgumentError("the rounds of Algorithm 1 leave nothing out: judge the policy by simile.evaluate")
        return self.judged.verdict

    def plot(self) -> Any:
        """Draw error, smoothness and step by round, the chosen one marked; returns a matplotlib figure."""
        return plots.rounds(self.rounds, self.chosen.number)

    def __repr__(self) -> str:
        said = f"a mixture of {len(self.mixed)} components" if self.mixed else f"{len(self.rounds)} rounds"
        return f"Run({said}, round {self.chosen.number} chosen)"

    def __str__(self) -> str:
        lines = self._tell_mixture() if self.mixed else self._tell_rounds()
        if self.new:
            lines.append(f"left out was {self.new}")
        if self.interrupted:
            lines.append(f"interrupted after round {self.rounds[-1].number}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _tell_mixture(self) -> list[str]:
        turn, widths = self.chosen, [("component", 20, "<"), ("aim", 22, "<")]
        columns = (*widths, *((name, max(8, len(name)), ".0%") for name in self.policy.card.action_names))
        lines = table(columns, ((row["component"], row["aim"], *row["weights"]) for row in self.mixed))
        lines.append(
            f"RMSE {math.sqrt(turn.error):.4f} standard deviations of the expert's actions, roughness "
            f"{turn.roughness:.3f} times the expert's: of roll-outs over what "
            + ("its parts had not seen" if self.new else "it has learned from, which was too little to leave any out")
        )
        return lines

    def _tell_rounds(self) -> list[str]:
        lines = table(
            COLUMNS,
            (
                (
                    *(r.number, r.beta, r.sigma, math.sqrt(r.error), r.roughness, r.radius),
                    math.sqrt(r.validation_error),
                    "  <- chosen" if r is self.chosen else "",
                    "  refused: unstable" if r.diverged else "",
                )
                for r in self.rounds
            ),
        )
        lines.append(
            "error, roughness (1: the expert's): of roll-outs over what was learned from; validation: error over what "
            "was left out; errors: RMSE in standard deviations of the expert's actions"
        )
        return lines


def _run(demos: Data, preset: Mapping[str, Any], settings: Mapping[str, Any]) -> Run:
    """Complete the settings, hold out the validation part, then collect the rounds."""
    if settings.get("hold") is not None:
        raise ArgumentError(
            "hold: the rounds of Algorithm 1 have none: use simile.learn(demos, hold=...), or put one behind a policy, "
            "run.policy.holding(simile.Hold(0.1))"
        )
    if isinstance(goal := settings.get("smoothness"), MatchExpert) and isinstance(goal.ratio, tuple):
        raise ArgumentError(
            f"ratio must be one number for the rounds of Algorithm 1, which have one lambda; got {goal}"
        )
    choices = {**preset, **{name: value for name, value in settings.items() if value is not None}}
    if "model" in preset:
        choices["model"] = split_by(preset["model"].criterion, choices["model"])
    validation, watch, backend = (choices.pop(name, None) for name in ("validation", "watch", "backend"))
    lead, known, effect, horizon = (choices.pop(name, None) for name in ("lead", "known", "effect", "horizon"))
    placed = place(demos, backend)
    aim, effects, measured = settle_lead(placed, lead, effect)
    if horizon is None and choices.get("initial") is None:
        horizon = Horizon().led(0 if aim is None else count_frames(aim, placed.rate, "lead"))
    placed, validation = _leave_out(placed, effects), _leave_out(validation, effects)
    problems = check_problems(placed)
    recorded, choices["horizon"] = see_by(placed, horizon, aim, known, choices.get("initial"))
    loss, seed = choices.get("loss"), choices.get("seed", 0)
    weighed = weigh(recorded, loss, seed=seed)
    model = choices.get("model")
    notes = (*problems, *measured, *tell_outliers(recorded, weighed, (SmoothForest() if model is None else model,)))
    train, judges = _set_apart(weighed, validation, backend, loss, seed, choices["horizon"])
    new = "" if judges is None else train.tell_new(judges)

    def turns(**changed: Any) -> Iterator[Round]:
        return rounds(train, validation=judges, backend=backend, **{**choices, **changed})

    if isinstance(choices.get("smoothness"), MatchExpert):
        found = _search_smoothness(turns, choices["smoothness"], train if judges is None else judges)
        run = replace(Run.of(found.rounds, watch), interrupted=found.interrupted)
    else:
        run = Run.of(turns(), watch)
    if (initial := choices.get("initial")) is not None:
        notes += note_initial(initial, train, rounds=True, validated=bool(new))
    return _note_log(_note_last(replace(run, new=new, notes=notes)), train)


def _search_smoothness(run: Callable[..., Iterator[Round]], match: MatchExpert, judges: Recorded) -> Run:
    """Halve the range of lambda until the chosen policy is just smooth enough; returns the roughest run that is."""
    low, high = LAMBDAS
    best = None
    for _ in range(N_TRIALS):
        middle = math.sqrt(low * high)
        tried = Run.of(run(smoothness=middle))
        if tried.interrupted:
            return tried
        score = judge(judges, tried.policy, order=match.order)
        if score.diverged or score.roughness > match.mean:
            low = middle
        else:
            best, high = tried, middle
    return Run.of(run(smoothness=high)) if best is None else best
