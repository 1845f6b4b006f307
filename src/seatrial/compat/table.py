"""Where each name of verifiers has its home here, by the modules in which verifiers has them; and what has none.

A home is a module below `seatrial` that has the name, or `module:other name`. Nothing is imported before it is used.
For what Seatrial does not have, an error names what to use instead.
"""

from difflib import get_close_matches
from importlib import import_module
from typing import Self

from seatrial.errors import UsageError

# What verifiers has and Seatrial has not, with what to use instead.

_TRAIN = "train with prime-rl, verl or TRL on the rollouts of env.generate or env.stream"
_V1 = "HarborEnv, ToolEnv or MultiTurnEnv instead of the v1 classes (Taskset, Harness, Env)"
_HUB = "install the environment's package with pip, and load it by its module's name"

_CLIENT = "a ClientConfig, an SDK's client, or a function of the messages, wherever a client is asked for"
_SANDBOXES = "self.sandbox_client of SandboxEnv or SandboxMixin, whose sandboxes are on this machine"

NAMES = {
    "BrowserEnv": "StatefulToolEnv with tools that drive a browser of yours",
    "OpenEnvEnv": "MultiTurnEnv whose env_response steps the OpenEnv server",
    "TextArenaEnv": "MultiTurnEnv whose env_response plays the game",
    "ReasoningGymEnv": "SingleTurnEnv with a dataset and a reward function made from reasoning_gym",
    "GymEnv": "MultiTurnEnv whose env_response calls step",
    "EpisodicSumRubric": "a Rubric with a function that sums what env_response put into the state",
    "MCPEnv": "ToolEnv with functions that call the MCP server; HarborEnv runs the MCP servers of a task",
    "RLMEnv": "StatefulToolEnv with the data in a sandbox's file",
    "OpenCodeEnv": "CliAgentEnv with opencode as its run_command",
    "OpenCodeQAEnv": "CliAgentEnv with opencode as its run_command",
    "OpenCodeRLMEnv": "CliAgentEnv with opencode as its run_command",
    "HybridMathRubric": "RubricGroup([MathRubric(...), JudgeRubric(...)])",
    "RemoteHybridMathRubric": "RubricGroup([MathRubric(...), JudgeRubric(...)])",
    "Taskset": _V1,
    "Harness": _V1,
    "Env": _V1,
    "ToolRubric": "ToolEnv, which counts calls of its tools as metrics",
    "ThreadedAsyncSandboxClient": _SANDBOXES,
    "RendererClient": _CLIENT,
    "NeMoRLChatCompletionsClient": _CLIENT,
    "OpenAIChatCompletionsTokenClient": _CLIENT,
    "OpenAICompletionsClient": _CLIENT,
    "RLConfig": _TRAIN,
    "RLTrainer": _TRAIN,
    "GRPOTrainer": _TRAIN,
    "GRPOConfig": _TRAIN,
    "grpo_defaults": _TRAIN,
    "lora_defaults": _TRAIN,
    "get_model": _TRAIN,
    "get_model_and_tokenizer": _TRAIN,
}


MODULES = {
    "v1": _V1,
    "rl": _TRAIN,
    "gepa": "there is no search for prompts here",
    "serve": "`async for output in env.stream(...)` in one process, or engine='ray' for several machines",
    "scripts": "the commands `seatrial eval` and `seatrial env init`",
    "cli": "the commands `seatrial eval` and `seatrial env init`",
    "envs.experimental.composable": "HarborEnv for tasks in folders, CliAgentEnv with a dataset for others",
    "envs.experimental.gym_env": NAMES["GymEnv"],
    "envs.experimental.mcp_env": NAMES["MCPEnv"],
    "envs.experimental.opencode_env": NAMES["OpenCodeEnv"],
    "envs.experimental.opencode_qa_env": NAMES["OpenCodeEnv"],
    "envs.experimental.opencode_rlm_env": NAMES["OpenCodeEnv"],
    "envs.experimental.rlm_env": NAMES["RLMEnv"],
    "envs.experimental.utils": "shutil and git of your own program; nothing here keeps checkouts",
    "envs.integrations.browser_env": NAMES["BrowserEnv"],
    "envs.integrations.openenv_env": NAMES["OpenEnvEnv"],
    "envs.integrations.reasoninggym_env": NAMES["ReasoningGymEnv"],
    "envs.integrations.textarena_env": NAMES["TextArenaEnv"],
    "rubrics.experimental": NAMES["HybridMathRubric"],
    "utils.eval_utils": "`seatrial eval`, or env.evaluate(..., save_to=FOLDER)",
    "utils.eval_display": "`seatrial eval` shows what runs",
    "utils.display_utils": "`seatrial eval` shows what runs",
    "utils.save_utils": "env.evaluate(..., save_to=FOLDER), and `seatrial import` for results that are there",
    "utils.metric_utils": "results['metadata'], and `seatrial show FOLDER`",
    "utils.usage_utils": "usage in every output, and results['metadata']",
    "utils.pricing_utils": "the cost in every record, and `seatrial show FOLDER`",
    "utils.install_utils": _HUB,
    "utils.interception_utils": "CliAgentEnv intercepts requests by itself; override get_model_response",
    "utils.tunnel_utils": "nothing: the model is reached inside the sandbox, without a tunnel",
    "utils.token_utils": "tokens of every turn are in its step, when the server tells them",
    "utils.rlm_data_serialization_utils": "StatefulToolEnv with the data in a sandbox's file",
    "utils.serve_utils": "`async for output in env.stream(...)`",
    "utils.thread_utils": "asyncio.to_thread",
    "utils.threaded_sandbox_client": _SANDBOXES,
    "utils.process_utils": "nothing: rollouts need no processes of their own",
    "utils.version_utils": "results['metadata']['version_info']",
    "utils.env_config_utils": "load_environment(name, **arguments)",
    "utils.heartbeat": "nothing: rollouts are watched by the job that runs them",
}


class NameNotHereError(UsageError, AttributeError):
    """A name of verifiers that is not ours; `hasattr` says no."""

    def as_import_error(self) -> "ModuleNotHereError":
        """The same where it is imported."""
        return ModuleNotHereError(str(self))


class ModuleNotHereError(UsageError, ModuleNotFoundError):
    """A module of verifiers that is not ours; `except ImportError` catches it."""

    def as_import_error(self) -> Self:
        return self


def plain_name(module: str) -> str:
    """The name of a module without `legacy`, below which verifiers has all of them again."""
    return module.replace("verifiers.legacy", "verifiers", 1)


def absent_name(module: str, name: str) -> NameNotHereError:
    """The error for a name that Seatrial does not have, known or not."""
    if name in NAMES:
        return NameNotHereError(f"{module}.{name} is not in Seatrial; use {NAMES[name]}")
    near = get_close_matches(name, HOMES, n=1)
    hint = f"did you mean {near[0]}?" if near else "docs/from-verifiers.md has the names that there are"
    return NameNotHereError(f"{module}.{name} is not in Seatrial, which stands in for verifiers here; {hint}")


def absent_module(fullname: str) -> ModuleNotHereError:
    _, _, path = plain_name(fullname).partition(".")
    said = [MODULES[known] for known in MODULES if path == known or path.startswith(f"{known}.")]
    hint = f"use {said[0]}" if said else "docs/from-verifiers.md has the modules that there are"
    return ModuleNotHereError(f"{fullname} is not in Seatrial, which stands in for verifiers here; {hint}")


# What Seatrial has.

_ERRORS = (
    "EmptyModelResponseError",
    "Error",
    "InfraError",
    "InvalidModelResponseError",
    "ModelError",
    "OverlongPromptError",
    "SandboxError",
    "ToolCallError",
    "ToolError",
    "ToolParseError",
)
_VALUES = (
    "BaseRolloutInput",
    "ChatMessages",
    "ClientType",
    "ContentPart",
    "DatasetBuilder",
    "Endpoint",
    "EndpointApi",
    "EndpointConfig",
    "Endpoints",
    "ErrorData",
    "EvalConfig",
    "FinishReason",
    "GenerateMetadata",
    "GenerateOutputs",
    "GroupRewardFunc",
    "IndividualRewardFunc",
    "Info",
    "JsonPrimitive",
    "LogCallback",
    "Message",
    "MessageContent",
    "MessageType",
    "ModelResponse",
    "ProcessedOutputs",
    "ProgressCallback",
    "RewardFunc",
    "RolloutInput",
    "RolloutOutput",
    "RolloutScore",
    "RolloutScores",
    "RolloutTiming",
    "SamplingArgs",
    "StartCallback",
    "TextMessage",
    "TokenUsage",
    "Tool",
    "ToolLike",
    "TrajectoryStepTokens",
    "Usage",
    "VersionInfo",
)
_MESSAGES = ("AssistantMessage", "ChatMessage", "SystemMessage", "ToolCall", "ToolMessage", "UserMessage")
_PARTS = ("ImageUrlContentPart", "InputAudioContentPart", "TextContentPart")
_TABLES = (
    "CustomBaseModel",
    "EndpointClientConfig",
    "EvalCost",
    "EvalRunConfig",
    "GenericContentPart",
    "ImageUrlSource",
    "InputAudioSource",
    "ModelPricing",
    "ThinkingBlock",
    "TimeSpan",
    "TimeSpans",
)
_WORKER_ERRORS = ("PythonWorkerDeadError", "PythonWorkerNotReadyError", "PythonWorkerRequestError")
_SANDBOX_ERRORS = ("SandboxCreationError", "SandboxNotReadyError", "SandboxSetupError")


def _all(names: tuple[str, ...], home: str) -> dict[str, str]:
    return dict.fromkeys(names, home)


_TABLE: dict[str, dict[str, str]] = {
    "clients": {"resolve_client": "compat.names"},
    "clients.anthropic_messages_client": {"AnthropicMessagesClient": "compat.names"},
    "clients.client": {"Client": "compat.names"},
    "clients.openai_chat_completions_client": {"OpenAIChatCompletionsClient": "compat.names"},
    "clients.openai_responses_client": {"OpenAIResponsesClient": "compat.names"},
    "decorators": _all(("advantage", "cleanup", "stop", "teardown"), "env.hooks"),
    "envs": {},
    "envs.env_group": {"EnvGroup": "env.env_group"},
    "envs.environment": {"Environment": "env.environment"},
    "envs.experimental": {},
    "envs.experimental.cli_agent_env": {"AgentError": "errors:InfraError", "CliAgentEnv": "env.cli_agent"},
    "envs.experimental.harbor_env": {"HarborEnv": "compat.names"},
    "envs.experimental.harbor_env.env": {"HarborEnv": "compat.names"},
    "envs.experimental.harbor_env.mcp": {
        "HarborMCPMixin": "env.mcp",
        **_all(
            ("HarborMCPHealthcheck", "HarborMCPServer", "mcp_agent_url", "mcp_url_port", "parse_mcp_servers"),
            "env.mcp",
        ),
    },
    "envs.experimental.sandbox_mixin": {
        "SandboxMixin": "env.sandbox_mixin",
        "SandboxTimeouts": "env.sandboxes",
        **_all(_SANDBOX_ERRORS, "errors:SandboxError"),
    },
    "envs.integrations": {},
    "envs.multiturn_env": {"MultiTurnEnv": "env.turns"},
    "envs.python_env": {"PythonEnv": "env.sandbox_env", **_all(_WORKER_ERRORS, "errors:SandboxError")},
    "envs.sandbox_env": {
        "AdvancedConfigs": "env.messages:AttributeTable",
        "SandboxEnv": "env.sandbox_env",
        "SandboxState": "env.rollout:State",
        **_all(_SANDBOX_ERRORS, "errors:SandboxError"),
    },
    "envs.singleturn_env": {"SingleTurnEnv": "env.turns"},
    "envs.stateful_tool_env": {"StatefulToolEnv": "env.tools"},
    "envs.tool_env": {"ToolEnv": "env.tools"},
    "errors": {
        **_all(_ERRORS, "errors"),
        "BrowserSandboxError": "errors:SandboxError",
        "TunnelError": "errors:GatewayError",
    },
    "parsers": {},
    "parsers.maybe_think_parser": {"MaybeThinkParser": "env.parsers"},
    "parsers.parser": {"Parser": "env.parsers"},
    "parsers.think_parser": {"ThinkParser": "env.parsers"},
    "parsers.xml_parser": {"XMLParser": "env.parsers"},
    "rubrics": {},
    "rubrics.judge_rubric": _all(("DEFAULT_JUDGE_PROMPT", "JudgeRubric"), "env.judge"),
    "rubrics.math_rubric": {"MathRubric": "env.math_rubric"},
    "rubrics.rubric": {"Rubric": "env.rubric"},
    "rubrics.rubric_group": {"RubricGroup": "env.rubric_group"},
    "types": {
        **_all(_VALUES, "compat.names"),
        **_all(_MESSAGES, "env.messages"),
        **_all(_PARTS, "compat.names"),
        **_all(_TABLES, "env.messages:AttributeTable"),
        "ClientConfig": "env.client",
        "Messages": "env.messages",
        "Response": "env.messages",
        "ResponseMessage": "env.messages:AssistantMessage",
        "ResponseTokens": "env.messages",
        "State": "env.rollout",
        "TrajectoryStep": "env.rollout",
    },
    "utils": {},
    "utils.async_utils": _all(
        ("NullAsyncContext", "maybe_await", "maybe_call_with_named_args", "maybe_retry", "maybe_semaphore", "with_sem"),
        "compat.names",
    ),
    "utils.client_utils": _all(("setup_client", "setup_openai_client"), "compat.names"),
    "utils.config_utils": _all(("MissingKeyError", "ensure_keys"), "compat.names"),
    "utils.data_utils": {
        **_all(("extract_boxed_answer", "extract_hash_answer", "strip_non_numeric"), "env.parsers"),
        **_all(("BOXED_SYSTEM_PROMPT", "THINK_BOXED_SYSTEM_PROMPT", "load_example_dataset"), "compat.names"),
    },
    "utils.env_utils": {"load_environment": "env.loading"},
    "utils.error_utils": _all(("ErrorChain", "get_error_chain", "get_vf_error_chain"), "compat.names"),
    "utils.import_utils": {"load_toml": "compat.names"},
    "utils.logging_utils": _all(
        (
            "log_level",
            "print_prompt_completions_sample",
            "print_time",
            "quiet_verifiers",
            "setup_logging",
            "truncate",
            "warning_once",
        ),
        "compat.names",
    ),
    "utils.message_utils": _all(
        (
            "concat_messages",
            "from_raw_message",
            "get_messages",
            "message_role",
            "message_to_printable",
            "messages_to_printable",
            "normalize_messages",
            "sanitize_tool_calls",
        ),
        "compat.names",
    ),
    "utils.path_utils": {"write_temp_file": "compat.names"},
    "utils.response_utils": {
        **_all(("parse_is_truncated", "parse_response_messages", "parse_response_tokens"), "compat.names"),
        "parse_response_message": "compat.names:parse_response_messages",
    },
    "utils.tool_utils": _all(("convert_func_to_oai_tool", "convert_func_to_tool_def"), "env.tool_tables:tool_table"),
}

HOMES = {name: home for names in _TABLE.values() for name, home in names.items()} | {"TaskSplit": "compat.names"}
"""The home of every name. Environments take names from wherever they found them, so each module knows all."""

IMPORTABLE = frozenset({"verifiers", *(f"verifiers.{path}" for path in _TABLE)})
"""All modules that can be imported."""


def names_of(module: str) -> list[str]:
    """The names that `from module import *` gives."""
    _, _, path = plain_name(module).partition(".")
    return sorted(_TABLE[path] if path else HOMES)


def resolve(module: str, name: str) -> object:
    """What a name stands for, imported now. Raises NameNotHereError for one that is not ours."""
    home = HOMES.get(name)
    if home is None:
        raise absent_name(module, name)
    place, _, other = home.partition(":")
    return getattr(import_module(f"seatrial.{place}"), other or name)
