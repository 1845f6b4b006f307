"""A trajectory in Harbor's format as the model calls it tells of: each step of the agent was one."""

import json
from collections.abc import Iterator
from typing import Any

from seatrial.integrations.values import count_of, list_of, table_of, text_of
from seatrial.model.trace import ModelCall, TokenUsage

_PATH = "imported"


def calls_of_trajectory(trajectory: dict[str, Any], model: str | None) -> list[ModelCall]:
    """The calls of a trajectory's own thread; those of sub-agents are left out. Empty if it is no trajectory."""
    model = text_of(table_of(trajectory.get("agent")).get("model_name")) or model
    told: list[dict[str, Any]] = []
    calls: list[ModelCall] = []
    for step in map(table_of, list_of(trajectory.get("steps"))):
        said = _message(step)
        if step.get("source") == "agent" and step.get("llm_call_count") != 0:
            calls.append(_call(len(calls), step, list(told), model))
        told += [said, *_observations(step)]
    return calls


def _call(index: int, step: dict[str, Any], told: list[dict[str, Any]], model: str | None) -> ModelCall:
    return ModelCall(
        index=index,
        dialect="openai_chat",
        path=_PATH,
        model=text_of(step.get("model_name")) or model,
        messages=told,
        response={"choices": [{"index": 0, "message": _message(step)}]},
        usage=_usage(table_of(step.get("metrics"))),
    )


def _message(step: dict[str, Any]) -> dict[str, Any]:
    source = step.get("source")
    role = {"agent": "assistant", "system": "system"}.get(source if isinstance(source, str) else "", "user")
    message: dict[str, Any] = {"role": role, "content": _content(step.get("message"))}
    if isinstance(reasoning := step.get("reasoning_content"), str):
        message["reasoning_content"] = reasoning
    if calls := [_tool_call(call) for call in map(table_of, list_of(step.get("tool_calls")))]:
        message["tool_calls"] = calls
    return message


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call.get("function_name"), "arguments": json.dumps(call.get("arguments"), ensure_ascii=False)}
    return {"id": call.get("tool_call_id"), "type": "function", "function": function}


def _observations(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for result in map(table_of, list_of(table_of(step.get("observation")).get("results"))):
        content = _content(result.get("content"))
        if called := text_of(result.get("source_call_id")):
            yield {"role": "tool", "tool_call_id": called, "content": content}
        else:
            yield {"role": "user", "content": content}


def _content(value: Any) -> Any:
    """A text; of a list of parts the texts, and a word for each part that is none: its file was not imported."""
    if not isinstance(value, list):
        return value if isinstance(value, str) else ""
    return "\n".join(_part(table_of(part)) for part in value)


def _part(part: dict[str, Any]) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else f"[{text_of(part.get('type')) or 'part'}]"


def _usage(metrics: dict[str, Any]) -> TokenUsage | None:
    asked, said = count_of(metrics.get("prompt_tokens")), count_of(metrics.get("completion_tokens"))
    if asked is None and said is None:
        return None
    cached = count_of(metrics.get("cached_tokens"))
    return TokenUsage(input_tokens=asked or 0, cached_tokens=cached or 0, output_tokens=said or 0)
