"""StrictUpstream: a model of one dialect that refuses every field and every shape that its API does not document."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.upstreams.replies import error_reply
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.trace import DialectName

_FIELDS: dict[DialectName, str] = {
    "openai_chat": "model messages tools tool_choice parallel_tool_calls max_completion_tokens temperature top_p stop "
    "seed response_format reasoning_effort verbosity user stream stream_options",
    "openai_responses": "model input instructions tools tool_choice parallel_tool_calls max_output_tokens temperature "
    "top_p text reasoning include store user stream",
    "anthropic": "model messages system max_tokens tools tool_choice temperature top_p stop_sequences thinking "
    "output_config metadata stream",
}
_MESSAGES = {
    "system": "role content",
    "developer": "role content",
    "user": "role content",
    "assistant": "role content tool_calls refusal reasoning_content",
    "tool": "role content tool_call_id",
}
_ITEMS = {
    "message": "type role content id status",
    "reasoning": "type id summary content encrypted_content",
    "function_call": "type call_id name arguments",
    "function_call_output": "type call_id output",
}
_BLOCKS = {
    "text": "type text",
    "image": "type source",
    "thinking": "type thinking signature",
    "tool_use": "type id name input",
    "tool_result": "type tool_use_id content",
}


def complaint(dialect: DialectName, payload: dict[str, Any]) -> str | None:
    """What the API would say about a request, None if it takes it."""
    try:
        _check(payload, _FIELDS[dialect], "request")
        {"openai_chat": _chat, "openai_responses": _responses, "anthropic": _anthropic}[dialect](payload)
    except ValueError as error:
        return str(error)
    return None


def _check(value: Any, fields: str, where: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is no object")  # noqa: TRY004 - the callers await one kind of error
    if unknown := sorted(set(value) - set(fields.split())):
        raise ValueError(f"Unknown parameter: '{where}.{unknown[0]}'")


def _chat(payload: dict[str, Any]) -> None:
    open_calls: set[str] = set()
    for index, message in enumerate(payload["messages"]):
        _check(message, _MESSAGES[message["role"]], f"messages[{index}]")
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            raise ValueError(f"messages[{index}]: the calls {sorted(open_calls)} have no output")
        open_calls |= {call["id"] for call in message.get("tool_calls", ())}
        if message["role"] == "assistant" and not (message.get("content") or message.get("tool_calls")):
            raise ValueError(f"messages[{index}] says nothing")
    for tool in _some_tools(payload):
        _check(tool, "type function", "tools")
        _check(tool["function"], "name description parameters strict", "tools.function")


def _responses(payload: dict[str, Any]) -> None:
    for index, item in enumerate(payload["input"]):
        _check(item, _ITEMS[item["type"]], f"input[{index}]")
    _check(payload.get("reasoning", {}), "effort summary", "reasoning")
    for tool in _some_tools(payload):
        _check(tool, "type name description parameters strict", "tools")


def _anthropic(payload: dict[str, Any]) -> None:
    sides = [message["role"] for message in payload["messages"]]
    if sides[0] != "user" or any(one == other for one, other in pairwise(sides)):
        raise ValueError(f"messages: roles must alternate between user and assistant, got {sides}")
    for index, message in enumerate(payload["messages"]):
        _check(message, "role content", f"messages[{index}]")
        if not message["content"]:
            raise ValueError(f"messages[{index}] is empty")
        for block in message["content"] if isinstance(message["content"], list) else ():
            _check(block, _BLOCKS[block["type"]], f"messages[{index}].content")
            if block["type"] == "thinking" and not block["signature"]:
                raise ValueError(f"messages[{index}]: Invalid `signature` in `thinking` block")
    thinks = payload.get("thinking", {}).get("type") in ("enabled", "adaptive")
    if thinks and (payload.get("temperature", 1) != 1 or payload.get("tool_choice", {}).get("type") in ("any", "tool")):
        raise ValueError("thinking goes with a temperature of 1 and a free choice of tools only")
    for tool in _some_tools(payload):
        _check(tool, "name description input_schema strict", "tools")


def _some_tools(payload: dict[str, Any]) -> list[Any]:
    tools: list[Any] = payload.get("tools", [])
    if not tools and {"tools", "tool_choice", "parallel_tool_calls"} & payload.keys():
        raise ValueError("tools: there has to be one")
    return tools


class StrictUpstream:
    """Answers line by line like a script, in one dialect, and keeps the requests that it took."""

    def __init__(self, dialect: DialectName, lines: Sequence[object] = ("ok",), refuses: Sequence[str] = ()) -> None:
        """`refuses` are fields that this model does not support, though its dialect has them."""
        self.dialects = frozenset({dialect})
        self.taken: list[ModelRequest] = []
        self.asked = 0
        self._dialect = dialect
        self._model = ScriptedModel(lines)
        self._refuses = refuses

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        """The next line, or a 400 in the words of the dialect."""
        assert request.payload is not None
        assert request.dialect == self._dialect
        self.asked += 1
        refused = next((name for name in self._refuses if name in request.payload), None)
        if refused is not None:
            yield error_reply(request, 400, f"Unsupported parameter: '{refused}' is not supported with this model.")
        elif (reason := complaint(self._dialect, request.payload)) is not None:
            yield error_reply(request, 400, reason)
        else:
            self.taken.append(request)
            async with self._model.ask(request) as reply:
                yield reply
