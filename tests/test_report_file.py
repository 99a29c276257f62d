"""A report is one harmless file: it asks nobody, hostile names stay text, and it stays small."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import simile
from conftest import demos_of
from reports import assert_page_can_read, linear, run_of
from simile.evaluation.report import Report

HOSTILE = "</script><img src=x onerror=alert(1)> & 'ünï' \u2028 {{report}}"


class Elements(HTMLParser):
    """What a browser would see of a page: the elements, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict]] = []
        self.texts: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img", "br", "hr", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        name = self.seen[-1][1].get("id") or self.open[-1] if self.open else ""
        self.texts[name] = self.texts.get(name, "") + data


def test_a_page_is_one_file_that_asks_nobody_and_hostile_names_stay_text(tmp_path):
    contexts = [np.random.default_rng(i).normal(size=(60, 1)).cumsum(axis=0) for i in range(2)]
    demos = simile.Demonstrations.from_arrays(
        contexts,
        [0.2 * c for c in contexts],
        names=[HOSTILE, "b"],
        context_names=[HOSTILE],
        action_names=[f"a{HOSTILE}"],
    )
    report = Report.of(run_of(linear(1)), demos, title=HOSTILE, repeat={"command": HOSTILE})
    assert_page_can_read(report)
    report.save(tmp_path / "new" / "report.html")
    text = (tmp_path / "new" / "report.html").read_text("utf-8")
    assert text == report.to_html()
    page = Elements(text)
    assert page.open == []
    scripts = [attributes for tag, attributes in page.seen if tag == "script"]
    assert [s.get("id") for s in scripts] == ["report", None, "series-0", "series-1"]
    assert not any(tag == "img" for tag, _ in page.seen)
    assert json.loads(page.texts["report"]) == report.content
    assert json.loads(page.texts["series-1"]) == report.series[1]
    assert report.content["title"] == HOSTILE
    said = re.sub(r"<!--.*?-->|/\*.*?\*/", "", text, flags=re.DOTALL)
    assert not re.search(r"https?:", said)
    for _, attributes in page.seen:
        assert not any(str(attributes.get(n, "data:")).startswith(("http", "//")) for n in ("src", "href"))


def test_a_name_that_utf_8_cannot_write_does_no_harm(tmp_path):
    report = Report.of(run_of(linear(2)), demos_of(30), title="half \ud800 a pair")
    report.save(tmp_path / "report.html")
    assert "half ? a pair" in (tmp_path / "report.html").read_text("utf-8")


def test_a_report_shows_itself_in_a_line():
    report = Report.of(run_of(linear(2)), demos_of(30), title="pan")
    assert repr(report) == "Report('pan', 1 sequence)"


@pytest.mark.parametrize("frames", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_report_of_a_million_frames_stays_below_fifteen_megabytes(frames: int):
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=(frames, 1)), axis=0)
    demos = simile.Demonstrations.from_arrays([walk], [walk + rng.normal(size=walk.shape)], rate=25.0)
    report = Report.of(run_of(linear(1, slope=1.0)), demos)
    assert report.series[0]["frames"] == frames
    assert len(report.to_html()) < 1e6 + 14 * frames
