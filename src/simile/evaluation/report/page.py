"""The report as an object: where its content comes from, and how it becomes one file of HTML."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simile._common import pages
from simile._common.files import write_atomically
from simile.data.demonstrations import Demonstration, Demonstrations

if TYPE_CHECKING:
    from simile.evaluation.comparison import Comparison
    from simile.evaluation.evaluation import Evaluation
    from simile.evaluation.report.content import Material
    from simile.learning.algorithms import Run
    from simile.learning.runs import RunFolder


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that a page shows of a run, as plain data; `save` writes the page.

    The page is one file that needs no network: it says how accurate, how smooth and how late the policy is, shows
    what it did beside the expert, where it errs, what it looks at, and how to do it again.

    Attributes
    ----------
    content : dict
        Words and numbers, as frontend/src/payload.ts lists them.
    series : tuple of dict
        The trajectories of each held-out sequence, packed.

    Examples
    --------
    >>> import simile
    >>> train, test = simile.tasks.pursuit(n_sequences=6, length=200).split(test=0.5)
    >>> report = Report.of(simile.learn(train, model=simile.Ridge()), test)
    >>> [answer["question"] for answer in report.content["answers"]][:3]
    ['Is it accurate?', 'Is it smooth?', 'Is it on time?']
    """

    content: dict[str, Any] = field(repr=False)
    series: tuple[dict[str, Any], ...] = field(repr=False)

    @classmethod
    def of(
        cls,
        run: Run,
        test: Demonstrations | Demonstration | None = None,
        *,
        evaluation: Evaluation | None = None,
        title: str = "A policy and its expert",
        subtitle: str = "",
        repeat: Mapping[str, str] | None = None,
    ) -> Report:
        """Report on a run by held-out sequences.

        Parameters
        ----------
        run : Run
            What `simile.learn` or another algorithm returned.
        test : Demonstrations, optional
            Sequences that the run has not seen; by default all, each left out in turn.
        evaluation : Evaluation, optional
            What `simile.evaluate` found on these sequences, where that is known.
        title, subtitle : str
            Above the page; the subtitle tells of the data by default.
        repeat : mapping, optional
            How to do it again: texts under `command`, `python` and `config`.
        """
        from simile.evaluation.report.from_runs import of_run

        return cls._of(
            of_run(run, None if test is None else Demonstrations.of(test), evaluation, title, subtitle, repeat)
        )

    @classmethod
    def of_comparison(
        cls,
        comparison: Comparison,
        *,
        title: str = "Contenders at equal smoothness",
        subtitle: str = "",
        repeat: Mapping[str, str] | None = None,
    ) -> Report:
        """Report on a comparison: on its first contender, beside the best other reduction and the best rival.

        Parameters
        ----------
        comparison : Comparison
            What `simile.compare` returned.
        title, subtitle, repeat
            As for `of`.
        """
        from simile.evaluation.report.from_comparisons import of_comparison

        return cls._of(of_comparison(comparison, title, subtitle, repeat))

    @classmethod
    def of_folder(
        cls,
        folder: RunFolder,
        *,
        demos: Demonstrations | None = None,
        trusted: Sequence[str] = (),
        max_memory: float | None = None,
    ) -> Report:
        """Report on what `simile train` or `simile compare` left in a folder; a run may still be going on.

        Parameters
        ----------
        folder : RunFolder
            The folder.
        demos : Demonstrations, optional
            What to judge the policy on; the sequences that the run held out, read again, by default.
        trusted, max_memory
            As for `simile.load`; what a run of this user wrote here needs no trust.
        """
        from simile.evaluation.report.from_runs import of_folder

        return cls._of(of_folder(folder, None if demos is None else Demonstrations.of(demos), trusted, max_memory))

    @classmethod
    def _of(cls, material: Material) -> Report:
        return cls(material.content(), () if material.curves is None else material.curves.packed())

    def to_html(self) -> str:
        """Return the page."""
        series = "\n".join(
            f'<script type="application/json" id="series-{i}">{pages.harmless(json.dumps(packed, allow_nan=False))}'
            "</script>"
            for i, packed in enumerate(self.series)
        )
        return pages.fill(
            pages.asset("report.html"),
            title=html.escape(self.content["title"]),
            headline=html.escape(self.content["headline"]),
            verdict=html.escape(self.content["verdict"]),
            style=pages.asset("built/report.css"),
            script=pages.asset("built/report.js"),
            report=pages.harmless(json.dumps(self.content, allow_nan=False)),
            series=series,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, whole or not at all."""
        # Half a surrogate pair, which some file names hold, cannot be written as UTF-8.
        write_atomically(path, self.to_html().encode("utf-8", "replace"))

    def __repr__(self) -> str:
        n = len(self.series)
        return f"Report({self.content['title']!r}, {n} sequence{'' if n == 1 else 's'})"
