"""What changed between two versions of a file: side by side where there is room, with the words that changed marked."""

from itertools import islice

from markupsafe import Markup

from seatrial.report.text import harmless_lines
from seatrial.view.rendering.changed_lines import DifferentLine, Gap, Row, compare_lines

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
    table = _TABLE.format(_line(f"{name}: {_sizes(before, after)}"), Markup().join(map(_row, shown[:_MAX_ROWS])))
    if len(shown) > _MAX_ROWS:
        table += _sentence(f"There is more of it than these {_MAX_ROWS:,} lines.")
    return table


def _sentence(text: str) -> Markup:
    return Markup('<p class="rest">{}</p>').format(_line(text))


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
    pieces = ((marks if changed and some else Markup("{}")).format(_line(text)) for changed, text in side.pieces)
    return _SIDE.format(look, side.number, Markup().join(pieces))


def _line(text: str) -> str:
    cut = text if len(text) <= _MAX_LINE else f"{text[:_MAX_LINE]}… ({len(text) - _MAX_LINE:,} characters more)"
    return " ".join(harmless_lines(cut))
