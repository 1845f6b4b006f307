"""One call on its way: an agent's request to the upstream, the answer back, and a line in the log at the end.

What the agent asked for is what the model gets, what the model says is what the agent gets, as it comes. Only what
the run sets is changed on the way, and a dialect that the upstream does not speak is translated.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

import orjson

from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.dialects import DIALECTS, PATHS
from seatrial.gateway.notes import CallNotes
from seatrial.gateway.session import Session
from seatrial.gateway.sse import encode_event
from seatrial.gateway.streaming import pass_on_stream
from seatrial.gateway.translate import Untranslatable, translate_request, translate_response
from seatrial.model.trace import CallErrorKind, Dialect

MAX_ANSWER_BYTES = 256 * 2**20
_JSON = {"content-type": "application/json"}
# Both official SDKs obey it: what would fail again need not be tried again.
_FINAL = {**_JSON, "x-should-retry": "false"}


class Way(Protocol):
    """The way back to the agent. Raises ConnectionError when nobody is there any more."""

    @property
    def begun(self) -> bool:
        """Whether the answer's status is out already."""
        ...

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        """Send status and headers."""
        ...

    async def write(self, data: bytes) -> None:
        """Send a piece of the answer."""
        ...

    async def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Send an answer as a whole, at once."""
        ...


def carry(session: Session, request: ModelRequest, way: Way) -> Coroutine[Any, Any, None]:
    """Answer one request of an agent. The caller ends the answer.

    Raises ConnectionError when the agent has hung up. Any other error is a bug of ours or a full disk.
    """
    return _pass_by(session, request, way) if request.dialect is None else _call(session, request, way)


async def _call(session: Session, request: ModelRequest, way: Way) -> None:
    assert request.dialect is not None  # noqa: S101 - the only caller has looked
    dialect = request.dialect
    index, retry_of = session.begin(request)
    notes = CallNotes(session, request, index, retry_of)
    try:
        if (reason := session.refusal()) is not None:
            await _refuse(way, notes, dialect, 429, "budget", reason)
        elif (reason := DIALECTS[dialect].check(request.payload)) is not None:
            await _refuse(way, notes, dialect, 400, "agent", reason)
        else:
            outgoing = _outgoing(session, request, notes)
            async with session.upstream.ask(outgoing) as reply:
                if request.stream and reply.status < 300:
                    await pass_on_stream(request, outgoing, reply, way, notes)
                else:
                    body = await _collect(reply) if reply.whole is None else reply.whole
                    said = _heard(request, outgoing, reply.status, body, notes)
                    await way.answer(reply.status, {**_JSON, **reply.headers}, said)
    except Untranslatable as error:
        await _refuse(way, notes, dialect, 400, "agent", str(error))
    except ProviderError as error:
        session.fail(error)
        await _refuse(way, notes, dialect, _shown_status(error), "provider", str(error))
    except (ConnectionError, asyncio.CancelledError):
        notes.failed("disconnected", None, "the agent hung up before the answer was complete")
        raise
    finally:
        session.end(notes.call())


def _outgoing(session: Session, request: ModelRequest, notes: CallNotes) -> ModelRequest:
    """The request as the upstream gets it: with the run's own values where it sets any, and a count of tokens."""
    dialect, payload, options = request.dialect, request.payload, session.options
    assert dialect is not None and payload is not None  # noqa: S101, PT018 - as above
    if options.model is not None or options.sampling:
        payload = DIALECTS[dialect].with_overrides(payload, options.model, options.sampling)
        notes.asked(payload)
    spoken = session.upstream.dialects
    target = dialect if dialect in spoken or not spoken else min(spoken)
    if target != dialect:
        payload = translate_request(payload, dialect, target)
    if request.stream:
        payload = DIALECTS[target].with_usage(payload)
    if payload is request.payload:
        return request
    path = request.path if target == dialect else PATHS[target]
    return request._replace(path=path, dialect=target, payload=payload, body=_written(payload))


def _written(payload: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(payload)
    except orjson.JSONEncodeError as error:
        raise Untranslatable("the request", "it is nested too deeply") from error


def _heard(request: ModelRequest, outgoing: ModelRequest, status: int, body: bytes, notes: CallNotes) -> bytes:
    """An answer that is not streamed, or an error, as the agent gets it."""
    response = _read(body)
    notes.answered(status, outgoing.dialect, response)
    if status >= 300:
        notes.failed("agent", status, _message(response, body))
    elif not isinstance(response, dict):
        raise ProviderError("the provider's answer is not a JSON object")
    if outgoing.dialect != request.dialect:
        assert request.dialect is not None and outgoing.dialect is not None  # noqa: S101, PT018 - only calls come here
        return _in_dialect(status, response, body, outgoing.dialect, request.dialect)
    return body


async def _collect(reply: ModelReply) -> bytes:
    pieces, size = [], 0
    async for chunk in reply.chunks:
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise ProviderError(f"the provider's answer is larger than {MAX_ANSWER_BYTES:,} bytes")
        pieces.append(chunk)
    return b"".join(pieces)


def _in_dialect(status: int, response: Any, body: bytes, source: Dialect, target: Dialect) -> bytes:
    if status >= 300:
        return orjson.dumps(DIALECTS[target].error_body(status, "agent", _message(response, body)))
    try:
        return orjson.dumps(translate_response(response, source, target))
    except Untranslatable as error:
        raise ProviderError(f"the provider's answer cannot be translated: {error}") from error


def _read(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _message(response: Any, body: bytes) -> str:
    error = response.get("error") if isinstance(response, dict) else None
    said = error.get("message") if isinstance(error, dict) else None
    return str(said) if said else body[:500].decode(errors="replace")


async def _refuse(way: Way, notes: CallNotes, dialect: Dialect, status: int, kind: CallErrorKind, message: str) -> None:
    """Tell the agent of an error as a provider would; in the middle of a stream as an event of it."""
    notes.failed(kind, status, message)
    speaker = DIALECTS[dialect]
    if way.begun:
        event = speaker.error_event(status, kind, message)
        await way.write(encode_event(event))
        return
    await way.answer(status, _FINAL, orjson.dumps(speaker.error_body(status, kind, message)))


def _shown_status(error: ProviderError) -> int:
    """What the agent sees as the status of a failure: never one that sends it somewhere else."""
    return error.status if error.status is not None and error.status >= 400 else 502


async def _pass_by(session: Session, request: ModelRequest, way: Way) -> None:
    """Pass on a request of no dialect. One that may cost something counts as a call, whatever it is about."""
    if request.method != "POST" or request.path.partition("?")[0].rstrip("/").endswith("/count_tokens"):
        await _forward(session, request, way)
        return
    index, retry_of = session.begin(request)
    notes = CallNotes(session, request, index, retry_of)
    try:
        if (reason := session.refusal()) is not None:
            await _refuse(way, notes, "openai_chat", 429, "budget", reason)
        else:
            notes.answered(await _forward(session, request, way), None, None)
    finally:
        session.end(notes.call())


async def _forward(session: Session, request: ModelRequest, way: Way) -> int:
    """Pass on a request and its answer as they are; returns the answer's status."""
    try:
        async with session.upstream.ask(request) as reply:
            await way.begin(reply.status, {**_JSON, **reply.headers})
            async for chunk in reply.chunks:
                await way.write(chunk)
            return reply.status
    except ProviderError as error:
        if way.begun:
            raise ConnectionResetError(str(error)) from error
        body = orjson.dumps({"error": {"message": str(error), "type": "api_error"}})
        await way.answer(error.status or 502, _FINAL, body)
        return error.status or 502
