"""MCP servers in the words of each agent, and in the file for all others."""

import json

import pytest

from seatrial.agents.environ import mcp_file, server_table
from seatrial.errors import UsageError
from seatrial.model.task import McpServerSpec
from seatrial.tasks.variables import with_variables

STDIO = McpServerSpec(name="files", transport="stdio", command="serve", args=("-v",))
HTTP = McpServerSpec(name="web", transport="streamable-http", url="http://w/mcp", headers={"X-Key": "${KEY}"})
SSE = McpServerSpec(name="old", transport="sse", url="http://o/sse")


def test_any_agent_can_read_of_them_in_a_file():
    assert json.loads(mcp_file([STDIO, SSE])) == {
        "mcpServers": {
            "files": {"type": "stdio", "command": "serve", "args": ["-v"]},
            "old": {"type": "sse", "url": "http://o/sse"},
        }
    }


@pytest.mark.parametrize(
    ("style", "stdio", "http"),
    [
        ("usual", {"command": "serve", "args": ["-v"]}, {"url": "http://w/mcp", "headers": {"X-Key": "k"}}),
        ("codex", {"command": "serve", "args": ["-v"]}, {"url": "http://w/mcp", "http_headers": {"X-Key": "k"}}),
        (
            "gemini",
            {"command": "serve", "args": ["-v"], "trust": True},
            {"httpUrl": "http://w/mcp", "headers": {"X-Key": "k"}, "trust": True},
        ),
        (
            "opencode",
            {"type": "local", "command": ["serve", "-v"], "enabled": True},
            {"type": "remote", "url": "http://w/mcp", "headers": {"X-Key": "k"}, "enabled": True},
        ),
    ],
)
def test_each_agent_is_told_in_its_own_words(style, stdio, http):
    servers = with_variables([STDIO, HTTP], {"KEY": "k"})
    assert server_table(servers, style) == {"files": stdio, "web": http}


def test_headers_have_only_what_was_allowed():
    with pytest.raises(UsageError, match="KEY"):
        with_variables([HTTP], {})
