"""Requests, answers and streams as values of no dialect, and what cannot be said in another one.

Items of a conversation are those of `seatrial.messages`. Each dialect has its readers and writers beside this file.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from seatrial.gateway.base import PLAIN_TOOLS, AgentTools
from seatrial.gateway.fields import Payload
from seatrial.messages import Item
from seatrial.model.trace import TokenUsage

Stop = Literal["stop", "length", "tool_calls", "content_filter"]
FREEFORM_ARGUMENT = "input"


class Untranslatable(Exception):
    """Something would be lost in translation. `field` names it; nothing was sent anywhere."""

    def __init__(self, field: str, reason: str = "the other dialect has no place for it") -> None:
        self.field = field
        super().__init__(f"`{field}` cannot be translated: {reason}")


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call. `strict` is None where the provider decides; see ToolCall for the rest."""

    name: str
    description: str | None
    schema: Payload | None
    strict: bool | None
    freeform: bool = False
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Which tools the model has to use; `name` goes with the mode `one`."""

    mode: Literal["auto", "none", "any", "one"]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Thinking:
    """Whether the model is to think before it answers, for how many tokens, and whether its thoughts are shown."""

    on: bool | None = None
    budget: int | None = None
    shown: bool | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A request. What is None was not said; values of sampling are passed on as found, for the provider to judge."""

    model: Any
    items: tuple[Item, ...]
    tools: tuple[Tool, ...] | None = None
    choice: ToolChoice | None = None
    parallel: bool | None = None
    max_tokens: Any = None
    temperature: Any = None
    top_p: Any = None
    stop: list[Any] | None = None
    seed: Any = None
    format: Payload | None = None
    effort: Any = None
    """A word of `checks.EFFORTS`, or another one that the agent sent."""
    thinking: Thinking | None = None
    verbosity: Any = None
    user: str | None = None
    stream: Any = None
    agent_tools: AgentTools = PLAIN_TOOLS
    """How the agent wants calls written."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    id: str
    model: str
    items: tuple[Item, ...]
    stop: Stop
    usage: TokenUsage | None
    created: int = 0
    """In seconds since 1970, 0 when nobody said."""


@dataclass(frozen=True, slots=True)
class Started:
    """An answer begins."""

    id: str
    model: str
    created: int = 0


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of a kind."""

    kind: Literal["text", "reasoning", "refusal"]
    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A tool call begins."""

    slot: int
    """Its position among the calls."""
    id: str
    name: str
    freeform: bool = False
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More of the arguments of a call."""

    slot: int
    text: str


@dataclass(frozen=True, slots=True)
class SignatureDelta:
    """The signature of the thought that has just been told."""

    signature: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The answer is whole."""

    stop: Stop
    usage: TokenUsage | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The provider told of an error."""

    type: str
    message: str


Delta = Started | TextDelta | CallStarted | CallDelta | SignatureDelta | Ended | Failed


Translation = Literal["lenient", "strict"]

_NO_PLACE = "the other dialect has no place for it"
_INDEX = re.compile(r"\[\d+\]")


class Losses:
    """What of one request has no place in another dialect: it is left out, or refused in a strict translation.

    `names` says how the agent's dialect calls the fields of a neutral Request.
    """

    def __init__(self, translation: Translation = "strict", names: Mapping[str, str] | None = None) -> None:
        self.strict = translation == "strict"
        self._names = names or {}
        self._left_out: dict[str, str] = {}

    @property
    def omitted(self) -> tuple[str, ...]:
        """What was left out, each kind of thing once."""
        return tuple(self._left_out.values())

    def leave_out(self, field: str, reason: str = _NO_PLACE) -> None:
        """Leave out a field, named as the agent sent it. Raises Untranslatable if that is not wanted."""
        if self.strict:
            raise Untranslatable(field, reason)
        self.hint(field)

    def no_place(self, name: str, reason: str = _NO_PLACE) -> None:
        """Leave out a field of the neutral Request. Raises Untranslatable if that is not wanted."""
        self.leave_out(self.name_of(name), reason)

    def hint(self, field: str) -> None:
        """Leave out what changes no answer, also in a strict translation."""
        self._left_out.setdefault(kind_of_loss(field), field)

    def name_of(self, name: str) -> str:
        return self._names.get(name, name)


def kind_of_loss(field: str) -> str:
    """The same for a field wherever in a list it stands: it is noted once."""
    return _INDEX.sub("[]", field)
