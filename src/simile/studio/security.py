"""Who may talk to the studio: this machine's browser, from the studio's own page, with the token that was printed."""

from __future__ import annotations

import hashlib
import html
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Response as HandshakeResponse

from simile._common.web import FORBIDDEN, HEADERS, MISDIRECTED, Guard, GuardedApp, answer_refusal

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The page to calibrate shows videos of the user's disk, which never leave the browser.
CALIBRATE_POLICY = f"{PAGE_POLICY}; media-src blob:"
# Pages that hold a user's data, such as a report: their scripts run, but as nobody, and reach nothing.
SANDBOX_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
)

NO_TOKEN = "this studio needs the token of the address that `simile studio` printed: open that address"


def build_guard(token: str, hosts: frozenset[str], cookie: str) -> Guard:
    """Return the rules of a studio that goes by these hosts, and whose cookie has this name."""
    return Guard(
        token=token,
        knows_host=hosts.__contains__,
        origins=frozenset(f"http://{host}" for host in hosts),
        wrong_host=(MISDIRECTED, f"this studio answers to {', '.join(sorted(hosts))} only: open it there"),
        wrong_origin=(FORBIDDEN, "this studio answers to its own page only: open it there"),
        wrong_token=(FORBIDDEN, NO_TOKEN),
        cookie=cookie,
    )


class EventsProtocol(WebSocketsSansIOProtocol):
    """A connection of a WebSocket, whose refusals have the headers of every answer, too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        send = self.conn.send_response

        def send_with_headers(response: HandshakeResponse) -> None:
            if response.status_code != 101:
                for name, value in HEADERS.items():
                    response.headers.setdefault(name, value)
            send(response)

        self.conn.send_response = send_with_headers  # type: ignore[method-assign]


@dataclass(frozen=True)
class GuardedStudio(GuardedApp):
    """The guard of the studio; a browser that comes with the token in the address is given a cookie.

    Browsers send a cookie to every port of a machine, but only for the path that it was set for. So everything is also
    below a path that nobody can guess, and the cookie is good for that alone: servers on other ports are never asked
    for it, and so never get the cookie.
    """

    @cached_property
    def place(self) -> str:
        """That path; it stays the same as long as the token does."""
        return f"/{hashlib.sha256(f'place {self.guard.token}'.encode()).hexdigest()[:32]}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it; what is asked for below the path is the same as without it."""
        if scope.get("path", "").startswith(self.place):
            scope = {**scope, "path": scope["path"][len(self.place) - 1 :]}
        await super().__call__(scope, receive, send)

    def answer(self, scope: Scope, query: str) -> Response | None:
        """Return the answer to who may not ask, and to who just came with the token; None for everybody else."""
        if scope["type"] != "http" or scope["path"] != "/":
            return super().answer(scope, query)
        refusal = self.check(scope, query)
        if refusal is None:
            return self._welcome(scope) if scope["method"] == "GET" and self.guard.knows_token(query) else None
        if refusal is self.guard.wrong_token:
            return HTMLResponse(f"<!doctype html><title>simile studio</title><p>Sorry: {NO_TOKEN}.</p>", FORBIDDEN)
        return answer_refusal(*refusal)

    def _welcome(self, scope: Scope) -> Response:
        """Hand out the cookie and take the token out of the address bar, and so out of the history.

        A browser that came from elsewhere, such as from the file by which we open it, is led on by a page: it would not
        yet send the cookie after a redirect.
        """
        typed = Headers(scope=scope).get("sec-fetch-site") == "none"
        answer = RedirectResponse(self.place, 303) if typed else HTMLResponse(write_redirect(self.place))
        answer.set_cookie(
            self.guard.cookie or "", self.guard.token or "", httponly=True, samesite="strict", path=self.place
        )
        return answer


def write_redirect(address: str) -> str:
    """Return a page that leads on to an address."""
    there = html.escape(address)
    return (
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0;url={there}"><title>simile studio</title>'
        f'<p><a href="{there}">The studio is here</a>.</p>'
    )
