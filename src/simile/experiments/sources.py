"""Where the data of a seed come from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np

from simile.data import tasks
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.reading import read

TEST = 0.25  # share of the sequences that are held out


class Source(Protocol):
    """Makes data from a seed; its repr is printed with the results.

    Its `name`, if any, heads its columns, its `unit` stands on the axes of pictures, and where `simulated` is true what
    needs an expert who can be asked is measured with it, too.
    """

    def __call__(self, seed: int) -> tuple[Demonstrations, Demonstrations]:
        """Return training and held-out sequences."""


@dataclass(frozen=True)
class CameraSource:
    """The paper's case study, simulated: games seen through noisy detections, and an operator who pans after them."""

    n_games: int = 12
    minutes: float = 0.5
    name: ClassVar[str] = "simulated games"
    unit: ClassVar[str] = "degrees"
    simulated: ClassVar[bool] = True

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
    name: ClassVar[str] = "pursuit"
    unit: ClassVar[str] = "degrees"
    simulated: ClassVar[bool] = True

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
    name: ClassVar[str] = "your data"

    def __call__(self, seed: int) -> tuple[Demonstrations, Demonstrations]:
        """Split at random."""
        return self.demos.hold_out(self.test, seed=seed)

    def __repr__(self) -> str:
        return f"FileSource({self.demos!r}, test={self.test:g})"


@dataclass(frozen=True)
class RecordedSource:
    """Real recordings in a folder: a seed chooses some of them, and which of those are held out.

    Parameters
    ----------
    folder : path
        Where `reservoir/reservoir.csv` or `car_following/car_following.csv` lies, with columns x_* and a_*.
    file : str
        Which of `RECORDED`.
    frames, length : int
        How many frames a seed takes in all, about, and how many of each recording at most.
    """

    folder: Path = field(repr=False)
    file: str
    frames: int = 9000
    length: int = 750

    @property
    def name(self) -> str:
        """The name of its folder, in words."""
        return self.file.replace("_", " ")

    @property
    def unit(self) -> str:
        """Of the actions."""
        return RECORDED[self.file][2]

    def __call__(self, seed: int) -> tuple[Demonstrations, Demonstrations]:
        """Hold out a quarter of the recordings, and draw from both parts."""
        demos = _read(self.folder / self.file / f"{self.file}.csv", self.file)
        rng = np.random.default_rng(seed)
        drawn = []
        for part, share in zip(demos.split(TEST, seed=seed), (1.0 - TEST, TEST), strict=True):
            chosen: list[Demonstration] = []
            for i in rng.permutation(len(part)):
                if sum(len(d) for d in chosen) < share * self.frames:
                    chosen.append(part[int(i)].cut(0, self.length))
            drawn.append(Demonstrations(tuple(chosen)))
        return drawn[0], drawn[1]


# Actions, contexts and their unit, by folder; what the actions bring about (a gap, a storage) is no context.
RECORDED = {
    "reservoir": (["a_release"], ["x_*"], ""),
    "car_following": (["a_speed"], ["x_lead_speed", "x_lead_accel", "x_lead_curvature"], "m/s"),
}
VARIABLE = "SIMILE_DATA"


def recorded_sources(folder: str | os.PathLike[str] | None = None, *, frames: int = 9000) -> tuple[RecordedSource, ...]:
    """Find the real recordings in a folder, by default the one that the variable SIMILE_DATA names."""
    folder = folder or os.environ.get(VARIABLE)
    if folder is None:
        return ()
    found = [name for name in RECORDED if (Path(folder) / name / f"{name}.csv").is_file()]
    return tuple(RecordedSource(Path(folder), name, frames) for name in found)


def tell_absent(names: Iterable[str]) -> str:
    """Say which real data are not among the names of sources that there are, and how to give them; "" where all are.

    >>> tell_absent(["simulated games", "reservoir"])[:65]
    'There are no columns for real data of car following, which are no'
    """
    lacking = [name for name in RECORDED if name.replace("_", " ") not in set(names)]
    if not lacking:
        return ""
    said, files = " and ".join(lacking).replace("_", " "), " and ".join(f"{name}/{name}.csv" for name in lacking)
    return (
        f"There are no columns for real data of {said}, which are not at hand: `--data FOLDER`, or the variable "
        f"{VARIABLE}, names a folder with {files}."
    )


@cache
def _read(path: Path, file: str) -> Demonstrations:
    """Read recordings, and what must not be torn apart: a follower is the next pair's leader, so runs stay together."""
    actions, contexts, _ = RECORDED[file]
    table = path.with_name("sequences.csv")
    group = f"{table}:run" if table.exists() else "sequence"
    return read(path, sequence="sequence", group=group, time="t", actions=actions, contexts=contexts, quiet=True)
