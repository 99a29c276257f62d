"""Who may talk to the service: those with the token, where there is one, and no foreign web page.

On this machine alone no token is needed. But every page that a browser here shows can reach this machine too: so a
request that comes from a page (browsers say so in `Origin`), or that asks for another machine (`Host`, a foreign name
that was pointed here), is refused unless its origin was allowed.
"""

from __future__ import annotations

import ipaddress
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from simile.errors import ArgumentError

UNAUTHORIZED, FORBIDDEN, MISDIRECTED = 401, 403, 421
OPEN_PATHS = ("/health", "/ready")  # probes carry no token, and learn nothing here
SHORTEST_TOKEN = 8  # characters


@dataclass(frozen=True)
class Guard:
    """The rules of both doors.

    Parameters
    ----------
    token : str, optional
        The secret; None where everybody who reaches the service may use it.
    origins : frozenset of str
        Web pages that may use the service, such as `https://control.example`.
    local : bool
        Whether the service is for this machine alone, and `Host` must say so.
    """

    token: str | None = None
    origins: frozenset[str] = frozenset()
    local: bool = True

    def refusal(self, headers: Mapping[str, str], query: str, *, open_to_all: bool = False) -> tuple[int, str] | None:
        """Return the status and the sentence for a request that is refused; None for one that is not.

        `headers` must find names in any case.
        """
        if self.local and not is_loopback(_name_of(headers.get("host", ""))):
            return MISDIRECTED, "this service answers to this machine's own names only: ask for 127.0.0.1"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self.origins:
            return FORBIDDEN, "web pages may not use this service: allow the page's origin by --allow-origin"
        if self.token is None or open_to_all:
            return None
        kind, _, secret = headers.get("authorization", "").partition(" ")
        shown = [secret.strip()] if kind.lower() == "bearer" else []
        if any(map(self._is_right, (*shown, *parse_qs(query).get("token", [])))):
            return None
        return UNAUTHORIZED, "this service needs its token: send `Authorization: Bearer TOKEN`, or ?token=TOKEN"

    def _is_right(self, secret: str) -> bool:
        # In constant time, so that nobody can feel their way to it.
        return secrets.compare_digest(secret.encode("utf-8", "replace"), (self.token or "").encode())


@dataclass(frozen=True)
class GuardedApp:
    """A web application behind the guard; every answer says that it is not to be kept, framed or guessed at."""

    app: ASGIApp
    guard: Guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or let through."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        query = scope.get("query_string", b"").decode("latin-1")
        refused = self.guard.refusal(Headers(scope=scope), query, open_to_all=scope["path"] in OPEN_PATHS)
        if refused is None:
            await self.app(scope, receive, send)
            return
        status, sentence = refused
        headers = {"www-authenticate": "Bearer"} if status == UNAUTHORIZED else None
        await JSONResponse({"error": sentence}, status, headers)(scope, receive, send)


def is_loopback(host: str) -> bool:
    """Tell whether a name or address is this machine's own, and nobody else's."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, token: str | None, *, insecure: bool) -> None:
    """Refuse to listen to others without a token, unless the user has said that this is meant."""
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise ArgumentError(f"--token must have at least {SHORTEST_TOKEN} characters; got {len(token)}")
    if token is None and not insecure and not is_loopback(host):
        raise ArgumentError(
            f"--host {host} lets other machines in: give a --token (or SIMILE_TOKEN, or --token-file) that they must "
            "show, or say --insecure where the network itself keeps strangers out"
        )


def read_token(path: Path) -> str:
    """Read a secret from a file, which keeps it out of the list of processes."""
    try:
        found = path.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise ArgumentError(
            f"--token-file: {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if not found:
        raise ArgumentError(f"--token-file: {path} is empty: write the token into it")
    return found


def tls_of(certfile: Path | None, keyfile: Path | None) -> ssl.SSLContext | None:
    """Return what both doors encrypt by; None without a certificate."""
    if certfile is None:
        if keyfile is not None:
            raise ArgumentError("--keyfile needs --certfile: give the certificate of that key too")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certfile, keyfile, password=_no_password)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(
            f"--certfile: {certfile} (and its key) cannot be used: {reason}: give PEM files, the key without a password"
        ) from None
    return context


def _no_password() -> str:
    # Otherwise OpenSSL would ask on the terminal, and a service has none.
    raise ValueError("the key is locked by a password")


def _name_of(host: str) -> str:
    """Return what `Host` says without the port and the brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
