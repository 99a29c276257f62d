"""Measure claims over seeds, and write what was found."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import simile
from simile._common import checks
from simile._common.files import write_atomically
from simile.errors import ArgumentError
from simile.experiments.claims import claims_named
from simile.experiments.lab import FULL, PRESETS, Effort, Lab
from simile.experiments.results import Case, Result, Results, correct_all
from simile.experiments.sources import CameraSource, Source, recorded_sources, tell_absent
from simile.experiments.statistics import Row
from simile.learning.algorithms import clone

SEEDS = tuple(range(200, 206))  # nobody looked at these while tasks, defaults and bounds were chosen
Watch = Callable[[str], object]
Sources = Source | Sequence[Source]


def reproduce(
    out: str | os.PathLike[str],
    *,
    claims: Sequence[str] | None = None,
    seeds: Sequence[int] = SEEDS,
    source: Sources | None = None,
    effort: Effort = FULL,
    page: str | os.PathLike[str] | None = None,
    n_jobs: int = 1,
    watch: Watch | None = None,
) -> Results:
    """Measure the claims of the paper and write tables, pictures and a page.

    Parameters
    ----------
    out : path
        Folder for `NAME.csv` and `NAME.png` of every claim, and `results.json`.
    claims : sequence of str, optional
        Names of claims, see `CLAIMS`; all by default.
    seeds : sequence of int
        Every claim is measured once per seed; five or more make the intervals worth something.
    source : Source or several, optional
        Makes training and held-out sequences from a seed. By default the simulated camera case study and, where the
        variable SIMILE_DATA names a folder with them, real recordings (`default_sources`).
    effort : Effort
        `FULL`, or `SMALL` to try it out.
    page : path, optional
        Where to write the page, `out/results.md` by default; its links to the pictures are relative.
    n_jobs : int
        Processes; the numbers do not depend on it. A script that asks for more than one must do its work under
        `if __name__ == "__main__":`.
    watch : callable, optional
        Called with a line of text as the work goes on.

    Returns
    -------
    Results
    """
    found = measure(claims=claims, seeds=seeds, source=source, effort=effort, n_jobs=n_jobs, watch=watch)
    write(found, out, page=page, watch=watch)
    return found


def measure(
    *,
    claims: Sequence[str] | None = None,
    seeds: Sequence[int] = SEEDS,
    source: Sources | None = None,
    effort: Effort = FULL,
    n_jobs: int = 1,
    watch: Watch | None = None,
) -> Results:
    """Measure claims over seeds and write nothing: equal arguments give equal numbers, times excepted."""
    chosen = claims_named(claims)
    seeds = tuple(checks.whole_number(seed, "seeds") for seed in seeds)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ArgumentError(f"seeds must be at least one and all different; got {seeds}")
    given = default_sources(effort) if source is None else source
    sources = {_name(one): one for one in (given if isinstance(given, Sequence) else [given])}
    cases = [Case(reading, name) for name in sources for reading in PRESETS]
    names = tuple(c.name for c in chosen)
    orders = [
        Order(
            seed, case, names, sources[case.source], effort, traced=seed == seeds[0] and case.source == cases[0].source
        )
        for seed in seeds
        for case in cases
    ]
    n_jobs = min(checks.whole_number(n_jobs, "n_jobs", at_least=1), len(orders))
    say = watch or (lambda _: None)
    found: dict[tuple[int, Case], Measured] = {}
    begin = time.monotonic()
    for done in _alone(orders, say) if n_jobs == 1 else _together(orders, n_jobs, say):
        found[done.order.seed, done.order.case] = done
        left = (time.monotonic() - begin) / len(found) * (len(orders) - len(found)) / 60.0
        say(f"{done.order} is done, {len(found)} of {len(orders)}; about {left:.0f} minutes left")
    results = []
    for claim in chosen:
        for case in cases:
            rows = [row for seed in seeds for row in found[seed, case].rows[claim.name]]
            if rows:
                results.append(Result.of(claim, case, rows, found[seeds[0], case].traces[claim.name]))
    return Results(
        correct_all(results),
        seeds,
        effort,
        {name: repr(one) for name, one in sources.items()},
        {f"{name}, {seed}": found[seed, Case(next(iter(PRESETS)), name)].data for name in sources for seed in seeds},
        simile.__version__,
        tell_absent(sources) if CameraSource.name in sources else "",
    )


def default_sources(effort: Effort = FULL, folder: str | os.PathLike[str] | None = None) -> tuple[Source, ...]:
    """Return simulated games and, where a folder or SIMILE_DATA has them, real recordings of their size."""
    games = CameraSource(effort.n_games, effort.minutes)
    frames = round(effort.n_games * effort.minutes * 60.0 * 25.0)  # of games at 25 Hz
    return games, *recorded_sources(folder, frames=frames)


@dataclass(frozen=True)
class Order:
    """What to measure on one seed, in one case."""

    seed: int
    case: Case
    claims: tuple[str, ...]
    source: Source
    effort: Effort
    traced: bool

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.case}"


@dataclass(frozen=True)
class Measured:
    """What was measured, by claim."""

    order: Order
    rows: dict[str, list[Row]]
    traces: dict[str, list[Row]]
    data: str  # digests of both parts


def measure_seed(order: Order, say: Watch = lambda _: None) -> Measured:
    """Measure all claims on one seed; they share its runs, which are forgotten afterwards."""
    train, test = order.source(order.seed)
    about = {name: getattr(order.source, name) for name in ("unit", "simulated") if hasattr(order.source, name)}
    lab = Lab(order.seed, train, test, order.effort, order.case.reading, **about)
    clone(train.head(100), model=lab.forest())  # the kernels compile, so that no time counts that
    rows: dict[str, list[Row]] = {}
    traces: dict[str, list[Row]] = {}
    by_method: dict[object, list[Row]] = {}  # several claims may look at the same rows
    for claim in claims_named(order.claims):
        if claim.measure not in by_method:
            say(f"{order}: {claim.name}")
            by_method[claim.measure] = claim.measure(lab)
        rows[claim.name] = by_method[claim.measure]
        traces[claim.name] = claim.trace(lab) if order.traced and claim.trace is not None else []
    return Measured(order, rows, traces, f"{train.digest()} {test.digest()}")


def _name(source: Source) -> str:
    return str(getattr(source, "name", type(source).__name__))


def _alone(orders: Sequence[Order], say: Watch) -> Iterator[Measured]:
    for order in orders:
        yield measure_seed(order, say)


def _together(orders: Sequence[Order], n_jobs: int, say: Watch) -> Iterator[Measured]:
    """Measure seeds in fresh processes: one that is forked may inherit locks of threads that it does not have."""
    say(f"{len(orders)} seeds and cases in {n_jobs} processes")
    with ProcessPoolExecutor(n_jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(measure_seed, order) for order in orders]):
            yield future.result()


def write(
    results: Results,
    out: str | os.PathLike[str],
    *,
    page: str | os.PathLike[str] | None = None,
    watch: Watch | None = None,
) -> None:
    """Write `NAME.csv`, `NAME.png`, `results.json` and the page; trajectories go to `NAME-trajectories.csv`."""
    from simile.experiments import drawing
    from simile.experiments.fingerprint import stamp
    from simile.experiments.page import PARTS, to_markdown

    folder = Path(out)
    target = folder / "results.md" if page is None else Path(page)
    if watch is not None:
        watch(f"writing to {folder}")
    for claim in results.claims:
        own = results.of(claim.name)
        for ending, kind in (("", "rows"), ("-trajectories", "traces")):
            if rows := [{**r.case.columns, **row} for r in own for row in getattr(r, kind)]:
                write_atomically(folder / f"{claim.name}{ending}.csv", table(rows))
    stamped = {"fingerprint": stamp(*PARTS, renew="make results"), **results.to_dict()}
    summary = json.dumps(stamped, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(folder / "results.json", f"{summary}\n".encode())
    pictures = os.path.relpath(folder, target.parent).replace(os.sep, "/")
    write_atomically(target, to_markdown(results, pictures=pictures).encode())
    for claim in results.claims:
        write_atomically(folder / f"{claim.name}.png", drawing.draw(results.of(claim.name)))


def table(rows: Sequence[Row]) -> bytes:
    """Write rows as CSV; every number keeps all its digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
