"""Who may talk to the service: those with the token, where there is one, and no foreign web page.

On this machine alone no token is needed. Without one, `Host` must name this machine: a name of somebody else's that
points here is how a page that a browser shows would get around its `Origin`.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path

from simile._common.files import find_readers, open_regular, read_text
from simile._common.web import FORBIDDEN, MISDIRECTED, UNAUTHORIZED, Guard, list_hosts
from simile.errors import ArgumentError

OPEN_PATHS = ("/health", "/ready")  # probes carry no token, and learn nothing here
SHORTEST_TOKEN = 8  # characters
_LONGEST_KEY = 1 << 20  # bytes

log = logging.getLogger(__name__)


def build_guard(
    host: str,
    port: int,
    token: str | None,
    origins: Iterable[str],
    allowed: Iterable[str] = (),
    *,
    tls: bool = False,
) -> Guard:
    """Return the rules of a port of a service that listens on `host`.

    Parameters
    ----------
    host, port, tls
        Where it listens, and whether by TLS.
    token : str or None
        The secret that everybody must show.
    origins : iterable of str
        Web pages that may use it.
    allowed : iterable of str
        What `Host` may say beside this machine's own names, see `simile._common.web.list_hosts`.
    """
    allowed, here = tuple(allowed), is_loopback(host)
    names = (host,) if here else (host, socket.gethostname())
    hosts = list_hosts(port, *names, tls=tls, allowed=allowed)
    ports = ("", f":{port}") if port == (443 if tls else 80) else (f":{port}",)

    def knows(name: str) -> bool:
        if name in hosts:
            return True
        # Only a name can be pointed at this machine by a stranger, for a page of theirs to get in.
        return not here and any(_is_address(name.removesuffix(p)) for p in ports if name.endswith(p))

    return Guard(
        token=token,
        # With a token and no list, any name will do: who knows the token is no stranger.
        knows_host=knows if here or token is None or allowed else lambda _: True,
        origins=frozenset(origin.lower().rstrip("/") for origin in origins),
        wrong_host=(
            MISDIRECTED,
            "this service does not go by this name and port: ask for its address, such as 127.0.0.1, or allow the name "
            "by --allow-host",
        ),
        wrong_origin=(FORBIDDEN, "web pages may not use this service: allow the page's origin by --allow-origin"),
        wrong_token=(
            UNAUTHORIZED,
            "this service needs its token: send `Authorization: Bearer TOKEN`, or ?token=TOKEN",
        ),
    )


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
        found = read_text(path).strip()
    except (OSError, ValueError) as error:
        raise ArgumentError(
            f"--token-file: {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if not found:
        raise ArgumentError(f"--token-file: {path} is empty: write the token into it")
    tell_readers("--token-file", path)
    return found


def tell_readers(option: str, path: Path) -> None:
    """Say where a file that holds a secret can be read by others."""
    if (trouble := find_readers(path)) is not None:
        log.warning("%s: %s", option, trouble)


def load_tls(certfile: Path | None, keyfile: Path | None) -> ssl.SSLContext | None:
    """Return what both ports encrypt by; None without a certificate."""
    if certfile is None:
        if keyfile is not None:
            raise ArgumentError("--keyfile needs --certfile: give the certificate of that key too")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A stream is not taken up again by a ticket; and one that comes while a client with two threads writes its request
    # may end the connection there (Python before 3.13 does not guard a TLS socket that is read and written at once).
    context.num_tickets = 0
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        for file in filter(None, (certfile, keyfile)):
            open_regular(file, longest=_LONGEST_KEY).close()
        context.load_cert_chain(certfile, keyfile, password=_no_password)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(
            f"--certfile: {certfile} (and its key) cannot be used: {reason}: give PEM files, the key without a password"
        ) from None
    tell_readers("--keyfile", keyfile or certfile)
    return context


def _no_password() -> str:
    # Otherwise OpenSSL would ask on the terminal, and a service has none.
    raise ValueError("the key is locked by a password")


def _is_address(name: str) -> bool:
    """Tell whether `Host` says an address, as URLs have them, and no name."""
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]")).version == (6 if name[:1] == "[" else 4)
    except ValueError:
        return False
