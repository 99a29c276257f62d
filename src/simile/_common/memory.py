"""Memory: how much there is, how much of it one file may take, and a limit on what another process takes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from simile._common import checks

SHARE = 0.5  # of the memory there is, for one file and all that is made of it, where no limit is given
ROOM = 1 << 30  # bytes that libraries may reserve for themselves
UNKNOWN = 8 << 30  # bytes that a machine is taken to have that does not tell
_CGROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")  # of containers, services and jobs of clusters


def measure_memory() -> int:
    """Return the bytes that this process may have: the machine's, the container's or its own limit."""
    found = [UNKNOWN]
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not everywhere
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in _list_limits():
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            found.append(int(path.read_text("ascii")))
    if sys.platform != "win32":
        import resource

        limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
        found += [limit for limit in limits if limit != resource.RLIM_INFINITY]
    return min(found)


def _list_limits() -> Iterator[Path]:
    """Yield the files that may hold a limit of the groups this process is in: those of version 2, and of version 1."""
    try:
        lines = _OWN.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for _, kinds, place in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if not kinds or "memory" in kinds.split(","):
            root = _CGROUPS / "memory" if kinds else _CGROUPS
            inner = root / place.strip("/")
            for folder in (inner, *inner.parents):
                if folder.is_relative_to(root):
                    yield folder / ("memory.limit_in_bytes" if kinds else "memory.max")


def read_limit(max_memory: float | None) -> int:
    """Return the bytes behind an argument `max_memory`, which is in MB; None is a half of what there is.

    >>> read_limit(1.5)
    1500000
    """
    if max_memory is None:
        return int(SHARE * measure_memory())
    return int(checks.number(max_memory, "max_memory", above=0.0, at_most=1e12) * 1e6)


@contextlib.contextmanager
def confined(n_bytes: int) -> Iterator[None]:
    """Let this process have so many bytes more than now, and some for libraries; beyond is a MemoryError, on Linux.

    For commands, which do one thing at a time: the limit holds for all threads.
    """
    if sys.platform != "linux":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    taken = int(Path("/proc/self/statm").read_text("ascii").split()[5]) * resource.getpagesize()
    limits = [taken + n_bytes + ROOM, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def confine(pid: int, n_bytes: int) -> None:
    """Let another process of ours, and those it starts, have so many bytes each, and some for libraries; on Linux."""
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError):  # it may have ended already
            # Not the address space: libraries reserve much more of that than they ever use.
            resource.prlimit(pid, resource.RLIMIT_DATA, (n_bytes + ROOM, n_bytes + ROOM))
