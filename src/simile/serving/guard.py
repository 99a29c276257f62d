"""Who may talk to the service: those with the token, where there is one, and no foreign web page.

On this machine alone no token is needed; then `Host` must name this machine.
"""

from __future__ import annotations

import ipaddress
import logging
import ssl
from collections.abc import Iterable
from pathlib import Path

from simile._common.files import find_readers
from simile._common.web import FORBIDDEN, MISDIRECTED, UNAUTHORIZED, Guard
from simile.errors import ArgumentError

OPEN_PATHS = ("/health", "/ready")  # probes carry no token, and learn nothing here
SHORTEST_TOKEN = 8  # characters

log = logging.getLogger(__name__)


def build_guard(host: str, token: str | None, origins: Iterable[str]) -> Guard:
    """Return the rules of both ports of a service that listens on `host`."""
    return Guard(
        token=token,
        knows_host=(lambda name: is_loopback(_read_name(name))) if is_loopback(host) else lambda _: True,
        origins=frozenset(origin.lower().rstrip("/") for origin in origins),
        wrong_host=(MISDIRECTED, "this service answers to this machine's own names only: ask for 127.0.0.1"),
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
        found = path.read_text("utf-8").strip()
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
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
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


def _read_name(host: str) -> str:
    """Return what `Host` says without the port and the brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
