"""Tools and the choice among them, which both of OpenAI's dialects describe almost alike."""

from typing import Any, Literal

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.checks import need_table, need_text, refuse_unread, without_none
from seatrial.gateway.neutral.types import Tool, ToolChoice, Untranslatable

_MODES: dict[str, Literal["auto", "none", "any"]] = {"auto": "auto", "none": "none", "required": "any"}
_WORDS = {mode: word for word, mode in _MODES.items()}


def read_tool(function: Payload, where: str) -> Tool:
    """A function as both dialects describe it."""
    refuse_unread(function, ("type", "name", "description", "parameters", "strict"), where)
    schema = function.get("parameters")
    return Tool(
        need_text(function.get("name"), f"{where}.name"),
        function.get("description"),
        None if schema is None else need_table(schema, f"{where}.parameters"),
        function.get("strict"),
    )


def write_tool(tool: Tool) -> Payload:
    """A function without what is a default in chat completions."""
    fields = without_none(description=tool.description, parameters=tool.schema, strict=tool.strict or None)
    return {"name": tool.name, **fields}


def read_choice(value: Any, nesting: str | None) -> ToolChoice | None:
    """The choice of tools; a single one is named inside the object `nesting`, or directly."""
    if value is None:
        return None
    if isinstance(value, str) and value in _MODES:
        return ToolChoice(_MODES[value])
    choice = need_table(value, "tool_choice")
    refuse_unread(choice, ("type", nesting or "name"), "tool_choice")
    if choice.get("type") != "function":
        raise Untranslatable("tool_choice.type", "only a function can be chosen")
    named = need_table(choice.get(nesting), f"tool_choice.{nesting}") if nesting else choice
    return ToolChoice("one", need_text(named.get("name"), "tool_choice.name"))


def write_choice(choice: ToolChoice | None, nesting: str | None) -> Any:
    """The choice of tools in OpenAI's words."""
    if choice is None:
        return None
    if choice.mode != "one":
        return _WORDS[choice.mode]
    return {"type": "function", **({nesting: {"name": choice.name}} if nesting else {"name": choice.name})}
