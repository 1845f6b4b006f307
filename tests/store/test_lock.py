"""A look at who holds the lock of a job, which never takes it."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.store import lock
from seatrial.store.lock import holder_of, locked

HOLD = "import sys; from pathlib import Path; from seatrial.store.lock import locked\n"
HOLD += "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"


def test_another_process_is_seen_while_it_holds_the_lock(tmp_path):
    assert holder_of(tmp_path) is None
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        assert process.stdin
        process.stdout.readline()
        assert holder_of(tmp_path) == process.pid
        process.stdin.close()
        process.wait()
    assert (tmp_path / ".lock").read_text() == str(process.pid)
    assert holder_of(tmp_path) is None


def test_to_look_is_never_in_the_way(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: pytest.fail("somebody took the lock"))
    (tmp_path / ".lock").touch()
    assert holder_of(tmp_path) is None


def test_a_file_system_with_devices_of_its_own(tmp_path, monkeypatch):
    with locked(tmp_path):
        inode = (tmp_path / ".lock").stat().st_ino
        table = tmp_path / "locks"
        monkeypatch.setattr(lock, "_LOCKS", table)
        table.write_text(f"1: FLOCK  ADVISORY  WRITE {os.getpid()} ff:ff:{inode} 0 EOF\n1: -> FLOCK junk\n\n")
        assert holder_of(tmp_path) == os.getpid()
        table.write_text(f"1: FLOCK  ADVISORY  WRITE 1 ff:ff:{inode} 0 EOF\n")
        assert holder_of(tmp_path) is None
        table.write_text(f"1: POSIX  ADVISORY  WRITE {os.getpid()} ff:ff:{inode} 0 EOF\n")
        assert holder_of(tmp_path) is None
        monkeypatch.setattr(lock, "_LOCKS", Path("/nowhere"))
        assert holder_of(tmp_path) is None


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    with locked(tmp_path):
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / ".lock").symlink_to(tmp_path / ".lock")
        assert holder_of(tmp_path / "other") is None
