"""Which trials a job wants, and whether a record is the one of a trial of this job.

A job's folder is a folder: records are copied, renamed and brought from elsewhere. One that was not made by this job
for this trial says nothing about it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from seatrial.model.job import JobFile
from seatrial.model.record import TrialRecord
from seatrial.model.trial_ids import trial_id, trial_stem


@dataclass(frozen=True, slots=True)
class _Wanted:
    digest: str
    attempt: int


class Roster:
    """The trials that a job's file amounts to."""

    def __init__(self, file: JobFile) -> None:
        self._file = file
        without = {(entry.task, entry.agent) for entry in file.left_out}
        self._agents = tuple(agent.title for agent in file.spec.agents)
        self._attempts = file.spec.attempts
        every = ((task, agent) for task in file.tasks for agent in self._agents)
        self._pairs = {(task.id, agent): task.digest for task, agent in every if (task.id, agent) not in without}

    def has(self, task: str, agent: str, attempt: int) -> bool:
        """Whether the job wants this attempt of an agent at a task."""
        return attempt <= self._attempts and (task, agent) in self._pairs

    def wants(self, name: str) -> bool:
        """Whether the job wants a trial of this id."""
        return name in self._wanted

    def agent_of(self, record: TrialRecord) -> str:
        """What the job calls the record's agent: records know its name, only the job tells two of a name apart."""
        if len(self._agents) == 1:
            return self._agents[0]
        ids = (title for title in self._agents if trial_id(record.task.id, title, record.attempt) == record.trial_id)
        return next(ids, record.agent.name)

    def objection(self, record: TrialRecord, name: str) -> str | None:
        """Why a record is not that of the trial of this id, in a few words; None when it is."""
        wanted = self._wanted.get(name)
        if record.trial_id != name:
            return f"it holds the record of another trial, {record.trial_id}"
        if not self._made_here(record):
            return f"its record was made by another job ({record.job or 'it has no name'})"
        if wanted is None:
            return "the job wants no trial of this name"
        if record.task.digest != wanted.digest:
            found, expected = record.task.digest[:12], wanted.digest[:12]
            return f"its record is of another content of the task (digest {found}, the job has {expected})"
        if record.attempt != wanted.attempt:
            return f"its record is of attempt {record.attempt}, expected {wanted.attempt}"
        return None

    def _made_here(self, record: TrialRecord) -> bool:
        named = record.job is None or record.job == self._file.spec.name
        return named and (self._file.id is None or record.job_id == self._file.id)

    @cached_property
    def _wanted(self) -> Mapping[str, _Wanted]:
        return {
            f"{before}{attempt}{after}": _Wanted(digest, attempt)
            for (task, agent), digest in self._pairs.items()
            for before, after in (trial_stem(task, agent),)
            for attempt in range(1, self._attempts + 1)
        }
