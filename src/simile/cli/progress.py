"""What a long command shows while it works: a bar on a terminal, a line per step anywhere else. All on stderr."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich import progress
from rich.console import Console

from simile._common.files import append, write_atomically

if TYPE_CHECKING:
    from simile.evaluation.improvement import Trial
    from simile.learning.problem import Fitted
    from simile.learning.rounds import Round


class Bar:
    """A bar over a known number of steps; a plain line per step where there is no terminal."""

    def __init__(self, title: str, total: int) -> None:
        self.console = Console(stderr=True)
        self.progress = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.title = title
        self.task = self.progress.add_task(title, total=total)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def step(self, words: str) -> None:
        """Go one step on and show `words`."""
        self.progress.update(self.task, advance=1, description=f"{self.title}: {words}")
        if not self.console.is_terminal:
            self.console.print(f"{self.title}: {words}", highlight=False, soft_wrap=True)


class Training(Bar):
    """The fits of a mixture, or the rounds of Algorithm 1: error and smoothness of the latest; and the time left."""

    def __init__(self, n_rounds: int) -> None:
        super().__init__("training", n_rounds)

    def __call__(self, turn: Round | Fitted) -> None:
        """Show a fit or a round as it comes."""
        from simile.learning.problem import Fitted

        if isinstance(turn, Fitted):
            self.progress.update(self.task, total=turn.steps)
            self.step(f"{turn.what}, fit {turn.done} of {turn.steps}")
            return
        if self.progress.tasks[self.task].finished:  # the policy that was made of the fits
            return
        held_out = "" if math.isnan(turn.validation_error) else f", validation {math.sqrt(turn.validation_error):.3f}"
        refused = " (refused: unstable)" if turn.diverged else ""
        self.step(
            f"round {turn.number}, error {math.sqrt(turn.error):.3f}{held_out}, roughness {turn.roughness:.2f}{refused}"
        )


class Trials(Bar):
    """The policies of an improvement: for each weight of the corrections one without what was let be, one with it."""

    def __init__(self, n_trials: int) -> None:
        super().__init__("improving", n_trials)

    def __call__(self, trial: Trial) -> None:
        """Show a policy as it comes."""
        tried = f"weight {trial.weight:g}{', with what was let be' * trial.let}"
        self.step(f"{tried}, error on corrections that were left out {trial.corrections:.3f}")


class Contenders(Bar):
    """The contenders of a comparison, one after the other; kept in a file too, for whoever looks in."""

    def __init__(self, n_contenders: int, record: Path) -> None:
        super().__init__("comparing", n_contenders)
        self.record = record
        write_atomically(record, json.dumps({"total": n_contenders}).encode() + b"\n")

    def __call__(self, name: str) -> None:
        """Show whose turn it is."""
        self.step(name)
        append(self.record, json.dumps({"contender": name}) + "\n")


class Frames(Bar):
    """The frames of a film, drawn or cut."""

    def __init__(self, title: str) -> None:
        super().__init__(title, 1)

    def __call__(self, done: int, total: int) -> None:
        """Show how many of all frames are done."""
        self.progress.update(self.task, completed=done, total=total)
        if not self.console.is_terminal and (done == total or done % max(1, total // 10) == 0):
            self.console.print(f"{self.title}: {done} of {total} frames", highlight=False)
