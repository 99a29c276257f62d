"""Soccer tracking data of any provider, through kloppy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from simile._common import checks
from simile._common.files import LONGEST, open_regular
from simile._common.needs import need
from simile._common.typing import FloatArray
from simile.camera.courts import SOCCER, Court
from simile.camera.games import Game
from simile.camera.geometry import Camera
from simile.camera.tracking.frames import check_file, line_up, pieces, spread
from simile.data.reading import clock
from simile.data.reading.tables import decoding
from simile.data.reading.values import quote
from simile.errors import ArgumentError, DataError

# Kloppy's loaders, whose first arguments are the files of a game.
PROVIDERS: dict[str, tuple[str, str]] = {
    "hawkeye": ("kloppy.hawkeye", "load"),
    "metrica_csv": ("kloppy.metrica", "load_tracking_csv"),
    "metrica_epts": ("kloppy.metrica", "load_tracking_epts"),
    "pff": ("kloppy.pff", "load_tracking"),
    "secondspectrum": ("kloppy.secondspectrum", "load"),
    "signality": ("kloppy.signality", "load"),
    "skillcorner": ("kloppy.skillcorner", "load"),
    "sportec": ("kloppy.sportec", "load_tracking"),
    "statsperform": ("kloppy.statsperform", "load_tracking"),
    "tracab": ("kloppy.tracab", "load"),
}

_METRES = {"m": 1.0, "cm": 0.01, "y": 0.9144, "ft": 0.3048}


def read_kloppy(
    path_or_dataset: Any,
    provider: str | None = None,
    *,
    court: Court | None = None,
    camera: Camera | None = None,
    gap: float | None = 0.5,
    **options: Any,
) -> tuple[Game, ...]:
    """Read soccer tracking data with kloppy (`pip install 'smooth-imitation[tracking]'`).

    Positions become metres from the middle of the pitch, x along it and y from the lower to the upper side of kloppy's
    pitch, which is taken for the side away from the camera. Players are the detections; their teams, the ball and,
    where the data say it, who has it come along.

    Parameters
    ----------
    path_or_dataset : TrackingDataset, path, or sequence or mapping of paths
        What kloppy has loaded; or the files of one game, in the order of kloppy's loader or by its names
        (`{"home_data": ..., "away_data": ...}`).
    provider : str, optional
        Whose files these are; see `PROVIDERS`.
    court : Court, optional
        The pitch as the data say it, or else 105 m by 68 m. Data in shares of the pitch that do not say its size are
        stretched to the court.
    gap : float, optional
        Begin another game where more than this many seconds are missing; None never. Each period is one anyway.
    **options
        For kloppy's loader, such as `sample_rate` and `limit`.
    """
    gap = None if gap is None else checks.number(gap, "gap", above=0.0)
    dataset, files = path_or_dataset, [Path("the dataset")]
    if provider is not None:
        dataset, files = _load(path_or_dataset, provider, options)
    elif options:
        raise ArgumentError(f"{next(iter(options))} is for a loader of kloppy: name its provider (--provider)")
    domain = need("kloppy.domain", "reading soccer tracking data")
    if not isinstance(dataset, domain.TrackingDataset):
        raise ArgumentError(
            "path_or_dataset must be a TrackingDataset of kloppy, or files with their provider (--provider; "
            f"one of {', '.join(PROVIDERS)}); got {quote(dataset)}"
        )
    where = _join_names(files)
    with decoding(where, "tracking data of kloppy"):
        if (system := dataset.metadata.coordinate_system) is None:
            raise DataError(f"{where}: the coordinate system is not said: set it in the metadata")
        if system.pitch_dimensions.standardized and not system.normalized:  # stretched unevenly, as by Opta
            dataset = dataset.transform(to_coordinate_system=domain.Provider.KLOPPY)
        pitch = _Pitch.of(dataset.metadata.coordinate_system, court)
        periods = _periods(dataset, str(dataset.metadata.game_id or files[0].stem), where)
        return tuple(_games(periods, pitch, _rate(periods, dataset.metadata.frame_rate, where), camera, gap))


def _load(given: Any, provider: str, options: Mapping[str, Any]) -> tuple[Any, list[Path]]:
    """Return kloppy's dataset, and the files it is from."""
    if provider not in PROVIDERS:
        raise ArgumentError(f"provider (--provider) must be one of {', '.join(PROVIDERS)}; got {quote(provider)}")
    module, function = PROVIDERS[provider]
    load = getattr(need(module, "reading soccer tracking data"), function)
    files = given if isinstance(given, Mapping | list | tuple) else [given]
    if not files:
        raise ArgumentError("path_or_dataset must name at least one file; got none")
    paths = _map_files(check_file, files)
    signature = inspect.signature(load)
    arguments, keywords = ((), paths) if isinstance(paths, Mapping) else (paths, {})
    try:
        named = signature.bind(*arguments, **keywords, **options).arguments
    except TypeError as error:
        raise ArgumentError(
            f"{provider}: {error}: kloppy's {module}.{function} takes {', '.join(signature.parameters)}"
        ) from None
    found, source = list(_flatten(paths)), need("kloppy.io", "reading soccer tracking data").Source
    where = _join_names(found)
    with decoding(where, f"{provider} tracking data"), ExitStack() as opened:
        # Kloppy gets open files: it would take a text for a URL to fetch or for the data themselves, and it leaves open
        # what it opens itself. It gets them as sources, for some of its loaders take a file for the list of its lines.
        # One asks for the name of a file. Which of the files it stumbles over it does not say.
        def give(path: Any) -> Any:
            if not isinstance(path, Path):
                return path
            return source(opened.enter_context(open_regular(path, longest=2 * LONGEST)))

        by_name = "meta_data" if provider == "hawkeye" else None
        given = {name: v if name == by_name else _map_files(give, v) for name, v in named.items()}
        try:
            return load(**given), found
        except KeyError as error:
            order = ", ".join(name for name in signature.parameters if name in named and name not in options)
            raise DataError(
                f"{where}: cannot be read as {provider} tracking data: {error} is not there: are they whole, of one "
                f"game, and in the order {order}?"
            ) from None


def _map_files(change: Callable[[Any], Any], files: Any) -> Any:
    """Return the files changed one by one, in whatever collection they are given."""
    if isinstance(files, Mapping):
        return {name: _map_files(change, file) for name, file in files.items()}
    return [_map_files(change, file) for file in files] if isinstance(files, list | tuple) else change(files)


def _flatten(files: Any) -> Iterator[Path]:
    for file in files.values() if isinstance(files, Mapping) else files:
        yield from _flatten(file) if isinstance(file, Mapping | list) else (file,)


def _join_names(files: Sequence[Path]) -> Path:
    return Path(" and ".join(map(str, files)))


@dataclass(frozen=True)
class _Pitch:
    """How kloppy's coordinates become metres: (value - middle) * scale, along x and y."""

    court: Court
    middle: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, system: Any, court: Court | None) -> _Pitch:
        """Take the pitch of a coordinate system; where its size is unknown, that of the court."""
        pitch, usual = system.pitch_dimensions, court or SOCCER
        metre = _METRES.get(pitch.unit.value)
        sizes, middle, scale = [], [], []
        for side, real, default in (
            (pitch.x_dim, pitch.pitch_length, usual.length),
            (pitch.y_dim, pitch.pitch_width, usual.width),
        ):
            known = side.min is not None and side.max is not None and side.max > side.min
            if metre is not None:
                sizes.append((side.max - side.min) * metre if known else default)
                scale.append(metre)
            elif known:  # shares of a pitch: kloppy gives one of unknown size the usual one, but calls it standardized
                sizes.append(float(real) if real and not pitch.standardized else default)
                scale.append(sizes[-1] / (side.max - side.min))
            else:
                raise DataError(f"the dataset does not say how far its pitch goes, in units of {pitch.unit.value!r}")
            middle.append((side.min + side.max) / 2.0 if known else 0.0)
        down = system.vertical_orientation.value == "top-to-bottom"
        size = court or Court("soccer", sizes[0], sizes[1], goal=sizes[0] / 2.0)
        return cls(size, np.array(middle), np.array([scale[0], -scale[1] if down else scale[1]]))

    def metres(self, points: list[tuple[Any, Any]]) -> FloatArray:
        """Return points (N, 2) in metres from the middle; what is None is NaN."""
        return (np.array(points, dtype=np.float64).reshape(-1, 2) - self.middle) * self.scale


@dataclass(eq=False)
class _Period:
    """The frames of a period while they are read: their times, and points with the place of their frame."""

    name: str
    where: Path
    times: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    points: list[tuple[Any, Any]] = field(default_factory=list)
    teams: list[int] = field(default_factory=list)
    balls: list[tuple[Any, Any]] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)

    def add(self, frame: Any, teams: Sequence[Any]) -> None:
        """Take a frame of kloppy."""
        seconds = frame.timestamp.total_seconds()
        if self.times and seconds <= self.times[-1]:
            raise DataError(
                f"{self.where}: frame {frame.frame_id} of {self.name}: its time {seconds:g} s is not later than "
                f"{self.times[-1]:g} s of the frame before: sort the frames, and keep each once"
            )
        seen = {who: data.coordinates for who, data in frame.players_data.items() if data.coordinates is not None}
        spots = seen.values()
        self.times.append(seconds)
        self.teams.extend(_number(teams, who.team) for who in seen)
        self.counts.append(len(spots))
        self.points.extend((spot.x, spot.y) for spot in spots)
        self.balls.append((None, None) if (ball := frame.ball_coordinates) is None else (ball.x, ball.y))
        self.owners.append(_number(teams, frame.ball_owning_team))


def _number(teams: Sequence[Any], team: Any) -> int:
    """Return 0 or 1 for the teams of a game; -1 for none of these."""
    return next((i for i, known in enumerate(teams[:2]) if known == team), -1)


def _periods(dataset: Any, name: str, where: Path) -> list[_Period]:
    """Return the periods of a dataset, in the order in which they begin."""
    found: dict[Any, _Period] = {}
    for frame in dataset.records:
        number = frame.period.id
        period = found.setdefault(number, _Period(f"{name} period {number}", where))
        period.add(frame, dataset.metadata.teams)
    if not found:
        raise DataError(f"{where}: there is no frame")
    return list(found.values())


def _games(
    periods: Sequence[_Period], pitch: _Pitch, rate: float, camera: Camera | None, gap: float | None
) -> Iterator[Game]:
    for period in periods:
        steps = np.rint(np.diff(period.times) * rate)
        present = np.concatenate([[0], np.cumsum(np.maximum(steps, 1.0))]).astype(np.intp)
        frames, points = np.repeat(present, period.counts), pitch.metres(period.points)
        balls, owners = pitch.metres(period.balls), np.array(period.owners)
        for piece in pieces(present, period.name, None if gap is None else gap * rate):
            yield Game(
                piece.name,
                rate,
                pitch.court,
                camera or Camera.beside(pitch.court),
                spread(frames, points, piece, period.where),
                players=line_up(frames, points, np.array(period.teams, dtype=np.intp), piece, period.where),
                ball=piece.place(present, balls),
                possession=piece.place(present, owners, -1) if (owners >= 0).any() else None,
            )


def _rate(periods: Sequence[_Period], said: float | None, where: Path) -> float:
    """Return the rate of the time stamps: kloppy's is that of the file, also of one that was thinned out."""
    steps = [(p.name, clock.steps_of(np.array(p.times), p.name)) for p in periods]
    rate = clock.infer_rate(steps) or said
    if rate is None:
        raise DataError(f"{where}: there is one frame and no rate: load more of it")
    return float(rate)
