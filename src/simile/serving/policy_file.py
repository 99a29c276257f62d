"""The policy file that is served: read, checked, told about without saying where it lies, and watched."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simile.errors import SimileError, StorageError
from simile.policies.policies import Policy
from simile.policies.storage.loading import load, read_header
from simile.serving.monitoring import Thresholds, Usual
from simile.serving.openapi import PolicyFacts

TRIES = 5  # to read a file that is replaced meanwhile

Mark = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Loaded:
    """A policy, the digest of its file, and what may be told of it to anybody."""

    policy: Policy
    digest: str
    facts: PolicyFacts


def load_policy(path: Path, trust: Collection[str] = ()) -> Loaded:
    """Read a policy file, with every check of `simile.load`; the facts and the policy are of the same file."""
    for _ in range(TRIES):
        header = read_header(path)
        policy = load(path, trusted=trust)
        if read_header(path)["digest"] == header["digest"]:
            return Loaded(policy, header["digest"], _describe(policy, header))
    raise StorageError(f"{path}: it is replaced again and again while it is read: try later")


def _describe(policy: Policy, header: dict[str, Any]) -> PolicyFacts:
    card, structure = policy.card, header["structure"]
    return PolicyFacts(
        contexts=list(card.context_names),
        actions=list(card.action_names),
        rate=card.rate,
        low=structure["low"],
        high=structure["high"],
        smoothness=structure["smoothness"],
        digest=header["digest"],
        drift="known" if Usual.of(policy, (), Thresholds()).drift_known else "unknown",
    )


def without_path(error: SimileError | OSError, path: Path) -> str:
    """Return what an error says, for somebody who need not know where the file lies."""
    return str(error).removeprefix(f"{path}: ").replace(str(path), "the policy file")


def mark_of(path: Path) -> Mark | None:
    """Return what changes when a file does; None where it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
