"""A file of a stranger as HTML, by its format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from seatrial.untrusted.files import BoundedContent
from seatrial.view import archives, documents
from seatrial.view.content import (
    Kind,
    RawAddress,
    find_kind,
    show_text,
)
from seatrial.view.documents import lexer_for_file, show_bytes, show_code, show_markdown, show_notebook

_Shown = tuple[Markup, str]


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file for a page: of which kind it is, what to show of it, and what a reader must know about that."""

    kind: Kind
    html: Markup
    note: str = ""


def show_file(name: str, content: BoundedContent, raw: RawAddress | None = None) -> ShownFile:
    """What a page shows of a file. Never raises, whatever the bytes are; the HTML is bounded, and runs nothing.

    `raw` is where its bytes are, if they have an address: pictures and documents too large for the page are shown
    from there.
    """
    kind = find_kind(name, content)
    try:
        html, note = _SHOWN_BY[kind](name, content, raw)
    # The one place where foreign readers meet arbitrary bytes; what they raise on them is not documented.
    except Exception as error:  # noqa: BLE001 - see above
        reason = str(error).encode("utf-8", "backslashreplace").decode()[:200]
        html, note = _bytes(name, content, raw)
        note = f"cannot be read as {kind}: {type(error).__name__}: {reason}; {note}"
    if not content.whole and "left out" not in note:
        note = "; ".join(filter(None, (note, f"{content.left_out:,} of {content.size:,} bytes are left out")))
    return ShownFile(kind, html, note)


def _text(_: str, content: BoundedContent, __: RawAddress | None) -> _Shown:
    return show_text(content.text()), ""


def _code(name: str, content: BoundedContent, _: RawAddress | None) -> _Shown:
    return show_code(content.text(), lexer_for_file(name)), ""


def _bytes(_: str, content: BoundedContent, __: RawAddress | None) -> _Shown:
    return show_bytes(content.head), f"the beginning of {content.size:,} bytes that are no text"


def _content(show: Callable[[BoundedContent], _Shown]) -> Callable[[str, BoundedContent, RawAddress | None], _Shown]:
    return lambda _, content, __: show(content)


_SHOWN_BY: Mapping[Kind, Callable[[str, BoundedContent, RawAddress | None], _Shown]] = {
    "text": _text,
    "code": _code,
    "binary": _bytes,
    "json": _content(documents.show_json),
    "jsonl": _content(documents.show_json_lines),
    "csv": _content(lambda content: documents.show_rows(content, ",")),
    "tsv": _content(lambda content: documents.show_rows(content, "\t")),
    "markdown": _content(lambda content: show_markdown(content.text())),
    "notebook": _content(show_notebook),
    "zip": _content(archives.list_zip),
    "tar": _content(archives.list_tar),
    "html": documents.show_html,
    "svg": documents.show_svg,
    "image": documents.show_picture,
    "pdf": documents.show_pdf,
}
