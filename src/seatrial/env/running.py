"""Many rollouts of one environment side by side: each on its own, each with an output, in the order of their rows."""

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.concurrency import side_by_side
from seatrial.env.client import Client
from seatrial.env.hooks import blaming
from seatrial.env.results import NEEDED, Output, Results, summarize
from seatrial.env.rows import Row
from seatrial.env.rubric import as_reward
from seatrial.env.saving import OutputStore, open_outputs
from seatrial.env.state import State, new_state
from seatrial.errors import RewardError, SeatrialError

if TYPE_CHECKING:
    from seatrial.env.environment import Environment

USUAL_CONCURRENT = 32

_log = logging.getLogger(__name__)


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


async def run_rollouts(environment: "Environment", plan: RunPlan, client: Client) -> Results:
    """Roll out all rows of a plan. Only cancellation and StoreError come out of it."""
    started = time.time()
    outputs: dict[int, Output] = {}
    workers = plan.max_concurrent if plan.max_concurrent > 0 else USUAL_CONCURRENT

    async def work(queue: Iterator[tuple[int, Row]], store: OutputStore) -> None:
        for number, row in queue:
            outputs[number] = await store.produce(row, lambda row: run_rollout(environment, row, plan, client))

    async with open_outputs(environment, plan) as store:
        due = iter(enumerate(plan.rows))
        await side_by_side(lambda: work(due, store), min(workers, len(plan.rows)))
    done = [outputs[number] for number in sorted(outputs)]
    return {"outputs": done, "metadata": summarize(done, plan, environment.env_id, started)}


async def run_rollout(environment: "Environment", row: Row, plan: RunPlan, client: Client) -> State:
    """One rollout, scored unless it came to nothing."""
    began = time.perf_counter()
    try:
        with blaming("rollout"):
            state = _whole(await environment.rollout(row, client, plan.model, plan.sampling_args), row, plan)
    except SeatrialError as error:
        state = new_state(row, plan.model, plan.sampling_args)
        state["error"] = error
    if state["error"] is None:
        await _score(environment, state)
    if state["error"] is not None:
        _log.warning("rollout of %s came to nothing: %s", state["task"], state["error"])
    state["timing"].update(total_ms=(time.perf_counter() - began) * 1000)
    return state


def _whole(state: State, row: Row, plan: RunPlan) -> State:
    """A state with all that an output needs, whatever hooks have done to it. Raises TypeError for what is none."""
    usual = state if state.keys() >= NEEDED else State({**new_state(row, plan.model, plan.sampling_args), **state})
    if not isinstance(usual["timing"], dict):
        raise TypeError(f"the state's timing is {usual['timing']!r}, expected a table")
    return usual


async def _score(environment: "Environment", state: State) -> None:
    began = time.perf_counter()
    try:
        with blaming("scoring", RewardError):
            if environment.score_rollouts:
                await environment.rubric.score_rollout(state)
            if state["reward"] is not None:
                state["reward"] = as_reward(state["reward"])
    except SeatrialError as error:
        state["error"], state["reward"] = error, None
    state["timing"].update(scoring_ms=(time.perf_counter() - began) * 1000)
