"""Who may talk to the studio: this machine's browser, from the studio's own page, with the token that was printed.

A server on this machine can be reached by every page that its browser shows. Three checks keep those out: the name in
`Host` (a foreign name that was pointed at this machine), the page in `Origin` (a foreign page), and a secret.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL = ("127.0.0.1", "localhost", "[::1]")
FORBIDDEN, MISDIRECTED = 403, 421
CLOSED = 4403  # of a WebSocket that may not be opened

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Pages that hold a user's data, such as a report: their scripts run, but as nobody, and reach nothing.
SANDBOX_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
)
HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

NO_TOKEN = "this studio needs the token of the address that `simile studio` printed: open that address"


def hosts_of(port: int, *names: str) -> frozenset[str]:
    """Return what `Host` may say: these names or, without any, this machine's own, with the port."""
    named = [f"[{n}]" if ":" in n and not n.startswith("[") else n for n in (*LOCAL, *names)]
    return frozenset([f"{n}:{port}".lower() for n in named] + ([n.lower() for n in named] if port == 80 else []))


@dataclass(frozen=True)
class Guard:
    """The outermost layer of the server; every request, of HTTP or WebSocket, passes it or is refused.

    Parameters
    ----------
    app
        What answers those who may ask.
    token : str
        The secret.
    hosts : frozenset of str
        What `Host` may say, see `hosts_of`.
    cookie : str
        Name of the cookie that holds the token.
    """

    app: ASGIApp
    token: str
    hosts: frozenset[str]
    cookie: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if scope["type"] == "websocket":
            if refusal is None:
                await self.app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": CLOSED, "reason": ""})
            return

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (self.app if refusal is None else refusal)(scope, receive, headed)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to who may not ask, and to who just came with the token; None for everybody else."""
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self.hosts:
            names = ", ".join(sorted(self.hosts))
            return JSONResponse({"error": f"this studio answers to {names} only: open it there"}, MISDIRECTED)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.hosts}:
            return JSONResponse({"error": "this studio answers to its own page only: open it there"}, FORBIDDEN)
        asked = [*parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])]
        is_page = scope["type"] == "http" and scope["path"] == "/"
        if is_page and scope["method"] == "GET" and any(map(self._is_right, asked)):
            return self._welcome()
        if any(map(self._is_right, (*asked, *self._shown(headers)))):
            return None
        if is_page:
            return HTMLResponse(f"<!doctype html><title>simile studio</title><p>Sorry: {NO_TOKEN}.</p>", FORBIDDEN)
        return JSONResponse({"error": NO_TOKEN}, FORBIDDEN)

    def _shown(self, headers: Headers) -> Iterator[str]:
        """Yield the secrets that a request shows beside that of its address."""
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            yield secret.strip()
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return
        if self.cookie in cookies:
            yield cookies[self.cookie].value

    def _is_right(self, secret: str) -> bool:
        # In constant time, so that nobody can feel their way to it.
        return secrets.compare_digest(secret.encode("utf-8", "replace"), self.token.encode())

    def _welcome(self) -> Response:
        """Hand out the cookie and take the token out of the address bar, and so out of the history."""
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
        return answer
