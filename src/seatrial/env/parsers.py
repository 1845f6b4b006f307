"""Parsers: how an answer is found in what a model said.

Parser takes the last message, or what a function finds in it; the think parsers take what comes after the thinking,
XMLParser takes named fields. The functions in between find a box, a row of hashes, or the end of the thinking.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from seatrial.errors import UsageError

Extract = Callable[[str], Any]


def whole_text(text: str) -> str:
    return text


class Parser:
    """Finds answers. `extract_fn` takes one from a text; subclasses say more by `parse`.

    A completion is text, or a list of messages, each a table or an object with `role` and `content`.
    """

    def __init__(self, extract_fn: Extract = whole_text) -> None:
        self.extract_fn = extract_fn
        self.logger = logging.getLogger(f"{__name__}.{type(self).__name__}")

    def parse(self, text: str) -> Any:
        return self.extract_fn(text)

    def parse_answer(self, completion: Any) -> Any:
        """What the model said last; None when it said nothing."""
        if isinstance(completion, str):
            return self.parse(completion)
        spoken = self.get_assistant_messages(completion)
        return self.parse(message_text(spoken[-1])) if spoken else None

    def get_assistant_messages(self, completion: Any) -> list[Any]:
        return _of_role(completion, "assistant")

    def get_system_messages(self, completion: Any) -> list[Any]:
        return _of_role(completion, "system")

    def get_user_messages(self, completion: Any) -> list[Any]:
        return _of_role(completion, "user")

    def get_tool_messages(self, completion: Any) -> list[Any]:
        return _of_role(completion, "tool")

    def get_format_reward_func(self) -> Callable[..., float]:
        """A reward function for how well a completion keeps to the format; here, each does."""

        def format_reward_func(completion: Any, **_: Any) -> float:
            return 1.0

        return format_reward_func


def message_field(message: Any, name: str) -> Any:
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


# Where answers usually stand in a text.

_BOX = r"\boxed{"
_THOUGHT_BEGIN, _THOUGHT_END = "<think>", "</think>"


def extract_boxed_answer(text: str, strict: bool = False) -> str:  # noqa: FBT001, FBT002 - as authors call it
    r"""What is in the last `\boxed{…}`; without a whole one the text itself, or nothing when `strict`."""
    at = text.rfind(_BOX)
    begin = at + len(_BOX)
    end = _closing_brace(text, begin) if at >= 0 else None
    if end is None:
        return "" if strict else text
    return text[begin:end]


def _closing_brace(text: str, begin: int) -> int | None:
    depth = 1
    for at in range(begin, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    return None


def extract_hash_answer(text: str) -> str:
    """What stands between the first `####` and the next, or the end; the text itself without any."""
    parts = text.split("####", 2)
    return parts[1].strip() if len(parts) > 1 else text


def strip_non_numeric(text: str) -> str:
    return "".join(each for each in text if each.isdigit() or each == ".")


def strip_think(text: str) -> str:
    """What comes after the last `</think>`, or the whole text, without white space around it."""
    return text.rpartition(_THOUGHT_END)[2].strip()


# Models that think first, in `<think>…</think>`.


class ThinkParser(Parser):
    """For models that always think aloud: what comes after the thinking, and nothing where there is none.

    Servers that take the thinking out of the text leave nothing for it to find; use MaybeThinkParser there.
    """

    def parse(self, text: str) -> Any:
        return self.extract_fn(strip_think(text) if _THOUGHT_END in text else "")

    def get_format_reward_func(self) -> Callable[..., float]:
        """The share of the model's messages that think once, from their beginning, and then say something."""

        def format_reward_func(completion: Any, **_: Any) -> float:
            spoken = self.get_assistant_messages(completion)
            return sum(_thinks_first(message_text(each)) for each in spoken) / len(spoken) if spoken else 0.0

        return format_reward_func


class MaybeThinkParser(Parser):
    """For models that may think aloud: what comes after the thinking, or all of it."""

    def parse(self, text: str) -> Any:
        return self.extract_fn(strip_think(text))


def _thinks_first(text: str) -> bool:
    thinks_once = text.count(_THOUGHT_BEGIN) == text.count(_THOUGHT_END) == 1
    return thinks_once and text.strip().startswith(_THOUGHT_BEGIN) and not text.endswith(_THOUGHT_END)


# Answers in named fields, `<name>…</name>`.

_FOR_FIELDS, _FOR_EACH_OTHER_RULE = 0.4, 0.2


@dataclass(frozen=True, slots=True)
class _Field:
    """A field: the name it is written by, and all names it is read by."""

    name: str
    names: tuple[str, ...]

    def outline(self) -> str:
        shown = f"[ {' | '.join(self.names)} ]" if len(self.names) > 1 else self.name
        return f"<{shown}>\n...\n</{shown}>"

    def is_hinted_at(self, text: str) -> bool:
        return any(f"<{name}>" in text or f"</{name}>" in text for name in self.names)

    def is_whole(self, text: str) -> bool:
        return any(next(_contents(text, name), None) is not None for name in self.names)

    def begins(self, text: str) -> bool:
        return text.lstrip().startswith(tuple(f"<{name}>" for name in self.names))

    def ends(self, text: str) -> bool:
        return text.rstrip().endswith(tuple(f"</{name}>" for name in self.names))


class XMLParser(Parser):
    """Reads and writes fields. A field that is a tuple of names is written by the first and read by each of them.

    Raises UsageError for fields that are no names, or have the same.
    """

    def __init__(
        self,
        fields: Sequence[str | tuple[str, ...]],
        answer_field: str = "answer",
        extract_fn: Extract = whole_text,
    ) -> None:
        super().__init__(extract_fn=extract_fn)
        self.answer_field = answer_field
        self._fields = [_read_field(each) for each in fields]
        names = self.get_fields()
        if doubled := next((name for name in names if names.count(name) > 1), None):
            raise UsageError(f"the parser has two fields called {doubled!r}; each needs a name of its own")

    def parse(self, text: str, strip: bool = True, last: bool = False) -> Any:  # noqa: FBT001, FBT002 - as authors know it
        """An object with an attribute for each name: its text, or None; of several, the first or the `last`.

        White space around the text of a field is no part of it, whatever `strip` says.
        """
        return SimpleNamespace(
            **{name: _content(text, name, last=last) for field in self._fields for name in field.names}
        )

    def parse_answer(self, completion: Any) -> str | None:
        """The answer field of the last message of the model that has one; in a text, the last of them."""
        if isinstance(completion, str):
            return self._answer(completion, last=True)
        spoken = reversed(self.get_assistant_messages(completion))
        answers = (self._answer(message_text(message), last=False) for message in spoken)
        return next((answer for answer in answers if answer is not None), None)

    def _answer(self, text: str, *, last: bool) -> str | None:
        answer: str | None = getattr(self.parse(text, last=last), self.answer_field, None)
        return answer

    def get_fields(self) -> list[str]:
        """The names by which fields are written, in their order."""
        return [field.name for field in self._fields]

    def get_format_str(self) -> str:
        """The format as a model may be told it."""
        return "\n".join(field.outline() for field in self._fields)

    def format(self, **values: Any) -> str:
        """Values as fields. Raises UsageError when one is missing."""
        return "\n".join(f"<{field.name}>\n{_value_of(field, values)}\n</{field.name}>" for field in self._fields)

    def get_format_reward_func(self) -> Callable[..., float]:
        """How well the model's messages keep to the format, from 0 to 1, on average.

        0.4 is for the share of the fields that are there, once any is whole; 0.2 each for beginning with the first
        field and ending with the last. The rest comes with saying anything.
        """

        def format_reward_func(completion: Any) -> float:
            spoken = self.get_assistant_messages(completion)
            return sum(self._format_score(message_text(each)) for each in spoken) / len(spoken) if spoken else 0.0

        return format_reward_func

    def _format_score(self, text: str) -> float:
        score = 0.0
        if any(field.is_whole(text) for field in self._fields):
            present = sum(field.is_hinted_at(text) for field in self._fields)
            score += _FOR_FIELDS * (present / len(self._fields))
        score += _FOR_EACH_OTHER_RULE
        if self._fields[0].begins(text):
            score += _FOR_EACH_OTHER_RULE
        if self._fields[-1].ends(text):
            score += _FOR_EACH_OTHER_RULE
        return score


def _read_field(given: object) -> _Field:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, tuple) or not names or not all(isinstance(name, str) for name in names):
        raise UsageError(f"a field of the parser is {given!r}, expected a name or a tuple of names")
    return _Field(names[0], names)


def _value_of(field: _Field, values: dict[str, Any]) -> Any:
    value = next((values[name] for name in field.names if name in values), None)
    if value is None:
        raise UsageError(f"the field {field.name!r} has no value; give it as {' or '.join(field.names)}")
    return value


def _content(text: str, name: str, *, last: bool) -> str | None:
    found = None
    for found in _contents(text, name):  # noqa: B007 - the last one stays
        if not last:
            break
    return found


def _contents(text: str, name: str) -> Iterator[str]:
    """The text of each field of a name. Searched by hand: a pattern takes the square of the time on white space."""
    opening, closing = f"<{name}>", f"</{name}>"
    at = text.find(opening)
    while at >= 0:
        begin = at + len(opening)
        end = text.find(closing, begin)
        if end < 0:
            return
        yield text[begin:end].strip()
        at = text.find(opening, end + len(closing))
