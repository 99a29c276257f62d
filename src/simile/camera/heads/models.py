"""Cameras whose way of counting is published, and how they are recognised; docs/heads.md names the sources."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from simile.camera.heads.head import HeadError
from simile.camera.heads.units import ViscaUnits
from simile.errors import ArgumentError


@dataclass(frozen=True)
class Model:
    """A camera, or a family of them.

    Parameters
    ----------
    units : ViscaUnits
        How it counts.
    vendor : int
        What it says of itself (CAM_VersionInq); 0 where that is not known.
    codes : tuple of int
        The models of that vendor that count so.
    """

    units: ViscaUnits
    vendor: int = 0
    codes: tuple[int, ...] = ()


def _lens(*positions: int, factors: tuple[float, ...] = ()) -> tuple[tuple[float, int], ...]:
    """Return a table of zoom: factors 1, 2, 3, ... unless they are given."""
    return tuple(zip(factors or tuple(map(float, range(1, len(positions) + 1))), positions, strict=True))


SONY = 0x0001
VENDORS = {SONY: "Sony", 0x0020: "Sony", 0x0003: "Everet", 0x0010: "HuddleCamHD", 0x0109: "BirdDog", 0x2574: "AVer"}
_X400 = _lens(
    *(0x0000, 0x0DC1, 0x186C, 0x2015, 0x2594, 0x29B7, 0x2CFB, 0x2FB0, 0x320C, 0x342D),
    *(0x3608, 0x37AA, 0x391C, 0x3A66, 0x3B90, 0x3C9C, 0x3D91, 0x3E72, 0x3F40, 0x4000),
)
_X120 = _lens(
    *(0x0000, 0x0FB4, 0x1BF0, 0x24C5, 0x2B1E, 0x2FE4, 0x33A9, 0x36C9, 0x3983, 0x3BF7, 0x3E1C, 0x4000),
)
_300 = _lens(
    *(0x0000, 0x16A1, 0x2063, 0x2628, 0x2A1D, 0x2D13, 0x2F6D, 0x3161, 0x330D, 0x3486, 0x3A0A, 0x3D60, 0x3F1E, 0x4000),
    factors=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0),
)
_120DH = _lens(
    *(0x0000, 0x1970, 0x249C, 0x2B5F, 0x3020, 0x33C4, 0x36B7, 0x392F, 0x3B4D, 0x3D1E, 0x3EAD, 0x4000),
)
MODELS = {
    "sony": Model(ViscaUnits(), SONY, (0x0621, 0x0622)),
    "sony-x400": Model(ViscaUnits(zoom=_X400), SONY, (0x051C, 0x051D, 0x0617, 0x061A, 0x061C, 0x061F, 0x0620)),
    "sony-x120": Model(ViscaUnits(zoom=_X120), SONY, (0x0618, 0x061B)),
    "sony-300": Model(ViscaUnits(zoom=_300), SONY, (0x0513, 0x0516)),
    "sony-120dh": Model(ViscaUnits(pan_range=(-100.0, 100.0), tilt_range=(-25.0, 25.0), zoom=_120DH), SONY, (0x0511,)),
    "ptzoptics": Model(
        ViscaUnits(
            pan=14.4,
            tilt=14.4,
            tilt_range=(-30.0, 90.0),
            pan_speeds=(
                *(1.0, 1.5, 2.2, 2.4, 2.6, 2.8, 3.0, 3.2, 3.4, 3.8, 4.5, 6.0),
                *(9.0, 15.0, 19.0, 25.0, 32.0, 38.0, 45.0, 58.0, 75.0, 88.0, 105.0, 120.0),
            ),
            tilt_speeds=(
                *(1.0, 1.5, 2.2, 3.6, 4.7, 6.0, 8.0, 10.0, 12.0, 15.0, 18.0, 23.0, 30.0, 39.0, 48.0, 59.0, 69.0, 80.0),
            ),
        )
    ),
}
# Sony's cameras that send positions in 20 bits: BRC-300, H700, Z700, X1000, H800, H780, FR7, AM7, SRG-360SHE, 280SHE.
LONG_POSITIONS = (0x040F, 0x0501, 0x0505, 0x0519, 0x051A, 0x051B, 0x051E, 0x051F, 0x0604, 0x0605)


def visca_units(
    model: str | None = None,
    *,
    counts: Mapping[str, float] | None = None,
    pan_range: tuple[float, float] | None = None,
    tilt_range: tuple[float, float] | None = None,
    zoom_range: tuple[float, float] | None = None,
) -> ViscaUnits:
    """Return the units of a known model, and what differs from it.

    Parameters
    ----------
    model : str, optional
        Of `MODELS`; "sony" by default.
    counts : {"pan": ..., "tilt": ...}, optional
        Units per degree.
    pan_range, tilt_range : (low, high), optional
        In degrees.
    zoom_range : (1, high), optional
        The factor at the end of the optical range; the curve keeps its shape.

    Examples
    --------
    >>> visca_units("ptzoptics").position(-28.0, 0.0, 1.0)
    (-403, 0, 0)
    >>> visca_units(counts={"pan": -14.4}).position(10.0, 0.0, 1.0)
    (-144, 0, 0)
    """
    if model is not None and model not in MODELS:
        raise ArgumentError(f"model must be one of {', '.join(MODELS)}; got {model!r}: or give units per degree")
    units = MODELS[model or "sony"].units
    changes: dict[str, Any] = dict(counts or {})
    if unknown := sorted(set(changes) - {"pan", "tilt"}):
        raise ArgumentError(f"units per degree are of pan and tilt; got {', '.join(unknown)}")
    changes |= {n: v for n, v in (("pan_range", pan_range), ("tilt_range", tilt_range)) if v is not None}
    if zoom_range is not None:
        low, high = zoom_range
        if low != 1.0 or not high > 1.0:
            raise ArgumentError(f"zoom_range must be from 1 to more; got {zoom_range!r}")
        power = math.log(high) / math.log(units.zoom[-1][0])
        changes["zoom"] = tuple((factor**power, place) for factor, place in units.zoom)
    return replace(units, **changes)


def recognise(vendor: int, code: int) -> str | None:
    """Return the name of the model that says this of itself, if it is known."""
    return next((name for name, model in MODELS.items() if model.vendor == vendor and code in model.codes), None)


def doubt(version: tuple[int, int] | None, units: ViscaUnits) -> str | None:
    """Say what speaks against units, from what a camera says that it is: vendor and model.

    Examples
    --------
    >>> doubt((0x0001, 0x0617), MODELS["ptzoptics"].units)  # doctest: +ELLIPSIS
    'the camera says that it is a sony-x400 (0001h 0617h), which counts 51.2 units per degree of pan ... 14.4 ...'
    """
    if version is None:
        return f"the camera does not say what it is: is {units.pan:g} units per degree right? --check tells what fits"
    vendor, code = version
    told = f"({vendor:04x}h {code:04x}h)"
    if vendor == SONY and code in LONG_POSITIONS:
        raise HeadError(f"the camera {told} sends positions in 20 bits, which is not supported: drive it by ONVIF")
    name = recognise(vendor, code)
    if name is not None:
        known = MODELS[name].units
        if (known.pan, known.tilt) != (units.pan, units.tilt):
            return (
                f"the camera says that it is a {name} {told}, which counts {known.pan:g} units per degree of pan and "
                f"{known.tilt:g} of tilt, and not {units.pan:g} and {units.tilt:g}: give --model {name}"
            )
        if tuple(known.zoom) != tuple(units.zoom):
            return f"the camera says that it is a {name} {told}, with a zoom of its own: give --model {name}"
        return None
    maker = VENDORS.get(vendor)
    if maker != "Sony" and any(units == model.units for model in MODELS.values() if model.vendor == SONY):
        return (
            f"the camera says that it is made by {maker or 'somebody else'} {told}, and is taken for a Sony with "
            f"{units.pan:g} units per degree: give --model or --head-units; --check tells what fits"
        )
    return None
