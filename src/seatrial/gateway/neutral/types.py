"""What all dialects can say, as values: a conversation is a flat list of items, in the order of what happened."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from seatrial.gateway.agent_tools import PLAIN_TOOLS, AgentTools
from seatrial.gateway.dialects.api import Payload
from seatrial.model.trace import TokenUsage

Role = Literal["system", "developer", "user", "assistant"]
Stop = Literal["stop", "length", "tool_calls", "content_filter"]
FREEFORM_ARGUMENT = "input"


class Untranslatable(Exception):
    """Something would be lost in translation. `field` names it; nothing was sent anywhere."""

    def __init__(self, field: str, reason: str = "the other dialect has no place for it") -> None:
        self.field = field
        super().__init__(f"`{field}` cannot be translated: {reason}")


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture, by the web or as a data URL; `where` is its place in the request that it came in."""

    url: str
    detail: str | None = None
    where: str = field(default="", compare=False)


Parts = tuple[Text | ImagePart, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """Somebody's words."""

    role: Role
    parts: Parts


@dataclass(frozen=True, slots=True)
class Called:
    """The model calls a tool; `arguments` is the JSON text as it wrote it.

    A tool is `freeform` if its agent wants plain text from the model: that text is the argument `FREEFORM_ARGUMENT`.
    Its agent may know it by a `namespace` beside its name.
    """

    id: str
    name: str
    arguments: str
    freeform: bool = False
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """What a tool gave back."""

    id: str
    parts: Parts


@dataclass(frozen=True, slots=True)
class Reasoned:
    """What the model thought aloud; by the `signature` its provider knows the thought again."""

    text: str
    signature: str | None = None
    where: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """The model says that it will not."""

    text: str


Item = Said | Called | Returned | Reasoned | Refused


def joined(items: Iterable[Item], kind: type[Said | Reasoned | Refused]) -> str:
    """The text of the items of one kind; of what the model said that is all, for it says nothing but text."""
    return "".join(_text(item) for item in items if isinstance(item, kind))


def _text(item: Said | Reasoned | Refused) -> str:
    if isinstance(item, Said):
        return "".join(part.text for part in item.parts if isinstance(part, Text))
    return item.text


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call. `strict` is None where the provider decides; see Called for the rest."""

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
    """A request. What is None was not said; values of sampling are passed on as found, for the provider to judge.

    `effort` is one of the words of `efforts.EFFORTS`, or another one that the agent sent. `agent_tools` says
    how the agent wants calls written.
    """

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
    thinking: Thinking | None = None
    verbosity: Any = None
    user: str | None = None
    stream: Any = None
    agent_tools: AgentTools = PLAIN_TOOLS


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `created` is in seconds since 1970, 0 when nobody said."""

    id: str
    model: str
    items: tuple[Item, ...]
    stop: Stop
    usage: TokenUsage | None
    created: int = 0


@dataclass(frozen=True, slots=True)
class Started:
    """An answer begins."""

    id: str
    model: str
    created: int = 0


@dataclass(frozen=True, slots=True)
class Grown:
    """More text of a kind."""

    kind: Literal["text", "reasoning", "refusal"]
    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A tool call begins; `slot` is its position among the calls."""

    slot: int
    id: str
    name: str
    freeform: bool = False
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class CallGrown:
    """More of the arguments of a call."""

    slot: int
    text: str


@dataclass(frozen=True, slots=True)
class Signed:
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


Delta = Started | Grown | CallStarted | CallGrown | Signed | Ended | Failed
