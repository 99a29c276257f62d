"""Heads: the bytes, the units, a camera that loses packets, and a driver that stops smoothly whatever happens."""

from __future__ import annotations

import contextlib
import math
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from simile import SimileError
from simile.camera.heads import Driver, FreeD, FreeDSender, Head, HeadError, Phase, Pose, ViscaHead, ViscaUnits, visca
from simile.camera.heads.freed import checksum
from simile.camera.heads.units import nearest_step, speed_of, step_above
from simile.camera.heads.visca_head import steered
from simile.errors import ArgumentError, DataError
from simile.online import AccelerationLimit, Bounds, RateLimit
from visca_emulator import Camera, Server, SimulatedLink, Time

HOME = Pose(0.0, 0.0, 1.0)
UNITS = ViscaUnits()


def until(condition, seconds: float = 10.0) -> bool:
    """Wait for something to become true; machines are slow at times."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return bool(condition())


# The bytes of VISCA


def test_commands_have_the_bytes_of_the_command_list():
    for command, wanted in (
        (visca.pan_tilt_absolute(0x2200, -0x400, 0x18, 0x14), "81 01 06 02 18 14 02 02 00 00 0F 0C 00 00 FF"),
        (visca.pan_tilt_absolute(-0x2200, 0, 1, 1), "81 01 06 02 01 01 0D 0E 00 00 00 00 00 00 FF"),
        (visca.pan_tilt_drive(0, 7), "81 01 06 01 01 07 03 01 FF"),  # up
        (visca.pan_tilt_drive(0, -7), "81 01 06 01 01 07 03 02 FF"),  # down
        (visca.pan_tilt_drive(-24, 0), "81 01 06 01 18 01 01 03 FF"),  # left
        (visca.pan_tilt_drive(24, 0), "81 01 06 01 18 01 02 03 FF"),  # right
        (visca.pan_tilt_drive(3, -4), "81 01 06 01 03 04 02 02 FF"),  # right and down
        (visca.PAN_TILT_STOP, "81 01 06 01 01 01 03 03 FF"),
        (visca.zoom_direct(0x4000), "81 01 04 47 04 00 00 00 FF"),
        (visca.zoom_drive(1), "81 01 04 07 20 FF"),
        (visca.zoom_drive(-8), "81 01 04 07 37 FF"),
        (visca.ZOOM_STOP, "81 01 04 07 00 FF"),
        (visca.PAN_TILT_INQUIRY, "81 09 06 12 FF"),
        (visca.ZOOM_INQUIRY, "81 09 04 47 FF"),
    ):
        assert command == bytes.fromhex(wanted)
    assert visca.pan_tilt_drive(0, 0) == visca.PAN_TILT_STOP


def test_messages_have_the_header_of_visca_over_ip():
    for message, wanted in (
        (visca.Message(visca.CONTROL, 1, visca.RESET), "02 00 00 01 00 00 00 01 01"),
        (visca.Message(visca.COMMAND, 0xFFFFFFFF, visca.ZOOM_STOP), "01 00 00 06 FF FF FF FF 81 01 04 07 00 FF"),
        (visca.Message(visca.INQUIRY, 258, visca.ZOOM_INQUIRY), "01 10 00 05 00 00 01 02 81 09 04 47 FF"),
    ):
        assert message.encode() == bytes.fromhex(wanted)
        assert visca.Message.decode(message.encode()) == message


def test_replies_are_read_as_the_command_list_says():
    def read(text):
        return visca.Reply.decode(bytes.fromhex(text))

    assert read("90 41 FF") == visca.Reply(visca.Answer.ACK, 1)
    assert read("90 52 FF") == visca.Reply(visca.Answer.COMPLETION, 2)
    assert "syntax" in read("90 60 02 FF").error
    assert "buffer full" in read("90 60 03 FF").error
    assert "cancelled" in read("90 62 04 FF").error
    assert "not executable" in read("90 61 41 FF").error
    assert "unknown error 77h" in read("90 61 77 FF").error
    assert visca.pan_tilt_position(read("90 50 0D 0E 00 00 01 02 00 00 FF").data) == (-8704, 4608)
    assert visca.zoom_position(read("90 50 04 00 00 00 FF").data) == 0x4000


@pytest.mark.parametrize("payload", ["", "90 FF", "90 60 FF", "91 41 FF", "90 71 FF", "90 41 00", "90 60 02 03 FF"])
def test_what_is_no_reply_is_refused(payload: str):
    with pytest.raises(DataError, match="not a VISCA reply"):
        visca.Reply.decode(bytes.fromhex(payload))


@pytest.mark.parametrize(
    ("read", "data", "told"),
    [
        (visca.Message.decode, "01 00 00 06 00 00 00 01", "more than 8 bytes"),
        (visca.Message.decode, "01 00 00 06 00 00 00 01 81", "6 bytes of payload, 1 came"),
        (visca.pan_tilt_position, "00 00 00 00 00 00 00 00 00", "20 bits"),
        (visca.pan_tilt_position, "10 00 00 00 00 00 00 00", "half byte"),
        (visca.zoom_position, "00 00", "4 bytes"),
    ],
)
def test_damaged_data_are_refused_in_words(read, data: str, told: str):
    with pytest.raises(DataError, match=told):
        read(bytes.fromhex(data))


@given(st.binary(max_size=40))
def test_no_datagram_raises_anything_but_a_data_error(data: bytes):
    for read in (visca.Message.decode, visca.Reply.decode, visca.pan_tilt_position, visca.zoom_position, FreeD.decode):
        with contextlib.suppress(DataError):
            read(data)


@given(st.integers(-0x8000, 0x7FFF), st.integers(0, 0xFFFF))
def test_numbers_survive_as_half_bytes(a: int, b: int):
    assert visca.from_nibbles(visca.to_nibbles(a), signed=True) == a
    assert visca.from_nibbles(visca.to_nibbles(b)) == b


@pytest.mark.parametrize(
    "build",
    [
        lambda: visca.pan_tilt_drive(25, 0),
        lambda: visca.pan_tilt_absolute(0, 0, 0, 1),
        lambda: visca.pan_tilt_absolute(0x10000, 0, 1, 1),
        lambda: visca.zoom_direct(-1),
        lambda: visca.zoom_drive(9),
    ],
)
def test_what_does_not_fit_into_a_command_is_refused(build):
    with pytest.raises(ArgumentError, match="must be a whole number from"):
        build()


# Units


@given(st.floats(-170.0, 170.0), st.floats(-20.0, 90.0), st.floats(1.0, 25.0), st.sampled_from([51.2, -51.2, 14.4]))
def test_positions_survive_within_one_unit(pan: float, tilt: float, zoom: float, scale: float):
    units = ViscaUnits(pan=scale)
    place = units.position(pan, tilt, zoom)
    assert units.degrees(*place[:2]) == pytest.approx((pan, tilt), abs=1.0 / abs(scale))
    assert units.position(*units.degrees(*place[:2]), units.factor(place[2])) == place
    assert abs(units.position(0, 0, units.factor(place[2]))[2] - place[2]) <= 1


@given(st.floats(-400.0, 400.0))
def test_the_step_of_a_speed_is_the_nearest_and_keeps_the_sign(speed: float):
    step = UNITS.pan_step(speed)
    off = abs(speed_of(step, UNITS.pan_speeds) - speed)
    assert all(off <= abs(speed_of(other, UNITS.pan_speeds) - speed) + 1e-12 for other in range(-24, 25))
    assert nearest_step(speed_of(step, UNITS.pan_speeds), UNITS.pan_speeds) == step


@given(st.integers(-24, 24), st.integers(-20, 20), st.integers(-8, 8), st.floats(1.0, 25.0))
def test_steps_survive_as_speeds(pan: int, tilt: int, zoom: int, at: float):
    speeds = UNITS.speeds(pan, tilt, zoom, at)
    assert (UNITS.pan_step(speeds[0]), UNITS.tilt_step(speeds[1]), UNITS.zoom_step(speeds[2], at)) == (pan, tilt, zoom)


def test_out_of_range_is_brought_to_the_end():
    assert UNITS.position(1e9, -1e9, 1e9) == (8704, -1024, 0x4000)
    assert step_above(1e9, UNITS.pan_speeds) == 24
    assert step_above(0.0, UNITS.pan_speeds) == 1
    assert UNITS.pan_speeds[step_above(20.0, UNITS.pan_speeds) - 1] == 22.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"pan": 0.0},
        {"tilt": math.nan},
        {"pan_range": (10.0, -10.0)},
        {"pan_range": (-170.0, 1700.0)},
        {"zoom": [(1.0, 0)]},
        {"zoom": [(2.0, 0), (1.0, 5)]},
        {"zoom": [(1.0, 0), (2.0, 70000)]},
        {"pan_speeds": range(1, 27)},
        {"zoom_speeds": []},
        {"tilt_speeds": [3.0, 2.0]},
    ],
)
def test_units_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ArgumentError, match=next(iter(wrong)).split("_")[0]):
        ViscaUnits(**wrong)


# Free-D

ANGLES = st.floats(-255.9999, 255.9999)
LENGTHS = st.floats(-131071.9, 131071.9)
BITS = st.integers(0, (1 << 24) - 1)


@given(ANGLES, ANGLES, ANGLES, LENGTHS, LENGTHS, LENGTHS, BITS, BITS, st.integers(0, 65535), st.integers(0, 255))
def test_free_d_survives_within_one_unit(pan, tilt, roll, x, y, z, zoom, focus, user, camera):
    sent = FreeD(pan, tilt, roll, x, y, z, zoom, focus, user, camera)
    packet = sent.encode()
    got = FreeD.decode(packet)
    assert len(packet) == 29
    assert sum(packet) % 256 == 0x40
    assert (got.pan, got.tilt, got.roll) == pytest.approx((pan, tilt, roll), abs=1 / 32768)
    assert (got.x, got.y, got.z) == pytest.approx((x, y, z), abs=1 / 64)
    assert (got.zoom, got.focus, got.user, got.camera) == (zoom, focus, user, camera)
    assert got.encode() == packet


def test_free_d_has_the_bytes_of_its_manual():
    for field, value, place, wanted in (
        ("pan", 180.0, 2, "5A 00 00"),
        ("pan", -180.0, 2, "A6 00 00"),
        ("tilt", 1 / 32768, 5, "00 00 01"),
        ("roll", -1 / 32768, 8, "FF FF FF"),
        ("x", -131072.0, 11, "80 00 00"),
        ("z", 131072.0 - 1 / 64, 17, "7F FF FF"),
        ("zoom", 0x123456, 20, "12 34 56"),
        ("focus", 1, 23, "00 00 01"),
        ("user", 0xABCD, 26, "AB CD"),
        ("camera", 255, 1, "FF"),
    ):
        packet = FreeD(**{field: value}).encode()
        wanted = bytes.fromhex(wanted)
        assert packet[0] == 0xD1
        assert packet[place : place + len(wanted)] == wanted
        assert packet[-1] == checksum(packet[:-1])


@given(st.integers(0, 28), st.integers(1, 255))
def test_no_damaged_byte_of_free_d_goes_unnoticed(place: int, flip: int):
    packet = bytearray(FreeD(pan=12.0, zoom=99).encode())
    packet[place] ^= flip
    with pytest.raises(DataError, match=r"checksum must be|only D1"):
        FreeD.decode(bytes(packet))


def test_free_d_refuses_what_does_not_fit():
    for wrong in (
        {"pan": 256.0},
        {"x": -131073.0},
        {"zoom": 1 << 24},
        {"camera": 256},
        {"user": -1},
        {"tilt": math.nan},
    ):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            FreeD(**wrong).encode()
    with pytest.raises(DataError, match="29 bytes; got 28"):
        FreeD.decode(bytes(28))


def test_free_d_arrives_over_udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(10.0)
        with FreeDSender("127.0.0.1", receiver.getsockname()[1]) as sender:
            sender.send(FreeD(pan=33.5, camera=2))
            assert FreeD.decode(receiver.recv(100)) == FreeD(pan=33.5, camera=2)


def test_free_d_to_nobody_does_not_wait_and_does_not_fail():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with FreeDSender("127.0.0.1", port) as sender:
        for _ in range(5):
            sender.send(FreeD())
    with pytest.raises(ArgumentError, match="port"):
        FreeDSender("127.0.0.1", 70000)


# A head and a camera in simulated time


def connect(camera: Camera, clock: Time | None = None, **settings) -> tuple[ViscaHead, Time]:
    clock = Time() if clock is None else clock
    return ViscaHead("camera", link=SimulatedLink(camera, clock), clock=clock, **settings), clock


def pass_time(head: ViscaHead, clock: Time, seconds: float, step: float = 0.01) -> list[HeadError]:
    faults: list[HeadError] = []
    for _ in range(round(seconds / step)):
        clock.sleep(step)
        faults += head.poll()
    return faults


def test_an_absolute_move_arrives_where_it_was_sent():
    camera = Camera()
    head, clock = connect(camera)
    head.absolute(30.0, -10.0, 4.0, pan_speed=50.0)
    assert pass_time(head, clock, 5.0) == []
    assert head.where() == pytest.approx((30.0, -10.0, 4.0), abs=0.03)
    assert camera.pan == pytest.approx(30.0, abs=0.02)
    assert max(abs(speed) for _, _, speed in camera.history) == pytest.approx(52.0)  # the step above


def test_velocities_move_in_their_direction_at_the_nearest_step_until_stopped():
    camera = Camera()
    head, clock = connect(camera)
    head.where()
    head.velocity(-10.5, 5.0, 0.2)
    pass_time(head, clock, 2.0)
    head.stop()
    pass_time(head, clock, 1.0)
    assert camera.axes[0].at == pytest.approx(-22.0, abs=0.5)  # 11 degrees per second
    assert camera.axes[1].at == pytest.approx(9.4, abs=0.3)  # 4.7
    assert UNITS.factor(camera.axes[2].at) > 1.2
    assert not camera.moving
    assert head.pose == pytest.approx(head.where(), abs=1.0)


@pytest.mark.parametrize("seed", range(5))
def test_lost_late_and_doubled_packets_are_made_up_for(seed: int):
    camera = Camera(seed=seed, drop=0.4, duplicate=0.4, delay=0.15)
    head, clock = connect(camera, tries=30)
    head.absolute(20.0, 5.0, 3.0)
    pass_time(head, clock, 6.0)
    assert [axis.at for axis in camera.axes[:2]] == pytest.approx([20.0, 5.0], abs=0.02)
    assert head.where(10.0) == pytest.approx((20.0, 5.0, 3.0), abs=0.05)
    head.settle(10.0)


def test_a_newer_command_takes_the_place_of_one_that_was_lost():
    camera = Camera(deaf=True)
    head, clock = connect(camera)
    head.absolute(50.0, 0.0, 1.0)
    pass_time(head, clock, 0.05)
    head.absolute(-10.0, 0.0, 1.0)
    camera.deaf = False
    pass_time(head, clock, 3.0)
    assert camera.pan == pytest.approx(-10.0, abs=0.02)
    assert max(pan for _, pan, _ in camera.history) <= 0.0


def test_a_lost_move_is_given_up_because_it_must_not_come_late():
    camera = Camera(deaf=True)
    head, clock = connect(camera)
    head.velocity(10.0, 0.0)
    faults = pass_time(head, clock, 2.0)
    camera.deaf = False
    pass_time(head, clock, 2.0)
    assert camera.pan == 0.0
    assert any("reply to pan-tilt for 0.5 s" in str(fault) for fault in faults)
    assert len(faults) <= 3


def test_a_stop_is_repeated_until_it_is_confirmed():
    camera = Camera()
    head, clock = connect(camera)
    head.velocity(10.0, 0.0)
    pass_time(head, clock, 0.5)
    camera.deaf = True
    head.stop()
    pass_time(head, clock, 5.0)
    assert camera.moving
    camera.deaf = False
    camera.last_number = 10_000  # and another controller was there meanwhile
    pass_time(head, clock, 0.5)
    assert not camera.moving
    assert camera.resets >= 2


def test_an_unchanged_command_is_not_sent_again_and_again():
    camera = Camera()
    head, clock = connect(camera)
    for _ in range(50):
        head.velocity(10.0, 0.0)
        clock.sleep(0.01)
        head.poll()
    assert len(camera.commands) == 2  # pan-tilt and zoom


def test_who_never_answers_is_reported_even_though_every_command_is_new():
    head, clock = connect(Camera(deaf=True))
    faults = []
    for i in range(100):
        head.absolute(i / 10, 0.0, 1.0 + i / 100)
        clock.sleep(0.02)
        faults += head.poll()
    assert sum("reply to pan-tilt" in str(fault) for fault in faults) == 1


@pytest.mark.parametrize(("code", "words"), [(0x02, "syntax error"), (0x41, "not executable"), (0x01, "length")])
def test_errors_of_the_camera_are_reported_with_the_command(code: int, words: str):
    camera = Camera()
    head, clock = connect(camera)
    camera.refusals = [code]
    head.velocity(11.0, 0.0)
    (fault,) = pass_time(head, clock, 1.0)
    assert isinstance(fault, SimileError)
    assert words in str(fault)
    assert "81 01 06 01 09 01 02 03 ff" in str(fault)
    assert "camera:52381" in str(fault)


def test_a_full_buffer_is_tried_again_and_a_cancelled_command_is_no_error():
    camera = Camera()
    head, clock = connect(camera)
    camera.refusals = [0x03]
    head.absolute(5.0, 0.0, 1.0)
    assert pass_time(head, clock, 2.0) == []
    assert camera.pan == pytest.approx(5.0, abs=0.02)
    camera.refusals = [0x04]
    head.absolute(6.0, 0.0, 1.0)
    assert pass_time(head, clock, 0.3) == []


def test_a_camera_that_counts_from_elsewhere_is_reset():
    camera = Camera()
    head, clock = connect(camera)
    pass_time(head, clock, 0.1)
    camera.last_number = 10_000  # another controller was there
    head.absolute(5.0, 0.0, 1.0)
    assert pass_time(head, clock, 2.0) == []
    assert camera.resets >= 2
    assert camera.pan == pytest.approx(5.0, abs=0.02)
    assert head.where() == pytest.approx((5.0, 0.0, 1.0), abs=0.02)


def test_a_camera_that_never_agrees_with_the_numbers_is_reported():
    camera = Camera()
    head, clock = connect(camera)
    pass_time(head, clock, 0.1)
    camera.handle = lambda datagram, now: camera.reply(int.from_bytes(datagram[4:8], "big"), "0F 01", now, kind=0x0200)
    head.absolute(5.0, 0.0, 1.0)
    faults = pass_time(head, clock, 2.0)
    assert {slot for slot in ("pan-tilt", "zoom") if any(f"reply to {slot}" in str(f) for f in faults)} == {
        "pan-tilt",
        "zoom",
    }
    assert len(head._link.sent) < 50


def test_a_message_that_the_camera_cannot_read_is_reported():
    camera = Camera()
    head, clock = connect(camera)
    pass_time(head, clock, 0.1)
    camera.handle = lambda datagram, now: camera.reply(int.from_bytes(datagram[4:8], "big"), "0F 02", now, kind=0x0200)
    head.stop()
    faults = pass_time(head, clock, 1.0)
    assert {str(fault) for fault in faults} == {
        "camera:52381 does not understand pan-tilt (0f 02)",
        "camera:52381 does not understand zoom (0f 02)",
    }


def test_numbers_begin_again_at_zero_after_the_largest():
    camera = Camera()
    head, clock = connect(camera)
    pass_time(head, clock, 0.1)
    head._number = visca.LARGEST_NUMBER - 1
    for pan in (1.0, 2.0, 3.0):
        head.absolute(pan, 0.0, 1.0)
        pass_time(head, clock, 1.0)
    assert camera.pan == pytest.approx(3.0, abs=0.02)


@given(st.lists(st.binary(max_size=30), max_size=8))
@settings(max_examples=30)
def test_strange_datagrams_do_not_upset_a_head(datagrams: list[bytes]):
    camera = Camera()
    head, clock = connect(camera)
    head._link.queue.extend((0.0, datagram) for datagram in datagrams)
    head.absolute(5.0, 0.0, 1.0)
    faults = pass_time(head, clock, 1.0, step=0.05)
    assert all("cannot be read" in str(fault) for fault in faults)
    assert camera.pan == pytest.approx(5.0, abs=0.02)


def test_a_silent_camera_does_not_say_where_it_is():
    head, _ = connect(Camera(deaf=True))
    with pytest.raises(HeadError, match=r"camera:52381 did not say where it is within 1 s.*start="):
        head.where()
    head.stop()
    with pytest.raises(HeadError, match=r"did not confirm .*pan-tilt"):
        head.settle()


@pytest.mark.parametrize(
    "wrong",
    [{"mode": "fast"}, {"gain": -1.0}, {"correction": (1.0, 1.0)}, {"retry": 0.0}, {"tries": 0}, {"inquire": math.inf}],
)
def test_settings_of_a_head_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        connect(Camera(), **wrong)


def test_a_move_to_nowhere_is_refused():
    head, _ = connect(Camera())
    with pytest.raises(ArgumentError, match="pan_speed"):
        head.velocity(math.nan, 0.0)
    with pytest.raises(ArgumentError, match="zoom"):
        head.absolute(0.0, 0.0, math.inf)


@given(st.floats(-90, 90), st.floats(-90, 90), st.floats(-50, 50))
def test_the_correction_is_bounded_and_pulls_towards_the_trajectory(wanted: float, here: float, speed: float):
    most = Pose(5.0, 5.0, 0.5)
    pan, tilt, zoom = steered(Pose(wanted, 0, 1), Pose(speed, 0, 0), [here, math.nan, 1.0], 2.0, most)
    assert abs(pan - speed) <= 5.0 + 1e-9
    assert (pan - speed) * (wanted - here) >= -1e-9
    assert (tilt, zoom) == (0.0, 0.0)


def drive(camera: Camera, wish, seconds: float, *, rate=30.0, mode="velocity", **settings):
    """Follow `wish(t)` in simulated time; returns times, wishes, commanded pans and where the camera was."""
    head, clock = connect(camera, mode=mode)
    limits = AccelerationLimit(60.0, rate=40.0)
    driver = Driver(head, rate=rate, limits=limits, threaded=False, clock=clock, sleep=clock.sleep, **settings)
    rows = []
    with driver:
        begin = clock()
        while (t := clock() - begin) < seconds:
            driver.send([wish(t)])
            driver.tick()
            rows.append((t, wish(t), driver.pose.pan, camera.pan))
            clock.sleep(max(driver.due - clock(), 0.0))
    camera.advance(clock() + 1.0)
    return np.array(rows).T, driver


@pytest.mark.parametrize("mode", ["velocity", "absolute"])
@pytest.mark.parametrize(("drop", "delay"), [(0.0, 0.0), (0.15, 0.03)])
def test_a_camera_follows_a_sine(mode: str, drop: float, delay: float):
    camera = Camera(seed=1, drop=drop, delay=delay, duplicate=drop)
    (_, wished, commanded, seen), driver = drive(camera, lambda t: 20 * math.sin(t * 2 * math.pi / 8), 16.0, mode=mode)
    assert np.abs(commanded - wished).max() < 4.0  # the limiter stays able to stop at the wish
    assert np.sqrt(np.mean((seen - commanded) ** 2)) < 1.0
    assert np.abs(seen - commanded).max() < 3.0
    assert driver.phase is Phase.CLOSED
    assert not camera.moving


def test_a_camera_that_is_elsewhere_comes_gently_and_stays():
    camera = Camera()
    (_, _, commanded, seen), _ = drive(camera, lambda t: 30.0, 10.0, start=(20.0, 0.0, 1.0))
    assert abs(seen[-1] - 30.0) < 1.0  # the slowest step is 2 degrees per second
    assert np.abs(np.diff(seen)).max() * 30 < 40 + 5 + 10  # rate, correction, and rounding to a step
    assert commanded[-1] == pytest.approx(30.0)


# The driver with a paper head and a fake clock


class Paper:
    """A head that notes what it is told."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, Pose | None, Pose | None]] = []
        self.fails: Exception | None = None

    def move(self, pose, speed, *, braking=False):
        self.notes.append(("brake" if braking else "move", pose, speed))
        if self.fails:
            raise self.fails

    def stop(self):
        self.notes.append(("stop", None, None))
        if self.fails:
            raise self.fails

    def poll(self):
        return []

    def where(self):
        return HOME

    def settle(self):
        pass

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _, _ in self.notes]


def paper_driver(**settings) -> tuple[Driver, Paper, Time]:
    clock, head = Time(), Paper()
    settings = {"rate": 20.0, "limits": AccelerationLimit(40.0, rate=30.0), "threaded": False, **settings}
    return Driver(head, clock=clock, sleep=clock.sleep, **settings), head, clock


def run(driver: Driver, clock: Time, seconds: float, wish=None) -> None:
    """Tick at the rate of the driver, with or without new actions."""
    for _ in range(round(seconds * driver.rate)):
        clock.now = max(driver.due, clock.now)
        if wish is not None:
            driver.send(wish)
        driver.tick()


def test_heads_are_recognised_by_their_methods():
    assert isinstance(Paper(), Head)
    assert isinstance(connect(Camera())[0], Head)


def test_without_actions_the_head_is_braked_and_stopped_after_the_timeout():
    driver, head, clock = paper_driver(timeout=0.5)
    run(driver, clock, 1.0, [100.0])
    speed = driver.speed.pan
    assert speed == pytest.approx(30.0)
    run(driver, clock, 0.4)
    assert driver.phase is Phase.MOVING
    run(driver, clock, 0.2)
    assert driver.phase is Phase.BRAKING
    assert driver.reason == "no action came for 0.5 s"
    run(driver, clock, 1.0)
    assert driver.phase is Phase.RESTING
    assert head.kinds[-1] == "stop"
    assert head.kinds.count("stop") == 1
    speeds = [s.pan for kind, _, s in head.notes if kind == "brake"]
    assert np.allclose(np.diff([speed, *speeds, 0.0])[:-1], -2.0)  # as hard as allowed
    driver.close()


@pytest.mark.parametrize("bad", [None, [math.nan], [math.inf], [-math.inf], [1e300], np.array([np.nan])])
def test_no_usable_action_brakes_at_once(bad):
    driver, head, clock = paper_driver()
    run(driver, clock, 1.0, [100.0])
    driver.send(bad)
    assert driver.phase is Phase.BRAKING
    run(driver, clock, 2.0)
    assert driver.phase is Phase.RESTING
    assert head.kinds[-1] == "stop"
    driver.close()


def test_a_new_action_takes_over_smoothly_while_braking_and_at_rest():
    driver, head, clock = paper_driver()
    run(driver, clock, 1.0, [100.0])
    driver.send(None)
    run(driver, clock, 0.3)
    run(driver, clock, 0.5, [100.0])
    assert driver.phase is Phase.MOVING
    driver.halt()
    run(driver, clock, 2.0)
    assert driver.phase is Phase.RESTING
    run(driver, clock, 9.0, [100.0])
    assert driver.pose.pan == pytest.approx(100.0)
    pans = np.array([0.0, 0.0, *[pose.pan for _, pose, _ in head.notes if pose]])
    assert np.abs(np.diff(pans, n=2)).max() <= 40.0 / 20**2 + 1e-9
    driver.close()


@pytest.mark.parametrize("wrong", [[1.0, 2.0], 3.0, "left", [[1.0]], ["x"], []])
def test_an_action_of_the_wrong_kind_is_refused_and_brakes(wrong):
    driver, _, clock = paper_driver()
    run(driver, clock, 1.0, [100.0])
    with pytest.raises(ArgumentError, match=r"action must .*pan.*got"):
        driver.send(wrong)
    assert driver.phase is Phase.BRAKING
    driver.close()


def test_an_error_in_the_body_brakes_stops_and_goes_on_up():
    driver, head, clock = paper_driver()

    def body():
        with driver:
            run(driver, clock, 1.0, [100.0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    assert driver.phase is Phase.CLOSED
    assert head.kinds.count("brake") == 14  # 15 steps from 30 degrees per second; the last is the stop
    assert head.kinds[-1] == "stop"
    with pytest.raises(HeadError, match="closed"):
        driver.send([1.0])
    with pytest.raises(HeadError, match="closed"):
        driver.start()
    driver.close()  # once more does no harm
    assert driver.tick() is Phase.CLOSED


def test_a_failing_head_is_noted_and_does_not_end_the_braking():
    told = []
    driver, head, clock = paper_driver(on_fault=told.append)
    run(driver, clock, 1.0, [100.0])
    head.fails = OSError("unplugged")
    run(driver, clock, 0.2, [100.0])
    driver.send(None)
    run(driver, clock, 2.0)
    assert driver.phase is Phase.RESTING
    assert told
    assert list(driver.faults) == told
    assert all(fault is head.fails for fault in told)
    driver.close()


def test_an_error_while_telling_of_an_error_is_survived():
    def shout(fault):
        raise RuntimeError("no one listens")

    driver, head, clock = paper_driver(on_fault=shout)
    head.fails = OSError("unplugged")
    run(driver, clock, 1.0, [100.0])
    assert {type(fault) for fault in driver.faults} == {OSError, RuntimeError}
    assert len(driver.faults) <= 100
    driver.close()


@pytest.mark.parametrize("failure", [ZeroDivisionError(), math.nan])
def test_a_failing_stage_brakes(failure):
    class Moody:
        broken = False

        def __call__(self, wanted, last, before, seconds):
            if self.broken and isinstance(failure, Exception):
                raise failure
            return wanted * (failure if self.broken else 1.0)

    stage = Moody()
    driver, head, clock = paper_driver(limits=[stage, AccelerationLimit(40.0, rate=30.0)])
    run(driver, clock, 1.0, [100.0])
    stage.broken = True
    run(driver, clock, 0.1)
    assert driver.phase is Phase.BRAKING
    assert driver.reason == "a stage failed"
    run(driver, clock, 2.0)
    assert driver.phase is Phase.RESTING
    assert all(math.isfinite(pose.pan) for _, pose, _ in head.notes if pose)
    driver.close()


def test_a_pause_of_the_thread_is_not_made_up_for():
    driver, head, clock = paper_driver(timeout=100.0)
    run(driver, clock, 1.0, [1000.0])
    n = len(head.notes)
    clock.now += 10.0
    for _ in range(5):
        driver.tick()
    assert len(head.notes) == n + 1
    driver.close()


def test_ticks_between_two_steps_take_none():
    driver, head, clock = paper_driver()
    for _ in range(100):
        driver.send([5.0])
        driver.tick()
        clock.now += 0.01
    assert len(head.notes) == 20
    driver.close()


def test_only_pan_is_driven_where_there_is_one_action_and_all_where_there_are_three():
    driver, _, clock = paper_driver(start=(1.0, -5.0, 3.0))
    run(driver, clock, 5.0, [10.0])
    assert driver.pose == pytest.approx((10.0, -5.0, 3.0))
    driver.close()
    limits = AccelerationLimit([40.0, 20.0, 1.0], rate=[30.0, 20.0, 0.5])
    driver, head, clock = paper_driver(n_actions=3, start=(1.0, -5.0, 3.0), limits=limits)
    run(driver, clock, 9.0, [10.0, 5.0, 5.0])
    assert driver.pose == pytest.approx((10.0, 5.0, 5.0))
    assert max(speed.zoom for _, _, speed in head.notes if speed) == pytest.approx(0.5)
    driver.close()


def test_the_bounds_are_kept_also_by_braking():
    driver, head, clock = paper_driver(limits=[Bounds(-10.0, 10.0), AccelerationLimit(40.0, rate=30.0)])
    for wish in ([1e5], None, [-1e5], [1e5], None):
        run(driver, clock, 0.6, wish)
    driver.close()
    assert max(abs(pose.pan) for _, pose, _ in head.notes if pose) <= 10.0 + 1e-9


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"limits": RateLimit(3.0)}, "end in an AccelerationLimit"),
        ({"limits": []}, "end in an AccelerationLimit"),
        ({"limits": [AccelerationLimit(3.0), Bounds(0, 1)]}, "end in an AccelerationLimit"),
        ({"limits": AccelerationLimit([1.0, 2.0, 3.0])}, "each of the 1 actions"),
        ({"n_actions": 2}, "n_actions must be 1"),
        ({"rate": 0.0}, "rate must be"),
        ({"timeout": math.nan}, "timeout must be"),
        ({"start": (1.0, 2.0)}, "start must be three"),
        ({"start": (1.0, 2.0, math.nan)}, "start must be three"),
    ],
)
def test_settings_of_a_driver_that_make_no_sense_are_refused(wrong, told: str):
    with pytest.raises(ArgumentError, match=told):
        paper_driver(**wrong)
    with pytest.raises(ArgumentError, match="head"):
        Driver(Paper, rate=1.0, limits=AccelerationLimit(1.0))


EVENTS = st.lists(
    st.tuples(
        st.none() | st.just(math.nan) | st.floats(-170.0, 170.0) | st.floats(),  # what is sent
        st.integers(0, 4),  # how often: none is a drop-out, several a burst
        st.floats(0.0, 0.4) | st.floats(0.0, 3.0),  # seconds until the next tick
    ),
    max_size=60,
)
FAST = st.floats(1.0, 100.0)


@given(EVENTS, FAST, FAST, st.sampled_from([5.0, 30.0, 60.0]), st.floats(0.05, 2.0))
@settings(max_examples=150)
@example([(170.0, 1, 0.4), (-170.0, 1, 0.4), (math.nan, 1, 0.0)] * 10, 10.0, 100.0, 30.0, 0.5)
def test_whatever_happens_the_trajectory_keeps_its_limits(events, acceleration, speed, rate, timeout):
    driver, head, clock = paper_driver(rate=rate, limits=AccelerationLimit(acceleration, rate=speed), timeout=timeout)
    pans = [0.0, 0.0]
    for action, times, pause in events:
        for _ in range(times):
            driver.send(action if action is None else [action])
        due = driver.due
        driver.tick(clock())
        if driver.due != due:  # a step was taken
            pans.append(driver.pose.pan)
        clock.now += pause
    n = len(head.notes)
    driver.close()
    pans += [pose.pan for _, pose, _ in head.notes[n:] if pose]
    pans += [driver.pose.pan] * 2
    assert np.abs(np.diff(pans)).max() <= speed / rate * (1 + 1e-9) + 1e-9
    assert np.abs(np.diff(pans, n=2)).max() <= acceleration / rate**2 * (1 + 1e-9) + 1e-9
    assert head.kinds[-1] == "stop"
    assert np.abs(pans).max() <= max([0.0] + [abs(a) for a, _, _ in events if a is not None and abs(a) < 1e6]) + 1e-9


@given(st.lists(st.floats(-170.0, 170.0), min_size=1, max_size=40), FAST, FAST, st.floats(0.05, 2.0))
def test_after_the_timeout_the_speed_falls_to_zero_and_never_rises(wishes, acceleration, speed, timeout):
    driver, head, clock = paper_driver(limits=AccelerationLimit(acceleration, rate=speed), timeout=timeout)
    for wish in wishes:
        run(driver, clock, 0.05, [wish])
    run(driver, clock, timeout + 0.1)
    assume(driver.phase is Phase.BRAKING)
    before = abs(driver.speed.pan)
    n = len(head.notes)
    run(driver, clock, speed / acceleration + 0.2)
    speeds = [before, *[abs(s.pan) for _, _, s in head.notes[n:] if s]]
    assert (np.diff(speeds) <= 1e-9).all()
    assert driver.phase is Phase.RESTING
    assert driver.speed == (0.0, 0.0, 0.0)
    assert head.kinds[-1] == "stop"
    driver.close()


# Over the loopback, in real time


def udp_driver(server: Server, mode="velocity", **settings) -> Driver:
    head = ViscaHead("127.0.0.1", server.port, mode=mode)
    settings = {"rate": 40.0, "limits": AccelerationLimit(80.0, rate=40.0), "timeout": 0.3, **settings}
    return Driver(head, **settings)


def test_over_udp_a_camera_arrives_and_stays_as_long_as_actions_come():
    with Server(seed=2, drop=0.1, duplicate=0.1, delay=0.01) as server:
        driver = udp_driver(server, mode="absolute", timeout=5.0)
        with driver.head, driver:

            def there():
                driver.send([12.0])
                return abs(server.camera.pan - 12.0) < 0.1

            assert until(there)
        assert until(lambda: not server.camera.moving)
        assert server.camera.pan == pytest.approx(12.0, abs=0.5)


def test_over_udp_a_sine_is_followed_by_velocity():
    with Server() as server:
        driver = udp_driver(server)
        errors = []
        with driver.head, driver:
            begin = time.monotonic()
            while (t := time.monotonic() - begin) < 3.0:
                driver.send([10.0 * math.sin(t * 2 * math.pi / 3)])
                errors.append(driver.pose.pan - server.camera.pan)
                time.sleep(0.02)
        assert np.sqrt(np.mean(np.square(errors))) < 3.0  # a slow machine is slow here too
        assert until(lambda: not server.camera.moving)


def test_over_udp_the_dead_man_stop_is_seen_by_the_camera():
    with Server() as server:
        driver = udp_driver(server)
        with driver.head, driver:

            def fast():
                driver.send([100.0])
                return server.camera.axes[0].speed > 20.0

            assert until(fast)
            assert until(lambda: driver.phase is Phase.RESTING)  # nothing is sent any more
            assert "no action came" in driver.reason
            assert until(lambda: not server.camera.moving)
            drives = [payload for _, _, payload in server.camera.commands if payload[1:4] == b"\x01\x06\x01"]
            assert drives[-1] == visca.PAN_TILT_STOP
            steps = [payload[4] for payload in drives]
            top = len(steps) - 1 - steps[::-1].index(max(steps))
            assert len(set(steps[top:])) > 4  # by many steps, not at once
            assert server.camera.pan < 100.0


def test_over_udp_an_error_in_the_loop_stops_the_camera():
    def loop(driver, camera):
        with driver.head, driver:
            while not camera.axes[0].speed > 10.0:
                driver.send([100.0])
                time.sleep(0.01)
            raise KeyboardInterrupt

    with Server() as server:
        with pytest.raises(KeyboardInterrupt):
            loop(udp_driver(server), server.camera)
        assert until(lambda: not server.camera.moving)


def test_over_udp_the_camera_is_stopped_when_the_interpreter_exits():
    with Server() as server:
        code = (
            "import time; from simile.camera.heads import *; from simile.online import AccelerationLimit\n"
            f"head, limits = ViscaHead('127.0.0.1', {server.port}), AccelerationLimit(80.0, rate=40.0)\n"
            "driver = Driver(head, rate=40.0, limits=limits, timeout=60.0)\n"
            "driver.start(); driver.send([160.0]); time.sleep(0.7)\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
        assert server.camera.pan > 1.0
        assert until(lambda: not server.camera.moving)
        assert any(payload == visca.PAN_TILT_STOP for _, _, payload in server.camera.commands)


def test_where_nobody_listens_the_control_loop_does_not_wait():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    head = ViscaHead("127.0.0.1", port, retry=0.02)
    driver = Driver(head, rate=100.0, limits=AccelerationLimit(80.0, rate=40.0), start=HOME)
    with head, driver:
        longest = 0.0
        for _ in range(30):
            begin = time.monotonic()
            driver.send([10.0])
            longest = max(longest, time.monotonic() - begin)
            time.sleep(0.01)
        assert longest < 0.5  # a wait for replies would take as long as the time-outs
        assert until(lambda: any("no good reply" in str(fault) for fault in driver.faults))
    with pytest.raises(ArgumentError, match="host, port"):
        ViscaHead("127.0.0.1", 70000)
