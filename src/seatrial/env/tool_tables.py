"""Tools as chat completions take them, from the forms in which environments give them."""

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.errors import UsageError

_FUNCTION_KEYS = ("name", "description", "parameters", "strict")


def as_tool_tables(tools: Sequence[Any] | None) -> list[dict[str, Any]] | None:
    """Tables of `type` and `function`; None when there are no tools. Raises UsageError for one that is none.

    A tool is such a table already, or one of `name`, `description` and `parameters`, or an object that becomes one of
    them by `model_dump`.
    """
    return [_as_table(tool, number) for number, tool in enumerate(tools)] if tools else None


def _as_table(tool: Any, number: int) -> dict[str, Any]:
    if not isinstance(tool, Mapping) and hasattr(tool, "model_dump"):
        tool = tool.model_dump(exclude_none=True)
    if isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping):
        return {"type": "function", **tool}
    if isinstance(tool, Mapping) and isinstance(tool.get("name"), str):
        named = {key: tool[key] for key in _FUNCTION_KEYS if tool.get(key) is not None}
        return {"type": "function", "function": named}
    raise UsageError(
        f"tool {number} is {repr(tool)[:120]}; expected a table with `name`, `description` and `parameters`, "
        "or one of chat completions with `type` and `function`"
    )
