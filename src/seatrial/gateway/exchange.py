"""One call on its way: an agent's request to the upstream, the answer back, and a line in the log at the end.

What the agent asked for is what the model gets, what the model says is what the agent gets, as it comes. Only what
the run sets is changed on the way, and a dialect that the upstream does not speak is translated. Requests that are no
calls of a model, such as lists of models, are passed on here too.
"""

import asyncio
import re
from collections.abc import Coroutine
from typing import Any

import orjson

from seatrial.errors import ModelSilentError, ProviderError
from seatrial.gateway.api import (
    AcceptsFiles,
    BodyTooLargeError,
    HttpAnswer,
    ModelReply,
    ModelRequest,
    Upstream,
    is_nested_too_deeply,
)
from seatrial.gateway.base import SseReader
from seatrial.gateway.budget import estimate_of
from seatrial.gateway.dialects import (
    DIALECTS,
    call_body,
    call_path,
    model_path,
    owner_of_path,
    token_counter,
    with_one_model,
)
from seatrial.gateway.dialects.base import ModelPaths
from seatrial.gateway.neutral.types import Untranslatable
from seatrial.gateway.notes import CallNotes
from seatrial.gateway.routes import FINAL, JSON, CallRefusal, NoRoute, Responder, afforded, find_route, refuse
from seatrial.gateway.session import Session
from seatrial.gateway.streaming import pass_on_stream
from seatrial.gateway.translate import translate, translate_response
from seatrial.model.trace import DialectName, EndedBy
from seatrial.untrusted.json import mapping, parse, text

_SHOWN_BYTES = 80
_LONGEST_VALUE = 1000
_REFUSED = (400, 422)
_OF_ONE_DIALECT = tuple({each.header_prefix for each in DIALECTS.values()})


def carry(session: Session, request: ModelRequest, responder: Responder) -> Coroutine[Any, Any, None]:
    """Answer one request of an agent. The caller ends the answer.

    Raises ConnectionError when the agent has hung up. Any other error is a bug of ours or a full disk.
    """
    if request.dialect is None:
        return pass_by(session, request, responder)
    if request.stream and wants_array(request):
        return _call_for_array(session, request, responder)
    return _call(session, request, responder)


async def _call_for_array(session: Session, request: ModelRequest, responder: Responder) -> None:
    array = ArrayResponder(responder)
    await _call(session, request, array)
    await array.end()


async def _call(session: Session, request: ModelRequest, responder: Responder) -> None:
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
            await refuse(responder, notes, dialect, outgoing)
        else:
            await _ask(session, request, outgoing, responder, notes)
    except BodyTooLargeError as error:
        # Never the provider's failure: the agent says how much it wants to be told, and its trial must count.
        await refuse(responder, notes, dialect, CallRefusal(413, "agent", str(error)))
    except ProviderError as error:
        refusal = CallRefusal(_shown_status(error), "provider", str(error))
        if error.status == 429 and session.waits.flooded_since(notes.wait):
            refusal = refusal._replace(kind="agent")
        else:
            session.fail(error)
        notes.failed(refusal.kind, refusal.status, refusal.message, _ended_by(error))
        await refuse(responder, notes, dialect, refusal)
    except (ConnectionError, asyncio.CancelledError):
        notes.hung_up()
        raise
    finally:
        session.end(notes.call(), request, notes.held)


async def _ask(
    session: Session, request: ModelRequest, outgoing: ModelRequest, responder: Responder, notes: CallNotes
) -> None:
    session.passes_on(outgoing, notes.wait)
    async with session.upstream.ask(outgoing) as reply:
        if request.stream and reply.status < 300:
            with HttpAnswer(session.bodies) as answer:
                await pass_on_stream(request, outgoing, reply, responder, notes, answer)
            return
        if reply.whole is not None and reply.status < 300:
            said = _heard(request, outgoing, reply.status, reply.whole, notes)
            await responder.answer(reply.status, {**JSON, **reply.headers}, said)
            return
        with HttpAnswer(session.bodies) as answer:
            body = await _collect(reply, answer, notes) if reply.whole is None else reply.whole
            foreign = outgoing.dialect != request.dialect
            if not foreign or not without_refused(session, outgoing, reply.status, body):
                said = _heard(request, outgoing, reply.status, body, notes)
                await responder.answer(reply.status, {**JSON, **reply.headers}, said)
                return
    await _ask(session, request, _outgoing(session, request, notes), responder, notes)


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
    payload, options = request.payload, session.options
    assert request.dialect is not None and payload is not None  # noqa: S101, PT018 - as above
    dialect = DIALECTS[request.dialect]
    model = session.model_for(payload.get("model"))
    if model is not None:
        payload = _with_one_model(session, payload, notes)
    if model is not None or options.sampling:
        payload = dialect.with_overrides(payload, model, options.sampling)
        notes.asked(payload)
    spoken = session.upstream.dialects
    if dialect.name not in spoken and spoken:
        return in_another_dialect(session, request._replace(payload=payload), min(spoken), notes)
    if request.stream:
        payload = dialect.with_usage(payload)
    if dialect.model_paths is not None:
        return at_its_path(request, payload, dialect.model_paths)
    if payload is request.payload:
        return request
    return request._replace(payload=payload, body=written(dialect.name, payload))


def _with_one_model(session: Session, payload: dict[str, Any], notes: CallNotes) -> dict[str, Any]:
    payload, dropped = with_one_model(payload)
    if dropped and session.options.translation == "strict":
        raise Untranslatable(dropped[0], "it may name another model, and this run has one")
    notes.left_out(dropped)
    return payload


def _heard(request: ModelRequest, outgoing: ModelRequest, status: int, body: bytes, notes: CallNotes) -> bytes:
    """An answer that is not streamed, or an error, as the agent gets it."""
    assert request.dialect is not None and outgoing.dialect is not None  # noqa: S101, PT018 - only calls come here
    response = parse(body)
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
    said = mapping(mapping(response).get("error")).get("message")
    return str(said) if said else body[:500].decode(errors="replace")


def _shown_status(error: ProviderError) -> int:
    """What the agent sees as the status of a failure: never one that sends it somewhere else."""
    return error.status if error.status is not None and error.status >= 400 else 502


def _ended_by(error: ProviderError) -> EndedBy:
    return "us" if isinstance(error, ModelSilentError) else "provider"


# Another dialect: the request there, the answer and the errors back. What a model may be asked for differs from model
# to model: a setting that one refuses is left out from then on. A strict translation leaves nothing out.


def in_another_dialect(session: Session, request: ModelRequest, target: DialectName, notes: CallNotes) -> ModelRequest:
    """The request as the upstream gets it. Raises Untranslatable."""
    assert request.dialect is not None and request.payload is not None  # noqa: S101, PT018 - only calls come here
    model = request.payload.get("model")
    without = session.omissions.refused.get(model, ()) if isinstance(model, str) else ()
    translated = translate(request.payload, request.dialect, target, session.options.translation, without)
    notes.left_out(translated.omitted)
    payload = DIALECTS[target].with_usage(translated.payload) if request.stream else translated.payload
    return request._replace(
        path=call_path(target, payload),
        dialect=target,
        payload=payload,
        body=written(target, payload),
        headers={name.lower(): value for name, value in request.headers.items() if _is_of_any_dialect(name)},
        agent_tools=translated.agent_tools,
    )


def estimated_count(request: ModelRequest, spoken: frozenset[DialectName]) -> bytes | None:
    """About how many tokens a request has, for an agent that asks in a dialect which the upstream does not speak.

    None if that is not what it asks, or the upstream can say it.
    """
    dialect = token_counter(request.path)
    if dialect is None or not spoken or dialect.name in spoken:
        return None
    return orjson.dumps(dialect.count_answer(int(estimate_of(request, 0, None).tokens)))


def _is_of_any_dialect(header: str) -> bool:
    return not header.lower().startswith(_OF_ONE_DIALECT)


def written(dialect: DialectName, payload: dict[str, Any]) -> bytes:
    """The body of a request. Raises Untranslatable."""
    try:
        return call_body(dialect, payload)
    except orjson.JSONEncodeError as error:
        raise Untranslatable("the request", "it is nested too deeply") from error


def at_its_path(request: ModelRequest, payload: dict[str, Any], paths: ModelPaths) -> ModelRequest:
    """A call with the payload that it has now, at the path that names its model. Raises Untranslatable."""
    assert request.dialect is not None  # noqa: S101 - only calls come here
    body = request.body if payload is request.payload else written(request.dialect, payload)
    try:
        path = paths.write(payload, request.path)
    except ValueError as error:
        raise Untranslatable("model", str(error)) from error
    return request._replace(path=path, payload=payload, body=body)


def without_refused(session: Session, outgoing: ModelRequest, status: int, body: bytes) -> bool:
    """Whether a refusal speaks of a setting that was translated and can be left out; it will be, from now on."""
    payload = outgoing.payload
    if status not in _REFUSED or session.options.translation == "strict" or payload is None or outgoing.spooled:
        return False
    assert outgoing.dialect is not None  # noqa: S101 - only calls come here
    said = _what_it_is_about(body)
    model = payload.get("model")
    if not isinstance(model, str):
        return False
    known = session.omissions.refused.get(model, frozenset())
    found = {
        field for word, fields in DIALECTS[outgoing.dialect].refusable.items() if _names(said, word) for field in fields
    }
    refused = found - session.options.sampling.keys()  # what the run itself has set is not for us to drop
    if refused <= known:
        return False
    session.omissions.refused[model] = known | refused
    return True


def _what_it_is_about(body: bytes) -> str:
    error = mapping(mapping(parse(body)).get("error"))
    return f"{text(error.get('param')) or ''} {text(error.get('message')) or body[:2000].decode(errors='replace')}"


def _names(said: str, word: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(word)}(?!\w)", said, re.IGNORECASE) is not None


def answer_in_dialect(response: Any, outgoing: ModelRequest, target: DialectName) -> bytes:
    """The whole answer as the agent gets it. Raises ProviderError for content that has no place there."""
    assert outgoing.dialect is not None  # noqa: S101 - as above
    try:
        return orjson.dumps(translate_response(response, outgoing.dialect, target, outgoing.agent_tools))
    except Untranslatable as error:
        raise ProviderError(f"the provider's answer cannot be translated: {error}") from error


def error_in_dialect(status: int, message: str, source: DialectName, target: DialectName) -> bytes:
    """A provider's refusal as the agent gets it, with the agent's own names for the fields that it speaks of."""
    theirs, own = DIALECTS[source].field_names, DIALECTS[target].field_names
    told = {own[name]: word for name, word in theirs.items() if own.get(name, word) != word and _names(message, word)}
    explained = "; ".join(f"`{word}` is what `{name}` was translated to" for name, word in told.items())
    whole = f"{message} ({explained})" if explained else message
    return orjson.dumps(DIALECTS[target].error_body(status, "agent", whole))


# Google's other form of a stream: one JSON array that grows, for those who do not ask for server-sent events.


def wants_array(request: ModelRequest) -> bool:
    if request.dialect is None or not request.stream or DIALECTS[request.dialect].model_paths is None:
        return False
    found = model_path(request.path)
    return found is not None and not found[1].events


class ArrayResponder:
    """The way back to an agent that wants an array. What is written to it are events; `end` closes the array."""

    def __init__(self, responder: Responder) -> None:
        self._responder = responder
        self._reader = SseReader()
        self._between = b"["
        self._streams = False

    @property
    def begun(self) -> bool:
        return self._responder.begun

    def begin(self, status: int, headers: dict[str, str]) -> Coroutine[Any, Any, None]:
        self._streams = True
        return self._responder.begin(status, {**headers, "content-type": "application/json; charset=utf-8"})

    async def write(self, data: bytes) -> None:
        for event in self._reader.feed(data):
            await self._responder.write(self._between + event.data.encode())
            self._between = b",\r\n"

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> Coroutine[Any, Any, None]:
        """Send an answer as a whole, which is none of a stream."""
        return self._responder.answer(status, headers, body)

    async def end(self) -> None:
        if self._streams:
            await self._responder.write(b"[]" if self._between == b"[" else b"]")


# Large requests, which let go of memory while an upstream is at work: their file stays, and what is short of their
# JSON.


def takes_files(upstream: Upstream) -> bool:
    """Whether an upstream sends large bodies from their files."""
    return isinstance(upstream, AcceptsFiles) and upstream.takes_files


def spilled(request: ModelRequest, outgoing: ModelRequest) -> tuple[ModelRequest, ModelRequest]:
    """A large request and what goes to the upstream, without their bodies.

    Raises TooLargeError when the trial has no room for what goes out, or SpoolError.
    """
    assert request.spooled is not None  # noqa: S101 - only such requests are spilled
    file = request.spooled if outgoing.body is request.body else request.spooled.beside(outgoing.body)
    return lightened(request), lightened(outgoing)._replace(spooled=file)


def lightened(request: ModelRequest) -> ModelRequest:
    """A request without its body, and of its JSON only what is short."""
    return request._replace(body=b"", payload=None if request.payload is None else _short(request))


def _short(request: ModelRequest) -> dict[str, Any]:
    payload = request.payload or {}
    kept = {name: value for name, value in payload.items() if len(name) <= _LONGEST_VALUE and _is_short(value)}
    options = payload.get("stream_options")
    if isinstance(options, dict) and isinstance(options.get("include_usage"), bool):
        kept["stream_options"] = {"include_usage": options["include_usage"]}
    dialect = None if request.dialect is None else DIALECTS[request.dialect]
    if dialect is not None and dialect.settings_fields and (limits := dialect.settings(payload)):
        kept[dialect.settings_fields[0]] = {name: value for name, value in limits.items() if _is_short(value)}
    return kept


def _is_short(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= _LONGEST_VALUE)


# Requests that are no conversation with a model: lists of models, counts of tokens, embeddings.


async def pass_by(session: Session, request: ModelRequest, responder: Responder) -> None:
    """Pass on a request of no dialect. One that costs something counts as a call."""
    request = _of_the_runs_model(request, session.options.model)
    if request.spooled is not None and takes_files(session.upstream):
        request = lightened(request)
    route = find_route(request.method, request.path)
    if isinstance(route, NoRoute) or not route.counts:
        if (counted := estimated_count(request, session.upstream.dialects)) is not None:
            await responder.answer(200, JSON, counted)
        else:
            await _forward(session, request, responder)
        return
    index, retry_of = session.begin(request)
    notes = CallNotes(session, request, index, retry_of)
    try:
        refusal = await _refusal_of(session, request, notes)
        if refusal is not None:
            await refuse(responder, notes, "openai_chat", refusal)
        else:
            with HttpAnswer(session.bodies) as answer:
                status = await _forward(session, request, responder, answer)
                # Its vectors are of no use to a reader of the record; what it took is.
                said = parse(answer.whole())
                known = (
                    {name: said[name] for name in ("model", "usage") if name in said}
                    if isinstance(said, dict)
                    else None
                )
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


def _of_the_runs_model(request: ModelRequest, model: str | None) -> ModelRequest:
    """A request that is no call. If its path names a model, it is that of the run."""
    owner = owner_of_path(request.path) if model is not None else None
    if owner is None or model is None:
        return request
    return request._replace(path=owner[1].of_model(request.path, model))


async def _refusal_of(session: Session, request: ModelRequest, notes: CallNotes) -> CallRefusal | None:
    if (reason := session.refusal()) is not None:
        return CallRefusal(429, "budget", reason)
    outgoing = await afforded(session, request, notes) if session.budget.limited else request
    return outgoing if isinstance(outgoing, CallRefusal) else None


async def _forward(
    session: Session, request: ModelRequest, responder: Responder, copy: HttpAnswer | None = None
) -> int:
    """Pass on a request and its answer as they are; returns the answer's status."""
    try:
        async with session.upstream.ask(request) as reply:
            await responder.begin(reply.status, {**JSON, **reply.headers})
            async for chunk in reply.chunks:
                if copy is not None:
                    copy.add(chunk)
                await responder.write(chunk)
            return reply.status
    except ProviderError as error:
        if responder.begun:
            raise ConnectionResetError(str(error)) from error
        body = orjson.dumps({"error": {"message": str(error), "type": "api_error"}})
        await responder.answer(error.status or 502, FINAL, body)
        return error.status or 502
