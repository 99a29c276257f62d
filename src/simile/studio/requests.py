"""What a page may ask for, checked field by field before it gets near a command or a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from simile._common.web import RequestError
from simile.errors import SimileError
from simile.learning import ALGORITHMS

SPORTS = ("basketball", "soccer")
TEXTS = ("model", "regularizer", "horizon", "feedback", "rule", "step_size", "space")
LONGEST = 2000  # characters of a text

Check = Callable[[str, Any], Any]


def checked(given: Any, fields: Mapping[str, Check]) -> dict[str, Any]:
    """Return the fields that were given, each as its check makes of it; others are refused by name."""
    if not isinstance(given, dict):
        raise RequestError(400, "the request must be a JSON object")
    if unknown := sorted(set(given) - set(fields)):
        raise RequestError(400, f"{unknown[0]!r} is not known here; there are {', '.join(fields)}")
    return {name: fields[name](name, value) for name, value in given.items() if value is not None}


def number(low: float, high: float, *, above: bool = False) -> Check:
    """Take a number from `low` to `high`; with `above`, `low` itself is refused."""

    def check(name: str, value: Any) -> float:
        good = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        if not good or (above and value == low):
            raise RequestError(400, f"{name} must be a number from {low:g} to {high:g}; got {_shown(value)}")
        return float(value)

    return check


def whole(low: int, high: int) -> Check:
    """Take a whole number from `low` to `high`."""

    def check(name: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise RequestError(400, f"{name} must be a whole number from {low} to {high}; got {_shown(value)}")
        return value

    return check


def one_of(*choices: Any) -> Check:
    """Take one of some values."""

    def check(name: str, value: Any) -> Any:
        if value not in choices or isinstance(value, bool):
            raise RequestError(400, f"{name} must be one of {', '.join(map(str, choices))}; got {_shown(value)}")
        return next(choice for choice in choices if choice == value)

    return check


def text(name: str, value: Any) -> str:
    """Take a text that is not too long."""
    if not isinstance(value, str) or len(value) > LONGEST or "\0" in value or not _is_utf8(value):
        raise RequestError(400, f"{name} must be a text of at most {LONGEST} characters; got {_shown(value)}")
    return value


def texts(name: str, value: Any) -> list[str]:
    """Take a list of texts; one text is a list of one."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise RequestError(400, f"{name} must be a list of texts; got {_shown(value)}")
    return [text(name, one) for one in value]


def flag(name: str, value: Any) -> bool:
    """Take true or false."""
    if not isinstance(value, bool):
        raise RequestError(400, f"{name} must be true or false; got {_shown(value)}")
    return value


def recipe(name: str, value: Any) -> str:
    """Take a recipe as text; it is parsed, never executed, to see that it is one (see `simile.learning.recipes`)."""
    from simile.learning.recipes import parse

    written = text(name, value)
    try:
        parse(written, name)
    except SimileError as error:
        raise RequestError(400, str(error)) from None
    return written


def smoothness(name: str, value: Any) -> str:
    """Take lambda, or a recipe for it, as text."""
    from simile.learning.recipes import parse
    from simile.learning.smoothness import MatchExpert, SmoothTime

    written = recipe(name, repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else value)
    made = parse(written, name)
    if isinstance(made, SmoothTime | MatchExpert):
        return written
    return repr(number(0.0, 1e12)(name, made))


READING: dict[str, Check] = {
    "actions": texts,
    "contexts": texts,
    "sequence": text,
    "time": text,
    "rate": number(0.0, 1e9, above=True),
    "gap": number(0.0, 1e12, above=True),
    "resample": number(0.0, 1e9, above=True),
}
GAMES: dict[str, Check] = {
    "n_games": whole(1, 40),
    "minutes": number(0.5, 5.0),
    "axes": one_of(1, 3),
    "sport": one_of(*SPORTS),
    "seed": whole(0, 2**31),
}
_ABOUT_RUNS: dict[str, Check] = {"kind": one_of("train", "compare"), "data": text, "name": text, "parent": text}
_LEARNING: dict[str, Check] = {
    "smoothness": smoothness,
    "model": recipe,
    "n_rounds": whole(0, 1000),
    "seed": whole(0, 2**31),
    "test": number(0.01, 0.99),  # never a path, as on the command line
    "validation": number(0.0, 0.99),
}
RUNS: dict[str, dict[str, Check]] = {
    "train": {
        **_ABOUT_RUNS,
        "algorithm": one_of(*ALGORITHMS),
        **_LEARNING,
        **dict.fromkeys(TEXTS, recipe),
    },
    "compare": {
        **_ABOUT_RUNS,
        **_LEARNING,
        "rivals": flag,
        "reductions": lambda name, value: [one_of(*ALGORITHMS)(name, one) for one in texts(name, value)],
    },
}
ROLL: dict[str, Check] = {"sequence": whole(0, 10**9), "smoothness": number(0.0, 1e12)}


def _is_utf8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a character: no file can hold it
        return False
    return True


def _shown(value: object) -> str:
    said = repr(value)
    return said if len(said) <= 60 else f"{said[:50]}..."
