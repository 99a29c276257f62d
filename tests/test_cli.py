"""Every verb of the command line, in an empty folder, as a new user would run it: once as a real process."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import feather

import simile
from commands import command, simile_
from simile.cli.app import app
from simile.cli.output import to_json
from simile.cli.run import Wire
from simile.data import tasks
from simile.errors import DataError
from simile.online import Predictor

SMALL = ("--model", "SmoothForest(n_trees=6)", "--n-rounds", "2", "--no-report")
QUICK = ("--algorithm", "paper", *SMALL)


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "games.csv"
    simile.write(tasks.pursuit(n_sequences=10, length=150, seed=11), path)
    return path


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Less of it: a comparison learns a dozen times, and tunes its rivals."""
    path = tmp_path_factory.mktemp("data") / "few.csv"
    simile.write(tasks.pursuit(n_sequences=4, length=60, seed=11), path)
    return path


@pytest.fixture(scope="module")
def trained(games: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    simile_("train", games, "--actions", "pan", *QUICK, cwd=folder, process=True)
    return folder / "run" / "policy.safetensors"


def test_help_names_every_verb_and_loads_nothing_heavy(tmp_path: Path):
    done = simile_("--help", cwd=tmp_path, process=True)
    for verb in (
        "demo",
        "train",
        "evaluate",
        "rollout",
        "compare",
        "diagnose",
        "describe",
        "inspect",
        "export",
        "tune",
        "run",
    ):
        assert f"\n  {verb} " in done.stdout
        assert "Usage" in simile_(verb, "--help", cwd=tmp_path).stdout
    heavy = ("numpy", "numba", "sklearn", "pyarrow", "rich")
    code = f"import sys, simile.cli.app; print([m for m in {heavy} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_the_installed_command_is_this_program(tmp_path: Path):
    script = Path(sys.executable).with_name("simile")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert simile.__version__ in done.stdout


def test_train_writes_a_policy_a_config_and_a_verdict(games: Path, tmp_path: Path):
    done = simile_("train", games, "--actions", "pan", *QUICK, "--report", cwd=tmp_path)
    assert "10 sequences" in done.stderr  # what was understood
    assert "round 2" in done.stderr
    for word in ("policy", "hold the last action", "the expert", "best simple filter", "roughness", "holding the last"):
        assert word in done.stdout
    folder = tmp_path / "run"
    written = [
        "baseline.safetensors",
        "config.toml",
        "policy.safetensors",
        "report.html",
        "rounds.jsonl",
        "summary.json",
    ]
    assert sorted(p.name for p in folder.iterdir()) == written
    summary = json.loads((folder / "summary.json").read_text())
    assert [r["number"] for r in summary["rounds"]] == [0, 1, 2]
    assert summary.keys() >= {"verdict", "held_out", "recordings", "path"}
    assert summary["verdict"].keys() >= {"text", "headline", "findings", "rmse", "over_hold", "roughness", "motion"}
    assert summary["verdict"]["text"] in done.stdout
    policy = simile.load(folder / "policy.safetensors")
    assert policy.card.action_names == ("pan",)


def test_several_files_are_a_sequence_each(games: Path, tmp_path: Path):
    for demo in simile.read(games, actions="pan", quiet=True):
        simile.write(simile.Demonstrations((demo,)), tmp_path / "games" / f"{demo.name}.parquet")
    files = sorted((tmp_path / "games").iterdir())
    by_name = simile_("train", *files, *QUICK, "--out", "by-name", cwd=tmp_path)
    assert "10 sequences" in by_name.stderr
    simile_("train", "games", *QUICK, "--out", "by-folder", cwd=tmp_path)
    simile_("train", "games/*.parquet", *QUICK, "--out", "by-glob", cwd=tmp_path)
    simile_("train", "--config", "by-name/config.toml", "--out", "by-config", cwd=tmp_path)
    policies = {
        (tmp_path / f"by-{way}" / "policy.safetensors").read_bytes() for way in ("name", "folder", "glob", "config")
    }
    assert len(policies) == 1


def test_the_saved_config_repeats_the_run_to_the_byte(games: Path, trained: Path, tmp_path: Path):
    config = trained.with_name("config.toml")
    held = tomllib.loads(config.read_text())
    assert held["n_rounds"] == 2
    assert held["actions"] == ["pan"]
    simile_("train", "--config", config, "--out", "again", cwd=tmp_path)
    assert (tmp_path / "again" / "policy.safetensors").read_bytes() == trained.read_bytes()


def test_the_command_line_wins_over_the_config(games: Path, trained: Path, tmp_path: Path):
    simile_("train", "--config", trained.with_name("config.toml"), "--out", "other", "--smoothness", "5", cwd=tmp_path)
    assert simile.load(tmp_path / "other" / "policy.safetensors").card.training["settings"]["smoothness"] == 5.0


def test_train_with_a_scikit_learn_model_and_other_choices(games: Path, tmp_path: Path):
    options = ("--model", "sklearn.linear_model.Ridge(alpha=10.0)", "--regularizer", "CriticallyDamped(order=3)")
    more = ("--horizon", "Horizon((0, 2, 4, 8), 0)", "--feedback", "SmoothFeedback(0.5)", "--algorithm", "coach")
    simile_("train", games, "--actions", "pan", *options, *more, "--n-rounds", "1", cwd=tmp_path)
    assert "Ridge" in simile_("inspect", "run/policy.safetensors", cwd=tmp_path).stdout


def test_a_model_that_could_not_be_saved_is_refused_before_the_training(games: Path, tmp_path: Path):
    model = "sklearn.linear_model.TheilSenRegressor(random_state=0)"
    transformer = f"sklearn.compose.TransformedTargetRegressor({model}, func=len)"
    done = simile_("train", games, "--actions", "pan", "--model", transformer, cwd=tmp_path, code=2)
    assert "model" in done.stderr
    assert not (tmp_path / "run").exists()


def test_evaluate_prints_a_table_or_json(games: Path, trained: Path, tmp_path: Path):
    said = simile_("evaluate", trained, games, cwd=tmp_path, process=True).stdout
    assert "hold the last action" in said
    assert "best simple filter" in said  # which lies beside the policy
    found = json.loads(simile_("evaluate", trained, games, "--json", "--start", "cold", cwd=tmp_path).stdout)
    assert {row["name"] for row in found["held_out"]} == {"policy", "best simple filter", "hold the last action"}
    assert {row["frames"] for row in found["recordings"]} == {150}


def test_rollout_writes_the_data_with_the_policys_actions(games: Path, trained: Path, tmp_path: Path):
    simile_("rollout", trained, games, "--out", "rolled.parquet", cwd=tmp_path, process=True)
    demos = simile.read(games, actions="pan", quiet=True)
    written = simile.read(tmp_path / "rolled.parquet", quiet=True)
    for ours, theirs in zip(simile.rollout(simile.load(trained), demos), written.actions, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_evaluate_and_rollout_take_stages_as_run_does(games: Path, trained: Path, tmp_path: Path):
    limits = ("--stage", "Play(0.5)", "--stage", "JerkLimit(90, 30, rate=6.0)")
    stages, policy = [simile.Play(0.5), simile.JerkLimit(90, 30, rate=6.0)], simile.load(trained)
    demos = simile.read(games, actions="pan", quiet=True)
    simile_("rollout", trained, games, *limits, "--out", "limited.parquet", cwd=tmp_path)
    written = simile.read(tmp_path / "limited.parquet", quiet=True)
    for ours, theirs in zip(simile.rollout(policy, demos, stages=stages), written.actions, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    told = json.loads(simile_("evaluate", trained, games, *limits, "--json", cwd=tmp_path).stdout)
    baseline = simile.load(trained.with_name("baseline.safetensors"))
    found = simile.evaluate(policy, demos, baseline=baseline, stages=stages)
    assert told == json.loads(to_json(found.to_dict()))
    assert found.verdict.rmse != simile.evaluate(policy, demos).verdict.rmse
    slow = simile_("rollout", trained, games, *limits, "--rate", "3", cwd=tmp_path)  # ten times as long
    assert "rolled.csv" in slow.stdout
    written = simile.read(tmp_path / "rolled.csv", actions="pan", quiet=True)
    for ours, theirs in zip(simile.rollout(policy, demos, stages=stages, rate=3.0), written.actions, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.long
def test_compare_runs_reductions_and_baselines(few: Path, tmp_path: Path):
    done = simile_("compare", few, "--actions", "pan", *SMALL, cwd=tmp_path)
    names = (
        "learn",
        "paper",
        "searn",
        "smile",
        "dagger",
        "coach",
        "clone",
        "look+",
        "ridge + One-Euro",
        "hold the last action",
    )
    assert all(name in done.stdout for name in names)
    written = ["comparison.json", "config.toml", "frontier.png", "rounds.jsonl"]
    assert sorted(p.name for p in (tmp_path / "comparison").iterdir()) == written


def test_compare_writes_numbers_and_a_picture_where_it_is_told_to(few: Path, tmp_path: Path):
    some = ("--reductions", "learn", "--reductions", "clone", "--no-rivals", *SMALL)
    done = simile_("compare", few, "--actions", "pan", *some, "--json", "--out", "found", cwd=tmp_path, process=True)
    found = json.loads(done.stdout)
    assert len(found["held_out"]) == 2
    assert found == json.loads((tmp_path / "found" / "comparison.json").read_text())
    assert (tmp_path / "found" / "frontier.png").stat().st_size > 10_000
    assert "frontier.png" in done.stderr


def test_diagnose_says_what_the_theory_says(games: Path, trained: Path, tmp_path: Path):
    assert "gamma" in simile_("diagnose", trained, games, cwd=tmp_path, process=True).stdout
    assert "findings" in json.loads(simile_("diagnose", trained, games, "--json", cwd=tmp_path).stdout)


def test_inspect_shows_names_lags_and_training(trained: Path, tmp_path: Path):
    shown = simile_("inspect", trained, cwd=tmp_path, process=True).stdout
    for word in ("pan", "player0", "30.0", "smoothness", "LinearAutoregression", "trees"):
        assert word in shown
    assert json.loads(simile_("inspect", trained, "--json", cwd=tmp_path).stdout)["version"] == 5


def test_bench_measures_steps(trained: Path, tmp_path: Path):
    shown = json.loads(simile_("bench", trained, "--json", cwd=tmp_path, process=True).stdout)
    assert all(value > 0.0 for value in shown.values())
    assert len(shown) == 3


def test_a_library_that_is_missing_is_named_with_the_way_to_install_it(tmp_path: Path):
    code = "import sys; sys.modules['matplotlib'] = None; from simile.cli import main; sys.exit(main(['demo']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "simile: this needs matplotlib: pip install 'smooth-imitation[cli]'\n"


def contexts_of(games: Path) -> tuple[simile.Demonstration, list[str]]:
    demo = simile.read(games, actions="pan", quiet=True)[0]
    return demo, list(demo.context_names)


def test_run_answers_csv_as_rollout_would(games: Path, trained: Path, tmp_path: Path):
    demo, names = contexts_of(games)
    rows = "\n".join([",".join(names), *(",".join(map(repr, map(float, x))) for x in demo.contexts)])
    done = simile_("run", trained, "--start", "3", cwd=tmp_path, stdin=rows + "\n")
    header, *answers = done.stdout.splitlines()
    assert header == "pan"
    expected = simile.rollout(simile.load(trained), [demo.contexts], start=np.array([3.0]))[0]
    np.testing.assert_array_equal(np.array(answers, dtype=float), expected[:, 0])


def test_run_answers_json_lines_as_they_come(games: Path, trained: Path, tmp_path: Path):
    demo, names = contexts_of(games)
    process = subprocess.Popen(
        command("run", trained),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    expected = simile.rollout(simile.load(trained), [demo.contexts[:5]], start=simile.ColdStart())[0]
    for x, a in zip(demo.contexts, expected, strict=False):
        process.stdin.write(json.dumps({**dict(zip(names, map(float, x), strict=True)), "other": "text"}) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == {"pan": a[0]}  # before the next one is sent
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()


def test_run_bridges_empty_and_bad_rows_and_says_so(games: Path, trained: Path, tmp_path: Path):
    demo, names = contexts_of(games)
    good = ",".join(map(repr, map(float, demo.contexts[0])))
    rows = [",".join(names), good, "", "1,2", good.replace(good.split(",")[0], "abc", 1), "," * (len(names) - 1), good]
    done = simile_("run", trained, cwd=tmp_path, stdin="\n".join(rows) + "\n", code=2)
    assert len(done.stdout.splitlines()) == 7  # a header and one answer for every row
    assert all(np.isfinite(float(a)) for a in done.stdout.splitlines()[1:])
    assert "row 3 has 2 fields" in done.stderr
    assert "row 4, field 'player0': 'abc' is not a number" in done.stderr
    assert "2 rows could not be used" in done.stderr


def test_run_refuses_a_header_without_its_fields_and_is_content_with_nothing(trained: Path, tmp_path: Path):
    done = simile_("run", trained, cwd=tmp_path, stdin="a,b\n1,2\n", code=2)
    assert "the header has no field 'player0'" in done.stderr
    assert done.stdout == ""
    assert simile_("run", trained, cwd=tmp_path, stdin="").stdout == ""
    done = simile_("run", trained, cwd=tmp_path, stdin='{"a": 1}\n', code=2)
    assert "row 1 has no field 'player0'" in done.stderr
    assert json.loads(done.stdout) == {"pan": None}


def test_run_with_times_and_actuator_limits(games: Path, trained: Path, tmp_path: Path):
    demo, names = contexts_of(games)
    rows = [",".join(["t", *names])]
    rows += [
        ",".join(map(repr, [i / 30.0, *map(float, x)])) for i, x in enumerate(demo.contexts[:60]) if i not in (20, 21)
    ]
    done = simile_(
        "run",
        trained,
        "--time",
        "t",
        "--stage",
        "RateLimit(6.0)",
        "--stage",
        "Bounds(-5, 5)",
        cwd=tmp_path,
        stdin="\n".join(rows),
    )
    actions = np.array(done.stdout.splitlines()[1:], dtype=float)
    assert len(actions) == 58
    assert np.abs(np.diff(actions)).max() <= 3 * 6.0 / 30.0 + 1e-9  # three ticks where two frames were dropped
    assert np.abs(actions).max() <= 5.0


SPOILT = {
    "a stray CR": lambda row: row.replace(b",", b"\r,", 1),
    "a field of 140 kB": lambda row: b"1" * 140_000 + row,
    "no number": lambda row: b"9" * 400 + row,
    "an open quote": lambda row: b'"' + row,
    "bytes that are no text": lambda row: b"\xff\xfe" + row,
    "a line of a megabyte": lambda row: b" " * (1 << 20) + row,
    "nothing but nulls": lambda row: b"\0" * 100,
}
SPOILT_JSON = {
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "a number of 400 digits": b'{"player0": ' + b"9" * 400 + b"}",
    "a number of 5000 digits": b'{"player0": ' + b"9" * 5000 + b"}",
    "another kind": b'["player0"]',
    "half": b'{"player0": 1',
}


def test_one_bad_line_is_one_bridged_frame_whatever_it_holds(games: Path, trained: Path, tmp_path: Path):
    demo, names = contexts_of(games)
    good = ",".join(map(repr, map(float, demo.contexts[0]))).encode()
    rows = [",".join(names).encode(), good, *(spoil(good) for spoil in SPOILT.values()), good]
    done = simile_("run", trained, cwd=tmp_path, stdin=b"\n".join(rows) + b"\n", code=2)
    actions = np.array(done.stdout.splitlines()[1:], dtype=float)
    assert len(actions) == len(rows) - 1
    assert np.isfinite(actions).all()
    for number in range(2, 2 + len(SPOILT)):
        assert f"stdin: row {number}" in done.stderr
    assert f"{len(SPOILT)} rows could not be used" in done.stderr
    assert len(done.stderr) < 300 * len(SPOILT)  # what is wrong with a megabyte takes a line too
    blind = Predictor(simile.load(trained))
    steps = [demo.contexts[0], *[None] * len(SPOILT), demo.contexts[0]]
    np.testing.assert_array_equal(actions, [blind.step(x)[0] for x in steps])


def test_one_bad_line_of_json_is_one_bridged_frame(games: Path, trained: Path, tmp_path: Path):
    demo, names = contexts_of(games)
    good = json.dumps(dict(zip(names, map(float, demo.contexts[0]), strict=True))).encode()
    rows = [good, *SPOILT_JSON.values(), good]
    done = simile_("run", trained, cwd=tmp_path, stdin=b"\n".join(rows) + b"\n", code=2)
    answers = [json.loads(line)["pan"] for line in done.stdout.splitlines()]
    assert len(answers) == len(rows)
    assert np.isfinite(answers).all()
    assert f"{len(SPOILT_JSON)} rows could not be used" in done.stderr


def test_a_bad_row_with_a_time_is_bridged_at_that_time_and_a_bad_time_is_refused(
    games: Path, trained: Path, tmp_path: Path
):
    demo, names = contexts_of(games)
    row = dict(zip(names, map(float, demo.contexts[0]), strict=True))
    times = [0.0, 1 / 30, 1e300, 10**400, 2 / 30]
    rows = [{**row, "t": t} for t in times]
    rows[1] = {"t": times[1], "player0": "abc"}
    stdin = "\n".join(map(json.dumps, rows))
    done = simile_("run", trained, "--time", "t", cwd=tmp_path, stdin=stdin, code=2)
    answers = [json.loads(line)["pan"] for line in done.stdout.splitlines()]
    assert [a is not None for a in answers] == [True, True, False, False, True]
    assert "row 2, field 'player0': 'abc' is not a number" in done.stderr
    assert "row 3: t must be nearer to zero" in done.stderr
    assert "row 4: t must be finite" in done.stderr


def test_one_stamp_far_ahead_does_not_make_all_others_late(games: Path, trained: Path, tmp_path: Path):
    demo, names = contexts_of(games)

    def answers(times: list[float], **how: int) -> tuple[list[float], str]:
        rows = [
            {**dict(zip(names, x.tolist(), strict=True)), "t": t} for x, t in zip(demo.contexts, times, strict=False)
        ]
        stdin = "\n".join(map(json.dumps, rows))
        done = simile_("run", trained, "--time", "t", cwd=tmp_path, stdin=stdin, **how)
        return [json.loads(line)["pan"] for line in done.stdout.splitlines()], done.stderr

    times = [i / 30 for i in range(8)]
    slipped, told = answers([*times[:4], 1e9, *times[5:]], code=2)
    assert "row 5: its time was a slip: 0.166667 s came after it" in told
    assert "1 rows could not be used" in told
    assert None not in slipped
    assert slipped[:4] == answers(times)[0][:4]
    later, told = answers([*times[:4], *(1e9 + t for t in times[4:])])  # a pause
    assert told == ""
    assert None not in later
    late, told = answers([*times[:4], 1e9, 1e9 + 1 / 30, *times[6:]], code=2)  # two of them are no slip
    assert late[-2:] == [None, None]
    assert "t must increase" in told


@settings(max_examples=200)
@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"1,2", b'{"a": 1}', b'"', b"\r", b"1e999"]))))
@example([b"1,2", b"\r1,2\r", b"\xef\xbb\xbf"])
def test_any_bytes_are_rows_or_say_why_not(lines: list[bytes]):
    """As many rows as lines, each a dictionary or a sentence, as CSV and as JSON lines."""
    lines = [line.replace(b"\n", b"") for line in lines]
    for first in (b"a,b", b'{"a": 1}'):
        source = io.BytesIO(b"\n".join([first, *lines]) + b"\n")
        wire = Wire.open(source, io.StringIO(), ("pan",))
        rows = list(wire.rows())
        assert len(rows) == len(lines) + wire.is_json
        for row in rows:
            assert isinstance(row, dict | DataError)
            assert not isinstance(row, DataError) or (str(row).startswith("stdin: row ") and "\n" not in str(row))


@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"1,2", b"1e999,0", b",,,,,", b"\r"])), max_size=20))
def test_any_bytes_are_answered_line_by_line(trained: Path, lines: list[bytes]):
    names = simile.load(trained).card.context_names
    good = b",".join([b"1"] * len(names))
    rows = [good, *(line.replace(b"\n", b"") for line in lines), b"bad", good]
    stdin = b"\n".join([",".join(names).encode(), *rows]) + b"\n"
    done = simile_("run", trained, cwd=trained.parent, stdin=stdin, code=2)
    assert all(np.isfinite(float(a)) for a in done.stdout.splitlines()[1:])
    assert len(done.stdout.splitlines()) == 1 + len(rows)


def test_run_finds_fields_blanks_and_case_aside_and_takes_other_units_of_time(
    trained: Path, games: Path, tmp_path: Path
):
    demo, names = contexts_of(games)
    rows = [list(map(repr, map(float, x))) for x in demo.contexts[:5]]
    rate = simile.load(trained).card.rate
    plain = "\n".join([",".join(["t", *names]), *(",".join([str(i / rate), *row]) for i, row in enumerate(rows)), ""])
    expected = simile_("run", trained, "--time", "t", cwd=tmp_path, stdin=plain).stdout
    spaced = [", ".join(["T", *map(str.title, names)])]
    spaced += [", ".join([str(1000 * i / rate), *row]) for i, row in enumerate(rows)]
    how = ("--time", "t", "--time-unit", "ms")
    assert simile_("run", trained, *how, cwd=tmp_path, stdin="\n".join([*spaced, ""])).stdout == expected
    keys = ["t ", *(f" {name.upper()}" for name in names)]
    objects = [dict(zip(keys, [1e9 * i / rate, *row], strict=True)) for i, row in enumerate(rows)]
    lines = "".join(json.dumps(row) + "\n" for row in objects)
    done = simile_("run", trained, "--time", "t", "--time-unit", "ns", cwd=tmp_path, stdin=lines)
    assert [json.loads(line)["pan"] for line in done.stdout.splitlines()] == [*map(float, expected.splitlines()[1:])]
    done = simile_("run", trained, "--time-unit", "ms", cwd=tmp_path, stdin=plain, code=2)
    assert "--time-unit needs the field of time: name it with --time" in done.stderr


def test_the_unit_of_time_is_an_option_of_every_command_that_reads(trained: Path, games: Path, tmp_path: Path):
    for verb, held in app.commands.items():
        options = {p.name for p in held.params}
        assert ("time_unit" in options) == bool({"resample", "time"} & options), verb
    frame = pd.read_csv(games)
    frame["t"] = (1000 * frame["t"]).round().astype(int)
    frame.to_csv(tmp_path / "ms.csv", index=False)
    seconds = simile_("evaluate", trained, games, "--json", cwd=tmp_path)
    for how in ((), ("--time-unit", "ms")):
        done = simile_("evaluate", trained, "ms.csv", "--json", *how, cwd=tmp_path)
        assert done.stdout == seconds.stdout
        assert "in milliseconds" in done.stderr
    (tmp_path / "how.toml").write_text('time_unit = "us"\n')
    done = simile_("evaluate", trained, "ms.csv", "--json", "--config", "how.toml", cwd=tmp_path)
    assert "in microseconds" in done.stderr
    done = simile_("evaluate", trained, "ms.csv", "--time-unit", "weeks", cwd=tmp_path, code=2)
    assert "'weeks' is not one of 's', 'ms', 'us', 'ns'" in done.stderr


@given(st.lists(st.one_of(st.floats(), st.floats(-1e4, 1e4), st.integers(-(10**400), 10**400)), max_size=12))
@example([0.0, 1e300, 0.1, -1e300, 1e15, 0.2])
def test_any_times_are_answered_line_by_line_and_soon(trained: Path, times: list[float]):
    names = simile.load(trained).card.context_names
    rows = [json.dumps({**dict.fromkeys(names, 1.0), "t": t}) for t in (*times, "bad")]
    stdin = "\n".join(['{"t": null}', *rows])
    done = simile_("run", trained, "--time", "t", cwd=trained.parent, stdin=stdin, code=2)
    assert len(done.stdout.splitlines()) == len(times) + 2


def test_run_reads_headers_and_lists_as_train_does(trained: Path, games: Path, tmp_path: Path):
    demo, names = contexts_of(games)
    values = list(map(repr, map(float, demo.contexts[0])))
    plain = simile_("run", trained, cwd=tmp_path, stdin=f"{','.join(names)}\n{','.join(values)}\n").stdout
    marked = f"\ufeff{';'.join(names)}\r\n{';'.join(values)}\r\n"
    assert simile_("run", trained, cwd=tmp_path, stdin=marked).stdout == plain
    done = simile_("run", trained, cwd=tmp_path, stdin=marked.replace(".", ","))
    assert (done.stdout, done.stderr) == (plain, "simile: stdin: numbers have a decimal comma: '1,5' is 1.5\n")
    mixed = f"{marked}{marked.splitlines()[1].replace('.', ',')}"
    assert "needs a point, not a comma" in simile_("run", trained, cwd=tmp_path, stdin=mixed, code=2).stderr
    done = simile_("run", trained, cwd=tmp_path, stdin=f"{','.join(names)},player0\n", code=2)
    assert "has the field 'player0' twice" in done.stderr
    assert next(iter(Wire.open(io.BytesIO(b'{"x": [1, 2]}'), io.StringIO(), ()).rows())) == {"x.0": 1, "x.1": 2}
    endless = Wire.open(io.BytesIO(b"a,b\n" + b"1" * (3 << 20) + b"\n1,2\n"), io.StringIO(), ())
    assert [isinstance(row, DataError) for row in endless.rows()] == [True, False]
    with pytest.raises(DataError, match="bytes without an end"):
        Wire.open(io.BytesIO(b"1" * (3 << 20)), io.StringIO(), ())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_run_ends_at_once_when_told_while_it_waits(trained: Path, tmp_path: Path, how: signal.Signals):
    words = command("run", trained)
    with subprocess.Popen(words, cwd=tmp_path, stdin=-1, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(",".join(simile.load(trained).card.context_names) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "pan\n"
        process.send_signal(how)
        assert process.wait(20) == 130
        assert process.stderr is not None
        assert process.stderr.read().strip() == "simile: interrupted"


NO_DATA = {
    "pipe.csv": "a pipe or a device, which can be read only once: write it to a file first",
    "zero.csv": "a pipe or a device, which can be read only once: write it to a file first",
    "empty.csv": "the file is empty",
    "folder.csv": "there is no data file in this folder",
}
NO_POLICY = {
    "pipe.csv": "it cannot be read: it is no regular file",
    "zero.csv": "it cannot be read: it is no regular file",
    "empty.csv": "it is empty",
    "folder.csv": "it cannot be read: it is a folder",
}


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "folder.csv").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", NO_DATA)
def test_what_is_no_file_of_data_or_policy_gets_a_sentence_at_once(name: str, trained: Path, games: Path, odd: Path):
    for verb in (["train"], ["compare"], ["tune"], *([verb, trained] for verb in ("evaluate", "rollout", "diagnose"))):
        assert f"{name}: {NO_DATA[name]}" in simile_(*verb, name, cwd=odd, code=2).stderr
    on_policy = (["evaluate", games], ["rollout", games], ["diagnose", games], ["inspect"], ["run"], ["export", "x.h"])
    for verb, *rest in on_policy:
        assert f"{name}: {NO_POLICY[name]}" in simile_(verb, name, *rest, cwd=odd, code=2).stderr


def test_a_pipe_as_data_ends_a_real_command_at_once(odd: Path):
    assert NO_DATA["pipe.csv"] in simile_("train", "pipe.csv", cwd=odd, code=2, process=True).stderr


# Options that name a file, and what a command says of one that cannot be read.
READ = {
    "config": (["train", "{games}", "--config", "{odd}"], "--config: {odd} is no TOML file"),
    "resume": (["train", "{games}", "--resume", "{odd}"], "--resume: {odd} holds no config.toml"),
    "config of a run": (["train", "{games}", "--resume", "{folder}"], "--config: {folder}/config.toml is no TOML file"),
    "report": (["report", "{folder}"], "{folder}/config.toml is no TOML file"),
    "initial": (["train", "{games}", "--actions", "pan", "--initial", "{odd}"], "{odd}: it "),
    "plan": (["run", "{policy}", "--plan", "{odd}"], "'?--plan'?: .*{odd}"),
    "ledger": (["versions", "{folder}/policy"], "ledger.jsonl cannot be read as a ledger"),
    "roll-back": (["roll-back", "{folder}/policy"], "ledger.jsonl cannot be read as a ledger"),
    "token": (["serve", "{policy}", "--token-file", "{odd}"], "'?--token-file'?: .*{odd}"),
    "certificate": (["serve", "{policy}", "--certfile", "{odd}"], "'?--certfile'?: .*{odd}"),
    "key": (
        ["serve", "{policy}", "--certfile", "{games}", "--keyfile", "{odd}"],
        "'?--keyfile'?: .*{odd}|cannot be used",
    ),
    "shadow": (["serve", "{policy}", "--shadow", "{odd}"], "'?--shadow'?: .*{odd}|{odd}: it "),
    "corrections": (["improve", "{policy}", "--demos", "{games}", "--corrections", "{odd}"], "{odd}"),
    "storage": (["tune", "{games}", "--actions", "pan", "--storage", "{odd}", "--out", "tuned"], "storage: {odd}"),
    "snapshots": (["serve", "{policy}", "--port", "0", "--snapshots", "{odd}"], "--snapshots'?: .*{odd}"),
}
IN_TURN = """
import contextlib, io, json, sys
from simile.cli import main
said = []
for words in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(words)
    said.append([code, err.getvalue()])
json.dump(said, sys.stdout)
"""


def test_no_file_that_an_option_names_is_waited_for(trained: Path, games: Path, odd: Path):
    """In a process of its own, which is ended if it waits; one for all, for it takes a second to start."""
    (odd / "noise.csv").write_bytes(bytes(range(1, 256)) * 9)
    with (odd / "huge.csv").open("wb") as file:
        file.truncate(10 * 2**30)
    cases = []
    for n, name in enumerate(("pipe", "zero", "folder", "noise", "huge")):
        folder = odd / f"of {name}"
        (folder / "policy.versions").mkdir(parents=True)
        (folder / "policy").write_bytes(trained.read_bytes())
        for link in ("config.toml", "policy.versions/ledger.jsonl"):
            (folder / link).symlink_to(odd / f"{name}.csv")
        known = {"odd": f"{name}.csv", "folder": f"of {name}", "games": games, "policy": trained}
        for i, (option, (words, message)) in enumerate(READ.items()):
            served = option == "snapshots" and name in ("noise", "huge")  # they are kept aside
            if not served and (name == "pipe" or (i + n) % 4 == 0):
                cases.append(([word.format(**known) for word in words], message.format(**known)))
    done = subprocess.run(
        [sys.executable, "-c", IN_TURN],
        cwd=odd,
        input=json.dumps([words for words, _ in cases]),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    for (words, message), (code, text) in zip(cases, json.loads(done.stdout), strict=True):
        assert code == 2, (words, text)
        assert re.search(message, text), (words, text)
    assert (odd / "pipe.csv").is_fifo()


def test_a_small_file_that_holds_a_great_deal_is_refused_by_commands(trained: Path, tmp_path: Path):
    """A compressed column does not say how long it is: then the system, or the first rows, show it."""
    names = simile.load(trained).card.context_names
    zeros = np.zeros(4_000_000)
    table = pa.table({**dict.fromkeys(names, zeros), "pan": zeros})
    feather.write_feather(table, tmp_path / "bomb.feather", "zstd", chunksize=len(zeros))
    done = simile_("evaluate", trained, "bomb.feather", "--max-memory", "20", cwd=tmp_path, code=2)
    assert "bomb.feather: it" in done.stderr
    assert "allow more, in MB, by max_memory (--max-memory)" in done.stderr
    pq.write_table(table, tmp_path / "bomb.parquet")
    done = simile_("evaluate", trained, "bomb.parquet", "--max-memory", "20", cwd=tmp_path, code=2)
    assert "bomb.parquet: its rows take 448 MB of memory or more, and may take 20 MB" in done.stderr


MISTAKES = {
    "no such file": (["train", "nowhere.csv"], "nowhere.csv"),
    "no data": (["train"], "DATA"),
    "no such column": (["train", "{games}", "--actions", "tilt"], "tilt"),
    "nothing to guess": (["train", "{games}"], "actions"),
    "bad recipe": (["train", "{games}", "--actions", "pan", "--model", "Magic()"], "Magic"),
    "bad number": (["train", "{games}", "--actions", "pan", "--smoothness", "-3"], "smoothness must be >= 0"),
    "bad share": (["train", "{games}", "--actions", "pan", "--test", "2"], "--test"),
    "bad option": (["train", "{games}", "--smooth", "3"], "--smooth"),
    "bad verb": (["teach"], "teach"),
    "no config": (["train", "--config", "nowhere.toml"], "nowhere.toml"),
    "nothing to resume": (["train", "--resume", "nowhere"], "nowhere"),
    "no policy": (["evaluate", "nowhere.safetensors", "{games}"], "nowhere.safetensors"),
    "no policy but data": (["inspect", "{games}"], "games.csv"),
    "other columns": (["evaluate", "{policy}", "{other}"], "no column is 'pan'"),
    "endless config": (["train", "--config", "/dev/zero"], "/dev/zero is no TOML file: it is no regular file"),
    "deep config": (["train", "--config", "{deep}"], "deep.toml is no TOML file"),
    "endless token": (
        ["serve", "{policy}", "--token-file", "/dev/zero"],
        "/dev/zero cannot be read: it is no regular file",
    ),
    "bad stage": (["run", "{policy}", "--stage", "Fast()"], "Fast"),
    "bad stage of a roll-out": (["rollout", "{policy}", "{games}", "--stage", "Play(-1)"], "width must be a finite"),
    "bad stage to judge": (["evaluate", "{policy}", "{games}", "--stage", "Play()"], "stage must be a recipe such as"),
    "a stage too wide": (
        ["rollout", "{policy}", "{games}", "--stage", "Play((1, 2))"],
        "each of the 1 actions",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_gets_one_clear_sentence_and_exit_code_2(case: str, games: Path, trained: Path, tmp_path: Path):
    other = tmp_path / "other.csv"
    other.write_text("x_a,a_pan\n1,2\n3,4\n")
    deep = tmp_path / "deep.toml"
    deep.write_text("a = " + "[" * 100_000)
    arguments, word = MISTAKES[case]
    done = simile_(
        *(a.format(games=games, policy=trained, other=other, deep=deep) for a in arguments), cwd=tmp_path, code=2
    )
    assert word in done.stderr
    assert len(done.stderr.splitlines()) <= 12


def test_a_config_with_an_unknown_name_is_refused_with_the_known_ones(games: Path, tmp_path: Path):
    (tmp_path / "config.toml").write_text("smothness = 3.0\n")
    done = simile_("train", games, "--config", "config.toml", cwd=tmp_path, code=2)
    assert "smothness" in done.stderr
    assert "smoothness" in done.stderr


def test_an_earlier_run_is_not_written_over_unless_asked(games: Path, trained: Path, tmp_path: Path):
    before = trained.read_bytes()
    again = ("train", games, "--actions", "pan", *QUICK, "--seed", "1", "--out", trained.parent)
    done = simile_(*again, cwd=tmp_path, code=2)
    assert "--overwrite" in done.stderr
    assert trained.read_bytes() == before


def test_a_training_that_failed_by_a_mistake_is_not_in_the_way_of_the_next(tmp_path: Path):
    rows = "\n".join(f"{i / 10},{i % 7},{i % 5}" for i in range(60))
    (tmp_path / "short.csv").write_text(f"t,x_a,a_u\n{rows}\n")
    done = simile_("train", "short.csv", "--algorithm", "paper", cwd=tmp_path, code=2)
    assert "use fewer action lags" in done.stderr
    simile_(
        "train", "short.csv", "--horizon", "Horizon(2, 2)", "--regularizer", "PreviousAction()", *QUICK, cwd=tmp_path
    )


def test_held_out_sequences_that_are_too_short_are_told_and_the_policy_is_kept(games: Path, tmp_path: Path):
    demos = simile.read(games, actions="pan", quiet=True)
    simile.write(simile.Demonstrations(tuple(d.cut(0, 3) for d in demos)), tmp_path / "short.csv")
    options = ("--actions", "pan", "--test", "short.csv", "--smoothness", "9", "--model", "Ridge")
    done = simile_("train", games, *options, cwd=tmp_path, code=2)
    assert "no sequence is longer" in done.stderr
    assert "--test FILE or SHARE" in done.stderr
    assert simile.load(tmp_path / "run" / "policy.safetensors").n_actions == 1


def test_compare_can_do_without_a_validation_part(few: Path, tmp_path: Path):
    options = ("--reductions", "clone", "--validation", "0", "--no-rivals", *SMALL)
    assert "clone" in simile_("compare", few, "--actions", "pan", *options, cwd=tmp_path).stdout


@pytest.fixture
def killed(games: Path, tmp_path: Path):
    """Start a training that takes a while, stop it once a checkpoint is there, and return its folder."""

    def stop(number: signal.Signals, files: int) -> tuple[Path, int, str]:
        process = subprocess.Popen(
            command(
                "train",
                games,
                "--actions",
                "pan",
                "--algorithm",
                "paper",
                "--model",
                "SmoothForest(n_trees=40, n_jobs=1)",
                "--n-rounds",
                "200",
            ),
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        checkpoint = tmp_path / "run" / "checkpoint"
        while len(list(checkpoint.glob("fit-*.safetensors"))) < files:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        _, told = process.communicate(timeout=120)
        return tmp_path / "run", process.returncode, told

    return stop


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupted_training_keeps_its_work_and_exits_with_130(killed, number: signal.Signals):
    folder, code, told = killed(number, files=4)
    assert code == 130, told
    assert "Traceback" not in told
    assert (folder / "policy.safetensors").exists()
    assert list((folder / "checkpoint").glob("fit-*"))


def test_resuming_with_other_data_is_refused(killed, games: Path, tmp_path: Path):
    folder, _, _ = killed(signal.SIGKILL, files=3)
    for other in (("--smoothness", "7"), ("--lead", "-0.2"), ("--known", "player*=0.2")):
        done = simile_("train", "--resume", folder, *other, cwd=tmp_path, code=2)
        assert "other data or settings" in done.stderr


def test_a_training_killed_at_random_moments_and_resumed_gives_the_same_bytes(games: Path, tmp_path: Path):
    options = (
        "--actions",
        "pan",
        "--algorithm",
        "paper",
        "--model",
        "SmoothForest(n_trees=10)",
        "--n-rounds",
        "4",
        "--no-report",
    )
    simile_("train", games, *options, "--out", "whole", cwd=tmp_path)
    whole = (tmp_path / "whole" / "policy.safetensors").read_bytes()
    rng = np.random.default_rng(0)
    started = time.monotonic()
    simile_("train", games, *options, "--out", "timed", cwd=tmp_path)
    length = time.monotonic() - started
    for attempt in range(int(os.environ.get("SIMILE_TRIES", "4"))):  # twenty were tried, and are not tried every time
        folder = tmp_path / f"killed-{attempt}"
        process = subprocess.Popen(
            command("train", games, *options, "--out", folder),
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # From just before the first fit to just before the end, where the files are written.
        time.sleep(rng.uniform(0.3, 1.0) * length)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not (folder / "config.toml").exists():
            simile_("train", games, *options, "--out", folder, "--overwrite", cwd=tmp_path)
        else:
            simile_("train", "--resume", folder, cwd=tmp_path)
        assert (folder / "policy.safetensors").read_bytes() == whole, attempt
        assert not (folder / "checkpoint").exists()


@pytest.mark.parametrize("verb", ["train", "tune", "compare", "demo", "reproduce", "camera simulate"])
@pytest.mark.parametrize("name", ["pan.safetensors", "out/Pan.SAFETENSORS", "pan.npz", "pan.html"])
def test_a_folder_is_not_made_under_the_name_of_a_file(verb: str, name: str, games: Path, tmp_path: Path):
    data = [games] if verb in ("train", "tune", "compare") else []
    refused = simile_(*verb.split(), *data, "--out", name, cwd=tmp_path, code=2).stderr
    folder = name.rpartition(".")[0]
    assert f"--out: {name} is the name of a file, and this writes a folder: name that, such as {folder}" in refused
    assert ("the policy is policy.safetensors in it" in refused) == (verb in ("train", "tune"))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_an_older_simile_named_like_a_file_stays_of_use(games: Path, tmp_path: Path):
    (tmp_path / "pan").write_text("a file")
    assert "--out: pan is not a folder" in simile_("train", games, "--out", "pan", cwd=tmp_path, code=2).stderr
    (tmp_path / "pan.safetensors").mkdir()
    done = simile_("train", games, "--actions", "pan", *QUICK, "--out", "pan.safetensors", cwd=tmp_path)
    assert "Policy: pan.safetensors/policy.safetensors" in done.stdout
