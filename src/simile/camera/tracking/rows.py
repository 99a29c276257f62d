"""The rows of a table by their roles, and the frames they belong to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile._common.urls import File
from simile.camera.games import AXES
from simile.camera.tracking.frames import MOST, Piece
from simile.data.names import recognise
from simile.data.reading import clock
from simile.data.reading.columns import unit_of_name
from simile.data.reading.formats import open_tables
from simile.data.reading.sequences import file_names, past_midnight
from simile.data.reading.tables import Table
from simile.data.reading.values import STAMP, Place, Times, find_runs, quote
from simile.errors import ArgumentError, DataError

# The columns of every role, by the names they have unless the user says another.
ROLES: dict[str, tuple[str, ...]] = {
    "frame": ("frame",),
    "time": ("time", "t", "timestamp", "seconds"),
    "x": ("x",),
    "y": ("y",),
    "game": ("game",),
    **{name: (name,) for name in (*AXES, "ball_x", "ball_y")},
}


@dataclass(frozen=True, eq=False)
class Rows:
    """Numbers (N,) by role, the time or frame (N,), and which rows belong to every game."""

    path: File
    present: tuple[str, ...]  # all columns
    columns: dict[str, str]  # the column of every role
    clock: str  # the role that tells time: frame or time
    numbers: dict[str, FloatArray]
    when: Times
    games: dict[str, IntArray]

    @classmethod
    def read(
        cls,
        path: Path,
        names: dict[str, tuple[str, ...]],
        *,
        clocks: Sequence[str],
        needed: Sequence[str],
        optional: Sequence[str],
        name: str | None = None,
    ) -> Rows:
        """Read a table.

        Parameters
        ----------
        names : dict
            The names that the column of every role may have.
        clocks : sequence of str
            The roles that may tell time, the best first.
        needed, optional : sequence of str
            Roles of numbers.
        name : str, optional
            Of the game where no column tells games apart; that of the file by default.
        """
        (table,) = open_tables(path)
        present = tuple(c.name for c in table.columns)
        roles = (*clocks, "game", *needed, *optional)
        meant = {n: column for column, n in recognise([n for role in roles for n in names[role]], present).items()}
        found = {role: next((meant.get(n, n) for n in names[role] if n in (*present, *meant)), None) for role in roles}
        columns = {role: column for role, column in found.items() if column is not None}
        ticking = [role for role in clocks if role in columns]
        for lacking, wanted in ((not ticking, clocks), *((r not in columns, (r,)) for r in needed)):
            if lacking:
                raise ArgumentError(
                    f"{path}: no column is {' or '.join(n for r in wanted for n in names[r])}: "
                    f"name it with columns (--columns {wanted[0]}=...); there are {quote(', '.join(present))}; files "
                    "of soccer providers need their name (--provider)"
                )
        own = file_names([path])[0] if name is None else name
        return cls._scan(table, columns, ticking[0], [r for r in (*needed, *optional) if r in columns], own)

    @classmethod
    def _scan(cls, table: Table, columns: dict[str, str], ticking: str, roles: Sequence[str], name: str) -> Rows:
        kinds = {c.name: c.kind for c in table.columns}
        stamps = ticking == "time" and kinds[columns["time"]] == STAMP
        types: dict[str, type] = dict.fromkeys((columns[role] for role in roles), float)
        types |= {columns[ticking]: datetime if stamps else float}
        types |= {columns["game"]: str} if "game" in columns else {}
        parts, moments, rows = list[FloatArray](), list[Times](), dict[str, list[IntArray]]()
        for chunk in table.scan(types):
            parts.append(chunk.numbers([columns[role] for role in roles]))
            moments.append(chunk.times(columns[ticking], stamps=stamps))
            runs = find_runs(chunk.labels(columns["game"])) if "game" in columns else {name: [slice(0, chunk.rows)]}
            for game, slices in runs.items():
                first = chunk.place.first_row - 1
                rows.setdefault(str(game), []).extend(np.arange(first + s.start, first + s.stop) for s in slices)
        values = dict(zip(roles, np.concatenate(parts).T, strict=True))
        when: Times = np.concatenate(moments) if stamps else np.concatenate(moments).astype(np.float64)
        games = {game: np.concatenate(some) for game, some in rows.items()}
        if ticking == "time":
            when = _to_seconds(when, games, columns["time"], table.path)
        for role, column in (*values.items(), *(() if stamps else ((ticking, when),))):
            if (bad := np.abs(column) > MOST).any():
                i = int(bad.argmax())
                raise Place(table.path).error(i, columns[role], f"{column[i]} is far too large: mend it")
        present = tuple(c.name for c in table.columns)
        return cls(table.path, present, columns, ticking, values, when, games)

    @property
    def name(self) -> str | None:
        """The name of the game where no column tells games apart."""
        return None if "game" in self.columns else next(iter(self.games))

    def has(self, roles: Sequence[str]) -> bool:
        """Tell whether there is a column for each of these roles."""
        return all(role in self.numbers for role in roles)

    def without(self, roles: Sequence[str]) -> Rows:
        """Return the same rows without some of the numbers."""
        return replace(self, numbers={role: v for role, v in self.numbers.items() if role not in roles})

    def begin(self, game: str) -> Any:
        """Return the earliest time or frame of a game."""
        return self.when[self.games[game]].min()

    def since(self, game: str, origin: Any) -> FloatArray:
        """Return the times (N,) of a game in seconds, or its frames, since `origin`."""
        since = self.when[self.games[game]] - origin
        return np.asarray(since / np.timedelta64(1, "s") if since.dtype.kind == "m" else since, dtype=np.float64)

    def values(self, game: str, roles: Sequence[str]) -> FloatArray:
        """Return columns (N, len(roles)) of a game."""
        return np.column_stack([self.numbers[role][self.games[game]] for role in roles])

    def per_frame(self, game: str, roles: Sequence[str], frames: IntArray, piece: Piece) -> FloatArray:
        """Return what each frame of a piece has in its rows, (T, len(roles)); NaN where none says it."""
        out = np.full((len(piece), len(roles)), np.nan)
        inside = np.flatnonzero((frames >= piece.first) & (frames < piece.stop))
        at, rows = frames[inside] - piece.first, self.games[game][inside]
        for k, role in enumerate(roles):
            values = self.numbers[role][rows]
            said = ~np.isnan(values)
            out[at[said], k] = values[said]
            if (differs := said & (values != out[at, k])).any():
                i = int(differs.argmax())
                raise Place(self.path).error(
                    int(rows[i]),
                    self.columns[role],
                    f"{values[i]:g}, but {out[at[i], k]:g} in another row of the same frame: make them equal",
                )
        return out


@dataclass(frozen=True, eq=False)
class Timeline:
    """The times (F,) of a game and the frame (F,) at each; the clock of whoever recorded it may drift."""

    game: str
    origin: Any
    times: FloatArray
    ticks: IntArray
    rate: float
    numbered: bool  # by the file

    @classmethod
    def of(cls, rows: Rows, game: str, rate: float) -> Timeline:
        """Count the frames of a game by the steps between its times; a step is at least half a frame."""
        origin = rows.begin(game)
        since = rows.since(game, origin)
        if rows.clock == "frame" and (broken := since != np.floor(since)).any():
            i = int(rows.games[game][broken.argmax()])
            raise Place(rows.path).error(
                i, rows.columns["frame"], f"{rows.when[i]:g} is not a whole number: number the frames, or give a time"
            )
        times = np.unique(since)
        with np.errstate(over="ignore"):
            steps = np.rint(np.diff(times) * rate)
        if (close := steps == 0.0).any():
            i = int(close.argmax())
            raise DataError(
                f"{rows.path}: the times {times[i]:.6g} and {times[i + 1]:.6g} s after the first of game {quote(game)} "
                f"are in one frame at {rate:g} Hz: give all rows of a frame the same time, or the right rate"
            )
        if steps.sum() > MOST:
            raise DataError(f"{rows.path}: game {quote(game)} is far too long ({times[-1]:g} s): mend the time")
        return cls(
            game, origin, times, np.concatenate([[0], np.cumsum(steps)]).astype(np.intp), rate, rows.clock == "frame"
        )

    def frames(self, rows: Rows) -> IntArray:
        """Return the frame (N,) of every row of the game: counted from the nearest time of this line."""
        when = rows.since(self.game, self.origin)
        right = np.clip(np.searchsorted(self.times, when), 1, max(1, len(self.times) - 1))
        left = right - 1
        right = np.minimum(right, len(self.times) - 1)
        nearest = np.where(when - self.times[left] <= self.times[right] - when, left, right)
        with np.errstate(over="ignore"):
            off = np.clip(np.rint((when - self.times[nearest]) * self.rate), -MOST, MOST)
        return np.asarray(self.ticks[nearest] + off.astype(np.intp))

    def name_frame(self, frame: int) -> str:
        """Return a frame as a person finds it: by its number in the file, or by the time since the first row."""
        i = max(0, int(np.searchsorted(self.ticks, frame, side="right")) - 1)
        since = self.times[i] + (frame - self.ticks[i]) / self.rate
        return f"frame {self.origin + since:.0f}" if self.numbered else f"the frame {since:.6g} s after the first row"


def _to_seconds(when: Times, games: dict[str, IntArray], column: str, path: File) -> Times:
    """Return times that are numbers as seconds, and times of day such that they go on after midnight."""
    if when.dtype.kind == "M":
        when = when.copy()
        for rows in games.values():
            when[rows] = past_midnight([], when[rows])
        return when
    unit = unit_of_name(column)[1] or clock.infer_unit([np.unique(when[rows]) for rows in games.values()])
    if unit == "s":
        return when
    print(f"{path}: {quote(column)} is taken for {clock.UNIT_NAMES[unit]}", file=sys.stderr)  # noqa: T201 - a guess
    return when / clock.UNITS[unit]
