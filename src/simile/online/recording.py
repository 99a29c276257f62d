"""Recording: what streams saw, what was sent, and who acted, kept as files that `simile.read` takes as demonstrations.

Whoever acts notes frames at the price of a few copies; a thread of its own makes columns of them, and waits for the
disk.
What cannot be kept is counted, and never keeps anybody from acting.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from simile._common import checks
from simile._common.needs import need
from simile._common.typing import FloatArray
from simile.data.reading.tables import Roles
from simile.errors import ArgumentError
from simile.online.journals import JournalFolder, check_timing, columns_of, name_roles
from simile.online.tracks import Block, Track
from simile.policies.cards import Card
from simile.policies.policies import Policy, timing
from simile.policies.storage.files import digest_of

WRITE_EVERY = 0.5  # seconds
MOST_WAITING = 64 << 20  # bytes of a track that wait for the thread
LEAST_LIMIT = 1.0  # MB
NICENESS = 10  # of the thread, where a thread can have one: whoever acts comes first

log = logging.getLogger("simile.recording")


class Recorder:
    """Writes what streams see and do into a folder; give it to a `Predictor`, a `PredictorPool` or a `Service`.

    Files are `recording-NNNNNN.parquet`, of bounded size; the one being written is an Arrow IPC stream,
    `recording-NNNNNN.arrows`, to which all that came in the last half second is added at once. After `kill -9` the rest
    reads. `simile.read(folder)` takes what a person did, at any time, and all of it with `as_is=True`. A row is a
    frame: `sequence` (the stream and the moment at which it began), `n`, `t` (Unix seconds), the contexts, the actions
    that were sent, `who` acted ("policy", "operator", "gap", or "waiting" where nothing was sent yet), whether a stage
    `limited` the action, the digest of the `policy`, and the `event`s told since the frame before (JSON, one a line).
    That is what happened at a moment; of a policy with a lead the action is for another frame, and the files say so:
    `simile.read` puts each action beside the contexts of the frame that it is for.

    Parameters
    ----------
    folder : path
        Where to; it is held by a lock, and its owner's alone.
    limit : float, optional
        MB that the files may take, at least 1; the oldest go first, with a warning, and the newest stays. None for no
        limit.
    leave_out : sequence of str
        Contexts whose values are not kept: they are missing in the recording.
    hashed : sequence of str
        Contexts of which a keyed hash is kept instead of the value. The key is drawn anew in every process and kept
        nowhere: equal values are equal within one run, and no value can be told from its hash.

    Attributes
    ----------
    rows, lost, failures, removed : int
        Frames that came onto the disk, frames that could not be kept or were removed with the file that was being
        written, writes that failed, files that had to go.
    failing : bool
        Whether the last write failed.
    digest : str or None
        Of the policy's file, for whoever knows it; else it is computed of the policy.

    Examples
    --------
    >>> import simile, tempfile
    >>> demos = simile.tasks.pursuit(n_sequences=2, length=100, seed=0)
    >>> policy = simile.clone(demos, model=simile.SmoothForest(n_trees=3), horizon=simile.Horizon(2, 0)).policy
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Recorder(folder) as recorder:
    ...         predictor = simile.Predictor(policy, recorder=recorder)
    ...         actions = [predictor.step(x) for x in demos[0].contexts]
    ...     recorded = simile.read(folder, as_is=True, quiet=True)
    >>> bool(np.array_equal(recorded[0].actions, actions))
    True
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        limit: float | None = None,
        leave_out: Sequence[str] = (),
        hashed: Sequence[str] = (),
    ) -> None:
        need("pyarrow", "recording")
        self.folder = Path(folder)
        self.limit = None if limit is None else checks.number(limit, "limit", at_least=LEAST_LIMIT)
        self.leave_out, self.hashed = tuple(leave_out), tuple(hashed)
        if both := next((name for name in self.leave_out if name in self.hashed), None):
            raise ArgumentError(f"hashed: {both!r} is left out already: name it in one of leave_out and hashed")
        self.rows = self.lost = self.failures = 0
        self.failing = False
        self.digest: str | None = None
        self.most_waiting = MOST_WAITING
        self._roles: Roles | None = None  # of the columns, for all policies
        self._key = secrets.token_bytes(32)
        self._tracks: list[Track] = []
        self._store: JournalFolder | None = None
        self._thread: threading.Thread | None = None
        self._wake, self._flushed = threading.Event(), threading.Condition()
        self._closing = False
        self._unheard = False  # whether the next frame comes after the end, as none did before
        self._asked = self._done = 0  # flushes
        self._counting = threading.Lock()  # of lost frames and of moments, by several threads
        self._moment = 0  # microseconds at which the last stream began
        self._wall = time.time() - time.monotonic()  # so that the time never goes back
        _ALL.add(self)

    @property
    def removed(self) -> int:
        """How many files the limit has cost."""
        return 0 if self._store is None else self._store.removed

    def track(self, policy: Policy, *, rate: float | None = None, digest: str | None = None) -> Track:
        """Return what notes the streams of a policy; all tracks of a recorder have the same columns.

        Parameters
        ----------
        policy : Policy
            What acts; its card has the names.
        rate : float, optional
            Frames a second.
        digest : str, optional
            Of the policy's file; by default the recorder's, or that which it would have.

        Raises
        ------
        ArgumentError
            When columns, lead or rate are not those of the folder, or of the tracks before, or there are names that
            cannot be.
        """
        roles = name_roles(*_name_columns(policy), rate, timing(policy)[0])
        if self._closing:
            raise ArgumentError("recorder: it is closed: make a new one")
        if self._roles is None:
            self._open(roles)
        else:
            self._check(roles, self._roles)
        found = Track(self, digest or self.digest or digest_of(policy), *map(len, columns_of(roles)))
        self._tracks.append(found)
        return found

    def check_rate(self, rate: float | None) -> None:
        """Refuse another rate than that of the tracks, for a policy that is to take over from theirs."""
        if self._roles is not None:
            self._check(replace(self._roles, rate=rate), self._roles)

    @staticmethod
    def _check(ours: Roles, theirs: Roles) -> None:
        way_out = "use a recorder, and a folder, of its own"
        check_timing(ours, theirs, "it records", way_out)
        if columns_of(ours) != columns_of(theirs):
            there, here = (", ".join(sum(columns_of(roles), ())) for roles in (theirs, ours))
            raise ArgumentError(f"recorder: it records {there}, and this policy has {here}: {way_out}")

    def flush(self) -> None:
        """Wait until all that was noted is on the disk, or counted as lost."""
        if self._thread is None or not self._thread.is_alive():
            return
        with self._flushed:
            self._asked += 1
            wanted = self._asked
            self._wake.set()
            self._flushed.wait_for(lambda: self._done >= wanted)

    def close(self) -> None:
        """Write what is left, make the last file whole, and leave the folder to others."""
        atexit.unregister(self.close)
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------- callers' threads

    def now(self) -> float:
        """Return the time in Unix seconds, by a clock that never goes back."""
        return self._wall + time.monotonic()

    def lose(self, frames: int) -> None:
        """Count frames that cannot be kept."""
        with self._counting:
            self.lost += frames
            unheard, self._unheard = self._unheard, False
        if unheard:
            log.warning(
                "the recorder of %s was closed, or is that of the process before a fork: frames that are noted from "
                "now on are counted as lost",
                self.folder,
            )

    def name_sequence(self, name: str) -> str:
        """Return what a stream that begins now is called in the recording: no other has this name."""
        with self._counting:
            self._moment = begun = max(self._moment + 1, int(1e6 * self.now()))
        moment = datetime.fromtimestamp(begun // 1_000_000, UTC).replace(microsecond=begun % 1_000_000)
        return f"{name} {moment.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}"

    def _open(self, roles: Roles) -> None:
        contexts, actions = columns_of(roles)
        for argument, names in (("leave_out", self.leave_out), ("hashed", self.hashed)):
            if odd := next((name for name in names if name not in contexts), None):
                reason = (
                    "it is an action, which a demonstration needs"
                    if odd in actions
                    else f"the contexts are {', '.join(contexts)}"
                )
                raise ArgumentError(f"{argument}: {odd!r} is no context: {reason}")
        self._store = JournalFolder(self.folder, self.limit, roles, self.lose)
        self._roles = roles
        self._thread = threading.Thread(target=self._work, name="simile recorder", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _abandon(self) -> None:
        """End in a child process, which has no thread that would write; what was noted before is the parent's."""
        # Threads that are not there may hold what these were.
        self._counting, self._wake, self._flushed = threading.Lock(), threading.Event(), threading.Condition()
        if self._thread is None or self._store is None:
            return
        self._closing = self._unheard = True
        self._thread = None
        for track in self._tracks:
            track.abandon()
        self._store.abandon()

    # ------------------------------------------------------------------------------------------------------- own thread

    def _work(self) -> None:
        if sys.platform == "linux":
            with suppress(OSError):  # whoever acts may be in real time, which this must not be
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        while not self._closing:
            self._wake.wait(WRITE_EVERY)
            self._wake.clear()
            asked = self._asked
            self._try(self._write, 0)
            self._report_done(asked)
        self._try(partial(self._write, Track.end), 0)
        self._try(self._close_store, 0)
        self._unheard = True
        self._report_done(sys.maxsize)  # nobody need wait any more

    def _report_done(self, flush: int) -> None:
        with self._flushed:
            self._done = flush
            self._flushed.notify_all()

    def _write(self, collect: Callable[[Track], list[Block]] = Track.take) -> None:
        assert self._store is not None
        batches: list[Any] = []
        for track in list(self._tracks):
            self._try(partial(self._collect, track, collect, batches), 0)
        for piece in self._store.cut(batches):
            rows = sum(batch.num_rows for batch in piece)
            if self._try(partial(self._store.append, piece), rows):
                self.rows += rows
                if self._try(self._store.tidy, 0):
                    self._report(failing=False)

    def _collect(self, track: Track, collect: Callable[[Track], list[Block]], batches: list[Any]) -> None:
        for block in collect(track):
            self._try(partial(self._add, track, block, batches), block.length)

    def _add(self, track: Track, block: Block, batches: list[Any]) -> None:
        columns = track.lay_out(block)
        if block.length:
            batches.append(self._build(columns))

    def _close_store(self) -> None:
        assert self._store is not None
        self._store.close()

    def _build(self, part: dict[str, Any]) -> Any:
        """Return a record batch of a block of rows.

        Numbers stay where they are, and little here gives Python's lock away: to get it back, this thread would have
        to take it from whoever acts.
        """
        pa = need("pyarrow", "recording")
        assert self._store is not None
        n = len(part["n"])
        events: Any = pa.nulls(n, pa.string())
        if part["event"]:
            events = pa.array([part["event"].get(row) for row in range(n)], pa.string())
        columns: dict[str, Any] = {"event": events}
        for name in ("sequence", "who", "policy"):
            rows, texts = part[name]
            shared = pa.array(texts, pa.string())
            columns[name] = pa.DictionaryArray.from_arrays(rows.astype(np.int32), shared).dictionary_decode()
        for name in ("n", "t", "limited"):
            columns[name] = pa.array(part[name])
        schema = self._store.schema
        for names, values in zip(columns_of(self._store.roles), (part["X"], part["A"]), strict=True):
            columns |= self._keep(values, names)
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _keep(self, values: FloatArray, names: Sequence[str]) -> dict[str, Any]:
        """Return numbers (n, columns) as columns: null where one is missing, or is not to be kept."""
        pa = need("pyarrow", "recording")
        missing = np.isnan(values.T)
        known = np.packbits(~missing, axis=1, bitorder="little") if missing.any() else [None] * len(names)
        found = {}
        for name, column, bits in zip(names, values.T, known, strict=True):
            if name in self.leave_out:
                found[name] = pa.nulls(len(column), pa.float64())
                continue
            kept = self._hash_all(column) if name in self.hashed else column
            buffers = [None if bits is None else pa.py_buffer(bits), pa.py_buffer(kept)]
            found[name] = pa.Array.from_buffers(pa.float64(), len(kept), buffers)
        return found

    def _hash_all(self, values: FloatArray) -> FloatArray:
        known, rows = np.unique(values, return_inverse=True)
        return np.array([self._hash(value) for value in known.tolist()])[rows]

    def _hash(self, value: float) -> float:
        """Return a whole number of 48 bits that stands for a value; missing stays missing."""
        if value != value:
            return value
        found = hashlib.blake2b(np.float64(value + 0.0).tobytes(), key=self._key, digest_size=6)
        return float(int.from_bytes(found.digest(), "little"))

    def _try(self, act: Callable[[], None], frames: int) -> bool:
        """Do what may fail, and return whether it was done; the frames that it costs are counted."""
        try:
            act()
        except Exception as error:  # whatever it is, whoever acts goes on
            self.failures += 1
            self.lose(frames)
            self._report(failing=True, error=error)
            return False
        return True

    def _report(self, *, failing: bool, error: Exception | None = None) -> None:
        if failing and not self.failing:  # said once; it is tried again and again
            log.warning("the recording cannot be written: %s", error)
        self.failing = failing


_ALL: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _abandon_all() -> None:
    for recorder in _ALL:
        recorder._abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


def _name_columns(policy: Policy) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of contexts and actions; numbered ones where the card does not have them."""
    card = getattr(policy, "card", None) or Card()
    m = policy.n_contexts or len(card.context_names)
    if not m:
        raise ArgumentError("recorder: the policy does not say how many contexts it takes: give n_contexts, or names")
    return _choose_names(card.context_names, m, "x"), _choose_names(card.action_names, policy.n_actions, "a")


def _choose_names(names: Sequence[str], n: int, letter: str) -> tuple[str, ...]:
    return tuple(names) if len(set(names)) == len(names) == n else tuple(f"{letter}{i}" for i in range(n))
