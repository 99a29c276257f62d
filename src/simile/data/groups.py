"""Sequences that belong together, those of one person or one run: they are left out together, or not at all.

What a policy is to be judged on, a new person or a new recording of a known one, is a question that only whoever
recorded the data can answer. It is answered once, by groups, and every split follows.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from simile._common import checks
from simile._common.typing import IntArray
from simile.data.names import fold
from simile.errors import ArgumentError, DataError

GROUP = "group"  # what groups are called where nobody says what they are
RECORDING, PART = "recording", "another part of the same recording"
_KINDS = (
    "person|subject|participant|player|driver|operator|pilot|rider|user|patient|athlete|worker|animal|vehicle|"
    "run|trial|game|match|session|recording|day|group"
)
_NAME = re.compile(rf"({_KINDS})(_?(id|no|nr|number|index|name|code))?")
_MEMBER = re.compile(rf"({_KINDS}|s|p)[_ -]?\d+|\d{{4}}[_-]?\d\d[_-]?\d\d", re.ASCII)


def names_groups(name: str) -> bool:
    """Tell whether a column is called as what sequences have in common.

    >>> names_groups("driver_id"), names_groups("Subject"), names_groups("wind")
    (True, True, False)
    """
    return _NAME.fullmatch(fold(name)) is not None


def names_group(name: str) -> bool:
    """Tell whether a folder is called as one of several groups: a person or a day.

    >>> names_group("subject_03"), names_group("2024-05-31"), names_group("fast")
    (True, True, False)
    """
    return _MEMBER.fullmatch(fold(name)) is not None


def label_sequences(groups: Any, names: Sequence[str]) -> list[str]:
    """Return the label of each sequence, given one for each or a mapping from names.

    >>> label_sequences({"morning": "anna", "evening": "ben"}, ["evening", "morning"])
    ['ben', 'anna']
    """
    if isinstance(groups, Mapping):
        if missing := [name for name in names if name not in groups]:
            raise ArgumentError(f"groups must name the group of every sequence; {missing[0]!r} is not among them")
        found = [groups[name] for name in names]
    elif isinstance(groups, Iterable):
        found = list(groups)
    else:
        raise ArgumentError(f"groups must be a label for each sequence, or a mapping from their names; got {groups!r}")
    if len(found) != len(names):
        raise ArgumentError(f"groups must have a label for each of {len(names)} sequences; got {len(found)}")
    for name, label in zip(names, found, strict=True):
        if label is None or label != label:
            raise ArgumentError(f"groups must name the group of every sequence; got {label} for {name!r}")
    return [str(label) for label in found]


def one_group(sequence: str, *labels: object) -> str:
    """Say that the labels of a sequence must be one, and what to do."""
    found = " and ".join("missing" if label is None else str(label) for label in labels)
    return (
        f"must be the same in every row of a sequence; in {sequence!r} it is {found}: a group is of whole sequences, "
        "such as who acted in them"
    )


def number_groups(labels: Sequence[Hashable]) -> IntArray:
    """Give groups numbers, in the order in which they come; in one group alone, or in none, each sequence is its own.

    >>> number_groups(["b", "a", "b", None]), number_groups(["b", "b"])
    (array([0, 1, 0, 2]), array([0, 1]))
    """
    numbers = number_labels(labels)
    return numbers if numbers.any() else np.arange(len(numbers))


def number_labels(labels: Sequence[Hashable]) -> IntArray:
    """Give groups numbers as `number_groups` does; one group alone is one.

    >>> number_labels(["b", "a", "b", None]), number_labels(["b", "b"])
    (array([0, 1, 0, 2]), array([0, 0]))
    """
    keys = [object() if label is None else label for label in labels]
    numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], dtype=np.intp)


def are_grouped(kin: IntArray) -> bool:
    """Tell whether some sequences belong together."""
    return int(kin.max()) + 1 < len(kin)


def draw_groups(kin: IntArray, share: float, seed: int) -> npt.NDArray[np.bool_]:
    """Draw a share of the groups at random, at least one and never all; returns which sequences they have."""
    share, n = checks.number(share, "test", above=0.0, at_most=1.0), int(kin.max()) + 1
    if n < 2:
        raise DataError(
            f"split needs at least two sequences or groups; got {n}: "
            "cut a long recording with Demonstration.cut(start, stop) first"
        )
    order = np.random.default_rng(checks.whole_number(seed, "seed")).permutation(n)
    return np.isin(kin, order[: min(max(1, round(share * n)), n - 1)])


def draw_sequences(sizes: IntArray, most: float, seed: int, *, at_least: int = 1) -> IntArray:
    """Draw sequences of these sizes by chance, as many as fit into `most` and `at_least` some; returns their numbers.

    >>> draw_sequences(np.array([5, 5, 5, 5]), 12, seed=0), draw_sequences(np.array([5, 5]), 12, seed=0)
    (array([0, 2]), array([0, 1]))
    """
    if sizes.sum() <= most:
        return np.arange(len(sizes))
    order = np.random.default_rng(seed).permutation(len(sizes))
    return np.sort(order[: max(at_least, int(np.searchsorted(np.cumsum(sizes[order]), most, side="right")))])


def deal_groups(kin: IntArray, frames: IntArray, hands: int) -> IntArray:
    """Deal groups to so many hands, at most as many as there are groups; returns the hand of each sequence.

    The largest group goes first, each to the hand with the fewest frames: the same groups always go together.
    """
    size = np.bincount(kin, weights=frames)
    dealt, held = np.zeros(len(size), dtype=np.intp), np.zeros(min(hands, len(size)))
    for group in np.argsort(-size, kind="stable"):
        dealt[group] = held.argmin()
        held[dealt[group]] += size[group]
    return np.unique(dealt[kin], return_inverse=True)[1]


def tell_groups(kin: IntArray, name: str) -> str:
    """Say of how many groups sequences are; nothing where each is its own."""
    return f" of {kin.max() + 1} groups ({name})" if are_grouped(kin) else ""


def tell_new(kin: IntArray, groups: Sequence[str | None] | None, name: str) -> str:
    """Say what is new about sequences that were held out."""
    kinds = set(groups or (None,))
    if len(kin) == 1:
        return "later in the same recording"
    if are_grouped(kin) or (None not in kinds and len(kinds) == len(kin)):
        return f"another {spell_kind(name)}"
    return f"another {RECORDING}" if None in kinds else tell_same(name)


def tell_same(name: str) -> str:
    """Say that sequences are new, and what they belong to is not.

    >>> tell_same("group_of_three"), tell_same("recording")
    ('another recording of the same group of three', 'another part of the same recording')
    """
    return PART if name == RECORDING else f"another {RECORDING} of the same {spell_kind(name)}"


def spell_kind(name: str) -> str:
    """Return the name of a column as words."""
    return name.replace("_", " ")
