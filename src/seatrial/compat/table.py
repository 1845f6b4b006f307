"""Where each name of verifiers has its home here: a table by the modules in which verifiers has them.

A home is a module below `seatrial` that has the name, or `module:other name`. Nothing is imported before it is used.
"""

from importlib import import_module

from seatrial.compat.absent import absent_name

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
    "clients": {"resolve_client": "compat.clients"},
    "clients.anthropic_messages_client": {"AnthropicMessagesClient": "compat.clients"},
    "clients.client": {"Client": "compat.clients"},
    "clients.openai_chat_completions_client": {"OpenAIChatCompletionsClient": "compat.clients"},
    "clients.openai_responses_client": {"OpenAIResponsesClient": "compat.clients"},
    "decorators": _all(("advantage", "cleanup", "stop", "teardown"), "env.decorators"),
    "envs": {},
    "envs.env_group": {"EnvGroup": "env.env_group"},
    "envs.environment": {"Environment": "env.environment"},
    "envs.experimental": {},
    "envs.experimental.cli_agent_env": {"AgentError": "errors:InfraError", "CliAgentEnv": "env.cli_agent"},
    "envs.experimental.harbor_env": {"HarborEnv": "compat.harbor"},
    "envs.experimental.harbor_env.env": {"HarborEnv": "compat.harbor"},
    "envs.experimental.harbor_env.mcp": {
        "HarborMCPMixin": "env.mcp_mixin",
        **_all(
            ("HarborMCPHealthcheck", "HarborMCPServer", "mcp_agent_url", "mcp_url_port", "parse_mcp_servers"),
            "env.mcp_servers",
        ),
    },
    "envs.experimental.sandbox_mixin": {
        "SandboxMixin": "env.sandbox_mixin",
        "SandboxTimeouts": "env.sandbox_settings",
        **_all(_SANDBOX_ERRORS, "errors:SandboxError"),
    },
    "envs.integrations": {},
    "envs.multiturn_env": {"MultiTurnEnv": "env.multi_turn"},
    "envs.python_env": {"PythonEnv": "env.python_env", **_all(_WORKER_ERRORS, "errors:SandboxError")},
    "envs.sandbox_env": {
        "AdvancedConfigs": "compat.prime_sandboxes",
        "SandboxEnv": "env.sandbox_env",
        "SandboxState": "env.state:State",
        "ThreadedAsyncSandboxClient": "compat.prime_sandboxes:AsyncSandboxClient",
        **_all(_SANDBOX_ERRORS, "errors:SandboxError"),
    },
    "envs.singleturn_env": {"SingleTurnEnv": "env.single_turn"},
    "envs.stateful_tool_env": {"StatefulToolEnv": "env.stateful_tool"},
    "envs.tool_env": {"ToolEnv": "env.tool_env"},
    "errors": {
        **_all(_ERRORS, "errors"),
        "BrowserSandboxError": "errors:SandboxError",
        "TunnelError": "errors:GatewayError",
    },
    "parsers": {},
    "parsers.maybe_think_parser": {"MaybeThinkParser": "env.parsers.think_parser"},
    "parsers.parser": {"Parser": "env.parsers.parser"},
    "parsers.think_parser": {"ThinkParser": "env.parsers.think_parser"},
    "parsers.xml_parser": {"XMLParser": "env.parsers.xml_parser"},
    "rubrics": {},
    "rubrics.judge_rubric": _all(("DEFAULT_JUDGE_PROMPT", "JudgeRubric"), "env.judge_rubric"),
    "rubrics.math_rubric": {"MathRubric": "env.math_rubric"},
    "rubrics.rubric": {"Rubric": "env.rubric"},
    "rubrics.rubric_group": {"RubricGroup": "env.rubric_group"},
    "types": {
        **_all(_VALUES, "compat.values"),
        **_all(_MESSAGES, "env.chat_message"),
        **_all(_PARTS, "compat.conversation"),
        **_all(_TABLES, "env.chat_message:AttributeTable"),
        "ClientConfig": "env.client_config",
        "Messages": "env.messages",
        "Response": "env.response",
        "ResponseMessage": "env.chat_message:AssistantMessage",
        "ResponseTokens": "env.response",
        "State": "env.state",
        "TrajectoryStep": "env.trajectory",
    },
    "utils": {},
    "utils.async_utils": _all(
        ("NullAsyncContext", "maybe_await", "maybe_call_with_named_args", "maybe_retry", "maybe_semaphore", "with_sem"),
        "compat.awaiting",
    ),
    "utils.client_utils": _all(("setup_client", "setup_openai_client"), "compat.clients"),
    "utils.config_utils": _all(("MissingKeyError", "ensure_keys"), "compat.keys"),
    "utils.data_utils": {
        **_all(("extract_boxed_answer", "extract_hash_answer", "strip_non_numeric"), "env.parsers.answers"),
        **_all(("BOXED_SYSTEM_PROMPT", "THINK_BOXED_SYSTEM_PROMPT", "load_example_dataset"), "compat.example_data"),
    },
    "utils.env_utils": {"load_environment": "env.loading"},
    "utils.error_utils": _all(("ErrorChain", "get_error_chain", "get_vf_error_chain"), "compat.error_chain"),
    "utils.import_utils": {"load_toml": "compat.files"},
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
        "compat.logs",
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
        "compat.conversation",
    ),
    "utils.path_utils": {"write_temp_file": "compat.files"},
    "utils.response_utils": {
        **_all(("parse_is_truncated", "parse_response_messages"), "compat.conversation"),
        "parse_response_message": "compat.conversation:parse_response_messages",
    },
    "utils.threaded_sandbox_client": {"ThreadedAsyncSandboxClient": "compat.prime_sandboxes:AsyncSandboxClient"},
    "utils.tool_utils": _all(("convert_func_to_oai_tool", "convert_func_to_tool_def"), "env.tool_schema:tool_table"),
}

_SANDBOX_CLIENT = {
    **_all(
        (
            "APIClient",
            "APIError",
            "AdvancedConfigs",
            "AsyncSandboxClient",
            "CommandTimeoutError",
            "DownloadTimeoutError",
            "FileUploadResponse",
            "SandboxFileNotFoundError",
            "SandboxNotRunningError",
            "SandboxOOMError",
            "SandboxTimeoutError",
            "UploadTimeoutError",
        ),
        "compat.prime_sandboxes",
    ),
    **_all(("BackgroundJob", "BackgroundJobStatus"), "env.sandbox_values"),
    "CommandResponse": "env.sandbox_values:CommandResult",
    "CreateSandboxRequest": "env.sandbox_values:SandboxRequest",
    "Sandbox": "env.sandbox_values:SandboxInfo",
    "SandboxClient": "compat.waiting",
}

STAND_INS = {"prime_sandboxes": _SANDBOX_CLIENT}
"""Packages that are stood in for only where they are not installed."""

HOMES = {name: home for names in _TABLE.values() for name, home in names.items()} | {"TaskSplit": "compat.values"}
"""The home of every name. Environments take names from wherever they found them, so each module knows all."""

MODULES = frozenset(
    {
        "verifiers",
        *(f"verifiers.{path}" for path in _TABLE),
        *STAND_INS,
        *(f"prime_sandboxes.{name}" for name in ("core", "exceptions", "models", "sandbox")),
    }
)
"""All modules that can be imported."""


def names_of(module: str) -> list[str]:
    """The names that `from module import *` gives."""
    root, _, path = module.replace("verifiers.legacy", "verifiers", 1).partition(".")
    if root in STAND_INS:
        return sorted(STAND_INS[root])
    return sorted(_TABLE[path] if path else HOMES)


def resolve(module: str, name: str) -> object:
    """What a name stands for, imported now. Raises NameNotHereError for one that is not ours."""
    root, _, _ = module.partition(".")
    home = STAND_INS.get(root, HOMES).get(name)
    if home is None:
        raise absent_name(module, name)
    place, _, other = home.partition(":")
    return getattr(import_module(f"seatrial.{place}"), other or name)
