"""What every web server of ours has: a guard, a door, a port, bodies up to a limit, and errors in sentences.

For `simile.serving` and `simile.studio` alone, whose extras bring starlette and uvicorn: nothing else imports it.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
import sys
import time
import types
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import h11
import msgspec
import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from simile._common.door import Door, Guest
from simile.errors import ArgumentError

UNAUTHORIZED, FORBIDDEN, MISDIRECTED = 401, 403, 421
HEADERS = {  # of every answer: it is not to be kept, framed, or guessed at
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
SENTENCES = {404: "there is nothing at this address", 405: "this address does not take that method"}
FAREWELL = 3  # seconds for all peers to hang up
BACKLOG = 1024  # connections that the system keeps until they are let in
CONNECTIONS = 256  # of HTTP, at a time
# Of the processor's time, where there are streams to be served beside the requests: the share of all of these, and the
# seconds that one counts for beside what is measured, for its connection has to be made and ended.
PACE, REQUEST = 0.1, 0.5e-3
PROBES = (b"GET /health ", b"GET /ready ")  # which are heard before all else from the same address
BROKEN_OFF = "the request was broken off"

LOCAL = ("127.0.0.1", "localhost", "::1")  # names by which every machine knows itself
HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")

Refusal = tuple[int, str]  # a status and a sentence


class RequestError(Exception):
    """A request that cannot be answered as it is.

    Parameters
    ----------
    status : int
        Of HTTP, 400 to 599.
    sentence : str
        For people: what is wrong, and the way out.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@dataclass(frozen=True)
class Guard:
    """Who may ask: those who know the server's name and its secret, and no foreign web page.

    A server on this machine can be reached by every page that its browser shows. Three checks keep those out: the name
    in `Host` (a foreign name that was pointed at this machine), the page in `Origin`, and the secret.

    Parameters
    ----------
    token : str or None
        The secret; None where everybody who reaches the server may use it.
    knows_host : callable
        Tells whether `Host` may say this.
    origins : frozenset of str
        Web pages that may use the server, such as `https://control.example`.
    wrong_host, wrong_origin, wrong_token : tuple of int and str
        What is answered to the others.
    cookie : str, optional
        Name of a cookie that may hold the token.
    """

    token: str | None
    knows_host: Callable[[str], bool]
    origins: frozenset[str]
    wrong_host: Refusal
    wrong_origin: Refusal
    wrong_token: Refusal
    cookie: str | None = None

    def check(self, headers: Mapping[str, str], query: str, *, needs_token: bool = True) -> Refusal | None:
        """Return the status and the sentence for a request that is refused; None for one that is not.

        `headers` must find names in any case.
        """
        if not self.knows_host(_read_host(headers)):
            return self.wrong_host
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self.origins:
            return self.wrong_origin
        if self.token is None or not needs_token or self.knows_token(query) or self._shows_token(headers):
            return None
        return self.wrong_token

    def knows_token(self, query: str) -> bool:
        """Tell whether an address holds the token."""
        return any(map(self._is_right, parse_qs(query).get("token", [])))

    def _shows_token(self, headers: Mapping[str, str]) -> bool:
        return any(map(self._is_right, _read_secrets(headers, self.cookie)))

    def _is_right(self, secret: str) -> bool:
        # In constant time, so that nobody can feel their way to it.
        return secrets.compare_digest(secret.encode("utf-8", "replace"), (self.token or "").encode())


def _read_host(headers: Mapping[str, str]) -> str:
    """Return what `Host` says; of several, which no browser sends, all, so that no rule knows them."""
    read_all: Callable[[str], list[str]] | None = getattr(headers, "getlist", None)  # of starlette
    if read_all is None and "host" in headers:
        read_all = getattr(headers, "getall", None)  # of picows
    return ", ".join(read_all("host") if read_all else [headers.get("host", "")]).lower()


def list_hosts(port: int, *names: str, tls: bool = False, allowed: Iterable[str] = ()) -> frozenset[str]:
    """Return what `Host` may say, exactly.

    Parameters
    ----------
    port : int
        Where the server listens.
    names : str
        Names and addresses by which it is reached there, beside this machine's own.
    tls : bool
        Whether it speaks TLS; browsers leave the port of the web out.
    allowed : iterable of str
        What was given by --allow-host: with a port, that; without one, the name alone, and with the server's port.

    >>> sorted(list_hosts(8000, allowed=["Pan.example", "tunnel:9000"]))
    ['127.0.0.1:8000', '[::1]:8000', 'localhost:8000', 'pan.example', 'pan.example:8000', 'tunnel:9000']
    """
    usual = 443 if tls else 80
    found = set[str]()
    for name in (*LOCAL, *names):
        host = f"[{name}]" if ":" in name and not name.startswith("[") else name
        found |= {f"{host}:{port}"} | ({host} if port == usual else set())
    for name in allowed:
        host, given = _split_host(name)
        found |= {f"{host}:{given}"} if given else {host, f"{host}:{port}"}
    return frozenset(name.lower() for name in found)


def _split_host(name: str) -> tuple[str, str]:
    """Return a name, or an address as an URL has it, and the port where one was given."""
    if name.count(":") > 1 and not name.startswith("["):
        name = f"[{name}]"
    found = HOST.fullmatch(name)
    if found is None or (found[2] and not 0 < int(found[2]) < 1 << 16):
        raise ArgumentError(
            f"--allow-host must be a name or an address, with a port where it is another, as `Host` says it: "
            f"pan.example, or localhost:9000; got {name!r}"
        )
    return found[1], found[2] or ""


def _read_secrets(headers: Mapping[str, str], cookie: str | None) -> Iterator[str]:
    kind, _, secret = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        yield secret.strip()
    if cookie is not None:
        for part in headers.get("cookie", "").split(";"):  # others may have set more of this name
            name, _, secret = part.strip().partition("=")
            if name == cookie:
                yield secret.strip('"')


@dataclass(frozen=True)
class HeaderedApp:
    """The outermost layer of a server: every answer, a refused WebSocket's too, has the headers that are promised.

    Parameters
    ----------
    app
        What answers; a header that it has set by itself stays.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers)


@dataclass(frozen=True)
class GuardedApp:
    """The next layer of a server: every request, of HTTP or WebSocket, passes the guard or is refused.

    Parameters
    ----------
    app
        What answers those who may ask.
    guard : Guard
        Who may.
    open_paths : tuple of str
        Addresses that need no token.
    """

    app: ASGIApp
    guard: Guard
    open_paths: tuple[str, ...] = ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        answer = self.answer(scope, scope.get("query_string", b"").decode("latin-1"))
        await (self.app if answer is None else answer)(scope, receive, send)

    def answer(self, scope: Scope, query: str) -> Response | None:
        """Return the answer to who may not ask; None for everybody else."""
        refusal = self.check(scope, query)
        return None if refusal is None else answer_refusal(*refusal)

    def check(self, scope: Scope, query: str) -> Refusal | None:
        """Ask the guard."""
        return self.guard.check(Headers(scope=scope), query, needs_token=scope["path"] not in self.open_paths)


def answer_json(body: Any, status: int = 200) -> Response:
    """Return an answer in JSON."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def answer_refusal(status: int, sentence: str) -> Response:
    """Return a refusal as all clients expect it."""
    answer = answer_json({"error": sentence}, status)
    if status == UNAUTHORIZED:
        answer.headers["www-authenticate"] = "Bearer"
    return answer


def build_handlers(server: str) -> dict[Any, Any]:
    """Return the handlers of errors for starlette; `server` is what the server calls itself."""

    async def answer_error(_: Request, error: RequestError) -> Response:
        return answer_refusal(error.status, error.sentence)

    async def answer_missing(_: Request, error: HTTPException) -> Response:
        """Answer for addresses that are not, or not so."""
        answer = answer_refusal(error.status_code, SENTENCES.get(error.status_code, "the request cannot be answered"))
        answer.headers.update(error.headers or {})
        return answer

    async def answer_mistake(_: Request, error: Exception) -> Response:  # noqa: ARG001
        """Answer for what nobody has thought of; the server's terminal shows the rest."""
        answer = answer_refusal(500, f"the {server} has made a mistake: its terminal shows which")
        answer.headers.update(HEADERS)  # such an answer passes none of our layers
        return answer

    return {RequestError: answer_error, HTTPException: answer_missing, Exception: answer_mistake}


class Bodies:
    """Bodies of requests on their way in: none takes for ever, and all together take little memory.

    Parameters
    ----------
    together : int
        Bytes of all bodies that are read at a time.
    patience : float
        Seconds for one to come.
    """

    def __init__(self, together: int = 32 << 20, patience: float = 30.0) -> None:
        self.together, self.patience = together, patience
        self.held = 0  # bytes

    async def read(self, request: Request, most: int, sentence: str) -> bytes:
        """Read what was sent; more than `most` bytes are refused with the sentence."""
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > most:
            raise RequestError(413, sentence)
        body = bytearray()
        try:
            async with asyncio.timeout(self.patience):
                async for part in request.stream():
                    body += part
                    self.held += len(part)
                    if len(body) > most:
                        raise RequestError(413, sentence)
                    if self.held > self.together:
                        raise RequestError(503, "too many requests are on their way in: ask again in a while")
        except ClientDisconnect:
            raise RequestError(400, BROKEN_OFF) from None
        except TimeoutError:
            raise RequestError(408, f"the request took longer than {self.patience:g} s: send it at once") from None
        finally:
            self.held -= len(body)
        return bytes(body)


def listen(host: str, *ports: int, option: str, way_out: str) -> socket.socket:
    """Open the first of these ports that is free, before anybody is told of it."""
    reason = None
    for port in ports:
        # The protocol is named, for asyncio turns Nagle's delay off only where it knows of TCP.
        opened = socket.socket(
            socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
        )
        if sys.platform != "win32":  # there it would share the port with others
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, port))
            opened.listen(BACKLOG)
        except OSError as error:
            opened.close()
            reason = error.strerror
        else:
            opened.setblocking(False)
            return opened
    raise ArgumentError(f"{option}: {host}:{ports[-1]} cannot be opened: {reason}: {way_out}")


def write_address(scheme: str, host: str, port: int) -> str:
    """Return the address of a server, as browsers want it.

    >>> write_address("http", "::1", 80)
    'http://[::1]:80'
    """
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def configure_uvicorn(app: ASGIApp, **options: Any) -> uvicorn.Config:
    """Return uvicorn's options for a server to which nobody stands between, and whose log must not show tokens."""
    return uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=FAREWELL,
        **options,
    )


class HttpProtocol(H11Protocol):
    """A connection of HTTP, of which the door knows who waits for whom, and what its requests cost.

    Parameters
    ----------
    guest : Guest
        The connection.
    options
        As uvicorn has them.
    """

    def __init__(self, guest: Guest, **options: Any) -> None:
        super().__init__(**options)
        self.guest = guest
        guest.is_waited_for = self._is_waited_for
        self.app = partial(_measure, self.app, guest.door)
        self._is_probe = False

    def _is_waited_for(self) -> bool:
        """Tell whether a request, the rest of one, or the reading of an answer is outstanding."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body or self.flow.write_paused

    def data_received(self, data: bytes) -> None:
        """Take what came; the parts of a body, unlike those of headers, are waited for one by one."""
        begun = self.cycle
        if begun is not None and not begun.response_complete:
            self.guest.touch()
        self._is_probe = data.startswith(PROBES)
        super().data_received(data)

    def handle_events(self) -> None:
        """Let what came, or was sent together with the request before, be dealt with in its turn."""
        self.transport.pause_reading()
        self.guest.door.line_up(self.guest, self._take_turn, first=self._is_probe)

    def _take_turn(self) -> None:
        begun = self.cycle
        super().handle_events()
        if self.cycle is not begun:
            self.guest.door.delay(REQUEST)
        if not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, with the headers of every answer."""
        found = answer_refusal(400, msg)
        headers = [
            *found.raw_headers,
            *((n.encode(), v.encode()) for n, v in HEADERS.items()),
            (b"connection", b"close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(found.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.guest.touch()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the peer to read."""
        self.guest.touch()
        super().pause_writing()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Leave the connection to another protocol, which asks for a sign of life by itself."""
        self.guest.is_waited_for = lambda: False
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has gone."""
        self.guest.leave()
        super().connection_lost(exc)


async def _measure(app: Any, door: Door, scope: Scope, receive: Receive, send: Send) -> None:
    await _take_steps(app(scope, receive, send), door)


@types.coroutine
def _take_steps(work: Coroutine[Any, None, None], door: Door) -> Generator[Any, None, None]:
    """Do work, and count the processor's time of each step at the door."""
    step = partial(work.send, None)
    while True:
        begin = time.thread_time()
        try:
            awaited = step()
        except StopIteration:
            return
        finally:
            door.delay(time.thread_time() - begin)
        try:
            yield awaited
            step = partial(work.send, None)
        except BaseException as error:  # such as that it is cancelled
            step = partial(work.throw, error)


class WebServer(uvicorn.Server):
    """Uvicorn behind a door of ours.

    Parameters
    ----------
    config : uvicorn.Config
        By `configure_uvicorn`.
    door : Door, optional
        Who may be there.
    """

    def __init__(self, config: uvicorn.Config, door: Door | None = None) -> None:
        super().__init__(config)
        self.door = door or Door(CONNECTIONS, patience=30.0)
        self._accepting: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and let everybody in."""
        await super().startup(sockets=[])
        self._accepting = [asyncio.create_task(self.door.accept(one, self._connect)) for one in sockets or []]

    async def on_tick(self, counter: int) -> bool:
        """Show out who was waited for too long."""
        self.door.sweep()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let nobody in any more, and end."""
        for task in self._accepting:
            task.cancel()
        for guest in list(self.door.guests):
            if guest.is_waited_for():  # for the rest of a request, say, which nobody needs any more
                guest.show_out()
        await super().shutdown(sockets)

    async def _connect(self, guest: Guest) -> tuple[Any, Any]:
        tls = self.config.ssl
        return await asyncio.get_running_loop().connect_accepted_socket(
            lambda: HttpProtocol(
                guest, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            ),
            guest.sock,
            ssl=tls,
            ssl_handshake_timeout=self.door.patience if tls else None,
        )
