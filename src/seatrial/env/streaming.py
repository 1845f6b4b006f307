"""Outputs as they end: a stream of rollouts that runs no further ahead than whoever reads it can take."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seatrial.concurrency import finish
from seatrial.env.grouping import Groups, RowWork
from seatrial.env.leases import open_model
from seatrial.env.results import Output
from seatrial.env.rows import Row
from seatrial.env.running import RunPlan, open_store, produce_all

if TYPE_CHECKING:
    from seatrial.env.environment import Environment


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What is rolled out, perhaps without end: each row `each` times, its outputs one by one or a group at once."""

    rows: Iterable[Row]
    each: int
    run: RunPlan
    whole_groups: bool = False


@dataclass(eq=False, slots=True)
class _Desk:
    """Where outputs wait to be taken. `room` is for those that run and those that wait; None is the end."""

    room: asyncio.Semaphore
    outputs: "asyncio.Queue[list[Output] | None]"


async def stream_outputs(
    environment: "Environment", plan: StreamPlan, client: object
) -> AsyncGenerator[list[Output], None]:
    """Outputs as they end: those of one row together where the plan says so, else one at a time.

    Rollouts that run and outputs that nobody has taken yet are `plan.run.workers` together, or as many as a group has.
    When it is closed, which leaving a loop over it does, what runs is cancelled and cleaned up. Raises what an
    evaluation raises.
    """
    desk = _Desk(asyncio.Semaphore(max(plan.run.workers, plan.each if plan.whole_groups else 1)), asyncio.Queue())
    producing = asyncio.ensure_future(_produce(environment, plan, client, desk))
    producing.add_done_callback(lambda _: desk.outputs.put_nowait(None))
    try:
        while (outputs := await desk.outputs.get()) is not None:
            yield outputs
            for _ in outputs:  # only now: what is being looked at takes up room too
                desk.room.release()
    finally:
        producing.cancel()
        await finish(_ended(producing))
    await producing


async def _produce(environment: "Environment", plan: StreamPlan, client: object, desk: _Desk) -> None:
    async with open_model(client) as opened:
        row_plan = plan.run.row_plan(opened)
        groups = Groups(environment, row_plan, lambda _: plan.each)

        async with open_store(environment, plan.run, row_plan) as store:

            async def produced(work: RowWork, output: Output) -> None:
                done = [output]
                if plan.whole_groups:
                    done = [made for _, made in await groups.add(work, output)]
                    if done and plan.run.in_groups:
                        await store.scored(done)
                if done:
                    desk.outputs.put_nowait(done)

            try:
                await produce_all(store, _work(plan), plan.run.workers, produced, desk.room)
            finally:
                await finish(groups.close())


def _work(plan: StreamPlan) -> Iterator[RowWork]:
    number = 0
    for group, row in enumerate(plan.rows):
        for _ in range(plan.each):
            yield RowWork(number, group, row)
            number += 1


async def _ended(task: "asyncio.Future[None]") -> None:
    await asyncio.wait({task})
