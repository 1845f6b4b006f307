"""Parser: the answer in what a model said is its last message, or what a function takes from it."""

import logging
from collections.abc import Callable
from typing import Any

Extract = Callable[[str], Any]


def whole_text(text: str) -> str:
    """The text as it is."""
    return text


class Parser:
    """Finds answers. `extract_fn` takes one from a text; subclasses say more by `parse`.

    A completion is text, or a list of messages, each a table or an object with `role` and `content`.
    """

    def __init__(self, extract_fn: Extract = whole_text) -> None:
        self.extract_fn = extract_fn
        self.logger = logging.getLogger(f"{__name__}.{type(self).__name__}")

    def parse(self, text: str) -> Any:
        """What a text says."""
        return self.extract_fn(text)

    def parse_answer(self, completion: Any) -> Any:
        """What the model said last; None when it said nothing."""
        if isinstance(completion, str):
            return self.parse(completion)
        spoken = self.get_assistant_messages(completion)
        return self.parse(message_text(spoken[-1])) if spoken else None

    def get_assistant_messages(self, completion: Any) -> list[Any]:
        """The messages of the model."""
        return _of_role(completion, "assistant")

    def get_system_messages(self, completion: Any) -> list[Any]:
        """The messages of the system."""
        return _of_role(completion, "system")

    def get_user_messages(self, completion: Any) -> list[Any]:
        """The messages of the user."""
        return _of_role(completion, "user")

    def get_tool_messages(self, completion: Any) -> list[Any]:
        """The messages of tools."""
        return _of_role(completion, "tool")

    def get_format_reward_func(self) -> Callable[..., float]:
        """A reward function for how well a completion keeps to the format; here, each does."""

        def format_reward_func(completion: Any, **_: Any) -> float:
            return 1.0

        return format_reward_func


def message_field(message: Any, name: str) -> Any:
    """A field of a message; None when it has none of that name."""
    return message.get(name) if isinstance(message, dict) else getattr(message, name, None)


def message_text(message: Any) -> str:
    """The text of a message, of which its parts may be of several kinds."""
    content = message_field(message, "content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (_part_text(part) for part in content)
    return " ".join(text for text in texts if isinstance(text, str)).strip()


def _part_text(part: Any) -> Any:
    if isinstance(part, dict):
        return part.get("text") if part.get("type") == "text" else None
    return getattr(part, "text", None)


def _of_role(completion: Any, role: str) -> list[Any]:
    return [message for message in completion if message_field(message, "role") == role]
