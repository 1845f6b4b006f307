"""Which trials a job consists of, and in which order they are begun."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.model.job import AgentOptions, trial_id, trial_stem

__all__ = ["TrialPlan", "plan_trials", "trial_id"]


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """One attempt of one agent at one task, to be done."""

    trial_id: str
    task_id: str
    agent: AgentOptions
    attempt: int


def plan_trials(
    task_ids: Sequence[str], agents: Sequence[AgentOptions], attempts: int, shuffle_seed: int | None = None
) -> list[TrialPlan]:
    """Every trial. All first attempts come first, so that a job cut short has seen each task; or shuffled by a seed."""
    pairs = [(task_id, agent, *trial_stem(task_id, agent.title)) for task_id in task_ids for agent in agents]
    plans = [
        TrialPlan(f"{before}{attempt}{after}", task_id, agent, attempt)
        for attempt in range(1, attempts + 1)
        for task_id, agent, before, after in pairs
    ]
    if shuffle_seed is not None:
        random.Random(shuffle_seed).shuffle(plans)  # noqa: S311 - an order, not a secret
    return plans
