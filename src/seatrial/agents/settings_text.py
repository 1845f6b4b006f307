"""Settings of an agent as the text of a file: JSON, or TOML, of which JSON's values without null are enough."""

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def settings_text(path: str, content: Mapping[str, Any]) -> str:
    """The text of a file: TOML if its path says so, otherwise JSON, which is YAML too."""
    return _toml(content) if path.endswith(".toml") else json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def merged(settings: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others laid over them: tables are merged, everything else is replaced."""
    result = dict(settings)
    for key, value in others.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _toml(content: Mapping[str, Any]) -> str:
    """One line for each key; tables are inline, so that their order does not matter."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in content.items() if value is not None)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(value) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    # JSON leaves only DEL as it is of what TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
