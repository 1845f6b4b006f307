"""What is known from stored jobs: every attempt of a real agent, by the content of its task."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial.model.record import NEVER_RAN, SCORED_OUTCOMES, Outcome
from seatrial.store.job_store import JobStore

_NOT_REAL = frozenset({"oracle", "noop"})


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """One attempt of an agent at a task, which is known by its digest."""

    task: str
    agent: str
    outcome: Outcome
    reward: float | None

    @property
    def is_scored(self) -> bool:
        """Whether it was really judged."""
        return self.outcome in SCORED_OUTCOMES and self.reward is not None


@dataclass(frozen=True, slots=True)
class PastRuns:
    """The attempts of some jobs, by the digests of their tasks; `jobs` is how a user calls them."""

    attempts: Mapping[str, Sequence[PastAttempt]]
    jobs: tuple[str, ...] = ()

    def at(self, task: str) -> Sequence[PastAttempt]:
        """The attempts at exactly this content of a task."""
        return self.attempts.get(task, ())

    def rewards_elsewhere(self, task: str, agent: str) -> list[float]:
        """What an agent got for all other tasks."""
        others = (each for digest, attempts in self.attempts.items() if digest != task for each in attempts)
        return rewards(each for each in others if each.agent == agent)


def rewards(attempts: Iterable[PastAttempt]) -> list[float]:
    """The rewards of those attempts that were judged."""
    return [each.reward for each in attempts if each.is_scored and each.reward is not None]


def collect(attempts: Iterable[PastAttempt], jobs: Sequence[str] = ()) -> PastRuns:
    """Attempts by their tasks."""
    found: dict[str, list[PastAttempt]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.task].append(attempt)
    return PastRuns(found, tuple(jobs))


def read_runs(folders: Sequence[Path]) -> PastRuns:
    """The attempts that are stored in the folders of some jobs. Raises JobError where one is no job."""
    stores = [JobStore.open(folder) for folder in folders]
    return collect((each for store in stores for each in _attempts(store)), [str(folder) for folder in folders])


def _attempts(store: JobStore) -> Iterator[PastAttempt]:
    """All attempts of a job, without those of the solution, of nobody, and of agents that never really ran."""
    digests = {task.id: task.digest for task in store.file.tasks}
    unreal = {agent.title for agent in store.file.spec.agents if agent.name in _NOT_REAL}
    for entry in store.entries():
        if entry.agent not in unreal and entry.task_id in digests and not NEVER_RAN & set(entry.warnings):
            yield PastAttempt(digests[entry.task_id], entry.agent, entry.outcome, entry.reward)
