"""The experiments of Section 6 done again: each figure and claim over several seeds, with intervals and verdicts.

`reproduce` measures every claim under two readings of Algorithm 2, as printed and as the authors' script has it, on
data that each `Source` makes from a seed, and writes tables, pictures and a page. A verdict follows from numbers by
rules that stand in the code (`statistics`, and the thresholds of each claim); nobody sets one by hand.
"""

from simile.experiments.claims import CLAIMS, claims_named
from simile.experiments.lab import FULL, SMALL, Effort, Lab
from simile.experiments.reproduce import SEEDS, default_sources, measure, reproduce, write
from simile.experiments.results import Case, Claim, Result, Results
from simile.experiments.sources import CameraSource, FileSource, PursuitSource, RecordedSource, Source
from simile.experiments.statistics import Effect, Verdict

__all__ = [
    "CLAIMS",
    "FULL",
    "SEEDS",
    "SMALL",
    "CameraSource",
    "Case",
    "Claim",
    "Effect",
    "Effort",
    "FileSource",
    "Lab",
    "PursuitSource",
    "RecordedSource",
    "Result",
    "Results",
    "Source",
    "Verdict",
    "claims_named",
    "default_sources",
    "measure",
    "reproduce",
    "write",
]
