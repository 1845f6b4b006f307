"""A dead spawner is replaced; ones that die again and again are not, and everybody learns why."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.embedded.home import MOST_DEATHS, SpawnerKeeper


@dataclass
class FakeClient:
    """A spawner that says how it ended."""

    end: str | None = None


@dataclass
class FakeHome:
    """A home without a process."""

    proven: bool = False
    given_up: bool = False
    client: FakeClient = field(default_factory=FakeClient)

    @property
    def alive(self) -> bool:
        return self.client.end is None

    def die(self) -> None:
        self.client.end = "the spawner was killed"

    async def give_up(self) -> None:
        self.given_up = True
        raise SandboxError("a mount is busy")  # which must not stop anybody


def keeper_of(*homes: Any) -> Any:
    """A keeper that gets those homes, one after the other; an error is raised in its turn."""
    coming = iter(homes[1:])

    async def open_home() -> Any:
        home = next(coming)
        if isinstance(home, Exception):
            raise home
        return home

    return SpawnerKeeper(homes[0], open_home)


async def die_and_ask(keeper: Any) -> Any:
    keeper.home.die()
    return await keeper.living()


def test_a_living_one_stays():
    first = FakeHome()
    assert asyncio.run(keeper_of(first).living()) is first


def test_a_dead_one_is_given_up_for_one_that_all_get():
    first, second = FakeHome(), FakeHome()

    async def scene() -> None:
        keeper = keeper_of(first, second)
        first.die()
        assert list(await asyncio.gather(keeper.living(), keeper.living())) == [second, second]

    asyncio.run(scene())
    assert first.given_up


def test_deaths_in_a_row_end_it_with_the_reason():
    async def scene() -> None:
        keeper = keeper_of(*(FakeHome() for _ in range(MOST_DEATHS)))
        for _ in range(MOST_DEATHS - 1):
            await die_and_ask(keeper)
        for _ in range(2):
            with pytest.raises(SandboxError, match=r"in a row .* the last: the spawner was killed"):
                await die_and_ask(keeper)

    asyncio.run(scene())


def test_one_that_did_its_work_clears_the_count():
    async def scene() -> None:
        keeper = keeper_of(*(FakeHome(proven=True) for _ in range(MOST_DEATHS * 2)))
        for _ in range(MOST_DEATHS * 2 - 1):
            await die_and_ask(keeper)

    asyncio.run(scene())


def test_one_that_cannot_be_started_can_be_tried_again():
    async def scene() -> None:
        last = FakeHome()
        keeper = keeper_of(FakeHome(), HostUnsupportedError("no process left"), last)
        with pytest.raises(SandboxError, match="the spawner was killed; a new one cannot be started: no process left"):
            await die_and_ask(keeper)
        assert await keeper.living() is last

    asyncio.run(scene())
