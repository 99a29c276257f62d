"""Numbers of a comparison in words."""

from __future__ import annotations


def phrase_error(ours: float, theirs: float, whom: str) -> str:
    """Say how an error compares with somebody's.

    >>> phrase_error(0.5, 2.0, "holding still")
    '0.25 times the error of holding still'
    """
    if theirs == 0.0:
        return f"{whom} has no error here" + ("" if ours > 0.0 else ", nor has this")
    return f"{ours / theirs:.2f} times the error of {whom}"


def phrase_roughness(ratio: float) -> str:
    """Say how rough something is, 1 being the expert.

    >>> phrase_roughness(0.5)
    '2.0 times smoother than the expert'
    """
    if ratio == 0.0:
        return "perfectly smooth"
    if 0.95 <= ratio < 1.05:
        return "as smooth as the expert"
    return (
        f"{1 / ratio:.1f} times smoother than the expert"
        if ratio < 1.0
        else f"{ratio:.1f} times as rough as the expert"
    )


def phrase_lag(frames: float) -> str:
    """Say how late something is.

    >>> phrase_lag(-3.0)
    '3.0 frames early'
    """
    if abs(frames) < 0.5:
        return "on time"
    return f"{abs(frames):.1f} frames {'late' if frames > 0 else 'early'}"
