"""ModelCall: one call of an agent to its model, as kept in calls.jsonl.

A conversation grows with every call, and most of a request comes again with the next one. So a call keeps only what is
new in it, and says from which earlier call the rest is. `gateway/calls.py` puts the whole together again.
"""

from typing import Any, Literal

from pydantic import Field

from seatrial.model.base import JsonObject, NonNegative, NonNegativeInt, StrictModel, Timestamp

DialectName = Literal["openai_chat", "openai_responses", "anthropic", "google"]
"""The dialects of models; each is a file of that name in `gateway/dialects/`."""

CallErrorKind = Literal["agent", "provider", "budget", "disconnected"]
"""Whose doing it was: the agent's bad request, the provider's failure, a limit of the trial, or the agent hung up."""


EndedBy = Literal["agent", "provider", "us", "budget"]
"""Who hung up or refused when a call came to nothing; `us` is the gateway, or the end of the agent's time."""


class TokenUsage(StrictModel):
    """What one call consumed, as far as the provider told. `input_tokens` includes those from a cache and those to it.

    `cache_write_tokens` are those that the provider stored in its cache, and `cache_write_1h_tokens` the ones of these
    that it stored for an hour, which costs more.
    """

    input_tokens: NonNegativeInt = 0
    cached_tokens: NonNegativeInt = 0
    cache_write_tokens: NonNegativeInt = 0
    cache_write_1h_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0
    reasoning_tokens: NonNegativeInt = 0


class CallError(StrictModel):
    """Why a call gave no answer, or only a part of one.

    `silent_sec` is how long nothing of an answer had come when the call was ended; keep-alives are nothing of one.
    """

    kind: CallErrorKind
    status: int | None = None
    message: str
    ended_by: EndedBy | None = None
    silent_sec: NonNegative | None = None


class KnownMessages(StrictModel):
    """The first `count` messages of this call are those of the call `call`, by its index."""

    call: NonNegativeInt
    count: NonNegativeInt


class KnownPart(StrictModel):
    """A part of the request that the call `call` keeps, in the same field: tool definitions, a system prompt.

    Without `count` it is the whole value of the field. Else it is `count` entries of a list: those from `start` on in
    what the call `call` keeps of it, and from `at` on in the whole list of this call.
    """

    field: str
    call: NonNegativeInt
    at: NonNegativeInt = 0
    start: NonNegativeInt = 0
    count: NonNegativeInt | None = None


class CacheMark(StrictModel):
    """Where a request told its provider to cache: `name` is the key of the mark, `value` what it said.

    It stood in the message with the number `message` of the whole conversation, or else in the field `field` of the
    request; `at` is the way from there. Marks are kept apart because they move on with every call.
    """

    message: NonNegativeInt | None = None
    field: str | None = None
    at: list[str | int] = Field(default_factory=list)
    name: str
    value: JsonObject


class ModelCall(StrictModel):
    """One line of calls.jsonl. `request` is the request without its messages, `response` the whole answer.

    The first messages are those of `known`, and `known_parts` of the request are in earlier calls; `marks` are taken
    out of both. A file from before there were such parts and marks has everything in place.

    Of a call that was imported from elsewhere, it may not be known when it was made and how long it took.

    A streamed answer is stored as the one it amounts to. `retry_of` names the call that an SDK repeated by itself.
    `method` is there when a request was refused before it was a call. `omitted` names the fields of the request, as the
    agent sent them, that the model's dialect has no place for; each is named with the first call that had it.
    """

    index: NonNegativeInt
    dialect: DialectName | None = None
    method: str | None = None
    path: str
    started_at: Timestamp | None = None
    duration_sec: NonNegative | None = None
    first_token_sec: NonNegative | None = None
    stream: bool = False
    model: str | None = None
    upstream_model: str | None = None
    known: KnownMessages | None = None
    messages: list[Any] = Field(default_factory=list)
    request: JsonObject | None = None
    known_parts: list[KnownPart] = Field(default_factory=list)
    marks: list[CacheMark] = Field(default_factory=list)
    response: JsonObject | None = None
    status: int | None = None
    finish_reason: str | None = None
    usage: TokenUsage | None = None
    cost_usd: NonNegative | None = None
    retry_of: NonNegativeInt | None = None
    omitted: tuple[str, ...] = ()
    error: CallError | None = None
