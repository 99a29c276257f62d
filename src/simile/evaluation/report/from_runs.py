"""Material from a run, still in memory or as the folder that it left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from simile._common.text import number
from simile.data.demonstrations import Demonstrations
from simile.evaluation.evaluation import POLICY, SIMPLER, Evaluation, evaluate
from simile.evaluation.report.contenders import OTHERS, Path, Step, list_points, table
from simile.evaluation.report.content import Material, describe_data, describe_frontier, gather_facts, list_rounds
from simile.evaluation.report.curves import Curves, DrawnBand
from simile.evaluation.report.from_comparisons import of_data
from simile.evaluation.rivals import HELD
from simile.learning.algorithms import Run
from simile.learning.runs import ALTERNATIVE, RunFolder
from simile.policies.policies import Policy


def of_run(
    run: Run,
    test: Demonstrations,
    evaluation: Evaluation | None,
    title: str,
    subtitle: str,
    repeat: Mapping[str, str] | None,
) -> Material:
    """Roll the policy, and the others that the run made, out over held-out sequences; each once."""
    evaluation = evaluation or evaluate(run.policy, test, baseline=run.baseline)
    if run.alternative is not None:
        evaluation = evaluation.add(SIMPLER, run.alternative)
    return _material(
        evaluation,
        run.policy,
        evaluation.rows(),
        evaluation.verdict.to_dict(),
        path=None if run.frontier is None else Path.roll_out(run.frontier, evaluation),
        rounds=list_rounds(run.rounds),
        chosen=run.chosen.number,
        notes=[*run.notes, *([f"interrupted after round {run.rounds[-1].number}"] if run.interrupted else [])],
        simpler=run.alternative is not None,
        title=title,
        subtitle=subtitle,
        repeat=repeat,
    )


def of_folder(
    folder: RunFolder, demos: Demonstrations | None, trusted: Sequence[str], max_memory: float | None
) -> Material:
    """Roll the policy of a folder out; what else was measured is taken from the run's summary.

    Over other demonstrations than those that the run held out, the rest of the summary is not shown: it was measured
    elsewhere.
    """
    repeat = {"command": folder.command, "python": folder.python, "config": folder.config_text}
    if (compared := folder.comparison()) is not None:
        return of_data(compared, folder.title, repeat)
    policy, summary = folder.policy(trusted, max_memory=max_memory), folder.summary()
    test = folder.demonstrations()[1] if demos is None else demos
    evaluation = evaluate(policy, test, baseline=folder.baseline(trusted, max_memory=max_memory))
    known = {} if summary is None else summary
    if demos is not None and known.get("digest") != test.digest():
        known = {}
    simpler = (folder.path / ALTERNATIVE).exists()
    if simpler:
        evaluation = evaluation.add(SIMPLER, folder.policy(trusted, name=ALTERNATIVE, max_memory=max_memory))
    steps = [
        Step(*(number(one.get(n)) for n in ("smoothness", "lag", "error", "roughness")))
        for one in known.get("path", ())
    ]
    told = folder.rounds() if summary is None else summary.get("rounds", [])
    return _material(
        evaluation,
        policy,
        _known_rows(known) or evaluation.rows(),
        known.get("verdict") or evaluation.verdict.to_dict(),
        path=Path.of(steps) if steps else None,
        rounds=list_rounds([r for r in told if "number" in r]),
        chosen=policy.card.training.get("round") if summary is None else summary.get("chosen_round"),
        new=str(known.get("new", "")),
        notes=["the run has not ended" if summary is None else "", *(summary or {}).get("notes", ())],
        simpler=simpler,
        title=folder.title,
        subtitle="",
        repeat=repeat,
    )


def _material(
    evaluation: Evaluation,
    policy: Policy,
    rows: list[dict[str, Any]],
    verdict: Mapping[str, Any],
    *,
    path: Path | None,
    rounds: list[dict[str, Any]],
    chosen: int | None,
    notes: Sequence[str],
    simpler: bool,
    title: str,
    subtitle: str,
    repeat: Mapping[str, str] | None,
    new: str = "",
) -> Material:
    reference, ours = evaluation.reference, evaluation.entries[0]
    drawn = {one.name: one.rolled for one in evaluation.entries if one.name not in (HELD, SIMPLER)}
    curves = replace(Curves.of(reference, drawn, ours.tally), band=DrawnBand.of(policy, reference))
    rate, actions = curves.demos.rate, curves.demos.action_names
    expected = next((r["validation_error"] for r in rounds if r["number"] == chosen), math.nan)
    paths = [] if path is None or not path.steps else [path.contender(OTHERS, "path", rate)]
    return Material(
        title=title,
        subtitle=subtitle or describe_data(curves, policy, new),
        said=str(verdict["text"]),
        facts=gather_facts(curves, policy, verdict, path=path, expected=expected, simpler=simpler),
        actions=actions,
        curves=curves,
        policy=policy,
        table=table(rows, actions),
        frontier=[*list_points(rows, POLICY), *paths],
        frontier_note=describe_frontier(curves),
        notes=[note for note in notes if note],
        rounds=rounds,
        chosen=chosen,
        repeat=repeat,
    )


def _known_rows(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that a run wrote down, with NaN where JSON has null."""
    return [
        {name: value if isinstance(value, str) else number(value) for name, value in one.items()}
        for one in summary.get("held_out", ())
    ]
