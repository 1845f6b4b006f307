"""Messages of a conversation, and a way to keep many conversations of which each goes on where the last one ended.

A rollout of n turns has n prompts, each longer than the one before. A `Trunk` keeps what they share once.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from seatrial.env.chat_message import ChatMessage, chat_message

Message = dict[str, Any]
Messages = list[Message]

T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class Prefix(Generic[T]):
    """The first items of a row that others hold too, and that only ever grows."""

    items: "list[T] | array[Any]"
    count: int

    def to_list(self) -> list[T]:
        """A list of its own."""
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
