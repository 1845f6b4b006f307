"""Seatrial runs AI agents on Harbor-format tasks, verifies what they did, and turns it into rewards to trust.

The public names are loaded when first used, so that `import seatrial` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seatrial.analysis.compare import compare
    from seatrial.analysis.loaded import LoadedJob, load_job
    from seatrial.env.chat_message import (
        AssistantMessage,
        ChatMessage,
        SystemMessage,
        ToolCall,
        ToolMessage,
        UserMessage,
    )
    from seatrial.env.cli_agent import CliAgentEnv
    from seatrial.env.client_config import ClientConfig
    from seatrial.env.decorators import advantage, cleanup, stop, teardown
    from seatrial.env.env_group import EnvGroup
    from seatrial.env.environment import Environment
    from seatrial.env.harbor import HarborEnv
    from seatrial.env.judge_rubric import JudgeRubric
    from seatrial.env.loading import load_environment
    from seatrial.env.math_rubric import MathRubric
    from seatrial.env.messages import Messages
    from seatrial.env.multi_turn import MultiTurnEnv
    from seatrial.env.parsers.answers import extract_boxed_answer, extract_hash_answer
    from seatrial.env.parsers.parser import Parser
    from seatrial.env.parsers.think_parser import MaybeThinkParser, ThinkParser
    from seatrial.env.parsers.xml_parser import XMLParser
    from seatrial.env.policy import Policy
    from seatrial.env.python_env import PythonEnv
    from seatrial.env.response import Response
    from seatrial.env.row_dataset import RowDataset
    from seatrial.env.rubric import Rubric
    from seatrial.env.rubric_group import RubricGroup
    from seatrial.env.sandbox_env import SandboxEnv
    from seatrial.env.single_turn import SingleTurnEnv
    from seatrial.env.state import State
    from seatrial.env.stateful_tool import StatefulToolEnv
    from seatrial.env.tool_env import ToolEnv
    from seatrial.env.trajectory import TrajectoryStep
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
    from seatrial.model.agent import AgentResult
    from seatrial.model.annotation import Annotation, Judgment
    from seatrial.model.artifacts import RawArtifacts, RawFile
    from seatrial.model.evaluation import ConfidenceMetadata, ErrorSource, ErrorTag, EvaluationResult, ValidityCheck
    from seatrial.model.job import AgentFiles, AgentOptions, JobSpec, ModelOptions, RunOptions, TrialOptions
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
    "AgentFiles": "model.job",
    "AgentOptions": "model.job",
    "AgentResult": "model.agent",
    "Annotation": "model.annotation",
    "ArtifactsError": "errors",
    "AssistantMessage": "env.chat_message",
    "BrokenTask": "model.task",
    "ChatMessage": "env.chat_message",
    "CliAgentEnv": "env.cli_agent",
    "ClientConfig": "env.client_config",
    "ConfidenceMetadata": "model.evaluation",
    "Dataset": "tasks.dataset",
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
    "JudgeRubric": "env.judge_rubric",
    "Judgment": "model.annotation",
    "LoadedJob": "analysis.loaded",
    "MathRubric": "env.math_rubric",
    "MaybeThinkParser": "env.parsers.think_parser",
    "Messages": "env.messages",
    "ModelError": "errors",
    "ModelOptions": "model.job",
    "MultiTurnEnv": "env.multi_turn",
    "OutputSpec": "model.output",
    "OverlongPromptError": "errors",
    "Parser": "env.parsers.parser",
    "Policy": "env.policy",
    "Problem": "model.task",
    "ProviderError": "errors",
    "PythonEnv": "env.python_env",
    "RawArtifacts": "model.artifacts",
    "RawFile": "model.artifacts",
    "Response": "env.response",
    "RewardError": "errors",
    "RowDataset": "env.row_dataset",
    "Rubric": "env.rubric",
    "RubricError": "errors",
    "RubricGroup": "env.rubric_group",
    "RubricResult": "scoring.rubric",
    "RunOptions": "model.job",
    "SandboxEnv": "env.sandbox_env",
    "SandboxError": "errors",
    "SeatrialError": "errors",
    "SingleTurnEnv": "env.single_turn",
    "State": "env.state",
    "StatefulToolEnv": "env.stateful_tool",
    "StoreError": "errors",
    "SystemMessage": "env.chat_message",
    "Task": "model.task",
    "TaskFormatError": "errors",
    "ThinkParser": "env.parsers.think_parser",
    "ToolCall": "env.chat_message",
    "ToolCallError": "errors",
    "ToolEnv": "env.tool_env",
    "ToolError": "errors",
    "ToolMessage": "env.chat_message",
    "ToolParseError": "errors",
    "TrajectoryStep": "env.trajectory",
    "TrialError": "errors",
    "TrialOptions": "model.job",
    "TrialRecord": "model.record",
    "UnknownArgumentError": "errors",
    "UsageError": "errors",
    "UserMessage": "env.chat_message",
    "ValidityCheck": "model.evaluation",
    "VerifierSpec": "model.output",
    "XMLParser": "env.parsers.xml_parser",
    "advantage": "env.decorators",
    "cleanup": "env.decorators",
    "collect_artifacts": "verify.collect",
    "collect_output": "verify.collect",
    "compare": "analysis.compare",
    "digest_folder": "tasks.digest",
    "extract_boxed_answer": "env.parsers.answers",
    "extract_hash_answer": "env.parsers.answers",
    "ingest": "scoring.ingest",
    "lint": "tasks.lint",
    "load_dataset": "tasks.dataset",
    "load_environment": "env.loading",
    "load_job": "analysis.loaded",
    "load_task": "tasks.load",
    "run_job": "jobs.api",
    "run_trial": "jobs.api",
    "scan": "tasks.dataset",
    "score_rubric": "scoring.rubric",
    "stop": "env.decorators",
    "teardown": "env.decorators",
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
