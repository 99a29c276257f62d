"""Damaged files of every kind: a SimileError or a result, never a crash, a hang or a heap of memory."""

from __future__ import annotations

import json
import resource

import numpy as np
import pytest

from conftest import repeatable
from simile.data.demonstrations import Demonstrations
from simile.data.reading import read, write
from simile.errors import SimileError

SEEDS = (
    "sequence,t,x_ball,x_wind,a_pan\n"
    + "".join(f"g{i // 5},{i % 5 / 30!r},{i},{i * i},{0.5 * i}\n" for i in range(10)),
    "game;frame;player;action\r\n" + "".join(f'"mon, {i // 4}";{i % 4};;{-i}\r\n' for i in range(8)),
    "time\tx\tname\ta_0\n" + "".join(f"2024-05-31T12:00:0{i}.25\t1e{i}\tMüller\t{i}\n" for i in range(6)),
)
INSERTS = (
    *(b",", b";", b"\t", b'"', b"\n", b"\r", b"\r\n", b"\x00", b"\xff", b"\xef\xbb\xbf", b"'", b"\\", b" ", b"-", b"_"),
    *(b"1e999", b"-1e999", b"1e-999", b"9" * 400, b"nan", b"NA", b"inf", b"null", b"abc", b"1,5", b"0x1F", b"\xc3\xa9"),
    *(b"x" * 5000, b"," * 50, b'"' * 3, b"2024-13-45", b"9999-12-31T23:59:59", b"1_0", "٣".encode(), b"1" * 5000),
)


def damaged(rng, content):
    """Return the bytes after one to four mutations."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        at, until = sorted(int(i) for i in rng.integers(0, len(data) + 1, size=2))
        match int(rng.integers(10)):
            case 0 | 1:  # flip bytes
                for i in rng.integers(0, max(1, len(data)), size=rng.integers(1, 6)):
                    if len(data):
                        data[i] ^= int(rng.integers(1, 256))
            case 2:
                data = data[:until]
            case 3 | 4 | 5:
                data[at:at] = INSERTS[rng.integers(len(INSERTS))]
            case 6:  # lines again
                lines = data.split(b"\n")
                i = int(rng.integers(len(lines)))
                data = bytearray(
                    b"\n".join([*lines[: i + 1], *lines[i : i + 1] * int(rng.integers(1, 20)), *lines[i:]])
                )
            case 7:  # without a line, often the header
                lines = data.split(b"\n")
                del lines[int(rng.integers(min(2, len(lines))))]
                data = bytearray(b"\n".join(lines))
            case 8:
                del data[at:until]
            case 9:  # another encoding in the middle
                text = bytes(data[at:until]).decode("utf-8", "replace")
                data[at:until] = text.encode(("utf-16", "latin-1", "utf-32")[rng.integers(3)], "replace")
    return bytes(data)


def outcome(path, **options):
    """Read; return the demonstrations, or None where they are refused. Anything but a SimileError fails."""
    try:
        demos = read(path, quiet=True, **options)
    except SimileError:
        return None
    assert isinstance(demos, Demonstrations)
    assert all(np.isfinite(a).all() for a in demos.actions)
    assert not any(np.isinf(x).any() for x in demos.contexts)
    return demos


def run(tmp_path, count, contents, suffix, options=({},)):
    """Damage the contents over and over; return how many could still be read."""
    path = tmp_path / f"d{suffix}"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    good = 0
    for i in range(count):
        with repeatable(i) as rng:
            path.write_bytes(damaged(rng, contents[i % len(contents)]))
            good += outcome(path, **options[int(rng.integers(len(options)))]) is not None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB
    return good


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_damaged_csv_files_are_refused_or_read(tmp_path, count):
    options = (
        {},
        {},
        {"repair": True},
        {"gap": 0.05},
        {"resample": 10.0, "rate": 30.0},
        {"actions": "a*", "contexts": "/x|player/"},
    )
    good = run(tmp_path, count, [s.encode() for s in SEEDS], ".csv", options)
    assert 0.05 < good / count < 0.95  # the mutations neither break everything nor nothing


def demos():
    return Demonstrations.from_arrays(
        [np.arange(12.0).reshape(6, 2), np.full((3, 2), np.nan)],
        [np.arange(6.0), np.arange(3.0)],
        rate=30.0,
        names=["mon", "Müller"],
        context_names=["x_0", "x_1"],
        action_names=["a_0"],
    )


@pytest.mark.parametrize("count", [50, pytest.param(400, marks=pytest.mark.long)])
@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".npz", ".jsonl", ".csv.gz"])
def test_damaged_files_of_other_formats_are_refused_or_read(tmp_path, suffix, count):
    path = tmp_path / f"whole{suffix}"
    write(demos(), path)
    run(tmp_path, count, [path.read_bytes()], suffix, ({}, {"repair": True}))


def test_damaged_metadata_is_refused_or_ignored(tmp_path):
    write(demos(), tmp_path / "d.npz")
    with np.load(tmp_path / "d.npz") as archive:
        arrays = dict(archive)
    said = json.loads(arrays["simile"].tobytes())
    odd = (None, 7, -1.0, "x", [], [None], ["x_0"], {"a": 1}, [["x"]], True, "nan")
    for key in said:
        for value in odd:
            changed = json.dumps({**said, key: value}).encode()
            np.savez(tmp_path / "e.npz", **{**arrays, "simile": np.frombuffer(changed, np.uint8)})
            outcome(tmp_path / "e.npz")
    for key in ("sequence", "t", "contexts", "actions"):
        for values in (np.zeros(0), np.zeros(3, int), np.full(9, 99), np.zeros((9, 9)), np.full(9, -5), np.array("x")):
            np.savez(tmp_path / "e.npz", **{**arrays, key: values})
            outcome(tmp_path / "e.npz")
