"""One call on its way: an agent's request to the upstream, the answer back, and a line in the log at the end.

What the agent asked for is what the model gets, what the model says is what the agent gets, as it comes. Only what
the run sets is changed on the way, and a dialect that the upstream does not speak is translated.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol

import orjson

from seatrial.errors import ModelSilentError, ProviderError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.array_stream import ArrayWay, wants_array
from seatrial.gateway.bodies import BodyTooLargeError, HttpAnswer
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.foreign import (
    answer_in_dialect,
    error_in_dialect,
    estimated_count,
    in_another_dialect,
    without_refused,
    written,
)
from seatrial.gateway.google_calls import counted_for, to_google
from seatrial.gateway.notes import CallNotes
from seatrial.gateway.routes import NoRoute, find_route
from seatrial.gateway.session import Session
from seatrial.gateway.spill import lightened, spilled, takes_files
from seatrial.gateway.sse import encode_event
from seatrial.gateway.streaming import pass_on_stream
from seatrial.gateway.translate import Untranslatable
from seatrial.model.trace import CallErrorKind, Dialect, EndedBy

_JSON = {"content-type": "application/json"}
_SHOWN_BYTES = 80
# Both official SDKs obey it: what would fail again need not be tried again.
FINAL = {**_JSON, "x-should-retry": "false"}


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
    """HttpAnswer one request of an agent. The caller ends the answer.

    Raises ConnectionError when the agent has hung up. Any other error is a bug of ours or a full disk.
    """
    if request.dialect is None:
        return _pass_by(session, request, way)
    return _call_for_array(session, request, way) if wants_array(request) else _call(session, request, way)


async def _call_for_array(session: Session, request: ModelRequest, way: Way) -> None:
    array = ArrayWay(way)
    await _call(session, request, array)
    await array.end()


async def _call(session: Session, request: ModelRequest, way: Way) -> None:
    assert request.dialect is not None  # noqa: S101 - the only caller has looked
    dialect = request.dialect
    index, retry_of = session.begin(request)
    notes = CallNotes(session, request, index, retry_of)
    try:
        outgoing = _prepared(session, request, notes)
        if request.spooled is not None:
            request, outgoing = _without_bodies(session, request, outgoing, notes)
        if session.budget.limited and not isinstance(outgoing, _Refusal):
            outgoing = await _afforded(session, outgoing, notes)
        if isinstance(outgoing, _Refusal):
            await _refuse(way, notes, dialect, outgoing)
        else:
            await _ask(session, request, outgoing, way, notes)
    except BodyTooLargeError as error:
        # Never the provider's failure: the agent says how much it wants to be told, and its trial must count.
        await _refuse(way, notes, dialect, _Refusal(413, "agent", str(error)))
    except ProviderError as error:
        refusal = _Refusal(_shown_status(error), "provider", str(error))
        if error.status == 429 and session.waits.flooded_since(notes.wait):
            refusal = refusal._replace(kind="agent")
        else:
            session.fail(error)
        notes.failed(refusal.kind, refusal.status, refusal.message, _ended_by(error))
        await _refuse(way, notes, dialect, refusal)
    except (ConnectionError, asyncio.CancelledError):
        notes.hung_up()
        raise
    finally:
        session.end(notes.call(), request, notes.held)


async def _ask(session: Session, request: ModelRequest, outgoing: ModelRequest, way: Way, notes: CallNotes) -> None:
    async with session.upstream.ask(outgoing) as reply:
        if request.stream and reply.status < 300:
            await pass_on_stream(request, outgoing, reply, way, notes)
            return
        if reply.whole is not None and reply.status < 300:
            said = _heard(request, outgoing, reply.status, reply.whole, notes)
            await way.answer(reply.status, {**_JSON, **reply.headers}, said)
            return
        with HttpAnswer(session.bodies) as answer:
            body = await _collect(reply, answer, notes) if reply.whole is None else reply.whole
            foreign = outgoing.dialect != request.dialect
            if not foreign or not without_refused(session, outgoing, reply.status, body):
                said = _heard(request, outgoing, reply.status, body, notes)
                await way.answer(reply.status, {**_JSON, **reply.headers}, said)
                return
    await _ask(session, request, _outgoing(session, request, notes), way, notes)


async def _afforded(session: Session, outgoing: ModelRequest, notes: CallNotes) -> "ModelRequest | _Refusal":
    """The request, once there is room for it in the trial's budget."""
    if (reason := session.unpriced(outgoing)) is not None:
        return _Refusal(400, "agent", reason)
    notes.held = await session.hold(outgoing)
    reason = session.budget.refusal()  # others may have used it up meanwhile
    return outgoing if reason is None else _Refusal(429, "budget", reason)


class _Refusal(NamedTuple):
    """What the agent is told instead of an answer."""

    status: int
    kind: CallErrorKind
    message: str


def _prepared(session: Session, request: ModelRequest, notes: CallNotes) -> "ModelRequest | _Refusal":
    assert request.dialect is not None  # noqa: S101 - as above
    if (reason := session.refusal()) is not None:
        return _Refusal(429, "budget", reason)
    if (reason := DIALECTS[request.dialect].check(request.payload)) is not None:
        return _Refusal(400, "agent", reason)
    try:
        return _outgoing(session, request, notes)
    except Untranslatable as error:
        return _Refusal(400, "agent", str(error))


def _without_bodies(
    session: Session, request: ModelRequest, outgoing: "ModelRequest | _Refusal", notes: CallNotes
) -> tuple[ModelRequest, "ModelRequest | _Refusal"]:
    """A large request and what goes out, without what fills the memory; as they are if the upstream needs all of it."""
    if isinstance(outgoing, _Refusal):
        light: ModelRequest = lightened(request)
    elif takes_files(session.upstream):
        light, outgoing = spilled(request, outgoing)
    else:
        return request, outgoing
    notes.lighten(light)
    return light, outgoing


def _outgoing(session: Session, request: ModelRequest, notes: CallNotes) -> ModelRequest:
    """The request as the upstream gets it: with the run's own values where it sets any, and a count of tokens."""
    dialect, payload, options = request.dialect, request.payload, session.options
    assert dialect is not None and payload is not None  # noqa: S101, PT018 - as above
    if options.model is not None or options.sampling:
        payload = DIALECTS[dialect].with_overrides(payload, options.model, options.sampling)
        notes.asked(payload)
    spoken = session.upstream.dialects
    if dialect not in spoken and spoken:
        return in_another_dialect(session, request._replace(payload=payload), min(spoken), notes)
    if request.stream:
        payload = DIALECTS[dialect].with_usage(payload)
    if dialect == "google":
        return to_google(request, payload)
    if payload is request.payload:
        return request
    return request._replace(payload=payload, body=written(dialect, payload))


def _heard(request: ModelRequest, outgoing: ModelRequest, status: int, body: bytes, notes: CallNotes) -> bytes:
    """An answer that is not streamed, or an error, as the agent gets it."""
    assert request.dialect is not None and outgoing.dialect is not None  # noqa: S101, PT018 - only calls come here
    response = _read(body)
    notes.wait.heard()
    notes.answered(status, outgoing.dialect, response)
    if status >= 300:
        notes.failed("agent", status, _message(response, body), "provider")
    elif not isinstance(response, dict):
        raise ProviderError("the provider's answer is not a JSON object")
    elif not DIALECTS[outgoing.dialect].holds_answer(response):
        raise ProviderError(f"the provider answered {status} with no answer of a model in it: {body[:_SHOWN_BYTES]!a}")
    if outgoing.dialect != request.dialect:
        if status >= 300:
            return error_in_dialect(status, _message(response, body), outgoing.dialect, request.dialect)
        return answer_in_dialect(response, outgoing, request.dialect)
    return body


async def _collect(reply: ModelReply, answer: HttpAnswer, notes: CallNotes) -> bytes:
    async for chunk in reply.chunks:
        if chunk.isspace():  # some providers send blank lines while they think
            notes.still_waiting()
        else:
            notes.wait.heard()
        answer.add(chunk)
    return answer.whole()


def _read(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _message(response: Any, body: bytes) -> str:
    error = response.get("error") if isinstance(response, dict) else None
    said = error.get("message") if isinstance(error, dict) else None
    return str(said) if said else body[:500].decode(errors="replace")


async def _refuse(way: Way, notes: CallNotes, dialect: Dialect, refusal: _Refusal) -> None:
    """Tell the agent of an error as a provider would; in the middle of a stream as an event of it."""
    status, kind, message = refusal
    notes.failed(kind, status, message)
    speaker = DIALECTS[dialect]
    if way.begun:
        event = speaker.error_event(status, kind, message)
        await way.write(encode_event(event))
        return
    await way.answer(status, FINAL, orjson.dumps(speaker.error_body(status, kind, message)))


def _shown_status(error: ProviderError) -> int:
    """What the agent sees as the status of a failure: never one that sends it somewhere else."""
    return error.status if error.status is not None and error.status >= 400 else 502


def _ended_by(error: ProviderError) -> EndedBy:
    return "us" if isinstance(error, ModelSilentError) else "provider"


async def _pass_by(session: Session, request: ModelRequest, way: Way) -> None:
    """Pass on a request of no dialect. One that costs something counts as a call."""
    request = counted_for(request, session.options.model)
    if request.spooled is not None and takes_files(session.upstream):
        request = lightened(request)
    route = find_route(request.method, request.path)
    if isinstance(route, NoRoute) or not route.counts:
        if (counted := estimated_count(request, session.upstream.dialects)) is not None:
            await way.answer(200, _JSON, counted)
        else:
            await _forward(session, request, way)
        return
    index, retry_of = session.begin(request)
    notes = CallNotes(session, request, index, retry_of)
    try:
        refusal = await _refusal_of(session, request, notes)
        if refusal is not None:
            await _refuse(way, notes, "openai_chat", refusal)
        else:
            with HttpAnswer(session.bodies) as answer:
                status = await _forward(session, request, way, answer)
                # Its vectors are of no use to a reader of the record; what it took is.
                said = _read(answer.whole())
                known = {name: said[name] for name in ("model", "usage") if name in said} if _is_table(said) else None
                notes.wait.heard()
                notes.answered(status, "openai_chat", known)
    except BodyTooLargeError as error:
        notes.failed("agent", 413, str(error))
        raise ConnectionResetError(str(error)) from error
    except (ConnectionError, asyncio.CancelledError):
        notes.hung_up()
        raise
    finally:
        session.end(notes.call(), request, notes.held)


async def _refusal_of(session: Session, request: ModelRequest, notes: CallNotes) -> _Refusal | None:
    if (reason := session.refusal()) is not None:
        return _Refusal(429, "budget", reason)
    outgoing = await _afforded(session, request, notes) if session.budget.limited else request
    return outgoing if isinstance(outgoing, _Refusal) else None


async def _forward(session: Session, request: ModelRequest, way: Way, copy: HttpAnswer | None = None) -> int:
    """Pass on a request and its answer as they are; returns the answer's status."""
    try:
        async with session.upstream.ask(request) as reply:
            await way.begin(reply.status, {**_JSON, **reply.headers})
            async for chunk in reply.chunks:
                if copy is not None:
                    copy.add(chunk)
                await way.write(chunk)
            return reply.status
    except ProviderError as error:
        if way.begun:
            raise ConnectionResetError(str(error)) from error
        body = orjson.dumps({"error": {"message": str(error), "type": "api_error"}})
        await way.answer(error.status or 502, FINAL, body)
        return error.status or 502


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)
