"""One row of a dataset rolled out, scored, and made into an output: in this process, or in one it was sent to.

Everything that goes in and comes out can be pickled as far as its author's own values can.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from seatrial.concurrency import finish
from seatrial.env.hooks import blaming, settled
from seatrial.env.leases import ClientLease, OpenPolicy
from seatrial.env.results import NEEDED, Output, make_output
from seatrial.env.rollout import ROLLOUT, Rollout, RolloutPlace
from seatrial.env.rows import Row
from seatrial.env.rubric import as_reward
from seatrial.env.state import State, new_state, rollout_of
from seatrial.env.trajectory import as_step
from seatrial.errors import HookError, RewardError, SeatrialError

if TYPE_CHECKING:
    from seatrial.env.environment import Environment
    from seatrial.model.record import TrialRecord

_UNJUDGED = "the rollout was not judged: an override of post_rollout calls that of its base"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How a row is rolled out. `client` is open, or whatever `evaluate` takes; `place` is that of a trial.

    Rollouts that are no trials are tried again `retries` times when the machinery failed. Those that are scored as a
    group leave their `states` behind, by their trajectory ids, for who scores them; where there is no room for states,
    as on another machine, they are scored by their outputs.
    """

    client: Any
    model: str
    sampling_args: Mapping[str, Any]
    state_columns: tuple[str, ...] = ()
    place: RolloutPlace | None = None
    retries: int = 0
    scoring: Literal["each", "group"] = "each"
    states: dict[str, State] | None = None


@dataclass(frozen=True, slots=True)
class RowResult:
    """What has become of a row. A rollout that was given the place of a trial has a `record`, whatever happened."""

    output: Output
    record: "TrialRecord | None" = None


async def run_row(environment: "Environment", row: Row, plan: RowPlan) -> RowResult:
    """Roll out a row; the files of a trial are in the folder of its place then. Only cancellation comes out of it."""
    state = await _lead(environment, {**row, ROLLOUT: Rollout(plan.place)} if plan.place else row, plan)
    rollout = rollout_of(state)
    if rollout.record is None and plan.place is not None:
        from seatrial.trial.log import failed_record  # noqa: PLC0415 - much, and only for those who have tasks

        rollout.record = failed_record(plan.place.spec, state["error"] or HookError(_UNJUDGED))
    return RowResult(make_output(state, plan.state_columns), rollout.record)


def failed_row(row: Row, plan: RowPlan, error: SeatrialError) -> Output:
    """The output of a row that could not be rolled out at all."""
    return make_output(_failed(row, plan, error), plan.state_columns)


async def _lead(environment: "Environment", row: Row, plan: RowPlan) -> State:
    """One rollout by the client that the plan has just now."""
    if not isinstance(plan.client, OpenPolicy):
        return await _roll_out(environment, row, plan, ClientLease(plan.client, plan.model))
    try:
        async with plan.client.lease(plan.model) as lease:
            state = await _roll_out(environment, row, plan, lease)
            state["policy_version"] = lease.version
    except SeatrialError as error:  # the client that was swapped in is none
        state = _failed(row, plan, error)
    return state


async def _roll_out(environment: "Environment", row: Row, plan: RowPlan, lease: ClientLease) -> State:
    """One rollout, scored unless it came to nothing or its group is."""
    began = time.perf_counter()
    try:
        with blaming("rollout"):
            state = _whole(await environment.rollout(row, lease.client, lease.model, plan.sampling_args), row, plan)
    except SeatrialError as error:
        state = _failed(row, plan, error)
    if plan.states is not None and state["error"] is None:
        plan.states[state["trajectory_id"]] = state
    else:
        try:
            if plan.scoring == "each" and state["error"] is None:
                await _score(environment, state)
        finally:
            await give_back(state)
    if state["error"] is not None:
        _log.warning("rollout of %s came to nothing: %s", state["task"], state["error"])
    state["timing"].update(total_ms=(time.perf_counter() - began) * 1000)
    return state


async def give_back(state: State) -> None:
    """Destroy the sandbox that was kept for those who score, if one was. What goes wrong is on the state."""
    rollout = rollout_of(state)
    if not rollout.kept:
        return
    try:
        with blaming("destroying the sandbox"):
            await finish(rollout.resources.aclose())
    except SeatrialError as error:
        _log.warning("rollout of %s: %s", state.get("task"), error)
        state["cleanup_errors"].append(str(error))


def _failed(row: Row, plan: RowPlan, error: SeatrialError) -> State:
    try:
        state = new_state(row, plan.model, plan.sampling_args)
    except Exception:  # noqa: BLE001 - a row that no state can be made of, which is what the error says
        known: Row = {name: row[name] for name in ("example_id", "task") if name in row}
        state = new_state(known, plan.model, plan.sampling_args)
    state["error"] = error
    return state


def _whole(state: State, row: Row, plan: RowPlan) -> State:
    """A state with all that an output needs, whatever hooks have done to it. Raises TypeError for what is none."""
    usual = state if state.keys() >= NEEDED else State({**new_state(row, plan.model, plan.sampling_args), **state})
    if not isinstance(usual["timing"], dict):
        raise TypeError(f"the state's timing is {usual['timing']!r}, expected a table")
    usual["trajectory"] = [as_step(step) for step in usual["trajectory"]]
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
    await release_rubric(environment, state)
    state["timing"].update(scoring_ms=(time.perf_counter() - began) * 1000)


async def release_rubric(environment: "Environment", state: State) -> None:
    """Let the rubric give back what it holds for a rollout; what goes wrong with that is on the state."""
    cleanup = getattr(environment.rubric, "cleanup", None)
    if cleanup is None:
        return
    try:
        with blaming("cleanup of the rubric"):
            await settled(cleanup(state))
    except SeatrialError as error:
        _log.warning("rollout of %s: %s", state["task"], error, exc_info=error.__cause__)
        state["cleanup_errors"] = [*state["cleanup_errors"], str(error)]
