"""Contenders side by side on held-out sequences: the same frames, the same measures, at equal smoothness."""

from simile.evaluation.comparison.full import compare
from simile.evaluation.comparison.quick import SIMPLE, Judgement, judge, judged_path, simple_filters
from simile.evaluation.comparison.result import Comparison, Contender, Trial

__all__ = [
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
