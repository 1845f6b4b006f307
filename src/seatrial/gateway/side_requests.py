"""Requests that are no conversation with a model: lists of models, counts of tokens, embeddings."""

import asyncio
from typing import Any

import orjson

from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelRequest
from seatrial.gateway.bodies import BodyTooLargeError, HttpAnswer, read_json
from seatrial.gateway.foreign import estimated_count
from seatrial.gateway.google_calls import counted_for
from seatrial.gateway.notes import CallNotes
from seatrial.gateway.routes import NoRoute, find_route
from seatrial.gateway.session import Session
from seatrial.gateway.spill import lightened, takes_files
from seatrial.gateway.way_back import FINAL, JSON, CallRefusal, Way, afforded, refuse


async def pass_by(session: Session, request: ModelRequest, way: Way) -> None:
    """Pass on a request of no dialect. One that costs something counts as a call."""
    request = counted_for(request, session.options.model)
    if request.spooled is not None and takes_files(session.upstream):
        request = lightened(request)
    route = find_route(request.method, request.path)
    if isinstance(route, NoRoute) or not route.counts:
        if (counted := estimated_count(request, session.upstream.dialects)) is not None:
            await way.answer(200, JSON, counted)
        else:
            await _forward(session, request, way)
        return
    index, retry_of = session.begin(request)
    notes = CallNotes(session, request, index, retry_of)
    try:
        refusal = await _refusal_of(session, request, notes)
        if refusal is not None:
            await refuse(way, notes, "openai_chat", refusal)
        else:
            with HttpAnswer(session.bodies) as answer:
                status = await _forward(session, request, way, answer)
                # Its vectors are of no use to a reader of the record; what it took is.
                said = read_json(answer.whole())
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


async def _refusal_of(session: Session, request: ModelRequest, notes: CallNotes) -> CallRefusal | None:
    if (reason := session.refusal()) is not None:
        return CallRefusal(429, "budget", reason)
    outgoing = await afforded(session, request, notes) if session.budget.limited else request
    return outgoing if isinstance(outgoing, CallRefusal) else None


async def _forward(session: Session, request: ModelRequest, way: Way, copy: HttpAnswer | None = None) -> int:
    """Pass on a request and its answer as they are; returns the answer's status."""
    try:
        async with session.upstream.ask(request) as reply:
            await way.begin(reply.status, {**JSON, **reply.headers})
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
