"""Watching games: what the page draws in a real browser, what it must never do, and what the films show."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser import CHROMIUM
from conftest import NO_BROWSER
from simile import ArgumentError, DataError
from simile._common.pages import MISSING, pack
from simile.camera.courts import BASKETBALL, COURTS, SOCCER, Court
from simile.camera.film.painter import Painter
from simile.camera.film.scene import Scene, markings
from simile.camera.film.watch import watch_page, watch_video
from simile.camera.games import Game
from simile.camera.geometry import Camera

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)

RATE, FRAMES = 25.0, 100
ORANGE, BLUE, VERMILION = (0xE6, 0x9F, 0x00), (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)


def play(frames: int = FRAMES, court: Court = BASKETBALL, players: int = 10, seed: int = 0) -> Game:
    """Players who wander, detections of them in any order and with gaps, and a camera that follows."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.normal(scale=0.08, size=(frames, players, 2)), axis=0)
    where = np.clip(walk + rng.normal(scale=3.0, size=(players, 2)), -court.corners[2], court.corners[2])
    seen = rng.permuted(where + rng.normal(scale=0.1, size=where.shape), axis=1)
    seen[rng.random(seen.shape[:2]) < 0.1] = np.nan
    camera = Camera.beside(court)
    pan, _ = camera.aim(where.mean(axis=1))
    return Game("final", RATE, court, camera, seen, pan[:, np.newaxis], where, where[:, 0] + 0.5)


def scene_of(page: Path) -> dict:
    """Read back what a page holds."""
    found = re.search(r'<script id="scene" type="application/json">(.*?)</script>', page.read_text(), re.DOTALL)
    return json.loads(found[1])


def unpack(packed: dict, frames: int) -> np.ndarray:
    changes = np.frombuffer(zlib.decompress(base64.b64decode(packed["values"])), "<i2")
    numbers = np.cumsum(changes.reshape(packed["columns"], frames).T, axis=0, dtype=np.int16)
    return np.where(numbers == MISSING, np.nan, numbers * np.array(packed["unit"]))


# ------------------------------------------------------------------------------------------------------------- drawings


@given(st.floats(-60, 60), st.floats(-40, 40), st.floats(1.0, 5.0))
def test_the_ground_seen_is_the_footprint_or_what_of_it_is_below_the_horizon(pan, tilt, zoom):
    camera = Camera.beside(BASKETBALL)
    seen = camera.footprint(pan, tilt, zoom, far=60.0)
    whole = camera.footprint(pan, tilt, zoom)
    ahead = np.array([np.sin(np.radians(pan)), np.cos(np.radians(pan))])
    if not len(seen):
        assert not ((whole[:2] - camera.position[:2]) @ ahead < 60.0).any()
        return
    np.testing.assert_allclose(seen[:2], whole[:2])
    away = (seen - camera.position[:2]) @ ahead
    assert (away <= 60.0 + 1e-6).all()
    if np.isfinite(whole).all() and ((whole - camera.position[:2]) ** 2).sum(axis=1).max() < 60.0**2:
        np.testing.assert_allclose(seen, whole)


@pytest.mark.parametrize("court", COURTS.values(), ids=lambda court: court.name)
def test_markings_are_the_same_on_both_sides_and_near_the_court(court):
    points = np.concatenate(markings(court))
    assert court.inside(points, margin=2.5).all()
    mirrored = {(round(-x, 6) + 0.0, round(y, 6) + 0.0) for x, y in points}
    assert mirrored == {(round(x, 6) + 0.0, round(y, 6) + 0.0) for x, y in points}


def test_the_three_point_line_is_675_from_the_basket_and_90_from_the_side():
    line = markings(BASKETBALL)[3]
    away = np.hypot(line[1:-1, 0] - BASKETBALL.goal, line[1:-1, 1])
    np.testing.assert_allclose(away, 6.75)
    assert abs(line[0, 1]) == pytest.approx(7.5 - 0.9)


def test_an_unknown_court_has_its_outline_and_middle():
    assert len(markings(Court("quidditch", 40.0, 20.0, 20.0))) == 2


def test_the_area_of_handball_is_six_metres_from_the_posts_and_a_rink_has_round_corners():
    area = markings(COURTS["handball"])[3]
    away = np.hypot(area[:, 0] - 20.0, np.maximum(np.abs(area[:, 1]) - 1.5, 0.0))
    np.testing.assert_allclose(away, 6.0)
    boards = markings(COURTS["hockey"])[0]
    assert len(boards) > 20
    assert not (np.abs(boards) == [30.0, 15.0]).all(axis=1).any()


@given(st.lists(st.one_of(st.floats(-400, 400), st.just(np.nan)), min_size=1, max_size=30), st.integers(1, 3))
def test_packed_numbers_are_as_near_as_their_unit_allows(values, columns):
    table = np.repeat(np.array(values)[:, np.newaxis], columns, axis=1)
    back = unpack(pack(table, 0.01), len(table))
    np.testing.assert_array_equal(np.isnan(back), np.isnan(table))
    np.testing.assert_allclose(back, np.clip(table, -327.67, 327.67), atol=0.0051)


# ------------------------------------------------------------------------------------------------------------- the page


def test_the_page_holds_the_game_and_the_cameras(tmp_path):
    game = play()
    watch_page(game, {"operator": game.actions, "simile": game.actions[:, 0] + 1.0}, tmp_path / "new" / "a.html")
    scene = scene_of(tmp_path / "new" / "a.html")
    assert [camera["name"] for camera in scene["cameras"]] == ["operator", "simile"]
    np.testing.assert_allclose(unpack(scene["players"], FRAMES), game.players.reshape(FRAMES, -1), atol=0.0051)
    pans = unpack(scene["cameras"][1]["curves"][0], FRAMES)
    np.testing.assert_allclose(pans, game.actions + 1.0, atol=0.0051)
    assert scene["camera"]["position"] == list(game.camera.position)
    assert scene["camera"]["still"] == list(game.still)


def test_ten_minutes_at_25_hz_stay_below_3_megabytes(tmp_path):
    game = play(15_000, SOCCER, players=22)
    actions = np.column_stack([game.actions, np.full(len(game), -20.0), np.full(len(game), 2.0)])
    noisy = actions + np.random.default_rng(0).normal(scale=0.1, size=actions.shape)
    watch_page(game, {"operator": actions, "simile": noisy}, tmp_path / "a.html")
    assert (tmp_path / "a.html").stat().st_size < 3e6


EVIL = ["</script><script>document.title='owned'</script>", '"><img src=x onerror=alert(1)>', "{{scene}}", "&lt;\u2028"]


def test_texts_of_the_user_cannot_become_markup(tmp_path):
    game = replace(play(), name=EVIL[0])
    for title in (None, *EVIL):
        watch_page(game, dict.fromkeys(EVIL, game.actions), tmp_path / "a.html", title=title)
        page = (tmp_path / "a.html").read_text()
        assert page.count("<script") == page.count("</script>") == 2
        assert "<img" not in page
        assert [camera["name"] for camera in scene_of(tmp_path / "a.html")["cameras"]] == EVIL


def test_the_page_asks_for_nothing_from_any_network(tmp_path):
    watch_page(play(), {"a": play().actions}, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert not re.search(r"https?://|@import|\bfetch\(|XMLHttpRequest|src=", page)
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    ("cameras", "error", "words"),
    [
        ({}, ArgumentError, "cameras must map names to actions"),
        (np.zeros((FRAMES, 1)), ArgumentError, "cameras must map names to actions"),
        ({"a": np.zeros((FRAMES - 1, 1))}, ArgumentError, r"cameras\['a'\] must have the 100 frames of 'final'"),
        ({"a": np.zeros((FRAMES, 2))}, ArgumentError, r"got shape \(100, 2\)"),
        ({"a": np.full((FRAMES, 1), np.inf)}, DataError, r"cameras\['a'\] must be finite or NaN"),
    ],
)
def test_cameras_that_do_not_fit_are_named_and_nothing_is_written(tmp_path, cameras, error, words):
    for write, name in ((watch_page, "a.html"), (watch_video, "a.mp4")):
        with pytest.raises(error, match=words):
            write(play(), cameras, tmp_path / name)
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------------------------------- in a real browser


def browse(page: Path, script: str = "", hash_: str = "", size: str = "1000,900") -> dict[str, str]:
    """Open a page, run a script of ours after it and return the data that body has then; there must be no errors."""
    if script:
        page = page.with_name("with_script.html").resolve()
        html = page.with_name("a.html").read_text()
        code = f"<script>setTimeout(async () => {{ {SCRIPT} {script} }}, 500)</script>"
        page.write_text(html.replace("<body>", f"<body>{FRAMES_BY_TIMER}").replace("</body>", code + "</body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=8000"]
    profile = f"--user-data-dir={page.parent / 'profile'}"
    ran = subprocess.run(
        [CHROMIUM, *flags, profile, f"--window-size={size}", "--dump-dom", f"{page.resolve().as_uri()}{hash_}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in ran.stderr, ran.stderr
    body = re.search(r"<body([^>]*)>", ran.stdout)
    data = dict(re.findall(r'data-([\w-]+)="([^"]*)"', body[1])) | {"dom": ran.stdout}
    assert data.get("errors") == "0"
    return data


# In a browser without a window, timers run ahead of the screen: let the frames keep up with them.
FRAMES_BY_TIMER = "<script>requestAnimationFrame = (f) => setTimeout(() => f(performance.now()), 16)</script>"

SCRIPT = """
const at = (id) => document.getElementById(id), note = document.body.dataset;
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const key = async (name, more) => {
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...more }));
  await wait(100);
};
const count = (id, wanted) => {
  const { width, height } = at(id), copy = Object.assign(document.createElement("canvas"), { width, height });
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(at(id), 0, 0);
  const pixels = pen.getImageData(0, 0, width, height).data;
  let n = 0;
  for (let i = 0; i < pixels.length; i += 4) n += wanted.every((c, j) => Math.abs(c - pixels[i + j]) <= 2);
  return n;
};
for (let i = 0; i < 60 && !(Number(note.drawn) >= 1); i++) await wait(50);  // the page has to be there first
"""


@pytest.fixture
def page(tmp_path) -> Path:
    game = play()
    tracks = {"operator": game.actions, "simile": game.actions + 8.0}
    watch_page(game, tracks, tmp_path / "a.html")
    return tmp_path / "a.html"


@needs_browser
def test_the_page_draws_and_opens_at_the_second_of_its_address(page):
    data = browse(page, hash_="#t=2.0")
    assert int(data["drawn"]) >= 1
    assert data["frame"] == "50"
    assert "0:02.0 / 0:04.0" in data["dom"]


@needs_browser
def test_keys_slider_and_clicks_seek(page):
    steps = """
    await key("End"); note.end = note.frame;
    await key("ArrowLeft"); note.left = note.frame;
    await key("ArrowLeft", { shiftKey: true }); note.second = note.frame;
    await key("Home"); note.home = note.frame;
    await key("ArrowRight"); note.right = note.frame;
    at("seek").value = 33; at("seek").dispatchEvent(new Event("input")); await wait(100); note.slid = note.frame;
    const box = at("curves").getBoundingClientRect();
    at("curves").setPointerCapture = () => {};  // there is no real pointer
    at("curves").dispatchEvent(new PointerEvent("pointerdown", { clientX: box.left + 64 + (box.width - 74) / 2 }));
    await wait(100); note.clicked = note.frame;
    """
    data = browse(page, steps)
    got = {name: data[name] for name in ("end", "left", "second", "home", "right", "slid")}
    assert got == {"end": "99", "left": "98", "second": "73", "home": "0", "right": "1", "slid": "33"}
    assert int(data["clicked"]) in (49, 50)


@needs_browser
def test_space_and_button_play_and_pause_and_the_game_ends(page):
    steps = """
    await key(" "); await wait(400); note.going = note.playing; note.later = note.frame;
    at("play").click(); await wait(200); note.paused = note.playing; note.word = at("play").textContent;
    at("speed").value = "8"; at("play").click(); await wait(1500);
    note.ended = note.playing; note.final = note.frame;
    """
    data = browse(page, steps)
    assert data["going"] == "true"
    assert int(data["later"]) > 1
    assert (data["paused"], data["word"]) == ("false", "Play")
    assert (data["ended"], data["final"]) == ("false", str(FRAMES - 1))


@needs_browser
def test_players_and_cameras_have_their_colours_and_a_camera_can_be_hidden(page):
    steps = f"""
    const orange = {list(ORANGE)};
    note.blue = count("court", {list(BLUE)}); note.vermilion = count("court", {list(VERMILION)});
    note.court = count("court", orange); note.curves = count("curves", orange);
    at("legend").querySelectorAll("input")[1].click(); await wait(100);
    note.hidden = count("court", orange) + count("curves", orange);
    """
    data = browse(page, steps)
    assert all(int(data[name]) > 100 for name in ("blue", "vermilion", "court", "curves"))
    assert data["hidden"] == "0"


@needs_browser
def test_everything_has_a_name_and_fits_a_small_window(page):
    steps = """
    const named = (e) => e.getAttribute("aria-label") || e.textContent.trim() || (e.labels && e.labels.length);
    const all = [...document.querySelectorAll("button, input, select, canvas")];
    note.nameless = all.filter((e) => !named(e)).length; note.controls = all.length;
    note.wide = document.documentElement.scrollWidth > innerWidth;
    """
    data = browse(page, steps, size="500,700")
    assert (data["nameless"], data["wide"]) == ("0", "false")
    assert int(data["controls"]) == 12  # a picture of each camera among them


@needs_browser
def test_no_script_of_a_user_runs(tmp_path):
    game = play(30)
    watch_page(game, dict.fromkeys(EVIL, game.actions), tmp_path / "a.html", title=EVIL[0])
    data = browse(tmp_path / "a.html")
    assert "<title>owned" not in data["dom"]
    assert "<img" not in data["dom"]


@needs_browser
def test_games_with_gaps_and_without_players_or_ball_are_drawn_too(tmp_path):
    game = play(30)
    actions = np.column_stack([game.actions, np.full(30, 10.0), np.full(30, 2.0)])  # looks above the horizon
    actions[5:20] = np.nan
    bare = replace(game, players=None, ball=None, detections=np.full((30, 0, 2), np.nan))
    watch_page(bare, {f"camera {i}": actions for i in range(7)}, tmp_path / "a.html")
    assert browse(tmp_path / "a.html", hash_="#t=0.4")["frame"] == "10"
    watch_page(replace(play(1), ball=None), {"a": np.zeros((1, 1))}, tmp_path / "a.html")
    assert browse(tmp_path / "a.html", hash_="#t=99")["frame"] == "0"


# ------------------------------------------------------------------------------------------------------------ the films


def near(picture: np.ndarray, colour: tuple[int, int, int], tolerance: int = 45) -> np.ndarray:
    """Tell where a picture (h, w, 3) has a colour; films are not exact."""
    return (np.abs(picture.astype(int) - colour) < tolerance).all(axis=-1)


@pytest.mark.parametrize("columns", [1, 3])
def test_a_film_has_all_frames_and_shows_what_the_policy_sees(tmp_path, columns):
    av = pytest.importorskip("av", reason="needs the extra video")
    game, calls = play(30), []
    actions = np.column_stack([game.actions + 5.0, np.full(30, -22.0), np.full(30, 2.2)])[:, :columns]
    cameras = {"operator": game.actions, "simile": actions}
    watch_video(game, cameras, tmp_path / "a.mp4", size=(960, 540), watch=lambda *now: calls.append(now))
    with av.open(str(tmp_path / "a.mp4")) as source:
        assert float(source.streams.video[0].average_rate) == RATE
        pictures = [frame.to_ndarray(format="rgb24") for frame in source.decode(video=0)]
    assert calls == [(t + 1, 30) for t in range(30)]
    assert len(pictures) == 30
    for t in (0, 29):
        assert pictures[t].shape == (540, 960, 3)
        red, green, blue = pictures[t].astype(int).transpose(2, 0, 1)
        orange = (red - blue > 70) & (red - green > 15)  # films blur the colours of thin lines
        scene = Scene.of(game, cameras, None)
        left, right = Painter(scene, (960, 540)).place(scene.footprint("simile", t)[:2]) / 2.0
        for share in np.linspace(0.2, 0.8, 7):
            x, y = np.round(left + share * (right - left)).astype(int)
            assert orange[y - 3 : y + 4, x - 3 : x + 4].any()


def test_speed_leaves_out_frames(tmp_path):
    av = pytest.importorskip("av", reason="needs the extra video")
    game = play(31)
    watch_video(game, {"a": game.actions}, tmp_path / "a.mp4", size=(320, 180), speed=2.0)
    with av.open(str(tmp_path / "a.mp4")) as source:
        assert sum(1 for _ in source.decode(video=0)) == 16


def test_a_gif_shows_the_same(tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="needs the extra video")
    game = play(12)
    watch_video(game, {"a": game.actions, "b": game.actions + 9.0}, tmp_path / "a.gif", size=(321, 181))
    with Image.open(tmp_path / "a.gif") as film:
        assert (film.size, film.n_frames, film.info["duration"]) == ((321, 181), 12, 40)
        film.seek(11)
        picture = np.asarray(film.convert("RGB"))
    for colour in (ORANGE, BLUE, VERMILION):
        assert near(picture, colour, 8).sum() > 20


def test_a_long_game_turns_the_page_of_its_curves():
    pytest.importorskip("PIL", reason="needs the extra video")
    game = play(1600)
    painter = Painter(Scene.of(game, {"a": game.actions}, None), (320, 180))
    first, last, beyond = (np.asarray(painter.picture(t)) for t in (0, 1499, 1599))
    assert (first != last).any()
    assert (last != beyond).any()


def test_films_of_games_with_gaps_can_be_drawn(tmp_path):
    pytest.importorskip("PIL", reason="needs the extra video")
    game = play(10)
    actions = game.actions.copy()
    actions[3:6] = np.nan
    bare = replace(game, players=None, ball=None)
    watch_video(bare, {"a" * 200: actions, **{str(i): actions for i in range(30)}}, tmp_path / "a.gif", size=(320, 180))
    assert (tmp_path / "a.gif").stat().st_size > 1000


@pytest.mark.parametrize(
    ("path", "more", "words"),
    [
        ("a.avi", {}, r"\.mp4, \.gif or \.webp; got 'a\.avi'"),
        ("a.mp4", {"size": (641, 360)}, "even numbers"),
        ("a.gif", {"size": (3, 3)}, "160 or more"),
        ("a.mp4", {"speed": 0.0}, "speed must be > 0"),
    ],
)
def test_films_that_cannot_be_made_are_refused(tmp_path, monkeypatch, path, more, words):
    pytest.importorskip("av", reason="needs the extra video")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=words):
        watch_video(play(5), {"a": np.zeros((5, 1))}, path, **more)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("path", "module"), [("a.mp4", "av"), ("a.gif", "PIL")])
def test_without_the_extra_the_way_to_install_it_is_said(tmp_path, monkeypatch, path, module):
    for name in (module, *(["PIL.Image", "PIL.ImageDraw", "PIL.ImageFont"] if module == "PIL" else [])):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(ArgumentError, match=rf"needs {module}: pip install 'smooth-imitation\[video\]'"):
        watch_video(play(5), {"a": np.zeros((5, 1))}, tmp_path / path)


def test_an_interrupted_film_leaves_nothing(tmp_path):
    pytest.importorskip("av", reason="needs the extra video")

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch_video(play(5), {"a": np.zeros((5, 1))}, tmp_path / "a.mp4", size=(320, 180), watch=stop)
    assert not list(tmp_path.iterdir())
