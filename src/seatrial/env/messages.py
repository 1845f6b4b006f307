"""Messages and answers of models, in whatever form authors, SDKs and servers give them, made into one.

A message is a table whose keys are attributes too, for authors write both `message["content"]` and `message.content`;
on the wire, in records and in comparisons it is the table that it is. A `Trunk` keeps the prompts of a rollout, each of
which goes on where the last one ended, only once. A Response is one answer of a model.
"""

from array import array
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Generic, Self, TypeVar

from seatrial.errors import EmptyModelResponseError, InvalidModelResponseError
from seatrial.model.trace import TokenUsage
from seatrial.trajectories.tokens import read_tokens

Message = dict[str, Any]
Messages = list[Message]

T = TypeVar("T")


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
        try:
            return self[key]
        except KeyError:
            return default


class ChatMessage(AttributeTable):
    """A message of a conversation. What it has no value for, such as `tool_calls`, is None as an attribute."""

    __slots__ = ()

    usual = frozenset({"content", "name", "reasoning_content", "thinking_blocks", "tool_call_id", "tool_calls"})
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


def called_tools(message: Any) -> list[ToolCall]:
    """The calls in a message of the model, in their order, with missing parts as empty text."""
    table = message if isinstance(message, Mapping) else vars(message) if hasattr(message, "__dict__") else {}
    calls = table.get("tool_calls")
    return [_read_call(call) for call in calls] if table.get("role") == "assistant" and isinstance(calls, list) else []


def _read_call(call: Any) -> ToolCall:
    """A call with its name inside `function`, as in chat completions, or beside its id."""
    outer = _table(call)
    inner = _table(outer.get("function")) or outer
    return ToolCall(
        id=_text_if_any(outer.get("id")) or "",
        name=_text_if_any(inner.get("name")) or "",
        arguments=inner.get("arguments"),
    )


def _table(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    return value.model_dump() if hasattr(value, "model_dump") else {}


def _text_if_any(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def as_messages(value: object, role: str = "user") -> Messages:
    """Messages from whatever authors write: text, a message, a list of them. Raises TypeError for anything else."""
    if value is None:
        return []
    if isinstance(value, str):
        return [chat_message({"role": role, "content": value})]
    if not isinstance(value, list) and (isinstance(value, Mapping) or hasattr(value, "model_dump")):
        return [_as_message(value)]
    if isinstance(value, Iterable):
        return [_as_message(each) for each in value]
    raise TypeError(f"messages are text or a list of tables with a role, not {type(value).__name__}")


def _as_message(value: object) -> Message:
    if isinstance(value, ChatMessage) and isinstance(value.get("role"), str):  # as nearly all are, and quick to tell
        return value
    if not isinstance(value, Mapping) and hasattr(value, "model_dump"):
        value = value.model_dump(exclude_none=True)
    if not isinstance(value, Mapping) or not isinstance(value.get("role"), str):
        raise TypeError(f"a message is a table with a role, not {repr(value)[:120]}")
    return chat_message(value)


# Conversations of which each goes on where the last one ended.


@dataclass(frozen=True, slots=True)
class Prefix(Generic[T]):
    """The first items of a row that others hold too, and that only ever grows."""

    items: "list[T] | array[Any]"
    count: int

    def to_list(self) -> list[T]:
        return list(self.items[: self.count])


@dataclass(slots=True)
class Trunk(Generic[T]):
    """Keeps sequences. One that begins like the last one shares that beginning with it."""

    items: "list[T] | array[Any]"
    """Empty at first: a list, or an array where numbers are kept."""

    def keep(self, sequence: Sequence[T]) -> Prefix[T]:
        """A sequence, in the least space."""
        same = self._same(sequence)
        if same < len(sequence):
            if same < len(self.items):  # it has taken another way
                self.items = self.items[:same]
            self.items.extend(sequence[same:])
        return Prefix(self.items, len(sequence))

    def _same(self, sequence: Sequence[T]) -> int:
        """How many items, from the first on, are the ones we have."""
        shared = min(len(self.items), len(sequence))
        if list(self.items[:shared]) == list(sequence[:shared]):
            return shared
        return next(at for at in range(shared) if self.items[at] != sequence[at])


# Responses.


@dataclass(frozen=True, slots=True)
class ResponseTokens:
    """The tokens of a prompt and its answer, as far as the server told; what it did not tell is empty."""

    prompt_ids: "array[int]"
    completion_ids: "array[int]"
    completion_logprobs: "array[float]"


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: its message, why it ended, what it used, and its tokens if the server told."""

    message: Message
    finish_reason: str | None = None
    usage: TokenUsage | None = None
    tokens: ResponseTokens | None = None
    id: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", chat_message(self.message))

    @property
    def is_truncated(self) -> bool:
        return self.finish_reason == "length"

    @property
    def choices(self) -> list[SimpleNamespace]:
        """The answer as the only choice of a chat completion, which is how environments of verifiers 0.1 read it."""
        text = self.message.get("content")
        return [SimpleNamespace(index=0, message=self.message, finish_reason=self.finish_reason, text=text)]


def as_response(value: object) -> Response:
    """A response from a chat completion, as a table or an object of an SDK, from a message, or from text.

    Raises InvalidModelResponseError.
    """
    if isinstance(value, Response):
        return value
    if isinstance(value, str):
        return Response({"role": "assistant", "content": value}, "stop")
    if not isinstance(value, Mapping) and hasattr(value, "model_dump"):
        value = value.model_dump(exclude_none=True)
    if isinstance(value, Mapping) and "choices" in value:
        return _read_completion(value)
    if isinstance(value, Mapping) and value.get("role") == "assistant":
        return Response(dict(value), "tool_calls" if value.get("tool_calls") else "stop")
    raise InvalidModelResponseError(f"a chat completion, a message or text was expected, not {repr(value)[:200]}")


def _read_completion(completion: Mapping[str, Any]) -> Response:
    from seatrial.gateway.dialects import DIALECTS, usage_of  # noqa: PLC0415 - much, and only for the first answer

    choices = completion["choices"]
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping):
        raise EmptyModelResponseError("the answer has no choices")
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise InvalidModelResponseError(f"the answer's first choice has no message: {repr(choice)[:200]}")
    return Response(
        message={"content": None, **{key: it for key, it in message.items() if it is not None}, "role": "assistant"},
        finish_reason=DIALECTS["openai_chat"].finish_reason(completion),
        usage=usage_of("openai_chat", completion),
        tokens=_read_tokens(completion),
        id=_text_if_any(completion.get("id")),
        model=_text_if_any(completion.get("model")),
    )


def _read_tokens(completion: Mapping[str, Any]) -> ResponseTokens | None:
    told = read_tokens(completion)
    if told is None:
        return None
    return ResponseTokens(
        prompt_ids=array("q", told.prompt_ids),
        completion_ids=array("q", told.completion_ids),
        completion_logprobs=array("d", told.logprobs),
    )


# `chat.completions.create`, the way in that authors know from SDKs.

_OF_MESSAGES = {"content": None, "tool_calls": None, "refusal": None}
"""What the messages of SDKs have, whatever the server said."""


def chat_namespace(complete: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> SimpleNamespace:
    """An object with `completions.create`, whose answers are objects: `answer.choices[0].message.content`.

    It raises what `complete` does, and ModelError for an answer without a message.
    """

    async def create(*, extra_body: dict[str, Any] | None = None, **request: Any) -> Any:
        values = {name: value for name, value in request.items() if value is not None}
        answer = await complete({**values, **(extra_body or {})})
        as_response(answer)  # so that an answer without a message is the model's error, not its reader's
        return _as_object(answer)

    return SimpleNamespace(completions=SimpleNamespace(create=create))


def _as_object(answer: Any) -> Any:
    if isinstance(answer, dict):
        usual = _OF_MESSAGES if "role" in answer else {}
        return SimpleNamespace(**{**usual, **{name: _as_object(value) for name, value in answer.items()}})
    return [_as_object(each) for each in answer] if isinstance(answer, list) else answer
