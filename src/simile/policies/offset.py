"""The memory of the start: where f and the recorded start disagree, a policy keeps that, and lets it fade."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simile._common.typing import FloatArray
from simile.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Offset:
    """What a policy adds to f(s_t) in Eq. 2, d_t, for where it was put at the start; not in the paper.

    In the first frame that the policy chooses itself, after known actions or an operator's, d = share (a - f(s)), with
    a the action before. In every later one that it chooses, d is `fade` times what it was.

    d follows from the start and from what f says in that one frame, and not from what the policy does later. So the
    closed loop, and its stability, are those of the policy without it; and where f reads contexts alone, as it must
    here, the roll-out stays linear in f and in the start, a = G z + i with z = f + d. As |d| <= share |a - f(s)|, the
    actions are never farther from those without it than that times the sum of the |taps| of G (bounds only bring them
    nearer); where fade < 1, they come together. With fade = 1 they never do.

    Parameters
    ----------
    share : float or (k,) array_like
        How much of the disagreement is kept, from 0 (nothing) to 1.
    fade : float or (k,) array_like
        What a frame leaves of it, from 0 to 1.

    Examples
    --------
    >>> Offset(0.5, 0.5).along(np.zeros((4, 1)), np.array([8.0])).ravel()
    array([4. , 2. , 1. , 0.5])
    """

    share: FloatArray
    fade: FloatArray

    def __post_init__(self) -> None:
        try:
            parts = [np.array(one, dtype=np.float64, ndmin=1) for one in (self.share, self.fade)]
            share, fade = (np.array(one) for one in np.broadcast_arrays(*parts))
        except (TypeError, ValueError):
            raise ArgumentError(
                f"offset must have one share and one fade for each action; got {self.share!r} and {self.fade!r}"
            ) from None
        for name, values in (("share", share), ("fade", fade)):
            if values.ndim != 1 or len(values) == 0 or not ((values >= 0.0) & (values <= 1.0)).all():
                raise ArgumentError(f"offset: {name} must be a number from 0 to 1, or one per action; got {values}")
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    def __repr__(self) -> str:
        """Write it as code has it."""
        return f"Offset({', '.join(repr(_simplify(one)) for one in (self.share, self.fade))})"

    def of(self, n_actions: int) -> Offset:
        """Return the same with a share and a fade for each action."""
        if len(self.share) not in (1, n_actions):
            raise ArgumentError(f"offset must have one share, or {n_actions}; got {len(self.share)}")
        if len(self.share) == n_actions:
            return self
        return Offset(*(np.broadcast_to(part, (n_actions,)) for part in (self.share, self.fade)))

    def tell(self, names: Sequence[str], rate: float | None = None) -> str:
        """Say what each action keeps of its start, and in which time half of that fades.

        >>> Offset((0.5, 0.0, 1.0), (0.5, 0.0, 1.0)).tell(["pan", "tilt", "zoom"])
        'pan keeps 0.5 of its start, half as much every 1 frames, tilt keeps nothing of it, zoom keeps 1 of it for good'
        >>> Offset(0.8, 0.99).tell(["pan"], rate=25.0)
        'pan keeps 0.8 of its start, half as much every 2.76 s'
        """
        said: list[str] = []
        for name, share, fade in zip(names, self.share.tolist(), self.fade.tolist(), strict=True):
            frames = math.log(0.5) / math.log(fade) if 0.0 < fade < 1.0 else 0.0
            half = f"{frames:.3g} frames" if rate is None else f"{frames / rate:.3g} s"
            lasts = f", half as much every {half}" if frames else " for good" if fade else " for a frame"
            what = "it" if said else "its start"
            said.append(f"{name} keeps {f'{share:.3g}' if share else 'nothing'} of {what}{lasts if share else ''}")
        return ", ".join(said)

    def __call__(self, said: FloatArray, last: FloatArray, kept: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return f + d and what is kept for the next frame, (n, k) each, where f says `said`.

        `kept` is what this returned before, and NaN where d is to be taken anew, from the actions `last`.
        """
        d = np.where(np.isnan(kept), self.share * (last - said), kept)
        return said + d, self.fade * d

    def along(self, said: FloatArray, last: FloatArray) -> FloatArray:
        """Return f + d, (T, k), in frames that a policy chooses one after the other; `last` (k,) is the action before.

        The bits are those of frame after frame.
        """
        if len(said) == 0:
            return said
        part = self.of(said.shape[1])
        factors = np.concatenate([(part.share * (last - said[0]))[np.newaxis], np.tile(part.fade, (len(said) - 1, 1))])
        return said + np.cumprod(factors, axis=0)


def _simplify(values: FloatArray) -> Any:
    """Return one number where all are the same, or else a tuple."""
    listed = values.tolist()
    return listed[0] if len(listed) == 1 else tuple(listed)
