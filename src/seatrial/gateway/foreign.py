"""Calls to an upstream that does not speak the agent's dialect: the request there, the answer and the errors back.

What a model may be asked for differs from model to model: a setting that one refuses is left out from then on, as if
its dialect had no place for it. A strict translation leaves nothing out.
"""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelRequest
from seatrial.gateway.bodies import read_json
from seatrial.gateway.budget import estimate_of
from seatrial.gateway.dialects import DIALECTS, call_body, call_path
from seatrial.gateway.dialects.fields import table, text
from seatrial.gateway.notes import CallNotes
from seatrial.gateway.session import Session
from seatrial.gateway.translate import NAMES, Untranslatable, translate, translate_response
from seatrial.model.trace import Dialect

_REFUSED = (400, 422)
_OF_ONE_DIALECT = ("anthropic-", "openai-", "x-goog-")
_COUNTERS: Mapping[str, Dialect] = {
    "/v1/messages/count_tokens": "anthropic",
    "/v1/responses/input_tokens": "openai_responses",
}
_THOUGHT = ("effort", "thinking")
# Settings that a model may refuse, by the words with which providers name them, and the fields that they come from.
_REFUSABLE: Mapping[Dialect, Mapping[str, tuple[str, ...]]] = {
    "openai_chat": {
        "reasoning_effort": _THOUGHT,
        "verbosity": ("verbosity",),
        "parallel_tool_calls": ("parallel",),
    },
    "openai_responses": {
        "reasoning": _THOUGHT,
        "encrypted content": _THOUGHT,
        "include": _THOUGHT,
        "text.verbosity": ("verbosity",),
        "parallel_tool_calls": ("parallel",),
    },
    "anthropic": {
        "effort": _THOUGHT,
        "output_config.effort": _THOUGHT,
        "thinking": _THOUGHT,
        "top_p": ("top_p",),  # newer models refuse it beside a temperature, and agents of other dialects send both
    },
    "google": dict.fromkeys(("thinking", "thinkingConfig", "thinkingLevel", "thinkingBudget"), _THOUGHT),
}


def in_another_dialect(session: Session, request: ModelRequest, target: Dialect, notes: CallNotes) -> ModelRequest:
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


def estimated_count(request: ModelRequest, spoken: frozenset[Dialect]) -> bytes | None:
    """About how many tokens a request has, for an agent that asks in a dialect which the upstream does not speak.

    None if that is not what it asks, or the upstream can say it.
    """
    path = request.path.partition("?")[0].rstrip("/")
    dialect = "google" if path.endswith(":countTokens") else _COUNTERS.get(path)
    if dialect is None or not spoken or dialect in spoken:
        return None
    count = int(estimate_of(request, 0, None).tokens)
    if dialect == "google":
        return orjson.dumps({"totalTokens": count})
    kind = {"object": "response.input_tokens"} if dialect == "openai_responses" else {}
    return orjson.dumps({**kind, "input_tokens": count})


def _is_of_any_dialect(header: str) -> bool:
    return not header.lower().startswith(_OF_ONE_DIALECT)


def written(dialect: Dialect, payload: dict[str, Any]) -> bytes:
    """The body of a request. Raises Untranslatable."""
    try:
        return call_body(dialect, payload)
    except orjson.JSONEncodeError as error:
        raise Untranslatable("the request", "it is nested too deeply") from error


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
    found = {field for word, fields in _REFUSABLE[outgoing.dialect].items() if _names(said, word) for field in fields}
    refused = found - session.options.sampling.keys()  # what the run itself has set is not for us to drop
    if refused <= known:
        return False
    session.omissions.refused[model] = known | refused
    return True


def _what_it_is_about(body: bytes) -> str:
    error = table(table(read_json(body)).get("error"))
    return f"{text(error.get('param')) or ''} {text(error.get('message')) or body[:2000].decode(errors='replace')}"


def _names(said: str, word: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(word)}(?!\w)", said, re.IGNORECASE) is not None


def answer_in_dialect(response: Any, outgoing: ModelRequest, target: Dialect) -> bytes:
    """The whole answer as the agent gets it. Raises ProviderError for content that has no place there."""
    assert outgoing.dialect is not None  # noqa: S101 - as above
    try:
        return orjson.dumps(translate_response(response, outgoing.dialect, target, outgoing.agent_tools))
    except Untranslatable as error:
        raise ProviderError(f"the provider's answer cannot be translated: {error}") from error


def error_in_dialect(status: int, message: str, source: Dialect, target: Dialect) -> bytes:
    """A provider's refusal as the agent gets it, with the agent's own names for the fields that it speaks of."""
    theirs, own = NAMES[source], NAMES[target]
    told = {own[name]: word for name, word in theirs.items() if own.get(name, word) != word and _names(message, word)}
    explained = "; ".join(f"`{word}` is what `{name}` was translated to" for name, word in told.items())
    whole = f"{message} ({explained})" if explained else message
    return orjson.dumps(DIALECTS[target].error_body(status, "agent", whole))
