"""Clean files that are only unusual: formats, orders of columns, and values that look odd and are not.

They must be read rightly and without a note.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from odd_files import Clean, Odd
from plants import Plant, delay, hold_levels


def rest(plant: Plant, rows: dict[str, np.ndarray], rng: np.random.Generator, i: int) -> np.ndarray:
    """Let the operator move only where it is worth it."""
    acted = plant.operate(rows, rng)
    at, width = acted[0], 0.7 * acted.std()
    for j, wish in enumerate(acted):
        acted[j] = at = wish if abs(wish - at) > width else at
    return acted


def react_late(plant: Plant, rows: dict[str, np.ndarray], rng: np.random.Generator, i: int) -> np.ndarray:
    """Let the operator react late, so that contexts tell the action long before."""
    return delay(plant.operate(rows, rng), int(0.8 * plant.rate) + 1)


def follow_plan(plant: Plant, rows: dict[str, np.ndarray], rng: np.random.Generator, i: int) -> np.ndarray:
    """Let the operator do what the main context says, a little later and with a hand of flesh."""
    wanted = delay(rows[plant.main], 5)
    return 50.0 + 2.0 * wanted + 0.1 * wanted.std() * rng.normal(size=len(wanted))


def double_sensor(plant: Plant, rows: dict[str, np.ndarray], rng: np.random.Generator, i: int) -> None:
    """Measure the main context twice."""
    rows[plant.contexts[-1]] = rows[plant.main] + 0.02 * rng.normal(size=len(rows[plant.main]))


def hold_some(x: np.ndarray, rng: np.random.Generator, i: int) -> np.ndarray:
    """Update only now and then, as a slow sensor does."""
    return x[np.maximum.accumulate(np.where(rng.random(len(x)) < 0.05, np.arange(len(x)), 0))]


def use_up(x: np.ndarray, rng: np.random.Generator, i: int) -> np.ndarray:
    """Let something only rise, at a pace that varies, as what was used so far does."""
    return 5.0 + np.cumsum(rng.gamma(0.5, 0.02, len(x)))


def swing(x: np.ndarray, rng: np.random.Generator, i: int) -> np.ndarray:
    """Let something come again and again."""
    return x.mean() + 3.0 * np.sin(np.arange(len(x)) / 25.0 + rng.uniform(0.0, 6.0))


def change(plant: Plant, rows: dict[str, np.ndarray], rng: Any, i: int, *, of: int, by: Callable[..., Any]) -> None:
    """Change the first or the last context before the operator acts."""
    rows[plant.contexts[of]] = by(rows[plant.contexts[of]], rng, i)


MAIN, LAST = 0, -1
EDITS: dict[str, Callable[..., Any]] = {
    "action_rests": rest,
    "action_late": react_late,
    "action_follows_plan": follow_plan,
    "two_sensors_of_one": double_sensor,
}
for name, of, by in (
    ("plain", MAIN, lambda x, rng, i: x),
    ("plateaus", MAIN, hold_some),
    ("steps", MAIN, lambda x, rng, i: x + hold_levels(rng, len(x), 100.0, -2.0, 2.0)),
    ("saturated_sensor", MAIN, lambda x, rng, i: np.clip(x, *np.quantile(x, [0.15, 0.85]))),
    ("coarse_sensor", MAIN, lambda x, rng, i: np.round(2.0 * x) / 2.0),
    ("whole_numbers", MAIN, lambda x, rng, i: np.round(x)),
    ("staircase", MAIN, lambda x, rng, i: hold_levels(rng, len(x), 90.0, 2.0, 6.0)),
    ("calm_recording", MAIN, lambda x, rng, i: x * (0.15 if i == 4 else 1.0)),
    ("levels_differ_by_recording", MAIN, lambda x, rng, i: x + 3.0 * rng.normal()),
    ("missing_now_and_then", MAIN, lambda x, rng, i: x),
    ("periodic", LAST, swing),
    ("used_so_far", LAST, use_up),
    ("constant_in_one", LAST, lambda x, rng, i: np.full(len(x), 1.0) if i == 2 else x),
    ("constant_in_most", LAST, lambda x, rng, i: x if i in (2, 5) else np.zeros(len(x))),
    ("constant_that_differs", LAST, lambda x, rng, i: np.full(len(x), 2.0 + 0.37 * i)),
    ("gears", LAST, lambda x, rng, i: np.floor(hold_levels(rng, len(x), 80.0, 1.0, 5.9))),
    ("flag", LAST, lambda x, rng, i: np.where(x > np.median(x), 1.0, 0.0)),
    ("passes_999", LAST, lambda x, rng, i: 998.0 + 2.0 * x),
    ("heading_below_360", LAST, lambda x, rng, i: 180.0 + 170.0 * np.tanh((x - x.mean()) / x.std())),
):
    EDITS[name] = partial(change, of=of, by=by)


def make_unusual(clean: Clean, seed: int, *, name: str) -> Odd:
    """Write recordings of which something is unusual."""
    frame, main = clean.plant.make(seed=seed, edit=EDITS[name]), clean.plant.main
    if name == "missing_now_and_then":
        frame[main] = frame[main].mask(clean.rng.random(len(frame)) < 0.03)
    whole = [c for c in clean.plant.contexts if frame[c].notna().all() and (frame[c] % 1.0 == 0.0).all()]
    return clean.save(frame.astype(dict.fromkeys(whole, int)), truth=frame)


def write_as(clean: Clean, seed: int, *, suffix: str) -> Odd:
    """Write a frame in a format."""
    path, frame = clean.folder / f"data{suffix}", clean.frame
    if suffix == ".npz":
        np.savez(path, **{c: frame[c].to_numpy() for c in frame})
    elif suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    elif suffix in (".parquet", ".feather"):
        (frame.to_parquet if suffix == ".parquet" else frame.to_feather)(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    return clean.tell(path, truth=frame)


def edit_text(clean: Clean, seed: int, *, by: Callable[[str], str]) -> Odd:
    """Write as many decimals everywhere, and edit the text."""
    text = by(clean.frame.to_csv(index=False, float_format="%.4f"))
    return clean.save(clean.frame, lambda _: text, truth=clean.frame)


def write_dates(clean: Clean, seed: int) -> Odd:
    """Write dates for times."""
    seconds = pd.to_timedelta(clean.frame["t"] + 600.0 * clean.frame["sequence"], "s")
    frame = clean.frame.drop(columns="t").assign(time=pd.Timestamp("2024-05-31 12:00") + seconds)
    return clean.save(frame, truth=clean.frame)


def name_roles(clean: Clean, seed: int) -> Odd:
    """Call contexts x_... and the action a_..., so that nothing has to be said."""
    names = {c: f"x_{c}" for c in clean.plant.contexts} | {clean.plant.action: f"a_{clean.plant.action}"}
    made = clean.save(clean.frame.rename(columns=names).assign(z_note=0.0))
    return Odd(made.source, {"contexts": [*names.values()][:-1], "actions": names[clean.plant.action]}, rate=made.rate)


UNUSUAL: dict[str, Callable[[Clean, int], Odd]] = {
    **{name: partial(make_unusual, name=name) for name in EDITS},
    **{f"as{s}": partial(write_as, suffix=s) for s in (".tsv", ".csv.gz", ".jsonl", ".parquet", ".feather", ".npz")},
    "lines_end_as_on_windows": partial(edit_text, by=lambda text: text.replace("\n", "\r\n")),
    "no_newline_at_end": partial(edit_text, by=str.rstrip),
    "byte_order_mark": partial(edit_text, by=lambda text: f"\ufeff{text}"),
    "one_file_each": lambda clean, seed: clean.save_each(clean.frame, truth=clean.frame),
    "other_order": lambda clean, seed: clean.save(clean.frame[clean.frame.columns[::-1]], truth=clean.frame),
    "dates": write_dates,
    "roles_in_names": name_roles,
}


def make_clean(name: str, plant: Plant, seed: int, folder: Path) -> Odd:
    """Write an unusual file into an empty folder."""
    return UNUSUAL[name](Clean(plant, plant.make(seed=seed), np.random.default_rng(seed), folder), seed)
