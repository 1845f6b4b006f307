"""Jobs that were never on a disk: trials as an index has them, for tests of what analyses make of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seatrial.analysis.loaded import LoadedJob
from seatrial.model.job import AgentOptions, JobFile, LockedTask, TaskLabels
from seatrial.model.outcome import Outcome
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore
from tests.jobs.samples import DIGEST, job_file


def trial(task: str, agent: str, reward: float | None, attempt: int = 1, **more: Any) -> TrialEntry:
    """A trial of two seconds: passed with a reward of 1, failed with 0, and broken with none."""
    outcome: Outcome = "partial"
    if reward is None:
        outcome = "infrastructure_error"
    elif reward in (0.0, 1.0):
        outcome = "pass" if reward else "fail"
    values: dict[str, Any] = {
        "trial_id": f"{task}.{agent}.{attempt}",
        "task_id": task,
        "agent": agent,
        "attempt": attempt,
        "outcome": outcome,
        "reward": reward,
        "tries": 1,
        "duration_sec": 2.0,
        "started_at": None,
        "failure": "SandboxError: no space left" if reward is None else None,
    }
    return TrialEntry(**{**values, **more})


def memory_job(
    trials: Sequence[TrialEntry],
    *,
    labels: Mapping[str, TaskLabels] | None = None,
    untried: Sequence[str] = (),
    agents: Sequence[AgentOptions] = (),
    **spec: Any,
) -> LoadedJob:
    """A job with these trials, of the tasks and agents that they name, and of tasks that nobody has tried."""
    names = dict.fromkeys([*(each.task_id for each in trials), *untried])
    tasks = tuple(
        LockedTask(id=name, name=name, root=f"/tasks/{name}", digest=DIGEST, labels=(labels or {}).get(name, _PLAIN))
        for name in names
    )
    named = tuple(agents) or tuple(AgentOptions(name=name) for name in dict.fromkeys(each.agent for each in trials))
    file: JobFile = job_file((), **{**spec, "agents": named or (AgentOptions(name="noop"),)})
    file = file.model_copy(update={"tasks": tasks})
    return LoadedJob(JobStore(Path("/jobs") / file.spec.name, file, b""), tuple(trials), ())


_PLAIN = TaskLabels()
