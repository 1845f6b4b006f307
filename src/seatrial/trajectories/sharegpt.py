"""A dialogue in ShareGPT's form: turns of human, gpt and tool, with calls of tools written into the text.

Calls, results and thoughts are marked as Hermes models have them, which most trainers know. Turns alternate: what
people say in a row is one turn, and so are the results of several calls.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Literal

from seatrial.gateway.dialects.fields import dump, parse_object
from seatrial.gateway.ended import is_too_deep
from seatrial.trajectories.chat_lines import said_text
from seatrial.trajectories.dialogue import Dialogue
from seatrial.trajectories.items import Item, Thought, ToolOutput, ToolUse, Words, as_text, is_model_side, plain_words

_SYSTEM_ROLES = ("system", "developer")
Speaker = Literal["system", "human", "gpt", "tool"]


def sharegpt_line(dialogue: Dialogue) -> dict[str, Any]:
    """A line of training data. System prompts in the middle of a conversation are turns of the human."""
    items = list(dialogue.items)
    begin = next((at for at, item in enumerate(items) if not _is_system(item)), len(items))
    system = "\n\n".join(plain_words(item.pieces) for item in items[:begin] if isinstance(item, Words))
    turns = [{"from": who, "value": "\n".join(filter(None, said))} for who, said in _turns(items[begin:])]
    functions = [tool["function"] for tool in dialogue.tools]
    return {"conversations": turns, "system": system, "tools": dump(functions) if functions else ""}


def _turns(items: Sequence[Item]) -> Iterator[tuple[Speaker, list[str]]]:
    for speaker, group in groupby(items, _speaker):
        yield speaker, [_value(item) for item in group]


def _speaker(item: Item) -> Speaker:
    if isinstance(item, ToolOutput):
        return "tool"
    return "gpt" if is_model_side(item) else "human"


def _value(item: Item) -> str:
    if isinstance(item, ToolOutput):
        return f"<tool_response>\n{said_text(Words('tool', item.pieces))}\n</tool_response>"
    if isinstance(item, ToolUse):
        given = parse_object(item.arguments) if isinstance(item.arguments, str) else item.arguments
        call = {
            "name": item.name,
            "arguments": as_text(item.arguments) if given is None or is_too_deep(given) else given,
        }
        return f"<tool_call>\n{dump(call)}\n</tool_call>"
    if isinstance(item, Thought):
        return f"<think>\n{item.text}\n</think>" if item.text else ""
    return said_text(item)


def _is_system(item: Item) -> bool:
    return isinstance(item, Words) and item.role in _SYSTEM_ROLES
