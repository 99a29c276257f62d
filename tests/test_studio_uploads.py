"""Files that come to the studio: what becomes of bad ones, large ones, odd names and unclear columns."""

from __future__ import annotations

import os
import resource
import secrets
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather

import studios as shared
from simile._common import memory
from simile._common.web import list_hosts
from simile.studio import child_tasks, processes
from simile.studio.server import build_app
from simile.studio.workspace import Job, Workspace
from studios import HERE, QUICK, TOKEN, TestClient

workspace, client = shared.workspace, shared.client

BAD_FILES = [
    ("junk.csv", secrets.token_bytes(5000), "broken"),
    ("junk.parquet", secrets.token_bytes(5000), "broken"),
    ("junk.npz", b"PK\x03\x04" + secrets.token_bytes(500), "broken"),
    ("empty.csv", b"", "broken"),
    ("header.csv", b"a_pan,x\n", "broken"),
    ("pickle.npz", b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix", "broken"),
    ("words.csv", b"when,what\nnow,this\nthen,that\n", "choose"),
    ("unclear.csv", b"pan,x\n1,2\n2,3\n", "choose"),
    ("half.csv", b"a_pan,x\n1,2\nhello,3\n4,5\n6,7\n", "choose"),
]


@pytest.mark.parametrize(("name", "content", "status"), BAD_FILES, ids=[name for name, _, _ in BAD_FILES])
def test_a_bad_file_is_listed_with_the_reason_and_without_our_paths(
    name: str, content: bytes, status: str, client: TestClient, workspace: Workspace
):
    answer = client.put(f"/api/data/{name}", content=content)
    assert answer.status_code == 201
    found = answer.json()
    assert (found["status"], found["name"], found["understood"]) == (status, name, None)
    assert name in found["error"]
    assert str(workspace.folder) not in answer.text
    assert client.post("/api/runs", json={**QUICK, "data": found["id"]}).status_code == 409
    assert client.get("/api/state").json()["data"] == [found]
    assert client.delete(f"/api/data/{found['id']}").status_code == 204
    assert list((workspace.folder / "data").iterdir()) == []


def test_a_file_that_takes_its_reader_down_does_not_take_the_studio_down(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(child_tasks.sys, "executable", "/bin/false")
    found = client.put("/api/data/bomb.csv", content=b"a_pan,x\n1,2\n").json()
    assert found["status"] == "broken"
    assert "small enough for memory" in found["error"]
    assert client.get("/api/state").json()["data"] == [found]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits other processes")
@pytest.mark.parametrize(("name", "reason"), [("d.npz", "its rows take 1.1 GB"), ("d.feather", "it takes more memory")])
def test_a_small_file_that_holds_a_great_deal_is_refused_by_a_child_with_a_limit(
    workspace: Workspace, tmp_path: Path, name: str, reason: str
):
    """Some kilobytes that are gigabytes unpacked; an archive says so beforehand, a compressed column does not."""
    values = np.zeros(23_000_000)
    if name == "d.npz":
        np.savez_compressed(tmp_path / name, x_0=values, a_0=values)
    else:
        table = pa.table({f"a_{i}": values for i in range(8)} | {"x_0": values})
        feather.write_feather(table, tmp_path / name, "zstd", chunksize=len(values))
    app = build_app(workspace, TOKEN, list_hosts(8765), max_memory=100)
    with TestClient(app, base_url=f"http://{HERE}", headers={"authorization": f"Bearer {TOKEN}"}) as client:
        found = client.put(f"/api/data/{name}", content=(tmp_path / name).read_bytes()).json()
        assert (found["status"], found["name"]) != ("ready", name)
        assert f"{name}: {reason}" in found["error"]
        assert "--max-memory" in found["error"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits other processes")
def test_trainings_have_a_limit_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexec sleep 30\n")
    script.chmod(0o755)
    monkeypatch.setattr(processes.sys, "executable", str(script))
    child = processes.start(Job("job", "a run", "train", "data", "2026-11-16"), tmp_path, 100.0)
    try:
        expected = 100_000_000 + memory.ROOM
        assert resource.prlimit(child.pid, resource.RLIMIT_DATA) == (expected, expected)
    finally:
        child.kill()
        child.wait()


def test_names_with_blanks_and_times_in_milliseconds_are_read_as_on_the_command_line(client: TestClient):
    rows = "".join(f"{i % 3}, {i % 5}, {i % 7}, one, {40 * i}\n" for i in range(20))
    content = f"pan, x_ball, z_leak, sequence, t\n{rows}".encode()
    found = client.put("/api/data/spaced.csv", content=content).json()
    assert [column["name"] for column in found["columns"]] == ["pan", "x_ball", "z_leak", "sequence", "t"]
    read = client.post(f"/api/data/{found['id']}", json={"actions": ["pan"], "contexts": ["x_ball"]}).json()
    understood = read["understood"]
    assert (understood["contexts"], understood["sequence"], understood["time"]) == (["x_ball"], "sequence", "t")
    assert understood["rate"] == 25.0
    assert "'t' is taken for milliseconds" in understood["summary"]
    how = {"actions": ["pan"], "time_unit": "s"}
    assert client.post(f"/api/data/{found['id']}", json=how).json()["understood"]["rate"] == 0.025
    refused = client.post(f"/api/data/{found['id']}", json={**how, "time_unit": "weeks"})
    assert refused.status_code == 400
    assert "time_unit" in refused.json()["error"]


def test_what_is_held_out_as_a_whole_can_be_named_but_never_as_a_file(client: TestClient, tmp_path: Path):
    rows = "".join(f"{i // 4},{'uuvwvw'[i // 4]},{i % 3},{i % 5}\n" for i in range(24))
    found = client.put("/api/data/people.csv", content=f"sequence,person,x_ball,a_pan\n{rows}".encode()).json()
    assert found["understood"]["group"] == "person"
    assert "'person' is taken for what sequences have in common" in found["understood"]["summary"]
    alone = client.post(f"/api/data/{found['id']}", json={"group": "sequence"}).json()
    assert alone["understood"]["group"] is None
    (tmp_path / "about.csv").write_text("sequence,secret\n0,u\n")
    refused = client.post(f"/api/data/{found['id']}", json={"group": f"{tmp_path / 'about.csv'}:secret"})
    assert refused.status_code == 400
    assert "group" in refused.json()["error"]


def test_data_keep_their_order_over_a_restart(client: TestClient, workspace: Workspace):
    keys = [client.put(f"/api/data/{i}.csv", content=b"a_pan,x\n1,2\n2,3\n").json()["id"] for i in range(3)]
    client.post(f"/api/data/{keys[0]}", json={"rate": 5})
    assert [data.id for data in workspace.data()] == keys
    (workspace.folder / "data" / keys[1] / "about.json").write_text("{")  # not ours any more, and in nobody's way
    (workspace.folder / "data" / "notes").mkdir()
    assert [data.id for data in workspace.data()] == [keys[0], keys[2]]


def test_columns_can_be_chosen_when_they_are_not_clear(client: TestClient):
    content = "when,play,pan,x\n" + "".join(f"{i / 10},{i // 10},{i},{2 * i}\n" for i in range(40))
    data = client.put("/api/data/odd.csv", content=content).json()
    assert data["status"] == "choose"
    assert [c["name"] for c in data["columns"]] == ["when", "play", "pan", "x"]
    wrong = client.post(f"/api/data/{data['id']}", json={"actions": ["pam"]}).json()
    assert "did you mean 'pan'" in wrong["error"]
    right = {"actions": ["pan"], "sequence": "play", "time": "when"}
    found = client.post(f"/api/data/{data['id']}", json=right).json()
    assert (found["status"], found["frames"], found["options"]) == ("ready", 40, right)
    assert found["understood"]["summary"].startswith("odd.csv: 4 sequences by column 'play'")
    assert found["understood"]["rate"] == pytest.approx(10.0)
    assert (found["understood"]["sequence"], found["understood"]["time"]) == ("play", "when")
    assert client.post(f"/api/data/{data['id']}", json={"rate": -1}).status_code == 400


@pytest.mark.parametrize("name", ["model.pkl", "script.py", "page.html", "nothing", "data.csv.exe", ".csv/", "x.json"])
def test_an_ending_that_is_not_known_is_refused_with_those_that_are(
    name: str, client: TestClient, workspace: Workspace
):
    answer = client.put(f"/api/data/{name}", content=b"x" * 1000)
    assert answer.status_code == 415
    assert ".parquet" in answer.json()["error"]
    assert list((workspace.folder / "data").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["..%2f..%2f..%2ftmp%2fevil.csv", "..%2f..%2fevil.csv", "a%00b.csv", "%2e%2e/evil.csv", "C:\\evil.csv"]
)
def test_a_name_that_is_a_path_is_text_and_nothing_else(name: str, client: TestClient, workspace: Workspace):
    answer = client.put(f"/api/data/x/{name}", content=b"a_pan,x\n1,2\n2,3\n")
    assert answer.status_code == 201
    assert "evil.csv" in answer.json()["name"] or "a b.csv" in answer.json()["name"]
    files = [p for p in workspace.folder.rglob("*") if p.is_file()]
    assert {p.name for p in files} <= {"data.csv", "about.json"}


def test_a_file_that_is_too_large_is_refused_by_its_length_and_by_its_stream(client: TestClient, workspace: Workspace):
    for content in (b"x" * 200_000, iter([b"x" * 60_000] * 3)):
        answer = client.put("/api/data/large.csv", content=content)
        assert answer.status_code == 413
        assert "larger than 0.1 MB" in answer.json()["error"]
    assert list((workspace.folder / "data").iterdir()) == []
    assert client.get("/api/state").json()["data"] == []


@pytest.mark.skipif(os.name == "nt", reason="of files as POSIX has them")
def test_the_studios_folder_is_its_owners_alone(client: TestClient, workspace: Workspace):
    client.put("/api/data/new.csv", content=b"a_pan,x\n1,2\n2,3\n")
    workspace.token()
    open_to_others = [p for p in (workspace.folder, *workspace.folder.rglob("*")) if p.stat().st_mode & 0o077]
    assert open_to_others == []
    (workspace.folder / "data").chmod(0o755)  # as an older simile left it
    Workspace.at(workspace.folder)
    assert (workspace.folder / "data").stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.name == "nt", reason="of files as POSIX has them")
def test_a_token_that_others_could_read_is_told_and_replaced(workspace: Workspace, caplog: pytest.LogCaptureFixture):
    token = workspace.token()
    assert workspace.token() == token
    (workspace.folder / "token").chmod(0o644)
    assert workspace.token() != token
    assert "every user of this machine can read" in caplog.text
    assert (workspace.folder / "token").stat().st_mode & 0o077 == 0


def test_what_a_killed_studio_left_of_uploads_goes_at_the_next_start(client: TestClient, workspace: Workspace):
    kept = client.put("/api/data/new.csv", content=b"a_pan,x\n1,2\n2,3\n").json()["id"]
    half = workspace.folder / "data" / "0123abcd"
    half.mkdir()
    (half / ".data.csv.0123abcd.tmp").write_bytes(b"a_pan")
    workspace.clear_up()
    assert [p.name for p in (workspace.folder / "data").iterdir()] == [kept]
    assert len(list((workspace.folder / "data" / kept).iterdir())) == 2
