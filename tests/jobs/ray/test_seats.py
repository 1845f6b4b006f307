"""Which node a trial gets."""

import asyncio

import pytest

from seatrial.errors import NodeLostError
from seatrial.jobs.ray.seats import Seats


def seats(**nodes: tuple[int, int]) -> Seats:
    found = Seats()
    for name, (slots, memory) in nodes.items():
        found.add(name, slots, memory)
    return found


async def taken(source: Seats, *needs: int, avoid: frozenset[str] = frozenset()) -> list[str]:
    return [(await source.take(need, avoid)).node for need in needs]


def waiting(source: Seats, need: int = 0, *avoid: str):
    return asyncio.ensure_future(source.take(need, frozenset(avoid)))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_trials_are_spread_by_free_seats():
    assert asyncio.run(taken(seats(one=(3, 100), two=(1, 100)), 0, 0, 0, 0)) == ["one", "one", "one", "two"]


def test_a_node_to_avoid_is_taken_only_without_another():
    async def run():
        source = seats(one=(9, 100), two=(1, 100))
        first = await taken(source, 0, avoid=frozenset({"one"}))
        second = waiting(source, 0, "one")
        await turns()
        assert not second.done()
        source.remove("two")
        return first, (await second).node

    assert asyncio.run(run()) == (["two"], "one")


def test_memory_is_counted_on_each_node():
    async def run():
        source = seats(one=(4, 100), two=(4, 60))
        seat = await source.take(80)
        assert (await source.take(50)).node == "two"
        large = waiting(source, 70)
        await turns()
        assert not large.done()
        source.give_back(seat)
        return (await large).node

    assert asyncio.run(run()) == "one"


def test_what_no_node_holds_runs_alone_on_the_largest():
    async def run():
        source = seats(one=(4, 100), two=(4, 60))
        seat = await source.take(500)
        after = waiting(source, 90)
        await turns()
        assert not after.done()
        source.give_back(seat)
        return seat.node, (await after).node

    assert asyncio.run(run()) == ("one", "one")


def test_nobody_overtakes():
    async def run():
        source = seats(one=(2, 100))
        seat = await source.take(60)
        large, small = waiting(source, 90), waiting(source, 10)
        await turns()
        assert not large.done()
        assert not small.done()
        source.give_back(seat)
        return [(await each).memory_mb for each in (large, small)]

    assert asyncio.run(run()) == [90, 10]


def test_a_resting_node_gives_no_seats_until_it_wakes():
    async def run():
        source = seats(one=(2, 100))
        source.rest("one")
        waiter = waiting(source)
        await turns()
        assert not waiter.done()
        source.wake("one")
        return (await waiter).node

    assert asyncio.run(run()) == "one"


def test_a_late_node_gives_seats_to_those_who_wait():
    async def run():
        source = seats()
        waiter = waiting(source)
        await turns()
        source.add("late", 1, 100)
        return (await waiter).node

    assert asyncio.run(run()) == "late"


def test_a_seat_on_a_node_that_is_gone_at_once_is_none():
    async def run():
        source = seats()
        waiter = waiting(source)
        await turns()
        source.add("late", 1, 100)
        source.remove("late")
        source.add("other", 1, 100)
        return (await waiter).node

    assert asyncio.run(run()) == "other"


@pytest.mark.parametrize("let_in", [False, True], ids=["still waiting", "just let in"])
def test_who_gives_up_takes_no_seat(let_in):
    async def run():
        source = seats(one=(1, 100))
        seat = await source.take(0)
        first, second = waiting(source), waiting(source)
        await turns()
        if let_in:
            source.give_back(seat)
        first.cancel()
        await asyncio.wait((first,))
        if not let_in:
            source.give_back(seat)
        return (await second).node

    assert asyncio.run(run()) == "one"


def test_a_seat_that_becomes_free_while_all_give_up_goes_to_who_comes_next():
    async def run():
        source = seats(one=(1, 100))
        seat = await source.take(0)
        leaving = [waiting(source) for _ in range(3)]
        await turns()
        for each in leaving:
            each.cancel()
        source.give_back(seat)
        await asyncio.wait(leaving)
        assert all(each.cancelled() for each in leaving)
        return (await source.take(0)).node

    assert asyncio.run(run()) == "one"


def test_without_nodes_for_too_long_all_are_told():
    async def run():
        source = seats()
        waiter = waiting(source)
        await turns()
        source.fail(NodeLostError("no node"))
        await waiter

    with pytest.raises(NodeLostError, match="no node"):
        asyncio.run(run())
