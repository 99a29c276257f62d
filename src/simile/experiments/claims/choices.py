"""Choices that the paper leaves open or that we make otherwise, each against the default."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simile.experiments.lab import Lab, Training
from simile.experiments.results import Claim
from simile.experiments.statistics import Effect, Row, per_seed, ratios
from simile.learning.training import ImitationRule
from simile.models import Criterion
from simile.models.regularizers import LinearAutoregression

DEFAULT, PRINTED = "default", "impurity with h, as printed"
CHOICES: dict[str, Callable[[Lab], Training]] = {
    DEFAULT: lambda lab: lab.run(),
    PRINTED: lambda lab: lab.run(model=lab.forest(criterion=Criterion.PRINTED)),
    "impurity with h, children added": lambda lab: lab.run(model=lab.forest(criterion=Criterion.SMOOTH)),
    "h on positions": lambda lab: lab.run(regularizer=LinearAutoregression()),
    "leaf values for imitation alone (Eq. 23)": lambda lab: lab.run(rule=ImitationRule()),
    "a third of the features": lambda lab: lab.run(model=lab.forest(max_features=1 / 3)),
}


def measure(lab: Lab) -> list[Row]:
    """Run every choice and score it on held-out sequences."""
    return [{"seed": lab.seed, "choice": name, **lab.score(run(lab).policy).columns()} for name, run in CHOICES.items()]


def judge(rows: Sequence[Row]) -> list[Effect]:
    """Compare every choice with the default."""

    def against(column: str, name: str) -> tuple[float, ...]:
        return ratios(*(per_seed(rows, column, choice=c) for c in (name, DEFAULT)))

    others = [name for name in CHOICES if name != DEFAULT]
    return [
        Effect(f"RMSE, {PRINTED} / labels alone", against("rmse", PRINTED), below=1.0),
        *(Effect(f"RMSE, {name} / default", against("rmse", name)) for name in others if name != PRINTED),
        *(Effect(f"mean |second difference|, {name} / default", against("difference_2", name)) for name in others),
    ]


CLAIM = Claim(
    name="choices",
    title="Splitting by the impurity with h, and other choices",
    statement="As with normal decision trees, the best splitting point is chosen as one that maximizes the impurity "
    "reduction [where the impurity includes the distance from h].",
    section="Appendix B, node splitting mechanism",
    method="Runs that differ from the default in one choice. The paper prints its impurity without saying that it is "
    "of use; we ask whether it makes policies more accurate than splits by the labels alone, our default. The other "
    "choices decide nothing.",
    measure=measure,
    judge=judge,
)
