"""Many rollouts of one environment side by side: each on its own, each with an output, in the order of their rows."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.concurrency import finish, side_by_side
from seatrial.env.client import Client
from seatrial.env.evaluation_options import USUAL_RETRIES, Callback
from seatrial.env.grouping import Groups, RowWork
from seatrial.env.hooks import settled
from seatrial.env.leases import OpenPolicy
from seatrial.env.metadata import LateMetadata, summarize
from seatrial.env.results import Output, Results
from seatrial.env.rows import Row
from seatrial.env.run_row import RowPlan
from seatrial.env.saving import OutputStore, keep_metadata, open_outputs

if TYPE_CHECKING:
    from seatrial.env.environment import Environment

USUAL_CONCURRENT = 32

Produced = Callable[[RowWork, Output], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What is to be rolled out, and how. Without a positive `max_concurrent` it is the usual number.

    `retries` is for rollouts that are trials, `row_retries` for others. Those of one example are a group, or all of
    them are `one_group`; with `in_groups` a group is scored together. `order` is the seed that the rows were shuffled
    with.
    """

    rows: Sequence[Row]
    model: str
    sampling_args: Mapping[str, Any]
    max_concurrent: int = -1
    state_columns: tuple[str, ...] = ()
    save_to: Path | None = None
    resume: bool = False
    retries: int = USUAL_RETRIES
    engine: str = "local"
    address: str | None = None
    row_retries: int = 0
    in_groups: bool = False
    one_group: bool = False
    order: int | None = None
    base_url: str = ""
    on_start: Callback | None = None
    listeners: tuple[Callback, ...] = ()
    on_log: Callback | None = None

    @property
    def workers(self) -> int:
        """How many rollouts run at once."""
        return self.max_concurrent if self.max_concurrent > 0 else USUAL_CONCURRENT

    def work(self) -> list[RowWork]:
        """The rows with their places and groups."""
        return [
            RowWork(number, 0 if self.one_group else row["example_id"], row) for number, row in enumerate(self.rows)
        ]

    def row_plan(self, client: Client | OpenPolicy) -> RowPlan:
        """How each of the rows is rolled out."""
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
            await settled(listener(ended, new, made))

    async def produced(work: RowWork, output: Output, store: OutputStore) -> None:
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
        workers = min(plan.workers, len(plan.rows))
        try:
            await produce_all(store, work, workers, lambda each, output: produced(each, output, store))
        finally:
            await finish(groups.close())
    done = [outputs[number] for number in sorted(outputs)]
    metadata = summarize(done, plan, environment, started)
    if plan.save_to is not None and not environment.rollouts_are_trials:
        keep_metadata(plan.save_to, metadata)
    return {"outputs": done, "metadata": metadata}


async def _announce(plan: RunPlan) -> None:
    if plan.on_start is not None:
        await settled(plan.on_start(list(plan.rows), list(plan.rows)))
    if plan.on_log is not None and plan.save_to is not None:
        await settled(plan.on_log(f"rollouts are kept in {plan.save_to}"))


async def produce_all(
    store: OutputStore, work: Iterable[RowWork], workers: int, produced: Produced, room: asyncio.Semaphore | None = None
) -> None:
    """Have the rows rolled out by some workers, each taking the next one when it is done with another.

    With `room`, each takes up a place of it before it is begun; whoever takes the output gives that back.
    """
    due = iter(work)

    async def take() -> None:
        while True:
            if room is not None:
                await room.acquire()
            each = next(due, None)
            if each is None:
                break
            await produced(each, await store.produce(each.row))
        if room is not None:
            room.release()

    await side_by_side(take, workers)


@asynccontextmanager
async def open_store(environment: "Environment", plan: RunPlan, row_plan: RowPlan) -> AsyncIterator[OutputStore]:
    """What rollouts of a plan need, and where their outputs go, for the length of a block. Raises UsageError."""
    async with _in_use(environment, plan), open_outputs(environment, plan, row_plan) as store:
        yield store


def _in_use(environment: "Environment", plan: RunPlan) -> AbstractAsyncContextManager[object]:
    """What the rollouts share on this machine, if they run here."""
    return environment.in_use() if plan.engine == "local" else nullcontext()
