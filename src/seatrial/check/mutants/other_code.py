"""Mutants of code in other languages, by careful text: emptied functions, numbers one off, comparisons turned round.

Nothing here knows a grammar, so little is tried: functions with braces whose name the instruction gives, and slips on
numbers that it gives. What is in comments is left alone.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from seatrial.check.answers.vocabulary import Vocabulary
from seatrial.check.mutants.mutant import Mutant

_SUFFIXES = frozenset(
    """
    c h cc cpp cxx hpp cs go java js jsx kt mjs php pl r rb rs scala sh bash sql swift ts tsx lua jl zig
    """.split()  # noqa: SIM905 - words read better as text
)
_FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\([^(){};]*\)[^(){};=]{0,80}\{")
_KEYWORDS = frozenset({"if", "for", "while", "switch", "catch", "match", "function", "return", "else", "with"})
_NUMBER = re.compile(r"(?<![\w.$\"'#/-])\d+(?:\.\d+)?(?![\w.\"'])")
_COMMENT = re.compile(r"^\s*(?:#|//|/\*|\*|--|;)")
_TURNED = {"==": "!=", "!=": "==", "<=": ">", ">=": "<", "-eq": "-ne", "-ne": "-eq", "-lt": "-ge", "-gt": "-le"}
_COMPARISON = re.compile(r"(?<=\s)(==|!=|<=|>=|-eq|-ne|-lt|-gt)(?=\s)")


def is_other_code(path: str) -> bool:
    """Whether a file is code in a language that is treated as text."""
    name = path.rpartition("/")[2].lower()
    return "." in name and name.rpartition(".")[2] in _SUFFIXES


class TextCodeMutants:
    """Makes the mutants of one file of code."""

    def __init__(self, source: str, name: str, words: Vocabulary) -> None:
        self._source = source
        self._name = name
        self._words = words

    def rounds(self) -> Iterator[Iterable[Mutant]]:
        """All mutants, those that say most first."""
        yield self._emptied()
        yield self._slips(_NUMBER, self._one_off)
        yield self._slips(_COMPARISON, lambda text: _TURNED[text])

    def _emptied(self) -> Iterator[Mutant]:
        for found in _FUNCTION.finditer(self._source):
            name = found[1]
            end = _closing(self._source, found.end())
            if name in _KEYWORDS or not self._words.names(name) or end is None:
                continue
            content = f"{self._source[: found.end()]} {self._source[end:]}".encode()
            yield Mutant("does-nothing", name, name, f"`{name}` does nothing", content)

    def _slips(self, pattern: re.Pattern[str], change: Callable[[str], str | None]) -> Iterator[Mutant]:
        start = 0
        for number, line in enumerate(self._source.split("\n"), start=1):
            if not _COMMENT.match(line):
                for index, found in enumerate(pattern.finditer(line)):
                    new = change(found[0])
                    if new is not None:
                        yield self._slip((start + found.start(), start + found.end()), new, f"{number}.{index}")
            start += len(line) + 1

    def _slip(self, span: tuple[int, int], new: str, label: str) -> Mutant:
        content = f"{self._source[: span[0]]}{new}{self._source[span[1] :]}".encode()
        line = label.partition(".")[0]
        change = f"line {line} of `{self._name}` has `{new}` in place of `{self._source[span[0] : span[1]]}`"
        return Mutant("slip", self._name, self._name, change, content, label=label)

    def _one_off(self, text: str) -> str | None:
        if text in ("0", "1") or not self._words.says_number(float(text)):
            return None
        return str(int(text) + 1) if text.isdigit() else repr(float(text) + 1)


def _closing(source: str, start: int) -> int | None:
    """Where the brace that was opened before `start` is closed."""
    depth = 1
    for index in range(start, len(source)):
        depth += (source[index] == "{") - (source[index] == "}")
        if depth == 0:
            return index
    return None
