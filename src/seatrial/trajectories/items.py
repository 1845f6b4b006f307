"""What a conversation is made of, whichever dialect it was said in: words, thoughts, calls of tools, results."""

import json
from dataclasses import dataclass
from typing import Any

MODEL_ROLES = ("assistant", "model")


@dataclass(frozen=True, slots=True)
class Picture:
    """Something to look at, by its address: one of the web, or a data URL that holds it."""

    url: str
    media_type: str | None = None


Pieces = tuple[str | Picture, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """What somebody said. `speaker` is the name that some messages give to those of a role."""

    role: str
    pieces: Pieces
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Thought:
    """What the model thought; empty where the provider does not show it."""

    text: str


@dataclass(frozen=True, slots=True)
class Declined:
    """The model says that it will not."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The model calls a tool. Arguments that are text are JSON as the model wrote it. Some dialects give no id."""

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool gave back; by the id of its call, or by the tool's name where there are no ids."""

    id: str
    name: str
    pieces: Pieces
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """Something of a form that we do not know, kept as it is."""

    role: str
    kind: str
    value: Any


Item = Words | Thought | Declined | ToolUse | ToolOutput | Unread


def is_model_side(item: Item) -> bool:
    """Whether the model said it, rather than somebody said it to the model."""
    if isinstance(item, Words | Unread):
        return item.role in MODEL_ROLES
    return not isinstance(item, ToolOutput)


def as_text(value: Any) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def plain_words(pieces: Pieces) -> str:
    """The text of pieces, those that are next to each other on lines of their own; pictures are left out."""
    return "\n".join(piece for piece in pieces if isinstance(piece, str))
