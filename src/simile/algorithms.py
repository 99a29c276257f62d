"""Every reduction of the paper is Algorithm 1 with other choices; here each names its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from simile import _checks
from simile._text import cell
from simile.demonstrations import ActionSpace, Demonstration, Demonstrations
from simile.errors import ArgumentError
from simile.feedback import ExpertFeedback, Feedback, SmoothFeedback, exponential
from simile.policies import Combine, Policy, interpolate, replace_policy, sample, sample_geometric
from simile.reduction import Round, rounds
from simile.regularizers import RegularizerClass, VelocityAutoregression
from simile.states import Horizon
from simile.step_sizes import Constant, ErrorRatio, StepSize
from simile.training import JointRule, Memory, Rule, everything, latest

Validation = Demonstrations | Demonstration | float | None
Watch = Callable[[Round], object]


class Settings(TypedDict, total=False):
    """What every algorithm takes; `simile.rounds` describes each. What is not given, the algorithm chooses.

    `watch` is called with every `Round` as it comes: for progress bars and logs.
    """

    model: Any
    regularizer: RegularizerClass
    smoothness: float
    horizon: Horizon
    feedback: Feedback
    rule: Rule
    step_size: StepSize | float
    n_rounds: int
    seed: int
    space: ActionSpace
    validation: Validation
    watch: Watch


def learn(
    demos: Demonstrations | Demonstration,
    *,
    model: Any = None,
    regularizer: RegularizerClass | None = None,
    smoothness: float = 30.0,
    horizon: Horizon | None = None,
    feedback: Feedback | None = None,
    rule: Rule | None = None,
    step_size: StepSize | float | None = None,
    n_rounds: int = 10,
    seed: int = 0,
    space: ActionSpace | None = None,
    validation: Validation = 0.2,
    watch: Watch | None = None,
) -> Run:
    """Learn a smooth policy: the recommended setting, with the round chosen on held-out roll-outs.

    The same as `paper` but for `validation`: a share of the sequences (the end of a single one), demonstrations
    of your own, or None. `watch` is called with every `Round` as it comes. `simile.rounds` describes the other
    arguments.

    Examples
    --------
    >>> from simile import tasks
    >>> train, test = tasks.pursuit(n_sequences=6, length=120).split(test=0.2)
    >>> run = learn(train, n_rounds=2)
    >>> len(run.rounds)
    3
    """
    given = {
        "model": model,
        "regularizer": regularizer,
        "smoothness": smoothness,
        "horizon": horizon,
        "feedback": feedback,
        "rule": rule,
        "step_size": step_size,
        "n_rounds": n_rounds,
        "seed": seed,
        "space": space,
        "validation": validation,
        "watch": watch,
    }
    return _run(demos, given, memory=latest, combine=interpolate)


def paper(demos: Demonstrations | Demonstration, **settings: Unpack[Settings]) -> Run:
    """SIMILE as printed: Algorithm 2 with Eq. 8, tau = 10, and the last policy as the result."""
    choices = Settings(
        regularizer=VelocityAutoregression(order=10),
        horizon=Horizon(context_lags=10, action_lags=10),
        feedback=SmoothFeedback(exponential()),
        rule=JointRule(),
        step_size=ErrorRatio(),
    )
    return _run(demos, {**choices, **settings}, memory=latest, combine=interpolate)


def searn(demos: Demonstrations | Demonstration, **settings: Unpack[Settings]) -> Run:
    """SEARN (Daume et al. 2009; CPI, Kakade and Langford 2002): expert feedback, stochastic mixing, small fixed steps.

    Its guarantee asks for `OneOverHorizon()`, which hardly moves on long sequences. It starts from the cloned
    policy, as the paper's comparison does.
    """
    choices = Settings(feedback=ExpertFeedback(), step_size=Constant(0.1))
    return _run(demos, {**choices, **settings}, memory=latest, combine=sample)


def smile(demos: Demonstrations | Demonstration, **settings: Unpack[Settings]) -> Run:
    """SMILe (Ross and Bagnell 2010): expert feedback, stochastic mixing with geometrically falling weights.

    Each new policy takes over a share of what the first still has. The first is the cloned policy, since the
    expert of the original cannot be asked to act in a recording.
    """
    choices = Settings(feedback=ExpertFeedback(), step_size=Constant(0.1))
    return _run(demos, {**choices, **settings}, memory=latest, combine=sample_geometric)


def dagger(demos: Demonstrations | Demonstration, **settings: Unpack[Settings]) -> Run:
    """DAgger (Ross et al. 2011): expert feedback, the data of all rounds, the newest policy alone.

    Without an expert to query, the recorded action of the frame stands in for the answer; give
    `feedback=OracleFeedback(...)` where there is one.
    """
    choices = Settings(feedback=ExpertFeedback(), step_size=Constant(1.0))
    return _run(demos, {**choices, **settings}, memory=everything, combine=replace_policy)


def coach(demos: Demonstrations | Demonstration, **settings: Unpack[Settings]) -> Run:
    """Coaching (He et al. 2012): DAgger with smooth feedback, targets within the learner's reach."""
    choices = Settings(feedback=SmoothFeedback(exponential()), step_size=Constant(1.0))
    return _run(demos, {**choices, **settings}, memory=everything, combine=replace_policy)


def clone(demos: Demonstrations | Demonstration, **settings: Unpack[Settings]) -> Run:
    """Behavioural cloning: plain supervised learning on the expert's own states, round 0 of all the others."""
    return _run(demos, {**settings, "n_rounds": 0}, memory=latest, combine=replace_policy)


@dataclass(frozen=True, eq=False)
class Run:
    """The rounds of a run and the policy it chose; prints as a table, one row per round."""

    rounds: tuple[Round, ...]
    interrupted: bool = False  # stopped by Ctrl-C: the rounds there were are kept

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
        """The round with the smallest validation error; the last one (as printed) where there is no validation."""
        if all(math.isnan(r.validation_error) for r in self.rounds):
            return self.rounds[-1]
        return min(self.rounds, key=lambda r: r.validation_error)

    @property
    def policy(self) -> Policy:
        """The policy of the chosen round."""
        return self.chosen.policy

    def __repr__(self) -> str:
        return f"Run({len(self.rounds)} rounds, round {self.chosen.number} chosen)"

    def __str__(self) -> str:
        lines = ["round   beta  sigma   error  roughness  radius  validation"]
        for r in self.rounds:
            cells = (
                cell(r.beta, 5, ".3f"),
                cell(r.sigma, 5, ".3f"),
                cell(math.sqrt(r.error), 6, ".4f"),
                cell(r.roughness, 9, ".3f"),
                cell(r.radius, 6, ".4f"),
                cell(math.sqrt(r.validation_error), 10, ".4f"),
            )
            notes = ("  <- chosen" if r is self.chosen else "") + ("  refused: unstable" if r.diverged else "")
            lines.append(f"{r.number:5d}  {'  '.join(cells)}{notes}")
        lines.append(
            "error, validation: RMSE of roll-outs in standard deviations of the expert's actions; "
            "roughness: 1 is as smooth as the expert"
        )
        if self.interrupted:
            lines.append(f"interrupted after round {self.rounds[-1].number}")
        return "\n".join(lines)


def _run(
    demos: Demonstrations | Demonstration, settings: Mapping[str, Any], *, memory: Memory, combine: Combine
) -> Run:
    """Hold out the validation part, then collect the rounds."""
    demos, choices = Demonstrations.of(demos), dict(settings)
    validation, watch = choices.pop("validation", None), choices.pop("watch", None)
    if isinstance(validation, float | int):
        demos, validation = hold_out(demos, validation, seed=choices.get("seed", 0))
    return Run.of(rounds(demos, validation=validation, memory=memory, combine=combine, **choices), watch)


def hold_out(demos: Demonstrations, share: float, *, seed: int = 0) -> tuple[Demonstrations, Demonstrations]:
    """Split off whole sequences for validation; of a single sequence, the end."""
    share = _checks.number(share, "validation", above=0.0, at_most=1.0)
    if len(demos) > 1:
        return demos.split(share, seed=seed)
    cut = min(max(1, round((1.0 - share) * demos.n_frames)), demos.n_frames - 1)
    if cut < 1:
        raise ArgumentError("validation: one frame cannot be split; give longer demonstrations or validation=None")
    return Demonstrations((demos[0].cut(0, cut),)), Demonstrations((demos[0].cut(cut),))
