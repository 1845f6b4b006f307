"""Between an agent and a model that speak different dialects: requests one way, answers the other.

Text, images and tools are translated without loss; a request that holds anything else is refused, naming it. Some
things are said differently and mean the same:

- what concerns only the provider's books, caches and queues (`checks.HINTS`) is left out;
- Anthropic demands a length: `DEFAULT_MAX_TOKENS` is written where a request has none;
- Anthropic's neighbouring messages of one side become one message, and `developer` becomes `system`;
- a system message in the middle stays there, also for Anthropic, whose older models then refuse it themselves;
- the wish of a request to responses to be shown reasoning (`include`, `reasoning.summary`) is left out;
- the output of a tool that failed (`is_error`) begins with "Error: " in the other dialects;
- answers of chat completions have all text before all tool calls, and signatures of thoughts stay behind.
"""

from collections.abc import Callable

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral import (
    anthropic_requests,
    google_requests,
    openai_chat_requests,
    openai_responses_requests,
)
from seatrial.gateway.neutral.answers import STREAM_READERS, STREAM_WRITERS, read_answer, write_answer
from seatrial.gateway.neutral.anthropic_requests import DEFAULT_MAX_TOKENS
from seatrial.gateway.neutral.types import Delta, Failed, Request, Started, Untranslatable
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import Dialect

__all__ = ["DEFAULT_MAX_TOKENS", "StreamTranslator", "Untranslatable", "translate_request", "translate_response"]

_REQUEST_READERS: dict[Dialect, Callable[[Payload], Request]] = {
    "openai_chat": openai_chat_requests.read_request,
    "openai_responses": openai_responses_requests.read_request,
    "anthropic": anthropic_requests.read_request,
    "google": google_requests.read_request,
}
_REQUEST_WRITERS: dict[Dialect, Callable[[Request], Payload]] = {
    "openai_chat": openai_chat_requests.write_request,
    "openai_responses": openai_responses_requests.write_request,
    "anthropic": anthropic_requests.write_request,
    "google": google_requests.write_request,
}


def translate_request(payload: Payload, source: Dialect, target: Dialect) -> Payload:
    """The request in the dialect `target`. Raises Untranslatable, naming the field, when something would be lost."""
    if source == target:
        return payload
    return _REQUEST_WRITERS[target](_REQUEST_READERS[source](payload))


def translate_response(response: Payload, source: Dialect, target: Dialect) -> Payload:
    """The whole answer in the dialect `target`. Raises Untranslatable when its content has no place there."""
    if source == target:
        return response
    return write_answer(read_answer(response, source), target)


class StreamTranslator:
    """Turns the events of one upstream's stream into those of the agent's dialect, as they come.

    A stream that is cut stays cut: only what came is written, and the end is not made up. To a stream of chat
    completions the count of tokens is always written; `hides` of that dialect tells which event it is.
    """

    def __init__(self, source: Dialect, target: Dialect) -> None:
        self._same = source == target
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
            events.extend(self._writer.write(delta))
        return events
