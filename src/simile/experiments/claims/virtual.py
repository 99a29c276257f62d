"""Section 4: virtual feedback against an expert who is asked in every round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simile._common.typing import Trajectories
from simile.data.tasks import DAMPING, STIFFNESS
from simile.experiments.lab import LITTLE, Lab
from simile.experiments.results import Claim
from simile.experiments.sources import PursuitSource
from simile.experiments.statistics import Effect, Row, per_seed, ratios
from simile.learning.feedback import Seen
from simile.learning.training import ImitationRule

VIRTUAL, ASKED, REACHED = "virtual", "asked", "asked, leaf values for imitation alone"


@dataclass(frozen=True)
class AskOperator:
    """Ask the operator of `tasks.pursuit` what he would do in the learner's states.

    His hand is a damped spring towards an aim that does not depend on the camera. So what he would do after two other
    actions differs from what he did by what the spring makes of their difference, exactly: the aim and the tremor,
    which no recording shows, cancel.
    """

    rate: float

    def __call__(self, seen: Seen) -> Trajectories:
        """Return what he would do after the two actions before."""
        step = 1.0 / self.rate
        first, second = 2.0 - DAMPING * step - STIFFNESS * step**2, DAMPING * step - 1.0
        targets = []
        for rolled, expert in zip(seen.rolled, seen.demos.actions, strict=True):
            off = rolled - expert
            target = expert.copy()
            target[2:] += first * off[1:-1] + second * off[:-2]
            targets.append(target)
        return targets


def measure(lab: Lab) -> list[Row]:
    """Learn from virtual feedback and from answers, on a task whose operator can be asked; none on recordings."""
    if not lab.simulated:
        return []
    train, test = PursuitSource(n_sequences=lab.effort.n_games)(lab.seed)
    task = Lab(lab.seed, train, test, lab.effort, lab.reading)
    assert train.rate is not None
    ask = AskOperator(train.rate)
    runs = {
        VIRTUAL: task.run(),
        ASKED: task.run(feedback=ask),
        REACHED: task.run(feedback=ask, rule=ImitationRule()),
    }
    return [{"seed": lab.seed, "feedback": n, **task.score(run.policy).columns()} for n, run in runs.items()]


def judge(rows: Sequence[Row]) -> list[Effect]:
    """Compare what both lead to."""

    def compared(column: str, other: str) -> tuple[float, ...]:
        return ratios(*(per_seed(rows, column, feedback=f) for f in (VIRTUAL, other)))

    others = {ASKED: "expert asked in every round", REACHED: "the same with Eq. 23"}
    return [
        *(Effect(f"RMSE, virtual feedback / {o}", compared("rmse", n), below=LITTLE) for n, o in others.items()),
        *(Effect(f"mean |second difference|, virtual / {o}", compared("difference_2", n)) for n, o in others.items()),
    ]


CLAIM = Claim(
    name="virtual-expert",
    title="Virtual feedback against an expert who is asked",
    statement="We need not query the expert at every iteration (as done in DAgger). Continuously acquiring expert "
    "demonstrations at every round can be seen as a special case and a more expensive strategy.",
    section="Section 4, feedback generation; Section 3",
    method="On the built-in task `tasks.pursuit`, whose operator is known and so can be asked what he would do in the "
    "learner's own states; people in recordings cannot. Answers ask for small corrections, of which lambda leaves a "
    "small part; so they are tried with the leaf values of Eq. 23, which make up for lambda, too. The claim holds "
    f"where virtual feedback costs less than a tenth of the error ({LITTLE:g}) against both.",
    measure=measure,
    judge=judge,
)
