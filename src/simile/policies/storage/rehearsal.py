"""Rehearsals: what another library makes of a file is tried in a child process before it is made here.

Such libraries trust what they are given: a wrong size can end the process that asks them. There it is a refusal.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simile._common import memory, text
from simile.errors import StorageError

PATIENCE = 60.0  # seconds
# The child looks for modules where this process does; -P keeps it from looking elsewhere before it knows.
_CODE = (
    "import json, sys; asked = json.load(sys.stdin); sys.path[:] = asked.pop('modules'); "
    "from simile.policies.storage import rehearsal; rehearsal.perform(**asked)"
)
_ONE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # each thread takes memory


def rehearse(path: str | os.PathLike[str], digest: str, types: Sequence[str], limit: int) -> None:
    """Have a child process build the policy in a file, and ask it, in `limit` bytes and within PATIENCE.

    Types of `__main__` are this very program's: no other process could build them, so none is asked.

    Raises
    ------
    StorageError
        When the child refuses the file, crashes, takes too long, or finds another file there.
    """
    if any(name.startswith("__main__.") for name in types):
        return
    asked = {"path": str(Path(path).absolute()), "digest": digest, "types": [*types], "limit": limit}
    asked["modules"] = [entry for entry in sys.path if isinstance(entry, str)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SIMILE_")}  # no secrets
    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**kept, **_ONE},
        )
    except (OSError, TypeError) as error:  # TypeError: a program without an interpreter of its own
        raise StorageError(
            f"a child process to try its models of other libraries cannot be started: {error}"
        ) from error
    with child:
        try:
            memory.confine(child.pid, limit)
            said, _ = child.communicate(json.dumps(asked).encode(), PATIENCE)
        except subprocess.TimeoutExpired:
            raise _refuse(f"took more than {PATIENCE:g} seconds") from None
        finally:
            child.kill()
    if child.returncode != 0 or not said:
        raise _refuse(f"ended it {_name_end(child.returncode)} (it may have {text.size(limit)} of memory)")
    if problem := json.loads(said)["problem"]:
        raise StorageError(problem)


def perform(path: str, digest: str, types: Sequence[str], limit: int) -> None:
    """Do what is asked of the child: its answer is a line of JSON, with the problem or null."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever models print is no answer
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the memory of a crash is of no use to anybody
    from simile.policies.storage import loading

    problem: Any = None
    try:
        loading.build(path, digest, types, limit)
    except StorageError as error:
        problem = str(error)
    answer.write(json.dumps({"problem": problem}))
    answer.close()


def _refuse(what: str) -> StorageError:
    return StorageError(
        f"its models of other libraries were tried in a child process, and building or asking them {what}: "
        "nothing of it was built here: get a sound file from where it came"
    )


def _name_end(code: int) -> str:
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"with exit code {code}"
