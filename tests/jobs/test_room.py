"""A job waits for room, says so, writes when there is some, and gives up in the end."""

import asyncio
from pathlib import Path

import pytest

from seatrial.errors import HostExhaustedError, StoreFullError
from seatrial.jobs import room as room_module
from seatrial.jobs.room import Room
from seatrial.trial.events import Notice
from tests.jobs.samples import Watcher
from tests.sandbox.host.fakes import FakeGauge, on_watch, shortage


def play(scene, found=None):
    async def run():
        gauge = FakeGauge(found)
        watch = on_watch(gauge)
        with watch.guarding(Path()):
            return await asyncio.wait_for(scene(gauge, watch), 20)

    return asyncio.run(run())


def test_where_there_is_room_nobody_waits_or_hears_of_it():
    watcher = Watcher()
    play(lambda *_: Room("`seatrial resume j`", 0.01, watcher).wait())
    assert watcher.events == []


def test_it_is_told_what_is_waited_for():
    watcher = Watcher()

    async def scene(gauge, watch):
        waiting = asyncio.ensure_future(Room("`seatrial resume j`", 20, watcher).wait())
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
        play(lambda *_: Room("`seatrial resume j`", 0.01, Watcher()).wait(), shortage())


def test_what_finds_no_room_is_written_later(monkeypatch):
    monkeypatch.setattr(room_module, "_PAUSE_SEC", 0.0)
    tries = []

    async def write():
        tries.append(1)
        if len(tries) < 3:
            raise StoreFullError("full")
        return "written"

    assert play(lambda *_: Room("`seatrial resume j`", 20, Watcher()).use(write)) == "written"
    assert len(tries) == 3


def test_a_refusal_that_does_not_end_ends_the_job():
    async def write():
        raise StoreFullError("over quota")

    with pytest.raises(StoreFullError, match="over quota"):
        play(lambda *_: Room("`seatrial resume j`", 0.0, Watcher()).use(write))
