"""An emulated camera that speaks ONVIF: as much of the device, media and PTZ services as turning a head takes.

Names and namespaces are those of the ONVIF schemas (ver10/device, ver10/media, ver20/ptz, ver10/schema).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from xml.etree import ElementTree

from simile._common import checks
from simile.camera.heads.emulators.body import Body
from simile.camera.heads.links import Closing
from simile.errors import ArgumentError

NAMES = {
    "s": "http://www.w3.org/2003/05/soap-envelope",
    "tt": "http://www.onvif.org/ver10/schema",
    "tds": "http://www.onvif.org/ver10/device/wsdl",
    "trt": "http://www.onvif.org/ver10/media/wsdl",
    "tptz": "http://www.onvif.org/ver20/ptz/wsdl",
    "ter": "http://www.onvif.org/ver10/error",
}
SECURITY = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-"
SPACES = "http://www.onvif.org/ver10/tptz/"
PATHS = {"tds": "/onvif/device_service", "trt": "/onvif/media", "tptz": "/onvif/ptz"}
OPEN = ("GetSystemDateAndTime", "GetCapabilities", "GetServices")  # to everybody, before a password is asked for
OPERATIONS = {
    "GetSystemDateAndTime": "_get_system_date_and_time",
    "GetServices": "_get_services",
    "GetCapabilities": "_get_capabilities",
    "GetDeviceInformation": "_get_device_information",
    "GetProfiles": "_get_profiles",
    "GetNodes": "_get_nodes",
    "GetConfigurationOptions": "_get_configuration_options",
    "GetStatus": "_get_status",
    "AbsoluteMove": "_absolute_move",
    "ContinuousMove": "_continuous_move",
    "Stop": "_stop",
    "POST": "_p_o_s_t",
}
LARGEST = 1 << 20  # bytes of a request
ENVELOPE = "<?xml version='1.0' encoding='UTF-8'?><s:Envelope {names}><s:Body>{body}</s:Body></s:Envelope>"


class OnvifEmulator(Closing):
    """A camera at a port of this computer, until it is closed.

    Parameters
    ----------
    body : Body
        What moves.
    host, port
        Where it listens; port 0 takes a free one, see `port`.
    user, password : str
        Who may move it; empty for everybody.
    degrees : bool
        Whether it offers spaces in degrees, beside the generic ones from -1 to 1.
    speeds : (pan, tilt, zoom)
        Degrees, and zoom factors, per second at most: generic speed 1.
    latency : float
        Seconds until a request is dealt with.
    loss : float
        Chance that a request is not answered and its connection closed.
    seed : int
        Of the losses.
    """

    def __init__(
        self,
        body: Body,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        user: str = "",
        password: str = "",
        degrees: bool = True,
        speeds: tuple[float, float, float] = (120.0, 90.0, 5.0),
        latency: float = 0.0,
        loss: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.body, self.user, self.password, self.degrees, self.speeds = body, user, password, degrees, speeds
        self.latency = checks.number(latency, "latency", at_least=0.0)
        self.loss = checks.number(loss, "loss", at_least=0.0, at_most=0.95)
        self.random = random.Random(seed)
        self.deadline: float | None = None  # of a continuous move
        self.closed = False
        try:
            self._server = _Server((host, port), _handler(self))
        except (OSError, OverflowError) as error:
            raise ArgumentError(
                f"cannot listen at {host}:{port}: {error}: give another port (--port), 0 for one that is free"
            ) from None
        self._server.service_actions = self.rest  # type: ignore[method-assign]
        self.port = self._server.server_address[1]
        self.address = f"http://{host}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self.closed = True  # to those who are connected, too
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)

    def answer(self, request: bytes) -> tuple[int, str]:
        """Return the status and the answer to a SOAP request."""
        try:
            envelope = ElementTree.fromstring(request)
            asked = envelope.find("s:Body", NAMES)[0]  # type: ignore[index]
        except (ElementTree.ParseError, TypeError, IndexError):
            return 400, _fault("ter:WellFormed", "the request is no SOAP message")
        name = asked.tag.rpartition("}")[2]
        if name not in OPEN and self.user and not self._admits(envelope):
            return 401, _fault("ter:NotAuthorized", "Sender not authorized")
        if name not in OPERATIONS:
            return 500, _fault("ter:ActionNotSupported", f"{name} is not emulated")
        self.rest()
        try:
            body = getattr(self, OPERATIONS[name])(asked)
        except (ValueError, AttributeError):
            return 500, _fault("ter:InvalidArgVal", f"{name} has a value that makes no sense")
        prefix = next(p for p, uri in NAMES.items() if asked.tag.startswith(f"{{{uri}}}"))
        return 200, _envelope(f"<{prefix}:{name}Response>{body}</{prefix}:{name}Response>")

    def rest(self) -> None:
        """Stop a continuous move whose time is over."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.deadline = None
            self.body.drive(0.0, 0.0)
            self.body.zoom(0.0)

    def _admits(self, envelope: ElementTree.Element) -> bool:
        """Check the digest of a user name token: SHA-1 of nonce, time and password."""
        said = {
            key: envelope.findtext(f".//{{{SECURITY}{kind}-1.0.xsd}}{key}", "")
            for key, kind in (
                ("Username", "secext"),
                ("Password", "secext"),
                ("Nonce", "secext"),
                ("Created", "utility"),
            )
        }
        try:
            nonce = base64.b64decode(said["Nonce"])
        except ValueError:
            return False
        digest = hashlib.sha1(nonce + said["Created"].encode() + self.password.encode()).digest()
        wanted = base64.b64encode(digest).decode()
        return said["Username"] == self.user and hmac.compare_digest(said["Password"].encode(), wanted.encode())

    # The operations, by their names

    def _get_system_date_and_time(self, _: Any) -> str:
        now = time.gmtime()
        clock = "".join(f"<tt:{n}>{v}</tt:{n}>" for n, v in zip(("Hour", "Minute", "Second"), now[3:6], strict=True))
        day = "".join(f"<tt:{n}>{v}</tt:{n}>" for n, v in zip(("Year", "Month", "Day"), now[:3], strict=True))
        return (
            "<tds:SystemDateAndTime><tt:DateTimeType>NTP</tt:DateTimeType><tt:DaylightSavings>false"
            f"</tt:DaylightSavings><tt:UTCDateTime><tt:Time>{clock}</tt:Time><tt:Date>{day}</tt:Date>"
            "</tt:UTCDateTime></tds:SystemDateAndTime>"
        )

    def _get_services(self, _: Any) -> str:
        return "".join(
            f"<tds:Service><tds:Namespace>{NAMES[key]}</tds:Namespace><tds:XAddr>{self.address}{path}</tds:XAddr>"
            "<tds:Version><tt:Major>2</tt:Major><tt:Minor>40</tt:Minor></tds:Version></tds:Service>"
            for key, path in PATHS.items()
        )

    def _get_capabilities(self, _: Any) -> str:
        parts = {"Device": "tds", "Media": "trt", "PTZ": "tptz"}
        told = "".join(f"<tt:{n}><tt:XAddr>{self.address}{PATHS[k]}</tt:XAddr></tt:{n}>" for n, k in parts.items())
        return f"<tds:Capabilities>{told}</tds:Capabilities>"

    def _get_device_information(self, _: Any) -> str:
        told = {"Manufacturer": "simile", "Model": "emulator", "FirmwareVersion": "1", "SerialNumber": "1"}
        return "".join(f"<tds:{n}>{v}</tds:{n}>" for n, v in {**told, "HardwareId": "1"}.items())

    def _get_profiles(self, _: Any) -> str:
        return (
            "<trt:Profiles token='main' fixed='true'><tt:Name>main</tt:Name><tt:PTZConfiguration token='ptz'>"
            "<tt:Name>ptz</tt:Name><tt:UseCount>1</tt:UseCount><tt:NodeToken>node</tt:NodeToken>"
            "</tt:PTZConfiguration></trt:Profiles>"
        )

    def _get_nodes(self, _: Any) -> str:
        return (
            "<tptz:PTZNode token='node'><tt:Name>node</tt:Name>"
            f"<tt:SupportedPTZSpaces>{self._spaces()}</tt:SupportedPTZSpaces>"
            "<tt:MaximumNumberOfPresets>0</tt:MaximumNumberOfPresets><tt:HomeSupported>false</tt:HomeSupported>"
            "</tptz:PTZNode>"
        )

    def _get_configuration_options(self, _: Any) -> str:
        return (
            f"<tptz:PTZConfigurationOptions><tt:Spaces>{self._spaces()}</tt:Spaces>"
            "<tt:PTZTimeout><tt:Min>PT0.5S</tt:Min><tt:Max>PT60S</tt:Max></tt:PTZTimeout></tptz:PTZConfigurationOptions>"
        )

    def _get_status(self, _: Any) -> str:
        pan, tilt, zoom = self.body.pose
        state = "MOVING" if self.body.moving else "IDLE"
        kind = "SphericalPositionSpaceDegrees" if self.degrees else "PositionGenericSpace"
        if not self.degrees:
            pan, tilt = (2.0 * _share(at, ends) - 1.0 for at, ends in zip((pan, tilt), self.body.ranges, strict=False))
        return (
            "<tptz:PTZStatus><tt:Position>"
            f"<tt:PanTilt x='{pan:.6f}' y='{tilt:.6f}' space='{SPACES}PanTiltSpaces/{kind}'/>"
            f"<tt:Zoom x='{_share(zoom, self.body.ranges[2]):.6f}' space='{SPACES}ZoomSpaces/PositionGenericSpace'/>"
            f"</tt:Position><tt:MoveStatus><tt:PanTilt>{state}</tt:PanTilt><tt:Zoom>{state}</tt:Zoom></tt:MoveStatus>"
            f"<tt:UtcTime>{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}</tt:UtcTime></tptz:PTZStatus>"
        )

    def _absolute_move(self, asked: ElementTree.Element) -> str:
        self.deadline = None
        place, speed = asked.find(".//tptz:Position/tt:PanTilt", NAMES), asked.find(".//tptz:Speed/tt:PanTilt", NAMES)
        fastest = self.speeds[:2]
        if speed is not None:
            by = (1.0, 1.0) if "Degrees" in speed.get("space", "") else fastest
            wanted = (abs(float(speed.get(key, ""))) * most for key, most in zip("xy", by, strict=True))
            fastest = tuple(min(w, most) for w, most in zip(wanted, fastest, strict=True))  # type: ignore[assignment]
        if place is not None:
            to = [float(place.get(key, "")) for key in "xy"]
            if "Degrees" not in place.get("space", ""):
                to = [
                    low + (at + 1.0) / 2.0 * (high - low) for at, (low, high) in zip(to, self.body.ranges, strict=False)
                ]
            self.body.go(to[0], to[1], *fastest)
        zoom = asked.find(".//tptz:Position/tt:Zoom", NAMES)
        if zoom is not None:
            low, high = self.body.ranges[2]
            self.body.zoom_to(low + float(zoom.get("x", "")) * (high - low), self.speeds[2])
        return ""

    def _continuous_move(self, asked: ElementTree.Element) -> str:
        turn, zoom = (asked.find(f".//tptz:Velocity/tt:{name}", NAMES) for name in ("PanTilt", "Zoom"))
        if turn is not None:
            by = (1.0, 1.0) if "Degrees" in turn.get("space", "") else self.speeds[:2]
            speeds = [float(turn.get(key, "")) * scale for key, scale in zip("xy", by, strict=True)]
            most = zip(speeds, self.speeds[:2], strict=True)
            self.body.drive(*(min(max(speed, -fastest), fastest) for speed, fastest in most))
        if zoom is not None:
            self.body.zoom(float(zoom.get("x", "")) * self.speeds[2])
        timeout = asked.findtext("tptz:Timeout", None, NAMES)
        self.deadline = None if timeout is None else time.monotonic() + float(timeout.removeprefix("PT").rstrip("S"))
        return ""

    def _stop(self, asked: ElementTree.Element) -> str:
        self.deadline = None
        if asked.findtext("tptz:PanTilt", "true", NAMES) != "false":
            self.body.drive(0.0, 0.0)
        if asked.findtext("tptz:Zoom", "true", NAMES) != "false":
            self.body.zoom(0.0)
        return ""

    def _spaces(self) -> str:
        """Return the description of all spaces."""
        generic, whole = ("-1", "1"), ("0", "1")
        pan, tilt = self.body.ranges[:2]
        fast, quick = self.speeds[:2]
        found = [
            ("AbsolutePanTiltPositionSpace", "PanTiltSpaces/PositionGenericSpace", generic, generic),
            ("AbsolutePanTiltPositionSpace", "PanTiltSpaces/SphericalPositionSpaceDegrees", pan, tilt),
            ("AbsoluteZoomPositionSpace", "ZoomSpaces/PositionGenericSpace", whole, None),
            ("ContinuousPanTiltVelocitySpace", "PanTiltSpaces/VelocityGenericSpace", generic, generic),
            ("ContinuousPanTiltVelocitySpace", "PanTiltSpaces/VelocitySpaceDegrees", (-fast, fast), (-quick, quick)),
            ("ContinuousZoomVelocitySpace", "ZoomSpaces/VelocityGenericSpace", generic, None),
            ("PanTiltSpeedSpace", "PanTiltSpaces/GenericSpeedSpace", whole, None),
            ("PanTiltSpeedSpace", "PanTiltSpaces/SpeedSpaceDegrees", ("0", fast), None),
            ("ZoomSpeedSpace", "ZoomSpaces/ZoomGenericSpeedSpace", whole, None),
        ]
        return "".join(
            f"<tt:{name}><tt:URI>{SPACES}{uri}</tt:URI>{_range('X', x)}{_range('Y', y)}</tt:{name}>"
            for name, uri, x, y in found
            if self.degrees or "Degrees" not in uri
        )


class _Server(ThreadingHTTPServer):
    """A server that comes to an end though connections are open."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        """Say nothing of a peer that has gone."""


def _handler(emulator: OnvifEmulator) -> type[BaseHTTPRequestHandler]:
    """Return the class that deals with the requests to an emulator."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer goes out in one piece
        timeout = 30.0

        def do_POST(self) -> None:
            try:
                size = int(self.headers.get("Content-Length", ""))
            except ValueError:
                size = LARGEST + 1
            if not 0 <= size <= LARGEST:
                self.close_connection = True
                self.send_error(413)
                return
            request = self.rfile.read(size)
            time.sleep(emulator.latency)
            if emulator.closed or emulator.random.random() < emulator.loss:
                self.close_connection = True
                return
            status, text = emulator.answer(request)
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/soap+xml; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler


def _share(at: float, ends: tuple[float, float]) -> float:
    return (at - ends[0]) / (ends[1] - ends[0])


def _range(axis: str, ends: Any) -> str:
    if ends is None:
        return ""
    return f"<tt:{axis}Range><tt:Min>{ends[0]}</tt:Min><tt:Max>{ends[1]}</tt:Max></tt:{axis}Range>"


def _envelope(body: str) -> str:
    return ENVELOPE.format(names=" ".join(f'xmlns:{key}="{uri}"' for key, uri in NAMES.items()), body=body)


def _fault(code: str, reason: str) -> str:
    return _envelope(
        f"<s:Fault><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value>{code}</s:Value></s:Subcode></s:Code>"
        f"<s:Reason><s:Text xml:lang='en'>{reason}</s:Text></s:Reason></s:Fault>"
    )
