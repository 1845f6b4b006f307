"""Many rollouts of one environment side by side: an evaluation in the order of its rows, or a stream as they end.

A stream runs no further ahead than its reader takes outputs. One row is `run_row`'s concern, where outputs are kept
`saving`'s.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.concurrency import finish, run_all
from seatrial.env.arguments import USUAL_RETRIES, Callback
from seatrial.env.client import Client, OpenPolicy, open_model
from seatrial.env.figures import LateMetadata, summarize
from seatrial.env.hooks import maybe_await
from seatrial.env.results import Output, Results
from seatrial.env.rows import Row
from seatrial.env.run_row import Groups, RowPlan, RowWork
from seatrial.env.saving import OutputStore, keep_metadata, open_outputs

if TYPE_CHECKING:
    from seatrial.env.environment import Environment

USUAL_CONCURRENT = 32


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What is to be rolled out, and how."""

    rows: Sequence[Row]
    model: str
    sampling_args: Mapping[str, Any]
    max_concurrent: int = -1
    """Without a positive number it is the usual one."""
    state_columns: tuple[str, ...] = ()
    save_to: Path | None = None
    resume: bool = False
    retries: int = USUAL_RETRIES
    """Of rollouts that are trials; `row_retries` is for others."""
    engine: str = "local"
    address: str | None = None
    row_retries: int = 0
    in_groups: bool = False
    """Whether a group is scored together: the rollouts of one example, or all of them with `one_group`."""
    one_group: bool = False
    order: int | None = None
    """The seed that the rows were shuffled with."""
    base_url: str = ""
    on_start: Callback | None = None
    listeners: tuple[Callback, ...] = ()
    on_log: Callback | None = None

    @property
    def workers(self) -> int:
        return self.max_concurrent if self.max_concurrent > 0 else USUAL_CONCURRENT

    def work(self) -> list[RowWork]:
        return [
            RowWork(number, 0 if self.one_group else row["example_id"], row) for number, row in enumerate(self.rows)
        ]

    def row_plan(self, client: Client | OpenPolicy) -> RowPlan:
        return RowPlan(
            client,
            self.model,
            self.sampling_args,
            self.state_columns,
            retries=self.row_retries,
            scoring="group" if self.in_groups else "each",
            states={} if self.in_groups else None,
        )


async def run_rollouts(environment: "Environment", plan: RunPlan, client: Client | OpenPolicy) -> Results:
    """Roll out all rows of a plan. Only cancellation, StoreError, what listeners raise and, before the first rollout,
    UsageError come out.
    """
    started = time.time()
    outputs: dict[int, Output] = {}
    row_plan = plan.row_plan(client)
    work = plan.work()
    groups = Groups(environment, row_plan, Counter(each.group for each in work).__getitem__)
    ended: list[Output] = []

    async def tell(new: list[Output]) -> None:
        ended.extend(new)
        made = LateMetadata(lambda: summarize(ended, plan, environment, started))
        for listener in plan.listeners:
            await maybe_await(listener(ended, new, made))

    async def roll_out(work: RowWork) -> None:
        output = await store.produce(work.row)
        done = await groups.add(work, output)
        if not plan.in_groups:
            done = [(work, output)]
        elif done:
            await store.scored([made for _, made in done])
        outputs.update({each.number: made for each, made in done})
        if done:
            await tell([made for _, made in done])

    await _announce(plan)
    async with open_store(environment, plan, row_plan) as store:
        try:
            await run_all(work, roll_out, plan.workers)
        finally:
            await finish(groups.close())
    done = [outputs[number] for number in sorted(outputs)]
    metadata = summarize(done, plan, environment, started)
    if plan.save_to is not None and not environment.rollouts_are_trials:
        keep_metadata(plan.save_to, metadata)
    return {"outputs": done, "metadata": metadata}


async def _announce(plan: RunPlan) -> None:
    if plan.on_start is not None:
        await maybe_await(plan.on_start(list(plan.rows), list(plan.rows)))
    if plan.on_log is not None and plan.save_to is not None:
        await maybe_await(plan.on_log(f"rollouts are kept in {plan.save_to}"))


@asynccontextmanager
async def open_store(environment: "Environment", plan: RunPlan, row_plan: RowPlan) -> AsyncIterator[OutputStore]:
    """What rollouts of a plan need, and where their outputs go, for the length of a block. Raises UsageError."""
    shared = environment.in_use() if plan.engine == "local" else nullcontext()
    async with shared, open_outputs(environment, plan, row_plan) as store:
        yield store


# Streams.


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What is rolled out, perhaps without end: each row `each` times, its outputs one by one or a group at once."""

    rows: Iterable[Row]
    each: int
    run: RunPlan
    whole_groups: bool = False


@dataclass(eq=False, slots=True)
class _Backlog:
    """Where outputs wait to be taken."""

    room: asyncio.Semaphore
    """For rollouts that run and outputs that wait."""
    outputs: "asyncio.Queue[list[Output] | None]"
    """None is the end."""


async def stream_outputs(
    environment: "Environment", plan: StreamPlan, client: object
) -> AsyncGenerator[list[Output], None]:
    """Outputs as they end: those of one row together where the plan says so, else one at a time.

    Rollouts that run and outputs that have not been taken yet are `plan.run.workers` together, or as many as a group
    has. When it is closed, which leaving a loop over it does, what runs is cancelled and cleaned up. Raises what an
    evaluation raises.
    """
    backlog = _Backlog(asyncio.Semaphore(max(plan.run.workers, plan.each if plan.whole_groups else 1)), asyncio.Queue())
    producing = asyncio.ensure_future(_produce(environment, plan, client, backlog))
    producing.add_done_callback(lambda _: backlog.outputs.put_nowait(None))
    try:
        while (outputs := await backlog.outputs.get()) is not None:
            yield outputs
            for _ in outputs:  # only now: what is being looked at takes up room too
                backlog.room.release()
    finally:
        producing.cancel()
        await finish(asyncio.wait({producing}))
    await producing


async def _produce(environment: "Environment", plan: StreamPlan, client: object, backlog: _Backlog) -> None:
    async with open_model(client) as opened:
        row_plan = plan.run.row_plan(opened)
        groups = Groups(environment, row_plan, lambda _: plan.each)

        async with open_store(environment, plan.run, row_plan) as store:

            async def roll_out(work: RowWork) -> None:
                output = await store.produce(work.row)
                done = [output]
                if plan.whole_groups:
                    done = [made for _, made in await groups.add(work, output)]
                    if done and plan.run.in_groups:
                        await store.scored(done)
                if done:
                    backlog.outputs.put_nowait(done)

            try:
                await run_all(_work(plan), roll_out, plan.run.workers, room=backlog.room)
            finally:
                await finish(groups.close())


def _work(plan: StreamPlan) -> Iterator[RowWork]:
    number = 0
    for group, row in enumerate(plan.rows):
        for _ in range(plan.each):
            yield RowWork(number, group, row)
            number += 1
