"""Writing beside the loop: together where possible, each with its own answer, never half when cancelled."""

import asyncio
import threading

import pytest

from seatrial.errors import StoreError
from seatrial.jobs import writer as writer_module
from seatrial.jobs.writer import Writer
from seatrial.store.draft import Commit, commit_together
from seatrial.store.job_store import JobStore
from tests.jobs.samples import job_file, record


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

    monkeypatch.setattr(writer_module, "commit_together", slow)

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

    monkeypatch.setattr(writer_module, "commit_together", broken)

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

    monkeypatch.setattr(writer_module, "commit_together", slow)

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
