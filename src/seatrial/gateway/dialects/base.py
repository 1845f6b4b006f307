"""Dialect: all that the gateway knows about one way of speaking to a model.

A dialect is a file beside this one, `NAME.py`, with a `DIALECT`; `DialectName` in `model/trace.py` lists the names.
Nothing else in the gateway knows dialects apart. The functions that look at requests, answers and paths do not raise on
what strangers wrote: a field that is not what it should be counts as absent. Those that translate raise Untranslatable.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from seatrial.gateway.base import PLAIN_TOOLS, AgentTools, SseEvent, TokenCounts
from seatrial.gateway.fields import Payload, ToldError
from seatrial.gateway.neutral.types import Answer, Delta, Losses, Request, Stop
from seatrial.messages import Item
from seatrial.model.trace import CallErrorKind, DialectName
from seatrial.untrusted.json import items, mapping


class StreamAssembler(Protocol):
    """Puts the events of one stream together to the answer that the call would have had without streaming."""

    @property
    def first_token(self) -> bool:
        """Whether something of the answer itself has arrived: text, reasoning, or a tool call."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the stream came to its proper end; False after the last byte means that it was cut."""
        ...

    @property
    def error(self) -> ToldError | None:
        """The error that the provider told inside the stream, if it did."""
        ...

    @property
    def garbled(self) -> str | None:
        """What came where JSON was due, if something did; no client can read such a stream."""
        ...

    def feed(self, event: SseEvent) -> None:
        """Take one event. What cannot be understood is left out."""
        ...

    def skim(self, whole: str) -> bool:
        """Take the text of whole events at once, if they hold nothing but more of a text; whether they did."""
        ...

    def response(self) -> Payload | None:
        """The answer as far as it came; None when nothing of it did."""
        ...


class StreamReader(Protocol):
    """Reads one stream."""

    def read(self, event: SseEvent) -> list[Delta]:
        """What an event says. Raises Untranslatable for content without a neutral word."""
        ...

    def close(self) -> list[Delta]:
        """What is still to be said when the stream is over; nothing when it was cut."""
        ...


class StreamWriter(Protocol):
    """Writes one stream."""

    def write(self, delta: Delta) -> list[SseEvent]:
        """The events that say `delta`, which is no failure: that is written by `Dialect.error_event`."""
        ...


class ModelPath(NamedTuple):
    """A path that names a model."""

    model: str
    target: str
    """The path in the one form in which it is sent."""
    is_call: bool = True
    """Whether a model answers at it; tokens are only counted at the others."""
    stream: bool = False
    """Whether the answer is to be streamed."""
    events: bool = False
    """Whether a stream is to come as server-sent events; otherwise as one JSON array that grows."""


class ModelPaths(Protocol):
    """The paths of a dialect that names the model in them, and says there whether the answer is to be streamed.

    Inside the gateway both are fields of the payload, as in every other dialect: `model` and `stream`. They are taken
    out of it again before it is sent.
    """

    @property
    def example(self) -> str:
        """An example."""
        ...

    @property
    def queries(self) -> frozenset[str]:
        """The names that a query may have."""
        ...

    def owns(self, target: str) -> bool:
        """Whether a path is one of this dialect, known or not."""
        ...

    def lists_models(self, path: str) -> bool:
        """Whether a path is that of the list of models, or of an entry."""
        ...

    def unversioned(self, target: str) -> str:
        """A path without its version, for providers whose address ends in one."""
        ...

    def read(self, target: str) -> ModelPath | None:
        """The parts of a path of this dialect; None for any other path."""
        ...

    def write(self, payload: Payload, asked: str = "") -> str:
        """The path of a call with this payload, of the same version as the path that was `asked`. Streams are events.

        Raises ValueError for a model that cannot stand in a path.
        """
        ...

    def of_model(self, target: str, model: str) -> str:
        """The path for another model; unchanged if `model` cannot be the name of one."""
        ...

    def contradiction(self, payload: Payload, path: ModelPath) -> str | None:
        """How a body contradicts its path, or None."""
        ...


class Provider(NamedTuple):
    """The company that defines a dialect: its address, and the environment variables that its SDKs read."""

    name: str
    """The name of its upstream."""
    base_url: str
    key_variables: tuple[str, ...]
    """The variables of its key: of these the gateway takes the first that is set, and agents get all of them."""
    url_variables: tuple[str, ...]
    """The variables in which agents get the address of the gateway."""
    url_end: str = ""
    """The end of that address."""


def _messages(payload: Payload) -> list[Any]:
    return items(payload.get("messages"))


def _without_messages(payload: Payload) -> Payload:
    rest = payload.copy()
    rest.pop("messages", None)
    return rest


def _asks_for_stream(payload: Payload) -> bool:
    return payload.get("stream") is True


def _as_it_is(payload: Payload) -> Payload:
    return payload


def _hides_nothing(data: str | bytes) -> bool:
    return False


def _no_entry(model: str) -> Payload:
    return {}


def _plain_tools(payload: Payload) -> AgentTools:
    return PLAIN_TOOLS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect:
    """One way of speaking to a model."""

    name: DialectName
    title: str
    """Its name in listings."""
    provider: Provider

    # --- paths and headers

    path: str = ""
    """The path of all calls, unless it depends on the model."""
    model_paths: ModelPaths | None = None
    """The paths of calls that name the model."""
    count_path: str | None = None
    """The path at which agents ask for a count of tokens, unless it is one of `model_paths`."""
    count_answer: Callable[[int], Payload] = lambda count: {"input_tokens": count}
    """The answer to that."""
    tries_websocket: bool = False
    """Whether agents try a WebSocket at the path first; a refusal with 426 makes them use HTTP at once."""
    key_header: tuple[str, str] = ("authorization", "Bearer ")
    """The header of the key, and the prefix of its value."""
    default_headers: Mapping[str, str] = field(default_factory=dict)
    """Headers that providers require. They are added where the agent sends none, and their names tell the dialect."""
    header_prefix: str
    """The prefix of headers that mean nothing in other dialects; a translated request has none of them."""
    forwarded_headers: tuple[str, ...] = ()
    """Headers of agents that are passed on, in lower case. A name that ends in a dash is a prefix."""

    # --- requests

    check: Callable[[Any], str | None]
    """Why a request is malformed beyond passing on, or None."""
    messages: Callable[[Payload], list[Any]] = _messages
    """The conversation of a request, in the dialect's own form."""
    without_messages: Callable[[Payload], Payload] = _without_messages
    """The request without its conversation."""
    with_overrides: Callable[[Payload, str | None, Mapping[str, Any]], Payload]
    """The request with the run's model and values where they are set (not None).

    Their names are neutral: `temperature`, `top_p`, `max_tokens`, `seed`, `stop`. What has no name in the dialect is
    left out.
    """
    asks_for_stream: Callable[[Payload], bool] = _asks_for_stream
    """Whether the answer is to be streamed."""
    with_usage: Callable[[Payload], Payload] = _as_it_is
    """The request, asking for a count of tokens at the end of a stream where that must be asked for."""
    probe: Callable[[str, int | None], Payload]
    """A minimal request with this text and, if it is not None, about this limit of tokens. It lacks the model."""
    request_fields: frozenset[str]
    """Known fields. Where the run names the model, others are left out, for they may name another one."""
    content_fields: frozenset[str] = frozenset()
    """Known fields with text, schemas or metadata, inside which nothing can name a model."""
    volatile_fields: frozenset[str] = frozenset({"stream"})
    """Fields that do not change the answer: transport, caching, billing."""

    # --- limits of tokens

    settings_fields: tuple[str, ...] = ()
    """The names of the field that holds the limits, unless they are fields of the request itself."""
    output_limits: tuple[str, ...]
    """The settings that limit the tokens of an answer."""
    choice_settings: tuple[str, ...] = ()
    """The settings for several answers to one request."""
    input_fields: frozenset[str]
    """The fields that hold what the model reads."""
    external_input: frozenset[str] = frozenset()
    """Fields that refer to input which is not in the request."""
    plain_blocks: frozenset[str] = frozenset()
    """Types of blocks with nothing but text, reasoning and tool calls. Any others can have any number of tokens."""
    plain_parts: frozenset[str] = frozenset()
    """The same by keys, in a dialect whose blocks have no type."""
    provider_tools: frozenset[str] = frozenset()
    """Keys of tools that the provider runs, in a dialect whose tools have no type."""

    # --- answers

    answer_field: str
    """The field of an answer with the output of the model, an array of objects."""
    holds_answer: Callable[[Any], bool]
    """Whether there is an answer of a model in what came with a good status."""
    counts: Callable[[Any], TokenCounts | None]
    """What an answer consumed, if it says so."""
    finish_reason: Callable[[Any], str | None]
    """Why the model stopped, in the dialect's own word."""
    assembler: Callable[[], StreamAssembler]
    """A new assembler for one stream."""
    hides: Callable[[str], bool] = _hides_nothing
    """Whether an event is there only because `with_usage` asked for it, so that the agent must not see it."""
    may_hide: Callable[[bytes], bool] = _hides_nothing
    """Whether whole events as they are sent could have one among them that `hides`; a quick look, no promise."""

    # --- errors

    error_body: Callable[[int, CallErrorKind, str], Payload]
    """The body of an error answer with this status."""
    error_event: Callable[[int, CallErrorKind, str], SseEvent]
    """The event that tells of an error when the answer has already begun."""
    is_error: Callable[[Payload], bool] | None = None
    """Whether a body has the form of an error that only this dialect has."""
    error_statuses: Mapping[str, int] = field(default_factory=dict)
    """The HTTP status of each type of error, for errors inside a stream."""
    wrong_key_marker: bytes | None = None
    """Text of a 400 by which its provider refuses a key."""
    refusable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Settings that some models refuse, as their errors name them, with the fields of a Request that they come from."""

    # --- translation

    field_names: Mapping[str, str]
    """Its names of the fields of a Request, where they differ."""
    read_request: Callable[[Payload, Losses], Request]
    write_request: Callable[[Request, Losses], Payload]
    agent_tools: Callable[[Payload], AgentTools] = _plain_tools
    """The agent's names of the tools in its request, where a translated request has others."""
    read_content: Callable[[Payload], tuple[list[Item], Stop]]
    """What a whole answer says and why it ends.

    Reading is lenient where requests are strict: extra fields of an answer stay in the record of the call, and an
    answer that was paid for is not thrown away for them. Only content that has no neutral word is refused.
    """
    write_answer: Callable[[Answer], Payload]
    split_answer: Callable[[Mapping[str, Any]], Iterator[SseEvent]]
    """The events in which a whole answer would have come, with a count of tokens if it has one.

    Nothing of it is lost, whether it has a neutral word or not. Raises a LookupError, TypeError or AttributeError when
    it is no answer of the dialect.
    """
    reader: Callable[[], StreamReader]
    writer: Callable[[], StreamWriter]

    # --- answers without a provider (scripts, replays)

    model_entry: Callable[[str], Payload] = _no_entry
    """The entry of a model in a list of models."""
    id_prefixes: tuple[str, str] = ("resp_", "call_")
    """The prefixes of ids of answers and of tool calls; some clients check them."""
    arguments_are_objects: bool = False
    """Whether the arguments of a tool call are a JSON object rather than text."""

    def settings(self, payload: Payload) -> Payload:
        """The part of a request that holds the limits."""
        if not self.settings_fields:
            return payload
        return next(filter(None, (mapping(payload.get(name)) for name in self.settings_fields)), {})


def with_path(payload: Payload, path: ModelPath) -> Payload:
    """A body with the model and the wish for a stream from its path."""
    return {**payload, "model": path.model, "stream": path.stream}


def without_path(payload: Payload) -> Payload:
    """The body of a payload whose path has the model and the wish for a stream."""
    return {name: value for name, value in payload.items() if name not in ("model", "stream")}
