"""What verifiers has and Seatrial has not: the errors that say so, with what to use instead."""

from difflib import get_close_matches
from typing import Self

from seatrial.errors import UsageError

_TRAIN = "train with prime-rl, verl or TRL on the rollouts of env.generate or env.stream"
_V1 = "HarborEnv, ToolEnv or MultiTurnEnv instead of the v1 classes (Taskset, Harness, Env)"
_HUB = "install the environment's package with pip, and load it by its module's name"

_CLIENT = "a ClientConfig, an SDK's client, or a function of the messages, wherever a client is asked for"

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
        """The error itself."""
        return self


def absent_name(module: str, name: str) -> NameNotHereError:
    """The error for a name that is not ours, or that nobody knows."""
    if name in NAMES:
        return NameNotHereError(f"{module}.{name} is not in Seatrial; use {NAMES[name]}")
    from seatrial.compat.table import HOMES  # noqa: PLC0415 - the table imports this module

    near = get_close_matches(name, HOMES, n=1)
    hint = f"did you mean {near[0]}?" if near else "docs/from-verifiers.md has the names that there are"
    return NameNotHereError(f"{module}.{name} is not in Seatrial, which stands in for verifiers here; {hint}")


def absent_module(fullname: str) -> ModuleNotHereError:
    """The error for a module that is not ours."""
    _, _, path = fullname.replace("verifiers.legacy", "verifiers", 1).partition(".")
    said = [MODULES[known] for known in MODULES if path == known or path.startswith(f"{known}.")]
    hint = f"use {said[0]}" if said else "docs/from-verifiers.md has the modules that there are"
    return ModuleNotHereError(f"{fullname} is not in Seatrial, which stands in for verifiers here; {hint}")
