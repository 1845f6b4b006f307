"""KeptOpen: what is opened stays open until it is closed, or the event loop ends."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from seatrial.env.kept_open import KeptOpen


class Thing:
    """Something to hold, which notes what happens to it."""

    def __init__(self, fails: str = "") -> None:
        self.events: list[str] = []
        self._fails = fails

    @asynccontextmanager
    async def opened(self):
        if self._fails == "open":
            raise OSError("cannot be opened")
        self.events.append("open")
        try:
            yield self
        finally:
            self.events.append("closed")
        if self._fails == "close":
            raise OSError("cannot be closed")


def test_it_is_open_until_it_is_closed():
    thing = Thing()

    async def hold():
        held = KeptOpen(thing.opened())
        assert await held.open() is thing
        assert thing.events == ["open"]
        await held.close()
        await held.close()

    asyncio.run(hold())
    assert thing.events == ["open", "closed"]


def test_the_end_of_the_loop_closes_it():
    thing = Thing()

    async def hold():
        await KeptOpen(thing.opened()).open()

    asyncio.run(hold())
    assert thing.events == ["open", "closed"]


@pytest.mark.parametrize("when", ["open", "close"])
def test_what_goes_wrong_is_raised(when):
    async def hold():
        held = KeptOpen(Thing(when).opened())
        await held.open()
        await held.close()

    with pytest.raises(OSError, match=f"cannot be {when}ed|cannot be {when}d"):
        asyncio.run(hold())


def test_one_who_is_cancelled_while_it_opens_leaves_nothing_open():
    opening, events = asyncio.Event(), []

    @asynccontextmanager
    async def slow():
        try:
            opening.set()
            await asyncio.Event().wait()
            yield
        finally:
            events.append("closed")

    async def hold():
        task = asyncio.ensure_future(KeptOpen(slow()).open())
        await opening.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert events == ["closed"]

    asyncio.run(hold())
