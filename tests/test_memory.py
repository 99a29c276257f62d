"""Memory: what there is, what of it a file may take, and the limit of another process."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from simile._common import memory
from simile.errors import ArgumentError


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A machine whose groups of processes are ours to make up."""
    monkeypatch.setattr(memory, "_OWN", tmp_path / "own")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path / "groups")
    return tmp_path / "groups"


@pytest.mark.parametrize(
    ("own", "file"),
    [
        ("0::/", "memory.max"),
        ("0::/job_7/step_0", "job_7/memory.max"),
        ("4:memory:/job_7/step_0\n0::/", "memory/job_7/memory.limit_in_bytes"),
        ("4:cpu,memory:/job_7", "memory/job_7/memory.limit_in_bytes"),
    ],
)
def test_the_memory_there_is_is_the_least_that_machine_groups_and_process_allow(groups, monkeypatch, own, file):
    physical = memory.measure_memory()
    assert 1 << 28 < physical < 1 << 50
    memory._OWN.write_text(own)
    assert memory.measure_memory() == physical
    (groups / file).parent.mkdir(parents=True)
    (groups / file).write_text("max\n")
    assert memory.measure_memory() == physical
    (groups / file).write_text("123456789\n")
    assert memory.measure_memory() == 123456789
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1000 + kind, -1))
    assert memory.measure_memory() == 1000 + min(resource.RLIMIT_AS, resource.RLIMIT_DATA)


def test_a_machine_that_does_not_tell_is_taken_for_a_small_one(groups, monkeypatch):
    monkeypatch.setattr(memory.os, "sysconf", lambda name: int(name))  # systems raise this ValueError
    assert memory.measure_memory() == memory.UNKNOWN


def test_a_limit_is_in_megabytes_and_a_half_of_the_memory_without_one():
    assert memory.read_limit(2) == 2_000_000
    assert memory.read_limit(None) == memory.measure_memory() // 2
    for bad in (0, -1.0, float("nan"), float("inf"), 1e300, "many", True):
        with pytest.raises(ArgumentError, match="max_memory must be"):
            memory.read_limit(bad)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits other processes")
def test_a_confined_process_fails_for_itself_alone():
    code = "import sys; print('up', flush=True); sys.stdin.read(); bytearray(1_400_000_000)"
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdin=-1, stdout=-1, stderr=-1, text=True) as child:
        assert child.stdout.readline() == "up\n"
        memory.confine(child.pid, 200_000_000)
        assert "MemoryError" in child.communicate("")[1]
    memory.confine(child.pid, 1)  # who has ended is left alone


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts")
def test_a_process_confines_itself_for_a_while():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with memory.confined(100_000_000):
        assert bytearray(50_000_000)
        with pytest.raises(MemoryError):
            bytearray(200_000_000 + memory.ROOM)
        with memory.confined(10**12):  # what holds already is not let go of
            assert resource.getrlimit(resource.RLIMIT_DATA)[0] < 10**12
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
