"""Contenders side by side on held-out sequences: the same frames, the same measures, at equal smoothness."""

from simile.comparison.contest import REDUCTIONS, compare
from simile.comparison.judging import SIMPLE, Judgement, judge, judged_path, simple_filters
from simile.comparison.result import Comparison, Contender, Trial

__all__ = [
    "REDUCTIONS",
    "SIMPLE",
    "Comparison",
    "Contender",
    "Judgement",
    "Trial",
    "compare",
    "judge",
    "judged_path",
    "simple_filters",
]
