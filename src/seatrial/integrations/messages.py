"""A conversation that another program stored, as the model calls it must have come from.

Each answer of the model in it was a call that had all before it. When it was made and what it used is not known.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from seatrial.integrations.values import list_of
from seatrial.model.trace import ModelCall

_PATH = "imported"


def calls_of(prompt: Any, completion: Any, tools: Any, model: str | None) -> list[ModelCall]:
    """A call for each answer. `prompt` and `completion` are lists of chat messages, or texts."""
    asked, said = messages_of(prompt, "user"), messages_of(completion, "assistant")
    request = {"tools": [_tool(tool) for tool in tools]} if isinstance(tools, list) and tools else None
    answers = [at for at, message in enumerate(said) if message.get("role") == "assistant"]
    return [
        ModelCall(
            index=index,
            dialect="openai_chat",
            path=_PATH,
            model=model,
            messages=[*asked, *said[:at]],
            request=request,
            response={"choices": [{"index": 0, "message": said[at]}]},
        )
        for index, at in enumerate(answers)
    ]


def _tool(tool: Any) -> Any:
    """A definition in the form of the chat API; newer versions store what is in `function` alone."""
    if isinstance(tool, dict) and "function" not in tool and "name" in tool:
        return {"type": "function", "function": tool}
    return tool


def count_answers(completion: Any) -> int:
    """How many answers of the model a completion has."""
    return sum(message.get("role") == "assistant" for message in messages_of(completion, "assistant"))


def messages_of(value: Any, role: str) -> list[dict[str, Any]]:
    """Chat messages; a text is one of this role. What is no message is left out."""
    if isinstance(value, str):
        return [{"role": role, "content": value}] if value else []
    return [dict(_pruned(message)) for message in list_of(value) if isinstance(message, dict)]


def _pruned(message: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Without keys that say nothing: tables of some writers have every key in every message."""
    for key, value in message.items():
        if value is not None or key == "content":
            yield key, _calls(value) if key == "tool_calls" else value


def _calls(calls: Any) -> Any:
    """Tool calls in the form of the chat API; some versions store each as JSON text, some without `function`."""
    return [_call(call) for call in list_of(calls)]


def _call(call: Any) -> Any:
    if isinstance(call, str):
        try:
            call = orjson.loads(call)
        except orjson.JSONDecodeError:
            return call
    if isinstance(call, dict) and "function" not in call and "name" in call:
        function = {"name": call["name"], "arguments": call.get("arguments", "")}
        return {"id": call.get("id"), "type": "function", "function": function}
    return call
