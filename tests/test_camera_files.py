"""Files of every kind from features to a moving head by command alone, and what is said on the way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import simile_
from simile.camera.geometry import Camera
from simile.camera.simulation import simulate
from simile.data.demonstrations import Demonstrations
from simile.data.reading import read, write
from visca_emulator import Server

FOOT = 0.3048
QUICK = (
    *(
        "--algorithm",
        "paper",
        "--horizon",
        "Horizon((0, 4), 0)",
        "--n-rounds",
        "1",
        "--model",
        "SmoothForest(n_trees=4)",
    ),
    *("--smoothness", "100", "--test", "0.25"),
)
CORNER = Camera((-18.0, -12.0, 5.0), (55.0, 0.0, 0.0))
NOTHING = {"players": None, "ball": None, "possession": None}
TO_COURT = [[0.02, 0.0, -19.2], [0.0, -0.02, 10.8], [0.0, 0.0, 1.0]]  # from pixels


def write_table(path: Path, games) -> None:
    """In feet from a corner, at 60 Hz, filmed from a corner of the hall."""
    parts = []
    for game in games:
        t, i = np.nonzero(np.isfinite(game.detections[..., 0]))
        x, y = (game.detections[t, i] / FOOT + [47.0, 25.0]).T
        parts.append(
            pd.DataFrame({"utc": t / game.rate, "px": x, "py": y, "pan": game.actions[t, 0], "game": game.name})
        )
    pd.concat(parts).to_csv(path, index=False)


def write_boxes(path: Path, game) -> None:
    """As a detector finds them in the picture of a still camera, and the operator beside them."""
    t, i = np.nonzero(np.isfinite(game.detections[..., 0]))
    u, v = ((game.detections[t, i] - [-19.2, 10.8]) / [0.02, -0.02]).T
    rows = [f"{f + 1},-1,{a - 10:.2f},{b - 40:.2f},20,40,0.9,-1,-1,-1" for f, a, b in zip(t, u, v, strict=True)]
    path.write_text("\n".join(rows))
    pan = game.actions[:, 0]
    pd.DataFrame({"frame": np.arange(1, 1 + len(pan)), "pan": pan}).to_csv(path.with_suffix(".csv"), index=False)


def write_log(path: Path, game) -> None:
    """As SportVU has it: feet from a corner, two teams."""
    moments = []
    for t, places in enumerate(game.players / FOOT + [47.0, 25.0]):
        rows = [[1 + (i > 4), i, x, y, 0.0] for i, (x, y) in enumerate(places.tolist())]
        moments.append([1, 40 * t, 720.0, 24.0, None, rows])
    path.write_text(json.dumps({"gameid": "7", "events": [{"eventId": "1", "moments": moments}]}))


def write_video(path: Path, frames: int, rate: int) -> None:
    import av

    with av.open(str(path), "w") as film:
        stream = film.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 320, 90, "yuv420p"
        picture = av.VideoFrame.from_ndarray(np.zeros((90, 320, 3), np.uint8), format="rgb24")
        for _ in range(frames):
            film.mux(stream.encode(picture))
        film.mux(stream.encode())


def go_through(folder: Path, whole: Path, brief: Path, frames: int, rate: int, told: tuple[str, ...]) -> list[str]:
    """Take a game from a policy that is there to a head; returns what each command said on stderr."""
    policy, said = "run/policy.safetensors", []
    judged = simile_("camera", "evaluate", policy, whole, *told, "--json", cwd=folder)
    assert 0.2 < json.loads(judged.stdout)["policy"]["players"] <= 1.0
    said.append(judged.stderr)
    said.append(simile_("camera", "watch", brief, "--policy", policy, *told, cwd=folder).stderr)
    write_video(folder / "wide.mp4", frames, rate)
    cut = simile_("camera", "crop", "wide.mp4", policy, brief, *told, "--size", "64", "36", cwd=folder)
    assert f"{frames} frames" in cut.stdout
    said.append(cut.stderr)
    with Server() as server:
        drive = ("camera", "drive", policy, brief, "--head", f"127.0.0.1:{server.port}")
        said.append(simile_(*drive, *told, cwd=folder).stderr)
        assert server.camera.pan != 0.0
    return said


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of three games in feet at 60 Hz, and a policy trained on it."""
    folder = tmp_path_factory.mktemp("hall")
    games = simulate(3, minutes=0.1, seed=5, rate=60.0, camera=CORNER)
    write_table(folder / "feet.csv", games)
    seen, acted = games[0].detections[:54], games[0].actions[:54]
    write_table(folder / "brief.csv", [replace(games[0], detections=seen, actions=acted, **NOTHING)])
    simile_("camera", "features", "feet.csv", *TABLE, "--out", "t.parquet", cwd=folder)
    simile_("train", "t.parquet", *QUICK, cwd=folder)
    return folder


TABLE = (
    *("--columns", "time=utc,x=px,y=py", "--units", "feet", "--middle", "47,25", "--sport", "nba"),
    *("--camera", "-18,-12,5,55"),
)


def test_a_table_in_feet_at_60_hz_by_a_camera_elsewhere_goes_all_the_way(hall):
    judged, *others = go_through(hall, "feet.csv", "brief.csv", 54, 60, TABLE)
    assert judged == ""
    for said in others:  # less than a second of it may well lie outside what was trained on
        assert not [word for word in ("lie off", "frames a second", "--court", "players") if word in said]


def test_boxes_at_30_hz_with_a_homography_go_all_the_way(tmp_path):
    (tmp_path / "h.json").write_text(json.dumps(TO_COURT))
    for i, game in enumerate(simulate(3, minutes=0.1, seed=8, rate=30.0)):
        write_boxes(tmp_path / f"det{i}.txt", game)
    write_boxes(tmp_path / "brief.txt", simulate(1, minutes=0.02, seed=9, rate=30.0)[0])
    (tmp_path / "seqinfo.ini").write_text("[Sequence]\nframeRate=30\n")
    told = ("--homography", "h.json", "--confidence", "0.5")
    for i in range(3):
        features = ("camera", "features", f"det{i}.txt", *told, "--operator", f"det{i}.csv", "--out", f"t{i}.parquet")
        simile_(*features, cwd=tmp_path)
    simile_("train", *(f"t{i}.parquet" for i in range(3)), *QUICK, cwd=tmp_path)
    go_through(tmp_path, "det2.txt", "brief.txt", 36, 30, told)


def test_a_sportvu_log_is_filmed_by_a_policy_of_another_pace_and_court(hall):
    write_log(hall / "log.json", simulate(1, minutes=0.1, seed=6)[0])
    write_log(hall / "brief.json", simulate(1, minutes=0.02, seed=6)[0])
    said = go_through(hall, "log.json", "brief.json", 30, 25, ("--camera", "-18,-12,5,55"))
    for words in said:
        assert "was trained at 60 frames a second, and there are 25: it acts 60 times a second" in words
    refused = simile_("camera", "features", "log.json", cwd=hall, code=2).stderr
    assert "has no actions, so there is nothing to learn from it" in refused


def test_feet_taken_for_metres_are_said_in_every_command(hall):
    wrong = [option for option in TABLE if option not in ("--units", "feet")]
    policy = "run/policy.safetensors"
    for words in (
        ("features", "feet.csv", "--out", "no.parquet"),
        ("evaluate", policy, "feet.csv"),
        ("watch", "feet.csv", "--policy", policy, "--out", "no.html"),
    ):
        said = simile_("camera", *words, *wrong, cwd=hall).stderr
        assert "% of the positions lie off the court (28.6512 x 15.24 m)" in said
        assert "--units feet" in said


def test_one_game_of_several_is_chosen(hall):
    for chosen in ("2", "game 2"):
        watch = simile_("camera", "watch", "feet.csv", *TABLE, "--game", chosen, "--out", f"{chosen}.html", cwd=hall)
        assert "--game" not in watch.stderr
    assert (hall / "2.html").read_bytes() == (hall / "game 2.html").read_bytes()
    first = simile_("camera", "watch", "feet.csv", *TABLE, "--out", "first.html", cwd=hall).stderr
    assert "feet.csv has 3 games: the first, 'game 0', is taken; --game takes another" in first
    wrong = simile_("camera", "watch", "feet.csv", *TABLE, "--game", "9", cwd=hall, code=2).stderr
    assert "has no game '9': there are 0 to 2" in wrong


def test_lines_in_feet_drive_a_head(hall):
    games = simulate(1, minutes=0.01, seed=6, rate=60.0, camera=CORNER)[0].players / FOOT + [47.0, 25.0]
    lines = "".join(json.dumps(frame.tolist()) + "\n" for frame in games)
    with Server() as server:
        drive = ("camera", "drive", "run/policy.safetensors", "--head", f"127.0.0.1:{server.port}")
        simile_(*drive, "--units", "feet", "--middle", "47,25", "--camera", "-18,-12,5,55", cwd=hall, stdin=lines)
        wrong = simile_(*drive, "--units", "pixels", cwd=hall, code=2, stdin=lines).stderr
    assert "--homography" in wrong


def replace_rate(demos, rate):
    return Demonstrations(tuple(replace(demo, rate=rate) for demo in demos))


def test_contexts_outside_the_training_are_said_by_evaluate(hall):
    demos = pd.read_parquet(hall / "t.parquet")
    write(replace_rate(read(hall / "t.parquet", quiet=True), 30.0), hall / "slow.parquet")
    contexts = [name for name in demos.columns if name.startswith(("heat", "centroid", "count"))]
    demos.assign(**{name: demos[name] + 1000.0 for name in contexts}).to_csv(hall / "far.csv", index=False)
    told = simile_("evaluate", "run/policy.safetensors", "far.csv", cwd=hall).stdout
    assert "contexts lie outside what the policy was trained on in most frames: heat_0_0 in 100%" in told
    (doubt,) = json.loads(simile_("evaluate", "run/policy.safetensors", "far.csv", "--json", cwd=hall).stdout)["doubts"]
    assert "contexts lie outside" in doubt
    assert "note: " not in simile_("evaluate", "run/policy.safetensors", "t.parquet", cwd=hall).stdout
    for slow in (("slow.parquet",), ("t.parquet", "--resample", "30")):
        told = simile_("evaluate", "run/policy.safetensors", *slow, cwd=hall).stdout
        assert "was trained at 60 frames a second, and takes a step in each of 30 here" in told
    limited = ("evaluate", "run/policy.safetensors", "slow.parquet", "--stage", "RateLimit(9)")
    assert "(--resample 60)" in simile_(*limited, cwd=hall, code=2).stderr
