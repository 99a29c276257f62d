"""A scripted operator, who knows what is right and watches a policy at work: for trying the loop without a person."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simile._common import checks
from simile._common.files import replacing
from simile._common.needs import need
from simile._common.typing import FloatArray
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.reading.tables import METADATA_KEY, Roles
from simile.errors import ArgumentError
from simile.online.predictor import Predictor
from simile.policies.policies import Policy
from simile.policies.storage.files import digest_of


@dataclass(frozen=True, eq=False)
class Watched:
    """What was sent in each frame of a sequence, (T, k), and in which the operator acted, (T,)."""

    demo: Demonstration
    actions: FloatArray
    operated: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ScriptedOperator:
    """The expert of some sequences, who takes over when a policy is off for too long, and hands back when it is not.

    Takes over when the error, the largest of all actions, has exceeded `threshold` for `patience` seconds. Then acts as
    recorded, beside a copy of the policy that was left alone, and hands back when that has been within half of the
    threshold for as long: when the policy, had it acted, would be close again.

    Parameters
    ----------
    threshold : float
        In the unit of the actions.
    patience : float
        Seconds.
    """

    threshold: float
    patience: float = 1.0

    def __post_init__(self) -> None:
        checks.number(self.threshold, "threshold", above=0.0)
        checks.number(self.patience, "patience", at_least=0.0)

    def watch(self, policy: Policy, demos: Demonstrations | Demonstration) -> list[Watched]:
        """Let a policy act along demonstrations of this expert, frame by frame, and take over where it must be."""
        return [self._watch(policy, demo) for demo in Demonstrations.of(demos)]

    def _watch(self, policy: Policy, demo: Demonstration) -> Watched:
        if demo.rate is None:
            raise ArgumentError("demos must have a rate: patience is in seconds")
        n = max(1, round(self.patience * demo.rate))
        at_work, alone = Predictor(policy, start=demo.actions[:1]), Predictor(policy, start=demo.actions[:1])
        sent, operated = np.empty_like(demo.actions), np.zeros(len(demo), dtype=bool)
        bad = good = 0
        taken = False
        for i, (x, right) in enumerate(zip(demo.contexts, demo.actions, strict=True)):
            own = alone.step(x)
            operated[i] = taken
            sent[i] = at_work.override(right, x) if taken else at_work.step(x)
            off, apart = (float(np.max(np.abs(a - right))) for a in (sent[i], own))
            bad = 0 if taken or off <= self.threshold else bad + 1
            good = good + 1 if taken and apart <= self.threshold / 2.0 else 0
            if bad >= n or good >= n:
                taken, bad, good = not taken, 0, 0
        return Watched(demo, sent, operated)


def share_operated(watched: Iterable[Watched]) -> float:
    """Return the share of time in which the operator acted."""
    return float(np.mean(np.concatenate([w.operated for w in watched])))


def record(watched: Iterable[Watched], policy: Policy, file: str | Path, *, opened: float = 0.0) -> None:
    """Write what happened as a recorder does, one Parquet file: see `simile.data.corrections`.

    Parameters
    ----------
    file : path
        For example recording-000000.parquet in the folder of the recordings.
    opened : float
        When the streams were opened, in seconds since 1970: tells one day from the next.
    """
    pa, pq = need("pyarrow", "writing recordings"), need("pyarrow.parquet", "writing recordings")
    digest, parts = digest_of(policy), []
    for one in watched:
        demo, n = one.demo, len(one.demo)
        columns: dict[str, Any] = {
            "sequence": [f"{demo.name} {opened:.0f}"] * n,
            "n": np.arange(n),
            "t": opened + np.arange(n) / (demo.rate or 1.0),
            **dict(zip(demo.context_names, demo.contexts.T, strict=True)),
            **dict(zip(demo.action_names, one.actions.T, strict=True)),
            "who": np.where(one.operated, "operator", "policy"),
            "limited": np.zeros(n, dtype=bool),
            "policy": [digest] * n,
            "event": pa.nulls(n, pa.string()),
        }
        roles = asdict(Roles("sequence", "t", demo.context_names, demo.action_names, demo.rate, about=demo.about))
        parts.append(pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(roles).encode()}))
    with replacing(file) as opened_file:
        pq.write_table(pa.concat_tables(parts), opened_file)
