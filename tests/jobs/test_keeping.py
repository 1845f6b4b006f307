"""Tries are kept in a job's folder, those that count apart from the others; or nowhere."""

import asyncio
from typing import Any

import pytest

from seatrial.jobs.keeping import ScratchKeeper, StoreKeeper
from seatrial.jobs.room import Room
from seatrial.jobs.writer import Writer
from seatrial.trial.events import unobserved
from tests.jobs.samples import broken_machine, record


def keep(store, told, *, counts):
    """Keep one try of a trial, with a file in its folder."""

    async def run():
        with Writer() as writer:
            async with StoreKeeper(store, writer, Room("resume", 1.0, unobserved)).open(told.trial_id) as opened:
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
