"""What the page is told of a run: the files of its folder, as plain data in the page's words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path as File
from typing import Any

import numpy as np

from simile._common.files import read_stamp
from simile._common.text import number
from simile.errors import SimileError
from simile.evaluation.report.contenders import OTHERS, Path, Step, list_points, table
from simile.evaluation.report.from_comparisons import of_data
from simile.learning.runs import COMPARISON, POLICY, REPORT, ROUNDS, SUMMARY, RunFolder, as_command, as_script
from simile.policies.storage.loading import read_header
from simile.studio.preview import scale_smoothness
from simile.studio.workspace import Data, Job

SQUARED = ("error", "validation_error")  # of a round; the page shows their roots
HIDDEN = ("data", "out", "report", "json", "trust")  # options that the page has no use for
WATCHED = (ROUNDS, POLICY, SUMMARY, COMPARISON, REPORT)


def read_stamps(folder: File) -> tuple[Any, ...]:
    """Return what changes when a run has something new to show."""
    return tuple(read_stamp(folder / name) for name in WATCHED)


def describe_record(job: Job) -> dict[str, Any]:
    """Describe a run of which nothing but its record is known."""
    kept = ("id", "name", "kind", "data", "parent", "status", "error", "started")
    nothing: dict[str, Any] = dict.fromkeys(("smoothness", "summary", "chosen", "verdict", "table", "fits"))
    return {
        **{name: getattr(job, name) for name in kept},
        **nothing,
        "options": {},
        **{name: [] for name in ("rounds", "notes", "contenders_done", "frontier")},
        "seconds": round(job.seconds, 3),
        "contenders_total": 0,
        "has": {"policy": False, "report": False, "court": False},
        "command": "",
        "python": "",
    }


def describe_run(job: Job, folder: File, data: Data | None) -> dict[str, Any]:
    """Describe a run from its folder, as the page has it."""
    run = RunFolder(folder)
    lines = run.rounds()
    summary = run.summary() or {}
    comparison = run.comparison() or {}
    found = summary or comparison
    command, script = write_commands(run, data)
    compared = job.kind == "compare"
    policy = folder / POLICY
    structure = _read_structure(policy)
    rows, frontier = _read_comparison(comparison) if compared else _read_training(summary)
    return {
        **describe_record(job),
        "options": {n: v for n, v in run.config.items() if n not in HIDDEN},
        "smoothness": mean_smoothness(structure),
        "summary": structure.get("summary"),
        "rounds": [] if compared else [_take_roots(line) for line in lines],
        "fits": None if compared else run.fits(),
        "chosen": summary.get("chosen_round"),
        "verdict": comparison.get("said") or (found.get("verdict") or {}).get("text"),
        "notes": list(summary.get("notes", [])),
        "contenders_done": _list_done(lines, comparison) if compared else [],
        "contenders_total": next((line["total"] for line in lines if "total" in line), 0) if compared else 0,
        "table": rows,
        "frontier": frontier,
        "has": {
            "policy": policy.is_file(),
            "report": (folder / REPORT).is_file(),
            "court": policy.is_file() and data is not None and data.kind == "games",
        },
        "command": command,
        "python": script,
    }


def write_commands(run: RunFolder, data: Data | None) -> tuple[str, str]:
    """Return the command and the script that do it again, with the data under the name that the user knows."""
    if data is None:
        return run.command, run.python
    config = {**run.config, "data": name_files(data)}
    config.pop("out", None)
    before = "".join(f"{line}\n" for line in data.origin)
    comment = "".join(f"# {line}\n" for line in data.origin)
    return before + as_command(run.verb, config), comment + as_script(run.verb, config)


def name_files(data: Data) -> list[str]:
    """Return the files of data as the user has them: an upload by its name, others by their paths."""
    if data.origin:
        return ["games.parquet"]
    if data.uploaded:
        return [f"./{data.name}" if data.name.startswith("-") else data.name]
    return data.paths


def write_config(run: RunFolder, data: Data | None) -> str:
    """Return config.toml with the data under the name that the user knows."""
    import tomli_w

    config = {n: v for n, v in run.config.items() if n != "out"}
    return tomli_w.dumps(config if data is None else {**config, "data": name_files(data)})


def read_last_line(log: File) -> str:
    """Return the last line that a run has written, without the name of the program."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 20_000))
            lines = [line for line in map(str.strip, file.read().decode("utf-8", "replace").splitlines()) if line]
    except OSError:
        return ""
    ours = [line for line in lines if line.startswith(("simile: ", "Error: "))]
    last = (ours or lines or [""])[-1]
    return last.removeprefix("simile: ").removeprefix("Error: ")[:2000]


def _read_structure(policy: File) -> dict[str, Any]:
    """Return what a policy is made of, as its file says; nothing where there is none that can be read."""
    if not policy.is_file():
        return {}
    try:
        found: dict[str, Any] = read_header(policy)["structure"]
    except SimileError:
        return {}
    return found


def mean_smoothness(structure: Mapping[str, Any]) -> float | None:
    """Return lambda of a policy, the mean where its actions or parts have their own."""
    found = structure.get("smoothness")
    return None if found is None or found == [] else float(np.mean(found))


def spread_smoothness(policy: File, smoothness: str) -> str:
    """Return what to train at for a slider's lambda: where each action has its own, all change by one factor."""
    structure = _read_structure(policy)
    own = structure.get("smoothness")
    try:
        mean = float(smoothness)
    except ValueError:  # a recipe, which is for all actions as it is
        return smoothness
    if not isinstance(own, list) or np.shape(own) != (structure["actions"],):
        return smoothness
    scaled = scale_smoothness(np.array(own), mean)
    return repr(tuple(scaled.tolist())) if isinstance(scaled, np.ndarray) else smoothness


def _take_roots(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a round with the roots of its squared errors."""
    return {n: math.sqrt(v) if n in SQUARED and v is not None else v for n, v in line.items()}


def _list_done(lines: Sequence[Mapping[str, Any]], comparison: Mapping[str, Any]) -> list[str]:
    """Return the contenders that have had their turn; a line is written when a turn begins."""
    names = [str(line["contender"]) for line in lines if "contender" in line]
    return names if comparison else names[:-1]


def _read_training(summary: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Return the table of a training, and its frontier: the policy, other smoothness as a path, and its rivals."""
    rows = summary.get("held_out", [])
    if not rows:
        return None, []
    actions = [name.removeprefix("rmse ") for name in rows[0] if name.startswith("rmse ")]
    tried = summary.get("path", [])
    steps = [Step(*(number(p.get(n)) for n in ("smoothness", "lag", "error", "roughness"))) for p in tried]
    path = [Path.of(steps).contender(OTHERS, "path", None)] if steps else []
    points = list_points(rows, "policy")
    return table(rows, actions), [*points[:1], *path, *points[1:]]


def _read_comparison(comparison: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Return the table and the frontiers of a comparison."""
    if not comparison:
        return None, []
    material = of_data(comparison, "", None)
    return dict(material.table), [dict(curve) for curve in material.frontier]
