"""Hostile files in the place of an answer: huge, deep, binary, unreadable, no file at all, with odd names beside it."""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from seatrial.check.answers.codecs import read_data
from seatrial.check.cases import AcceptedAnswer
from seatrial.check.mutants.fields import fields_of, with_values
from seatrial.check.mutants.values import is_number
from seatrial.trial.end_state import Edit
from seatrial.trial.odd_files import OddFile

HUGE_BYTES = 100 * 2**20
DEPTH = 100_000
NUMBER_FILES = frozenset({"infinite", "many-digits"})
_DIGITS = 5_000
_JUNK = b"junk, put here by seatrial check\n"
_NOT_UTF8 = b"\xff\xfe\x80 caf\xe9 \xc3\x28\n" * 4
_BINARY = bytes(range(256)) * 16
_MARK = 86_420_975_318_642


@dataclass(frozen=True, slots=True)
class HostileFile:
    """What is put into an end state. `what` goes on after the name of the answer's file.

    `beside` says that the answer itself stays right; `rare` that no honest agent leaves such a thing by accident.
    With `waits`, a verifier that does not look before it reads will wait to the end of its time.
    """

    code: str
    what: str
    edits: tuple[Edit, ...]
    beside: bool = False
    rare: bool = False
    waits: bool = False


def hostile_files(answer: AcceptedAnswer) -> Iterator[HostileFile]:
    """All of them for one answer, those that cost a verifier much time last."""
    path = answer.path
    yield HostileFile("binary", "is binary data", (Edit(path, _BINARY),))
    yield HostileFile("not-utf8", "is text that is not UTF-8", (Edit(path, _NOT_UTF8),))
    yield HostileFile("unreadable", "may be read by nobody", (Edit(path, _JUNK, mode=0),))
    yield HostileFile("folder", "is a folder", (Edit(path, odd=OddFile("folder")),))
    yield HostileFile("dangling-link", "is a link to nothing", (Edit(path, odd=OddFile("link", "no-such-file")),))
    yield HostileFile("deep-nesting", f"is nested {DEPTH:,} levels deep", (Edit(path, _nested(answer)),))
    yield from _large_numbers(answer)
    yield HostileFile("odd-names", "has files with odd names beside it", _odd_names(path), beside=True, rare=True)
    zeros = Edit(path, odd=OddFile("zeros", str(HUGE_BYTES)))
    yield HostileFile("huge", f"has {HUGE_BYTES // 2**20} MB", (zeros,))
    yield HostileFile("pipe", "is a named pipe", (Edit(path, odd=OddFile("pipe")),), rare=True, waits=True)


def _nested(answer: AcceptedAnswer) -> bytes:
    text = b"[" * DEPTH + b"]" * DEPTH
    if answer.path.endswith((".md", ".markdown")):
        return b"```json\n" + text + b"\n```\n"
    return b"value = " + text + b"\n" if answer.path.endswith(".toml") else text


def _large_numbers(answer: AcceptedAnswer) -> Iterator[HostileFile]:
    """Numbers that are infinite once they are read, and ones of more digits than Python reads."""
    data = read_data(answer.content, answer.format, answer.path)
    places = [place for field in fields_of(data.value) for place in _numbers(field)] if data else []
    if data is None or not places:
        return
    as_text = data.format in ("csv", "tsv")
    marked = data.written(with_values(data.value, [(place, str(_MARK) if as_text else _MARK) for place in places]))
    if marked is None:
        return
    for code, number, what in (
        ("infinite", b"1e999", "has numbers too large to be finite"),
        ("many-digits", b"9" * _DIGITS, f"has a number of {_DIGITS:,} digits"),
    ):
        content = marked.replace(str(_MARK).encode(), number, 8 if code == "many-digits" else -1)
        yield HostileFile(code, what, (Edit(answer.path, content),))


def _numbers(field: Any) -> list[Any]:
    pairs = zip(field.places, field.values, strict=True)
    return [place for place, value in pairs if not isinstance(value, bool) and is_number(value)]


def _odd_names(path: str) -> tuple[Edit, ...]:
    folder = posixpath.dirname(path)
    names = ("two\nlines", "n" * 255, "snowman \N{SNOWMAN} $(echo) '\"", "-rf")
    return tuple(Edit(f"{folder}/{name}", _JUNK) for name in names)
