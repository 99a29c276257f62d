"""Where the data of a seed come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from simile.data import tasks
from simile.data.demonstrations import Demonstrations

TEST = 0.25  # share of the sequences that are held out


class Source(Protocol):
    """Makes data from a seed; its repr is printed with the results, and its `unit`, if any, on the axes of pictures."""

    def __call__(self, seed: int) -> tuple[Demonstrations, Demonstrations]:
        """Return training and held-out sequences."""


@dataclass(frozen=True)
class CameraSource:
    """The paper's case study, simulated: games seen through noisy detections, and an operator who pans after them."""

    n_games: int = 12
    minutes: float = 0.5
    unit: ClassVar[str] = "degrees"

    def __call__(self, seed: int) -> tuple[Demonstrations, Demonstrations]:
        """Simulate games and hold out a quarter of them."""
        from simile.camera.features import demonstrations
        from simile.camera.simulation import simulate

        return demonstrations(simulate(self.n_games, minutes=self.minutes, seed=seed)).hold_out(TEST, seed=seed)


@dataclass(frozen=True)
class PursuitSource:
    """The built-in task `simile.tasks.pursuit`."""

    n_sequences: int = 16
    length: int = 400
    unit: ClassVar[str] = "degrees"

    def __call__(self, seed: int) -> tuple[Demonstrations, Demonstrations]:
        """Make sequences and hold out a quarter of them."""
        return tasks.pursuit(self.n_sequences, self.length, seed=seed).hold_out(TEST, seed=seed)


@dataclass(frozen=True, eq=False)
class FileSource:
    """Data of one's own: each seed is another random split by sequence, and another seed of the training.

    The seeds then share their data, so the intervals speak of splits and trees, not of new recordings. A single
    sequence is split in time, always at the same frame.
    """

    demos: Demonstrations = field(repr=False)
    test: float = TEST
    unit: str = ""

    def __call__(self, seed: int) -> tuple[Demonstrations, Demonstrations]:
        """Split at random."""
        return self.demos.hold_out(self.test, seed=seed)

    def __repr__(self) -> str:
        return f"FileSource({self.demos!r}, test={self.test:g})"
