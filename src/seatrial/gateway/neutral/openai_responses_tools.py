"""The tools of a request to OpenAI's responses API, which may stand in three places.

Beside `tools` itself, Codex adds some by an item of the input, grouped in namespaces. Those of the usual namespace are
called as if they were in none. Those of an MCP server have its namespace before their name, as other agents do it. Of
others only this API knows how to call them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from seatrial.gateway.agent_tools import PLAIN_TOOLS, AgentTools, KnownAs
from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import items, text
from seatrial.gateway.neutral.checks import tables
from seatrial.gateway.neutral.freeform import read_freeform_tool
from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.openai_tools import read_choice, read_tool
from seatrial.gateway.neutral.tool_offer import PROVIDER_RUN, Offer
from seatrial.gateway.neutral.types import Tool, Untranslatable
from seatrial.model.trace import Dialect

ADDED_TOOLS = "additional_tools"
"""The type of an item of the input that holds tools."""

_USUAL_NAMESPACE = "functions"
_OF_SERVERS = "mcp__"
_LONGEST_NAME = 64  # that other dialects take


def read_offer(payload: Payload, losses: Losses) -> Offer:
    """The tools that the model is offered, wherever they stand. Raises Untranslatable."""
    given = list(_given(payload, losses))
    is_said = payload.get("tools") is not None or bool(given)
    found = [_read_tool(*each, losses) for each in given] if is_said else None
    choice = read_choice(payload.get("tool_choice"), None, losses)
    return Offer.of(found, losses, choice=choice, parallel=payload.get("parallel_tool_calls"))


def agent_tools(dialect: Dialect, payload: Payload) -> AgentTools:
    """How the agent of a request knows its tools; as they are, where the request cannot be read."""
    if dialect != "openai_responses":
        return PLAIN_TOOLS
    try:
        return as_agents_know(read_offer(payload, Losses("lenient")).tools)
    except Untranslatable:
        return PLAIN_TOOLS


def as_agents_know(tools: Iterable[Tool] | None) -> AgentTools:
    """Tools as the agent knows them that offers them."""
    known = {tool.name: _known_as(tool) for tool in tools or () if tool.freeform or tool.namespace}
    return AgentTools(known) if known else PLAIN_TOOLS


def _known_as(tool: Tool) -> KnownAs:
    prefix = f"{tool.namespace}__" if tool.namespace else ""
    return KnownAs(tool.name.removeprefix(prefix), tool.namespace, tool.freeform)


def whole_name(namespace: Any, name: str) -> str:
    """The name under which other dialects know a tool."""
    return f"{namespace}__{name}" if isinstance(namespace, str) and namespace.startswith(_OF_SERVERS) else name


def _given(payload: Payload, losses: Losses) -> Iterator[tuple[Payload, str, str | None]]:
    yield from _flat(tables(payload.get("tools"), "tools"), losses)
    for index, item in enumerate(items(payload.get("input"))):
        if isinstance(item, dict) and item.get("type") == ADDED_TOOLS and not losses.strict:
            yield from _flat(tables(item.get("tools"), f"input[{index}].tools"), losses)


def _flat(found: list[tuple[Payload, str]], losses: Losses) -> Iterator[tuple[Payload, str, str | None]]:
    """Tools with the namespace that is to stand before their name."""
    for tool, where in found:
        name = (text(tool.get("name")) or "") if tool.get("type") == "namespace" else ""
        of_server = name.startswith(_OF_SERVERS)
        if losses.strict or not (of_server or name == _USUAL_NAMESPACE):
            yield tool, where, None
            continue
        for inner, place in tables(tool.get("tools"), f"{where}.tools"):
            yield inner, place, name if of_server else None


def _read_tool(tool: Payload, where: str, namespace: str | None, losses: Losses) -> Tool | None:
    found = _read_bare_tool(tool, where, losses)
    if found is None or namespace is None:
        return found
    name = whole_name(namespace, found.name)
    if len(name) > _LONGEST_NAME:
        losses.leave_out(f"{where} ({name})", f"a name has {_LONGEST_NAME} characters at most")
        return None
    return replace(found, name=name, namespace=namespace)


def _read_bare_tool(tool: Payload, where: str, losses: Losses) -> Tool | None:
    kind = tool.get("type")
    if kind == "function":
        return read_tool(tool, where, losses)
    if kind == "custom" and not losses.strict:
        return read_freeform_tool(tool, where, losses)
    named = f" {tool.get('name')}" if kind == "namespace" else ""
    losses.leave_out(f"{where} ({kind}{named})", PROVIDER_RUN)
    return None
