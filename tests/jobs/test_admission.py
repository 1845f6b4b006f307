"""Who is let in, and in which order."""

import asyncio
import os

import pytest

from seatrial.jobs.admission import Admission, LimitedStarts, cores, machine_memory_mb
from seatrial.sandbox.api import SandboxSpec
from seatrial.testing.null import NullBackend


class Crowd:
    """Trials that come in and stay until they are told to go."""

    def __init__(self, group: asyncio.TaskGroup, admission: Admission) -> None:
        self.inside: list[str] = []
        self._group, self._admission = group, admission
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._exits: dict[str, asyncio.Event] = {}

    async def come(self, name: str, memory_mb: int | None = None) -> None:
        self._exits[name] = asyncio.Event()
        self._tasks[name] = self._group.create_task(self._stay(name, memory_mb))
        await settle()

    async def go(self, name: str) -> None:
        self._exits[name].set()
        await settle()

    async def lose_patience(self, name: str) -> None:
        self._tasks[name].cancel()
        await settle()

    async def _stay(self, name: str, memory_mb: int | None) -> None:
        async with self._admission.place(memory_mb, None):
            self.inside.append(name)
            await self._exits[name].wait()
            self.inside.remove(name)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def play(scenario, concurrent=9, memory_mb=1000):
    async def run():
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            crowd = Crowd(group, Admission(concurrent, memory_mb))
            await scenario(crowd)
            for name in crowd._exits:
                await crowd.go(name)

    asyncio.run(run())


def test_so_many_at_once():
    async def scenario(crowd):
        for name in "abc":
            await crowd.come(name)
        assert crowd.inside == ["a", "b"]
        await crowd.go("a")
        assert crowd.inside == ["b", "c"]

    play(scenario, concurrent=2)


def test_declared_memory_fits_the_machine():
    async def scenario(crowd):
        await crowd.come("a", 600)
        await crowd.come("b", 600)
        assert crowd.inside == ["a"]
        await crowd.go("a")
        assert crowd.inside == ["b"]

    play(scenario)


def test_nobody_overtakes_one_that_needs_much():
    async def scenario(crowd):
        await crowd.come("small", 300)
        await crowd.come("large", 900)
        await crowd.come("late", 100)
        await crowd.come("modest", None)
        assert crowd.inside == ["small"]
        await crowd.go("small")
        assert crowd.inside == ["large", "late", "modest"]

    play(scenario)


def test_one_larger_than_the_machine_runs_alone():
    async def scenario(crowd):
        await crowd.come("first", 1)
        await crowd.come("giant", 5000)
        await crowd.come("next", 1)
        assert crowd.inside == ["first"]
        await crowd.go("first")
        assert crowd.inside == ["giant"]
        await crowd.go("giant")
        assert crowd.inside == ["next"]

    play(scenario)


def test_one_that_gives_up_waiting_lets_the_next_in():
    async def scenario(crowd):
        await crowd.come("a", 600)
        await crowd.come("b", 600)
        await crowd.come("c", 300)
        await crowd.lose_patience("b")
        assert crowd.inside == ["a", "c"]

    play(scenario)


def test_one_cancelled_at_the_moment_it_is_let_in_leaves_its_place():
    async def scenario(crowd):
        await crowd.come("a")
        await crowd.come("b")
        await crowd.come("c")
        crowd._exits["a"].set()
        await asyncio.sleep(0)  # a is about to leave, b has been let in and does not know yet
        crowd._tasks["b"].cancel()
        await settle()
        assert crowd.inside == ["c"]

    play(scenario, concurrent=1)


@pytest.mark.parametrize("memory_mb", [1, 600])
def test_all_that_are_cancelled_at_once_leave_every_place_free(memory_mb):
    async def run():
        admission = Admission(1, 1000)

        async def stay():
            async with admission.place(memory_mb, None):
                await asyncio.Event().wait()

        tasks = [asyncio.create_task(stay()) for _ in range(4)]
        await settle()
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(20), admission.place(1000, None):
            return ended

    assert {type(each) for each in asyncio.run(run())} == {asyncio.CancelledError}


def test_so_many_sandboxes_are_made_at_once():
    class Slow(NullBackend):
        making = most = 0

        async def create(self, spec):
            Slow.making += 1
            Slow.most = max(Slow.most, Slow.making)
            await asyncio.sleep(0)
            Slow.making -= 1
            return await super().create(spec)

    async def run():
        async with LimitedStarts(Slow(), 2) as backend, asyncio.TaskGroup() as group:
            assert (await backend.probe()).backend == "fake"
            for _ in range(10):
                group.create_task(backend.create(SandboxSpec()))

    asyncio.run(run())
    assert Slow.most == 2


@pytest.mark.skipif(not os.path.exists("/proc/meminfo"), reason="needs Linux")  # noqa: PTH110 - shorter
def test_the_machine_has_something():
    assert cores() >= 1
    assert 100 < machine_memory_mb() < 2**30
