"""Counting records: each one that is copied, missing, damaged or foreign is named, and costs only itself."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.errors import StoreError
from seatrial.model.base import to_json
from seatrial.model.job import LeftOut
from seatrial.store.index import Index, entry_of, stamp_of
from seatrial.store.job_store import JobStore
from tests.jobs.samples import job_file, record

SOUND = "sort.noop.1"
TRIAL = "add.noop.1"


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    """A job with two trials, both stored by this job."""
    file = job_file(attempts=2).model_copy(update={"id": "this job"})
    made = JobStore.create(tmp_path / "job", file)
    keep(made, record(job="nightly", job_id="this job"), record("sort", job="nightly", job_id="this job"))
    return made


def keep(store: JobStore, *records):
    for each in records:
        with store.draft(each.trial_id) as draft:
            draft.commit(each)


def folder(store: JobStore, name: str = TRIAL) -> Path:
    return store.path / "trials" / name


def uncounted(store: JobStore) -> dict[str, str]:
    return {found.trial_id: found.reason for found in JobStore.open(store.path).census().uncounted}


def counted(store: JobStore) -> list[str]:
    return [entry.trial_id for entry in JobStore.open(store.path).entries()]


def rewrite(store: JobStore, **changes) -> None:
    """Put a record in the trial's place that somebody has changed."""
    table = {**json.loads(to_json(record(job="nightly", job_id="this job"))), **changes}
    (folder(store) / "record.json").write_text(json.dumps(table))


def replace_by(make: Callable[[Path], object]) -> Callable[[JobStore], None]:
    def change(store: JobStore) -> None:
        path = folder(store) / "record.json"
        path.unlink()
        make(path)

    return change


def file_in_place_of_the_folder(store: JobStore) -> None:
    shutil.rmtree(folder(store))
    folder(store).write_text("")


def link_in_place_of_the_folder(store: JobStore) -> None:
    folder(store).rename(store.path / "elsewhere")
    folder(store).symlink_to(store.path / "elsewhere")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(50 * 2**30)


DAMAGE = {
    "no record": (replace_by(lambda path: None), "there is no record.json in it"),
    "empty": (replace_by(lambda path: path.write_bytes(b"")), "its record.json is empty"),
    "truncated": (replace_by(lambda path: path.write_bytes(to_json(record())[:-20])), "is no whole JSON"),
    "garbage": (replace_by(lambda path: path.write_bytes(b"\xff\0{")), "is no whole JSON"),
    "no record but JSON": (replace_by(lambda path: path.write_bytes(b"[]")), "is damaged"),
    "pipe": (replace_by(os.mkfifo), "it is not a regular file"),
    "link": (replace_by(lambda path: path.symlink_to("/etc/hostname")), "is a link"),
    "folder": (replace_by(lambda path: path.mkdir()), "its record.json cannot be read: it is not a regular file"),
    "huge": (replace_by(sparse), "53,687,091,200 bytes, expected"),
    "another trial": (lambda store: rewrite(store, trial_id=SOUND), f"the record of another trial, {SOUND}"),
    "another job's name": (lambda store: rewrite(store, job="weekly"), "made by another job (weekly)"),
    "another job of that name": (lambda store: rewrite(store, job_id="that job"), "made by another job (nightly)"),
    "no job": (lambda store: rewrite(store, job=None, job_id=None), "made by another job"),
    "other content": (
        lambda store: rewrite(store, task={"id": "add", "name": "add", "digest": "f" * 64}),
        "another content of the task (digest ffffffffffff, the job has 0123456789ab)",
    ),
    "other attempt": (lambda store: rewrite(store, attempt=2), "of attempt 2, expected 1"),
    "folder is gone": (lambda store: shutil.rmtree(folder(store)), "its folder is gone"),
    "file": (file_in_place_of_the_folder, "it is no folder"),
    "link to a folder": (link_in_place_of_the_folder, "it is no folder"),
}


@pytest.mark.parametrize(("damage", "reason"), DAMAGE.values(), ids=DAMAGE)
def test_what_is_no_record_of_the_trial_is_named_and_not_counted(store, damage, reason):
    assert counted(store) == [TRIAL, SOUND]
    damage(store)
    assert list(uncounted(store)) == [TRIAL]
    assert reason in uncounted(store)[TRIAL]
    assert counted(store) == [SOUND]
    again = JobStore.open(store.path)
    (found,) = again.census().uncounted
    assert found.planned
    with again.lock():
        assert again.finished() == {SOUND}
        again.set_uncounted_aside([TRIAL])
        keep(again, record(job="nightly", job_id="this job"))
        assert again.finished() == {TRIAL, SOUND}
    assert (counted(store), uncounted(store)) == ([TRIAL, SOUND], {})
    kept = [path.name for path in (store.path / "damaged").iterdir()]
    assert kept == ([] if reason == "its folder is gone" else [f"{TRIAL}.1"])


def test_a_record_of_a_newer_version_is_named_and_is_not_to_be_run_again(store):
    rewrite(store, schema_version=7)
    census = JobStore.open(store.path).census()
    (found,) = census.uncounted
    assert (found.trial_id, found.newer, found.planned) == (TRIAL, True, False)
    assert (census.newer, census.taken) == ({TRIAL}, {TRIAL, SOUND})
    with pytest.raises(StoreError, match=r"has version 7, and this Seatrial reads up to 1; install a newer one"):
        store.record(TRIAL)


def test_a_record_with_fields_of_a_newer_version_is_left_alone_too(store):
    rewrite(store, weather="fine")
    census = JobStore.open(store.path).census()
    (found,) = census.uncounted
    assert (found.newer, found.planned, census.taken) == (True, False, {TRIAL, SOUND})
    assert "fields that this Seatrial does not know (weather)" in found.reason


def test_what_is_damaged_is_left_alone_where_a_newer_version_has_judged_it_since(store):
    later = store.path / "revisions" / f"{TRIAL}.1"
    shutil.copytree(folder(store), later)
    (later / "record.json").write_text('{"schema_version": 7}')
    census = JobStore.open(store.path).census()
    assert [entry.trial_id for entry in census.entries] == [TRIAL, SOUND]
    assert [(found.revision, found.newer) for found in census.uncounted] == [(1, True)]
    (folder(store) / "record.json").write_bytes(b"")
    census = JobStore.open(store.path).census()
    assert [(found.revision, found.planned) for found in census.uncounted] == [(1, False), (0, False)]
    assert census.taken == {TRIAL, SOUND}


def test_a_damaged_trial_that_is_asked_for_says_what_to_do(store):
    rewrite(store, job="weekly")
    with pytest.raises(StoreError, match=r"another job \(weekly\); `seatrial resume .*job` keeps what is there"):
        store.record(TRIAL)


def test_a_copy_of_a_trial_is_not_a_second_one(store):
    for name in ("add.noop.1 (copy)", "add.noop.2"):
        shutil.copytree(folder(store), folder(store, name))
    assert counted(store) == [TRIAL, SOUND]
    expected = "it holds the record of another trial, add.noop.1"
    assert uncounted(store) == {"add.noop.1 (copy)": expected, "add.noop.2": expected}
    assert [found.planned for found in store.census().uncounted] == [False, True]


@pytest.mark.parametrize("change", [{"attempts": 1}, {"tasks": ["sort"]}, {"left_out": True}], ids=str)
def test_a_trial_that_the_job_does_not_want_is_not_counted(store, change):
    keep(store, record(attempt=2, job="nightly", job_id="this job"))
    tasks = change.get("tasks", ["add", "sort"])
    declined = LeftOut(kind="declined", task="add", agent="noop", reason="no")
    left_out = (declined,) if "left_out" in change else ()
    file = job_file(tasks, attempts=change.get("attempts", 2)).model_copy(update={"left_out": left_out})
    store.update(file.model_copy(update={"id": "this job"}))
    expected = {"attempts": {"add.noop.2"}}.get(next(iter(change)), {TRIAL, "add.noop.2"})
    assert set(uncounted(store).values()) == {"the job wants no trial of this name"}
    assert set(uncounted(store)) == expected


def test_lines_that_are_there_twice_count_once(store):
    index = store.path / "index.jsonl"
    index.write_bytes(index.read_bytes() * 3)
    assert counted(store) == [TRIAL, SOUND]


def forge_index(folder: Path) -> None:
    """Write lines that are right in every way, but that they say of each trial that it failed."""
    file = JobStore.open(folder).file
    index = Index(folder, file, is_own=True)
    lines = []
    for task in file.tasks:
        entry = entry_of(record(task.id), "noop")._replace(outcome="fail", reward=0.0)
        stamp = stamp_of(f"{folder}/trials/{entry.trial_id}/record.json")
        assert stamp is not None
        lines.append(index.line(entry, stamp))
    (folder / "index.jsonl").write_bytes(b"".join(lines))


def rewards(folder: Path) -> list[float | None]:
    return [entry.reward for entry in JobStore.open(folder).entries()]


def test_a_forged_index_in_a_job_of_somebody_else_changes_no_number(store):
    (store.path / "job.seal").unlink()
    forge_index(store.path)
    assert rewards(store.path) == [1.0, 1.0]
    assert JobStore.open(store.path).added_since(0) == ([], 0)


def test_a_forged_index_is_not_believed_after_the_user_trusted_the_job(store):
    (store.path / "job.seal").unlink()
    forge_index(store.path)
    trusted = JobStore.open(store.path)
    trusted.make_own()
    assert trusted.is_own
    assert rewards(store.path) == [1.0, 1.0]
    with trusted.lock():
        pass
    assert rewards(store.path) == [1.0, 1.0]


def test_a_forged_index_that_comes_back_with_ones_own_seal_changes_no_number(store, tmp_path):
    forge_index(store.path)
    copy = shutil.copytree(store.path, tmp_path / "copy")
    assert JobStore.open(copy).is_own
    assert rewards(copy) == [1.0, 1.0]


def test_no_line_is_added_to_the_index_of_a_job_of_somebody_else(store):
    (store.path / "job.seal").unlink()
    (store.path / "index.jsonl").unlink()
    with JobStore.open(store.path).lock():
        pass
    assert not (store.path / "index.jsonl").exists()


def test_a_record_that_is_changed_after_it_was_stored_is_read_again(store):
    path = folder(store) / "record.json"
    times = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"reward": 1.0', b'"reward": 0.0'))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert [entry.reward for entry in store.entries()] == [0.0, 1.0]


def test_only_records_without_a_line_of_their_own_are_read(store, monkeypatch):
    def fail(*_):
        raise AssertionError("the lines must be enough")

    store.census()
    monkeypatch.setattr("seatrial.store.records.read_file", fail)
    assert len(store.entries()) == 2


def test_the_lock_mends_the_index(store, monkeypatch):
    index = store.path / "index.jsonl"
    index.write_bytes(index.read_bytes()[:-9])
    with store.lock():
        pass
    test_only_records_without_a_line_of_their_own_are_read(store, monkeypatch)


def test_a_job_of_an_older_version_is_read(tmp_path):
    old = JobStore.create(tmp_path / "job", job_file())
    keep(old, record(), record("sort", job="nightly"))
    signed = b"0123456789abcdef" * 2 + b'[1,2,3,4,"add.noop.1","add","noop",1,"fail",0.0,1]\n'
    oldest = b'["add.noop.1","add","noop",1,"fail",0.0,1,null,null,null]\n'
    (old.path / "index.jsonl").write_bytes(signed + oldest)
    (old.path / "index.checkpoint").write_bytes(b"of an older version")
    assert [entry.outcome for entry in old.entries()] == ["pass", "pass"]
    assert old.census().uncounted == []


def test_a_full_table_of_open_files_damages_no_record(store, monkeypatch):
    def full(*_):
        raise OSError(24, "Too many open files")

    (store.path / "index.jsonl").unlink()
    monkeypatch.setattr("seatrial.store.records.read_file", full)
    with pytest.raises(StoreError, match="ulimit -n"):
        store.census()


def test_what_is_set_aside_replaces_nothing(store):
    for content in ("first", "second"):
        shutil.rmtree(folder(store), ignore_errors=True)
        folder(store).write_text(content)
        with store.lock():
            store.set_uncounted_aside([TRIAL])
    kept = {path.name: path.read_text() for path in (store.path / "damaged").iterdir()}
    assert kept == {"add.noop.1.1": "first", "add.noop.1.2": "second"}
