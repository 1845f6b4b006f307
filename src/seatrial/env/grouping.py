"""Groups: the rollouts of one row, scored side by side where the rubric wants that, and compared with each other.

Each rollout runs on its own. When the last one of a group has ended, the group is scored, so that a group needs no more
room than its rollouts, and one that fails takes no other with it.
"""

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Protocol, cast

from seatrial.env.group_scoring import set_error
from seatrial.env.hooks import blaming
from seatrial.env.results import Output, make_output
from seatrial.env.rollout import ROLLOUT
from seatrial.env.rows import Row
from seatrial.env.rubric import as_reward
from seatrial.env.run_row import RowPlan, give_back, release_rubric
from seatrial.env.state import State, new_state
from seatrial.errors import RewardError, SeatrialError, TrialError

if TYPE_CHECKING:
    from seatrial.env.environment import Environment

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RowWork:
    """A row to roll out: its place among all, and the group that it is of."""

    number: int
    group: Hashable
    row: Row


Done = tuple[RowWork, Output]


class GroupRubric(Protocol):
    """A rubric that scores several states side by side."""

    async def score_group(self, states: list[State]) -> None:
        """Set `reward`, `metrics` and `advantage` of each state without an error."""
        ...


@dataclass(eq=False, slots=True)
class Groups:
    """Holds outputs back until their group is whole; `size_of` says how many a group has."""

    environment: "Environment"
    plan: RowPlan
    size_of: Callable[[Hashable], int]
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
                    await cast("GroupRubric", self.environment.rubric).score_group(judged)
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
        """Whether a rollout was kept with what its group had made of it. To score it anew might take what is gone."""
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
