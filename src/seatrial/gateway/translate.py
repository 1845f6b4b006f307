"""Between an agent and a model that speak different dialects: requests one way, answers the other.

Text, images, tools, effort and thoughts are translated. Of the rest, a lenient translation leaves out what is not a
part of the conversation: hints to the provider (`checks.HINTS`), tools that only the provider can run, fields that the
other dialect lacks. It says what it left out, by the agent's names for it. A strict one refuses instead, and both
refuse content that cannot be said. Some things are said differently and mean the same:

- Anthropic demands a length: `DEFAULT_MAX_TOKENS` of its requests is written where a request has none;
- Anthropic's neighbouring messages of one side become one message, and `developer` becomes `system`;
- a system message in the middle stays there, also for Anthropic, whose older models then refuse it themselves;
- the output of a tool that failed (`is_error`) begins with "Error: " in the other dialects;
- a tool that wants plain text is a function with one argument (`neutral.checks`), and one of an MCP server has its
  namespace before its name;
- pictures that a tool gave back are shown to chat completions in a message of the user;
- calls that Google's agents give no id are numbered; to Gemini 3 and later, calls of other models are marked as such,
  or it would miss its own signatures;
- answers of chat completions have all text before all tool calls, and signatures of thoughts stay behind; the others
  carry them as `signature` or `encrypted_content`, so that a provider gets its own thoughts back as it wants them.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from seatrial.gateway.base import PLAIN_TOOLS, AgentTools, SseEvent
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.dialects.base import Dialect
from seatrial.gateway.fields import Payload, as_usage
from seatrial.gateway.neutral.checks import need_table, seconds
from seatrial.gateway.neutral.types import (
    Answer,
    CallStarted,
    Delta,
    Failed,
    Losses,
    Started,
    Translation,
)
from seatrial.messages import Item, ToolCall
from seatrial.model.trace import DialectName
from seatrial.untrusted.json import count, text

# Inside a stream there is no status any more. Those who retry look at it, so it is taken from the error's type.
_STATUSES = {kind: status for each in DIALECTS.values() for kind, status in each.error_statuses.items()}

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
    payload: Payload, source: DialectName, target: DialectName, translation: Translation, without: Collection[str] = ()
) -> Translated:
    """The request in another dialect. Raises Untranslatable, naming a field, when what would be lost may not be.

    Fields of the neutral Request that are named in `without` are left out.
    """
    losses = Losses(translation, DIALECTS[source].field_names)
    request = DIALECTS[source].read_request(payload, losses)
    for name in without:
        if getattr(request, name) is not None:
            losses.hint(losses.name_of(name))
    if without:
        unset: dict[str, Any] = dict.fromkeys(without)
        request = replace(request, **unset)
    written = DIALECTS[target].write_request(request, losses)
    return Translated(written, losses.omitted, request.agent_tools)


def translate_request(payload: Payload, source: DialectName, target: DialectName) -> Payload:
    """The request in the dialect `target`. Raises Untranslatable, naming the field, when something would be lost."""
    return payload if source == target else translate(payload, source, target, "strict").payload


def read_answer(response: Payload, dialect: Dialect) -> Answer:
    found = need_table(response, "response")
    said, stop = dialect.read_content(found)
    return Answer(
        id=text(found.get("id")) or text(found.get("responseId")) or "",
        model=text(found.get("model")) or text(found.get("modelVersion")) or "",
        items=tuple(said),
        stop=stop,
        usage=as_usage(dialect.counts(found)),
        created=(count(found.get("created")) or 0) or seconds(found.get("created_at")),
    )


def translate_response(
    response: Payload, source: DialectName, target: DialectName, agent_tools: AgentTools = PLAIN_TOOLS
) -> Payload:
    """The whole answer in the dialect `target`. Raises Untranslatable when its content has no place there."""
    if source == target:
        return response
    answer = read_answer(response, DIALECTS[source])
    if agent_tools:
        answer = replace(answer, items=tuple(for_the_agent(item, agent_tools) for item in answer.items))
    return DIALECTS[target].write_answer(answer)


def for_the_agent(told: Told, agent_tools: AgentTools) -> Told:
    """What the model says, with its calls as the agent wants them."""
    if not isinstance(told, ToolCall | CallStarted) or told.name not in agent_tools.known:
        return told
    return replace(told, **agent_tools.known[told.name]._asdict())


class StreamTranslator:
    """Turns the events of one upstream's stream into those of the agent's dialect, as they come.

    A stream that is cut stays cut: only what came is written, and the end is not made up. To a stream of chat
    completions the count of tokens is always written; `hides` of that dialect tells which event it is.
    """

    def __init__(self, source: DialectName, target: DialectName, agent_tools: AgentTools = PLAIN_TOOLS) -> None:
        self._same = source == target
        self._agent_tools = agent_tools
        self._target = DIALECTS[target]
        self._reader = DIALECTS[source].reader()
        self._writer = self._target.writer()
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
            if isinstance(delta, Failed):
                status = _STATUSES.get(delta.type, 500)
                events.append(self._target.error_event(status, "provider", delta.message))
                continue
            if not self._started and not isinstance(delta, Started):
                events.extend(self._writer.write(Started("", "")))  # a server that never said that it begins
            self._started = True
            events.extend(self._writer.write(for_the_agent(delta, self._agent_tools)))
        return events
