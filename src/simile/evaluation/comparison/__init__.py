"""Contenders side by side on held-out sequences: the same frames, the same measures, at equal smoothness."""

from simile.evaluation.comparison.benchmark import compare
from simile.evaluation.comparison.result import Comparison, Contender, Trial

__all__ = ["Comparison", "Contender", "Trial", "compare"]
