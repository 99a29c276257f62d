"""Names of columns and of sequences as strangers write them: blanks around them, and upper or lower case aside."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from simile._common.typing import FloatArray

FEW = 10  # steps: fewer of them say little
_INVISIBLE = "\u200b\ufeff"  # which no editor shows, and `strip` leaves
_INDEX = re.compile(r"unnamed:\d+(\.\d+)*|level_\d+|index|id|__index_level_\d+__|")


def tidy(name: str) -> str:
    """Return a name without the blanks around it, and without quotes that blanks have kept from being seen as such.

    >>> tidy(' "x_ball" ')
    'x_ball'
    """
    bare = name.strip().strip(_INVISIBLE).strip()
    return tidy(bare[1:-1]) if bare != name and len(bare) > 2 and bare[0] == bare[-1] == '"' else bare


def fold(name: str) -> str:
    """Return what names that differ only in blanks and case have in common.

    >>> fold(" Ball Speed") == fold("ballspeed")
    True
    """
    return "".join(tidy(name).split()).casefold()


def tidy_all(names: Sequence[str]) -> dict[str, str]:
    """Return the tidy form of every name; names that it would make one, or nothing, stay as they are.

    >>> tidy_all([" a", "b ", "b"])
    {' a': 'a', 'b ': 'b ', 'b': 'b'}
    """
    times = Counter(map(tidy, names))
    return {name: tidy(name) if tidy(name) and times[tidy(name)] == 1 else name for name in names}


def by_fold(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names under what they have in common."""
    alike = defaultdict(list)
    for name in names:
        alike[fold(name)].append(name)
    return alike


def recognise(given: Iterable[str], names: Sequence[str]) -> dict[str, str]:
    """Return what is meant by given names that are not there: the only names that differ in blanks and case alone.

    >>> recognise(["x_ball", "pan"], [" x_ball", "pan"])
    {' x_ball': 'x_ball'}
    """
    alike, there = by_fold(names), set(names)
    folded = {name: alike.get(fold(name), []) for name in given if name not in there}
    return {found[0]: name for name, found in folded.items() if len(found) == 1 and fold(name)}


def is_index(name: str) -> bool:
    """Return whether a column is called as tools call the numbers of rows, or not at all."""
    return _INDEX.fullmatch(fold(name)) is not None


def counts_rows(steps: FloatArray) -> bool:
    """Return whether a column of whole numbers counts rows, given its steps."""
    return len(steps) >= FEW and bool((steps == 1.0).all())


def list_some(names: Iterable[str], most: int = 8) -> str:
    """Write names one after the other on one line, the first and the last of them if they are many.

    >>> list_some(["a", "b"]), list_some("abcdef", most=4)
    ('a, b', 'a ... f (6)')
    """
    names = ["".join(c if c.isprintable() else " " for c in name) for name in names]
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[: most - 3])} ... {names[-1]} ({len(names)})"


def tell_untidy(names: Iterable[str]) -> list[str]:
    """Say which names were read without the blanks around them."""
    listed = list_some(names)
    return [f"read without the blanks around their names: {listed}"] if listed else []


def tell_twins(labels: Iterable[str]) -> list[str]:
    """Say which sequences have names that differ only in blanks: one may be meant.

    >>> tell_twins(["run 1", "run 2", "run 1 "])
    ["the sequences 'run 1' and 'run 1 ' differ only in blanks: give them one label if they are one"]
    """
    alike = defaultdict(list)
    for label in labels:
        alike["".join(label.split())].append(label)
    twins = [group for group in alike.values() if len(group) > 1]
    more = f" (and {len(twins) - 1} more)" if len(twins) > 1 else ""
    way_out = "give them one label if they are one"
    return [f"the sequences {a!r} and {b!r} differ only in blanks{more}: {way_out}" for a, b, *_ in twins[:1]]
