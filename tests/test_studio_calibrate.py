"""Calibrating by clicks: what the studio answers, and the page in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import browser as real
import studio_pages
import studios as shared
from browser import Opener, screenshot, until
from simile.camera.calibration import View, landmarks, load_calibration
from simile.camera.calibration.overlay import trace
from simile.camera.courts import BASKETBALL
from simile.camera.geometry import Base, Camera, Lens
from simile.studio.workspace import Workspace
from studio_pages import Studio
from studios import TestClient

cv2 = pytest.importorskip("cv2", reason="needs the extra vision")

workspace, client = shared.workspace, shared.client
browser, open_page, studio = real.browser, real.open_page, studio_pages.studio

SIZE = (1280, 720)
VIEW = View(Camera((2.0, -17.0, 8.0), Base(3.0, 0.0, 0.0), Lens(75.0)), SIZE, (0.0, -24.0, 1.0))
CLICKED = ("left far corner", "right far corner", "near centre circle", "right near key", "left near key", "centre")
CHECK = np.array([[5.0, 3.0], [-7.0, -2.0], [0.0, 7.0], [9.0, 4.0]])


def clicks(*names: str) -> list[dict[str, Any]]:
    places = landmarks(BASKETBALL)
    return [{"name": n, "u": u, "v": v} for n in names for u, v in [VIEW.to_pixels(places[n])]]


def asked(**changes: Any) -> dict[str, Any]:
    return {"court": "basketball", "size": SIZE, "pairs": clicks(*CLICKED), **changes}


# --------------------------------------------------------------------------------------------------------- the server


def test_the_courts_are_told_with_lines_and_landmarks(client: TestClient):
    found = {court["name"]: court for court in client.get("/api/courts").json()}
    assert found["soccer"]["landmarks"]["centre"] == [0.0, 0.0, 0.0]
    assert len(found["basketball"]["lines"]) > 10
    assert all(len(line) % 2 == 0 for line in found["basketball"]["lines"])
    (own,) = client.get("/api/courts", params={"court": "soccer,100,64"}).json()
    assert own["landmarks"]["right far corner"] == [50.0, 32.0, 0.0]
    assert "court must be" in client.get("/api/courts", params={"court": "x,y"}).json()["error"]


def test_clicks_become_a_calibration_that_is_kept_when_it_has_a_name(client: TestClient, workspace: Workspace):
    found = client.post("/api/calibrations", json=asked()).json()
    assert found["median_pixels"] < 0.01
    assert found["lines"]
    assert "kept" not in found
    assert not (workspace.folder / "calibrations").exists()
    kept = client.post("/api/calibrations", json=asked(name="hall 1", model="camera")).json()
    assert kept["kept"] == "calibrations/hall 1.json"
    loaded = load_calibration(workspace.folder / kept["kept"])
    np.testing.assert_allclose(loaded.to_pixels(CHECK), VIEW.to_pixels(CHECK), atol=0.5)
    answer = client.get("/api/calibrations/hall 1")
    assert answer.json()["format"] == "simile-calibration"
    assert answer.headers["content-disposition"] == 'attachment; filename="hall 1.json"'


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"pairs": clicks("centre")}, 422, "1 points on the ground are too few"),
        ({"pairs": []}, 422, "0 points on the ground are too few"),
        ({"pairs": [{"name": "moon", "u": 1.0, "v": 2.0}]}, 400, "'moon' is no landmark of basketball"),
        ({"pairs": [{"name": "centre", "u": 1.0}]}, 400, "pairs must be at most 200 clicks"),
        ({"pairs": clicks("centre") * 201}, 400, "pairs must be at most 200 clicks"),
        ({"pairs": "centre"}, 400, "pairs must be"),
        ({"court": "chess"}, 422, "court must be basketball, nba, soccer"),
        ({"size": [0, 720]}, 400, "size must be the width and height"),
        ({"size": [1280]}, 400, "size must be the width and height"),
        ({"model": "fisheye"}, 400, "model must be one of camera, homography"),
        ({"name": "../../token"}, 400, "name must be a name of letters"),
        ({"name": "a.json/../b"}, 400, "name must be a name of letters"),
        ({"other": 1}, 400, "'other' is not known here"),
    ],
)
def test_clicks_that_cannot_be_are_refused_in_a_sentence(
    client: TestClient, workspace: Workspace, changes: dict[str, Any], status: int, words: str
):
    answer = client.post("/api/calibrations", json=asked(**changes))
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text
    assert not (workspace.folder / "calibrations").exists()


def test_only_calibrations_are_handed_out(client: TestClient):
    assert client.get("/api/calibrations/none").status_code == 404
    for name in ("..%2ftoken", "..", "a.b", "%00"):
        assert client.get(f"/api/calibrations/{name}").status_code in (400, 404)
    page = client.get("/calibrate")
    assert "media-src blob:" in page.headers["content-security-policy"]
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert client.get("/static/calibrate.js").status_code == 200


# ----------------------------------------------------------------------------------------------------------- the page


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A court as a known camera sees it."""
    drawn = np.full((SIZE[1], SIZE[0], 3), (90, 140, 190), np.uint8)
    for line in trace(VIEW, BASKETBALL, SIZE):
        cv2.polylines(drawn, [np.round(line * 8).astype(np.int32)], False, (255, 255, 255), 3, cv2.LINE_AA, 3)
    path = tmp_path_factory.mktemp("picture") / "frame.png"
    cv2.imwrite(str(path), drawn)
    return path


def on_screen(page: Any, name: str, shift: tuple[float, float] = (0.0, 0.0)) -> tuple[float, float]:
    """Where on the screen a landmark of the picture is."""
    box = page.locator("#picture svg").bounding_box()
    u, v = VIEW.to_pixels(landmarks(BASKETBALL)[name])
    return box["x"] + (u + shift[0]) / SIZE[0] * box["width"], box["y"] + (v + shift[1]) / SIZE[1] * box["height"]


def click_landmark(page: Any, name: str, shift: tuple[float, float] = (0.0, 0.0)) -> None:
    page.locator(f"#plan [data-name='{name}']").click()
    page.mouse.click(*on_screen(page, name, shift))


def open_picture(studio: Studio, picture: Path, open_page: Opener, *, calm: bool = True) -> Any:
    page = open_page(studio.address, calm=calm, viewport={"width": 1920, "height": 1080}).page
    page.get_by_role("link", name="Calibrate a camera").click()
    page.locator("#plan .landmark").first.wait_for()
    page.set_input_files("#file", picture)
    page.locator("#picture .stage").wait_for()
    page.get_by_label("Zoom").select_option("100 %")
    return page


def test_a_picture_is_calibrated_by_clicks_and_the_file_is_right_to_a_pixel(
    studio: Studio, picture: Path, open_page: Opener
) -> None:
    page = open_picture(studio, picture, open_page)
    assert page.get_by_role("button", name="Save").is_disabled()
    for name in CLICKED[:3]:
        click_landmark(page, name)
    assert "1 more to go" in page.locator(".told").inner_text()
    assert page.locator("#picture .line").count() == 0
    for name in CLICKED[3:]:
        click_landmark(page, name)
    page.get_by_text("homography from 6 of 6 points").wait_for()
    assert page.locator("#picture .line").count() > 10
    assert page.locator("#told tbody tr").count() == 6
    screenshot(page, "studio-calibrate")
    page.get_by_label("Save as").fill("by clicks")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved as calibrations/by clicks.json").wait_for()
    found = load_calibration(studio.folder / "calibrations" / "by clicks.json")
    assert np.linalg.norm(found.to_pixels(CHECK) - VIEW.to_pixels(CHECK), axis=1).max() < 1.0
    assert found.size == SIZE
    with page.expect_download() as download:
        page.get_by_role("link", name="download it").click()
    assert json.loads(Path(download.value.path()).read_text())["format"] == "simile-calibration"


def test_crosses_are_dragged_moved_by_keys_taken_back_and_removed(
    studio: Studio, picture: Path, open_page: Opener
) -> None:
    page = open_picture(studio, picture, open_page, calm=False)  # a refusal is heard in the console
    for name in CLICKED:
        click_landmark(page, name, (30.0, -20.0) if name == "centre" else (0.0, 0.0))

    def cross(name: str = "centre") -> list[float]:
        label = page.locator(f"[data-mark='{name}']").get_attribute("aria-label")
        return [float(number) for number in re.findall(r"-?[\d.]+", label)]

    u, v = VIEW.to_pixels(landmarks(BASKETBALL)["centre"])
    assert cross() == pytest.approx([u + 30.0, v - 20.0], abs=1.0)
    page.mouse.move(*on_screen(page, "centre", (30.0, -20.0)))
    page.mouse.down()
    page.mouse.move(*on_screen(page, "centre", (12.0, 5.0)), steps=4)
    page.mouse.move(*on_screen(page, "centre"), steps=4)
    page.mouse.up()
    assert cross() == pytest.approx([u, v], abs=1.0)
    before = cross()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowUp")
    assert cross() == pytest.approx([before[0] + 1.0, before[1] - 10.0], abs=0.11)
    for _ in range(2):
        page.keyboard.press("Control+z")
    assert cross() == pytest.approx(before, abs=0.11)
    page.get_by_role("button", name="Undo").click()
    assert cross() == pytest.approx([u + 30.0, v - 20.0], abs=1.0)
    page.locator("[data-mark='centre']").focus()
    page.keyboard.press("Delete")
    assert page.locator("[data-mark]").count() == 5
    page.get_by_role("button", name="Remove left near key").click()
    assert page.locator("[data-mark]").count() == 4
    # By keys alone: a landmark of the plan, into the middle of the picture, and from there to its place.
    page.locator("#plan [data-name='centre']").focus()
    page.keyboard.press("Enter")
    page.locator("#picture svg").focus()
    page.keyboard.press("Enter")
    assert cross() == pytest.approx([640.0, 360.0])
    assert page.locator("#told tbody tr").count() == 5


def test_points_that_do_not_fit_are_told_and_nothing_can_be_saved(
    studio: Studio, picture: Path, open_page: Opener
) -> None:
    page = open_picture(studio, picture, open_page, calm=False)  # a refusal is heard in the console
    for name in CLICKED:
        click_landmark(page, name, (250.0, 120.0) if name == "centre" else (0.0, 0.0))
    page.locator(".told.trouble").wait_for()
    assert "centre spoils the others" in page.locator(".told").inner_text()
    assert page.get_by_role("button", name="Save").is_disabled()
    page.locator("#sport").select_option("soccer")
    assert page.locator("[data-mark]").count() == 0
    page.locator("#plan [data-name='left penalty spot']").wait_for()
    page.get_by_label("Length (m)").fill("100")
    page.get_by_label("Length (m)").press("Tab")
    until(page, "Number(document.querySelector('#plan svg').viewBox.baseVal.width) === 112")


def test_a_frame_of_a_video_will_do(studio: Studio, tmp_path: Path, open_page: Opener) -> None:
    av = pytest.importorskip("av", reason="needs the extra video")
    with av.open(str(tmp_path / "game.webm"), "w") as sink:
        stream = sink.add_stream("libvpx", rate=10, options={"deadline": "realtime", "cpu-used": "8"})
        stream.width, stream.height, stream.pix_fmt = 320, 180, "yuv420p"
        for brightness in (40, 80, 120, 160, 200):
            frame = av.VideoFrame.from_ndarray(np.full((180, 320, 3), brightness, np.uint8), format="rgb24")
            sink.mux(stream.encode(frame))
        sink.mux(stream.encode())
    page = open_picture(studio, tmp_path / "game.webm", open_page)
    shown = "document.querySelector('canvas').getContext('2d').getImageData(9, 9, 1, 1).data[0]"
    assert page.evaluate(shown) < 80
    slider = page.get_by_label("Moment of the video")
    slider.evaluate("s => { s.value = 0.4; s.dispatchEvent(new Event('input')) }")
    until(page, f"{shown} > 150")
    (tmp_path / "notes.png").write_text("no picture")
    page.set_input_files("#file", tmp_path / "notes.png")
    page.get_by_text("notes.png cannot be shown by this browser").wait_for()
