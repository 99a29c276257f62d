"""Snapshots: the past of every stream, so that a service that was stopped, or killed, goes on with all of them.

A snapshot is arrays by name, and plain values in `about`; as a file, one safetensors file that is written whole or not
at all, with a digest of all that it holds, without which nothing in it is used. It belongs to one policy, told by a
digest of that: a past would mean something else to another. Taking one keeps all streams waiting, so it is no more than
copying; what takes longer is left to `write`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct

from simile._common.files import read_bytes, write_atomically
from simile.errors import ArgumentError, StorageError
from simile.online.snapshots import MEASURES
from simile.policies.storage.files import Packed, digest
from simile.serving.messages import LARGEST_N, NAME, By
from simile.serving.sessions import Stream
from simile.serving.switcher import PreparedPolicy

FORMAT, VERSION = "simile-streams", 2  # the first had no digest
# A row for each stream; of these, contexts may hold what is no number: missing, or too large for single precision.
PAST = ("contexts", "actions", "frame", "missed", "begun", "seen", "sent", "moving")
# Of policies that hold still, that remember the start, that wait, and whose contexts wrap: where each stream is.
EXTRA = ("position", "offset", "waited", "turned")
LARGEST_FILE = 2**30  # bytes

Snapshot = dict[str, Any]  # arrays by name, and `about`, a dict of JSON values
Number = Annotated[int, Meta(ge=0, le=LARGEST_N)]


class Facts(Struct):
    """What is known of a stream beside its past; a snapshot has a list of each, with a value for each stream."""

    name: Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z")]
    taken: Number | None
    by: By | None
    slot: Number
    frames: Number
    dropped: Number
    late: Number
    unsent: Number
    lost: Number


FACTS = Facts.__struct_fields__


def take(acting: PreparedPolicy, sessions: Iterable[Stream]) -> Snapshot:
    """Return copies of all that is known of these sessions."""
    if acting.digest is None:
        raise StorageError("the policy cannot be written to a file, so a snapshot could not tell whose it is")
    streams, sessions = acting.streams, list(sessions)
    slots = np.array([stream.slot for stream in sessions], dtype=np.intp)
    state = streams.state(slots)
    about = {
        "format": FORMAT,
        "version": VERSION,
        "digest": acting.digest,
        "measures": _read_measures(state),
        "streams": {fact: [getattr(stream, fact) for stream in sessions] for fact in FACTS},
    }
    return {"about": about, **{name: state[name] for name in _list_past(state)}}


def restore(acting: PreparedPolicy, snapshot: Snapshot) -> tuple[list[Stream], list[str]]:
    """Let new streams go on from a snapshot; returns their sessions, and why others could not."""
    streams = acting.streams
    state = streams.state(streams.everyone[:0])
    about = _check_about(snapshot)
    if acting.digest is None or about["digest"] != acting.digest:
        raise ArgumentError("snapshot: it is of another policy: start without it, or serve the policy it is of")
    if about["measures"] != _read_measures(state):
        raise ArgumentError(
            f"snapshot: it has {about['measures']}, and this service {_read_measures(state)}: start it with the same "
            "stages and rate, or without the snapshot"
        )
    kept, needed = (found["sent"].shape[2:3] for found in (snapshot, state))
    if kept != needed:
        raise ArgumentError(
            f"snapshot: it is of other stages, which keep {sum(kept)} actions, and not {sum(needed)}: start with the "
            "same stages, or without the snapshot"
        )
    n = _count_streams(about["streams"])
    if _list_past(snapshot) != (names := _list_past(state)):
        raise _say_damaged(
            "position must be there just where the policy holds still, offset where it keeps one, waited where it "
            "waits, turned where contexts wrap"
        )
    for name in names:
        past, wanted = snapshot[name], (n, *state[name].shape[1:])
        if past.dtype != state[name].dtype or past.shape != wanted:
            raise _say_damaged(f"{name} must be {state[name].dtype} of shape {wanted}; got {past.dtype} {past.shape}")
    rows, sessions, unfit = _read_streams(about["streams"], snapshot)
    slots = np.array([stream.slot for stream in sessions], dtype=np.intp)
    if (slots >= len(streams.everyone)).any():
        raise ArgumentError(
            f"snapshot: it has a stream in place {slots.max()}, and there is room for {len(streams.everyone)}: raise "
            "--max-streams, or start without the snapshot"
        )
    past = {name: snapshot[name][rows] for name in names}
    streams.load({**state, **past}, slots)
    for stream, begun in zip(sessions, past["begun"], strict=True):
        stream.begun = bool(begun)
    return sessions, unfit


def write(snapshot: Snapshot, path: str | os.PathLike[str]) -> None:
    """Write a snapshot to a file, whole or not at all; slow, and safe in another thread.

    Raises
    ------
    StorageError
        When it cannot be written, for example to a disk that is full; the file that was there is untouched.
    """
    data = to_bytes(snapshot)
    if len(data) > LARGEST_FILE:
        raise StorageError(f"{path} would take {len(data):,} bytes, and {LARGEST_FILE:,} are read: serve fewer streams")
    write_atomically(path, data, secret=True)


def read(path: str | os.PathLike[str]) -> Snapshot:
    """Read a snapshot; whether it fits a service is for `Service.restore` to tell.

    Raises
    ------
    StorageError
        When there is no such file, or it is no snapshot.
    """
    try:
        return from_bytes(read_bytes(path, longest=LARGEST_FILE))
    except ArgumentError as error:
        raise StorageError(f"{path}: {error}") from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def to_bytes(snapshot: Snapshot) -> bytes:
    """Return a snapshot as the bytes of its file."""
    from safetensors.numpy import save

    header = {"about": snapshot["about"], "digest": _digest(snapshot)}
    return save({**snapshot, "about": np.frombuffer(json.dumps(header).encode(), np.uint8)})


def from_bytes(data: bytes) -> Snapshot:
    """Return the snapshot of a file whose digest is right; ArgumentError says what is wrong."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        found = dict(load(data))
        header = json.loads(found["about"].astype(np.uint8).tobytes())
        snapshot: Snapshot = {**found, "about": header.get("about", header)}  # without a digest they were the same
        _check_about(snapshot)
        right = _digest(snapshot) == header["digest"]
    except ArgumentError:
        raise
    except (SafetensorError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise _say_damaged("it is no safetensors file of streams") from error
    if not right:
        raise _say_damaged("the content does not match its digest")
    return snapshot


def set_aside(path: str | os.PathLike[str]) -> Path:
    """Rename a snapshot that cannot be used, so that it is neither loaded nor lost; returns its new name."""
    aside = Path(f"{os.fspath(path)}.old")
    os.replace(path, aside)
    return aside


def _read_measures(state: dict[str, Any]) -> dict[str, Any]:
    """Return what must be the same where a past is taken up; JSON has no NaN."""
    found = {name: state[name] for name in MEASURES if name in state and name != "n_streams"}
    return {name: None if math.isnan(value) else value for name, value in found.items()}


def _digest(snapshot: Snapshot) -> str:
    return digest(Packed({"about": snapshot["about"]}, {name: snapshot[name] for name in _list_past(snapshot)}))


def _list_past(state: dict[str, Any]) -> tuple[str, ...]:
    """Return the arrays of a state, or of a snapshot, that are kept."""
    return (*PAST, *(name for name in EXTRA if name in state))


def _count_streams(facts: dict[str, Any]) -> int:
    lengths = {len(column) if isinstance(column, list) else -1 for column in facts.values()}
    if set(facts) != set(FACTS) or len(lengths) > 1 or -1 in lengths:
        raise _say_damaged("some streams lack a value")
    return lengths.pop()


def _read_streams(facts: dict[str, Any], past: Snapshot) -> tuple[list[int], list[Stream], list[str]]:
    """Build the sessions that `take` has described; returns their rows, the sessions, and why others cannot be.

    One that is not as it should be costs the others nothing, for whoever sends its frames had a hand in it.
    """
    rows, sessions, unfit = list[int](), list[Stream](), list[str]()
    taken: set[str | int] = set()
    for row, values in enumerate(zip(*(facts[fact] for fact in FACTS), strict=True)):
        try:
            found = msgspec.convert(dict(zip(FACTS, values, strict=True)), Facts)
            if taken & {found.name, found.slot}:
                raise msgspec.ValidationError("another stream has its name or its place")
            if wrong := next((name for name in _list_past(past)[1:] if not _is_sane(past[name][row], name)), None):
                raise msgspec.ValidationError(f"{wrong} holds what is no number, or below 0")
        except msgspec.ValidationError as error:
            unfit.append(f"stream {str(values[0])[:64]!r}: {error}")
            continue
        stream = Stream(found.name, found.slot)
        for fact in FACTS:
            setattr(stream, fact, getattr(found, fact))
        stream.n = stream.received = stream.taken
        rows.append(row)
        sessions.append(stream)
        taken |= {found.name, found.slot}
    return rows, sessions, unfit


def _is_sane(past: Any, name: str) -> bool:
    """Tell whether a stream can go on from these actions or counts; an offset that is no number is taken anew."""
    known = np.isfinite(past) | (np.isnan(past) & (name == "offset"))
    return bool(known.all() and (past.dtype.kind != "i" or (past >= 0).all()))


def _check_about(snapshot: Snapshot) -> dict[str, Any]:
    if set(snapshot) != {"about", *_list_past(snapshot)}:
        raise _say_damaged("it does not hold what a snapshot holds")
    about = snapshot["about"]
    if not isinstance(about, dict) or about.get("format") != FORMAT or not isinstance(about.get("streams"), dict):
        raise _say_damaged("its description is of something else")
    version = about.get("version")
    if version == 1:
        raise ArgumentError(
            "snapshot: it is of version 1 of the format, which had no digest, so that nobody would notice damage: "
            "start without it"
        )
    if version != VERSION:
        raise ArgumentError(f"snapshot: version {version!r} of the format; this simile reads {VERSION}")
    return {"digest": None, "measures": None, **about}


def _say_damaged(what: str) -> ArgumentError:
    return ArgumentError(f"snapshot: {what}: it is damaged, or of something else: start without it")
