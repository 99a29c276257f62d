"""Material from a run, still in memory or as the folder that it left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from simile._common.text import number
from simile._common.typing import Trajectories
from simile.data.demonstrations import Demonstrations
from simile.evaluation.comparison import Judgement, judge, simple_entries
from simile.evaluation.comparison.judgement import rank
from simile.evaluation.comparison.scores import HeldOut
from simile.evaluation.report.contenders import OTHERS, Path, Step, best_simple, list_points, table
from simile.evaluation.report.content import Material, describe_data, describe_frontier, gather_facts, list_rounds
from simile.evaluation.report.curves import Curves, DrawnBand, roll
from simile.evaluation.report.from_comparisons import of_data
from simile.evaluation.rivals import HELD
from simile.learning.algorithms import Run
from simile.learning.runs import ALTERNATIVE, RunFolder
from simile.policies.policies import Policy, given_frames, timing

POLICY, SIMPLER = "policy", "something simpler"


def of_run(
    run: Run,
    test: Demonstrations,
    judgement: Judgement | None,
    title: str,
    subtitle: str,
    repeat: Mapping[str, str] | None,
) -> Material:
    """Roll the policy, and the others that the run made, out over held-out sequences; each once."""
    policy, alternative, frontier = run.policy, run.alternative, run.frontier
    test = test.foretell(timing(policy)[1])
    judgement = judgement or judge({POLICY: (policy, math.nan), **simple_entries(run.rivals)}, test)
    entries = judgement.entries
    policies = [policy, *(p for p in (alternative,) if p is not None), *(e.policy for e in entries)]
    policies += [] if frontier is None else [p.policy for p in frontier.points]
    ruler = HeldOut(test, policy.units.scale, max(map(given_frames, policies)))
    done = _rolled(judgement, ruler)
    name = entries[0].name
    curves = {name: done[name] if name in done and entries[0].policy is policy else roll(policy, test, ruler.begin)}
    rows = judgement.rows()
    simple = best_simple(rows)
    if simple is not None and simple[0] in done:
        curves[simple[0]] = done[simple[0]]
    shown = Curves.of(ruler, curves)
    if alternative is not None and all(e.policy is not alternative for e in entries):
        rows = rank([*rows, ruler.row(SIMPLER, ruler.measure(roll(alternative, test, ruler.begin)))])
    return _material(
        shown,
        policy,
        rows,
        name=name,
        path=None if frontier is None else Path.roll_out(frontier, ruler),
        said=judgement.verdict(),
        rounds=list_rounds(run.rounds),
        chosen=run.chosen.number,
        notes=[*run.notes, *([f"interrupted after round {run.rounds[-1].number}"] if run.interrupted else [])],
        simpler=alternative is not None,
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
    test = (folder.demonstrations()[1] if demos is None else demos).foretell(timing(policy)[1])
    judgement = judge({POLICY: (policy, math.nan)}, test)
    ruler = judgement.ruler
    rolled = judgement.entries[0].rolled
    shown = Curves.of(ruler, {POLICY: roll(policy, test, ruler.begin) if rolled is None else rolled})
    known = {} if summary is None else summary
    if demos is not None and known.get("digest") != test.digest():
        known = {}
    rows = _known_rows(known) or judgement.rows()
    simpler = folder.path / ALTERNATIVE
    if simpler.exists():
        other = folder.policy(trusted, name=ALTERNATIVE, max_memory=max_memory)
        rows = rank([*rows, ruler.row(SIMPLER, ruler.measure(roll(other, test, ruler.begin)))])
    steps = [
        Step(*(number(one.get(n)) for n in ("smoothness", "lag", "error", "roughness")))
        for one in known.get("path", ())
    ]
    told = folder.rounds() if summary is None else summary.get("rounds", [])
    return _material(
        shown,
        policy,
        rows,
        name=POLICY,
        path=Path.of(steps) if steps else None,
        said=known.get("verdict") or judgement.verdict(),
        rounds=list_rounds([r for r in told if "number" in r]),
        chosen=policy.card.training.get("round") if summary is None else summary.get("chosen_round"),
        new=str(known.get("new", "")),
        notes=["the run has not ended" if summary is None else "", *(summary or {}).get("notes", ())],
        simpler=simpler.exists(),
        title=folder.title,
        subtitle="",
        repeat=repeat,
    )


def _material(
    curves: Curves,
    policy: Policy,
    rows: list[dict[str, Any]],
    *,
    name: str,
    path: Path | None,
    said: str,
    rounds: list[dict[str, Any]],
    chosen: int | None,
    notes: Sequence[str],
    simpler: bool,
    title: str,
    subtitle: str,
    repeat: Mapping[str, str] | None,
    new: str = "",
) -> Material:
    curves = replace(curves, band=DrawnBand.of(policy, curves.ruler))
    rate, actions = curves.demos.rate, curves.demos.action_names
    held = next((number(r["error"]) for r in rows if r["name"] == HELD), math.nan)
    expected = next((r["validation_error"] for r in rounds if r["number"] == chosen), math.nan)
    facts = gather_facts(
        curves, policy, held=held, simple=best_simple(rows), path=path, expected=expected, simpler=simpler
    )
    paths = [] if path is None or not path.steps else [path.contender(OTHERS, "path", rate)]
    return Material(
        title=title,
        subtitle=subtitle or describe_data(curves, policy, new),
        verdict=said,
        facts=facts,
        actions=actions,
        curves=curves,
        policy=policy,
        table=table(rows, actions),
        frontier=[*list_points(rows, name), *paths],
        frontier_note=describe_frontier(curves),
        notes=[note for note in notes if note],
        rounds=rounds,
        chosen=chosen,
        repeat=repeat,
    )


def _rolled(judgement: Judgement, ruler: HeldOut) -> dict[str, Trajectories]:
    """Return the roll-outs that a judgement has made already, where they are those of the ruler."""
    if judgement.ruler.demos.items != ruler.demos.items or judgement.ruler.begin != ruler.begin:
        return {}
    return {e.name: e.rolled for e in judgement.entries if e.rolled is not None}


def _known_rows(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that a run wrote down, with NaN where JSON has null."""
    return [
        {name: value if isinstance(value, str) else number(value) for name, value in one.items()}
        for one in summary.get("held_out", ())
    ]
