"""A question to a judge as a call of a model, and what the model wrote as the judge's reply.

For whoever asks: a verification by a session of the gateway, a job's assessments by an upstream alone.
"""

from collections.abc import Collection
from typing import Any

import orjson

from seatrial.errors import InvalidModelResponseError, ProviderError, UsageError
from seatrial.gateway.api import ModelRequest
from seatrial.gateway.dialects import DIALECTS, call_body, call_path, usage_of
from seatrial.gateway.neutral.types import Answer, Untranslatable
from seatrial.gateway.prices import PriceTable, price
from seatrial.gateway.translate import read_answer, translate
from seatrial.gateway.upstreams.failures import error_message
from seatrial.judge.assess import JudgeReply
from seatrial.judge.questions import JudgeCall
from seatrial.messages import Message, Refusal
from seatrial.model.trace import DialectName, TokenUsage
from seatrial.untrusted.json import parse_object

REFUSING_A_SCHEMA = (400, 404, 422)
"""What an upstream may answer that takes no schema; it is asked without then."""

_FORMAT_NAME = "answers"
_NO_PRICES = PriceTable(models={})


def request_for(
    call: JudgeCall, model: str, dialects: Collection[DialectName] = (), trial: int = 0, *, with_schema: bool
) -> ModelRequest:
    """The call in a dialect that is spoken. Raises UsageError."""
    spoken: DialectName = "openai_chat" if "openai_chat" in dialects or not dialects else min(dialects)
    payload: dict[str, Any] = {
        "model": model,
        "messages": [
            {"role": "system", "content": call.system},
            *({"role": turn.role, "content": turn.text} for turn in call.turns),
        ],
        "max_completion_tokens": call.max_tokens,
    }
    if call.temperature is not None:
        payload["temperature"] = call.temperature
    if with_schema:
        shape = {"name": _FORMAT_NAME, "strict": True, "schema": dict(call.schema)}
        payload["response_format"] = {"type": "json_schema", "json_schema": shape}
    try:
        if spoken != "openai_chat":
            payload = translate(payload, "openai_chat", spoken, "lenient").payload
        path, body = call_path(spoken, payload), call_body(spoken, payload)
    except (Untranslatable, ValueError) as error:
        raise UsageError(f"the judge {model} cannot be asked in its dialect: {error}") from error
    return ModelRequest(path, dialect=spoken, payload=payload, body=body, trial=trial)


def reply_of(
    request: ModelRequest, status: int, body: bytes, model: str, prices: PriceTable = _NO_PRICES
) -> JudgeReply:
    """What the model wrote. Raises ModelError for what is no answer."""
    if status >= 300:
        error = ProviderError(f"the provider answered {status}: {error_message(body)}", status)
        error.retryable = False
        raise error
    answer = _answer(request, body)
    text = "".join(item.text for item in answer.items if isinstance(item, Message))
    refused = answer.stop == "content_filter" or (not text and any(isinstance(item, Refusal) for item in answer.items))
    usage = usage_in(request, body) or TokenUsage()
    return JudgeReply(
        text=text,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=price(model, usage, prices),
        stopped="refused" if refused else "cut" if answer.stop == "length" else None,
    )


def usage_in(request: ModelRequest, body: bytes) -> TokenUsage | None:
    response = parse_object(body)
    return None if response is None or request.dialect is None else usage_of(request.dialect, response)


def _answer(request: ModelRequest, body: bytes) -> Answer:
    assert request.dialect is not None  # noqa: S101 - it is a call
    dialect, response = DIALECTS[request.dialect], parse_object(body)
    if response is None or not dialect.holds_answer(response):
        raise InvalidModelResponseError(f"the provider's answer has no answer of a model in it: {body[:200]!a}")
    try:
        return read_answer(response, dialect)
    except (Untranslatable, orjson.JSONEncodeError) as error:
        raise InvalidModelResponseError(f"the provider's answer cannot be read: {error}") from error
