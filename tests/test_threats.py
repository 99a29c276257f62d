"""The page on what is promised to whom: every promise names what holds it, and that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "threats.md"
TEXT = PAGE.read_text("utf-8") if PAGE.exists() else ""
ROWS = [
    row
    for row in re.findall(r"^\| (.+?) \| (.*?) ?\|$", TEXT, re.MULTILINE)
    if row[1] != "held by" and "---" not in row[0]
]


@pytest.mark.skipif(not TEXT, reason="needs a checkout")
def test_every_promise_names_what_holds_it() -> None:
    assert len(ROWS) > 20
    bare = [promise for promise, holders in ROWS if "::" not in holders]
    assert bare == []


@pytest.mark.skipif(not TEXT, reason="needs a checkout")
def test_what_holds_a_promise_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    named = re.findall(r"`(test_\w+\.py)::(\w+)`", TEXT)
    assert len(named) > 20
    found = {file: _list_tests(HERE / file) for file in {file for file, _ in named}}
    assert [f"{file}::{name}" for file, name in named if name not in found[file]] == []


@pytest.mark.skipif(not TEXT, reason="needs a checkout")
def test_the_attacks_that_are_named_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE.parent / "benchmarks")
    import attack

    named = re.findall(r"attacks? `([^`]+)`", TEXT)
    assert named
    assert [name for name in named if name not in attack.ATTACKS] == []


def _list_tests(file: Path) -> set[str]:
    tree = ast.parse(file.read_text("utf-8")) if file.exists() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
