"""Files from the page to the workspace: streamed to disk under a name of our own, and never larger than allowed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from simile._common.web import RequestError
from simile.errors import ArgumentError, StorageError

REST = "simile.rest"  # in the scope of a request: whether more of its body is to come
PATIENCE, MOST = 20.0, 8 << 30  # seconds and bytes of a refused upload that are read and thrown away


def read_ending(name: str) -> str:
    """Return the ending that tells the format; one that `simile.read` does not know is refused."""
    from simile.data.reading.formats import suffix_of

    try:
        return suffix_of(Path(name))
    except ArgumentError as error:
        sentence = str(error).removeprefix("path: ").partition(", or give a data frame")[0]
        raise RequestError(415, sentence) from None


def check_size(request: Request, limit: int) -> None:
    """Refuse a file that is said to be too large before any of it is read."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limit:
        raise refuse_size(limit)


def refuse_size(limit: int) -> RequestError:
    """Return the refusal of a file that is larger than `limit` bytes."""
    return RequestError(
        413, f"the file is larger than {limit / 1e6:g} MB: start with `simile studio FILE`, or raise --max-upload"
    )


async def receive_file(request: Request, target: Path, limit: int) -> int:
    """Write the body of a request to a file, and return its size; nothing is left where that fails."""
    from simile._common.files import replacing

    size, more = 0, True
    try:
        with replacing(target) as file:
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise RequestError(400, "the upload was broken off")
                request.scope[REST] = more = message.get("more_body", False)
                chunk = message.get("body", b"")
                size += len(chunk)
                if size > limit:
                    raise refuse_size(limit)
                file.write(chunk)
    except StorageError:
        raise RequestError(507, "the file cannot be kept: make room on the disk of the studio's folder") from None
    return size


class DrainingResponse(Response):
    """An answer to an upload that is sent before the upload has ended; what still comes is read and thrown away.

    A browser that is answered and cut off in the middle of a file shows a broken connection instead of the answer.
    """

    media_type = "application/json"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, then read on for a while."""
        headers = [*self.raw_headers, (b"connection", b"close")]
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        more, left = scope.get(REST, True), MOST
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while more and left > 0:
                    message = await receive()
                    left -= len(message.get("body", b""))
                    more = message.get("more_body", False)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
