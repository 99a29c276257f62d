"""The driver: limits and the dead-man stop, with a fake clock and over the loopback."""

from __future__ import annotations

import math
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from simile.camera.heads import Driver, Head, HeadError, Phase, Pose, ViscaHead, ViscaUnits, visca
from simile.errors import ArgumentError
from simile.online import AccelerationLimit, Bounds, JerkLimit, RateLimit
from simile.policies import stages
from test_camera_visca import connect
from visca_emulator import Camera, Server, Time, deaf_port

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
        ({"limits": [JerkLimit(3.0), Bounds(0, 1)]}, "end in an AccelerationLimit or a JerkLimit"),
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


@given(EVENTS, FAST, FAST, st.floats(10.0, 1000.0), st.sampled_from([5.0, 30.0, 60.0]), st.floats(0.05, 2.0))
def test_whatever_happens_the_trajectory_keeps_the_limit_of_jerk(events, acceleration, speed, jerk, rate, timeout):
    limits = [Bounds(-170.0, 170.0), JerkLimit(jerk, acceleration, speed)]
    driver, head, clock = paper_driver(rate=rate, limits=limits, timeout=timeout)
    pans = [0.0, 0.0, 0.0]
    for action, times, pause in events:
        for _ in range(times):
            driver.send(action if action is None else [action])
        due = driver.due
        driver.tick(clock())
        if driver.due != due:
            pans.append(driver.pose.pan)
        clock.now += pause
    n = len(head.notes)
    driver.close()
    pans += [pose.pan for _, pose, _ in head.notes[n:] if pose]
    pans += [driver.pose.pan] * 3
    for order, limit in enumerate((speed, acceleration, jerk), start=1):
        assert np.abs(np.diff(pans, n=order)).max() <= limit / rate**order * (1 + 1e-6)
    assert head.kinds[-1] == "stop"
    assert driver.speed == (0.0, 0.0, 0.0)
    assert np.abs(pans).max() <= max([0.0] + [abs(a) for a, _, _ in events if a is not None and abs(a) < 1e6]) + 1e-6


@pytest.mark.parametrize("closing", [True, False])
def test_where_no_way_to_brake_can_be_computed_the_head_is_stopped(closing: bool, monkeypatch):
    driver, head, clock = paper_driver(limits=JerkLimit(200.0, 40.0, 30.0))
    run(driver, clock, 1.0, [100.0])
    nothing = np.full((3, 1), np.nan), np.full(1, np.inf)
    monkeypatch.setattr(stages, "_plan", lambda *state, braking: nothing)
    if closing:
        driver.close()
    run(driver, clock, 0.1)
    assert driver.phase is (Phase.CLOSED if closing else Phase.RESTING)
    assert head.kinds[-1] == "stop"
    assert all(math.isfinite(pose.pan) for _, pose, _ in head.notes if pose)
    driver.close()


def test_a_stage_that_fails_once_does_not_let_the_head_jump():
    class Hiccup:
        broken = False

        def __call__(self, wanted, last, before, seconds):
            bad, self.broken = self.broken, False
            return wanted * math.nan if bad else wanted

    stage = Hiccup()
    driver, head, clock = paper_driver(limits=[stage, AccelerationLimit(40.0, rate=30.0)])
    run(driver, clock, 1.0, [100.0])
    stage.broken = True
    run(driver, clock, 0.05)
    assert driver.reason == "a stage failed"
    run(driver, clock, 1.0, [100.0])
    pans = np.array([0.0, 0.0, *[pose.pan for _, pose, _ in head.notes if pose]])
    assert np.abs(np.diff(pans, n=2)).max() <= 40.0 / 20**2 + 1e-9
    driver.close()


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
    limits = AccelerationLimit(80.0, rate=40.0)
    with (
        deaf_port() as port,
        ViscaHead("127.0.0.1", port, retry=0.02) as head,
        Driver(head, rate=100.0, limits=limits, start=HOME) as driver,
    ):
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
