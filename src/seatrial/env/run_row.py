"""One row of a dataset rolled out, scored, and made into an output: in this process, or in one it was sent to.

Everything that goes in and comes out can be pickled as far as its author's own values can. Groups hold outputs back
until the rollouts of one row can be scored and compared together. `running` has many rows rolled out.
"""

import logging
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from seatrial.concurrency import finish
from seatrial.env.client import ClientLease, OpenPolicy
from seatrial.env.hooks import blaming, maybe_await
from seatrial.env.results import NEEDED, Output, make_output
from seatrial.env.rollout import ROLLOUT, Rollout, RolloutPlace, State, as_step, new_state, rollout_of
from seatrial.env.rows import Row
from seatrial.env.rubric import as_reward, set_error
from seatrial.errors import HookError, RewardError, SeatrialError, TrialError

if TYPE_CHECKING:
    from seatrial.env.environment import Environment
    from seatrial.model.record import TrialRecord

_UNJUDGED = "the rollout was not judged: an override of post_rollout calls that of its base"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How a row is rolled out."""

    client: Any
    """Open, or whatever `evaluate` takes."""
    model: str
    sampling_args: Mapping[str, Any]
    state_columns: tuple[str, ...] = ()
    place: RolloutPlace | None = None
    """That of a trial."""
    retries: int = 0
    """How often a rollout that is not a trial is tried again when the machinery failed."""
    scoring: Literal["each", "group"] = "each"
    states: dict[str, State] | None = None
    """What rollouts that are scored as a group leave behind, by their trajectory ids, for who scores them. Where there
    is no room for states, as on another machine, they are scored by their outputs."""


class RowResult(NamedTuple):
    """What has become of a row. A rollout that was given the place of a trial has a `record`, whatever happened."""

    output: Output
    record: "TrialRecord | None" = None


async def run_row(environment: "Environment", row: Row, plan: RowPlan) -> RowResult:
    """Roll out a row, and score it unless it came to nothing or its group is scored.

    The files of a trial are in the folder of its place then. Only cancellation comes out of it.
    """
    if plan.place is not None:
        row = {**row, ROLLOUT: Rollout(plan.place)}
    try:
        async with _leased(plan) as lease:
            began = time.perf_counter()
            try:
                with blaming("rollout"):
                    state = await environment.rollout(row, lease.client, lease.model, plan.sampling_args)
                    state = _whole(state, row, plan)
            except SeatrialError as error:
                state = _failed(row, plan, error)
            await _score_or_keep(environment, state, plan)
            state["timing"].update(total_ms=(time.perf_counter() - began) * 1000)
            if isinstance(plan.client, OpenPolicy):
                state["policy_version"] = lease.version
    except SeatrialError as error:  # the client that was swapped in is none
        state = _failed(row, plan, error)
    rollout = rollout_of(state)
    if rollout.record is None and plan.place is not None:
        from seatrial.trial.log import failed_record  # noqa: PLC0415 - much, and only for those who have tasks

        rollout.record = failed_record(plan.place.spec, state["error"] or HookError(_UNJUDGED))
    return RowResult(make_output(state, plan.state_columns), rollout.record)


def _leased(plan: RowPlan) -> AbstractAsyncContextManager[ClientLease]:
    if isinstance(plan.client, OpenPolicy):
        return plan.client.lease(plan.model)
    return nullcontext(ClientLease(plan.client, plan.model))


async def _score_or_keep(environment: "Environment", state: State, plan: RowPlan) -> None:
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


def failed_row(row: Row, plan: RowPlan, error: SeatrialError) -> Output:
    return make_output(_failed(row, plan, error), plan.state_columns)


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
            await maybe_await(cleanup(state))
    except SeatrialError as error:
        _log.warning("rollout of %s: %s", state["task"], error, exc_info=error.__cause__)
        state["cleanup_errors"] = [*state["cleanup_errors"], str(error)]


# Groups: the rollouts of one row. Each runs on its own; when the last one has ended, the group is scored, so that it
# needs no more room than its rollouts, and one that fails takes no other with it.


class RowWork(NamedTuple):
    """A row to roll out: its place among all, and the group that it is of."""

    number: int
    group: Hashable
    row: Row


Done = tuple[RowWork, Output]


@dataclass(eq=False, slots=True)
class Groups:
    """Holds outputs back until their group is whole."""

    environment: "Environment"
    plan: RowPlan
    size_of: Callable[[Hashable], int]
    """How many outputs a group has."""
    _waiting: dict[Hashable, list[Done]] = field(default_factory=dict)

    async def add(self, work: RowWork, output: Output) -> list[Done]:
        """The outputs of a group that is whole now, scored and in their order; none while one is missing."""
        waiting = self._waiting.setdefault(work.group, [])
        waiting.append((work, output))
        if len(waiting) < self.size_of(work.group):
            return []
        done = sorted(self._waiting.pop(work.group), key=lambda each: each[0].number)
        if self.plan.scoring == "group" and not all(self._is_settled(output) for _, output in done):
            done = await self._score(done)
        compare([output for _, output in done])
        return done

    async def _score(self, done: Sequence[Done]) -> list[Done]:
        states = [self._state(output) for _, output in done]
        judged = [state for state in states if state["error"] is None]
        try:
            with blaming("scoring", RewardError):
                if judged and self.environment.score_rollouts:
                    await self.environment.rubric.score_group(judged)
                for state in judged:
                    if state["reward"] is not None:
                        state["reward"] = as_reward(state["reward"])
        except SeatrialError as error:
            _log.warning("the rollouts of %s were not scored: %s", judged[0]["task"], error)
            for state in judged:
                set_error(state, state["error"] or error)
        for state in judged:
            await self._release(state)
        return [(work, _rescored(output, state, self.plan)) for (work, output), state in zip(done, states, strict=True)]

    async def _release(self, state: State) -> None:
        await release_rubric(self.environment, state)
        await give_back(state)
        (self.plan.states or {}).pop(state["trajectory_id"], None)

    async def close(self) -> None:
        """Give back what is held for rollouts whose group did not come to be scored."""
        for state in [*(self.plan.states or {}).values()]:
            await self._release(state)

    def _is_settled(self, output: Output) -> bool:
        """Whether a rollout was kept with what its group had made of it. Scoring it again might need what is gone."""
        if output["trajectory_id"] in (self.plan.states or {}):
            return False
        return output["error"] is not None or output["advantage"] is not None

    def _state(self, output: Output) -> State:
        """The state of a rollout; made of what is known of it where it was rolled out elsewhere, or some time ago."""
        kept = (self.plan.states or {}).get(output["trajectory_id"])
        if kept is not None:
            return kept
        known = {name: value for name, value in output.items() if name != ROLLOUT}
        state = State({**new_state(known, self.plan.model, self.plan.sampling_args), **known})
        state["error"] = None if output["error"] is None else TrialError(output["error"]["message"])
        return state


def _rescored(output: Output, state: State, plan: RowPlan) -> Output:
    """An output with what its group has made of it."""
    made = make_output(state, plan.state_columns)
    changed = ("reward", "advantage", "metrics", "reward_errors", "timing", *(state["metrics"] or ()))
    if output["error"] is None and made["error"] is not None:
        changed = (*changed, "error")
    return {**output, **{name: made[name] for name in changed if name in made}}


def compare(outputs: Sequence[Output]) -> None:
    """Set what each scored rollout of a group is worth beside the others, where the rubric has not: its `advantage`.

    That is its reward without the mean reward of those that were scored. Turns without an advantage and a reward of
    their own have those of their rollout.
    """
    scored = [output for output in outputs if output["reward"] is not None]
    mean = fmean(output["reward"] for output in scored) if scored else 0.0
    for output in scored:
        if output["advantage"] is None:
            output["advantage"] = output["reward"] - mean
        for step in output["trajectory"]:
            if step["reward"] is None:
                step["reward"] = output["reward"]
            if step["advantage"] is None:
                step["advantage"] = output["advantage"]
