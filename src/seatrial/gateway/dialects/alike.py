"""Which events of a stream differ from an earlier one in a single text, and in which.

Nearly all events of a streamed answer do: a token each, with the rest repeated. To see that takes a third of the time
that it takes to parse them.
"""

from collections.abc import Callable
from typing import NamedTuple

import orjson

_TRIES = 8
_PROBE = "a text that nobody says"


class News(NamedTuple):
    """The only thing that is new in an event: a text, and the name of the field that it belongs to."""

    name: str
    text: str


class Alike:
    """Knows one event of a stream by what stands before its text and what stands after it."""

    __slots__ = ("_after", "_before", "_tries")

    def __init__(self) -> None:
        self._before = self._after = ""
        self._tries = _TRIES

    def text(self, data: str) -> str | None:
        """The text of an event that is like the known one but for that; None for any other."""
        before, after = self._before, self._after
        if not before or not data.startswith(before) or not data.endswith(after):
            return None
        if len(data) < len(before) + len(after):
            return None
        written = data[len(before) : -len(after)]
        text = written if _stands_for_itself(written) else _unescaped(written)
        if text is not None:
            self._tries = _TRIES
        return text

    def texts(self, whole: str) -> list[str] | None:
        """The texts of several events, written one after the other, if all are like the known one but for that."""
        before, after = f"data: {self._before}", self._after
        if not self._before or not whole.startswith(before) or not whole.endswith(after):
            return None
        if len(whole) < len(before) + len(after):
            return None
        written = whole[len(before) : -len(after)].split(f"{after}\n\n{before}")
        texts = written if _stands_for_itself("".join(written)) else _all_unescaped(written)
        if texts is not None:
            self._tries = _TRIES
        return texts

    def forget(self) -> None:
        """Know none any more."""
        self._before = ""

    def may_learn(self) -> bool:
        """Whether it is worth while. Not after several in vain: some servers write something new beside each text."""
        return self._tries > 0

    def learn(self, data: str, news: News | None, read: Callable[[str], News | None]) -> bool:
        """Know this event from now on, if it has such news and it can be told where; `read` finds those of an event."""
        self._tries -= 1
        if news is None or not _stands_for_itself(news.text):
            return False
        before, found, after = data.partition(f'"{news.text}"')
        before, after = before + '"', '"' + after
        # There may be more such texts in an event. The right one is the one that makes the difference.
        if not found or read(before + _PROBE + after) != News(news.name, _PROBE):
            return False
        self._before, self._after = before, after
        return True


def _unescaped(text: str) -> str | None:
    try:
        value = orjson.loads(f'"{text}"')
    except ValueError:  # more than one text, or none
        return None
    return value if isinstance(value, str) else None


def _all_unescaped(written: list[str]) -> list[str] | None:
    texts = []
    for each in written:
        text = each if _stands_for_itself(each) else _unescaped(each)
        if text is None:
            return None
        texts.append(text)
    return texts


def _stands_for_itself(text: str) -> bool:
    """Whether a text is written in JSON as it is."""
    return text.isprintable() and '"' not in text and "\\" not in text
