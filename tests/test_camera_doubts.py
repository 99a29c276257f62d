"""What does not fit is said, with numbers and the way out; what fits is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simile.camera.courts import BASKETBALL, COURTS, SOCCER
from simile.camera.doubts import doubt_fit, doubt_games
from simile.camera.features import Features, demonstrations
from simile.camera.games import Game
from simile.camera.geometry import Camera
from simile.camera.pace import resample
from simile.camera.simulation import simulate
from simile.camera.tracking.units import METRES
from simile.errors import DataError
from simile.learning.rounds import card_of
from simile.policies.fit import Fit

GAMES = simulate(2, minutes=0.2, seed=3)
PITCH = simulate(1, minutes=0.2, seed=3, sport=SOCCER)[0]
CARD = card_of(demonstrations(GAMES), {})


def on(court, points, **changes):
    return Game("g", 25.0, court, Camera.beside(court), points, **changes)


def test_games_that_fit_are_not_doubted():
    corner = Camera((-18.0, -12.0, 5.0), (55, 0, 0))
    for games in (GAMES, [PITCH], simulate(1, minutes=0.2, seed=3, axes=3, camera=corner)):
        assert doubt_games("a.npz", games) == []
    assert doubt_fit(CARD, GAMES, Features(BASKETBALL)) == []


def test_positions_in_feet_are_said_to_be_so_and_those_far_off_are_an_error():
    (said, *_) = doubt_games("a.csv", [on(BASKETBALL, GAMES[0].detections / METRES["feet"])])
    assert said.startswith("a.csv: ")
    assert "% of the positions lie off the court (28 x 15 m), with x from " in said
    assert "are they in feet? --units feet" in said
    with pytest.raises(DataError, match=r"a.csv: 100% of the positions lie off .*--units cm"):
        doubt_games("a.csv", [on(BASKETBALL, GAMES[0].detections / METRES["cm"])])


def test_positions_from_a_corner_are_said_to_be_so():
    nba = COURTS["nba"]
    corner = (GAMES[0].detections + np.array([nba.length, nba.width]) / 2) / METRES["feet"]
    with pytest.raises(DataError, match=r"in feet from a corner\? --units feet --middle 47,25"):
        doubt_games("a.csv", [on(nba, corner)])
    (said,) = doubt_games("a.csv", [on(BASKETBALL, GAMES[0].detections + np.array([14.0, 7.5]))])
    assert "are they in metres from a corner? --middle 14,7.5" in said


def test_another_court_is_proposed():
    (said,) = doubt_games("a.csv", [on(BASKETBALL, PITCH.detections)])
    assert "is it soccer? --court soccer" in said


def test_positions_in_one_spot_are_doubted():
    share = GAMES[0].detections / [28.0, 15.0]
    (said,) = doubt_games("a.csv", [on(BASKETBALL, share)])
    assert "m of the court (28 x 15 m): what are they in (--units)?" in said


def test_nobody_at_all_is_an_error():
    with pytest.raises(DataError, match=r"a.csv: nobody was detected in any of its 30 frames"):
        doubt_games("a.csv", [on(BASKETBALL, np.full((30, 2, 2), np.nan))])
    with pytest.raises(DataError, match=r"100% of the positions lie off the court .* is the court right"):
        doubt_games("a.csv", [on(BASKETBALL, np.full((30, 2, 2), 1e5))])


def test_frames_that_are_few_or_empty_are_counted():
    empty = GAMES[0].detections.copy()
    empty[:90] = np.nan
    (said,) = doubt_games("a.csv", [on(BASKETBALL, empty)])
    assert "nobody is detected in 30% of the 300 frames" in said
    (said,) = doubt_games("a.csv", [replace(on(BASKETBALL, empty[90:]), rate=0.0625)])
    assert "0.0625 frames a second are too few" in said


def test_an_operator_who_looks_elsewhere_is_doubted():
    game = GAMES[0]
    for actions, words in (
        (-game.actions, "pans the other way than the players run (correlation -"),
        (game.actions + 60.0, "degrees beside the players, as seen from 0,-16.5,8.25: where does the camera stand?"),
        (np.radians(game.actions), "is it in radians?"),
    ):
        (said,) = doubt_games("a.csv", [replace(game, actions=actions)])
        assert words in said


def test_another_pace_court_or_number_of_players_is_said():
    (said,) = doubt_fit(CARD, [replace(game, rate=60.0) for game in GAMES], Features(BASKETBALL))
    assert "was trained at 25 frames a second, and there are 60: it acts 25 times a second" in said
    assert "simile train --resample 60" in said
    crowd = np.concatenate([GAMES[0].detections, 0.99 * GAMES[0].detections], axis=1)
    said = doubt_fit(CARD, [replace(GAMES[0], detections=crowd)], Features(BASKETBALL))
    assert "players are seen at once, and the policy was trained on" in said[0]
    said = doubt_fit(CARD, [PITCH], Features(SOCCER))
    assert said[0].startswith("the policy was trained on the court basketball,28,15, and this is soccer,105,68")
    assert any("contexts lie outside what the policy was trained on in most frames" in sentence for sentence in said)


def test_contexts_outside_are_counted_in_parts_as_in_all():
    contexts = [features + shift for shift, features in enumerate(demonstrations(GAMES).contexts)]
    whole = Fit.of(CARD, contexts)
    parts = Fit.of(CARD, contexts[:1]) + Fit.of(CARD, contexts[1:])
    for name in ("known", "outside", "low", "high"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    (said,) = Fit.of(CARD, [demonstrations(GAMES).contexts[0] + 1000.0]).doubts(CARD)
    assert said.startswith("47 of 47 contexts lie outside")
    assert "heat_0_0 in 100% (1000 to" in said
    assert ", and 44 more: " in said
    assert Fit.of(replace(CARD, training={}), contexts).doubts(replace(CARD, training={})) == ()


def test_a_game_at_another_pace_has_what_was_seen_last_and_the_operator_between():
    game = replace(GAMES[0], rate=60.0)
    slow = resample(game, 25.0)
    assert (slow.rate, len(slow)) == (25.0, 1 + int(np.ceil(299 / 60 * 25)))
    np.testing.assert_array_equal(slow.detections[5], game.detections[12])
    np.testing.assert_array_equal(slow.detections[1], game.detections[2])
    assert slow.actions[1, 0] == pytest.approx(0.6 * game.actions[2, 0] + 0.4 * game.actions[3, 0])
    assert resample(game, 60.3) is game
