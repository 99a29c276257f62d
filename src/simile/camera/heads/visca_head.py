"""A head that speaks VISCA over IP: what was asked for last is what counts, and nothing waits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from simile._common import checks
from simile.camera.heads import visca
from simile.camera.heads.framing import Envelope, Framing
from simile.camera.heads.head import HeadError, Pose
from simile.camera.heads.links import Closing, Link, UdpLink
from simile.camera.heads.steering import AT_REST, HEADROOM, NOWHERE, Reckoning, steer, unfinished
from simile.camera.heads.units import ViscaUnits, step_above
from simile.errors import ArgumentError, DataError

REFRESH = 1.0  # seconds after which an unchanged command is sent again, for a camera that was switched off and on
SLACK = 2.0  # degrees that a head may be outside its range
KEPT_NUMBERS = 256  # how far back a reply may belong to something
MOST_DATAGRAMS = 64  # read by one poll: a flood must not hold up the control loop
INQUIRIES = {"pan-tilt position": visca.PAN_TILT_INQUIRY, "zoom position": visca.ZOOM_INQUIRY}


@dataclass
class _Pending:
    """A command or an inquiry under way: only the latest of its slot."""

    kind: bytes
    payload: bytes
    stubborn: bool  # to be repeated until it is confirmed
    first: float  # since when this slot has had no answer
    told: bool  # whether that was reported
    sent: float = -math.inf
    tries: int = 0
    acked: bool = False
    numbers: set[int] = field(default_factory=set)  # a reply to any of its transmissions counts
    before: set[int] = field(default_factory=set)  # of those whose place it took, without a reply so far


class ViscaHead(Closing):
    """A pan-tilt-zoom head that speaks VISCA over IP.

    Commands are sent and not waited for. Of each kind (pan-tilt, zoom) only the latest counts: a newer command takes
    the place of one that was not confirmed yet, replies to the older one are ignored, and so are replies that come
    twice. A command without a reply is sent again, with a new number, because a camera that saw the old one would
    refuse it, and doing it twice does no harm. After `tries` it is given up, because a move must not come late; a stop
    is repeated until it is confirmed.

    Not thread-safe: after `Driver` has been given a head, leave it alone, except for `pose`.

    Parameters
    ----------
    host, port
        Of the camera.
    units : ViscaUnits
        How the camera counts: see there, and check the signs before the first move.
    mode : {"velocity", "absolute"}
        How `move` follows a trajectory. By velocity the camera moves smoothly between its speed steps, steered by a
        proportional controller on the position it reports; but it moves on when the network fails. By absolute
        positions it stops by itself, but starts and brakes at every position.
    gain : float
        Of the proportional controller: degrees per second for each degree of error.
    correction : (pan, tilt, zoom)
        The most that the controller adds to the speed of the trajectory, per second.
    retry : float
        Seconds without a reply after which a command is sent again; cameras reply within two pictures.
    tries : int
        How often a command is sent at most. After `retry` times `tries` seconds without a reply, `poll` reports it.
    inquire : float
        Seconds between two inquiries of the position while moving by velocity.
    clock : callable
        Seconds; for tests.
    local_port : int, optional
        The port of this computer to which the camera answers: 52381 for cameras that answer there, whoever asks.
    framing : Framing, optional
        `Envelope()`, Sony's header, by default; `Raw(patience)` for cameras without it.
    link : Link, optional
        In place of a UDP socket to `host` and `port`: a `TcpLink`, a tunnel, or a test.
    name : str, optional
        What errors call the head; `host:port` by default.
    """

    def __init__(
        self,
        host: str,
        port: int = visca.PORT,
        *,
        units: ViscaUnits = ViscaUnits(),  # noqa: B008 - frozen
        mode: Literal["velocity", "absolute"] = "velocity",
        gain: float = 2.0,
        correction: tuple[float, float, float] = (5.0, 5.0, 0.5),
        retry: float = 0.1,
        tries: int = 5,
        inquire: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
        local_port: int | None = None,
        framing: Framing | None = None,
        link: Link | None = None,
        name: str | None = None,
    ) -> None:
        if mode not in ("velocity", "absolute"):
            raise ArgumentError(f"mode must be 'velocity' or 'absolute'; got {mode!r}")
        if len(correction) != 3:
            raise ArgumentError(f"correction must be three numbers: pan, tilt and zoom; got {correction!r}")
        self.units, self.mode = units, mode
        self.gain = checks.number(gain, "gain", at_least=0.0)
        self.correction = Pose(*(checks.number(most, "correction", at_least=0.0) for most in correction))
        self.retry = checks.number(retry, "retry", above=0.0)
        self.tries = checks.whole_number(tries, "tries", at_least=1)
        self.inquire = checks.number(inquire, "inquire", above=0.0)
        self.name = f"{host}:{port}" if name is None else name
        self._clock = clock
        self._framing = Envelope() if framing is None else framing
        self._link = UdpLink(host, port, local_port=local_port) if link is None else link
        self._number = 0  # of the latest message
        self._pending: dict[str, _Pending] = {}
        self._latest: dict[str, tuple[bytes, float]] = {}  # what was asked for last, and when
        self._faults: list[HeadError] = []
        self._version: tuple[int, int] | None = None
        self._reckoning = Reckoning(NOWHERE, AT_REST, clock())
        if self._framing.counts:
            self._put("reset", visca.CONTROL, visca.RESET)

    def absolute(
        self, pan: float, tilt: float, zoom: float, *, pan_speed: float | None = None, tilt_speed: float | None = None
    ) -> None:
        """Go to a position, at a speed in degrees per second, rounded up to a step; None is as fast as it can."""
        pan, tilt, zoom = (checks.number(v, n) for v, n in ((pan, "pan"), (tilt, "tilt"), (zoom, "zoom")))
        place, units = self.units.position(pan, tilt, zoom), self.units
        steps = (
            step_above(math.inf if speed is None else speed, table)
            for speed, table in ((pan_speed, units.pan_speeds), (tilt_speed, units.tilt_speeds))
        )
        self._reckon(AT_REST)
        self._offer("pan-tilt", visca.pan_tilt_absolute(*place[:2], *steps))
        self._offer("zoom", visca.zoom_direct(place[2]))

    def velocity(self, pan_speed: float, tilt_speed: float, zoom_speed: float = 0.0) -> None:
        """Move on at the speed steps nearest to these speeds: degrees, and zoom factors, per second."""
        speeds = ((pan_speed, "pan_speed"), (tilt_speed, "tilt_speed"), (zoom_speed, "zoom_speed"))
        self._drive(Pose(*(checks.number(value, name) for value, name in speeds)))

    def stop(self) -> None:
        """Stand still; repeated until the camera has confirmed it."""
        self._reckon(AT_REST)
        self._put("pan-tilt", visca.COMMAND, visca.PAN_TILT_STOP, stubborn=True)
        self._put("zoom", visca.COMMAND, visca.ZOOM_STOP, stubborn=True)

    def move(self, pose: Pose, speed: Pose, *, braking: bool = False) -> None:
        """Follow a trajectory that is now at `pose` and moves at `speed`; `braking` leaves out the correction."""
        if self.mode == "absolute":
            pan_speed, tilt_speed = (HEADROOM * abs(s) for s in speed[:2])
            self.absolute(*pose, pan_speed=pan_speed, tilt_speed=tilt_speed)
            return
        self._inquire()
        here = self.pose
        wanted = speed if braking else steer(pose, speed, here, self.gain, self.correction)
        # What is slower than the slowest step would never arrive: the last bit is a position to go to.
        self._drive(wanted, pose, (False, False) if braking else unfinished(pose, speed, here))

    def poll(self) -> Sequence[HeadError]:
        """Read the replies that have come and repeat what got none; returns what has gone wrong since the last call."""
        for _ in range(MOST_DATAGRAMS):
            try:
                if (datagram := self._link.receive()) is None:
                    break
                for message in self._framing.unwrap(datagram):
                    self._handle(message)
            except DataError as error:
                self._faults.append(HeadError(f"{self.name} sent what cannot be read: {error}"))
            except OSError as error:
                self._faults.append(HeadError(f"the connection to {error}"))
                break
        self._repeat()
        faults, self._faults = self._faults, []
        return faults

    @property
    def pose(self) -> Pose:
        """Where the head should be now: what it reported last and its speed since then; NaN before a report."""
        return self._reckoning.at(self._clock())

    def where(self, timeout: float = 1.0) -> Pose:
        """Ask where the head is, and wait for the answer.

        Raises
        ------
        HeadError
            When there is none in time.
        """
        self._reckoning = Reckoning(NOWHERE, self._reckoning.speed, self._clock())
        for slot, inquiry in INQUIRIES.items():
            self._put(slot, visca.INQUIRY, inquiry, stubborn=True)
        if not self._await(lambda: not any(map(math.isnan, self.pose)), timeout):
            for slot in INQUIRIES:
                self._pending.pop(slot, None)
            last = f" ({self._faults[-1]})" if self._faults else ""
            raise HeadError(
                f"{self.name} did not say where it is within {timeout:g} s{last}: check address, power and network, "
                "and that VISCA over IP is switched on; or say where it is with start=(pan, tilt, zoom), --start"
            )
        self._check_place()
        return self.pose

    def version(self, timeout: float = 0.5) -> tuple[int, int] | None:
        """Ask what the camera is, and wait for the answer: vendor and model; None where it does not say."""
        self._version = None
        self._put("version", visca.INQUIRY, visca.VERSION_INQUIRY)
        self._await(lambda: "version" not in self._pending, timeout)
        self._pending.pop("version", None)
        self._faults = [fault for fault in self._faults if "version" not in str(fault)]  # not every camera says it
        return self._version

    def settle(self, timeout: float = 1.0) -> None:
        """Wait until all commands are confirmed.

        Raises
        ------
        HeadError
            When one is not in time.
        """
        if not self._await(lambda: all(pending.acked for pending in self._pending.values()), timeout):
            open_ = [slot for slot, pending in self._pending.items() if not pending.acked]
            raise HeadError(f"{self.name} did not confirm {' and '.join(open_)} within {timeout:g} s")

    def close(self) -> None:
        """Free the socket; does not stop the camera."""
        self._link.close()

    def _check_place(self) -> None:
        """Refuse a place that there is not: the units are wrong, and the next move would be, too."""
        for axis, at in zip(("pan", "tilt"), self.pose, strict=False):
            low, high = getattr(self.units, f"{axis}_range")
            if not low - SLACK <= at <= high + SLACK:
                raise HeadError(
                    f"{self.name} says that its {axis} is {at:.1f} degrees, outside {low:g} to {high:g}: with "
                    f"{getattr(self.units, axis):g} units per degree that cannot be. Give the camera's --model, "
                    f"--head-units {axis}=... or --{axis}-range LOW:HIGH (a camera that hangs tilts from -90 to 20)"
                )

    def _await(self, done: Callable[[], bool], timeout: float) -> bool:
        until = self._clock() + timeout
        faults: list[HeadError] = []
        while True:
            faults += self.poll()
            left = until - self._clock()
            if (over := done()) or left <= 0.0:
                self._faults = faults  # for the next poll to return
                return over
            self._link.wait(min(left, self.retry / 2.0))

    def _drive(self, speed: Pose, end: Pose = AT_REST, creep: tuple[bool, bool] = (False, False)) -> None:
        """Move on at the nearest steps; pan and tilt, or the zoom, that would stand still may `creep` to an end."""
        at = self.pose.zoom if math.isfinite(self.pose.zoom) else 1.0
        steps = self.units.pan_step(speed.pan), self.units.tilt_step(speed.tilt), self.units.zoom_step(speed.zoom, at)
        turn, zoom = visca.pan_tilt_drive(*steps[:2]), visca.zoom_drive(steps[2])
        place = self.units.position(*end)
        if creep[0] and not any(steps[:2]):
            turn = visca.pan_tilt_absolute(*place[:2], 1, 1)
        if creep[1] and not steps[2]:
            zoom = visca.zoom_direct(place[2])
        self._reckon(Pose(*self.units.speeds(*steps, at)))
        self._offer("pan-tilt", turn)
        self._offer("zoom", zoom)

    def _offer(self, slot: str, payload: bytes) -> None:
        """Send a command unless it is the one that was sent last, not long ago."""
        latest, when = self._latest.get(slot, (b"", -math.inf))
        if payload != latest or self._clock() - when >= REFRESH:
            self._put(slot, visca.COMMAND, payload)

    def _inquire(self) -> None:
        """Ask for the position, unless an answer is awaited or came not long ago."""
        for slot, inquiry in INQUIRIES.items():
            _, when = self._latest.get(slot, (b"", -math.inf))
            if slot not in self._pending and self._clock() - when >= self.inquire:
                self._put(slot, visca.INQUIRY, inquiry)

    def _put(self, slot: str, kind: bytes, payload: bytes, *, stubborn: bool = False) -> None:
        """Let a message take the place of the one before it in its slot, and send it."""
        now, old = self._clock(), self._pending.get(slot)
        waiting = old is not None and not old.acked
        first, told = (old.first, old.told) if old is not None and waiting else (now, False)
        self._pending[slot] = pending = _Pending(kind, payload, stubborn, first, told)
        if old is not None and waiting:
            pending.before = {n for n in old.before | old.numbers if self._number - n < KEPT_NUMBERS}
        self._latest[slot] = payload, now
        self._transmit(pending, now)

    def _transmit(self, pending: _Pending, now: float) -> None:
        self._number = 0 if self._number == visca.LARGEST_NUMBER else self._number + 1
        data = self._framing.wrap(visca.Message(pending.kind, self._number, pending.payload), now)
        if data is None:  # it waits for the next `poll`
            return
        pending.numbers.add(self._number)
        pending.sent, pending.tries = now, pending.tries + 1
        self._link.send(data)

    def _repeat(self) -> None:
        """Send again what got no reply in time, give up what was sent too often, and report who does not answer."""
        now = self._clock()
        # Stops first, and then what has waited longest: where one message at a time goes out, each gets its turn.
        turns = sorted(self._pending.items(), key=lambda item: (not item[1].stubborn, item[1].first))
        for slot, pending in turns:
            if pending.acked:
                continue
            due, over = now - pending.sent >= self.retry, pending.tries >= self.tries and not pending.stubborn
            if not pending.told and ((due and over) or now - pending.first >= self.retry * self.tries):
                pending.told = True
                self._faults.append(
                    HeadError(
                        f"{self.name}: no good reply to {slot} for {now - pending.first:.1f} s: check address, power, "
                        "network, and that nobody else controls the camera"
                    )
                )
            if due and over:
                del self._pending[slot], self._latest[slot]  # whoever still wants it may ask again
            elif due:
                self._transmit(pending, now)

    def _handle(self, message: visca.Message) -> None:
        """Deal with what the camera sent; what belongs to nothing under way is old or came twice."""
        if message.kind == visca.CONTROL_REPLY and message.payload == visca.RESET:
            self._pending.pop("reset", None)
            return
        slot = next((slot for slot, pending in self._pending.items() if message.number in pending.numbers), None)
        if slot is None:
            for pending in self._pending.values():
                if message.number in pending.before and message.kind == visca.REPLY:
                    pending.first, pending.told = self._clock(), False  # late, but the camera answers
            return
        if message.kind in (visca.CONTROL, visca.CONTROL_REPLY):
            self._recount(slot, message)
        elif message.kind == visca.REPLY:
            self._handle_reply(slot, visca.Reply.decode(message.payload))

    def _recount(self, slot: str, message: visca.Message) -> None:
        """Send again what the camera refused for its number: overtaken on the way, or the camera counts differently."""
        pending = self._pending[slot]
        if pending.acked:
            return  # the camera has it, and refused it when it came again
        if message.payload != visca.OUT_OF_STEP:
            del self._pending[slot]
            self._faults.append(HeadError(f"{self.name} does not understand {slot} ({message.payload.hex(' ')})"))
        elif slot != "reset":
            if (message.number == self._number or pending.tries > 1) and "reset" not in self._pending:
                self._put("reset", visca.CONTROL, visca.RESET)
            if pending.tries < self.tries:
                self._transmit(pending, self._clock())

    def _handle_reply(self, slot: str, reply: visca.Reply) -> None:
        pending = self._pending[slot]
        if reply.answer is visca.Answer.ACK:
            pending.acked = True
        elif reply.answer is visca.Answer.COMPLETION:
            del self._pending[slot]
            if slot == "version":
                self._version = visca.version(reply.data)
            elif slot in INQUIRIES:
                self._measure(slot, reply.data, (pending.sent + self._clock()) / 2.0)
        elif reply.data[0] == visca.BUFFER_FULL:
            pending.acked, pending.first = False, self._clock()  # it will be sent again
        else:
            del self._pending[slot]
            if reply.data[0] != visca.CANCELLED:
                self._faults.append(
                    HeadError(f"{self.name} refused {slot} ({pending.payload.hex(' ')}): {reply.error}")
                )

    def _measure(self, slot: str, data: bytes, when: float) -> None:
        """Take over a reported position; it was true half-way between question and answer."""
        pose = self._reckoning.at(when)
        if slot == "pan-tilt position":
            pan, tilt = self.units.degrees(*visca.pan_tilt_position(data))
            pose = pose._replace(pan=pan, tilt=tilt)
        else:
            pose = pose._replace(zoom=self.units.factor(visca.zoom_position(data)))
        self._reckoning = Reckoning(pose, self._reckoning.speed, when)

    def _reckon(self, speed: Pose) -> None:
        """Note that the camera has another speed from now on."""
        now = self._clock()
        self._reckoning = Reckoning(self._reckoning.at(now), speed, now)
