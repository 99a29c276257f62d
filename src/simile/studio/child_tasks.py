"""A look into a data file: which columns it has, and what `simile.read` makes of it; and the next version of a policy.

This runs in a child process (`python -m simile.studio.child_tasks`, a JSON object in, one out): files come from
anybody, and one that takes a decoder, or the memory, down must not take the studio with it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simile._common import memory
from simile._common.needs import tell
from simile.errors import DataError, SimileError

if TYPE_CHECKING:
    from simile.data.corrections import Stretch

PATIENCE = 600.0  # seconds
ROUGHLY = 0.3  # seconds by which the clocks of a service and of its recording may be apart
MOST_COLUMNS, MOST_SEQUENCES = 5000, 500  # shown on the page
KINDS = {
    **dict.fromkeys(("whole numbers", "numbers", "durations", "nothing"), "number"),
    "timestamps": "time",
    "text": "text",
}
READY, CHOOSE, BROKEN = "ready", "choose", "broken"


def look(paths: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    """Read files as `simile.read` does, and return what the page shows of them; errors become sentences.

    Returns
    -------
    dict
        status: "ready"; "choose" where the columns can be seen but not be read as they were chosen; else "broken".
        columns, understood, frames and error as the page has them.
    """
    from simile.data.names import tidy_all
    from simile.data.reading.columns import SINGLE, ReadOptions, choose, shared_columns
    from simile.data.reading.formats import open_tables
    from simile.data.reading.reader import read_all
    from simile.data.reading.repair import Repairs

    found: dict[str, Any] = {"status": BROKEN, "columns": [], "understood": None, "frames": None, "error": None}
    given: Any = paths[0] if len(paths) == 1 else list(paths)
    try:
        how = ReadOptions(**options)
        tables = open_tables(given, repairs=Repairs() if how.repair else None)
        columns = shared_columns(tables)
        shown = tidy_all([c.name for c in columns])
        found |= {
            "status": CHOOSE,
            "columns": [{"name": shown[c.name], "kind": KINDS.get(c.kind, c.kind)} for c in columns[:MOST_COLUMNS]],
        }
        demos, summary = read_all(given, how)
        choice = choose(tables, how, SINGLE)
    except SimileError as error:
        return {**found, "error": str(error)}
    except ModuleNotFoundError as error:
        return {**found, "error": tell(str(error.name), "this file")}
    understood = {
        "summary": str(summary),
        "actions": list(demos.action_names),
        "contexts": list(demos.context_names),
        "sequence": choice.sequence and shown[choice.sequence],
        "group": None if demos.groups is None else demos.group_name,
        "time": choice.time and shown[choice.time],
        "rate": demos.rate,
        "sequences": [{"name": d.name, "frames": len(d)} for d in demos[:MOST_SEQUENCES]],
    }
    return {**found, "status": READY, "understood": understood, "frames": demos.n_frames}


def simulate(folder: str, *, n_games: int, minutes: float, axes: int, sport: str, seed: int) -> dict[str, Any]:
    """Make games, a file each, and games.parquet, the table of their features, in a folder; returns a look into it."""
    from simile.camera.courts import COURTS
    from simile.camera.features import demonstrations
    from simile.camera.simulation import simulate as play
    from simile.camera.tracking.recordings import save_game
    from simile.data.reading import write

    games = play(n_games, minutes=minutes, sport=COURTS[sport], axes=axes, seed=seed)
    for i, game in enumerate(games):
        save_game(game, game_file(Path(folder), i))
    table = Path(folder) / "games.parquet"
    write(demonstrations(games), table)
    return look([str(table)], {})


def improve(
    policy: str, recording: str, paths: Sequence[str], options: dict[str, Any], left_out: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Learn the next version of a policy as `simile improve` does, and keep it as a candidate; returns the verdict.

    Left out are the stretches that `find_left_out` finds.
    """
    from simile.data.corrections import read_corrections
    from simile.data.reading import read
    from simile.evaluation.improvement import improve as learn
    from simile.evaluation.improvement import keep
    from simile.learning.runs import CHECKPOINT
    from simile.policies.ledger import Ledger
    from simile.policies.policies import recorded_names
    from simile.policies.storage.loading import load_own

    try:
        ledger = Ledger(Path(policy))
        ledger.lines()  # a damaged one is told before the work
        against, old, corrections = ledger.at_work, load_own(policy), read_corrections(recording)
        names = find_left_out(corrections.stretches, left_out)
        columns = {"actions": list(old.card.action_names), "contexts": list(recorded_names(old))}
        demos = read(paths[0] if len(paths) == 1 else list(paths), **{**columns, **options}, quiet=True)
        corrections = corrections.without(names) if names else corrections
        found = learn(old, demos, corrections, folder=ledger.folder / CHECKPOINT)
        kept = keep(ledger, found, against, accepted=False)
    except SimileError as error:
        return {"status": "failed", "error": str(error)}
    return {
        "status": "done",
        "error": None,
        "digest": kept.digest,
        "against": against,
        "decision": found.decision.to_dict(),
        "stretches": len(corrections),
        "left_out": len(names),
        "notes": list(found.notes),
    }


def find_left_out(stretches: Sequence[Stretch], left_out: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of the stretches that a page has left out: by their stream, their frames, and when those came.

    Streams of all days have the same names, and count from 0; one may be in the recording as several, of which some
    begin anew.
    """
    names = set()
    for one in left_out:
        stream, first, last = (one[name] for name in ("stream", "first", "last"))
        since, until = one["t"] - ROUGHLY, one["until"] + ROUGHLY
        found = {
            s.name
            for s in stretches
            if s.sequence.rpartition(" ")[0] == stream
            and (s.first <= last and s.last >= first)
            and (s.times[0] <= until and s.times[1] >= since)
        }
        if not found:
            raise DataError(
                f"frames {first} to {last} of {stream} are left out, and the recording has no correction there: take "
                "them in, or record the service that they are of; what was just done is written within a second"
            )
        names |= found
    return sorted(names)


def game_file(folder: Path, number: int) -> Path:
    """Return where a simulated game lies."""
    return folder / f"game-{number:03d}.npz"


async def run_in_child(
    task: str, max_memory: float | None, *, patience: float = PATIENCE, **arguments: Any
) -> dict[str, Any]:
    """Do one of the above in a child process, which may take so many MB of memory."""
    from simile._common.web import RequestError  # here, for the child has no use for a server

    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "simile.studio.child_tasks", task),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    memory.confine(child.pid, memory.read_limit(max_memory))
    try:
        out, _ = await asyncio.wait_for(child.communicate(json.dumps(arguments).encode()), patience)
        answer = json.loads(out)
    except TimeoutError:
        raise RequestError(422, f"this takes longer than {patience / 60:g} minutes: try with less data") from None
    except ValueError:  # it died, and has said nothing
        return {"status": BROKEN, "error": "the file cannot be read: is it whole, and is it small enough for memory?"}
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert isinstance(answer, dict)
    return answer


def main() -> None:
    """Take a task by its name and its arguments from stdin; answer on stdout."""
    given = json.loads(sys.stdin.read())
    tasks: dict[str, Any] = {"look": look, "simulate": simulate, "improve": improve}
    sys.stdout.write(json.dumps(tasks[sys.argv[1]](**given)))


if __name__ == "__main__":
    main()
