"""Files that are written whole or not at all: whose they are, and what a process that was killed leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from simile._common.files import (
    append,
    clear_leftovers,
    find_readers,
    make_folder,
    open_regular,
    read_text,
    replacing,
    write_atomically,
)
from simile.errors import StorageError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="of files as POSIX has them")

DYING = """
import os, signal, sys
from simile._common.files import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    signal.pause()
"""


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(autouse=True)
def _usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_what_is_written_is_its_owners_alone(tmp_path: Path):
    target = tmp_path / "new" / "policy"
    write_atomically(target, b"1")
    append(tmp_path / "new" / "rounds", "a\n")
    append(tmp_path / "new" / "rounds", "b\n")
    make_folder(tmp_path / "other" / "run")
    assert (mode(target), mode(tmp_path / "new" / "rounds")) == (0o600, 0o600)
    assert (mode(tmp_path / "new"), mode(tmp_path / "other" / "run")) == (0o700, 0o700)
    assert (tmp_path / "new" / "rounds").read_text() == "a\nb\n"
    with replacing(target) as file:
        assert mode(Path(file.name)) == 0o600


def test_a_file_that_its_owner_has_opened_to_others_stays_open_to_them_unless_it_is_secret(tmp_path: Path):
    target = tmp_path / "policy"
    write_atomically(target, b"1")
    target.chmod(0o4644)
    write_atomically(target, b"2")
    assert target.stat().st_mode & 0o7777 == 0o644
    write_atomically(target, b"3", secret=True)
    assert mode(target) == 0o600
    tmp_path.chmod(0o755)
    make_folder(tmp_path)  # it was there
    assert mode(tmp_path) == 0o755


def test_what_a_killed_process_has_left_goes_and_what_others_write_stays(tmp_path: Path):
    target = tmp_path / "deep" / "streams"
    other = tmp_path / ".mine.tmp"
    other.write_bytes(b"not ours")
    command = [sys.executable, "-c", DYING, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        (left,) = (tmp_path / "deep").iterdir()
        (tmp_path / "deep" / f".other{left.name[8:]}").symlink_to(other)
        clear_leftovers(tmp_path / "deep")
        assert left.exists()  # it is being written
        process.send_signal(signal.SIGKILL)
    assert left.exists()
    clear_leftovers(tmp_path / "deep", "other")  # of another file
    clear_leftovers(tmp_path)  # of another folder
    assert left.exists()
    clear_leftovers(tmp_path, below=True)
    assert not left.exists()
    assert other.read_bytes() == b"not ours"
    assert len(list((tmp_path / "deep").iterdir())) == 1  # a link is nothing that we write
    clear_leftovers(tmp_path / "nowhere")


def test_a_file_is_written_though_somebody_clears_up_at_every_moment(tmp_path: Path):
    target, done = tmp_path / "streams", threading.Event()

    def clear() -> None:
        while not done.is_set():
            clear_leftovers(tmp_path)

    clearing = threading.Thread(target=clear)
    clearing.start()
    try:
        for i in range(200):
            write_atomically(target, b"%d" % i)
            assert target.read_bytes() == b"%d" % i
    finally:
        done.set()
        clearing.join()
    with pytest.raises(ZeroDivisionError), replacing(target):
        raise ZeroDivisionError
    assert [p.name for p in tmp_path.iterdir()] == ["streams"]
    assert target.read_bytes() == b"199"


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=r"cannot be written: .*: choose another place"):
        write_atomically(tmp_path / "file" / "below", b"")
    with pytest.raises(StorageError, match="no file can have this name"):
        write_atomically("a\0b", b"")


def test_a_secret_that_everybody_can_read_is_told(tmp_path: Path):
    secret = tmp_path / "the token"
    assert find_readers(secret) is None
    secret.write_text("")
    said = f"every user of this machine can read {secret}, or write it: chmod 600 '{secret}'"
    for bits, found in ((0o600, None), (0o640, None), (0o644, said), (0o602, said)):
        secret.chmod(bits)
        assert find_readers(secret) == found


def test_only_files_that_come_to_an_end_are_opened(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("abc")
    assert read_text(tmp_path / "text") == "abc"
    with open_regular(tmp_path / "text") as file:
        assert file.read() == b"abc"
    for path, message in (
        (tmp_path, "it is a folder: name a file"),
        (tmp_path / "pipe", "it is no regular file: copy it to one first"),
        ("/dev/zero", "it is no regular file"),
    ):
        with pytest.raises(ValueError, match=message):
            open_regular(path)
    with pytest.raises(ValueError, match="it has 3 bytes, and at most 2 are read"):
        read_text(tmp_path / "text", longest=2)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "nothing")


def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="pipe is a pipe or a device, which a file would replace: name another"):
        write_atomically(tmp_path / "pipe", b"1")
    assert (tmp_path / "pipe").is_fifo()
