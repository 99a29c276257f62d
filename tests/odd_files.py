"""Odd files, made from clean ones: what loggers, spreadsheets and people do to recordings, and what is to come of it.

Every kind of damage makes an odd file of clean recordings of a plant, and says which outcomes are right: it is read as
if it were clean, a note tells it, or it is refused, in words that name what is odd.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd

import simile
from plants import CAMERA, CRANE, N_RECORDINGS, PLANTS, Plant, Rows, delay, jitter

RIGHT, TOLD, REFUSED = "read rightly", "told", "refused"  # what may be expected
SILENT, UNNAMED, LEAKED, BROKEN = "silent", "refused, unnamed", "leaks", "breaks down"  # what may be seen besides


@dataclass(frozen=True)
class Odd:
    """An odd file, how it would plainly be read, and what it holds.

    Attributes
    ----------
    truth : DataFrame or None
        What is read if it is read rightly, as a clean frame; None where nothing read from it is right.
    rate : float or None
        Hz that are right; None if any are.
    columns : mapping
        Contexts that clean recordings lack or hold otherwise, as functions of the columns of one.
    answer : callable
        Turns the actions of a policy that learned from it into those of clean recordings.
    hidden : str
        A secret that must not be in any message.
    """

    source: Any
    options: dict[str, Any]
    truth: pd.DataFrame | None = None
    rate: float | None = None
    columns: Mapping[str, Callable[[Rows], np.ndarray]] = field(default_factory=dict)
    answer: Callable[[np.ndarray], np.ndarray] = lambda a: a
    read: Callable[..., simile.Demonstrations] = simile.read
    hidden: str = ""


@dataclass
class Clean:
    """Clean recordings of a plant, chance, and a folder of its own for what is made of them."""

    plant: Plant
    frame: pd.DataFrame
    rng: np.random.Generator
    folder: Path

    def save(self, frame: pd.DataFrame, edit: Callable[[str], str | bytes] = str, **about: Any) -> Odd:
        """Write a frame as CSV, whose text may be edited; `about` is for `Odd`, and more options of `read`."""
        text = edit(frame.to_csv(index=False))
        (self.folder / "data.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
        return self.tell(self.folder / "data.csv", **about)

    def save_each(self, frame: pd.DataFrame, **about: Any) -> Odd:
        """Write a frame as a folder of one CSV file for each recording."""
        for label, rows in frame.groupby("sequence", sort=False):
            rows.drop(columns="sequence").to_csv(self.folder / f"g{label}.csv", index=False)
        return self.tell(self.folder, **about)

    def tell(self, source: Any, *, options: Mapping[str, Any] | None = None, **about: Any) -> Odd:
        """Return what is to be read by the name of the action."""
        return Odd(source, {"actions": self.plant.action, **(options or {})}, **{"rate": self.plant.rate, **about})

    def draw_labels(self, n: int) -> list[Any]:
        """Draw some recordings."""
        return self.rng.choice(self.frame["sequence"].unique(), n, replace=False).tolist()

    def change_clock(self, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the times, changed recording by recording."""
        return np.concatenate([change(rows["t"]) for rows in self.plant.take(self.frame)])


@dataclass(frozen=True)
class Kind:
    """One kind of damage: which plants it may befall, what is right to come of it, and what a message must say.

    `says` are regular expressions, all of which one sentence must match, with {action}, {context} (the main one) and
    {signed} of the plant; `effect`: what is added follows from the action; `mild`: `repair=True` must mend it.
    """

    name: str
    about: str
    make: Callable[[Clean], Odd | pd.DataFrame]
    says: tuple[str, ...]
    expected: frozenset[str] = frozenset((TOLD, REFUSED))
    plants: tuple[Plant, ...] = PLANTS
    effect: bool = False
    mild: bool = False

    def spoil(self, plant: Plant, frame: pd.DataFrame, rng: np.random.Generator, folder: Path) -> Odd:
        """Make the odd file of a clean frame, in an empty folder."""
        clean = Clean(plant, frame.copy(), rng, folder)
        made = self.make(clean)
        return clean.save(made) if isinstance(made, pd.DataFrame) else made


KINDS: dict[str, Kind] = {}


def add(name: str, about: str, make: Callable[[Clean], Odd | pd.DataFrame], *says: str, **more: Any) -> None:
    """Add a kind."""
    assert name not in KINDS, name
    KINDS[name] = Kind(name, about, make, says, **more)


def list_cases() -> Iterator[tuple[Kind, Plant]]:
    """Return every kind with every plant that it may befall."""
    return ((kind, plant) for kind in KINDS.values() for plant in kind.plants)


# -------------------------------------------------------------------------------------------------- what comes of them


@dataclass(frozen=True)
class Seen:
    """What came of reading: the outcome, everything that was told, and the demonstrations if there are any."""

    outcome: str
    told: tuple[str, ...]
    demos: simile.Demonstrations | None = None


def look(kind: Kind, plant: Plant, odd: Odd, more: Sequence[str] = (), **options: Any) -> Seen:
    """Read an odd file and name the outcome; `more` are sentences that were said later, while learning."""
    demos, stderr = None, io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            demos = odd.read(odd.source, **{**odd.options, **options})
    except simile.SimileError as error:
        told, outcome = [str(error)], REFUSED
    except Exception as error:
        told, outcome = [f"{type(error).__name__}: {error}"], BROKEN
    else:
        told = [*list_notes(stderr.getvalue()), *(str(w.message) for w in warned), *more]
        outcome = RIGHT if is_right(plant, odd, demos) else SILENT
    if odd.hidden and odd.hidden in " ".join([stderr.getvalue(), *told]):
        return Seen(LEAKED, tuple(told), demos)
    names = {"action": plant.action, "context": plant.main, "signed": plant.signed}
    words = [word.format(**names) for word in kind.says]
    if any(all(re.search(w, text, re.IGNORECASE) for w in words) for text in told):
        outcome = TOLD if outcome == SILENT else outcome
    elif outcome == REFUSED:
        outcome = UNNAMED
    return Seen(outcome, tuple(told), demos)


def list_notes(text: str) -> list[str]:
    """Return the notes among what `read` prints."""
    return re.findall(r"^\s*note:?\s+(.*)$", text, re.MULTILINE)


def is_right(plant: Plant, odd: Odd, demos: simile.Demonstrations) -> bool:
    """Tell whether what was read is what the file holds."""
    if odd.truth is None or demos.action_names != (plant.action,) or set(demos.context_names) != set(plant.contexts):
        return False
    if odd.rate is not None and (demos.rate is None or abs(demos.rate / odd.rate - 1.0) > 0.01):
        return False
    wanted = [rows[[*demos.context_names, plant.action]] for _, rows in odd.truth.groupby("sequence", sort=False)]
    if [len(d) for d in demos] != list(map(len, wanted)):
        return False
    read = np.concatenate([np.column_stack([d.contexts, d.actions]) for d in demos])
    return np.allclose(read, np.concatenate(wanted).astype(float), rtol=1e-6, atol=1e-6, equal_nan=True)


# ------------------------------------------------------------------------------------------------------- codes, values

ANY = {"expected": frozenset((RIGHT, TOLD, REFUSED))}
REFUSE = {"expected": frozenset((REFUSED,))}
MEND = {**ANY, "mild": True}
PAN = {"plants": (CAMERA,)}


def write_code(clean: Clean, *, of: str, code: float, share: float) -> Odd:
    column = clean.plant.action if of == "action" else clean.plant.main
    rows, values = clean.rng.random(len(clean.frame)) < share, clean.frame[column]
    missing = clean.frame.assign(**{column: values.mask(rows)}) if of == "context" else None
    return clean.save(clean.frame.assign(**{column: values.mask(rows, code)}), truth=missing)


for code in (-999, 9999):
    make = partial(write_code, of="action", code=float(code), share=0.02)
    add(f"action_code_{code}", f"2 % of the actions are {code}", make, "{action}", str(code))
for code in (-999, 9999, 65535, 1e30):
    make = partial(write_code, of="context", code=code, share=0.05)
    add(f"context_code_{code:g}".replace("+", ""), f"5 % of a context are {code:g}", make, "{context}", r"\d", **ANY)
for of, code in (("action", 1e155), ("context", 1e300)):
    make = partial(write_code, of=of, code=code, share=0.0005)
    add(f"{of}_{code:g}".replace("+", ""), "a few values are beyond all use", make, f"{{{of}}}", r"\d", **ANY)


def change(clean: Clean, *, of: str, n: int, by: Callable[[np.ndarray, Any], np.ndarray]) -> pd.DataFrame:
    """Change a column in some recordings: by a function of its values there and a generator."""
    frame, column = clean.frame, clean.plant.action if of == "action" else clean.plant.main
    for label in clean.draw_labels(n):
        rows = frame["sequence"] == label
        frame.loc[rows, column] = by(frame.loc[rows, column].to_numpy(float), clean.rng)
    return frame


def freeze(x: np.ndarray, rng: Any) -> np.ndarray:
    """Return a sensor that sticks after a tenth of a recording."""
    return np.where(np.arange(len(x)) < len(x) // 10, x, x[len(x) // 10])


def wrap(x: Any, around: float, low: float = 0.0) -> Any:
    """Bring values into one turn."""
    return (x - low) % around + low


ALL, HALF = N_RECORDINGS, N_RECORDINGS // 2
for name, about, of, n, by in (
    ("pan_wraps_180_in_one", "-180 follows on 180 in one recording", "action", 1, lambda a, r: wrap(a, 360.0, -180.0)),
    ("radians_in_two", "two recordings are in radians", "action", 2, lambda a, r: np.radians(a).round(5)),
    ("offset_differs_by_recording", "0 drifts", "action", ALL, lambda a, r: (a + a.std() * r.normal(0, 1.5)).round(3)),
    ("factor_1000_in_one", "one recording is in thousandths", "action", 1, lambda a, r: 1000.0 * a),
    ("action_sign_flipped_in_two", "the other way is up", "action", 2, lambda a, r: -a),
    ("context_sign_flipped_in_two", "the other way is up", "context", 2, lambda x, r: -x),
    ("context_mm_in_two", "millimetres for metres", "context", 2, lambda x, r: 1000.0 * x),
    ("context_feet_in_two", "feet for metres", "context", 2, lambda x, r: (3.28084 * x).round(3)),
    ("sensor_frozen_all", "a sensor sticks in all recordings", "context", ALL, freeze),
    ("sensor_frozen_half", "a sensor sticks in half of the recordings", "context", HALF, freeze),
    ("sensor_frozen_one", "a sensor sticks in one recording", "context", 1, freeze),
    ("action_clock_late_in_two", "the action comes 15 frames late", "action", 2, lambda a, r: delay(a, 15)),
    ("action_clock_early_in_two", "the action comes early", "action", 2, lambda a, r: delay(a[::-1], 15)[::-1]),
    ("context_clock_late_in_two", "a context comes 15 frames late", "context", 2, lambda x, r: delay(x, 15)),
):
    more = PAN if name.startswith(("pan", "radians")) else {}
    add(name, about, partial(change, of=of, n=n, by=by), f"{{{of}}}", **more)


def wrap_all(clean: Clean, *, turn: float) -> Odd:
    """Let the pan go round in every recording, with 0 in the middle of what is filmed."""
    unit = 360.0 / turn
    frame = clean.frame.assign(pan=wrap((clean.frame["pan"] - 165.0) / unit, turn).round(5))
    return clean.save(frame, answer=lambda a: wrap(a * unit, 360.0, -180.0) + 165.0)


def wrap_counts(clean: Clean) -> Odd:
    """Let an encoder of 16 bits count the main context."""
    name, size = clean.plant.main, 40_000.0 / clean.frame[clean.plant.main].abs().max()
    columns = {name: lambda rows: wrap(np.round(size * rows[name]), 65536.0)}
    return clean.save(clean.frame.assign(**{name: columns[name](clean.frame).astype(int)}), columns=columns)


add("pan_wraps_360", "0 follows on 360", partial(wrap_all, turn=360.0), "{action}", "360|wrap|turn", **PAN)
add("pan_wraps_2pi", "0 follows on 2 pi", partial(wrap_all, turn=2.0 * np.pi), "{action}", "pi|6.28|wrap|turn", **PAN)
add("context_wraps_65536", "a counter runs over", wrap_counts, "{context}", "65.?53|wrap", plants=(CAMERA, CRANE))

# ------------------------------------------------------------------------------------------------------- rows too many


def write_thousands(clean: Clean) -> Odd:
    """Write whole numbers of around a thousand with points between the thousands, as spreadsheets do in many places."""
    plant, frame = clean.plant, clean.frame.drop(columns="t")
    sizes = {c: 1000.0 / frame[c].abs().median() for c in (*plant.contexts, plant.action)}
    frame = frame.assign(**{c: [f"{round(s * v):,}".replace(",", ".") for v in frame[c]] for c, s in sizes.items()})
    columns = {c: partial(lambda c, rows: np.round(sizes[c] * rows[c]), c) for c in plant.contexts}
    about = {"columns": columns, "answer": lambda a: a / sizes[plant.action], "options": {"rate": plant.rate}}
    return clean.save(frame, lambda text: text.replace(",", ";"), **about)


def write_twice(clean: Clean) -> Odd:
    frame = clean.frame.loc[clean.frame.index.repeat(2)].drop(columns="t")
    return clean.save(frame, truth=clean.frame, options={"rate": clean.plant.rate})


def add_summary(clean: Clean, *, how: str) -> Odd:
    """Put the sum or the mean of every column below the last row."""
    last = clean.frame.agg(how).to_frame().T.assign(sequence=clean.frame["sequence"].iloc[-1])
    last["t"] = np.maximum(last["t"], clean.frame["t"].iloc[-1] + 1.0 / clean.plant.rate)
    return clean.save(pd.concat([clean.frame, last]), truth=clean.frame)


def repeat_recording(clean: Clean) -> Odd:
    again = clean.frame[clean.frame["sequence"] == 3].assign(sequence=9)
    return clean.save(pd.concat([clean.frame, again]), truth=clean.frame)


def copy_file(clean: Clean) -> Odd:
    made = clean.save_each(clean.frame, truth=clean.frame)
    shutil.copy(clean.folder / "g1.csv", clean.folder / "g1 (copy).csv")
    return made


add("thousands_points", "1.234 is 1234", write_thousands, "thousand|1.?000")
add("every_row_twice", "every row stands there twice", write_twice, "twice|double|duplicate|repeat", **ANY)
add("totals_row", "the last row is the sum", partial(add_summary, how="sum"), r"last row|\bsum|total", **ANY)
add("means_row", "the last row is the mean", partial(add_summary, how="mean"), r"last row|\bmean\b|average", **ANY)
add("recording_twice", "a recording stands there twice", repeat_recording, "copy|twice|same", "9", **ANY)
add("file_copied_in_folder", "g1.csv and g1 (copy).csv", copy_file, r"g1 \(copy\)", **ANY)

# -------------------------------------------------------------------------------------- copies, effects of the action


def add_column(clean: Clean, name: str, f: Callable[[Rows], np.ndarray]) -> Odd:
    """Put a column before the action."""
    rows = clean.plant.take(clean.frame, {name: f})
    clean.frame.insert(len(clean.frame.columns) - 1, name, np.concatenate([r[name] for r in rows]))
    return clean.save(clean.frame, columns={name: f})


def add_copy(clean: Clean, *, ending: str, of: Callable[[np.ndarray], np.ndarray]) -> Odd:
    action = clean.plant.action
    return add_column(clean, f"{action}{ending}" if ending[0] in "._" else ending, lambda rows: of(rows[action]))


def add_effect(clean: Clean, *, of: str) -> Odd:
    name, f = clean.plant.effects[of]
    return add_column(clean, name, lambda rows: f(rows).round(4))


COPY = r"cop(y|ies)\b|follows?|same|derivative|integral|\bpast\b|comes? (back|from)"
for name, ending, of in (
    ("exact", ".1", lambda a: a),
    ("scaled", "_rad", lambda a: np.radians(a).round(6)),
    ("affine", "_free", lambda a: 100.0 - a),
    ("rounded", "_shown", lambda a: a.round(1)),
    ("noisy", "_meas", lambda a: jitter(a, 0.02 + 0.01 * np.abs(a).mean()).round(3)),
    ("shifted", "_sent", lambda a: delay(a, 2)),
    ("ahead", "_wish", lambda a: delay(a[::-1], 2)[::-1]),
    ("differentiated", "_speed", lambda a: np.diff(a, prepend=a[0]).round(4)),
    ("integrated", "_total", lambda a: np.cumsum(a).round(3)),
    ("under_other_name", "tally", lambda a: a),
    ("scaled_under_other_name", "ch7", lambda a: (2047.5 + 8.0 * a).round(1)),
):
    make, word = partial(add_copy, ending=ending, of=of), f"{{action}}{ending}" if ending[0] in "._" else ending
    add(
        f"action_copy_{name}",
        f"{name.replace('_', ' ')} copy of the action as a context",
        make,
        word,
        COPY,
        effect=True,
    )
for of in ("feedback", "position", "error"):
    words = "|".join(plant.effects[of][0] for plant in PLANTS)
    add(f"effect_{of}", f"the action's {of} as a context", partial(add_effect, of=of), words, COPY, effect=True)

# ----------------------------------------------------------------------------------------------------------- sequences


def name_labels(clean: Clean, *, called: str, labels: Callable[[int], Any]) -> Odd:
    """Call the sequences otherwise, and leave the clock out."""
    frame = clean.frame.drop(columns=["sequence", "t"])
    frame.insert(0, called, clean.frame["sequence"].map(labels))
    columns = {called: lambda rows: np.full(len(rows["t"]), float(frame[called].iloc[-1]))}
    return clean.save(frame, truth=clean.frame, rate=None, columns={} if called == "sequence" else columns)


def reuse_labels(clean: Clean) -> Odd:
    """Use labels again an hour later, by a clock that goes on."""
    frame, label = clean.frame, clean.frame["sequence"]
    return clean.save(frame.assign(t=frame["t"] + 3600.0 * label, sequence=(label - 1) % 4 + 1), truth=frame)


for called, first in (
    *(("session", 1), ("clip", 100), ("take", 1), ("video", 3001)),
    *(("match", 2417), ("day", 20240511), ("recording", 1), ("rec", 0)),
):
    make = partial(name_labels, called=called, labels=partial(int.__add__, first))
    add(
        f"sequences_called_{called}",
        "labels are numbers, and there is no clock",
        make,
        rf"\b{called}\b",
        "sequence|recording",
        **ANY,
    )
make = partial(name_labels, called="sequence", labels=lambda i: f"{202405310000 + i:.5E}")
add("labels_rounded", "202405310001 is 2.02405E+11", make, "sequence|label", r"round|E\+11|same")
make = partial(name_labels, called="sequence", labels=lambda i: (i - 1) % 4 + 1)
add("label_used_again", "labels begin anew further down", make, "sequence|label", "again|further down|twice", **ANY)
add("label_used_again_later", "labels begin anew an hour later", reuse_labels, "again|gap|jump|longest", **ANY)

# -------------------------------------------------------------------------------------------------------------- clocks


def name_clock(clean: Clean, *, called: str, of: Callable[[np.ndarray], np.ndarray]) -> Odd:
    frame = clean.frame.rename(columns={"t": called}).assign(**{called: clean.change_clock(of)})
    return clean.save(frame, truth=clean.frame, columns={called: lambda rows: of(rows["t"])})


def change_clock(clean: Clean, *, of: Callable[[np.ndarray], np.ndarray], rate: float | None = None) -> Odd:
    frame, about = clean.frame.assign(t=clean.change_clock(of)), {"rate": rate or clean.plant.rate}
    return clean.save(frame, truth=clean.frame, columns={"t": lambda rows: of(rows["t"])}, **about)


def index_by_dates(clean: Clean, *, read: Callable[..., simile.Demonstrations]) -> Odd:
    seconds = pd.to_timedelta(clean.frame["t"] + 600.0 * clean.frame["sequence"], "s")
    frame = clean.frame.drop(columns="t").set_index(pd.Timestamp("2024-05-31 12:00") + seconds)
    return clean.tell(frame, options={"sequence": "sequence"}, truth=clean.frame, read=read)


def lose_frames(clean: Clean, n: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Lose frames in the middle of three recordings; return what is left, and that as recordings of their own."""
    parts, left, paused = [], [], clean.draw_labels(3)
    for label, rows in clean.frame.groupby("sequence"):
        cuts = (len(rows) // 2, len(rows) // 2 + n) if label in paused else (0, 0)
        halves = [half for half in (rows[: cuts[0]], rows[cuts[1] :]) if len(half)]
        left += halves
        parts += [half.assign(sequence=f"{label}/{i}") for i, half in enumerate(halves)]
    return pd.concat(left), pd.concat(parts)


def resample_pause(clean: Clean) -> Odd:
    left, truth = lose_frames(clean, 150)
    return clean.save(left, truth=truth, options={"resample": clean.plant.rate})


def rewrite_clock(clean: Clean) -> Odd:
    """Rewrite the clock where frames are lost, and leave their numbers."""
    clean.frame.insert(2, "frame", clean.frame.groupby("sequence").cumcount())
    left, truth = lose_frames(clean, 40)
    t = (left.groupby("sequence").cumcount() / clean.plant.rate).round(4)
    return clean.save(left.assign(t=t), truth=truth, columns={"frame": lambda rows: np.arange(float(len(rows["t"])))})


CLOCK = r"clock|times?\b|second|minute"
for called in ("ts", "elapsed", "sim_time", "stamp", "epoch", "header.stamp"):
    zero = 1717156801.25 if called in ("stamp", "epoch", "header.stamp") else 0.0
    make = partial(name_clock, called=called, of=partial(np.add, zero))
    add(f"clock_called_{called}", "a clock in seconds", make, re.escape(called), CLOCK, **ANY)
make = partial(name_clock, called="time_min", of=lambda t: (t / 60.0).round(7))
add("clock_called_time_min", "a clock in minutes", make, "time_min", CLOCK, **ANY)
for name, of in (
    ("t_empty", lambda t: t * np.nan),
    ("t_in_minutes", lambda t: (t / 60.0).round(8)),
    ("t_in_hours", lambda t: (t / 3600.0).round(10)),
    ("t_in_excel_days", lambda t: 45443.5 + t / 86400.0),
):
    make = partial(change_clock, of=of)
    add(name, name.replace("_", " "), make, r"\bt\b", "unit|second|empty|minute|hour|day", **ANY)
make = partial(change_clock, of=lambda t: (np.arange(len(t)) * 25.0 / 3.0).round(2), rate=120.0)
add("t_in_steps_of_8.33_ms", "t counts milliseconds at 120 Hz", make, r"\bt\b", "unit|millisecond", **ANY)
for name, door in {"read": simile.read, "from_frame": simile.Demonstrations.from_frame}.items():
    make = partial(index_by_dates, read=door)
    add(f"datetime_index_{name}", "the clock is the index", make, "index", expected=frozenset((RIGHT, TOLD)))
add("pause_resampled", "resample= across a pause", resample_pause, "resampl|pause|gap|invent", **ANY)
add("frames_lost_clock_rewritten", "frame numbers jump, t does not", rewrite_clock, r"\bframe", **ANY)

# ------------------------------------------------------------------------------------------------- texts, whole formats


def write_text(clean: Clean, *, text: str) -> Odd:
    """Write text in one file of a folder: for all numbers, or for those below 0."""
    frame, column = clean.frame, clean.frame[clean.plant.signed]
    where = frame["sequence"] == frame["sequence"][column < 0.0].mode()[0]
    chosen = where & (column < 0.0) if "{}" in text else where
    truth = frame if "{}" in text else frame.assign(**{column.name: column.mask(chosen)})
    odd = [text.format(abs(v)) if o else v for o, v in zip(chosen, column, strict=True)]
    return clean.save_each(frame.assign(**{column.name: odd}), truth=truth)


def cut_number(clean: Clean) -> Odd:
    clean.frame.loc[len(clean.frame) - 1, clean.plant.action] = -0.3261
    return clean.save(clean.frame, lambda text: text.rstrip()[:-3])


def write_key_twice(clean: Clean) -> Odd:
    records, key = clean.frame.to_dict("records"), clean.plant.main
    lines = [f'{json.dumps(record)[:-1]}, "{key}": {-record[key]}}}\n' for record in records]
    (clean.folder / "data.jsonl").write_text("".join(lines))
    return clean.tell(clean.folder / "data.jsonl")


def stack_arrays(clean: Clean) -> Odd:
    """Write arrays of (recordings, frames), as simulators do."""
    n, groups = int(clean.frame["sequence"].value_counts().min()), clean.frame.groupby("sequence")
    truth = clean.frame[groups.cumcount() < n]
    arrays = {c: truth[c].to_numpy().reshape(-1, n) for c in (*clean.plant.contexts, clean.plant.action)}
    np.savez(clean.folder / "data.npz", **arrays)
    return clean.tell(clean.folder / "data.npz", truth=truth, options={"rate": clean.plant.rate})


class Replacing(BaseHTTPRequestHandler):
    """Serve a file by parts; who has had two gets the rest of another file."""

    def do_GET(self) -> None:
        data, part = self.server.versions[0], self.headers.get("Range", "")
        first, last = map(int, re.findall(r"\d+", part)) if part else (0, len(data) - 1)
        self.send_response(206 if part else 200)
        self.send_header("ETag", f'"{zlib.crc32(data)}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("Content-Length", str(len(data[first : last + 1])))
        self.end_headers()
        if self.command == "GET":
            del self.server.versions[: len(self.server.versions) > 1]
            self.wfile.write(data[first : last + 1])

    do_HEAD = do_GET  # noqa: N815 - the server calls it so

    def log_message(self, *_: Any) -> None:
        pass


def read_replaced(versions: list[bytes], **options: Any) -> simile.Demonstrations:
    """Read a URL whose file is replaced meanwhile."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Replacing) as server:
        server.versions = versions.copy()
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            return simile.read(f"http://127.0.0.1:{server.server_port}/data.parquet", **options)
        finally:
            server.shutdown()


def replace_url(clean: Clean) -> Odd:
    """Write two versions of a file that is fetched by parts, with two columns the other way round."""
    first, second = clean.plant.contexts[:2]
    other = clean.frame[[{first: second, second: first}.get(name, name) for name in clean.frame]]
    was, then = (some.to_parquet(compression=None, use_dictionary=False) for some in (clean.frame, other))
    return clean.tell([was, was, then], truth=clean.frame, read=read_replaced)


for name, text in (("unicode_minus", "\u2212{}"), ("x", "x"), ("parentheses", "({})")):
    add(f"{name}_in_one", f"{text} in one file", partial(write_text, text=text), "{signed}", r"\bg\d", **ANY)
add("cut_inside_last_number", "-0.3261 has become -0.3", cut_number, r"\bcut|last (row|line|number)|does not end")
add("json_key_twice", "every object has a key twice", write_key_twice, "{context}", "twice", **REFUSE)
add("url_replaced_while_read", "columns are swapped", replace_url, "replaced|changed|another version", **ANY)
add("npz_recordings_by_frames", "arrays (recordings, frames)", stack_arrays, "sequence|recording|shape|2-D", **ANY)

# ------------------------------------------------------------------------------------------------ recordings of our own


@lru_cache
def train_beginner(plant: Plant) -> simile.SmoothPolicy:
    """Train a policy on one recording only."""
    rows = plant.take(plant.make(1, seed=77))[0]
    x, names = np.column_stack([rows[c] for c in plant.contexts]), (plant.contexts, (plant.action,))
    demo = simile.Demonstration(x, rows[plant.action][:, None], plant.rate, "first", *names)
    return simile.learn(simile.Demonstrations((demo,)), model=simile.Ridge()).policy


def record(clean: Clean, share: float) -> Path:
    """Let a policy act, and an operator in a share of the frames; one in 50 is lost."""
    plant, moment = clean.plant, 0.0
    with simile.Recorder(clean.folder / "recorded") as recorder:
        predictor = simile.Predictor(train_beginner(plant), recorder=recorder)
        for rows in plant.take(clean.frame[clean.frame["sequence"] <= 4]):
            for i, x in enumerate(np.column_stack([rows[c] for c in plant.contexts])):
                moment += 1.0 / plant.rate
                if i % 50 < 49 and i % 300 < 300 * share:
                    predictor.override(rows[plant.action][i : i + 1], x, moment)
                else:
                    predictor.step(x if i % 50 < 49 else None, moment)
            predictor.reset()
            moment += 60.0
    return clean.folder / "recorded"


def record_folder(clean: Clean, *, share: float) -> Odd:
    return Odd(record(clean, share), {})


def record_table(clean: Clean, *, edit: Callable[[pd.DataFrame], pd.DataFrame], share: float = 0.5) -> Odd:
    """Read a recording into a table, and save that as somebody would who works on it."""
    table = pd.concat([pd.read_parquet(file) for file in sorted(record(clean, share).glob("*.parquet"))])
    nothing = {"event": lambda rows: np.full(len(rows["t"]), np.nan)}
    return clean.save(edit(table.reset_index(drop=True)), columns=nothing)


WHO = r"policy|operator|\bwho\b"
add("own_recording", "all that is recorded is the policy's", partial(record_folder, share=0.0), WHO)
add("own_recording_half", "half of what is recorded is the policy's", partial(record_folder, share=0.5), WHO)
add("own_recording_csv", "half is the policy's, saved as CSV", partial(record_table, edit=lambda table: table), WHO)
make = partial(record_table, edit=lambda table: table.assign(who=table["who"].where(table["who"] == "policy")))
add("own_recording_who_missing", "who acted is missing in half of the rows", make, WHO)
make = partial(record_table, edit=lambda table: table.assign(t=table["t"] - 60.0 * (table.index > 100)), share=1.0)
add("own_recording_t_falls", "the clock falls back by a minute", make, r"\bt\b|\btime\b")

# ------------------------------------------------------------------------------------------------------- mild damages


def edit_lines(clean: Clean, *, by: Callable[[list[str], int], Any]) -> Odd:
    lines = clean.frame.to_csv(index=False).splitlines(keepends=True)
    by(lines, int(clean.rng.integers(100, 400)))
    return clean.save(clean.frame, lambda _: "".join(lines), truth=clean.frame)


def encode(clean: Clean, *, codec: str) -> Odd:
    return clean.save(clean.frame.assign(Gerät="A"), lambda text: text.encode(codec), truth=clean.frame)


def write_word(clean: Clean, *, word: str) -> Odd:
    name, at = clean.plant.main, clean.frame.index == clean.rng.integers(100, 400)
    truth, column = clean.frame.assign(**{name: clean.frame[name].mask(at)}), clean.frame[name].astype(object)
    return clean.save(clean.frame.assign(**{name: column.mask(at, word)}), truth=truth)


def lose_actions(clean: Clean) -> pd.DataFrame:
    lost = clean.rng.choice(len(clean.frame), 3, replace=False)
    return clean.frame.assign(
        **{clean.plant.action: clean.frame[clean.plant.action].mask(clean.frame.index.isin(lost))}
    )


def leave_notes(clean: Clean) -> Odd:
    (clean.folder / "notes.txt").write_text("Monday: rain, second camera.\nTuesday: dry.\n")
    return clean.save_each(clean.frame, truth=clean.frame)


for name, by in (
    ("row_twice", lambda lines, i: lines.insert(i, lines[i])),
    ("late_row", lambda lines, i: lines.insert(i + 3, lines.pop(i))),
    ("preamble_of_two_lines", lambda lines, i: lines.insert(0, "Logger 3.1;serial 0042\nExported 31.05.2024\n")),
    ("row_of_units", lambda lines, i: lines.insert(1, f",s{',m' * (lines[0].count(',') - 1)}\n")),
):
    add(name, name.replace("_", " "), partial(edit_lines, by=by), "repair", **MEND)
for name, word in {"ERR": "ERR", "missing": "missing", "dash": "-", "NA": "#N/A", "QNAN": "1.#QNAN"}.items():
    add(f"one_{name}", f"one value is {word}", partial(write_word, word=word), "repair", **MEND)
for codec in ("latin-1", "utf-16"):
    add(f"text_in_{codec}", "a name of a column has an umlaut", partial(encode, codec=codec), "repair", **MEND)
add("three_actions_missing", "three actions are empty", lose_actions, "repair", mild=True)
add("notes_in_folder", "notes.txt beside the CSV files", leave_notes, r"repair|notes\.txt", **MEND)

# --------------------------------------------------------------------------------------- secrets, pipes, nobody's fault

SECRET = "s3cr3t"


def name_url(clean: Clean, *, url: str) -> Odd:
    return clean.tell(url.format(SECRET), hidden=SECRET)


def make_pipe(clean: Clean) -> Odd:
    os.mkfifo(clean.folder / "data.csv")
    return clean.tell(clean.folder / "data.csv")


def swap_players(clean: Clean) -> pd.DataFrame:
    rows, pair = clean.frame["sequence"].isin(clean.draw_labels(2)), ["player0_x", "player3_x"]
    clean.frame.loc[rows, pair] = clean.frame.loc[rows, pair[::-1]].to_numpy()
    return clean.frame


for name, url in (
    ("after_blank", " https://me:{}@127.0.0.1:9/g.csv"),
    ("in_simplecache", "simplecache::https://me:{}@127.0.0.1:9/g.csv"),
    ("in_zip", "zip://g.csv::https://me:{}@127.0.0.1:9/g.zip"),
    ("with_slash", "https://me:a/{}@127.0.0.1:9/g.csv"),
    ("in_signature", "htp://127.0.0.1:9/g.csv?sig={}"),
):
    add(f"secret_{name}", "a message must not hold it", partial(name_url, url=url), ".", **REFUSE, **PAN)
add("pipe", "a pipe that nobody writes to", make_pipe, "pipe", **REFUSE, **PAN)
NOBODY_KNOWS = {"expected": frozenset((SILENT, TOLD, REFUSED))}
make = lambda clean: clean.frame[::-1].drop(columns="t")  # noqa: E731
add("rows_reversed_without_clock", "nobody could know", make, "reverse", **NOBODY_KNOWS)
add("players_swapped_in_two", "nobody could know", swap_players, "player", **NOBODY_KNOWS, **PAN)
