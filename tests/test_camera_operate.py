"""A simulated operator over recorded tracks: with gaps, without a ball, and never ahead of his time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from commands import simile_
from simile.camera.courts import BASKETBALL, SOCCER
from simile.camera.features import demonstrations
from simile.camera.games import Game
from simile.camera.geometry import Camera
from simile.camera.simulation import Operator, operate, simulate
from simile.camera.tracking import read_kloppy, read_mot
from simile.camera.tracking.recordings import load_game, save_game

SHARED = Path(__file__).resolve().parents[2] / "shared/data/tracking"


@pytest.fixture(scope="module")
def game() -> Game:
    return simulate(1, minutes=2.0, axes=3, seed=1)[0]


@pytest.fixture(scope="module")
def pitch() -> Game:
    return simulate(1, minutes=2.0, sport=SOCCER, axes=3, seed=1)[0]


def lose(points, share: float, seed: int = 0):
    """Points (T, n, 2) of which a share is unknown, at random."""
    gone = np.random.default_rng(seed).random(points.shape[:-1]) < share
    return np.where(gone[..., np.newaxis], np.nan, points)


def apart(one: Game, other: Game):
    """Root mean square difference of what two operators do, over its deviation."""
    gap = np.sqrt(np.mean((one.actions - other.actions) ** 2, axis=0))
    return gap / other.actions.std(axis=0)


@pytest.mark.parametrize("which", ["game", "pitch"])
def test_he_films_as_one_who_knows_which_way_the_attack_goes(which: str, request):
    simulated = request.getfixturevalue(which)
    (filmed,) = operate(replace(simulated, actions=None, possession=None), axes=3)
    assert (apart(filmed, simulated)[:2] < 0.5).all()
    assert np.array_equal(filmed.detections, simulated.detections, equal_nan=True)
    assert filmed.players is simulated.players


@pytest.mark.parametrize(("share", "most"), [(0.01, 0.1), (0.3, 0.35)])
def test_missing_players_are_no_matter(game: Game, share: float, most: float):
    (whole,), (holes,) = operate(game, axes=3), operate(replace(game, players=lose(game.players, share)), axes=3)
    assert np.isfinite(holes.actions).all()
    assert (apart(holes, whole) < most).all()


@pytest.mark.parametrize("which", ["game", "pitch"])
def test_without_a_ball_he_watches_the_players(which: str, request):
    simulated = request.getfixturevalue(which)
    for known in ({"ball": None}, {"ball": np.full_like(simulated.ball, np.nan)}):
        (filmed,) = operate(replace(simulated, **known))
        aimed, _ = simulated.camera.aim(simulated.players.mean(axis=1))
        assert np.corrcoef(filmed.actions[:, 0], aimed)[0, 1] > 0.9


def test_detections_alone_will_do(game: Game):
    (filmed,) = operate(replace(game, players=None, ball=None), axes=3)
    assert apart(filmed, game)[0] < 0.5
    assert np.abs(np.diff(filmed.actions[:, 0], n=2)).mean() * 25**2 < 25.0


def test_a_ball_that_comes_and_goes_makes_no_jump(game: Game):
    there = (np.arange(len(game)) // 60 % 2).astype(bool)[:, np.newaxis]
    (filmed,) = operate(replace(game, ball=np.where(there, game.ball, np.nan)))
    pan = filmed.actions[:, 0]
    assert np.abs(np.diff(pan, n=2)).max() * 25**2 <= 1.1 * Operator().strongest
    (without,) = operate(replace(game, ball=None))
    assert np.abs(np.diff(pan)).mean() < 1.5 * np.abs(np.diff(without.actions[:, 0])).mean()


def test_while_nobody_is_known_the_camera_stays_where_it_looked(game: Game):
    players = game.players.copy()
    players[1000:1500] = np.nan
    (filmed,) = operate(replace(game, players=players, ball=None))
    pan = filmed.actions[:, 0]
    assert np.isfinite(pan).all()
    # A second later the players are gone, and his hand has come to rest.
    assert np.ptp(pan[1150:1500]) < 4.0
    aimed, _ = game.camera.aim(game.players.mean(axis=1))
    assert np.corrcoef(pan[1600:], aimed[1600:])[0, 1] > 0.8


def test_before_anybody_is_seen_he_looks_at_the_middle(game: Game):
    players = game.players.copy()
    players[:200] = np.nan
    (filmed,) = operate(replace(game, players=players, ball=None))
    assert np.abs(filmed.actions[:200, 0]).max() < 4.0


@pytest.mark.parametrize("rate", [25.0, 10.0, 2.0, 60.0])
@given(cut=st.integers(20, 200), seed=st.integers(0, 5))
def test_he_sees_nothing_of_what_is_to_come(game: Game, rate: float, cut: int, seed: int):
    some = replace(game, rate=rate, players=lose(game.players, 0.1, seed), possession=None)
    some = replace(some, **{name: getattr(some, name)[:250] for name in ("players", "ball", "detections", "actions")})
    other = replace(some, players=some.players.copy(), ball=some.ball.copy())
    other.players[cut:], other.ball[cut:] = -other.players[cut:], np.nan
    (one,), (two,) = operate(some, axes=3, seed=seed), operate(other, axes=3, seed=seed)
    # Whether people come and go at all is known beforehand: it says how steadily he watches.
    np.testing.assert_array_equal(one.actions[:cut], two.actions[:cut])
    assert not np.array_equal(one.actions, two.actions)


@pytest.mark.parametrize("rate", [5.0, 12.5, 60.0])
def test_the_hand_is_the_same_at_every_rate(rate: float):
    (game,) = simulate(1, minutes=2.0, rate=rate, seed=3)
    (filmed,) = operate(game)
    assert len(filmed.actions) == len(game)
    assert apart(filmed, game)[0] < 0.35
    assert np.abs(np.diff(filmed.actions[:, 0])).max() * rate <= Operator().fastest + 0.5


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_a_few_frames_are_filmed_too(game: Game, frames: int):
    short = Game("short", 25.0, BASKETBALL, game.camera, game.detections[:frames])
    (filmed,) = operate(short, axes=3)
    assert filmed.actions.shape == (frames, 3)
    assert np.isfinite(filmed.actions).all()


def test_what_he_does_hangs_on_seed_and_number_alone(game: Game):
    one = operate([game, game], seed=4)
    np.testing.assert_array_equal(one[0].actions, operate(game, seed=4)[0].actions)
    assert not np.array_equal(one[0].actions, one[1].actions)
    assert not np.array_equal(one[0].actions, operate(game, seed=5)[0].actions)


def test_the_camera_of_the_game_is_the_one_he_moves(game: Game):
    corner = Camera((-18.0, -12.0, 5.0), base=(55.0, 0.0, 0.0))
    (filmed,) = operate(replace(game, camera=corner))
    aimed, _ = corner.aim(game.ball)
    assert np.corrcoef(filmed.actions[:, 0], aimed)[0, 1] > 0.7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: operate(g, axes=2), r"axes must be 1 \(pan\) or 3"),
        (lambda g: operate(g, seed=-1), "seed must be >= 0"),
        (lambda g: operate(replace(g, players=None, detections=g.detections * 10)), "fine"),
        (
            lambda g: operate(replace(g, players=np.full_like(g.players, 500.0))),
            "'game 0': nobody is known on the basketball court of 28 by 15 metres in any frame.*tell its court",
        ),
        (lambda g: operate(replace(g, camera=Camera((0.0, 20.0, 8.0)))), "heading of 180"),
    ],
)
def test_what_cannot_be_filmed_is_refused(game: Game, call, message: str):
    if message == "fine":  # some of them are on the court
        call(game)
        return
    with pytest.raises(simile.SimileError, match=message):
        call(game)


@pytest.mark.skipif(not SHARED.exists(), reason="samples of providers are not here")
@pytest.mark.parametrize(
    ("files", "provider"),
    [
        (("metrica_home.csv", "metrica_away.csv"), "metrica_csv"),
        (("tracab_meta.xml", "tracab_raw.dat"), "tracab"),
        (("sportec_meta.xml", "sportec_positional.xml"), "sportec"),
    ],
)
def test_real_tracking_becomes_demonstrations(files, provider: str):
    pytest.importorskip("kloppy")
    games = read_kloppy([SHARED / name for name in files], provider)
    filmed = [game for game in games if np.isfinite(game.detections).any()]
    for game in operate(filmed, axes=3):
        assert np.isfinite(game.actions).all()
        assert demonstrations(game).n_actions == 3


def test_boxes_of_a_detector_become_demonstrations(tmp_path: Path):
    rng = np.random.default_rng(0)
    lines = [
        f"{t},{i},{900 + 5 * t + 40 * rng.normal():.1f},{500 + 30 * rng.normal():.1f},20,40,0.9,-1,-1,-1"
        for t in range(1, 101)
        for i in range(8)
        if rng.random() < 0.8
    ]
    (tmp_path / "det.txt").write_text("\n".join(lines))
    to_court = [[0.02, 0.0, -19.2], [0.0, -0.02, 10.8], [0.0, 0.0, 1.0]]
    (filmed,) = operate(read_mot(tmp_path / "det.txt", to_court, court=BASKETBALL, rate=30.0))
    assert filmed.actions[-1, 0] > filmed.actions[0, 0] + 5.0
    assert demonstrations(filmed).n_frames == len(filmed)


def test_the_command_films_what_was_recorded(tmp_path: Path, game: Game):
    plain = replace(game, actions=None, players=lose(game.players, 0.01), ball=None, still=(float("nan"),) * 2)
    save_game(plain, tmp_path / "a.npz")
    save_game(replace(game, name="other"), tmp_path / "b.npz")
    told = simile_("camera", "operate", "a.npz", "b.npz", "--axes", "3", "--seed", "2", "--out", "filmed", cwd=tmp_path)
    assert told.stdout == ("filmed: 2 games, 4.0 minutes of basketball\nLearn: simile camera features filmed/*.npz\n")
    assert "simile: in 1 of the games his actions are in place of the operator's there" in told.stderr
    filmed = load_game(tmp_path / "filmed/game-000.npz")
    (expected,) = operate(load_game(tmp_path / "a.npz"), axes=3, seed=2)
    np.testing.assert_array_equal(filmed.actions, expected.actions)
    told = simile_("camera", "features", "filmed/game-000.npz", "filmed/game-001.npz", cwd=tmp_path)
    assert "2 games, 6,000 frames" in told.stdout


def test_a_game_without_anybody_is_refused_by_the_command(tmp_path: Path, game: Game):
    save_game(replace(game, players=None, detections=game.detections + 900.0), tmp_path / "far.npz")
    told = simile_("camera", "operate", "far.npz", cwd=tmp_path, code=2)
    assert "far.npz: 100% of the positions lie off the court (28 x 15 m)" in told.stderr
    assert not (tmp_path / "operated").exists()
