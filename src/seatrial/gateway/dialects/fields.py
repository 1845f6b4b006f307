"""Reading what strangers wrote: a value of the wrong type counts as absent, and nothing here raises."""

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

from seatrial.gateway.dialects.api import Payload, ToldError
from seatrial.gateway.ended import TokenCounts

_MAX_COUNT = 2**40  # no call has so many tokens, and the sum over a trial must fit into its record
_SHOWN = 80
_DEEPEST = 100
_ROUTE = re.compile(r"model|fallback|rout(e|ing)|plugin", re.IGNORECASE)
_OWN_TOOLS = ("function", "custom")
_SCHEMAS = frozenset(
    {"schema", "json_schema", "parameters", "parametersJsonSchema", "parameters_json_schema", "input_schema"}
    | {"responseSchema", "response_schema", "responseJsonSchema", "response_json_schema", "headers"}
)
_CONTENTS = frozenset(
    {"messages", "input", "contents", "system", "systemInstruction", "system_instruction", "instructions", "metadata"}
    | {"client_metadata", "labels", "prediction", "functions", "documents", "logit_bias", "chat_template_kwargs"}
    | {"guided_json", "guided_choice", "structured_outputs", "json_schema"}
)
_FIELDS = _CONTENTS.union(
    # of OpenAI's dialects
    ("audio", "background", "context_management", "conversation", "function_call", "include", "modalities", "model"),
    ("parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options", "stop"),
    ("prompt_cache_retention", "reasoning", "reasoning_effort", "response_format", "safety_identifier", "text"),
    ("service_tier", "stream_options", "tool_choice", "tools", "truncation", "user", "verbosity", "web_search_options"),
    # of Anthropic's
    ("betas", "cache_control", "container", "effort", "inference_geo", "mcp_servers", "output_config", "output_format"),
    ("speed", "stop_sequences", "thinking"),
    # of Google's
    ("cachedContent", "cached_content", "generationConfig", "generation_config", "safetySettings", "safety_settings"),
    ("serviceTier", "toolConfig", "tool_config"),
    # of servers of open models
    ("allowed_token_ids", "bad_words", "chat_template", "dry_sequence_breakers", "grammar", "guided_grammar"),
    ("guided_regex", "mm_processor_kwargs", "samplers", "stop_token_ids", "stream_format", "usage"),
)


def table(value: Any) -> Payload:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """`value` if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """`value` if it is text that says something."""
    return value if isinstance(value, str) and value else None


def count(value: Any) -> int:
    """`value` if it is a count, else 0."""
    return value if is_count(value) else 0


def is_count(value: Any) -> bool:
    """Whether it is a number of things."""
    return type(value) is int and 0 <= value <= _MAX_COUNT


def counted(read: Any, cached: Any, written: Any, thought: Any) -> TokenCounts | None:
    """What an answer consumed; None when one of these is no count, or one of the two sums is missing.

    What is said of a sum's parts may be missing.
    """
    cached, thought = cached or 0, thought or 0
    if not all(map(is_count, (read, cached, written, thought))):
        return None
    return {"input_tokens": read, "cached_tokens": cached, "output_tokens": written, "reasoning_tokens": thought}


def with_cache_writes(counts: TokenCounts | None, stored: Any, stored_1h: Any = 0) -> TokenCounts | None:
    """The same with what the provider stored in its cache, and how much of that for an hour, if it stored anything."""
    if counts is None or not count(stored):
        return counts
    counts["cache_write_tokens"] = stored
    if count(stored_1h):
        counts["cache_write_1h_tokens"] = min(stored_1h, stored)
    return counts


def number(value: Any) -> int | None:
    """`value` if it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def parse_object(data: str) -> Payload | None:
    """The JSON object in `data`, or None."""
    try:
        value = orjson.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def garbled(data: str) -> str | None:
    """The start of what is no JSON object, though it came as one; None for the few words that some streams have."""
    return None if not data.strip() or data.startswith("[DONE]") else data[:_SHOWN]


def dump(value: Any) -> str:
    """Compact JSON, whatever the text in it."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # text that no encoding can hold, from a file name or a terminal: written as escapes
        return json.dumps(value, separators=(",", ":"))


def overridden(payload: Payload, model: str | None, values: Mapping[str, Any]) -> Payload:
    """`payload` with `model` and `values` where they are set."""
    changes = {name: value for name, value in values.items() if value is not None}
    if model is not None:
        changes["model"] = model
    return {**payload, **changes} if changes else payload


def with_one_model(payload: Payload) -> tuple[Payload, tuple[str, ...]]:
    """A request without fields by which a provider may take another model than `model`, and what they were called.

    A field that no dialect has may be one, unless it is a number or a switch; so may a setting within the others that
    is named like one.
    """
    dropped = [name for name, each in payload.items() if name not in _FIELDS and isinstance(each, str | list | dict)]
    known = {name: each for name, each in payload.items() if name not in dropped}
    for name in known.keys() - _CONTENTS:
        if isinstance(known[name], dict | list):
            known[name] = _without_routes(known[name], name, dropped)
    return (known, tuple(dropped)) if dropped else (payload, ())


def _is_own_tool(tool: dict[str, Any]) -> bool:
    return tool.get("type", "custom" if "input_schema" in tool else None) in _OWN_TOOLS


def _without_routes(value: Any, path: str, dropped: list[str], depth: int = 0) -> Any:
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [_without_routes(each, f"{path}[{at}]", dropped, depth + 1) for at, each in enumerate(value)]
    if not isinstance(value, dict) or (path.startswith("tools[") and _is_own_tool(value)):
        return value
    dropped += [f"{path}.{name}" for name in value if _ROUTE.search(name)]
    return {
        name: each if name in _SCHEMAS else _without_routes(each, f"{path}.{name}", dropped, depth + 1)
        for name, each in value.items()
        if not _ROUTE.search(name)
    }


def told_error(body: Any) -> ToldError | None:
    """The error that a body or an event tells, in any of the shapes in use; None when it tells none."""
    error = table(body).get("error")
    if isinstance(error, str) and error:
        return ToldError("error", error)
    found = table(error)
    if not found and table(body).get("type") == "error":
        found = table(body)
    if not found:
        return None
    kind = text(found.get("type")) or text(found.get("code")) or text(found.get("status")) or "error"
    if kind == "error":
        kind = text(found.get("code")) or kind
    return ToldError(kind, text(found.get("message")) or "the provider told of an error without a message")
