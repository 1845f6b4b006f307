"""`chat.completions.create`, the way in that authors know from SDKs, for whatever completes requests."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from seatrial.env.response import as_response

_OF_MESSAGES = {"content": None, "tool_calls": None, "refusal": None}
"""What the messages of SDKs have, whatever the server said."""


def chat_namespace(complete: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> SimpleNamespace:
    """An object with `completions.create`, whose answers are objects: `answer.choices[0].message.content`.

    It raises what `complete` does, and ModelError for an answer without a message.
    """

    async def create(*, extra_body: dict[str, Any] | None = None, **request: Any) -> Any:
        values = {name: value for name, value in request.items() if value is not None}
        answer = await complete({**values, **(extra_body or {})})
        as_response(answer)  # so that nonsense is the model's fault, not that of whoever reads it
        return _as_object(answer)

    return SimpleNamespace(completions=SimpleNamespace(create=create))


def _as_object(answer: Any) -> Any:
    if isinstance(answer, dict):
        usual = _OF_MESSAGES if "role" in answer else {}
        return SimpleNamespace(**{**usual, **{name: _as_object(value) for name, value in answer.items()}})
    return [_as_object(each) for each in answer] if isinstance(answer, list) else answer
