"""The trials around one: the one before and after it in its job, and all others at the same task."""

from bisect import bisect_left
from dataclasses import dataclass

from seatrial.analysis.loaded import LoadedJob
from seatrial.report.text import format_reward, trial_row
from seatrial.store.index import TrialEntry
from seatrial.view.trial.opened import OpenedTrial

MOST_ATTEMPTS = 50
"""Of one agent that are shown; a benchmark has some ten."""


@dataclass(frozen=True, slots=True)
class OtherAttempt:
    """Another trial at the same task, or this one."""

    trial_id: str
    attempt: int
    outcome: str
    reward: str
    told: str
    is_shown: bool


@dataclass(frozen=True, slots=True)
class AgentAttempts:
    """All attempts of an agent at a task; `left_out` of them are too many to be shown."""

    agent: str
    attempts: tuple[OtherAttempt, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Who comes before and after a trial, `place` of `count`, and who else tried its task."""

    before: str | None
    after: str | None
    place: int
    count: int
    same_task: tuple[AgentAttempts, ...]


def neighbours_of(trial: OpenedTrial) -> Neighbours:
    """The trials around one, in the order of the job's ids."""
    ids = [each.trial_id for each in trial.job.trials]
    at = bisect_left(ids, trial.trial_id)
    counts = at < len(ids) and ids[at] == trial.trial_id
    later = at + 1 if counts else at
    return Neighbours(
        before=ids[at - 1] if at else None,
        after=ids[later] if later < len(ids) else None,
        place=at + 1,
        count=len(ids),
        same_task=_same_task(trial),
    )


def _same_task(trial: OpenedTrial) -> tuple[AgentAttempts, ...]:
    if trial.record is None:
        return ()
    task = trial.record.task.id
    found = [each for each in trial.job.trials if each.task_id == task]
    return tuple(
        _attempts(agent, [each for each in found if each.agent == agent], trial.trial_id)
        for agent in _agents(trial.job, found)
    )


def _agents(job: LoadedJob, found: list[TrialEntry]) -> list[str]:
    """In the order of the job, those that have tried the task."""
    tried = {each.agent for each in found}
    known = [agent.title for agent in job.file.spec.agents if agent.title in tried]
    return [*known, *sorted(tried - set(known))]


def _attempts(agent: str, trials: list[TrialEntry], shown: str) -> AgentAttempts:
    ordered = sorted(trials, key=lambda each: each.attempt)
    kept = [each for number, each in enumerate(ordered) if number < MOST_ATTEMPTS or each.trial_id == shown]
    made = tuple(_attempt(each, shown) for each in kept)
    return AgentAttempts(agent, made, len(ordered) - len(kept))


def _attempt(entry: TrialEntry, shown: str) -> OtherAttempt:
    name, outcome, reward, time = trial_row(entry)
    told = f"{name}: {outcome}, reward {reward}, {time}"
    is_shown = entry.trial_id == shown
    return OtherAttempt(entry.trial_id, entry.attempt, entry.outcome, format_reward(entry.reward), told, is_shown)
