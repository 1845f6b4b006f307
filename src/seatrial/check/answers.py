"""Reads and writes answers in seven formats, and finds what the instruction and the tests say about their fields.

Forms and mutants are made of them in `variants`, `mutants` and `code_mutants`.
"""

import csv
import io
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from seatrial.model.output import OutputFormat, format_of
from seatrial.verifier_kit import json_blocks

# Codecs read bytes into plain values, and write changed values as the bytes were written, as far as they can tell. What
# a codec cannot read is None: there is nothing to change about an answer without knowing its task.

DataFormat = Literal["json", "jsonl", "md", "csv", "tsv", "yaml", "toml"]
MAX_DATA_BYTES = 2**20
_MAX_DEPTH = 60
_INDENT = re.compile(r"\n([ \t]+)\S")
_Writer = Callable[[Any], bytes]


@dataclass(frozen=True, slots=True)
class DataAnswer:
    """An answer that is data: its value, and the way to write another value in its place."""

    format: DataFormat
    value: Any
    write: _Writer

    def written(self, value: Any) -> bytes | None:
        """Another value as bytes; None where the format cannot say it, or would say something else."""
        try:
            content = self.write(value)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError, csv.Error):
            return None
        again = read_data(content, self.format)
        return content if again is not None and same(again.value, value) else None


def same(one: Any, other: Any) -> bool:
    """Whether two values are alike to the type; unlike `==`, NaN is like NaN, and true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))  # noqa: PLR0124 - NaN


def says_the_same(one: bytes, other: bytes, path: str) -> bool:
    """Whether two files of a path are the same data, or the same text but for its spaces."""
    first, second = read_data(one, None, path), read_data(other, None, path)
    if first and second:
        return same(first.value, second.value)
    return one.split() == other.split()


def read_data(content: bytes, answer_format: OutputFormat | None, path: str = "") -> DataAnswer | None:
    """The value of an answer, None for what is no data, too large or malformed."""
    reader = _READERS.get(answer_format or format_of(path) or "")
    if reader is None or len(content) > MAX_DATA_BYTES:
        return None
    try:
        answer = reader(content.decode("utf-8-sig"))
    except (ValueError, RecursionError, csv.Error):
        return None
    return answer if answer is not None and _depth(answer.value) <= _MAX_DEPTH else None


def _read_json(text: str) -> DataAnswer:
    return DataAnswer("json", json.loads(text), _json_writer(text))


def _json_writer(text: str) -> _Writer:
    options, end = _json_style(text), _tail(text)
    return lambda value: (json.dumps(value, **options) + end).encode()


def _json_style(text: str) -> dict[str, Any]:
    indent = _INDENT.search(text.strip())
    compact = ("," if indent else ", ", ": ") if ": " in text or indent else (",", ":")
    return {"indent": indent[1] if indent else None, "separators": compact, "ensure_ascii": text.isascii()}


def _tail(text: str) -> str:
    return text[len(text.rstrip()) :]


def _read_jsonl(text: str) -> DataAnswer:
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise ValueError("no line")
    options, end = _json_style(lines[0]) | {"indent": None}, _tail(text)

    def write(values: Any) -> bytes:
        return ("\n".join(json.dumps(value, **options) for value in values) + end).encode()

    return DataAnswer("jsonl", [json.loads(line) for line in lines], write)


def _read_markdown(text: str) -> DataAnswer | None:
    """The last JSON block of a report, which is what counts; the rest of the report stays as it is."""
    blocks = json_blocks(text)
    if not blocks:
        return None
    body = blocks[-1].body if "\r\n" not in text else blocks[-1].body.replace("\n", "\r\n")
    before, found, after = text.rpartition(body)
    if not found or not body.strip():
        return None
    options = _json_style(body)
    return DataAnswer("md", json.loads(body), lambda value: (before + json.dumps(value, **options) + after).encode())


def _read_csv(text: str) -> DataAnswer | None:
    return _read_rows(text, "csv", ",")


def _read_tsv(text: str) -> DataAnswer | None:
    return _read_rows(text, "tsv", "\t")


def _read_rows(text: str, answer_format: Literal["csv", "tsv"], usual: str) -> DataAnswer | None:
    """Rows under a header. Cells are text, as they are for whoever reads them."""
    first = text.split("\n", 1)[0]
    delimiter = next((mark for mark in (usual, ";", "\t") if mark in first), usual)
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]
    header = rows[0] if rows else []
    if len(rows) < 2 or len(set(header)) != len(header) or any(len(row) != len(header) for row in rows):
        return None
    ending = "\r\n" if "\r\n" in text else "\n"

    def write(records: Any) -> bytes:
        buffer = io.StringIO(newline="")
        writer = csv.writer(buffer, delimiter=delimiter, lineterminator=ending)
        columns = list(records[0]) if records else header
        writer.writerows([columns, *([record[column] for column in columns] for record in records)])
        return (buffer.getvalue().removesuffix(ending) + _tail(text)).encode()

    return DataAnswer(answer_format, [dict(zip(header, row, strict=True)) for row in rows[1:]], write)


def _read_yaml(text: str) -> DataAnswer | None:
    import yaml  # noqa: PLC0415 - slow to import, and seldom needed

    from seatrial.untrusted.yaml import read_documents  # noqa: PLC0415 - as above

    documents = read_documents(text)
    if len(documents) != 1 or not isinstance(documents[0], dict | list) or not _has_text_keys(documents[0]):
        return None

    def write(value: Any) -> bytes:
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000)).encode()

    return DataAnswer("yaml", documents[0], write)


def _has_text_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_has_text_keys, value.values()))
    return all(map(_has_text_keys, value)) if isinstance(value, list) else True


def _read_toml(text: str) -> DataAnswer:
    import tomlkit  # noqa: PLC0415 - slow to import, and seldom needed

    return DataAnswer("toml", tomllib.loads(text.replace("\r\n", "\n")), lambda value: tomlkit.dumps(value).encode())


def _depth(value: Any, level: int = 0) -> int:
    if level > _MAX_DEPTH or not isinstance(value, dict | list):
        return level
    inner = value.values() if isinstance(value, dict) else value
    return max((_depth(each, level + 1) for each in inner), default=level + 1)


_READERS: dict[str, Callable[[str], DataAnswer | None]] = {
    "json": _read_json,
    "jsonl": _read_jsonl,
    "md": _read_markdown,
    "csv": _read_csv,
    "tsv": _read_tsv,
    "yaml": _read_yaml,
    "toml": _read_toml,
}


# What an instruction and its tests mention: checks ask before they call something a finding, since a field that the
# author leaves to the agent is none.

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*[A-Za-z0-9_]|[A-Za-z0-9_]")
_NUMBER = re.compile(r"(?<![\w.])(?:0[xX][0-9a-fA-F]+|\d[\d,_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)")
_QUOTED = re.compile(r"`\"?([^`\"\n]{1,40})\"?`|\"([^\"\n]{1,40})\"")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|percent|per cent)")
_TOLERANCE = re.compile(r"toleran|within|accura|±|\+/-|margin|deviat|at most|up to", re.IGNORECASE)

# Fields that differ from one honest run to the next, or that are written for people.
_FREE_PARTS = frozenset(
    """
    note notes comment comments description descriptions remark remarks reason reasons reasoning explanation rationale
    justification summary message messages title author timestamp date datetime generated created updated pid port uuid
    guid version duration elapsed runtime seconds host hostname seed assumptions methodology confidence references
    reference source label id
    """.split()  # noqa: SIM905 - words read better as text
)
_FREEDOM = re.compile(
    r"\b(?:any|anything|optional|optionally|arbitrary|freely|free to|not (?:checked|graded|scored|judged)|ignored|"
    r"informational|informative|your choice|if (?:available|known|present)|placeholder for)\b",
    re.IGNORECASE,
)
_EXACT = re.compile(
    r"byte[- ](?:for|by)[- ]byte|byte[- ]identical|bit[- ]for[- ]bit|verbatim|character[- ](?:for|by)[- ]character|"
    r"exact(?:ly)? (?:bytes?|output|contents?|text|string|match|like|identical)|"
    r"exactly (?:this|the following) (?:bytes|output|contents?|text|strings?|lines?)|"
    r"exactly as (?:shown|follows|below|given|described)|exactly match(?:es|ing)?|"
    r"(?:match|matches|identical|equal)(?: to)? exactly|canonical|"
    r"\bmd5\b|\bsha-?(?:1|256|512)\b|checksum|minified|minify|compact json|pretty[- ]?print|\bindent(?:ed|ation)?\b|"
    r"no (?:extra|trailing|leading|other) (?:white ?space|spaces?|newlines?|text|characters?)|"
    r"(?:a|one) single line|one[- ]line\b",
    re.IGNORECASE,
)
_EXACT_FORM = re.compile(r"exact(?:ly)? (?:(?:this|the(?: following| same)?) )?(?:format|formatting)\b", re.IGNORECASE)
_ORDERED = re.compile(
    r"sort(?:ed)? (?:\w+ )?keys|keys (?:\w+ )*(?:sorted|in (?:this|the|alphabetical|exactly))|sort_keys|"
    r"order of (?:the )?(?:keys|fields)|(?:keys|fields) (?:\w+ ){0,4}order|alphabetical(?:ly)?",
    re.IGNORECASE,
)
_LAST_LINE = re.compile(r"new ?line|line (?:break|feed|ending)|\bLF\b|\bCRLF\b|\\n", re.IGNORECASE)


@dataclass(frozen=True)
class Vocabulary:
    """The words of a task: its instruction, and its tests beside it."""

    instruction: str
    tests: Mapping[str, bytes]

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self.instruction))

    @cached_property
    def _test_text(self) -> str:
        return "\n".join(content.decode("utf-8", "replace") for content in self.tests.values())

    @cached_property
    def _test_words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self._test_text))

    @cached_property
    def _numbers(self) -> frozenset[float]:
        return frozenset(_plain_numbers(self.instruction))

    def names(self, field: str) -> bool:
        """Whether the instruction says the name of a field."""
        return field in self._words or (not _WORD.fullmatch(field) and field in self.instruction)

    def knows(self, word: str) -> bool:
        """Whether a short text is one that the instruction or the tests expect somewhere."""
        if not _WORD.fullmatch(word):
            return len(word) > 2 and (word in self.instruction or word in self._test_text)
        return word in self._words or word in self._test_words

    def says_number(self, value: float) -> bool:
        """Whether the instruction gives this very number."""
        return float(value) in self._numbers

    def others_like(self, word: str) -> tuple[str, ...]:
        """The other words that are quoted in a paragraph with this one, nearest first: its likely alternatives."""
        found: dict[str, None] = {}
        for paragraph in self.instruction.split("\n\n"):
            quoted = [(match.start(), match[1] or match[2]) for match in _QUOTED.finditer(paragraph)]
            place = next((start for start, other in quoted if other == word), None)
            if place is not None:
                nearest = sorted(quoted, key=lambda pair: abs(pair[0] - place))
                found.update((other, None) for _, other in nearest if other != word and _is_like(other, word))
        return tuple(found)

    def leaves_free(self, field: str) -> bool:
        """Whether an author would not mind what a field says: by its name, or by a sentence about it."""
        parts = frozenset(re.split(r"[^a-z0-9]+", _snake(field)))
        if parts & _FREE_PARTS or field.endswith(("_at", "At")):
            return True
        mentions = re.compile(rf"(?<![\w-]){re.escape(field)}(?![\w-])")
        return any(mentions.search(line) and _FREEDOM.search(line) for line in self.instruction.splitlines())

    @cached_property
    def widest_tolerance(self) -> float:
        """The largest share by which the instruction says a value may be off, 0 where it says nothing."""
        lines = [line for line in self.instruction.splitlines() if _TOLERANCE.search(line)]
        return max((float(found) / 100 for line in lines for found in _PERCENT.findall(line)), default=0.0)

    @property
    def exact_bytes(self) -> str | None:
        """The words by which the instruction asks for exact bytes, if it does."""
        return _first(_EXACT, self.instruction)

    @property
    def exact_form(self) -> str | None:
        """The words by which the instruction asks for an exact format, if it does; data may still have other spaces."""
        return _first(_EXACT_FORM, self.instruction)

    @property
    def ordered_keys(self) -> str | None:
        """The words by which the instruction asks for an order of keys, if it does."""
        return _first(_ORDERED, self.instruction)

    @property
    def last_line(self) -> str | None:
        """The words by which the instruction speaks of how lines end, if it does."""
        return _first(_LAST_LINE, self.instruction)


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[0] if found else None


def _plain_numbers(text: str) -> Iterator[float]:
    for found in _NUMBER.findall(text):
        try:
            yield float(int(found, 16)) if found[:2].lower() == "0x" else float(found.replace(",", "").replace("_", ""))
        except (ValueError, OverflowError):
            continue


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _is_like(other: str, word: str) -> bool:
    """Whether a word could stand in another's place: both plain words, written in the same case."""
    return bool(_WORD.fullmatch(other)) and other.isupper() == word.isupper() and "/" not in other and "." not in other
