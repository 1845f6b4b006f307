"""What readers and writers of all dialects share: nothing gets lost unseen, and the same thing is said the same way.

What a reader does not understand is noted or refused by name. Effort, errors inside streams, tools that want plain text
and the offer of tools are read here for all dialects that have them.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import orjson

from seatrial.gateway.fields import Payload, told_error
from seatrial.gateway.neutral.types import (
    FREEFORM_ARGUMENT,
    Delta,
    Failed,
    Losses,
    Request,
    Stop,
    Tool,
    ToolChoice,
    Untranslatable,
)
from seatrial.messages import Item, Message, Parts, Picture, ToolCall
from seatrial.model.base import MAX_JSON_DEPTH
from seatrial.untrusted.json import dump, is_too_deep, mapping, parse_object, text

HINTS = frozenset(
    {
        "cache_control",
        "client_metadata",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "speed",
        "store",
        "stream_options",
        "user",
    }
)
"""What concerns only the provider's books, caches and queues: it may be left out, for it changes no answer."""

_SAID_ANYWAY: Mapping[str, tuple[Any, ...]] = {
    "store": (False,),
    "service_tier": ("auto", "default"),
    "stream_options": ({"include_usage": True},),
}
"""Hints that ask for what happens without them: they are not even noted."""

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)
_HINTS_INSIDE = frozenset({"cache_control"})
FAILED = "Error: "
"""Put before the output of a tool that failed: other dialects have no flag for it, and the model must see it."""

NOT_JSON = "the arguments of the call are not a JSON object"


def leave_unread(
    given: Payload,
    read: Iterable[str],
    losses: Losses,
    where: str = "",
    defaults: Mapping[str, tuple[Any, ...]] | None = None,
) -> None:
    """Leave out each field that is set, neither read nor at its default. Raises Untranslatable as `losses` does."""
    hints, usual = (_HINTS_INSIDE, defaults or {}) if where else (HINTS, {**_SAID_ANYWAY, **(defaults or {})})
    for name, value in given.items():
        if name in read or value is None or value in usual.get(name, ()):
            continue
        if name in hints:
            losses.hint(name)
        else:
            losses.leave_out(f"{where}.{name}" if where else name)


def need_table(value: Any, where: str) -> Payload:
    if not isinstance(value, dict):
        raise Untranslatable(where, "it has to be an object")
    return value


def need_list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise Untranslatable(where, "it has to be an array")
    return value


def need_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise Untranslatable(where, "it has to be text")
    return value


def tables(value: Any, where: str) -> list[tuple[Payload, str]]:
    """The objects of an array, each with its place; none when there is no array."""
    if value is None:
        return []
    return [(need_table(item, f"{where}[{i}]"), f"{where}[{i}]") for i, item in enumerate(need_list(value, where))]


def plain_text(parts: Parts) -> str | None:
    """The text of parts that are no more than one text, which every dialect writes as a plain string."""
    if not parts:
        return ""
    first = parts[0]
    return first if len(parts) == 1 and isinstance(first, str) else None


def inline_data(picture: Picture) -> tuple[str, str] | None:
    """The type and the base64 of a picture that its URL holds; None for one of the web."""
    if not picture.url.startswith("data:"):
        return None
    found = _DATA_URL.fullmatch(picture.url)
    if not found:
        raise Untranslatable(picture.where or "image", "a data URL has to be base64")
    return found[1], found[2]


def arguments_object(arguments: str, where: str) -> Payload:
    """The arguments of a call as an object; none at all is an empty one."""
    if not arguments.strip():
        return {}
    try:
        value = orjson.loads(arguments)
        exact = value == json.loads(arguments)
    except (ValueError, RecursionError):
        raise Untranslatable(where, NOT_JSON) from None
    if not isinstance(value, dict):
        raise Untranslatable(where, NOT_JSON)
    if not exact:
        raise Untranslatable(where, "it holds a number that JSON parsers round")
    if is_too_deep(value):  # then an answer that holds them could not be written
        raise Untranslatable(where, f"it is nested deeper than {MAX_JSON_DEPTH} levels")
    return value


MALFORMED = "malformed_arguments"
"""The key under which arguments of a call stand that are no JSON object, where a dialect wants one."""


def arguments_said(arguments: str, where: str, losses: Losses) -> Payload:
    """The arguments of an earlier call as an object, whatever the model wrote there; strictly, only if they are one."""
    try:
        return arguments_object(arguments, where)
    except Untranslatable:
        if losses.strict:
            raise
        return {MALFORMED: arguments}


def arguments_answered(call: ToolCall, stop: Stop) -> Payload:
    """The arguments of a call in an answer as an object, where a dialect wants one.

    A model may write anything there, which is for the agent to deal with: a stream would carry it too. So it is handed
    over as it is, and a trial cannot become void by it.
    """
    try:
        return arguments_object(call.arguments, f"arguments of {call.name}")
    except Untranslatable:
        # cut in the middle of its arguments, as Anthropic's own models are
        return {} if stop == "length" else {MALFORMED: call.arguments}


def says_nothing(item: Item) -> bool:
    """Whether it is empty text: Anthropic refuses such a block when the agent hands it back."""
    return isinstance(item, Message) and not item.text


def arguments_text(value: Payload, where: str) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        raise Untranslatable(where, NOT_JSON) from None


def without_none(**fields: Any) -> Payload:
    return {name: value for name, value in fields.items() if value is not None}


def seconds(value: Any) -> int:
    """A time in whole seconds; some servers give fractions. 0 for what is none."""
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**53 else 0


# Effort: the words of all dialects in one row, and the nearest one that a dialect has.

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""From the least to the most."""

_BUDGETS = ((4096, "low"), (16384, "medium"))
_MOST = "high"


def nearest(effort: str, known: tuple[str, ...]) -> str:
    """The word among `known`, which are in order, that is closest to one of EFFORTS; of two, the one for more."""
    wanted = EFFORTS.index(effort)
    return min(known, key=lambda word: (abs(EFFORTS.index(word) - wanted), -EFFORTS.index(word)))


def effort_of(request: Request) -> Any:
    """The effort that a request asks for in a word, or by a number of tokens to think with; None if it says neither."""
    thinking = request.thinking
    if request.effort is not None or thinking is None or thinking.budget is None:
        return request.effort
    return next((word for most, word in _BUDGETS if thinking.budget < most), _MOST)


def is_known(effort: Any) -> bool:
    return isinstance(effort, str) and effort in EFFORTS


def read_failure(parsed: Any) -> list[Delta]:
    told = told_error(parsed)
    return [Failed(told.type, told.message)] if told else []


# Tools that want plain text from the model, of OpenAI's responses API, as functions with one argument. Codex has its
# patches written so. Other dialects know only functions: the model is offered one, and what it writes into its argument
# goes back to the agent as the text that it expects.


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
    grammar = text(mapping(shape).get("definition"))
    if grammar is None:
        return "The whole text for the tool."
    return f"The whole text for the tool, in this grammar ({mapping(shape).get('syntax')}):\n{grammar}"


def read_freeform_call(item: Payload, where: str) -> ToolCall:
    """An earlier call of such a tool."""
    call_id, name, said = (need_text(item.get(key), f"{where}.{key}") for key in ("call_id", "name", "input"))
    return ToolCall(call_id, name, dump({FREEFORM_ARGUMENT: said}), freeform=True)


def freeform_text(arguments: str) -> str:
    """The text that the arguments of a call hold; all of them, where the model did not do as it was told."""
    said = (parse_object(arguments) or {}).get(FREEFORM_ARGUMENT)
    return said if isinstance(said, str) else arguments


_PIECE = 16
_MOST_PIECES = 64


def pieces(text: str) -> Iterator[str]:
    """The text in several parts, at most 64 of them; nothing for no text."""
    size = max(_PIECE, -(-len(text) // _MOST_PIECES))
    return (text[start : start + size] for start in range(0, len(text), size))


PROVIDER_RUN = "only tools that the agent runs itself can be, and that are described by a schema"


class Offer(NamedTuple):
    """The tools that a model is offered, which of them it has to use, and whether several at once."""

    tools: tuple[Tool, ...] | None
    choice: ToolChoice | None
    parallel: bool | None

    @classmethod
    def of(
        cls,
        found: Sequence[Tool | None] | None,
        losses: Losses,
        *,
        choice: ToolChoice | None,
        parallel: bool | None,
    ) -> Self:
        """The offer of what was found, where None stands for a tool that was left out.

        Without a tool there is nothing to choose from, and a choice of a tool that was left out is free.
        """
        if found is None or all(found):
            return cls(None if found is None else tuple(filter(None, found)), choice, parallel)
        tools = tuple(filter(None, found))
        named = choice.name if choice else None
        if named is not None and all(tool.name != named for tool in tools):
            losses.no_place("choice", "it names a tool that cannot be offered")
            choice = ToolChoice("auto")
        return cls(tools, choice, parallel) if tools else cls(None, None, None)
