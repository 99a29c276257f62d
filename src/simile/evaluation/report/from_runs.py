"""Material from a run, still in memory or as the folder that it left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from simile._common.text import number
from simile.data.demonstrations import Demonstrations
from simile.errors import ArgumentError
from simile.evaluation.evaluation import POLICY, Evaluation, evaluate
from simile.evaluation.report.contenders import OTHERS, Path, Step, list_points, table
from simile.evaluation.report.content import Material, describe_data, describe_frontier, gather_facts, list_rounds
from simile.evaluation.report.curves import Curves, DrawnBand
from simile.evaluation.report.from_comparisons import of_data
from simile.evaluation.rivals import HELD
from simile.learning.algorithms import Run
from simile.learning.runs import RunFolder
from simile.policies.policies import Policy


def of_run(
    run: Run,
    test: Demonstrations | None,
    evaluation: Evaluation | None,
    title: str,
    subtitle: str,
    repeat: Mapping[str, str] | None,
) -> Material:
    """Roll the policy, and the others that the run made, out over held-out sequences; each once."""
    own = None if run.judged is None else Evaluation.of(run.judged)
    if evaluation is None:
        evaluation = own if test is None else evaluate(run.policy, test, baseline=run.baseline)
    if evaluation is None:
        raise ArgumentError("test must be recordings to judge on: the rounds of Algorithm 1 leave nothing out")
    return _material(
        evaluation,
        run.policy,
        evaluation.rows(),
        evaluation.verdict.to_dict(),
        path=None if run.frontier is None else Path.roll_out(run.frontier, evaluation, own=test is None),
        rounds=list_rounds(run.rounds if not run.mixed else ()),
        mixture=run.mixed,
        chosen=run.chosen.number,
        notes=[*run.notes, *([f"interrupted after round {run.rounds[-1].number}"] if run.interrupted else [])],
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
    judged = folder.judged() if demos is None else None
    known = {} if summary is None else summary
    if judged is not None:
        evaluation = Evaluation.of(judged)
    else:
        learned, held = folder.demonstrations() if demos is None else (demos, demos)
        test = learned if held is None else held  # of a run that has not ended
        evaluation = evaluate(policy, test, baseline=folder.baseline(trusted, max_memory=max_memory))
        if demos is not None and known.get("digest") != test.digest():
            known = {}
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
        rounds=list_rounds([r for r in told if "number" in r and not known.get("mixture")]),
        mixture=(summary or {}).get("mixture", ()),
        chosen=policy.card.training.get("round") if summary is None else summary.get("chosen_round"),
        new=str(known.get("new", "")),
        notes=["the run has not ended" if summary is None else "", *(summary or {}).get("notes", ())],
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
    title: str,
    subtitle: str,
    repeat: Mapping[str, str] | None,
    mixture: Sequence[Mapping[str, Any]],
    new: str = "",
) -> Material:
    reference, ours, judged = evaluation.reference, evaluation.entries[0], evaluation.judged
    drawn = {one.name: one.rolled for one in evaluation.entries if one.name not in (HELD,)}
    curves = replace(
        Curves.of(reference, drawn, ours.tally),
        band=DrawnBand.of(policy, reference, None if judged is None else judged.rolled),
    )
    rate, actions = curves.demos.rate, curves.demos.action_names
    expected = next((r["validation_error"] for r in rounds if r["number"] == chosen), math.nan)
    paths = [] if path is None or not path.steps else [path.contender(OTHERS, "path", rate)]
    return Material(
        title=title,
        subtitle=subtitle or describe_data(curves, policy, new, in_turn=judged is not None),
        mixture=mixture,
        in_turn=judged is not None,
        said=str(verdict["text"]),
        facts=gather_facts(curves, policy, verdict, path=path, expected=expected),
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
