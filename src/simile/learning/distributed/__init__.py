"""Learning from demonstrations in parts that lie elsewhere: each line of Algorithm 1 runs where a part is."""

from __future__ import annotations

from simile._common import checks
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.errors import ArgumentError
from simile.learning.distributed.backend import Backend
from simile.learning.distributed.demonstrations import DistributedDemonstrations
from simile.learning.distributed.problem import DistributedProblem  # which registers how a problem is posed there

__all__ = ["DistributedDemonstrations", "DistributedProblem", "SpreadDemonstrations", "place"]

SpreadDemonstrations = DistributedDemonstrations  # as they were called before


MOST = 2**28  # bytes of frames that are brought here for what cannot be done elsewhere


def bring_here(
    demos: Demonstrations | Demonstration | DistributedDemonstrations, who: str, most: int = MOST
) -> Demonstrations:
    """Bring demonstrations here for whoever wants all of them in one place, unless there are too many."""
    if not isinstance(demos, DistributedDemonstrations):
        return Demonstrations.of(demos)
    size = 8 * demos.n_frames * (demos.n_contexts + demos.n_actions)
    if size > most:
        raise ArgumentError(
            f"demos: {who} wants them in one place, and brings up to {most >> 20} MiB of those with a backend; got "
            f"{size >> 20} MiB: give some of them, demos.draw({most}), or simile.learn, which goes to where they are"
        )
    return demos.gather()


def place(
    demos: Demonstrations | Demonstration | DistributedDemonstrations, backend: Backend | None
) -> Demonstrations | DistributedDemonstrations:
    """Take demonstrations as they come, and cut them into parts where there is a backend."""
    if isinstance(demos, DistributedDemonstrations):
        return demos
    if backend is not None:
        checks.instance(backend, "backend", needs="total")
    if backend is not None and Demonstrations.of(demos).weights is not None:
        raise ArgumentError("demos must have no weights with a backend, which lets all frames count alike")
    return Demonstrations.of(demos) if backend is None else DistributedDemonstrations.of(demos, backend)
