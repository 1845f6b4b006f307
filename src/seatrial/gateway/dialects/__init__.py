"""The dialects in which agents speak to models, one file each, and which of them a path or a header belongs to.

To add one, write `NAME.py` with a `DIALECT` (see `base.py`), and add its name to `DialectName` in `model/trace.py`.
`with_one_model` looks at fields of all dialects alike.
"""

import re
from collections.abc import Container, Mapping
from importlib import import_module
from typing import Any, get_args

import orjson

from seatrial.gateway.dialects.base import Dialect, ModelPath, ModelPaths, Provider, without_path
from seatrial.gateway.fields import Payload, as_usage
from seatrial.model.trace import DialectName, TokenUsage

DIALECTS: Mapping[DialectName, Dialect] = {
    name: import_module(f"{__name__}.{name}").DIALECT for name in get_args(DialectName)
}
PROVIDERS: Mapping[str, Provider] = {each.provider.name: each.provider for each in DIALECTS.values()}
ALL_DIALECTS = frozenset(DIALECTS)

_BY_PATH = {each.path.removeprefix("/v1"): each.name for each in DIALECTS.values() if each.path}
_BY_COUNT_PATH = {each.count_path: each for each in DIALECTS.values() if each.count_path}
_WITH_MODEL_PATHS = [(each, each.model_paths) for each in DIALECTS.values() if each.model_paths is not None]


def usage_of(dialect: DialectName, response: Any) -> TokenUsage | None:
    """What an answer consumed, if it says so."""
    return as_usage(DIALECTS[dialect].counts(response))


def dialect_of(target: str) -> DialectName | None:
    """The dialect of a call to a path, with or without `/v1`; None for any other path."""
    bare = target.partition("?")[0].partition("#")[0].rstrip("/")
    known = _BY_PATH.get(bare.removeprefix("/v1"))
    if known is None and (found := model_path(bare)) is not None and found[1].is_call:
        return found[0].name
    return known


def model_path(target: str) -> tuple[Dialect, ModelPath] | None:
    """The parts of a path that names a model, with its dialect; None for any other path."""
    for dialect, paths in _WITH_MODEL_PATHS:
        if (found := paths.read(target)) is not None:
            return dialect, found
    return None


def owner_of_path(target: str) -> tuple[Dialect, ModelPaths] | None:
    """The dialect with `model_paths` to which a path belongs, known or not."""
    return next((found for found in _WITH_MODEL_PATHS if found[1].owns(target)), None)


def token_counter(target: str) -> Dialect | None:
    """The dialect in which a path asks for a count of tokens; None for any other path."""
    path = target.partition("?")[0].rstrip("/")
    if (known := _BY_COUNT_PATH.get(path)) is not None:
        return known
    found = model_path(path)
    return None if found is None or found[1].is_call else found[0]


def dialect_of_headers(headers: Container[str]) -> DialectName | None:
    """The dialect that the names of headers tell, in lower case."""
    return next(
        (each.name for each in DIALECTS.values() if any(name in headers for name in each.default_headers)), None
    )


def call_path(dialect: DialectName, payload: Payload) -> str:
    """Where a call with this payload goes. Raises ValueError for a model that cannot stand in a path."""
    known = DIALECTS[dialect]
    return known.path if known.model_paths is None else known.model_paths.write(payload)


def call_body(dialect: DialectName | None, payload: Payload) -> bytes:
    """The body of a call with this payload. Raises orjson.JSONEncodeError for what is nested too deeply."""
    in_path = dialect is not None and DIALECTS[dialect].model_paths is not None
    return orjson.dumps(without_path(payload) if in_path else payload)


# Runs that name their model: fields by which a provider may take another one are left out.

_DEEPEST = 100
_ROUTE = re.compile(r"model|fallback|rout(e|ing)|plugin", re.IGNORECASE)
_OWN_TOOLS = ("function", "custom")
_SCHEMAS = frozenset(
    {"schema", "json_schema", "parameters", "parametersJsonSchema", "parameters_json_schema", "input_schema"}
    | {"responseSchema", "response_schema", "responseJsonSchema", "response_json_schema", "headers"}
)
_CONTENTS = frozenset[str]().union(*(each.content_fields for each in DIALECTS.values()))
_FIELDS = _CONTENTS.union(*(each.request_fields for each in DIALECTS.values()))


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
