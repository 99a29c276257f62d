"""The hysteresis behind the filter: a policy that holds still while what it wants changes by little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray
from simile.errors import ArgumentError

WIDEST = 1e6  # standard deviations, from where on nothing is an action any more


@dataclass(frozen=True, eq=False)
class Hold:
    """What stands between the actions a_t of Eq. 2 and what is done, y_t; not in the paper.

    People hold and move. Gliding, y_t = min(max(y_{t-1}, a_t - w), a_t + w): the play of a gear, which never overshoots
    and never turns where a_t does not. Stepping, y stays until a_t is more than w away, and then goes there at once:
    for experts who set a value and leave it.

    The policy's own past remains a (a hysteresis within the loop would stick), so that a and its closed loop are those
    of the policy without a hold. Either way |y_t - a_t| <= w, and y goes no longer way than a. Gliding is non-expansive
    in the supremum norm, max |y - y'| <= max |a - a'| from the same start: what bounds how far apart two roll-outs of a
    are, as the proofs of Theorems 5.5 and 5.6 do, bounds those of y. Stepping, all there is to say is
    |y_t - y'_t| <= |a_t - a'_t| + 2 w. What Section 5 says of losses and means it says of a, and not of y.

    Parameters
    ----------
    width : float or (k,) array_like
        w, in standard deviations of the expert's actions; 0 does not hold.
    stepping : bool or (k,) array_like
        Which actions step rather than glide.

    Examples
    --------
    >>> Hold(0.5).along(np.array([[0.0], [1.0], [2.0], [1.5], [0.5]])).ravel()
    array([0. , 0.5, 1.5, 1.5, 1. ])
    >>> Hold(0.5, stepping=True).along(np.array([[0.0], [1.0], [1.2], [1.5], [0.4]])).ravel()
    array([0. , 1. , 1. , 1. , 0.4])
    """

    width: FloatArray
    stepping: Any = False

    def __post_init__(self) -> None:
        try:
            width = np.array(self.width, dtype=np.float64, ndmin=1)
            stepping = np.array(np.broadcast_to(np.asarray(self.stepping, dtype=np.bool_), width.shape))
        except (TypeError, ValueError):
            raise ArgumentError(
                f"hold must have one width and one choice of stepping for each action; got {self.width!r} and "
                f"{self.stepping!r}"
            ) from None
        if width.ndim != 1 or len(width) == 0 or not ((width >= 0.0) & (width <= WIDEST)).all():
            raise ArgumentError(
                f"hold: width must be a finite number up to {WIDEST:g}, or one per action, not below 0; got {width}"
            )
        for name, values in (("width", width), ("stepping", stepping)):
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @classmethod
    def given(cls, hold: Hold | float | tuple[float, ...]) -> Hold:
        """Return what was given as such: a hold, its width, or one for each action."""
        if isinstance(hold, Hold):
            return hold
        each = hold if isinstance(hold, tuple) else (hold,)
        return cls(np.array([checks.number(width, "hold", at_least=0.0) for width in each]))

    def __repr__(self) -> str:
        """Write it as code, and options, have it."""
        width, stepping = (
            one[0] if len(one) == 1 else tuple(one) for one in (self.width.tolist(), self.stepping.tolist())
        )
        return f"Hold({width!r}, stepping={stepping!r})" if self.stepping.any() else f"Hold({width!r})"

    def of(self, n_actions: int) -> Hold:
        """Return the same with one width for each action."""
        if len(self.width) not in (1, n_actions):
            raise ArgumentError(f"hold must have one width, or {n_actions}; got {len(self.width)}")
        return Hold(*(np.broadcast_to(part, (n_actions,)) for part in (self.width, self.stepping)))

    def tell(self, names: Sequence[str], scale: Any = 1.0) -> str:
        """Say how each action holds, in units of which a standard deviation is `scale`.

        >>> Hold((0.5, 0.0, 0.2), (False, False, True)).tell(["pan", "tilt", "zoom"], 10.0)
        'pan glides within 5, tilt does not hold, zoom steps beyond 2'
        """
        rows = zip(names, (self.width * scale).tolist(), self.stepping.tolist(), strict=True)
        ways = ((name, f"steps beyond {w:.4g}" if step else f"glides within {w:.4g}", w) for name, w, step in rows)
        return ", ".join(f"{name} {way if width else 'does not hold'}" for name, way, width in ways)

    def __call__(self, wanted: FloatArray, last: FloatArray) -> FloatArray:
        """Return what is done, (n, k), where a policy wants `wanted` and did `last` in the frame before."""
        return pass_play(wanted, last, self.width, self.stepping)

    def along(self, actions: FloatArray, begin: Any = None) -> FloatArray:
        """Return what is done along actions (T, k); it is what is wanted in frame 0, and wherever `begin` (T,) says."""
        from simile.models.kernels.holding import hold

        if begin is None:
            begin = np.arange(len(actions)) == 0
        out = np.empty(actions.shape)
        part = self.of(actions.shape[1])
        hold(np.ascontiguousarray(actions), part.width, part.stepping, begin, out)
        return out


def pass_play(wanted: FloatArray, last: FloatArray, width: FloatArray, stepping: Any) -> FloatArray:
    """Return what comes out behind a play, (n, k), where `last` came out before: dragged along, or in steps."""
    glide = np.minimum(np.maximum(last, wanted - width), wanted + width)
    return np.where(stepping, np.where(np.abs(wanted - last) > width, wanted, last), glide)
