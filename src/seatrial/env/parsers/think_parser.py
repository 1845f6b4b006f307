"""ThinkParser and MaybeThinkParser: the answer of a model that thinks first, in `<think>…</think>`."""

from collections.abc import Callable
from typing import Any

from seatrial.env.parsers.answers import THOUGHT_END, strip_think
from seatrial.env.parsers.parser import Parser, message_text

_THOUGHT_BEGIN = "<think>"


class ThinkParser(Parser):
    """For models that always think aloud: what comes after the thinking, and nothing where there is none.

    Servers that take the thinking out of the text leave nothing for it to find; use MaybeThinkParser there.
    """

    def parse(self, text: str) -> Any:
        """What follows the last `</think>`; an empty text without any."""
        return self.extract_fn(strip_think(text) if THOUGHT_END in text else "")

    def get_format_reward_func(self) -> Callable[..., float]:
        """The share of the model's messages that think once, from their beginning, and then say something."""

        def format_reward_func(completion: Any, **_: Any) -> float:
            spoken = self.get_assistant_messages(completion)
            return sum(_thinks_first(message_text(each)) for each in spoken) / len(spoken) if spoken else 0.0

        return format_reward_func


class MaybeThinkParser(Parser):
    """For models that may think aloud: what comes after the thinking, or all of it."""

    def parse(self, text: str) -> Any:
        """What follows the last `</think>`, or the whole text."""
        return self.extract_fn(strip_think(text))


def _thinks_first(text: str) -> bool:
    thinks_once = text.count(_THOUGHT_BEGIN) == text.count(THOUGHT_END) == 1
    return thinks_once and text.strip().startswith(_THOUGHT_BEGIN) and not text.endswith(THOUGHT_END)
