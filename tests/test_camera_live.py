"""Live: sources that drop frames rather than be late, a policy at its own pace, hands that take over, and the whole."""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import simile
from commands import command, simile_
from simile import ArgumentError, DataError, StorageError
from simile.camera.calibration import View, save_calibration
from simile.camera.courts import BASKETBALL
from simile.camera.features import Features, demonstrations
from simile.camera.film.framing import compare_framing
from simile.camera.film.panorama import Calibrated
from simile.camera.film.rendering import Rendering
from simile.camera.geometry import Camera, Lens
from simile.camera.heads import Driver, open_head
from simile.camera.heads.emulators import Body, ViscaEmulator
from simile.camera.live.acting import Actor
from simile.camera.live.detectors import Motion
from simile.camera.live.doubts import LOOK_BACK, Doubts
from simile.camera.live.hands import EVENT, Faders, Joystick, Keys, Operator, Wish, help_with, open_device, parse_keys
from simile.camera.live.outputs import Cut, Log, Turned
from simile.camera.live.pipeline import Pipeline, tell_kept
from simile.camera.live.sights import Through
from simile.camera.live.sources import Shot, Source
from simile.camera.simulation import simulate
from simile.online import AccelerationLimit, Predictor, RateLimit
from visca_emulator import Server

av = pytest.importorskip("av", reason="needs the extra live")
pytest.importorskip("cv2", reason="needs the extra live")

SIZE, RATE, FRAMES = (480, 270), 25, 100
CAMERA = Camera((0.0, -28.0, 12.0), lens=Lens(62.0))
VIEW = View(CAMERA, SIZE, (0.0, float(CAMERA.aim([0.0, -1.0])[1]), 1.0))


def write_film(place: str, pictures, *, stamps=None, form: str | None = None, pace: float = 0.0) -> None:
    """Encode pictures to a file, or to a stream with so many seconds between two."""
    with av.open(place, "w", format=form) as sink:
        stream = sink.add_stream(
            "libx264", rate=RATE, options={"preset": "ultrafast", "tune": "zerolatency", "g": "12"}
        )
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        began = time.perf_counter()
        for i, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = int(1000 * i / RATE if stamps is None else stamps[i]), Fraction(1, 1000)
            sink.mux(stream.encode(frame))
            time.sleep(max(began + (i + 1) * pace - time.perf_counter(), 0.0))
        sink.mux(stream.encode())


@pytest.fixture(scope="module")
def games():
    return simulate(3, minutes=0.2, seed=5)


@pytest.fixture(scope="module")
def policy(games):
    return simile.clone(
        demonstrations(games[:2]), model=simile.SmoothForest(n_trees=5), horizon=simile.Horizon((0, 2, 4), 0)
    ).policy


@pytest.fixture(scope="module")
def waiting(games):
    """Waits 15 frames."""
    return simile.clone(
        demonstrations(games[:2]), model=simile.SmoothForest(n_trees=5), horizon=simile.Horizon((0, 2, 4), 0, -15)
    ).policy


@pytest.fixture(scope="module")
def pictures(games):
    drawn = Rendering(BASKETBALL, VIEW)
    return [drawn.picture(players, i) for i, players in enumerate(games[2].players[:FRAMES])]


@pytest.fixture(scope="module")
def film(pictures, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("film") / "game.mp4"
    write_film(str(path), pictures)
    return path


# -------------------------------------------------------------------------------------------------------- sources


def test_a_fast_file_gives_every_frame_with_its_time(film, pictures):
    with Source(film, fast=True) as source:
        assert (source.size, source.rate, source.live) == (SIZE, 25.0, False)
        shots = list(source)
    assert [shot.number for shot in shots] == list(range(FRAMES))
    assert [shot.time for shot in shots] == pytest.approx(np.arange(FRAMES) / RATE)
    assert source.dropped == 0
    assert source.ended
    assert shots[80].image.shape == (270, 480, 3)
    assert np.abs(shots[80].image.astype(int) - pictures[80]).mean() < 8.0
    assert all(shot.decoding > 0.0 for shot in shots)


def test_a_file_comes_at_its_own_pace_and_what_is_not_taken_is_dropped(film):
    with Source(film) as source:
        first = source.take(10.0)
        time.sleep(0.5)
        second = source.take(10.0)
        dropped = source.dropped
    assert second.number > first.number + 4
    assert dropped >= second.number - first.number - 1
    assert second.time == pytest.approx(second.number / RATE)


def test_times_of_a_file_are_its_stamps(tmp_path, pictures):
    stamps = [0, 10, 300, 310]
    write_film(str(tmp_path / "uneven.mkv"), pictures[:4], stamps=stamps)
    with Source(tmp_path / "uneven.mkv", fast=True) as source:
        assert [shot.time for shot in source] == pytest.approx(np.array(stamps) / 1000.0)


def test_a_stream_over_loopback_is_seen_and_told_when_it_is_lost(pictures, unused_ports, monkeypatch):
    told: list[str] = []
    monkeypatch.setattr("simile.camera.live.sources.READING", 0.5)
    url = f"udp://127.0.0.1:{unused_ports[0]}?pkt_size=1316"
    thread = threading.Thread(
        target=write_film, args=(url, pictures[:60]), kwargs={"form": "mpegts", "pace": 1.0 / RATE}
    )
    thread.start()
    with Source(f"udp://127.0.0.1:{unused_ports[0]}", retry=0.3, tell=told.append) as source:
        shots = list(source)
    thread.join()
    assert len(shots) > 20
    assert all(a.time <= b.time for a, b in pairwise(shots))
    assert "was lost (nothing came for 0.5 s): it is tried again in 0.5 s" in told[0]
    assert "--retry is 0.3 s" in told[-1]


@pytest.fixture
def unused_ports() -> list[int]:
    """Two ports of UDP that nobody has."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [int(free.getsockname()[1]) for free in sockets]


def test_a_picture_that_changes_its_size_stays_as_large_as_it_was(tmp_path, pictures):
    """Two streams behind each other, as a camera sends them that adapts to its network."""
    import cv2

    write_film(str(tmp_path / "large.ts"), pictures[:10], form="mpegts")
    with av.open(str(tmp_path / "small.ts"), "w", format="mpegts") as sink:
        stream = sink.add_stream("libx264", rate=RATE, options={"preset": "ultrafast", "tune": "zerolatency"})
        stream.width, stream.height, stream.pix_fmt = 240, 136, "yuv420p"
        for i, picture in enumerate(pictures[10:20]):
            frame = av.VideoFrame.from_ndarray(cv2.resize(picture, (240, 136)), format="rgb24")
            frame.pts, frame.time_base = 400 + 40 * i, Fraction(1, 1000)
            sink.mux(stream.encode(frame))
        sink.mux(stream.encode())
    both = tmp_path / "both.ts"
    both.write_bytes((tmp_path / "large.ts").read_bytes() + (tmp_path / "small.ts").read_bytes())
    with Source(both, fast=True) as source:
        shapes = [shot.image.shape for shot in source]
    assert len(shapes) > 15
    assert set(shapes) == {(270, 480, 3)}


def test_what_is_no_video_is_refused_with_the_way_out(tmp_path, film):
    with pytest.raises(DataError, match=r"nowhere\.mp4 is not there: give a file, a URL such as rtsp"):
        Source(tmp_path / "nowhere.mp4")
    (tmp_path / "text.mp4").write_text("no film")
    with pytest.raises(DataError, match="cannot be read as a video"):
        Source(tmp_path / "text.mp4")
    with pytest.raises(DataError, match=r"rtsp://\*\*\*@127.0.0.1:1/live cannot be read") as told:
        Source("rtsp://me:secret@127.0.0.1:1/live")
    assert "secret" not in str(told.value)
    with pytest.raises(DataError, match="webcam:77 cannot be read"):
        Source("webcam:77")
    with pytest.raises(ArgumentError, match="leave out --fast"):
        Source("udp://127.0.0.1:1", fast=True)
    half = tmp_path / "half.mkv"
    half.write_bytes(film.read_bytes()[: film.stat().st_size // 2])
    with pytest.raises(DataError, match="cannot be read"), Source(half, fast=True) as source:
        list(source)


# --------------------------------------------------------------------------------------------------------- acting


def test_at_the_same_rate_the_actor_is_the_predictor(policy, games):
    features = Features(BASKETBALL)
    actor, predictor, stream = Actor(policy, features, rate=25.0), Predictor(policy), features.stream()
    for i, seen in enumerate(games[2].detections[:60]):
        assert np.array_equal(actor.act(seen, i / 25.0), predictor.step(stream.step(seen)))
    assert actor.context.shape == (len(features.names),)


@pytest.mark.parametrize("rate", [10.0, 60.0, 23.976])
def test_at_another_rate_it_acts_at_its_own_and_moves_as_smoothly(policy, games, rate):
    game, features = games[2], Features(BASKETBALL)
    usual = Actor(policy, features, rate=25.0)
    acted = np.array([usual.act(seen, i / 25.0) for i, seen in enumerate(game.detections)])[:, 0]
    other = Actor(policy, features, rate=rate)
    times = np.arange(0.0, (len(game) - 2) / 25.0, 1.0 / rate)
    filmed = np.array([other.act(game.detections[int(t * 25.0 + 1e-6)], t)[0] for t in times])
    there = np.interp(times, np.arange(len(game)) / 25.0, acted)
    assert np.sqrt(np.mean((filmed - there) ** 2)) < 2.0
    if rate == 60.0:  # no step is repeated and then made up for
        assert np.abs(np.diff(filmed, 2)).max() < 2.0 * np.abs(np.diff(acted, 2)).max()


def test_dropped_frames_are_made_up_for(policy, games):
    game, features = games[2], Features(BASKETBALL)
    actor, stepped = Actor(policy, features, rate=25.0), []
    actor.predictor.step = lambda x, take=actor.predictor.step: stepped.append(1) or take(x)
    for i in (0, 1, 4, 5):
        actor.act(game.detections[i], i / 25.0)
    assert len(stepped) == 6
    actor.act(game.detections[100], 100 / 25.0)  # a pause, after which nothing is made up for
    assert len(stepped) == 7


def play(actor: Actor, detections, times) -> tuple[list[np.ndarray], list[int]]:
    """Return the actions of all frames, and how many there were after each."""
    acted, known = [], []
    for seen, t in zip(detections, times, strict=True):
        acted += actor.answer(seen, t)
        known.append(len(acted))
    return [*acted, *actor.finish()], known


def test_a_policy_that_waits_answers_for_the_frames_before_to_the_last(waiting, games):
    features, seen = Features(BASKETBALL), games[2].detections[:60]
    (rolled,) = simile.rollout(waiting, [features.batch(seen)], start=simile.ColdStart())
    actor = Actor(waiting, features, rate=25.0)
    assert (actor.wait, actor.delay) == (15, 0.6)
    for _ in range(2):  # it is as new afterwards
        acted, known = play(actor, seen, np.arange(60) / 25.0)
        assert np.array_equal(acted, rolled)
        assert known == [max(0, i - 14) for i in range(60)]
    acted, known = play(actor, seen[:7], np.arange(7) / 25.0)  # which ends before it has waited
    assert np.array_equal(acted, simile.rollout(waiting, [features.batch(seen[:7])], start=simile.ColdStart())[0])
    assert known == [0] * 7


@pytest.mark.parametrize("rate", [10.0, 25.0, 60.0])
def test_at_any_rate_frames_get_what_the_waiting_policy_did_at_their_times(waiting, games, rate):
    """Some frames are dropped; what is right is a roll-out over all that the policy was shown."""
    rng, features, shown = np.random.default_rng(0), Features(BASKETBALL), []
    actor = Actor(waiting, features, rate=rate)
    actor.predictor.step = lambda x, take=actor.predictor.step: shown.append(x) or take(x)
    frames = np.flatnonzero(np.r_[True, rng.random(int(8 * rate)) < 0.9])
    times = frames / rate
    seen = games[2].detections[(times * 25.0 + 1e-6).astype(int)]
    acted, known = play(actor, seen, times)
    (rolled,) = simile.rollout(waiting, [np.array(shown)], start=simile.ColdStart())
    ticks = np.arange(len(shown)) / 25.0
    np.testing.assert_allclose(np.array(acted)[:, 0], np.interp(times, ticks, rolled[:, 0]), atol=0.05)
    behind = times - times[np.maximum(np.array(known) - 1, 0)]  # since the latest frame with an action
    assert 0.5 < np.median(behind[times > 1.0]) < 0.75


# ---------------------------------------------------------------------------------------------------------- hands


class Told:
    """A detector that is told where people are, frame by frame."""

    def __init__(self, players) -> None:
        self.frames = iter(players)

    def detect(self, image):
        feet = next(self.frames)
        return np.column_stack([feet - [0.5, 1.0], np.ones((len(feet), 2))])


class Flat:
    """A calibration of pictures whose pixels are metres."""

    def to_court(self, pixels, frame):
        return pixels


class Script:
    """A device that does what is written."""

    def __init__(self, *wishes: Wish) -> None:
        self.wishes = list(wishes)

    def read(self) -> Wish:
        return self.wishes.pop(0) if self.wishes else Wish()

    def close(self) -> None:
        pass


def turn(*by: float) -> Wish:
    return Wish(np.array([*by, *[0.0] * (3 - len(by))]))


def test_keys_turn_zoom_hand_back_and_quit():
    assert parse_keys("h\x1b[C\x1bOClk").by.tolist() == [2.0, 1.0, 0.0]
    assert parse_keys("CDAB xyz").by is None
    assert parse_keys("--").by.tolist() == [0.0, 0.0, -0.1]
    assert parse_keys("q").leave
    assert parse_keys("") == Wish()


def test_keys_are_read_from_a_terminal_that_is_left_as_it_was(monkeypatch):
    import pty
    import termios

    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        before = termios.tcgetattr(theirs)
        with Keys() as keys:
            assert keys.read() == Wish()
            os.write(ours, b"\x1b[A\x1b[A")
            deadline = time.monotonic() + 5.0
            while (wish := keys.read()).by is None and time.monotonic() < deadline:
                time.sleep(0.01)
            assert wish.by[1] > 0.0
        assert termios.tcgetattr(theirs) == before
    os.close(ours)


def test_without_a_terminal_keys_are_refused(monkeypatch, tmp_path):
    with (tmp_path / "none").open("w+") as file:
        monkeypatch.setattr("sys.stdin", file)
        with pytest.raises(ArgumentError, match="keys come from a terminal"):
            open_device("keys")
    with pytest.raises(ArgumentError, match="js9 cannot be opened as a joystick"):
        open_device("/dev/input/js9")


def test_a_joystick_turns_as_long_as_it_is_pushed_and_its_button_hands_back(tmp_path):
    path = tmp_path / "js0"
    os.mkfifo(path)
    with Joystick(str(path)) as stick:
        events = os.open(path, os.O_WRONLY)
        assert stick.read() == Wish()
        os.write(events, EVENT.pack(0, 0, 0x82, 0) + EVENT.pack(5, 32767, 2, 0) + EVENT.pack(5, 16384, 2, 1)[:3])
        time.sleep(0.02)
        pan, tilt, zoom = stick.read().by
        assert 0.0 < pan <= 30.0 * 0.2
        assert tilt == zoom == 0.0
        os.write(events, EVENT.pack(5, 16384, 2, 1)[3:])
        assert stick.read().by[1] < 0.0  # pulled back: down
        os.write(events, EVENT.pack(9, 0, 2, 0) + EVENT.pack(9, 1000, 2, 1) + EVENT.pack(9, 1, 1, 0))
        assert stick.read() == Wish(None, back=True)
        os.close(events)
    assert struct.calcsize("<IhBB") == 8


class Played:
    """A MIDI port, of which the bytes are written by a test."""

    def __init__(self):
        self.parser, self.closed = pytest.importorskip("mido", reason="needs the extra 'midi'").Parser(), False

    def iter_pending(self):
        return iter(self.parser)

    def close(self):
        self.closed = True


def test_faders_turn_by_as_much_as_they_are_moved_and_buttons_hand_back():
    port = Played()
    with Faders(port) as faders:
        assert faders.read() == Wish()
        port.parser.feed(bytes([0xB0, 7, 100, 0xB0, 7, 110, 0xB0, 7]))
        np.testing.assert_allclose(faders.read().by, [10 / 127 * 60.0, 0.0, 0.0])
        port.parser.feed(bytes([105]))  # the rest of a message that came in two parts
        np.testing.assert_allclose(faders.read().by, [-5 / 127 * 60.0, 0.0, 0.0])
        port.parser.feed(bytes([0xE2, 0, 64, 0xE2, 0, 80]))  # a pitch wheel is a fader, too: the second is tilt
        np.testing.assert_allclose(faders.read().by, [0.0, 16 * 128 / 16383 * 30.0, 0.0])
        port.parser.feed(bytes([0xB1, 7, 10, 0xB1, 7, 11, 0xB1, 8, 10, 0xB1, 8, 11]))  # the third, and one too many
        np.testing.assert_allclose(faders.read().by, [0.0, 0.0, 2.0 / 127])
        assert faders.read() == Wish()
        for pressed in ([0x90, 60, 100], [0xB0, 41, 127], [0xB0, 41, 0, 0xB0, 41, 127]):
            port.parser.feed(bytes(pressed))
            assert faders.read() == Wish(None, back=True)
        port.parser.feed(bytes([0xB0, 41, 0, 0x80, 60, 0, 0x90, 60, 0, 0xF8]))  # let go of, and a clock
        assert faders.read() == Wish()
    assert port.closed


def test_faders_are_found_by_a_part_of_their_name_or_told_what_there_is(monkeypatch):
    mido = pytest.importorskip("mido", reason="needs the extra 'midi'")
    opened = []
    monkeypatch.setattr(mido, "get_input_names", lambda: ["Through 0", "nanoKONTROL2 1"])
    monkeypatch.setattr(mido, "open_input", lambda name: opened.append(name) or Played())
    for given in ("midi:", "midi:nano", "midi:nanoKONTROL2 1"):
        open_device(given).close()
    assert opened == ["Through 0", "nanoKONTROL2 1", "nanoKONTROL2 1"]
    with pytest.raises(ArgumentError, match="no MIDI port is called 'X-Touch': there are Through 0, nanoKONTROL2 1"):
        open_device("midi:X-Touch")
    monkeypatch.setattr(mido, "get_input_names", list)
    with pytest.raises(ArgumentError, match="no MIDI port is called 'anything': there is none: is the controller"):
        open_device("midi:")
    monkeypatch.setattr(mido, "get_input_names", lambda: (_ for _ in ()).throw(OSError("no sequencer")))
    with pytest.raises(ArgumentError, match="MIDI cannot be used here: no sequencer"):
        open_device("midi:")
    told = [help_with(given)[:8] for given in ("keys", "midi:", "/dev/input/js0")]
    assert told == ["arrows o", "the firs", "the left"]


def test_without_mido_it_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mido", None)
    with pytest.raises(ArgumentError, match=r"smooth-imitation\[midi\]"):
        open_device("midi:")


def test_taking_over_and_handing_back_are_without_a_jump(policy, games):
    """The operator turns right for a while; neither end of it moves the camera more than it moves anyway."""
    game, features = games[2], Features(BASKETBALL)
    actor, last, acted, who = Actor(policy, features, rate=25.0), None, [], []
    operator = Operator(Script(*[Wish()] * 39, *[turn(1.0)] * 20, *[Wish()] * 40, Wish(back=True)))
    for i, seen in enumerate(game.detections[:200]):
        by_hand = None if last is None else operator.act(last, i / 25.0)
        last = actor.act(seen, i / 25.0, by_hand)
        acted.append(last[0])
        who.append(by_hand is not None)
    assert who == [False] * 40 + [True] * 60 + [False] * 100
    steps = np.abs(np.diff(acted))
    assert acted[99] - acted[39] == pytest.approx(20.0, abs=0.5)
    assert steps[99] < 1.0  # it goes on from where the operator was
    assert steps[39] < 1.0


def test_an_operator_beside_a_policy_that_waits_acts_for_the_picture_that_is_shown_now(film, waiting, games):
    """Turns right as soon as there is a picture, for 20 frames; the policy goes on from there."""
    operator = Operator(Script(*[turn(1.0)] * 20, Wish(back=True)))
    pipeline = Pipeline(Told(games[2].players), Actor(waiting, Features(BASKETBALL), rate=25.0), BASKETBALL)
    pipeline = replace(pipeline, calibration=Flat(), operator=operator)
    with Source(film, fast=True) as source:
        moments = list(pipeline.film(source))
    assert [moment.shot.number for moment in moments] == list(range(FRAMES))
    assert [moment.who == "operator" for moment in moments] == [False] + [True] * 20 + [False] * (FRAMES - 21)
    panned = np.array([moment.action[0] for moment in moments])
    assert panned[20] - panned[0] > 10.0
    assert abs(panned[21] - panned[20]) < 1.0  # no jump
    predictor, expected = Predictor(waiting), []
    for i, moment in enumerate(moments):
        by_hand = 15 < i <= 35  # while frames 1 to 20 are shown
        expected.append(
            predictor.override(panned[[i - 15]], moment.context) if by_hand else predictor.step(moment.context)
        )
    assert np.array_equal(panned[:, np.newaxis], [*expected[15:], *predictor.flush()])


def test_an_operator_of_three_axes_does_not_zoom_out_beyond_the_lens():
    operator = Operator(Script(turn(0.0, -1.0, -5.0)))
    action = np.array([3.0, -10.0, 1.5])
    for i in range(50):
        action = operator.act(action, i / 25.0)
    assert action == pytest.approx([3.0, -11.0, 1.0], abs=1e-2)


# --------------------------------------------------------------------------------------------------------- doubts


def test_each_doubt_is_said_once_with_numbers_and_the_way_out():
    doubts = Doubts(BASKETBALL)
    here, nobody, off = np.zeros((4, 2)), np.empty((0, 2)), np.full((4, 2), 40.0)
    said: list[tuple[str, ...]] = []

    def watch(positions, n, dropped=0, first=0):
        said.extend(doubts.note((first + i) / 25.0, positions, dropped=dropped * i, detecting=0.08) for i in range(n))
        return [sentence for sentences in said for sentence in sentences]

    assert watch(here, 100) == []
    assert len(watch(nobody, 126, first=100)) == 1
    (sentence,) = watch(nobody, 300, first=226)
    assert "nobody was detected for 5 s" in sentence
    said.clear()
    assert len(watch(off, 2 * LOOK_BACK, first=526)) == 1
    found = watch(here, 2 * LOOK_BACK, dropped=1, first=1100)
    assert "most of the people stand off the court of 28 x 15 m" in found[0]
    assert "frames were dropped: detecting takes 80 ms" in found[1]
    assert len(found) == 2


# --------------------------------------------------------------------------------------------------------- sights


def test_what_a_moving_head_sees_stays_where_it_is():
    """The head swings; people who stand still do so on the court, as long as the latency of the picture is right."""
    people = np.array([[-3.0, 1.0], [4.0, -2.0]])

    def pose(t: float) -> tuple[float, float, float]:
        return 20.0 * np.sin(3.0 * t), -22.0, 1.5

    def watch(latency: float) -> list[np.ndarray]:
        now, seen = 0.0, []
        through = Through(VIEW, lambda: pose(now), latency=latency)
        for i in range(50):
            now = 10.0 + i / 25.0
            feet = VIEW.to_pixels(people, pose=pose(now - 0.08))
            seen.append(through.to_court(feet, through.note(Shot(i, i / 25.0, now, 0.0, None))))
        return seen[5:]

    assert np.abs(np.array(watch(0.08)) - people).max() < 0.1
    assert np.abs(np.array(watch(0.0)) - people).max() > 1.0


def test_a_head_that_does_not_say_where_it_is_sees_nobody():
    through = Through(VIEW, lambda: (np.nan, np.nan, np.nan))
    assert np.isnan(through.to_court([[200.0, 200.0]], through.note(Shot(0, 0.0, 5.0, 0.0, None)))).all()


class Eye:
    """A detector that sees what the camera of an emulated head would show: no pictures, but the boxes in them."""

    def __init__(self, body: Body, players: np.ndarray) -> None:
        self.body, self.players, self.number = body, players, 0

    def detect(self, image):
        feet = VIEW.to_pixels(self.players, pose=self.body.pose)
        boxes = np.column_stack([feet - [4.0, 20.0], np.tile([8.0, 20.0], (len(feet), 1))])
        inside = ((feet > 0.0) & (feet < SIZE)).all(axis=1)
        return boxes[inside]


def test_a_head_that_films_through_its_own_lens_comes_to_rest_where_the_policy_says(film, policy):
    """People stand still; what the head sees moves with it, and must not move what the policy sees."""
    players = np.array([[x, y] for x in (4.0, 6.0, 8.0) for y in (-3.0, 0.0, 3.0)])
    with ViscaEmulator(Body(start=(0.0, -19.0, 1.0))) as emulator, ExitStack() as stack:  # it can tilt to -20
        head = stack.enter_context(open_head(f"127.0.0.1:{emulator.port}"))
        driver = stack.enter_context(Driver(head, rate=50.0, limits=AccelerationLimit(100.0, rate=40.0)))
        actor = Actor(policy, Features(BASKETBALL), rate=RATE)
        through = Through(VIEW, lambda: head.pose)
        pipeline = Pipeline(Eye(emulator.body, players), actor, BASKETBALL, through, [Turned(driver)])
        moments = list(pipeline.film(stack.enter_context(Source(film))))
    seen = [moment.positions for moment in moments[5:] if len(moment.positions)]
    assert len(seen) > 20
    away = [np.linalg.norm(found[:, np.newaxis] - players, axis=-1).min(axis=1).max() for found in seen]
    assert np.median(away) < 0.3  # metres, while the head turns
    assert np.ptp([moment.sent[0] for moment in moments]) > 2.0  # it does turn
    wanted = Actor(policy, Features(BASKETBALL), rate=RATE)
    there = [wanted.act(players, i / RATE) for i in range(FRAMES)][-1]
    assert moments[-1].action == pytest.approx(there, abs=1.5)


# -------------------------------------------------------------------------------------------------------- outputs


class Middle:
    """Windows of half the picture, beginning at the pan."""

    def windows(self, actions, picture, size):
        left = np.clip(actions[:, 0], 0.0, picture[0] / 2.0)
        return np.column_stack([left, left * 0.0, left + picture[0] / 2.0, left * 0.0 + picture[1] / 2.0])


def test_a_cut_is_written_frame_by_frame_with_its_times(film, tmp_path):
    out = tmp_path / "new" / "cut.mp4"
    with Source(film, fast=True) as source, Cut(out, Middle(), size=(240, 136), rate=25.0, fast=True) as cut:
        for i, shot in enumerate(source):
            assert cut.send(shot, np.array([float(i)])).tolist() == [i]
        half = out.stat().st_size
    assert (cut.frames, cut.dropped, cut.error) == (FRAMES, 0, None)
    assert half > 1000  # what was filmed is there before it is finished
    with av.open(str(out)) as made:
        stream = made.streams.video[0]
        times = [frame.time for frame in made.decode(stream)]
        assert (stream.width, stream.height) == (240, 136)
    assert times == pytest.approx(np.arange(FRAMES) / 25.0, abs=1e-4)


def test_a_cut_that_cannot_be_written_says_so(tmp_path):
    with pytest.raises(ArgumentError, match=r"must be a file that ends in \.mp4.*udp://"):
        Cut(tmp_path / "cut.avi", Middle(), size=(240, 136), rate=25.0)
    with pytest.raises(ArgumentError, match="got 'gopher://here'"):
        Cut("gopher://here", Middle(), size=(240, 136), rate=25.0)
    with pytest.raises(StorageError, match=r"rtmp://127\.0\.0\.1:1/live cannot be written"):
        Cut("rtmp://127.0.0.1:1/live", Middle(), size=(240, 136), rate=25.0)


# ---------------------------------------------------------------------------------------------------------- whole


def test_the_pipeline_films_what_is_played(film, policy, games, tmp_path):
    """Detected, filmed and logged; compared with the truth, and with what the policy does about the truth."""
    game, features = games[2], Features(BASKETBALL)
    actor = Actor(policy, features, rate=25.0, stages=[RateLimit(20.0)])
    empty = Rendering(BASKETBALL, VIEW).picture(np.empty((0, 2)))
    pipeline = Pipeline(Motion(VIEW, background=empty), actor, BASKETBALL, VIEW)
    table, lines = tmp_path / "log.csv", tmp_path / "log.jsonl"
    logs = [Log(path, policy.card.context_names, 1) for path in (table, lines)]
    with Source(film, fast=True) as source:
        moments = []
        for moment in pipeline.film(source, seconds=3.6):
            moments.append(moment)
            for log in logs:
                log.note(moment)
    assert len(moments) == 90
    errors, found = [], []
    for moment in moments[1:]:
        apart = np.linalg.norm(moment.positions[:, np.newaxis] - game.players[moment.shot.number], axis=-1).min(axis=0)
        found.append((apart < 1.0).mean())
        errors.extend(apart[apart < 1.0])
    assert np.mean(found) > 0.8
    assert np.median(errors) < 0.4
    true = Actor(policy, features, rate=25.0, stages=[RateLimit(20.0)])
    wanted = np.array([true.act(seen, i / 25.0) for i, seen in enumerate(game.players[:90])])
    assert np.sqrt(np.mean((np.array([m.sent for m in moments]) - wanted) ** 2)) < 4.0
    assert {m.who for m in moments} == {"policy"}
    assert set(moments[0].spent) == {"decode", "wait", "detect", "locate", "act", "send", "total"}
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 90
    assert float(rows[80]["pan"]) == moments[80].action[0]
    assert float(rows[80]["centroid_x"]) == moments[80].context[features.names.index("centroid_x")]
    demos = simile.read(table, actions=["pan"], contexts=list(features.names), time="time", as_is=True)
    assert demos.n_frames == 90
    told = [json.loads(line) for line in lines.read_text().splitlines()]
    assert told[80]["frame"] == 80
    assert len(told[80]["boxes"]) == len(told[80]["positions"]) == len(moments[80].positions)


class Seen:
    """An output that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, np.ndarray]] = []

    def send(self, shot, action):
        self.sent.append((shot.number, action))
        return action


@pytest.mark.parametrize("fast", [True, False])
def test_each_picture_is_sent_with_the_action_for_it_while_a_policy_waits(film, waiting, games, monkeypatch, fast):
    features, output, slept = Features(BASKETBALL), Seen(), []
    pipeline = Pipeline(Told(games[2].players), Actor(waiting, features, rate=25.0), BASKETBALL, Flat(), [output])
    with Source(film, fast=fast) as source:
        assert tell_kept(pipeline.actor, source) == "while it waits, 16 pictures of 480 x 270 pixels (3.11 MB) are kept"
        monkeypatch.setattr("time.sleep", slept.append)
        moments = list(pipeline.film(source, seconds=2.4 if fast else 1.0))
    contexts = np.array([moment.context for moment in moments])
    assert [moment.shot.number for moment in moments] == [number for number, _ in output.sent]
    assert all(moment.action is action for moment, (_, action) in zip(moments, output.sent, strict=True))
    assert all(moment.spent["keep"] + moment.spent["send"] <= moment.spent["total"] for moment in moments)
    if not fast:
        assert 1 < len(slept) <= 15  # at the end, the pictures that were kept come at their pace
        return
    assert not slept
    assert [number for number, _ in output.sent] == list(range(60))
    (rolled,) = simile.rollout(waiting, [contexts], start=simile.ColdStart())
    assert np.array_equal([action for _, action in output.sent], rolled)
    np.testing.assert_allclose(contexts, features.batch(games[2].players[:60]), atol=1e-9)


def test_more_pictures_than_there_is_room_for_are_refused(film, waiting, games, monkeypatch):
    actor = Actor(waiting, Features(BASKETBALL), rate=25.0)
    pipeline = Pipeline(Told(games[2].players), actor, BASKETBALL, Flat())
    monkeypatch.setattr("simile.camera.live.pipeline.MOST", 1_000_000)
    words = r"waits 0\.6 s.* pictures of 480 x 270 pixels .* 1 MB is the most: film a smaller picture"
    with Source(film, fast=True) as source:
        with pytest.raises(ArgumentError, match=words):
            tell_kept(actor, source)
        with pytest.raises(ArgumentError, match=words):
            list(pipeline.film(source))


def test_a_game_over_loopback_is_filmed_by_a_head_and_shown_to_a_player(
    pictures, games, policy, unused_ports, monkeypatch
):
    """A camera streams, simile detects and films, a head turns, and what is cut goes to a player; all over sockets."""
    game, features = games[2], Features(BASKETBALL)
    monkeypatch.setattr("simile.camera.live.sources.READING", 0.7)
    incoming, outgoing = (f"udp://127.0.0.1:{port}" for port in unused_ports)
    shown: list[Shot] = []

    def play() -> None:
        with Source(outgoing, retry=0.0) as player:
            shown.extend(player)

    camera = threading.Thread(
        target=write_film,
        args=(incoming + "?pkt_size=1316", pictures[:80]),
        kwargs={"form": "mpegts", "pace": 1.0 / RATE},
    )
    windows = Calibrated(VIEW, game.camera, game.camera.still_view(BASKETBALL))
    empty = Rendering(BASKETBALL, VIEW).picture(np.empty((0, 2)))
    with ViscaEmulator(Body()) as emulator, ExitStack() as stack:
        head = stack.enter_context(open_head(f"127.0.0.1:{emulator.port}"))
        driver = stack.enter_context(Driver(head, rate=50.0, limits=AccelerationLimit(200.0, rate=100.0)))
        cut = stack.enter_context(Cut(outgoing + "?pkt_size=1316", windows, size=(240, 136), rate=RATE))
        camera.start()
        player = threading.Thread(target=play)
        player.start()
        source = stack.enter_context(Source(incoming, retry=0.0))
        pipeline = Pipeline(
            *(Motion(VIEW, background=empty), Actor(policy, features, rate=RATE), BASKETBALL, VIEW),
            [Turned(driver), cut],
        )
        moments = list(pipeline.film(source))
        camera.join()
        driver.send(moments[-1].action)
        time.sleep(0.5)
        assert emulator.body.pose.pan == pytest.approx(moments[-1].action[0], abs=0.5)
    player.join()
    assert cut.frames == len(moments) - cut.dropped
    assert len(moments) > 15
    seen = [round(moment.shot.frame.time * RATE) for moment in moments]
    near = [
        np.linalg.norm(moment.positions[:, np.newaxis] - game.players[i], axis=-1).min(axis=0)
        for i, moment in zip(seen, moments, strict=True)
    ]
    assert np.mean(np.array(near) < 1.0) > 0.75
    actor = Actor(policy, features, rate=RATE)
    true = np.array([actor.act(players, i / RATE) for i, players in enumerate(game.players[:FRAMES])])
    part = replace(
        game, players=game.players[seen], detections=game.players[seen], ball=None, actions=None, possession=None
    )
    framed = compare_framing(part, {"live": [m.action for m in moments], "true": true[seen]})
    assert framed["live"].players > framed["true"].players - 0.15
    assert len(shown) > 10
    assert shown[-1].image.shape == (136, 240, 3)


# -------------------------------------------------------------------------------------------------------- command


@pytest.fixture(scope="module")
def place(tmp_path_factory, film, policy, games) -> Path:
    """A folder with a film, a calibration, a policy and a picture of the empty court."""
    import cv2

    folder = tmp_path_factory.mktemp("live")
    (folder / "game.mp4").write_bytes(film.read_bytes())
    save_calibration(VIEW, folder / "view.json")
    policy.save(folder / "policy.safetensors")
    cv2.imwrite(str(folder / "empty.png"), Rendering(BASKETBALL, VIEW).picture(np.empty((0, 2))))
    found = [{"frame": i, "positions": seen.tolist()} for i, seen in enumerate(games[2].players[:FRAMES])]
    (folder / "found.jsonl").write_text("".join(json.dumps(line) + "\n" for line in found))
    return folder


WHO = ("--policy", "policy.safetensors")


def test_the_command_films_a_file_to_a_file(place):
    told = simile_(
        *("camera", "live", "game.mp4", *WHO, "--calibration", "view.json", "--background", "empty.png", "--fast"),
        *("--out", "cut.mp4", "--size", "240", "136", "--log", "log.jsonl", "--stage", "RateLimit(20)"),
        cwd=place,
    )
    assert f"game.mp4: {FRAMES} frames in" in told.stdout
    assert "0 dropped" in told.stdout
    for stage in ("decode", "detect", "locate", "act", "send", "total"):
        assert f"\n{stage}" in told.stdout
    with av.open(str(place / "cut.mp4")) as made:
        frames = sum(1 for _ in made.decode(video=0))
    assert frames == FRAMES
    assert f"cut.mp4: {frames} frames" in told.stdout
    again = simile_(
        *("camera", "live", "game.mp4", *WHO, "--detections", "log.jsonl", "--calibration", "view.json", "--fast"),
        *("--log", "again.jsonl", "--stage", "RateLimit(20)", "--record", "recorded"),
        cwd=place,
    )
    assert f"{FRAMES} frames" in again.stdout
    (recorded,) = simile.read(place / "recorded", as_is=True, quiet=True)
    logged = [json.loads(line) for line in (place / "again.jsonl").read_text().splitlines()]
    assert recorded.actions[:, 0].tolist() == pytest.approx([line["action"][0] for line in logged], abs=1e-4)
    assert recorded.context_names == simile.load(place / "policy.safetensors").card.context_names
    first, second = ((place / name).read_text().splitlines() for name in ("log.jsonl", "again.jsonl"))
    one, two = ([json.loads(line)["action"][0] for line in lines] for lines in (first, second))
    assert one == pytest.approx(two, abs=0.3)  # boxes are logged to hundredths of a pixel


def test_the_command_cuts_a_delayed_picture_where_the_policy_waits(place, waiting, games):
    waiting.save(place / "waiting.safetensors")
    told = simile_(
        *("camera", "live", "game.mp4", "--policy", "waiting.safetensors", "--detections", "found.jsonl", "--fast"),
        *("--calibration", "view.json", "--out", "late.mp4", "--size", "240", "136", "--log", "late.csv"),
        cwd=place,
    )
    assert "the policy waits 15 frames (0.6 s)" in told.stderr
    assert "16 pictures of 480 x 270 pixels" in told.stderr
    assert "\nkeep " in told.stdout
    assert f"late.mp4: {FRAMES} frames" in told.stdout
    with (place / "late.csv").open() as file:
        rows = list(csv.DictReader(file))
    features = Features(BASKETBALL)
    (rolled,) = simile.rollout(waiting, [features.batch(games[2].players[:FRAMES])], start=simile.ColdStart())
    assert [float(row["pan"]) for row in rows] == rolled[:, 0].tolist()
    assert all(float(row["keep_ms"]) > 0.0 for row in rows)
    with av.open(str(place / "late.mp4")) as made:
        times = [frame.time for frame in made.decode(video=0)]
    assert times == pytest.approx(np.arange(FRAMES) / RATE, abs=1e-4)


def test_the_command_turns_a_head_and_stops_it_on_ctrl_c(place):
    with Server() as server:
        process = subprocess.Popen(
            command(
                *("camera", "live", "game.mp4", *WHO, "--detections", "found.jsonl", "--head"),
                *(f"127.0.0.1:{server.port}", "--out", "stopped.mp4", "--calibration", "view.json"),
                *("--size", "240", "136", "--log", "stopped.csv", "--every", "0.5", "--speed", "10"),
            ),
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        log, deadline = place / "stopped.csv", time.monotonic() + 60.0
        while time.monotonic() < deadline and (not log.exists() or len(log.read_text().splitlines()) < 40):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert "frames in" in out
        assert "total" in out
        assert "frames/s" in err
        assert "Traceback" not in err
        assert not server.camera.moving
        assert server.camera.pan != 0.0
    with av.open(str(place / "stopped.mp4")) as made:
        assert sum(1 for _ in made.decode(video=0)) >= 20
    with log.open() as file:
        rows = list(csv.DictReader(file))
    assert abs(float(rows[-1]["sent_pan"]) - server.camera.pan) < 3.0  # braking from 10 degrees a second takes one


def test_keys_take_over_in_a_terminal_and_q_ends_it(place):
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(
            *("camera", "live", "game.mp4", *WHO, "--detections", "found.jsonl", "--log", "keys.csv"),
            *("--take-over", "keys"),
        ),
        cwd=place,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log, deadline = place / "keys.csv", time.monotonic() + 60.0

    def wait_for(lines: int) -> None:
        while time.monotonic() < deadline and process.poll() is None:
            if log.exists() and len(log.read_text().splitlines()) >= lines:
                return
            time.sleep(0.02)

    wait_for(5)
    os.write(ours, b"\x1b[C" * 5)
    wait_for(26)
    os.write(ours, b" ")
    wait_for(30)
    os.write(ours, b"q")
    out, err = process.communicate(timeout=60)
    os.close(theirs)
    os.close(ours)
    assert process.returncode == 0, err
    assert "arrows or h j k l turn" in err
    assert "the operator acted in" in out
    with log.open() as file:
        rows = list(csv.DictReader(file))
    who = [row["who"] for row in rows]
    first = who.index("operator")
    back = who.index("policy", first)
    pans = [float(row["pan"]) for row in rows]
    assert pans[back - 1] - pans[first - 1] == pytest.approx(5.0, abs=0.5)
    assert abs(pans[back] - pans[back - 1]) < 1.0  # handed back without a jump


def test_the_command_sees_through_a_camera_whose_poses_are_in_a_table(place, games):
    """Boxes in the picture of a camera that pans, and where it looked: the people are where they were."""
    times = np.arange(FRAMES) / RATE
    poses = np.column_stack([15.0 * np.sin(times), np.full(FRAMES, -22.0), np.full(FRAMES, 1.5)])
    rows = [f"{t},{pan},{tilt},{zoom}" for t, (pan, tilt, zoom) in zip(times, poses, strict=True)]
    (place / "poses.csv").write_text("\n".join(["time,pan,tilt,zoom", *rows]))
    with (place / "moving.jsonl").open("w") as file:
        for i, players in enumerate(games[2].players[:FRAMES]):
            feet = VIEW.to_pixels(players, pose=poses[i])
            boxes = np.column_stack([feet - [4.0, 20.0], np.tile([8.0, 20.0], (len(feet), 1))])
            file.write(json.dumps({"frame": i, "boxes": boxes.tolist()}) + "\n")
    simile_(
        *("camera", "live", "game.mp4", *WHO, "--detections", "moving.jsonl", "--calibration", "view.json", "--fast"),
        *("--poses", "poses.csv", "--log", "through.jsonl"),
        cwd=place,
    )
    last = json.loads((place / "through.jsonl").read_text().splitlines()[-1])
    assert np.array(last["positions"]) == pytest.approx(games[2].players[FRAMES - 1], abs=0.05)


def test_mistakes_are_told_in_one_sentence_that_names_the_option(place, games):
    start = ("camera", "live", "game.mp4", *WHO)
    ready = (*start, "--log", "x.csv")
    (place / "wide.png").write_bytes((place / "empty.png").read_bytes()[:50])
    ahead = simile.clone(demonstrations(games[:1]), model=simile.SmoothForest(n_trees=2), lead=0.2).policy
    ahead.save(place / "ahead.safetensors")
    for arguments, word in (
        (start, "--head, --out, --log or --record"),
        (ready, "--calibration is missing"),
        ((*ready, "--calibration", "nowhere.json"), "nowhere.json"),
        ((*ready, "--calibration", "view.json", "--detector", "people"), "--detector must be motion, a file.onnx"),
        ((*ready, "--calibration", "view.json", "--detector", "python:nowhere:f"), "python:nowhere:f"),
        ((*ready, "--calibration", "view.json", "--detector", "nowhere.onnx"), "nowhere.onnx is not there"),
        ((*ready, "--calibration", "view.json", "--background", "nowhere.png"), "--background: nowhere.png"),
        ((*ready, "--calibration", "view.json", "--background", "wide.png"), "cannot be read as a picture"),
        ((*ready, "--detector", "motion", "--detections", "found.jsonl"), "--detections take the place of"),
        ((*ready, "--detections", "nowhere.jsonl"), "--detections: nowhere.jsonl"),
        ((*ready, "--detections", "-", "--take-over", "keys"), "would both read stdin"),
        ((*ready, "--detections", "found.jsonl", "--take-over", "keys"), "keys come from a terminal"),
        ((*ready, "--detections", "found.jsonl", "--take-over", "/dev/input/js77"), "--take-over keys"),
        ((*start, "--detections", "found.jsonl", "--out", "cut.mp4"), "--out needs a --calibration"),
        ((*start, "--detections", "found.jsonl", "--out", "cut.avi", "--fov", "60"), "(--out) must be a file"),
        ((*start[:3], "--policy", "ahead.safetensors", "--out", "cut.mp4"), "5 frames (0.2 s) ahead: "),
        ((*start[:3], "--policy", "ahead.safetensors", "--out", "cut.mp4"), "cuts at once: learn one with lead=0"),
        ((*start, "--detections", "found.jsonl", "--log", "log.txt"), "(--log) must end in .csv or .jsonl"),
        ((*start, "--detections", "found.jsonl", "--head", "127.0.0.1:x"), "--head"),
        ((*ready, "--calibration", "view.json", "--poses", "head"), "say which"),
        ((*ready, "--calibration", "view.json", "--poses", "poses.csv"), "all of its picture does"),
        ((*ready, "--calibration", "view.json", "--latency", "0.1"), "--poses"),
        ((*ready, "--detections", "found.jsonl", "--poses", "nowhere.csv"), "need the camera and its lens"),
        ((*ready, "--detections", "game.mp4"), "--detections: game.mp4 is no text after line 0"),
        (("camera", "live", "nowhere.mp4", *WHO, "--log", "x.csv"), "nowhere.mp4 is not there"),
        (("camera", "live", "udp://127.0.0.1:1", *WHO, "--log", "x.csv", "--fast"), "leave out --fast"),
    ):
        told = simile_(*arguments, cwd=place, code=2)
        assert word in told.stderr, (arguments, told.stderr)
        assert len(told.stderr.strip().splitlines()) == 1, told.stderr
