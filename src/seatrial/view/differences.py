"""What changed between two versions of a file: side by side where there is room, with the words that changed marked."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest

from markupsafe import Markup

from seatrial.report.text import harmless_lines

# Which lines differ: bounded, since finding that out may take quadratic time.

_CONTEXT = 3
# Comparing as many lines takes half a second at worst; beyond that, they are shown one after the other.
_MAX_COMPARED = 1_000
# To compare the words of two lines may take a time that grows with the cube of their number; for all lines this is it.
_MAX_WORD_STEPS = 20_000_000
_WORD = re.compile(r"\w+|\s+|[^\w\s]")

Pieces = tuple[tuple[bool, str], ...]
"""A line in pieces, each with whether it changed."""


@dataclass(frozen=True, slots=True)
class DifferentLine:
    """A line on one side: its number, and its text in pieces."""

    number: int
    pieces: Pieces


@dataclass(frozen=True, slots=True)
class Row:
    """Lines that stand beside each other; the same on both sides, or changed, or on one side only."""

    before: DifferentLine | None
    after: DifferentLine | None
    same: bool


@dataclass(frozen=True, slots=True)
class Gap:
    """So many lines are the same here."""

    lines: int


def compare_lines(before: Sequence[str], after: Sequence[str]) -> Iterator[Row | Gap]:
    """Rows in order: what changed, a few lines around it, and gaps between."""
    blocks, words = list(_blocks(before, after)), _Words()
    for index, (same, old, new) in enumerate(blocks):
        if same:
            yield from _context(before, old, new, first=index == 0, last=index == len(blocks) - 1)
        else:
            for left, right in zip_longest(old, new):
                yield _changed(_line(before, left), _line(after, right), words)


def _blocks(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[bool, range, range]]:
    """Ranges of lines that are the same or not. Equal ends are cut off first, which takes no time."""
    start = _common(before, after)
    end = _common(reversed(before[start:]), reversed(after[start:]))
    old, new = range(start, len(before) - end), range(start, len(after) - end)
    if start:
        yield True, range(start), range(start)
    if len(old) > _MAX_COMPARED or len(new) > _MAX_COMPARED:
        yield False, old, new
    else:
        matcher = difflib.SequenceMatcher(None, before[old.start : old.stop], after[new.start : new.stop])
        for kind, a, b, c, d in matcher.get_opcodes():
            yield kind == "equal", range(start + a, start + b), range(start + c, start + d)
    if end:
        yield True, range(old.stop, len(before)), range(new.stop, len(after))


def _common(before: Iterable[str], after: Iterable[str]) -> int:
    count = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        count += 1
    return count


def _context(lines: Sequence[str], old: range, new: range, *, first: bool, last: bool) -> Iterator[Row | Gap]:
    head, tail = (0 if first else _CONTEXT), (0 if last else _CONTEXT)
    left_out = len(old) - head - tail
    for position, (number, other) in enumerate(zip(old, new, strict=True)):
        if position == head and left_out > 0:
            yield Gap(left_out)
        if position < head or position >= len(old) - tail:
            pieces = ((False, lines[number]),)
            yield Row(DifferentLine(number + 1, pieces), DifferentLine(other + 1, pieces), same=True)


def _line(lines: Sequence[str], index: int | None) -> DifferentLine | None:
    return None if index is None else DifferentLine(index + 1, ((True, lines[index]),))


def _changed(before: DifferentLine | None, after: DifferentLine | None, words: "_Words") -> Row:
    if before is None or after is None:
        return Row(before, after, same=False)
    old, new = words.compare(before.pieces[0][1], after.pieces[0][1])
    return Row(replace(before, pieces=old), replace(after, pieces=new), same=False)


@dataclass(slots=True)
class _Words:
    """Compares the words of lines until that has been enough."""

    left: int = _MAX_WORD_STEPS

    def compare(self, before: str, after: str) -> tuple[Pieces, Pieces]:
        """Both lines in pieces; each as one piece where they have little in common."""
        old, new = _WORD.findall(before), _WORD.findall(after)
        self.left -= len(old) * len(new) * min(len(old), len(new))
        whole = ((True, before),), ((True, after),)
        if self.left < 0:
            return whole
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        if matcher.quick_ratio() < 0.4:
            return whole
        codes = matcher.get_opcodes()
        return (
            tuple((kind != "equal", "".join(old[a:b])) for kind, a, b, _, _ in codes if a < b),
            tuple((kind != "equal", "".join(new[c:d])) for kind, _, _, c, d in codes if c < d),
        )


_MAX_BYTES, _MAX_ROWS, _MAX_LINE = 2**20, 1_500, 500
_TABLE = Markup(
    '<table class="difference"><caption>{}</caption><thead><tr><th scope="col" colspan="2">Before</th>'
    '<th scope="col" colspan="2">After</th></tr></thead><tbody>{}</tbody></table>'
)
_GAP = Markup('<tr class="gap"><td colspan="4">… {} lines are the same …</td></tr>')
_ROW = Markup('<tr class="{}">{}{}</tr>')
_SIDE = Markup('<td class="at {0}">{1}</td><td class="{0}">{2}</td>')
_EMPTY = Markup('<td class="at empty"></td><td class="empty"></td>')


def show_difference(before: bytes | None, after: bytes | None, name: str) -> Markup:
    """The difference between two versions; None is a file that was not there. Bounded in time and size."""
    if before == after:
        return _sentence(f"{name}: nothing changed")
    if reason := _reason_against(before) or _reason_against(after):
        return _sentence(f"{name}: {reason}; {_sizes(before, after)}")
    shown = list(islice(compare_lines(*_comparable(before or b"", after or b"")), _MAX_ROWS + 1))
    table = _TABLE.format(
        _difference_line(f"{name}: {_sizes(before, after)}"), Markup().join(map(_row, shown[:_MAX_ROWS]))
    )
    if len(shown) > _MAX_ROWS:
        table += _sentence(f"There is more of it than these {_MAX_ROWS:,} lines.")
    return table


def _sentence(text: str) -> Markup:
    return Markup('<p class="rest">{}</p>').format(_difference_line(text))


def _sizes(before: bytes | None, after: bytes | None) -> str:
    sizes = ("not there" if each is None else f"{len(each):,} bytes" for each in (before, after))
    return "{} before, {} after".format(*sizes)


def _reason_against(content: bytes | None) -> str | None:
    if content is None:
        return None
    if b"\0" in content[:_MAX_BYTES]:
        return "binary, so no lines are compared"
    return f"more than {_MAX_BYTES:,} bytes, so no lines are compared" if len(content) > _MAX_BYTES else None


def _comparable(before: bytes, after: bytes) -> tuple[list[str], list[str]]:
    """The lines of both, in which ends of lines can be seen where they are a part of the difference."""
    old, new = (content.decode("utf-8", "replace") for content in (before, after))
    if ("\r\n" in old) != ("\r\n" in new):
        old, new = (text.replace("\r\n", "␍\n") for text in (old, new))
    if old and new and old.endswith("\n") != new.endswith("\n"):
        old, new = (text if text.endswith("\n") else f"{text} ⟨no newline at the end⟩" for text in (old, new))
    return _split(old), _split(new)


def _split(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _row(row: Row | Gap) -> Markup:
    if isinstance(row, Gap):
        return _GAP.format(f"{row.lines:,}")
    kind = "same" if row.same else "changed"
    looks = ("", "") if row.same else ("old", "new")
    return _ROW.format(kind, _side(row.before, looks[0]), _side(row.after, looks[1]))


def _side(side: DifferentLine | None, look: str) -> Markup:
    if side is None:
        return _EMPTY
    marks = Markup("<del>{}</del>") if look == "old" else Markup("<ins>{}</ins>")
    some = len(side.pieces) > 1  # where all of a line changed, its colour says so
    pieces = (
        (marks if changed and some else Markup("{}")).format(_difference_line(text)) for changed, text in side.pieces
    )
    return _SIDE.format(look, side.number, Markup().join(pieces))


def _difference_line(text: str) -> str:
    cut = text if len(text) <= _MAX_LINE else f"{text[:_MAX_LINE]}… ({len(text) - _MAX_LINE:,} characters more)"
    return " ".join(harmless_lines(cut))
