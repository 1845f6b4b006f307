"""Tools that want plain text from the model, of OpenAI's responses API, as functions with one argument.

Codex has its patches written so. Other dialects know only functions: the model is offered one, and what it writes into
its argument goes back to the agent as the text that it expects.
"""

from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import dump, parse_object, table, text
from seatrial.gateway.neutral.checks import leave_unread, need_text
from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.types import FREEFORM_ARGUMENT, Called, Tool


def read_freeform_tool(tool: Payload, where: str, losses: Losses) -> Tool:
    """The function that stands for such a tool. A grammar of its text is told to the model in the description."""
    leave_unread(tool, ("type", "name", "description", "format", "strict"), losses, where)
    name = need_text(tool.get("name"), f"{where}.name")
    argument = {"type": "string", "description": _what_is_wanted(tool.get("format"))}
    schema = {
        "type": "object",
        "properties": {FREEFORM_ARGUMENT: argument},
        "required": [FREEFORM_ARGUMENT],
        "additionalProperties": False,
    }
    return Tool(name, text(tool.get("description")), schema, strict=False, freeform=True)


def _what_is_wanted(shape: Any) -> str:
    grammar = text(table(shape).get("definition"))
    if grammar is None:
        return "The whole text for the tool."
    return f"The whole text for the tool, in this grammar ({table(shape).get('syntax')}):\n{grammar}"


def read_freeform_call(item: Payload, where: str) -> Called:
    """An earlier call of such a tool."""
    call_id, name, said = (need_text(item.get(key), f"{where}.{key}") for key in ("call_id", "name", "input"))
    return Called(call_id, name, dump({FREEFORM_ARGUMENT: said}), freeform=True)


def freeform_text(arguments: str) -> str:
    """The text that the arguments of a call hold; all of them, where the model did not do as it was told."""
    said = (parse_object(arguments) or {}).get(FREEFORM_ARGUMENT)
    return said if isinstance(said, str) else arguments
