"""Heads by URL: which protocol, where, and as whom."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Literal, cast
from urllib.parse import unquote, urlsplit

from simile.camera.heads import visca
from simile.camera.heads.framing import END, Raw
from simile.camera.heads.links import TcpLink, UdpLink
from simile.camera.heads.models import MODELS
from simile.camera.heads.onvif_head import OnvifHead
from simile.camera.heads.onvif_spaces import OnvifUnits
from simile.camera.heads.units import ViscaUnits
from simile.camera.heads.visca_head import ViscaHead
from simile.errors import ArgumentError

# The schemes and the ports that they have where none is given.
PORTS = {"visca": visca.PORT, "visca+tcp": visca.RAW_TCP_PORT, "visca+udp": visca.RAW_UDP_PORT, "onvif": 80}
PASSWORD = "SIMILE_HEAD_PASSWORD"  # the environment variable that may hold one
RETRY, RAW_RETRY = 0.1, 0.2  # seconds without a reply after which a command is sent again; raw cameras are slower


@dataclass(frozen=True)
class HeadAddress:
    """Where a head is, and how to speak to it.

    Examples
    --------
    >>> HeadAddress.parse("visca+tcp://10.0.0.7")
    HeadAddress(scheme='visca+tcp', host='10.0.0.7', port=5678, user='')
    >>> HeadAddress.parse("10.0.0.7:1234")
    HeadAddress(scheme='visca', host='10.0.0.7', port=1234, user='')
    >>> HeadAddress.parse("onvif://admin:secret@10.0.0.7:8080")
    HeadAddress(scheme='onvif', host='10.0.0.7', port=8080, user='admin')
    """

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def parse(cls, url: str) -> HeadAddress:
        """Read HOST, HOST:PORT or SCHEME://USER:PASSWORD@HOST:PORT."""
        try:
            parts = urlsplit(url if "://" in url else f"visca://{url}")
            port, host, scheme = parts.port, parts.hostname, parts.scheme
        except ValueError as error:
            raise ArgumentError(_tell(url, str(error))) from None
        if scheme not in PORTS:
            raise ArgumentError(_tell(url, f"{scheme!r} is not known"))
        if not host or parts.path.strip("/") or parts.query or parts.fragment:
            raise ArgumentError(_tell(url, "only a host and a port follow"))
        if scheme != "onvif" and (parts.username or parts.password):
            raise ArgumentError(_tell(url, "VISCA knows no user and no password"))
        user, said = unquote(parts.username or ""), unquote(parts.password or "")
        secret = os.environ.get(PASSWORD, "") if user and parts.password is None else said
        return cls(scheme, host, PORTS[scheme] if port is None else port, user, secret)


def open_head(
    url: str,
    *,
    units: ViscaUnits | OnvifUnits | None = None,
    mode: Literal["velocity", "absolute"] = "velocity",
    local_port: int | None = None,
) -> ViscaHead | OnvifHead:
    """Return the head at a URL; close it in the end, or use it in a `with` block.

    Parameters
    ----------
    url : str
        `HOST`, `HOST:PORT` or `visca://HOST:PORT`: VISCA over IP with Sony's header, over UDP. `visca+tcp://HOST:PORT`
        and `visca+udp://HOST:PORT`: VISCA without a header (PTZOptics and many others). `onvif://USER:PASSWORD@HOST`:
        ONVIF; without a password in it, that of the environment variable SIMILE_HEAD_PASSWORD.
    units : ViscaUnits or OnvifUnits, optional
        How the camera counts. By default that is Sony's way with a header, PTZOptics' without (`visca_units` has
        more), and what an ONVIF camera says.
    mode : {"velocity", "absolute"}
        How a trajectory is followed.
    local_port : int, optional
        The port of this computer to which the camera answers (over UDP): 52381 for cameras that answer there.

    Examples
    --------
    >>> with open_head("visca+udp://127.0.0.1:52397") as head:
    ...     head.name
    'visca+udp://127.0.0.1:52397'
    """
    at = HeadAddress.parse(url)
    if local_port is not None and at.scheme not in ("visca", "visca+udp"):
        raise ArgumentError(f"local_port (--local-port) is of UDP; {at.scheme}:// has connections: leave it out")
    wanted = OnvifUnits if at.scheme == "onvif" else ViscaUnits
    if units is not None and not isinstance(units, wanted):
        raise ArgumentError(f"units of {at.scheme}:// must be {wanted.__name__}(...); got {units!r}")
    if at.scheme == "onvif":
        told = OnvifUnits() if units is None else cast(OnvifUnits, units)
        return OnvifHead(at.host, at.port, user=at.user, password=at.password, units=told, mode=mode)
    name = f"{at.scheme}://{at.host}:{at.port}"
    link = (
        TcpLink(at.host, at.port, end=END)
        if at.scheme == "visca+tcp"
        else UdpLink(at.host, at.port, local_port=local_port)
    )
    try:
        framing = None if at.scheme == "visca" else Raw(RAW_RETRY)
        usual = MODELS["sony" if framing is None else "ptzoptics"].units
        counts = usual if units is None else cast(ViscaUnits, units)
        retry = RETRY if framing is None else RAW_RETRY
        return ViscaHead(at.host, at.port, units=counts, mode=mode, retry=retry, framing=framing, link=link, name=name)
    except Exception:
        link.close()
        raise


def _tell(url: str, what: str) -> str:
    shown = re.sub(r":[^/@]*@", ":***@", url)  # without a password
    return (
        f"{shown!r} is no address of a head: {what}; it must be HOST, HOST:PORT, "
        + ", ".join(f"{scheme}://HOST[:{port}]" for scheme, port in PORTS.items())
        + " (onvif://USER:PASSWORD@HOST)"
    )
