"""Pages of numbers are those of this code: each carries a fingerprint, which changes when the numbers do."""

from __future__ import annotations

import re
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import simile
from simile.errors import ArgumentError
from simile.experiments.fingerprint import PARTS, compute, find_stale, find_stamp, fingerprint, stamp, write_block
from simile.learning import components, holds, mixture
from simile.models import SmoothForest

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "docs/assets/bench"
sys.path.insert(0, str(ROOT / "benchmarks"))
QUOTES = runpy.run_path(str(ROOT / "benchmarks/quotes.py"))["QUOTES"]
sys.path.pop(0)

# What commands print or write whole, and the blocks that they write into pages.
PRINTED = (
    *(
        "accuracy",
        "axes",
        "bands",
        "bounds",
        "curve",
        "delays",
        "demo",
        "eye",
        "hardness",
        "intervals",
        "loop",
        "outliers",
        "timing",
        "verdicts",
    ),
    "tutorial",
)
WRITTEN = ("docs/results.md", "docs/assets/results/results.json", *(f"docs/assets/bench/{n}.txt" for n in PRINTED))
BLOCKS = tuple((page, name) for page, name, *_ in QUOTES)
SPEEDS = {
    "attack",
    "camera",
    "cold_start",
    "files",
    "forest",
    "learning",
    "live",
    "millions",
    "online",
    "pages",
    "scaling",
    "serving",
    "soak",
}
HISTORY = {"networks"}  # of their time, as their pages say
# Not renewed since the default is one mixture: whoever runs `make accuracy` and `make results` empties this.
AWAITED: set[str | tuple[str, str]] = set()


def block(page: str, name: str) -> str:
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text.count(begin) == text.count(end) == 1, f"{page} must have one block {name!r}"
    return text.partition(begin)[2].partition(end)[0]


@pytest.mark.parametrize("place", [*WRITTEN, *BLOCKS], ids=lambda p: p if isinstance(p, str) else "-".join(p))
def test_pages_have_the_numbers_of_this_code(place):
    text = block(*place) if isinstance(place, tuple) else None
    if place in AWAITED:
        pytest.skip(f"{place} waits to be written anew, with the fingerprint of this code")
    text = (ROOT / place).read_text(encoding="utf-8") if text is None else text
    assert find_stamp(text)
    assert not list(find_stale(text)), f"{place}: {'; '.join(find_stale(text))}"


@pytest.mark.parametrize(("page", "name", "source", "quote"), QUOTES)
def test_what_a_page_quotes_is_what_was_printed(page, name, source, quote):
    if {source, (page, name)} & AWAITED:
        pytest.skip(f"{source} waits to be written anew, with the fingerprint of this code")
    printed = (ROOT / source).read_text(encoding="utf-8")
    assert quote(printed) in block(page, name), f"python benchmarks/quotes.py {name}"
    assert find_stamp(printed) in block(page, name)


@pytest.mark.parametrize("name", ["holding", "hardness", "results"])
def test_tables_can_be_made_of_what_was_printed(name):
    (source, quote), *_ = ((source, quote) for _, block, source, quote in QUOTES if block == name)
    table = quote((ROOT / source).read_text(encoding="utf-8")).split("\n\n")[0].splitlines()
    assert len(table) > 6
    assert {line.count(" | ") for line in table[2:]} == {table[0].count(" | ")}


def test_everything_that_is_waited_for_is_a_place_with_old_numbers():
    assert set(WRITTEN) | set(BLOCKS) >= AWAITED
    for place in AWAITED:
        text = block(*place) if isinstance(place, tuple) else (ROOT / place).read_text(encoding="utf-8")
        assert list(find_stale(text)), f"{place} has the numbers of this code: take it off AWAITED"


def test_every_kept_output_is_of_numbers_or_of_speeds_or_of_history():
    found = {path.stem for path in BENCH.glob("*.txt")}
    assert {*PRINTED, *SPEEDS, *HISTORY} - {"demo", "tutorial"} <= found <= {*PRINTED, *SPEEDS, *HISTORY}


@pytest.mark.parametrize("page", ["networks", "search", "tuning"])
def test_what_is_not_renewed_says_that_it_is_history(page):
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    assert re.search(r"\bhistory,\s(of|from before) simile\s0\.1\.0,\sand\s(is )?not renewed", text)


def test_no_page_has_a_stale_fingerprint_anywhere():
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *BENCH.glob("*.txt")):
        place, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        for awaited in (block(*one) for one in AWAITED if isinstance(one, tuple) and one[0] == place):
            text = text.replace(awaited, "")
        stale = list(find_stale(text)) if place not in AWAITED else []
        assert not stale, f"{path.name}: {'; '.join(stale)}"


# --- the fingerprint


@pytest.mark.parametrize("part", PARTS)
def test_a_fingerprint_is_eight_letters_and_the_same_again(part):
    assert re.fullmatch("[0-9a-f]{8}", fingerprint(part))
    if part == "games":  # the others are made in the same way, and take seconds
        assert compute(part) == fingerprint(part)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [("rounds", "min_leaf", 31), pytest.param("rounds", "n_trees", 49, marks=pytest.mark.long)],
)
def test_a_changed_default_of_the_forest_changes_it(monkeypatch, part, name, value):
    before = fingerprint(part)
    fields = list(SmoothForest.__dataclass_fields__)
    defaults = list(SmoothForest.__init__.__defaults__)
    defaults[fields.index(name)] = value
    monkeypatch.setattr(SmoothForest.__init__, "__defaults__", tuple(defaults))
    assert compute(part) != before


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (mixture, "MODELS", (replace(components.MODELS[0], min_leaf=19), *components.MODELS[1:])),
        pytest.param(mixture, "FLAT", 0.006, marks=pytest.mark.long),
        pytest.param(holds, "COST", 1.1 * holds.COST, marks=pytest.mark.long),
    ],
)
def test_a_changed_constant_of_the_default_changes_it(monkeypatch, place, name, value):
    before = fingerprint("learn")
    monkeypatch.setattr(place, name, value)
    assert compute("learn") != before


def test_the_last_places_do_not_change_it_and_the_fourth_does(monkeypatch):
    values = [1.2341, -0.012344, 5.0, 0.0, 77777.0]

    def of(factor):
        monkeypatch.setitem(PARTS, "games", lambda: [factor * v for v in values])
        return compute("games")

    assert of(1.0) == of(1.0 + 1e-9) != of(1.001)


def test_an_unknown_part_is_refused():
    with pytest.raises(ArgumentError, match="part must be among rounds, learn"):
        compute("speed")


# --- stamps


def test_a_stale_page_is_told_with_the_command_that_renews_it():
    now = stamp("games", renew="make accuracy")
    assert not list(find_stale(f"<!-- {now} -->\n"))
    (told,) = find_stale(f"text\n<!-- {now.replace(fingerprint('games'), '0' * 8)} -->\n")
    assert told.endswith(f"(simile {simile.__version__}), not {fingerprint('games')}: make accuracy")
    assert "'games' are those of fingerprint 00000000" in told


def test_a_block_is_written_with_its_stamp_and_again(tmp_path):
    page, stamped = tmp_path / "page.md", stamp("games", renew="make accuracy")
    page.write_text("# Page\n\n<!-- table:begin -->\nold\n<!-- table:end -->\n\nbelow\n", encoding="utf-8")
    for text in ("| new \\1 |", "| newer |"):
        write_block(page, "table", text, f"what was printed\n{stamped}\n")
        written = page.read_text(encoding="utf-8")
        assert written == (
            f"# Page\n\n<!-- table:begin -->\n<!-- {stamped} -->\n\n{text}\n\n<!-- table:end -->\n\nbelow\n"
        )


@pytest.mark.parametrize(
    "text", ["", "<!-- t:end --><!-- t:begin -->", "<!-- t:begin -->", "<!-- t:begin --><!-- t:end -->" * 2]
)
def test_a_page_without_the_place_of_a_block_is_refused_and_left(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(ArgumentError, match="must have <!-- t:begin --> and, below it, <!-- t:end --> once"):
        write_block(page, "t", "new", stamp("games", renew="make accuracy"))
    assert page.read_text(encoding="utf-8") == text


def test_numbers_without_a_stamp_are_not_quoted(tmp_path):
    with pytest.raises(ArgumentError, match="has no fingerprint"):
        write_block(tmp_path / "page.md", "t", "new", "RMSE 0.5\n")


def test_the_command_prints_a_stamp(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["stamp.py", "games", "--renew", "make accuracy"])
    runpy.run_path(str(ROOT / "benchmarks/stamp.py"), run_name="__main__")
    assert capsys.readouterr().out == stamp("games", renew="make accuracy") + "\n"
