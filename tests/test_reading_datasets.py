"""Episodes in memory, and the folders of Minari and LeRobot."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simile.data.reading import from_episodes, read
from simile.errors import ArgumentError, DataError


def test_episodes_lose_the_observation_after_the_last_action():
    one = {"observations": np.arange(8.0).reshape(4, 2), "actions": np.arange(3.0)}
    two = SimpleNamespace(observations=np.arange(4.0).reshape(2, 2), actions=np.array([[1], [2]]))
    demos = from_episodes([one, two], rate=20.0)
    assert demos.names == ("episode 0", "episode 1")
    assert demos.context_names == ("observation.0", "observation.1")
    assert demos.action_names == ("action",)
    assert demos[0].contexts.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert demos[1].actions.tolist() == [[1], [2]]
    assert demos.rate == 20.0


def test_dictionaries_of_observations_are_flattened():
    observations = {
        "goal": np.zeros((3, 2)),
        "own": {"speed": np.arange(3), "image": np.zeros((3, 8, 8))},
        "say": ["a"] * 3,
    }
    episode = {"observations": observations, "actions": [0, 1]}
    demos = from_episodes([episode])
    assert demos.context_names == ("goal.0", "goal.1", "own.speed")
    assert from_episodes([episode], contexts="goal").context_names == ("goal.0", "goal.1")
    renamed = from_episodes([episode], contexts="own.*", context_names=["v"], action_names=["gas"])
    assert (renamed.context_names, renamed.action_names) == (("v",), ("gas",))
    steps = [{"goal": [0.0, 1.0]}, {"goal": [2.0, 3.0]}]
    assert from_episodes([{"observations": steps, "actions": [1, 2]}])[0].contexts.tolist() == [[0, 1], [2, 3]]
    assert from_episodes([{"observations": (np.zeros(2), np.ones(2)), "actions": [1, 2]}]).context_names == (
        "observation_0",
        "observation_1",
    )


@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        ([{"actions": [1]}], "number 0 has no observations"),
        ([{"observations": np.zeros(5), "actions": [1]}], "'observation' has 5 rows for 1 actions"),
        ([{"observations": np.zeros(1), "actions": ["left"]}], "'left' is not a number"),
        ([{"observations": {"a": [1]}, "actions": [1]}, {"observations": {"b": [1]}, "actions": [1]}], "context_names"),
        ([], "at least one sequence"),
    ],
)
def test_episodes_that_do_not_fit_are_refused(episodes, message):
    with pytest.raises((ArgumentError, DataError), match=message):
        from_episodes(episodes)


def minari(folder, episodes, metadata=None):
    (folder / "data").mkdir(parents=True)
    with h5py.File(folder / "data" / "main_data.hdf5", "w", track_order=True) as file:
        for i, (observations, actions) in episodes.items():
            group = file.create_group(f"episode_{i}")
            if isinstance(observations, dict):
                for key, value in observations.items():
                    group.create_dataset(f"observations/{key}", data=value)
            else:
                group.create_dataset("observations", data=observations)
            group.create_dataset("actions", data=actions)
            group.create_dataset("rewards", data=np.zeros(len(actions)))
            group.create_dataset("infos", data=["{}"] * len(actions))
    (folder / "data" / "metadata.json").write_text(json.dumps({"data_format": "hdf5", **(metadata or {})}))
    return folder


def test_a_minari_folder_is_recognised(tmp_path, capsys):
    episodes = {i: (np.full((4, 2), i), np.arange(3.0)) for i in (0, 10, 2)}
    folder = minari(tmp_path / "d", episodes, {"fps": 50})
    demos = read(folder)
    assert demos.names == ("episode 0", "episode 2", "episode 10")
    assert [len(d) for d in demos] == [3, 3, 3]
    assert [d.contexts[0, 0] for d in demos] == [0.0, 2.0, 10.0]
    assert demos.rate == 50.0
    said = capsys.readouterr().err
    assert "3 sequences by column 'episode', 9 frames (3 each), 50 Hz as stored" in said
    assert "Minari" in said


def test_a_minari_folder_has_groups_where_an_observation_tells_them(tmp_path):
    episodes = {i: ({"ball": np.arange(4.0), "player": np.full(4, i // 2)}, np.arange(3.0)) for i in range(4)}
    folder = minari(tmp_path / "d", episodes)
    demos = read(folder, group="player", quiet=True)
    assert (demos.groups, demos.context_names) == (("0.0", "0.0", "1.0", "1.0"), ("ball",))
    assert read(folder, quiet=True).groups is None  # a folder that knows its columns leaves nothing to guess
    with pytest.raises(DataError, match="'ball': must be the same in every row of a sequence; in 'episode 0' it is 0"):
        read(folder, group="ball", quiet=True)


def test_a_minari_folder_with_dictionaries_is_flattened(tmp_path):
    observations = {"goal": np.ones((3, 2)), "own/speed": np.zeros(3), "camera": np.zeros((3, 4, 4), np.uint8)}
    folder = minari(tmp_path / "d", {0: (observations, np.zeros((2, 2)))})
    demos = read(folder, quiet=True)
    assert set(demos.context_names) == {"goal.0", "goal.1", "own.speed"}
    assert demos.action_names == ("action.0", "action.1")
    assert demos.rate is None
    assert read(folder, contexts="goal", actions="*.1", rate=5.0, quiet=True).context_names == ("goal.0", "goal.1")


def test_a_damaged_minari_folder_is_refused(tmp_path):
    minari(tmp_path / "none", {})
    with pytest.raises(DataError, match="there is no episode"):
        read(tmp_path / "none")
    folder = minari(tmp_path / "odd", {0: (np.zeros((9, 2)), np.zeros(3))})
    with pytest.raises(DataError, match="episode_0: 'observation' has 9 rows for 3 actions"):
        read(folder)
    (folder / "data" / "main_data.hdf5").write_bytes(b"nothing of this kind")
    with pytest.raises(DataError, match="cannot be read as HDF5"):
        read(folder)


def lerobot(folder, layout, version="v3.0", fps=30, **features):
    """A folder of two episodes of three frames, as LeRobot lays it out."""
    info = {
        "codebase_version": version,
        "fps": fps,
        "features": {
            "action": {"dtype": "float32", "shape": [2], "names": ["pan.pos", "tilt.pos"]},
            "observation.state": {"dtype": "float32", "shape": [2], "names": {"motors": ["pan", "tilt"]}},
            "observation.wind": {"dtype": "float32", "shape": [1], "names": None},
            "observation.images.top": {"dtype": "video", "shape": [4, 4, 3], "names": ["height", "width", "channels"]},
            **{n: {"dtype": "int64", "shape": [1], "names": None} for n in ("episode_index", "frame_index", "index")},
            **features,
        },
    }
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    pq.write_table(pa.table({"task": ["look"]}), folder / "meta" / "tasks.parquet")
    for name, episodes in layout.items():
        path = folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [(e, i) for e in episodes for i in range(3)]
        table = {
            "action": pa.array([[e, i] for e, i in rows], pa.list_(pa.float32())),
            "observation.state": pa.array([[e, i] for e, i in rows], pa.list_(pa.float32(), 2)),
            "observation.wind": pa.array([0.5 * i for _, i in rows], pa.float32()),
            "timestamp": pa.array([i / fps for _, i in rows], pa.float32()),
            "frame_index": [i for _, i in rows],
            "episode_index": [e for e, _ in rows],
            "index": [3 * e + i for e, i in rows],
            "task_index": [0] * len(rows),
        }
        pq.write_table(pa.table(table), path)
    return folder


V3 = {"chunk-000/file-000.parquet": [0, 1], "chunk-000/file-001.parquet": [2]}
V2 = {f"chunk-000/episode_00000{i}.parquet": [i] for i in range(3)}


@pytest.mark.parametrize(("layout", "version"), [(V3, "v3.0"), (V2, "v2.1")])
def test_a_lerobot_folder_is_recognised(tmp_path, capsys, layout, version):
    demos = read(lerobot(tmp_path / "d", layout, version))
    assert demos.names == ("0", "1", "2")
    assert demos.action_names == ("action.pan.pos", "action.tilt.pos")
    assert demos.context_names == ("observation.state.pan", "observation.state.tilt", "observation.wind")
    assert demos.rate == 30.0
    assert demos[2].actions.tolist() == [[2, 0], [2, 1], [2, 2]]
    said = capsys.readouterr().err
    assert "observation.images.top (video)" in said
    assert f"LeRobot {version}" in said
    chosen = read(tmp_path / "d", contexts="*wind", actions="action.pan*", quiet=True)
    assert (chosen.context_names, chosen.action_names) == (("observation.wind",), ("action.pan.pos",))


def test_names_of_a_lerobot_folder_may_lie_in_another_list(tmp_path):
    nested = {"dtype": "float32", "shape": [2], "names": [["pan", "tilt"]]}
    assert read(lerobot(tmp_path / "d", V2, action=nested), quiet=True).action_names == ("action.pan", "action.tilt")
    deeper = {"dtype": "float32", "shape": [2], "names": [["pan"], ["tilt"]]}  # no names of elements
    assert read(lerobot(tmp_path / "e", V2, action=deeper), quiet=True).action_names == ("action.0", "action.1")


def test_a_real_lerobot_folder_has_the_names_of_its_joints():
    if not (folder := Path(__file__).parents[2] / "shared" / "data" / "teleoperation").is_dir():
        pytest.skip("needs ../shared/data/teleoperation")
    demos = read(folder, quiet=True)
    assert (len(demos.action_names), demos.action_names[0]) == (26, "action.kLeftShoulderPitch")


def test_a_lerobot_folder_without_data_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"there is no \.parquet file below data/"):
        read(lerobot(tmp_path / "d", {}))
    (tmp_path / "d" / "meta" / "info.json").write_text("{")
    with pytest.raises(DataError, match=r"info\.json: cannot be read as JSON"):
        read(tmp_path / "d")
