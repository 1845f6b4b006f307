"""What every agent finds, whichever it is: environment variables, and the MCP servers of its task."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seatrial.model.loaded_task import Task
from seatrial.model.task import McpServerSpec

if TYPE_CHECKING:  # of presets, which most jobs do without
    from seatrial.model.preset import McpStyle

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


# MCP servers: a file that any agent can read, and the settings of each preset.

Entry = dict[str, Any]


def mcp_file(servers: Sequence[McpServerSpec]) -> bytes:
    """The file by which any agent can learn of servers, in the form that most programs read."""
    return json.dumps({"mcpServers": server_table(servers, "typed")}, indent=2, ensure_ascii=False).encode() + b"\n"


def server_table(servers: Sequence[McpServerSpec], style: "McpStyle") -> dict[str, Entry]:
    return {server.name: _STYLES[style](server) for server in servers}


def _usual(server: McpServerSpec) -> Entry:
    if server.transport == "stdio":
        return {"command": server.command or "", "args": list(server.args)}
    return {"url": server.url or "", **_headers("headers", server)}


def _typed(server: McpServerSpec) -> Entry:
    kind = "http" if server.transport == "streamable-http" else server.transport
    return {"type": kind, **_usual(server)}


def _gemini(server: McpServerSpec) -> Entry:
    if server.transport != "streamable-http":
        return {**_usual(server), "trust": True}
    return {"httpUrl": server.url or "", **_headers("headers", server), "trust": True}


def _codex(server: McpServerSpec) -> Entry:
    if server.transport == "stdio":
        return _usual(server)
    return {"url": server.url or "", **_headers("http_headers", server)}


def _opencode(server: McpServerSpec) -> Entry:
    if server.transport == "stdio":
        return {"type": "local", "command": [server.command or "", *server.args], "enabled": True}
    return {"type": "remote", "url": server.url or "", **_headers("headers", server), "enabled": True}


def _headers(key: str, server: McpServerSpec) -> Entry:
    return {key: dict(server.headers)} if server.headers else {}


_STYLES: Mapping["McpStyle", Callable[[McpServerSpec], Entry]] = {
    "usual": _usual,
    "typed": _typed,
    "gemini": _gemini,
    "codex": _codex,
    "opencode": _opencode,
}
