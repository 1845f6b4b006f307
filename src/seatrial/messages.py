"""A conversation as values, from the gateway to the viewer: a flat list of items, in the order of what happened.

Every dialect is read into them, twice: the gateway refuses what it could not say in another dialect
(`gateway/neutral/`), trajectories keep whatever they do not know (`trajectories/reading.py`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import orjson

MODEL_ROLES = ("assistant", "model")
SYSTEM_ROLES = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture in a message or in the result of a tool."""

    url: str
    """One of the web, or a data URL that holds it."""

    detail: str | None = None
    """How closely the model is to look, in the words of OpenAI."""

    media_type: str | None = None
    """Where it was given beside the picture; the gateway leaves it in the data URL."""

    where: str = field(default="", compare=False)
    """Its place in the request that it came in."""


Parts = tuple[str | Picture, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """Text and pictures that somebody said."""

    role: str
    parts: Parts
    name: str | None = None
    """Some messages name those of a role; the gateway does not read it."""

    @property
    def text(self) -> str:
        """All that it says in text."""
        return "".join(part for part in self.parts if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model calls a tool."""

    id: str
    """Empty where the dialect gives none and nobody needs one."""

    name: str
    arguments: Any
    """JSON text as the model wrote it, which it always is in the gateway, or the value that such text stands for."""

    freeform: bool = False
    """Its agent wants plain text from the model, which is the only argument (`gateway/neutral/checks.py`)."""

    namespace: str | None = None
    """Under which its agent knows the tool, beside its name."""

    @property
    def table(self) -> dict[str, Any] | None:
        """The arguments by their names; None for what is no JSON object."""
        value = self.arguments
        try:
            value = orjson.loads(value) if isinstance(value, str) else value
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back."""

    id: str
    """That of its call."""

    parts: Parts
    name: str = ""
    """Of the tool, where results have it; by that they are known if there are no ids."""

    failed: bool = False
    """The tool says so. The gateway writes it into the text instead, for most dialects have no flag."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What the model thought; empty where the provider does not show it."""

    text: str
    signature: str | None = None
    """By which the provider knows the thought again; only the gateway needs it."""

    where: str = field(default="", compare=False)
    """Its place in the request that it came in."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The model says that it will not."""

    text: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something in a form that we do not know, kept as it is. The gateway refuses it."""

    role: str
    kind: str
    value: Any


Item = Message | ToolCall | ToolResult | Reasoning | Refusal
AnyItem = Item | Unknown


def is_model_side(item: AnyItem) -> bool:
    """Whether the model said it, rather than somebody said it to the model."""
    if isinstance(item, Message | Unknown):
        return item.role in MODEL_ROLES
    return not isinstance(item, ToolResult)


def split_system(items: Sequence[Item]) -> tuple[list[Message], Sequence[Item]]:
    """The system messages that a conversation begins with, and what comes after them."""
    system: list[Message] = []
    for item in items:
        if not is_system(item):
            break
        system.append(item)
    return system, items[len(system) :]


def is_system(item: AnyItem) -> TypeGuard[Message]:
    """Whether it is a message of the system, by either of its roles."""
    return isinstance(item, Message) and item.role in SYSTEM_ROLES


def as_text(value: Any) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def plain_words(parts: Parts) -> str:
    """The text of parts, those that are next to each other on lines of their own; pictures are left out."""
    return "\n".join(part for part in parts if isinstance(part, str))
