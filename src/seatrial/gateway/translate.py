"""Between an agent and a model that speak different dialects: requests one way, answers the other.

Text, images, tools, effort and thoughts are translated. Of the rest, a lenient translation leaves out what is not a
part of the conversation: hints to the provider (`checks.HINTS`), tools that only the provider can run, fields that the
other dialect lacks. It says what it left out, by the agent's names for it. A strict one refuses instead, and both
refuse content that cannot be said. Some things are said differently and mean the same:

- Anthropic demands a length: `DEFAULT_MAX_TOKENS` is written where a request has none;
- Anthropic's neighbouring messages of one side become one message, and `developer` becomes `system`;
- a system message in the middle stays there, also for Anthropic, whose older models then refuse it themselves;
- the output of a tool that failed (`is_error`) begins with "Error: " in the other dialects;
- a tool that wants plain text is a function with one argument (`neutral.freeform`), and one of an MCP server has its
  namespace before its name;
- pictures that a tool gave back are shown to chat completions in a message of the user;
- calls that Google's agents give no id are numbered; to Gemini 3 and later, calls of other models are marked as such,
  or it would miss its own signatures;
- answers of chat completions have all text before all tool calls, and signatures of thoughts stay behind; the others
  carry them as `signature` or `encrypted_content`, so that a provider gets its own thoughts back as it wants them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from seatrial.gateway.agent_tools import PLAIN_TOOLS, AgentTools
from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral import (
    anthropic_requests,
    google_requests,
    openai_chat_requests,
    openai_responses_requests,
)
from seatrial.gateway.neutral.answers import STREAM_READERS, STREAM_WRITERS, read_answer, write_answer
from seatrial.gateway.neutral.anthropic_requests import DEFAULT_MAX_TOKENS
from seatrial.gateway.neutral.losses import Losses, Translation
from seatrial.gateway.neutral.types import Called, CallStarted, Delta, Failed, Item, Request, Started, Untranslatable
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import Dialect

__all__ = [
    "DEFAULT_MAX_TOKENS",
    "StreamTranslator",
    "Translated",
    "Untranslatable",
    "translate",
    "translate_request",
    "translate_response",
]

NAMES: dict[Dialect, Mapping[str, str]] = {
    "openai_chat": openai_chat_requests.NAMES,
    "openai_responses": openai_responses_requests.NAMES,
    "anthropic": anthropic_requests.NAMES,
    "google": google_requests.NAMES,
}
"""How each dialect calls the fields of a neutral Request."""

_REQUEST_READERS: dict[Dialect, Callable[[Payload, Losses], Request]] = {
    "openai_chat": openai_chat_requests.read_request,
    "openai_responses": openai_responses_requests.read_request,
    "anthropic": anthropic_requests.read_request,
    "google": google_requests.read_request,
}
_REQUEST_WRITERS: dict[Dialect, Callable[[Request, Losses], Payload]] = {
    "openai_chat": openai_chat_requests.write_request,
    "openai_responses": openai_responses_requests.write_request,
    "anthropic": anthropic_requests.write_request,
    "google": google_requests.write_request,
}


Told = TypeVar("Told", bound=Item | Delta)


class Translated(NamedTuple):
    """A request in another dialect.

    `omitted` is what was left out, by the names that the agent gave it. `agent_tools` says how calls go back to the
    agent.
    """

    payload: Payload
    omitted: tuple[str, ...] = ()
    agent_tools: AgentTools = PLAIN_TOOLS


def translate(
    payload: Payload, source: Dialect, target: Dialect, translation: Translation, without: Collection[str] = ()
) -> Translated:
    """The request in another dialect. Raises Untranslatable, naming a field, when what would be lost may not be.

    Fields of the neutral Request that are named in `without` are left out.
    """
    losses = Losses(translation, NAMES[source])
    request = _REQUEST_READERS[source](payload, losses)
    for name in without:
        if getattr(request, name) is not None:
            losses.hint(losses.name_of(name))
    if without:
        unset: dict[str, Any] = dict.fromkeys(without)
        request = replace(request, **unset)
    written = _REQUEST_WRITERS[target](request, losses)
    return Translated(written, losses.omitted, request.agent_tools)


def translate_request(payload: Payload, source: Dialect, target: Dialect) -> Payload:
    """The request in the dialect `target`. Raises Untranslatable, naming the field, when something would be lost."""
    return payload if source == target else translate(payload, source, target, "strict").payload


def translate_response(
    response: Payload, source: Dialect, target: Dialect, agent_tools: AgentTools = PLAIN_TOOLS
) -> Payload:
    """The whole answer in the dialect `target`. Raises Untranslatable when its content has no place there."""
    if source == target:
        return response
    answer = read_answer(response, source)
    if agent_tools:
        answer = replace(answer, items=tuple(for_the_agent(item, agent_tools) for item in answer.items))
    return write_answer(answer, target)


def for_the_agent(told: Told, agent_tools: AgentTools) -> Told:
    """What the model says, with its calls as the agent wants them."""
    if not isinstance(told, Called | CallStarted) or told.name not in agent_tools.known:
        return told
    return replace(told, **agent_tools.known[told.name]._asdict())


class StreamTranslator:
    """Turns the events of one upstream's stream into those of the agent's dialect, as they come.

    A stream that is cut stays cut: only what came is written, and the end is not made up. To a stream of chat
    completions the count of tokens is always written; `hides` of that dialect tells which event it is.
    """

    def __init__(self, source: Dialect, target: Dialect, agent_tools: AgentTools = PLAIN_TOOLS) -> None:
        self._same = source == target
        self._agent_tools = agent_tools
        self._reader = STREAM_READERS[source]()
        self._writer = STREAM_WRITERS[target]()
        self._started = False

    def feed(self, event: SseEvent) -> list[SseEvent]:
        """The events that say what `event` says. Raises Untranslatable for content without a place."""
        return [event] if self._same else self._written(self._reader.read(event))

    def close(self) -> list[SseEvent]:
        """What is still to be written when the upstream's stream is over."""
        return [] if self._same else self._written(self._reader.close())

    def _written(self, deltas: list[Delta]) -> list[SseEvent]:
        events: list[SseEvent] = []
        for delta in deltas:
            if not self._started and not isinstance(delta, Started | Failed):
                events.extend(self._writer.write(Started("", "")))  # a server that never said that it begins
            self._started = self._started or not isinstance(delta, Failed)
            events.extend(self._writer.write(for_the_agent(delta, self._agent_tools)))
        return events
