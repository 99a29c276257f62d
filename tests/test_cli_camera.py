"""The verbs of `simile camera` and `simile reproduce`, in the order a broadcaster would run them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import simile
from commands import command, simile_
from simile._common.text import plain
from simile.camera.features import demonstrations
from simile.camera.games import Game
from simile.camera.heads import FreeD, open_head
from simile.camera.tracking.recordings import load_game, save_game
from simile.cli.camera.games import features_of, roll_out
from visca_emulator import Server

SMOOTH = ("--smoothness", "100", "--regularizer", "CriticallyDamped(order=3)")
LOOK = (
    "--algorithm",
    "paper",
    "--horizon",
    "Horizon((0, 2, 4, 8, 16), 0)",
    "--n-rounds",
    "1",
    "--model",
    "SmoothForest(n_trees=8)",
)


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with games, the table made of them, and a policy trained on it."""
    folder = tmp_path_factory.mktemp("studio")
    simile_("camera", "simulate", "--n-games", "4", "--minutes", "0.3", "0.4", cwd=folder, process=True)
    games = sorted((folder / "games").iterdir())
    told = simile_("camera", "features", *games[:3], "--grid", "6", "3", "--out", "train.parquet", cwd=folder)
    assert "3 games" in told.stdout
    simile_("train", "train.parquet", *SMOOTH, *LOOK, cwd=folder)
    return folder


def test_simulate_writes_a_file_for_each_game(studio: Path):
    games = [load_game(path) for path in sorted((studio / "games").iterdir())]
    assert len(games) == 4
    assert all(game.actions is not None and game.actions.shape[1] == 1 for game in games)


def test_evaluate_tells_the_framing_of_operator_and_policy(studio: Path):
    told = simile_("camera", "evaluate", "run/policy.safetensors", "games/game-003.npz", cwd=studio).stdout
    assert "players in the picture" in told
    assert "RMSE pan" in told
    found = json.loads(
        simile_("camera", "evaluate", "run/policy.safetensors", "games/game-003.npz", "--json", cwd=studio).stdout
    )
    assert set(found) == {"operator", "policy", "evaluation"}
    assert found["evaluation"]["verdict"]["text"] in told
    policy, games = simile.load(studio / "run" / "policy.safetensors"), [load_game(studio / "games" / "game-003.npz")]
    assert found["evaluation"] == plain(
        simile.evaluate(policy, demonstrations(games, features_of(policy, games[0].court))).to_dict()
    )
    assert {row["recording"] for row in found["evaluation"]["recordings"]} == {"game 3"}
    assert 0.3 < found["policy"]["players"] <= 1.0


def test_watch_writes_a_page_or_a_film(studio: Path):
    simile_("camera", "watch", "games/game-003.npz", "--policy", "run/policy.safetensors", cwd=studio)
    page = (studio / "watch.html").read_text()
    assert "simile" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    simile_("camera", "simulate", "--n-games", "1", "--minutes", "0.05", "0.05", "--out", "brief", cwd=studio)
    simile_("camera", "watch", "brief/game-000.npz", "--out", "watch.mp4", cwd=studio)
    import av

    with av.open(str(studio / "watch.mp4")) as film:
        assert film.streams.video[0].frames == len(load_game(studio / "brief" / "game-000.npz"))


def test_watch_shows_several_policies_through_the_viewfinder_alone(studio: Path):
    (studio / "twin").mkdir(exist_ok=True)
    (studio / "twin" / "policy.safetensors").write_bytes((studio / "run" / "policy.safetensors").read_bytes())
    two = ("--policy", "run/policy.safetensors", "--policy", "twin/policy.safetensors")
    simile_("camera", "watch", "games/game-003.npz", *two, "--view", "viewfinder", "--out", "two.html", cwd=studio)
    page = (studio / "two.html").read_text()
    assert '"name": "run/policy"' in page
    assert '"name": "twin/policy"' in page
    assert '"view": "viewfinder"' in page
    Image = pytest.importorskip("PIL.Image", reason="needs the extra video")
    small = ("--size", "200", "160", "--no-thirds", "--out", "watch.webp")
    simile_("camera", "watch", "brief/game-000.npz", "--view", "viewfinder", *small, cwd=studio)
    with Image.open(studio / "watch.webp") as film:
        assert film.size == (200, 160)


def test_stages_limit_what_is_judged_and_watched(studio: Path):
    policy, game = "run/policy.safetensors", "games/game-003.npz"
    limits = ("--stage", "RateLimit(2.0)", "--stage", "Bounds(-20, 20)")
    found = json.loads(simile_("camera", "evaluate", policy, game, *limits, "--json", cwd=studio, process=True).stdout)
    free = json.loads(simile_("camera", "evaluate", policy, game, "--json", cwd=studio).stdout)
    assert found["policy"]["speed"] <= 2.0 + 1e-9 < free["policy"]["speed"]
    assert found["operator"] == free["operator"]
    assert found["evaluation"]["verdict"]["rmse"]["pan"] > free["evaluation"]["verdict"]["rmse"]["pan"]
    simile_("camera", "watch", game, "--policy", policy, *limits, "--out", "limited.html", cwd=studio, process=True)
    simile_("camera", "watch", game, "--policy", policy, "--out", "free.html", cwd=studio)
    assert (studio / "limited.html").read_bytes() != (studio / "free.html").read_bytes()


def test_crop_cuts_a_film_out_of_a_panorama(studio: Path):
    import av

    game = load_game(studio / "games" / "game-003.npz")
    with av.open(str(studio / "wide.mp4"), "w") as film:
        stream = film.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 640, 180, "yuv420p"
        picture = np.zeros((180, 640, 3), np.uint8)
        picture[:, :, 0] = np.linspace(0, 255, 640)
        for _ in range(len(game)):
            film.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        film.mux(stream.encode())
    told = simile_(
        *("camera", "crop", "wide.mp4", "run/policy.safetensors", "games/game-003.npz"),
        *("--size", "160", "90", "--out", "cut.mp4"),
        cwd=studio,
    )
    assert f"{len(game)} frames" in told.stdout
    with av.open(str(studio / "cut.mp4")) as film:
        assert (film.streams.video[0].width, film.streams.video[0].height) == (160, 90)
    # By a calibration of the same picture, too: 32 m over its width.
    matrix = [[0.05, 0.0, -16.0], [0.0, -0.05, 4.5], [0.0, 0.0, 1.0]]
    (studio / "plan.json").write_text(json.dumps(matrix))
    cut = ("camera", "crop", "wide.mp4", "run/policy.safetensors", "games/game-003.npz", "--calibration", "plan.json")
    told = simile_(*cut, "--size", "160", "90", "--out", "planned.mp4", cwd=studio)
    assert f"{len(game)} frames" in told.stdout
    assert "leave one out" in simile_(*cut, "--fov", "90", cwd=studio, code=2).stderr
    assert "--poses" in simile_(*cut, "--latency", "0.1", cwd=studio, code=2).stderr


def test_render_draws_a_game_with_its_calibration_and_the_empty_court(studio: Path):
    import av
    import cv2

    from simile.camera.calibration import load_calibration

    simile_("camera", "simulate", "--n-games", "1", "--minutes", "0.02", "0.02", "--out", "short", cwd=studio)
    told = simile_("camera", "render", "short/game-000.npz", "--size", "320", "180", "--out", "drawn.mp4", cwd=studio)
    assert "drawn.mp4: 30 frames" in told.stdout
    assert "--calibration drawn.json --background drawn.png" in told.stdout
    with av.open(str(studio / "drawn.mp4")) as film:
        assert sum(1 for _ in film.decode(video=0)) == 30
    empty, view = cv2.imread(str(studio / "drawn.png")), load_calibration(studio / "drawn.json")
    assert empty.shape == (180, 320, 3)
    x, y = view.to_pixels([0.0, 0.0]).astype(int)
    assert empty[y, x].min() > 180  # the middle line
    assert "--out" in simile_("camera", "render", "short/game-000.npz", "--out", "x.avi", cwd=studio, code=2).stderr
    elsewhere = ("--size", "320", "180", "--camera", "5,-18,6", "--out", "aside.mp4")
    simile_("camera", "render", "short/game-000.npz", *elsewhere, cwd=studio)
    assert json.loads((studio / "aside.json").read_text())["position"] == [5.0, -18.0, 6.0]
    near = simile_("camera", "render", "short/game-000.npz", "--camera", "0,-8,2", cwd=studio, code=2)
    assert "no lens shows the whole court" in near.stderr


def test_drive_moves_a_head_and_stops_it_when_the_input_ends(studio: Path):
    game = load_game(studio / "games" / "game-003.npz")
    frames = [[[float(x), float(y)] for x, y in frame if np.isfinite(x)] for frame in game.detections[:40]]
    with Server() as server:
        process = subprocess.Popen(
            command(
                *("camera", "drive", "run/policy.safetensors", "--head", f"127.0.0.1:{server.port}", "--timeout", "5"),
                *("--stage", "Bounds(-1.5, 1.5)", "--stage", "Play(0.1)", "--stage", "JerkLimit(400, 60, 30)"),
                *("--record", "recorded"),
            ),
            cwd=studio,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        deadline = time.monotonic() + 60.0
        while server.camera.pan == 0.0 and time.monotonic() < deadline:
            for frame in frames:
                process.stdin.write(json.dumps(frame) + "\n")
                process.stdin.flush()
                time.sleep(0.02)
        _, told = process.communicate(timeout=120)
        assert process.returncode == 0, told
        assert not server.camera.moving
        assert server.camera.pan != 0.0
        assert abs(server.camera.pan) < 2.0
    (recorded,) = simile.read(studio / "recorded", as_is=True, quiet=True)
    assert len(recorded) >= len(frames)
    assert recorded.action_names == simile.load(studio / "run" / "policy.safetensors").card.action_names


def test_a_policy_that_waits_is_judged_watched_and_drives_a_recorded_game_alone(studio: Path, monkeypatch):
    """Whatever is filmed, each frame gets the action that is for it; a head that turns now can be given none."""
    demos = simile.read(studio / "train.parquet", quiet=True)
    policy = simile.clone(demos, model=simile.SmoothForest(n_trees=3), lead=-0.4).policy
    policy.save(studio / "waiting.safetensors")
    game = load_game(studio / "games" / "game-003.npz")
    part = Game(game.name, game.rate, game.court, game.camera, game.detections[:40])
    save_game(part, studio / "part.npz")
    contexts = features_of(policy, game.court).batch(part.detections)
    (rolled,) = simile.rollout(policy, [contexts], start=simile.ColdStart())
    assert np.array_equal(roll_out(policy, part, ()), rolled)
    simile_("camera", "watch", "part.npz", "--policy", "waiting.safetensors", "--out", "waiting.html", cwd=studio)
    simile_("camera", "evaluate", "waiting.safetensors", "games/game-003.npz", cwd=studio)
    sent = []
    with Server() as server:
        head = ("--head", f"127.0.0.1:{server.port}", "--timeout", "5")
        monkeypatch.setattr("simile.camera.heads.driver.Driver.send", lambda _, action: sent.append(action))
        told = simile_("camera", "drive", "waiting.safetensors", "part.npz", *head, cwd=studio).stderr
        assert "the policy waits 10 frames (0.4 s)" in told
        assert np.array_equal(sent, rolled)
        told = simile_("camera", "drive", "waiting.safetensors", *head, cwd=studio, code=2).stderr
    assert "and a head turns now: learn one with lead=0, or above (--lead)" in told
    assert len(sent) == 40


def test_a_head_that_is_late_is_told_at_once_where_to_be(studio: Path, monkeypatch):
    """At frame t it is sent what the policy says then, which is for frame t + 5."""
    demos = simile.read(studio / "train.parquet", quiet=True)
    policy = simile.clone(demos, model=simile.SmoothForest(n_trees=3), lead=0.2).policy
    policy.save(studio / "ahead.safetensors")
    game = load_game(studio / "games" / "game-003.npz")
    frames = [[[float(x), float(y)] for x, y in frame if np.isfinite(x)] for frame in game.detections[:40]]
    contexts = features_of(policy, game.court).batch(game.detections[:40])
    (rolled,) = simile.rollout(policy, [contexts], start=simile.ColdStart())
    sent = []
    with Server() as server:
        monkeypatch.setattr("simile.camera.heads.driver.Driver.send", lambda _, action: sent.append(action))
        told = simile_(
            *("camera", "drive", "ahead.safetensors", "--head", f"127.0.0.1:{server.port}"),
            cwd=studio,
            stdin="".join(json.dumps(frame) + "\n" for frame in frames),
        ).stderr
    assert "the policy aims 5 frames (0.2 s) ahead" in told
    assert np.array_equal(sent[:-5], rolled[5:])
    assert len(sent) == 40


def test_a_joystick_takes_the_head_over_and_hands_it_back(studio: Path, tmp_path: Path):
    from simile.camera.live.hands import EVENT

    stick, seen = tmp_path / "js0", json.dumps([[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]]) + "\n"
    os.mkfifo(stick)
    with Server() as server:
        process = subprocess.Popen(
            command(
                *("camera", "drive", "run/policy.safetensors", "--head", f"127.0.0.1:{server.port}", "--timeout", "5"),
                *("--take-over", str(stick)),
            ),
            cwd=studio,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

        def play(until: Callable[[], bool]) -> None:
            deadline = time.monotonic() + 60.0
            while not until():
                assert process.poll() is None
                assert time.monotonic() < deadline
                assert process.stdin is not None
                process.stdin.write(seen)
                process.stdin.flush()
                time.sleep(0.02)

        events = os.open(stick, os.O_WRONLY)
        count = iter(range(200))  # until it has come from where recordings begin to where it looks
        play(lambda: next(count, None) is None)
        before = server.camera.pan
        os.write(events, EVENT.pack(0, 32767, 2, 0))
        play(lambda: server.camera.pan > before + 5.0)
        os.write(events, EVENT.pack(0, 0, 2, 0) + EVENT.pack(0, 1, 1, 0))
        play(lambda: server.camera.pan < before + 3.0)
        os.close(events)
        _, told = process.communicate(timeout=120)
    assert process.returncode == 0, told
    assert "the left stick turns" in told


def test_an_emulated_head_is_driven_by_another_process_within_its_bounds(studio: Path):
    game = load_game(studio / "games" / "game-003.npz")
    frames = [[[float(x), float(y)] for x, y in frame if np.isfinite(x)] for frame in game.detections[:40]]
    emulate = subprocess.Popen(
        command("camera", "emulate", "--protocol", "visca+tcp", "--port", "0", "--start", "8,0,1"),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert emulate.stdout is not None
        address = re.search(r"visca\+tcp://127.0.0.1:\d+", emulate.stdout.readline())
        assert address is not None
        driven = subprocess.Popen(
            command(
                *("camera", "drive", "run/policy.safetensors", "--head", address[0], "--timeout", "5"),
                *("--bounds", "pan=5:5.5", "--speed", "60", "--acceleration", "200"),
            ),
            cwd=studio,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert driven.stdin is not None
        assert driven.stderr is not None
        while "14.4 units per degree" not in driven.stderr.readline():
            assert driven.poll() is None
        for frame in frames * 2:
            driven.stdin.write(json.dumps(frame) + "\n")
            driven.stdin.flush()
            time.sleep(0.02)
        _, told = driven.communicate(timeout=120)
        assert driven.returncode == 0, told
        with open_head(address[0]) as head:
            assert 4.8 < head.where(10.0).pan < 5.7
    finally:
        emulate.send_signal(signal.SIGINT)
        rest = emulate.communicate(timeout=60)[0]
    assert emulate.returncode == 0
    assert "pan" in rest


def test_a_swaying_head_tells_where_it_looks(studio: Path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
        heard.bind(("127.0.0.1", 0))
        port = str(heard.getsockname()[1])
        told = simile_(
            "camera", "emulate", "--protocol", "freed", "--port", port, "--seconds", "0.3", cwd=studio
        ).stdout
        assert f"127.0.0.1:{port}" in told
        heard.settimeout(5.0)
        packets = [FreeD.decode(heard.recv(100)) for _ in range(3)]
    assert packets[0].pan <= packets[1].pan <= packets[2].pan
    assert packets[2].camera == 1


def test_mistakes_are_told_in_one_sentence(studio: Path):
    policy = "run/policy.safetensors"
    for arguments, word in (
        (("camera", "evaluate", policy, "nowhere.npz"), "nowhere.npz"),
        (("camera", "watch", "train.parquet"), "train.parquet"),
        (("camera", "drive", policy, "--head", "127.0.0.1:x"), "--head"),
        (("camera", "drive", policy), "--head"),
        (("camera", "drive", policy, "--head", "127.0.0.1", "--take-over", "keys"), "would both read stdin"),
        (("camera", "drive", "--head", "127.0.0.1"), "POLICY is missing"),
        (("camera", "drive", policy, "--head", "http://127.0.0.1"), "visca+tcp://HOST"),
        (("camera", "drive", policy, "--head", "127.0.0.1", "--model", "eos"), "sony-x400"),
        (("camera", "drive", policy, "--head", "127.0.0.1", "--head-units", "14.4"), "--head-units must be pan="),
        (("camera", "drive", policy, "--head", "127.0.0.1", "--pan-range", "170"), "--pan-range must be LOW:HIGH"),
        (("camera", "drive", policy, "--head", "127.0.0.1", "--pan-range", "170:-170"), "pan_range must increase"),
        (("camera", "drive", policy, "--head", "onvif://a", "--model", "sony"), "--model is of VISCA"),
        (("camera", "drive", policy, "--head", "127.0.0.1", "--bounds", "tilt=-1:1"), "the policy moves pan"),
        (("camera", "drive", policy, "--head", "127.0.0.1", "--bounds", "pan=5:1"), "--bounds: the low end"),
        (("camera", "drive", policy, "--head", "127.0.0.1", "--start", "1,2"), "--start must be PAN,TILT,ZOOM"),
        (("camera", "drive", policy, "--head", "visca+tcp://a", "--local-port", "9"), "--local-port"),
        (("camera", "emulate", "--freed", "somewhere"), "--freed must be HOST:PORT"),
        (("camera", "emulate", "--start", "200,0,1"), "start: pan 200"),
        (("camera", "drive", policy, "--head", "127.0.0.1", "--stage", "Fast()"), "Fast is not known"),
        (("camera", "drive", policy, "--head", "x", "--speed", "5", "--stage", "AccelerationLimit(9)"), "leave these"),
        (("camera", "drive", policy, "--head", "x", "--acceleration", "0"), "acceleration must be above 0"),
        (("camera", "evaluate", policy, "games/game-003.npz", "--stage", "Play(-1)"), "width must be"),
        (("camera", "watch", "games/game-003.npz", "--stage", "Play(1)"), "--policy"),
        (("camera", "watch", "games/game-003.npz", "--size", "640", "360"), "--size is for films"),
        (("camera", "watch", "games/game-003.npz", *("--policy", "run/policy.safetensors") * 2), "same file twice"),
        (("camera", "crop", "nowhere.mp4", policy, "games/game-003.npz"), "nowhere.mp4"),
        (("reproduce", "--claims", "magic"), "magic"),
    ):
        assert word in simile_(*arguments, cwd=studio, code=2).stderr


def test_reproduce_writes_tables_pictures_and_a_page_with_verdicts(tmp_path: Path):
    told = simile_("reproduce", "--quick", "--seeds", "2", "--claims", "smooth-class", cwd=tmp_path)
    page = (tmp_path / "results" / "results.md").read_text()
    assert "smooth-class" in told.stdout
    assert any(verdict in page for verdict in ("holds", "does not hold here", "undecided"))
    assert (tmp_path / "results" / "smooth-class.csv").exists()
    assert (tmp_path / "results" / "smooth-class.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "results" / "results.json").read_text())["version"] == simile.__version__


def test_reproduce_takes_data_of_ones_own(studio: Path):
    done = simile_(
        *("reproduce", "--data", "train.parquet", "--quick", "--seeds", "2", "--claims", "smooth-class"),
        *("--out", "own"),
        cwd=studio,
    )
    assert "smooth-class" in done.stdout
    assert "FileSource" in (studio / "own" / "results.md").read_text()


def test_the_camera_is_told_by_an_option(studio: Path):
    far = ("--camera", "0,16.5,8.25,180")
    told = simile_("camera", "simulate", "--n-games", "1", "--minutes", "0.1", "0.1", *far, "--out", "far", cwd=studio)
    assert "1 games" in told.stdout
    assert load_game(studio / "far" / "game-000.npz").camera.base.heading == 180.0
    for text, word in (("1,2", "x,y,z"), ("nowhere.json", "nowhere.json"), ("0,20,8", "heading of 180")):
        assert word in simile_("camera", "simulate", "--camera", text, "--out", "no", cwd=studio, code=2).stderr


@pytest.fixture(scope="module")
def far(studio: Path) -> str:
    """A game filmed from behind the far side line: the policy of the studio was trained on the near side."""
    where = ("--camera", "3,17,7,185", "--seed", "7")
    simile_("camera", "simulate", "--n-games", "1", "--minutes", "0.4", "0.4", *where, "--out", "opposite", cwd=studio)
    return "opposite/game-000.npz"


def test_a_policy_is_re_aimed_for_the_camera_of_the_game(studio: Path, far: str):
    policy, home = "run/policy.safetensors", "0,-16.5,8.25"
    assert "position     0.0, -16.5, 8.25" in simile_("inspect", policy, cwd=studio).stdout
    told = simile_("camera", "evaluate", policy, far, "--json", cwd=studio)
    assert "trained for a camera at 0,-16.5,8.25, and the game is filmed from 3,17,7,185: it is re-aimed" in told.stderr
    unmoved = ("--stage", f"Retarget('{home}', '{home}')")  # leaves the policy as it is
    wrong = simile_("camera", "evaluate", policy, far, *unmoved, "--json", cwd=studio)
    assert "re-aimed" not in wrong.stderr
    found, before = (json.loads(said.stdout)["evaluation"]["verdict"]["rmse"]["pan"] for said in (told, wrong))
    assert found < 0.5 * before, (found, before)
    players = [json.loads(said.stdout)["policy"]["players"] for said in (told, wrong)]
    assert players[0] > players[1] + 0.1, players
    simile_("camera", "watch", far, "--policy", policy, "--out", "far.html", cwd=studio)
    again = simile_("camera", "evaluate", policy, far, "--camera", home, "--json", cwd=studio)
    assert f"{far}: filmed from 3,17,7,185, taken from {home}; its operator's actions are re-aimed" in again.stderr
    assert json.loads(again.stdout)["evaluation"]["verdict"]["rmse"]["pan"] < 1.5 * found


def test_retarget_tells_the_stage_and_writes_the_camera_on_the_card(studio: Path):
    policy, corner = "run/policy.safetensors", "-18,-12,5,55"
    told = simile_("camera", "retarget", policy, "--camera", corner, cwd=studio).stdout
    assert f"--stage \"Retarget('0,-16.5,8.25', '{corner}')\"" in told
    assert "middle" in told
    simile_("camera", "retarget", policy, "--from", corner, "--out", "said.safetensors", cwd=studio)
    shown = json.loads(simile_("inspect", "said.safetensors", "--json", cwd=studio).stdout)
    assert shown["card"]["training"]["about"]["camera"]["position"] == [-18.0, -12.0, 5.0]
    for camera, word in (("-25,0,8,90", "long axis"), ("0,30,8", "heading of 180"), ("0,3,8", "outside")):
        assert word in simile_("camera", "retarget", policy, "--camera", camera, cwd=studio, code=2).stderr


def test_games_of_two_cameras_are_no_set_and_text_cannot_keep_a_camera(studio: Path, far: str):
    both = ("camera", "features", "games/game-000.npz", far)
    told = simile_(*both, "--out", "both.parquet", cwd=studio, code=2).stderr
    assert "--camera 0,-16.5,8.25" in told
    simile_(*both, "--camera", "0,-16.5,8.25", "--out", "both.parquet", cwd=studio)
    assert "simile camera retarget" in simile_(*both[:3], "--out", "one.csv", cwd=studio).stderr
    simile_("camera", "features", far, "--grid", "6", "3", "--out", "far.parquet", cwd=studio)
    told = simile_("train", "train.parquet", "far.parquet", "--out", "no", cwd=studio, code=2).stderr
    assert "make them alike" in told
    turned = ("--stage", "Retarget('0,-16.5,8.25', '3,17,7,185')")
    judge = ("evaluate", "run/policy.safetensors", "far.parquet", "--json")
    wrong, right = (simile_(*judge, *said, cwd=studio) for said in ((), turned))
    assert "the actions of both mean different things" in wrong.stderr
    assert "different" not in right.stderr
    before, found = (json.loads(said.stdout)["verdict"]["rmse"]["pan"] for said in (wrong, right))
    assert found < 0.5 * before


def test_a_policy_that_pans_is_measured_by_the_pan_of_an_operator_who_also_tilts(studio: Path):
    simile_(
        "camera", "simulate", "--n-games", "1", "--minutes", "0.3", "0.3", "--axes", "3", "--out", "ptz", cwd=studio
    )
    done = simile_("camera", "evaluate", "run/policy.safetensors", "ptz/game-000.npz", "--json", cwd=studio)
    found = json.loads(done.stdout)
    assert {row["action"] for row in found["evaluation"]["recordings"]} == set(found["evaluation"]["verdict"]["rmse"])
    assert set(found["evaluation"]["verdict"]["rmse"]) == {"pan"}
    assert found["operator"]["zoom_speed"] > 0.0
    assert found["policy"]["zoom_speed"] is None


def test_drive_re_aims_for_its_camera_and_tells_the_still_view(studio: Path):
    process = subprocess.Popen(
        command("camera", "drive", "run/policy.safetensors", "--head", "127.0.0.1:9", "--camera", "3,17,7,185"),
        cwd=studio,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    _, told = process.communicate(timeout=60)
    assert "re-aimed" in told
    assert "tilt -22.1 and zoom" in told


def test_the_choices_of_options_are_those_of_the_library():
    from simile.camera.courts import COURTS
    from simile.camera.tracking import soccer, units
    from simile.cli.camera import games

    assert tuple(COURTS) == games.SPORTS
    assert tuple(soccer.PROVIDERS) == games.PROVIDERS
    assert (*units.METRES, units.PIXELS) == games.UNITS


def test_options_tell_how_files_are_read(tmp_path: Path):
    frames = np.repeat(np.arange(80), 3)
    rows = np.column_stack(
        [frames, 47 + 20 * np.sin(frames / 9), 25 + 9 * np.cos(np.arange(240)), 20 * np.sin(frames / 9)]
    )
    np.savetxt(tmp_path / "d.csv", rows, "%.4f", ",", header="n,px,py,lens", comments="")
    told = simile_(
        *("camera", "features", "d.csv", "--columns", "frame=n,x=px", "--columns", "y=py,pan=lens", "--rate", "60"),
        *("--units", "feet", "--middle", "47,25", "--court", "nba", "--camera", "0,-20,9", "--out", "t.parquet"),
        cwd=tmp_path,
    )
    assert "80 frames" in told.stdout
    demos = simile.read(tmp_path / "t.parquet", quiet=True)
    assert demos.rate == 60.0
    centre = demos[0].contexts[:, demos.context_names.index("centroid_x")]
    assert np.abs(centre - np.mean(rows[:, 1].reshape(80, 3) - 47, axis=1) * 0.3048).max() < 0.01
    for arguments, word in (
        (("d.csv", "--columns", "frame"), "--columns must be role=column"),
        (("d.csv", "--middle", "a,b"), "--middle must be x,y"),
        (("d.csv", "--sport", "nba", "--court", "40,20"), "--sport and --court tell the same"),
        (("d.csv", "--court", "40"), "court must be"),
        (("d.csv", "--columns", "frame=n,x=px,y=py,pan=lens"), "(--rate)"),
        (("d.csv", "--units", "pixels"), "--homography"),
        (("d.csv", "--homography", "no.json"), "no.json"),
        (("d.csv", "--latency", "0.1"), "--poses"),
        (("meta.xml,raw.dat", "--provider", "tracab"), "meta.xml: there is no such file"),
        (("meta.xml", "--provider", "opta"), "'opta' is not one of"),
    ):
        assert word in simile_("camera", "features", *arguments, cwd=tmp_path, code=2).stderr


SAMPLES = Path(__file__).parents[2] / "shared" / "data" / "tracking"
GAMES = {
    "metrica_csv": [("metrica_home.csv", "metrica_away.csv")],
    "metrica_epts": [
        ("epts_metrica_metadata.xml", "epts_metrica_tracking.txt"),
        ("epts_metrica_metadata_unused_sensor.xml", "epts_metrica_tracking.txt"),
        ("epts_metrica_metadata_without_score.xml", "epts_metrica_tracking_with_empty_values.txt"),
    ],
    "pff": [("pff_metadata_3812.json", "pff_rosters_3812.json", "pff_3812.jsonl")],
    "secondspectrum": [
        ("second_spectrum_fake_metadata.xml", "second_spectrum_fake_data.jsonl", "second_spectrum_fake_metadata.json"),
        ("second_spectrum_fake_metadata.xml", "second_spectrum_fake_data_utf8sig.jsonl"),
    ],
    "signality": [
        (
            "signality_meta_data.json",
            "signality_p1_raw_data_subset.json+signality_p2_raw_data_subset.json",
            "signality_venue_information.json",
        )
    ],
    "skillcorner": [("skillcorner_meta_data.json", "skillcorner_v3_raw_data.jsonl")],
    "sportec": [
        ("sportec_meta.xml", "sportec_positional.xml"),
        ("sportec_meta.xml", "sportec_positional_w_referee.xml"),
    ],
    "statsperform": [
        ("statsperform_tracking_ma1.json", "statsperform_tracking_ma25.txt"),
        ("statsperform_tracking_ma1.xml", "statsperform_tracking_ma25.txt"),
    ],
    "tracab": [
        ("tracab_meta.json", "tracab_raw.json"),
        *((f"tracab_meta{n}.xml", "tracab_raw.dat") for n in ("", "_2", "_3", "_4")),
    ],
}
# Its frames are of another game, which is not among the samples.
UNREADABLE = {"skillcorner": ("skillcorner_match_data.json", "skillcorner_v3_raw_data.jsonl")}


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs ../shared/data/tracking")
@pytest.mark.filterwarnings("ignore:The pitch dimensions are required:UserWarning")
def test_all_samples_of_providers_are_read_by_command_or_named():
    games = [(provider, files) for provider, several in GAMES.items() for files in several]
    named = {part for _, files in (*games, *UNREADABLE.items()) for file in files for part in file.split("+")}
    assert named == {path.name for path in SAMPLES.iterdir()} - {"LICENSE"}
    for provider, files in games:
        said = simile_("camera", "features", ",".join(files), "--provider", provider, cwd=SAMPLES, code=2).stderr
        assert "has no actions, so there is nothing to learn from it" in said  # it was read, and nobody filmed it
    for provider, files in UNREADABLE.items():
        said = simile_("camera", "features", ",".join(files), "--provider", provider, cwd=SAMPLES, code=2).stderr
        assert "is not there: are they whole, of one game" in said
