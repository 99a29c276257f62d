"""A head that speaks ONVIF: requests wait for answers, in a thread of their own; whoever drives does not."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from simile._common import checks
from simile._common.needs import need
from simile.camera.heads.head import HeadError, Pose
from simile.camera.heads.links import LONGEST_PAUSE, SHORTEST_PAUSE, Closing
from simile.camera.heads.onvif_spaces import OnvifSpaces, OnvifUnits
from simile.camera.heads.steering import AT_REST, HEADROOM, NOWHERE, Reckoning, steer, unfinished
from simile.errors import ArgumentError

PORT = 80
REFRESH = 0.4  # of the time after which a camera stops by itself, when an unchanged command is sent again
SLOWEST = 1.0  # degrees per second: what would be slower is a position to go to
KEPT_FAULTS = 100


@dataclass(frozen=True)
class _Wish:
    """What the camera should do next; only the latest counts."""

    number: int
    operation: str
    arguments: dict[str, Any]
    when: float


class OnvifHead(Closing):
    """A pan-tilt-zoom head that speaks ONVIF (`pip install 'smooth-imitation[onvif]'`).

    A thread connects, sends the latest command and asks where the head is; a command that a newer one has overtaken is
    not sent. Continuous moves end by themselves, in the camera, when no news come. What goes wrong is told by `poll`,
    and tried again after pauses that grow; a stop is repeated until it is confirmed.

    Parameters
    ----------
    host, port
        Of the camera's device service.
    user, password : str
        Of an ONVIF user; many cameras have users of their own for it.
    units : OnvifUnits
        What the camera does not say by itself.
    mode : {"velocity", "absolute"}
        How `move` follows a trajectory; see `ViscaHead`.
    gain, correction
        Of the controller in velocity mode; see `ViscaHead`.
    inquire : float
        Seconds between two inquiries of the position.
    timeout : float
        Seconds after which a request is given up.
    clock : callable
        Seconds; for tests.
    """

    def __init__(
        self,
        host: str,
        port: int = PORT,
        *,
        user: str = "",
        password: str = "",
        units: OnvifUnits = OnvifUnits(),  # noqa: B008 - frozen
        mode: Literal["velocity", "absolute"] = "velocity",
        gain: float = 2.0,
        correction: tuple[float, float, float] = (5.0, 5.0, 0.5),
        inquire: float = 0.1,
        timeout: float = 3.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if mode not in ("velocity", "absolute"):
            raise ArgumentError(f"mode must be 'velocity' or 'absolute'; got {mode!r}")
        self.name, self.units, self.mode = f"onvif://{host}:{port}", units, mode
        self.gain = checks.number(gain, "gain", at_least=0.0)
        self.correction = Pose(*(checks.number(most, "correction", at_least=0.0) for most in correction))
        self.inquire = checks.number(inquire, "inquire", above=0.0)
        self.timeout = checks.number(timeout, "timeout", above=0.0)
        self.spaces: OnvifSpaces | None = None  # None until the camera has told them
        self._client = _load()
        self._clock, self._where = clock, (host, port, user, password)
        self._faults: deque[HeadError] = deque(maxlen=KEPT_FAULTS)
        self._refusal: HeadError | None = None  # why there is no connection
        self._reckoning, self._reported = Reckoning(NOWHERE, AT_REST, clock()), -math.inf  # and when it was asked for
        self._number, self._confirmed = 0, 0
        self._wish: _Wish | None = None
        self._loop = asyncio.new_event_loop()
        self._wake = asyncio.Event()
        self._lock = threading.Lock()  # of what is reckoned with, in both threads
        self._task = self._loop.create_task(self._work())
        self._thread = threading.Thread(target=self._run, name="simile onvif", daemon=True)
        self._thread.start()

    @property
    def pose(self) -> Pose:
        """Where the head should be now: what it reported last and its speed since then; NaN before a report."""
        return self._reckoning.at(self._clock())

    def absolute(
        self, pan: float, tilt: float, zoom: float, *, pan_speed: float | None = None, tilt_speed: float | None = None
    ) -> None:
        """Go to a position, at a speed in degrees per second; None is as fast as it can."""
        pan, tilt, zoom = (checks.number(v, n) for v, n in ((pan, "pan"), (tilt, "tilt"), (zoom, "zoom")))
        fastest = max((speed for speed in (pan_speed, tilt_speed) if speed is not None), default=math.inf)
        self._offer("AbsoluteMove", {"pose": Pose(pan, tilt, zoom), "speed": fastest}, AT_REST)

    def velocity(self, pan_speed: float, tilt_speed: float, zoom_speed: float = 0.0) -> None:
        """Move on at speeds: degrees, and zoom factors, per second."""
        speeds = ((pan_speed, "pan_speed"), (tilt_speed, "tilt_speed"), (zoom_speed, "zoom_speed"))
        wanted = Pose(*(checks.number(value, name) for value, name in speeds))
        self._offer("ContinuousMove" if any(wanted) else "Stop", {"velocity": wanted}, wanted)

    def stop(self) -> None:
        """Stand still; repeated until the camera has confirmed it."""
        self._offer("Stop", {}, AT_REST, anew=True)

    def move(self, pose: Pose, speed: Pose, *, braking: bool = False) -> None:
        """Follow a trajectory that is now at `pose` and moves at `speed`; `braking` leaves out the correction."""
        here = self.pose
        if self.mode == "absolute":
            behind = self.gain * max(abs(pose.pan - here.pan), abs(pose.tilt - here.tilt))
            fastest = max(HEADROOM * max(abs(speed.pan), abs(speed.tilt)), SLOWEST)
            if behind > fastest:  # in steps, so that the command does not change with every report
                fastest = 2.0 ** math.ceil(math.log2(behind))
            self._offer("AbsoluteMove", {"pose": pose, "speed": fastest}, AT_REST)
            return
        wanted = speed if braking else steer(pose, speed, here, self.gain, self.correction)
        still = max(abs(wanted.pan), abs(wanted.tilt)) < SLOWEST and not speed.zoom
        if still and not braking and any(unfinished(pose, speed, here)):
            self._offer("AbsoluteMove", {"pose": pose, "speed": SLOWEST}, AT_REST)
        else:
            self.velocity(*(AT_REST if still and not braking and not any(speed) else wanted))

    def poll(self) -> Sequence[HeadError]:
        """Return what has gone wrong since the last call."""
        faults = []
        while self._faults:
            faults.append(self._faults.popleft())
        return faults

    def where(self, timeout: float = 10.0) -> Pose:
        """Ask where the head is, and wait for the answer.

        Raises
        ------
        HeadError
            When there is none in time, or the camera lets nobody in.
        """
        begin = self._clock()
        if self._wait(lambda: self._reported >= begin or self._refusal is not None, timeout):
            if self._refusal is None:
                return self.pose
            raise self._refusal
        raise HeadError(
            f"{self.name} did not say where it is within {timeout:g} s: check address, power and network, and that "
            "ONVIF is switched on"
        )

    def settle(self, timeout: float = 2.0) -> None:
        """Wait until the last command is confirmed.

        Raises
        ------
        HeadError
            When it is not in time.
        """
        if not self._wait(lambda: self._wish is None or self._confirmed >= self._wish.number, timeout):
            raise HeadError(f"{self.name} did not confirm the last command within {timeout:g} s")

    def close(self) -> None:
        """End the thread; does not stop the camera."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(5.0)

    def _wait(self, done: Callable[[], bool], timeout: float) -> bool:
        until = time.monotonic() + timeout
        while not done() and time.monotonic() < until:
            time.sleep(0.005)
        return done()

    def _offer(self, operation: str, arguments: dict[str, Any], speed: Pose, *, anew: bool = False) -> None:
        """Let a command take the place of the one before it, unless that is the same and not long ago."""
        now, old = self._clock(), self._wish
        same = old is not None and (old.operation, old.arguments) == (operation, arguments)
        patience = REFRESH * (1.0 if self.spaces is None else self.spaces.timeout.total_seconds())
        if same and old is not None and not anew and now - old.when < patience:
            return
        with self._lock:
            self._reckoning = Reckoning(self._reckoning.at(now), speed, now)
        self._number += 1
        self._wish = _Wish(self._number, operation, arguments, now)
        self._loop.call_soon_threadsafe(self._wake.set)

    # In the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _work(self) -> None:
        """Connect, and then send and ask until the head is closed."""
        host, port, user, password = self._where
        camera = self._client(host, port, user, password, no_cache=True, adjust_time=True)
        try:
            ptz, profile = await self._persist(lambda: self._connect(camera))
            await asyncio.gather(self._send(ptz, profile), self._watch(ptz, profile))
        finally:
            await camera.close()

    async def _persist(self, act: Callable[[], Any]) -> Any:
        """Do something until it succeeds."""
        pause = SHORTEST_PAUSE
        while True:
            try:
                done = await asyncio.wait_for(act(), 3.0 * self.timeout)
            except Exception as error:  # of four libraries
                self._refusal = self._note(error, "connect")
                await asyncio.sleep(pause)
                pause = min(2.0 * pause, LONGEST_PAUSE)
            else:
                self._refusal = None
                return done

    async def _connect(self, camera: Any) -> tuple[Any, str]:
        """Ask for services, profiles and spaces; returns the PTZ service and the profile to use."""
        await camera.update_xaddrs()
        media, ptz = await camera.create_media_service(), await camera.create_ptz_service()
        profiles = [profile for profile in await media.GetProfiles() if profile.PTZConfiguration is not None]
        if not profiles:
            raise HeadError(f"{self.name} has no profile with pan, tilt and zoom: is it a PTZ camera?")
        chosen = profiles[0].PTZConfiguration
        try:
            options = await ptz.GetConfigurationOptions({"ConfigurationToken": chosen.token})
        except Exception:  # some cameras have none; if that was not it, GetNodes fails, too, and is told
            options = None
        spaces = getattr(options, "Spaces", None)
        if spaces is None or not spaces.AbsolutePanTiltPositionSpace:
            nodes = {node.token: node for node in await ptz.GetNodes()}
            spaces = nodes[chosen.NodeToken].SupportedPTZSpaces
        told = {"limits": chosen.PanTiltLimits, "timeouts": getattr(options, "PTZTimeout", None)}
        self.spaces = OnvifSpaces.of(spaces, self.units, self.name, **told)
        return ptz, profiles[0].token

    async def _send(self, ptz: Any, profile: str) -> None:
        """Send the latest wish, whenever there is one."""
        pause = SHORTEST_PAUSE
        while True:
            await self._wake.wait()
            self._wake.clear()
            wish = self._wish
            if wish is None or wish.number <= self._confirmed:
                continue
            try:
                await asyncio.wait_for(getattr(ptz, wish.operation)(self._arguments(wish, profile)), self.timeout)
            except Exception as error:  # of four libraries
                self._note(error, wish.operation)
                await asyncio.sleep(pause)
                pause = min(2.0 * pause, LONGEST_PAUSE)
                if wish.operation == "Stop":
                    self._wake.set()
            else:
                self._confirmed, pause = wish.number, SHORTEST_PAUSE

    def _arguments(self, wish: _Wish, profile: str) -> dict[str, Any]:
        spaces, asked = self.spaces, wish.arguments
        if spaces is None:  # there are wishes only after they were told
            raise HeadError(f"{self.name} has told no spaces")
        if wish.operation == "AbsoluteMove":
            speed = {} if math.isinf(asked["speed"]) else {"Speed": spaces.speed(asked["speed"])}
            return {"ProfileToken": profile, "Position": spaces.position(asked["pose"]), **speed}
        if wish.operation == "ContinuousMove":
            return {"ProfileToken": profile, "Velocity": spaces.velocity(asked["velocity"]), "Timeout": spaces.timeout}
        return {"ProfileToken": profile, "PanTilt": True, "Zoom": spaces.zoom is not None}

    async def _watch(self, ptz: Any, profile: str) -> None:
        """Ask where the head is, again and again."""
        pause = self.inquire
        while True:
            asked = self._clock()
            try:
                status = await asyncio.wait_for(ptz.GetStatus({"ProfileToken": profile}), self.timeout)
                if self.spaces is not None:
                    when = (asked + self._clock()) / 2.0  # it was true half-way between question and answer
                    with self._lock:
                        self._reckoning = Reckoning(self.spaces.pose(status.Position), self._reckoning.speed, when)
                    self._reported = asked
                pause = self.inquire
            except Exception as error:  # of four libraries
                self._note(error, "GetStatus")
                pause = min(2.0 * pause, LONGEST_PAUSE)
            await asyncio.sleep(max(asked + pause - self._clock(), 0.0))

    def _note(self, error: Exception, doing: str) -> HeadError:
        """Keep what has gone wrong, in words."""
        text = str(error) or type(error).__name__
        if isinstance(error, HeadError):
            fault = error
        elif "authori" in text.lower():
            fault = HeadError(
                f"{self.name} refused user {self._where[2]!r} or the password: give those of an ONVIF user, "
                "onvif://USER:PASSWORD@HOST"
            )
        elif isinstance(error, TimeoutError):
            fault = HeadError(f"{self.name}: no answer to {doing} within {self.timeout:g} s: check power and network")
        else:
            fault = HeadError(f"{self.name}: {doing} failed: {text}")
        self._faults.append(fault)
        return fault


def _load() -> Any:
    """Return the client of the library, which must not change the logging of the whole program."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    onvif = need("onvif", "a head that speaks ONVIF")
    root.setLevel(level)
    root.handlers[:] = handlers
    return onvif.ONVIFCamera
