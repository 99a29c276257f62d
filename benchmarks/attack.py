"""Attack `simile` as a stranger would: `python benchmarks/attack.py`, about twenty minutes, on this machine alone.

`simile serve` and `simile studio` are started in processes of their own and attacked one way after the other, by client
code of this program's own: silent and garbage connections, nonsense, floods beside a victim at 60 Hz, jumps of numbers,
overrides out of this world, damaged snapshots, kills, hostile policy files at the start and by hot reload, uploads
that never end, forged headers and log lines, data files in disguise, decompression bombs. Everything is bounded in time
and memory, and goes to 127.0.0.1 only. It ends in a table of attacks, held or broken; the exit status is 1 if one
was broken. Points number what an attack of this kind broke once. Linux only: it reads /proc, and
strangers come from 127.0.0.2.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FrameType

from load.percentiles import table
from raids import doors, floods, pages, policies, streams, tables  # noqa: F401 - they enter their attacks
from raids.raid import ATTACKS, Entry, Raid
from raids.targets import Broken

LONGEST = 300  # seconds of one attack


def main() -> None:
    """Attack, print the table, and leave with the verdict."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--only", action="append", default=[], help="attacks with this in their name, or a point; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="as little of each as still shows something")
    parser.add_argument("--untimed", action="store_true", help="leave out verdicts on time, for a busy machine")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn")
    parser.add_argument("--list", action="store_true", help="list the attacks, and leave")
    options = parser.parse_args()
    chosen = [entry for entry in ATTACKS.values() if _is_chosen(entry, options)]
    if options.list or not chosen:
        print(table("Attacks", ("attack", "point"), [(entry.name, entry.point) for entry in chosen]))
        sys.exit(0 if chosen else 2)
    rows = []
    signal.signal(signal.SIGALRM, _ring)
    with tempfile.TemporaryDirectory() as folder:
        raid = Raid(Path(folder), options.quick, options.seed)
        for i, entry in enumerate(chosen):
            raid.folder = Path(folder) / f"attack-{i}"
            raid.folder.mkdir()
            begin = time.monotonic()
            verdict, said = _try(entry, raid)
            seconds = f"{time.monotonic() - begin:.0f}"
            rows.append([entry.name, entry.point, verdict, seconds, said])
            print(f"{verdict:6}  {entry.name}: {said}", flush=True)
    if raid.floods:
        columns = (
            "victim at 60 Hz, ms",
            *(f"{when} {what}" for when in ("quiet", "flooded") for what in ("p50", "p99", "max")),
        )
        print(table("Floods", columns, raid.floods))
    print(table("Attacks", ("attack", "point", "verdict", "seconds"), [row[:4] for row in rows]))
    broken = [row for row in rows if row[2] != "held"]
    print(f"\n{len(rows) - len(broken)} held, {len(broken)} broken; seed {options.seed}")
    sys.exit(1 if broken else 0)


def _is_chosen(entry: Entry, options: argparse.Namespace) -> bool:
    if options.untimed and entry.timed:
        return False
    points = entry.point.split(", ")
    return not options.only or any(word in (points if word.isdigit() else entry.name) for word in options.only)


def _try(entry: Entry, raid: Raid) -> tuple[str, str]:
    """Attack once; returns the verdict, and what there is to say."""
    signal.alarm(LONGEST)
    try:
        return "held", entry.run(raid)
    except Broken as broken:
        return "BROKEN", _in_one_line(str(broken))
    except Exception as error:  # the attack itself went wrong: nobody knows whether it would have held
        traceback.print_exc()
        return "BROKEN", _in_one_line(f"the attack ended by {type(error).__name__}: {error}")
    finally:
        signal.alarm(0)


def _in_one_line(said: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in said).split())[:400]


def _ring(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise Broken(f"it took longer than {LONGEST} s")


if __name__ == "__main__":
    main()
