"""Response: one answer of a model as an environment sees it, however it was given."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from seatrial.env.chat_message import chat_message
from seatrial.env.messages import Message
from seatrial.errors import EmptyModelResponseError, InvalidModelResponseError
from seatrial.model.trace import TokenUsage
from seatrial.trajectories.tokens import read_tokens


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
        """Whether the model was cut off."""
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
        id=_text(completion.get("id")),
        model=_text(completion.get("model")),
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


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
