"""Files of a job's folder, which may be a stranger's: none of them makes anybody wait, swells, or leads elsewhere."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.errors import JobError, StoreError, StoreFullError
from seatrial.store import files
from seatrial.store.files import create_file, holder_of, locked, replacing, storing
from seatrial.store.job_store import JobStore
from tests.jobs.samples import job_file


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "sparse"])
def test_what_is_no_plain_file_is_refused_at_once(tmp_path, kind):
    store = JobStore.create(tmp_path / "job", job_file())
    path = store.path / "job.json"
    path.unlink()
    make(path, kind)
    with pytest.raises((StoreError, JobError), match=path.name):
        JobStore.open(store.path)


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "sparse"])
def test_an_index_that_is_no_plain_file_is_none(tmp_path, kind):
    store = JobStore.create(tmp_path / "job", job_file())
    (store.path / "index.jsonl").unlink(missing_ok=True)
    make(store.path / "index.jsonl", kind)
    assert JobStore.open(store.path).entries() == []


def test_trials_elsewhere_are_not_looked_at(tmp_path):
    store = JobStore.create(tmp_path / "job", job_file())
    (store.path / "trials").rmdir()
    (store.path / "trials").symlink_to("/etc")
    with pytest.raises(JobError, match="is a link to '/etc'"):
        store.entries()


def make(path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/etc/hostname")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(50 * 2**30)


def test_a_file_that_found_no_room_leaves_nothing_in_the_way_of_another_try(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "record.json"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreFullError, match="free some space"), storing(path):
            create_file(str(path), b"{}")
    create_file(str(path), b"{}")
    assert path.read_bytes() == b"{}"


def no_links(*_: object, **__: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.fixture(params=["without a name", "with a name", "without links"])
def draft(request, monkeypatch):
    """A file system that has files without names, one that has none, and one that has no hard links."""
    if request.param == "with a name":
        monkeypatch.setattr(os, "O_TMPFILE", os.O_CREAT)
    if request.param == "without links":
        monkeypatch.setattr(os, "link", no_links)


def half_written(path):
    with replacing(path) as file:
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.usefixtures("draft")
def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "report.csv"
    path.write_bytes(b"old")
    with pytest.raises(StoreFullError), storing(path):
        half_written(path)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"old", ["report.csv"])
    (tmp_path / ".report.csv.new").write_bytes(b"left by a crash")
    with replacing(path) as file:
        file.write(b"new")
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"new", ["report.csv"])


def test_a_file_that_is_being_written_has_no_name_that_a_killed_process_would_leave(tmp_path):
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY))
    except OSError as error:
        pytest.skip(f"the file system has no files without names: {error}")
    with replacing(tmp_path / "report.csv") as file:
        file.write(b"new")
        assert os.listdir(tmp_path) == []
    assert os.listdir(tmp_path) == ["report.csv"]


HOLD = "import sys; from pathlib import Path; from seatrial.store.files import locked\n"
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
        monkeypatch.setattr(files, "_LOCKS", table)
        table.write_text(f"1: FLOCK  ADVISORY  WRITE {os.getpid()} ff:ff:{inode} 0 EOF\n1: -> FLOCK junk\n\n")
        assert holder_of(tmp_path) == os.getpid()
        table.write_text(f"1: FLOCK  ADVISORY  WRITE 1 ff:ff:{inode} 0 EOF\n")
        assert holder_of(tmp_path) is None
        table.write_text(f"1: POSIX  ADVISORY  WRITE {os.getpid()} ff:ff:{inode} 0 EOF\n")
        assert holder_of(tmp_path) is None
        monkeypatch.setattr(files, "_LOCKS", Path("/nowhere"))
        assert holder_of(tmp_path) is None


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    with locked(tmp_path):
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / ".lock").symlink_to(tmp_path / ".lock")
        assert holder_of(tmp_path / "other") is None
