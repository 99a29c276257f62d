"""How VISCA messages travel: with Sony's header, which numbers them, or as they are, matched to replies by order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from simile.camera.heads import visca
from simile.errors import DataError

END = b"\xff"
SIZES = {visca.PAN_TILT_INQUIRY: 8, visca.ZOOM_INQUIRY: 4, visca.VERSION_INQUIRY: 7}  # of the data of an answer


class Framing(Protocol):
    """Between messages with numbers and the bytes that travel."""

    counts: bool  # whether the camera sees the numbers

    def wrap(self, message: visca.Message, now: float) -> bytes | None:
        """Return the bytes of a message; None where it has to wait for the reply to another."""

    def unwrap(self, data: bytes) -> Iterator[visca.Message]:
        """Yield the messages in what has come, each with the number of what it replies to."""


class Envelope:
    """Sony's VISCA over IP: a header of 8 bytes with a number, which the reply repeats."""

    counts = True

    def wrap(self, message: visca.Message, now: float) -> bytes | None:  # noqa: ARG002 - of the protocol
        """Return the bytes of a message."""
        return message.encode()

    def unwrap(self, data: bytes) -> Iterator[visca.Message]:
        """Yield the message in a datagram."""
        yield visca.Message.decode(data)


@dataclass(frozen=True)
class _Awaited:
    """A message that was sent and has no reply yet."""

    message: visca.Message
    since: float


class Raw:
    """VISCA as on a serial line: no numbers, so that one command and one inquiry at a time are under way.

    What confirms a command (ACK) and what answers an inquiry look different; of two inquiries the size of the answer
    tells. The socket in an ACK tells whose completion or error comes later.

    Parameters
    ----------
    patience : float
        Seconds after which a reply is no longer expected.
    """

    counts = False

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._awaited: dict[bytes, _Awaited] = {}  # by the kind of message
        self._sockets: dict[int, int] = {}  # what was confirmed, and is being done
        self._acks = False  # whether this camera ever confirmed anything

    def wrap(self, message: visca.Message, now: float) -> bytes | None:
        """Return the bytes of a message; None where another of its kind is under way."""
        under_way = self._awaited.get(message.kind)
        if under_way is not None and now - under_way.since < self.patience:
            return None
        self._awaited[message.kind] = _Awaited(message, now)
        return message.payload

    def unwrap(self, data: bytes) -> Iterator[visca.Message]:
        """Yield the replies in what has come; those that belong to nothing are left out."""
        *packets, rest = data.split(END)
        for packet in packets:
            number = self._whose(visca.Reply.decode(packet + END))
            if number is not None:
                yield visca.Message(visca.REPLY, number, packet + END)
        if rest:
            raise DataError(f"a VISCA message ends in FF; got {rest.hex(' ')!r}")

    def _whose(self, reply: visca.Reply) -> int | None:
        """Return the number of what a reply belongs to."""
        if reply.answer is visca.Answer.ACK:
            self._acks = True
            number = self._take(visca.COMMAND)
            if number is not None:
                self._sockets[reply.socket] = number
            return number
        if reply.answer is visca.Answer.COMPLETION and reply.data:
            asked = self._awaited.get(visca.INQUIRY)
            wanted = None if asked is None else SIZES.get(asked.message.payload)
            late = len(reply.data) != wanted and len(reply.data) in SIZES.values()  # of another inquiry, given up
            return None if late else self._take(visca.INQUIRY)
        if reply.answer is visca.Answer.COMPLETION:
            done = self._sockets.pop(reply.socket, None)
            return self._take(visca.COMMAND) if done is None and not (self._acks and reply.socket) else done
        if reply.data[0] != visca.CANCELLED and self._awaited:
            return self._take(min(self._awaited, key=lambda kind: self._awaited[kind].since))
        return self._sockets.pop(reply.socket, None)

    def _take(self, kind: bytes) -> int | None:
        awaited = self._awaited.pop(kind, None)
        return None if awaited is None else awaited.message.number
