"""The versions of a policy: every one is kept, and a ledger says which took another's place, why, and who said so.

Beside `policy.safetensors` lies the folder `policy.safetensors.versions`, with a file for each version, called by its
digest, and `ledger.jsonl`, a line for each thing that happened. Nothing in it is ever deleted or written over.
"""

from __future__ import annotations

import getpass
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from simile._common import locks
from simile._common.files import LONGEST, clear_leftovers, read_bytes, read_text, write_atomically
from simile._common.text import escape, plain, table
from simile.errors import ArgumentError, StorageError
from simile.policies.policies import Policy
from simile.policies.storage.loading import read_header, save_own

LEDGER, LOCK = "ledger.jsonl", ".lock"
FOUND, CANDIDATE, ACCEPTED, FORCED, BACK = "found", "candidate", "accepted", "put to work", "rolled back"
AT_WORK = (FOUND, ACCEPTED, FORCED, BACK)  # after which a version is at work
OFFERED = (CANDIDATE, ACCEPTED)  # of a version that is new
GATE = "the gate"  # who accepts where nobody else does
SHOWN = 12  # letters of a digest
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Line:
    """One thing that happened to a policy.

    Attributes
    ----------
    digest : str
        Of the version that it is about.
    event : {"found", "candidate", "accepted", "put to work", "rolled back"}
        "found" is a policy that somebody else put there; after all but "candidate" the version is at work.
    when : str
        ISO 8601, UTC.
    who : str
        Who decided: "the gate", or a user.
    reason : str
        Why, in a sentence.
    replaced : str, optional
        Digest of the version that was at work before.
    parents : tuple of str
        Digests of what it was learned from: the policy that it goes on from.
    facts : mapping
        What else is known, as plain JSON values: digests of the data and corrections, scores.
    """

    digest: str
    event: str
    when: str
    who: str
    reason: str = ""
    replaced: str | None = None
    parents: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Version:
    """A version of a policy: what the ledger says of it, the latest last."""

    digest: str
    lines: tuple[Line, ...]
    at_work: bool

    @property
    def state(self) -> str:
        """At work, or what happened to it last."""
        return "at work" if self.at_work else "candidate" if self.lines[-1].event == CANDIDATE else "was at work"


@dataclass(frozen=True)
class Ledger:
    """The versions of a policy file; prints as a table.

    Parameters
    ----------
    path : Path
        The policy file, which holds the version at work.
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))

    @property
    def folder(self) -> Path:
        """Where the versions are."""
        return self.path.with_name(f"{self.path.name}.versions")

    @property
    def at_work(self) -> str:
        """Digest of the policy file."""
        return str(read_header(self.path)["digest"])

    def file_of(self, digest: str) -> Path:
        """Return where a version is kept."""
        return self.folder / f"{digest}.safetensors"

    def lines(self) -> tuple[Line, ...]:
        """Read the ledger; nothing where there is none yet."""
        file = self.folder / LEDGER
        try:
            text = read_text(file, longest=LONGEST)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError) as error:
            raise StorageError(f"{file} cannot be read as a ledger: {error}") from None
        return tuple(_parse(line, f"{file}, line {i + 1}") for i, line in enumerate(text.splitlines()) if line.strip())

    def versions(self) -> tuple[Version, ...]:
        """Return all versions, in the order in which they came; none where there is no ledger yet."""
        at_work = self.at_work
        by_digest: dict[str, list[Line]] = {}
        for line in self.lines():
            by_digest.setdefault(line.digest, []).append(line)
        if by_digest:  # the file may have been replaced by hand
            by_digest.setdefault(at_work, [Line(at_work, FOUND, "", "", "it was put there, and is in no ledger yet")])
        return tuple(Version(digest, tuple(lines), digest == at_work) for digest, lines in by_digest.items())

    def find(self, digest: str) -> str:
        """Return the digest of a version, given how it begins."""
        known = [version.digest for version in self.versions()]
        found = [one for one in known if digest and one.startswith(digest.lower())]
        if len(found) != 1:
            said, some = ", ".join(one[:SHOWN] for one in known) or "none yet", len(found) or "none"
            raise ArgumentError(
                f"digest must name one version of {self.path}; {digest!r} names {some}: there are {said}"
            )
        return found[0]

    def offer(
        self,
        policy: Policy,
        *,
        accepted: bool,
        reason: str,
        facts: Mapping[str, Any] | None = None,
        who: str = GATE,
        parent: str | None = None,
    ) -> str:
        """Keep a new version, and put it to work where it was accepted; returns its digest.

        The policy file is replaced in one step; whoever watches it, as the service does, takes it over.

        Parameters
        ----------
        parent : str, optional
            Digest of the version that it was learned from and compared with; by default the one at work. Where another
            has taken its place meanwhile, the new version is kept as a candidate, for nobody has compared these two.
        """
        with self._held():
            old = self._find_current()
            parent = old if parent is None else parent
            new = self.folder / f".new.{os.getpid()}.safetensors"
            try:
                save_own(policy, new)
                digest = str(read_header(new)["digest"])
                if not self.file_of(digest).exists():
                    new.replace(self.file_of(digest))
            finally:
                new.unlink(missing_ok=True)
            if accepted and parent != old:
                way_out = f"improve again, or put it to work with `simile accept {self.path} {digest[:SHOWN]}`"
                overtaken = f"version {old[:SHOWN]} took the place of {parent[:SHOWN]}, which it was compared with"
                accepted, reason = False, f"kept as a candidate, for {overtaken}, meanwhile: {way_out}; {reason}"
            event = ACCEPTED if accepted else CANDIDATE
            if accepted:
                self._put(digest)
            self._write(self._line(digest, event, who, reason, old if accepted else None, (parent,), facts))
        return digest

    def accept(self, digest: str, *, who: str | None = None, reason: str = "") -> str:
        """Put a version to work, whatever the gate has said; the ledger says who did."""
        return self._change(self.find(digest), FORCED, who, reason)

    def roll_back(self, digest: str | None = None, *, who: str | None = None, reason: str = "") -> str:
        """Put an earlier version back to work: the one with this digest, or the one before that at work."""
        lines, at_work = self.lines(), self.at_work
        if digest is None:
            way = _trace(lines, at_work)
            if len(way) < 2:
                raise ArgumentError(f"{self.path}: there is no version before {at_work[:SHOWN]} to go back to")
            return self._change(way[-2], BACK, who, reason)
        found = self.find(digest)
        if found not in {at_work, *(line.digest for line in lines if line.event in AT_WORK)}:
            raise ArgumentError(
                f"digest {found[:SHOWN]} has never been at work, so that there is no way back to it: put it to work "
                f"with `simile accept {self.path} {found[:SHOWN]}`"
            )
        return self._change(found, BACK, who, reason)

    def __str__(self) -> str:
        columns = (("version", SHOWN, "<"), ("state", 11, "<"), ("when", 20, "<"), ("who", 8, "<"))
        rows = [
            (v.digest[:SHOWN], v.state, last.when, escape(last.who), f"  {escape(last.reason)}")
            for v in self.versions()
            for last in v.lines[-1:]
        ]
        return (
            "\n".join(table(columns, rows)) if rows else f"{self.path} has no versions yet: `simile improve` makes some"
        )

    def _change(self, digest: str, event: str, who: str | None, reason: str) -> str:
        with self._held():
            old = self._find_current()
            if digest == old:
                raise ArgumentError(f"{self.path}: version {digest[:SHOWN]} is at work already")
            self._check(digest)
            self._put(digest)
            self._write(self._line(digest, event, name_user() if who is None else who, reason, old))
        return digest

    def _check(self, digest: str) -> None:
        """Refuse a version whose file is gone, or another one's."""
        file = self.file_of(digest)
        if not file.exists():
            raise StorageError(f"{file} is missing: the ledger knows this version, and its file is gone")
        if read_header(file)["digest"] != digest:
            raise StorageError(f"{file} holds another policy than its name says: it was written over")

    def _put(self, digest: str) -> None:
        """Replace the policy file: before the ledger says so, for it must not tell of what failed."""
        write_atomically(self.path, read_bytes(self.file_of(digest)))

    def _find_current(self) -> str:
        """Return the digest of the version at work, which is kept and noted where it is new here."""
        digest = self.at_work
        if not self.file_of(digest).exists():
            write_atomically(self.file_of(digest), read_bytes(self.path))
        last = next((line.digest for line in reversed(self.lines()) if line.event in AT_WORK), None)
        if digest != last:
            self._write(self._line(digest, FOUND, name_user(), "it was there", last))
        return digest

    @staticmethod
    def _line(
        digest: str,
        event: str,
        who: str,
        reason: str,
        replaced: str | None,
        parents: tuple[str, ...] = (),
        facts: Mapping[str, Any] | None = None,
    ) -> Line:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return Line(digest, event, now, who, reason, replaced, parents, plain(dict(facts or {})))

    def _write(self, line: Line) -> None:
        """Add a line, in one step: a ledger is small, and nobody should ever see half of a line."""
        file = self.folder / LEDGER
        before = read_bytes(file) if file.exists() else b""
        before += b"" if before.endswith(b"\n") or not before else b"\n"
        write_atomically(file, before + json.dumps(asdict(line)).encode() + b"\n")

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Keep the versions for one change at a time."""
        self.at_work  # noqa: B018 - a file that is no policy is refused before a folder is made
        busy = f"{self.folder} is in use by {{other}}, which changes the versions: try again"
        with locks.hold(self.folder / LOCK, busy):
            clear_leftovers(self.folder)
            self.lines()  # a damaged ledger is not written to
            yield


def name_user() -> str:
    """Return the name of who is at work here."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "unknown"


def _trace(lines: Sequence[Line], at_work: str) -> list[str]:
    """Return the versions at work, one after the other, but for those that were gone back from; the last is at work."""
    way: list[str] = []
    for line in lines:
        if line.event == BACK and line.digest in way:
            while way[-1] != line.digest:
                way.pop()
        elif line.event in AT_WORK and way[-1:] != [line.digest]:
            way.append(line.digest)
    return way if way[-1:] == [at_work] else [*way, at_work]


def _parse(text: str, place: str) -> Line:
    try:
        held = json.loads(text)
        line = Line(**{**held, "parents": tuple(held["parents"])})
        texts = (line.digest, line.event, line.when, line.who, line.reason, *line.parents)
        if not all(isinstance(one, str) for one in texts) or not _DIGEST.fullmatch(line.digest):
            raise TypeError("no digest")
        if line.event not in (CANDIDATE, *AT_WORK):
            raise ValueError("no event")
        if line.replaced is not None and not _DIGEST.fullmatch(line.replaced):
            raise TypeError("no digest")
    except (KeyError, TypeError, ValueError, RecursionError):
        raise StorageError(
            f"{place} is no line of a ledger of versions: it is damaged, or was written by something else: mend the "
            "line, or move the file away; versions themselves lie beside it"
        ) from None
    return line
