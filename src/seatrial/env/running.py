"""Many rollouts of one environment side by side: each on its own, each with an output, in the order of their rows."""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.env.client import Client
from seatrial.env.hooks import blaming
from seatrial.env.results import Output, Results, make_output, summarize
from seatrial.env.rows import Row
from seatrial.env.state import State, new_state
from seatrial.errors import RewardError, SeatrialError

if TYPE_CHECKING:
    from seatrial.env.environment import Environment

USUAL_CONCURRENT = 32

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What is to be rolled out, and how. A negative `max_concurrent` means the usual number."""

    rows: list[Row]
    model: str
    sampling_args: Mapping[str, Any]
    max_concurrent: int = -1
    state_columns: tuple[str, ...] = ()
    save_to: Path | None = None
    resume: bool = False


async def run_rollouts(environment: "Environment", plan: RunPlan, client: Client) -> Results:
    """Roll out all rows of a plan. Only cancellation and StoreError come out of it."""
    started = time.time()
    outputs: list[Output | None] = [None] * len(plan.rows)
    due = iter(enumerate(plan.rows))
    workers = USUAL_CONCURRENT if plan.max_concurrent < 0 else max(1, plan.max_concurrent)

    async def work(queue: Iterator[tuple[int, Row]]) -> None:
        for number, row in queue:
            state = await run_rollout(environment, row, plan, client)
            outputs[number] = make_output(state, plan.state_columns)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(workers, len(plan.rows))):
            group.create_task(work(due))
    done = [output for output in outputs if output is not None]
    return {"outputs": done, "metadata": summarize(done, plan, environment.env_id, started)}


async def run_rollout(environment: "Environment", row: Row, plan: RunPlan, client: Client) -> State:
    """One rollout, scored unless it came to nothing."""
    began = time.perf_counter()
    try:
        with blaming("rollout"):
            state = await environment.rollout(row, client, plan.model, plan.sampling_args)
    except SeatrialError as error:
        state = new_state(row, plan.model, plan.sampling_args)
        state["error"] = error
    if state["error"] is None and environment.score_rollouts:
        await _score(environment, state)
    if state["error"] is not None:
        _log.warning("rollout of %s came to nothing: %s", state["task"], state["error"])
    state["timing"]["total_ms"] = (time.perf_counter() - began) * 1000
    return state


async def _score(environment: "Environment", state: State) -> None:
    began = time.perf_counter()
    try:
        with blaming("scoring", RewardError):
            await environment.rubric.score_rollout(state)
    except SeatrialError as error:
        state["error"], state["reward"] = error, None
    state["timing"]["scoring_ms"] += (time.perf_counter() - began) * 1000
