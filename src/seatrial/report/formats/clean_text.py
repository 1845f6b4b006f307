"""Strangers' text that has to be written as UTF-8."""

import re
from typing import Any

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def utf8_text(text: str) -> str:
    """A text with a replacement character for what UTF-8 has no way to write."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def utf8_value(value: Any) -> Any:
    """The same for a value of a table: text, a list of texts, or a mapping from texts."""
    if isinstance(value, str):
        return utf8_text(value)
    if isinstance(value, tuple | list):
        return [utf8_value(each) for each in value]
    if isinstance(value, dict):
        return {utf8_text(name): utf8_value(each) for name, each in value.items()}
    return value
