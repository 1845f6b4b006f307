"""Seatrial runs AI agents on Harbor-format tasks, verifies what they did, and turns it into rewards to trust.

The public names are loaded when first used, so that `import seatrial` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seatrial.analysis.compare import compare
    from seatrial.analysis.loaded import LoadedJob, load_job
    from seatrial.env.cli_agent import CliAgentEnv
    from seatrial.env.client import ClientConfig, Policy
    from seatrial.env.env_group import EnvGroup
    from seatrial.env.environment import Environment
    from seatrial.env.harbor import HarborEnv
    from seatrial.env.hooks import advantage, cleanup, stop, teardown
    from seatrial.env.judge import JudgeRubric
    from seatrial.env.loading import load_environment
    from seatrial.env.math_rubric import MathRubric
    from seatrial.env.messages import (
        AssistantMessage,
        ChatMessage,
        Messages,
        Response,
        SystemMessage,
        ToolCall,
        ToolMessage,
        UserMessage,
    )
    from seatrial.env.parsers import (
        MaybeThinkParser,
        Parser,
        ThinkParser,
        XMLParser,
        extract_boxed_answer,
        extract_hash_answer,
    )
    from seatrial.env.rollout import State, TrajectoryStep
    from seatrial.env.rows import RowDataset
    from seatrial.env.rubric import Rubric
    from seatrial.env.rubric_group import RubricGroup
    from seatrial.env.sandbox_env import PythonEnv, SandboxEnv
    from seatrial.env.tools import StatefulToolEnv, ToolEnv
    from seatrial.env.turns import MultiTurnEnv, SingleTurnEnv
    from seatrial.errors import (
        ArtifactsError,
        DatasetNotFoundError,
        EmptyModelResponseError,
        Error,
        GatewayError,
        HookError,
        HostUnsupportedError,
        InfraError,
        InvalidModelResponseError,
        JobError,
        ModelError,
        OverlongPromptError,
        ProviderError,
        RewardError,
        RubricError,
        SandboxError,
        SeatrialError,
        StoreError,
        TaskFormatError,
        ToolCallError,
        ToolError,
        ToolParseError,
        TrialError,
        UnknownArgumentError,
        UsageError,
    )
    from seatrial.jobs.api import run_job, run_trial
    from seatrial.jobs.engine import JobOutcome
    from seatrial.model.evaluation import (
        Annotation,
        ConfidenceMetadata,
        ErrorSource,
        ErrorTag,
        EvaluationResult,
        Judgment,
        ValidityCheck,
    )
    from seatrial.model.job import AgentFiles, AgentOptions, JobSpec, ModelOptions, RunOptions, TrialOptions
    from seatrial.model.loaded_task import BrokenTask, Problem, Task
    from seatrial.model.output import OutputSpec, RawArtifacts, RawFile, VerifierSpec
    from seatrial.model.record import AgentResult, TrialRecord
    from seatrial.scoring.ingest import ingest
    from seatrial.scoring.rubric import Dimension, RubricResult, score_rubric
    from seatrial.store.job_store import JobStore
    from seatrial.tasks.layout import digest_folder
    from seatrial.tasks.lint import lint
    from seatrial.tasks.load import Dataset, load_dataset, load_task, scan
    from seatrial.verify.artifacts import collect_artifacts, collect_output

_HOMES = {
    "AgentFiles": "model.job",
    "AgentOptions": "model.job",
    "AgentResult": "model.record",
    "Annotation": "model.evaluation",
    "ArtifactsError": "errors",
    "AssistantMessage": "env.messages",
    "BrokenTask": "model.loaded_task",
    "ChatMessage": "env.messages",
    "CliAgentEnv": "env.cli_agent",
    "ClientConfig": "env.client",
    "ConfidenceMetadata": "model.evaluation",
    "Dataset": "tasks.load",
    "DatasetNotFoundError": "errors",
    "Dimension": "scoring.rubric",
    "EmptyModelResponseError": "errors",
    "EnvGroup": "env.env_group",
    "Environment": "env.environment",
    "Error": "errors",
    "ErrorSource": "model.evaluation",
    "ErrorTag": "model.evaluation",
    "EvaluationResult": "model.evaluation",
    "GatewayError": "errors",
    "HarborEnv": "env.harbor",
    "HookError": "errors",
    "HostUnsupportedError": "errors",
    "InfraError": "errors",
    "InvalidModelResponseError": "errors",
    "JobError": "errors",
    "JobOutcome": "jobs.engine",
    "JobSpec": "model.job",
    "JobStore": "store.job_store",
    "JudgeRubric": "env.judge",
    "Judgment": "model.evaluation",
    "LoadedJob": "analysis.loaded",
    "MathRubric": "env.math_rubric",
    "MaybeThinkParser": "env.parsers",
    "Messages": "env.messages",
    "ModelError": "errors",
    "ModelOptions": "model.job",
    "MultiTurnEnv": "env.turns",
    "OutputSpec": "model.output",
    "OverlongPromptError": "errors",
    "Parser": "env.parsers",
    "Policy": "env.client",
    "Problem": "model.loaded_task",
    "ProviderError": "errors",
    "PythonEnv": "env.sandbox_env",
    "RawArtifacts": "model.output",
    "RawFile": "model.output",
    "Response": "env.messages",
    "RewardError": "errors",
    "RowDataset": "env.rows",
    "Rubric": "env.rubric",
    "RubricError": "errors",
    "RubricGroup": "env.rubric_group",
    "RubricResult": "scoring.rubric",
    "RunOptions": "model.job",
    "SandboxEnv": "env.sandbox_env",
    "SandboxError": "errors",
    "SeatrialError": "errors",
    "SingleTurnEnv": "env.turns",
    "State": "env.rollout",
    "StatefulToolEnv": "env.tools",
    "StoreError": "errors",
    "SystemMessage": "env.messages",
    "Task": "model.loaded_task",
    "TaskFormatError": "errors",
    "ThinkParser": "env.parsers",
    "ToolCall": "env.messages",
    "ToolCallError": "errors",
    "ToolEnv": "env.tools",
    "ToolError": "errors",
    "ToolMessage": "env.messages",
    "ToolParseError": "errors",
    "TrajectoryStep": "env.rollout",
    "TrialError": "errors",
    "TrialOptions": "model.job",
    "TrialRecord": "model.record",
    "UnknownArgumentError": "errors",
    "UsageError": "errors",
    "UserMessage": "env.messages",
    "ValidityCheck": "model.evaluation",
    "VerifierSpec": "model.output",
    "XMLParser": "env.parsers",
    "advantage": "env.hooks",
    "cleanup": "env.hooks",
    "collect_artifacts": "verify.artifacts",
    "collect_output": "verify.artifacts",
    "compare": "analysis.compare",
    "digest_folder": "tasks.layout",
    "extract_boxed_answer": "env.parsers",
    "extract_hash_answer": "env.parsers",
    "ingest": "scoring.ingest",
    "lint": "tasks.lint",
    "load_dataset": "tasks.load",
    "load_environment": "env.loading",
    "load_job": "analysis.loaded",
    "load_task": "tasks.load",
    "run_job": "jobs.api",
    "run_trial": "jobs.api",
    "scan": "tasks.load",
    "score_rubric": "scoring.rubric",
    "stop": "env.hooks",
    "teardown": "env.hooks",
}

__all__ = [
    "AgentFiles",
    "AgentOptions",
    "AgentResult",
    "Annotation",
    "ArtifactsError",
    "AssistantMessage",
    "BrokenTask",
    "ChatMessage",
    "CliAgentEnv",
    "ClientConfig",
    "ConfidenceMetadata",
    "Dataset",
    "DatasetNotFoundError",
    "Dimension",
    "EmptyModelResponseError",
    "EnvGroup",
    "Environment",
    "Error",
    "ErrorSource",
    "ErrorTag",
    "EvaluationResult",
    "GatewayError",
    "HarborEnv",
    "HookError",
    "HostUnsupportedError",
    "InfraError",
    "InvalidModelResponseError",
    "JobError",
    "JobOutcome",
    "JobSpec",
    "JobStore",
    "JudgeRubric",
    "Judgment",
    "LoadedJob",
    "MathRubric",
    "MaybeThinkParser",
    "Messages",
    "ModelError",
    "ModelOptions",
    "MultiTurnEnv",
    "OutputSpec",
    "OverlongPromptError",
    "Parser",
    "Policy",
    "Problem",
    "ProviderError",
    "PythonEnv",
    "RawArtifacts",
    "RawFile",
    "Response",
    "RewardError",
    "RowDataset",
    "Rubric",
    "RubricError",
    "RubricGroup",
    "RubricResult",
    "RunOptions",
    "SandboxEnv",
    "SandboxError",
    "SeatrialError",
    "SingleTurnEnv",
    "State",
    "StatefulToolEnv",
    "StoreError",
    "SystemMessage",
    "Task",
    "TaskFormatError",
    "ThinkParser",
    "ToolCall",
    "ToolCallError",
    "ToolEnv",
    "ToolError",
    "ToolMessage",
    "ToolParseError",
    "TrajectoryStep",
    "TrialError",
    "TrialOptions",
    "TrialRecord",
    "UnknownArgumentError",
    "UsageError",
    "UserMessage",
    "ValidityCheck",
    "VerifierSpec",
    "XMLParser",
    "__version__",
    "advantage",
    "cleanup",
    "collect_artifacts",
    "collect_output",
    "compare",
    "digest_folder",
    "extract_boxed_answer",
    "extract_hash_answer",
    "ingest",
    "lint",
    "load_dataset",
    "load_environment",
    "load_job",
    "load_task",
    "run_job",
    "run_trial",
    "scan",
    "score_rubric",
    "stop",
    "teardown",
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
