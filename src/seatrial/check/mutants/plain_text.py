"""Mutants of plain text and XML: its numbers, its lines where they are a list, and an answer of one line.

Prose is never touched: what a report says in its own words is the agent's business.
"""

import re
from collections.abc import Iterable, Iterator

from seatrial.check.answers.vocabulary import Vocabulary
from seatrial.check.mutants.mutant import Mutant, MutantKind
from seatrial.check.mutants.values import CLOSE, CLOSER, far_off, is_answer_word, opposite, scaled

# A number that stands alone, or behind a label such as `total:`; not one in a date, a version, a path or a name.
_NUMBER = re.compile(r"(?<![\w.:/,-])[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?(?![\w:/,-]|\.\d)")
_LABEL = re.compile(r"([A-Za-z][\w .()/-]{0,40}?)\s*[:=>\"]\s*$")
_XML_LABEL = re.compile(r"<([\w:.-]+)[^<>]*>\s*$|([\w:.-]+)\s*=\s*[\"']\s*$")
_OFF = {"closer": "20 %", "close": "50 %"}
_MAX_TEXT = 4096
_MAX_NUMBERS = 12
_MAX_LIST_WORDS = 3


class TextMutants:
    """Makes the mutants of one short text."""

    def __init__(self, text: str, words: Vocabulary) -> None:
        self._text = text
        self._words = words
        self._lines = text.strip().split("\n")

    def rounds(self) -> Iterator[Iterable[Mutant]]:
        """All mutants, those that say most first."""
        if len(self._text) > _MAX_TEXT or self._is_prose():
            return
        yield self._numbers("far")
        yield self._other_text()
        yield self._numbers("closer")
        yield self._missing_lines()
        yield self._numbers("close")
        yield self._numbers("opposite")

    def _is_prose(self) -> bool:
        """Whether it is a report in sentences, in which numbers have no place of their own."""
        return any(len(line.split()) > 8 and "<" not in line for line in self._lines)

    def _numbers(self, kind: MutantKind) -> Iterator[Mutant]:
        for index, found in enumerate(_NUMBER.finditer(self._text)):
            label = self._label(found.start())
            if index >= _MAX_NUMBERS or self._words.leaves_free(label):
                continue
            wrong = self._wrong(found[0], kind)
            if wrong is not None:
                content = f"{self._text[: found.start()]}{wrong}{self._text[found.end() :]}".encode()
                named = self._words.names(label) or len(self._lines) == 1
                change = f"{label} is {wrong} instead of {found[0]}"
                yield Mutant(kind, label, label, change, content, named, _OFF.get(kind, ""))

    def _wrong(self, number: str, kind: MutantKind) -> str | None:
        if kind == "far":
            return str(far_off(number))
        if kind == "opposite":
            return None if len(self._lines) > 1 else opposite(number)
        factor = CLOSER if kind == "closer" else CLOSE
        return None if self._words.widest_tolerance >= factor - 1 else scaled(number, factor)

    def _label(self, start: int) -> str:
        line = self._text.rfind("\n", 0, start) + 1
        before = self._text[line:start]
        found = _XML_LABEL.search(before) or _LABEL.search(before)
        if found:
            return next(group for group in found.groups() if group).strip()
        number = self._text.count("\n", 0, start) + 1
        return "the number" if len(self._lines) == 1 else f"the number in line {number}"

    def _other_text(self) -> Iterator[Mutant]:
        """An answer of one line, as another one of the same letters."""
        answer = self._text.strip()
        if len(self._lines) == 1 and not _NUMBER.fullmatch(answer) and answer != answer[::-1]:
            content = self._text.replace(answer, answer[::-1]).encode()
            yield Mutant("far", "the text", "the text", f"the text is {answer[::-1]!r} instead of {answer!r}", content)

    def _missing_lines(self) -> Iterator[Mutant]:
        """A line less, where the lines are a list of names that the task knows."""
        lines = [line for line in self._lines if line.strip()]
        if len(lines) < 2 or any(len(line.split()) > _MAX_LIST_WORDS for line in lines):
            return
        if not all(is_answer_word(line.strip(), self._words) or _NUMBER.fullmatch(line.strip()) for line in lines):
            return
        last = len(lines) - 1
        for index in dict.fromkeys((last, 0, last // 2)):
            kept = "\n".join(lines[:index] + lines[index + 1 :]) + ("\n" if self._text.endswith("\n") else "")
            subject, change = f"lines[{index + 1}]", f"line {index + 1} of {len(lines)} is missing"
            yield Mutant("row-missing", "lines", subject, change, kept.encode())
