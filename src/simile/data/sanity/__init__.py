"""What is wrong with recorded data: values that are codes, recordings that differ by a factor, copies of the action.

Every way in, files, frames and arrays, ends in `Demonstrations`, and those are looked at here, once. What is certain
is refused by whatever learns from them, with the way out; what is likely is told.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from simile.data.sanity.columns import find_action_copies, find_clocks, find_effects, find_joined_sequences, find_labels
from simile.data.sanity.problem import Problem
from simile.data.sanity.recordings import compare_recordings, find_repeated_recordings, find_scales
from simile.data.sanity.values import (
    find_codes,
    find_doubled_rows,
    find_frozen,
    find_thousands,
    find_total_rows,
    find_wraps,
)
from simile.errors import DataError

if TYPE_CHECKING:
    from simile.data.demonstrations import Demonstrations

__all__ = ["Problem", "check_problems", "find_problems"]

LATER = (find_clocks, find_action_copies, find_scales, find_frozen)


def find_problems(demos: Demonstrations) -> tuple[Problem, ...]:
    """Look at every recording, and return what is wrong with the data: what is certain first.

    What explains a column is not followed by what that brings about: a code for missing makes scales differ, too.

    Parameters
    ----------
    demos : Demonstrations
        As they were read, before anything is left out or standardised.

    Returns
    -------
    tuple of Problem
        Of each column one at most.
    """
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns that are missing throughout
        return _find_all(demos)


def _find_all(demos: Demonstrations) -> tuple[Problem, ...]:
    found: list[Problem] = []
    for find in (find_repeated_recordings, find_doubled_rows, find_total_rows, find_labels):
        found += find(demos)
        if found:
            return tuple(found)
    for find in (find_codes, find_thousands, find_wraps, find_joined_sequences, *LATER):
        known = {name for problem in found for name in problem.columns}
        found += [problem for problem in find(demos) if not known & set(problem.columns)]
    if not any(problem.certain or set(problem.columns) & set(demos.action_names) for problem in found):
        for find in (compare_recordings, find_effects):
            known = {name for problem in found for name in problem.columns}
            found += [problem for problem in find(demos) if not known & set(problem.columns)]
    return tuple(sorted(found, key=lambda problem: not problem.certain))


def check_problems(demos: Any) -> tuple[str, ...]:
    """Refuse data that are certainly wrong, before anything is learned from them; return what is likely, in sentences.

    Raises
    ------
    DataError
        With the way out.
    """
    problems: tuple[Problem, ...] = demos.problems
    if wrong := next((problem for problem in problems if problem.certain), None):
        raise DataError(f"{wrong}; or learn from them as they are: --as-is, demos.as_is()")
    return tuple(map(str, problems))
