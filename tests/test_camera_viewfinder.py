"""Looking through the viewfinder: the film and the page show what the camera of a game sees, in perspective."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import browser as real
from simile import ArgumentError
from simile.camera.courts import BASKETBALL, COURTS, SOCCER, Court
from simile.camera.film.framing import framing
from simile.camera.film.painter import Painter
from simile.camera.film.scene import Scene
from simile.camera.film.viewfinder import KITS, TALL, Viewfinder
from simile.camera.film.watch import watch_page, watch_video
from simile.camera.games import Game
from simile.camera.geometry import Base, Camera, Lens, cut

browser, open_page = real.browser, real.open_page

RATE, FRAMES = 25.0, 50
TILTED = Camera((17.0, -13.0, 6.0), Base(-52.0, 4.0, 9.0), Lens(48.0, 1.5))
BLUE, ORANGE = ([int(KITS[team]["shirt"][i : i + 2], 16) for i in (1, 3, 5)] for team in (0, 1))


def play(camera: Camera | None = None, court: Court = BASKETBALL, frames: int = FRAMES) -> Game:
    """Players who run about, and an operator who pans after them."""
    rng = np.random.default_rng(0)
    where = rng.normal(scale=[4.0, 2.5], size=(10, 2)) + np.cumsum(rng.normal(scale=0.1, size=(frames, 10, 2)), axis=0)
    camera = camera or Camera.beside(court)
    pan, _ = camera.aim(where.mean(axis=1))
    return Game("final", RATE, court, camera, where, pan[:, np.newaxis], where, where[:, 0] + 0.5)


def scene_of(game: Game, **cameras) -> Scene:
    return Scene.of(game, cameras or {"operator": game.actions}, None)


def finder(game: Game, view, frame: int = 0, width: int = 480) -> np.ndarray:
    """What a camera sees, as a picture without its frame."""
    pytest.importorskip("PIL", reason="needs the extra video")
    game = replace(game, actions=None)
    scene = Scene.of(game, {"a": np.tile(np.asarray(view, dtype=float), (len(game), 1))}, None, thirds=False)
    painter = Painter(scene, (width, width))
    left, top, right, bottom = (round(side / 2) for side in painter.finders[0])
    return np.asarray(painter.picture(frame))[top + 4 : bottom - 4, left + 4 : right - 4].astype(int)


def has(picture: np.ndarray, colour, tolerance: int = 12) -> np.ndarray:
    return (np.abs(picture - colour) <= tolerance).all(axis=-1)


# ------------------------------------------------------------------------------------------------------- the geometry

corners = st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=3, max_size=6)


@given(corners, st.floats(-1, 1), st.floats(-1, 1), st.floats(-2, 2))
def test_a_polygon_is_cut_along_a_line(points, a, b, c):
    polygon = np.array(points)
    left = cut(polygon, polygon @ [a, b] + c)
    assert (left @ [a, b] + c >= -1e-9).all()
    kept = {tuple(p) for p in points if a * p[0] + b * p[1] + c >= 1e-12}
    assert kept <= {tuple(p) for p in left.tolist()}


@given(st.floats(-40, 40), st.floats(-60, 30), st.floats(1.0, 4.0), st.floats(-180, 180), st.floats(-30, 30))
def test_what_is_seen_of_the_ground_is_in_the_picture_and_not_far_also_where_the_base_is_rolled(
    pan, tilt, zoom, roll, heading
):
    camera = Camera((3.0, -20.0, 8.0), Base(heading, 0.0, roll))
    seen = camera.footprint(pan, tilt, zoom, far=60.0)
    if not len(seen):
        return
    assert np.isfinite(seen).all()
    across, up = np.abs(camera.project(seen, pan, tilt, zoom)).T
    assert (across <= 1.0 + 1e-6).all()
    assert (up <= 1.0 / camera.lens.aspect + 1e-6).all()
    ahead = camera.gaze(pan, tilt)[:2]
    assert ((seen - camera.position[:2]) @ ahead <= (60.0 + 1e-4) * np.hypot(*ahead)).all()


@given(st.integers(0, 99), st.floats(-60, 60), st.floats(-40, 20), st.floats(1.0, 5.0))
def test_nothing_is_drawn_far_beside_the_picture(seed, pan, tilt, zoom):
    court = list(COURTS.values())[seed % len(COURTS)]
    camera = Camera.beside(court) if seed % 2 else Camera((0.0, -0.4 * court.width, 3.0), Base(0.0, 0.0, seed))
    game = play(camera, court, frames=2)
    strokes = list(Viewfinder(scene_of(game)).draw(1, np.array([pan, tilt, zoom])))
    assert strokes
    for stroke in strokes:
        assert np.isfinite(stroke.points).all()
        assert np.abs(stroke.points).max() < 200.0  # figures and shadows are not cut, but they are small


def test_as_many_players_stand_in_the_pictures_as_framing_says():
    for game in (play(), play(Camera((0.0, -25.0, 9.0), Base(5.0, 0.0, 6.0), Lens(40.0)))):
        seen = Viewfinder(scene := scene_of(game))
        feet = np.array([seen.find_feet(t, scene.views["operator"][t]) for t in range(FRAMES)])
        inside = (np.abs(feet) <= [1.0, 1.0 / game.camera.lens.aspect]).all(axis=-1)
        assert 0.2 < inside.mean() < 1.0
        assert inside.mean() == pytest.approx(framing(game).players)
        for t in range(0, FRAMES, 10):  # and each of them is drawn, from the feet to the crown
            drawn = [
                s for s in seen.draw(t, scene.views["operator"][t]) if s.colour in (KITS[0]["shirt"], KITS[1]["shirt"])
            ]
            assert inside[t].sum() <= len(drawn) <= 10


def test_figures_are_as_tall_as_people_and_stand_on_their_feet():
    game = play(TILTED)
    places = np.full((FRAMES, 2, 2), np.nan)
    places[:, 1] = [2.0, 1.0]
    game = replace(game, players=places, detections=places, ball=None)
    view = np.array([*(float(angle) for angle in game.camera.aim([2.0, 1.0])), 1.0])
    seen = Viewfinder(scene_of(game))
    feet, crown = game.camera.project([[2.0, 1.0, 0.0], [2.0, 1.0, TALL]], *view)
    figure = [s for s in seen.draw(0, view) if s.colour in (*KITS[1].values(), "#c68e6a")]
    up = (crown - feet) / np.linalg.norm(crown - feet)
    heights = np.concatenate([(s.points - feet) @ up for s in figure])
    assert heights.min() >= 0.0
    assert 0.85 < heights.max() / np.linalg.norm(crown - feet) < 1.0
    assert not [s for s in seen.draw(0, view) if s.colour == KITS[0]["shirt"]]  # who is unknown is not drawn


# ------------------------------------------------------------------------------------------------------- the pictures


def test_the_picture_moves_with_pan_tilt_and_zoom_and_with_nothing_else():
    game = replace(play(), ball=None)
    tilt, zoom = game.still
    views = [(0.0, tilt, zoom), (1.0, tilt, zoom), (0.0, tilt + 1.0, zoom), (0.0, tilt, 1.1 * zoom)]
    pictures = [finder(game, view) for view in views]
    for other in pictures[1:]:
        assert (np.abs(other - pictures[0]).max(axis=-1) > 20).mean() > 0.01
    np.testing.assert_array_equal(finder(game, views[0]), pictures[0])
    pan_only = Scene.of(game, {"a": np.zeros((FRAMES, 1))}, None)  # which keeps the tilt and zoom of the game
    np.testing.assert_allclose(pan_only.views["a"][0], views[0])


def test_who_is_nearer_hides_who_is_farther():
    places = np.array([[[0.0, -2.0], [0.0, -1.2]]])
    for near in (0, 1):
        players = places if near == 0 else places[:, ::-1]
        camera = Camera((0.0, -12.0, 2.5))
        game = Game("two", RATE, BASKETBALL, camera, players, None, players)
        pan, tilt = camera.aim([0.0, -2.0, 1.2])
        picture = finder(game, [float(pan), float(tilt), 4.0])
        high, wide, _ = picture.shape
        chest = picture[high // 2 - 10 : high // 2 + 10, wide // 2 - 10 : wide // 2 + 10]
        assert has(chest, (BLUE, ORANGE)[near]).mean() > 0.9


def test_games_with_detections_alone_show_these_and_cameras_without_a_view_nothing():
    game = replace(play(), players=None, ball=None)
    tilt, zoom = game.still
    grey = [int(KITS[2]["shirt"][i : i + 2], 16) for i in (1, 3, 5)]
    assert has(finder(game, [0.0, tilt, 1.0]), grey).sum() > 50
    assert not has(finder(play(), [0.0, tilt, 1.0]), grey, 4).sum() > 50
    assert not list(Viewfinder(scene_of(game)).draw(0, np.array([np.nan, tilt, zoom])))
    dark = finder(game, [np.nan, np.nan, np.nan])
    assert has(dark[: len(dark) // 2], (0x30, 0x34, 0x3A), 2).all()


@pytest.mark.parametrize("view", ["both", "viewfinder", "court"])
@pytest.mark.parametrize("size", [(160, 160), (320, 180), (360, 640)])
def test_everything_has_room_at_any_size(view, size):
    pytest.importorskip("PIL", reason="needs the extra video")
    game = play(frames=3)
    for count in (1, 2, 7):
        scene = Scene.of(game, {f"camera {i}": game.actions + i for i in range(count)}, None, view=view)
        painter = Painter(scene, size)
        assert painter.picture(1).size == size
        assert len(painter.finders) == (0 if view == "court" else count)
        for left, top, right, bottom in painter.finders:
            assert 0.0 <= left < right <= 2 * size[0]
            assert 0.0 <= top < bottom <= 2 * size[1]
            assert (right - left) / (bottom - top) == pytest.approx(16.0 / 9.0)


def test_thirds_can_be_switched_off():
    pytest.importorskip("PIL", reason="needs the extra video")
    game = play(frames=3)
    on, off = (
        np.asarray(Painter(Scene.of(game, {"a": game.actions}, None, thirds=thirds), (640, 360)).picture(1)).astype(int)
        for thirds in (True, False)
    )
    assert 500 < (np.abs(on - off).max(axis=-1) > 8).sum() < 4000


def test_an_unknown_view_is_named(tmp_path):
    with pytest.raises(ArgumentError, match="view must be one of both, viewfinder, court; got 'above'"):
        watch_page(play(), {"a": play().actions}, tmp_path / "a.html", view="above")


def test_a_film_can_be_an_animated_webp(tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="needs the extra video")
    game = play(frames=6)
    watch_video(game, {"a": game.actions}, tmp_path / "a.webp", size=(241, 161), view="viewfinder")
    with Image.open(tmp_path / "a.webp") as film:
        assert (film.size, film.n_frames) == ((241, 161), 3)  # of 25 a second, 12.5


# ----------------------------------------------------------------------------------------------- in a real browser

WAIT = "Number(document.body.dataset.drawn) >= 1"


def write(tmp_path: Path, game: Game, **more) -> Path:
    rolled = np.column_stack([game.actions[:, 0] + 3.0, np.full(len(game), -17.0), np.linspace(1.0, 2.0, len(game))])
    watch_page(game, {"operator": game.actions, "simile": rolled}, tmp_path / "a.html", **more)
    return tmp_path / "a.html"


@pytest.mark.parametrize("camera", [None, TILTED], ids=["level", "tilted"])
def test_the_page_projects_as_python_does(tmp_path, open_page, camera):
    game = play(camera)
    opened = open_page(write(tmp_path, game))
    real.until(opened.page, WAIT)
    rng = np.random.default_rng(1)
    points = rng.normal(scale=[9.0, 9.0, 1.0], size=(200, 3))
    views = np.column_stack([rng.normal(scale=40.0, size=200), rng.uniform(-60, 30, 200), rng.uniform(1.0, 6.0, 200)])
    ours = game.camera.project(points, *views.T)
    theirs = opened.page.evaluate(
        "([points, views]) => points.map((point, i) => geometry.project(point, views[i]))",
        [points.tolist(), views.tolist()],
    )
    theirs = np.array([[np.nan if v is None else v for v in point] for point in theirs], dtype=float)
    np.testing.assert_array_equal(np.isnan(theirs), np.isnan(ours))
    np.testing.assert_allclose(theirs, ours, rtol=1e-9, atol=1e-9)
    grounds = opened.page.evaluate("(views) => views.map(geometry.footprint)", views.tolist())
    far = Scene.of(game, {"a": game.actions}, None).far
    for view, ground in zip(views, grounds, strict=True):
        expected = game.camera.footprint(*view, far=far)
        np.testing.assert_allclose(np.reshape(np.array(ground, dtype=float), (-1, 2)), expected, rtol=1e-6, atol=1e-6)
    view = opened.page.evaluate("geometry.viewOf(0, 7)")
    np.testing.assert_allclose(view, game.view(game.actions)[7], atol=0.0051)


def test_the_page_shows_each_camera_its_own_picture(tmp_path, open_page):
    opened = open_page(write(tmp_path, play()))
    page = opened.page
    real.until(page, WAIT)
    finders = page.locator("#finders canvas")
    assert finders.count() == 2
    data = "(canvas) => canvas.toDataURL()"
    before = [finders.nth(i).evaluate(data) for i in (0, 1)]
    assert before[0] != before[1]
    for team in (0, 1):
        assert real.pixels_near(page, "#finders canvas", KITS[team]["shirt"]) > 100
    page.keyboard.press("End")
    real.until(page, f"document.body.dataset.frame === '{FRAMES - 1}'")
    assert [finders.nth(i).evaluate(data) for i in (0, 1)] != before
    thirds = page.get_by_label("thirds")
    drawn = finders.nth(0).evaluate(data)
    thirds.uncheck()
    real.until(page, f"document.querySelector('#finders canvas').toDataURL() !== {drawn!r}")
    page.locator("#legend label", has_text="simile").locator("input").uncheck()
    real.until(page, "document.querySelectorAll('figure:not([hidden])').length === 1")
    assert "zoom" in page.locator("figcaption").first.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(360, 740), (1280, 900)])
def test_the_page_fits_a_phone_and_a_desk(tmp_path, open_page, scheme, width, height):
    path = write(tmp_path, play(TILTED))
    opened = open_page(path, viewport={"width": width, "height": height}, color_scheme=scheme)
    real.until(opened.page, WAIT)
    assert not real.scrolls_sideways(opened.page)
    boxes = [opened.page.locator(f"#{name}").bounding_box() for name in ("finders", "court", "curves")]
    assert all(box["width"] > 100 and box["height"] > 80 for box in boxes)
    assert boxes[0]["y"] < boxes[1]["y"] <= boxes[2]["y"]
    pictures = [opened.page.locator("figure").nth(i).bounding_box() for i in (0, 1)]
    assert pictures[0]["y"] == pictures[1]["y"]  # side by side
    real.screenshot(opened.page, f"watch-{scheme}-{width}")


def test_the_page_shows_what_was_asked_for(tmp_path, open_page):
    opened = open_page(write(tmp_path, play(), view="court"))
    real.until(opened.page, WAIT)
    assert opened.page.locator("#finders canvas").count() == 0
    assert opened.page.locator("#court").is_visible()
    opened.page.goto(write(tmp_path, replace(play(), players=None, ball=None), view="viewfinder").as_uri())
    real.until(opened.page, WAIT)
    assert opened.page.locator("#finders canvas").count() == 2
    assert not opened.page.locator("#court").is_visible()
    assert real.pixels_near(opened.page, "#finders canvas", KITS[2]["shirt"], 6) > 50


def test_pictures_cost_the_page_little(tmp_path):
    game = play(court=SOCCER, frames=500)
    sizes = {view: write(tmp_path, game, view=view).stat().st_size for view in ("court", "both")}
    assert sizes["both"] - sizes["court"] < 40_000  # whatever the number of frames
