"""A crash or a refusing disk at any instant leaves a whole record or none, and a job that can be gone on with."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.errors import StoreError
from seatrial.store.job_store import JobStore
from tests.conftest import sampled
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


@pytest.mark.parametrize("code", sampled([errno.ENOSPC, errno.EACCES, errno.EIO]))
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
                assert os.strerror(code) in str(error)
                assert str(store.path) in str(error)
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


def test_everything_is_on_the_disk_before_it_counts(store, monkeypatch):
    opened: dict[int, str] = {}
    steps: list[str] = []
    real_open, real_fsync, real_rename = os.open, os.fsync, os.rename

    def note_open(path, *args, **options):
        file = real_open(path, *args, **options)
        opened[file] = Path(path).name
        return file

    def note_fsync(file):
        steps.append(f"sync {opened[file]}")
        real_fsync(file)

    def note_rename(source, target):
        steps.append("move")
        real_rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", note_open)
        patch.setattr(os, "fsync", note_fsync)
        patch.setattr(os, "rename", note_rename)
        commit(store)
    moved = steps.index("move")
    draft = next(step for step in steps[:moved] if step.startswith("sync add.noop.1."))
    assert {"sync log.txt", "sync record.json"} == set(steps[: steps.index(draft)])
    assert steps[moved:] == ["move", "sync trials"]


KILLED = """
import os, sys
from pathlib import Path
from seatrial.store.job_store import JobStore
from tests.jobs.samples import job_file
from tests.store.test_crashes import CALLS, commit

def die_at(number):
    calls = []
    def counting(call):
        def count(*args, **options):
            calls.append(call.__name__)
            if len(calls) == number:
                os.kill(os.getpid(), 9)
            return call(*args, **options)
        return count
    for name in CALLS:
        setattr(os, name, counting(getattr(os, name)))

status, number = 9, 0
while status == 9:
    number += 1
    store = JobStore.create(Path(sys.argv[1], str(number)), job_file())
    child = os.fork()
    if not child:
        die_at(number)
        commit(store)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
print(status)
"""


@pytest.mark.whole
def test_killed_at_every_step(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n", done.stderr
    jobs = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    assert len(jobs) > 15
    for job in jobs:
        check_whole_or_nothing(job)
    kept = [bool(JobStore.open(job).finished()) for job in jobs]
    assert kept == sorted(kept), "once there, a record stays"
    assert set(kept) == {False, True}


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
