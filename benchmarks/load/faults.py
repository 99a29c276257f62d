"""Faults: what may go wrong with a single frame."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from load.twins import Sent

if TYPE_CHECKING:
    from load.callers import Caller

# How often each happens.
FAULTS = {
    "missing frame": 0.004,
    "long gap": 0.0005,
    "duplicated": 0.003,
    "out of order": 0.003,
    "missing value": 0.01,
    "NaN or infinity": 0.002,
    "wrong length": 0.002,
    "dropped by the client": 0.004,
    "operator": 0.01,
    "malformed": 0.003,
    "oversized": 0.0001,
    "abrupt disconnect": 0.0003,
}
BREAKS = ("oversized", "abrupt disconnect")  # the connection
TOO_LONG = 70_000  # bytes


def drawn(rng: random.Random, *, alone: bool) -> str | None:
    """Draw what goes wrong with a frame, mostly nothing; connections break only where nothing else is going on."""
    draw = rng.random()
    for fault, share in FAULTS.items():
        draw -= share
        if draw < 0.0:
            return None if fault in BREAKS and not alone else fault
    return None


def inject(fault: str, caller: Caller, frame: Sent) -> None:
    """Do something wrong in the place of sending a frame."""
    n, x, rng = frame.n, list(frame.x or ()), caller.rng
    match fault:
        case "missing frame":
            caller.skip = rng.randrange(3)
        case "long gap":
            caller.skip = 30 + rng.randrange(20)
        case "duplicated":
            caller.send_frame(frame)
            caller.refusals.append((n, n))
            caller.send({"x": x, "n": n})
        case "out of order":
            caller.held = frame
        case "missing value":
            caller.send_frame(Sent(n, [None if rng.random() < 0.2 else v for v in x]))
        case "NaN or infinity":
            bad = rng.choice((math.nan, math.inf)) if caller.line.binary else None  # JSON has neither
            x[rng.randrange(len(x))] = bad
            caller.send_frame(Sent(n, x, usable=bad != math.inf))
        case "wrong length":
            caller.send_frame(Sent(n, x[: rng.randrange(len(x))], usable=False))
        case "dropped by the client":
            caller.send_frame(Sent(n, None))
        case "operator":
            if caller.last is not None:
                nudge = rng.uniform(-0.5, 0.5) * caller.world.step
                action = [value + nudge for value in caller.last[1]]
                caller.send_frame(Sent(n, x if rng.random() < 0.5 else None, override=action))
        case "malformed":
            caller.line.send_raw(caller.world.junk(caller.line.binary))
        case "oversized":
            caller.send({"x": x, "n": n, "stream": "s" * TOO_LONG})
        case "abrupt disconnect":
            caller.line.abort()
