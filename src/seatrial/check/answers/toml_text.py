"""Plain values as TOML. The standard library reads it only; what is written here is read back before it is used."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write_toml(table: Mapping[str, Any]) -> str:
    """A document of the same values. Raises ValueError for what TOML cannot say, such as null."""
    return "\n".join(_lines(table, ())).strip("\n") + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """The plain keys of a table first: behind the header of another one they would be part of that."""
    for key, value in table.items():
        if not _is_table(value):
            yield f"{_key(key)} = {_inline(value)}"
    for key, value in table.items():
        header = ".".join(map(_key, (*path, key)))
        if isinstance(value, Mapping):
            yield from ("", f"[{header}]", *_lines(value, (*path, key)))
        elif _is_table(value):
            for entry in value:
                yield from ("", f"[[{header}]]", *_lines(entry, (*path, key)))


def _is_table(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(entry, Mapping) for entry in value)
    return isinstance(value, Mapping)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _inline(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_inline(inner)}" for key, inner in value.items()) + "}"
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    raise ValueError(f"TOML has no way to say {value!r}")


def _number(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)
