"""A person who takes over, by the keys of a terminal, a joystick or the faders of a MIDI controller, and hands back."""

from __future__ import annotations

import os
import select
import struct
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np

from simile._common.needs import need
from simile._common.typing import FloatArray
from simile.camera.heads.links import Closing
from simile.errors import ArgumentError

STEP = np.array([1.0, 1.0, 0.05])  # what one press of a key moves: degrees, degrees, and zoom
FASTEST = np.array([30.0, 20.0, 1.0])  # what a joystick moves in a second, at most
IDLE = 0.15  # of the way of a stick, in which it counts as let go
SOFT = 0.15  # seconds in which most of what a person wants is done
SWEEP = np.array([60.0, 30.0, 2.0])  # what the whole way of a fader turns: degrees, degrees, and zoom
HIGHEST = 127  # that a control of MIDI can be
JUMP = 64  # a control that changes by more at once is a button
HELP = "arrows or h j k l turn the camera, + and - zoom, space hands back to the policy, q quits"
STICK_HELP = "the left stick turns, the right one zooms, button 1 hands back"
FADER_HELP = "the first fader that you move pans, the second tilts, the third zooms; any button hands back"
MIDI = "midi:"  # before the name of a port
TURNS = {"D": 0, "h": 0, "C": 1, "l": 1, "B": 2, "j": 2, "A": 3, "k": 3, "-": 4, "+": 5}  # axis, down or up
EVENT = struct.Struct("<IhBB")  # of a joystick
STICKS = {0: (0, 1.0), 1: (1, -1.0), 4: (2, -1.0)}  # pan, tilt and zoom; a stick pushed forward counts down


class Wish(NamedTuple):
    """What a person has done since the last time: how far to turn and zoom, or to hand back, or to quit."""

    by: FloatArray | None = None
    back: bool = False
    leave: bool = False


class Device(Protocol):
    """What a person has in hand."""

    def read(self) -> Wish:
        """Return what was done since the last call; never waits."""

    def close(self) -> None:
        """Leave it as it was."""


class Keys(Closing):
    """The keys of a terminal, as they are pressed."""

    def __init__(self) -> None:
        if sys.stdin is None or not sys.stdin.isatty() or find_spec("termios") is None:
            raise ArgumentError(
                "take-over: keys come from a terminal of Linux or macOS, and stdin is none: start it in one, or use "
                "--take-over /dev/input/js0"
            )
        import termios
        import tty

        self._fd = sys.stdin.fileno()
        self._before: Any = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)

    def read(self) -> Wish:
        """Return what was pressed since the last call."""
        pressed = b""
        while select.select([self._fd], [], [], 0.0)[0] and (more := os.read(self._fd, 1024)):
            pressed += more
        return parse_keys(pressed.decode("utf-8", "ignore"))

    def close(self) -> None:
        """Give the terminal back as it was."""
        import termios

        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)


def parse_keys(pressed: str) -> Wish:
    r"""Return what keys mean; an arrow is ESC, [ (or O) and a letter.

    >>> parse_keys("ll+").by.tolist(), parse_keys("\x1b[D").by.tolist(), parse_keys(" ").back
    ([2.0, 0.0, 0.05], [-1.0, 0.0, 0.0], True)
    """
    by = np.zeros(3)
    keys = pressed.replace("\x1bO", "\x1b[").replace("\x1b[", "\x1b")
    arrow = moved = False
    for key in keys:
        if key in TURNS and (arrow or not key.isupper()):
            axis, up = divmod(TURNS[key], 2)
            by[axis] += STEP[axis] if up else -STEP[axis]
            moved = True
        arrow = key == "\x1b"
    return Wish(by if moved else None, back=keys.rfind(" ") >= 0, leave="q" in keys)


class Joystick(Closing):
    """A joystick of Linux: the left stick turns, the right one zooms, the first button hands back.

    Events are eight bytes each: milliseconds, a value, what has changed (1 a button, 2 an axis, and 128 for how it was
    at first) and its number.
    """

    def __init__(self, path: str) -> None:
        try:
            self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            raise ArgumentError(
                f"take-over: {path} cannot be opened as a joystick: {error.strerror}: --take-over keys needs none"
            ) from None
        self._sticks, self._left, self._read_at = np.zeros(3), b"", time.perf_counter()

    def read(self) -> Wish:
        """Return how far the sticks have turned the camera since the last call."""
        back = False
        with suppress(BlockingIOError):
            while more := os.read(self._fd, 1024):
                self._left += more
        whole = len(self._left) // EVENT.size * EVENT.size
        for _, value, kind, number in EVENT.iter_unpack(self._left[:whole]):
            if kind == 2 and number in STICKS:
                axis, sign = STICKS[number]
                self._sticks[axis] = sign * value / 32767.0
            back = back or (kind == 1 and number == 0 and value == 1)
        self._left = self._left[whole:]
        now = time.perf_counter()
        passed, self._read_at = min(now - self._read_at, 0.2), now
        pushed = np.where(np.abs(self._sticks) > IDLE, self._sticks, 0.0)
        return Wish(pushed * FASTEST * passed if pushed.any() else None, back=back)

    def close(self) -> None:
        """Free the joystick."""
        os.close(self._fd)


class Faders(Closing):
    """The faders of a MIDI controller: the first that is moved pans, the second tilts, the third zooms.

    A fader turns the camera by as much as it is moved, wherever it stood before, so that nothing jumps. Faders are
    those controls, and pitch wheels, that change by little at a time. Notes, and controls that jump, are buttons, which
    hand back.

    Parameters
    ----------
    port : mido input port
        Where messages come from, see `open_port`.
    """

    def __init__(self, port: Any) -> None:
        self._port = port
        self._at: dict[tuple[str, int, int], float] = {}  # where each control was last
        self._axes: dict[tuple[str, int, int], int] = {}  # what each fader moves, in the order in which they were

    def read(self) -> Wish:
        """Return how far the faders were moved since the last call."""
        by, back = np.zeros(3), False
        for message in self._port.iter_pending():
            if message.type == "note_on":
                back = back or message.velocity > 0
            elif message.type in ("control_change", "pitchwheel"):
                back = self._move(*_read_control(message), by) or back
        return Wish(by if by.any() else None, back=back)

    def close(self) -> None:
        """Free the port."""
        self._port.close()

    def _move(self, control: tuple[str, int, int], value: float, by: FloatArray) -> bool:
        """Add what a control has moved; tells whether it was a button that was pressed."""
        before, self._at[control] = self._at.get(control), value
        if before is None:
            return value == HIGHEST  # a fader is hardly first heard of at its end, and a button is
        if abs(value - before) > JUMP:
            return value > before
        axis = self._axes.setdefault(control, len(self._axes))
        if axis < len(by):
            by[axis] += (value - before) / HIGHEST * SWEEP[axis]
        return False


def _read_control(message: Any) -> tuple[tuple[str, int, int], float]:
    """Return which control a message of MIDI is about, and where it is, from 0 to 127."""
    if message.type == "pitchwheel":
        return (message.type, message.channel, 0), (message.pitch + 8192) / 16383 * HIGHEST
    return (message.type, message.channel, message.control), float(message.value)


def open_port(name: str) -> Any:
    """Return a MIDI port by its name, or by a part of it; without a name the first."""
    mido = need("mido", f"--take-over {MIDI}PORT", extra="midi")
    try:
        names: list[str] = mido.get_input_names()
        found = [one for one in names if name in (one, "")] or [one for one in names if name in one]
        if not found:
            told = f"there are {', '.join(names)}" if names else "there is none: is the controller plugged in?"
            raise ArgumentError(f"take-over: no MIDI port is called {name or 'anything'!r}: {told}")
        return mido.open_input(found[0])
    except (OSError, ImportError) as error:
        raise ArgumentError(f"take-over: MIDI cannot be used here: {error}: --take-over keys needs none") from None


class Operator:
    """A person beside a policy: acts from the first turn of the device until handing back.

    Parameters
    ----------
    device : Device
        What the person has in hand.
    """

    def __init__(self, device: Device) -> None:
        self.device, self.leaves = device, False
        self._wanted: FloatArray | None = None
        self._at = 0.0

    def act(self, last: FloatArray, t: float) -> FloatArray | None:
        """Return the action (k,) of the person at time t, going on from the last one; None where the policy acts."""
        wish = self.device.read()
        self.leaves = self.leaves or wish.leave
        if wish.back:
            self._wanted = None
            return None
        if wish.by is not None:
            wanted = (last if self._wanted is None else self._wanted) + wish.by[: len(last)]
            self._wanted = np.concatenate([wanted[:2], np.maximum(wanted[2:], 1.0)])
        passed, self._at = max(t - self._at, 0.0), t
        if self._wanted is None:
            return None
        return np.asarray(last + (self._wanted - last) * (1.0 - np.exp(-passed / SOFT)))


def open_device(given: str) -> Device:
    """Return the keys of this terminal, the faders at a MIDI port, or the joystick at a path."""
    if given.startswith(MIDI):
        return Faders(open_port(given.removeprefix(MIDI)))
    return Keys() if given == "keys" else Joystick(given)


def help_with(given: str) -> str:
    """Say how to use a device."""
    return FADER_HELP if given.startswith(MIDI) else HELP if given == "keys" else STICK_HELP
