"""torch, and what keeps its results the same whatever it has done before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from simile._common.needs import need
from simile.errors import ArgumentError


def require() -> Any:
    """Return torch."""
    return need("torch", "a network")


def device_of(name: str | None) -> Any:
    """Return a device that is there; None for the GPU where there is one, else the CPU."""
    torch = require()
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ArgumentError(f"device must be there; got {name!r}, and torch sees no such GPU: use device='cpu' or None")
    return torch.device(name)


@contextmanager
def one_thread() -> Iterator[None]:
    """Calculate on one thread, for the same bits on any machine with these cores."""
    torch = require()
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def full_precision() -> Iterator[None]:
    """Multiply in float32 as it is: by default a GPU rounds what goes into a recurrent unit to ten bits or so."""
    backends = require().backends.cudnn
    before = backends.allow_tf32
    backends.allow_tf32 = False
    try:
        yield
    finally:
        backends.allow_tf32 = before


@contextmanager
def seed_torch(seed: int) -> Iterator[None]:
    """Seed torch's own random numbers, for initial weights and dropout, and leave them as they were."""
    torch = require()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=devices), one_thread():
        torch.manual_seed(seed)
        yield
