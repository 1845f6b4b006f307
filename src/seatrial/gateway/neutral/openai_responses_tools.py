"""The tools of a request to OpenAI's responses API, which may stand in three places.

Beside `tools` itself, Codex adds some by an item of the input, grouped in namespaces. Those of the usual namespace are
called as if they were in none; of others only this API knows how to call them.
"""

from collections.abc import Iterator

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


def read_offer(payload: Payload, losses: Losses) -> Offer:
    """The tools that the model is offered, wherever they stand. Raises Untranslatable."""
    given = list(_given(payload, losses))
    is_said = payload.get("tools") is not None or bool(given)
    found = [_read_tool(*each, losses) for each in given] if is_said else None
    choice = read_choice(payload.get("tool_choice"), None, losses)
    return Offer.of(found, losses, choice=choice, parallel=payload.get("parallel_tool_calls"))


def freeform_names(dialect: Dialect, payload: Payload) -> tuple[str, ...]:
    """The tools of a request whose calls its agent wants as plain text; none where the request cannot be read."""
    if dialect != "openai_responses":
        return ()
    try:
        found = [tool for tool, _ in _given(payload, Losses("lenient")) if tool.get("type") == "custom"]
    except Untranslatable:
        return ()
    return tuple(tool["name"] for tool in found if text(tool.get("name")))


def _given(payload: Payload, losses: Losses) -> Iterator[tuple[Payload, str]]:
    yield from _flat(tables(payload.get("tools"), "tools"), losses)
    for index, item in enumerate(items(payload.get("input"))):
        if isinstance(item, dict) and item.get("type") == ADDED_TOOLS and not losses.strict:
            yield from _flat(tables(item.get("tools"), f"input[{index}].tools"), losses)


def _flat(found: list[tuple[Payload, str]], losses: Losses) -> Iterator[tuple[Payload, str]]:
    for tool, where in found:
        usual = tool.get("type") == "namespace" and tool.get("name") == _USUAL_NAMESPACE
        yield from tables(tool.get("tools"), f"{where}.tools") if usual and not losses.strict else [(tool, where)]


def _read_tool(tool: Payload, where: str, losses: Losses) -> Tool | None:
    kind = tool.get("type")
    if kind == "function":
        return read_tool(tool, where, losses)
    if kind == "custom" and not losses.strict:
        return read_freeform_tool(tool, where, losses)
    named = f" {tool.get('name')}" if kind == "namespace" else ""
    losses.leave_out(f"{where} ({kind}{named})", PROVIDER_RUN)
    return None
