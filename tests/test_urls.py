"""Data behind URLs: a real S3 server (moto) and a real web server on this machine, and secrets that stay secret."""

from __future__ import annotations

import functools
import gzip
import http.server
import logging
import secrets
import socket
import sys
import threading
import time
import traceback
from pathlib import Path

import distributed
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import s3fs
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from moto.server import ThreadedMotoServer

import simile
from commands import simile_
from conftest import demos_of
from odd_files import KINDS, REFUSED, look
from plants import CAMERA
from simile import ArgumentError, DataError, StorageError
from simile._common import urls
from simile._common.urls import locate, name_of
from simile.data.reading import reader
from simile.errors import redact
from simile.studio import child_tasks
from simile.studio.server import _describe_files
from test_reading_datasets import V3, lerobot, minari

QUIET = {"actions": "a?*", "quiet": True}
SECRET = "verysecret"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Files of every format, of the same five sequences."""
    folder = tmp_path_factory.mktemp("data")
    demos = demos_of(40, 50, 45, 60, 30, k=1, rate=30.0)
    for suffix in ("csv", "parquet", "npz", "feather", "jsonl"):
        simile.write(demos, folder / f"all.{suffix}")
    with gzip.open(folder / "all.csv.gz", "wb") as file:
        file.write((folder / "all.csv").read_bytes())
    for i, demo in enumerate(demos):
        simile.write(demo, folder / "runs" / f"run{i + 8}.parquet")
        simile.write(demo, folder / "drivers" / f"driver{i % 3}" / f"run{i}.csv")
    return folder


@pytest.fixture(scope="module")
def server():
    """An S3 server of this machine."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture(scope="module")
def bucket(server, data):
    """A bucket with all files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", server)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, SECRET)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem.clear_instance_cache()
        fs = s3fs.S3FileSystem()
        name = f"games-{secrets.token_hex(4)}"  # servers of one process share what they hold, and another may have been
        fs.mkdir(name)
        fs.put(str(data), f"{name}/data", recursive=True)
        yield f"s3://{name}/data"
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def web(data):
    """The address of a web server that sends files as a whole, as http.server does."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(data)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["all.csv", "all.csv.gz", "all.parquet", "all.npz", "all.feather", "all.jsonl"])
def test_every_format_is_read_from_s3_and_from_the_web_as_from_here(bucket, web, data, name):
    here = simile.read(data / name, **QUIET)
    for there in (bucket, web, f" {web}", f"file://{data}"):
        assert simile.read(f"{there}/{name}", **QUIET).digest() == here.digest()


def test_patterns_and_folders_are_those_of_this_machine_in_their_order(bucket, data):
    for what in ("runs/*.parquet", "runs", "runs/", "drivers", "drivers/*/*.csv", "runs/run1?.parquet"):
        here, there = (simile.read(f"{root}/{what}", **QUIET) for root in (data, bucket))
        assert there.names == here.names
        assert there.groups == here.groups
        assert there.digest() == here.digest()
    both = simile.read([str(data / "runs" / "run8.parquet"), f"{bucket}/runs/run9.parquet"], **QUIET)
    assert both.names == simile.read([data / "runs" / f"run{i}.parquet" for i in (8, 9)], **QUIET).names


def test_a_file_that_comes_later_is_seen(bucket):
    fs = s3fs.S3FileSystem()
    for n, name in enumerate(("run8", "run9"), 1):
        fs.copy(f"{bucket}/runs/{name}.parquet", f"{bucket}/new/{name}.parquet")
        assert len(simile.read(f"{bucket}/new/*.parquet", **QUIET)) == len(simile.read(f"{bucket}/new", **QUIET)) == n


def test_memory_is_a_place_too(data):
    with fsspec.open("memory://box/all.csv", "wb") as file:
        file.write((data / "all.csv").read_bytes())
    assert simile.read("memory://box/all.csv", **QUIET).digest() == simile.read(data / "all.csv", **QUIET).digest()


def test_datasets_with_a_layout_of_their_own_are_folders_elsewhere_too(tmp_path):
    for name, folder in (
        ("minari", minari(tmp_path / "minari", {0: (np.ones((4, 2)), np.zeros(3)), 1: (np.ones((3, 2)), np.zeros(3))})),
        ("lerobot", lerobot(tmp_path / "lerobot", V3)),
    ):
        fsspec.filesystem("memory").put(str(folder), f"memory://{name}", recursive=True)
        assert simile.read(f"memory://{name}", quiet=True).digest() == simile.read(folder, quiet=True).digest()


def test_groups_beside_the_data_may_be_a_url(bucket, data):
    table = "sequence,who\n" + "".join(
        f"{name},{i % 2}\n" for i, name in enumerate(simile.read(data / "all.csv", **QUIET).names)
    )
    fs = s3fs.S3FileSystem()
    fs.pipe(f"{bucket}/who.csv", table.encode())
    assert simile.read(f"{bucket}/all.csv", group=f"{bucket}/who.csv:who", **QUIET).groups == ("0", "1", "0", "1", "0")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://nobody-has-this/a.csv", "s3://nobody-has-this/a.csv: there is no such file, or no such bucket"),
        ("{}/b.csv", "{}/b.csv: there is no such file, or no such bucket"),
        ("{}/*.tsv", "{}/*.tsv: no file matches the pattern"),
        ("{}/runs/*.csv", "{}/runs/*.csv: no file matches the pattern"),
    ],
)
def test_what_is_not_there_is_named(bucket, path, message):
    with pytest.raises(DataError) as caught:
        simile.read(path.format(bucket), **QUIET)
    assert str(caught.value) == message.format(bucket)


def test_no_credentials_and_a_server_that_is_down_are_said_at_once(bucket, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    s3fs.S3FileSystem.clear_instance_cache()
    said = simile_("train", "s3://games/*.csv", cwd=tmp_path, code=2).stderr
    assert "s3://games/*.csv: it cannot be reached: Could not connect to the endpoint URL" in said
    assert SECRET not in said
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3fs.S3FileSystem.clear_instance_cache()
    said = simile_("train", "s3://games/a.csv", cwd=tmp_path, code=2).stderr
    assert "s3://games/a.csv: there are no credentials for it: give them by AWS_ACCESS_KEY_ID and" in said
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:1/a.csv", "http://127.0.0.1:1/a.csv: it cannot be reached: Cannot connect to host"),
        ("{}/b.csv", "{}/b.csv: there is no such file"),
        ("{}/runs/*.csv", "path: {}/runs/*.csv is a pattern, and a web server has no list of its files: name each"),
        ("{}/runs/", "path: {}/runs is a folder, and a web server has no list of its files: name each file"),
        ("nobody://host/a.csv", "path: the protocol of nobody://host/a.csv is not known: use one of file, s3, gs,"),
        (
            "http://***@host/a.csv",
            "path: http://***@host/a.csv was kept without its secrets (***): give the URL in full",
        ),
        (
            "simplecache::{}/all.csv",
            "path: simplecache::{}/all.csv is a URL within a URL (::): fetch the file first, and",
        ),
        (
            "https://me:a/b@host/a.csv",
            "path: it cannot be told where the password ends: write / as %2F, ? as %3F and # as %23 there, and behind "
            "the host @ as %40; got https://***@host/a.csv",
        ),
    ],
)
def test_what_the_web_does_not_give_is_named(web, url, message):
    with pytest.raises((ArgumentError, DataError)) as caught:
        simile.read(url.format(web), **QUIET)
    assert str(caught.value).startswith(message.format(web))


def test_a_web_server_that_does_not_answer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(urls, "_READ", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/a.csv"
        with pytest.raises(DataError) as caught:
            simile.read(url)
    assert str(caught.value).startswith(f"{url}: it cannot be reached: Timeout on reading data from socket")


def test_a_connection_that_breaks_is_not_taken_for_a_damaged_file(bucket, monkeypatch):
    def broken(*_):
        raise ConnectionResetError("the line is dead")

    monkeypatch.setattr(s3fs.core.S3File, "_fetch_range", broken)
    for suffix in ("csv", "parquet", "npz", "feather", "jsonl", "csv.gz"):
        with pytest.raises(DataError) as caught:
            simile.read(f"{bucket}/all.{suffix}", **QUIET)
        assert str(caught.value).startswith(f"{bucket}/all.{suffix}: it cannot be reached: the line is dead:")


@pytest.mark.parametrize("missing", ["fsspec", "s3fs", "gcsfs", "adlfs", "aiohttp"])
def test_a_library_that_is_missing_is_named_with_what_to_install(monkeypatch, missing):
    protocol = {"fsspec": "memory", "s3fs": "s3", "gcsfs": "gs", "adlfs": "abfs", "aiohttp": "https"}[missing]
    monkeypatch.setitem(sys.modules, missing, None)
    extra = {"fsspec": "remote", "aiohttp": "remote"}.get(missing, protocol)
    with pytest.raises(ArgumentError) as caught:
        simile.read(f"{protocol}://host/a.csv")
    assert (
        str(caught.value) == f"reading {protocol}://host/a.csv needs {missing}: pip install 'smooth-imitation[{extra}]'"
    )


def test_the_limit_of_memory_holds_for_what_is_elsewhere(bucket, web):
    for there in (bucket, web):
        for suffix in ("csv", "parquet", "npz"):
            with pytest.raises(DataError, match="allow more, in MB, by max_memory"):
                simile.read(f"{there}/all.{suffix}", **QUIET, max_memory=0.001)


def test_only_the_columns_and_row_groups_that_are_asked_for_are_fetched(server, bucket, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    columns = {f"x_{i}": rng.normal(size=40_000) for i in range(10)}
    table = pa.table({"sequence": np.repeat(np.arange(40), 1000), "a_0": rng.normal(size=40_000), **columns})
    pq.write_table(table, tmp_path / "wide.parquet", row_group_size=10_000)
    s3fs.S3FileSystem().put(str(tmp_path / "wide.parquet"), f"{bucket}/wide.parquet")
    fetched = []
    real = s3fs.core.S3File._fetch_range
    monkeypatch.setattr(s3fs.core.S3File, "_fetch_range", lambda file, a, b: fetched.append(b - a) or real(file, a, b))
    read = simile.read(f"{bucket}/wide.parquet", contexts=["x_3"], **QUIET)
    assert read.digest() == simile.read(tmp_path / "wide.parquet", contexts=["x_3"], **QUIET).digest()
    assert sum(fetched) < 0.35 * (tmp_path / "wide.parquet").stat().st_size  # 2 of 11 columns, and their dictionary
    assert len(fetched) < 40


def test_workers_read_urls_and_the_row_groups_of_one(bucket, data, tmp_path, capfd):
    frames = simile.read(data / "all.parquet", **QUIET)
    table = pq.read_table(data / "all.parquet")
    pq.write_table(table, tmp_path / "cut.parquet", row_group_size=40)
    s3fs.S3FileSystem().put(str(tmp_path / "cut.parquet"), f"{bucket}/cut.parquet")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        backend = simile.DaskBackend(client, parts=3)
        cut = backend.read(f"{bucket}/cut.parquet", **QUIET)
        assert (cut.gather().digest(), len(cut.handles)) == (frames.digest(), 3)
        runs = backend.read(f"{bucket}/runs/*.parquet", **QUIET)
        assert runs.gather().digest() == simile.read(data / "runs", **QUIET).digest()
        with pytest.raises(DataError, match=r"http://\*\*\*@127\.0\.0\.1:1/a\.csv\?\*\*\*: it cannot be reached"):
            backend.read(f"http://me:{SECRET}@127.0.0.1:1/a.csv?{SECRET}")
    assert SECRET not in "".join(capfd.readouterr())


def test_secrets_are_left_out_of_messages_configs_and_reports(web, tmp_path):
    host = web.removeprefix("http://")
    url = f"http://me:{SECRET}@{host}/all.csv?signature={SECRET}"
    done = simile_(
        "train",
        url,
        "--actions",
        "a?*",
        "--model",
        "SmoothForest(n_trees=2)",
        "--n-rounds",
        "1",
        "--algorithm",
        "paper",
        "--out",
        "run",
        cwd=tmp_path,
    )
    shown = f"http://***@{host}/all.csv?***"
    written = [p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()]
    assert not any(SECRET.encode() in text for text in [*written, done.stdout.encode(), done.stderr.encode()])
    assert shown in (tmp_path / "run" / "config.toml").read_text("utf-8")
    said = simile_("report", "run", cwd=tmp_path, code=2).stderr
    assert "was kept without its secrets (***): give the URL in full again" in said
    simile_("report", "run", url, cwd=tmp_path)
    assert SECRET not in (tmp_path / "run" / "report.html").read_text("utf-8")
    simile_("train", url, "--resume", "run", cwd=tmp_path)


def test_every_command_takes_urls_and_finds_what_it_finds_here(bucket, web, data, tmp_path):
    quick = ("--algorithm", "paper", "--model", "SmoothForest(n_trees=2)", "--n-rounds", "1", "--no-report")
    (tmp_path / "urls.toml").write_text(f'data = "{bucket}/runs/*.parquet"\ntest = "{web}/all.csv"\n', "utf-8")
    simile_("train", "--config", "urls.toml", *quick, "--out", "there", cwd=tmp_path)
    simile_("train", f"{data}/runs", "--test", data / "all.csv", *quick, "--out", "here", cwd=tmp_path)
    here, there = (tmp_path / name / "policy.safetensors" for name in ("here", "there"))
    assert here.read_bytes() == there.read_bytes()
    tables = [
        simile_("evaluate", policy, where, "--json", cwd=tmp_path).stdout
        for policy, where in ((here, data / "all.parquet"), (there, f"{bucket}/all.parquet"))
    ]
    assert tables[0] == tables[1]
    simile_("rollout", here, f"{web}/all.npz", "--out", "rolled.csv", cwd=tmp_path)
    said = simile_("rollout", here, f"{web}/all.npz", "--out", "s3://bucket/rolled.csv", cwd=tmp_path, code=2).stderr
    assert "s3://bucket/rolled.csv is a URL: files are written whole or not at all" in said


def test_the_studio_takes_urls_without_secrets(bucket):
    given = _describe_files([f"{bucket}/all.csv"], {"actions": "a?*"})
    assert (given.name, given.paths) == ("all.csv", [f"{bucket}/all.csv"])
    assert child_tasks.look(given.paths, given.options)["status"] == "ready"
    with pytest.raises(ArgumentError, match=r"DATA: https://\*\*\*@host/a\.csv carries secrets \(\*\*\*\), which"):
        _describe_files(["https://me:secret@host/a.csv"], {})


HIDDEN = "s3cr3t"
AROUND = st.text(st.sampled_from("/@:%#?&=,;'\" aé\u2100[]\\"), max_size=4)
PLACES = {  # where a user may give a URL
    "data": ("describe", "{}"),
    "test": ("train", "here.csv", "--test", "{}", "--no-report"),
    "group": ("train", "here.csv", "--group", "{}:who", "--no-report"),
    "policy": ("evaluate", "{}", "here.csv"),
    "page": ("report", "run", "--out", "{}"),
    "config": ("train", "here.csv", "--config", "{}"),
    "number": ("train", "here.csv", "--seed", "{}"),
    "recipe": ("train", "here.csv", "--model", "{}"),
    "verb": ("{}",),
}


@st.composite
def secret_urls(draw):
    scheme = draw(st.sampled_from(["https", "HTTP", "htp", "ftp", "sftp", "memory", "s3", "abfs", "x"]))
    chain = draw(st.sampled_from(["", "", " ", "simplecache::", "zip://g.csv::", "filecache::zip://*.csv::"]))
    user, before, behind = draw(st.sampled_from(["me", "me@there.org", "a b", ""])), draw(AROUND), draw(AROUND)
    name = draw(st.sampled_from(["g.csv", "a/g.parquet", "*.npz", "data/", ""]))
    if draw(st.booleans()):
        assume("://" not in before + behind)
        return f"{chain}{scheme}://{user}:{before}{HIDDEN}{behind}@127.0.0.1:1/{name}"
    query = f"{before}{HIDDEN}{behind}".replace(" ", "+")
    return f"{chain}{scheme}://127.0.0.1:1/{name}?sig={query}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    simile.write(demos_of(30, 30, 30, rate=30.0), folder / "here.csv")
    return folder


@settings(max_examples=6 * settings().max_examples)
@given(secret_urls(), st.sampled_from([str, Path, lambda url: [url], lambda url: {url}, lambda url: ["here.csv", url]]))
def test_no_url_that_is_read_tells_its_secret(url, given_as):
    with pytest.raises(simile.SimileError) as caught:
        simile.read(given_as(url))
    assert HIDDEN not in f"{caught.value} {caught.value!r}"
    assert HIDDEN not in "".join(traceback.format_exception(caught.value))
    assert redact(redact(url)) == redact(url)


@given(secret_urls(), st.sampled_from(sorted(PLACES)))
def test_no_command_tells_the_secret_of_a_url(folder, url, place):
    said = simile_(*(word.format(url) for word in PLACES[place]), cwd=folder, code=2)
    assert HIDDEN not in said.stdout + said.stderr
    assert not any(HIDDEN in str(path) for path in folder.rglob("*"))
    assert not any(HIDDEN.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", [name for name in KINDS if name.startswith("secret_")])
def test_odd_urls_are_refused_without_their_secrets(name, tmp_path):
    frame = CAMERA.make(seed=0)
    assert look(KINDS[name], CAMERA, KINDS[name].spoil(CAMERA, frame, None, tmp_path)).outcome == REFUSED


def test_help_does_not_print_what_a_config_holds(tmp_path):
    (tmp_path / "c.toml").write_text(f'test = "https://me:{HIDDEN}@host/g.csv"\n')
    assert HIDDEN not in simile_("train", "--config", "c.toml", "--help", cwd=tmp_path).stdout


@pytest.mark.parametrize("place", ["memory", "s3", "web"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_that_is_replaced_while_it_is_read_is_refused(place, suffix, request, tmp_path, monkeypatch):
    """Of as many bytes, and with the columns swapped: nobody would see it."""
    rng = np.random.default_rng(0)
    columns = {"x_ball": rng.normal(size=50).round(3), "a_pan": rng.normal(size=50).round(3)}
    versions = []
    for names in (["x_ball", "a_pan"], ["a_pan", "x_ball"]):
        table = pa.table({name: columns[name] for name in names})
        write_table = pq.write_table if suffix == ".parquet" else pyarrow.csv.write_csv
        write_table(table, tmp_path / f"d{suffix}")
        versions.append((tmp_path / f"d{suffix}").read_bytes())
    if place == "web":
        folder = request.getfixturevalue("data")
        url, put = f"{request.getfixturevalue('web')}/swapped{suffix}", (folder / f"swapped{suffix}").write_bytes
    else:
        root = request.getfixturevalue("bucket") if place == "s3" else "memory://swapped"
        url = f"{root}/swapped{suffix}"
        put = functools.partial(fsspec.core.url_to_fs(url)[0].pipe_file, url)
    put(versions[0])
    assert simile.read(url, quiet=True).context_names == ("x_ball",)
    choose = reader.choose

    def replace(*given):
        time.sleep(1.1 * (place == "web"))  # http.server tells the second
        put(versions[1])
        return choose(*given)

    monkeypatch.setattr(reader, "choose", replace)
    with pytest.raises(DataError, match=rf"swapped{suffix}: it was replaced while it was read: read it again, when"):
        simile.read(url, quiet=True)


def test_what_is_secret_and_what_is_not():
    assert redact("abfs://box@account.dfs.core.windows.net/a.csv") == "abfs://box@account.dfs.core.windows.net/a.csv"
    assert redact("sftp://me:pass@word@host/a?.csv") == "sftp://***@host/a?.csv"
    assert redact("https://token@host/a.csv") == "https://***@host/a.csv"
    assert redact("no url: a@b?c") == "no url: a@b?c"
    assert redact("https://me:a/secret@host/a.csv, zip://a.csv::https://me:secret@host/a.zip") == (
        "https://***@host/a.csv, zip://a.csv::https://***@host/a.zip"
    )
    assert redact("htp:/host/a.csv?sig=secret: no such file") == "htp:/host/a.csv?***: no such file"
    assert redact("https://me:what?secret@host/a.csv is no number") == "https://*** is no number"
    assert redact("https://cdn/games@1.2/a.csv: no column 'a@b'") == "https://cdn/games@1.2/a.csv: no column 'a@b'"
    assert redact("C:/games/run?.csv, s3://b/day=1?/*.csv") == "C:/games/run?.csv, s3://b/day=1?/*.csv"
    url = locate("http://me:secret@host/all.csv?sig=1")
    assert "secret" not in f"{url} {url!r} {url.pure}"
    assert url.name == name_of("http://me:secret@host/all.csv?sig=1") == "all.csv"


def test_what_is_written_and_policies_stay_on_this_machine(tmp_path, data):
    for out in ("s3://bucket/run", "file:///nowhere/run"):
        said = simile_("train", data / "all.csv", "--out", out, cwd=tmp_path, code=2).stderr
        assert f"--out: {out} is a URL: files are written whole or not at all" in said
    with pytest.raises(StorageError, match=r"s3://bucket/a.csv is a URL: files are written whole"):
        simile.write(demos_of(30), "s3://bucket/a.csv")
    with pytest.raises(StorageError, match=r"policy: s3://bucket/p.safetensors is a URL: policies are read from this"):
        simile.load("s3://bucket/p.safetensors")
    with pytest.raises(ArgumentError, match=r"path: s3://bucket/a.csv is a URL: give it as text"):
        simile.read(Path("s3://bucket/a.csv"))
    assert not [p for p in tmp_path.iterdir() if ":" in p.name]
