"""Messages as tables whose keys are attributes too: `message["content"]` and `message.content` are the same.

Authors of environments write both. On the wire, in records and in comparisons a message is the table that it is.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

_USUAL = frozenset({"content", "name", "reasoning_content", "thinking_blocks", "tool_call_id", "tool_calls"})


class AttributeTable(dict[str, Any]):
    """A table whose keys are attributes too."""

    __slots__ = ()

    usual: ClassVar[frozenset[str]] = frozenset()
    """Attributes that are None when the table does not have them."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name in self.usual:
            return None
        raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {', '.join(self) or 'nothing'}")

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value

    def model_dump(self, *, exclude_none: bool = False, **_options: Any) -> dict[str, Any]:
        """A plain table of the same, as models of pydantic give it."""
        return {name: value for name, value in self.items() if not (exclude_none and value is None)}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, **_options: Any) -> Self:
        """Another one with some values changed."""
        return type(self)({**self, **(update or {})})


class ToolCall(AttributeTable):
    """A call of a tool in the form of chat completions; `name` and `arguments` are also reached directly."""

    __slots__ = ()

    flat: ClassVar[tuple[str, ...]] = ("name", "arguments")
    """Keys of the function that are also keys of the table."""

    def __init__(self, *given: Any, **fields: Any) -> None:
        super().__init__(*given, **fields)
        flat = {name: self.pop(name) for name in self.flat if name in self}
        if flat or "function" in self:  # a call of another type stays as it is
            self.setdefault("type", "function")
            self["function"] = AttributeTable({**(self.get("function") or {}), **flat})

    def __missing__(self, key: str) -> Any:
        if key in self.flat:
            return super().__getitem__("function")[key]
        raise KeyError(key)

    def __getattr__(self, name: str) -> Any:
        return self.get(name) if name in self.flat else super().__getattr__(name)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or of one of the function's."""
        try:
            return self[key]
        except KeyError:
            return default


class ChatMessage(AttributeTable):
    """A message of a conversation. What it has no value for, such as `tool_calls`, is None as an attribute."""

    __slots__ = ()

    usual = _USUAL
    fixed_role: ClassVar[str | None] = None
    """The role of all messages of a subclass that has one."""

    def __init__(self, *given: Any, **fields: Any) -> None:
        super().__init__(role=self.fixed_role) if self.fixed_role else super().__init__()
        self.update(*given, **fields)
        calls = self.get("tool_calls")
        if calls:
            self["tool_calls"] = [_tool_call(each) for each in calls]


class SystemMessage(ChatMessage):
    """What the model is told before anything else."""

    __slots__ = ()
    fixed_role = "system"

    @classmethod
    def from_path(cls, path: str | Path) -> Self:
        """A message with the text of a file. Raises OSError."""
        return cls(content=Path(path).read_text(encoding="utf-8"))


class UserMessage(ChatMessage):
    """What a user, or the environment as one, says."""

    __slots__ = ()
    fixed_role = "user"


class AssistantMessage(ChatMessage):
    """What the model says."""

    __slots__ = ()
    fixed_role = "assistant"


class ToolMessage(ChatMessage):
    """What a tool returned."""

    __slots__ = ()
    fixed_role = "tool"


_KINDS = {
    "assistant": AssistantMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "user": UserMessage,
}


def chat_message(table: Mapping[str, Any]) -> ChatMessage:
    """A message of the class that its role has; the very same if it is one already."""
    return table if isinstance(table, ChatMessage) else _KINDS.get(table["role"], ChatMessage)(table)


def _tool_call(given: Any) -> Any:
    if not isinstance(given, Mapping) and hasattr(given, "model_dump"):
        given = given.model_dump(exclude_none=True)
    return ToolCall(given) if isinstance(given, Mapping) and not isinstance(given, ToolCall) else given
