"""What seems wrong while it runs: each a sentence with numbers and the way out, and each only once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from simile._common.typing import FloatArray
from simile.camera.courts import Court

SILENCE = 5.0  # seconds without anybody
LOOK_BACK = 250  # frames that the others are about
MARGIN = 2.0  # metres beside the court that still belong to it, as in `Features`
MOST = 0.5
MANY_DROPPED = 0.2


class Doubts:
    """Looks on, frame by frame.

    Parameters
    ----------
    court : Court
        Where people are expected.
    """

    def __init__(self, court: Court) -> None:
        self.court = court
        self._told: set[str] = set()
        self._seen: float | None = None  # when there was somebody
        self._off: deque[bool] = deque(maxlen=LOOK_BACK)
        self._spent: deque[tuple[float, int, float]] = deque(maxlen=LOOK_BACK)

    def note(self, t: float, positions: FloatArray, *, dropped: int, detecting: float) -> tuple[str, ...]:
        """Return what to say about a frame at time t, with `dropped` frames so far and so many seconds of detecting."""
        if len(positions) or self._seen is None:
            self._seen = t
        if len(positions):
            self._off.append(bool((~self.court.inside(positions, MARGIN)).mean() > MOST))
        self._spent.append((t, dropped, detecting))
        found = [(key, sentence) for key, sentence in self._look(t) if key not in self._told]
        self._told.update(key for key, _ in found)
        return tuple(sentence for _, sentence in found)

    def _look(self, t: float) -> Iterator[tuple[str, str]]:
        if self._seen is not None and t - self._seen > SILENCE:
            yield (
                "nobody",
                f"nobody was detected for {SILENCE:g} s: the policy sees an empty court and holds still: look at the "
                "picture, --score, --class and the calibration",
            )
        if len(self._off) == LOOK_BACK and (share := sum(self._off) / LOOK_BACK) > MOST:
            yield (
                "off",
                f"in {share:.0%} of the last {LOOK_BACK} frames most of the people stand off the court of "
                f"{self.court.length:g} x {self.court.width:g} m, and do not count: is it the calibration of this "
                "camera, and the --court or --sport that was calibrated?",
            )
        first, last = self._spent[0], self._spent[-1]
        if len(self._spent) == LOOK_BACK and (lost := last[1] - first[1]) > MANY_DROPPED * (lost + LOOK_BACK):
            slow = sorted(s for _, _, s in self._spent)[LOOK_BACK // 2]
            yield (
                "slow",
                f"{lost} of {lost + LOOK_BACK} frames were dropped: detecting takes {1e3 * slow:.0f} ms, and "
                f"{(lost + LOOK_BACK) / max(last[0] - first[0], 1e-9):.0f} frames come in a second: use a smaller "
                "model or picture, or a faster machine",
            )
