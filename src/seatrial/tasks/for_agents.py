"""task.toml as agents may see it: without `[check]`, which tells what a verifier does not look at."""

import json
import re
from datetime import date, datetime, time
from typing import Any

import tomli

_TABLE = "check"
_HEADER = re.compile(r"\s*\[{1,2}\s*(\"check\"|'check'|check)\s*[.\]]")
_ANY_HEADER = re.compile(r"\s*\[")
_OWN_KEY = re.compile(r"\s*(\"check\"|'check'|check)\s*[.=]")


def without_check(config: bytes) -> bytes:
    """The same file without the table `check`, as its author wrote it; written anew where that cannot be shown.

    A file that cannot be read as TOML is not the business of this function, and stays as it is.
    """
    if _TABLE.encode() not in config and b"\\" not in config:  # a key may be written with escapes
        return config
    try:
        text = config.decode("utf-8-sig")
        values = tomli.loads(text)
    except ValueError:
        return config
    if _TABLE not in values:
        return config
    wanted = {key: value for key, value in values.items() if key != _TABLE}
    shorter = _without_lines(text)
    try:
        if tomli.loads(shorter) == wanted:
            return shorter.encode()
    except ValueError:
        pass
    return "".join(f"{_text(key)} = {_value(value)}\n" for key, value in wanted.items()).encode()


def _without_lines(text: str) -> str:
    """The text without the lines of the table, and without the comment above its header."""
    kept: list[str] = []
    inside, at_top = False, True
    for line in text.splitlines(keepends=True):
        if _ANY_HEADER.match(line):
            inside, at_top = bool(_HEADER.match(line)), False
            while inside and kept and kept[-1].lstrip().startswith("#"):
                kept.pop()
        if not inside and not (at_top and _OWN_KEY.match(line)):
            kept.append(line)
    return "".join(kept)


def _value(value: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    return value.isoformat() if isinstance(value, date | datetime | time) else repr(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
