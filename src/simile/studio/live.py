"""Running services, for the live page: their streams are listed, looked on at and taken over, through the studio.

A browser lets a page talk to its own server alone, and a service lets no foreign page in. So the studio stands between
them: it contacts the address that the user typed, and no other, and only on this machine or where it was started with
`--service`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from simile._common.text import escape
from simile._common.web import RequestError
from simile.errors import ArgumentError, SimileError
from simile.serving.client.protocol import explain_loss, list_losses
from simile.serving.guard import is_loopback
from simile.serving.messages import StreamList
from simile.studio import requests

PATIENCE = 5.0  # seconds for a service to answer, and for a page to say what it wants
MOST = 32  # pages that look on at a time
LONGEST = 500  # characters of what is told of a service
LARGEST = 4 << 20  # bytes of what a service says at once
REFUSED, TRY_LATER = 1008, 1013  # close codes


class _Connect(connect):
    """A connection to the address that was given, and to no other."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow no redirect: a service has no business to send us elsewhere."""
        return exc


class Services:
    """The services that a studio may talk to.

    Parameters
    ----------
    known : sequence of str
        Addresses of those elsewhere, such as `wss://pan.example:8770`.
    """

    def __init__(self, known: Sequence[str] = ()) -> None:
        self.known = [read_address(url, "--service") for url in known]
        self._open = 0  # pages that look on

    async def list_streams(self, service: str, token: str = "") -> StreamList:
        """Return the streams of a service, as it tells them."""
        async with self._connect(service, token, "/operate") as wire:
            try:
                said = await asyncio.wait_for(wire.recv(), PATIENCE)
            except list_losses() as error:
                raise RequestError(502, f"{service} does not answer: {_clean(explain_loss(error))}") from None
            try:
                return msgspec.json.decode(said, type=StreamList)
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                raise RequestError(502, f"{service} is no service of simile: {_clean(error)}") from None

    async def operate(self, socket: WebSocket) -> None:
        """Let a page look on at the stream that its first message names, until one of the two leaves."""
        await socket.accept()
        try:
            given = json.loads(await asyncio.wait_for(socket.receive_text(), PATIENCE))
            wanted = requests.read_request(given, requests.Operating)
            if self._open >= MOST:
                raise RequestError(503, f"{MOST} pages look on already: close one")
            self._open += 1
            try:
                service, token = wanted["service"], wanted["token"]
                async with self._connect(service, token, f"/operate/{wanted['stream']}") as wire:
                    await _relay(socket, wire)
            finally:
                self._open -= 1
        except (RequestError, SimileError) as error:
            await _end(socket, REFUSED, str(error))
        except (ValueError, KeyError, TimeoutError, RecursionError):
            await _end(socket, REFUSED, "the first message must say service, token and stream, in JSON")
        except (WebSocketDisconnect, RuntimeError):  # the page has gone
            pass

    def _connect(self, service: str, token: str, path: str) -> _Connection:
        address = read_address(service, "service")
        if address not in self.known and not is_loopback(urlsplit(address).hostname or ""):
            raise RequestError(
                403,
                f"service: {address} is not on this machine: start the studio with --service {address} to talk to it",
            )
        return _Connection(address, path, token)


class _Connection:
    """A connection to a service, for `async with`; what goes wrong becomes a sentence."""

    def __init__(self, address: str, path: str, token: str) -> None:
        self.address = address
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connect = _Connect(
            f"{address}{path}",
            additional_headers=headers,
            compression=None,
            open_timeout=PATIENCE,
            close_timeout=1.0,
            max_size=LARGEST,
            proxy=None,
        )

    async def __aenter__(self) -> ClientConnection:
        try:
            return await self._connect.__aenter__()
        except list_losses() as error:
            raise RequestError(502, f"no connection to {self.address}: {_clean(explain_loss(error))}") from None

    async def __aexit__(self, *about: object) -> None:
        await self._connect.__aexit__(*about)  # type: ignore[arg-type]


def read_address(given: str, name: str) -> str:
    """Return the address of a service without a path; ArgumentError where it is none.

    >>> read_address("ws://127.0.0.1:8770/streams/NAME", "service")
    'ws://127.0.0.1:8770'
    """
    try:
        parts = urlsplit(given)
        good = parts.scheme in ("ws", "wss") and parts.hostname and parts.port != 0 and "@" not in parts.netloc
    except ValueError:  # a port beyond all, or half an address of IPv6
        good = False
    if not good:
        raise ArgumentError(f"{name} must be the address of a service, like ws://127.0.0.1:8770; got {given[:200]!r}")
    return f"{parts.scheme}://{parts.netloc.lower()}"


async def _relay(socket: WebSocket, wire: ClientConnection) -> None:
    """Pass on what both sides say, as they can take it, until one of them leaves."""

    async def hear_page() -> None:
        with suppress(WebSocketDisconnect, ConnectionClosed, KeyError):  # KeyError: of what is no text
            while True:
                await wire.send(await socket.receive_text())

    async def hear_service() -> None:
        try:
            async for said in wire:
                await socket.send_text(said if isinstance(said, str) else said.decode("utf-8", "replace"))
        except ConnectionClosed as closed:
            reason = closed.rcvd.reason if closed.rcvd is not None else ""
            await _end(socket, TRY_LATER, reason or "the service has gone")
            return
        await _end(socket, TRY_LATER, wire.close_reason or "the service has hung up")

    tasks = [asyncio.create_task(hear_page()), asyncio.create_task(hear_service())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _clean(error: Exception) -> str:
    """Return the words of a service, or of what stands in its place, on one line."""
    return escape(str(error)[:LONGEST])


async def _end(socket: WebSocket, code: int, sentence: str) -> None:
    """Say why, and hang up; a reason is at most 123 bytes, so the sentence comes before it."""
    with suppress(WebSocketDisconnect, RuntimeError):
        await socket.send_json({"ended": sentence})
        await socket.close(code)
