"""The next version of the policy that is served: learned from its recording, judged by the gate, and put to work.

Which policy and which recording is said when the studio is started (`--improve POLICY FOLDER`): no page names a file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simile._common.web import RequestError
from simile.errors import SimileError
from simile.studio.child_tasks import run_in_child
from simile.studio.workspace import Data

PATIENCE = 3600.0  # seconds for a version to be learned
NOTHING = "the studio was not told what to improve: start it with --improve POLICY FOLDER"


class Improving:
    """One policy, and the version of it that is being learned, or waits.

    Parameters
    ----------
    paths : (Path, Path), optional
        The policy file that a service serves, and the folder that it records to.
    max_memory : float, optional
        MB that the process which learns may take.
    """

    def __init__(self, paths: tuple[Path, Path] | None = None, max_memory: float | None = None) -> None:
        self.policy: Path | None
        self.recording: Path | None
        self.policy, self.recording = (None, None) if paths is None else paths
        self.max_memory = max_memory
        self._task: asyncio.Task[None] | None = None
        self._found: dict[str, Any] = {"status": "none", "error": None}

    def describe(self) -> dict[str, Any]:
        """Return what a page shows of it."""
        return {"policy": None if self.policy is None else self.policy.name, **self._found}

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
        if self.policy is None or self._found["status"] != "done":
            raise RequestError(409, "there is no new version: improve first")
        await asyncio.to_thread(self._accept, self.policy)
        self._found = {**self._found, "status": "at work"}

    async def close(self) -> None:
        """End what is being learned."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _accept(self, policy: Path) -> None:
        from simile.policies.ledger import Ledger, tell_overtaken

        ledger, digest, parent = Ledger(policy), self._found["digest"], self._found["parent"]
        if (at_work := ledger.at_work) != parent:
            raise RequestError(
                409,
                f"{tell_overtaken(at_work, parent)}: improve again, or put it to work with `simile accept "
                f"{policy.name} {digest[:12]}`",
            )
        ledger.accept(digest, reason=f"from the live page; {self._found['verdict']['reason']}")

    async def _learn(self, wanted: dict[str, Any]) -> None:
        try:
            found = await run_in_child("improve", self.max_memory, patience=PATIENCE, **wanted)
        except (SimileError, RequestError, OSError) as error:
            found = {"status": "failed", "error": str(error)}
        if found["error"] is not None:
            found = {"status": "failed", "error": self._hide_paths(found["error"])}
        self._found = found

    def _hide_paths(self, sentence: str) -> str:
        """Return a sentence with the names of files alone."""
        for path in (self.policy, self.recording):
            sentence = sentence if path is None else sentence.replace(str(path), path.name)
        return sentence
