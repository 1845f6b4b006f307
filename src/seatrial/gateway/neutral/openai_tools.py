"""What both of OpenAI's dialects say almost alike: tools, the choice among them, users and effort."""

from typing import Any, Literal

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.checks import leave_unread, need_table, need_text, without_none
from seatrial.gateway.neutral.efforts import effort_of, is_known, nearest
from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.types import Request, Tool, ToolChoice

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_MODES: dict[str, Literal["auto", "none", "any"]] = {"auto": "auto", "none": "none", "required": "any"}
_WORDS = {mode: word for word, mode in _MODES.items()}


def read_tool(function: Payload, where: str, losses: Losses) -> Tool:
    """A function as both dialects describe it."""
    leave_unread(function, ("type", "name", "description", "parameters", "strict"), losses, where)
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


def read_choice(value: Any, nesting: str | None, losses: Losses) -> ToolChoice | None:
    """The choice of tools; a single one is named inside the object `nesting`, or directly."""
    if value is None:
        return None
    if isinstance(value, str) and value in _MODES:
        return ToolChoice(_MODES[value])
    choice = need_table(value, "tool_choice")
    if choice.get("type") not in ("function", "custom"):
        losses.leave_out("tool_choice", "only a tool that the agent runs itself can be chosen")
        return ToolChoice("auto")
    leave_unread(choice, ("type", nesting or "name"), losses, "tool_choice")
    named = need_table(choice.get(nesting), f"tool_choice.{nesting}") if nesting else choice
    return ToolChoice("one", need_text(named.get("name"), "tool_choice.name"))


def write_choice(choice: ToolChoice | None, nesting: str | None) -> Any:
    """The choice of tools in OpenAI's words."""
    if choice is None:
        return None
    if choice.mode != "one":
        return _WORDS[choice.mode]
    return {"type": "function", **({nesting: {"name": choice.name}} if nesting else {"name": choice.name})}


def read_user(value: Any, losses: Losses) -> str | None:
    """For whom the answer is."""
    if value is not None and not isinstance(value, str):
        losses.hint("user")
        return None
    return value


def write_effort(request: Request, losses: Losses) -> Any:
    """How hard to think. A word that is not known is passed on, for the provider to judge."""
    effort = effort_of(request)
    if effort is None:
        return None
    if request.thinking is not None and request.thinking.on is False:
        losses.no_place("effort", "the request says too that the model is not to think")
        return None
    return nearest(effort, _EFFORTS) if is_known(effort) else effort
