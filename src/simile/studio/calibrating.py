"""What the page to calibrate asks: the plans of the courts, and what clicks on a picture tell."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from simile._common.files import write_atomically
from simile._common.text import plain
from simile._common.web import RequestError
from simile.studio.workspace import Workspace

FOLDER = "calibrations"


def describe_courts(text: str | None = None) -> list[dict[str, Any]]:
    """Return all courts, or one as `--court` tells it, with their lines and landmarks, in metres."""
    from simile.camera.calibration import landmarks
    from simile.camera.courts import COURTS, Court
    from simile.camera.film.scene import markings

    return [
        {
            "name": court.name,
            "court": str(court),
            "length": court.length,
            "width": court.width,
            "lines": [np.round(line, 3).ravel().tolist() for line in markings(court)],
            "landmarks": {name: list(point) for name, point in landmarks(court).items()},
        }
        for court in (COURTS.values() if text is None else (Court.parse(text),))
    ]


def fit_clicks(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the calibration that clicks tell, how well it fits, and where the lines of the court then are."""
    from simile.camera.calibration import Pairs, calibrate, landmarks
    from simile.camera.calibration.files import encode_calibration
    from simile.camera.calibration.overlay import trace
    from simile.camera.courts import Court

    court = Court.parse(wanted["court"])
    known, clicks, size = landmarks(court), wanted["pairs"], tuple(wanted["size"])
    names = tuple(click["name"] for click in clicks)
    if unknown := [name for name in names if name not in known]:
        raise RequestError(400, f"pairs: {unknown[0]!r} is no landmark of {court.name}")
    pixels = np.array([[click["u"], click["v"]] for click in clicks], dtype=np.float64).reshape(-1, 2)
    points = np.array([known[name] for name in names]).reshape(-1, 3)
    pairs = Pairs(pixels, points, names, np.zeros(len(names), dtype=np.intp))
    fit = calibrate(pairs, model=wanted["model"], size=size)
    about = fit.to_dict()
    return {
        **plain(about),
        "text": str(fit),
        "lines": [np.round(line, 1).ravel().tolist() for line in trace(fit.calibration, court, size)],
        "calibration": json.loads(encode_calibration(fit.calibration, about)),
    }


def keep_calibration(workspace: Workspace, name: str, calibration: dict[str, Any]) -> str:
    """Write a calibration into the folder of the studio; returns where, from there."""
    write_atomically(workspace.folder / FOLDER / f"{name}.json", json.dumps(calibration, indent=1).encode())
    return f"{FOLDER}/{name}.json"


def read_calibration(workspace: Workspace, name: str) -> bytes:
    """Return the file of a calibration that was kept."""
    try:
        return (workspace.folder / FOLDER / f"{name}.json").read_bytes()
    except FileNotFoundError:
        raise RequestError(404, "there is no such calibration") from None
