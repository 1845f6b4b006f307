"""Words of a Dockerfile: where one ends, which quotes go, and what `$NAME` and `${NAME:-…}` stand for.

The rules are those of Docker's builder, which are close to a shell's and not the same: unknown variables are empty, and
nothing but variables is expanded.
"""

import json
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Literal

ESCAPE = "\\"
_SPECIAL = frozenset("@*#?-$!0")
_MAX_DEPTH = 50
_MAX_MATCHED = 4096
_PATTERN_PART = re.compile(r"\\(.)|(\[)", re.DOTALL)
# JSON can spell half of a letter; no program can be given one.
_HALF_LETTER = re.compile("[\ud800-\udfff]")


class WordError(ValueError):
    """A word that cannot be read; the message says why, without file and line."""


def split_raw(text: str, escape: str = ESCAPE) -> list[str]:
    """The words of a line with their quotes and escapes still on; whitespace within quotes divides nothing."""
    return _split(text, escape)[0]


def quotes_match(text: str, escape: str = ESCAPE) -> bool:
    """Whether every quote that a line opens is closed in it."""
    return _split(text, escape)[1]


def _split(text: str, escape: str) -> tuple[list[str], bool]:
    words: list[str] = []
    word, quote, started, position = "", "", False, 0
    while position < len(text):
        letter = text[position]
        step = 1
        if letter == escape and quote != "'":
            letter, step = text[position : position + 2], 2
            if len(letter) == 1:  # at the very end it escapes nothing and is nothing
                break
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        position += step
        if letter.isspace() and not quote and step == 1:
            words += [word] if started else []
            word, started = "", False
        else:
            word, started = word + letter, True
    return words + ([word] if started else []), not quote


def parse_list(text: str) -> tuple[str, ...] | None:
    """The words of a JSON list, the exec form; None for whatever is not JSON, which is the shell form then.

    Raises WordError for a list of anything but strings.
    """
    if not text.lstrip().startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(word, str) for word in found):
        raise WordError("a JSON list may have strings only, in double quotes")
    if any("\0" in word for word in found):
        raise WordError("a JSON list may not have the letter \\u0000")
    return tuple(_HALF_LETTER.sub("\ufffd", word) for word in found)


def expand(
    text: str,
    variables: Mapping[str, str],
    *,
    escape: str = ESCAPE,
    quotes: Literal["remove", "keep"] = "remove",
) -> str:
    """A word with its variables replaced, its escapes resolved and its quotes removed. Raises WordError."""
    return _Expansion(text, variables, escape, quotes).until("")


def unquote(text: str, escape: str = ESCAPE) -> str:
    """A word with its quotes removed and its variables left for later. Raises WordError."""
    return _Expansion(text, None, escape, "remove").until("")


class _Expansion:
    """One pass over a text."""

    def __init__(
        self, text: str, variables: Mapping[str, str] | None, escape: str, quotes: Literal["remove", "keep"]
    ) -> None:
        self._text = text
        self._literal = variables is None
        self._variables = variables or {}
        self._escape = escape
        self._quotes = quotes
        self._position = 0
        self._depth = 0

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _next(self) -> str:
        letter = self._peek()
        self._position += 1
        return letter

    def until(self, end: str, escapes: Literal["resolve", "keep"] = "resolve") -> str:
        """What comes before the letter `end`, which is consumed; all of it when `end` is empty."""
        found = ""
        while letter := self._next():
            if letter == end:
                return found
            if letter == "$":
                found += self._variable()
            elif letter in ("'", '"') and self._quotes == "remove":
                found += self._single_quoted() if letter == "'" else self._double_quoted()
            elif letter == self._escape:
                found += (letter if escapes == "keep" else "") + self._next()
            else:
                found += letter
        if end:
            raise WordError(f"a '{end}' is missing at the end of {self._text!r}")
        return found

    def _single_quoted(self) -> str:
        end = self._text.find("'", self._position)
        if end < 0:
            raise WordError(f"a single quote is not closed in {self._text!r}")
        content, self._position = self._text[self._position : end], end + 1
        return content

    def _double_quoted(self) -> str:
        found = ""
        while letter := self._next():
            if letter == '"':
                return found
            if letter == "$":
                found += self._variable()
            elif letter == self._escape and self._peek() in ('"', "$", self._escape):
                found += self._next()
            else:
                found += letter
        raise WordError(f"a double quote is not closed in {self._text!r}")

    def _variable(self) -> str:
        if self._literal:
            return "$"
        if self._peek() != "{":
            name = self._name()
            return self._variables.get(name, "") if name else "$"
        self._next()
        if self._peek() in ("", "{", "}", ":"):
            raise WordError(f"'${{' is not followed by a name in {self._text!r}")
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise WordError(f"variables are nested more than {_MAX_DEPTH} deep")
        value = self._braced(self._name())
        self._depth -= 1
        return value

    def _name(self) -> str:
        start = self._position
        if self._peek() in _SPECIAL:
            return self._next()
        belongs: Callable[[str], bool] = str.isdigit if self._peek().isdigit() else _is_name_letter
        while self._peek() and belongs(self._peek()):
            self._position += 1
        return self._text[start : self._position]

    def _braced(self, name: str) -> str:
        value = self._variables.get(name)
        modifier = self._next()
        if not modifier:
            raise WordError(f"a '}}' is missing at the end of {self._text!r}")
        if modifier == "}":
            return value or ""
        if modifier == "/":
            return self._replaced(value or "")
        if modifier in ("#", "%"):
            return _trimmed(value or "", self.until("}", "keep"), modifier)
        counts = value is not None
        if modifier == ":":
            modifier, counts = self._next(), bool(value)
        return self._chosen(name, modifier, value if counts else None)

    def _chosen(self, name: str, modifier: str, value: str | None) -> str:
        """`${X-y}`, `${X+y}` and `${X?y}`; a value that does not count is None."""
        if modifier not in ("-", "+", "?"):
            raise WordError(f"'{modifier}' after the name in '${{{name}' means nothing; known are :- :+ :? # % /")
        other = self.until("}")
        if modifier == "+":
            return "" if value is None else other
        if modifier == "?" and value is None:
            raise WordError(f"{name}: {other or 'it must be set and is not'}")
        return other if value is None else value

    def _replaced(self, value: str) -> str:
        everywhere = self._peek() == "/"
        if everywhere:
            self._next()
        pattern, replacement = _as_glob(self.until("/", "keep")), self.until("}", "keep")
        _check_length(value)
        found, position = "", 0
        while position < len(value):
            ends = range(len(value), position, -1)
            end = next((end for end in ends if fnmatchcase(value[position:end], pattern)), None)
            if end is None:
                found, position = found + value[position], position + 1
                continue
            found, position = found + replacement, end
            if not everywhere:
                break
        return found + value[position:]


def _is_name_letter(letter: str) -> bool:
    return letter.isalpha() or letter.isdigit() or letter == "_"


def _trimmed(value: str, pattern: str, side: str) -> str:
    """`${X#p}` and `${X%p}` take the shortest match off one end, `##` and `%%` the longest."""
    longest = pattern.startswith(side)
    glob = _as_glob(pattern.removeprefix(side))
    _check_length(value)
    lengths = range(len(value), -1, -1) if longest else range(len(value) + 1)
    for length in lengths:
        if side == "#" and fnmatchcase(value[:length], glob):
            return value[length:]
        if side == "%" and fnmatchcase(value[len(value) - length :], glob):
            return value[: len(value) - length]
    return value


def _as_glob(pattern: str) -> str:
    """A shell pattern as fnmatch has it: brackets mean themselves, and an escaped letter means itself."""
    return _PATTERN_PART.sub(
        lambda part: f"[{part[1]}]" if (part[1] or "") in ("*", "?") else part[1] or "[[]", pattern
    )


def _check_length(value: str) -> None:
    if len(value) > _MAX_MATCHED:
        raise WordError(f"patterns are matched against values of at most {_MAX_MATCHED} letters, not {len(value):,}")
