"""AskedCall: what a script looks at in a request, whichever dialect it is in.

Requests are strangers' JSON, and scripts are there to drive agents that nobody has seen before. So nothing here raises:
what is not understood is not seen.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.dialects.fields import items, table, text
from seatrial.gateway.marks import without_marks
from seatrial.gateway.neutral.openai_responses_tools import whole_name

Speaker = Literal["user", "tool", "model", "system"]

_ROLES: dict[str, Speaker] = {
    "assistant": "model",
    "model": "model",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
_TEXTS = ("text", "content", "output", "parts")


@dataclass(frozen=True, slots=True)
class AskedCall:
    """One call: the tools that it offers, its model, and what was said since the model spoke last.

    `turn` counts from 1, by how often the model has spoken in the conversation. `opening` is the same for all calls of
    one conversation, and `by` is `tool` when something that was said last came from a tool.
    """

    tools: tuple[str, ...]
    model: str
    last: str
    by: Speaker
    turn: int
    opening: int


def read_asked(request: ModelRequest) -> AskedCall:
    """What a script sees of a request."""
    payload = request.payload or {}
    messages = without_marks(DIALECTS[request.dialect].messages(payload)) if request.dialect else []
    speakers = [_speaker(each) for each in messages]
    heard = max((place for place, who in enumerate(speakers) if who == "model"), default=-1) + 1
    since = [(who, each) for who, each in zip(speakers[heard:], messages[heard:], strict=True) if who != "system"]
    return AskedCall(
        tools=tuple(name for tool in items(payload.get("tools")) for name in _tool_names(tool)),
        model=text(payload.get("model")) or "",
        last="\n".join(said for _, each in since for said in _texts(each)),
        by="tool" if any(who == "tool" for who, _ in since) else "user" if since else "model",
        turn=1 + _turns(speakers),
        opening=_opening(speakers, messages),
    )


def _turns(speakers: list[Speaker]) -> int:
    """How often the model has spoken: its thoughts, words and calls in a row are one turn."""
    before: list[Speaker] = ["user", *speakers]
    return sum(1 for last, now in zip(before, speakers, strict=False) if now == "model" != last)


def _opening(speakers: list[Speaker], messages: list[Any]) -> int:
    first = next((each for who, each in zip(speakers, messages, strict=True) if who == "user"), None)
    try:
        return zlib.crc32(orjson.dumps(first))
    except TypeError:  # nested too deeply to be written
        return 0


def _speaker(message: Any) -> Speaker:
    known = table(message)
    kind, role = text(known.get("type")) or "message", text(known.get("role"))
    inner = [table(each) for each in (*items(known.get("content")), *items(known.get("parts")))]
    if kind.endswith("_output") or any(map(_is_result, inner)):
        return "tool"
    if role is not None:
        return _ROLES.get(role, "user")
    # Without a role it is an item of a response: a thought of the model, or its call of a tool.
    return "user" if kind == "message" else "model"


def _is_result(block: dict[str, Any]) -> bool:
    return block.get("type") == "tool_result" or "functionResponse" in block


def _tool_names(tool: Any) -> Iterator[str]:
    """The names under which a model calls a tool, or the tools of a namespace."""
    known = table(tool)
    listed = (known.get(name) for name in ("functionDeclarations", "function_declarations", "tools"))
    inner = [table(each) for several in listed for each in items(several)]
    within = known.get("name") if known.get("type") == "namespace" else None
    yield from (whole_name(within, name) for name in filter(None, map(_tool_name, inner or [known])))


def _tool_name(tool: dict[str, Any]) -> str | None:
    """What the provider runs itself has its type for a name."""
    within = (table(tool.get(kind)).get("name") for kind in ("function", "custom"))
    return next(filter(None, map(text, (tool.get("name"), *within, tool.get("type")))), None)


def _texts(value: Any) -> Iterator[str]:
    """All that a message says, in the order in which it says it."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, list):
            waiting += reversed(each)
        elif isinstance(each, dict):
            waiting += [each[name] for name in reversed(_TEXTS) if name in each]
            # What a function gave back may have any keys.
            waiting += reversed([*table(table(each.get("functionResponse")).get("response")).values()])
