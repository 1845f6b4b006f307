"""The environment variables every agent finds, whichever it is."""

from collections.abc import Mapping

from seatrial.model.task import Task

TASK_DIR = "/task"
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
    return {**named, "OPENAI_MODEL": model} if model else named


def tool_variables(task: Task) -> Mapping[str, str]:
    """What names the MCP servers and the skills that a task has for its agent, if it has any."""
    environment = task.config.environment
    named = {"HARBOR_MCP_CONFIG": MCP_CONFIG_PATH} if environment.mcp_servers else {}
    return {**named, "HARBOR_SKILLS_DIR": environment.skills_dir} if environment.skills_dir else named
