"""Algorithm 1 on a Dask cluster: the demonstrations live on the workers, and only models, histograms and sums travel.

Everything is a task whose inputs the scheduler knows, so that what a lost worker held is computed again, from the
files or from what was sent, to the same bits. Nothing is scattered: scattered data die with their worker.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial, reduce
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np

from simile import __version__
from simile._common import checks
from simile._common.needs import need
from simile._common.urls import File
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.groups import names_groups
from simile.data.reading.columns import SEQUENCE_NAMES, SINGLE, Header, ReadOptions, find_known
from simile.data.reading.formats import open_tables
from simile.data.reading.grouping import FOLDER
from simile.data.reading.reader import Part, find_parts, find_rate, read_all
from simile.data.reading.sequences import file_names
from simile.data.reading.summary import Summary
from simile.data.reading.tables import Table
from simile.data.states import Tape
from simile.errors import ArgumentError, SimileError
from simile.learning.distributed import DistributedDemonstrations, growing
from simile.learning.distributed.demonstrations import share_evenly
from simile.learning.distributed.facts import Facts
from simile.learning.training import Lesson
from simile.models import Forest, ridge

cloudpickle: Any = need("cloudpickle", "a Dask cluster")
dask: Any = need("distributed", "a Dask cluster")
sizes: Any = need("dask.sizeof", "a Dask cluster")

Handle = Any  # a distributed.Future
Frames = list[Any]  # a pickle, and the bytes of the large arrays in it
PATIENCE = 5.0  # seconds for a scheduler to answer
SMALL = 2**15  # bytes that rather travel with each task than wait for one of their own
SHARE, UNLIMITED = 0.4, 2**33  # of the memory of a worker that a forest may take; bytes where a worker has no limit
PARTS_PER_THREAD = 2  # so that what a slow or lost worker leaves undone can be shared by the others
PARTS_IN_ROOM = 12  # of data that are read, and with them what is made of them: a worker has some in use at a time


@dataclass(frozen=True)
class Traffic:
    """Bytes from and to this process: what was sent and received, not what the protocol adds to it."""

    sent: int = 0
    received: int = 0

    def __sub__(self, earlier: Traffic) -> Traffic:
        return Traffic(self.sent - earlier.sent, self.received - earlier.received)


class DaskBackend:
    """Parts of the data on the workers of a Dask cluster; give it as `backend=` to `simile.learn` and its kin.

    A worker that is lost changes nothing but the time: what it held is computed again. Demonstrations in memory are
    sent once, and the scheduler keeps them for that case; for data larger than memory let the workers `read`.

    Parameters
    ----------
    client : distributed.Client
        The connection to the cluster.
    exact : bool
        Whether to learn the very policy that one machine would, to the bit. Otherwise each tree grows on the data of
        one part: nothing but trees travels, and the squared error was 10 to 40 % higher where we measured it.
    parts : int, optional
        Into how many parts data are cut; by default two for each thread of the cluster, or as many more as it takes for
        a worker to hold a dozen of them.
    """

    def __init__(self, client: Any, *, exact: bool = True, parts: int | None = None) -> None:
        if not isinstance(client, dask.Client) or client.asynchronous:
            raise ArgumentError(
                f"client must be a distributed.Client that is not asynchronous; got {client!r}: "
                "DaskBackend(Client(address))"
            )
        _check_versions(_find_versions(client))
        self.client, self.exact = client, bool(exact)
        self._parts = None if parts is None else checks.whole_number(parts, "parts", at_least=1)
        self._forests: WeakKeyDictionary[Forest, Handle] = WeakKeyDictionary()
        self.traffic = Traffic()

    def __repr__(self) -> str:
        return f"DaskBackend({self.client.scheduler_info()['address']}, exact={self.exact}, parts={self.parts})"

    @property
    def parts(self) -> int:
        """Into how many parts data are cut."""
        return self._parts or PARTS_PER_THREAD * max(1, sum(self.client.nthreads().values()))

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return max(1, len(self.client.nthreads()))

    @property
    def threads(self) -> int:
        """How many threads each of them has."""
        return min(self.client.nthreads().values(), default=1)

    @property
    def room(self) -> int:
        """Bytes that a task may take: a share of the memory of the smallest worker."""
        limits = [worker["memory_limit"] for worker in self.client.scheduler_info()["workers"].values()]
        return int(SHARE * min(filter(None, limits), default=UNLIMITED))

    def read(
        self, path: str | File | Sequence[str | File], *, quiet: bool = False, **how: Any
    ) -> DistributedDemonstrations:
        """Let the workers read demonstrations from files, which must have the same paths or URLs there.

        Parameters
        ----------
        path : path or sequence of paths
            As for `simile.read`. A large Parquet file of several row groups is cut into parts of whole sequences,
            and each worker fetches the row groups that it needs. Other files are read by one worker each, as a part or
            as one of several files of a part, so write large data as Parquet or as many files.
        quiet : bool
            Do not print the summary of the first file.
        **how
            `actions`, `contexts`, `sequence`, `group`, `time`, `time_unit`, `rate`, `gap`, `resample`, `missing` and
            `max_memory` (of each file), as for `simile.read`. Groups are not guessed here, where no worker sees all
            sequences: name their column.

        Returns
        -------
        DistributedDemonstrations
            Small facts about the data; the frames stay on the workers.
        """
        if how.get("repair"):
            raise ArgumentError(
                "repair: a cluster reads files as they are: mend them on one machine with simile.read(..., "
                "repair=True), and simile.write them as Parquet"
            )
        if how.get("wraps"):
            raise ArgumentError(
                "wraps: on a cluster no worker sees all recordings, which are to lie in one turn: write the data once "
                "with what goes on past it (numpy.unwrap), or read them on one machine"
            )
        tables = open_tables(path)
        if how.get("group") == FOLDER and not Header(tables[0].columns).find(FOLDER):
            raise ArgumentError("group: on a cluster it must be a column, for a worker sees no other folders; name one")
        if tables[0].roles.contexts is None:  # otherwise the files say themselves what their columns are
            how = {"group": SINGLE, **how}
        n_parts = self._parts or max(self.parts, _count_bytes(tables) // (self.room // PARTS_IN_ROOM))
        files, notes = self._cut(tables, how, n_parts)
        groups = [files[begin:end] for begin, end in share_evenly([file.rows for file in files], n_parts)]
        handles = self.map(_read, groups, shared=(how, False))
        try:
            facts = self.collect(self.map(Facts.of, handles))
            alike = len({known.rate for known in facts}) == 1
        except _RatesDifferError:
            alike = False
        if alike:
            found = DistributedDemonstrations.take(handles, self, facts)
        else:  # each file has told its own: what do all say together?
            (rate,) = self.collect(self.map(_find_rate, [[table.path.resolve() for table in tables]], shared=(how,)))
            how = {**how, "rate": rate}
            found = DistributedDemonstrations.take(self.map(_read, groups, shared=(how, False)), self)
        if not found.over("names", _differ):  # files that each count from 0
            found = DistributedDemonstrations.take(self.map(_read, groups, shared=(how, True)), self)
        if not quiet:
            (said,) = self.collect(self.map(_tell, files[:1], shared=(how,)))
            what = "files" if len(files) == len(tables) else "parts of files"
            print(f"The first of {len(files)} {what}, as all are read:\n{said}", file=sys.stderr)  # noqa: T201
            for note in notes:
                print(f"  note      {note}", file=sys.stderr)  # noqa: T201
            taken = [*how.values(), *find_known(tables[0].columns, SEQUENCE_NAMES)[: "sequence" not in how]]
            may_be = [c.name for c in tables[0].columns if names_groups(c.name) and c.name not in taken]
            if how.get("group") == SINGLE and may_be:
                note = f"{may_be[0]!r} may be what sequences have in common: group={may_be[0]!r} holds out those of one"
                print(f"  note      {note}", file=sys.stderr)  # noqa: T201
        return found

    def _cut(self, tables: Sequence[Table], how: dict[str, Any], n_parts: int) -> tuple[list[_File], list[str]]:
        """Return what there is to read, file by file or, of large ones, part by part, and what to say of it."""
        paths = [table.path.resolve() for table in tables]
        known = all(table.groups for table in tables)
        rows = [sum(table.groups) if known else 1 for table in tables]
        files = [_File(*each) for each in zip(paths, file_names(paths), rows, strict=True)]
        wished = [_wish(t.groups, round(n * n_parts / sum(rows))) for t, n in zip(tables, rows, strict=True) if known]
        large = [i for i, some in enumerate(wished) if some]
        cut = (
            self.collect(self.map(_find_parts, [(paths[i], wished[i]) for i in large], shared=(how,))) if large else []
        )
        parts = dict(zip(large, cut, strict=True))
        notes = [
            f"{paths[i]}: its sequences go on side by side, or have no column, so that one worker reads it: write them "
            "one after the other"
            for i in large
            if len(parts[i]) < 2
        ]
        return [f for i, file in enumerate(files) for f in file.cut(parts.get(i, []))], notes

    def place(self, parts: Sequence[Any]) -> list[Handle]:
        """Send each value to a worker."""
        return [self._send(part) for part in parts]

    def map(self, function: Callable[..., Any], *handles: Sequence[Any], shared: tuple[Any, ...] = ()) -> list[Handle]:
        """Call function(*one of each handles, *shared) for each part, on the worker that has it."""
        name = getattr(function, "__name__", type(function).__name__)
        n, (frames, held) = len(handles[0]), self._pack(shared)
        if _count_frames(frames) > SMALL:
            frames, held = [], [self._submit(frames, held)]
        self._count(n * _count_frames(frames))
        call, lists = partial(_call, function, frames, len(held)), [[h] * n for h in held]
        return list(self.client.map(call, *lists, *map(list, handles), pure=False, key=name))

    def total(self, add: Callable[[Any, Any], Any], handles: Sequence[Any]) -> Any:
        """Add results up on the workers, neighbours first, and bring the sum here."""
        left = list(handles)
        while len(left) > 2:
            odd = left[-1:] if len(left) % 2 else []
            left = [*self.client.map(add, left[: len(left) - len(odd) : 2], left[1::2], pure=False, key="add"), *odd]
        return self._gather(self.client.map(partial(_pack_sum, add), *([x] for x in left), pure=False, key="add"))[0]

    def collect(self, handles: Sequence[Any]) -> list[Any]:
        """Bring results here, in order."""
        found = self._gather(self.client.map(_pack_value, list(handles), pure=False, key="collect"))
        self._forests.update((f, handle) for f, handle in zip(found, handles, strict=True) if isinstance(f, Forest))
        return found

    def traffic_between(self) -> int:
        """Return the bytes that the workers have got from each other, as those that are alive remember."""
        return sum(self.client.run(_count_transfers).values())

    def _gather(self, packed: Sequence[Handle]) -> list[Any]:
        try:
            found = self.client.gather(packed)
        except dask.KilledWorker as error:
            raise SimileError(
                f"the cluster lost a worker again and again at the same task ({error}): most often a part does not "
                "fit into the memory of a worker; cut the data into more parts (parts=..., more and smaller files)"
            ) from error
        except (dask.comm.CommClosedError, dask.client.FutureCancelledError) as error:
            raise SimileError(f"the connection to the Dask scheduler was lost: {error}") from error
        self.traffic = replace(self.traffic, received=self.traffic.received + sum(map(_count_frames, found)))
        return [_open(frames) for frames in found]

    def _send(self, value: Any) -> Handle:
        """Send a value as a task that any worker can run again."""
        return self._submit(*self._pack(value))

    def _submit(self, frames: Frames, held: Sequence[Handle]) -> Handle:
        self._count(_count_frames(frames))
        with warnings.catch_warnings():  # what is large is a model or a part, sent once
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self.client.submit(partial(_open, frames), *held, pure=False, key=f"open-{uuid4()}")

    def _count(self, sent: int) -> None:
        self.traffic = replace(self.traffic, sent=self.traffic.sent + sent)

    def _pack(self, value: Any) -> tuple[Frames, list[Handle]]:
        """Pickle a value; handles and forests in it, each of which is sent once and for all, come beside it."""
        packer = _Packer(self._forest, value)
        return packer.pack(value), packer.held

    def _forest(self, forest: Forest) -> Handle:
        if forest not in self._forests:
            self._forests[forest] = self._send(forest)
        return self._forests[forest]


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles a value, and keeps what is on the cluster already out of it: handles, and forests once sent.

    Large arrays are not copied: they come beside it as they are.
    """

    def __init__(self, hold: Callable[[Forest], Handle] | None = None, whole: Any = None) -> None:
        self.file, self.arrays = io.BytesIO(), Frames()
        super().__init__(self.file, protocol=5, buffer_callback=self._put_in)
        self.hold, self.whole, self.held = hold, whole, list[Handle]()

    def pack(self, value: Any) -> Frames:
        """Return the frames that `_open` makes a value of."""
        self.dump(value)
        return [self.file.getvalue(), *self.arrays]

    def _put_in(self, buffer: pickle.PickleBuffer) -> bool:
        """Tell whether the bytes of an array are pickled with the rest; otherwise they come beside it."""
        small = (raw := buffer.raw()).nbytes <= SMALL
        if not small:
            self.arrays.append(np.frombuffer(raw, np.uint8))
        return small

    def persistent_id(self, value: Any) -> int | None:
        """Return the place of what is held elsewhere; None for what is to be pickled."""
        if isinstance(value, dask.Future):
            self.held.append(value)
        elif self.hold is not None and isinstance(value, Forest) and value is not self.whole:
            self.held.append(self.hold(value))
        else:
            return None
        return len(self.held) - 1


class _Opener(pickle.Unpickler):
    def __init__(self, frames: Frames, held: Sequence[Any]) -> None:
        # Copied, for what came in a message lies anywhere in it, and may be read only.
        super().__init__(io.BytesIO(frames[0]), buffers=map(bytearray, frames[1:]))
        self.held = held

    def persistent_load(self, place: int) -> Any:
        return self.held[place]


# What runs on a worker stands at the top level, so that it can be sent there.


def _open(frames: Frames, *held: Any) -> Any:
    return _Opener(frames, held).load()


def _count_frames(frames: Frames) -> int:
    return sum(map(len, frames))


def _pack_value(value: Any) -> Frames:
    return _Packer().pack(value)


def _pack_sum(add: Callable[[Any, Any], Any], *few: Any) -> Frames:
    return _pack_value(reduce(add, few))


def _call(function: Callable[..., Any], frames: Frames, n_held: int, *given: Any) -> Any:
    """Call a function of parts and of what is shared: pickled, or as it is where it came by itself."""
    aligned = [_align(value) for value in given]
    held, parts = aligned[:n_held], aligned[n_held:]
    shared = _open(frames, *held) if frames else held[0]
    return function(*parts, *shared)


def _align(value: Any) -> Any:
    """Return a value whose arrays begin where numbers may: what came from another worker lies anywhere in a message.

    Sums and products of such arrays go another way, to other bits, and kernels are compiled anew for them.
    """
    if isinstance(value, np.ndarray):
        return value if value.flags.aligned else value.copy()
    if isinstance(value, list | tuple):
        found = [_align(each) for each in value]
        same = all(a is b for a, b in zip(value, found, strict=True))
        if same or isinstance(value, list):
            return value if same else found
        return type(value)(*found) if hasattr(value, "_fields") else tuple(found)
    if isinstance(value, dict) or (is_dataclass(value) and not isinstance(value, type)):
        inside = value if isinstance(value, dict) else vars(value)
        for name, each in list(inside.items()):
            if (found := _align(each)) is not each:
                inside[name] = found
    return value


def _count_transfers(dask_worker: Any) -> int:
    return sum(transfer["total"] for transfer in dask_worker.transfer_incoming_log)


def _weigh(value: Any) -> int:
    """Count the bytes of the arrays in a value; a tape has its contexts from the demonstrations, where they count."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Tape):
        return int(value.actions.nbytes)
    if is_dataclass(value):
        return sum(_weigh(getattr(value, each.name)) for each in fields(value))
    return sum(map(_weigh, value)) if isinstance(value, list | tuple) else 0


_OURS = ("Part", "Packed", "Rows", "OpenNodes", "PackedNodes", "Histograms")
for _kind in (Demonstrations, Lesson, ridge.Lesson, *(getattr(growing, name) for name in _OURS)):
    # Dask does not look into objects of ours: it would move them, and keep them in memory, as if they weighed nothing.
    sizes.sizeof.register(_kind, _weigh)


@dataclass(frozen=True)
class _File:
    """A file to read, or a part of one; the name of a sequence that is all of it; and how many rows there are."""

    path: File
    name: str
    rows: int
    part: Part | None = None

    def cut(self, parts: Sequence[Part]) -> list[_File]:
        """Return the parts of a file, or the file where it has none."""
        return [replace(self, part=p, rows=p.rows[1] - p.rows[0]) for p in parts] or [self]

    def read(self, how: dict[str, Any]) -> tuple[Demonstrations, Summary]:
        """Read it as it would be read from the whole file."""
        return read_all(self.path, ReadOptions(**how), self.part)


class _RatesDifferError(Exception):
    """Files of a part have told different rates."""


def _wish(groups: Sequence[int], n: int) -> list[int]:
    """Return the ends of row groups that cut a file best into n parts."""
    ends = np.cumsum(groups)[:-1]
    return sorted({int(ends[np.abs(ends - sum(groups) * i / n).argmin()]) for i in range(1, n)}) if len(ends) else []


def _count_bytes(tables: Sequence[Table]) -> int:
    """Count what frames take in memory, where files tell how many there are."""
    return sum(8 * len(table.columns) * sum(table.groups) for table in tables)


def _find_rate(paths: Sequence[File], how: dict[str, Any]) -> float | None:
    return find_rate(paths, **how)


def _find_parts(file: tuple[File, list[int]], how: dict[str, Any]) -> list[Part]:
    return find_parts(*file, **how)


def _read(files: Sequence[_File], how: dict[str, Any], in_full: bool) -> Demonstrations:
    """Read files; `in_full` puts the name of the file before the names of its sequences."""
    demos: list[Demonstration] = []
    for file in files:
        (stem,) = file_names([file.path])
        for demo in file.read(how)[0]:
            alone = demo.name == stem or demo.name.startswith(f"{stem}/")  # one sequence, or the pieces of one
            rest = demo.name.removeprefix(stem) if alone else f"/{demo.name}"
            demos.append(replace(demo, name=f"{file.name}{rest}") if alone or in_full else demo)
    if len({demo.rate for demo in demos}) > 1:
        raise _RatesDifferError
    return Demonstrations(tuple(demos))


def _differ(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)


def _tell(file: _File, how: dict[str, Any]) -> str:
    """Say what is understood of a file."""
    return str(file.read(how)[1])


def _find_versions(client: Any) -> dict[str, Any]:
    """Ask each worker for its version of us, or for why it has none."""

    def tell() -> str:  # sent as it stands, for there may be no such module
        import simile

        return simile.__version__

    return dict(client.run(tell, on_error="return"))


def _check_versions(found: Mapping[str, Any]) -> None:
    """Refuse workers that would not understand us, or would come to other bits."""
    for worker, version in found.items():
        if version != __version__:
            has = f"version {version}" if isinstance(version, str) else f"none ({version})"
            raise ArgumentError(
                f"client: the worker at {worker} has {has} of smooth-imitation, and this process has {__version__}: "
                f"start workers where `pip install 'smooth-imitation[dask]=={__version__}'` was done"
            )


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Connect to the scheduler at an address, or start a cluster on this machine for "local", with a worker a core."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # what Dask drops when it is interrupted
    if address == "local":
        how = {"n_workers": os.cpu_count() or 1, "threads_per_worker": 1, "dashboard_address": ":0"}
        how["preload"] = [f"{__package__}.patient"]
        with (
            # What goes wrong is raised here, as a sentence; workers would add their tracebacks.
            dask.LocalCluster(**how, silence_logs=logging.CRITICAL) as cluster,
            dask.Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = dask.Client(address, timeout=PATIENCE)
    except (OSError, ValueError, TypeError) as error:  # TimeoutError among them
        raise ArgumentError(
            f"dask: no scheduler answers at {address!r} ({error}): start one with `dask scheduler` and give its "
            "address, as tcp://host:8786, or use 'local'"
        ) from None
    with client:
        if not client.nthreads():
            where = client.scheduler_info()["address"]
            print(f"waiting for workers: start some with `dask worker {where}`", file=sys.stderr)  # noqa: T201
            client.wait_for_workers(1)
        yield client
