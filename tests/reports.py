"""Reports for tests: small policies to report on, and whether the page can read what was written."""

from __future__ import annotations

import base64
import math
import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import simile
from simile._common import pages
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import Units
from simile.data.reference import Reference
from simile.evaluation.report import Report, curves
from simile.models import PiecewiseLinear
from simile.models.columns import layout
from simile.models.regularizers import Autoregressor
from simile.policies.policies import SmoothPolicy

PAYLOAD = Path(__file__).parent.parent / "frontend" / "src" / "payload.ts"


def linear(m: int, k: int = 1, *, slope: float = 0.2, growth: float = 0.5, smoothness: float = 0.0) -> SmoothPolicy:
    """A policy that follows the first context; with growth above one it runs away."""
    columns, lags = layout(simile.Horizon(0, 0), m, k)
    f = PiecewiseLinear(
        np.array([0]), np.array([-np.inf]), np.zeros(1), np.full((1, k), slope), np.zeros(k), columns, lags, m + k
    )
    h = Autoregressor(np.full((1, k), growth))
    return SmoothPolicy(f, h, smoothness, simile.Horizon(0, 0), None, m, Units.identity(k))


def run_of(policy: SmoothPolicy, **changed) -> simile.Run:
    turn = simile.Round(0, policy, policy, policy.h, [], [], 1.0, math.nan, 0.04, 1.0, 0.5, False, 0.04, 1.0)
    return replace(simile.Run((turn,)), **changed)


@pytest.fixture(scope="module")
def learned(pursuit):
    train, test = pursuit
    return simile.learn(train, model=[simile.SmoothForest(n_trees=4), simile.Ridge()]), test


def unpacked(packed: dict) -> np.ndarray:
    """Read a series as unpack.ts does."""
    changes = np.frombuffer(zlib.decompress(base64.b64decode(packed["values"])), "<i2")
    whole = np.cumsum(changes.reshape(packed["columns"], -1), axis=1, dtype=np.int16).T
    values = whole * np.array(packed["unit"]) + packed["offset"]
    return np.where(whole == pages.MISSING, np.nan, values)


def drawn(demos: Demonstrations, rolled: list, frames: int = 2) -> curves.Curves:
    reference = Reference(demos, Units.of(demos).scale, frames)
    return curves.Curves.of(reference, {"policy": rolled}, reference.tally(rolled))


def fits(value: object, kind: str, types: dict[str, dict[str, str]]) -> bool:
    """Tell whether plain data have a type of TypeScript, as far as payload.ts uses them."""
    kind = kind.strip()
    if len(options := split(kind, "|")) > 1:
        return any(fits(value, option, types) for option in options)
    if kind.endswith("[]"):
        return isinstance(value, list) and all(fits(item, kind[:-2], types) for item in value)
    if kind.startswith("("):
        return fits(value, kind[1:-1], types)
    if kind.startswith("{"):
        fields = dict(map(str.strip, one.split(":", 1)) for one in split(kind[1:-1], ";") if one.strip())
        return (
            isinstance(value, dict)
            and set(value) == set(fields)
            and all(fits(value[n], fields[n], types) for n in fields)
        )
    if kind in types:
        return fits(value, "{" + ";".join(f"{n}: {t}" for n, t in types[kind].items()) + "}", types)
    if kind.startswith('"'):
        return value == kind[1:-1]
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return {"string": isinstance(value, str), "boolean": isinstance(value, bool), "null": value is None}.get(
        kind, number
    )


def split(text: str, mark: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "({[") - (letter in ")}]")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def assert_page_can_read(report: Report) -> None:
    text = re.sub(r"//.*", "", PAYLOAD.read_text())
    blocks = re.findall(r"export interface (\w+) \{\n(.*?)\n\}", text, re.DOTALL)
    types = {name: dict(re.findall(r"^  (\w+): (.*);", body, re.MULTILINE)) for name, body in blocks}
    assert set(report.content) == set(types["Report"])
    for name, kind in types["Report"].items():
        assert fits(report.content[name], kind, types), (name, kind, str(report.content[name])[:300])
    assert all(fits(packed, "Packed", types) for packed in report.series)
    assert [s["series"] for s in report.content["sequences"]] == [f"series-{i}" for i in range(len(report.series))]
    for said, packed in zip(report.content["sequences"], report.series, strict=True):
        columns = len(report.content["curves"]) + (2 if report.content["band"] else 0)  # the ends of the band
        assert packed["columns"] == columns * len(report.content["actions"])
        assert 0 <= packed["frames"] * said["step"] - said["frames"] < 2 * said["step"]
