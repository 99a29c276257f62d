"""Origins of contexts: what is taken off them, in double precision, before any model narrows them to single precision.

Northings of 5.4e6 m or seconds since 1970 leave nothing of a signal in the 24 bits of a float. Where a context lies
that far off it is measured from an origin nearby; everything else is left as it is, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simile._common.text import count
from simile._common.typing import FloatArray

MOST_SAMPLED = 512  # frames of a sequence that tell where it lies
STEP = 2.0**-23  # of single precision, relative to a value
NOISE = 2.0**-48  # relative: what moves by less is rounding errors of double precision
SMALLEST, LARGEST = 2.0**-110, 2.0**127  # of what single precision holds
FINE, COARSE = 2.0**11, 2.0**7  # steps in a quarter of the values: with fewer, an origin helps; a signal is lost


def find_places(contexts: FloatArray) -> FloatArray:
    """Return where the contexts (T, m) of a sequence lie, and how far they move there, (2, m).

    That is the middle and the width of the narrowest quarter of the values, however many are missing, coded by a number
    far off, or resting; the width is 0 where all of them rest, and the middle is NaN where all are missing.
    """
    some = np.sort(contexts[:: -(-len(contexts) // MOST_SAMPLED)], axis=0)  # NaN comes last
    known = np.count_nonzero(~np.isnan(some), axis=0)
    values = np.take_along_axis(some, np.arange(9)[:, np.newaxis] * np.maximum(known - 1, 0) // 8, axis=0)
    with np.errstate(over="ignore"):
        width = values[2:] - values[:-2]
    width[~(width > NOISE * np.abs(values[1:-1]))] = np.inf
    narrowest = np.argmin(width, axis=0)[np.newaxis]
    middle, width = (np.take_along_axis(v, narrowest, axis=0)[0] for v in (values[1:-1], width))
    return np.array([middle, np.where(np.isfinite(width), width, 0.0)])


def choose_origin(places: FloatArray) -> FloatArray | None:
    """Choose what to take off each context (m,), by the places (sequences, 2, m) of all; None where that is nothing.

    Where and how far it moves are medians over the sequences in which it does, and the origin is rounded to few bits:
    the same comes out wherever the sequences lie, and subtracting it is exact for all values of about its size.
    """
    origin = np.array([_choose(*places[:, :, j].T) for j in range(places.shape[2])])
    return origin if origin.any() else None


def _choose(middles: FloatArray, widths: FloatArray) -> float:
    if not (widths > 0.0).any():  # it rests in every sequence: then what moves is where
        middles, widths = find_places(middles[:, np.newaxis])
    moves = widths > 0.0
    if not moves.any():
        return 0.0
    middle, width = _median(middles[moves]), _median(widths[moves])
    if not abs(middle) * STEP * FINE > width:
        return 0.0
    grain = 8.0 * 2.0 ** np.ceil(np.log2(width))
    return float(np.round(middle / grain) * grain)


def tell_origin(names: Sequence[str], places: FloatArray, origin: FloatArray | None) -> list[str]:
    """Say which contexts are measured from an origin, and which are lost even so."""
    offsets, notes = np.zeros(len(names)) if origin is None else origin, []
    if moved := [f"{name} from {offset:.15g}" for name, offset in zip(names, offsets, strict=True) if offset]:
        notes.append(
            f"contexts so far from 0 that single precision would lose them are measured from nearby: {', '.join(moved)}"
        )
    middle, width = np.moveaxis(places, 1, 0)
    steps = STEP * np.abs(middle - offsets)
    for j, name in enumerate(names):
        moves = width[:, j] > 0.0
        typical = _median(width[moves, j]) if moves.any() else 0.0  # so that one that rests for once is not lost
        if 0.0 < typical < SMALLEST or (np.abs(middle[moves, j]) > LARGEST).any():
            notes.append(f"{name} is too small or too large for single precision: give it in another unit")
            continue
        lost = moves & (COARSE * steps[:, j] > np.maximum(width[:, j], typical))
        if lost.any():
            notes.append(
                f"{name} lies in places far apart: in {count(int(lost.sum()), 'sequence')} of {len(lost)} it is held "
                f"in steps of up to {steps[lost, j].max():.2g}, and a quarter of its values lie within {typical:.2g}, "
                "so that what is finer is lost: measure it from a place of each sequence's own"
            )
    return notes


def _median(values: FloatArray) -> float:
    """Return the median, or the lower one of two: a value itself, so that nothing is rounded."""
    return float(np.quantile(values, 0.5, method="lower"))
