"""Calls of tools in a message of the model, in whichever form they come: as strangers wrote them, and never raising."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CalledTool:
    """What a model wants done. `arguments` are what it wrote, usually JSON text."""

    id: str
    name: str
    arguments: Any


def called_tools(message: Any) -> list[CalledTool]:
    """The calls in a message, in their order; none for a message that is not the model's."""
    table = message if isinstance(message, Mapping) else vars(message) if hasattr(message, "__dict__") else {}
    calls = table.get("tool_calls")
    return [_read(call) for call in calls] if table.get("role") == "assistant" and isinstance(calls, list) else []


def _read(call: Any) -> CalledTool:
    """A call with its name inside `function`, as in chat completions, or beside its id."""
    outer = _table(call)
    inner = _table(outer.get("function")) or outer
    return CalledTool(_text(outer.get("id")), _text(inner.get("name")), inner.get("arguments"))


def _table(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    return value.model_dump() if hasattr(value, "model_dump") else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
