"""Snapshots: the past of every stream, so that a service that was stopped, or killed, goes on with all of them.

A snapshot is arrays by name, and plain values in `about`; as a file, one safetensors file that is written whole or not
at all. It belongs to one policy, told by a digest: a past would mean something else to another. Taking one keeps all
streams waiting, so it is no more than copying; what takes longer is left to `write`.
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

from simile._common.files import write_atomically
from simile.errors import ArgumentError, StorageError
from simile.online.snapshots import MEASURES
from simile.serving.messages import LARGEST_N, NAME, By
from simile.serving.sessions import Stream
from simile.serving.switcher import PreparedPolicy

FORMAT, VERSION = "simile-streams", 1
PAST = ("contexts", "actions", "frame", "missed", "begun", "seen", "sent", "moving")  # a row for each stream
LARGEST_FILE = 2**30  # bytes

Snapshot = dict[str, Any]  # arrays by name, and `about`, a dict of JSON values
Number = Annotated[int, Meta(ge=0, le=LARGEST_N)]


class Columns(Struct, forbid_unknown_fields=True):
    """What is known of the streams: of each fact, a list with a value for each stream."""

    name: list[Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z")]]
    taken: list[Number | None]
    by: list[By | None]
    slot: list[Number]
    frames: list[Number]
    dropped: list[Number]
    late: list[Number]
    unsent: list[Number]
    lost: list[Number]


FACTS = Columns.__struct_fields__


def take(acting: PreparedPolicy, sessions: Iterable[Stream]) -> Snapshot:
    """Return copies of all that is known of these sessions."""
    if acting.digest is None:
        raise StorageError("the policy cannot be written to a file, so a snapshot could not tell whose it is")
    streams, sessions = acting.streams, list(sessions)
    slots = np.array([stream.slot for stream in sessions], dtype=np.intp)
    state = streams.state()
    about = {
        "format": FORMAT,
        "version": VERSION,
        "digest": acting.digest,
        "measures": _read_measures(state),
        "streams": {fact: [getattr(stream, fact) for stream in sessions] for fact in FACTS},
    }
    return {"about": about, **{name: state[name][slots] for name in PAST}}


def restore(acting: PreparedPolicy, snapshot: Snapshot) -> list[Stream]:
    """Let new streams go on from a snapshot; returns their sessions."""
    streams = acting.streams
    state = streams.state()
    about = _check_about(snapshot)
    if acting.digest is None or about["digest"] != acting.digest:
        raise ArgumentError("snapshot: it is of another policy: start without it, or serve the policy it is of")
    if about["measures"] != _read_measures(state):
        raise ArgumentError(
            f"snapshot: it has {about['measures']}, and this service {_read_measures(state)}: start it with the same "
            "stages and rate, or without the snapshot"
        )
    sessions = _read_streams(about["streams"])
    slots = np.array([stream.slot for stream in sessions], dtype=np.intp)
    names = {stream.name for stream in sessions}
    if len(set(slots.tolist())) < len(slots) or len(names) < len(slots) or (slots < 0).any():
        raise _say_damaged("two streams have one name or slot")
    if (slots >= len(streams.everyone)).any():
        raise ArgumentError(
            f"snapshot: it has a stream in place {slots.max()}, and there is room for {len(streams.everyone)}: raise "
            "--max-streams, or start without the snapshot"
        )
    for name in PAST:
        past, wanted = snapshot[name], state[name][slots]
        if past.dtype != wanted.dtype or past.shape != wanted.shape:
            raise _say_damaged(f"{name} must be {wanted.dtype} of shape {wanted.shape}; got {past.dtype} {past.shape}")
        state[name][slots] = past
    streams.load(state)
    for stream in sessions:
        stream.begun = bool(state["begun"][stream.slot])
    return sessions


def write(snapshot: Snapshot, path: str | os.PathLike[str]) -> None:
    """Write a snapshot to a file, whole or not at all; slow, and safe in another thread.

    Raises
    ------
    StorageError
        When it cannot be written, for example to a disk that is full; the file that was there is untouched.
    """
    from safetensors.numpy import save

    text = np.frombuffer(json.dumps(snapshot["about"]).encode(), np.uint8)
    write_atomically(path, save({**snapshot, "about": text}))


def read(path: str | os.PathLike[str]) -> Snapshot:
    """Read a snapshot; whether it fits a service is for `Service.restore` to tell.

    Raises
    ------
    StorageError
        When there is no such file, or it is no snapshot.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        if Path(path).stat().st_size > LARGEST_FILE:
            raise _say_damaged("it is too large")
        snapshot: Snapshot = dict(load(Path(path).read_bytes()))
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
    except (SafetensorError, KeyError, ValueError) as error:
        raise StorageError(f"{path}: {_say_damaged('it is no safetensors file')}") from error
    try:
        snapshot["about"] = json.loads(snapshot["about"].astype(np.uint8).tobytes())
        _check_about(snapshot)
    except (KeyError, ValueError, RecursionError) as error:
        raise StorageError(f"{path}: {error}") from error
    return snapshot


def set_aside(path: str | os.PathLike[str]) -> Path:
    """Rename a snapshot that cannot be used, so that it is neither loaded nor lost; returns its new name."""
    aside = Path(f"{os.fspath(path)}.old")
    os.replace(path, aside)
    return aside


def _read_measures(state: dict[str, Any]) -> dict[str, Any]:
    """Return what must be the same where a past is taken up; JSON has no NaN."""
    found = {name: state[name] for name in MEASURES if name != "n_streams"}
    return {name: None if math.isnan(value) else value for name, value in found.items()}


def _read_streams(facts: dict[str, Any]) -> list[Stream]:
    """Build the sessions that `take` has described; the file may have been anybody's."""
    try:
        found = msgspec.convert(facts, Columns)
    except msgspec.ValidationError as error:
        raise _say_damaged(f"streams are not described as they should be ({error})") from None
    columns = [getattr(found, fact) for fact in FACTS]
    if len(set(map(len, columns))) > 1:
        raise _say_damaged("some streams lack a value")
    sessions = []
    for name, slot, *values in zip(found.name, found.slot, *columns, strict=True):
        stream = Stream(name, slot)
        for fact, value in zip(FACTS, values, strict=True):
            setattr(stream, fact, value)
        stream.n = stream.received = stream.taken
        sessions.append(stream)
    return sessions


def _check_about(snapshot: Snapshot) -> dict[str, Any]:
    if set(snapshot) != {"about", *PAST}:
        raise _say_damaged("it does not hold what a snapshot holds")
    about = snapshot["about"]
    if not isinstance(about, dict) or about.get("format") != FORMAT or not isinstance(about.get("streams"), dict):
        raise _say_damaged("its description is of something else")
    if about.get("version") != VERSION:
        raise ArgumentError(f"snapshot: version {about.get('version')!r} of the format; this simile reads {VERSION}")
    return {"digest": None, "measures": None, **about}


def _say_damaged(what: str) -> ArgumentError:
    return ArgumentError(f"snapshot: {what}: it is damaged, or of something else: start without it")
