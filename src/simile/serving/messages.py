"""What goes over a stream's WebSocket: typed messages, as JSON in text frames or as msgpack in binary ones.

Every message is decoded by msgspec into one of these: whatever does not fit, an unknown field too, is refused with a
sentence before anything else looks at it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

Number = float | None  # null is a value that is missing
Count = Annotated[int, Meta(ge=0)]
By = Literal["policy", "gap", "operator", "waiting"]

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")  # of a stream
LARGEST_N = 2**53 - 1  # what JavaScript can count to
FURTHEST = 10_000_000  # by which a number may be above the last one: two days at 60 frames a second


class Open(Struct, frozen=True, forbid_unknown_fields=True):
    """How a stream begins.

    Parameters
    ----------
    start : list of float, optional
        The action from which it begins.
    deadline : float
        Seconds by which a frame may be late before its action is made without it; 0 for none.
    resume : bool
        Whether to go on with a stream of this name, where there is one.
    band : float, optional
        Level of the band that every answer shall bring, such as 0.9; events then tell when the policy is unsure.
    """

    start: list[float] | None = None
    deadline: float = 0.0
    resume: bool = False
    band: float | None = None


class Frame(Struct, forbid_unknown_fields=True, gc=False):
    """A message to the server: a frame, an operator's action, the beginning of a stream or its end.

    Parameters
    ----------
    x : list or dict of float or None, optional
        The context, in order or by name; None for a frame that was dropped.
    n : int, optional
        The number of the frame; None lets the server count.
    override : list of float, optional
        What an operator does in this frame.
    stream : str, optional
        Which stream is meant, on a connection that carries many.
    open, close
        Begins the stream, or ends it.
    """

    x: list[Number] | dict[str, Number] | UnsetType | None = UNSET
    n: int | None = None
    override: list[float] | None = None
    stream: str | None = None
    open: Open | None = None
    close: Literal[True] | None = None


class Answer(Struct, omit_defaults=True, gc=False):
    """The answer to a frame; what is as by default is left out of the message, `n` apart.

    Parameters
    ----------
    n : int or None
        The number of the frame that is answered; None where it could not be read.
    a : list of float, optional
        The action.
    by : str, optional
        Who made it: the policy, the gap that bridges, or the operator; "waiting" where there is none yet, as the policy
        waits for later frames before it answers this one.
    stream : str, optional
        Which stream it is for, on a connection that carries many.
    lost : int
        Frames of this stream that were dropped, doubled or out of order, and answers that were not sent, since the
        answer before.
    error : str, optional
        Why the frame could not be used.
    band : list of list of float, optional
        The lowest and the highest action that the expert may have taken, where the stream was opened with a band.
    meant : int, optional
        The number of the frame that the action is for, in the message `for`; left out where that is n: where the policy
        has no lead.
    """

    n: int | None
    a: list[float] | None = None
    by: By | None = None
    stream: str | None = None
    lost: int = 0
    error: str | None = None
    band: list[list[float]] | None = None
    meant: int | None = field(default=None, name="for")


class Opened(Struct, frozen=True):
    """What a stream that was opened is like."""

    frames: Count  # that it has seen: above 0 where it was resumed
    rate: float | None
    contexts: list[str]
    actions: list[str]
    n: Annotated[int, Meta(ge=0, le=LARGEST_N)] | None = (
        None  # the last number that it took: a client that resumes it goes on from there
    )
    lead: int = 0  # frames from the one that is answered to the one that the action is for


class Closed(Struct, frozen=True, forbid_unknown_fields=True):
    """What a stream that was closed has seen."""

    frames: Count
    dropped: Count


class OpenAnswer(Struct, omit_defaults=True):
    """The answer to `open`."""

    opened: Opened
    stream: str | None = None


class CloseAnswer(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The answer to `close`."""

    closed: Closed
    stream: str | None = None


class Notice(Struct, omit_defaults=True):
    """Something that nobody asked for: `event` has its kind, whether it is on, and what there is to say."""

    event: dict[str, Any]
    stream: str | None = None


class Watch(Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator is shown of a stream beside its actions.

    Parameters
    ----------
    contexts : bool
        Whether each frame comes with its context.
    """

    contexts: bool = False


class OperatorMessage(Struct, forbid_unknown_fields=True):
    """A message of an operator: exactly one of these.

    Parameters
    ----------
    take : list of float, optional
        The action of all frames from now on, until another one comes, or none for half a second.
    hand_back : bool, optional
        Let the policy act again.
    watch : Watch, optional
        What to show.
    """

    take: list[float] | None = None
    hand_back: Literal[True] | None = None
    watch: Watch | None = None


class Seated(Struct, frozen=True):
    """What an operator who has sat down must know."""

    stream: str
    live: bool  # whether there is such a stream now
    operated: bool  # whether somebody has it in hand
    rate: float | None
    contexts: list[str]
    actions: list[str]
    low: list[float | None]  # between which the actions of the policy lie
    high: list[float | None]
    lead: int = 0  # as in `Opened`


class Shown(Struct, omit_defaults=True, gc=False):
    """A frame as an operator sees it: when it came in unix seconds, and what was answered."""

    n: int | None
    t: float
    a: list[float] | None = None
    by: By | None = None
    x: list[Number] | None = None  # on request
    error: str | None = None
    band: list[list[float]] | None = None  # low and high, where the stream's client has asked for it
    shadows: dict[str, list[float]] | None = None  # what candidates would have done, in the newest frame of a message
    meant: int | None = field(default=None, name="for")  # as in `Answer`


class Welcome(Struct):
    """The first message to an operator."""

    seated: Seated


class Showing(Struct, omit_defaults=True):
    """What has happened since the message before, the newest frame last."""

    frames: list[Shown]
    skipped: int = 0  # older ones that are not shown


class Complaint(Struct):
    """The answer to an operator's message that cannot be used."""

    error: str


class StreamFacts(Struct, forbid_unknown_fields=True):
    """What may be told of a stream."""

    name: str
    frames: Count
    dropped: Count
    late: Count
    by: By | None


class StreamList(Struct, forbid_unknown_fields=True):
    """The streams that live."""

    streams: list[StreamFacts]


class Overheard(Struct):
    """Any of these as an operator's client takes it."""

    seated: Seated | None = None
    frames: list[Shown] = []
    skipped: Count = 0
    error: str | None = None
    event: dict[str, Any] | None = None


Reply = Answer | OpenAnswer | CloseAnswer | Notice
ToOperator = Welcome | Showing | Complaint | Notice | StreamList


class Heard(Struct):
    """Any of these as a client takes it, who cannot know the server; fields that are not known are a newer one's."""

    n: Annotated[int, Meta(le=LARGEST_N)] | None = None
    a: Annotated[list[float], Meta(min_length=1)] | None = None
    by: str | None = None
    lost: Count = 0
    error: str | None = None
    band: Annotated[list[list[float]], Meta(min_length=2, max_length=2)] | None = None
    meant: int | None = field(default=None, name="for")
    opened: Opened | None = None
    closed: dict[str, Any] | None = None
    event: dict[str, Any] | None = None


from_json = msgspec.json.Decoder(Frame).decode
from_msgpack = msgspec.msgpack.Decoder(Frame).decode
operator_from_json = msgspec.json.Decoder(OperatorMessage).decode
operator_from_msgpack = msgspec.msgpack.Decoder(OperatorMessage).decode
to_json = msgspec.json.Encoder().encode
to_msgpack = msgspec.msgpack.Encoder().encode


def explain(error: Exception) -> str:
    """Say in a sentence why a message could not be read."""
    reason = str(error).split("\n", maxsplit=1)[0]
    return f"the message cannot be read: {reason[:200]}"


def complete(frame: Frame) -> str | None:
    """Make a context that is not there None; returns a sentence where the message asks for nothing, or for too much."""
    if frame.open is not None or frame.close is not None:
        if frame.x is not UNSET or frame.n is not None or frame.override is not None:
            return "the message must be one of a frame, open and close: send them one after the other"
        if frame.open is not None and frame.close is not None:
            return "the message must be one of open and close: send them one after the other"
        return None
    if frame.x is UNSET:
        if frame.n is None and frame.override is None:
            return 'the message must have "x", "override", "open" or "close"; got none of them'
        frame.x = None
    if frame.n is not None and not 0 <= frame.n <= LARGEST_N:
        return f"n must be from 0 to {LARGEST_N}; got {frame.n}"
    return None
