"""The choices in which the two readings of Algorithm 2 differ, one by one, and one that the paper leaves open."""

from __future__ import annotations

from collections.abc import Sequence

from simile.experiments.lab import Lab
from simile.experiments.results import Claim
from simile.experiments.statistics import Effect, Row, per_seed, ratios
from simile.learning.training import ImitationRule

OWN, LEAVES = "preset", "leaf values for imitation alone (Eq. 23)"
SPLITS, POSITIONS, SIGMA = "splits by the impurity with h", "h on positions", "sigma falls to 0"
CHOICES = (SPLITS, POSITIONS, SIGMA)  # what is printed; the script has the other in each


def measure(lab: Lab) -> list[Row]:
    """Run with each choice of the other reading, and score it on held-out sequences."""
    runs = {
        OWN: lab.run(),
        SPLITS: lab.run(model=lab.forest(criterion=lab.other["model"].criterion)),
        POSITIONS: lab.run(regularizer=lab.other["regularizer"]),
        SIGMA: lab.run(feedback=lab.other["feedback"]),
        LEAVES: lab.run(rule=ImitationRule()),
    }
    printed = int(lab.reading == "paper")
    return [
        {"seed": lab.seed, "preset_is_printed": printed, "changed": name, **lab.score(run.policy).columns()}
        for name, run in runs.items()
    ]


def judge(rows: Sequence[Row]) -> list[Effect]:
    """Compare what is printed with what the script does, in one choice at a time."""
    printed = bool(rows[0]["preset_is_printed"])

    def against(column: str, name: str) -> tuple[float, ...]:
        changed, own = (per_seed(rows, column, changed=c) for c in (name, OWN))
        return ratios(own, changed) if printed and name != LEAVES else ratios(changed, own)

    texts = {name: f"{name} / as in the script" for name in CHOICES} | {LEAVES: f"{LEAVES} / Eq. 25"}
    return [
        *(
            Effect(f"RMSE, {text}", against("rmse", name), below=1.0 if name == SPLITS else None)
            for name, text in texts.items()
        ),
        *(Effect(f"mean |second difference|, {text}", against("difference_2", name)) for name, text in texts.items()),
    ]


CLAIM = Claim(
    name="choices",
    title="Splitting by the impurity with h, and other choices",
    statement="As with normal decision trees, the best splitting point is chosen as one that maximizes the impurity "
    "reduction [where the impurity includes the distance from h].",
    section="Appendix B, node splitting mechanism",
    method="Runs that differ from the preset in one choice, in which the printed algorithm and the script differ: "
    "printed over script. The paper prints its impurity without saying that it is of use; we ask whether it makes "
    "policies more accurate than splits by the labels alone. The other choices decide nothing.",
    measure=measure,
    judge=judge,
)
