"""Tries are kept in a job's folder, those that count apart from the others; or nowhere.

They are written beside the loop: together where possible, each with its own answer, never half when cancelled. A job
waits for room, says so, writes when there is some, and gives up in the end.
"""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import HostExhaustedError, StoreError, StoreFullError
from seatrial.jobs import keeping
from seatrial.jobs.keeping import HostCapacity, ScratchKeeper, StoreKeeper, Writer
from seatrial.model.events import Notice, unobserved
from seatrial.store.drafts import Commit, commit_together
from seatrial.store.job_store import JobStore
from tests.jobs.samples import Watcher, broken_machine, job_file, record
from tests.sandbox.host.fakes import FakeGauge, on_watch, shortage


def keep(store, told, *, counts):
    """Keep one try of a trial, with a file in its folder."""

    async def run():
        with Writer() as writer:
            async with StoreKeeper(store, writer, HostCapacity("resume", 1.0, unobserved)).open(
                told.trial_id
            ) as opened:
                (opened.folder / "log.txt").write_text("what happened")
                if counts is not None:
                    await opened.keep(told, counts=counts)

    asyncio.run(run())


@pytest.mark.parametrize(("counts", "place"), [(True, "trials/add.noop.1"), (False, "tries/add.noop.1.1")])
def test_a_try_is_kept_with_its_files(make_job, counts, place):
    store = make_job().store
    changes: dict[str, Any] = {} if counts else {"failure": broken_machine()}
    told = record("add", job_id=store.file.id, **changes)
    keep(store, told, counts=counts)
    assert (store.path / place / "log.txt").read_text() == "what happened"
    assert (store.path / place / "record.json").exists()


def test_what_is_not_kept_is_gone(make_job):
    store = make_job().store
    keep(store, record("add"), counts=None)
    assert list((store.path / ".drafts").iterdir()) == []
    assert store.finished() == set()


def test_without_a_job_a_folder_lasts_as_long_as_its_try():
    async def run():
        async with ScratchKeeper().open("add.noop.1") as opened:
            (opened.folder / "log.txt").write_text("what happened")
            await opened.keep(record("add"), counts=True)
            return opened.folder

    assert not asyncio.run(run()).exists()


@pytest.fixture
def store(tmp_path):
    return JobStore.create(tmp_path / "job", job_file(attempts=7))


def test_what_comes_due_at_once_or_meanwhile_is_written_together(store, monkeypatch):
    batches: list[int] = []
    go_on = threading.Event()

    def slow(commits):
        batches.append(len(commits))
        assert go_on.wait(20)
        commit_together(commits)

    monkeypatch.setattr(keeping, "commit_together", slow)

    async def store_one(writer, attempt):
        with store.draft(f"add.noop.{attempt}") as draft:
            await writer.commit(Commit(draft, record(attempt=attempt)))

    async def main():
        with Writer() as writer:
            async with asyncio.TaskGroup() as group:
                for attempts in (range(1, 4), range(4, 6), range(6, 8)):
                    for attempt in attempts:
                        group.create_task(store_one(writer, attempt))
                    for _ in range(5):
                        await asyncio.sleep(0)
                go_on.set()

    asyncio.run(main())
    assert batches == [3, 4]
    assert len(store.finished()) == len(store.entries()) == 7


def test_one_that_cannot_be_stored_is_the_only_one(store):
    async def main():
        with Writer() as writer, store.draft("add.noop.1") as good, store.draft("sort.noop.1") as bad:
            (bad.path / "record.json").write_text("in the way")
            return await asyncio.gather(
                writer.commit(Commit(bad, record("sort"))),
                writer.commit(Commit(good, record())),
                return_exceptions=True,
            )

    failed, stored = asyncio.run(main())
    assert isinstance(failed, StoreError)
    assert stored is None
    assert store.finished() == {"add.noop.1"}


def test_a_bug_in_writing_reaches_everyone_who_waits(store, monkeypatch):
    def broken(_):
        raise ZeroDivisionError

    monkeypatch.setattr(keeping, "commit_together", broken)

    async def main():
        with Writer() as writer, store.draft("add.noop.1") as draft:
            await writer.commit(Commit(draft, record()))

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())


def test_cancelled_while_the_thread_writes_waits_for_it(store, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def slow(commits):
        begun.set()
        assert go_on.wait(20)
        commit_together(commits)

    monkeypatch.setattr(keeping, "commit_together", slow)

    async def store_one(writer):
        with store.draft("add.noop.1") as draft:
            await writer.commit(Commit(draft, record()))

    async def main():
        with Writer() as writer:
            work = asyncio.create_task(store_one(writer))
            await asyncio.to_thread(begun.wait, 20)
            for _ in range(3):  # however impatient
                work.cancel()
                await asyncio.sleep(0)
            assert not work.done()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await work

    asyncio.run(main())
    assert store.record("add.noop.1") == record()
    assert list((store.path / ".drafts").iterdir()) == []


def play(scene, found=None):
    async def run():
        gauge = FakeGauge(found)
        watch = on_watch(gauge)
        with watch.guarding(Path()):
            return await asyncio.wait_for(scene(gauge, watch), 20)

    return asyncio.run(run())


def test_where_there_is_room_nobody_waits_or_hears_of_it():
    watcher = Watcher()
    play(lambda *_: HostCapacity("`seatrial resume j`", 0.01, watcher).wait())
    assert watcher.events == []


def test_it_is_told_what_is_waited_for():
    watcher = Watcher()

    async def scene(gauge, watch):
        waiting = asyncio.ensure_future(HostCapacity("`seatrial resume j`", 20, watcher).wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        gauge.found = None
        await watch.look()
        await waiting

    play(scene, shortage())
    (notice,) = watcher.of(Notice)
    assert "waiting: the disk at /full is short" in notice.text


def test_in_the_end_it_gives_up_and_says_how_to_go_on():
    with pytest.raises(HostExhaustedError, match=r"at /full is short.*go on with `seatrial resume j`"):
        play(lambda *_: HostCapacity("`seatrial resume j`", 0.01, Watcher()).wait(), shortage())


def test_what_finds_no_room_is_written_later(monkeypatch):
    monkeypatch.setattr(keeping, "_PAUSE_SEC", 0.0)
    tries = []

    async def write():
        tries.append(1)
        if len(tries) < 3:
            raise StoreFullError("full")
        return "written"

    assert play(lambda *_: HostCapacity("`seatrial resume j`", 20, Watcher()).write(write)) == "written"
    assert len(tries) == 3


def test_a_refusal_that_does_not_end_ends_the_job():
    async def write():
        raise StoreFullError("over quota")

    with pytest.raises(StoreFullError, match="over quota"):
        play(lambda *_: HostCapacity("`seatrial resume j`", 0.0, Watcher()).write(write))
