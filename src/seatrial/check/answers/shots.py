"""Shotgun answers: the right answer among wrong ones, by format. None of them says what the answer is.

Wrong ones come before and behind the right one, so a reader that takes the first or the last finds a wrong one.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from seatrial.check.answers.codecs import DataAnswer, read_data
from seatrial.check.answers.vocabulary import Vocabulary
from seatrial.check.mutants.fields import Field, fields_of, with_values
from seatrial.check.mutants.values import far_off, is_answer_word, is_number, nonsense, opposite
from seatrial.model.output import OutputFormat, format_of

_MAX_BYTES = 2**18
_MAX_LINE = 200


@dataclass(frozen=True, slots=True)
class Shot:
    """An answer that leaves open what is meant; `what` goes on after "it is accepted when"."""

    code: str
    what: str
    content: bytes


def wrong_answer(content: bytes, path: str, answer_format: OutputFormat | None, words: Vocabulary) -> bytes | None:
    """The answer with everything wrong about it that can be; None where nothing can."""
    data = _data(content, path, answer_format)
    if data is not None:
        return data.written(_wrong(data.value, words, 1)) if _wrong_fields(data.value, words) else None
    line = _single_line(content, path, answer_format)
    return (_wrong_line(line, 1) + "\n").encode() if line else None


def shots_of(content: bytes, path: str, answer_format: OutputFormat | None, words: Vocabulary) -> list[Shot]:
    """What must not be rewarded, made of an accepted answer."""
    data = _data(content, path, answer_format)
    if data is None:
        line = _single_line(content, path, answer_format)
        return list(_line_shots(line)) if line else []
    if not _wrong_fields(data.value, words):
        return []
    makers = {"json": _json_shots, "md": _markdown_shots, "jsonl": _row_shots, "csv": _row_shots, "tsv": _row_shots}
    make = makers.get(data.format)
    return [*(make(data, content, words) if make else ()), *_listed(data, words)]


def _data(content: bytes, path: str, answer_format: OutputFormat | None) -> DataAnswer | None:
    return read_data(content, answer_format, path) if len(content) <= _MAX_BYTES else None


def _wrong_fields(value: Any, words: Vocabulary) -> list[Field]:
    return [field for field in fields_of(value) if all(_can_be_wrong(inner, words) for inner in field.values)]


def _can_be_wrong(value: Any, words: Vocabulary) -> bool:
    return isinstance(value, bool) or is_number(value) or is_answer_word(value, words)


def _wrong(value: Any, words: Vocabulary, variant: int) -> Any:
    """Every field wrong; `variant` tells two wrong ones apart. Texts stay, since they are what rows are found by."""
    fields = _wrong_fields(value, words)
    plain = [field for field in fields if not _is_text(field)] or fields
    changes = [
        (place, _wrong_value(inner, variant))
        for field in plain
        for place, inner in zip(field.places, field.values, strict=True)
    ]
    return with_values(value, changes)


def _is_text(field: Field) -> bool:
    return isinstance(field.values[0], str) and not is_number(field.values[0])


def _wrong_value(value: Any, variant: int) -> Any:
    if isinstance(value, bool):
        return not value
    if is_number(value):
        return far_off(value) if variant == 1 else opposite(far_off(value))
    return nonsense(str(value)) + ("" if variant == 1 else "_2")


def _markdown_shots(data: DataAnswer, _: bytes, words: Vocabulary) -> Iterator[Shot]:
    """Several blocks, the right one not the last; the right one only in prose or in a comment."""
    report = data.write(_wrong(data.value, words, 2)).decode()
    right, wrong = json.dumps(data.value, indent=2), json.dumps(_wrong(data.value, words, 1), indent=2)
    blocks = f"```json\n{wrong}\n```\n\n```json\n{right}\n```\n\n"
    yield Shot("several-blocks", "the right block is one of several and not the last", f"{blocks}{report}".encode())
    yield Shot(
        "right-in-prose", "only its prose is right", f"It could be {json.dumps(data.value)}.\n\n{report}".encode()
    )
    comment = f"<!-- {json.dumps(data.value)} -->\n\n"
    yield Shot("right-in-comment", "only a comment in it is right", f"{comment}{report}".encode())


def _json_shots(data: DataAnswer, _: bytes, words: Vocabulary) -> Iterator[Shot]:
    """Several documents, and keys that are given twice."""
    first, right, last = (
        json.dumps(value) for value in (_wrong(data.value, words, 1), data.value, _wrong(data.value, words, 2))
    )
    yield Shot("several-documents", "the right document is one of several", f"{first}\n{right}\n{last}\n".encode())
    comment = f"{last}\n// {right}\n"
    yield Shot("right-in-comment", "only a comment in it is right", comment.encode())
    if isinstance(data.value, dict) and data.value:
        twice = f"{right[:-1]}, {last[1:]}\n"
        yield Shot("repeated-keys", "every key is there twice, first right and then wrong", twice.encode())


def _row_shots(data: DataAnswer, _: bytes, words: Vocabulary) -> Iterator[Shot]:
    """Each row between two wrong ones."""
    if any(not isinstance(row, dict) for row in data.value):
        return
    rows = zip(_wrong(data.value, words, 1), data.value, _wrong(data.value, words, 2), strict=True)
    content = data.written([row for three in rows for row in three])
    if content:
        yield Shot("every-row", "each right row stands between two wrong ones", content)


def _listed(data: DataAnswer, words: Vocabulary) -> Iterator[Shot]:
    """A list of values in place of each number, and in place of every value; a cell of a table holds no list."""
    if data.format in ("csv", "tsv"):
        return
    fields = [field for field in _wrong_fields(data.value, words) if field.path]
    numbers = [field for field in fields if is_number(field.values[0])]
    for code, what, chosen in (("every-number", "number", numbers), ("every-value", "value", fields)):
        content = _with_lists(data, chosen)
        if content and (chosen is numbers or len(numbers) < len(fields)):
            yield Shot(code, f"each {what} is a list of right and wrong ones", content)


def _with_lists(data: DataAnswer, fields: list[Field]) -> bytes | None:
    changes = [
        (place, [_wrong_value(inner, 1), inner, _wrong_value(inner, 2)])
        for field in fields
        for place, inner in zip(field.places, field.values, strict=True)
    ]
    return data.written(with_values(data.value, changes)) if changes else None


def _single_line(content: bytes, path: str, answer_format: OutputFormat | None) -> str | None:
    """The text of an answer that is one short line."""
    if (answer_format or format_of(path)) not in ("txt", None) or len(content) > _MAX_LINE or b"\0" in content:
        return None
    try:
        line = content.decode().strip()
    except UnicodeDecodeError:
        return None
    return line if line and "\n" not in line and not line.startswith("#!") else None


def _line_shots(line: str) -> Iterator[Shot]:
    three = (_wrong_line(line, 1), line, _wrong_line(line, 2))
    yield Shot("every-line", "the right line is one of several", "".join(f"{text}\n" for text in three).encode())
    yield Shot("every-word", "the right answer is one of several in its line", f"{' '.join(three)}\n".encode())


def _wrong_line(line: str, variant: int) -> str:
    if is_number(line):
        return str(_wrong_value(line, variant))
    turned = line[::-1]
    return f"not {turned}" if variant == 1 else f"{turned} either"
