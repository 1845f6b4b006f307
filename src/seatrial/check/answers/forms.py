"""The same answer in other bytes, by format: reformatted, keys in another order, other line ends, other notations.

Each form is read back: one that does not mean the same is not made.
"""

import ast
import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from seatrial.check.answers.codecs import DataAnswer, read_data, same
from seatrial.check.answers.vocabulary import Vocabulary
from seatrial.check.mutants.python_code import read_python
from seatrial.model.check import Weight
from seatrial.model.output import OutputFormat

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
