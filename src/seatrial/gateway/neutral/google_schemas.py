"""Google's own way of describing values, an old form of JSON Schema, as the JSON Schema that the others take."""

from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.checks import need_table

_MOST_LEVELS = 100
_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_ONLY_GOOGLES = frozenset({"propertyOrdering", "nullable"})
_SPELLED = {
    "any_of": "anyOf",
    "max_items": "maxItems",
    "max_length": "maxLength",
    "max_properties": "maxProperties",
    "min_items": "minItems",
    "min_length": "minLength",
    "min_properties": "minProperties",
    "property_ordering": "propertyOrdering",
}


def json_schema(given: Any, where: str) -> Payload:
    """A schema of Google's as JSON Schema. Raises Untranslatable for what is none."""
    return _converted(need_table(given, where), _MOST_LEVELS)


def _converted(schema: Payload, levels: int) -> Payload:
    spelled = {_SPELLED.get(name, name): value for name, value in schema.items()}
    found = {name: _value(name, value, levels) for name, value in spelled.items() if name not in _ONLY_GOOGLES}
    if spelled.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
        if isinstance(found.get("enum"), list):
            found["enum"] = [*found["enum"], None]
    return found


def _value(name: str, value: Any, levels: int) -> Any:
    if levels <= 0:
        return value
    if name == "type" and isinstance(value, str):
        return value.lower()
    if name in _COUNTS and isinstance(value, str) and value.isdecimal():  # Google writes long whole numbers as text
        return int(value)
    if name == "properties" and isinstance(value, dict):
        return {each: _inner(schema, levels) for each, schema in value.items()}
    if name == "anyOf" and isinstance(value, list):
        return [_inner(schema, levels) for schema in value]
    return _inner(value, levels) if name == "items" else value


def _inner(value: Any, levels: int) -> Any:
    return _converted(value, levels - 1) if isinstance(value, dict) else value
