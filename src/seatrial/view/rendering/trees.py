"""JSON as a tree that is folded by depth, with numbers as they were written and keys as often as they are there."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from seatrial.report.text import harmless
from seatrial.scoring.text import Unreadable, decode, parse_json
from seatrial.view.rendering.bounded import BoundedContent
from seatrial.view.rendering.text import clean, show_text

_MAX_NODES, _MAX_TEXT, _MAX_LINES, _OPEN_LEVELS = 4_000, 4_000, 500, 2
_SUMMARY, _SUMMARY_MEMBERS = 80, 8
_WORDS = {None: "null", True: "true", False: "false"}
_BRANCH = Markup(
    '<details{}><summary>{}<span class="size">{}</span> <span class="gist">{}</span></summary>{}</details>'
)


class _Object(list[tuple[str, Any]]):
    """The members of an object, in order."""


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


def show_json(content: BoundedContent) -> tuple[Markup, str]:
    """A JSON file as a tree, and a note; as text with where it breaks if it is none."""
    if not content.whole:
        return show_text(content.text()), "too large to be shown as a tree"
    try:
        value = _exact(decode(content.head))
    except Unreadable as error:
        return show_text(content.text()), f"shown as text: {error}"
    return _Tree().top(value), ""


def show_json_lines(content: BoundedContent) -> tuple[Markup, str]:
    """A file of JSON values, one on each line, each a tree that is folded; lines that are broken as text."""
    tree, shown = _Tree(), []
    lines = list(_numbered(content))
    for label, line in lines[:_MAX_LINES]:
        shown.append(Markup('<li><span class="line">{}</span>{}</li>').format(label, _line(tree, line)))
    note = f"the first {_MAX_LINES} of {len(lines):,} lines" if len(lines) > _MAX_LINES else ""
    if not content.whole:
        note = f"{note or 'lines of the beginning and the end'}; {content.left_out:,} bytes between are left out"
    return Markup('<ol class="json-lines">{}</ol>').format(Markup().join(shown)), note


def _numbered(content: BoundedContent) -> Iterator[tuple[str, bytes]]:
    head, tail = content.head.split(b"\n"), content.tail.split(b"\n")[1:]
    if not content.whole:
        head = head[:-1]
    yield from ((f"{number:,}", line) for number, line in enumerate(head, 1) if line.strip())
    yield from ((f"{number - len(tail):,}", line) for number, line in enumerate(tail) if line.strip())


def _line(tree: "_Tree", line: bytes) -> Markup:
    try:
        return tree.top(_exact(decode(line)), opened=0)
    except Unreadable as error:
        return Markup('<span class="broken">{}</span>{}').format(str(error), show_text(line.decode("utf-8", "replace")))


def _exact(text: str) -> Any:
    """The value, once a strict reader has said that it is one. Raises Unreadable."""
    parse_json(text)
    return json.loads(text, object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number)


@dataclass(slots=True)
class _Tree:
    """Draws values until there are enough of them on the page."""

    left: int = field(default=_MAX_NODES)

    def top(self, value: Any, opened: int = _OPEN_LEVELS) -> Markup:
        return Markup('<div class="json">{}</div>').format(self._node(value, Markup(""), opened))

    def _node(self, value: Any, label: Markup, opened: int) -> Markup:
        self.left -= 1
        if isinstance(value, _Object):
            pairs = ((Markup('<span class="key">{}</span>: ').format(_cut(key)), each) for key, each in value)
            return self._branch(label, f"{{{len(value):,}}}", pairs, opened, _gist(value))
        if isinstance(value, list):
            pairs = ((Markup('<span class="index">{}</span> ').format(index), each) for index, each in enumerate(value))
            return self._branch(label, f"[{len(value):,}]", pairs, opened, "")
        return Markup('<div class="leaf">{}{}</div>').format(label, _leaf(value))

    def _branch(
        self, label: Markup, size: str, children: Iterable[tuple[Markup, Any]], opened: int, gist: str
    ) -> Markup:
        shown: list[Markup] = []
        for child, value in children:
            if self.left <= 0:
                shown.append(Markup('<div class="cut">… and more, which the raw file has</div>'))
                break
            shown.append(self._node(value, child, opened - 1))
        is_open = Markup(" open") if opened > 0 else Markup("")
        return _BRANCH.format(is_open, label, size, gist, Markup().join(shown))


def _gist(members: _Object) -> str:
    """The first members on one line, so that much need not be opened."""
    first = members[:_SUMMARY_MEMBERS]
    words = [key[:_SUMMARY] if isinstance(each, list) else f"{key[:_SUMMARY]}: {_word(each)}" for key, each in first]
    line = harmless(", ".join(words))
    return line if len(line) <= _SUMMARY and len(members) == len(first) else f"{line[:_SUMMARY]}…"


def _word(value: Any) -> str:
    return value[:_SUMMARY] if isinstance(value, str) else _WORDS[value]


def _leaf(value: Any) -> Markup:
    if isinstance(value, _Number):
        return Markup('<span class="number">{}</span>').format(_cut(value))
    if isinstance(value, str):
        return Markup('<span class="string">{}</span>').format(_cut(value))
    return Markup('<span class="word">{}</span>').format(_WORDS[value])


def _cut(text: str) -> str:
    shown = clean(text[:_MAX_TEXT])
    return shown if len(text) <= _MAX_TEXT else f"{shown}… ({len(text) - _MAX_TEXT:,} characters more)"
