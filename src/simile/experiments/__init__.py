"""The experiments of Section 6 done again: each figure and claim over several seeds, with intervals and verdicts.

`reproduce` measures every claim on data that a `Source` makes from a seed, and writes tables, pictures and a page. A
verdict follows from numbers by rules that stand in the code (`statistics`, and the thresholds of each claim); nobody
sets one by hand.
"""

from simile.experiments.claims import CLAIMS, claims_named
from simile.experiments.lab import FULL, SMALL, Effort, Lab
from simile.experiments.reproduce import SEEDS, measure, reproduce, write
from simile.experiments.results import Claim, Result, Results
from simile.experiments.sources import CameraSource, FileSource, PursuitSource, Source
from simile.experiments.statistics import Effect, Verdict

__all__ = [
    "CLAIMS",
    "FULL",
    "SEEDS",
    "SMALL",
    "CameraSource",
    "Claim",
    "Effect",
    "Effort",
    "FileSource",
    "Lab",
    "PursuitSource",
    "Result",
    "Results",
    "Source",
    "Verdict",
    "claims_named",
    "measure",
    "reproduce",
    "write",
]
