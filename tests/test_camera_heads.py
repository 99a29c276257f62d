"""Heads of all kinds by URL: Sony's header, raw VISCA over TCP and UDP, ONVIF; over the loopback."""

from __future__ import annotations

import itertools
import logging
import socket
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from commands import simile_
from conftest import some
from simile.camera.heads import (
    MODELS,
    Driver,
    HeadAddress,
    HeadError,
    OnvifUnits,
    Pose,
    ViscaHead,
    ViscaUnits,
    checking,
    onvif_head,
    open_head,
    visca,
    visca_units,
)
from simile.camera.heads.checking import check_head
from simile.camera.heads.emulators import Body, OnvifEmulator, ViscaEmulator, onvif
from simile.camera.heads.emulators.body import RANGES
from simile.camera.heads.framing import END, Raw
from simile.camera.heads.links import TcpLink, UdpLink, resolve
from simile.camera.heads.models import doubt
from simile.camera.heads.onvif_spaces import OnvifSpaces
from simile.errors import ArgumentError, DataError
from simile.online import AccelerationLimit
from test_camera_visca import connect
from visca_emulator import Camera, RawTcpServer, RawUdpServer, Server, SimulatedLink, Time, deaf_port
from visca_emulator import Raw as RawCamera

SONY = ViscaUnits()


def until(condition, seconds: float = 10.0) -> bool:
    """Wait for something to become true; machines are slow at times."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return bool(condition())


def drive_to(head, pan: float | list[float], there, **settings) -> Driver:
    """Send an action until the camera is there, as the camera itself says."""
    settings = {"rate": 50.0, "limits": AccelerationLimit(200.0, rate=60.0), "timeout": 5.0, **settings}
    with Driver(head, **settings) as driver:

        def send() -> bool:
            driver.send([pan] if isinstance(pan, float) else pan)
            return there()

        assert until(send), (driver.pose, list(driver.faults))
    return driver


# Addresses


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("camera", HeadAddress("visca", "camera", 52381)),
        ("10.0.0.7:99", HeadAddress("visca", "10.0.0.7", 99)),
        ("visca://10.0.0.7", HeadAddress("visca", "10.0.0.7", 52381)),
        ("visca+tcp://10.0.0.7", HeadAddress("visca+tcp", "10.0.0.7", 5678)),
        ("visca+udp://10.0.0.7/", HeadAddress("visca+udp", "10.0.0.7", 1259)),
        ("visca+tcp://[::1]:5", HeadAddress("visca+tcp", "::1", 5)),
        ("onvif://me:a%40b@cam:8080", HeadAddress("onvif", "cam", 8080, "me", "a@b")),
    ],
)
def test_addresses_are_read(url: str, found: HeadAddress):
    assert HeadAddress.parse(url) == found


@pytest.mark.parametrize("url", ["", "camera:x", "camera:70000", "http://a", "visca://", "visca://a@b", "cam/path"])
def test_what_is_no_address_is_refused_with_those_that_are(url: str):
    with pytest.raises(ArgumentError, match=r"visca\+tcp://HOST"):
        HeadAddress.parse(url)


def test_a_password_comes_from_the_environment_and_is_never_shown(monkeypatch):
    monkeypatch.setenv("SIMILE_HEAD_PASSWORD", "hidden")
    at = HeadAddress.parse("onvif://me@cam")
    assert at.password == "hidden"
    assert "hidden" not in repr(at)
    assert HeadAddress.parse("onvif://cam").password == ""
    with pytest.raises(ArgumentError, match=r"//\*\*\*@cam") as told:
        HeadAddress.parse("onvif://me:hidden@cam:port")
    assert "hidden" not in str(told.value)


# Raw VISCA in simulated time


class RawLink(SimulatedLink):
    """A `Link` to a camera without a header."""

    def __init__(self, camera: Camera, clock: Time) -> None:
        super().__init__(RawCamera(camera), clock)


def connect_raw(camera: Camera, **settings) -> tuple[ViscaHead, Time]:
    clock = Time()
    return ViscaHead("camera", link=RawLink(camera, clock), clock=clock, framing=Raw(0.1), **settings), clock


def pass_time(head: ViscaHead, clock: Time, seconds: float, step: float = 0.01) -> list[HeadError]:
    faults: list[HeadError] = []
    for _ in range(round(seconds / step)):
        clock.sleep(step)
        faults += head.poll()
    return faults


def test_raw_messages_are_those_of_the_command_list():
    # The tables of the PTZOptics 12X-SDI manual, revision 1.2 of July 2015, and of the CleverMic 4035UHS.
    camera = Camera()
    head, clock = connect_raw(camera, units=ViscaUnits(pan=14.4, tilt=14.4, tilt_range=(-30.0, 90.0)))
    head.where()
    head.absolute(-170.0, 30.0, 1.0)
    pass_time(head, clock, 0.2)
    head.velocity(-2.0, 2.4, 0.0)
    pass_time(head, clock, 0.2)
    head.stop()
    pass_time(head, clock, 0.2)
    heard = [message.hex(" ") for message in head._link.camera.heard]
    assert heard[:2] == ["81 09 06 12 ff", "81 09 04 47 ff"]
    assert "81 01 06 02 18 14 0f 06 07 00 00 01 0b 00 ff" in heard  # -170 is F670h, 30 is 01B0h
    assert "81 01 06 01 01 02 01 01 ff" in heard  # left and up
    assert "81 01 06 01 01 01 03 03 ff" in heard
    assert "81 01 04 07 00 ff" in heard


def test_replies_without_numbers_find_what_they_belong_to():
    raw = Raw(0.1)

    def send(number: int, kind: bytes, payload: bytes, now: float = 0.0) -> bytes | None:
        return raw.wrap(visca.Message(kind, number, payload), now)

    def numbers(data: str) -> list[int]:
        return [message.number for message in raw.unwrap(bytes.fromhex(data))]

    assert send(1, visca.COMMAND, visca.PAN_TILT_STOP) == visca.PAN_TILT_STOP
    assert send(2, visca.COMMAND, visca.ZOOM_STOP) is None  # one at a time
    assert send(3, visca.INQUIRY, visca.PAN_TILT_INQUIRY) == visca.PAN_TILT_INQUIRY  # these look different
    assert numbers("90 50 00 00 00 00 00 00 00 00 FF 90 41 FF") == [3, 1]  # two in one packet
    assert send(4, visca.COMMAND, visca.ZOOM_STOP) == visca.ZOOM_STOP
    assert numbers("90 51 FF") == [1]  # the completion of the first, by its socket
    assert numbers("90 60 02 FF") == [4]
    assert numbers("90 41 FF 90 52 FF 90 61 04 FF") == []  # of nothing that was sent
    assert send(5, visca.INQUIRY, visca.ZOOM_INQUIRY) is not None
    assert numbers("90 50 00 00 00 00 00 00 00 00 FF") == []  # late, of an inquiry that was given up
    assert send(6, visca.INQUIRY, visca.PAN_TILT_INQUIRY, 0.05) is None
    assert send(7, visca.INQUIRY, visca.PAN_TILT_INQUIRY, 0.11) is not None  # its answer was lost
    with pytest.raises(DataError, match="ends in FF"):
        numbers("90 41")


def test_a_camera_that_only_completes_is_understood():
    raw = Raw(0.1)
    raw.wrap(visca.Message(visca.COMMAND, 1, visca.ZOOM_STOP), 0.0)
    assert [message.number for message in raw.unwrap(bytes.fromhex("90 51 FF"))] == [1]


@pytest.mark.parametrize("seed", range(3))
def test_raw_messages_that_get_lost_or_come_late_are_made_up_for(seed: int):
    camera = Camera(seed=seed, drop=0.3, delay=0.05)
    head, clock = connect_raw(camera, tries=30)
    head.absolute(20.0, 5.0, 3.0)
    pass_time(head, clock, 6.0)
    assert [axis.at for axis in camera.axes[:2]] == pytest.approx([20.0, 5.0], abs=0.02)
    assert head.where(10.0) == pytest.approx((20.0, 5.0, 3.0), abs=0.05)
    head.stop()
    head.settle(10.0)


def test_each_command_gets_its_turn_where_one_at_a_time_is_under_way():
    camera = Camera(delay=0.03)
    head, clock = connect_raw(camera)
    head.where()
    for i in range(100):
        head.velocity(10.0 + i % 2 * 4.0, 0.0, 0.3)
        pass_time(head, clock, 0.02, step=0.02)
    kinds = {payload[1:4] for _, _, payload in camera.commands}
    assert kinds == {b"\x01\x06\x01", b"\x01\x04\x07"}
    assert sum(payload[1:4] == b"\x01\x06\x01" for _, _, payload in camera.commands) > 20
    head.stop()
    assert pass_time(head, clock, 1.0) == []
    assert not camera.moving


@pytest.mark.parametrize("make", [connect, connect_raw])
def test_a_camera_that_answers_late_is_not_reported_as_silent(make):
    camera = Camera(delay=0.09)
    head, clock = make(camera)
    faults = []
    for i in range(100):  # each command takes the place of one whose reply is still under way
        head.absolute(0.05 * i, 0.0, 1.0)
        faults += pass_time(head, clock, 0.02)
    assert faults == []
    camera.deaf = True
    for i in range(50):
        head.absolute(-0.05 * i, 0.0, 1.0)
        faults += pass_time(head, clock, 0.02)
    assert any("no good reply to pan-tilt" in str(fault) for fault in faults)


# Over the loopback


def test_raw_udp_ends_where_it_was_sent():
    with (
        RawUdpServer(drop=0.05, delay=0.01) as server,
        open_head(f"visca+udp://127.0.0.1:{server.port}", units=SONY) as head,
    ):
        drive_to(head, 8.0, lambda: abs(server.pan_tilt.pan - 8.0) < 0.2 and not server.pan_tilt.moving)
        assert until(lambda: not server.pan_tilt.moving)
        assert server.pan_tilt.pan == pytest.approx(8.0, abs=0.2)


def test_raw_tcp_ends_where_it_was_sent_however_the_stream_is_cut():
    with RawTcpServer(chop=1) as server, open_head(f"visca+tcp://127.0.0.1:{server.port}", units=SONY) as head:
        drive_to(head, 8.0, lambda: abs(server.pan_tilt.pan - 8.0) < 0.2 and not server.pan_tilt.moving)
        assert until(lambda: not server.pan_tilt.moving)
        assert server.pan_tilt.pan == pytest.approx(8.0, abs=0.2)
        assert server.connections == 1


def test_a_lost_connection_is_told_and_made_again_while_the_driver_goes_on():
    with RawTcpServer() as server, open_head(f"visca+tcp://127.0.0.1:{server.port}", units=SONY) as head:
        cut = []

        def there() -> bool:
            if not cut and server.pan_tilt.pan > 2.0:
                server.cut(leave=bytes.fromhex("90 50 00 01"))  # in the middle of a message
                cut.append(True)
            return abs(server.pan_tilt.pan - 20.0) < 0.2 and not server.pan_tilt.moving

        driver = drive_to(head, 20.0, there)
        assert server.connections >= 2
        assert any("closed the connection; trying again in" in str(fault) for fault in driver.faults)
        assert not any("cannot be read" in str(fault) for fault in driver.faults)


def test_a_port_where_nobody_listens_is_told_and_tried_less_and_less_often():
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    now = Time()
    link = TcpLink("127.0.0.1", port, end=END, clock=now)
    told, times = [], []
    while now() < 20.0:
        now.sleep(0.05)
        time.sleep(0.0005)
        try:
            assert link.receive() is None
            assert not link.send(b"\xff")
        except ConnectionError as error:
            told.append(str(error))
            times.append(now())
    link.close()
    assert "refused" in told[0]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert gaps[-1] > 4.0 > gaps[0]
    assert len(told) < 15
    with pytest.raises(HeadError, match=r"refused.*check address"), open_head(f"visca+tcp://127.0.0.1:{port}") as head:
        head.where(0.3)


def test_a_silent_camera_behind_a_connection_is_told():
    with RawTcpServer(deaf=True) as server, open_head(f"visca+tcp://127.0.0.1:{server.port}") as head:
        with pytest.raises(HeadError, match="did not say where it is"):
            head.where(0.2)
        head.stop()
        assert until(lambda: any("no good reply to pan-tilt" in str(fault) for fault in head.poll()))
        server.pan_tilt.deaf = False
        head.settle(5.0)  # a stop is repeated until it is heard
        assert server.connections == 1


def test_a_stream_without_an_end_is_given_up():
    with RawTcpServer() as server:
        link = TcpLink("127.0.0.1", server.port, end=END)
        server.cut(leave=bytes(5000))

        def given_up() -> bool:
            try:
                link.receive()
            except ConnectionError as error:
                return "without an end" in str(error)
            return False

        assert until(given_up)
        link.close()


def test_a_camera_that_answers_to_a_port_of_its_own_is_heard_there():
    with Server() as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        server.socket = _Answering(server.socket, ("127.0.0.1", port))
        with open_head(f"127.0.0.1:{server.port}", local_port=port) as head:
            assert head.where(5.0).pan == 0.0
        with open_head(f"127.0.0.1:{server.port}") as head, pytest.raises(HeadError, match="did not say where"):
            head.where(0.2)


class _Answering:
    """A socket that answers to one port, whoever asked."""

    def __init__(self, held: socket.socket, to: tuple[str, int]) -> None:
        self.held, self.to = held, to

    def recvfrom(self, size: int):
        return self.held.recvfrom(size)

    def sendto(self, data: bytes, _: object) -> None:
        self.held.sendto(data, self.to)

    def close(self) -> None:
        self.held.close()


def test_a_host_with_two_addresses_is_asked_at_that_of_ipv4(monkeypatch):
    found = [(socket.AF_INET6, 2, 17, "", ("::1", 9, 0, 0)), (socket.AF_INET, 2, 17, "", ("127.0.0.1", 9))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert resolve("camera", 9, socket.SOCK_DGRAM) == (socket.AF_INET, ("127.0.0.1", 9))


def test_a_local_port_that_cannot_be_had_is_told():
    with deaf_port() as port, pytest.raises(ArgumentError, match=f"local port {port} cannot be used"):
        UdpLink("127.0.0.1", 52381, local_port=port)
    with pytest.raises(ArgumentError, match="local_port"):
        open_head("visca+tcp://127.0.0.1", local_port=52381)
    with pytest.raises(ArgumentError, match="local_port must be"):
        open_head("127.0.0.1", local_port=70000)


# The emulators that come with simile, beside the tests' own


@pytest.mark.parametrize("make", [ViscaEmulator, OnvifEmulator])
def test_a_port_that_is_taken_is_told(make):
    with socket.create_server(("127.0.0.1", 0)) as held, pytest.raises(ArgumentError, match=r"cannot listen.*--port"):
        make(Body(), port=held.getsockname()[1], **({"protocol": "visca+tcp"} if make is ViscaEmulator else {}))


@pytest.mark.parametrize(
    "request_",
    [b"", b"<a/>", b"<s:Envelope xmlns:s='http://www.w3.org/2003/05/soap-envelope'><s:Body/></s:Envelope>", bytes(9)],
)
def test_what_is_no_request_is_answered_with_a_fault(request_: bytes):
    with OnvifEmulator(Body()) as camera:
        status, text = camera.answer(request_)
    assert status == 400
    assert "s:Fault" in text


@given(st.binary(max_size=40) | st.builds(lambda body: b"\x81\x01" + body + b"\xff", st.binary(max_size=14)))
@some(0.5)
def test_no_message_upsets_an_emulated_camera(visca_camera, data: bytes):
    replies: list[bytes] = []
    visca_camera._hear(data, replies.append)
    assert all(reply[0] == 0x90 and reply[-1] == 0xFF for reply in replies)


@pytest.fixture(scope="module")
def visca_camera():
    with ViscaEmulator(Body(), protocol="visca+udp") as camera:
        yield camera


@pytest.fixture(scope="module")
def policy():
    """A policy that pans, and the contexts that it sees."""
    demos = simile.tasks.pursuit(n_sequences=2, length=60)
    return simile.clone(demos, model=simile.SmoothForest(n_trees=2)).policy, demos[0].contexts


@pytest.mark.parametrize("protocol", ["visca", "visca+tcp", "onvif"])
def test_heads_of_three_kinds_end_where_the_policy_says(policy, protocol: str):
    policy, contexts = policy
    body, predictor = Body(start=(-3.0, 2.0, 1.0)), simile.Predictor(policy)
    emulate = OnvifEmulator(body) if protocol == "onvif" else ViscaEmulator(body, units=SONY, protocol=protocol)
    units = None if protocol == "onvif" else SONY
    said = []

    def there() -> bool:
        return abs(body.pose.pan - said[-1]) < 0.2 and not body.moving

    with emulate as camera, open_head(f"{protocol}://127.0.0.1:{camera.port}", units=units) as head:
        with Driver(head, rate=50.0, limits=AccelerationLimit(200.0, rate=60.0), timeout=5.0) as driver:
            for context in contexts[:40]:
                said.append(10.0 * float(predictor.step(context)[0]))
                driver.send([said[-1]])
                time.sleep(0.01)
            assert until(lambda: driver.send([said[-1]]) or there()), (said[-1], body.pose, list(driver.faults))
        assert until(lambda: not body.moving)
        assert body.pose == pytest.approx((said[-1], 2.0, 1.0), abs=0.2)
        assert abs(said[-1] + 3.0) > 1.0  # it had to move


def test_an_emulated_camera_that_loses_datagrams_is_driven_by_positions():
    body = Body(start=(-3.0, 2.0, 1.0))
    with (
        ViscaEmulator(body, units=SONY, protocol="visca+udp", latency=0.01, loss=0.1) as camera,
        open_head(f"visca+udp://127.0.0.1:{camera.port}", units=SONY, mode="absolute") as head,
    ):
        assert head.where(5.0) == pytest.approx((-3.0, 2.0, 1.0), abs=0.02)
        drive_to(head, 5.0, lambda: abs(body.pose.pan - 5.0) < 0.2 and not body.moving)
        assert body.pose == pytest.approx((5.0, 2.0, 1.0), abs=0.2)


def test_an_onvif_camera_without_degrees_ends_where_the_driver_says(monkeypatch):
    monkeypatch.delitem(onvif.OPERATIONS, "GetServices")  # an older camera: GetCapabilities tells the services
    body = Body(start=(-3.0, 2.0, 2.0))
    units = OnvifUnits(pan_range=RANGES[0], tilt_range=RANGES[1], zoom_range=RANGES[2])
    with (
        OnvifEmulator(body, user="me", password="a:b@c", degrees=False) as camera,
        open_head(f"onvif://me:a%3Ab%40c@127.0.0.1:{camera.port}", units=units) as head,
    ):
        assert head.where() == pytest.approx((-3.0, 2.0, 2.0), abs=0.02)
        drive_to(
            head,
            [5.0, 0.0, 4.0],
            lambda: max(abs(a - b) for a, b in zip(body.pose, (5.0, 0.0, 4.0), strict=True)) < 0.2 and not body.moving,
            n_actions=3,
        )
        assert body.pose == pytest.approx((5.0, 0.0, 4.0), abs=0.2)
        assert head.poll() == []


def test_an_onvif_camera_goes_to_positions_and_stops_by_itself(monkeypatch):
    body = Body()
    monkeypatch.delitem(onvif.OPERATIONS, "GetConfigurationOptions")  # its node tells the spaces, too
    with (
        OnvifEmulator(body) as camera,
        open_head(f"onvif://127.0.0.1:{camera.port}", mode="absolute") as head,
    ):
        head.where()
        head.absolute(4.0, 3.0, 2.0)
        head.settle()
        assert until(lambda: body.pose == pytest.approx((4.0, 3.0, 2.0), abs=0.01))
        drive_to(head, 2.0, lambda: abs(body.pose.pan - 2.0) < 0.2 and not body.moving)
        head.velocity(20.0, 0.0)
        assert until(lambda: body.pose.pan > 5.0)
        assert until(lambda: not body.moving)  # nobody sends any more
        head.velocity(0.0, 10.0)
        head.stop()
        head.settle()
        assert until(lambda: not body.moving)


def test_a_wrong_password_is_told_at_once():
    with (
        OnvifEmulator(Body(), user="me", password="right") as camera,
        open_head(f"onvif://me:wrong@127.0.0.1:{camera.port}") as head,
        pytest.raises(HeadError, match=r"refused user 'me' or the password: .*ONVIF user") as told,
    ):
        head.where()
    assert "wrong" not in str(told.value)


def test_units_of_another_protocol_are_refused():
    with pytest.raises(ArgumentError, match=r"units of visca\+tcp:// must be ViscaUnits"):
        open_head("visca+tcp://127.0.0.1", units=OnvifUnits())


def test_a_value_that_makes_no_sense_is_answered_with_a_fault():
    names = "xmlns:s='http://www.w3.org/2003/05/soap-envelope' xmlns:tptz='http://www.onvif.org/ver20/ptz/wsdl'"
    place = "<Position><PanTilt xmlns='http://www.onvif.org/ver10/schema' x='far' y='0'/></Position>"
    for operation, told in (("AbsoluteMove", "InvalidArgVal"), ("GotoHomePosition", "ActionNotSupported")):
        body = f"<{operation} xmlns='http://www.onvif.org/ver20/ptz/wsdl'>{place}</{operation}>"
        with OnvifEmulator(Body()) as camera:
            status, text = camera.answer(f"<s:Envelope {names}><s:Body>{body}</s:Body></s:Envelope>".encode())
        assert (status, told in text) == (500, True)


def test_a_camera_without_degrees_must_be_told_them():
    with (
        OnvifEmulator(Body(), degrees=False) as camera,
        open_head(f"onvif://127.0.0.1:{camera.port}") as head,
        pytest.raises(HeadError, match=r"-1 to 1 and not in degrees.*--pan-range"),
    ):
        head.where()


def test_where_no_onvif_camera_listens_the_loop_does_not_wait():
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    with open_head(f"onvif://127.0.0.1:{port}") as head:
        with pytest.raises(HeadError, match="connect"):
            head.where()
        head.poll()
        head.move(Pose(1.0, 0.0, 1.0), Pose(5.0, 0.0, 0.0))
        assert until(lambda: any("connect failed" in str(fault) for fault in head.poll()))


def test_an_onvif_camera_that_goes_away_is_told_and_found_again():
    body = Body()
    camera = OnvifEmulator(body)
    port = camera.port
    with open_head(f"onvif://127.0.0.1:{port}") as head:
        head.where()
        camera.close()
        head.velocity(5.0, 0.0)
        assert until(lambda: any("failed" in str(fault) for fault in head.poll()))
        head.stop()
        with OnvifEmulator(body, port=port):
            head.settle(10.0)
            assert head.where().pan == pytest.approx(body.pose.pan, abs=0.1)


def test_onvif_leaves_the_logging_of_the_program_alone(monkeypatch):
    root = logging.getLogger()
    before = root.level, list(root.handlers)

    def load(*_) -> SimpleNamespace:
        root.addHandler(logging.NullHandler())  # as the library does when it is imported
        root.setLevel(logging.DEBUG)
        return SimpleNamespace(ONVIFCamera="the client")

    monkeypatch.setattr(onvif_head, "need", load)
    assert onvif_head._load() == "the client"
    assert (root.level, list(root.handlers)) == before


def spaces(*uris: str, limits: bool = False):
    """What a camera says of its spaces, as the client gives it."""
    ends = SimpleNamespace(Min=-180.0, Max=180.0)
    found = [
        SimpleNamespace(URI=f"http://x/{uri}", XRange=ends, YRange=SimpleNamespace(Min=-90, Max=20)) for uri in uris
    ]
    told = SimpleNamespace(
        AbsolutePanTiltPositionSpace=found, ContinuousPanTiltVelocitySpace=[], AbsoluteZoomPositionSpace=[]
    )
    near = SimpleNamespace(URI="http://x/SphericalPositionSpaceDegrees", XRange=SimpleNamespace(Min=-30, Max=40))
    near.YRange = SimpleNamespace(Min=-45, Max=45)
    return told, (SimpleNamespace(Range=near) if limits else None)


def test_positions_in_either_space_are_understood():
    told, _ = spaces("PositionGenericSpace", "SphericalPositionSpaceDegrees")
    found = OnvifSpaces.of(told, OnvifUnits(), "camera")
    for kind, x, y in (("SphericalPositionSpaceDegrees", 90.0, -35.0), ("PositionGenericSpace", 0.5, 0.0)):
        turned = SimpleNamespace(x=x, y=y, space=f"http://x/{kind}")
        assert found.pose(SimpleNamespace(PanTilt=turned, Zoom=None)) == pytest.approx((90.0, -35.0, 1.0))
    assert found.position(Pose(500.0, 5.0, 1.0))["PanTilt"]["x"] == 180.0


def test_the_limits_of_a_camera_are_kept():
    told, limits = spaces("PositionGenericSpace", "SphericalPositionSpaceDegrees", limits=True)
    found = OnvifSpaces.of(told, OnvifUnits(), "camera", limits=limits)
    place = found.position(Pose(60.0, -60.0, 1.0))["PanTilt"]
    assert (place["x"], place["y"]) == (40.0, -45.0)
    generic = SimpleNamespace(x=0.5, y=0.0, space="http://x/PositionGenericSpace")  # of the whole range, as ever
    assert found.pose(SimpleNamespace(PanTilt=generic, Zoom=None)) == pytest.approx((90.0, -35.0, 1.0))


def test_an_onvif_camera_may_count_to_the_left():
    told, _ = spaces("PositionGenericSpace")
    found = OnvifSpaces.of(told, OnvifUnits(pan_range=(170.0, -170.0), tilt_range=(-20.0, 90.0)), "camera")
    assert found.position(Pose(85.0, 35.0, 1.0))["PanTilt"]["x"] == pytest.approx(-0.5)
    assert (
        found.velocity(Pose(10.0, 8.0, 0.0))["PanTilt"]["x"]
        < 0.0
        < found.velocity(Pose(10.0, 8.0, 0.0))["PanTilt"]["y"]
    )
    with pytest.raises(HeadError, match="no absolute positions"):
        OnvifSpaces.of(spaces("DigitalPositionSpace")[0], OnvifUnits(), "camera")
    for wrong in ({"pan_range": (1.0, 1.0)}, {"zoom_range": (4.0, 1.0)}, {"speeds": (0.0, 1.0, 1.0)}):
        with pytest.raises(ArgumentError):
            OnvifUnits(**wrong)


# Which camera counts how


@pytest.mark.parametrize(
    ("model", "pan", "tilt", "at"),
    [
        # DE00h to 2200h is 170 degrees, FC00h to 1200h -20 to 90: the command lists of SRG-X400 and BRC-X400
        ("sony-x400", 170.0, -20.0, (0x2200, -0x400)),
        ("sony-x400", -170.0, 90.0, (-0x2200, 0x1200)),
        ("sony-120dh", 100.0, 25.0, (0x1400, 0x500)),
        # F670h to 0990h is 170 degrees, FE50h to 0510h -30 to 90: the tables of Telycam TLC-700 and CleverMic 4035UHS
        ("ptzoptics", -170.0, -30.0, (-0x990, -0x1B0)),
        ("ptzoptics", 45.0, 90.0, (0x288, 0x510)),
    ],
)
def test_known_models_count_as_published(model: str, pan: float, tilt: float, at: tuple[int, int]):
    assert MODELS[model].units.position(pan, tilt, 1.0)[:2] == at


def test_what_differs_from_a_model_is_said():
    assert visca_units("sony-x400").position(0.0, 0.0, 20.0)[2] == 0x4000
    units = visca_units("ptzoptics", counts={"tilt": -14.4}, tilt_range=(-90.0, 20.0), zoom_range=(1.0, 12.0))
    assert units.position(10.0, 10.0, 12.0) == (144, -144, 0x4000)
    for wrong, told in (
        ({"model": "eos"}, "sony-x400"),
        ({"counts": {"roll": 1.0}}, "roll"),
        ({"zoom_range": (2.0, 4.0)}, "zoom_range"),
    ):
        with pytest.raises(ArgumentError, match=told):
            visca_units(**wrong)


def test_a_camera_that_says_it_counts_otherwise_is_doubted():
    assert "--model sony-x400" in (doubt((0x0001, 0x0617), MODELS["ptzoptics"].units) or "")
    assert "a zoom of its own" in (doubt((0x0001, 0x0617), MODELS["sony"].units) or "")
    assert doubt((0x0001, 0x0617), MODELS["sony-x400"].units) is None
    assert "BirdDog" in (doubt((0x0109, 0x2020), ViscaUnits()) or "")
    assert doubt((0x0109, 0x2020), MODELS["ptzoptics"].units) is None  # nothing is known against it
    assert "--check" in (doubt(None, ViscaUnits()) or "")
    with pytest.raises(HeadError, match="20 bits"):
        doubt((0x0001, 0x0519), ViscaUnits())


def test_what_a_camera_is_can_be_asked():
    with (
        ViscaEmulator(Body(), version=(0x0001, 0x0617)) as camera,
        open_head(f"127.0.0.1:{camera.port}") as head,
    ):
        assert head.version() == (0x0001, 0x0617)
    silent = connect_raw(Camera())[0]
    assert silent.version() is None  # a syntax error, and none that is told
    assert list(silent.poll()) == []


def test_a_place_that_there_is_not_is_refused_with_the_way_out():
    body = Body(start=(60.0, 0.0, 1.0))
    with (
        ViscaEmulator(body, units=SONY) as camera,
        open_head(f"127.0.0.1:{camera.port}", units=visca_units("ptzoptics")) as head,
        pytest.raises(HeadError, match=r"pan is 213\.\d degrees, outside -170 to 170: with 14\.4 .*--model"),
    ):
        head.where()


@pytest.fixture
def hasty(monkeypatch):
    """Checks that take less time."""
    monkeypatch.setattr(checking, "RUN_UP", 0.1)
    monkeypatch.setattr(checking, "MEASURED", 0.2)


@pytest.mark.parametrize(("model", "code"), [("ptzoptics", 0), ("sony", 1)])
def test_a_check_tells_which_units_fit(hasty, tmp_path, model: str, code: int):
    body = Body()
    with ViscaEmulator(body, units=MODELS["ptzoptics"].units, protocol="visca+tcp") as camera:
        head = ("--head", f"visca+tcp://127.0.0.1:{camera.port}", "--model", model)
        told = simile_("camera", "drive", *head, "--check", cwd=tmp_path, code=code)
        assert "that fits ptzoptics (14.4 units per degree)" in told.stdout
        assert ("NOT GOOD" in told.stdout and "give --model ptzoptics" in told.stdout) == bool(code)
        assert ("taken for a Sony" in told.stderr) == bool(code)
        assert until(lambda: not body.moving)
        assert body.pose.pan == pytest.approx(0.0, abs=0.2)


def test_a_check_of_an_onvif_camera_turns_it_and_back(hasty):
    body = Body(start=(10.0, 0.0, 1.0))
    with OnvifEmulator(body) as camera, open_head(f"onvif://127.0.0.1:{camera.port}") as head:
        found = check_head(head)
    assert found.good
    assert found.turned == pytest.approx(-1.0, abs=0.2)
    assert "asked to turn by 1 degree" in str(found)


def test_the_motors_of_a_body_keep_their_limits_and_ends():
    now = [0.0]
    body = Body(acceleration=100.0, clock=lambda: now[0])
    body.go(30.0, -40.0, 50.0, 20.0)
    seen = []
    while body.moving and now[0] < 20.0:
        now[0] += 0.01
        seen.append(body.pose)
    assert body.pose[:2] == (30.0, -30.0)  # the end of the range
    speeds = [(b.pan - a.pan) / 0.01 for a, b in itertools.pairwise(seen)]
    assert max(speeds) == pytest.approx(50.0, abs=0.5)
    assert max(abs(b - a) / 0.01 for a, b in itertools.pairwise(speeds)) < 125.0
    body.drive(0.0, 50.0)
    now[0] += 4.9
    assert body.pose.tilt == 90.0
    with pytest.raises(ArgumentError, match="start: tilt 99"):
        Body(start=(0.0, 99.0, 1.0))
