"""Seatrial runs AI agents on Harbor-format tasks, verifies what they did, and turns it into rewards to trust.

The public names are loaded when first used, so that `import seatrial` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seatrial.errors import (
        ArtifactsError,
        DatasetNotFoundError,
        HostUnsupportedError,
        JobError,
        RubricError,
        SandboxError,
        SeatrialError,
        StoreError,
        TaskFormatError,
        TrialError,
        UsageError,
    )
    from seatrial.jobs.api import run_job, run_trial
    from seatrial.jobs.local import JobOutcome
    from seatrial.model.agent import AgentResult
    from seatrial.model.annotation import Annotation, Judgment
    from seatrial.model.artifacts import RawArtifacts, RawFile
    from seatrial.model.evaluation import ConfidenceMetadata, ErrorSource, ErrorTag, EvaluationResult, ValidityCheck
    from seatrial.model.job import AgentOptions, JobSpec, RunOptions, TrialOptions
    from seatrial.model.output import OutputSpec, VerifierSpec
    from seatrial.model.record import TrialRecord
    from seatrial.model.task import BrokenTask, Problem, Task
    from seatrial.scoring.ingest import ingest
    from seatrial.scoring.rubric import Dimension, RubricResult, score_rubric
    from seatrial.store.job_store import JobStore
    from seatrial.tasks.dataset import Dataset, load_dataset, scan
    from seatrial.tasks.digest import digest_folder
    from seatrial.tasks.lint import lint
    from seatrial.tasks.load import load_task
    from seatrial.verify.collect import collect_artifacts, collect_output

_HOMES = {
    "AgentOptions": "model.job",
    "AgentResult": "model.agent",
    "Annotation": "model.annotation",
    "ArtifactsError": "errors",
    "BrokenTask": "model.task",
    "ConfidenceMetadata": "model.evaluation",
    "Dataset": "tasks.dataset",
    "DatasetNotFoundError": "errors",
    "Dimension": "scoring.rubric",
    "ErrorSource": "model.evaluation",
    "ErrorTag": "model.evaluation",
    "EvaluationResult": "model.evaluation",
    "HostUnsupportedError": "errors",
    "JobError": "errors",
    "JobOutcome": "jobs.local",
    "JobSpec": "model.job",
    "JobStore": "store.job_store",
    "Judgment": "model.annotation",
    "OutputSpec": "model.output",
    "Problem": "model.task",
    "RawArtifacts": "model.artifacts",
    "RawFile": "model.artifacts",
    "RubricError": "errors",
    "RubricResult": "scoring.rubric",
    "RunOptions": "model.job",
    "SandboxError": "errors",
    "SeatrialError": "errors",
    "StoreError": "errors",
    "Task": "model.task",
    "TaskFormatError": "errors",
    "TrialError": "errors",
    "TrialOptions": "model.job",
    "TrialRecord": "model.record",
    "UsageError": "errors",
    "ValidityCheck": "model.evaluation",
    "VerifierSpec": "model.output",
    "collect_artifacts": "verify.collect",
    "collect_output": "verify.collect",
    "digest_folder": "tasks.digest",
    "ingest": "scoring.ingest",
    "lint": "tasks.lint",
    "load_dataset": "tasks.dataset",
    "load_task": "tasks.load",
    "run_job": "jobs.api",
    "run_trial": "jobs.api",
    "scan": "tasks.dataset",
    "score_rubric": "scoring.rubric",
}

__all__ = [
    "AgentOptions",
    "AgentResult",
    "Annotation",
    "ArtifactsError",
    "BrokenTask",
    "ConfidenceMetadata",
    "Dataset",
    "DatasetNotFoundError",
    "Dimension",
    "ErrorSource",
    "ErrorTag",
    "EvaluationResult",
    "HostUnsupportedError",
    "JobError",
    "JobOutcome",
    "JobSpec",
    "JobStore",
    "Judgment",
    "OutputSpec",
    "Problem",
    "RawArtifacts",
    "RawFile",
    "RubricError",
    "RubricResult",
    "RunOptions",
    "SandboxError",
    "SeatrialError",
    "StoreError",
    "Task",
    "TaskFormatError",
    "TrialError",
    "TrialOptions",
    "TrialRecord",
    "UsageError",
    "ValidityCheck",
    "VerifierSpec",
    "__version__",
    "collect_artifacts",
    "collect_output",
    "digest_folder",
    "ingest",
    "lint",
    "load_dataset",
    "load_task",
    "run_job",
    "run_trial",
    "scan",
    "score_rubric",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - slow to import, seldom asked for

        return version("seatrial")
    if name not in _HOMES:
        raise AttributeError(f"module 'seatrial' has no attribute {name!r}")
    value = getattr(import_module(f"seatrial.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
