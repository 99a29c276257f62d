"""The next version of the policy that is served: learned from its recording, judged by the gate, and put to work.

Which policy and which recording is said when the studio is started (`--improve POLICY FOLDER`): no page names a file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simile._common.files import read_stamp
from simile._common.web import RequestError
from simile.errors import ArgumentError, SimileError
from simile.studio.child_tasks import run_in_child
from simile.studio.workspace import Data

PATIENCE = 3600.0  # seconds for a version to be learned
NOTHING = "the studio was not told what to improve: start it with --improve POLICY FOLDER"


class Improving:
    """One policy, and the version of it that is being learned, or waits.

    Parameters
    ----------
    paths : (Path, Path), optional
        The policy file that a service serves, and the folder that it records to; ArgumentError where they are none.
    max_memory : float, optional
        MB that the process which learns may take.
    """

    def __init__(self, paths: tuple[Path, Path] | None = None, max_memory: float | None = None) -> None:
        self.policy: Path | None
        self.recording: Path | None
        self.policy, self.recording = (None, None) if paths is None else paths
        if paths is not None:
            _check(*paths)
        self.max_memory = max_memory
        self._task: asyncio.Task[None] | None = None
        self._found: dict[str, Any] = {"status": "none", "error": None}
        self._putting = asyncio.Lock()
        self._seen: tuple[object, str] | None = None  # the policy file when it was looked at, and its digest

    async def describe(self) -> dict[str, Any]:
        """Return what a page shows of it."""
        if self.policy is None:
            return {"policy": None, **self._found}
        found = self._found
        if "digest" in found:
            found = await asyncio.to_thread(self._follow, self.policy, found)
        return {"policy": self.policy.name, **found}

    def begin(self, data: Data, left_out: Sequence[dict[str, Any]]) -> None:
        """Learn a new version from demonstrations and from the recording, without the stretches that were left out."""
        if self.policy is None or self.recording is None:
            raise RequestError(404, NOTHING)
        if self._found["status"] == "running":
            raise RequestError(409, "a version is being learned already: wait for its verdict")
        self._found = {"status": "running", "error": None}
        wanted = {"policy": str(self.policy), "recording": str(self.recording), "left_out": list(left_out)}
        self._task = asyncio.create_task(self._learn({**wanted, "paths": data.paths, "options": data.options}))

    async def put_to_work(self) -> None:
        """Put the version that was learned to work: the service takes it over without a jump."""
        from simile.policies.ledger import Ledger

        async with self._putting:
            found = await self.describe()
            if found["status"] == "outdated":
                raise RequestError(409, f"another version of {found['policy']} is at work by now: improve again")
            if self.policy is None or found["status"] != "done":
                raise RequestError(409, "there is no new version: improve first")
            reason = f"from the live page; {found['decision']['reason']}"
            await asyncio.to_thread(Ledger(self.policy).accept, found["digest"], reason=reason)

    async def close(self) -> None:
        """End what is being learned."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _learn(self, wanted: dict[str, Any]) -> None:
        try:
            found = await run_in_child("improve", self.max_memory, patience=PATIENCE, **wanted)
        except (SimileError, RequestError, OSError) as error:
            found = {"status": "failed", "error": str(error)}
        if found["error"] is not None:
            found = {"status": "failed", "error": self._hide_paths(found["error"])}
        self._found = found

    def _follow(self, policy: Path, found: dict[str, Any]) -> dict[str, Any]:
        """Say what became of a version: others put one to work, and roll back, while a page is open."""
        from simile.policies.ledger import Ledger

        stamp = read_stamp(policy)
        try:
            if self._seen is None or self._seen[0] != stamp:
                self._seen = stamp, Ledger(policy).at_work
        except SimileError as error:
            return {**found, "status": "failed", "error": self._hide_paths(str(error))}
        # Whatever is neither has not been compared with the version that was learned.
        known = {found["against"]: "done", found["digest"]: "at work"}
        return {**found, "status": known.get(self._seen[1], "outdated")}

    def _hide_paths(self, sentence: str) -> str:
        """Return a sentence with the names of files alone."""
        for path in (self.policy, self.recording):
            sentence = sentence if path is None else sentence.replace(str(path), path.name)
        return sentence


def _check(policy: Path, recording: Path) -> None:
    """Refuse what cannot be improved, before anybody has taken over for nothing."""
    from simile.online.journals import NAME
    from simile.policies.storage.loading import read_header

    try:
        read_header(policy)
        there = [path.name for path in recording.iterdir() if not path.name.startswith(".")]
    except (SimileError, OSError) as error:
        raise ArgumentError(f"--improve: {error}: name the policy that is served, and the folder of --record") from None
    if there and not any(map(NAME.fullmatch, there)):
        raise ArgumentError(
            f"--improve: {recording} is no recording: name the folder that `simile serve --record` writes to"
        )
