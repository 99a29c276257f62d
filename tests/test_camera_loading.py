"""Tracking data in the formats in which the world has them, whole and damaged."""

from __future__ import annotations

import json
import re
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from conftest import repeatable
from simile.camera import tracking
from simile.camera.courts import BASKETBALL, SOCCER, Court
from simile.camera.features import demonstrations
from simile.camera.games import Game
from simile.camera.geometry import Camera
from simile.camera.tracking import open_games, read_detections, read_kloppy, read_mot, read_sportvu
from simile.errors import ArgumentError, DataError, SimileError

NAN = float("nan")
T0 = 1446082223024  # a moment of the 28th of October 2015
FOOT = 0.3048


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content)
    return path


# NBA SportVU


def moment(frame, *positions, ball=(47.0, 25.0), stamp=None):
    ball_row = [] if ball is None else [[-1, -1, *ball, 3.2]]
    rows = [[1610612760 + i % 2, 200 + i, x, y, 0.0] for i, (x, y) in enumerate(positions)]
    return [1, T0 + 40 * frame if stamp is None else stamp, 720.0 - frame / 25, 24.0, None, ball_row + rows]


def event(number, *moments):
    team = {"name": "Thunder", "teamid": 1610612760, "abbreviation": "OKC", "players": []}
    return {"eventId": str(number), "visitor": team, "home": team, "moments": list(moments)}


def log(tmp_path, *events, **changes):
    held = {"gameid": "0021500013", "gamedate": "2015-10-28", "events": list(events), **changes}
    return written(tmp_path, "0021500013.json", json.dumps(held))


def test_a_sportvu_log_is_in_metres_from_the_middle(tmp_path):
    (game,) = read_sportvu(log(tmp_path, event(1, moment(0, (0.0, 0.0), (94.0, 50.0)), moment(1, (47.0, 25.0)))))
    assert (game.name, game.rate, len(game)) == ("0021500013 piece 0", 25.0, 2)
    np.testing.assert_allclose(game.detections[0], [[-47 * FOOT, -25 * FOOT], [47 * FOOT, 25 * FOOT]])
    np.testing.assert_allclose(game.detections[1], [[0.0, 0.0], [NAN, NAN]])
    np.testing.assert_allclose(game.ball, np.zeros((2, 2)), atol=1e-12)
    assert game.actions is None


def test_moments_of_overlapping_events_count_once_and_in_order(tmp_path):
    m = [moment(i, (float(i), 10.0)) for i in range(30)]
    path = log(tmp_path, event(2, *m[10:]), event(1, *m[:20]), event(3), event(4, *m[5:8]))
    (game,) = read_sportvu(path)
    np.testing.assert_allclose(game.detections[:, 0, 0], (np.arange(30.0) - 47.0) * FOOT)


def test_a_jump_of_more_than_half_a_second_begins_another_piece_and_a_lost_moment_an_empty_frame(tmp_path):
    path = log(tmp_path, event(1, *[moment(i, (10.0, 10.0)) for i in (0, 1, 3, 4, 30, 31)]))
    first, second = read_sportvu(path)
    assert (len(first), len(second), second.name) == (5, 2, "0021500013 piece 1")
    assert np.isnan(first.detections[2]).all()
    assert np.isnan(first.ball[2]).all()
    assert np.isfinite(first.ball[[0, 1, 3, 4]]).all()


def test_stamps_that_jitter_are_still_one_frame_each(tmp_path):
    rng = np.random.default_rng(0)
    stamps = T0 + 40 * np.arange(500) + rng.integers(-8, 9, size=500)
    drifting = T0 + np.round(40.05 * np.arange(3000)).astype(int)
    for given in (stamps, drifting):
        (game,) = read_sportvu(log(tmp_path, event(1, *[moment(0, (1.0, 1.0), stamp=int(s)) for s in given])))
        assert len(game) == len(given)
    twice = [moment(0, (1.0, 1.0), stamp=T0 + s) for s in (0, 1, 40, 41, 80)]
    assert len(read_sportvu(log(tmp_path, event(1, *twice)))[0]) == 3


def test_a_missing_ball_or_player_is_nan(tmp_path):
    nobody = [*moment(2)[:5], []]
    path = log(tmp_path, event(1, moment(0, (1.0, 2.0), ball=None), moment(1, (None, 2.0), ball=(None, 3.0)), nobody))
    (game,) = read_sportvu(path)
    assert np.isnan(game.ball).any(axis=1).all()
    assert np.isfinite(game.detections[0]).all()
    assert np.isnan(game.detections[1:]).all()


def test_the_teams_of_a_sportvu_log_are_kept_and_detections_have_none(tmp_path):
    def position(team, x):
        return [team, 200 + int(x), x, 25.0, 0.0]

    home, guests = 1610612760, 1610612761
    crowd = [position(home, 47.0), position(guests, 57.0), position(home, 67.0)]
    frames = [[*moment(0)[:5], crowd], [*moment(1)[:5], crowd[1:]]]
    (game,) = read_sportvu(log(tmp_path, event(1, *frames)))
    assert game.detections.shape == (2, 3, 2)
    x = game.players[..., 0] / FOOT
    np.testing.assert_allclose(x, [[0.0, 20.0, 10.0, NAN], [20.0, NAN, 10.0, NAN]], atol=1e-9)
    (mixed,) = read_sportvu(log(tmp_path, event(1, [*moment(0)[:5], [*crowd, position(7, 1.0)]], frames[1])))
    assert mixed.players is None  # a third team: nobody knows whose those are


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "cannot be read as JSON"),
        ("{", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("[]", "no list of 'events'"),
        ('{"events": 3}', "no list of 'events'"),
        ('{"events": []}', "no event has a moment"),
        ('{"events": [3]}', "event 0: 3 is no object with a list of 'moments'"),
        ('{"events": [{"eventId": "7", "moments": [[1, 2]]}]}', r"event 0 \(eventId '7'\), moment 0: \[1, 2\] is not"),
        ('{"events": [{"moments": [[1, "x", 3, 4, null, []]]}]}', "moment 0, time: 'x' is not in milliseconds"),
        ('{"events": [{"moments": [[1, 1e999, 3, 4, null, []]]}]}', "time: inf is not in milliseconds"),
        ('{"events": [{"moments": [[1, 2, 3, 4, null, [[1, 2, "a", 4, 5]]]]}]}', "position 0: .* is not .team"),
        (
            '{"events": [{"moments": [[1, 2, 3, 4, null, [[1, 2, 1' + "0" * 400 + ", 4, 5]]]]}]}",
            "position 0: .* is not .team",
        ),
        (
            '{"events": [{"moments": [[1, 2, 3, 4, null, [[1, 2, Infinity, 4, 5]]]]}]}',
            "position 0: .* is not .team",
        ),
    ],
)
def test_a_damaged_sportvu_log_is_refused_with_its_place(tmp_path, content, said):
    with pytest.raises(DataError, match=said) as caught:
        read_sportvu(written(tmp_path, "log.json", content))
    assert "log.json" in str(caught.value)


# MOTChallenge


def test_feet_of_boxes_are_put_on_the_ground_by_a_homography(tmp_path):
    path = written(tmp_path, "det.txt", "1,-1,90,40,20,60,0.9,-1,-1,-1\n2,-1,190,40,20,60,0.2,-1,-1,-1\n")
    to_court = np.array([[0.1, 0.0, -10.0], [0.0, -0.1, 10.0], [0.0, 0.0, 1.0]])
    (game,) = read_mot(path, to_court, court=BASKETBALL, rate=30.0)
    np.testing.assert_allclose(game.detections, [[[0.0, 0.0]], [[10.0, 0.0]]], atol=1e-9)
    assert (game.name, game.rate, game.camera) == ("det", 30.0, Camera.beside(BASKETBALL))
    (sure,) = read_mot(path, to_court, court=BASKETBALL, rate=30.0, confidence=0.5)
    assert np.isnan(sure.detections[1]).all()
    (flipped,) = read_mot(path, -3.0 * to_court, court=BASKETBALL, rate=30.0)  # the same homography
    np.testing.assert_allclose(flipped.detections, game.detections, atol=1e-9)


def test_a_box_above_the_horizon_is_nowhere(tmp_path):
    camera = Camera((0.0, -20.0, 10.0))
    ground = np.array([[-10.0, -5.0], [10.0, -5.0], [8.0, 6.0], [-8.0, 6.0]])
    seen = camera.project(ground, 0.0, -25.0, 1.0)
    rows = [[*g, 1, 0, 0, 0, -u * g[0], -u * g[1]] for g, (u, v) in zip(ground, seen, strict=True)]
    rows += [[0, 0, 0, *g, 1, -v * g[0], -v * g[1]] for g, (u, v) in zip(ground, seen, strict=True)]
    to_image = np.append(np.linalg.solve(np.array(rows, dtype=float), [*seen[:, 0], *seen[:, 1]]), 1.0).reshape(3, 3)
    lines = [f"1,-1,{u},{v},0,0,1,-1,-1,-1" for u, v in (*seen, (0.0, 5.0))]
    (game,) = read_mot(
        written(tmp_path, "d.txt", "\n".join(lines)), np.linalg.inv(to_image), court=BASKETBALL, rate=25.0
    )
    np.testing.assert_allclose(game.detections[0], ground, atol=1e-6)  # and no fifth


def test_world_coordinates_win_and_frames_without_boxes_are_empty(tmp_path):
    path = written(tmp_path, "gt.txt", "4, 1,0,0,9,9,-1, 3.5, -2, 0\n2,2,0,0,9,9,1,1,-1,0\n\n4,3,0,0,9,9,1,5,5,0\n")
    (game,) = read_mot(path, court=BASKETBALL, rate=25.0, confidence=0.5)
    assert np.isnan(game.detections[[0, 2]]).all()
    np.testing.assert_array_equal(game.detections[1, 0], [1.0, -1.0])
    np.testing.assert_array_equal(game.detections[3], [[3.5, -2.0], [5.0, 5.0]])
    assert [len(g) for g in read_mot(path, court=BASKETBALL, rate=25.0, gap=0.05)] == [1, 1]


def test_the_class_and_visibility_of_ground_truth_are_no_world_coordinates(tmp_path):
    path = written(tmp_path, "gt.txt", "1,1,10,10,5,5,1,1,0.86\n")
    with pytest.raises(ArgumentError, match=r"homography: .*gt.txt has detections without world coordinates"):
        read_mot(path, court=BASKETBALL, rate=25.0)
    (game,) = read_mot(path, np.eye(3), court=BASKETBALL, rate=25.0)
    np.testing.assert_array_equal(game.detections[0, 0], [12.5, 15.0])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("\n\n", "the file is empty"),
        ("1,1,2\n", "row 1: 3 values, but at least 7"),
        ("\n1,1,2,3,4,x,1,1,1,1", "row 2, column 'height': 'x' is not a number"),
        ("0,1,2,3,4,5,1,1,1,1", "row 1, column 'frame': 0 is no number of a frame"),
        ("1.5,1,2,3,4,5,1,1,1,1", "row 1, column 'frame': 1.5 is no number of a frame"),
        ("1,1,2,3,4,5,nan,1,1,1", "row 1, column 'conf': 'nan' is missing or too large"),
        ("1,1,2,3,4,5,1,1e300,1,1", "row 1, column 'x': '1e300' is missing or too large"),
        ("1_0,1,2,3,4,5,1,1,1,1", "row 1, column 'frame': '1_0' is not a number"),
        ("1,1,2,3,4,5,1,3,1,1\n900000000,1,2,3,4,5,1,3,1,1", "900,000,000 frames .* cut where they jump with gap"),
        (b"\xff\xfe1", "not UTF-8"),
    ],
)
def test_a_damaged_mot_file_is_refused_with_its_place(tmp_path, content, said):
    with pytest.raises(DataError, match=said) as caught:
        read_mot(written(tmp_path, "det.txt", content), court=BASKETBALL, rate=25.0)
    assert "det.txt" in str(caught.value)


@pytest.mark.parametrize("wrong", [np.eye(2), np.zeros((3, 3)), "abc", np.full((3, 3), NAN)])
def test_a_homography_must_be_invertible(tmp_path, wrong):
    with pytest.raises(ArgumentError, match=r"homography must be an invertible \(3, 3\) matrix"):
        read_mot(written(tmp_path, "d.txt", "1,1,2,3,4,5,1,1,1,1"), wrong, court=BASKETBALL, rate=25.0)


# Plain tables


def table(tmp_path, file="d.csv", /, **columns):
    frame = pd.DataFrame(columns)
    path = tmp_path / file
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("file", ["d.csv", "d.parquet", "d.tsv.gz"])
def test_a_table_of_detections_becomes_a_game(tmp_path, file):
    columns = {"frame": [7, 7, 9, 8], "x": [1.0, 2.0, 3.0, NAN], "y": [0.5, 0.0, 1.0, NAN]}
    path = table(tmp_path, file, **columns, id=[1, 2, 1, 0], team=["a", "b", "a", ""])
    (game,) = read_detections(path, court=SOCCER, rate=10.0)
    assert (game.name, game.rate, len(game), game.actions, game.ball) == ("d", 10.0, 3, None, None)
    np.testing.assert_array_equal(game.detections[0], [[1.0, 0.5], [2.0, 0.0]])
    assert np.isnan(game.detections[1]).all()
    np.testing.assert_array_equal(game.detections[2, 0], [3.0, 1.0])


def test_games_are_told_apart_and_other_names_are_taken(tmp_path):
    path = table(
        tmp_path, n=[0, 1, 0, 1], px=[1, 2, 3, 4], py=[5, 6, 7, 8], match=["b", "b", "a", "a"], lens=[1.5, 2, 3, 4]
    )
    columns = {"frame": "n", "x": "px", "y": "py", "game": "match", "pan": "lens"}
    first, second = read_detections(path, court=SOCCER, rate=25.0, columns=columns, still=(-10.0, 3.0))
    assert (first.name, second.name) == ("b", "a")
    np.testing.assert_array_equal(second.detections[:, 0], [[3, 7], [4, 8]])
    np.testing.assert_array_equal(second.actions, [[3.0], [4.0]])
    assert second.still == (-10.0, 3.0)


def test_the_rate_is_inferred_from_the_time_and_lost_frames_are_empty(tmp_path):
    t = np.delete(np.arange(500) / 29.97, [100, 101])
    for time in (np.round(t, 3), pd.Timestamp("2024-05-31T12:00:00.25Z") + pd.to_timedelta(t, unit="s")):
        path = table(tmp_path, time=time, x=np.ones(498), y=np.ones(498))
        (game,) = read_detections(path, court=SOCCER)
        assert game.rate == 29.97
        assert np.flatnonzero(np.isnan(game.detections[:, 0, 0])).tolist() == [100, 101]
        assert [len(g) for g in read_detections(path, court=SOCCER, gap=0.05)] == [100, 398]


def test_tables_of_strangers_are_read_as_other_data_are(tmp_path, capsys):
    frames = np.repeat(np.arange(30), 2)
    plain = pd.DataFrame({"time": frames / 25, "x": np.arange(60.0) % 7, "y": np.arange(60.0) % 5, "pan": frames * 0.5})
    plain.to_csv(tmp_path / "d.csv", index=False)
    (expected,) = read_detections(tmp_path / "d.csv", court=BASKETBALL)
    assert capsys.readouterr().err == ""
    clocks = pd.Timestamp("2024-05-31 23:59:59.5") + pd.to_timedelta(plain["time"], unit="s")
    for name, times in {
        " time": (plain["time"] * 1000).round().astype(int),
        "Time": 1_717_199_999_500 + (plain["time"] * 1000).round().astype(int),
        "time ": clocks.dt.strftime("%H:%M:%S.%f"),
    }.items():
        plain.assign(time=times).rename(columns={"time": name, "x": " x"}).to_csv(tmp_path / "d.csv", index=False)
        (game,) = read_detections(tmp_path / "d.csv", court=BASKETBALL)
        assert game.rate == expected.rate
        np.testing.assert_array_equal(game.detections, expected.detections)
        np.testing.assert_array_equal(game.actions, expected.actions)
        assert ("taken for milliseconds" in capsys.readouterr().err) == (times.dtype.kind == "i")


def test_an_operator_in_the_same_table_can_be_learned_from(tmp_path):
    frame = np.repeat(np.arange(20), 2)
    path = table(
        tmp_path, frame=frame, x=np.sin(frame), y=frame / 9, pan=frame / 2.0, tilt=np.full(40, -9.0), zoom=1 + frame / 9
    )
    games = read_detections(path, court=BASKETBALL, rate=25.0)
    np.testing.assert_array_equal(games[0].actions[:, 0], np.arange(20) / 2.0)
    assert games[0].action_names == ("pan", "tilt", "zoom")
    assert demonstrations(games).n_frames == 20


def test_an_operator_in_a_second_file_is_the_clock(tmp_path):
    seen = table(tmp_path, time=[0.0, 0.039, 0.081, 0.2, 9.0], x=[1, 2, 3, 4, 5], y=[0, 0, 0, 0, 0], pan=[7] * 5)
    moved = table(tmp_path, "camera.csv", time=[0.04, 0.08, 0.12, 0.16], pan=[1.0, 2.0, 3.0, 4.0])
    (game,) = read_detections(seen, court=BASKETBALL, rate=25.0, operator=moved)
    np.testing.assert_array_equal(game.actions, [[1.0], [2.0], [3.0], [4.0]])
    np.testing.assert_array_equal(game.detections[:, 0, 0], [2.0, 3.0, NAN, NAN])


def test_the_ball_is_a_column_of_the_frame(tmp_path):
    path = table(tmp_path, frame=[0, 0, 1], x=[1, 2, 3], y=[1, 2, 3], ball_x=[NAN, 5.0, NAN], ball_y=[4.0, 4.0, NAN])
    (game,) = read_detections(path, court=BASKETBALL, rate=25.0)
    np.testing.assert_array_equal(game.ball, [[5.0, 4.0], [NAN, NAN]])


BASE = {"frame": [0, 0, 1], "x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (
            {"frame": [0], "x": [1]},
            {},
            r"no column is y: name it with columns \(--columns y=...\); there are 'fr",
        ),
        ({"x": [0], "y": [1]}, {}, "no column is frame or time or t"),
        (BASE, {"rate": None}, "rate: .* counts frames, and has no time"),
        (BASE, {"columns": {"x": "lat"}}, "no column is lat"),
        (BASE, {"columns": {"pan": "lens"}}, r"columns\['pan'\] \(--columns pan=...\): no column is 'lens'"),
        (BASE, {"columns": {"angle": "x"}}, "'angle' is no role; known are frame, time"),
        (BASE, {"columns": "x"}, "columns must be a mapping"),
        (BASE | {"x": [1, "a", 2]}, {}, "row 2, column 'x': 'a' is not a number"),
        (BASE | {"x": [1, 1e300, 2]}, {}, r"row 2, column 'x': 1e\+300 is far too large"),
        (BASE | {"frame": [0, 0.5, 1]}, {}, "row 2, column 'frame': 0.5 is not a whole number"),
        (BASE | {"frame": [0, None, 1]}, {}, "row 2, column 'frame': the time is nan"),
        (BASE | {"frame": [0, 0, 10**9]}, {}, "1,000,000,001 frames .* cut where they jump with gap"),
        (BASE | {"pan": [1, 2, 3]}, {}, "row 1, column 'pan': 1, but 2 in another row of the same frame"),
        (BASE | {"pan": [1, 1, None]}, {}, "frame 1 of game 'd' has no pan"),
        (BASE | {"frame": [5, 5, 7], "pan": [1, 1, 1]}, {}, r"frame 6 of game 'd' has no pan \(1 such frames\)"),
        (BASE | {"tilt": [1, 1, 1]}, {}, "pan, or pan, tilt and zoom are wanted; there is tilt only"),
        (BASE | {"pan": 1, "tilt": 1, "zoom": [1, 1, 0]}, {}, "frame 1 of game 'd' has a zoom of 0"),
        ({"time": [0.0, 0.04, 0.08], "x": 1, "y": 1}, {"rate": 30.0}, "no whole frames at 30 Hz"),
        ({"time": [0.0, 0.04, 0.045, 0.08, 0.12], "x": 1, "y": 1}, {"rate": 25.0}, "are in one frame at 25 Hz"),
        ({"time": [1.0], "x": [1], "y": [1]}, {"rate": None}, "one frame per game: give the rate"),
        (BASE | {"game": ["a", "", "b"]}, {}, "row 2, column 'game': the row has no label"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_with_its_place(tmp_path, columns, options, said):
    with pytest.raises(SimileError, match=said):
        read_detections(table(tmp_path, **columns), **{"court": SOCCER, "rate": 25.0, **options})


def test_an_operator_of_another_game_is_refused(tmp_path):
    seen = table(tmp_path, **BASE, game=["a", "a", "a"])
    moved = table(tmp_path, "camera.csv", frame=[0, 1], pan=[1, 2], game=["b", "b"])
    with pytest.raises(DataError, match=r"d.csv has the game 'a', .*camera.csv has not"):
        read_detections(seen, court=SOCCER, rate=25.0, operator=moved)


def test_two_files_must_tell_the_time_in_one_way(tmp_path):
    seen = table(tmp_path, time=["2024-05-31T12:00:00", "2024-05-31T12:00:01"], x=[1, 2], y=[1, 2])
    moved = table(tmp_path, "camera.csv", time=[0.0, 1.0], pan=[1, 2])
    with pytest.raises(DataError, match="must tell the time in one way"):
        read_detections(seen, court=SOCCER, operator=moved)


def test_a_clock_that_is_named_wins_and_else_the_one_that_can_tell_the_rate(tmp_path):
    path = table(tmp_path, frame=[0, 2, 4], time=[0.0, 0.1, 0.2], x=[1, 2, 3], y=[1, 2, 3])
    assert [(g.rate, len(g)) for g in read_detections(path, court=SOCCER)] == [(10.0, 3)]
    assert [(g.rate, len(g)) for g in read_detections(path, court=SOCCER, rate=20.0)] == [(20.0, 5)]
    columns = {"time": "time"}
    assert [(g.rate, len(g)) for g in read_detections(path, court=SOCCER, rate=10.0, columns=columns)] == [(10.0, 3)]


# Soccer, through kloppy


def metrica(tmp_path, frames=4, second_half=1000):
    """Write two files as Metrica Sports publishes them: three lines of header, then shares of the pitch."""
    paths = []
    for team, numbers in (("Home", (11, 1)), ("Away", (25, 15))):
        head = [
            ",,," + ",,".join([team] * len(numbers)) + ",,,",
            ",,," + ",,".join(map(str, numbers)) + ",,,",
            "Period,Frame,Time [s]," + ",".join(f"Player{n}," for n in numbers) + ",Ball,",
        ]
        rows = []
        for period, first in ((1, 1), (2, second_half)):
            for frame in range(first, first + frames):
                spots = "0.25,0.5,NaN,NaN" if team == "Home" else "0.75,0.5,1.0,0.0"
                rows.append(f"{period},{frame},{frame / 25:.2f},{spots},0.5,0.25")
        paths.append(written(tmp_path, f"{team}.csv", "\n".join(head + rows) + "\n"))
    return paths


def test_metrica_files_are_read_through_kloppy(tmp_path):
    first, second = read_kloppy(metrica(tmp_path), "metrica_csv")
    assert (first.name, second.name) == ("Home period 1", "Home period 2")
    assert (len(first), len(second), first.rate) == (4, 4, 25.0)
    assert (first.court.length, first.court.width) == (105.0, 68.0)
    seen = sorted(first.detections[0].tolist())
    np.testing.assert_allclose(seen, [[-26.25, 0.0], [26.25, 0.0], [52.5, -34.0]], atol=1e-9)
    np.testing.assert_allclose(first.ball[0], [0.0, -17.0], atol=1e-9)  # kloppy turns the y axis of these files round
    assert first.possession is None


def test_the_teams_of_soccer_are_the_halves_of_its_players(tmp_path):
    game = read_kloppy(metrica(tmp_path), "metrica_csv")[0]
    np.testing.assert_allclose(game.players[0, :, 0], [-26.25, NAN, 26.25, 52.5], atol=1e-9)


def test_a_pitch_of_unknown_size_is_that_of_the_court(tmp_path):
    home, away = metrica(tmp_path)
    small = Court("soccer", 100.0, 60.0, goal=50.0)
    game = read_kloppy({"away_data": away, "home_data": home}, "metrica_csv", court=small)[0]
    assert game.court == small
    np.testing.assert_allclose(np.nanmax(np.abs(game.detections[0]), axis=0), [50.0, 30.0])


def signality(tmp_path):
    """Write the files of a game as Signality has them: about the game, a list of frames per half, and the venue."""
    spot = {"jersey_number": 7, "position": [10.0, -5.0, 0.0], "speed": 1.0, "track_id": 1, "role": 0, "name": "A"}
    about = {
        "id": "cup",
        "time_start": "2024-05-31T12:00:00Z",
        "team_home_name": "h",
        "team_away_name": "a",
        **{f"team_{side}_players": [{"jersey_number": 7, "name": "A"}] for side in ("home", "away")},
    }
    venue = {"pitch_size": [105.0, 68.0], "name": "park"}
    paths = {"meta_data": written(tmp_path, "meta.json", json.dumps(about)), "raw_data_feeds": []}
    for half in (1, 2):
        frames = [
            {
                "idx": i,
                "match_time": 40 * (i + 1),
                "utc_time": T0 + 40 * i + 3_600_000 * half,
                "phase": half,
                "state": "end" if i == 4 else "running",
                "ball": {"position": [0.0, 0.0, 0.0], "team": "home_team"},
                "home_team": [spot],
                "away_team": [spot],
                "referees": [],
            }
            for i in range(5)
        ]
        paths["raw_data_feeds"].append(written(tmp_path, f"half{half}.json", json.dumps(frames)))
    return paths | {"venue_information": written(tmp_path, "venue.json", json.dumps(venue))}


def test_a_provider_with_a_list_of_files_gets_them_open(tmp_path):
    files = signality(tmp_path)
    games = read_kloppy(files, "signality")
    assert [(game.rate, len(game), game.detections.shape[1]) for game in games] == [(25.0, 5, 2)] * 2
    in_order = read_kloppy(list(files.values()), "signality")
    np.testing.assert_array_equal(in_order[1].detections, games[1].detections)


def test_files_that_do_not_belong_together_are_asked_about(tmp_path):
    files = signality(tmp_path)
    files["meta_data"].write_text("{}")
    with pytest.raises(DataError, match=r"is not there: are they whole, of one game, and in the order meta_data, raw_"):
        read_kloppy(files, "signality")


def dataset(system, points, *, times=(0.0, 0.1, 0.2), owner=None):
    from kloppy import domain

    home, away = (
        domain.Team(team_id=name, name=name, ground=ground)
        for name, ground in (("h", domain.Ground.HOME), ("a", domain.Ground.AWAY))
    )
    players = [domain.Player(player_id=str(i), team=home, jersey_no=i) for i in range(len(points))]
    period = domain.Period(id=1, start_timestamp=timedelta(0), end_timestamp=timedelta(seconds=9))
    frames = [
        domain.Frame(
            period=period,
            timestamp=timedelta(seconds=t),
            statistics=[],
            ball_owning_team=None if owner is None else (home, away)[owner],
            ball_state=None,
            frame_id=i,
            players_data={
                p: domain.PlayerData(coordinates=domain.Point(*xy)) for p, xy in zip(players, points, strict=True)
            },
            other_data={},
            ball_coordinates=None if i or not points else domain.Point3D(*points[0], 0.0),
        )
        for i, t in enumerate(times)
    ]
    metadata = domain.Metadata(
        teams=[home, away],
        periods=[period],
        pitch_dimensions=None if system is None else system.pitch_dimensions,
        coordinate_system=system,
        orientation=domain.Orientation.STATIC_HOME_AWAY,
        flags=domain.DatasetFlag(0),
        provider=domain.Provider.OTHER,
        frame_rate=25.0,
        game_id="cup",
    )
    return domain.TrackingDataset(records=frames, metadata=metadata)


@pytest.mark.parametrize("system", ["Tracab", "SecondSpectrum", "Kloppy", "Opta"])
def test_datasets_of_kloppy_in_any_coordinates_become_metres(system):
    from kloppy.domain.models import common

    systems = {
        "Tracab": (common.TracabCoordinateSystem(110.0, 70.0), [(0.0, 0.0), (5500.0, 3500.0)]),
        "SecondSpectrum": (common.SecondSpectrumCoordinateSystem(110.0, 70.0), [(0.0, 0.0), (55.0, 35.0)]),
        "Kloppy": (common.KloppyCoordinateSystem(110.0, 70.0), [(0.5, 0.5), (1.0, 0.0)]),
        "Opta": (common.OptaCoordinateSystem(110.0, 70.0), [(50.0, 50.0), (100.0, 100.0)]),
    }
    (game,) = read_kloppy(dataset(*systems[system], owner=1))
    assert (game.name, game.rate, len(game)) == ("cup period 1", 10.0, 3)  # ten frames a second, whatever is said
    assert (game.court.length, game.court.width) == pytest.approx((110.0, 70.0))
    np.testing.assert_allclose(game.detections[0], [[0.0, 0.0], [55.0, 35.0]], atol=1e-6)
    np.testing.assert_allclose(game.ball, [[0.0, 0.0], [NAN, NAN], [NAN, NAN]], atol=1e-6)
    assert game.possession.tolist() == [1, 1, 1]


def test_missing_time_cuts_a_period_into_pieces():
    from kloppy.domain.models.common import KloppyCoordinateSystem

    given = dataset(KloppyCoordinateSystem(), [(0.5, 0.5)], times=(0.0, 0.1, 0.3, 5.0, 5.1))
    assert [(g.name, len(g)) for g in read_kloppy(given)] == [("cup period 1 piece 0", 4), ("cup period 1 piece 1", 2)]
    assert [len(g) for g in read_kloppy(given, gap=None)] == [52]


def test_datasets_that_cannot_be_used_are_refused(tmp_path):
    from kloppy.domain.models.common import KloppyCoordinateSystem as Shares

    home, away = metrica(tmp_path)
    for said, give in {
        "path_or_dataset must be a TrackingDataset of kloppy": lambda: read_kloppy(3),
        r"provider \(--provider\) must be one of hawkeye, metrica_csv": lambda: read_kloppy(home, "sportvu"),
        "a.csv is a URL: recordings": lambda: read_kloppy(["http://example.com/a.csv", away], "metrica_csv"),
        "there is no such file": lambda: read_kloppy([away.with_name("gone.csv"), away], "metrica_csv"),
        "metrica_csv: missing a required argument: 'away_data'": lambda: read_kloppy(home, "metrica_csv"),
        "unexpected keyword argument 'sample'": lambda: read_kloppy([home, away], "metrica_csv", sample=2),
        "limit is for a loader of kloppy": lambda: read_kloppy(dataset(Shares(), []), limit=3),
        "cannot be read as tracab tracking data": lambda: read_kloppy([home, away], "tracab"),
        "the coordinate system is not said": lambda: read_kloppy(dataset(None, [])),
        "frame 1 of cup period 1: its time 1 s is not later": lambda: read_kloppy(dataset(Shares(), [], times=(1, 1))),
        "there is no frame": lambda: read_kloppy(dataset(Shares(), [], times=())),
    }.items():
        with pytest.raises(SimileError, match=said):
            give()


def test_without_kloppy_the_way_to_get_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "kloppy.domain", None)
    with pytest.raises(ArgumentError, match=r"needs kloppy: pip install 'smooth-imitation\[tracking\]'"):
        read_kloppy(object())


# All of them


@pytest.mark.parametrize("read", [read_sportvu, read_mot, read_detections, open_games])
def test_a_file_that_is_not_there_is_named(tmp_path, read):
    options = {"court": BASKETBALL} | ({"rate": 25.0} if read in (read_mot, read_detections) else {})
    with pytest.raises(DataError, match=r"nowhere.csv: there is no such file"):
        read(tmp_path / "nowhere.csv", **options)
    with pytest.raises(ArgumentError, match="path must be the path of a file; got 3"):
        read(3, **options)


def test_positions_in_other_units_become_metres_from_the_middle(tmp_path):
    path = table(tmp_path, frame=[0, 1], x=[47.0, 57.0], y=[25.0, 30.0], ball_x=[94.0, 94.0], ball_y=[0.0, 0.0])
    (game,) = open_games(path, BASKETBALL, rate=60.0, units="feet", middle=(47.0, 25.0))
    np.testing.assert_allclose(game.detections[:, 0], [[0.0, 0.0], [10 * FOOT, 5 * FOOT]])
    np.testing.assert_allclose(game.ball[0], [47 * FOOT, -25 * FOOT])
    for units, factor in {"metres": 1.0, "yards": 3 * FOOT, "cm": 0.01}.items():
        (game,) = open_games(path, BASKETBALL, rate=60.0, units=units)
        np.testing.assert_allclose(game.detections[0, 0], [47.0 * factor, 25.0 * factor])
    boxes = written(tmp_path, "gt.txt", "1,1,0,0,9,9,1,10,5,0\n2,1,0,0,9,9,1,-1,-1,-1\n")
    (game,) = open_games(boxes, BASKETBALL, rate=30.0, units="feet", calibration=np.eye(3))
    np.testing.assert_allclose(game.detections[:, 0], [[10 * FOOT, 5 * FOOT], [4.5, 9.0]])
    (game,) = open_games(boxes, BASKETBALL, rate=30.0, units="pixels", calibration=np.eye(3))
    np.testing.assert_allclose(game.detections[:, 0], [[4.5, 9.0], [4.5, 9.0]])


def test_a_table_of_pixels_is_put_on_the_ground_in_the_frames_that_it_counts(tmp_path):
    from simile.camera.calibration import Homography, Keyframes

    path = table(tmp_path, frame=[10, 12], x=[100.0, 100.0], y=[50.0, 50.0], ball_x=[0.0, 0.0], ball_y=[0.0, 0.0])
    moving = Keyframes([10, 12], [Homography(np.diag([s, s, 1.0])) for s in (0.1, 0.2)])
    (game,) = open_games(path, BASKETBALL, rate=25.0, units="pixels", calibration=moving)
    np.testing.assert_allclose(game.detections[[0, 2], 0], [[10.0, 5.0], [20.0, 10.0]])
    np.testing.assert_allclose(game.ball[2], [0.0, 0.0], atol=1e-9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"units": "miles"}, r"units \(--units\) must be metres, feet, yards, cm or pixels; got 'miles'"),
        ({"units": "pixels"}, r"units \(--units\) are pixels: say where .* \(--homography\)"),
        ({"middle": (1.0, 2.0, 3.0)}, r"middle \(--middle\) must be x,y"),
        ({"confidence": 0.5}, r"confidence \(--confidence\) is of no use for .*d.csv, which is taken for a table"),
        ({"axes": 2}, r"axes \(--axes\) must be 1"),
        ({"axes": 3}, "pans only: there are not 3"),
    ],
)
def test_what_is_told_of_a_file_must_fit_it(tmp_path, options, said):
    path = table(tmp_path, time=[0.0, 0.04], x=[1, 2], y=[1, 2], pan=[0, 1])
    with pytest.raises(SimileError, match=said):
        open_games(path, BASKETBALL, **options)


def test_what_a_file_says_itself_need_not_be_told(tmp_path):
    path = log(tmp_path, event(1, moment(0, (1.0, 1.0)), moment(1, (1.0, 1.0))))
    (game,) = open_games(path, units="feet")
    assert game.court == BASKETBALL
    with pytest.raises(ArgumentError, match=r"rate \(--rate\) is of no use for .*json, which is taken for a SportVU"):
        open_games(path, rate=30.0)
    with pytest.raises(ArgumentError, match=r"columns .* of a soccer provider"):
        open_games("a.csv,b.csv", provider="metrica_csv", columns={"x": "y"})


def test_mot_text_is_known_by_its_lines_and_seqinfo_says_its_rate(tmp_path):
    folder = tmp_path / "MOT17-02" / "det"
    folder.mkdir(parents=True)
    path = written(folder, "det.txt", "\n1,-1,912.0,484.0,97.0,109.0,0.9,3,4,0\n2,-1,0,0,9,9,1,3,4,0\n")
    with pytest.raises(ArgumentError, match=r"rate \(--rate\): .*det.txt counts frames, and no seqinfo.ini"):
        open_games(path, BASKETBALL)
    written(folder.parent, "seqinfo.ini", "[Sequence]\nname=MOT17-02\nframeRate=30\nseqLength=600\n")
    assert [(g.name, g.rate, len(g)) for g in open_games(path, BASKETBALL)] == [("det", 30.0, 2)]
    assert open_games(path, BASKETBALL, rate=15.0)[0].rate == 15.0
    beside = table(folder, "own.txt", time=[0.0, 0.5], x=[1, 2], y=[1, 2])  # with names above: a table
    assert open_games(beside, BASKETBALL)[0].rate == 2.0
    for content in ("[Sequence]\n", "nothing", "[Sequence]\nframeRate=fast"):
        written(folder, "seqinfo.ini", content)
        with pytest.raises(DataError, match=r"seqinfo.ini does not say the frameRate .* \(--rate\)"):
            open_games(path, BASKETBALL)


def test_the_operator_of_boxes_is_a_table_by_frame_or_time(tmp_path):
    boxes = written(tmp_path, "det.txt", "".join(f"{i},-1,0,0,9,9,1,{i},0,0\n" for i in range(1, 8)))
    by_frame = table(tmp_path, "a.csv", frame=[3, 4, 5], pan=[1.0, 2.0, 3.0])
    by_time = table(tmp_path, "b.csv", time=[0.08, 0.12, 0.16], pan=[1.0, 2.0, 3.0])
    for operator in (by_frame, by_time):
        (game,) = open_games(boxes, BASKETBALL, rate=25.0, operator=operator)
        assert game.actions.tolist() == [[1.0], [2.0], [3.0]]
        np.testing.assert_array_equal(game.detections[:, 0, 0], [3.0, 4.0, 5.0])


@pytest.mark.parametrize(
    ("name", "how"),
    [("0021500013.7z", "7z x 0021500013.7z"), ("a.zip", "unzip a.zip"), ("d.json.gz", "gunzip -k d.json.gz")],
)
def test_what_is_packed_is_told_how_to_unpack(tmp_path, name, how):
    with pytest.raises(DataError, match=f"{name} is packed: unpack it by `{how}`"):
        open_games(written(tmp_path, name, b"7z\xbc\xaf"), BASKETBALL)


def test_the_files_of_a_provider_are_told_in_one_text(tmp_path):
    home, away = metrica(tmp_path)
    (expected, _), files = read_kloppy([home, away], "metrica_csv"), signality(tmp_path)
    for text in (f"{home},{away}", f"away_data={away},home_data={home}"):
        np.testing.assert_array_equal(open_games(text, provider="metrica_csv")[0].detections, expected.detections)
    halves = "+".join(map(str, files["raw_data_feeds"]))
    games = open_games(f"{files['meta_data']},{halves},{files['venue_information']}", provider="signality")
    assert len(games) == 2
    with pytest.raises(ArgumentError, match="either all files or none have a name"):
        open_games(f"home_data={home},{away}", provider="metrica_csv")


def test_the_pan_alone_is_taken_of_who_also_tilts_and_zooms(tmp_path):
    path = table(tmp_path, time=[0.0, 0.04], x=[1, 2], y=[1, 2], pan=[5, 6], tilt=[-9, -9], zoom=[2, 2])
    (game,) = open_games(path, BASKETBALL, axes=1)
    assert game.actions.tolist() == [[5.0], [6.0]]
    assert game.still == (-9.0, 2.0)
    assert open_games(path, BASKETBALL, axes=3)[0].actions.shape == (2, 3)


def test_messages_name_options_of_the_command_and_not_arguments_alone():
    for file in Path(tracking.__file__).parent.glob("*.py"):
        named = re.findall(
            r"\b(?:rate|gap|columns|operator|provider|units|homography)=(?:\.\.\.|\{\{)", file.read_text()
        )
        assert not named, file.name


def test_files_are_opened_by_their_suffix(tmp_path):
    from simile.camera.tracking.recordings import save_game

    (first,) = open_games(log(tmp_path, event(1, moment(0, (1.0, 1.0)), moment(1, (1.0, 1.0)))), BASKETBALL)
    save_game(first, tmp_path / "own.npz")
    assert open_games(tmp_path / "own.npz", BASKETBALL)[0].name == first.name == "0021500013 piece 0"
    (third,) = open_games(table(tmp_path, time=[0.0, 0.5], x=[1, 2], y=[1, 2]), BASKETBALL)
    assert third.rate == 2.0


INSERTS = (
    *(b",", b";", b'"', b"\n", b"\x00", b"\xff", b"\xef\xbb\xbf", b"-", b"_", b" ", b".", b"[", b"]", b"{", b"}", b":"),
    *(b"1e999", b"-1e308", b"1e-320", b"9" * 400, b"nan", b"NaN", b"Infinity", b"null", b"true", b"abc", b'"x"', b"[]"),
    *(
        b"99999999999",
        b"-1",
        b"0.5",
        b"[[]]",
        b"[" * 3000,
        b"," * 50,
        "٣".encode(),
        b"2024-05-31T12:00:00",
        b"1" * 5000,
    ),
)


def damaged(rng, content):
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at, until = sorted(int(i) for i in rng.integers(0, len(data) + 1, size=2))
        match int(rng.integers(6)):
            case 0:
                for i in rng.integers(0, max(1, len(data)), size=3):
                    if len(data):
                        data[i] ^= int(rng.integers(1, 256))
            case 1 | 2 | 3:  # into the data, or instead of what is there
                data[at : at + int(rng.integers(0, 8))] = INSERTS[rng.integers(len(INSERTS))]
            case 4:
                del data[at:until]
            case 5:
                lines = data.split(b"\n")
                i = int(rng.integers(len(lines)))
                lines[i : i + 1] = lines[i : i + 1] * int(rng.integers(0, 4))
                data = bytearray(b"\n".join(lines))
    return bytes(data)


def seeds(tmp_path):
    moments = [moment(i, (float(i), 10.0), (50.5, 20.25)) for i in range(4)]
    rows = [{"frame": i // 2, "time": i // 2 / 25, "x": i / 3, "y": -i, "pan": i // 2, "game": "a"} for i in range(12)]
    text = pd.DataFrame(rows).to_csv(index=False)
    return {
        "sportvu": (
            "d.json",
            json.dumps({"gameid": "1", "events": [event(1, *moments)]}),
            lambda p: read_sportvu(p),
        ),
        "mot": (
            "d.txt",
            "".join(f"{i // 2 + 1},{i},{i}.5,20,30,60,0.{i},-1,-1,-1\n" for i in range(12)),
            lambda p: read_mot(p, np.eye(3), court=BASKETBALL, rate=25.0, confidence=0.3),
        ),
        "frames": ("d.csv", text, lambda p: read_detections(p, court=BASKETBALL, rate=25.0)),
        "times": (
            "d.csv",
            text.replace("frame", "f"),
            lambda p: read_detections(p, court=BASKETBALL, gap=1.0),
        ),
        "operator": (
            "d.csv",
            text,
            lambda p: read_detections(tmp_path / "seen.csv", court=BASKETBALL, rate=25.0, operator=p),
        ),
    }


@pytest.mark.parametrize("kind", ["sportvu", "mot", "frames", "times", "operator"])
@pytest.mark.parametrize("count", [150, pytest.param(2000, marks=pytest.mark.long)])
def test_damaged_files_are_refused_or_read(tmp_path, kind, count):
    name, content, read = seeds(tmp_path)[kind]
    written(tmp_path, "seen.csv", content)
    good = 0
    for i in range(count):
        with repeatable(i) as rng:
            path = written(tmp_path, name, damaged(rng, content.encode()))
            try:
                games = read(path)
            except SimileError:
                continue
            good += 1
            assert games
            assert all(isinstance(g, Game) and not np.isinf(g.detections).any() for g in games)
    assert 0.02 * count < good < 0.9 * count  # the mutations break neither everything nor nothing


@pytest.mark.parametrize("count", [50, pytest.param(300, marks=pytest.mark.long)])
def test_damaged_metrica_files_are_refused_or_read(tmp_path, count):
    home, away = metrica(tmp_path)
    content, good = home.read_bytes(), 0
    for i in range(count):
        with repeatable(i) as rng:
            home.write_bytes(damaged(rng, content))
            try:
                good += bool(read_kloppy([home, away], "metrica_csv"))
            except SimileError:
                continue
    assert 0.03 * count < good < 0.9 * count


def test_every_reader_is_offered():
    assert sorted(tracking.__all__) == ["open_games", "read_detections", "read_kloppy", "read_mot", "read_sportvu"]
