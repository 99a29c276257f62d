"""Courts by name, and courts of one's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile.camera.courts import COURTS, Court
from simile.errors import ArgumentError


@pytest.mark.parametrize("name", COURTS)
def test_a_court_is_told_by_its_name(name):
    assert Court.parse(name) is COURTS[name]
    assert Court.parse(name.upper()) == COURTS[name]
    assert COURTS[name].goal <= COURTS[name].length / 2


@given(st.sampled_from(["court", *COURTS]), st.integers(10, 200), st.integers(10, 200))
def test_what_a_court_says_is_understood_again(name, length, width):
    own = Court.parse(f"{length},{width}" if name == "court" else f"{name}, {length}, {width}")
    assert (own.name, own.length, own.width) == (name, length, width)
    assert Court.parse(str(own)) == own


def test_the_goals_of_a_court_of_ones_own_stand_as_far_before_its_end():
    assert Court.parse("basketball,26,14").goal == pytest.approx(13.0 - 1.575)
    assert Court.parse("40,20").goal == 20.0


@pytest.mark.parametrize(
    "text", ["", "quidditch", "40", "40,0", "40,-20", "40,20,20", "soccer,100", "40,wide", "nan,20"]
)
def test_what_is_no_court_is_refused_with_those_that_are(text):
    with pytest.raises(ArgumentError, match=r"court must be basketball, nba, .* or length,width in metres"):
        Court.parse(text)
