"""The report in a real browser: it draws what it holds, answers to mouse and keys, and needs nothing from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import browser as real
from browser import pixels_near, screenshot, until
from report_pages import drawn, packed, report_of, write_page

browser, open_page = real.browser, real.open_page

BLUE, INK = "#0072b2", "#1b1f24"
PLOT = ".timechart .plot canvas"

# Where a colour lies in a canvas: the mean height, in pixels, of what is near it at a share of the width.
HEIGHT_AT = """([selector, colour, share]) => {
  const canvas = document.querySelector(selector);
  const over = canvas.parentElement.querySelector(".u-over");
  const ratio = canvas.width / canvas.clientWidth;
  const x = Math.round((over.offsetLeft + share * over.clientWidth) * ratio);
  const { data } = canvas.getContext("2d").getImageData(x, 0, 1, canvas.height);
  const wanted = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  const rows = [];
  for (let y = 0; y < canvas.height; y++) {
    if (data[4 * y + 3] > 128 && wanted.every((w, c) => Math.abs(data[4 * y + c] - w) < 40)) rows.push(y);
  }
  return rows.length ? rows.reduce((a, b) => a + b) / rows.length : null;
}"""


# The share of the plot that is vermilion and see-through: a mark.
MARKED = """(selector) => {
  const canvas = document.querySelector(selector);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] > 190 && data[i + 1] > 60 && data[i + 1] < 130 && data[i + 2] < 30 && data[i + 3] < 60) {
      count += data[i + 3] > 20 ? 1 : 0;
    }
  }
  return (4 * count) / data.length;
}"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with everything in it."""
    return write_page(tmp_path_factory.mktemp("report") / "report.html", report_of())


def view(page: Any) -> tuple[int, int]:
    """The frames in view."""
    return tuple(int(page.get_attribute(".timechart", f"data-{side}")) for side in ("begin", "end"))


def plot_box(page: Any, of: str = ".plot") -> dict[str, float]:
    page.locator(f".timechart {of} .u-over").scroll_into_view_if_needed()
    return page.locator(f".timechart {of} .u-over").bounding_box()


def drag(page: Any, box: dict[str, float], begin: float, end: float) -> None:
    """Drag from one share of the width to another."""
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + begin * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], y, steps=5)
    page.mouse.up()


def test_a_report_opens_as_a_file_without_a_network(path, open_page):
    opened = open_page(path, offline=True)
    page = drawn(opened)
    assert opened.requests == [path.as_uri()]
    assert page.inner_text("#verdict").startswith("It follows the operator")
    assert page.locator(".answer").count() == 6
    assert page.locator("section h2").all_inner_texts()[1:] == [
        "What did it do?",
        "Where does it err?",
        "How smooth should I choose?",
        "How did the training go?",
        "Is it on time?",
        "Is it smooth?",
        "Does it look like a person?",
        "What does it look at?",
        "Can I trust it?",
        "How do I do it again?",
    ]
    screenshot(page, "report-light")


def test_the_verdict_is_readable_without_scripts(path, open_page):
    page = open_page(path, java_script_enabled=False).page
    assert "eighth of a second" in page.inner_text("#verdict")
    assert "need scripts" in page.inner_text("noscript")


def test_curves_are_drawn_where_their_values_are(tmp_path, open_page):
    values = np.zeros((2000, 2, 1))
    values[1000:, 1] = 10.0
    values[:, 0] = 5.0
    report = report_of((2000,), ("pan",)) | {"curves": ["expert", "policy"]}
    page = drawn(open_page(write_page(tmp_path / "steps.html", report, [packed(values)])))
    page.wait_for_timeout(100)
    low, high = (page.evaluate(HEIGHT_AT, [PLOT, BLUE, share]) for share in (0.25, 0.75))
    middle = page.evaluate(HEIGHT_AT, [PLOT, INK, 0.4])
    assert low - high > 100
    assert abs(middle - (low + high) / 2) < 2.0
    assert pixels_near(page, ".timechart .strip canvas", BLUE) > 20


def test_gaps_in_a_curve_stay_gaps(tmp_path, open_page):
    values = np.ones((2000, 2, 1)) * [[0.0], [1.0]]
    values[800:1200, 1] = np.nan
    report = report_of((2000,), ("pan",)) | {"curves": ["expert", "policy"]}
    page = drawn(open_page(write_page(tmp_path / "gap.html", report, [packed(values)])))
    page.wait_for_timeout(100)
    assert [page.evaluate(HEIGHT_AT, [PLOT, BLUE, share]) is None for share in (0.25, 0.5, 0.75)] == [
        False,
        True,
        False,
    ]


# Of the lanes below the curves, at a share of the width: in which of them the colour of its curve lies.
RESTS_AT = """([selector, colours, share]) => {
  const canvas = document.querySelector(selector);
  const over = canvas.parentElement.querySelector(".u-over");
  const ratio = canvas.width / canvas.clientWidth;
  const x = Math.round((over.offsetLeft + share * over.clientWidth) * ratio);
  const bottom = over.offsetTop + over.clientHeight;
  return colours.map((colour, lane) => {
    const y = Math.round((bottom + 6 + 9 * lane + 3) * ratio);
    const { data } = canvas.getContext("2d").getImageData(x, y, 1, 1);
    return [1, 3, 5].every((i, c) => Math.abs(parseInt(colour.slice(i, i + 2), 16) - data[c]) < 20);
  });
}"""


@pytest.mark.parametrize(
    ("scheme", "colours"),
    [("light", [INK, BLUE]), pytest.param("dark", ["#f4f6f8", "#56b4e9"], marks=pytest.mark.long)],
)
def test_bars_below_the_curves_show_where_they_rest(tmp_path, open_page, scheme, colours):
    values = np.cumsum(np.ones((1000, 2, 1)), axis=0)
    holds = [[100, 300, 700, 900], [200, 400]]
    report = report_of((1000,), ("pan",)) | {"curves": ["expert", "policy"], "moments": []}
    path = write_page(tmp_path / "rests.html", report, [packed(values, holds)])
    page = drawn(open_page(path, color_scheme=scheme))
    page.wait_for_timeout(100)
    rests = lambda share: page.evaluate(RESTS_AT, [PLOT, colours, share])  # noqa: E731
    shown = [rests(share) for share in (0.05, 0.15, 0.25, 0.35, 0.5, 0.8, 0.95)]
    assert shown == [[False] * 2, [True, False], [True] * 2, [False, True], [False] * 2, [True, False], [False] * 2]
    screenshot(page, f"report-rests-{scheme}")
    drag(page, plot_box(page), 0.1, 0.5)  # frames 100 to 500
    until(page, "document.querySelector('.timechart').dataset.end < 600")
    page.wait_for_timeout(100)
    assert [rests(share) for share in (0.1, 0.4, 0.6, 0.9)] == [[True, False], [True] * 2, [False, True], [False] * 2]
    page.get_by_role("button", name="policy").first.click()
    page.wait_for_timeout(100)
    assert rests(0.4) == [True, False]
    assert "when each of them rests" in page.inner_text("#curves")
    assert "At rest\n40 %\nof the time; the expert 44 %" in page.inner_text("#curves .numbers")


def test_the_sequence_in_the_middle_is_shown_first_and_others_by_hand(path, open_page):
    page = drawn(open_page(path))
    order = np.argsort([one["error"] for one in report_of()["sequences"]])
    select = page.locator("#curves select").first
    assert select.input_value() == str(order[1])
    before = page.evaluate("s => document.querySelector(s).toDataURL()", PLOT)
    select.select_option(label="game 2")
    until(page, "([s, old]) => document.querySelector(s).toDataURL() !== old", arg=[PLOT, before])
    assert page.inner_text("#curves .beside h3 >> nth=0") == "game 2"
    page.get_by_label("Next sequence").click()
    assert select.input_value() == "2"
    page.get_by_label("Previous sequence").click()
    assert select.input_value() == "1"
    until(page, "location.hash === '#sequence=1&action=0'")


def test_all_sections_follow_the_action(path, open_page):
    page = drawn(open_page(path))
    before = [
        page.evaluate(f"document.querySelector('{s} canvas').toDataURL()") for s in ("#curves", "#late", "#smooth")
    ]
    page.locator("#late select").select_option(label="tilt")
    page.wait_for_timeout(300)
    assert [s.input_value() for s in page.locator("label:has-text('Action') select").all()] == ["1", "1", "1"]
    after = [
        page.evaluate(f"document.querySelector('{s} canvas').toDataURL()") for s in ("#curves", "#late", "#smooth")
    ]
    assert all(a != b for a, b in zip(before, after, strict=True))
    assert "RMSE of tilt" in page.inner_text("#curves .numbers")


def test_dragging_zooms_and_a_double_click_shows_all(path, open_page):
    page = drawn(open_page(path))
    assert view(page) == (0, 3000)
    box = plot_box(page)
    drag(page, box, 0.25, 0.5)
    assert view(page) == pytest.approx((750, 1500), abs=12)
    drag(page, box, 0.2, 0.6)
    assert view(page) == pytest.approx((900, 1200), abs=12)
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + 20)
    assert view(page) == (0, 3000)


def test_shift_and_dragging_pans(path, open_page):
    page = drawn(open_page(path))
    box = plot_box(page)
    drag(page, box, 0.25, 0.5)
    begin, end = view(page)
    page.keyboard.down("Shift")
    drag(page, box, 0.5, 0.3)
    page.keyboard.up("Shift")
    assert view(page) == pytest.approx((begin + 0.2 * (end - begin), end + 0.2 * (end - begin)), abs=5)


def test_the_wheel_zooms_about_the_pointer_and_else_scrolls_the_page(path, open_page):
    page = drawn(open_page(path))
    box = plot_box(page)
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 50)
    page.mouse.wheel(0, -300)
    until(page, "document.querySelector('.timechart').dataset.end < 2900")
    begin, end = view(page)
    assert (750 - begin) / (end - begin) == pytest.approx(0.25, abs=0.01)
    page.mouse.wheel(0, 300)
    until(page, "document.querySelector('.timechart').dataset.end === '3000'")
    scrolled = page.evaluate("scrollY")
    page.mouse.wheel(0, 300)
    until(page, "before => scrollY > before + 100", arg=scrolled)


def test_keys_move_the_curves(path, open_page):
    page = drawn(open_page(path))
    page.focus(".timechart")
    for key, expected in (
        ("+", (450, 2550)),
        ("ArrowRight", (712, 2812)),
        ("ArrowLeft", (450, 2550)),
        ("End", (900, 3000)),
        ("-", (0, 3000)),
        ("+", (450, 2550)),
        ("Home", (0, 3000)),
    ):
        page.keyboard.press(key)
        assert view(page) == pytest.approx(expected, abs=2), key
    page.get_by_role("button", name="Zoom in").click()
    assert view(page) == (750, 2250)
    page.get_by_role("button", name="Zoom out").click()
    assert view(page) == (0, 3000)


def test_the_strip_below_pans_and_resizes(path, open_page):
    page = drawn(open_page(path))
    drag(page, plot_box(page), 0.2, 0.4)
    box = plot_box(page, ".strip")
    begin, end = view(page)
    drag(page, box, 0.3, 0.6)
    assert view(page) == pytest.approx((begin + 900, end + 900), abs=10)
    drag(page, box, 0.5, 0.2)  # its left edge
    assert view(page) == pytest.approx((begin, end + 900), abs=25)
    page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 10)
    assert view(page)[1] == 3000


def test_a_worst_moment_is_shown_and_marked(path, open_page):
    page = drawn(open_page(path))
    page.click(".moment >> nth=1")
    page.wait_for_selector(".moment[data-shown]")
    moment = report_of()["moments"][1]
    begin, end = view(page)
    assert begin < moment["begin"] < moment["end"] < end < 2000
    assert page.locator("#curves select").all()[1].input_value() == str(moment["action"])
    page.wait_for_timeout(100)
    assert page.evaluate(MARKED, PLOT) > 0.1
    screenshot(page, "report-moment", full=False)


def test_the_address_remembers_what_is_looked_at(path, open_page):
    page = drawn(open_page(f"{path.as_uri()}#sequence=2&action=1&begin=500&end=900"))
    until(page, "document.querySelector('.timechart').dataset.begin === '500'")
    assert view(page) == (500, 900)
    assert [s.input_value() for s in page.locator("#curves select").all()] == ["2", "1"]
    page.focus(".timechart")
    page.keyboard.press("End")
    until(page, "location.hash.includes('begin=2600&end=3000')")
    address = page.url
    page.reload()
    until(page, "document.querySelector('.timechart')?.dataset.begin === '2600'")
    assert page.url == address


def test_an_address_that_makes_no_sense_is_ignored(path, open_page):
    page = drawn(open_page(f"{path.as_uri()}#sequence=99&action=77&begin=9&end=-1"))
    assert view(page) == (0, 3000)
    assert page.locator("#curves select").first.input_value() == "3"


def test_curves_are_hidden_and_shown_by_the_legend(path, open_page):
    page = drawn(open_page(path))
    page.wait_for_timeout(100)
    assert pixels_near(page, PLOT, BLUE) > 500
    page.get_by_role("button", name="simile", exact=False).first.click()
    page.wait_for_timeout(100)
    assert pixels_near(page, PLOT, BLUE) == 0
    box = plot_box(page)
    page.mouse.move(box["x"] + 200, box["y"] + 80)
    assert page.inner_text(".timechart .entry .value >> nth=0") != ""
    assert page.inner_text(".timechart .now").endswith(" s")


def test_the_motion_of_the_expert_stands_beside_that_of_the_others(path, open_page):
    page = drawn(open_page(path))
    head, *rows = (row.inner_text().split("\t") for row in page.locator("#motion table tr").all())
    assert head == ["who", "action", "reversals a minute", "rest"]
    assert [row[:2] for row in rows] == [[who, action] for action in ("pan", "tilt") for who in ("policy", "expert")]


def test_tables_sort_by_every_column(path, open_page):
    page = drawn(open_page(path))
    names = lambda: page.locator("#errors tbody td:first-child").all_inner_texts()  # noqa: E731
    errors = [one["error"] for one in report_of()["sequences"]]
    worst_first = [f"game {i + 1}" for i in np.argsort(errors)[::-1]]
    assert names() == worst_first
    error = page.locator("#errors th", has_text="Error")
    assert error.get_attribute("aria-sort") == "descending"
    error.locator("button").click()
    assert names() == worst_first[::-1]
    page.locator("#errors th button", has_text="Sequence").click()
    assert names() == ["game 1", "game 2", "game 3", "game 4"]
    for table in ("#errors", "#smoothness"):
        for head in page.locator(f"{table} th").all():
            head.locator("button").click()
            assert head.get_attribute("aria-sort") in ("ascending", "descending")
    page.locator("#errors tbody tr", has_text="game 1").click()
    assert page.locator("#curves select").first.input_value() == "0"
    assert page.get_attribute("#errors tr:has-text('game 1')", "aria-current") == "true"
