"""The settings of a request to Google, its `generationConfig`: lengths, chances, thinking, and the answer's form."""

import re
from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import number, table
from seatrial.gateway.neutral.checks import need_list, need_table, without_none
from seatrial.gateway.neutral.google_fields import leave_out_unread, spelled
from seatrial.gateway.neutral.google_schemas import json_schema
from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.types import Request, Thinking

_CONFIG = "generationConfig"
_THINKING = f"{_CONFIG}.thinkingConfig"
_SAMPLING = ("maxOutputTokens", "temperature", "topP", "seed", "stopSequences")
_FORMAT = ("responseMimeType", "responseSchema", "responseJsonSchema")
_READ = (*_SAMPLING, *_FORMAT, "thinkingConfig")
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "candidateCount": (1,),
    "frequencyPenalty": (0,),
    "presencePenalty": (0,),
    "responseLogprobs": (False,),
    "responseModalities": (["TEXT"],),
}
_JSON = "application/json"
_ONLY_BUDGETS = re.compile(r"(models/)?gemini-[12]\b")
"""Models before the third generation are told how long to think, later ones how hard."""

_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}
_LEVELS = {"none": "MINIMAL", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
_HIGHEST = "HIGH"


def read_config(value: Any, losses: Losses) -> Payload:
    """The settings as fields of a neutral Request. Raises Untranslatable."""
    given = need_table({} if value is None else value, _CONFIG)
    leave_out_unread(given, _READ, _CONFIG, losses, _DEFAULTS)
    config = spelled(given)
    stop = config.get("stopSequences")
    effort, thinking = _read_thinking(config.get("thinkingConfig"), losses)
    return {
        "max_tokens": config.get("maxOutputTokens"),
        "temperature": config.get("temperature"),
        "top_p": config.get("topP"),
        "seed": config.get("seed"),
        "stop": None if stop is None else need_list(stop, f"{_CONFIG}.stopSequences"),
        "format": _read_format(config),
        "effort": effort,
        "thinking": thinking,
    }


def _read_format(config: Payload) -> Payload | None:
    """How the answer is to be shaped, in the flat form of the responses API; None for plain text."""
    if config.get("responseMimeType") != _JSON:
        return None
    schema: Payload | None = None
    if (given := config.get("responseJsonSchema")) is not None:
        schema = need_table(given, f"{_CONFIG}.responseJsonSchema")
    elif (given := config.get("responseSchema")) is not None:
        schema = json_schema(given, f"{_CONFIG}.responseSchema")
    return {"type": "json_object"} if schema is None else {"type": "json_schema", "name": "answer", "schema": schema}


def _read_thinking(value: Any, losses: Losses) -> tuple[str | None, Thinking | None]:
    if value is None:
        return None, None
    config = spelled(need_table(value, _THINKING))
    leave_out_unread(value, ("thinkingLevel", "thinkingBudget", "includeThoughts"), _THINKING, losses)
    level, budget, shown = (
        config.get("thinkingLevel"),
        number(config.get("thinkingBudget")),
        config.get("includeThoughts"),
    )
    effort = level.lower() if isinstance(level, str) and level.upper() != "THINKING_LEVEL_UNSPECIFIED" else None
    if budget is None and not isinstance(shown, bool):
        return effort, None
    told = shown if isinstance(shown, bool) else None
    # A budget below zero leaves it to the model.
    return effort, Thinking(budget != 0, budget if budget is not None and budget > 0 else None, told)


def write_config(request: Request, losses: Losses) -> Payload | None:
    """The settings in Google's words; None where there are none."""
    written = without_none(
        maxOutputTokens=request.max_tokens,
        temperature=request.temperature,
        topP=request.top_p,
        seed=request.seed,
        stopSequences=request.stop,
        thinkingConfig=_write_thinking(request),
        **_write_format(request, losses),
    )
    return written or None


def _write_format(request: Request, losses: Losses) -> Payload:
    shape = request.format
    if shape is None:
        return {}
    if shape.get("type") not in ("json_object", "json_schema"):
        losses.no_place("format")
        return {}
    schema = table(shape.get("schema"))
    return {"responseMimeType": _JSON, **({"responseJsonSchema": schema} if schema else {})}


def _write_thinking(request: Request) -> Payload | None:
    thinking, effort = request.thinking, request.effort
    if thinking is None and effort is None:
        return None
    shown = without_none(includeThoughts=thinking.shown) if thinking and thinking.on else {}
    return {**shown, **_write_amount(request, thinking, effort)} or None


def _write_amount(request: Request, thinking: Thinking | None, effort: Any) -> Payload:
    by_budget = _ONLY_BUDGETS.match(str(request.model)) is not None
    if thinking is not None and not thinking.on:
        return {"thinkingBudget": 0} if by_budget else {"thinkingLevel": _LEVELS["none"]}
    if effort is None:
        return {} if thinking is None or thinking.budget is None else {"thinkingBudget": thinking.budget}
    if by_budget:
        return {"thinkingBudget": _BUDGETS.get(str(effort).lower(), _BUDGETS["high"])}
    return {"thinkingLevel": _LEVELS.get(str(effort).lower(), _HIGHEST)}
