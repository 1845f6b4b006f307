"""The MCP servers of a task as agents want to be told of them: a file for all, and the settings of each preset."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seatrial.model.config import McpServerSpec
from seatrial.tasks.environ import resolve_variables

if TYPE_CHECKING:  # of presets, which most jobs do without
    from seatrial.model.preset import McpStyle

Entry = dict[str, Any]


def with_variables(servers: Iterable[McpServerSpec], allowed_env: Mapping[str, str]) -> tuple[McpServerSpec, ...]:
    """The servers of a task, with what the user allowed in the place of templates. Raises UsageError for others."""
    return tuple(
        server.model_copy(update={"headers": resolve_variables(server.headers, allowed_env)}) for server in servers
    )


def mcp_file(servers: Sequence[McpServerSpec]) -> bytes:
    """The file by which any agent can learn of servers, in the form that most programs read."""
    return json.dumps({"mcpServers": server_table(servers, "typed")}, indent=2, ensure_ascii=False).encode() + b"\n"


def server_table(servers: Sequence[McpServerSpec], style: "McpStyle") -> dict[str, Entry]:
    """Servers by their names, each as a style describes it."""
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
