"""One call on its way: an agent's request to the upstream, the answer back, and a line in the log at the end.

What the agent asked for is what the model gets, what the model says is what the agent gets, as it comes. Only what
the run sets is changed on the way, and a dialect that the upstream does not speak is translated.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from seatrial.errors import ModelSilentError, ProviderError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.array_stream import ArrayWay, wants_array
from seatrial.gateway.bodies import BodyTooLargeError, HttpAnswer, is_nested_too_deeply, read_json
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.dialects.fields import with_one_model
from seatrial.gateway.foreign import (
    answer_in_dialect,
    error_in_dialect,
    in_another_dialect,
    without_refused,
    written,
)
from seatrial.gateway.google_calls import to_google
from seatrial.gateway.notes import CallNotes
from seatrial.gateway.session import Session
from seatrial.gateway.side_requests import pass_by
from seatrial.gateway.spill import lightened, spilled, takes_files
from seatrial.gateway.streaming import pass_on_stream
from seatrial.gateway.translate import Untranslatable
from seatrial.gateway.way_back import JSON, CallRefusal, Way, afforded, refuse
from seatrial.model.trace import EndedBy

_SHOWN_BYTES = 80


def carry(session: Session, request: ModelRequest, way: Way) -> Coroutine[Any, Any, None]:
    """Answer one request of an agent. The caller ends the answer.

    Raises ConnectionError when the agent has hung up. Any other error is a bug of ours or a full disk.
    """
    if request.dialect is None:
        return pass_by(session, request, way)
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
        if session.budget.limited and not isinstance(outgoing, CallRefusal):
            outgoing = await afforded(session, outgoing, notes)
        if isinstance(outgoing, CallRefusal):
            await refuse(way, notes, dialect, outgoing)
        else:
            await _ask(session, request, outgoing, way, notes)
    except BodyTooLargeError as error:
        # Never the provider's failure: the agent says how much it wants to be told, and its trial must count.
        await refuse(way, notes, dialect, CallRefusal(413, "agent", str(error)))
    except ProviderError as error:
        refusal = CallRefusal(_shown_status(error), "provider", str(error))
        if error.status == 429 and session.waits.flooded_since(notes.wait):
            refusal = refusal._replace(kind="agent")
        else:
            session.fail(error)
        notes.failed(refusal.kind, refusal.status, refusal.message, _ended_by(error))
        await refuse(way, notes, dialect, refusal)
    except (ConnectionError, asyncio.CancelledError):
        notes.hung_up()
        raise
    finally:
        session.end(notes.call(), request, notes.held)


async def _ask(session: Session, request: ModelRequest, outgoing: ModelRequest, way: Way, notes: CallNotes) -> None:
    session.passes_on(outgoing, notes.wait)
    async with session.upstream.ask(outgoing) as reply:
        if request.stream and reply.status < 300:
            with HttpAnswer(session.bodies) as answer:
                await pass_on_stream(request, outgoing, reply, way, notes, answer)
            return
        if reply.whole is not None and reply.status < 300:
            said = _heard(request, outgoing, reply.status, reply.whole, notes)
            await way.answer(reply.status, {**JSON, **reply.headers}, said)
            return
        with HttpAnswer(session.bodies) as answer:
            body = await _collect(reply, answer, notes) if reply.whole is None else reply.whole
            foreign = outgoing.dialect != request.dialect
            if not foreign or not without_refused(session, outgoing, reply.status, body):
                said = _heard(request, outgoing, reply.status, body, notes)
                await way.answer(reply.status, {**JSON, **reply.headers}, said)
                return
    await _ask(session, request, _outgoing(session, request, notes), way, notes)


def _prepared(session: Session, request: ModelRequest, notes: CallNotes) -> ModelRequest | CallRefusal:
    assert request.dialect is not None  # noqa: S101 - as above
    if (reason := session.refusal()) is not None:
        return CallRefusal(429, "budget", reason)
    if (reason := DIALECTS[request.dialect].check(request.payload)) is not None:
        return CallRefusal(400, "agent", reason)
    try:
        return _outgoing(session, request, notes)
    except Untranslatable as error:
        return CallRefusal(400, "agent", str(error))


def _without_bodies(
    session: Session, request: ModelRequest, outgoing: ModelRequest | CallRefusal, notes: CallNotes
) -> tuple[ModelRequest, ModelRequest | CallRefusal]:
    """A large request and what goes out, without what fills the memory; as they are if the upstream needs all of it."""
    if isinstance(outgoing, CallRefusal):
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
    if options.model is not None:
        payload = _with_one_model(session, payload, notes)
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


def _with_one_model(session: Session, payload: dict[str, Any], notes: CallNotes) -> dict[str, Any]:
    payload, dropped = with_one_model(payload)
    if dropped and session.options.translation == "strict":
        raise Untranslatable(dropped[0], "it may name another model, and this run has one")
    notes.left_out(dropped)
    return payload


def _heard(request: ModelRequest, outgoing: ModelRequest, status: int, body: bytes, notes: CallNotes) -> bytes:
    """An answer that is not streamed, or an error, as the agent gets it."""
    assert request.dialect is not None and outgoing.dialect is not None  # noqa: S101, PT018 - only calls come here
    response = read_json(body)
    notes.wait.heard()
    notes.answered(status, outgoing.dialect, response)
    if status >= 300:
        notes.failed("agent", status, _message(response, body), "provider")
    elif not isinstance(response, dict):
        if is_nested_too_deeply(body):  # as an agent may ask its model to answer, and its trial must count
            raise BodyTooLargeError("the model's answer is nested too deeply to be read")
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


def _message(response: Any, body: bytes) -> str:
    error = response.get("error") if isinstance(response, dict) else None
    said = error.get("message") if isinstance(error, dict) else None
    return str(said) if said else body[:500].decode(errors="replace")


def _shown_status(error: ProviderError) -> int:
    """What the agent sees as the status of a failure: never one that sends it somewhere else."""
    return error.status if error.status is not None and error.status >= 400 else 502


def _ended_by(error: ProviderError) -> EndedBy:
    return "us" if isinstance(error, ModelSilentError) else "provider"
