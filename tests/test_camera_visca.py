"""VISCA over IP: bytes, units, and a head that talks to an emulated camera in simulated time."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simile import SimileError
from simile.camera.heads import Driver, FreeD, HeadError, Phase, Pose, ViscaHead, ViscaUnits, visca
from simile.camera.heads.units import nearest_step, speed_of, step_above
from simile.camera.heads.visca_head import steer
from simile.errors import ArgumentError, DataError
from simile.online import AccelerationLimit
from visca_emulator import Camera, SimulatedLink, Time

UNITS = ViscaUnits()


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
    pan, tilt, zoom = steer(Pose(wanted, 0, 1), Pose(speed, 0, 0), [here, math.nan, 1.0], 2.0, most)
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
