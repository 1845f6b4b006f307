"""The tools of a request to Google, and the choice among them."""

from typing import Any, Literal

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.checks import need_list, need_table, need_text, tables, without_none
from seatrial.gateway.neutral.google_fields import leave_out_unread, spelled, usual
from seatrial.gateway.neutral.google_schemas import json_schema
from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.types import Tool, ToolChoice, Untranslatable

_CONFIG = "toolConfig.functionCallingConfig"
_READ = ("name", "description", "parameters", "parametersJsonSchema")
_MODES: dict[str, Literal["auto", "none", "any"]] = {
    "MODE_UNSPECIFIED": "auto",
    "AUTO": "auto",
    "VALIDATED": "auto",
    "ANY": "any",
    "NONE": "none",
}
_WORDS = {"auto": "AUTO", "any": "ANY", "none": "NONE", "one": "ANY"}


def read_tools(value: Any, losses: Losses) -> tuple[Tool, ...] | None:
    """The functions that the model may call. Tools that Google runs itself are left out of the offer."""
    if value is None:
        return None
    found: list[Tool] = []
    for tool, where in tables(value, "tools"):
        for name, inner in tool.items():
            if usual(name) == "functionDeclarations":
                found.extend(_read_tool(*each, losses) for each in tables(inner, f"{where}.{name}"))
            elif inner is not None:
                losses.leave_out(f"{where}.{name}", "only tools that the agent runs itself can be")
    return tuple(found) or None


def _read_tool(declaration: Payload, where: str, losses: Losses) -> Tool:
    fields = spelled(declaration)
    leave_out_unread(declaration, _READ, where, losses)
    schema: Payload | None = None
    if (given := fields.get("parametersJsonSchema")) is not None:
        schema = need_table(given, f"{where}.parametersJsonSchema")
    elif (given := fields.get("parameters")) is not None:
        schema = json_schema(given, f"{where}.parameters")
    return Tool(need_text(fields.get("name"), f"{where}.name"), fields.get("description"), schema, strict=False)


def write_tools(tools: tuple[Tool, ...] | None, losses: Losses) -> list[Payload] | None:
    """The tools in Google's words. All functions are one tool."""
    if tools is None:
        return None
    if any(tool.strict for tool in tools):
        losses.leave_out("tools.strict")
    return [{"functionDeclarations": [_write_tool(tool) for tool in tools]}]


def _write_tool(tool: Tool) -> Payload:
    return {"name": tool.name, **without_none(description=tool.description, parametersJsonSchema=tool.schema)}


def read_choice(value: Any, losses: Losses) -> ToolChoice | None:
    """Which tools the model has to use."""
    if value is None:
        return None
    outer = spelled(need_table(value, "toolConfig"))
    leave_out_unread(value, ("functionCallingConfig",), "toolConfig", losses)
    if (inner := outer.get("functionCallingConfig")) is None:
        return None
    config = spelled(need_table(inner, _CONFIG))
    leave_out_unread(inner, ("mode", "allowedFunctionNames"), _CONFIG, losses)
    mode = _MODES.get(str(config.get("mode", "AUTO")).upper())
    if mode is None:
        raise Untranslatable(f"{_CONFIG}.mode", f"there is no mode {config.get('mode')!r}")
    names = need_list(config.get("allowedFunctionNames") or [], f"{_CONFIG}.allowedFunctionNames")
    if mode == "any" and len(names) == 1:
        return ToolChoice("one", need_text(names[0], f"{_CONFIG}.allowedFunctionNames[0]"))
    if names:
        losses.leave_out(f"{_CONFIG}.allowedFunctionNames", "the others can name one tool or all")
    return ToolChoice(mode)


def write_choice(choice: ToolChoice | None) -> Payload | None:
    """The choice of tools in Google's words."""
    if choice is None:
        return None
    named = {"allowedFunctionNames": [choice.name]} if choice.mode == "one" else {}
    return {"functionCallingConfig": {"mode": _WORDS[choice.mode], **named}}
