"""Slots: none is lost or given twice, one trial does not take all, and whoever has few under way goes first."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.upstreams.slots import Slots


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("count", "alone"), [(1, 1), (4, 4), (7, 7), (8, 7), (64, 56)])
def test_one_trial_leaves_some_to_others(count, alone):
    async def scenario() -> None:
        slots = Slots(count)
        for trial in (1, 2):
            await slots.acquire(trial)
            slots.release(trial)
        greedy = [asyncio.ensure_future(slots.acquire(1)) for _ in range(count + 5)]
        await settle()
        assert sum(task.done() for task in greedy) == alone
        other = asyncio.ensure_future(slots.acquire(2))
        await settle()
        assert other.done() == (alone < count)
        for task in (*greedy, other):
            task.cancel()

    asyncio.run(scenario())


def test_a_trial_that_is_alone_leaves_some_for_one_that_comes_later():
    async def scenario() -> None:
        slots = Slots(64)
        greedy = [asyncio.ensure_future(slots.acquire(1)) for _ in range(80)]
        await settle()
        assert sum(task.done() for task in greedy) == 56
        async with asyncio.timeout(1):
            await slots.acquire(2)
        for task in greedy:
            task.cancel()

    asyncio.run(scenario())


def test_who_has_fewest_under_way_goes_before_those_who_queued_first():
    async def scenario() -> None:
        slots = Slots(3)
        for _ in range(3):
            await slots.acquire(1)
        queue = [asyncio.ensure_future(slots.acquire(1)) for _ in range(50)]
        await settle()
        late = asyncio.ensure_future(slots.acquire(2))
        await settle()
        slots.release(1)
        await settle()
        assert late.done()
        assert not any(task.done() for task in queue)
        for task in queue:
            task.cancel()

    asyncio.run(scenario())


@given(chance=st.randoms(use_true_random=False), count=st.integers(1, 12), trials=st.integers(1, 4))
def test_no_slot_is_lost_or_given_twice(chance, count, trials):
    """Calls come, are cancelled and end in any order; at the end every slot is there, and nobody waits for ever."""

    async def scenario() -> None:
        slots, under_way = Slots(count), 0

        async def use(trial: int) -> None:
            nonlocal under_way
            await slots.acquire(trial)
            under_way += 1
            assert under_way <= count
            try:
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
            finally:
                under_way -= 1
                slots.release(trial)

        tasks = [asyncio.ensure_future(use(chance.randrange(trials))) for _ in range(40)]
        for _ in range(20):
            await asyncio.sleep(0)
            tasks[chance.randrange(40)].cancel()
        async with asyncio.timeout(10):
            await asyncio.wait(tasks)
        assert [task.exception() for task in tasks if not task.cancelled()].count(None) >= 20
        for number in range(count):  # each is free again
            await asyncio.wait_for(slots.acquire(100 + number), 1)

    asyncio.run(scenario())
