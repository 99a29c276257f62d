"""The policy file that is served: read, checked, told about without saying where it lies, and watched."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simile.errors import SimileError, StorageError
from simile.policies.policies import Policy, timing
from simile.policies.storage.loading import load, read_header
from simile.serving.monitoring import Baseline, Thresholds
from simile.serving.openapi import PolicyFacts

TRIES = 5  # to read a file that is replaced meanwhile


@dataclass(frozen=True, eq=False)
class LoadedPolicy:
    """A policy, the digest of its file, and what may be told of it to anybody."""

    policy: Policy
    digest: str
    facts: PolicyFacts


def load_policy(path: Path, trust: Collection[str] = (), max_memory: float | None = None) -> LoadedPolicy:
    """Read a policy file, with every check of `simile.load`; the facts and the policy are of the same file."""
    for _ in range(TRIES):
        header = read_header(path, max_memory=max_memory)
        policy = load(path, trusted=trust, max_memory=max_memory)
        if read_header(path, max_memory=max_memory)["digest"] == header["digest"]:
            return LoadedPolicy(policy, header["digest"], _describe(policy, header))
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
        hold=structure.get("hold"),
        stepping=structure.get("stepping"),
        offset=structure.get("offset"),
        fade=structure.get("fade"),
        lead=timing(policy)[0],
        digest=header["digest"],
        drift="known" if Baseline.of(policy, (), Thresholds()).drift_known else "unknown",
    )


def hide_path(error: SimileError | OSError, path: Path) -> str:
    """Return what an error says, for somebody who need not know where the file lies."""
    return str(error).removeprefix(f"{path}: ").replace(str(path), "the policy file")
