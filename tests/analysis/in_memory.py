"""Loaded jobs that were never on a disk: what an analysis makes of trials, without the writing of records."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seatrial.analysis.arms import Arm, arms_of
from seatrial.analysis.loaded import LoadedJob
from seatrial.model.job import AgentOptions, JobFile, JobSpec, LockedTask, TaskLabels
from seatrial.model.outcome import Outcome
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore
from tests.cli.job_folders import BEGUN, DIGEST

Rewards = Mapping[str, Sequence[float | None]]
"""The rewards of each task, one for each attempt; None for a trial that could not be run."""


def entry(task: str, reward: float | None, agent: str = "oracle", attempt: int = 1, **more: Any) -> TrialEntry:
    """A finished trial."""
    outcome: Outcome = "fail" if reward == 0.0 else "partial"
    if reward is None or reward >= 1.0:
        outcome = "infrastructure_error" if reward is None else "pass"
    return TrialEntry(
        f"{task}.{agent}.{attempt}", task, agent, attempt, outcome, reward, 1, 2.0, None, None, **more
    )  # fmt: skip


def entries(rewards: Rewards, agent: str = "oracle", **more: Any) -> list[TrialEntry]:
    """The trials of one agent."""
    return [
        entry(task, reward, agent, attempt, **more)
        for task, attempts in rewards.items()
        for attempt, reward in enumerate(attempts, start=1)
    ]


def job(name: str, trials: Sequence[TrialEntry], **changes: Any) -> LoadedJob:
    """A job with these trials; `agents`, `labels`, `digests` and `version` may be given, and whatever a spec has."""
    labels, digests = changes.pop("labels", {}), changes.pop("digests", {})
    version = changes.pop("version", "1")
    ids = changes.pop("tasks", None) or list(dict.fromkeys(trial.task_id for trial in trials))
    agents = tuple(AgentOptions(name=name) for name in dict.fromkeys(trial.agent for trial in trials))
    spec = {"name": name, "tasks": ("/tasks",), "agents": agents or (AgentOptions(name="oracle"),), **changes}
    locked = tuple(
        LockedTask(
            id=task,
            name=task,
            root=f"/tasks/{task}",
            digest=digests.get(task, DIGEST),
            labels=labels.get(task, TaskLabels()),
        )
        for task in ids
    )
    file = JobFile(seatrial_version=version, created_at=BEGUN, spec=JobSpec(**spec), tasks=locked)
    return LoadedJob(JobStore(Path("/jobs") / name, file, b""), tuple(trials), (), finished=len(trials))


def arms(first: LoadedJob, second: LoadedJob) -> tuple[Arm, Arm]:
    """The only agents of two jobs."""
    one, other = arms_of([first, second])
    return one, other
