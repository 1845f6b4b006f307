"""The environment variables every agent finds, whichever it is."""

from collections.abc import Mapping

from seatrial.model.task import Task

TASK_DIR = "/task"
_MODEL_NAMES = (
    "OPENAI_MODEL",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
    "GEMINI_MODEL",
)
INSTRUCTION_PATH = f"{TASK_DIR}/instruction.md"
MCP_CONFIG_PATH = f"{TASK_DIR}/mcp.json"


def agent_variables(task: Task, workdir: str, model: str | None) -> Mapping[str, str]:
    """What names the task, its instruction, the place to work in, and the model if one was chosen."""
    named = {
        "HARBOR_TASK_NAME": task.id.rpartition("/")[2],  # its folder may be called otherwise on another machine
        "HARBOR_TASK_DIR": TASK_DIR,
        "HARBOR_INSTRUCTION_PATH": INSTRUCTION_PATH,
        "AGENT_WORKDIR": workdir,
        **tool_variables(task),
    }
    return {**named, **model_variables(model)} if model else named


def model_variables(model: str) -> dict[str, str]:
    """The variables in which agents and SDKs look for the name of their model.

    Claude Code uses smaller models beside its main one: each of them is this one, for an upstream may have no other.
    What names a model to litellm says first which dialect to speak.
    """
    return {**dict.fromkeys(_MODEL_NAMES, model), "LLM_MODEL": f"openai/{model}"}


def tool_variables(task: Task) -> Mapping[str, str]:
    """What names the MCP servers and the skills that a task has for its agent, if it has any."""
    environment = task.config.environment
    named = {"HARBOR_MCP_CONFIG": MCP_CONFIG_PATH} if environment.mcp_servers else {}
    return {**named, "HARBOR_SKILLS_DIR": environment.skills_dir} if environment.skills_dir else named
