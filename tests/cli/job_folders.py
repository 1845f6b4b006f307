"""Job folders to show, and an engine whose trials do what a test says instead of running in a sandbox."""

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from seatrial.jobs.api import PreparedJob
from seatrial.jobs.engine import JobOutcome
from seatrial.model.base import trial_id
from seatrial.model.evaluation import ErrorSource, ErrorTag, EvaluationResult, ValidityCheck
from seatrial.model.job import AgentOptions, JobFile, JobSpec, LockedTask
from seatrial.model.record import (
    AgentRef,
    AgentResult,
    ChangeCounts,
    Failure,
    LimitSpec,
    PhaseTime,
    Provenance,
    ResourceUse,
    SandboxRef,
    StepRecord,
    TaskRef,
    TrialRecord,
    VerifierRun,
)
from seatrial.store.job_store import JobStore
from seatrial.trial.events import Observer, PhaseStarted
from seatrial.trial.spec import TrialSpec
from tests.jobs.samples import carry_out_here

DIGEST = "d" * 64
BEGUN = dt.datetime(2026, 5, 1, 12, 0, tzinfo=dt.UTC)
BROKEN = Failure(phase="setup", cause="SandboxError", message="the disk \x1b[31mburns", retryable=False)
FLAKY = BROKEN.model_copy(update={"retryable": True})

Result = float | Failure | str
"""A reward, a failure of the machinery, or the name of what made a trial worth nothing."""


def evaluation(result: float | str) -> EvaluationResult:
    """A reward; or `no_output`, `invalid_output` or `verifier_error`."""
    if isinstance(result, float):
        return EvaluationResult(
            reward=result,
            validity=ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=True),
        )
    judged = result == "verifier_error"
    tag = ErrorTag(category=result, description="so it was", source=ErrorSource.MECHANICAL)
    return EvaluationResult(
        reward=0.0,
        validity=ValidityCheck(
            output_parseable=judged, schema_valid=judged, verifier_completed=not judged, errors=[f"{result}: nothing"]
        ),
        error_taxonomy=[tag],
    )


def record(task: str, result: Result, /, agent: str = "oracle", attempt: int = 1, **more: Any) -> TrialRecord:
    """What a trial of two seconds leaves."""
    times = (PhaseTime(phase="agent", started_at=BEGUN, finished_at=BEGUN + dt.timedelta(seconds=2)),)
    values: dict[str, Any] = {
        "trial_id": trial_id(task, agent, attempt),
        "task": TaskRef(id=task, name=task, digest=DIGEST),
        "agent": AgentRef(name=agent),
        "sandbox": SandboxRef(backend="null", image="host", network="none"),
        "attempt": attempt,
        "times": times,
    }
    ended = {"failure": result} if isinstance(result, Failure) else {"evaluation": evaluation(result)}
    return TrialRecord(**{**values, **ended, **more})


def full_record(task: str) -> TrialRecord:
    """A record with something in each of its corners."""
    run = VerifierRun(
        exit_code=1,
        duration_sec=0.5,
        isolation="guarded",
        survivors=("sleep 1000",),
        restored=("/usr/bin/python3",),
        truncated=True,
    )
    judged = EvaluationResult(
        reward=0.5,
        validity=ValidityCheck(
            output_parseable=True, schema_valid=False, verifier_completed=True, errors=["note: \x1b]0;title\x07 odd"]
        ),
        breakdown={"drop": {"score": 0.5, "max_score": 1.0, "evidence": "found 3\x1b[2J"}, "count": 7},
        error_taxonomy=[ErrorTag(category="unit_mismatch", source=ErrorSource.MECHANICAL)],
    )
    return record(
        task,
        0.5,
        tries=2,
        evaluation=judged,
        agent_result=AgentResult(status="exited", exit_code=3, duration_sec=2.0),
        verifier_run=run,
        resources=ResourceUse(cpu_sec=1.25, peak_memory_bytes=3 * 2**20, oom_kills=1),
        changes=ChangeCounts(added=12, modified=1),
        provenance=Provenance(tests_digest=DIGEST, reward_file="reward.json"),
        sandbox=SandboxRef(
            backend="null",
            image="host",
            network="none",
            limits_asked=LimitSpec(memory_mb=64),
            limits_enforced=LimitSpec(),
        ),
        steps=(StepRecord(name="first", verifier_run=run, evaluation=judged), StepRecord(name="second")),
    )


def make_job(folder: Path, *records: TrialRecord, attempts: int = 1, missing_tasks: int = 0, **spec: Any) -> JobStore:
    """A job with these records, and tasks nobody has tried; `spec` is what else a job says."""
    tasks = list(dict.fromkeys(each.task.id for each in records)) + [f"open-{index}" for index in range(missing_tasks)]
    agents = tuple(AgentOptions(name=name) for name in dict.fromkeys(each.agent.name for each in records))
    file = JobFile(
        seatrial_version="0",
        created_at=BEGUN,
        spec=JobSpec(
            name=folder.name,
            tasks=("/tasks",),
            agents=agents or (AgentOptions(name="oracle"),),
            attempts=attempts,
            **spec,
        ),
        tasks=tuple(LockedTask(id=task, name=task, root=f"/tasks/{task}", digest=DIGEST) for task in tasks),
    )
    store = JobStore.create(folder, file)
    for each in records:
        with store.draft(each.trial_id) as draft:
            draft.commit(each)
    return store


Behaviour = Result | Callable[[], Any] | list[Result]


class ScriptedEngine:
    """Stands in for `run_prepared`: the real engine and store, with trials that end as the script says.

    The script maps task ids to a result, to a list with one result per try, or to a function that is called while the
    trial runs and after which it waits for ever, as a trial does that is about to be interrupted.
    """

    def __init__(self, script: Mapping[str, Behaviour]) -> None:
        self.script = {task: list(does) if isinstance(does, list) else does for task, does in script.items()}
        self.ran: list[str] = []
        self.jobs: list[PreparedJob] = []

    async def __call__(self, job: PreparedJob, observe: Observer) -> JobOutcome:
        self.jobs.append(job)
        with job.store.lock():
            return await carry_out_here(job, self._trial, observe)

    async def _trial(self, spec: TrialSpec, _: Path, observe: Observer) -> TrialRecord:
        self.ran.append(spec.trial_id)
        observe(PhaseStarted(spec.trial_id, "setup"))
        does = self.script[spec.task.id]
        if callable(does):
            does()
            await asyncio.Event().wait()
        result = does.pop(0) if isinstance(does, list) else does
        observe(PhaseStarted(spec.trial_id, "agent", "first"))
        assert isinstance(result, float | str | Failure)
        task = TaskRef(id=spec.task.id, name=spec.task.name, digest=spec.task_digest)
        told = {"trial_id": spec.trial_id, "job": spec.job, "job_id": spec.job_id, "task": task}
        return record(spec.task.id, result, spec.agent.title, spec.attempt, **told)
