"""One trial: a training on one part of the sequences, judged by roll-outs over the other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from simile.data.demonstrations import Demonstrations
from simile.errors import SimileError
from simile.learning import algorithms
from simile.learning.algorithms import Run
from simile.learning.rounds import Round

Report = Callable[[int, float, float], bool]  # (number of the round, RMSE, roughness) -> whether to give up


@dataclass(frozen=True, eq=False)
class Split:
    """What trials learn from, and what judges them: whole sequences that no trial trains on."""

    train: Demonstrations
    validation: Demonstrations


@dataclass(frozen=True)
class Verdict:
    """How a trial ended. RMSE in standard deviations of the expert's actions; roughness over the expert's."""

    rmse: float = math.nan
    roughness: float = math.nan
    pruned: bool = False
    trouble: str = ""  # why it failed
    seconds: float = 0.0


class _Enough(Exception):  # noqa: N818 - not an error
    """Ends a training that is given up."""


def judge(settings: Mapping[str, Any], split: Split, report: Report | None = None) -> Verdict:
    """Train with the settings and roll out over the validation part. A bad trial is told, never raised.

    It depends on its arguments alone, so that it can be done anywhere, and again. `report` may end rounds of
    Algorithm 1 early; what `learn` solves for at once has nothing to tell before it is done.
    """
    begin = time.perf_counter()
    last = int(settings.get("n_rounds", 10)) if settings.get("algorithm", "learn") != "learn" else 0
    turns: list[Round] = []
    pruned = False

    def watch(turn: Any) -> None:
        nonlocal pruned
        if not isinstance(turn, Round):  # of a mixture, whose round comes last
            return
        turns.append(turn)
        if report is not None and last:
            worse = report(turn.number, math.sqrt(turn.validation_error), turn.validation_roughness)
            # The first round is only the beginning, and what is finished cannot be given up any more.
            pruned = worse and 0 < turn.number < last
        if pruned:
            raise _Enough

    trouble = ""
    try:
        run = train(split.train, {**settings, "validation": split.validation, "watch": watch})
        if run.interrupted:
            raise KeyboardInterrupt
    except _Enough:
        pass
    except Exception as error:  # whatever a model may raise: the others shall be tried all the same
        trouble = str(error) if isinstance(error, SimileError) else f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - begin
    if trouble or not turns:
        return Verdict(trouble=trouble or "no round was finished", seconds=seconds)
    rmse, rough = math.sqrt(turns[-1].validation_error), turns[-1].validation_roughness
    if not math.isfinite(rmse) and not pruned:
        return Verdict(trouble="the roll-out over the validation sequences diverged", seconds=seconds)
    return Verdict(rmse, rough, pruned, seconds=seconds)


def train(demos: Demonstrations, settings: Mapping[str, Any]) -> Run:
    """Run the algorithm that the settings name, `learn` where they name none."""
    given = dict(settings)
    run: Run = getattr(algorithms, given.pop("algorithm", "learn"))(demos, **given)
    return run
