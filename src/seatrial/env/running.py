"""Many rollouts of one environment side by side: each on its own, each with an output, in the order of their rows."""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.concurrency import side_by_side
from seatrial.env.client import Client
from seatrial.env.results import Output, Results, summarize
from seatrial.env.rows import Row
from seatrial.env.run_row import RowPlan
from seatrial.env.saving import OutputStore, open_outputs

if TYPE_CHECKING:
    from seatrial.env.environment import Environment

USUAL_CONCURRENT = 32
USUAL_RETRIES = 2
"""As for jobs: RunOptions.retries."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What is to be rolled out, and how. Without a positive `max_concurrent` it is the usual number."""

    rows: list[Row]
    model: str
    sampling_args: Mapping[str, Any]
    max_concurrent: int = -1
    state_columns: tuple[str, ...] = ()
    save_to: Path | None = None
    resume: bool = False
    retries: int = USUAL_RETRIES
    engine: str = "local"
    address: str | None = None

    @property
    def workers(self) -> int:
        """How many rollouts run at once."""
        return self.max_concurrent if self.max_concurrent > 0 else USUAL_CONCURRENT


async def run_rollouts(environment: "Environment", plan: RunPlan, client: Client) -> Results:
    """Roll out all rows of a plan. Only cancellation, StoreError and, before the first rollout, UsageError come out."""
    started = time.time()
    outputs: dict[int, Output] = {}
    row_plan = RowPlan(client, plan.model, plan.sampling_args, plan.state_columns)

    async def work(queue: Iterator[tuple[int, Row]], store: OutputStore) -> None:
        for number, row in queue:
            outputs[number] = await store.produce(row)

    async with _in_use(environment, plan), open_outputs(environment, plan, row_plan) as store:
        due = iter(enumerate(plan.rows))
        await side_by_side(lambda: work(due, store), min(plan.workers, len(plan.rows)))
    done = [outputs[number] for number in sorted(outputs)]
    return {"outputs": done, "metadata": summarize(done, plan, environment.env_id, started)}


def _in_use(environment: "Environment", plan: RunPlan) -> AbstractAsyncContextManager[object]:
    """What the rollouts share on this machine, if they run here."""
    return environment.in_use() if plan.engine == "local" else nullcontext()
