"""What a page may ask for, checked field by field before it gets near a command or a file."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, inspect

from simile._common.web import RequestError
from simile.errors import SimileError
from simile.learning import ALGORITHMS
from simile.serving.messages import LARGEST_N, NAME

LARGEST = 1e12  # lambda that is taken

Text = Annotated[str, Meta(max_length=2000, pattern=r"\A[^\0\ud800-\udfff]*\Z")]  # half a character is in no file
Algorithm = Annotated[
    str, Meta(pattern=rf"\A({'|'.join(ALGORITHMS)})\Z", description=f"one of {', '.join(ALGORITHMS)}")
]
Lead = Annotated[float, Meta(ge=-1e4, le=1e4)]  # seconds
Positive = Annotated[float, Meta(gt=0.0, le=1e9)]
Seed = Annotated[int, Meta(ge=0, le=2**31)]


class Reading(Struct, forbid_unknown_fields=True):
    """How to read data; see `simile.read`."""

    actions: list[Text] | UnsetType = UNSET
    contexts: list[Text] | UnsetType = UNSET
    sequence: Text | UnsetType = UNSET
    group: Annotated[str, Meta(max_length=2000, pattern=r"\A[^:\0\ud800-\udfff]*\Z")] | UnsetType = UNSET  # no file
    time: Text | UnsetType = UNSET
    time_unit: Literal["s", "ms", "us", "ns", "min", "h", "d"] | UnsetType = UNSET
    rate: Positive | UnsetType = UNSET
    gap: Annotated[float, Meta(gt=0.0, le=1e12)] | UnsetType = UNSET
    resample: Positive | UnsetType = UNSET


class Games(Struct, forbid_unknown_fields=True):
    """Games to simulate."""

    n_games: Annotated[int, Meta(ge=1, le=40)] = 8
    minutes: Annotated[float, Meta(ge=0.5, le=5.0)] = 1.0
    axes: Literal[1, 3] = 1
    sport: Literal["basketball", "soccer"] = "basketball"
    seed: Seed = 0


class Run(Struct, forbid_unknown_fields=True):
    """A run to begin. Recipes are parsed, never executed, to see that they are some (see `simile.learning.recipes`)."""

    kind: Literal["train", "compare"] | UnsetType = UNSET
    data: Text | UnsetType = UNSET
    name: Text | UnsetType = UNSET
    parent: Text | UnsetType = UNSET
    smoothness: Annotated[float | Text, Meta(description="a number, or a recipe for one")] | UnsetType = UNSET
    model: Text | UnsetType = UNSET
    loss: Text | UnsetType = UNSET
    n_rounds: Annotated[int, Meta(ge=0, le=1000)] | UnsetType = UNSET
    seed: Seed | UnsetType = UNSET
    test: Annotated[float, Meta(ge=0.01, le=0.99)] | UnsetType = UNSET  # never a path, as on the command line
    validation: Annotated[float, Meta(ge=0.0, le=0.99)] | UnsetType = UNSET

    def __post_init__(self) -> None:
        from simile.learning.recipes import parse
        from simile.learning.smoothness import MatchExpert, SmoothTime
        from simile.policies.hold import Hold

        for name in ("smoothness", "hold"):
            if isinstance(given := getattr(self, name, UNSET), float):
                setattr(self, name, repr(given))
        try:
            for name in RECIPES:
                made = UNSET if (text := getattr(self, name, UNSET)) is UNSET else parse(text, name)
                if name == "smoothness" and not isinstance(made, UnsetType | SmoothTime | MatchExpert | tuple):
                    self.smoothness = repr(read_request({"smoothness": made}, Roll)["smoothness"])
                if name == "hold" and made is not UNSET:
                    Hold.given(made)
        except SimileError as error:
            raise RequestError(400, str(error)) from None


class Training(Run, forbid_unknown_fields=True):
    """A training to begin."""

    algorithm: Algorithm | UnsetType = UNSET
    regularizer: Text | UnsetType = UNSET
    horizon: Text | UnsetType = UNSET
    lead: Lead | UnsetType = UNSET
    feedback: Text | UnsetType = UNSET
    hold: Annotated[float | Text, Meta(description="a number, or a recipe for one")] | UnsetType = UNSET
    rule: Text | UnsetType = UNSET
    step_size: Text | UnsetType = UNSET
    space: Text | UnsetType = UNSET


class Comparison(Run, forbid_unknown_fields=True):
    """A comparison to begin."""

    rivals: bool | UnsetType = UNSET
    lead: Annotated[list[Lead], Meta(min_length=1, max_length=10, description="numbers of seconds")] | UnsetType = UNSET
    reductions: list[Algorithm] | UnsetType = UNSET


class Roll(Struct, forbid_unknown_fields=True):
    """A roll-out to preview."""

    sequence: Annotated[int, Meta(ge=0, le=10**9)] = 0
    smoothness: Annotated[float, Meta(ge=0.0, le=LARGEST)] | None = None


class Click(Struct, forbid_unknown_fields=True):
    """A landmark and where in the picture it was clicked."""

    u: Annotated[float, Meta(ge=-1e5, le=1e5)]
    v: Annotated[float, Meta(ge=-1e5, le=1e5)]
    name: Text


Side = Annotated[int, Meta(ge=1, le=50_000)]
FileName = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9][A-Za-z0-9 _-]{0,60}\Z",
        description="a name of letters, digits, blanks, - and _, at most 61 of them",
    ),
]


class Calibrating(Struct, forbid_unknown_fields=True):
    """Clicks on a picture to calibrate by, and the name to keep the result under."""

    court: Text
    size: Annotated[tuple[Side, Side], Meta(description="the width and height of a picture, up to 50,000 pixels each")]
    pairs: Annotated[list[Click], Meta(max_length=200, description="at most 200 clicks: u, v and name")]
    model: Literal["homography", "camera"] = "homography"
    name: FileName | UnsetType = UNSET


Address = Annotated[str, Meta(max_length=300, pattern=r"\A[^\s\0]+\Z", description="like ws://127.0.0.1:8770")]
StreamName = Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z", description="the name of a stream")]
Secret = Annotated[str, Meta(max_length=500, pattern=r"\A[ -~]*\Z", description="a token of printable ASCII")]


class Watching(Struct, forbid_unknown_fields=True):
    """A running service, whose streams are to be listed."""

    service: Address = ""
    token: Secret = ""


class Operating(Watching, forbid_unknown_fields=True):
    """One of its streams, to look on at and to take over."""

    stream: StreamName = ""


class LeftOut(Struct, forbid_unknown_fields=True):
    """Frames of a stream under an operator that are not to be learned from, and when the first and the last came."""

    stream: StreamName
    t: Annotated[float, Meta(ge=0.0, le=1e11)]  # Unix seconds
    until: Annotated[float, Meta(ge=0.0, le=1e11)]
    first: Annotated[int, Meta(ge=0, le=LARGEST_N)]
    last: Annotated[int, Meta(ge=0, le=LARGEST_N)]


class Improvement(Struct, forbid_unknown_fields=True):
    """A new version to learn: from which demonstrations, and without which corrections."""

    data: Text = ""
    left_out: Annotated[
        list[LeftOut], Meta(max_length=1000, description="stretches: stream, t, until, first and last")
    ] = []


RECIPES = ("smoothness", "model", "regularizer", "horizon", "feedback", "hold", "loss", "rule", "step_size", "space")
RUNS: dict[str, type[Run]] = {"train": Training, "compare": Comparison}


def read_request(given: Any, kind: type[Struct], *, strict: bool = True) -> dict[str, Any]:
    """Return the fields that were given, and the defaults of others that have one.

    Parameters
    ----------
    given
        What came, as JSON has it. A field that is null was not given; one text is a list of one.
    kind : type of Struct
        What it must be; anything else is refused by the field's name.
    strict : bool
        Whether numbers must be numbers; those of an address are texts.
    """
    if not isinstance(given, dict):
        raise RequestError(400, "the request must be a JSON object")
    fields = {field.name: field.type for field in inspect.type_info(kind).fields}  # type: ignore[attr-defined]
    if unknown := sorted(set(given) - set(fields)):
        raise RequestError(400, f"{unknown[0]!r} is not known here; there are {', '.join(fields)}")
    # Not by a union of list and text in the types: where the text has a pattern, msgspec 0.22 corrupts memory.
    lists = {name for name, type_ in fields.items() if isinstance(type_, inspect.ListType)}
    wanted = {n: [v] if n in lists and isinstance(v, str) else v for n, v in given.items() if v is not None}
    try:
        read = msgspec.convert(wanted, kind, strict=strict)
    except msgspec.ValidationError as error:
        name = re.search(r"`\$\.(\w+)", str(error))[1]  # type: ignore[index]  # what is wrong is wrong in a field
        raise RequestError(400, f"{name} must be {_describe(fields[name])}; got {_shorten(given[name])}") from None
    found: dict[str, Any] = msgspec.to_builtins(read)
    return found


def _describe(kind: inspect.Type) -> str:
    """Say what a field must be."""
    match kind:
        case inspect.Metadata(extra_json_schema={"description": description}):
            return str(description)
        case inspect.UnionType(types=(one, *_)):
            return _describe(one)
        case inspect.ListType(item_type=item):
            return f"a list of texts, each {_describe(item)}"
        case inspect.IntType(ge=low, le=high):
            return f"a whole number from {low} to {high}"
        case inspect.FloatType(ge=low, gt=above, le=high):
            return f"a number from {above if low is None else low:g} to {high:g}"
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case inspect.StrType(max_length=most):
            return f"a text of at most {most} characters"
    return "true or false"


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}..."
