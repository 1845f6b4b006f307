"""A crash or a refusing disk at any instant leaves a whole record or none, and a job that can be gone on with."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.errors import StoreError
from seatrial.store.job_store import JobStore
from tests.jobs.samples import job_file, record

CALLS = ("open", "write", "fsync", "rename", "close", "scandir")


class Refusal:
    """Stands in for calls of the operating system and fails the one of a given number."""

    def __init__(self, monkeypatch, number: int, error: OSError) -> None:
        self.calls = 0
        self._number, self._error = number, error
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrap(getattr(os, name)))

    def _wrap(self, call):
        def attempt(*args, **options):
            self.calls += 1
            if self.calls == self._number:
                if call.__name__ == "close":
                    call(*args)
                raise self._error
            return call(*args, **options)

        return attempt


def commit(store: JobStore) -> None:
    with store.draft("add.noop.1") as draft:
        (draft.path / "log.txt").write_text("log")
        draft.commit(record())


def check_whole_or_nothing(folder: Path) -> None:
    again = JobStore.open(folder)
    with again.lock():
        pass
    assert list((folder / ".drafts").iterdir()) == []
    for name in again.finished():
        assert again.record(name) == record()
        assert (again.trial_folder(name) / "log.txt").read_text() == "log"
    assert [entry.trial_id for entry in again.entries()] == sorted(again.finished())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_refusal_at_every_step(tmp_path, monkeypatch, code):
    steps = refused = 0
    while True:
        store = JobStore.create(tmp_path / f"job-{steps}", job_file())
        with monkeypatch.context() as patch:
            refusal = Refusal(patch, steps + 1, OSError(code, os.strerror(code)))
            try:
                commit(store)
            except StoreError as error:
                refused += 1
                assert os.strerror(code) in str(error)  # noqa: PT017 - most steps raise, the cache's need not
                assert str(store.path) in str(error)  # noqa: PT017
        check_whole_or_nothing(store.path)
        if refusal.calls <= steps:
            break
        steps += 1
        assert store.finished() or refused
    assert steps > 10
    assert refused > 8


def test_a_full_disk_says_what_to_do(store, monkeypatch):
    with monkeypatch.context() as patch:
        Refusal(patch, 3, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        with pytest.raises(StoreError, match="free some space, then resume"):
            commit(store)


KILLED = """
import os, sys
from pathlib import Path
from seatrial.store.job_store import JobStore
from tests.jobs.samples import record
from tests.store.test_crashes import CALLS, commit

store, calls, last = JobStore.open(Path(sys.argv[1])), [], int(sys.argv[2])
def counting(call):
    def count(*args, **options):
        calls.append(call.__name__)
        if len(calls) == last:
            os.kill(os.getpid(), 9)
        return call(*args, **options)
    return count
for name in CALLS:
    setattr(os, name, counting(getattr(os, name)))
commit(store)
print(len(calls))
"""


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
def test_killed_at_many_points(tmp_path, share):
    def run(name: str, last: int) -> subprocess.CompletedProcess[str]:
        store = JobStore.create(tmp_path / name, job_file())
        command = [sys.executable, "-c", KILLED, str(store.path), str(last)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    steps = int(run("whole", 0).stdout)
    killed = run("killed", 1 + int(share * (steps - 1)))
    assert killed.returncode == -signal.SIGKILL
    check_whole_or_nothing(tmp_path / "killed")


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can only be mounted by root")
def test_a_disk_that_is_really_full(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr}")
    try:
        store = JobStore.create(disk / "job", job_file())
        commit(store)
        filler = disk / "filler"
        with pytest.raises(OSError, match="No space"):
            filler.write_bytes(bytes(2**20))
        with store.draft("sort.noop.1") as draft, pytest.raises(StoreError, match=r"No space .*; free some space"):
            draft.commit(record("sort"))
        assert JobStore.open(store.path).finished() == {"add.noop.1"}
        filler.unlink()
        with store.lock(), store.draft("sort.noop.1") as draft:
            draft.commit(record("sort"))
        assert [entry.trial_id for entry in store.entries()] == ["add.noop.1", "sort.noop.1"]
    finally:
        subprocess.run(["umount", disk], check=True)
