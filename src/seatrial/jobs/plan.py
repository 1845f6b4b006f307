"""Which trials a job consists of, in which order they are begun, and what was chosen and has none."""

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from seatrial.model.base import trial_stem
from seatrial.model.job import (
    AgentOptions,
    JobFile,
    LeftOut,
)

_NAMED = 3


class TrialPlan(NamedTuple):
    """One attempt of one agent at one task, to be done."""

    trial_id: str
    task_id: str
    agent: AgentOptions
    attempt: int


def plan_trials(
    task_ids: Sequence[str],
    agents: Sequence[AgentOptions],
    attempts: int,
    shuffle_seed: int | None = None,
    *,
    without: Collection[tuple[str, str]] = (),
    finished: Collection[str] = (),
) -> list[TrialPlan]:
    """Every trial. All first attempts come first, so that a job cut short has seen each task; or shuffled by a seed.

    Pairs of task and agent title in `without` have none. Trials whose ids are in `finished` are not among them.
    """
    pairs = [
        (task_id, agent, *trial_stem(task_id, agent.title))
        for task_id in task_ids
        for agent in agents
        if (task_id, agent.title) not in without
    ]
    plans = [
        TrialPlan(name, task_id, agent, attempt)
        for attempt in range(1, attempts + 1)
        for task_id, agent, before, after in pairs
        if (name := f"{before}{attempt}{after}") not in finished
    ]
    if shuffle_seed is not None:
        random.Random(shuffle_seed).shuffle(plans)  # noqa: S311 - an order, not a secret
    return plans


@dataclass(frozen=True, slots=True)
class LeftOutCount:
    """How many tasks have no trials, of one agent or of any, for one reason; with the names of some."""

    kind: Literal["declined", "refused", "unreadable"]
    agent: str | None
    reason: str
    tasks: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        tasks = "1 task" if self.tasks == 1 else f"{self.tasks:,} tasks"
        verb = "refused" if self.kind == "refused" else f"left out for {self.agent}" if self.agent else "left out"
        more = ", …" if self.tasks > len(self.examples) else ""
        return f"{tasks} {verb}: {self.reason} ({', '.join(self.examples)}{more})"


def count_left_out(entries: Iterable[LeftOut]) -> tuple[LeftOutCount, ...]:
    """What was left out by agent and reason, in the order in which they first occur."""
    groups: dict[tuple[str, str | None, str], list[LeftOut]] = {}
    for entry in entries:
        groups.setdefault((entry.kind, entry.agent, entry.reason), []).append(entry)
    return tuple(
        LeftOutCount(first.kind, first.agent, first.reason, len(group), tuple(each.task for each in group[:_NAMED]))
        for group in groups.values()
        for first in group[:1]
    )


def plan_rest(file: JobFile, finished: Collection[str] = ()) -> list[TrialPlan]:
    """All trials of a job but those that are finished."""
    spec = file.spec
    without = {(entry.task, entry.agent) for entry in file.left_out if entry.agent is not None}
    ids = [task.id for task in file.tasks]
    return plan_trials(ids, spec.agents, spec.attempts, spec.run.shuffle_seed, without=without, finished=finished)


def remaining(planned: Sequence[TrialPlan], finished: Collection[str]) -> list[TrialPlan]:
    """The planned trials that have no record yet, in their order."""
    return [plan for plan in planned if plan.trial_id not in finished]
