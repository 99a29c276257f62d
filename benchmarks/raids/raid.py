"""What attacks share: a folder, a policy to serve, chance, and the list of all of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Raid:
    """One round of attacks.

    Parameters
    ----------
    folder : Path
        For files; each attack gets one of its own.
    quick : bool
        Whether to do as little as still shows something.
    seed : int
        Of all that is drawn.
    """

    folder: Path
    quick: bool
    seed: int
    floods: list[list[str]] = field(default_factory=list)  # rows of latencies, quiet and flooded

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def amount(self, full: int, quick: int) -> int:
        """Return how many, in full or quickly."""
        return quick if self.quick else full

    @property
    def policy(self) -> Path:
        """A policy file in the folder at hand, made once: six contexts, one action, 30 Hz."""
        made, here = self.folder.parent / "policy.safetensors", self.folder / "policy.safetensors"
        if not made.exists():
            make_policy(made)
        if not here.exists():
            here.write_bytes(made.read_bytes())
        return here


Attack = Callable[[Raid], str]  # returns what held, or raises Broken


@dataclass(frozen=True)
class Entry:
    """An attack in the list."""

    name: str
    point: str
    run: Attack
    timed: bool  # whether its verdict is about time, and so about the machine too


ATTACKS: dict[str, Entry] = {}


def attack(name: str, point: str, *, timed: bool = False) -> Callable[[Attack], Attack]:
    """Put an attack on the list."""

    def enter(function: Attack) -> Attack:
        ATTACKS[name] = Entry(name, point, function, timed)
        return function

    return enter


def make_policy(path: Path, **options: Any) -> None:
    """Learn a small policy and save it, as its rightful author would."""
    import simile

    demos = simile.tasks.pursuit(n_sequences=4, length=200, seed=0)
    settings: dict[str, Any] = {"model": simile.SmoothForest(n_trees=4), "horizon": simile.Horizon(4, 2), **options}
    simile.clone(demos, smoothness=20.0, **settings).policy.save(path)


CONTEXT = [0.5, -1.0, 2.0, 0.25, 3.5, -2.0]  # of that policy
