"""Small files that hold a great deal: what is read is limited by memory, told before it is taken where files tell."""

from __future__ import annotations

import gzip
import json
import os
import resource
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from simile._common import memory
from simile.data.reading import arrays, arrow, read, tables
from simile.data.reading.formats import open_tables
from simile.errors import ArgumentError, DataError

ROWS = 1_000_000


def column(n=ROWS):
    return np.zeros(n)


def as_csv(path):
    with gzip.open(path, "wb") as file:
        file.write(b"x_0,a_0\n" + b"0,0\n" * ROWS)


def as_npz(path):
    np.savez_compressed(path, x_0=column(), a_0=column())


def as_parquet(path):
    pq.write_table(pa.table({"x_0": column(), "a_0": column()}), path, compression="zstd")


def as_feather(path):
    pf.write_feather(pa.table({"x_0": column(), "a_0": column()}), path, compression="zstd")


def as_lines(path):
    path.write_text('{"x_0":0,"a_0":0}\n' * (ROWS // 10))


MAKERS = {".csv.gz": as_csv, ".npz": as_npz, ".parquet": as_parquet, ".feather": as_feather, ".jsonl": as_lines}


@pytest.mark.parametrize("suffix", MAKERS)
def test_rows_beyond_the_memory_allowed_are_refused_with_the_numbers(tmp_path, suffix):
    path = tmp_path / f"d{suffix}"
    MAKERS[suffix](path)
    with pytest.raises(
        DataError, match=rf"d{suffix}: its rows take .* MB of memory or more, and may take 2 MB: choose"
    ):
        read(path, quiet=True, max_memory=2)
    assert read(path, quiet=True, max_memory=100).n_frames >= ROWS // 10


@pytest.mark.parametrize("bad", [0, -1, float("nan"), "2 GB"])
def test_the_limit_is_a_number_of_megabytes(tmp_path, bad):
    (tmp_path / "d.csv").write_text("x_0,a_0\n1,2\n")
    with pytest.raises(ArgumentError, match="max_memory must be"):
        read(tmp_path / "d.csv", quiet=True, max_memory=bad)


def test_the_limit_holds_for_all_files_of_a_reading_together(tmp_path):
    for i in range(4):
        np.savez(tmp_path / f"{i}.npz", x_0=column(20_000), a_0=column(20_000))
    assert len(read([tmp_path / "0.npz", tmp_path / "1.npz"], quiet=True, max_memory=2)) == 2
    with pytest.raises(DataError, match=r"2\.npz: its rows take"):
        read(tmp_path, quiet=True, max_memory=2)


def test_a_sequence_for_every_row_is_counted_too(tmp_path):
    (tmp_path / "d.csv").write_text("x_0,a_0,game\n" + "".join(f"0,0,{i}\n" for i in range(5000)))
    with pytest.raises(DataError, match="its rows take"):
        read(tmp_path / "d.csv", quiet=True, max_memory=2)


def test_the_default_is_a_half_of_the_memory(tmp_path, monkeypatch):
    as_npz(tmp_path / "d.npz")
    monkeypatch.setattr(memory, "measure_memory", lambda: 20_000_000)
    with pytest.raises(DataError, match="may take 10 MB"):
        read(tmp_path / "d.npz", quiet=True)


def test_an_archive_is_refused_before_anything_is_unpacked(tmp_path, monkeypatch):
    as_npz(tmp_path / "d.npz")
    monkeypatch.setattr(arrays, "_read", None)
    with pytest.raises(DataError, match="its rows take 48 MB"):
        read(tmp_path / "d.npz", quiet=True, max_memory=10)


def test_arrays_that_nobody_asks_for_stay_in_the_archive(tmp_path):
    np.savez_compressed(tmp_path / "d.npz", x_0=column(10), a_0=column(10), film=np.zeros((10, 8, 50_000)))
    assert read(tmp_path / "d.npz", quiet=True, max_memory=2).n_frames == 10
    with pytest.raises(DataError, match="column 'film' is a 10x8x50000 array: choose columns of numbers"):
        read(tmp_path / "d.npz", contexts="film", quiet=True)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"descr": "<f8", "fortran_order": False, "shape": (10**15,)}, "less values than its shape"),
        ({"descr": "|O", "fortran_order": False, "shape": (3,)}, "pickled objects"),
        ({"descr": "<f8", "fortran_order": False, "shape": (0, 10**9)}, "columns but no row"),
    ],
)
def test_arrays_are_not_believed(tmp_path, header, reason):
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive, archive.open("x.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(100))
    with pytest.raises(DataError, match=reason):
        read(tmp_path / "d.npz", quiet=True)


def test_a_header_without_end_is_not_read_to_its_end(tmp_path):
    with zipfile.ZipFile(tmp_path / "d.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        file.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", 100_000_000))
        for _ in range(100):
            file.write(b" " * 1_000_000)
    with pytest.raises(DataError, match="cannot be read as a NumPy archive: EOF"):
        read(tmp_path / "d.npz", quiet=True)


@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz", "d.jsonl"])
def test_a_line_without_end_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(tables, "LONGEST_LINE", 1 << 21)
    start = '{"x_0": 1' if name == "d.jsonl" else "x_0,a_0\n1,2\n3,4"
    data = (start + "0" * (5 << 20)).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(DataError, match=r"a line of more than 2\.1 MB"):
        read(tmp_path / name, quiet=True)


def test_a_text_that_many_rows_share_is_kept_once(tmp_path):
    """Four kilobytes that were 6.5 GB once: as a column that nobody asks for, and as the label of a sequence."""
    n = 1 << 16
    label = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["x" * 100_000])
    pq.write_table(pa.table({"x_0": column(n), "a_0": column(n), "note": label, "game": label}), tmp_path / "d.parquet")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    demos = read(tmp_path / "d.parquet", sequence="game", quiet=True)
    assert demos.names == ("x" * 100_000,)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


@pytest.mark.parametrize("kind", ["text", "lists", "numbers"])
def test_a_file_of_many_columns_is_opened_a_few_times(tmp_path, monkeypatch, kind):
    n = 300
    values = {"text": ["a", "b"], "lists": [[1.0, 2.0], [3.0, 4.0]], "numbers": [1.0, 2.0]}[kind]
    table = {**{f"x_{i}": values for i in range(n)}, "y": [1.0, 2.0], "a_0": [1.0, 2.0]}
    pq.write_table(pa.table(table), tmp_path / "d.parquet")
    opened, whole = [], pq.ParquetFile
    monkeypatch.setattr(pq, "ParquetFile", lambda *a, **k: opened.append(1) or whole(*a, **k))
    demos = read(tmp_path / "d.parquet", quiet=True)
    assert demos.contexts[0].shape[1] == {"text": 1, "lists": 2 * n, "numbers": n}[kind]
    assert len(opened) <= 4


def test_long_lists_are_no_columns(tmp_path):
    long = pa.array([[0.0] * 200_000] * 2)
    pq.write_table(pa.table({"x_0": [1.0, 2.0], "a_0": [1.0, 2.0], "film": long}), tmp_path / "d.parquet")
    pf.write_feather(pq.read_table(tmp_path / "d.parquet"), tmp_path / "d.feather")
    for name in ("d.parquet", "d.feather"):
        assert read(tmp_path / name, quiet=True).context_names == ("x_0",)


def test_a_batch_is_small_however_wide_its_rows_are(tmp_path, monkeypatch):
    pq.write_table(pa.table({"x": pa.array([[0.5] * 50] * 600), "a_0": column(600)}), tmp_path / "d.parquet")
    monkeypatch.setattr(arrow, "_VALUES", 5000)
    (table,) = open_tables(tmp_path / "d.parquet")
    assert [chunk.rows for chunk in table.scan({"x.0": float, "x.1": float})] == [100] * 6


def test_a_minari_folder_tells_its_size_before_it_is_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    (tmp_path / "d" / "data").mkdir(parents=True)
    with h5py.File(tmp_path / "d" / "data" / "main_data.hdf5", "w") as file:
        episode = file.create_group("episode_0")
        for key in ("observations", "actions"):
            episode.create_dataset(key, (10**12, 2), "f8", chunks=(1000, 2))  # nothing is stored
    with pytest.raises(DataError, match=r"its rows take 8e\+04 GB"):
        read(tmp_path / "d", quiet=True)


@pytest.mark.parametrize("name", ["d.csv", "d.parquet", "d.jsonl", "d.npz", "d.feather", "d.csv.gz"])
def test_pipes_and_devices_are_refused_at_once(tmp_path, name):
    os.mkfifo(tmp_path / name)
    (tmp_path / f"zero-{name}").symlink_to("/dev/zero")
    for path in (tmp_path / name, tmp_path / f"zero-{name}"):
        with pytest.raises(
            DataError, match="a pipe or a device, which can be read only once: write it to a file first"
        ):
            read(path, quiet=True)
    with pytest.raises(DataError, match="there is no data file in this folder"):
        read(tmp_path, quiet=True)


def test_a_lerobot_folder_passes_over_pipes(tmp_path):
    (tmp_path / "meta").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "meta" / "info.json").write_text(json.dumps({"features": {}}))
    os.mkfifo(tmp_path / "data" / "d.parquet")
    with pytest.raises(DataError, match=r"there is no \.parquet file"):
        read(tmp_path, quiet=True)
