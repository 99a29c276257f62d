"""The report in all circumstances: dark, small, printed, huge, hostile, incomplete; and for those who cannot see it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import browser as real
from browser import pixels_near, screenshot, scrolls_sideways, until
from report_pages import curves_of, drawn, packed, report_of, write_page

browser, open_page = real.browser, real.open_page

BLUE, SKY = "#0072b2", "#56b4e9"
PLOT = ".timechart .plot canvas"
HOSTILE = "</script><img src=x onerror=alert(1)>"
MEGABYTE = 2**20

# Pan by the wheel in every frame that the browser draws, for a second; count them.
FRAMES_PER_SECOND = """() => new Promise((resolve) => {
  const area = document.querySelector(".timechart .plot");
  let frames = 0;
  let begin = null;
  const step = (now) => {
    begin ??= now;
    if (now - begin >= 1000) return resolve((1000 * frames) / (now - begin));
    frames += 1;
    area.dispatchEvent(new WheelEvent("wheel", { deltaX: frames % 60 < 30 ? 20 : -20, cancelable: true }));
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with everything in it."""
    return write_page(tmp_path_factory.mktemp("report") / "report.html", report_of())


def test_the_theme_button_goes_through_auto_light_and_dark(path, open_page):
    page = drawn(open_page(path, color_scheme="light"))
    paper = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")  # noqa: E731
    page.wait_for_timeout(100)
    light = paper()
    assert pixels_near(page, PLOT, BLUE, 20) > 300
    button = page.locator("#theme")
    button.click()
    assert paper() == light
    button.click()
    page.wait_for_timeout(100)
    assert paper() != light
    assert pixels_near(page, PLOT, SKY, 20) > 300 > 5 > pixels_near(page, PLOT, BLUE, 20)
    page.reload()
    drawn(real.Opened(page))
    assert "Dark" in button.inner_text()
    assert paper() != light
    button.click()
    assert paper() == light


def test_it_is_dark_where_the_system_is(path, open_page):
    page = drawn(open_page(path, color_scheme="dark"))
    page.wait_for_timeout(100)
    assert pixels_near(page, PLOT, SKY, 20) > 300
    screenshot(page, "report-dark")
    page.emulate_media(color_scheme="light")
    page.wait_for_timeout(100)
    assert pixels_near(page, PLOT, BLUE, 20) > 300


def test_a_small_window_does_not_scroll_sideways(path, open_page):
    page = drawn(open_page(path, viewport={"width": 360, "height": 700}, has_touch=True))
    assert not scrolls_sideways(page)
    widths = page.evaluate("[...document.querySelectorAll('.uplot')].map((u) => u.getBoundingClientRect().right)")
    assert max(widths) <= 360
    screenshot(page, "report-small")
    page.set_viewport_size({"width": 1600, "height": 900})
    page.wait_for_timeout(300)
    assert page.evaluate("document.querySelector('.timechart canvas').clientWidth") > 700


def test_one_finger_pans_the_strip(path, open_page):
    page = drawn(open_page(path, viewport={"width": 360, "height": 700}, has_touch=True))
    page.get_by_role("button", name="Zoom in").click()
    page.locator(".timechart .strip").scroll_into_view_if_needed()
    box = page.locator(".timechart .strip .u-over").bounding_box()
    session = page.context.new_cdp_session(page)
    y, at = box["y"] + 20, [box["x"] + share * box["width"] for share in (0.5, 0.4, 0.3)]
    for kind, x in zip(("touchStart", "touchMove", "touchMove"), at, strict=True):
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    until(page, "document.querySelector('.timechart').dataset.begin < 300")


def test_it_prints_in_light_colours(path, open_page):
    page = drawn(open_page(path, color_scheme="dark"))
    page.evaluate("""() => addEventListener("beforeprint", () => {
      document.body.dataset.printed = document.documentElement.dataset.theme;
    })""")
    assert len(page.pdf(format="A4")) > 50_000
    assert page.get_attribute("body", "data-printed") == "light"
    page.emulate_media(media="print")
    page.wait_for_timeout(200)
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 31, 36)"
    assert pixels_near(page, PLOT, BLUE, 20) > 300
    assert [page.is_visible(one) for one in ("#verdict", PLOT, "nav", "#theme", ".moments")] == [True, True] + 3 * [
        False
    ]
    page.set_viewport_size({"width": 690, "height": 900})
    page.wait_for_timeout(200)
    assert not scrolls_sideways(page)
    screenshot(page, "report-print")
    page.emulate_media(media="screen")
    page.wait_for_timeout(200)
    assert pixels_near(page, PLOT, SKY, 20) > 200


def hostile(value: Any) -> Any:
    """Give every text of a report a hostile end, but for those that the page looks up."""
    if isinstance(value, dict):
        kept = {"series", "mood", "kind", "made"}
        return {key: one if key in kept else hostile(one) for key, one in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) else value


def test_hostile_names_are_just_text(tmp_path, open_page):
    opened = open_page(None)
    alerts: list[str] = []
    opened.page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    written = write_page(tmp_path / "hostile.html", hostile(report_of()))
    opened.page.goto(written.as_uri())
    page = drawn(opened)
    page.wait_for_timeout(200)
    assert page.locator("img").count() == 0
    assert opened.requests == [written.as_uri()]
    assert alerts == []
    for where in ("h1", "#verdict", "#curves", "#errors", "#smoothness", "#attention", "#trust", "#again", "#footer"):
        assert HOSTILE in page.inner_text(where), where


@pytest.mark.parametrize("rate", [None, 25.0])
def test_what_is_missing_is_left_out(tmp_path, open_page, rate):
    none = {
        "lag": None,
        "spectrum": None,
        "motion": None,
        "importances": None,
        "diagnosis": None,
        "repeat": None,
        "chosen": None,
    }
    empty = {"rounds": [], "frontier": [], "moments": [], "notes": [], "table": {"columns": [], "rows": []}}
    report = report_of((400,), ("pan",)) | none | empty | {"rate": rate, "frontier_note": ""}
    report["sequences"][0] |= {"error": None, "rmse": [None], "roughness": None, "lag": None}
    page = drawn(open_page(write_page(tmp_path / "little.html", report)))
    assert page.locator("section").evaluate_all("all => all.map((one) => one.id)") == ["short", "curves", "errors"]
    assert page.locator("nav a").all_inner_texts() == ["In short", "Curves", "Errors"]
    assert page.locator("#errors td").all_inner_texts()[1:4] == ["\u2013"] * 3


def test_a_report_without_sequences_has_no_curves(tmp_path, open_page):
    page = drawn(open_page(write_page(tmp_path / "none.html", report_of(()) | {"moments": []})))
    assert page.locator("#curves, #errors").count() == 0
    assert page.locator("#smoothness canvas").count() == 1


def test_missing_numbers_do_not_trouble_the_charts(tmp_path, open_page):
    report = report_of()
    for one in report["rounds"][3:6]:
        one |= dict.fromkeys(("beta", "sigma", "error", "roughness", "validation_error", "validation_roughness"))
    report["frontier"][2]["points"] = [{"roughness": None, "error": 0.4, "label": ""}] * 2
    report["frontier"][3]["points"][0] |= {"error": None}
    report["frontier"][4]["points"][0] |= {"error": 1e9, "roughness": 0.0}
    report["lag"] |= {"best": [None, None], "correlation": [[None] * 61] * 2}
    report["spectrum"]["policy"][0] = [0.0] * 200
    report["spectrum"]["expert"][1] = [None] * 200
    report["table"]["rows"][0][1] = None
    page = drawn(open_page(write_page(tmp_path / "gaps.html", report)))
    page.locator("#curves select").last.select_option("1")
    page.wait_for_timeout(200)
    page.locator("#smoothness th button", has_text="Error").click()
    assert page.locator("#smoothness tbody tr").last.inner_text().startswith("simile")


def test_a_single_round_is_told_in_a_sentence(tmp_path, open_page):
    report = report_of((400,), ("pan",))
    page = drawn(open_page(write_page(tmp_path / "one.html", report | {"rounds": report["rounds"][:1]})))
    assert "a single round" in page.inner_text("#training")
    assert page.locator("#training canvas").count() == 0


def test_of_a_mixture_it_is_told_what_it_is_made_of(tmp_path, open_page):
    rows = [["forest", "0.4 s ahead", 72.3], ["line", "now", 27.7]]
    parts = {"mixture": {"columns": ["model", "aims at the action", "% of pan"], "rows": rows}, "in_turn": True}
    page = drawn(open_page(write_page(tmp_path / "parts.html", report_of((400,), ("pan",)) | parts)))
    assert page.inner_text("#training h2") == "What is it made of?"
    assert page.locator("#training td").all_inner_texts() == ["forest", "0.4 s ahead", "72", "line", "now", "28"]
    assert "what was learned from the others" in page.inner_text("#curves")


def test_curves_that_are_not_there_are_missed_in_words(tmp_path, open_page):
    page = open_page(write_page(tmp_path / "cut.html", report_of((400,), ("pan",)), [])).page
    page.wait_for_selector("#curves [role=alert]:not([hidden])")
    assert "cut short" in page.inner_text("#curves [role=alert]")


def test_pointing_at_the_frontier_says_what_is_there(path, open_page):
    page = drawn(open_page(path))
    over = page.locator("#smoothness .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    for share in np.linspace(0.05, 0.95, 30):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.9 * box["height"])
        if page.is_visible("#smoothness .tip"):
            break
    assert "smoothness" in page.inner_text("#smoothness .tip")
    assert "roughness (1: the expert's): " in page.inner_text("#smoothness .tip")


def test_commands_can_be_copied(path, open_page):
    page = drawn(open_page(path))
    for button in page.get_by_role("button", name="Copy").all():
        button.click()
        until(page, "button => button.textContent !== 'Copy'", arg=button.element_handle())
        assert button.inner_text() in ("Copied", "Selected")


def test_it_can_be_read_aloud_and_used_by_keyboard(path, open_page):
    page = drawn(open_page(path))
    nameless = "all => all.filter((one) => !(one.getAttribute('aria-label') || one.textContent).trim()).length"
    assert page.locator("button, a").evaluate_all(nameless) == 0
    assert page.locator("select").evaluate_all("all => all.filter((one) => !one.labels.length).length") == 0
    lonely = "all => all.filter((one) => !one.closest('[role=group][aria-label]')).length"
    assert page.locator("canvas").evaluate_all(lonely) == 0
    levels = page.locator("h1, h2, h3, h4").evaluate_all("all => all.map((one) => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for landmark in ("header", "nav", "main", "footer"):
        assert page.locator(landmark).count() == 1
    ids = page.locator("[id]").evaluate_all("all => all.map((one) => one.id)")
    assert len(ids) == len(set(ids))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(path, open_page, theme):
    page = drawn(open_page(path, color_scheme=theme))
    read = "name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()"
    pairs = [(text, behind) for text in ("ink", "faint", "accent", "poor") for behind in ("card", "paper", "raised")]
    pairs += [(mood, f"{mood}-soft") for mood in ("good", "fair", "poor", "unknown")] + [("ink", "fair-soft")]
    pairs += [("on-accent", "accent"), ("card", "ink")]
    for text, behind in pairs:
        dim, bright = sorted(luminance(page.evaluate(read, name).ljust(7, "0")) for name in (text, behind))
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, (text, behind)


@pytest.mark.parametrize(("frames", "others"), [(100_000, 10), pytest.param(1_000_000, 100, marks=pytest.mark.long)])
def test_a_million_frames_open_and_pan_at_once(tmp_path, open_page, frames, others):
    lengths = (frames, *(10_000,) * others)
    report = report_of(lengths, ("pan",)) | {"curves": ["expert", "policy"]}
    series = [packed(curves_of(length, 1, seed)[:, :2]) for seed, length in enumerate(lengths)]
    written = write_page(tmp_path / "million.html", report, series)
    assert written.stat().st_size < 15 * MEGABYTE
    for attempt in range(2):  # a shared machine may be busy: once more
        opened = open_page(f"{written.as_uri()}#sequence=0")
        page = drawn(opened)
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        assert int(page.get_attribute(".timechart", "data-points")) < 8_000
        page.focus(".timechart")
        for _ in range(3):
            page.keyboard.press("+")
        rate = page.evaluate(FRAMES_PER_SECOND)
        print(f"{written.stat().st_size / MEGABYTE:.1f} MB, paint after {paint:.0f} ms, {rate:.0f} frames per second")
        if attempt or (paint < 2000 and rate > 20):
            break
        page.close()
    assert paint < 2000
    assert rate > 20
