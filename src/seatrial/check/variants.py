"""What can be put in the place of an accepted answer: the same in other bytes, shotgun answers, hostile files.

An equivalent form is read back, and not made if it does not mean the same. Wrong answers are in `mutants`.
"""

import ast
import csv
import io
import json
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from seatrial.check.answers import DataAnswer, Vocabulary, read_data, same
from seatrial.check.cases import AcceptedAnswer
from seatrial.check.code_mutants import read_python
from seatrial.check.mutants import Field, far_off, fields_of, is_answer_word, is_number, nonsense, opposite, with_values
from seatrial.model.check import Weight
from seatrial.model.output import OutputFormat, format_of
from seatrial.trial.end_state import Edit, OddFile

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Form:
    """An answer that means the same. `what` goes on after "it is worth less when"; `weight` is that of refusing it."""

    code: str
    what: str
    weight: Weight
    content: bytes


def forms_of(content: bytes, path: str, answer_format: OutputFormat | None, words: Vocabulary) -> list[Form]:
    """Other bytes that say the same as an answer; none where the instruction asks for exact bytes."""
    data = read_data(content, answer_format, path)
    has_free_spaces = data is not None and data.format not in ("csv", "tsv")
    if words.exact_bytes or (words.exact_form and not has_free_spaces):
        return []
    if data is not None:
        made = [*_data_forms(data, content, words), *_line_forms(content, words)]
        made = [form for form in made if _means_the_same(form.content, data)]
    elif path.endswith(".py"):
        made = list(_python_forms(content))
    else:
        made = list(_text_forms(content, words))
    return [form for form in made if form.content != content]


def _means_the_same(content: bytes, data: DataAnswer) -> bool:
    again = read_data(content, data.format)
    return again is not None and again.value == data.value


def _data_forms(data: DataAnswer, content: bytes, words: Vocabulary) -> Iterator[Form]:
    if not (words.ordered_keys or words.exact_form) and data.format not in ("csv", "tsv"):
        turned = data.written(_turned(data.value))
        if turned:
            yield Form("keys-reordered", "its keys are in another order", "major", turned)
    if data.format in ("json", "md", "jsonl"):
        yield from _json_forms(data, content)
    elif data.format in ("csv", "tsv"):
        yield from _row_forms(data, content)
    elif data.format == "yaml":
        yield from _yaml_forms(data)
    if data.format in ("toml", "yaml"):
        yield Form("comment", "it has a comment", "minor", b"# A comment.\n" + content)
    if data.format == "md":
        yield Form("prose-before", "there is one more sentence before it", "minor", _with_sentence(content))


def _turned(value: Any) -> Any:
    """The same value with the keys of every table in reverse order."""
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(inner) for inner in value] if isinstance(value, list) else value


def _json_forms(data: DataAnswer, content: bytes) -> Iterator[Form]:
    styles: list[tuple[str, str, dict[str, Any]]] = [
        ("compact", "it is written without spaces", {"separators": (",", ":")}),
        ("spaced", "it is written with other spaces", {"separators": (" , ", " : ")}),
    ]
    if data.format != "jsonl":
        styles.append(("indented", "it is indented otherwise", {"indent": 3}))
    for code, what, options in styles:
        made = _json_text(data, content, data.value, options)
        if made:
            yield Form(code, what, "major", made)
    whole = _json_text(data, content, _whole(data.value), {})
    if whole and not same(_whole(data.value), data.value):
        yield Form("whole-number", "a whole number is written without `.0`", "major", whole)
    escaped = _json_text(data, content, data.value, {"ensure_ascii": content.isascii() is False})
    if escaped and not content.isascii():
        yield Form("escapes", "letters beyond ASCII are written as escapes", "minor", escaped)


def _json_text(data: DataAnswer, content: bytes, value: Any, options: dict[str, Any]) -> bytes | None:
    """The value in another style, where the old text was. The writer of a report is asked for a mark in its place."""
    style = {"ensure_ascii": False, **options}
    if data.format == "jsonl":
        return "".join(json.dumps(line, **style) + "\n" for line in value).encode()
    text = json.dumps(value, **style)
    if data.format == "json":
        return f"{text}\n".encode()
    mark = "the place of the value"
    before, found, after = data.write(mark).decode().rpartition(json.dumps(mark))
    return f"{before}{text}{after}".encode() if found else None


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _row_forms(data: DataAnswer, content: bytes) -> Iterator[Form]:
    buffer = io.StringIO(newline="")
    mark = "\t" if data.format == "tsv" else ","
    if mark not in content.decode("utf-8-sig").split("\n", 1)[0]:
        return
    writer = csv.writer(buffer, delimiter=mark, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([list(data.value[0]), *(list(row.values()) for row in data.value)])
    yield Form("quoted", "its fields are in quotation marks", "minor", buffer.getvalue().encode())


def _yaml_forms(data: DataAnswer) -> Iterator[Form]:
    import yaml  # noqa: PLC0415 - slow to import, and seldom needed

    for code, flow, what in (("flow", True, "it is written in flow style"), ("block", False, "it is in block style")):
        text = yaml.safe_dump(data.value, default_flow_style=flow, sort_keys=False, allow_unicode=True, width=10_000)
        yield Form(code, what, "minor", str(text).encode())


def _with_sentence(content: bytes) -> bytes:
    return b"This report was checked twice before it was handed in.\n\n" + content.removeprefix(_BOM)


def _line_forms(content: bytes, words: Vocabulary) -> Iterator[Form]:
    yield Form("byte-order-mark", "it begins with a byte order mark", "note", _BOM + content.removeprefix(_BOM))
    if not words.last_line:
        turned = content.rstrip(b"\n") if content.endswith(b"\n") else content + b"\n"
        what = "its last line has no end" if content.endswith(b"\n") else "its last line has an end"
        yield Form("last-line-end", what, "major", turned)
        if b"\r" not in content and b"\n" in content.strip():
            yield Form("crlf", "its lines end in CR LF", "minor", content.replace(b"\n", b"\r\n"))


def _text_forms(content: bytes, words: Vocabulary) -> Iterator[Form]:
    """Plain text of few words, where the end of the last line has no meaning; programs and data of others are not."""
    if b"\0" in content or len(content) > 2000 or content.startswith(b"#!") or words.last_line:
        return
    for form in _line_forms(content, words):
        if form.code == "last-line-end" and len(content.split()) <= 20:
            yield Form(form.code, form.what, "minor", form.content)


def _python_forms(content: bytes) -> Iterator[Form]:
    tree = read_python(content)
    if tree is None:
        return
    try:
        again = f"# Reformatted.\n{ast.unparse(tree)}\n".encode()
    except (ValueError, RecursionError):
        return
    changed = read_python(again)
    if changed is not None and ast.dump(changed) == ast.dump(tree):
        yield Form("reformatted", "it is formatted otherwise", "minor", again)


# Shotgun answers: the right one among wrong ones, before and behind it, so that a reader that takes the first or the
# last finds a wrong one.

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


# Hostile files: huge, deep, binary, unreadable, no file at all, with odd names beside it.

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
