"""Data files of a careless or hostile author: read as what they are, or refused, but never wrong in silence."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from raids import bombs
from raids.raid import Raid, attack
from raids.targets import Broken, evaluate, run

RATE, FRAMES = 25, 300

READ = """
import contextlib, io, json, sys, warnings
import simile
from simile.errors import SimileError
from simile.data.reading import read
for name, options in json.loads(sys.stdin.read()):
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            demos = read(name, **options)
        print(json.dumps({
            "contexts": list(demos.context_names), "actions": list(demos.action_names), "rate": demos.rate,
            "names": [str(n) for n in demos.names], "frames": [len(d) for d in demos],
            "first": [float(v) for d in demos for v in (*d.contexts[0], *d.actions[0])],
            "last": [float(v) for d in demos for v in (*d.contexts[-1], *d.actions[-1])],
            "said": said.getvalue() + " ".join(str(w.message) for w in told),
        }))
    except SimileError as error:
        print(json.dumps({"refused": str(error)}))
"""


def _row(i: int) -> dict[str, Any]:
    t = i / RATE
    return {
        "a_pan": round(math.sin(t - 0.2), 6),
        "x_ball": round(math.sin(t), 6),
        "z_leak": round(math.cos(t), 6),
        "sequence": "one" if i < FRAMES // 2 else "two",
        "t": round((i % (FRAMES // 2)) / RATE, 6),
    }


ROWS = [_row(i) for i in range(FRAMES)]


def _csv(rows: list[dict[str, Any]], *, separator: str = ",", header: str | None = None) -> str:
    names = separator.join(rows[0]) if header is None else header
    return "\n".join([names, *(separator.join(str(v) for v in row.values()) for row in rows), ""])


def _changed(**changes: Callable[[int, dict[str, Any]], Any]) -> list[dict[str, Any]]:
    return [{**row, **{name: make(i, row) for name, make in changes.items()}} for i, row in enumerate(ROWS)]


def _clocks(form: str, zone: str = "") -> list[dict[str, Any]]:
    texts = [time.strftime(form, time.gmtime(1_717_156_800 + int(row["t"]))) for row in ROWS]
    return [
        {**row, "t": f"{text}.{round(1e6 * (row['t'] % 1)):06d}{zone}"} for row, text in zip(ROWS, texts, strict=True)
    ]


def _with_commas(row: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value).replace(".", ",") for name, value in row.items()}


def _times(factor: float, since: int = 0) -> list[dict[str, Any]]:
    return [{**row, "t": since + round(row["t"] * factor)} for row in ROWS]


SAME: dict[str, str] = {  # must be read as the plain table is, or be refused
    "a header with spaces": _csv(ROWS, header="a_pan, x_ball, z_leak, sequence, t"),
    "a header in capitals": _csv(ROWS, header="a_pan,x_ball,z_leak,Sequence,T"),
    "a header with a byte order mark": "\ufeff" + _csv(ROWS),
    "milliseconds": _csv(_times(1e3)),
    "microseconds": _csv(_times(1e6)),
    "nanoseconds": _csv(_times(1e9)),
    "milliseconds since 1970": _csv(_times(1e3, 1_717_156_800_000)),
    "times of day": _csv(_clocks("%H:%M:%S")),
    "German dates": _csv(_clocks("%d.%m.%Y %H:%M:%S")),
    "ISO with a zone": _csv(_clocks("%Y-%m-%dT%H:%M:%S", "+02:00")),
    "decimal commas": _csv([_with_commas(row) for row in ROWS], separator=";"),
}
BARE = [{"ball": r["x_ball"], "pan": r["a_pan"], "sequence": r["sequence"], "t": r["t"]} for r in ROWS]
INDEX = {  # must not become contexts
    name: _csv([{name: i, **row} for i, row in enumerate(BARE)])
    for name in ("Unnamed: 0", "__index_level_0__", "index", "id")
}
TOLD: dict[str, tuple[str, tuple[str, ...]]] = {  # must be refused, or told in these words
    "labels that differ by blanks": (
        _csv(_changed(sequence=lambda i, row: row["sequence"] + (" " if i % 3 == 0 else ""))),
        ("blank", "space"),
    ),
    "no header": ("\n".join(_csv(BARE).splitlines()[1:]) + "\n", ("header",)),
    "text in the first 600 rows": (
        _csv([{**BARE[i % FRAMES], "t": i / RATE, "sequence": "one",
               "ball": "warming up" if i < 600 else 1.5} for i in range(900)]),
        ("ball",),
    ),
    "a value beyond float": (_csv(_changed(x_ball=lambda i, row: "1e400" if i == 7 else row["x_ball"])), ("row",)),
}  # fmt: skip


def _read_all(raid: Raid, cases: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    asked = []
    for i, (text, options) in enumerate(cases.values()):
        (raid.folder / f"table-{i}.csv").write_text(text, "utf-8")
        asked.append([f"table-{i}.csv", options])
    found = evaluate(READ, raid.folder, stdin=json.dumps(asked).encode(), seconds=60.0)
    return dict(zip(cases, found, strict=True))


@attack("headers, times and decimals", "11, 13")
def disguise(raid: Raid) -> str:
    """Write one table in many ways: each is read as the plain one, or refused."""
    cases: dict[str, tuple[str, dict[str, Any]]] = {name: (text, {}) for name, text in {"": _csv(ROWS), **SAME}.items()}
    found = _read_all(raid, cases)
    plain, wrong, refused = found.pop(""), [], 0
    for name, table in found.items():
        if "refused" in table:
            refused += 1
            continue
        for what in ("contexts", "actions", "names", "frames", "first", "last", "rate"):
            if not _same(table[what], plain[what]):
                wrong.append(f"{name}: {what} {table[what]} instead of {plain[what]}"[:160])
                break
    if wrong:
        raise Broken(f"{len(wrong)} of {len(found)} read wrongly: {'; '.join(wrong)}")
    return f"{len(found)} disguises: {len(found) - refused} read rightly, {refused} refused"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return math.isclose(a, b, rel_tol=1e-3) if isinstance(a, float) and isinstance(b, float) else bool(a == b)


@attack("counters and what is not said", "13")
def hide(raid: Raid) -> str:
    """Add counters, mix labels, leave the header out: told, refused or left out, never taken in silence."""
    cases: dict[str, tuple[str, dict[str, Any]]] = {name: (text, {"actions": "pan"}) for name, text in INDEX.items()}
    cases |= {name: (text, {} if "a_pan" in text else {"actions": "pan"}) for name, (text, _) in TOLD.items()}
    found, wrong = _read_all(raid, cases), []
    for name, table in found.items():
        if "refused" in table:
            continue
        if name in INDEX and table["contexts"] != ["ball"]:
            wrong.append(f"{name!r} becomes one of {table['contexts']}")
        if name in TOLD and not any(word in table["said"].lower() for word in TOLD[name][1]):
            wrong.append(f"{name} is not told")
    if wrong:
        raise Broken("; ".join(wrong))
    return f"{len(found)} tables"


@attack("contexts with a large offset", "12")
def move(raid: Raid) -> str:
    """Train on contexts far from zero: the error is that of the same data near zero."""
    offsets = [0.0, 5.4e6, 1e9] if raid.quick else [0.0, 5.4e6, 1e9, 1e12]
    program = f"""
import json, numpy as np, simile
rng = np.random.default_rng(0)
t = np.arange(400) / 25.0
for offset in {offsets}:
    pairs = []
    for i in range(4):
        x = np.sin(t * (1 + 0.1 * i) + i)[:, None] + 0.3 * np.cos(2.3 * t + i)[:, None]
        pairs.append((x, np.roll(x[:, 0], 3)[:, None]))
    demos = simile.Demonstrations.of([simile.Demonstration(x + offset, a) for x, a in pairs])
    policy = simile.clone(demos[:3], model=simile.SmoothForest(n_trees=10), smoothness=1.0).policy
    from simile.policies.rollouts import rollout
    rolled = rollout(policy, demos[3])
    error = float(np.sqrt(np.mean((np.concatenate(rolled) - demos[3].actions) ** 2)) / np.std(demos[3].actions))
    print(json.dumps(error))
"""
    errors = evaluate(program, raid.folder, seconds=100.0)
    said = ", ".join(f"{offset:g}: {error:.3f} sd" for offset, error in zip(offsets, errors, strict=True))
    if max(errors) > 1.2 * errors[0] + 0.02:
        raise Broken(said)
    return said


@attack("lines into simile run", "14")
def feed(raid: Raid) -> str:
    """Feed `simile run` lines that no sensor should send: one bad line costs that line."""
    names = ",".join(f"player{i}" for i in range(6))
    good = "0.5,-1,2,0.25,3.5,-2"
    bad = {
        "a stray CR": good.replace(",", "\r,", 1),
        "a field of 128 kB": "1" * 140_000 + ",-1,2,0.25,3.5,-2",
        "a quoted field of 140 kB": '"' + "x" * 140_000 + '",-1,2,0.25,3.5,-2',
        "an integer of 400 digits": "9" * 400 + ",-1,2,0.25,3.5,-2",
        "an integer of 5000 digits": "9" * 5000 + ",-1,2,0.25,3.5,-2",
        "an open quote": '"0.5,-1,2,0.25,3.5,-2',
        "a NUL": "\0,-1,2,0.25,3.5,-2",
    }
    said = []
    for name, line in list(bad.items())[: raid.amount(len(bad), 2)]:
        text = "\n".join([names, good, good, line, good, good, ""])
        _feed(raid, name, text, [], said, answers=5)
    rows = [json.dumps({f"player{i}": 1.0 for i in range(6)})] * 5
    deep = '{"player0": ' + "[" * 100_000 + "]" * 100_000 + "}"
    digits = json.dumps({f"player{i}": 1 for i in range(6)}).replace("1", "9" * 5000, 1)
    for name, line in {"deep nesting": deep, "5000 digits in JSON": digits}.items():
        if raid.quick and name != "deep nesting":
            continue
        _feed(raid, name, "\n".join([*rows[:2], line, *rows[2:], ""]), [], said, answers=6)
    times = ("1e300",) if raid.quick else ("1e300", "-1e300", "nan")
    for name, when in {f"a time of {when}": when for when in times}.items():
        rows = [f"{good},{t}" for t in ("0.0", "0.0333", when, "0.0667", "0.1")]
        text = "\n".join([f"{names},t", *rows, ""])
        _feed(raid, name, text, ["--time", "t"], said, answers=5)
    return f"{len(said)} kinds of bad lines, bridged and told"


def _feed(raid: Raid, name: str, text: str, options: list[str], said: list[str], answers: int) -> None:
    try:
        found = run(["run", str(raid.policy), *options], raid.folder, stdin=text.encode(), seconds=60.0)
        found.check(seconds=60.0, memory=900.0)
        lines = [line for line in found.out.splitlines() if line.strip() and line.strip() != "pan"]
        if not answers <= len(lines) + 1 <= answers + 2:
            raise Broken(f"{len(lines)} answers to {answers} lines; exit code {found.code}: {found.said[-200:]}")
    except Broken as broken:
        raise Broken(f"{name}: {broken}") from None
    said.append(name)


@attack("decompression bombs on the command line", "15")
def bomb(raid: Raid) -> str:
    """Train on small files that become large: they are refused with numbers, before they fill the memory."""
    said = []
    for name, make in bombs.BOMBS.items():
        file = raid.folder / name
        file.write_bytes(make(raid.amount(2_000, 800)))
        command = ["train", str(file), "--out", str(raid.folder / "never"), "--max-memory", bombs.MAX_MEMORY]
        found = run(command, raid.folder, seconds=90.0)
        try:
            if "No such option" in found.said:
                raise Broken("there is no --max-memory")
            found.check(seconds=90.0, memory=1_500.0)
            if found.code == 0:
                raise Broken("it was trained on")
        except Broken as broken:
            raise Broken(f"{name} of {file.stat().st_size / 1e6:.1f} MB: {broken}") from None
        said.append(f"{name} {found.memory:.0f} MB")
    return ", ".join(said)


@attack("Parquet with 16,000 columns", "15", timed=True)
def widen(raid: Raid) -> str:
    """Read a very wide table, in time that grows with its width and not with its square."""
    program = """
import json, time, pyarrow as pa, pyarrow.parquet as pq
from simile.data.reading import read
taken = []
for n in (4_000, 16_000):
    names = ["a_pan", *(f"x_{i}" for i in range(n))]
    pq.write_table(pa.table({name: [0.0, 1.0, 2.0] for name in names}), "wide.parquet")
    begin = time.perf_counter()
    read("wide.parquet", quiet=True)
    taken.append(time.perf_counter() - begin)
print(json.dumps(taken))
"""
    small, large = evaluate(program, raid.folder, seconds=100.0)[0]
    if large > 8.0 * small and large > 5.0:
        raise Broken(f"{small:.1f} s for 4,000 columns, {large:.1f} s for 16,000")
    return f"{small:.1f} s for 4,000 columns, {large:.1f} s for 16,000"


@attack("a FIFO as input", "15")
def block(raid: Raid) -> str:
    """Let a command read from a pipe that nobody writes to: it is refused, or ends on SIGTERM."""
    pipe = raid.folder / "pipe.csv"
    os.mkfifo(pipe)
    child = subprocess.Popen(
        [sys.executable, "-m", "simile", "train", str(pipe), "--out", str(raid.folder / "never")],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(raid.amount(8, 5))
        if child.poll() is not None:
            said = child.stderr.read() if child.stderr else ""
            if child.returncode == 0 or "Traceback" in said:
                raise Broken(f"exit code {child.returncode}: {said[-300:]}")
            return "refused"
        child.terminate()
        try:
            child.wait(5.0)
        except subprocess.TimeoutExpired:
            raise Broken("it does not end on SIGTERM") from None
        return "ended on SIGTERM"
    finally:
        child.kill()
        child.wait()
        if child.stderr:
            child.stderr.close()
